-- metrics.lua -- mt.metrics: metrics that accumulate over batches, with scikit-learn's formulas
--
-- m:update(predictions, targets) adds a batch, m:compute() returns the metric of all batches since m:reset().
local core = require 'mtorch.core'
local mt = require 'mtorch'
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'

local metrics = {}

-- ---- common parts -------------------------------------------------------------------------------

local Metric, method = object.class{called = 'm', word = 'metric'}

--- A copy of a state: numbers, tensors (cloned, because they are added to), lists.
local function copied(state)
  return util.map_leaves(state, function(x) return mt.is_tensor(x) and x:clone() or x end)
end

method('update(..)', 'Adds a batch: predictions and targets, or the arguments of the metric; returns the metric.',
  function(self, ...)
    self:take(...)
    self.state.updated = true
    return self
  end)
method('compute()', 'The value over all batches since reset, a number, or a tensor with a number for each class.',
  function(self)
    if not self.state.updated then core.fail('%s: compute before any update', self.__name) end
    return self:figure()
  end)
method('reset()', 'Forgets all batches; returns the metric.', function(self)
  self.state = self:start()
  return self
end)
method('state_dict()', 'The accumulated state, for load_state_dict.', function(self) return copied(self.state) end)
method('load_state_dict(state)', 'Restores the result of state_dict() of such a metric.',
  function(self, state)
    if type(state) ~= 'table' then core.fail('load_state_dict: a table is needed, got %s', core.describe(state)) end
    for key, value in pairs(self:start()) do
      local given = mt.is_tensor(state[key]) and state[key]:tolist() or state[key] -- a sum may be a tensor
      core.check(type(given) == type(value), 'load_state_dict: the state of %s has a %s %s, got %s', self.__name,
        type(value), key, core.describe(state[key]))
    end
    self.state = copied(state)
    return self
  end)

function Metric:__call()
  core.fail('%s: it is not a function; m:update(..) adds a batch, m:compute() returns the value', self.__name)
end

function Metric.start() return {} end

--- Declares a metric, whose fields are its options: {take =, figure =, start =}. take(self, ..)
--- implements update, figure(self) implements compute, start(self) returns the initial state.
local function define(signature, doc, kind)
  local name = signature:match('^[%w_]+')
  object.class({base = Metric, name = name}, kind)
  metrics[name] = object.constructor(kind, signature, doc, Metric.reset)
end

local function need_tensors(self, prediction, target)
  if not mt.is_tensor(prediction) or not mt.is_tensor(target) then
    core.fail('%s: update takes predictions and targets, tensors, got %s and %s', self.__name,
      core.describe(prediction), core.describe(target))
  end
  target = target:detach():to(prediction.device)
  return prediction:detach(), target.dtype == 'uint8' and target:long() or target -- ignore_index may be negative
end

local function is_float(x) return x.dtype:find('float') ~= nil end

-- ---- labels -------------------------------------------------------------------------------------

--- Labels as a vector; raises an error for invalid labels.
local function checked(self, labels, what, classes)
  if labels:numel() > 0 then
    local low, high = labels:min():item(), labels:max():item()
    if low < 1 or classes and high > classes then
      core.fail('%s: a %s is %d; labels count from 1%s', self.__name, what, low < 1 and low or high,
        classes and (' to %d here'):format(classes) or '')
    end
  end
  return labels:long()
end

--- Predictions and targets with the same shape as vectors, without the ignored ones.
local function counted(self, prediction, target)
  local kept = target:ne(self.ignore_index)
  return prediction[kept], target[kept]
end

