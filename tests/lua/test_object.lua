-- test_object.lua -- the class system: fields, methods, constructors, bases, hooks and proxies of mt.extend.object
local mt = require 'mtorch'
local t = require 'testing'
local eq, raises, test = t.eq, t.raises, t.test
local object, nn, data = mt.extend.object, mt.nn, mt.data

--- Returns a class with a typed and an untyped method, and its constructor.
local function counter(spec)
  spec = spec or {}
  spec.name, spec.called, spec.word = spec.name or 'Counter', 'c', 'counter'
  local Counter, method = object.class(spec)
  method('add(n: int = 1)', 'Adds n.', function(self, n)
    self.sum = self.sum + n
    return self
  end)
  method('raw(a, b=nil)', 'What it was given.', function(self, ...) return self, select('#', ...) end)
  return Counter, object.constructor(Counter, "Counter(start: int = 0, unit: string = 'm', limit: int = nil)", 'A sum.',
    function(self)
      self.sum = self.start
      self:add(0)
    end), method
end

test('arguments become fields; a field that is not there is an error at the line of the user', function()
  local _, Counter = counter{optional = {note = true}}
  local c = Counter(3, {unit = 'km'})
  eq({c.start, c.unit, c.sum, c.note, c.limit}, {3, 'km', 3})
  c.sum, c.note = 5, 'x'
  eq({c.sum, c.note}, {5, 'x'})
  raises(function() return c.summ end, "test_object.lua:%d+: Counter has no 'summ' %(did you mean 'sum'%?%)$")
  raises(function() c.nots = 1 end, "test_object.lua:%d+: Counter has no 'nots' %(did you mean 'note'%?%)$")
  raises(function() return c.ad end, "did you mean 'add'")
  raises(function() return c[1] end, 'Counter has nothing at %[1%]')
  raises(function() Counter(1.5) end, 'Counter: start must be a whole number, got 1.5')
  raises(function() Counter{begin = 3} end, "Counter: unknown option 'begin'")
  c.add = function() return 'its own' end
  eq(c:add(), 'its own')
end)

test('methods count and check their arguments and need a colon', function()
  local class, Counter = counter()
  local c = Counter()
  eq({c:add().sum, c:add(4).sum, c:add{n = 5}.sum}, {1, 5, 10})
  eq({select(2, c:raw(nil, nil)), (select(2, c:raw()))}, {2, 0})
  raises(function() c:add('x') end, "test_object.lua:%d+: add: n must be a whole number, got the string 'x'")
  raises(function() c:raw(1, 2, 3) end, 'raw: 3 arguments given, it takes 2')
  for _, wrong in ipairs{1, 'text', {}, mt.ones(1), nn.Linear(1, 1), data.simple(2)} do
    raises(function() c.add(wrong) end, 'test_object.lua:%d+: add: methods are called with a colon, c:add%(..%)$')
  end
  raises(function() c.add() end, 'methods are called with a colon')
  eq(class.__methods, {{'add(n=1)', 'Adds n.'}, {'raw(a, b=nil)', 'What it was given.'}})
end)

test('check raises the error of fail at the line of the user, unless its condition is true', function()
  local check = assert(loadstring('local check = ...; return function(n) check(n > 0, "lib: n is %d", n) end',
    '@mtorch/lib.lua'))(mt.extend.check)
  check(1)
  local ok, message = pcall(function() return (check(-2)) end)
  eq({ok, message}, {false, message:match '^[^:]*test_object.lua:%d+: ' .. 'lib: n is -2'})
  ok, message = pcall(mt.extend.check, nil, '100%')
  eq({ok, message:match '100%%$'}, {false, '100%'})
end)

test('print shows options that differ from their defaults, or the text of describe', function()
  local class, Counter = counter()
  eq({tostring(Counter()), tostring(Counter(2)), tostring(Counter{unit = 'km'}), tostring(class)},
    {'Counter()', 'Counter(start=2)', "Counter(unit='km')", 'Counter'})
  local c = Counter(2)
  c.start = 7
  eq({tostring(c), object.described(c, {start = true})}, {'Counter(start=7)', 'Counter()'})
  function class:describe() return 'sum ' .. self.sum end
  eq(tostring(c), 'sum 2')
  eq(mt.extend.describe(c), 'a Counter')
  rawset(c, 'describe', function(self) return 'its own ' .. self.sum end)
  eq(tostring(c), 'its own 2')
end)

