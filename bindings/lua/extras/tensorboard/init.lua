-- init.lua -- mt.SummaryWriter: scalars, histograms, images and texts for TensorBoard
local ffi = require 'ffi'
local bit = require 'bit'
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local protobuf = require 'mtorch.extras.protobuf'
local object = extend.object

local band, bxor, rshift = bit.band, bit.bxor, bit.rshift
local wall_time = extend.wall_time

-- Event files: records with checksums (TFRecord) --------------------------------------------------------

local table_of_crc = {} -- by bytes, of CRC-32C (Castagnoli), RFC 3720
for n = 0, 255 do
  local c = n
  for _ = 1, 8 do c = band(c, 1) == 1 and bxor(0x82f63b78, rshift(c, 1)) or rshift(c, 1) end
  table_of_crc[n] = c
end

--- Returns the CRC-32C of a string as a signed 32-bit number.
local function crc32c(text)
  local bytes, c = ffi.cast('const uint8_t *', text), -1
  for i = 0, #text - 1 do c = bxor(table_of_crc[band(bxor(c, bytes[i]), 255)], rshift(c, 8)) end
  return bit.bnot(c)
end

local word, words = ffi.new 'uint32_t[1]', ffi.new 'uint32_t[2]'

-- TensorFlow's masked CRC: rotated right by 15 bits, plus a constant.
local function masked_crc(text)
  local c = crc32c(text)
  word[0] = bit.tobit(bit.ror(c, 15) + 0xa282ead8)
  return ffi.string(word, 4)
end

--- Returns a record: the length, its checksum, the data, and their checksum.
local function record(data)
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

-- Files -------------------------------------------------------------------------------------------

local files = 0

local function host_name()
  return (util.read_file '/proc/sys/kernel/hostname' or 'localhost'):match '[^\n]*'
end

--- Returns the name of a new event file in TensorBoard's format.
local function file_name(folder, suffix)
  files = files + 1
  return ('%s/events.out.tfevents.%010d.%s.%d.%d%s'):format(folder, wall_time(), host_name(),
    extend.process_id(), files - 1, suffix)
end

-- The writer --------------------------------------------------------------------------------------

local Writer, method = object.class{called = 'w', name = 'SummaryWriter', word = 'writer',
  optional = {file = true, at_end = true, path = true, time = true}}
function Writer:describe() return ("SummaryWriter('%s')"):format(self.log_dir) end

-- The maximum bytes of buffered events; more are written at once.
local max_waiting = 2 ^ 18

local function write_out(self)
  if #self.waiting == 0 then return end
  local text = table.concat(self.waiting)
  self.waiting, self.bytes, self.written = {}, 0, wall_time()
  util.write_log('SummaryWriter', self.path, self.file, text)
end

--- Adds an event of a step.
local function add(self, step, time, fields)
  if not self.file then extend.fail("SummaryWriter: '%s' is closed", self.path) end
  self.time = time or wall_time()
  fields.wall_time, fields.step = self.time, step
  local text = record(protobuf.encode(event, fields))
  table.insert(self.waiting, text)
  self.bytes = self.bytes + #text
  if #self.waiting > self.max_queue or self.bytes > max_waiting or self.time - self.written > self.flush_secs then
    write_out(self)
  end
end

local function add_value(self, step, time, value) add(self, step, time, {summary = {value = {value}}}) end

local function new(log_dir, options)
  local self = object.new(Writer, {log_dir = log_dir, waiting = {}, bytes = 0, written = wall_time(), inner = {},
    max_queue = options.max_queue, flush_secs = options.flush_secs, options = options})
  extend.make_folders('SummaryWriter', log_dir)
  self.path = file_name(log_dir, options.filename_suffix)
  self.file = util.open_log('SummaryWriter', self.path, 'wb')
  self.file:setvbuf('no')
  self.at_end = newproxy(true) -- buffered events are written if the writer is never closed
  getmetatable(self.at_end).__gc = function() pcall(self.close, self) end
  add(self, nil, nil, {file_version = 'brain.Event:2'})
  write_out(self)
  return self
