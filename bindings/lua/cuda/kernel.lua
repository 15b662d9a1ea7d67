-- kernel.lua -- mt.cuda.kernel: CUDA C in a script, launched as k[{blocks, threads}](..)
local core = require 'mtorch.core'
local launcher = require('mtorch.cuda.launch').launcher
local object = require 'mtorch.core.object'
local util = require 'mtorch.core.util'
local native = core.cuda_kernel()

local fail, describe = core.fail, core.describe
local Kernel, HANDLE = {}, {} -- HANDLE is the key of the C++ object

-- ---- lines of the source in the script -----------------------------------------------------------

--- Returns the line of `text` on which `source` begins, the nearest to `line` if it occurs twice.
local function line_of(text, source, line)
  local best
  local at, number, counted = 1, 1, 1
  while true do
    at = text:find(source, at, true)
    if not at then return best end
    number = number + select(2, text:sub(counted, at - 1):gsub('\n', ''))
    counted = at
    if not best or math.abs(number - line) < math.abs(best - line) then best = number end
    at = at + 1
  end
end

--- Where the lines of a source are: {1, file in messages, line of its beginning}, in the script if its text is found
--- there; else the lines of the source itself are counted.
local function origins_of(source, name)
  local caller
  for level = 2, 40 do
    local info = debug.getinfo(level, 'Sl')
    if not info then break end
    if info.what ~= 'C' and info.source:sub(1, 8) ~= '@mtorch/' then
      local kind = info.source:sub(1, 1)
      local text = kind == '@' and (util.read_file(info.source:sub(2), 2 ^ 22) or '') or
        kind ~= '=' and info.source or ''
      local line = source ~= '' and line_of(text:gsub('\r\n', '\n'), source, info.currentline)
      if line then return {1, info.short_src, line} end
      caller = caller or (' in %s:%d'):format(info.short_src, info.currentline)
    end
  end
  return {1, caller and (name or 'source') .. caller or 'source', 1}
end

-- ---- options -------------------------------------------------------------------------------------

--- Converts {TILE = 16, real = 'float'} to #define lines.
local function define_lines(defines)
  local lines = {}
  for name, value in pairs(defines or {}) do
    core.check(type(name) == 'string' and name:find('^[%a_][%w_]*$'),
      'cuda.kernel: defines: ' .. tostring(name) .. ' is not a preprocessor name')
    local text = value
    if type(value) == 'boolean' then text = value and '1' or '0' end
    if type(value) == 'number' then
      core.check(value == value and math.abs(value) ~= math.huge,
        'cuda.kernel: defines: %s is %s; give it as a string of C', name, tostring(value))
      text = value % 1 == 0 and math.abs(value) < 2 ^ 53 and ('%.0f'):format(value) or ('%.17g'):format(value)
    elseif type(text) ~= 'string' then
      fail('cuda.kernel: defines: %s must be a number, a string or a boolean, got %s', name, describe(value))
    end
    if text:find('[\r\n]') then fail('cuda.kernel: defines: %s has more than one line', name) end
    lines[#lines + 1] = ('#define %s %s\n'):format(name, text)
  end
  table.sort(lines)
  return table.concat(lines)
end

--- Sets the ranks of pointers: {m = 2, f = 2} by the parameters' names, or {2, 2, 1} in order.
local function set_ranks(handle, about, rank)
  local places, pointers = {}, {}
  for i, parameter in ipairs(about.parameters) do
    if parameter.dtype then
      pointers[#pointers + 1] = i
      places[parameter.name] = i
    end
  end
  for key, dims in pairs(rank or {}) do
    local place = type(key) == 'number' and pointers[key] or places[key]
    core.check(place, 'cuda.kernel: rank: %s has no tensor %s', about.signature,
      type(key) == 'number' and 'number ' .. key or "'" .. tostring(key) .. "'")
    core.check(util.is_whole(dims, 0, 16),
      'cuda.kernel: rank of %s must be a number of dimensions, got %s', tostring(key), describe(dims))
    native.cuda_rank(handle, place, dims)
  end
end

-- ---- launches ------------------------------------------------------------------------------------

local function launch(self, size)
  local handle, run = rawget(self, HANDLE), native.cuda_launch
  return launcher(rawget(self, 'about').name, size, function(...) return run(handle, ...) end, true)
end

local methods = {}

methods.set_constant = core.declare('set_constant(self, name: string, value)',
  'Fills a __constant__ or __device__ variable with a tensor of its dtype and number of elements, on any device.',
  function(self, name, value)
    native.cuda_constant(rawget(self, HANDLE), name, value)
    return self
  end)

local of_gpu = util.word_set 'max_threads registers shared local_memory' -- nil without a GPU

function Kernel.__index(self, key)
  if type(key) == 'table' then return launch(self, key) end
  local about = rawget(self, 'about')
  local found = methods[key]
  if found == nil then found = about[key] end
  if found ~= nil or of_gpu[key] then return found end
  if type(key) == 'number' then fail('%s: a launch is k[{blocks, threads}](..), with a table', about.name) end
  local names = object.names(nil, '^_', methods, about, of_gpu)
  fail("%s: a kernel has no '%s'%s", about.name, tostring(key), core.did_you_mean(names, key))
end
function Kernel.__newindex(self, key)
  fail("%s: '%s' cannot be set; k:set_constant(name, value) fills a variable of the source",
    rawget(self, 'about').name, tostring(key))
end
function Kernel.__call(self)
  fail('%s: how many threads? k[{blocks, threads}](..)', rawget(self, 'about').name)
end
function Kernel.__tostring(self) return 'kernel ' .. rawget(self, 'about').signature end
Kernel.__metatable = false

return function(source, name, options, defines, rank, device)
  if not source:find('[\n{;]') and source:find('%.[%w]+$') then
    fail("cuda.kernel: '%s' is the path of a file, source is its text: source = io.open('%s'):read('*a')", source,
      source)
  end
  local lines, origins = define_lines(defines), origins_of(source, name)
  local handle = native.cuda_compile(source, name or '', device, origins, options or {}, lines)
  local about = native.cuda_about(handle)
  set_ranks(handle, about, rank)
  return setmetatable({[HANDLE] = handle, about = about}, Kernel)
end
