-- test_neural.lua -- losses, normalisation, attention, embeddings, dropout: values, gradients, errors
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local values = require 'torch_values'
local torch, lin, is = values.functions, values.lin, values.is
local inf = math.huge

local function doubles(list) return mt.tensor(list, 'float64') end

local labels = mt.tensor({{1, 2, -100, 3}, {3, 3, 1, 2}}, 'int64')
local x, w = lin{2, 3, 4}, doubles{0.5, 2, 1.5}
local a, b = lin{6} * 2, lin({6}, 1.1) * 2
local signs = doubles{1, -1, 1, -1, 1, 1}

test('cross_entropy', function()
  local p = lin({2, 3, 4}, 1.3):softmax(2)
  for _, r in ipairs{'none', 'mean', 'sum'} do
    is('ce_' .. r, mt.cross_entropy(x, labels, {reduction = r}))
    is('cew_' .. r, mt.cross_entropy(x, labels, {reduction = r, weight = w, label_smoothing = 0.2}))
    is('cep_' .. r, mt.cross_entropy(x, p, {reduction = r, weight = w, label_smoothing = 0.1}))
  end
  is('ce1', mt.cross_entropy(x[1][{{}, 1}], mt.tensor(2, 'int64')))
  is('nll', mt.nll_loss(x:log_softmax(2), labels, w))
  eq(mt.cross_entropy(x, labels, {reduction = 'none'}).shape, mt.zeros(2, 4).shape)
  raises(function() mt.cross_entropy(x, p, {ignore_index = 2}) end, 'ignore_index is 2, but the targets are prob')
end)

test('cross_entropy far out, and of nothing', function()
  near(mt.cross_entropy(mt.tensor{{1000, 0}, {-1000, 0}}, mt.tensor({1, 1}, 'int64')):item(), 500)
  local none = mt.cross_entropy(mt.ones(2, 3), mt.tensor({-100, -100}, 'int64')):item()
  eq(none ~= none, true)
  eq(mt.cross_entropy(mt.ones(0, 3), mt.zeros({0}, 'int64'), {reduction = 'sum'}):item(), 0)
  eq(mt.cross_entropy(mt.tensor{{inf, 0}}, mt.tensor({1}, 'int64'), {ignore_index = 1,
    reduction = 'sum'}):item(), 0)
end)

test('labels are checked', function()
  raises(function() mt.cross_entropy(x, labels + 1) end, 'target 3 is %-99, expected 1%.%.3')
  raises(function() mt.nll_loss(mt.zeros(2, 3), mt.tensor({0, 1}, 'int64')) end,
    'nll_loss: target 1 is 0, expected 1%.%.3')
  raises(function() mt.cross_entropy(mt.zeros(2, 3), mt.tensor({1, -1}, 'int64')) end,
    'target 2 is %-1')
  raises(function() mt.cross_entropy(mt.zeros(2, 0), mt.tensor({1, 1}, 'int64')) end, 'target 1')
  raises(function() mt.cross_entropy(mt.zeros(2, 3), mt.tensor({1, 1}, 'int64'),
    {weight = mt.ones(2)}) end, 'weight is %(2%).*3 classes')
  raises(function() mt.cross_entropy(mt.zeros(2, 3), mt.tensor({1, 1}, 'int64'),
    {label_smoothing = 2}) end, 'label_smoothing is 2')
  raises(function() mt.cross_entropy(x, mt.tensor({1}, 'int64')) end, 'logits are')
  raises(function() mt.cross_entropy(labels, labels) end, 'int64.*float')
end)

test('distances of elements', function()
  is('sl1', mt.smooth_l1_loss(a, b, {beta = 0.7, reduction = 'none'}))
  is('huber', mt.huber_loss(a, b, {delta = 0.7, reduction = 'none'}))
  is('l1', mt.l1_loss(a, b))
  near(mt.smooth_l1_loss(a, b, {beta = 0}):item(), torch.l1[1])
  raises(function() mt.smooth_l1_loss(a, b, {beta = -1}) end, 'beta is %-1')
  raises(function() mt.huber_loss(a, b, {delta = 0}) end, 'delta is 0')
  raises(function() mt.l1_loss(a, x) end, 'l1_loss: the input is %(6%)')
end)

test('binary cross entropy', function()
  local y = b:sigmoid()
  is('bce', mt.binary_cross_entropy(a:sigmoid(), y, {weight = y + 1, reduction = 'none'}))
  is('bcel', mt.binary_cross_entropy_with_logits(a, y, {weight = y + 1, pos_weight = y * 2,
    reduction = 'none'}))
  local p = mt.tensor{0, 1, 0, 1}:requires_grad_()
  local loss = mt.binary_cross_entropy(p, mt.tensor{0, 1, 1, 0}, {reduction = 'none'})
  eq(loss:tolist(), {0, 0, 100, 100})
  loss:sum():backward()
  eq(p.grad:isfinite():all(), true)
  near(mt.binary_cross_entropy_with_logits(mt.tensor{100, -200, 300}, mt.tensor{1, 0, 0},
    {reduction = 'none'}):tolist(), {0, 0, 300})
  raises(function() mt.binary_cross_entropy_with_logits(a, y, {weight = mt.ones(7)}) end,
    'do not broadcast')
end)

