-- test_dist_training.lua -- training by several processes equals that by one: options of dist.parallel, optim.Sharded,
-- parallel linear layers, and checkpoints at any number of processes
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn, optim, data, dist = mt.nn, mt.optim, mt.data, mt.dist
local ffi = require 'ffi'
ffi.cdef 'int setenv(const char *name, const char *value, int overwrite);'
local f64 = {dtype = 'float64'}

local function make()
  mt.manual_seed(1)
  return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1)):to 'float64'
end
mt.manual_seed(2)
local x, y = mt.randn(12, 5, f64), mt.randn(12, 1, f64)
local rank, size = dist.init()
local mine = mt.range(rank + 1, 12, size)
local my_x, my_y = x:index_select(1, mine), y:index_select(1, mine)
local training = require 'dist_training'
local loss_of, train, flat = training.loss_of, training.train, training.flat
local close, same_everywhere = training.close, training.same_everywhere
local function adam(net) return optim.Adam(net:parameters(), {lr = 0.01}) end
local rules = {
  SGD = function(net) return optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9, weight_decay = 0.01}) end,
  Adam = adam,
  groups = function(net)
    return optim.AdamW{{params = {net[1].weight, net[3].bias}, lr = 0.05}, {params = {net[3].weight, net[1].bias}}}
  end,
}

-- ---- checks that all processes make, or one ------------------------------------------------------------

local function check_sharded_optimizer()
  for _, name in ipairs{'SGD', 'Adam', 'groups'} do
    local rule = rules[name]
    local one, many, both = make(), make(), dist.parallel(make())
    local o1, o2, o3 = rule(one), optim.Sharded(rule(many)), optim.Sharded(rule(both))
    local expected, got = train(one, o1, 10, x, y), train(many, o2, 10, my_x, my_y)
    close(got, expected)
    same_everywhere(got)
    close(train(both, o3, 10, my_x, my_y), expected)
    -- the gathered state is that of the optimizer in one process, and a plain optimizer and a sharded one load it
    local state, plain = o2:state_dict(), o1:state_dict()
    for i, group in ipairs(plain) do
      for k, entry in ipairs(group.state) do
        for key, v in pairs(entry) do
          if mt.is_tensor(v) then close(state[i].state[k][key], v) else eq(state[i].state[k][key], v) end
        end
      end
    end
    o2:load_state_dict(plain)
    rule(make()):load_state_dict(state)
    close(train(many, o2, 5, my_x, my_y), train(one, o1, 5, x, y))
  end
  -- a schedule changes the rate; a parameter without a gradient keeps its value although it decays
  local net = make()
  local opt = optim.Sharded(optim.AdamW(net:parameters(), {lr = 0.1, weight_decay = 0.5}))
  local schedule = optim.lr.StepLR(opt, {step_size = 1, gamma = 0.5})
  local before = net[3].bias:detach():clone()
  net[1](x):sum():backward()
  opt:step()
  schedule:step()
  eq({opt.param_groups[1].lr, net[3].bias:equal(before)}, {0.05, true})
  assert(tostring(opt):find '^Sharded%(AdamW%(4 tensors')
  -- gradient scaling: all processes leave out the step if one has an infinite gradient
  local scaler, steps = mt.GradScaler{init_scale = 4}, {}
  for i, factor in ipairs{1, rank == 0 and math.huge or 1} do
    opt:zero_grad()
    scaler:scale(loss_of(net, my_x, my_y) * factor):backward()
    scaler:step(opt)
    scaler:update()
    steps[i] = opt:state_dict()[1].state[1].step
  end
  eq({steps, scaler:get_scale()}, {{2, 2}, 2})
  raises(function() optim.Sharded(optim.LBFGS(net:parameters())) end, 'Sharded: an optimizer that changes each element')
  raises(function() optim.Sharded(net) end, 'Sharded: an optimizer')
  raises(function() opt:load_state_dict(make():state_dict()) end, 'load_state_dict')
end

