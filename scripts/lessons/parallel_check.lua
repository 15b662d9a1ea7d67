-- parallel_check.lua -- MiniTorch's parallel diagnostics: MAP, ZIP, REDUCE, MATRIX MULTIPLY and user functions
--
--   mtorch scripts/lessons/parallel_check.lua                      (the course calls it project/parallel_test.py)
--   mtorch scripts/lessons/parallel_check.lua --size 2000 --threads 4
--   mtorch scripts/lessons/parallel_check.lua --show machine  the program or the machine code of each compiled function
--
-- mt.explain prints the loops of each call, which of them are parallel, their pieces and threads, and how it ran.
-- Each result is compared with plain Lua and must have the same bits on 1, 2 and 3 threads.
local mt = require 'mtorch'

local options = mt.args{
  {'size', 700, 'rows and columns of the tensors', type = 'int', min = 2},
  {'show', help = 'what to print of each compiled function', choices = {'none', 'program', 'machine'}},
}
local n = options.size
local threads = math.max(mt.get_num_threads(), 2)
local x, y = mt.randn(n, n), mt.randn(n, n)
local column = mt.randn(n, 1)

--- Returns the positions (row, column) that are also computed in plain Lua.
local function positions()
  local list = {}
  for k = 1, 50 do list[k] = {(k * 37) % n + 1, (k * 91) % n + 1} end
  return list
end

--- Explains f(...), and compares it with plain(i, j) at some positions and its bits on 1, 2 and 3 threads.
local function check(title, f, plain, ...)
  print(('\n%s\n%s'):format(title, ('-'):rep(#title)))
  mt.set_num_threads(threads)
  local arguments, count = {...}, select('#', ...)
  if options.show ~= 'none' and plain.compiled then
    arguments[count + 1], count = {show = options.show}, count + 1
  end
  mt.explain(f, unpack(arguments, 1, count))
  local first
  for t = 1, 3 do
    mt.set_num_threads(t)
    local result = f(...)
    first = first or result
    if not mt.equal(first, result) then error(('%s: different bits on %d threads'):format(title, t), 0) end
  end
  local worst = 0
  for _, at in ipairs(positions()) do
    local i, j = math.min(at[1], first:size(1)), math.min(at[2], first:size(2))
    local expected = plain[1](i, j)
    worst = math.max(worst, math.abs(first:at(i, j) - expected) / math.max(1, math.abs(expected)))
  end
  if not (worst < 1e-4) then error(('%s: wrong by %g'):format(title, worst), 0) end
  print(('right (within %.1e of plain Lua), the same bits on 1, 2 and 3 threads'):format(worst))
end

--- Wraps a plain function for check; `compiled` means that mt.explain can show the program of f.
local function plain(f, compiled) return {f, compiled = compiled} end
local function plain_both(f) return plain(function(i, j) return f(x:at(i, j), y:at(i, j)) end) end

check('MAP: mt.relu', mt.relu, plain(function(i, j) return math.max(x:at(i, j), 0) end), x)
check('MAP: mt.exp of a transposed tensor', mt.exp, plain(function(i, j) return math.exp(x:at(j, i)) end), x:t())
check('ZIP: mt.add', mt.add, plain_both(function(a, b) return a + b end), x, y)
check('ZIP: mt.mul, one of them broadcast', mt.mul, plain(function(i, j)
  return x:at(i, j) * column:at(i, 1)
end), x, column)

local function sum_of(i)
  local s = 0
  for k = 1, n do s = s + x:at(i, k) end
  return s
end
check('REDUCE: mt.sum along rows', function(t) return t:sum(2, true) end, plain(function(i) return sum_of(i) end), x)
check('REDUCE: mt.sum of columns', function(t) return t:sum(1, true) end, plain(function(_, j)
  local s = 0
  for k = 1, n do s = s + x:at(k, j) end
  return s
end), x)

local function product(i, j)
  local s = 0
  for k = 1, n do s = s + x:at(i, k) * y:at(k, j) end
  return s
end
check('MATRIX MULTIPLY: mt.matmul', mt.matmul, plain(product), x, y)
check('MATRIX MULTIPLY: a few rows', mt.matmul, plain(product), x:narrow(1, 1, math.min(10, n)), y)

local k = 0.7978845608
local gelu = mt.map(function(a) return 0.5 * a * (1 + math.tanh(k * (a + 0.044715 * a ^ 3))) end)
check('YOUR OWN MAP: gelu', gelu, plain(function(i, j)
  local a = x:at(i, j)
  return 0.5 * a * (1 + math.tanh(k * (a + 0.044715 * a ^ 3)))
end, true), x)

local function huber(a, b)
  local d = math.abs(a - b)
  if d < 1 then return d * d / 2 end
  return d - 0.5
end
check('YOUR OWN ZIP: a Huber loss with an if', mt.zip(huber), plain(function(i, j)
  return huber(x:at(i, j), y:at(i, j))
end, true), x, y)

local largest = mt.reduce(function(a, b) return math.max(a, b) end, -math.huge)
check('YOUR OWN REDUCE: the largest of a row', function(t) return largest(t, 2, true) end, plain(function(i)
  local m = -math.huge
  for j = 1, n do m = math.max(m, x:at(i, j)) end
  return m
end), x)
mt.explain(largest, x, 2)

print '\nall right'
