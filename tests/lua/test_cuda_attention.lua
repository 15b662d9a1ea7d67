-- test_cuda_attention.lua -- attention of 16-bit floats by GPU kernels, compared with basic operations in float64
local mt = require 'mtorch'
local t = require 'testing'
t.needs_cuda()
local attend = mt.scaled_dot_product_attention

--- Returns a random tensor on the GPU, and its rounded values in float64.
local function both(dtype, ...)
  local given = mt.randn({...}, {dtype = 'float64'}):to(dtype)
  return given:cuda():requires_grad_(), given:double():requires_grad_()
end
--- Returns how often f called the attention kernels.
local function calls_in(f)
  for _, row in ipairs(mt.profile(f, {quiet = true})) do
    if row.name == 'launch: flash_attention' then return row.calls end
  end
  return 0
end
local tolerance = {bfloat16 = 1.5e-2, float16 = 2e-3}

local function near(got, wanted, dtype, what)
  t.eq(got.dtype, dtype)
  t.eq(tostring(got.shape), tostring(wanted.shape))
  local worst = (got:detach():cpu():double() - wanted):abs():max():item()
  local size = math.max(wanted:abs():max():item(), 0.05)
  assert(worst <= tolerance[dtype] * size, ('%s: off by %g of %g'):format(what, worst, size))
end

--- Asserts that results and gradients agree. `given`: pairs of query, key and value.
local function compare(dtype, given, options, forms)
  local q, k, v = unpack(given)
  local function run(i)
    local inputs = {}
    for n, x in ipairs(given) do inputs[n] = forms and forms[n](x[i]) or x[i] end
    return attend(inputs[1], inputs[2], inputs[3], options)
  end
  local y
  assert(calls_in(function() y = run(1) end) == 1, 'it was composed')
  local wanted = run(2)
  near(y, wanted:detach(), dtype, 'result')
  local g, g64 = both(dtype, unpack(y.shape))
  assert(calls_in(function() y:backward(g:detach()) end) == 1, 'the way back was composed')
  wanted:backward(g64:detach())
  for i, pair in ipairs{q, k, v} do near(pair[1].grad, pair[2].grad, dtype, 'gradient ' .. i) end
end
--- Sizes: batch, heads, key heads, queries, keys, features, features of values.
local function of_sizes(dtype, b, h, s, l, n, e, f)
  return {{both(dtype, b, h, l, e)}, {both(dtype, b, s, n, e)}, {both(dtype, b, s, n, f or e)}}
end

t.test('lengths that fill no tile, features, both dtypes', function()
  mt.manual_seed(1)
  for i, e in ipairs{32, 64, 96, 128} do
    local dtype = i % 2 == 0 and 'bfloat16' or 'float16'
    if i % 2 == 0 then compare(dtype, of_sizes(dtype, 1, 1, 1, 130, 70, e), {is_causal = true})
    else compare(dtype, of_sizes(dtype, 2, 1, 1, 33, 140, e), {})
    end
  end
  compare('float16', of_sizes('float16', 1, 1, 1, 1, 1, 64), {is_causal = true})
  compare('bfloat16', of_sizes('bfloat16', 1, 1, 1, 40, 1, 64), {})
  compare('bfloat16', of_sizes('bfloat16', 1, 1, 1, 20, 20, 8, 24), {is_causal = true, scale = 0.7})
  compare('float16', of_sizes('float16', 1, 1, 1, 20, 200, 104, 72), {})
end)

t.test('heads that share keys and values are not repeated', function()
  mt.manual_seed(2)
  compare('bfloat16', of_sizes('bfloat16', 2, 4, 2, 70, 33, 64), {enable_gqa = true, is_causal = true})
  compare('float16', of_sizes('float16', 1, 3, 1, 40, 70, 128), {enable_gqa = true})
end)

t.test('layouts', function()
  mt.manual_seed(3)
  local all = {both('bfloat16', 2, 37, 3, 2, 32)} -- cut from one product: heads beside the features
  local function part(i) return function(x) return x:select(3, i):transpose(2, 3) end end
  compare('bfloat16', {all, all, all}, {is_causal = true}, {part(1), part(2), part(3)})
  local y = attend(part(1)(all[1]), part(2)(all[1]), part(3)(all[1]))
  assert(y:transpose(2, 3):is_contiguous(), 'the result has another order')
  local function of_three(...) return {{both('float16', ...)}, {both('float16', ...)}, {both('float16', ...)}} end
  local function as_it_is(x) return x end
  compare('float16', of_three(3, 20, 32), {}) -- no batch
  compare('float16', of_three(20, 32), {is_causal = true})
  compare('float16', of_three(1, 2, 32, 20), {}, {function(x) return x:transpose(3, 4) end,
    function(x) return x:transpose(3, 4) end, function(x) return x:transpose(3, 4) end}) -- features are apart
  compare('float16', of_three(1, 2, 20, 33), {}, {function(x) return x[{{}, {}, {}, {2, 33}}] end,
    function(x) return x[{{}, {}, {}, {1, 32}}] end, function(x) return x[{{}, {}, {}, {2, 33}}] end}) -- begin between
  local q = both('float16', 2, 2, 20, 32)
  local k, k64 = both('float16', 1, 2, 20, 32)
  near(attend(q, k:expand(2, 2, 20, 32), k:expand(2, 2, 20, 32)),
    attend(q:detach():cpu():double(), k64:expand(2, 2, 20, 32), k64:expand(2, 2, 20, 32)):detach(), 'float16',
    'expanded')
  local x = of_three(1, 2, 20, 32)
  assert(calls_in(function() attend(x[1][1], x[2][1], x[3][1]):sum():backward() end) == 2) -- an expanded gradient
  attend(x[1][2], x[2][2], x[3][2]):sum():backward()
  near(x[3][1].grad, x[3][2].grad, 'float16', 'gradient of a sum')
  compare('float16', of_three(1, 1, 2, 8), {}, {as_it_is, as_it_is, as_it_is})
end)

