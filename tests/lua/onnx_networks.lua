-- onnx_networks.lua -- networks and functions that test_onnx.lua exports to ONNX and compares
--
-- Each case is {name, net, make, ..}: make(n) returns the inputs for a batch of n. `fixed`: no dynamic axes;
-- `positions` and `places` list the inputs and outputs that count from 1 here and from 0 in the file; `opset`; `axes`:
-- dynamic axes of the inputs other than the first dimension of each.
local mt = require 'mtorch'
local nn = mt.nn

-- without: the elementwise operations that have no ONNX form
local networks = {without = 'erfinv polygamma digamma lgamma igamma igammac gcd lcm'}
local function add(name, net, make, options)
  local case = {name = name, net = net, make = make}
  for key, value in pairs(options or {}) do case[key] = value end
  networks[#networks + 1] = case
end
--- Returns a function that creates one input with these sizes after the batch size.
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
    x:trunc(), x:frac(), x:clamp(-0.5, 0.5), x:exp(), x:expm1(), x:exp2(), p:log(), p:log1p(), p:log2(), p:log10(),
    x:sin(), x:cos(), x:tan(), x:sinc(), x:tanh():asin(), x:tanh():acos(), x:atan(), x:sinh(), x:cosh(), x:asinh(),
    (p + 1):acosh(), (x:tanh() * 0.9):atanh(), x:erf(), x:erfc(), x:tanh(), x:sigmoid(), x:sigmoid():logit()
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
    x:hypot(y), x:copysign(y), x:xlogy(p), x:logaddexp(y), x:floor_divide(p), x:fmod(p), x:div(p, 'trunc'),
    x:lerp(y, 0.3), x:addcmul(y, p, 0.5), x:addcdiv(y, p), x:heaviside(y), x:remainder(p)
end, 6)
local inf, nan = math.huge, 0 / 0
--- Returns rows of numbers at which formulas overflow, cancel or compute 0 * inf; each row is rotated.
local function edges(dtype)
  local line = mt.tensor({0, -0.0, 1, -1, 0.5, -2.5, 3, -7, 1e-30, 3e38, -1e30, 20, -90, 100, inf, -inf, nan}, dtype)
  return function(n)
    local rows = {}
    for k = 1, n do rows[k] = line:roll(k) end
    return {mt.stack(rows)}
  end
end
for _, dtype in ipairs{'float32', 'float64'} do
  add('unary_edges_' .. dtype, function(x)
    return mt.gelu(x), mt.silu(x), x:sign(), mt.hardshrink(x), mt.softshrink(x), x:log1p(), x:expm1(), x:cosh(),
      x:sinh(), mt.elu(x), mt.celu(x, 2), mt.selu(x), mt.softplus(x), mt.logsigmoid(x), mt.mish(x), mt.softsign(x),
      mt.hardsigmoid(x), mt.hardswish(x), mt.leaky_relu(x), mt.relu(x), mt.threshold(x, 0, 1), x:nan_to_num(1, 2, 3),
      x:isinf(), x:isfinite(), mt.isposinf(x), x:sigmoid(), x:tanh(), mt.relu6(x), mt.isnan(x), mt.isneginf(x),
      mt.gelu(x, 'tanh'), x:frac(), x:square(), mt.hardtanh(x, -2, 30), x:rad2deg(), x:deg2rad(),
      x:clamp(-1), x:clamp(nil, 7), mt.rrelu(x)
  end, edges(dtype))
  add('binary_edges_' .. dtype, function(x)
    local n = x.shape[2]
    local a, b = x:unsqueeze(3):expand(-1, n, n), x:unsqueeze(2):expand(-1, n, n)
    return a:atan2(b), a:hypot(b), a:copysign(b:nan_to_num(1)), a:logaddexp(b), a:xlogy(b),
      a:remainder(b), a:floor_divide(b), a:fmod(b), a:maximum(b), a:minimum(b), mt.fmax(a, b),
      mt.heaviside(a, b), x:floor_divide(0.1), x:remainder(0.1), mt.fmin(a, b), a:lerp(b, 0.25), a:lerp(b, a),
      mt.addcmul(a, b, a, 0.5), mt.addcdiv(a, b, a)
  end, edges(dtype))
  add('casts_beyond_the_range_' .. dtype, function(x)
    return x:byte(), x:to('int8'), x:to('int16'), x:int(), x:long(), (x * 200):byte(), x:half():int(),
      x:half():to('int16')
  end, edges(dtype))
end
for _, dtype in ipairs{'int8', 'uint8', 'int16', 'int32', 'int64'} do
  add('whole_' .. dtype, function(x)
    local y = x:flip{2}
    local p, some = y:remainder(4), y:clamp_min(1)
    return x + y, x - y, x * y, -x, x:bitwise_not(), mt.relu(x), x:square(), x:pow(p), x:bitwise_left_shift(p),
      x:bitwise_right_shift(p), x:floor_divide(some), x:remainder(some), x:div(some, 'trunc'), x:maximum(y), x:abs(),
      x:clamp(1, 100), mt.signbit(x), x:sign()
  end, function(n) return {mt.tensor({{0, 1, 2, 3, 100, 127, 64, 7, 5}}, dtype):expand(n, -1):contiguous()} end)
end

