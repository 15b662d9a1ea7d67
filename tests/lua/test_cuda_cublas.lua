-- test_cuda_cublas.lua -- large products on a GPU by cuBLAS, which the emulation replaces
local mt = require 'mtorch'
local t = require 'testing'
local run = t.run
t.needs_cuda()

local plugin = os.getenv 'MTORCH_CUDA_PLUGIN' or ''
local by_cublas = not plugin:find 'emulated' or os.getenv 'MTORCH_CUBLAS' == plugin
if not plugin:find 'emulated' then
  t.test('cuBLAS is there', function()
    local x = mt.rand({256, 256}, {device = 'cuda'})
    local _ = x:matmul(x)
    t.eq(mt.cuda.memory_stats().products:match('^cuBLAS %d+%.%d+%.%d+, ') ~= nil, true)
  end)
end

--- Returns the largest difference of two tensors, relative to the largest element.
local function apart(x, exact) return (x:cpu():double() - exact):abs():max():item() / exact:abs():max():item() end

t.test('products of float32 are TF32 where that is let, gradients too, and others never', function()
  if not by_cublas then return end
  mt.manual_seed(1)
  for precision, tf32 in pairs {highest = false, high = true, medium = true} do
    mt.set_float32_matmul_precision(precision)
    t.eq(mt.get_float32_matmul_precision(), precision)
    for _, dtype in ipairs {'float32', 'float64'} do
      local function check(x, y)
        x, y = x:to(dtype), y:to(dtype)
        local exact = x:double():matmul(y:double())
        local function check_one(got, of)
          local most = apart(got, of)
          local is_exact = not (tf32 and dtype == 'float32')
          t.eq({precision, dtype, most < 3e-3, most < 3e-5}, {precision, dtype, true, is_exact})
        end
        local a, b = x:to('cuda'):requires_grad_(), y:to('cuda'):requires_grad_()
        local c = a:matmul(b)
        local da, db = unpack(mt.grad(c, {a, b}, {grad_outputs = c:detach()}))
        check_one(c:detach(), exact)
        check_one(da, exact:matmul(y:double():transpose(-2, -1)))
        check_one(db, x:double():transpose(-2, -1):matmul(exact))
        t.near(apart(x:matmul(y), exact), 0, 1e-5) -- on the CPU
      end
      check(mt.randn(128, 256), mt.randn(256, 192))
      check(mt.randn(3, 128, 256), mt.randn(3, 256, 192))
    end
  end
  mt.set_float32_matmul_precision 'highest'
  t.raises(function() mt.set_float32_matmul_precision 'low' end, "'highest', 'high' or 'medium'")
end)

t.test('a compiled step is recorded again for another precision, a graph is not replayed', function()
  if not by_cublas then return end
  local x = mt.randn({128, 128}, {device = 'cuda'})
  local function product(v) return v:matmul(v) end
  local step, graph = mt.compile(product), mt.cuda.graph(function() return product(x) end)
  local exact = product(x):clone()
  for _ = 1, 3 do
    mt.set_float32_matmul_precision 'highest'
    for _ = 1, 4 do t.eq(mt.equal(step(x), exact), true) end
    t.eq(mt.equal(graph(), exact), true)
    mt.set_float32_matmul_precision 'high'
    local rounded = product(x)
    t.eq(mt.equal(rounded, exact), false)
    for _ = 1, 4 do t.eq(mt.equal(step(x), rounded), true) end
    t.raises(graph, "recorded with mt.set_float32_matmul_precision%('highest'%), which is 'high' now")
  end
  mt.set_float32_matmul_precision 'highest'
end)

if not plugin:find 'emulated' then return t.finish() end

local product = [[
local x = mt.range(1, 6):float():reshape(2, 3):to('cuda')
print(x:matmul(x:t()):tolist()[2][2], x:t():matmul(x):tolist()[3][3])
print(mt.cuda.memory_stats().products)
]]

t.test('one handle that cannot be made is tried again', function()
  local text = run('MTORCH_EMULATED_CUBLAS=1 MTORCH_CUBLAS=' .. plugin, product)
  t.eq(text, '77\t45\ncuBLAS 13.1.0, ' .. plugin .. '\n')
end)

