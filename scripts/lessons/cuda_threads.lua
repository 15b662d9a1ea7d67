-- cuda_threads.lua -- threads, blocks, grids and guards, by kernels that print and write their indices
--
--   mtorch scripts/lessons/cuda_threads.lua                    prints the indices and a table, writes a graph
--   mtorch scripts/lessons/cuda_threads.lua --compile          only compiles the kernels: needs no GPU
--
-- A kernel is a function that many threads of a GPU run at the same time. It is launched over a grid
-- of blocks; a block has up to 1024 threads on one multiprocessor. Each thread computes its position
-- from blockIdx and threadIdx, and does its part of the work. The same kernels in Lua, which also run on
-- the CPU, are in notebooks/02_grid_kernels.ipynb.
local mt = require 'mtorch'
local lesson = require 'cuda_lesson'

local options = lesson.start('cuda_threads', {
  {'n', 2 ^ 24, 'elements of the timed additions', type = 'int', min = 1},
})

-- ---- the kernels ----------------------------------------------------------------------------------

local source = [[
// Every thread prints its position. printf works in kernels; mt.cuda.synchronize() shows the output.
__global__ void who_am_i() {
  printf("block (%d, %d) of %d x %d, thread %d of %d\n",
         (int)blockIdx.x, (int)blockIdx.y,             // the block of the grid that has this thread
         (int)gridDim.x, (int)gridDim.y,               // the number of blocks of the launch
         (int)threadIdx.x, (int)blockDim.x);           // the thread of the block, and their number
}

// Thread i adds ten to element i. The grid has whole blocks, so the last threads may have no element:
// the guard skips them.
__global__ void add_ten(float* out, const float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;       // threads of the blocks before, plus the own index
  if (i < n) {                                         // the guard
    out[i] = a[i] + 10.0f;
  }
}

// The same without the guard: threads without an element write to memory after the tensor.
__global__ void add_ten_unguarded(float* out, const float* a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = a[i] + 10.0f;
}

// Two dimensions: x is the column, y the row. Each thread writes its position.
__global__ void name_tag(int* out, int rows, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && column < columns) {
    out[row * columns + column] = row * 1000 + column; // row-major: rows are stored one after the other
  }
}
]]
local k = lesson.kernels(options, {
  {source = source, name = 'who_am_i'},
  {source = source, name = 'add_ten', rank = {out = 1, a = 1}},
  {source = source, name = 'add_ten_unguarded'},
  {source = source, name = 'name_tag', rank = {out = 2}},
})

-- ---- positions -----------------------------------------------------------------------------------

print('\n-- A grid of 2 x 2 blocks of 3 threads; blocks come in any order --')
k.who_am_i[{ {2, 2}, 3 }]()
mt.cuda.synchronize()                                  -- waits for the kernel and shows its output

-- ---- one element each ----------------------------------------------------------------------------

print('\n-- 50 elements in blocks of 32 threads --')
local n, threads = 50, 32
local blocks = mt.cdiv(n, threads)                     -- 50 / 32 rounded up
print(('%d blocks of %d threads are %d threads, of which %d have no element'):format(blocks, threads,
  blocks * threads, blocks * threads - n))
local a = mt.range(1, n):float():cuda()
local out = mt.zeros(n, {device = 'cuda'})
k.add_ten[{blocks, threads}](out, a, n)
lesson.check('add_ten', out, mt.range(11, n + 10):float(), 0)
print('add_ten: right')

-- A tensor of 64 numbers; the kernel gets only the first 50.
local buffer, input = mt.zeros(64, {device = 'cuda'}), mt.zeros(64, {device = 'cuda'})
k.add_ten[{blocks, threads}](buffer[{{1, n}}], input, n)
local changed = buffer[{{n + 1, 64}}]:ne(0):sum():item()
print(('with the guard %d numbers after the tensor were changed'):format(changed))
assert(changed == 0)
k.add_ten_unguarded[{blocks, threads}](buffer[{{1, n}}], input)
changed = buffer[{{n + 1, 64}}]:ne(0):sum():item()
print(('without it %d; in general this is the memory of another tensor'):format(changed))
assert(changed == 64 - n)

-- ---- two dimensions ------------------------------------------------------------------------------

print('\n-- 37 x 45 in blocks of 16 x 16 --')
local rows, columns = 37, 45
local tags = mt.zeros({rows, columns}, {dtype = 'int32', device = 'cuda'})
k.name_tag[{ {mt.cdiv(columns, 16), mt.cdiv(rows, 16)}, {16, 16} }](tags, rows, columns)
local wanted = mt.range(0, rows - 1):view(rows, 1) * 1000 + mt.range(0, columns - 1):view(1, columns)
lesson.check('name_tag', tags:double(), wanted:double(), 0)
print('name_tag: right; the last thread of row 2 is called ' .. tags:at(2, columns))

-- ---- errors that are detected before the launch -----------------------------------------------------

print('\n-- Mistakes --')
for _, mistake in ipairs {
  {'2-d for 1-d', function() k.add_ten[{blocks, threads}](out:view(5, 10), a, n) end},
  {'too many threads', function() k.name_tag[{1, {33, 32}}](tags, rows, columns) end},
  {'half an element', function() k.add_ten[{blocks, threads}](out, a, 2.5) end},
  {'whole numbers for real ones', function() k.add_ten[{blocks, threads}](out, a:int(), n) end},
} do
  lesson.fails(mistake[1], mistake[2])
end

-- ---- how large should a block be? ------------------------------------------------------------------

print('\n-- add_ten of ' .. options.n .. ' numbers by the size of a block --')
local x, y = mt.ones(options.n, {device = 'cuda'}), mt.zeros(options.n, {device = 'cuda'})
local table_rows = {}
for _, size in ipairs {32, 64, 128, 256, 512, 1024} do
  local launch = k.add_ten[{mt.cdiv(options.n, size), size}]
  local us = lesson.microseconds(function() launch(y, x, options.n) end, options.runs)
  -- each element is read once and written once, 4 bytes each
  table_rows[#table_rows + 1] = {size, mt.cdiv(options.n, size), us, 8 * options.n / us / 1e3}
end
lesson.check('add_ten', y, x:cpu() + 10, 0)
local titles = {'threads in a block', 'blocks', 'us', 'GB/s'}
lesson.table(titles, table_rows, options.csv)
local points = {}
for i, row in ipairs(table_rows) do points[i] = {row[1], row[4]} end
lesson.graph({titles[1], 'GB/s'}, points, 'Adding ten: memory moved by the size of a block', titles[1], 'GB/s',
  options.plot)
