-- test_wrong_functions.lua -- functions that mt.map, mt.zip and mt.reduce reject: one sentence with the line and a hint
local mt = require 'mtorch'
local t = require 'testing'
local test = t.test
local ffi = require 'ffi'

local x = mt.tensor({-1.5, 0.5, 2}, {dtype = 'float64'})
local captured, count, cfg = mt.ones(3), 0, {a = 1, list = {1, 2}, t = mt.ones(2)}
local called, os_exit, matmul = setmetatable({}, {__call = function(_, a) return a end}), os.exit, mt.matmul
local no_number, text = nil, 'text'
local fused = mt.fuse(function(a) return a * 2 end)

-- luacheck: push ignore
local refused = {
  -- loops with a data-dependent end, which are kernels with fewer features; recursion
  {function(a) local l = '' for _ = 1, a do l = l .. 'x' end return #l end, 'joins strings, which kernels do not have'},
  {function(a) while a > 0 do a = a - mt.softplus(a) end return a end, 'kernels do not have mt.softplus'},
  {function(a) local function r(v) return v > 0 and 1 + r(v - 1) or v end return r(a) end, 'define it outside'},
  {function(a) local function r(v) return 1 + r(v) end return r(a) end, 'calls itself without end'},
  {function(a) for _ = 1, 40000 do a = a * a + 1 end return a end, 'more than 32000 operations; use fewer steps'},
  -- tables, text
  {function(a) local s = {1, 2} return s[a] + 1 end,
    'arithmetic on nil; a table indexed by an element has nil there: choose by comparisons'},
  {function(a) local s = {1, 2} return s[math.floor(a)] end,
    'result 1 is nil; .*a table indexed by an element gives nil'},
  {function(a) return cfg[a] end, "the captured table 'cfg' is indexed by an element; .*index_select"},
  {function(a) return cfg.list[a] end, "the captured table 'cfg.list' is indexed by an element"},
  {function(a) return a[1] end, 'has no %[1%]; give a neighbour as a tensor of its own'},
  {function(a) return a.x end, "an element is a number and has no 'x'"},
  {function(a) a.b = 1 return a end, 'a number has no fields; keep values in locals'},
  {function(a) return #a end, 'a number has no length'},
  {function(a) return cfg + a end, "arithmetic on the captured table 'cfg'"},
  {function(a) return cfg.none * a end, 'arithmetic on nil'},
  {function(a) return a .. 'x' end, 'cannot be made text'},
  {function(a) return tostring(a) end, 'an element cannot be made text while .*; print the result'},
  {function(a) return string.format('%g', a) end, 'string.format of an element: an element has no text'},
  {function(a) return ('%g'):format(a) end, "one of Lua's own functions gets an element"},
  {function(a) return table.concat{a, a} end, 'table.concat of an element'},
  {function(a) return bit.band(a, 3) end, 'bit.band of an element: .*mt.bitwise_and'},
  -- effects
  {function(a) count = count + 1 return a end, "assigns the captured 'count'; it must have no effects, return"},
  {function(a) cfg.a = a return a end, "writes to the captured 'cfg.a'; it must have no effects"},
  {function(a) cfg.list[1] = 2 return a end, "writes to the captured 'cfg.list%.?%[?1"},
  {function(a) table.insert(cfg.list, a) return a end, "table.insert gets the captured table 'cfg.list'"},
  {function(a) a_global = a return a end, "writes to the global 'a_global'; .*is a local missing"},
  {function(a) math.huge = a return a end, 'changes math'},
  {function(a) mt.answer = a return a end, 'changes mt'},
  {function(a) print(a) return a end, 'print in a compiled function: it runs once for all elements; print the result'},
  {function(a) io.write(a) return a end, 'io.write in a compiled function'},
  {function(a) io.open 'x' return a end, 'io.open in a compiled function: it would run once, .*; call it outside'},
  {function(a) return os.clock() * a end, 'os.clock in a compiled function'},
  {function(a) os_exit(3) return a end, 'os_?.?exit in a compiled function'},
  {function(a) return math.random() * a end, 'math.random in a compiled function: .*mt.rand'},
  {function(a) math.randomseed(1) return a end, 'math.randomseed in a compiled function: .*mt.manual_seed'},
  {function(a) return select(2, pcall(math.sin, a)) end, 'pcall in a compiled function'},
  {function(a) return coroutine.wrap(function() return a end)() end, 'coroutine.wrap in a compiled function'},
  {function(a) return loadstring('return 1')() * a end, 'loadstring in a compiled function'},
  {function(a) return ffi.new('double', a) end, 'ffi.new in a compiled function'},
  {function(a) return ({10, 20, 30})[a] or 0 end,
    'f%(1%) is 10 in Lua and 0 here: a table that it makes is indexed by an element; choose by comparisons'},
  {function(a) local s = {[math.floor(a) % 2] = 1} return s[0] or 7 end, 'f%(.*%) is 1 in Lua and 7 here: a table'},
  {function(a) local s = {[2] = true} return (function(k) return s[k] and 1 or 2 end)(a) end, 'f%(2%) is 1 in Lua'},
  {function(a) return rawequal(a, a + 0) and 1 or 0 end, 'rawequal of an element: it takes plain numbers'},
  {function(a) return rawget({5, 6}, a) or 0 end, 'rawget of an element: it takes plain numbers'},
  {function(a) rawset({}, a, 1) return a end, 'rawset of an element: it takes plain numbers'},
  {function(a) error('my own') return a end, 'it raises an error: .*my own'},
  {function(a) assert(a > 0, 'not positive') return a end, 'which no single element can; return .* 0: not positive'},
  -- called values and operands
  {function(a) return a() end, 'a number is called as a function; is an operator missing'},
  {function(a) return called(a) end, "the captured 'called' is called"},
  {function(a) return fused(a) + 1 end, "'fused' is a function of tensors; .* also those of mt.map"},
  {function(a) return no_such_function(a) end, "'no_such_function' is nil, not a function; is it spelled right%?"},
  {function(a) return math.relu(a) end, "'relu' is nil, not a function; mt.relu is one"},
  {function(a) return math.frexp(a) end, 'math.frexp cannot be compiled'},
  {function(a) return math.sin('x') * a end, 'argument 1 of sin must be a number, got string'},
  {function(a) return mt.matmul(a, a) end, 'mt.matmul is not elementwise; .*mt.relu'},
  {function(a) for _, v in ipairs(a) do a = a + v end return a end, 'ipairs goes over tables, and an element'},
  {function(a) return mt.sigmiod(a) end, "mt has no 'sigmiod' %(did you mean 'sigmoid'%?%)"},
  {function(a) local positive = a > 0 return (positive) * 2 end, "arithmetic on 'positive', which is boolean"},
  {function(a) return (a > 0) * 2 end, 'arithmetic on a boolean; choose a number by it: condition and 1 or 0$'},
  {function(a) return matmul(a, a) end, 'mt.matmul is not elementwise'},
  {function(a) return a:sum() end, "has no 'sum'; tensors have: call it on the result, or use mt.fuse"},
  {function(a) return a:no_such() end, "an element is a number and has no 'no_such'$"},
  {function(a) return mt.relu(a, a) end, 'relu takes 1 number, got 2'},
  {function(a) return mt.leaky_relu() * a end, 'leaky_relu takes 1 to 2 numbers, got 0'},
  {function(a) return mt.leaky_relu(a, a) end, 'argument 2 is a parameter, the same for all elements'},
  {function(a) return a + captured end, "captured tensor 'captured' is %(3%); only a 0%-d tensor .* as arguments"},
  {function(a) return a + cfg.t end, "captured tensor 'cfg.t' is %(2%)"},
  {function(a) return a + {} end, 'arithmetic on a table'},
  {function(a) return a + no_number end, 'arithmetic on nil'},
  {function(a) return a * text end, "arithmetic on the string 'text'"},
  {function(a) return a + (a > 0) end, 'arithmetic on a boolean; choose a number by it: condition and 1 or 0'},
  {function(a) return a < text end, "arithmetic on the string 'text'"},
  {function(a, b) return a + b end, 'arithmetic on nil; .* %(the function takes 2 arguments and got 1%)'},
  -- results
  {function() end, 'returns nothing; return what an element becomes'},
  {function(a) return {a} end, 'result 1 is a table; a compiled function returns numbers and booleans'},
  {function(a) return a, 'x' end, "result 2 is the string 'x'"},
  {function(a) return function() return a end end, 'result 1 is a function'},
  {function(a) return a > 0 and 'yes' or 'no' end, "result 1 is the string 'yes' on one path"},
  {function(a) if a > 0 then return a end end, 'returns 1 value on one path and 0 on another; return as many on each'},
  {function(a) if a > 0 then return a end return a > 1 end, 'is a number on one path and a boolean on another; both'},
  {function(a) if a > 0 then return nil end return a end, 'result 1 is nil on one path'},
}
-- luacheck: pop

--- Asserts that the error of compiling f is one sentence at the line of f, without terms of the tracer.
local function check(make, name, f, pattern)
  local line = debug.getinfo(f, 'S').linedefined
  local ok, message = pcall(function() return make(f)(x) end)
  message = tostring(message)
  assert(not ok, ('line %d is compiled'):format(line))
  local at, text_of = message:match('test_wrong_functions.lua:(%d+): ' .. name .. ': (.*)$')
  assert(tonumber(at) == line, ('line %d: %s'):format(line, message))
  assert(text_of:find(pattern), ('line %d: %q is not like %q'):format(line, text_of, pattern))
  for _, word in ipairs{'\n', 'cdata', 'struct', 'clone', 'trace.lua', 'upvalue'} do
    assert(not text_of:find(word, 1, true), ('line %d: %s'):format(line, text_of))
  end
end

test(#refused .. ' functions are refused by map, zip and reduce at their line', function()
  for _, case in ipairs(refused) do check(mt.map, 'map', unpack(case)) end
  for _, case in ipairs(refused) do
    check(function(f) return mt.zip(f) end, 'zip', unpack(case))
  end
end)

test('reductions that are none', function()
  local cases = {
    {function(a, b) return a - b end, 0, 'the identity 0 .* is 2.5; f joins two results; do .* before, by mt.map'},
    {function(a, b) return math.max(a, b) end, 0, 'the identity 0 is not neutral'},
    {function(a, b) return a + b + a * b / 2 + a * a * b * b end, 0, 'f is not associative: f%(f%('},
    {function(a, b) return (a + b) / 2 end, 0, 'the identity 0 is not neutral'},
    {function() end, 0, 'f must return a number, it returned nil'},
    {function(a, b) return a > b end, 0, 'f must return a number, it returned true'},
    {function(a, b) return a .. b end, 0, 'f must return a number'},
    {function(a) return a end, 0, 'the identity 0 is not neutral'},
  }
  for _, case in ipairs(cases) do
    local message = t.raises(function() mt.reduce(case[1], case[2])(x) end, 'reduce: ' .. case[3])
    assert(message:find '^[^\n]*test_wrong_functions.lua:%d+: ' and not message:find '\n', message)
  end
end)

test('wrong calls', function()
  local f, r = mt.map(function(a) return a end), mt.reduce(function(a, b) return a + b end, 0)
  f(x) -- now there is a program
  local cases = {
    {function() mt.map() end, "map: argument 1 'f' is missing"},
    {function() mt.map(x) end, 'map: f must be a function'},
    {function() mt.map(called) end, 'map: f must be a function, got a table'},
    {function() mt.zip(mt.nn.ReLU()) end, 'zip: f must be a function, got the module ReLU'},
    {function() mt.reduce(called, 0) end, 'reduce: f must be a function, got a table'},
    {function() mt.kernel(called) end, 'kernel: a Lua function is needed, got a table'},
    {function() mt.map(math.random)(x) end, 'map: math.random in a compiled function'},
    {function() mt.map(f) end, 'compiled already'},
    {function() mt.zip 'x' end, 'zip: f must be a function'},
    {function() mt.reduce(f, 0) end, 'compiled already'},
    {function() mt.reduce(function(a, b) return a + b end) end, "reduce: argument 2 'identity' is missing"},
    {function() f(2) end, 'map: none of the arguments is a tensor'},
    {function() f() end, 'map: argument 1 must be a tensor or a number, got nil'},
    {function() f(mt.Generator(1)) end, 'map: argument 1 must be a tensor or a number'},
    {function() f('x') end, "map: argument 1 must be a tensor or a number, got the string 'x'"},
    {function() f(x, {into = x}) end, "map: unknown option 'into'; there is 'out'"},
    {function() f(x, {out = mt.zeros(5)}) end, 'out is %(5%), the result %(3%)'},
    {function() mt.zip(function(a, b) return a + b end)(mt.ones(2), mt.ones(3)) end, 'zip: .*%(2%).*%(3%)'},
    {function() r(2) end, 'reduce: x must be a tensor, got 2'},
    {function() r(x, 3) end, 'dim'},
    {function() r(x, 'y') end, 'dim'},
  }
  for _, case in ipairs(cases) do
    local line = debug.getinfo(case[1], 'S').linedefined
    local message = t.raises(case[1], case[2])
    assert(message:find('test_wrong_functions.lua:' .. line .. ': ', 1, true) and not message:find '\n', message)
  end
end)

t.finish()
