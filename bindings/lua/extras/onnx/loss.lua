-- loss.lua -- losses as ONNX operators; targets that are positions count from 0 in the file

local entries = {}

local function reduced(g, loss, a)
  if a.reduction == 'none' then return loss end
  if a.reduction == 'batchmean' then return g.ReduceSum(loss) / a.x.shape[1] end
  return g[a.reduction == 'sum' and 'ReduceSum' or 'ReduceMean'](loss)
end

-- Elementwise losses of x and target.
local pointwise = {}

function pointwise.mse_loss(_, x, y) return (x - y) * (x - y) end
function pointwise.l1_loss(g, x, y) return g.Abs(x - y) end
function pointwise.smooth_l1_loss(g, x, y, a)
  local gap = g.Abs(x - y)
  if a.beta == 0 then return gap end
  return g.Where(g.Less(gap, a.beta), gap * gap * (0.5 / a.beta), gap - 0.5 * a.beta)
end
function pointwise.huber_loss(g, x, y, a)
  local gap = g.Abs(x - y)
  return g.Where(g.LessOrEqual(gap, a.delta), gap * gap * 0.5, (gap - 0.5 * a.delta) * a.delta)
end
function pointwise.binary_cross_entropy(g, x, y, a)
  local loss = -(y * g.Max(g.Log(x), -100) - (y - 1) * g.Max(g.Log(1 - x), -100))
  return a.weight and loss * a.weight or loss
end
function pointwise.binary_cross_entropy_with_logits(g, x, y, a)
  local rest = g:softplus(-x)
  local loss = (1 - y) * x + (a.pos_weight and ((a.pos_weight - 1) * y + 1) * rest or rest)
  return a.weight and loss * a.weight or loss
end
function pointwise.gaussian_nll_loss(g, x, y, a)
  local var = g:cast(a.var, x.dtype) -- a number, or of x's shape, with or without the last dimension
  if var.shape and #var.shape > 0 and #var.shape < #a.x.shape then var = g:unsqueeze(var, {-1}) end
  var = g.Max(var, a.eps)
  local loss = (g.Log(var) + (x - y) * (x - y) / var) * 0.5
  return a.full and loss + 0.5 * math.log(2 * math.pi) or loss
end
function pointwise.poisson_nll_loss(g, x, y, a)
  local loss = a.log_input and g.Exp(x) - y * x or x - y * g.Log(x + a.eps)
  if not a.full then return loss end
  local stirling = y * g.Log(y) - y + g.Log(y * (2 * math.pi)) * 0.5
  return loss + g.Where(g.Greater(y, 1), stirling, 0)
end
function pointwise.soft_margin_loss(g, x, y) return g:softplus(-(y * x)) end
function pointwise.hinge_embedding_loss(g, x, y, a)
  return g.Where(g.Equal(y, 1), x, g.Relu(-(x - a.margin)))
end
function pointwise.margin_ranking_loss(g, x, y, a) return g.Relu(-(y * (x - a.input2)) + a.margin) end

function pointwise.kl_div(g, x, y, a)
  if a.log_target then return g.Exp(y) * (y - x) end
  return g.Where(g.Equal(y, 0), 0, y * (g.Log(y) - x))
end

for name, f in pairs(pointwise) do
  entries[name] = function(g, a, call)
    local x, target = g:cast(a.x or a.input1 or a.input, call.dtype), g:cast(a.target, call.dtype)
    return reduced(g, f(g, x, target, a), a)
  end
end

-- ---- classes -----------------------------------------------------------------------------------------------

--- Returns the ignored label in the file, where positions count from 0; other numbers are unchanged.
local function ignored(a) return a.ignore_index > 0 and a.ignore_index - 1 or a.ignore_index end
--- Returns the losses of log-probabilities x [n x classes x ..] and positions.
local function negative_log(g, x, a)
  local shape, target = a.x.shape, g:to_positions(a.target)
  if #shape == 1 then x, target = g:unsqueeze(x, {0}), g:reshape(target, {1}) end
  local weight = a.weight or false
  local loss = g.NegativeLogLikelihoodLoss(x, target, weight, {ignore_index = ignored(a), reduction = a.reduction})
  return #shape == 1 and a.reduction == 'none' and g:reshape(loss, {}) or loss
end
function entries.nll_loss(g, a) return negative_log(g, a.x, a) end

