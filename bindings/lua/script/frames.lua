-- frames.lua -- the functions on the stack: their variables, and code that runs with these
--
-- A frame is known by its place, counted from the bottom of the stack, which calls above it do not change.
local util = require 'mtorch.core.util'

local frames = {}

--- How many levels there are above the function that calls this, with its own: its place.
function frames.depth()
  local n = 0
  while debug.getinfo(n + 2, 'l') do n = n + 1 end
  return n
end

--- debug.getinfo of the frame at a place.
function frames.info(place, what)
  local info = debug.getinfo(frames.depth() - place + 1, what) -- a tail call would change the level
  return info
end

--- The locals of a frame as {name =, value =, set = function(new)}, in the order of their declaration.
function frames.locals(place)
  local list, level, i = {}, frames.depth() - place + 1, 1
  while true do
    local at, name, value = i, debug.getlocal(level, i)
    if not name then return list end
    local function set(new) debug.setlocal(frames.depth() - place + 1, at, new) end
    if not name:find '^%(' then list[#list + 1] = {name = name, value = value, set = set} end
    i = i + 1
  end
end

--- The upvalues of a frame's function, as locals.
function frames.upvalues(place)
  local list, f = {}, frames.info(place, 'f').func
  for i, name, value in util.upvalues(f) do
    list[i] = {name = name, value = value, set = function(new) debug.setupvalue(f, i, new) end}
  end
  return list
end

--- The variable of that name which the code of a frame sees, or nil.
local function variable(place, name)
  local locals = frames.locals(place)
  for i = #locals, 1, -1 do
    if locals[i].name == name then return locals[i] end
  end
  for _, one in ipairs(frames.upvalues(place)) do
    if one.name == name then return one end
  end
end

--- Globals for code: reads and writes reach the variables of a frame, and then the globals of its function.
function frames.environment(place)
  local globals = debug.getfenv(frames.info(place, 'f').func)
  return setmetatable({}, {
    __index = function(_, name)
      local found = variable(place, name)
      if found then return found.value end
      return globals[name]
    end,
    __newindex = function(_, name, value)
      local found = variable(place, name)
      if found then found.set(value) else globals[name] = value end
    end,
  })
end

--- Compiles a text as an expression or as statements, in the environment of a frame, or returns nil and the message.
function frames.compile(text, place)
  local f, message = loadstring('return ' .. text, '=debug')
  if not f then f, message = loadstring(text, '=debug') end
  return f and setfenv(f, frames.environment(place)), message
end

return frames
