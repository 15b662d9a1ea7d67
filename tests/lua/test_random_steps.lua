-- test_random_steps.lua -- Random training steps: mt.compile against the same step as it is, bit by bit.
--
--   mtorch tests/lua/test_random_steps.lua [steps [first seed | today]]
--
-- A step is Lua source over square matrices: arguments, parameters, a buffer and a number; its values are read, seen
-- as views and changed in place. Between calls the number, the rate and the parameters change.
local mt = require 'mtorch'
local t = require 'testing'

local steps, first_seed = tonumber(arg[1]) or 150, tonumber(arg[2]) or 1
if arg[2] == 'today' then first_seed = math.floor(os.time() / 86400) * steps end -- others every day

local draws = t.draws()
local between, one_of, chance = draws.between, draws.one_of, draws.chance
local A, B = {}, {} -- places of operands in the forms below

local unary = {'relu', 'sigmoid', 'tanh', 'neg', 'square', 'abs', 'sin', 'gelu', 'silu', 'erf'}
local in_place = {'mul_(0.5)', 'add_(1)', 'relu_()', 'tanh_()', 'neg_()', 'sigmoid_()', 'mul_(s)'}
local column = {'sum', 'mean', 'amax', 'amin', 'logsumexp', 'var'}

--- Text of a value: lists of text and of the places A and B.
local forms = {
  function() return {A, ':', one_of(unary), '()'} end,
  function() return {A, ' ', one_of{'+', '-', '*'}, ' ', B} end,
  function() return {'mt.', one_of{'maximum', 'minimum', 'add', 'hypot'}, '(', A, ', ', B, ' + 1)'} end,
  function() return {A, ' ', one_of{'+', '-', '*'}, ' ', one_of{'s', '(2 * s + 1)', '0.5', 'b', 'b:unsqueeze(2)'}} end,
  function() return {A, ':', one_of{'matmul', 'mm'}, '(', B, ') / ', A, ':size(1)'} end,
  function() return {A, ':matmul(w:t()) / 8'} end,
  function() return {A, ' - ', B, ':', one_of(column), '(', one_of{1, 2}, ', true)'} end,
  function() return {A, ':', one_of{'softmax', 'log_softmax', 'cumsum'}, '(', one_of{1, 2}, ')'} end,
  function() return {A, ':', one_of{'t()', 'flip(1)', 'roll(1, 2)', 'tril()', 'clone()', 'detach()'}} end,
  function() return {'(', A, ':', one_of{'sort(2)', 'sort(1)', 'cummax(1)'}, ')'} end,
  function() return {'mt.cat({', A, ':narrow(1, 1, 1), ', B, ':narrow(1, 2, n - 1)}, 1)'} end,
  function() return {A, ':index_select(', one_of{1, 2}, ', ids)'} end,
  function() return {A, ':gather(2, ', B, ':argmax(2, true):expand(n, n))'} end,
  function() return {'mt.where(', A, ':gt(0), ', A, ', ', B, ')'} end,
  function() return {A, ':masked_fill(', B, ':gt(0.5), ', one_of{'0', 's', '-1'}, ')'} end,
  function() return {'mt.layer_norm(', A, ', {n}, b, c)'} end,
  function() return {'mt.dropout(', A, ', 0.25)'} end,
  function() return {'(', A, ' + 0):', one_of(in_place)} end,
  function() return {'mt.linear(', A, ', w, b)'} end,
  function() return {A, ':index_add(1, ids, ', B, ')'} end,
  function() return {A, ':clamp(-1, ', one_of{'1', 's'}, ')'} end,
}
--- Statements that change the value `name`, or a view of it.
local changes = {
  '%s[{{1, 2}}] = 0', '%s[{{}, 2}] = s', '%s:t():mul_(0.5)', '%s:select(1, 1):add_(b)', '%s:narrow(2, 1, 1):tanh_()',
  '%s[1] = %s[2] * 2', '%s:diagonal():fill_(s)',
}

