-- functions.lua -- rows of user-defined functions, compiled (mt.map, mt.zip, mt.fuse) and as chains of operations
--
-- own_<name>/<size>: compiled, for normally distributed values (row functions: n/1024 rows of 1024, from 16 Ki on);
-- own_<name>_out/<size>: the same into a given tensor, as in the C++ loop;
-- own_<name>_back/<size>: the backward pass only, for a given incoming gradient. chain_<name>/<size>: the same
-- function as operations one by one. PyTorch's side is the chain in both, torch_compile's and JAX's are compiled.
-- kernel_<name>/<size>: grid kernels: with loops that lanes of vectors do not help, and without loops; o is the result.
local mt = require 'mtorch'

-- The functions: of numbers or tensors, and of tensors with reductions along rows.
local chains = {
  gelu = function(x) return 0.5 * x * (1 + mt.tanh(0.7978845608 * (x + 0.044715 * x ^ 3))) end,
  axb_relu_mul = function(x, y) return mt.relu(2.5 * x + 1.5) * y end,
  swish = function(x) return x * mt.sigmoid(x) end,
  exp_sin = function(x) return mt.exp(-x * x) * mt.sin(x) + 0.5 * x end,
  triad = function(x, y) return x + 2.5 * y end,
  swish_mul_add = function(x, y, z) return x * mt.sigmoid(x) * y + z end,
  softmax = function(x)
    local e = (x - x:max(-1, true)):exp()
    return e / e:sum(-1, true)
  end,
  layer_norm = function(x)
    local d = x - x:mean(-1, true)
    return d / ((d * d):mean(-1, true) + 1e-5):sqrt()
  end,
  rms_norm = function(x) return x / ((x * x):mean(-1, true) + 1e-5):sqrt() end,
}
-- Each is compiled in the process that measures its row.
local compile = {gelu = mt.map, swish = mt.map, exp_sin = mt.map, axb_relu_mul = mt.zip, triad = mt.zip,
  swish_mul_add = mt.zip, softmax = mt.fuse, layer_norm = mt.fuse, rms_norm = mt.fuse}
local own = {}
for name, f in pairs(chains) do own[name] = function() return compile[name](f) end end

