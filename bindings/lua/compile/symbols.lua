-- symbols.lua -- symbols that represent numbers while a Lua function is traced, and their operations
--
-- Symbols and proxies of captured tables are cdata, because for cdata, unlike tables, Lua calls
-- metamethods for comparisons with numbers and for the length. Each operation on them becomes an
-- operation of the program that the current trace builds (`symbols.session`, trace.lua).
local ffi = require 'ffi'
local core = require 'mtorch.core'
local mt = require 'mtorch'
local lua_functions = require 'mtorch.compile.lua_functions'
local refuse = require 'mtorch.compile.refuse'
local util = require 'mtorch.core.util'
local native = core.compile()

local symbols = {}

ffi.cdef 'typedef struct { int32_t id; } mtorch_symbol; typedef struct { int32_t id; } mtorch_captured;'
local Symbol, Captured = ffi.typeof 'mtorch_symbol', ffi.typeof 'mtorch_captured'

local max_decisions = 24

local function is_symbol(x) return ffi.istype(Symbol, x) end
local function is_captured(x) return ffi.istype(Captured, x) end

--- The current line of the user's function.
local function line()
  local frame = util.user_frame()
  return frame and frame.currentline or 0
end

local function name_of_captured(x) return is_captured(x) and symbols.session.tables[x.id].name end
local function id_of(x)
  local kind = type(x)
  if is_symbol(x) then return x.id end
  if kind == 'number' or kind == 'boolean' then return native.constant(symbols.session.builder, x) end
  local captured = name_of_captured(x)
  local missing = kind == 'nil' and symbols.session.missing
  core.fail('arithmetic on %s; a compiled function calculates with numbers%s', captured and
    ("the captured table '%s'"):format(captured) or core.describe(x), missing and
    (" ('%s' is nil)"):format(missing) or '')
end

local operations = setmetatable({}, {__index = function(self, name)
  local id, inputs, parameters = native.operation(name)
  local found = id and {id = id, inputs = inputs, parameters = parameters, name = name} or false
  rawset(self, name, found)
  return found
end})

--- The result of an operation: a symbol, or a number or boolean if it is constant (unless the trace keeps symbols).
local function operation(op, ...)
  if not symbols.session then core.fail('%s: a symbol of a trace that has ended', op.name) end
  local values = {...}
  for k = 1, op.inputs do values[k] = id_of(values[k]) end
  local id = native.op(symbols.session.builder, op.id, line(), unpack(values, 1, math.max(op.inputs, select('#', ...))))
  local constant, is_bool = native.known(symbols.session.builder, id)
  if constant ~= nil and not symbols.session.keeps_symbols then return constant end
  local symbol = Symbol(id)
  if is_bool then symbols.session.bools[id] = true end
  return symbol
end

--- The branch that the current path takes at a condition.
local function decide(condition)
  if type(condition) == 'boolean' then return condition end
  local s = symbols.session
  if s.keeps_symbols then return (native.known(s.builder, condition.id)) end
  local known = s.decided[condition.id]
  if known ~= nil then return known end
  s.position = s.position + 1
  if s.position > max_decisions then
    s.is_branchy = true
    core.fail('it decides more than %d times on one path, at last in line %d; a loop must not end where an element ' ..
      'says so: use %s', max_decisions, line(), refuse.instead)
  end
  local choice = s.choices[s.position]
  if choice == nil then choice = true end
  s.choices[s.position], s.conditions[s.position] = choice, condition.id
  s.decided[condition.id] = choice
  return choice
end

local function op(name) return operations[name] end
local function where(c, a, b) return operation(op 'where', c, a, b) end

--- Lua's operators take numbers, but not booleans.
local function arithmetic(name)
  local of = op(name)
  return function(a, b)
    core.check(type(a) ~= 'boolean' and type(b) ~= 'boolean',
      'arithmetic on a boolean; choose a number by it: condition and 1 or 0')
    return (operation(of, a, b))
  end
end

--- An operation as in mt; conditions such as mt.isnan choose the branch as comparisons do.
local function function_of(of)
  return function(...)
    local n = select('#', ...)
    if n < of.inputs or n > of.inputs + of.parameters then
      local most = of.parameters > 0 and (' to %d'):format(of.inputs + of.parameters) or ''
      core.fail('%s takes %d%s number%s, got %d', of.name, of.inputs, most, (of.inputs > 1 or of.parameters > 0) and 's'
        or '', n)
    end
    for i = of.inputs + 1, n do
      core.check(not is_symbol((select(i, ...))),
        '%s: argument %d is a parameter, the same for all elements; give it a plain number', of.name, i)
    end
    local y = operation(of, ...)
    if is_symbol(y) and symbols.session.bools[y.id] then return (decide(y)) end
    return y
  end
end

