-- test_cuda_cudnn.lua -- convolutions on a GPU by cuDNN, which the emulation replaces
local mt = require 'mtorch'
local t = require 'testing'
t.needs_cuda()

local plugin, wish = os.getenv 'MTORCH_CUDA_PLUGIN' or '', os.getenv 'MTORCH_CUDNN' or ''
local emulated = plugin:find 'emulated' ~= nil

--- Returns the description of the library for convolutions.
local function words() return mt.cuda.memory_stats().convolutions end

--- Returns the value of f(x, w), its two gradients for g, and their gradients.
local function all_of(device, f, x, w, g)
  x, w, g = x:to(device):requires_grad_(), w:to(device):requires_grad_(), g:to(device):requires_grad_()
  local y = f(x, w)
  local dx, dw = unpack(mt.grad(y, {x, w}, {grad_outputs = g, create_graph = true}))
  local again = mt.grad({dx, dw}, {x, w, g}, {grad_outputs = {x:detach(), w:detach()}})
  return {y:detach(), dx:detach(), dw:detach(), unpack(again)}
end
local function compare(f, tolerance, x, w)
  local g = mt.randn(f(x, w).shape):to(x.dtype)
  local got, expected = all_of('cuda', f, x, w, g), all_of('cpu', f, x, w, g)
  for i, e in ipairs(expected) do
    local most = math.max(1, e:double():abs():max():item())
    t.near((got[i]:cpu():double() - e:double()):abs():max():item() / most, 0, tolerance)
  end
  local twice = all_of('cuda', f, x, w, g)
  for i = 1, #got do t.eq(mt.equal(got[i], twice[i]), true) end
end
local tolerances = {float32 = 3e-5, float64 = 1e-11, float16 = 4e-3, bfloat16 = 3e-2}
--- Returns the convolution with these options, as a function of x and w.
local function conv(options, bias)
  return function(x, w)
    return mt.conv2d{x, w, bias = bias and bias:to(x.device):to(x.dtype) or nil, stride = options.stride,
      padding = options.padding, dilation = options.dilation, groups = options.groups}
  end
end

if wish == '' then
  t.test('a small convolution opens nothing, a graph of one neither', function()
    local x, w = mt.ones({1, 4, 8, 8}, {device = 'cuda'}), mt.ones({4, 4, 3, 3}, {device = 'cuda'})
    local _ = mt.conv2d(x, w):sum():item()
    mt.cuda.graph(function() return mt.conv2d(x, w) end)()
    t.eq(words(), emulated and words() or 'cuDNN: not asked for yet')
    local maps = io.open '/proc/self/maps'
    t.eq(maps and maps:read '*a':find 'libcudnn', nil)
    if maps then maps:close() end
  end)
end

if not emulated then
  if wish ~= '0' then
    t.test('cuDNN does convolutions, as the CPU does them and with the same bits each time', function()
      mt.manual_seed(1)
      for dtype, tolerance in pairs(tolerances) do
        for _, options in ipairs {{padding = 1}, {stride = 2}, {dilation = 2}, {groups = 4, padding = 1}} do
          compare(conv(options, mt.randn(32)), tolerance, mt.randn(4, 64, 30, 31):to(dtype),
            (mt.randn(32, 64 / (options.groups or 1), 3, 3) / 24):to(dtype))
        end
      end
      -- Large enough for cuDNN if MTORCH_CUDNN is not set: 2^28 multiply-adds.
      compare(conv {padding = 1}, 3e-5, mt.randn(8, 64, 32, 32), mt.randn(64, 64, 3, 3) / 24)
      local x, w = mt.randn(8, 64, 32, 32), mt.randn(64, 64, 3, 3) / 24
      local exact = conv {padding = 1}(x:to 'cuda', w:to 'cuda')
      mt.set_float32_matmul_precision 'high'
      compare(conv {padding = 1}, 3e-3, x, w)
      t.eq(mt.equal(conv {padding = 1}(x:to 'cuda', w:to 'cuda'), exact), false)
      mt.set_float32_matmul_precision 'highest'
      t.eq(mt.equal(conv {padding = 1}(x:to 'cuda', w:to 'cuda'), exact), true)
      t.eq(words():match '^cuDNN 9%.%d+%.%d+, .*, %d+ convolutions$' ~= nil, true)
    end)
  else
    print('skipped: the convolutions; MTORCH_CUDNN is 0')
  end
  return t.finish()
