-- args.lua -- mt.args: the flags of a script, with types and help taken from their defaults
local core = require 'mtorch.core'

--- `mt.args{hidden=100, rate=0.05, dataset={'split','xor'}}` reads the script's flags: types come
--- from the defaults, a list is a choice. Case is ignored; --dry-run is dry_run. `--device`, `--threads`, `--seed` are
--- always there and take effect at once.
return core.declare('args(..)', "The script's flags, mt.args{hidden=100, rate=0.05, dataset={'split', 'xor'}}: " ..
  'types from the defaults, a list is a choice, dry_run is --dry-run; --device --threads --seed --help always. ' ..
  'Returns their values.',
function(defaults, arguments)
  if type(defaults) ~= 'table' then
    core.fail('args: a table of defaults is needed, got ' .. core.describe(defaults))
  end
  local options = {device = 'cpu', threads = core.get_num_threads(), seed = 1}
  for name, value in pairs(defaults) do options[name] = value end
  local words = type(arg) == 'table' and arg or {} -- a global of the script's, after all
  arguments = arguments or words
  if type(arguments) ~= 'table' then core.fail('args: a list of words is needed, got ' .. core.describe(arguments)) end
  local script = type(words[0]) == 'string' and words[0] or 'script'
  local values, message = core.parse_args(options, arguments, script)
  if not values then
    if values == false then
      io.stdout:write(message)
      os.exit(0)
    end
    io.stderr:write('mtorch: ', script, ': ', message, '\n')
    os.exit(2)
  end
  local function refuse(text)
    io.stderr:write('mtorch: ', script, ': ', text, '\n')
    os.exit(1)
  end
  local trouble = core.device_unavailable_reason(values.device)
  if trouble ~= '' then refuse(trouble) end
  if values.threads < 1 or values.threads % 1 ~= 0 then
    refuse(('--threads must be a whole number from 1, got %g'):format(values.threads))
  end
  if values.seed % 1 ~= 0 then refuse(('--seed must be a whole number, got %g'):format(values.seed)) end
  core.set_num_threads(values.threads)
  require('mtorch').manual_seed(values.seed)
  return values
end)
