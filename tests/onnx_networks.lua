-- onnx_networks.lua -- networks and functions that are exported to ONNX and compared: by test_onnx.lua
--
-- Each is {name, net, make, ..}: make(n) gives the inputs for a batch of n. `fixed`: no dynamic axes; `positions`:
-- which inputs, and `places` which outputs, count from 1 here and from 0 in the file; `opset`; `axes`: dynamic axes of
-- the inputs other than the first dimension of each.
local mt = require 'mtorch'
local nn = mt.nn

local networks = {}
local function add(name, net, make, options)
  local case = {name = name, net = net, make = make}
  for key, value in pairs(options or {}) do case[key] = value end
  networks[#networks + 1] = case
end
--- One input of these sizes after the batch's.
local function of(...)
  local sizes = {...}
  return function(n) return {mt.randn(n, unpack(sizes))} end
end

-- ---- functions of the tensor language ----------------------------------------------------------------------

local function f(name, fn, ...) add(name, fn, of(...)) end

f('softmax_by_hand', function(x)
  local e = (x - x:amax({2}, true)):exp()
  return e / e:sum(2, true)
end, 6)
f('unary', function(x)
  local p = x:abs() + 0.5
  return x:neg(), x:sign(), p:reciprocal(), x:square(), p:sqrt(), p:rsqrt(), x:floor(), x:ceil(), (x * 3):round(),
    x:trunc(),
    x:frac(), x:clamp(-0.5, 0.5), x:exp(), x:expm1(), x:exp2(), p:log(), p:log1p(), p:log2(), p:log10(), x:sin(),
      x:cos(),
    x:tan(), x:sinc(), x:tanh():asin(), x:tanh():acos(), x:atan(), x:sinh(), x:cosh(), x:asinh(), (p + 1):acosh(),
    (x:tanh() * 0.9):atanh(), x:erf(), x:erfc(), x:tanh(), x:sigmoid(), x:sigmoid():logit()
end, 6)
f('activations', function(x)
  return mt.relu(x), mt.hardtanh(x), mt.relu6(x * 4), mt.hardsigmoid(x), mt.hardswish(x), mt.threshold(x, 0.1, -1),
    mt.hardshrink(x), mt.softshrink(x), mt.leaky_relu(x, 0.2), mt.elu(x, 1.5), mt.celu(x, 1.5), mt.selu(x), mt.gelu(x),
    mt.gelu(x, 'tanh'), mt.silu(x), mt.softplus(x, 2), mt.logsigmoid(x), mt.mish(x), mt.softsign(x), x:tanhshrink(),
    mt.prelu(x, mt.tensor{0.3}), mt.glu(x, 2), mt.softmin(x, 2), mt.log_softmax(x, 1)
end, 6)
f('binary', function(x)
  local y, p = x:flip{2} + 0.1, x:abs() + 0.5
  return x + y, x - y, x * y, x / y, x % 0.7, p ^ y, 2 - x, 1 / p, x:add(y, 3), x:minimum(y), x:maximum(y), x:atan2(y),
    x:hypot(y), x:copysign(y), x:xlogy(p), x:logaddexp(y), x:floor_divide(p), x:fmod(p), x:div(p, 'trunc'), x:lerp(y,
      0.3),
    x:addcmul(y, p, 0.5), x:addcdiv(y, p), x:heaviside(y), x:remainder(p)
end, 6)
f('comparisons', function(x)
  local y = x:flip{2}
  local a, b = x:lt(y), x:ge(0.3)
  return a, x:le(y), x:gt(y), b, x:eq(x), x:ne(y), a:logical_and(b), a:logical_or(b), a:logical_xor(b), a:logical_not(),
    mt.isnan(x / 0 * 0), mt.isinf(x / 0), mt.isfinite(x), mt.isclose(x, y), a * b, a + b, x:gt(0):float() - b:float()
end, 6)
f('where_and_masks', function(x)
  local mask = x:gt(0)
  local y = x:clone()
  y[x:lt(-0.5)] = -0.5
  return mt.where(mask, x, x * 0.1), x:masked_fill(mask, 7), mt.where(mask, 1, 0), y, mt.nan_to_num(x:log())
end, 6)
f('dtypes', function(x)
  local n = (x * 10):long()
  return n, n + 1, n / 3, n:float() * 0.5, n:int() * n:int(), x:gt(0):long():sum(2), n:remainder(3),
    n:floor_divide(3), x:double() * 2,
    n:gt(2), x:bool(), n:sum(), n:abs():amax({2})
end, 6)
f('reductions', function(x)
  return x:sum(), x:sum(1), x:sum({2, 3}, true), x:mean(), x:mean(-1), x:prod(2), x:amax({2}), x:amin({1, 3}),
    x:max(), x:min(),
    x:var(2), x:std(), x:var({2, 3}, true, 0), x:norm(), x:norm(1, 2), x:norm(3, 3), x:norm(math.huge, 2),
      x:logsumexp(2),
    x:gt(1):any(2), x:gt(-1):all(3), x:count_nonzero(2), x:nansum(1)
end, 4, 5)
add('extremes', function(x)
  local values, places = x:max(2)
  local low, low_places = x:min(3, true)
  return x:argmax(), x:argmax(2), x:argmin(3, true), values, places, low, low_places
end, of(4, 5), {places = {true, true, true, false, true, false, true}})
add('sorting', function(x)
  local values, places = x:sort(2, true)
  local top, top_places = x:topk(3, 3)
  local k, k_place = x:kthvalue(2, 2)
  local m, m_place = x:median(3)
  return values, places, top, top_places, x:argsort(-1), k, k_place, m, m_place, x:msort()
end, of(4, 5), {places = {false, true, false, true, true, false, true, false, true}})
f('scans', function(x)
  return x:cumsum(2), x:cumsum(1), x:cumprod(3), x:logcumsumexp(2), x:diff(1, 3), x:flip{2}:cumsum(2):flip{2}
end, 4, 5)
f('shapes', function(x)
  local n = x.shape[1]
  return x:view(n, 20), x:reshape(-1, 5), x:flatten(2), x:flatten(), x:unflatten(3, {5, 1}), x:unsqueeze(2):squeeze(2),
    x:permute(3, 1, 2), x:transpose(2, 3), x:movedim(1, 3), x:reshape(n * 4, 5):t(), x:unsqueeze(2):expand(n, 3, 4, 5),
    x:tile(1, 2, 1), x:repeat_interleave(2, 2), x:flip{2, 3}, x:roll(2, 3), x:tril(), x:triu(1), x:diagonal(0, 2, 3),
      x.mT,
    x:rot90(1, {2, 3}), mt.pad(x, {1, 2, 0, 1}), mt.pad(x, {2, 1}, 'reflect'), mt.pad(x, {1, 1}, 'circular'),
    x:view(n, 2, 2, 5):sum(2), x:unfold(3, 3, 2), x:swapaxes(1, 2), x:expand(n, 4, 5), x:broadcast_to(2, n, 4, 5)
end, 4, 5)
f('joins', function(x)
  local a, b = x:narrow(3, 1, 2), x:narrow(3, 3, 3)
  local p, q = unpack(x:split(2, 2))
  local c = x:chunk(3, 3)
  local u = x:unbind(2)
  return mt.cat({a, b}, 3), mt.cat({x, x * 2}, 1), mt.stack({x, -x}, 2), p, q, c[1], c[3], u[2], mt.vstack{x, x},
    mt.hstack{x, x},
    mt.stack(u, 2), mt.cat({x:gt(0):float(), x}, -1)
end, 4, 5)
f('indexing', function(x)
  local n, at, one = x.shape[1], mt.tensor({3, 1, 1}, 'int64'), mt.ones({3}, 'int64')
  return x[1], x[-1], x[{ {}, 2}], x[{ {}, {2, 3}}], x[{ {}, {1, -1, 2}, -1}], x[{ {}, {2}, {}}], x[{ {2, -1} }],
    x['..., 2:4'], x[':, None, 1'], x[{mt.ellipsis, 1}], x[{mt.newaxis, 1}], x[{ {}, at}], x[{ {}, at, at}],
    x[{one, {}, at}], x[{ {}, at, {1, 2}}], x:select(2, 3), x:narrow(2, 2, 2), x:slice(3, 1, -1, 2), x[n], x[{ {}, {},
      -2}],
    x:index_select(3, at), x:take(at), x[mt.ones(n):bool()]
end, 4, 5)
f('writing', function(x)
  local y = mt.zeros(x.shape)
  y[{ {}, 2}] = x[{ {}, 1}]
  y[{ {}, {3, 4}, 1}] = 5
  y[{1, 1, 1}] = x:sum()
  local row = y[{ {}, 4}]
  row:mul_(2)
  row:add_(x[{ {}, 1}])
  local z = x:clone()
  z:add_(1):mul_(y)
  local columns = z:view(z.shape[1], 20)
  columns[{ {}, {1, 3}}] = -1
  z:relu_()
  local w = x + 0
  local half = w:narrow(3, 1, 2)
  w:mul_(3)
  return y, row, z, columns, half, w:fill_(2), mt.ones(2, 3):mul_(x:mean())
end, 4, 5)
add('gather_scatter', function(x, at)
  local index = at:expand(at.shape[1], 4)
  local y = mt.zeros(x.shape[1], 6)
  return x:gather(2, at), x:gather(2, index), y:scatter(2, at, x[{ {}, {1, 2}}]), y:scatter_add(2, index, x),
    y:scatter(2, at, 3), x:index_fill(2, mt.tensor({2}, 'int64'), 9), mt.one_hot(at, 6), x:index_add(2, mt.tensor({1,
      1}, 'int64'),
    x[{ {}, {3, 4}}]), x:index_copy(2, mt.tensor({2}, 'int64'), x[{ {}, {1}}]), x:take_along_dim(at, 2),
      y:scatter_reduce(2, index, x, 'sum')
end, function(n) return {mt.randn(n, 4), mt.randint(1, 4, {n, 2})[{ {}, {1}}]} end, {positions = {false, true}})
f('products', function(x)
  local w, v, n = mt.ones(5, 3) * 0.5, mt.range(1, 5):float(), x.shape[1]
  return x:matmul(w), x:matmul(v), x:bmm(x:transpose(2, 3)), x[{ {}, 1}]:mm(w), x[{ {}, 1}]:mv(v), mt.outer(x[{ {}, 1,
    1}], v),
    mt.einsum('bij,jk->bik', x, w), mt.einsum('bij,bkj->bik', x, x), mt.einsum('bii->b', x:matmul(x.mT)),
      mt.addmm(mt.zeros(3), x[1], w, {alpha = 2}),
    mt.baddbmm(x:matmul(x.mT), x, x.mT, {beta = 0.5}), mt.tensordot(x, w, 1), mt.cdist(x, x + 1), mt.inner(x, v),
      mt.kron(x[1], w),
    x:reshape(n * 4, 5):t():matmul(x:reshape(n * 4, 5)), mt.cross(x[{ {}, {}, {1, 3}}], x[{ {}, {}, {2, 4}}], 3),
      mt.linear(x, w:t())
end, 4, 5)
f('similarity', function(x)
  local y = x:flip{2}
  return mt.normalize(x), mt.cosine_similarity(x, y), mt.pairwise_distance(x, y), mt.normalize(x, 1, 3),
    mt.cosine_similarity(x, y, 3)
end, 4, 5)
f('norms_by_function', function(x)
  local w, b = mt.linspace(0.5, 1.5, 4), mt.linspace(-1, 1, 4)
  return mt.layer_norm(x, {5, 5}), mt.layer_norm(x, 5, mt.ones(5) * 2, mt.ones(5)), mt.group_norm(x, 2, w, b),
    mt.instance_norm(x, nil, nil, w, b),
    mt.batch_norm(x, b, w, w, b), mt.rms_norm(x, 5, mt.ones(5) * 2), mt.layer_norm(x, {4, 5, 5}), mt.rms_norm(x, {5, 5})
end, 4, 5, 5)
f('pooling', function(x)
  return mt.max_pool2d(x, 2), mt.max_pool2d(x, 3, 2, 1), mt.avg_pool2d(x, 2), mt.avg_pool2d(x, 3, 2, 1),
    mt.avg_pool2d(x, 3, 1, 1, false, false),
    mt.adaptive_avg_pool2d(x, 1), mt.adaptive_avg_pool2d(x, {4, 2}), mt.adaptive_avg_pool2d(x, 3),
      mt.adaptive_max_pool2d(x, 3),
    mt.adaptive_max_pool2d(x, 4), mt.max_pool2d(x, 3, {ceil_mode = true}), mt.max_pool1d(x:flatten(3), 4),
      mt.avg_pool1d(x:flatten(3), 4)
end, 3, 8, 8)
add('pooled_positions', function(x) return mt.max_pool2d(x, 2, {return_indices = true}) end, of(3, 8, 8),
  {places = {false, true}})
f('resampling', function(x)
  return mt.interpolate(x, {size = {7, 9}}), mt.interpolate(x, {scale_factor = 2}), mt.interpolate(x,
    {scale_factor = 2, mode = 'bilinear'}),
    mt.interpolate(x, {size = {9, 11}, mode = 'bilinear', align_corners = true}), mt.interpolate(x, {size = {5, 3},
      mode = 'bilinear'}),
    mt.interpolate(x, {scale_factor = 2, mode = 'bicubic'}), mt.interpolate(x, {size = {4, 2}, mode = 'area'}),
    mt.pixel_shuffle(x, 2), mt.pixel_unshuffle(x, 2), mt.channel_shuffle(x, 2), mt.unfold(x, 3, {padding = 1,
      stride = 2}),
    mt.interpolate(x, {size = {7, 9}, mode = 'nearest-exact'})
end, 4, 6, 6)
f('convolutions', function(x)
  local w = mt.linspace(-1, 1, 4 * 2 * 3 * 3):reshape(4, 2, 3, 3)
  return mt.conv2d(x, w, mt.ones(4), {padding = 1, groups = 2}), mt.conv2d(x, w, {stride = 2, dilation = 2,
    padding = {2, 1}, groups = 2}),
    mt.conv2d(x, w, {padding = 'same', groups = 2}), mt.conv_transpose2d(x, w, {stride = 2, padding = 1,
      output_padding = 1}),
    mt.conv1d(x:flatten(3), w:flatten(3), {groups = 2}), mt.conv_transpose1d(x:flatten(3), w:flatten(3), {groups = 2,
      stride = 3})
end, 4, 6, 6)
f('losses', function(x)
  local y, p = x:flip{2}, x:sigmoid()
  return mt.mse_loss(x, y), mt.l1_loss(x, y, 'sum'), mt.smooth_l1_loss(x, y, {beta = 0.5}), mt.huber_loss(x, y,
    'none', 0.7),
    mt.binary_cross_entropy(p, y:sigmoid()), mt.binary_cross_entropy_with_logits(x, p), mt.kl_div(x:log_softmax(2),
      y:softmax(2), 'batchmean'),
    mt.cross_entropy(x, y:softmax(2)), mt.gaussian_nll_loss(x, y, p), mt.poisson_nll_loss(x, p)
end, 6)
add('classes', function(x, target)
  return mt.cross_entropy(x, target), mt.nll_loss(x:log_softmax(2), target, {reduction = 'none'}), mt.cross_entropy(x,
    target, mt.linspace(0.5, 1, 6), -100, 'sum'),
    x:argmax(2):eq(target)
end, function(n)
  local target = mt.randint(1, 6, {n})
  if n > 2 then target[2] = -100 end
  return {mt.randn(n, 6), target}
end, {positions = {false, true}})
add('embeddings', function(ids)
  local w = mt.linspace(-1, 1, 40):reshape(10, 4)
  local e = mt.embedding(ids, w)
  local mask = ids:ne(3)
  return e, mt.embedding_bag(ids, w), mt.embedding_bag(ids, w, {mode = 'sum'}), mt.embedding_bag(ids, w,
    {mode = 'max'}),
    (e * mask:unsqueeze(3):float()):sum(2), w[ids], ids:unsqueeze(2), mt.embedding_bag(ids, w, {padding_idx = 3})
end, function(n) return {mt.randint(1, 10, {n, 5})} end,
  {positions = {true}, places = {[7] = true}})
f('attention', function(x)
  local q, k, v = x, x * 0.5, x + 1
  local mask = mt.ones(6, 6):tril():bool()
  return mt.scaled_dot_product_attention(q, k, v), mt.scaled_dot_product_attention(q, k, v, {is_causal = true}),
    mt.scaled_dot_product_attention(q, k, v, mask), mt.scaled_dot_product_attention(q, k, v, mask:float() * 2,
      {scale = 0.1})
end, 2, 6, 4)
add('dynamic_time', function(x)
  local n, t = x.shape[1], x.shape[2]
  local causal = mt.ones(t, t):tril():bool()
  local s = (x:matmul(x:transpose(2, 3)) / math.sqrt(5)):masked_fill(causal:logical_not(), -math.huge):softmax(3)
  local h = s:matmul(x):view(n, t, 5, 1):transpose(2, 3):reshape(n * 5, t):sum(2)
  local place = mt.range(1, t):float():unsqueeze(2) * 0.1
  return h, x + place, x:mean(2) * t, x:reshape(n * t, 5), mt.zeros(n, t) + x[{ {}, {}, 1}], x[{ {}, t}], x:flatten(),
    x:sum() / n
end, function(n) return {mt.randn(n, n + 3, 5)} end, {axes = { {[1] = 'batch', [2] = 'time'} }})
f('captured_view', function(x)
  local w = mt.ones(4, 6) * 0.3
  local y = x:t()
  y:mul_(2)
  return mt.linear(x, w), x:detach() * 2, x:contiguous():view(-1), mt.Function{forward = function(_,
    z) return z * 2 end,
    backward = function(_, g) return g * 2 end}(x)
end, 6)
add('fused', mt.fuse(function(x) return (x * 2 + 1):relu():sum(2), (x - x:mean(2, true)) end), of(6))
add('double', function(x) return x:double():softmax(2), mt.gelu(x:double()), x:double():std(2) end, of(6))
add('newer_operators', function(x)
  local n = (x * 10):long()
  return n:bitwise_and(7), x:amax({2}), x:mean(2), mt.fold(x:abs():unsqueeze(2):expand(x.shape[1], 4, 6), {3, 4}, {2,
    2}), x:split(4, 2)
end, of(6), {opset = 18})
for _, opset in ipairs{13, 14, 15, 16, 19, 20, 21, 22} do
  add('opset_' .. opset, function(x)
    local y = mt.layer_norm(x, 6, mt.ones(6) * 2, mt.ones(6)):view(x.shape[1] * 2, 3)
    return y:amax({2}), mt.gelu(x), x:reshape(x.shape[1], 2, 3):mean({2}), x:split(2, 2), y:tril(), mt.pad(x, {1, 1}),
      mt.group_norm(x, 2)
  end, of(6), {opset = opset})
end

-- ---- networks --------------------------------------------------------------------------------------------

add('mlp', nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)), of(7))
add('mlp_activations', nn.Sequential(nn.Linear(7, 8), nn.GELU(), nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8),
  nn.Softplus(), nn.Linear(8, 3)), of(7))

return networks
