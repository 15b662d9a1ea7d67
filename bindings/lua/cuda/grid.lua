-- grid.lua -- iteration over positions: x:indices(), and mt.launch_kernel, a grid without a GPU
local core = require 'mtorch.core'

local grid = {}

--- Calls visit(x, y, z, ..) for each position of 1..size[1] x 1..size[2] x 1..size[3], the last
--- fastest.
local function each(size, visit, ...)
  for x = 1, size[1] do
    for y = 1, size[2] or 1 do
      for z = 1, size[3] or 1 do visit(x, y, z, ...) end
    end
  end
end

--- Sizes in 1 to 3 dimensions, from a number or a list.
local function sizes(value, what)
  local list = type(value) == 'number' and {value} or value
  if type(list) ~= 'table' or #list < 1 or #list > 3 then
    core.fail('launch_kernel: %s must be a number from 0 or a list of 1 to 3, got %s', what,
      type(list) == 'table' and ('a list of %d'):format(#list) or core.describe(value))
  end
  for _, n in ipairs(list) do
    if type(n) ~= 'number' or n % 1 ~= 0 or n < 0 then
      core.fail('launch_kernel: %s must be %s from 0, got %s', what,
        list == value and 'whole numbers' or 'a whole number', core.describe(n))
    end
  end
  return list
end

local function xyz(size) return {x = size[1], y = size[2] or 1, z = size[3] or 1} end

--- fn(block_idx, thread_idx, block_dim, ..): threads one after the other, block by block.
local function launch_blocks(fn, blocks, threads, ...)
  local block_dim = xyz(threads)
  local count = block_dim.x * block_dim.y * block_dim.z
  if count < 1 or count > 1024 then
    core.fail('launch_kernel: %d threads in a block; a GPU takes at %s', count, count < 1 and 'least 1' or 'most 1024')
  end
  -- On a GPU x is the fastest: the reverse of the order of lists.
  local function run(z, y, x, block_idx, ...)
    fn(block_idx, {x = x, y = y, z = z}, {x = block_dim.x, y = block_dim.y, z = block_dim.z}, ...)
  end
  local inside = {block_dim.z, block_dim.y, block_dim.x}
  local outside = xyz(blocks)
  each({outside.z, outside.y, outside.x}, function(z, y, x, ...)
    each(inside, run, {x = x, y = y, z = z}, ...)
  end, ...)
end

local function launch_cells(fn, size, ...)
  local cells = {function(i, _, _, ...) fn(i, ...) end, function(i, j, _, ...) fn(i, j, ...) end, fn}
  each(size, cells[#size], ...)
end

function grid.launch_kernel(fn, where, second, ...)
  if type(where) ~= 'table' then
    return launch_cells(fn, {sizes(where, 'grid_x')[1], sizes(second, 'grid_y')[1]}, ...)
  end
  if type(where[1]) == 'table' or type(where[2]) == 'table' then
    if #where ~= 2 then core.fail('launch_kernel: {blocks, threads} is a list of two, got ' .. #where) end
    return launch_blocks(fn, sizes(where[1], 'blocks'), sizes(where[2], 'threads'), second, ...)
  end
  return launch_cells(fn, sizes(where, 'the grid'), second, ...)
end

--- An iterator over all positions of a tensor, the last dimension fastest.
function grid.indices(x)
  local shape = x.shape
  local rank, at, left = #shape, {}, 1
  if rank == 0 then core.fail('indices: a 0-d tensor has no positions') end
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

return grid
