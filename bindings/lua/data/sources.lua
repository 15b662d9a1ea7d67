-- sources.lua -- the folders and downloads of data sets with a name
local core = require 'mtorch.core'
local native = core.formats()

local sources = {}

function sources.say(...) io.stderr:write((...):format(select(2, ...)), '\n') end

--- The folder of downloads: $XDG_CACHE_HOME/mtorch or ~/.cache/mtorch.
function sources.cache_folder(name)
  local xdg, home = os.getenv 'XDG_CACHE_HOME' or '', os.getenv 'HOME' or ''
  if xdg:sub(1, 1) == '/' then return xdg .. '/mtorch/' .. name end
  if home:sub(1, 1) ~= '/' then core.fail('%s: HOME is not set; say root=', name) end
  return home .. '/.cache/mtorch/' .. name
end

--- Downloads files, {{name, md5}, ..}, into a folder, each from the first mirror that has it. `download` is true or the
--- address of another mirror.
function sources.fetch(operation, root, missing, mirrors, download)
  if download ~= true then mirrors = {(download:gsub('/?$', '/', 1))} end
  if #missing > 0 then core.make_folders(operation, root) end
  local reasons = {}
  for k, file in ipairs(missing) do
    local name, md5, done = file[1], file[2], false
    for _, mirror in ipairs(mirrors) do
      local ok, reason = pcall(native.download, mirror .. name, root .. '/' .. name, '', md5, true, 2 ^ 28)
      done = ok
      if ok then break end
      if core.interrupted() then error(reason, 0) end
      reasons[#reasons + 1] = reason:gsub('^.-download: ', '')
    end
    if not done then
      local names = {}
      for i = k, #missing do names[#names + 1] = missing[i][1] end
      core.fail("%s: %s cannot be fetched (%s); put %s into '%s'", operation, table.concat(names, ', '),
        table.concat(reasons, '; '), #names == 1 and 'it' or 'them', root)
    end
  end
end

--- Raises an error if a folder that the user named does not exist.
function sources.check_folder(operation, root)
  core.check(pcall(native.list_folder, operation, root),
    "%s: there is no folder '%s'; download=true makes it and fetches the files", operation, root)
end

return sources
