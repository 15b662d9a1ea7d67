-- test_bf16_products.lua -- products of bfloat16 as on a processor with AMX: values, bits, gradients
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

test('without oneDNN', function()
  local code = [[local x = mt.ones({300, 300}, {dtype = 'bfloat16'}) print(x:matmul(x):float():sum():item())]]
  eq(t.run('MTORCH_ONEDNN=off', code), '27000000\n')
  eq(t.run('', code), '27000000\n')
end)

t.finish()
