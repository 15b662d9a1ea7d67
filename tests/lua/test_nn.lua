-- test_nn.lua -- modules: classes, registration, layers, state, containers, and errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises, shape = t.test, t.eq, t.near, t.raises, t.shape
local nn = mt.nn

local function names(net)
  local list = {}
  for name in net:named_parameters() do list[#list + 1] = name end
  return list
end

local Net = nn.class 'Net'
function Net.__init(self, hidden)
  self.first = nn.Linear(2, hidden)
  self.second = nn.Linear(hidden, 1, {bias = false})
  self.scale = nn.Parameter(mt.ones(1))
  self.seen = nn.Buffer(mt.zeros(1))
  self.plain = mt.ones(5)
end
function Net.forward(self, x) return self.second(self.first(x):relu()) * self.scale end

-- Classes -----------------------------------------------------------------------------------------

test('a class makes objects that are called', function()
  local net = Net(4)
  shape(net(mt.ones(7, 2)), 7, 1)
  local y = net(mt.ones(7, 2))
  assert(y.requires_grad and mt.equal(y, net:forward(mt.ones(7, 2))))
  eq(tostring(Net), 'Net')
end)

test('forward takes and returns any number of values', function()
  local Many = nn.class 'Many'
  function Many.forward(_, ...) return select('#', ...), ... end
  eq({Many()(1, nil, 'a', nil)}, {4, 1, nil, 'a', nil})
  eq(select('#', Many()(nil, nil)), 3)
end)

test('a base class is inherited from', function()
  local Wide = nn.class('Wide', Net)
  function Wide.__init(self, hidden)
    Net.__init(self, 2 * hidden)
    self.extra_weight = nn.Parameter(mt.ones(3))
  end
  local net = Wide(3)
  shape(net(mt.ones(1, 2)), 1, 1)
  shape(net.first.weight, 6, 2)
  eq(names(net), {'first.weight', 'first.bias', 'second.weight', 'scale', 'extra_weight'})
  local Quiet = nn.class('Quiet', Wide)
  eq(#Quiet(3):parameters(), 5)
end)

test('fields register in the order of their first assignment', function()
  local net = Net(4)
  eq(names(net), {'first.weight', 'first.bias', 'second.weight', 'scale'})
  local list = net:parameters()
  eq(#list, 4)
  assert(list[1] == net.first.weight and list[4] == net.scale)
  for _, p in ipairs(list) do assert(p.requires_grad and p.is_leaf) end
  local first = net.first
  net.first = nn.Linear(2, 4)
  net.late = nn.Parameter(mt.ones(1))
  eq(names(net), {'first.weight', 'first.bias', 'second.weight', 'scale', 'late'})
  assert(net:parameters()[1] ~= first.weight)
  net.scale = nil
  eq(names(net), {'first.weight', 'first.bias', 'second.weight', 'late'})
end)

test('a shared parameter counts once', function()
  local net = nn.class('Shared')()
  net.a = nn.Linear(3, 3)
  net.b = nn.Linear(3, 3)
  net.b.weight = net.a.weight
  net.c = net.a
  eq(#net:parameters(), 3)
end)

test('registered values are replaced by values of the same kind, or removed', function()
  local l = nn.Linear(2, 2)
  local weight = l.weight
  for _, plain in ipairs{mt.ones(2, 2), 5, 'a', {1}, false} do
    raises(function() l.weight = plain end, 'test_nn.lua:%d+: Linear.weight is a parameter: assign nn.Parameter')
  end
  assert(rawequal(l.weight, weight))
  l.weight = nn.Parameter(mt.ones(2, 2))
  eq({names(l), l.weight:sum():item()}, {{'weight', 'bias'}, 4})
  l.weight = nil
  eq({names(l), l.weight}, {{'bias'}, nil})
  l.weight = nn.Parameter(mt.zeros(2, 2))
  eq(names(l), {'weight', 'bias'})
  local net = nn.class('Averaging')()
  net.mean = nn.Buffer(mt.zeros(2))
  net.mean = net.mean * 0.9 + 1 -- as in PyTorch a tensor replaces the buffer
  eq(net:state_dict().mean:tolist(), {1, 1})
  net.mean = net.mean + mt.ones(2):requires_grad_()
  eq({net:to('float64').mean.dtype, net.mean:tolist()}, {'float64', {2, 2}})
  raises(function() net.mean = 5 end, 'Averaging.mean is a buffer: assign a tensor .*got 5')
  net.late = mt.ones(1)
  net.late = nn.Parameter(mt.ones(1))
  eq(names(net), {'late'})
  raises(function() net.late = mt.ones(1) end, 'Averaging.late is a parameter')
  net.late = nn.Linear(1, 1, false)
  eq(names(net), {'late.weight'})
end)

test('a plain table of modules is refused, with the cure', function()
  local net = nn.class('Listed')()
  for _, fill in ipairs{function() net.heads = {}; table.insert(net.heads, nn.Linear(1, 1)) end,
    function() net.heads = {a = nn.Linear(1, 1)} end} do
    fill()
    for _, use in ipairs{'parameters', 'state_dict', 'train'} do
      raises(function() net[use](net) end, 'Listed.heads: a plain table of modules is not registered; ' ..
        'use nn.ModuleList{..} or nn.ModuleDict{..}')
    end
    raises(function() nn.Sequential(net):parameters() end, 'Listed.heads: a plain table')
  end
  net.a = net.heads.a -- registered modules may also be in a table
  eq(#net:parameters(), 2)
  net.heads, net.a = nil, nil
  raises(function() net.layers = {nn.Linear(1, 1), nn.Linear(1, 1)} end,
    'Listed.layers: .*nn.ModuleList')
  net.numbers = {1, 2, 3}
  eq(net.numbers[2], 2)
  net.layers = nn.ModuleList{nn.Linear(1, 1), nn.Linear(1, 1)}
  eq(#net:parameters(), 4)
  net.blocks = {{nn.Linear(1, 1)}}
  raises(function() net:parameters() end, 'Listed.blocks: a plain table of modules is not registered')
  net.blocks = {nn.Parameter(mt.ones(1))}
  raises(function() net:parameters() end, 'Listed.blocks: a plain table of parameters is not registered; ' ..
    'use nn.ParameterList{..} or nn.ParameterDict{..}')
  net.blocks = {all = net.layers[1]:parameters()} -- registered
  eq(#net:parameters(), 4)
end)

test('a module without forward is an error', function()
  raises(function() nn.class('Empty')()(mt.ones(1)) end, 'Empty has no forward')
  raises(function() nn.ModuleList{nn.Linear(1, 1)}(mt.ones(1)) end, 'ModuleList')
end)

-- Layers ------------------------------------------------------------------------------------------

test('Linear', function()
  mt.manual_seed(1)
  local layer = nn.Linear(100, 50)
  shape(layer.weight, 50, 100)
  shape(layer.bias, 50)
  local bound = 0.1
  for _, p in ipairs(layer:parameters()) do
    assert(p:max():item() <= bound and p:min():item() >= -bound)
    assert(p:max():item() > 0.8 * bound and p:min():item() < -0.8 * bound)
  end
  near(layer.weight:mean():item(), 0, 0.005)
  local x = mt.randn(7, 100)
  mt.test_close(layer(x), x:matmul(layer.weight:t()) + layer.bias, 1e-4)
  shape(layer(mt.ones(2, 3, 100)), 2, 3, 50)
  shape(layer(mt.ones(100)), 50)
  for _, plain in ipairs{nn.Linear(3, 2, false), nn.Linear(3, 2, {bias = false}), nn.Linear{3, 2,
    bias = false}} do
    eq({#plain:parameters(), plain.bias}, {1, nil})
    mt.test_close(plain(mt.ones(1, 3)), plain.weight:sum(2):unsqueeze(1))
  end
  raises(function() layer(mt.ones(2, 3)) end,
    'linear: the input is %(2 x 3%), the weight %(50 x 100%)')
  for _, bad in ipairs{{0, 1}, {1, -1}, {1.5, 1}, {'1', 1}} do
    raises(function() nn.Linear(bad[1], bad[2]) end, 'Linear: ')
  end
  raises(function() nn.Linear(3) end, 'Linear: .*out_features')
  raises(function() nn.Linear(3, 2, {bais = false}) end,
    "Linear: unknown option 'bais' %(did you mean 'bias'%?%)")
end)

test('the gradient of a Linear', function()
  local layer = nn.Linear(3, 2):to('float64')
  eq(layer.weight.dtype, 'float64')
  mt.gradcheck(function(x, w, b) return mt.linear(x, w, b):tanh() end,
               {mt.randn({4, 3}, 'float64'):requires_grad_(), layer.weight, layer.bias})
end)

test('activations are the functions', function()
  local x = mt.tensor{-2, -0.5, 0, 0.5, 2}
  for name, method in pairs{ReLU = 'relu', Sigmoid = 'sigmoid', Tanh = 'tanh'} do
    local layer = nn[name]()
    assert(mt.equal(layer(x), x[method](x)), name)
    eq(#layer:parameters(), 0)
    assert(tostring(layer):find(name, 1, true))
  end
end)

test('Sequential keeps its children at 1..n and calls them in turn', function()
  for _, net in ipairs{nn.Sequential{nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)},
                       nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))} do
    local x = mt.randn(5, 2)
    assert(mt.equal(net(x), net[3](net[2](net[1](x)))))
    eq(#net, 3)
    eq(names(net), {'0.weight', '0.bias', '2.weight', '2.bias'})
  end
  eq(#nn.Sequential{nn.ReLU()}, 1)
  eq(#nn.Sequential(nn.ReLU()), 1)
  eq(nn.Sequential{}(5), 5)
  raises(function() nn.Sequential{nn.ReLU(), 3} end, 'Sequential: entry 2 must be a module, got 3')
  raises(function() nn.Sequential{nn.ReLU} end, 'Sequential: entry 1')
  raises(function() nn.Sequential(3) end, 'Sequential')
  local deep = nn.Sequential{nn.Sequential{nn.Linear(1, 1)}, nn.ReLU()}
  eq(names(deep), {'0.0.weight', '0.0.bias'})
end)

test('lists of modules have no holes and no names', function()
  local a, b = nn.ReLU(), nn.Tanh()
  raises(function() nn.Sequential{a, nil, b} end, 'Sequential: entry 2 must be a module, got nil')
  raises(function() nn.Sequential(a, nil, b) end, 'Sequential: entry 2 must be a module, got nil')
  raises(function() nn.Sequential(a, b, nil) end, 'Sequential: entry 3 must be a module, got nil')
  raises(function() nn.Sequential(nil) end, 'Sequential: a list of modules is needed, got nil')
  raises(function() nn.Sequential{first = a} end, "Sequential: entries have no names, got the key the string 'first'")
  raises(function() nn.Sequential{a, [2.5] = b} end, 'Sequential: entries have no names, got the key 2.5')
  raises(function() nn.ModuleList{a, nil, b} end, 'ModuleList: entry 2 must be a module, got nil')
  raises(function() nn.ModuleList{first = a} end, 'ModuleList: entries have no names')
  raises(function() nn.ModuleList(a) end, 'ModuleList: a list of modules is needed, got ReLU')
  raises(function() nn.ModuleList(a, b) end, 'ModuleList: 2 arguments given')
  eq({#nn.Sequential(), #nn.ModuleList(), #nn.ModuleList{}, #nn.ModuleList(nn.Sequential{a, b})}, {0, 0, 0, 2})
  local list = nn.ModuleList{a}
  assert(rawequal(list:append(b), list) and rawequal(list[2], b) and #list:children() == 2)
  eq(#nn.Sequential():append(a), 1)
  raises(function() list:append(5) end, 'append: the entry must be a module, got 5')
end)

-- What modules do ---------------------------------------------------------------------------------

test('zero_grad drops gradients', function()
  local net = Net(4)
  net(mt.ones(3, 2)):sum():backward()
  for _, p in ipairs(net:parameters()) do assert(p.grad) end
  net:zero_grad()
  for _, p in ipairs(net:parameters()) do eq(p.grad, nil) end
end)

test('train and eval reach every module and return self', function()
  local net = nn.Sequential{nn.Sequential{nn.ReLU()}, nn.Tanh()}
  eq(net.training, true)
  assert(net:eval() == net)
  eq({net.training, net[1].training, net[1][1].training, net[2].training}, {false, false, false,
    false})
  net:train()
  eq({net.training, net[1][1].training}, {true, true})
  net:train(false)
  eq(net[2].training, false)
end)

test('state_dict shares memory, load_state_dict copies', function()
  local net, other = Net(4), Net(4)
  local state = net:state_dict()
  local keys = {}
  for name, value in pairs(state) do
    keys[#keys + 1] = name
    eq(value.requires_grad, false)
  end
  table.sort(keys)
  eq(keys, {'first.bias', 'first.weight', 'scale', 'second.weight', 'seen'})
  local x = mt.randn(3, 2)
  assert(not mt.equal(net(x), other(x)))
  local weight = other.first.weight
  other:load_state_dict(state)
  assert(mt.equal(net(x), other(x)) and other.first.weight == weight and weight.requires_grad and
    weight.is_leaf)
  mt.no_grad(function() net.first.weight:zero_() end)
  assert(not state['first.weight']:any(), 'state_dict is a copy')
  assert(other.first.weight:any(), 'load_state_dict shares memory')
end)

test('a state has all names of shared values', function()
  local function tied()
    local l, n = nn.Linear(2, 2), nn.Linear(2, 2)
    n.weight = l.weight
    return nn.Sequential(l, n, l)
  end
  local net, other = tied(), tied()
  local keys = {}
  for name in pairs(net:state_dict()) do keys[#keys + 1] = name end
  table.sort(keys)
  eq(keys, {'0.bias', '0.weight', '1.bias', '1.weight', '2.bias', '2.weight'})
  eq(names(net), {'0.weight', '0.bias', '1.bias'})
  other:load_state_dict(net:state_dict())
  assert(mt.equal(other[2].weight, net[1].weight) and rawequal(other[2].weight, other[1].weight))
  local state = net:state_dict()
  state['1.weight'] = nil
  raises(function() other:load_state_dict(state) end, "'1.weight' is missing")
end)

test('a state that does not fit names all differences and loads nothing', function()
  local net = Net(4)
  local before = net.first.weight:clone()
  local state = Net(4):state_dict()
  state['first.bias'] = mt.ones(9)
  state['scale'] = nil
  state['more'] = mt.ones(1)
  local message = raises(function() net:load_state_dict(state) end, 'load_state_dict: ')
  for _, piece in ipairs{"'first.bias' is (9), expected (4)", "'scale' is missing",
    "'more' is unknown"} do
    assert(message:find(piece, 1, true), message)
  end
  assert(mt.equal(net.first.weight, before))
  for k = 1, 6 do state['more' .. k] = mt.ones(1) end
  raises(function() net:load_state_dict(state) end, "'more' is unknown, 'more1' is unknown and 5 more$")
  raises(function() net:load_state_dict(3) end, 'load_state_dict: .*got 3')
end)

test('states of older PyTorch load: no num_batches_tracked, weight_g and weight_v', function()
  local function net()
    return nn.Sequential(nn.weight_norm(nn.Conv1d(2, 3, 2)), nn.BatchNorm1d(3),
      nn.weight_norm(nn.Linear(4, 4), 'weight', false))
  end
  local first, second = net(), net()
  local state = first:state_dict()
  state['1.num_batches_tracked'] = nil
  for _, k in ipairs{0, 2} do
    for letter, n in pairs{g = 0, v = 1} do
      local name = ('%d.parametrizations.weight.original%d'):format(k, n)
      state[('%d.weight_%s'):format(k, letter)], state[name] = state[name], nil
    end
  end
  local given = {}
  for name in pairs(state) do given[name] = true end
  eq(rawequal(second:load_state_dict(state), second), true)
  for name in pairs(given) do assert(state[name], name) end -- the table is the caller's
  for name, x in pairs(first:state_dict()) do assert(mt.equal(second:state_dict()[name], x), name) end
  eq({second:load_state_dict(state, {strict = false})}, {{}, {}})
  state['0.weight_v'] = nil
  raises(function() second:load_state_dict(state) end,
    "'0.parametrizations.weight.original1' is missing; {strict=false} loads the rest$")
end)

test('clone is an independent copy', function()
  local net = Net(4)
  local copy = net:clone()
  local x = mt.randn(3, 2)
  assert(mt.equal(net(x), copy(x)))
  eq(names(copy), names(net))
  mt.no_grad(function() copy.first.weight:zero_() end)
  assert(net.first.weight:any())
  for i, p in ipairs(copy:parameters()) do assert(p ~= net:parameters()[i] and p.requires_grad) end
end)

test('clone keeps frozen and shared parameters', function()
  local net = Net(4)
  net.first.weight:requires_grad_(false)
  net.sizes = {4, {net.first}}
  local copy = net:clone()
  eq({copy.first.weight.requires_grad, copy.first.bias.requires_grad, copy.seen.requires_grad}, {false, true, false})
  assert(rawequal(copy.sizes[2][1], copy.first) and copy.sizes ~= net.sizes and copy.first ~= net.first)
  net:eval()
  eq({net:clone().training, net:clone().first.training, copy.training}, {false, false, true})
  local l = nn.Linear(2, 2)
  local twice = nn.Sequential(l, l):clone()
  assert(rawequal(twice[1], twice[2]) and twice[1] ~= l)
  eq(#twice:parameters(), 2)
  local n = nn.Linear(2, 2)
  n.weight = l.weight
  local tied = nn.Sequential(l, n):clone()
  assert(rawequal(tied[1].weight, tied[2].weight) and not rawequal(tied[1].weight, l.weight))
  eq({#tied:parameters(), tied[1].weight.requires_grad}, {3, true})
  local a, b = nn.class('A')(), nn.class('B')()
  a.inner, b.outer = b, a
  local round = a:clone()
  assert(rawequal(round.inner.outer, round) and round ~= a)
end)

test('to changes the dtype in place', function()
  local net = Net(4)
  local weight = net.first.weight
  assert(net:to('float64') == net)
  eq({weight.dtype, net.first.weight.dtype, net.seen.dtype, weight.requires_grad}, {'float64',
    'float64', 'float64', true})
  assert(net.first.weight == weight)
  eq(net(mt.ones({1, 2}, 'float64')).dtype, 'float64')
end)

test('to moves every dtype to a device, and gives a dtype only to floats', function()
  local net = nn.class('Counting')()
  net.count = nn.Buffer(mt.tensor({1, 2}, 'int64'))
  net.mask = nn.Buffer(mt.tensor{true, false})
  net.weight = nn.Parameter(mt.ones(2))
  net:to('float64')
  eq({net.count.dtype, net.mask.dtype, net.weight.dtype}, {'int64', 'bool', 'float64'})
  local whole = nn.class('Whole')()
  whole.count = net.count
  if mt.cuda.is_available() then
    whole:to('cuda')
    eq({whole.count.device, whole.count.dtype, whole.count:tolist()[2]}, {'cuda:0', 'int64', 2})
    net:to{dtype = 'float32', device = 'cuda'}
    eq({net.mask.device, net.mask.dtype, net.weight.device, net.weight.dtype}, {'cuda:0', 'bool', 'cuda:0', 'float32'})
    net:to('cpu')
    eq({net.mask.device, net.count.device, net.weight.device}, {'cpu', 'cpu', 'cpu'})
  else
    raises(function() whole:to('cuda') end, 'to: ')
  end
  for _, dtype in ipairs{'int64', 'bool'} do
    raises(function() net:to(dtype) end, "test_nn.lua:%d+: to: parameters need a float dtype .*got '" .. dtype)
    raises(function() net:to{dtype = dtype} end, 'to: parameters need a float dtype')
  end
  raises(function() net:to('float99') end, "'float99'")
end)

test('to keeps gradients', function()
  local layer = nn.Linear(2, 1)
  layer(mt.ones(1, 2)):sum():backward()
  local gradient = layer.weight.grad
  layer:to(layer.weight.device)
  assert(mt.equal(layer.weight.grad, gradient))
  layer:to('float64')
  eq({layer.weight.grad.dtype, layer.weight.grad:tolist()[1][2]}, {'float64', 1})
end)

test('apply visits all modules', function()
  local seen = {}
  nn.Sequential{nn.Linear(1, 1), nn.ReLU()}:apply(function(m) seen[#seen + 1] = m.__name end)
  eq(seen, {'Linear', 'ReLU', 'Sequential'})
end)

test('nn.is and net:is know the class of a module, and those it is derived from', function()
  local Wide = nn.class('Wide', nn.Linear)
  function Wide:__init() nn.Linear.__init(self, 2, 30) end
  local wide, relu = Wide(), nn.ReLU()
  eq({nn.is(wide, Wide), nn.is(wide, nn.Linear), nn.is(wide, nn.Module)}, {true, true, true})
  eq({wide:is(nn.Linear), wide:is 'Linear', wide:is 'Wide', wide:is 'ReLU'}, {true, true, true, false})
  eq({relu:is(nn.ReLU), nn.Linear(1, 1):is(Wide)}, {true, false})
  eq({nn.is(3, nn.Linear), nn.is(mt.ones(1), nn.Linear)}, {false, false})
  raises(function() nn.is(relu, relu) end, 'test_nn.lua:%d+: is: a class of modules is needed, nn.Linear, got ReLU')
  raises(function() relu:is(5) end, 'test_nn.lua:%d+: is: class must be a string or a table, got 5')
end)

test('print shows the tree and the parameters', function()
  local text = tostring(nn.Sequential{nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10, false)})
  for _, piece in ipairs{'Sequential(', '[1]: Linear(784 -> 100)', '78,500 parameters',
    '[2]: ReLU', 'no bias',
                         '79,500 parameters'} do
    assert(text:find(piece, 1, true), piece .. ' is missing in ' .. text)
  end
end)

test('Parameter and Buffer', function()
  local x = mt.ones(2)
  local p = nn.Parameter(x)
  assert(p.requires_grad and p.is_leaf and not x.requires_grad)
  raises(function() nn.Parameter(3) end, 'Parameter: .*got 3')
  raises(function() nn.Parameter(mt.ones({2}, 'int64')) end, 'int64')
  eq(nn.Buffer(x).requires_grad, false)
  raises(function() nn.Buffer('a') end, "Buffer: .*'a'")
  raises(function() return nn.Liner end, "did you mean 'Linear'")
end)

test('arguments of methods are checked', function()
  local net = nn.Sequential{nn.Linear(1, 1), nn.ReLU()}
  for name, most in pairs{parameters = 0, named_parameters = 0, zero_grad = 0, state_dict = 0, clone = 0, eval = 0,
    double = 0, modules = 0, train = 1, apply = 1, load_state_dict = 2} do
    local list = {}
    for i = 1, most + 1 do list[i] = 5 end
    raises(function() net[name](net, unpack(list)) end,
      ('test_nn.lua:%%d+: %s: %d arguments given, it takes %d'):format(name, most + 1, most))
    raises(function() net[name]() end, name .. ': methods are called with a colon, net:' .. name)
  end
  raises(function() net:train('no') end, "test_nn.lua:%d+: train: .*must be true or false, got the string 'no'")
  raises(function() net:apply(5) end, 'test_nn.lua:%d+: apply: fn must be a function, got 5')
  raises(function() net:requires_grad_(1) end, 'requires_grad_: .* got 1')
  eq(net:train(nil).training, true)
  raises(function() nn.Linear(2, 2, {bias = 5}) end, 'Linear: bias must be true or false, got 5')
  raises(function() nn.Linear(3, 4, 5) end, 'Linear: bias must be true or false, got 5')
  raises(function() nn.MSELoss('foo') end, "MSELoss: reduction is 'foo'; use 'mean', 'sum' or 'none'")
  raises(function() nn.GELU('fast') end, "GELU: approximate is 'fast'; use 'none' or 'tanh'")
  raises(function() nn.CrossEntropyLoss{weight = 5} end, 'CrossEntropyLoss: weight must be a tensor, got 5')
  raises(function() nn.CrossEntropyLoss{label_smoothing = 2} end, 'label_smoothing must be a number from 0 to 1')
  raises(function() nn.Softplus('x') end, 'Softplus: beta must be a number')
  raises(function() nn.Flatten(1.5) end, 'Flatten: start_dim must be a whole number, got 1.5')
  raises(function() nn.class('X', 5) end, 'class: the base must be a class of modules, got 5')
  raises(function() nn.class('X', {1}) end, 'class: the base must be a class of modules, got a table')
  raises(function() nn.class('X', nn.Linear(1, 1)) end, 'class: .*got a module of the class Linear')
  local x = mt.ones(1, 1)
  raises(function() net(x, x) end, 'Sequential: too many arguments')
  raises(function() net[1](x, x) end, 'Linear: too many arguments')
  raises(function() net[2](x, x) end, 'ReLU: too many arguments')
  raises(function() nn.MSELoss()(x) end, "argument 2 'target' is missing")
end)

test('layers take device and dtype, last or by name', function()
  for _, net in ipairs{nn.Linear(3, 4, {dtype = 'float64', device = 'cpu'}), nn.Linear(3, 4, true, 'cpu', 'float64'),
    nn.Conv2d(1, 2, 3, {dtype = 'float64'}), nn.LSTM(3, 4, {dtype = 'float64'}), nn.GRUCell(3, 4, {dtype = 'float64'}),
    nn.BatchNorm2d(3, {dtype = 'float64'}), nn.LayerNorm(3, {dtype = 'float64'}), nn.PReLU{dtype = 'float64'},
    nn.Embedding(3, 4, {dtype = 'float64'}), nn.MultiheadAttention(4, 2, {dtype = 'float64'}),
    nn.Bilinear(2, 2, 2, {dtype = 'float64'}), nn.TransformerDecoderLayer(4, 2, {dtype = 'float64'}),
    nn.Transformer(4, 2, 1, 1, {dtype = 'float64'})} do
    for _, p in ipairs(net:parameters()) do eq(p.dtype, 'float64') end
    for name, b in net:named_buffers() do eq(b.dtype, name:find 'num_batches' and 'int64' or 'float64') end
    assert(not tostring(net):find 'float64' and net.dtype == nil)
  end
  eq(nn.Linear(3, 4, {dtype = 'float64'})(mt.ones({2, 3}, 'float64')).dtype, 'float64')
  raises(function() nn.Linear(3, 4, {dtype = 'int64'}) end, "Linear: dtype must be one of floats, .*got 'int64'")
  raises(function() nn.Upsample{dtype = 'float64'} end, "Upsample: unknown option 'dtype'")
end)

test('constructors count arguments as the user does', function()
  raises(function() nn.Linear(3) end, "test_nn.lua:%d+: Linear: argument 2 'out_features' is missing: Linear%(in_feat")
  raises(function() nn.Linear(3, 2)(nn.GRU(2, 3)(mt.randn(4, 1, 2))) end,
    'Linear: too many arguments given, it is called with 1; g%(x%) as the last argument passes all its results on')
  raises(function() nn.Tanh():load_state_dict({}, {format = 'pt'}, nil) end, 'it takes 2; g%(x%) as the last argument')
  raises(function() nn.Tanh(5) end, 'Tanh: 1 arguments given, it takes 0: Tanh%(%)')
  raises(function() nn.ReLU(5) end, 'ReLU: inplace must be true or false, got 5')
  raises(function() nn.Linear(1, 2, true, nil, nil, 4) end, 'Linear: 6 arguments given, it takes 5')
  raises(function() nn.Linear() end, "Linear: argument 1 'in_features' is missing")
  raises(function() nn.class('Mine', nn.Linear)(3) end, "argument 2 'out_features'")
  local Own = nn.class('Own', nn.Linear)
  function Own.__init(self) nn.Linear.__init(self, 2, 3, {bias = false}) end
  eq({#Own():parameters(), #nn.class('Mine', nn.Linear){2, 3, bias = false}:parameters()}, {1, 1})
end)

test('load_state_dict with strict=false', function()
  local net, other = Net(4), Net(4)
  local state = net:state_dict()
  state.scale, state.more, state.again = nil, mt.ones(1), mt.ones(2)
  for _, off in ipairs{false, {strict = false}} do
    local missing, unexpected = other:load_state_dict(state, off)
    eq({missing, unexpected}, {{'scale'}, {'again', 'more'}})
  end
  eq({other:load_state_dict(net:state_dict(), {strict = false})}, {{}, {}})
  assert(mt.equal(other.first.weight, net.first.weight))
  for _, on in ipairs{true, {strict = true}, {}} do
    raises(function() other:load_state_dict(state, on) end, "'scale' is missing, 'again' is unknown, 'more' is unknown")
  end
  state['first.bias'] = mt.ones(9)
  raises(function() other:load_state_dict(state, false) end, "nothing loaded into Net: 'first.bias' is %(9%)")
  raises(function() other:load_state_dict(state, {strikt = false}) end, "unknown option 'strikt'")
  raises(function() other:load_state_dict(state, 5) end, 'strict must be true or false, got 5')
  raises(function() other:load_state_dict(state, {strict = 5}) end, 'strict must be true or false, got 5')
  raises(function() other:load_state_dict(net) end, 'load_state_dict: a table of tensors.*got Net')
end)

test('everyday methods', function()
  local net = Net(4)
  assert(net:requires_grad_(false) == net)
  for _, p in ipairs(net:parameters()) do eq(p.requires_grad, false) end
  net:requires_grad_()
  for _, p in ipairs(net:parameters()) do eq(p.requires_grad, true) end
  local modules = net:modules()
  eq({#modules, modules[1] == net, modules[2] == net.first, modules[3] == net.second}, {3, true, true, true})
  eq({#net:buffers(), net:buffers()[1] == net.seen}, {1, true})
  eq({net:half().scale.dtype, net:double().scale.dtype, net:float().scale.dtype}, {'float16', 'float64', 'float32'})
  eq(net:cpu().scale.device, 'cpu')
  if mt.cuda.is_available() then eq(net:cuda().scale.device, 'cuda:0')
  else raises(function() net:cuda() end, 'to: ') end
  eq(tostring(nn.Module), 'Module')
  raises(function() nn.Module()(1) end, 'Module has no forward')
  for _, name in ipairs{'__init__', '_init'} do
    local Misspelled = nn.class 'Misspelled'
    Misspelled[name] = function() end
    raises(Misspelled, 'its ' .. name .. ' is not called; define function Misspelled:__init%(')
  end
  local names = {}
  for name, m in nn.Sequential(nn.Linear(1, 1), nn.Tanh()):named_modules() do
    names[#names + 1] = name .. ' ' .. m.__name
  end
  eq(names, {' Sequential', '0 Linear', '1 Tanh'})
  raises(function() nn.class('Net')(4) end, 'Net: the class has no __init that takes arguments')
  local l = nn.Linear(1, 1)
  eq(#nn.Sequential(l, l):children(), 1)
  local loss = nn.CrossEntropyLoss{weight = mt.ones(3)}:to('float64')
  eq(loss(mt.zeros({2, 3}, 'float64'), mt.tensor({1, 3}, 'int64')).dtype, 'float64')
end)

t.test('modules of functions take their options, or refuse them', function()
  local x, y = mt.tensor{1, 2, 3}, mt.tensor{0, 0, 0}
  t.near(nn.MSELoss()(x, y):item(), 14 / 3)
  t.near(nn.MSELoss{reduction = 'sum'}(x, y):item(), 14)
  t.eq(nn.Flatten(1, 2)(mt.zeros(2, 3, 4)).shape[1], 6)
  t.eq(#nn.Flatten()(mt.zeros(2, 3, 4)).shape, 2)
  t.near(nn.GELU('tanh')(x):tolist(), mt.gelu(x, 'tanh'):tolist())
  local scores = mt.randn(2, 3)
  t.near(nn.CrossEntropyLoss{label_smoothing = 0.1}(scores, mt.tensor({1, 3}, {dtype = 'int64'})):item(),
    mt.cross_entropy(scores, mt.tensor({1, 3}, {dtype = 'int64'}), {label_smoothing = 0.1}):item())
  t.raises(function() nn.ReLU(3) end, 'ReLU: ')
  t.raises(function() nn.MSELoss{reductoin = 'sum'} end, "did you mean 'reduction'")
end)

test('Bilinear: as torch.nn.Bilinear', function()
  local layer = nn.Bilinear(2, 3, 2)
  eq({names(layer), layer.in1_features, layer.in2_features}, {{'weight', 'bias'}, 2, 3})
  mt.manual_seed(1)
  local bound = 1 / math.sqrt(2)
  local wide = nn.Bilinear(2, 40, 50)
  for _, p in ipairs(wide:parameters()) do
    assert(p:max():item() <= bound and p:min():item() >= -bound and p:max():item() > 0.8 * bound)
  end
  layer:load_state_dict{weight = mt.range(1, 12):float():view(2, 2, 3) / 10, bias = mt.tensor{0.5, -1}}
  local a, b = mt.tensor{{1, -2}, {0.5, 3}}:requires_grad_(), mt.tensor{{1, 0, -1}, {2, 0.25, 4}}
  local y = layer(a, b)
  mt.test_close(y, mt.tensor{{0.7, -0.8}, {11.2, 22.825}}, 1e-5)
  y:square():sum():backward()
  mt.test_close(layer.weight.grad, mt.tensor{{{23.8, 2.8, 43.4}, {131.6, 16.8, 271.6}},
    {{44.05, 5.70625, 92.9}, {277.1, 34.2375, 544.6}}}, 1e-3)
  mt.test_close(layer.bias.grad, mt.tensor{23.8, 44.05}, 1e-4)
  mt.test_close(a.grad, mt.tensor{{0.04, 0.04}, {269.86, 397.45375}}, 1e-3)
  eq(#nn.Bilinear(2, 3, 2, {bias = false}):parameters(), 1)
  raises(function() nn.Bilinear(2, 0, 2) end, 'Bilinear: in2_features must be a whole number from 1, got 0')
  raises(function() layer(a) end, "bilinear: argument 2 'input2'")
  raises(function() layer(a, b, a) end, 'Bilinear: too many arguments given, it is called with 2')
end)

test('PixelShuffle: as torch.nn.PixelShuffle(2)', function()
  local x = mt.range(1, 16):float():view(1, 4, 2, 2)
  local shuffle = nn.PixelShuffle(2)
  eq(shuffle(x):tolist(), {{{{1, 5, 2, 6}, {9, 13, 10, 14}, {3, 7, 4, 8}, {11, 15, 12, 16}}}})
  eq({shuffle.upscale_factor, #shuffle:parameters(), tostring(shuffle)}, {2, 0, 'PixelShuffle(2)'})
  raises(function() nn.PixelShuffle() end, "test_nn.lua:%d+: PixelShuffle: argument 1 'upscale_factor' is missing")
  raises(function() nn.PixelShuffle(1.5) end, 'PixelShuffle: upscale_factor must be a whole number, got 1.5')
end)

test('a module that contains itself is printed once', function()
  local net = nn.Sequential(nn.Linear(2, 2))
  net.me = net
  eq(tostring(net):match('me: [^\n]*'), 'me: Sequential (that it is in)')
  eq(#net:parameters(), 2)
  eq(tostring(net):match('me: [^\n]*'), 'me: Sequential (that it is in)') -- once more
end)

t.finish()