--- Adds all elementwise operations of `accepts` that have an ONNX form, in this dtype, at the points of kernels/ops.h.
local function by_the_list(accepts, dtype)
  local without = mt.extend.util.word_set(networks.without)
  add(('elementwise_%s_%s'):format(accepts, dtype), function(x)
    local results = {}
    for _, op in ipairs(mt.extend.operations()) do
      if op.accepts == accepts and not without[op.name] then
        local arguments = {}
        for i = 1, op.inputs do
          local y = x:roll(i, 2) * (op.hi - op.lo) + op.lo
          arguments[i] = op.mask_first and i == 1 and y:gt(0) or y:to(dtype)
        end
        if op.name == 'prelu' then arguments[2] = mt.full({1}, 0.25) end
        if not dtype:find 'float' and op.inputs == 2 then arguments[2] = arguments[2]:abs() + 1 end -- divisors
        for i, value in ipairs(op.values) do arguments[op.inputs + i] = value == value and value or nil end
        results[#results + 1] = mt[op.name](unpack(arguments))
      end
    end
    return results
  end, function(n) return {mt.rand(n, 16)} end, {opset = 18})
end
for _, dtype in ipairs{'float32', 'float64', 'int32'} do
  for _, accepts in ipairs{'any', 'number', 'real'} do by_the_list(accepts, dtype) end
end
by_the_list('integer', 'int32')

add('compiled_functions', function(x)
  local p = x:abs() + 0.5
  return mt.map(function(v) return mt.mish(v) + mt.hardswish(v) * mt.softshrink(v) end)(x),
    mt.map(function(v) return mt.logit(v) - mt.square(v) end)(p * 0.1),
    mt.zip(function(v, w) return mt.xlogy(v, w) + mt.logaddexp(v, w) end)(x, p),
    mt.map(function(v) return v > 0 end)(x), mt.map(function(v) return mt.isfinite(v) end)(x / 0)
end, of(6))
f('parameters_of_the_batch', function(x)
  local n = x.shape[1]
  return mt.hardtanh(x, -n, n), x:addcmul(x, x, n), mt.threshold(x, n, n + 1), mt.celu(x, n)
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
  return n, n + 1, n / 3, n:float() * 0.5, n:int() * n:int(), x:gt(0):long():sum(2), n:remainder(3), n:floor_divide(3),
    x:double() * 2, n:gt(2), x:bool(), n:sum(), n:abs():amax({2})
end, 6)
f('reductions', function(x)
  return x:sum(), x:sum(1), x:sum({2, 3}, true), x:mean(), x:mean(-1), x:prod(2), x:amax({2}), x:amin({1, 3}), x:max(),
    x:min(), x:var(2), x:std(), x:var({2, 3}, true, 0), x:norm(), x:norm(1, 2), x:norm(3, 3), x:norm(math.huge, 2),
    x:logsumexp(2), x:gt(1):any(2), x:gt(-1):all(3), x:count_nonzero(2), x:nansum(1)
end, 4, 5)
add('reductions_of_few', function(x)
  local none, one, n = mt.zeros(0, 4) * x:sum(), x[{ {1}, {}}], (x * 9):int()
  return none:any(1), none:all(1), none:mean(1), none:var(1), none:std(), one:var(1), one:var(1, false, 3),
    mt.histc(x * 0 + 2, 4), mt.isin(n, mt.zeros({0}, 'int32')), mt.softmin(x:sum(), 1), mt.normalize(x:sum(), 2, 1),
    mt.softmin(n:abs():byte(), 2)
end, of(4), {fixed = true})
add('reductions_of_infinities', function(x)
  local none = x * 0
  return x:quantile(0, 2), x:quantile(0.5, 2), x:quantile(1, 2, true), x:amax({2}), x:logsumexp(2), x:cummax(2)[1],
    mt.cosine_similarity(x:nan_to_num(1, 1, 1):half(), none:nan_to_num(0):half(), 2):float()
end, function(n) return {mt.tensor{ {-inf, 0, 3, inf, 2} }:expand(n, -1):contiguous()} end)
f('whole_numbers_and_doubles', function(x)
  local n, d = (x * 3):int(), x:double():unsqueeze(3)
  return n:unique(), n:gt(0):unique(), n:abs():byte():unique(), n:abs():add(1):flatten():bincount(),
    mt.histc(d, 4, -1, 1), mt.instance_norm(d:expand(-1, -1, 2) * mt.tensor({1, 3}, 'float64')), mt.group_norm(d, 2)
end, 6)
add('extremes', function(x)
  local values, places = x:max(2)
  local low, low_places = x:min(3, true)
  return x:argmax(), x:argmax(2), x:argmin(3, true), values, places, low, low_places
end, of(4, 5), {places = {true, true, true, false, true, false, true}})
add('counts', function(x)
  local ids = (x * 3):abs():long() + 1
  local high, places = x:cummax(2)
  local low, low_places = x:cummin(1)
  return mt.quantile(x, 0.3, 2), mt.quantile(x, 0.5, 2, true), ids:flatten():bincount(),
    ids:flatten():bincount(nil, 30), ids:flatten():bincount(x:flatten()), mt.histc(x, 5, -1, 1), mt.histc(x, 4), high,
    places, low, low_places
end, of(6), {places = {[9] = true, [11] = true}})
add('sorting', function(x)
  local values, places = x:sort(2, true)
  local top, top_places = x:topk(3, 3)
  local k, k_place = x:kthvalue(2, 2)
  local m, m_place = x:median(3)
  return values, places, top, top_places, x:argsort(-1), k, k_place, m, m_place, x:msort()
end, of(4, 5), {places = {false, true, false, true, true, false, true, false, true}})
f('of_bools_and_scalars', function(x)
  local b, s, n = x:gt(0), x:sum(), (x * 9):long()
  return b:amax({2}), b:cumsum(1), b:maximum(x:lt(1)), mt.where(b, x:gt(1), b), b:flip{2}, s:amax(), s:softmax(1),
    s:cumsum(1), s:sum(), s:var(1, false, 0), n:nansum(), n:cumprod(2), mt.isfinite(n), n:tril(), n:byte():triu(),
    n:lerp(n * 2, 0.5), x:double():atan(), x:sigmoid():logit(1e-3), (b:sort(2))
end, 6)
f('pairs', function(x)
  local n = (x * 4):long()
  return n:bitwise_left_shift(2), n:bitwise_right_shift(1), x:repeat_interleave({1, 2, 0, 1, 1, 1}, 2), mt.isin(n, 3),
    mt.isclose(n, n + 1), mt.prelu(x, mt.linspace(0, 1, 6)), mt.cdist(x:gt(0):float(), x)
end, 6)
f('picked_by_value', function(x)
  local mask = x:gt(0)
  local y = x[mask]
  local z = mt.zeros(x.shape)
  z[mask] = y * 2
  return y:var(), y:reshape(-1, 1) * 2, mask:nonzero():float():mean(1), mt.cat({y, y}), z,
    x:masked_select(x:lt(0.3)):view(1, -1), mask:long():unique()
end, 6)
f('more_operations', function(x)
  local m = x:gt(0)
  return x:cummax(3), mt.masked_scatter(x, m, x * 2), mt.det(x:matmul(x.mT)),
    mt.linalg.norm(x, 2, 3), mt.conv1d_anchored(x, mt.ones(2, 4, 3)), mt.bilinear(x, x, mt.ones(2, 5, 5)),
    mt.conv1d_anchored(x, mt.linspace(0, 1, 24):reshape(2, 4, 3), true), x:index_put({ {}, mt.tensor({1, 1}, 'int64')},
    1)
end, 4, 5)
do
  local k, cube = 3, mt.map(function(v) if v > 0 then return v * v * v else return math.sin(v) - 1 end end)
  local mixed = mt.zip(function(v, w) return math.max(v, w) % k, v < w, math.floor(v) end)
  local largest = mt.reduce(function(v, w) return math.max(v, w) end, -math.huge)
  f('compiled', function(x)
    local a, b, c = mixed(x, x:flip{2})
    return cube(x), a, b, c, largest(x, 2), mt.reduce(function(v, w) return v + w end, 0)(x, 2)
  end, 6)
end
f('image_grids', function(x)
  local theta = mt.tensor{ {1, 0.2, 0}, {-0.1, 0.9, 0.1} }:unsqueeze(1) * (x.shape[1] / x.shape[1]) + x[{ {}, 1, {1, 2},
    {1, 3}}] * 0.1
  local grid = mt.affine_grid(theta, {x.shape[1], 2, 5, 6})
  return grid, mt.grid_sample(x, grid), mt.grid_sample(x, grid,
    {mode = 'nearest', padding_mode = 'border', align_corners = true})
end, 2, 6, 6)
f('scans', function(x)
  return x:cumsum(2), x:cumsum(1), x:cumprod(3), x:logcumsumexp(2), x:diff(1, 3), x:flip{2}:cumsum(2):flip{2}
end, 4, 5)
f('shapes', function(x)
  local n = x.shape[1]
  return x:view(n, 20), x:reshape(-1, 5), x:flatten(2), x:flatten(), x:unflatten(3, {5, 1}), x:unsqueeze(2):squeeze(2),
    x:permute(3, 1, 2), x:transpose(2, 3), x:movedim(1, 3), x:reshape(n * 4, 5):t(), x:unsqueeze(2):expand(n, 3, 4, 5),
    x:tile(1, 2, 1), x:repeat_interleave(2, 2), x:flip{2, 3}, x:roll(2, 3), x:roll(45), x:roll({-6, n}, {2, 1}),
    x:tril(), x:triu(1), x:diagonal(0, 2, 3), x.mT, mt.pad(x, {1, 2, 0, 1}), mt.pad(x, {2, 1}, 'reflect'),
    mt.pad(x, {1, 1}, 'circular'), x:view(n, 2, 2, 5):sum(2), x:unfold(3, 3, 2), x:swapaxes(1, 2), x:expand(n, 4, 5),
    x:broadcast_to(2, n, 4, 5)
end, 4, 5)
f('cropped', function(x)
  return mt.pad(x, {-1, 1}, 'circular'), mt.pad(x, {2, -1}, 'circular'), mt.pad(x, {-1, -1}, 'circular'),
    mt.pad(x, {-1, 2})
end, 4, 5)
f('joins', function(x)
  local a, b = x:narrow(3, 1, 2), x:narrow(3, 3, 3)
  local p, q = unpack(x:split(2, 2))
  local c = x:chunk(3, 3)
  local u = x:unbind(2)
  return mt.cat({a, b}, 3), mt.cat({x, x * 2}, 1), mt.stack({x, -x}, 2), p, q, c[1], c[3], u[2], mt.vstack{x, x},
    mt.hstack{x, x}, mt.stack(u, 2), mt.cat({x:gt(0):float(), x}, -1)
end, 4, 5)
f('indexing', function(x)
  local n, at, one = x.shape[1], mt.tensor({3, 1, 1}, 'int64'), mt.ones({3}, 'int64')
  return x[1], x[-1], x[{ {}, 2}], x[{ {}, {2, 3}}], x[{ {}, {1, -1, 2}, -1}], x[{ {}, {2}, {}}], x[{ {2, -1} }],
    x['..., 2:4'], x[':, None, 1'], x[{mt.ellipsis, 1}], x[{mt.newaxis, 1}], x[{ {}, at}], x[{ {}, at, at}],
    x[{one, {}, at}], x[{ {}, at, {1, 2}}], x:select(2, 3), x:narrow(2, 2, 2), x:slice(3, 1, -1, 2), x[n],
    x[{ {}, {}, -2}], x:index_select(3, at), x:take(at), x[mt.ones(n):bool()]
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
  w[{ {}, 1}]:copy_(x[{ {}, 2}])
  return y, row, z, columns, half, w:fill_(2), mt.ones(2, 3):mul_(x:mean())
end, 4, 5)
add('gather_scatter', function(x, at)
  local index = at:expand(at.shape[1], 4)
  local y = mt.zeros(x.shape[1], 6)
  return x:gather(2, at), x:gather(2, index), y:scatter(2, at, x[{ {}, {1, 2}}]), y:scatter_add(2, index, x),
    y:scatter(2, at, 3), x:index_fill(2, mt.tensor({2}, 'int64'), 9), mt.one_hot(at, 6),
    x:index_add(2, mt.tensor({1, 1}, 'int64'), x[{ {}, {3, 4}}]), x:index_copy(2, mt.tensor({2}, 'int64'),
    x[{ {}, {1}}]), x:take_along_dim(at, 2), y:scatter_reduce(2, index, x, 'sum')
end, function(n) return {mt.randn(n, 4), mt.randint(1, 4, {n, 2})[{ {}, {1}}]} end, {positions = {false, true}})
f('products_that_are_ignored', function(x)
  local y, zeros = x[{ {}, {1, 4}, {1, 4}}], x[{1, {1, 4}, {1, 4}}] * 0
  return mt.baddbmm(y, y / 0, y, {alpha = 0, beta = 2}), mt.baddbmm(y / 0, y, y, {beta = 0}),
    mt.addmm(zeros / 0, zeros, zeros, {alpha = 0, beta = 0}), mt.addbmm(zeros / 0, y, y, {beta = 0}),
    mt.diag_embed(x[{1, 1}] / 0 * 0 + inf, 1), mt.diag_embed(x:gt(0))
end, 4, 5)
f('products', function(x)
  local w, v, n = mt.ones(5, 3) * 0.5, mt.range(1, 5):float(), x.shape[1]
  return x:matmul(w), x:matmul(v), x:bmm(x:transpose(2, 3)), x[{ {}, 1}]:mm(w), x[{ {}, 1}]:mv(v),
    mt.outer(x[{ {}, 1, 1}], v), mt.einsum('bij,jk->bik', x, w), mt.einsum('bij,bkj->bik', x, x),
    mt.einsum('bii->b', x:matmul(x.mT)), mt.addmm(mt.zeros(3), x[1], w, {alpha = 2}),
    mt.baddbmm(x:matmul(x.mT), x, x.mT, {beta = 0.5}), mt.tensordot(x, w, 1), mt.cdist(x, x + 1), mt.kron(x[1], w),
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
    mt.instance_norm(x, nil, nil, w, b), mt.batch_norm(x, b, w, w, b), mt.rms_norm(x, 5, mt.ones(5) * 2),
    mt.layer_norm(x, {4, 5, 5}), mt.rms_norm(x, {5, 5})
end, 4, 5, 5)
f('pooling', function(x)
  return mt.max_pool2d(x, 2), mt.max_pool2d(x, 3, 2, 1), mt.avg_pool2d(x, 2), mt.avg_pool2d(x, 3, 2, 1),
    mt.avg_pool2d(x, 3, 1, 1, false, false), mt.adaptive_avg_pool2d(x, 1), mt.adaptive_avg_pool2d(x, {4, 2}),
    mt.adaptive_avg_pool2d(x, 3), mt.adaptive_max_pool2d(x, 3), mt.adaptive_max_pool2d(x, 4),
    mt.max_pool2d(x, 3, {ceil_mode = true}), mt.max_pool1d(x:flatten(3), 4), mt.avg_pool1d(x:flatten(3), 4)
end, 3, 8, 8)
add('pooled_positions', function(x) return mt.max_pool2d(x, 2, {return_indices = true}) end, of(3, 8, 8),
  {places = {false, true}})
f('resampling', function(x)
  return mt.interpolate(x, {size = {7, 9}}), mt.interpolate(x, {scale_factor = 2}),
    mt.interpolate(x, {scale_factor = 2, mode = 'bilinear'}), mt.interpolate(x,
    {size = {9, 11}, mode = 'bilinear', align_corners = true}), mt.interpolate(x, {size = {5, 3}, mode = 'bilinear'}),
    mt.interpolate(x, {scale_factor = 2, mode = 'bicubic'}), mt.interpolate(x, {size = {4, 2}, mode = 'area'}),
    mt.pixel_shuffle(x, 2), mt.pixel_unshuffle(x, 2),
    mt.unfold(x, 3, {padding = 1, stride = 2}), mt.interpolate(x, {size = {7, 9}, mode = 'nearest-exact'})
end, 4, 6, 6)
f('signbit_of_zeros', function(x)
  return mt.signbit(mt.cat({x, x * 0, x / 0, x:abs() * -0.0}, 2)), mt.signbit(x:int())
end, 6)
f('resampling_to_one', function(x)
  return mt.interpolate(x, {size = {1, 1}, mode = 'bilinear'}), mt.interpolate(x, {size = {1, 4}, mode = 'bicubic'}),
    mt.interpolate(x:flatten(3), {size = 1, mode = 'linear'}), mt.interpolate(x:unsqueeze(3),
    {size = {1, 3, 1}, mode = 'trilinear'})
end, 3, 10, 10)
f('pooled_with_a_divisor', function(x)
  return mt.avg_pool2d(x, 3, 2, 0, true, true, 5), mt.avg_pool2d(x, 3, 2, 1, true, true, 5),
    mt.avg_pool2d(x, 3, 2, 1, false, true, 5)
end, 3, 6, 8)
-- Pooling in 1 to 3 dimensions with ceil_mode, divisors and dilation.
for n = 1, 3 do
  local avg, max = mt['avg_pool' .. n .. 'd'], mt['max_pool' .. n .. 'd']
  f('windows_' .. n .. 'd', function(x)
    local made = {avg(x, 3, 2, 0, true), avg(x, 3, 2, 1, true, false), avg(x, 2, 3, 0, true, true), avg(x, 3, 1, 1),
      max(x, 3, 2, 1, 1, true), max(x, 2, 3, 0, 2, true), mt['adaptive_avg_pool' .. n .. 'd'](x, 3)}
    for i, divided in ipairs(n > 1 and {{3, 2, 0, true}, {3, 2, 1, true}, {2, 3, 1, false}} or {}) do
      local kernel, stride, padding, ceil = unpack(divided)
      made[7 + i] = avg(x, kernel, stride, padding, ceil, true, 5)
    end
    return unpack(made)
  end, 3, unpack({6, 8, 8}, 1, n))
end
f('convolutions', function(x)
  local w = mt.linspace(-1, 1, 4 * 2 * 3 * 3):reshape(4, 2, 3, 3)
  return mt.conv2d(x, w, mt.ones(4), {padding = 1, groups = 2}),
    mt.conv2d(x, w, {stride = 2, dilation = 2, padding = {2, 1}, groups = 2}),
    mt.conv2d(x, w, {padding = 'same', groups = 2}), mt.conv_transpose2d(x, w,
    {stride = 2, padding = 1, output_padding = 1}), mt.conv1d(x:flatten(3), w:flatten(3), {groups = 2}),
    mt.conv_transpose1d(x:flatten(3), w:flatten(3), {groups = 2, stride = 3})
end, 4, 6, 6)
f('losses', function(x)
  local y, p = x:flip{2}, x:sigmoid()
  return mt.mse_loss(x, y), mt.l1_loss(x, y, 'sum'), mt.smooth_l1_loss(x, y, {beta = 0.5}),
    mt.huber_loss(x, y, 'none', 0.7), mt.binary_cross_entropy(p, y:sigmoid()),
    mt.binary_cross_entropy_with_logits(x, p), mt.kl_div(x:log_softmax(2), y:softmax(2), 'batchmean'),
    mt.cross_entropy(x, y:softmax(2)), mt.gaussian_nll_loss(x, y, p), mt.poisson_nll_loss(x, p), mt.kl_div(x, y, 'none')
end, 6)
add('classes', function(x, target)
  return mt.cross_entropy(x, target), mt.nll_loss(x:log_softmax(2), target, {reduction = 'none'}),
    mt.cross_entropy(x, target, mt.linspace(0.5, 1, 6), -100, 'sum'), x:argmax(2):eq(target)
end, function(n)
  local target = mt.randint(1, 6, {n})
  if n > 2 then target[2] = -100 end
  return {mt.randn(n, 6), target}
end, {positions = {false, true}})
for _, smoothing in ipairs{0, 0.1} do
  add('ignored_class_' .. smoothing * 10, function(x, target)
    local function loss(reduction, scores, label)
      return mt.cross_entropy(scores, label, {ignore_index = 2, label_smoothing = smoothing, reduction = reduction})
    end
    return loss('mean', x, target), loss('sum', x, target), loss('none', x, target), loss('none', x[1], target[1]),
      loss('mean', x[1], target[1]), mt.nll_loss(x:log_softmax(2), target, {ignore_index = 2})
  end, function(n)
    local target = mt.randint(1, 6, {n})
    target[n], target[1] = 2, 1
    return {mt.randn(n, 6), target}
  end, {positions = {false, true}})
end
add('variances_and_margins', function(x, y, label)
  local function gaussian(var, reduction) return mt.gaussian_nll_loss(x, y, var, {reduction = reduction}) end
  local var = x:abs() + 0.5
  return gaussian(var, 'none'), gaussian(var[{ {}, 1}], 'none'), gaussian(var[{ {}, {1}}], 'sum'),
    gaussian(0.5, 'none'), mt.multi_margin_loss(x, label, {p = 2, reduction = 'none'}),
    mt.multi_margin_loss(x[1], label[1]), mt.rms_norm((x * 1e-5):half(), 3):float()
end, function(n) return {mt.randn(n, 3), mt.randn(n, 3), mt.randint(1, 3, {n})} end, {positions = {false, false, true}})
add('bags_of_padding', function(ids)
  return mt.embedding_bag(ids, mt.linspace(-1, 1, 40):reshape(10, 4), nil, {mode = 'max', padding_idx = 3}),
    mt.one_hot(ids[{1, 1}], 10)
end, function(n)
  local ids = mt.randint(1, 10, {n, 2})
  ids[n] = 3
  return {ids}
end, {positions = {true}})
add('embeddings', function(ids)
  local w = mt.linspace(-1, 1, 40):reshape(10, 4)
  local e = mt.embedding(ids, w)
  local mask = ids:ne(3)
  return e, mt.embedding_bag(ids, w), mt.embedding_bag(ids, w, {mode = 'sum'}),
    mt.embedding_bag(ids, w, {mode = 'max'}), (e * mask:unsqueeze(3):float()):sum(2), w[ids], ids:unsqueeze(2),
    mt.embedding_bag(ids, w, {padding_idx = 3})
end, function(n) return {mt.randint(1, 10, {n, 5})} end,
  {positions = {true}, places = {[7] = true}})
f('attention', function(x)
  local q, k, v = x, x * 0.5, x + 1
  local mask = mt.ones(6, 6):tril():bool()
  return mt.scaled_dot_product_attention(q, k, v), mt.scaled_dot_product_attention(q, k, v, {is_causal = true}),
    mt.scaled_dot_product_attention(q, k, v, mask), mt.scaled_dot_product_attention(q, k, v, mask:float() * 2,
    {scale = 0.1})
end, 2, 6, 4)
f('attention_that_sees_nothing', function(x)
  local mask = mt.zeros(6, 6)
  mask[2] = -math.huge
  return mt.scaled_dot_product_attention(x, x, x, mask), mt.scaled_dot_product_attention(x, x, x, mask:eq(0))
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
  return n:bitwise_and(7), x:amax({2}), x:mean(2), mt.fold(x:abs():unsqueeze(2):expand(x.shape[1], 4, 6), {3, 4},
    {2, 2}), x:split(4, 2)
end, of(6), {opset = 18})
for _, opset in ipairs{17, 18} do
  add('fold_without_a_batch_' .. opset, function(x) return mt.fold(x, {3, 4}, {2, 2}, {padding = 1}) end,
    function() return {mt.randn(8, 20)} end, {opset = opset, fixed = true})
end
for _, opset in ipairs{13, 14, 15, 16, 19, 20, 21, 22} do
  add('opset_' .. opset, function(x)
    local y = mt.layer_norm(x, 6, mt.ones(6) * 2, mt.ones(6)):view(x.shape[1] * 2, 3)
    return y:amax({2}), mt.gelu(x), x:reshape(x.shape[1], 2, 3):mean({2}), x:split(2, 2), y:tril(), mt.pad(x, {1, 1}),
      mt.group_norm(x, 2)
  end, of(6), {opset = opset})
end

-- ---- networks --------------------------------------------------------------------------------------------

add('mlp', nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)), of(7))
add('mlp_activations', nn.Sequential(nn.Linear(7, 8), nn.GELU(), nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8), nn.ELU(),
  nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 8), nn.Mish(), nn.PReLU(), nn.Hardswish(), nn.Dropout(0.5),
  nn.Linear(8, 3), nn.LogSoftmax(2)), of(7))
