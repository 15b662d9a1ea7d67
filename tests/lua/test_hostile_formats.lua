-- test_hostile_formats.lua -- damaged and forged files of tables, images, sound, digits, tokenizers
local mt = require 'mtorch'
local t = require 'testing'
local damage = require 'damage'
local data = mt.data

local here = debug.getinfo(1, 'S').source:match '^@(.*)/lua/[^/]*$'
local samples = dofile(here .. '/data/file_samples.lua')
local rounds = tonumber(arg[1] or 200)
local path = os.tmpname()
require('mtorch.core').set_memory_limit(2 ^ 28)

local function write(text) return t.write_file(path, text) end
local bytes = t.unhex
local function gzip(text)
  local packed = write(text) .. '.gz'
  os.execute('gzip -nf ' .. path)
  text = data.text(packed)
  local result = t.read_file(packed)
  os.remove(packed)
  return result
end
local function files(list, ending)
  local texts = {}
  for name, sample in pairs(list) do
    if name:find(ending, 1, true) then texts[#texts + 1] = {name, bytes(sample.file)} end
  end
  table.sort(texts, function(a, b) return a[1] < b[1] end)
  for i, pair in ipairs(texts) do texts[i] = pair[2] end
  return texts
end
local function storm(...) damage(rounds, path, ...) end

local csv = 'age,name,"size, cm"\r\n31,Ann,1.75\r\n-4e2,"Bob ""B"" \n2",\r\n.5,, nan \r\n'
storm('csv', {csv, 'a\tb\n1\t2\n3\t4\n', ('1,2,3\n'):rep(50), gzip(csv)}, function(name)
  data.csv(name)
  data.csv(name, {header = false, delimiter = '\t', quotes = false})
end, '^[^:]+test_hostile_formats.lua:%d+: csv: ')
storm('json', {'{"a": [1, -2.5e3, true, null, "\\u00e9\\n"], "b": {"c": []}}', '[[[[1]]], "x"]'}, data.json, 'json: ')
storm('png', files(samples.pictures, '.png'), data.image, 'image: ')
storm('jpeg', files(samples.pictures, '.jpg'), data.image, 'image: ')
storm('wav', files(samples.sounds, '.wav'), data.wav, 'wav: ')
storm('idx', {'\0\0\8\2\0\0\0\2\0\0\0\3abcdef', '\0\0\14\1\0\0\0\2' .. ('x'):rep(16), gzip('\0\0\8\1\0\0\0\3abc')},
  data.idx, 'idx: ')
local tokenizers = {}
for i, name in ipairs {'gpt2', 'llama2', 'llama3', 'metaspace'} do
  local text = data.text(here .. '/data/tokenizers/' .. name .. '.json')
  tokenizers[i] = text:sub(1, text:find '"merges"' - 1) .. '"merges":[]}}'
  tokenizers[i + 4] = text
end
storm('tokenizer.json', tokenizers, function(name)
  local tokenizer = data.BPETokenizer(name)
  local ids = tokenizer:encode "It's  12 wörds,\n\n ▁ \255"
  tokenizer:decode(ids, false)
end, 'test_hostile_formats.lua:%d+: [%w]+: ')

-- ---- what was thought out ------------------------------------------------------------------------

local function big(v) return string.char(math.floor(v / 2 ^ 24) % 256, math.floor(v / 2 ^ 16) % 256,
  math.floor(v / 256) % 256, v % 256) end
local function little(v, n)
  local out = {}
  for i = 1, n do
    out[i] = string.char(v % 256)
    v = math.floor(v / 256)
  end
  return table.concat(out)
end
local function refused(load, text, pattern)
  t.raises(function() return (load(write(text))) end, pattern)
end

t.test('sizes that a file only claims', function()
  local png = bytes(samples.pictures['gray.png'].file)
  for _, size in ipairs {{0, 5}, {2 ^ 31 - 1, 2 ^ 31 - 1}, {2 ^ 31, 1}, {60000, 60000}, {9000, 9000}, {1, 2 ^ 30}} do
    refused(data.image, png:sub(1, 16) .. big(size[1]) .. big(size[2]) .. png:sub(25), 'image: ')
  end
  local jpg = bytes(samples.pictures['rgb.jpg'].file)
  local frame = jpg:find('\255\192\0\17\8', 1, true)
  refused(data.image, jpg:sub(1, frame + 4) .. '\255\255\255\255' .. jpg:sub(frame + 9), 'a JPEG')
  refused(data.image, jpg:sub(1, frame + 4) .. '\0\0\0\0' .. jpg:sub(frame + 9), 'a JPEG')
  refused(data.image, jpg:sub(1, frame + 4) .. '\50\50\50\50' .. jpg:sub(frame + 9), 'more than its %d+ bytes can hold')
  local wav = bytes(samples.sounds['pcm16.wav'].file)
  refused(data.wav, wav:sub(1, 40) .. '\255\255\255\127' .. wav:sub(45), 'wav: .* it ends too early')
  refused(data.wav, 'RIFF' .. little(36, 4) .. 'WAVEdata\4\0\0\0abcd', 'its data come before their format')
  for _, change in ipairs {{21, '\6'}, {23, '\0\0'}, {25, '\0\0\0\0'}, {33, '\9'}, {35, '\7'}, {35, '\40'}} do
    refused(data.wav, wav:sub(1, change[1] - 1) .. change[2] .. wav:sub(change[1] + #change[2]), 'wav: ')
  end
  refused(data.csv, ('a,'):rep(100000) .. 'a\n' .. ('\n'):rep(100000) .. '1', "duplicate column name 'a'")
  local names = {}
  for i = 1, 20000 do names[i] = i end
  refused(data.csv, table.concat(names, ',') .. '\n' .. ('1\n'):rep(20000), 'line 2: it ends at column 1, the first')
end)

t.test('gzip of gzip, bombs, and files that are none', function()
  local bomb = gzip(('\0'):rep(2 ^ 22))
  refused(data.idx, bomb, 'idx: ')
  refused(data.image, bomb, 'neither a PNG nor a JPEG')
  t.eq(#data.text(write(bomb)), 2 ^ 22)
  refused(data.image, gzip(gzip(bytes(samples.pictures['rgb.png'].file))), 'neither a PNG nor a JPEG')
  for _, name in ipairs {'csv', 'json', 'image', 'wav', 'text', 'BPETokenizer', 'idx'} do
    t.raises(function() return (data[name]('/dev/zero')) end, 'not a regular file')
    t.raises(function() return (data[name]('/tmp')) end, 'not a regular file')
    t.raises(function() return (data[name]('/nowhere/at.all')) end, 'No such file')
    t.raises(function() return (data[name]('a\0b')) end, 'zero byte')
    if name ~= 'text' then t.raises(function() return (data[name](write(''))) end, '%w: ') end
  end
end)

t.test('tokenizers that would take for ever, or everything', function()
  local file = data.text(here .. '/data/tokenizers/gpt2.json')
  local function changed(from, to)
    local text, n = file:gsub(from, function() return to end)
    assert(n > 0, from)
    return write(text)
  end
  local split = '"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"%s"},"was":"ByteLevel"'
  for _, pattern in ipairs {'(?:a|a)+[bc]', '((a|a)+)+[bc]', '(?:a|aa)+[bc]'} do
    local tokenizer = data.BPETokenizer(changed('"pre_tokenizer":{"type":"ByteLevel"', split:format(pattern)))
    t.raises(function() return (tokenizer:encode(('a'):rep(40))) end, 'encode: the pattern takes too long on this text')
  end
  t.raises(function()
    return (data.BPETokenizer(changed('"normalizer":null', ('"normalizer":{"type":"Prepend","prepend":"%s"}'):format(
      ('x'):rep(10000)))))
  end, "the 'prepend' of Prepend has 10000 bytes")
  t.raises(function() return (data.BPETokenizer(write(('['):rep(100000)))) end, "BPETokenizer: '.*': .*nest")
  local deep = ('{"type":"Sequence","normalizers":['):rep(300) .. (']}'):rep(300)
  t.raises(function() return (data.BPETokenizer(changed('"normalizer":null', '"normalizer":' .. deep))) end,
    'a sequence in a sequence')
end)

os.remove(path)
t.finish()