--- Converts no and yes to 1 and 2.
local function yes_or_no(self, prediction, target)
  local is_answer = prediction.dtype == 'bool'
  if prediction:numel() > 0 and not (is_answer or self.threshold) then
    local low, high = prediction:min():item(), prediction:max():item()
    if not (low >= 0 and high <= 1) then
      core.fail('%s: predictions of yes or no are probabilities, found %g to %g; use x:sigmoid(), or ' ..
        '{threshold = 0} for raw scores', self.__name, low, high)
    end
  end
  local odd = target[target:ne(0):logical_and(target:ne(1))]
  if #odd > 0 then
    core.fail('%s: targets of yes or no are 0 or 1, found %g; labels need scores [n x classes] or predicted labels',
      self.__name, odd:at(1))
  end
  self.state.binary = true
  return (is_answer and prediction or prediction:gt(self.threshold or 0.5)):long() + 1, target:long() + 1, 2
end

--- The dimension of the classes in scores, given the targets: -1 or 2.
local function class_dim(self, scores, target)
  local function without(d)
    if scores:dim() ~= target:dim() + 1 then return false end
    for i = 1, target:dim() do
      if target.shape[i] ~= scores.shape[i < d and i or i + 1] then return false end
    end
    return true
  end
  if without(scores:dim()) then return scores:dim() end
  if scores:dim() > 1 and without(2) then return 2 end
  core.fail('%s: the scores are %s, the targets %s; expected scores [n x classes] and labels [n]', self.__name,
    tostring(scores.shape), tostring(target.shape))
end

--- Rows of scores [n x classes] and labels [n], without the ignored ones.
local function score_rows(self, scores, target)
  local d = class_dim(self, scores, target)
  local classes = scores.shape[d]
  scores, target = scores:movedim(d, -1):reshape(-1, classes), target:reshape(-1)
  if is_float(target) or target.dtype == 'bool' then
    core.fail('%s: targets are class positions and must be integers, these are %s', self.__name, target.dtype)
  end
  local kept = target:ne(self.ignore_index)
  if not kept:all() then scores, target = scores[kept], target[kept] end
  return scores, checked(self, target, 'target', classes), classes
end

--- Predicted and true labels [n], and the number of classes if known.
local function labels_of(self, prediction, target)
  prediction, target = need_tensors(self, prediction, target)
  if is_float(prediction) and prediction.shape ~= target.shape then
    local scores, labels, classes = score_rows(self, prediction, target)
    if labels:numel() == 0 then return labels, labels, classes end
    return scores:argmax(2), labels, classes
  end
  if prediction.shape ~= target.shape then
    core.fail('%s: the predicted labels are %s, the targets %s', self.__name, tostring(prediction.shape),
      tostring(target.shape))
  end
  prediction, target = counted(self, prediction, target)
  if is_float(prediction) or prediction.dtype == 'bool' then return yes_or_no(self, prediction, target) end
  return checked(self, prediction, 'predicted label', self.num_classes),
    checked(self, target, 'target', self.num_classes)
end

-- ---- counts by class ----------------------------------------------------------------------------

--- Counts for n classes, with 0 for new classes.
local function padded(counts, n)
  return #counts == n and counts or mt.cat({counts, counts:new_zeros(n - #counts)}, 1)
end

