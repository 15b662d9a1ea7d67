-- test_wrong_calls.lua -- wrong calls of data/wrong_*.txt: one sentence at the user's line, and nothing is changed
--
-- A line there is CODE, or CODE  --> PATTERN: the sentence begins with a word of the code (the operation), or matches
-- the pattern of Lua from its beginning. The variables are those of `tensors` and `objects`, made again for each line.
local mt = require 'mtorch'
local t = require 'testing'
local core = require 'mtorch.core'
local nn, optim, data = mt.nn, mt.optim, mt.data
local nan = 0 / 0

local function tensors()
  local f = {
    x = mt.range(1, 6):float():view(2, 3), y = mt.range(1, 20):float():view(4, 5), one = mt.tensor(5),
    s = mt.range(1, 24):float():view(2, 3, 4), v = mt.tensor{1, 2, 3}, none = mt.tensor{},
    big = mt.tensor({2 ^ 53, 1}, 'int64'), deep = mt.ones(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    i = mt.tensor({1, 2, 3}, 'int64'), z = mt.tensor({1, 0, 3}, 'int64'), n = mt.tensor({1, 2, 3}, 'int32'),
    u = mt.tensor({1, 2}, 'uint8'), b = mt.tensor{true, false, true}, d = mt.tensor({1, 2}, 'float64'),
    m = mt.tensor{{true, false, true}, {false, true, false}}, ix = mt.tensor({{1, 2}, {2, 1}}, 'int64'),
    nans = mt.tensor{1, nan, 3}, sq = mt.tensor{{2, 1, 0}, {1, 3, 1}, {0, 1, 4}}, probability = mt.tensor{0.5, 1.5},
    img = mt.range(1, 50):float():view(1, 2, 5, 5), ker = mt.ones(3, 2, 3, 3), sig = mt.ones(1, 2, 8),
    k1 = mt.ones(3, 2, 3), w = mt.tensor{{1}, {2}}:expand(2, 3),
    leaf = mt.tensor({1, 2, 3}, {requires_grad = true}), g = mt.Generator('philox', 3),
    checked = mt.tensor({1, 2}, 'float64', 'cpu', true), p = mt.tensor({1, 2}, {requires_grad = true}),
    q = mt.tensor({1, 2}, {requires_grad = true})}
  f.r, f.total = f.leaf * 2, (f.leaf * f.leaf):sum()
  f.checked.grad = mt.tensor({7, 8}, 'float64')
  f.used = (f.p * f.p):sum()
  f.used:backward()
  local saved = f.q:exp()
  f.stale = saved:sum()
  saved:add_(1)
  return f
end

local here = os.tmpname()
os.remove(here)
os.execute(('mkdir -p %s/img/a %s/img/b'):format(here, here))
here = here .. '/'
for _, class in ipairs{'a', 'b'} do
  for i = 1, 4 do data.save_image(('%simg/%s/%d.png'):format(here, class, i), mt.rand(3, 8, 8)) end
end
t.write_file(here .. 'a.csv', 'a,b\n1,2\n')

local function objects()
  local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
  return {x3 = mt.ones(2, 3, 5), im = mt.ones(2, 3, 8, 8), l = mt.ones({2, 3}, {dtype = 'int64'}), net = net,
    lab = mt.tensor({1, 2}, {dtype = 'int64'}), opt = optim.SGD(net:parameters(), {lr = 0.1}),
    tok = data.CharTokenizer 'abc', set = data.TensorDataset(mt.ones(10, 3), mt.range(1, 10))}
end
local names = setmetatable({mt = mt, nn = nn, optim = optim, data = data, la = mt.linalg, nan = nan, inf = math.huge,
  T = data.transforms, M = mt.metrics, here = here}, {__index = _G})

--- Runs a line with these variables; returns what pcall returns.
local function call(code, given)
  local fn = loadstring('local _ = ' .. code, '=user') or assert(loadstring(code, '=user'))
  return pcall(setfenv(fn, setmetatable(given, {__index = names})))
end
local function states(given)
  local list = {}
  for name, x in pairs(given) do list[name] = mt.is_tensor(x) and t.state(x) or name == 'g' and x:get_state() or nil end
  return list
end
local function options()
  return {mt.get_default_dtype(), mt.is_grad_enabled(), mt.get_num_threads(), mt.get_printoptions()}
end
local function live_bytes()
  collectgarbage()
  collectgarbage()
  return (core.memory())
end
local function plain(text) return (text:lower():gsub('_', '')) end

local function check(code, pattern, given)
  local before, set = states(given), options()
  local ok, message = call(code, given)
  assert(not ok, 'no error')
  message = tostring(message)
  assert(not message:find '\n', message)
  local sentence = message:match '^user:1: (.+)$'
  assert(sentence, 'another line: ' .. message)
  sentence = sentence:gsub('^%(in [^)]*%) ', '')
  if pattern then
    assert(sentence:find('^' .. pattern), ('"%s" is not like "%s"'):format(sentence, pattern))
  else
    local first = sentence:match '^([%w_.%[%]]+): ' or sentence:match '^(%S+)'
    assert(plain(code):find(plain(first), 1, true), 'another operation: ' .. message)
  end
  assert(#sentence <= 300 and not sentence:find '%-nan' and not sentence:find '0x' and not sentence:find 'C%+%+' and
    not sentence:find 'mt::', sentence)
  t.eq(states(given), before)
  t.eq(options(), set)
end

local folder = (arg[0]:match('^(.*/)') or './') .. '../data/'
for line in io.lines(folder .. 'wrong_modules.txt') do
  local code, pattern = line:match '^(.-)  %-%-> (.+)$'
  t.test(line, function()
    local given = tensors()
    for name, value in pairs(objects()) do given[name] = value end
    check(code or line, pattern, given)
  end)
end

-- Of tensors: also the random numbers and the memory in use stay the same.
local codes, bytes = {}, live_bytes()
for line in io.lines(folder .. 'wrong_operations.txt') do
  local code, pattern = line:match '^(.-)  %-%-> (.+)$'
  codes[#codes + 1] = code
  t.test(line, function()
    local given = tensors()
    mt.manual_seed(11)
    local random = mt.get_rng_state()
    check(code, pattern, given)
    t.eq(mt.get_rng_state(), random)
    t.eq((given.x + 1):sum():item(), 27)
  end)
end
t.test('no memory stays in use', function()
  if live_bytes() == bytes then return end
  for _, code in ipairs(codes) do
    local before = live_bytes()
    call(code, tensors())
    t.eq({code, live_bytes()}, {code, before})
  end
  t.eq(live_bytes(), bytes)
end)

os.execute('rm -r ' .. here)
t.finish()
