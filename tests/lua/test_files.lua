-- test_files.lua -- files of other programs: CSV, text, images, sound; valid and invalid ones
local mt = require 'mtorch'
local t = require 'testing'
local data = mt.data
local here = debug.getinfo(1, 'S').source:match('^@(.*)/lua/[^/]*$')
local samples = dofile(here .. '/data/file_samples.lua')

local folder = os.tmpname()
os.remove(folder)
assert(os.execute('mkdir ' .. folder))
local function write(name, text) return t.write_file(folder .. '/' .. name, text) end
local bytes = t.unhex
local function gzip(path)
  os.execute('gzip -kf ' .. path)
  return path .. '.gz'
end

-- ---- CSV -----------------------------------------------------------------------------------------

t.test('csv: columns of numbers are float64 tensors, others lists', function()
  local path = write('a.csv', '\239\187\191age,name,"size, cm"\r\n31,Ann,1.75\r\n' ..
    '-4e2,"Bob ""B"" \n2",\r\n\r\n.5,, nan \r\n')
  for _, p in ipairs {path, gzip(path)} do
    local x = data.csv(p)
    t.eq(x.names, {'age', 'name', 'size, cm'})
    t.eq({x.age.dtype, x.age:tolist()}, {'float64', {31, -400, 0.5}})
    t.eq(x.name, {'Ann', 'Bob "B" \n2', ''})
    t.eq(x['size, cm']:tolist(), {1.75, 0 / 0, 0 / 0})
    t.eq({x[1]:tolist(), x[2], x[4]}, {x.age:tolist(), x.name, nil})
  end
end)

t.test('csv: codes and whole numbers that a double would round are text; text names more', function()
  local path = write('codes.csv', 'zip,id,minus,near,x,n\n00501,9007199254740993,-01,9007199254740992,0.5,1\n' ..
    '"08123",1,-2,3,"-0.25",2\n')
  local c = data.csv(path)
  t.eq({c.zip, c.id, c.minus}, {{'00501', '08123'}, {'9007199254740993', '1'}, {'-01', '-2'}})
  t.eq({c.near:tolist(), c.x:tolist(), c.n:tolist()}, {{9007199254740992, 3}, {0.5, -0.25}, {1, 2}})
  t.eq({data.csv(path, {text = {'n'}}).n, data.csv(path, {columns = {'n'}, text = {'n'}}).n}, {{'1', '2'}, {'1', '2'}})
  t.raises(function() data.csv(path, {text = {'m'}}) end, "it has no column 'm' to be text; its columns are zip, id")
  t.eq(data.csv(data.save_csv(folder .. '/back.csv', {a = {'1', '02'}})).a, {'1', '02'})
end)

t.test('json: whole numbers that a double would round are the text of their digits', function()
  local j = data.json(write('large.json', '{"a": 9007199254740993, "b": 9007199254740992, "c": -1234567890123456789,' ..
    '"d": 18446744073709551615, "e": 100000000000000000000, "f": 123456789012345678901, "g": 1e30, "h": -4}'))
  t.eq({j.a, j.b, j.c, j.d}, {'9007199254740993', 9007199254740992, '-1234567890123456789', '18446744073709551615'})
  t.eq({j.e, j.f, j.g, j.h}, {1e20, '123456789012345678901', 1e30, -4})
end)

