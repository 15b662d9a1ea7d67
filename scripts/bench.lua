-- bench.lua -- the time of every operation and of whole jobs, alone or beside a peer
--
--   mtorch scripts/bench.lua --peer torch --save now.tsv
--   mtorch scripts/bench.lua --only '^relu/,^add/' --compare before.tsv
--   mtorch scripts/bench.lua --device cuda --peer torch
--   mtorch scripts/bench.lua --only '^matmul/' --peer cblas --sittings 5
--
-- Prints `name<TAB>microseconds`. Rows are those of peers/bench_torch.py: <op>/<size> of 1-D
-- float32 values in 0.5..1.5, _rows along the last dimension of a 1024 x 1024 matrix and _cols
-- along the first, matmul/MxKxN. Each is the median of 7 runs of 5 ms, or of one call if that is
-- longer. A ratio is the other time / ours. With --sittings the peer and we take turns, and a row is
-- the median of them. On a GPU a run ends when the GPU has done its calls, and
-- there are more rows: launch/<op> (what a call costs Lua, without waiting), 64 Mi elements, larger
-- products, with the copy back too, and the filter of a 1000 x 2000 image. own_*: functions that people write
-- themselves, with the peers torch_compile and numba too; <op>/64Ki, <op>_back: functions and gradients of ours
-- (bench_functions.lua). step_*: training steps
-- (bench_networks.lua). conv_*, max_pool and avg_pool: bench_convolutions.lua.
local mt = require 'mtorch'
local core = require 'mtorch.core'
local ffi = require 'ffi'
local bench_table = require 'bench_table'

ffi.cdef [[
int posix_spawnp(int *pid, const char *file, const void *, const void *,
                 char *const argv[], char *const env[]);
int waitpid(int pid, int *status, int options);
extern char **environ;
]]

local sizes = {{'4', 4}, {'1Ki', 1024}, {'1Mi', 1024 * 1024}}
local matmuls = {'10x2x100', '10x100x100', '10x100x1', '32x32x32', '64x64x64', '128x128x128',
                 '256x256x256', '512x512x512', '1024x1024x1024', '1x1024x1024', '5x784x10',
                 '50000x784x10', '64x784x128'}
