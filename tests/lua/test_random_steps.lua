-- test_random_steps.lua -- random training steps: mt.compile is compared with the eager step, bit for bit
--
--   mtorch tests/lua/test_random_steps.lua [worlds [first seed | today]]
--
-- A world has parameters, a buffer, a module, an optimizer, options in a table and one or two steps over them, which
-- are Lua source of random pieces, with the updates in any order. Between calls all kinds of Lua state are changed, and
-- arguments have any shape, layout and aliasing. Results, arguments, parameters, gradients, states, random states and
-- errors must be those of a second world, whose steps are not compiled. SHOW=1 prints each source.
local mt = require 'mtorch'
local t = require 'testing'
local nn = mt.nn

local worlds, first_seed = tonumber(arg[1]) or 250, tonumber(arg[2]) or 1
if arg[2] == 'today' then first_seed = math.floor(os.time() / 86400) * worlds end -- different worlds every day

local draws = t.random_source()
local between, one_of, chance = draws.between, draws.one_of, draws.chance
local A, B = {}, {} -- places of operands in the forms below

-- ---- sources -------------------------------------------------------------------------------------------

local unary = {'relu', 'sigmoid', 'tanh', 'neg', 'square', 'abs', 'sin', 'gelu', 'silu', 'erf'}
local in_place = {'mul_(0.5)', 'add_(1)', 'relu_()', 'tanh_()', 'neg_()', 'sigmoid_()', 'mul_(s)'}
local column = {'sum', 'mean', 'amax', 'amin', 'logsumexp', 'var'}
local number = {'s', '(2 * s + 1)', '0.5', 'cfg.k', 'rate', 'cfg.inner.k', 'random_steps_k', 'cfg:scale()'}

--- Expressions with n columns: lists of strings and of the operands A and B.
local forms = {
  function() return {A, ':', one_of(unary), '()'} end,
  function() return {A, ' ', one_of{'+', '-', '*'}, ' ', B} end,
  function() return {'mt.', one_of{'maximum', 'minimum', 'add', 'hypot'}, '(', A, ', ', B, ' + 1)'} end,
  function() return {A, ' ', one_of{'+', '-', '*'}, ' ', one_of{one_of(number), 'p.b', 'c'}} end,
  function() return {A, ':matmul(p.w:t()) / 8'} end,
  function() return {A, ' - ', B, ':', one_of(column), '(', one_of{1, 2}, ', true)'} end,
  function() return {A, ':', one_of{'softmax', 'log_softmax', 'cumsum'}, '(', one_of{1, 2}, ')'} end,
  function() return {A, ':', one_of{'flip(1)', 'roll(1, 2)', 'tril()', 'clone()', 'detach()'}} end,
  function() return {'(', A, ':', one_of{'sort(2)', 'sort(1)', 'cummax(1)'}, ')'} end,
  function() return {A, ':index_select(2, ids)'} end,
  function() return {A, ':gather(2, ', B, ':argmax(2, true):expand(', B, ':size(1), n))'} end,
  function() return {'mt.where(', A, ':gt(0), ', A, ', ', B, ')'} end,
  function() return {A, ':masked_fill(', B, ':gt(0.5), ', one_of{'0', 's', '-1', 'cfg.k'}, ')'} end,
  function() return {'mt.layer_norm(', A, ', {n}, p.b, c)'} end,
  function() return {'mt.dropout(', A, ', 0.25)'} end,
  function() return {'(', A, ' + 0):', one_of(in_place)} end,
  function() return {'mt.linear(', A, ', p.w, p.b)'} end,
  function() return {A, ':clamp(-1, ', one_of{'1', 's'}, ')'} end,
  function() return {'net(', A, ')'} end,
  function() return {'(cfg.flag and ', A, ' or ', A, ' * 2)'} end,
  function() return {'(p.w.requires_grad and ', A, ' or ', B, ' + ', A, ')'} end,
  function() return {A, ' * (p.b.grad and 2 or 1)'} end,
  function() return {A, ' * (name == "half" and 0.5 or 1)'} end,
  function() return {A, ' * opt.param_groups[1].lr'} end,
  function() return {A, ' + mt.rand(n)'} end,
}
--- Statements that change the value `name`, or a view of it.
local changes = {
  '%s[{{1, 1}}] = 0', '%s[{{}, 1}] = s', '%s:t():mul_(0.5)', '%s:select(1, 1):add_(c)', '%s:narrow(2, 1, 1):tanh_()',
  '%s[1] = %s[1] * 2', '%s:diagonal():fill_(s)', '%s[1][1] = s', '%s[1][1] = %s[1][1] * 2', '%s[{1, 1}] = s',
  '%s[{-1, -1}] = %s:sum()',
}
--- Topics: a line of the steps that reads a value, and a change of that value between calls.
local topics = {
  {'loss = loss * rate', function() local k = between(1, 3) return function(v)
    for _, set in ipairs(v.set_rate) do set(k) end
  end end},
  {'loss = loss * random_steps_k', function() local k = between(1, 3) return function()
    rawset(_G, 'random_steps_k', k)
  end end},
  {'loss = loss * cfg.k', function() local k = between(1, 3) return function(v) v.cfg.k = k end end},
  {'loss = loss * cfg.inner.k', function() local k = between(1, 3) return function(v) v.cfg.inner.k = k end end},
  {'loss = loss * cfg.inner.k', function() local k = between(1, 3) return function(v) v.cfg.inner = {k = k} end end},
  {'loss = loss * cfg:scale()', function() local k = between(1, 3) return function(v)
    getmetatable(v.cfg).__index.scale = function() return k end
  end end},
  {'loss = loss * (cfg.more and 2 or 1)', function() local k = chance(50) or nil return function(v) v.cfg.more = k end
  end},
  {'loss = loss * net.width', function() local k = between(1, 3) return function(v) v.net_class.width = k end end},
  {'loss = loss * opt.param_groups[1].lr', function() local lr = between(1, 3) / 100 return function(v)
    v.opt.param_groups[1].lr = lr
  end end},
  {'loss = loss:clamp(1 / cfg.k)', function() local k = one_of{0, -0.0} return function(v) v.cfg.k = k end end},
  {'loss = loss * (cfg.count or 1); cfg.count = (cfg.count or 0) + 1', function() return function() end end},
  {'loss = loss + net(x):sum()', function() return function(v) v.net:train(not v.net.training) end end},
  {'loss = loss * (c.grad and 3 or 1)', function() return function(v) v.c.grad = nil end end},
}

