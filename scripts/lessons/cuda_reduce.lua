-- cuda_reduce.lua -- the sum of many numbers on a GPU: naive, as a tree, by warps, and built in
--
--   mtorch scripts/lessons/cuda_reduce.lua                     a table, a CSV file and a graph
--   mtorch scripts/lessons/cuda_reduce.lua --compile           only compiles the kernels: needs no GPU
--
-- In a sum, unlike a map, all threads contribute to the same number. There are three kernels, each
-- faster than the previous one, and correct for every length (MiniTorch's is wrong above 1024).
local mt = require 'mtorch'
local lesson = require 'cuda_lesson'

local options = lesson.start('cuda_reduce', {
  {'largest', 2 ^ 26, 'elements of the largest sum', type = 'int', min = 1},
})

local THREADS = 256
local source = [[
// Naive: every thread adds its element to the same address. atomicAdd serializes the additions, so that
// none is lost; their order, and therefore the last bits, vary from run to run.
__global__ void sum_naive(const float* x, float* out, long long n) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(out, x[i]);
  }
}

// Tree: the threads of a block add in pairs, 256 numbers, 128, 64, .. 1. The sum of each block is
// stored in part[block], and the kernel is launched again on these. The order is always the same.
__global__ void sum_tree(const float* x, float* part, long long n) {
  __shared__ float team[THREADS];                      // shared memory of this block
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  team[threadIdx.x] = i < n ? x[i] : 0.0f;             // zero if there is no element
  __syncthreads();                                     // all writes are done before the reads
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {                          // adds the second half to the first
      team[threadIdx.x] += team[threadIdx.x + half];
    }
    __syncthreads();                                   // outside of the `if`: all threads must reach it
  }
  if (threadIdx.x == 0) {
    part[blockIdx.x] = team[0];
  }
}

// The 32 threads of a warp can read each other's registers by shuffles, without shared memory or
// barriers. Lane 0 gets the sum.
__device__ float warp_sum(float sum) {
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, step);   // the value of lane + step
  }
  return sum;
}

// Warp: each thread first adds many elements with a grid stride, so that reads are coalesced; then
// the sums of the warp are added, then those of the warps of the block.
__global__ void sum_warp(const float* x, float* part, long long n) {
  long long all = (long long)gridDim.x * blockDim.x;
  float sum = 0.0f;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all) {
    sum += x[i];
  }
  sum = warp_sum(sum);
  __shared__ float of_warp[THREADS / 32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) {
    of_warp[warp] = sum;
  }
  __syncthreads();
  if (warp == 0) {                                     // the first warp adds the sums of the warps
    sum = warp_sum(lane < THREADS / 32 ? of_warp[lane] : 0.0f);
    if (lane == 0) {
      part[blockIdx.x] = sum;
    }
  }
}
]]
local defines = {THREADS = THREADS}
local k = lesson.kernels(options, {
  {source = source, name = 'sum_naive', defines = defines, rank = {x = 1, out = 0}},
  {source = source, name = 'sum_tree', defines = defines, rank = {x = 1, part = 1}},
  {source = source, name = 'sum_warp', defines = defines, rank = {x = 1, part = 1}},
})

local function naive(x)
  local n, out = #x, mt.zeros({}, {device = 'cuda'})
  k.sum_naive[{mt.cdiv(n, THREADS), THREADS}](x, out, n)
  return out
end

local function tree(x)
  repeat                                               -- n, n / 256, n / 65536, .. until one number remains
    local n = #x
    local blocks = mt.cdiv(n, THREADS)
    local part = mt.empty({blocks}, {device = 'cuda'})
    k.sum_tree[{blocks, THREADS}](x, part, n)
    x = part
  until #x == 1
  return (x:view({}))
end

local function warp(x)
  local n = #x
  local blocks = math.min(1024, mt.cdiv(n, THREADS * 8)) -- enough to fill the GPU, 8 elements or more each
  local part, out = mt.empty({blocks}, {device = 'cuda'}), mt.empty({1}, {device = 'cuda'})
  k.sum_warp[{blocks, THREADS}](x, part, n)
  k.sum_warp[{1, THREADS}](part, out, blocks)
  return (out:view({}))
end

local function built_in(x) return (x:sum()) end

-- ---- checks ----------------------------------------------------------------------------------------

local steps = {{'naive', naive}, {'tree', tree}, {'warp', warp}, {'x:sum()', built_in}}
local longest
for _, n in ipairs {1, 31, 32, 33, 500, 1024, 1025, 65537, 2 ^ 20 + 1} do
  if n <= math.max(options.largest, 1025) then
    longest = n
    local x = mt.rand(n)
    local wanted, on_gpu = x:double():sum():item(), x:cuda()
    for _, step in ipairs(steps) do
      local got = step[2](on_gpu):item()
      -- naive adds one number after the other, with more rounding errors
      local is_close = math.abs(got - wanted) <= wanted * (step[1] == 'naive' and 1e-3 or 1e-5)
      if not is_close then error(('%s of %d numbers is %g, not %g'):format(step[1], n, got, wanted), 0) end
    end
  end
end
print(('all are right, for 1 to %d numbers'):format(longest))

-- ---- times -----------------------------------------------------------------------------------------

local titles, rows = {'n'}, {}
for c, step in ipairs(steps) do titles[c + 1] = step[1] .. ' us' end
local last
local n = 1024
while n <= options.largest do
  local x, row = mt.rand(n):cuda(), {n}
  for c, step in ipairs(steps) do
    row[c + 1] = lesson.microseconds(function() step[2](x) end, options.runs)
  end
  rows[#rows + 1], last = row, row
  n = n * 4
end
lesson.table(titles, rows, options.csv)
if last then
  print(('%d numbers: warp %.1f times faster than naive, %.1f times faster than the tree; it reads %.0f GB/s'):format(
    last[1], last[2] / last[4], last[3] / last[4], 4 * last[1] / last[4] / 1e3))
  lesson.graph(titles, rows, 'Sum of n numbers', 'n', 'us', options.plot)
end
