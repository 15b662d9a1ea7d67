-- kernel.lua -- what the Jupyter kernel answers (called by bindings/program/jupyter_kernel.cpp): texts in, JSON out
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local interactive = require 'mtorch.script.interactive'
local prompt = require 'mtorch.help.prompt'

local kernel = {}
local publish_json -- publish_json(kind, content): sends a message of the running cell
local version
local empty = {}   -- an empty list, which JSON must not write as an object

local function json(value) return core.json_text(value, nil, empty) end
local function list(values) return setmetatable(values, empty) end
local function publish(kind, content) publish_json(kind, json(content)) end

-- ---- what a cell shows ---------------------------------------------------------------------------

local displays, token = 0, ('%x'):format(os.time()) .. tostring({}):match '%x+$'

--- The front end of this process, for mt.display, mt.plot and mt.progress (core.front_end):
--- display(bundle, id) shows MIME types with their content, in place of the previous ones with this id.
local front_end, shown_ids = {}, {}
function front_end.display(bundle, id)
  local known = id and shown_ids[id]
  if id then shown_ids[id] = true end
  publish(known and 'update_display_data' or 'display_data',
    {data = bundle, transient = id and {display_id = tostring(id)} or {}})
end
--- A new id for a picture that will change.
function front_end.new_id()
  displays = displays + 1
  return ('mtorch-%s-%d'):format(token, displays)
end
function front_end.bundle(value) return require('mtorch.jupyter.show').bundle(value) end
function front_end.folded(title, text) return require('mtorch.jupyter.show').folded(title, text) end

--- Called once, before the first request.
function kernel.open(publish_function, input, program_version)
  publish_json, version = publish_function, program_version
  core.front_end = front_end
  local mt = require 'mtorch'
  _G.mt, _G.nn, _G.optim = mt, mt.nn, mt.optim
  --- Standard input is a line that the front end asks for.
  local read = io.read
  io.read = function(format, ...)
    if io.input() ~= io.stdin then return read(format, ...) end
    local text = input('')
    if text == nil then return nil end
    if type(format) == 'string' and format:find '^%*?n' then return tonumber(text) end
    return text
  end
end

-- ---- requests ------------------------------------------------------------------------------------

local function ok(fields)
  fields.status = 'ok'
  return json(fields)
end

local function run(code, count, silent)
  local without, hides = code:gsub(';%s*$', '') -- a semicolon at the end hides the value
  local fn, message = interactive.load(without, ('=In[%d]'):format(count))
  if not fn then error(message, 0) end
  local values = core.pack(fn())
  interactive.keep(unpack(values, 1, values.n))
  if not silent and hides == 0 and (values.n > 1 or values[1] ~= nil) then
    local data = values.n == 1 and front_end.bundle(values[1]) or
      {['text/plain'] = prompt.text(unpack(values, 1, values.n))}
    publish('execute_result', {execution_count = count, data = data})
  end
  return ok{execution_count = count, payload = list{}, user_expressions = {}}
end

function kernel.execute(code, count) return run(code, count, false) end
function kernel.execute_silently(code, count) return run(code, count, true) end

--- An error's message and traceback, as the program found them, are published: the sentence, then the frames folded.
function kernel.failed(message)
  require('mtorch.script.progress').close()
  local sentence, frames = message:match '^(.-)\nstack traceback:\n(.*)$'
  sentence = sentence or message
  publish('error', {ename = 'error', evalue = sentence, traceback = list{'\27[31m' .. sentence .. '\27[0m'}})
  if frames then
    local own = {}
    for line in frames:gmatch '[^\n]+' do
      if line:find '%[C%]' == nil and not line:find 'mtorch/' then own[#own + 1] = line:gsub('^%s+', '') end
    end
    if #own > 1 then front_end.display(front_end.folded('frames', table.concat(own, '\n'))) end
  end
  return json{status = 'error', ename = 'error', evalue = sentence, traceback = list{sentence}}
end

--- The byte that follows `characters` characters of a text; Jupyter counts characters, Lua bytes.
local function byte_of(text, characters)
  if characters < 0 then return #text end
  local at = 1
  for _ = 1, characters do
    if at > #text then break end
    at = text:find('[^\128-\191]', at + 1) or #text + 1
  end
  return at - 1
end

function kernel.complete(code, cursor)
  local at = byte_of(code, cursor)
  local items, start = interactive.complete(code, at)
  local matches, kinds = {}, {}
  local from, to = util.length(code:sub(1, start - 1)), util.length(code:sub(1, at))
  for i, item in ipairs(items) do
    matches[i] = item.text
    kinds[i] = {text = item.text, type = item.kind, signature = item.help, start = from, ['end'] = to}
  end
  return ok{matches = list(matches), cursor_start = from, cursor_end = to,
    metadata = {_jupyter_types_experimental = list(kinds)}}
end

function kernel.inspect(code, cursor)
  local text = interactive.inspect(code, byte_of(code, cursor))
  return ok{found = text ~= nil, data = text and {['text/plain'] = text} or {}, metadata = {}}
end

function kernel.is_complete(code)
  local fn, message = loadstring(code)
  fn = fn or loadstring('return ' .. code)
  local status = fn and 'complete' or interactive.is_unfinished(code, message) and 'incomplete' or 'invalid'
  return json{status = status, indent = status == 'incomplete' and '  ' or nil}
end

function kernel.info()
  return ok{protocol_version = '5.3', implementation = 'mtorch', implementation_version = version,
    banner = ('mtorch %s -- %s. mt, nn and optim are there.'):format(version, jit.version),
    language_info = {name = 'lua', version = '5.1', mimetype = 'text/x-lua', file_extension = '.lua',
      pygments_lexer = 'lua', codemirror_mode = 'lua', nbconvert_exporter = ''},
    debugger = false, help_links = list{}}
end

return kernel
