-- test_npy.lua -- NumPy's npy and npz files: those of NumPy and of mtorch, and errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local data = mt.data

local folder = arg[0]:gsub('[^/]*$', '') .. '../data/files/'
local path = os.tmpname()
local read = t.read_file
local function write(text) t.write_file(path, text) end

local counted = {{0, 1, 2}, {3, 4, 5}}

test("NumPy's npy files", function()
  local dtypes = {f2 = 'float16', f4 = 'float32', f8 = 'float64', i1 = 'int8', i2 = 'int16', i4 = 'int32', i8 = 'int64',
    u1 = 'uint8', u2 = 'int32', u4 = 'int64', u8 = 'int64', big = 'float32', version2 = 'float32',
    version3 = 'float32', ['f4.npy.gz'] = 'float32'}
  for name, dtype in pairs(dtypes) do
    local x = data.npy(folder .. (name:find '%.' and name or name .. '.npy'))
    eq({name, x.dtype, x:tolist()}, {name, dtype, counted})
  end
  eq(data.npy(folder .. 'bool.npy'):tolist(), {{false, true, false}, {true, false, true}})
  local x = data.npy(folder .. 'fortran.npy')
  assert(mt.equal(x, mt.range(0, 23):reshape(2, 3, 4)) and x:is_contiguous())
  eq({data.npy(folder .. 'scalar.npy'):item(), data.npy(folder .. 'scalar.npy'):dim()}, {2.5, 0})
  eq(tostring(data.npy(folder .. 'empty.npy').shape), '(0, 3)')
  raises(function() data.npy(folder .. 'large.npy') end, 'npy: .* the uint64 18446744073709551615 does not fit int64')
  raises(function() data.npy(folder .. 'objects.npy') end, 'Python objects')
  raises(function() data.npy(folder .. 'records.npy') end, 'holds records')
  raises(function() data.npy(folder .. 'complex.npy') end, "the type '<c8'")
  raises(function() data.npy(folder .. 'text.npy') end, "the type '<U2'")
end)

test("NumPy's npz files", function()
  local all = data.npz(folder .. 'plain.npz')
  eq({all.x:tolist(), all.y:tolist(), all['a/b.c']:item()}, {counted, {0, 1, 2}, 7})
  local within_gzip = os.tmpname()
  os.execute(('gzip -c "%spacked.npz" >%s'):format(folder, within_gzip))
  for _, path in ipairs{folder .. 'packed.npz', within_gzip} do
    all = data.npz(path)
    eq({all.x:tolist(), all.y:sum():item()}, {counted, 499500})
  end
  os.remove(within_gzip)
end)

test('what no tensor can hold is left out of an npz file and named', function()
  local all, left_out = data.npz(folder .. 'mixed.npz')
  eq({all.x:tolist(), all.complex}, {{1, 1}})
  eq(left_out, {complex = "it has the type '<c8', which tensors here do not have",
    text = "it has the type '<U2', which tensors here do not have",
    objects = 'it holds Python objects, which only Python can read',
    records = 'it holds records, which tensors do not; save their fields one by one'})
  eq(mt.load(folder .. 'mixed.npz').x:tolist(), {1, 1})
  raises(function() data.npz(folder .. 'words.npz') end, "npz: .* tensor 'text': it has the type '<U2'")
end)