end

local sum = [[
local x = mt.range(1, 32):float():reshape(1, 2, 4, 4):to('cuda')
local w = mt.ones({3, 2, 3, 3}, {device = 'cuda'})
print(mt.conv2d(x, w):sum():item(), mt.conv2d(x, w)[1]:sum():item())
print(mt.cuda.memory_stats().convolutions)
]]
local answer = '3564\t3564\n'

t.test('a handle that cannot be made is tried again', function()
  local text = t.run('MTORCH_EMULATED_CUDNN=1 MTORCH_CUDNN=' .. plugin, sum)
  t.eq(text, answer .. 'cuDNN 9.19.0, ' .. plugin .. ', 2 convolutions\n')
end)

t.test('a failure is reported once, convolutions still work, and later ones try again', function()
  local lost = 'no cuDNN %(.* does not start %(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED%)%): ' ..
    'convolutions do not use cuDNN, as with MTORCH_CUDNN=0; install cuDNN 9, or name ' ..
    'libcudnn.so.9 in MTORCH_CUDNN\n'
  local text = t.run('MTORCH_EMULATED_CUDNN=2 MTORCH_CUDNN=' .. plugin, sum)
  t.eq(text:find('^mtorch: ' .. lost .. answer .. 'cuDNN 9.*, 1 convolutions\n$') ~= nil, true)
  text = t.run('MTORCH_EMULATED_CUDNN=99 MTORCH_CUDNN=' .. plugin, sum)
  t.eq(text:find('^mtorch: ' .. lost .. answer .. lost .. '$') ~= nil, true)
end)

t.test('an invalid or missing library is reported', function()
  local cure = ': convolutions do not use cuDNN, .*MTORCH_CUDNN\n' .. answer
  t.eq(t.run('MTORCH_CUDNN=/nowhere.so', sum):find('^mtorch: no cuDNN %(/nowhere.so: .*%)' .. cure) ~= nil, true)
  t.eq(t.run('MTORCH_CUDNN=libm.so.6', sum):find('^mtorch: no cuDNN %(libm.so.6 is not cuDNN 9%)' .. cure) ~= nil, true)
  -- The emulation searches a name of its own.
  t.eq(t.run('MTORCH_CUDNN=1', sum):find('^mtorch: no cuDNN %(libcudnn_emulated.so.9: .*%)' .. cure) ~= nil, true)
end)

