-- fusion.lua -- operator fusion: memory traffic and times of eager operations, mt.map and mt.fuse
--
--   mtorch scripts/lessons/fusion.lua                          tables and bar charts
--   mtorch scripts/lessons/fusion.lua --rows 512 --columns 64  other sizes; --tables leaves the charts out
--
-- Each eager operation reads its operands from memory and writes its result to memory; for simple
-- arithmetic the memory bandwidth limits the speed. A fused function computes all operations while an
-- element (or a row) is in registers and caches: memory is read once and written once. The bytes of the
-- eager function are counted by a tensor class; a fused function must run as a single loop over its
-- tensors. Gradients also need less memory ("MB kept"): what eager operations save for backward is
-- computed again from the inputs.
local mt = require 'mtorch'
local core = require 'mtorch.core'
local lesson = require 'cuda_lesson'

local options = mt.args {
  {'rows', 2048, 'rows of the tensors', type = 'int', min = 2},
  {'columns', 1024, 'columns of the tensors', type = 'int', min = 2},
  {'runs', 5, 'timed runs; the median is shown', type = 'int', min = 1},
  {'csv', '', 'files NAME_*.csv for the tables', metavar = 'NAME.csv'},
  {'tables', false, 'print tables only, without bar charts'},
}

-- ---- the functions ---------------------------------------------------------------------------------

-- A chain of elementwise operations: GELU by its tanh formula.
local function gelu(x) return x * 0.5 * (((x * x * x * 0.044715 + x) * 0.7978845608028654):tanh() + 1) end
local gelu_by_hand = mt.map(function(v)
  return v * 0.5 * (math.tanh((v * v * v * 0.044715 + v) * 0.7978845608028654) + 1)
end)
-- Functions of rows, with reductions.
local function softmax(x)
  local e = (x - x:amax(-1, true)):exp()
  return e / e:sum(-1, true)
end
local function layer_norm(x)
  local d = x - x:mean(-1, true)
  return d / ((d * d):mean(-1, true) + 1e-5):sqrt()
end

-- {title, {{way, function}, ..}}: the first way is eager, and the others are compared with it.
local examples = {
  {'GELU', {{'eager', gelu}, {'by hand, mt.map', gelu_by_hand}, {'mt.fuse', mt.fuse(gelu)},
            {'built in', function(x) return mt.gelu(x, 'tanh') end}}},
  {'softmax', {{'eager', softmax}, {'mt.fuse', mt.fuse(softmax)}, {'built in', function(x) return x:softmax(-1) end}}},
  {'layer norm', {{'eager', layer_norm}, {'mt.fuse', mt.fuse(layer_norm)},
                  {'built in', function(x) return mt.layer_norm(x, {x.shape[2]}) end}}},
}

-- ---- bytes -----------------------------------------------------------------------------------------

local function bytes(x) return x:numel() * x:element_size() end

-- A tensor whose operations add the bytes of their operands and results to `traffic`.
local Counted = {}
local function plain(x) return getmetatable(x) == Counted and x.tensor or x end
local function counting(traffic, fn, ...)
  local arguments, seen = {...}, {}
  for i, x in ipairs(arguments) do
    arguments[i] = plain(x)
    if mt.is_tensor(arguments[i]) and not seen[x] then traffic.read = traffic.read + bytes(arguments[i]) end
    seen[x] = true                                     -- x * x reads x once
  end
  local y = fn(unpack(arguments))
  traffic.operations, traffic.written = traffic.operations + 1, traffic.written + bytes(y)
  return setmetatable({tensor = y, traffic = traffic}, Counted)
end
function Counted.__index(self, name)
  local traffic = rawget(self, 'traffic')
  return function(...) return counting(traffic, self.tensor[name], ...) end
end
local arithmetic = {__add = mt.add, __sub = mt.sub, __mul = mt.mul, __div = mt.div}
for event, fn in pairs(arithmetic) do
  Counted[event] = function(a, b) return counting((getmetatable(a) == Counted and a or b).traffic, fn, a, b) end
end

