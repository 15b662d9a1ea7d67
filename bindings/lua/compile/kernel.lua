-- kernel.lua -- mt.kernel: grid kernels written in Lua
local core = require 'mtorch.core'
local mt = require 'mtorch'
local launcher = require('mtorch.cuda.launch').launcher
local native = core.grid_kernel()
local source = require 'mtorch.compile.source'

local fail = core.fail
local Kernel, HANDLE, RUN, OVER = {}, {}, {}, {} -- private keys: the C++ handle, and functions that launch it

--- Of a function of Lua or mt that kernels may know: its name, or {name, the function that defines it in kernels}.
local builtins = {[print] = 'print'}
local open = getmetatable(mt).open
for _, name in ipairs(native.grid_operations()) do
  open(name)
  local of_tensors = rawget(mt, name)
  if of_tensors then builtins[of_tensors] = 'mt.' .. name end
end
for library, functions in pairs {math = math, bit = bit} do
  for name, value in pairs(functions) do
    if type(value) == 'function' then builtins[value] = library .. '.' .. name end
  end
end
local libraries = {math = math, bit = bit, mt = mt}
for library, functions in pairs(require 'mtorch.compile.lua_functions'(mt)) do
  for name, definition in pairs(functions) do
    builtins[libraries[library][name]] = {library .. '.' .. name, definition}
  end
end

local methods = {}

local grid_launch = native.grid_launch
local function runner(handle)
  return function(gx, gy, gz, bx, by, bz, _, ...) return grid_launch(handle, gx, gy, gz, bx, by, bz, ...) end
end

local blocks = {{256, 1, 1}, {16, 16, 1}, {8, 8, 4}}
methods.over = core.declare('over(self, x: tensor)',
  'A launch with a thread for each element of a tensor of 1 to 3 dimensions: x of the grid goes over dimension 1, y ' ..
  'over 2, z over 3, in blocks of 256, 16 x 16 or 8 x 8 x 4, rounded up; the kernel guards the rest.',
  function(self, x)
    local name, rank = rawget(self, 'name'), x.ndim
    local block = blocks[rank]
    if not block then fail('%s: over takes a tensor of 1 to 3 dimensions, got %d', name, rank) end
    local handle, bx, by, bz = rawget(self, HANDLE), block[1], block[2], block[3]
    local gx, gy, gz = math.ceil(x:size(1) / bx), 1, 1
    if rank > 1 then gy = math.ceil(x:size(2) / by) end
    if rank > 2 then gz = math.ceil(x:size(3) / bz) end
    local last = rawget(self, OVER) -- the previous launch, which often had these sizes
    if last and last[1] == gx and last[2] == gy and last[3] == gz and last.rank == rank then return last.run end
    local function run(...) return grid_launch(handle, gx, gy, gz, bx, by, bz, ...) end
    rawset(self, OVER, {gx, gy, gz, rank = rank, run = run})
    return run
  end)

methods.path = core.declare('path(self)', 'How the last launch ran on the CPU, in one line: mt.explain shows it.',
  function(self) return native.grid_path(rawget(self, HANDLE)) end)

methods.cuda_source = core.declare('cuda_source(self, compile: bool = false)',
  "The CUDA C that a GPU gets for the types of the last launch; compile=true gives it to NVIDIA's compiler too.",
  function(self, compile) return native.grid_cuda(rawget(self, HANDLE), compile) end)

function Kernel.__index(self, key)
  local name = rawget(self, 'name')
  if type(key) == 'table' then return launcher(name, key, rawget(self, RUN)) end
  if methods[key] then return methods[key] end
  if type(key) == 'number' then fail('%s: a launch is k[{blocks, threads}](..), with a table', name) end
  fail("%s: a kernel has no '%s'; it has k[{blocks, threads}](..), k:over(x)(..) and k.name", name, tostring(key))
end
function Kernel.__newindex(self, key) fail("%s: '%s' cannot be set", rawget(self, 'name'), tostring(key)) end
function Kernel.__call(self)
  fail('%s: how many threads? k[{blocks, threads}](..) or k:over(x)(..)', rawget(self, 'name'))
end
function Kernel.__tostring(self) return 'kernel ' .. rawget(self, 'name') end
Kernel.__metatable = false

--- A kernel; `lua_numbers`: it has no integers; `tangents`: {argument, input, ..}, the tensors that receive derivatives
--- of fn's outputs by these inputs.
local function make(fn, check, lua_numbers, tangents)
  local handle = native.grid_make(fn, source.locate, builtins, check, lua_numbers, tangents)
  return setmetatable({[HANDLE] = handle, [RUN] = runner(handle), name = native.grid_name(handle)}, Kernel)
end

local kernel = core.declare('kernel(fn: function, check: bool = false)',
  'A grid kernel from a Lua function, compiled from its source: k[{blocks, threads}](..) runs it for each thread, ' ..
  "k:over(x)(..) for each element of x. mt.help('kernels') says what such a function may contain. check=true finds " ..
  'accesses out of bounds, races, divergent barriers and uninitialised arrays, with the line of the kernel; ' ..
  'what a GPU would do runs on the CPU for it.',
  function(fn, check) return make(fn, check, false) end)

--- Why a launch failed, each or nil: the number of results of a call, the index of a tensor that must be bool, and of
--- one that must have a float dtype.
local function misfit(k) return native.grid_misfit(rawget(k, HANDLE)) end

return {kernel = kernel, make = make, misfit = misfit}