add('lenet', nn.Sequential(nn.Conv2d(1, 6, 5, {padding = 2}), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
  nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 10), nn.Softmax(2)),
  of(1, 28, 28))

--- Creates a module with these parts and this forward.
local function class(name, parts, forward)
  local made = nn.class(name)
  function made:__init()
    nn.Module.__init(self)
    for _, part in ipairs(parts) do self[part[1]] = part[2] end
  end
  made.forward = forward
  return made()
end
--- Updates the running statistics, so that they differ from the initial ones.
local function trained(net, make)
  net:train()
  for _ = 1, 3 do net(unpack(make(4))) end
  return net:eval()
end

local function block(from, to, stride)
  return class('Block', { {'conv1', nn.Conv2d(from, to, 3, stride, 1, {bias = false})}, {'bn1', nn.BatchNorm2d(to)},
    {'conv2', nn.Conv2d(to, to, 3, 1, 1, {bias = false})}, {'bn2', nn.BatchNorm2d(to)},
    {'down', nn.Sequential(nn.Conv2d(from, to, 1, stride, {bias = false}), nn.BatchNorm2d(to))} }, function(self, x)
    local y = self.bn1(self.conv1(x)):relu_()
    return (self.bn2(self.conv2(y)) + self.down(x)):relu_()
  end)
