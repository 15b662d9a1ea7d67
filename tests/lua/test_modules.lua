-- test_modules.lua -- methods of modules: containers, names, hooks, freezing, functional calls, summary
local mt = require 'mtorch'
local t = require 'testing'
local nn = mt.nn
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

local function names(net)
  local list = {}
  for name in net:named_parameters() do list[#list + 1] = name end
  return list
end
local function state_names(net)
  local list = {}
  for name in pairs(net:state_dict()) do list[#list + 1] = name end
  table.sort(list)
  return list
end
local function mlp() return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)) end

-- Layers that draw, and forms in place ------------------------------------------------------------

test('dropout in training: shares, scale, whole channels', function()
  mt.manual_seed(1)
  local y = nn.Dropout(0.3)(mt.ones(300, 100))
  near(y:eq(0):float():mean():item(), 0.3, 0.01)
  near(y:max():item(), 1 / 0.7, 1e-6)
  local wide = nn.Dropout2d(0.5)(mt.ones(50, 40, 2, 3))
  near(wide:eq(0):float():mean():item(), 0.5, 0.05)
  assert(mt.equal(wide:amin({3, 4}), wide:amax({3, 4})))
  local x = mt.randn(200, 500)
  local kept = nn.AlphaDropout(0.2)(x)
  near(kept:mean():item(), 0, 0.02)
  near(kept:std():item(), 1, 0.02)
  for _, name in ipairs{'Dropout', 'AlphaDropout'} do assert(mt.equal(nn[name]():eval()(x), x)) end
  raises(function() nn.Dropout(1.5) end, 'Dropout: p must be a number from 0 to 1, got 1.5')
end)

test('RReLU draws a slope for each element in training', function()
  mt.manual_seed(2)
  local x = mt.full({100, 100}, -1):requires_grad_()
  local y = nn.RReLU(0.1, 0.5)(x)
  local slopes = -y:detach()
  assert(slopes:min():item() >= 0.1 and slopes:max():item() <= 0.5 and slopes:max():item() > 0.49)
  near(slopes:mean():item(), 0.3, 0.01)
  y:sum():backward()
  mt.test_close(x.grad, slopes)
  eq(nn.RReLU()(mt.ones(3)):tolist(), {1, 1, 1})
  raises(function() nn.RReLU(0.5, 0.1)(x) end, 'rrelu: slopes from 0.5 to 0.1')
end)

test('inplace changes the input and has its gradient', function()
  for _, code in ipairs{'ReLU(true)', 'ReLU6{inplace = true}', 'ELU(0.5, true)', 'LeakyReLU{inplace = true}',
      'Hardtanh(-1, 1, true)', 'SiLU(true)', 'Threshold(0.1, 2, true)', 'Dropout(0, true)', 'Dropout2d(0, true)'} do
    local make = setfenv(assert(loadstring('return nn.' .. code)), {nn = nn})
    local layer, plain = make(), make()
    plain.inplace = false
    local a, b = mt.linspace(-3, 3, 16):view(2, 2, 2, 2):requires_grad_(), mt.linspace(-3, 3, 16):view(2, 2, 2, 2)
    b:requires_grad_()
    local x = a * 1.5
    local y = layer(x)
    assert(rawequal(x, y) or mt.equal(x, y), code)
    y:square():sum():backward()
    plain(b * 1.5):square():sum():backward()
    assert(mt.equal(a.grad, b.grad), code)
  end
  raises(function() nn.ReLU(true)(mt.ones(2):requires_grad_()) end, 'relu_: ')
end)

