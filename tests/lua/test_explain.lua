-- test_explain.lua -- mt.explain of compiled functions, reductions and built-in functions
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises

local printed
local print_before = print
--- Returns the text that mt.explain(...) prints.
local function explained(...)
  rawset(_G, 'print', function(text) printed = text end)
  local ok, text = pcall(mt.explain, ...)
  rawset(_G, 'print', print_before)
  if not ok then error(text, 0) end
  eq(printed, text)
  return text
end
local function has(text, ...)
  for _, pattern in ipairs{...} do
    if not text:find(pattern) then error(('no %q in %s'):format(pattern, text), 2) end
  end
end
local function lacks(text, pattern)
  if text:find(pattern) then error(('%q in %s'):format(pattern, text), 2) end
end

test('a compiled function: captured values, ways, operations, gradients', function()
  local k, flag, cfg, unread = 0.75, true, {list = {1, 2}}, 3
  local slope = mt.tensor(0.25)
  local f = mt.zip(function(a, b)
    local _ = unread * a
    local s = 2 * 3 * a * 1
    for i = 1, #cfg.list do s = s + cfg.list[i] end
    if flag and a > b then return math.exp(-a * a) * k + s end
    return math.exp(-a * a) + slope
  end)
  local text = explained(f, mt.randn(30, 40), mt.randn(40))
  has(text, 'zip of the function at [^\n]*test_explain.lua:%d+%-%d+\n',
    'traced: 2 tensors, 1 result, 2 ways through it, joined', "'k' = 0.75 is a parameter",
    "'cfg.list%[1%]' = 1 is a parameter", "'flag' = true is a guard", "'#cfg.list' = 2 is a guard",
    "'slope' is a 0%-d tensor", 'program: 11 operations %(4 add, 3 mul, 1 exp, 1 lt, 1 neg, 1 where%)',
    ' 2 such as x %* 1', 'gradient by input 1: %d+ operations', 'of 1200 elements', 'ran: ',
    'cpu run float32 %(30 x 40%) of 11 operations: ')
  lacks(text, 'unread')
  k, flag = 2, false
  text = explained(f, mt.randn(3), mt.randn(3))
  has(text, '1 way through it\n', "'flag' = false is a guard")
  lacks(text, "'k'")
  eq(unread, 3)
end)

test('without arguments a function is traced with its number of parameters', function()
  local text = explained(mt.map(function(a) return a * a end))
  has(text, 'traced: 1 tensor, 1 result, 1 way through it\n', 'program: 1 operation %(1 mul%)',
    'memory: 8 bytes an element read and written; one operation after the other: 12 bytes, 1.5 times')
  lacks(text, 'ran:')
  has(explained(mt.zip(function(a, b, c) return a * b * c end)), 'traced: 3 tensors',
    '16 bytes an element .* 24 bytes, 1.5')
end)

test('parallel loops, and from which size on', function()
  local before = mt.get_num_threads()
  mt.set_num_threads(2)
  local f = mt.map(function(a) return a * a + 1 end)
  local small, large = explained(f, mt.randn(32768)), explained(f, mt.randn(200000))
  mt.set_num_threads(before)
  local from = tonumber(large:match 'parallel from (%d+) elements on')
  assert(from > 32768 and from <= 200000, from)
  has(small, 'cpu run float32 %(32768%) of 2 operations: [^\n]*on the calling thread')
  has(large, 'cpu run float32 %(200000%) of 2 operations: [^\n]*7 pieces for 2 threads')
end)

test('the program and the machine code', function()
  local f = mt.map(function(a)
    return math.exp(a) * 2
  end)
  local line = debug.getinfo(1, 'l').currentline - 2
  has(explained(f, {show = 'program'}), '%%1 = exp %%0 +; line ' .. line .. '\n', 'the gradient by input 1:\n.*return')
  has(explained(f, mt.randn(5, 'float64'), {show = 'program'}), 'return %%')
  local text = explained(f, mt.ones(10000), {show = 'machine'})
  if text:find 'machine code %(AVX' then has(text, 'v%a+ps', 'line ' .. line)
  else has(text, 'no machine code of float32') end
  has(explained(f, mt.ones({4}, {dtype = 'int64'}), {show = 'machine'}), 'no machine code of int64')
  has(explained(f, mt.ones(4), {show = 'cuda'}), '__global__', 'line ' .. line)
end)