end
add('resnet', trained(nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), block(8, 8, 1), block(8, 16, 2), nn.AdaptiveAvgPool2d(1),
  nn.Flatten(), nn.Linear(16, 5)), of(3, 16, 16)), of(3, 16, 16))
add('mobilenet', trained(nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(),
  nn.Conv2d(8, 8, 3, 1, 1, {groups = 8}), nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16),
  nn.Hardswish(), nn.AdaptiveAvgPool2d({1, 1}), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, 4)), of(3, 16, 16)),
  of(3, 16, 16))
add('unet', class('UNet', { {'down1', nn.Conv2d(1, 4, 3, 1, 1)}, {'down2', nn.Conv2d(4, 8, 3, 1, 1)},
  {'middle', nn.Conv2d(8, 8, 3, 1, 1)}, {'up', nn.ConvTranspose2d(8, 8, 2, 2)}, {'mix', nn.Conv2d(16, 4, 3, 1, 1)},
  {'last', nn.Conv2d(8, 2, 1)}, {'grow', nn.Upsample({scale_factor = 2, mode = 'bilinear'})} }, function(self, x)
  local a = self.down1(x):relu()
  local b = self.down2(mt.max_pool2d(a, 2)):relu()
  local c = self.middle(mt.max_pool2d(b, 2)):relu()
  local d = self.mix(mt.cat({self.up(c), b}, 2)):relu()
  return self.last(mt.cat({self.grow(d), a}, 2))
end), of(1, 16, 16))
add('unet_any_size', nn.Sequential(nn.Conv2d(1, 4, 3, 1, 1), class('Around',
  { {'down', nn.Conv2d(4, 8, 3, 2, 1)}, {'up', nn.ConvTranspose2d(8, 4, 2, 2)} }, function(self, x)
  local y = self.up(self.down(x):relu())
  return mt.cat({mt.interpolate(y, {size = {x.shape[3], x.shape[4]}, mode = 'bilinear'}), x, y}, 2)
end), nn.AdaptiveAvgPool2d(1), nn.Flatten()), function(n) return {mt.randn(n, 1, 8, 4 + 4 * n)} end,
  {axes = { {[1] = 'batch', [3] = 'height', [4] = 'width'} }})
