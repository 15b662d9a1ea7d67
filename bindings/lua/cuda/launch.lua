-- launch.lua -- the syntax of launches: k[{blocks, threads}](..)
local core = require 'mtorch.core'
local fail, describe = core.fail, core.describe

local function whole(value) return type(value) == 'number' and value % 1 == 0 end

--- Three sizes from a number or from {x, y, z}.
local function sizes(name, what, value)
  if whole(value) then return value, 1, 1 end
  if type(value) == 'table' and #value >= 1 and #value <= 3 then
    local x, y, z = value[1], value[2] or 1, value[3] or 1
    if whole(x) and whole(y) and whole(z) then return x, y, z end
  end
  fail('%s: %s must be a whole number or {x, y, z} of them, got %s', name, what, describe(value))
end

--- Returns a function that calls run(gx, gy, gz, bx, by, bz, shared, ..); `takes_shared`: size may contain bytes.
return function(name, size, run, takes_shared)
  local n = #size
  if n < 2 or n > (takes_shared and 3 or 2) then
    fail('%s: a launch is k[{blocks, threads}](..)%s, got %d entr%s', name,
      takes_shared and ' or k[{blocks, threads, bytes of shared memory}](..)' or '', n, n == 1 and 'y' or 'ies')
  end
  local gx, gy, gz = sizes(name, 'the number of blocks', size[1])
  local bx, by, bz = sizes(name, 'the number of threads', size[2])
  local shared = size[3] or 0
  if not whole(shared) then
    fail('%s: the bytes of shared memory must be a whole number, got %s', name, describe(shared))
  end
  return function(...) return run(gx, gy, gz, bx, by, bz, shared, ...) end
end
