-- test_protobuf.lua -- The wire format of Protocol Buffers, byte by byte.
local t = require 'testing'
local protobuf = require 'mtorch.extras.protobuf'

local function hex(text) return (text:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end

local Inner = {a = {1, 'int'}}
local Message = {n = {1, 'int'}, text = {2, 'bytes'}, inner = {3, Inner}, list = {4, 'int', 'list'},
  x = {5, 'float'}, y = {6, 'double'}, flag = {7, 'bool'}, texts = {16, 'bytes', 'list'},
  inners = {17, Inner, 'list'}, ys = {18, 'double', 'list'}}
local function bytes(value) return hex(protobuf.encode(Message, value)) end

t.test('the examples of the encoding guide', function()
  t.eq(bytes{n = 150}, '089601')
  t.eq(bytes{text = 'testing'}, '120774657374696e67')
  t.eq(bytes{inner = {a = 150}}, '1a03089601')
  t.eq(bytes{list = {3, 270, 86942}}, '2206038e029ea705')
end)

t.test('every type of field', function()
  t.eq(bytes{x = 1.5, y = -2, flag = true}, '2d0000c03f' .. '3100000000000000c0' .. '3801')
  t.eq(bytes{texts = {'a', ''}}, '82010161' .. '820100')
  t.eq(bytes{inners = {{a = 1}, {}}}, '8a01020801' .. '8a0100')
  t.eq(bytes{ys = {1}}, '920108000000000000f03f')
  t.eq(bytes{}, '')
end)

t.test('whole numbers: zero, negative, beyond 32 bits, int64_t', function()
  t.eq(bytes{n = 0}, '0800')
  t.eq(bytes{n = -1}, '08ffffffffffffffffff01')
  t.eq(bytes{n = 2 ^ 40}, '08808080808020')
  t.eq(bytes{n = 0x7fffffffffffffffLL}, '08ffffffffffffffff7f')
end)

t.test('long fields have long lengths', function()
  local long = ('x'):rep(300)
  t.eq(protobuf.encode(Message, {text = long}), '\18\172\2' .. long)
end)

t.test('a field that the message lacks is an error', function()
  t.raises(function() bytes{m = 1} end, "has no field 'm'")
end)

t.finish()
