-- test_print.lua -- printing of tensors: aligned columns, four decimals, summaries, shape and dtype
local mt = require 'mtorch'
local t = require 'testing'
local test, eq = t.test, t.eq

local function lines(x)
  local list = {}
  for line in (tostring(x) .. '\n'):gmatch('(.-)\n') do list[#list + 1] = line end
  return list
end
local function facts(x) return lines(x)[#lines(x)] end

--- The numbers in a line, as text.
local function words(line)
  local list = {}
  for word in line:gmatch('%S+') do list[#list + 1] = word end
  return list
end

test('the last line has shape, dtype, device and gradient', function()
  eq(facts(mt.zeros(2, 3)), '[(2 x 3) float32 cpu]')
  eq(facts(mt.tensor(1)), '[() float32 cpu]')
  eq(facts(mt.zeros({4}, 'int64')), '[(4) int64 cpu]')
  eq(facts(mt.ones(2, {requires_grad = true})), '[(2) float32 cpu, requires grad]')
  eq(facts(mt.ones(2, {requires_grad = true}) * 2), '[(2) float32 cpu, from mul]')
  eq(facts((mt.ones(2, {requires_grad = true}) * 2):detach()), '[(2) float32 cpu]')
  eq(tostring(mt.zeros(0)), '[(0) float32 cpu]')
  eq(tostring(mt.tensor{{}, {}}), '[(2 x 0) float32 cpu]')
end)

test('whole numbers have a point, fractions four decimals, integers neither', function()
  eq(lines(mt.tensor{1, 2, 3})[1], '  1.  2.  3.')
  eq(lines(mt.tensor{1, 2.5, -3})[1], '   1.0000   2.5000  -3.0000')
  eq(lines(mt.tensor({1, -20, 300}, 'int64'))[1], '    1  -20  300')
  eq(lines(mt.tensor{true, false})[1], '   true  false')
  eq(lines(mt.tensor(3))[1], '3.')
  eq(lines(mt.tensor(1 / 3))[1], '0.3333')
  eq(lines(mt.tensor({7}, 'uint8'))[1], '  7')
  eq(lines(mt.tensor({1 / 3}, 'float64'))[1], '  0.3333')
end)

test('columns are aligned over all rows', function()
  local text = lines(mt.tensor{{1, 100.5}, {-20.25, 3}})
  eq(#text, 3)
  eq(#text[1], #text[2])
  eq(text[1], '    1.0000  100.5000')
  eq(text[2], '  -20.2500    3.0000')
end)

test('NaN, infinities and signed zero', function()
  eq(words(lines(mt.tensor{0 / 0, math.huge, -math.huge, 1})[1]), {'nan', 'inf', '-inf', '1.'})
  eq(words(lines(mt.tensor{0 / 0, 0.5})[1]), {'nan', '0.5000'})
  eq(words(lines(mt.tensor{0 / -1, 1})[1])[1], '-0.')
  eq(lines(mt.tensor(0 / 0))[1], 'nan')
  eq(lines(mt.tensor(-(0 / 0)))[1], 'nan')
end)

test('very large, small or uneven numbers are scientific', function()
  eq(words(lines(mt.tensor{1, 2.5, 1e10})[1]), {'1.0000e+00', '2.5000e+00', '1.0000e+10'})
  eq(words(lines(mt.tensor{1e-6, 1})[1]), {'1.0000e-06', '1.0000e+00'})
  eq(words(lines(mt.tensor{1e30})[1]), {'1.0000e+30'})
  eq(words(lines(mt.tensor{123456.5})[1]), {'123456.5000'})
  eq(words(lines(mt.tensor{0, 0.001})[1]), {'0.0000', '0.0010'})
end)

test('integers are printed exactly', function()
  eq(words(lines(mt.tensor({2 ^ 53, -(2 ^ 53)}, 'int64'))[1]), {'9007199254740992',
    '-9007199254740992'})
  local x = mt.tensor({2 ^ 53}, 'int64') + 1
  eq(words(lines(x)[1]), {'9007199254740993'})
end)

test('more than two dimensions: one matrix after the other, counted from 1', function()
  eq(tostring(mt.range(1, 8):view(2, 2, 2)),
     '(1, ., .) =\n  1  2\n  3  4\n(2, ., .) =\n  5  6\n  7  8\n[(2 x 2 x 2) int64 cpu]')
  local heads = {}
  for _, line in ipairs(lines(mt.zeros(2, 2, 1,
    1))) do heads[#heads + 1] = line:match('^%(.* =$') end
  eq(heads, {'(1, 1, ., .) =', '(1, 2, ., .) =', '(2, 1, ., .) =', '(2, 2, ., .) ='})
end)

test('large tensors are summarised', function()
  eq(words(lines(mt.range(1, 2000))[1]), {'1', '2', '3', '...', '1998', '1999', '2000'})
  local text = lines(mt.range(1, 10000):view(100, 100))
  eq(#text, 8)
  eq(words(text[1]), {'1', '2', '3', '...', '98', '99', '100'})
  eq(text[4]:match('%S+'), '...')
  eq(words(text[7])[7], '10000')
  eq(text[8], '[(100 x 100) int64 cpu]')
  assert(#tostring(mt.zeros(50, 50, 50)) < 5000)
  eq(select(2, tostring(mt.range(1, 1000)):gsub('%.%.%.', '')), 0)
  assert(#tostring(mt.zeros(1):expand(2 ^ 40)) < 200)
end)

test('a number in the middle of a summary does not decide the format', function()
  local x = mt.zeros(2000)
  x[1000] = 1e20
  eq(words(lines(x)[1])[1], '0.')
end)

test('lines stay inside 80 columns and numbers below each other', function()
  local x = mt.range(1, 100):double() + 0.5
  local text = lines(x)
  assert(#text > 5)
  local numbers = 0
  for i = 1, #text - 1 do
    assert(#text[i] <= 80, text[i])
    numbers = numbers + #words(text[i])
    if i > 1 and i < #text - 1 then eq(#text[i], #text[2]) end
  end
  eq(numbers, 100)
end)

test('printing changes nothing', function()
  local x = mt.ones(2, 2, {requires_grad = true})
  local y = x * x
  tostring(y)
  y:sum():backward()
  eq(x.grad:tolist(), {{2, 2}, {2, 2}})
  eq(mt.is_grad_enabled(), true)
end)

test('shapes print as lists', function()
  eq(tostring(mt.zeros(5, 784).shape), '(5, 784)')
  eq(tostring(mt.zeros(3).shape), '(3)')
  eq(tostring(mt.tensor(1).shape), '()')
  eq(tostring(mt.zeros(2, 3):stride()), '(3, 1)')
end)

test('print writes to standard output, views as what they show', function()
  eq(tostring(mt.tensor{{1, 2}, {3, 4}}:t()), '  1.  3.\n  2.  4.\n[(2 x 2) float32 cpu]')
  eq(tostring(mt.tensor{1, 2, 3}[{{2, 3}}]), '  2.  3.\n[(2) float32 cpu]')
  eq(tostring(mt.tensor{5}:expand(2, 2)), '  5.  5.\n  5.  5.\n[(2 x 2) float32 cpu]')
end)

--- Runs a test with printing options and restores the defaults.
local function printing(name, options, fn)
  test(name, function()
    mt.set_printoptions(options)
    local ok, message = pcall(fn)
    mt.set_printoptions{profile = 'default'}
    if not ok then error(message, 0) end
  end)
end

test('uneven fractions are scientific from a ratio of 1000 on, as in PyTorch', function()
  eq(words(lines(mt.tensor{0.001, 0.5})[1]), {'0.0010', '0.5000'})
  eq(words(lines(mt.tensor{0.001, 5.5})[1]), {'1.0000e-03', '5.5000e+00'})
  eq(words(lines(mt.tensor{1, 5000})[1]), {'1.', '5000.'})
  eq(words(lines(mt.tensor{9e-5, 1e-4})[1]), {'9.0000e-05', '1.0000e-04'})
end)

printing("the seed's 5 x 10 table", {precision = 2, linewidth = 140, sci_mode = false}, function()
  local g = mt.Generator('mt19937', 1)
  eq(tostring(mt.randn({5, 10}, {generator = g})), table.concat({
    '  -1.53  -0.75  -0.65  -1.61  -0.10  -0.61  -0.98  -1.61  -0.71   0.30',
    '  -0.78  -0.25  -0.22   1.69   0.23   0.47  -0.70  -1.16   0.70   0.20',
    '   0.87   0.24  -0.66   0.81   1.10  -0.18  -2.25  -1.45   0.06  -0.62',
    '  -0.80  -0.13   1.88  -0.07   0.07  -0.44   0.76   0.44   1.17   2.02',
    '   0.22  -0.52  -0.19  -0.64   1.54  -0.87  -3.33  -0.75   1.12   0.30',
    '[(5 x 10) float32 cpu]'}, '\n'))
  eq(lines(mt.tensor{0.001, 1e6 + 0.5})[1], '        0.00  1000000.50')
end)

test("the seed's table with four decimals, wrapped", function()
  local x = mt.tensor{{-10.9417, -0.6844, -7.0038, -4.0066, -2.0857, -3.3588, 3.9127, -3.4375,
                       -11.4696, -2.1153}}
  eq(tostring(x), table.concat({
    '  -10.9417   -0.6844   -7.0038   -4.0066   -2.0857   -3.3588    3.9127   -3.4375',
    '  -11.4696   -2.1153', '[(1 x 10) float32 cpu]'}, '\n'))
end)

printing('linewidth and precision', {linewidth = 20, precision = 1}, function()
  for _, line in ipairs(lines(mt.range(1, 9):double() / 4)) do
    assert(#line <= 20 or line:find('^%['), line)
  end
  eq(words(lines(mt.tensor{1.25, 3})[1]), {'1.2', '3.0'})
end)
printing('rows that are broken keep their columns', {linewidth = 20}, function()
  eq(tostring(mt.range(1, 6):float()),
    '  1.  2.  3.  4.  5.\n  6.\n[(6) float32 cpu]')
  eq(tostring(mt.range(1, 15):view(3, 5)), table.concat({
    '   1   2   3   4   5', '   6   7   8   9  10', '  11  12  13  14  15', '[(3 x 5) int64 cpu]'}, '\n'))
  eq(tostring(mt.range(1, 12):view(2, 6)), table.concat({
    '   1   2   3   4   5', '   6', '', '   7   8   9  10  11', '  12', '[(2 x 6) int64 cpu]'}, '\n'))
end)
printing('no digits at all', {precision = 0}, function()
  eq(words(lines(mt.tensor{0.75, 3.5})[1]), {'1.', '4.'})
end)
printing('scientific on request', {sci_mode = true, precision = 2}, function()
  eq(words(lines(mt.tensor{1, 20})[1]), {'1.00e+00', '2.00e+01'})
  eq(words(lines(mt.tensor({1, 20}, 'int64'))[1]), {'1', '20'})
end)
printing('threshold and edgeitems', {threshold = 5, edgeitems = 1}, function()
  eq(words(lines(mt.range(1, 6))[1]), {'1', '...', '6'})
  eq(words(lines(mt.range(1, 5))[1]), {'1', '2', '3', '4', '5'})
end)
printing('no edges', {threshold = 0, edgeitems = 0}, function()
  eq(words(lines(mt.range(1, 6))[1]), {'...'})
end)
printing('everything, unless that is more than anyone can read', {profile = 'full'}, function()
  eq(#words(lines(mt.zeros(1500))[1]), 20)
  assert(#tostring(mt.zeros(1):expand(2 ^ 40)) < 200)
end)

test('options are read back, and refused with a sentence', function()
  eq(mt.get_printoptions(), {precision = 4, threshold = 1000, edgeitems = 3, linewidth = 80})
  t.raises(function() mt.set_printoptions{precision = 18} end, 'precision must be a whole number from 0 to 17, got 18')
  t.raises(function() mt.set_printoptions{edgeitems = 2.5} end, 'edgeitems must be a whole number from 0, got 2.5')
  t.raises(function() mt.set_printoptions{linewidth = 0} end, 'linewidth must be a number from 1, got 0')
  t.raises(function() mt.set_printoptions{edgeitems = -1} end, 'edgeitems must be a whole number from 0, got %-1')
  t.raises(function() mt.set_printoptions{profile = 'long'} end, "profile is 'long'; use 'default', 'short' or 'full'")
  t.raises(function() mt.set_printoptions{width = 3} end, "unknown option 'width'")
  eq(mt.get_printoptions().precision, 4)
end)

t.test('a large tensor of many small dimensions is summarised too', function()
  local sizes = {}
  for i = 1, 16 do sizes[i] = 3 end
  local text = tostring(mt.zeros(1):expand(sizes))
  t.eq(#text < 200000, true)
  t.eq(text:sub(1, 42), '(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,')
  for i = 1, 5 do sizes[i], sizes[i + 5], sizes[i + 10] = 10, nil, nil end
  sizes[16] = nil
  t.eq(select(2, tostring(mt.zeros(sizes)):gsub('0%.', '')), 6 ^ 5)
end)

t.test('an object whose __tostring returns no string is printed as Lua prints it', function()
  local number = setmetatable({}, {__tostring = function() return 3 end})
  eq(require('mtorch.core.shown').in_line(number, 'a'), '3\ta')
  local object = setmetatable({}, {__tostring = function() return {} end})
  t.raises(function() print(object) end, "^[^:]*test_print.lua:%d+: 'tostring' must return a string to 'print'")
end)

t.finish()
