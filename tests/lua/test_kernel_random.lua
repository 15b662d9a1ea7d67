-- test_kernel_random.lua -- random grid kernels compared with the same source run as plain Lua, bit for bit
--
--   mtorch tests/lua/test_kernel_random.lua [COUNT [SEED | today]]     one that fails is printed with its seed
local mt = require 'mtorch'
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
package.path = folder .. '?.lua;' .. package.path
local testing = require 'testing'
local reference = require 'grid_reference'

local count = tonumber(arg[1]) or 200
local first = arg[2] == 'today' and os.time() or tonumber(arg[2]) or 1

-- ---- a generator of text ---------------------------------------------------------------------------

local state
local function random(n)
  state = (state * 48271) % 2147483647
  return state % n + 1
end
local function one(list) return list[random(#list)] end

local Writer = {}
Writer.__index = Writer

function Writer:line(text) self.lines[#self.lines + 1] = ('  '):rep(self.depth) .. text end

--- An integer expression; integers stay small, so that they are exact in Lua.
function Writer:whole(depth)
  local choice = depth > 2 and random(3) or random(11)
  if self.plain and choice == 9 then choice = 8 end
  if choice <= 2 and #self.wholes > 0 then return one(self.wholes) end
  if choice == 3 or depth > 2 then return tostring(random(9) - 3) end
  local a, b = self:whole(depth + 1), self:whole(depth + 1)
  if choice <= 5 then return ('(%s %s %s)'):format(a, one {'+', '-', '*'}, b) end
  if choice == 6 then return ('math.floor(%s / %d)'):format(a, random(5)) end
  if choice == 7 then return ('(%s %% %s)'):format(a, one {'3', '7', '-5', '(' .. b .. ' % 4 + 5)'}) end
  if choice == 8 then return ('math.%s(%s, %s)'):format(one {'min', 'max'}, a, b) end
  if choice == 9 then return ('q[%s]'):format(self:index(depth + 1)) end
  if choice == 10 then return ('((%s) and %s or %s)'):format(self:condition(depth + 1), a, b) end
  return ('math.floor(%s %% 9)'):format(self:number(depth + 1))
end
function Writer:index(depth)
  if self.straight then return one {'i', 'i', '(#x + 1 - i)', '(i - 0)'} end
  if random(3) == 1 and self.guarded then return 'i' end
  return ('%s %% #x + 1'):format(self:whole(depth + 1))
end
--- An index of a row; in kernels without loops it is the same in all lanes.
function Writer:column(columns, depth)
  if self.straight then return tostring(random(columns)) end
  return ('%s %% %d + 1'):format(self:whole(depth), columns)
end
function Writer:number(depth)
  local choice = depth > 2 and random(3) or random(12)
  if self.plain and (choice == 7 or choice == 8 or choice == 11) then choice = choice - 3 end
  if choice <= 2 and #self.numbers > 0 then return one(self.numbers) end
  if choice == 3 or depth > 2 then return one {'0.5', '-1.25', '3.75', 'rate'} end
  local a, b = self:number(depth + 1), self:number(depth + 1)
  if choice <= 5 then return ('(%s %s %s)'):format(a, one {'+', '-', '*'}, b) end
  if choice == 6 then return ('(%s / (math.abs(%s) + 1))'):format(a, b) end
  if self.straight and choice == 11 then choice = 5 + random(3) end
  if choice == 7 and random(2) == 1 then return ('out[i][%s]'):format(self:column(4, depth + 1)) end
  if choice == 7 then return ('x[%s]'):format(self:index(depth + 1)) end
  if choice == 8 then return ('m[%s][%s]'):format(self:index(depth + 1), self:column(3, depth + 1)) end
  if choice == 9 then return ('math.%s(%s, %s)'):format(one {'min', 'max'}, a, b) end
  if choice == 10 and random(2) == 1 then
    return ('((%s) and %s or (%s) and %s or %s)'):format(self:condition(depth + 1), a, self:condition(depth + 1), b,
      self:number(depth + 1))
  end
  if choice == 10 then return ('((%s) and %s or %s)'):format(self:condition(depth + 1), a, b) end
  if choice == 11 and random(3) == 1 then return ('count(out, i, %s)'):format(self:number(depth + 1)) end
  if choice == 11 then return ('helper(%s, %s)'):format(a, self:whole(depth + 1)) end
  return ('(%s + %s)'):format(self:whole(depth + 1), a)
end
function Writer:condition(depth)
  local choice = depth > 2 and 1 or random(6)
  if self.plain and random(4) == 1 then -- the same in all lanes
    return ('%s %s %d'):format(self.plain, one {'<', '>'}, random(6))
  end
  local compare = one {'<', '<=', '>', '>=', '==', '~='}
  if choice <= 2 then return ('%s %s %s'):format(self:whole(depth + 1), compare, self:whole(depth + 1)) end
  if choice == 3 then return ('%s %s %s'):format(self:number(depth + 1), compare, self:number(depth + 1)) end
  if choice == 4 then return ('not (%s)'):format(self:condition(depth + 1)) end
  return ('(%s) %s (%s)'):format(self:condition(depth + 1), one {'and', 'or'}, self:condition(depth + 1))
end

--- Runs `write` in an inner scope of names.
function Writer:scope(write)
  local wholes, numbers = #self.wholes, #self.numbers
  self.depth = self.depth + 1
  write()
  self.depth = self.depth - 1
  while #self.wholes > wholes do table.remove(self.wholes) end
  while #self.numbers > numbers do table.remove(self.numbers) end
end
function Writer:block(level)
  for _ = 1, random(3) do self:statement(level) end
end

function Writer:declare(level)
  self.names = self.names + 1
  local name = 'v' .. self.names
  local kind = random(6)
  if not self.plain and kind == 1 then -- an element that may be written afterwards
    self:line(('local %s = out[i][%s]'):format(name, self:column(4, 1)))
    self.numbers[#self.numbers + 1] = name
  elseif not self.plain and kind == 2 then
    self:line(('local %s = p[i]'):format(name))
    self.wholes[#self.wholes + 1] = name
  elseif random(2) == 1 then
    self:line(('local %s = %s %% 13'):format(name, self:whole(0)))
    self.wholes[#self.wholes + 1], self.set_wholes[name] = name, true
  else
    self:line(('local %s = %s %% 16 - 8'):format(name, self:number(0)))
    self.numbers[#self.numbers + 1], self.set_numbers[name] = name, true
  end
end
function Writer:assign()
  local wholes, numbers = {}, {}
  for _, name in ipairs(self.wholes) do if self.set_wholes[name] then wholes[#wholes + 1] = name end end
  for _, name in ipairs(self.numbers) do if self.set_numbers[name] then numbers[#numbers + 1] = name end end
  if #wholes > 0 and random(2) == 1 then self:line(('%s = %s %% 11'):format(one(wholes), self:whole(0)))
  elseif #numbers > 0 then self:line(('%s = %s %% 16 - 8'):format(one(numbers), self:number(0))) end
end
function Writer:store()
  if random(3) == 1 then self:line(('p[i] = %s %% 23 - 11'):format(self:whole(0)))
  else self:line(('out[i][%s] = %s %% 16 - 8'):format(self:column(4, 1), self:number(0))) end
end
function Writer:loop(level)
  self.names = self.names + 1
  local name = 'k' .. self.names
  local kind = random(3)
  if kind == 1 then
    self:line(('for %s = %s %% 5, %s %% 7%s do'):format(name, self:whole(1), self:whole(1), one {'', ', 2', ', -1'}))
  else
    self:line(('local %s = %s %% 5'):format(name, self:whole(1)))
    self:line(kind == 2 and ('while %s < 6 do'):format(name) or 'repeat')
  end
  self:scope(function()
    self.wholes[#self.wholes + 1] = name
    if kind > 1 then self:line(('%s = %s + 1'):format(name, name)) end
    self:block(level + 1)
    if random(3) == 1 then self:line(('if %s then break end'):format(self:condition(1))) end
    if random(3) == 1 then self:block(level + 1) end
  end)
  self:line(kind == 3 and ('until %s >= 4 or %s'):format(name, self:condition(2)) or 'end')
end
--- A loop that is vectorised if its indices are in bounds.
function Writer:products()
  self.names = self.names + 1
  local name, from = 'v' .. self.names, random(3)
  self:line(('local %s = %s'):format(name, one {'0', '0.5', 'rate'}))
  self:line(('for k = %d, %d%s%s do'):format(from, from + random(6), one {'', ' + none'}, one {'', ', 2'}))
  self:line(('  %s = %s + %s * %s'):format(name, name, one {'m[i][k % 3 + 1]', 'x[i]', 'w[k]', 'w[k + 2]', 'm[i][2]'},
    one {'w[k]', 'w[2 * k]', 'w[k + i]', 'w[i + 2 * k - 1]', 'w[60 - k]'}))
  self:line 'end'
  self.numbers[#self.numbers + 1] = name
end
--- A loop without stores, which is machine code although lanes have different iteration counts.
function Writer:turns()
  self.names = self.names + 1
  local name, kind, was = 'k' .. self.names, random(3), self.plain
  self.plain = 'rate'
  if kind == 1 then
    self:line(('for %s = %s %% 5, %d%s do'):format(name, one {'2', self:whole(1)}, random(9), one {'', ', 2'}))
  else
    self:line(('local %s = %s %% 5'):format(name, self:whole(1)))
    self:line(kind == 2 and ('while %s < 9 and (%s) do'):format(name, self:condition(2)) or 'repeat')
  end
  self:scope(function()
    self.wholes[#self.wholes + 1] = name
    self.plain = kind == 1 and name or 'rate'
    if kind > 1 then self:line(('%s = %s + 1'):format(name, name)) end
    for _ = 1, random(4) do
      local choice = random(6)
      if choice == 1 then self:declare()
      elseif choice <= 4 then self:assign()
      else
        self:line(('if %s then'):format(self:condition(0)))
        self:scope(function()
          self:assign()
          if choice == 5 then self:line 'break' end
        end)
        self:line 'end'
      end
    end
    self:assign()
  end)
  self.plain = 'rate'
  self:line(kind == 3 and ('until %s >= 7 or %s'):format(name, self:condition(2)) or 'end')
  self.plain = was
end
function Writer:statement(level)
  if not self.straight and random(12) == 1 then return self:products() end
  if not self.straight and random(8) == 1 then return self:turns() end
  local choice = level > 2 and random(5) or random(9)
  if self.straight and choice == 9 then choice = 7 end
  if choice == 1 then return self:declare(level) end
  if choice <= 3 then return self:assign() end
  if choice <= 5 then return self:store() end
  if choice <= 7 then
    self:line(('if %s then'):format(self:condition(0)))
    self:scope(function() self:block(level + 1) end)
    if random(2) == 1 then
      self:line 'else'
      self:scope(function() self:block(level + 1) end)
    end
    return self:line 'end'
  end
  if choice == 8 and (self.straight or random(4) == 1) then
    return self:line(('if %s then return end'):format(self:condition(1)))
  end
  self:loop(level)
end

local head = [[
local rate, none = 1.5, 0
local function helper(v, n)
  if n > 3 then return v * 0.5 end
  for k = 1, n do
    v = v + k
    if v > 5 then return v - 1 end
  end
  return v
end
local function count(o, i, v)
  local before = o[i][3]
  o[i][3] = (before + 1) % 7
  return v + before
end
return function(x, m, q, out, p, w)
]]
local places = {
  'local i = grid(1)',
  'local i = (block_idx.x - 1) * block_dim.x + thread_idx.x',
  'local t, b = thread_idx.x, block_idx.x\n  local i = (b - 1) * block_dim.x + t',
  'local r, c = grid(2)\n  local i = (r - 1) * grid_dim.y * block_dim.y + c', -- linear index in a 2-d grid
}

--- The text, whether it has a 2-d grid, and whether it has no loops, so that rows of lanes are machine code.
local function text_of(seed)
  state = seed * 7919 + 12345
  for _ = 1, 5 do random(2) end
  local w = setmetatable({lines = {}, depth = 1, wholes = {'i'}, numbers = {}, set_wholes = {}, set_numbers = {},
    names = 0, guarded = true, straight = seed % 3 == 0}, Writer)
  local place = w.straight and places[random(2)] or one(places)
  w:line(place)
  w:line 'if i > #x then return end'
  for _ = 1, 3 do w:declare(0) end
  for _ = 1, 3 + random(5) do w:statement(0) end
  w:line(('out[i][1] = %s'):format(w:number(0)))
  return head .. table.concat(w.lines, '\n') .. '\nend', place == places[4], w.straight
end

-- ---- both ways -------------------------------------------------------------------------------------

local function run(seed)
  local text, flat, straight = text_of(seed)
  local f = assert(loadstring(text))()
  local n = straight and 60 + random(400) or random(40)
  local threads = straight and 60 + random(100) or random(20)
  local blocks = mt.cdiv(n, threads)
  if flat then
    threads = {random(5), random(9)}
    local columns = random(3)
    blocks = {mt.cdiv(n, threads[1] * threads[2] * columns), columns}
  end
  mt.manual_seed(seed)
  local arguments = {mt.randn({n}, 'float64') * 3, mt.randn({n, 3}, 'float64'), mt.randint(-5, 9, {n}):long(),
    mt.zeros({n, 4}, 'float64'), mt.zeros({n}, 'int64'), mt.randn({80}, 'float64')}
  local copies = {}
  for k, x in ipairs(arguments) do copies[k] = x:clone() end
  local expected = reference.run(f, blocks, threads, unpack(arguments))
  mt.kernel(f)[{blocks, threads}](unpack(copies))
  local on_gpu = {}
  if mt.cuda.is_available() then
    for k, x in ipairs(arguments) do on_gpu[k] = x:to 'cuda' end
    mt.kernel(f)[{blocks, threads}](unpack(on_gpu))
  end
  local function bits(list) return (testing.bits(list):gsub('%-0%f[%s}]', '0')) end -- integers have no -0
  for k = 4, 5 do
    testing.eq(bits(copies[k]:tolist()), bits(expected[k]))
    if on_gpu[k] then testing.eq(bits(on_gpu[k]:tolist()), bits(expected[k])) end
  end
  -- With other dtypes the reference is the interpreter, which check=true selects.
  local function as(real, whole, checked)
    local list = {}
    for k, x in ipairs(arguments) do list[k] = x:to(x.dtype == 'float64' and real[k % #real + 1] or whole):clone() end
    mt.kernel(f, {check = checked})[{blocks, threads}](unpack(list))
    return bits(list[4]:tolist()) .. bits(list[5]:tolist())
  end
  local function compare(real, whole) testing.eq(as(real, whole, false), as(real, whole, true)) end
  compare({'float32'}, 'int64')
  if not straight then return end
  for _, whole in ipairs {'int32', 'int16', 'int8', 'uint8'} do
    compare({'float32'}, whole)
    compare({'float32', 'float64', 'float16', 'float64'}, whole)
  end
end

testing.test('random kernels', function()
  for seed = first, first + count - 1 do
    local ok, why = pcall(run, seed)
    if not ok then error(('seed %d: %s\n%s'):format(seed, why, (text_of(seed))), 0) end
  end
end)

testing.finish()
