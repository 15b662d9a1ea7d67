-- json_text.lua -- Lua values as JSON: tables with the keys 1..n are lists, others objects with sorted keys
local core = require 'mtorch.core'

local max_depth = 1000 -- of the tables that core.parse_json reads

local function is_list(value, list_meta)
  if list_meta and rawequal(getmetatable(value), list_meta) then return true end
  local keys = 0
  for _ in next, value do keys = keys + 1 end
  return keys > 0 and keys == #value
end

--- An error about the value to which the first `depth` keys of a path lead.
local function reject(path, depth, what, ...)
  local text = ''
  for i = 1, depth do text = text .. (type(path[i]) == 'number' and ('[%d]'):format(path[i]) or '.' .. path[i]) end
  if #text > 80 then text = text:sub(1, 39) .. ' .. ' .. text:sub(-39) end
  core.fail('json: %s ' .. what, text == '' and 'the value' or text:gsub('%c', '?'), ...)
end

local function sorted_keys(object, path, depth)
  local keys = {}
  for key in next, object do
    if type(key) ~= 'string' then
      reject(path, depth, 'has the key %s; keys of objects are strings', core.describe(key))
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  return keys
end

--- A value as JSON; `null` is written as null, tables with the metatable list_meta are lists.
return function(root, null, list_meta)
  local parts, n, quoted, path = {}, 0, {}, {} -- the text; keys as JSON; the keys that lead to the value under way

  local function add(text)
    n = n + 1
    parts[n] = text
  end

  local write

  local function write_list(list, depth)
    add '['
    for i = 1, #list do
      if i > 1 then add ',' end
      path[depth] = i
      write(rawget(list, i), depth)
    end
    add ']'
  end

  local function write_object(object, depth)
    add '{'
    for i, key in ipairs(sorted_keys(object, path, depth - 1)) do
      if i > 1 then add ',' end
      quoted[key] = quoted[key] or core.json_quoted(key) or reject(path, depth - 1, 'has a key that is not UTF-8')
      add(quoted[key])
      add ':'
      path[depth] = key
      write(rawget(object, key), depth)
    end
    add '}'
  end

  --- Writes a value to which `depth` keys lead.
  function write(value, depth)
    local kind = type(value)
    if null ~= nil and rawequal(value, null) then add 'null'
    elseif kind == 'boolean' then add(tostring(value))
    elseif kind == 'string' then add(core.json_quoted(value) or reject(path, depth, 'is a string that is not UTF-8'))
    elseif kind == 'number' then
      if value - value ~= 0 then reject(path, depth, 'is %s, which JSON does not have', core.describe(value)) end
      add(core.json_number(value))
    elseif kind ~= 'table' then reject(path, depth, 'is %s', core.describe(value))
    elseif depth >= max_depth then reject(path, depth, 'is nested too deeply; does a table contain itself?')
    elseif is_list(value, list_meta) then write_list(value, depth + 1)
    else write_object(value, depth + 1)
    end
  end

  write(root, 0)
  return table.concat(parts)
end