t.test('by default cuDNN computes large convolutions if it is found, and it is optional', function()
  local sums = sum .. [[
local y = mt.conv2d(x:expand(8, 2, 4, 4), mt.ones({8, 2, 3, 3}, {device = 'cuda'})) -- 4608 multiply-adds
print(y:sum():item(), mt.cuda.memory_stats().convolutions)
local plain = mt.conv2d(x:expand(64, 2, 4, 4), mt.ones({8, 2, 1, 1}, {device = 'cuda'})) -- a product
print(plain:sum():item(), mt.cuda.memory_stats().convolutions)
]]
  local small, large, plain = 'cuDNN: not asked for yet\n', '76032\t', '270336\t'
  for _, no in ipairs {'MTORCH_CUDNN=', 'env -u MTORCH_CUDNN'} do
    local none = 'no cuDNN %(.*%): convolutions do not use cuDNN, .*'
    t.eq(t.run(no, sums):find('^' .. answer .. small .. large .. none .. '\n' .. plain .. none .. '\n$') ~= nil, true)
  end
  local off = 'off (MTORCH_CUDNN=0)\n'
  local folder = os.tmpname() .. '.d'
  t.eq(os.execute(('mkdir "%s" && ln -s "%s" "%s/libcudnn_emulated.so.9"'):format(folder, plugin, folder)), 0)
  local there = ('LD_LIBRARY_PATH="%s" MTORCH_CUBLAS="%s" MTORCH_CUDNN='):format(folder, plugin)
  t.eq(t.run(there .. 0, sums), answer .. off .. large .. off .. plain .. off)
  local one = ('cuDNN 9.19.0, %s/libcudnn_emulated.so.9, 1 convolutions\n'):format(folder)
  t.eq(t.run(there, sums), answer .. small .. large .. one .. plain .. one)
  t.eq(t.run(there .. 1, sums), answer .. one:gsub('1 conv', '2 conv') .. large .. one:gsub('1 conv', '3 conv') ..
    plain .. one:gsub('1 conv', '3 conv'))
  local said = t.run(there, "io.write(io.popen(arg[-1] .. ' doctor'):read '*a')"):match 'cudnn +ok +([^\n]*)'
  t.eq(said, (one:gsub('1 conv.*', 'for large convolutions (MTORCH_CUDNN=1: all, 0: none)')))
  os.execute(('rm -r "%s"'):format(folder))
end)

t.test('failing convolutions are reported once, and computed without cuDNN', function()
  local text = t.run('MTORCH_EMULATED_CUDNN=fails MTORCH_CUDNN=' .. plugin, sum .. [[
local ffi = require 'ffi'
ffi.cdef 'int64_t emulated_cudnn_calls(int which);'
print(tonumber(ffi.load(os.getenv 'MTORCH_CUDNN').emulated_cudnn_calls(0)))]])
  t.eq(text, 'mtorch: a convolution of cuDNN failed (CUDNN_STATUS_EXECUTION_FAILED): 1 images, 2 channels of ' ..
    '4 x 4, kernel 3 x 3, 3 channels out; it and others that fail no longer use cuDNN; MTORCH_CUDNN=0 ' ..
    'disables cuDNN\n' .. answer .. 'cuDNN 9.19.0, ' .. plugin .. '\n1\n') -- that shape is not tried again
end)

t.test('no algorithm is taken that does not repeat its bits, or needs too large a workspace', function()
  local text = t.run('MTORCH_EMULATED_CUDNN=none MTORCH_CUDNN=' .. plugin, sum)
  t.eq(text, answer .. 'cuDNN 9.19.0, ' .. plugin .. '\n')
end)

if wish ~= plugin then
  print('skipped: the convolutions; MTORCH_CUDNN=' .. plugin .. ' runs them')
  return t.finish()
end

--- Counts fn()'s calls of cuDNN: forward, gradients of input and weight, algorithm searches, created descriptors.
local calls = t.count_during(plugin, 'emulated_cudnn_calls', 5)

t.test('values and gradients of every order, of each dtype, with groups, strides, padding and dilation', function()
  mt.manual_seed(1)
  local cases = { -- images, the weight, options
    {{2, 4, 7, 8}, {6, 4, 3, 3}, {}},
    {{3, 4, 9, 8}, {6, 4, 3, 2}, {padding = {1, 2}}},
    {{2, 4, 9, 8}, {6, 4, 2, 3}, {stride = {2, 3}, padding = 1}},
    {{2, 4, 9, 8}, {5, 4, 3, 3}, {dilation = {2, 1}, padding = 2}},
    {{2, 6, 7, 7}, {4, 3, 3, 3}, {groups = 2, stride = 2, padding = 1}},
    {{2, 4, 7, 7}, {8, 1, 3, 3}, {groups = 4, dilation = 2, padding = 2}},
    {{2, 4, 7, 7}, {8, 4, 1, 1}, {stride = 2}},
    {{1, 1, 6, 6}, {3, 1, 6, 6}, {}},
    {{1, 5, 6, 6}, {1, 5, 3, 3}, {padding = 'same'}},
  }
  for dtype, tolerance in pairs(tolerances) do
    for i, case in ipairs(cases) do
      local x, w = mt.randn(case[1]):to(dtype), (mt.randn(case[2]) / 4):to(dtype)
      local bias = i % 2 == (dtype:find '6' and 0 or 1) and mt.randn(case[2][1])
      local n = calls(function() compare(conv(case[3], bias), tolerance, x, w) end)
      -- Twice: y, dx, dw; of the gradient of dx for w: that by w and by g; of that of dw: by x and by g.
      t.eq({dtype, i, n[1], n[2], n[3]}, {dtype, i, 6, 4, 4})
    end
  end
end)

