-- test_cuda_graph.lua -- mt.cuda.graph: replays of a recorded function give the same results as running it
local mt = require 'mtorch'
local t = require 'testing'
t.needs_cuda()
local nn, optim = mt.nn, mt.optim
mt.set_default_device('cuda')

local stats = mt.cuda.memory_stats

t.test('a replay reads the inputs again and writes the same results', function()
  local x = mt.zeros(3)
  local runs = 0
  local g = mt.cuda.graph(function()
    runs = runs + 1
    local y = x * 2 + 1
    return y, y:sum(), 'words', nil
  end)
  t.eq(runs, 3)
  local y, sum, words = g()
  t.eq({y:tolist(), sum:item(), words}, {{1, 1, 1}, 3, 'words'})
  x:copy_(mt.tensor {1, 2, 3})
  local y2, sum2 = g:replay()
  t.eq({rawequal(y, y2), rawequal(sum, sum2)}, {true, true})
  t.eq({y:tolist(), sum:item()}, {{3, 5, 7}, 15})
  t.eq(runs, 3)
  t.eq(tostring(g), 'a graph of mt.cuda.graph, replayed 2 times')
  t.eq(select('#', g()), 4)
end)

t.test('a replay asks the GPU once, whatever is recorded', function()
  local x = mt.ones(4)
  local g = mt.cuda.graph(function()
    for _ = 1, 20 do x:add_(1) end
  end)
  local before = stats()
  g()
  local after = stats()
  t.eq({after.launches - before.launches, after.allocations - before.allocations}, {1, 0})
  t.eq(x:tolist(), {61, 61, 61, 61}) -- two warm-up runs and one replay; recording computes nothing
end)

--- Trains a small network for `steps` steps, with or without a graph; returns the results.
local function train(make, steps, graphed, eager_between, decay)
  mt.manual_seed(7)
  local first, last = nn.Linear(3, 8), nn.Linear(8, 1)
  local function net(x) return last(mt.dropout(first(x):tanh(), 0.25)) end
  local parameters = {first.weight, first.bias, last.weight, last.bias}
  local opt = make(parameters)
  local xs, ys = mt.randn(steps, 6, 3), mt.randn(steps, 6, 1)
  local x, y = mt.zeros(6, 3), mt.zeros(6, 1)
  local function step()
    opt:zero_grad()
    local loss = (net(x) - y):square():mean()
    loss:backward()
    opt:step()
    return loss
  end
  local function load(i)
    x:copy_(xs[i])
    y:copy_(ys[i])
  end
  local losses, g = {}, nil
  for i = 1, steps do
    load(i)
    local group = opt.param_groups[1]
    group.lr = group.lr * (decay or 1)
    if graphed and i == 3 then g = mt.cuda.graph(step, 0) end
    local loss
    if g and not (eager_between and i == 5) then loss = g() else loss = step() end
    losses[i] = loss:item()
  end
  local weights = {}
  for i, p in ipairs(parameters) do weights[i] = p:detach():tolist() end
  return losses, weights, opt
end

local makers = {
  momentum = function(p) return optim.SGD(p, {lr = 0.1, momentum = 0.9, nesterov = true}) end,
  centered = function(p) return optim.RMSprop(p, {lr = 0.01, momentum = 0.5, centered = true}) end,
}
for _, info in ipairs(require('mtorch.core').optimizers()) do
  makers[info.name] = function(p) return optim[info.name](p, {lr = 0.01}) end
end
for name, make in pairs(makers) do
  t.test('training with ' .. name .. ' and dropout: the numbers of training without a graph', function()
    local losses, weights, opt = train(make, 8, false)
    local graph_losses, graph_weights, graph_opt = train(make, 8, true)
    t.eq(graph_losses, losses)
    t.eq(graph_weights, weights)
    local _, between = train(make, 8, true, true)
    t.eq(between, weights)
    local decayed, decayed_weights = train(make, 8, false, false, 0.5)
    local graph_decayed, graph_decayed_weights = train(make, 8, true, false, 0.5)
    t.eq(graph_decayed, decayed)
    t.eq(graph_decayed_weights, decayed_weights)
    assert(decayed[8] ~= losses[8])
    t.eq({opt.param_groups[1].state[1].step, graph_opt.param_groups[1].state[4].step}, {8, 8})
  end)
