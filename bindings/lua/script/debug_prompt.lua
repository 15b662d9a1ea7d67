-- debug_prompt.lua -- mt.debug: a prompt with the locals of the caller; mt.reload
local core = require 'mtorch.core'
local frames = require 'mtorch.script.frames'
local mt = require 'mtorch'

local debugger = {}

-- ---- commands --------------------------------------------------------------------------------------

--- The frame nearest to `place`, in the direction of `step`, that is the user's; nil past the ends.
local function users_frame(place, step)
  while place >= 1 and place <= frames.depth() do
    local info = frames.info(place, 'Sl')
    if info.currentline > 0 and not info.source:find '^@mtorch/' then return place end
    place = place + step
  end
end

local function shown_place(place)
  local info = frames.info(place, 'Sln')
  return ('%s:%d in %s'):format(info.short_src, info.currentline, info.name or 'the main chunk')
end

local commands = {}
function commands.where(frame)
  local at = frame
  while at do
    print((at == frame and '* ' or '  ') .. shown_place(at))
    at = users_frame(at - 1, -1)
  end
  return frame
end
function commands.locals(frame)
  local prompt, names, shown = require 'mtorch.help.prompt', {}, {}
  local function add(one)
    if not shown[one.name] then names[#names + 1], shown[one.name] = one.name, prompt.short(one.value) end
  end
  local locals = frames.locals(frame)
  for i = #locals, 1, -1 do add(locals[i]) end
  for _, one in ipairs(frames.upvalues(frame)) do add(one) end
  for _, name in ipairs(names) do print(('  %s = %s'):format(name, shown[name])) end
  return frame
end
local function move(step, what)
  return function(frame)
    local other = users_frame(frame + step, step)
    print(other and shown_place(other) or what)
    return other or frame
  end
end
commands.up, commands.down = move(-1, 'nothing called this'), move(1, 'this is where mt.debug was called')
function commands.help(frame)
  print('an expression shows its value, x = 1 sets a variable; locals, where, up, down; continue (or Ctrl-D), quit')
  return frame
end

local function run(line, frame)
  local prompt = require 'mtorch.help.prompt'
  local f, message = frames.compile(line, frame)
  if not f then return print((require('mtorch.help.hints').syntax(message, line))) end
  local results = core.pack(xpcall(f, function(problem) return tostring(problem) end))
  if not results[1] then return print(results[2]) end
  if results.n > 1 then prompt.print(select(2, unpack(results, 1, results.n))) end
end

local function read_line(text)
  if core.program then return core.program.read_line(text) end -- of the program: edits lines
  io.stdout:write(text)
  io.stdout:flush()
  return io.read()
end

debugger.debug = core.declare('debug()', 'Stops here: a prompt with the variables of the caller, which it can ' ..
  'change too. It knows the commands locals, where, up, down, continue and quit.', function()
    local frame = users_frame(frames.depth(), -1)
    if not frame then core.fail 'debug: no Lua function called it' end
    print(shown_place(frame) .. "; 'help' lists the commands")
    for line in function() return read_line 'debug> ' end do
      local word = line:match '^%s*(%a+)%s*$'
      if word and frames.environment(frame)[word] ~= nil then word = nil end
      if word == 'continue' or word == 'c' then return end
      if word == 'quit' then error('stopped at mt.debug', 0) end
      if commands[word] then
        frame = commands[word](frame)
      elseif line:find '%S' then
        run(line, frame)
      end
    end
  end)

debugger.reload = core.declare('reload(name: string)', 'Requires a module again, after a change of its file, and ' ..
  'returns it. A table that require returned before gets the new fields, so that all who hold it see them; ' ..
  'an error leaves the old module.', function(name)
    local old = package.loaded[name]
    package.loaded[name] = nil
    local ok, new = pcall(require, name)
    if not ok then
      package.loaded[name] = old
      core.fail('reload: %s', new)
    end
    if type(old) ~= 'table' or type(new) ~= 'table' or rawequal(old, mt) then return new end
    for key in pairs(old) do
      if rawget(new, key) == nil then rawset(old, key, nil) end
    end
    for key, value in pairs(new) do rawset(old, key, value) end
    setmetatable(old, getmetatable(new))
    package.loaded[name] = old
    return old
  end)

return debugger
