-- test_schedulers.lua -- optim.lr, optim.swa, EarlyStopping, LBFGS: options, errors, states
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local nn, optim = mt.nn, mt.optim
local lr = optim.lr

local function optimizer(rate, options)
  options = options or {}
  options.lr = rate or 0.1
  return optim.SGD({nn.Parameter(mt.zeros(1))}, options)
end

-- Schedulers --------------------------------------------------------------------------------------

test('options by position, by name, and their ranges', function()
  local opt = optimizer(1)
  for _, sched in ipairs{lr.StepLR(opt, 4, 0.5), lr.StepLR(opt, {step_size = 4, gamma = 0.5})} do
    eq({sched.step_size, sched.gamma, sched.last_epoch, sched:get_last_lr()}, {4, 0.5, 0, {1}})
  end
  raises(function() lr.StepLR(opt) end, 'StepLR: .*step_size')
  raises(function() lr.StepLR(opt, 0) end, 'step_size must be a whole number from 1, got 0')
  raises(function() lr.StepLR(opt, {size = 3}) end, "StepLR: unknown option 'size'")
  raises(function() lr.StepLR(nn.Linear(1, 1), 3) end, 'StepLR: an optimizer is needed, got')
  raises(function() lr.LinearLR(opt, {start_factor = 0}) end, 'start_factor must be')
  raises(function() lr.OneCycleLR(opt, 0.1) end, 'OneCycleLR: total_steps, or epochs and steps_per_epoch, are needed')
  raises(function() lr.OneCycleLR(optim.Adagrad{mt.ones(1)}, 0.1, 10) end, 'Adagrad has neither momentum nor betas')
  raises(function() lr.CyclicLR(opt, {0.1, 0.2}, 1) end, 'base_lr has 2 numbers, the optimizer 1 groups')
  raises(function() lr.CyclicLR(opt, 0.1, 1, {mode = 'square'}) end, "mode is 'square'; use")
  raises(function() lr.ReduceLROnPlateau(opt, {factor = 1}) end, 'factor must be a number from 0 and below 1, got 1')
  raises(function() lr.LambdaLR(opt, {math.sin, math.cos}) end, 'lr_lambda has 2 functions, the optimizer 1 groups')
  raises(function() lr.LambdaLR(opt, {3}) end, 'lr_lambda%[1%] is 3, not a function')
  raises(function() lr.LambdaLR(opt, function() end) end, 'must return a number, for step 0 it returned nil')
end)

test('unknown names of a scheduler are errors', function()
  local sched = lr.ExponentialLR(optimizer(), 0.9)
  raises(function() sched:setp() end, "ExponentialLR has no 'setp' %(did you mean 'step'%?%)")
  raises(function() sched.step() end, 'called with a colon, sched:step')
  raises(function() sched:step(mt.ones(1)) end, 'step takes no argument.*ReduceLROnPlateau takes a metric')
  raises(function() sched:step(2.5) end, 'got 2.5')
  raises(function() lr.ReduceLROnPlateau(optimizer()):step() end, 'needs the metric')
  raises(function() lr.StepLR(optimizer(), 3, {last_epoch = 5}) end, 'param_groups%[1%] has no initial_lr')
  local once = lr.OneCycleLR(optimizer(), 1, 3, {cycle_momentum = false})
  for _ = 1, 3 do once:step() end
  raises(function() once:step() end, 'OneCycleLR: step 4, but total_steps is 3')
end)

test('a rate that is not a number, and a step of a combination with an argument, are errors', function()
  for _, key in ipairs{'lr', 'initial_lr'} do
    local opt = optimizer()
    opt.param_groups[1][key] = 'x'
    raises(function() lr.StepLR(opt, 3) end, ("StepLR: param_groups%%[1%%].%s must be a number, got the string 'x'")
      :format(key))
  end
  local opt = optimizer()
  local step, plateau = lr.StepLR(opt, 3), lr.ReduceLROnPlateau(opt)
  local sequential, chained = lr.SequentialLR(opt, {step, lr.ConstantLR(opt)}, {3}), lr.ChainedScheduler{step}
  raises(function() sequential:step(5) end, 'SequentialLR: step takes no argument, got 5')
  raises(function() chained:step(5) end, 'ChainedScheduler: step takes no argument, got 5')
  opt.param_groups[1].lr = nil
  eq(opt.param_groups[1].lr, nil)
  for _, use in ipairs{function() step:step() end, function() plateau:step(1) end, function() tostring(step) end} do
    raises(use, 'param_groups%[1%].lr must be a number, got nil')
  end
end)

