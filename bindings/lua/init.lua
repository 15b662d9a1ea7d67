-- init.lua -- completes the module mt: field access, submodules loaded at first use, and functions
-- written in Lua

local core = require 'mtorch.core'

--- Returns the set of the names in one of the library's tables, loaded or not: {name = true}.
function core.name_set(module)
  local set, meta = {}, getmetatable(module)
  if meta and meta.open then meta.open() end
  for _, source in ipairs{module, meta and meta.lazy or {}} do
    for key in pairs(source) do set[tostring(key)] = true end
  end
  return set
end

--- The same as a list, in order.
function core.names(module) return require('mtorch.core.util').sorted_keys(core.name_set(module)) end

--- " (did you mean 'x'?)", the nearest of the names, or nothing.
function core.did_you_mean(names, name)
  local close = core.nearest(names, tostring(name))
  return close ~= '' and (" (did you mean '%s'?)"):format(close) or ''
end

--- Returns the hint in an error about an unknown name, from the existing names; see core/advice.lua.
function core.advice(owner, key, names) return require 'mtorch.core.advice'(owner, key, names) end

--- The user's line under way, for errors; see core/position.lua.
function core.position() return require 'mtorch.core.position'() end

function core.json_text(...) return require 'mtorch.io.json_text'(...) end

--- Refuses options that are not in known, {name = type}, or whose value is not of that type.
function core.check_options(...) return require('mtorch.core.util').check_options(...) end

--- Makes unknown fields of a table errors that suggest the nearest name. open(key) may create a field, open() all but
--- those of `lazy`, functions that create one each. A table with a metatable is returned unchanged.
function core.strict(module, name, open, lazy)
  if getmetatable(module) then return module end
  local function described()
    return ('%s: mt.help(%s) lists its names'):format(name, name == 'mt' and '' or ("'%s'"):format(name:sub(4)))
  end
  return setmetatable(module, {__module = name, open = open, lazy = lazy, __tostring = described,
    __index = function(self, key)
      if lazy and lazy[key] then rawset(self, key, lazy[key]()) elseif open then open(key) end
      local value = rawget(self, key)
      if value ~= nil then return value end
      if lazy and core.methods[key] then core.fail("%s has no '%s', which is a method: x:%s(..)", name, key, key) end
      core.fail("%s has no '%s'%s", name, tostring(key), core.advice(name, key, core.names(self)))
    end})
end

local raise, entry, parameters = core.fail, core.entry, core.parameters
--- Raises an error at the user's line; with further arguments the message is a format.
function core.fail(message, ...)
  if select('#', ...) > 0 then message = message:format(...) end
  raise(message)
end

--- Raises the error of core.fail(message, ..) unless the condition is true. The arguments are computed in any case, so
--- what runs at each step of a training has an `if` of its own.
function core.check(condition, ...)
  if not condition then core.fail(...) end
end

--- Returns the function itself, or the declared constructor of a class.
local function declared(value)
  return type(value) == 'table' and (rawget(value, '__signature') or rawget(value, '__init')) or value
end
function core.entry(value) return entry(declared(value)) end
function core.parameters(value) return parameters(declared(value)) end

--- Whether a value can be called: a function, or a table with __call.
function core.is_callable(value)
  local meta = type(value) == 'table' and getmetatable(value)
  return type(value) == 'function' or type(meta) == 'table' and meta.__call ~= nil
end

local function same(...) return ... end
--- Returns a function that returns its arguments, bound and checked by a signature.
function core.binder(signature, doc) return core.declare(signature, doc or 'Arguments of a call.', same) end

--- Returns the values as a list, with their number in n.
function core.pack(...) return {n = select('#', ...), ...} end

--- Prints a long text; a notebook folds it under its title.
function core.print_long(title, text)
  local front_end = core.front_end
  if front_end then return front_end.display(front_end.folded(title, text)) end
  print(text)
  io.stdout:flush()
end

--- Returns 'file:line' of the beginning of a Lua function.
function core.place_of(f)
  local info = debug.getinfo(f, 'S')
  return ('%s:%d'):format(info.short_src, info.linedefined)
end