--- Adds the uses of the loss: the updates, in any order.
local function add_updates(add)
  local zero = one_of{'opt:zero_grad()', 'opt:zero_grad()', 'opt:zero_grad()', 'p.w.grad = nil', 'p.b.grad = nil',
    'if p.w.grad then p.w.grad:zero_() end', 'if p.w.grad then p.w.grad:mul_(0.5) end', 'net:zero_grad()'}
  local step = one_of{'opt:step()', 'opt:step()', 'opt:step()',
    'mt.no_grad(function() if p.w.grad then p.w:sub_(p.w.grad * 0.01) end end)'}
  local clip = one_of{'nn.clip_grad_norm_({p.w, p.b, c}, 1)', 'nn.clip_grad_value_({p.w, c}, 0.01)', '', '', '', ''}
  local fail = chance(15) and "if cfg.fail then error('stop', 0) end" or ''
  local orders = {
    {zero, 'loss:backward()', clip, fail, step}, {'loss:backward()', clip, step, fail, zero},
    {'loss:backward()', fail, step}, {'loss:backward()'}, {zero, 'loss:backward()'},
    {'loss:backward()', zero}, {step, fail, zero, 'loss:backward()'},
    {zero, 'loss:backward({retain_graph = true})', 'loss:backward()', step},
    {zero, 'loss:backward()', step, zero, 'local l = (p.w * p.w):sum()',
      'if l.requires_grad then l:backward() end', step},
    {'for _ = 1, 2 do', zero, 'local l = (p.w * x:mean()):sum() + c:sum()', 'l:backward()', step, 'end'}, {},
    {'local g = mt.grad(loss, {c}, {allow_unused = true})', 'if g then mt.no_grad(function() c:sub_(g * 0.1) end) end'},
  }
  for _, line in ipairs(one_of(orders)) do add(line) end
end