local function source_of()
  local lines, names = {}, {'x', 'y', 'w'}
  local function add(...) lines[#lines + 1] = (...):format(select(2, ...)) end
  for k = 1, between(3, 12) do
    local name, parts = 'v' .. k, one_of(forms)()
    local a, b = chance(60) and names[#names] or one_of(names), one_of(names)
    for i, part in ipairs(parts) do parts[i] = part == A and a or part == B and b or part end
    add('local %s = %s', name, table.concat(parts))
    if chance(12) then
      add('%s = %s + 0', name, name)
      add((one_of(changes):gsub('%%s', name)))
    end
    names[#names + 1] = name
  end
  local last = names[#names]
  if chance(30) then add('mt.no_grad(function() buffer:mul_(0.9):add_(%s:mean(1) * 0.1) end)', last) end
  add('local loss = (%s * %s):mean() + (w * w):mean() * s + b:sum() * 0.01 + c:mean()', last, one_of(names))
  local zero, back = 'opt:zero_grad()', 'loss:backward()'
  if chance(15) then zero, back = 'if w.grad then w.grad:mul_(0.5) end', back end
  add(zero)
  add(back)
  if chance(30) then add('mt.nn.clip_grad_norm_({w, b, c}, 1)') end
  if chance(90) then add('opt:step()') end
  add('return loss:detach(), v%d:detach()', between(1, #names - 3))
  local captured = 'local mt, n, w, b, c, ids, buffer, opt = ...'
  return captured .. '\nreturn function(x, y, s)\n' .. table.concat(lines, '\n') .. '\nend'
end

--- The step of a source over its own parameters, which begin alike.
local function world(source, n, kind, dtype)
  mt.manual_seed(n)
  local function parameter(shape) return mt.randn(shape, {dtype = dtype}):mul_(0.3):requires_grad_() end
  local v = {w = parameter {n, n}, b = parameter {n}, c = parameter {n}, buffer = mt.zeros(n, {dtype = dtype})}
  v.opt = mt.optim[kind]({v.w, v.b, v.c}, {lr = 0.01})
  local ids = mt.range(1, n) * 7 % n + 1
  v.step = assert(loadstring(source))(mt, n, v.w, v.b, v.c, ids:long(), v.buffer, v.opt)
  return v
end

local function same(what, a, b)
  if not a or not b then assert(not a and not b, what .. ': only one is there') return end
  t.eq({what, a.dtype, a.shape}, {what, b.dtype, b.shape})
  assert(mt.allclose(a, b, {rtol = 0, atol = 0, equal_nan = true}), what)
end

--- Calls both steps; an error of the plain one ends the case.
local function try(seed)
  draws.seed(seed)
  local source, n = source_of(), one_of{2, 3, 8, 17, 46, 64}
  local kind, dtype = one_of{'SGD', 'Adam', 'AdamW', 'RMSprop'}, one_of{'float32', 'float64'}
  local plain, compiled = world(source, n, kind, dtype), world(source, n, kind, dtype)
  local step, kept = mt.compile(compiled.step), {}
  for call = 1, 8 do
    local where = ('seed %d, n %d, %s, call %d\n%s'):format(seed, n, kind, call, source)
    mt.manual_seed(1000 * seed + call)
    local x, y, s = mt.randn(n, n, {dtype = dtype}), mt.rand(n, n, {dtype = dtype}), 1.25
    if chance(30) then x = x:t() end
    if chance(30) then s = one_of{0.5, 1.5, 2.5, 3} end
    for _, v in ipairs{plain, compiled} do
      if call == 6 then v.opt.param_groups[1].lr = 0.02 end
      if call == 7 then mt.no_grad(function() v.w:mul_(0.9) end) end
    end
    local function called(f)
      mt.manual_seed(call)
      return {pcall(f, x, y, s)}
    end
    local want, got = called(plain.step), called(step)
    t.eq({where, got[1]}, {where, want[1]})
    if not want[1] then return false, want[2], where end
    for k = 2, 3 do
      same(where .. '\nresult ' .. k - 1, got[k], want[k])
      kept[#kept + 1] = {got[k], got[k]:clone(), want[k], want[k]:clone(), where}
    end
    for _, name in ipairs{'w', 'b', 'c', 'buffer'} do
      same(where .. '\n' .. name, compiled[name], plain[name])
      same(where .. '\ngradient of ' .. name, compiled[name].grad, plain[name].grad)
    end
  end
  for _, k in ipairs(kept) do -- what shares memory with w goes on with it in the step as it is
    local stays = mt.allclose(k[3], k[4], {rtol = 0, atol = 0, equal_nan = true})
    if stays then same('overwritten: ' .. k[5], k[1], k[2]) end
  end
  return true
end

t.test('random steps', function()
  local ran = 0
  for seed = first_seed, first_seed + steps - 1 do
    local ok, text, where = try(seed)
    if ok then ran = ran + 1 elseif os.getenv 'SHOW' then print(text, where) end
  end
  assert(ran > steps / 2, ran)
end)

t.finish()