t.test('float32 by TF32 where that is let', function()
  local x, w = mt.randn(2, 4, 7, 8), mt.randn(6, 4, 3, 3) / 4
  local tf32 = t.count_during(plugin, 'emulated_cudnn_calls', 6)
  for precision, n in pairs {highest = 0, high = 14, medium = 14} do
    mt.set_float32_matmul_precision(precision)
    t.eq({precision, tf32(function() compare(conv {}, n > 0 and 3e-3 or 3e-5, x, w) end)[6]}, {precision, n})
    t.eq(tf32(function() compare(conv {}, 1e-11, x:double(), w:double()) end)[6], 0)
  end
  mt.set_float32_matmul_precision 'highest'
end)

t.test('16-bit floats with channels side by side, where there are enough of them', function()
  local nhwc = t.count_during(plugin, 'emulated_cudnn_calls', 7)
  for _, dtype in ipairs {'float16', 'bfloat16', 'float32'} do
    for _, case in ipairs { -- images, the weight, groups, whether they are even for each group
      {{2, 4, 7, 8}, {6, 4, 3, 3}, 1, true}, {{2, 4, 7, 8}, {6, 2, 3, 2}, 2, false},
      {{3, 8, 9, 5}, {4, 4, 3, 3}, 2, true}, {{2, 3, 7, 8}, {6, 3, 3, 3}, 1, false},
    } do
      local x, w = mt.randn(case[1]):to(dtype), (mt.randn(case[2]) / 4):to(dtype)
      local f = conv({groups = case[3], padding = 1}, mt.randn(case[2][1]))
      local n = nhwc(function() compare(f, tolerances[dtype], x, w) end)[7]
      t.eq({dtype, case[3], n}, {dtype, case[3], dtype ~= 'float32' and case[4] and 14 or 0})
    end
  end
  local half = sum:gsub(':float%(%)', ':bfloat16()'):gsub("{3, 2, 3, 3}, {", "{4, 2, 3, 3}, {dtype = 'bfloat16', ")
  local counted = half .. [[
local ffi = require 'ffi'
ffi.cdef 'int64_t emulated_cudnn_calls(int which);'
print(tonumber(ffi.load(os.getenv 'MTORCH_CUDNN').emulated_cudnn_calls(6)))]]
  for mode, n in pairs {nchw = 0, all = 2} do
    local text = t.run(('MTORCH_EMULATED_CUDNN=%s MTORCH_CUDNN=%s'):format(mode, plugin), counted)
    t.eq(text, ('4736\t4736\ncuDNN 9.19.0, %s, 2 convolutions\n%d\n'):format(plugin, n))
  end
end)

t.test('other convolutions: of one dimension, of three, transposed', function()
  local function by_cudnn(f, x, w)
    t.eq(calls(function() compare(f, 3e-5, x, w) end)[4] > 0, true)
  end
  by_cudnn(function(x, w) return mt.conv1d{x, w, padding = 3, dilation = 2} end, mt.randn(3, 4, 20), mt.randn(5, 4, 4))
  by_cudnn(function(x, w) return mt.conv3d{x, w, padding = 1} end, mt.randn(2, 3, 4, 5, 6), mt.randn(4, 3, 2, 3, 3))
  by_cudnn(function(x, w)
    return mt.conv_transpose2d{x, w, stride = 2, padding = 1, output_padding = 1, groups = 2}
  end, mt.randn(2, 4, 5, 6), mt.randn(4, 3, 3, 3))
end)

