-- test_dist_compile.lua -- compiled steps of several processes: the bits of eager steps, and as many exchanges
local mt = require 'mtorch'
local t = require 'testing'
local nn, optim, dist = mt.nn, mt.optim, mt.dist

local function batch(step, rows) return mt.randn(rows, 6), mt.randn(rows, 2) * step end
local function mean_loss(net, x, y) return (net(x) - y):pow(2):mean() end

-- Each makes a step from a new net: what it needs, and what is compared after each call.
local steps = {
  perceptron = function()
    local net = dist.parallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)), {bucket_mb = 1e-4})
    local opt = optim.Adam(net:parameters(), {lr = 0.01})
    return net, function(x, y)
      opt:zero_grad()
      local loss = mean_loss(net, x, y)
      loss:backward()
      opt:step()
      return loss
    end
  end,
  -- buffers are broadcast before each forward; the loss of all processes is the result
  norm = function()
    local net = dist.parallel(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)))
    local opt = optim.SGD(net:parameters(), {lr = 0.05, momentum = 0.9})
    return net, function(x, y)
      opt:zero_grad()
      local loss = mean_loss(net, x, y)
      loss:backward()
      nn.clip_grad_norm_(net:parameters(), 1)
      opt:step()
      return dist.all_reduce_(loss:detach():clone(), 'mean')
    end
  end,
  -- another process uses the second layer too
  partly = function()
    local net = dist.parallel(nn.ModuleList{nn.Linear(6, 2), nn.Linear(6, 2)})
    return net, function(x, y)
      net:zero_grad()
      local loss = mean_loss(net[1], x, y) + (dist.rank() > 0 and net[2](x):sum() or 0)
      loss:backward()
      return loss
    end
  end,
  -- gradients are added up over three calls, the first two without averages
  accumulated = function()
    local net = dist.parallel(nn.Linear(6, 2), {wire = 'bfloat16'})
    local opt, calls = optim.SGD(net:parameters(), {lr = 0.1}), 0
    local add = function(x, y)
      local loss = mean_loss(net, x, y)
      loss:backward()
      return loss
    end
    return net, add, function(add_now, x, y)
      calls = calls + 1
      if calls % 3 > 0 then return dist.no_sync(net, add_now, x, y) end
      local loss = add_now(x, y)
      opt:step()
      opt:zero_grad()
      return loss
    end
  end,
  -- a collective in backward
  sync = function()
    local double = mt.Function{forward = function(_, x) return x * 2 end, backward = function(_, g)
      return g * 2 * dist.all_reduce_(mt.ones(1), 'mean')
    end}
    local net = dist.parallel(nn.Linear(6, 2))
    return net, function(x, y)
      net:zero_grad()
      local loss = mean_loss(function(v) return double(net(v)):sum(1) end, x, y:sum(1))
      loss:backward()
      return loss
    end
  end,
  -- two nets in one backward pass
  two = function()
    local net = nn.ModuleList{dist.parallel(nn.Linear(6, 2)), dist.parallel(nn.Linear(6, 2))}
    return net, function(x, y)
      net:zero_grad()
      local loss = mean_loss(net[1], x, y) + mean_loss(net[2], x, y)
      loss:backward()
      return loss
    end
  end,
  -- a compiled step inside
  inner = function()
    local net = dist.parallel(nn.Linear(6, 2))
    local opt = optim.SGD(net:parameters(), {lr = 0.1})
    local step = mt.compile(function(x, y)
      opt:zero_grad()
      local loss = mean_loss(net, x, y)
      loss:backward()
      opt:step()
      return loss
    end, {verify = 3})
    return net, function(x, y) return (step(x, y)) end
  end,
  -- plain collectives, in place and into another tensor
  collectives = function()
    local net, n = nn.Linear(6, 2), dist.size()
    return net, function(x, y)
      local loss = mean_loss(net, x, y)
      local g = mt.grad(loss, net:parameters())
      local flat = mt.cat{g[1]:flatten(), g[2]:flatten(), mt.zeros(n * 14 - 14)}
      local part = dist.reduce_scatter_(mt.zeros(14), flat, 'mean')
      local all = dist.all_gather_into_(mt.zeros(n * 14), part)
      dist.barrier()
      mt.no_grad(function() net.weight:sub_(all:narrow(1, 1, 12):view(2, 6)) end)
      return loss, all
    end
  end,
  shard = function()
    local net = dist.shard(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)))
    return net, function(x, y)
      local loss = mean_loss(net, x, y)
      local parameters = net:parameters()
      for i, g in ipairs(mt.grad(loss, parameters)) do mt.no_grad(function() parameters[i]:sub_(g * 0.1) end) end
      return loss
    end
  end,
  -- a message to another process
  message = function()
    local net, to = nn.Linear(6, 2), (dist.rank() + 1) % dist.size()
    return net, function(x, y)
      local sum = mean_loss(net, x, y)
      return dist.size() > 1 and dist.all_gather(sum)[to + 1] or sum
    end
  end,
}
--- What `explain` says of some steps in several processes; the others are replayed.
local how = {
  accumulated = 'runs eagerly: gradients were accumulated by a backward pass that did not average them',
  partly = dist.rank() == 0 and 'runs eagerly: the step does not use all parameters whose gradients the processes',
  shard = 'runs eagerly',
  sync = 'runs eagerly: a backward pass runs hooks, functions of the user or several nets',
  two = 'runs eagerly: a backward pass runs hooks, functions of the user or several nets',
  inner = 'compiled step',
  message = 'runs eagerly: .*other than tensors',
}

