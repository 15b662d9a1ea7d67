-- png.lua -- base64, and pixels as a PNG data URI, for images inside SVG
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

return {base64 = base64, uri = uri}
