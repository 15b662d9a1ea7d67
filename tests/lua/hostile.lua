-- hostile.lua -- random calls of the whole API with hostile arguments: errors are sentences, and nothing crashes
--
--   mtorch tests/lua/hostile.lua [CALLS [SEED]]     200,000 calls under the sanitizers, 8,000 in the normal tests
--
-- Every function of mt, linalg, fft, nn, optim, data, distributions and every method is called with corner values: 0,
-- -1, 2^31, 2^62, NaN, empty and 0-d tensors, wrong ranks, wrong types, options, tables that are cyclic or raise. About
-- half of the arguments suit their parameter, so that calls pass the first checks; results are used in other calls and
-- in backward. Each call must return or raise a sentence that begins with the line of this script. Memory is limited,
-- so that huge sizes are errors. MTORCH_HOSTILE_TRACE=1 prints each call before it is made.
local mt = require 'mtorch'
local core = require 'mtorch.core'

-- Functions write their files here.
local ffi = require 'ffi'
ffi.cdef [[char *mkdtemp(char *template); int chdir(const char *path);
  int setenv(const char *name, const char *value, int overwrite);]]
local folder = ffi.string(ffi.C.mkdtemp(ffi.new('char[?]', 32, '/tmp/mtorch_hostile.XXXXXX')))
assert(ffi.C.chdir(folder) == 0)
for _, name in ipairs{'http_proxy', 'https_proxy'} do ffi.C.setenv(name, 'http://127.0.0.1:9', 1) end -- no web
ffi.C.setenv('XDG_CACHE_HOME', folder, 1)

local default_calls = os.getenv('MTORCH_SANITIZED') and 200000 or 8000
local calls, seed = tonumber(arg and arg[1]) or default_calls, tonumber(arg and arg[2]) or 1
local limit = 48 * 2 ^ 20
core.set_memory_limit(limit)
mt.manual_seed(seed)
math.randomseed(seed)
local random = math.random

