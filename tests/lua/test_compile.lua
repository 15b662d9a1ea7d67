-- test_compile.lua -- mt.compile: replays have the step's bits, detect changes, and report what cannot be recorded
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises, told = t.test, t.eq, t.raises, t.stderr_of
local nn, optim = mt.nn, mt.optim
local on_gpu = mt.ones(1).device ~= 'cpu'
local waits = on_gpu and os.getenv 'MTORCH_CUDA_SYNC' ~= '1' -- for errors of positions on a GPU

local function same(a, b) assert(mt.allclose(a, b, {rtol = 0, atol = 0, equal_nan = true}), 'other bits') end
local function same_state(a, b)
  local other = b:state_dict()
  for name, x in pairs(a:state_dict()) do same(x, other[name]) end
end

--- Returns two equal networks, their optimizers, and steps of both.
local function twins(make_net, make_optimizer, loss_of)
  local made = {}
  for k = 1, 2 do
    mt.manual_seed(3)
    local net = make_net()
    local opt = make_optimizer(net:parameters())
    made[k] = {net = net, opt = opt, step = function(x, y)
      opt:zero_grad()
      local loss = loss_of(net(x), y)
      loss:backward()
      opt:step()
      return loss
    end}
  end
  made[2].compiled = mt.compile(made[2].step)
  return made[1], made[2]
end
--- Runs n steps of both with the same random numbers; asserts equal bits of states and losses.
local function race(one, two, n, batch)
  for i = 1, n do
    local x, y = batch(i)
    mt.manual_seed(100 + i)
    local a = one.step(x, y)
    local after = mt.get_rng_state()
    mt.manual_seed(100 + i)
    local b = two.compiled(x, y)
    eq(mt.get_rng_state(), after)
    same(a:detach(), b:detach())
    for k, p in ipairs(one.net:parameters()) do same(p.grad, two.net:parameters()[k].grad) end
  end
  same_state(one.net, two.net)
end
local function classes(i, n)
  mt.manual_seed(i)
  return mt.randn(n or 8, 6), mt.randint(1, 3, {n or 8})
end
local function mlp() return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)) end

test('a training step has the bits of the step itself, with every optimizer', function()
  for _, name in ipairs{'SGD', 'Adam', 'AdamW', 'RMSprop', 'Adagrad', 'NAdam', 'RAdam', 'Lion'} do
    local one, two = twins(mlp, function(p) return optim[name](p, {lr = 0.01}) end, mt.cross_entropy)
    eq(told(function() race(one, two, 8, classes) end), '')
  end
end)

test('operations with several results that are used are recorded: mt.map, mt.Function, LSTM', function()
  local both = mt.map(function(a) return math.sin(a), a * a * a end)
  local own = mt.Function{forward = function(ctx, x)
    ctx:save_for_backward(x)
    return x * x, 3 * x
  end, backward = function(ctx, g, h) return 2 * g * ctx:saved_tensors() + 3 * h end}
  local lstm = nn.LSTM(3, 3)
  local function states(x)
    local out, h, c = lstm(x:unsqueeze(1))
    return out[-1] + h[1], c[1]
  end
  for _, f in ipairs{both, own, states} do
    local one, two = twins(mlp, function(p) return optim.SGD(p, {lr = 0.05}) end, function(y)
      local a, b = f(y)
      return (a * b + a):mean()
    end)
    eq(told(function() race(one, two, 5, classes) end), '')
  end
end)

test('layers are recorded: padding, normalisation, dropout, recurrent layers, computed weights, clipping', function()
  local images = function(i)
    mt.manual_seed(i)
    return mt.rand(4, 2, 6, 6), mt.randint(1, 3, {4})
  end
  local sgd = function(p) return optim.SGD(p, {lr = 0.05}) end
  for _, make in ipairs{
    function()
      return nn.Sequential(nn.Conv2d(2, 3, 3, {padding = 1, padding_mode = 'reflect'}), nn.BatchNorm2d(3),
        nn.ReLU(true),
        nn.ReplicationPad2d(1), nn.CircularPad2d(1), nn.Dropout2d(0.2), nn.RReLU(), nn.GroupNorm(1, 3), nn.MaxPool2d(2),
        nn.Flatten(), nn.spectral_norm(nn.Linear(75, 8)), nn.LayerNorm(8), nn.weight_norm(nn.Linear(8, 3)))
    end,
    function() return nn.Sequential(nn.Flatten(3), nn.LSTM(36, 5, {batch_first = true}), nn.Flatten(), nn.Linear(10,
      3)) end,
    function() return nn.Sequential(nn.Flatten(3), nn.GRU(36, 5, {num_layers = 2, bidirectional = true}), nn.Flatten(),
      nn.Linear(20, 3)) end,
  } do
    local one, two = twins(make, sgd, mt.cross_entropy)
    eq(told(function() race(one, two, 6, images) end), '')
  end
  local net = nn.Linear(6, 3)
  local function clipped(x, y)
    net:zero_grad()
    mt.cross_entropy(net(x), y):backward()
    return nn.clip_grad_norm_(net:parameters(), 0.1)
  end
  local compiled = mt.compile(clipped)
  for i = 1, 5 do
    local x, y = classes(i)
    same(clipped(x, y), compiled(x, y))
  end
end)

test('uncollected tensors of a recorded step are not part of its state', function()
  for _, rows in ipairs{16, 48, 64, 100} do
    local w = mt.ones(6):requires_grad_()
    local step = mt.compile(function(x)
      local loss = (mt.rms_norm(x, 6) * w):square():mean()
      loss:backward()
      return loss
    end)
    for _ = 1, 4 do step(mt.rand(rows, 6)) end
    collectgarbage()
    collectgarbage()
  end
end)

test('an epoch of several steps is one program', function()
  local function twin()
    mt.manual_seed(5)
    local net = mlp()
    local opt = optim.Adam(net:parameters(), {lr = 0.02})
    return net, function(x, y)
      local loss
      for first = 1, 10, 4 do
        local n = math.min(4, 11 - first)
        opt:zero_grad()
        loss = mt.cross_entropy(net(x:narrow(1, first, n)), y:narrow(1, first, n))
        loss:backward()
        opt:step()
      end
      return loss
    end
  end
  local net, epoch = twin()
  local other, same_epoch = twin()
  local compiled = mt.compile(same_epoch)
  eq(told(function()
    for i = 1, 7 do
      local x, y = classes(i, 10)
      same(epoch(x, y):detach(), compiled(x, y):detach())
    end
  end), '')
  same_state(net, other)
end)

test('programs end without a trace', function()
  for size = 1, 30 do
    local f = mt.compile(function(x) return (((x * 2):exp() + 1):log() * 3):sum() end)
    for _ = 1, 6 do f(mt.rand(size * 100)) end
    f = nil
    collectgarbage()
  end
end)

test('dropout draws the same numbers as the step; running statistics are updated; images', function()
  local function net()
    return nn.Sequential(nn.Conv2d(1, 4, 3, {padding = 1}), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
      nn.Dropout(0.4), nn.Linear(4 * 4 * 4, 3))
  end
  local one, two = twins(net, function(p) return optim.SGD(p, {lr = 0.05, momentum = 0.9}) end, mt.cross_entropy)
  eq(told(function()
    race(one, two, 7, function(i)
      mt.manual_seed(i)
      return mt.randn(8, 1, 8, 8), mt.randint(1, 3, {8})
    end)
  end), '')
end)

