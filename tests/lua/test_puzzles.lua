-- test_puzzles.lua -- scripts/lessons/puzzles.lua: its solutions are right, and wrong kernels are reported
local testing = require 'testing'
local test, eq = testing.test, testing.eq

local scripts = (arg[0]:match '^(.*/)[^/]*$' or './') .. '../../scripts/lessons/'
local function run(options)
  local pipe = io.popen(("'%s' '%spuzzles.lua' %s 2>&1; echo status $?"):format(arg[-1] or 'mtorch', scripts, options))
  local text = pipe:read '*a'
  pipe:close()
  return text, tonumber(text:match 'status (%d+)\n$')
end
local function has(text, what)
  if not text:find(what) then error(('%q is not in\n%s'):format(what, text), 2) end
end

test('the solutions', function()
  local text, status = run '--solutions'
  has(text, '14 ok, 0 wrong, 0 not written yet')
  has(text, 'thread 3,1  out %.%.w%.%.%.%.%.   a %.%.r%.%.%.%.%.   shared rrx%.%.%.%.%.') -- pooling
  assert(not text:find 'would do', text)
  eq(status, 0)
end)

test('nothing written yet', function()
  local text, status = run ''
  has(text, '0 ok, 0 wrong, 14 not written yet')
  eq(status, 0)
  has(run '--hint 3', 'Puzzle 3: guard.*Hint: #out is')
end)

--- Runs the script with a file of answers.
local function run_answers(text)
  local path = os.tmpname()
  local file = io.open(path, 'w')
  file:write(text)
  file:close()
  local answer, status = run('--answers ' .. path)
  os.remove(path)
  return answer, status
end

test('wrong kernels', function()
  local text, status = run_answers [[return {
    map = function(out, a) local i = grid(1) out[i] = a[i] + 9 end,
    zip = function(out, a, b) local i = grid(1) if i > 1 then out[i] = a[i] * b[i] end end,
    guard = function(out, a) local i = grid(1) out[i] = a[i] + 10 end,
    map2d = function(out, a) out[1] = 3 end,
    broadcast = function(out, a, b) if grid(1) > 4 then out[1][1] = 3 end end,
    blocks = function(out, a) if thread_idx.x < 3 then barrier() end end,
    blocks2d = function(out, a)
      local i, j = grid(2)
      if i <= 5 and j <= 7 then out[i][j] = a[j][i] + (i * j == 6 and 0 or 1) end
    end,
    shared = function(out) local i, t = grid(1), thread_idx.x out[i] = out[(block_idx.x - 1) * 4 + 5 - t] end,
    pooling = function(out, a)
      local i = grid(1)
      out[i] = a[i] + (i > 1 and a[i - 1] or 0) + (i > 2 and a[i - 2] or 0)
    end}]]
  eq(status, 1)
  has(text, ' 1 map        wrong: out%[1%] is 10, it should be 11\n')
  has(text, ' 2 zip        wrong: no thread stored a number in out%[1%], which begins as nan and should be 4\n')
  has(text, ' 3 guard      wrong: [^\n]*:4: guard: index 6 is out of bounds')
  has(text, ' 4 map2d      wrong: [^\n]*cannot write')
  has(text, ' 5 broadcast  wrong: no thread stored a number in out%[1%]%[1%]')
  has(text, ' 6 blocks     wrong: [^\n]*divergent barrier')
  has(text, ' 7 blocks2d   wrong: out%[1%]%[6%] is ')
  has(text, ' 8 shared     wrong: [^\n]*race')
  has(text, ' 9 pooling    ok: a thread reads global memory 3 times; 1 would do\n')
  has(text, '1 ok, 8 wrong, 5 not written yet')
end)

test('wrong files and numbers', function()
  has(run_answers 'return {mapp = function(out, a) end}', "there is no puzzle 'mapp'")
  has(run_answers 'local map = function(out, a) end', 'must return its kernels')
  local text, status = run '--puzzle 15'
  has(text, '--puzzle must be a whole number from 1 to 14, got 15')
  eq(status, 2)
end)

testing.finish()
