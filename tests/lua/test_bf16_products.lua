-- test_bf16_products.lua -- products and convolutions of bfloat16, which oneDNN computes on some processors: values,
-- bits, gradients
local mt = require 'mtorch'
local t = require 'testing'
local test, eq = t.test, t.eq

local function operand(rows, columns, transposed)
  return (transposed and mt.randn(columns, rows):t() or mt.randn(rows, columns)):bfloat16()
end

--- Asserts that y is within some units in the last place of the largest value: one if it is rounded once.
local function near(y, exact, units)
  eq(y.dtype, 'bfloat16')
  eq((y:double() - exact):abs():max():item() <= exact:abs():max():item() * (units or 1) / 256, true)
end

--- Returns the list f() of tensors, which has the same bits on any number of threads.
local function for_any_threads(f) return {t.on_threads(function() return unpack(f()) end)} end

test('layouts, sizes that are not multiples, any number of threads', function()
  local shapes = {{128, 130, 131}, {64, 784, 128}, {700, 301, 513}, {40, 5000, 20}, {20, 300, 2000},
                  {130, 17, 1000}}
  for _, s in ipairs(shapes) do
    for layout = 0, 3 do
      local a, b = operand(s[1], s[2], layout % 2 == 1), operand(s[2], s[3], layout >= 2)
      near(for_any_threads(function() return {a:matmul(b)} end)[1], a:double():matmul(b:double()))
    end
  end
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
    local got = for_any_threads(function() return gradients(x, w, b, g, o) end)
    for i = 1, 4 do near(got[i], exact[i]) end
    near(mt.conv2d(x, w, nil, o), mt.conv2d(x:double(), w:double(), nil, o))
    local only = x:clone():requires_grad_()
    near(mt.grad(mt.conv2d(only, w, b, o), only, {grad_outputs = g}), exact[2])
  end
end)

test('batches that share a matrix, a bias with gaps, a compiled step', function()
  local x, w = mt.randn(16, 12, 160):bfloat16(), mt.randn(160, 130):bfloat16()
  near(for_any_threads(function() return {x:matmul(w)} end)[1], x:double():matmul(w:double()))
  local weight, bias = mt.randn(260, 160):bfloat16(), mt.randn(260, 2):bfloat16():select(2, 1)
  local exact = x:double():matmul(weight:double():t()) + bias:double()
  near(mt.linear(x, weight, bias), exact)
  near(mt.linear(x, weight, mt.ones({1}, 'bfloat16'):expand(260)), exact - bias:double() + 1)
  local step = mt.compile(function(x) return mt.linear(x, weight, bias) end)
  for _ = 1, 4 do eq(mt.equal(step(x), mt.linear(x, weight, bias)), true) end
  bias:mul_(2)
  eq(mt.equal(step(x), mt.linear(x, weight, bias)), true)
end)

test('few rows and columns, with a bias', function()
  local x, w, bias = mt.randn(12, 300):bfloat16(), mt.randn(700, 300):bfloat16(), mt.randn(700):bfloat16()
  for rows = 1, 12 do
    local y = for_any_threads(function() return {mt.linear(x:narrow(1, 1, rows), w, bias)} end)[1]
    near(y, x:narrow(1, 1, rows):double():matmul(w:double():t()) + bias:double())
    local z = for_any_threads(function() return {w:matmul(x:narrow(1, 1, rows):t())} end)[1]
    near(z, w:double():matmul(x:narrow(1, 1, rows):double():t()))
  end
end)