local meta = {
  __add = arithmetic 'add', __sub = arithmetic 'sub', __mul = arithmetic 'mul', __div = arithmetic 'div',
  __pow = arithmetic 'pow',
  __unm = function(a) return (operation(op 'neg', a)) end,
  -- a - floor(a / b) * b, as in LuaJIT; of integers the remainder, which is the same number.
  __mod = function(a, b)
    symbols.session.divides = true
    if symbols.session.whole then return (operation(op 'remainder', a, b)) end
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
  __concat = function() core.fail(refuse.no_text) end,
  __tostring = function() return 'a number that is being traced' end,
  __call = function() core.fail('a number is called as a function; is an operator missing before the bracket?') end,
  __newindex = function() core.fail('a number has no fields; keep values in locals') end,
}
--- x:relu() and similar functions.
function meta.__index(_, key)
  if type(key) ~= 'string' then
    core.fail('an argument is one element, a number, and has no [%s]; give a neighbour as a tensor of its own',
      is_symbol(key) and 'i' or tostring(key))
  end
  local of = operations[key]
  if not of then
    local of_tensors = pcall(function() return mt.tensor(0)[key] end)
    core.fail("an element is a number and has no '%s'%s", key, of_tensors and
      '; tensors have: call it on the result, or use mt.fuse' or '')
  end
  return function_of(of)
end
ffi.metatype(Symbol, meta)

-- ---- math.* of symbols -----------------------------------------------------------------------------

local symbolic = {} -- Lua's function -> the function of symbols
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
for name in pairs(math) do
  local of = op(name)
  if of then
    define(name, function(a, b)
      if of.inputs == 1 then return operation(of, a) end
      return operation(of, a, b)
    end)
  end
end
-- mt's operations, of which comparisons choose no branch
local defined = lua_functions(setmetatable({}, {__index = function(_, name)
  return function(...) return (operation(op(name), ...)) end
end})).math
for name, f in pairs(defined) do
  local short, plain = symbolic[math[name]], math[name]
  symbolic[plain] = function(x, ...)
    if not any_symbol(x, ...) then return plain(x, ...) end
    if short and (...) == nil then return short(x) end
    return f(x, ...)
  end
end
-- Like LuaJIT's interpreter for NaN and for zeros of both signs.
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
symbolic[math.frexp] = function() core.fail('math.frexp cannot be compiled; math.floor and math.log can') end

local math_of_symbols = setmetatable({}, {__index = function(_, key)
  local plain = math[key]
  return symbolic[plain] or plain
end, __newindex = function() core.fail('a compiled function changes math; keep values in locals') end})

--- mt.relu(x) and similar functions; other names are unchanged.
local functions_of_mt = setmetatable({}, {__index = function(self, key)
  local of = type(key) == 'string' and operations[key]
  if not of then
    local _ = mt[key] -- raises the error for an unknown name
    core.fail('mt.%s is not elementwise; a compiled function can use elementwise functions only, such as mt.relu ' ..
      'and mt.sigmoid', tostring(key))
  end
  local f = function_of(of)
  rawset(self, key, f)
  return f
end, __newindex = function() core.fail('a compiled function changes mt; keep values in locals') end})

-- ---- what Lua's own functions do with symbols and captured tables -------------------------------------

local function contents(t) return symbols.session.tables[t.id] end
symbolic[type] = function(x)
  return is_symbol(x) and 'number' or is_captured(x) and 'table' or type(x)
end
local plain_tonumber = refuse.guarded(tonumber, 'tonumber', is_symbol, name_of_captured)
symbolic[tonumber] = function(x, ...)
  if is_symbol(x) then return x end
  return (plain_tonumber(x, ...))
end
symbolic[error] = function(message)
  core.fail('it raises an error%s: %s', symbols.session.position > 0 and
    ', which no single element can; return a value such as 0 / 0' or '', tostring(message))
end
symbolic[assert] = function(condition, ...)
  if condition then return condition, ... end
  symbolic[error]((...) or 'assertion failed!')
end
symbolic[next] = function(t, key)
  if not is_captured(t) then return next(t, key) end
  local of, s = contents(t), symbols.session
  local following = next(of.value, key)
  local steps = s:place_in(of, next)
  s:guard(function()
    local ok, found = pcall(next, of.read(), key)
    return ok and found
  end, following, 'next of ' .. of.name, s:place_in(steps, key == nil and steps or key))
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
for f, instead in pairs {[print] = 'print the result', [io.write] = 'print the result',
  [math.random] = 'give it a tensor of mt.rand', [math.randomseed] = 'mt.manual_seed seeds tensors'} do
  symbolic[f] = function()
    core.fail('%s in a compiled function: it runs once for all elements; %s', refuse.name_of(f), instead)
  end
end
symbolic[tostring] = function(x)
  if is_symbol(x) then core.fail(refuse.no_text) end
  return tostring(x)
end

symbols.Symbol, symbols.Captured, symbols.is_symbol = Symbol, Captured, is_symbol
symbols.id_of, symbols.where, symbols.operations, symbols.of_lua = id_of, where, operations, symbolic
symbols.contents, symbols.name_of_captured = contents, name_of_captured
symbols.math, symbols.mt = math_of_symbols, functions_of_mt
return symbols
