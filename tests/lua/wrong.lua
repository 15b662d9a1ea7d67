-- wrong.lua -- runs the cases of test_wrong_*.lua: an error is one sentence at the user's line and changes nothing
local mt = require 'mtorch'
local t = require 'testing'
local core = require 'mtorch.core'
local nan = 0 / 0

local function state_of(x)
  return mt.is_tensor(x) and t.state(x) or x:get_state()
end

--- Returns the tensors of a case, created again for each case.
local function fixture()
  local f = {
    x = mt.range(1, 6):float():view(2, 3), y = mt.range(1, 20):float():view(4, 5),
    s = mt.range(1, 24):float():view(2, 3, 4), v = mt.tensor{1, 2, 3}, one = mt.tensor(5),
    none = mt.tensor{}, i = mt.tensor({1, 2, 3}, 'int64'), z = mt.tensor({1, 0, 3}, 'int64'),
    n = mt.tensor({1, 2, 3}, 'int32'), u = mt.tensor({1, 2}, 'uint8'),
    b = mt.tensor{true, false, true}, m = mt.tensor{{true, false, true}, {false, true, false}},
    ix = mt.tensor({{1, 2}, {2, 1}}, 'int64'), d = mt.tensor({1, 2}, 'float64'),
    nans = mt.tensor{1, nan, 3}, sq = mt.tensor{{2, 1, 0}, {1, 3, 1}, {0, 1, 4}},
    img = mt.range(1, 50):float():view(1, 2, 5, 5), ker = mt.ones(3, 2, 3, 3),
    sig = mt.ones(1, 2, 8), k1 = mt.ones(3, 2, 3), w = mt.tensor{{1}, {2}}:expand(2, 3),
    leaf = mt.tensor({1, 2, 3}, {requires_grad = true}), g = mt.Generator('philox', 3),
    deep = mt.ones(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
    checked = mt.tensor({1, 2}, 'float64', 'cpu', true)}
  f.r = f.leaf * 2
  f.checked.grad = mt.tensor({7, 8}, 'float64')
  local p = mt.tensor({1, 2}, {requires_grad = true})
  f.used = (p * p):sum()
  f.used:backward()
  local q = mt.tensor({1, 2}, {requires_grad = true})
  local saved = q:exp()
  f.stale = saved:sum()
  saved:add_(1)
  f.p, f.q = p, q
  return f
end

local function options()
  local parts = {mt.get_default_dtype(), tostring(mt.is_grad_enabled()),
    tostring(mt.get_num_threads())}
  for key, value in pairs(mt.get_printoptions()) do
    parts[#parts + 1] = key .. '=' .. tostring(value)
  end
  table.sort(parts)
  return table.concat(parts, ' ')
end

local function live_bytes()
  collectgarbage()
  collectgarbage()
  return (core.memory())
end

--- Runs {name, function(f), pattern}: the function must raise a sentence that matches the pattern.
local function run(case)
  local name, fn, pattern = case[1], case[2], case[3]
  local info = debug.getinfo(fn, 'S')
  t.test(('%s (line %d)'):format(name, info.linedefined), function()
    local f, before, after = fixture(), {}, {}
    for key, value in pairs(f) do before[key] = state_of(value) end
    mt.manual_seed(11)
    local random, set, bytes = mt.get_rng_state(), options(), live_bytes()
    local ok, message = pcall(fn, f)
    assert(not ok, 'no error')
    local bytes_after = live_bytes()
    assert(bytes_after == bytes or name:find('^C1 ') and bytes_after < bytes, -- C1 frees its graph
      ('%d bytes are live, %d were'):format(bytes_after, bytes))
    t.eq(mt.get_rng_state(), random)
    t.eq(options(), set)
    for key, value in pairs(f) do after[key] = state_of(value) end
    t.eq(after, before)

    assert(type(message) == 'string' and #message <= 300 and not message:find('\n'),
      'not one short line: ' .. tostring(message))
    local file, line, sentence = message:match('^([^:]+):(%d+): (.*)$')
    line = tonumber(line)
    assert(file == info.short_src and line >= info.linedefined and line <= info.lastlinedefined,
      'wrong position: ' .. message)
    assert(sentence:find(pattern), ('"%s" is not like "%s"'):format(sentence, pattern))
    assert(not sentence:find('%-nan') and not sentence:find('0x') and not sentence:find('C%+%+')
      and not sentence:find('mt::'), sentence)
    t.eq((f.x + 1):sum():item(), 27)
  end)
end

return function(cases)
  for _, case in ipairs(cases) do run(case) end
  print(('%d wrong inputs'):format(#cases))
  t.finish()
end
