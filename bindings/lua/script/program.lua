-- program.lua -- runs what the command line of the program names: a command, libraries, code, a script
local core = require 'mtorch.core'

local program = {}

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
  if chunk then return nil, core.call(chunk) end
  chunk = load_text('return ' .. code, name)
  if not chunk then return message end
  require('mtorch.help.prompt').print(core.call(chunk))
end

--- Warns that options after a script that ignores its arguments have no effect.
local function report_lost(words)
  local flag
  for i = 2, #words do
    for _, name in ipairs{'--threads', '--seed', '--device'} do
      if not flag and words[i]:sub(1, #name) == name then flag = name end
    end
  end
  local file = flag and io.open(words[1])
  if not file then return end
  local text = file:seek('end') and file:seek('set') and file:read '*a' or '...' -- a pipe can be read only once
  file:close()
  text = text:gsub('%-%-[^\n]*', '')
  for _, word in ipairs{'%f[%w_]args?%f[^%w_]', '%.%.%.', '%f[%w_]dofile%f[^%w_]', '%f[%w_]loadfile%f[^%w_]'} do
    if text:find(word) then return end
  end
  for name in text:gmatch '%f[%w_]require%s*%(?%s*(.[%w_.]*)' do
    if not name:find '^[\'"]mtorch' then return end -- which may read them
  end
  io.stderr:write(("mtorch: %s has no mt.args, so '%s' after it has no effect; write mtorch %s .. %s\n"):format(
    words[1], flag, flag, words[1]))
end

--- Applies --threads, --seed and --device.
local function apply(o)
  if o.threads then core.set_num_threads(o.threads) end
  if o.seed then require 'mtorch'.manual_seed(o.seed) end
  local reason = o.device and core.device_unavailable_reason(o.device) or ''
  if reason ~= '' then error('--device: ' .. reason, 0) end
end

local function usage(sentence)
  return 2, sentence .. '\nusage: mtorch [options] [script [args]]; see mtorch --help'
end

-- `mtorch NAME ..`: each returns a status and the sentence of an error, or nothing.
local commands = {}
function commands.jupyter(words)
  if words[1] == 'kernel' and #words == 2 then return core.run_jupyter(words[2]) end
  local run = #words > 0 and #words < 3 and require('mtorch.jupyter.install')[words[1]]
  if run then return run(words[2] or '', core.program_path()) end
  return 2, 'jupyter needs one of: install [--prefix=FOLDER], uninstall [--prefix=FOLDER], kernel CONNECTION_FILE'
end
function commands.debug(words)
  local wrong = require('mtorch.script.debugger').start(words)
  return wrong and 2, wrong
end
function commands.compare(words)
  local wrong = require('mtorch.extras.report.compare').start(words)
  return wrong and 2, wrong
end

function commands.doctor(words)
  if #words > 0 then return usage 'doctor takes no arguments' end
  return core.doctor()
end

--- Starts the processes that the options ask for.
local function launch(o, rest)
  if #rest == 0 and #o.code == 0 then return usage '--processes needs a script' end
  local status, sentence = core.run_processes(o.processes or 0, o.restarts or 0, o.hosts or '', o.others)
  if sentence then return usage(sentence) end
  return status
end

--- Sets arg, applies options, and runs the code before the script. Returns a status and a message if it fails.
local function prepare(o, words, rest)
  if o.clean then package.path, package.cpath = core.ignore_environment() end
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
    report_lost(rest)
    local folder = script:match '^(.*)/' or '.'
    package.path = ('%s/?.lua;%s/?/init.lua;%s'):format(folder, folder, package.path)
  end
  local chunk, message = load_script(script)
  if not chunk then return 1, message end
  if watches then
    require('mtorch.script.watch').start(script)
    core.start_watch()
  end
  core.call(chunk, unpack(rest, 2))
end

--- Runs what a command line names: its words, and what options.read makes of them. Returns the exit status, the message
--- of an error that has no line, and whether the prompt follows.
function program.run(words, o, wrong)
  package.loaded['mtorch.script.options'] = nil -- it is not needed any more
  if not o then return usage(wrong) end
  if o.help then return 0, io.write(o.help) and nil end
  local rest = {unpack(words, o.first)}
  if (o.processes or 1) > 1 or (o.restarts or 0) > 0 or o.hosts then return launch(o, rest) end
  if o.version then io.write(core.version, '\n') end
  local command, watches = commands[rest[1]], rest[1] == 'watch'
  local file = (command or watches) and io.open(rest[1]) -- a script of that name
  if file then file:close() elseif command then return command{unpack(rest, 2)} end
  watches = watches and not file
  if watches then
    table.remove(rest, 1)
    if not rest[1] or rest[1] == '-' then return usage 'watch needs a script: mtorch watch train.lua' end
  end
  local status, message = prepare(o, words, rest)
  if status then return status, message end
  local is_bare = not rest[1] and #o.code == 0 and #o.libraries == 0 and not o.version
  local prompts = o.interactive or is_bare and core.isatty(0)
  if is_bare and not prompts then rest = {'-'} end
  if rest[1] then status, message = run_script(rest, watches) end
  return status or 0, message, prompts
end

return program