test('recurrent layers, attention, constants made inside', function()
  local Net = nn.class 'Net'
  function Net:__init()
    self.token = nn.Embedding(7, 8)
    self.lstm, self.gru = nn.LSTM(8, 8, {batch_first = true}), nn.GRU(8, 8, {batch_first = true})
    self.block = nn.TransformerEncoderLayer(8, 2, {dim_feedforward = 16, dropout = 0.1, batch_first = true})
    self.head = nn.Linear(8, 3)
  end
  function Net:forward(x)
    local h = self.token(x)
    h = (self.gru((self.lstm(h))))
    h = self.block(h, {is_causal = true}) * mt.tensor{1, 2, 1, 2, 1, 2, 1, 2} + mt.range(1, 8):float()
    return self.head(h:tril():mean(2))
  end
  local one, two = twins(Net, function(p) return optim.Adam(p, {lr = 0.01}) end, mt.cross_entropy)
  eq(told(function()
    race(one, two, 6, function(i)
      mt.manual_seed(i)
      return mt.randint(1, 7, {4, 5}), mt.randint(1, 3, {4})
    end)
  end), '')
end)

test('tables of positions that operations make of shapes and lists are kept', function()
  local ids = mt.range(1, 6):long():view(2, 3)
  for name, f in pairs{
    logspace = function(x) return x * mt.logspace(0, 1, 6) end,
    embedding_bag = function(x) return mt.embedding_bag(ids, mt.stack({x, -x}, 2)) end,
    largest = function(x) return mt.embedding_bag(ids, mt.stack({x, -x}, 2), nil, {mode = 'max'}) end,
    adaptive = function(x) return mt.adaptive_avg_pool1d(x:view(1, 1, 6), 4) end,
    largest_adaptive = function(x) return (mt.adaptive_max_pool1d(x:view(1, 1, 6), 4)) end,
    padded = function(x) return mt.avg_pool1d(x:view(1, 1, 6), 3, {padding = 1, count_include_pad = false}) end,
    resampled = function(x) return mt.interpolate(x:view(1, 1, 6), {size = 9, mode = 'linear'}) end,
  } do
    local compiled = mt.compile(f)
    eq(told(function()
      for _ = 1, 4 do
        local x = mt.randn(6)
        same(compiled(x), f(x))
      end
    end), '', name)
  end
end)

test('a result does not take the place of an operand with smaller elements', function()
  local n = 4096
  local w = mt.randn(n, 3)
  local function f(x, a)
    local mask = x:gt(0) -- as many bytes as the result of where, which reads its first quarter
    return mt.where(mask[1], a, -a):view(1, n):matmul(w)
  end
  for kind, compiled in pairs{compile = mt.compile(f), fuse = mt.fuse(f)} do
    for _ = 1, 4 do
      local x, a = mt.randn(4, n), mt.randn(n)
      eq(compiled(x, a):tolist(), f(x, a):tolist(), kind)
    end
  end
end)

test('mt.map, mt.fuse and functions of one kind after another are recorded too', function()
  local swish = mt.map(function(x) return x / (1 + math.exp(-x)) end)
  local softmax = mt.fuse(function(x)
    local e = (x - x:amax(-1, true)):exp()
    return e / e:sum(-1, true)
  end)
  local one, two = twins(function() return nn.Linear(64, 64) end, function(p) return optim.SGD(p, {lr = 0.1}) end,
    function(y, target)
      local p = softmax(swish(y) + y:sort(2):cumsum(2) * 0.01)
      return (p - target):square():mean() + mt.cat({p, target}, 1):std()
    end)
  eq(told(function()
    race(one, two, 6, function(i)
      mt.manual_seed(i)
      return mt.randn(640, 64), mt.rand(640, 64)
    end)
  end), '')
end)

test('options of the optimizer are read at every call', function()
  local one, two = twins(mlp, function(p) return optim.SGD(p, {lr = 0.1}) end, mt.cross_entropy)
  race(one, two, 5, classes)
  one.opt.param_groups[1].lr, two.opt.param_groups[1].lr = 0.01, 0.01
  eq(told(function() race(one, two, 3, classes) end), '')
end)

test('other shapes, and train or eval, have programs of their own', function()
  local one, two = twins(function() return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)) end,
    function(p) return optim.SGD(p, {lr = 0.1}) end, mt.cross_entropy)
  eq(told(function() race(one, two, 15, function(i) return classes(i, i % 3 == 0 and 5 or 8) end) end), '')
  one.net:eval()
  two.net:eval()
  local text = told(function() race(one, two, 5, function(i) return classes(i, 8) end) end)
  assert(text:find("training' was true and is false"), text)
end)

test('captured numbers that change are noticed', function()
  local scale, config = 2, {shift = 1}
  local f = mt.compile(function(x) return x * scale + config.shift end)
  local x = mt.tensor{1, 2}
  for _ = 1, 5 do eq(f(x):tolist(), {3, 5}) end
  scale = 3
  local text = told(function() for _ = 1, 5 do eq(f(x):tolist(), {4, 7}) end end)
  assert(text:find "test_compile.lua:%d+ is recorded again: 'scale' was 2 and is 3", text)
  config.shift = 10
  text = told(function() for _ = 1, 5 do eq(f(x):tolist(), {13, 16}) end end)
  assert(text:find "'config.shift' was 1 and is 10", text)
  scale, config.shift = 2, 1
  eq(told(function() for _ = 1, 5 do eq(f(x):tolist(), {3, 5}) end end), '') -- the first program is still stored
end)

test('globals, deep fields and objects are compared; what cannot be is a reason not to compile', function()
  local Scaler = {}
  Scaler.__index = Scaler
  function Scaler:scaled(x) return x * self.scale end
  local object, deep = setmetatable({scale = 2}, Scaler), {a = {b = {c = {d = {e = {k = 2}}}}}}
  test_scale = 2 -- luacheck: ignore 111
  test_helper = function(x) return x * 2 end -- luacheck: ignore 111
  local steps = {
    object = {function(x) return object:scaled(x) end, function() object.scale = 3 end},
    method = {function(x) return object:scaled(x) end, function()
      function Scaler:scaled(x) return x * 7 + self.scale * 0 end
    end},
    class = {function(x) return object:scaled(x) end, function()
      setmetatable(object, {__index = {scaled = function(_, x) return x * 4 end}})
    end},
    deep = {function(x) return x * deep.a.b.c.d.e.k end, function() deep.a.b.c.d.e.k = 3 end},
    global = {function(x) return x * test_scale end, function() test_scale = 3 end}, -- luacheck: ignore 111 113
    global_function = {function(x) return test_helper(x) end, function() -- luacheck: ignore 113
      test_helper = function(x) return x * 5 end -- luacheck: ignore 111
    end},
  }
  for _, name in ipairs{'object', 'method', 'class', 'deep', 'global', 'global_function'} do
    local step, change = unpack(steps[name])
    local f = mt.compile(step)
    local x = mt.ones(2)
    eq(told(function() for _ = 1, 6 do same(f(x), step(x)) end end), '', name)
    local before = step(x)
    change()
    assert(not mt.equal(before, step(x)), name)
    local text = told(function() for _ = 1, 5 do same(f(x), step(x)) end end)
    assert(text:find 'is recorded again', name .. text)
  end
  test_scale, test_helper = nil, nil -- luacheck: ignore 111
  local words = {}
  for i = 1, 40000 do words[i] = i end
  local f = mt.compile(function(x) return x * words[1] end)
  local text = told(function() for _ = 1, 5 do f(mt.ones(2)) end end)
  assert(text:find "runs eagerly: 'words.%d+' belongs to more than 32768 values", text)
  local cell = require('ffi').new('double[1]', 2)
  f = mt.compile(function(x) return x * cell[0] end)
  text = told(function() for _ = 1, 5 do f(mt.ones(2)) end end)
  assert(text:find "'cell' is cdata", text)
end)

