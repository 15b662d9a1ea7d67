-- parts.lua -- the elements of a tensor in order, cut into n parts of equal sizes: process r has the r-th
local mt = require 'mtorch'
local dist = mt.dist

local parts = {}

--- The size of a part of so many elements; the last parts may be shorter.
function parts.size(count) return math.ceil(count / dist.size()) end

--- The elements with zeros at the end, up to n.
function parts.padded(x, n)
  x = x:reshape(-1)
  return x:numel() == n and x or mt.cat{x, x:new_zeros(n - x:numel())}
end

--- The part of this process, a view.
function parts.own(x)
  local size = parts.size(x:numel())
  local first = math.min(size * dist.rank(), x:numel())
  return x:reshape(-1):narrow(1, first + 1, math.min(size, x:numel() - first))
end

--- The tensor of such a shape whose parts the processes have.
function parts.whole(part, shape)
  local count = 1
  for _, n in ipairs(shape) do count = count * n end
  local size = parts.size(count)
  local all = dist.all_gather_into_(part:new_empty(size * dist.size()), parts.padded(part, size))
  return all:narrow(1, 1, count):view(shape)
end

return parts
