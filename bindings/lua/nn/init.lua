-- init.lua -- mt.nn: modules that know their parameters, and the layers made of them
local core = require 'mtorch.core'
local mt = require 'mtorch'

local nn = {}

-- What a tensor is to a module: 'parameter' or 'buffer'. Weak, so that it keeps no tensor alive.
local role = setmetatable({}, {__mode = 'k'})

--- `nn.Parameter(t)`: a tensor that modules register and optimizers change; it requires a gradient.
nn.Parameter = core.declare('Parameter(tensor)', 'A tensor that modules register and optimizers change.',
  function(tensor)
    if not mt.is_tensor(tensor) then core.fail('Parameter: a tensor is needed, got ' .. core.describe(tensor)) end
    local p = tensor:detach():requires_grad_()
    role[p] = 'parameter'
    return p
  end)

--- `nn.Buffer(t)`: a tensor that is saved and moved with the module but not trained.
nn.Buffer = core.declare('Buffer(tensor)', 'A tensor that is saved with the module but not trained.',
  function(tensor)
    if not mt.is_tensor(tensor) then core.fail('Buffer: a tensor is needed, got ' .. core.describe(tensor)) end
    local b = tensor:detach()
    role[b] = 'buffer'
    return b
  end)

-- ---- classes -------------------------------------------------------------------------------------

local Module = {__name = 'Module'}

local function is_module(value) return type(value) == 'table' and rawget(value, '__fields') ~= nil end

--- The value of a field. A tensor with a role lies in __held, where the module does not see it
--- itself, so that assigning to it comes to `assign`.
local function field(self, key)
  local held, value = rawget(self, '__held'), rawget(self, key)
  if value == nil then return held[key] end
  if not role[value] then return value end
  held[key] = value -- it took the place of something plain
  rawset(self, key, nil)
  return value
end

--- What may not take the place of a parameter or buffer; whether a plain tensor becomes a buffer.
local function replaces(self, key, old, value)
  if value == nil or role[value] or is_module(value) then return false end
  if role[old] == 'parameter' then
    core.fail(('%s.%s is a parameter: assign nn.Parameter(..) (or nil, which removes it), or write into it with ' ..
      'mt.no_grad and copy_; got %s'):format(self.__name, tostring(key), core.describe(value)))
  end
  if not mt.is_tensor(value) then
    core.fail(('%s.%s is a buffer: assign a tensor (or nil, which removes it), got %s'):format(self.__name,
      tostring(key), core.describe(value)))
  end
  return true
end

