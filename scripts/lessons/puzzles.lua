-- puzzles.lua -- fourteen exercises in grid kernels: write each kernel, then run this script to check it
--
--   mtorch scripts/lessons/puzzles.lua                    every puzzle: ok, wrong (and where), or not written yet
--   mtorch scripts/lessons/puzzles.lua --puzzle 3  one of them: its task, and a picture of what each thread touches
--   mtorch scripts/lessons/puzzles.lua --hint 3  the same with a hint
--   mtorch scripts/lessons/puzzles.lua --answers my.lua  your kernels: return {map = function(out, a) .. end}
--   mtorch scripts/lessons/puzzles.lua --solutions  the solutions (puzzles_solutions.lua), with pictures
--
-- A kernel is a Lua function that runs once for each thread of a grid. Positions begin at 1; x is the
-- first dimension of a tensor, y the second. mt.help('kernels') lists the names for kernels. All
-- puzzles run with {check = true}, which reports accesses out of bounds, races and divergent barriers.
-- The idea is from Sasha Rush's GPU puzzles. The exit status is 1 if an answer is wrong.
local mt = require 'mtorch'
local funcinfo = require('jit.util').funcinfo
local folder = arg[0]:match '^(.*/)[^/]*$' or './'
local trace = require 'puzzles_trace'

local options = mt.args {
  {'puzzle', help = 'only this puzzle, with its task and a picture', type = 'int', min = 1, max = 14},
  {'hint', help = 'the same with a hint', type = 'int', min = 1, max = 14},
  {'solutions', false, 'the solutions, with pictures'},
  {'answers', help = 'Lua file that returns your kernels, {map = function(out, a) .. end}', metavar = 'FILE'},
}

local function counting(...)
  local n = 1
  for _, size in ipairs {...} do n = n * size end
  return mt.range(1, n):float():reshape(...)
end
-- Unordered integers: their sums are exact, so results are compared exactly.
local function mixed(...) return (counting(...) * 7 % 11) - 3 end

