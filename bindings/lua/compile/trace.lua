-- trace.lua -- calls a Lua function with symbols for numbers, and so makes an expression program of it
--
-- The function itself is not touched: a clone of it runs, whose globals and upvalues are stand-ins.
-- Symbols and stand-ins for captured tables are cdata, since Lua asks cdata, unlike tables, when they
-- are compared with numbers, or their length is taken. A comparison of symbols chooses: the function is
-- run once for each way through it, and the ways are joined by `where`.
local ffi = require 'ffi'
local core = require 'mtorch.core'
local mt = require 'mtorch'
local loops = require 'mtorch.compile.loops'
local refuse = require 'mtorch.compile.refuse'
local parts = core.compile()

local trace = {sources = setmetatable({}, {__mode = 'k'})} -- a compiled function -> what it was compiled from

ffi.cdef 'typedef struct { int32_t id; } mtorch_symbol; typedef struct { int32_t id; } mtorch_captured;'
local Symbol, Captured = ffi.typeof 'mtorch_symbol', ffi.typeof 'mtorch_captured'
local getinfo, getupvalue, setupvalue = debug.getinfo, debug.getupvalue, debug.setupvalue

local most_paths, most_decisions = 64, 24
local session -- of the trace under way
local Session = {}
Session.__index = Session

local function is_symbol(x) return ffi.istype(Symbol, x) end
local function is_captured(x) return ffi.istype(Captured, x) end

--- The line of the user's function that is running.
local function line()
  for level = 3, 40 do
    local info = getinfo(level, 'Sl')
    if not info then return 0 end
    if info.currentline > 0 and info.source:sub(1, 8) ~= '@mtorch/' then return info.currentline end
  end
  return 0
end

local function name_of_captured(x) return is_captured(x) and session.tables[x.id].name end
local function id_of(x)
  local kind = type(x)
  if is_symbol(x) then return x.id end
  if kind == 'number' or kind == 'boolean' then return parts.constant(session.builder, x) end
  local captured = name_of_captured(x)
  local missing = kind == 'nil' and session.missing
  core.fail('arithmetic on %s; a compiled function calculates with numbers%s', captured and
    ("the captured table '%s'"):format(captured) or core.describe(x), missing and
    (" ('%s' is nil)"):format(missing) or '')
end

local operations = setmetatable({}, {__index = function(self, name)
  local id, inputs, parameters = parts.operation(name)
  local found = id and {id = id, inputs = inputs, parameters = parameters, name = name} or false
  rawset(self, name, found)
  return found
end})

--- The value of an operation: a symbol, or the number or boolean that it is.
local function operation(op, ...)
  if not session then core.fail('%s: a symbol of a trace that has ended', op.name) end
  local a, b, c = ...
  local n = op.inputs
  local id
  if n == 1 then id = parts.op(session.builder, op.id, line(), id_of(a), select(2, ...))
  elseif n == 2 then id = parts.op(session.builder, op.id, line(), id_of(a), id_of(b), select(3, ...))
  else id = parts.op(session.builder, op.id, line(), id_of(a), id_of(b), id_of(c), select(4, ...)) end
  local constant, is_bool = parts.ask(session.builder, id)
  if constant ~= nil then return constant end
  local symbol = Symbol(id)
  if is_bool then session.bools[id] = true end
  return symbol
end

--- Which way this path takes where a bool decides.
local function decide(condition)
  if type(condition) == 'boolean' then return condition end
  local s = session
  local known = s.decided[condition.id]
  if known ~= nil then return known end
  s.position = s.position + 1
  if s.position > most_decisions then
    core.fail('it decides more than %d times on one path, at last in line %d; a loop must not end where an element ' ..
      'says so: use %s', most_decisions, line(), refuse.instead)
  end
  local choice = s.choices[s.position]
  if choice == nil then choice = true end
  s.choices[s.position], s.conditions[s.position] = choice, condition.id
  s.decided[condition.id] = choice
  return choice
end

