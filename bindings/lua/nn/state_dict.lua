-- state_dict.lua -- parameters and buffers of a module by PyTorch's names: saving, comparing, loading
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'
local method, is_module = class.method, class.is_module

--- Every parameter and buffer under each of its names, and the names in order.
local function state_of(self)
  local tensors, order = {}, {}
  class.walk(self, function(name, value, kind)
    if kind ~= 'module' and not class.transient[value] then tensors[name], order[#order + 1] = value, name end
  end, true)
  return tensors, order
end

method('state_dict()', "A table of names to detached tensors that share the parameters' memory. The names are " ..
  "PyTorch's: children of a Sequential count from 0, '0.weight', where print(net) and net[1] count from 1.",
  function(self)
    local state = {}
    for name, value in pairs((state_of(self))) do state[name] = value:detach() end
    return state
  end)

--- The state under current names: weight_g and weight_v of PyTorch's older weight_norm are the originals of weight.
local function renamed(order, state)
  local result
  for _, name in ipairs(order) do
    local prefix, key, k = name:match '^(.*)parametrizations%.([^.]+)%.original([01])$'
    local older = prefix and prefix .. key .. (k == '0' and '_g' or '_v')
    if older and state[name] == nil and state[older] ~= nil then
      result = result or util.merged(state)
      result[name], result[older] = state[older], nil
    end
  end
  return result or state
end

--- The names that a state lacks, those that only the state has, and messages about values that do not fit.
local function compare(mine, order, state)
  local missing, unexpected, unfit = {}, {}, {}
  for _, name in ipairs(order) do
    local value = state[name]
    if value == nil then -- PyTorch before 0.4.1 did not save the counter, which is then kept
      if not name:find 'num_batches_tracked$' then missing[#missing + 1] = name end
    elseif not mt.is_tensor(value) then unfit[#unfit + 1] = ("'%s' is not a tensor"):format(name)
    elseif value.shape ~= mine[name].shape then
      unfit[#unfit + 1] = ("'%s' is %s, expected %s"):format(name, tostring(value.shape), tostring(mine[name].shape))
    end
  end
  for name in pairs(state) do
    if not mine[name] then unexpected[#unexpected + 1] = tostring(name) end
  end
  table.sort(unexpected)
  return missing, unexpected, unfit
end

-- A state has string keys too, so it cannot be an argument of a declared function.
local strictness = core.declare('load_state_dict(strict: bool = true)', 'The options of load_state_dict.',
  function(strict) return strict end)

local shown = 4 -- the number of faults in an error

--- Raises an error for a state that does not fit a module; returns the state under the module's names, the module's
--- tensors, their names in order, and the missing and unexpected names if not strict.
function class.check_state(self, state, strict)
  core.check(type(state) == 'table' and not is_module(state), 'load_state_dict: a table of tensors, as state_dict() ' ..
    'returns, is needed, got %s', is_module(state) and state.__name or core.describe(state))
  local mine, order = state_of(self)
  state = renamed(order, state)
  local missing, unexpected, faults = compare(mine, order, state)
  local cure = #faults == 0 and '; {strict=false} loads the rest' or ''
  if strict then
    for _, name in ipairs(missing) do faults[#faults + 1] = ("'%s' is missing"):format(name) end
    for _, name in ipairs(unexpected) do faults[#faults + 1] = ("'%s' is unknown"):format(name) end
  end
  if #faults > 0 then
    local more = #faults > shown and (' and %d more'):format(#faults - shown) or ''
    core.fail('load_state_dict: nothing loaded into %s: %s%s%s', self.__name,
      table.concat(faults, ', ', 1, math.min(#faults, shown)), more, cure)
  end
  return state, mine, order, missing, unexpected
end

method('load_state_dict(state, strict=true)',
  'Copies such a table into the parameters; returns the module. If it does not fit, ' ..
  'nothing is loaded; {strict=false} ignores missing and unknown names and returns both lists.',
  function(self, state, strict)
    strict = strictness(strict)
    local fitting, mine, order, missing, unexpected = class.check_state(self, state, strict)
    mt.no_grad(function()
      for _, name in ipairs(order) do
        if fitting[name] then mine[name]:copy_(fitting[name]) end
      end
    end)
    if strict then return self end
    return missing, unexpected
  end)
