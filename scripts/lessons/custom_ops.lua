-- custom_ops.lua -- MiniTorch's operators written in Lua and compiled, and its "split" training run with them
--
--   mtorch scripts/lessons/custom_ops.lua                       checks, then three trainings and a table of times
--   mtorch scripts/lessons/custom_ops.lua --hidden 100 --epochs 500 --limit 1.2
--
-- The operators of MiniTorch's operators.py (mul id add neg lt eq max is_close sigmoid relu log exp inv log_back
-- inv_back relu_back) are Lua functions of numbers. mt.map, mt.zip and mt.reduce compile them to tensor functions with
-- derived gradients. The network of scripts/train_split.lua is then trained three times from the same weights: with
-- mtorch's operations, with these, and with its loss as a single function.
local mt = require 'mtorch'
local core = require 'mtorch.core'
local nn, optim = mt.nn, mt.optim

local options = mt.args{
  {'pts', 50, 'points of the data set', type = 'int', min = 1},
  {'hidden', 100, 'units of the hidden layers', type = 'int', min = 1},
  {'rate', 0.05, 'learning rate', min = 0},
  {'epochs', 200, 'passes over the points', type = 'int', min = 1},
  {'batch', 10, 'batch size', type = 'int', min = 1},
  {'limit', 1.2, 'largest allowed time, relative to the built-in operations', min = 0},
}

-- ---- the operators -----------------------------------------------------------------------------------

local operators = {}
function operators.mul(x, y) return x * y end
function operators.id(x) return x end
function operators.add(x, y) return x + y end
function operators.neg(x) return -x end
function operators.lt(x, y) return x < y and 1 or 0 end
function operators.eq(x, y) return x == y and 1 or 0 end
function operators.max(x, y) return x > y and x or y end
function operators.is_close(x, y) return math.abs(x - y) < 1e-2 and 1 or 0 end
function operators.sigmoid(x)
  if x >= 0 then return 1 / (1 + math.exp(-x)) end
  return math.exp(x) / (1 + math.exp(x))
end
function operators.relu(x) return x > 0 and x or 0 end
function operators.log(x) return math.log(x + 1e-6) end
function operators.exp(x) return math.exp(x) end
function operators.inv(x) return 1 / x end
function operators.log_back(x, d) return d / (x + 1e-6) end
function operators.inv_back(x, d) return -d / (x * x) end
function operators.relu_back(x, d) return x > 0 and d or 0 end

local ops = {} -- the operators compiled for tensors
for name, f in pairs(operators) do
  ops[name] = (debug.getinfo(f, 'u').nparams == 1 and mt.map or mt.zip)(f)
end
ops.sum = mt.reduce(operators.add, 0)
ops.prod = mt.reduce(operators.mul, 1)

-- ---- checks ------------------------------------------------------------------------------------------

local check_count = 0
local function check(what, got, wanted, tolerance)
  check_count = check_count + 1
  if not mt.allclose(got, wanted, {rtol = tolerance or 1e-6, atol = tolerance or 1e-6}) then
    error(('%s: got %s, expected %s'):format(what, tostring(got), tostring(wanted)), 0)
  end
end

--- Compares each operator with its plain Lua function, and its gradient, if there is one, with central differences.
local function check_operators()
  local x, y = mt.randn({40}, {dtype = 'float64'}), mt.randn({40}, {dtype = 'float64'})
  for name, f in pairs(operators) do
    local inputs, expected = debug.getinfo(f, 'u').nparams == 1 and {x} or {x, y}, {}
    if name:find '^log' or name:find '^inv' then inputs[1] = x:abs() + 0.5 end
    for i = 1, 40 do expected[i] = f(inputs[1]:at(i), inputs[2] and inputs[2]:at(i)) end
    check(name, ops[name](unpack(inputs)), mt.tensor(expected, {dtype = 'float64'}), 1e-12)
    for k, t in ipairs(inputs) do inputs[k] = t:clone():requires_grad_() end
    if name ~= 'lt' and name ~= 'eq' and name ~= 'is_close' then assert(mt.gradcheck(ops[name], inputs), name) end
  end
  local g = mt.randn({40}, {dtype = 'float64'}) -- the course's hand-written gradients equal the derived ones
  for name, input in pairs{log = x:abs() + 0.5, inv = y, relu = x} do
    local leaf = input:clone():requires_grad_()
    ops[name](leaf):backward(g)
    check(name .. '_back', ops[name .. '_back'](input, g), leaf.grad, 1e-12)
  end
  local m = mt.randn({6, 7}, {dtype = 'float64'})
  check('sum', ops.sum(m, 2), m:sum(2))
  check('prod', ops.prod(m, 1), m:prod(1))
