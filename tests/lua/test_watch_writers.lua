-- test_watch_writers.lua -- tests of mt.SummaryWriter (read here and by TensorBoard) and of mt.JsonLines
local ffi = require 'ffi'
local bit = require 'bit'
local mt = require 'mtorch'
local core = require 'mtorch.core'
local t = require 'testing'
local events = require 'mtorch.extras.tensorboard'
local fields, read = require('protobuf_fields').fields, t.read_file
local python = os.getenv 'MTORCH_PEER_PYTHON'
local folder = os.tmpname()
os.remove(folder)

--- Returns the event files in a folder.
local function listed(dir)
  local pipe, list = io.popen(('ls "%s"/events.* 2>/dev/null'):format(dir)), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

--- Returns the events of a file; asserts that lengths and checksums are right.
local function events_of(path)
  local text, at, list = read(path), 1, {}
  while at <= #text do
    local n = ffi.cast('uint32_t *', ffi.cast('const char *', text) + at - 1)[0]
    local data = text:sub(at + 12, at + 11 + n)
    t.eq(text:sub(at, at + 15 + n), events.record(data))
    list[#list + 1], at = fields(data), at + 16 + n
  end
  return list
end

local function doubles(text)
  local out = {}
  for i = 1, #text / 8 do out[i] = ffi.cast('double *', ffi.cast('const char *', text))[i - 1] end
  return out
end

t.test('CRC-32C: the values of RFC 3720, masked as TensorFlow does', function()
  t.eq(bit.tohex(events.crc32c(('\0'):rep(32))), '8a9136aa')
  t.eq(bit.tohex(events.crc32c(('\255'):rep(32))), '62a8ab43')
  t.eq(bit.tohex(events.crc32c('123456789')), 'e3069283')
  local record = events.record('abc')
  t.eq({#record, record:byte(1), record:sub(13, 15)}, {19, 3, 'abc'})
end)

t.test('scalars: the file as TensorBoard names it, version, tags, steps, values', function()
  local w = mt.SummaryWriter(folder .. '/a/b')
  for step = 0, 300, 100 do w:add_scalar('loss/train', 1 / (step + 1), step) end
  w:add_scalar(('long'):rep(100), mt.tensor(-2.5), 2 ^ 40, 12.5)
  w:add_scalar('nan', 0 / 0)
  w:add_scalar('named', 3, {global_step = 7})
  w:close()
  local files = listed(folder .. '/a/b')
  t.eq(#files, 1)
  assert(files[1]:match('/events%.out%.tfevents%.%d%d%d%d%d%d%d%d%d%d%.[^/]+%.%d+%.%d+$'), files[1])
  local list = events_of(files[1])
  t.eq({#list, list[1][3][1], list[1][5]}, {8, 'brain.Event:2', nil})
  assert(math.abs(list[1][1][1] - os.time()) < 100)
  local found = {}
  for i = 2, 8 do
    local value = fields(fields(list[i][5][1])[1][1])
    found[i - 1] = ('%s %d %.4g'):format(value[1][1]:sub(1, 10), list[i][2][1], value[2][1])
  end
  t.eq(found, {'loss/train 0 1', 'loss/train 100 0.009901', 'loss/train 200 0.004975', 'loss/train 300 0.003322',
    'longlonglo 1099511627776 -2.5', found[6], 'named 7 3'})
  assert(found[6]:find('nan'))
  t.eq(list[6][1][1], 12.5)
end)

t.test('what waits is written after max_queue events, at flush, when the writer is forgotten', function()
  local dir = folder .. '/queue'
  local w = mt.SummaryWriter(dir, {max_queue = 2})
  local function there() return #events_of(listed(dir)[1]) - 1 end
  w:add_scalar('a', 1, 1)
  w:add_scalar('a', 1, 2)
  t.eq(there(), 0)
  w:add_scalar('a', 1, 3)
  t.eq(there(), 3)
  w:add_scalar('a', 1, 4)
  w:flush()
  t.eq(there(), 4)
  w:add_scalar('a', 1, 5)
  w = nil -- luacheck: ignore
  collectgarbage()
  collectgarbage()
  t.eq(there(), 5)
end)

t.test('histograms: PyTorch\'s buckets', function()
  local w = mt.SummaryWriter(folder .. '/histogram')
  w:add_histogram('h', mt.tensor{-1, 0, 0.5, 0.5, 2, 0 / 0, 1 / 0}, 3)
  w:add_histogram('h', {1, 2, 3, 4}, 4, {bins = {0, 2, 10}})
  w:add_histogram('h', mt.tensor({5, 5}, {dtype = 'int64'}), 5, 4)
  w:close()
  local list = events_of(listed(folder .. '/histogram')[1])
  local function histogram(i) return fields(fields(fields(list[i][5][1])[1][1])[5][1]) end
  local h = histogram(2)
  t.eq({h[1][1], h[2][1], h[3][1], h[4][1], h[5][1]}, {-1, 2, 5, 2, 5.5})
  local limits, counts, total = doubles(h[6][1]), doubles(h[7][1]), 0
  t.eq({#limits == #counts, counts[1]}, {true, 0})
  for i, n in ipairs(counts) do
    total = total + n
    assert(i == 1 or limits[i] > limits[i - 1])
  end
  t.eq(total, 5)
  assert(limits[1] <= -1 and limits[2] > -1 and limits[#limits] >= 2 and limits[#limits - 1] <= 2)
  h = histogram(3)
  t.eq({doubles(h[6][1]), doubles(h[7][1])}, {{0, 2, 10}, {0, 1, 3}})
  t.raises(function() mt.SummaryWriter(folder .. '/x'):add_histogram('h', {0 / 0}) end, "'h' has no finite value")
end)

t.test('images, texts, several scalars', function()
  local w = mt.SummaryWriter(folder .. '/rest')
  w:add_image('rgb', mt.rand(3, 4, 6), 1)
  w:add_image('hw', mt.full({4, 6}, 200, {dtype = 'uint8'}), 1, {dataformats = 'HW'})
  w:add_text('t', 'some *text*', 2)
  w:add_scalars('losses', {train = 1, valid = 2}, 5)
  w:close()
  local list = events_of(listed(folder .. '/rest')[1])
  t.eq(#list, 4)
  local sizes = {}
  for i = 2, 3 do
    local image = fields(fields(fields(list[i][5][1])[1][1])[4][1])
    sizes[i - 1] = ('%dx%dx%d'):format(image[1][1], image[2][1], image[3][1])
    t.eq(image[4][1]:sub(1, 8), '\137PNG\r\n\26\n')
  end
  t.eq(sizes, {'4x6x3', '4x6x1'})
  t.eq(fields(fields(list[4][5][1])[1][1])[1][1], 't/text_summary')
  for _, run in ipairs{'losses_train', 'losses_valid'} do t.eq(#listed(folder .. '/rest/' .. run), 1) end
  t.raises(function() w:add_scalar('a', 1, 1) end, "SummaryWriter: '.*' is closed")
end)

t.test('errors at the user\'s line', function()
  local w = mt.SummaryWriter(folder .. '/errors')
  t.raises(function() w:add_scalar('a', 'x', 1) end,
    "test_watch_writers.lua:%d+: add_scalar: 'a' is the string 'x', expected a number or a tensor of one element")
  t.raises(function() w:add_scalar('a', mt.ones(2), 1) end, 'expected a number or a tensor of one element')
  t.raises(function() w:add_scalar(1, 2, 3) end, "add_scalar: tag must be a string, got 1")
  t.raises(function() w:add_scalar('a', 2, -3) end, 'add_scalar: global_step must be')
  t.raises(function() w.add_scalar('a', 2, 3) end, 'methods are called with a colon, w:add_scalar')
  t.raises(function() w:add_image('a', mt.ones(3, 4)) end, "expected 3 dimensions for dataformats='CHW'")
  t.raises(function() w:add_image('a', mt.ones(5, 4, 4)) end, '4 x 4 with 5 channels')
  t.raises(function() w:add_image('a', mt.ones(3, 4, 4), 1, {dataformats = 'CWX'}) end, "dataformats is 'CWX'")
  t.raises(function() mt.SummaryWriter('/proc/none') end, "SummaryWriter: cannot make the folder '/proc/none'")
  w:close()
end)

t.test('a scalar costs some microseconds', function()
  local w = mt.SummaryWriter(folder .. '/speed')
  local start = os.clock()
  for i = 1, 50000 do w:add_scalar('loss', 1 / i, i) end
  t.eq((os.clock() - start) / 50000 < 20e-6, true)
  w:close()
end)

t.test('TensorBoard reads it as PyTorch\'s own', function()
  if not python then
    print('skipped: TensorBoard reads what is written: MTORCH_PEER_PYTHON names no Python that has it')
    return
  end
  mt.manual_seed(1)
  local w = mt.SummaryWriter(folder .. '/peer')
  local x = mt.randn(1000)
  for i = 1, 50 do w:add_scalar('loss', 1 / i, i) end
  w:add_histogram('h', x, 3)
  w:add_image('img', mt.full({3, 4, 6}, 0.5), 1)
  w:add_text('t', 'some *text*', 2)
  w:close()
  core.write_file('test', folder .. '/x.json', core.json_text(x:tolist()))
  core.write_file('test', folder .. '/read.py', [[
import io, json, sys, numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
def load(path):
    e = EventAccumulator(path, size_guidance={'scalars': 0}); e.Reload(); return e
e = load(sys.argv[1] + '/peer')
s = e.Scalars('loss')
assert len(s) == 50 and all(v.step == i + 1 and abs(v.value - 1 / (i + 1)) < 1e-7 for i, v in enumerate(s))
from PIL import Image
i = Image.open(io.BytesIO(e.Images('img')[0].encoded_image_string)); i.load()
assert i.size == (6, 4) and i.getpixel((2, 2)) == (127, 127, 127), i.getpixel((2, 2))
assert e.Tensors('t/text_summary')[0].tensor_proto.string_val[0] == b'some *text*'
assert e.SummaryMetadata('t/text_summary').plugin_data.plugin_name == 'text'
from torch.utils.tensorboard import SummaryWriter, summary
w = SummaryWriter(sys.argv[1] + '/torch')
x = numpy.array(json.load(open(sys.argv[1] + '/x.json')))
h, theirs = e.Histograms('h')[0].histogram_value, summary.make_histogram(x, w.default_bins)
for name in 'min', 'max', 'num', 'sum', 'sum_squares', 'bucket_limit', 'bucket':
    assert numpy.allclose(getattr(h, name), getattr(theirs, name), rtol=1e-9, atol=0), name
print('read')
]])
  local pipe = io.popen(('"%s" "%s/read.py" "%s" 2>&1'):format(python, folder, folder))
  local said = pipe:read('*a')
  pipe:close()
  if said:find('ModuleNotFoundError', 1, true) then
    print('skipped: TensorBoard reads what is written: ' .. said:match('ModuleNotFoundError[^\n]*'))
    return
  end
  t.eq(said:match('[^\n]*\n$'), 'read\n')
end)

t.test('JSON lines', function()
  local path = folder .. '/log.jsonl'
  local log = mt.JsonLines(path)
  log:write{epoch = 1, loss = mt.tensor(0.5), name = 'a"b\n', list = mt.tensor{1, 0 / 0}, inner = {lr = 1e-3}}
  t.eq(read(path), '{"epoch":1,"inner":{"lr":0.001},"list":[1,null],"loss":0.5,"name":"a\\"b\\n"}\n')
  log:close()
  log = mt.JsonLines(path)
  log:write{done = true}
  log:write{}
  log:close()
  t.eq(read(path):match('\n(.*)$'), '{"done":true}\n{}\n')
  log = mt.JsonLines(path, {append = false})
  log:close()
  t.eq(read(path), '')
  mt.JsonLines(''):write{epoch = 1}
  mt.JsonLines():close()
  t.raises(function() log:write{1} end, "test_watch_writers.lua:%d+: JsonLines: '.*' is closed")
  log = mt.JsonLines(path)
  t.raises(function() log:write(3) end, 'write: the record is 3, expected a table')
  t.raises(function() log:write{f = print} end, 'json: .f is a function')
  t.raises(function() mt.JsonLines('/no/such/a.jsonl') end, "JsonLines: cannot write '/no/such/a.jsonl': No such file")
  local loop = {}
  loop.a = loop
  t.raises(function() log:write(loop) end, 'nested more than 100 deep')
end)

os.execute('rm -rf "' .. folder .. '"')
t.finish()
