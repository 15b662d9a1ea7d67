-- shown.lua -- printing of objects: Name(option=value, ..), with the options that differ from their defaults
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'

local shown = {}

--- A value in one short line: numbers, quoted strings, short lists, objects as they print.
function shown.value(value)
  local kind = type(value)
  if kind == 'number' then return (('%.14g'):format(value):gsub('e([+-])0+(%d)', 'e%1%2'):gsub('e%+', 'e')) end
  if kind == 'string' then return "'" .. value .. "'" end
  if kind == 'function' then return 'a function' end
  if require('mtorch').is_tensor(value) then return core.describe(value) end
  if kind ~= 'table' then return tostring(value) end
  local meta = getmetatable(value)
  if type(meta) == 'table' and meta.__tostring then return tostring(value) end
  if meta ~= nil or next(value) == nil or #value == 0 then return next(value) == nil and '{}' or '{..}' end
  local parts = util.tabulate(math.min(#value, 6), function(i) return shown.value(value[i]) end)
  if #value > 6 then parts[7] = ('.. %d in all'):format(#value) end
  return '{' .. table.concat(parts, ', ') .. '}'
end

--- The texts of the values of a line. Beside others, a tensor of one element is its number.
function shown.texts(...)
  local texts, n = {}, select('#', ...)
  for i = 1, n do
    local value = select(i, ...)
    texts[i] = tostring(tostring(value)) -- __tostring may return a number
    if n > 1 and require('mtorch').is_tensor(value) and value:numel() == 1 then
      texts[i] = texts[i]:match '^%s*(.-)\n%[%(' or texts[i]
    end
  end
  return texts
end

--- What print writes of several values, some of them tensors.
function shown.in_line(...) return util.side_by_side(shown.texts(...)) end

--- "a=1, b='x'": the parameters `params` of a signature with their values get(i, p), if these are
--- not nil; with `all` also the defaults.
function shown.options(params, get, all)
  local parts = {}
  for i, p in ipairs(params) do
    local value = get(i, p)
    local text = value ~= nil and shown.value(value)
    if text and (all or text ~= p.default and not (p.default and tonumber(p.default) == value)) then
      parts[#parts + 1] = p.name .. '=' .. text
    end
  end
  return table.concat(parts, ', ')
end

--- Name(.., lines of entries).
function shown.lines(name, list, more)
  local parts = util.map(list, function(entry) return '  ' .. shown.value(entry):gsub('\n', '\n  ') end)
  return ('%s(%s\n%s\n)'):format(name, more or '', table.concat(parts, '\n'))
end

--- The text of a set or sampler: its own, or that it is defined by the script.
function shown.set(object)
  local meta = getmetatable(object)
  if type(meta) == 'table' and meta.__tostring then return tostring(object) end
  return ('a set of %s'):format(tostring(object:size()))
end

return shown