end

-- ---- the network --------------------------------------------------------------------------------------

--- The operations of a network: those of mtorch, or the operators above.
local built_in = {
  linear = function(x, w, b) return x:matmul(w) + b end,
  relu = mt.relu, sigmoid = mt.sigmoid,
  losses = function(out, y) return -(((out * y + (out - 1) * (y - 1)) + 1e-6):log()) end,
  sum = function(x) return x:sum() end,
}
local minus_one = mt.map(function(a) return a - 1 end)
local custom = {
  linear = function(x, w, b) return ops.add(x:matmul(w), b) end,
  relu = ops.relu, sigmoid = ops.sigmoid,
  losses = function(out, y)
    local p = ops.add(ops.mul(out, y), ops.mul(minus_one(out), minus_one(y)))
    return ops.neg(ops.log(p))
  end,
  sum = ops.sum,
}
local one_function = mt.zip(function(out, y) return -operators.log(out * y + (out - 1) * (y - 1)) end)
local fused = setmetatable({losses = one_function}, {__index = custom})

local function weights()
  local h = options.hidden
  local list = {}
  for i, size in ipairs{{2, h}, {h, h}, {h, 1}} do
    list[2 * i - 1] = nn.Parameter(mt.rand(size) - 0.5)
    list[2 * i] = nn.Parameter(mt.full({size[2]}, 0.1))
  end
  return list
end

local function forward(way, w, x)
  local h = way.relu(way.linear(x, w[1], w[2]))
  h = way.relu(way.linear(h, w[3], w[4]))
  return way.sigmoid(way.linear(h, w[5], w[6])):view(-1)
end

--- Returns a training run; run.epoch() trains for one epoch.
local function training(way, set)
  mt.manual_seed(options.seed)
  local w = weights()
  local opt = optim.SGD(w, {lr = options.rate})
  local run = {times = {}, w = w}
  local n, size = set:size(), options.batch
  function run.epoch()
    local began = core.time()
    for first = 1, n, size do
      local m = math.min(size, n - first + 1)
      opt:zero_grad()
      local losses = way.losses(forward(way, w, set.x:narrow(1, first, m)), set.y:narrow(1, first, m))
      local loss = way.sum(losses) / m
      loss:backward()
      opt:step()
      run.loss = loss
    end
    run.times[#run.times + 1] = core.time() - began
  end
  function run.correct()
    return mt.no_grad(function()
      return forward(way, w, set.x):gt(0.5):float():eq(set.y):sum():item()
    end)
  end
  return run
end

local function median(list, from) return mt.tensor(list, {dtype = 'float64'})[{{from, -1}}]:median():item() end

mt.manual_seed(options.seed)
check_operators()
print(('%d operators as tensor functions: %d comparisons and their gradients are right'):format(#core.names(operators),
  check_count))

mt.manual_seed(options.seed)
local set = mt.data.split(options.pts)
local runs = {{"mtorch's operations", built_in}, {'the operators above', custom}, {'and the loss as one', fused}}
for _, run in ipairs(runs) do run.state = training(run[2], set) end
for _ = 1, options.epochs do -- in turns, so that other load affects all runs
  for _, run in ipairs(runs) do run.state.epoch() end
end

print(('\nsplit, %d points, hidden %d, rate %g, %d epochs, %d threads'):format(options.pts, options.hidden,
  options.rate, options.epochs, mt.get_num_threads()))
print '| the network is made of | correct | loss of the last batch | first epoch ms | ms/epoch | to mtorch\'s |'
print '|---|---|---|---|---|---|'
local base = median(runs[1].state.times, math.min(2, options.epochs))
for _, run in ipairs(runs) do
  local s = run.state
  run.ratio = median(s.times, math.min(2, options.epochs)) / base
  print(('| %s | %d/%d | %.4f | %.2f | %.3f | %.2f |'):format(run[1], s.correct(), set:size(), s.loss:item(),
    s.times[1] * 1e3, run.ratio * base * 1e3, run.ratio))
  for i, w in ipairs(s.w) do
    check('parameter ' .. i .. ' of ' .. run[1], w:detach(), runs[1].state.w[i]:detach(), 2e-2)
  end
end
if runs[2].ratio > options.limit then
  error(('%.2f times the time of mtorch\'s operations, the limit is %.2f'):format(runs[2].ratio, options.limit), 0)
end
print(('\nright: the same network, within %.2f times the time'):format(options.limit))