test('what a step captures may be frozen, exchanged and extended', function()
  local function one(weight)
    local net = nn.Sequential(nn.Linear(1, 1, {bias = false}))
    nn.init.constant_(net[1].weight, weight)
    return net
  end
  local changes = {
    freeze = function(s) s.net:freeze() end,
    exchange = function(s) s.net = one(5) end,
    entry = function(s) s.net[1] = nn.Linear(1, 1) nn.init.ones_(s.net[1].weight) nn.init.ones_(s.net[1].bias) end,
    append = function(s) s.net:append(nn.ReLU6()) end,
    parameter = function(s) s.net[1].weight = nn.Parameter(mt.full({1, 1}, 4)) end,
    hook = function(s) s.net:register_forward_hook(function(_, _, y) return y * 3 end) end,
    second_hook = function(s) s.net[1]:register_forward_hook(function(_, _, y) return y * 3 end) end,
    optimizer = function(s) s.opt = optim.SGD(s.net:parameters(), {lr = 0.01}) end,
    forward = function(s) s.net.forward = function(_, x) return x * 7 + s.net[1](x) * 0 end end,
  }
  for name, change in pairs(changes) do
    local losses = {}
    for k = 1, 2 do
      local s = {net = one(1)}
      s.net[1]:register_forward_hook(function(_, _, y) return y + 1 end)
      s.opt = optim.SGD(s.net:parameters(), {lr = 0.1})
      local function step(x)
        s.opt:zero_grad()
        local loss = (s.net(x) ^ 2):sum()
        if s.net[1].weight.requires_grad then loss:backward() s.opt:step() end
        return loss
      end
      local run, list = k == 1 and step or mt.compile(step), {}
      local text = told(function()
        for i = 1, 12 do
          if i == 6 then change(s) end
          list[i] = run(mt.full({1, 1}, 0.5)):item()
        end
      end)
      if k == 2 then assert(text:find 'is recorded again', name .. ': ' .. text) end
      losses[k] = list
    end
    for i = 1, 12 do assert(losses[1][i] == losses[2][i], name .. ' ' .. i) end
  end
end)

--- Asserts that f and its compiled form, each with a separate state, are equal in `calls` calls.
local function alike(make, calls)
  local one, two = make(), make()
  local compiled = mt.compile(two.step)
  told(function()
    for i = 1, calls do
      one.before(i)
      two.before(i)
      same(one.step(mt.full({2}, i)):detach(), compiled(mt.full({2}, i)):detach())
      for k, w in ipairs(one.leaves) do
        local a, b = w.grad, two.leaves[k].grad
        assert((a == nil) == (b == nil), ('call %d: gradient of leaf %d'):format(i, k))
        if a then same(a, b) end
        same(w:detach(), two.leaves[k]:detach())
      end
    end
  end)
end

test('gradients that are zeroed outside, now and then, or set by hand', function()
  local function state(before)
    local s = {leaves = {mt.ones(2):requires_grad_(), mt.ones(2):requires_grad_()}}
    local opt = optim.SGD(s.leaves, {lr = 0.1})
    s.step = function(x)
      local loss = (s.leaves[1] * x):sum()
      loss:backward()
      opt:step()
      return loss
    end
    s.before = function(i) before(s, opt, i) end
    return s
  end
  alike(function() return state(function(_, opt) opt:zero_grad() end) end, 12)
  alike(function() return state(function(s) s.leaves[1].grad = nil end) end, 12)
  alike(function() return state(function(_, opt, i) if i % 3 == 1 then opt:zero_grad() end end) end, 14)
  alike(function() return state(function(s, _, i) s.leaves[2].grad = mt.full({2}, i) end) end, 12)
end)

test('threads, mixed precision, nested steps, coroutines, arguments that the step changes', function()
  local threads = mt.get_num_threads()
  mt.set_num_threads(1)
  local f = mt.compile(function(x) return (x:sort()) end)
  local x = mt.randn(300, 100)
  for _ = 1, 4 do f(x) end
  mt.set_num_threads(4)
  told(function() for _ = 1, 6 do same(f(x), (x:sort())) end end)
  mt.set_num_threads(threads)
  local w = mt.ones(4, 4)
  local product = mt.compile(function(a) return a:matmul(w) end)
  local halves = on_gpu and 'float16' or 'bfloat16'
  for _ = 1, 5 do eq(mt.autocast{product, mt.ones(4, 4), device = on_gpu and 'cuda' or 'cpu'}.dtype, halves) end
  for _ = 1, 5 do eq(product(mt.ones(4, 4)).dtype, 'float32') end
  local inner = mt.compile(function(a) return a * 2 end)
  local outer = mt.compile(function(a) return inner(a) + 1 end)
  eq(told(function() for i = 1, 8 do eq(outer(mt.full({1}, i)):item(), 2 * i + 1) end end), '')
  local yields = mt.compile(function(a)
    coroutine.yield()
    return a
  end)
  local routine = coroutine.wrap(function()
    yields(mt.ones(1))
    yields(mt.ones(1))
  end)
  routine()
  raises(routine, 'a compiled step cannot yield')
  eq((mt.ones(1) + 1):item(), 2)
  local b = mt.zeros(4)
  local adds = mt.compile(function(a)
    b:add_(1)
    return a * 1
  end)
  for i = 1, 4 do eq(adds(mt.full({3}, i)):tolist(), {i, i, i}) end
  told(function() for i = 5, 8 do eq(adds(b:narrow(1, 1, 3)):tolist(), {i, i, i}) end end)
  local divide = mt.compile(function(a, k) return a / k end)
  for _ = 1, 5 do eq(divide(mt.ones(1), 0):item(), math.huge) end
  for _ = 1, 5 do eq(divide(mt.ones(1), 0 / -1):item(), -math.huge) end
end)

test('tensors that only an index or an assignment names, and the markers of indices', function()
  local weight, rows = mt.randn(5, 3):requires_grad_(), mt.tensor({2, 5, 2}, 'int64')
  local filled, row, mask = mt.zeros(5, 3), mt.randn(3), mt.tensor{true, false, true}
  local steps = {
    function(x)
      weight.grad = nil
      local loss = (weight[rows] * x):sum() + weight[{rows, {1, 2}}]:sum()
      loss:backward()
      return loss
    end,
    function(x)
      local y = x:tile(5, 1)
      y[rows] = filled[{{1, 3}}]
      y[{1, {}}] = row
      return y
    end,
    function(x)
      filled[rows] = x
      return filled * 1
    end,
    function(x)
      local y = x * 1
      y[mask] = 7
      return y
    end,
    function(x) return x[{mt.newaxis, {}}] + x[{mt.ellipsis, mt.newaxis}] end,
  }
  for _, step in ipairs(steps) do
    local compiled = mt.compile(step)
    eq(told(function()
      for _ = 1, 4 do
        local x = mt.randn(3)
        local out, grad = step(x):detach(), weight.grad
        same(out, compiled(x):detach())
        same(grad, weight.grad)
      end
    end), '')
  end
end)