local function same(a, b, what)
  if not a:equal(b) then error(('%s differs: %s, %s'):format(what, tostring(a), tostring(b)), 0) end
end
--- Runs a step eagerly and compiled beside each other; `rows(step)`: of the batch of this process.
local function check(name, rows, options)
  mt.manual_seed(3)
  local net, step, around = steps[name]()
  mt.manual_seed(3)
  local net2, step2, around2 = steps[name]()
  local compiled = mt.compile(step2, options or {})
  mt.manual_seed(10 + dist.rank())
  for i = 1, 12 do
    local x, y = batch(i, rows(i))
    local expected, got
    if around then expected, got = {around(step, x, y)}, {around2(compiled, x, y)}
    else expected, got = {step(x, y)}, {compiled(x, y)}
    end
    for k, v in ipairs(expected) do same(got[k], v, ('%s, step %d: result %d'):format(name, i, k)) end
    local values = net2:state_dict()
    for key, v in pairs(net:state_dict()) do same(values[key], v, ('%s, step %d: %s'):format(name, i, key)) end
    for k, p in ipairs(net:parameters()) do
      local g = net2:parameters()[k].grad
      assert((g == nil) == (p.grad == nil), name)
      if g then same(g, p.grad, name .. ': a gradient') end
    end
  end
  return dist.size() > 1 and mt.explain(compiled)
end

if arg[1] == '--process' then
  local rank = dist.init{timeout = 20}
  local names = {}
  for name in pairs(steps) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local text = check(name, function() return 4 end)
    assert(text:find(how[name] or 'replayed 1?[09] times'), name .. ': ' .. text)
    -- the processes record, replay, and compare replays with the step, at different calls
    local function uneven(i) return rank == 0 and 4 or 2 + i * rank % 3 end
    check(name, uneven)
    check(name, uneven, {verify = 2})
  end
  io.write('process ', rank, ' is done\n')
  os.exit(0)
end

for name in pairs(steps) do
  t.test(name .. ' in one process', function() check(name, function(i) return 3 + i % 2 end) end)
end
if os.execute 'command -v mpirun >/dev/null' ~= 0 then
  print 'the rest is skipped: there is no mpirun'
else
  for n, thread in pairs{[2] = 1, [3] = 0} do
    t.test(('%d processes, MTORCH_DIST_THREAD=%d'):format(n, thread), function()
      local text = t.processes(n, 'MTORCH_DIST_THREAD=' .. thread)
      for r = 0, n - 1 do assert(text:find(('process %d is done'):format(r), 1, true), text) end
      assert(text:find 'status 0', text)
    end)
  end
end
t.finish()