test('the number of a step: closed forms, and fractions for warm restarts', function()
  local opt = optimizer(1)
  local sched = lr.CosineAnnealingLR(opt, 10)
  sched:step(5)
  near(opt.param_groups[1].lr, 0.5, 1e-15)
  for k = 1, 3 do -- PyTorch 2.15: T_0 = 4, T_mult = 2, at 3.5, 9.25, 30
    local warm = lr.CosineAnnealingWarmRestarts(optimizer(1), 4, 2)
    warm:step(({3.5, 9.25, 30})[k])
    near(warm:get_last_lr()[1], ({0.03806023374435663, 0.26430163158700115, 0.9903926402016152})[k], 1e-12)
    eq(warm.last_epoch, ({3, 9, 30})[k])
  end
end)

test('a linear decay to 0 does not end below it by rounding, which an optimizer refuses', function()
  for _, start in ipairs{0.1, 0.3, 1 / 3, 1} do
    for n = 1, 20 do
      local opt = optimizer()
      local sched = lr.LinearLR(opt, start, 0, n)
      for _ = 1, n + 2 do
        opt:step()
        sched:step()
      end
      near(opt.param_groups[1].lr, 0, 1e-15)
    end
  end
end)

test('combinations take schedulers of their optimizer, and no plateau', function()
  local opt = optimizer()
  local a, b = lr.ExponentialLR(opt, 0.9), lr.ConstantLR(opt)
  raises(function() lr.SequentialLR(opt, {a, b}, {3, 5}) end, '2 schedulers need 1 milestones, got 2')
  raises(function() lr.SequentialLR(opt, {a, b, a}, {5, 3}) end, 'milestones must grow')
  raises(function() lr.SequentialLR(opt, {a, lr.ConstantLR(optimizer())}, {3}) end, 'entry 2 is of another optimizer')
  raises(function() lr.ChainedScheduler{a, lr.ReduceLROnPlateau(opt)} end, 'entry 2 is a ReduceLROnPlateau')
  raises(function() lr.ChainedScheduler{a, opt} end, 'entry 2 is .*not a scheduler')
  raises(function() lr.ChainedScheduler{} end, 'ChainedScheduler')
  local chained = lr.ChainedScheduler{a, b}
  chained:step()
  eq(chained:get_last_lr(), {opt.param_groups[1].lr})
end)

test('a group that is added later', function()
  local opt = optimizer(1)
  local step = lr.ExponentialLR(opt, 0.5)
  opt:add_param_group{params = {mt.ones(1):requires_grad_()}, lr = 8}
  step:step()
  eq(step:get_last_lr(), {0.5, 4})
  local lambda = lr.LambdaLR(optimizer(1), math.cos)
  lambda.optimizer:add_param_group{params = {mt.ones(1):requires_grad_()}}
  raises(function() lambda:step() end, 'group 2 of the optimizer was added later')
end)