test('wrong shapes and options of layers are one sentence', function()
  local x = mt.ones(2, 3)
  for code, message in pairs{
    ['Conv2d(3, 4, {1, 2, 3})'] = 'Conv2d: kernel_size is a number or a list of 2',
    ['Conv2d(3, 4, 0)'] = 'Conv2d: kernel_size is 0, it must be at least 1',
    ['Conv2d(3, 4, 3, {groups = 2})'] = 'Conv2d: in_channels is 3, which 2 groups do not divide',
    ["Conv2d(3, 4, 3, {padding = 'full'})"] = "Conv2d: padding must be 'same', 'valid', a whole number or a list",
    ["Conv1d(3, 4, 3, {padding_mode = 'wrap'})"] = "Conv1d: padding_mode is 'wrap'; use 'zeros', 'reflect'",
    ['Conv2d(3, 4, 3, {strid = 2})'] = "Conv2d: unknown option 'strid' %(did you mean 'stride'%?%)",
    ["Conv1d(2, 2, 3, {padding = 'same', stride = 2})"] = "Conv1d: padding 'same' needs stride 1, the stride is 2",
    ['Embedding(3, 2, {max_norm = 1})(ids)'] = 'embedding: id 4 .*is outside 1%.%.3',
    ['BatchNorm2d(3)(x)'] = 'BatchNorm2d: the input is a tensor %(2 x 3%) float32; expected 4 dimensions',
    ['BatchNorm1d(3)(5)'] = 'BatchNorm1d: the input is 5; expected 2 or 3 dimensions',
    ['BatchNorm1d(4)(x)'] = 'batch_norm: the input %(2 x 3%) has 3 channels, the layer 4',
    ['GroupNorm(2, 3)'] = 'GroupNorm: num_channels is 3, which 2 groups do not divide',
    ['Embedding(3, 2, {padding_idx = 0})'] = 'Embedding: padding_idx is 0, expected 1%.%.3',
    ['Embedding(3, 2)(x)'] = 'embedding: ids must be integers',
    ['Embedding.from_pretrained(x[1])'] = 'from_pretrained: embeddings are %(3%)',
    ['ZeroPad2d{1, 2, 3}(x)'] = 'ZeroPad2d: padding is one number or 4',
    ['ConvTranspose1d(3, 2, 3, {stride = 2})(x, {9})'] = 'ConvTranspose1d: output_size 9 of dimension 2 .* 7%.%.8 are',
    ['Upsample()(x:unsqueeze(1))'] = 'interpolate: give size or scale_factor',
    ['Transformer(2, 1, {custom_encoder = {}})'] = 'Transformer: custom_encoder: a module is needed, got a table',
    ['BatchNorm1d(4, {momentum = true})'] = 'BatchNorm1d: momentum must be a number or false, got true',
    ['InstanceNorm2d(4, {momentum = true})'] = 'InstanceNorm2d: momentum must be a number or false, got true',
    ['MultiheadAttention(4, 2, {kdim = -1})'] = 'MultiheadAttention: kdim must be a whole number from 1, got %-1',
    ['LayerNorm(-1)'] = 'LayerNorm: normalized_shape is {%-1}, expected one or more sizes from 1',
    ['LayerNorm({}, {elementwise_affine = false})'] = 'LayerNorm: normalized_shape is {}',
    ['RMSNorm{3, 0}'] = 'RMSNorm: normalized_shape is {3, 0}',
    ['TransformerEncoderLayer{4, 2, layer_norm_eps = -1}'] =
      'TransformerEncoderLayer: layer_norm_eps must be a number from 0, got %-1',
    ['Embedding(3, 2, {max_norm = -1})'] = 'Embedding: max_norm must be a number from 0, got %-1',
    ['EmbeddingBag(3, 2, {max_norm = 1, norm_type = 0})'] = 'EmbeddingBag: norm_type must be a number above 0, got 0',
    ["Conv2d(1, 1, 1, {padding = -1, padding_mode = 'circular'})"] = 'Conv2d: padding is %-1, it must be at least 0',
    ["Conv2d(1, 1, 1, {padding = {0, -2}, padding_mode = 'reflect'})"] = 'Conv2d: padding is %-2',
    ['Conv2d(1, 1, 1, {dilation = {}})'] = 'Conv2d: dilation is a number or a list of 2, got a table',
    ['ConvTranspose2d(1, 1, 1, 0)'] = 'ConvTranspose2d: stride is 0, it must be at least 1',
    ['ConvTranspose2d(1, 1, 1, {output_padding = -1})'] = 'ConvTranspose2d: output_padding is %-1',
    ['AvgPool2d(2, {divisor_override = 1.5})'] = 'AvgPool2d: divisor_override must be a whole number, got 1.5',
    ['Softmax()'] = "Softmax: argument 1 'dim' is missing",
    ['LayerNorm(4)(x)'] = 'layer_norm: normalized_shape is %(4%)',
  } do
    local env = {nn = nn, x = code:find '^ConvT' and mt.ones(3, 3) or x, ids = mt.tensor({4}, 'int64')}
    local run = setfenv(assert(loadstring('return nn.' .. code)), env)
    raises(run, message)
  end
end)

test('EmbeddingBag divides the gradient of a row by the number of its ids', function()
  local ids, offsets = mt.tensor({2, 1, 2, 3, 2, 3}, 'int64'), mt.tensor({1, 4}, 'int64')
  for mode, first in pairs{sum = 1, mean = 1 / 3} do
    for _, sparse in ipairs{false, true} do
      local options = {mode = mode, scale_grad_by_freq = true, sparse = sparse}
      local bag, plain = nn.EmbeddingBag(4, 1, options), nn.EmbeddingBag(4, 1, {mode = mode})
      plain.weight = bag.weight
      assert(mt.equal(bag(ids, offsets), plain(ids, offsets)))
      bag(ids, offsets):sum():backward()
      local optimizer = mt.optim.SGD(bag:parameters(), {lr = 1})
      local before = bag.weight:detach():clone()
      optimizer:step()
      near((before - bag.weight:detach()):flatten():tolist(), {first, first, first, 0}, 1e-6)
    end
  end
  raises(function() nn.EmbeddingBag(4, 1, {mode = 'max', scale_grad_by_freq = true}) end,
    "EmbeddingBag: scale_grad_by_freq is for the modes 'mean' and 'sum', not 'max'")
end)

test('Embedding.from_pretrained', function()
  local table_ = mt.rand(4, 2)
  local frozen = nn.Embedding.from_pretrained(table_, {padding_idx = 2})
  eq({frozen.weight.requires_grad, frozen.padding_idx, frozen.num_embeddings, frozen.embedding_dim}, {false, 2, 4, 2})
  eq(frozen(mt.tensor({3}, 'int64')):tolist(), {table_[3]:tolist()})
  local trained = nn.EmbeddingBag.from_pretrained(table_, false, {mode = 'sum'})
  eq({trained.weight.requires_grad, trained.mode}, {true, 'sum'})
end)