t.test('unsupported and depthwise convolutions do not use cuDNN', function()
  local none = {0, 0, 0, 0, 0}
  t.eq(calls(function()
    compare(conv {padding = 'same'}, 3e-5, mt.randn(2, 3, 6, 7), mt.randn(4, 3, 2, 4)) -- more on one side
    compare(conv {groups = 3, padding = 1}, 3e-5, mt.randn(2, 3, 6, 7), mt.randn(3, 1, 3, 3))
    compare(conv {}, 3e-5, mt.randn(2, 1, 6, 7), mt.randn(1, 1, 3, 3))
  end), none)
end)

t.test('an algorithm is asked for once for each shape, and few are kept', function()
  local w = mt.randn({4, 3, 3, 3}, {device = 'cuda'})
  local function run(width) return mt.conv2d(mt.ones({1, 3, 4, width}, {device = 'cuda'}), w) end
  run(5)
  local n = calls(function() for _ = 1, 10 do run(5) end end)
  t.eq(n, {10, 0, 0, 0, 0})
  local before = calls(function() for size = 3, 100 do run(size) end end)[5]
  t.eq(calls(function() for size = 101, 200 do run(size) end end)[4], 100)
  t.eq(before <= 32 * 4, true)
  t.eq(calls(function() for size = 201, 300 do run(size) end end)[5] <= 32 * 4, true)
end)

t.test('a graph has its convolutions by cuDNN, in separate memory', function()
  local x, w = mt.randn(3, 4, 6, 7), mt.randn(5, 4, 3, 3)
  local a, b, c = x:to('cuda'):requires_grad_(), w:to('cuda'):requires_grad_(), mt.randn({5}, {device = 'cuda'})
  local step
  local n = calls(function()
    step = mt.cuda.graph(function()
      local y = mt.conv2d{a, b, bias = c, padding = 1}
      return y:detach(), unpack(mt.grad(y:square():sum(), {a, b}))
    end)
  end)
  t.eq(n, {3, 3, 3, 3, 12}) -- two runs before, and the recording
  local f = {x * 2, w:clone()}
  mt.no_grad(function() a:copy_(f[1]) end)
  local got = {step()}
  for i = 1, 2 do f[i]:requires_grad_() end
  local y = mt.conv2d{f[1], f[2], bias = c:cpu(), padding = 1}
  for i, e in ipairs {y:detach(), unpack(mt.grad(y:square():sum(), f))} do
    t.near((got[i]:cpu() - e):abs():max():item() / e:abs():max():item(), 0, 1e-5)
  end
end)

t.test('a graph keeps the memory that its convolutions read', function()
  local x, w = mt.randn({1, 3, 5, 5}, {device = 'cuda'}), mt.randn({4, 3, 3, 3}, {device = 'cuda'})
  local expected = mt.conv2d(x, w):tolist()
  local step = mt.cuda.graph(function() return mt.conv2d(x, w) end)
  x, w = nil, nil
  collectgarbage()
  collectgarbage()
  local others = {}
  for i = 1, 20 do
    others[2 * i] = mt.zeros({1, 3, 5, 5}, {device = 'cuda'})
    others[2 * i + 1] = mt.zeros({4, 3, 3, 3}, {device = 'cuda'})
  end
  t.eq(step():tolist(), expected)
end)

t.test('a graph recorded without a run before chooses nothing: it has its convolutions without', function()
  local text = t.run('MTORCH_CUDNN=' .. plugin, [[
local x, w = mt.ones({1, 2, 4, 4}, {device = 'cuda'}), mt.ones({3, 2, 3, 3}, {device = 'cuda'})
local step = mt.cuda.graph(function() return mt.conv2d(x, w) end, 0)
print(step():sum():item(), mt.cuda.memory_stats().convolutions)]])
  t.eq(text, '216\tcuDNN 9.19.0, ' .. plugin .. '\n')
end)

t.finish()
