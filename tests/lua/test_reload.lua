-- test_reload.lua -- Changed sources while a program runs: mt.reload of a module, and what `mtorch watch` takes over.
local mt = require 'mtorch'
local t = require 'testing'
local watch = require 'mtorch.script.watch'
local test, eq, raises = t.test, t.eq, t.raises

local function write(path, text)
  local file = io.open(path, 'w')
  file:write(text)
  file:close()
end

local folder = os.tmpname()
os.remove(folder)
os.execute('mkdir ' .. folder)
package.path = folder .. '/?.lua;' .. package.path

test('mt.reload fills the table that the script has, and an error leaves it', function()
  local path = folder .. '/reloaded.lua'
  write(path, 'local M = {} function M.f() return 1 end M.gone = true return M')
  local m = require 'reloaded'
  write(path, 'local M = {} function M.f() return 2 end return M')
  eq(mt.reload 'reloaded' == m, true)
  eq({m.f(), m.gone, require 'reloaded' == m}, {2, nil, true})
  write(path, 'error "broken"')
  raises(function() mt.reload 'reloaded' end, 'test_reload.lua:%d+: reload: .*reloaded.lua:1: broken')
  eq({m.f(), require 'reloaded' == m}, {2, true})
end)

-- ---- watching --------------------------------------------------------------------------------------

local script = folder .. '/script.lua'
local text = [[
local mt = require 'mtorch'
local nn = mt.nn
local count, limit = 0, 5
local function helper(x) return x + 1 end
local function value(x)
  count = count + 1
  return helper(x) * 2
end
local Net = nn.class('Net')
function Net:forward(x) return x * 10 end
local net, list = Net(), {value = value}
local function through(x) return value(x) end
local function double(x) return x + x end
local step = mt.compile(double)
local function low() return limit end
return function(x) return value(x), list.value(x), through(x), net(x), count, low() end, function(x) return step(x) end
]]
local run, step

--- Replaces a part of the script, and lets the program look; returns what it says.
local function change(from, to)
  local first, last = text:find(from, 1, true)
  text = text:sub(1, first - 1) .. to .. text:sub(last + 1)
  write(script, text)
  local said, stderr = {}, io.stderr
  io.stderr = {write = function(_, ...) said[#said + 1] = table.concat{...} end} -- luacheck: ignore
  local ok, message = pcall(watch.check)
  io.stderr = stderr -- luacheck: ignore
  assert(ok, message)
  return table.concat(said)
end

test('changed functions are taken over wherever they are, with the variables of the old ones', function()
  write(script, text)
  watch.start(script)
  run, step = assert(loadfile(script))()
  eq({run(1)}, {4, 4, 4, 10, 3, 5})
  eq(change('helper(x) * 2', 'helper(x) * 3'), 'mtorch: script.lua: took over value\n')
  eq({run(1)}, {6, 6, 6, 10, 6, 5})
  eq(change('return x * 10', 'return x * 20'), 'mtorch: script.lua: took over Net:forward\n')
  for _ = 1, 200 do run(1) end -- LuaJIT compiles it
  eq(change('return x + 1 ', 'return x + 2\n\n'), 'mtorch: script.lua: took over helper\n')
  eq({run(1)}, {9, 9, 9, 20, 609, 5})
  eq(change([[local function value(x)
  count = count + 1
  return helper(x) * 3]], [[local function other(x) return x + 100 end
local function value(x)
  count = count + 1
  return helper(x) * other(4)]]), 'mtorch: script.lua: took over other, value\n')
  eq({run(1)}, {312, 312, 312, 20, 612, 5})
  eq(change('x + 100', 'x + 200'), 'mtorch: script.lua: took over other\n')
  eq({run(1)}, {612, 612, 612, 20, 615, 5})
end)

test('a compiled step records again', function()
  for _ = 1, 4 do eq(step(mt.ones(1)):item(), 2) end
  eq(change('return x + x', 'return x * 3'), 'mtorch: script.lua: took over double\n')
  for _ = 1, 4 do eq(step(mt.ones(1)):item(), 3) end
end)

test('an error leaves the old functions; messages have the lines of the file', function()
  eq(change('helper(x) * other(4)', 'helper(x) * * 4'),
    "mtorch: script.lua: line 10: unexpected symbol near '*'; the old functions stay\n")
  eq(({run(1)})[1], 612)
  eq(change('helper(x) * * 4', "(error 'here')"), 'mtorch: script.lua: took over value\n')
  raises(function() run(1) end, 'script.lua:10: here')
end)

test('what a new function assigns is seen by compiled code; the rest of a script has to wait', function()
  eq(change("(error 'here')", '1'), 'mtorch: script.lua: took over value\n')
  local function last() return (select(6, run(1))) end
  for _ = 1, 200 do eq(last(), 5) end
  eq(change('count = count + 1', 'limit = limit + 1'), 'mtorch: script.lua: took over value\n')
  local before = last()
  for i = 1, 200 do eq(last(), before + 3 * i) end
  eq(jit.status(), false) -- LuaJIT takes a variable that was never assigned for a constant
  jit.on()
  eq(change('limit = 0, 5', 'limit = 0, 6'),
    'mtorch: script.lua: what is outside of functions takes effect at the next start\n')
end)

t.finish()