local function source_of(topic)
  local lines, names = {}, {'x', 'y', 'x'}
  local function add(...) if (...) ~= '' then lines[#lines + 1] = (...):format(select(2, ...)) end end
  for k = 1, between(2, 9) do
    local name, parts = 'v' .. k, one_of(forms)()
    local a, b = chance(60) and names[#names] or one_of(names), one_of(names)
    for i, part in ipairs(parts) do parts[i] = part == A and a or part == B and b or part end
    add('local %s = %s', name, table.concat(parts))
    if chance(12) then
      add('%s = %s + 0', name, name)
      add((one_of(changes):gsub('%%s', name)))
    end
    if chance(4) then add("if cfg.fail then error('early', 0) end") end
    names[#names + 1] = name
  end
  local last = names[#names]
  if chance(25) then add('mt.no_grad(function() buffer:mul_(0.9):add_(%s:mean(1) * 0.1) end)', last) end
  if chance(4) then
    add(one_of{'buffer[1] = s', 'mt.no_grad(function() p.w[1][1] = 0.5 end)', 'buffer[1] = buffer[1] + 1',
      'mt.no_grad(function() p.w[{1, 1}] = s end)'})
  end
  if chance(6) then add(one_of{'x:mul_(0.5)', 'y:add_(1)', 'x:t():neg_()'}) end
  if chance(3) then add('cfg.count = (cfg.count or 0) + 1') end
  if chance(3) then add('p.b:requires_grad_(not p.b.requires_grad)') end
  add('local loss = (%s * %s):mean() + (p.w * p.w):mean() * s + p.b:sum() * 0.01 + c:mean()', last, one_of(names))
  if topic then add((topic[1]:gsub('%%', '%%%%'))) end
  if chance(12) then add('if not loss.requires_grad then return loss end') end
  add('if loss.requires_grad then')
  add_updates(add)
  add('end')
  local more = one_of{'', '', '', ', p.w', ', x', ', c.grad', ', name'}
  add('return loss:detach(), v%d:detach()%s', between(1, #names - 3), more)
  local captured = 'local mt, nn, n, p, c, ids, buffer, opt, net, cfg, rate = ...'
  return captured .. '\nreturn function(x, y, s, name)\n' .. table.concat(lines, '\n') ..
    '\nend, function(value) rate = value end'
end

-- ---- worlds ----------------------------------------------------------------------------------------------

local function new_class()
  local Net = nn.class 'RandomStepsNet'
  Net.width = 1
  function Net:__init(n, kind)
    self.layer = nn.Linear(n, n)
    self.norm = kind == 'batch' and nn.BatchNorm1d(n) or kind == 'dropout' and nn.Dropout(0.25) or nn.Identity()
    self.gain = 1
  end
  function Net:forward(x)
    x = self.norm(self.layer(x))
    return self.gain == 1 and x or x * self.gain
  end
  return Net
end

local function scale(options) return options.k * 2 end

--- Creates a world; two worlds with the same seed are equal.
local function world(spec)
  mt.manual_seed(spec.n)
  local n = spec.n
  local function parameter(shape) return mt.randn(shape, {dtype = spec.dtype}):mul_(0.3):requires_grad_() end
  local v = {p = {w = parameter{n, n}, b = parameter{n}}, c = parameter{n},
    buffer = mt.zeros(n, {dtype = spec.dtype}),
    cfg = setmetatable({k = 1.25, flag = true, inner = {k = 2}}, {__index = {scale = scale}}), held = {},
    steps = {}, set_rate = {}}
  v.net_class = new_class()
  v.net = v.net_class(n, spec.net):to(spec.dtype)
  v.leaves = {v.p.w, v.p.b, v.c, unpack(v.net:parameters())}
  v.opt = mt.optim[spec.kind](v.leaves, spec.options)
  local ids = (mt.range(1, n) * 7 % n + 1):long()
  for k, source in ipairs(spec.sources) do
    v.steps[k], v.set_rate[k] = assert(loadstring(source))(mt, nn, n, v.p, v.c, ids, v.buffer, v.opt, v.net, v.cfg, 1)
  end
  return v
end

--- Changes between calls: each returns a function that is applied to both worlds.
local between_calls = {
  function() local k = one_of{0.5, 1.25, -0.0, 0, 3} return function(v) v.cfg.k = k end end,
  function() local k = one_of{0.5, 2} return function(v) v.cfg.inner = {k = k} end end,
  function() return function(v) v.cfg.flag = not v.cfg.flag end end,
  function() return function(v) v.cfg.fail = true end end,
  function() local k = one_of{1, 2} return function(v) for _, set in ipairs(v.set_rate) do set(k) end end end,
  function() local k = one_of{1, 2} return function() rawset(_G, 'random_steps_k', k) end end,
  function() local lr = one_of{0.01, 0.02} return function(v) v.opt.param_groups[1].lr = lr end end,
  function() return function(v) mt.no_grad(function() v.p.w:mul_(0.9) end) end end,
  function() return function(v) v.p.b:requires_grad_(not v.p.b.requires_grad) end end,
  function() return function(v) v.p.w:requires_grad_(not v.p.w.requires_grad) end end,
  function() return function(v) v.p.w.grad = nil end end,
  function() return function(v) v.p.b.grad = mt.ones_like(v.p.b):detach() end end,
  function() return function(v) if v.c.grad then v.c.grad:zero_() end end end,
  function() return function(v) v.held[#v.held + 1] = v.p.w.grad end end,
  function() return function(v) v.opt:zero_grad() end end,
  function() return function(v) v.state = v.opt:state_dict() end end,
  function() return function(v) if v.state then v.opt:load_state_dict(v.state) end end end,
  function() return function(v) v.net:train(not v.net.training) end end,
  function() local k = one_of{1, 3} return function(v) v.net.gain = k end end,
  function() return function(v) v.p.w = v.p.w:detach():clone():requires_grad_() end end,
  function() return function(v) v.buffer:add_(1) end end,
  function() local k = one_of{1, 2} return function() mt.set_num_threads(k) end end,
  function() return function(v)
    local old = v.hook
    if old then old:remove() end
    v.hook = not old and v.c:register_hook(function(g) return g * 2 end) or nil
  end end,
  function() return function(v) v.net:register_forward_hook(function(_, _, y) return y * 0.5 end) end end,
  function() return function(v) v.p.w.grad = v.p.w.grad and v.p.w.grad:clone() end end,
}

--- Returns arguments as source text of tensors with r rows.
local function arguments_of(spec)
  local n, r = spec.n, chance(10) and 1 or spec.rows
  local seed, kinds = between(1, 1e6), {1, 1}
  if chance(spec.odd) then kinds = {one_of{1, 2, 3, 4, 5}, one_of{1, 1, 6, 7}} end
  local s, name = chance(10) and one_of{0.5, 1.5, -0.0, 0} or 1.25, chance(10) and 'half' or nil
  return function(v)
    mt.manual_seed(seed)
    local function fresh(rows, columns) return mt.randn(rows, columns, {dtype = spec.dtype}) end
    local function make(kind, x)
      if kind == 2 then return fresh(n, r):t() end
      if kind == 3 then return fresh(r, n + 2):narrow(2, 2, n) end
      if kind == 4 then return fresh(r, n):requires_grad_() end
      if kind == 5 then return fresh(1, n):expand(r, n) end
      if kind == 6 then return x end
      if kind == 7 then return r == n and v.p.w:detach() or x:detach():view_as(x) end
      return fresh(r, n)
    end
    local x = make(kinds[1])
    return x, make(kinds[2], x), s, name
  end
end

-- ---- comparing -------------------------------------------------------------------------------------------

local function same(what, a, b)
  if mt.is_tensor(a) ~= mt.is_tensor(b) or not mt.is_tensor(a) and a ~= b then
    error(('%s: %s, compiled %s'):format(what, tostring(a), tostring(b)), 0)
  end
  if not mt.is_tensor(a) then return end
  if a.dtype ~= b.dtype or a.shape ~= b.shape or a.requires_grad ~= b.requires_grad or
    not mt.allclose(a, b, {rtol = 0, atol = 0, equal_nan = true}) then
    error(('%s: %s, compiled %s'):format(what, tostring(a), tostring(b)), 0)
  end
end

local function compare_states(a, b)
  for i, group in ipairs(a) do
    for k, entry in pairs(group.state) do
      for key, value in pairs(entry) do
        same(('state %s of parameter %s'):format(key, k), value, (b[i].state[k] or {})[key])
      end
    end
  end
end
local function compare_worlds(one, two)
  local a, b = {one.p.w, one.p.b, one.c, one.buffer}, {two.p.w, two.p.b, two.c, two.buffer}
  for _, list in ipairs{{one, a}, {two, b}} do
    for _, x in ipairs(list[1].leaves) do table.insert(list[2], x) end
    for _, x in ipairs(list[1].net:buffers()) do table.insert(list[2], x) end
  end
  for k, x in ipairs(a) do
    same('parameter ' .. k, x, b[k])
    same('gradient of parameter ' .. k, x.grad, b[k].grad)
  end
  for k, x in pairs(one.held) do same('held gradient ' .. k, x, two.held[k]) end
  same('count', one.cfg.count, two.cfg.count)
  compare_states(one.opt:state_dict(), two.opt:state_dict())
end

--- Calls both worlds' steps, with changes between them; returns the number of calls and of replays.
local function try(seed)
  draws.seed(seed)
  local topic = chance(60) and one_of(topics) or nil
  local spec = {n = one_of{2, 3, 3, 5, 8, chance(10) and 46 or 4}, kind = one_of{'SGD', 'Adam', 'AdamW', 'RMSprop'},
    dtype = one_of{'float32', 'float64'}, net = one_of{'batch', 'dropout', 'none'}, sources = {source_of(topic)}}
  spec.rows, spec.options = chance(50) and spec.n or between(2, 6), {lr = 0.01}
  if spec.kind == 'SGD' and chance(50) then spec.options.momentum = 0.9 end
  if chance(30) then spec.sources[2] = source_of(chance(50) and topic or nil) end
  spec.odd, spec.restless = one_of{0, 0, 5, 40}, topic and one_of{15, 25} or one_of{0, 15, 25, 40}
  rawset(_G, 'random_steps_k', 1)
  mt.set_num_threads(1)
  local one, two = world(spec), world(spec)
  local compiled, kept = {}, {}
  for k, step in ipairs(two.steps) do compiled[k] = mt.compile(step, {verify = 0}) end
  local turns = between(8, 18)
  for turn = 1, turns do
    local done = {}
    for _ = 1, chance(spec.restless) and between(1, 2) or 0 do
      local which = between(1, #between_calls)
      local by_topic = topic and chance(70)
      local change = by_topic and topic[2]() or between_calls[which]()
      done[#done + 1] = by_topic and 'topic' or which
      change(one)
      change(two)
    end
    local which, arguments = between(1, #spec.sources), arguments_of(spec)
    local function failed(why)
      error(('seed %d, n %d, rows %d, %s, %s, call %d of step %d, after changes {%s}: %s\n%s'):format(seed, spec.n,
        spec.rows, spec.kind, spec.net, turn, which, table.concat(done, ' '), why,
        table.concat(spec.sources, '\n\n')), 0)
    end
    local given_one, given_two = {arguments(one)}, {arguments(two)}
    mt.manual_seed(turn)
    local want = {pcall(one.steps[which], unpack(given_one, 1, 4))}
    local random = mt.get_rng_state()
    mt.manual_seed(turn)
    local got = {pcall(compiled[which], unpack(given_two, 1, 4))}
    local ok, why = pcall(function()
      if want[1] ~= got[1] then
        error(('%s, compiled %s: %s'):format(tostring(want[1]), tostring(got[1]),
          tostring(want[1] and got[2] or want[2])), 0)
      end
      if want[1] then
        for k = 2, 4 do same('result ' .. k - 1, want[k], got[k]) end
      elseif tostring(want[2]):match '[^:]*$' ~= tostring(got[2]):match '[^:]*$' then error(got[2], 0)
      end
      for k = 1, 2 do
        same('argument ' .. k, given_one[k], given_two[k])
        same('gradient of argument ' .. k, given_one[k].grad, given_two[k].grad)
      end
      if random ~= mt.get_rng_state() then error('the random numbers stand elsewhere', 0) end
      compare_worlds(one, two)
    end)
    if not ok then failed(why) end
    for k = 2, 4 do
      if mt.is_tensor(want[k]) then
        kept[#kept + 1] = {want[k], want[k]:detach():clone(), got[k], ('result %d of call %d'):format(k - 1, turn)}
      end
    end
    one.cfg.fail, two.cfg.fail = nil, nil
  end
  for _, k in ipairs(kept) do -- what shares memory with w goes on with it in the step as it is
    local stays = mt.allclose(k[1]:detach(), k[2], {rtol = 0, atol = 0, equal_nan = true})
    if stays then same(('seed %d: overwritten: %s\n%s'):format(seed, k[4], spec.sources[1]), k[2], k[3]:detach()) end
  end
  local replays = 0
  for _, f in ipairs(compiled) do
    local text = mt.explain(f)
    for count in text:gmatch 'replayed (%d+) times' do replays = replays + count end
    if os.getenv 'SHOW' then io.stderr:write(text, '\n', spec.sources[1], '\n\n') end
  end
  return turns, replays
end

t.test('random steps', function()
  local kept_print, kept_stderr, threads = print, io.stderr, mt.get_num_threads()
  local calls, replays, failures = 0, 0, {}
  for seed = first_seed, first_seed + worlds - 1 do
    if not os.getenv 'SHOW' then
      print = function() end -- luacheck: ignore 121
      io.stderr = {write = function() end} -- luacheck: ignore 122
    end
    local ok, turns, replayed = pcall(try, seed)
    print, io.stderr = kept_print, kept_stderr -- luacheck: ignore 121 122
    if ok then calls, replays = calls + turns, replays + replayed else failures[#failures + 1] = turns end
    if #failures > 4 then break end
  end
  mt.set_num_threads(threads)
  rawset(_G, 'random_steps_k', nil)
  if #failures > 0 then
    io.stderr:write(table.concat(failures, '\n---\n'), '\n')
    error(('%d worlds differ'):format(#failures), 0)
  end
  if os.getenv 'COUNT' then print(calls, replays) end
  assert(replays > calls / 5, ('%d of %d calls were replays'):format(replays, calls))
end)

t.finish()
