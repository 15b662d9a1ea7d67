-- module.lua -- declarations of layers: module.of(name, fn, inputs), module.define{..} with parameters
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local class = require 'mtorch.nn.class'

local module = {}

local function one_of(...)
  local names = {...}
  return function(value)
    for _, name in ipairs(names) do
      if value == name then return true end
    end
  end, "'" .. table.concat(names, "', '") .. "'"
end
local function number(value) return type(value) == 'number' and value == value end
local function whole(value) return number(value) and value % 1 == 0 end

--- What an option's value must be: a check and its words.
local expected = {
  reduction = {one_of('mean', 'sum', 'none')}, approximate = {one_of('none', 'tanh')},
  weight = {mt.is_tensor, 'a tensor'}, pos_weight = {mt.is_tensor, 'a tensor'},
  ignore_index = {whole, 'a whole number'}, first = {whole, 'a whole number'}, last = {whole, 'a whole number'},
  beta = {number, 'a number'}, threshold = {number, 'a number'},
  label_smoothing = {function(v) return number(v) and v >= 0 and v <= 1 end, 'a number from 0 to 1'},
  bias = {function(v) return type(v) == 'boolean' end, 'true or false'},
}
for _, name in ipairs{'in_features', 'out_features'} do
  expected[name] = {function(v) return whole(v) and v >= 1 end, 'a whole number from 1'}
end

local refuse = class.refuse_inputs

--- `function(self, x1, .., more)` that calls fn with the inputs and, for the other parameters of its
--- signature, the module's fields of their names. Made as text, so that a call allocates nothing.
local function forward_of(fn, params, inputs)
  local given, fields = {}, {}
  for i, p in ipairs(params) do
    if i <= inputs then
      given[i] = 'x' .. i
    elseif not p.default or p.default == 'nil' then -- maybe a tensor, which lies in __held
      fields[#fields + 1] = (('local aI = held.%s if aI == nil then aI = rawget(self, %q) end'):format(p.name, p.name)
        :gsub('aI', 'a' .. i))
      given[i] = 'a' .. i
    else
      given[i] = 'self.' .. p.name
    end
  end
  if fields[1] then table.insert(fields, 1, 'local held = self.__held') end
  local text = ([[local fn, refuse, rawget = ...
    return function(self, %s, more)
      if x1 == nil or more ~= nil then refuse(self, %d, more) end
      %s
      return fn(%s)
    end]]):format(table.concat(given, ', ', 1, inputs), inputs, table.concat(fields, '\n'), table.concat(given, ', '))
  return assert(loadstring(text, '@mtorch/nn/module.lua'))(fn, refuse, rawget)
end

--- The same for a function of the module itself, `forward(self, x1, ..)`.
local function counted(forward)
  local inputs = debug.getinfo(forward, 'u').nparams - 1
  return function(self, ...)
    if select('#', ...) > inputs or type(self) ~= 'table' then refuse(self, inputs, true) end
    return forward(self, ...)
  end
end

--- The names of a constructor's arguments, and a function that returns their defaults.
local function options_of(params)
  local names, defaults = {}, {}
  for i, p in ipairs(params) do names[i], defaults[i] = p.name, p.default or 'nil' end
  return names, loadstring('return ' .. table.concat(defaults, ', '))
end

--- Puts the arguments of a constructor, or their defaults, into the fields of their names.
local function set_options(self, names, defaults, ...)
  local values = {defaults()}
  for i, name in ipairs(names) do
    local value = select(i, ...)
    if value ~= nil then
      local check = expected[name]
      if check and not check[1](value) then
        core.fail('%s: %s must be %s, got %s', self.__name, name, check[2], core.describe(value))
      end
      values[i] = value
    end
    value = values[i]
    if mt.is_tensor(value) then value = class.Buffer(value) end -- goes to a device with the module
    if value ~= nil then self[name] = value end
  end
end

--- The parameters of a declared function but for {out=}, and its help.
local function declared(fn)
  local signature, doc = core.entry(fn)
  local params = signature and util.parameters(signature)
  if params and params[#params] and params[#params].out then params[#params] = nil end
  return params, doc
end

--- A module that applies fn, a function of mt, to `inputs` tensors. The other parameters of its
--- signature are the module's options: fields, which may be changed later. `training` is the
--- module's own. `defaults`, {name = text}, replaces some of the signature's.
function module.of(name, fn, inputs, defaults)
  local params, doc = declared(fn)
  local options, texts = {}, {}
  for i, p in ipairs(params) do
    p.default = defaults and defaults[p.name] or p.default
    if i > inputs and p.name ~= 'training' then
      options[#options + 1], texts[#texts + 1] = p, p.name .. (p.default and '=' .. p.default or '')
    end
  end
  local names, values = options_of(options)
  local made = class.class(name)
  class.constructor(made, ('%s(%s)'):format(name, table.concat(texts, ', ')), doc,
    function(self, ...) set_options(self, names, values, ...) end)
  made.forward = forward_of(fn, params, inputs)
  return made
end

--- A module with parameters:
---   module.define{signature, doc, parameters = {'weight', ..}, init =, forward =, extra =}
--- The constructor's arguments become fields, but for those with a parameter's name. init(options)
--- returns a tensor, or nil or false, for each of `parameters`, then for each of `buffers`. forward
--- is a function of mt, called with the inputs and the fields that its signature names, or a
--- function of the module and the inputs. extra(self) is what print adds.
function module.define(spec)
  local params = util.parameters(spec[1])
  local made = class.class(spec[1]:match('^[%w_]+'))
  local names, defaults = options_of(params)
  local tensors, is_tensor = {}, {}
  for _, kind in ipairs{'parameters', 'buffers'} do
    for _, name in ipairs(spec[kind] or {}) do
      tensors[#tensors + 1] = {name = name, make = kind == 'buffers' and class.Buffer or class.Parameter}
      is_tensor[name] = true
    end
  end
  class.constructor(made, spec[1], spec[2], function(self, ...)
    local options = {__name = made.__name}
    set_options(options, names, defaults, ...)
    for _, name in ipairs(names) do
      if not is_tensor[name] then self[name] = options[name] end
    end
    if not spec.init then return end
    local made_tensors = {spec.init(options)}
    for i, tensor in ipairs(tensors) do
      if made_tensors[i] then self[tensor.name] = tensor.make(made_tensors[i]) end
    end
  end)
  local arguments = declared(spec.forward)
  if arguments then
    local inputs = 0
    while not is_tensor[arguments[inputs + 1].name] do inputs = inputs + 1 end
    made.forward = forward_of(spec.forward, arguments, inputs)
  else
    made.forward = counted(spec.forward)
  end
  made.extra = spec.extra
  return made
end

--- Uniform in +-bound: module.uniform(bound)(sizes..), drawn as (2 u - 1) * bound.
function module.uniform(bound)
  return function(...) return (mt.rand(...) * 2 - 1) * bound end
end

return module
