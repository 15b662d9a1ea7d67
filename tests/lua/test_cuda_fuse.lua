-- test_cuda_fuse.lua -- fused functions on a GPU: one kernel for a program of rows, gradients, any layout
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near = t.test, t.eq, t.near

t.needs_cuda()
mt.manual_seed(3)
require('mtorch.core').compile().fuse_from(0) -- small tensors wait too
local compiled = t.has_nvrtc()

local functions = {
  softmax = function(x) local e = (x - x:amax(-1, true)):exp() return e / e:sum(-1, true) end,
  layer_norm = function(x)
    local d = x - x:mean(-1, true)
    return d / ((d * d):mean(-1, true) + 1e-5):sqrt()
  end,
  rms_norm = function(x) return x / ((x * x):mean(-1, true) + 1e-5):sqrt() end,
  loss = function(x) return (x:logsumexp(-1) - x:amin(-1)) * 2 end,
  standard = function(x) return (x - x:mean(-1, true)) / x:std(-1, true), x:gt(x:var(-1, true)) end,
}

--- Returns the computing verbs that ran on the GPU in fn().
local function verbs_of(fn)
  local list = {}
  for _, v in ipairs((require('mtorch.core').verbs_call(fn))) do
    for _, verb in ipairs {'run', 'map', 'reduce'} do
      if v.text:find('^cuda:0 ' .. verb) then list[#list + 1] = v.text end
    end
  end
  return list
end
--- Asserts that fn() runs as kernels of programs, at least one by rows, and sums for gradients of expanded inputs.
local function runs_by_rows(what, fn, sums)
  local ran, by_rows = verbs_of(fn), false
  for _, text in ipairs(ran) do
    by_rows = by_rows or text:find 'by rows'
    local other = text:find 'map mul' or sums and text:find 'reduce sum' -- a product that does not depend on the rows
    assert(not compiled or text:find ' run ' or other, what .. ': ' .. text)
  end
  assert(not compiled or by_rows, what)
end

--- Asserts that f on the CPU and mt.fuse(f) on the GPU have close results and gradients.
local function compare(f, what, tolerance, ...)
  local here, there = {...}, {}
  for i, x in ipairs(here) do
    there[i] = x:to('cuda') -- a transposed tensor stays one
    here[i], there[i] = x:detach():requires_grad_(), there[i]:detach():requires_grad_()
  end
  local a, b, fused = {f(unpack(here))}, nil, mt.fuse(f)
  fused(unpack(there)) -- records
  runs_by_rows(what, function() b = {fused(unpack(there))} end)
  for k = 1, #a do
    eq(b[k].device, 'cuda:0')
    eq(b[k].shape, a[k].shape)
    assert(a[k]:double():allclose(b[k]:detach():cpu():double(), tolerance, tolerance), what .. ': result ' .. k)
  end
  local g = mt.randn_like(a[1]:detach())
  a[1]:backward(g)
  g = g:to('cuda')
  runs_by_rows(what .. ', backwards', function() b[1]:backward(g) end, true)
  for i = 1, #here do
    assert(here[i].grad:allclose(there[i].grad:cpu(), tolerance, tolerance), what .. ': gradient ' .. i)
  end
end

test('rows of any length: teams of 1 to 1024 threads, in both floats', function()
  for _, n in ipairs {2, 7, 32, 100, 516, 1024, 1500} do
    for _, dtype in ipairs {'float32', 'float64'} do
      if dtype == 'float32' or n == 100 or n == 1024 then
        compare(functions.softmax, 'softmax of ' .. n, dtype == 'float32' and 1e-5 or 1e-11,
          mt.randn({n < 32 and 70 or 3, n}, {dtype = dtype}))
      end
    end
  end
end)

test('every reduction, with gradients', function()
  for name, f in pairs(functions) do compare(f, name, 2e-5, mt.randn(5, 40) + 2) end
end)

test('16-bit floats: one kernel that reads and writes them, float32 between', function()
  if not compiled then return print 'skipped: without NVRTC each operation rounds' end
  local lengths = { -- each kernel is compiled
    bfloat16 = {softmax = {7, 256, 1500}, layer_norm = {7}, rms_norm = {256}, loss = {1500}, standard = {7}},
    float16 = {softmax = {256}, layer_norm = {1500}}}
  for dtype, of in pairs(lengths) do
    for name, list in pairs(of) do
      local f = functions[name]
      for _, n in ipairs(list) do
        local x = mt.randn(5, n):to(dtype)
        local here, there = x:double():requires_grad_(), x:to('cuda'):requires_grad_()
        local a, b, fused = f(here), nil, mt.fuse(f)
        fused(there)
        runs_by_rows(name, function() b = fused(there) end)
        local g = mt.randn_like(a):to(dtype)
        a:backward(g:double())
        runs_by_rows(name, function() b:backward(g:to('cuda')) end)
        eq({b.dtype, there.grad.dtype}, {dtype, dtype})
        local ulp = dtype == 'float16' and 2 ^ -10 or 2 ^ -7
        assert(b:detach():cpu():double():allclose(a, ulp, 1e-5), name)
        assert(there.grad:cpu():double():allclose(here.grad, ulp, 1e-5), name)
        for _, text in ipairs(compiled and verbs_of(function() fused(there) end) or {}) do
          assert(text:find(dtype, 1, true), text)
        end
      end
    end
  end
end)

test('layouts: transposed, parts of tensors, weights along the row, one element a row', function()
  local f = functions.layer_norm
  compare(f, 'transposed', 1e-5, mt.randn(40, 12):t())
  compare(f, 'a part', 1e-5, mt.randn(3, 4, 140):narrow(3, 2, 128):narrow(2, 1, 2))
  compare(f, 'one row', 1e-5, mt.randn(9))
  compare(function(x, weight, bias, scale) return f(x) * weight + bias * scale end, 'weights', 1e-5,
    mt.randn(2, 3, 128), mt.randn(128), mt.randn(128), mt.randn(3, 1))
end)

test('rows that do not fit in registers are read again', function()
  local function f(x, y)
    local m, e = x:mean(-1, true), (x * y):exp()
    local p, q = (x - m) * y, e / e:sum(-1, true)
    local r, s = (p * q):sum(-1, true), (q * q):sum(-1, true)
    return p * r + q * s + e * m + x * y
  end
  compare(f, 'many values', 1e-4, mt.randn(2, 12000) * 0.5, mt.randn(2, 12000) * 0.5)
end)

test('one kernel runs where five did', function()
  if not compiled then return end
  local x = mt.randn(64, 100):to('cuda')
  local f = mt.fuse(functions.softmax)
  f(x)
  local ran = verbs_of(function() f(x) end)
  eq(#ran, 1)
  assert(ran[1]:find 'cuda:0 run float32 %(64 x 100%) of 5 operations by rows', ran[1])
  local chain = mt.fuse(function(a) return (a * 2 + 1):relu() * a:sigmoid() end)
  chain(x)
  eq(#verbs_of(function() chain(x) end), 1)
end)

test('what has no kernel is composed: integers, functions without CUDA C, other devices', function()
  local x = mt.randn(4, 9)
  local function f(a) return mt.digamma(a * a + 1) - a:sum(-1, true) end
  near(mt.fuse(f)(x:to('cuda')):cpu():tolist()[1], f(x):tolist()[1], 1e-5)
  eq(mt.fuse(function(a) return a * 2 + 1 end)(mt.range(1, 4):to('cuda')):cpu():tolist(), {3, 5, 7, 9})
  eq(mt.fuse(function(a, b) return a * b + 1 end)(mt.ones(3):to('cuda'), mt.tensor(2)):cpu():tolist(), {3, 3, 3})
  t.raises(function() mt.fuse(function(a, b) return a + b end)(mt.ones(3):to('cuda'), mt.ones(3)) end, 'cuda')
end)

test('memory of temporaries that ends where an argument begins is no change of the argument', function()
  if not compiled then return end
  for i = 1, 50 do
    local x = mt.randn(5, i % 2 == 0 and 256 or 7):bfloat16():to('cuda'):requires_grad_()
    local f = mt.fuse(functions.rms_norm)
    f(x)
    eq(#verbs_of(function() f(x) end), 1)
  end
end)

test('values that do not depend on the rows', function()
  local x = mt.randn(4, 9):to('cuda')
  eq(mt.fuse(function(a) return mt.where(a:gt(0), mt.ones(1):to('cuda') * 0 + 1, 1) + 0 end)(x):sum():item(), 36)
end)

t.finish()
