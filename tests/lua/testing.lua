-- testing.lua -- a small test library: t.test(name, fn), t.eq, t.near, t.raises, t.finish()
local mt = require 'mtorch'
local time = require('mtorch.core').time
local testing = {}

local count, failures = 0, 0

--- Formats a value for messages: tables by content, strings quoted.
local function show(value, depth)
  if type(value) == 'string' then return ('%q'):format(value) end
  if type(value) ~= 'table' or (depth or 0) > 3 then return tostring(value) end
  local parts = {}
  for key, item in pairs(value) do
    parts[#parts + 1] = tostring(key) .. '=' .. show(item, (depth or 0) + 1)
  end
  table.sort(parts)
  return '{' .. table.concat(parts, ', ') .. '}'
end

local function same(a, b)
  if a == b or (a ~= a and b ~= b) then return true end
  if type(a) ~= 'table' or type(b) ~= 'table' then return false end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

--- Deep equality; NaN equals NaN.
function testing.eq(a, b)
  if not same(a, b) then error(('got %s, expected %s'):format(show(a), show(b)), 2) end
end

--- Asserts |a - b| <= tol (default 1e-6) for numbers, or for the elements of two lists.
function testing.near(a, b, tol)
  if type(a) == 'table' and type(b) == 'table' then
    if #a ~= #b then error(('got %d values, expected %d'):format(#a, #b), 2) end
    for i = 1, #b do testing.near(a[i], b[i], tol) end
    return
  end
  local close = type(a) == 'number' and type(b) == 'number' and math.abs(a - b) <= (tol or 1e-6)
  if not close then error(('got %s, expected %s'):format(show(a), show(b)), 2) end
end

--- Asserts that fn() raises an error whose text matches the Lua pattern; returns the text.
function testing.raises(fn, pattern)
  local ok, message = pcall(fn)
  if ok then error(('no error, expected one like %q'):format(pattern), 2) end
  if not tostring(message):find(pattern) then
    error(('error %q is not like %q'):format(tostring(message), pattern), 2)
  end
  return tostring(message)
end

-- The default device of the test and of the processes that it starts; nil: the CPU.
testing.device = os.getenv 'TEST_DEVICE'
if testing.device then mt.set_default_device(testing.device) end

--- Starts n processes of the running test file, with the arguments --process ..; returns a function that waits for them
--- and returns their output and 'status N'. `settings` are environment variables ('A=1').
function testing.start_processes(n, settings, ...)
  local program = arg[0]
  for i = -1, -100, -1 do program = arg[i] or program end
  local words = {}
  for i, word in ipairs{arg[0], '--process', ...} do words[i] = ("'%s'"):format(word) end
  local pipe = io.popen(("OMP_NUM_THREADS=1 ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 %s timeout -k 1 60 '%s' " ..
    '--processes %d %s 2>&1; echo status $?'):format(settings, program, n, table.concat(words, ' ')))
  return function()
    local text = pipe:read '*a'
    pipe:close()
    return text
  end
end
function testing.processes(...) return testing.start_processes(...)() end

--- Runs one test; a failure prints one line that begins with file:line. A test that takes longer than
--- MTORCH_SLOW_TEST seconds, if this variable is set, is printed too.
local slow = tonumber(os.getenv 'MTORCH_SLOW_TEST')
function testing.test(name, fn)
  count = count + 1
  local began = time()
  local ok, report = xpcall(fn, function(message)
    local text = tostring(message):gsub('\n', ' ')
    if text:find('^[^:]+:%d+: ') then return text end
    local info = debug.getinfo(2, 'Sl')
    return ('%s:%d: %s'):format(info.short_src, info.currentline, text)
  end)
  local seconds = time() - began
  if slow and seconds > slow then
    local _, gpu = pcall(function() return mt.cuda.memory_stats().reserved / 2 ^ 20 end)
    print(('slow: %.1f s: %s (GPU memory: %s MiB)'):format(seconds, name, gpu))
    io.flush()
  end
  if ok then return end
  if report:find('built without its compiler', 1, true) then return print('skipped: ' .. name .. ': no mt.map') end
  failures = failures + 1
  local position, text = report:match('^([^:]+:%d+: )(.*)$')
  print((position or '') .. name .. ': ' .. (text or report))
end

--- Asserts that fn's gradients of first and second order are right at these inputs. The emulated GPU is slow, and the
--- formulas are the CPU's: there it is the first order alone.
function testing.checks(fn, ...)
  testing.eq(mt.gradcheck(fn, {...}), true)
  if not testing.on_gpu() then testing.eq(mt.gradgradcheck(fn, {...}), true) end
end

--- Tests fn's gradients of first and second order at random float64 inputs of these sizes, contiguous
--- and with reversed strides.
function testing.gradients(name, fn, ...)
  local sizes = {...}
  testing.test('gradcheck: ' .. name, function()
    mt.manual_seed(7)
    local contiguous, reversed = {}, {}
    for i, size in ipairs(sizes) do
      contiguous[i] = mt.randn(size, 'float64'):requires_grad_()
      local reversed_size, order = {}, {}
      for d = 1, #size do reversed_size[d], order[d] = size[#size + 1 - d], #size + 1 - d end
      reversed[i] = mt.randn(reversed_size, 'float64'):permute(order):requires_grad_()
    end
    testing.checks(fn, unpack(contiguous))
    testing.eq(mt.gradcheck(fn, reversed), true)
  end)
end

--- Formats a number or nested lists so that different doubles differ; all NaNs are equal.
function testing.bits(value)
  if type(value) == 'table' then
    local parts = {}
    for i, item in ipairs(value) do parts[i] = testing.bits(item) end
    return '{' .. table.concat(parts, ' ') .. '}'
  end
  if value ~= value then return 'nan' end
  return type(value) == 'number' and ('%.17g'):format(value) or tostring(value)
end

--- Whether tensors on the CPU have the same dtype, shape and values: -0 is not 0, a NaN is like any other.
function testing.same_bits(a, b)
  if a.dtype ~= b.dtype or not mt.equal(mt.tensor(a.shape), mt.tensor(b.shape)) then return false end
  if not a.dtype:find 'float' then return mt.equal(a, b) end
  local both_nan = a:ne(a):logical_and(b:ne(b))
  local same = a:eq(b):logical_and(mt.signbit(a):eq(mt.signbit(b)))
  return same:logical_or(both_nan):all()
end

--- Formats a tensor's dtype, layout, gradient and values.
function testing.state(x)
  return table.concat({x.dtype, tostring(x.shape), tostring(x:stride()), x:storage_offset(),
    tostring(x.requires_grad), tostring(x.is_leaf), x.grad and testing.bits(x.grad:tolist()) or 'no grad',
    testing.bits(x:tolist())}, ' ')
end

--- Wraps fn so that the CPU is the default device, for calls that fail on a GPU, such as `x:data()`.
function testing.on_cpu(fn)
  return function()
    local before = mt.zeros(1).device
    mt.set_default_device('cpu')
    local ok, report = pcall(fn)
    mt.set_default_device(before)
    if not ok then error(report, 0) end
  end
end

--- Whether tensors are created on a GPU by default (on_device.lua). The emulated one computes a block at a time, so
--- that large tensors, which test the CPU's kernels, are made smaller.
function testing.on_gpu() return mt.zeros(1).device ~= 'cpu' end

--- Whether kernels run as machine code: not on Arm, and not in the variants that interpret them.
function testing.has_machine_code()
  return not os.getenv 'MTORCH_JIT' and require('mtorch.core').isa():find '^avx' ~= nil
end

--- Asserts that the tensors that fn() returns have the same bits with 1, 2, 3 and 8 threads of the CPU; returns them.
function testing.on_threads(fn)
  if testing.on_gpu() then return fn() end
  local before, first = mt.get_num_threads(), nil
  for _, n in ipairs{1, 2, 3, 8} do
    mt.set_num_threads(n)
    local results = {fn()}
    first = first or results
    for i, y in ipairs(results) do
      if not mt.equal(y, first[i]) then error(('result %d has other bits with %d threads'):format(i, n), 2) end
    end
  end
  mt.set_num_threads(before)
  return unpack(first)
end

--- Skips the test file, with the reason, if there is no GPU, not even an emulated one.
function testing.needs_cuda()
  local available, why = mt.cuda.is_available()
  if available then return end
  print('skipped: ' .. why)
  os.exit(0)
end

function testing.read_file(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read('*a')
  file:close()
  return text
end
--- Writes a new file, after removing an old one: truncating and rewriting a file makes ext4 wait for the disk.
function testing.write_file(path, text)
  os.remove(path)
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
  return path
end
--- Decodes hexadecimal digits, with blanks between them, to bytes.
function testing.unhex(text)
  return (text:gsub('%s', ''):gsub('%x%x', function(two) return string.char(tonumber(two, 16)) end))
end

--- Asserts the sizes of a tensor.
function testing.shape(x, ...)
  local list = {}
  for i, n in ipairs(x.shape) do list[i] = n end
  testing.eq(list, {...})
end

--- Returns a source of Park and Miller's random numbers (1988), equal on all machines, for random programs.
function testing.random_source()
  local source, state = {}, 1
  function source.seed(seed)
    state = seed * 7919 % 2147483646 + 1
    for _ = 1, 5 do source.below(2) end
  end
  function source.below(n) -- 0 .. n - 1
    state = (state * 16807) % 2147483647
    return math.floor(state / 2147483647 * n)
  end
  function source.between(low, high) return low + source.below(high - low + 1) end
  function source.one_of(list) return list[source.between(1, #list)] end
  function source.chance(percent) return source.below(100) < percent end
  return source
end

--- Whether CUDA C can be compiled here.
function testing.has_nvrtc()
  return (pcall(function() mt.cuda.kernel{source = '__global__ void f(int *x) {}', name = 'f'} end))
end

--- The path of the program that runs the test.
function testing.program() return require('mtorch.core').program.path() end

--- Runs a script in a new process and returns its output; `settings` are environment variables ('A=1').
function testing.run(settings, code)
  local script = os.tmpname()
  local file = assert(io.open(script, 'w'))
  file:write("local mt = require 'mtorch'\n", code)
  file:close()
  local pipe = io.popen(settings .. ' ' .. testing.program() .. ' ' .. script .. ' 2>&1')
  local text = pipe:read('*a')
  pipe:close()
  os.remove(script)
  return text
end

--- Returns a function that runs fn() and returns the increments of n counters of the emulated plug-in.
function testing.count_during(plugin, counter, n)
  local ffi = require 'ffi'
  ffi.cdef('int64_t ' .. counter .. '(int which);')
  local library = ffi.load(plugin)
  return function(fn)
    local increments = {}
    for i = 1, n do increments[i] = -tonumber(library[counter](i - 1)) end
    fn()
    for i = 1, n do increments[i] = increments[i] + tonumber(library[counter](i - 1)) end
    return increments
  end
end

--- Runs fn(); returns what it writes to stderr, and its first two results.
function testing.stderr_of(fn)
  local lines, stderr = {}, io.stderr
  io.stderr = {write = function(_, ...) lines[#lines + 1] = table.concat{...} end} -- luacheck: ignore 122
  local ok, a, b = pcall(fn)
  io.stderr = stderr -- luacheck: ignore 122
  if not ok then error(a, 0) end
  return table.concat(lines), a, b
end

--- Prints `N tests, M failed`; exits with status 1 if one failed or none ran.
function testing.finish()
  print(('%d tests, %d failed'):format(count, failures))
  if failures > 0 or count == 0 then os.exit(1) end
end

return testing
