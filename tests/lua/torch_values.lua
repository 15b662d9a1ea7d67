-- torch_values.lua -- comparisons with PyTorch's values: results of expressions, values and gradients of functions
local mt = require 'mtorch'
local t = require 'testing'
local here = debug.getinfo(1, 'S').source:match('^@(.*)/lua/[^/]*$')

local values = {}

--- Returns the variables of test expressions; `extra` adds or replaces some.
function values.env(extra)
  local env = {
    mt = mt, math = math, x = mt.range(1, 12):float():view(3, 4), v = mt.range(1, 5):float(),
    c = mt.range(1, 24):float():view(2, 3, 4), s = mt.tensor(7), e = mt.zeros(0, 3),
  }
  for name, value in pairs(extra) do env[name] = value end
  return env
end

local function sizes(x)
  local list = {}
  for d, n in ipairs(x.shape) do list[d] = n end
  return list
end

--- Compares with {shape, elements} or {list = {{shape, elements}, ..}}, to 5 digits (NaN equals NaN), or exactly.
function values.check(got, expected, exact)
  if expected.list then
    t.eq(#got, #expected.list)
    for k, part in ipairs(expected.list) do values.check(got[k], part, exact) end
    return
  end
  t.eq(sizes(got), expected[1])
  local list = got:flatten():tolist()
  if exact then return t.eq(list, expected[2]) end
  for k, value in ipairs(list) do
    local want = expected[2][k]
    if value ~= want and (value == value or want == want) then
      t.near(value, want, 1e-5 * math.abs(want) + 1e-6)
    end
  end
end

--- Evaluates an expression.
function values.run(code, env) return setfenv(assert(loadstring('return ' .. code)), env)() end

--- Adds a test for each {expression, expected result}, evaluated in env.
function values.test_cases(cases, env, exact)
  for _, case in ipairs(cases) do
    t.test(case[1], function() values.check(values.run(case[1], env), case[2], exact) end)
  end
end

--- The tensors of a file of PyTorch's values in tests/data, on the default device.
function values.load(name)
  local tensors = mt.data.safetensors(('%s/data/%s.safetensors'):format(here, name))
  for key, x in pairs(tensors) do tensors[key] = x:to(mt.zeros(1).device) end
  return tensors
end

--- The lists of numbers of function_values.py, by name.
values.functions = values.load 'function_values'
for name, x in pairs(values.functions) do values.functions[name] = x:tolist() end

--- sin(a i + b) for i = 1, 2, ..: the inputs of PyTorch's programs.
function values.lin(shape, a, b)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return (mt.range(1, n):double() * (a or 0.37) + (b or 1)):sin():reshape(shape)
end

--- Asserts that the concatenated elements of these tensors are the list `name`.
function values.is(name, ...)
  local all = {}
  for i, x in ipairs{...} do all[i] = x:double():flatten() end
  t.near(mt.cat(all, 1):tolist(), values.functions[name], 1e-7)
end

--- Asserts that the value of f and its gradients by the inputs are the list `name`.
function values.slope(name, f, ...)
  local inputs = {...}
  for i, x in ipairs(inputs) do inputs[i] = x:clone():requires_grad_() end
  local y = f(unpack(inputs))
  ;(y * values.lin(y.shape, 1, 0.5)):sum():backward()
  local all = {y:detach()}
  for _, x in ipairs(inputs) do all[#all + 1] = x.grad end
  values.is(name, unpack(all))
end

return values
