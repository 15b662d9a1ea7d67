-- test_safetensors.lua -- safetensors files: writing and reading, all dtypes, errors; JSON in Lua
local mt = require 'mtorch'
local core = require 'mtorch.core'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local data = mt.data

local path = os.tmpname()

local function write(text) t.write_file(path, text) end
local function size_text(n)
  local bytes = {}
  for i = 1, 8 do
    bytes[i] = string.char(n % 256)
    n = math.floor(n / 256)
  end
  return table.concat(bytes)
end
--- Writes a file with a header and data.
local function file(header, values) write(size_text(#header) .. header .. (values or '')) end

test('tensors of every dtype come back', function()
  local all = {}
  for _, dtype in ipairs{'float32', 'float64', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'uint8',
    'bool'} do
    all[dtype] = mt.tensor{{1, 0, 1}, {0, 1, 1}}:to(dtype)
  end
  all.number, all.none, all['a.b'] = mt.tensor(2.5), mt.zeros(0, 3), mt.range(1, 6):reshape(2, 3):t()
  data.save_safetensors(path, all, {metadata = {format = 'pt', note = 'é "x"\n'}})
  local back, metadata = data.safetensors(path)
  eq(metadata, {format = 'pt', note = 'é "x"\n'})
  for name, x in pairs(all) do
    eq({back[name].dtype, back[name].shape == x.shape, mt.equal(back[name], x)}, {x.dtype, true, true})
  end
  for name in pairs(back) do assert(all[name], name) end
  data.save_safetensors(path, {})
  eq({data.safetensors(path)}, {{}, {}})
  data.save_safetensors(path, {metadata = mt.ones(2), path = mt.zeros(1)}) -- names are no options
  eq(data.safetensors(path).metadata:tolist(), {1, 1})
end)

test('unsigned integers come in wider ones, any byte but 0 is true', function()
  local function one(dtype, n, bytes)
    file(('{"x":{"dtype":"%s","shape":[%d],"data_offsets":[0,%d]}}'):format(dtype, n, #bytes), bytes)
    return data.safetensors(path).x
  end
  local x = one('U16', 3, '\0\0\255\255\1\2')
  eq({x.dtype, x:tolist()}, {'int32', {0, 65535, 513}})
  x = one('U32', 2, '\255\255\255\255\1\0\0\0')
  eq({x.dtype, x:tolist()}, {'int64', {4294967295, 1}})
  x = one('U64', 1, '\255\0\0\0\0\0\0\0')
  eq({x.dtype, x:tolist()}, {'int64', {255}})
  raises(function() one('U64', 2, ('\1'):rep(8) .. ('\255'):rep(8)) end,
    "tensor 'x': the uint64 18446744073709551615 does")
  eq(one('BOOL', 4, '\0\1\2\255'):tolist(), {false, true, true, true})
  for _, other in ipairs{'F8_E8M0', 'F4', 'C64', 'X"'} do
    raises(function() one((other:gsub('"', '\\"')), 1, '\0') end, "tensor 'x': it has the dtype " .. other)
  end
end)

test('unsupported entries are skipped and reported, and unknown keys of entries are ignored', function()
  local header = '{"a":{"dtype":"F8_E8M0","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[1],' ..
    '"data_offsets":[2,6],"more":[1]},"c":{"dtype":"U64","shape":[1],"data_offsets":[6,14]},' ..
    '"d":{"dtype":"C64","shape":[1],"data_offsets":[14,%d]}}'
  local values = ('\0'):rep(6) .. ('\255'):rep(8) .. ('\0'):rep(8)
  file(header:format(22), values)
  local tensors, metadata, left_out = data.safetensors(path)
  eq({tensors.b:tolist(), tensors.a, metadata}, {{0}, nil, {}})
  eq(left_out, {a = 'it has the dtype F8_E8M0, which tensors here do not have',
    c = 'the uint64 18446744073709551615 does not fit int64',
    d = 'it has the dtype C64, which tensors here do not have'})
  eq(mt.load(path).b:tolist(), {0})
  file(header:format(23), values)
  raises(function() data.safetensors(path) end, 'need 23 bytes, 22 follow')
  file(header:format(13), values)
  raises(function() data.safetensors(path) end, 'it should begin at')
end)

test('a damaged file is one sentence', function()
  local function refused(what, header, values)
    file(header, values)
    raises(function() data.safetensors(path) end, "^[^\n]*safetensors: '" .. path:gsub('%p', '%%%0') ..
      "' is not a valid safetensors file: [^\n]*" .. what .. '[^\n]*$')
  end
  local function x(shape, from, to, more)
    return ('{"x":{"dtype":"F32","shape":%s,"data_offsets":[%s,%s]}%s}'):format(shape, from, to, more or '')
  end
  local eight = ('\0'):rep(8)
  refused('begin with', '[]')
  refused('begin with', ' {}')
  refused('line 1', '{"x":')
  refused('line 1', '{} {}')
  refused("key 'x' is repeated", x('[2]', 0, 8, ',"x":{}'), eight)
  refused("key 'dtype' is repeated", '{"x":{"dtype":"F32","dtype":"F32"}}')
  refused('nested deeper', '{"x":' .. ('['):rep(2000))
  refused('invalid', '{"\255":1}')
  refused('is not an object', '{"x":1}')
  refused('needs dtype', '{"x":{}}')
  refused('invalid entry', '{"x":{"dtype":1,"shape":[2],"data_offsets":[0,8]}}', eight)
  refused('invalid entry', x('[2]', 0, '8,9'), eight)
  refused('should begin at 0', x('[1]', 4, 8), eight)
  refused('should begin at 8', x('[2]', 0, 8, ',"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}'), eight)
  refused('has 8 bytes', x('[3]', 0, 8), eight)
  refused('need 12 bytes, 8 follow', x('[3]', 0, 12), eight)
  refused('need 8 bytes, 9 follow', x('[2]', 0, 8), eight .. 'x')
  refused('not whole', x('[-2]', 0, 8), eight)
  refused('not whole', x('[2.0]', 0, 8), eight)
  refused('overflow', x('[1e400]', 0, 8), eight)
  refused('tensor', x('[9223372036854775807, 9223372036854775807]', 0, 8), eight)
  refused('17 dimensions', x('[' .. ('1,'):rep(16) .. '1]', 0, 4), eight)
  refused('metadata', '{"__metadata__":{"a":1}}')
  refused('metadata', '{"__metadata__":[]}')
  write('')
  raises(function() data.safetensors(path) end, 'has 0 bytes')
  write(size_text(100000001) .. '{}')
  raises(function() data.safetensors(path) end, 'at most 100000000')
  write(size_text(1000) .. '{}')
  raises(function() data.safetensors(path) end, 'the file has fewer')
  raises(function() data.safetensors(path .. '.none') end, 'safetensors: cannot read .* No such file')
end)

test('what cannot be saved', function()
  raises(function() data.save_safetensors(path, {x = 1}) end, "'x' must be a tensor, got 1")
  raises(function() data.save_safetensors(path, {mt.ones(1)}) end, 'a name must be a string, got 1')
  raises(function() data.save_safetensors(path, {['\255'] = mt.ones(1)}) end, 'not UTF%-8')
  raises(function() data.save_safetensors(path, {__metadata__ = mt.ones(1)}) end, 'no tensor can')
  raises(function() data.save_safetensors(path, {}, {metadata = {a = 1}}) end, 'the metadata a must be a string, got 1')
  raises(function() data.save_safetensors(path, {}, {k = 'v'}) end,
    "unknown option 'k'; a table of metadata is given by its name, {metadata = {k = ..}}")
  raises(function() data.save_safetensors(path, 3) end, 'tensors must be a table, got 3')
  raises(function() data.save_safetensors('/no/folder', {}) end, "there is no folder '/no'")
end)

test('JSON', function()
  local text = '{"a":[1,2.5,-0.0,null,true,"\\u00e9\\n"],"b":{},"n":9007199254740993,"big":1e300,"deep":[[[]]]}'
  local null = {}
  local value = core.parse_json(text, null)
  eq({value.a[1], value.a[2], 1 / value.a[3], value.a[4] == null, value.a[5], value.a[6]},
    {1, 2.5, -math.huge, true, true, 'é\n'})
  eq({value.b, value.big, #value.deep[1][1]}, {{}, 1e300, 0})
  eq(core.parse_json(core.json_text(value, null), null), value)
  eq(core.json_text{a = {1, 2}, b = {x = 'y'}, c = {}}, '{"a":[1,2],"b":{"x":"y"},"c":{}}')
  local list = {}
  eq(core.json_text(setmetatable({}, list), nil, list), '[]')
  eq(getmetatable(core.parse_json('[]', nil, list)), list)
  eq(core.json_text(0.1), '0.1')
  for _, bad in ipairs{'', '{', '[1,]', '{"a":1,}', '01', 'nul', '"\1"', '"\\ud800"', '1 2', '{"a":1,"a":2}', '\255',
    '1e999'} do
    raises(function() core.parse_json(bad) end, '^[^\n]+$')
  end
  raises(function() core.json_text{a = {0 / 0}} end, '%.a%[1%] is nan')
  raises(function() core.json_text{print} end, '%[1%] is a function')
  raises(function() core.json_text{a = 1, 2} end, 'has the key 1')
  local loop = {}
  loop[1] = loop
  raises(function() core.json_text(loop) end, 'contain itself')
end)

os.remove(path)
t.finish()
