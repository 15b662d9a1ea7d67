-- test_optim.lua -- optimizers compared with PyTorch's formulas in plain Lua; groups, closures, errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises
local core = require 'mtorch.core'
local nn, optim = mt.nn, mt.optim

local start = {1, -2, 0.5}

--- Returns the gradient of 0.5 * (x - i)^2 + x at element i, the loss of the tests below.
local function gradient(x, i) return x - i + 1 end

--- Compares five steps of the optimizer with `update(x, g, state, step)` on Lua numbers.
local function compare(make, update, dtype)
  local p = mt.tensor(start, dtype or 'float64'):requires_grad_()
  local opt = make({p})
  local target = mt.tensor({1, 2, 3}, p.dtype)
  local x, state = {unpack(start)}, {{}, {}, {}}
  for step = 1, 5 do
    opt:zero_grad()
    local loss = (p - target):square() * 0.5 + p
    loss:sum():backward()
    opt:step()
    for i = 1, 3 do x[i] = update(x[i], gradient(x[i], i), state[i], step) end
    near(p:tolist(), x, dtype == 'float32' and 1e-5 or 1e-12)
  end
  assert(p.is_leaf and p.requires_grad)
end

--- torch.optim.SGD.
local function sgd(o)
  return function(x, g, state)
    g = g + (o.weight_decay or 0) * x
    if (o.momentum or 0) ~= 0 then
      state.v = state.v and o.momentum * state.v + (1 - (o.dampening or 0)) * g or g
      g = o.nesterov and g + o.momentum * state.v or state.v
    end
    return x - o.lr * g
  end
end
for name, o in pairs{plain = {lr = 0.1}, momentum = {lr = 0.1, momentum = 0.9}, decay = {lr = 0.1,
  weight_decay = 0.05},
                     nesterov = {lr = 0.05, momentum = 0.9, nesterov = true},
                     all = {lr = 0.05, momentum = 0.8, dampening = 0.3, weight_decay = 0.01}} do
  test('SGD ' .. name, function()
    compare(function(p) return optim.SGD(p, o) end, sgd(o))
    compare(function(p) return optim.SGD(p, o) end, sgd(o), 'float32')
  end)
end

--- torch.optim.Adam and AdamW.
local function adam(o, decoupled)
  local beta1, beta2 = unpack(o.betas or {0.9, 0.999})
  local lr, eps, decay = o.lr or 0.001, o.eps or 1e-8, o.weight_decay or (decoupled and 0.01 or 0)
  return function(x, g, state, step)
    if decoupled then x = x - lr * decay * x else g = g + decay * x end
    state.m = beta1 * (state.m or 0) + (1 - beta1) * g
    state.s = beta2 * (state.s or 0) + (1 - beta2) * g * g
    local m, s = state.m / (1 - beta1 ^ step), state.s / (1 - beta2 ^ step)
    return x - lr * m / (math.sqrt(s) + eps)
  end
end
for name, o in pairs{plain = {}, rate = {lr = 0.1}, betas = {lr = 0.1, betas = {0.7, 0.95},
  eps = 1e-3},
                     decay = {lr = 0.1, weight_decay = 0.1}} do
  test('Adam ' .. name, function()
    compare(function(p) return optim.Adam(p, next(o) and o or nil) end, adam(o))
    compare(function(p) return optim.Adam(p, next(o) and o or nil) end, adam(o), 'float32')
  end)
end

test('options in the list, by position, by name', function()
  local p = nn.Parameter(mt.ones(2))
  for _, opt in ipairs{optim.SGD({p}, {lr = 0.5}), optim.SGD{p, lr = 0.5}, optim.SGD({p}, 0.5)} do
    eq(opt.param_groups[1].lr, 0.5)
  end
  eq(optim.Adam({p}).param_groups[1].lr, 0.001)
  raises(function() optim.SGD({p}, {rate = 1}) end, "SGD: unknown option 'rate'")
  raises(function() optim.SGD({p}, {momentun = 1}) end,
    "SGD: unknown option 'momentun' %(did you mean 'momentum'%?%)")
end)

test('the rate can be changed', function()
  local p = nn.Parameter(mt.zeros(1))
  local opt = optim.SGD{p, lr = 1}
  p.grad = mt.ones(1)
  opt:step()
  opt.param_groups[1].lr = 0.25
  opt:step()
  eq(p:item(), -1.25)
end)