add('vae_decoder', nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Unflatten(2, {8, 2, 2}),
  nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), nn.LeakyReLU(0.2), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Sigmoid()), of(4))
add('norms', trained(nn.Sequential(nn.BatchNorm1d(6), nn.GroupNorm(2, 6), nn.InstanceNorm1d(6, {affine = true}),
  nn.LayerNorm(10), nn.RMSNorm(10), nn.LayerNorm({6, 10}, {elementwise_affine = false})), of(6, 10)), of(6, 10))
add('volumes', nn.Sequential(nn.Conv3d(2, 4, 3), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2),
  nn.ConvTranspose3d(4, 2, 2), nn.AdaptiveAvgPool3d(2), nn.AvgPool3d(2)), of(2, 8, 8, 8))
add('signals', nn.Sequential(nn.Conv1d(2, 4, 5, {dilation = 2}), nn.BatchNorm1d(4), nn.ELU(), nn.MaxPool1d(2),
  nn.ConvTranspose1d(4, 2, 4, 2), nn.AdaptiveAvgPool1d(5), nn.AvgPool1d(2)), of(2, 40))
add('paddings', nn.Sequential(nn.ReflectionPad2d(1), nn.ReplicationPad2d({1, 0, 2, 1}), nn.ConstantPad2d(1, 0.5),
  nn.ZeroPad2d(1), nn.CircularPad2d(1), nn.PixelUnshuffle(2), nn.PixelShuffle(2), nn.Unfold(2)),
  of(2, 7, 9))
