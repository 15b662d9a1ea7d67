-- test_signature.lua -- types, ranges and defaults in signatures: errors, help and stubs
local mt = require 'mtorch'
local core = require 'mtorch.core'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises

local function packed(...) return {n = select('#', ...), ...} end
local f = core.declare("Layer(n: int >= 1, p: number >= 0 <= 1 = 0.5, bias: bool = true, lr: finite >= 0 = 0.1, " ..
  "how: 'mean'|'sum' = 'sum', w: tensor|number = nil, list: numbers = {0.9, 0.99}, rate: number > 0 < 1 = 0.5)",
  'A layer.', packed)

test('omitted arguments have their defaults, by position and by name', function()
  local got = f(3)
  eq({unpack(got, 1, 5)}, {3, 0.5, true, 0.1, 'sum'})
  eq({got[6] == nil, got[7], got[8]}, {true, {0.9, 0.99}, 0.5})
  got = f{4, how = 'mean', bias = false}
  eq({got[1], got[3], got[5]}, {4, false, 'mean'})
  eq(f(1, nil, nil, nil, nil, 2)[6], 2)
end)

test('values of other types and beyond the range are refused at this line, by name', function()
  local here = 'test_signature.lua:%d+: Layer: '
  for _, case in ipairs{
    {{1.5}, 'n must be a whole number from 1, got 1.5'}, {{0}, 'n must be a whole number from 1, got 0'},
    {{'x'}, "n must be a whole number from 1, got the string 'x'"},
    {{1, 2}, 'p must be a number from 0 to 1, got 2'}, {{1, 0 / 0}, 'p must be a number from 0 to 1, got nan'},
    {{1, 1, 1}, 'bias must be true or false, got 1'},
    {{1, 1, true, 1 / 0}, 'lr must be a finite number from 0, got inf'},
    {{1, 1, true, 1, 'max'}, "how is 'max'; use 'mean' or 'sum'"},
    {{1, 1, true, 1, 3}, "how must be 'mean' or 'sum', got 3"},
    {{1, 1, true, 1, 'sum', 'w'}, "w must be a number or a tensor, got the string 'w'"},
    {{1, 1, true, 1, 'sum', 1, {'a'}}, 'list must be a list of numbers, got a table'},
    {{1, 1, true, 1, 'sum', 1, {1}, 1}, 'rate must be a number above 0 and below 1, got 1'},
  } do
    raises(function() f(unpack(case[1])) end, here .. case[2])
  end
  raises(function() f() end, "Layer: argument 1 'n' is missing: Layer%(n, p=0.5, bias=true")
  raises(function() f(1, {biass = true}) end, "unknown option 'biass' %(did you mean 'bias'%?%)")
end)

test('a signature with a fault is refused when it is declared', function()
  raises(function() core.declare('g(x: itn)', 'None.', packed) end, "'itn' is not a type")
  raises(function() core.declare('g(x: int > 3 x)', 'None.', packed) end, "'x' is not a range")
  raises(function() core.declare("g(x: 'a'|'b' = 'c')", 'None.', packed) end, "'x' cannot be 'c'")
end)

test('help shows the signature without types, then ranges and choices', function()
  local signature, doc, limits = core.entry(f)
  eq(signature, "Layer(n, p=0.5, bias=true, lr=0.1, how='sum', w=nil, list={0.9, 0.99}, rate=0.5)")
  eq(doc, 'A layer.')
  eq(limits, "n: a whole number from 1; p: a number from 0 to 1; lr: a finite number from 0; how: 'mean' or 'sum'; " ..
    'rate: a number above 0 and below 1')
end)

test('parameters are listed with their types, those of engine functions too', function()
  local list = core.parameters(f)
  eq({list[1].name, list[1].type, list[1].low, list[1].default}, {'n', 'int', 1, nil})
  eq({list[5].type, list[5].default}, {"'mean'|'sum'", "'sum'"})
  local of_loss, returned = core.parameters(mt.smooth_l1_loss)
  eq({of_loss[1].type, of_loss[3].type, of_loss[4].type}, {'tensor', "'mean'|'sum'|'none'", 'number'})
  eq(returned, 'tensor')
  eq(core.parameters('g(x, [shape..], {out=})')[2].collects, true)
  eq(core.parameters('g(x, ..)').open, true)
end)

test('engine functions take what their types say; positions count from 1', function()
  local x = mt.range(1, 6):reshape(2, 3):float()
  eq(x:select(2, -1):tolist(), {3, 6})
  eq(x:glu(1).shape[1], 1)
  raises(function() x:glu(0) end, 'glu: 0 is not a position')
  raises(function() x:flatten(1.5) end, "flatten: argument 2 'start_dim' must be an integer, got 1.5")
  raises(function() mt.mse_loss(x, x, 'all') end, "mse_loss: reduction is 'all'; use 'mean', 'sum' or 'none'")
  raises(function() mt.mse_loss(x, 3, 4) end, "argument 2 'target' must be a tensor, got 3")
  local values, where = x:topk(2)
  eq({values.shape, where:tolist()}, {mt.ones(2, 2).shape, {{3, 2}, {3, 2}}})
  eq(x:dropout_(0) == x, true)
  eq(x:index_fill_(1, mt.tensor({1}, 'int64'), 7) == x, true)
  eq(x:tolist(), {{7, 7, 7}, {4, 5, 6}})
end)

test('option tables are checked by the same types', function()
  local known = {title = 'text', every = 'number > 0', log = 'bool'}
  core.check_options('show', {title = 3, every = 1}, known)
  raises(function() core.check_options('show', {titel = 'x'}, known) end,
    "show: unknown option 'titel': did you mean 'title'%?")
  raises(function() core.check_options('show', {every = 0}, known) end, 'show: every must be a number above 0, got 0')
  raises(function() core.check_options('show', 3, known) end, 'show: options must be a table, got 3')
end)

-- Also after "..", where the signature names no parameter.
test("nil after the parameters of an open signature is refused, never a crash", function()
  local a = mt.ones(2)
  local open = {'einsum', 'meshgrid', 'broadcast_tensors', 'broadcast_shapes'}
  for _, name in ipairs(open) do
    for _, first in ipairs{{}, {a}, {a, a}, {{2, 3}}, {{2, 3}, {3}}, {'i,i->', a}, {'i,i,i,i,i->', a, a, a, a}} do
      for extra = 1, 3 do pcall(mt[name], unpack(first, 1, #first + extra)) end
    end
  end
  raises(function() mt.broadcast_shapes({2, 3}, nil) end, 'broadcast_shapes: argument 2 must be an integer or a list')
  raises(function() mt.einsum('i,i,i,i,i->', a, a, a, a, nil) end, 'einsum: argument 6 must be a tensor, got nil')
  raises(function() mt.nn.MSELoss()(a) end, "argument 2 'target' is missing")
  raises(function() a:quantile(true) end, 'quantile: q is bool; it must be a number')
end)

t.finish()
