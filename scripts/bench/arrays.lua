-- arrays.lua -- rows of reductions, scans, sorting, movement of data, products and optimizers
--
-- <op>/<size> of 1-D values in 0.5..1.5, <op>_rows along the last dimension of a 1024 x 1024 matrix and <op>_cols along
-- the first; matmul/MxKxN, with nt_, tn_, tt_ if the second operand, the first, or both are stored transposed;
-- <Optimizer>/64Ki: a step for one parameter of 64 Ki elements, /4 for six of 4 to 64.
local core = require 'mtorch.core'

-- The functions of peers: 1 over all elements, 2 along a dimension.
local torch_has = {sum = 2, mean = 1, max = 2, min = 1, prod = 2, argmax = 2, amax = 2, var = 2, logsumexp = 2,
  cumsum = 2, cumprod = 2, cummax = 2, norm = 1, median = 2, sort = 2, softmax = 2, log_softmax = 2}
local numpy_has = {sum = 2, mean = 1, max = 2, min = 1, prod = 2, argmax = 2, amax = 2, var = 2, cumsum = 2,
  cumprod = 2, sort = 2, median = 2}
local jax_has = {softmax = 'jax.nn.softmax', log_softmax = 'jax.nn.log_softmax', logsumexp = 'jax.nn.logsumexp'}

--- Adds rows of one size and along the dimensions of a matrix, for functions with calls f(x, dim, ..).
local function rows_of(row, name, sized, along, kind, whole, rest)
  local scans = torch_has[name] and (whole ~= '' or name == 'logsumexp')
  local np = numpy_has[name] and 'np.' .. name
  local jnp = jax_has[name] or np and 'jnp.' .. name
  for _, size in ipairs(sized) do
    row('reductions', ('%s/%s'):format(name, size[1]), ('x=%s:%d'):format(kind, size[2]), {
      ('mt.%s(x%s)'):format(name, whole), copies = true, numpy = np and np .. '(x)', jax = jnp and jnp .. '(x)',
      torch = torch_has[name] and ('torch.%s(x%s)'):format(name, scans and ', 0' or ''),
      cpp = name == 'sum' and 'float s = 0; for (long i = 0; i < n; ++i) s += x[i]; o[0] = s;' or nil})
  end
  for dim, which in ipairs(along and {'cols', 'rows'} or {}) do
    row('reductions', ('%s_%s/1Mi'):format(name, which), ('x=%s:1024x1024'):format(kind), {
      ('mt.%s(x, %d%s)'):format(name, dim, rest), copies = true,
      torch = torch_has[name] == 2 and ('torch.%s(x, %d)'):format(name, dim - 1),
      numpy = np and ('%s(x, %d)'):format(np, dim - 1), jax = jnp and ('%s(x, %d)'):format(jnp, dim - 1)})
  end
end

