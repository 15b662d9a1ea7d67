-- inline.lua -- a PNG as text for terminals that show pictures: the protocols of kitty and iTerm2
local mt = require 'mtorch'
local base64 = require('mtorch.extras.plot.png').base64

local protocols = {}

function protocols.kitty(png)
  local text, parts = base64(png), {}
  for at = 1, #text, 4096 do
    parts[#parts + 1] = ('\27_G%sm=%d;%s\27\\'):format(at == 1 and 'f=100,a=T,' or '', at + 4096 <= #text and 1 or 0,
      text:sub(at, at + 4095))
  end
  return table.concat(parts) .. '\n'
end

function protocols.iterm2(png) return ('\27]1337;File=inline=1:%s\a\n'):format(base64(png)) end

--- Returns the function that makes the text of a PNG for this terminal, or nil where it shows no pictures.
--- MTORCH_PICTURES names the protocol where the variables of the terminal do not tell it.
local function protocol()
  local name, program = os.getenv 'TERM' or '', os.getenv 'TERM_PROGRAM' or ''
  if mt.extend.util.colours(1) == 0 then return nil end
  local chosen = os.getenv 'MTORCH_PICTURES'
  if chosen then return protocols[chosen] end
  if os.getenv 'TMUX' then return nil end
  if os.getenv 'KITTY_WINDOW_ID' or name:find 'kitty' or name:find 'ghostty' then return protocols.kitty end
  if program == 'iTerm.app' or program == 'WezTerm' then return protocols.iterm2 end
end

return {protocol = protocol}
