-- distance_loss.lua -- mt.triplet_margin_with_distance_loss: triplet loss with a distance that is a Lua function
local core = require 'mtorch.core'
local mt = require 'mtorch'

return core.declare('triplet_margin_with_distance_loss(anchor: tensor, positive: tensor, negative: tensor, ' ..
  'distance_function: function = nil, margin: number > 0 = 1, swap: bool = false, ' ..
  "reduction: 'mean'|'sum'|'none' = 'mean')",
  'max(0, distance to the positive - distance to the negative + margin), for any function of two tensors that ' ..
  'returns distances; mt.pairwise_distance by default. swap: the negative may be nearer to the positive.',
  function(anchor, positive, negative, distance, margin, swap, reduction)
    distance = distance or mt.pairwise_distance
    local near, far = distance(anchor, positive), distance(anchor, negative)
    if swap then far = far:minimum(distance(positive, negative)) end
    local loss = (near - far + margin):relu()
    if reduction == 'none' then return loss end
    return reduction == 'sum' and loss:sum() or loss:mean()
  end)