local function op(name) return operations[name] end
local function where(c, a, b) return operation(op 'where', c, a, b) end

--- Lua's operators take numbers, no booleans.
local function arithmetic(name)
  local of = op(name)
  return function(a, b)
    if type(a) == 'boolean' or type(b) == 'boolean' then
      core.fail('arithmetic on a boolean; choose a number by it: condition and 1 or 0')
    end
    return (operation(of, a, b))
  end
end

--- An operation as mt has it; its answers, such as mt.isnan's, choose the way as comparisons do.
local function function_of(of)
  return function(...)
    local n = select('#', ...)
    if n < of.inputs or n > of.inputs + of.parameters then
      local most = of.parameters > 0 and (' to %d'):format(of.inputs + of.parameters) or ''
      core.fail('%s takes %d%s number%s, got %d', of.name, of.inputs, most, (of.inputs > 1 or of.parameters > 0) and 's'
        or '', n)
    end
    for i = of.inputs + 1, n do
      if is_symbol((select(i, ...))) then
        core.fail('%s: argument %d is a parameter, the same for all elements; it can be a plain number alone',
          of.name, i)
      end
    end
    local y = operation(of, ...)
    if is_symbol(y) and session.bools[y.id] then return (decide(y)) end
    return y
  end
end

local meta = {
  __add = arithmetic 'add', __sub = arithmetic 'sub', __mul = arithmetic 'mul', __div = arithmetic 'div',
  __pow = arithmetic 'pow',
  __unm = function(a) return (operation(op 'neg', a)) end,
  -- a - floor(a / b) * b, as LuaJIT has it
  __mod = function(a, b)
    local whole = operation(op 'floor', operation(op 'div', a, b))
    return (operation(op 'sub', a, operation(op 'mul', whole, b)))
  end,
  __lt = function(a, b) return (decide(operation(op 'lt', a, b))) end,
  __le = function(a, b) return (decide(operation(op 'le', a, b))) end,
  __eq = function(a, b)
    local function is_number(x) return type(x) == 'number' or is_symbol(x) end
    if not is_number(a) or not is_number(b) then return false end
    return (decide(operation(op 'eq', a, b)))
  end,
  __concat = function() core.fail('a number that is being traced cannot be made text') end,
  __tostring = function() return 'a number that is being traced' end,
  __call = function() core.fail('a number is called as a function') end,
  __newindex = function() core.fail('a number has no fields; keep values in locals') end,
}
--- x:relu() and its kin.
function meta.__index(_, key)
  if type(key) ~= 'string' then
    core.fail('an argument is one element, a number, and has no [%s]; give a neighbour as a tensor of its own',
      is_symbol(key) and 'i' or tostring(key))
  end
  local of = operations[key]
  if not of then
    local of_tensors = pcall(function() return mt.tensor(0)[key] end)
    core.fail("an element is a number and has no '%s'%s", key, of_tensors and '; tensors have, outside' or '')
  end
  return function_of(of)
end
ffi.metatype(Symbol, meta)

-- ---- math.* of symbols -----------------------------------------------------------------------------

local symbolic = {} -- Lua's function -> that of symbols
local function any_symbol(...)
  for i = 1, select('#', ...) do
    if is_symbol((select(i, ...))) then return true end
  end
  return false
end
local function define(name, f)
  local plain = math[name]
  symbolic[plain] = function(...)
    if not any_symbol(...) then return plain(...) end
    return (f(...))
  end
end
for name, other in pairs {exp = 'exp', log10 = 'log10', sin = 'sin', cos = 'cos', tan = 'tan', asin = 'asin',
  acos = 'acos', atan = 'atan', sinh = 'sinh', cosh = 'cosh', tanh = 'tanh', sqrt = 'sqrt', abs = 'abs',
  floor = 'floor', ceil = 'ceil', pow = 'pow', fmod = 'fmod', atan2 = 'atan2', deg = 'rad2deg', rad = 'deg2rad'} do
  local of = op(other)
  define(name, function(a, b)
    if of.inputs == 1 then return operation(of, a) end
    return operation(of, a, b)
  end)
