-- protobuf_fields.lua -- a reader of Protocol Buffers for tests
local ffi = require 'ffi'
local t = require 'testing'

--- Parses Protocol Buffers without a schema: {number = {values}}, with strings for wire type 2.
local function fields(text)
  local out, at = {}, 1
  local function varint()
    local n, scale = 0, 1
    while true do
      local byte = text:byte(at)
      at = at + 1
      n, scale = n + byte % 128 * scale, scale * 128
      if byte < 128 then return n end
    end
  end
  while at <= #text do
    local key = varint()
    local number, wire, value = math.floor(key / 8), key % 8, nil
    if wire == 0 then value = varint()
    elseif wire == 2 then
      local n = varint()
      value, at = text:sub(at, at + n - 1), at + n
    else
      local size = wire == 1 and 8 or 4
      value = tonumber(ffi.cast(wire == 1 and 'double *' or 'float *', ffi.cast('const char *', text) + at - 1)[0])
      at = at + size
    end
    out[number] = out[number] or {}
    table.insert(out[number], value)
  end
  t.eq(at, #text + 1)
  return out
end

return {fields = fields}
