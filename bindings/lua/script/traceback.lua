-- traceback.lua -- the message of an error that ends the program or a line of the prompt
local core = require 'mtorch.core'
local getinfo = debug.getinfo

-- The files that call the user's code.
local own = {['@mtorch/script/program.lua'] = true, ['@mtorch/help/prompt.lua'] = true}
local first = 3 -- the level of the function that raised the error: the program's handler calls this

--- The message with its position, hints and, unless its line says all, the calls that led to it.
return function(message)
  if type(message) ~= 'string' then
    local meta = debug.getmetatable(message)
    local text = message == nil and 'nil' or meta and meta.__tostring and tostring(message)
    message = type(text) == 'string' and text or ('(error object is a %s value)'):format(type(message))
  end
  message = message:gsub('^mtorch/script/program%.lua:%d+: ', '') -- of `require` of -l
  if message:find '^mtorch/' then -- a position inside the library
    message = core.position() .. message ..
      (message:find("'self' (a ", 1, true) and '; are methods called with a colon, object:method(..)?' or '')
  end
  local has_line, lines, line = not message:find(':', 1, true) or message:find "^module '", 0, ''
  has_line = has_line or message:find '^[^:\n]+:%d+: '
  for i = first, math.huge do
    local info = getinfo(i, 'Sl')
    if not info then break end
    has_line = has_line or info.currentline > 0 and (not own[info.source] or i == first + 1) -- `error` of those files
    if info.currentline > 0 and not info.source:find '^@mtorch/' then
      lines = lines + 1
      if lines == 1 then line = ('%s:%d: '):format(info.short_src, info.currentline) end
      if lines == 2 then break end
    end
  end
  if not has_line then message = message .. ' (a tail call loses its line; return (f(x)) keeps it)' end
  for _, words in ipairs{'attempt to ', 'expected', 'must be a number', 'methods are called', 'not found:'} do
    if message:find(words, 1, true) then
      local ok, hinted = pcall(function() return require('mtorch.help.hints').running(message) end)
      message = ok and hinted or message
      break
    end
  end
  if not core.interrupted() and lines < 2 and message:sub(1, #line) == line then return message end
  return debug.traceback(message, first)
end
