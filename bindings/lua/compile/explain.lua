-- explain.lua -- mt.explain: what was traced and compiled, and how a call ran: loops, threads, memory
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local compiled = require 'mtorch.compile.map'
local native = require('mtorch.compile.trace').native

local explain = {}

--- Handlers of other kinds of functions: describe(f, text, options, ...) adds lines to `text` and
--- returns true, or returns nothing.
explain.describers = {}
--- Functions that return the text of {show=..} for a program, a dtype, and the inputs whose gradients are shown.
explain.shows = {}

-- ---- text --------------------------------------------------------------------------------------------

local Text = {}
Text.__index = Text
function Text:line(format, ...)
  self[#self + 1] = select('#', ...) > 0 and format:format(...) or format
end
--- Returns '1 verb', '2 verbs'.
function explain.plural(n, word) return ('%d %s%s'):format(n, word, n == 1 and '' or 's') end
local plural = explain.plural

local function source_of(f)
  local info = debug.getinfo(f, 'S')
  return core.place_of(f) .. (info.lastlinedefined > info.linedefined and '-' .. info.lastlinedefined or '')
end

local function time_text(us)
  return us < 1e3 and ('%.1f us'):format(us) or ('%.2f ms'):format(us / 1e3)
end
local function bytes_text(n)
  return n < 2 ^ 10 and ('%d bytes'):format(n) or util.in_units('%.1f %s', n, 2 ^ 20, 'MiB', 2 ^ 10, 'KiB')
end
explain.bytes_text = bytes_text
local function value_text(x)
  if type(x) == 'string' then return ('%q'):format(x) end
  return (type(x) == 'number' or type(x) == 'boolean') and tostring(x) or core.describe(x)
end

-- ---- a run -------------------------------------------------------------------------------------------

--- The verbs that fn(...) calls, without those for memory, and its time in microseconds.
local function verbs_of(fn, ...)
  local arguments, n = {...}, select('#', ...)
  fn(...) -- traces, compiles and touches the memory
  local began = core.time()
  fn(...)
  local us = (core.time() - began) * 1e6
  local verbs = core.verbs_call(function() fn(unpack(arguments, 1, n)) end)
  return util.filter(verbs, function(v)
    return not (v.text:find '^%S+ alloc ' or v.text:find '^%S+ free' or v.text:find '^%S+ sync')
  end), us
end

--- How a verb used the CPU: which library or machine code, how many pieces and threads.
local function cpu_use(v)
  local words = {}
  if v.text:find '^cpu run ' then words[1] = v.elements > 0 and 'machine code' or 'interpreter' end
  if v.text:find '^cpu matmul ' then
    words[1] = v.onednn > 0 and ('oneDNN (%s)'):format(plural(v.onednn, 'product')) or
      v.products > 0 and ('OpenBLAS (%s)'):format(plural(v.products, 'product')) or "mtorch's own kernel"
  end
  if v.text:find '^cpu conv ' and v.onednn == 0 then words[1] = "mtorch's own kernel" end
  if v.text:find '^cpu ' then
    local all = mt.get_num_threads()
    words[#words + 1] = v.loops == 0 and 'on the calling thread' or ('%s for %s%s'):format(plural(v.pieces, 'piece'),
      plural(all, 'thread'), v.threads < math.min(all, v.pieces) and (', of which %d worked'):format(v.threads) or '')
  end
  return table.concat(words, ', ')
end

local function describe_run(text, verbs, us)
  text:line('ran: %s, %s', time_text(us), #verbs == 0 and 'without a verb of a device' or
    ('%s on %s'):format(plural(#verbs, 'verb'), plural(mt.get_num_threads(), 'thread')))
  for _, v in ipairs(verbs) do
    local use = cpu_use(v)
    text:line('  %s: %s%s', v.text, use == '' and '' or use .. ', ', time_text(v.us))
  end
end

function Text:run(fn, ...) describe_run(self, verbs_of(fn, ...)) end

-- ---- a compiled program ------------------------------------------------------------------------------

local function counts_text(names)
  local list = {}
  for name, n in pairs(names) do list[#list + 1] = {name, n} end
  table.sort(list, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    return a[1] < b[1]
  end)
  return table.concat(util.map(list, function(pair) return pair[2] .. ' ' .. pair[1] end), ', ')
end

local function describe_captured(text, made)
  for k, n in ipairs(made.numbers) do
    if made.used[made.given + k] then
      text:line("captured: '%s' = %s is a parameter, read again at every call", n.name, value_text(n.read()))
    end
  end
  for _, o in ipairs(made.operands) do
    text:line("captured: '%s' is a 0-d tensor, an operand with a gradient", o.name)
  end
  for _, g in ipairs(made.guards) do
    if type(g.value) ~= 'function' then
      text:line("captured: '%s' = %s is a guard: traced again when it changes", g.name, value_text(g.value))
    end
  end
end

--- Describes the program for these arguments in a few lines.
local function describe_program(text, made, dtype, elements)
  if made.kernel then
    return text:line 'the end of a loop depends on an element: it runs as a grid kernel, with a thread for each element'
  end
  local facts = native.facts(made.program)
  text:line('traced: %s, %s, %s%s', plural(made.inputs, 'tensor'), plural(made.results, 'result'),
    plural(made.ways, 'way') .. ' through it', made.ways > 1 and ', joined by where' or '')
  describe_captured(text, made)
  text:line('program: %s (%s)', plural(facts.operations, 'operation'), counts_text(facts.names))
  text:line('  left out while tracing: %d of constants, %d computed already, %d such as x * 1', made.folded,
    made.shared, made.simplified)
  for k = 1, made.inputs do
    local gradient = native.gradient(made.program, 2 ^ (k - 1))
    text:line('  gradient by input %d: %s', k, plural(gradient and native.facts(gradient).operations or 0, 'operation'))
  end
  local _, code_bytes, isa = native.machine(made.program, dtype)
  text:line('loops: one over all elements, in pieces of %d; parallel from %d elements on', facts.piece,
    facts.spread_from)
  local machine_code = code_bytes and code_bytes > 0 and ('machine code (%s, %s) from %d elements on, else ')
    :format(isa, bytes_text(code_bytes), facts.native_from) or ''
  text:line('  %sthe interpreter: one operation after the other on each block in the cache', machine_code)
  local item = mt.empty({0}, dtype):element_size()
  local fused = (facts.inputs + facts.numbers_out) * item + facts.bools_out
  local eager = facts.moved_numbers * item + facts.moved_bools
  text:line('memory: %s an element read and written; one operation after the other: %s, %.1f times', bytes_text(fused),
    bytes_text(eager), eager / fused)
  if elements then
    text:line('  of %d elements: %s instead of %s', elements, bytes_text(fused * elements),
      bytes_text(eager * elements))
  end
end

function explain.shows.program(program, _, inputs)
  local list = {native.text(program)}
  for k = 1, inputs do
    local gradient, result = native.gradient(program, 2 ^ (k - 1))
    if gradient then list[#list + 1] = ('the gradient by input %d:\n%s'):format(k, native.text(gradient)) end
    if result then list[#list + 1] = ('the gradient by input %d: that of result %d\n'):format(k, result) end
  end
  return table.concat(list)
end
function explain.shows.machine(program, dtype)
  local listing, bytes = native.machine(program, dtype)
  return listing and bytes > 0 and listing or ('no machine code of %s: the interpreter runs it'):format(dtype)
end
function explain.shows.cuda(program, dtype)
  return native.cuda_text(program, dtype, 0) or ('no CUDA C of %s: operations are composed there'):format(dtype)
end

-- ---- kinds of functions --------------------------------------------------------------------------------

--- The first tensor's dtype, and the number of elements of all tensors after broadcasting.
local function extent_of(...)
  local list = {}
  for i = 1, select('#', ...) do
    local x = select(i, ...)
    if mt.is_tensor(x) then list[#list + 1] = x:detach() end
  end
  if #list == 0 then return 'float32' end
  return list[1].dtype, (mt.broadcast_tensors(unpack(list))):numel()
end

local function describe_tree(text, made, x, dim)
  local name = made.program and compiled.built_in(made.program)
  local order = 'the order depends on the size alone, not on threads'
  if name then return text:line('reduction: f is %s; the loops of that reduction run', name) end
  if not x then return text:line('reduction: a tree of pairs; %s', order) end
  local size = dim and x:size(dim) or x:numel()
  local levels = size > 1 and math.ceil(math.log(size) / math.log(2)) or 0
  text:line('reduction: a tree of pairs, %s over %d elements%s: %s', plural(levels, 'level'), size,
    x.device == 'cpu' and ', in blocks that stay in cache' or '', order)
end

--- Describes functions of mt.map, mt.zip and mt.reduce.
local function describe_compiled(f, record, text, options, ...)
  text:line('%s of the function at %s', record.name, source_of(record.f))
  local n, pair = select('#', ...), record.pair
  local made = pair and compiled.program_for(pair, {'tensor', 'tensor'}) or
    n > 0 and compiled.program_of(record, ...) or compiled.program_for(record)
  local dtype, elements = extent_of(...)
  describe_program(text, made, dtype, not pair and elements)
  if pair then describe_tree(text, made, ...) end
  if n > 0 then text:run(f, ...) end
  if not options.show then return end
  if not made.program then core.fail('explain: a function with such a loop is a kernel and has no program') end
  text:line('%s', explain.shows[options.show](made.program, dtype, made.inputs))
end

--- Shows the programs that verbs ran: as programs, or as CUDA C.
local function show_programs(text, verbs, show)
  for _, v in ipairs(verbs) do
    if v.program and show == 'program' then text:line('program of %s:\n%s', v.text, v.program)
    elseif v.program and show == 'cuda' then
      text:line('CUDA C of %s:\n%s', v.text, v.cuda or 'none: operations are composed there')
    end
  end
end

local function describe_fuse(f, record, text, options, ...)
  text:line('fuse of the function at %s', source_of(record.f))
  if select('#', ...) == 0 then return text:line 'give it arguments, mt.explain(f, x), to see what ran' end
  local fused, fused_us = verbs_of(f, ...)
  describe_run(text, fused, fused_us)
  show_programs(text, fused, options.show)
  local eager, us = verbs_of(record.f, ...)
  text:line('one operation after the other: %s, %s', time_text(us), plural(#eager, 'verb'))
  local self = record.fused
  local entry = self.entries[1]
  local why = self.eager or self.why or entry and entry.eager
  if why then return text:line('not fused: %s', why) end
  if not entry then return end
  local programs, separate, of_gradient = native.function_facts(entry.recorded)
  for _, line in ipairs(programs) do text:line('one program, %s', line) end
  for _, line in ipairs(of_gradient) do text:line('one program of the gradient, %s', line) end
  if #separate > 0 then text:line('not fused:\n  %s', table.concat(separate, '\n  ')) end
end

local function upvalue_of(f, name)
  if not f then return end
  for _, found, value in util.upvalues(f) do
    if found == name then return value end
  end
end

local has_launches = {['@mtorch/cuda/launch.lua'] = true, ['@mtorch/compile/kernel.lua'] = true}
--- Describes a call, which may be a launch of a grid kernel; then CUDA C is the kernel's.
local function describe_call(f, text, options, ...)
  local signature = core.entry(f)
  local is_launch = not signature and has_launches[debug.getinfo(f, 'S').source]
  local grid = is_launch and (upvalue_of(f, 'handle') or upvalue_of(upvalue_of(f, 'run'), 'handle'))
  text:line('%s: run once', signature and 'mt.' .. signature:match '^[%w_]+' or
    grid and 'a launch of kernel ' .. core.grid_kernel().grid_name(grid) or is_launch and 'a launch' or
    'the function at ' .. source_of(f))
  local verbs, us = verbs_of(f, ...)
  describe_run(text, verbs, us)
  if grid then text:line('it ran as %s', core.grid_kernel().grid_path(grid)) end
  if grid and options.show == 'cuda' then text:line('%s', core.grid_kernel().grid_cuda(grid, false)) end
  show_programs(text, verbs, options.show)
end

-- ---- mt.explain ----------------------------------------------------------------------------------------

--- The options at the end of the arguments, and the number of arguments before them.
local function options_of(...)
  local n = select('#', ...)
  local last = n > 0 and (select(n, ...))
  if type(last) ~= 'table' or mt.is_tensor(last) or last[1] ~= nil then return {}, n end
  local shows = table.concat(util.sorted_keys(explain.shows), "'|'")
  core.check_options('explain', last, {show = ("'%s'"):format(shows)})
  return last, n - 1
end

--- Grid kernels: a launch is described as a call, and the kernel itself by its last launch or its CUDA C.
explain.describers[1] = function(f, text, options)
  if type(f) ~= 'table' or tostring(f) ~= 'kernel ' .. tostring(rawget(f, 'name')) then return end
  core.check(not options.show or options.show == 'cuda',
    "explain: of a kernel there is {show='cuda'}; what it computes is in its source")
  if options.show then
    text:line('%s', f:cuda_source())
    return true
  end
  local ok, path = pcall(f.path, f)
  text:line('kernel %s: %s', f.name, ok and 'its last launch ran as ' .. path or 'it was not launched yet')
  text:line "mt.explain(k:over(x), x, ..) launches it and says how; {show='cuda'} shows its CUDA C"
  return true
end

local function describe(f, options, ...)
  local text, record = setmetatable({}, Text), compiled.records[f]
  for _, other in ipairs(explain.describers) do
    if other(f, text, options, ...) then return text end
  end
  if type(f) ~= 'function' then core.fail('explain: it takes a function, got %s', core.describe(f)) end
  if record and record.name == 'fuse' then describe_fuse(f, record, text, options, ...)
  elseif record then describe_compiled(f, record, text, options, ...)
  elseif options.show == 'machine' then
    core.fail("explain: show='machine' is for compiled functions: mt.map, mt.zip, mt.reduce")
  else describe_call(f, text, options, ...) end
  return text
end

--- The text of mt.explain(f, ..).
function explain.text(f, ...)
  local options, n = options_of(...)
  local arguments = {...}
  return (table.concat(describe(f, options, unpack(arguments, 1, n)), '\n'):gsub('\n+$', ''))
end

explain.explain = core.declare('explain(fn, ..)',
  'What fn does when it is called with these arguments, printed and returned as text: of a function compiled by ' ..
  'mt.map, mt.zip or mt.reduce what was traced, its program, loops and memory; of every function, also one that ' ..
  'mt.fuse made, the verbs of the device that ran, over how many pieces and threads; of mt.fuse which operations ' ..
  'were not fused, and why. ' ..
  "{show='program'}, {show='machine'} or {show='cuda'} at the end adds that of the compiled function; " ..
  "'program' and 'cuda' also the programs that verbs ran. " ..
  'mt.explain(mt.matmul, a, b)', function(f, ...)
    local text = explain.text(f, ...)
    core.print_long('mt.explain', text)
    return text
  end)

return explain
