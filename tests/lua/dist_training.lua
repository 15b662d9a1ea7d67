-- dist_training.lua -- what the tests of training by several processes share: steps, and comparisons of their results
local mt = require 'mtorch'
local dist = mt.dist
local training = {}

function training.loss_of(net, a, b) return (net(a) - b):pow(2):mean() end

--- One training step.
function training.step(net, opt, a, b)
  opt:zero_grad()
  training.loss_of(net, a, b):backward()
  opt:step()
end

--- The state of the net after these steps, as one vector.
function training.train(net, opt, steps, a, b)
  for _ = 1, steps do training.step(net, opt, a, b) end
  return training.flat(net)
end

--- The state of a net as one vector, in the order of the names.
function training.flat(net)
  local list = {}
  for name, v in pairs(net:state_dict()) do list[#list + 1] = {name, v:double():flatten()} end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for i, entry in ipairs(list) do list[i] = entry[2] end
  return mt.cat(list)
end

function training.close(a, b, tolerance)
  local far = (a - b):abs():max():item()
  if not (far <= (tolerance or 1e-12)) then error(('the tensors differ by %g'):format(far), 2) end
end

--- The same bits in all processes.
function training.same_everywhere(v)
  for _, other in ipairs(dist.all_gather(v)) do assert(other:equal(v), 'the processes differ') end
end

return training