t.test('the same bits on every run', function()
  mt.manual_seed(4)
  local q, k, v = both('bfloat16', 1, 2, 70, 64), both('bfloat16', 1, 1, 150, 64), both('bfloat16', 1, 1, 150, 64)
  local function run()
    q.grad, k.grad, v.grad = nil, nil, nil
    local y = attend(q, k, v, {is_causal = true, enable_gqa = true})
    y:square():sum():backward()
    return {t.bits(y), t.bits(q.grad), t.bits(k.grad), t.bits(v.grad)}
  end
  t.eq(run(), run())
end)

t.test('what the kernels do not take is composed', function()
  local function composed(q, k, v, options)
    t.eq(calls_in(function() attend(q, k or q, v or q, options) end), 0)
  end
  local x = both('bfloat16', 2, 2, 20, 32)
  t.eq(calls_in(function() attend(x, x, x) end), 1)
  composed(x, x, x, {attn_mask = mt.ones({20, 20}, {dtype = 'bool', device = 'cuda'})})
  composed(x, x, x, {dropout_p = 0.5})
  composed(x, x, x, {scale = -1})
  composed(x:detach():float())
  composed(x, x:detach():float(), x)
  composed(x, x[{{1}}], x[{{1}}])
  composed((both('bfloat16', 1, 1, 20, 20)))
  composed((both('bfloat16', 1, 1, 20, 136)))
  composed((both('bfloat16', 1, 1, 1, 1, 20, 32)))
  composed((both('bfloat16', 1, 0, 20, 32)))
  t.raises(function() attend(x, x[{{}, {}, {}, {1, 16}}], x) end, 'different last sizes')
  t.raises(function() attend(x, x, x[{{}, {}, {1, 3}}]) end, 'different lengths')
  local three = both('bfloat16', 2, 3, 20, 32)
  t.raises(function() attend(x, three, three, {enable_gqa = true}) end, 'must be a multiple')
end)

t.test('a GPU of before 8.0 composes', function()
  local code = [[
    local x = mt.ones({1, 1, 20, 32}, {dtype = 'float16'}):cuda()
    local calls = 0
    for _, row in ipairs(mt.profile(function() mt.scaled_dot_product_attention(x, x, x) end, {quiet = true})) do
      if row.name == 'launch: flash_attention' then calls = row.calls end
    end
    print('calls: ' .. calls)]]
  if (os.getenv 'MTORCH_CUDA_PLUGIN' or ''):find 'emulated' then
    t.eq(t.run('MTORCH_EMULATED_GPU=turing', code), 'calls: 0\n')
  end
  t.eq(t.run('', code), 'calls: 1\n')
end)

t.test('NaN in a query reaches its row and no other', function()
  mt.manual_seed(5)
  local function input() return (both('float16', 1, 1, 70, 32)):detach() end
  local q, k, v = input(), input(), input()
  q[{1, 1, 3, 1}] = 0 / 0
  local y = attend(q, k, v, {is_causal = true}):cpu()
  for i = 1, 70 do
    local is = y[{1, 1, i}]:isnan()
    t.eq({i, is:any(), is:all()}, {i, i == 3, i == 3})
  end
end)

t.test('gradients of gradients', function()
  mt.manual_seed(6)
  local given = of_sizes('float16', 1, 2, 1, 20, 24, 32)
  local function second(i)
    local q, k, v = given[1][i], given[2][i], given[3][i]
    local y = attend(q, k, v, {is_causal = true, enable_gqa = true})
    local g = mt.grad(y:square():sum(), {q}, {create_graph = true})
    g = type(g) == 'table' and g[1] or g
    g:square():sum():backward()
    return k.grad
  end
  local got, wanted = second(1), second(2)
  tolerance.float16 = 1e-2
  near(got, wanted, 'float16', 'second gradient')
  tolerance.float16 = 2e-3
end)

t.test('steps that are compiled, and graphs', function()
  mt.manual_seed(7)
  local w = both('bfloat16', 1, 2, 40, 32)
  local function step(x)
    w.grad = nil
    local loss = attend(x * w, x, x, {is_causal = true}):float():square():sum()
    loss:backward()
    return loss:detach(), w.grad * 1
  end
  local compiled = mt.compile(step)
  t.eq(t.stderr_of(function()
    for _ = 1, 6 do
      local x = both('bfloat16', 1, 2, 40, 32):detach()
      local a, b = {step(x)}, {compiled(x)}
      for i = 1, 2 do t.eq(t.bits(a[i]), t.bits(b[i])) end
    end
  end), '')
  local x, y = both('float16', 1, 2, 40, 32):detach(), nil
  local g = mt.cuda.graph(function() y = attend(x, x, x) end)
  x:copy_(both('float16', 1, 2, 40, 32):detach())
  g()
  t.eq(t.bits(y), t.bits(attend(x, x, x)))
end)

t.test('autocast, and multi-head attention', function()
  mt.manual_seed(8)
  local mha = mt.nn.MultiheadAttention(64, 2, {batch_first = true}):cuda()
  local x = mt.randn(2, 20, 64):cuda()
  local y
  t.eq(calls_in(function() y = mt.autocast{mha, x, {is_causal = true}, dtype = 'bfloat16'} end), 1)
  local wanted = mha:cpu()(x:cpu(), {is_causal = true})
  assert((y:cpu():float() - wanted):abs():max():item() < 2e-2)
end)
t.finish()
