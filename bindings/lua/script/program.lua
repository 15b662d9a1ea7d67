-- program.lua -- runs what the command line of the program names: a command, libraries, code, a script
local core = require 'mtorch.core'

local program = {}

--- Loads a module that is used once: a script should not have more for the collector to visit.
local function once(name)
  local module = require(name)
  package.loaded[name] = nil
  return module
end

--- The words of a list from i on.
local function tail(list, i)
  local rest = {}
  for k = i, #list do rest[#rest + 1] = list[k] end
  return rest
end

--- Sets the global mt, and nn and optim if a text mentions them: loading those takes milliseconds.
function program.predefine(text)
  local mt = require 'mtorch'
  _G.mt = mt
  for _, name in ipairs{'nn', 'optim'} do
    if text:find(name, 1, true) then _G[name] = mt[name] end
  end
end

local function with_hint(message, text) return require('mtorch.help.hints').syntax(message, text) end

--- Compiles a text that is not a file's, and keeps it, because kernels are compiled from source.
local function load_text(text, name)
  table.insert(core.chunks(name), text)
  local chunk, message = loadstring(text, name)
  return chunk, chunk or with_hint(message, text)
end

--- Compiles a script. '-' is standard input, where a first line with #! becomes a comment.
local function load_script(name)
  if name == '-' then
    local text = io.read('*a'):gsub('^#', '--#')
    if text ~= '' then program.predefine(text) end
    return load_text(text, '=stdin')
  end
  local chunk, message = loadfile(name)
  if chunk or not message:find ':%d+: ' then return chunk, message end
  local file = io.open(name)
  local text = file:read '*a'
  file:close()
  return chunk, with_hint(message, text)
end

--- Runs code of -e: statements, or an expression whose values are printed. Returns what is wrong with it.
local function run_code(code)
  local name = '=(command line)'
  local chunk, message = load_text(code, name)
  if chunk then return nil, core.program.call(chunk) end
  chunk = load_text('return ' .. code, name)
  if not chunk then return message end
  require('mtorch.help.prompt').print(core.program.call(chunk))
end

--- Applies --threads, --seed and --device.
local function apply(o)
  if o.threads then core.set_num_threads(o.threads) end
  if o.seed then require 'mtorch'.manual_seed(o.seed) end
  local reason = o.device and core.device_unavailable_reason(o.device) or ''
  if reason ~= '' then error('--device: ' .. reason, 0) end
end

--- Sets arg, applies options, and runs the code before the script. Returns a status and a message if it fails.
local function prepare(o, words, rest)
  if o.clean then package.path, package.cpath = core.program.ignore_environment() end
  local arg = {}
  for i, word in ipairs(words) do arg[i - (rest[1] and #words - #rest or 0) - 1] = word end
  _G.arg = arg
  local ok, message = pcall(apply, o)
  if not ok then return 2, message end
  if o.profile then
    require 'mtorch.script.profile'
    ok, message = pcall(core.profile_program, o.profile ~= true and o.profile or nil)
    if not ok then return 1, message end
    program.end_profile = message
  end
  if #o.code > 0 then program.predefine(table.concat(o.code, ' ')) end
  for _, name in ipairs(o.libraries) do
    if name == 'mt' or name == 'nn' or name == 'optim' then program.predefine(name) else _G[name] = require(name) end
  end
  for _, code in ipairs(o.code) do
    message = run_code(code)
    if message then return 1, message end
  end
end

--- Runs a script with its arguments. Returns a status and a message if it is not one.
local function run_script(rest, watches)
  local script = rest[1]
  if script ~= '-' then
    if #rest > 1 then once('mtorch.script.options').report_lost(rest) end
    local folder = script:match '^(.*)/' or '.'
    package.path = ('%s/?.lua;%s/?/init.lua;%s'):format(folder, folder, package.path)
  end
  local chunk, message = load_script(script)
  if not chunk then return 1, message end
  if watches then
    require('mtorch.script.watch').start(script)
    core.program.start_watch()
  end
  core.program.call(chunk, tail(rest, 2))
end

--- Runs what a command line names: its words, and what options.read makes of them. Returns the exit status, the message
--- of an error that has no line, and whether the prompt follows.
function program.run(words, o, wrong)
  package.loaded['mtorch.script.options'] = nil
  local rest = tail(words, o and o.first or 1)
  local word, watches = rest[1], rest[1] == 'watch'
  local is_command = word and (' jupyter debug compare doctor watch '):find(' ' .. word .. ' ', 1, true)
  if is_command and require('mtorch.core.util').exists(word) then -- a script of that name
    is_command, watches = false, false
  end
  if not o or o.help or o.processes or o.restarts or o.hosts or is_command then
    local status, message = once 'mtorch.script.commands'(o, wrong, rest, is_command and word, tail(rest, 2))
    if status then return status, message end
  end
  if o.version then io.write(core.program.version, '\n') end
  if watches then table.remove(rest, 1) end
  local status, message = prepare(o, words, rest)
  if status then return status, message end
  local is_bare = not rest[1] and #o.code == 0 and #o.libraries == 0 and not o.version
  local prompts = o.interactive or is_bare and core.isatty(0)
  if is_bare and not prompts then rest = {'-'} end
  if rest[1] then status, message = run_script(rest, watches) end
  return status or 0, message, prompts
end

return program
