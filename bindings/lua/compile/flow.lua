-- flow.lua -- where numbers that a step is given or captures go, read off its bytecode
--
-- A number may be changed between replays where it, and what is calculated from it alone, only ever reach operations on
-- tensors. A comparison, an index, the end of a loop, a field that keeps it, a function that may decide by it: there
-- the number stays one that the program was recorded for. The walk goes over all ways through a function at once: a
-- register holds
--   {e = expression}   a number: an argument or a captured variable, or a calculation of such and of constants
--   {v = value}        a value that is known: captured, or an argument that is a tensor
--   {m = name}         a method of something unknown
--   MIXED              something that a number went into, a tensor as a rule; or one of several numbers
--   FRESH, FILLED      a table that the function made, without and with such a number
--   INSIDE             a function that it made
local mt = require 'mtorch'
local bit = require 'bit'
local records = require('mtorch.compile.map').records
local found, util = pcall(require, 'jit.util')

local flow = {usable = found and math.floor(jit.version_num / 100) == 201}

-- Numbers of LuaJIT 2.1's instructions (lj_bc.h) and of the modes of their operands.
local ISTC, MOV, UNM, ADDVN, ADDNV, ADDVV, POW, CAT, KSHORT, KNUM = 12, 18, 20, 22, 27, 32, 37, 38, 41, 42
local UGET, USETV, USETP, FNEW, TNEW, TDUP, GGET, GSET = 45, 46, 49, 51, 52, 53, 54, 55
local TGETV, TGETS, TGETR, TSETV, TSETM, TSETR = 56, 57, 59, 60, 63, 64
local CALLM, CALLT, ITERC, VARG, ISNEXT, RETM, FORI, JFORI = 65, 68, 69, 71, 72, 73, 77, 78
local ITERL, JITERL, JMP, UCLO, KNIL = 82, 84, 88, 50, 44
local DST, VAR, PRI, JUMP = 1, 3, 8, 13

local MIXED, FRESH, FILLED, INSIDE = {}, {}, {}, {}
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

--- The field of something: of a known table its value, else a method to be.
local function field(object, key)
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
  local info = debug.getinfo(value, 'S')
  if info.what == 'C' or info.source:find '^@mtorch/' or records[value] then return MIXED end
  if filled then refuse 'goes to a function in a table' end
  self:walk(value, args)
  return MIXED
end

local function store(op, value, object, key, s, b)
  if op == TSETM then return end
  if (op == TSETV or op == TSETR) and carries(key) then refuse 'is an index' end
  if not carries(value) then return end
  if object ~= FRESH and object ~= FILLED then refuse 'is kept in a field' end
  s[b] = FILLED
end

--- A function made inside may capture arguments of this name.
local function closure(s, proto, names)
  local info = util.funcinfo(proto)
  for k = 0, info.upvalues - 1 do
    local name = util.funcuvname(proto, k)
    local own = names[name]
    if own == 'free' then refuse 'is captured by a function inside' end
    if own == nil then
      for _, x in pairs(s) do if carries(x) then refuse 'may be captured by a function inside' end end
    elseif type(own) == 'number' and carries(s[own]) then refuse 'is captured by a function inside' end
  end
end

function Walk:captured(f, i)
  local name, value = debug.getupvalue(f, i)
  local id = debug.upvalueid(f, i)
  if self.free[id] then return self:source(id, ("'%s'"):format(name)) end
  return value ~= nil and {v = value} or nil
end

