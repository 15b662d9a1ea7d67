-- functional.lua -- a module called with other parameters; parameters as a vector; gradient clipping
local core = require 'mtorch.core'
local mt = require 'mtorch'
local row_gradients = require 'mtorch.core.row_gradients'
local sharded = require 'mtorch.core.sharded_parameters'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'

local functional = {}

--- All places of each parameter or buffer, {owner, key}, by tensor; and the tensors by all of their names.
local function places_of(net)
  local places, named = {}, {}
  class.walk(net, function(name, value, kind, owner, key)
    if kind == 'module' then return end
    named[name], places[value] = value, places[value] or {}
    table.insert(places[value], {owner, key})
  end, true)
  return places, named
end

functional.functional_call = core.declare('functional_call(net, tensors, ..)',
  "net(..) with other tensors in the place of the parameters and buffers of these names (state_dict's), " ..
  "nn.functional_call(net, {['0.weight'] = w}, x): gradients reach them. A shared parameter is replaced everywhere.",
  function(net, tensors, ...)
    class.check_module('functional_call', net)
    core.check(type(tensors) == 'table',
      'functional_call: a table of tensors by name is needed, got %s', core.describe(tensors))
    local places, named = places_of(net)
    local replaced = {}
    for name, tensor in pairs(tensors) do
      local old = named[name]
      if not old then
        core.fail("functional_call: %s has no parameter or buffer '%s'%s", net.__name, tostring(name),
          core.did_you_mean(util.sorted_keys(named), name))
      end
      core.check(not sharded.shapes[old], "functional_call: '%s' is a part of a parameter of dist.shard", name)
      if not mt.is_tensor(tensor) or tensor.shape ~= old.shape then
        core.fail("functional_call: '%s' is %s, expected a tensor %s", name,
          mt.is_tensor(tensor) and tostring(tensor.shape) or core.describe(tensor), tostring(old.shape))
      end
      for _, place in ipairs(places[old]) do replaced[#replaced + 1] = {place[1], place[2], tensor = tensor} end
    end
    return class.with_tensors(replaced, function(place) return place.tensor end, net, ...)
  end)

-- ---- gradients ----------------------------------------------------------------------------------

--- A list of tensors; a single tensor becomes a list.
local function list_of(parameters) return mt.is_tensor(parameters) and {parameters} or parameters end

--- The norm of all gradients if this process keeps parts of some of them, as other processes do; otherwise nil.
local function norm_over_processes(parameters, norm_type)
  if not sharded.any(parameters) then return nil end
  local parts, others = {}, {}
  for _, p in ipairs(parameters) do table.insert(sharded.shapes[p] and parts or others, p) end
  local norms = mt.dist.all_gather(core.grad_norm(parts, norm_type))
  norms[#norms + 1] = core.grad_norm(others, norm_type):to(norms[1].dtype):to(norms[1].device)
  return mt.stack(norms):norm(norm_type)
end

functional.clip_grad_norm_ = core.declare(
  'clip_grad_norm_([parameters]: tensor|tensors, max_norm: number >= 0, norm_type: number = 2, ' ..
    'error_if_nonfinite: bool = false)',
  'Scales the gradients of the parameters, in place, so that their norm, all taken as one vector, is at most ' ..
  'max_norm; returns the norm before, a 0-d tensor. It does not wait for a GPU unless error_if_nonfinite is true. ' ..
  'Of parameters of dist.shard it is the norm over all processes, which call it together.',
  function(parameters, max_norm, norm_type, error_if_nonfinite)
    local list = list_of(parameters)
    row_gradients.refuse('clip_grad_norm_', list)
    return core.clip_grad_norm_(list, max_norm, norm_type, error_if_nonfinite, norm_over_processes(list, norm_type))
  end)

functional.clip_grad_value_ = core.declare(
  'clip_grad_value_([parameters]: tensor|tensors, clip_value: number >= 0)',
  'Clamps each element of the gradients of the parameters to +-clip_value, in place.',
  function(parameters, clip_value)
    row_gradients.refuse('clip_grad_value_', list_of(parameters))
    core.clip_grad_value_(list_of(parameters), clip_value)
  end)

-- ---- one vector ---------------------------------------------------------------------------------

functional.parameters_to_vector = core.declare('parameters_to_vector([parameters]: tensors)',
  'The elements of all parameters as one vector; gradients go back to them.', function(parameters)
    if not parameters[1] then core.fail('parameters_to_vector: the list is empty') end
    return (mt.cat(util.map(parameters, function(p) return p:reshape(-1) end), 1))
  end)

functional.vector_to_parameters = core.declare('vector_to_parameters(vec: tensor, [parameters]: tensors)',
  'Writes the elements of a vector into the parameters, one after the other.', function(vec, parameters)
    local sizes, n = {}, 0
    for i, p in ipairs(parameters) do sizes[i], n = p:numel(), n + p:numel() end
    core.check(vec:dim() == 1 and vec:numel() == n,
      'vector_to_parameters: the vector is %s, the parameters have %d elements', vec.shape, n)
    mt.no_grad(function()
      for i, part in ipairs(vec:split(sizes)) do parameters[i]:copy_(part:view_as(parameters[i])) end
    end)
  end)

return functional