add('word_bags', class('Bag', { {'bag', nn.EmbeddingBag(20, 6, {mode = 'mean'})}, {'out', nn.Linear(6, 2)} },
  function(self, ids) return self.out(self.bag(ids)) end), function(n) return {mt.randint(1, 20, {n, 7})} end,
  {positions = {true}})
add('text_convolution', class('TextCNN', { {'words', nn.Embedding(20, 6)}, {'conv', nn.Conv1d(6, 8, 3)},
  {'out', nn.Linear(8, 2)} }, function(self, ids)
  local h = self.conv(self.words(ids):transpose(2, 3)):relu()
  return self.out(h:amax({3}))
end), function(n) return {mt.randint(1, 20, {n, 7})} end, {positions = {true}})

-- ---- layer by layer --------------------------------------------------------------------------------------

local flat, plane, line, volume = of(6), of(4, 6, 6), of(4, 12), of(4, 4, 4, 4)
local function layers(make, list, options)
  for name, net in pairs(list) do add('layer_' .. name, net, make, options) end
end
layers(flat, {CELU = nn.CELU(), ELU = nn.ELU(0.7), GELU = nn.GELU('tanh'), GLU = nn.GLU(), Hardshrink = nn.Hardshrink(),
  Hardsigmoid = nn.Hardsigmoid(), Hardtanh = nn.Hardtanh(-2, 0.5), LeakyReLU = nn.LeakyReLU(),
  LogSigmoid = nn.LogSigmoid(), PReLU = nn.PReLU(6), RReLU = nn.RReLU(), SELU = nn.SELU(), Softmin = nn.Softmin(2),
  Softshrink = nn.Softshrink(), Softsign = nn.Softsign(), Tanhshrink = nn.Tanhshrink(),
  Threshold = nn.Threshold(0.1, 2), AlphaDropout = nn.AlphaDropout(), Identity = nn.Identity(),
  LogSoftmax = nn.LogSoftmax(-1), Unflatten = nn.Unflatten(2, {2, 3}), Softplus = nn.Softplus(2, 1)})
layers(plane, {AdaptiveAvgPool2d = nn.AdaptiveAvgPool2d({4, 5}), AdaptiveMaxPool2d = nn.AdaptiveMaxPool2d(4),
  BatchNorm2d = nn.BatchNorm2d(4), ConvTranspose2d = nn.ConvTranspose2d(4, 6, 3,
  {stride = 2, groups = 2, output_padding = 1}), Dropout2d = nn.Dropout2d(),
  InstanceNorm2d = nn.InstanceNorm2d(4), Softmax2d = nn.Softmax2d(),
  UpsamplingBilinear2d = nn.UpsamplingBilinear2d({scale_factor = 2}), PReLU2d = nn.PReLU(4),
  UpsamplingNearest2d = nn.UpsamplingNearest2d({size = {9, 7}}), ConstantPad2d = nn.ConstantPad2d({1, 2, 0, 1}, 3)})