--- Reads and writes of one instruction in state s; returns the positions that may follow, beside the next.
function Walk:step(f, s, pc, ins, mode, names)
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
  elseif op == UGET then
    s[a] = self:captured(f, d + 1)
  elseif op >= USETV and op <= USETP then
    if op == USETV and carries(C) then refuse 'is kept in a captured variable' end
    if self.free[debug.upvalueid(f, a + 1)] then refuse 'is changed in the step' end
  elseif op == FNEW then
    closure(s, util.funck(f, -d - 1), names)
    s[a] = INSIDE
  elseif op == TNEW or op == TDUP then s[a] = FRESH
  elseif op == GGET then
    local value = rawget(getfenv(f), util.funck(f, -d - 1))
    s[a] = value ~= nil and {v = value} or nil
  elseif op == GSET then
    if carries(A) then refuse 'is kept in a global' end
  elseif op >= TGETV and op <= TGETR then
    if (op == TGETV or op == TGETR) and carries(C) then refuse 'is an index' end
    s[a] = field(B, op == TGETS and util.funck(f, -c - 1) or nil)
  elseif op >= TSETV and op <= TSETR then
    store(op, A, B, C, s, b)
  elseif op >= CALLM and op <= CALLT then self:calls(op, s, a, b, c, d)
  elseif op == ITERC or op == ITERC + 1 then
    for r = a - 3, a - 1 do if carries(s[r]) then refuse 'is iterated over' end end
    for r = a, a + b do s[r] = nil end
  elseif op == VARG then refuse 'is beside a variable number of arguments'
  elseif op >= RETM and op < FORI then
    for r, x in pairs(s) do
      if r >= a and x.e and (op == RETM or op == 75 or r < a + d - 1) then refuse 'is returned' end
    end
    return nil, true
  elseif op == FORI or op == JFORI then
    for r = a, a + 2 do if carries(s[r]) then refuse 'says how often a loop runs' end end
    s[a + 3] = nil
  elseif ma == DST then s[a] = nil end
  local jumps = mc == JUMP and op ~= JITERL and op ~= 81 and op ~= 87
  return jumps and pc + 1 + d - 32768 or nil, op == JMP or op == UCLO and jumps or op == ISNEXT
end

function Walk:calls(op, s, a, b, c, d)
  local tail, open = op >= 67, op == CALLM or op == 67
  local given = (tail and d or c) - (open and 0 or 1)
  local args, any, calls_back = {}, false, false
  for r, x in pairs(s) do
    if r >= a + 2 and (open or r < a + 2 + given) then
      if carries(x) then args[r - a - 1], any = x, true end
      calls_back = calls_back or x == INSIDE or type(x.v) == 'function'
    end
  end
  local result = any and self:call(s[a], args, calls_back) or nil
  for r in pairs(s) do if r >= a then s[r] = nil end end
  if not tail then for r = a, a + math.max(b - 2, 0) do s[r] = result end end
end

-- ---- all ways through a function ---------------------------------------------------------------------------

--- `args`: what its arguments carry, by their numbers.
function Walk:walk(f, args)
  self.depth = self.depth + 1
  if self.depth > 8 then refuse 'goes through too many functions' end
  local info = util.funcinfo(f)
  if info.isvararg then refuse 'is beside a variable number of arguments' end
  local names, first, states, back = {}, {}, {}, {}
  for k = 0, info.upvalues - 1 do
    names[util.funcuvname(f, k)] = self.free[debug.upvalueid(f, k + 1)] and 'free' or true
  end
  for i = 1, info.params do
    names[debug.getlocal(f, i) or ''] = i - 1
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
        local ins, mode = util.funcbc(f, pc)
        local op = bit.band(ins, 255)
        local to, ends = self:step(f, s, pc, ins, mode, names)
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

--- What of(arguments) is for the places in the program that depend on the numbers in `free`: a list; or nil and how
--- one of them is used otherwise. `free`: numbers of arguments, and captured variables by their identity, which are
--- `variables` of functions {f =, id =}. `methods`: names that functions of the user have in tables.
function flow.expressions(f, free, arguments, variables, methods)
  if not flow.usable then return nil, "is in a program of a LuaJIT whose bytecode is not known" end
  local walk = setmetatable({expressions = {}, depth = 0, free = free, methods = methods or {}}, Walk)
  local args = {}
  for i = 1, arguments.n do
    if free[i] then args[i] = walk:source(i, 'argument ' .. i)
    elseif arguments[i] ~= nil then args[i] = {v = arguments[i]} end
  end
  local ok, why = pcall(function()
    walk:walk(f, args)
    for _, u in ipairs(variables or {}) do -- whoever reads the variable
      if free[u.id] and u.f ~= f then walk:walk(u.f, {}) end
    end
  end)
  if ok then return walk.expressions end
  if getmetatable(why) ~= Refusal then return nil, tostring(why) end
  return nil, why.why
end

return flow
