-- graphs.lua -- the graphs of bench.lua: time over size, a roofline
local mt = require 'mtorch'
local report = require 'bench.report'
local util = require 'mtorch.core.util'

local graphs = {}

--- Returns a title with a line about the machine of the run.
local function titled(text, run)
  local m = run.machine or {}
  return ('%s (%s, %s, threads: %s, %s)'):format(text, m.processor or '?', m.isa or '?', m.threads or '?',
    m.date or '?')
end

--- Groups the rows by operation, in the order of their sizes: {{name=, {n=, results=}, ..}, ..}.
local function by_operation(run)
  local list, found = {}, {}
  for _, r in ipairs(run.rows) do
    local name, label = r.name:match('^([%w_]+)/(%d+%a*)$')
    local n = name and report.count_of(label)
    if n then
      if not found[name] then
        found[name] = {name = name}
        list[#list + 1] = found[name]
      end
      table.insert(found[name], {n = n, results = r.results})
    end
  end
  for _, rows in ipairs(list) do table.sort(rows, function(a, b) return a.n < b.n end) end
  return list
end

--- Draws time over size, with a log-log panel for each operation of three sizes or more; the memory copy is dashed.
function graphs.sizes(path, run, columns)
  local panels = {title = titled('Microseconds of a call over the number of elements', run), path = path, cols = 3}
  for _, rows in ipairs(by_operation(run)) do
    local panel = {kind = 'line', title = rows.name, logx = true, logy = true, legend = #panels == 0}
    for k, column in ipairs(columns) do
      local line = {x = {}, y = {}, label = column.name, color = k, style = column.name == 'copy' and '--' or '-'}
      for _, row in ipairs(rows) do
        local result = row.results[column.name]
        if result then
          table.insert(line.x, row.n)
          table.insert(line.y, result.us)
        end
      end
      if #line.x > 0 then panel[#panel + 1] = line end
    end
    if #rows > 2 and #panel > 0 then panels[#panels + 1] = panel end
  end
  if #panels == 0 then return 'no operation has rows of three sizes' end
  mt.plot.panels(panels)
end

-- Operations per element of the first input, for rows without `flops`.
local per_element = {add = 1, mul = 1, sum = 1, own_triad = 2, own_axb_relu_mul = 4, own_softmax = 5,
  own_layer_norm = 7}

local function flops_of(row)
  local op, label = row.name:match('^([%w_]+)/(%d+%a*)$')
  return row.flops or per_element[op] and per_element[op] * report.count_of(label)
end

local markers = {'o', 'x', '+', '^', 's', 'v', 'd'} -- of the contenders

--- Draws GFLOP/s over arithmetic intensity (operations per byte of inputs and results) under the machine's limits, with
--- a colour for each row and a marker for each contender. Returns why it cannot.
function graphs.roofline(path, run, columns)
  local machine, series, rows, names = run.machine or {}, {}, 0, {}
  local bandwidth, peak = 2 * 2 ^ 22 / machine.copy.us / 1e3, machine.peak or 0 -- GB/s read and written, GFLOP/s
  for k, column in ipairs(columns) do names[k] = ('%s %s'):format(markers[k] or '.', column.name) end
  for _, r in ipairs(run.rows) do
    local flops = (r.bytes or 0) > 0 and flops_of(r)
    if flops and r.results[columns[1].name] then
      rows = rows + 1
      for k, column in ipairs(columns) do
        local result = r.results[column.name]
        series[#series + 1] = result and {kind = 'scatter', x = {flops / r.bytes}, y = {flops / result.us / 1e3},
          style = markers[k] or '.', color = rows, label = k == 1 and r.name or nil}
      end
      peak = math.max(peak, flops / r.results[columns[1].name].us / 1e3)
    end
  end
  if rows == 0 then return 'no row has known numbers of operations and bytes, which the roofline needs' end
  table.insert(series, 1, {x = {0.03, peak / bandwidth, 630}, y = {0.03 * bandwidth, peak, peak}, color = 'black',
    style = '-', label = ('%.1f GB/s, %.0f GFLOP/s'):format(bandwidth, peak)})
  mt.plot.line(util.merged(series, {logx = true, logy = true, legend = 'right', width = 900, height = 500, path = path,
    title = titled('Roofline: ' .. table.concat(names, ', '), run), xlabel = 'operations / byte', ylabel = 'GFLOP/s'}))
end

return graphs