test('products with and without zeros; covariances', function()
  local weight = mt.randn(4):requires_grad_()
  local function step(x)
    weight.grad = nil
    local y = x * weight
    local loss = y:prod(2):sum() + y:cumprod(1):sum() + y[1]:prod() + mt.cov(y):sum()
    loss:backward()
    return loss
  end
  local compiled = mt.compile(step)
  eq(told(function()
    for i = 1, 8 do
      local x = mt.randn(5, 4)
      if i % 2 == 0 then x[{{2, 3}, {1, i / 2}}] = 0 end
      local loss, grad = step(x), weight.grad
      same(loss:detach(), compiled(x):detach())
      same(grad, weight.grad)
    end
  end), '')
end)

test('a position that is not there after something was changed', function()
  local function twin()
    local s = {w = mt.ones(3):requires_grad_()}
    local opt = optim.SGD({s.w}, {lr = 0.1})
    s.step = function(at)
      opt:zero_grad()
      s.w:sum():backward()
      opt:step()
      return s.w:detach():index_select(1, at)
    end
    return s
  end
  local one, two = twin(), twin()
  local compiled = mt.compile(two.step)
  local good, bad = mt.tensor({1}, 'int64'), mt.tensor({9}, 'int64')
  for i = 1, 8 do
    local at = i == 6 and bad or good
    local function answer(step) return (pcall(function() return step(at):tolist() end)) end
    eq(answer(one.step), answer(compiled))
    same(one.w:detach(), two.w:detach())
  end
end)

