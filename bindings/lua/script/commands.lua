-- commands.lua -- what the program does instead of running a script: usage, help, `mtorch doctor` and the like, mpirun
local core = require 'mtorch.core'

local function usage(sentence)
  return 2, sentence .. '\nusage: mtorch [options] [script [args]]; see mtorch --help'
end

-- `mtorch NAME ..`: each returns a status, and the sentence of an error or nothing; without a status a script follows.
local commands = {}
function commands.jupyter(words)
  if words[1] == 'kernel' and #words == 2 then return core.program.run_jupyter(words[2]) end
  local run = #words > 0 and #words < 3 and require('mtorch.jupyter.install')[words[1]]
  if run then return run(words[2] or '', core.program.path()) end
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
  return core.program.doctor()
end

function commands.watch(words)
  if not words[1] or words[1] == '-' then return usage 'watch needs a script: mtorch watch train.lua' end
end

--- The number of processes of the machines in a list such as a:4,b:4, and of the one with the most; nil if it is wrong.
local function places_of(hosts)
  local sum, most = 0, 0
  for word in (hosts .. ','):gmatch '([^,]*),' do
    local places = word:find '^[^:]+$' and 1 or tonumber(word:match '^[^:]+:(%d+)$') or 0
    if places < 1 or places > 65536 then return nil end
    sum, most = sum + places, math.max(most, places)
  end
  return sum, most
end

--- Starts the processes that the options ask for.
local function launch(o, rest)
  if #rest == 0 and #o.code == 0 then return usage '--processes needs a script' end
  local count, most, places = o.processes, o.processes or 1, nil
  if o.hosts then
    places, most = places_of(o.hosts)
    if not places then
      return usage(("--hosts: machines with numbers of processes are needed, as in a:4,b:4, got '%s'"):format(o.hosts))
    end
    if (count or 0) > places then
      return usage(('--hosts %s has %d places, fewer than --processes %d'):format(o.hosts, places, count))
    end
  end
  return core.program.run_processes(count or places or 1, most, o.restarts or 0, o.hosts or '', o.others)
end

--- Does what the options, or a sentence of an error, and the first word of the rest ask for; `arguments` follow it.
--- Returns a status and the message of an error; nothing if a script is to be run.
return function(o, wrong, rest, word, arguments)
  if not o then return usage(wrong) end
  if o.help then return 0, io.write(o.help) and nil end
  if (o.processes or 1) > 1 or (o.restarts or 0) > 0 or o.hosts then return launch(o, rest) end
  if not word then return nil end
  if o.version then io.write(core.program.version, '\n') end
  local status, message = commands[word](arguments)
  return status or word ~= 'watch' and 0 or nil, message
end