test('our own come back', function()
  for _, dtype in ipairs{'float32', 'float64', 'float16', 'int64', 'int32', 'int16', 'int8', 'uint8', 'bool'} do
    for _, x in ipairs{mt.randint(0, 1, {3, 4}):to(dtype):t(), mt.zeros({}, {dtype = dtype}),
      mt.ones({0, 2}, {dtype = dtype}), mt.ones({5}, {dtype = dtype})} do
      data.save_npy(path, x)
      local y = data.npy(path)
      eq({y.dtype, tostring(y.shape), mt.equal(x, y)}, {dtype, tostring(x.shape), true})
    end
  end
  local all = {x = mt.randn(100, 3), ['y/é.z'] = mt.range(1, 5), [''] = mt.tensor(true)}
  data.save_npz(path, all)
  local back = data.npz(path)
  for name, x in pairs(all) do assert(mt.equal(back[name], x), name) end
  data.save_npz(path, {})
  eq(data.npz(path), {})
  raises(function() data.save_npy(path, mt.ones(1):bfloat16()) end, 'save_npy: NumPy has no bfloat16')
  raises(function() data.save_npz(path, {x = mt.ones(1):bfloat16()}) end, 'save_npz: NumPy has no bfloat16')
  raises(function() data.save_npz(path, {x = 1}) end, "save_npz: 'x' must be a tensor, got 1")
  raises(function() data.save_npy(path, 3) end, 'save_npy: x must be a tensor, got 3')
  eq(data.npz(path), {})
end)

test('a damaged file is one sentence', function()
  local function refused(text, what, load)
    write(text)
    raises(function() (load or data.npy)(path) end, '^[^\n]*npy?z?: [^\n]*' .. what .. '[^\n]*$')
  end
  local function npy(header, values)
    return '\147NUMPY\1\0' .. string.char(#header % 256, math.floor(#header / 256)) .. header .. (values or '')
  end
  local function entry(descr, order, shape) return ("{'descr': %s, 'fortran_order': %s, 'shape': %s, }"):format(descr,
    order, shape) end
  local four = ('\0'):rep(4)
  write(npy(entry("'<f4'", 'False', '(1L,)') .. '\n', four))
  eq(data.npy(path):tolist(), {0})
  refused('', 'does not begin')
  refused('\147NUMPX\1\0', 'does not begin')
  refused('\147NUMPY\4\0\0\0', 'version 4')
  refused('\147NUMPY\2\0\255\255\255\255', 'too long')
  refused('\147NUMPY\1\0\255\0{', 'too long')
  refused(npy(entry("'<f4'", 'False', '(1,)')), 'needs 4 bytes, 0 are there')
  refused(npy(entry("'<f4'", 'False', '(1,)'), four .. '\0'), 'bytes follow')
  refused(npy(entry("'<f4'", 'False', '(4294967296, 4294967296, 4)'), four), 'shape')
  refused(npy(entry("'<f4'", 'False', '(99999999999999999999,)'), four), 'not as NumPy')
  refused(npy(entry("'<f4'", 'False', '(-1,)'), four), 'not as NumPy')
  refused(npy(entry("'<f4'", 'False', '(' .. ('1,'):rep(17) .. ')'), four), 'dimensions')
  for _, bad in ipairs{'', '{', '{}', "{'descr': '<f4'}", entry("'<f4'", 'Maybe', '(1,)'), entry("'<f4'", 'False', '1'),
    entry("'<f4'", 'False', '(1,'), entry("<f4", 'False', '(1,)'),
    entry("'<f4'", 'False', '(1,)') .. 'x', "{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}",
    "{'descr': __import__('os').system('x'), 'fortran_order': False, 'shape': (1,)}"} do
    refused(npy(bad, four), 'not as NumPy')
  end
  local good = read(folder .. 'plain.npz')
  refused(good:sub(1, -30), 'not a zip archive', data.npz)
  refused(good:gsub('  \n', ' \t\n', 1), 'damaged', data.npz)
  refused('', 'not a zip archive', data.npz)
  refused(good:gsub('x%.npy', 'x.npx'), 'not a %.npy file', data.npz)
  refused(good:gsub('y%.npy', 'x.npy'), 'repeated', data.npz)
  raises(function() data.npz('/no/file') end, "npz: cannot read '/no/file': No such file")
  raises(function() data.npz('/tmp') end, "npz: '/tmp' is not a regular file")
end)

os.remove(path)
t.finish()
