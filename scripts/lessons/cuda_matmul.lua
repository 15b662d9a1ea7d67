-- cuda_matmul.lua -- matrix products by grid kernels, each step explained: naive, shared memory, registers
--
--   mtorch scripts/lessons/cuda_matmul.lua                     tables, CSV files and a graph
--   mtorch scripts/lessons/cuda_matmul.lua --largest 2048      largest product
--   mtorch scripts/lessons/cuda_matmul.lua --compile           only compiles the kernels: needs no GPU
--
-- c = a b, where a is m x k, b is k x n and c is m x n, all row-major: the element in row i and column
-- j of a lies at a[i * k + j]. Every kernel is checked against the CPU or cuBLAS, then timed. Such
-- kernels in Lua, which also run on the CPU, are in notebooks/02_grid_kernels.ipynb.
local mt = require 'mtorch'
local lesson = require 'cuda_lesson'

local options = lesson.start('cuda_matmul', {
  {'largest', 8192, 'largest n of the products n x n', type = 'int', min = 1},
  {'cpu', 2048, 'largest n for which the CPU is also measured', type = 'int', min = 1},
  {'rows', 50000, 'rows of the tall product', type = 'int', min = 1},
})

local function built_in(a, b) return (a:matmul(b)) end -- cuBLAS on the GPU, mtorch's kernels and OpenBLAS on the CPU

-- ---- naive: one thread, one element ----------------------------------------------------------------

-- Every thread reads a whole row of a and a whole column of b from global memory: 2 k numbers for k
-- multiplications. The threads of a warp read the same row and adjacent columns, so the reads of b are
-- coalesced and those of a are broadcast; the caches help too. Still, the memory bandwidth limits the
-- speed.
local naive_source = [[
__global__ void matmul_naive(const float* a, const float* b, float* c, int m, int n, int k) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;  // x is the column of c: adjacent threads
  int row = blockIdx.y * blockDim.y + threadIdx.y;     // have adjacent columns
  if (row < m && column < n) {                         // the guard: the grid has whole blocks
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
      sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    }
    c[(long long)row * n + column] = sum;              // written once: sum is in a register
  }
}
]]

-- ---- tiled: the threads of a block share tiles -----------------------------------------------------

-- A block computes a tile of c. In steps of TILE along k each thread loads one number of a and one of b
-- into shared memory, then all threads use the tiles. So every number is read from global memory once
-- for TILE uses instead of once for each.
local tiled_source = [[
__global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[TILE][TILE];                   // a tile of a, shared by the block
  __shared__ float right[TILE][TILE];                  // a tile of b
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  float sum = 0.0f;
  for (int step = 0; step < k; step += TILE) {
    // Outside of the matrices a zero is stored, which adds nothing. No thread returns early: all must
    // reach the barriers.
    left[y][x] = row < m && step + x < k ? a[(long long)row * k + step + x] : 0.0f;
    right[y][x] = step + y < k && column < n ? b[(long long)(step + y) * n + column] : 0.0f;
    __syncthreads();                                   // all writes are done before the reads
    for (int i = 0; i < TILE; ++i) {
      sum += left[y][i] * right[i][x];                 // left: a broadcast; right: 32 adjacent numbers
    }
    __syncthreads();                                   // all reads are done before the next writes
  }
  if (row < m && column < n) {
    c[(long long)row * n + column] = sum;
  }
}
]]

-- ---- registers: a thread computes 8 x 8 elements ---------------------------------------------------