end

-- Scalars -----------------------------------------------------------------------------------------

method('add_scalar(tag: string, scalar_value: any, global_step: int >= 0 = nil, walltime: number = nil)',
  'A number, or a tensor of one element, under a tag such as "loss/train", of a step.',
  function(self, tag, value, step, time)
    local number = util.scalar(value)
    if type(number) ~= 'number' then
      extend.fail("add_scalar: '%s' is %s, expected a number or a tensor of one element", tag, extend.describe(value))
    end
    add_value(self, step or 0, time, {tag = tag, simple_value = number})
  end)

method('add_scalars(main_tag: string, tag_scalar_dict: table, global_step: int >= 0 = nil, walltime: number = nil)',
  'Several numbers by name in one chart; each is a separate run, in a subfolder.',
  function(self, main_tag, values, step, time)
    for _, name in ipairs(util.sorted_keys(values)) do
      local folder = self.log_dir .. '/' .. main_tag:gsub('/', '_') .. '_' .. tostring(name)
      self.inner[folder] = self.inner[folder] or new(folder, self.options)
      self.inner[folder]:add_scalar(main_tag, values[name], step, time)
    end
  end)

-- Histograms --------------------------------------------------------------------------------------

local edges -- as in PyTorch: from 1e-12 to 1e20, each 1.1 times the last, of both signs, and 0

