-- cuda_conv2d.lua -- a small filter over a large image by grid kernels: naive, shared memory, constant memory
--
--   mtorch scripts/lessons/cuda_conv2d.lua                     a table, a CSV file and a graph
--   mtorch scripts/lessons/cuda_conv2d.lua --compile           only compiles the kernels: needs no GPU
--
-- out[row][column] is the sum of the filter's elements times the pixels around (row, column), with zero
-- padding. The image has 1000 x 2000 pixels, the filter 3 x 3. Such kernels in Lua, which also run on the
-- CPU, are in notebooks/04_convolution_kernels.ipynb.
local mt = require 'mtorch'
local lesson = require 'cuda_lesson'

local options = lesson.start('cuda_conv2d', {
  {'height', 1000, 'rows of the image', type = 'int', min = 1},
  {'width', 2000, 'columns of the image', type = 'int', min = 1},
})

local TILE_X, TILE_Y, RADIUS = 32, 8, 1 -- a warp is a row of 32 pixels

-- ---- the kernels -----------------------------------------------------------------------------------

-- Naive: a thread computes one pixel and reads its inputs from global memory. For 3 x 3 that is 9 reads
-- per pixel, of which all but one hit the caches.
local naive_source = [[
__global__ void conv2d_k(const float* m, const float* f, float* out, int f_size, int m_h, int m_w) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int r = f_size / 2;                                  // the radius of the filter
  if (row < m_h && column < m_w) {                     // the guard: blocks may exceed the image
    float sum = 0.0f;
    for (int i = 0; i < f_size; ++i) {
      for (int j = 0; j < f_size; ++j) {
        int y = row - r + i, x = column - r + j;       // the pixel under the filter's element (i, j)
        if (y >= 0 && y < m_h && x >= 0 && x < m_w) {  // outside of the image: nothing to add
          sum += m[y * m_w + x] * f[i * f_size + j];
        }
      }
    }
    out[row * m_w + column] = sum;
  }
}
]]

-- Constant memory: 64 KiB that is not written while kernels run. Its cache broadcasts an element to a
-- whole warp if all threads read the same one, as they do with the filter. RADIUS is known when the
-- kernel is compiled, so the compiler unrolls both loops.
local constant_source = [[
__constant__ float F_c[2 * RADIUS + 1][2 * RADIUS + 1];  // filled by k:set_constant('F_c', tensor)
__global__ void conv2d_constant(const float* m, float* out, int m_h, int m_w) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < m_h && column < m_w) {
    float sum = 0.0f;
    for (int i = 0; i < 2 * RADIUS + 1; ++i) {
      for (int j = 0; j < 2 * RADIUS + 1; ++j) {
        int y = row - RADIUS + i, x = column - RADIUS + j;
        if (y >= 0 && y < m_h && x >= 0 && x < m_w) {
          sum += m[y * m_w + x] * F_c[i][j];
        }
      }
    }
    out[row * m_w + column] = sum;
  }
}
]]

-- Shared memory: the threads of a block load a tile of the image with a halo of RADIUS, with zeros
-- outside of the image, so that the loops need no bounds checks and each pixel is read from global
-- memory about once.
local shared_source = [[
#define ROOM_X (TILE_X + 2 * RADIUS)
#define ROOM_Y (TILE_Y + 2 * RADIUS)
__constant__ float F_c[2 * RADIUS + 1][2 * RADIUS + 1];
__global__ void __launch_bounds__(TILE_X * TILE_Y)
conv2d_shared(const float* m, float* out, int m_h, int m_w) {
  __shared__ float tile[ROOM_Y][ROOM_X];
  int row0 = blockIdx.y * TILE_Y, column0 = blockIdx.x * TILE_X;      // the corner of the tile
  int thread = threadIdx.y * TILE_X + threadIdx.x;
  for (int i = thread; i < ROOM_X * ROOM_Y; i += TILE_X * TILE_Y) {   // more elements than threads
    int y = row0 + i / ROOM_X - RADIUS, x = column0 + i % ROOM_X - RADIUS;
    tile[i / ROOM_X][i % ROOM_X] = y >= 0 && y < m_h && x >= 0 && x < m_w ? m[y * m_w + x] : 0.0f;
  }
  __syncthreads();                                     // all writes are done before the reads
  int row = row0 + threadIdx.y, column = column0 + threadIdx.x;
  if (row < m_h && column < m_w) {
    float sum = 0.0f;
    for (int i = 0; i < 2 * RADIUS + 1; ++i) {
      for (int j = 0; j < 2 * RADIUS + 1; ++j) {
        sum += tile[threadIdx.y + i][threadIdx.x + j] * F_c[i][j];
      }
    }
    out[row * m_w + column] = sum;
  }
}
]]

