-- reference.lua -- writes docs/reference.md, or the stubs for the Lua language server
--
--   mtorch scripts/tools/reference.lua [FILE.md | FILE.lua]  from the declarations of all functions
--
-- The build writes the stubs (stubs/mtorch.lua); a test compares docs/reference.md with the output.
local mt = require 'mtorch'
local core, util = require 'mtorch.core', require 'mtorch.core.util'
local objects = require 'mtorch.help.object_methods'

local reference = {}

local tensor, list, integers = 'mt.Tensor', 'mt.Tensor[]', 'integer|integer[]'
local integer, number, boolean, text = 'integer', 'number', 'boolean', 'string'
local operand, callable, dtype = 'mt.Tensor|number', 'function|mt.Module', 'mt.Dtype'

--- {kind = 'names ..'} as {name = kind}.
local function by_name(kinds)
  local list = {}
  for kind, names in pairs(kinds) do
    for name in names:gmatch('%S+') do list[name] = kind end
  end
  return list
end

-- The types of parameters by name, if neither declaration nor default determines them.
reference.types = by_name {
  [tensor] = 'condition gradient v values weight x',
  [operand] = 'append prepend y', [list] = 'indices',
  ['mt.Tensor|mt.Tensor[]'] = 'grad_outputs inputs outputs',
  [integer] = 'edgeitems linewidth m n precision threshold',
  [integers] = 'dim shape', [number] = 'first last max min p value', [boolean] = 'retain_graph sci_mode unbiased',
  [text] = 'device equation name other path profile rounding_mode',
  [callable] = 'fn', [dtype] = 'dtype', ['number[]'] = 'range',
  table = 'base defines parameters rank set tensors',
  ['mt.Module'] = 'model module net', ['string[]'] = 'options', ['mt.Generator'] = 'generator',
  ['number|boolean|table'] = 'data', ['mt.Optimizer'] = 'opt optimizer', userdata = 'group',
}
-- Exceptions for single parameters.
reference.of = {['BatchSampler.sampler'] = 'table', ['DataLoader.sampler'] = 'table|mt.Tensor',
  ['DataLoader.batch_sampler'] = 'table',
  ['export.net'] = callable, ['display.value'] = 'any', ['launch_kernel.grid'] = 'integer|table',
  ['to.target'] = text, ['full.value'] = 'number|boolean', ['fill.value'] = operand,
  ['unravel_index.indices'] = tensor, ['histogram.bins'] = 'integer|mt.Tensor',
  ['gradient.spacing'] = 'number|number[]|mt.Tensor[]',
  ['lerp.y'] = tensor, ['update_bn.loader'] = 'table|function', ['join.batches'] = 'table|function',
  ['lerp.weight'] = operand, ['clamp_min.min'] = operand, ['clamp_max.max'] = operand}
for _, optimizer in ipairs(core.optimizers()) do
  for _, option in ipairs(optimizer.options) do
    if type(option.default) == 'table' then reference.of[optimizer.name .. '.' .. option.name] = 'number[]' end
  end
end
-- Result types that are not in the declaration and are not tensors.
reference.returns = by_name {['mt.Generator'] = 'Generator', ['mt.Class'] = 'class', ['mt.Hook'] = 'register_hook',
  [text] = 'explain', ['any ...'] = 'no_grad', boolean = 'gradcheck gradgradcheck is_tensor',
  any = 'all any at data help indices item memory_stats size stride tolist'}

local kinds = {bool = boolean, int = integer, number = number, string = text, text = 'string|number', tensor = tensor,
  ['function'] = callable, dtype = dtype, device = text, generator = 'mt.Generator', ints = 'integer[]',
  numbers = 'number[]', strings = 'string[]', tensors = list, list = 'any[]|mt.Tensor', table = 'table'}

--- Converts a type of a signature, "'mean'|tensor", to the language server's types.
local function words(type)
  return (type:gsub('[^|]+', function(word) return kinds[word:match('^[%l_]+')] end))
