-- save.lua -- mt.save and mt.load: tables of tensors and plain values, as safetensors files; files of PyTorch
--
-- Tensors lie in the file under their paths, 'model.0.weight'. The metadata entry 'mtorch' is JSON,
-- {"version": 1, "value": ..}: the saved table, where
--   [..]                              a list, {..} a table whose keys are strings that do not begin with '$'
--   {"$table": [[key, value], ..]}    any other table
--   {"$tensor": name, "alias": n, "requires_grad": true, "role": "parameter"}
--                                     a tensor; another tensor of the same elements has another alias
--   {"$number": "inf" | "-inf" | "nan"}, {"$bytes": hex digits of a string that is not UTF-8}
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local save = {}
local deepest = 200 -- the maximum nesting of tables

-- ---- writing -----------------------------------------------------------------------------------

local function is_finite(x) return math.abs(x) < math.huge end

--- A step of a path; bytes that are not UTF-8 are shown as %FF.
local function step_text(key)
  local text = type(key) == 'number' and is_finite(key) and core.json_number(key) or tostring(key)
  if util.is_utf8(text) then return text end
  return (text:gsub('[^%w%p ]', function(c) return ('%%%02X'):format(c:byte()) end))
end

local Writer = {}
Writer.__index = Writer

function Writer:refuse(path, what)
  core.fail("%s: '%s' %s", self.operation, path == '' and 'the table' or path, what)
end

