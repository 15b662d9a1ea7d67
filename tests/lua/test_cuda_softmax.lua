-- test_cuda_softmax.lua -- softmax and normalisation on the GPU compared with the CPU
local mt = require 'mtorch'
local t = require 'testing'
local test = t.test
t.needs_cuda()
local F = mt

--- Asserts that a on the GPU equals b on the CPU, within rounding errors.
local function same(a, b, what)
  assert(a.device == 'cuda:0' or tostring(a.device):find('cuda'), what)
  local tol = b.dtype == 'float64' and 1e-12 or 2e-5
  if not mt.allclose(a:cpu(), b, {rtol = tol, atol = tol, equal_nan = true}) then
    error(what .. ': largest difference ' .. (a:cpu() - b):abs():max():item(), 2)
  end
end

--- Compares the results and gradients of f on both devices.
local function compare(what, f, ...)
  local here, there = {}, {}
  for i, x in ipairs {...} do
    here[i] = x:clone():requires_grad_()
    there[i] = x:to('cuda'):requires_grad_()
  end
  local a, b = f(unpack(there)), f(unpack(here))
  same(a, b, what)
  if b:numel() == 0 then return end
  mt.manual_seed(3)
  local g = mt.rand(b.shape, {dtype = b.dtype})
  a:backward(g:to('cuda'))
  b:backward(g)
  for i = 1, #here do same(there[i].grad, here[i].grad, what .. ': gradient ' .. i) end
end

local shapes = {{16}, {48}, {500}, {1025}, {33, 3}, {45, 33, 40}, {3, 700, 2}, {2, 3, 600}, {1, 300, 100},
                {5, 1}, {1, 7}, {9000, 2}, {0}, {0, 3}, {3, 0}, {2, 70, 129}, {40, 9}}

test('softmax and log_softmax along every dimension', function()
  mt.manual_seed(1)
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, shape in ipairs(shapes) do
      local x = mt.randn(shape, {dtype = dtype}) * 5
      for dim = 1, #shape do
        local what = ('%s %s along %d'):format(dtype, table.concat(shape, ' x '), dim)
        compare('softmax ' .. what, function(y) return mt.softmax(y, dim) end, x)
        compare('log_softmax ' .. what, function(y) return mt.log_softmax(y, dim) end, x)
      end
    end
  end
end)

test('softmax of 0-d tensors, infinities, NaN and views', function()
  local inf = math.huge
  local rows = mt.tensor {{1, 2, inf}, {-inf, 0, 1}, {-inf, -inf, -inf}, {0 / 0, 1, 2}, {3, 3, 3}}
  for dim = 1, 2 do
    same(mt.softmax(rows:to('cuda'), dim), mt.softmax(rows, dim), 'softmax')
    same(mt.log_softmax(rows:to('cuda'), dim), mt.log_softmax(rows, dim), 'log_softmax')
  end
  compare('0-d', function(x) return mt.softmax(x, 1) end, mt.tensor(3.5))
  local x = mt.randn(7, 40, 6)
  compare('transposed', function(y) return mt.softmax(y:transpose(1, 3), 2) end, x)
  compare('strided', function(y) return mt.log_softmax(y[{{}, {1, 40, 3}}], 2) end, x)
  compare('expanded', function(y) return mt.softmax(y:expand(5, 4, 3), 1) end, mt.randn(4, 3))
end)