-- name, inputs, PyTorch's expression, JAX's, an element by C++, and by Numba, where F is float32.
local functions = {
  {'gelu', 'x', '0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))',
    '0.5 * x * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x**3)))',
    '0.5f * x[i] * (1 + std::tanh(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])))',
    'F(0.5) * x[i] * (F(1) + math.tanh(F(0.7978845608) * (x[i] + F(0.044715) * x[i] * x[i] * x[i])))'},
  {'axb_relu_mul', 'xy', 'torch.relu(2.5 * x + 1.5) * y', 'jnp.maximum(2.5 * x + 1.5, 0) * y',
    'std::max(2.5f * x[i] + 1.5f, 0.f) * y[i]', 'max(F(2.5) * x[i] + F(1.5), F(0)) * y[i]'},
  {'swish', 'x', 'x * torch.sigmoid(x)', 'x * jax.nn.sigmoid(x)', 'x[i] / (1 + std::exp(-x[i]))',
    'x[i] / (F(1) + math.exp(-x[i]))'},
  {'exp_sin', 'x', 'torch.exp(-x * x) * torch.sin(x) + 0.5 * x', 'jnp.exp(-x * x) * jnp.sin(x) + 0.5 * x',
    'std::exp(-x[i] * x[i]) * std::sin(x[i]) + 0.5f * x[i]',
    'math.exp(-x[i] * x[i]) * math.sin(x[i]) + F(0.5) * x[i]'},
  {'triad', 'xy', 'x + 2.5 * y', 'x + 2.5 * y', 'x[i] + 2.5f * y[i]', 'x[i] + F(2.5) * y[i]'},
  {'swish_mul_add', 'xyz', 'x * torch.sigmoid(x) * y + z', 'x * jax.nn.sigmoid(x) * y + z',
    'x[i] / (1 + std::exp(-x[i])) * y[i] + z[i]', 'x[i] / (F(1) + math.exp(-x[i])) * y[i] + z[i]'},
  {'softmax', 'x', '(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x - x.amax(-1, keepdim=True)))',
    '(lambda e: e / e.sum(-1, keepdims=True))(jnp.exp(x - x.max(-1, keepdims=True)))', rows = true},
  {'layer_norm', 'x',
    '(lambda d: d / torch.sqrt((d * d).mean(-1, keepdim=True) + 1e-5))(x - x.mean(-1, keepdim=True))',
    '(lambda d: d / jnp.sqrt((d * d).mean(-1, keepdims=True) + 1e-5))(x - x.mean(-1, keepdims=True))', rows = true},
  {'rms_norm', 'x', 'x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)',
    'x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)', rows = true},
}
-- Grid kernels: the threads of the launch, the inputs, and the same loop in C++.
local kernels = {
  scan = {1, 'x=normal:1048576', function(x, o)
    local sum = 0.0
    for i = 1, #x do
      sum = sum + x[i]
      o[i] = sum
    end
  end, 'float sum = 0; for (long i = 0; i < n; ++i) o[i] = sum += x[i];'},
  sort_rows = {16384, 'x=normal:16384x64', function(x, o)
    local row = grid(1) -- luacheck: ignore 113
    for i = 1, x.shape[2] do
      local v, j = x[row][i], i - 1
      while j >= 1 do
        if o[row][j] <= v then break end
        o[row][j + 1] = o[row][j]
        j = j - 1
      end
      o[row][j + 1] = v
    end
  end, [[for (long row = 0; row < n / 64; ++row)
    for (long i = 0; i < 64; ++i) {
      float v = x[row * 64 + i], *r = o + row * 64;
      long j = i - 1;
      for (; j >= 0 && r[j] > v; --j) r[j + 1] = r[j];
      r[j + 1] = v;
    }]]},
  collatz = {65536, 'x=normal:65536', function(_, o)
    local i = grid(1) -- luacheck: ignore 113
    local k, count = i, 0
    while k ~= 1 do
      if k % 2 == 0 then k = math.floor(k / 2) else k = 3 * k + 1 end
      count = count + 1
    end
    o[i] = count
  end, [[for (long i = 0; i < n; ++i) {
    long k = i + 1, count = 0;
    for (; k != 1; ++count) k = k % 2 == 0 ? k / 2 : 3 * k + 1;
    o[i] = count;
  }]]},
  keep_positive = {1048576, 'x=normal:1048576', function(x, o)
    local i = grid(1) -- luacheck: ignore 113
    if i <= #x and x[i] > 0 then o[i] = 2 * x[i] end
  end, 'for (long i = 0; i < n; ++i) if (x[i] > 0) o[i] = 2 * x[i];'},
  ring = {1048576, 'x=normal:1048576', function(x, o)
    local i, n = grid(1), #x -- luacheck: ignore 113
    if i <= n then o[i] = 0.5 * x[i] + 0.25 * (x[i % n + 1] + x[(i - 2) % n + 1]) end
  end, 'for (long i = 0; i < n; ++i) o[i] = 0.5f * x[i] + 0.25f * (x[(i + 1) % n] + x[(i + n - 1) % n]);'},
  pairs = {1048576, 'x=normal:1048576', function(x, o)
    local i = grid(1) -- luacheck: ignore 113
    if i > #x then return end
    if i % 2 == 1 then o[i] = x[i] + x[i + 1] else o[i] = x[i] - x[i - 1] end
  end, 'for (long i = 0; i < n; ++i) o[i] = i % 2 == 0 ? x[i] + x[i + 1] : x[i] - x[i - 1];'},
}
kernels.block_sums = {262144, 'x=normal:262144', function(x, o)
  local s = shared(256) -- luacheck: ignore 113
  local t = thread_idx.x -- luacheck: ignore 113
  s[t] = x[grid(1)] -- luacheck: ignore 113
  barrier() -- luacheck: ignore 113
  local h = 128
  while h > 0 do
    if t <= h then s[t] = s[t] + s[t + h] end
    barrier() -- luacheck: ignore 113
    h = math.floor(h / 2)
  end
  if t == 1 then o[block_idx.x] = s[1] end -- luacheck: ignore 113
end, [[for (long b = 0; b < n / 256; ++b) {
    float s[256];
    for (int t = 0; t < 256; ++t) s[t] = x[b * 256 + t];
    for (int h = 128; h > 0; h /= 2)
      for (int t = 0; t < h; ++t) s[t] += s[t + h];
    o[b] = s[0];
  }]]}