test('state that does not fit changes nothing', function()
  local step, cosine = lr.StepLR(optimizer(), 3), lr.CosineAnnealingLR(optimizer(), 3)
  step:step()
  raises(function() cosine:load_state_dict(step:state_dict()) end,
    "the state's .* is nil; is it of a CosineAnnealingLR%?")
  raises(function() cosine:load_state_dict(5) end, 'a table is needed, got 5')
  local state = step:state_dict()
  state.last_epoch = 'two'
  raises(function() step:load_state_dict(state) end, "last_epoch is the string 'two'")
  state.last_epoch, state.base_lrs = 2, {'x'}
  raises(function() step:load_state_dict(state) end, "the state's base_lrs is a table")
  local opt = optimizer()
  local two = lr.SequentialLR(opt, {lr.ConstantLR(opt), lr.ExponentialLR(opt, 0.9)}, {4})
  state = two:state_dict()
  table.remove(state._schedulers)
  raises(function() two:load_state_dict(state) end, 'the state is of 1 schedulers, SequentialLR has 2')
  state._schedulers = {3, 4}
  raises(function() two:load_state_dict(state) end, 'a table is needed, got 3')
  eq(step.last_epoch, 1)
  eq(step:state_dict().optimizer, nil)
  local cyclic = lr.CyclicLR(optimizer(0.1, {momentum = 0.5}), 0.1, 1, {scale_fn = math.cos})
  eq({cyclic:state_dict().scale_fn, lr.LambdaLR(optimizer(), math.cos):state_dict().lr_lambda}, {})
end)

test('states go through a file', function()
  local path = os.tmpname()
  local opt = optimizer(0.3)
  local function make(of)
    return lr.SequentialLR(of, {lr.LinearLR(of), lr.ReduceLROnPlateau and lr.CosineAnnealingWarmRestarts(of, 3)}, {4})
  end
  local sched, plateau = make(opt), lr.ReduceLROnPlateau(opt, {patience = 1})
  for _ = 1, 6 do sched:step() end
  mt.save(path, {opt = opt:state_dict(), sched = sched:state_dict(), plateau = plateau:state_dict()})
  local saved = mt.load(path)
  os.remove(path)
  local other = optimizer(7)
  local again, same = make(other), lr.ReduceLROnPlateau(other)
  other:load_state_dict(saved.opt)
  again:load_state_dict(saved.sched)
  same:load_state_dict(saved.plateau)
  eq({same.patience, same.best}, {1, math.huge})
  for _ = 1, 6 do
    sched:step()
    again:step()
    eq(t.bits(other.param_groups[1].lr), t.bits(opt.param_groups[1].lr))
  end
end)