test('attention: operands are rounded to bfloat16, scores are not', function()
  for _, size in ipairs{{150, 64}, {150, 40}, {90, 64}, {300, 16}} do
    local function draw() return mt.randn(2, 4, unpack(size)):bfloat16() end
    local q, k, v, g = draw() * 3, draw(), draw(), draw()
    for _, causal in ipairs{false, true} do
      local function results(dtype)
        local x = {}
        for i, one in ipairs{q, k, v} do x[i] = one:to(dtype):clone():requires_grad_() end
        local y = mt.scaled_dot_product_attention(x[1], x[2], x[3], {is_causal = causal})
        y:backward(g:to(dtype))
        return {y:detach(), x[1].grad, x[2].grad, x[3].grad}
      end
      local got, exact = for_any_threads(function() return results('bfloat16') end), results('float64')
      for i = 1, 4 do near(got[i], exact[i], 2) end
    end
  end
end)

test('recurrent layers round the state to bfloat16 for products only', function()
  for _, class in ipairs{'LSTM', 'GRU', 'RNN'} do
    mt.manual_seed(5)
    local net, x = mt.nn[class](96, 192, 2), mt.randn(7, 24, 96):bfloat16()
    net:bfloat16()
    local y = for_any_threads(function() return {(mt.no_grad(net, x))} end)[1]
    net:double()
    local exact = mt.no_grad(net, x:double())
    eq((y:double() - exact):abs():max():item() < 1 / 128, true)
  end
  local net, sequences = mt.nn.LSTM(96, 192):bfloat16(), {}
  for i = 1, 24 do sequences[i] = mt.randn(i < 3 and 20 or 5, 96):bfloat16() end
  local packed = mt.nn.pack_sequence(sequences)
  local y = for_any_threads(function() return {(mt.nn.pad_packed_sequence((mt.no_grad(net, packed))))} end)[1]
  for _, i in ipairs{1, 2, 24} do
    local one = mt.no_grad(net, sequences[i]:unsqueeze(2)):squeeze(2)
    eq((y:narrow(1, 1, #sequences[i]):select(2, i):float() - one:float()):abs():max():item() < 1 / 128, true)
  end
end)

test('gradients of recurrent layers: factors of products are rounded to bfloat16, sums are not', function()
  for _, class in ipairs{'LSTM', 'GRU', 'RNN'} do
    for _, size in ipairs{{7, 24, 96, 192}, {6, 5, 33, 47}, {7, 1, 96, 192}, {3, 20, 64, 130}} do
      local steps, rows, inputs, hidden = unpack(size)
      local net, x, g = mt.nn[class](inputs, hidden), mt.randn(steps, rows, inputs), mt.randn(steps, rows, hidden)
      net:bfloat16()
      x, g = x:bfloat16(), g:bfloat16()
      local parameters = net:parameters()
      local function gradients(dtype)
        local input = x:to(dtype):clone():requires_grad_()
        local y = net(input)
        return {y:detach(), unpack(mt.grad(y, {input, unpack(parameters)}, {grad_outputs = g:to(dtype)}))}
      end
      local got = for_any_threads(function() return gradients 'bfloat16' end)
      net:double()
      for i, exact in ipairs(gradients 'float64') do near(got[i], exact, 2) end
    end
  end
  -- A weight at an odd offset in memory.
  local all, x, h = mt.randn(8 * 64 * 6 + 1):bfloat16(), mt.randn(3, 8, 6):bfloat16(), mt.zeros(8, 64):bfloat16()
  local shifted = all:narrow(1, 2, 256 * 6):view(256, 6)
  local w = mt.randn(256 * 64 + 1):bfloat16():narrow(1, 2, 256 * 64):view(256, 64)
  local function run(w_ih, w_hh) return (mt.recurrent_layer(x, w_ih, w_hh, nil, nil, h, h, nil, {mode = 'lstm'})) end
  eq(mt.equal(run(shifted, w), run(shifted:clone(), w:clone())), true)
end)

test('without oneDNN', function()
  local code = [[local x = mt.ones({300, 300}, {dtype = 'bfloat16'}) print(x:matmul(x):float():sum():item())]]
  eq(t.run('MTORCH_ONEDNN=off', code), '27000000\n')
  eq(t.run('', code), '27000000\n')
end)

t.finish()