t.test('a failure is reported once, products still work, and later ones try again', function()
  local text = run('MTORCH_EMULATED_CUBLAS=2 MTORCH_CUBLAS=' .. plugin, product)
  local lost = 'no cuBLAS %(.* does not start %(its status is 3%)%): large products on the GPU are 10 to 50 times'
  t.eq({text:find('^mtorch: ' .. lost) ~= nil, text:find('\n77\t45\n', 1, true) ~= nil}, {true, true})
  t.eq(text:find('\ncuBLAS 13.1.0, ', 1, true) ~= nil, true)
  text = run('MTORCH_EMULATED_CUBLAS=99 MTORCH_CUBLAS=' .. plugin, product)
  t.eq(select(2, text:gsub('mtorch: ' .. lost, '')), 1)
  t.eq(text:find('\n' .. lost) ~= nil, true)
end)

t.test('a library that is none is named', function()
  local text = run('MTORCH_CUBLAS=/nowhere.so', product)
  t.eq(text:find('^mtorch: no cuBLAS %(/nowhere.so: .*MTORCH_CUBLAS\n') ~= nil, true)
  t.eq(run('MTORCH_CUBLAS=libm.so.6', product):find('libm.so.6 is not cuBLAS of CUDA 12 or 13', 1, true) ~= nil, true)
end)

if os.getenv 'MTORCH_CUBLAS' ~= plugin then
  print('skipped: the products; MTORCH_CUBLAS=' .. plugin .. ' runs them')
  return t.finish()
end

--- Counts fn()'s calls of cuBLAS: single, batched, with 16-bit floats, with a beta.
local calls = t.count_during(plugin, 'emulated_cublas_calls', 4)
local function near(a, b, tolerance)
  t.near(a:cpu():double():flatten():tolist(), b:double():flatten():tolist(), tolerance)
end

t.test('every layout, type and batch, with the calls that it takes', function()
  mt.manual_seed(1)
  for dtype, tolerance in pairs {float32 = 1e-5, float64 = 1e-12, float16 = 2e-2, bfloat16 = 1e-1} do
    local half = dtype:find '16' and 1 or 0
    local a, b = mt.randn(5, 7):to(dtype), mt.randn(7, 4):to(dtype)
    local e, f = mt.randn(3, 5, 7):to(dtype), mt.randn(3, 7, 4):to(dtype)
    local cases = {
      {{1, 0, half, 0}, function(x, y) return x:matmul(y) end, a, b},
      {{1, 0, half, 0}, function(x, y) return x:matmul(y:t()) end, a, b:t():contiguous()},
      {{1, 0, half, 0}, function(x, y) return x:t():matmul(y) end, a:t():contiguous(), b},
      {{1, 0, half, 0}, function(x, y) return x:t():matmul(y:t()) end, a:t():contiguous(), b:t():contiguous()},
      {{1, 0, half, 0}, function(x, y) return x[{{}, {2, 4}}]:matmul(y[{{2, 4}}]) end, a, b},
      {{0, 1, half, 0}, function(x, y) return x:bmm(y) end, e, f},
      {{0, 1, half, 0}, function(x, y) return x:matmul(y) end, a, f},
      {{1, 0, half, 0}, function(x, y) return x:matmul(y) end, e, b}, -- rows of one product
      {{0, 1, half, 0}, function(x, y) return x:transpose(2, 3):matmul(y) end, e:transpose(2, 3):contiguous(), f},
    }
    for i, case in ipairs(cases) do
      local expected, x, y, got = case[2](case[3], case[4]), case[3]:to('cuda'), case[4]:to('cuda'), nil
      t.eq({dtype, i, calls(function() got = case[2](x, y) end)}, {dtype, i, case[1]})
      near(got, expected, tolerance)
    end
  end
end)

t.test('a product that is added: beta', function()
  local x, w, b = mt.randn(6, 5), mt.randn(4, 5), mt.randn(4)
  local got
  t.eq(calls(function() got = mt.linear(x:to('cuda'), w:to('cuda'), b:to('cuda')) end)[4], 1)
  near(got, mt.linear(x, w, b), 1e-5)
end)

t.test('strides that it cannot read take the own kernels', function()
  local x, y = mt.randn(6, 10), mt.randn(5, 4)
  local function f(a, b) return a[{{}, {1, 10, 2}}]:matmul(b) end
  local got
  t.eq(calls(function() got = f(x:to('cuda'), y:to('cuda')) end), {0, 0, 0, 0})
  near(got, f(x, y), 1e-5)
  local i = mt.ones({3, 3}, 'int64')
  t.eq(calls(function() got = i:to('cuda'):matmul(i:to('cuda')) end), {0, 0, 0, 0})
  near(got, i:matmul(i), 0)
end)