test('layer_norm and rms_norm', function()
  mt.manual_seed(2)
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, shape in ipairs {{16, 48}, {3, 500}, {45, 33, 40}, {2, 1025}, {700, 3}, {1, 1}, {20, 129}} do
      local n = shape[#shape]
      local x = mt.randn(shape, {dtype = dtype}) * 2 + 3
      local w, b = mt.rand(n, {dtype = dtype}) + 0.5, mt.randn(n, {dtype = dtype})
      local what = dtype .. ' ' .. table.concat(shape, ' x ')
      if n > 1 then
        compare('layer_norm ' .. what, function(...) return F.layer_norm(..., {n}) end, x)
        compare('layer_norm ' .. what, function(y, u, v) return F.layer_norm(y, {n}, u, v) end, x, w, b)
        compare('layer_norm ' .. what, function(y, u) return F.layer_norm(y, {n}, u) end, x, w)
      end
      compare('rms_norm ' .. what, function(y, u) return F.rms_norm(y, {n}, u) end, x, w)
    end
  end
  local x = mt.randn(6, 5, 4)
  compare('transposed', function(y) return F.layer_norm(y:transpose(1, 3), {5, 6}) end, x)
end)

test('batch_norm, instance_norm and group_norm', function()
  mt.manual_seed(4)
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, shape in ipairs {{16, 6}, {5, 4, 33}, {3, 6, 5, 7}, {4, 2, 30, 20}, {2, 8, 16}, {1, 4, 700}, {2, 80, 9}} do
      local c = shape[2]
      local x = mt.randn(shape, {dtype = dtype}) * 2 + 1
      local w, b = mt.rand(c, {dtype = dtype}) + 0.5, mt.randn(c, {dtype = dtype})
      local what = dtype .. ' ' .. table.concat(shape, ' x ')
      compare('batch_norm ' .. what, function(y, u, v)
        local mean, var = mt.zeros(c, {device = y.device}), mt.ones(c, {device = y.device})
        local out = F.batch_norm(y, mean, var, u, v, true)
        return out + (mean + var):reshape(1, c, unpack(({{}, {1}, {1, 1}})[#shape - 1])):to(dtype)
      end, x, w, b)
      compare('batch_norm, running ' .. what, function(y, u, v)
        return F.batch_norm(y, (b * 0.5):to(y.device), w:to(y.device), u, v)
      end, x, w, b)
      compare('batch_norm, running, without weights ' .. what, function(y)
        return F.batch_norm(y, b:to(y.device), w:to(y.device))
      end, x)
      if #shape > 2 then
        compare('instance_norm ' .. what, function(y, u, v)
          return F.instance_norm(y, nil, nil, u, v)
        end, x, w, b)
        compare('group_norm ' .. what, function(y, u, v) return F.group_norm(y, 2, u, v) end, x, w, b)
      end
    end
  end
end)

test('the other operands are on the device of the input', function()
  local x, w = mt.ones(4, 3):to('cuda'), mt.ones(3)
  t.raises(function() mt.layer_norm(x, {3}, w) end, 'layer_norm: weight is on cpu, the input on cuda')
  t.raises(function() mt.layer_norm(x:cpu(), {3}, nil, w:to('cuda')) end, "bias is on cuda.*x:to%('cpu'%)")
  for _, training in ipairs {true, false} do
    t.raises(function() mt.batch_norm(x, w, w, nil, nil, training) end, 'batch_norm: running_mean is on cpu')
  end
  t.raises(function() mt.group_norm(x, 3, w) end, 'group_norm: weight is on cpu')
end)

test('few and long channels are spread over blocks', function()
  mt.manual_seed(6)
  local function statistics(y, u, v, eps)
    local c = y.shape[2]
    local mean, var = mt.zeros(c, {device = y.device}), mt.ones(c, {device = y.device})
    return F.batch_norm(y, mean, var, u, v, true, 1, eps), mean, var
  end
  for _, dtype in ipairs {'float32', 'float64'} do
    for _, shape in ipairs {{12, 2, 41, 41}, {12, 2, 40, 44}, {1, 3, 130, 130}, {2, 1, 9001}, {11, 1, 1501}} do
      local c, what = shape[2], dtype .. ' ' .. table.concat(shape, ' x ')
      local x = mt.randn(shape, {dtype = dtype}) * 2 + 1
      local w, b = mt.rand(c, {dtype = dtype}) + 0.5, mt.randn(c, {dtype = dtype})
      compare('batch_norm ' .. what, statistics, x, w, b)
      compare('batch_norm without weights ' .. what, function(y) return (statistics(y)) end, x)
      compare('instance_norm ' .. what, function(y, u, v) return F.instance_norm(y, nil, nil, u, v) end, x, w, b)
    end
    local long = mt.randn({12 * 2 * 40 * 44 + 1}, {dtype = dtype}):to('cuda')
    local odd = long[{{2, long:numel()}}]:reshape(12, 2, 40, 44)
    local g, answers = mt.randn(12, 2, 40, 44, {dtype = dtype}):to('cuda'), {}
    for i, x in ipairs {odd, odd:clone()} do
      x = x:detach():requires_grad_()
      answers[i] = statistics(x)
      answers[i]:backward(g)
      answers[i + 2] = x.grad
    end
    assert(answers[1]:equal(answers[2]) and answers[3]:equal(answers[4]), 'where x lies is seen in the bits')
  end
  local x = mt.randn(12, 1, 41, 41) + 1e4
  local _, mean, var = statistics(x:to('cuda'))
  local exact = x:double()
  t.near(mean:item(), exact:mean():item(), 1e-3)
  t.near(var:item(), exact:var():item(), 1e-6 * exact:var():item())
  local function launches(...)
    local image, before = mt.randn(...):to('cuda'), mt.cuda.memory_stats().launches
    F.instance_norm(image)
    return mt.cuda.memory_stats().launches - before
  end
  t.eq(launches(1, 2, 130, 130) - launches(1, 2, 13, 13), 2)
end)

test('gradcheck and gradgradcheck work on the GPU', function()
  mt.manual_seed(5)
  local x = (mt.rand(3, 4, {dtype = 'float64'}) + 0.5):to('cuda'):requires_grad_()
  for _, f in ipairs {
    function(y) return mt.softmax(y, 1) end, function(y) return mt.log_softmax(y, 2) end,
    function(y) return mt.layer_norm(y, {4}) end, function(y) return mt.cumsum(y, 1) end,
  } do
    t.checks(f, x)
  end
  t.raises(function()
    mt.gradcheck(function(y) return y * y:detach() end, {x})
  end, 'finite differences')
end)

t.finish()
