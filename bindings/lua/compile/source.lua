-- source.lua -- finds the source of a Lua function, and which one of the functions on its lines it is
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'
local native = core.grid_kernel()

local source = {}

--- Bytecode in a form for comparison: without line numbers and names, and without the positions of
--- upvalues, which depend on the code around a function.
local function code_of(fn)
  local dump = string.dump(fn, true)
  local at = 5
  local function number()
    local value, scale = 0, 1
    while true do
      local byte = dump:byte(at)
      at = at + 1
      value = value + byte % 128 * scale
      if byte < 128 then return value end
      scale = scale * 128
    end
  end
  number() -- the flags of the dump
  local list = {}
  while at <= #dump do
    local length = number()
    if length == 0 then break end
    local first, upvalues = at, dump:byte(at + 3)
    at = at + 4
    number()
    number()
    local from = at
    local count = number()
    local code = at + 4 * count
    list[#list + 1] = dump:sub(first, from - 1) .. dump:sub(at, code - 1) ..
      dump:sub(code + 2 * upvalues, first + length - 1)
    at = first + length
  end
  return table.concat(list, '|')
end

--- Compiles the text of a function, with these names as locals around it.
local function compiled(names, text)
  local around = #names > 0 and ('local %s\n'):format(table.concat(names, ', ')) or ''
  local chunk = loadstring(around .. 'return function' .. text)
  return chunk and chunk()
end

--- The candidate texts of a chunk.
local function texts_of(info)
  local kind = info.source:sub(1, 1)
  if kind == '@' then return {util.read_file(info.source:sub(2))} end
  if kind == '=' then return core.chunks(info.source) end
  return {info.source}
end

--- Whether the text of the function is available.
function source.is_kept(fn) return #texts_of(debug.getinfo(fn, 'S')) > 0 end

--- An error for the caller in C++, which adds the position.
local function fail(...) error(string.format(...), 0) end

--- For a function: the text of its chunk, the chunk's name in messages, its first and last line,
--- and which one of the functions on these lines it is.
function source.locate(fn)
  if type(fn) ~= 'function' then fail('kernel: a Lua function is needed, got %s', core.describe(fn)) end
  local info = debug.getinfo(fn, 'S')
  if info.what ~= 'Lua' or info.source:find '^@mtorch/' then
    fail('kernel: a Lua function is needed, got %s', info.what == 'main' and 'a chunk' or 'one of the library')
  end
  local texts = texts_of(info)
  if #texts == 0 then
    fail('kernel: the source of %s cannot be read, and kernels are made from it', info.short_src)
  end
  local wanted, names = code_of(fn), {}
  for i, name in util.upvalues(fn) do names[i] = name end
  for i = #texts, 1, -1 do
    local text = texts[i]
    for which, candidate in ipairs(native.grid_find(text, info.linedefined, info.lastlinedefined)) do
      local other = compiled(names, candidate)
      if other and code_of(other) == wanted then
        return text, info.short_src, info.linedefined, info.lastlinedefined, which
      end
    end
  end
  fail('kernel: %s:%d is not what was loaded; the file has changed since, load it again', info.short_src,
    info.linedefined)
end

return source