end

--- Returns the type of a parameter, by its declaration, its default, or its name.
local function type_of(owner, p, untyped)
  if p.type ~= 'any' then return words(p.type) end
  local of_default = p.default and (p.default:find("^'") and text or tonumber(p.default) and number or
    (p.default == 'true' or p.default == 'false') and boolean)
  local known = reference.of[owner:gsub('_$', '') .. '.' .. p.name] or of_default or reference.types[p.name]
  if not known then untyped[#untyped + 1] = owner .. '.' .. p.name end
  return known or 'any'
end

--- Returns the list of a function's result types.
local function returned_by(f)
  local returned = {}
  for word in (f.returns or ''):gmatch('[^,%s]+') do
    returned[#returned + 1] = words(word:gsub('?$', '')) .. (word:match('?$') or '')
  end
  if f.class then return {f.class} end
  if f.returns then return returned end
  local of_tensors = f.subject ~= 'The program' and (f.owner == 'mt' or f.method)
  return {reference.returns[f.name] or of_tensors and tensor or 'any ...'}
end

--- Returns the parts of a stub: `---@param` lines, names of parameters, the class of the option table (lines and name),
--- which may replace optional arguments, and overloads.
local function arguments(f, is_method, untyped)
  local lines, names, fields, overloads = {}, {}, {}, {}
  local class = (f.class or (f.owner == 'x' and 'mt.Tensor' or f.owner) .. '.' .. f.name) .. '.Options'
  local optional, open = f.parameters.out, f.parameters.open
  for i, p in ipairs(f.parameters) do
    optional = optional or p.default
    if i > 1 or not f.method then
      fields[#fields + 1] = ('---@field %s? %s'):format(p.name, type_of(f.name, p, untyped))
    end
  end
  if f.parameters.out then fields[#fields + 1] = '---@field out? mt.Tensor' end
  local has_table, first = optional and not open, is_method and 2 or 1
  for i = first, #f.parameters do
    local p = f.parameters[i]
    lines[#lines + 1] = ('---@param %s%s %s%s%s'):format(p.name, p.default and '?' or '', type_of(f.name, p, {}),
      (p.default or i > 1) and has_table and '|' .. class or '',
      p.default and p.default ~= 'nil' and ' default ' .. p.default or '')
    names[#names + 1] = p.name
  end
  if f.parameters.out then lines[#lines + 1], names[#names + 1] = '---@param options? ' .. class, 'options' end
  if open then lines[#lines + 1], names[#names + 1] = '---@param ... any', '...' end
  local self, p = is_method and 'self: mt.Tensor, ' or '', f.parameters[first]
  if has_table and p and not p.default then overloads[1] = ('fun(%soptions: %s)'):format(self, class) end
  if p and p.collects then
    overloads[#overloads + 1] = ('fun(%s...: %s)'):format(self, has_table and 'integer|' .. class or integer)
  end
  if not has_table then return lines, names, '', overloads end
  return lines, names, ('---@class %s\n%s\n---@field [integer] any\n\n'):format(class, table.concat(fields, '\n')),
    overloads
end

--- Returns the stub of a function: the class of its options, unless `twin` has it, its types and an empty body.
local function stub(owner, f, is_method, untyped, twin)
  local lines, names, options, overloads = arguments(f, is_method, twin and {} or untyped)
  local returned = returned_by(f)
  local results = #returned > 0 and ': ' .. table.concat(returned, ', '):gsub(' %.%.%.', '') or ''
  for _, one in ipairs(returned) do lines[#lines + 1] = '---@return ' .. one end
  for _, form in ipairs(overloads) do lines[#lines + 1] = '---@overload ' .. form .. results end
  lines[#lines + 1] = ('function %s%s%s(%s) end'):format(owner, is_method and ':' or '.', f.name,
    table.concat(names, ', '))
  return ('%s--- %s\n%s\n'):format(twin and '' or options, f.doc:gsub('\n', ' '), table.concat(lines, '\n'))
end

--- Returns the stub of a class of modules or optimizers: its objects with their fields, and the constructor.
local function class_stub(f, untyped)
  local lines, _, options, overloads = arguments(f, false, untyped)
  local fields, is_tensor, params = {}, {}, {}
  for _, name in ipairs(type(f.value) == 'table' and rawget(f.value, '__tensors') or {}) do is_tensor[name] = '' end
  for _, p in ipairs(f.base == 'mt.Module' and f.parameters or {}) do
    if is_tensor[p.name] then is_tensor[p.name] = '?'
    elseif not (rawget(f.value, '__layer') and (p.name == 'device' or p.name == 'dtype')) then
      fields[#fields + 1] = ('---@field %s%s %s\n'):format(p.name, p.default == 'nil' and '?' or '',
        type_of(f.name, p, {}))
    end
  end
  for name, maybe in pairs(is_tensor) do fields[#fields + 1] = ('---@field %s%s mt.Tensor\n'):format(name, maybe) end
  table.sort(fields)
  for i, line in ipairs(lines) do
    params[i] = line:gsub('^%-%-%-@param (%S+) (.-)$', '%1: %2'):gsub(' default .*', '')
  end
  table.insert(overloads, 1, ('fun(%s)'):format(table.concat(params, ', ')))
  for i, form in ipairs(overloads) do overloads[i] = ('---@overload %s: %s\n'):format(form, f.class) end
  return ('%s--- %s\n---@class %s: %s\n%s%s\n\n---@class %s.Class: mt.Class\n%s%s = {}\n'):format(options,
    f.doc:gsub('\n', ' '), f.class, f.base, table.concat(fields),
    f.base == 'mt.Module' and '---@overload fun(...: any): any' or '', f.class, table.concat(overloads), f.class)
end

local function sorted(names)
  table.sort(names)
  return names
end

local modules = {}
for _, name in ipairs(require('mtorch.help.modules').names) do
  local module = require('mtorch.help.modules').at(name)
  if module then modules[#modules + 1] = {name = name, module = module} end
end

-- Result types of constructor-like functions, by module, and the exceptions.
local makes = {['mt.nn'] = 'Module', ['mt.optim'] = 'Optimizer', ['mt.optim.lr'] = 'Scheduler',
  ['mt.metrics'] = 'Metric'}
local makes_other = {EarlyStopping = true, find = true}

--- Returns all declared functions in order: {subject=, name=, signature=, doc=, method=, of_module=}.
function reference.functions()
  local all = {}
  local function add(subject, owner, name, value)
    local signature, doc, limits = core.entry(value)
    local known = signature and signature:match('^[%w_]+')
    if signature and known ~= name then -- an alias
      signature, doc, limits = name .. signature:sub(#known + 1), ('The same as %s.'):format(known), ''
    end
    if signature then
      if limits ~= '' then doc = ('%s %s.'):format(doc, limits) end
      local parameters, returns = core.parameters(value)
      local object = not makes_other[name] and makes[owner]
      local of_class = object and (type(value) == 'table' or object ~= 'Module')
      all[#all + 1] = {subject = subject, owner = owner, name = name, signature = signature, doc = doc,
                       parameters = parameters, returns = returns,
                       value = value, class = of_class and owner .. '.' .. name or nil,
                       base = of_class and 'mt.' .. object,
                       method = owner == 'mt' and core.methods[name] == value or owner == 'x'}
    end
    return signature
  end
  local subjects, listed = core.complete(), {}
  for _, subject in ipairs(subjects) do
    for _, name in ipairs(subject) do listed[name] = true end
  end
  for name in pairs(core.methods) do -- methods written in Lua
    if not listed[name] then table.insert(subjects[1], name) end
  end
  for _, subject in ipairs(subjects) do
    for _, name in ipairs(sorted{unpack(subject)}) do
      if rawget(mt, name) then add(subject.title, 'mt', name, mt[name]) end
      if core.methods[name] and core.methods[name] ~= rawget(mt, name) then
        add(subject.title, 'x', name, core.methods[name])
      end
    end
  end
  for _, name in ipairs(util.sorted_keys(core.lazy)) do
    if core.lazy[name] ~= core.no_compiler then local _ = mt[name] end
  end
  for _, name in ipairs(util.sorted_keys(mt)) do
    if not listed[name] then add('The program', 'mt', name, mt[name]) end
  end
  for _, m in ipairs(modules) do
    for _, name in ipairs(core.names(m.module)) do add('mt.' .. m.name, 'mt.' .. m.name, name, m.module[name]) end
  end
  return all
end

--- Returns the text of a description without what Markdown would take for links, tags and bold words.
local function escaped(doc)
  return (doc:gsub('%]%(', ']\\('):gsub('<(%a)', '\\<%1'):gsub('__', '\\_\\_'):gsub('%*(%a)', '\\*%1'))
end

function reference.markdown()
  local lines = {
    '# Reference', '',
    'Generated by `mtorch scripts/tools/reference.lua` from the declarations of all functions.',
    "`name=value` is optional, by position or by name in one last table; `[name]` takes a list, `[shape..]` numbers",
    'or a list. Functions marked · are also methods: `x:sum(2)` is `mt.sum(x, 2)`. Positions count from 1. `{out=}`:',
    'by name only, a tensor into which the result is written, and which is returned.',
  }
  local subject
  for _, f in ipairs(reference.functions()) do
    local in_place = f.name:find('_$') and core.methods[f.name:sub(1, -2)]
    if f.subject ~= subject then
      subject = f.subject
      lines[#lines + 1], lines[#lines + 2], lines[#lines + 3] = '', '## ' .. subject, ''
    end
    if not in_place then
      local twin = core.methods[f.name .. '_'] and f.method and ' In place: `' .. f.name .. '_`.' or ''
      local prefix = f.owner == 'x' and 'x:' or f.owner == 'mt' and '' or f.owner .. '.'
      local signature = f.owner == 'x' and f.signature:gsub('%(x,? ?', '(') or f.signature
      lines[#lines + 1] = ('- `%s%s`%s %s%s'):format(prefix, signature, f.method and f.owner == 'mt' and ' ·' or '',
        escaped(f.doc), twin)
    end
  end
  for _, object in ipairs(objects) do
    lines[#lines + 1], lines[#lines + 2], lines[#lines + 3] = '', '## ' .. object.title, ''
    for _, entry in ipairs(object) do
      local call = entry[1]:find('(', 1, true) and object.call or object.call:gsub(':', '.')
      lines[#lines + 1] = ('- `%s%s` %s'):format(call, entry[1], entry[2])
    end
  end
  return table.concat(lines, '\n') .. '\n'
end

-- The beginning of the stubs.
local head = [[
---@meta mtorch
-- Stubs for the Lua language server, made by scripts/tools/reference.lua.

---@alias mt.Dtype 'float32'|'float64'|'float16'|'bfloat16'|'float8_e4m3fn'|'float8_e5m2'|
---'int64'|'int32'|'int16'|'int8'|'uint8'|'bool'

---@class mt.Generator

---@class mt.Tensor
---@field shape integer[]
---@field dtype mt.Dtype
---@field device string
---@field grad? mt.Tensor
---@field requires_grad boolean
---@field is_leaf boolean
---@field ndim integer
---@field T mt.Tensor
---@field mT mt.Tensor
---@field [table] mt.Tensor
---@field [integer] mt.Tensor
---@field [mt.Tensor] mt.Tensor
---@operator add(mt.Tensor|number): mt.Tensor
---@operator sub(mt.Tensor|number): mt.Tensor
---@operator mul(mt.Tensor|number): mt.Tensor
---@operator div(mt.Tensor|number): mt.Tensor
---@operator pow(mt.Tensor|number): mt.Tensor
---@operator mod(mt.Tensor|number): mt.Tensor
---@operator unm: mt.Tensor
---@operator len: integer
local Tensor = {}

--- A class of modules, or of optimizers: a call makes an object.
---@class mt.Class
---@field [string] any
---@overload fun(...: any): mt.Module

local mt = {}
]]
head = head:gsub('|\n%-%-%-', '|') -- one line, of which the language server reads all

local method_returns = by_name {[list] = 'parameters buffers', ['mt.Module[]'] = 'children modules',
  ['fun(): string, mt.Tensor'] = 'named_parameters named_buffers', ['fun(): string, mt.Module'] = 'named_modules',
  [text] = 'describe', table = 'state_dict', ['mt.Tensor ...'] = 'saved_tensors', ['any ...'] = 'load_state_dict',
  self = 'apply train float double half bfloat16 cpu cuda to eval clone requires_grad_'}

--- Returns the stubs of the methods of modules, optimizers, hooks.
local function object_stub(object)
  local parts = {('---@class mt.%s\n---@field [any] any\n---@overload fun(...: any): any\nlocal %s = {}\n'):format(
    object.class, object.class)}
  for _, entry in ipairs(object) do
    local name, inside = entry[1]:match('^([%w_]+)%((.*)%)$')
    local names, lines = {}, {}
    for item in (inside or ''):gmatch('[^,%s]+') do
      names[#names + 1] = item == '..' and '...' or item:match('[%w_]+')
      lines[#lines + 1] = ('---@param %s%s any\n'):format(names[#names], item:find('=', 1, true) and '?' or '')
    end
    parts[#parts + 1] = name and ('--- %s\n%s---@return %s\nfunction %s:%s(%s) end\n'):format(entry[2],
      table.concat(lines), method_returns[name] or 'any', object.class, name, table.concat(names, ', ')) or
      ('--- %s\n---@type any\n%s.%s = nil\n'):format(entry[2], object.class, entry[1])
  end
  return table.concat(parts, '\n')
end

--- Returns the stubs, and the names of parameters whose type is unknown.
function reference.stubs()
  local untyped, parts, described, seen = {}, {head}, reference.functions(), {}
  for _, f in ipairs(described) do seen[f.owner:match('^mt%.(.*)') or f.name] = true end
  for _, m in ipairs(modules) do
    if seen[m.name] then parts[#parts + 1] = ('mt.%s = {}'):format(m.name) end
  end
  for _, name in ipairs(util.sorted_keys(mt)) do
    if not seen[name] then parts[#parts + 1] = ('---@type any\nmt.%s = nil'):format(name) end
  end
  for _, object in ipairs(objects) do parts[#parts + 1] = object_stub(object) end
  for _, f in ipairs(described) do
    if f.name == 'repeat' then -- no name in Lua's grammar; x['repeat'](x, 2) works
    elseif f.class then
      parts[#parts + 1] = class_stub(f, untyped)
    else
      if f.owner ~= 'x' then parts[#parts + 1] = stub(f.owner, f, false, untyped) end
      if f.method then parts[#parts + 1] = stub('Tensor', f, true, untyped, f.owner ~= 'x') end
    end
  end
  parts[#parts + 1] = 'return mt\n'
  return table.concat(parts, '\n'), untyped
end

if arg and arg[0] and (arg[0] == 'reference.lua' or arg[0]:find('/reference%.lua$')) then
  local file = arg[1] or 'docs/reference.md'
  if not file:find '%.lua$' and not file:find '%.md$' then
    io.stderr:write("mtorch: reference.lua: '", file, "' is not a page or stubs; mtorch scripts/tools/reference.lua ",
      '[FILE.md | FILE.lua]\n')
    os.exit(2)
  end
  local stubs, untyped = reference.stubs()
  util.write_file('reference', file, file:find('%.lua$') and stubs or reference.markdown())
  if #untyped > 0 then print('no type is known for: ' .. table.concat(sorted(untyped), ' ')) end
end

return reference