test('a class inherits from its base, also later additions; its methods are not added to the base', function()
  local Base, Counter, method = counter()
  local Double, add_method = object.class{base = Base, name = 'Double'}
  add_method('twice()', 'Twice the sum.', function(self) return 2 * self.sum end)
  local make = object.constructor(Double, 'Double(sum: int = 4)', 'A double.')
  method('reset()', 'To 0.', function(self) self.sum = 0 end)
  local d, c = make(), Counter()
  eq({d:add(3).sum, d:twice()}, {7, 14})
  d:reset()
  eq({d.sum, tostring(d)}, {0, 'Double(sum=0)'})
  eq({Base.add(d).sum, Double.add(c).sum}, {1, 1}) -- one family
  eq(tostring(object.new(object.class{base = Base, name = 'Bare'}, {start = 2})), 'Bare(start=2)')
  raises(function() return c.twice end, "Counter has no 'twice'")
  raises(function() return d.twise end, "Double has no 'twise' %(did you mean 'twice'%?%)")
  raises(function() return d.rest end, "Double has no 'rest' %(did you mean 'reset'%?%)")
  raises(function() return d.unit end, "Double has no 'unit'")
  eq({#Base.__methods, rawequal(Base.__methods, Double.__methods)}, {3, true})
  function Base:get(i) return i end
  raises(function() return d[1] end, 'Double has nothing at %[1%]; counter:get%(i%) is an example$')
  function Base:__advice(key) return ('; ask %s of %d'):format(key, self.sum) end
  raises(function() return d.rest end, "Double has no 'rest'; ask rest of 1$")
end)

test('fields are added while an object is made, and later where the class is open', function()
  local Closed, Open = object.class{called = 'x'}, object.class{called = 'y', open = true}
  local made = object.new(Closed, {a = 1}, function(self)
    self.b = self.a + 1
    raises(function() return self.c end, "x has no 'c'")
  end)
  eq({made.a, made.b}, {1, 2})
  raises(function() made.c = 3 end, "x has no 'c'")
  local open = object.new(Open, {})
  open.c = 3
  eq(open.c, 3)
  open._hidden = 4
  raises(function() return open.d end, "y has no 'd' %(did you mean 'c'%?%)")
  raises(function() return open._hiden end, "y has no '_hiden'$")
end)

test('classes that are called, whose functions become methods, whose objects are behind a proxy', function()
  local Row
  Row = object.class{name = 'Row', called = 'row', define = true, keeps_args = true, construct = function(of, ...)
    return object.proxy(of, of.__signature(...))
  end}
  object.constructor(Row, 'Row(n: int)', 'A row.', nil, function(n) return {list = {n, n}} end)
  function Row:size() return #self.list end
  function Row:fields() return self end
  function Row.__call() error('no loop') end
  local row = Row(3)
  eq({type(row), #row, row:size(), row.list, tostring(row)}, {'userdata', 2, 2, {3, 3}, 'Row(n=3)'})
  eq({rawequal(row:fields(), object.unwrap(row)), object.unwrap(row).list}, {true, {3, 3}})
  eq({object.unwrap(mt.ones(1)), object.unwrap(row.list), object.unwrap(nil)}, {})
  row.list = {1}
  eq(#row, 1)
  raises(function() row.size() end, 'size: methods are called with a colon, row:size%(..%)$')
  raises(function() Row.size{list = {}} end, 'methods are called with a colon')
  raises(function() for _ in row do end end, 'no loop')
  raises(function() return row.lst end, "Row has no 'lst' %(did you mean 'list'%?%)")
  raises(function() ipairs(row) end, 'table expected')
end)

test('hooks take fields that an object lacks', function()
  local log = {}
  local Watched = object.class{called = 'w', get = function(_, key) return key .. '?' end,
    set = function(self, key, value) log[#log + 1] = key rawset(self, key, value) end,
    call = function(self, x) return self.a .. x end}
  local w = object.new(Watched, {})
  w.a = 'b'
  eq({w.a, w.c, w('!'), log}, {'b', 'c?', 'b!', {'a'}})
end)

test('modules are of the class system: one metatable, names of bases in advice', function()
  local Net = nn.class 'Net'
  function Net:forward(x) return x end
  function Net:encode() return 'encoded' end
  local Sub = nn.class('Sub', Net)
  local net = Sub()
  net.weight = nn.Parameter(mt.ones(1))
  eq({getmetatable(net) == Sub, tostring(Sub), net:encode(), Sub.__family == nn.Module}, {true, 'Sub', 'encoded', true})
  local hint = require('mtorch.core').missing_field -- the program's hint in Lua errors about such a nil
  eq({net.wieght, hint 'wieght', hint 'bias'}, {nil, " (Sub has no 'wieght'; did you mean 'weight'?)", nil})
  eq({net.enkode, hint 'enkode'}, {nil, " (Sub has no 'enkode'; did you mean 'encode'?)"})
  function Net:late() return 'late' end
  eq(net:late(), 'late')
  for _, name in ipairs{'train', 'parameters'} do
    raises(function() net[name]() end, name .. ': methods are called with a colon, net:' .. name)
  end
end)

t.finish()