end
define('log', function(x, base)
  local y = operation(op 'log', x)
  return base and operation(op 'div', y, symbolic[math.log](base)) or y
end)
-- What LuaJIT's interpreter does with NaN and zeros of both signs.
local function fold(name)
  return function(first, ...)
    for i = 1, select('#', ...) do
      local x = select(i, ...)
      first = where(operation(op(name), first, x), first, x)
    end
    return first
  end
end
define('max', fold 'gt')
define('min', fold 'lt')
define('modf', function(x) return operation(op 'trunc', x) end)
symbolic[math.modf] = function(x)
  if not is_symbol(x) then return math.modf(x) end
  local whole = operation(op 'trunc', x)
  local zero = operation(op 'copysign', 0, x) -- of whole numbers and infinities, as LuaJIT has it
  return whole, (where(operation(op 'eq', x, whole), zero, operation(op 'sub', x, whole)))
end
define('ldexp', function(m, e) return operation(op 'mul', m, operation(op 'exp2', e)) end)
symbolic[math.randomseed] = function()
  core.fail('math.randomseed in a compiled function: it runs once for all elements; mt.manual_seed seeds tensors')
end
symbolic[math.random] = function()
  core.fail('math.random in a compiled function: it runs once for all elements; give it a tensor of mt.rand')
end
symbolic[math.frexp] = function() core.fail('math.frexp cannot be compiled; math.floor and math.log can') end

local math_of_symbols = setmetatable({}, {__index = function(_, key)
  local plain = math[key]
  return symbolic[plain] or plain
end, __newindex = function() core.fail('a compiled function changes math') end})

--- mt.relu(x) and its kin; other names as they are.
local functions_of_mt = setmetatable({}, {__index = function(self, key)
  local of = type(key) == 'string' and operations[key]
  if not of then
    core.fail('mt.%s is no function of numbers; a compiled function can use those of one element, such as mt.relu ' ..
      'and mt.sigmoid', tostring(key))
  end
  local f = function_of(of)
  rawset(self, key, f)
  return f
end, __newindex = function() core.fail('a compiled function changes mt') end})

-- ---- what Lua's own functions do with symbols and captured tables -------------------------------------

local function contents(t) return session.tables[t.id] end
symbolic[type] = function(x)
  return is_symbol(x) and 'number' or is_captured(x) and 'table' or type(x)
end
local plain_tonumber = refuse.guarded(tonumber, 'tonumber', is_symbol, name_of_captured)
symbolic[tonumber] = function(x, ...)
  if is_symbol(x) then return x end
  return (plain_tonumber(x, ...))
end
symbolic[error] = function(message)
  core.fail('it raises an error%s: %s', session.position > 0 and
    ', which no single element can; return a value such as 0 / 0' or '', tostring(message))
end
symbolic[assert] = function(condition, ...)
  if condition then return condition, ... end
  symbolic[error]((...) or 'assertion failed!')
end
symbolic[next] = function(t, key)
  if not is_captured(t) then return next(t, key) end
  local following = next(contents(t).value, key)
  if following ~= nil then return following, t[following] end
end
symbolic[pairs] = function(t)
  if not is_captured(t) then return pairs(t) end
  return symbolic[next], t, nil
end
symbolic[ipairs] = function(t)
  if not is_captured(t) then return ipairs(t) end
  return function(_, i)
    if t[i + 1] ~= nil then return i + 1, t[i + 1] end
  end, t, 0
