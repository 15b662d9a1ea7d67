-- profile.lua -- mt.profile: times of operations, kernels and launches, as a table, data and a trace
local core = require 'mtorch.core'
local util = require 'mtorch.core.util'

-- ---- the table ----------------------------------------------------------------------------------

local function time_text(seconds) return util.in_units('%.3f%s', seconds, 1, 's', 1e-3, 'ms', 1e-6, 'us') end

local function percent(part, whole) return ('%.2f%%'):format(whole > 0 and 100 * part / whole or 0) end

-- Columns as in PyTorch's table.
local titles = {'Name', 'Self CPU %', 'Self CPU', 'CPU total %', 'CPU total', 'CPU time avg', '# of Calls'}
local gpu_titles = {'Self CUDA', 'Self CUDA %', 'CUDA total', 'CUDA time avg'}

--- The cells of a row, with those of the GPU before the last one if it was used.
local function with_gpu(rows, line, gpu)
  for i, text in ipairs(rows.cuda > 0 and gpu or {}) do table.insert(line, 6 + i, text) end
  return line
end

--- The rows as text, with the totals in the last line; `bold` for terminals that support it.
local function table_text(rows, top, bold)
  local lines = {with_gpu(rows, {unpack(titles)}, gpu_titles)}
  for i = 1, math.min(#rows, top) do
    local r = rows[i]
    lines[i + 1] = with_gpu(rows, {util.truncate(r.name, 48, '..'), percent(r.self_cpu, rows.wall),
      time_text(r.self_cpu), percent(r.cpu_total, rows.wall), time_text(r.cpu_total), time_text(r.cpu_avg),
      ('%d'):format(r.calls)}, {time_text(r.self_cuda), percent(r.self_cuda, rows.cuda), time_text(r.cuda_total),
      time_text(r.cuda_avg)})
  end
  local out = util.aligned(lines, 1)
  if bold then out[1] = '\27[1m' .. out[1] .. '\27[0m' end
  if #rows > top then out[#out + 1] = ('(%d more rows)'):format(#rows - top) end
  local total = ('total %s, of which %s outside of operations, in Lua'):format(
    util.duration_text(rows.wall, 'us'), util.duration_text(rows.outside, 'us'))
  if rows.cuda > 0 then total = total .. ('; on the GPU %s'):format(util.duration_text(rows.cuda, 'us')) end
  out[#out + 1] = total
  return table.concat(out, '\n')
end

-- ---- from the recording to what is shown --------------------------------------------------------

local orders = {
  self = function(r) return r.self_cpu + r.self_cuda end,
  total = function(r) return r.cpu_total end,
  cuda = function(r) return r.cuda_total end,
  calls = function(r) return r.calls end,
}

local function finish(rows, path, sort)
  rows.cuda = 0
  for _, row in ipairs(rows) do
    row.cpu_avg, row.cuda_avg = row.cpu_total / row.calls, row.cuda_total / row.calls
    rows.cuda = rows.cuda + row.self_cuda
  end
  local order, place = orders[sort], {}
  for i, row in ipairs(rows) do place[row] = i end
  table.sort(rows, function(a, b)
    local x, y = order(a), order(b)
    if x ~= y then return x > y end
    return place[a] < place[b]
  end)
  if path then
    util.write_file('profile', path, rows.trace)
    if rows.left_out > 0 then
      io.stderr:write(("mtorch: profile: '%s' has no room for the last %d events\n"):format(path, rows.left_out))
    end
  end
  rows.trace, rows.left_out, rows.path = nil, nil, path
  return rows
end

local function show(rows, top, fd)
  local text = table_text(rows, top, util.colours(fd) > 0)
  if rows.path then text = ('%s\ntrace: %s (open it in ui.perfetto.dev)'):format(text, rows.path) end
  if fd == 1 then return core.print_long('mt.profile', text) end
  io.stderr:write(text, '\n')
end

--- Records the rest of the program; returns the function that stops the recording and prints the table.
function core.profile_program(path)
  if path then core.check_writable('profile', path) end
  local ended, exit = false, os.exit
  local function stop()
    if ended then return end
    ended = true
    local rows = core.profile_stop()
    if rows then
      io.stdout:flush()
      show(finish(rows, path, 'self'), math.huge, 2)
    end
  end
  os.exit = function(...)
    stop()
    exit(...)
  end
  core.profile_start(path ~= nil)
  return stop
end

return core.declare("profile(fn: function, path: string = nil, sort: 'self'|'total'|'cuda'|'calls' = 'self', " ..
  'top: int >= 0 = nil, quiet=false, wait: int >= 0 = 0, warmup: int >= 0 = 0, active: int >= 1 = 1)',
  'Profiles fn(): prints a row for each operation, gradient and kernel, largest self time first ' ..
  "(or by sort; top: how many), writes a trace for Perfetto to path. Returns the rows " ..
  '{name, kind, calls, self_cpu, cpu_total, cpu_avg, self_cuda, cuda_total, cuda_avg} in seconds, with wall, ' ..
  'outside and cuda in all, then what fn returned. As a schedule of torch.profiler: fn is called wait times, warmup ' ..
  'times under the profiler, whose records are discarded, then active times.',
function(fn, path, sort, top, quiet, wait, warmup, active)
  if path then core.check_writable('profile', path) end
  local function finished(rows, ...)
    finish(rows, path, sort)
    if not quiet then show(rows, top or math.huge, 1) end
    return rows, ...
  end
  for _ = 1, wait do fn() end
  for _ = 1, warmup do core.profile_call(false, fn) end
  local function steps()
    for _ = 2, active do fn() end
    return fn()
  end
  return finished(core.profile_call(path ~= nil, active == 1 and fn or steps))
end)
