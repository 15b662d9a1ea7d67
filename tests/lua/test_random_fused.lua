-- test_random_fused.lua -- random functions of tensors that broadcast: results and gradients of mt.fuse are compared
-- with the function itself
--
--   mtorch tests/lua/test_random_fused.lua [functions [first seed | today]]
local mt = require 'mtorch'
local t = require 'testing'

local functions, first_seed = tonumber(arg[1]) or 1000, tonumber(arg[2]) or 1
if arg[2] == 'today' then first_seed = math.floor(os.time() / 86400) * functions end -- different functions every day
require('mtorch.core').compile().fuse_from(0) -- small tensors wait too

local draws = t.random_source()
local below, between, one_of, chance = draws.below, draws.between, draws.one_of, draws.chance
local unary = {'relu', 'sigmoid', 'tanh', 'neg', 'square', 'abs'}
local binary = {'add', 'sub', 'mul', 'maximum'}
local reductions = {'sum', 'mean', 'amax', 'amin', 'logsumexp', 'var'} -- std has no derivative at rows of equal numbers
local sizes = {{3, 3, 4}, {4, 3, 5}, {2, 2, 2, 3}, {5, 6}, {6, 6}, {7}, {1, 4}, {4, 1}, {3, 1, 4}, {1, 1, 5}, {3, 3, 3}}

--- Returns a shape that broadcasts to `size`: with sizes of 1, fewer dimensions, or none.
local function shape_for(size)
  local shape = {}
  if chance(12) then return shape end
  for d = chance(33) and between(1, #size) or 1, #size do shape[#shape + 1] = chance(25) and 1 or size[d] end
  return shape
end

--- Generates a function of three tensors with random steps, each of which reads earlier values.
local function generate()
  local steps, results = {}, between(1, 3)
  for k = 1, between(3, 10) do
    steps[k] = {kind = below(10), a = below(1000), b = below(1000), unary = one_of(unary), binary = one_of(binary),
      reduction = one_of(reductions), keepdim = chance(50)}
  end
  return results, function(...)
    local values = {...}
    for _, s in ipairs(steps) do
      local a, b = values[s.a % #values + 1], values[s.b % #values + 1]
      local y
      if s.kind < 2 then y = a[s.unary](a)
      elseif s.kind < 7 then
        local ok, result = pcall(function() return a[s.binary](a, b) end)
        if not ok and not result:find 'do not broadcast' then error(result, 0) end
        y = ok and result or a * 2
      elseif s.kind < 9 and a:dim() > 0 and a:size(-1) > 1 then y = a[s.reduction](a, -1, s.keepdim)
      else y = a * 0.5 + 1 end
      values[#values + 1] = y
    end
    return unpack(values, #values - results + 1)
  end
end

--- Returns the results and the gradients of their sum.
local function all_of(f, inputs)
  local list, loss = {f(unpack(inputs))}, 0
  for k, y in ipairs(list) do loss = loss + (y * k):sum() end
  local gradients = loss.requires_grad and mt.grad(loss, inputs, {allow_unused = true}) or {}
  for k = 1, #inputs do list[#list + 1] = gradients[k] or false end
  return list
end

t.test('random functions', function()
  for seed = first_seed, first_seed + functions - 1 do
    draws.seed(seed)
    mt.manual_seed(seed)
    local size, inputs = one_of(sizes), {}
    for k = 1, 3 do inputs[k] = mt.randn(k == 1 and size or shape_for(size), {dtype = 'float64'}):requires_grad_() end
    local results, f = generate()
    local plain, fused = all_of(f, inputs), all_of(mt.fuse(f), inputs)
    for k, x in ipairs(plain) do
      local what = ('seed %d: %s %d'):format(seed, k > results and 'gradient' or 'result',
        k > results and k - results or k)
      local y = fused[k]
      if not x then assert(not y, what)
      else
        t.eq({what, y.shape}, {what, x.shape})
        assert(mt.allclose(y, x, {rtol = 1e-8, atol = 1e-9, equal_nan = true}), what)
      end
    end
  end
end)

t.finish()