end

t.test('sequences and binary cross entropy do not wait for the GPU', function()
  local p, y = mt.rand(8), mt.rand(8):round()
  local function work(device)
    return mt.range(3, -4, -0.7, {device = device}), mt.range(1, 5, 2, {dtype = 'uint8', device = device}),
      mt.linspace(-1, 2, 7, {device = device}), mt.linspace(5, 6, 1, {dtype = 'float64', device = device}),
      mt.linspace(0, 3, 11, {dtype = 'bfloat16', device = device}),
      mt.binary_cross_entropy(p:to(device), y:to(device), {reduction = 'none'})
  end
  local here = {work('cpu')}
  p, y = p:to('cuda'), y:to('cuda')
  local g = mt.cuda.graph(function() return work('cuda') end, 0)
  local there = {g()}
  for i = 1, 5 do
    t.eq(there[i].dtype, here[i].dtype)
    t.eq(there[i]:cpu():tolist(), here[i]:tolist())
  end
  t.near(there[6]:cpu():tolist(), here[6]:tolist(), 1e-6)
  p[2] = 1.5
  t.eq(g and select(6, g()):isnan():sum():item(), 1)
end)

t.test('a replay uses the current options; those that need other state are errors', function()
  local function train(graphed)
    local w = mt.ones(2):requires_grad_()
    local sgd, adam = optim.SGD({w}, {lr = 0.1, weight_decay = 0.01, momentum = 0.5}), optim.Adam({w}, {lr = 0.1})
    local function step()
      sgd:zero_grad()
      w:square():sum():backward()
      sgd:step()
      adam:step()
    end
    step()
    step()
    local g = graphed and mt.cuda.graph(step, 0) or step
    g()
    sgd.param_groups[1].weight_decay = 0.5
    adam.param_groups[1].betas[2] = 0.5
    g()
    local a, b = sgd.param_groups[1], adam.param_groups[1]
    t.eq({a.state[1].step, b.state[1].step}, {4, 4})
    return w, g, a, b
  end
  local w, g, of_sgd, of_adam = train(true)
  local before = w:tolist()
  t.eq(before, train(false):tolist())
  of_adam.amsgrad = true
  t.raises(g, 'replay: Adam has other state now than was recorded; record the graph again')
  of_adam.amsgrad = false
  of_adam.betas[2] = 5
  t.raises(g, 'Adam: betas must be')
  of_adam.betas[2] = 0.5
  of_sgd.momentum = 0
  t.raises(g, 'replay: SGD has other state now')
  t.eq({w:tolist(), of_sgd.state[1].step, of_adam.state[1].step}, {before, 4, 4})
end)

t.test('a state that was loaded after the recording is not what replays would write', function()
  local function world()
    local w = mt.ones(2):requires_grad_()
    local opt = optim.Adam({w}, {lr = 0.1})
    return opt, function()
      opt:zero_grad()
      w:square():sum():backward()
      opt:step()
    end
  end
  local opt, step = world()
  local other, other_step = world()
  other_step()
  local g = mt.cuda.graph(step)
  opt:load_state_dict(opt:state_dict()) -- its own tensors stay
  g()
  opt:load_state_dict(other:state_dict())
  t.raises(g, 'replay: Adam has other state now than was recorded')
end)

