-- test_sparse_gradients.lua -- nn.Embedding and nn.EmbeddingBag with sparse=true: steps change the used rows alone
local mt = require 'mtorch'
local t = require 'testing'
local nn, optim = mt.nn, mt.optim

local batches = {mt.long{{3, 1, 3}, {7, 7, 2}}, mt.long{{5, 3}}, mt.long{{1, 10, 4, 1}}}

--- Trains a table for some steps; returns its weight, the optimizer and the module.
local function trained(make, sparse, rule, options, passes)
  mt.manual_seed(3)
  local net = make(sparse)
  local opt = optim[rule](net:parameters(), options)
  for pass = 1, passes or 1 do
    for _, ids in ipairs(batches) do
      opt:zero_grad()
      local y = net(ids)
      ;(y * y + pass * y):sum():backward()
      opt:step()
    end
  end
  return net.weight, opt, net
end

local modules = {
  embedding = function(sparse) return nn.Embedding(10, 4, {sparse = sparse}) end,
  padding = function(sparse) return nn.Embedding(10, 4, {sparse = sparse, padding_idx = -8}) end,
  frequency = function(sparse) return nn.Embedding(10, 4, {sparse = sparse, scale_grad_by_freq = true}) end,
  max_norm = function(sparse) return nn.Embedding(10, 4, {sparse = sparse, max_norm = 1}) end,
  sum = function(sparse) return nn.EmbeddingBag(10, 4, {sparse = sparse, mode = 'sum'}) end,
  mean = function(sparse) return nn.EmbeddingBag(10, 4, {sparse = sparse, padding_idx = 3}) end,
  max = function(sparse) return nn.EmbeddingBag(10, 4, {sparse = sparse, mode = 'max'}) end,
  double = function(sparse) return nn.Embedding(10, 4, {sparse = sparse, dtype = 'float64'}) end,
  half = function(sparse) return nn.Embedding(10, 4, {sparse = sparse, dtype = 'bfloat16'}) end,
}
for name, make in pairs(modules) do
  t.test(name .. ': steps of SGD and Adagrad are those of the dense gradient', function()
    local rules = {SGD = {lr = 0.1}, Adagrad = {lr = 0.1, initial_accumulator_value = 0.5, lr_decay = 0.1}}
    for rule, options in pairs(rules) do
      local dense, a = trained(make, false, rule, options, 2)
      local sparse, b = trained(make, true, rule, options, 2)
      t.eq(sparse.grad, nil)
      t.near(sparse:double():tolist(), dense:double():tolist(), name == 'half' and 0.02 or 1e-6)
      for key, state in pairs(a.param_groups[1].state[1] or {}) do
        local other = b.param_groups[1].state[1][key]
        if key == 'step' then t.eq(other, state) else t.near(other:tolist(), state:tolist(), 1e-5) end
      end
    end
  end)
end

t.test('SparseAdam changes the moments of used rows alone', function()
  mt.manual_seed(4)
  local net = nn.Embedding(10, 1, {sparse = true})
  local w, m, v = net.weight:detach():flatten():tolist(), {}, {}
  local opt = optim.SparseAdam(net:parameters(), {lr = 0.1, betas = {0.7, 0.8}, eps = 0.01})
  for step, ids in ipairs(batches) do
    opt:zero_grad()
    net(ids):pow(2):sum():backward()
    opt:step()
    local grads = {}
    for _, id in ipairs(ids:flatten():tolist()) do grads[id] = (grads[id] or 0) + 2 * w[id] end
    for id, g in pairs(grads) do
      m[id] = 0.7 * (m[id] or 0) + (1 - 0.7) * g
      v[id] = 0.8 * (v[id] or 0) + (1 - 0.8) * g * g
      w[id] = w[id] - 0.1 * math.sqrt(1 - 0.8 ^ step) / (1 - 0.7 ^ step) * m[id] / (math.sqrt(v[id]) + 0.01)
    end
  end
  t.near(net.weight:flatten():tolist(), w, 1e-5)
  local state = opt.param_groups[1].state[1]
  for id = 1, 10 do t.near(state.exp_avg[id]:item(), m[id] or 0, 1e-5) end
  t.eq(state.step, 3)
end)

t.test('gradients of several passes add up, and are dropped', function()
  local function row_after(passes, drop)
    mt.manual_seed(5)
    local net = nn.Embedding(6, 2, {sparse = true})
    local opt = optim.SGD(net:parameters(), {lr = 1})
    for _, ids in ipairs(passes) do
      if drop then drop(opt, net) end
      net(mt.long(ids)):sum():backward()
    end
    local before = net.weight:detach():clone()
    opt:step()
    return (before - net.weight:detach())[{{}, 1}]:tolist()
  end
  t.eq(row_after({{1, 2}, {2, 5, 2}}), {1, 3, 0, 0, 1, 0})
  t.eq(row_after({{1, 2}, {2, 5, 2}}, function(opt) opt:zero_grad() end), {0, 2, 0, 0, 1, 0})
  t.eq(row_after({{1, 2}, {3}}, function(_, net) net:zero_grad() end), {0, 0, 1, 0, 0, 0})
end)

t.test('a weight that is also used as a matrix gets the sum of both gradients', function()
  mt.manual_seed(6)
  local function step(sparse)
    mt.manual_seed(6)
    local net = nn.Embedding(5, 3, {sparse = sparse})
    local opt = optim.Adam(net:parameters(), {lr = 0.1})
    net(mt.long{1, 4, 4}):matmul(net.weight:t()):square():sum():backward()
    opt:step()
    return net.weight:detach()
  end
  t.near(step(true):tolist(), step(false):tolist(), 1e-6)
end)

