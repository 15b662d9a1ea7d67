-- gpu_table.lua -- writes the results of gpu_check.sh to DIR/gpu_check.json and DIR/gpu_check.md
--
--   mtorch scripts/tools/gpu_table.lua DIR SECONDS QUICK
local mt = require 'mtorch'
local util = require 'mtorch.core.util'

local folder, seconds, quick = arg[1], tonumber(arg[2]), arg[3] == 'yes'
if not seconds then
  io.stderr:write('mtorch: gpu_table.lua: its arguments are DIR SECONDS QUICK, as gpu_check.sh gives them\n')
  os.exit(2)
end

local function read(path) return util.read_file(path) or '' end

-- ---- reading the results ------------------------------------------------------------------------

local parts, count = {}, {}
for line in read(folder .. '/parts.tsv'):gmatch('[^\n]+') do
  local group, name, outcome, took, words = line:match('^(.-)\t(.-)\t(.-)\t(.-)\t(.*)$')
  if group then
    parts[#parts + 1] = {group = group, name = name, outcome = outcome, seconds = tonumber(took), words = words}
    count[outcome] = (count[outcome] or 0) + 1
  end
end

--- Returns the benchmark's rows of a contender, in microseconds.
local function column(who)
  local times, names = {}, {}
  local text = read(('%s/%s.bench.tsv'):format(folder, who)) .. '\n' .. read(('%s/%s.models.tsv'):format(folder, who))
  for line in text:gmatch('[^\n]+') do
    local name, us = line:match('^([%w_/]+)\t([%d.]+)$')
    if name then names[#names + 1], times[name] = name, tonumber(us) end
  end
  return times, names
end
local ours, names = column 'mtorch'
local theirs, rows = column 'torch', {}
for i, name in ipairs(names) do rows[i] = {name = name, us = ours[name], torch_us = theirs[name]} end

--- The output of group 'here': the driver and its clocks, the libraries.
local here = {}
for _, name in ipairs {'driver', 'libraries', 'first_operation', 'memory_at_end'} do
  here[name] = read(('%s/log/here.%s'):format(folder, name))
end

-- Bytes moved and operations of a row, for the last columns.
local moved = {device_copy = 8, clone = 8, add = 12, relu = 8, exp = 8, gelu = 8, sum = 4, upload = 4, download = 4,
  add_row = 8, add_channel = 8, to_half = 6, from_half = 6, cumsum = 8, softmax = 8, layer_norm = 8, batch_norm = 8}
local function rate(row)
  local name = row.name:match('^([%w_]+)/64Mi$')
  local numbers = quick and 2 ^ 16 or 2 ^ 26
  if name and moved[name] then return ('%.0f GB/s'):format(moved[name] * numbers / row.us / 1e3) end
  local m, k, n = row.name:match('^matmul/(%d+)x(%d+)x(%d+)$')
  if m and tonumber(m) >= 512 then return ('%.1f TFLOP/s'):format(2 * m * k * n / row.us / 1e6) end
  return ''
end

local device = mt.cuda.device_name()
mt.data.save_json(folder .. '/gpu_check.json', {device = device, quick = quick, seconds = seconds, parts = parts,
  benchmarks = rows, here = here})

-- ---- the table ----------------------------------------------------------------------------------

local lines = {}
local function say(...) lines[#lines + 1] = (...):format(select(2, ...)) end
local function cell(text) return (tostring(text):gsub('|', '\\|')) end

say('# GPU check: %s%s', device, quick and ' (quick)' or '')
say('')
local outcomes = {}
for _, outcome in ipairs {'passed', 'failed', 'timed out', 'not run', 'not run: emulated', 'not run: no cuDNN',
  'skipped'} do
  if count[outcome] then outcomes[#outcomes + 1] = count[outcome] .. ' ' .. outcome end
end
say('%d parts in %d s: %s.', #parts, seconds, table.concat(outcomes, ', '))
say('')
if (count.passed or 0) < #parts then
  say('| part | outcome | s | |')
  say('|---|---|--:|---|')
  for _, p in ipairs(parts) do
    if p.outcome ~= 'passed' then
      say('| %s %s | %s | %.1f | %s |', p.group, cell(p.name), p.outcome, p.seconds, cell(p.words))
    end
  end
  say('')
end
say('```')
for line in (here.driver .. here.libraries):gmatch('[^\n]+') do say('%s', line) end
say('```')
say('')
if #rows > 0 then
  say('| row | mtorch, us | PyTorch, us | times faster | mtorch |')
  say('|---|--:|--:|--:|--:|')
  for _, r in ipairs(rows) do
    say('| `%s` | %.2f | %s | %s | %s |', r.name, r.us, r.torch_us and ('%.2f'):format(r.torch_us) or '-',
      r.torch_us and ('%.2f'):format(r.torch_us / r.us) or '-', rate(r))
  end
end
util.write_file('gpu_table', folder .. '/gpu_check.md', table.concat(lines, '\n') .. '\n')
print(table.concat(lines, '\n'))
print(('\n%s/gpu_check.json, gpu_check.md'):format(folder))
if (count.failed or 0) + (count['timed out'] or 0) + (count['not run'] or 0) > 0 then os.exit(1) end
