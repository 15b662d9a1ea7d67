-- test_optim_values.lua -- optimizers and schedulers: PyTorch's numbers, states that resume bit for bit
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, test = t.eq, t.near, t.test
local optim = mt.optim
local here = debug.getinfo(1, 'S').source:match('^@(.*)/lua/[^/]*$')
local values = dofile(here .. '/data/optim_cases.lua') -- described in optim_values.py
local numbers = require('torch_values').load 'optim_values'

-- Optimizers --------------------------------------------------------------------------------------

--- Returns the optimizer of a case, its parameters, and a function that makes a step.
local function trainer(name, options, second, waves, from)
  local p = mt.tensor(from and from[1] or {-1.2, 1, 0.5}, 'float64'):requires_grad_()
  local q = mt.tensor(from and from[2] or {{0.3, -0.7}, {1.1, 0.4}}, 'float64'):requires_grad_()
  local group = {params = {q}}
  for key, value in pairs(second) do group[key] = value end
  local opt = optim[name](next(second) and {{params = {p}}, group} or {p, q}, next(options) and options or nil)
  local function closure()
    opt:zero_grad()
    local loss = (1 - p[1]) ^ 2 + 5 * (p[2] - p[1] ^ 2) ^ 2 + p[3] ^ 4 + (q - p[3]):square():sum() +
      0.3 * q:exp():sum() + p[1] * q[{1, 1}]
    loss = loss + waves * ((4 * p):sin():sum() + (7 * q):cos():sum())
    if options.maximize then loss = -loss end
    loss:backward()
    return loss
  end
  local function step()
    if name == 'LBFGS' then return opt:step(closure) end
    closure()
    opt:step()
  end
  local function found() return mt.cat({p:detach(), q:detach():reshape(-1)}, 1):tolist() end
  return step, found, opt, {p, q}
end

for k, case in ipairs(values.optimizers) do
  local name, options, second, waves = unpack(case)
  test(('%s, case %d'):format(name, k), function()
    local step, found, opt, parameters = trainer(name, options, second, waves)
    for i = 1, 10 do
      if i == 7 then -- saved, and loaded by another optimizer
        local state = opt:state_dict()
        local other_step, other_found, other = trainer(name, {maximize = options.maximize}, second, waves,
          {parameters[1]:tolist(), parameters[2]:tolist()})
        other:load_state_dict(state)
        for _ = i, 10 do other_step() end
        for _ = i, 10 do step() end
        eq(t.bits(other_found()), t.bits(found()))
        break
      end
      step()
    end
    near(found(), numbers['optimizer ' .. k]:tolist(), 1e-9)
  end)
end

test('there are cases of every optimizer', function()
  local seen = {}
  for _, case in ipairs(values.optimizers) do seen[case[1]] = true end
  for name in ('SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam LBFGS'):gmatch('%S+') do
    eq({name, seen[name]}, {name, true})
  end
  assert(#values.optimizers >= 30)
end)

-- Schedulers --------------------------------------------------------------------------------------

local functions = {
  decay = function(n) return 0.95 ^ n end,
  sawtooth = function(n) return 1 - (n % 7) / 10 end,
  slow = function(n) return 1 - 0.01 * (n % 3) end,
  shrink = function(x) return 0.8 ^ (x - 1) end,
  inverse = function(x) return 5 / (5 + x) end,
}

local function built(spec, opt)
  local name, options = spec[1], {}
  for key, value in pairs(spec[2]) do
    if key == 'lr_lambda' or key == 'scale_fn' then
      local list = {}
      for i, word in ipairs(type(value) == 'table' and value or {}) do list[i] = functions[word] end
      value = functions[value] or list
    end
    options[key] = value
  end
  if spec.specs then
    local inner = {}
    for i, one in ipairs(spec.specs) do inner[i] = built(one, opt) end
    if name == 'ChainedScheduler' then return optim.lr.ChainedScheduler(inner) end
    return optim.lr.SequentialLR(opt, inner, options.milestones)
  end
  return optim.lr[name](opt, next(options) and options or nil)
end

local function metric(k) return k < 40 and math.exp(-k / 15) + 0.2 * math.sin(k / 3) or 0.5 end

local function optimizer(name, initial)
  local p, q = mt.zeros(2):requires_grad_(), mt.zeros(1):requires_grad_()
  local groups = {{params = {p}, lr = 0.5}, {params = {q}, lr = 0.03}}
  local opt = optim[name](groups, name == 'SGD' and {momentum = 0.9} or nil)
  for _, group in ipairs(opt.param_groups) do group.initial_lr = initial and group.lr * initial or nil end
  return opt
end

local function step(sched, k)
  if sched.name == 'ReduceLROnPlateau' then sched:step(metric(k)) else sched:step() end
end

for n, case in ipairs(values.schedulers) do
  local spec, kind, initial = unpack(case)
  test(('%s, case %d'):format(spec[1], n), function()
    local opt = optimizer(kind, initial)
    local sched, lists = built(spec, opt), {{}, {}, {}, {}}
    local other, other_opt
    for k = 0, 59 do
      for i, group in ipairs(opt.param_groups) do
        if i == 1 or k % 7 == 0 then
          local rate, momentum = group.lr, kind == 'SGD' and group.momentum or group.betas[1]
          table.insert(lists[i], rate)
          table.insert(lists[i + 2], momentum)
        end
        eq(sched:get_last_lr()[i], group.lr)
        if other then eq(t.bits(other_opt.param_groups[i].lr), t.bits(group.lr)) end
      end
      if k == 23 then -- saved, and loaded by other schedulers
        other_opt = optimizer(kind, initial)
        other = built(spec, other_opt)
        other:load_state_dict(sched:state_dict())
        other_opt:load_state_dict(opt:state_dict())
      end
      opt:step()
      step(sched, k)
      if other then step(other, k) end
    end
    for i, list in ipairs(lists) do
      local wanted = numbers[('scheduler %d, %d'):format(n, i)]
      assert(wanted or i > 2)
      if wanted then near(list, wanted:tolist(), 1e-12) end
    end
    eq(t.bits(other:get_last_lr()), t.bits(sched:get_last_lr()))
  end)
end

test('there are cases of every scheduler', function()
  local seen = {}
  for _, case in ipairs(values.schedulers) do seen[case[1][1]] = true end
  for _, name in ipairs(values.names) do eq({name, seen[name], type(optim.lr[name])}, {name, true, 'function'}) end
  assert(#values.names >= 15)
end)

t.finish()