-- Containers --------------------------------------------------------------------------------------

test('lists of modules grow and shrink', function()
  local a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
  local list = nn.ModuleList{a}:extend{b, c}:insert(2, nn.Linear(1, 1))
  eq({#list, rawequal(list[3], b), names(list)}, {4, true, {'1.weight', '1.bias'}})
  assert(rawequal(list:pop(3), b) and rawequal(list[3], c) and rawequal(list:pop(), c))
  eq({#list, #list:children()}, {2, 2})
  raises(function() list:insert(5, a) end, 'insert: the position is 5, expected 1..3')
  raises(function() list:extend{a, 3} end, 'extend: entry 2 must be a module, got 3')
end)

test('lists take what table.insert and table.remove do, and refuse gaps and other entries', function()
  local list = nn.ModuleList{nn.Linear(1, 1)}
  table.insert(list, 1, nn.Linear(2, 1, false))
  eq(names(list), {'0.weight', '1.weight', '1.bias'})
  eq({table.remove(list).in_features, #list:parameters(), state_names(list)}, {1, 1, {'0.weight'}})
  local parameters = nn.ParameterList{}
  table.insert(parameters, mt.ones(2))
  eq({names(parameters), parameters[1].requires_grad}, {{'0'}, true})
  for at = 1, 2 do
    local net = mlp()
    net[at] = nil
    local gap = ('Sequential: entry %d is nil, but entry %d exists; pop%%(%d%%)'):format(at, at + 1, at)
    raises(function() net(mt.ones(1, 2)) end, gap)
    raises(function() net:state_dict() end, gap)
    raises(function() mlp()[at - 4] = nil end, ('Sequential: nil at position %d of 3 .*pop%%(%d%%)'):format(at, at))
  end
  local net = mlp()
  net[3] = nil
  eq(net(mt.ones(1, 2)).shape, {1, 3})
  raises(function() net[3] = 3 end, 'Sequential: entry 3 must be a module, got 3')
  raises(function() net[3] = mt.ones(1) end, 'Sequential: entry 3 must be a module, got a tensor')
  raises(function() parameters[2] = 3 end, 'ParameterList: entry 2 must be a tensor, got 3')
  net[1], parameters[1] = 3, 3
  raises(function() net(mt.ones(1, 2)) end, 'Sequential: entry 1 must be a module, got 3')
  raises(function() parameters:parameters() end, 'ParameterList: entry 1 must be a tensor, got 3')
end)

test('ParameterList and ParameterDict', function()
  local list = nn.ParameterList{mt.ones(2), nn.Parameter(mt.zeros(3))}
  eq({#list, names(list), list[1].requires_grad, #list:parameters()}, {2, {'0', '1'}, true, 2})
  list:append(mt.ones(1))
  list[1] = mt.full({2}, 5)
  eq({names(list), list:state_dict()['0']:tolist(), #list:parameters()}, {{'0', '1', '2'}, {5, 5}, 3})
  local copy = list:clone():double()
  eq({#copy, copy[1].dtype, list[1].dtype, copy[2].requires_grad}, {3, 'float64', 'float32', true})
  local n = 0
  for i, p in ipairs(list) do n = n + i * p:numel() end
  eq(n, 2 + 6 + 3)
  local net = nn.class('Net')()
  net.list = list
  list:load_state_dict{['0'] = mt.zeros(2), ['1'] = mt.ones(3), ['2'] = mt.ones(1)}
  eq({names(net), net.list[1]:tolist()}, {{'list.0', 'list.1', 'list.2'}, {0, 0}})
  raises(function() nn.ParameterList{1} end, 'ParameterList: entry 1 must be a tensor, got 1')
  local dict = nn.ParameterDict{w = mt.ones(2), b = mt.zeros(1)}
  eq({dict:keys(), names(dict), dict.w.requires_grad}, {{'b', 'w'}, {'b', 'w'}, true})
  dict:update{c = mt.ones(3)}
  eq({dict:size(), dict:has 'c', dict:pop('c'):numel(), dict:has 'c'}, {3, true, 3, false})
end)

test('ModuleDict', function()
  local dict = nn.ModuleDict{{'second', nn.ReLU()}, {'first', nn.Linear(1, 2)}}
  eq({dict:keys(), names(dict)}, {{'second', 'first'}, {'first.weight', 'first.bias'}})
  eq(nn.ModuleDict{b = nn.ReLU(), a = nn.ReLU()}:keys(), {'a', 'b'})
  dict.third = nn.Tanh()
  local seen = {}
  for name, module in dict:items() do seen[#seen + 1] = name .. ' ' .. module.__name end
  eq(seen, {'second ReLU', 'first Linear', 'third Tanh'})
  eq(#dict:values(), 3)
  raises(function() nn.ModuleDict{forward = nn.ReLU()} end, "ModuleDict: 'forward' is a name of ModuleDict's own")
  raises(function() nn.ModuleDict{keys = nn.ReLU()} end, "'keys' is a name of ModuleDict's own")
  raises(function() nn.ModuleDict{['a.b'] = nn.ReLU()} end, "'a.b' is not a field name")
  raises(function() nn.ModuleDict{a = 5} end, "ModuleDict: 'a' must be a module, got 5")
  raises(function() nn.ModuleDict{nn.ReLU()} end, "entry 1 must be {'name', module}, got ReLU")
  raises(function() dict:pop 'x' end, "pop: ModuleDict has no entry 'x'")
end)

-- Names -------------------------------------------------------------------------------------------

test('a buffer that is registered as nil is a buffer when a tensor is assigned', function()
  local net = nn.class('Net')()
  net:register_buffer 'cache'
  net:register_buffer('scratch', nil, false)
  eq({#net:buffers(), net.cache}, {0, nil})
  net.cache, net.scratch = mt.ones(2), mt.zeros(1)
  eq(state_names(net), {'cache'})
  eq({#net:buffers(), net:clone():double().cache.dtype, net.scratch.dtype}, {2, 'float64', 'float32'})
  raises(function() net.cache = 5 end, 'Net.cache is a buffer: assign a tensor')
  local copy = nn.class('Net')()
  copy:register_buffer 'cache'
  copy = copy:clone()
  copy.cache = mt.zeros(2)
  copy:load_state_dict(net:state_dict())
  eq(copy.cache:tolist(), {1, 1})
end)

test('fields by name', function()
  local net = nn.class('Net')()
  net:register_buffer('seen', mt.zeros(2))
  net:register_buffer('scratch', mt.ones(1), false)
  net:register_parameter('w', mt.ones(2))
  net:register_parameter('none')
  net:add_module('inner', mlp())
  eq(state_names(net), {'inner.0.bias', 'inner.0.weight', 'inner.2.bias', 'inner.2.weight', 'seen', 'w'})
  eq({#net:buffers(), net.scratch:item(), net.none}, {2, 1, nil})
  net.scratch = mt.full({1}, 3)
  eq({#net:clone():buffers(), net:clone():state_dict().scratch, net:double().scratch.dtype}, {2, nil, 'float64'})
  assert(rawequal(net:get_parameter 'inner.2.bias', net.inner[3].bias))
  assert(rawequal(net:get_submodule 'inner.0', net.inner[1]) and rawequal(net:get_submodule '', net))
  assert(rawequal(net:get_buffer 'seen', net.seen))
  raises(function() net:get_parameter 'inner.2.bais' end, "Net has no parameter 'inner.2.bais' %(did you mean " ..
    "'inner.2.bias'")
  raises(function() net:get_buffer 'w' end, "Net has no buffer 'w'")
  raises(function() net:register_buffer('a.b', mt.ones(1)) end, "'a.b' is not a field name")
  raises(function() net:register_buffer('train', mt.ones(1)) end, "'train' is a name of Net's own")
  local layer = nn.Linear(2, 3)
  raises(function() layer:register_buffer('weight', mt.ones(1)) end, 'Linear.weight exists and is not a buffer')
  raises(function() layer:add_module('bias', nn.ReLU()) end, 'Linear.bias exists and is not a module')
  layer:register_parameter('weight', mt.ones(3, 2))
  assert(#layer:parameters() == 2)
  raises(function() net['a.b'] = nn.Parameter(mt.ones(1)) end, "Net: 'a.b' is not a field name")
  raises(function() net[''] = nn.ReLU() end, "Net: '' is not a field name")
  for _, value in ipairs{nn.Parameter(mt.ones(1)), nn.Buffer(mt.ones(1)), nn.ReLU()} do
    raises(function() net.forward = value end, "Net: 'forward' is a name of Net's own")
  end
  raises(function() net.train = nn.Parameter(mt.ones(1)) end, "Net: 'train' is a name of Net's own")
  raises(function() net:register_parameter('v', 5) end, 'param must be a tensor, got 5')
  raises(function() net:add_module('v', 5) end, 'add_module: a module is needed, got 5')
end)

test('fields may have the names of methods', function()
  local net = nn.class('Net')()
  net.modules, net.children, net.extra = nn.ModuleList{nn.Linear(1, 1)}, nn.ReLU(), nn.Linear(1, 2)
  net:eval()
  net:freeze '^extra'
  eq({net.modules[1].training, net.extra.weight.requires_grad, #net:parameters()}, {false, false, 4})
  assert(tostring(net):find('6 parameters (4 frozen)', 1, true), tostring(net))
  assert(net:summary{print = false}:find('parameters: 6 (2 trainable)', 1, true))
end)

test('freezing by patterns', function()
  local net = mlp()
  assert(rawequal(net:freeze '^0%.', net))
  eq({net[1].weight.requires_grad, net[1].bias.requires_grad, net[3].weight.requires_grad}, {false, false, true})
  assert(tostring(net):find('13 parameters (9 frozen)', 1, true), tostring(net))
  net:unfreeze{'weight$'}:freeze{'^2', '2.bias'}
  eq({net[1].weight.requires_grad, net[1].bias.requires_grad, net[3].weight.requires_grad}, {true, false, false})
  net:freeze()
  for _, p in ipairs(net:parameters()) do eq(p.requires_grad, false) end
  net:unfreeze():freeze{}
  for _, p in ipairs(net:parameters()) do eq(p.requires_grad, true) end
  raises(function() net:freeze 'encoder' end, "freeze: no parameter's name fits 'encoder'; there are 0.weight, " ..
    "0.bias, 2")
  raises(function() net:freeze '[' end, "freeze: '%[' is not a Lua pattern")
end)

-- Hooks -------------------------------------------------------------------------------------------

test('hooks before and after forward', function()
  local net, log = mlp(), {}
  local x = mt.ones(1, 2)
  local plain = net(x)
  local before = net[1]:register_forward_pre_hook(function(_, inputs) return inputs[1] * 2 end)
  local after = net[1]:register_forward_hook(function(module, inputs, output)
    log[#log + 1] = {module.__name, inputs[1]:tolist(), output.shape[2]}
  end)
  mt.test_close(net(x), net[3](mt.relu(mt.linear(x * 2, net[1].weight, net[1].bias))))
  eq(log, {{'Linear', {{2, 2}}, 3}})
  before:remove()
  before:remove()
  assert(mt.equal(net(x), plain))
  local zero = net:register_forward_hook(function(_, _, output) return output * 0 end)
  eq({net(x):item(), #log, net:clone()(x):item()}, {0, 3, 0})
  zero:remove()
  after:remove()
  eq({rawget(net, 'forward'), rawget(net[1], 'forward'), net(x):item() == plain:item()}, {nil, nil, true})
  local Two = nn.class 'Two'
  function Two:forward(a, b) return b, a end
  local two = Two()
  local got
  two:register_forward_hook(function(_, inputs, output) got = {#inputs, output.n, output[2]:item()} end)
  local h = two:register_forward_hook(function(_, _, output) return {output[2], output[1]} end)
  local a = two(mt.tensor(1), mt.tensor(2))
  eq({got, a:item()}, {{2, 2, 1}, 1})
  h:remove()
  eq(two(mt.tensor(1), mt.tensor(2)):item(), 2)
  raises(function() net:register_forward_hook(5) end, 'fn must be a function, got 5')
end)

test('a hook that removes or registers hooks changes the next call', function()
  local net = nn.Identity()
  for _, register in ipairs{net.register_forward_hook, net.register_forward_pre_hook} do
    local calls, first = '', nil
    first = register(net, function()
      calls = calls .. 'a'
      first:remove()
      register(net, function() calls = calls .. 'c' end)
    end)
    register(net, function() calls = calls .. 'b' end)
    net(mt.ones(1))
    eq(calls, 'ab')
    net(mt.ones(1))
    eq(calls, 'abbc')
  end
end)

-- Other parameters --------------------------------------------------------------------------------

test('functional_call', function()
  local net = mlp()
  local x, w = mt.rand(4, 2), mt.rand(3, 2):requires_grad_()
  local original = net[1].weight
  local y = nn.functional_call(net, {['0.weight'] = w}, x)
  mt.test_close(y, net[3](mt.relu(mt.linear(x, w, net[1].bias))))
  y:sum():backward()
  assert(w.grad and net[1].bias.grad and not original.grad and rawequal(net[1].weight, original))
  local tied = nn.Sequential(nn.Linear(2, 2, false), nn.Linear(2, 2, false))
  tied[2].weight = tied[1].weight
  mt.test_close(nn.functional_call(tied, {['0.weight'] = mt.eye(2)}, x), x)
  local list = nn.class('Net')()
  list.p = nn.ParameterList{mt.ones(1)}
  function list.forward(self) return self.p[1] end
  eq({nn.functional_call(list, {['p.0'] = mt.tensor{7}}):item(), list():item()}, {7, 1})
  local norm = nn.BatchNorm1d(2)
  nn.functional_call(norm, {running_mean = mt.ones(2)}, x)
  eq(norm.running_mean:tolist(), {0, 0})
  raises(function() nn.functional_call(net, {['0.weigth'] = w}, x) end, "no parameter or buffer '0.weigth' %(did " ..
    "you mean")
  raises(function() nn.functional_call(net, {['0.weight'] = x}, x) end, "'0.weight' is %(4, 2%), expected a " ..
    "tensor %(3, 2%)")
  raises(function() nn.functional_call(net, {['0.weight'] = w}, mt.ones(5)) end, 'linear: the input is %(5%)')
  assert(rawequal(net[1].weight, original))
  raises(function() nn.functional_call(5, {}) end, 'functional_call: a module is needed, got 5')
end)

test('vectors of parameters', function()
  local net, other = mlp(), mlp()
  local vec = nn.parameters_to_vector(net:parameters())
  eq(vec.shape, mt.zeros(13).shape)
  nn.vector_to_parameters(vec, other:parameters())
  local x = mt.rand(4, 2)
  assert(mt.equal(net(x), other(x)) and other[1].weight.is_leaf)
  vec:sum():backward()
  eq(net[3].bias.grad:tolist(), {1})
  raises(function() nn.vector_to_parameters(vec[{{1, 5}}], net:parameters()) end, 'the vector is %(5%), .* 13 elements')
end)

-- Gradients ---------------------------------------------------------------------------------------

test('clip_grad_norm_ and clip_grad_value_', function()
  local a, b, c = mt.zeros(3):requires_grad_(), mt.zeros({2}, 'float64'):requires_grad_(), mt.zeros(1):requires_grad_()
  local function set()
    a.grad, b.grad = mt.tensor{1, -2, 4}, mt.tensor({-8, 6}, 'float64')
  end
  set()
  local norm = nn.clip_grad_norm_({a, b, c}, 5.5)
  near(norm:item(), 11, 1e-6)
  mt.test_close(a.grad, mt.tensor{0.5, -1, 2}, 1e-6)
  mt.test_close(b.grad, mt.tensor({-4, 3}, 'float64'), 1e-6)
  eq({c.grad, a.grad.dtype, b.grad.dtype}, {nil, 'float32', 'float64'})
  near(nn.clip_grad_norm_({a, b, c}, 100):item(), 5.5, 1e-5)
  near(a.grad[3]:item(), 2, 1e-6)
  for p, wanted in pairs{[1] = 21, [math.huge] = 8, [3] = (1 + 8 + 64 + 512 + 216) ^ (1 / 3)} do
    set()
    near(nn.clip_grad_norm_({a, b}, 1, p):item(), wanted, 1e-5)
    near(a.grad[1]:item(), 1 / wanted, 1e-5)
  end
  set()
  near(nn.clip_grad_norm_(a, 1):item(), math.sqrt(21), 1e-5)
  nn.clip_grad_value_({a, b, c}, 0.25)
  eq({a.grad[3]:item() <= 0.25, b.grad:tolist()}, {true, {-0.25, 0.25}})
  eq(nn.clip_grad_norm_({c}, 1):item(), 0)
  eq(nn.clip_grad_norm_({}, 1):item(), 0)
  for _, wrong in ipairs{nn.Linear(1, 1), {weight = a}, nn.Linear(1, 1):state_dict()} do
    local message = "argument 1 'parameters' must be a list of tensors, as net:parameters%(%), got "
    raises(function() nn.clip_grad_norm_(wrong, 1) end, message)
    raises(function() nn.clip_grad_value_(wrong, 1) end, message)
  end
  raises(function() mt.grad(a:sum(), nn.Linear(1, 1)) end, 'must be a list of tensors, .+ got the module Linear')
  a.grad = mt.tensor{math.huge, 0, 0}
  raises(function() nn.clip_grad_norm_({a}, 1, {error_if_nonfinite = true}) end, 'the norm of the gradients is inf')
  raises(function() nn.clip_grad_norm_(mlp(), 1) end, 'parameters must be a tensor or a list of tensors')
  for _, wrong in ipairs{-1, 0 / 0} do
    raises(function() nn.clip_grad_norm_({a}, wrong) end, 'max_norm must be a number from 0, got %-?[1n]')
  end
  raises(function() nn.clip_grad_value_({a}, -1) end, 'clip_value must be a number from 0, got %-1')
end)

-- Parametrizations --------------------------------------------------------------------------------

test('weight_norm and spectral_norm', function()
  local l = nn.Linear(3, 2)
  local before, x = l.weight:detach():clone(), mt.rand(4, 3)
  local y = l(x)
  assert(rawequal(nn.weight_norm(l), l))
  eq(names(l), {'bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1'})
  mt.test_close(l(x), y)
  mt.test_close(l.weight, before)
  raises(function() l.weight = mt.ones(2, 3) end, 'Linear.weight is computed from parametrizations.weight')
  raises(function() nn.weight_norm(l) end, 'weight_norm: Linear.weight is computed already')
  local copy = l:clone():double()
  mt.no_grad(function() l.parametrizations.weight.original0:mul_(2) end)
  mt.test_close(l.weight, before * 2)
  mt.test_close(copy(x:double()), y:double(), 1e-6)
  copy:load_state_dict(l:state_dict())
  mt.test_close(copy.weight:float(), before * 2, 1e-6)
  nn.remove_parametrizations(l)
  eq({names(l), l.weight.is_leaf, l.weight.requires_grad, tostring(l)},
    {{'bias', 'weight'}, true, true, 'Linear(3 -> 2)  8 parameters'})
  mt.test_close(l.weight, before * 2)
  raises(function() nn.remove_parametrizations(l) end, "remove_parametrizations: Linear has no computed 'weight'")
  raises(function() nn.remove_parametrizations(copy, 'weight', false) end, 'two originals')
  raises(function() nn.weight_norm(l, 'wieght') end, "weight_norm: Linear has no parameter 'wieght' of its own")
  raises(function() nn.weight_norm(l, {dim = 3}) end, 'weight_norm: dim is 3, the weight has 2 dimensions')
  local conv = nn.Conv2d(2, 4, 3)
  local kernel = conv.weight:detach():clone()
  nn.spectral_norm(conv)
  eq(state_names(conv), {'bias', 'parametrizations.weight.0._u', 'parametrizations.weight.0._v',
    'parametrizations.weight.original'})
  for _ = 1, 50 do conv(mt.rand(1, 2, 5, 5)) end
  near(mt.linalg.norm(conv.weight:flatten(2), 2):item(), 1, 1e-4)
  conv:eval()
  assert(mt.equal(conv.weight, conv.weight))
  nn.remove_parametrizations(conv, 'weight', false)
  assert(mt.equal(conv.weight:detach(), kernel))
  local net = nn.weight_norm(nn.Linear(2, 1))
  local opt = mt.optim.SGD(net:parameters(), {lr = 0.1})
  local input, target, first, last = mt.rand(16, 2), mt.rand(16, 1), nil, nil
  for _ = 1, 30 do
    local loss = mt.mse_loss(net(input), target)
    opt:zero_grad()
    loss:backward()
    opt:step()
    first, last = first or loss:item(), loss:item()
  end
  assert(last < first)
end)

-- Summary -----------------------------------------------------------------------------------------

test('summary', function()
  local net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
  local text, f = net:summary{2, 1, 8, 8, print = false}
  for _, piece in ipairs{'Conv2d(1 -> 4, kernel 3)  (2, 1, 8, 8)  (2, 4, 6, 6)', '[5]: Linear(144 -> 10)',
      'parameters: 1,498 (1,498 trainable)', 'multiply-adds: 5,760'} do
    assert(text:find(piece, 1, true), piece .. ' is missing in ' .. text)
  end
  eq({f.parameters, f.macs, f.input_bytes, f.parameter_bytes, f.activation_bytes}, {1498, 2 * 36 * 4 * 9 + 2 * 144 +
    2 * 1440, 512, 1498 * 4 + 2 * 4 * 4 + 8, 4 * (4 * 2 * 144 + 20)})
  eq({net.training, net[2].training, rawget(net, 'forward'), net[2].num_batches_tracked:item()}, {true, true, nil, 0})
  local _, g = net:freeze('^0'):summary{mt.rand(1, 1, 8, 8), print = false}
  eq({g.trainable, g.macs}, {1458, f.macs / 2})
  local _, ids = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)):summary{3, 5, dtype = 'int64', print = false}
  eq({ids.macs, ids.input_bytes}, {15 * 8, 120})
  eq(select(2, nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 2)):summary{3, 5, print = false}), ids)
  eq(select(2, net:summary{1, 8, 8, print = false}).macs, f.macs / 2)
  local function macs(module, ...) return select(2, module:summary{print = false, ...}).macs end
  local spectral, plain = nn.spectral_norm(nn.Conv2d(2, 3, 3)), nn.Conv2d(2, 3, 3)
  eq(macs(spectral, 1, 2, 5, 5), macs(plain, 1, 2, 5, 5))
  eq(macs(nn.weight_norm(nn.LSTM(3, 4), 'weight_hh_l0'), 5, 1, 3), macs(nn.LSTM(3, 4), 5, 1, 3))
  eq({macs(nn.weight_norm(nn.Linear(3, 2)), 4, 3), macs(nn.quantize(nn.Linear(3, 2)), 4, 3)}, {24, 24})
  local _, up = nn.ConvTranspose2d(2, 3, 2, {stride = 2}):summary{{1, 2, 4, 4}, print = false}
  eq(up.macs, 16 * 24)
  local _, two = nn.Bilinear(3, 4, 2):summary{{5, 3}, {5, 4}, print = false}
  eq(two.macs, 5 * 24)
  local _, lstm = nn.LSTM(3, 4, {num_layers = 2, bidirectional = true}):summary{5, 2, 3, print = false}
  eq(lstm.macs, 10 * 2 * (16 * 3 + 16 * 4 + 16 * 8 + 16 * 4))
  local _, mha = nn.MultiheadAttention(4, 2):summary{mt.rand(5, 3, 4), mt.rand(6, 3, 4), print = false}
  eq(mha.macs, 15 * 32 + 18 * 32 + 2 * 3 * 5 * 6 * 4)
  local l = nn.Linear(2, 2)
  local again = nn.Sequential(l, l):summary{1, 2, print = false}
  assert(again:find('(again)', 1, true) and again:find('multiply-adds: 8', 1, true), again)
  assert(not net:summary{1, 1, 8, 8, depth = 1, print = false}:find 'Conv2d')
  assert(net:summary{print = false}:find('parameters: 1,498 (1,458 trainable)', 1, true))
  raises(function() net:summary{1, 8} end,
    'summary: the network refuses an input of %(1, 8%): %(in Sequential%[1%]%) conv2d')
  eq(rawget(net[1], 'forward'), nil)
  raises(function() net:summary{1, 8, dept = 2} end, "summary: unknown option 'dept': did you mean 'depth'")
  raises(function() net:summary('x') end, "summary: inputs are sizes or tensors.*the string 'x'")
  raises(function() net:summary{1, -8} end, 'summary: .*%-8')
end)

test('print shows what was chosen', function()
  local text = tostring(nn.Sequential(nn.MaxPool2d(3, 2, {ceil_mode = true}), nn.Dropout(0.2), nn.Dropout(),
    nn.Softmax(2),
    nn.Conv1d(2, 4, 3, {padding = 'same', groups = 2, bias = false}), nn.Upsample{scale_factor = 2}))
  for _, piece in ipairs{'MaxPool2d(3, stride=2, ceil_mode=true)', 'Dropout(0.2)', '[3]: Dropout\n', 'Softmax(2)',
      'Conv1d(2 -> 4, kernel 3, padding same, groups 2, no bias)  12 parameters', 'Upsample(scale_factor=2)'} do
    assert(text:find(piece, 1, true), piece .. ' is missing in ' .. text)
  end
  for piece, module in pairs{['BatchNorm1d(3, eps 0.01, momentum false)'] = nn.BatchNorm1d(3, 0.01, false),
      ['InstanceNorm2d(3, momentum 0.4)'] = nn.InstanceNorm2d(3, {momentum = 0.4}),
      ['Embedding(5 -> 2, padding_idx 1, max_norm 0.5)'] = nn.Embedding(5, 2, {padding_idx = 1, max_norm = 0.5}),
      ['EmbeddingBag(5 -> 2, mode sum)'] = nn.EmbeddingBag(5, 2, {mode = 'sum'}),
      ['RNN(2 -> 3, nonlinearity relu)'] = nn.RNN(2, 3, {nonlinearity = 'relu'}),
      ['AvgPool1d(2, stride=1, ceil_mode=true)'] = nn.AvgPool1d(2, 1, 0, true),
      ['GroupNorm(2, 4, eps=0.1)'] = nn.GroupNorm(2, 4, 0.1)} do
    assert(tostring(module):find(piece, 1, true), piece .. ' is missing in ' .. tostring(module))
  end
end)

test('what a call takes beside the input may be given by name', function()
  local up, x = nn.ConvTranspose2d(4, 6, 3, {stride = 2}), mt.ones(1, 4, 5, 6)
  eq(up(x, {output_size = {12, 14}}).shape, {1, 6, 12, 14})
  eq(up(x, {12, 14}).shape, {1, 6, 12, 14})
  raises(function() up(x, {output_siz = {12, 14}}) end, "ConvTranspose2d: unknown option 'output_siz' %(did you mean")
  local bag, ids = nn.EmbeddingBag(5, 2, {mode = 'sum'}), mt.tensor({1, 2, 3}, {dtype = 'int64'})
  local offsets = mt.tensor({1, 2}, {dtype = 'int64'})
  mt.test_close(bag(ids, {offsets = offsets}), bag(ids, offsets))
  local weights = mt.tensor{{1, 2, 3}}
  mt.test_close(bag(ids:view(1, 3), {per_sample_weights = weights}), bag(ids:view(1, 3), nil, weights))
end)

test('a given table is the weight of an embedding', function()
  eq(state_names(nn.Embedding.from_pretrained(mt.ones(3, 2))), {'weight'})
  eq(state_names(nn.EmbeddingBag(3, 2, {_weight = mt.ones(3, 2)})), {'weight'})
end)

test('tensors of a call instead of options are errors', function()
  raises(function() nn.MSELoss(mt.ones(2), mt.ones(2)) end, 'MSELoss: argument 1 is a tensor %(2%) float32; ' ..
    'nn.MSELoss%(..%) makes a module of options, nn.MSELoss%(..%)%(x, ..%) calls it')
  local labels = mt.tensor({1, 2}, {dtype = 'int64'})
  raises(function() nn.CrossEntropyLoss(mt.ones(2, 3), labels) end, 'CrossEntropyLoss: argument 2 is a tensor')
  eq(nn.CrossEntropyLoss(mt.ones(3)).weight.shape, {3})
  raises(function() nn.CrossEntropyLoss()(labels, mt.ones(2, 3)) end, 'cross_entropy: the logits are %(2%) int64 ' ..
    'and the targets %(2 x 3%) float32: they are in the wrong order')
end)

test('lists count from the end too and refuse a place that would leave a gap', function()
  local net = mlp()
  eq({net[-1] == net[3], net[-3] == net[1], net[-4] == nil, net[4] == nil}, {true, true, true, true})
  net[-1] = nn.Linear(3, 7)
  eq({#net, net:state_dict()['2.weight'].shape[1]}, {3, 7})
  net[4] = nn.Tanh()
  eq(#net, 4)
  raises(function() net[6] = nn.Tanh() end, 'Sequential: position 6 is outside 1..4; append%(..%) adds at the end')
  raises(function() net[-5] = nn.Tanh() end, 'Sequential: position %-5 is outside 1..4')
  raises(function() net[0] = nn.Tanh() end, 'Sequential: 0 is not a position; positions count from 1')
  raises(function() return net[0] end, 'Sequential: 0 is not a position')
  raises(function() nn.ModuleList{nn.ReLU()}[3] = nn.ReLU() end, 'ModuleList: position 3 is outside 1..1')
  raises(function() nn.Sequential(nn.ReLU()).forward(mt.ones(2)) end, 'forward: it is called with a colon')
  local hooked = nn.Sequential(nn.ReLU())
  hooked:register_forward_hook(function() end)
  raises(function() hooked.forward(mt.ones(2)) end, 'test_modules.lua:%d+: forward: it is called with a colon')
  raises(function() nn.MultiheadAttention(4, 2).forward(mt.ones(3, 1, 4)) end, 'forward: it is called with a colon')
  raises(function() nn.TransformerEncoderLayer(4, 2).forward(mt.ones(3, 1, 4)) end,
    'forward: it is called with a colon')
  raises(function() net.insert(1, nn.ReLU()) end, 'insert: methods are called with a colon, net:insert')
  raises(function() nn.ModuleDict{a = nn.ReLU()}.items() end, 'items: methods are called with a colon, net:items')
end)

t.finish()
