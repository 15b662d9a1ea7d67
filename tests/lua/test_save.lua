-- test_save.lua -- mt.save and mt.load: values are restored, and values that cannot be saved are errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn, optim = mt.nn, mt.optim

local path = os.tmpname()
local function back(value)
  mt.save(path, value)
  return mt.load(path)
end

test('plain values come back', function()
  local value = {
    step = 3, rate = 0.1, third = 1 / 3, tiny = 5e-324, big = 1.7976931348623157e308, whole = 2 ^ 53, more = 1e15 + 0.5,
    inf = math.huge, minus = -math.huge, nan = 0 / 0, yes = true, no = false, empty = {}, none = '',
    list = {1, 'two', {3, {4}}, false}, sparse = {[3] = 'c', [10] = 'j', [-1] = 'm', [0] = 'z', [1.5] = 'h'},
    mixed = {1, 2, x = 'y', [true] = 'yes', [math.huge] = 'inf'},
    holes = {1, 2, nil, 4, x = 'y'}, words = {'a', 'b', nil, 'd', [2.5] = 'c'},
    bytes = '\0\1\127\128\255"\\\n\r', ['\255\0'] = 'a key of bytes', ['a.b'] = {['c.d'] = 1}, [''] = 'empty',
    ['$tensor'] = 'x', ['$table'] = {{1, 2}}, text = 'é€😀', [7] = 'seven', ['7'] = 'the string',
  }
  eq(back(value), value)
  eq(1 / back{zero = -0}.zero, -math.huge)
  eq(back{}, {})
  eq(back{1, 2, 3}, {1, 2, 3})
  eq(back{shape = mt.ones(2, 3).shape}, {shape = {2, 3}})
end)