test('the CUDA C of a fused function', function()
  local f = mt.fuse(function(a) local e = (a - a:max(-1, true)):exp() return e / e:sum(-1, true) end)
  has(explained(f, mt.randn(400, 100), {show = 'cuda'}), 'CUDA C of cpu run float32 %(400 x 100%)', 'op_exp',
    '__shfl_xor_sync', '__global__')
end)

test('a loop whose end depends on an element', function()
  local x = mt.rand(50) * 100
  local halvings = mt.map(function(a)
    local n = 0
    while a > 1 do a, n = a / 2, n + 1 end
    return n
  end)
  has(explained(halvings, x), 'map of the function at', 'it runs as a grid kernel', 'cpu launch_grid ')
  raises(function() mt.explain(halvings, x, {show = 'program'}) end, 'is a kernel and has no program')
end)

test('reductions: those that are built in, and trees', function()
  local x = mt.randn(50, 40)
  has(explained(mt.reduce(function(a, b) return a + b end, 0), x, 2), 'reduce of the function at',
    'f is sum; the loops', 'cpu reduce sum float32 %(50 x 40%)')
  local text = explained(mt.reduce(function(a, b) return math.max(a, b) end, -math.huge), x)
  has(text, 'a tree of pairs, 11 levels over 2000 elements', 'in blocks that stay in cache')
end)

test('a convolution names its kernel: its own with one channel, oneDNN\'s from 16 on where it is', function()
  local x, w = mt.randn(16, 16, 14, 14), mt.randn(32, 16, 3, 3):requires_grad_()
  local function gradient() return mt.conv2d(x, w):sum():backward() end
  local text = explained(gradient)
  local call = 'cpu conv float32 %(16 x 16 x 14 x 14%) by %(32 x 16 x 3 x 3%)'
  if text:find 'oneDNN' then
    has(text, call .. ", oneDNN's [%w_:]+: ", call .. " for the weight, oneDNN's [%w_:]+: ")
  else
    has(text, call .. ": mtorch's own kernel", call .. " for the weight: mtorch's own kernel")
  end
  eq(text:find 'oneDNN' ~= nil and os.getenv 'MTORCH_ONEDNN' == 'off', false)
  has(explained(mt.conv2d, mt.randn(8, 1, 99, 99), mt.randn(16, 1, 3, 3)), "16 x 1 x 3 x 3%): mtorch's own kernel")
  local function depthwise() return mt.conv2d(mt.randn(8, 32, 30, 30), mt.randn(32, 1, 3, 3), {groups = 32}) end
  has(explained(depthwise), "32 x 1 x 3 x 3%): mtorch's own kernel")
end)

test('functions that are not compiled: verbs, threads, the kernel of a product', function()
  local before = mt.get_num_threads()
  mt.set_num_threads(2)
  local a, b = mt.randn(300, 300), mt.randn(300, 300)
  local wide = mt.randn(1000, 1000)
  for _ = 1, 2 do wide:matmul(wide) end -- from then on oneDNN is used
  local large, small = explained(mt.matmul, wide, wide), explained(mt.matmul, a:narrow(1, 1, 4), b)
  mt.set_num_threads(before)
  has(large, 'mt.matmul: run once\n', 'cpu matmul float32 %(1000 x 1000%) by %(1000 x 1000%): %w+ %(%d products?%), ' ..
    '%d+ pieces for 2')
  local library = large:match '%): (%w+) %('
  eq(library == 'oneDNN' or library == 'OpenBLAS', true)
  has(small, "%(4 x 300%) by %(300 x 300%): mtorch's own kernel, ")
  has(explained(mt.relu, a), 'mt.relu: run once', '1 verb on', 'cpu map relu float32 %(90000%): ')
  has(explained(function(x) return (x * 2 + 1):sum() end, a), 'the function at [^\n]*test_explain.lua:%d+: run once',
    '3 verbs on', 'map mul', 'map add', 'reduce sum')
  local fused = mt.fuse(function(x) return (x * 2 + 1):sum(2) end)
  has(explained(fused, a), 'fuse of the function at', 'cpu run float32 %(300 x 300%) of %d operations by rows',
    'one operation after the other: [^\n]*3 verbs')
  has(explained(fused, a, {show = 'program'}), 'program of cpu run .*\n%%0 = input 1\n.*row sum')
  has(explained(fused, mt.ones(3, 4)), '3 verbs on', 'not fused:\n',
    'test_explain.lua:%d+: mul: 12 elements, fewer than')
end)