test('distributions and vectors', function()
  local q, p, y = lin{2, 3}:log_softmax(2), lin({2, 3}, 1.3):softmax(2), lin({2, 3}, 1.3)
  is('kl', mt.kl_div(q, p, 'batchmean'))
  is('kll', mt.kl_div(q, p:log(), 'sum', true))
  eq(mt.kl_div(mt.zeros(2), mt.zeros(2), 'sum'):item(), 0)
  local row, wide = mt.tensor{.25, .75}, mt.tensor{{-1, -2}, {-3, -.5}, {-2, -2}} -- broadcast, as in PyTorch
  near(mt.kl_div(wide, row):item(), 0.5313324332237244)
  near(mt.kl_div(wide, row, 'batchmean'):item(), 1.0626648664474487)
  near(mt.kl_div(row, wide, {reduction = 'batchmean', log_target = true}):item(), -1.214334487915039)
  is('cos', mt.cosine_similarity(lin{2, 3}, y))
  is('pd', mt.pairwise_distance(lin{2, 3}, y, 3))
  is('norm1', mt.normalize(lin{2, 3}, {p = 1, dim = 1}))
  is('norm3', mt.normalize(lin{2, 3}, {p = 3}))
  is('norminf', mt.normalize(lin{2, 3}, {p = inf}))
  is('tri', mt.triplet_margin_loss(lin{2, 3}, y, lin({2, 3}, 0.8), {swap = true}))
  is('mr', mt.margin_ranking_loss(a, b, signs, 0.2))
  is('he', mt.hinge_embedding_loss(a, signs))
  is('ces', mt.cosine_embedding_loss(lin{2, 3}, y, doubles{1, -1}, 0.1))
  eq(mt.normalize(mt.zeros(2, 2)):tolist(), {{0, 0}, {0, 0}})
  raises(function() mt.normalize(x, {p = -1}) end, 'p is %-1')
  raises(function() mt.normalize(mt.tensor(3)) end, '0%-d')
end)

test('layer, rms and group norm', function()
  is('ln', mt.layer_norm(lin{2, 3}, {3}, w, w + 1))
  is('rms', mt.rms_norm(lin{2, 3}, {3}, w))
  is('gn', mt.group_norm(lin{2, 4, 2}, 2, lin{4}, lin{4} + 1))
  eq(mt.layer_norm(mt.zeros(0, 3), {3}).shape, mt.zeros(0, 3).shape)
  for _, n in ipairs{3, 7, 10, 100, 1000} do
    eq(mt.layer_norm(mt.randn(100, 1, {dtype = 'float64'}):expand(-1, n):contiguous(), {n}):count_nonzero():item(), 0)
  end
  local planes = mt.randn(1, 3, 1, 1, {dtype = 'float64'}):expand(2, 3, 100, 150):contiguous()
  eq(mt.batch_norm(planes, nil, nil, nil, nil, true):count_nonzero():item(), 0)
  raises(function() mt.layer_norm(x, {3}) end, 'normalized_shape is %(3%).*%(2 x 3 x 4%)')
  raises(function() mt.layer_norm(x, {4}, w) end, 'weight is %(3%), expected %(4%)')
  raises(function() mt.layer_norm(x, {4}, nil, nil, -1) end, 'eps is %-1')
  raises(function() mt.group_norm(x, 2) end, 'num_groups is 2.*3 channels')
  raises(function() mt.group_norm(x, 0) end, 'num_groups is 0')
  raises(function() mt.rms_norm(x:long(), {4}) end, 'int64')
end)