t.test('a whole network, saved and resumed', function()
  local ids, y = mt.randint(1, 50, {64, 5}), mt.randint(1, 2, {64})
  local function net_and_optimizers()
    mt.manual_seed(7)
    local net = nn.Sequential(nn.EmbeddingBag(50, 8, {sparse = true}), nn.Linear(8, 2))
    return net, optim.SparseAdam(net[1]:parameters(), {lr = 0.05}), optim.Adam(net[2]:parameters(), {lr = 0.05})
  end
  local net, a, b = net_and_optimizers()
  local function steps(n, model, sparse, dense)
    local loss
    for _ = 1, n do
      sparse:zero_grad() dense:zero_grad()
      loss = mt.cross_entropy(model(ids), y)
      loss:backward()
      sparse:step() dense:step()
    end
    return loss:item()
  end
  local first = steps(1, net, a, b)
  local path = os.tmpname()
  steps(5, net, a, b)
  mt.checkpoint.save(path, {model = net, a = a, b = b})
  local last = steps(20, net, a, b)
  t.eq(last < 0.6 * first, true)
  local net2, a2, b2 = net_and_optimizers()
  mt.checkpoint.resume(path, {model = net2, a = a2, b = b2})
  t.eq(steps(20, net2, a2, b2), last)
  os.remove(path)
end)

t.test('evaluation keeps nothing; a compiled step that uses it equals the step', function()
  local net = nn.Embedding(6, 2, {sparse = true})
  local opt = optim.SGD(net:parameters(), {lr = 1})
  local before = net.weight:detach():clone()
  net(mt.long{1, 2})
  mt.no_grad(net, mt.long{1, 2})
  opt:step()
  t.eq(net.weight:detach():tolist(), before:tolist())
  local function losses(wrap)
    mt.manual_seed(8)
    local table_ = nn.Embedding(6, 2, {sparse = true})
    local sgd = optim.SGD(table_:parameters(), {lr = 0.1})
    local step = wrap(function(ids)
      sgd:zero_grad()
      local loss = table_(ids):square():sum()
      loss:backward()
      sgd:step()
      return loss
    end)
    local list = {}
    for i = 1, 6 do list[i] = step(mt.long{i % 3 + 1, 2, 5}):item() end
    return list
  end
  t.eq(losses(mt.compile), losses(function(f) return f end))
end)

t.test('what does not read sparse gradients refuses them', function()
  local function with(rule, options, use)
    local net = nn.Embedding(6, 2, {sparse = true})
    local opt = optim[rule](net:parameters(), options)
    local before = net.weight:detach():clone()
    net(mt.long{1, 2}):sum():backward()
    return function()
      local fine, message = pcall(use or function() opt:step() end, net, opt)
      t.eq(net.weight:detach():tolist(), before:tolist())
      if not fine then error(message, 0) end
    end
  end
  local takes = 'SGD, Adagrad and SparseAdam take those'
  t.raises(with('Adam'), 'Adam: parameter 1 has a sparse gradient, of nn.Embedding with sparse=true: its steps ' ..
    'change all rows; ' .. takes)
  t.raises(with('SGD', {lr = 1, momentum = 0.9}), 'momentum and weight_decay must be 0; ' .. takes)
  t.raises(with('Adagrad', {weight_decay = 0.1}), 'weight_decay must be 0')
  t.raises(with('LBFGS', nil, function(_, opt) opt:step(function() return mt.zeros(1):sum() end) end),
    'LBFGS: parameter 1')
  t.raises(with('SGD', {lr = 1}, function(_, opt) optim.Sharded(opt):step() end), 'Sharded: parameter 1')
  for _, name in ipairs{'clip_grad_norm_', 'clip_grad_value_'} do
    t.raises(with('SGD', nil, function(net) nn[name](net:parameters(), 1) end), name .. ': parameter 1')
  end
  t.raises(function() nn.Embedding(6, 2, {sparse = true})(mt.long{7}) end, 'embedding: .*7')
end)

t.test('GradScaler unscales sparse gradients, and skips a step with an infinite one', function()
  local function trained(sparse, enabled)
    mt.manual_seed(1)
    local net = nn.Embedding(6, 2, {sparse = sparse})
    local opt, scaler = optim.SGD(net:parameters(), {lr = 0.1}), mt.GradScaler{enabled = enabled}
    for i = 1, 4 do
      opt:zero_grad()
      scaler:scale(net(mt.long{1, 3, 3}):square():sum() * (i == 3 and enabled and math.huge or 1)):backward()
      if i ~= 3 or enabled then scaler:step(opt) end
      scaler:update()
    end
    return net.weight:detach():tolist(), scaler:get_scale()
  end
  local plain, scaled, scale = trained(false, false), trained(true, true)
  t.eq(scaled, plain)
  t.eq(scale, 32768)
end)

t.test('a step does not depend on the size of the table', function()
  local function seconds(rows)
    local net = nn.Embedding(rows, 64, {sparse = true})
    local opt = optim.SparseAdam(net:parameters())
    local best = math.huge
    for _ = 1, 8 do
      local ids = mt.randint(1, rows, {2048})
      local start = os.clock()
      opt:zero_grad()
      net(ids):sum():backward()
      opt:step()
      best = math.min(best, os.clock() - start)
    end
    return best
  end
  t.eq(seconds(300000) < 4 * seconds(10000), true) -- dense steps: 25 times
end)

t.finish()
