-- test_cuda_map.lua -- compiled functions on a GPU: the CPU's bits, any layout, gradients, CUDA C that compiles
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near = t.test, t.eq, t.near

t.needs_cuda()

mt.manual_seed(2)

-- These use the same formulas as on the CPU, so their bits are equal.
local same = {
  function(a, b) return 2 * a + b end,
  function(a, b) return a * b / (b * b + 1) - a end,
  function(a, b) return mt.relu(2.5 * a + 1.5) * b end,
  function(a, b) return a < b and a * a or b % 1.5 end,
  function(a, b) return math.max(a, b) - math.min(a, 0.5) + math.floor(a) + math.abs(b) end,
  function(a, b) return math.exp(a) + math.exp(b * 0.5) end,
  function(a, b) return math.sqrt(a * a + b * b) + math.log(a * a + 1) end,
  function(a, b) return a < b, a + b, a end,
}
-- Functions of the CUDA library, and those with a quotient that the CPU estimates, are only close.
local near_by = {
  function(a, b) return 0.5 * a * (1 + math.tanh(0.7978845608 * (a + 0.044715 * a ^ 3))) + b end,
  function(a, b) return math.sin(a) * math.cos(b) end,
  function(a, b) return mt.sigmoid(a) * mt.silu(b) end,
  function(a, b) return math.atan2(a, b) + math.abs(a) ^ b end,
}

local compiled = t.has_nvrtc() -- otherwise the device's kernels run operation by operation
local function both(f, ...)
  local cpu, gpu = {mt.zip(f)(...)}, {...}
  for i, x in ipairs(gpu) do gpu[i] = x:to('cuda') end
  return cpu, {mt.zip(f)(unpack(gpu))}
end

test('formulas have the bits of the CPU, in any layout and both floats', function()
  for _, dtype in ipairs {'float32', 'float64'} do
    local x, y = mt.randn({5, 7}, {dtype = dtype}), mt.randn({5, 7}, {dtype = dtype})
    local layouts = {{x, y}, {x:t(), y:t()}, {x:narrow(2, 2, 4), y:narrow(2, 1, 4)}, {x, y:narrow(1, 1, 1)},
      {x:narrow(2, 1, 1), y}, {x[1], mt.tensor(0.5, {dtype = dtype})}}
    for i, f in ipairs(same) do
      for n, l in ipairs(layouts) do
        if n > 1 and (i > 2 or dtype == 'float64') then break end -- each kernel is compiled
        local cpu, gpu = both(f, unpack(l))
        for k = 1, #cpu do
          eq(gpu[k].device, 'cuda:0')
          local same_bits = cpu[k]:equal(gpu[k]:cpu())
          if not compiled then same_bits = mt.allclose(cpu[k]:double(), gpu[k]:cpu():double()) end
          assert(same_bits, ('function %d, result %d, %s'):format(i, k, dtype))
        end
      end
    end
  end
end)

test('functions of the CUDA library are near', function()
  local x, y = mt.randn(200), mt.randn(200)
  for _, f in ipairs(near_by) do
    local cpu, gpu = both(f, x, y)
    near(gpu[1]:cpu():tolist(), cpu[1]:tolist(), 1e-5)
  end
end)

test('what has no kernel is composed: other functions, integers', function()
  local function f(a) return mt.digamma(a * a + 1) * 2 end
  local x = mt.randn(9)
  near(mt.map(f)(x:to('cuda')):cpu():tolist(), mt.map(f)(x):tolist(), 1e-5)
  eq(mt.map(function(a) return a * 2 + 1 end)(mt.range(1, 4):to('cuda')):cpu():tolist(), {3, 5, 7, 9})
end)

test('gradients, captured numbers, reductions, fused functions', function()
  local k = 2
  local f = mt.zip(function(a, b) return math.tanh(a * k) * b end)
  local x, y = mt.randn(4, 3):requires_grad_(), mt.randn(3):requires_grad_()
  f(x, y):sum():backward()
  local u, v = x:detach():to('cuda'):requires_grad_(), y:detach():to('cuda'):requires_grad_()
  f(u, v):sum():backward()
  near(u.grad:cpu():tolist()[2], x.grad:tolist()[2], 1e-6)
  near(v.grad:cpu():tolist(), y.grad:tolist(), 1e-5)
  k = 3
  near(f(u, v):cpu():tolist()[1], f(x, y):tolist()[1], 1e-6)
  local largest = mt.reduce(function(a, b) return math.max(a, b) end, -math.huge)
  eq(largest(x:detach():to('cuda')):item(), x:max():item())
  if compiled then
    local newton = mt.map(function(a)
      local r = a
      while math.abs(r * r - a) > 1e-6 * a do r = 0.5 * (r + a / r) end
      return r
    end)
    -- Not at 1, where the loop has no iterations, and the derivative is that of r = a.
    local p = mt.linspace(0.5, 1.5, 40):to('cuda'):requires_grad_()
    newton(p):sum():backward()
    near(p.grad:cpu():tolist(), (0.5 / p:detach():cpu():sqrt()):tolist(), 1e-4)
  end
  local function softmax(a) local e = (a - a:max(-1, true)):exp() return e / e:sum(-1, true) end
  near(mt.fuse(softmax)(x:detach():to('cuda')):cpu():tolist()[1], softmax(x):tolist()[1], 1e-6)
end)

test('16-bit floats are read and written by the kernel, with the bits of the CPU', function()
  for _, dtype in ipairs {'bfloat16', 'float16'} do
    local x, y = mt.randn(5, 7):to(dtype), mt.randn(5, 7):to(dtype)
    x[1][1], x[1][2], x[1][3], x[1][4] = math.huge, 0 / 0, 1e-7, 60000
    local layouts = {{x, y}, {x:t(), y:t()}, {x:narrow(2, 2, 4), y:narrow(2, 1, 4)}, {x[1], y}}
    for i, f in ipairs(same) do
      for _, n in ipairs {1, layouts[i] and i > 1 and i or nil} do -- each kernel is compiled
        local cpu, gpu = both(f, unpack(layouts[n]))
        for k = 1, #cpu do
          eq(gpu[k].dtype, cpu[k].dtype)
          assert(mt.equal(cpu[k], gpu[k]:cpu()) or cpu[k]:allclose(gpu[k]:cpu(), 0, 0, true), dtype)
        end
      end
    end
    local f, there, g = mt.map(function(a) return a * a * 0.3 end), y:to('cuda'):requires_grad_(), x:to('cuda')
    local list = require('mtorch.core').verbs_call(function() f(there):backward(g) end)
    local ran = {}
    for _, v in ipairs(list) do
      local memory = v.text:find ' alloc' or v.text:find ' free'
      if compiled and not memory then ran[#ran + 1] = v.text:match '%a+ %a+%d+' end
    end
    eq(ran, compiled and {'run ' .. dtype, 'run ' .. dtype} or {})
  end
end)

t.finish()
