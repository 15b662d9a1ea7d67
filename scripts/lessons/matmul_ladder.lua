-- matmul_ladder.lua -- one matrix product, from three loops to one call, with the speed-up of each step
--
--   mtorch scripts/lessons/matmul_ladder.lua                         generated digits
--   mtorch scripts/lessons/matmul_ladder.lua --data DIR              MNIST's files (also .gz) in DIR
--   mtorch scripts/lessons/matmul_ladder.lua --plot ladder.svg       file for the chart ('' writes none)
--
-- The product is 5 digits (5 x 784) times weights (784 x 10), as in fast.ai's matmul notebook. The
-- weights are PyTorch's `manual_seed(1); randn(784, 10)`, so that with MNIST's training images the
-- notebook's own numbers appear. Each step is checked against the first and timed; speed-ups are
-- relative to the first step. On the whole set (--rows) "broadcasting" creates a tensor of 784 x 10 for
-- each of 50000 rows, which takes seconds; it runs once as a check and --runs times before its line
-- appears. notebooks/01_matmul_ladder.ipynb explains the steps; cuda_matmul.lua goes on with the notebook's
-- kernel on a GPU.
local mt = require 'mtorch'
local util = mt.extend.util

local options = mt.args{
  {'data', help = "folder of MNIST's files (also .gz); default: generated digits", metavar = 'DIR'},
  {'rows', 50000, 'digits of the whole set', type = 'int', min = 5},
  {'runs', 7, 'timed runs; the median is shown', type = 'int', min = 1},
  {'plot', 'matmul_ladder.svg', "file for the chart; '' for none", endings = {'svg', 'png'}},
}

