-- flow.lua -- where numbers that a step is given or captures go, read off its bytecode
--
-- A number may be changed between replays where it, and what is calculated from it alone, only ever reach operations on
-- tensors. A comparison, an index, the end of a loop, a field that keeps it, a function that may decide by it: there
-- the number stays one that the program was recorded for. The walk goes over all ways through a function at once: a
-- register holds
--   {e = expression}   a number: an argument, a captured variable or field, or a calculation of such and of constants
--   {v = value}        a value that is known: captured, or an argument that is a tensor
--   {m = name}         a method of something unknown
--   MIXED              something that a number went into, a tensor as a rule; or one of several numbers
--   FRESH, FILLED      a table that the function made, without and with such a number
--   INSIDE, GIVING     a function that it made; one whose results such a number goes into
-- A field is known by its name: read from an object that is not known it is taken for the one that may change. Whether
-- it is that one, its values in two recordings say.
local mt = require 'mtorch'
local bit = require 'bit'
local records = require('mtorch.compile.map').records
local found, util = pcall(require, 'jit.util')

local flow = {usable = found and math.floor(jit.version_num / 100) == 201}

-- Numbers of LuaJIT 2.1's instructions (lj_bc.h) and of the modes of their operands.
local ISTC, MOV, UNM, ADDVN, ADDNV, ADDVV, POW, CAT, KSHORT, KNUM = 12, 18, 20, 22, 27, 32, 37, 38, 41, 42
local UGET, USETV, USETP, FNEW, TNEW, TDUP, GGET, GSET = 45, 46, 49, 51, 52, 53, 54, 55
local TGETV, TGETS, TGETR, TSETV, TSETS, TSETM, TSETR = 56, 57, 59, 60, 61, 63, 64
local CALLM, CALLT, ITERC, VARG, ISNEXT, RETM, FORI, JFORI = 65, 68, 69, 71, 72, 73, 77, 78
local ITERL, JITERL, JLOOP, JMP, UCLO, KNIL = 82, 84, 87, 88, 50, 44
local DST, VAR, PRI, JUMP = 1, 3, 8, 13

local MIXED, FRESH, FILLED, INSIDE, GIVING = {}, {}, {}, {}, {}
local function carries(s) return s ~= nil and (s.e ~= nil or s == MIXED or s == FILLED) end
local function merged(a, b)
  if a == b then return a end
  if a and b and (a.e and a.e == b.e or a.m and a.m == b.m or a.v ~= nil and rawequal(a.v, b.v)) then return a end
  if a == FILLED or b == FILLED then return FILLED end
  return (carries(a) or carries(b)) and MIXED or nil
end

local builtin = {}
for _, library in ipairs{_G, math, string, table, os, io, bit, coroutine, debug} do
  for _, f in pairs(library) do
    if type(f) == 'function' then builtin[f] = true end
  end
end

-- ---- expressions ---------------------------------------------------------------------------------------

local calculate = {
  [0] = function(a, b) return a + b end, function(a, b) return a - b end, function(a, b) return a * b end,
  function(a, b) return a / b end, function(a, b) return a % b end, function(a, b) return a ^ b end,
}
local signs = {[0] = '+', '-', '*', '/', '%', '^'}
local metamethods = {[0] = '__add', '__sub', '__mul', '__div', '__mod', '__pow'}
local function operand(s)
  return s.e or {text = ('%.17g'):format(s.v), of = function() return s.v end, reads = {}}
end

