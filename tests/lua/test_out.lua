-- test_out.lua -- {out=t}: results written into a tensor of the caller, and iteration over positions
local mt = require 'mtorch'
local t = require 'testing'
local core = require 'mtorch.core'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

local devices = {'cpu'}
if mt.cuda.is_available() then devices[2] = 'cuda' end

--- Returns the number of storages that fn() allocates on the CPU.
local function allocations(fn)
  fn() -- the first call also creates tables and code
  local before = select(5, core.memory())
  fn()
  return select(5, core.memory()) - before
end

local x = mt.tensor {{1, -2, 3}, {4, 5, -6}}
local y = mt.tensor {{2, 2, 2}, {3, 3, 3}}
local a, b = mt.rand(4, 5), mt.rand(5, 3)

--- name -> {the result's shape, the call fn(tensors of a device[, {out=}]), the number of its numeric constants}
local calls = {
  relu = {{2, 3}, function(d, ...) return d.x:relu(...) end},
  ['x + y'] = {{2, 3}, function(d, ...) return d.x:add(d.y, ...) end},
  ['x + 2'] = {{2, 3}, function(d, ...) return mt.add(d.x, 2, ...) end, 1},
  ['row broadcast'] = {{2, 3}, function(d, ...) return d.x:mul(d.y[1], ...) end},
  ['x:t()'] = {{3, 2}, function(d, ...) return d.x:t():exp(...) end},
  where = {{2, 3}, function(d, ...) return mt.where(d.m, d.x, d.y, ...) end},
  clamp = {{2, 3}, function(d, ...) return d.x:clamp(-1, 1, ...) end},
  ['sum of all'] = {{}, function(d, ...) return d.x:sum(...) end},
  ['sum(2)'] = {{2}, function(d, ...) return d.x:sum(2, ...) end},
  ['mean(1)'] = {{3}, function(d, ...) return d.x:mean(1, ...) end, 1},
  amax = {{2, 1}, function(d, ...) return d.x:amax(2, true, ...) end},
  max = {{}, function(d, ...) return d.x:max(...) end},
  prod = {{3}, function(d, ...) return d.x:prod(1, ...) end},
  logsumexp = {{2}, function(d, ...) return d.x:logsumexp(2, ...) end},
  matmul = {{4, 3}, function(d, ...) return d.a:matmul(d.b, ...) end},
  mm = {{4, 3}, function(d, ...) return mt.mm(d.a, d.b, ...) end},
  ['matrix and vector'] = {{4}, function(d, ...) return d.a:matmul(d.b:t()[1], ...) end},
  ['vector and matrix'] = {{3}, function(d, ...) return d.a[1]:matmul(d.b, ...) end},
  dot = {{}, function(d, ...) return d.a[1]:dot(d.a[2], ...) end},
}
--- calls with intermediate tensors, and those with another dtype
local indirect = {
  std = {{2}, function(d, ...) return d.x:std(2, ...) end},
  norm = {{}, function(d, ...) return d.x:norm(...) end},
  cumsum = {{2, 3}, function(d, ...) return d.x:cumsum(2, ...) end},
  addmm = {{4, 3}, function(d, ...) return mt.addmm(d.b[1], d.a, d.b, ...) end},
  ['add, alpha'] = {{2, 3}, function(d, ...)
    return d.x:add(d.y, {alpha = 3, out = (...) and (...).out})
  end},
  ['long and float'] = {{2, 3}, function(d, ...) return d.x:add(d.y:long(), ...) end},
}

for _, device in ipairs(devices) do
  local d = {x = x:to(device), y = y:to(device), a = a:to(device), b = b:to(device), m = x:gt(y):to(device)}
  for kind, list in pairs {direct = calls, indirect = indirect} do
    for name, call in pairs(list) do
      test(('%s into out, on %s'):format(name, device), function()
        local want = call[2](d)
        local out = mt.full(call[1], -7, {device = device})
        local result = call[2](d, {out = out})
        assert(rawequal(result, out), 'the result is not out')
        eq(out:tolist(), want:tolist())
        local wide = mt.zeros(call[1], {dtype = 'float64', device = device}) -- of a wider type
        call[2](d, {out = wide})
        near(wide:reshape(-1):tolist(), want:double():reshape(-1):tolist(), 1e-6)
        local double = {unpack(call[1])}
        double[#double + 1] = 2
        local gaps = mt.zeros(double, {device = device})[{mt.ellipsis, 2}] -- every second element
        call[2](d, {out = gaps})
        eq(gaps:tolist(), want:tolist())
        if kind == 'direct' and device == 'cpu' then
          local options = {out = out}
          local without = allocations(function() call[2](d) end)
          local with = allocations(function() call[2](d, options) end)
          eq({without - with, with}, {1, call[3] or 0})
        end
      end)
    end
  end

  test('bool and positions, on ' .. device, function()
    local out = mt.zeros({2, 3}, {dtype = 'bool', device = device})
    d.x:lt(d.y, {out = out})
    eq(out:tolist(), {{true, true, false}, {false, false, true}})
    local at = mt.zeros({2}, {dtype = 'int64', device = device})
    assert(rawequal(d.x:argmax(2, {out = at}), at))
    eq(at:tolist(), {3, 2})
    local any = mt.zeros({}, {dtype = 'bool', device = device})
    assert(rawequal(out:any({out = any}), any))
    eq(any:item(), true)
  end)

  test('out is an input, or overlaps one, on ' .. device, function()
    local z = mt.range(1, 6):float():to(device)
    z:mul(z, {out = z})
    eq(z:tolist(), {1, 4, 9, 16, 25, 36})
    z[{{1, 5}}]:add(z[{{2, 6}}], {out = z[{{2, 6}}]}) -- the second input exactly, the first shifted
    eq(z:tolist(), {1, 5, 13, 25, 41, 61})
    z:add(z[1], {out = z}) -- one element of it
    eq(z:tolist(), {2, 6, 14, 26, 42, 62})
    local square = mt.tensor({{1, 2}, {3, 4}}):to(device)
    square:add(square:t(), {out = square})
    eq(square:tolist(), {{2, 5}, {5, 8}})
    square:matmul(square, {out = square})
    eq(square:tolist(), {{29, 50}, {50, 89}})
    square:sum(1, {out = square[1]})
    eq(square:tolist(), {{79, 139}, {50, 89}})
    local low, high = mt.tensor({2, 2, 2}):to(device), mt.tensor({3, 3, 3}):to(device)
    mt.tensor({1, 2.5, 4}):to(device):clamp(low, high, {out = high})
    eq(high:tolist(), {2, 2.5, 3})
  end)
end

test('errors of out change nothing', function()
  local out = mt.full({3, 2}, 5)
  raises(function() x:add(y, {out = out}) end, 'add: out is %(3 x 2%), the result %(2 x 3%)')
  raises(function() x:sum(1, {out = out}) end, 'sum: out is %(3 x 2%), the result %(3%)')
  raises(function() a:matmul(b, {out = out}) end, 'matmul: out is %(3 x 2%), the result %(4 x 3%)')
  raises(function() a[1]:matmul(b, {out = mt.zeros(1, 3)}) end, 'out is %(1 x 3%), the result %(3%)')
  raises(function() x:t():add(1, {out = out:long()}) end, 'out is int64, which cannot hold the result, float32')
  raises(function() x:t():long():add(1, {out = out:bool()}) end, 'out is bool, which cannot hold')
  raises(function() x:exp({out = 5}) end, 'exp: out must be a tensor, got 5')
  raises(function() x:relu({ouut = out}) end, "unknown option 'ouut'")
  raises(function() x:relu(out) end, 'relu: 2 arguments given, it takes 1')
  raises(function() x:max(1, {out = mt.zeros(3)}) end, 'several results')
  raises(function() x:t():add(1, {out = mt.zeros(2):expand(3, 2)}) end, 'expanded in dimension 1')
  raises(function() mt.zeros(0):amax({out = mt.zeros({})}) end, 'no elements')
  eq(out:tolist(), {{5, 5}, {5, 5}, {5, 5}})
end)

test('out and gradients', function()
  local w, out = mt.ones(2):requires_grad_(), mt.zeros(2)
  raises(function() w:mul(2, {out = out}) end, 'mul: out=: .* requires a gradient')
  raises(function() mt.ones(2):mul(2, {out = w}) end, 'requires a gradient')
  raises(function() mt.ones(2):mul(2, {out = (w * 1)}) end, 'requires a gradient')
  mt.no_grad(function() w:mul(3, {out = w}) end)
  eq(w:tolist(), {3, 3})
  eq({w.requires_grad, w.is_leaf}, {true, true})
  local saved = mt.ones(2)
  local loss = (w * saved):sum() -- saved, then written
  mt.ones(2):mul(4, {out = saved})
  raises(function() loss:backward() end, 'changed in place')
end)

test('16-bit floats, autocast and debugging', function()
  local half, out = x:half(), mt.zeros({2, 3}, 'float16')
  assert(rawequal(half:exp({out = out}), out))
  eq(out:tolist(), half:exp():tolist())
  local wide = mt.zeros(2, 3)
  mt.autocast(function() a:matmul(b, {out = mt.zeros(4, 3)}) half:exp({out = wide}) end)
  near(wide:reshape(-1):tolist(), half:float():exp():reshape(-1):tolist(), 1e-3)
  mt.set_debug(true)
  local ok = pcall(function() mt.tensor({-1}):log({out = mt.zeros(1)}) end)
  mt.set_debug(false)
  eq(ok, false)
end)

test('x:indices()', function()
  local seen = {}
  for i, j in mt.zeros(2, 3):indices() do seen[#seen + 1] = i .. ' ' .. j end
  eq(seen, {'1 1', '1 2', '1 3', '2 1', '2 2', '2 3'})
  local m1, m2 = mt.rand(3, 4), mt.rand(4, 2) -- the lecture's product
  local out = mt.zeros(3, 2)
  for i, j in out:indices() do
    for k = 1, 4 do out[{i, j}] = out[{i, j}] + m1[{i, k}] * m2[{k, j}] end
  end
  mt.test_close(out, m1:matmul(m2))
  local count = 0
  for i, j, k, l in mt.zeros(2, 1, 3, 2):indices() do count = count + l end
  eq(count, 18)
  for _ in mt.zeros(3, 0):indices() do error('there is none') end
  raises(function() mt.tensor(1):indices() end, 'indices: a 0%-d tensor has no positions')
end)

t.test('clamp_min and clamp_max write into out', function()
  local z = mt.zeros(3)
  t.eq(mt.clamp_min(mt.tensor{1, 2, 3}, 2, {out = z}):tolist(), {2, 2, 3})
  t.eq(mt.clamp_max(mt.tensor{1, 2, 3}, 2, {out = z}):tolist(), {1, 2, 2})
  t.eq(z:tolist(), {1, 2, 2})
end)

t.test('indices of values that are not tensors', function()
  t.raises(function() local _ = mt.zeros(2).indices(5) end, 'indices: x must be a tensor, got')
  t.raises(function() local _ = mt.zeros(2).indices('a') end, 'indices: x must be a tensor, got')
end)

t.finish()