--- Returns the loops over tensors that fn(x) ran: calls of the device verbs map, run and reduce.
local function loops(fn, x)
  local list = {}
  fn(x)                                                -- the first call of a fused function records it
  for _, verb in ipairs(core.verbs_call(function() fn(x) end)) do
    if verb.text:find '^%S+ map ' or verb.text:find '^%S+ run ' or verb.text:find '^%S+ reduce ' then
      list[#list + 1] = verb.text
    end
  end
  return list
end

--- Returns {operations, read, written} of a way. An eager function is run on counting tensors. A fused function
--- must be a single loop, so inputs are read once and results are written once; the same is assumed of a
--- built-in function.
local function traffic_of(way, fn, x)
  local traffic = {operations = 0, read = 0, written = 0}
  if way == 'eager' then
    fn(setmetatable({tensor = x, traffic = traffic}, Counted))
    return traffic
  end
  local ran = loops(fn, x)
  if way ~= 'built in' and #ran ~= 1 then
    error(('%s ran %d loops, not one: %s'):format(way, #ran, table.concat(ran, ', ')), 0)
  end
  return {operations = 1, read = bytes(x), written = bytes(fn(x))}
end

--- Returns the bytes that stay allocated for backward, without the result.
local function kept_for_backward(fn, x)
  collectgarbage()
  collectgarbage()
  local leaf = x:detach():requires_grad_()
  local before = mt.memory_stats().allocated
  local y = fn(leaf)
  collectgarbage()
  collectgarbage()
  return mt.memory_stats().allocated - before - bytes(y)
end

local function forward_and_backward(fn, x, direction)
  local leaf = x:detach():requires_grad_()
  return function()
    leaf.grad = nil
    fn(leaf):backward(direction)
  end
end

-- ---- tables ----------------------------------------------------------------------------------------

local devices = {'cpu'}
if mt.cuda.is_available() then
  devices[2] = 'cuda'
  print('GPU: ' .. mt.cuda.device_name())
end
local columns = {'way', 'operations', 'MB read', 'MB written', 'MB kept', 'us', 'GB/s', 'us with backward',
  'times eager'}
if devices[2] then columns[10], columns[11], columns[12] = 'GPU us', 'GPU GB/s', 'GPU times eager' end

--- Returns the times of a way on a device, and checks its result and gradient against the eager function.
local function measured(title, way, fn, eager, x, device)
  local x_there, direction = x:to(device), mt.randn(x.shape):to(device)
  lesson.check(title .. ' ' .. way, fn(x_there), eager(x), 1e-5)
  local gradients = {}
  for i, f in ipairs {fn, eager} do
    local leaf = x_there:detach():requires_grad_()
    f(leaf):backward(direction)
    gradients[i] = leaf.grad
  end
  lesson.check(('%s %s, gradient'):format(title, way), gradients[1], gradients[2], 1e-4)
  return lesson.microseconds(function() fn(x_there) end, options.runs),
    lesson.microseconds(forward_and_backward(fn, x_there, direction), options.runs)
end

local function row_of(title, way, fn, eager, x, first)
  local traffic = traffic_of(way, fn, x)
  local moved = traffic.read + traffic.written
  local us, us_with_backward = measured(title, way, fn, eager, x, 'cpu')
  local row = {way, traffic.operations, traffic.read / 1e6, traffic.written / 1e6, kept_for_backward(fn, x) / 1e6, us,
    moved / us / 1e3, us_with_backward, first and first[6] / us or 1}
  if devices[2] then
    row[10] = measured(title, way, fn, eager, x, 'cuda')
    row[11], row[12] = moved / row[10] / 1e3, first and first[10] / row[10] or 1
  end
  return row
end

local function show(example, x)
  local title, ways = unpack(example)
  local rows, names, moved, times = {}, {}, {}, {}
  for i, way in ipairs(ways) do
    rows[i] = row_of(title, way[1], way[2], ways[1][2], x, rows[1])
    names[i], moved[i], times[i] = way[1], rows[i][3] + rows[i][4], rows[i][6]
    if way[1] ~= 'built in' and i > 1 and moved[i] >= moved[1] then
      error(('%s: %s moves no fewer bytes than eager'):format(title, way[1]), 0)
    end
  end
  print(('\n-- %s of %d x %d float32 --'):format(title, options.rows, options.columns))
  lesson.table(columns, rows, lesson.csv_of(options.csv, title))
  if not options.tables then
    mt.plot.bar {moved, labels = names, title = title .. ': MB read and written'}
    mt.plot.bar {times, labels = names, title = title .. ': microseconds on the CPU'}
  end
end

if options.rows * options.columns < 32768 then
  io.stderr:write(arg[0], ': --rows times --columns must be at least 32768; smaller tensors are not fused\n')
  os.exit(2)
end
local x = mt.randn(options.rows, options.columns)
local us = lesson.microseconds(function() x:clone() end, options.runs)
print(('a copy: %.1f GB/s'):format(2 * bytes(x) / us / 1e3))
for _, example in ipairs(examples) do show(example, x) end
print('\nall ways give the same results and gradients')
