-- checkpoint.lua -- dist.checkpoint: the state of a run of several processes, each of which writes a part
--
-- The file `path` is the index: the state of the run (io/run_state.lua), in which {['$part'] = r, tensor = i} stands
-- for tensor i of the file path.SERIAL.r, and {['$own'] = i} for tensor i of each process's own file: all processes
-- have the same tensors, except those whose sums differ. Parts of a new checkpoint have another serial number, and the
-- index is replaced atomically after all of them are there: a process that dies meanwhile leaves the old checkpoint.
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local run_state = require 'mtorch.io.run_state'
local save = require 'mtorch.io.save'
local parallel = require 'mtorch.dist.parallel'
local dist = mt.dist

local checkpoint = {}

--- Calls fn in all processes. If it raises an error in one, all raise one that names it.
local function together(operation, fn, ...)
  local results = core.pack(pcall(fn, ...))
  local failed = dist.all_reduce_(mt.tensor({results[1] and -1 or dist.rank()}, {dtype = 'int64'}), 'max'):item()
  if not results[1] then core.fail('%s', (tostring(results[2]):gsub('^[^:\n]*:%d+: ', ''))) end
  if failed >= 0 then core.fail('%s: process %d failed', operation, failed) end
  return unpack(results, 2, results.n)
end

local function part_path(path, serial, rank) return ('%s.%d.%d'):format(path, serial, rank) end

--- Calls visit(tensor) for each tensor in the tables of a value, in an order that all processes share.
local function each_tensor(value, visit)
  if mt.is_tensor(value) then return visit(value) end
  if type(value) ~= 'table' or getmetatable(value) then return end
  for _, key in ipairs(util.sorted_keys(value)) do each_tensor(value[key], visit) end
end

--- For each tensor whether the processes have different ones, by their sums.
local function differences(tensors)
  local sums = {}
  for i, x in ipairs(tensors) do
    local wide = x:detach():double()
    sums[2 * i - 1], sums[2 * i] = wide:sum(), (wide * wide):sum()
  end
  if #sums == 0 then return {} end
  local all = mt.stack(dist.all_gather(mt.stack(sums):cpu():nan_to_num())):view(dist.size(), #tensors, 2)
  return all:ne(all[1]):any(3):any(1):tolist()
end

--- Which process writes each tensor: the one with the fewest bytes so far, or each its own. Returns the marks by
--- tensor, and the tensors of this process.
local function distribute(tensors)
  local bytes, marks, mine = {}, {}, {}
  for r = 0, dist.size() - 1 do bytes[r] = 0 end
  local differ = differences(tensors)
  for i, x in ipairs(tensors) do
    local least = 0
    for r = 1, dist.size() - 1 do
      if bytes[r] < bytes[least] then least = r end
    end
    if differ[i] then
      marks[x] = {['$own'] = i}
      mine[tostring(i)] = x
    else
      bytes[least] = bytes[least] + x:numel() * x:element_size()
      marks[x] = {['$part'] = least, tensor = i}
      if least == dist.rank() then mine[tostring(i)] = x end
    end
  end
  return marks, mine
end

--- The index at a path, or nil if there is no file.
local function read_index(operation, path)
  local file, _, errno = io.open(path, 'rb')
  if not file and errno == 2 then return nil end
  if file then file:close() end
  local index = save.read(operation, path)
  core.check(type(index) == 'table' and type(index.dist) == 'table' and type(index.state) == 'table',
    "%s: '%s' is not a file of dist.checkpoint; mt.checkpoint.resume reads those of one process", operation, path)
  run_state.check(operation, path, index.state)
  return index
end

checkpoint.save = core.declare('save(path: string, objects: table)',
  'mt.checkpoint.save(path, {model=net, optim=opt, step=n, ..}) of all processes: each writes a part of the tensors ' ..
  'beside the file, path.SERIAL.RANK, and the first one path itself, which is replaced atomically. Plain values are ' ..
  'those of the first process; tensors that differ between the processes are each kept. The files are in one folder ' ..
  'for all processes.',
  function(path, objects)
    local operation = 'dist.checkpoint.save'
    local state, tensors = run_state.of(operation, objects), {}
    local random = state.checkpoint.random
    state.checkpoint.random = {}
    each_tensor(state, function(x) tensors[#tensors + 1] = x end)
    local marks, mine = distribute(tensors)
    local before = together(operation, function() return dist.rank() == 0 and read_index(operation, path) or nil end)
    local serial = dist.broadcast_(mt.tensor({before and before.dist.serial + 1 or 1}, {dtype = 'int64'})):item()
    local part = part_path(path, serial, dist.rank())
    local ok, message = pcall(together, operation, save.write, operation, part, {tensors = mine, random = random})
    if not ok then
      os.remove(part)
      error(message, 0)
    end
    together(operation, function()
      if dist.rank() > 0 then return end
      local index = run_state.copied(state, function(value) return mt.is_tensor(value) and marks[value] or nil end)
      save.write(operation, path, {dist = {serial = serial, size = dist.size()}, state = index})
      for r = 0, before and before.dist.size - 1 or -1 do os.remove(part_path(path, before.dist.serial, r)) end
    end)
  end, true)

--- The whole state of a run from its index and its parts.
local function read(operation, path)
  local index = read_index(operation, path)
  if not index then return nil end
  local parts, size, rank = {}, index.dist.size, dist.rank()
  for r = 0, size - 1 do parts[r] = save.read(operation, part_path(path, index.dist.serial, r)) end
  local state = run_state.copied(index.state, function(value)
    if type(value) ~= 'table' then return nil end
    local own = rawget(value, '$own')
    if own and size ~= dist.size() then
      core.fail('%s: the %d processes had different tensors (parts of a layer, or buffers=false), so as many must ' ..
        'resume, not %d', operation, size, dist.size())
    end
    if own then return parts[rank].tensors[tostring(own)] end
    local from = rawget(value, '$part')
    return from and parts[from].tensors[tostring(value.tensor)] or nil
  end)
  state.checkpoint.random = parts[rank < size and rank or 0].random
  return state
end

checkpoint.resume = core.declare('resume(path: string, objects: table)',
  'Restores what dist.checkpoint.save wrote, in any number of processes; returns the plain values, {step=n, ..}, or ' ..
  'nil without a file. Random states are those of the same rank, else of rank 0. A loader with shard={rank, size} ' ..
  'goes on where all were, if the batch of all processes together has the same size. If one object does not fit in ' ..
  'one process, all raise an error.',
  function(path, objects)
    local operation = 'dist.checkpoint.resume'
    local state = together(operation, read, operation, path)
    if not parallel.any(state) then return nil end
    return together(operation, function()
      if not state then core.fail("%s: there is no '%s' for process %d", operation, path, dist.rank()) end
      return run_state.restore(operation, state, objects)
    end)
  end, true)

return checkpoint
