-- test_init.lua -- initialisation: nn.init with PyTorch's formulas, and the initial parameters of layers
local mt = require 'mtorch'
local t = require 'testing'
local nn = mt.nn
local init = nn.init
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

--- Asserts that x is uniform in +-bound, by its range, mean and variance.
local function is_uniform(x, bound)
  assert(x:max():item() <= bound and x:min():item() >= -bound)
  assert(x:max():item() > 0.98 * bound and x:min():item() < -0.98 * bound)
  near(x:mean():item(), 0, 0.03 * bound)
  near(x:var():item(), bound ^ 2 / 3, 0.03 * bound ^ 2)
end

--- Asserts that x is normal, by mean, variance, kurtosis, and the fraction within one deviation.
local function is_normal(x, mean, std)
  local z = (x - mean) / std
  near(z:mean():item(), 0, 0.03)
  near(z:var():item(), 1, 0.03)
  near((z ^ 4):mean():item(), 3, 0.2)
  near(z:abs():lt(1):float():mean():item(), 0.6827, 0.01)
end

test('by the sizes: bounds and deviations of PyTorch', function()
  mt.manual_seed(3)
  local w, conv = mt.empty(200, 150), mt.empty(60, 20, 3, 5)
  for _, case in ipairs{{w, 150, 200}, {conv, 20 * 15, 60 * 15}} do
    local x, fan_in, fan_out = unpack(case)
    is_uniform(init.xavier_uniform_(x), math.sqrt(6 / (fan_in + fan_out)))
    is_uniform(init.xavier_uniform_(x, 2.5), 2.5 * math.sqrt(6 / (fan_in + fan_out)))
    is_normal(init.xavier_normal_(x, {gain = 0.5}), 0, 0.5 * math.sqrt(2 / (fan_in + fan_out)))
    is_uniform(init.kaiming_uniform_(x, {a = math.sqrt(5)}), 1 / math.sqrt(fan_in))
    is_uniform(init.kaiming_uniform_(x), math.sqrt(6 / fan_in))
    is_normal(init.kaiming_normal_(x, {mode = 'fan_out', nonlinearity = 'relu'}), 0, math.sqrt(2 / fan_out))
    is_normal(init.kaiming_normal_(x, 0, 'fan_in', 'tanh'), 0, 5 / 3 / math.sqrt(fan_in))
  end
end)

test('gains', function()
  for name, gain in pairs{linear = 1, conv2d = 1, conv_transpose3d = 1, sigmoid = 1, tanh = 5 / 3, relu = math.sqrt(2),
      selu = 0.75, leaky_relu = math.sqrt(2 / 1.0001)} do
    near(init.calculate_gain(name), gain, 1e-15)
  end
  near(init.calculate_gain('leaky_relu', 0.3), math.sqrt(2 / 1.09), 1e-15)
  raises(function() init.calculate_gain('silu') end, "calculate_gain: nonlinearity is 'silu'; use 'conv1d'")
end)

test('values', function()
  mt.manual_seed(4)
  local x = nn.Parameter(mt.empty(150, 200))
  assert(rawequal(init.normal_(x, 2, 0.5), x) and x.requires_grad and x.is_leaf)
  is_normal(x:detach(), 2, 0.5)
  is_uniform(init.uniform_(x, -3, 3):detach(), 3)
  eq({init.constant_(x, 2.5):min():item(), x:max():item()}, {2.5, 2.5})
  eq({init.ones_(x):sum():item(), init.zeros_(x):sum():item()}, {30000, 0})
  assert(mt.equal(init.eye_(x):detach(), mt.eye(150, 200)))
  eq(init.uniform_(mt.empty(4), {generator = mt.Generator('mt19937', 1)}):tolist(),
    init.uniform_(mt.empty(4), {generator = mt.Generator('mt19937', 1)}):tolist())
  -- of a standard normal within +-2: variance 0.7737, within 1: 0.7152
  local cut = init.trunc_normal_(x, 1, 0.5, 0, 2):detach()
  assert(cut:min():item() >= 0 and cut:max():item() <= 2 and cut:max():item() > 1.98)
  near(cut:mean():item(), 1, 0.01)
  near(cut:var():item(), 0.77374 / 4, 0.005)
  near((cut - 1):abs():lt(0.5):float():mean():item(), 0.71524, 0.01)
  near(init.trunc_normal_(x, 0, 1, 1, 5):mean():item(), 1.5251, 0.01)
end)

