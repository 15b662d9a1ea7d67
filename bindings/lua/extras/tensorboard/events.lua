-- events.lua -- TensorBoard's event files: records with checksums (TFRecord), messages of events
local ffi = require 'ffi'
local bit = require 'bit'
local extend = require('mtorch').extend
local protobuf = require 'mtorch.extras.protobuf'

local band, bxor, rshift = bit.band, bit.bxor, bit.rshift

local events = {}

local table_of_crc -- the table by bytes of CRC-32C (Castagnoli), RFC 3720

local function make_table()
  table_of_crc = ffi.new 'uint32_t[256]'
  for n = 0, 255 do
    local c = n
    for _ = 1, 8 do c = band(c, 1) == 1 and bxor(0x82f63b78, rshift(c, 1)) or rshift(c, 1) end
    table_of_crc[n] = c
  end
end

--- Returns the CRC-32C of a string as a signed 32-bit number.
function events.crc32c(text)
  if not table_of_crc then make_table() end
  local bytes, c = ffi.cast('const uint8_t *', text), -1
  for i = 0, #text - 1 do c = bxor(table_of_crc[band(bxor(c, bytes[i]), 255)], rshift(c, 8)) end
  return bit.bnot(c)
end

local word, words = ffi.new 'uint32_t[1]', ffi.new 'uint32_t[2]'

-- TensorFlow's masked CRC: rotated right by 15 bits, plus a constant.
local function masked_crc(text)
  local c = events.crc32c(text)
  word[0] = bit.tobit(bit.ror(c, 15) + 0xa282ead8)
  return ffi.string(word, 4)
end

--- Returns a record: the length, its checksum, the data, and their checksum.
function events.record(data)
  words[0] = #data
  local length = ffi.string(words, 8)
  return length .. masked_crc(length) .. data .. masked_crc(data)
end

-- Messages (tensorboard/compat/proto) -------------------------------------------------------------

local metadata = {plugin_data = {1, {plugin_name = {1, 'bytes'}}}}
local image = {height = {1, 'int'}, width = {2, 'int'}, colorspace = {3, 'int'}, encoded = {4, 'bytes'}}
local histogram = {min = {1, 'double'}, max = {2, 'double'}, num = {3, 'double'}, sum = {4, 'double'},
                   sum_squares = {5, 'double'}, bucket_limit = {6, 'double', 'list'}, bucket = {7, 'double', 'list'}}
local tensor = {dtype = {1, 'int'}, shape = {2, {dim = {2, {size = {1, 'int'}}, 'list'}}},
                string_val = {8, 'bytes', 'list'}}
local value = {tag = {1, 'bytes'}, simple_value = {2, 'float'}, image = {4, image}, histogram = {5, histogram},
               tensor = {8, tensor}, metadata = {9, metadata}}
local event = {wall_time = {1, 'double'}, step = {2, 'int'}, file_version = {3, 'bytes'},
               summary = {5, {value = {1, value, 'list'}}}, session_log = {7, {status = {1, 'int'}}}}

function events.event(fields) return protobuf.encode(event, fields) end

-- Files -------------------------------------------------------------------------------------------

local files = 0

function events.host_name()
  return (extend.util.read_file '/proc/sys/kernel/hostname' or 'localhost'):match '[^\n]*'
end

--- Returns the name of a new event file in TensorBoard's format.
function events.file_name(folder, suffix)
  files = files + 1
  return ('%s/events.out.tfevents.%010d.%s.%d.%d%s'):format(folder, extend.wall_time(), events.host_name(),
    extend.process_id(), files - 1, suffix)
end

return events
