-- map.lua -- mt.map, mt.zip and mt.reduce: Lua functions of numbers as compiled functions of tensors
local core = require 'mtorch.core'
local mt = require 'mtorch'
local loops = require 'mtorch.compile.loops'
local trace = require 'mtorch.compile.trace'
local native = trace.native
local run = native.run

local compiled = {}
local records = setmetatable({}, {__mode = 'k'}) -- the compiled function -> its record
compiled.records = records
local max_programs = 8

--- The captured numbers, if the program's assumptions still hold: the guards, and that numbers are
--- still numbers and 0-d tensors still 0-d tensors. Otherwise returns nothing.
local function read_captured(made)
  local guards, numbers, before = made.guards, {}, made.given
  for i = 1, #guards do
    local g = guards[i]
    if not rawequal(g.read(), g.value) then return nil end
  end
  for k, n in ipairs(made.numbers) do
    local x = n.read()
    if type(x) ~= 'number' then return nil end
    if made.used[before + k] then numbers[before + k] = x end
  end
  for _, o in ipairs(made.operands) do
    local t = o.read()
    if not mt.is_tensor(t) or t:dim() ~= 0 then return nil end
  end
  return numbers
end

--- Keeps the program of the last call with only tensors, so that further calls need not sort their arguments.
local function note_latest(record, kinds, made)
  if made.divides then return end -- there is another one for integers
  if #kinds == made.inputs and #made.operands == 0 then record.latest[#kinds] = made end
end

--- The number of parameters of the function, at least one, and whether it is variadic.
local function taken(f)
  local info = debug.getinfo(f, 'u')
  return math.max(info.nparams, 1), info.isvararg
end

