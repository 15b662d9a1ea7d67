-- test_compile_notices.lua -- mt.compile: changes between calls other than arguments, and numbers in branches
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn = mt.nn

local function same(a, b, what)
  assert(mt.is_tensor(a) == mt.is_tensor(b) and
    (mt.is_tensor(a) and mt.allclose(a, b, {rtol = 0, atol = 0, equal_nan = true}) or a == b), what)
end

local function told(fn)
  local kept, lines = io.stderr, {}
  io.stderr = {write = function(_, ...) lines[#lines + 1] = table.concat({...}) end} -- luacheck: ignore 122
  local ok, why = pcall(fn)
  io.stderr = kept -- luacheck: ignore 122
  if not ok then error(why, 0) end
  return table.concat(lines)
end

--- make(wrap) returns a function for each turn; asserts that the eager and the compiled one give the same.
local function race(make, turns)
  local kept, all = io.stderr, {}
  io.stderr = {write = function() end} -- luacheck: ignore 122
  local ok, why = pcall(function()
    for k, wrap in ipairs{function(f) return f end, mt.compile} do
      mt.manual_seed(7)
      local turn, list = make(wrap), {}
      for c = 1, turns or 12 do
        local results = {turn(c)}
        for i, x in ipairs(results) do results[i] = mt.is_tensor(x) and x:detach():clone() or x end
        list[c] = results
      end
      all[k] = list
    end
  end)
  io.stderr = kept -- luacheck: ignore 122
  if not ok then error(why, 0) end
  for c, results in ipairs(all[1]) do
    for i, x in ipairs(results) do same(x, all[2][c][i], ('turn %d, result %d'):format(c, i)) end
  end
end

local x = mt.range(1, 12):float():view(4, 3)

test('derivatives by an argument: of a clone they are recorded, otherwise the notice says so', function()
  local cure = 'x:clone():requires_grad_() may have'
  for own, notice in pairs{clone = false, detach = 'runs eagerly: it changes requires_grad of a tensor'} do
    local step = mt.compile(function(a)
      a = a[own](a):requires_grad_()
      return mt.grad((a ^ 3):sum(), a)
    end)
    local text = told(function() for _ = 1, 4 do same(step(x), 3 * x ^ 2, own) end end)
    if notice then assert(text:find(notice, 1, true) and text:find(cure, 1, true), text) else eq(text, '') end
  end
  local step = mt.compile(function(a) return mt.grad((a ^ 3):sum(), a) end)
  local text = told(function() step(x:clone():requires_grad_()) end)
  assert(text:find('argument 1 requires a gradient; in the step ' .. cure, 1, true), text)
end)

test('new fields, and keys that are not names', function()
  race(function(wrap)
    local config = {}
    local step = wrap(function(a) return config.shift and a + 1 or a * 2 end)
    return function(c)
      if c == 6 then config.shift = true end
      return step(x)
    end
  end)
  for _, key in ipairs{true, mt.ones(3), {}} do
    race(function(wrap)
      local config = {[key] = 2}
      local step = wrap(function(a) return a * config[key] end)
      return function(c)
        if c == 6 then config[key] = 5 end
        return step(x)
      end
    end)
  end
  race(function(wrap)
    local list = {}
    for i = 1, 40 do list[i] = i end
    local step = wrap(function(a) return a * (list.factor or #list) end)
    return function(c)
      if c == 5 then list[41] = 1 end
      if c == 9 then list.factor = 3 end
      return step(x)
    end
  end)
end)

test('methods and fields of a module, a captured -0, what a compiled step inside captures', function()
  race(function(wrap)
    local k, Net = 2, nn.class 'Net'
    function Net:scaled(y) return (self.shifts and y + 1 or y) * k end
    function Net:forward(y) return self:scaled(y) end
    local net = Net()
    local step = wrap(function(a) return net(a) end)
    return function(c)
      if c == 5 then k = 3 end
      if c == 9 then net.shifts = true end
      return step(x)
    end
  end)
  race(function(wrap)
    local zero = 0
    local step = wrap(function(a) return a / zero end)
    return function(c)
      if c == 6 then zero = zero * -1 end
      return step(x)
    end
  end)
  race(function(wrap)
    local k = 2
    local inner = wrap(function(a) return a * k end)
    local step = wrap(function(a) return inner(a) + 1 end)
    return function(c)
      if c == 6 then k = 3 end
      return step(x)
    end
  end)
end)

test('gradients that others leave are zeroed; hooks of parameters', function()
  race(function(wrap)
    local a, b = mt.ones(3):requires_grad_(), mt.ones(3):requires_grad_()
    local opt = mt.optim.Adam({a, b}, {lr = 0.1})
    local step = wrap(function(y)
      opt:zero_grad()
      ;(y * a):sum():backward()
      opt:step()
      return y * 1
    end)
    return function(c)
      if c == 6 then b.grad = mt.ones(3) end
      return step(x), a, b, a.grad, b.grad or 'none'
    end
  end)
  for _, first in ipairs{1, 6} do
    race(function(wrap)
      local a, k, hook = mt.ones(3):requires_grad_(), 2, nil
      local step = wrap(function(y)
        a.grad = nil
        ;(y * a):sum():backward()
        return y * 1
      end)
      return function(c)
        if c == first then hook = a:register_hook(function(g) return g * k end) end
        if c == 8 then k = 5 end
        if c == 10 then hook:remove() end
        return step(x), a.grad
      end
    end)
  end
end)

test('an optimizer of the user; an argument that is a view of a parameter', function()
  race(function(wrap)
    local a, Descent = mt.ones(3):requires_grad_(), {}
    Descent.__index = Descent
    function Descent:step()
      mt.no_grad(function() a:sub_(a.grad * self.param_groups[1].lr) end)
    end
    local opt = setmetatable({param_groups = {{lr = 0.1}}}, Descent)
    local step = wrap(function(y)
      a.grad = nil
      ;(y * a):sum():backward()
      opt:step()
      return y * 1
    end)
    return function(c)
      if c == 6 then opt.param_groups[1].lr = 0.5 end
      return step(x), a
    end
  end)
  race(function(wrap)
    local w = mt.ones(3, 4):requires_grad_()
    local opt = mt.optim.SGD({w}, {lr = 0.1})
    local step = wrap(function(y)
      opt:zero_grad()
      ;(w * 2):sum():backward()
      opt:step()
      return y * 2
    end)
    return function(c) return step(c > 5 and w:detach():t() or x) end
  end)
end)

test('a seed inside, the default dtype', function()
  race(function(wrap)
    local step = wrap(function(a)
      mt.manual_seed(3)
      return a + mt.rand(3)
    end)
    return function(c)
      if c == 6 then mt.rand(5) end
      return step(x)
    end
  end)
  race(function(wrap)
    local step = wrap(function(a) return a.dtype, a + mt.ones(3) end)
    return function(c)
      mt.set_default_dtype(c > 5 and 'float64' or 'float32')
      local _, y = step(x)
      mt.set_default_dtype('float32')
      return y, y.dtype
    end
  end)
end)

test('the state of the random numbers: places of the step itself are replayed, others are not', function()
  for _, goes_out in ipairs{true, false} do
    race(function(wrap)
      local outside = mt.get_rng_state()
      local step = wrap(function(a)
        local state = mt.get_rng_state()
        local first = mt.rand(3)
        mt.set_rng_state(goes_out and outside or state)
        return a + first, a + mt.rand(3)
      end)
      return function(c)
        if c > 5 then mt.rand(c) end
        local first, second = step(x)
        return first, second, mt.rand(1)
      end
    end)
  end
  race(function(wrap) -- the step itself draws no random numbers
    local outside = mt.get_rng_state()
    local step = wrap(function(a)
      mt.set_rng_state(outside)
      return a * 2
    end)
    return function(c) return step(x), mt.rand(c) end
  end)
end)

test('results that see the same memory do so in every call', function()
  local w = mt.ones(2, 3)
  local step = mt.compile(function(a)
    local y = a * 2
    return y, y:t(), y[2], w, w:t(), a:sum()
  end)
  for _ = 1, 5 do
    local y, turned, row, kept, kept_turned = step(x)
    y:zero_()
    assert(turned:sum():item() == 0 and row:sum():item() == 0)
    kept:zero_()
    assert(kept_turned:sum():item() == 0)
    w:fill_(1)
  end
end)

test('an error for an element that the step catches', function()
  local step = mt.compile(function(a)
    local ok, sum = pcall(function() return a:sum():item() end)
    return a * (ok and sum or 1)
  end)
  same(step(x), x * x:sum())
  raises(function() step(x) end, 'cannot ask for the elements of a tensor')
end)

test('a scheduler that the step advances, with captured messages', function()
  local w = mt.ones(1):requires_grad_()
  local opt = mt.optim.SGD({w}, {lr = 1})
  local sched = mt.optim.lr.ExponentialLR(opt, {gamma = 0.5})
  local step = mt.compile(function(a)
    opt:step()
    pcall(sched.step, sched)
    return a * w
  end)
  step(x)
  raises(function() step(x) end, 'ExponentialLR: a schedule cannot step inside a compiled step')
end)

test('numbers that decide behind a test, in a method, a metamethod, a function of the library', function()
  local Sum = {}
  Sum.__index = Sum
  function Sum:add(k) self.n = k > 50 and 1 or 0 end
  function Sum.__mul(s, k) return k > 50 and s.y * 7 or s.y * 3 end
  for name, f in pairs{
    test = function(a, k)
      local m = k and (k > 50 and 50 or k)
      return a * m
    end,
    branch = function(a, k)
      if a then
        if k > 50 then return a end
      end
      return a * k
    end,
    method = function(a, k)
      local s = setmetatable({}, Sum)
      s:add(k)
      return a * k + s.n
    end,
    metamethod = function(a, k) return a * k + setmetatable({y = a}, Sum) * k end,
    library = function(a, k)
      local y = a * k
      for _ = 1, mt.cdiv(k, 50) do y = y + 1 end
      return y
    end,
  } do
    race(function(wrap)
      local step = wrap(f)
      return function(c) return step(x, 5 + 9 * c), name end
    end)
  end
end)

--- Runs make(cfg), compiled and eager, with cfg.k from 6 to 40; returns the messages. With `also` = 'turn' a number
--- changes that no step reads, with 'others' fields of this name in other tables.
local function turned(make, also)
  return told(function()
    local cfgs, steps = {}, {}
    for n = 1, 2 do
      cfgs[n] = {k = 6, turn = 6, other = {k = 6}, list = {{k = 6}}}
      steps[n] = make(cfgs[n])
    end
    steps[2] = mt.compile(steps[2])
    for k = 6, 40 do
      for n = 1, 2 do
        cfgs[n].k = k
        if also == 'turn' then cfgs[n].turn = k end
        if also == 'others' then cfgs[n].other.k, cfgs[n].list[1].k = k + 1, k + 2 end
      end
      same(steps[1](x), steps[2](x), 'k is ' .. k)
    end
  end)
end

test('numbers in tables, objects and modules, and those that functions inside capture, change at every call', function()
  local Scaler = {}
  Scaler.__index = Scaler
  function Scaler.new(k) return setmetatable({k = k}, Scaler) end
  function Scaler:scaled(a) return a * self.k end
  local Net = nn.class 'Net'
  function Net:__init() self.layer, self.scale = nn.Linear(3, 3), 6 end
  function Net:forward(a) return self.layer(a) * self.scale + self.scale / 100 end
  for name, make in pairs{
    field = function(cfg) return function(a) return a * cfg.k + (1 - cfg.k / 100) end end,
    deep = function(cfg) return function(a) return a * cfg.k + cfg.other.k end end,
    alias = function(cfg)
      local function scaled(c, a) return a * c.k end
      return function(a) return scaled(cfg, a) end
    end,
    option = function(cfg) return function(a) return a:add(a, {alpha = -cfg.k}) end end,
    inside = function(cfg) return function(a) return mt.no_grad(function() return a * (1 - cfg.k / 50) end) end end,
    descent = function(cfg)
      local w = mt.ones(3, 2):requires_grad_()
      return function(a)
        w:zero_grad_()
        a:matmul(w):tanh():sum():backward()
        mt.no_grad(function()
          for _, p in ipairs{w} do p:sub_(p.grad * (cfg.k / 1000)) end
        end)
        return w:detach():clone()
      end
    end,
    module = function(cfg)
      mt.manual_seed(1)
      local net = Net()
      setmetatable(cfg, {__newindex = function(_, _, k) net.scale = k end}).k = nil
      return function(a) return net(a):detach() end
    end,
    object = function(cfg)
      local scaler = Scaler.new(6)
      setmetatable(cfg, {__newindex = function(_, _, k) scaler.k = k end}).k = nil
      return function(a) return scaler:scaled(a) end
    end,
  } do
    local text = turned(make, 'turn')
    assert(text:find 'change too often', name .. ': ' .. text)
  end
end)

test('numbers in tables that a step decides by, in whatever way', function()
  local inherit = function(base) return setmetatable({}, {__index = base}) end
  for name, make in pairs{
    compared = function(cfg) return function(a) return cfg.k > 20 and a or a * cfg.k end end,
    elsewhere = function(cfg)
      local function large() return cfg.k > 20 end
      return function(a) return large() and a or a * cfg.k end
    end,
    argument = function(cfg)
      local function large(c) return c.k > 20 end
      return function(a) return large(cfg) and a or a * cfg.k end
    end,
    iterated = function(cfg)
      return function(a)
        local y = a * cfg.k
        for key, v in pairs(cfg) do
          if key == 'k' and v > 20 then y = y + 1 end
        end
        return y
      end
    end,
    raw = function(cfg) return function(a) return rawget(cfg, 'k') > 20 and a or a * cfg.k end end,
    key = function(cfg)
      local key = 'k'
      return function(a) return cfg[key] > 20 and a or a * cfg.k end
    end,
    inside = function(cfg)
      return function(a) return mt.no_grad(function() return cfg.k > 20 and a or a * cfg.k end) end
    end,
    given_back = function(cfg)
      return function(a)
        local function doubled() return mt.cdiv(cfg.k * 2, 1) end
        return doubled() > 40 and a or a * cfg.k
      end
    end,
    outside = function(cfg)
      local function doubled() return mt.cdiv(cfg.k * 2, 1) end
      return function(a) return doubled() > 40 and a or a * cfg.k end
    end,
    changed = function(cfg)
      return function(a)
        cfg.k = cfg.k + 1
        return a * cfg.k
      end
    end,
    two = function(cfg) return function(a) return a * cfg.k + (cfg.other.k > 20 and 1 or 0) end end,
    inherited = function(cfg)
      local c = inherit(cfg)
      return function(a) return c.k > 20 and a or a * c.k end
    end,
    listed = function(cfg) return function(a) return cfg.list[1].k > 20 and a or a * cfg.k end end,
    smallest = function(cfg) return function(a) return a * math.min(cfg.k, 20) end end,
    text = function(cfg) return function(a) return #tostring(cfg.k) > 1 and a * cfg.k or a end end,
    position = function(cfg) return function(a) return a:repeat_interleave(math.floor(cfg.k / 5), 1) * cfg.k end end,
    turns = function(cfg)
      return function(a)
        for _ = 1, cfg.k do a = a * 1.01 end
        return a * cfg.k
      end
    end,
    method = function(cfg)
      local object = setmetatable({}, {__index = {large = function(_, c) return c.k > 20 end}})
      return function(a) return object:large(cfg) and a or a * cfg.k end
    end,
    unpacked = function(cfg)
      return function(a)
        local list = {cfg.list[1].k, cfg.k}
        return (select(2, unpack(list)) > 20 and a or a * cfg.k)
      end
    end,
  } do
    for _, also in ipairs{'nothing', 'others'} do
      local ok, why = pcall(turned, make, also)
      assert(ok, name .. ': ' .. tostring(why))
    end
  end
end)

test('an optimizer that gets more parameters, or others', function()
  local y = mt.tensor {1, 2, 1, 2}:long()
  race(function(wrap)
    mt.manual_seed(3)
    local net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    local opt = mt.optim.SGD({net[1].weight}, {lr = 0.01})
    local step = wrap(function(a)
      opt:zero_grad()
      local loss = mt.cross_entropy(net(a), y)
      loss:backward()
      opt:step()
      return loss
    end)
    return function(c)
      if c == 7 then opt:add_param_group{params = {net[3].weight}, lr = 0.02} end
      if c == 12 then table.insert(opt.param_groups[2].params, net[3].bias) end
      if c == 17 then opt.param_groups[1].params[1] = net[1].bias end
      return step(x / 10)
    end
  end, 22)
end)

test('gradients that add up from call to call, and are dropped, zeroed, held or read outside', function()
  local y = mt.tensor {1, 2, 1, 2}:long()
  local kept
  for name, after in pairs{
    dropped = function(opt) opt:zero_grad() end,
    zeroed = function(_, net) for _, p in ipairs(net:parameters()) do p.grad:zero_() end end,
    clipped = function(opt, net)
      nn.clip_grad_norm_(net:parameters(), 0.1)
      opt:zero_grad()
    end,
    read = function(opt, net)
      local norm = net[1].weight.grad:norm()
      opt:zero_grad()
      return norm
    end,
    held = function(opt, net)
      kept = net[1].weight.grad
      opt:zero_grad()
      return kept
    end,
    one = function(_, net) net[3].bias.grad = nil end,
  } do
    local text
    race(function(wrap)
      mt.manual_seed(3)
      local net = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
      local opt = mt.optim.Adam(net:parameters(), {lr = 0.01})
      local step = wrap(function(a)
        local loss = mt.cross_entropy(net(a), y) / 3
        loss:backward()
        return loss
      end)
      return function(c)
        local loss, more
        text = told(function() loss = step(x / (10 + c)) end)
        if c > 25 then eq(name .. ' ' .. c .. text, name .. ' ' .. c) end
        if c % 3 == 0 then
          opt:step()
          more = after(opt, net)
        end
        local grads = {}
        for k, p in ipairs(net:parameters()) do grads[k] = p.grad or 0 end
        return loss, more or 0, unpack(grads)
      end
    end, 40)
  end
end)

test('a gradient that a step uses by itself, and one that two leaves share', function()
  race(function(wrap)
    local w = mt.ones(3):requires_grad_()
    w.grad = mt.ones(3)
    local first = w.grad
    local step = wrap(function(a)
      (a * w):sum():backward()
      return first * 2
    end)
    return function(c)
      if c % 5 == 0 then w.grad = nil end
      if c % 7 == 0 then w.grad = mt.full({3}, c) end
      return step(x), w.grad or 0
    end
  end, 30)
  race(function(wrap)
    local v, w = mt.ones(3):requires_grad_(), mt.ones(3):requires_grad_()
    local step = wrap(function(a)
      (a * w + a * a * v):sum():backward()
      return a * 2
    end)
    return function(c)
      if c % 5 == 0 then v.grad, w.grad = nil, nil end
      if c % 7 == 0 then v.grad = w.grad end
      if c % 11 == 0 then v.grad, w.grad = mt.ones(3), mt.zeros(6):narrow(1, 3, 3) end
      return step(x), v.grad, w.grad
    end
  end, 60)
end)

test('a module is a step; what it captures is compared', function()
  local net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5))
  local fast, text = mt.compile(net)
  text = told(function()
    mt.no_grad(function()
      for k = 1, 12 do
        if k == 6 then net:eval() end
        mt.manual_seed(k)
        local y = net(x)
        mt.manual_seed(k)
        same(y, fast(x), 'call ' .. k)
      end
    end)
  end)
  assert(text:find "the module Sequential is recorded again: 'the step[.2]*.training' was true and is false", text)
  assert(mt.explain(fast):find 'compiled step, the module Sequential')
  text = told(function() for _ = 1, 3 do fast(x) end end)
  assert(text:find 'the module Sequential runs eagerly: result 1 leads back to a graph', text)
end)

test('a captured shape is a list; a grid kernel and results in a table are reasons not to compile', function()
  local shape = mt.zeros(2, 6).shape
  local step = mt.compile(function(a) return a:reshape(shape):sum(1) end)
  eq(told(function() for _ = 1, 5 do same(step(x), x:reshape(2, 6):sum(1)) end end), '')
  shape[1], shape[2] = 3, 4
  assert(told(function() for _ = 1, 3 do same(step(x), x:reshape(3, 4):sum(1)) end end):find "'shape.1' was 2 and is 3")
  local k = mt.kernel(function(a)
    local i = grid(1)
    if i <= #a then a[i] = 2 end
  end)
  local b = x:flatten()
  local launches, why = pcall(k:over(b), b)
  if not launches and why:find 'NVRTC' then return print 'skipped: grid kernels on a GPU need NVRTC' end
  for name, f in pairs{
    ["'k' %(kernel k%) cannot be recorded; call it outside"] = function(a)
      local b = a:flatten()
      k:over(b)(b)
      return b
    end,
    ['result 1 is a table; return its tensors as several results'] = function(a) return {y = a * 2} end,
  } do
    local compiled = mt.compile(f)
    local text = told(function() for _ = 1, 5 do compiled(x:clone()) end end)
    assert(text:find(name), text)
    eq(select(2, text:gsub('\n', '')), 1)
  end
end)

test('another object of the same description is called another one', function()
  local net = nn.Linear(3, 1)
  local step = mt.compile(function(a) return net(a):detach() end)
  local text = told(function()
    for k = 1, 6 do
      if k == 4 then net.bias = nn.Parameter(mt.zeros(1)) end
      step(x)
    end
  end)
  assert(text:find "recorded again: 'net.bias' is another object than before, a tensor %(1%) float32", text)
end)

test('a field that was nil and becomes a buffer or a parameter is compared', function()
  local Net = nn.class 'Net'
  function Net:forward(a) return self.gain and a * self.gain or a * 1 end
  for name, init in pairs{
    none = function(net) net.gain = nil end,
    removed = function(net)
      net.gain = nn.Buffer(mt.ones(1))
      net.gain = nil
    end,
    ['registered as nil'] = function(net) net:register_buffer 'gain' end,
  } do
    for _, value in ipairs{nn.Buffer(mt.tensor{3}), nn.Parameter(mt.tensor{4}), mt.tensor{5}, 6} do
      local net = Net()
      init(net)
      local step = mt.compile(function(a) return net(a):detach() end)
      told(function()
        for k = 1, 6 do
          if k == 4 then net.gain = value end
          same(net(x), step(x), ('%s, call %d'):format(name, k))
        end
      end)
    end
  end
end)

test('a GradScaler beside a step that scales; an average that would count inside', function()
  local net = nn.Linear(3, 1)
  local opt, scaler = mt.optim.SGD(net:parameters(), {lr = 0.01}), mt.GradScaler{init_scale = 8, growth_interval = 6}
  local step = mt.compile(function(a)
    opt:zero_grad()
    scaler:scale(net(a):sum()):backward()
  end)
  local text = told(function()
    for _ = 1, 12 do
      step(x)
      scaler:step(opt)
      scaler:update()
    end
  end)
  eq(scaler:get_scale(), 32)
  eq(select(2, text:gsub('\n', '')), 1, text)
  assert(text:find "'scaler.factor' was 8 and is 16", text)
  local average = mt.optim.swa.AveragedModel(net)
  local counts = mt.compile(function(a)
    average:update_parameters(net)
    return a * 2
  end)
  counts(x)
  raises(function() counts(x) end, 'update_parameters: an average cannot count inside a compiled step; call it after')
end)

test('a distribution that checks its numbers; one that does not is recorded', function()
  local D, action = mt.distributions, mt.tensor({1, 3}, 'int64')
  for _, validate_args in ipairs{true, false} do
    local step = mt.compile(function(a)
      local p = D.Categorical{logits = a, validate_args = validate_args}
      return p:log_prob(action) + p:entropy()
    end)
    local text = told(function() for _ = 1, 4 do step(mt.randn(2, 3)) end end)
    if validate_args then assert(text:find('runs eagerly: .* {validate_args = false} leaves the checks out'), text)
    else eq(text, '') end
  end
end)

test('arguments of another layout: sums go along their strides', function()
  local wide = mt.randn(177, 406)
  local tensors = {mt.randn(177, 203), mt.randn(203, 177):t(), wide:narrow(2, 1, 203), mt.randn(203):expand(177, 203)}
  race(function(wrap)
    local step = wrap(function(a) return a:sum(), a:mean(1), a:std(), a:cumsum(2), a:matmul(a:t()), a:norm(), a end)
    return function(c) return step(tensors[c % (c > 12 and 4 or 2) + 1]) end
  end, 24)
end)

t.finish()