layers(line, {AdaptiveAvgPool1d = nn.AdaptiveAvgPool1d(5), AdaptiveMaxPool1d = nn.AdaptiveMaxPool1d(5),
  BatchNorm1d = nn.BatchNorm1d(4), CircularPad1d = nn.CircularPad1d(2), ReflectionPad1d = nn.ReflectionPad1d({1, 3}),
  ReplicationPad1d = nn.ReplicationPad1d(1), ZeroPad1d = nn.ZeroPad1d(1), Dropout1d = nn.Dropout1d(),
  LPad = nn.ConstantPad1d(1, 2), MaxPool1d = nn.MaxPool1d(3, 2, 1), ConvSame = nn.Conv1d(4, 2, 4, {padding = 'same'}),
  Upsample1d = nn.Upsample({scale_factor = 3, mode = 'linear'})}, {axes = { {[1] = 'batch'} }})
layers(volume, {AdaptiveAvgPool3d = nn.AdaptiveAvgPool3d({2, 3, 1}), BatchNorm3d = nn.BatchNorm3d(4),
  Dropout3d = nn.Dropout3d(), InstanceNorm3d = nn.InstanceNorm3d(4, {affine = true}),
  ReflectionPad3d = nn.ReflectionPad3d(1), ZeroPad3d = nn.ZeroPad3d(1), ReplicationPad3d = nn.ReplicationPad3d(1),
  Upsample3d = nn.Upsample({size = {5, 6, 3}, mode = 'trilinear'})})
for k, mode in ipairs{'mean', 'sum', 'max'} do
  local fixed = function() return {mt.randint(1, 20, {7}), mt.tensor({1, 3, 3}, 'int64')} end
  add('layer_EmbeddingBag_' .. mode, nn.EmbeddingBag(20, 4, {mode = mode, padding_idx = k > 1 and 2 or nil}), fixed,
    {positions = {true, true}, fixed = true})
end
add('layer_Fold', nn.Fold({4, 4}, {2, 2}, {stride = 2, padding = 1}), of(4, 9))
add('layer_Bilinear', nn.Bilinear(3, 4, 5), function(n) return {mt.randn(n, 3), mt.randn(n, 4)} end)
add('layer_Cosine', nn.CosineSimilarity(), function(n) return {mt.randn(n, 3), mt.randn(n, 3)} end)
add('layer_Pairwise', nn.PairwiseDistance(1), function(n) return {mt.randn(n, 3), mt.randn(n, 3)} end)

local function targets(n) return {mt.randn(n, 6), mt.rand(n, 6)} end
for name, net in pairs{MSELoss = nn.MSELoss(), L1Loss = nn.L1Loss('sum'), SmoothL1Loss = nn.SmoothL1Loss(),
  HuberLoss = nn.HuberLoss(), BCEWithLogitsLoss = nn.BCEWithLogitsLoss({pos_weight = mt.ones(6) * 2}),
  KLDivLoss = nn.KLDivLoss({log_target = true}), PoissonNLLLoss = nn.PoissonNLLLoss({full = true}),
  MultiLabelSoftMarginLoss = nn.MultiLabelSoftMarginLoss(), SoftMarginLoss = nn.SoftMarginLoss('none'),
  CrossEntropyProbabilities = nn.CrossEntropyLoss({label_smoothing = 0.1})} do
  add('loss_' .. name, net, targets)
end
add('loss_BCELoss', nn.BCELoss(), function(n) return {mt.rand(n, 6), mt.rand(n, 6)} end)
add('loss_GaussianNLLLoss', nn.GaussianNLLLoss({full = true}), function(n) return {mt.randn(n, 6), mt.randn(n, 6),
  mt.rand(n, 6)} end)
local function signs(n) return mt.rand(n):gt(0.5):float() * 2 - 1 end
add('loss_HingeEmbeddingLoss', nn.HingeEmbeddingLoss(), function(n) return {mt.randn(n), signs(n)} end)
add('loss_MarginRankingLoss', nn.MarginRankingLoss(0.2), function(n) return {mt.randn(n), mt.randn(n), signs(n)} end)
add('loss_CosineEmbeddingLoss', nn.CosineEmbeddingLoss(), function(n) return {mt.randn(n, 4), mt.randn(n, 4),
  signs(n)} end)
add('loss_TripletMarginLoss', nn.TripletMarginLoss({swap = true}),
  function(n) return {mt.randn(n, 4), mt.randn(n, 4), mt.randn(n, 4)} end)
local weights = mt.linspace(0.5, 1.5, 6)
for name, net in pairs{CrossEntropyLoss = nn.CrossEntropyLoss({weight = weights, label_smoothing = 0.2}),
  NLLLoss = nn.NLLLoss(), MultiMarginLoss = nn.MultiMarginLoss({p = 2, weight = weights}),
  Smoothed = nn.CrossEntropyLoss({label_smoothing = 0.2})} do
  add('loss_' .. name, net, function(n) return {mt.randn(n, 6), mt.randint(1, 6, {n})} end, {positions = {false, true}})
end
add('ignored_labels', function(scores, label)
  local losses = mt.cross_entropy(scores, label, {reduction = 'none'})
  return losses, label:ne(-100), label:eq(-100), label:gt(0), label:le(0), label:ge(2),
    mt.tensor{3, -100}:long():eq(label)
end, function(n)
  local label = mt.randint(1, 4, {n, 2})
  label[{1, 2}] = -100
  return {mt.randn(n, 4, 2), label}
end, {positions = {false, true}})
add('loss_MultiLabelMarginLoss', nn.MultiLabelMarginLoss(), function(n)
  return {mt.randn(n, 4), mt.tensor({ {2, 4, -1, 1} }, 'int64'):repeat_interleave(n, 1)}
end, {positions = {false, true}})

-- ---- recurrent networks ----------------------------------------------------------------------------------

local function sequences(time, size) -- [time x batch x in]
  return function(n) return {mt.randn(time, n, size)} end
end
local second = { {[2] = 'batch'} }
add('lstm', nn.LSTM(5, 6), sequences(7, 5), {axes = second})
add('gru', nn.GRU(5, 6, {num_layers = 2}), sequences(7, 5), {axes = second})
add('rnn_relu', nn.RNN(5, 6, {nonlinearity = 'relu', bias = false}), sequences(7, 5), {axes = second})
add('lstm_bidirectional', nn.LSTM(5, 6, {num_layers = 2, bidirectional = true, batch_first = true}), of(7, 5))
add('gru_bidirectional', nn.GRU(5, 6, {bidirectional = true, batch_first = true, dropout = 0.5, num_layers = 2}),
  of(7, 5))
