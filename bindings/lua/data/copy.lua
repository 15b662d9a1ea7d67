-- copy.lua -- copies of Lua values for another Lua state: functions with their upvalues, tables, tensors
--
-- `pack` converts a value to types that threads can exchange (numbers, strings, booleans, tensors, plain tables),
-- `unpack` restores it in the other state. A value that is not a table represents itself; a table is a node:
--   {kind = 'plain', value = t}                      a table of such values
--   {kind = 'table', keys =, values =, meta =}       any other
--   {kind = 'proxy', fields =}                       an object of mt.data whose # is its size
--   {kind = 'function', code =, cells = {{value =}, ..}, env =}  bytecode and upvalues; a cell may be shared
--   {kind = 'named', module =, path = {..}}          what the other state has under that name
--   {kind = 'entry', address =}                      a function of C++
--   {kind = 'compiled', name =, f =, identity =}     what mt.map, zip, reduce or fuse made of f
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local object = require 'mtorch.core.object'

local native = core.loader()
local copy = {}

-- ---- names ---------------------------------------------------------------------------------------

local standard = util.word_set [[_G _VERSION assert bit collectgarbage coroutine debug dofile error gcinfo getfenv
  getmetatable io ipairs jit load loadfile loadstring math module newproxy next os package pairs pcall print rawequal
  rawget rawset require select setfenv setmetatable string table tonumber tostring type unpack xpcall]]

--- The names of modules, of the fields of Lua's and mtorch's modules, and of tensor methods.
local function known_names()
  local known = {}
  local function note(value, module, ...)
    local kind = type(value)
    local named = kind == 'function' or kind == 'table' or kind == 'userdata' and not mt.is_tensor(value)
    if named and not known[value] then
      known[value] = {kind = 'named', module = module, path = {...}}
    end
  end
  for name, module in pairs(package.loaded) do note(module, name) end
  for name, module in pairs(package.loaded) do
    local ours = type(name) == 'string' and (standard[name] or name == 'ffi' or name:find '^mtorch')
    if ours and type(module) == 'table' then
      for key, value in next, module do
        if type(key) == 'string' and (name ~= '_G' or standard[key]) then note(value, name, key) end
      end
    end
  end
  for name, method in next, core.methods do note(method, 'mtorch.core', 'methods', name) end
  return known
end

-- ---- packing -------------------------------------------------------------------------------------

local Packer = {}
Packer.__index = Packer

--- Whether a table contains only scalars, tensors and such tables.
function Packer:is_plain(t)
  local function fits(part)
    local kind = type(part)
    return kind == 'number' or kind == 'string' or kind == 'boolean' or kind == 'table' and self:is_plain(part) or
      kind == 'userdata' and mt.is_tensor(part) and part.device == 'cpu'
  end
  if self.plain[t] == nil then
    self.plain[t] = true -- for a table that contains itself
    local is_plain = not (debug.getmetatable(t) or self.known[t])
    for key, value in next, t do is_plain = is_plain and fits(key) and fits(value) end
    self.plain[t] = is_plain
  end
  return self.plain[t]
end

local shown = {thread = 'a coroutine', cdata = 'FFI data', module = 'a module; use its state_dict() or its tensors'}
local function refuse(path, value, kind)
  local what = shown[kind] or core.describe(value)
  if mt.is_tensor(value) then
    what = ('on %s, where workers do not compute; move batches in the loop'):format(kind)
  end
  if tostring(value):find '^Generator' then
    what = 'a generator; in workers mt.rand and similar functions depend on seed, epoch and item alone'
  end
  error(('DataLoader: a worker cannot have a copy of %s: it is %s'):format(path, what), 0)
end

function Packer:table(node, t, path)
  if rawget(t, '__fields') and rawget(t, '__params') then refuse(path, t, 'module') end
  if self:is_plain(t) then
    node.kind, node.value = 'plain', t
    return
  end
  node.kind, node.keys, node.values = 'table', {}, {}
  local n = 0
  for key, value in next, t do
    n = n + 1
    local inner = path .. (type(key) == 'string' and '.' .. key or ('[%s]'):format(tostring(key)))
    node.keys[n], node.values[n] = self:value(key, 'a key of ' .. path), self:value(value, inner)
  end
  local meta = debug.getmetatable(t)
  if meta then node.meta = self:value(meta, ('the metatable of %s'):format(path)) end
end

