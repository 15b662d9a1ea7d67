-- loss.lua -- losses as ONNX operators; targets that are positions count from 0 in the file
local core = require 'mtorch.core'
local Size = require 'mtorch.onnx.size'

local entries = {}

local function reduced(g, loss, reduction)
  if reduction == 'none' then return loss end
  return g:reduce(reduction == 'sum' and 'ReduceSum' or 'ReduceMean', loss, {}, false)
end

--- Entries of losses of x and target, element by element.
local function pointwise(name, f)
  entries[name] = function(g, a, call)
    local dtype = call.results[1].dtype
    local x, target = g:cast(a.x or a.input1 or a.input, dtype), g:cast(a.target, dtype)
    return reduced(g, f(g, x, target, a), a.reduction)
  end
end

pointwise('mse_loss', function(_, x, y) return (x - y) * (x - y) end)
pointwise('l1_loss', function(g, x, y) return g.Abs(x - y) end)
pointwise('smooth_l1_loss', function(g, x, y, a)
  local gap = g.Abs(x - y)
  if a.beta == 0 then return gap end
  return g.Where(g.Less(gap, a.beta), gap * gap * (0.5 / a.beta), gap - 0.5 * a.beta)
end)
pointwise('huber_loss', function(g, x, y, a)
  local gap = g.Abs(x - y)
  return g.Where(g.LessOrEqual(gap, a.delta), gap * gap * 0.5, (gap - 0.5 * a.delta) * a.delta)
end)
pointwise('binary_cross_entropy', function(g, x, y, a)
  local loss = -(y * g.Max(g.Log(x), -100) - (y - 1) * g.Max(g.Log(-(x - 1)), -100))
  return a.weight and loss * a.weight or loss
end)
pointwise('binary_cross_entropy_with_logits', function(g, x, y, a)
  local loss
  if a.pos_weight then loss = -((y - 1) * x) + ((a.pos_weight - 1) * y + 1) * g.Softplus(-x)
  else loss = g.Softplus(x) - x * y end
  return a.weight and loss * a.weight or loss
end)
pointwise('gaussian_nll_loss', function(g, x, y, a)
  local var = g.Max(a.var, a.eps)
  local loss = (g.Log(var) + (x - y) * (x - y) / var) * 0.5
  return a.full and loss + 0.5 * math.log(2 * math.pi) or loss
end)
pointwise('poisson_nll_loss', function(g, x, y, a)
  if a.full then core.fail('onnx.export: poisson_nll_loss with full=true has no ONNX form') end
  if a.log_input then return g.Exp(x) - y * x end
  return x - y * g.Log(x + a.eps)
end)
pointwise('hinge_embedding_loss', function(g, x, y, a)
  return g.Where(g.Equal(y, 1), x, g.Relu(-(x - a.margin)))
end)
pointwise('margin_ranking_loss', function(g, x, y, a) return g.Relu(-(y * (x - a.input2)) + a.margin) end)

entries.kl_div = function(g, a)
  local log_target = a.log_target and a.target or g.Log(a.target)
  local target = a.log_target and g.Exp(a.target) or a.target
  local loss = target * (log_target - a.x)
  if not a.log_target then loss = g.Where(g.Greater(target, 0), loss, g:number(0, a.x.dtype)) end
  if a.reduction ~= 'batchmean' then return reduced(g, loss, a.reduction) end
  local n = a.x.shape[1]
  return g:reduce('ReduceSum', loss, {}) / (Size.is(n) and g:scalar(n, a.x.dtype) or n)
end

-- ---- classes -----------------------------------------------------------------------------------------------

--- Log-probabilities x [n x classes x ..] and positions -> losses.
local function negative_log(g, x, a)
  local shape, target = a.x.shape, g:to_positions(a.target)
  if #shape == 1 then x, target = g:unsqueeze(x, {0}), g:reshape(target, {1}) end
  local weight = a.weight or false
  local loss = g.NegativeLogLikelihoodLoss(x, target, weight, {ignore_index = a.ignore_index, reduction = a.reduction})
  return #shape == 1 and a.reduction == 'none' and g:reshape(loss, {}) or loss
end
entries.nll_loss = function(g, a) return negative_log(g, a.x, a) end
entries.cross_entropy = function(g, a)
  local axis = #a.x.shape == 1 and 0 or 1
  local x = g.LogSoftmax(a.x, {axis = axis})
  local probabilities = a.target.dtype:find 'float' ~= nil
  if not probabilities and a.label_smoothing == 0 then return negative_log(g, x, a) end
  if not probabilities then
    core.fail('onnx.export: cross_entropy with label_smoothing is known for targets that are probabilities')
  end
  local classes, target = a.x.shape[axis + 1], a.target
  if a.label_smoothing > 0 then target = target * (1 - a.label_smoothing) + a.label_smoothing / classes end
  if a.weight then
    local shape = {a.weight.shape[1]}
    for i = 2, #a.x.shape - axis do shape[i] = 1 end
    x = x * g:reshape(a.weight, shape)
  end
  local loss = -g:reduce('ReduceSum', x * target, {axis})
  if a.reduction ~= 'mean' then return reduced(g, loss, a.reduction) end
  return #a.x.shape == 1 and loss or g:reduce('ReduceMean', loss, {})
end

entries.cosine_embedding_loss = function(g, a)
  local function sum(h) return g:reduce('ReduceSum', h, {-1}) end
  local x, y = a.input1, a.input2
  local size = g.Sqrt((sum(x * x) + 1e-12) * (sum(y * y) + 1e-12))
  local similar = sum(x * y) / size
  local target = g:cast(a.target, x.dtype)
  return reduced(g, g.Where(g.Equal(target, 1), -(similar - 1), g.Relu(similar - a.margin)), a.reduction)
end
entries.triplet_margin_loss = function(g, a)
  local function distance(x, y)
    local gap = g.Abs(x - y + a.eps)
    if a.p == 2 then return g:reduce('ReduceL2', gap, {-1}) end
    return g:reduce('ReduceSum', gap ^ a.p, {-1}) ^ (1 / a.p)
  end
  local near, far = distance(a.anchor, a.positive), distance(a.anchor, a.negative)
  if a.swap then far = g.Min(far, distance(a.positive, a.negative)) end
  return reduced(g, g.Relu(near - far + a.margin), a.reduction)
end

return entries