--- Random functions of shared parameters: each process has its own; the averages are those of all functions in one.
local function check_random_averages()
  local n, hooked = 5, 0
  for seed = 1, 40 do
    local function parameters()
      mt.manual_seed(seed)
      local list = nn.ParameterList()
      for i = 1, n do list[i] = nn.Parameter(mt.randn(3, 3, f64)) end
      return list
    end
    --- A function of process r: the same parameter at several depths, through views, or not at all.
    local function loss_in(list, r)
      math.randomseed(seed * 100 + (seed % 3 == 0 and r or 0)) -- in a third of the cases the graphs differ
      local h = mt.ones(3, 3, f64) * (r + 1)
      for _ = 1, 8 do
        local p, how = list[math.random(n - 1)], math.random(5)
        if how == 1 then h = (h:mm(p)):tanh()
        elseif how == 2 then h = h + p[math.random(3)]
        elseif how == 3 then h = h * p:view(9):narrow(1, 4, 3)
        elseif how == 4 then h = h + p:reshape(9)[{{2, 4}}]:sin() * 0.5
        else h = mt.recompute(function(v) return v:sigmoid() end, h) + p:sum(1)
        end
      end
      return h:sum()
    end
    local list, alone = parameters(), parameters()
    local holder = nn.Module()
    holder.list = list
    local net = dist.parallel(holder, {bucket_mb = 1e-6 * 72 * (seed % 4 + 0.5)})
    local hook = list[2]:register_hook(function(g)
      hooked = hooked + 1
      return g * 2
    end)
    alone[2]:register_hook(function(g) return g * 2 end)
    local losses = {}
    for r = 0, size - 1 do losses[r + 1] = loss_in(alone, r) / size end
    local mine_loss = loss_in(list, rank)
    local again = seed % 5 == 0
    mine_loss:backward(nil, {retain_graph = again})
    if again then mine_loss:backward() end
    for _ = 1, again and 2 or 1 do
      for _, l in ipairs(losses) do l:backward(nil, {retain_graph = true}) end
    end
    hook:remove()
    for i = 1, n do
      eq(list[i].grad ~= nil, alone[i].grad ~= nil)
      if list[i].grad then
        close(list[i].grad, alone[i].grad)
        same_everywhere(list[i].grad)
      end
    end
    assert(net == holder)
  end
  assert(hooked > 0)
end

--- An error in the backward pass of one process is one in all; nothing is added, and the next pass is right.
local function check_failing_pass()
  local net = dist.parallel(make(), {bucket_mb = 1e-4})
  local fails = true
  net[1].bias:register_hook(function() if fails and rank == size - 1 then error('on purpose', 0) end end)
  for _ = 1, 2 do
    raises(function() loss_of(net, my_x, my_y):backward() end,
      rank == size - 1 and 'on purpose' or 'backward: it has failed in another process')
    for _, p in ipairs(net:parameters()) do eq(p.grad, nil) end
  end
  fails = false
  local whole = make()
  loss_of(whole, x, y):backward()
  loss_of(net, my_x, my_y):backward()
  for i, p in ipairs(net:parameters()) do close(p.grad, whole:parameters()[i].grad) end
end

--- Full buckets are sent while the pass goes on, unless functions of the user run or the processes differ.
local function check_overlap()
  local function sent(make_net, loss)
    local net = dist.parallel(make_net(), {bucket_mb = 1e-5})
    loss(net):backward()
    return require('mtorch.dist.parallel').sent_early(net)
  end
  eq(sent(make, function(net) return loss_of(net, my_x, my_y) end), 3)
  eq(sent(make, function(net)
    local y = net(my_x)
    y:register_hook(function() end)
    return y:sum()
  end), 0)
  local function pair() return nn.ModuleList{nn.Linear(5, 1):double(), nn.Linear(5, 1):double()} end
  eq(sent(pair, function(net) return (net[1](my_x) + net[2](my_x)):sum() end), 2)
  eq(sent(pair, function(net) return (net[1 + rank % 2](my_x) + net[2 - rank % 2](my_x)):sum() end), 0)
  eq(sent(pair, function(net) return (net[1](my_x) + (rank == 0 and net[2](my_x) or 0)):sum() end), 0)
end