t.test('csv: numbers are rounded as strtod does', function()
  local texts = {}
  mt.manual_seed(2)
  for _, x in ipairs(mt.randn({3000}, {dtype = 'float64'}):tolist()) do
    for _, form in ipairs {'%.17g', '%.16f', '%.5f', '%.19f', '%.25f', '%.3e'} do texts[#texts + 1] = form:format(x) end
  end
  for _, text in ipairs {'0', '-0', '9007199254740993.0', '18446744073709551615.', '100000000000000000000', '1e400',
    '-1e-400', '1.7976931348623157e308', '4.9e-324', '+1.5', '  7 ', 'inf', '-INF', '12345678', '123456789012345678.0',
    '5.', '.25'} do
    texts[#texts + 1] = text
  end
  for _ = 1, 60000 do -- random digits are sometimes near the middle of two numbers
    local random = math.random
    texts[#texts + 1] = ('0.%07d%06d%06d'):format(random(0, 9999999), random(0, 999999), random(0, 999999))
  end
  local x = data.csv(write('n.csv', 'x\n' .. table.concat(texts, '\n')))
  t.eq(#x.x, #texts)
  local values = x.x:tolist()
  for i, text in ipairs(texts) do
    local want = tonumber(text) or (text:find('-') and -1 or 1) / 0
    if values[i] ~= want then error(('%s is read as %.17g'):format(text, values[i])) end
  end
end)

t.test('csv: values that are not numbers, and missing values', function()
  local missing = {'NA', 'N/A', 'n/a', '#N/A', 'null', 'NULL', 'None', '<NA>'}
  local cells = write('missing.csv', 'a\n' .. table.concat(missing, '\n') .. '\n')
  t.eq({data.csv(cells).a:isnan():sum():item(), data.csv(cells, {text = {'a'}}).a}, {#missing, missing})
  local _, help = require('mtorch.core').entry(data.csv)
  for _, word in ipairs(missing) do assert(help:find(word, 1, true), word) end
  local x = data.csv(write('b.csv', 'a,b,c\nNA,1-2,1\nnull,3,0x10\nN/A,4,2\n'))
  t.eq(x.a:tolist(), {0 / 0, 0 / 0, 0 / 0})
  t.eq({x.b, x.c}, {{'1-2', '3', '4'}, {'1', '0x10', '2'}})
  t.eq(data.csv(write('c.csv', 'a\n'), {}).a.shape, mt.zeros(0).shape)
  t.eq(data.csv(write('c.csv', 'a\r\n1\r\n\r')).a:tolist(), {1})
  t.eq(data.csv(write('c.csv', 'a,b\r1,2\r3,4\r')).b:tolist(), {2, 4})
end)

t.test('csv: no header, chosen columns, other delimiters', function()
  local path = write('d.csv', '1;x;3\n4;y;6')
  local x = data.csv(path, {header = false, delimiter = ';'})
  t.eq({x.names, x['1']:tolist(), x[2], x['3']:tolist()}, {{'1', '2', '3'}, {1, 4}, {'x', 'y'}, {3, 6}})
  x = data.csv(path, {header = false, delimiter = ';', columns = {'a', 'b', 'c'}})
  t.eq({x.names, x.c:tolist()}, {{'a', 'b', 'c'}, {3, 6}})
  x = data.csv(path, {delimiter = ';', columns = {'3', '1'}})
  t.eq({x.names, x['3']:tolist(), x['1']:tolist(), x.x}, {{'3', '1'}, {6}, {4}, nil})
  x = data.csv(path, {delimiter = ';', header = false, columns = {3, 2}})
  t.eq({x.names, x['3']:tolist(), x[2]}, {{'3', '2'}, {3, 6}, {'x', 'y'}})
  t.raises(function() return (data.csv(path, {delimiter = ';', columns = {4}})) end,
    'it has 3 columns, column 4 is wanted')
  x = data.csv(write('q.tsv', 's\tn\n"a" b\t1\n"\t2\n'), {quotes = false})
  t.eq({x.s, x.n:tolist()}, {{'"a" b', '"'}, {1, 2}})
  x = data.csv(write('d.tsv', 'sentence\tlabel\na "quoted", line\t1\n'))
  t.eq({x.sentence, x.label:tolist()}, {{'a "quoted", line'}, {1}})
end)

t.test('csv: many lines are the same in pieces', function()
  local lines = {'i,word,x'}
  for i = 1, 200000 do lines[i + 1] = ('%d,w%d,%.3f'):format(i, i % 7, i / 8) .. (i % 1000 == 0 and '\n' or '') end
  local x = data.csv(write('long.csv', table.concat(lines, '\n')))
  t.eq({#x.i, #x.word, x.i[77777]:item(), x.word[77777], x.x[77777]:item()}, {200000, 200000, 77777, 'w0', 9722.125})
  assert(mt.equal(x.i, mt.range(1, 200000):double()))
  lines[150001] = '1,2'
  t.raises(function() return (data.csv(write('long.csv', table.concat(lines, '\n')))) end,
    "test_files.lua:%d+: csv: '.*long.csv': line 150150: it ends at column 2, the first line at column 3")
end)

t.test('csv: errors name line and column', function()
  local function refused(text, pattern, options)
    t.raises(function() return (data.csv(write('bad.csv', text), options)) end, pattern)
  end
  refused('', 'it has no header')
  refused('\n\n', 'it has no header')
  refused('a,b\n1,2\n3\n', 'line 3: it ends at column 1, the first line at column 2')
  refused('a,b\n1,2,3\n', 'line 2: it ends at column 3, the first line at column 2')
  refused('a,b\n1,"x\n2\n', 'line 2, column 2: the quote that begins the cell is not closed')
  refused('a,b\n1,"x"y\n', 'line 2, column 2: text follows the closing quote')
  refused('a,b,a\n', "line 1, column 3: duplicate column name 'a'")
  refused('\255\254a\0', 'UTF%-16')
  refused('a,b\n', "no column 'c'; its columns are a, b", {columns = {'c'}})
  refused('a,b\n', "the column 'a' was requested twice", {columns = {'a', 'a'}})
  refused('a,b\n', 'it has 2 columns, 1 names were given', {columns = {'a'}, header = false})
  refused('a,b\n', 'delimiter must be one character', {delimiter = ', '})
  refused('a.b\n1.2', 'no quote, digit, point', {delimiter = '.'})
  t.raises(function() return (data.csv(folder .. '/none.csv')) end, "csv: cannot read '.*none.csv': No such file")
end)

t.test('text: all of a large packed file', function()
  for _, n in ipairs {2 ^ 18, 2 ^ 19, 2 ^ 20 + 1, 5000000} do
    local text = ('0123456789abcdef'):rep(n / 16)
    t.eq(data.text(gzip(write('large.txt', text))) == text, true)
  end
end)

t.test('text', function()
  local path = write('t.txt', 'one\r\ntwo\0\255')
  t.eq(data.text(path), 'one\r\ntwo\0\255')
  t.eq(data.text(gzip(path)), 'one\r\ntwo\0\255')
  t.raises(function() return (data.text(folder)) end, 'is not a regular file')
end)

t.test('json', function()
  local path = write('a.json', '{"a": [1, 2.5, {"b": "\\u00e9"}], "n": null, "t": true}')
  t.eq(data.json(path), {a = {1, 2.5, {b = 'é'}}, t = true})
  t.eq(data.json(gzip(path), {null = false}).n, false)
  t.raises(function() return (data.json(write('b.json', '{"a": 1,\n]'))) end,
    "test_files.lua:%d+: json: '.*b.json': line 2")
  for _, text in ipairs{'123\0', '{"a": 1}\0 2', '[1, \0 2]'} do
    t.raises(function() return (data.json(write('z.json', text))) end, "json: '.*z.json': ")
  end
end)

t.test('save_json and save_csv: what was written is read again', function()
  local value = {a = {1, 2.5, {b = 'é"\n'}}, t = true, e = 1e-300}
  t.eq(data.json(data.save_json(folder .. '/s.json', value)), value)
  t.raises(function() data.save_json(folder .. '/s.json', {a = 0 / 0}) end, 'json: .?a is nan')
  t.eq(data.json(folder .. '/s.json'), value)
  local x = mt.randn({50}, {dtype = 'float64'})
  x[3], x[4], x[5] = 0 / 0, 1 / 0, -1 / 0
  local words = {}
  for i = 1, 50 do words[i] = ({'plain', 'a, b', 'say "x"', 'two\nlines', ' spaces ', ''})[i % 6 + 1] end
  for _, delimiter in ipairs {',', ';', '\t'} do
    local path = data.save_csv(folder .. '/s.csv', {x = x, words = words, n = mt.range(1, 50),
      names = {'words', 'x', 'n'}}, {delimiter = delimiter})
    local back = data.csv(path, {delimiter = delimiter})
    t.eq({back.names, back.words, back.n:tolist()[50]}, {{'words', 'x', 'n'}, words, 50})
    t.eq(back.x:tolist(), x:tolist())
    local large = mt.tensor({2 ^ 53, -2 ^ 53, 7}, 'int64') * mt.tensor({2, 2, 1}, 'int64') + 1
    data.save_csv(folder .. '/l.csv', {n = large}, {delimiter = delimiter})
    t.eq(data.text(folder .. '/l.csv'), 'n\n18014398509481985\n-18014398509481983\n8\n')
  end
  t.eq(data.text(data.save_csv(folder .. '/s.csv', {b = {1}, a = {'x'}})), 'a,b\nx,1\n')
  local gaps = data.csv(data.save_csv(folder .. '/gaps.csv', {a = mt.tensor{1, 0 / 0, 3, 0 / 0}})).a
  t.eq({gaps:numel(), gaps[1]:item(), gaps[2]:isnan():item(), gaps[3]:item(), gaps[4]:isnan():item()},
    {4, 1, true, 3, true})
  t.eq(data.csv(data.save_csv(folder .. '/t.csv', data.csv(folder .. '/s.csv'))).b:tolist(), {1})
  local named = data.csv(data.save_csv(folder .. '/n.csv', {names = {'names', 'a'}, {'x', 'y'}, a = {1, 2}}))
  t.eq(data.text(data.save_csv(folder .. '/n.csv', named)), 'names,a\nx,1\ny,2\n')
  for _, odd in ipairs{{{1}}, {print}, {1, nil, mt.tensor(3)}, {mt.ones(2)}} do
    t.raises(function() data.save_csv(folder .. '/s.csv', {a = odd}) end, 'save_csv: cells are numbers, texts')
  end
  t.eq(data.text(data.save_csv(folder .. '/s.csv', {a = {mt.tensor(0.5), true}})), 'a\n0.5\ntrue\n')
  t.raises(function() data.save_csv(folder .. '/s.csv', {a = {1, 2}, b = {1}}) end,
    "save_csv: 'b' must be a list or a tensor %[n%] as long as the first column")
  t.raises(function() data.save_csv(folder .. '/s.csv', {a = mt.zeros(2, 2)}) end, "'a' must be a list or a tensor")
end)

-- ---- images --------------------------------------------------------------------------------------

for name, sample in pairs(samples.pictures) do
  t.test("image: Pillow's " .. name, function()
    local path = write(name, bytes(sample.file))
    local want = mt.frombuffer(bytes(sample.pixels), {dtype = 'uint8', shape = sample.shape})
    local x = data.image(path)
    t.eq({x.dtype, tostring(x.shape)}, {'uint8', tostring(want.shape)})
    assert(mt.equal(x, want), tostring((x:float() - want:float()):abs():max():item()))
    assert(mt.equal(data.image(gzip(path)), want))
  end)
end

t.test('image: channels convert', function()
  local path = write('rgba.png', bytes(samples.pictures['rgba.png'].file))
  local x = data.image(path)
  local gray = data.image(path, {channels = 1})
  assert(mt.equal(data.image(path, 3), x[{{1, 3}}]))
  local want = (x[1]:float() * 0.299 + x[2]:float() * 0.587 + x[3]:float() * 0.114):round()
  assert((gray[1]:float() - want):abs():max():item() <= 1)
  local both = data.image(path, 2)
  t.eq({mt.equal(both[1], gray[1]), mt.equal(both[2], x[4])}, {true, true})
  local rgb = data.image(write('gray.png', bytes(samples.pictures['gray.png'].file)), 4)
  t.eq({mt.equal(rgb[1], rgb[3]), rgb[4]:min():item()}, {true, 255})
  t.raises(function() return (data.image(path, 5)) end, 'channels must be a whole number from 1 to 4')
end)

--- A PNG whose samples are sample(x, y, channel), in stored blocks: of a colour type and depth, interlaced or not, with
--- more chunks before the pixels.
local function png(width, height, kind, depth, interlaced, sample, more)
  local function big(v) return string.char(bit.band(bit.rshift(v, 24), 255), bit.band(bit.rshift(v, 16), 255),
    bit.band(bit.rshift(v, 8), 255), bit.band(v, 255)) end
  local function chunk(name, content)
    local crc = -1
    for c in (name .. content):gmatch '.' do
      crc = bit.bxor(crc, c:byte())
      for _ = 1, 8 do crc = bit.bxor(bit.rshift(crc, 1), bit.band(crc, 1) == 1 and 0xedb88320 or 0) end
    end
    return big(#content) .. name .. content .. big(bit.bnot(crc))
  end
  local passes = interlaced and {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2},
    {0, 1, 1, 2}} or {{0, 0, 1, 1}}
  local channels, rows = ({[0] = 1, [2] = 3, [4] = 2, [6] = 4})[kind], {}
  for _, pass in ipairs(passes) do
    for y = pass[2], height - 1, pass[4] do
      local row = {}
      for x = pass[1], width - 1, pass[3] do
        for c = 1, channels do
          local v = sample(x, y, c)
          row[#row + 1] = depth == 16 and string.char(math.floor(v / 256), v % 256) or string.char(v)
        end
      end
      if #row > 0 then rows[#rows + 1] = '\0' .. table.concat(row) end
    end
  end
  local raw, a, b = table.concat(rows), 1, 0
  for c in raw:gmatch '.' do
    a = (a + c:byte()) % 65521
    b = (b + a) % 65521
  end
  local n = #raw
  local length = string.char(n % 256, math.floor(n / 256), 255 - n % 256, 255 - math.floor(n / 256))
  local header = big(width) .. big(height) .. string.char(depth, kind, 0, 0, interlaced and 1 or 0)
  return '\137PNG\r\n\26\n' .. chunk('IHDR', header) .. (more and chunk(more[1], more[2]) or '') ..
    chunk('IDAT', '\120\1\1' .. length .. raw .. big(b * 65536 + a)) .. chunk('IEND', '')
end

t.test('image: every sample of 8 and 16 bits, interlaced or not, with any gAMA', function()
  for kind, channels in pairs{[0] = 1, [2] = 3, [4] = 2, [6] = 4} do
    for _, depth in ipairs{8, 16} do
      for _, interlaced in ipairs{false, true} do
        for _, gamma in ipairs{false, '\0\1\134\160'} do -- 1.0
          local function sample(x, y, c) return (x * 37 + y * 101 + c * 59) * (depth == 16 and 251 or 1) % 2 ^ depth end
          local path = write('s.png', png(11, 9, kind, depth, interlaced, sample, gamma and {'gAMA', gamma}))
          local pixels = data.image(path)
          t.eq(tostring(pixels.shape), ('(%d, 9, 11)'):format(channels))
          for c = 1, channels do
            for y = 0, 8 do
              for x = 0, 10 do
                local want = sample(x, y, c)
                if depth == 16 then want = math.floor(want / 256) end
                local got = pixels[c][y + 1][x + 1]:item()
                t.eq({kind, depth, interlaced, x, y, got}, {kind, depth, interlaced, x, y, want})
              end
            end
          end
        end
      end
    end
  end
end)

t.test('image: bytes between the markers of a JPEG header do no harm', function()
  local path = data.save_image(folder .. '/m.jpg', mt.linspace(0, 1, 64):view(8, 8))
  local text = data.text(path)
  local at = text:find('\255\219', 3, true) -- the quantisation table
  local stray = write('stray.jpg', text:sub(1, at - 1) .. '\0\0\0\0' .. text:sub(at))
  assert(mt.equal(data.image(stray), data.image(path)))
end)

t.test('save_image: what was written is read again', function()
  mt.manual_seed(4)
  for channels = 1, 4 do
    for _, size in ipairs {{1, 1}, {5, 9}, {64, 31}} do
      local x = mt.randint(0, 255, {channels, size[1], size[2]}):byte()
      t.eq(data.save_image(folder .. '/w.png', x), folder .. '/w.png')
      assert(mt.equal(data.image(folder .. '/w.png'), x))
    end
  end
  local ramp = mt.linspace(-0.5, 1.5, 64):view(8, 8)
  data.save_image(folder .. '/w.png', ramp)
  local back = data.image(folder .. '/w.png')
  t.eq({tostring(back.shape), back:min():item(), back:max():item()}, {'(1, 8, 8)', 0, 255})
  t.near(back:float():flatten():tolist(), (ramp:clamp(0, 1) * 255):flatten():tolist(), 0.51)
  local smooth = mt.linspace(0, 1, 48 * 40):view(1, 48, 40):expand(3, 48, 40)
  data.save_image(folder .. '/w.jpg', smooth, {quality = 95})
  local jpg = data.image(folder .. '/w.jpg')
  assert((jpg:float() - smooth * 255):abs():max():item() < 8)
  data.save_image(folder .. '/w.jpeg', smooth[1]:gt(0.5))
  t.eq(tostring(data.image(folder .. '/w.jpeg').shape), '(1, 48, 40)')
end)

t.test('image: large and of one colour', function()
  local path = data.save_image(folder .. '/flat.jpg', mt.ones(3000, 2000))
  t.eq({tostring(data.image(path).shape), data.image(path):min():item()}, {'(1, 3000, 2000)', 255})
  path = data.save_image(folder .. '/flat.png', mt.zeros(4000, 3000))
  t.eq({tostring(data.image(path).shape), data.image(path):max():item()}, {'(1, 4000, 3000)', 0})
end)

t.test('save_image: errors', function()
  local path = folder .. '/no.png'
  t.raises(function() data.save_image(path, mt.zeros(5, 2, 2)) end, 'save_image: a picture is .* got %(5, 2, 2%)')
  t.raises(function() data.save_image(path, mt.zeros(3, 0, 2)) end, 'a picture is')
  t.raises(function() data.save_image(path, mt.zeros(2, 2):long()) end, 'got int64; use x:byte%(%)')
  t.raises(function() data.save_image(folder .. '/no.bmp', mt.zeros(2, 2)) end, 'must end in .png, .jpg or .jpeg')
  t.raises(function() data.save_image(folder .. '/no.jpg', mt.zeros(4, 2, 2)) end, 'JPEG has 1 or 3 channels, got 4')
  t.raises(function() data.save_image('/nowhere/a.png', mt.zeros(2, 2)) end, "there is no folder '/nowhere'")
  t.eq(io.open(path), nil)
  t.raises(function() return (data.image(write('x.png', 'GIF89a'))) end,
    "image: '.*x.png': it is neither a PNG nor a JPEG")
  -- A header with 100 million pixels.
  local png = bytes(samples.pictures['gray.png'].file)
  local huge = png:sub(1, 16) .. '\0\0\39\16\0\0\39\16' .. png:sub(25)
  t.raises(function() return (data.image(write('huge.png', huge))) end, "huge.png': a PNG")
end)

-- ---- sound ---------------------------------------------------------------------------------------

for name, sample in pairs(samples.sounds) do
  t.test('wav: ' .. name, function()
    local path = write(name, bytes(sample.file))
    local x, rate = data.wav(path)
    t.eq({x.dtype, tostring(x.shape), rate}, {'float32', tostring(mt.tensor(sample.samples).shape), sample.rate})
    t.near(x:tolist(), mt.tensor(sample.samples):tolist(), 1e-9)
  end)
end

t.test('factorize: values as positions; a table of columns prints its first rows', function()
  local ids, names = data.factorize{'oslo', 'bern', 'oslo', 'rome'}
  t.eq({ids.dtype, ids:tolist(), names}, {'int64', {2, 1, 2, 3}, {'bern', 'oslo', 'rome'}})
  t.eq((data.factorize({'rome', 'york'}, names)):tolist(), {3, 0})
  t.eq(select(2, data.factorize(mt.tensor{3, 1, 3})), {1, 3})
  t.eq({(data.factorize{true, false}):tolist(), #data.factorize{}}, {{2, 1}, 0})
  t.raises(function() data.factorize{{1}} end, 'factorize: value 1 is a table; texts, numbers or booleans are needed')
  t.eq(tostring(data.csv(write('cities.csv', 'city,area\nrome,1.5\noslo,20\n'))),
    '  city  area\n  rome   1.5\n  oslo    20\n[2 rows x 2 columns]')
end)

t.test('wav: a recording that was cut off has its frames, one of no frames has none', function()
  local path = data.save_wav(folder .. '/cut.wav', mt.tensor({0, 64, 128, 255}):byte():view(1, 4), 8000)
  local text = data.text(path)
  local file = assert(io.open(path, 'wb'))
  file:write(text:sub(1, 4), '\0\0\0\0', text:sub(9, 40), '\0\0\0\0', text:sub(45))
  file:close()
  t.eq(data.wav(path).shape, {1, 4})
  file = assert(io.open(path, 'wb'))
  file:write(text:sub(1, 4), '\44\0\0\0', text:sub(9, 40), '\0\0\0\0', 'LIST\0\0\0\0')
  file:close()
  t.eq(data.wav(path).shape, {1, 0})
end)

t.test('save_wav: what was written is read again', function()
  mt.manual_seed(5)
  local x = mt.rand(2, 101) * 2 - 1
  local path = data.save_wav(folder .. '/w.wav', x, 22050)
  local back, rate = data.wav(path)
  t.eq({rate, mt.equal(back, x)}, {22050, true})
  for _, bits in ipairs {8, 16, 24, 32} do
    data.save_wav(path, x * 1.5, 8000, {bits = bits})
    assert((data.wav(path) - (x * 1.5):clamp(-1, 1)):abs():max():item() <= 2 ^ (1 - bits) + 1e-7)
  end
  for dtype, scale in pairs {int16 = 2 ^ 15, int32 = 2 ^ 31} do
    local whole = mt.tensor({{-scale, scale - 1, 7}}, {dtype = 'float64'}):to(dtype)
    data.save_wav(path, whole, 8000)
    assert(mt.equal(data.wav(path), (whole:double() / scale):float()))
  end
  data.save_wav(path, mt.tensor({0, 128, 255}):byte(), 1)
  t.eq(data.wav(path):tolist(), {{-1, 0, 127 / 128}})
  t.raises(function() data.save_wav(path, x:long(), 8000) end, 'samples are floats, uint8, int16 or int32, got int64')
  t.raises(function() data.save_wav(path, x, 8000, {bits = 12}) end, 'bits must be 8, 16, 24 or 32')
  t.raises(function() data.save_wav(path, mt.zeros(2, 2, 2), 8000) end, 'samples are %[channels x frames%]')
end)

os.execute('rm -rf ' .. folder)
t.finish()