--- Returns a normalisation's result and its gradients as one list of numbers.
local function slopes(f, dtype, shape, width, wanted)
  mt.manual_seed(3)
  local v = mt.randn(unpack(shape)):add(2):to(dtype)
  local g, h, up = mt.rand(width):to(dtype), mt.rand(width):to(dtype), mt.randn(unpack(shape)):to(dtype)
  for _, t in ipairs {v, g, h} do t:requires_grad_() end
  local y = f(v, g, h)
  y:backward(up)
  local all = {y:detach(), v.grad}
  for _, t in ipairs {g, h} do if t.grad then all[#all + 1] = t.grad end end
  eq(#all, wanted or 4)
  for i, t in ipairs(all) do all[i] = t:double():reshape{-1} end
  return mt.cat(all, 1)
end
local function by_running(v, g, h) -- other statistics for each channel
  local n = v:size(2)
  local rm, rv = mt.linspace(-1, 1, n):to(v.dtype), mt.linspace(0.5, 2, n):to(v.dtype)
  return mt.batch_norm(v, rm, rv, g, h)
end
local norms = {
  {'layer', function(v, g, h) return mt.layer_norm(v, {70}, g, h) end, {1100, 70}, 70},
  {'layer without bias', function(v, g) return mt.layer_norm(v, {37}, g) end, {9, 37}, 37, 3},
  {'layer with bias alone', function(v, _, h) return mt.layer_norm(v, {37}, nil, h) end, {9, 37}, 37,
    3},
  {'layer across memory', function(v, g, h) return mt.layer_norm(v:t(), {300}, g, h):t() end,
    {300, 200}, 300},
  {'rms', function(v, g) return mt.rms_norm(v, {70}, g) end, {1100, 70}, 70, 3},
  {'batch', function(v, g, h) return mt.batch_norm(v, nil, nil, g, h, true) end, {5, 30, 20, 20}, 30},
  {'batch, short', function(v, g, h) return mt.batch_norm(v, nil, nil, g, h, true) end, {500, 30, 3},
    30},
  {'batch, flat', function(v, g, h) return mt.batch_norm(v, nil, nil, g, h, true) end, {900, 70}, 70},
  {'batch, running', function(v, g, h) return by_running(v, g, h) end, {5, 30, 20, 20}, 30},
  {'batch, running, flat', function(v, g, h) return by_running(v, g, h) end, {900, 70}, 70},
  {'batch, running, without bias', function(v, g) return by_running(v, g) end, {500, 30, 3}, 30, 3},
  {'group', function(v, g, h) return mt.group_norm(v, 5, g, h) end, {7, 30, 20, 16}, 30},
  {'group, flat', function(v, g, h) return mt.group_norm(v, 5, g, h) end, {700, 60}, 60},
  {'instance', function(v, g, h)
    return mt.instance_norm(v, nil, nil, g, h)
  end, {7, 30, 20, 16}, 30},
}
for _, row in ipairs(norms) do
  test(row[1] .. ' norm: float32 beside float64, and the same bits on every number of threads', function()
    local exact = slopes(row[2], 'float64', row[3], row[4], row[5])
    local one = t.on_threads(function() return slopes(row[2], 'float32', row[3], row[4], row[5]) end)
    local error = (one - exact):abs():max():item() / exact:abs():max():item()
    assert(error < 2e-6, 'error ' .. error)
  end)
end

test('weights of another dtype promote', function()
  local y = mt.layer_norm(mt.randn(2, 3):float(), {3}, mt.ones({3}, 'float64'))
  eq(y.dtype, 'float64')
end)

test('running statistics of 16-bit floats move', function()
  for _, dtype in ipairs{'float16', 'bfloat16'} do
    for _, of in ipairs{dtype, 'float32'} do
      local m, v = mt.zeros({2}, dtype), mt.ones({2}, dtype)
      local x = mt.full({4, 2}, 3, of)
      mt.batch_norm(x, m, v, nil, nil, {training = true, momentum = 0.5})
      t.eq({m.dtype, m:tolist(), v:tolist()}, {dtype, {1.5, 1.5}, {0.5, 0.5}})
      mt.instance_norm(x:view(2, 2, 2):contiguous(), m, v, nil, nil, {momentum = 0.5})
      t.eq({m:tolist(), v:tolist()}, {{2.25, 2.25}, {0.25, 0.25}})
      mt.autocast(function() mt.batch_norm(x, m, v, nil, nil, {training = true, momentum = 0.5}) end)
      t.eq(m:tolist(), {2.625, 2.625})
      t.eq(mt.batch_norm(x, m, v).dtype, of)
    end
  end
end)

test('batch_norm by running statistics agrees with its formula', function()
  mt.manual_seed(3)
  local function near(a, b) return mt.allclose(a:double(), b:double(), 1e-5, 1e-5) end
  for _, dtype in ipairs{'float32', 'float64'} do
    for _, shape in ipairs{{5, 3, 4, 4}, {2, 3}, {2, 4, 1}, {3, 1, 5}, {40, 6, 9, 9}, {700, 100}, {3, 2, 2, 2, 17}} do
      local c, beside = shape[2], {-1, unpack(({{}, {1}, {1, 1}, {1, 1, 1}})[#shape - 1])}
      local x, rm = mt.randn(shape, dtype) * 2 + 3, mt.randn({c}, dtype)
      local rv, w, b = mt.rand({c}, dtype) + 0.1, mt.randn({c}, dtype), mt.randn({c}, dtype)
      local across = x:transpose(1, -1):contiguous():transpose(1, -1)
      for _, case in ipairs{{true, true}, {true, false}, {false, true}, {false, false}} do
        x, w, b = x:detach():requires_grad_(), w:detach():requires_grad_(), b:detach():requires_grad_()
        local g, h = case[1] and w, case[2] and b
        local function formula(v)
          local rate = (rv + 1e-3):rsqrt()
          local y = (v - rm:reshape(beside)) * (g and rate * g or rate):reshape(beside)
          return h and y + h:reshape(beside) or y
        end
        local function given(v) return mt.batch_norm(v, rm, rv, g or nil, h or nil, {eps = 1e-3}) end
        local weights, inputs = mt.randn(shape, dtype), {x}
        if g then inputs[2] = g end
        if h then inputs[#inputs + 1] = h end
        assert(mt.equal(given(x), formula(x)) and mt.equal(given(across), formula(x)))
        local one = mt.grad((given(x) * weights):sum(), inputs)
        for i, d in ipairs(mt.grad((formula(x) * weights):sum(), inputs)) do assert(near(one[i], d)) end
        local twice = {}
        for i, f in ipairs{given, formula} do
          local first = mt.grad((f(x) ^ 3):sum(), inputs, {create_graph = true})
          local sum = 0
          for _, d in ipairs(first) do sum = sum + (d * d):sum() end
          twice[i] = mt.grad(sum, inputs)
        end
        for i in ipairs(inputs) do assert(mt.allclose(twice[1][i], twice[2][i], 1e-3, 1e-3)) end
      end
    end
  end
end)

test('the statistics that batch_norm is given', function()
  local x = mt.randn(6, 2):requires_grad_()
  local rm, rv = mt.ones(2), mt.full({2}, 4)
  local y = mt.batch_norm(x, rm, rv, nil, nil, {eps = 0})
  rm:zero_()
  rv:fill_(100)  -- they are updated before backward
  y:sum():backward()
  t.eq(x.grad:tolist(), mt.full({6, 2}, 0.5):tolist())
  rm:fill_(1):requires_grad_()  -- and may have gradients
  mt.batch_norm(x, rm, rv, nil, nil, {eps = 0}):sum():backward()
  t.near(rm.grad:tolist(), {-0.6, -0.6}, 1e-6)
  local half = mt.randn({5, 2}, 'float16')
  local wide = mt.batch_norm(half:float(), rv, rv)
  t.eq(mt.batch_norm(half, rv:half(), rv:half()):tolist(), wide:half():tolist())
  t.eq(mt.batch_norm(half, rv, rv):tolist(), wide:half():tolist())
  t.eq(mt.batch_norm(x:double(), rv, rv).dtype, 'float64')
  t.eq(mt.batch_norm(mt.zeros(0, 2), rv, rv).shape[1], 0)
  local v, host = rv:detach():cpu(), x:detach():cpu()
  local before = mt.memory_stats().allocations
  mt.batch_norm(host, v, v, v, v)
  t.eq(mt.memory_stats().allocations - before, 2)  -- the result and a number of each channel
end)

test('a 0-d tensor is normalised as a line of one', function()
  for _, p in ipairs{0.5, 1, 2, math.huge} do
    t.near(mt.normalize(mt.tensor(-3), {p = p, dim = 1}):item(), -1, 1e-6)
  end
  t.eq(mt.cosine_similarity(mt.tensor(3), mt.tensor(-2), 1):item(), -1)
  t.near(mt.pairwise_distance(mt.tensor(3), mt.tensor(-2)):item(), 5, 1e-5)
  raises(function() mt.normalize(mt.tensor(3)) end, 'normalize: dimension 2')
end)

test('norms beyond the squares of float32: normalize, cosine_similarity, pairwise_distance, norm, their gradients',
function()
  local x, y = mt.tensor{3, 4, 0, 12}, mt.tensor{1, -1, 2, 0}
  for _, size in ipairs{1e25, 1e-25} do
    local big, other = (x * size):requires_grad_(), y * size
    t.near(mt.normalize(big, 2, 1, 0):tolist(), (x / 13):tolist(), 1e-6)
    t.near(mt.normalize(big, 3, 1, 0):tolist(), mt.normalize(x, 3, 1):tolist(), 1e-6)
    local c = mt.cosine_similarity(big, other, 1, 0)
    t.near(c:item(), mt.cosine_similarity(x, y, 1):item(), 1e-6)
    for _, p in ipairs{0.5, 1, 2, 3, math.huge} do
      t.near((mt.pairwise_distance(big, other, p, 0) / size):item(), mt.pairwise_distance(x, y, p, 0):item(), 1e-5)
      t.near((big:norm(p) / size):item(), x:norm(p):item(), 1e-5)
    end
    t.near((big[{{1, 2}}]:norm(-3) / size):item(), x[{{1, 2}}]:norm(-3):item(), 1e-5)
    c:backward()
    local small = x:clone():requires_grad_()
    mt.cosine_similarity(small, y, 1):backward()
    t.near((big.grad * size):tolist(), small.grad:tolist(), 1e-6)
  end
  t.eq(mt.pairwise_distance(x, x, 2, 0):item(), 0)
  t.eq(mt.tensor{0, math.huge}:norm(3):item(), math.huge)
  t.eq(mt.tensor{0, math.huge}:norm(-3):item(), 0)
  t.eq(mt.zeros(2):norm(3):item(), 0)
  t.eq(mt.zeros(0):norm(3):item(), 0)
end)

test('softmax and similar functions calculate in a dtype', function()
  local x = mt.tensor({{1, 2}, {3, 5}}, 'int64')
  for _, f in ipairs{mt.softmax, mt.log_softmax, mt.softmin} do
    for _, dtype in ipairs{'float64', 'float32', 'float16'} do
      local y = f(x, 2, {dtype = dtype})
      t.eq({y.dtype, y:tolist()}, {dtype, f(x:to(dtype), 2):tolist()})
    end
    local y = mt.tensor({1, 2}, {dtype = 'float16'}):requires_grad_()
    f(y, 1, 'float32')[1]:backward()
    t.eq(y.grad.dtype, 'float16')
    raises(function() f(x, 2, 'int64') end, ': int64 cannot hold fractions')
  end
  t.near(mt.softmax(x[1], 1, 'float64'):tolist(), {0.2689414213699951, 0.7310585786300049}, 1e-15)
end)

test('batch and instance norm move the running statistics', function()
  local z = lin{2, 3, 2}
  local rm, rv = mt.zeros({3}, 'float64'), mt.ones({3}, 'float64')
  is('bn', mt.batch_norm(z, rm, rv, w, w + 1, true, 0.3))
  is('rm', rm)
  is('rv', rv)
  is('bne', mt.batch_norm(z, rm, rv, w, w + 1))
  rm, rv = mt.zeros({3}, 'float64'), mt.ones({3}, 'float64')
  is('inn', mt.instance_norm(z, rm, rv, w, w + 1, true, 0.3))
  is('irm', rm)
  is('irv', rv)
  raises(function() mt.batch_norm(z, mt.zeros(4), rv, w, w, true) end,
    'the input %(2 x 3 x 2%) has 3 channels, the layer 4')
  raises(function() mt.batch_norm(z, nil, nil) end, 'running_mean and running_var are needed')
  raises(function() mt.batch_norm(mt.ones(1, 3), nil, nil, {training = true}) end, 'variance of one value')
  raises(function() mt.instance_norm(mt.ones(2, 3, 1)) end, 'variance of one value')
  is('irm', rm)
end)

test('attention', function()
  local q, k, v = lin{1, 3, 2}, lin({1, 4, 2}, 0.9), lin({1, 4, 2}, 1.7)
  local mask = mt.tensor{{true, false, true, true}, {false, false, false, false}, {true, true,
    false, false}}
  local attend = mt.scaled_dot_product_attention
  is('att', attend(q, k, v))
  is('attm', attend(q, k, v, mask))
  is('attc', attend(q, k, v, {is_causal = true, scale = 0.3}))
  is('attf', attend(q, k, v, lin{3, 4}))
  q:requires_grad_()
  attend(q, k, v, mask):sum():backward()
  eq(q.grad:isfinite():all(), true)
  raises(function() attend(q, k, v, {attn_mask = mask, is_causal = true}) end, 'not both')
  raises(function() attend(q, k, v, mt.ones(5, 4)) end, 'do not broadcast')
  raises(function() attend(q, k, lin{1, 3, 2}) end, 'different lengths')
  raises(function() attend(q, k, v, {dropout_p = 2}) end, 'dropout_p is 2')
end)

test('embedding and one_hot', function()
  local table = mt.tensor({{1, 2}, {3, 4}, {5, 6}}, 'float64'):requires_grad_()
  local ids = mt.tensor({{1, 3}, {3, 2}}, 'int64')
  local rows = mt.embedding(ids, table, 3)
  eq(rows:tolist(), {{{1, 2}, {5, 6}}, {{5, 6}, {3, 4}}})
  rows:sum():backward()
  eq(table.grad:tolist(), {{1, 1}, {1, 1}, {0, 0}})
  eq(mt.one_hot(mt.tensor({1, 3}, 'int64')):tolist(), {{1, 0, 0}, {0, 0, 1}})
  eq(mt.one_hot(ids, 4).shape, mt.zeros(2, 2, 4).shape)
  raises(function() mt.embedding(ids + 1, table) end, 'id 4 %(element 2%) is outside 1%.%.3')
  raises(function() mt.embedding(ids - 1, table) end, 'id 0 %(element 1%)')
  raises(function() mt.embedding(ids, table, 4) end, 'padding_idx is 4')
  raises(function() mt.embedding(ids:double(), table) end, 'float64.*long')
  raises(function() mt.one_hot(ids, 2) end, 'id 3')
  raises(function() mt.one_hot(ids, 0) end, 'num_classes is 0')
  raises(function() mt.one_hot(mt.zeros({0}, 'int64')) end, 'num_classes is needed')
  raises(function() mt.one_hot(mt.tensor({2 ^ 52}, 'int64')) end, 'more elements')
end)

test('attention with fewer heads of keys than of queries', function()
  local attend, q = mt.scaled_dot_product_attention, lin{1, 4, 3, 2}
  local k, v = lin({1, 2, 5, 2}, 0.9), lin({1, 2, 5, 2}, 1.7)
  is('gqa', attend(q, k, v, {enable_gqa = true}))
  eq(attend(q, q, q, {enable_gqa = true}):equal(attend(q, q, q)), true)
  raises(function() attend(q, lin{1, 3, 5, 2}, v, {enable_gqa = true}) end,
    'enable_gqa the heads of the query %(1 x 4 x 3 x 2%) must be a multiple of those of %(1 x 3 x 5 x 2%)')
  raises(function() attend(q, k[{1, 1}], v, {enable_gqa = true}) end, 'enable_gqa')
end)

test('running statistics of integers are refused', function()
  local x, whole = mt.ones(2, 3, 4), mt.ones({3}, 'int64')
  raises(function() mt.batch_norm(x, whole, mt.ones(3)) end, 'batch_norm: running_mean is int64; use x:float%(%)')
  raises(function() mt.instance_norm(x, nil, whole) end, 'instance_norm: running_var is int64')
end)

test('embedding_bag', function()
  local ids, offsets = mt.tensor({2, 4, 1, 1, 3, 4, 4}, 'int64'), mt.tensor({1, 4, 4, 6}, 'int64')
  local table, weights = lin{4, 2}, lin({7}, 0.8)
  local slope = values.slope
  for _, mode in ipairs{'sum', 'mean', 'max'} do
    slope('bag_' .. mode, function(w) return mt.embedding_bag(ids, w, offsets, mode) end, table)
    slope('bagp_' .. mode, function(w)
      return mt.embedding_bag(ids, w, offsets, {mode = mode, padding_idx = -1})
    end, table)
    local ends = mt.cat({offsets, mt.tensor({8}, 'int64')}, 1)
    eq(mt.embedding_bag(ids, table, ends, mode, nil, true):equal(mt.embedding_bag(ids, table, offsets, mode)), true)
    eq(mt.embedding_bag(mt.zeros({0}, 'int64'), table, mt.tensor({1, 1}, 'int64'), mode):tolist(), {{0, 0}, {0, 0}})
    eq(mt.embedding_bag(mt.zeros({0, 3}, 'int64'), table, {mode = mode}).shape, mt.zeros(0, 2).shape)
  end
  slope('bagw', function(w, f) return mt.embedding_bag(ids, w, offsets, 'sum', f) end, table, weights)
  is('bag2', mt.embedding_bag(ids[{{1, 6}}]:reshape(2, 3), table))
  -- more rows than are held at once, in bags of one length and of several
  local many, wide, factors = (mt.range(1, 6000) * 7 % 50 + 1):reshape(60, 100), lin{50, 30}, lin({60, 100}, 0.9)
  local firsts = mt.range(1, 5901, 100)
  for _, mode in ipairs{'sum', 'mean'} do
    for _, padding in ipairs{0, 3} do
      local rows = wide:index_select(1, many:flatten())
      local kept = mt.ones({6000, 1}, 'float64')
      if padding > 0 then kept = many:reshape(6000, 1):ne(padding):double() end
      local option = {mode = mode, padding_idx = padding > 0 and padding or nil}
      local scale = mode == 'sum' and mt.ones({60, 1}, 'float64') or kept:reshape(60, 100):sum(2, true)
      local factor = mode == 'sum' and factors or nil
      local weighted = factor and rows * factor:reshape(6000, 1) or rows
      local wanted = (weighted * kept):reshape(60, 100, 30):sum(2) / scale
      option.per_sample_weights = factor
      near(mt.embedding_bag(many, wide, option):flatten():tolist(), wanted:flatten():tolist(), 1e-12)
      option.per_sample_weights = factor and factor:flatten()
      option.offsets = firsts
      near(mt.embedding_bag(many:flatten(), wide, option):flatten():tolist(), wanted:flatten():tolist(), 1e-12)
    end
  end
  local w, f = wide:clone():requires_grad_(), factors:clone():requires_grad_()
  local g = lin({60, 30}, 0.4)
  mt.embedding_bag(many, w, {mode = 'sum', per_sample_weights = f}):backward(g)
  local spread = g:repeat_interleave(100, 1)
  near(w.grad:flatten():tolist(), mt.zeros({50, 30}, 'float64'):index_add(1, many:flatten(),
    spread * factors:reshape(6000, 1)):flatten():tolist(), 1e-12)
  near(f.grad:flatten():tolist(), (spread * wide:index_select(1, many:flatten())):sum(2):tolist(), 1e-12)
  local half = mt.embedding_bag(many, wide:half(), {mode = 'sum', padding_idx = 3})
  eq(half.dtype, 'float16')
  near(half:double():flatten():tolist(), mt.embedding_bag(many, wide:half():double(), {mode = 'sum',
    padding_idx = 3}):flatten():tolist(), 0.02)
  local before, ones = mt.memory_stats().peak, mt.ones({5000, 100}, 'int64') -- whose rows would take 128 MB
  eq(mt.embedding_bag(ones, mt.ones(1, 64), {mode = 'sum'}):sum():item(), 5000 * 100 * 64)
  assert(mt.memory_stats().peak - before < 64e6)
  local function bad(pattern, ...)
    local args, n = {...}, select('#', ...)
    raises(function() mt.embedding_bag(unpack(args, 1, n)) end, 'embedding_bag: ' .. pattern)
  end
  bad('offset 1 is 0, expected 1%.%.1', ids, table, offsets - 1)
  bad('offset 2 is 9, expected 1%.%.8', ids, table, mt.tensor({1, 9}, 'int64'))
  bad('offset 3 is 2, expected 4%.%.8', ids, table, mt.tensor({1, 4, 2}, 'int64'))
  bad('the offsets are float64 %(4%)', ids, table, offsets:double())
  bad('1%-d ids need offsets', ids, table)
  bad('offsets are for 1%-d ids', ids:reshape(7, 1), table, offsets)
  bad('id 5 %(element 2%) is outside 1%.%.4', ids + 1, table, offsets)
  bad("mode is 'last'", ids, table, offsets, 'last')
  bad("per_sample_weights are for mode 'sum'", ids, table, offsets, 'max', weights)
  bad('per_sample_weights are %(2%), the ids %(7%)', ids, table, offsets, 'sum', mt.ones(2))
  bad('padding_idx is 5', ids, table, offsets, {padding_idx = 5})
  bad('with include_last_offset at least one offset', ids, table, mt.zeros({0}, 'int64'), {include_last_offset = true})
end)

test('dropout of channels, and alpha_dropout', function()
  raises(function() mt.dropout1d(mt.ones(6)) end, 'expected %(batch x channels x length%), or the same without batch$')
  raises(function() mt.dropout2d(mt.ones(6)) end, 'x height x width%), or %(batch x channels x length%)$')
  for f, shapes in pairs{dropout1d = {{40, 30, 5}, {600, 5}}, dropout2d = {{40, 30, 2, 3}, {40, 30, 5}},
    dropout3d = {{40, 30, 2, 3, 2}, {600, 2, 3, 2}}} do
    for _, shape in ipairs(shapes) do
      local x = mt.ones(unpack(shape))
      mt.manual_seed(3)
      local y = mt[f](x, 0.25)
      local channels = y:reshape(#shape == 2 and 600 or f == 'dropout3d' and #shape == 4 and 600 or 1200, -1)
      eq(channels:amax(2):equal(channels:amin(2)), true) -- whole channels
      near(y:mean():item(), 1, 0.15)
      near(y:max():item(), 1 / 0.75)
      eq(y:min():item(), 0)
      eq(mt[f](x, 0.5, false):equal(x), true)
      eq(mt[f](x, 1):sum():item(), 0)
    end
    raises(function() mt[f](mt.ones(3)) end, f .. ': the input is %(3%)')
    raises(function() mt[f](mt.ones(2, 3, 4, 5), 2) end, f .. ': p is 2')
    raises(function() mt[f](mt.ones(2, 3, 4, 5):long()) end, f .. ': .*int64')
  end
  mt.manual_seed(3)
  local x = mt.randn(40000)
  local y = mt.alpha_dropout(x, 0.3, true)
  near(y:mean():item(), 0, 0.03)
  near(y:std():item(), 1, 0.03)
  eq(mt.alpha_dropout(x, 0.3):equal(x), true)
  eq(mt.alpha_dropout(x, 1, true):abs():sum():item(), 0)
  local a = 1 / math.sqrt((1.7580993408473766 ^ 2 * 0.3 + 1) * 0.7)
  near(y:min():item() <= 0 and mt.alpha_dropout(mt.zeros(50), 0.3, true):min():item(),
    -1.7580993408473766 * a + 1.7580993408473766 * a * 0.3, 1e-6)
  raises(function() mt.alpha_dropout(x, -1, true) end, 'p is %-1')
  raises(function() mt.alpha_dropout(x:long(), 0.5, true) end, 'int64')
end)

test('dropout', function()
  local ones = mt.ones(20000)
  local results = {}
  for _, threads in ipairs{1, 2, 3} do
    mt.set_num_threads(threads)
    mt.manual_seed(5)
    results[#results + 1] = mt.dropout(ones, 0.25)
  end
  mt.set_num_threads(2)
  eq((results[1] - results[2]):abs():sum():item() + (results[1] - results[3]):abs():sum():item(), 0)
  near(results[1]:mean():item(), 1, 0.02)
  near(results[1]:max():item(), 1 / 0.75)
  eq(mt.dropout(ones, 0.5, false):equal(ones), true)
  eq(mt.dropout(ones, 1):sum():item(), 0)
  mt.manual_seed(5)
  local y = mt.ones(20000)
  eq(y:dropout_(0.25) == y, true)
  eq(y:equal(results[1]), true)
  raises(function() mt.dropout(ones, 1.5) end, 'p is 1.5')
  raises(function() mt.dropout(ones, 0 / 0) end, 'p is')
  raises(function() mt.dropout(ones:long()) end, 'int64')
end)

test('glu, bilinear, pixel_shuffle, softmin', function()
  is('glu', mt.glu(lin{2, 4}))
  is('bil', mt.bilinear(lin{2, 3}, lin{2, 2}, lin{2, 3, 2}, lin{2}))
  is('ps', mt.pixel_shuffle(lin{1, 4, 1, 2}, 2))
  eq(mt.softmin(a, 1):equal((-a):softmax(1)), true)
  raises(function() mt.glu(lin{2, 3}) end, 'halved along dimension 2')
  raises(function() mt.bilinear(lin{2, 3}, lin{2, 2}, lin{2, 3, 3}) end, 'bilinear')
  raises(function() mt.pixel_shuffle(lin{1, 4, 1, 2}, 3) end, 'upscale_factor is 3')
  raises(function() mt.pixel_shuffle(lin{1, 4, 1, 2}, 2 ^ 40) end, 'upscale_factor')
end)

local two = mt.tensor({3, 1}, 'int64')
local rows = {
  {'cross entropy, all options', function(v) return mt.cross_entropy(v, labels, {weight = w,
    label_smoothing = 0.2}) end, {2, 3, 4}},
  {'cross entropy of probabilities', function(v, p) return mt.cross_entropy(v, p) end, {2, 3},
    {2, 3}},
  {'nll', function(v) return mt.nll_loss(v:log_softmax(2), two, w) end, {2, 3}},
  {'smooth l1', function(v, y) return mt.smooth_l1_loss(v, y, {beta = 0.3}) end, {5}, {5}},
  {'huber', function(v, y) return mt.huber_loss(v, y, {delta = 0.3}) end, {5}, {5}},
  {'bce', function(v, y) return mt.binary_cross_entropy(v:sigmoid(), y:sigmoid()) end, {4}, {4}},
  {'bce logits', function(v, y, p) return mt.binary_cross_entropy_with_logits(v, y,
    {pos_weight = p}) end, {2, 3}, {2, 3}, {3}},
  {'kl', function(v, y) return mt.kl_div(v:log_softmax(2), y:softmax(2)) end, {2, 3}, {2, 3}},
  {'kl of logs', function(v, y) return mt.kl_div(v, y, 'sum', true) end, {2, 3}, {2, 3}},
  {'kl of a row', function(v, y) return mt.kl_div(v, y, 'batchmean', true) end, {2, 3}, {3}},
  {'cosine', function(v, y) return mt.cosine_similarity(v, y) end, {2, 3}, {2, 3}},
  {'normalize', function(v) return mt.normalize(v) end, {2, 3}},
  {'layer norm', function(v, g, h) return mt.layer_norm(v, {3}, g, h) end, {2, 3}, {3}, {3}},
  {'layer norm of two', function(v) return mt.layer_norm(v, {2, 3}) end, {2, 2, 3}},
  {'rms norm', function(v, g) return mt.rms_norm(v, {3}, g) end, {2, 3}, {3}},
  {'batch norm', function(v, g, h) return mt.batch_norm(v, nil, nil, g, h, true) end, {3, 2, 2},
    {2}, {2}},
  {'batch norm, long', function(v, g, h) return mt.batch_norm(v, nil, nil, g, h, true) end,
    {2, 2, 16}, {2}, {2}},
  {'layer norm, bias', function(v, h) return mt.layer_norm(v, {3}, nil, h) end, {2, 3}, {3}},
  {'group norm, flat', function(v, g, h) return mt.group_norm(v, 2, g, h) end, {3, 4}, {4}, {4}},
  {'batch norm, running', function(v, g, h) return mt.batch_norm(v, mt.zeros({2}, 'float64'),
    mt.ones({2}, 'float64'), g, h) end, {3, 2}, {2}, {2}},
  {'group norm', function(v, g) return mt.group_norm(v, 2, g) end, {2, 4, 2}, {4}},
  {'instance norm', function(v) return mt.instance_norm(v) end, {2, 2, 3}},
  {'attention', function(q, k, v) return mt.scaled_dot_product_attention(q, k, v,
    {is_causal = true}) end, {2, 3, 2}, {2, 3, 2}, {2, 3, 2}},
  {'embedding', function(v) return mt.embedding(two, v):square() end, {3, 2}},
  {'attention, shared heads', function(q, k, v) return mt.scaled_dot_product_attention(q, k, v,
    {enable_gqa = true}) end, {2, 2, 2}, {1, 3, 2}, {1, 3, 2}},
  {'bags', function(v, f) return mt.embedding_bag(two, v, two - two + 1, 'sum', f):square() end, {3, 2}, {2}},
  {'mean of bags', function(v) return mt.embedding_bag(two:reshape(1, 2), v):square() end, {3, 2}},
  {'max of bags', function(v) return mt.embedding_bag(two:reshape(1, 2), v, {mode = 'max'}):sin() end, {3, 2}},
  {'channels dropped', function(v) mt.manual_seed(2); return mt.dropout2d(v, 0.4):sin() end, {2, 3, 2, 2}},
  {'alpha dropout', function(v) mt.manual_seed(2); return mt.alpha_dropout(v, 0.4, true):sin() end, {6}},
  {'glu', function(v) return mt.glu(v) end, {2, 4}},
  {'bilinear', function(v, y, g) return mt.bilinear(v, y, g) end, {2, 3}, {2, 2}, {2, 3, 2}},
  {'triplet', function(u, v, y) return mt.triplet_margin_loss(u, v, y) end, {2, 3}, {2, 3}, {2, 3}},
}
for _, row in ipairs(rows) do t.gradients(unpack(row)) end

test('the smallest and the largest integers are not ids', function()
  local ends = mt.tensor({-2 ^ 63, -1}, {dtype = 'int64'})
  local raises = t.raises
  raises(function() ends:one_hot() end, 'one_hot: id %-9223372036854775808 %(element 1%) is outside 1%.%.')
  raises(function() ends:one_hot(3) end, 'one_hot: id %-9223372036854775808 %(element 1%) is outside 1%.%.3')
  raises(function() mt.embedding(ends, mt.rand(4, 2)) end, 'embedding: id %-9223372036854775808 ')
end)

t.finish()
