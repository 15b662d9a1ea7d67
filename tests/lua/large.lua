-- large.lua -- compares a GPU with the CPU at large sizes, checks equal bits of two runs, and beyond 2^31 elements
--
--   mtorch tests/lua/large.lua [--log2 26] [--huge]
--
-- The other tests are small: their grids do not loop, and 32-bit indices suffice. --huge needs 12 GiB of
-- GPU memory.
local mt = require 'mtorch'
local options = mt.args {log2 = 26, huge = false, device = 'cuda'}

local failed, count = 0, 0
local n = 2 ^ options.log2
local side = 2 ^ math.floor(options.log2 / 2)
local width = n / side

--- Whether |got - expected| <= tolerance * (1 + |expected|); bools and integers must be equal.
local function near(got, expected, tolerance)
  if expected.dtype == 'bool' or expected.dtype:find 'int' then return got:equal(expected) end
  got, expected = got:double(), expected:double()
  local off = (got - expected):abs() / (expected:abs() + 1)
  return off:max():item() <= tolerance
end

--- Runs fn(a, b, ..) on the GPU, twice with the same bits, and compares it with the CPU.
local function compare(name, tolerance, fn, ...)
  count = count + 1
  local on_gpu, inputs = {}, {...}
  for i, x in ipairs(inputs) do on_gpu[i] = x:to(options.device) end
  local ok, message = pcall(function()
    local first, second = fn(unpack(on_gpu)):cpu(), fn(unpack(on_gpu)):cpu()
    assert(first:equal(second), 'two runs differ')
    assert(near(first, fn(unpack(inputs)), tolerance), 'differs from the CPU')
  end)
  if not ok then
    failed = failed + 1
    print(('%s: %s'):format(name, message))
  end
  collectgarbage()
end

mt.manual_seed(1)
local x, y = mt.rand(n) + 0.5, mt.rand(n) + 0.5
local m, r = x:view(side, width), mt.rand(width)
local at = mt.randint(1, side, {width})

compare('add', 0, function(a, b) return a + b end, x, y)
compare('exp', 1e-6, mt.exp, x)
compare('gelu', 1e-6, mt.gelu, x - 1)
compare('add_row', 0, function(a, b) return a + b end, m, r)
compare('add_col', 0, function(a, b) return a + b end, m, mt.rand(side, 1))
compare('transpose', 0, function(a) return a:t():contiguous() end, m)
compare('strided', 0, function(a) return a:t() * 2 end, m)
compare('to_half', 0, function(a) return a:half() end, x)
compare('from_half', 0, function(a) return a:float() end, x:half())
compare('to_int', 0, function(a) return (a * 100):int() end, x)
compare('sum', 1e-6, function(a) return a:sum() end, x)
compare('sum_rows', 1e-6, function(a) return a:sum(2) end, m)
compare('sum_cols', 1e-6, function(a) return a:sum(1) end, m)
compare('argmax', 0, function(a) return a:argmax() end, x)
compare('var', 1e-5, function(a) return a:var() end, x)
compare('cumsum', 1e-4, function(a) return a:cumsum(1) end, x)
compare('cumsum_cols', 1e-4, function(a) return a:cumsum(1) end, m)
compare('sort', 0, function(a) return (a:sort()) end, x)
compare('argsort', 0, function(a) return select(2, a:sort()) end, (x * 1000):int())
compare('topk', 0, function(a) return (a:topk(100)) end, x)
compare('softmax', 1e-6, function(a) return a:softmax(2) end, m)
compare('layer_norm', 1e-4, function(a, w) return mt.layer_norm(a, {width}, w) end, m, r)
compare('gather', 0, function(a, i) return a:index_select(1, i) end, m, at)
compare('index_add', 1e-4, function(a, i, s) return mt.zeros_like(a):index_add(1, i, s) end, m, at,
  mt.rand(width, width))
compare('masked_select', 0, function(a) return a[a:gt(1)] end, x)
compare('matmul', 1e-3, function(a, b) return a:matmul(b:t()) end, m, m)
local images = x:view(n / 2 ^ 10, 4, 16, 16)
compare('conv2d', 1e-4, function(a, w) return mt.conv2d(a, w, nil, 1, 1) end, images, mt.rand(8, 4, 3, 3))
compare('conv2d 1x1', 1e-4, function(a, w) return mt.conv2d(a, w) end, images, mt.rand(8, 4, 1, 1))
compare('max_pool2d', 0, function(a) return mt.max_pool2d(a, 2) end, images)

if options.huge then
  count = count + 1
  local ok, message = pcall(function()
    local size = 2 ^ 31 + 4096
    local z = mt.zeros({size}, {dtype = 'uint8', device = options.device})
    z[size], z[2 ^ 31] = 7, 5
    local c = z:clone()
    assert(c[size]:item() == 7 and c[2 ^ 31]:item() == 5, 'a copy')
    assert(c:gt(0):sum():item() == 2, 'a sum')
    assert((c + z)[size]:item() == 14, 'an addition')
    local i = mt.tensor({size, 2 ^ 31, 1}, {dtype = 'int64', device = options.device})
    local got = c:index_select(1, i):tolist()
    assert(got[1] == 7 and got[2] == 5 and got[3] == 0, 'positions')
  end)
  if not ok then
    failed = failed + 1
    print('beyond 2^31 elements: ' .. message)
  end
end

print(('%d comparisons of 2^%d elements, %d failed'):format(count, options.log2, failed))
if failed > 0 then os.exit(1) end