-- Each puzzle has the task, the specification (`wanted`, an expression of tensors, with which the
-- result is compared), the tensors, the launch ({blocks, threads}) and the kernel.
-- `reads` is the largest number of global memory reads that a thread needs.
local puzzles = {
  {
    name = 'map', wanted = 'a + 10', out = {4}, names = 'a', inputs = {counting(4)}, launch = {1, 4},
    task = 'Add 10 to each element of a and store the sums in out. There is one thread for each element.',
    hint = 'local i = thread_idx.x is the number of the thread in its block; grid(1) is its number in the grid.',
    kernel = function(out, a)
      -- your code here: about 2 lines
    end,
  }, {
    name = 'zip', wanted = 'a * b', out = {4}, names = 'a b', inputs = {counting(4), mixed(4)}, launch = {1, 4},
    task = 'Multiply a and b element by element. There is one thread for each element.',
    hint = 'The same thread number is the position in all three tensors.',
    kernel = function(out, a, b)
      -- your code here: about 2 lines
    end,
  }, {
    name = 'guard', wanted = 'a + 10', out = {5}, names = 'a', inputs = {mixed(5)}, launch = {1, 8},
    task = 'Add 10 to each element of a. There are 8 threads, but only 5 elements: the last 3 threads must do nothing.',
    hint = '#out is the number of elements; if i <= #out then .. end is the guard.',
    kernel = function(out, a)
      -- your code here: about 4 lines
    end,
  }, {
    name = 'map2d', wanted = 'a * a', out = {3, 2}, names = 'a', inputs = {mixed(3, 2)}, launch = {1, {4, 4}},
    task = 'Square each element of a matrix. The block has 4 x 4 threads, more than the matrix has elements.',
    hint = 'local i, j = grid(2); out.shape[1] and out.shape[2] are the sizes, and both are guarded.',
    kernel = function(out, a)
      -- your code here: about 4 lines
    end,
  }, {
    name = 'broadcast', wanted = 'a + b', out = {3, 4}, names = 'a b', inputs = {mixed(3, 1), counting(1, 4)},
    launch = {1, {4, 4}},
    task = 'Add the column a (3 x 1) and the row b (1 x 4), which gives a matrix of 3 x 4.',
    hint = 'Thread (i, j) needs a[i][1] and b[1][j].',
    kernel = function(out, a, b)
      -- your code here: about 4 lines
    end,
  }, {
    name = 'blocks', wanted = 'a + 10', out = {10}, names = 'a', inputs = {mixed(10)}, launch = {3, 4},
    task = 'Add 10 to each of 10 elements. A block has only 4 threads, so there are 3 blocks; do not use grid(1).',
    hint = 'The blocks before mine have (block_idx.x - 1) * block_dim.x threads.',
    kernel = function(out, a)
      -- your code here: about 4 lines
    end,
  }, {
    name = 'blocks2d', wanted = 'a:t() + 1', out = {5, 7}, names = 'a', inputs = {mixed(7, 5)},
    launch = {{2, 2}, {4, 4}},
    task = 'Transpose the matrix a and add 1 to each element. The result of 5 x 7 is covered by 2 x 2 blocks of 4 x 4.',
    hint = 'grid(2) counts through the blocks; out[i][j] is made of a[j][i].',
    kernel = function(out, a)
      -- your code here: about 4 lines
    end,
  }, {
    name = 'shared', wanted = 'out:view(3, 4):flip(2):view(12)', start = counting(12), names = '', inputs = {},
    launch = {3, 4}, reads = 1,
    task = 'Reverse each run of 4 elements of out in place: 1 2 3 4 5 .. becomes 4 3 2 1 8 ... Each block of 4 ' ..
      'threads has one run; its threads exchange their elements through shared memory.',
    hint = 'local cells = shared(4); each thread stores its element, all wait at barrier(), each reads another one.',
    kernel = function(out)
      -- your code here: about 5 lines
    end,
  }, {
    name = 'pooling', wanted = 'mt.cat({mt.zeros(2), a}):unfold(1, 3, 1):sum(2)', out = {8}, names = 'a',
    inputs = {mixed(8)}, launch = {1, 8}, reads = 1,
    task = 'out[i] is the sum of a[i] and the two elements before it, where they exist. A thread may read global ' ..
      'memory only once.',
    hint = 'Copy a into shared memory, wait, then add up to three elements of it; the first threads have fewer.',
    kernel = function(out, a)
      -- your code here: about 9 lines
    end,
  }, {
    name = 'dot', wanted = '(a * b):sum():view(1)', out = {1}, names = 'a b', inputs = {mixed(8), counting(8)},
    launch = {1, 8}, reads = 2,
    task = 'The dot product of a and b, in out[1]. A thread may read each of a and b once; one thread stores ' ..
      'the result.',
    hint = 'Store the products in shared memory; then halve: 4 threads add the upper half to the lower, then 2, ' ..
      'then 1, with a barrier in between that all threads reach.',
    kernel = function(out, a, b)
      -- your code here: about 11 lines
    end,
  }, {
    name = 'conv1d', wanted = 'mt.conv1d(mt.cat({a, mt.zeros(3)}):view(1, 1, 18), b:view(1, 1, 4)):view(15)',
    out = {15}, names = 'a b', inputs = {mixed(15), counting(4)}, launch = {2, 8}, reads = 6,
    task = 'out[i] = a[i] b[1] + a[i + 1] b[2] + a[i + 2] b[3] + a[i + 3] b[4], with zeros behind the end of a. A ' ..
      'block needs 8 elements of a and the 3 after them: they are fetched into shared memory once.',
    hint = 'shared(11): each thread fetches element i, and the first 3 threads also element i + 8, or 0 behind ' ..
      'the end.',
    kernel = function(out, a, b)
      -- your code here: about 13 lines
    end,
  }, {
    name = 'prefix', wanted = 'a:cumsum(1)', out = {8}, names = 'a', inputs = {mixed(8)}, launch = {1, 8}, reads = 1,
    task = 'Prefix sums: out[i] = a[1] + .. + a[i], in 3 steps instead of 8. In step s each thread adds the element ' ..
      '1, then 2, then 4 positions before its own.',
    hint = 'Read the neighbour into a local, wait, then add it to your own element, wait again: else it is a race.',
    kernel = function(out, a)
      -- your code here: about 14 lines
    end,
  }, {
    name = 'axis', wanted = 'a:sum(2)', out = {4}, names = 'a', inputs = {mixed(4, 6)}, launch = {4, 8}, reads = 1,
    task = 'Sum each row of a 4 x 6 matrix. Each row has a block of 8 threads, and a thread reads one element at most.',
    hint = 'The row is block_idx.x, the column thread_idx.x; threads 7 and 8 store a zero in shared memory.',
    kernel = function(out, a)
      -- your code here: about 12 lines
    end,
  }, {
    name = 'matmul', wanted = 'a:matmul(b)', out = {5, 7}, names = 'a b', inputs = {mixed(5, 6), counting(6, 7) % 5},
    launch = {{2, 2}, {4, 4}}, reads = 4,
    task = 'The product of 5 x 6 and 6 x 7, by 2 x 2 blocks of 4 x 4. A block walks along the inner dimension in ' ..
      'tiles of 4: its threads fetch a tile of a and one of b into shared memory, then all use what all have fetched.',
    hint = 'Two barriers in the loop: one after the fetch, one before the next. Outside of a and b fetch a zero; no ' ..
      'thread may leave before the last barrier.',
    kernel = function(out, a, b)
      -- your code here: about 16 lines
    end,
  },
}

-- ---- the check -----------------------------------------------------------------------------------

