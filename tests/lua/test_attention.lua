-- test_attention.lua -- attention by blocks of queries, multi-head attention and transformer layers
local t = require 'testing'
local mt = require 'mtorch'
local nn = mt.nn
local attend = mt.scaled_dot_product_attention

local function normal(...) return mt.randn({...}, {dtype = 'float64', requires_grad = true}) end

--- Computes attention with all scores in memory.
local function plain(q, k, v, allowed)
  local s = q:matmul(k:transpose(-2, -1)) / math.sqrt(q.shape[q:dim()])
  if allowed then s = s:masked_fill(allowed:logical_not(), -math.huge) end
  local p = s:softmax(-1)
  if allowed then p = mt.where(allowed:any(-1, true), p, 0) end
  return p:matmul(v)
end

--- Asserts that both results and all gradients agree.
local function compare(q, k, v, options, allowed)
  local function run(f)
    q.grad, k.grad, v.grad = nil, nil, nil
    local y = f()
    y:mul(mt.range(1, y:numel()):double():sin():reshape(y.shape)):sum():backward()
    return {y, q.grad, k.grad, v.grad}
  end
  local a = run(function() return attend(q, k, v, options) end)
  local b = run(function() return plain(q, k, v, allowed) end)
  for i = 1, 4 do assert(mt.allclose(a[i], b[i], {rtol = 1e-9, atol = 1e-11}), i) end
end

-- This test is first, because the peak is that of the process.
t.test('memory grows with the length, not with its square', function()
  local function peak(n)
    local q, k, v = mt.randn(1, 1, n, 16):requires_grad_(), mt.randn(1, 1, n, 16):requires_grad_(),
      mt.randn(1, 1, n, 16):requires_grad_()
    collectgarbage()
    collectgarbage()
    local before = mt.memory_stats().allocated
    attend(q, k, v, {is_causal = true}):sum():backward()
    return mt.memory_stats().peak - before
  end
  local less, more = peak(4096), peak(8192)
  assert(more < 2.5 * less, ('%d and %d bytes'):format(less, more))
  assert(more < 24 * 2 ^ 20, more) -- the scores of all queries are 256 MiB
  local mha, x = nn.MultiheadAttention(16, 2, {batch_first = true, dropout = 0.1}), mt.randn(1, 8192, 16)
  local before, padding = mt.memory_stats().allocated, mt.zeros({1, 8192}, {dtype = 'bool'})
  padding[{1, {8000, 8192}}] = true
  mha(x, {is_causal = true, key_padding_mask = padding}):sum():backward()
  assert(mt.memory_stats().peak - before < 24 * 2 ^ 20, mt.memory_stats().peak - before)
end)

t.test('blocks of queries, of heads and of batches', function()
  mt.manual_seed(1)
  for _, sizes in ipairs{{1, 1, 700, 500}, {2, 3, 300, 400}, {5, 4, 200, 150}, {2, 2, 40, 30}} do
    local b, h, l, s = unpack(sizes)
    compare(normal(b, h, l, 6), normal(b, h, s, 6), normal(b, h, s, 5), {})
    compare(normal(b, h, l, 6), normal(b, h, s, 6), normal(b, h, s, 5), {is_causal = true},
      mt.ones({l, s}, {dtype = 'bool'}):tril())
    local keys = mt.rand(b, 1, 1, s):gt(0.3)
    compare(normal(b, h, l, 6), normal(b, h, s, 6), normal(b, h, s, 5), {attn_mask = keys}, keys:expand(b, h, l, s))
    compare(normal(b, h, l, 6), normal(b, h, s, 6), normal(b, h, s, 5), {attn_mask = keys, is_causal = true},
      keys:logical_and(mt.ones({l, s}, {dtype = 'bool'}):tril()))
    local mask = mt.rand(h, l, s):gt(0.5)
    mask[{1, 2}] = false -- a query without an allowed key
    compare(normal(b, h, l, 6), normal(b, h, s, 6), normal(b, h, s, 5),
      {attn_mask = mt.zeros(h, l, s):masked_fill(mask:logical_not(), -math.huge):double()}, mask)
  end
end)

