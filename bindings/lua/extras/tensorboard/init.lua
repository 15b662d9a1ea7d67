-- init.lua -- mt.SummaryWriter: scalars, histograms, images and texts for TensorBoard
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local events = require 'mtorch.extras.tensorboard.events'
local object = extend.object

local wall_time = extend.wall_time

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

local function add(self, data)
  if not self.file then extend.fail("SummaryWriter: '%s' is closed", self.path) end
  local record, waiting = events.record(data), self.waiting
  waiting[#waiting + 1] = record
  self.bytes = self.bytes + #record
  if #waiting > self.max_queue or self.bytes > max_waiting or self.time - self.written > self.flush_secs then
    write_out(self)
  end
end

-- The time and step of an event.
local function with_time(self, step, time, fields)
  self.time = time or wall_time()
  fields.wall_time, fields.step = self.time, step
  return fields
end

local function add_value(self, step, time, value)
  add(self, events.event(with_time(self, step, time, {summary = {value = {value}}})))
end

local function new(log_dir, options)
  local self = object.new(Writer, {log_dir = log_dir, waiting = {}, bytes = 0, written = wall_time(), inner = {},
    heads = {}, max_queue = options.max_queue, flush_secs = options.flush_secs, options = options})
  extend.make_folders('SummaryWriter', log_dir)
  self.path = events.file_name(log_dir, options.filename_suffix)
  self.file = util.open_log('SummaryWriter', self.path, 'wb')
  self.file:setvbuf('no')
  self.at_end = newproxy(true) -- buffered events are written if the writer is never closed
  getmetatable(self.at_end).__gc = function() pcall(self.close, self) end
  add(self, events.event(with_time(self, nil, nil, {file_version = 'brain.Event:2'})))
  write_out(self)
  return self
end

-- Scalars -----------------------------------------------------------------------------------------

local function write_scalar(self, tag, value, step, time)
  local number = util.scalar(value)
  if type(number) ~= 'number' then
    extend.fail("add_scalar: '%s' is %s, expected a number or a tensor of one element", tag, extend.describe(value))
  end
  self.time = time or wall_time()
  local head = self.heads[tag]
  if not head then
    head = events.scalar_head(tag)
    self.heads[tag] = head
  end
  add(self, events.scalar(head, number, step or 0, self.time))
end

method('add_scalar(tag: string, scalar_value: any, global_step: int >= 0 = nil, walltime: number = nil)',
  'A number, or a tensor of one element, under a tag such as "loss/train", of a step.', write_scalar)

local checked = Writer.add_scalar

--- A fast path of the usual call without all checks.
function Writer.add_scalar(self, tag, value, step, ...)
  if type(value) == 'number' and type(step) == 'number' and step >= 0 and step < 2 ^ 53 and step % 1 == 0 and
    select('#', ...) == 0 and type(self) == 'table' and type(tag) == 'string' and getmetatable(self) == Writer then
    return write_scalar(self, tag, value, step)
  end
  return checked(self, tag, value, step, ...)
end

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
    if not mt.is_tensor(values) and type(values) ~= 'table' then
      extend.fail("add_histogram: '%s' is %s, expected a tensor or a list", tag, extend.describe(values))
    end
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

--- Returns the permutation from the layout `from`, such as 'HWC', to `to`, or nil if the letters differ.
local function permutation(from, to)
  local order = {}
  for i = 1, #to do
    order[i] = from:upper():find(to:sub(i, i), 1, true)
    if not order[i] then return nil end
  end
  return #from == #to and order or nil
end

--- Converts an image [h x w x channels] to uint8; other dtypes are from 0 to 1.
local function pixels(op, x, formats, dataformats)
  x = mt.is_tensor(x) and x:detach():cpu() or mt.tensor(x)
  for _, format in ipairs(formats) do
    local order = permutation(dataformats, format)
    if order then
      if x:dim() ~= #format then
        extend.fail("%s: the image is %s, expected %d dimensions for dataformats='%s'", op, tostring(x.shape), #format,
          dataformats)
      end
      x = x:permute(order)
      if #format == 2 then x = x:unsqueeze(3) end
      if x.dtype ~= 'uint8' then x = (x:float() * 255):nan_to_num(0):clamp(0, 255):byte() end
      return x, format
    end
  end
  extend.fail("%s: dataformats is '%s', expected the letters of '%s'", op, dataformats, table.concat(formats, "' or '"))
end

local function add_pixels(self, tag, x, step, time)
  local h, w, channels = unpack(x.shape)
  if h * w == 0 or channels ~= 1 and channels ~= 3 and channels ~= 4 then
    extend.fail("add_image: '%s' is %d x %d with %d channels, expected 1, 3 or 4 channels", tag, h, w, channels)
  end
  add_value(self, step, time, {tag = tag, image = {height = h, width = w, colorspace = channels,
    encoded = extend.encode_png(x:permute(3, 1, 2):contiguous())}})
end

method('add_image(tag: string, img_tensor: any, global_step: int >= 0 = nil, walltime: number = nil, ' ..
  "dataformats: string = 'CHW')",
  'An image [channels x height x width], or in another layout (dataformats: CHW HWC HW): uint8, or floats from 0 to 1.',
  function(self, tag, x, step, time, dataformats)
    add_pixels(self, tag, pixels('add_image', x, {'HWC', 'HW'}, dataformats), step, time)
  end)

--- Combines images [n x h x w x channels] to one with rows of eight.
local function grid(x)
  local n, h, w, channels = unpack(x.shape)
  local cols = math.min(n, 8)
  local rows = math.ceil(n / cols)
  x = x:pad{0, 0, 0, 0, 0, 0, 0, rows * cols - n}
  return x:reshape(rows, cols, h, w, channels):transpose(2, 3):reshape(rows * h, cols * w, channels)
end

method('add_images(tag: string, img_tensor: any, global_step: int >= 0 = nil, walltime: number = nil, ' ..
  "dataformats: string = 'NCHW')", 'Pictures [n x channels x height x width] side by side, in rows of eight.',
  function(self, tag, x, step, time, dataformats)
    x = pixels('add_images', x, {'NHWC'}, dataformats)
    if #x == 0 then extend.fail("add_images: '%s' has no image", tag) end
    add_pixels(self, tag, grid(x), step, time)
  end)

-- Texts, hyperparameters --------------------------------------------------------------------------

method('add_text(tag: string, text_string: string, global_step: int >= 0 = nil, walltime: number = nil)',
  'A text, in Markdown.',
  function(self, tag, text, step, time)
    add_value(self, step, time, {tag = tag .. '/text_summary', metadata = {plugin_data = {plugin_name = 'text'}},
      tensor = {dtype = 7, shape = {dim = {{size = 1}}}, string_val = {text}}})
  end)

method('add_hparams(hparam_dict: table, metric_dict: table, run_name: string = nil, global_step: int >= 0 = nil)',
  'Hyperparameters (numbers, strings, booleans by name) and the resulting metrics, as a run in a subfolder.',
  function(self, hparam_dict, metric_dict, run_name, step)
    local infos, values, metrics = {}, {}, {}
    for i, key in ipairs(util.sorted_keys(hparam_dict)) do
      local x = util.scalar(hparam_dict[key])
      local number = ({string = 1, boolean = 2, number = 3})[type(x)]
      if not number then extend.fail('add_hparams: %s is %s, expected a number, a string or a boolean', key,
        extend.describe(x)) end
      infos[i] = {name = tostring(key), type = number}
      values[i] = {key = tostring(key), value = {[({'string', 'bool', 'number'})[number]] = x}}
    end
    local names = util.sorted_keys(metric_dict)
    for i, key in ipairs(names) do metrics[i] = {name = {tag = tostring(key)}} end
    local run = new(self.log_dir .. '/' .. (run_name or ('%.6f'):format(wall_time())), self.options)
    for _, part in ipairs{{'experiment', {experiment = {hparams = infos, metrics = metrics}}},
      {'session_start_info', {start = {hparams = values}}}, {'session_end_info', {finish = {status = 1}}}} do
      add_value(run, step, nil, {tag = '_hparams_/' .. part[1],
        metadata = {plugin_data = {plugin_name = 'hparams', content = events.hparams(part[2])}}})
    end
    for _, key in ipairs(names) do run:add_scalar(tostring(key), metric_dict[key], step) end
    run:close()
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
    'step), add_scalars add_histogram add_image add_images add_text add_hparams, w:flush(), w:close(). Up to ' ..
    'max_queue events are buffered; they are written after flush_secs, and at the end. Events from purge_step on of ' ..
    'an earlier run in that folder are hidden.',
  function(log_dir, comment, purge_step, max_queue, flush_secs, filename_suffix)
    local self = new(log_dir or 'runs/' .. os.date('%b%d_%H-%M-%S_') .. events.host_name() .. comment,
      {max_queue = max_queue, flush_secs = flush_secs, filename_suffix = filename_suffix})
    if purge_step then
      add(self, events.event(with_time(self, purge_step, nil, {session_log = {status = 1}})))
      write_out(self)
    end
    return self
  end)

return {SummaryWriter = SummaryWriter, methods = Writer.__methods, Writer = Writer}