test('groups have their own options', function()
  local a, b = nn.Parameter(mt.zeros(1)), nn.Parameter(mt.zeros(1))
  local opt = optim.SGD({{params = {a}}, {params = {b}, lr = 0.5}}, {lr = 0.1})
  a.grad, b.grad = mt.ones(1), mt.ones(1)
  opt:step()
  near({a:item(), b:item()}, {-0.1, -0.5})
  opt:zero_grad()
  eq({a.grad, b.grad}, {nil, nil})
end)

test('a parameter without gradient stays', function()
  local a, b = nn.Parameter(mt.ones(1)), nn.Parameter(mt.ones(1))
  for _, opt in ipairs{optim.SGD{a, b, lr = 0.5, momentum = 0.9}, optim.Adam{a, b, lr = 0.5}} do
    local before = b:item()
    a.grad = mt.ones(1)
    opt:step()
    opt:step()
    eq(b:item(), before)
  end
end)

--- Twelve steps in which parameter i has a gradient in every i-th, the last two, or (the fourth) never.
local function sparse_steps(make, saved)
  local list = {}
  for i = 1, 4 do list[i] = mt.tensor({1, -2}, 'float64'):requires_grad_() end
  local opt = make(list)
  for k = 1, 12 do
    if k == saved then
      local state = opt:state_dict()
      opt = make(list)
      opt:load_state_dict(state)
    end
    for i, p in ipairs(list) do
      p.grad = i < 4 and (k % i == 0 or k > 10) and (p:detach() * i + k) or nil
    end
    opt:step()
  end
  local found = {}
  for _, p in ipairs(list) do
    for _, v in ipairs(p:tolist()) do found[#found + 1] = v end
  end
  return found, opt
end

test('Adam counts the steps of each parameter', function()
  for _, case in ipairs{ -- PyTorch 2.15
    {'Adam', {lr = 0.1}, {-0.2156277335157511, -2.636407662968566, 0.3016127304511235, -2.155584382347415,
      0.5020080168146013, -1.983366453111134, 1, -2}},
    {'AdamW', {lr = 0.1, weight_decay = 0.05}, {-0.24161658366122768, -2.5161247717211506, 0.2774238374224857,
      -2.0914987181388467, 0.48216085065912384, -1.938985799357442, 1, -2}},
    {'Adam', {lr = 0.05, betas = {0.7, 0.95}, weight_decay = 0.1}, {0.33234925097696666, -2.4089749884875253,
      0.6310482861791099, -2.1172530439339377, 0.7422381978021048, -2.012620477683475, 1, -2}},
  } do
    local function make(p) return optim[case[1]](p, case[2]) end
    local found, opt = sparse_steps(make)
    near(found, case[3], 1e-12)
    local state = opt.param_groups[1].state
    eq({state[1].step, state[2].step, state[3].step, state[4]}, {12, 7, 5, nil})
    near(sparse_steps(make, 8), case[3], 1e-12)
  end
  local a, b = nn.Parameter(mt.ones(1)), nn.Parameter(mt.ones(1))
  local opt = optim.Adam({a, b}, {lr = 0.1})
  for i = 1, 101 do
    a.grad, b.grad = i <= 100 and mt.ones(1) or nil, i > 100 and mt.ones(1) or nil
    opt:step()
  end
  near(b:item(), 0.9, 1e-6)
  opt = optim.Adam{a, b}
  a.grad, b.grad = mt.ones(1), mt.ones(1)
  opt:step()
  local state = opt:state_dict()
  for _, bad in ipairs{-1, 0.5, 0 / 0, 1 / 0} do
    state[1].state[2] = {step = bad}
    raises(function() opt:load_state_dict(state) end, 'group 1.state%[2%].step is ')
  end
  raises(function() opt:load_state_dict({state = {}, param_groups = {{lr = 0.1}}}) end,
    'of an optimizer of PyTorch, which')
end)

test('another optimizer with the state of one takes the same steps, also of a parameter that missed some', function()
  for name, option in pairs{Adam = {lr = 0.1}, SGD = {lr = 0.1, momentum = 0.9, dampening = 0.5},
                            RMSprop = {lr = 0.1, centered = true, momentum = 0.5}} do
    local results = {}
    for _, is_replaced in ipairs{false, true} do
      local a, b, c = nn.Parameter(mt.tensor{1, 2}), nn.Parameter(mt.tensor{3, 4}), nn.Parameter(mt.ones(1))
      local opt = optim[name]({a, b, c}, option)
      for step = 1, 6 do
        if step == 4 and is_replaced then
          opt = optim[name]({a, b, c}, {lr = 5}):load_state_dict(opt:state_dict())
        end
        opt:zero_grad()
        local loss = a:square():sum()
        if step % 2 == 1 then loss = loss + b:square():sum() end
        loss:backward()
        opt:step()
      end
      results[#results + 1] = {a:tolist(), b:tolist(), c:tolist()}
    end
    eq(results[2], results[1])
  end
end)

test('step takes a closure and returns its loss', function()
  local p = nn.Parameter(mt.tensor{4})
  local opt = optim.SGD{p, lr = 0.5}
  local loss = opt:step(function()
    opt:zero_grad()
    local l = p:square():sum()
    l:backward()
    return l
  end)
  eq({loss:item(), p:item()}, {16, 0})
  p = nn.Parameter(mt.tensor{4})
  opt = optim.SGD{p, lr = 0.5}
  mt.no_grad(function() -- the closure is recorded nevertheless
    opt:step(function()
      local l = p:square():sum()
      l:backward()
      return l
    end)
  end)
  eq(p:item(), 0)
  eq(opt:step(), nil)
end)

test('RMSprop takes the steps of torch.optim.RMSprop', function()
  for _, case in ipairs{ -- after 20 steps of PyTorch 2.15, in float64
    {{lr = 0.1}, {0, 0.992206947950468, 1.9999999993932782, -12.41605421379495, -13.651331051419954}},
    {{lr = 0.05, alpha = 0.9, eps = 1e-6, weight_decay = 0.01, momentum = 0.9},
      {0.18492211636522946, 1.686749206580948, 1.5730507770345632, 0.08175319856657694, -16.288215469113943}},
    {{lr = 0.02, centered = true},
      {0.06357143629501918, -0.5813692061022109, 1.6787530422027455, 4.67644273654001e-07, -3.2655367553692356}},
    {{lr = 0.02, centered = true, momentum = 0.5},
      {0.0006595929448125157, 0.33267558193586877, 1.990454174229256, -0.0002203556540790156, -5.9534663925028175}},
  } do
    local p = mt.tensor({1, -2, .5}, 'float64'):requires_grad_()
    local q = mt.tensor({{.3, -.7}}, 'float64'):requires_grad_()
    local still = mt.ones(2):requires_grad_() -- has no gradient
    local opt, aim = optim.RMSprop({p, still, q}, case[1]), mt.tensor({1, 2, 3}, 'float64')
    for step = 1, 20 do
      if step == 11 then -- saved, and loaded by another optimizer
        local state = opt:state_dict()
        opt = optim.RMSprop({p, still, q}, {lr = 9})
        opt:load_state_dict(state)
      end
      opt:zero_grad()
      local loss = ((p - aim):square() * .5 + p):sum() + q:square():sum() + (q ^ 3):sum()
      loss:backward()
      opt:step()
    end
    local found = p:tolist()
    for _, v in ipairs(q:reshape(-1):tolist()) do found[#found + 1] = v end
    near(found, case[2], 1e-9)
    eq(still:tolist(), {1, 1})
    assert(p.is_leaf and p.requires_grad)
  end
  local p = nn.Parameter(mt.ones(2))
  raises(function() optim.RMSprop({p}, {alpha = -1}) end, 'RMSprop: alpha must be .*%-1')
  raises(function() optim.RMSprop({p}, {centered = 1}) end, 'RMSprop: centered must be true or false')
end)

test('the options and states of every optimizer', function()
  for _, info in ipairs(core.optimizers()) do
    local function trained(options)
      local p = mt.tensor({1, -2, 0.5}, 'float64'):requires_grad_()
      local opt = optim[info.name]({p}, options)
      for step = 1, 4 do
        opt:zero_grad();
        (p:square() * mt.tensor({1, 0.5, 2}, 'float64')):sum():mul(step == 1 and 1 or 0.01):backward()
        opt:step()
      end
      return p:tolist(), opt.param_groups[1], opt
    end
    local plain, group = trained()
    eq(group.state[1].step, 4)
    for _, option in ipairs(info.options) do
      eq(group[option.name], option.default)
      if type(option.default) == 'boolean' then
        local options = {[option.name] = true}
        if option.name == 'nesterov' then options.momentum = 0.5 end
        if option.name == 'decoupled_weight_decay' then options.weight_decay = 0.5 end
        local other = option.name ~= 'master_weights' -- which float64 does not need
        assert((t.bits(trained(options)) ~= t.bits(plain)) == other, info.name .. ' ' .. option.name)
        raises(function() optim[info.name]({mt.ones(1)}, {[option.name] = 3}) end,
          ('%s: %s must be true or false, got 3'):format(info.name, option.name))
      elseif type(option.default) == 'table' then
        raises(function() optim[info.name]({mt.ones(1)}, {[option.name] = 3}) end,
          ('%s: %s must be two numbers from 0 to below 1, got 3'):format(info.name, option.name))
      else
        raises(function() optim[info.name]({mt.ones(1)}, {[option.name] = 0 / 0}) end,
          ('%s: %s must be a finite number'):format(info.name, option.name))
      end
    end
    -- a state that is saved after two steps resumes
    local start, _, opt = trained()
    local q = mt.tensor(start, 'float64'):requires_grad_()
    local other = optim[info.name]({q}, {lr = 0.5}):load_state_dict(opt:state_dict())
    for _, each in ipairs{opt, other} do
      each.param_groups[1].params[1].grad = mt.ones({3}, 'float64')
      each:step()
    end
    eq(q:tolist(), opt.param_groups[1].params[1]:tolist())
    eq(other.param_groups[1].state[1].step, 5)
  end
end)

test('steps are not recorded and parameters stay leaves', function()
  local p = nn.Parameter(mt.ones(2))
  local opt = optim.SGD{p, lr = 0.1}
  p:sum():backward()
  opt:step()
  assert(p.is_leaf and p.requires_grad and not p.grad.requires_grad)
  local y = (p * p):sum()
  opt:step()
  raises(function() y:backward() end, 'changed in place')
end)

test('errors', function()
  local p = nn.Parameter(mt.ones(2))
  raises(function() optim.SGD() end, 'SGD: .*parameters')
  raises(function() optim.SGD({}, {lr = 0.1}) end, 'SGD: .*an empty list')
  raises(function() optim.SGD({3}, {lr = 0.1}) end, 'SGD: entry 1 is 3')
  local net = nn.Linear(2, 1)
  raises(function() optim.SGD(net:state_dict(), {lr = 0.1}) end, 'SGD: .* got a table of names; pass net:parameters%(')
  raises(function() optim.SGD(net:named_parameters(), {lr = 0.1}) end, 'SGD: .* got a function; pass net:parameters%(')
  raises(function() optim.SGD({{params = {}}}, {lr = 0.1}) end, 'SGD: .*an empty list')
  local opt = optim.Adam({{params = {}, lr = 1}, {params = net:parameters()}}, {lr = 0.1}) -- a group may be empty
  net(mt.ones(1, 2)):sum():backward()
  opt:step()
  local other = optim.Adam({{params = {}}, {params = net:parameters()}})
  other:load_state_dict(opt:state_dict())
  eq({other.param_groups[1].lr, other.param_groups[2].lr, #other.param_groups[1].params}, {1, 0.1, 0})
  raises(function() optim.SGD({p * 2}, {lr = 0.1}) end, 'SGD: entry 1 was computed from others')
  raises(function() optim.SGD({p}, {lr = -1}) end, 'SGD: lr must be .*%-1')
  raises(function() optim.SGD({p}, {lr = 0 / 0}) end, 'SGD: lr')
  raises(function() optim.SGD({p}, {lr = '0.1'}) end, 'SGD: lr')
  raises(function() optim.SGD({p}, {lr = 1, nesterov = true}) end, 'SGD: nesterov')
  raises(function() optim.Adam({p}, {betas = {1, 0.9}}) end, 'Adam: betas')
  raises(function() optim.Adam({p}, {betas = 0.9}) end, 'Adam: betas')
  raises(function() optim.SGD(p, {lr = 0.1}) end, 'SGD: ')
  raises(function() return optim.Adamm end, "did you mean 'Adam'")
end)

test('state_dict and load_state_dict continue where they were', function()
  for _, make in ipairs{function(p) return optim.SGD{p, lr = 0.1, momentum = 0.9} end,
                        function(p) return optim.Adam{p, lr = 0.1} end} do
    local p, q = nn.Parameter(mt.tensor{1, 2}), nil
    local opt, other = make(p), nil
    local function step(x, o)
      o:zero_grad()
      x:square():sum():backward()
      o:step()
    end
    for i = 1, 6 do
      if i == 4 then
        q = nn.Parameter(p:detach():clone())
        other = make(q)
        other:load_state_dict(opt:state_dict())
      end
      if other then step(q, other) end
      if not other or i > 3 then step(p, opt) end
    end
    eq(q:tolist(), p:tolist())
  end
end)

test('a parameter is in an optimizer once', function()
  local a, b = nn.Parameter(mt.ones(2)), nn.Parameter(mt.ones(2))
  raises(function() optim.SGD{a, b, a} end, 'SGD: entry 3 is the same parameter as entry 1')
  raises(function() optim.Adam({{params = {a, b}}, {params = {b}}}) end,
    'Adam: entry 1 is a parameter of group 1 already')
  local opt = optim.RMSprop{a}
  raises(function() opt:add_param_group{params = {b, a}} end, 'RMSprop: entry 2 is a parameter of group 1 already')
  eq(#opt.param_groups, 1)
end)

test('add_param_group', function()
  local a, b, c = nn.Parameter(mt.zeros(1)), nn.Parameter(mt.zeros(1)), nn.Parameter(mt.zeros(1))
  local opt = optim.SGD({a}, {lr = 0.1})
  opt:add_param_group{params = {b}, lr = 0.5}
  opt:add_param_group{params = c}
  assert(rawequal(opt.param_groups[-1], opt.param_groups[3]))
  raises(function() return opt.param_groups[-4] end, 'groups count from 1, there are 3')
  a.grad, b.grad, c.grad = mt.ones(1), mt.ones(1), mt.ones(1)
  opt:step()
  near({a:item(), b:item(), c:item()}, {-0.1, -0.5, -0.1})
  local d = nn.Parameter(mt.zeros(1))
  raises(function() opt:add_param_group{params = {d}, rl = 1} end, "unknown option 'rl' in a group")
  raises(function() opt:add_param_group{params = {d}, momentun = 1} end, "did you mean 'momentum'")
  raises(function() opt:add_param_group{params = {d}, lr = -1} end, 'SGD: lr must be')
  raises(function() opt:add_param_group(5) end, 'SGD: a group .*got 5')
  raises(function() opt:add_param_group{} end, 'SGD: a list of parameters is needed, got nil')
  eq(#opt.param_groups, 3)
  raises(function() optim.Adam({{params = {d}, betas = 5}}) end, 'Adam: betas must be two numbers')
end)

test('a state that does not fit is refused and changes nothing', function()
  local function trained(make, ...)
    local list = {}
    for i, n in ipairs{...} do
      list[i] = nn.Parameter(mt.ones(n))
      list[i].grad = mt.ones(n)
    end
    local opt = make(list)
    opt:step()
    return opt
  end
  local function sgd(p) return optim.SGD(p, {lr = 0.1, momentum = 0.9}) end
  local function adam(p) return optim.Adam(p, {lr = 0.1}) end
  local opt = trained(adam, 2, 3)
  local before = t.bits(opt.param_groups[1].state[1].exp_avg:tolist())
  local function refused(state, pattern)
    raises(function() opt:load_state_dict(state) end, 'load_state_dict: ' .. pattern)
    local group = opt.param_groups[1]
    local own = group.state[1]
    eq({group.lr, group.eps, own.step, t.bits(own.exp_avg:tolist())}, {0.1, 1e-8, 1, before})
  end
  raises(function() opt:load(mt.ones(2)) end, "argument 2 'states' must be a table, got a tensor")
  refused(trained(sgd, 2, 3):state_dict(), 'the state is of SGD, this is Adam')
  refused(trained(optim.AdamW, 2, 3):state_dict(), 'the state is of AdamW, this is Adam')
  refused(trained(adam, 2):state_dict(), 'group 1 has 2 parameters, the state 1')
  refused(trained(adam, 2, 3, 4):state_dict(), 'group 1 has 2 parameters, the state 3')
  refused(trained(adam, 2, 4):state_dict(), 'group 1.state%[2%].exp_avg[_sq]* is %(4%), the parameter %(3%)')
  refused({{}}, 'group 1 is not what')
  refused({5}, 'group 1 is not what state_dict%(%) returned, got 5')
  refused({}, 'the state of an optimizer with 1 group of parameters is needed, got one with 0')
  local function changed(key, value)
    local state = trained(adam, 2, 3):state_dict()
    state[1][key] = value
    return state
  end
  refused(changed('lr', 'high'), "group 1: lr must be .* the string 'high'")
  refused(changed('lr', -1), 'group 1: lr must be a finite number from 0')
  refused(changed('lr', math.huge), 'group 1: lr must be a finite number from 0, got inf')
  refused(changed('betas', {0.9}), 'group 1: betas must be')
  refused(changed('state', {{step = 0.5}}), 'group 1.state%[1%].step is 0.5')
  refused(changed('state', {5}), 'group 1.state%[1%] must be a table, got 5')
  refused(changed('state', {{exp_avg = 5}}), 'group 1.state%[1%].exp_avg is 5, the parameter %(2%)')
  refused(changed('state', {{mean = mt.ones(2)}}), 'group 1.state%[1%].mean is not a state of Adam')
  refused(changed('state', {[7] = {}}), 'group 1.state%[7%] does not belong to a parameter')
  local other = trained(sgd, 2, 3)
  raises(function() other:load_state_dict(trained(sgd, 3, 3):state_dict()) end,
    'group 1.state%[1%].momentum_buffer is %(3%)')
  opt:load_state_dict(trained(function(p) return optim.Adam(p, {lr = 0.5}) end, 2, 3):state_dict())
  eq(opt.param_groups[1].lr, 0.5)
end)

test('options are those of the groups, and no others', function()
  local opt = optim.Adam{nn.Parameter(mt.ones(2))}
  local group = opt.param_groups[1]
  raises(function() opt.lr = 5 end, "test_optim.lua:%d+: Adam has no 'lr'.*opt.param_groups%[i%].lr")
  raises(function() return opt.lr end, "Adam has no 'lr'.*opt.param_groups%[i%].lr")
  raises(function() opt:stepp() end, "Adam has no 'stepp' %(did you mean 'step'%?%)")
  raises(function() opt.parm_groups = {} end, "did you mean 'param_groups'")
  raises(function() group.learning_rate = 1 end, "Adam: a group has no option 'learning_rate'")
  raises(function() group.weight_deacy = 1 end, "did you mean 'weight_decay'")
  raises(function() return group.momentum end, "Adam: a group has no option 'momentum'")
  group.lr = 0.25
  local found = {}
  for key in pairs(group) do found[#found + 1] = key end
  table.sort(found)
  eq(found, {'amsgrad', 'betas', 'decoupled_weight_decay', 'eps', 'lr', 'master_weights', 'maximize', 'params',
    'weight_decay'})
  eq(group.state, {})
end)

test('arguments of methods', function()
  local opt = optim.SGD{nn.Parameter(mt.ones(2))}
  raises(function() opt:step(5) end, 'test_optim.lua:%d+: step: a function that returns the loss is needed, got 5')
  raises(function() opt:step(nil, 5) end, 'step: 2 arguments given, it takes 1')
  raises(function() opt:zero_grad(true) end, 'zero_grad: 1 arguments given, it takes 0')
  raises(function() opt:zero_grad{set_to_none = true} end, "option 'set_to_none'; not needed: gradients are nil")
  raises(function() opt:state_dict(5) end, 'state_dict: 1 arguments given, it takes 0')
  raises(function() opt:load_state_dict(opt:state_dict(), 5) end, 'load_state_dict: 2 arguments given, it takes 1')
  eq(opt:step(setmetatable({}, {__call = function() return 7 end})), 7)
end)

test('a network is trained on xor', function()
  mt.manual_seed(3)
  local x, y = mt.tensor{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, mt.tensor{{0}, {1}, {1}, {0}}
  for _, make in ipairs{function(p) return optim.SGD(p, {lr = 0.5, momentum = 0.9}) end,
                        function(p) return optim.Adam(p, {lr = 0.05}) end} do
    local net = nn.Sequential{nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid()}
    local opt, first, last = make(net:parameters()), nil, nil
    for _ = 1, 300 do
      opt:zero_grad()
      local loss = mt.binary_cross_entropy(net(x), y)
      loss:backward()
      opt:step()
      first, last = first or loss:item(), loss:item()
    end
    assert(first > 0.5 and last < 0.05, first .. ' to ' .. last)
  end
end)

t.test('an option that was set wrong stops the step before anything changes', function()
  for _, info in ipairs(core.optimizers()) do
    local name = info.name
    local a, b = mt.ones(1):requires_grad_(), mt.ones(1):requires_grad_()
    local opt = mt.optim[name]{{params = {a}}, {params = {b}}}
    local loss = (a * 2 + b * 3):sum()
    loss:backward()
    for option, value in pairs{lr = 0 / 0, weight_decay = opt.defaults.weight_decay and -1} do
      local before = opt.param_groups[2][option]
      opt.param_groups[2][option] = value
      t.raises(function() opt:step() end,
        (':%%d+: %s: param_groups%%[2%%]: %s must be a finite number from 0, got'):format(name, option))
      opt.param_groups[2][option] = before
    end
    t.eq({a:item(), b:item()}, {1, 1})
    opt:step()
    t.eq(a:item() < 1 and b:item() < 1, true)
  end
  local opt = mt.optim.Adam{mt.ones(1):requires_grad_()}
  opt.param_groups[1].betas = 3
  t.raises(function() opt:step() end, 'test_optim.lua:%d+: Adam: betas must be two numbers')
end)

test('moments that decay end at 0, not in denormals, and no other operation changes its ways', function()
  local p = mt.ones(70000):requires_grad_()
  local opt = optim.Adam({p}, {lr = 1e-3})
  p.grad = mt.full({70000}, 2e-38)
  opt:step()
  p.grad = mt.zeros(70000)
  for _ = 1, 200 do opt:step() end
  local tiny = mt.tensor({1e-39}) -- a subnormal float32
  eq((tiny * 1):item() > 0, true)
  local state = opt:state_dict()[1].state[1]
  for _, moment in ipairs{state.exp_avg, state.exp_avg_sq} do
    eq((moment:ne(0)):mul(moment:abs():lt(1.17e-38)):sum():item(), 0)
  end
end)

-- Flushing is a mode of the CPU.
test('a step of RMSprop too, on all threads, and only the step', function()
  local tiny = mt.tensor({1e-39}, {device = 'cpu'}):expand(200000):contiguous()
  for _, option in ipairs{{}, {momentum = 0.5}, {centered = true}} do
    local p = mt.ones({200000}, {device = 'cpu'}):requires_grad_()
    local opt = optim.RMSprop({p}, option)
    p.grad = mt.full({200000}, 1e-19, {device = 'cpu'})
    opt:step()
    p.grad = mt.zeros({200000}, {device = 'cpu'})
    for _ = 1, 200 do opt:step() end
    local moment = opt:state_dict()[1].state[1].square_avg
    eq(moment:ne(0):mul(moment:lt(1.17e-38)):sum():item(), 0)
    eq((tiny * 1):ne(0):sum():item(), 200000)
    opt.param_groups[1].alpha = -1
    raises(function() opt:step() end, 'test_optim.lua:%d+: RMSprop: alpha must be a finite number from 0, got %-1')
    eq((tiny * 1):ne(0):sum():item(), 200000)
  end
end)

test('set_flush_denormal', function()
  local tiny = mt.tensor({1e-39}, {device = 'cpu'}):expand(200000):contiguous()
  eq(mt.set_flush_denormal(true), true)
  local flushed = (tiny * 1):ne(0):sum():item()
  eq(mt.set_flush_denormal(false), true)
  eq(flushed, 0)
  eq((tiny * 1):ne(0):sum():item(), 200000)
end)

--- Returns n parameters of zeros with gradients of ones.
local function zeros_with_grad(n)
  local list = {}
  for i = 1, n do
    list[i] = nn.Parameter(mt.zeros(1))
    list[i].grad = mt.ones(1)
  end
  return unpack(list)
end

test('a step takes over the lists of parameters that were changed', function()
  local a, b, c = zeros_with_grad(3)
  local opt = optim.SGD({a}, {lr = 1})
  local group = opt.param_groups[1]
  group.params[1] = b
  opt:step()
  eq({a:item(), b:item()}, {0, -1})
  group.params[2] = a
  opt:step()
  eq({a:item(), b:item()}, {-1, -2})
  group.params = {c}
  opt:step()
  eq({a:item(), b:item(), c:item()}, {-1, -2, -1})
  group.params = nil
  raises(function() opt:step() end, 'SGD: param_groups%[1%].params: a list of parameters is needed, got nil')
  group.params = {c}
  opt:step()
  eq(c:item(), -2)
  for _, bad in ipairs{{c, c}, {3}, {}, {c * 2}} do
    group.params = bad
    raises(function() opt:step() end, 'SGD: param_groups%[1%].params: ')
  end
  group.params = {c}
  for _, bad in ipairs{'x', {params = {a}, lr = 2}} do
    opt.param_groups[2] = bad
    for _, f in ipairs{opt.step, opt.state_dict} do
      raises(function() f(opt) end, 'param_groups%[2%] is not a group of this optimizer .*add_param_group')
    end
  end
  opt.param_groups[2] = nil
  opt:step()
  eq({a:item(), b:item(), c:item()}, {-1, -2, -3})
  opt.param_groups = 5
  raises(function() opt:step() end, 'SGD: param_groups must be the list of groups, got 5')
end)

test('parameters keep their state where groups change', function()
  local a, b = zeros_with_grad(2)
  local opt = optim.Adam({{params = {a}, lr = 1}, {params = {b}, lr = 0.5}})
  opt:step()
  a.grad = nil
  opt:step()
  local groups = opt.param_groups
  groups[1], groups[2] = groups[2], groups[1]
  eq({groups[1].state[1].step, groups[2].state[1].step, #opt:state_dict()}, {2, 1, 2})
  opt:step()
  eq({groups[1].state[1].step, groups[2].state[1].step}, {3, 1})
  near({a:item(), b:item()}, {-1, -1.5}, 1e-6)
  local last = table.remove(groups, 1)
  opt:step()
  eq({#opt:state_dict(), groups[1].state[1].step}, {1, 1})
  near({a:item(), b:item()}, {-1, -1.5}, 1e-6)
  opt:add_param_group{params = last.params, lr = 0.5}
  opt:step()
  near(b:item(), -2, 1e-6)
  table.insert(groups[1].params, 1, nn.Parameter(mt.zeros(1)))
  a.grad = mt.ones(1)
  opt:step()
  eq({groups[1].state[1], groups[1].state[2].step}, {nil, 2})
  groups[1].lr = -1 -- what loads another does not need
  opt:load_state_dict(optim.Adam({{params = {zeros_with_grad(2)}}, {params = {zeros_with_grad(1)}}}):state_dict())
  eq(groups[1].lr, 0.001)
end)

test('a saved state with holes is loaded, a state that is not whole is refused', function()
  local a, b, c = zeros_with_grad(3)
  local sgd = optim.SGD({a, b, c}, {lr = 1, momentum = 0.5})
  local saved = sgd:state_dict()
  saved[1].state = {[3] = {step = 1, momentum_buffer = mt.ones(1)}}
  sgd:load_state_dict(saved)
  eq({sgd.param_groups[1].state[1], sgd.param_groups[1].state[3].momentum_buffer:item()}, {nil, 1})
  saved[1].maximize = nil
  sgd:load_state_dict(saved)
  saved[1].lr = nil
  raises(function() sgd:load_state_dict(saved) end, 'load_state_dict: group 1: lr must be .* got nil')
  local function refused(opt, state, pattern)
    local s = opt:state_dict()
    s[1].state = {state}
    raises(function() opt:load_state_dict(s) end, 'load_state_dict: group 1.state%[1%].' .. pattern)
  end
  local one = mt.ones(1)
  refused(optim.Adam{a}, {step = 100, exp_avg = one}, 'exp_avg_sq is missing')
  refused(optim.Adam{a}, {exp_avg = one, exp_avg_sq = one}, 'step is missing')
  refused(optim.NAdam{a}, {step = 1, exp_avg = one, exp_avg_sq = one}, 'mu_product is missing')
  refused(optim.NAdam{a}, {step = 1, exp_avg = one, exp_avg_sq = one, mu_product = 0 / 0}, 'mu_product is ')
end)

test('no parameter moves where another cannot be written', function()
  local a = zeros_with_grad(1)
  local b = mt.ones(1):expand(3):detach():requires_grad_()
  b.grad = mt.ones(3)
  raises(function() optim.SGD({a, b}, {lr = 1}):step() end, 'SGD: ')
  eq(a:item(), 0)
end)

test('errors of options and numbers', function()
  local a = zeros_with_grad(1)
  local opt = optim.SGD{a}
  raises(function() opt.param_groups[1].state = {} end, 'SGD: the state of a group is read%-only; .*load_state_dict')
  raises(function() optim.Adam({a}, {betas = {1, 0.9}}) end, 'betas must be two numbers from 0 to below 1, got 1$')
  raises(function() optim.SGD({a}, {lr = 0 / 0}) end, 'lr must be a finite number from 0, got nan$')
  for _, bad in ipairs{99, -1} do
    raises(function() core.optimizer(bad) end, 'optimizer: there is no rule')
    raises(function() core.optimizer_state(opt.handle, bad) end, 'optimizer_state: group ')
  end
end)

test('a group may have more parameters than a function returns values', function()
  local list = {}
  for i = 1, 10000 do list[i] = zeros_with_grad(1) end
  local opt = optim.SGD(list, {lr = 0.5})
  opt:step()
  opt:load_state_dict(opt:state_dict())
  eq(#opt.param_groups[1].params, 10000)
  eq(list[10000]:item(), -0.5)
end)

t.finish()
