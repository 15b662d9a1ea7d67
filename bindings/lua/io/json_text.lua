-- json_text.lua -- Lua values as JSON: tables with the keys 1..n are lists, others objects with sorted keys
local core = require 'mtorch.core'

local max_depth = 1000 -- of the tables that core.parse_json reads

local function reject(path, what, ...)
  core.fail('json: %s ' .. what, path == '' and 'the value' or path:gsub('%c', '?'), ...)
end

local function is_list(value, list_meta)
  if list_meta and rawequal(getmetatable(value), list_meta) then return true end
  local keys = 0
  for _ in next, value do keys = keys + 1 end
  return keys > 0 and keys == #value
end

local function write(value, path, depth, null, list_meta)
  local kind = type(value)
  if null ~= nil and rawequal(value, null) then return 'null' end
  if kind == 'boolean' then return value and 'true' or 'false' end
  if kind == 'string' then return core.json_quoted(value) or reject(path, 'is a string that is not UTF-8') end
  if kind == 'number' then
    return value - value == 0 and core.json_number(value) or
      reject(path, 'is %s, which JSON does not have', core.describe(value))
  end
  if kind ~= 'table' then reject(path, 'is %s', core.describe(value)) end
  if depth > max_depth then reject(path, 'is nested too deeply; does a table contain itself?') end
  local parts, keys = {}, {}
  if is_list(value, list_meta) then
    for i = 1, #value do
      parts[i] = write(rawget(value, i), ('%s[%d]'):format(path, i), depth + 1, null, list_meta)
    end
    return '[' .. table.concat(parts, ',') .. ']'
  end
  for key in next, value do
    if type(key) ~= 'string' then reject(path, 'has the key %s; keys of objects are strings', core.describe(key)) end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for i, key in ipairs(keys) do
    local name = core.json_quoted(key) or reject(path, 'has a key that is not UTF-8')
    parts[i] = ('%s:%s'):format(name, write(rawget(value, key), path .. '.' .. key, depth + 1, null, list_meta))
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

--- A value as JSON; `null` is written as null, tables with the metatable list_meta are lists.
return function(value, null, list_meta) return write(value, '', 1, null, list_meta) end
