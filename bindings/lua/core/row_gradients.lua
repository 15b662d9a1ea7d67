-- row_gradients.lua -- sparse gradients: those of the rows of a table that were used, kept beside its .grad
local core = require 'mtorch.core'
local mt = require 'mtorch'

-- Of a parameter: its rows, each once, and their gradients [rows x columns].
local gradients = setmetatable({}, {__mode = 'k'})

local row_gradients = {}

--- Adds the gradients of rows, each of which occurs once; a backward pass calls it.
function row_gradients.add(parameter, rows, values)
  local before = gradients[parameter]
  if before then
    local at
    rows, at = mt.cat({before.rows, rows}, 1):unique{return_inverse = true}
    values = mt.zeros(#rows, values:size(2), {dtype = values.dtype}):index_add(1, at,
      mt.cat({before.values, values}, 1))
  end
  gradients[parameter] = {rows = rows, values = values}
end

--- The values of the sparse gradient of a parameter, or nil.
function row_gradients.values(parameter) return (gradients[parameter] or {}).values end

--- The list parameter, rows, values, parameter, .. of an optimizer's groups; nil without sparse gradients.
function row_gradients.of(groups)
  if next(gradients) == nil then return nil end
  local list = {}
  for _, group in ipairs(groups) do
    for _, p in ipairs(group.params) do
      local g = gradients[p]
      if g then list[#list + 1], list[#list + 2], list[#list + 3] = p, g.rows, g.values end
    end
  end
  return list
end

function row_gradients.drop(parameters)
  if next(gradients) == nil then return end
  for i = 1, #parameters do gradients[parameters[i]] = nil end
end

--- Raises an error if a parameter has a sparse gradient, which the function `name` does not read.
function row_gradients.refuse(name, parameters)
  if next(gradients) == nil then return end
  for i = 1, #parameters do
    core.check(not gradients[parameters[i]], '%s: parameter %d has a sparse gradient, of nn.Embedding with ' ..
      'sparse=true, which only steps of SGD, Adagrad and SparseAdam read; leave sparse out', name, i)
  end
end

return row_gradients