--- Label smoothing: (1 - e) times the loss of the class plus e / classes times the sum of all classes' losses.
local function smoothed(g, x, axis, a)
  local classes, target = a.x.shape[axis + 1], g:to_positions(a.target)
  if axis == 0 then x, target, axis = g:unsqueeze(x, {0}), g:reshape(target, {1}), 1 end -- one label is a batch of 1
  local kept = g.Not(g.Equal(target, ignored(a)))
  local one_hot = g:one_hot(g.Where(kept, target, 0), classes, axis, x.dtype)
  local weight = a.weight and g:per_channel(a.weight, math.max(#a.x.shape - 2, 0))
  local spread = one_hot * (1 - a.label_smoothing) + a.label_smoothing / classes
  local loss = -g.ReduceSum(x * (weight and spread * weight or spread), {axis})
  loss = g.Where(kept, loss, 0)
  if a.reduction == 'none' and #a.x.shape == 1 then return g:reshape(loss, {}) end
  if a.reduction ~= 'mean' then return reduced(g, loss, a) end
  local count = g:cast(kept, x.dtype)
  if weight then count = count * g.ReduceSum(one_hot * weight, {axis}) end
  return g.ReduceSum(loss) / g.ReduceSum(count)
end
function entries.cross_entropy(g, a)
  local axis = #a.x.shape == 1 and 0 or 1
  local x = g.LogSoftmax(a.x, {axis = axis})
  local probabilities = a.target.dtype:find 'float' ~= nil
  if not probabilities and a.label_smoothing == 0 then return negative_log(g, x, a) end
  if not probabilities then return smoothed(g, x, axis, a) end
  local classes, target = a.x.shape[axis + 1], a.target
  if a.label_smoothing > 0 then target = target * (1 - a.label_smoothing) + a.label_smoothing / classes end
  if a.weight then x = x * g:per_channel(a.weight, #a.x.shape - axis - 1) end
  local loss = -g.ReduceSum(x * target, {axis})
  if a.reduction ~= 'mean' then return reduced(g, loss, a) end
  return #a.x.shape == 1 and loss or g.ReduceMean(loss)
end

function entries.multi_margin_loss(g, a)
  local x, last, target = a.x, #a.x.shape - 1, g:unsqueeze(g:to_positions(a.target), {-1})
  local classes, own = x.shape[last + 1], g.GatherElements(x, target, {axis = last}) -- own: that of the target's class
  local at = g:squeeze(g:one_hot(target, classes, -1, x.dtype), {last})
  local loss = g.Relu(x - own + a.margin)
  if a.p == 2 then loss = loss * loss end
  if a.weight then loss = loss * g.ReduceSum(at * a.weight, {-1}, true) end
  return reduced(g, g.ReduceSum(loss * (1 - at), {-1}) / classes, a)
end
function entries.multilabel_soft_margin_loss(g, a)
  local target = g:cast(a.target, a.x.dtype)
  local loss = g:softplus(a.x) - a.x * target
  if a.weight then loss = loss * a.weight end
  return reduced(g, g.ReduceMean(loss, {-1}), a)
end
--- The labels of a row end at the first negative one.
function entries.multilabel_margin_loss(g, a)
  local x, target, rank = a.x, g:to_positions(a.target), #a.x.shape
  local ended = g.CumSum(g:cast(g.Less(target, 0), 'int32'), g:cast(rank - 1, 'int64'))
  local labels = g.Equal(ended, 0)
  local place = g.Where(labels, target, 0)
  local n = a.x.shape[rank]
  local is_label = g.And(g.Equal(g:unsqueeze(place, {rank}), g:arange(n)), g:unsqueeze(labels, {rank}))
  local any = g:cast(g.ReduceMax(g:cast(is_label, 'int32'), {rank - 1}, true), 'bool')
  local own = g.GatherElements(x, place, {axis = rank - 1})
  local gap = g.Relu(g:unsqueeze(x, {rank - 1}) - g:unsqueeze(own, {rank}) + 1)
  local counted = g.And(g:unsqueeze(labels, {rank}), g.Not(any))
  return reduced(g, g.ReduceSum(g.Where(counted, gap, 0), {rank - 1, rank}) / n, a)
end

function entries.cosine_embedding_loss(g, a)
  local function sum(h) return g.ReduceSum(h, {-1}) end
  local x, y = a.input1, a.input2
  local size = g.Sqrt((sum(x * x) + 1e-12) * (sum(y * y) + 1e-12))
  local similar = sum(x * y) / size
  local target = g:cast(a.target, x.dtype)
  return reduced(g, g.Where(g.Equal(target, 1), 1 - similar, g.Relu(similar - a.margin)), a)
end
function entries.triplet_margin_loss(g, a)
  local function distance(x, y) return g:norm(x - y + a.eps, a.p, {-1}) end
  local near, far = distance(a.anchor, a.positive), distance(a.anchor, a.negative)
  if a.swap then far = g.Min(far, distance(a.positive, a.negative)) end
  return reduced(g, g.Relu(near - far + a.margin), a)
end

return entries