local function default_edges()
  if edges then return edges end
  local list, v = {0}, 1e-12
  while v < 1e20 do
    list[#list + 1], list[#list + 2] = v, -v
    v = v * 1.1
  end
  table.sort(list)
  edges = mt.tensor(list, {dtype = 'float64', device = 'cpu'})
  return edges
end

--- Counts the sorted values between the limits, without empty bins at both ends, as in PyTorch.
local function buckets(values, limits)
  local counts, ends = values:histogram(limits)
  counts, ends = counts:tolist(), ends:tolist()
  local first, last
  for i, n in ipairs(counts) do
    if n > 0 then first, last = first or i, i end
  end
  first, last = first or 1, last or 1
  local out = {limits = {ends[first]}, counts = {first > 1 and counts[first - 1] or 0}}
  for i = first, last do
    out.limits[#out.limits + 1], out.counts[#out.counts + 1] = ends[i + 1], counts[i]
  end
  return out
end

local function flat_double(values)
  local x = mt.is_tensor(values) and values:detach():cpu():double() or mt.tensor(values, {dtype = 'float64'})
  return (x:reshape(-1))
end

method('add_histogram(tag: string, values: any, global_step: int >= 0 = nil, bins: any = nil, walltime: number = nil)',
  'The distribution of the values of a tensor or a list. bins: their number, or a tensor or list of edges; by ' ..
    'default those of TensorBoard.',
  function(self, tag, values, step, bins, time)
    extend.check(mt.is_tensor(values) or type(values) == 'table',
      "add_histogram: '%s' is %s, expected a tensor or a list", tag, extend.describe(values))
    local x = flat_double(values)
    local finite = x:isfinite()
    if not finite:all() then x = x[finite] end
    if x:numel() == 0 then extend.fail("add_histogram: '%s' has no finite value", tag) end
    local limits = bins == nil and default_edges() or type(bins) == 'number' and bins or flat_double(bins)
    local parts = buckets(x, limits)
    add_value(self, step, time, {tag = tag, histogram = {
      min = x:min():item(), max = x:max():item(), num = x:numel(), sum = x:sum():item(),
      sum_squares = (x * x):sum():item(), bucket_limit = parts.limits, bucket = parts.counts,
    }})
  end)

-- Images ------------------------------------------------------------------------------------------

--- Converts an image to [h x w x channels]; `layout` has the letters of its dimensions, as 'CHW'.
local function to_hwc(x, layout)
  local order = util.tabulate(#layout, function(i) return layout:upper():find(('HWC'):sub(i, i), 1, true) or 0 end)
  extend.check(#layout >= 2 and #layout <= 3 and not util.set(order)[0],
    "add_image: dataformats is '%s', expected the letters of 'HWC' or 'HW'", layout)
  extend.check(x:dim() == #layout,
    "add_image: the image is %s, expected %d dimensions for dataformats='%s'", x.shape, #layout, layout)
  x = x:permute(order)
  return #layout == 2 and x:unsqueeze(3) or x
end

method('add_image(tag: string, img_tensor: any, global_step: int >= 0 = nil, walltime: number = nil, ' ..
  "dataformats: string = 'CHW')",
  'An image [channels x height x width], or in another layout (dataformats: CHW HWC HW): uint8, or floats from 0 to 1.',
  function(self, tag, x, step, time, dataformats)
    x = to_hwc(mt.is_tensor(x) and x:detach():cpu() or mt.tensor(x), dataformats)
    local h, w, channels = unpack(x.shape)
    extend.check(h * w ~= 0 and (channels == 1 or channels == 3 or channels == 4),
      "add_image: '%s' is %d x %d with %d channels, expected 1, 3 or 4 channels", tag, h, w, channels)
    if x.dtype ~= 'uint8' then x = (x:float() * 255):nan_to_num(0):clamp(0, 255):byte() end
    add_value(self, step, time, {tag = tag, image = {height = h, width = w, colorspace = channels,
      encoded = extend.encode_png(x:permute(3, 1, 2):contiguous())}})
  end)

-- Texts -------------------------------------------------------------------------------------------

method('add_text(tag: string, text_string: string, global_step: int >= 0 = nil, walltime: number = nil)',
  'A text, in Markdown.',
  function(self, tag, text, step, time)
    add_value(self, step, time, {tag = tag .. '/text_summary', metadata = {plugin_data = {plugin_name = 'text'}},
      tensor = {dtype = 7, shape = {dim = {{size = 1}}}, string_val = {text}}})
  end)

-- Ending ------------------------------------------------------------------------------------------

method('flush()', 'Writes the buffered events.', function(self)
  if self.file then write_out(self) end
  for _, inner in pairs(self.inner) do inner:flush() end
end)

method('close()', 'Writes the buffered events and closes the file.', function(self)
  for _, inner in pairs(self.inner) do inner:close() end
  self.inner = {}
  if not self.file then return end
  local file = self.file
  write_out(self)
  self.file = nil
  file:close()
end)

method('get_logdir()', 'The folder.', function(self) return self.log_dir end)

local SummaryWriter = extend.declare("SummaryWriter(log_dir: string = nil, comment: string = '', " ..
  "purge_step: int >= 0 = nil, max_queue: int >= 0 = 10, flush_secs: number >= 0 = 120, filename_suffix: string = '')",
  'Writes event files for TensorBoard into a folder (runs/DATE_HOST without log_dir): w:add_scalar(tag, value, ' ..
    'step), add_scalars add_histogram add_image add_text, w:flush(), w:close(). Up to ' ..
    'max_queue events are buffered; they are written after flush_secs, and at the end. Events from purge_step on of ' ..
    'an earlier run in that folder are hidden.',
  function(log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix)
    local self = new(log_dir or 'runs/' .. os.date('%b%d_%H-%M-%S_') .. host_name() .. comment,
      {max_queue = max_queue, flush_secs = flush_secs, filename_suffix = filename_suffix})
    if purge_step then
      add(self, purge_step, nil, {session_log = {status = 1}})
      write_out(self)
    end
    return self
  end)

return {SummaryWriter = SummaryWriter, methods = Writer.__methods, Writer = Writer,
  crc32c = crc32c, record = record}
