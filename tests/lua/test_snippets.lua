-- test_snippets.lua -- Notebook pieces ported from PyTorch; the numbers are PyTorch 2.15's
local t = require 'testing'
local mt = require 'mtorch'
local test, eq, near = t.test, t.eq, t.near

test('tensors: products, reductions, fields', function()
  local x = mt.range(0, 15):float():reshape(4, 4)
  x[{{}, 2}] = 0
  eq(x:matmul(x:t())[1]:tolist(), {13, 33, 53, 73})
  eq(x:sum():item(), 92)
  eq(x[{{2, 3}, {1, -1, 2}}]:tolist(), {{4, 6}, {8, 10}})
  eq(x.ndim, 2)
end)

test('gradients: a vector-Jacobian product, twice', function()
  local x = mt.eye(4, 5, {requires_grad = true})
  local out = (x + 1):pow(2):t()
  out:backward(mt.ones_like(out), {retain_graph = true})
  out:backward(mt.ones_like(out))
  eq(x.grad[1]:tolist(), {8, 4, 4, 4, 4})
end)

test('a polynomial fitted to the sine', function()
  local x = mt.linspace(-math.pi, math.pi, 2000, {dtype = 'float64'})
  local y, ps = x:sin(), {}
  for i = 1, 4 do ps[i] = mt.tensor(i / 10, {dtype = 'float64', requires_grad = true}) end
  local loss
  for _ = 1, 2000 do
    loss = (ps[1] + ps[2] * x + ps[3] * x ^ 2 + ps[4] * x ^ 3 - y):pow(2):sum()
    loss:backward()
    mt.no_grad(function()
      for _, p in ipairs(ps) do
        p:sub_(1e-6 * p.grad)
        p.grad = nil
      end
    end)
  end
  near(loss:item(), 8.95634758744853, 1e-9)
  near(ps[4]:item(), -0.09171055946660173, 1e-12)
end)

test('attention by hand is scaled_dot_product_attention', function()
  local base = mt.range(0, 47):double():reshape(2, 4, 6)
  local function part(s) return (base * s):sin():view(2, 4, 2, 3):transpose(2, 3) end
  local q, k, v = part(1), part(.7), part(.3)
  local s = mt.einsum('bhqd,bhkd->bhqk', q, k) / math.sqrt(3)
  local a = s:masked_fill(mt.ones(4, 4):tril():eq(0), -math.huge):softmax(-1)
  near(a[{1, 1, 4}]:tolist(), {.3496, .1890, .1151, .3463}, 5e-5)
  local ref = mt.scaled_dot_product_attention(q, k, v, {is_causal = true})
  eq(a:matmul(v):allclose(ref), true)
end)

test('an image filtered, columns described', function()
  local image = mt.range(0, 35):double():sin():view(1, 1, 6, 6)
  local kernel = mt.tensor({{1, 0, -1}, {2, 0, -2}, {1, 0, -1}}, {dtype = 'float64'})
  local out = mt.conv2d(image, kernel:view(1, 1, 3, 3), {padding = 1})
  near(out[{1, 1, 1}]:tolist(), {-2.3399, -3.0874, 1.6456, 4.8656, 3.6122, -2.0576}, 5e-5)
  local i = mt.range(0, 23):double()
  local A = (i:sin() * 3 + i * .1):reshape(8, 3)
  near(A:std(1):tolist(), {1.9502, 1.7396, 2.9830}, 5e-5)
  local _, S = mt.linalg.svd(A - A:mean(1), {full_matrices = false})
  near(S:tolist(), {9.5346, 4.3153, 0.7529}, 5e-5)
  local X = mt.cat({mt.ones(8, 1, {dtype = 'float64'}), A[{{}, {1, 2}}]}, 2)
  near((mt.linalg.lstsq(X, A[{{}, {3}}])):flatten():tolist(), {.5789, -.7835, 1.2409}, 5e-5)
end)

test('help has fields, topics and names from notebooks', function()
  for _, word in ipairs{'shape', 'dtype', 'grad', 'T', 'autograd', 'slicing', 'item', 'clip'} do
    mt.help(word)
  end
  t.raises(function() mt.help('leaf') end, "see mt.help%('gradients'%)")
end)

t.finish()