test('what mt.fuse does not fuse, its line and why', function()
  local x = mt.randn(1000, 1000)
  local function why(f, ...)
    local text = explained(mt.fuse(f), ...)
    return text:match 'not fused:\n  [^\n]*test_explain.lua:%d+: ([^\n]*)' or
      text:match 'not fused: ([^\n]*)' or text
  end
  local function gives(f, expected, ...) eq(why(f, ...), expected) end
  eq(explained(mt.fuse(function(a) return a - a:mean(-1, true) end), x):find 'not fused', nil)
  gives(function(a) local s = a:sum(1) return a / s end, 'sum: it is not along the last dimension alone', x)
  gives(function(a) local p = a:prod(-1, true) return a / p end,
    'prod: of reductions sum, mean, amax, amin, logsumexp, var and std are fused, and max and min without ' ..
      'a gradient', x)
  gives(function(a) local y = a * 2 return y + 1 end, 'mul: floats are fused, not int64', x:long())
  gives(function(a) local m = a:amax(-1, true) return a - m end, 'amax: rows of 20000 elements; 2 to 16384 are fused',
    mt.randn(50, 20000))
  gives(function(a) local y = a:sum(-1) local z = y:sum(-1) return z end, 'sum: 400 elements, fewer than 32768',
    mt.randn(400, 1000))
  gives(function(a) local m = a:long():gt(0) return mt.where(m, a, 0) end, 'gt: floats are fused, not int64', x)
  gives(function(a) return a + os.clock() * 0 end, "it uses 'os', which a replay would not repeat", x)
  gives(function(a, list) return a * list[1] end, 'argument 2 is a table; pass tensors and numbers', x, {2})
  local total = mt.zeros(1)
  gives(function(a) mt.no_grad(function() total:add_(a:sum()) end) return a * 2 end,
    'it changes a tensor from outside in place', x)
  local count = 0
  gives(function(a) count = count + 1 return a * 2 end, "it changes what it captures: 'count' was 0 and is 1", x)
  gives(function(a) a:add_(1) return a * 2 end, 'it changes an argument in place', x:clone())
end)

test('grid kernels', function()
  local k = mt.kernel(function(x, y)
    local i = grid(1) -- luacheck: ignore
    if i <= #x then y[i] = x[i] * 2 end
  end)
  local x, y = mt.randn(1000), mt.empty(1000)
  has(explained(k:over(x), x, y), 'a launch of kernel k: run once', 'cpu launch_grid ')
  eq(y:equal(x * 2), true)
  has(explained(k, {show = 'cuda'}), '__global__')
  raises(function() mt.explain(k, {show = 'machine'}) end, "explain: of a kernel there is {show='cuda'}")
end)

test('the log and a recording continue', function()
  local rows = mt.profile(function()
    explained(mt.relu, mt.ones(4))
    return mt.ones(4):exp()
  end, {quiet = true})
  local names = {}
  for _, row in ipairs(rows) do names[row.name] = true end
  assert(names['cpu: map exp'] and names['cpu: map relu'], 'the recording lost what came after')
end)

test('wrong arguments', function()
  raises(function() mt.explain(3) end, 'explain: it takes a function, got 3')
  raises(function() mt.explain(mt.relu, mt.ones(2), {show = 'machine'}) end, "show='machine' is for compiled functions")
  raises(function() mt.explain(mt.map(function(a) return a end), {show = 'poem'}) end,
    "explain: show must be 'cuda', 'machine' or 'program', got the string 'poem'")
  raises(function() mt.explain(mt.relu, mt.ones(2), {shows = 1}) end, "unknown option 'shows': did you mean 'show'?")
  raises(function() mt.explain(mt.map(function(a) return a end), 'x') end, 'map: argument 1 must be')
  raises(function() mt.explain(mt.map(function(a) return print(a) end)) end, 'map: print in a compiled function')
end)

test('a launch of a grid kernel: its name, and its CUDA C', function()
  local doubled = mt.kernel(function(x)
    local i = grid(1)
    if i <= #x then x[i] = x[i] * 2 end
  end)
  local x = mt.ones(40)
  local text = explained(doubled:over(x), x)
  assert(text:find('a launch of kernel doubled: run once', 1, true) and text:find 'launch_grid', text)
  assert(not text:find '__global__')
  text = explained(doubled[{1, 64}], x, {show = 'cuda'})
  assert(text:find('__global__ void grid_doubled', 1, true), text)
end)

t.finish()
