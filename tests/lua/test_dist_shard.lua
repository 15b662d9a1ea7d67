-- test_dist_shard.lua -- dist.shard: training by several processes equals that by one, whatever a step does; its graph,
-- memory and overlap
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn, optim, dist = mt.nn, mt.optim, mt.dist
local ffi, core = require 'ffi', require 'mtorch.core'
ffi.cdef 'int setenv(const char *name, const char *value, int overwrite); int usleep(unsigned n);'
local f64 = {dtype = 'float64'}

mt.manual_seed(2)
local x, y = mt.randn(12, 6, f64), mt.randn(12, 6, f64)
local rank, size = dist.init()
local mine = mt.range(rank + 1, 12, size)
local my_x, my_y = x:index_select(1, mine), y:index_select(1, mine)
local training = require 'dist_training'
local loss_of, step, train, flat = training.loss_of, training.step, training.train, training.flat
local close, same_everywhere = training.close, training.same_everywhere
local function adamw(list) return optim.AdamW(list, {lr = 0.05, weight_decay = 0.1}) end
local function mlp()
  return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 6))
end
--- A layer with a parameter and layers of its own, which recomputes a part of its forward; that has a part too.
local function recomputing()
  local layer = nn.Module()
  layer.scale, layer.first, layer.second = nn.Parameter(mt.ones(6)), nn.Linear(6, 8), nn.Linear(8, 6)
  function layer:forward(v)
    return mt.recompute(function(w)
      local h = self.first(w * self.scale)
      return self.second(mt.recompute(function(u) return (u * self.second.weight[1]):tanh() end, h))
    end, v) * self.scale
  end
  return layer
end

-- ---- a net of dist.shard beside one in one process -------------------------------------------------------

