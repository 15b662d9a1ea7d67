-- puzzles_trace.lua -- what each thread of a small grid kernel reads and writes, as a picture in text
--
-- The kernel runs as plain Lua: a thread is a coroutine, a barrier gives way to the next thread, and a
-- tensor is a userdata that notes each access. Only the first block is drawn.
local trace = {}

--- A tensor of `shape` with the elements `cells` (flat, row by row); note(position, letter) hears of accesses.
local function watched(shape, cells, note)
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

--- Makes the words of kernels globals; they speak of the thread that state.thread names.
local function set_words(state, blocks, threads)
  local words = {block_dim = xyz(threads), grid_dim = xyz(blocks), block_idx = {x = 1, y = 1, z = 1}}
  function words.grid(n)
    local t = state.thread.idx
    return unpack({t.x, t.y, t.z}, 1, n)
  end
  words.barrier = coroutine.yield
  function words.constant(t) return t end
  function words.shared(n, m)
    local thread = state.thread
    thread.shared = thread.shared + 1
    local name = 'shared' .. (thread.shared > 1 and thread.shared or '')
    if not state.tensors[name] then state.add(name, {n, type(m) == 'number' and m or nil}, {}) end
    return state.tensors[name]
  end
  function words.atomic_add(t, ...)
    local list = {...}
    for k = 1, #list - 2 do t = t[list[k]] end
    local at, before = list[#list - 1], t[list[#list - 1]]
    t[at] = before + list[#list]
    return before
  end
  local kept = {thread_idx = rawget(_G, 'thread_idx') or false}
  for name, word in pairs(words) do
    kept[name] = rawget(_G, name) or false
    rawset(_G, name, word)
  end
  return function() for name, before in pairs(kept) do rawset(_G, name, before or nil) end end
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

--- Runs all threads from barrier to barrier.
local function run(state, threads)
  local left = #threads
  while left > 0 do
    for _, thread in ipairs(threads) do
      if not thread.done then
        state.thread = thread
        rawset(_G, 'thread_idx', thread.idx)
        thread.done = thread.run() == 'done'
        if thread.done then left = left - 1 end
      end
    end
  end
end

--- A line of the picture: r where an element was read, w where it was written, x for both.
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

--- The picture of f's first threads, and how often a thread reads global memory at most; nil for a
--- kernel that plain Lua cannot run (warps).
function trace.picture(f, launch, names, tensors, shown)
  local state, arguments = {tensors = {}, order = {}, sizes = {}, rows = {}}, {}
  function state.add(name, shape, cells)
    local size = 1
    for _, n in ipairs(shape) do size = size * n end
    state.order[#state.order + 1], state.sizes[name], state.rows[name] = name, size, shape[2]
    state.tensors[name] = watched(shape, cells, function(at, letter)
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
  local restore = set_words(state, launch[1], launch[2])
  local ok = pcall(run, state, threads)
  restore()
  if not ok then return nil end
  local lines, most = {}, 0
  for i, thread in ipairs(threads) do
    most = math.max(most, thread.reads)
    local name = ('  thread %d,%d  '):format(thread.idx.x, thread.idx.y)
    if i <= (shown or 5) then lines[#lines + 1] = name .. line_of(state, thread) end
  end
  if #threads > #lines then lines[#lines + 1] = ('  .. and %d more'):format(#threads - #lines) end
  return table.concat(lines, '\n'), most
end

return trace