-- tn: the memory holds the transpose of the first operand; nt: of the second; tt: of both.
for _, name in ipairs {'10x100x100', '64x784x128', '128x128x128', '512x512x512', '1024x1024x1024'} do
  for _, layout in ipairs {'nt_', 'tn_', 'tt_'} do matmuls[#matmuls + 1] = layout .. name end
end
for _, name in ipairs {'nt_1x1024x1024', 'nt_50000x784x10', 'tn_784x50000x10'} do
  matmuls[#matmuls + 1] = name
end
-- Arguments that are plain numbers in the peers' rows, by position.
local numbers = {clamp = {[2] = 0.7, [3] = 1.2}, lerp = {[3] = 0.3}, polygamma = {[2] = 1}}

local folder = arg[0]:match('^(.*/)') or ''
local program = arg[0]
for i = -1, -100, -1 do program = arg[i] or program end

local options = mt.args {
  {'only', '', 'rows that match one of these Lua patterns', metavar = 'PATTERN,..'},
  {'quick', false, 'short runs: whether it works, no figures'},
  {'threads', 1, 'threads of the CPU, of the peer too', min = 1},
  {'peer', {'none', 'torch', 'torch_compile', 'numba', 'numpy', 'cblas'}, 'what is timed beside it'},
  {'sittings', 1, 'how often peer and program take turns; the median counts', type = 'int', min = 1},
  {'save', '', 'file for the rows (.tsv)', metavar = 'FILE'},
  {'compare', '', 'file of rows to compare with', metavar = 'FILE'},
  {'plot', '', 'chart of the ratios (.svg, .png)', metavar = 'FILE'},
  {'format', {'plain', 'markdown'}, 'how the table is written'},
}

local function say(sentence, ...)
  mt.progress.close()
  io.stderr:write('mtorch: bench.lua: ', sentence:format(...), '\n')
end

local function quit(...)
  say(...)
  os.exit(1)
end

-- ---- taking a time ----

local function median(list)
  table.sort(list)
  local n = #list
  return (list[math.floor((n + 1) / 2)] + list[math.ceil((n + 1) / 2)]) / 2
end

local on_gpu = options.device ~= 'cpu'
local function wait() if on_gpu then core.synchronize(options.device) end end

local function run(call, loops)
  local began = core.time()
  for _ = 1, loops do call() end
  wait()
  return core.time() - began
end

--- The time of one call. The warm-up is long enough for the memory of results to be reused.
local function seconds_of(call)
  local runs, least, warm = options.quick and 3 or 7, options.quick and 1e-3 or 5e-3, 5e-2
  jit.flush() -- the loop would keep the traces of earlier rows and be slower for each
  collectgarbage()
  local began, loops, taken = core.time(), 1
  repeat
    taken = run(call, loops)
    if taken < least then
      loops = math.max(2 * loops, math.floor(1.2 * loops * least / taken))
    end
  until taken >= least and core.time() - began > warm
  local times = {}
  for i = 1, runs do times[i] = run(call, loops) / loops end
  return median(times)
end

-- ---- rows: {name=, group=, prepare=}; prepare() gives the function to time, or its seconds ----

local rows, groups = {}, {}

--- Whether --only, patterns or beginnings of names with commas between, names this row.
local function selected(name)
  for part in (options.only .. ','):gmatch('([^,]*),') do
    local ok, at = pcall(string.find, name, part) -- a beginning need not be a Lua pattern
    if ok and at or name:sub(1, #part) == part then return true end
  end
  return false
end

local function row(name, group, prepare)
  if not selected(name) then return end
  rows[#rows + 1] = {name = name, prepare = prepare}
  if not groups[group] then
    groups[#groups + 1], groups[group] = group, {}
  end
  table.insert(groups[group], rows[#rows])
end

local function uniform(lo, hi, ...) return mt.rand(...) * (hi - lo) + lo end
local function safe(...) return uniform(0.5, 1.5, ...) end

--- A function that calls f with these arguments.
local function bound(f, ...)
  local n, a, b, c = select('#', ...), ...
  if n == 1 then return function() return f(a) end end
  if n == 2 then return function() return f(a, b) end end
  if n == 3 then return function() return f(a, b, c) end end
  local all = {...}
  return function() return f(unpack(all, 1, n)) end
end

local function operation(op, n)
  local f, given, arguments = mt[op.name], numbers[op.name] or {}, {}
  local lo, hi = math.max(op.lo, 0.5), math.min(op.hi, 1.5)
  if lo >= hi then lo, hi = op.lo, op.hi end
  for i = 1, op.inputs do
    arguments[i] = given[i] or op.accepts == 'integer' and mt.randint(0, 9, {n}) or
                       uniform(lo, hi, n)
  end
  if op.mask_first then arguments[1] = mt.rand(n):lt(0.5) end
  for i = op.inputs + 1, op.inputs + #op.params do arguments[i] = given[i] end
  if not pcall(f, unpack(arguments)) then -- a parameter has no default
    for i = op.inputs + 1, op.inputs + #op.params do arguments[i] = 0.5 end
  end
  return bound(f, unpack(arguments))
end

local function elementwise_rows()
  local names = {}
  for i, op in ipairs(core.operations()) do names[i] = op.name end
  for _, size in ipairs(sizes) do
    for i, name in ipairs(names) do
      -- The description is asked for again, not kept: what rows keep, the collector walks.
      row(name .. '/' .. size[1], 'elementwise, ' .. size[1], function()
        return operation(core.operations()[i], size[2])
      end)
    end
  end
end

--- Rows of one size and along the dimensions of a matrix, of functions that are called f(x, dim).
local function rows_of(name, sized, along, arguments, uniform_in)
  for _, size in ipairs(sized) do
    row(name .. '/' .. size[1], 'reductions', function()
      return bound(mt[name], uniform_in(size[2]), unpack(arguments))
    end)
  end
  if not along then return end
  for dim, which in ipairs {'_cols', '_rows'} do
    row(name .. which .. '/1Mi', 'reductions', function()
      return bound(mt[name], uniform_in(1024, 1024), dim, unpack(arguments, 2))
    end)
  end
end

local function reduction_rows()
  for _, op in ipairs(core.reductions()) do
    local lo, hi = math.max(op.lo, 0.5), math.min(op.hi, 1.5)
    rows_of(op.name, sizes, true, op.scan and {1, unpack(op.values)} or {}, function(...)
      return uniform(lo, hi, ...)
    end)
  end
  for _, name in ipairs {'mean', 'max', 'min'} do
    rows_of(name, sizes, name == 'max', {}, safe)
  end
  for _, name in ipairs {'norm', 'median', 'sort'} do
    rows_of(name, {sizes[3]}, name ~= 'norm', {}, safe)
  end
  for _, name in ipairs {'softmax', 'log_softmax'} do rows_of(name, {}, true, {}, safe) end
  row('topk/1Mi', 'reductions', function() return bound(mt.topk, safe(1024 * 1024), 100) end)
  row('topk_rows/1Mi', 'reductions', function() return bound(mt.topk, safe(1024, 1024), 10, 2) end)
end

local function movement_rows()
  local n = 1024
  local function move(name, prepare) row(name .. '/1Mi', 'movement', prepare) end
  local function add(x, y) return x + y end
  move('softmax', function() return bound(mt.softmax, safe(n, n), 2) end)
  move('copy_t', function()
    return bound(function(x) return x:t():contiguous() end, safe(n, n))
  end)
  move('add_row', function() return bound(add, safe(n, n), safe(n)) end)
  move('add_col', function() return bound(add, safe(n, n), safe(n, 1)) end)
  move('gather', function() return bound(mt.gather, safe(n, n), 2, mt.randint(1, n, {n, n})) end)
  move('scatter_add', function()
    return bound(mt.scatter_add, mt.zeros(n, n), 2, mt.randint(1, n, {n, n}), safe(n, n))
  end)
  move('index_select', function()
    return bound(mt.index_select, safe(n, n), 1, mt.randint(1, n, {n}))
  end)
  move('index_add', function()
    local x, at, source = mt.zeros(n, n), mt.randint(1, n, {n}), safe(n, n)
    return function() return mt.index_add(x, 1, at, source) end
  end)
  move('masked_select', function()
    return bound(mt.masked_select, safe(n, n), mt.rand(n, n):lt(0.5))
  end)
  move('bincount', function() return bound(mt.bincount, mt.randint(1, n, {n * n})) end)
  move('layer_norm', function()
    local x, weight, bias = safe(n, n), safe(n), safe(n)
    return function() return mt.layer_norm(x, {n}, weight, bias) end
  end)
  for _, which in ipairs {'', '_eval'} do
    move('batch_norm' .. which, function()
      local x, c, training = safe(16, 64, 32, 32), 64, which == ''
      local rm, rv, weight, bias = safe(c), safe(c), safe(c), safe(c)
      return function() return mt.batch_norm(x, rm, rv, weight, bias, training) end
    end)
  end
  move('cat', function() return bound(mt.cat, {safe(n / 2, n), safe(n / 2, n)}, 1) end)
  move('rand', function() return bound(mt.rand, n * n) end)
  move('randn', function() return bound(mt.randn, n * n) end)
end

local function product_rows()
  for _, name in ipairs(matmuls) do
    local layout, m, k, n = name:match('^(%a*)_?(%d+)x(%d+)x(%d+)$')
    m, k, n = tonumber(m), tonumber(k), tonumber(n)
    row('matmul/' .. name, 'products', function()
      local a = layout:match '^t' and safe(k, m):t() or safe(m, k)
      return bound(mt.matmul, a, layout:match 't$' and safe(n, k):t() or safe(k, n))
    end)
  end
end

--- A step of every optimizer: one parameter of 64 Ki elements, and six of 4 to 64.
local function optimizer_rows()
  for _, size in ipairs {'4', '64Ki'} do
    for _, info in ipairs(core.optimizers()) do
      row(('%s/%s'):format(info.name, size), 'optimizers, ' .. size, function()
        local list = {}
        for i, n in ipairs(size == '4' and {4, 64, 8, 64, 16, 4} or {65536}) do
          list[i] = safe(n):requires_grad_()
          list[i].grad = uniform(-1, 1, n)
        end
        local opt = mt.optim[info.name](list, {lr = 1e-6})
        return function() opt:step() end
      end)
    end
  end
end

-- ---- whole jobs ----

local function chain()
  local x, y = safe(4):requires_grad_(), safe(4)
  return function()
    x.grad = nil;
    (x + y):relu():sum():backward()
  end
end

local function split_epoch()
  local script = folder .. 'train_split.lua'
  local file = io.open(script) or error(script .. ' is not there', 0)
  file:close()
  local ok, last = bench_table.run_program {
    program, script, '--hidden', '100', '--dataset', 'split', '--rate', '0.05', '--epochs',
    options.quick and '50' or '500', '--seed', '1', '--threads', tostring(options.threads),
    '--device', options.device,
  }
  local ms = tonumber(last:match('ms_per_epoch=([%d.]+)'))
  if not (ok and ms) then error('train_split.lua ended with: ' .. last, 0) end
  return ms / 1e3
end

local function startup()
  local argv = ffi.new('const char *[4]', program, '-e', '')
  local pid, status, times = ffi.new('int[1]'), ffi.new('int[1]'), {}
  for i = 1, options.quick and 5 or 20 do
    local began = core.time()
    local failed = ffi.C.posix_spawnp(pid, program, nil, nil, ffi.cast('char *const *', argv),
                                      ffi.C.environ)
    if failed == 0 then ffi.C.waitpid(pid[0], status, 0) end
    times[i] = core.time() - began
    if failed ~= 0 or status[0] ~= 0 then error("cannot run " .. program .. " -e ''", 0) end
  end
  return median(times)
end

-- Views of 16 x 512 each, all of a tensor, summed with different weights: the time of all of them.
local views = {
  select = function(x, n) return x:view(n, 16, 512), function(y, i) return y:select(1, i) end end,
  narrow = function(x) return x, function(y, i) return y:narrow(1, 16 * i - 15, 16) end end,
  index = function(x, n) return x:view(16, n, 512), function(y, i) return y[{{}, i}] end end,
  unbind = function(x, n) return x:view(n, 16, 512):unbind() end,
  chunk = function(x, n) return x:chunk(n) end,
}
local function views_row(kind, n)
  return function()
    local x = safe(16 * n, 512):requires_grad_()
    return function()
      local parts, part = views[kind](x, n)
      local sum = 0
      for i = 1, n do sum = sum + (part and part(parts, i) or parts[i]) * (i / n) end
      x.grad = nil
      sum:sum():backward()
    end
  end
end

local function job_rows()
  for _, kind in ipairs{'select', 'narrow', 'index', 'unbind', 'chunk'} do
    for _, n in ipairs(options.quick and {16} or {16, 256, 4096}) do
      row(('views_%s/%d'):format(kind, n), 'whole jobs', views_row(kind, n))
    end
  end
  if not on_gpu then dofile(folder .. 'bench_functions.lua')(row, options.quick) end
  dofile(folder .. 'bench_networks.lua')(row, on_gpu)
  if not on_gpu then dofile(folder .. 'bench_convolutions.lua')(row, options.quick) end
  if not on_gpu then dofile(folder .. 'bench_data.lua')(row) end
  row('chain/4', 'whole jobs', chain)
  row('split_epoch/100', 'whole jobs', split_epoch)
  row('startup', 'whole jobs', startup)
end

local function peer_column(name)
  local runner, ending = os.getenv('MTORCH_PEER_PYTHON') or 'python3', '.py'
  if name == 'cblas' then runner, ending = program, '.lua' end
  local script = folder .. 'peers/bench_' .. name .. ending
  local words = {runner, script, '--threads', tostring(options.threads)}
  if options.quick then words[#words + 1] = '--quick' end
  if on_gpu then words[#words + 1] = '--device=' .. options.device end
  local names = {}
  for i, r in ipairs(rows) do names[i] = r.name end
  if options.only ~= '' or name == 'cblas' then words[#words + 1] = '--only=^(' .. table.concat(names, '|') .. ')$' end
  local column, last = bench_table.from_program(name, words, #rows)
  return column or quit('%s fails with %s (MTORCH_PEER_PYTHON names the Python): %s', script,
                        runner, last)
end

-- ---- from the options to the table ----

local function check_options()
  local with_ratio = options.peer ~= 'none' or options.compare ~= ''
  if on_gpu then mt.set_default_device(options.device) end
  numbers.prelu = {[2] = mt.full({1}, 0.25)}
  if options.plot ~= '' and not with_ratio then
    quit('--plot draws ratios; give --peer or --compare too')
  end
  if options.plot ~= '' and not options.plot:match('%.svg$') then
    quit("--plot writes SVG, so '%s' must end in .svg", options.plot)
  end
  for _, path in ipairs {options.save, options.plot} do
    if path ~= '' then core.check_writable('bench', path) end
  end
end

--- The peer's times and ours in turns: all sittings but the last, as {[name] = {us, ..}}.
local function earlier_sittings()
  local ours, theirs = {}, {}
  local function note(lists, name, us)
    lists[name] = lists[name] or {}
    table.insert(lists[name], us)
  end
  for _ = 2, options.sittings do
    local column = options.peer ~= 'none' and peer_column(options.peer)
    for name, us in pairs(column and column.times or {}) do note(theirs, name, us) end
    for _, r in ipairs(rows) do
      local ok, call = pcall(r.prepare)
      if ok and type(call) == 'function' then ok, call = pcall(seconds_of, call) end
      if ok then note(ours, r.name, call * 1e6) end
    end
  end
  return ours, theirs
end
local function median_with(lists, name, us)
  local all = lists[name] or {}
  table.insert(all, us)
  return median(all)
end

--- Times the rows and shows each as it comes, in the median with `before`; returns those that could
--- be measured.
local function measure_all(writer, before)
  local measured, bar = {}, mt.progress(#rows, {label = 'mtorch'})
  for _, r in ipairs(rows) do
    local ok, call = pcall(r.prepare)
    if ok and type(call) == 'function' then ok, call = pcall(seconds_of, call) end
    if not ok and tostring(call):match('interrupted!$') then error(call, 0) end
    if ok then
      r.us, measured[#measured + 1] = median_with(before, r.name, call * 1e6), r
      bar:print(writer:row(r.name, r.us))
    else
      say('skipped %s: %s', r.name, tostring(call))
    end
    bar:update()
  end
  return measured
end

local function main()
  check_options()
  if on_gpu then
    require 'bench_gpu' {row = row, safe = safe, bound = bound, median = median, wait = wait, options = options}
  end
  for _, add_rows in ipairs {elementwise_rows, reduction_rows, movement_rows, product_rows,
                             optimizer_rows, job_rows} do add_rows() end
  if #rows == 0 then quit("no row's name matches '%s'", options.only) end
  local others = {}
  if options.compare ~= '' then
    local before, trouble = bench_table.read(options.compare)
    others[1] = before or quit('%s', trouble)
  end
  local ours, theirs = earlier_sittings()
  if options.peer ~= 'none' then
    local column = peer_column(options.peer)
    for name, us in pairs(column.times) do column.times[name] = median_with(theirs, name, us) end
    table.insert(others, 1, column)
  end
  local writer = bench_table.writer(others, options.format == 'markdown')
  if #others > 0 or options.format == 'markdown' then print(writer:head()) end
  local measured = measure_all(writer, ours)
  for _, name in ipairs(options.only == '' and writer:missing(measured) or {}) do
    print(writer:row(name))
  end
  for _, group in ipairs(groups) do
    local mean = writer:mean(group, groups[group])
    if mean then print(mean) end
  end
  if options.save ~= '' then
    local header = ('mtorch %s, %d threads%s'):format(
      on_gpu and core.device_name(options.device) or core.isa(), options.threads,
                                                      options.quick and ', quick' or '')
    bench_table.write(options.save, header, measured)
  end
  if options.plot ~= '' then bench_table.plot(options.plot, measured, others[1]) end
end

main()
