-- module.lua -- declarations of layers: module.of(fn, inputs), module.define{..} with parameters
local core = require 'mtorch.core'
local mt = require 'mtorch'
local class = require 'mtorch.nn.class'

local module = {}

local refuse = class.refuse_inputs

local compiled = {} -- many modules have the same text
local function compile(text)
  compiled[text] = compiled[text] or assert(loadstring(text, '@mtorch/nn/module.lua'))
  return compiled[text]
end

--- `function(self, x1, .., more)` that calls fn with the inputs, and with the module's fields for
--- the other parameters of its signature; or `in_place` if the module's field inplace is set. It is
--- generated as text, so that a call does not allocate.
local function forward_of(fn, params, inputs, in_place)
  local given, fields = {}, {}
  for i, p in ipairs(params) do
    if i <= inputs then
      given[i] = 'x' .. i
    elseif not p.default or p.default == 'nil' then -- may be a tensor, which is in __params
      fields[#fields + 1] = (('local aI = params.%s if aI == nil then aI = rawget(self, %q) end'):format(p.name, p.name)
        :gsub('aI', 'a' .. i))
      given[i] = 'a' .. i
    else
      given[i] = 'self.' .. p.name
    end
  end
  if fields[1] then table.insert(fields, 1, 'local params = self.__params') end
  if in_place then fields[#fields + 1] = 'local fn = self.inplace and in_place or fn' end
  local text = ([[local fn, refuse, rawget, in_place = ...
    return function(self, %s, more)
      if x%d == nil or more ~= nil then
        refuse(self, %d, more, x1)
        return fn(%s) -- raises an error for the missing input
      end
      %s
      return fn(%s)
    end]]):format(table.concat(given, ', ', 1, inputs), inputs, inputs, table.concat(given, ', ', 1, inputs - 1),
    table.concat(fields, '\n'), table.concat(given, ', '))
  return compile(text)(fn, refuse, rawget, in_place)
end

--- The same for a function with the module as its argument, `forward(self, x1, ..)`.
local function counted(forward)
  local inputs, names = debug.getinfo(forward, 'u').nparams - 1, {}
  for i = 1, inputs do names[i] = ', x' .. i end
  names = table.concat(names)
  local text = ([[local forward, refuse, type = ...
    return function(self%s, more)
      if more ~= nil or type(self) ~= 'table' then refuse(self, %d, more, true) end
      return forward(self%s)
    end]]):format(names, inputs, names)
  return compile(text)(forward, refuse, type)
end

--- "reduction: 'mean'|'sum' = 'mean'" for an entry of core.parameters.
local function parameter_text(p)
  local text = ('%s: %s'):format(p.list and ('[%s%s]'):format(p.name, p.collects and '..' or '') or p.name, p.type)
  if p.low then text = text .. ' >= ' .. p.low end
  if p.high then text = text .. ' <= ' .. p.high end
  return p.default and text .. ' = ' .. p.default or text
end

--- The options of a module of fn as text: those that `stated` lists, or all parameters that are not inputs. An entry
--- {name = "type = default"} replaces the text of the signature; '[name]' in the list takes a list.
local function options_of(params, inputs, stated)
  local of, texts, names = {}, {}, {}
  for i = inputs + 1, #params do
    local p = params[i]
    of[p.name] = p
    if p.name ~= 'training' then names[#names + 1] = p.name end
  end
  for i, shown in ipairs(stated[1] and stated or names) do
    local name = shown:match('[%w_]+')
    texts[i] = stated[name] and shown .. ': ' .. stated[name] or parameter_text(of[name]):gsub('^[^:]+', shown)
  end
  return table.concat(texts, ', ')
end

--- A module that applies fn, a function of mt, to `inputs` tensors. The other parameters of its signature are the
--- module's options: fields that can be changed later; see options_of for `stated`. `training` is the module's
--- field. `in_place` is the in-place form of fn, or true: the module has the option inplace.
local function make(name, fn, inputs, stated, in_place)
  local _, doc = core.entry(fn)
  local params = core.parameters(fn)
  local text = options_of(params, inputs, stated or {})
  if in_place then
    text = text .. (text == '' and '' or ', ') .. 'inplace: bool = false'
    if in_place == true then in_place = function(x, ...) return x:copy_(fn(x, ...)) end end
  end
  local made = class.class(name)
  class.options_constructor(made, ('%s(%s)'):format(name, text), doc, {}, false, function() end)
  made.forward = forward_of(fn, params, inputs, in_place)
  return made
end

-- Creating a class takes 20 microseconds, so those of functions are created on demand.
local Later = {}
--- The class that make(name, fn, inputs, stated, in_place) will create; its name is that in mt.nn.
function module.of(...) return setmetatable({...}, Later) end
function module.is_later(value) return getmetatable(value) == Later end
function module.now(later)
  later.made = later.made or make(later.__name, unpack(later, 1, 4))
  return later.made
end
function Later:__call(...) return module.now(self)(...) end

--- A module with parameters:
---   module.define{signature, doc, parameters = {'weight', ..}, init =, forward =, extra =, macs =}
--- The constructor's arguments become fields, except those with a parameter's name. init(options) returns a tensor,
--- or nil or false, for each of `parameters`, then for each of `buffers`. forward is a function of mt, called with
--- the inputs and the fields that its signature names, or a function of the module and the inputs. extra is the form
--- of class.extra; macs(self, x, y, inputs) returns the multiply-adds of a call (x: the first input, y: the result) if
--- nn/summary.lua cannot derive them from the parameters.
function module.define(spec)
  local made, tensors, kind_of = class.class(spec[1]:match('^[%w_]+')), {}, {}
  for _, kind in ipairs{'parameters', 'buffers'} do
    for _, name in ipairs(spec[kind] or {}) do
      tensors[#tensors + 1], kind_of[name] = name, kind == 'buffers' and class.Buffer or class.Parameter
    end
  end
  class.options_constructor(made, spec[1], spec[2], kind_of, spec.parameters ~= nil, function(self, options)
    local values = spec.init and {spec.init(options)} or {}
    for i, name in ipairs(tensors) do
      if values[i] then self[name] = kind_of[name](values[i]) end
    end
  end)
  local arguments, inputs, known = core.parameters(spec.forward), 0, {}
  for _, p in ipairs(core.parameters(made)) do known[p.name] = true end
  while arguments and not (kind_of[arguments[inputs + 1].name] or known[arguments[inputs + 1].name]) do
    inputs = inputs + 1
  end
  made.forward = arguments and forward_of(spec.forward, arguments, inputs) or counted(spec.forward)
  made.extra, made.__macs, made.__tensors = spec.extra and class.extra(made, spec.extra), spec.macs, tensors
  return made
end

--- The forward of a class whose call has options: body(self, ..) with the arguments bound by their declaration.
function module.bind_forward(made, arguments, body)
  local bind = core.binder(('%s(%s)'):format(made.__name, arguments))
  function made:forward(...)
    if type(self) ~= 'table' then refuse(self) end
    return body(self, bind(...))
  end
end

--- Uniform in +-bound: module.uniform(bound)(sizes..), drawn as (2 u - 1) * bound.
function module.uniform(bound)
  return function(...) return (mt.rand(...) * 2 - 1) * bound end
end

--- A matrix, uniform in +-sqrt(6 / (rows + columns)) (Glorot 2010).
function module.xavier_uniform(rows, columns) return module.uniform(math.sqrt(6 / (rows + columns)))(rows, columns) end

return module