--- Other calls of mt.dist within a backward pass, two nets in one pass in any order, and nets that are converted later.
local function check_mixtures()
  for _, fails in ipairs{false, true} do
    local net = dist.parallel(nn.Sequential(nn.Linear(5, 4), nn.SyncBatchNorm(4), nn.Linear(4, 1)):double(),
      {bucket_mb = 1e-5})
    local hidden = net[1](my_x)
    if fails and rank == 0 then hidden:register_hook(function() error('on purpose', 0) end) end
    local loss = net[3](net[2](hidden)):sum()
    if fails then
      raises(function() loss:backward() end, rank == 0 and 'on purpose' or 'backward: it has failed in another process')
    else
      loss:backward()
      same_everywhere(net[1].weight.grad)
    end
  end
  local function two(fails)
    local a, b = dist.parallel(nn.Linear(1, 1):double()), dist.parallel(nn.Linear(1, 1):double())
    local one, hundred = mt.ones(1, 1, f64), mt.full({1, 1}, 100, f64)
    local first, second = a, b
    if rank % 2 == 1 then first, second = b, a end
    local function value(net) return net(net == a and one or hundred) end
    local early, late = value(first), value(second)
    if fails and rank == 0 then early:register_hook(function() error('on purpose', 0) end) end
    local loss = (early + late):sum()
    if fails then raises(function() loss:backward() end, rank == 0 and 'on purpose' or 'failed in another process')
    else
      loss:backward()
      eq({a.weight.grad:item(), b.weight.grad:item()}, {1, 100})
    end
  end
  two(false)
  two(true)
  two(false)
  local net = dist.parallel(nn.Linear(5, 1))
  net:double()
  net(my_x):sum():backward()
  eq(net.weight.grad.dtype, 'float64')
  local copy = dist.parallel(nn.Sequential(nn.Linear(5, 2), nn.BatchNorm1d(2)):double()):clone()
  if rank == 0 then copy(my_x) end -- a copy belongs to its process
end

local function check_parallel_layers()
  local function pair(first, second, a, b)
    mt.manual_seed(3)
    return first(5, 12, a):to 'float64', second(12, 6, b):to 'float64'
  end
  local function run(first, second)
    local input = x:clone():requires_grad_()
    local out = second(first(input):tanh())
    out:pow(2):sum():backward()
    return out, input.grad
  end
  local a, b = pair(nn.Linear, nn.Linear)
  local out, gradient = run(a, b)
  local k = 12 / size
  for _, cut in ipairs{true, false} do
    local c, d = pair(nn.ColumnParallelLinear, nn.RowParallelLinear, {gather_output = not cut},
      {input_is_parallel = cut})
    local my_out, my_gradient = run(c, d)
    close(my_out, out)
    close(my_gradient, gradient)
    for _, key in ipairs{'weight', 'bias'} do
      close(c[key], a[key]:narrow(1, rank * k + 1, k))
      close(c[key].grad, a[key].grad:narrow(1, rank * k + 1, k))
    end
    close(d.weight.grad, b.weight.grad:narrow(2, rank * k + 1, k))
    close(d.bias.grad, b.bias.grad)
  end
  local none = nn.RowParallelLinear(12, 6, {bias = false}):to 'float64'
  eq(none.bias, nil)
  eq(none(mt.ones(2, 12, f64)).shape, mt.zeros(2, 6).shape)
  if size == 1 then return end
  raises(function() nn.ColumnParallelLinear(5, 3 * size + 1) end, 'ColumnParallelLinear: %d+ features, which %d')
end

local function check_averages()
  local whole = make()
  loss_of(whole, x, y):backward()
  for _, options in ipairs{{bucket_mb = 1e-4}, {static = true}, {wire = 'bfloat16', bucket_mb = 2e-4}} do
    local net, tolerance = dist.parallel(make(), options), options.wire and 0.02 or 1e-12
    for pass = 1, 2 do
      net:zero_grad()
      loss_of(net, my_x, my_y):backward()
      for i, p in ipairs(net:parameters()) do
        close(p.grad, whole:parameters()[i].grad, tolerance)
        if options.wire and size > 1 then assert(p.grad:to 'bfloat16':double():equal(p.grad), pass) end
        same_everywhere(p.grad)
      end
    end
  end
  -- two halves of each process's rows: the first without averages
  local net = dist.parallel(make())
  local half = my_x:size(1) / 2
  local function part(i) return loss_of(net, my_x:narrow(1, i, half), my_y:narrow(1, i, half)) / 2 end
  eq(dist.no_sync(net, function(n)
    part(1):backward()
    return n + 1
  end, 4), 5)
  if size > 1 then
    local first = dist.all_gather(net[1].weight.grad)
    assert(not first[1]:equal(first[2]))
  end
  part(half + 1):backward()
  for i, p in ipairs(net:parameters()) do
    close(p.grad, whole:parameters()[i].grad)
    same_everywhere(p.grad)
  end
  -- a parameter that only a pass without averages has used, in one process
  local two = dist.parallel(nn.ModuleList{nn.Linear(1, 1), nn.Linear(1, 1)})
  dist.no_sync(two, function()
    local out = two[1](mt.ones(1, 1)) + (rank == 0 and two[2](mt.ones(1, 1)) or 0)
    out:sum():backward()
  end)
  two[1](mt.ones(1, 1)):sum():backward()
  eq(two[1].weight.grad:item(), 2)
  t.near(two[2].weight.grad:item(), 1 / size)
  raises(function() dist.no_sync(two, error, 'on purpose') end, 'on purpose')
  raises(function() dist.no_sync(make(), print) end, 'dist.no_sync: a net of dist.parallel is needed, got Sequential')
  raises(function() dist.parallel(make(), {wire = 'int8'}) end, "wire.*'bfloat16'")
  if size == 1 then return end
  local fixed = dist.parallel(nn.ModuleList{nn.Linear(1, 1), nn.Linear(1, 1)}, {static = true})
  fixed[1](mt.ones(1, 1)):sum():backward()
  raises(function() fixed[rank == 0 and 2 or 1](mt.ones(1, 1)):sum():backward() end, 'call it differently')
  raises(function() fixed[2](mt.ones(1, 1)):sum():backward() end, 'this pass uses other parameters than the first')
  fixed[1](mt.ones(1, 1)):sum():backward()
