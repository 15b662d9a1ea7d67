-- puzzles_trace.lua -- draws the reads and writes of each thread of a small grid kernel as text
--
-- The kernel runs as plain Lua: a thread is a coroutine, a barrier yields to the next thread, and a
-- tensor is a userdata that records each access. Only the first block is drawn.
local trace = {}

--- Returns a tensor of `shape` with the elements `cells` (row-major), which calls note(position, letter) at an access.
local function recording_tensor(shape, cells, note)
  local function level(offset, d)
    local proxy = newproxy(true)
    local meta, step = getmetatable(proxy), 1
    for k = d + 1, #shape do step = step * shape[k] end
    local sizes = {unpack(shape, d)}
    meta.__len = function() return shape[d] end
    meta.__index = function(_, key)
      if key == 'shape' then return sizes elseif key == 'ndim' then return #sizes end
      if d < #shape then return level(offset + (key - 1) * step, d + 1) end
      note(offset + key, 'r')
      return cells[offset + key]
    end
    meta.__newindex = function(_, key, value)
      note(offset + key, 'w')
      cells[offset + key] = value
    end
    return proxy
  end
  return level(0, 1)
end

local function xyz(size)
  if type(size) == 'number' then return {x = size, y = 1, z = 1} end
  return {x = size[1], y = size[2] or 1, z = size[3] or 1}
end

--- Defines the functions of kernels as globals, for the thread state.thread; returns a function that restores them.
local function define_functions(state, blocks, threads)
  local functions = {block_dim = xyz(threads), grid_dim = xyz(blocks), block_idx = {x = 1, y = 1, z = 1}}
  function functions.grid(n)
    local t = state.thread.idx
    return unpack({t.x, t.y, t.z}, 1, n)
  end
  functions.barrier = coroutine.yield
  function functions.constant(t) return t end
  function functions.shared(n, m)
    local thread = state.thread
    thread.shared = thread.shared + 1
    local name = 'shared' .. (thread.shared > 1 and thread.shared or '')
    if not state.tensors[name] then state.add(name, {n, type(m) == 'number' and m or nil}, {}) end
    return state.tensors[name]
  end
  function functions.atomic_add(t, ...)
    local list = {...}
    for k = 1, #list - 2 do t = t[list[k]] end
    local at, before = list[#list - 1], t[list[#list - 1]]
    t[at] = before + list[#list]
    return before
  end
  local saved = {thread_idx = rawget(_G, 'thread_idx') or false}
  for name, word in pairs(functions) do
    saved[name] = rawget(_G, name) or false
    rawset(_G, name, word)
  end
  return function() for name, before in pairs(saved) do rawset(_G, name, before or nil) end end
end

local function make_threads(f, size, arguments)
  local list = {}
  for y = 1, size.y do
    for x = 1, size.x do
      list[#list + 1] = {idx = {x = x, y = y, z = 1}, shared = 0, marks = {}, reads = 0, run = coroutine.wrap(function()
        f(unpack(arguments))
        return 'done'
      end)}
    end
  end
  return list
end

--- Runs all threads in turns, from barrier to barrier.
local function run(state, threads)
  local remaining = #threads
  while remaining > 0 do
    for _, thread in ipairs(threads) do
      if not thread.done then
        state.thread = thread
        rawset(_G, 'thread_idx', thread.idx)
        thread.done = thread.run() == 'done'
        if thread.done then remaining = remaining - 1 end
      end
    end
  end
end

--- Returns a line of the picture: r where an element was read, w where it was written, x for both.
local function line_of(state, thread)
  local parts = {}
  for _, name in ipairs(state.order) do
    local size, row, text = state.sizes[name], state.rows[name], {}
    for i = 1, size do
      if i > 1 and row and (i - 1) % row == 0 then text[#text + 1] = ' ' end
      text[#text + 1] = thread.marks[name .. i] or '.'
    end
    parts[#parts + 1] = name .. ' ' .. table.concat(text)
  end
  return table.concat(parts, '   ')
end

--- Returns the picture of f's first threads, and the largest number of global reads of a thread; nil for
--- a kernel that plain Lua cannot run (warps).
function trace.picture(f, launch, names, tensors, shown)
  local state, arguments = {tensors = {}, order = {}, sizes = {}, rows = {}}, {}
  function state.add(name, shape, cells)
    local size = 1
    for _, n in ipairs(shape) do size = size * n end
    state.order[#state.order + 1], state.sizes[name], state.rows[name] = name, size, shape[2]
    state.tensors[name] = recording_tensor(shape, cells, function(at, letter)
      local thread, key = state.thread, name .. at
      local before = thread.marks[key]
      thread.marks[key] = before and before ~= letter and 'x' or letter
      if letter == 'r' and not name:find '^shared' then thread.reads = thread.reads + 1 end
    end)
    return state.tensors[name]
  end
  local at = 0
  for name in names:gmatch '%a+' do
    at = at + 1
    arguments[at] = state.add(name, tensors[at].shape, tensors[at]:reshape(-1):tolist())
  end
  local threads = make_threads(f, xyz(launch[2]), arguments)
  local restore = define_functions(state, launch[1], launch[2])
  local ok = pcall(run, state, threads)
  restore()
  if not ok then return nil end
  local lines, max_reads = {}, 0
  for i, thread in ipairs(threads) do
    max_reads = math.max(max_reads, thread.reads)
    local name = ('  thread %d,%d  '):format(thread.idx.x, thread.idx.y)
    if i <= (shown or 5) then lines[#lines + 1] = name .. line_of(state, thread) end
  end
  if #threads > #lines then lines[#lines + 1] = ('  .. and %d more'):format(#threads - #lines) end
  return table.concat(lines, '\n'), max_reads
end

return trace
