-- bench_cblas.lua -- the products of bench.lua as direct calls of OpenBLAS's cblas_sgemm
--
--   mtorch scripts/peers/bench_cblas.lua --threads 1 [--only '^(matmul/64x64x64|..)$'] [--quick]
--
-- The library, its kernels and the threads are those of mtorch; the result has a place already.
local mt = require 'mtorch'
local core = require 'mtorch.core'
local ffi = require 'ffi'

ffi.cdef [[
void openblas_set_num_threads(int n);
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
]]
local options = mt.args {only = '', quick = false, threads = 1}
mt.linalg.inv(mt.eye(2)) -- mtorch opens the library, with kernels for the processor
local blas = ffi.load('libopenblas.so.0')
blas.openblas_set_num_threads(options.threads)
local kRowMajor, kAsIs, kTransposed = 101, 111, 112

local function run(call, loops)
  local began = core.time()
  for _ = 1, loops do call() end
  return (core.time() - began) / loops
end

for name in options.only:gmatch('matmul/[%l%dx_]+') do
  local layout, m, k, n = name:match('/(%a*)_?(%d+)x(%d+)x(%d+)$')
  m, k, n = tonumber(m), tonumber(k), tonumber(n)
  local a, b, c = mt.rand(m, k), mt.rand(k, n), mt.zeros(m, n)
  local pa, pb, pc = a:data(), b:data(), c:data()
  local ta, tb = layout:match '^t', layout:match 't$'
  local function call()
    blas.cblas_sgemm(kRowMajor, ta and kTransposed or kAsIs, tb and kTransposed or kAsIs, m, n, k, 1,
                     pa, ta and m or k, pb, tb and k or n, 0, pc, n)
  end
  local least, loops, times = options.quick and 1e-3 or 5e-3, 1, {}
  run(call, 1)
  while true do
    local taken = run(call, loops) * loops
    if taken >= least then break end
    loops = math.max(2 * loops, math.floor(1.2 * loops * least / taken))
  end
  for i = 1, options.quick and 3 or 7 do times[i] = run(call, loops) end
  table.sort(times)
  print(('%s\t%.3f'):format(name, times[math.ceil(#times / 2)] * 1e6))
end
