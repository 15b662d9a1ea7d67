-- inline.lua -- a PNG as text for terminals that show pictures: the protocols of kitty and iTerm2, and sixels
local mt = require 'mtorch'
local base64 = require('mtorch.extras.plot.png').base64
local bor = require('bit').bor

local concat = table.concat
local protocols = {}

function protocols.kitty(png)
  local text, parts = base64(png), {}
  for at = 1, #text, 4096 do
    parts[#parts + 1] = ('\27_G%sm=%d;%s\27\\'):format(at == 1 and 'f=100,a=T,' or '', at + 4096 <= #text and 1 or 0,
      text:sub(at, at + 4095))
  end
  return concat(parts) .. '\n'
end

function protocols.iterm2(png) return ('\27]1337;File=inline=1:%s\a\n'):format(base64(png)) end

--- Returns the pixels of a PNG as rows of colours, r + 6 g + 36 b with levels of 0 to 5.
local function colours_of(png)
  local path = os.tmpname()
  mt.extend.util.write_file('plot', path, png)
  local image = mt.data.image(path, 3)
  os.remove(path)
  local levels = (image:to('float32') / 51):round()
  return (levels[1] + 6 * levels[2] + 36 * levels[3]):tolist()
end

--- One colour of a band of six rows: a character for each column, equal ones as !count.
local function sixel_run(bits, width)
  local parts, last, run = {}, nil, 0
  for x = 1, width + 1 do
    local character = x <= width and string.char(63 + (bits[x] or 0)) or nil
    if character == last then run = run + 1 else
      if last then parts[#parts + 1] = run > 3 and ('!%d%s'):format(run, last) or last:rep(run) end
      last, run = character, 1
    end
  end
  return concat(parts)
end

--- Sixels (DEC, VT340), with a palette of 216 colours.
function protocols.sixel(png)
  local rows = colours_of(png)
  local height, width = #rows, #rows[1]
  local parts = {('\27Pq"1;1;%d;%d'):format(width, height)}
  for colour = 0, 215 do
    parts[#parts + 1] = ('#%d;2;%d;%d;%d'):format(colour, colour % 6 * 20, math.floor(colour / 6) % 6 * 20,
      math.floor(colour / 36) * 20)
  end
  for top = 1, height, 6 do
    local bits, colours = {}, {}
    for y = top, math.min(top + 5, height) do
      for x, colour in ipairs(rows[y]) do
        if not bits[colour] then bits[colour], colours[#colours + 1] = {}, colour end
        bits[colour][x] = bor(bits[colour][x] or 0, 2 ^ (y - top))
      end
    end
    for _, colour in ipairs(colours) do
      parts[#parts + 1] = ('#%d%s$'):format(colour, sixel_run(bits[colour], width))
    end
    parts[#parts + 1] = '-'
  end
  return concat(parts) .. '\27\\\n'
end

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
  if name:find '^foot' or name:find '^mlterm' or name:find '^contour' then return protocols.sixel end
end

return {protocol = protocol}
