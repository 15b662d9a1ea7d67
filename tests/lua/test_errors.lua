-- test_errors.lua -- the lines, positions and texts of errors that test_wrong_calls.lua cannot show
local mt = require 'mtorch'
local t = require 'testing'
local memory = require('mtorch.core').memory
local eq, raises = t.eq, t.raises

local here = debug.getinfo(1, 'S').short_src

-- It changes its arguments before it fails.
t.test('backward twice', function()
  local x = mt.ones(2, {requires_grad = true})
  local y = (x * x):sum()
  y:backward()
  raises(function() y:backward() end,
    '^[^\n]*: backward: the graph behind .* was freed [^\n]*retain_graph=true[^\n]*$')
  eq(x.grad:tolist(), {2, 2})
end)

t.test('a size that memory cannot hold', t.on_cpu(function()
  collectgarbage()
  collectgarbage()
  local live = memory()
  raises(function() mt.empty(2 ^ 44) end,
    'out of memory: 65536.00 GiB requested on cpu, .* live')
  collectgarbage()
  eq(memory(), live)
  eq(mt.ones(3):sum():item(), 3)
end))

-- Rule 11: lines ----------------------------------------------------------------------------------

local function line_of(level) return debug.getinfo(level or 2, 'l').currentline end
local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert(not ok, 'no error')
  return message
end

local function inner(x) return x:view(7) end
local function outer(x) return inner(x) end
local line_inner = debug.getinfo(inner, 'S').linedefined

t.test('a tail call has lost its line: the next one up the stack is named', function()
  local x, here_line = mt.zeros(3), nil
  local message = message_of(function()
    here_line = line_of() + 1
    local y = outer(x)
    return y
  end)
  eq(message:match('^(.-): '), here .. ':' .. here_line)
end)

t.test('parentheses keep it', function()
  local function kept(x) return (x:view(7)) end
  local message = message_of(function() local y = kept(mt.zeros(3)) return y end)
  eq(message:match('^(.-): '), here .. ':' .. debug.getinfo(kept, 'S').linedefined)
  message = message_of(function() local y = inner(mt.zeros(3)) return y end)
  assert(not message:find(':' .. line_inner .. ':'), message)
end)

t.test('other frames: coroutines, metamethods, callbacks, loaded code', function()
  local x = mt.zeros(3)
  local co = coroutine.create(function()
    local y = x:view(7)
    return y
  end)
  local _, message = coroutine.resume(co)
  assert(message:find('^' .. here:gsub('%W', '%%%0') .. ':%d+: view: '), message)
  local line
  message = message_of(function() mt.no_grad(function()
    line = line_of() + 1
    local _ = x + mt.zeros(4)
  end) end)
  eq(message:match('^(.-): '), here .. ':' .. line)
  local code = assert(loadstring('local x = ...\n\nlocal y = x:view(7)', '=piece.lua'))
  eq(message_of(code, x):match('^(.-): '), 'piece.lua:3')
  local object = setmetatable({}, {__index = function(_, key)
    line = line_of() + 1
    local y = x:view(key)
    return y
  end})
  eq(message_of(function() return object[7] end):match('^(.-): '), here .. ':' .. line)
  message = message_of(function()
    table.sort({2, 1}, function(a, b)
      line = line_of() + 1
      local _ = x:view(7)
      return a < b
    end)
  end)
  eq(message:match('^(.-): '), here .. ':' .. line)
end)

t.test('an error of the Lua library names the user\'s line, not the library\'s', function()
  local line
  local message = message_of(function()
    line = line_of() + 1
    mt.args{3}
  end)
  eq(message:match('^(.-): '), here .. ':' .. line)
end)

t.test('errors are strings that pcall, error and xpcall hand on', function()
  local ok, message = xpcall(function() mt.zeros(2):view(7) end,
    function(m) return 'handled ' .. m end)
  assert(not ok and message:find('^handled .*view'), message)
  local again = message_of(function() error(message, 0) end)
  eq(again, message)
end)

t.test('deep recursion of Lua is an error, not a crash', function()
  local function deep(n) return 1 + deep(n) end
  raises(function() deep(1) end, 'stack overflow')
  raises(function() mt.no_grad(deep, 1) end, 'stack overflow')
  local function nested(n) return mt.no_grad(nested, n) + 1 end
  raises(function() nested(1) end, 'overflow')
  eq(mt.is_grad_enabled(), true)
  eq(mt.ones(2):sum():item(), 2)
end)