t.test('replays update the master weights of 16-bit parameters, which follow writes in between', function()
  local function train(name, dtype, graphed)
    local w = mt.full({3}, 1, dtype):requires_grad_()
    local opt = optim[name]({w}, {lr = 1e-4, master_weights = true})
    local function step()
      opt:zero_grad()
      w:square():sum():backward()
      opt:step()
    end
    if graphed then t.raises(function() mt.cuda.graph(step, 0) end, name .. ': parameter 1 has no state yet') end
    step()
    local g = graphed and mt.cuda.graph(step, 0) or step
    for k = 1, 40 do
      if k == 20 then mt.no_grad(function() w[2] = 2 end) end
      if k % 9 == 0 then step() else g() end
    end
    local master = opt.param_groups[1].state[1].master
    t.eq(w:tolist(), master:to(dtype):tolist())
    t.eq(master:ne(w:detach():float()):sum():item(), 3)
    return {w:tolist(), master:tolist()}, g, opt
  end
  for _, name in ipairs {'SGD', 'Adam'} do
    for _, dtype in ipairs {'bfloat16', 'float16'} do
      local eager = train(name, dtype)
      local found, g, opt = train(name, dtype, true)
      t.eq(found, eager)
      local group = opt.param_groups[1]
      group.master_weights = false
      t.raises(g, 'replay: ' .. name .. ' has other state now than was recorded')
      group.master_weights = true
      g()
      local state = opt:state_dict()
      state[1].state[1].master = state[1].state[1].master:clone()
      opt:load_state_dict(state)
      t.raises(g, 'replay: ' .. name .. ' has other state now than was recorded')
    end
  end
  local w = mt.ones({3}, 'bfloat16'):requires_grad_()
  local opt = optim.Adam {w}
  w.grad = mt.ones({3}, 'bfloat16')
  local g = mt.cuda.graph(function() opt:step() end)
  opt.param_groups[1].master_weights = true
  opt:step()
  t.raises(g, 'replay: Adam has other state now than was recorded')
end)