test('orthogonal_', function()
  for _, sizes in ipairs{{5, 5}, {3, 7}, {7, 3}, {4, 2, 3}} do
    local w = init.orthogonal_(mt.empty(sizes, 'float64'), 2):flatten(2)
    local small = w:size(1) <= w:size(2) and w:matmul(w:t()) or w:t():matmul(w)
    mt.test_close(small, mt.eye(#small, {dtype = 'float64'}) * 4, 1e-12)
  end
  mt.manual_seed(1)
  local signs = 0 -- uniform: a column's sign is either one
  for _ = 1, 200 do signs = signs + (init.orthogonal_(mt.empty(2, 2)):at(1, 1) > 0 and 1 or 0) end
  assert(signs > 60 and signs < 140, signs)
end)

test('sparse_ and dirac_', function()
  local w = init.sparse_(mt.empty(50, 40), 0.33, 2)
  eq(w:eq(0):sum(1):tolist(), mt.full({40}, 17):tolist()) -- ceil of 16.5
  near(w:masked_select(w:ne(0)):std():item(), 2, 0.2)
  local x = mt.rand(2, 3, 5, 6)
  assert(mt.equal(mt.conv2d(x, init.dirac_(mt.empty(3, 3, 3, 3)), {padding = 1}), x))
  local twice = mt.conv1d(mt.rand(1, 2, 5), init.dirac_(mt.empty(4, 2, 3), 2), {padding = 1})
  assert(mt.equal(twice[{{}, {1, 2}}], twice[{{}, {3, 4}}]))
  eq(init.dirac_(mt.empty(2, 1, 4)):tolist(), {{{0, 0, 1, 0}}, {{0, 0, 0, 0}}})
end)

test('errors', function()
  raises(function() init.xavier_normal_(mt.empty(3)) end, 'xavier_normal_: the tensor is %(3%); it needs 2 dimensions')
  raises(function() init.kaiming_normal_(mt.empty(3, 3), {mode = 'fan'}) end, "mode is 'fan'; use 'fan_in' or " ..
    "'fan_out'")
  raises(function() init.eye_(mt.empty(3)) end, 'eye_: the tensor is %(3%); a matrix')
  raises(function() init.dirac_(mt.empty(3, 3)) end, 'dirac_: .*3 to 5 dimensions')
  raises(function() init.dirac_(mt.empty(3, 3, 3), 2) end, 'dirac_: the first size is 3, which 2 groups do not divide')
  raises(function() init.uniform_(mt.empty(3), 2, 1) end, 'uniform_: a is 2 and b 1')
  raises(function() init.trunc_normal_(mt.empty(3), {std = 0}) end, 'std must be a number above 0, got 0')
  raises(function() init.sparse_(mt.empty(3), 0.5) end, 'sparse_: .*a matrix')
  raises(function() init.orthogonal_(mt.empty(3)) end, 'orthogonal_')
  raises(function() return init.xavier end, "mt.nn.init has no 'xavier'")
  raises(function() init.normal_{1, 2} end, 'normal_: tensor must be a tensor')
end)

test('what layers begin with', function()
  mt.manual_seed(5)
  for code, bound in pairs{['Linear(300, 200)'] = 1 / math.sqrt(300), ['Conv1d(40, 60, 5)'] = 1 / math.sqrt(200),
      ['Conv2d(20, 60, {3, 2}, {groups = 2})'] = 1 / math.sqrt(60), ['Conv3d(6, 100, 3)'] = 1 / math.sqrt(162),
      ['ConvTranspose1d(30, 60, 4)'] = 1 / math.sqrt(240), ['ConvTranspose2d(30, 60, 3, {groups = 3})'] =
      1 / math.sqrt(180), ['Bilinear(40, 30, 20)'] = 1 / math.sqrt(40)} do
    local layer = setfenv(assert(loadstring('return nn.' .. code)), {nn = nn})()
    is_uniform(layer.weight:detach(), bound)
    assert(layer.bias:max():item() <= bound and layer.bias:max():item() > 0.6 * bound, code)
    near(layer.bias:mean():item(), 0, 0.4 * bound)
  end
  is_normal(nn.Embedding(300, 100).weight:detach(), 0, 1)
  is_normal(nn.EmbeddingBag(300, 100).weight:detach(), 0, 1)
  eq(nn.Embedding(3, 2, {padding_idx = 2}).weight[2]:tolist(), {0, 0})
  for _, layer in ipairs{nn.BatchNorm2d(4), nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.InstanceNorm1d(4,
    {affine = true})} do
    eq({layer.weight:tolist(), layer.bias:tolist()}, {{1, 1, 1, 1}, {0, 0, 0, 0}})
  end
  eq({nn.RMSNorm(2).weight:tolist(), nn.PReLU(2).weight:tolist(), nn.PReLU(1, 0.5).weight:tolist()},
    {{1, 1}, {0.25, 0.25}, {0.5}})
  local norm = nn.BatchNorm1d(2)
  eq({norm.running_mean:tolist(), norm.running_var:tolist(), norm.num_batches_tracked:item()}, {{0, 0}, {1, 1}, 0})
end)

t.finish()
