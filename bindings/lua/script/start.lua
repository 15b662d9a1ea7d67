-- start.lua -- Lua's own functions as the program and its workers need them
--
-- os.exit closes the state first, so that files are flushed and tensors freed; bytecode cannot be loaded, because
-- LuaJIT does not verify it; nested coroutines and string.gsub, for which LuaJIT does not check the C stack, fail
-- before it overflows. print keeps the lines of a tensor below each other; reading True, False or None prints a hint.
local core = require 'mtorch.core'

local create, resume, wrap = coroutine.create, coroutine.resume, coroutine.wrap
local overflow = "stack overflow (C's): coroutines are nested too deeply"
local depth = 0
local function leave(...)
  depth = depth - 1
  return ...
end
local function resume_checked(co, ...)
  if type(co) ~= 'thread' then return resume(co, ...) end
  if depth >= 2000 or not core.program.has_c_stack() then return false, overflow end
  depth = depth + 1
  return leave(resume(co, ...))
end
coroutine.resume = resume_checked
local function results(ok, ...)
  if ok then return ... end
  local message = ... -- each level adds a position, except for an overflow with thousands of levels
  error(message, type(message) == 'string' and not message:find('stack overflow', 1, true) and 2 or 0)
end
coroutine.wrap = function(f, ...)
  if type(f) ~= 'function' then return wrap(f, ...) end
  local co = create(f)
  return function(...) return results(resume_checked(co, ...)) end
end
local exit, load_any, load_file = os.exit, load, loadfile
os.exit = function(code) exit(code == nil and 0 or code, true) end
local function text_only(chunk, message)
  if not chunk and message and message:find('wrong mode', 1, true) then message = 'bytecode is not accepted' end
  return chunk, message
end
load = function(chunk, name, _, ...)
  return text_only(load_any(chunk, name or (type(chunk) == 'string' and chunk or '=(load)'), 't', ...))
end
loadstring = load
loadfile = function(name, _, ...) return text_only(load_file(name, 't', ...)) end
dofile = function(name)
  local chunk, message = loadfile(name)
  if not chunk then error(message, 2) end
  return chunk()
end
local print = print
_G.print = function(...)
  for i = select('#', ...) > 1 and 1 or 2, select('#', ...) do
    if type((select(i, ...))) == 'userdata' then return print(require 'mtorch.core.shown'.in_line(...)) end
  end
  return print(...)
end
local words = {False = 'false', True = 'true', None = 'nil', null = 'nil'}
core.globals_metatable = {__index = function(_, name)
  if words[name] then core.hint(('%s is nil here; Lua writes %s'):format(name, words[name])) end
end}
setmetatable(_G, core.globals_metatable)
package.loaders[2] = function(name)
  local path, tried = package.searchpath(name, package.path)
  if not path then return tried end
  local chunk, message = loadfile(path)
  if not chunk then
    error(("error loading module '%s' from file '%s':\n\t%s"):format(name, path, message), 3)
  end
  return chunk
end