-- `rank`: tensors with another number of dimensions are errors before the launch.
local k = lesson.kernels(options, {
  {source = naive_source, name = 'conv2d_k', rank = {m = 2, f = 2, out = 2}},
  {source = constant_source, name = 'conv2d_constant', rank = {m = 2, out = 2}, defines = {RADIUS = RADIUS}},
  {source = shared_source, name = 'conv2d_shared', rank = {m = 2, out = 2},
   defines = {RADIUS = RADIUS, TILE_X = TILE_X, TILE_Y = TILE_Y}},
})

-- ---- launches --------------------------------------------------------------------------------------

local threads = {TILE_X, TILE_Y}
local function blocks(h, w) return {mt.cdiv(w, TILE_X), mt.cdiv(h, TILE_Y)} end

local function naive(m, f)
  local h, w = m.shape[1], m.shape[2]
  assert(f.shape[1] == f.shape[2] and f.shape[1] % 2 == 1, 'the filter must be square, of an odd size')
  local out = mt.empty_like(m)
  k.conv2d_k[{blocks(h, w), threads}](m, f, out, f.shape[1], h, w)
  return out
end
--- Wraps a kernel with the filter in constant memory, which each call copies there.
local function with_constant(kernel)
  return function(m, f)
    local h, w = m.shape[1], m.shape[2]
    local out = mt.empty_like(m)
    kernel:set_constant('F_c', f)
    kernel[{blocks(h, w), threads}](m, out, h, w)
    return out
  end
end
local constant_filter, shared_tile = with_constant(k.conv2d_constant), with_constant(k.conv2d_shared)
local function built_in(m, f)
  local h, w = m.shape[1], m.shape[2]
  return (mt.conv2d(m:view(1, 1, h, w), f:view(1, 1, 3, 3), nil, 1, 1):view(h, w))
end
local steps = {{'naive', naive}, {'constant filter', constant_filter}, {'shared tile', shared_tile},
               {'mt.conv2d', built_in}}

-- ---- checks, also of images that are not multiples of a tile -----------------------------------------

local weights = mt.randn(3, 3)
for _, size in ipairs{ {1, 1}, {16, 16}, {33, 45}, {48, 500}, {7, 1025}, {options.height, options.width} } do
  local m = mt.randn(size[1], size[2])
  local wanted = built_in(m, weights)
  for _, step in ipairs(steps) do
    lesson.check(('%s %d x %d'):format(step[1], size[1], size[2]), step[2](m:cuda(), weights:cuda()), wanted, 1e-5)
  end
end
print(('all are right, for images of 1 x 1 to %d x %d'):format(options.height, options.width))

-- A mistake of the notebook: an image of 1 x h x w for a kernel of h x w. There it ran with a height of
-- 1 and a width of h; here it is an error.
local m, weights_gpu = mt.rand(options.height, options.width):cuda(), weights:cuda()
lesson.fails('a 3-d image', function() naive(m:view(1, options.height, options.width), weights_gpu) end)

-- ---- times -----------------------------------------------------------------------------------------

print(('\n-- %d x %d with 3 x 3 --'):format(options.height, options.width))
local rows = {}
local function add(name, fn, x, f)
  local us = lesson.microseconds(function() fn(x, f) end, options.runs)
  local first = rows[1] and rows[1][2] or us
  rows[#rows + 1] = {name, us, 8 * x:numel() / us / 1e3, first / us} -- the image is read and written at least once
end
for _, step in ipairs(steps) do add(step[1], step[2], m, weights_gpu) end
add('CPU', built_in, m:cpu(), weights)
lesson.table({'step', 'us', 'GB/s', 'times naive'}, rows, options.csv)
if options.plot ~= '' then
  local times, names = {}, {}
  for i, row in ipairs(rows) do names[i], times[i] = row[1], math.log10(math.max(row[2], 1)) end
  local title = ('A 3 x 3 filter over %d x %d pixels'):format(options.height, options.width)
  mt.plot.bar {times, labels = names, title = title,
               ylabel = 'log10 of the microseconds', path = options.plot}
  print('graph: ' .. options.plot)
end
