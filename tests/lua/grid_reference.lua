-- grid_reference.lua -- runs grid kernels as plain Lua: threads are coroutines, tensors are nested tables
local mt = require 'mtorch'

local reference = {}

--- Converts a tensor to nested tables with a shape, as in kernels.
local function table_of(x)
  local function level(list, shape, d)
    local t = {shape = {}, ndim = #shape - d + 1}
    for k = d, #shape do t.shape[#t.shape + 1] = shape[k] end
    for i = 1, shape[d] do
      if d == #shape then t[i] = list[i] else t[i] = level(list[i], shape, d + 1) end
    end
    return t
  end
  return level(x:tolist(), x.shape, 1)
end
local function plain(t, rank)
  local list = {}
  for i = 1, t.shape[1] do
    if rank == 1 then list[i] = t[i] else list[i] = plain(t[i], rank - 1) end
  end
  return list
end

--- Returns an environment with the functions of kernels, for one thread.
local function kernel_environment(state)
  local env = setmetatable({}, {__index = _G})
  function env.grid(n)
    local place = {}
    for k, axis in ipairs {'x', 'y', 'z'} do
      place[k] = (env.block_idx[axis] - 1) * env.block_dim[axis] + env.thread_idx[axis]
    end
    return unpack(place, 1, n)
  end
  function env.barrier() coroutine.yield() end
  local filled
  function filled(n, m)
    local sizes = {n, type(m) == 'number' and m or nil}
    local list = {shape = sizes, ndim = #sizes}
    for i = 1, n do list[i] = sizes[2] and filled(m) or 0 end
    return list
  end
  env.private = filled
  function env.shared(...)
    state.calls = state.calls + 1
    state.shared[state.calls] = state.shared[state.calls] or filled(...)
    return state.shared[state.calls]
  end
  local updates = {atomic_add = function(a, v) return a + v end, atomic_min = math.min, atomic_max = math.max,
    atomic_exchange = function(_, v) return v end}
  for name, updated in pairs(updates) do
    env[name] = function(t, ...)
      local list = {...}
      for k = 1, #list - 2 do t = t[list[k]] end
      local at, before = list[#list - 1], t[list[#list - 1]]
      t[at] = updated(before, list[#list])
      return before
    end
  end
  function env.atomic_cas(t, i, expected, v)
    return env.atomic_exchange(t, i, t[i] == expected and v or t[i])
  end
  function env.constant(t) return t end
  return env
end

local function xyz(size)
  if type(size) == 'number' then return {x = size, y = 1, z = 1} end
  return {x = size[1], y = size[2] or 1, z = size[3] or 1}
end
local function each(size, visit)
  for z = 1, size.z do
    for y = 1, size.y do
      for x = 1, size.x do visit {x = x, y = y, z = z} end
    end
  end
end

--- Runs f as Lua over blocks x threads; returns the final values of the tensor arguments, as lists.
function reference.run(f, blocks, threads, ...)
  local inputs, arguments = {...}, {}
  for k, x in ipairs(inputs) do arguments[k] = mt.is_tensor(x) and table_of(x) or x end
  local grid_dim, block_dim = xyz(blocks), xyz(threads)
  each(grid_dim, function(block)
    local shared, waiting = {}, {}
    each(block_dim, function(thread)
      local state = {shared = shared, calls = 0}
      local env = kernel_environment(state)
      env.block_idx, env.thread_idx, env.block_dim, env.grid_dim = block, thread, block_dim, grid_dim
      waiting[#waiting + 1] = {env = env, thread = coroutine.create(f)}
    end)
    local before = getfenv(f)
    while #waiting > 0 do
      local still_waiting = {}
      for _, t in ipairs(waiting) do
        setfenv(f, t.env)
        local ok, why = coroutine.resume(t.thread, unpack(arguments))
        setfenv(f, before)
        if not ok then error(why, 0) end
        if coroutine.status(t.thread) ~= 'dead' then still_waiting[#still_waiting + 1] = t end
      end
      waiting = still_waiting
    end
  end)
  local results = {}
  for k, x in ipairs(inputs) do
    if mt.is_tensor(x) then results[k] = plain(arguments[k], #x.shape) end
  end
  return results
end

return reference