local Walk = {}
Walk.__index = Walk
--- A calculation of numbers that are known or come from arguments.
function Walk:expression(op, a, b)
  local x, y = operand(a), operand(b)
  local text, f = ('(%s %s %s)'):format(x.text, signs[op], y.text), calculate[op]
  local known = self.expressions[text]
  if not known then
    known = {text = text, of = function(given) return f(x.of(given), y.of(given)) end, reads = {}}
    for _, e in ipairs{x, y} do
      for i in pairs(e.reads) do known.reads[i] = true end
    end
    self.expressions[text], self.expressions[#self.expressions + 1] = known, known
  end
  return {e = known}
end
--- An argument by its number, or a captured variable by its identity.
function Walk:source(key, text)
  local e = self.expressions[text]
  self.read[key] = true
  if not e then
    e = {text = text, of = function(given) return given[key] end, reads = {[key] = true}}
    self.expressions[text], self.expressions[#self.expressions + 1] = e, e
  end
  return {e = e}
end

-- ---- what an instruction does ----------------------------------------------------------------------------

local Refusal = {}
local function refuse(why) error(setmetatable({why = why}, Refusal), 0) end

local function is_number(s) return s and (s.e ~= nil or type(s.v) == 'number') end
function Walk:arithmetic(op, a, b)
  if not carries(a) and not carries(b) then
    local constant = is_number(a) and is_number(b)
    return constant and {v = calculate[op](a.v, b.v)} or nil
  end
  if is_number(a) and is_number(b) then return self:expression(op, a, b) end
  local other = a and a.e and b or a
  if other and mt.is_tensor(other.v) then return end
  if other and other.v ~= nil or self.methods[metamethods[op]] then refuse 'goes to a metamethod' end
  return MIXED
end

--- A field that may change, of that name; nil where it is another one. MIXED: one of several.
function Walk:free_field(object, key)
  local known, free = object and object.v, nil
  for _, u in ipairs(self.fields[key] or {}) do
    local is_it = rawequal(known, u.t)
    if is_it or known == nil or type(known) == 'table' and rawget(known, key) == nil then
      local source = self:source(u.id, ("'%s'"):format(u.name))
      if is_it then return source end
      free = free and MIXED or source
    end
  end
  return free
end
--- Whether an object, whose key is not known, may be a table with such fields.
function Walk:may_have_fields(object)
  return next(self.fields) ~= nil and object ~= FRESH and
    not (object and object.v ~= nil and (mt.is_tensor(object.v) or not self.holders[object.v]))
end

--- The field of something: of a known table its value, else a method to be.
function Walk:field(object, key)
  local free = self:free_field(object, key)
  if free then return free end
  if object and object.v ~= nil then
    local ok, value = pcall(function() return object.v[key] end)
    if ok and value ~= nil then return {v = value} end
  end
  if object == FILLED then return MIXED end
  return type(key) == 'string' and {m = key, made = object == FRESH} or nil
end

local example
local function is_tensor_method(name)
  example = example or mt.zeros(1)
  local ok, f = pcall(function() return example[name] end)
  return ok and type(f) == 'function'
end

local function is_users(f)
  local info = type(f) == 'function' and not records[f] and debug.getinfo(f, 'S')
  return info and info.what ~= 'C' and not info.source:find '^@mtorch/'
end
--- What a call without such numbers may give: what it reads itself.
function Walk:unseen(f)
  local value, fields = f and f.v, next(self.fields) ~= nil
  if f == GIVING or f and f.m and fields and self.methods[f.m] then return MIXED end
  if fields and value ~= pairs and value ~= ipairs and builtin[value or 1] then return MIXED end
  if not is_users(value) or debug.getinfo(value, 'u').isvararg then return end
  if self.depth >= 8 then return MIXED end
  if self.gives[value] == nil then
    self.gives[value] = false
    self.gives[value] = self:returned_by(value, {})
  end
  return self.gives[value] and MIXED or nil
end
--- Tables with such fields that a call is given: who is not a function of the user's may read them all.
function Walk:hand_on(x)
  for t, names in pairs(self.holders) do
    if rawequal(x.v, t) or x.m and names[x.m] then
      for _, u in ipairs(names) do self.read[u.id] = true end
    end
  end
end

--- A call with registers that carry numbers. Returns what its results carry.
function Walk:call(f, args, calls_back)
  local number, filled = false, false
  for _, s in pairs(args) do
    number, filled = number or s.e ~= nil, filled or s == FILLED
  end
  if calls_back then refuse 'goes to what calls another function' end
  if f and f.m then
    if f.made or self.methods[f.m] or not is_tensor_method(f.m) then refuse(('goes to :%s()'):format(f.m)) end
    return MIXED -- mt.cdiv and x:size return numbers
  end
  local value = f and f.v
  if value == nil then refuse 'goes to a function that is not known before it runs' end
  if type(value) == 'table' then
    if number or filled then refuse 'goes to a module' end
    return
  end
  if type(value) ~= 'function' then refuse 'goes to a value that is called' end
  if builtin[value] then refuse "goes to one of Lua's own functions" end
  if not is_users(value) then return MIXED end
  if filled then refuse 'goes to a function in a table' end
  self:walk(value, args)
  return MIXED
end

function Walk:store(op, value, object, key, s, b, name)
  if op == TSETM then return end
  if (op == TSETV or op == TSETR) and carries(key) then refuse 'is an index' end
  local is_new = object == FRESH or object == FILLED
  if not is_new and (name and self:free_field(object, name) or op == TSETV and self:may_have_fields(object)) then
    refuse 'may be changed in the step'
  end
  if not carries(value) then return end
  if not is_new then refuse 'is kept in a field' end
  s[b] = FILLED
end

--- A function made inside: what it captures is known by its name, and has to be of the function around. `from` is the
--- one around.
function Walk:closure(s, proto, names, from)
  local info, inner = util.funcinfo(proto), {}
  for k = 0, info.upvalues - 1 do
    local name = util.funcuvname(proto, k)
    local own = names[name]
    if own == nil then
      for _, x in pairs(s) do if carries(x) then refuse 'may be captured by a function inside' end end
    elseif type(own) == 'number' then
      if carries(s[own]) then refuse 'is captured by a function inside' end
    else
      inner[k + 1] = own
    end
  end
  return self:returned_by(proto, {}, {env = from.env, upvalues = inner}) and GIVING or INSIDE
end

--- What a function captures, as {value =, id =, name =}.
local function upvalues_of(f, count)
  local list = {}
  for i = 1, count do
    local name, value = debug.getupvalue(f, i)
    list[i] = {value = value, id = debug.upvalueid(f, i), name = name}
  end
  return list
end
function Walk:captured(u)
  if not u then return end
  if self.free[u.id] then return self:source(u.id, ("'%s'"):format(u.name)) end
  return u.value ~= nil and {v = u.value} or nil
end

--- Fields, captured variables and globals, as instructions read and write them.
function Walk:access(op, s, f, from, a, b, c, d)
  local A, B, C = s[a], s[b], s[op < TGETV and d or c]
  if op == UGET then
    s[a] = self:captured(from.upvalues[d + 1])
  elseif op <= USETP then
    if op == USETV and carries(C) then refuse 'is kept in a captured variable' end
    local u = from.upvalues[a + 1]
    if u and self.free[u.id] then refuse 'is changed in the step' end
  elseif op <= GSET then
    local name = util.funck(f, -d - 1)
    local value, free = rawget(from.env, name), self:free_field({v = from.env}, name)
    if op == GSET then
      if carries(A) then refuse 'is kept in a global' end
      if free then refuse 'is changed in the step' end
    else
      s[a] = free or value ~= nil and {v = value} or nil
    end
  elseif op <= TGETR then
    if (op == TGETV or op == TGETR) and carries(C) then refuse 'is an index' end
    s[a] = op == TGETV and not (C and type(C.v) == 'number') and self:may_have_fields(B) and MIXED or
      self:field(B, op == TGETS and util.funck(f, -c - 1) or nil)
  else
    self:store(op, A, B, C, s, b, op == TSETS and util.funck(f, -c - 1) or nil)
  end
end

--- A loop that is compiled may stand where pairs stood: then the end of an iteration follows. Its first register.
local function end_of_iteration(f, pc)
  local following = util.funcbc(f, pc + 1)
  local op = bit.band(following or 0, 255)
  return op >= ITERL and op <= JITERL and bit.band(bit.rshift(following, 8), 255) or nil
end
function Walk:iterate(s, a, b)
  for r = a - 3, a - 1 do if carries(s[r]) then refuse 'is iterated over' end end
  for r = a, a + b do s[r] = next(self.fields) and MIXED or nil end
end

--- Reads and writes of one instruction in state s; returns the positions that may follow, beside the next.
function Walk:step(f, s, pc, names, from)
  local ins, mode = util.funcbc(f, pc)
  local op, a = bit.band(ins, 255), bit.band(bit.rshift(ins, 8), 255)
  local b, c, d = bit.rshift(ins, 24), bit.band(bit.rshift(ins, 16), 255), bit.rshift(ins, 16)
  local ma, mb, mc = bit.band(mode, 7), bit.band(bit.rshift(mode, 3), 15), bit.band(bit.rshift(mode, 7), 15)
  if mb == 0 then c = d end
  local A, B, C = s[a], s[b], s[c]
  if op < ISTC then
    if mc ~= PRI and (carries(A) or mc == VAR and carries(C)) then refuse 'is compared' end
  elseif op < MOV then
    if ma == DST then s[a] = C end
  elseif op == MOV then s[a] = C
  elseif op == UNM then s[a] = self:arithmetic(2, {v = -1}, C)
  elseif op >= ADDVN and op < CAT then
    local constant = op < ADDVV and {v = util.funck(f, c)}
    local x, y = B, constant or C
    if op >= ADDNV and op < ADDVV then x, y = constant, B end
    s[a] = self:arithmetic(op == POW and 5 or (op - ADDVN) % 5, x, y)
  elseif op == CAT then
    for r = b, c do if carries(s[r]) then refuse 'becomes a part of a text' end end
    s[a] = nil
  elseif op == KSHORT then s[a] = {v = d < 32768 and d or d - 65536}
  elseif op == KNUM then s[a] = {v = util.funck(f, d)}
  elseif op == KNIL then for r = a, d do s[r] = nil end
  elseif op >= UGET and op <= USETP or op >= GGET and op <= TSETR then self:access(op, s, f, from, a, b, c, d)
  elseif op == FNEW then
    s[a] = self:closure(s, util.funck(f, -d - 1), names, from)
  elseif op == TNEW or op == TDUP then s[a] = FRESH
  elseif op >= CALLM and op <= CALLT then self:calls(op, s, a, b, c, d)
  elseif op == ITERC or op == ITERC + 1 then self:iterate(s, a, b)
  elseif op == JLOOP and end_of_iteration(f, pc) then self:iterate(s, end_of_iteration(f, pc), 3)
  elseif op == VARG then refuse 'is beside a variable number of arguments'
  elseif op >= RETM and op < FORI then
    for r, x in pairs(s) do
      local returned = r >= a and (op == RETM or op == 75 or r < a + d - 1)
      if returned and x.e then refuse 'is returned' end
      self.returns = self.returns or returned and carries(x)
    end
    return nil, true
  elseif op == FORI or op == JFORI then
    for r = a, a + 2 do if carries(s[r]) then refuse 'says how often a loop runs' end end
    s[a + 3] = nil
  elseif ma == DST then s[a] = nil end
  local jumps = mc == JUMP and op ~= JITERL and op ~= 81 and op ~= JLOOP
  return jumps and pc + 1 + d - 32768 or nil, op == JMP or op == UCLO and jumps or op == ISNEXT
end

function Walk:calls(op, s, a, b, c, d)
  local tail, open = op >= 67, op == CALLM or op == 67
  local given = (tail and d or c) - (open and 0 or 1)
  local args, any, calls_back, gives = {}, false, false, false
  for r, x in pairs(s) do
    if r >= a + 2 and (open or r < a + 2 + given) then
      if carries(x) then args[r - a - 1], any = x, true end
      calls_back = calls_back or x == INSIDE or x == GIVING or type(x.v) == 'function'
      gives = gives or x == GIVING
      if not is_users(s[a] and s[a].v) then self:hand_on(x) end
    end
  end
  local result = any and self:call(s[a], args, calls_back) or gives and MIXED or self:unseen(s[a])
  self.returns = self.returns or tail and carries(result)
  for r in pairs(s) do if r >= a then s[r] = nil end end
  if not tail then for r = a, a + math.max(b - 2, 0) do s[r] = result end end
end

-- ---- all ways through a function ---------------------------------------------------------------------------

--- `args`: what its arguments carry, by their numbers. `from`: of a function made inside, what it captures.
function Walk:walk(f, args, from)
  self.depth = self.depth + 1
  if self.depth > 8 then refuse 'goes through too many functions' end
  local info = util.funcinfo(f)
  if info.isvararg then refuse 'is beside a variable number of arguments' end
  from = from or {env = getfenv(f), upvalues = upvalues_of(f, info.upvalues)}
  local names, first, states, back = {}, {}, {}, {}
  for k = 0, info.upvalues - 1 do names[util.funcuvname(f, k)] = from.upvalues[k + 1] end
  for i = 1, info.params do
    if type(f) == 'function' then names[debug.getlocal(f, i) or ''] = i - 1 end
    first[i - 1] = args[i]
  end
  states[1] = first
  local changed, rounds = true, 0
  local function flows(to, s)
    local t = states[to]
    if not t then
      states[to], changed = {}, true
      for r, x in pairs(s) do states[to][r] = x end
      return
    end
    for r = 0, info.stackslots do
      local x = merged(t[r], s[r])
      if x ~= t[r] then t[r], changed = x, true end
    end
  end
  while changed do
    changed, rounds = false, rounds + 1
    if rounds > 50 then refuse 'goes through too many loops' end
    for pc = 1, info.bytecodes - 1 do
      if states[pc] then
        local s = {}
        for r, x in pairs(states[pc]) do s[r] = x end
        local op = bit.band(util.funcbc(f, pc), 255)
        local to, ends = self:step(f, s, pc, names, from)
        if (op == FORI or op == JFORI) and to then back[to - 1] = pc + 1 end
        if (op == JMP or op == ISNEXT) and to and to > pc then back[to + 1] = back[to + 1] or pc + 1 end
        if to then flows(to, s) end
        if op < MOV then flows(pc + 2, states[pc]) end -- a test: the jump after it is not taken
        if back[pc] and (op >= 79 and op <= 81 or op >= ITERL and op <= JITERL) then flows(back[pc], s) end
        if not ends then flows(pc + 1, s) end
      end
    end
  end
  self.depth = self.depth - 1
end

--- Whether what a function returns carries such numbers.
function Walk:returned_by(f, args, from)
  local before = self.returns
  self.returns = false
  self:walk(f, args, from)
  local returned = self.returns
  self.returns = before
  return returned
end

--- Fields that may change, by their keys, and the tables that have such, with the names under which they are known.
function Walk:add_fields(variables, list)
  for _, u in ipairs(variables) do
    if u.t then
      self.holders[u.t] = self.holders[u.t] or {}
      table.insert(self.holders[u.t], u)
      self.fields[u.key] = self.fields[u.key] or {}
      table.insert(self.fields[u.key], u)
    end
  end
  for i, key in ipairs(list.keys) do
    local names = self.holders[list.values[i]]
    if names and type(key) == 'string' then names[key] = true end
  end
end

--- What of(arguments) is for the places in the program that depend on the numbers in `free`: a list; or nil and how
--- one of them is used otherwise. `free`: numbers of arguments, and captured variables and fields by their identity,
--- which are `variables`; `list`: all that is captured. `methods`: names that functions of the user have in tables.
--- Also which of the numbers the step may read.
function flow.expressions(f, free, arguments, variables, list, methods)
  if not flow.usable then return nil, "is in a program of a LuaJIT whose bytecode is not known" end
  local walk = setmetatable({expressions = {}, depth = 0, free = free, methods = methods or {}, fields = {},
    holders = {}, gives = {}, read = {}, returns = false}, Walk)
  walk:add_fields(variables, list)
  local args = {}
  for i = 1, arguments.n do
    if free[i] then args[i] = walk:source(i, 'argument ' .. i)
    elseif arguments[i] ~= nil then args[i] = {v = arguments[i]} end
  end
  local ok, why = pcall(function()
    walk:walk(f, args)
    for _, u in ipairs(list.upvalues) do -- whoever reads the variable
      if free[u.id] and u.f ~= f then walk:walk(u.f, {}) end
    end
    for _, g in ipairs(next(walk.fields) and list.functions or {}) do
      if g ~= f and not list.constructors[g] then walk:walk(g, {}) end
    end
  end)
  if ok then return walk.expressions, walk.read end
  if getmetatable(why) ~= Refusal then return nil, tostring(why) end
  return nil, why.why
end

return flow
