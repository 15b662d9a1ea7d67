-- test_random_functions.lua -- random Lua functions of numbers, compiled by mt.map and mt.zip, are compared with plain
-- Lua on every element, with the same operations run one after the other, and with central differences
--
--   mtorch tests/lua/test_random_functions.lua [functions [first seed | today]]
--
-- The same source also runs on numbers with a bound of their rounding error (4 ulp for each function, 0 for + - * / of
-- exact numbers): samples in which a comparison depends on rounding are skipped.
local ffi = require 'ffi'
local mt = require 'mtorch'
local t = require 'testing'

local functions, first_seed = tonumber(arg[1]) or 1000, tonumber(arg[2]) or 1
if arg[2] == 'today' then first_seed = math.floor(os.time() / 86400) * functions end -- different functions every day

local draws = t.random_source()
local below, between, one_of, chance = draws.below, draws.between, draws.one_of, draws.chance

-- ---- the functions of mt in plain Lua ----------------------------------------------------------------

ffi.cdef 'double log1p(double); double expm1(double); double erf(double); double exp2(double); double ceil(double);'
local exp, huge = math.exp, math.huge
local plain_mt = {
  relu = function(x) return x < 0 and 0 or x end,
  sigmoid = function(x) return 1 / (1 + exp(-x)) end,
  silu = function(x) return x == -huge and 0 or x / (1 + exp(-x)) end,
  softplus = function(x) return x > 20 and x or ffi.C.log1p(exp(x)) end,
  square = function(x) return x * x end,
  sign = function(x) return x > 0 and 1 or x < 0 and -1 or 0 end,
  leaky_relu = function(x, slope) return x > 0 and x or x * slope end,
  clamp = function(x, low, high) return x ~= x and x or math.min(math.max(x, low), high) end,
  log1p = function(x) return ffi.C.log1p(x) end,
  expm1 = function(x) return ffi.C.expm1(x) end,
  erf = function(x) return ffi.C.erf(x) end,
  exp2 = function(x) return ffi.C.exp2(x) end,
  rsqrt = function(x) return 1 / math.sqrt(x) end,
  reciprocal = function(x) return 1 / x end,
  abs = math.abs, exp = exp, tanh = math.tanh, sin = math.sin,
}
-- C's and mtorch's ceil of -0.8 is -0, LuaJIT's 0.
local plain_math = {}
for name, value in pairs(math) do plain_math[name] = value end
function plain_math.ceil(x) return ffi.C.ceil(x) end

-- ---- numbers that carry a bound of their error -------------------------------------------------------

ffi.cdef 'typedef struct { double v, e; } mtorch_test_number;'
local Bounded = ffi.typeof 'mtorch_test_number'
local near = {} -- the error of a sample that a rounding error decides
local path, singular -- the branches of an evaluation; whether it was at a point without a derivative
local rounding = 0 -- of + - * / in ulps: both sides round alike, but the points of a difference do not

local function is_bounded(x) return ffi.istype(Bounded, x) end
local function parts(x)
  if is_bounded(x) then return x.v, x.e end
  return x, 0
