-- test_workers.lua -- DataLoader with workers: the same bits, copies of functions, errors, exits, breaks
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local data = mt.data

local function bits(value)
  if mt.is_tensor(value) then return value.dtype .. tostring(value.shape) .. t.bits(value:tolist()) end
  if type(value) ~= 'table' then return type(value) .. tostring(value) end
  local parts = {}
  for key, inner in pairs(value) do parts[#parts + 1] = tostring(key) .. '=' .. bits(inner) end
  table.sort(parts)
  return '{' .. table.concat(parts, ',') .. '}'
end
--- Returns all batches of several epochs as texts.
local function batches(loader, epochs)
  local out = {}
  for _ = 1, epochs or 1 do
    for a, b, c in loader:iter() do out[#out + 1] = bits{a, b, c} end
  end
  return out
end
local function set_of(n, get) return {size = function() return n end, get = get} end
--- Returns the number of threads of the process.
local function threads()
  for line in io.lines '/proc/self/status' do
    local n = line:match '^Threads:%s*(%d+)'
    if n then return tonumber(n) end
  end
end

local scale, floor, rand = 3, math.floor, mt.rand
local table_of = {1, 2, {deep = 'yes'}}
local function helper(i) return floor(i * scale + 0.5) end

test('the same bits with 0, 1, 2 and 3 workers', function()
  local x = mt.randn(50, 3)
  local set = set_of(50, function(_, i)
    return x[i] + helper(i) + rand(3), math.random() + table_of[2], {name = 'n' .. i, deep = table_of[3].deep}
  end)
  local function run(workers, prefetch)
    return batches(data.DataLoader(set, {batch_size = 4, shuffle = true, seed = 5, workers = workers,
      prefetch = prefetch}), 2)
  end
  local want = run(0)
  eq(#want, 26)
  for workers = 1, 3 do eq(run(workers), want) end
  eq(run(2, 1), want)
  eq(run(2, 7), want)
  -- Sets of tensors, their parts, weighted samplers, collate functions with random numbers.
  local first = data.TensorDataset(x, mt.range(1, 50))
  local pairs_of = data.ConcatDataset{first, data.Subset(data.TensorDataset(x, x), {3, 4})}
  local function drawn(workers)
    return batches(data.DataLoader(pairs_of, {batch_size = 5, workers = workers, seed = 2,
      sampler = data.WeightedRandomSampler(mt.ones(50), 70),
      collate = function(examples) return #examples, examples[1][1] * rand({}), math.random() end}))
  end
  want = drawn(0)
  for workers = 1, 3 do eq(drawn(workers), want) end
end)

test('a set is a class with methods, upvalues that change, functions that call one another', function()
  local Set = {}
  Set.__index = Set
  function Set.new(n) return setmetatable({n = n, list = {}}, Set) end
  function Set:size() return self.n end
  local even, odd
  function even(i) return i == 0 or odd(i - 1) end
  function odd(i) return i ~= 0 and even(i - 1) end
  local count = 0
  local function more() count = count + 1 return count end
  function Set:get(i)
    more()
    return i, even(i), count > 0
  end
  local loader = data.DataLoader(Set.new(4), {batch_size = 4, workers = 2})
  eq(batches(loader), batches(data.DataLoader(Set.new(4), {batch_size = 4})))
  count = 0 -- a worker's own copy counted
  local strength = 1
  loader = data.DataLoader(set_of(2, function(_, i) return i * strength end), {workers = 2})
  eq(#batches(loader), 2)
  strength = 10 -- used in the next epoch
  eq(loader:iter()():item(), 10)
end)

test('tensors are shared, not copied', function()
  local x = mt.zeros(3)
  local loader = data.DataLoader(set_of(3, function(_, i) return x[i] end), {workers = 1})
  x:add_(7)
  eq(loader:iter()():item(), 7)
  local big = mt.zeros(1000, 1000)
  local before = mt.memory_stats().allocated
  loader = data.DataLoader(set_of(3, function(_, i) return big[i][1] end), {workers = 2})
  loader:iter()()
  assert(mt.memory_stats().allocated - before < 2e6)
end)

test('modules and globals', function()
  local nn = mt.nn
  rawset(_G, 'a_global', function(i) return i + 1 end)
  rawset(_G, 'unused', io.tmpfile())
  local linear = nn.Linear
  local set = set_of(2, function(_, i) return a_global(i), nn.Linear == linear end) -- luacheck: ignore 113
  eq(batches(data.DataLoader(set, {workers = 1})), batches(data.DataLoader(set)))
  set = set_of(2, function() return unused end) -- luacheck: ignore 113
  raises(function() data.DataLoader(set, {workers = 1}):iter()() end, "item 1: .*the global 'unused': it is a userdata")
  rawset(_G, 'a_global', nil)
  rawset(_G, 'unused', nil)
end)

test('functions of C++, and sets of the library that hold some', function()
  local relu, stack = mt.zeros(1).relu, mt.stack
  local exp = require('mtorch.core').loader().key -- a function that is not in a module
  local set = set_of(3, function(_, i) return relu(mt.full({2}, i - 2)), stack{mt.ones(1), mt.zeros(1)}, exp(i) end)
  eq(batches(data.DataLoader(set, {workers = 1})), batches(data.DataLoader(set)))
  local root = os.tmpname()
  os.remove(root)
  os.execute(('mkdir -p %s/a %s/b'):format(root, root))
  for i = 1, 6 do
    data.save_image(('%s/%s/%d.png'):format(root, i % 2 == 0 and 'a' or 'b', i), mt.full({1, 4, 5}, i * 10):to('uint8'))
  end
  local T = data.transforms
  for _, transform in ipairs{false, T.Compose{T.ToTensor(), T.RandomCrop(3)}} do
    local folder = data.folder(root, {transform = transform or nil})
    local function run(workers)
      return batches(data.DataLoader(folder, {batch_size = 4, shuffle = true, seed = 1, workers = workers}))
    end
    local want = run(0)
    eq(#want, 2)
    for workers = 1, 2 do eq(run(workers), want) end
  end
  os.execute('rm -r ' .. root)
end)

test('random numbers of get_batch, and of modules that workers load, do not affect the program', function()
  local set = {size = function() return 9 end, get = error,
    get_batch = function(_, p) return p + mt.rand(#p), math.random() end}
  local want = batches(data.DataLoader(set, {batch_size = 4, seed = 1}))
  eq(batches(data.DataLoader(set, {batch_size = 4, seed = 1, workers = 2})), want)
  local path = os.tmpname()
  local file = io.open(path, 'w')
  file:write "local mt = require 'mtorch' mt.manual_seed(1) mt.rand(1) return {one = function() return 1 end}"
  file:close()
  local before = package.path
  package.path = path:match '^(.*/)' .. '?;' .. before
  local module = require(path:match '[^/]+$')
  mt.manual_seed(4)
  local expected = {mt.rand(1):item(), mt.rand(1):item()}
  mt.manual_seed(4)
  local first = mt.rand(1):item()
  eq(#batches(data.DataLoader(set_of(3, function() return module.one() end), {workers = 1, seed = 1})), 3)
  eq({first, mt.rand(1):item()}, expected)
  package.path = before
  os.remove(path)
end)

test('compiled functions, tokenizers', function()
  local k = 3
  local f = mt.map(function(x) return x * x + k end)
  local total = mt.reduce(function(a, b) return a + b end, 0)
  local fused = mt.fuse(function(x) return (x * 2):sum() end)
  local letters = data.CharTokenizer 'hello world'
  local words = data.BPETokenizer{train = ('low lower newest '):rep(10), vocab_size = 270}
  local set = set_of(4, function(_, i)
    local x = mt.full({3}, i)
    return f(x), total(x) + fused(x), {letters = letters:encode 'hell', words = words:encode 'lower'}
  end)
  local want = batches(data.DataLoader(set, {batch_size = 2}))
  eq(#want, 2)
  eq(batches(data.DataLoader(set, {batch_size = 2, workers = 2})), want)
end)

test('what cannot be copied is named', function()
  local file, co = io.tmpfile(), coroutine.create(print)
  local function refused(get, pattern)
    raises(function() data.DataLoader(set_of(1, get), {workers = 1}):iter() end,
      'test_workers.lua:%d+: DataLoader: a worker cannot have a copy of ' .. pattern)
  end
  refused(function() return file end,
    "upvalue 'file' of the function at .*test_workers.lua:%d+: it is a userdata")
  refused(function() return co end, "upvalue 'co' of the function at .*a coroutine")
  local inner = {deep = {file = file}}
  refused(function() return inner end, "upvalue 'inner' of the function at .*%.deep%.file: it is a userdata")
  local g = mt.Generator('philox', 1)
  refused(function() return g end, "upvalue 'g' .*a generator; in workers mt.rand")
  local net = mt.nn.Linear(1, 1)
  refused(function() return net end, "upvalue 'net' .*a module")
  local gmatch = ('x'):gmatch 'x'
  refused(function() return gmatch end, "upvalue 'gmatch' .*a C function")
  local set = set_of(1, tostring)
  raises(function() data.DataLoader(set, {workers = 1, collate = function() return file end}):iter() end,
    "upvalue 'file'")
end)

test('errors name the item and the line, with workers as without', function()
  local set = set_of(6, function(_, i) return i == 5 and i + {} or i end)
  for workers = 0, 2 do
    local loader, seen = data.DataLoader(set, {batch_size = 2, workers = workers}), 0
    raises(function() for _ in loader:iter() do seen = seen + 1 end end,
      'test_workers.lua:%d+: DataLoader: item 5: .*test_workers.lua:%d+: attempt to perform arithmetic')
    eq(seen, 2)
    -- The iterator continues after the error.
    local next_batch = data.DataLoader(set, {batch_size = 1, workers = workers}):iter()
    for i = 1, 4 do eq(next_batch():item(), i) end
    raises(next_batch, 'item 5')
    eq(next_batch():item(), 6)
    raises(function() data.DataLoader(set, {workers = workers, collate = function() error 'mine' end}):iter()() end,
      'DataLoader: collate: .*test_workers.lua:%d+: mine')
  end
  local loader = data.DataLoader(set, {workers = 1, collate = function() return {x = {print}} end})
  raises(function() loader:iter()() end, 'collate returned the value.x%[1%] is a function')
  local object = {tostring = tostring}
  raises(function() data.DataLoader(set_of(1, function() error(object) end), {workers = 1}):iter()() end, 'table')
end)

test('the loop ends if a worker ends', function()
  local function run(get) batches(data.DataLoader(set_of(4, get), {workers = 2})) end
  raises(function() run(function(_, i) return i == 3 and os.exit(3) or i end) end,
    'item 3: .*test_workers.lua:%d+: a worker called os.exit%(3%)')
  raises(function() run(function() return mt.zeros(1e13) end) end, 'item 1: .*out of memory')
  local function deep(i) return 1 + deep(i) end
  raises(function() run(function(_, i) return deep(i) end) end, 'stack overflow')
end)

test('early ends: break, another iteration, loaders that are dropped', function()
  collectgarbage()
  collectgarbage()
  local before = threads()
  local set = set_of(100, function(_, i) return i end)
  local loader = data.DataLoader(set, {workers = 2})
  for x in loader:iter() do
    if x:item() == 3 then break end
  end
  eq(#batches(loader), 100)
  local a, b = loader:iter(), loader:iter() -- both continue
  eq({a():item(), b():item(), a():item(), a():item(), b():item()}, {1, 1, 2, 3, 2})
  assert(threads() > before)
  loader, a, b = nil, nil, nil
  for _ = 1, 40 do
    local one = data.DataLoader(set, {workers = 2})
    one:iter()()
  end
  for _ = 1, 1000 do data.DataLoader(set, {workers = 3}) end
  assert(threads() < before + 2 * 10, threads())
  collectgarbage()
  collectgarbage()
  eq(threads(), before)
end)

test('the position counts returned batches, and resumes with any number of workers', function()
  local set = set_of(20, function(_, i) return i + mt.rand({}) end)
  local function new(workers)
    return data.DataLoader(set, {batch_size = 3, shuffle = true, seed = 4, workers = workers})
  end
  local want = batches(new(0), 2)
  for workers = 0, 3 do
    local loader = new(workers)
    batches(loader)
    local next_batch = loader:iter()
    for _ = 1, 3 do next_batch() end
    local state = loader:state_dict()
    eq({state.epoch, state.batch}, {2, 3})
    local again = new((workers + 1) % 4)
    again:load_state_dict(state)
    local rest = batches(again)
    eq(#rest, 4)
    for k = 1, 4 do eq(rest[k], want[10 + k]) end
  end
end)

test('batches made ahead are bounded', function()
  local counter = mt.zeros(1)
  local loader = data.DataLoader(set_of(100, function(_, i)
    counter:add_(1)
    return i
  end), {workers = 1, prefetch = 3})
  local next_batch = loader:iter()
  next_batch()
  for _ = 1, 200 do -- until it has prefetched its limit
    if counter:item() >= 3 then break end
    os.execute 'sleep 0.01'
  end
  os.execute 'sleep 0.05'
  assert(counter:item() <= 4, counter:item())
end)

test('programs end with workers under way', function()
  local head = [[
    local set = {size = function() return 1000 end, get = function(_, i) return i end}
    local loader = mt.data.DataLoader(set, {workers = 3})
    local next_batch = loader:iter()
    next_batch()
  ]]
  eq(t.run('timeout 60', head .. "print 'end'"), 'end\n')
  eq(t.run('timeout 60', head .. "print 'exit' os.exit(0)"), 'exit\n')
  assert(t.run('timeout 60', head .. "error 'failed'"):find 'failed')
  -- Ctrl-C while the loop waits for a worker that computes, and for one in a pure Lua loop.
  for _, body in ipairs{'for _ = 1, 1e9 do mt.rand(100) end', 'while true do end'} do
    local text = t.run('timeout 60', ([[
      local set = {size = function() return 3 end, get = function(_, i) %s return i end}
      print 'begin' io.stdout:flush()
      os.execute '(sleep 0.5; kill -INT $PPID) &'
      for x in mt.data.DataLoader(set, {workers = 2}):iter() do print(x) end]]):format(body))
    assert(text:find 'begin' and text:find 'interrupted!' and not text:find 'core dumped', text)
  end
end)

t.finish()
