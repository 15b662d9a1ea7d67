-- debugger.lua -- `mtorch debug`: a debugger for editors, by the Debug Adapter Protocol on standard input and output
--
-- The script runs in this process, in LuaJIT's interpreter, under a hook for each line. While it is stopped, the hook
-- reads requests. What the script prints goes through pipes, which the hook empties into `output` events.
-- Specification: https://microsoft.github.io/debug-adapter-protocol
local core = require 'mtorch.core'
local frames = require 'mtorch.script.frames'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local ffi = require 'ffi'
local code = require 'jit.util'

ffi.cdef [[
int dup(int); int dup2(int, int); int pipe(int *); int fcntl(int, int, ...);
long read(int, void *, size_t); long write(int, const void *, size_t);
struct mtorch_pollfd { int fd; short events, revents; };
int poll(struct mtorch_pollfd *, unsigned long, int);
char *realpath(const char *, char *);
void free(void *);
]]
local C = ffi.C

local debugger = {}
local null, empty = {}, {} -- JSON's null; the metatable of lists

-- ---- messages -------------------------------------------------------------------------------------

local to_editor, from_editor = 1, 0 -- descriptors; start() replaces the first
local sequence, received = 0, ''
local buffer = ffi.new('char[65536]')

local function send(message)
  sequence = sequence + 1
  message.seq = sequence
  local body = core.json_text(message, null, empty)
  local text = ('Content-Length: %d\r\n\r\n%s'):format(#body, body)
  while #text > 0 do
    local written = tonumber(C.write(to_editor, text, #text))
    if written <= 0 then os.exit(1) end -- the editor has gone
    text = text:sub(written + 1)
  end
end
local function event(name, body) send{type = 'event', event = name, body = body} end

local function has_input(fd)
  local one = ffi.new('struct mtorch_pollfd', fd, 1, 0) -- POLLIN
  return C.poll(one, 1, 0) > 0
end

--- The next request; nil if there is none and `wait` is not set. If the editor has gone, waiting ends the program.
local function receive(wait)
  while true do
    local length, body = received:match '^.-Content%-Length: *(%d+).-\r\n\r\n()'
    if length and #received >= body + length - 1 then
      local text = received:sub(body, body + length - 1)
      received = received:sub(body + length)
      return core.parse_json(text, null)
    end
    if not wait and not has_input(from_editor) then return nil end
    local count = tonumber(C.read(from_editor, buffer, 65536))
    if count <= 0 then return wait and os.exit(1) or nil end
    received = received .. ffi.string(buffer, count)
  end
end

-- ---- output of the script --------------------------------------------------------------------------

local pipes = {} -- {category =, fd =}: the reading ends

local function redirect(fd, category)
  local ends = ffi.new('int[2]')
  assert(C.pipe(ends) == 0)
  C.fcntl(ends[1], 1031, ffi.cast('int', 1048576)) -- F_SETPIPE_SZ: room for what is printed between two lines
  C.dup2(ends[1], fd)
  pipes[#pipes + 1] = {category = category, fd = ends[0]}
end

local function forward_output()
  io.stdout:flush()
  for _, pipe in ipairs(pipes) do
    while has_input(pipe.fd) do
      local count = tonumber(C.read(pipe.fd, buffer, 65536))
      if count <= 0 then break end
      event('output', {category = pipe.category, output = ffi.string(buffer, count)})
    end
  end
end

-- ---- frames ---------------------------------------------------------------------------------------

local paths = {} -- source of a function -> its absolute path, or false for code without a file

local function path_of(source)
  local path = paths[source]
  if path == nil then
    local found = source:sub(1, 1) == '@' and source:sub(1, 8) ~= '@mtorch/' and C.realpath(source:sub(2), nil)
    path = found and found ~= nil and ffi.string(found) or false
    if path then C.free(found) end
    paths[source] = path
  end
  return path
end

local innermost = 0 -- the place of the script's innermost frame, when the hook was last called

--- The frames of the script: {name =, line =, path =, source =}, the innermost first.
local function frames_now()
  local list = {}
  for place = innermost, 1, -1 do
    local info = frames.info(place, 'nSl')
    if info.source == '@mtorch/script/debugger.lua' then break end
    local name = info.what == 'main' and 'main chunk' or info.name or ('function at line %d'):format(info.linedefined)
    list[#list + 1] = {name = name, line = info.currentline, path = path_of(info.source), source = info.short_src}
  end
  return list
end

--- The place of frame `k` of the script; 1 is the innermost one.
local function place_of(k) return innermost - k + 1 end

--- Runs a text with the names of a frame; assignments change its variables.
local function evaluate(k, text)
  local chunk, message = frames.compile(text, place_of(k))
  if not chunk then return false, message end
  return pcall(chunk)
end

-- ---- values ---------------------------------------------------------------------------------------

local references = {} -- number -> {a function that lists name, value, set; its frame}; valid while it is stopped

local function refer(list, frame)
  references[#references + 1] = {list, frame}
  return #references
end
local function referred(number)
  if not references[number] then error(('no variables have the reference %s'):format(tostring(number)), 0) end
  return unpack(references[number])
end

local max_children = 200

--- A function that lists what is inside a value, or nil.
local function children_of(value)
  if mt.is_tensor(value) then
    return value:dim() > 0 and function(add)
      for i = 1, math.min(value:size(1), max_children) do
        local inner = value:detach()[i]
        local ok, item = pcall(inner.item, inner) -- not of an int64 beyond 2^53
        if ok and inner:dim() == 0 then inner = item end
        add(('[%d]'):format(i), inner)
      end
    end
  elseif type(value) == 'table' then
    return next(value) ~= nil and function(add)
      for i, key in ipairs(util.sorted_keys(value)) do
        if i > max_children then break end
        add(type(key) == 'string' and key or ('[%s]'):format(tostring(key)), rawget(value, key),
          function(new) value[key] = new end)
      end
    end
  end
end

local function text_of(value)
  if type(value) == 'string' then return ('%q'):format(util.truncate(value, 1000)) end
  if mt.is_tensor(value) and value:numel() > 12 then return (core.describe(value):gsub('^a ', '')) end
  local ok, text = pcall(tostring, value)
  return ok and util.truncate((text:gsub('\n%s*', ' ')), 200) or type(value)
end

local function variable(name, value, frame)
  local list = children_of(value)
  local kind = mt.is_tensor(value) and 'tensor' or type(value)
  return {name = name, value = text_of(value), type = kind, variablesReference = list and refer(list, frame) or 0}
end

-- ---- the running script ----------------------------------------------------------------------------

local breakpoints = {}         -- path -> line -> {condition =, log =}
local lines_with = {}          -- line -> true, where any file has a breakpoint there
local mode, step_depth = 'run' -- 'run', 'in', 'over', 'out' or 'pause'
local stop_on_error = true
local stopped_frames

local answer = {}

--- Handles one request; true if the script goes on.
local function handle(request)
  local response = {type = 'response', request_seq = request.seq, command = request.command, success = true}
  local handler = answer[request.command]
  local arguments = type(request.arguments) == 'table' and request.arguments or {}
  local ok, body, goes_on, after
  if handler then ok, body, goes_on, after = pcall(handler, arguments)
  else ok, body = false, 'mtorch does not support ' .. tostring(request.command) end
  if ok then response.body = body else response.success, response.message = false, tostring(body) end
  send(response)
  if after then after() end
  return goes_on
end

local function stop(reason, text)
  forward_output()
  stopped_frames, references = frames_now(), {}
  event('stopped', {reason = reason, text = text, description = text, threadId = 1, allThreadsStopped = true})
  local hook, mask, count = debug.gethook()
  debug.sethook()
  repeat until handle(receive(true))
  stopped_frames, references = nil, {}
  debug.sethook(hook, mask, count)
end

local function leave_as(new_mode)
  mode, step_depth = new_mode, innermost
  return nil, true
end

function answer.initialize()
  return {supportsConfigurationDoneRequest = true, supportsConditionalBreakpoints = true, supportsLogPoints = true,
    supportsEvaluateForHovers = true, supportsSetVariable = true, supportsTerminateRequest = true,
    exceptionBreakpointFilters = setmetatable({{filter = 'uncaught', label = 'Errors that end the script',
      default = true}}, empty)}, false, function() event 'initialized' end
end

--- Adds the lines that have code, of a function and of those inside it, to a list.
local function add_lines(f, lines)
  local info = code.funcinfo(f)
  for pc = 1, info.bytecodes - 1 do table.insert(lines, code.funcinfo(f, pc).currentline) end
  for k = 1, info.gcconsts do
    local inner = code.funck(f, -k)
    if type(inner) == 'proto' then add_lines(inner, lines) end
  end
  return lines
end

--- A breakpoint on a line without code moves to the next one that has some.
function answer.setBreakpoints(arguments)
  local path, lines, list = arguments.source.path, {}, setmetatable({}, empty)
  local real = path_of('@' .. path) or path
  local chunk = loadfile(real)
  local known = chunk and add_lines(chunk, {})
  for i, point in ipairs(arguments.breakpoints or {}) do
    local line = not known and point.line or math.huge
    for _, at in ipairs(known or {}) do line = at >= point.line and math.min(line, at) or line end
    if line < math.huge then
      lines[line] = {condition = point.condition, log = point.logMessage}
      list[i] = {verified = true, line = line}
    else
      list[i] = {verified = false, line = point.line, message = 'no code follows'}
    end
  end
  breakpoints[real], lines_with = lines, {}
  for _, at in pairs(breakpoints) do
    for line in pairs(at) do lines_with[line] = true end
  end
  return {breakpoints = list}
end

function answer.setExceptionBreakpoints(arguments)
  stop_on_error = #(arguments.filters or {}) > 0
end

function answer.threads() return {threads = setmetatable({{id = 1, name = 'main'}}, empty)} end

function answer.stackTrace()
  local list = setmetatable({}, empty)
  for k, frame in ipairs(stopped_frames or {}) do
    list[k] = {id = k, name = frame.name, line = math.max(frame.line, 0), column = 1,
      source = {name = frame.source, path = frame.path or nil}, presentationHint = not frame.path and 'subtle' or nil}
  end
  return {stackFrames = list, totalFrames = #list}
end

--- Checks the frame of a request; without one it is the innermost.
local function frame_of(arguments)
  if not stopped_frames then error('the script is running', 0) end
  local frame = arguments.frameId or 1
  if not stopped_frames[frame] then error(('there is no frame %s'):format(tostring(frame)), 0) end
  return frame
end

function answer.scopes(arguments)
  local frame = frame_of(arguments)
  local function list(variables_of)
    return refer(function(add)
      for _, one in ipairs(variables_of(place_of(frame))) do add(one.name, one.value, one.set) end
    end, frame)
  end
  local locals, upvalues = list(frames.locals), list(frames.upvalues)
  local globals = refer(function(add)
    for _, name in ipairs(util.sorted_keys(_G)) do
      add(tostring(name), rawget(_G, name), function(new) rawset(_G, name, new) end)
    end
  end, frame)
  return {scopes = setmetatable({{name = 'Locals', variablesReference = locals, expensive = false},
    {name = 'Upvalues', variablesReference = upvalues, expensive = false},
    {name = 'Globals', variablesReference = globals, expensive = true}}, empty)}
end

function answer.variables(arguments)
  local list, children, frame = setmetatable({}, empty), referred(arguments.variablesReference)
  children(function(name, value) list[#list + 1] = variable(name, value, frame) end)
  return {variables = list}
end

function answer.setVariable(arguments)
  local children, frame = referred(arguments.variablesReference)
  local ok, value = evaluate(frame, arguments.value)
  if not ok then error(value, 0) end
  local done
  children(function(name, _, set)
    if name == arguments.name and set then
      set(value)
      done = true
    end
  end)
  if not done then error(("'%s' cannot be set here"):format(arguments.name), 0) end
  return variable(arguments.name, value, frame)
end

function answer.evaluate(arguments)
  local frame = frame_of(arguments)
  local ok, value = evaluate(frame, arguments.expression)
  if not ok then error(value, 0) end
  local shown = variable('', value, frame)
  return {result = shown.value, type = shown.type, variablesReference = shown.variablesReference}
end

answer['continue'] = function() return {allThreadsContinued = true}, select(2, leave_as 'run') end
answer.next = function() return leave_as 'over' end
answer.stepIn = function() return leave_as 'in' end
answer.stepOut = function() return leave_as 'out' end
answer.pause = function() mode = 'pause' end
answer.configurationDone = function() end

local function finish(status)
  debug.sethook()
  forward_output()
  event('exited', {exitCode = status})
  event 'terminated'
  os.exit(status)
end
answer.disconnect = function() return nil, false, function() finish(130) end end
answer.terminate = answer.disconnect

local checked = 0 -- lines since the editor was last listened to

local function on_line(_, line)
  checked = checked + 1
  if checked >= 1000 then
    checked = 0
    forward_output()
    local request = receive(false)
    innermost = frames.depth() - 1
    if request then handle(request) end
  end
  if mode == 'run' and not lines_with[line] then return end
  local path = path_of(debug.getinfo(2, 'S').source)
  if not path then return end -- the library, and texts
  innermost = frames.depth() - 1
  local point = lines_with[line] and breakpoints[path] and breakpoints[path][line]
  if point and point.condition and point.condition ~= '' then
    local ok, value = evaluate(1, point.condition)
    if ok and not value then point = nil end
  end
  if point and point.log then
    forward_output()
    event('output', {category = 'console', output = point.log:gsub('{(.-)}', function(text)
      local _, value = evaluate(1, text)
      return text_of(value)
    end) .. '\n'})
    point = nil
  end
  if point then
    stop 'breakpoint'
  elseif mode == 'pause' then
    stop 'pause'
  elseif mode == 'in' or mode == 'over' and innermost <= step_depth or mode == 'out' and innermost < step_depth then
    stop 'step'
  end
end

local function on_error(message)
  innermost = frames.depth() - 1
  if stop_on_error then stop('exception', tostring(message)) end
  return debug.traceback(tostring(message), 2)
end

local function run(arguments)
  io.stdout:setvbuf 'no'
  jit.off() -- compiled code does not run hooks
  jit.flush()
  local script = table.remove(arguments, 1)
  function answer.launch(request)
    script = request.program or script
    if not script then error("launch: 'program' names the script", 0) end
    if type(request.args) == 'table' then arguments = request.args end
    if request.stopOnEntry == true then mode = 'in' end
  end
  local launched, configured
  repeat
    local request = receive(true)
    handle(request)
    launched = launched or request.command == 'launch'
    configured = configured or request.command == 'configurationDone'
  until launched and configured
  local folder = script:match '^(.*)/[^/]*$' or '.'
  package.path = ('%s/?.lua;%s/?/init.lua;%s'):format(folder, folder, package.path)
  arg = {[0] = script, unpack(arguments)}
  local chunk, problem = loadfile(script)
  local ok = false
  if chunk then
    debug.sethook(on_line, 'l')
    ok, problem = xpcall(function() chunk(unpack(arguments)) end, on_error)
    debug.sethook()
  end
  if not ok then
    io.stderr:write('mtorch: ', tostring(problem), '\n')
    io.stderr:flush()
  end
  finish(ok and 0 or 1)
end

--- `mtorch debug [script [args]]`: a script named here is used if the editor's launch request names none.
function debugger.start(words)
  local errors = C.dup(2)
  to_editor = C.dup(1)
  redirect(1, 'stdout')
  redirect(2, 'stderr')
  local ok, message = xpcall(run, debug.traceback, words)
  C.dup2(errors, 2)
  if not ok then error(message, 0) end
end

return debugger
