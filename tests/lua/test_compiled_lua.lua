-- test_compiled_lua.lua -- random Lua functions, and hot functions of the library, give the same results compiled by
-- LuaJIT and interpreted
--
--   mtorch tests/lua/test_compiled_lua.lua [functions [first seed | today]]
--
-- A function is Lua source: arithmetic, tables, nested loops with breaks, recursion, varargs. It runs many times
-- interpreted, and as often with loops that are compiled in the third iteration.
local mt = require 'mtorch'
local t = require 'testing'
local util = require 'mtorch.core.util'

if not pcall(require('jit.opt').start, '-fma') or not jit.status() then
  print 'skipped: this LuaJIT compiles some loops wrongly (see mtorch doctor)'
  os.exit(0)
end
jit.opt.start('hotloop=3', 'hotexit=2')

local functions, first_seed = tonumber(arg[1]) or 150, tonumber(arg[2]) or 1
if arg[2] == 'today' then first_seed = math.floor(os.time() / 86400) * functions end -- different functions every day

local draws = t.random_source()
local below, between, one_of, chance = draws.below, draws.between, draws.one_of, draws.chance

-- Never freed, because the order of a table depends on the hashes of its strings.
local held = {}
for k = 0, 9 do held[#held + 1], held[#held + 2] = 'n' .. k, 'k' .. k end
for _, name in ipairs{'x', 'y', 'z', 'text', 'loss'} do held[#held + 1] = name end

--- Formats a value; equal values have equal texts.
local function shown(value, depth)
  if type(value) == 'number' then return value ~= value and 'nan' or ('%.17g'):format(value) end
  if mt.is_tensor(value) then return value.dtype .. t.bits(value:tolist()) end
  if type(value) ~= 'table' or (depth or 0) > 6 then return type(value) == 'table' and '{..}' or tostring(value) end
  local parts = {}
  for _, key in ipairs(util.sorted_keys(value)) do
    parts[#parts + 1] = ('%s=%s'):format(tostring(key), shown(value[key], (depth or 0) + 1))
  end
  return '{' .. table.concat(parts, ',') .. '}'
end
jit.off(shown)

-- ---- random functions ------------------------------------------------------------------------------------

local numbers = {'a', 'b', 'c', 'd'}

local function expression(depth)
  if depth <= 0 or chance(25) then
    return one_of{one_of(numbers), one_of(numbers), tostring(between(-9, 20)), tostring(below(100) / 8), '#list',
      ('(list[%s %% 7 + 1] or %d)'):format(one_of{'i', 'n'}, below(5)), 'i', "(named.x or 0)", '(named[key] or 1)'}
  end
  local function inner() return expression(depth - 1) end
  local kind = below(10)
  if kind < 5 then return ('(%s %s %s)'):format(inner(), one_of{'+', '-', '*', '+', '-', '/', '%'}, inner()) end
  if kind == 5 then return ('floor(%s)'):format(inner()) end
  if kind == 6 then
    return ('band(%s %% 4096, %s)'):format(inner(), one_of{'255', '12', 'bor(i % 64, 3)', '0x7f'})
  end
  if kind == 7 then
    return ('(%s %s %s and %s or %s)'):format(inner(), one_of{'<', '<=', '==', '~='}, inner(), inner(), inner())
  end
  if kind == 8 then return ('abs(%s)'):format(inner()) end
  return ('nth(%s, %s, %s, %s)'):format(between(1, 3), inner(), inner(), inner())
end

local block
local function statement(depth)
  local kind = below(depth > 0 and 13 or 6)
  local function inside() return block(depth - 1, between(1, 3)) end
  if kind < 2 then return ('%s = tame(%s)'):format(one_of(numbers), expression(3)) end
  if kind == 2 then return ('list[%s %% 9 + 1] = tame(%s)'):format(one_of{'i', 'n', 'floor(a)'}, expression(2)) end
  if kind == 3 then
    return ('named[%s] = %s'):format(one_of{"'x'", "'y'", "'k' .. i % 5", 'key'},
      one_of{'nil', ('tame(%s)'):format(expression(1)), 'i', 'b'})
  end
  if kind == 4 then return ('if %s < %s then %s end'):format(expression(1), expression(1),
    one_of{'return a, b', 'a = b', 'break_it = true', 'c = c + 1'}) end
  if kind == 5 then return ('n = n + 1 %s = tame(%s + n)'):format(one_of(numbers), one_of(numbers)) end
  local early = chance(40) and
    ('if %s > %s then break end '):format(one_of{'a', 'b', 'i', 'd'}, one_of{'7', 'c', 'i'}) or ''
  if kind == 6 then return ('for i = 1, %d do %s %send'):format(between(1, 9), inside(), early) end
  if kind == 7 then
    return ('for key, value in %s do a = tame(a + (type(value) == "number" and value or 1)) %s %send'):format(
      one_of{'pairs(copy(named))', 'next, copy(named)', 'pairs(tree)', 'next, copy(list)'}, inside(), early)
  end
  if kind == 8 then
    return ('for i, value in ipairs(list) do b = tame(b + value * %d) %s %send'):format(below(4), inside(), early)
  end
  if kind == 9 then
    return one_of{'c = tame(c + walk(tree, %s))', 'c = within(tree, %s, {}) and c + 1 or c'}:format(
      one_of{'a', 'i', 'n', '3', '9'})
  end
  if kind == 10 then return ('local k = 0 while k < %d do k = k + 1 %s end'):format(between(1, 6), inside()) end
  if kind == 11 then return ('d = tame(sum(%s, %s, unpack(list, 1, 3)))'):format(expression(1), expression(1)) end
  return ('text = (text .. floor(a)):sub(-%d) d = d + #text'):format(between(1, 9))
end
function block(depth, n)
  local out = {}
  for i = 1, n do out[i] = statement(depth) end
  return table.concat(out, ' ')
end

local prelude = [[
local floor, abs, band, bor = math.floor, math.abs, bit.band, bit.bor
--- Bounds a number, so that all results are finite.
local function tame(x) return x == x and abs(x) < 1e6 and x or 1 end
local function nth(k, ...) return (select(k, ...)) end
local function sum(...)
  local s = 0
  for k = 1, select('#', ...) do s = s + (select(k, ...) or 0) end
  return s
end
local function copy(t)
  local c = {}
  for k, v in next, t do c[k] = v end
  return c
end
--- A traversal with an early return at a branch larger than `most`.
local function walk(node, most)
  local s = 0
  for key, child in next, node do
    if type(child) == 'table' then s = s + walk(child, most) else s = s + child end
    if s > most then return s end
  end
  return s
end
--- Whether no number in a tree is larger, with early returns from two loops.
local function within(node, most, known)
  if known[node] ~= nil then return known[node] end
  known[node] = true
  for key, child in next, node do
    for _, part in ipairs{key, child} do
      local kind = type(part)
      local fine = kind == 'string' or kind == 'number' and part <= most or
        kind == 'table' and within(part, most, known)
      if not fine then
        known[node] = false
        return false
      end
    end
  end
  return true
end
local function grow(depth, seed)
  local node = {}
  for k = 1, seed % 4 + 1 do
    if depth > 0 and (seed + k) % 3 > 0 then node['n' .. k] = grow(depth - 1, seed + k * 7)
    else node[k] = (seed * k) % 11 end
  end
  return node
end
]]

local function source_of(seed)
  draws.seed(seed)
  return ('%slocal function f(a, b, seed)\n' ..
    '  local c, d, n, i, key, text, break_it = 1, 2, 0, seed, "x", "t", false\n' ..
    '  local list, named, tree = {1, 2, 3}, {x = 1, y = 2, z = b}, grow(3, seed)\n  do %s end\n' ..
    '  return a, b, c, d, n, list, named, text\nend\nreturn f'):format(prelude, block(3, between(2, 5)))
end

local rounds = 40
--- Runs a function several times; returns the results as one text.
local function results(f, seed)
  local out = {}
  for round = 1, rounds do
    out[round] = shown{f((round * 37 % 23) - 4, round * 0.75, round % 5 + seed % 7)}
  end
  return table.concat(out, '\n')
end
jit.off(results)

t.test(('%d random functions from seed %d'):format(functions, first_seed), function()
  for seed = first_seed, first_seed + functions - 1 do
    local source = source_of(seed)
    local chunk = assert(loadstring(source))
    jit.off(chunk, true)
    local want, got = results(chunk(), seed), results(assert(loadstring(source))(), seed)
    if want ~= got then
      print(source)
      error(('seed %d: compiled it gives other results'):format(seed), 0)
    end
  end
end)

-- ---- functions of the library ------------------------------------------------------------------------------

--- Functions of the library, with random arguments.
local cases = {}
local function random_table(depth)
  local x = {}
  for _ = 1, below(6) do
    local key = chance(50) and between(1, 8) or one_of{'x', 'y', 'loss', 'k' .. below(9)}
    x[key] = depth > 0 and chance(40) and random_table(depth - 1) or one_of{below(100), below(1000) / 7, 'text', true}
  end
  return x
end
local function random_numbers(n)
  local list = {}
  for i = 1, n do list[i] = (below(20001) - 10000) / one_of{1, 7, 1000, 1e-3} end
  return list
end

function cases.sorted_keys() return util.sorted_keys(random_table(1)) end
function cases.is_list() return util.is_list(random_table(1)) end
function cases.map_leaves() return util.map_leaves(random_table(3), function(x) return tostring(x) .. '!' end) end
function cases.scalar() return util.scalar({{below(9)}}) end
function cases.number_text() return util.number_text(random_numbers(1)[1], between(2, 6)) end
function cases.duration_text() return util.duration_text(below(1e6) / one_of{1, 1e3, 1e6}) end
function cases.wrap() return util.wrap(('word '):rep(below(40)), '  ', between(20, 60)) end
function cases.truncate() return util.truncate(('long'):rep(below(20)), between(5, 30)) end
function cases.ticks()
  local lo = random_numbers(1)[1]
  return require('mtorch.extras.plot.scale').ticks(lo, lo + between(1, 1000) / 8, between(2, 9))
end
function cases.extent() return {require('mtorch.extras.plot.scale').extent({random_numbers(between(1, 20))})} end
function cases.polyline()
  local n = between(2, 200)
  local function same(x) return x end
  return {require('mtorch.extras.plot.scale').polyline(mt.range(1, n):tolist(), random_numbers(n), same, same, 1, 50)}
end
function cases.packed() return require('mtorch.data.copy').pack{set = random_table(3)}.values end
function cases.batches()
  local set = {size = function() return 9 end, get = function(_, i) return i * 2, {y = i} end}
  local loader, out = mt.data.DataLoader(set, {batch_size = between(1, 4), shuffle = chance(50), seed = below(99)}), {}
  for x, y in loader:iter() do out[#out + 1] = {x, y.y} end
  return out
end
function cases.json() return mt.json.decode(mt.json.encode(random_table(2))) end
function cases.modules()
  mt.manual_seed(below(99))
  local net = mt.nn.Sequential(mt.nn.Linear(3, between(1, 4)), mt.nn.Tanh())
  local names = {}
  for name, p in net:named_parameters() do names[#names + 1] = {name, p} end
  return names, net:state_dict()
end

-- LuaJIT's compiler is off for the first results, so that these functions are not compiled before.
local names = util.sorted_keys(cases)
local function all_results(repeats)
  local out = {}
  for _, name in ipairs(names) do
    draws.seed(#name)
    for k = 1, repeats do
      local ok, result = pcall(cases[name])
      out[#out + 1] = ('%s %d: %s'):format(name, k, ok and shown(result) or tostring(result))
    end
  end
  return out
end
jit.off(all_results)
t.test('functions of the library', function()
  jit.off()
  local want = all_results(60)
  jit.on()
  for _ = 1, 3 do
    for i, text in ipairs(all_results(60)) do t.eq(text, want[i]) end
  end
end)
t.eq(#held, 25)
t.finish()
