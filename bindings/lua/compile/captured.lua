-- captured.lua -- what a step reads besides its arguments: captured values, fields of tables and modules
local mt = require 'mtorch'
local records = require('mtorch.compile.map').records

local captured = {}

-- Tables are looked into this deep, and at so many fields of each.
local deepest, most_fields = 3, 200

local function is_plain(value)
  local kind = type(value)
  return kind == 'number' or kind == 'boolean' or kind == 'string' or kind == 'nil'
end

--- Adds {name=, read=, value=} for what can be compared at each call: numbers, booleans, strings and nil, and
--- which tensor or function a captured name stands for.
local function add(list, name, read)
  list[#list + 1] = {name = name, read = read, value = read()}
end

local visit

local function visit_table(list, t, name, depth, seen)
  if seen[t] or depth > deepest then return end
  seen[t] = true
  local n, is_module = 0, rawget(t, '__fields') ~= nil
  for key, value in pairs(t) do
    n = n + 1
    if n > most_fields then break end
    if type(key) == 'string' or type(key) == 'number' then
      local inner = ('%s.%s'):format(name, key)
      if is_plain(value) or mt.is_tensor(value) then
        add(list, inner, function() return rawget(t, key) end)
      elseif not (is_module and type(key) == 'string' and key:find '^__') then
        visit(list, value, inner, depth + 1, seen)
      end
    end
  end
  local class = is_module and rawget(t, '__class')
  while class do -- forward may capture values too
    if type(rawget(class, 'forward')) == 'function' then
      visit(list, rawget(class, 'forward'), class.__name .. '.forward', depth + 1, seen)
    end
    local meta = getmetatable(class)
    class = meta and meta.__index
    if type(class) ~= 'table' then break end
  end
end

local function visit_function(list, f, name, depth, seen)
  local compiled = records[f]
  if compiled then f = compiled.f end
  if seen[f] then return end
  seen[f] = true
  local info = debug.getinfo(f, 'S')
  if info.what == 'C' or info.source:find '^@mtorch/' then return end
  for i = 1, 255 do
    local upvalue = debug.getupvalue(f, i)
    if not upvalue then break end
    local _, value = debug.getupvalue(f, i)
    if is_plain(value) or mt.is_tensor(value) or type(value) == 'function' then
      add(list, upvalue, function()
        local _, now = debug.getupvalue(f, i)
        return now
      end)
    end
    visit(list, value, upvalue, depth, seen)
  end
end

function visit(list, value, name, depth, seen)
  if type(value) == 'function' then visit_function(list, value, name, depth, seen)
  elseif type(value) == 'table' and value ~= mt and value ~= _G and not rawget(value, 'param_groups') then
    local meta = getmetatable(value)
    if not meta or rawget(value, '__fields') then visit_table(list, value, name, depth, seen) end
  end
end

--- The list of what `f` captures, with the values of now.
function captured.of(f)
  local list = {}
  visit_function(list, f, 'the step', 1, {})
  return list
end

--- The first entry whose value is another one now, or nil.
function captured.changed(list)
  for i = 1, #list do
    local entry = list[i]
    if entry.value ~= entry.read() and entry.value == entry.value then return entry end
  end
end

return captured