-- Shared memory is fast, but the tiled kernel reads it twice for each multiplication. Here a thread
-- loads 8 numbers of a and 8 of b into registers for 64 multiplications. A block of 256 threads
-- computes a tile of 128 x 128; thread (tx, ty) has the rows ty, ty + 16, .. and the columns
-- tx, tx + 16, .., so that adjacent threads access adjacent numbers.
local register_source = [[
#define EDGE 128                                       // a block computes EDGE x EDGE elements of c
#define DEPTH 8                                        // how much of k is loaded at once
#define EACH 8                                         // a thread computes EACH x EACH elements
#define SIDE (EDGE / EACH)                             // SIDE x SIDE = 256 threads
__global__ void __launch_bounds__(SIDE * SIDE)
matmul_registers(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[DEPTH][EDGE + 1];              // transposed; + 1 avoids bank conflicts
  __shared__ float right[DEPTH][EDGE];
  int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
  int row0 = blockIdx.y * EDGE, column0 = blockIdx.x * EDGE;
  float sum[EACH][EACH] = {};                          // 64 registers
  for (int step = 0; step < k; step += DEPTH) {
    for (int i = threadIdx.x; i < EDGE * DEPTH; i += SIDE * SIDE) {   // 4 numbers of a for each thread
      int row = i / DEPTH, q = i % DEPTH;              // 8 threads read 8 adjacent numbers
      left[q][row] = row0 + row < m && step + q < k ? a[(long long)(row0 + row) * k + step + q] : 0.0f;
    }
    for (int i = threadIdx.x; i < DEPTH * EDGE; i += SIDE * SIDE) {   // and 4 of b
      int q = i / EDGE, column = i % EDGE;
      right[q][column] =
          step + q < k && column0 + column < n ? b[(long long)(step + q) * n + column0 + column] : 0.0f;
    }
    __syncthreads();
    for (int q = 0; q < DEPTH; ++q) {
      float l[EACH], r[EACH];                          // 16 reads of shared memory ..
      for (int i = 0; i < EACH; ++i) l[i] = left[q][ty + SIDE * i];
      for (int j = 0; j < EACH; ++j) r[j] = right[q][tx + SIDE * j];
      for (int i = 0; i < EACH; ++i) {
        for (int j = 0; j < EACH; ++j) {
          sum[i][j] += l[i] * r[j];                    // .. for 64 multiplications
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < EACH; ++i) {
    for (int j = 0; j < EACH; ++j) {
      int row = row0 + ty + SIDE * i, column = column0 + tx + SIDE * j;
      if (row < m && column < n) {
        c[(long long)row * n + column] = sum[i][j];
      }
    }
  }
}
]]

local TILE = 32
local matrices = {a = 2, b = 2, c = 2}                      -- all three are matrices
local k = lesson.kernels(options, {
  {source = naive_source, name = 'matmul_naive', rank = matrices},
  {source = tiled_source, name = 'matmul_tiled', rank = matrices, defines = {TILE = TILE}},
  {source = register_source, name = 'matmul_registers', rank = matrices},
})

-- ---- launches --------------------------------------------------------------------------------------

--- Returns the product by a kernel, with enough blocks to cover c; each computes `columns` x `rows` elements.
local function by_source(kernel, columns, rows, threads)
  return function(a, b)
    assert(a.shape[2] == b.shape[1], 'the inner sizes differ') -- the kernels do not check the sizes
    local m, n, inner = a.shape[1], b.shape[2], a.shape[2]
    local c = mt.empty({m, n}, {device = 'cuda'})
    kernel[{ {mt.cdiv(n, columns), mt.cdiv(m, rows)}, threads }](a, b, c, m, n, inner)
    return c
  end
end
local steps = {{'naive', by_source(k.matmul_naive, 32, 8, {32, 8})},
               {'tiled', by_source(k.matmul_tiled, TILE, TILE, {TILE, TILE})},
               {'registers', by_source(k.matmul_registers, 128, 128, 256)}, {'mt.matmul', built_in}}

--- Checks every product against mt.matmul, on the CPU if that is fast enough, else on the GPU.
local function check(a, b, a_cpu, b_cpu)
  local wanted = a_cpu and built_in(a_cpu, b_cpu) or built_in(a, b)
  local inner = a.shape[2]
  for _, step in ipairs(steps) do
    lesson.check(step[1] .. ' ' .. tostring(a.shape), step[2](a, b), wanted, 1e-5 + 1e-6 * inner)
  end
end

-- ---- checks, also of sizes that are not multiples of a tile ----------------------------------------

for _, s in ipairs { {1, 1, 1}, {16, 16, 16}, {48, 48, 48}, {33, 33, 33}, {45, 40, 33}, {128, 128, 8}, {130, 140, 20},
                     {500, 10, 64}, {2, 300, 7}, {5, 10, 784} } do
  local a, b = mt.randn(s[1], s[3]), mt.randn(s[3], s[2])
  if s[1] * s[2] <= options.largest ^ 2 then check(a:cuda(), b:cuda(), a, b) end
end
print('all products are right, of 1 x 1 to 500 x 10')

-- ---- times by size ---------------------------------------------------------------------------------

print('\n-- n x n times n x n, in GFLOP/s --')
local titles, rows = {'n', 'naive', 'tiled', 'registers', 'mt.matmul', 'CPU'}, {}
local n = 64
while n <= options.largest do
  local a_cpu, b_cpu = mt.randn(n, n), mt.randn(n, n)
  local a, b = a_cpu:cuda(), b_cpu:cuda()
  local on_cpu = n <= options.cpu
  check(a, b, on_cpu and a_cpu, on_cpu and b_cpu)
  local row, work = {n}, 2 * n ^ 3 / 1e3               -- thousands of operations / us = GFLOP/s
  for c, step in ipairs(steps) do
    row[c + 1] = work / lesson.microseconds(function() step[2](a, b) end, options.runs)
  end
  row[6] = on_cpu and work / lesson.microseconds(function() built_in(a_cpu, b_cpu) end, options.runs) or nil
  rows[#rows + 1] = row
  n = n * 2
end
lesson.table(titles, rows, options.csv)
lesson.graph(titles, rows, 'Matrix products n x n', 'n', 'Gflop/s', options.plot)

-- ---- a tall product: a whole training set times ten classes ----------------------------------------

print(('\n-- %d x 784 times 784 x 10: what the copy back costs --'):format(options.rows))
local a_cpu, b_cpu = mt.rand(options.rows, 784), mt.randn(784, 10)
local a, b = a_cpu:cuda(), b_cpu:cuda()
check(a, b, a_cpu, b_cpu)
local tall_rows, first = {}, nil
for _, step in ipairs(steps) do
  local us = lesson.microseconds(function() step[2](a, b) end, options.runs)
  -- with the copy of the 500 000 results to the CPU
  local us_with_copy = lesson.microseconds(function() step[2](a, b):cpu() end, options.runs)
  first = first or us
  tall_rows[#tall_rows + 1] = {step[1], us, us_with_copy, first / us}
end
local cpu = lesson.microseconds(function() built_in(a_cpu, b_cpu) end, options.runs)
tall_rows[#tall_rows + 1] = {'CPU', cpu, cpu, first / cpu}
local us_with_copies = lesson.microseconds(function() built_in(a_cpu:cuda(), b):cpu() end, options.runs)
tall_rows[#tall_rows + 1] = {'mt.matmul, with the copy of the digits', nil, us_with_copies, first / us_with_copies}
lesson.table({'step', 'us', 'us with the copy back', 'times naive'}, tall_rows)