test('tensors come back, under their paths', function()
  local x = mt.randn(3, 4)
  local value = {x = x, a = {mt.range(1, 3), {y = mt.tensor(true)}}, ['a.b'] = mt.ones(2):half(),
    none = mt.zeros(0, 2), view = x:t(), row = x[2], wide = mt.ones(1, 2):expand(3, 2)}
  local got = back(value)
  for _, name in ipairs{'x', 'a.b', 'none', 'view', 'row', 'wide'} do
    eq({got[name].dtype, mt.equal(got[name], value[name]), got[name]:is_contiguous()}, {value[name].dtype, true, true})
  end
  eq({got.a[1]:tolist(), got.a[1].dtype, got.a[2].y:item()}, {{1, 2, 3}, 'int64', true})
  local names = {}
  for name in pairs(mt.data.safetensors(path)) do names[#names + 1] = name end
  table.sort(names)
  eq(names, {'a.1', 'a.2.y', 'a.b', 'none', 'row', 'view', 'wide', 'x'})
  got = back{a = {b = mt.ones(1)}, ['a.b'] = mt.zeros(1), ['\255'] = mt.tensor(5), __metadata__ = mt.tensor(6),
    [''] = mt.tensor(7)}
  eq({got.a.b:item(), got['a.b']:item(), got['\255']:item(), got.__metadata__:item(), got['']:item()}, {1, 0, 5, 6, 7})
end)

test('shared tensors come back shared', function()
  local x = mt.randn(4)
  local got = back{a = x, b = {x, x:detach()}, c = x[{{1, 2}}], d = x:reshape(2, 2)}
  assert(got.a == got.b[1] and got.a ~= got.b[2])
  got.a:fill_(7)
  eq(got.b[2]:tolist(), {7, 7, 7, 7})
  assert(not mt.equal(got.c, got.a[{{1, 2}}]), 'a part is a tensor of its own')
  local net = nn.Linear(3, 3)
  net.tied = nn.Parameter(net.weight)
  local state = back(net:state_dict())
  state.tied:zero_()
  eq(state.weight:sum():item(), 0)
end)

test('gradients and roles come back', function()
  local got = back{p = nn.Parameter(mt.ones(2)), b = nn.Buffer(mt.ones(3)), g = mt.ones(1):requires_grad_(),
    h = mt.ones(1):requires_grad_() * 2}
  eq({got.p.requires_grad, got.b.requires_grad, got.g.requires_grad, got.h.is_leaf}, {true, false, true, true})
  local net = nn.class('Net')()
  net.p, net.b, net.g = got.p, got.b, got.g
  eq({#net:parameters(), #net:buffers()}, {1, 1})
end)

test('networks and optimizers resume from a file', function()
  local function make()
    mt.manual_seed(3)
    local net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    return net, optim.Adam(net:parameters(), {lr = 0.1})
  end
  local x, y = mt.randn(16, 4), mt.randn(16, 1)
  local function train(net, opt, n)
    for _ = 1, n do
      opt:zero_grad()
      mt.mse_loss(net(x), y):backward()
      opt:step()
    end
    return net:state_dict()
  end
  local net, opt = make()
  train(net, opt, 3)
  mt.save(path, {net = net:state_dict(), opt = opt:state_dict()})
  local wanted = train(net, opt, 3)
  local net2, opt2 = make()
  local saved = mt.load(path)
  net2:load_state_dict(saved.net)
  opt2:load_state_dict(saved.opt)
  for name, p in pairs(train(net2, opt2, 3)) do assert(mt.equal(p, wanted[name]), name) end
end)

test('what cannot be saved is named, and the file stays', function()
  mt.save(path, {old = 1})
  local function refused(value, what)
    raises(function() mt.save(path, value) end, '^[^\n]*save: ' .. what .. '[^\n]*$')
    eq(mt.load(path), {old = 1})
  end
  refused({a = {b = {1, print}}}, "'a%.b%.2' is a function")
  refused({f = coroutine.create(print)}, "'f' is a thread")
  refused({g = mt.Generator('philox', 1)}, "'g' is a userdata")
  refused({net = nn.Linear(1, 1)}, "'net' is an object; save what its state_dict%(%) returns")
  refused({opt = optim.SGD({mt.ones(1):requires_grad_()}, {lr = 1})}, "'opt' is an object")
  refused({m = setmetatable({}, {})}, "'m' has a metatable")
  refused({[mt.ones(1)] = 1}, "'the table' has a tensor as a key")
  refused({a = {[{}] = 1}}, "'a' has a table as a key")
  local loop = {x = {}}
  loop.x.y = loop
  refused(loop, "'x%.y' contains itself: it is 'the table'")
  local deep = {}
  local inner = deep
  for _ = 1, 300 do
    inner.d = {}
    inner = inner.d
  end
  refused(deep, ".* is nested deeper than 200 tables")
  raises(function() mt.save({}, path) end, 'save: path must be a string')
  raises(function() mt.save(path, mt.ones(1)) end, 'save: value must be a table')
  raises(function() mt.save('/no/folder/x', {}) end, "save: cannot write '/no/folder/x': there is no folder")
  raises(function() mt.load('/no/folder/x') end, "load: cannot read '/no/folder/x'")
  local shared = {1}
  eq(back{shared, shared}, {{1}, {1}})
end)

test("another program's file is a table by name, damage is a sentence", function()
  mt.data.save_safetensors(path, {['0.weight'] = mt.ones(2)}, {metadata = {format = 'pt'}})
  eq(mt.load(path)['0.weight']:tolist(), {1, 1})
  -- Headers whose size looks like the first bytes of other files.
  for _, size in ipairs{0x80, 0x280, 0x4b50, 0x93, 0x8b1f} do
    local header = '{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    local file = assert(io.open(path, 'wb'))
    file:write(string.char(size % 256, math.floor(size / 256)), ('\0'):rep(6), header, (' '):rep(size - #header),
      '\0\0\0\0')
    file:close()
    eq(mt.load(path).x:tolist(), {0})
  end
  for content, what in pairs{['x,y,label\n1,2'] = 'is not a safetensors file %(of mt.save%), a file of PyTorch',
    [''] = 'is not a safetensors file', ['x,y,lab,{1'] = 'is not a valid .*: its first 8 bytes are not the size'} do
    local file = assert(io.open(path, 'wb'))
    file:write(content)
    file:close()
    raises(function() mt.load(path) end, "load: '.*' " .. what)
  end
  local function damaged(text, what)
    mt.data.save_safetensors(path, {x = mt.ones(1), n = mt.ones(1):long()}, {metadata = {mtorch = text}})
    raises(function() mt.load(path) end, '^[^\n]*load: [^\n]*' .. what .. '[^\n]*$')
  end
  damaged('', 'cannot be read')
  damaged('[]', 'cannot be read')
  damaged('{"version":1,"value":3}', 'cannot be read')
  damaged('{"version":2,"value":{}}', 'version 2')
  damaged('{"version":1,"value":{"a":{"$tensor":"y"}}}', 'names a tensor')
  damaged('{"version":1,"value":{"a":{"$tensor":3}}}', 'names a tensor')
  damaged('{"version":1,"value":{"a":{"$tensor":"n","requires_grad":true}}}', 'gradient of int64')
  damaged('{"version":1,"value":{"a":{"$new":1}}}', 'no known kind')
  damaged('{"version":1,"value":{"a":{"$bytes":"123"}}}', 'no known kind')
  damaged('{"version":1,"value":{"a":{"$table":[[{"$number":"nan"},1]]}}}', 'a key that is none')
  damaged('{"version":1,"value":{"a":{"$table":[[[],1]]}}}', 'a key that is none')
  damaged('{"version":1,"value":{"a":{"$table":[1]}}}', 'without a value')
  damaged('{"version":1,"value":' .. ('['):rep(5000), 'cannot be read')
end)

os.remove(path)
t.finish()
