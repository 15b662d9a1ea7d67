-- events.lua -- TensorBoard's event files: records with checksums (TFRecord), messages of events
local ffi = require 'ffi'
local bit = require 'bit'
local extend = require('mtorch').extend
local protobuf = require 'mtorch.extras.protobuf'

local band, bxor, rshift = bit.band, bit.bxor, bit.rshift
local varint = protobuf.varint

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

local plugin = {plugin_name = {1, 'bytes'}, content = {2, 'bytes'}}
local metadata = {plugin_data = {1, plugin}}
local image = {height = {1, 'int'}, width = {2, 'int'}, colorspace = {3, 'int'}, encoded = {4, 'bytes'}}
local histogram = {min = {1, 'double'}, max = {2, 'double'}, num = {3, 'double'}, sum = {4, 'double'},
                   sum_squares = {5, 'double'}, bucket_limit = {6, 'double', 'list'}, bucket = {7, 'double', 'list'}}
local tensor = {dtype = {1, 'int'}, shape = {2, {dim = {2, {size = {1, 'int'}}, 'list'}}},
                string_val = {8, 'bytes', 'list'}}
local value = {tag = {1, 'bytes'}, simple_value = {2, 'float'}, image = {4, image}, histogram = {5, histogram},
               tensor = {8, tensor}, metadata = {9, metadata}}
local event = {wall_time = {1, 'double'}, step = {2, 'int'}, file_version = {3, 'bytes'},
               summary = {5, {value = {1, value, 'list'}}}, session_log = {7, {status = {1, 'int'}}}}
-- tensorboard/plugins/hparams
local info = {name = {1, 'bytes'}, type = {4, 'int'}}
local metric = {name = {1, {tag = {2, 'bytes'}}}}
local any = {number = {2, 'double'}, string = {3, 'bytes'}, bool = {4, 'bool'}}
local hparams = {experiment = {2, {hparams = {4, info, 'list'}, metrics = {5, metric, 'list'}}},
                 start = {3, {hparams = {1, {key = {1, 'bytes'}, value = {2, any}}, 'list'}}},
                 finish = {4, {status = {1, 'int'}}}}

function events.event(fields) return protobuf.encode(event, fields) end
function events.hparams(fields) return protobuf.encode(hparams, fields) end

local double, float = ffi.new 'double[1]', ffi.new 'float[1]'

--- Returns the beginning of a scalar's event, with the tag.
function events.scalar_head(tag) return '\10' .. varint(#tag) .. tag .. '\21' end

--- Encodes the event of a scalar directly, because this is called at every step. A step is an integer from 0.
function events.scalar(head, x, step, time)
  double[0], float[0] = time, x
  local inner = #head + 4
  return '\9' .. ffi.string(double, 8) .. '\16' .. varint(step) .. '\42' ..
    varint(inner + (inner < 128 and 2 or inner < 16384 and 3 or 4)) .. '\10' .. varint(inner) .. head ..
    ffi.string(float, 4)
end

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