local function any(list) return list[random(#list)] end

-- ---- random arguments ----

local function tensors()
  local p, q = mt.rand(2, 2):requires_grad_(), mt.rand({3, 4}, {dtype = 'float64'}):requires_grad_()
  local list = {
    mt.tensor(2.5), mt.tensor(-0.0), mt.zeros(0), mt.zeros(0, 3), mt.zeros(2, 0, 3), mt.zeros({}, {dtype = 'int64'}),
    mt.rand(3), mt.rand(4), mt.rand(3, 4), mt.rand(4, 3):t(), mt.rand(2, 3, 4), mt.rand(1, 1), mt.rand(5, 5),
    mt.rand(2, 3, 4, 4), mt.rand(6, 6)[{{1, 6, 2}, {2, 5}}], mt.rand(3, 1):expand(3, 4), mt.rand(1):expand(7),
    mt.tensor{0 / 0, 1 / 0, -1 / 0, 0, -0.0, 1e-40, 3e38}, mt.rand({3, 3}, {dtype = 'float64'}),
    mt.rand({3, 4}, {dtype = 'float64'}):requires_grad_(), mt.rand(3, 4):requires_grad_(), mt.rand(4) * 1e30,
    mt.tensor({1, 2, 3}, {dtype = 'int64'}), mt.tensor({0, -1, 2 ^ 31}, {dtype = 'int64'}),
    mt.tensor({2 ^ 53, -2 ^ 53}, {dtype = 'int64'}), mt.randint(1, 3, {3, 4}), mt.randint(-3, 3, {2, 3}),
    mt.tensor({0, 255}, {dtype = 'uint8'}), mt.tensor({-2147483648, 2147483647}, {dtype = 'int32'}),
    mt.rand(3, 4):lt(0.5), mt.rand(3):lt(0.5), mt.tensor(true), mt.eye(4), mt.eye(3):double(), mt.ones(4, 4),
    mt.zeros(1, 1, 1, 1, 1, 1, 1, 1), mt.rand(64), p, q, p * 2, mt.rand(1000),
    mt.rand(9):as_strided({3, 3}, {1, 1}), mt.rand(9):unfold(1, 3, 2), mt.rand(4, 3):flip(1):t(), mt.rand(2, 3, 4)[2],
    q:t(), mt.frombuffer('\0\1\2\255', {dtype = 'bool'}),
    mt.tensor({-2 ^ 63, -1}, {dtype = 'int64'}), mt.empty({3, 4}, {dtype = 'bool'}),
    mt.rand({3, 4}, 'float16'), mt.rand({3, 4}, 'bfloat16'):requires_grad_(), mt.rand({4, 3}, 'float16'):t(),
    mt.tensor({0 / 0, 1 / 0, 65504, 1e-8}, 'float16'), mt.zeros({0, 3}, 'bfloat16'), mt.rand({2, 3, 4, 4}, 'float16'),
    mt.zeros(3, 0):requires_grad_(), mt.rand({4, 4}, {dtype = 'float64'}) + mt.eye(4),
    mt.rand(2, 3, 6, 6):requires_grad_(), mt.rand(3, 1, 2):permute(3, 1, 2), mt.randint(0, 5, {3, 4}):t(),
  }
  return list
end
local pool = tensors()
local numbers = {0, -0.0, 1, 2, 3, 4, 5, -1, -2, -3, 7, 0.5, -0.5, 1.5, 2.7, 100, 1e-3, 1e10, 2 ^ 31, 2 ^ 31 - 1,
                 -2 ^ 31, 2 ^ 32, 2 ^ 53, 2 ^ 53 + 2, 2 ^ 62, 2 ^ 63, -2 ^ 63, 1e300, 1 / 0, -1 / 0, 0 / 0, 1e-320,
                 16, 17, 255, 256}
local words = {'float32', 'float64', 'int64', 'bool', 'uint8', 'cpu', 'cuda', 'mean', 'sum', 'none', 'ij,jk->ik',
               'ii->i', '...->', 'reflect', 'constant', 'circular', 'linear', 'nearest', '', 'x', '12', ':',
               '1:2, :', '...,1', '0:', 'fro', 'nuc', 'amax', 'prod', 'ij', 'mt19937', 'same', ('z'):rep(300),
               '\0', '%s%n', 'float16', 'bfloat16', 'add'}
local names = {}
for _, name in ipairs {'dim', 'keepdim', 'dtype', 'device', 'requires_grad', 'index', 'n', 'shape', 'p', 'eps',
                       'reduction', 'stride', 'padding', 'dilation', 'groups', 'generator', 'value', 'bins', 'k'} do
  names[#names + 1] = name
end

local value
local function list(depth)
  local t = {}
  for i = 1, random(0, 4) do t[i] = value(depth + 1) end
  return t
end
local function integers()
  local t = {}
  for i = 1, random(0, 5) do t[i] = random() < 0.8 and random(-1, 5) or any(numbers) end
  return t
end
local functions = {
  function(x) return x end, function(...) return ... end, function() return mt.rand(2):sum() end,
  function() error('mine') end, function(x) return (x * x):sum() end, function() return 7 end, mt.sum, mt.zeros,
}

local function raise_error() error('mine') end
--- Returns an unusual table or object.
local function unusual_value()
  local cyclic, deep, holes, long = {1}, {}, {}, {}
  cyclic[2], cyclic.dim = cyclic, cyclic
  for _ = 1, any {3, 12, 500} do deep = {deep} end
  for i = 1, 6 do holes[random(1, 40)] = random(1, 3) end
  for i = 1, any {9, 70, 9000} do long[i] = 1 end
  return any {cyclic, deep, holes, long, {long, long}, {deep, 1}, newproxy(true), io.stdout, {{}, {}}, {x = 1},
    coroutine.create(print), mt, mt.newaxis, mt.ellipsis, mt.Generator, {[1.5] = 2}, {1, nil, 3}, {1, {2}},
    {dim = 1}, {[2 ^ 40] = 1}, {[0 / 0 == 0 or -1] = 1}, mt.Generator(), mt.Generator('mt19937', 3), {1, true}, {'a'},
    setmetatable({}, {__len = raise_error}), setmetatable({2, 2}, {__index = raise_error, __tostring = raise_error}),
    setmetatable({}, {__index = function(_, k) return k end, __len = function() return 2 ^ 31 end}),
    setmetatable({}, {__index = any(pool), __call = raise_error}), require('ffi').new('int64_t', 3), {mt.rand(2), 1},
    require('ffi').new('double[4]'), mt.rand(3).shape, mt.zeros(0, 2).shape, any(pool):stride(), {any(pool), any(pool)}}
end

value = function(depth)
  local r = random()
  if r < 0.45 then return any(pool) end
  if r < 0.62 then return random(-2, 6) end
  if r < 0.72 then return any(numbers) end
  if r < 0.78 then return any(words) end
  if r < 0.82 then return random() < 0.5 end
  if r < 0.92 and depth < 3 then return random() < 0.5 and integers() or list(depth) end
  if r < 0.95 then return any(functions) end
  if r < 0.97 then return nil end
  return unusual_value()
end

-- ---- suitable arguments ----

local function small(x) return mt.is_tensor(x) and x:numel() <= 4000 end

--- Returns a partner for x: itself, one of its shape, one that broadcasts, a number, or any tensor.
local function partner(x)
  if not small(x) or random() < 0.12 then return any(pool) end
  local r, shape = random(), x.shape
  if r < 0.1 then return x end
  if r < 0.2 then return 3 - 4 * random() end
  if r < 0.35 then
    for i = 1, #shape do if random() < 0.4 then shape[i] = 1 end end
  end
  local new = random() < 0.2 and mt.randint(0, 4, shape) or mt.rand(shape)
  if random() < 0.15 then return new:gt(0.5) end
  if random() < 0.1 then return new:to(any {'float64', 'int32', 'uint8', 'int64'}) end
  return random() < 0.3 and new.dtype == 'float32' and new:requires_grad_() or new
end
local function rank(x) return mt.is_tensor(x) and x:dim() or 2 end
local function dimension(x)
  if random() < 0.1 then return random(-3, 5) end
  local n = random(1, math.max(1, rank(x)))
  return random() < 0.3 and n - 1 - math.max(1, rank(x)) or n
end
local function extent(x, dim)
  local ok, n = pcall(function() return x:size(dim) end)
  return ok and n or 3
end
--- Returns mostly valid positions along a dimension, in x's shape or as a vector.
local function positions(x, arguments)
  local dim = type(arguments[2]) == 'number' and arguments[2] or 1
  local shape = (random() < 0.6 and small(x)) and x.shape or {random(0, 4)}
  local last = math.max(1, extent(x, dim))
  return mt.randint(random() < 0.08 and -last or 1, random() < 0.05 and last + 1 or last, shape)
end
local function dims_list(x)
  if random() < 0.4 then return dimension(x) end
  local t = {}
  for i = 1, rank(x) do if random() < 0.5 then t[#t + 1] = i end end
  return t
end
local function shape_list(x)
  local r = random()
  if r < 0.3 and small(x) then return x.shape end
  if r < 0.4 then return {-1} end
  if r < 0.5 and small(x) then return {x:numel()} end
  return integers()
end
local function pair() return random() < 0.5 and random(0, 3) or {random(1, 3), random(0, 3)} end
local function fraction() return random() < 0.7 and random() or any {0, 1, -1, 2, 0 / 0} end
local function list_like(x)
  local t = {}
  for i = 1, random(1, 4) do t[i] = random() < 0.8 and small(x) and mt.rand(x.shape) or any(pool) end
  return t
end
local function text(...) local list_of = {...}; return function() return any(list_of) end end
local function flag() return random() < 0.5 end
local function label(x, list_of)
  if random() < 0.4 then return partner(x) end
  if not small(x) or x:dim() == 0 or x:size(1) > 1e5 then return any(pool) end -- empty, but of billions of rows
  local classes = math.max(1, x:size(x:dim() == 1 and 1 or 2))
  return mt.randint(random() < 0.1 and 0 or 1, classes, x:dim() == 1 and {} or {x:size(1)})
end
local function channels(x)
  local n = extent(x, 2) -- of a tensor without elements it may be billions
  return n < 1e5 and random() < 0.8 and mt.rand(n) or any(pool)
end
local function trailing(x)
  local t = {}
  for i = random(1, math.max(1, rank(x))), rank(x) do t[#t + 1] = extent(x, i) end
  return t
end

local argument_makers = {
  y = partner, z = partner, target = label, source = partner, src = partner, other = partner, values = partner,
  test_elements = partner, input2 = partner, positive = partner, negative = partner, key = partner, gradient = partner,
  boundaries = function() return mt.rand(4):sort() end, sorted_sequence = function() return mt.rand(4):sort() end,
  dim = dimension, dim1 = dimension, dim2 = dimension, dims = dims_list, ['[dim]'] = dims_list, index = positions,
  indices = function(x) return {mt.randint(1, math.max(1, extent(x, 1)), {2})} end,
  mask = function(x) return small(x) and mt.rand(x.shape):gt(0.5) or any(pool) end,
  condition = function(x) return small(x) and mt.rand(x.shape):gt(0.5) or any(pool) end,
  shape = shape_list, sizes = shape_list, size = function(x, list_of) return random(0, 4) end,
  repeats = function(x) return random() < 0.5 and random(0, 3) or integers() end,
  first = function() return random(-1, 3) end, last = function() return random(1, 5) end,
  length = function() return random(0, 3) end, step = function() return random(0, 3) end,
  n = function() return random(0, 4) end, k = function() return random(0, 3) end,
  m = function() return random(0, 4) end,
  keepdim = flag, reduction = text('mean', 'sum', 'none'), training = flag, upper = flag, left = flag, sorted = flag,
  descending = flag, largest = flag, stable = flag, right = flag, return_inverse = flag, return_counts = flag,
  accumulate = flag, ceil_mode = flag, replacement = flag, is_causal = flag, include_self = flag, retain_graph = flag,
  create_graph = flag, reverse = flag, unbiased = flag, as_tuple = flag, requires_grad = flag, full_matrices = flag,
  dtype = text('float32', 'float64', 'int64', 'bool', 'uint8', 'int32', 'float16', 'bfloat16'),
  device = text('cpu', 'cpu', 'cuda', 'meta'), mode = text('constant', 'reflect', 'replicate', 'circular', 'nearest',
    'bilinear', 'bicubic', 'linear', 'area', 'reduced', 'complete', 'r'),
  reduce = text('sum', 'prod', 'mean', 'amax', 'amin', 'add', 'multiply'), approximate = text('none', 'tanh'),
  interpolation = text('linear', 'lower', 'higher', 'midpoint', 'nearest'), side = text('left', 'right'),
  rounding_mode = text('floor', 'trunc'), ord = text('fro', 'nuc', 1, 2, -2, 1 / 0, 0, 0.5), UPLO = text('L', 'U'),
  equation = text('ij,jk->ik', 'ij,ij->', '...i,...i->...', 'ii->i', 'i,j->ij', 'bij,bjk->bik', 'ij->ji', 'ij'),
  generator = function() return mt.Generator(any {'mt19937', 'philox'}, random(0, 9)) end,
  p = fraction, q = fraction, dropout_p = fraction, eps = text(1e-5, 1e-8, 0), momentum = fraction,
  kernel_size = pair, stride = pair, padding = pair, dilation = text(1, 1, 2), groups = text(1, 1, 2, 3),
  output_size = pair, normalized_shape = trailing, weight = channels, bias = channels, running_mean = channels,
  running_var = channels, num_groups = text(1, 3, 2), num_classes = text(3, 5), scale_factor = text(2, 0.5, {2, 3}),
  sides = function(x) local t = {}; for i = 1, 2 * random(0, rank(x)) do t[i] = random(-1, 2) end; return t end,
  shifts = function() return random(-5, 5) end, diagonal = function() return random(-3, 3) end, offset = text(0, 1, -2),
  tensors = list_like, inputs = function()
    return {mt.rand({2, 2}, {dtype = 'float64'}):requires_grad_(), random() < 0.4 and any(pool) or nil}
  end,
  fn = function() return any(functions) end,
  data = function() return random() < 0.5 and {{1, 2}, {3, 4}} or value(0) end,
  alpha = fraction, beta = fraction, value = fraction, min = fraction, max = fraction, std = fraction, mean = fraction,
  parameters = function() return {mt.rand(3):requires_grad_()} end, lr = fraction, bins = text(1, 10, 100),
  correction = text(0, 1, 3), decimals = text(0, 2, -3), attn_mask = function() return nil end,
  parts = function() return random() < 0.5 and random(0, 4) or integers() end, r = text(0, 1, 2, 3),
  with_replacement = flag, density = flag, edge_order = text(1, 2), maxnorm = fraction, dx = fraction,
  minlength = text(0, 7), weights = partner, grid_x = text(0, 2), grid_y = text(0, 3), target_dtype = text('float64'),
  in_features = text(3, 4), out_features = text(2, 5), args = value, axis = dimension,
}

--- Whole lists of arguments for functions whose arguments only fit together.
local function image() return mt.rand(random(1, 2), any {2, 4}, random(3, 7), random(3, 7)):requires_grad_(flag()) end
local function square()
  local a = mt.randn({3, 3}, {dtype = any {'float32', 'float64'}})
  return (a:matmul(a:t()) + mt.eye(3):to(a.dtype)):requires_grad_(flag())
end
local recipes = {
  conv2d = function() local x = image(); return {x, mt.rand(2, x:size(2), 2, 3):requires_grad_(), mt.rand(2)} end,
  conv1d = function() return {mt.rand(2, 3, 9), mt.rand(4, 3, 2):requires_grad_(), nil, random(1, 3), random(0, 2)} end,
  conv_transpose2d = function() local x = image(); return {x, mt.rand(x:size(2), 3, 2, 2), nil, random(1, 3)} end,
  conv_transpose1d = function() return {mt.rand(2, 3, 5), mt.rand(3, 2, 2):requires_grad_(), nil, random(1, 3)} end,
  conv2d_anchored = function() local x = image(); return {x, mt.rand(2, x:size(2), 2, 2), flag()} end,
  conv1d_anchored = function() return {mt.rand(2, 3, 5), mt.rand(3, 3, 2):requires_grad_(), flag()} end,
  max_pool2d = function() return {image(), pair(), pair(), random(0, 1), 1, flag(), flag()} end,
  avg_pool2d = function() return {image(), pair(), pair(), random(0, 1), flag(), flag()} end,
  max_pool1d = function() return {mt.rand(2, 3, 9), random(1, 3), random(1, 3)} end,
  adaptive_avg_pool2d = function() return {image(), pair()} end,
  interpolate = function() return {image(), {random(1, 9), random(1, 9)}} end,
  unfold = function() return {image(), random(1, 3), 1, random(0, 2), random(1, 2)} end,
  fold = function() return {mt.rand(1, 12, 4):requires_grad_(), {3, 3}, 2} end,
  pixel_shuffle = function() return {mt.rand(1, 4, 2, 3):requires_grad_(), 2} end,
  batch_norm = function() return {image(), mt.zeros(4), mt.ones(4), nil, nil, flag()} end,
  embedding = function() return {mt.randint(1, 5, {2, 3}), mt.rand(5, 4):requires_grad_(), random(1, 5)} end,
  scaled_dot_product_attention = function()
    local q = mt.rand(2, 3, 4):requires_grad_()
    return {q, mt.rand(2, 5, 4), mt.rand(2, 5, 4), flag() and mt.rand(3, 5):gt(0.5) or nil, 0, false}
  end,
  addmm = function() return {mt.rand(3, 2), mt.rand(3, 4):requires_grad_(), mt.rand(4, 2)} end,
  matmul = function() return {any {mt.rand(3, 4), mt.rand(2, 3, 4), mt.rand(4)}, any {mt.rand(4, 2), mt.rand(4)}} end,
  bmm = function() return {mt.rand(2, 3, 4):requires_grad_(), mt.rand(2, 4, 5)} end,
  baddbmm = function() return {mt.rand(2, 3, 5), mt.rand(2, 3, 4):requires_grad_(), mt.rand(2, 4, 5)} end,
  addbmm = function() return {mt.rand(3, 5), mt.rand(2, 3, 4):requires_grad_(), mt.rand(2, 4, 5)} end,
  mm = function() return {mt.rand(3, 4):requires_grad_(), mt.rand(4, 2)} end,
  mv = function() return {mt.rand(3, 4):requires_grad_(), mt.rand(4)} end,
  dot = function() return {mt.rand(4):requires_grad_(), mt.rand(4)} end,
  linear = function() return {mt.rand(2, 4):requires_grad_(), mt.rand(3, 4), mt.rand(3)} end,
  bilinear = function() return {mt.rand(2, 3), mt.rand(2, 4), mt.rand(5, 3, 4):requires_grad_(), mt.rand(5)} end,
  cross = function() return {mt.rand(2, 3):requires_grad_(), mt.rand(2, 3), 2} end,
  cdist = function() return {mt.rand(4, 3):requires_grad_(), mt.rand(2, 3), any {0, 1, 2, 1.5, 1 / 0}} end,
  einsum = function()
    return {any {'ij,jk->ik', 'ij,jk', 'ij,jj->i'}, mt.rand(3, 3):requires_grad_(), mt.rand(3, 3)}
  end,
  index_add = function() return {mt.rand(4, 3), 1, mt.randint(1, 4, {2}), mt.rand(2, 3):requires_grad_()} end,
  index_copy = function() return {mt.rand(4, 3), 1, mt.randint(1, 4, {2}), mt.rand(2, 3):requires_grad_()} end,
  frombuffer = function() return {('\0\1\255\127'):rep(random(0, 8)), argument_makers.dtype()} end,
  as_strided = function() return {mt.rand(12):requires_grad_(), {random(0, 3), random(1, 4)}, {random(0, 4), 1}} end,
  solve = function() return {square(), mt.rand(3, 2)} end, lstsq = function() return {mt.rand(4, 3), mt.rand(4, 2)} end,
  solve_triangular = function() return {square():triu(), mt.rand({3, 2}, {dtype = 'float32'}), true} end,
  roll = function() return {any(pool), {random(-4, 4)}, {1}} end,
  set_rng_state = function() return {mt.get_rng_state()} end,
}
for _, name in ipairs {'index_add', 'index_copy'} do recipes[name .. '_'] = recipes[name] end
for _, name in ipairs {'inv', 'inverse', 'det', 'slogdet', 'logdet', 'cholesky', 'eigh', 'eigvalsh', 'svd', 'svdvals',
                       'pinv', 'qr', 'matrix_power', 'cond', 'matrix_rank', 'trace', 'pinverse'} do
  recipes[name] = function() return {square(), name == 'matrix_power' and random(-3, 4) or nil} end
end

--- Returns an argument for the parameter, which mostly suits the first arguments.
local function suitable_argument(parameter, list_of, is_self)
  if random() < 0.05 then return value(0) end
  if is_self then return any(pool) end
  local make = argument_makers[parameter.list and '[' .. parameter.name .. ']'] or argument_makers[parameter.name]
  if make then return make(list_of[1], list_of) end
  if #list_of == 0 then return any(pool) end
  if parameter.optional and random() < 0.7 then return nil end
  return random() < 0.5 and partner(list_of[1]) or value(0)
end

-- ---- functions to call ----

-- These are not called, because they end the program, print, wait, write files, or change the state of this test.
local excluded = {}
for name in ([[args progress report timeit help plot set_num_threads
  set_grad_enabled set_debug set_detect_anomaly cuda launch_kernel Module debug reload
  Report SummaryWriter JsonLines]]):gmatch('%S+') do excluded[name] = true end

core.complete()
local targets = {}
local function add(shown, fn, self, open)
  local signature = core.entry(fn) or open
  if signature then targets[#targets + 1] = {name = shown, fn = fn, signature = signature, self = self} end
end
for name, fn in pairs(core.methods) do if not excluded[name] then add('x:' .. name, fn, true) end end
for name in pairs(core.lazy) do local _ = mt[name] end
for name, fn in pairs(mt) do
  if not excluded[name] and core.methods[name] ~= fn then add('mt.' .. name, fn) end
end
for _, module in ipairs {'linalg', 'fft', 'nn', 'optim', 'data', 'distributions'} do
  local ok, inner = pcall(function() return mt[module] end)
  for _, name in ipairs(ok and core.names(inner) or {}) do
    local open = module == 'nn' and core.is_callable(inner[name]) and 'module(a, b)'
    if not excluded[name] then add(module .. '.' .. name, inner[name], false, open) end
  end
end
for _, name in ipairs(core.names(mt.nn.init)) do add('nn.init.' .. name, mt.nn.init[name]) end
table.sort(targets, function(a, b) return a.name < b.name end)
for _, target in ipairs(targets) do
  target.parameters = {}
  local inner = target.signature:match('%((.*)%)'):gsub('{[^}]*}', '')
  for item in inner:gmatch('[^,]+') do
    local name = item:match('[%a_][%w_]*') or 'x'
    table.insert(target.parameters, {name = name, list = item:find('%[') ~= nil, optional = item:find('=') ~= nil})
  end
end

local function options(target)
  local t = {}
  for _, parameter in ipairs(target.parameters) do
    if parameter.optional and random() < 0.4 then
      local make = random() < 0.85 and argument_makers[parameter.name]
      if make then t[parameter.name] = make(any(pool), {}) else t[parameter.name] = value(1) end
    end
  end
  if random() < 0.05 then t[any(names)] = value(1) end
  return t
end

local function arguments(target)
  local list_of, n = {}, 0
  local recipe = recipes[target.name:match('[%w_]+$')]
  if recipe and random() < 0.7 then
    list_of = recipe()
    n = table.maxn(list_of)
    for i = 1, n do if random() < 0.08 then list_of[i] = value(0) end end
  else
    for i, parameter in ipairs(target.parameters) do
      if (parameter.optional and random() < 0.5) or (i > 1 and random() < 0.03) then break end
      n = i
      list_of[i] = suitable_argument(parameter, list_of, target.self and i == 1)
    end
    if random() < 0.15 and target.signature:find('=') then n = n + 1; list_of[n] = options(target) end
  end
  if random() < 0.02 then n = n + 1; list_of[n] = value(0) end
  return list_of, n
end

local function show(v, depth)
  if mt.is_tensor(v) then return ('tensor(%s %s)'):format(tostring(v.shape), v.dtype) end
  if type(v) ~= 'table' or getmetatable(v) then return type(v) == 'table' and 'a table' or tostring(v) end
  if depth == 3 then return '..' end
  local parts = {}
  for k, item in pairs(v) do
    if #parts == 12 then break end
    parts[#parts + 1] = tostring(k) .. '=' .. show(item, (depth or 0) + 1)
  end
  return '{' .. table.concat(parts, ', ') .. '}'
end
local function call_text(target, list_of, n)
  local parts = {}
  for i = 1, n do parts[i] = show(list_of[i]) end
  return target.name .. '(' .. table.concat(parts, ', ') .. ')'
end

-- ---- calls ----

local trace = os.getenv('MTORCH_HOSTILE_TRACE') -- each call to stderr before it is made
local returned, raised, slowest, slowest_name, faults = 0, 0, 0, '', 0
local function fault(text)
  faults = faults + 1
  if faults <= 20 then print('FAULT: ' .. text) end
end

-- A gradient that was recorded and its leaf keep each other alive until the gradient is dropped, as in PyTorch.
local leaves = {}
local function record_leaves(v, depth)
  if mt.is_tensor(v) then leaves[#leaves + 1] = v
  elseif type(v) == 'table' and not getmetatable(v) and depth < 4 then
    for _, inner in pairs(v) do record_leaves(inner, depth + 1) end
  end
end
local function drop_gradients()
  for _, list_of in ipairs {leaves, pool} do
    for _, x in ipairs(list_of) do x:zero_grad_() end
  end
  leaves = {}
end

local function key_of(x, depth)
  local r = random()
  if r < 0.2 then return dimension(x) end
  if r < 0.35 then return positions(x, {}) end
  if r < 0.45 then return small(x) and mt.rand(x.shape):gt(0.5) or any(pool) end
  if r < 0.5 then return any {'1:2, :', '...,1', ':, -1', '1:3:2', '..., :', ':', '2:1', '-1:1'} end
  if r < 0.9 and depth == 0 then
    local t = {}
    for i = 1, random(1, math.max(1, rank(x))) do t[i] = key_of(x, 1) end
    return t
  end
  if r < 0.85 then return any {{}, {1, 2}, {1}, {2, 1}, {1, -1, 2}, mt.newaxis, mt.ellipsis} end
  return value(0)
end
local function indexing()
  local x = any(pool)
  local key = key_of(x, 0)
  if trace then io.stderr:write('x[k] ', show(x), ' ', show(key):sub(1, 300), '\n') end
  if random() < 0.5 then return 'x[k]', pcall(function() return x[key] end) end
  local v = partner(x)
  record_leaves(v, 0)
  return 'x[k]=v', pcall(function() x[key] = v end)
end

local operators = {
  function(x, y) return x + y end, function(x, y) return x - y end, function(x, y) return x * y end,
  function(x, y) return x / y end, function(x, y) return x ^ y end, function(x, y) return x % y end,
  function(x) return -x end, function(x) return #x end, function(x) return tostring(x) end,
}

--- Checks an error: it must have a line and no text of C++ exceptions.
local function check(text, shown)
  if type(text) ~= 'string' then return end
  if text == '' or text:find('std::') or text:find('bad_alloc') or text:find('C%+%+ exception') then
    fault(shown .. ' raised ' .. text)
  end
  if #text > 2000 then fault(shown .. ' raised ' .. #text .. ' characters') end
  if not text:find('^tests/lua/hostile.lua:%d+: ') and not text:find('hostile%.lua:%d+:') then
    fault(shown .. ' raised without a line: ' .. text:sub(1, 200))
  end
end

--- Uses a result as a program does: prints it, reads it, calls backward, also twice, or keeps it.
local function use(result, shown)
  if type(result) == 'table' and random() < 0.5 then result = rawget(result, 1) end
  if not mt.is_tensor(result) or result:numel() > 4000 then return end
  local function try(fn)
    local ok, e = pcall(fn)
    if not ok then check(e, 'after ' .. shown) end
  end
  try(function() tostring(result) end)
  try(function() return result:clone():sum() end)
  local r = random()
  if result.requires_grad and r < 0.3 then
    try(function() (result * 1):sum():backward() end)
  elseif result.requires_grad and r < 0.6 then
    try(function()
      local g = mt.grad((result * result):sum(), pool[20], {create_graph = true, allow_unused = true})
      if g and g.requires_grad then (g * g):sum():backward() end
    end)
  end
  if random() < 0.3 then pool[random(#pool)] = result end
end

local function invoke(target, list_of, n)
  if target.name == 'x:backward' then -- a recorded .grad and its leaf keep each other alive, as in PyTorch
    if list_of[4] then list_of[4] = false end
    for i = 1, n do if type(list_of[i]) == 'table' then list_of[i].create_graph = nil end end
  end
  if random() < 0.97 then return pcall(target.fn, unpack(list_of, 1, n)) end
  local thread = coroutine.create(function() return (target.fn(unpack(list_of, 1, n))) end)
  return coroutine.resume(thread)
end

record_leaves(pool, 0)
local print_options = mt.get_printoptions()
--- Restores the settings that calls may have changed.
local function restore_settings()
  if not mt.is_grad_enabled() then mt.set_grad_enabled(true) end
  mt.set_default_dtype('float32')
  mt.set_printoptions(print_options)
end

-- data.mnist() draws its digits in 0.5 s, but in 4 s once the traces of all other functions fill LuaJIT's memory.
local began, longest = os.time(), os.getenv('MTORCH_SANITIZED') and 20 or 10
for i = 1, calls do
  if i % 300 == 0 then
    drop_gradients()
    pool = tensors()
    record_leaves(pool, 0)
    mt.set_num_threads(random(1, 3))
    if random() < 0.1 then collectgarbage() end
  end
  local kind = random()
  if kind < 0.1 then
    local shown, ok, e = indexing()
    if ok then returned = returned + 1; use(e, shown) else raised = raised + 1; check(e, shown) end
  elseif kind < 0.14 then
    local op, x = any(operators), any(pool)
    local y = random() < 0.6 and partner(x) or value(0)
    if random() < 0.5 then x, y = y, x end
    local ok, e = pcall(op, x, y)
    record_leaves({x, y, e}, 0)
    if ok then returned = returned + 1; use(e, 'operator') else raised = raised + 1
      if mt.is_tensor(x) then check(e, 'operator') end
    end
  else
    local target = any(targets)
    local list_of, n = arguments(target)
    local shown = trace and call_text(target, list_of, n)
    if trace then io.stderr:write(i, ' ', shown:sub(1, 600):gsub('[%z\n]', '.'), '\n') end
    local start = os.clock()
    local ok, e = invoke(target, list_of, n)
    local took = os.clock() - start
    if took > slowest then slowest, slowest_name = took, call_text(target, list_of, n) end
    if took > longest then fault(('%s took %.1f s'):format(call_text(target, list_of, n):sub(1, 300), took)) end
    restore_settings()
    record_leaves({list_of, e}, 0)
    if ok then
      returned = returned + 1
      use(e, target.name)
    else
      raised = raised + 1
      check(e, target.name)
    end
  end
end
drop_gradients()
pool = {}
collectgarbage()
collectgarbage()

-- An error in this script, such as a mistyped name, would make every call fail, so enough calls must return.
if returned < calls * 0.4 then fault(('only %d of %d calls returned'):format(returned, calls)) end
local live = core.memory()
print(('%d calls of %d functions: %d returned, %d raised a sentence, %d faults; %d s, %.1f MiB live'):format(calls,
  #targets, returned, raised, faults, os.time() - began, live / 2 ^ 20))
print(('slowest: %.2f s: %s'):format(slowest, slowest_name:sub(1, 200)))
os.execute('rm -rf ' .. folder)
if faults > 0 then os.exit(1) end
