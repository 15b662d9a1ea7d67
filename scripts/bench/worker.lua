-- worker.lua -- measures the rows that bench.lua sends, for contenders that need no Python (contender.lua)
--
--   mtorch scripts/bench/worker.lua --name NAME --threads N --device cpu
--
-- NAME: mtorch; cblas (the BLAS called directly); copy (memcpy of as many bytes as the row reads and writes); cpp
-- (loops in C++, g++ -O3 -march=native).
local options = require('mtorch').args {{'name', 'mtorch', 'contender to measure'}}
local mt = require 'mtorch'
local core = require 'mtorch.core'
package.path = arg[0]:gsub('bench/worker%.lua$', '?.lua;') .. package.path
local tools = require 'bench.tools'

local on_gpu = options.device ~= 'cpu'
if on_gpu then mt.set_default_device(options.device) end
local function wait() if on_gpu then core.synchronize(options.device) end end
tools.wait, tools.threads, tools.device = wait, options.threads, options.device

--- Creates the tensors of `x=1024x1024 i=index10:5 ..` (rows.lua lists the kinds); returns their names and values.
local function make_inputs(text)
  local names, values = {}, {}
  for name, kind, shape in text:gmatch('(%w+)=([%w%.,-]-):?([%dx]+)%f[%s%z]') do
    local sizes = {}
    for n in shape:gmatch('%d+') do sizes[#sizes + 1] = tonumber(n) end
    local base, first, second = kind:match('^(%a*)(-?[%d%.]*),?(-?[%d%.]*)$')
    local leaf = base:match('^leaf')
    base = base:gsub('^leaf', '')
    local x
    if base == 'normal' then x = mt.randn(sizes)
    elseif base == 'index' then x = mt.randint(1, assert(tonumber(first)), sizes)
    elseif base == 'int' then x = mt.randint(0, assert(tonumber(first)), sizes)
    elseif base == 'bool' then x = mt.rand(sizes):lt(0.5)
    elseif base == 'zeros' then x = mt.zeros(sizes)
    else
      local lo, hi = tonumber(first) or 0.5, tonumber(second) or 1.5
      x = mt.rand(sizes) * (hi - lo) + lo
    end
    names[#names + 1], values[#values + 1] = name, leaf and x:requires_grad_() or x
  end
  return names, values
end

--- Returns the function to time: `setup` is statements, `call` an expression or statements.
local function make_call(inputs, setup, call)
  local names, values = make_inputs(inputs)
  setup = setup:gsub('\\n', '\n')
  local head = ('local mt, tools%s = ... %s return function() '):format(#names > 0 and ', ' .. table.concat(names, ', ')
    or '', setup)
  local chunk, message = loadstring(head .. 'return ' .. call .. ' end', '=row')
  if not chunk then chunk, message = loadstring(head .. call .. ' end', '=row') end
  if not chunk then error(message, 0) end
  return chunk(mt, tools, unpack(values)), values
end

local function bytes_of(x) return mt.is_tensor(x) and x:numel() * x:element_size() or 0 end
local function bytes_moved(values, ...)
  local bytes = 0
  for _, x in ipairs(values) do bytes = bytes + bytes_of(x) end
  for i = 1, select('#', ...) do bytes = bytes + bytes_of((select(i, ...))) end
  return bytes
end

local builders = {} -- of other functions than make_call's
function builders.copy(inputs, setup, call)
  local f, values = make_call(inputs, setup, call)
  local half = math.ceil(bytes_moved(values, f()) / 2)
  return tools.memory_copy(half)
end
function builders.cpp(inputs, setup, call)
  local names, values = make_inputs(inputs)
  return tools.compiled_loop(names, values, setup, call)
end

-- ---- requests ----

local call
local answers = {}

function answers.load(inputs, setup, text)
  call = make_call(inputs, setup, text)
  return 'ready', 0
end
function answers.report() return 'time', call() end

function answers.prepare(inputs, setup, text)
  call = nil
  jit.flush() -- otherwise the traces of earlier rows would slow the loops down
  collectgarbage()
  collectgarbage()
  call = (builders[options.name] or make_call)(inputs, setup, text)
  return 'ready', select(2, answers.run(1))
end
function answers.run(loops)
  local began = core.time()
  for _ = 1, tonumber(loops) do call() end
  wait()
  return 'time', core.time() - began
end

local function answer(line)
  local fields = tools.fields(line)
  local ok, word, figure = pcall(answers[fields[1]], select(2, unpack(fields)))
  if not ok then return 'none\t' .. tostring(word):gsub('%s+', ' ') end
  return ('%s\t%.9f'):format(word, figure)
end

local why = tools.missing(options.name)
io.stdout:write(why and 'none\t' .. why or 'hello\t' .. tools.version(options.name), '\n')
io.stdout:flush()
for line in why and function() end or io.lines() do
  io.stdout:write(answer(line), '\n')
  io.stdout:flush()
end
