-- test_onednn.lua -- large products: values and bits by oneDNN and without it, whatever ran before.
local t = require 'testing'
local test, eq = t.test, t.eq

-- Products of m x k by k x n in the four layouts, kept as {a, b, result, error against float64}.
local prelude = [[
  local shapes = {{128, 128, 128}, {64, 784, 128}, {200, 300, 400}, {700, 257, 31}, {25, 5000, 25}, {300, 40, 520},
                  {100, 9000, 70},
                  {270, 530, 290}}
  local function products()
    mt.manual_seed(3)
    local list = {}
    for _, s in ipairs(shapes) do
      for layout = 0, 3 do
        local a = layout % 2 == 0 and mt.randn(s[1], s[2]) or mt.randn(s[2], s[1]):t()
        local b = layout < 2 and mt.randn(s[2], s[3]) or mt.randn(s[3], s[2]):t()
        list[#list + 1] = {a, b, a:matmul(b)}
      end
    end
    local images, filters = mt.randn(9, 120, 130), mt.randn(9, 130, 90)
    list[#list + 1] = {images, filters, images:bmm(filters)}
    list[#list + 1] = {images, filters[1], images:matmul(filters[1])}
    return list
  end
  local function wrong(list)
    local n = 0
    for _, p in ipairs(list) do
      local exact = p[1]:double():matmul(p[2]:double())
      if (p[3] - exact):abs():max():item() > 2e-6 * p[1]:size(-1) ^ 0.5 * 10 then n = n + 1 end
    end
    return n
  end
  local function differing(list, other)
    local n = 0
    for i, p in ipairs(list) do if not mt.equal(p[3], other[i][3]) then n = n + 1 end end
    return n
  end
  local function path(a, b)
    local print_was, text = print, ''
    print = function() end
    text = mt.explain(mt.matmul, a, b) or ''
    print = print_was
    return text:match 'oneDNN %(' or text:match 'OpenBLAS %(' or 'own'
  end
]]

--- Runs code; returns its last line, because a message about the instruction set may precede it.
local function program(settings, code) return t.run(settings, prelude .. code):match '([^\n]*)\n*$' end

local bits = [[
  local first = products()
  for _ = 1, 4 do local x = mt.ones(1000, 1000); x = x:matmul(x) end
  local others = 0
  for _, threads in ipairs{1, 2, 3, 8} do
    mt.set_num_threads(threads)
    others = others + differing(first, products())
  end
  print(wrong(first), others)
]]
for _, settings in ipairs{'', 'ONEDNN_MAX_CPU_ISA=AVX2', 'MTORCH_ONEDNN=off', 'MTORCH_ISA=avx2', 'MTORCH_ISA=base',
                          'MTORCH_ISA=avx2 ONEDNN_MAX_CPU_ISA=AVX2', 'ONEDNN_MAX_CPU_ISA=SSE41'} do
  test('bits depend neither on threads nor on what was multiplied before: ' .. settings, function()
    eq(program(settings, bits), '0\t0')
  end)
end

test('mt.explain names the library, which small products do not open', function()
  assert(require('mtorch').explain) -- without the compiler there is none: the test is skipped
  local maps = "print(io.open('/proc/self/maps'):read('*a'):find('libdnnl') and 'there' or 'not there')"
  local small = 'local x = mt.ones(60, 60) x = x:matmul(x) '
  eq(program('', small .. maps), 'not there')
  local large = 'local x = mt.ones(1000, 1000) for _ = 1, 3 do x:matmul(x) end print(path(x, x))'
  local there = program('', 'local x = mt.ones(300, 300) x = x:matmul(x) ' .. maps) == 'there'
  local wide = io.open '/proc/cpuinfo':read '*a':find 'avx512vl'
  eq(program('', large), there and wide and 'oneDNN (' or 'OpenBLAS (')
  eq(program('MTORCH_ONEDNN=off', large), 'OpenBLAS (')
  eq(program('MTORCH_ONEDNN=/not/there.so', large), 'OpenBLAS (')
  eq(program('', 'local x = mt.ones(60, 60) print(path(x, x))'), 'own')
end)

test('oneDNN compiles its kernels only after much work, with equal bits', function()
  assert(require('mtorch').explain)
  local text = program('', [[
    local a, x = mt.randn(200, 200), mt.ones(1000, 1000)
    local first, y = path(a, a), a:matmul(a)
    for _ = 1, 4 do x:matmul(x) end
    local starts = path(x, x) == 'oneDNN ('
    print(first, (path(a, a) == 'oneDNN (') == starts, mt.equal(y, a:matmul(a)))
  ]])
  eq(text, 'own\ttrue\ttrue')
end)

test('addmm by both ways', function()
  local text = program('', [[
    local a, b, c = mt.randn(300, 500), mt.randn(500, 200), mt.randn(300, 200)
    local x = mt.ones(1000, 1000)
    local first, exact = mt.addmm(c, a, b), mt.addmm(c:double(), a:double(), b:double())
    x:matmul(x) x:matmul(x)
    local d, e, f = mt.randn(60, 9000), mt.randn(9000, 90), mt.randn(60, 90) -- the terms are cut
    local long = mt.addmm(f, d, e) - mt.addmm(f:double(), d:double(), e:double())
    print(mt.equal(first, mt.addmm(c, a, b)), (first - exact):abs():max():item() < 1e-3, long:abs():max():item() < 1e-3)
  ]])
  eq(text, 'true\ttrue\ttrue')
end)

t.finish()
