-- position.lua -- "train.lua:12: (in Net.layers[1]) ": the user's line under way, with the module that it is in
local core = require 'mtorch.core'
local getinfo, getlocal = debug.getinfo, debug.getlocal

--- "Net.forward, net.lua:12-15" for a module whose frame, and its line, was removed by a tail call.
local function forward_of(module)
  local forward = module.forward
  local info = type(forward) == 'function' and getinfo(forward, 'S')
  if not info or info.what == 'C' or info.source:find '^@mtorch/' then return nil end
  local first, last = info.linedefined, info.lastlinedefined
  return ('%s.forward, %s:%d%s'):format(type(module.__name) == 'string' and module.__name or 'module', info.short_src,
    first, last > first and '-' .. last or '')
end

--- ".fc", "[2]": the shortest key under which a table contains a module, or nothing. An intermediate list of modules is
--- included, ".layers[1]".
local function key_of(parent, child, is_inner)
  local found
  for key, value in next, parent do
    local text = type(key) == 'number' and ('[%s]'):format(key) or type(key) == 'string' and '.' .. key or ''
    local within = type(value) == 'table' and not text:find '^%.__' and
      (rawequal(value, child) and '' or not is_inner and key_of(value, child, true))
    text = within and text .. within
    if text and (not found or #text < #found or #text == #found and text < found) then found = text end
  end
  return found
end

--- "Sequential[2]", "Encoder.layers[1].linear1": the path through modules that are called, innermost first. Nothing for
--- one module, or one that the outer module does not contain.
local function path_of(modules)
  local text = ''
  for i = 2, #modules do
    local key = key_of(modules[i], modules[i - 1])
    if not key then return nil end
    text = key .. text
  end
  local class = text ~= '' and rawget(modules[#modules], '__class')
  local name = type(class) == 'table' and rawget(class, '__name')
  return name and name .. text
end

return function()
  local call_module, modules, name = rawget(core, 'call_module'), {}, nil
  for level = 2, math.huge do
    local info = getinfo(level, 'Slf')
    if not info then return '' end
    if info.func == call_module then
      local _, module = getlocal(level, 1)
      if type(module) == 'table' then
        modules[#modules + 1], name = module, name or forward_of(module)
      end
    end
    if info.currentline > 0 and not info.source:find '^@mtorch/' then
      name = name or path_of(modules)
      return ('%s:%d: %s'):format(info.short_src, info.currentline, name and ('(in %s) '):format(name) or '')
    end
  end
end
