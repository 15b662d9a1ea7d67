-- test_download.lua -- mt.data.download, mnist and cifar10 with a web server on the loopback; generated digits; folders
local mt = require 'mtorch'
local t = require 'testing'
local core = require 'mtorch.core'
local ffi = require 'ffi'
local data = mt.data
local parts = core.formats()

ffi.cdef 'int usleep(unsigned);'
local program = -1 -- the name before its options
while arg[program - 1] do program = program - 1 end
program = arg[program]

-- Downloads need libcurl and libcrypto, which a bare machine may lack.
local scratch = os.tmpname()
for _, try in ipairs {function() parts.digest('md5', '') end,
  function() data.download('http://127.0.0.1:1/x', scratch) end} do
  local _, reason = pcall(try)
  os.remove(scratch)
  os.remove(scratch .. '.part')
  if reason and tostring(reason):find 'cannot be loaded' then
    print('skipped: ' .. reason)
    os.exit(0)
  end
end

local folder = os.tmpname()
os.remove(folder)
assert(os.execute('mkdir -p ' .. folder .. '/web ' .. folder .. '/to'))
local write = t.write_file
local function read(path)
  local file = io.open(path, 'rb')
  local text = file and file:read '*a'
  if file then file:close() end
  return text
end
local here = debug.getinfo(1, 'S').source:match '^@(.*)/lua/[^/]*$'
assert(io.open(here .. '/program/http_server.lua')):close()
os.execute(('%s %s/program/http_server.lua %s/web >%s/server.log 2>&1 &'):format(program, here, folder, folder))
local port
for _ = 1, 1000 do
  port = read(folder .. '/web/port')
  if port then break else ffi.C.usleep(10000) end
end
if not port then
  print('skipped: no server could be started on the loopback: ' .. (read(folder .. '/server.log') or ''))
  os.exit(0)