--- a + b for counts that may have different numbers of classes.
local function add(a, b)
  if not a then return b end
  local n = math.max(#a, #b)
  return padded(a:to(b.device), n) + padded(b, n)
end

--- Adds a batch to the counts of correct predictions, predictions and targets of each class.
local function count(self, prediction, target)
  local p, y, classes = labels_of(self, prediction, target)
  local least, state = math.max(self.num_classes or 0, classes or 0), self.state
  if self.num_classes and classes and classes > self.num_classes then
    core.fail('%s: num_classes is %d, the scores have %d', self.__name, self.num_classes, classes)
  end
  state.right = add(state.right, mt.bincount(y[p:eq(y)], nil, least))
  state.predicted = add(state.predicted, mt.bincount(p, nil, least))
  state.actual = add(state.actual, mt.bincount(y, nil, least))
end

local function ratio(a, b) return mt.where(b:gt(0), a / b:clamp_min(1e-300), 0) end

--- The mean of per-class values, each a / b of counts; 0 if b is 0. 'macro' is the mean over classes that occur.
local function averaged(self, numerator, denominator)
  local state = self.state
  local n = math.max(#state.right, #state.predicted, #state.actual)
  local right, predicted = padded(state.right, n):double(), padded(state.predicted, n):double()
  local actual = padded(state.actual, n):double()
  local a, b = numerator(right, predicted, actual), denominator(right, predicted, actual)
  local how = self.average or (state.binary and 'binary' or 'macro')
  if how == 'micro' then return ratio(a:sum(), b:sum()):item() end
  local each = ratio(a, b)
  if how == 'none' then return each end
  if how == 'binary' then
    if #each > 2 then core.fail("%s: 'binary' is of 2 classes, there are %d; use 'macro'", self.__name, #each) end
    return #each == 2 and each[2]:item() or 0
  end
  local weight = how == 'weighted' and actual or (predicted + actual):gt(0):double()
  local total = weight:sum():item()
  return total > 0 and (each * weight):sum():item() / total or 0
end

-- Metrics that are means: a sum, a number or tensor, and the count or weight of what was added.
local function no_sum() return {sum = 0, count = 0} end
local function add_sum(self, sum, n)
  local state = self.state
  state.sum, state.count = state.sum + sum, state.count + n
end
local function mean_of(self) return util.scalar(self.state.sum) / self.state.count end

local options = "num_classes: int >= 1 = nil, average: 'binary'|'macro'|'micro'|'weighted'|'none' = nil, " ..
  'threshold: number = nil, ignore_index: int = -100)'
local inputs = ' Predictions: scores [n x classes] or labels, from 1; or probabilities of yes, with targets of ' ..
  "their shape, 0 or 1 (above threshold, 0.5, is yes). average: 'binary' (of class 2; the default for yes or no), " ..
  "'macro' (the mean over classes; otherwise the default), 'micro' (of all together), 'weighted' by the targets, " ..
  "'none' a tensor. Targets of ignore_index do not count."

local function by_class(name, doc, numerator, denominator)
  define(name .. '(' .. options, doc .. inputs, {
    take = count,
    figure = function(self) return averaged(self, numerator, denominator) end,
  })
end

by_class('Precision', 'The share of right ones among the predictions of a class.',
  function(right) return right end, function(_, predicted) return predicted end)
by_class('Recall', 'The share of right ones among the targets of a class.',
  function(right) return right end, function(_, _, actual) return actual end)
by_class('F1', 'The harmonic mean of precision and recall.',
  function(right) return right * 2 end, function(_, predicted, actual) return predicted + actual end)

define("Accuracy(num_classes: int >= 1 = nil, average: 'micro'|'macro'|'weighted'|'none' = 'micro', " ..
  'threshold: number = nil, ignore_index: int = -100)',
  "The fraction of correct predictions; 'macro' is the mean over the classes. Predictions: scores [n x classes] or " ..
  'labels, from 1; or probabilities of yes, with targets of their shape, 0 or 1 (above threshold, 0.5, is yes).', {
    start = function(self) return self.average == 'micro' and no_sum() or {} end,
    take = function(self, prediction, target)
      if self.average ~= 'micro' then return count(self, prediction, target) end
      local p, y = labels_of(self, prediction, target)
      add_sum(self, p:eq(y):sum(), y:numel())
    end,
    figure = function(self)
      if self.average == 'micro' then return mean_of(self) end
      return averaged(self, function(right) return right end, function(_, _, actual) return actual end)
    end,
  })

define('TopK(k: int >= 1 = 5, ignore_index: int = -100)',
  'The fraction of targets [n] (from 1) among the k classes with the highest scores [n x classes].', {
    start = no_sum,
    take = function(self, scores, target)
      local rows, labels, classes = score_rows(self, need_tensors(self, scores, target))
      if labels:numel() == 0 then return end
      local _, best = rows:topk(math.min(self.k, classes), 2)
      add_sum(self, best:eq(labels:unsqueeze(2)):sum(), labels:numel())
    end,
    figure = mean_of,
  })

define("ConfusionMatrix(num_classes: int >= 1 = nil, normalize: 'true'|'pred'|'all' = nil, threshold: number = nil, " ..
  'ignore_index: int = -100)',
  "How often a class (row) was predicted as another (column), int64 [classes x classes]; normalize: shares of each " ..
  "row ('true'), column ('pred') or of all. Predictions as of Accuracy.", {
    take = function(self, prediction, target)
      local p, y, classes = labels_of(self, prediction, target)
      local state = self.state
      local before = state.matrix
      local n = math.max(self.num_classes or 0, classes or 0, before and #before or 0)
      if y:numel() > 0 then n = math.max(n, p:max():item(), y:max():item()) end
      if self.num_classes and n > self.num_classes then
        core.fail('ConfusionMatrix: num_classes is %d, there is a class %d', self.num_classes, n)
      end
      local matrix = mt.bincount((y - 1) * n + p, nil, n * n):reshape(n, n)
      if before then
        local part = matrix[{{1, #before}, {1, #before}}]
        part:add_(before:to(matrix.device))
      end
      state.matrix = matrix
    end,
    figure = function(self)
      local matrix = self.state.matrix
      if not self.normalize then return matrix:clone() end
      local x = matrix:double()
      if self.normalize == 'all' then return ratio(x, x:sum():expand_as(x)) end
      return ratio(x, x:sum(self.normalize == 'true' and 2 or 1, true):expand_as(x))
    end,
  })

-- ---- ranks --------------------------------------------------------------------------------------

--- The probability that a positive has a higher score than a negative, where ties count half: the area under
--- the ROC curve (Mann and Whitney); NaN if there are no positives or no negatives, or if a score is NaN.
local function area(scores, positive)
  local up, down = scores[positive], scores[positive:logical_not()]
  if #up == 0 or #down == 0 or scores:isnan():any() then return 0 / 0 end
  down = down:sort()
  local below, upto = down:searchsorted(up), down:searchsorted(up, true)
  return ((below + upto):double():sum():item() / 2 - #up) / (#up * #down)
end

define("AUC(average: 'macro'|'weighted'|'none' = 'macro', ignore_index: int = -100)",
  'The area under the ROC curve. Scores [n] with targets 0 or 1 (or labels 1 and 2); or scores [n x classes] with ' ..
  "labels: each class against the rest, 'macro' the mean over classes, 'weighted' by the targets, 'none' a tensor. " ..
  'Keeps all scores until reset; NaN where a class is missing or a score is NaN.', {
    start = function() return {scores = {}, targets = {}} end,
    take = function(self, scores, target)
      scores, target = need_tensors(self, scores, target)
      if scores.shape == target.shape then
        scores, target = counted(self, scores, target:double())
      else
        scores, target = score_rows(self, scores, target)
      end
      local list = self.state.scores
      if list[1] and list[1]:dim() ~= scores:dim() then core.fail('AUC: a batch of scores is unlike those before') end
      list[#list + 1], self.state.targets[#list + 1] = scores:double(), target
    end,
    figure = function(self)
      local scores, target = mt.cat(self.state.scores, 1), mt.cat(self.state.targets, 1)
      if scores:dim() == 1 then
        local yes = target:eq(2):any() and 2 or 1
        local odd = target[target:ne(yes):logical_and(target:ne(yes - 1))]
        if #odd > 0 then core.fail('AUC: targets are 0 or 1, or labels 1 and 2; found %g beside %d', odd:at(1), yes) end
        return area(scores, target:eq(yes))
      end
      local each, n = {}, scores.shape[2]
      for c = 1, n do each[c] = area(scores[{{}, c}], target:eq(c)) end
      each = mt.tensor(each, {dtype = 'float64', device = 'cpu'})
      if self.average == 'none' then return each end
      if self.average == 'macro' then return each:mean():item() end
      local weight = mt.bincount(target, nil, n):double():to('cpu')
      return ((each * weight):sum() / weight:sum()):item()
    end,
  })

-- ---- means --------------------------------------------------------------------------------------

define('Perplexity(ignore_index: int = -100)',
  'exp of the mean -log probability of the targets (from 1) by raw scores: [n x length x classes] and [n x length], ' ..
  'or classes in dimension 2; m:update(loss, n) takes the mean of n losses.', {
    start = no_sum,
    take = function(self, scores, target)
      if target == nil or type(target) == 'number' then
        local loss = util.number_in(scores, 'Perplexity: update takes scores and targets, or a loss, got %s')
        return add_sum(self, loss * (target or 1), target or 1)
      end
      local rows, labels = score_rows(self, need_tensors(self, scores, target))
      if labels:numel() == 0 then return end
      add_sum(self, mt.cross_entropy(rows, labels, {reduction = 'sum'}):item(), labels:numel())
    end,
    figure = function(self) return math.exp(mean_of(self)) end,
  })

define('Mean()', 'The mean of numbers or of the elements of tensors: m:update(value, weight), weight 1 if left out.', {
  start = no_sum,
  take = function(self, value, weight)
    weight = weight == nil and 1 or weight
    if value == nil then core.fail('Mean: update takes a number or a tensor, got nil') end
    for _, given in ipairs{value, weight} do
      if type(given) ~= 'number' and not mt.is_tensor(given) then
        core.fail('Mean: update takes numbers or tensors, got %s', core.describe(given))
      end
    end
    if mt.is_tensor(value) or mt.is_tensor(weight) then
      local x = mt.is_tensor(value) and value:detach():double() or mt.tensor(value, 'float64')
      local w = (mt.is_tensor(weight) and weight:detach():double() or mt.tensor(weight, 'float64')):to(x.device)
      x, w = mt.broadcast_tensors(x, w)
      return add_sum(self, (x * w):sum():item(), w:sum():item())
    end
    add_sum(self, value * weight, weight)
  end,
  figure = mean_of,
})

--- The difference of predictions and targets with the same shape, in float64.
local function difference(self, prediction, target)
  prediction, target = need_tensors(self, prediction, target)
  if prediction.shape ~= target.shape then
    core.fail('%s: the predictions are %s, the targets %s; they must be alike', self.__name, tostring(prediction.shape),
      tostring(target.shape))
  end
  return prediction:double() - target:double(), target:double()
end

local function mean_error(name, doc, of)
  define(name .. '()', doc, {
    start = no_sum,
    take = function(self, prediction, target)
      local d = difference(self, prediction, target)
      add_sum(self, of(d):sum():item(), d:numel())
    end,
    figure = mean_of,
  })
end
mean_error('MSE', 'The mean squared difference of predictions and targets.', mt.square)
mean_error('MAE', 'The mean absolute difference of predictions and targets.', mt.abs)

define('R2()', 'The coefficient of determination: 1 - sum of squared errors / sum of squares of the targets about ' ..
  'their mean; 0 where the targets are all alike and missed.', {
    start = function() return {count = 0, mean = 0, spread = 0, errors = 0} end,
    take = function(self, prediction, target)
      local d, y = difference(self, prediction, target)
      local state, n = self.state, y:numel()
      if n == 0 then return end
      local mean = y:mean():item() -- variances of two parts are merged by Chan's formula
      local apart, all = mean - state.mean, state.count + n
      state.spread = state.spread + (y - mean):square():sum():item() + apart ^ 2 * state.count * n / all
      state.mean, state.count = state.mean + apart * n / all, all
      state.errors = state.errors + d:square():sum():item()
    end,
    figure = function(self)
      local state = self.state
      if state.count < 2 then core.fail('R2: at least 2 targets are needed, there are %d', state.count) end
      if state.spread == 0 then return state.errors == 0 and 1 or 0 end
      return 1 - state.errors / state.spread
    end,
  })

return metrics