local function shape_equal(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

--- Handles other indices of a shape: -1 is the last size; 0, the first index in other languages, is an error.
local function shape_index(shape, key)
  if type(key) ~= 'number' or key > 0 then return nil end
  if key == 0 then core.fail 'shape: 0 is not a position; dimensions count from 1, and from -1 at the end' end
  return rawget(shape, #shape + 1 + key)
end

local function shown_memory(stats)
  return ('allocated %.0f, peak %.0f, reserved %.0f bytes; %.0f allocations'):format(stats.allocated, stats.peak,
    stats.reserved, stats.allocations)
end

local has_compiler = core.compile ~= nil
--- In place of the functions that a program without the compiler does not have.
function core.no_compiler()
  core.fail('this mtorch was built without its compiler (MTORCH_COMPILER=OFF): there is no mt.map, zip, ' ..
    'reduce, fuse, kernel, compile and explain')
end
core.compile, core.grid_kernel = core.compile or core.no_compiler, core.grid_kernel or core.no_compiler

--- Adds functions to `lazy` that load fields of a module, by name; files: the names of fields by file of the folder.
function core.add_lazy(lazy, folder, files)
  for file, names in pairs(files) do
    for name in names:gmatch '%S+' do
      lazy[name] = function() return require(folder .. file)[name] end
    end
  end
  return lazy
end

--- Returns functions that load the lazy fields of mt, by name.
local function lazy_fields()
  local lazy = {
    fft = function() return core.strict(core.fft(), 'mt.fft') end,
    linalg = function() return core.strict(core.linalg(), 'mt.linalg') end,
  }
  for name, file in pairs {nn = 'nn', optim = 'optim', data = 'data', dist = 'dist', cuda = 'cuda',
    checkpoint = 'io.checkpoint', distributions = 'extras.distributions', metrics = 'script.metrics',
    models = 'extras.models', onnx = 'extras.onnx', plot = 'extras.plot'} do
    lazy[name] = function() return core.strict(require('mtorch.' .. file), 'mt.' .. name) end
  end
  for name, file in pairs {args = 'script.args', compile = 'compile.step', display = 'script.display',
    extend = 'core.extend', help = 'help', profile = 'script.profile', progress = 'script.progress'} do
    lazy[name] = function() return require('mtorch.' .. file) end
  end
  core.add_lazy(lazy, 'mtorch.', {
    ['compile.explain'] = 'explain', ['compile.fuse'] = 'fuse', ['compile.kernel'] = 'kernel',
    ['compile.map'] = 'map zip reduce', ['core.gradient'] = 'Function recompute jacobian hessian vjp jvp',
    ['extras.report'] = 'report', ['extras.report.compare'] = 'compare_runs', ['extras.report.run'] = 'Report',
    ['extras.tensorboard'] = 'SummaryWriter', ['io.json_lines'] = 'JsonLines', ['io.save'] = 'save load',
    ['optim.scaler'] = 'GradScaler', ['script.debug_prompt'] = 'debug reload', ['script.timeit'] = 'time timeit',
  })
  for _, name in ipairs(has_compiler and {} or {'map', 'zip', 'reduce', 'fuse', 'explain', 'compile', 'kernel'}) do
    lazy[name] = core.no_compiler
  end
  return lazy
end

return function(mt, _, methods, tensor_meta, shape_meta)
  local get = tensor_meta.__get
  tensor_meta.__get = nil
  -- A Lua function, so that LuaJIT compiles the look-up of methods into the caller's loop.
  tensor_meta.__index = function(tensor, key)
    local method = methods[key]
    if method ~= nil then return method end
    return get(tensor, key)
  end

  shape_meta.__eq, shape_meta.__index = shape_equal, shape_index
  shape_meta.__tostring = function(shape) return '(' .. table.concat(shape, ', ') .. ')' end
  function shape_meta.__call() core.fail('shape: it is a field, not a method: x.shape, x.shape[1], x:size(1)') end
  shape_meta.__metatable = false

  methods.data = core.declare('data(x)',
    'A typed FFI pointer to the elements, 0-based: contiguous CPU tensors only, valid while x is referenced; to ' ..
    'the bits of float16 and bfloat16. Autograd does not see writes through it: write before the forward ' ..
    'or after the backward.',
    function(x)
      local p, ctype = core.data_address(x)
      return require('ffi').cast(ctype .. ' *', p)
    end)

  -- Functions for the program rather than for tensors.
  mt.set_num_threads, mt.get_num_threads = core.set_num_threads, core.get_num_threads
  mt.set_flush_denormal = core.set_flush_denormal
  mt.arange = core.declare('arange(..)', 'Not here: mt.range(first, last[, step]) includes both ends.', function()
    core.fail('mt.arange counts from 0 and stops before its end; use mt.range(first, last[, step]), ' ..
      'which includes both')
  end)
  mt.launch_kernel = core.declare('launch_kernel(fn: function, grid, ..)',
    'A grid kernel without a GPU: calls a Lua function once for each cell, in order. launch_kernel(fn, gx, gy, ..) ' ..
    'and launch_kernel(fn, {gx, gy}, ..), in 1 to 3 dimensions, call fn(i, j, ..); launch_kernel(fn, { {bx, by}, ' ..
    '{tx, ty} }, ..) is blocks and threads and calls fn(block_idx, thread_idx, block_dim, ..), tables with x, y, z, ' ..
    'positions from 1: i = (block_idx.x - 1) * block_dim.x + thread_idx.x.',
    function(...) return require('mtorch.cuda.launch').launch_kernel(...) end)
  methods.indices = core.declare('indices(x: tensor)',
    'An iterator over all positions, the last dimension fastest: for i, j in x:indices() do.',
    function(x) return require('mtorch.cuda.launch').indices(x) end)
  mt.memory_stats = core.declare('memory_stats()', 'Bytes of the CPU: allocated (in tensors), peak, reserved (in ' ..
    'tensors or kept for reuse); and the number of allocations of this thread. mt.cuda.memory_stats() is for a GPU.',
    function()
      local _, allocated, peak, kept, allocations = core.memory()
      return setmetatable({allocated = allocated, peak = peak, reserved = allocated + kept, allocations = allocations},
        {__tostring = shown_memory})
    end)

  core.lazy = lazy_fields()
  core.strict(mt, 'mt', function(key)
    if key == nil then core.complete() elseif type(key) == 'string' then core.open(key) end
  end, core.lazy)
end