end
local web = 'http://127.0.0.1:' .. port .. '/'
local function requests()
  local lines = {}
  for line in (read(folder .. '/web/log') or ''):gmatch '[^\n]+' do lines[#lines + 1] = line end
  os.remove(folder .. '/web/log')
  return lines
end

local bytes = {}
for i = 1, 30000 do bytes[i] = string.char((i * i + i) % 251) end
bytes = table.concat(bytes)
write(folder .. '/web/file', bytes)
local good = parts.digest('sha256', bytes)
local to = folder .. '/to/file'
local function clean() os.remove(to) os.remove(to .. '.part') end

t.test('digests are those of the standards', function()
  t.eq(parts.digest('sha256', 'abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
  t.eq(parts.digest('md5', 'abc'), '900150983cd24fb0d6963f7d28e17f72')
end)

t.test('a file is downloaded completely, with its checksum', function()
  t.eq(data.download(web .. 'file', to, {sha256 = good}), to)
  t.eq({read(to) == bytes, read(to .. '.part')}, {true, nil})
  data.download(web .. 'file', to, {md5 = parts.digest('md5', bytes):upper()})
  t.eq(requests(), {'/file', '/file'})
end)

t.test('what was cut off is gone on with', function()
  clean()
  t.raises(function() data.download(web .. 'cut/file', to, {sha256 = good}) end,
    'test_download.lua:%d+: download: http://127.*/cut/file: ')
  t.eq({read(to), #read(to .. '.part')}, {nil, 15000})
  data.download(web .. 'file', to, {sha256 = good})
  t.eq({read(to) == bytes, read(to .. '.part')}, {true, nil})
  t.eq(requests(), {'/cut/file', '/file from 15000'})
end)

t.test('a part that cannot be gone on with is fetched again', function()
  clean()
  write(to .. '.part', bytes:sub(1, 100)) -- the server does not support ranges
  data.download(web .. 'plain/file', to, {sha256 = good})
  t.eq({read(to) == bytes, requests()}, {true, {'/plain/file from 100', '/plain/file'}})
  clean()
  write(to .. '.part', ('x'):rep(200)) -- of another file
  data.download(web .. 'file', to, {sha256 = good})
  t.eq({read(to) == bytes, requests()}, {true, {'/file from 200', '/file'}})
  clean()
  write(to .. '.part', bytes .. 'more')
  data.download(web .. 'file', to, {sha256 = good})
  t.eq({read(to) == bytes, requests()}, {true, {'/file from 30004', '/file'}})
  clean()
  write(to .. '.part', bytes) -- already complete
  data.download(web .. 'file', to, {sha256 = good})
  t.eq({read(to) == bytes, requests()}, {true, {'/file from 30000'}})
end)

t.test('an error is one sentence, and the old file is kept', function()
  clean()
  write(to, 'old')
  local wrong = ('0'):rep(64)
  t.raises(function() data.download(web .. 'file', to, {sha256 = wrong}) end,
    '/file: its sha256 is ' .. good .. ', ' .. wrong .. ' was expected')
  t.raises(function() data.download(web .. 'none', to) end, 'none: .*404')
  t.raises(function() data.download('http://127.0.0.1:1/x', to) end, 'download: http://127.0.0.1:1/x: ')
  t.raises(function() data.download('file:///etc/passwd', to) end, "'file:///etc/passwd' must begin with http")
  t.raises(function() data.download(web .. 'file', '/nowhere/file') end, "there is no folder '/nowhere'")
  t.raises(function() parts.download(web .. 'file', to, '', '', false, 20000) end, 'longer than 20000 bytes')
  t.eq(read(to), 'old')
  clean()
  requests()
end)

-- ---- MNIST ---------------------------------------------------------------------------------------

--- Runs code; returns its stderr and its results.
local function said(code)
  local script = write(folder .. '/script.lua', "local mt = require 'mtorch'\n" .. code)
  local pipe = io.popen(("XDG_CACHE_HOME='%s/cache' %s %s 2>&1"):format(folder, program, script))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

local function number(v) return string.char(0, 0, math.floor(v / 256), v % 256) end
local function images(n)
  local rows = {}
  for i = 1, n do rows[i] = string.char(i % 256):rep(784) end
  return '\0\0\8\3' .. number(n) .. number(28) .. number(28) .. table.concat(rows)
end
local function labels(n)
  local rows = {}
  for i = 1, n do rows[i] = string.char(i % 10) end
  return '\0\0\8\1' .. number(n) .. table.concat(rows)
end

t.test('mnist: the files of a folder', function()
  local root = folder .. '/mnist'
  os.execute('mkdir -p ' .. root .. '/MNIST/raw')
  write(root .. '/t10k-images-idx3-ubyte', images(50))
  write(root .. '/t10k-labels-idx1-ubyte', labels(50))
  local text = said(([[local a, b = mt.data.mnist{root = '%s'} print(a:size(), b:size(), b.y:at(1), b.x.shape,
    a.x.dtype, a.y.dtype)]]):format(root))
  t.eq(text:match '40\t.*$', '40\t10\t2\t(10, 1, 28, 28)\tfloat32\tint64\n')
  assert(text:find("mnist: '" .. root ..
    "' has the 50 test images only; the first 40 train, the last 10 test\n", 1, true))
  write(root .. '/MNIST/raw/train-images-idx3-ubyte', images(120))
  write(root .. '/MNIST/raw/train-labels-idx1-ubyte', labels(120))
  os.execute('gzip -f ' .. root .. '/MNIST/raw/*')
  local train, test = data.mnist{root = root}
  t.eq({train:size(), test:size(), tostring(train.x.shape)}, {120, 50, '(120, 1, 28, 28)'})
  local x, y = train:get(120)
  t.near(x:mean():item(), 120 / 255, 1e-6)
  t.eq({y:item(), train.y:tolist()[9], tostring(train)},
    {1, 10, 'TensorDataset(120 examples of (1, 28, 28) float32, () int64)'})
  write(root .. '/t10k-labels-idx1-ubyte', labels(49))
  t.raises(function() return (data.mnist{root = root}) end, 'not images and as many labels: %(50, 28, 28%)')
  write(root .. '/t10k-labels-idx1-ubyte', labels(49) .. '\10')
  t.raises(function() return (data.mnist{root = root}) end, 'not a valid IDX file')
  write(root .. '/t10k-labels-idx1-ubyte', '\0\0\8\1' .. number(50) .. ('\10'):rep(50))
  t.raises(function() return (data.mnist{root = root}) end, 'has the label 10; labels are 0 to 9')
end)

t.test('mnist: without files generated digits are used, with a message', function()
  local text = said "local a, b = mt.data.mnist() print(a:size(), b:size())"
  t.eq(text:match '8000\t2000', '8000\t2000')
  t.eq(text:match "mnist: '[^\n]*\n", ("mnist: '%s/cache/mtorch/mnist' has no train-images-idx3-ubyte(.gz); drawn " ..
    "digits take their place (download=true fetches the real ones)\n"):format(folder))
  t.raises(function() return (data.mnist{root = '/nowhere'}) end, "there is no folder '/nowhere'")
end)

t.test('mnist: the sentence where nothing can be fetched names files and folder', function()
  local root = folder .. '/fetched'
  t.raises(function() return (data.fashion_mnist{root = root, download = 'http://127.0.0.1:1'}) end,
    'fashion_mnist: train%-images%-idx3%-ubyte.gz, .*t10k%-labels%-idx1%-ubyte.gz cannot be fetched ' ..
    "%(http://127.0.0.1:1/train%-images%-idx3%-ubyte.gz: .*%); put them into '" .. root)
  write(folder .. '/web/train-images-idx3-ubyte.gz', 'something else')
  t.raises(function() return (data.mnist{root = root, download = web}) end, 'its md5 is .* was expected')
  t.eq(read(root .. '/train-images-idx3-ubyte.gz'), nil)
end)

-- ---- CIFAR-10 --------------------------------------------------------------------------------------------

--- n records of a label and the pixels label * 10, label * 10 + 1, .., modulo 256.
local function batch(n, first)
  local rows = {}
  for i = 1, n do
    local pixels = {}
    for k = 0, 3071 do pixels[k + 1] = string.char((i * 10 + k) % 256) end
    rows[i] = string.char((first + i) % 10) .. table.concat(pixels)
  end
  return table.concat(rows)
end
local function cifar_files(base)
  os.execute('mkdir -p ' .. base)
  for i = 1, 5 do write(('%s/data_batch_%d.bin'):format(base, i), batch(4, i)) end
  write(base .. '/test_batch.bin', batch(3, 0))
end

t.test('cifar10: the files of a folder, and of the archive', function()
  local root = folder .. '/cifar'
  cifar_files(root .. '/cifar-10-batches-bin')
  local function check()
    local train, test = data.cifar10(root)
    t.eq({train:size(), test:size(), tostring(train.x.shape), train.x.dtype, train.y.dtype},
      {20, 3, '(20, 3, 32, 32)', 'float32', 'int64'})
    t.eq({test.y:tolist(), test.classes[2], train.y:at(5)}, {{2, 3, 4}, 'automobile', 4})
    t.near(test.x:at(1, 2, 3, 4), (10 + 1024 + 2 * 32 + 3) % 256 / 255)
    local bytes_only, none = data.cifar10{root = root, train = false, dtype = 'uint8'}
    t.eq({none, bytes_only.x.dtype, bytes_only.x:at(1, 2, 3, 4)}, {nil, 'uint8', (10 + 1024 + 2 * 32 + 3) % 256})
    local moved = data.cifar10{root = root, train = true, transform = function(x) return x + 1 end}
    assert(moved:get(1):min():item() >= 1)
  end
  check()
  for _, place in ipairs{mt, data} do
    t.raises(function() return place.CIFAR10 end, "has no 'CIFAR10'; mt.data.cifar10{root=, download=, train=}")
  end
  t.eq(data.cifar10{root = root, train = true, download = 'none'}:size(), 20) -- nothing is missing
  assert(os.execute(('cd %s && tar -czf cifar-10-binary.tar.gz cifar-10-batches-bin && rm -r cifar-10-batches-bin')
    :format(root)) == 0)
  check()
end)

t.test('cifar10: damaged files and wrong folders', function()
  local root = folder .. '/damaged'
  local archive = root .. '/cifar-10-binary.tar.gz'
  local function wrong(text) t.raises(function() return (data.cifar10(root)) end, text) end
  wrong("cifar10: there is no folder '")
  cifar_files(root)
  write(root .. '/data_batch_3.bin', batch(4, 0):sub(1, -2))
  wrong("data_batch_3.bin' has 12291 bytes; 3073 for each picture are expected")
  write(root .. '/data_batch_3.bin', '')
  wrong("data_batch_3.bin' has 0 bytes")
  write(root .. '/data_batch_3.bin', '\10' .. batch(4, 0):sub(2))
  wrong("data_batch_3.bin' has the label 10; labels are 0 to 9")
  os.remove(root .. '/data_batch_3.bin')
  wrong("has neither data_batch_1.bin, .* nor cifar%-10%-binary.tar.gz; download=true fetches the archive")
  os.execute(('cd %s && tar -cf whole.tar data_batch_2.bin test_batch.bin'):format(root))
  write(archive, read(root .. '/whole.tar'))
  wrong("cifar%-10%-binary.tar.gz' has no data_batch_1.bin")
  cifar_files(root)
  os.execute(('cd %s && tar -cf whole.tar data_batch_*.bin'):format(root))
  local whole = read(root .. '/whole.tar')
  os.remove(root .. '/data_batch_3.bin')
  write(archive, whole)
  t.eq(data.cifar10{root = root, train = true}:size(), 20)
  write(archive, whole:sub(1, 5000))
  wrong("cifar%-10%-binary.tar.gz' ends inside of the string 'data_batch_1.bin'")
  write(archive, 'x' .. whole:sub(2))
  wrong("is not a tar archive: the header at byte 0 is wrong")
  write(archive, ('7'):rep(600))
  wrong('is not a tar archive')
  os.execute(('cd %s && tar -czf cifar-10-binary.tar.gz test_batch.bin'):format(root))
  write(archive, read(archive):sub(1, 300))
  wrong "cifar10: .*cifar%-10%-binary.tar.gz'"
  os.remove(archive)
  t.raises(function() return (data.cifar10{root = root, download = 'none'}) end,
    "cannot be fetched %('none/cifar%-10%-binary.tar.gz' must begin with http:// or https://%); put it into")
  write(folder .. '/web/cifar-10-binary.tar.gz', 'something else')
  t.raises(function() return (data.cifar10{root = root, download = web}) end, 'its md5 is .* was expected')
end)

t.test('digits: shape, range, classes, the same with the same seed', function()
  local set = data.digits(300, {seed = 7})
  t.eq({tostring(set.x.shape), set.x.dtype, set.y.dtype, set:size()}, {'(300, 1, 28, 28)', 'float32', 'int64', 300})
  t.eq({set.x:min():item(), set.x:max():item() <= 1, set.y:min():item(), set.y:max():item()}, {0, true, 1, 10})
  assert(mt.equal(data.digits(300, {seed = 7}).x, set.x))
  assert(not mt.equal(data.digits(300, {seed = 8}).x, set.x))
  mt.manual_seed(3)
  local one = data.digits(20).x
  mt.manual_seed(3)
  assert(mt.equal(data.digits(20).x, one))
  local ink = set.x:mean():item()
  assert(ink > 0.07 and ink < 0.16, ink) -- MNIST's is 0.13
end)

t.test('digits can be classified, but not all by the nearest mean', function()
  local train, test = data.digits(1000, {seed = 1}), data.digits(300, {seed = 2})
  local means = {}
  for k = 1, 10 do means[k] = train.x:view(-1, 784)[train.y:eq(k)]:mean(1) end
  local nearest = mt.cdist(test.x:view(-1, 784), mt.stack(means)):argmin(2)
  local right = nearest:eq(test.y):float():mean():item()
  assert(right > 0.6 and right < 0.97, right)
end)

-- ---- folders of images ---------------------------------------------------------------------------

t.test('folder: classes are folders, in order', function()
  local root = folder .. '/images'
  os.execute(('mkdir -p %s/cat/more %s/Bird %s/dog'):format(root, root, root))
  local function image(path, v) data.save_image(root .. '/' .. path, mt.full({2, 3}, v / 255)) end
  image('cat/b.png', 2) image('cat/a.PNG', 1) image('cat/more/c.jpg', 90) image('dog/x.jpeg', 200)
  image('Bird/z.png', 7)
  write(root .. '/cat/notes.txt', 'no image')
  write(root .. '/list.txt', 'no class')
  local set = data.folder(root)
  t.eq({set.classes, set.class_to_idx, set:size(), #set}, {{'Bird', 'cat', 'dog'}, {Bird = 1, cat = 2, dog = 3}, 5, 5})
  local values, targets = {}, {}
  for i = 1, 5 do
    local x, y = set:get(i)
    t.eq({tostring(x.shape), x.dtype}, {'(1, 2, 3)', 'uint8'})
    values[i], targets[i] = x:at(1, 1, 1), y:item()
  end
  t.eq({values, targets, set.y:tolist()}, {{7, 1, 2, 90, 200}, {1, 2, 2, 2, 3}, {1, 2, 2, 2, 3}})
  local x, y = set:get_batch(mt.tensor({5, 1, 3}, {dtype = 'int64'}))
  t.eq({tostring(x.shape), x[{{}, 1, 1, 1}]:tolist(), y:tolist()}, {'(3, 1, 2, 3)', {200, 7, 2}, {3, 1, 2}})
  local seen = {}
  for batch, label in data.DataLoader(set, {batch_size = 2}):iter() do seen[#seen + 1] = #batch .. label.dtype end
  t.eq(seen, {'2int64', '2int64', '1int64'})
  local changed = data.folder(root, {transform = function(image) return image:float() / 255 end, channels = 3})
  local first = changed:get(5)
  t.eq({tostring(first.shape), first.dtype}, {'(3, 2, 3)', 'float32'})
  t.eq(data.DataLoader(changed, {batch_size = 5}):iter()().dtype, 'float32')
  local other = data.folder(root, {target_transform = function(y) return y:float() / 2 end})
  t.eq({select(2, other:get(1)):item(), select(2, data.DataLoader(other, {batch_size = 2}):iter()()):tolist()},
    {0.5, {0.5, 1}})
  t.raises(function() set:get(6) end, 'position 6 is outside 1..5')
  t.raises(function() data.folder(root .. '/dog') end, 'has no folders; each class has one')
  t.raises(function() data.folder '/nowhere' end, "folder: cannot read the folder '/nowhere': No such file")
  data.save_image(root .. '/dog/y.png', mt.zeros(4, 4))
  set = data.folder(root)
  t.raises(function() return (set:get_batch(mt.tensor({1, 6}, {dtype = 'int64'}))) end,
    'a transform can bring them to one size')
  os.execute('mkdir ' .. root .. '/empty')
  t.raises(function() data.folder(root) end, "empty' has no .png, .jpg or .jpeg")
end)

pcall(parts.download, web .. 'quit', to, '', '', false, 1)
os.execute('rm -rf ' .. folder)
t.finish()
