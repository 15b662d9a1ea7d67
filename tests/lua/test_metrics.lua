-- test_metrics.lua -- mt.metrics: compared with plain counting, over batches, errors, states
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local metrics = mt.metrics

mt.manual_seed(3)
local n, classes = 60, 4
local scores = mt.randn(n, classes, 'float64')
local labels = mt.randint(1, classes, {n})
local predicted = scores:argmax(2)
local p, y = predicted:tolist(), labels:tolist()

--- Returns a metric over batches of 17, the last one smaller.
local function of(name, options, a, b)
  local m = metrics[name](options or {})
  for i = 1, #a, 17 do m:update(a[{{i, math.min(i + 16, #a)}}], b[{{i, math.min(i + 16, #b)}}]) end
  return m:compute(), m
end

--- Counts correct predictions, predictions and targets of a class.
local function counts(c)
  local right, as, is = 0, 0, 0
  for i = 1, n do
    right = right + (p[i] == c and y[i] == c and 1 or 0)
    as, is = as + (p[i] == c and 1 or 0), is + (y[i] == c and 1 or 0)
  end
  return right, as, is
end

test('accuracy, precision, recall, F1 agree with counting', function()
  local all, figures = 0, {Precision = {}, Recall = {}, F1 = {}}
  local weights = {}
  for c = 1, classes do
    local right, as, is = counts(c)
    all, weights[c] = all + right, is / n
    figures.Precision[c], figures.Recall[c], figures.F1[c] = right / as, right / is, 2 * right / (as + is)
  end
  for _, given in ipairs{scores, predicted} do
    near(of('Accuracy', nil, given, labels), all / n, 1e-14)
    for name, each in pairs(figures) do
      local mean, weighted = 0, 0
      for c = 1, classes do mean, weighted = mean + each[c] / classes, weighted + each[c] * weights[c] end
      near(of(name, nil, given, labels), mean, 1e-14)
      near(of(name, {average = 'macro'}, given, labels), mean, 1e-14)
      near(of(name, {average = 'weighted'}, given, labels), weighted, 1e-14)
      near(of(name, {average = 'none'}, given, labels):tolist(), each, 1e-14)
      near(of(name, {average = 'micro'}, given, labels), all / n, 1e-14)
      if name == 'Recall' then near(of('Accuracy', {average = 'macro'}, given, labels), mean, 1e-14) end
    end
  end
end)

