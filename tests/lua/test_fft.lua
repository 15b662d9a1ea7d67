-- test_fft.lua -- mt.fft, stft, istft and windows: values of torch, gradients, lengths, devices, threads, errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises, checks = t.test, t.eq, t.near, t.raises, t.checks
local F, T = mt.fft, mt
local values = require('torch_values').load 'fft_values'

local function randn(...) return mt.randn({...}, {dtype = 'float64'}) end
local function leaf(...) return randn(...):requires_grad_() end
--- Compares with a tolerance that is relative to the largest element.
local function close(a, b, tolerance)
  eq(a.shape, b.shape)
  if a:numel() == 0 then return end
  local off = (a:double() - b:double()):abs():max():item()
  local limit = (tolerance or (a.dtype == 'float64' and 1e-13 or 2e-6)) * math.max(1, b:abs():max():item())
  if not (off <= limit) then error(('off by %g'):format(off), 2) end
end

test('values and gradients of torch', function()
  local count = 0
  for call, wanted in pairs(values) do
    local ok, trouble = pcall(function()
      if not call:find '%)$' then return end -- an input, or a gradient
      count = count + 1
      local scope, slopes = {F = F, T = T}, {}
      for name, x in pairs(values) do
        local input, slope = name:match '^input (.*)', name:match '%) by (.*)' and name:sub(1, #call) == call
        if input then scope[input] = x:detach():requires_grad_() end
        if slope then slopes[name:match '%) by (.*)'] = x:item() end
      end
      local text = call:gsub('^(T.%w+_window.*)}%)$', "%1, dtype = 'float64'})")
      local y = setfenv(assert(loadstring('return ' .. text)), scope)()
      close(y:detach(), wanted, y.dtype == 'float64' and 1e-9 or 1e-6)
      if next(slopes) then y:square():sum():backward() end
      for name, slope in pairs(slopes) do
        local g = scope[name].grad:flatten()
        near(g:dot(mt.range(1, #g):double():cos()):item(), slope, 1e-8 * math.max(1, math.abs(slope)))
      end
    end)
    if not ok then error(call .. ': ' .. trouble, 0) end
  end
  eq(count, 123)
end)

--- The transform along the first dimension of [n x m x 2], by the definition.
local function by_definition(z)
  local n = z.shape[1]
  local k = mt.range(0, n - 1):double()
  local angle = (k:unsqueeze(2) * k % n) * (-2 * math.pi / n)
  local c, s, re, im = angle:cos(), angle:sin(), z:select(-1, 1):double(), z:select(-1, 2):double()
  return mt.complex(c:matmul(re) - s:matmul(im), s:matmul(re) + c:matmul(im))
end

-- Every radix, primes by the definition and by convolution (47: a padded one), and products of both; 192 and 832 are
-- no whole squares of registers; 1009 and 2^k in two steps.
local lengths = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 15, 16, 27, 31, 32, 33, 35, 37, 47, 49, 60, 64, 74, 97, 125, 143,
  144, 192, 210, 243, 256, 257, 360, 832, 1000, 1009, 1024}
test('lengths, dimensions and layouts, by the definition', function()
  mt.manual_seed(2)
  for i, n in ipairs(lengths) do
    for _, dtype in ipairs(t.on_gpu() and {i % 2 == 0 and 'float32' or 'float64'} or {'float64', 'float32'}) do
      for _, lines in ipairs(t.on_gpu() and {3} or {1, 3, 17}) do
        local z, x = mt.randn({n, lines, 2}, dtype), mt.randn({n, lines}, dtype)
        local y, half = by_definition(z), by_definition(mt.complex(x)):narrow(1, 1, math.floor(n / 2) + 1)
        local across = z:transpose(1, 2)
        close(F.fft(z, {dim = 1}), y)
        close(F.fft(across), y:transpose(1, 2))
        close(F.fft(across:contiguous(), {norm = 'ortho'}), y:transpose(1, 2) / math.sqrt(n))
        close(F.ifft(F.fft(z, {dim = -2}), {dim = -2}), z)
        close(F.rfft(x, {dim = 1}), half)
        close(F.rfft(x:t()), half:transpose(1, 2))
        close(F.rfft(x:t():contiguous()), half:transpose(1, 2))
        close(F.irfft(half:to(dtype), {n = n, dim = 1}), x)
        close(F.irfft(F.rfft(x:t()), n), x:t())
      end
    end
  end
end)

test('long lines: round trips, an impulse, and the energy (Parseval)', function()
  mt.manual_seed(3)
  for _, n in ipairs(t.on_gpu() and {4096, 5000, 10007} or {4096, 5000, 2 ^ 16, 3 * 2 ^ 15, 10007, 2 ^ 18, 100003}) do
    for _, dtype in ipairs {'float32', 'float64'} do
      local x = mt.randn({2, n}, dtype)
      local y, z = F.rfft(x), F.fft(mt.complex(x, x:flip(-1)))
      close(F.irfft(y, n), x)
      close(F.ifft(z), mt.complex(x, x:flip(-1)))
      close(y, F.fft(mt.complex(x)):narrow(-2, 1, math.floor(n / 2) + 1), 1e-5)
      near(z:double():square():sum():item() / n / (2 * x:double():square():sum():item()), 1, 1e-6)
    end
    local impulse = mt.zeros({n, 1}, 'float64')
    impulse[4] = 1
    local angle = mt.range(0, math.floor(n / 2)):double() * (-2 * math.pi * 3 / n)
    close(F.rfft(impulse, {dim = 1}):squeeze(2), mt.polar(mt.ones_like(angle), angle), 1e-12)
  end
end)

test('the bits do not depend on the number of threads', function()
  mt.manual_seed(4)
  local z, long, prime = mt.randn(70, 300, 2), mt.randn(3, 2 ^ 15), mt.randn(40, 1009)
  local signal, window = mt.randn(4, 20000), mt.hann_window(512)
  t.on_threads(function()
    local spectrum = mt.stft(signal, 512, {window = window})
    return F.fft2(z), F.rfft(long), F.irfft(F.rfft(long)), F.rfft(prime), spectrum,
      mt.istft(spectrum, 512, {window = window}), F.irfft(F.rfft(z, {dim = 1}), {n = 71, dim = 1})
  end)
end)

for _, n in ipairs {1, 2, 5, 6, 37, 47} do
  local half = math.floor(n / 2) + 1
  t.gradients('fft ' .. n, function(z) return F.fft(z) end, {2, n, 2})
  t.gradients('ifft ' .. n, function(z) return F.ifft(z, {dim = 1, norm = 'ortho'}) end, {n, 2, 2})
  t.gradients('rfft ' .. n, function(x) return F.rfft(x) end, {2, n})
  t.gradients('irfft ' .. n, function(z) return F.irfft(z, {n = n}) end, {2, half, 2})
end
t.gradients('rfft2 and irfft2', function(x) return F.irfft2(F.rfft2(x, {s = {3, 5}}), {s = {2, 3}}) end, {4, 4})
t.gradients('a line in two steps', function(x) return F.irfft(F.rfft(x):narrow(-2, 1, 4), 6) end, {40})
t.gradients('complex numbers', function(z, w)
  return mt.complex_mul(mt.polar(mt.complex_abs(z), mt.complex_angle(z)), mt.complex_conj(w))
end, {4, 2},
  {2, 4, 2})

test('gradients of stft and istft', function()
  local window = mt.hamming_window(8, {dtype = 'float64'})
  checks(function(x, w) return mt.stft(x, 8, {window = w, hop_length = 3}) end, leaf(20),
    window:clone():requires_grad_())
  checks(function(x) return mt.stft(x, 6, {center = false, onesided = false, normalized = true}) end, leaf(2, 13))
  checks(function(z) return mt.istft(z, 8, {window = window, length = 13}) end, leaf(5, 5, 2))
end)

test('abs has slope 0 at 0, and angle no NaN', function()
  local z = mt.zeros(3, 2):requires_grad_()
  mt.complex_abs(z):sum():backward()
  eq(z.grad:abs():sum():item(), 0)
  eq(mt.complex_angle(mt.tensor{{0, 0}, {-1, 0}, {0, 2}}):tolist(), mt.tensor{0, math.pi, math.pi / 2}:tolist())
end)

test('imaginary parts of the frequencies 0 and n / 2 are ignored', function() -- pytorch/pytorch issue 154496
  for _, n in ipairs {6, 7, 74, 1024, 2 ^ 13} do
    local z = randn(n / 2 - n % 2 / 2 + 1, 2)
    local other = z:clone()
    other[{1, 2}] = 5
    if n % 2 == 0 then other[{-1, 2}] = -3 end
    close(F.irfft(z, n), F.irfft(other, n))
    local g = z:clone():requires_grad_()
    F.irfft(g, n):square():sum():backward()
    near(g.grad[{1, 2}]:item(), 0, 1e-12)
  end
end)

test('empty batches, sizes n, dtypes', function()
  eq(F.rfft(mt.randn(0, 4)).shape, {0, 3, 2})
  eq(F.fft(mt.randn(0, 37, 2)).shape, {0, 37, 2})
  eq(F.rfft(mt.randn(3, 0), {n = 4}):tolist(), mt.zeros(3, 3, 2):tolist())
  eq(F.irfft2(mt.randn(0, 3, 3, 2)).shape, {0, 3, 4})
  eq(F.rfft(mt.range(1, 4)).dtype, 'float32')
  eq(F.fft(mt.randn(4, 2):half()).dtype, 'float16')
  local x = mt.randn(2, 600):bfloat16()
  close(F.rfft(x):float(), F.rfft(x:float()), 0.01)
  eq(mt.stft(x, 64).dtype, 'bfloat16')
  local y = mt.istft(mt.stft(mt.randn(600):half(), 64), 64)
  eq({y.dtype, #y}, {'float16', 592})
  local z = mt.randn(4, 2)
  eq(mt.complex(z:select(-1, 1), z:select(-1, 2)):tolist(), z:tolist())
  eq(F.ifftshift(F.fftshift(z, {complex = false}), {complex = false}):tolist(), z:tolist())
end)

test('istft inverts stft where windows overlap', function()
  mt.manual_seed(6)
  local x = mt.randn(3, 1000)
  for _, o in ipairs {{n_fft = 64, window = mt.hann_window(64)}, {n_fft = 63, hop_length = 20},
    {n_fft = 16, hop_length = 1},
    {n_fft = 64, win_length = 50, window = mt.hamming_window(50), hop_length = 7, normalized = true, onesided = false},
    {n_fft = 10, hop_length = 10, center = false}} do -- of this length: pytorch/pytorch issue 79778
    local z = mt.stft(x, o)
    o.length = 1000
    close(mt.istft(z, o), x, 1e-5)
  end
end)

test('mt.compile replays transforms and their gradients', function()
  local window = mt.hann_window(16)
  local function made()
    mt.manual_seed(7)
    local w = mt.randn(25, 2):requires_grad_()
    return w, function(x)
      local y = F.irfft(mt.complex_mul(F.rfft(x), w), 48)
      local loss = y:square():mean() + mt.complex_abs(mt.stft(y, 16, {window = window})):mean() +
        F.fft(w, 37):square():mean()
      loss:backward()
      w.grad:mul_(0.5)
      return loss
    end
  end
  local w, step = made()
  local compiled_w, compiled = made()
  compiled = mt.compile(compiled)
  for i = 1, 5 do
    mt.manual_seed(i)
    local x = mt.randn(3, 48)
    eq(compiled(x):item(), step(x):item())
    assert(compiled_w.grad:equal(w.grad))
  end
  assert(mt.explain(compiled):find 'replayed 3 times')
end)

test('a real tensor has imaginary parts 0', function()
  local x = mt.randn(3, 8)
  assert(F.fft(x):equal(F.fft(mt.complex(x))))
  assert(F.ifft2(x):equal(F.ifft2(mt.complex(x))))
  eq(F.fftn(mt.ones(4)):tolist(), {{4, 0}, {0, 0}, {0, 0}, {0, 0}})
end)

test('wrong arguments', function()
  local z = mt.randn(3, 2)
  raises(function() F.irfft(mt.randn(8)) end,
    'irfft: a complex tensor is needed, whose last dimension is %(real, imaginary%), got %(8%); ' ..
    'mt.complex%(re, im%) makes one$')
  raises(function() mt.complex_abs(mt.randn(8)) end, 'complex_abs: a complex tensor ')
  raises(function() F.fft(mt.randn(2)) end, 'fft: the input is a single number')
  raises(function() F.rfft(mt.tensor(3)) end, 'rfft: the input is a single number')
  raises(function() F.rfft(mt.randn(8), 0) end, 'rfft: n, .* along dimension 1, is 0; it must be at least 1')
  raises(function() F.rfft(mt.randn(0)) end, 'rfft: n, .* is 0')
  raises(function() F.irfft(mt.randn(1, 2)) end, 'irfft: n, .* is 0') -- PyTorch too: 2 * (1 - 1)
  raises(function() F.fft(z, {dim = 2}) end, 'fft: dimension 2 is out of range; the tensor has 1')
  raises(function() F.fft(z, {norm = 'both'}) end, "fft: norm is 'both'; use 'backward', 'ortho' or 'forward'")
  raises(function() F.fft(z, {axis = 1}) end, "fft: unknown option 'axis' %(did you mean 'dim'%?%)")
  raises(function() F.fft2(z) end, 'fft2: dimension %-2 is out of range')
  raises(function() F.fftn(mt.randn(3, 3, 2), {s = {1}, dim = {1, 2}}) end, 'fftn: s has 1 sizes for 2 dimensions')
  raises(function() F.fftn(mt.randn(3, 3, 2), {dim = {1, -2}}) end, 'fftn: dimension 1 is named twice')
  raises(function() F.rfftn(mt.randn(3, 3), {s = {2, 0}}) end, 'rfftn: s is %(2 x 0%); its sizes must be at least 1')
  raises(function() F.ifftn(z, {s = {2, 2}}) end, 'ifftn: s has 2 sizes, the input 1 dimensions')
  raises(function() F.fftshift(z) end,
    'fftshift: the last size of %(3 x 2%) is 2, so it may be complex; say complex=true or')
  raises(function() mt.complex_mul(z, mt.randn(4, 2)) end, 'mul: ')
  raises(function() F.fftfreq(0) end, 'fftfreq: n is 0, it must be at least 1')
  raises(function() F.fftfreq(4, {dtype = 'int64'}) end, 'fftfreq: int64 cannot hold fractions')
  raises(function() mt.hann_window(4, {dtype = 'int64'}) end, 'hann_window: int64 cannot hold fractions')
  raises(function() mt.hann_window(-1) end, 'hann_window: %-1 samples were requested')
  raises(function() return mt.rfft end, 'it is mt.fft.rfft')
  raises(function() return F.hfft end, "mt.fft has no 'hfft'.*mt.fft.irfft%(mt.complex_conj%(z%)")
  raises(function() return F.rfftt end, "mt.fft has no 'rfftt' %(did you mean 'rfft'%?%)")
  raises(function() mt.stft(mt.randn(10), 30) end,
    "stft: 10 samples are too few for a padding of 15; use pad_mode='constant'")
  raises(function() mt.stft(mt.randn(10), 30, {center = false}) end, 'stft: 10 samples are less than n_fft, 30')
  raises(function() mt.stft(mt.randn(1, 2, 3), 3) end,
    'stft: x is %(samples%) or %(batch x samples%), got %(1 x 2 x 3%)')
  raises(function() mt.stft(mt.range(1, 10), 4) end, 'stft: the input is int64; use x:float%(%)')
  raises(function() mt.stft(mt.randn(10), 4, {window = mt.ones(5)}) end, 'stft: the window is %(5%), expected %(4%)')
  raises(function() mt.stft(mt.randn(10), 4, {win_length = 5}) end,
    'stft: win_length is 5, it must be from 1 to n_fft, 4')
  raises(function() mt.stft(mt.randn(10), 4, {hop_length = 0}) end, 'stft: hop_length is 0')
  raises(function() mt.stft(mt.randn(10), 0) end, 'stft: n_fft is 0')
  raises(function() mt.istft(mt.randn(3, 4, 2), 8) end,
    'istft: %(3 x 4 x 2%) has 3 frequencies and 4 frames; n_fft 8 needs 5')
  raises(function() mt.istft(mt.randn(3, 4), 4) end, 'istft: z is complex, %(frequencies x frames x 2%)')
  raises(function() mt.istft(mt.randn(3, 4, 2), 4, {length = 0}) end, 'istft: length is 0')
  raises(function() mt.istft(mt.randn(9, 1, 2), 16) end, 'istft: 1 frames leave no samples')
  -- the windows are 0 at the first sample of each frame (PyTorch's NOLA check)
  raises(function() mt.istft(mt.randn(3, 4, 2), 4, {hop_length = 4, window = mt.hann_window(4)}) end,
    'istft: the squared windows of hop_length 4 add up to 0 at a sample')
end)

t.finish()
