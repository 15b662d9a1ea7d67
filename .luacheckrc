-- .luacheckrc -- what luacheck reports: faults, not style. Run it as `luacheck .` here; ctest does too.
std = 'luajit'
max_line_length = 120
exclude_files = {'build*', 'docs'}
read_globals = {os = {fields = {exit = {read_only = false}}}, -- the profiler ends its recording there
  io = {fields = {read = {read_only = false}}}, -- a notebook asks its reader
  -- the words of grid kernels
  'grid', 'thread_idx', 'block_idx', 'block_dim', 'grid_dim', 'shared', 'private', 'barrier', 'atomic_add', 'atomic_min',
  'atomic_max', 'atomic_exchange', 'atomic_cas', 'constant', 'lane', 'warp_sum', 'warp_max', 'warp_min', 'shuffle_down', 'shuffle_xor'}
-- Arguments say what a function is called with, whether it reads them or not.
unused_args = false
self = false
ignore = {
  '542', -- an empty branch with its reason as a comment
  '431', -- an inner name of an outer one, as in `local function get(object, key)`
  '512', -- a loop whose first round ends it, where its beginning is what is tested
  '581', -- not (x <= y) is true where one is NaN
}
-- Tests keep tensors alive, or let them go, by variables that nothing reads; many have an x of their own.
files['tests'] = {globals = {'arg'}, ignore = {'122', '142', '143', '213', '231', '241', '311', '411', '421', '423', '431', '432'}}
files['bindings/lua/script/start.lua'] = {ignore = {'121', '122'}} -- it changes Lua's own functions
files['bindings/lua/script/debugger.lua'] = {globals = {'arg'}}
files['tests/lua/test_kernel.lua'] = {ignore = {'421', '432'}} -- shadowed names are tested