t.test('what scripts can do to the userdata', function()
  local x = mt.ones(2)
  eq(getmetatable(x), false)
  raises(function() setmetatable(x, {}) end, 'setmetatable')
  local meta = debug.getmetatable(x)
  local fake = newproxy(true)
  debug.setmetatable(fake, {})
  raises(function() mt.relu(fake) end, 'relu: .*a userdata')
  raises(function() meta.__len(fake) end, '.')
  raises(function() meta.__index(fake, 1) end, '.')
  raises(function() meta.__newindex(fake, 1, 1) end, '.')
  eq(type(meta.__tostring(fake)), 'string')
  meta.__gc(fake)
  raises(function() meta.__add(fake, fake) end, 'add')
  local y = mt.ones(3)
  meta.__gc(y)
  raises(function() y:sum() end, '.')
  raises(function() local _ = y[1] end, '.')
  raises(function() local _ = y.shape end, '.')
  raises(function() local _ = y + 1 end, '.')
  raises(function() local _ = #y end, '.')
  meta.__gc(y)
  pcall(tostring, y)
  eq(mt.ones(2):sum():item(), 2)
end)

t.test('the handle of a hook, collected again and again', function()
  local w, calls = mt.ones(2):requires_grad_(), 0
  for _ = 1, 100 do
    local h = w:register_hook(function() calls = calls + 1 end)
    local gc = debug.getmetatable(h).__gc
    gc(h)
    gc(h)
    h:remove() -- of nothing
    gc(h)
    gc(newproxy()) -- another userdata
  end
  w:sum():backward()
  eq(calls, 100)
end)

-- Modules (rule 11) -------------------------------------------------------------------------------

local nn = mt.nn
local Net = nn.class 'Net'
function Net.__init(self) self.weight = nn.Parameter(mt.ones(3, 2)) end
function Net.forward(self, x) return x:matmul(self.weight) end
local forward_line = debug.getinfo(Net.forward, 'S').linedefined

t.test('a module whose forward ends in a tail call adds its name', function()
  local net, line = Net(), nil
  local message = message_of(function()
    line = line_of() + 1
    local y = net(mt.ones(4, 5))
    return y
  end)
  eq(message, ('%s:%d: (in Net.forward, %s:%d) matmul: inner sizes differ: (4 x 5) and (3 x 2)'):format(
    here, line, here, forward_line))
end)

t.test('an error in a longer forward has the range of its lines', function()
  local Long = nn.class 'Long'
  function Long:__init() self.inner = Net() end
  function Long:forward(x)
    x = x * 2
    return self.inner(x)
  end
  local net = Long()
  local message = message_of(function()
    local y = net(mt.ones(4, 5))
    return y
  end)
  eq(message:match('%b()'), ('(in Net.forward, %s:%d)'):format(here, forward_line))
  function Long:forward(x)
    x = x * 2
    return x:matmul(x)
  end
  local info = debug.getinfo(Long.forward, 'S')
  message = message_of(function()
    local y = net(mt.ones(4, 5))
    return y
  end)
  eq(message:match('%b()'), ('(in Long.forward, %s:%d-%d)'):format(here, info.linedefined, info.lastlinedefined))
end)

t.test('an error in a forward without a tail call has its line', function()
  local Other, line = nn.class 'Other', nil
  function Other.forward(_, x)
    line = line_of() + 1
    local y = x:view(7)
    return y
  end
  local message = message_of(function()
    local y = Other()(mt.ones(3))
    return y
  end)
  eq(message, ('%s:%d: view: (3) has 3 elements, (7) cannot hold exactly these'):format(here, line))
end)

t.test('the library\'s own modules: the user\'s line', function()
  local net, line = nn.Sequential{nn.Linear(4, 3), nn.ReLU()}, nil
  local message = message_of(function()
    line = line_of() + 1
    local y = net(mt.ones(2, 5))
    return y
  end)
  eq(message:match('^(.-): '), here .. ':' .. line)
  assert(message:find('linear: the input is (2 x 5), the weight (3 x 4)', 1, true), message)
end)

t.test('very long values are cut in the message, and looked up fast', function()
  local long, began = ('x'):rep(2e5), os.clock()
  for _, fn in ipairs{function() return mt[long] end, function() mt.help(long) end,
      function() mt.ones{2, [long] = 1} end, function() return mt.ones(1)[long] end,
      function() mt.einsum(long, mt.ones(1)) end,
      function() mt.plot.line{{1, 2}, path = long .. '.svg'} end, function() mt.plot.line{{1, 2}, [long] = 1} end,
      function() return mt.nn.Linear(1, 1)[long] end} do
    local ok, message = pcall(fn)
    if ok ~= nil and not ok then
      t.eq(#message < 2000, true)
      t.eq(message:find('%d+ bytes') ~= nil, true)
    end
  end
  t.eq(os.clock() - began < 5, true)
  local _, message = pcall(function() mt.ones{2, [('\195\169'):rep(3000)] = 1} end)
  t.eq(message:gsub('\195\169', ''):find('[\128-\255]'), nil) -- no character is cut in two
  _, message = pcall(mt.zeros, ('\195\169'):rep(30))
  t.eq(message:gsub('\195\169', ''):find('[\128-\255]'), nil)
end)

t.test('a dot for a colon, a module for its parameters, a base that was not called: the cure', function()
  local x = mt.ones(1):requires_grad_()
  local hook, net = (x * 2):register_hook(print), nn.Linear(2, 1)
  local opt = mt.optim.SGD(net:parameters())
  local Bare = nn.class('Bare', nn.Linear)
  function Bare:__init() end
  for _, case in ipairs{
    {function() hook.remove(x) end, 'remove: no hook is given; methods are called with a colon, h:remove()'},
    {function() nn.Linear.forward() end, 'forward: it is called with a colon, net:forward(x), or as net(x)'},
    {function() net.forward(x) end, 'forward: it is called with a colon, net:forward(x), or as net(x)'},
    {function() return (mt:zeros(3)) end, 'zeros: functions are called with a dot, mt.zeros(..)'},
    {function() return (mt.nn:Linear(2, 3)) end, 'Linear: functions are called with a dot, mt.nn.Linear(..)'},
    {function() return (mt.optim:SGD(net:parameters(), {lr = 1})) end,
      'SGD: functions are called with a dot, mt.optim.SGD(..)'},
    {function() return (mt.optim:SGD(net:parameters())) end, 'SGD: functions are called with a dot, mt.optim.SGD(..)'},
    {function() return (mt.optim.lr:StepLR(opt, 3)) end,
      'StepLR: functions are called with a dot, mt.optim.lr.StepLR(..)'},
    {function() return (mt.data:DataLoader({})) end,
      'DataLoader: functions are called with a dot, mt.data.DataLoader(..)'},
    {function() net.describe() end, 'describe: methods are called with a colon, net:describe(..)'},
    {function() opt.step() end, 'step: methods are called with a colon, opt:step(..)'},
    {function() opt.zero_grad() end, 'zero_grad: methods are called with a colon, opt:zero_grad(..)'},
    {function() mt.optim.Adam(net) end, 'Adam: a list of parameters is needed, got a module; pass net:parameters()'},
    {function() mt.optim.Adam(nn.Sequential(net)) end, 'got a module; pass net:parameters()'},
    {function() mt.args({a = 1}, 3) end, 'args: a list of words is needed, got 3'},
  } do
    local message = message_of(case[1])
    eq(message:find(here:gsub('%W', '%%%0') .. ':%d+: ') ~= nil, true)
    eq(message:sub(-#case[2]), case[2])
  end
  eq(tostring(Bare()), 'Bare (its __init has not called the __init of its base)')
  eq(tostring(nn.class('Ids', nn.Embedding)(3, 4)), 'Ids(3 -> 4)  12 parameters')
  local global = arg
  arg = 3
  local ok, values = pcall(mt.args, {a = 1})
  arg = global
  eq({ok, ok and values.a}, {true, 1})
end)

t.test('of several wrong keys always the same one is reported', function()
  local x = mt.ones(2, 2)
  --- A table with these keys, whose order another size of the table changes.
  local function with(n, keys)
    local t = {}
    for i = 1, n do t['k' .. i] = true end
    for i = 1, n do t['k' .. i] = nil end
    for _, key in ipairs(keys) do t[key] = 1 end
    return t
  end
  for n = 0, 70, 5 do
    local keys = n % 2 == 0 and {'zeta', 'alpha', 'mid'} or {'mid', 'alpha', 'zeta'}
    raises(function() mt.sum(x, with(n, keys)) end, "sum: unknown option 'alpha'")
    raises(function() mt.Report(with(n, keys)) end, "Report: unknown option 'alpha'")
    raises(function() return x[with(n, keys)] end, "index: the table has the key the string 'alpha'")
  end
end)

t.finish()
