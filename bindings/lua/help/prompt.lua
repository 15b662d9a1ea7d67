-- prompt.lua -- extras of the prompt: tables shown by content, help, completion of names with Tab
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local prompt = {}

-- ---- values as text ------------------------------------------------------------------------------

local max_entries, max_depth, max_bytes = 30, 4, 3000 -- limits: of one table; of nested tables; of the text

local function short(value)
  if type(value) == 'string' then return ('%q'):format(util.truncate(value, 60)):gsub('\\\n', '\\n') end
  if mt.is_tensor(value) then return core.describe(value):gsub('^a ', '') end
  return util.truncate(tostring(value):match('^[^\n]*'), 60)
end

--- {1, 2, name = "x"}: limited in depth, entries and bytes; a table that contains itself is {..}.
local function show(value, seen, depth, room)
  local meta = type(value) == 'table' and getmetatable(value)
  if type(value) ~= 'table' or type(meta) == 'table' and meta.__tostring then return (short(value)) end
  if seen[value] or depth > max_depth then return next(value) == nil and '{}' or '{..}' end
  seen[value] = true
  local parts, count, length = {}, 0, 0
  for i, key in ipairs(util.sorted_keys(value)) do
    count = i
    if i > max_entries or length > room then break end
    local text = show(value[key], seen, depth + 1, (room - length) / 2)
    local name = type(key) == 'string' and key:find('^[%a_][%w_]*$') and key or '[' .. short(key) .. ']'
    if key ~= i then text = name .. ' = ' .. text end
    parts[#parts + 1], length = text, length + #text + 2
  end
  seen[value] = nil
  if count > #parts then parts[#parts + 1] = '..' end
  return '{' .. table.concat(parts, ', ') .. '}'
end

local modules = require 'mtorch.help.modules'

--- "mt.nn has BCELoss ..": the names in one of the library's tables, or nothing.
local function contents(value)
  if value == mt then
    return "mt has the modules " .. table.concat(modules.names, ' ') .. ' and the functions that mt.help() lists'
  end
  for _, name in ipairs(modules.names) do
    if modules.at(name, rawget) == value then
      return util.wrap(('mt.%s has %s'):format(name, table.concat(core.names(value), ' ')), '', 92)
    end
  end
end

--- Prints the results of a line: like `print`, but tables by their contents, and those of the
--- library by their names.
function prompt.print(...)
  local shown = {}
  for i = 1, select('#', ...) do
    local value = select(i, ...)
    local text = tostring(value)
    if type(value) == 'table' then
      text = contents(value) or text:find('^table: 0x') and show(value, {}, 1, max_bytes) or text
    end
    shown[i] = text
  end
  io.stdout:write(table.concat(shown, '\t'), '\n')
end

--- The names that earlier lines declared; a local is visible only in its line.
prompt.was_local = {}

--- Notes the locals that a line declares. `help matmul`, help('matmul'): prints mt.help, and returns true.
function prompt.take(line)
  for name in (line:match '^%s*local%s+([%w_, \t]+)' or ''):gmatch '[%a_][%w_]*' do prompt.was_local[name] = true end
  local name = line:match('^%s*help%s+([%w_.:]+)%s*$') or
               line:match('^%s*help%s*%(?%s*["\']([^"\']+)["\']%s*%)?%s*$')
  if not name or rawget(_G, 'help') ~= nil then return false end
  require('mtorch').help(name)
  return true
end

function prompt.help()
  print("mt.help('matmul') says what a function takes, mt.help('indexing') and other topics how things are done,")
  print('mt.help() lists all names. Tab completes names. quit or Ctrl-D ends.')
end

-- ---- completion ----------------------------------------------------------------------------------

local words = [[and break do else elseif end false for function goto if in local nil not or repeat return then true
  until while]]

local function get(object, key) return object[key] end

--- The names that may follow `value.` (or `value:`), as the keys of a table.
local function names_of(value, colon)
  local names = {}
  local function add(object)
    for key in pairs(object) do
      if type(key) == 'string' then names[key] = true end
    end
  end
  if type(value) == 'string' then
    add(string)
  elseif mt.is_tensor(value) then
    core.complete()
    add(core.methods)
    for name in (colon and '' or 'shape dtype device grad requires_grad is_leaf ndim T mT'):gmatch('%S+') do
      names[name] = true
    end
  elseif type(value) == 'table' then
    local meta = getmetatable(value)
    if type(meta) == 'table' and meta.open then
      for _, name in ipairs(core.names(value)) do names[name] = true end
    end
    add(value)
    for _, key in ipairs(rawget(value, '__fields') or {}) do names[key] = true end -- of a module
    local class = rawget(value, '__class') -- of a module
    for _, entry in ipairs(type(meta) == 'table' and meta.__methods or {}) do names[entry[1]:match '^[%w_]+'] = true end
    local base = class or type(meta) == 'table' and type(meta.__index) == 'table' and meta.__index
    while type(base) == 'table' do
      add(base)
      meta = getmetatable(base)
      base = type(meta) == 'table' and meta.__index
    end
  end
  return names
end

--- The completions of a word: "mt.nn.Li" -> {"mt.nn.Linear"}.
function prompt.complete(word)
  local head, separator, begun = word:match('^(.*)([.:])([%w_]*)$')
  local names = {}
  if head then
    local value = _G
    for name in head:gmatch('[^.:]+') do
      local ok, inner = pcall(get, value, name)
      if not ok or inner == nil then return {} end
      value = inner
    end
    names = names_of(value, separator == ':')
  else
    begun = word
    for key in pairs(_G) do names[key] = true end
    for key in words:gmatch('%S+') do names[key] = true end
  end
  local found = {}
  for name in pairs(names) do
    if type(name) == 'string' and name:sub(1, #begun) == begun and (begun ~= '' or not name:find('^_')) then
      found[#found + 1] = (head and head .. separator or '') .. name
    end
  end
  table.sort(found)
  return found
end

return prompt
