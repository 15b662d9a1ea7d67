-- trace.lua -- traces a Lua function with symbols for numbers, and builds an expression program from it
--
-- The function itself is not changed: a clone of it runs, whose globals and upvalues are proxies
-- (symbols.lua). A comparison of symbols is a branch: the function is run once for each path, and
-- the paths are merged with `where`.
local ffi = require 'ffi'
local core = require 'mtorch.core'
local mt = require 'mtorch'
local loops = require 'mtorch.compile.loops'
local refuse = require 'mtorch.compile.refuse'
local source = require 'mtorch.compile.source'
local symbols = require 'mtorch.compile.symbols'
local jit_util = require 'jit.util'
local native = core.compile()
local Symbol, Captured, is_symbol = symbols.Symbol, symbols.Captured, symbols.is_symbol
local id_of, where, operations, symbolic = symbols.id_of, symbols.where, symbols.operations, symbols.of_lua
local contents, name_of_captured = symbols.contents, symbols.name_of_captured
local math_of_symbols, functions_of_mt = symbols.math, symbols.mt
local getinfo, getupvalue, setupvalue, upvalueid = debug.getinfo, debug.getupvalue, debug.setupvalue, debug.upvalueid

local trace = {}
local pack = core.pack
local max_paths = 64
local Session = {} -- the state of one trace
Session.__index = Session

-- ---- captured values: numbers are parameters, the rest are guards --------------------------------------

--- The replacement of a captured value in the clone. `read` reads it again; `where_from` is its name, which others may
--- have too; `place` is its own.
function Session:placeholder(value, read, where_from, place)
  local kind = type(value)
  if kind == 'number' then
    if self.frozen == true or self.frozen == where_from then
      self:guard(read, value, where_from, place)
      return value
    end
    return self:leaf('number', self.numbers, self.given, read, where_from, place)
  elseif kind == 'table' then
    if rawequal(value, mt) then return functions_of_mt end
    if rawequal(value, math) then return math_of_symbols end
    return self:captured(value, read, where_from, place)
  elseif mt.is_tensor(value) then
    core.check(value:dim() == 0, "the captured tensor '%s' is %s; only a 0-d tensor can be captured, give others as " ..
      "arguments", where_from, value.shape)
    return self:leaf('input', self.operands, self.inputs, read, where_from, place)
  end
  self:guard(read, value, where_from, place)
  if kind == 'nil' then self.missing = where_from end
  if kind == 'function' then return self:function_of(value, where_from) end
  return value
end