t.test('sizes of the batch that repeat, and inputs that were cut from one product', function()
  mt.manual_seed(2)
  compare(normal(3, 2, 5, 4), normal(2, 7, 4), normal(1, 2, 7, 4), {})
  compare(normal(5, 4), normal(7, 4), normal(7, 3), {})
  compare(normal(2, 1, 3, 5, 4), normal(2, 2, 1, 7, 4), normal(7, 4), {})
  local all = normal(2, 5, 3, 2, 4)
  local function heads(i) return all:select(3, i):transpose(2, 3) end
  attend(heads(1), heads(2), heads(3)):square():sum():backward()
  local given = all.grad
  all.grad = nil
  plain(heads(1), heads(2), heads(3)):square():sum():backward()
  assert(mt.allclose(given, all.grad, {rtol = 1e-10}))
end)

t.test('no keys, or no queries', function()
  t.eq(attend(normal(2, 3, 4), normal(2, 0, 4), normal(2, 0, 5)):abs():sum():item(), 0)
  for _, sizes in ipairs{{0, 2, 3}, {2, 0, 3}, {2, 2, 0}} do
    local b, h, l = unpack(sizes)
    local q, k = normal(b, h, l, 4), normal(b, h, 5, 4)
    local y = attend(q, k, k, {dropout_p = 0.5, is_causal = true})
    t.eq(y.shape, q.shape)
    y:sum():backward()
    t.eq(k.grad:abs():sum():item(), 0)
  end
end)

t.test('gradients of gradients', function()
  mt.manual_seed(3)
  local q, k, v = normal(2, 4, 3), normal(2, 5, 3), normal(2, 5, 2)
  local mask = mt.randn({4, 5}, {dtype = 'float64', requires_grad = true})
  assert(mt.gradgradcheck(function(...) return attend(...) end, {q, k, v}))
  assert(mt.gradgradcheck(function(a, b, c) return attend(a, b, c, {is_causal = true}) end, {q, k, v}))
  assert(mt.gradgradcheck(function(a, b, c, m) return attend(a, b, c, {attn_mask = m}) end, {q, k, v, mask}))
  assert(mt.gradgradcheck(function(a) return attend(a:tanh(), a, a) end, {q}))
end)

t.test('dropout draws the same numbers on the way back', function()
  for _, sizes in ipairs{{2, 3, 10, 7}, {1, 2, 600, 301}} do
    local b, h, l, s = unpack(sizes)
    local q, k, v = normal(b, h, l, 4), normal(b, h, s, 4), normal(b, h, s, 3)
    for _, causal in ipairs{false, true} do
      local function run(a)
        mt.manual_seed(7)
        return attend(a or q, k, v, {dropout_p = 0.4, is_causal = causal})
      end
      local y = run()
      local g = mt.randn(y.shape):double()
      q.grad, v.grad = nil, nil
      local after = mt.get_rng_state()
      y:backward(g)
      assert(mt.get_rng_state() == after) -- backward draws the same numbers and restores the state
      t.near((v.grad * v):sum():item(), (g * y):sum():item(), 1e-8) -- y is linear in v
      local step = mt.randn(q.shape):double() * 1e-6
      local slope = mt.no_grad(function() return ((run(q + step) - run(q - step)) * g):sum():item() / 2 end)
      t.near((q.grad * step):sum():item() / slope, 1, 1e-4)
      assert(not mt.equal(y, attend(q, k, v, {is_causal = causal})))
    end
  end
end)

t.test('16-bit floats and shared heads', function()
  local q, k = mt.randn(1, 4, 6, 8):bfloat16(), mt.randn(1, 2, 6, 8):bfloat16()
  local y = attend(q, k, k, {enable_gqa = true})
  t.eq(y.dtype, 'bfloat16')
  local wide = attend(q:float(), k:float():repeat_interleave(2, 2), k:float():repeat_interleave(2, 2))
  assert(mt.allclose(y:float(), wide, {atol = 2e-2}))
end)

t.test('the same bits with any number of threads', function()
  mt.manual_seed(5)
  local q = mt.randn(2, 2, 300, 16):requires_grad_()
  t.on_threads(function()
    q.grad = nil
    local y = attend(q, q, q, {is_causal = true})
    y:square():sum():backward()
    return y, q.grad
  end)
end)

