-- sharded_parameters.lua -- the parameters of which this process keeps a part (dist.shard)
local sharded = {
  shapes = setmetatable({}, {__mode = 'k'}), -- of the whole parameter, by its part in this process
  optimizers = setmetatable({}, {__mode = 'kv'}), -- the optimizer of each parameter, sharded or not
}

--- Whether one of the tensors is a part.
function sharded.any(list)
  for i = 1, #list do
    if sharded.shapes[list[i]] then return true end
  end
  return false
end

return sharded