function Session:guard(read, value, where_from, place)
  if self.guarded[place] then return end
  self.guarded[place] = true
  self.guards[#self.guards + 1] = {read = read, value = value, name = where_from}
end

--- The place of a key of an owner: a captured table or the globals of a function.
function Session:place_in(owner, key)
  local places = self.places[owner] or {}
  self.places[owner] = places
  places[key] = places[key] or {}
  return places[key]
end

--- The symbol of a captured number or tensor, which is appended to `list`, after those of the call.
function Session:leaf(kind, list, given, read, where_from, place)
  if not self.known[place] then
    list[#list + 1] = {read = read, name = where_from}
    self.known[place] = Symbol(native.leaf(self.builder, kind, given + #list - 1))
  end
  return self.known[place]
end

function Session:captured(value, read, where_from, place)
  if not self.known[place] then
    self.tables[#self.tables + 1] = {value = value, read = read, name = where_from}
    self.known[place] = Captured(#self.tables)
    self:guard(function() return type(read()) == 'table' end, true, where_from, place)
  end
  return self.known[place]
end

local function field_name(name, key)
  if type(key) == 'string' then return name .. '.' .. key end
  return ('%s[%s]'):format(name, tostring(key))
end
ffi.metatype(Captured, {
  __index = function(self, key)
    if not symbols.session then core.fail('a captured table of a trace that has ended') end
    local t = contents(self)
    core.check(not is_symbol(key),
      "the captured table '%s' is indexed by an element; make a tensor of it and pick outside, by index_select", t.name)
    if key ~= key then return nil end -- NaN is no key
    local value = t.value[key]
    local read, s = t.read, symbols.session
    return (s:placeholder(value, function()
      local now = read()
      if type(now) == 'table' then return now[key] end
    end, field_name(t.name, key), s:place_in(t, key)))
  end,
  __newindex = function(self, key)
    core.fail("a compiled function writes to the captured '%s'; it must have no effects, return the value instead",
      field_name(contents(self).name, is_symbol(key) and 'i' or key))
  end,
  __len = function(self)
    local t = contents(self)
    local read, n, s = t.read, #t.value, symbols.session
    s:guard(function()
      local now = read()
      return type(now) == 'table' and #now or nil
    end, n, '#' .. t.name, s:place_in(t, s)) -- the session is no key of the user's
    return n
  end,
  __tostring = function(self) return contents(self).name end,
  __call = function(self) core.fail("the captured '%s' is called; a compiled function can call functions of numbers",
    contents(self).name) end,
})

--- The function of symbols for a captured function: for those of math and mt a fixed one; a Lua function is cloned.
function Session:function_of(f, name)
  if symbolic[f] then return symbolic[f] end
  local record = require('mtorch.compile.map').records[f]
  if record and record.programs then return self:clone(record.f) end
  if record then -- a result of mt.fuse or mt.reduce
    return function()
      core.fail("'%s' is a function of tensors; a compiled function calls functions of numbers, also those of mt.map",
        name)
    end
  end
  local signature = core.entry(f)
  local called = signature and signature:match '^[%w_]+'
  if called then
    return operations[called] and functions_of_mt[called] or function() return functions_of_mt[called] end
  end
  local info = getinfo(f, 'S')
  if info.what == 'C' or info.source:sub(1, 8) == '@mtorch/' then
    return refuse.guarded(f, name, is_symbol, name_of_captured)
  end
  return self:clone(f)
end

--- A copy of a Lua function with the same lines, whose upvalues and globals are proxies.
function Session:clone(f)
  if self.clones[f] then return self.clones[f] end
  local clone = native.clone(f)
  self.clones[f] = clone
  local env = getfenv(f)
  setfenv(clone, setmetatable({}, {
    __index = function(_, key)
      local value = env[key]
      if symbolic[value] then return symbolic[value] end
      return (self:placeholder(value, function() return getfenv(f)[key] end, tostring(key), self:place_in(env, key)))
    end,
    __newindex = function(_, key)
      core.fail("a compiled function writes to the global '%s'; it must have no effects (is a local missing?)",
        tostring(key))
    end}))
  local set = {}
  for i = 1, getinfo(f, 'u').nups do
    local upvalue, value = getupvalue(f, i)
    if upvalue == '' then upvalue = ('upvalue %d'):format(i) end
    local function read() return (select(2, getupvalue(f, i))) end
    local placeholder = self:placeholder(value, read, upvalue, self:place_in(upvalueid(f, i), 'value'))
    setupvalue(clone, i, placeholder)
    set[i] = {name = upvalue, value = placeholder}
  end
  self.written[#self.written + 1] = {clone = clone, set = set}
  return clone
end

--- Raises an error if the function assigned an upvalue: only the clone's has changed.
function Session:check_upvalues()
  for _, w in ipairs(self.written) do
    for i, u in ipairs(w.set) do
      local _, now = getupvalue(w.clone, i)
      core.check(rawequal(now, u.value) or is_symbol(now) and is_symbol(u.value) and now.id == u.value.id,
        "a compiled function assigns the captured '%s'; it must have no effects, return the value instead", u.name)
    end
  end
end

-- ---- the ways through the function ------------------------------------------------------------------

--- Calls the clone on every path; returns the results of each with its decisions.
function Session:explore(f, arguments)
  local leaves = {}
  self.choices = {}
  repeat
    self.position, self.conditions, self.decided = 0, {}, {}
    local results = pack(f(unpack(arguments, 1, arguments.n)))
    self:check_upvalues()
    leaves[#leaves + 1] = {results = results, conditions = self.conditions, choices = {unpack(self.choices, 1,
      self.position)}, n = self.position}
    if #leaves > max_paths then
      self.is_branchy = true
      core.fail('it has more than %d ways through it; math.max, math.min and mt.clamp choose without a new one, or ' ..
        'use a grid kernel (mt.kernel)', max_paths)
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

--- Merges the results of leaves from..to, which agree in the first depth - 1 decisions.
function Session:join(leaves, from, to, depth)
  if from == to then return leaves[from].results end
  local second = from
  while leaves[second].choices[depth] do second = second + 1 end
  local yes, no = self:join(leaves, from, second - 1, depth + 1), self:join(leaves, second, to, depth + 1)
  core.check(yes.n == no.n, 'it returns %d value%s on one path and %d on another; return as many on each', yes.n,
    yes.n == 1 and '' or 's', no.n)
  local joined, condition = {n = yes.n}, Symbol(leaves[from].conditions[depth])
  for k = 1, yes.n do
    local a, b = kind_of(self, yes[k]), kind_of(self, no[k])
    core.check(a == b, 'result %d is %s on one path and %s on another; both must be numbers, or booleans', k, a, b)
    joined[k] = where(condition, yes[k], no[k])
  end
  return joined
end

local function session(kinds, whole, frozen)
  local inputs = 0
  for _, kind in ipairs(kinds) do inputs = inputs + (kind == 'tensor' and 1 or 0) end
  return setmetatable({builder = native.builder(), inputs = inputs, given = #kinds - inputs, frozen = frozen,
    whole = whole, numbers = {}, guards = {}, guarded = {}, operands = {}, tables = {}, places = {}, known = {},
    clones = {}, written = {}, bools = {}}, Session)
end

-- ---- tables that the function makes ---------------------------------------------------------------------
--
-- A table has no metamethod that is called before the key is looked up, so a symbol as a key finds nothing. Such a
-- function is found by calling it with numbers, and with symbols of these numbers.

local function opcode(f, pc)
  local instruction = jit_util.funcbc(f, pc)
  return instruction and instruction % 256
end
local by_value = {} -- the instructions that index by what a variable holds
for _, f in ipairs{function(t, k) return t[k] end, function(t, k, v) t[k] = v end} do by_value[opcode(f, 1)] = true end

--- Whether a function, or one inside it, indexes by something else than a literal.
local function indexes(f)
  local pc = 1
  while opcode(f, pc) do
    if by_value[opcode(f, pc)] then return true end
    pc = pc + 1
  end
  for k = 1, jit_util.funcinfo(f).gcconsts do
    local constant = jit_util.funck(f, -k)
    if type(constant) == 'proto' and indexes(constant) then return true end
  end
  return false
end

local function differ(a, b)
  if type(a) ~= 'number' or type(b) ~= 'number' then return a ~= b end
  return a ~= b and (a == a or b == b) and not (math.abs(a - b) <= 1e-9 * math.max(math.abs(a), math.abs(b)))
end

--- Raises an error if f gives other results for numbers than for symbols that represent them.
local function check_lookups(f, kinds)
  local samples, before = {1, 2, 3, 4, 0, -1, 0.5, 7.25}, symbols.session
  for first = 1, #samples do
    local s, numbers, same = session(kinds, false, true), {}, {}
    for i = 1, #kinds do
      numbers[i] = samples[(first + 3 * i) % #samples + 1]
      same[i] = Symbol(native.constant(s.builder, numbers[i]))
    end
    symbols.session = s
    local clone = s:clone(f)
    local of_numbers = pack(pcall(clone, unpack(numbers)))
    s.keeps_symbols = true
    local of_symbols = pack(pcall(clone, unpack(same)))
    for k = 2, of_numbers[1] and of_symbols[1] and of_numbers.n or 0 do
      local x, y = of_numbers[k], of_symbols[k]
      if is_symbol(y) then y = native.known(s.builder, y.id) end
      core.check(is_symbol(x) or not differ(x, y),
        'f(%s) is %s in Lua and %s here: a table that it makes is indexed by an element; choose by ' ..
        'comparisons, a == 1 and s[1] or s[2]', table.concat(numbers, ', '), tostring(x), tostring(y))
    end
  end
  symbols.session = before
end

--- The program of f; `kinds` has 'tensor' or 'number' for each argument; `whole`: the tensors are of integers.
local function attempt(f, kinds, whole, frozen)
  local s = session(kinds, whole, frozen)
  local inputs, before = s.inputs, symbols.session
  symbols.session = s
  local ok, result = pcall(function()
    local arguments, seen = {n = #kinds}, {tensor = 0, number = 0} -- the call's numbers are before captured ones
    for i, kind in ipairs(kinds) do
      arguments[i] = Symbol(native.leaf(s.builder, kind == 'tensor' and 'input' or 'number', seen[kind]))
      seen[kind] = seen[kind] + 1
    end
    local leaves = s:explore(s:clone(f), arguments)
    local joined = s:join(leaves, 1, #leaves, 1)
    if joined.n == 0 then core.fail('it returns nothing; return what an element becomes') end
    local values = {}
    for k = 1, joined.n do
      local kind = kind_of(s, joined[k])
      if kind ~= 'a number' and kind ~= 'a boolean' then
        core.fail('result %d is %s; a compiled function returns numbers and booleans%s', k, kind,
          kind == 'nil' and ', and a table indexed by an element gives nil' or '')
      end
      values[k] = id_of(joined[k])
    end
    if #s.numbers > 128 then core.fail('it captures %d numbers; at most 128', #s.numbers) end
    for of in pairs(s.clones) do
      if indexes(of) then
        check_lookups(f, kinds)
        break
      end
    end
    local count = s.given + #s.numbers
    local program, used, folded, shared, simplified = native.finish(s.builder, values, inputs + #s.operands, count)
    return {program = program, used = used, results = joined.n, ways = #leaves, folded = folded, shared = shared,
      simplified = simplified, divides = s.divides}
  end)
  symbols.session = before
  if not ok then return nil, result, s end
  result.numbers, result.guards, result.operands = s.numbers, s.guards, s.operands
  result.inputs, result.given = inputs, s.given
  return result
end

--- The position of an error and its text: a line of the function, of one that it calls, or its first line.
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

--- Compiles a Lua function to a program; name is 'map' etc. A captured number is a parameter, or,
--- if that cannot be traced (the end of a loop), a guard.
function trace.compile(f, kinds, name, whole)
  local found, err, s = attempt(f, kinds, whole)
  if found then return found end
  local captured = {}
  for _, n in ipairs(s.numbers) do captured[#captured + 1] = n.name end
  for i = 1, #captured + 1 do
    found = #captured > 0 and attempt(f, kinds, whole, captured[i] or true)
    if found then return found end
  end
  if source.is_kept(f) and (s.is_branchy or loops.is_bound(tostring(err))) then
    local ok, kernel = pcall(loops.kernel, f, kinds)
    if ok then
      return {kernel = kernel, numbers = {}, guards = {}, operands = {}, inputs = -1, given = 0}
    end
    loops.refuse(name, kernel)
  end
  local place, message = s:place_of(tostring(err), f)
  message = refuse.in_words(message)
  local info = getinfo(f, 'u')
  if not info.isvararg and info.nparams > #kinds and message:find '%f[%a]nil%f[%A]' then
    message = ('%s (the function takes %d arguments and got %d)'):format(message, info.nparams, #kinds)
  end
  if place:find '^mtorch/' then core.fail('%s: %s', name, message) end -- a built-in function
  error(('%s: %s: %s'):format(place, name, message), 0)
end

trace.native = native
return trace