end

--- Process r has r + 1 batches, of one row each.
local function check_join()
  local reference = make()
  local o = adam(reference)
  for step = 1, size do
    o:zero_grad()
    for r = step - 1, size - 1 do
      local row = x:narrow(1, (r * size + step - 1) % 12 + 1, 1);
      (loss_of(reference, row, y:narrow(1, step, 1)) / size):backward()
    end
    o:step()
  end
  local kinds = {
    parallel = function(net) return adam(dist.parallel(net)) end,
    sharded = function(net) return optim.Sharded(adam(net)) end,
    shard = function(net) return optim.Sharded(adam(dist.shard(net))) end,
  }
  for _, name in ipairs{'parallel', 'sharded', 'shard'} do
    local net = make()
    local opt, given, calls = kinds[name](net), 0, 0
    local function batches()
      given = given + 1
      if given > rank + 1 then return nil end
      return given, x:narrow(1, (rank * size + given - 1) % 12 + 1, 1)
    end
    local steps, own = dist.join(batches, function(i, row)
      calls = calls + 1
      eq(i, math.min(calls, rank + 1)) -- the last one is repeated
      opt:zero_grad()
      local target = y:narrow(1, i, 1)
      if name == 'parallel' then -- two halves, the first without averages
        dist.no_sync(net, function() (loss_of(net, row, target) / 2):backward() end);
        (loss_of(net, row, target) / 2):backward()
      else
        loss_of(net, row, target):backward()
      end
      opt:step()
    end)
    eq({steps, own, calls}, {size, rank + 1, size})
    close(flat(net), flat(reference))
    same_everywhere(flat(net))
  end
  local function counter(n)
    local i = 0
    return function()
      i = i + 1
      return i <= n and i or nil
    end
  end
  local w = mt.ones(1):requires_grad_()
  local function weigh() (2 * w):sum():backward() end
  dist.join(counter(rank + 1), weigh)
  eq(w.grad:item(), 2 * (rank + 1))
  local calls = 0
  if size > 1 then
    raises(function()
      dist.join(counter(rank + 1), function()
        calls = calls + 1
        if calls == 2 then error 'on purpose' end -- process 0 has ended
      end)
    end, 'on purpose')
    raises(function() dist.join(counter(rank), weigh) end,
      rank == 0 and 'this process has no batch' or 'another process has no batch')
  end
  weigh()
  eq(w.grad:item(), 2 * (rank + 2))
  eq({dist.join(counter(5), function(i) return rank > 0 or i < 3 end)}, {3, 3}) -- process 0 ends it
  eq({dist.join(counter(0), weigh)}, {0, 0})
  eq({dist.join(data.DataLoader(data.TensorDataset(x), {batch_size = 5}), function() end)}, {3, 3})
  eq({dist.join(mt.progress(4), function() end)}, {4, 4})
  raises(function() dist.join(4, print) end, 'dist.join: a loader, a list of batches or an iterator is needed, got 4')
end

-- ---- checkpoints: saved by some processes, resumed by others ---------------------------------------------

local function objects_of(kind)
  local net = make()
  if kind == 'shard' then net = dist.shard(net) end
  local opt = kind == 'parallel' and adam(net) or optim.Sharded(adam(net))
  return {model = kind == 'parallel' and dist.parallel(net) or net, optim = opt}
