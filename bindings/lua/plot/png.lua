-- png.lua -- Pixels as a PNG data URI, for images inside SVG (PNG specification; stored, not compressed).
local bit = require 'bit'

local band, bxor, rshift, char = bit.band, bit.bxor, bit.rshift, string.char

local function big_endian(v)
  return char(band(rshift(v, 24), 255), band(rshift(v, 16), 255), band(rshift(v, 8), 255), band(v, 255))
end

local crc_of -- the checksum of each byte

local function crc32(text)
  if not crc_of then
    crc_of = {}
    for n = 0, 255 do
      local c = n
      for _ = 1, 8 do c = band(c, 1) == 1 and bxor(0xedb88320, rshift(c, 1)) or rshift(c, 1) end
      crc_of[n] = c
    end
  end
  local c = -1
  for i = 1, #text do c = bxor(crc_of[band(bxor(c, text:byte(i)), 255)], rshift(c, 8)) end
  return bit.bnot(c)
end

local function adler32(text)
  local a, b = 1, 0
  for i = 1, #text do
    a = (a + text:byte(i)) % 65521
    b = (b + a) % 65521
  end
  return bit.bor(bit.lshift(b, 16), a)
end

local function chunk(kind, content)
  return big_endian(#content) .. kind .. content .. big_endian(crc32(kind .. content))
end

-- zlib's format with blocks that are stored as they are, 65535 bytes each at most.
local function stored(text)
  local out = {'\120\1'}
  for first = 1, math.max(#text, 1), 65535 do
    local block = text:sub(first, first + 65534)
    local n, last = #block, first + 65535 > #text and 1 or 0
    out[#out + 1] = char(last, n % 256, (n - n % 256) / 256, 255 - n % 256, 255 - (n - n % 256) / 256) .. block
  end
  out[#out + 1] = big_endian(adler32(text))
  return table.concat(out)
end

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

--- A data URI of `rows`: texts of one byte (gray) or three (RGB) for each pixel.
return function(rows, width, channels)
  for i, row in ipairs(rows) do rows[i] = '\0' .. row end -- filter type 0: as it is
  local header = big_endian(width) .. big_endian(#rows) .. char(8, channels == 3 and 2 or 0, 0, 0, 0)
  return 'data:image/png;base64,' .. base64('\137PNG\r\n\26\n' .. chunk('IHDR', header) ..
    chunk('IDAT', stored(table.concat(rows))) .. chunk('IEND', ''))
end
