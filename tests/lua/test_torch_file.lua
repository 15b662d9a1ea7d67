-- test_torch_file.lua -- files of torch.save: values are restored, and nothing is executed
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn = mt.nn

local folder = arg[0]:gsub('[^/]*$', '') .. '../data/files/'
local path = os.tmpname()
local read = t.read_file
local function write(text) t.write_file(path, text) end

local function number_text(n) -- four bytes
  return string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 2 ^ 24))
end

for _, name in ipairs{'whole', 'legacy'} do
  test(name .. '.pt: values, tensors, what is shared', function()
    local v = mt.load(folder .. name .. '.pt')
    eq(v.list, {1, 2.5, 'three', true, {4, {5}}})
    eq({v.none == nil, v.size, v.dtype, v.device, v.bytes, v.set}, {true, {2, 3}, 'float32', 'cpu', '\0\255', {7}})
    eq({v.big, v.huge, v.minus, v.inf, v[7], v.text}, {2 ^ 40, 2 ^ 80, -3, math.huge, 'seven', 'é€'})
    eq(v.ordered, {a = 2, b = 1})
    eq({v.view:tolist(), tostring(v.view:stride())}, {{{2, 5}, {3, 6}, {4, 7}}, '(1, 3)'})
    assert(v.same[1] == v.same[2])
    v.same[1]:fill_(9)
    eq({v.row:tolist(), v.view:sum():item()}, {{9, 9, 9}, 54})
    eq({v.parameter.requires_grad, v.wants.requires_grad, v.probe.requires_grad}, {true, true, false})
    local net = nn.class('Net')()
    net.p, net.w, net.b = v.parameter, v.wants, v.buffer
    eq({#net:parameters(), #net:buffers()}, {1, name == 'whole' and 1 or 0})
    local group = v.opt.param_groups[1]
    eq({group.lr, group.params, v.opt.state[0].step:item()}, {0.01, {0, 1, 2, 3, 4, 5}, 2})
    if v.all then
      for dtype, x in pairs(v.all) do
        local wider = {uint16 = 'int32', uint32 = 'int64', uint64 = 'int64', bool = 'bool', scalar = 'float32',
          empty = 'float32'}
        eq({dtype, x.dtype}, {dtype, wider[dtype] or dtype})
        if x:numel() == 6 then eq(x:double():tolist(), {{0, 1, 2}, {3, 4, 5}}) end
      end
    end
  end)
end

test("PyTorch's networks give its answers", function()
  local v = mt.load(folder .. 'whole.pt')
  local state = mt.load(folder .. 'state.pt')
  for name, x in pairs(v.state) do assert(mt.equal(x, state[name]), name) end
  local h = v.probe:matmul(state['0.weight']:t()) + state['0.bias']
  h = (h - state['1.running_mean']) / (state['1.running_var'] + 1e-5):sqrt() * state['1.weight'] + state['1.bias']
  assert(mt.allclose(h:matmul(state['2.weight']:t()) + state['2.bias'], v.answer))
  eq(mt.load(folder .. 'tensor.pt'):tolist(), {0, 1, 2})
end)

test('nothing is executed, and every name is looked at', function()
  raises(function() mt.load(folder .. 'evil.pt') end, "load: .*names 'posix%.system', which is not .*nothing was")
  assert(not io.open('/tmp/mtorch-was-here'))
  raises(function() mt.load(folder .. 'module.pt') end, "names 'torch%.nn%.modules%.container%.Sequential'.*state_dict")
end)

-- A stream with valid first pickles, to test the pickle of the value.
local head = '\128\2\138\10\108\252\156\70\249\32\106\168\80\25.\128\2M\233\3.\128\2}.'

test('instructions of pickles', function()
  local empty = '].' -- no storages
  local function one(pickle)
    write(head .. pickle .. empty)
    return mt.load(path)
  end
  eq(one('\138\8' .. ('\0'):rep(7) .. '\128.'), -2 ^ 63)
  eq(one('\138\8\1' .. ('\0'):rep(6) .. '\64.'), '4611686018427387905')
  eq(one('\138\9' .. ('\0'):rep(7) .. '\128\0.'), 2 ^ 63)
  eq(one('\138\9' .. ('\255'):rep(7) .. '\127\255.'), '-9223372036854775809')
  eq(one('\138\9' .. ('\0'):rep(8) .. '\255.'), -2 ^ 64)
  eq(one('\138\10\1' .. ('\0'):rep(8) .. '\1.'), '4722366482869645213697')
  raises(function() one('\138\129' .. ('\1'):rep(129) .. '.') end, 'an integer of 129 bytes; at most 16 are read')
  eq(one('\138\1\255.'), -1)
  eq(one('\138\9\0\0\0\0\0\0\0\0\255.'), -2 ^ 64)
  eq(one('G\63\248\0\0\0\0\0\0.'), 1.5)
  eq(one('(K\1K\2d.'), {2})
  eq(one('(K\1K\2l.'), {1, 2})
  eq(one('\140\3abc\148\48h\0.'), 'abc')
  eq(one(']q\0K\1ah\0\134.'), {{1}, {1}})
  raises(function() one('cnumpy._core.multiarray\nscalar\n.') end,
    'has values of NumPy .*torch%.as_tensor%(x%), or numbers, x%.item')
  local loop = one(']q\0h\0a.')
  assert(loop[1] == loop)
  for bad, what in pairs{
    [''] = 'ends too early', ['K'] = 'ends too early', ['.'] = 'empty stack', ['\255.'] = 'opcode ff',
    ['a.'] = 'empty stack', ['K\1K\2a.'] = 'on a non', ['e.'] = 'mark', ['}(K\1u.'] = 'on a non', ['h\5.'] = 'the memo',
    ['K\1K\2R.'] = 'not a function', ['K\1K\2b.'] = 'in a way', ['K\1Q.'] = 'in a way', ['Pid\n.'] = 'opcode 50',
    ['ctorch\nComplexFloatStorage\n.'] = "'torch.ComplexFloatStorage', a type that",
    ['\130\1.'] = 'opcode 82', ['(ios\nsystem\n.'] = 'opcode 69', ['cos\nsystem\n.'] = "names 'os.system'",
    ['ccollections\nOrderedDict\nK\1R.'] = 'not a function', ['ctorch\nTensor\n)R.'] = 'in a way',
    ['ctorch._utils\n_rebuild_tensor_v2\n)R.'] = 'in a way', ['\128\9.'] = 'newer protocol',
    ['X' .. number_text(2 ^ 31) .. '.'] = 'ends too early', ['}]K\1s.'] = 'a table as a key',
    [(']'):rep(3000) .. ('a'):rep(2999) .. '.'] = 'nested deeper',
  } do
    raises(function() one(bad) end, '^[^\n]*load: [^\n]*' .. what .. '[^\n]*$')
  end
end)

test('views beyond their storage, storages that are not there', function()
  local function tensor(offset, size, stride, count, bytes, module)
    local function pair(k) return 'J' .. number_text(k) .. '\133' end
    local storage = '(X\7\0\0\0storagec' .. (module or 'torch') ..
      "\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuJ" .. number_text(count) .. 'tQ'
    write(head .. 'ctorch._utils\n_rebuild_tensor_v2\n(' .. storage .. 'J' .. number_text(offset) .. pair(size) ..
      pair(stride) .. '\137}tR.' .. '](X\1\0\0\0000e.' .. number_text(count) .. '\0\0\0\0' .. ('\0'):rep(bytes))
    return mt.load(path)
  end
  eq(tensor(1, 2, 1, 4, 16):tolist(), {0, 0})
  eq(tensor(1, 2, 1, 4, 16, 'torch.cuda'):tolist(), {0, 0})
  raises(function() tensor(1, 4, 1, 4, 16) end, 'reaches beyond its storage of 4')
  raises(function() tensor(4, 1, 1, 4, 16) end, 'reaches beyond')
  raises(function() tensor(0, 2, 2 ^ 31 - 1, 4, 16) end, 'reaches beyond')
  raises(function() tensor(0, 4, 1, 4, 12) end, 'ends inside its storages')
  raises(function() tensor(0, 4, 1, 2 ^ 31 - 1, 12) end, 'ends inside its storages')
end)

test('damaged archives are one sentence', function()
  local good = read(folder .. 'tensor.pt')
  for cut = 1, #good - 1, 7 do
    write(good:sub(1, cut))
    raises(function() mt.load(path) end, '^[^\n]*load: [^\n]+$')
  end
  write(good:gsub('FloatStorage', 'FloatStoragf'):gsub('LongStorage', 'FloaStorage'))
  raises(function() mt.load(path) end, '^[^\n]*load: [^\n]+$')
  write((read(folder .. 'plain.npz')))
  eq(mt.load(path).y:tolist(), {0, 1, 2})
  write((read(folder .. 'f4.npy')))
  raises(function() mt.load(path) end, 'use mt.data.npy')
end)

os.remove(path)
t.finish()