test('a checkpoint has all schedulers, and the run resumes bit for bit', function()
  local x, y, path = mt.randn(32, 4), mt.randint(1, 3, {32}), os.tmpname()
  local function make()
    local run = {model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))}
    run.optim = optim.SGD(run.model:parameters(), {lr = 0.1, momentum = 0.9})
    run.sched = lr.SequentialLR(run.optim, {lr.LinearLR(run.optim), lr.OneCycleLR(run.optim, 0.5, 20)}, {5})
    run.average, run.stop = optim.swa.AveragedModel(run.model, {ema = 0.9}), optim.EarlyStopping{patience = 9}
    run.accuracy = mt.metrics.Accuracy()
    return run
  end
  local function steps(run, n)
    for _ = 1, n do
      run.optim:zero_grad()
      local scores = run.model(x)
      local loss = mt.cross_entropy(scores, y)
      loss:backward()
      run.optim:step()
      run.sched:step()
      run.average:update_parameters(run.model)
      run.stop:step(loss)
      run.accuracy:update(scores, y)
    end
    local bits = {t.bits(run.sched:get_last_lr()), t.bits(run.stop.best), t.bits(run.accuracy:compute())}
    for _, p in ipairs(run.average:parameters()) do bits[#bits + 1] = t.bits(p:tolist()) end
    for _, p in ipairs(run.model:buffers()) do bits[#bits + 1] = t.bits(p:tolist()) end
    return table.concat(bits, ' ')
  end
  local first, second = make(), make()
  steps(first, 7)
  mt.checkpoint.save(path, first)
  steps(second, 2)
  mt.checkpoint.resume(path, second)
  os.remove(path)
  eq(steps(second, 6), steps(first, 6))
end)

test('a step costs microseconds', function()
  local sched = lr.CosineAnnealingLR(optimizer(), 1000)
  local best = math.huge
  for _ = 1, 5 do
    local began = os.clock()
    for _ = 1, 1000 do sched:step() end
    best = math.min(best, (os.clock() - began) / 1000)
  end
  assert(best < 5e-5, best)
end)

-- The rate finder ---------------------------------------------------------------------------------

test('find suggests a useful rate, and restores everything', function()
  mt.manual_seed(1)
  local net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
  local x = mt.randn(64, 4)
  local y = (x:sum(2, true)):sin()
  local opt = optim.Adam(net:parameters(), {lr = 0.003})
  local function step()
    opt:zero_grad()
    local loss = mt.mse_loss(net(x), y)
    loss:backward()
    opt:step()
    return loss
  end
  step()
  local before, state = t.bits(net[1].weight:tolist()), t.bits(opt.param_groups[1].state[1].exp_avg:tolist())
  local rates, losses, best = lr.find(step, opt, {from = 1e-5, to = 10, n = 60})
  assert(#rates == #losses and #rates >= 20 and #rates <= 60, #rates)
  near(rates[1], 1e-5, 1e-12)
  near(rates[2] / rates[1], (10 / 1e-5) ^ (1 / 59), 1e-9)
  assert(best > 1e-4 and best < 1, best)
  eq(t.bits(net[1].weight:tolist()), before)
  eq({opt.param_groups[1].lr, opt.param_groups[1].state[1].step}, {0.003, 1})
  eq(t.bits(opt.param_groups[1].state[1].exp_avg:tolist()), state)
  raises(function() lr.find(function() end, opt) end, 'step must return its loss, it returned nil')
  raises(function() lr.find(function() error('mine', 0) end, opt) end, '^mine$')
  raises(function() lr.find(step, net) end, 'an optimizer is needed')
  eq(opt.param_groups[1].lr, 0.003)
end)

test('find ends where the loss is not finite', function()
  local opt, n = optimizer(), 0
  local rates, losses = lr.find(function()
    n = n + 1
    return n < 5 and 1 or 0 / 0
  end, opt, {n = 20})
  eq({n, #rates, #losses, losses[1]}, {5, 5, 5, 1})
end)

-- Early stopping ----------------------------------------------------------------------------------

test('EarlyStopping counts values that are not better', function()
  local stop = optim.EarlyStopping{patience = 2, min_delta = 0.1}
  local said = {}
  for i, value in ipairs{1, 0.95, 0.8, mt.tensor(0.75), 0 / 0, 0.1} do said[i] = stop:step(value) end
  eq(said, {false, false, false, false, true, false})
  eq({stop.best, stop.best_step, stop.stopped, stop:step(1), stop:step(1)}, {0.1, 6, false, false, true})
  local rising = optim.EarlyStopping{patience = 1, mode = 'max'}
  eq({rising:step(1), rising:step(2), rising.improved, rising:step(2)}, {false, false, true, true})
  local again = optim.EarlyStopping{patience = 2, min_delta = 0.1}
  local first = optim.EarlyStopping{patience = 2, min_delta = 0.1}
  first:step(1)
  first:step(2)
  again:load_state_dict(first:state_dict())
  eq({again:step(3), first:step(3), again.best}, {true, true, 1})
  raises(function() stop:step('low') end, "needs a number .* got the string 'low'")
  raises(function() stop.step(1) end, 'with a colon')
  raises(function() optim.EarlyStopping{patience = 0} end, 'patience must be')
  raises(function() again:load_state_dict{} end, 'is not what state_dict')
end)

-- Averaged models ---------------------------------------------------------------------------------

test('AveragedModel is the mean of what it was given', function()
  local net = nn.Linear(2, 1):double()
  local plain, running = optim.swa.AveragedModel(net), optim.swa.AveragedModel(net, {ema = 0.9})
  local own = optim.swa.AveragedModel(net, {avg_fn = function(avg, now, n) return ((avg * n + now) / (n + 1)) end})
  local sum, ema
  for k = 1, 4 do
    mt.no_grad(function() net.weight:copy_(mt.tensor({{k * k, -k}}, 'float64')) end)
    for _, avg in ipairs{plain, running, own} do avg:update_parameters(net) end
    sum = sum and sum + net.weight:detach() or net.weight:detach():clone()
    ema = ema and ema * 0.9 + net.weight:detach() * 0.1 or net.weight:detach():clone()
  end
  near(plain.module.weight:reshape(-1):tolist(), (sum / 4):reshape(-1):tolist(), 1e-14)
  near(own.module.weight:reshape(-1):tolist(), (sum / 4):reshape(-1):tolist(), 1e-14)
  near(running.module.weight:reshape(-1):tolist(), ema:reshape(-1):tolist(), 1e-14)
  local names = {}
  for name in pairs(plain:state_dict()) do names[#names + 1] = name end
  table.sort(names)
  eq(names, {'module.bias', 'module.weight', 'n_averaged'})
  eq(plain.n_averaged:item(), 4)
  local x = mt.ones({3, 2}, 'float64')
  eq(plain(x):tolist(), plain.module(x):tolist())
  assert(plain.module.weight.is_leaf and plain.module.weight.requires_grad)
  raises(function() plain:update_parameters(nn.Linear(3, 1):double()) end, 'parameter 1 is %(1, 3%), .* %(1, 2%)')
  raises(function() plain:update_parameters(nn.Linear(2, 1, false)) end, 'has 1 parameters, the averaged one 2')
  raises(function() optim.swa.AveragedModel(net, {ema = 0.9, avg_fn = math.max}) end, 'avg_fn or ema, not both')
  raises(function() optim.swa.AveragedModel(5) end, 'AveragedModel: a module is needed, got 5')
end)

--- A normalisation with running statistics, as nn.BatchNorm1d.
local Norm = nn.class 'Norm'
function Norm.__init(self)
  self.running_mean, self.running_var = nn.Buffer(mt.ones(3)), nn.Buffer(mt.ones(3) * 5)
  self.num_batches_tracked = nn.Buffer(mt.tensor(7, 'int64'))
  self.momentum = 0.1
end
function Norm.forward(self, x)
  local share = self.momentum
  if self.training then
    self.num_batches_tracked:add_(1)
    share = share or 1 / self.num_batches_tracked:item()
  end
  return mt.batch_norm(x, self.running_mean, self.running_var, nil, nil, self.training, share or 0)
end

test('update_bn makes running statistics again', function()
  mt.manual_seed(2)
  local net, batches = nn.Sequential(nn.Linear(2, 3), Norm()), {}
  for i = 1, 3 do batches[i] = {mt.randn(8, 2), mt.ones(8)} end
  net:eval()
  local mean = mt.zeros(3)
  for _, b in ipairs(batches) do mean = mean + net[1](b[1]):mean(1) / 3 end
  optim.swa.update_bn(batches, net)
  near(net[2].running_mean:tolist(), mean:tolist(), 1e-6)
  eq({net[2].num_batches_tracked:item(), net[2].momentum, net.training, net[2].training}, {3, 0.1, false, false})
  local k = 0
  optim.swa.update_bn(function() -- an iterator
    k = k + 1
    return batches[k] and batches[k][1]
  end, net)
  near(net[2].running_mean:tolist(), mean:tolist(), 1e-6)
  raises(function() optim.swa.update_bn({mt.ones(1, 5)}, net) end, 'last size must be')
  eq({net[2].momentum, net.training}, {0.1, false})
  local real = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
  local rows = mt.randn(40, 2)
  for _ = 1, 3 do real(rows * 5) end
  optim.swa.update_bn(mt.data.DataLoader(mt.data.TensorDataset(rows, rows), {batch_size = 8}), real)
  near(real[2].running_mean:tolist(), real[1](rows):mean(1):tolist(), 1e-6)
  eq({real[2].num_batches_tracked:item(), real[2].momentum, real.training}, {5, 0.1, true})
  raises(function() optim.swa.update_bn(5, real) end, 'a loader, a list of batches or an iterator is needed, got 5')
  eq(real[2].num_batches_tracked:item(), 5)
end)

test('update_bn leaves statistics alone that are not means over batches', function()
  local norm, x = nn.InstanceNorm1d(2, {track_running_stats = true}), mt.randn(3, 2, 4)
  local trained = norm:clone()
  optim.swa.update_bn({{x}}, nn.Sequential(norm, nn.BatchNorm1d(2)))
  trained(x)
  eq(norm.running_mean:tolist(), trained.running_mean:tolist())
end)

-- LBFGS -------------------------------------------------------------------------------------------

test('LBFGS finds the minimum of a quadratic form, and counts', function()
  local p = nn.Parameter(mt.tensor({3, -4, 1}, 'float64'))
  local opt = optim.LBFGS({p}, {line_search_fn = 'strong_wolfe'})
  local function closure()
    opt:zero_grad()
    local loss = (p:square() * mt.tensor({1, 10, 100}, 'float64')):sum()
    loss:backward()
    return loss
  end
  eq(opt:step(closure):item(), 9 + 160 + 100)
  near(p:tolist(), {0, 0, 0}, 1e-5)
  local state = opt.param_groups[1].state[1]
  assert(state.n_iter > 2 and state.func_evals >= state.n_iter, 'counts')
  assert(p.is_leaf and p.requires_grad)
  mt.no_grad(function() opt:step(closure) end) -- the closure is recorded nevertheless
  local same = optim.LBFGS({{params = {p}, lr = 0.5, max_iter = 8}})
  eq({same.param_groups[1].lr, same.param_groups[1].max_eval, same.param_groups[1].line_search_fn}, {0.5, 10})
end)

test('LBFGS: parameters without gradient are unchanged, and the state is saved and loaded', function()
  local p, still = nn.Parameter(mt.tensor({3, -4}, 'float64')), nn.Parameter(mt.ones({2}, 'float64'))
  local function trained(opt, q)
    return opt:step(function()
      opt:zero_grad()
      local loss = (q ^ 4):sum() + q[1] * q[2]
      loss:backward()
      return loss
    end)
  end
  local opt = optim.LBFGS({p, still}, {max_iter = 3, lr = 0.01})
  trained(opt, p)
  trained(opt, p)
  eq(still:tolist(), {1, 1})
  local path = os.tmpname()
  mt.save(path, opt:state_dict())
  local q = nn.Parameter(p:detach():clone())
  local other = optim.LBFGS({q, nn.Parameter(mt.ones({2}, 'float64'))})
  other:load_state_dict(mt.load(path))
  os.remove(path)
  trained(opt, p)
  trained(other, q)
  eq(t.bits(q:tolist()), t.bits(p:tolist()))
  eq(other.param_groups[1].max_iter, 3)
end)

test('errors of LBFGS', function()
  local p = nn.Parameter(mt.ones(2))
  local opt = optim.LBFGS{p}
  raises(function() opt:step() end, 'LBFGS: step needs a function .* got nil')
  raises(function() opt:step(function() end) end, 'the function must return the loss, it returned nil')
  raises(function() opt.step(print) end, 'with a colon')
  raises(function() opt:add_param_group{params = {p}} end, 'one group')
  raises(function() optim.LBFGS({{params = {p}}, {params = {mt.ones(1)}}}) end, 'one group, this is a second')
  raises(function() optim.LBFGS({p}, {max_iter = 0}) end, 'max_iter must be a whole number from 1')
  raises(function() optim.LBFGS({p}, {line_search_fn = 'armijo'}) end, "line_search_fn .*'strong_wolfe'")
  raises(function() opt.param_groups[1].momentum = 1 end, "a group has no option 'momentum'")
  raises(function() return opt.lr end, 'opt.param_groups%[i%].lr')
  raises(function() opt:stp() end, "no 'stp'.*step")
  opt.param_groups[1].max_eval = -3
  raises(function() opt:step(print) end, 'LBFGS: max_eval must be a whole number from 1, got %-3')
  opt.param_groups[1].max_eval = 25
  raises(function() opt:load_state_dict(optim.SGD{p}:state_dict()) end, 'the state is of SGD, this is LBFGS')
  local state = opt:state_dict()
  state[1].state = {{d = mt.ones(3)}}
  raises(function() opt:load_state_dict(state) end, 'd is a tensor %(3%).*does not fit')
end)

t.finish()
