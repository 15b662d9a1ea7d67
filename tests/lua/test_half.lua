-- test_half.lua -- float16 and bfloat16 tensors: values of PyTorch, types, gradients, training
local mt = require 'mtorch'
local nn, optim = mt.nn, mt.optim
local t = require 'testing'
local halves = {'float16', 'bfloat16'}

local function list(x) return x:reshape(-1):tolist() end
--- Asserts equality within one unit in the last place of the dtype.
local function close(x, expected, dtype)
  t.eq(x.dtype, dtype)
  local unit = dtype == 'float16' and 2 ^ -10 or 2 ^ -7
  local got = list(x)
  t.eq(#got, #expected)
  for i, want in ipairs(expected) do
    if math.abs(got[i] - want) > unit * math.abs(want) + 1e-7 then
      error(('entry %d is %.9g, expected %.9g'):format(i, got[i], want), 2)
    end
  end
end

t.test('is_floating_point', function()
  for dtype, answer in pairs{float32 = true, bfloat16 = true, float8_e4m3fn = true, int64 = false, bool = false} do
    t.eq({dtype, mt.zeros(2):to(dtype):is_floating_point()}, {dtype, answer})
  end
end)

t.test('norms of any order are calculated in float32', function()
  local x = mt.full({4}, 8, {dtype = 'float16'})
  for p, value in pairs{[6] = 10.0781, [3] = 12.6953, [0.5] = 128, [-2] = 4, [-6] = 6.3477, [2.5] = 13.9297} do
    close(mt.linalg.vector_norm(x, p), {value}, 'float16')
    close(mt.norm(x, p), {value}, 'float16')
    close(mt.linalg.vector_norm(x:requires_grad_(), p, 1, true), {value}, 'float16')
  end
end)

t.test('made, shown and read', function()
  for _, dtype in ipairs(halves) do
    local x = mt.tensor({{1, 2.5}, {-0.25, 1e9}}, {dtype = dtype})
    t.eq(x.dtype, dtype)
    t.eq(list(x), dtype == 'float16' and {1, 2.5, -0.25, math.huge} or {1, 2.5, -0.25, 998244352})
    t.eq(mt.zeros({2}, {dtype = dtype}):tolist(), {0, 0})
    t.eq(mt.full({2}, 1.5, {dtype = dtype}):tolist(), {1.5, 1.5})
    t.eq(mt.range(1, 3, {dtype = dtype}):tolist(), {1, 2, 3})
    t.eq(mt.linspace(0, 1, 5, {dtype = dtype}):tolist(), {0, 0.25, 0.5, 0.75, 1})
    t.eq(mt.eye(2, {dtype = dtype}):tolist(), {{1, 0}, {0, 1}})
    t.eq(tostring(mt.tensor({1, 2}, {dtype = dtype})):find(dtype, 1, true) ~= nil, true)
    t.eq(mt.tensor(3, {dtype = dtype}):item(), 3)
    t.eq(x:at(1, 2), 2.5)
    t.eq(x:to('float32').dtype, 'float32')
    t.eq(mt.ones({3}, {dtype = dtype}):new_zeros(2).dtype, dtype)
  end
  t.eq(mt.ones(2):half().dtype, 'float16')
  t.eq(mt.ones(2):bfloat16().dtype, 'bfloat16')
  t.eq(mt.ones(2):to('float16'):type_as(mt.ones(1):bfloat16()).dtype, 'bfloat16')
  t.eq(mt.frombuffer('\0\60\0\192', {dtype = 'float16'}):tolist(), {1, -2})
  t.eq(mt.frombuffer('\128\63\0\192', {dtype = 'bfloat16'}):tolist(), {1, -2})
  t.eq(mt.tensor({1, -2}, {dtype = 'float16', device = 'cpu'}):data()[0], 0x3c00)
end)

t.test('as default dtype', function()
  mt.set_default_dtype('bfloat16')
  local ok, why = pcall(function()
    t.eq({mt.ones(1).dtype, mt.randn(2).dtype, mt.tensor{1}.dtype, (mt.ones({1}, 'int64') / 2).dtype},
      {'bfloat16', 'bfloat16', 'bfloat16', 'bfloat16'})
  end)
  mt.set_default_dtype('float32')
  if not ok then error(why) end
end)

t.test('conversions', function()
  t.eq(mt.tensor({2049, 2051, 4098, 65519, 65520, 70000}, {dtype = 'int64'}):half():tolist(),
    {2048, 2052, 4096, 65504, math.huge, math.huge})
  t.eq(mt.tensor({257, 259}, {dtype = 'int32'}):bfloat16():tolist(), {256, 260})
  t.eq(mt.tensor({1.9, -1.9, 65504}):half():long():tolist(), {1, -1, 65504})
  t.eq(mt.tensor({1.9, -1.9, 300}):half():byte():tolist(), {1, 0, 255})
  t.eq(mt.tensor({0, 2 ^ -24, -1}):half():bool():tolist(), {false, true, true})
  t.eq(mt.tensor({true, false}):half():tolist(), {1, 0})
  t.eq(mt.tensor({2 ^ -25, 2 ^ -24 * 1.5, 2 ^ -14}):half():tolist(), {0, 2 ^ -23, 2 ^ -14})
  local exact = mt.tensor({0.1}, {dtype = 'float64'}):half()
  t.eq(exact:double():item(), 0.0999755859375)
  t.eq(exact:bfloat16():item(), 0.10009765625)
  t.eq(mt.tensor({0 / 0, math.huge, -math.huge}):bfloat16():half():isnan():tolist(), {true, false, false})
  -- strided, transposed, expanded, empty, 0-d; lengths around the pieces
  mt.manual_seed(3)
  for _, dtype in ipairs(halves) do
    local x = mt.randn(37, 65)
    local h = x:to(dtype)
    t.eq(mt.equal(h:t():to('float32'), h:to('float32'):t()), true)
    t.eq(mt.equal(h:t():contiguous():t(), h), true)
    t.eq(mt.equal(h[{{}, {1, 65, 2}}]:to('float64'), h:to('float64')[{{}, {1, 65, 2}}]), true)
    t.eq(mt.equal(h[{{}, 3}]:unsqueeze(2):expand(37, 9):float(), h:float()[{{}, 3}]:unsqueeze(2):expand(37, 9)), true)
    t.eq(mt.equal(x:t():to(dtype), h:t()), true)
    for _, n in ipairs {0, 1, 7, 511, 512, 513, 1025, 40000, 70001} do
      local y = mt.randn(n)
      local z = y:to(dtype)
      t.eq(mt.equal(z:float():to(dtype), z), true)
      t.eq(mt.equal(z:double(), z:float():double()), true)
      t.eq(mt.equal(z:neg():neg(), z), true)
      t.eq(mt.equal((z + z):float(), z:float() * 2), true)
    end
    t.eq(mt.tensor(1.5):to(dtype):float():item(), 1.5)
  end
end)

t.test('promotion', function()
  local types = {bool = mt.tensor({true}), uint8 = mt.ones({1}, 'uint8'), int32 = mt.ones({1}, 'int32'),
    int64 = mt.ones({1}, 'int64'), float16 = mt.ones({1}, 'float16'), bfloat16 = mt.ones({1}, 'bfloat16'),
    float32 = mt.ones({1}), float64 = mt.ones({1}, 'float64')}
  local function both(a, b, expected)
    t.eq((types[a] + types[b]).dtype, expected)
    t.eq((types[b] * types[a]).dtype, expected)
    t.eq(mt.cat({types[a], types[b]}).dtype, expected)
  end
  for _, h in ipairs(halves) do
    for _, d in ipairs {'bool', 'uint8', 'int32', 'int64'} do both(h, d, h) end
    both(h, 'float32', 'float32')
    both(h, 'float64', 'float64')
    both(h, h, h)
    t.eq((types[h] + 1).dtype, h)
    t.eq((1.5 - types[h]).dtype, h)
    t.eq((types[h] + mt.tensor(1.5)).dtype, h) -- 0-d tensors do not promote
    t.eq((types.int64 + mt.tensor(1.5, {dtype = h})).dtype, h)
    t.eq(types[h]:lt(1).dtype, 'bool')
    t.eq(types[h]:sum().dtype, h)
    t.eq(types[h]:sum{dtype = 'float32'}.dtype, 'float32')
    t.eq(types[h]:mean{dtype = 'float32'}.dtype, 'float32')
    t.eq(mt.where(types[h]:gt(0), types[h], 0.1).dtype, h)
  end
  both('float16', 'bfloat16', 'float32')
end)

t.test('elementwise operations are those of PyTorch', function()
  local x = mt.tensor({0.1, 1.5, -2.25, 3.0}, {dtype = 'float16'})
  local y = x:bfloat16()
  t.eq(x:lt(0.1):tolist(), {false, false, true, false}) -- a number becomes float16 first
  t.eq(x:eq(0.1):tolist(), {true, false, false, false})
  t.eq(y:ge(0.1):tolist(), {true, true, false, true})
  t.eq((x + 0.1):tolist(), {0.199951171875, 1.599609375, -2.150390625, 3.099609375})
  t.eq((y + 0.1):tolist(), {0.2001953125, 1.6015625, -2.15625, 3.09375})
  t.eq((x * 0.1):tolist(), {0.0099945068359375, 0.1500244140625, -0.2249755859375, 0.300048828125})
  t.eq((0.1 - x):tolist(), {0, -1.400390625, 2.349609375, -2.900390625})
  t.eq((x / 0.3):tolist(), {0.333251953125, 5.0, -7.5, 10.0})
  t.eq((x % 0.3):tolist(), {0.0999755859375, 0.2998046875, 0.150390625, 0.299560546875})
  close(x:abs() ^ 2.3, {0.005001068115234375, 2.541015625, 6.4609375, 12.5234375}, 'float16')
  t.eq(x:clamp(0.1, 2.3):tolist(), {0.0999755859375, 1.5, 0.0999755859375, 2.30078125})
  t.eq(mt.where(x:gt(0), x, 0.1):tolist(), {0.0999755859375, 1.5, 0.0999755859375, 3})
  local odd = mt.tensor({math.huge, -math.huge, 0 / 0})
  t.eq(odd:half():nan_to_num():tolist(), {65504, -65504, 0})
  t.eq(odd:bfloat16():nan_to_num():tolist(), {0x1.fep127, -0x1.fep127, 0})
  t.eq(odd:half():nan_to_num(1, 2, 3):tolist(), {2, 3, 1})
  t.eq(mt.tensor({60000}, {dtype = 'float16'}):mul(2):item(), math.huge)
  t.eq(mt.tensor({1.8301}, {dtype = 'float16'}):round(2):item(), 1.830078125) -- divided by 100 in float32
  local g = mt.linspace(-2, 2, 6):reshape(2, 3)
  local expected = {
    float16 = {exp = {0.1353759765625, 0.301025390625, 0.67041015625, 1.4912109375, 3.3203125, 7.390625},
      tanh = {-0.9638671875, -0.83349609375, -0.3798828125, 0.3798828125, 0.83349609375, 0.9638671875},
      sigmoid = {0.11920166015625, 0.2314453125, 0.4013671875, 0.5986328125, 0.7685546875, 0.880859375},
      gelu = {-0.045501708984375, -0.1380615234375, -0.1378173828125, 0.26220703125, 1.0625, 1.9541015625}},
    bfloat16 = {exp = {0.1357421875, 0.30078125, 0.671875, 1.4921875, 3.328125, 7.375},
      tanh = {-0.96484375, -0.8359375, -0.380859375, 0.380859375, 0.8359375, 0.96484375},
      sigmoid = {0.119140625, 0.23046875, 0.400390625, 0.59765625, 0.76953125, 0.87890625},
      gelu = {-0.04541015625, -0.1376953125, -0.1376953125, 0.26171875, 1.0625, 1.953125}}}
  for _, dtype in ipairs(halves) do
    for name, values in pairs(expected[dtype]) do
      close(mt[name](g:to(dtype)), values, dtype)
      close(mt[name](g:t():contiguous():t():to(dtype)), values, dtype)
    end
    local a = g:to(dtype):clone()
    a:add_(1):mul_(0.5):relu_()
    t.eq(mt.equal(a, ((g:to(dtype) + 1) * 0.5):relu()), true)
    a[1] = 0.1
    t.eq(a[1]:tolist(), mt.full({3}, 0.1, {dtype = dtype}):tolist())
    a:add_(mt.ones(3) * 0.5) -- a float32 operand, in place
    t.eq(a.dtype, dtype)
  end
end)

t.test('every elementwise operation equals its float32 form, rounded once', function()
  mt.manual_seed(5)
  for _, dtype in ipairs(halves) do
    local x, y = (mt.rand(7, 33) * 3 + 0.1):to(dtype), (mt.rand(7, 33) * 2 + 0.1):to(dtype)
    for _, name in ipairs {'abs', 'sqrt', 'rsqrt', 'sin', 'log', 'erf', 'softplus', 'floor', 'round', 'sign', 'silu',
      'lgamma', 'isnan', 'signbit', 'reciprocal', 'square', 'expm1', 'atan', 'logsigmoid'} do
      local whole = mt[name](x)
      local want = mt[name](x:float())
      t.eq(mt.equal(whole, want.dtype == 'bool' and want or want:to(dtype)), true)
      t.eq(mt.equal(mt[name](x:t()), whole:t()), true)
      t.eq(mt.equal(mt[name](x[{{}, {1, 33, 4}}]), whole[{{}, {1, 33, 4}}]), true)
    end
    for _, name in ipairs {'add', 'sub', 'mul', 'div', 'pow', 'fmod', 'remainder', 'maximum', 'minimum', 'atan2',
      'hypot', 'lt', 'ge', 'ne', 'copysign', 'xlogy', 'floor_divide', 'logaddexp'} do
      local want = mt[name](x:float(), y:float())
      t.eq(mt.equal(mt[name](x, y), want.dtype == 'bool' and want or want:to(dtype)), true)
      t.eq(mt.equal(mt[name](x, y[{{}, {5}}]), mt[name](x, y[{{}, {5}}]:contiguous():expand(7, 33):contiguous())), true)
      t.eq(mt.equal(mt[name](x[3], y), mt[name](x[3]:expand(7, 33):contiguous(), y)), true)
    end
    local quarter = mt.full({7, 33}, 0.25)
    t.eq(mt.equal(mt.lerp(x, y, quarter:to(dtype)), mt.lerp(x:float(), y:float(), quarter):to(dtype)), true)
    t.eq(mt.equal(mt.addcmul(x, x, y, 0.5), mt.addcmul(x:float(), x:float(), y:float(), 0.5):to(dtype)), true)
    t.eq(mt.equal(mt.where(x:gt(y), x, y), mt.maximum(x, y)), true)
  end
  local one = mt.ones({1}, 'float16')
  t.raises(function() mt.bitwise_and(one, one) end, 'float16 numbers have no bitwise operations')
end)

t.test('neg, abs and where leave all bits but the sign as they are, those of NaN too', function()
  local bytes = {}
  for h = 0, 65535 do bytes[h + 1] = string.char(h % 256, math.floor(h / 256)) end
  for _, dtype in ipairs(halves) do
    local x = mt.frombuffer(table.concat(bytes), {dtype = dtype})
    local minus, size, chosen = mt.neg(x), mt.abs(x), mt.where(x:gt(1), x, mt.neg(x))
    local from, neg, abs, picked = x:data(), minus:data(), size:data(), chosen:data()
    for i = 0, 65535 do
      local other = (from[i] + 0x8000) % 0x10000
      if neg[i] ~= other or abs[i] ~= from[i] % 0x8000 or not (picked[i] == from[i] or picked[i] == other) then
        error(('%s 0x%04x'):format(dtype, from[i]))
      end
    end
    t.eq(mt.equal(mt.neg(x[{{1, 31000, 3}}]), minus[{{1, 31000, 3}}]), true)
    t.eq(mt.equal(mt.where(x[{{1, 30000}}]:gt(1), x[{{1, 30000}}], 3), x[{{1, 30000}}]:masked_fill(
      x[{{1, 30000}}]:le(1), 3)), true)
  end
end)

t.test('reductions of any layout are those of float32, rounded once', function()
  mt.manual_seed(6)
  local function same(x, dims, names)
    for _, name in ipairs(names) do
      local y, want = mt[name](x, dims), mt[name](x:float(), dims)
      t.eq(mt.equal(y, want.dtype == 'float32' and want:to(x.dtype) or want), true)
    end
  end
  local shapes = {{3, 40000}, {40000, 3}, {70, 1100}, {9, 33, 65}}
  if t.on_gpu() then shapes = {{3, 700}, {700, 3}, {17, 300}, {3, 33, 17}} end
  for _, dtype in ipairs(halves) do
    for _, shape in ipairs(shapes) do
      local given = mt.rand(shape):sub(0.3):to(dtype)
      for _, x in ipairs {given, given:transpose(1, 2), given:transpose(1, -1), given:flip(1)[{{1, -1, 2}}]} do
        for d = 1, x:dim() do
          same(x, d, {'sum', 'amax', 'argmin', 'count_nonzero', 'var', 'logsumexp'})
        end
        same(x, {1, 2}, {'sum', 'amin', 'var'})
        local values, places = x:max(2)
        local want, at = x:float():max(2)
        t.eq(mt.equal(values, want:to(dtype)) and mt.equal(places, at), true)
      end
    end
    t.eq(mt.zeros({0, 3}, dtype):sum(1):tolist(), {0, 0, 0})
  end
end)

t.test('products with few rows or columns read the large operand as it is stored', function()
  if t.on_gpu() then return end
  mt.manual_seed(9)
  local before = mt.get_num_threads()
  for _, dtype in ipairs(halves) do
    for _, s in ipairs {{1, 64, 3000}, {3, 301, 700}, {12, 1024, 513}, {700, 300, 5}, {1030, 515, 12}} do
      local x, w = mt.randn(s[1], s[2]):to(dtype), mt.randn(s[3] + 3, s[2] + 5):to(dtype)[{{4, -1}, {6, -1}}]
      if s[3] < 512 then w = mt.randn(s[2], s[3]):to(dtype):t() end
      local bias = mt.randn(s[3]):to(dtype)
      local y, exact = x:matmul(w:t()), x:double():matmul(w:double():t())
      t.eq(y:allclose(exact:to(dtype), {rtol = dtype == 'float16' and 2 ^ -10 or 2 ^ -7, atol = 1e-4}), true)
      t.eq(mt.linear(x, w, bias):allclose((exact + bias:double()):to(dtype), {rtol = 2 ^ -7, atol = 2e-2}), true)
      for threads = 1, 3 do
        mt.set_num_threads(threads)
        t.eq(x:matmul(w:t()):equal(y), true)
      end
      mt.set_num_threads(before)
      for _, v in ipairs((require('mtorch.core').verbs_call(function() x:matmul(w:t()) end))) do
        t.eq(v.text:find(('copy %s to float32'):format(dtype), 1, true), nil)
      end
      x[1] = 0 / 0
      t.eq({x:matmul(w:t())[1]:isnan():all(), x:matmul(w:t())[{{2, -1}}]:isnan():any()}, {true, false})
    end
  end
end)

t.test('reductions and scans round once', function()
  local x = mt.tensor({0.1, 1.5, -2.25, 3.0}, {dtype = 'float16'})
  t.eq(x:sum():item(), 2.349609375)
  close(x:cumsum(1), {0.0999755859375, 1.599609375, -0.64990234375, 2.349609375}, 'float16')
  t.eq(x:prod():item(), -1.0126953125) -- -1.01225; PyTorch rounds each product
  t.eq(x:mean():item(), 0.58740234375)
  t.eq(x:var():item(), 4.98046875)
  t.eq(x:norm():item(), 4.0390625)
  close(x:softmax(1), {0.042877197265625, 0.173828125, 0.00408935546875, 0.779296875}, 'float16')
  t.eq(x:logsumexp(1):item(), 3.25)
  t.eq(mt.ones({70000}, 'float16'):sum():item(), math.huge)
  t.eq(mt.ones({70000}, 'float16'):mean():item(), 1) -- the sum inside is float32
  t.eq(mt.full({1000}, 0.1, 'bfloat16'):sum():item(), 100)
  t.eq(mt.full({1000}, 300, 'float16'):norm():item(), 9488) -- the squares are float32
  t.eq(select(2, x:max(1)):item(), 4)
  t.eq(x:argmin():item(), 3)
  t.eq(x:amax():item(), 3)
  t.eq(x:count_nonzero():item(), 4)
  t.eq(x:any(), true)
  t.eq(x:sort():tolist(), {-2.25, 0.0999755859375, 1.5, 3})
  t.eq(select(2, x:topk(2)):tolist(), {4, 2})
  t.eq(x:median():item(), 0.0999755859375)
  t.eq((x:cummax(1)):tolist(), {0.0999755859375, 1.5, 1.5, 3})
  t.eq(mt.searchsorted(x:sort(), mt.tensor({1.5, 0}, {dtype = 'float16'})):tolist(), {3, 2})
  t.eq(mt.isin(x, mt.tensor({1.5, 3}, {dtype = 'bfloat16'})):tolist(), {false, true, false, true})
  t.eq(x:unique():tolist(), {-2.25, 0.0999755859375, 1.5, 3})
  local g = mt.linspace(-2, 2, 6):reshape(2, 3)
  t.eq(g:half():std():item(), 1.4970703125)
  t.eq(g:bfloat16():std():item(), 1.5)
  t.eq(g:half():var(2):tolist(), {0.64013671875, 0.64013671875})
  t.eq(g:bfloat16():var(2):tolist(), {0.640625, 0.640625})
end)

t.test('movement, positions, masks', function()
  for _, dtype in ipairs(halves) do
    local x = mt.range(1, 24, {dtype = dtype}):reshape(4, 6)
    local w = x:float()
    local function same(a, b)
      t.eq(a.dtype, dtype)
      t.eq(a:tolist(), b:tolist())
    end
    same(x:t():contiguous(), w:t())
    same(x[{{}, {2, 6, 2}}]:clone(), w[{{}, {2, 6, 2}}])
    same(x:flip(1), w:flip(1))
    same(x:roll(1, 2), w:roll(1, 2))
    same(mt.cat({x, x}, 2), mt.cat({w, w}, 2))
    same(mt.stack({x, x}), mt.stack({w, w}))
    same(x[mt.tensor({3, 1}, {dtype = 'int64'})], w[mt.tensor({3, 1}, {dtype = 'int64'})])
    same(x[x:gt(7)], w[w:gt(7)])
    same(x:gather(2, mt.ones({4, 2}, 'int64')), w:gather(2, mt.ones({4, 2}, 'int64')))
    local columns = mt.tensor({6, 2}, {dtype = 'int64'})
    same(x:index_select(2, columns), w:index_select(2, columns))
    same(x:masked_fill(x:lt(5), 0), w:masked_fill(w:lt(5), 0))
    same(x:tril(), w:tril())
    same(x:pad({1, 1}), w:pad({1, 1}))
    same(x:repeat_interleave(2, 1), w:repeat_interleave(2, 1))
    local y, v = x:clone(), w:clone()
    y[{2, {1, 3}}], v[{2, {1, 3}}] = 0, 0
    y[mt.tensor({1, 4}, {dtype = 'int64'})], v[mt.tensor({1, 4}, {dtype = 'int64'})] = 9, 9
    y[y:gt(15)], v[v:gt(15)] = -1, -1
    same(y, v)
    local at = mt.tensor({1, 1, 3, 1}, {dtype = 'int64'})
    local source = mt.tensor({{.1, 1}, {.2, 1}, {.3, 1}, {2049, 1}}, {dtype = dtype})
    close(mt.zeros({3, 2}, dtype):index_add(1, at, source),
      {2048, 3, 0, 0, dtype == 'float16' and 0.300048828125 or 0.30078125, 1}, dtype)
    same(mt.zeros({3, 2}, dtype):scatter_reduce(1, at:unsqueeze(2):expand(4, 2), source:clamp(0, 4), 'amax'),
      mt.zeros(3, 2):scatter_reduce(1, at:unsqueeze(2):expand(4, 2), source:float():clamp(0, 4), 'amax'))
    same(mt.embedding(mt.tensor({2, 4}, {dtype = 'int64'}), x), mt.embedding(mt.tensor({2, 4}, {dtype = 'int64'}), w))
    t.eq(mt.equal(x, w), true)
    t.eq(mt.allclose(x, w * 1.0001, {rtol = 1e-3}), true)
    t.eq(x:nonzero():tolist(), w:nonzero():tolist())
  end
end)

t.test('products, layers, convolutions', function()
  local g, w = mt.linspace(-2, 2, 6):reshape(2, 3), mt.linspace(-1, 1, 12):reshape(4, 3)
  local bias = mt.tensor({.1, .2, .3, .4})
  local image, kernel = mt.linspace(-1, 1, 32):reshape(1, 2, 4, 4), mt.linspace(-1, 1, 16):reshape(2, 2, 2, 2)
  local expected = {
    float16 = {
      product = {3.236328125, 1.2724609375, -0.69091796875, -2.654296875, -2.654296875, -0.69091796875, 1.2724609375,
        3.236328125},
      da = {-11.1328125, -10.7109375, -10.2890625, 10.2890625, 10.7109375, 11.1328125},
      db = {-15.0703125, -14.140625, -13.203125, -5.640625, -4.7109375, -3.78125, 3.78125, 4.7109375, 5.640625,
        13.203125, 14.140625, 15.0703125},
      linear = {3.3359375, 1.47265625, -0.390869140625, -2.25390625, -2.5546875, -0.490966796875, 1.5732421875,
        3.63671875},
      ce = 1.3017578125, mse = 1.8671875,
      conv = {2.6328125, 2.357421875, 2.08203125, 1.53125, 1.255859375, 0.98046875, 0.430419921875, 0.1551513671875,
        -0.12017822265625, -0.12017822265625, 0.1551513671875, 0.430419921875, 0.98046875, 1.255859375, 1.53125,
        2.08203125, 2.357421875, 2.6328125},
      pool = {-0.8388671875, -0.7099609375, -0.322509765625, -0.1934814453125, 0.1934814453125, 0.322509765625,
        0.7099609375, 0.8388671875}},
    bfloat16 = {
      product = {3.234375, 1.2734375, -0.69140625, -2.65625, -2.65625, -0.69140625, 1.2734375, 3.234375},
      da = {-11.125, -10.6875, -10.3125, 10.3125, 10.6875, 11.125},
      db = {-15.0625, -14.1875, -13.1875, -5.65625, -4.71875, -3.78125, 3.78125, 4.71875, 5.65625, 13.1875, 14.1875,
        15.0625},
      linear = {3.34375, 1.4765625, -0.392578125, -2.25, -2.5625, -0.4921875, 1.578125, 3.640625},
      ce = 1.296875, mse = 1.8671875,
      conv = {2.625, 2.359375, 2.078125, 1.53125, 1.2578125, 0.98046875, 0.431640625, 0.15625, -0.119140625,
        -0.119140625, 0.15625, 0.431640625, 0.98046875, 1.2578125, 1.53125, 2.078125, 2.359375, 2.625},
      pool = {-0.8359375, -0.7109375, -0.322265625, -0.193359375, 0.193359375, 0.322265625, 0.7109375, 0.8359375}}}
  for _, dtype in ipairs(halves) do
    local want = expected[dtype]
    local a, b = g:to(dtype):requires_grad_(), w:to(dtype):requires_grad_()
    local o = a:matmul(b:t())
    t.eq(list(o), want.product)
    t.eq(mt.equal(mt.bmm(a:unsqueeze(1), b:t():unsqueeze(1)):squeeze(1), o), true)
    t.eq(mt.equal(mt.einsum('ij,kj->ik', a, b), o), true);
    (o * o):sum():backward()
    t.eq(a.grad.dtype, dtype)
    t.eq(list(a.grad), want.da)
    t.eq(list(b.grad), want.db)
    t.eq(list(mt.linear(a, b, bias:to(dtype))), want.linear)
    close(mt.conv2d(image:to(dtype), kernel:to(dtype)), want.conv, dtype)
    close(mt.avg_pool2d(image:to(dtype), 2), want.pool, dtype)
    t.eq(list(mt.max_pool2d(image:to(dtype), 2)), list(mt.max_pool2d(image:to(dtype):float(), 2)))
    close(mt.cross_entropy(a, mt.tensor({1, 3}, {dtype = 'int64'})), {want.ce}, dtype)
    close(mt.mse_loss(a, mt.zeros({2, 3}, dtype)), {want.mse}, dtype)
    local n = mt.layer_norm(a:float(), {3}):to(dtype)
    t.eq(mt.equal(mt.layer_norm(a, {3}), n), true)
    t.eq(mt.layer_norm(a, {3}, mt.ones(3)).dtype, 'float32')
  end
  -- a batch that broadcasts, vectors
  local x, y = mt.randn(3, 2, 5):half(), mt.randn(5, 4):half()
  t.eq(mt.equal(x:matmul(y), x:float():matmul(y:float()):half()), true)
  t.eq(mt.equal(y:t():matmul(x[1][1]), y:float():t():matmul(x[1][1]:float()):half()), true)
  t.eq(x:matmul(y:float()).dtype, 'float32')
  t.raises(function() mt.linalg.inv(mt.eye(2, {dtype = 'float16'})) end, 'inv: float16 matrices are not supported')
  t.raises(function() mt.linalg.svd(mt.eye(2, {dtype = 'bfloat16'})) end, 'bfloat16 matrices are not supported')
end)

t.test('gradients have the dtype of their tensors and the values of float32, rounded', function()
  mt.manual_seed(11)
  local functions = {
    function(x) return (x * 0.3):tanh():sum() end,
    function(x) return x:softmax(2):square():sum() end,
    function(x) return mt.log_softmax(x, 2):mean() end,
    function(x) return mt.layer_norm(x, {5}):square():sum() * 0.1 end,
    function(x) return (x:std(2) + x:norm(2, 2) + x:logsumexp(2)):sum() end,
    function(x) return x:cumsum(2):mean() + x:amax() + x:max(2):sum() end,
    function(x) return (x:sort(2):select(2, 1) * 2):sum() end,
    function(x) return mt.cross_entropy(x, mt.tensor({1, 3, 5, 2}, {dtype = 'int64'})) end,
    function(x) return x[mt.tensor({1, 1, 3}, {dtype = 'int64'})]:exp():sum() end,
    function(x) return mt.where(x:gt(0), x, x * 0.1):sum() end,
    function(x) return mt.gelu(x):prod(2):sum() end,
    function(x) return (x:float() * 2):to(x.dtype):sum() end,
    function(x) return mt.interpolate(x:reshape(1, 1, 4, 5), {scale_factor = 2}):mean() end,
  }
  for _, dtype in ipairs(halves) do
    for i, f in ipairs(functions) do
      local x = mt.randn(4, 5):to(dtype)
      local a, b = x:clone():requires_grad_(), x:float():requires_grad_()
      local y = f(a)
      t.eq(y.dtype, dtype)
      y:backward()
      f(b):backward()
      t.eq(a.grad.dtype, dtype)
      local unit = dtype == 'float16' and 2e-3 or 2e-2
      local error = (a.grad:float() - b.grad):abs():amax():item()
      if error > unit * math.max(1, b.grad:abs():amax():item()) * 2 then
        assert(false, ('function %d in %s: the gradient is %g away'):format(i, dtype, error))
      end
    end
    -- of gradients, in + - * / beside a number, which stays float32
    local x = mt.tensor({0.5, 2}, {dtype = dtype}):requires_grad_()
    local g = mt.grad((x * 0.3 * x / 0.7):sum(), x, {create_graph = true})
    t.eq(g.dtype, dtype)
    local h = mt.grad(g:sum(), x)
    t.eq(h.dtype, dtype)
    t.near(h:tolist(), {6 / 7, 6 / 7}, dtype == 'float16' and 1e-3 or 1e-2)
  end
end)

t.test('random numbers', function()
  for _, dtype in ipairs(halves) do
    mt.manual_seed(1)
    local u = mt.rand({100000}, dtype)
    t.eq(u.dtype, dtype)
    t.eq(u:amax():item() < 1, true)
    t.eq(u:amin():item(), 0)
    t.near(u:float():mean():item(), 0.5, 0.01)
    mt.manual_seed(1)
    local a = mt.randn({1000}, dtype)
    mt.manual_seed(1)
    t.eq(mt.equal(a, mt.randn(1000):to(dtype)), true)
    t.eq(mt.randint(1, 6, {100}, {dtype = dtype}):amax():item(), 6)
    local z = mt.zeros({50000}, dtype):normal_(1, 2)
    t.near(z:float():mean():item(), 1, 0.05)
    t.near(mt.full({50000}, 0.01, dtype):bernoulli():float():mean():item(), 0.01, 0.004)
    t.eq(mt.dropout(mt.ones({1000}, dtype), 0.5).dtype, dtype)
  end
end)

--- Returns points and labels that are not linearly separable.
local function ring(n)
  mt.manual_seed(4)
  local x = mt.randn(n, 2)
  return x, x:square():sum(2):lt(1.4):float():unsqueeze(2)
end

local function accuracy(net, x, y) return ((net(x):float():gt(0)):eq(y:gt(0.5))):float():mean():item() end

t.test('an MLP trained in bfloat16, by every optimizer', function()
  local x, y = ring(256)
  x, y = x:bfloat16(), y:bfloat16()
  local optimizers = require('mtorch.core').optimizers()
  for i = 1, #optimizers, t.on_gpu() and 3 or 1 do
    local name = optimizers[i].name
    local options = ({SGD = {lr = 0.5, momentum = 0.9}, RMSprop = {lr = 0.01}, Adagrad = {lr = 0.2},
      Adadelta = {lr = 10}, Lion = {lr = 0.005}})[name] or {lr = 0.02}
    mt.manual_seed(2)
    local net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)):bfloat16()
    local opt = optim[name](net:parameters(), options)
    for _ = 1, 150 do
      opt:zero_grad()
      mt.binary_cross_entropy_with_logits(net(x), y):backward()
      opt:step()
    end
    for _, p in ipairs(net:parameters()) do t.eq({p.dtype, p.grad.dtype}, {'bfloat16', 'bfloat16'}) end
    if accuracy(net, x, y) < 0.95 then assert(false, name .. ' reached only ' .. accuracy(net, x, y)) end
  end
