-- hostile.lua -- Random calls of the whole API with hostile arguments: errors are sentences, nothing crashes.
--
--   mtorch tests/hostile.lua [CALLS [SEED]]     200,000 calls under the sanitizers, fewer in the normal tests
--
-- Every function of mt, mt.linalg, nn, optim, data and every method is called with corner values: 0, -1, 2^31, 2^62,
-- NaN, empty and 0-d tensors, wrong ranks, wrong types, options. Each call must return, or raise a sentence that
-- begins with the line of this script and an operation. Memory is limited, so that no size is believed.
local mt = require 'mtorch'
local core = require 'mtorch.core'

local usual = os.getenv('MTORCH_SANITIZED') and 200000 or 20000
local calls, seed = tonumber(arg and arg[1]) or usual, tonumber(arg and arg[2]) or 1
local limit = 48 * 2 ^ 20
core.set_memory_limit(limit)
mt.manual_seed(seed)
math.randomseed(seed)
local random = math.random

local function any(list) return list[random(#list)] end

-- ---- what is thrown ----

local function tensors()
  local list = {
    mt.tensor(2.5), mt.tensor(-0.0), mt.zeros(0), mt.zeros(0, 3), mt.zeros(2, 0, 3), mt.zeros({}, {dtype = 'int64'}),
    mt.rand(3), mt.rand(4), mt.rand(3, 4), mt.rand(4, 3):t(), mt.rand(2, 3, 4), mt.rand(1, 1), mt.rand(5, 5),
    mt.rand(2, 3, 4, 4), mt.rand(6, 6)[{{1, 6, 2}, {2, 5}}], mt.rand(3, 1):expand(3, 4), mt.rand(1):expand(7),
    mt.tensor{0 / 0, 1 / 0, -1 / 0, 0, -0.0, 1e-40, 3e38}, mt.rand({3, 3}, {dtype = 'float64'}),
    mt.rand({3, 4}, {dtype = 'float64'}):requires_grad_(), mt.rand(3, 4):requires_grad_(), mt.rand(4) * 1e30,
    mt.tensor({1, 2, 3}, {dtype = 'int64'}), mt.tensor({0, -1, 2 ^ 31}, {dtype = 'int64'}),
    mt.tensor({2 ^ 53, -2 ^ 53}, {dtype = 'int64'}), mt.randint(1, 3, {3, 4}), mt.randint(-3, 3, {2, 3}),
    mt.tensor({0, 255}, {dtype = 'uint8'}), mt.tensor({-2147483648, 2147483647}, {dtype = 'int32'}),
    mt.rand(3, 4):lt(0.5), mt.rand(3):lt(0.5), mt.tensor(true), mt.eye(4), mt.eye(3):double(), mt.ones(4, 4),
    mt.zeros(1, 1, 1, 1, 1, 1, 1, 1), mt.rand(64), mt.rand(2, 2):requires_grad_() * 2, mt.rand(1000),
  }
  return list
end
local pool = tensors()
local numbers = {0, -0.0, 1, 2, 3, 4, 5, -1, -2, -3, 7, 0.5, -0.5, 1.5, 2.7, 100, 1e-3, 1e10, 2 ^ 31, 2 ^ 31 - 1,
                 -2 ^ 31, 2 ^ 32, 2 ^ 53, 2 ^ 53 + 2, 2 ^ 62, 2 ^ 63, -2 ^ 63, 1e300, 1 / 0, -1 / 0, 0 / 0, 1e-320,
                 16, 17, 255, 256}
local words = {'float32', 'float64', 'int64', 'bool', 'uint8', 'cpu', 'cuda', 'mean', 'sum', 'none', 'ij,jk->ik',
               'ii->i', '...->', 'reflect', 'constant', 'circular', 'linear', 'nearest', '', 'x', '12', ':',
               '1:2, :', '...,1', '0:', 'fro', 'nuc', 'amax', 'prod', 'ij', 'mt19937', 'same', ('z'):rep(300),
               '\0', '%s%n', 'float16', 'add'}
local names = {}
for _, name in ipairs {'dim', 'keepdim', 'dtype', 'device', 'requires_grad', 'index', 'n', 'shape', 'p', 'eps',
                       'reduction', 'stride', 'padding', 'dilation', 'groups', 'generator', 'value', 'bins', 'k'} do
  names[#names + 1] = name
end

local value
local function list(depth)
  local t = {}
  for i = 1, random(0, 4) do t[i] = value(depth + 1) end
  return t
end
local function integers()
  local t = {}
  for i = 1, random(0, 5) do t[i] = random() < 0.8 and random(-1, 5) or any(numbers) end
  return t
end
local function options(signature)
  local t = {}
  for name in signature:gmatch('([%a_][%w_]*)%]?=') do
    if random() < 0.4 then t[name] = value(1) end
  end
  if random() < 0.1 then t[any(names)] = value(1) end
  return t
end
local functions = {
  function(x) return x end, function(...) return ... end, function() return mt.rand(2):sum() end,
  function() error('mine') end, function(x) return (x * x):sum() end, function() return 7 end, mt.sum, mt.zeros,
}

value = function(depth)
  local r = random()
  if r < 0.45 then return any(pool) end
  if r < 0.62 then return random(-2, 6) end
  if r < 0.72 then return any(numbers) end
  if r < 0.78 then return any(words) end
  if r < 0.82 then return random() < 0.5 end
  if r < 0.92 and depth < 3 then return random() < 0.5 and integers() or list(depth) end
  if r < 0.95 then return any(functions) end
  if r < 0.97 then return nil end
  return any {io.stdout, coroutine.create(print), mt, mt.newaxis, mt.ellipsis,
              setmetatable({}, {__len = error}),
              mt.Generator, {{}, {}}, {x = 1}, {[1.5] = 2}, {1, nil, 3}, {1, {2}}, {dim = 1}}
end

--- An argument that suits the parameter's name, most of the time: so that calls come past the first check.
local function suited(name, method_self)
  if random() < 0.12 then return value(0) end
  if method_self or name:find('^[xyzabcqkv]$') or name == 'input' or name == 'tensor' then return any(pool) end
  if name:find('^dim') then return random() < 0.5 and random(-3, 4) or integers() end
  local data = {index = true, ids = true, target = true, source = true, mask = true, weight = true}
  if data[name] then return any(pool) end
  if name == 'tensors' or name == 'inputs' then return {any(pool), any(pool), any(pool)} end
  if name:find('shape') or name:find('size') then return integers() end
  if name == 'fn' or name == 'f' then return any(functions) end
  return value(0)
end

-- ---- what is called ----

-- Not called: what ends the program, prints, waits, writes files, or changes what this test stands on.
local left_out = {}
for name in ([[args progress report timeit help set_num_threads plot set_default_dtype set_printoptions
  set_grad_enabled manual_seed set_debug idx cuda launch_kernel]]):gmatch('%S+') do left_out[name] = true end

local targets = {}
local function add(shown, fn, self)
  local init = type(fn) == 'table' and rawget(fn, '__init')
  local signature = core.entry(init or fn)
  if signature then targets[#targets + 1] = {name = shown, fn = fn, signature = signature, self = self} end
end
for name, fn in pairs(core.methods) do if not left_out[name] then add('x:' .. name, fn, true) end end
for name in pairs(core.lazy) do local _ = mt[name] end
for name, fn in pairs(mt) do
  if not left_out[name] and core.methods[name] ~= fn then add('mt.' .. name, fn) end
end
for _, module in ipairs {'linalg', 'nn', 'optim', 'data'} do
  local ok, inner = pcall(function() return mt[module] end)
  for name, fn in pairs(ok and inner or {}) do
    if not left_out[name] then add(module .. '.' .. name, fn) end
  end
end
table.sort(targets, function(a, b) return a.name < b.name end)
for _, target in ipairs(targets) do
  target.parameters = {}
  for name in target.signature:match('%((.*)%)'):gsub('=[^,]*', ''):gmatch('[%w_%.]+') do
    table.insert(target.parameters, (name:gsub('%.%.$', '')))
  end
end

local function arguments(target)
  local list_of, n = {}, 0
  for i, name in ipairs(target.parameters) do
    if random() < 0.15 and i > 1 then break end
    n = i
    list_of[i] = suited(name, target.self and i == 1)
  end
  if random() < 0.25 then n = n + 1; list_of[n] = options(target.signature) end
  if random() < 0.03 then n = n + 1; list_of[n] = value(0) end
  return list_of, n
end

local function show(v)
  if mt.is_tensor(v) then return ('tensor(%s %s)'):format(tostring(v.shape), v.dtype) end
  if type(v) ~= 'table' or getmetatable(v) then return tostring(v) end
  local parts = {}
  for k, item in pairs(v) do parts[#parts + 1] = tostring(k) .. '=' .. show(item) end
  return '{' .. table.concat(parts, ', ') .. '}'
end
local function call_text(target, list_of, n)
  local parts = {}
  for i = 1, n do parts[i] = show(list_of[i]) end
  return target.name .. '(' .. table.concat(parts, ', ') .. ')'
end

-- ---- throwing ----

local trace = os.getenv('MTORCH_HOSTILE_TRACE') -- each call to stderr before it is made
local returned, raised, slowest, slowest_name, faults = 0, 0, 0, '', 0
local function fault(text)
  faults = faults + 1
  if faults <= 20 then print('FAULT: ' .. text) end
end

local function indexing()
  local x, key = any(pool), value(0)
  if random() < 0.5 then return 'x[k]', pcall(function() return x[key] end) end
  local v = value(1)
  return 'x[k]=v', pcall(function() x[key] = v end)
end

local operators = {
  function(x, y) return x + y end, function(x, y) return x - y end, function(x, y) return x * y end,
  function(x, y) return x / y end, function(x, y) return x ^ y end, function(x, y) return x % y end,
  function(x) return -x end, function(x) return #x end, function(x) return tostring(x) end,
}

--- An error of ours names a line; the scripts' own errors ('mine') and Lua's are let through.
local function check(text, shown)
  if type(text) ~= 'string' then return end
  if text == '' or text:find('std::') or text:find('bad_alloc') or text:find('C%+%+ exception') then
    fault(shown .. ' raised ' .. text)
  end
  if #text > 2000 then fault(shown .. ' raised ' .. #text .. ' characters') end
  if not text:find('^tests/hostile.lua:%d+: ') and not text:find('hostile%.lua:%d+:') then
    fault(shown .. ' raised without a line: ' .. text:sub(1, 200))
  end
end

local began = os.time()
for i = 1, calls do
  if i % 500 == 0 then
    pool = tensors()
    if not mt.is_grad_enabled() then fault('recording stayed off') end
    mt.set_grad_enabled(true)
  end
  local kind = random()
  if kind < 0.08 then
    local shown, ok, e = indexing()
    if ok then returned = returned + 1 else raised = raised + 1; check(e, shown) end
  elseif kind < 0.12 then
    local op, x, y = any(operators), any(pool), value(0)
    if random() < 0.5 then x, y = y, x end
    local ok, e = pcall(op, x, y)
    if ok then returned = returned + 1 else raised = raised + 1
      if mt.is_tensor(x) then check(e, 'operator') end
    end
  else
    local target = any(targets)
    local list_of, n = arguments(target)
    local shown = trace and call_text(target, list_of, n)
    if trace then io.stderr:write(i, ' ', shown:sub(1, 600):gsub('[%z\n]', '.'), '\n') end
    local start = core.time()
    local ok, e = pcall(target.fn, unpack(list_of, 1, n))
    local took = core.time() - start
    if took > slowest then slowest, slowest_name = took, call_text(target, list_of, n) end
    if ok then
      returned = returned + 1
      if mt.is_tensor(e) then
        if e.requires_grad and random() < 0.2 and e:numel() < 1000 then
          pcall(function() (e * 1):sum():backward() end)
        end
        if e:numel() < 1000 then tostring(e) end
      end
    else
      raised = raised + 1
      check(e, target.name)
    end
  end
end
collectgarbage()
collectgarbage()

-- Errors in this script (a mistyped name) would make every call fail: most functions must have returned sometimes.
if returned < calls / 10 then fault(('only %d of %d calls returned'):format(returned, calls)) end
local live = core.memory()
print(('%d calls of %d functions: %d returned, %d raised a sentence, %d faults; %d s, %.1f MiB live'):format(calls,
  #targets, returned, raised, faults, os.time() - began, live / 2 ^ 20))
print(('slowest: %.2f s: %s'):format(slowest, slowest_name:sub(1, 200)))
if faults > 0 then os.exit(1) end
