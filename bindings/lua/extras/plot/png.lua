-- png.lua -- pictures as text: pixels as a data URI, for images inside SVG, and PNG files for terminals that show them
local mt = require 'mtorch'
local extend = mt.extend
local bit = require 'bit'

local band, rshift = bit.band, bit.rshift

local digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

local function base64(text)
  local out = {}
  for i = 1, #text, 3 do
    local a, b, c = text:byte(i, i + 2)
    local v = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 0, 3 do
      local d = band(rshift(v, 18 - 6 * k), 63)
      out[#out + 1] = (k == 2 and not b or k == 3 and not c) and '=' or digits:sub(d + 1, d + 1)
    end
  end
  return table.concat(out)
end

--- Returns a data URI of `rows`, strings of four bytes (red, green, blue, alpha) per pixel; without alpha if all pixels
--- are opaque, and with one channel if they are gray. Pixels are repeated until both sides have `min_side` pixels, for
--- viewers that smooth.
local function uri(rows, width, min_side)
  local x = mt.frombuffer(table.concat(rows), {dtype = 'uint8', shape = {#rows, width, 4}}):permute(3, 1, 2)
  if x[4]:eq(255):all() then x = x:narrow(1, 1, x[1]:eq(x[{{2, 3}}]):all() and 1 or 3) end
  x = x:repeat_interleave(math.ceil(min_side / #rows), 2):repeat_interleave(math.ceil(min_side / width), 3)
  return 'data:image/png;base64,' .. base64(extend.encode_png(x:contiguous()))
end

-- Terminals: the protocols of kitty and iTerm2 --------------------------------------------------------

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
local function terminal_protocol()
  local name, program = os.getenv 'TERM' or '', os.getenv 'TERM_PROGRAM' or ''
  if extend.util.colours(1) == 0 then return nil end
  local chosen = os.getenv 'MTORCH_PICTURES'
  if chosen then return protocols[chosen] end
  if os.getenv 'TMUX' then return nil end
  if os.getenv 'KITTY_WINDOW_ID' or name:find 'kitty' or name:find 'ghostty' then return protocols.kitty end
  if program == 'iTerm.app' or program == 'WezTerm' then return protocols.iterm2 end
end

return {uri = uri, terminal_protocol = terminal_protocol}