end)

t.test('a state in float32 resumes in another optimizer', function()
  local p = mt.tensor({1, 2}, {dtype = 'bfloat16'}):requires_grad_()
  local opt = optim.Adam({p}, {lr = 0.5})
  local function step(o)
    o:zero_grad();
    (p * p):sum():backward()
    o:step()
  end
  step(opt)
  t.eq(opt:state_dict()[1].state[1].exp_avg.dtype, 'float32')
  local kept = p:detach():clone()
  local other = optim.Adam({p}, {lr = 0.5}):load_state_dict(opt:state_dict())
  step(opt)
  local once = p:tolist()
  mt.no_grad(function() p:copy_(kept) end)
  step(other)
  t.eq(p:tolist(), once)
end)

t.test('a gradient of 0 moves nothing, though eps is 0 in float16', function()
  for _, name in ipairs {'SGD', 'Adam', 'AdamW', 'RMSprop'} do
    local p = mt.tensor({1, 2}, {dtype = 'float16'}):requires_grad_()
    local opt = optim[name]({p}, {lr = 0.5, weight_decay = 0})
    for _ = 1, 2 do
      opt:zero_grad();
      (p * 0):sum():backward()
      opt:step()
    end
    t.eq(p:tolist(), {1, 2})
  end
end)

local on_cpu = mt.zeros(1).device == 'cpu'
local autocast_dtype = on_cpu and 'bfloat16' or 'float16'