--- The program for arguments of these kinds, compiled if no existing one is valid, and the captured
--- numbers; without kinds all parameters are tensors. `whole`: the tensors are of integers.
local function program_for(record, kinds, whole)
  if not kinds then
    kinds = {}
    for i = 1, (taken(record.f)) do kinds[i] = 'tensor' end
  end
  whole = whole and record.divides -- an integer's % has an operation of its own
  local key = table.concat(kinds, ' ') .. (whole and ' whole' or '')
  local list = record.programs[key]
  if not list then
    list = {}
    record.programs[key] = list
  end
  for i = 1, #list do
    local numbers = read_captured(list[i])
    if numbers then
      note_latest(record, kinds, list[i])
      return list[i], numbers
    end
  end
  local most, more = taken(record.f)
  core.check(#kinds <= most or more,
    '%s: the function takes %d argument%s and got %d', record.name, most, most == 1 and '' or 's', #kinds)
  local made = trace.compile(record.f, kinds, record.name, whole)
  table.insert(list, 1, made)
  list[max_programs + 1] = nil
  note_latest(record, kinds, made)
  record.divides = record.divides or made.divides
  if not made.divides and #kinds == made.inputs and #made.guards == 0 and #made.numbers == 0 and
    #made.operands == 0 then
    record.simple[#kinds] = made.program
  end
  return made, read_captured(made)
end

local function check_options(record, options)
  for key in pairs(options) do
    if key ~= 'out' then core.fail("%s: unknown option '%s'; there is 'out'", record.name, tostring(key)) end
  end
  return options.out
end

--- Sorts the arguments into tensors and numbers, and returns the kind of each.
local function sorted(record, n, ...)
  local tensors, numbers, kinds, out = {}, {}, {}, nil
  for i = 1, math.max(n, 1) do
    local x = select(i, ...)
    if mt.is_tensor(x) then kinds[i], tensors[#tensors + 1] = 'tensor', x
    elseif type(x) == 'number' then kinds[i], numbers[#numbers + 1] = 'number', x
    elseif i == n and n > 1 and (x == nil or type(x) == 'table') then out = x and check_options(record, x)
    else core.fail('%s: argument %d must be a tensor or a number, got %s', record.name, i, core.describe(x)) end
  end
  if #tensors == 0 then core.fail('%s: none of the arguments is a tensor', record.name) end
  return tensors, numbers, kinds, out
end

--- The same for these tensors.
local function program_for_tensors(record, kinds, tensors)
  local made, numbers = program_for(record, kinds)
  if not made.divides then return made, numbers end
  for _, x in ipairs(tensors) do
    if x.dtype == 'bool' or x:is_floating_point() then return made, numbers end
  end
  return program_for(record, kinds, true)
end

compiled.program_for = program_for
--- The program for a call with these arguments.
function compiled.program_of(record, ...)
  local tensors, _, kinds = sorted(record, select('#', ...), ...)
  return program_for_tensors(record, kinds, tensors)
end

local function call(record, ...)
  local tensors, given, kinds, out = sorted(record, select('#', ...), ...)
  local made, numbers = program_for_tensors(record, kinds, tensors)
  if made.kernel then return loops.run(record.name, made.kernel, kinds, tensors, given, out) end
  for k, x in ipairs(given) do numbers[k] = x end
  for _, o in ipairs(made.operands) do tensors[#tensors + 1] = o.read() end
  tensors[#tensors + 1] = out
  return run(made.program, record.name, numbers, unpack(tensors))
end

local function compile(name, f)
  local record = {f = f, name = name, programs = {}, simple = {}, latest = {}}
  local latest = record.latest
  local compiled_function = native.caller(record.simple, name, function(only_tensors, ...)
    local made = only_tensors and latest[select('#', ...)]
    local numbers = made and read_captured(made)
    if numbers then return run(made.program, name, numbers, ...) end
    return call(record, ...)
  end)
  records[compiled_function] = record
  return compiled_function
end

--- f, or, since only a Lua function is traced, one that calls the built-in f (math.sin).
local function traceable(name, f)
  if records[f] then core.fail('%s: this function is compiled already; call it', name) end
  if type(f) ~= 'function' then core.fail('%s: f must be a function, got %s', name, core.describe(f)) end
  if debug.getinfo(f, 'S').what ~= 'C' then return f end
  return function(...) return (f(...)) end
end

local help = 'The Lua function f of numbers, compiled: called with tensors (any layout, broadcast) and numbers it ' ..
  'gives f of their elements, with gradients of every order; several results give several tensors, comparisons bool ' ..
  'ones, {out=t} at the end writes into t. Of integers the results are the default float, unless f only adds, ' ..
  'subtracts, multiplies, compares and selects. Elements of bool tensors are the numbers 1 and ' ..
  '0: ask m ~= 0. Captured numbers are read again at every call.'
for name, example in pairs{map = 'mt.map(function(x) return x * x end)(t)',
  zip = 'mt.zip(function(x, y) return x * y end)(a, b)'} do
  compiled[name] = core.declare(name .. '(f: function)', ('%s %s'):format(help, example), function(f)
    return compile(name, traceable(name, f))
  end)
end

-- ---- reduce ------------------------------------------------------------------------------------------

--- Calls f with numbers, or raises an error at the user's line. With functions of mt the compiled one is called.
local function on_numbers(f, pair, a, b)
  local ok, y = pcall(f, a, b)
  if not ok or mt.is_tensor(y) then
    local double = {dtype = 'float64'}
    y = pair(mt.tensor(a, double), mt.tensor(b, double)):item()
  end
  if type(y) ~= 'number' then core.fail('reduce: f must return a number, it returned %s', core.describe(y)) end
  return y
end
local function close(a, b)
  return a == b or (a ~= a and b ~= b) or math.abs(a - b) <= 1e-9 * math.max(math.abs(a), math.abs(b), 1)
end

--- Tests f on samples: it must be associative, and the identity must be neutral on both sides.
local function check_reduction(f, pair, identity)
  local samples = {-2.5, -1, 0, 0.75, 1, 3.25}
  for _, a in ipairs(samples) do
    for _, both in ipairs{{identity, a}, {a, identity}} do
      local y = on_numbers(f, pair, both[1], both[2])
      core.check(close(y, a), 'reduce: the identity %g is not neutral: f(%g, %g) is %g; f joins two results; do ' ..
        'what concerns one element before, by mt.map', identity, both[1], both[2], y)
    end
  end
  for _, a in ipairs(samples) do
    for _, b in ipairs(samples) do
      for _, c in ipairs(samples) do
        local left = on_numbers(f, pair, on_numbers(f, pair, a, b), c)
        local right = on_numbers(f, pair, a, on_numbers(f, pair, b, c))
        core.check(close(left, right),
          'reduce: f is not associative: f(f(%g, %g), %g) is %g, f(%g, f(%g, %g)) is %g', a, b, c, left, a, b, c, right)
      end
    end
  end
end

--- The name of the built-in reduction that is equal to f, or nil.
local function built_in(program)
  local text = native.text(program):gsub(' +; line %d+', '')
  local head = '%0 = input 1\n%1 = input 2\n'
  if text == head .. '%2 = add %0, %1\nreturn %2\n' then return 'sum' end
  if text == head .. '%2 = mul %0, %1\nreturn %2\n' then return 'prod' end
end

compiled.built_in = built_in

local reduction_help = 'A reduction that mt.reduce made, along dim, or without it of all elements.'

compiled.reduce = core.declare('reduce(f: function, identity: number)',
  'The Lua function f of two numbers as a reduction, called r(x[, dim[, keepdim]]): f must be associative and the ' ..
  'identity neutral, which is tried on samples. Without dim the result is 0-d, of nothing it is the identity; with ' ..
  'gradients. mt.reduce(function(a, b) return math.max(a, b) end, -math.huge)',
  function(f, identity)
    f = traceable('reduce', f)
    local pair, checked, program, own_loops = compile('reduce', f), false, nil, nil
    local simple = records[pair].simple
    local function reduce(x, dim, keepdim)
      if dim and (dim == 0 or math.abs(dim) > math.max(x:dim(), 1)) then
        core.fail('reduce: dimension %d is not there; the tensor has %d (from 1, or -1 for the last)', dim, x:dim())
      end
      if not checked then
        check_reduction(f, pair, identity)
        checked = true
      end
      local made, numbers = simple[2] and {program = simple[2]}, nil
      if not made then made, numbers = program_for(records[pair], {'tensor', 'tensor'}) end
      if made.program and made.program ~= program then
        local name = built_in(made.program)
        program, own_loops = made.program, name and mt[name]
      end
      if made.program and own_loops then -- for empty input they return their identity, the only neutral number
        if dim == nil then return own_loops(x) end
        return own_loops(x, dim, keepdim)
      end
      local y, along = x, dim
      if dim == nil then y, along = x:reshape(-1), 1
      elseif dim < 0 then along = dim + x:dim() + 1 end
      if y:size(along) == 0 then
        local shape = y:size()
        shape[along] = 1
        y = mt.full(shape, identity, {dtype = x.dtype, device = x.device})
      else
        y = native.reduce_pairs(made.program or pair, numbers, y, along)
      end
      if dim == nil then return y:reshape({}) end
      return keepdim and y or y:squeeze(along)
    end
    local reduction = core.declare('reduce(x: tensor, dim: int = nil, keepdim: bool = false)', reduction_help, reduce)
    records[reduction] = {f = f, name = 'reduce', pair = records[pair], identity = identity}
    return reduction
  end)

return compiled
