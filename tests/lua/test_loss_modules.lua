-- test_loss_modules.lua -- losses as modules: PyTorch's results and gradients of every input, options, errors
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local values = require 'torch_values'
local nn = mt.nn
local here = debug.getinfo(1, 'S').source:match('^@(.*)/lua/[^/]*$')

-- Of data/loss_values.py, which says what a case is.
local functions = {
  sigmoid = mt.sigmoid, abs = mt.abs, sign = mt.sign, exp = mt.exp,
  softmax = function(x) return (x:softmax(2)) end,
  log_softmax = function(x) return (x:log_softmax(2)) end,
  log_softmax_last = function(x) return (x:log_softmax(-1)) end,
  half = function(x) return (x:gt(0):double()) end,
}

local function input(spec)
  if spec.ints then return mt.tensor(spec.ints, 'int64') end
  local shape, a, b, f = unpack(spec)
  if shape[1] == nil then return (functions[f](mt.tensor(math.sin(a + b)):double())) end -- 0-d
  local x = values.lin(shape, a, b)
  return f and functions[f](x) or x
end

local cases, numbers = dofile(here .. '/data/loss_cases.lua'), values.load 'loss_values'
local seen = {}
for k, case in ipairs(cases) do
  local name, options, inputs = unpack(case)
  seen[name] = true
  test(('%s, case %d'):format(name, k), function()
    local settings = {}
    for key, value in pairs(options) do
      settings[key] = type(value) == 'table' and mt.tensor(value, 'float64') or value
    end
    local given, wanted = {}, {}
    for i, spec in ipairs(inputs) do
      given[i] = input(spec):detach()
      if numbers[('%d by %d'):format(k, i)] then wanted[#wanted + 1] = given[i]:requires_grad_() end
    end
    local y = nn[name](settings)(unpack(given))
    near(y:reshape(-1):tolist(), numbers[tostring(k)]:tolist(), 1e-9)
    local slopes = mt.grad((y:reshape(-1) * values.lin({y:numel()}, 1, 0.5)):sum(), wanted)
    for i = 1, #inputs do
      local gradient = numbers[('%d by %d'):format(k, i)]
      if gradient then near(table.remove(slopes, 1):reshape(-1):tolist(), gradient:tolist(), 1e-9) end
    end
  end)
end

test('every loss of PyTorch is there, and checked', function()
  local names = 'L1 MSE SmoothL1 Huber CrossEntropy NLL GaussianNLL PoissonNLL KLDiv BCE BCEWithLogits ' ..
    'MarginRanking HingeEmbedding CosineEmbedding TripletMargin MultiMargin ' ..
    'MultiLabelMargin MultiLabelSoftMargin SoftMargin CTC'
  for name in names:gmatch('%S+') do eq({name, seen[name .. 'Loss']}, {name, true}) end
  assert(#cases >= 60)
end)

local x, y = values.lin{4, 3}, values.lin({4, 3}, 1.1)

test('soft margins: large scores give finite losses, errors of shapes', function()
  local far = mt.tensor({-800, 800}, 'float64')
  eq(mt.soft_margin_loss(far, mt.tensor({1, 1}, 'float64'), 'none'):tolist(), {800, 0})
  raises(function() mt.soft_margin_loss(x, mt.ones(5)) end, 'soft_margin_loss: .*broadcast')
  raises(function() mt.soft_margin_loss(x:long(), y) end, 'soft_margin_loss: the scores are int64')
  raises(function() mt.multilabel_soft_margin_loss(x, y[1]) end, 'scores are %(4 x 3%), the targets %(3%)')
  raises(function() mt.multilabel_soft_margin_loss(x, y, mt.ones(2)) end, '%(2%) do not broadcast')
end)

test('tensors among the options go with the module', function()
  local loss = nn.CrossEntropyLoss{weight = mt.tensor{1, 2, 3}}
  eq(loss.weight.dtype, 'float32')
  eq(loss:to('float64').weight.dtype, 'float64')
  eq(#loss:parameters(), 0)
  near(loss(x, mt.tensor({1, 2, 3, 1}, 'int64')):item(),
    mt.cross_entropy(x, mt.tensor({1, 2, 3, 1}, 'int64'), mt.tensor({1, 2, 3}, 'float64')):item(), 1e-15)
end)

test('options are checked where the loss is made', function()
  raises(function() nn.MSELoss('most') end, "MSELoss: reduction is 'most'; use 'mean', 'sum' or 'none'")
  raises(function() nn.KLDivLoss{log_targt = true} end, "KLDivLoss: unknown option 'log_targt'.*log_target")
  raises(function() nn.HuberLoss{delta = 0} end, 'HuberLoss: delta must be .* above 0, got 0')
  raises(function() nn.MultiMarginLoss{p = 3} end, 'MultiMarginLoss: p must be')
  raises(function() nn.TripletMarginLoss{margin = -1} end, 'TripletMarginLoss: margin must be')
  raises(function() nn.L1Loss()(x) end, 'l1_loss: .*target')
  raises(function() nn.L1Loss()(x, y, x) end, 'L1Loss: too many arguments given, it is called with 2')
  raises(function() nn.CTCLoss{blank = 0}(x:unsqueeze(1), mt.ones({3, 1}):long(), {1, 1, 1}, {1, 1, 1}) end, 'position')
end)

for _, row in ipairs{
  {'soft margin', function(u) return mt.soft_margin_loss(u, mt.sign(y)) end, {4, 3}},
  {'several labels', function(u, v) return mt.multilabel_soft_margin_loss(u, v, nil, 'none') end, {4, 3}, {4, 3}},
} do t.gradients(unpack(row)) end

t.finish()