t.test('autocast: which type each operation runs in', function()
  local x, w = mt.randn(2, 3), mt.randn(4, 3)
  local seen = {}
  local result, second = mt.autocast(function(a, b)
    seen.linear = mt.linear(a, b).dtype
    seen.matmul = a:matmul(b:t()).dtype
    seen.operator = (a + a).dtype
    seen.einsum = mt.einsum('ij,kj->ik', a, b).dtype
    seen.einsum_list = mt.einsum('ij,kj->ik', {a, b}).dtype
    seen.conv = mt.conv2d(mt.randn(1, 1, 4, 4), mt.randn(1, 1, 2, 2)).dtype
    seen.lstm = nn.LSTM(3, 2)(a:unsqueeze(1)).dtype
    seen.double = a:double():matmul(b:t():double()).dtype
    local low = mt.linear(a, b)
    seen.relu = low:relu().dtype
    seen.softmax = low:softmax(1).dtype
    seen.exp = low:exp().dtype
    seen.pow = (low ^ 2).dtype
    seen.sum = low:sum().dtype
    seen.mean = low:mean().dtype
    seen.norm = low:norm().dtype
    seen.loss = mt.mse_loss(low, low).dtype
    seen.ce = mt.cross_entropy(low, mt.tensor({1, 2}, {dtype = 'int64'})).dtype
    seen.pool = mt.avg_pool2d(mt.conv2d(mt.randn(1, 1, 4, 4), mt.randn(1, 1, 2, 2)), 2).dtype
    seen.mixed = (low + mt.randn(2, 4)).dtype
    seen.off = mt.autocast{function() return mt.linear(a, b).dtype end, enabled = false}
    seen.nested = mt.autocast{function(v) return mt.linear(v, b).dtype end, a, dtype = 'float16'}
    seen.other = mt.autocast{function() return mt.linear(a, b).dtype end, enabled = false, device = 'cuda'}
    seen.again = mt.linear(a, b).dtype
    seen.on = mt.is_autocast_enabled()
    return 1, b
  end, x, w)
  local low = autocast_dtype
  t.eq(seen, {linear = low, matmul = low, operator = 'float32', einsum = low, einsum_list = low, conv = low,
    lstm = low,
    double = 'float64', relu = low, softmax = 'float32', exp = 'float32', pow = 'float32', sum = 'float32',
    mean = 'float32', norm = 'float32', loss = 'float32', ce = 'float32', pool = low, mixed = 'float32',
    off = 'float32', nested = 'float16', other = on_cpu and low or 'float32', again = low, on = true})
  t.eq(result, 1)
  t.eq(second == w, true)
  t.eq(mt.is_autocast_enabled(), false)
  t.raises(function() mt.is_autocast_enabled('gpu') end, "device is 'gpu'; use 'cpu' or 'cuda'")
  t.eq(mt.linear(x, w).dtype, 'float32')
  t.raises(function() mt.autocast(function() error('oh') end) end, 'oh')
  t.eq(mt.linear(x, w).dtype, 'float32')
  t.eq(coroutine.wrap(function() return mt.autocast(function() return mt.linear(x, w).dtype end) end)(), low)
  -- the script's own list stays as it was
  local operands = {x, w}
  mt.autocast(mt.einsum, 'ij,kj->ik', operands)
  t.eq({operands[1].dtype, operands[2].dtype}, {'float32', 'float32'})
  t.eq(mt.autocast(nn.Linear(3, 1), x).dtype, low)
end)