--- Sets into[key] = value, which is undone if the enclosing value cannot be copied.
function Packer:note(into, key, value)
  into[key] = value
  self.log[#self.log + 1] = {into, key}
end

--- Copies the program's globals that a function's constants name, and those of its inner functions.
function Packer:globals_of(f)
  util.each_string(f, function(name)
    if not standard[name] and rawget(_G, name) ~= nil then self:global(name) end
  end)
end

--- A constant may also be the name of a field: a global that cannot be copied is an error only where it is used.
function Packer:global(name)
  if self.globals[name] ~= nil or self.refused[name] then return end
  self.refused[name] = 'it holds itself'
  local log = self.log
  self.log = {}
  local ok, result = pcall(self.value, self, rawget(_G, name), ("the global '%s'"):format(name))
  if ok then
    self.globals[name], self.refused[name] = result, nil
  else
    for _, noted in ipairs(self.log) do noted[1][noted[2]] = nil end
    self.refused[name] = result
  end
  self.log = log
end

function Packer:call(node, f, path) -- the node of a function
  local compiled = package.loaded['mtorch.compile.map'] -- loaded with the first such function
  local record = compiled and compiled.records[f]
  if record then
    node.kind, node.name, node.identity = 'compiled', record.name, record.identity
    node.f = self:value(record.f, path)
    return
  end
  local info = debug.getinfo(f, 'S')
  if info.what == 'C' then
    node.kind, node.address = 'entry', native.address(f)
    if node.address then return end
    error(('DataLoader: a worker cannot have a copy of %s: it is a C function that no module names'):format(path), 0)
  end
  node.kind, node.code, node.cells = 'function', string.dump(f), {}
  local place = 'the function at ' .. core.place_of(f)
  for i, name, value in util.upvalues(f) do
    local id = debug.upvalueid(f, i)
    local cell = self.cells[id]
    if not cell then
      cell = {}
      self:note(self.cells, id, cell)
      cell.value = self:value(value, ("upvalue '%s' of %s"):format(name, place))
    end
    node.cells[i] = cell
  end
  local env = getfenv(f)
  if env ~= _G then node.env = self:value(env, 'the environment of ' .. place) else self:globals_of(f) end
end

function Packer:value(value, path)
  local kind = type(value)
  if kind == 'nil' or kind == 'number' or kind == 'string' or kind == 'boolean' then return value end
  if mt.is_tensor(value) then
    if value.device ~= 'cpu' then refuse(path, value, value.device) end
    return value
  end
  local node = self.known[value] or self.nodes[value]
  if node then return node end
  local fields = object.unwrap(value)
  if kind ~= 'table' and kind ~= 'function' and not fields then refuse(path, value, kind) end
  node = {}
  self:note(self.nodes, value, node)
  if fields then
    node.kind, node.fields = 'proxy', self:value(fields, path)
  elseif kind == 'table' then self:table(node, value, path)
  else self:call(node, value, path) end
  return node
end

--- Packs a table of named values for another state.
function copy.pack(values)
  local self = setmetatable({known = known_names(), nodes = {}, plain = {}, cells = {}, globals = {}, refused = {},
    log = {}}, Packer)
  local packed = {values = {}, globals = self.globals, refused = self.refused, path = package.path,
    cpath = package.cpath}
  for name, value in pairs(values) do packed.values[name] = self:value(value, 'the ' .. name) end
  return packed
end

-- ---- unpacking -----------------------------------------------------------------------------------

local Unpacker = {}
Unpacker.__index = Unpacker

function Unpacker.named(_, node)
  local value = require(node.module)
  for _, key in ipairs(node.path) do value = value[key] end
  return value
end

function Unpacker.entry(_, node) return native.function_at(node.address) end

function Unpacker:compiled(node)
  local make, f = require('mtorch')[node.name], self:value(node.f)
  if node.identity ~= nil then return make(f, node.identity) end
  return make(f)
end

function Unpacker.plain(_, node) return node.value end

function Unpacker:table(node)
  local t = {}
  self.done[node] = t
  for k, key in ipairs(node.keys) do rawset(t, self:value(key), self:value(node.values[k])) end
  if node.meta ~= nil then debug.setmetatable(t, self:value(node.meta)) end
  return t
end

function Unpacker:proxy(node)
  local fields = self:value(node.fields)
  return object.proxy(getmetatable(fields), fields)
end

Unpacker['function'] = function(self, node)
  local f = native.load_function(node.code)
  self.done[node] = f
  for i, cell in ipairs(node.cells) do
    local owner = self.owners[cell]
    if owner then debug.upvaluejoin(f, i, owner[1], owner[2])
    else
      self.owners[cell] = {f, i}
      debug.setupvalue(f, i, self:value(cell.value))
    end
  end
  if node.env ~= nil then setfenv(f, self:value(node.env)) end
  return f
end

function Unpacker:value(node)
  if type(node) ~= 'table' then return node end
  local value = self.done[node]
  if value == nil then
    value = self[node.kind](self, node)
    self.done[node] = value
  end
  return value
end

--- Restores the values of a result of `pack`; only in a worker.
function copy.unpack(packed)
  package.path, package.cpath = packed.path, packed.cpath
  local self = setmetatable({done = {}, owners = {}}, Unpacker)
  for name, node in pairs(packed.globals) do rawset(_G, name, self:value(node)) end
  local refused = packed.refused
  setmetatable(_G, {__index = function(_, name)
    if refused[name] then error(refused[name], 2) end
  end})
  local values = {}
  for name, node in pairs(packed.values) do values[name] = self:value(node) end
  return values
end

return copy