local function arguments_of(puzzle, device)
  local out = puzzle.start and puzzle.start:clone() or mt.full(puzzle.out, 0 / 0)
  local list = {out:to(device)}
  for i, x in ipairs(puzzle.inputs) do list[i + 1] = x:to(device) end
  return list
end

--- Returns the result of the specification.
local function wanted_of(puzzle)
  local names = 'out' .. puzzle.names:gsub('%a+', ', %0'):gsub(' , ', ', ')
  local chunk = assert(loadstring(('local mt, %s = ... return (%s)'):format(names, puzzle.wanted)))
  return (chunk(mt, unpack(arguments_of(puzzle, 'cpu'))))
end

local function same(a, b) return a == b or (a ~= a and b ~= b) end

--- Describes the first position where two tensors differ, with both numbers; nil if they are equal.
local function difference(got, wanted)
  local columns = got:dim() == 2 and got.shape[2]
  local a, b = got:reshape(-1):tolist(), wanted:reshape(-1):tolist()
  for i, value in ipairs(a) do
    if not same(value, b[i]) then
      local place = columns and ('out[%d][%d]'):format(math.ceil(i / columns), (i - 1) % columns + 1)
        or ('out[%d]'):format(i)
      if value ~= value then
        return ('no thread stored a number in %s, which begins as nan and should be %g'):format(place, b[i])
      end
      return ('%s is %g, it should be %g'):format(place, value, b[i])
    end
  end
end

--- Returns 'ok', 'wrong' with a description, or 'not written yet'.
local function check_answer(puzzle, f, device)
  if type(f) == 'function' and funcinfo(f).bytecodes == 2 then return 'not written yet' end -- begin and return
  local list = arguments_of(puzzle, device)
  local ok, message = pcall(function() mt.kernel(f, {check = true})[puzzle.launch](unpack(list)) end)
  if not ok and tostring(message):find 'interrupted!' then error(puzzle.name .. ' did not end: interrupted!', 0) end
  if not ok then return 'wrong', (tostring(message):gsub('^[^\n]-puzzles%.lua:%d+: ', '')) end
  local fault = difference(list[1]:cpu(), wanted_of(puzzle))
  return fault and 'wrong' or 'ok', fault
end

local function dims(size)
  return type(size) == 'table' and table.concat(size, ' x ') or tostring(size)
end
local function describe(number, puzzle)
  print(('\nPuzzle %d: %s. %s'):format(number, puzzle.name, puzzle.task))
  print(('  out = %s; %s block(s) of %s threads; function(%s)'):format(puzzle.wanted, dims(puzzle.launch[1]),
    dims(puzzle.launch[2]), ('out ' .. puzzle.names):gsub(' $', ''):gsub(' ', ', ')))
end

-- ---- main ----------------------------------------------------------------------------------------

--- Returns the kernels of a file, by the names of puzzles.
local function answers_of(path)
  local answers, names = dofile(path), {}
  if type(answers) ~= 'table' then error(path .. ' must return its kernels: {map = function(out, a) .. end}', 0) end
  for i, puzzle in ipairs(puzzles) do names[puzzle.name] = i end
  for name in pairs(answers) do
    if not names[name] then error(("%s: there is no puzzle '%s'"):format(path, name), 0) end
  end
  return answers
end

local path = options.solutions and folder .. 'puzzles_solutions.lua' or options.answers
local answers = path and answers_of(path) or {}
local devices = {'cpu'}
if mt.cuda.is_available() then devices[2] = 'cuda' end

local selected = options.hint or options.puzzle or 0
local counts = {ok = 0, wrong = 0, ['not written yet'] = 0}
for number, puzzle in ipairs(puzzles) do
  if selected == 0 or selected == number then
    local f = answers[puzzle.name] or puzzle.kernel
    local detailed = selected > 0 or options.solutions
    if detailed then describe(number, puzzle) end
    if options.hint == number then print('  Hint: ' .. puzzle.hint) end
    local state, fault
    for _, device in ipairs(devices) do
      state, fault = check_answer(puzzle, f, device)
      if state ~= 'ok' then break end
    end
    counts[state] = counts[state] + 1
    local picture, max_reads
    if state ~= 'not written yet' then
      picture, max_reads = trace.picture(f, puzzle.launch, 'out ' .. puzzle.names, arguments_of(puzzle, 'cpu'))
    end
    if detailed and picture then print(picture) end
    if state == 'ok' and puzzle.reads and max_reads and max_reads > puzzle.reads then
      fault = ('a thread reads global memory %d times; %d would do'):format(max_reads, puzzle.reads)
    end
    print(('%2d %-10s %s%s'):format(number, puzzle.name, state, fault and ': ' .. fault or ''))
  end
end
print(('%d ok, %d wrong, %d not written yet'):format(counts.ok, counts.wrong, counts['not written yet']))
if counts.wrong > 0 or (options.solutions and counts['not written yet'] > 0) then os.exit(1) end
