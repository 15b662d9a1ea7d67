-- protobuf.lua -- writes messages in the wire format of Protocol Buffers
-- (https://protobuf.dev/programming-guides/encoding)
--
-- A message's type is a table {field = {number, type}}, and its value a table with the same keys; nil is omitted.
-- Types: 'int' (int32, int64, enums), 'bool', 'float', 'double', 'bytes' (also text), or the type of an inner message.
-- {number, type, 'list'} is a repeated field, whose value is a list; numbers are packed. {piece =, bytes = n} instead
-- of a string is a placeholder for bytes that the writer of the file inserts.
local ffi = require 'ffi'
local bit = require 'bit'

local protobuf = {}

local char = string.char

--- Encodes an integer within 2^53, or an int64_t, as a varint; a negative one has ten bytes.
local function varint(n)
  if type(n) ~= 'number' or n < 0 then n = ffi.cast('uint64_t', ffi.cast('int64_t', n))
  elseif n < 128 then return char(n)
  elseif n < 16384 then return char(n % 128 + 128, bit.rshift(n, 7))
  elseif n < 2097152 then return char(n % 128 + 128, bit.rshift(n, 7) % 128 + 128, bit.rshift(n, 14)) end
  local bytes = {}
  repeat
    local low = tonumber(n % 128)
    n = (n - low) / 128
    bytes[#bytes + 1] = n > 0 and low + 128 or low
  until n == 0
  return char(unpack(bytes))
end

local float, double = ffi.new 'float[1]', ffi.new 'double[1]'

-- The wire types of scalars, and the functions that encode them.
local scalars = {
  int = {0, varint},
  bool = {0, function(x) return x and '\1' or '\0' end},
  double = {1, function(x) double[0] = x return ffi.string(double, 8) end},
  float = {5, function(x) float[0] = x return ffi.string(float, 4) end},
}

local function key(number, wire) return varint(bit.lshift(number, 3) + wire) end

--- Appends a message's fields to `out`, in the order of their numbers; returns the number of bytes.
local function add_message(out, message, value)
  local names, total = {}, 0
  local function add(bytes)
    out[#out + 1] = bytes
    total = total + #bytes
  end
  local function add_block(number, bytes)
    add(key(number, 2) .. varint(#bytes))
    add(bytes)
  end
  local function add_one(number, kind, x)
    if scalars[kind] then return add(key(number, scalars[kind][1]) .. scalars[kind][2](x)) end
    if kind == 'bytes' and type(x) == 'table' then
      add(key(number, 2) .. varint(x.bytes))
      out[#out + 1], total = x.piece, total + x.bytes
      return
    end
    if kind == 'bytes' then return add_block(number, x) end
    local head = #out + 1
    out[head] = ''
    local length = add_message(out, kind, x)
    out[head] = key(number, 2) .. varint(length)
    total = total + #out[head] + length
  end
  for name in pairs(value) do
    if not message[name] then error(("protobuf: the message has no field '%s'"):format(name)) end
    names[#names + 1] = name
  end
  table.sort(names, function(a, b) return message[a][1] < message[b][1] end)
  for _, name in ipairs(names) do
    local number, kind, list = unpack(message[name])
    if list and scalars[kind] then
      local bytes = {}
      for i, x in ipairs(value[name]) do bytes[i] = scalars[kind][2](x) end
      add_block(number, table.concat(bytes))
    else
      for _, x in ipairs(list and value[name] or {value[name]}) do add_one(number, kind, x) end
    end
  end
  return total
end

--- Returns a message as a list of strings and pieces, and the number of bytes. Keys that its type lacks are errors.
function protobuf.pieces(message, value)
  local out = {}
  return out, add_message(out, message, value)
end

--- Returns the bytes of a message without pieces.
function protobuf.encode(message, value) return table.concat((protobuf.pieces(message, value))) end

return protobuf
