-- jobs.lua -- rows of whole jobs and programs: gradients through views, an epoch, start-up, first calls, disk
--
-- first_<what>/us: the first call of a function in a new process, with libraries already open; disk/MiB: the program,
-- or a peer's package without Python.
local views = {
  select = {'local v = x:view(N, 16, 512)', 'v:select(1, i)', 'v = x.view(N, 16, 512)', 'v.select(0, i)'},
  narrow = {'', 'x:narrow(1, 16 * i - 15, 16)', 'v = 0', 'x.narrow(0, 16 * i, 16)'},
  index = {'local v = x:view(16, N, 512)', 'v[{{}, i}]', 'v = x.view(16, N, 512)', 'v[:, i]'},
  unbind = {'local v = x:view(N, 16, 512):unbind()', 'v[i]', 'v = x.view(N, 16, 512).unbind()', 'v[i]'},
  chunk = {'local v = x:chunk(N)', 'v[i]', 'v = x.chunk(N)', 'v[i]'},
}

--- Adds rows of n views of 16 x 512 of one tensor, summed with different weights, with backward.
local function views_rows(row, o)
  for _, kind in ipairs{'select', 'narrow', 'index', 'unbind', 'chunk'} do
    for _, n in ipairs(o.quick and {16} or {16, 256, 4096}) do
      local text = {}
      for i, words in ipairs(views[kind]) do text[i] = words:gsub('N', n) end
      local zeros = n == 4096 and kind ~= 'unbind' and kind ~= 'chunk' -- PyTorch: zeros for each view take minutes
      row('whole jobs', ('views_%s/%d'):format(kind, n), ('x=leaf:%dx512'):format(16 * n), {
        {('local function call() %s local sum = 0 for i = 1, %d do sum = sum + %s * (i / %d) end x.grad = nil ' ..
          'sum:sum():backward() end'):format(text[1], n, text[2], n), 'call()'},
        torch = not zeros and {('def call():\n %s\n s = 0\n for i in range(%d): s = s + %s * ((i + 1) / %d)\n' ..
          ' x.grad = None\n s.sum().backward()'):format(text[3], n, text[4], n), 'call()'} or nil})
    end
  end
end

local first = { -- name, inputs, ours, torch's expression, JAX's
  {'exp', 'x=normal:1048576', 'mt.exp(x)', 'torch.exp(x)', 'jnp.exp(x)'},
  {'matmul', 'a=512x512 b=512x512', 'mt.matmul(a, b)', 'torch.matmul(a, b)', 'jnp.matmul(a, b)'},
  {'map', 'x=normal:1048576', {'', "require('bench.functions').own.swish()(x)"}, 'x * torch.sigmoid(x)',
    'x * jax.nn.sigmoid(x)'},
  {'fuse', 'x=normal:1024x1024', {'', "require('bench.functions').own.softmax()(x)"},
    '(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(x - x.amax(-1, keepdim=True)))',
    '(lambda e: e / e.sum(-1, keepdims=True))(jnp.exp(x - x.max(-1, keepdims=True)))'},
}

local function first_rows(row)
  local group = 'first calls'
  for _, f in ipairs(first) do
    row(group, ('first_%s/us'):format(f[1]), f[2], {f[3], torch = f[4], torch_compile = f[4], jax = f[5],
      fresh = true})
  end
  for _, s in ipairs {{'split', ', 100'}, {'mlp', ''}} do
    local made = ("make('step_%s', 'train'%s)"):format(unpack(s))
    local ours, theirs = "require('bench.whole_networks')." .. made, 'whole_networks_torch.' .. made
    row(group, ('first_step_%s/us'):format(s[1]), '', {{'local step = ' .. ours, 'step()'}, fresh = true,
      torch = {'import whole_networks_torch\nstep = ' .. theirs, 'step()'}})
    -- The time until the step is replayed, compared with the call that compiles.
    row(group, ('first_step_%s_compiled/us'):format(s[1]), '', {
      {('local step = mt.compile(%s)'):format(ours), 'for _ = 1, 4 do step() end'}, fresh = true,
      torch_compile = {('import whole_networks_torch\nstep = made(%s)'):format(theirs), 'step()'},
      jax = {('import networks_jax\nstep = networks_jax.%s(%s)'):format(s[1], s[2]:sub(3)), 'step()'}})
  end
end

local function program_rows(row, o)
  local start = {"tools.process(tools.program, '-e', '')", reports = true}
  local disk = {"tools.size_of_program()", reports = true, unit = 'MiB', jax = "size_of('jax', 'jaxlib')"}
  for _, name in ipairs{'torch', 'numpy', 'jax', 'numba'} do
    start[name] = ("process('-c', 'import %s')"):format(name)
    disk[name] = disk[name] or ("size_of('%s')"):format(name)
  end
  row('whole jobs', 'startup', '', start)
  row('whole jobs', 'disk/MiB', '', disk)
  local epochs = o.quick and 50 or 500
  row('whole jobs', 'split_epoch/100', '', {
    ("1e3 * tools.script('ms_per_epoch', 'train_split.lua', '--hidden', 100, " ..
    "'--dataset', 'split', '--rate', 0.05, '--epochs', %d, '--seed', 1, '--threads', tools.threads, '--device', " ..
    'tools.device)'):format(epochs), reports = true,
    torch = ("1e3 * script('ms_per_epoch', 'whole_networks_torch.py', 'train_split', %d, torch.get_num_threads(), " ..
      'device)'):format(epochs)})
end

return function(row, o)
  views_rows(row, o)
  row('whole jobs', 'chain/4', 'x=leaf:4 y=4', {'x.grad = nil; (x + y):relu():sum():backward()',
    torch = 'x.grad = None; (x + y).relu().sum().backward()'})
  program_rows(row, o)
  if o.device == 'cpu' then first_rows(row) end
end