end
symbolic[unpack] = function(t, i, j)
  if not is_captured(t) then return unpack(t, i, j) end
  local list = {}
  for k = i or 1, j or #t do list[k] = t[k] end
  return unpack(list, i or 1, j or #t)
end
for _, f in ipairs {print, io.write} do
  symbolic[f] = function()
    core.fail('%s in a compiled function: it runs once for all elements; print the result', refuse.name_of(f))
  end
end
symbolic[tostring] = function(x)
  if is_symbol(x) then core.fail 'a number that is being traced cannot be made text' end
  return tostring(x)
end

-- ---- captured values: numbers are parameters, the rest are guards --------------------------------------

--- What a captured value is inside the clone. `read` reads it again; `where_from` names it.
function Session:stand_in(value, read, where_from)
  local kind = type(value)
  if kind == 'number' then
    if self.frozen == true or self.frozen == where_from then
      self:guard(read, value, where_from)
      return value
    end
    local known = self.known[where_from]
    if known then return known end
    local k = #self.numbers + 1
    self.numbers[k] = {read = read, name = where_from}
    local symbol = Symbol(parts.leaf(self.builder, 'number', self.given + k - 1))
    self.known[where_from] = symbol
    return symbol
  elseif kind == 'table' then
    if rawequal(value, mt) then return functions_of_mt end
    if rawequal(value, math) then return math_of_symbols end
    return self:captured(value, read, where_from)
  elseif mt.is_tensor(value) then
    if value:dim() ~= 0 then
      core.fail("the captured tensor '%s' is %s; only a 0-d tensor can be captured, give others as arguments",
        where_from, tostring(value.shape))
    end
    return self:operand(read, where_from)
  end
  self:guard(read, value, where_from)
  if kind == 'nil' then self.missing = where_from end
  if kind == 'function' then return self:function_of(value, where_from) end
  return value
end

function Session:guard(read, value, where_from)
  if self.guarded[where_from] then return end
  self.guarded[where_from] = true
  self.guards[#self.guards + 1] = {read = read, value = value, name = where_from}
end

function Session:operand(read, where_from)
  local known = self.known[where_from]
  if known then return known end
  self.operands[#self.operands + 1] = {read = read, name = where_from}
  local symbol = Symbol(parts.leaf(self.builder, 'input', self.inputs + #self.operands - 1))
  self.known[where_from] = symbol
  return symbol
end

function Session:captured(value, read, where_from)
  local known = self.known[where_from]
  if known then return known end
  local id = #self.tables + 1
  self.tables[id] = {value = value, read = read, name = where_from, fields = {}}
  local stand_in = Captured(id)
  self.known[where_from] = stand_in
  return stand_in
end

local function field_name(name, key)
  if type(key) == 'string' then return name .. '.' .. key end
  return ('%s[%s]'):format(name, tostring(key))
end
ffi.metatype(Captured, {
  __index = function(self, key)
    if not session then core.fail('a captured table of a trace that has ended') end
    local t = contents(self)
    if is_symbol(key) then
      core.fail("the captured table '%s' is indexed by an element; make a tensor of it and pick outside, by " ..
        'index_select', t.name)
    end
    local value = t.value[key]
    local read = t.read
    return (session:stand_in(value, function()
      local now = read()
      if type(now) == 'table' then return now[key] end
    end, field_name(t.name, key)))
  end,
  __newindex = function(self, key)
    core.fail("a compiled function writes to the captured '%s'; it must have no effects, return the value instead",
      field_name(contents(self).name, is_symbol(key) and 'i' or key))
  end,
  __len = function(self)
    local t = contents(self)
    local read, n = t.read, #t.value
    session:guard(function()
      local now = read()
      return type(now) == 'table' and #now or nil
    end, n, '#' .. t.name)
    return n
  end,
  __tostring = function(self) return contents(self).name end,
  __call = function(self) core.fail("the captured '%s' is called; a compiled function can call functions of numbers",
    contents(self).name) end,
})

--- The function of symbols for a captured function: math's and mt's have one; a Lua function is cloned.
function Session:function_of(f, name)
  if symbolic[f] then return symbolic[f] end
  if trace.sources[f] then return self:clone(trace.sources[f], name) end
  local signature = core.entry(f)
  local called = signature and signature:match '^[%w_]+'
  if called then
    return operations[called] and functions_of_mt[called] or function() return functions_of_mt[called] end
  end
  local info = getinfo(f, 'S')
  if info.what == 'C' or info.source:sub(1, 8) == '@mtorch/' then
    return refuse.guarded(f, name, is_symbol, name_of_captured)
  end
  return self:clone(f, name)
end

--- A copy of a Lua function with the same lines, whose upvalues and globals are stand-ins.
function Session:clone(f, name)
  if self.clones[f] then return self.clones[f] end
  local clone = parts.clone(f)
  self.clones[f] = clone
  local env = getfenv(f)
  setfenv(clone, setmetatable({}, {
    __index = function(_, key)
      local value = env[key]
      if symbolic[value] then return symbolic[value] end
      return (self:stand_in(value, function() return env[key] end, tostring(key)))
    end,
    __newindex = function(_, key)
      core.fail("a compiled function writes to the global '%s'; it must have no effects (is a local missing?)",
        tostring(key))
    end}))
  local set = {}
  for i = 1, getinfo(f, 'u').nups do
    local upvalue, value = getupvalue(f, i)
    if upvalue == '' then upvalue = ('upvalue %d'):format(i) end
    local stand_in = self:stand_in(value, function() return (select(2, getupvalue(f, i))) end,
      name == '' and upvalue or upvalue)
    setupvalue(clone, i, stand_in)
    set[i] = {name = upvalue, value = stand_in}
  end
  self.written[#self.written + 1] = {clone = clone, set = set}
  return clone
end

--- An upvalue that the function assigned: only the clone's has changed.
function Session:check_upvalues()
  for _, w in ipairs(self.written) do
    for i, u in ipairs(w.set) do
      local _, now = getupvalue(w.clone, i)
      if not rawequal(now, u.value) and not (is_symbol(now) and is_symbol(u.value) and now.id == u.value.id) then
        core.fail("a compiled function assigns the captured '%s'; it must have no effects, return the value instead",
          u.name)
      end
    end
  end
end

-- ---- the ways through the function ------------------------------------------------------------------

local pack = core.pack

--- Calls the clone on every path; returns the results of each with what it decided.
function Session:explore(f, arguments)
  local leaves = {}
  self.choices = {}
  repeat
    self.position, self.conditions, self.decided = 0, {}, {}
    local results = pack(f(unpack(arguments, 1, arguments.n)))
    self:check_upvalues()
    leaves[#leaves + 1] = {results = results, conditions = self.conditions, choices = {unpack(self.choices, 1,
      self.position)}, n = self.position}
    if #leaves > most_paths then
      core.fail('it has more than %d ways through it; math.max, math.min and mt.clamp choose without a new one, or ' ..
        'use a grid kernel (mt.kernel)', most_paths)
    end
    local last = self.position
    while last > 0 and not self.choices[last] do last = last - 1 end
    if last > 0 then self.choices[last] = false end
    for i = last + 1, #self.choices do self.choices[i] = nil end
  until last == 0
  return leaves
end

local function kind_of(s, x)
  if is_symbol(x) then return s.bools[x.id] and 'a boolean' or 'a number' end
  local kind = type(x)
  return (kind == 'number' or kind == 'boolean') and 'a ' .. kind or core.describe(x)
end

--- The results of leaves from..to, which agree in the first depth - 1 decisions.
function Session:join(leaves, from, to, depth)
  if from == to then return leaves[from].results end
  local second = from
  while leaves[second].choices[depth] do second = second + 1 end
  local yes, no = self:join(leaves, from, second - 1, depth + 1), self:join(leaves, second, to, depth + 1)
  if yes.n ~= no.n then
    core.fail('it returns %d value%s on one path and %d on another; return as many on each', yes.n, yes.n == 1 and '' or
      's', no.n)
  end
  local joined, condition = {n = yes.n}, Symbol(leaves[from].conditions[depth])
  for k = 1, yes.n do
    local a, b = kind_of(self, yes[k]), kind_of(self, no[k])
    if a ~= b then
      core.fail('result %d is %s on one path and %s on another; both must be numbers, or booleans', k, a, b)
    end
    joined[k] = where(condition, yes[k], no[k])
  end
  return joined
end

--- The program of f for `inputs` tensors among its arguments ('tensor' or 'number' each).
local function attempt(f, kinds, name, frozen)
  local inputs = 0
  for _, kind in ipairs(kinds) do inputs = inputs + (kind == 'tensor' and 1 or 0) end
  local s = setmetatable({builder = parts.builder(), inputs = inputs, given = #kinds - inputs, frozen = frozen,
    numbers = {}, guards = {}, guarded = {}, operands = {}, tables = {}, known = {}, clones = {}, written = {},
    bools = {}}, Session)
  local before = session
  session = s
  local ok, result = pcall(function()
    local arguments, input, number = {n = #kinds}, 0, 0
    for i, kind in ipairs(kinds) do
      if kind == 'tensor' then
        arguments[i], input = Symbol(parts.leaf(s.builder, 'input', input)), input + 1
      else -- numbers of the call come before captured ones
        arguments[i], number = Symbol(parts.leaf(s.builder, 'number', number)), number + 1
      end
    end
    local leaves = s:explore(s:clone(f, ''), arguments)
    local joined = s:join(leaves, 1, #leaves, 1)
    if joined.n == 0 then core.fail('it returns nothing; return what an element becomes') end
    local values = {}
    for k = 1, joined.n do
      local kind = kind_of(s, joined[k])
      if kind ~= 'a number' and kind ~= 'a boolean' then
        core.fail('result %d is %s; a compiled function returns numbers and booleans', k, kind)
      end
      values[k] = id_of(joined[k])
    end
    if #s.numbers > 128 then core.fail('it captures %d numbers; at most 128', #s.numbers) end
    local count = number + #s.numbers
    local program, used, folded, shared, simplified = parts.finish(s.builder, values, inputs + #s.operands, count)
    return {program = program, used = used, results = joined.n, ways = #leaves, folded = folded, shared = shared,
      simplified = simplified}
  end)
  session = before
  if not ok then return nil, result, s end
  result.numbers, result.guards, result.operands = s.numbers, s.guards, s.operands
  result.inputs, result.given = inputs, s.given
  return result
end

--- The place of an error and its text: a line of the function, of one that it calls, or where it begins.
function Session:place_of(text, f)
  local file, number, message = text:match '^([^\n]-):(%d+): (.*)$'
  number = tonumber(number)
  self.clones[f] = true
  for g in pairs(self.clones) do
    local info = getinfo(g, 'S')
    if file == info.short_src and number >= info.linedefined and number <= info.lastlinedefined then
      return file .. ':' .. number, message
    end
  end
  return core.place_of(f), message or text
end

--- Makes a program of a Lua function; name is 'map' and so on. A captured number is a parameter, or where that
--- cannot be traced (the end of a loop) a guard.
function trace.compile(f, kinds, name)
  local found, trouble, s = attempt(f, kinds, name, nil)
  if found then return found end
  local captured = {}
  for _, n in ipairs(s.numbers) do captured[#captured + 1] = n.name end
  for i = 1, #captured + 1 do
    found = #captured > 0 and attempt(f, kinds, name, captured[i] or true)
    if found then return found end
  end
  if loops.are_why(tostring(trouble)) then
    local ok, kernel = pcall(loops.kernel, f, kinds)
    if ok then
      return {kernel = kernel, kinds = kinds, numbers = {}, guards = {}, operands = {}, inputs = -1, given = 0,
        results = 1}
    end
    loops.refuse(name, kernel)
  end
  local place, message = s:place_of(tostring(trouble), f)
  message = refuse.in_words(message)
  local info = getinfo(f, 'u')
  if not info.isvararg and info.nparams > #kinds and message:find '%f[%a]nil%f[%A]' then
    message = ('%s (the function takes %d arguments and got %d)'):format(message, info.nparams, #kinds)
  end
  error(('%s: %s: %s'):format(place, name, message), 0)
end

trace.parts = parts
return trace
