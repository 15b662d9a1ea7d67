-- launch.lua -- positions of a grid: launches k[{blocks, threads}](..), mt.launch_kernel without a GPU, x:indices()
local core = require 'mtorch.core'
local fail, describe = core.fail, core.describe

local launch = {}

local whole = require('mtorch.core.util').is_whole

--- Three sizes from a number or from {x, y, z}, and how many were given. Without `least` they may be negative.
local function sizes(name, what, value, least)
  if whole(value, least) then return value, 1, 1, 1 end
  if type(value) == 'table' and #value >= 1 and #value <= 3 then
    local x, y, z = value[1], value[2] or 1, value[3] or 1
    if whole(x, least) and whole(y, least) and whole(z, least) then return x, y, z, #value end
  end
  fail('%s: %s must be a whole number%s or {x, y, z} of them, got %s', name, what, least and ' from 0' or '',
    describe(value))
end

--- Returns a function that calls run(gx, gy, gz, bx, by, bz, shared, ..); `takes_shared`: size may contain bytes.
function launch.launcher(name, size, run, takes_shared)
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

-- ---- without a GPU ---------------------------------------------------------------------------------

--- Calls visit(x, y, z, ..) for each position, the last fastest.
local function each(nx, ny, nz, visit, ...)
  for x = 1, nx do
    for y = 1, ny do
      for z = 1, nz do visit(x, y, z, ...) end
    end
  end
end

local function sizes_from_0(what, value) return sizes('launch_kernel', what, value, 0) end

--- fn(block_idx, thread_idx, block_dim, ..): threads one after the other, block by block.
local function launch_blocks(fn, blocks, threads, ...)
  local gx, gy, gz = sizes_from_0('blocks', blocks)
  local bx, by, bz = sizes_from_0('threads', threads)
  local count = bx * by * bz
  core.check(count >= 1 and count <= 1024,
    'launch_kernel: %d threads in a block; a GPU takes at %s', count, count < 1 and 'least 1' or 'most 1024')
  local function run(z, y, x, block_idx, ...)
    fn(block_idx, {x = x, y = y, z = z}, {x = bx, y = by, z = bz}, ...)
  end
  -- On a GPU x is the fastest.
  each(gz, gy, gx, function(z, y, x, ...) each(bz, by, bx, run, {x = x, y = y, z = z}, ...) end, ...)
end

local function launch_cells(fn, x, y, z, n, ...)
  local cells = {function(i, _, _, ...) fn(i, ...) end, function(i, j, _, ...) fn(i, j, ...) end, fn}
  each(x, y, z, cells[n], ...)
end

function launch.launch_kernel(fn, where, second, ...)
  if type(where) ~= 'table' then
    local nx, ny = sizes_from_0('grid_x', where), (sizes_from_0('grid_y', second))
    return launch_cells(fn, nx, ny, 1, 2, ...)
  end
  if type(where[1]) == 'table' or type(where[2]) == 'table' then
    if #where ~= 2 then fail('launch_kernel: {blocks, threads} is a list of two, got ' .. #where) end
    return launch_blocks(fn, where[1], where[2], second, ...)
  end
  local x, y, z, n = sizes_from_0('the grid', where)
  launch_cells(fn, x, y, z, n, second, ...)
end

--- An iterator over all positions of a tensor, the last dimension fastest.
function launch.indices(x)
  local shape = x.shape
  local rank, at, left = #shape, {}, 1
  if rank == 0 then fail('indices: a 0-d tensor has no positions') end
  for d = 1, rank do at[d], left = 1, left * shape[d] end
  at[rank] = 0
  return function()
    if left == 0 then return nil end
    left = left - 1
    local d = rank
    while at[d] == shape[d] do at[d], d = 1, d - 1 end
    at[d] = at[d] + 1
    return unpack(at, 1, rank)
  end
end

return launch
