-- test_record.lua -- recorded calls give the function's results when they are replayed on other inputs
local t = require 'testing'
local mt = require 'mtorch'
local core = require 'mtorch.core'
local recording = require 'mtorch.core.record'
local record, Value = recording.record, recording.Value

-- Operations without a function of the same name.
local special = {
  index = function(x, key) return x[key] end,
  T = function(x) return x.T end,
  mT = function(x) return x.mT end,
  fill = function(x, value) return x:clone():fill_(value) end,
  zero = function(x) return x:clone():zero_() end,
  copy = function(x, source) return x:clone():copy_(source) end,
  assign = function(x, key, value)
    local y = x:clone()
    y[key] = value
    return y
  end,
}

--- Returns the results of a recorded program for other inputs.
local function replay(program, ...)
  local known, results = {}, {}
  for i, value in ipairs(program.inputs) do known[value] = (select(i, ...)) end
  local function given(arg, levels)
    if getmetatable(arg) == Value then return known[arg] or arg.tensor end
    if type(arg) ~= 'table' or levels == 0 then return arg end
    local copy = {}
    for key, inner in pairs(arg) do copy[key] = given(inner, levels - 1) end
    return copy
  end
  local function run(op, args, n)
    local list = {special[op] and special[op](unpack(args, 1, n)) or (core.methods[op] or mt[op])(unpack(args, 1, n))}
    return type(list[1]) == 'table' and list[1] or list
  end
  for _, call in ipairs(program.calls) do
    local made
    if not call.depends then made = {} -- constants have their tensors
    elseif call.op == 'scatter_view' then
      local base, args = given(call.args[1]):clone(), given(call.view.args, 4)
      args[call.view_arg] = base
      run(call.view.op, args, #call.view.params)[call.view_index]:copy_(given(call.args[2]))
      made = {base}
    else
      made = run(call.op, given(call.args, 4), #call.params)
    end
    for k, value in ipairs(call.results) do
      if made[k] then known[value] = made[k]:clone() end
    end
  end
  for i, value in ipairs(program.results) do results[i] = given(value) end
  return results
end

local function same(f, x, y)
  local program = record(f, {mt.randn(x:size()), mt.randn(y:size())})
  local got = replay(program, x:clone(), y:clone())
  for i, expected in ipairs{f(x:clone(), y:clone())} do
    if not mt.allclose(got[i], expected, {equal_nan = true, rtol = 1e-5, atol = 1e-6}) then
      error(('result %d differs'):format(i), 2)
    end
  end
  return program
end
local x, y = mt.randn(3, 4), mt.randn(4, 3)

t.test('a base that is written after views were made, and views of views', function()
  same(function(a)
    local row = a[2]
    local part = row:narrow(1, 2, 2)
    a:mul_(2)
    part:add_(1)
    a[{ {}, 3}] = 7
    return a, row, part, a:t()
  end, x, y)
end)

t.test('constants that are written with what depends on an input, and keep their old value elsewhere', function()
  local program = same(function(a)
    local zeros = mt.zeros(3, 4)
    local before = zeros + 1
    local kept = zeros + a
    zeros[1] = a[1]
    return zeros, before, kept
  end, x, y)
  t.eq(program.results[2].tensor ~= nil, true)
  t.eq(program.results[1].tensor, nil)
end)

t.test('{out=}, functions that call functions, results that are lists', function()
  same(function(a, b)
    local into = mt.zeros(3, 3)
    mt.matmul(a, b, {out = into})
    local parts = mt.no_grad(function() return into:split(1, 2) end)
    return into, parts[2], mt.enable_grad(mt.exp, parts[3])
  end, x, y)
end)

t.test('arguments by name, and their line', function()
  local program = record(function(a) return a:sum{dim = 2, keepdim = true} end, {x})
  local call = program.calls[1]
  t.eq({call.op, call.args[2], call.args[3], call.params[3].name}, {'sum', 2, true, 'keepdim'})
  t.eq(call.line:match('^test_record.lua:%d+$') ~= nil, true)
end)

--- Returns a random program of views and writes, which depends only on `seed`.
local function drawn(seed)
  return function(a, b)
    local state = seed * 7919 + 12345
    local function random(n)
      state = (state * 1103515245 + 12345) % 2147483648
      return math.floor(state / 65536) % n + 1
    end
    local pool = {a, b, mt.ones(3, 4), mt.zeros(4)}
    local function any() return pool[random(#pool)] end
    local steps = {
      function(s) return s:transpose(1, -1) end, function(s) return s:narrow(1, random(s.shape[1]), 1) end,
      function(s) return s[random(s.shape[1])] end, function(s) return s:reshape(-1) end,
      function(s) return s:unsqueeze(random(s:dim() + 1)) end, function(s) return s[{mt.ellipsis, {1, -1, 2}}] end,
      function(s) return s:view(-1, 2) end, function(s) return s:diagonal() end, function(s) return s + any() end,
      function(s) return s:clone() end, function(s) return s:unbind(1)[1] end, function(s) s:add_(any()) end,
      function(s) s:mul_(random(3) - 2.5) end, function(s) s:fill_(random(5)) end, function(s) s:copy_(any()) end,
      function(s) s[random(s.shape[1])] = any():sum() end,
      function(s) s[{mt.ellipsis, {1, 2}}] = any()[{mt.ellipsis, {1, 2}}] end,
    }
    for _ = 1, 14 do
      local ok, made = pcall(steps[random(#steps)], any())
      if ok and made and made:numel() > 0 and made:numel() < 100 and #pool < 12 then pool[#pool + 1] = made end
    end
    return unpack(pool)
  end
end
t.test('random programs of views and writes', function()
  for seed = 1, 150 do
    local ok, why = pcall(same, drawn(seed), x, y)
    if not ok then error(('program %d: %s'):format(seed, why)) end
  end
end)

t.finish()