--- Returns f(x, w), its two gradients for a gradient g of the result, and the calls of each of the three.
local function parts(device, f, x, w, g)
  x, w = x:to(device), w:to(device)
  local all, n = {}, {}
  n[1] = calls(function() all[1] = f(x, w) end)
  g = g or mt.randn(all[1].shape):to(x.dtype)
  for part, name in ipairs {'x', 'w'} do
    local a = {x = x:detach(), w = w:detach()}
    local y = f(a.x, a.w, a[name]:requires_grad_())
    n[part + 1] = calls(function() all[part + 1] = mt.grad(y, a[name], {grad_outputs = g:to(device)}) end)
  end
  return all, n, g
end

t.test('convolutions are products, with the calls that they take', function()
  local one = {0, 1, 0, 0}
  local cases = { -- images, channels, weight, options, calls for y, x and w
    {{3, 6, 9, 8}, {5, 6, 1, 1}, {}, {one, one, one}}, -- as they lie: the batch is one call
    {{1, 6, 9, 8}, {5, 6, 1, 1}, {}, {{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}}},
    {{3, 6, 9, 8}, {4, 3, 1, 1}, {groups = 2}, {{0, 2, 0, 0}, {0, 2, 0, 0}, {0, 2, 0, 0}}},
    {{3, 6, 9, 8}, {5, 6, 1, 1}, {stride = 2}, {one, one, one}}, -- gathered
    {{3, 4, 6, 7}, {5, 4, 3, 3}, {padding = 1}, {{1, 1, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 1}}}, -- 2 + 1 images
    {{5, 16, 3, 3}, {24, 16, 3, 3}, {padding = 1}, {{0, 2, 0, 0}, {0, 2, 0, 0}, {3, 0, 0, 2}}}, -- long rows
    {{40, 30, 2, 2}, {35, 30, 1, 1}, {}, {one, one, {3, 0, 0, 2}}},
  }
  for dtype, tolerance in pairs {float32 = 1e-4, float64 = 1e-11, float16 = 2e-2, bfloat16 = 2e-1} do
    for i, case in ipairs(cases) do
      local x, w = mt.randn(case[1]):to(dtype), (mt.randn(case[2]) / 4):to(dtype)
      local function f(a, b)
        return mt.conv2d{a, b, stride = case[3].stride, padding = case[3].padding, groups = case[3].groups}
      end
      local expected, _, g = parts('cpu', f, x, w)
      local got, n = parts('cuda', f, x, w, g)
      for part = 1, 3 do
        local wanted = {unpack(case[4][part])}
        wanted[3] = dtype:find '16' and wanted[1] + wanted[2] or 0
        t.eq({dtype, i, part, n[part]}, {dtype, i, part, wanted})
        near(got[part], expected[part], tolerance)
      end
      t.eq(mt.equal(parts('cuda', f, x, w, g)[3], got[3]), true)
    end
  end
end)

t.test('a graph has its convolutions as products, in separate memory', function()
  local x, w = mt.randn(3, 4, 6, 7), mt.randn(5, 4, 3, 3)
  local a, b = x:to('cuda'), w:to('cuda'):requires_grad_()
  local step = mt.cuda.graph(function()
    local y = mt.conv2d{a, b, padding = 1}
    return y:detach(), mt.grad(y:square():sum(), b)
  end)
  step()
  a:copy_(x * 2)
  local y, dw = step()
  local c = w:clone():requires_grad_()
  local expected = mt.conv2d{x * 2, c, padding = 1}
  near(y, expected:detach(), 1e-4)
  near(dw, mt.grad(expected:square():sum(), c), 1e-2)
end)

t.test('a graph recorded without a run before has its products by cuBLAS', function()
  local text = run('MTORCH_CUBLAS=' .. plugin, [[
local ffi = require 'ffi'
ffi.cdef 'int64_t emulated_cublas_calls(int which);'
local x = mt.ones({4, 4}, {device = 'cuda'})
local step = mt.cuda.graph(function() return x:matmul(x) end, 0)
print(step():sum():item(), tonumber(ffi.load(os.getenv 'MTORCH_CUBLAS').emulated_cublas_calls(0)))]])
  t.eq(text, '64\t1\n')
end)

t.finish()