end
local function took(what) path[#path + 1] = tostring(what) end

--- Returns the distance of two results of a function for operands within their bounds.
local function apart(v, w)
  if v == w or v ~= v and w ~= w then return 0 end
  local d = math.abs(v - w)
  if not (d < huge) then error(near, 0) end
  return d
end

--- Returns f(a[, b]) with the error bound that follows from those of a and b, plus `ulps` of the result.
local function bounded(f, ulps, a, b)
  local av, ae = parts(a)
  local bv, be = 0, 0
  if type(b) ~= 'nil' then bv, be = parts(b) end
  local v = f(av, bv)
  if v ~= v or v == huge or v == -huge then singular = true end
  local e = 0
  if ae > 0 or be > 0 then
    for s = -1, 1, 2 do
      e = math.max(e, apart(v, f(av + s * ae, bv + be)), apart(v, f(av + s * ae, bv - be)))
    end
    if ulps > 0 and ae + be > 1e-3 then error(near, 0) end -- a period may lie between
    ulps = math.max(ulps, 1)
  end
  if ulps > 0 and v == v and v ~= huge and v ~= -huge then e = e + ulps * (math.abs(v) * 2 ^ -52 + 5e-324) end
  return Bounded(v, e)
end

--- Returns compare(a, b), or raises `near` if rounding may change it.
local function decided(compare, a, b)
  local av, ae = parts(a)
  local bv, be = parts(b)
  if ae + be > 0 and math.abs(av - bv) <= ae + be then error(near, 0) end
  if av ~= bv and math.abs(av - bv) < 1e-9 * math.abs(av) then singular = true end
  local answer = compare(av, bv)
  took(answer)
  return answer
end

--- Adds floor(a / b) to the path, or raises `near` if rounding may change it.
local function quotient(a, b)
  local q = bounded(function(x, y) return x / y end, 0, a, b)
  if math.floor(q.v - q.e) ~= math.floor(q.v + q.e) and q.e > 0 then error(near, 0) end
  took(math.floor(q.v))
  if math.abs(q.v - math.floor(q.v + 0.5)) < 1e-9 * math.max(1, math.abs(q.v)) then singular = true end
end

local exact = {
  __add = function(a, b) return a + b end, __sub = function(a, b) return a - b end,
  __mul = function(a, b) return a * b end, __div = function(a, b) return a / b end,
}
local meta = {
  __unm = function(a) return Bounded(-a.v, a.e) end,
  __mod = function(a, b)
    quotient(a, b)
    return bounded(function(x, y) return x % y end, 0, a, b)
  end,
  __pow = function(a, b)
    if parts(a) == 0 then singular = true end
    return bounded(function(x, y) return x ^ y end, 4, a, b)
  end,
  __lt = function(a, b) return decided(function(x, y) return x < y end, a, b) end,
  __le = function(a, b) return decided(function(x, y) return x <= y end, a, b) end,
  __eq = function(a, b) return decided(function(x, y) return x == y end, a, b) end,
}
for name, f in pairs(exact) do
  meta[name] = function(a, b) return bounded(f, rounding, a, b) end
end
ffi.metatype(Bounded, meta)

-- At this |x| the derivative is infinite.
local edges = {sqrt = 0, atan2 = 0, rsqrt = 0, asin = 1, acos = 1}

--- Returns the functions of `plain` for bounded numbers; functions with kinks record when they are at one.
local function all_bounded(plain, kinks, ulps)
  local made = setmetatable({}, {__index = plain})
  for name, f in pairs(plain) do
    if type(f) == 'function' then
      made[name] = function(a, ...)
        local b, c = ...
        if ulps[name] == 0 and not is_bounded(a) and not is_bounded(b) then return f(a, ...) end
        if kinks[name] then took(kinks[name]((parts(a)), (parts(b)), c)) end
        if name == 'fmod' then quotient(a, b) end
        local edge = edges[name]
        if edge and math.abs(math.abs((parts(a))) - edge) < 1e-9 then singular = true end
        if c then return bounded(function(x) return f(x, b, c) end, ulps[name] or 4, a) end
        if type(b) == 'nil' then return bounded(function(x) return f(x) end, ulps[name] or 4, a) end
        return bounded(f, ulps[name] or 4, a, b)
      end
    end
  end
  return made
end
local function sign(x) return x > 0 and 1 or x < 0 and -1 or x end
local kinks = {abs = sign, relu = sign, sign = sign, leaky_relu = sign, floor = math.floor, ceil = math.ceil,
  clamp = function(x, low, high) return x < low and 1 or x > high and 2 or 0 end,
  softplus = function(x) return x > 20 end}
local ulps_of = {abs = 0, floor = 0, ceil = 0, fmod = 0, relu = 0, sign = 0, square = 0, leaky_relu = 0, clamp = 0,
  sigmoid = 8, silu = 8, rsqrt = 8, softplus = 8} -- 4 of others
local bounded_math, bounded_mt = all_bounded(plain_math, kinks, ulps_of), all_bounded(plain_mt, kinks, ulps_of)
local function fold(better)
  return function(first, ...)
    local computed = is_bounded(first) -- by the compiled function, though the result may be a constant
    for i = 1, select('#', ...) do
      local x = select(i, ...)
      computed = computed or is_bounded(x)
      if better(first, x) then took 'first' else first = x took 'second' end
    end
    return computed and Bounded(parts(first)) or first
  end
end
bounded_math.max = fold(function(a, b) return a > b end)
bounded_math.min = fold(function(a, b) return a < b end)
function bounded_math.modf(x)
  if not is_bounded(x) then return math.modf(x) end
  took((math.modf(x.v)))
  local function fraction(v) return (select(2, math.modf(v))) end
  return bounded(function(v) return (math.modf(v)) end, 0, x), bounded(fraction, 0, x)
end

-- ---- a function ----------------------------------------------------------------------------------------

local unary_math = {'exp', 'log', 'sin', 'cos', 'tanh', 'sqrt', 'abs', 'floor', 'ceil', 'atan', 'tan', 'asin', 'acos',
  'sinh', 'cosh', 'log10', 'deg', 'rad'}
local unary_mt = {'relu', 'sigmoid', 'silu', 'softplus', 'square', 'sign', 'log1p', 'expm1', 'erf', 'exp2', 'rsqrt',
  'reciprocal', 'abs', 'exp', 'tanh', 'sin'}
local straight = {'mt.relu', 'mt.sigmoid', 'mt.silu', 'mt.square', 'mt.exp', 'mt.tanh', 'mt.sin', 'mt.erf', 'mt.abs'}
local constants = {'0.5', '2', '-1.25', '3', '0.1', '1', '-1', '0.75', '1e-3', '7'}

local Maker = {}
Maker.__index = Maker

--- Opens a scope: `names` can be read, and `locals` of them assigned.
function Maker:scope()
  return setmetatable({names = {unpack(self.names)}, locals = {unpack(self.locals)}, lines = {}, indent =
    self.indent .. '  ', root = self.root, count = self.count}, Maker)
end
function Maker:line(text, ...) self.lines[#self.lines + 1] = self.indent .. text:format(...) end
function Maker:name(prefix)
  self.root.count = self.root.count + 1
  return prefix .. self.root.count
end

function Maker:leaf()
  local root = self.root
  local way = below(10)
  if way < 6 or root.straight and way < 8 then return one_of(self.names) end
  if way < 8 then return one_of(root.captured) end
  return one_of(constants)
end

--- Generates a comparison; each may double the paths through the function, so they are few.
function Maker:condition(depth)
  local root = self.root
  root.decisions = root.decisions - root.weight
  local way = below(10)
  if way == 0 then return ('not (%s)'):format(self:condition(depth)) end
  if way == 1 and root.decisions > root.weight then
    return ('(%s %s %s)'):format(self:condition(0), one_of{'and', 'or'}, self:condition(0))
  end
  if way == 2 then return 'flag' end
  local operator = one_of{'<', '<=', '>', '>=', '<', '>', '==', '~='}
  return ('%s %s %s'):format(self:expression(depth), operator, self:expression(0))
end

function Maker:can_decide() return not self.root.straight and self.root.decisions >= self.root.weight end

local kinds = {
  function(self, d) return ('%s + %s'):format(self:factor(d), self:factor(d)) end,
  function(self, d) return ('%s - %s'):format(self:factor(d), self:factor(d)) end,
  function(self, d) return ('%s * %s'):format(self:factor(d), self:factor(d)) end,
  function(self, d) return ('%s * %s + %s'):format(self:factor(d), self:factor(d), self:factor(d)) end,
  function(self, d) return ('-%s'):format(self:factor(d)) end,
  function(self, d)
    local text = self:expression(d)
    if not text:find '%f[%w][abc]%f[%W]' then text = self.names[1] end -- on tensors it is one of a number
    return ('%s(%s)'):format(one_of(straight), text)
  end,
  function(self, d) return ('%s / (%s * %s + 0.5)'):format(self:factor(d), self.names[1], self.names[1]) end,
  function(self, d) return ('%s / %s'):format(self:factor(d), self:factor(d)) end,
  -- functions without an equivalent operation on tensors
  function(self, d) return ('math.%s(%s)'):format(one_of(unary_math), self:expression(d)) end,
  function(self, d) return ('math.%s(%s)'):format(one_of(unary_math), self:expression(d)) end,
  function(self, d) return ('mt.%s(%s)'):format(one_of(unary_mt), self:expression(d)) end,
  function(self, d) return ('%s %% %s'):format(self:factor(d), self:factor(d)) end,
  function(self, d) return ('%s ^ %s'):format(self:factor(d), one_of{'2', '3', '-1', '0.5', '4', '2.5'}) end,
  function(self, d) return ('math.abs(%s) ^ %s'):format(self:expression(d), self:factor(d)) end,
  function(self, d) return ('math.atan2(%s, %s)'):format(self:expression(d), self:expression(d)) end,
  function(self, d) return ('math.fmod(%s, %s)'):format(self:expression(d), self:expression(0)) end,
  function(self, d) return ('mt.leaky_relu(%s, 0.1)'):format(self:expression(d)) end,
  function(self, d) return ('mt.clamp(%s, -1, 1.5)'):format(self:expression(d)) end,
  function(self, d) return ('h1(%s, %s)'):format(self:expression(d), self:expression(0)) end,
  function(self, d) return ('power(%s, %d)'):format(self:expression(d), between(0, 3)) end,
  function(self, d) return ('total(%s, %s, %s)'):format(self:expression(d), self:expression(0), self:leaf()) end,
  function(self, d) return ('(select(2, math.modf(%s)))'):format(self:expression(d)) end,
  -- those that decide
  function(self, d)
    self.root.decisions = self.root.decisions - self.root.weight
    return ('math.%s(%s, %s)'):format(one_of{'max', 'min'}, self:expression(d), self:expression(0))
  end,
  function(self, d)
    return ('(%s and %s or %s)'):format(self:condition(0), self:factor(d), self:factor(0))
  end,
}

function Maker:expression(depth)
  if depth <= 0 then return self:leaf() end
  local n = self.root.straight and 8 or self:can_decide() and #kinds or #kinds - 2
  return kinds[between(1, n)](self, depth - 1)
end
function Maker:factor(depth)
  local text = self:expression(depth)
  return text:find '^[%w_.%[%]]+$' and text or '(' .. text .. ')'
end

local statements = {
  function(self)
    local name = self:name 'v'
    self:line('local %s = %s', name, self:expression(between(1, 3)))
    self.names[#self.names + 1], self.locals[#self.locals + 1] = name, name
  end,
  function(self)
    if #self.locals > 0 then self:line('%s = %s', one_of(self.locals), self:expression(2)) end
  end,
  function(self)
    local name = self:name 's'
    self:line('local %s = %s', name, self:leaf())
    local kind = below(3)
    local steps = one_of{'2', '3', '#list', 'steps'}
    if kind == 0 then self:line('for i = 1, %s do', steps)
    elseif kind == 1 then self:line('for _, i in ipairs(list) do')
    else self:line('for i = %s, 1, -1 do', steps) end
    local inner = self:scope()
    inner.names[#inner.names + 1] = 'i'
    inner:line('%s = %s * %s + %s', name, name, one_of{'0.5', 'k1', '-1'}, inner:expression(1))
    for _, text in ipairs(inner.lines) do self.lines[#self.lines + 1] = text end
    self:line 'end'
    self.names[#self.names + 1], self.locals[#self.locals + 1] = name, name
  end,
  function(self)
    local name = self:name 't'
    self:line('local %s = {%s, x = %s}', name, self:expression(1), self:expression(1))
    self:line('%s.y = %s.x * #%s', name, name, name)
    for _, field in ipairs{'[1]', '.x', '.y'} do self.names[#self.names + 1] = name .. field end
  end,
  function(self)
    local name = self:name 'f'
    local text = self:expression(1):gsub('%f[%w_]' .. self.names[1] .. '%f[^%w_]', 'p', 1)
    self:line('local function %s(p) return %s end', name, text)
    self.names[#self.names + 1] = ('%s(%s)'):format(name, self:leaf())
  end,
  function(self)
    local name, n = self:name 'w', self:name 'n'
    self:line('local %s, %s = %s, 0', name, n, self:leaf())
    self:line(one_of{'repeat %s, %s = %s + %s, %s + 1 until %s >= 2', 'while %6$s < 2 do %s, %s = %s + %s, %s + 1 end'}
      :gsub('%%6%$s', n), name, n, name, self:leaf(), n, n)
    self.names[#self.names + 1] = name
  end,
  -- those that decide
  function(self, results)
    local kinds_of_if = below(3)
    self:line('if %s then', self:condition(1))
    local function body(may_return)
      local inner = self:scope()
      if may_return and chance(60) or #self.locals == 0 then inner:finish(results)
      else inner:line('%s = %s', one_of(self.locals), inner:expression(2)) end
      for _, text in ipairs(inner.lines) do self.lines[#self.lines + 1] = text end
    end
    body(true)
    if kinds_of_if == 0 and self:can_decide() then
      self:line('elseif %s then', self:condition(0))
      body(true)
    elseif kinds_of_if == 1 and #self.locals > 0 then
      self:line 'else'
      body(false)
    end
    self:line 'end'
  end,
  function(self)
    local name = self:name 'c'
    self:line('local %s = %s', name, self:condition(1))
    self.names[#self.names + 1] = ('(%s and %s or %s)'):format(name, self:leaf(), self:leaf())
  end,
  function(self)
    local name = self:name 'b'
    self.root.decisions = self.root.decisions - 2 * self.root.weight
    self:line('local %s = %s', name, self:leaf())
    self:line('for i = 1, 3 do if %s > i then break end %s = %s + i * %s end', name, name, name, self.names[1])
    self.names[#self.names + 1], self.locals[#self.locals + 1] = name, name
  end,
}

function Maker:finish(results)
  local list = {}
  for k = 1, results do list[k] = self:expression(between(1, 3)) end
  self:line('return %s', table.concat(list, ', '))
end

local prelude = [[
local number = number or function(x) return x end
local k1, k2, steps, flag = number(0.75), number(-1.5), 2, true
local cfg, list = {k = number(1.25), deep = {k = number(-0.5)}, n = number(2)}, {number(1), number(0.5)}
local function h1(x, y) return x * 0.5 + y end
local function power(x, n) if n == 0 then return 1 end return x * power(x, n - 1) end
local function total(...)
  local s = 0
  for i = 1, select('#', ...) do s = s + (select(i, ...)) end
  return s
end
local function set()
  k1, k2, steps, flag = number(-0.25), number(3), 3, false
  cfg.k, cfg.n, cfg.deep, list[3] = number(2), number(3), {k = number(1.5)}, number(2)
end
]]

--- Generates the source of a function of 1 to 3 numbers with one or two results.
local function generate(seed)
  draws.seed(seed)
  local arguments = {unpack({'a', 'b', 'c'}, 1, one_of{1, 1, 2, 2, 3})}
  local self = setmetatable({names = arguments, locals = {}, lines = {}, indent = '  ', count = 0, decisions = 4,
    weight = 1, captured = {'k1', 'k2', 'cfg.k', 'cfg.deep.k', 'list[1]', '#list', 'cfg.n'},
    straight = chance(25)}, Maker)
  self.root = self
  local n, results = #arguments, one_of{1, 1, 1, 2}
  self.names = {unpack(arguments)}
  if not self.straight then
    for _ = 1, between(0, 5) do
      statements[between(1, self:can_decide() and #statements or #statements - 3)](self, results)
    end
  end
  self:finish(results)
  return {inputs = n, results = results, straight = self.straight, seed = seed, text = prelude ..
    ('local function f(%s)\n%s\nend\n'):format(table.concat(arguments, ', '), table.concat(self.lines, '\n'))}
end

-- ---- what is compared ----------------------------------------------------------------------------------

local chosen = {0, 1, -1, 2, 0.5}
--- Returns n numbers for each input, some of them with few digits.
local function samples(p, n)
  local lists = {}
  for k = 1, p.inputs do
    lists[k] = {}
    for i = 1, n do
      lists[k][i] = chance(15) and one_of(chosen) or (below(2 ^ 20) / 2 ^ 20 - 0.5) * one_of{2, 6, 6, 20}
    end
  end
  return lists
end

local function loaded(p, names)
  local chunk = assert(loadstring(p.text .. 'return f, set', '=random'))
  return setfenv(chunk, setmetatable(names, {__index = _G}))()
end

local function pack(...) return {n = select('#', ...), ...} end
local function at(lists, i)
  local x = {}
  for k, list in ipairs(lists) do x[k] = list[i] end
  return x
end

--- Evaluates f at x with bounded numbers, or nil if rounding may change a branch; also the path, and if f is smooth.
local function bounded_at(f, x)
  local b = {}
  for k, v in ipairs(x) do b[k] = Bounded(v, 0) end
  path, singular = {}, false
  local results = pack(pcall(f, unpack(b)))
  if not results[1] then
    if rawequal(results[2], near) then return end
    error(results[2], 0)
  end
  table.remove(results, 1)
  return results, table.concat(path, ' '), not singular
end

local function as_number(x) return type(x) == 'boolean' and (x and 1 or 0) or x end

local compared, left_out, slopes, refused = 0, 0, 0, 0

local function compare_values(p, plain, tracked, lists, results)
  for i = 1, #lists[1] do
    local x = at(lists, i)
    local expected, known = pack(plain(unpack(x))), bounded_at(tracked, x)
    for k = 1, known and p.results or 0 do
      local v, e = parts(as_number(known[k]))
      local found, right = results[k][i], as_number(expected[k])
      local same = found == right or found ~= found and right ~= right or
        math.abs(found - right) <= 2 * e + (e > 0 and 1e-300 or 0)
      if v ~= right and (v == v or right == right) then
        error(('the two evaluations of plain Lua differ: %.17g, %.17g'):format(v, right), 0)
      end
      if not same then
        error(('result %d at (%s): %.17g, plain Lua has %.17g, within %g'):format(k, table.concat(x, ', '), found,
          right, 2 * e), 0)
      end
    end
    if known then compared = compared + 1 else left_out = left_out + 1 end
  end
end

--- Returns d(result k) / d(input j) at x by central differences, with an error bound, or nil.
local function slope_at(f, x, j, k)
  local function step(h)
    local y = {unpack(x)}
    y[j] = y[j] + h
    rounding = 1
    local results, way, smooth = bounded_at(f, y)
    rounding = 0
    if results and smooth then return parts(results[k]), select(2, parts(results[k])), way end
  end
  local v, _, way = step(0)
  local h = 1e-4 * math.max(1, math.abs(x[j]))
  local estimate, noise = {}, 0
  for s = 1, 3 do
    local up, e1, way1 = step(h)
    local down, e2, way2 = step(-h)
    if not v or not up or not down or way1 ~= way or way2 ~= way then return end
    estimate[s] = (up - down) / (2 * h)
    noise = math.max(noise, (e1 + e2 + 4e-16 * (math.abs(up) + math.abs(down))) / (2 * h))
    h = h / 2
  end
  local slope = (4 * estimate[2] - estimate[1]) / 3
  local error_bound = math.abs(estimate[2] - estimate[1]) + 4 * math.abs(estimate[3] - estimate[2]) + 2 * noise
  if not (error_bound < 1e-2 * math.max(1, math.abs(slope))) then return end
  return slope, error_bound + 1e-7 * math.abs(slope)
end

local function compare_slopes(p, tracked, compiled, lists)
  for k = 1, p.results do
    local inputs = {}
    for j, list in ipairs(lists) do inputs[j] = mt.tensor(list, {dtype = 'float64'}):requires_grad_() end
    local y = select(k, compiled(unpack(inputs)))
    local differentiable = y.dtype ~= 'bool' and y.requires_grad
    if differentiable then y:sum():backward() end
    for j = 1, y.dtype ~= 'bool' and p.inputs or 0 do
      local g = differentiable and inputs[j].grad and inputs[j].grad:tolist()
      for i = 1, 4 do
        local x = at(lists, i)
        local slope, bound = slope_at(tracked, x, j, k)
        local found = g and g[i] or 0
        if slope then
          slopes = slopes + 1
          if not (math.abs(found - slope) <= bound) then
            error(('the slope of result %d by input %d at (%s): %.12g, central differences say %.12g, within %g')
              :format(k, j, table.concat(x, ', '), found, slope, bound), 0)
          end
        end
      end
    end
  end
end

local function same_bits(what, x, y)
  if x.dtype == 'bool' then x, y = x:long(), y:long() end
  local equal = x:eq(y):logical_or(x:ne(x):logical_and(y:ne(y)))
  if not equal:all() then error(('%s: %s, not %s'):format(what, tostring(x), tostring(y)), 0) end
end

--- Compares other layouts of the same numbers, with and without broadcasting.
local function compare_layouts(p, compiled, dtype)
  local shapes = {{4, 6}, {6}, {4, 1}}
  local odd, whole = {}, {}
  for k = 1, p.inputs do
    local list = samples({inputs = 1}, 24)[1]
    local x = mt.tensor(list, {dtype = dtype}):reshape(6, 4):t()
    if k > 1 and chance(50) then
      x = #shapes[k] == 1 and x:select(1, 2) or x:narrow(2, 3, 1)
    elseif chance(30) then
      x = mt.cat({x, x}, 2):slice(2, 1, 12, 2)
    end
    odd[k], whole[k] = x, x:expand(4, 6):contiguous()
  end
  local found, expected = pack(compiled(unpack(odd))), pack(compiled(unpack(whole)))
  for k = 1, p.results do same_bits('another layout, result ' .. k, found[k], expected[k]) end
end

--- Compares machine code with the interpreter, which runs small inputs, bit for bit, with derivatives.
local function compare_machine_code(p, compiled, lists, dtype)
  local small, large = {}, {}
  for k, list in ipairs(lists) do
    small[k] = mt.tensor(list, {dtype = dtype})
    large[k] = small[k]:expand(700, #list):contiguous():requires_grad_()
    small[k]:requires_grad_()
  end
  local found, expected = pack(compiled(unpack(large))), pack(compiled(unpack(small)))
  for k = 1, p.results do
    same_bits('machine code, result ' .. k, found[k]:detach(), expected[k]:detach():expand(found[k].shape))
  end
  if not found[1].requires_grad then return end
  found[1]:sum():backward()
  expected[1]:sum():backward()
  for k, x in ipairs(large) do
    if x.grad then same_bits('machine code, slope ' .. k, x.grad, small[k].grad:expand(700, #lists[1])) end
  end
end

--- Compares branch-free functions of float32 with the same operations on tensors, bit for bit.
local function compare_eager(p, compiled, lists)
  local f, inputs = loaded(p, {mt = mt}), {}
  for k, list in ipairs(lists) do inputs[k] = mt.tensor(list) end
  local found, expected = pack(compiled(unpack(inputs))), pack(f(unpack(inputs)))
  for k = 1, p.results do
    if mt.is_tensor(expected[k]) then
      same_bits('float32, result ' .. k, found[k], expected[k]:expand(#lists[1]))
    end
  end
end

local function as_lists(results)
  for k = 1, results.n do
    local y = results[k]
    results[k] = (y.dtype == 'bool' and y:long() or y):tolist()
  end
  return results
end

local function check(p)
  local f, change = loaded(p, {mt = mt})
  local plain, change_plain = loaded(p, {mt = plain_mt, math = plain_math})
  local function number(x) return Bounded(x, 0) end
  local tracked, change_tracked = loaded(p, {mt = bounded_mt, math = bounded_math, number = number})
  jit.off(plain, true) -- LuaJIT's compiled math.max handles NaN differently
  local compiled = (p.inputs == 1 and mt.map or mt.zip)(f)
  local lists = samples(p, 12)
  for round = 1, 2 do
    local inputs = {}
    for k, list in ipairs(lists) do inputs[k] = mt.tensor(list, {dtype = 'float64'}) end
    compare_values(p, plain, tracked, lists, as_lists(pack(compiled(unpack(inputs)))))
    if round == 1 then
      compare_slopes(p, tracked, compiled, lists)
      compare_layouts(p, compiled, one_of{'float32', 'float64'})
      if p.straight then compare_eager(p, compiled, lists) end
      if chance(30) then compare_machine_code(p, compiled, lists, one_of{'float32', 'float64'}) end
    end
    change() -- captured numbers, tables and booleans
    change_plain()
    change_tracked()
  end
end

local function script_of(p, message)
  local names = {unpack({'a', 'b', 'c'}, 1, p.inputs)}
  local inputs = {}
  for k, list in ipairs(samples(p, 6)) do
    inputs[k] = ("local %s = mt.tensor({%s}, {dtype = 'float64'}):requires_grad_()"):format(names[k],
      table.concat(list, ', '))
  end
  local given = table.concat(names, ', ')
  return ([[
-- mtorch tests/lua/test_random_functions.lua 1 %d
-- %s
local mt = require 'mtorch'
%s%s
print(mt.%s(f)(%s))
for i = 1, %s:numel() do print(pcall(f, %s)) end]]):format(p.seed, message:gsub('\n', ' '), p.text,
    table.concat(inputs, '\n'), p.inputs == 1 and 'map' or 'zip', given, names[1],
    (given:gsub('%a', '%0[i]:item()')))
end

t.test(('%d random functions from seed %d'):format(functions, first_seed), function()
  for seed = first_seed, first_seed + functions - 1 do
    local p = generate(seed)
    local ok, message = pcall(check, p)
    message = tostring(message)
    if not ok and (message:find 'ways through' or message:find 'decides more than' or message:find 'divide it') then
      refused = refused + 1
    elseif not ok then
      print(script_of(p, message))
      error(('seed %d: %s'):format(seed, message), 0)
    end
  end
  if refused > functions / 20 then error(refused .. ' functions are too large') end
  if left_out > compared / 2 then error(left_out .. ' samples left out') end
end)
print(('%d samples, %d slopes; %d samples are decided by rounding, %d functions are too large'):format(
  compared, slopes, left_out, refused))
t.finish()