local function title(text) print('\n-- ' .. text .. ' ' .. ('-'):rep(math.max(3, 76 - #text))) end

-- ---- the digits --------------------------------------------------------------------------------

--- Loads images as rows of 784 numbers in 0..1 (byte / 256, as in the notebook's file); nil if there is no file.
local function images(name)
  for _, ending in ipairs {'', '.gz'} do
    local path = options.data .. '/' .. name .. ending
    if util.exists(path) then return mt.data.idx(path):view(-1, 784):float() / 256 end
  end
end

--- Returns x_train (rows x 784), x_valid (at least 5 x 784), and whether they are the notebook's.
local function load_digits()
  local train = options.data and images 'train-images-idx3-ubyte'
  if train then
    print(('digits: %d training images of %s; rows 50001.. are the validation data'):format(#train, options.data))
    return train[{{1, math.min(options.rows, 50000)}}], train[{{50001, -1}}], true
  end
  local some = mt.data.digits(2000).x:view(-1, 784)
  if options.data then some = images 't10k-images-idx3-ubyte' end
  if not some then
    io.stderr:write(("matmul_ladder: '%s' has neither train- nor t10k-images-idx3-ubyte(.gz)\n"):format(options.data))
    os.exit(1)
  end
  print(('digits: %s; the numbers are the notebook\'s with the training images of MNIST (--data DIR)'):format(
    options.data and 'the test images of ' .. options.data or 'generated'))
  return some:tile(math.ceil(options.rows / #some), 1)[{{1, options.rows}}], some, false
end

local x_train, x_valid, is_notebook = load_digits()
local weights = mt.randn(784, 10, {generator = mt.Generator('mt19937', 1)})
local m1, m2 = x_valid[{{1, 5}}]:contiguous(), weights
print('m1 ' .. tostring(m1.shape) .. '   m2 ' .. tostring(m2.shape))

-- ---- the steps: each computes c (rows x 10) from a (rows x 784) and b (784 x 10) ----------------

local function new(a, b) return (mt.zeros(a.shape[1], b.shape[2])) end

--- As in the notebook: t1[i, j] += m1[i, k] * m2[k, j], each element a 0-d tensor.
local function three_loops_of_tensors(a, b)
  local c = new(a, b)
  for i = 1, a.shape[1] do
    for j = 1, b.shape[2] do
      for k = 1, a.shape[2] do c[{i, j}] = c[{i, j}] + a[{i, k}] * b[{k, j}] end
    end
  end
  return c
end

--- Returns the function that computes every element of c as element(i, j, a, b).
local function each_element(element)
  return function(a, b)
    local c = new(a, b)
    for i = 1, a.shape[1] do
      for j = 1, b.shape[2] do c[{i, j}] = element(i, j, a, b) end
    end
    return c
  end
end

--- The product of a row and a column, by the third loop.
local function sum_of_products(i, j, a, b)
  local sum = 0
  for k = 1, a.shape[2] do sum = sum + a:at(i, k) * b:at(k, j) end
  return sum
end
local three_loops = each_element(sum_of_products)

--- A plain loop over FFI pointers, which LuaJIT compiles, as Numba's njit does. b is read with a stride.
local function dot(a, b, n, step)
  local sum = 0
  for k = 0, n - 1 do sum = sum + a[k] * b[k * step] end
  return sum
end
local function ffi_loop(a, b)
  local c = new(a, b)
  local pa, pb, pc = a:data(), b:data(), c:data()
  local n, columns = a.shape[2], b.shape[2]
  for i = 0, a.shape[1] - 1 do
    for j = 0, columns - 1 do pc[i * columns + j] = dot(pa + i * n, pb + j, n, columns) end
  end
  return c
end

local row_times_column = each_element(function(i, j, a, b) return (a[i] * b[{{}, j}]):sum() end)
local row_dot_column = each_element(function(i, j, a, b) return a[i]:dot(b[{{}, j}]) end)

local function broadcasting(a, b)
  local c = new(a, b)
  for i = 1, a.shape[1] do c[i] = (a[{i, {}, mt.newaxis}] * b):sum(1) end
  return c
end

local function einsum(a, b) return (mt.einsum('ik,kj->ij', a, b)) end
local function matmul(a, b) return (a:matmul(b)) end

--- Computes one element of the product, the work of one GPU thread.
local function cell(i, j, a, b, c)
  if i <= c.shape[1] and j <= c.shape[2] then c[{i, j}] = sum_of_products(i, j, a, b) end
end
local function grid_kernel(a, b)
  local c = new(a, b)
  mt.launch_kernel(cell, a.shape[1], b.shape[2], a, b, c)
  return c
end

-- ---- the first step --------------------------------------------------------------------------------

title('Three Lua loops')
local t1 = three_loops(m1, m2)
mt.set_printoptions {precision = 2, linewidth = 140, sci_mode = false}
print(t1)
if is_notebook then
  mt.test_close(t1[1], mt.tensor {-10.9417, -0.6844, -7.0038, -4.0066, -2.0857, -3.3588, 3.9127, -3.4375, -11.4696,
                                  -2.1153}, 1e-3)
  print("these are the notebook's numbers")
end

-- ---- the ladder --------------------------------------------------------------------------------

title('The ladder, ' .. tostring(m1.shape) .. ' x ' .. tostring(m2.shape))
local steps = {
  {'three Lua loops, x[{i, j}]', three_loops_of_tensors, 1}, {'three Lua loops, x:at', three_loops, 2},
  {'launch_kernel over the grid', grid_kernel, 2},
  {'row times column, sum', row_times_column, 50}, {'row dot column', row_dot_column, 50},
  {'broadcasting', broadcasting, 50}, {'FFI loop (LuaJIT)', ffi_loop, 50}, {'einsum', einsum, 50},
  {'matmul', matmul, 50},
}
local names, gains, first = {}, {}, nil
local full = {mt.randn(3, 7), mt.randn(7, 2)} -- digits have zeros at their edges, which hide a wrong first or last k
for _, step in ipairs(steps) do
  local name, f, n = step[1], step[2], step[3]
  mt.test_close(t1, f(m1, m2), 1e-5)
  mt.test_close(full[1]:matmul(full[2]), f(full[1], full[2]), 1e-5)
  io.write(('%-28s'):format(name))
  local _, _, median = mt.timeit(function() return (f(m1, m2)) end, {n = n, runs = options.runs})
  first = first or median
  step.median = median
  names[#names + 1], gains[#gains + 1] = name, first / median
end

title('The whole set, ' .. tostring(x_train.shape) .. ' x ' .. tostring(m2.shape))
local expected = matmul(x_train, weights)
print(('broadcasting: %d tensors of (784 x 10), %d times ..'):format(#x_train, options.runs + 1))
for _, step in ipairs {{'broadcasting', broadcasting, 1}, {'einsum', einsum, 5}, {'matmul', matmul, 5}} do
  local name, f, n = unpack(step)
  mt.test_close(expected, f(x_train, weights), 1e-3)
  io.write(('%-28s'):format(name))
  mt.timeit(function() return (f(x_train, weights)) end, {n = n, runs = options.runs})
end

title('Speed-up per step')
print('| step | median | to the first step | to the one before |\n|---|---|---|---|')
for i, step in ipairs(steps) do
  local before = i > 1 and steps[i - 1].median or step.median
  local time = util.in_units('%.3g %s', step.median, 1, 's', 1e-3, 'ms', 1e-6, 'us')
  print(('| %s | %s | %.1fx | %.2fx |'):format(step[1], time, first / step.median, before / step.median))
end
if options.plot ~= '' then
  local logs = {}
  for i, gain in ipairs(gains) do logs[i] = math.log10(math.max(gain, 1)) end
  mt.plot.bar {logs, labels = names, title = 'Matrix product 5 x 784 x 10: speed-up to three Lua loops',
               ylabel = 'log10 of the speed-up', path = options.plot}
  print('chart: ' .. options.plot)
end