--- What a step does, by name: {make a net, step(net, opt, inputs, targets, i, is_sharded)}.
local cases = {}
local function case(name, make, run) cases[#cases + 1] = {name = name, make = make, run = run or step} end
local function by_loss(loss)
  return function(net, opt, a, b, i)
    opt:zero_grad()
    loss(net, a, b, i):backward()
    opt:step()
  end
end
--- The layers first..last of a Sequential.
local function layers(net, first, last, v)
  for i = first, last do v = net[i](v) end
  return v
end

case('a block of layers is recomputed', mlp, by_loss(function(net, a, b)
  local h = mt.recompute(function(v) return layers(net, 1, 4, v) end, a)
  return (net[5](h) - b):pow(2):mean()
end))
case('a recomputed block in another one', mlp, by_loss(function(net, a, b)
  local h = mt.recompute(function(v)
    return net[5](mt.recompute(function(w) return layers(net, 2, 4, w) end, net[1](v)))
  end, a)
  return (h - b):pow(2):mean()
end))
local function two_recomputing() return nn.Sequential(recomputing(), nn.Tanh(), recomputing(), nn.Linear(6, 6)) end
case('layers that recompute a part', two_recomputing)
case('layers that recompute a part in a recomputed block', two_recomputing, by_loss(function(net, a, b)
  local h = mt.recompute(function(v) return layers(net, 1, 3, v) end, a)
  return (net[4](h) - b):pow(2):mean()
end))
case('backward twice through a recomputed part', two_recomputing, by_loss(function(net, a, b)
  local loss = loss_of(net, a, b)
  loss:backward(nil, {retain_graph = true})
  return loss
end))
case('two layers with one weight', function()
  local net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
  net[3].weight = net[1].weight
  return net
end)
case('an unused layer and an unused parameter', function()
  local net = mlp()
  net.unused = nn.Linear(2, 2)
  net[3].unused = nn.Parameter(mt.ones(3))
  return net
end)
case('a layer that some steps leave out', mlp, by_loss(function(net, a, b, i)
  local h = net[2](net[1](a))
  if i % 2 == 0 then h = net[3](h) end
  return (net[5](h) - b):pow(2):mean()
end))
case('parameters that are frozen for some steps', mlp, function(net, opt, a, b, i)
  net[1].weight:requires_grad_(i ~= 2)
  net[3]:requires_grad_(i > 2)
  step(net, opt, a, b)
end)
case('two forwards before a backward', mlp, by_loss(function(net, a, b)
  return loss_of(net, a, b) + loss_of(net, a * 2, b)
end))
case('two backwards after two forwards', mlp, by_loss(function(net, a, b)
  local first, second = loss_of(net, a, b), loss_of(net, a * 2, b)
  first:backward()
  return second
end))
case('a layer that is called twice', function()
  local net = nn.Module()
  net.a, net.b = nn.Linear(6, 6), nn.Linear(6, 6)
  function net:forward(v) return self.b(self.a(self.b(self.a(v):tanh()):tanh()):tanh()) end
  return net
end)
case('errors in forward and in backward', mlp, function(net, opt, a, b, i)
  opt:zero_grad()
  if i == 2 then
    raises(function() net[3](net[1](a):narrow(2, 1, 3)) end, 'linear')
    local h = layers(net, 1, 3, a)
    h:register_hook(function() error('on purpose', 0) end)
    raises(function() net[5](h):sum():backward() end, 'on purpose')
    for _, p in ipairs(net:parameters()) do eq(p.grad, nil) end
  end
  loss_of(net, a, b):backward()
  opt:step()
end)
case('evaluation between steps', mlp, function(net, opt, a, b)
  mt.no_grad(net, x)
  step(net, opt, a, b)
  net:eval()
  mt.no_grad(net, x)
  net:train()
end)
case('clipped norms', mlp, function(net, opt, a, b, i)
  opt:zero_grad()
  loss_of(net, a, b):backward()
  nn.clip_grad_norm_(net:parameters(), 0.05, i == 3 and math.huge or i)
  opt:step()
end)
case('gradients of gradients by inputs', mlp, by_loss(function(net, a, b)
  local v = a:clone():requires_grad_()
  local g = mt.grad(net(v):sum(), {v}, nil, true, true)[1]
  return loss_of(net, a, b) + g:pow(2):mean()
end))
case('mt.grad by parameters', mlp, function(net, opt, a, b)
  local list = {net[1].weight, net[5].bias}
  local gradients = mt.grad(loss_of(net, a, b), list)
  opt:zero_grad()
  for i, p in ipairs(list) do p.grad = gradients[i] end
  opt:step()
end)
case('hooks of parameters', mlp, function(net, opt, a, b, i)
  local hooks = {}
  for k, p in ipairs(net:parameters()) do hooks[k] = p:register_hook(function(g) return g * i end) end
  step(net, opt, a, b)
  for _, hook in ipairs(hooks) do hook:remove() end
end)
case('one infinite element of a gradient', mlp, function(net, opt, a, b, i, is_sharded)
  local scaler = mt.GradScaler{init_scale = 4}
  opt:zero_grad()
  scaler:scale(loss_of(net, a, b)):backward()
  if i == 2 and (rank == 0 or not is_sharded) then net[1].weight.grad:view(-1):narrow(1, 1, 1):fill_(math.huge) end
  scaler:step(opt)
  scaler:update()
  eq(scaler:get_scale(), i == 2 and 2 or 4)
end)
case('conversions of the net', mlp, function(net, opt, a, b)
  step(net, opt, a, b)
  net:float():double()
end)

local function check_cases()
  for _, this in ipairs(cases) do
    local nets, opts = {}, {}
    for k = 1, 2 do
      mt.manual_seed(1)
      nets[k] = this.make():double()
      if k == 2 then dist.shard(nets[2]) end
      opts[k] = adamw(nets[k]:parameters())
    end
    local ok, message = pcall(function()
      for i = 1, 4 do
        this.run(nets[1], opts[1], x, y, i, false)
        this.run(nets[2], opts[2], my_x, my_y, i, size > 1)
      end
      local got = flat(nets[2])
      close(got, flat(nets[1]), 1e-6)
      same_everywhere(got)
    end)
    if not ok then error(this.name .. ': ' .. tostring(message), 0) end
  end
end

local function check_shard()
  local function deep()
    mt.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Sequential(nn.Dropout(0), nn.Linear(8, 3)),
      nn.Linear(3, 6)):to 'float64':eval()
  end
  local one, many = deep(), dist.shard(deep())
  assert(rawequal(dist.shard(many), many))
  local n = 0
  for _, p in ipairs(many:parameters()) do n = n + p:numel() end
  local whole = 6 * 8 + 8 + 8 + 8 + 24 + 3 + 18 + 6
  assert(n >= whole / size and n < whole / size + 8, n)
  close(many(x), one(x))
  local expected = train(one, adamw(one:parameters()), 10, x, y)
  local got = train(many, adamw(many:parameters()), 10, my_x, my_y)
  close(got, expected)
  same_everywhere(got)
  many:load_state_dict(deep():state_dict())
  close(flat(many), flat(deep()))
  raises(function() many:load_state_dict{} end, "'0.weight' is missing")
  -- layers in another order than before, parameters changed between two uses, and layers that follow themselves
  local function steps(net)
    local a, b, c, d = net[1], net[3][2], net[4], net[2]
    local function change(p) mt.no_grad(function() p:mul_(0.5) end) end
    local list = {}
    local function add(...)
      local h = x
      for _, layer in ipairs{...} do h = layer(h) end
      h:pow(2):sum():backward()
      list[#list + 1] = h:detach()
    end
    for round = 1, 3 do
      add(a, d, b, c)
      list[#list + 1] = net(x):detach()
      change(c.weight)
      if round == 2 then change(a.bias) end
      add(a, b, c)
      add(a)
      add(a)
      change(a.weight)
      add(a)
      mt.no_grad(function() list[#list + 1] = a(x) + a(x) end)
    end
    return list
  end
  local outputs = steps(deep())
  for i, v in ipairs(steps(many)) do close(v, outputs[i]) end
  -- a layer that uses the parameters of an inner one, and a shared parameter
  local a = nn.MultiheadAttention(4, 2):to 'float64'
  local b = nn.MultiheadAttention(4, 2):to 'float64'
  for k, p in ipairs(a:parameters()) do b:parameters()[k]:detach():copy_(dist.broadcast_(p:detach())) end
  dist.shard(b)
  local q = x:narrow(2, 1, 4):unsqueeze(2):clone()
  local out_a, out_b = a(q), b(q)
  close(out_a, out_b)
  out_a:pow(2):sum():backward()
  out_b:pow(2):sum():backward()
  local k = math.ceil(16 / size)
  local g = mt.cat{a.out_proj.weight.grad:flatten(), mt.zeros(size, f64)}:narrow(1, rank * k + 1, k)
  close(size > 1 and b.out_proj.weight.grad or g, g)
  raises(function() dist.shard(3) end, 'dist.shard: a module is needed')
end

--- The graph of a sharded net: second gradients, a second backward, casts, changed parameters, freed memory.
local function check_shard_graph()
  local function deep(dtype)
    mt.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 6)):to(dtype)
  end
  local function gradients(run, dtype)
    local one, many = deep(dtype), dist.shard(deep(dtype))
    local outputs = {}
    for k, net in ipairs{one, many} do outputs[k] = {run(net)} end
    for k, v in ipairs(outputs[1]) do close(outputs[2][k], v, dtype == 'float32' and 1e-6) end
    for k, p in ipairs(one:parameters()) do
      local n, q = math.ceil(p:numel() / size), many:parameters()[k]
      local all = mt.cat{(p.grad or p:detach() * 0):flatten(), p:new_zeros(size * n - p:numel())}
      local part = (q.grad or q:detach() * 0):flatten()
      close(part, all:narrow(1, size > 1 and rank * n + 1 or 1, part:numel()), dtype == 'float32' and 1e-5)
    end
  end
  gradients(function(net)
    local input = x:clone():requires_grad_()
    local g = mt.grad(net(input):sum(), {input}, nil, true, true)[1]
    g:pow(2):sum():backward()
    return g, input.grad
  end, 'float64')
  gradients(function(net)
    local out = net(x):pow(2):sum()
    out:backward(nil, {retain_graph = true})
    out:backward()
    return out
  end, 'float64')
  gradients(function(net)
    local input = x:clone():requires_grad_()
    local out = mt.recompute(net, input)
    out:pow(2):sum():backward()
    return out, input.grad
  end, 'float64')
  for _, run in ipairs{function(net, v) return net(v) end, mt.recompute} do
    gradients(function(net)
      return mt.autocast{function()
        local out = run(net, x:float())
        out:float():pow(2):sum():backward()
        return out:float()
      end, dtype = 'bfloat16'}
    end, 'float32')
  end
  if size == 1 then return end
  local net = dist.shard(deep 'float64')
  local loss = net(x):sum()
  mt.no_grad(function() net[3].weight:mul_(2) end)
  raises(function() loss:backward() end, 'a parameter of dist.shard was changed in place')
  net = dist.shard(deep 'float64') -- what no node needs may change; what one needs not, in a second pass either
  loss = net(x):pow(2):sum()
  mt.no_grad(function() net[5].bias:add_(1) end)
  loss:backward(nil, {retain_graph = true})
  mt.no_grad(function() net[1].weight:mul_(2) net[5].weight:mul_(2) end)
  raises(function() loss:backward() end, 'changed in place')
  raises(function() net:clone() end, 'a net of dist.shard has no copies')
  local embedding = dist.shard(nn.Embedding(4, 3, {max_norm = 0.1}))
  raises(function() embedding(mt.tensor({1, 2}, {dtype = 'int64'})) end, 'forward of a layer wrote into a parameter')
  local wide = dist.shard(nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(),
    nn.Linear(512, 512)))
  local function live()
    collectgarbage()
    collectgarbage()
    return (core.memory())
  end
  for _, cast in ipairs{false, true} do
    local input = mt.ones(1, 512, {requires_grad = true})
    wide(input):sum():backward()
    local before = live()
    local out = mt.autocast{wide, input, dtype = 'bfloat16', enabled = cast}
    local more = (live() - before) / (512 * 512 * 4)
    assert(more < 1.1, more) -- the last layer's matrix is kept for backward, which begins with it
    out:float():sum():backward()
  end
end

--- The memory in backward after the last layer of a recomputed block: not the whole parameters of the others.
local function check_recomputed_memory()
  if size == 1 then return end
  local n, wide, more = 512, nn.Sequential(), 0
  for i = 1, 6 do wide[i] = nn.Linear(n, n) end
  dist.shard(wide)
  local function live()
    collectgarbage()
    collectgarbage()
    return core.memory() / (n * n * 4)
  end
  for _ = 1, 2 do
    local before = live()
    local out = mt.recompute(function(v)
      v = wide[5](wide[4](wide[3](wide[2](wide[1](v)))))
      v:register_hook(function() more = live() - before end)
      return wide[6](v)
    end, mt.ones(1, n))
    out:sum():backward()
    wide:zero_grad()
  end
  assert(more < 4.2, more) -- of layers 5 and 6; the gradient of 6, its part
end

--- The gradients of a layer travel while the layer before it runs backward: a process is late with those of the last
--- layer, and another one goes on without it.
local function check_overlap()
  if size == 1 then return end
  local began, passed
  --- A layer that calls the function when backward has computed the gradient of its weight.
  local function layer(fn)
    local made = nn.Module()
    made.weight = nn.Parameter(mt.ones(6, 6, f64))
    function made:forward(v)
      self.weight:register_hook(fn)
      return v:mm(self.weight)
    end
    return made
  end
  local function be_late()
    if rank == 1 then ffi.C.usleep(999999) end
    began = core.time()
  end
  local net = dist.shard(nn.Sequential(layer(function() end), layer(function() passed = core.time() end),
    layer(be_late)))
  for _ = 1, 3 do net(my_x):sum():backward() end
  if rank == 0 then assert(passed - began < 0.5, passed - began) end
end

local function check_refused()
  local net = mlp()
  raises(function() dist.shard(3) end, 'dist.shard: a module is needed')
  if size == 1 then return end
  local opt = adamw(net:parameters())
  raises(function() dist.shard(net) end, 'dist.shard: an optimizer has parameters of the net already')
  assert(opt)
  raises(function() dist.shard(dist.parallel(mlp())) end, 'dist.shard: the net is one of dist.parallel')
  net = dist.shard(mlp())
  raises(function() dist.parallel(net) end, 'dist.parallel: the net is one of dist.shard')
  raises(function() dist.shard(nn.Sequential(net)) end, 'dist.shard: the net is one of dist.shard, or holds one')
  raises(function() dist.shard(nn.Embedding(2, 3, {sparse = true})) end, 'dist.shard: an embedding has sparse')
  raises(function() nn.functional_call(net, {['0.weight'] = net[1].weight}, x) end, 'a part of a parameter')
  raises(function() optim.LBFGS(net:parameters()):step(function() return net(x:float()):sum() end) end,
    'LBFGS: it needs whole parameters')
  net[6] = nn.Linear(6, 6)
  raises(function() net(x:float()) end, "dist.shard: 5.weight was added or given requires_grad later")
end

if arg[1] == '--process' then
  ffi.C.setenv('MTORCH_DIST_THREAD', arg[2], 1)
  check_shard()
  check_shard_graph()
  check_cases()
  check_recomputed_memory()
  if arg[2] == '1' and not t.device then check_overlap() end -- processes with GPUs agree at once, before the transfer
  check_refused()
  io.write(('process %d of %d is done\n'):format(rank, size))
  os.exit(0)
end

test('a sharded net of one process', check_shard)
test('the graph of a sharded net of one process', check_shard_graph)
test('steps of one process', check_cases)
if os.execute 'command -v mpirun >/dev/null' ~= 0 then
  print 'the rest is skipped: there is no mpirun'
else
  for n = 2, 3 do
    test(('%d processes'):format(n), function()
      local text = t.processes(n, '', n - 2)
      for r = 0, n - 1 do assert(text:find(('process %d of %d is done'):format(r, n), 1, true), text) end
      assert(text:find 'status 0', text)
    end)
  end
end
t.finish()