end
local kinds = {'parallel', 'sharded', 'shard'}
local function save_checkpoints(folder)
  for _, kind in ipairs(kinds) do
    local o = objects_of(kind)
    for step = 1, 2 do
      train(o.model, o.optim, 5, my_x, my_y)
      o.step = step * 5
      dist.checkpoint.save(folder .. '/' .. kind, o)
    end
  end
  local layer = nn.ColumnParallelLinear(5, 12)
  dist.checkpoint.save(folder .. '/layer', {layer = layer, list = {mt.full({3}, 7)}})
  local weight = layer.weight:detach():clone()
  mt.no_grad(function() layer.weight:zero_() end)
  eq(dist.checkpoint.resume(folder .. '/layer', {layer = layer}).list[1]:tolist(), {7, 7, 7})
  assert(layer.weight:equal(weight))
end
local function resume_checkpoints(folder)
  local whole = make()
  local expected = train(whole, adam(whole), 20, x, y)
  for _, kind in ipairs(kinds) do
    local o = objects_of(kind)
    local values = dist.checkpoint.resume(folder .. '/' .. kind, o)
    eq(values, {step = 10})
    local got = train(o.model, o.optim, 10, my_x, my_y)
    close(got, expected, 1e-9)
    same_everywhere(got)
  end
  eq(dist.checkpoint.resume(folder .. '/none', {}), nil)
  raises(function() dist.checkpoint.resume(folder .. '/layer', {layer = nn.ColumnParallelLinear(5, 12)}) end,
    'the 3 processes had different tensors.*not ' .. size)
  raises(function() mt.checkpoint.resume(folder .. '/parallel', {}) end, 'dist.checkpoint.resume reads it')
  raises(function() dist.checkpoint.resume(folder .. '/parallel', {model = nn.Linear(1, 1)}) end,
    "nothing is changed, 'model' does not fit")
end

if arg[1] == '--process' then
  local folder = arg[3]
  if arg[2] == 'averages' then
    ffi.C.setenv('MTORCH_DIST_THREAD', arg[4], 1)
    check_averages()
    check_random_averages()
    check_failing_pass()
    check_join()
    check_overlap()
    check_mixtures()
  elseif arg[2] == 'save' then
    check_sharded_optimizer()
    check_parallel_layers()
    save_checkpoints(folder)
    if rank == 1 then -- one process cannot write its part: all say so, and the old checkpoint stays
      raises(function() dist.checkpoint.save(folder .. '/none/a', {}) end, 'dist.checkpoint.save')
    else
      raises(function() dist.checkpoint.save(rank == 2 and folder .. '/a' or folder .. '/none/a', {}) end, 'checkpoint')
    end
    dist.barrier()
  else
    resume_checkpoints(folder)
  end
  io.write(('process %d of %d is done\n'):format(rank, size))
  os.exit(0)
end

test('averaged gradients of one process', check_averages)
test('a sharded optimizer of one process', check_sharded_optimizer)
test('parallel linear layers of one process', check_parallel_layers)
local folder = os.tmpname()
os.remove(folder)
os.execute(("mkdir '%s'"):format(folder))
local function run(n, mode, thread)
  local text = t.processes(n, '', mode, folder, thread)
  for r = 0, n - 1 do assert(text:find(('process %d of %d is done'):format(r, n), 1, true), text) end
  assert(text:find 'status 0', text)
end
if os.execute 'command -v mpirun >/dev/null' ~= 0 then
  print 'the rest is skipped: there is no mpirun'
else
  for thread = 0, 1 do
    test('averages of three processes' .. (thread == 1 and ', by a thread' or ''), function()
      run(3, 'averages', thread)
    end)
  end
  test('three processes equal one', function() run(3, 'save') end)
  test('a checkpoint of three processes is resumed by two and by one', function()
    local files = io.popen(("cd '%s' && echo *"):format(folder)):read '*a'
    eq(files:gsub('%s+$', ''), 'layer layer.1.0 layer.1.1 layer.1.2 parallel parallel.2.0 parallel.2.1 parallel.2.2 ' ..
      'shard shard.2.0 shard.2.1 shard.2.2 sharded sharded.2.0 sharded.2.1 sharded.2.2')
    run(2, 'resume')
    resume_checkpoints(folder)
  end)
end
os.execute(("rm -r '%s'"):format(folder))
t.finish()