--- Fields in the order of their first assignment; what each is to the module is seen when asked.
local function assign(self, key, value)
  if type(value) == 'table' and not is_module(value) and is_module(rawget(value, 1)) then
    core.fail(("%s.%s: a plain list of modules is not registered; use nn.ModuleList{..}"):format(self.__name, key))
  end
  local fields, held, known = rawget(self, '__fields'), rawget(self, '__held'), rawget(self, '__known')
  if held[key] ~= nil and replaces(self, key, held[key], value) then role[value] = 'buffer' end
  if not known[key] then fields[#fields + 1], known[key] = key, true end
  local has_role = value ~= nil and role[value]
  held[key] = has_role and value or nil
  if not has_role then rawset(self, key, value) end
end

local function results(...) return ... end

--- `net(...)`. The call of forward is no tail call, so that errors can name the module.
local function call(self, ...) -- a forward of the object's own, or of its class: without __index
  return results((rawget(self, 'forward') or self.__class.forward)(self, ...))
end
core.set_module_call(call)

-- The declarations of constructors without self, which sees to arguments as the user counts them.
local checks = setmetatable({}, {__mode = 'k'})

--- The __init of a class; the signature is of what the user calls.
local function constructor(signature, doc, init)
  local name, rest = signature:match('^([%w_]+)%((.*)%)$')
  local declared = core.declare(('%s(self%s%s)'):format(name, rest ~= '' and ', ' or '', rest), doc, init)
  if not rest:find('..', 1, true) then checks[declared] = core.declare(signature, doc, results) end
  return declared
end

local function construct(class, ...)
  local self = setmetatable({__fields = {}, __held = {}, __known = {}, __class = class, training = true}, class.__meta)
  local init = class.__init
  local check = checks[init]
  if check then init(self, check(...)) else init(self, ...) end
  return self
end

-- The last field that was asked for and not there. It is nil, so that `if self.bias then` and `self.h or
-- zeros` go on, but where Lua then stops at that nil the program says what the module has.
local last_missing = setmetatable({}, {__mode = 'v'})

--- " (Net has no 'wieght'; did you mean 'weight'?)", or nothing.
function core.missing_field(key)
  local self = last_missing.module
  if not self or last_missing.key ~= key then return nil end
  local names, class = {}, getmetatable(self).class
  for _, name in ipairs(rawget(self, '__fields')) do names[#names + 1] = tostring(name) end
  while class do
    for name in pairs(class) do
      if type(name) == 'string' and not name:find('^__') then names[#names + 1] = name end
    end
    class = getmetatable(class).__index
  end
  table.sort(names)
  local close = core.nearest(names, key)
  return (" (%s has no '%s'%s)"):format(self.__name, key, close ~= '' and ("; did you mean '%s'?"):format(close) or '')
end

local function make_class(class, base)
  local function index(self, key)
    if key == '__held' then return nil end -- of a table that is no module
    local value = self.__held[key]
    if value == nil then value = class[key] end
    if value == nil then last_missing.module, last_missing.key = self, key end
    return value
  end
  class.__meta = {class = class, __index = index, __newindex = assign, __call = call,
    __tostring = function(self) return self:describe() end}
  return setmetatable(class, {__index = base, __call = construct, __tostring = function() return class.__name end})
end

--- `nn.class('Net'[, Base])`: a class of modules; define __init and forward, make objects with
--- Net(...).
nn.class = core.declare('class(name, base=nil)', 'A class of modules: define __init and forward, then call it.',
  function(name, base)
    if type(name) ~= 'string' then core.fail('class: a name is needed, got ' .. core.describe(name)) end
    if base ~= nil and (type(base) ~= 'table' or not rawget(base, '__meta')) then
      core.fail('class: the base must be a class of modules, got ' ..
        (is_module(base) and 'a module of the class ' .. base.__name or core.describe(base)))
    end
    return make_class({__name = name}, base or Module)
  end)
nn.Module = make_class(Module)

Module.__init = core.declare('Module(..)', 'The base of all modules; see nn.class.', function() end)

function Module:forward()
  core.fail(('%s has no forward: define function %s:forward(x)'):format(self.__name, self.__name))
end

-- ---- walking -------------------------------------------------------------------------------------

--- PyTorch's name of a field: children of a Sequential count from 0.
local function field_name(key) return type(key) == 'number' and tostring(key - 1) or key end

--- Calls visit(name, value, owner, key) for every parameter, buffer and module, depth first, each
--- once.
local function walk(self, visit, prefix, seen)
  prefix, seen = prefix or '', seen or {[self] = true}
  for _, key in ipairs(rawget(self, '__fields')) do
    local value = field(self, key)
    if value ~= nil and not seen[value] and (is_module(value) or role[value]) then
      seen[value] = true
      local name = prefix .. field_name(key)
      visit(name, value, self, key)
      if is_module(value) then walk(value, visit, name .. '.', seen) end
    end
  end
end

local function collect(self, wanted)
  local list, names = {}, {}
  walk(self, function(name, value)
    if (is_module(value) and 'module' or role[value]) == wanted then
      list[#list + 1], names[#names + 1] = value, name
    end
  end)
  return list, names
end

local function named(list, names)
  local i = 0
  return function()
    i = i + 1
    return names[i], list[i]
  end
end

--- All parameters, as a list.
function Module:parameters() return (collect(self, 'parameter')) end
--- Iterates name, parameter.
function Module:named_parameters() return named(collect(self, 'parameter')) end
--- Iterates name, buffer.
function Module:named_buffers() return named(collect(self, 'buffer')) end
--- Iterates name, module, without the module itself.
function Module:named_modules() return named(collect(self, 'module')) end
--- All buffers, as a list.
function Module:buffers() return (collect(self, 'buffer')) end
--- The module itself and all modules inside, as a list.
function Module:modules()
  local list = collect(self, 'module')
  table.insert(list, 1, self)
  return list
end
--- The modules that are direct fields, as a list.
function Module:children()
  local list, seen = {}, {}
  for _, key in ipairs(rawget(self, '__fields')) do
    local value = field(self, key)
    if is_module(value) and not seen[value] then list[#list + 1], seen[value] = value, true end
  end
  return list
end

--- Calls fn for every module inside, then for this one; returns self.
function Module:apply(fn)
  if not core.is_callable(fn) then
    core.fail('apply: a function of a module is needed, got ' .. core.describe(fn))
  end
  for _, child in ipairs(self:children()) do child:apply(fn) end
  fn(self)
  return self
end

local function check_boolean(where, value)
  if type(value) ~= 'boolean' then
    core.fail(('%s must be true or false, got %s'):format(where, core.describe(value)))
  end
  return value
end

--- Switches to training (or not); returns self.
function Module:train(mode)
  if mode == nil then mode = true end
  check_boolean('train: the mode', mode)
  for _, module in ipairs(self:modules()) do rawset(module, 'training', mode) end
  return self
end
function Module:eval() return self:train(false) end

--- Freezes (false) or frees all parameters; returns self.
function Module:requires_grad_(on)
  if on == nil then on = true end
  check_boolean('requires_grad_: the argument', on)
  for _, p in ipairs(self:parameters()) do p:requires_grad_(on) end
  return self
end

--- Drops all gradients.
function Module:zero_grad() core.zero_grad(self:parameters()) end

--- The same data elsewhere or of another dtype; the gradient goes with it.
local function convert(value, ...)
  local data, gradient = value:detach():to(...), value.grad
  if data.dtype == value.dtype and data.device == value.device then return end
  core.set_data(value, data)
  value.grad = gradient and gradient:to(...) or nil
end

--- Another dtype or device, for all parameters and buffers in place; returns self. Only the device
--- is for tensors of integers and booleans too.
function Module:to(...)
  local dtype = mt.empty({0}, 'float32'):to(...).dtype
  local asked = dtype == mt.empty({0}, 'float64'):to(...).dtype
  if asked and not dtype:find('float') then
    core.fail(("to: parameters need a float dtype ('float32', 'float64', 'float16', 'bfloat16'), got '%s'"):format(
      dtype))
  end
  local given, n = {...}, select('#', ...)
  walk(self, function(_, value, owner, key)
    if not role[value] then return end
    if not value.is_leaf then -- a buffer that was computed; its data cannot be replaced
      value = nn.Buffer(value)
      owner.__held[key] = value
    end
    if not asked or value.dtype:find('float') then return convert(value, unpack(given, 1, n)) end
    local on = mt.empty({0}, {dtype = 'float32', device = value.device}):to(unpack(given, 1, n)).device
    convert(value, on)
  end)
  return self
end

function Module:float() return self:to('float32') end
function Module:double() return self:to('float64') end
function Module:half() return self:to('float16') end
function Module:bfloat16() return self:to('bfloat16') end
function Module:cpu() return self:to('cpu') end
function Module:cuda() return self:to('cuda') end

--- A copy of a value inside a module; `made` holds the copies so far, so that what was shared stays
--- shared.
local function copied(value, made)
  if made[value] ~= nil then return made[value] end
  local copy = value
  if mt.is_tensor(value) then
    copy = value:detach():clone()
    if value.is_leaf and value.requires_grad then copy:requires_grad_() end
    role[copy] = role[value]
    made[value] = copy
  elseif type(value) == 'table' and (is_module(value) or not getmetatable(value)) then
    copy = setmetatable({}, getmetatable(value))
    made[value] = copy
    for key, inner in pairs(value) do rawset(copy, key, copied(inner, made)) end
  end
  return copy
end

--- A copy with tensors, modules and lists of its own, as Python's deepcopy: what is shared inside is
--- shared inside the copy, what is frozen stays frozen.
function Module:clone() return copied(self, {}) end

-- ---- state ---------------------------------------------------------------------------------------

--- Every parameter and buffer under each of its names, and the names in order.
local function state_of(self)
  local tensors, order, above = {}, {}, {}
  local function visit(module, prefix)
    above[module] = true
    for _, key in ipairs(rawget(module, '__fields')) do
      local value, name = field(module, key), prefix .. field_name(key)
      if is_module(value) then
        if not above[value] then visit(value, name .. '.') end
      elseif value ~= nil and role[value] then
        tensors[name], order[#order + 1] = value, name
      end
    end
    above[module] = nil
  end
  visit(self, '')
  return tensors, order
end

--- A table of PyTorch's names to detached tensors that share the parameters' memory.
function Module:state_dict()
  local state = {}
  for name, value in pairs((state_of(self))) do state[name] = value:detach() end
  return state
end

--- The argument of load_state_dict: true, false, or {strict = ..}.
local function is_strict(option)
  if option == nil then return true end
  if type(option) ~= 'table' then return check_boolean('load_state_dict: strict', option) end
  for key in pairs(option) do
    if key ~= 'strict' then
      core.fail(("load_state_dict: unknown option '%s'; it takes strict"):format(tostring(key)))
    end
  end
  return option.strict == nil or check_boolean('load_state_dict: strict', option.strict)
end

--- Names that a state lacks, names that it alone has, and sentences on values that do not fit.
local function compare(mine, order, state)
  local missing, unexpected, unfit = {}, {}, {}
  for _, name in ipairs(order) do
    local value = state[name]
    if value == nil then missing[#missing + 1] = name
    elseif not mt.is_tensor(value) then unfit[#unfit + 1] = ("'%s' is no tensor"):format(name)
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

--- Copies a state into the parameters; returns self. All differences are named at once, and then
--- nothing is loaded. With {strict = false} missing and unknown names are left alone and returned,
--- as two lists.
function Module:load_state_dict(state, strict)
  if type(state) ~= 'table' or is_module(state) then
    core.fail('load_state_dict: a table of tensors, as state_dict() returns, is needed, got ' .. (is_module(state) and
      state.__name or core.describe(state)))
  end
  strict = is_strict(strict)
  local mine, order = state_of(self)
  local missing, unexpected, trouble = compare(mine, order, state)
  if strict then
    for _, name in ipairs(missing) do trouble[#trouble + 1] = ("'%s' is missing"):format(name) end
    for _, name in ipairs(unexpected) do trouble[#trouble + 1] = ("'%s' is unknown"):format(name) end
  end
  if #trouble > 0 then
    core.fail(('load_state_dict: nothing loaded into %s: %s'):format(self.__name, table.concat(trouble, ', ')))
  end
  mt.no_grad(function()
    for _, name in ipairs(order) do
      if state[name] then mine[name]:copy_(state[name]) end
    end
  end)
  if strict then return self end
  return missing, unexpected
end

-- ---- text ----------------------------------------------------------------------------------------

local function thousands(n)
  local count
  local text = tostring(n)
  repeat
    text, count = text:gsub('^(%d+)(%d%d%d)', '%1,%2')
  until count == 0
  return text
end

local function count_parameters(self)
  local n = 0
  for _, p in ipairs(self:parameters()) do n = n + p:numel() end
  return n
end

--- What `print(net)` shows: the tree with the parameters of each layer and the total.
local described = {} -- those whose text is being made
function Module:describe(indent)
  indent = indent or ''
  if described[self] then return self.__name .. ' (that it is in)' end
  described[self] = true
  local children = {}
  for _, key in ipairs(self.__fields) do
    local value = field(self, key)
    if is_module(value) then
      local name = type(key) == 'number' and ('[%d]'):format(key) or key
      local _, text = pcall(value.describe, value, indent .. '  ')
      children[#children + 1] = ('%s  %s: %s'):format(indent, name, tostring(text))
    end
  end
  described[self] = nil
  local whole, extra = pcall(self.extra or function() return '' end, self)
  local head = self.__name .. (whole and extra or ' (its __init has not called the __init of its base)')
  local n = count_parameters(self)
  local tail = n > 0 and ('  %s parameters'):format(thousands(n)) or ''
  if #children == 0 then return head .. tail end
  return ('%s(\n%s\n%s)%s'):format(head, table.concat(children, '\n'), indent, tail)
end

-- ---- arguments ---------------------------------------------------------------------------------

--- How many arguments the methods take; more are an error, and so is a call without the colon.
for name, most in pairs{parameters = 0, named_parameters = 0, buffers = 0, named_buffers = 0, modules = 0,
    named_modules = 0, children = 0, apply = 1, train = 1, eval = 0, requires_grad_ = 1, zero_grad = 0, float = 0,
    double = 0, half = 0, bfloat16 = 0, cpu = 0, cuda = 0, clone = 0, state_dict = 0, load_state_dict = 2,
    describe = 1} do
  local body = Module[name]
  Module[name] = function(self, ...)
    if not is_module(self) then core.fail(('%s: methods are called with a colon, net:%s(..)'):format(name, name)) end
    local n = select('#', ...)
    if n > most then core.fail(('%s: %d arguments given, it takes %d'):format(name, n, most)) end
    return body(self, ...)
  end
end

local function refuse_more(self, inputs)
  if not is_module(self) then core.fail('forward: it is called with a colon, net:forward(x), or as net(x)') end
  core.fail(('%s: too many arguments given, it is called with %d'):format(self.__name, inputs))
end

-- ---- containers ----------------------------------------------------------------------------------

--- Puts n modules at [1..n].
local function fill(self, op, children, n)
  for i = 1, n do
    if not is_module(children[i]) then
      core.fail(('%s: entry %d must be a module, got %s'):format(op, i, core.describe(children[i])))
    end
  end
  for i = 1, n do self[i] = children[i] end
end

--- The length of a list of modules, in which nothing is left out and nothing has a name.
local function list_length(op, list)
  if type(list) ~= 'table' or (is_module(list) and #list == 0) then
    core.fail(('%s: a list of modules is needed, got %s'):format(op,
      is_module(list) and list.__name or core.describe(list)))
  end
  if is_module(list) then return #list end
  local n = 0
  for key in pairs(list) do
    if type(key) ~= 'number' or key < 1 or key % 1 ~= 0 then
      core.fail(('%s: entries have no names, got the key %s'):format(op, core.describe(key)))
    end
    n = math.max(n, key)
  end
  return n
end

--- One module more, at the end; returns self.
local function append(self, module)
  if not is_module(module) then core.fail('append: a module is needed, got ' .. core.describe(module)) end
  self[#self + 1] = module
  return self
end

--- `nn.Sequential{a, b, c}` or `nn.Sequential(a, b, c)`: each module's result is the next one's
--- input.
nn.Sequential = nn.class('Sequential')
nn.Sequential.__init = constructor('Sequential(..)',
  "Modules one after another, nn.Sequential(a, b, c) or a list of them: each one's result is the next one's input.",
  function(self, ...)
    local n, first = select('#', ...), ...
    if n ~= 1 or is_module(first) then return fill(self, 'Sequential', {...}, n) end
    fill(self, 'Sequential', first, list_length('Sequential', first))
  end)
nn.Sequential.append = append
function nn.Sequential:forward(x, more)
  if more ~= nil then refuse_more(self, 1) end
  for i = 1, #self do x = self[i](x) end
  return x
end

--- `nn.ModuleList{a, b}`: a list whose modules are registered; it is indexed, not called.
nn.ModuleList = nn.class('ModuleList')
nn.ModuleList.__init = constructor('ModuleList(..)',
  'A list whose modules are registered, nn.ModuleList{a, b}; it is indexed, not called.',
  function(self, ...)
    local n, first = select('#', ...), ...
    if n > 1 then core.fail(('ModuleList: %d arguments given, it takes one list of modules'):format(n)) end
    if n == 1 then fill(self, 'ModuleList', first, list_length('ModuleList', first)) end
  end)
nn.ModuleList.append = append

-- ---- layers --------------------------------------------------------------------------------------

--- `nn.Linear(in, out[, {bias=true}])`: x . weight' + bias, weight [out x in], uniform in
--- +-1/sqrt(in) as PyTorch.
nn.Linear = nn.class('Linear')
nn.Linear.__init = constructor('Linear(in_features, out_features, bias=true)',
  'x . weight\' + bias; weight [out x in] and bias uniform in +-1/sqrt(in).',
  function(self, inputs, outputs, bias)
    if bias ~= nil then check_boolean('Linear: bias', bias) end
    for name, n in pairs {in_features = inputs, out_features = outputs} do
      if type(n) ~= 'number' or n < 1 or n % 1 ~= 0 then
        core.fail(('Linear: %s must be a whole number from 1, got %s'):format(name, core.describe(n)))
      end
    end
    local bound = 1 / math.sqrt(inputs)
    local function uniform(...) return (mt.rand(...) * 2 - 1) * bound end
    self.in_features, self.out_features = inputs, outputs
    self.weight = nn.Parameter(uniform(outputs, inputs))
    if bias ~= false then self.bias = nn.Parameter(uniform(outputs)) end
  end)
function nn.Linear:forward(x, more)
  if more ~= nil or not is_module(self) then refuse_more(self, 1) end
  local held = self.__held -- spares two calls of __index
  local y = mt.linear(x, held.weight or self.weight, held.bias or self.bias)
  return y
end
function nn.Linear:extra()
  return ('(%d -> %d%s)'):format(self.in_features, self.out_features, self.bias and '' or ', no bias')
end

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
}

--- Modules that apply a function of `inputs` tensors without weights; `options` are its named ones,
--- as in a signature.
local function functional(name, inputs, forward, options, doc)
  local names = {}
  for option in (options or ''):gmatch('([%w_]+)=') do names[#names + 1] = option end
  local class = nn.class(name)
  class.__init = constructor(('%s(%s)'):format(name, options or ''), doc, function(self, ...)
    local given
    for i, option in ipairs(names) do
      local value = select(i, ...)
      if value ~= nil then
        local check = expected[option]
        if not check[1](value) then
          core.fail(('%s: %s must be %s, got %s'):format(name, option, check[2], core.describe(value)))
        end
        given = given or {}
        if mt.is_tensor(value) then -- goes to a device with the module
          value = nn.Buffer(value)
          self[option] = value
        end
        given[option] = value
      end
    end
    rawset(self, 'options', given)
  end)
  function class:forward(x, y, more)
    if more ~= nil or (inputs == 1 and y ~= nil) then refuse_more(self, inputs) end
    local given = rawget(self, 'options')
    local result
    if inputs == 2 then
      if given then result = forward(x, y, given) else result = forward(x, y) end
    elseif given then
      result = forward(x, given)
    else
      result = forward(x)
    end
    return result
  end
  nn[name] = class
end
functional('ReLU', 1, mt.relu, nil, 'max(x, 0).')
functional('Sigmoid', 1, mt.sigmoid, nil, '1 / (1 + exp(-x)).')
functional('Tanh', 1, mt.tanh, nil, 'The hyperbolic tangent.')
functional('GELU', 1, mt.gelu, "approximate='none'", "x times the normal distribution function; approximate='tanh'.")
functional('SiLU', 1, mt.silu, nil, 'x * sigmoid(x).')
functional('Softplus', 1, mt.softplus, 'beta=1, threshold=20', 'log(1 + exp(beta x)) / beta.')
functional('Identity', 1, function(x) return x end, nil, 'x itself.')
functional('Flatten', 1, function(x, given)
  return (mt.flatten(x, given and given.first or 2, given and given.last or -1))
end, 'first=2, last=-1', 'Joins the dimensions first to last: all but the batch.')
functional('MSELoss', 2, mt.mse_loss, "reduction='mean'", 'The mean squared difference of x and target.')
functional('BCELoss', 2, mt.binary_cross_entropy, "weight=nil, reduction='mean'",
  '-log of the probability of the target, for x in 0..1.')
functional('BCEWithLogitsLoss', 2, mt.binary_cross_entropy_with_logits, "weight=nil, reduction='mean', pos_weight=nil",
  '-log of the probability of the target, for raw scores.')
functional('CrossEntropyLoss', 2, mt.cross_entropy,
  "weight=nil, ignore_index=-100, reduction='mean', label_smoothing=0",
  '-log of the softmax of the target classes (from 1), for scores [n x classes].')

return nn