t.test('autocast: wrong arguments', function()
  t.raises(function() mt.autocast() end, 'autocast')
  t.raises(function() mt.autocast(3) end, "argument 1 'fn' must be a function, got 3")
  t.raises(function() mt.autocast{print, dtype = 'float32'} end,
    "dtype must be 'float16' or 'bfloat16', got the string 'float32'")
  t.raises(function() mt.autocast{print, dype = 'float16'} end, "unknown option 'dype' %(did you mean 'dtype'%?%)")
  t.raises(function() mt.autocast{print, device = 'gpu'} end, "device must be 'cpu' or 'cuda', got the string 'gpu'")
  t.raises(function() mt.autocast{print, enabled = 1} end, 'enabled must be true or false, got 1')
  t.raises(function() mt.autocast({dtype = 'float16'}, print) end, 'options go into one table')
  t.raises(function() mt.zeros({1}, {dtype = 'float8'}) end, "'float8' is not a dtype; use .*'bfloat16'")
end)

t.test('the names in the list of autocast are functions', function()
  -- as bindings/functions/autocast.cpp lists them
  for name in ([[matmul mm bmm mv dot vdot inner addmm addmv baddbmm addbmm linear bilinear einsum tensordot conv1d
    conv2d conv_transpose1d conv_transpose2d conv1d_anchored conv2d_anchored scaled_dot_product_attention exp exp2
    expm1 log log2 log10 log1p pow rsqrt reciprocal acos asin cosh sinh tan erfinv softplus logsigmoid logaddexp
    softmax log_softmax softmin logsumexp sum nansum prod cumsum cumprod layer_norm rms_norm group_norm instance_norm
    avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d interpolate batch_norm glu quantile nanquantile mean
    nanmean var std var_mean std_mean cov norm normalize logcumsumexp cdist cosine_similarity pairwise_distance
    mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits cross_entropy
    nll_loss kl_div margin_ranking_loss hinge_embedding_loss cosine_embedding_loss
    triplet_margin_loss]]):gmatch('%S+') do
    t.eq(type(mt[name]), 'function')
  end
end)