kernels.histogram = {262144, 'x=normal:262144', function(x, o)
  local s = shared(64) -- luacheck: ignore 113
  local t, v = thread_idx.x, x[grid(1)] -- luacheck: ignore 113
  barrier() -- luacheck: ignore 113
  atomic_add(s, math.floor(math.abs(v) * 16) % 64 + 1, 1.0) -- luacheck: ignore 113
  barrier() -- luacheck: ignore 113
  if t <= 64 then atomic_add(o, t, s[t]) end -- luacheck: ignore 113
end, [[for (long b = 0; b < n / 256; ++b) {
    float s[64] = {};
    for (int t = 0; t < 256; ++t) s[long(std::abs(x[b * 256 + t]) * 16) % 64] += 1;
    for (int t = 0; t < 64; ++t) o[t] += s[t];
  }]]}
local function add_kernels(row)
  for _, name in ipairs {'scan', 'sort_rows', 'collatz', 'keep_positive', 'ring', 'pairs',
    'block_sums', 'histogram'} do
    local k = kernels[name]
    local setup = ("local k = mt.kernel(require('bench.functions').kernels.%s[3]) local o = mt.zeros_like(x)")
      :format(name)
    local threads = k[1] == 1 and '{1, 1}' or ('{%d, 256}'):format(k[1] / 256)
    row('your own functions', ('kernel_%s/%s'):format(name, k[2]:match '[%dx]+$'), k[2], {
      {setup, ('k[%s](x, o)'):format(threads)}, cpp = (k[4]:gsub('\n%s*', ' '))})
  end
end

local sizes = {{'4', 4}, {'16Ki', 16384}, {'1Mi', 1048576}}

local function add(row, o)
  local function forward(f, size, list, inputs)
    local name, peer, loop = f[1], f[3], f[5] and ('for (long i = 0; i < n; ++i) o[i] = %s;'):format(f[5])
    local setup = ("local f = require('bench.functions').own.%s()"):format(name)
    local numba = f[6] and {("f = loop('%s', '%s')"):format(list, f[6]), ('f(np.empty_like(x), %s)'):format(list)}
    row('your own functions', ('own_%s/%s'):format(name, size), inputs, {{setup, ('f(%s)'):format(list)}, torch = peer,
      torch_compile = peer, jax = f[4], numba = numba,
      cpp = loop, copies = true})
    if loop then
      row('your own functions', ('own_%s_out/%s'):format(name, size), inputs, {
        {setup .. ' local given = {out = mt.empty_like(x)}', ('f(%s, given)'):format(list)}, cpp = loop, copies = true})
    end
    row('chains of operations', ('chain_%s/%s'):format(name, size), inputs, {
      {("local f = require('bench.functions').chains.%s"):format(name), ('f(%s)'):format(list)}, torch = peer})
  end
  local function backward(f, size, list, inputs)
    local torch = {('out = made(lambda %s: %s)(%s); g = torch.randn_like(out)'):format(list, f[3], list),
      ('torch.autograd.grad(out, (%s,), g, retain_graph=True)'):format(list)}
    row('your own functions', ('own_%s_back/%s'):format(f[1], size), inputs, {
      {("local f = require('bench.functions').own.%s() local call = tools.gradient(f(%s), %s)"):format(f[1], list,
        list), 'call()'}, torch = torch, torch_compile = torch})
  end
  for _, f in ipairs(functions) do
    for _, size in ipairs(sizes) do
      local label, n = unpack(size)
      if not (o.quick and n > 20000) and (not f.rows or n >= 16384) then
        local names, plain, leaves = {}, {}, {}
        for name in f[2]:gmatch('%a') do
          local shape = f.rows and ('%dx1024'):format(n / 1024) or tostring(n)
          names[#names + 1] = name
          plain[#plain + 1], leaves[#leaves + 1] = name .. '=normal:' .. shape, name .. '=leafnormal:' .. shape
        end
        local list = table.concat(names, ', ')
        forward(f, label, list, table.concat(plain, ' '))
        backward(f, label, list, table.concat(leaves, ' '))
      end
    end
  end
end

return {own = own, chains = chains, kernels = kernels, add = function(row, o)
  add(row, o)
  if not o.quick then add_kernels(row) end
end}