function Writer:tensor(x, path)
  local key = core.elements_key(x)
  local known = self.known[key]
  if not known then
    local name = util.unused_name(self.taken, path, '%s~%d') -- of {a={b=x}, ['a.b']=y} two paths have the same text
    known = {name = name, aliases = 0, alias_of = {}}
    self.known[key] = known
    self.names[#self.names + 1], self.tensors[#self.tensors + 1] = known.name, x
  end
  if not known.alias_of[x] then
    known.alias_of[x], known.aliases = known.aliases, known.aliases + 1
  end
  local alias, class = known.alias_of[x], package.loaded['mtorch.nn.class']
  return {['$tensor'] = known.name, alias = alias > 0 and alias or nil, requires_grad = x.requires_grad or nil,
    role = class and class.registry[x]}
end

--- Whether the keys of a table are 1..n, or strings that can be written unchanged.
local function form_of(t)
  local n, keys, positions, strings = #t, 0, 0, true -- with positions missing n is any border
  for key in pairs(t) do
    keys = keys + 1
    if type(key) == 'number' and key % 1 == 0 and key >= 1 and key <= n then positions = positions + 1 end
    strings = strings and type(key) == 'string' and key:byte() ~= 36 and util.is_utf8(key)
  end
  return n > 0 and positions == n and keys == n and 'list' or strings and 'strings' or 'any'
end

--- The entries of a table as values of JSON, in the order of their keys.
function Writer:entries(t, path)
  local prefix = path == '' and '' or path .. '.'
  local form, made = form_of(t), {}
  if form == 'list' then
    for i = 1, #t do -- lists are mostly of numbers, which need no path
      local value = t[i]
      made[i] = type(value) == 'number' and is_finite(value) and value or self:value(value, prefix .. i)
    end
    return made
  end
  for i, key in ipairs(util.sorted_keys(t)) do
    local kind, step = type(key), step_text(key)
    if kind ~= 'string' and kind ~= 'number' and kind ~= 'boolean' then
      self:refuse(path, ('has a %s as a key; keys are strings, numbers and booleans'):format(
        mt.is_tensor(key) and 'tensor' or kind))
    end
    local value = self:value(t[key], prefix .. step)
    if form == 'strings' then made[key] = value else made[i] = {self:value(key), value} end
  end
  return form == 'strings' and made or {['$table'] = made}
end

function Writer:table(t, path)
  if self.above[t] then
    self:refuse(path, ("contains itself: it is '%s'"):format(self.above[t] == '' and 'the table' or self.above[t]))
  end
  local meta = getmetatable(t)
  if meta then -- for shapes it is false: they are lists
    self:refuse(path, util.field(t, 'state_dict') and 'is an object; save what its state_dict() returns' or
      'has a metatable, which a file cannot hold')
  end
  self.depth = self.depth + 1
  if self.depth > deepest then self:refuse(path, ('is nested deeper than %d tables'):format(deepest)) end
  self.above[t] = path
  local made = self:entries(t, path)
  self.above[t], self.depth = nil, self.depth - 1
  return made
end

local function hex(c) return ('%02x'):format(c:byte()) end

--- A value as JSON has it.
function Writer:value(value, path)
  local kind = type(value)
  if kind == 'number' and not is_finite(value) then
    return {['$number'] = value ~= value and 'nan' or value > 0 and 'inf' or '-inf'}
  end
  if kind == 'string' and not util.is_utf8(value) then return {['$bytes'] = (value:gsub('.', hex))} end
  if kind == 'number' or kind == 'string' or kind == 'boolean' then return value end
  if mt.is_tensor(value) then return self:tensor(value, path) end
  if kind == 'table' then return self:table(value, path) end
  local cure = kind == 'function' and ', which a file cannot hold: save what it needs and make it again' or
    '; tensors, tables, numbers, strings and booleans can be saved'
  self:refuse(path, ('is a %s%s'):format(kind, cure))
end

--- Writes a table; errors have the name of the given operation.
function save.write(operation, path, value)
  core.check_writable(operation, path)
  local writer = setmetatable({operation = operation, taken = {__metadata__ = true}, known = {}, names = {},
    tensors = {}, above = {}, depth = 0}, Writer)
  local text = '{"version":1,"value":' .. core.json_text(writer:value(value, '')) .. '}'
  core.write_safetensors(operation, path, writer.names, writer.tensors, {'format', 'pt', 'mtorch', text})
end

save.save = core.declare('save(path: string, value: table)',
  'Writes a table of tensors and plain values (numbers, strings, booleans, tables of them) that mt.load reads: ' ..
  'atomically. The file is a safetensors file, in which a tensor is named by its path: {a={x, y}} is ' ..
  "a.1 and a.2. Tensors are written contiguous; several of the same elements are written once, under the first of " ..
  'their names, and share memory when they come back, as tensors of the CPU. Networks and optimizers: their ' ..
  'state_dict(), or mt.checkpoint.save.',
  function(path, value) save.write('save', path, value) end)

-- ---- reading -----------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader

function Reader:damaged(what) core.fail("%s: '%s' is damaged: its table %s", self.operation, self.path, what) end

local numbers = {inf = math.huge, ['-inf'] = -math.huge, nan = 0 / 0}

function Reader:tensor(spec)
  local name, alias = spec['$tensor'], spec.alias or 0
  local x = type(name) == 'string' and self.tensors[name]
  if not x or type(alias) ~= 'number' then self:damaged('names a tensor that is not there') end
  local made = self.made[name] or {}
  self.made[name] = made
  if made[alias] == nil then
    local t = next(made) == nil and x or x:detach()
    if spec.requires_grad == true then
      if not t.dtype:find 'float' then self:damaged(('wants a gradient of %s'):format(t.dtype)) end
      t:requires_grad_()
    end
    if spec.role == 'parameter' or spec.role == 'buffer' then require('mtorch.nn.class').registry[t] = spec.role end
    made[alias] = t
  end
  return made[alias]
end

function Reader:special(spec)
  if spec['$tensor'] ~= nil then return self:tensor(spec) end
  local number, bytes, pairs_list = numbers[spec['$number']], spec['$bytes'], spec['$table']
  if number then return number end
  if type(bytes) == 'string' and #bytes % 2 == 0 and not bytes:find('%X') then
    return (bytes:gsub('..', function(digits) return string.char(tonumber(digits, 16)) end))
  end
  if type(pairs_list) ~= 'table' then self:damaged('has an entry of no known kind') end
  local t = {}
  for _, pair in ipairs(pairs_list) do
    if type(pair) ~= 'table' or pair[2] == nil then self:damaged('has an entry without a value') end
    local key = self:value(pair[1])
    if type(key) == 'table' or type(key) == 'userdata' or key ~= key or key == nil then
      self:damaged('has a key that is none')
    end
    t[key] = self:value(pair[2])
  end
  return t
end

function Reader:value(value)
  if type(value) ~= 'table' then return value end
  for key in pairs(value) do
    if type(key) == 'string' and key:byte() == 36 then return self:special(value) end
  end
  for key, entry in pairs(value) do
    if type(entry) == 'table' then value[key] = self:value(entry) end
  end
  return value
end

--- The value that mt.save wrote, or the tensors by name if another program wrote the file.
function save.read(operation, path)
  local tensors, metadata = core.read_safetensors(operation, path)
  if not metadata.mtorch then return tensors end
  local reader = setmetatable({operation = operation, path = path, tensors = tensors, made = {}}, Reader)
  local ok, whole = pcall(core.parse_json, metadata.mtorch)
  if not ok or type(whole) ~= 'table' or type(whole.value) ~= 'table' then reader:damaged('cannot be read') end
  core.check(whole.version == 1, "%s: '%s' has a table of version %s, this program reads version 1; use a newer one",
    operation, path, tostring(whole.version))
  return (reader:value(whole.value))
end

--- Loads a file of torch.save: its parameters and buffers keep their roles.
local function load_torch(path)
  local value, roles = core.read_torch('load', path)
  if next(roles) then
    local class = require 'mtorch.nn.class'
    for x, role in pairs(roles) do class.registry[x] = role end
  end
  return value
end

save.load = core.declare('load(path: string)',
  'Reads a file of mt.save. A safetensors file of another program is a table by name, as with npz; a file of ' ..
  "torch.save (.pt, .pth) as what was saved, if that was tensors, state dicts, lists, numbers and text: nothing is " ..
  'executed, and a name of anything else is an error. Dictionaries and lists are tables, None is nil, keys and ' ..
  'numbers are unchanged (from 0); an integer beyond 2^53 that Lua cannot represent is the string of its digits. ' ..
  'Tensors are on the CPU.',
  function(path)
    local kind = core.file_kind('load', path)
    if kind == 'npy' then core.fail("load: '%s' is one array of NumPy; use mt.data.npy(path)", path) end
    core.check(kind ~= 'other', "load: '%s' is not a safetensors file (of mt.save), a file of PyTorch or an npz " ..
      "file; mt.data reads csv, json, text and images", path)
    if kind == 'safetensors' then return (save.read('load', path)) end
    if kind == 'zip' and core.is_npz('load', path) then return (core.read_npz(path)) end
    return (load_torch(path))
  end)

return save