local function reductions(row, o)
  for _, op in ipairs(core.reductions()) do
    local lo, hi = math.max(op.lo, 0.5), math.min(op.hi, 1.5)
    local rest = op.scan and #op.values > 0 and ', ' .. table.concat(op.values, ', ') or ''
    rows_of(row, op.name, o.sizes, true, ('uniform%g,%g'):format(lo, hi), op.scan and ', 1' .. rest or '', rest)
  end
  local largest = {o.sizes[#o.sizes]}
  for _, name in ipairs {'mean', 'max', 'min'} do rows_of(row, name, o.sizes, name == 'max', '', '', '') end
  for _, name in ipairs {'norm', 'median', 'sort'} do rows_of(row, name, largest, name ~= 'norm', '', '', '') end
  for _, name in ipairs {'softmax', 'log_softmax'} do rows_of(row, name, {}, true, '', '', '') end
  row('reductions', 'topk/1Mi', 'x=1048576', {'mt.topk(x, 100)', torch = 'torch.topk(x, 100)'})
  row('reductions', 'topk_rows/1Mi', 'x=1024x1024', {'mt.topk(x, 10, 2)', torch = 'torch.topk(x, 10, 1)'})
end

-- name, inputs, and each side's call.
local moves = {
  {'softmax', 'x=1024x1024', 'mt.softmax(x, 2)', torch = 'torch.softmax(x, 1)', jax = 'jax.nn.softmax(x, 1)'},
  {'copy_t', 'x=1024x1024', 'x:t():contiguous()', torch = 'x.t().contiguous()', numpy = 'np.ascontiguousarray(x.T)'},
  {'add_row', 'x=1024x1024 y=1024', 'x + y', torch = 'x + y', numpy = 'x + y', jax = 'x + y'},
  -- short rows: points, channels, heads
  {'add_row_of_3', 'x=349525x3 y=3', 'x + y', torch = 'x + y', numpy = 'x + y', jax = 'x + y'},
  {'mul_column_of_32', 'x=32768x32 y=32768x1', 'x * y', torch = 'x * y', numpy = 'x * y', jax = 'x * y'},
  {'copy_heads', 'x=64x128x16x8', 'x:transpose(2, 3):contiguous()', torch = 'x.transpose(1, 2).contiguous()',
    numpy = 'np.ascontiguousarray(x.transpose(0, 2, 1, 3))'},
  {'copy_channels_last', 'x=16x4x128x128', 'x:permute(1, 3, 4, 2):contiguous()',
    torch = 'x.permute(0, 2, 3, 1).contiguous()', numpy = 'np.ascontiguousarray(x.transpose(0, 2, 3, 1))'},
  {'add_col', 'x=1024x1024 y=1024x1', 'x + y', torch = 'x + y', numpy = 'x + y', jax = 'x + y'},
  {'gather', 'x=1024x1024 i=index1024:1024x1024', 'mt.gather(x, 2, i)', torch = 'torch.gather(x, 1, i)',
    numpy = 'np.take_along_axis(x, i, 1)', jax = 'jnp.take_along_axis(x, i, 1)'},
  {'scatter_add', 'z=zeros:1024x1024 i=index1024:1024x1024 x=1024x1024', 'mt.scatter_add(z, 2, i, x)',
    torch = 'torch.scatter_add(z, 1, i, x)'},
  {'index_select', 'x=1024x1024 i=index1024:1024', 'mt.index_select(x, 1, i)', torch = 'torch.index_select(x, 0, i)',
    numpy = 'x[i]', jax = 'x[i]'},
  {'index_add', 'z=zeros:1024x1024 i=index1024:1024 x=1024x1024', 'mt.index_add(z, 1, i, x)',
    torch = 'torch.index_add(z, 0, i, x)'},
  {'masked_select', 'x=1024x1024 m=bool:1024x1024', 'mt.masked_select(x, m)', torch = 'torch.masked_select(x, m)',
    numpy = 'x[m]'},
  {'bincount', 'i=index1024:1048576', 'mt.bincount(i)', torch = 'torch.bincount(i)', numpy = 'np.bincount(i)'},
  {'layer_norm', 'x=1024x1024 w=1024 b=1024', 'mt.layer_norm(x, {1024}, w, b)',
    torch = 'F.layer_norm(x, (1024,), w, b)'},
  {'batch_norm', 'x=16x64x32x32 m=64 v=64 w=64 b=64', 'mt.batch_norm(x, m, v, w, b, true)',
    torch = 'F.batch_norm(x, m, v, w, b, training=True)'},
  {'batch_norm_eval', 'x=16x64x32x32 m=64 v=64 w=64 b=64', 'mt.batch_norm(x, m, v, w, b, false)',
    torch = 'F.batch_norm(x, m, v, w, b)'},
  {'cat', 'x=512x1024 y=512x1024', 'mt.cat({x, y}, 1)', torch = 'torch.cat((x, y))', numpy = 'np.concatenate((x, y))',
    jax = 'jnp.concatenate((x, y))'},
  {'rand', '', 'mt.rand(1048576)', torch = 'torch.rand(1048576)',
    numpy = 'generator.random(1048576, dtype=np.float32)'},
  {'randn', '', 'mt.randn(1048576)', torch = 'torch.randn(1048576)',
    numpy = 'generator.standard_normal(1048576, dtype=np.float32)'},
}

local function movement(row)
  for _, m in ipairs(moves) do
    row('movement', m[1] .. '/1Mi', m[2], {m[3], torch = m.torch, numpy = m.numpy, jax = m.jax, copies = true})
  end
end

-- what, inputs of size N, z complex, and each side's call; pairs are views of PyTorch's complex numbers, which is free.
local transforms = {
  {'fft', 'z=%sx2', 'mt.fft.fft(z)', torch = 'torch.fft.fft(torch.view_as_complex(z))'},
  {'rfft', 'x=%s', 'mt.fft.rfft(x)', torch = 'torch.fft.rfft(x)', numpy = 'np.fft.rfft(x)', jax = 'jnp.fft.rfft(x)'},
}
local lines = {'1x1024', '64x1024', '1x1048576', '64x1009', '1000x400'}

local function transform_rows(row)
  for _, m in ipairs(transforms) do
    for _, size in ipairs(lines) do
      row('transforms', ('fft/%s_%s'):format(m[1], size), m[2]:format(size), {m[3], torch = m.torch, numpy = m.numpy,
        jax = m.jax})
    end
  end
  row('transforms', 'fft/stft_8x160000', 'x=8x160000 w=400', {'mt.stft(x, 400, {hop_length = 160, window = w})',
    torch = 'torch.stft(x, 400, 160, window=w, return_complex=True)'})
end

local products = '10x2x100 10x100x100 10x100x1 32x32x32 64x64x64 128x128x128 256x256x256 512x512x512 1024x1024x1024 ' ..
  '1x1024x1024 5x784x10 50000x784x10 64x784x128'
for name in ('10x100x100 64x784x128 128x128x128 512x512x512 1024x1024x1024'):gmatch('%S+') do
  for _, layout in ipairs {'nt_', 'tn_', 'tt_'} do products = ('%s %s%s'):format(products, layout, name) end
end
products = products .. ' nt_1x1024x1024 nt_50000x784x10 tn_784x50000x10'

local function product_rows(row)
  for name in products:gmatch('%S+') do
    local layout, m, k, n = name:match('^(%a*)_?(%d+)x(%d+)x(%d+)$')
    m, k, n = tonumber(m), tonumber(k), tonumber(n)
    local ta, tb = layout:match('^t'), layout:match('t$')
    local inputs = ('a=%dx%d b=%dx%d'):format(ta and k or m, ta and m or k, tb and n or k, tb and k or n)
    local function product(call, t) return call:format(ta and 'a' .. t or 'a', tb and 'b' .. t or 'b') end
    row('products', 'matmul/' .. name, inputs, {product('mt.matmul(%s, %s)', ':t()'),
      torch = product('torch.matmul(%s, %s)', '.t()'), numpy = product('np.matmul(%s, %s)', '.T'),
      jax = product('jnp.matmul(%s, %s)', '.T'),
      cblas = {("local call = tools.sgemm('%s', a, b)"):format(layout == '' and 'nn' or layout), 'call()'}})
  end
end

local function optimizers(row)
  local no_peer = {LBFGS = true, Lion = true}
  for _, size in ipairs {'4', '64Ki'} do
    local shapes = size == '4' and '4, 64, 8, 64, 16, 4' or '65536'
    for _, info in ipairs(core.optimizers()) do
      row('optimizers, ' .. size, ('%s/%s'):format(info.name, size), '', {
        {('local list = {} for i, n in ipairs{%s} do list[i] = (mt.rand(n) + 0.5):requires_grad_() ' ..
          'list[i].grad = mt.rand(n) * 2 - 1 end local opt = mt.optim.%s(list, {lr = 1e-6})'):format(shapes, info.name),
          'opt:step()'},
        torch = not no_peer[info.name] and {('ps = [(torch.rand(n) + 0.5).requires_grad_() for n in (%s,)]\n' ..
          'for p in ps: p.grad = torch.rand_like(p) * 2 - 1\nopt = torch.optim.%s(ps, lr=1e-6)'):format(shapes,
          info.name), 'opt.step()'} or nil})
    end
  end
end

return function(row, o)
  reductions(row, o)
  movement(row)
  transform_rows(row)
  product_rows(row)
  optimizers(row)
end