test('classes that come later, or never', function()
  local m = metrics.F1{average = 'none'}
  m:update(mt.tensor({1, 1}, 'int64'), mt.tensor({1, 2}, 'int64'))
  m:update(mt.tensor({4}, 'int64'), mt.tensor({4}, 'int64'))
  near(m:compute():tolist(), {2 / 3, 0, 0, 1})
  local macro = metrics.F1{num_classes = 6}
  macro:load_state_dict(m:state_dict())
  near(macro:compute(), (2 / 3 + 0 + 1) / 3) -- class 3 does not occur, as in scikit-learn
  eq(#metrics.ConfusionMatrix{num_classes = 5}:update(mt.tensor({1}, 'int64'), mt.tensor({2}, 'int64')):compute(), 5)
end)

test('yes or no: probabilities, raw scores, booleans', function()
  local chance, truth = mt.tensor{0.2, 0.8, 0.6, 0.4, 0.9}, mt.tensor{0, 1, 0, 1, 1}
  near(metrics.Accuracy():update(chance, truth):compute(), 3 / 5)
  near(metrics.F1():update(chance, truth):compute(), 2 * 2 / (3 + 3))
  near(metrics.Precision():update(chance, truth:gt(0)):compute(), 2 / 3)
  near(metrics.Recall():update(chance, truth:long()):compute(), 2 / 3)
  near(metrics.Recall():update(chance:gt(0.5), truth:gt(0)):compute(), 2 / 3)
  near(metrics.Accuracy{threshold = 0}:update(chance:logit(), truth):compute(), 3 / 5)
  near(metrics.F1{average = 'macro'}:update(chance, truth):compute(), (2 / 3 + 2 / 4) / 2)
  eq(metrics.ConfusionMatrix():update(chance, truth):compute():tolist(), {{1, 1}, {1, 2}})
  raises(function() metrics.Accuracy():update(chance * 5, truth) end, 'are probabilities, found .*threshold = 0')
  raises(function() metrics.Accuracy():update(chance, truth:long() + 1) end, 'labels need scores %[n x classes%]')
  local some = mt.tensor({0, -100, 0, 1, 1}, 'int64')
  for _, answers in ipairs{chance, chance:gt(0.5)} do
    near(metrics.Accuracy():update(answers, some):compute(), 2 / 4)
    near(metrics.F1():update(answers, some):compute(), 2 * 1 / (2 + 2))
  end
  eq(metrics.ConfusionMatrix():update(chance, some):compute():tolist(), {{1, 1}, {1, 1}})
  near(metrics.AUC():update(chance, some):compute(), 3 / 4)
  for _, odd in ipairs{0.3, -1, 2, 0 / 0} do
    raises(function() metrics.Recall():update(chance, truth:masked_fill(truth:eq(1), odd)) end, 'are 0 or 1, found')
  end
end)

test('the confusion matrix has targets in rows', function()
  local matrix, m = of('ConfusionMatrix', nil, scores, labels)
  eq(matrix.dtype, 'int64')
  for a = 1, classes do
    for b = 1, classes do
      local k = 0
      for i = 1, n do k = k + (y[i] == a and p[i] == b and 1 or 0) end
      eq(matrix[{a, b}]:item(), k)
    end
  end
  near(of('ConfusionMatrix', {normalize = 'true'}, scores, labels):sum(2):tolist(), {1, 1, 1, 1})
  near(of('ConfusionMatrix', {normalize = 'pred'}, scores, labels):sum(1):tolist(), {1, 1, 1, 1})
  near(of('ConfusionMatrix', {normalize = 'all'}, scores, labels):sum():item(), 1)
  m:reset():update(mt.tensor({1}, 'int64'), mt.tensor({3}, 'int64'))
  eq(m:compute():tolist(), {{0, 0, 0}, {0, 0, 0}, {1, 0, 0}})
end)

test('top k', function()
  for k = 1, 4 do
    local hits = 0
    for i = 1, n do
      local above = scores[i]:gt(scores[{i, y[i]}]):sum():item()
      hits = hits + (above < k and 1 or 0)
    end
    near(of('TopK', {k = k}, scores, labels), hits / n, 1e-14)
  end
  eq(metrics.TopK{k = 9}:update(scores, labels):compute(), 1)
end)

test('the area under the ROC curve is the share of pairs in order', function()
  local s = (mt.randn(80, 'float64') * 3):round() -- with ties
  local truth = mt.rand(80):lt(0.4)
  local pairs_in_order, up, down = 0, 0, 0
  local values, yes = s:tolist(), truth:tolist()
  for i = 1, 80 do
    if yes[i] then up = up + 1 else down = down + 1 end
    for j = 1, 80 do
      if yes[i] and not yes[j] then
        pairs_in_order = pairs_in_order + (values[i] > values[j] and 1 or values[i] == values[j] and 0.5 or 0)
      end
    end
  end
  local wanted = pairs_in_order / (up * down)
  for _, target in ipairs{truth, truth:double(), truth:long(), truth:long() + 1} do
    near(of('AUC', nil, s, target), wanted, 1e-14)
  end
  local each = of('AUC', {average = 'none'}, scores, labels)
  local weighted = 0
  for c = 1, classes do
    near(each[c]:item(), of('AUC', nil, scores[{{}, c}], labels:eq(c)), 1e-14)
    weighted = weighted + each[c]:item() * labels:eq(c):sum():item() / n
  end
  near(of('AUC', nil, scores, labels), each:mean():item(), 1e-14)
  near(of('AUC', {average = 'weighted'}, scores, labels), weighted, 1e-14)
  local one = metrics.AUC():update(mt.ones(3), mt.ones(3)):compute()
  assert(one ~= one)
  local unknown = metrics.AUC():update(mt.tensor{0 / 0, 0.9}, mt.tensor{1, 0}):compute()
  eq(unknown ~= unknown, true)
  raises(function() metrics.AUC():update(mt.ones(2), mt.tensor({1, 3}, 'int64')):compute() end, 'found 3 beside 1')
end)

test('perplexity, of either layout and of losses', function()
  local x, target = mt.randn(3, 5, 7), mt.randint(1, 7, {3, 5})
  local loss = mt.cross_entropy(x:transpose(2, 3), target):item()
  near(metrics.Perplexity():update(x, target):compute(), math.exp(loss), 1e-4)
  near(metrics.Perplexity():update(x:transpose(2, 3), target):compute(), math.exp(loss), 1e-4)
  near(metrics.Perplexity():update(1, 3):update(mt.tensor(2), 1):compute(), math.exp(5 / 4), 1e-6)
  local some = target:clone()
  some[{{}, {1, 2}}] = -100
  local kept = mt.cross_entropy(x:transpose(2, 3), some):item()
  near(metrics.Perplexity():update(x, some):compute(), math.exp(kept), 1e-4)
  local right = x[{{}, {3, 5}}]:argmax(3):eq(some[{{}, {3, 5}}])
  near(metrics.Accuracy():update(x, some):compute(), right:double():mean():item())
end)

test('means', function()
  local m = metrics.Mean()
  m:update(3):update(mt.tensor{1, 2}, 2):update(mt.tensor{4, 6}, mt.tensor{1, 0})
  near(m:compute(), (3 + 2 * 3 + 4) / (1 + 4 + 1))
  local a, b = mt.randn(50, 'float64'), mt.randn(50, 'float64') + 1e4
  near(of('MSE', nil, a, b), (a - b):square():mean():item(), 1e-6)
  near(of('MAE', nil, a, b), (a - b):abs():mean():item(), 1e-9)
  local wanted = 1 - (a - b):square():sum():item() / (b - b:mean()):square():sum():item()
  near(of('R2', nil, a, b) / wanted, 1, 1e-9)
  near(metrics.R2():update(mt.tensor{2.5, 0, 2, 8}, mt.tensor{3, -0.5, 2, 7}):compute(), 0.9486081370449679, 1e-12)
end)

test('states are restored, and reset clears them', function()
  local whole = {Accuracy = of('Accuracy', nil, scores, labels), F1 = of('F1', nil, scores, labels),
    AUC = of('AUC', nil, scores, labels), TopK = of('TopK', {k = 2}, scores, labels)}
  for name, wanted in pairs(whole) do
    local options = name == 'TopK' and {k = 2} or nil
    local first, second = metrics[name](options), metrics[name](options)
    first:update(scores[{{1, 20}}], labels[{{1, 20}}])
    second:load_state_dict(first:state_dict())
    first:reset()
    raises(function() first:compute() end, name .. ': compute before any update')
    near(second:update(scores[{{21, n}}], labels[{{21, n}}]):compute(), wanted, 1e-14)
  end
end)

test('a restored state knows whether there was an update', function()
  for _, name in ipairs{'Accuracy', 'AUC', 'ConfusionMatrix', 'F1', 'MSE', 'Mean', 'Perplexity', 'R2', 'TopK'} do
    local m = metrics[name]()
    m:load_state_dict(metrics[name]():state_dict())
    raises(function() m:compute() end, name .. ': compute before any update')
  end
end)

test('errors', function()
  local m = metrics.Accuracy()
  raises(function() m:update(scores, labels - 1) end, 'Accuracy: a target is 0; labels count from 1 to 4 here')
  raises(function() m:update(scores, labels + 1) end, 'a target is 5')
  raises(function() m:update(predicted - 1, labels) end, 'a predicted label is 0; labels count from 1')
  raises(function() m:update(scores, labels[{{1, 5}}]) end, 'the scores are %(60, 4%), the targets %(5%)')
  raises(function() m:update(scores, labels:double()) end, 'must be integers, these are float64')
  raises(function() m:update(scores) end, 'update takes predictions and targets, tensors, got a tensor .* and nil')
  raises(function() m.update(scores, labels) end, 'with a colon, m:update')
  raises(function() m:updat(scores) end, "Accuracy has no 'updat' %(did you mean 'update'%?%)")
  raises(function() metrics.F1{average = 'mean'} end, "average is 'mean'; use")
  raises(function() metrics.F1{num_classes = 3}:update(scores, labels) end, 'num_classes is 3, the scores have 4')
  raises(function() metrics.Acuracy() end, "did you mean 'Accuracy'")
  raises(function() metrics.AUC():load_state_dict{x = 1} end, 'the state of AUC has a table [a-z]+, got nil')
  raises(function() metrics.Mean():update('a') end, "got the string 'a'")
  raises(function() metrics.MSE():update(mt.ones(2), mt.ones(3)) end, 'must be alike')
  raises(function() metrics.F1{average = 'binary'}:update(scores, labels):compute() end, 'is of 2 classes, there are 4')
end)

test('targets of uint8', function()
  for _, case in ipairs{{mt.tensor{0.2, 0.8, 0.9}, {1, 0, 1}, 1 / 3}, {mt.tensor({1, 2}, 'int64'), {1, 2}, 1}} do
    local accuracy = metrics.Accuracy()
    accuracy:update(case[1], mt.tensor(case[2], 'uint8'))
    near(accuracy:compute(), case[3], 1e-12)
  end
end)

t.finish()
