-- install.lua -- `mtorch jupyter install`: writes the kernel's description where Jupyter looks for it
local core = require 'mtorch.core'

local install = {}

local logo = [[
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="12" fill="#1f2937"/>
<path d="M12 46V20l12 14 12-14v26M42 20h14M49 20v26" fill="none" stroke="#f59e0b" stroke-width="6"
stroke-linecap="round" stroke-linejoin="round"/></svg>
]]

--- The folder of the kernel's description: in a prefix, in the active virtual environment, or of the user.
local function folder_of(option)
  local prefix = option:match '^%-%-prefix=(.+)$'
  if option ~= '' and not prefix then core.fail("jupyter: unknown option '%s'; use --prefix=FOLDER", option) end
  prefix = prefix or os.getenv 'VIRTUAL_ENV'
  local data = prefix and prefix .. '/share/jupyter' or os.getenv 'JUPYTER_DATA_DIR' or
    (os.getenv 'XDG_DATA_HOME' or (os.getenv 'HOME' or '') .. '/.local/share') .. '/jupyter'
  return data .. '/kernels/mtorch'
end

function install.install(option, program)
  local folder = folder_of(option)
  core.make_folders('jupyter', folder)
  local description = {argv = {program, 'jupyter', 'kernel', '{connection_file}'},
    display_name = 'mtorch (Lua)', language = 'lua', interrupt_mode = 'signal'}
  core.write_file('jupyter', folder .. '/kernel.json', core.json_text(description) .. '\n')
  core.write_file('jupyter', folder .. '/logo-svg.svg', logo)
  print(('installed the kernel mtorch in %s; start it by: jupyter lab'):format(folder))
end

function install.uninstall(option)
  local folder = folder_of(option)
  for _, name in ipairs{'kernel.json', 'logo-svg.svg'} do os.remove(folder .. '/' .. name) end
  local removed = os.remove(folder)
  print((removed and 'removed ' or 'there is no kernel in ') .. folder)
end

return install