t.test('multi-head attention: weights on demand, one sequence, initial values', function()
  mt.manual_seed(4)
  local mha = nn.MultiheadAttention(8, 2, {batch_first = true})
  local x = mt.randn(3, 5, 8)
  t.eq(select('#', mha(x)), 1)
  local out, weights = mha(x, x, x, {need_weights = true})
  t.eq(tostring(weights.shape), '(3, 5, 5)')
  assert(mt.allclose(weights:sum(-1), mt.ones(3, 5)))
  assert(mt.allclose(out, mha(x), {atol = 1e-6}))
  t.eq(tostring(select(2, mha(x, {need_weights = true, average_attn_weights = false})).shape), '(3, 2, 5, 5)')
  assert(mt.allclose(mha(x[2]), out[2], {atol = 1e-6}))
  local most = mha.in_proj_weight:abs():max():item()
  assert(most <= math.sqrt(6 / 32) and most > 0.4, most)
  t.eq(mha.in_proj_bias:abs():sum():item() + mha.out_proj.bias:abs():sum():item(), 0)
  t.eq(tostring(nn.MultiheadAttention(8, 2)), 'MultiheadAttention(8, 2 heads)(\n  out_proj: Linear(8 -> 8)  72 ' ..
    'parameters\n)  288 parameters')
end)

t.test('transformer layers: dropout only in training, functions as activation, copies in a stack', function()
  local layer = nn.TransformerEncoderLayer(8, 2, {dim_feedforward = 16, activation = mt.silu})
  local x = mt.randn(5, 3, 8)
  assert(not mt.equal(layer(x), layer(x)))
  layer:eval()
  assert(mt.equal(layer(x), layer(x)))
  local encoder = nn.TransformerEncoder(layer, 2)
  t.eq(#encoder:parameters(), 2 * #layer:parameters())
  assert(mt.equal(encoder.layers[1].linear1.weight, encoder.layers[2].linear1.weight))
  local mask = nn.Transformer.generate_square_subsequent_mask(3)
  t.eq(mask:tolist(), {{0, -math.huge, -math.huge}, {0, 0, -math.huge}, {0, 0, 0}})
  local long = nn.Transformer.generate_square_subsequent_mask(5)
  assert(mt.allclose(encoder(x, {mask = long}), encoder(x, {is_causal = true}), {atol = 1e-5}))
  assert(mt.allclose(encoder(x, long), encoder(x, {mask = long})))
end)

t.test('a query whose keys are all masked gives 0 and clean gradients, with need_weights as without', function()
  local x, bool = mt.randn(2, 3, 8), mt.tensor{{false, true, false}, {true, true, true}}
  local infinite = mt.zeros(3, 3)
  infinite[2] = -math.huge
  for _, options in ipairs{{key_padding_mask = bool}, {attn_mask = infinite}, {attn_mask = infinite:lt(0)}} do
    local mha = nn.MultiheadAttention(8, 2, {batch_first = true})
    local function run(need_weights)
      options.need_weights = need_weights
      mha:zero_grad()
      local y, weights = mha(x, x, x, options)
      y:sum():backward()
      return y:detach(), mha.in_proj_weight.grad:clone(), weights
    end
    local y, grad = run(false)
    local same, same_grad, weights = run(true)
    assert(mt.allclose(same, y, {atol = 1e-5}) and mt.allclose(same_grad, grad, {atol = 1e-5}))
    local row = options.key_padding_mask and weights[2] or weights:select(2, 2)
    t.eq(row:abs():sum():item(), 0)
  end
end)

t.test('what does not fit is one sentence', function()
  local mha, x = nn.MultiheadAttention(8, 2), mt.randn(5, 3, 8)
  t.raises(function() nn.MultiheadAttention(8, 3) end, 'embed_dim, 8, must be a multiple of num_heads, 3')
  t.raises(function() mha(mt.randn(5, 3, 7)) end, 'query is %(5, 3, 7%), expected %(length x batch x 8%)')
  t.raises(function() mha(x, mt.randn(5, 2, 8)) end, 'as %(batch x length x features%)')
  t.raises(function() mha(x, {attn_mask = mt.zeros(4, 5)}) end, 'attn_mask is %(4, 5%), expected %(5 x 5%)')
  t.raises(function() mha(x, {key_padding_mask = mt.zeros(5, 3)}) end, 'key_padding_mask is %(5, 3%), expected')
  t.raises(function() mha(x, {mask = x}) end, "'mask'")
  t.raises(function() nn.TransformerEncoderLayer(8, 2, {activation = 'tanh'}) end, "'relu'")
  t.raises(function() nn.TransformerEncoder({}, 2) end, 'a module is needed')
  t.raises(function() attend(mt.ones({2, 3}, {dtype = 'int64'}), mt.ones(2, 3), mt.ones(2, 3)) end, 'x:float%(%)')
end)

t.finish()