add('lstm_states', nn.LSTM(5, 6, {batch_first = true}), function(n)
  return {mt.randn(n, 7, 5), mt.randn(1, n, 6), mt.randn(1, n, 6)}
end, {axes = { {[1] = 'batch', [2] = 'time'}, {[2] = 'batch'}, {[2] = 'batch'} }})
add('lstm_time', class('Tagger', { {'words', nn.Embedding(20, 5)}, {'lstm', nn.LSTM(5, 6, {batch_first = true})},
  {'out', nn.Linear(6, 3)} }, function(self, ids)
  local h = self.lstm(self.words(ids))
  return self.out(h):argmax(-1), h[{ {}, -1}]
end), function(n) return {mt.randint(1, 20, {n, n + 4})} end,
  {positions = {true}, places = {true}, axes = { {[1] = 'batch', [2] = 'time'} }})
add('cells', class('Cells', { {'lstm', nn.LSTMCell(5, 6)}, {'gru', nn.GRUCell(6, 6)}, {'rnn', nn.RNNCell(6, 4)} },
  function(self, x)
  local h, c = self.lstm(x)
  h, c = self.lstm(x, h, c)
  return self.rnn(self.gru(h)), c
end), of(5))
add('seq2seq', class('Seq2Seq', { {'words', nn.Embedding(20, 5)}, {'encoder', nn.GRU(5, 6, {batch_first = true})},
  {'decoder', nn.GRUCell(5, 6)}, {'out', nn.Linear(6, 20)} }, function(self, ids)
  local _, h = self.encoder(self.words(ids))
  local state, token, all = h[1], ids[{ {}, 1}], {}
  for step = 1, 4 do
    state = self.decoder(self.words(token), state)
    local scores = self.out(state)
    token, all[step] = scores:argmax(2), scores
  end
  return mt.stack(all, 2), token
end), function(n) return {mt.randint(1, 20, {n, 6})} end, {positions = {true}, places = {false, true}})

-- ---- transformers ----------------------------------------------------------------------------------------

--- Returns a transformer block of basic operations, with d features per token and `heads` heads.
local function transformer_block(d, heads)
  return class('Block', { {'ln1', nn.LayerNorm(d)}, {'qkv', nn.Linear(d, 3 * d)}, {'proj', nn.Linear(d, d)},
    {'ln2', nn.LayerNorm(d)}, {'up', nn.Linear(d, 4 * d)}, {'down', nn.Linear(4 * d, d)} }, function(self, x)
    local n, t = x.shape[1], x.shape[2]
    local parts = self.qkv(self.ln1(x)):view(n, t, 3, heads, d / heads):permute(3, 1, 4, 2, 5)
    local y = mt.scaled_dot_product_attention(parts[1], parts[2], parts[3], {is_causal = true})
    x = x + self.proj(y:transpose(2, 3):reshape(n, t, d))
    return x + self.down(mt.gelu(self.up(self.ln2(x))))
  end)
end
local function gpt(d, heads)
  local tokens = nn.Embedding(20, d)
  return class('GPT', { {'tokens', tokens}, {'places', nn.Embedding(16, d)},
    {'blocks', nn.Sequential(transformer_block(d, heads), transformer_block(d, heads))}, {'ln', nn.LayerNorm(d)} },
    function(self, ids)
    local t = ids.shape[2]
    local h = self.tokens(ids) + self.places(mt.range(1, t))
    return self.ln(self.blocks(h)):matmul(self.tokens.weight:t())
  end)
end
local both = { {[1] = 'batch', [2] = 'time'} }
local function tokens(n) return {mt.randn(n, n + 3, 8)} end
add('mha', nn.MultiheadAttention(8, 2, {batch_first = true}), tokens, {axes = both})
add('mha_length_first', nn.MultiheadAttention(8, 4), function(n) return {mt.randn(5, n, 8)} end,
  {axes = { {[2] = 'batch'} }})
add('mha_masks', class('Masked', { {'mha', nn.MultiheadAttention(8, 2,
  {batch_first = true, add_bias_kv = true, add_zero_attn = true})} }, function(self, x, padding)
  local t = x.shape[2]
  local later = mt.ones({t, t}, {dtype = 'bool'}):triu(1)
  local out, weights = self.mha(x, x, x, {attn_mask = later, key_padding_mask = padding, need_weights = true})
  return out, weights, self.mha(x, x, x, {key_padding_mask = padding}), self.mha(x, {is_causal = true})
end), function(n)
  local padding = mt.zeros({n, n + 3}, 'bool')
  padding[{ {}, n + 3}] = true
  return {mt.randn(n, n + 3, 8), padding}
end, {axes = {both[1], both[1]}})
add('mha_cross', nn.MultiheadAttention(8, 2, {kdim = 6, vdim = 4, batch_first = true}), function(n)
  return {mt.randn(n, 5, 8), mt.randn(n, 7, 6), mt.randn(n, 7, 4)}
end)
add('transformer_encoder', nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2,
  {dim_feedforward = 16, batch_first = true}), 2), tokens, {axes = both})
add('encoder_norm_first', nn.TransformerEncoderLayer(8, 2,
  {dim_feedforward = 16, norm_first = true, activation = 'gelu'}), function(n) return {mt.randn(5, n, 8)} end,
  {axes = { {[2] = 'batch'} }})
add('transformer_decoder', class('Decoder', { {'decoder', nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2,
  {dim_feedforward = 16, batch_first = true}), 2)} }, function(self, x, memory)
  local t = x.shape[2]
  return self.decoder(x, memory, {tgt_mask = mt.ones({t, t}, {dtype = 'bool'}):triu(1)})
end), function(n) return {mt.randn(n, n + 3, 8), mt.randn(n, 5, 8)} end, {axes = {both[1], {[1] = 'batch'}}})
add('weight_norms', nn.Sequential(nn.weight_norm(nn.Linear(6, 5)), nn.spectral_norm(nn.Linear(5, 4))), of(6))
add('gpt', gpt(16, 4), function(n) return {mt.randint(1, 20, {n, n + 4})} end,
  {positions = {true}, axes = { {[1] = 'batch', [2] = 'time'} }})
add('gpt_sampled', class('Greedy', { {'gpt', gpt(16, 2)} }, function(self, ids)
  for _ = 1, 3 do
    local last = self.gpt(ids)[{ {}, -1}]
    ids = mt.cat({ids, last:argmax(2, true)}, 2)
  end
  return ids
end), function(n) return {mt.randint(1, 20, {n, 5})} end, {positions = {true}, places = {true}})

return networks