test('elements that a step writes are written in every call, and by fused functions', function()
  local kept = mt.zeros(3, 2)
  local function write(x)
    local y = x * 2
    y[{2, 1}] = 5
    y[{-1, -1}] = x:sum()
    kept[{1, 1}] = 7
    y[{1, 2}] = y[{1, 1}] + 1
    return y
  end
  local step = mt.compile(write)
  local function fused(x)
    local y = x * 2
    y[{2, 1}] = 5
    return y
  end
  local fast = mt.fuse(fused)
  for k = 1, 5 do
    local x = mt.full({3, 2}, k)
    kept:zero_()
    assert(step(x):equal(write(x)))
    eq(kept[{1, 1}]:item(), 7)
    assert(fast(x):equal(fused(x)))
  end
end)
test('a list that a step fills is filled', function()
  local history = {}
  local f = mt.compile(function(x)
    history[#history + 1] = x:sum()
    return x * 2
  end)
  told(function() for _ = 1, 12 do f(mt.ones(2)) end end)
  eq(#history, 12)
end)

test('numbers among the arguments, several results, values that are not tensors', function()
  local f = mt.compile(function(x, k, name) return x * k, name, x:sum() end)
  for i = 1, 12 do
    local k = i % 2 + 1
    local a, b, c = f(mt.tensor{1, i}, k, 'n')
    eq({a:tolist(), b, c:item()}, {{k, i * k}, 'n', 1 + i})
  end
end)

test('results are never overwritten', function()
  local f = mt.compile(function(x) return x * 2, x:t() end)
  local kept = {}
  for i = 1, 8 do kept[i] = {f(mt.full({2, 3}, i))} end
  for i = 1, 8 do
    same(kept[i][1], mt.full({2, 3}, 2 * i))
    same(kept[i][2], mt.full({3, 2}, i))
  end
end)

test('accumulated gradients', function()
  local function pair()
    local w = mt.ones(3):requires_grad_()
    return w, function(x)
      local loss = (w * x):sum()
      loss:backward()
      return loss
    end
  end
  local w, step = pair()
  local v, other = pair()
  local compiled = mt.compile(other)
  for i = 1, 8 do
    step(mt.full({3}, i))
    compiled(mt.full({3}, i))
    same(w.grad, v.grad)
  end
end)

test('asking for elements is an error at its line, and the step can be called again', function()
  local f = mt.compile(function(x)
    local y = x * 2
    if y:sum():item() > 0 then return y end
    return x
  end)
  local x = mt.ones(2)
  f(x)
  raises(function() f(x) end, 'test_compile.lua:%d+: item: a compiled step cannot ask for the elements of a tensor')
  raises(function() f(x) end, 'cannot ask for the elements')
  local g = mt.compile(function(a) return a:any() and a or a * 2 end)
  g(x:gt(0))
  raises(function() g(x:gt(0)) end, 'any: a compiled step cannot ask')
  eq((x + 1):tolist(), {2, 2}) -- recording has stopped
end)

test('an error behind a tail call has the line of the call, in every call', function()
  local f = mt.compile(function(x) return mt.matmul(x, x) end)
  f(mt.ones(2, 2))
  for _ = 1, 3 do
    raises(function() local _ = f(mt.ones(2, 3)) end, '^%S-test_compile.lua:%d+: matmul: inner sizes differ')
  end
  local g = mt.compile(function(x) return x:sum():item() end)
  g(mt.ones(2))
  raises(function() local _ = g(mt.ones(2)) end, '^%S-test_compile.lua:%d+: item: a compiled step cannot ask')
  local h = mt.compile(function() error('as it is', 0) end)
  for _ = 1, 2 do eq({pcall(h, mt.ones(2))}, {false, 'as it is'}) end
end)

test('a schedule is stepped outside', function()
  local net = nn.Linear(2, 1)
  local opt = optim.SGD(net:parameters(), {lr = 1})
  local sched = optim.lr.ExponentialLR(opt, {gamma = 0.5})
  local f = mt.compile(function(x)
    opt:zero_grad()
    local loss = net(x):sum()
    loss:backward()
    opt:step()
    sched:step()
    return loss
  end)
  f(mt.ones(1, 2))
  raises(function() f(mt.ones(1, 2)) end, 'ExponentialLR: a schedule cannot step inside a compiled step')
end)

test('an error inside leaves nothing behind', function()
  local calls = 0
  local f = mt.compile(function(x)
    calls = calls + 1
    if calls == 2 then error 'out of luck' end
    return x + 1
  end)
  local x = mt.ones(2)
  f(x)
  raises(function() f(x) end, 'out of luck')
  eq((x + 1):tolist(), {2, 2})
end)

test('an operation that reads elements itself: the step runs eagerly', function()
  for name, f in pairs{
    median = function(a) return a:median() end,
    quantile = function(a) return a:quantile(0.3, 1):sum() end, det = function(a) return mt.linalg.det(a) end,
    masked_select = function(a) return a:masked_select(a:gt(1)):sum() end,
    one_hot = function(a) return (a * mt.one_hot(mt.tensor({1, 2}, 'int64'))):sum() end,
  } do
    local function step(a)
      local w = (a * 1):detach():requires_grad_()
      local y = f(w)
      y:backward()
      return y:detach(), w.grad
    end
    local compiled, a = mt.compile(step), mt.tensor{{1, 2}, {3, 4}}
    local text = told(function()
      for k = 1, 4 do
        local y, g = compiled(a + k)
        local z, h = step(a + k)
        eq(y:tolist(), z:tolist())
        eq(g:tolist(), h:tolist())
      end
    end)
    assert(text:find 'runs eagerly: .+ computes on the CPU outside', name .. text)
  end
  for _, f in ipairs{function(a) return mt.equal(a, a) and a end, function(a) return mt.allclose(a, a) and a end} do
    local compiled, x = mt.compile(f), mt.ones(2)
    compiled(x)
    raises(function() compiled(x) end, 'cannot ask for the elements of a tensor')
    raises(function() mt.fuse(f)(x) end, 'cannot ask for numbers')
  end
end)

test('steps that cannot be replayed run eagerly, with one message', function()
  local text = told(function()
    local f = mt.compile(function(x) return mt.multinomial(x, 1) * 2 end)
    for _ = 1, 4 do eq(f(mt.tensor{0, 1, 0}):tolist(), {4}) end
  end)
  assert(text:find 'test_compile.lua:%d+ runs eagerly: multinomial cannot be recorded: it computes', text)
  eq(select(2, text:gsub('\n', '')), 1)
  local w = mt.ones(2):requires_grad_()
  text = told(function()
    local f = mt.compile(function(x) return (w * x):sum() end)
    for _ = 1, 4 do f(mt.ones(2)):backward() end
  end)
  assert(text:find 'result 1 leads back to a graph; call backward inside, or compile it in no_grad', text)
  eq(w.grad:tolist(), {4, 4})
  text = told(function()
    local f = mt.compile(function(x) return x:add_(1) end)
    local x = mt.zeros(2)
    for _ = 1, 4 do f(x) end
    eq(x:tolist(), {4, 4})
  end)
  assert(text:find 'argument 1 is changed in place', text)
end)

test('what cannot be proven to stay, or a replay would not do, is a reason to run the step as it is', function()
  local counter, kept, thread = 0, {}, coroutine.create(function() end)
  local loader = mt.data.DataLoader(mt.data.TensorDataset(mt.ones(4)), {batch_size = 2})
  local tostring_of_os = os.tostring or os.date
  local lines = {}
  local sink = {write = function(_, text) lines[#lines + 1] = text end}
  local opt = optim.SGD({mt.ones(2):requires_grad_()}, {lr = 0.1, momentum = 0.9})
  local inside = setmetatable({k = 2}, {__index = function() return 0 end})
  local steps = {
    ["it uses 'package'"] = function(x) return x * (package.loaded.nothing and 2 or 1) end,
    ["it uses 'require'"] = function(x) return x * #require 'mtorch.core'.isa() end,
    ["it uses '_G'"] = function(x) return x * (_G['k_of_' .. 'test'] or 1) end,
    ["it uses 'getfenv'"] = function(x) return x * (getfenv(1)['k_of_' .. 'test'] or 1) end,
    ["it uses 'os'"] = function(x) return x * (os.time() > 0 and 1 or 2) end,
    ["it uses 'os.date'"] = function(x) return x * #tostring_of_os('%Y') end,
    ["it uses 'math.random'"] = function(x) return x * math.random(1, 1) end,
    ["it uses 'print'"] = function(x) return x * (print and 1 or 2) end,
    ["it uses 'io'"] = function(x) if x:size(1) == 2 then io.write '' end return x end,
    ["it uses 'coroutine'"] = function(x) return x * (coroutine.running() and 1 or 2) end,
    ["it uses 'debug'"] = function(x) return x * debug.getinfo(1, 'l').currentline end,
    ["it uses 'load"] = function(x) return x * loadstring 'return 2'() end,
    ["'thread' is"] = function(x) return x * (coroutine.status and thread and 1 or 2) end,
    ["it sets the global 'k_of_test'"] = function(x) k_of_test = x:size(1) return x end, -- luacheck: ignore 111
    ["it changes what it captures.-'counter' was %d and is %d"] = function(x) counter = counter + 1 return x end,
    ["it changes what it captures.-'kept' has other fields"] = function(x) kept[#kept + 1] = x:sum() return x end,
    ["it changes what it captures.-'lines' has other fields"] = function(x) sink:write 'line' return x end,
    ["'loader.-whose contents cannot be compared"] = function(x)
      for b in loader:iter() do x = x + b[1]:mean() end
      return x
    end,
    ["reads or changes something other than tensors"] = function(x) mt.set_debug(false) return x end,
    ["another gradient mode"] = function(x) mt.set_default_dtype 'float64' return x end,
    ["it may read the state of 'opt'"] = function(x)
      local state = opt.param_groups[1].state[1]
      return state and state.momentum_buffer and x * state.momentum_buffer or x
    end,
    ["result 1 is"] = function(x) return x.sum, x end,
    ["mt.recompute runs Lua code in backward"] = function(x)
      return mt.recompute(mt.tanh, x:clone():requires_grad_()):detach()
    end,
    ["whose globals cannot be compared"] = setfenv(function(x) return x * k end, inside), -- luacheck: ignore 113
  }
  for why, step in pairs(steps) do
    if step then
      local compiled = mt.compile(step)
      local text = told(function()
        for _ = 1, 6 do
          local x = mt.ones(2)
          local ran = compiled(x)
          mt.set_default_dtype 'float32'
          assert(ran)
        end
      end)
      assert(text:find('runs eagerly: .-' .. why), ('%s: %s'):format(why, text))
      eq(select(2, text:gsub('\n', '')), 1, text)
    end
  end
  eq({counter, #kept, #lines}, {6, 6, 6})
  rawset(_G, 'k_of_test', nil)
end)

test('an argument that shares memory with a parameter which an optimizer changes within the step', function()
  local function run(compiles)
    local w, b = mt.ones(2, 2), mt.ones(2):requires_grad_()
    local opt = mt.optim.SGD({w, b}, {lr = 0.1})
    local function step(y)
      local loss = (y * b):sum() + (w * w):sum()
      opt:step()
      loss:backward()
      return loss:detach()
    end
    local f, all = compiles and mt.compile(step) or step, {}
    for i = 1, 6 do
      w.grad, b.grad = mt.ones(2, 2), nil
      local ok, result = pcall(f, i == 5 and w or mt.ones(2, 2)) -- `y` is saved, then changed by the optimizer
      all[i] = ok and result:item() or tostring(result):match 'changed in place'
    end
    return all, w:tolist()
  end
  local eager, w = run(false)
  eq(eager[5], 'changed in place')
  local compiled, w2 = run(true)
  eq(compiled, eager)
  eq(w2, w)
end)

test('verify=N finds changes that are not compared', function()
  local name, kept = 'relu', mt.relu
  local f = mt.compile(function(x) return mt[name](x) end, {verify = 4}) -- the name is not in the code
  for _ = 1, 5 do f(mt.ones(1)) end
  mt.relu = function(x) return x * 5 end
  local text, last = told(function()
    local y
    for _ = 1, 4 do y = f(mt.ones(1)) end
    return y
  end)
  mt.relu = kept
  assert(text:find 'differs between the step and its replay', text)
  eq(last:item(), 5)
end)

test('fields that a class gets later, replaced methods of the library, and names in variables count', function()
  local Base = nn.class 'Base'
  function Base:forward(x) return x * (self.scale or 1) end
  local Derived = nn.class('Derived', Base)
  local net, relu, key = Derived(), nn.ReLU(), 'pi'
  local kept, pi = getmetatable(relu).__call, math.pi
  local f = mt.compile(function(x) return relu(net(x)) * math[key] end)
  local function result() -- of a call that replays, if one does
    for _ = 1, 3 do f(mt.ones(1)) end
    return f(mt.ones(1)):item()
  end
  local got = {}
  told(function()
    math.pi = 1
    got[1] = result()
    Derived.scale = 5
    got[2] = result()
    function Derived:forward(x) return x * 7 end
    got[3] = result()
    math.pi = 2
    got[4] = result()
    getmetatable(relu).__call = function(_, x) return x * 3 end
    got[5] = result()
    getmetatable(relu).__call, math.pi = kept, pi
  end)
  eq(got, {1, 5, 7, 14, 42})
end)

test('of a table of mtorch a step compares what it names and what the user put there', function()
  local factor, key = 2, 'times_factor'
  local function twice(x) return x * factor end
  for _, library in ipairs{mt, nn, mt.optim} do
    library[key] = twice
    local f = mt.compile(function(x) return library[key](x) end)
    for _ = 1, 4 do eq(f(mt.ones(1)):item(), 2) end
    factor = 3
    told(function() eq(f(mt.ones(1)):item(), 3) end)
    for _ = 1, 3 do f(mt.ones(1)) end
    library[key] = mt.neg
    told(function() eq(f(mt.ones(1)):item(), -1) end)
    library[key], factor = nil, 2
  end
  local parameter = nn.Parameter(mt.ones(2))
  local step = mt.compile(function(x)
    (parameter * x):sum():backward()
    return nn.clip_grad_norm_({parameter}, 1)
  end)
  for _ = 1, 4 do step(mt.ones(2)) end
  assert(tonumber(mt.explain(step):match '(%d+) captured values') < 60)
end)

test('more than eight kinds of arguments drop the oldest program', function()
  local f = mt.compile(function(x) return x + 1 end)
  local text = told(function()
    for _ = 1, 3 do
      for n = 1, 10 do
        for _ = 1, 2 do eq(f(mt.ones(n)):sum():item(), 2 * n) end
      end
    end
  end)
  assert(text:find 'more than 8 kinds of arguments', text)
  eq(select(2, text:gsub('\n', '')), 1)
end)

test('numbers are compared by value: a few have programs, one that changes at every call ends the recording', function()
  local x = mt.ones(2)
  local f = mt.compile(function(a, k) return k > 50 and a or a * k end)
  eq(told(function()
    for i = 1, 20 do eq(f(x, i % 4):tolist(), {i % 4, i % 4}) end
  end), '')
  assert(mt.explain(f):find 'replayed 3 times')
  local text = told(function()
    for k = 4, 60 do eq(f(x, k):tolist(), k > 50 and {1, 1} or {k, k}) end
  end)
  assert(text:find 'runs eagerly: its arguments or captured values change too often.- belongs in a 0%-d tensor', text)
  local scale = 1
  local g = mt.compile(function(a) return a * scale end)
  text = told(function()
    for k = 1, 90 do
      scale = k
      eq(g(x):tolist(), {k, k})
    end
  end)
  assert(text:find "change too often: 'scale' was %d+ and is %d+; a number that changes", text)
  local h = mt.compile(function(a, k) return a * k end)
  eq(told(function() for k = 1, 60 do eq(h(x, mt.tensor(k)):tolist(), {k, k}) end end), '')
end)

test('wrong labels are errors of the step', function()
  local one, two = twins(mlp, function(p) return optim.SGD(p, {lr = 0.1}) end, mt.cross_entropy)
  race(one, two, 5, classes)
  local x = mt.randn(8, 6)
  local before = two.net[1].weight:clone()
  local wrong = mt.full({8}, 4, {dtype = 'int64'})
  if waits then
    two.compiled(x, wrong)
    return raises(mt.cuda.synchronize, 'an earlier cross_entropy on cuda:0: a target is 4, expected 1..3')
  end
  raises(function() two.compiled(x, wrong) end, 'test_compile.lua:%d+: cross_entropy: .* 4')
  assert(mt.equal(before, two.net[1].weight))
  race(one, two, 3, classes)
end)

test('a parameter with new memory is detected', function()
  local net = nn.Linear(2, 1)
  local f = mt.compile(function(x) return mt.no_grad(function() return net(x) end) end)
  local x = mt.ones(1, 2)
  for _ = 1, 4 do f(x) end
  net:double()
  net:float()
  net.weight:detach():fill_(3)
  local text, y = told(function() return f(x) end)
  same(y, net(x):detach())
  text = text .. told(function() for _ = 1, 3 do same(f(x), net(x):detach()) end end)
  assert(text:find 'a parameter or gradient has other memory', text)
end)

test('wrong use is one sentence', function()
  raises(function() mt.compile(3) end, 'compile: ')
  raises(function() mt.compile(function(x) return x end)({1}) end, 'argument 1 of a compiled step must be a tensor')
  local f = mt.compile(function(x) return x end)
  raises(function() mt.compile(f) end, 'compiled already')
  raises(function() mt.compile(function() end, {verify = -1}) end, 'verify')
  assert(mt.explain(mt.compile(function(x) return x * 2 end), mt.ones(3)):find 'compiled step')
end)

test('recurrent layers and attention are recorded, dropout too', function()
  local Net = nn.class 'Sequences'
  function Net:__init()
    self.lstm, self.gru = nn.LSTM(6, 8, {num_layers = 2, dropout = 0.3}), nn.GRU(8, 8, {bidirectional = true})
    self.attend = nn.TransformerEncoderLayer(16, 2, {dim_feedforward = 8})
    self.head = nn.Linear(16, 3)
  end
  function Net:forward(x)
    local y = self.gru((self.lstm(x)))
    return (self.head(self.attend(y, {is_causal = true}):flatten(1, 2)))
  end
  local one, two = twins(Net, function(p) return optim.Adam(p, {lr = 0.01}) end, mt.cross_entropy)
  eq(told(function()
    race(one, two, 6, function(i)
      mt.manual_seed(i)
      return mt.randn(5, 2, 6), mt.randint(1, 3, {10})
    end)
  end), '')
end)

test('a graph that a step leaves behind outlives its replays', function()
  local w = mt.randn(2, 2, 5, 4):requires_grad_()
  local step = mt.compile(function(x) return mt.scaled_dot_product_attention(x * w, x, x):sum():detach() end)
  local x = mt.randn(2, 2, 5, 4)
  local first = step(x)
  for _ = 1, 6 do same(step(x), first) end
  collectgarbage()
  collectgarbage()
end)

test('a gradient that somebody keeps is not overwritten', function()
  local w = mt.ones(3):requires_grad_()
  local f = mt.compile(function(x)
    w.grad = nil
    local loss = (w * x):sum()
    loss:backward()
    return loss
  end)
  local kept, views = {}, {}
  for i = 1, 8 do
    f(mt.full({3}, i))
    if i % 2 == 0 then kept[i], views[i] = w.grad, w.grad:narrow(1, 1, 2) end
  end
  for i, g in pairs(kept) do
    eq(g:tolist(), {i, i, i})
    eq(views[i]:tolist(), {i, i})
  end
end)

test('an argument that shares memory with what the step changes, at the call that is recorded', function()
  for _, part in ipairs{function(b) return b end, function(b) return b:narrow(1, 2, 3) end,
    function(b) return b:view(2, 2):t() end} do
    local one, two = mt.range(1, 4):float(), mt.range(1, 4):float()
    local function step_of(b) return function(a)
      local before = a * 1
      b:add_(1)
      return a * 10, before
    end end
    local step, compiled = step_of(one), mt.compile(step_of(two))
    told(function()
      for _ = 1, 6 do
        local x, before = step(part(one))
        local y, other = compiled(part(two))
        same(x, y)
        same(before, other)
      end
    end)
    same(one, two)
  end
end)

test('arguments of any layout; those that the step returns or keeps as gradients', function()
  local w = mt.ones(2, 3):requires_grad_()
  local f = mt.compile(function(x, g)
    w.grad = nil
    ;(w * 2):backward(g)
    return x, x:t(), x + 1
  end)
  local kept = {}
  for i = 1, 8 do
    local x = mt.range(1, 6):float() * i
    x = i % 2 == 0 and x:view(3, 2):t() or x:view(2, 3)
    local g = mt.full({2, 3}, i)
    kept[i] = {x = x:clone(), {f(x, g)}, w.grad, g}
  end
  for _, k in ipairs(kept) do
    same(k[1][1], k.x)
    same(k[1][2], k.x:t())
    same(k[1][3], k.x + 1)
    same(k[2], k[3] * 2)
  end
end)

test('numbers that a step decides by, returns, keeps or counts with', function()
  local kept = {}
  for name, step in pairs{
    compared = function(x, k) if k > 20 then x = x + 1 end return x * k end,
    compared_later = function(x, k) local s = k / x:size(1) if s > 10 then x = x + 1 end return x * k end,
    smallest = function(x, k) return x * k + math.min(k, 20) end,
    modulo = function(x, k) return x * (k % 20 + 5) end,
    returned = function(x, k) return x * k, k end,
    field = function(x, k) kept.k = k return x * kept.k end,
    position = function(x, k) return x:narrow(1, k, 1) end,
    decay = function(x, k) for _ = 1, 3 do x, k = x * k, k / 2 end return x end,
    turns = function(x, k) for _ = 1, k - 4 do x = x * 2 end return x * k end,
    indexed = function(x, k) return x * k + (({[25] = 3})[k] or 0) end,
    captured = function(x, k) return mt.no_grad(function() return k > 20 and x * k or x end) end,
    called_back = function(x, k) return mt.no_grad(function(a, s) return s > 20 and a or a * s end, x, k) end,
    seed = function(x, k) mt.manual_seed(k) return mt.rand(3) + x:size(1) end,
    power = function(x, k) return x ^ (k - 7) end,
    whole = function(x, k) return x:int() * (k / 2) end,
  } do
    local compiled = mt.compile(step)
    told(function()
      for k = 5, 30 do
        local x = mt.rand(40)
        local a, b = step(x, k)
        local c, d = compiled(x, k)
        same(a, c)
        assert(b == d, name)
        eq(a.dtype, c.dtype)
      end
    end)
  end
end)

test('captured numbers that change at every call', function()
  local rate, w = 6, mt.ones(3)
  local other = function(x) return x + 1 end
  local steps = {
    plain = function(x) return x * (1 - rate / 100) + w * rate end,
    helper = (function()
      local function scaled(x) return x * rate end
      return function(x) return other(scaled(x)) end
    end)(),
    compared = function(x) if rate > 20 then x = x + 1 end return x * rate end,
    compared_elsewhere = (function()
      local function large() return rate > 20 end
      return function(x) return (large() and x + 1 or x) * rate end
    end)(),
    inside = function(x) return mt.no_grad(function() return rate > 20 and x + 1 or x end) * rate end,
    power = function(x) return x ^ (rate % 7) end,
    changed = function(x)
      rate = rate + 1
      return x * rate
    end,
  }
  for name, step in pairs(steps) do
    rate = 6
    local compiled = mt.compile(step)
    told(function()
      for k = 6, 40 do
        local x = mt.randn(3)
        rate = k
        local y = step(x)
        rate = k
        assert(mt.equal(y, compiled(x)), name)
      end
    end)
  end
  local net = nn.Linear(2, 2)
  local shift = 1
  net:register_forward_hook(function(_, _, y) return shift > 1 and y * shift or y end)
  local hooked = mt.compile(function(x) return net(x):detach() end)
  told(function()
    for k = 1, 8 do
      shift = k % 4
      same(net(mt.ones(1, 2)):detach(), hooked(mt.ones(1, 2)))
    end
  end)
end)

test('gradients that a step takes away again after its optimizer are away after a replay', function()
  local orders = {
    first = function(w, opt, x)
      opt:zero_grad();
      (w * x):sum():backward()
      opt:step()
    end,
    last = function(w, opt, x) (w * x):sum():backward() opt:step() opt:zero_grad() end,
    none = function(w, opt, x) (w * x):sum():backward() opt:step() w.grad = nil end,
    twice = function(w, opt, x)
      for _ = 1, 2 do
        (w * x):sum():backward()
        opt:step()
        opt:zero_grad()
      end
    end,
    by_hand = function(w, _, x)
      (w * x):sum():backward()
      mt.no_grad(function() w:sub_(w.grad * 0.1) end)
      w.grad = nil
    end,
  }
  for name, order in pairs(orders) do
    local function run(compiled)
      local w = mt.ones(1):requires_grad_()
      local opt = optim.SGD({w}, {lr = 0.1, momentum = 0.5})
      local step = function(x) order(w, opt, x) end
      if compiled then step = mt.compile(step) end
      local values = {}
      for i = 1, 9 do
        step(mt.ones(i == 7 and 3 or 1))
        values[i] = w[1]:item()
      end
      return table.concat(values, ' '), w.grad and w.grad:item()
    end
    local values, gradient = run(false)
    local said = told(function()
      local others, other = run(true)
      eq(others, values, name)
      eq(other, gradient, name)
    end)
    eq(said, '', name) -- no call is recorded again or runs eagerly
  end
end)

test('a step that reads options, class fields, modules or fields of libraries reads their changes', function()
  local Scaled = nn.class('Scaled')
  function Scaled:__init() self.bias = 1 end
  function Scaled:forward(x) return x * self.scale + self.bias end
  Scaled.scale = 2
  local net = Scaled()
  package.loaded.settings_of_test = {k = 2}
  rawset(math, 'k_of_test', 2)
  rawset(_G, 'k_of_test', 2)
  local w = mt.ones(1):requires_grad_()
  local opt = optim.SGD({w}, {lr = 2})
  local changes = {
    option = {function(x) opt:zero_grad() return x * opt.param_groups[1].lr end,
      function(k) opt.param_groups[1].lr = k end},
    nested = {function(x) opt:zero_grad() return mt.no_grad(function() return x * opt.param_groups[1].lr end) end,
      function(k) opt.param_groups[1].lr = k end},
    class = {function(x) return net(x) end, function(k) Scaled.scale = k end},
    module = {function(x) return x * require('settings_of_test').k end,
      function(k) package.loaded.settings_of_test.k = k end},
    math = {function(x) return x * math.k_of_test end, function(k) math.k_of_test = k end},
    global = {function(x) return x * _G.k_of_test end, function(k) _G.k_of_test = k end},
  }
  for name, pair in pairs(changes) do
    local step, change = unpack(pair)
    local compiled = mt.compile(step)
    told(function()
      for i = 1, 12 do
        change(i < 6 and 2 or i < 9 and 5 or 2)
        eq(compiled(mt.ones(1)):item(), step(mt.ones(1)):item(), ('%s %d'):format(name, i))
      end
    end)
  end
  math.k_of_test, _G.k_of_test, package.loaded.settings_of_test = nil, nil, nil
end)

test('one tensor given twice is changed as without compile', function()
  local function step(x, y) x:add_(1) return (x * y):sum() end
  local compiled = mt.compile(step)
  told(function()
    for _ = 1, 5 do
      local a = mt.ones(2)
      eq(compiled(a, a:view(2)):item(), 8)
      same(a, mt.full({2}, 2))
    end
  end)
end)

test('parameters that are frozen and thawed, and states that are loaded, between calls', function()
  local between = {
    frozen = function(i, net) if i % 3 == 0 then net.weight:requires_grad_(not net.weight.requires_grad) end end,
    loaded = function(i, _, opt, kept)
      if i == 3 then kept.state = opt:state_dict() end
      if i == 8 then opt:load_state_dict(kept.state) end
    end,
  }
  for name, change in pairs(between) do
    for _, make in ipairs{optim.SGD, optim.Adam} do
      local function run(compiled)
        mt.manual_seed(1)
        local net, kept = nn.Linear(2, 1), {}
        local options = {lr = 0.1}
        if make == optim.SGD then options.momentum = 0.9 end
        local opt = make(net:parameters(), options)
        local step = function(x)
          opt:zero_grad()
          local loss = net(x):square():sum()
          loss:backward()
          opt:step()
          return loss
        end
        if compiled then step = mt.compile(step) end
        local losses = {}
        for i = 1, 14 do
          change(i, net, opt, kept)
          losses[i] = step(mt.ones(1, 2)):item()
        end
        return table.concat(losses, ' ')
      end
      told(function() eq(run(true), run(false), name) end)
    end
  end
end)

test('what a step wrote into an argument before an error stays written', function()
  local calls, x = 0, mt.ones(1)
  local step = mt.compile(function(a)
    a:mul_(0.5)
    calls = calls + 1
    if calls == 2 then error 'stop' end
  end)
  told(function()
    for i = 1, 4 do
      eq(pcall(step, x), i ~= 2)
      eq(x:item(), 0.5 ^ i)
    end
  end)
end)

test('flags of tensors that the step changes are as without compile, those of its arguments too', function()
  local steps = {
    argument = function() return function(x)
      x:requires_grad_()
      x:square():sum():backward()
      return x.grad
    end end,
    toggled = function(w) return function(x)
      local y = (w * x):sum() * (w.requires_grad and 2 or 1)
      w:requires_grad_(not w.requires_grad)
      return y:detach()
    end end,
    back = function(w) return function(x)
      w:requires_grad_()
      local y = (w * x):sum()
      y:backward()
      w:requires_grad_(false)
      return y:detach()
    end end,
  }
  for name, make in pairs(steps) do
    local w, v = mt.ones(2), mt.ones(2)
    local step, compiled = make(w), mt.compile(make(v))
    told(function()
      for i = 1, 8 do
        local x, y = mt.full({2}, i), mt.full({2}, i)
        same(step(x), compiled(y))
        eq({name, x.requires_grad, w.requires_grad}, {name, y.requires_grad, v.requires_grad})
        for _, pair in ipairs{{x.grad or 0, y.grad or 0}, {w.grad or 0, v.grad or 0}} do
          if mt.is_tensor(pair[1]) then same(pair[1], pair[2]) else eq(pair[1], pair[2]) end
        end
      end
    end)
  end
end)

test('what a step reads of a tensor beside its elements: a gradient that is there, requires_grad', function()
  for name, step_of in pairs{
    gradient = function(w) return function(x) return x * (w.grad and 2 or 1) end end,
    flag = function(w) return function(x) return x * (w.requires_grad and 2 or 1) end end,
  } do
    local w, v = mt.ones(2):requires_grad_(), mt.ones(2):requires_grad_()
    local step, compiled = step_of(w), mt.compile(step_of(v))
    told(function()
      for i = 1, 16 do
        for _, leaf in ipairs{w, v} do
          leaf.grad = i % 8 > 3 and mt.ones(#leaf) or nil
          leaf:requires_grad_(i % 8 > 3)
        end
        eq({name, i, step(mt.ones(1)):item()}, {name, i, compiled(mt.ones(1)):item()})
      end
    end)
  end
end)

test('results that are captured tensors, arguments, or views of them or of gradients are so in every call', function()
  local w = mt.ones(2, 3):requires_grad_()
  local step = mt.compile(function(x)
    w:zero_grad_()
    ;(w * x):sum():backward()
    return w, w:detach():t(), x, x[1], w.grad, w.grad:t()
  end)
  for i = 1, 8 do
    local x = mt.full({2, 3}, i)
    if i == 5 then w.grad = mt.zeros(2, 3) end
    local same_w, turned, same_x, row, g, turned_g = step(x)
    assert(rawequal(w, same_w) and rawequal(x, same_x))
    turned:fill_(i)
    row:fill_(-i)
    turned_g:fill_(7)
    same(w:detach(), mt.full({2, 3}, i))
    same(x[1], mt.full({3}, -i))
    same(g, mt.full({2, 3}, 7))
    same(w.grad, g)
  end
end)

test('a layer or a scaler that decides by elements makes the step run as it is', function()
  local norm, scaler = nn.BatchNorm1d(3, {momentum = false}), mt.GradScaler{init_scale = 8}
  local net = nn.Linear(3, 1)
  local opt = optim.SGD(net:parameters(), {lr = 0.01})
  local steps = {
    ['nn/normalize.lua reads elements of tensors'] = function(x) return norm(x):detach() end,
    ['optim/scaler.lua reads elements of tensors'] = function(x)
      opt:zero_grad()
      scaler:scale(net(x):sum()):backward()
      scaler:step(opt)
      scaler:update()
      return x * 1
    end,
  }
  for why, step in pairs(steps) do
    local compiled = mt.compile(step)
    local text = told(function() for _ = 1, 6 do compiled(mt.randn(4, 3)) end end)
    assert(text:find('runs eagerly: ' .. why, 1, true), text)
  end
  eq(norm.num_batches_tracked:item(), 6)
end)

test('with set_debug a compiled step stops at the first NaN', function()
  local step = mt.compile(function(x) return x:log():sum() end)
  for _ = 1, 5 do step(mt.ones(2)) end
  mt.set_debug(true)
  local ok, why = pcall(step, mt.full({2}, -1))
  mt.set_debug(false)
  assert(not ok and why:find 'log', why)
end)

test('a compiled module inside another step; an environment that is exchanged; a long list with a new key', function()
  local net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
  local inner, plain = mt.compile(net), net
  local outer = mt.compile(function(x) return inner(x):detach() end)
  local in_env = setfenv(function(x) return x * k end, {k = 2}) -- luacheck: ignore 113
  local env = mt.compile(in_env)
  local long = {}
  for i = 1, 40 do long[i] = i end
  long[33] = nil
  for i = 33, 40 do long[i] = i end
  local listed = mt.compile(function(x) return x * (long.factor or #long) end)
  told(function()
    for i = 1, 12 do
      if i == 7 then net:eval() setfenv(in_env, {k = 3}) long.factor = 2 end
      local x = mt.full({1, 2}, i)
      mt.manual_seed(i)
      local want = plain(x):detach()
      mt.manual_seed(i)
      same(want, outer(x))
      same(in_env(x), env(x))
      eq(listed(x):tolist(), (x * (long.factor or #long)):tolist())
    end
  end)
end)

t.test('what an optimizer changes between the parts of a step is counted once', function()
  local function version(compiles)
    mt.manual_seed(1)
    local w = mt.randn(3, 3):requires_grad_()
    local opt = mt.optim.SGD({w}, {lr = 0.01})
    local function step(x)
      local y = x:matmul(w:t())
      mt.no_grad(function() w[1][1] = 0.5 end)
      opt:zero_grad()
      local loss = y:mean() + (w * w):mean()
      loss:backward()
      opt:step()
    end
    local f = compiles and mt.compile(step, {verify = 0}) or step
    for _ = 1, 5 do pcall(f, mt.ones(2, 3)) end
    local loss = (w * w):sum()
    mt.no_grad(function() w:add_(1) end)
    local _, why = pcall(function() loss:backward() end)
    return why:match 'version %d+'
  end
  t.eq(version(true), version(false))
end)

test('uniform_ is recorded', function()
  local step = mt.compile(function(x) return x + mt.empty(3):uniform_(1, 2) end)
  eq(told(function()
    for _ = 1, 4 do step(mt.zeros(3)) end
  end), '')
  assert(mt.explain(step):find 'replay')
end)

t.finish()