t.test('replays count the steps of each parameter', function()
  --- Eight steps of three parameters; the first four without the second, all without the third.
  local function train(make, device, graphed)
    local list, scale = {}, mt.zeros({1}, {device = device})
    for i = 1, 3 do list[i] = mt.tensor({1, -2}, {device = device}):requires_grad_() end
    local opt = make(list)
    local function steps()
      local found = {}
      for i, own in pairs(opt.param_groups[1].state) do found[i] = own.step end
      return found
    end
    local function step()
      opt:zero_grad()
      local loss = (list[1]:square() * scale):sum()
      if graphed ~= 'early' and (steps()[1] or 0) >= 4 then
        loss = loss + (list[2]:square() * scale * 3):sum()
      end
      loss:backward()
      opt:step()
    end
    local g
    for k = 1, 8 do
      scale:fill_(k * 0.1)
      if graphed == 'late' and k == 6 or graphed == 'early' and k == 2 then g = mt.cuda.graph(step, 0) end
      if g then g() else step() end
    end
    local found = {}
    for _, p in ipairs(list) do
      for _, v in ipairs(p:tolist()) do found[#found + 1] = v end
    end
    return found, steps, g
  end
  for _, class in ipairs{optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam} do
    local function make(p) return class(p, {lr = 0.1}) end
    local eager, steps = train(make, 'cpu')
    t.eq(steps(), {8, 4})
    local late, of_late, g = train(make, 'cuda', 'late')
    t.near(late, eager, 1e-5)
    t.eq(of_late(), {8, 4})
    g()
    t.eq(of_late(), {9, 5})
    local early, of_early = train(make, 'cuda', 'early')
    t.near({early[1], early[2]}, {eager[1], eager[2]}, 1e-5)
    t.eq({early[3], of_early()}, {1, {8}})
  end
  local function apart(graphed)
    local a, b = mt.ones(2):requires_grad_(), mt.ones(2):requires_grad_()
    local opt = optim.Adam({a, b}, {lr = 0.1})
    local function both()
      opt:zero_grad()
      local loss = (a * b):sum()
      loss:backward()
      opt:step()
    end
    both()
    both()
    local g = graphed and mt.cuda.graph(both, 0) or both
    g()
    b.grad = nil
    if graphed then a.grad = a.grad:clone() end
    opt:step()
    g()
    local state = opt.param_groups[1].state
    t.eq({state[1].step, state[2].step}, {5, 4})
    return {a:tolist(), b:tolist()}
  end
  t.eq(apart(true), apart(false))
end)

t.test('many parameters of many sizes, with different numbers of steps', function()
  local results = {}
  for i, graphed in ipairs{false, true} do
    mt.manual_seed(9)
    local list = {}
    for k = 1, 150 do list[k] = mt.randn({k % 7 == 0 and 3000 or k % 5}):requires_grad_() end
    local opt = optim.NAdam({{params = {unpack(list, 1, 100)}}, {params = {unpack(list, 101)}, lr = 0.1}})
    local active = 0
    local function step()
      for k, p in ipairs(list) do p.grad = active % (k % 6 + 1) == 0 and p:detach() * 0.5 or nil end
      opt:step()
    end
    for _ = 1, 8 do
      step()
      active = active + 1
    end
    active = 0
    local g = graphed and mt.cuda.graph(step, 0) or step
    g()
    g()
    results[i] = {}
    for k, p in ipairs(list) do results[i][k] = p:tolist() end
  end
  t.eq(results[2], results[1])
end)

t.test('random numbers continue from replay to replay, as without a graph', function()
  mt.manual_seed(5)
  local a, b, c = mt.rand(5), mt.randn(3), mt.rand(5)
  local d, e = mt.randn(3), mt.rand(2)
  mt.manual_seed(5)
  local g = mt.cuda.graph(function() return mt.rand(5), mt.randn(3) end, 0)
  local u, n = g()
  t.eq({u:tolist(), n:tolist()}, {a:tolist(), b:tolist()})
  g()
  t.eq({u:tolist(), n:tolist(), mt.rand(2):tolist()}, {c:tolist(), d:tolist(), e:tolist()})
  mt.manual_seed(5)
  g()
  t.eq(u:tolist(), a:tolist())
  local own = mt.Generator and mt.Generator()
  if own then
    t.raises(function() mt.cuda.graph(function() return mt.rand({2}, {generator = own}) end, 0) end,
      'random numbers come from the stream of manual_seed')
  end
end)

t.test('waiting while a graph is recorded is an error, and later calls work', function()
  local x = mt.ones(3)
  for name, wait in pairs {
    item = function(y) return y:sum():item() end,
    tolist = function(y) return y:tolist() end,
    cpu = function(y) return y:cpu() end,
    tostring = function(y) return tostring(y) end,
    masked_select = function(y) return y:masked_select(y:gt(0)) end,
    synchronize = function() mt.cuda.synchronize() end,
    to = function() return mt.ones({3}, {device = 'cpu'}):to('cuda') end,
    empty_cache = function() mt.cuda.empty_cache() end,
  } do
    local text = t.raises(function() mt.cuda.graph(function() return wait(x + 1) end, 0) end,
      'while mt.cuda.graph records, the CPU cannot wait for cuda:0')
    assert(text:find('^[%w_./-]*test_cuda_graph.lua:%d+: '), text)
    t.eq((x + 1):tolist(), {2, 2, 2})
    local _ = name
  end
  t.raises(function() mt.cuda.graph(function() error('mine') end, 0) end, 'mine')
  t.raises(function() mt.cuda.graph(function() mt.cuda.graph(print, 0) end, 0) end, 'is being recorded already')
  local g = mt.cuda.graph(function() return x * 2 end)
  t.raises(function() mt.cuda.graph(function() g() end, 0) end, 'cannot be replayed while another is recorded')
  t.raises(function() mt.cuda.graph(function() mt.cuda.Event():record() end, 0) end, 'time the call of g%(%)')
  t.eq(g():tolist(), {2, 2, 2})
  t.raises(function() mt.cuda.graph(3) end, 'graph: .*function')
  t.raises(function() mt.cuda.graph(print, 1.5) end, 'warmup must be a whole number from 0, got 1.5')
  t.raises(function() mt.cuda.graph(print, 1, 'cpu') end, 'graph: a GPU is needed')
  local opt = optim.Adam({mt.ones(2):requires_grad_()})
  opt.param_groups[1].params[1].grad = mt.ones(2)
  t.raises(function() mt.cuda.graph(function() opt:step() end, 0) end, 'parameter 1 has no state yet')
  t.eq(opt.param_groups[1].state, {})
end)

t.test('a wrong position in a replay', function()
  local x, i = mt.ones(3, 2), mt.ones(2):long()
  local g = mt.cuda.graph(function() return x:index_select(1, i) end)
  g()
  mt.cuda.synchronize()
  i:fill_(4)
  local y = g()
  t.raises(function() return y:cpu() end, 'an earlier index_select on cuda:0: position 4 is outside 1..3')
  i:fill_(2)
  t.eq(g():tolist(), {{1, 1}, {1, 1}})
end)

local function collect()
  collectgarbage()
  collectgarbage()
end

t.test('a graph keeps what its kernels read, and gives all back', function()
  collect()
  mt.cuda.empty_cache()
  local before = stats()
  do
    local x = mt.full({1000}, 3)
    local inner = x:narrow(1, 500, 10)
    local g = mt.cuda.graph(function() return (inner + 1):sum() end)
    local unused = mt.zeros(1000)
    x, inner, unused = nil, nil, nil
    collect()
    local others = {}
    for k = 1, 20 do others[k] = mt.full({1000}, k) end -- would reuse freed memory
    t.eq(g():item(), 40)
    -- Another graph reads the results of the first one, which is released.
    local out = g()
    local g2 = mt.cuda.graph(function() return out * 2 end)
    g, out, others = nil, nil, nil
    collect()
    for _ = 1, 20 do local _ = mt.full({100}, 9) end
    t.eq(g2():item(), 80)
    local kept = g2()
    g2:release()
    t.raises(function() g2() end, 'this graph was released')
    collect()
    t.eq(kept:item(), 80) -- results outlive the graph
    kept, g2 = nil, nil
  end
  collect()
  mt.cuda.empty_cache()
  local after = stats()
  t.eq({after.allocated, after.reserved}, {before.allocated, before.reserved})
end)

t.test('tensors freed while a graph is recorded', function()
  local p = mt.ones(50):requires_grad_()
  ;(p * 2):sum():backward() -- a gradient from before, dropped by the recording
  local g = mt.cuda.graph(function()
    p.grad = nil
    collectgarbage()
    local y = p
    for _ = 1, 30 do y = y * 1.5 end
    y:sum():backward()
    return p.grad
  end, 0)
  local grad = g()
  t.near(grad:tolist()[1], 1.5 ^ 30, 1)
  mt.no_grad(function() p:zero_() end)
  p.grad = nil
  collect()
  t.near(g():tolist()[50], 1.5 ^ 30, 1)
end)

t.test('gradients that were there before add up', function()
  local p = mt.tensor {1, 2}:requires_grad_()
  p.grad = mt.zeros(2)
  local g = mt.cuda.graph(function() (p * p):sum():backward() end)
  t.eq(p.grad:tolist(), {4, 8}) -- the two runs before the recording
  g()
  g()
  t.eq(p.grad:tolist(), {8, 16})
end)

t.test('memory is used again inside a recording', function()
  local x, labels = mt.rand(256, 256), mt.ones(256):long()
  collect()
  mt.cuda.empty_cache()
  local before = stats().reserved
  local g = mt.cuda.graph(function()
    local sum = mt.zeros(1)
    for _ = 1, 100 do sum:add_(mt.cross_entropy(x, labels)) end -- log_softmax alone is 25 MiB
    return sum
  end, 0)
  assert(stats().reserved - before < 8 * 2 ^ 20, stats().reserved - before)
  t.near(g():item(), 100 * mt.cross_entropy(x, labels):item(), 1e-2)
end)

t.test('mt.compile beside graphs', function()
  local function twin()
    mt.manual_seed(2)
    local net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 2))
    local opt = optim.Adam(net:parameters(), {lr = 0.01})
    return net, function(x, y)
      opt:zero_grad()
      local loss = mt.cross_entropy(net(x), y)
      loss:backward()
      opt:step()
      return loss
    end
  end
  local net, step = twin()
  local other, same = twin()
  local compiled, kept = mt.compile(same), {}
  for i = 1, 7 do
    mt.manual_seed(i)
    local x, y = mt.randn(i % 3 == 0 and 4 or 6, 3), mt.randint(1, 2, {i % 3 == 0 and 4 or 6})
    local random = mt.get_rng_state()
    local a = step(x, y):item()
    mt.set_rng_state(random)
    kept[i] = {a, compiled(x, y)}
  end
  for i = 1, 7 do t.eq(kept[i][2]:item(), kept[i][1]) end
  for name, x in pairs(net:state_dict()) do assert(mt.equal(x, other:state_dict()[name]), name) end
end)

t.finish()
