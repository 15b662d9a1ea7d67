-- test_bf16_products.lua -- products and convolutions of bfloat16, which oneDNN computes on some processors: values,
-- bits, gradients
local mt = require 'mtorch'
local t = require 'testing'
local test, eq = t.test, t.eq

local function operand(rows, columns, transposed)
  return (transposed and mt.randn(columns, rows):t() or mt.randn(rows, columns)):bfloat16()
end

--- Asserts that y is within one unit in the last place of the largest value, because it is rounded once.
local function near(y, exact)
  eq(y.dtype, 'bfloat16')
  eq((y:double() - exact):abs():max():item() <= exact:abs():max():item() / 256, true)
end

test('layouts, sizes that are not multiples, any number of threads', function()
  local before = mt.get_num_threads()
  local shapes = {{128, 130, 131}, {64, 784, 128}, {700, 301, 513}, {40, 5000, 20}, {20, 300, 2000},
                  {130, 17, 1000}}
  for _, s in ipairs(shapes) do
    for layout = 0, 3 do
      local a, b = operand(s[1], s[2], layout % 2 == 1), operand(s[2], s[3], layout >= 2)
      mt.set_num_threads(1)
      local c = a:matmul(b)
      near(c, a:double():matmul(b:double()))
      for _, threads in ipairs{2, 3, 8} do
        mt.set_num_threads(threads)
        eq(mt.equal(a:matmul(b), c), true)
      end
    end
  end
  mt.set_num_threads(before)
end)

test('batches, a target, a view whose rows have gaps', function()
  local x, y = mt.randn(3, 150, 200):bfloat16(), mt.randn(1, 200, 150):bfloat16()
  local exact = x:double():matmul(y:double())
  near(x:matmul(y), exact)
  local out = mt.zeros({3, 150, 150}, {dtype = 'bfloat16'})
  mt.matmul(x, y, {out = out})
  near(out, exact)
  local wide = mt.randn(200, 400):bfloat16()
  local part, every_other = wide:narrow(2, 11, 200), wide[{{}, {1, 400, 2}}]
  near(part:matmul(part), part:double():matmul(part:double()))
  near(part:matmul(every_other), part:double():matmul(every_other:double()))
end)

test('linear and its gradients', function()
  local x, w = mt.randn(200, 160):bfloat16():requires_grad_(), mt.randn(130, 160):bfloat16():requires_grad_()
  local bias = mt.randn(130):bfloat16():requires_grad_()
  local g = mt.randn(200, 130):bfloat16()
  local y = mt.linear(x, w, bias)
  near(y, x:detach():double():matmul(w:detach():double():t()) + bias:detach():double())
  y:backward(g)
  near(x.grad, g:double():matmul(w:detach():double()))
  near(w.grad, g:double():t():matmul(x:detach():double()))
  near(bias.grad, g:double():sum(1))
end)

test('convolutions and their gradients, any number of threads', function()
  local before = mt.get_num_threads()
  -- Batch, inputs, outputs, size, kernel, stride, padding, groups.
  local list = {{8, 64, 48, 20, 3, 1, 1, 1}, {4, 32, 64, 21, 3, 2, 1, 1}, {4, 64, 32, 19, 1, 1, 0, 1},
                {8, 32, 32, 28, 3, 1, 1, 32}, {2, 64, 64, 14, 3, 1, 1, 4}, {3, 48, 80, 17, 5, 1, 2, 1},
                {1, 64, 96, 33, 3, 1, 0, 1}, {2, 256, 256, 8, 3, 1, 1, 1}, {4, 3, 32, 24, 5, 2, 2, 1}}
  local function gradients(x, w, b, g, o)
    x, w, b = x:detach():requires_grad_(), w:detach():requires_grad_(), b:detach():requires_grad_()
    local y = mt.conv2d(x, w, b, o)
    y:backward(g)
    return {y:detach(), x.grad, w.grad, b.grad}
  end
  for _, c in ipairs(list) do
    local batch, inputs, outputs, size, kernel, stride, padding, groups = unpack(c)
    local x, w = mt.randn(batch, inputs, size, size):bfloat16(), mt.randn(outputs, inputs / groups, kernel, kernel)
    w = (w / 8):bfloat16()
    local b, o = mt.randn(outputs):bfloat16(), {stride = stride, padding = padding, groups = groups}
    local g = mt.randn(mt.conv2d(x, w, b, o):size()):bfloat16()
    local exact = gradients(x:double(), w:double(), b:double(), g:double(), o)
    local first
    for _, threads in ipairs{1, 2, 3, 8} do
      mt.set_num_threads(threads)
      local got = gradients(x, w, b, g, o)
      first = first or got
      for i = 1, 4 do
        near(got[i], exact[i])
        eq(mt.equal(got[i], first[i]), true)
      end
    end
    near(mt.conv2d(x, w, nil, o), mt.conv2d(x:double(), w:double(), nil, o))
  end
  mt.set_num_threads(before)
end)

test('without oneDNN', function()
  local code = [[local x = mt.ones({300, 300}, {dtype = 'bfloat16'}) print(x:matmul(x):float():sum():item())]]
  eq(t.run('MTORCH_ONEDNN=off', code), '27000000\n')
  eq(t.run('', code), '27000000\n')
end)

t.finish()