t.test('an MLP under autocast, with a GradScaler', function()
  local x, y = ring(256)
  for _, dtype in ipairs(halves) do
    mt.manual_seed(2)
    local net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    local opt, scaler = optim.Adam(net:parameters(), {lr = 0.02}), mt.GradScaler{growth_interval = 20}
    for _ = 1, 100 do
      opt:zero_grad()
      local loss = mt.autocast{function()
        local out = net(x)
        t.eq(out.dtype, dtype)
        return mt.binary_cross_entropy_with_logits(out, y)
      end, dtype = dtype}
      t.eq(loss.dtype, 'float32')
      scaler:scale(loss):backward()
      t.eq(net[1].weight.grad.dtype, 'float32')
      scaler:step(opt)
      scaler:update()
    end
    for _, p in ipairs(net:parameters()) do t.eq(p.dtype, 'float32') end
    if accuracy(net, x, y) < 0.95 then assert(false, dtype .. ' reached only ' .. accuracy(net, x, y)) end
    t.eq(scaler:get_scale() >= 65536, true)
  end
end)

t.test('recompute runs the second time as the first', function()
  local w = mt.randn(3, 3):requires_grad_()
  local x = mt.randn(2, 3)
  local types = {}
  local y = mt.autocast(function()
    return mt.recompute(function(a)
      local z = a:matmul(w)
      types[#types + 1] = z.dtype
      return z:float():square():sum()
    end, x)
  end)
  y:backward()
  t.eq(types, {autocast_dtype, autocast_dtype})
  t.eq(w.grad.dtype, 'float32')
end)

t.test('GradScaler', function()
  local p = mt.tensor({1, 2}):requires_grad_()
  local opt = optim.SGD({p}, {lr = 1})
  local s = mt.GradScaler{init_scale = 4, growth_factor = 3, backoff_factor = 0.25, growth_interval = 2}
  local function once(factor)
    opt:zero_grad()
    s:scale((p * factor):sum()):backward()
    s:step(opt)
    s:update()
  end
  once(0.5)
  t.eq(p:tolist(), {0.5, 1.5})
  t.eq(s:get_scale(), 4)
  once(0.5)
  t.eq(s:get_scale(), 12) -- the scale grows after two steps
  once(math.huge)
  t.eq(p:tolist(), {0, 1}) -- left out
  t.eq(s:get_scale(), 3)
  once(0 / 0)
  t.eq(s:get_scale(), 0.75)
  t.eq(p:tolist(), {0, 1})
  -- clipping between unscale_ and step
  opt:zero_grad()
  s:scale((p * 8):sum()):backward()
  s:unscale_(opt)
  t.eq(p.grad:tolist(), {8, 8})
  t.raises(function() s:unscale_(opt) end, 'unscale_ a second time')
  p.grad:mul_(0.125)
  s:step(opt)
  t.eq(p:tolist(), {-1, 0})
  t.raises(function() s:step(opt) end, 'step a second time')
  t.raises(function() s:unscale_(opt) end, 'unscale_ after step')
  s:update()
  t.raises(function() s:update() end, 'update before any step')
  local state = s:state_dict()
  t.eq(state, {scale = 0.75, growth_factor = 3, backoff_factor = 0.25, growth_interval = 2, _growth_tracker = 1})
  local other = mt.GradScaler():load_state_dict(state)
  t.eq(other:state_dict(), state)
  other:update(7)
  t.eq(other:get_scale(), 7)
  t.eq(mt.GradScaler():get_scale(), 65536)
  t.eq(s:scale({mt.tensor(2), mt.tensor(4)})[2]:item(), 3)
  local off = mt.GradScaler{enabled = false}
  opt:zero_grad()
  off:scale(p:sum()):backward()
  off:unscale_(opt)
  off:step(opt)
  off:update()
  t.eq(p:tolist(), {-2, -1})
  t.eq({off:get_scale(), off:is_enabled(), next(off:state_dict())}, {1, false})
  local q = mt.tensor({1}, {dtype = 'float16'}):requires_grad_()
  q:sum():backward()
  t.raises(function() mt.GradScaler():unscale_(optim.SGD({q}, {lr = 1})) end, 'the gradient of parameter 1 is float16')
  t.raises(function() mt.GradScaler{backoff_factor = 2} end,
    'backoff_factor must be a number above 0 and below 1, got 2')
  t.raises(function() mt.GradScaler{init_scale = 0} end, 'init_scale must be a finite number above 0, got 0')
  t.raises(function() mt.GradScaler{growth = 3} end, "unknown option 'growth'")
  t.raises(function() mt.GradScaler():step(3) end, 'an optimizer is needed, got 3')
  t.raises(function() mt.GradScaler():scale('a') end, 'scale takes a tensor or a list')
end)

t.test('the same bits with any number of threads', function()
  if t.on_gpu() then return end
  for _, dtype in ipairs(halves) do
    local first
    for _, n in ipairs {1, 2, 3, 8} do
      mt.set_num_threads(n)
      mt.manual_seed(9)
      local x = mt.randn({300, 401}, dtype)
      local y = (x * 0.3 + x:t():contiguous():t()):tanh()
      local all = t.bits({y:sum(2):tolist(), x:matmul(x:t()):sum(1):tolist(), y[{{}, {1, 401, 7}}]:exp():mean():item()})
      first = first or all
      t.eq(all == first, true)
    end
    mt.set_num_threads(1)
  end
end)

t.finish()
