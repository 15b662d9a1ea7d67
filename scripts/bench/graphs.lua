-- graphs.lua -- the graphs of bench.lua as SVG: bars of ratios, time over size, a roofline
local report = require 'bench.report'
local util = require 'mtorch.core.util'

local graphs = {}

local colours = {mtorch = '#d1361b', torch = '#2a66b8', torch_compile = '#6fa8dc', jax = '#3a8f3a', numpy = '#8a6fb3',
  numba = '#c98a1b', tinygrad = '#1b9a9a', cpp = '#7a5a3a', cblas = '#7a5a3a', copy = '#888888', no_onednn = '#e58f7d',
  avx2 = '#b0509a', two_threads = '#5a1a0a', python = '#8a6fb3', luajit = '#c98a1b'}
local titles = {torch = 'PyTorch', torch_compile = 'torch.compile', jax = 'JAX', numpy = 'NumPy', numba = 'Numba',
  cpp = 'C++ loops, -O3', cblas = 'OpenBLAS', copy = 'memory copy', no_onednn = 'mtorch without oneDNN',
  avx2 = 'mtorch, AVX2', two_threads = 'mtorch, two threads'}
local function colour_of(name) return colours[name] or '#444444' end

-- ---- SVG ----

local Svg = {}
Svg.__index = Svg

local function svg(width, height, title)
  local page = setmetatable({width = width, height = height, parts = {}}, Svg)
  page:text(10, 20, title, 'font-size="15"')
  return page
end
function Svg:add(text, ...) self.parts[#self.parts + 1] = text:format(...) end
function Svg:line(x1, y1, x2, y2, style)
  self:add('<path d="M%.1f %.1fL%.1f %.1f" %s/>', x1, y1, x2, y2, style)
end
function Svg:text(x, y, text, style)
  self:add('<text x="%.1f" y="%.1f" %s>%s</text>', x, y, style or '', (text:gsub('[&<]', {['&'] = '&amp;',
    ['<'] = '&lt;'})))
end
--- Writes the page, with a line about the machine of the run.
function Svg:save(path, run)
  local m = run.machine or {}
  self:text(self.width - 10, self.height - 6, ('%s, %s, %s thread%s, %s'):format(m.processor or '?', m.isa or '?',
    m.threads or '?', m.threads == 1 and '' or 's', m.date or '?'), 'text-anchor="end" fill="#777" font-size="9"')
  local head = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" ' ..
    'font-family="sans-serif" font-size="11" fill="#222">\n<rect width="100%%" height="100%%" fill="#fff"/>\n'):format(
    self.width, self.height, self.width, self.height)
  util.write_file('bench.lua', path, head .. table.concat(self.parts, '\n') .. '\n</svg>\n')
end

local grid, axis = 'stroke="#ddd" fill="none"', 'stroke="#444" fill="none"'

--- Draws a legend: the columns' names with their colours in a line from x, y.
local function legend(page, x, y, columns)
  for _, column in ipairs(columns) do
    local title = titles[column.name] or column.name
    page:add('<rect x="%.1f" y="%.1f" width="12" height="4" fill="%s"/>', x, y - 6, colour_of(column.name))
    page:text(x + 16, y, title)
    x = x + 30 + 6.2 * #title
  end
end

local function log10(x) return math.log(x) / math.log(10) end

-- ---- bars of ratios ----

--- Draws for each row a bar per peer: its time / mtorch's, logarithmic; to the right of 1 mtorch is faster.
function graphs.ratios(path, run, columns)
  local ours, peers, shown = columns[1].name, {unpack(columns, 2)}, {}
  local lo, hi = 0, 0
  for _, r in ipairs(run.rows) do
    local bars = {}
    for _, peer in ipairs(peers) do
      local a, b = r.results[ours], r.results[peer.name]
      if a and b then
        local times = b.us / a.us
        bars[#bars + 1] = {name = peer.name, times = times}
        lo, hi = math.min(lo, log10(times)), math.max(hi, log10(times))
      end
    end
    if #bars > 0 then shown[#shown + 1] = {name = r.name, bars = bars} end
  end
  lo, hi = math.floor(2 * lo) / 2, math.ceil(2 * hi + 0.01) / 2
  local left, width, top, thick, count = 190, 760, 58, 10, 0
  for _, r in ipairs(shown) do count = count + #r.bars end
  local page = svg(width, top + thick * count + 8 * #shown + 34,
    ('Time of the peer / time of %s (above 1: %s is faster)'):format(ours, ours))
  local bottom, wide = page.height - 30, width - left - 60
  local function x_of(value) return left + (value - lo) / (hi - lo) * wide end
  legend(page, 10, 40, peers)
  for tick = math.floor(lo), hi do
    for _, times in ipairs(hi - lo < 2.6 and {1, 2, 5} or {1}) do
      local value = log10(times * 10 ^ tick)
      if value >= lo - 1e-9 and value <= hi then
        page:line(x_of(value), top - 6, x_of(value), bottom, grid)
        page:text(x_of(value), bottom + 14, ('%g'):format(times * 10 ^ tick), 'text-anchor="middle"')
      end
    end
  end
  local y = top
  for _, r in ipairs(shown) do
    page:text(left - 8, y + thick * #r.bars / 2 + 4, r.name, 'text-anchor="end"')
    for _, bar in ipairs(r.bars) do
      local from, to = math.min(x_of(0), x_of(log10(bar.times))), math.max(x_of(0), x_of(log10(bar.times)))
      page:add('<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>', from, y, to - from, thick - 1,
        colour_of(bar.name))
      local digits = bar.times < 9.995 and 2 or bar.times < 99.95 and 1 or 0
      page:text(to + 4, y + 8, ('%.' .. digits .. 'fx'):format(bar.times), 'font-size="9"')
      y = y + thick
    end
    y = y + 8
  end
  page:line(x_of(0), top - 6, x_of(0), bottom, axis)
  page:save(path, run)
end

-- ---- panels with logarithmic axes ----

local function axes(page, panel, labels)
  local p = panel
  function p.x_of(v) return p.left + (log10(v) - p.x_lo) / (p.x_hi - p.x_lo) * p.wide end
  function p.y_of(v) return p.top + p.high - (log10(v) - p.y_lo) / (p.y_hi - p.y_lo) * p.high end
  for tick = math.ceil(p.y_lo), math.floor(p.y_hi) do
    page:line(p.left, p.y_of(10 ^ tick), p.left + p.wide, p.y_of(10 ^ tick), grid)
    page:text(p.left - 5, p.y_of(10 ^ tick) + 4, labels.y(10 ^ tick), 'text-anchor="end" font-size="10"')
  end
  for _, tick in ipairs(labels.ticks) do
    page:line(p.x_of(tick[1]), p.top, p.x_of(tick[1]), p.top + p.high, grid)
    page:text(p.x_of(tick[1]), p.top + p.high + 14, tick[2], 'text-anchor="middle" font-size="10"')
  end
  page:add('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>', p.left, p.top, p.wide, p.high, axis)
  page:text(p.left + 4, p.top - 6, p.title, 'font-size="12" font-weight="bold"')
end

--- Groups the rows by operation: {{name=, series = {contender = {{n, us}, ..}}}, ..}.
local function by_operation(run, columns)
  local list, found = {}, {}
  for _, r in ipairs(run.rows) do
    local name, label = r.name:match('^([%w_]+)/(%d+%a*)$')
    local n = name and report.count_of(label)
    if n then
      if not found[name] then
        found[name] = {name = name, series = {}, sizes = {}}
        list[#list + 1] = found[name]
      end
      table.insert(found[name].sizes, {n, label})
      for _, c in ipairs(columns) do
        local result = r.results[c.name]
        if result then
          found[name].series[c.name] = found[name].series[c.name] or {}
          table.insert(found[name].series[c.name], {n, result.us})
        end
      end
    end
  end
  local several = {}
  local function by_size(a, b) return a[1] < b[1] end
  for _, op in ipairs(list) do
    table.sort(op.sizes, by_size)
    for _, line in pairs(op.series) do table.sort(line, by_size) end
    several[#several + 1] = #op.sizes > 2 and op or nil
  end
  return several
end

--- Draws time over size, with a log-log panel for each operation; the memory copy is dashed.
function graphs.sizes(path, run, columns)
  local operations, across = by_operation(run, columns), 3
  local wide, high = 250, 190
  local down = math.ceil(#operations / across)
  local page = svg(20 + math.min(#operations, across) * wide, 56 + down * high + 14,
    'Time of a call over the number of elements')
  legend(page, 10, 40, columns)
  for i, op in ipairs(operations) do
    local panel = {title = op.name, left = 56 + (i - 1) % across * wide, wide = wide - 56, high = high - 52,
      top = 68 + math.floor((i - 1) / across) * high, y_lo = 99, y_hi = -99, x_lo = 99, x_hi = -99}
    for name, line in pairs(op.series) do
      for _, point in ipairs(line) do
        panel.x_lo, panel.x_hi = math.min(panel.x_lo, log10(point[1])), math.max(panel.x_hi, log10(point[1]))
        if name ~= 'copy' then -- copies of few bytes take almost no time
          panel.y_lo, panel.y_hi = math.min(panel.y_lo, log10(point[2])), math.max(panel.y_hi, log10(point[2]))
        end
      end
    end
    panel.y_lo, panel.y_hi = math.floor(panel.y_lo), math.ceil(panel.y_hi + 0.1)
    local ticks = {}
    for k, tick in ipairs(op.sizes) do
      if #op.sizes < 5 or k % 2 == 1 then ticks[#ticks + 1] = tick end
    end
    axes(page, panel, {y = report.tick_text, ticks = ticks})
    for k = #columns, 1, -1 do
      local name, points = columns[k].name, {}
      for _, point in ipairs(op.series[name] or {}) do
        if log10(point[2]) >= panel.y_lo then
          points[#points + 1] = ('%.1f %.1f'):format(panel.x_of(point[1]), panel.y_of(point[2]))
        end
      end
      if #points > 0 then
        page:add('<path d="M%s" stroke="%s" fill="none" stroke-width="%.1f"%s/>', table.concat(points, 'L'),
          colour_of(name), name == 'mtorch' and 2.2 or 1.4, name == 'copy' and ' stroke-dasharray="4 3"' or '')
      end
    end
  end
  page:save(path, run)
end

-- ---- roofline ----

-- Operations per element of the first input, for rows without `flops`.
local per_element = {add = 1, mul = 1, sum = 1, own_triad = 2, own_axb_relu_mul = 4, own_softmax = 5,
  own_layer_norm = 7}

local function points_of(run, name)
  local list = {}
  for _, r in ipairs(run.rows) do
    local result, flops = r.results[name], r.flops
    local op, label = r.name:match('^([%w_]+)/(%d+%a*)$')
    if not flops and per_element[op] then flops = per_element[op] * report.count_of(label) end
    if result and flops and r.bytes and r.bytes > 0 then
      list[#list + 1] = {name = r.name:gsub('^own_', ''):gsub('^matmul/', ''), x = flops / r.bytes,
        y = flops / result.us / 1e3}
    end
  end
  return list
end

--- Returns a free position for the label of a point: {x, y, anchor}.
local function place(taken, x, y, text, right)
  local wide = 6 * #text
  for _, try in ipairs {{7, 4}, {-wide / 2, 17}, {-wide / 2, -9}, {-7 - wide, 4}, {7, 17}, {7, -9}, {-7 - wide, -9},
    {-7 - wide, 17}, {-wide / 2, 28}, {-wide / 2, -20}, {7, 28}, {7, -20}, {-wide / 2, 40}, {-wide / 2, -32}} do
    local x1, y1, free = x + try[1], y + try[2], true
    for _, t in ipairs(taken) do
      if x1 < t[1] + t[3] and t[1] < x1 + wide and math.abs(y1 - t[2]) < 11 then free = false end
    end
    if free and x1 + wide < right then
      taken[#taken + 1] = {x1, y1, wide}
      return x1, y1
    end
  end
end

--- Draws GFLOP/s over arithmetic intensity (operations per byte of inputs and results) under the machine's limits.
--- Returns why it cannot, as the others never do.
function graphs.roofline(path, run, columns)
  local machine = run.machine or {}
  local bandwidth = 2 * 2 ^ 22 / machine.copy.us / 1e3 -- GB/s, read and written
  local peak, points = machine.peak, points_of(run, columns[1].name)
  if #points == 0 then return 'no row has known numbers of operations and bytes, which the roofline needs' end
  for _, p in ipairs(points) do peak = math.max(peak or 0, p.y) end
  local page = svg(760, 470, 'Roofline: operations in a second over operations for each byte of inputs and results')
  local panel = {title = '', left = 62, top = 60, wide = 670, high = 340, x_lo = -1.5, x_hi = 2.8, y_lo = -0.5,
    y_hi = math.ceil(log10(peak) * 2 + 0.3) / 2}
  page:text(10, 38, ('GFLOP/s; limits measured: %.1f GB/s (memory copy, read and written), %.0f GFLOP/s (%s)'):format(
    bandwidth, peak, machine.peak and 'multiply-add in registers' or 'the fastest row'), 'fill="#555"')
  local ticks = {}
  for _, x in ipairs {0.1, 1, 10, 100} do ticks[#ticks + 1] = {x, ('%g'):format(x)} end
  axes(page, panel, {y = function(v) return ('%g'):format(v) end, ticks = ticks})
  local knee = peak / bandwidth
  local left, right = 10 ^ panel.x_lo, 10 ^ panel.x_hi
  page:add('<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1f" stroke="#222" fill="none" stroke-width="1.6"/>', panel.x_of(left),
    panel.y_of(left * bandwidth), panel.x_of(knee), panel.y_of(peak), panel.x_of(right), panel.y_of(peak))
  local taken = {} -- {left, base line, width} of labels and of our points
  for _, p in ipairs(points) do taken[#taken + 1] = {panel.x_of(p.x) - 5, panel.y_of(p.y) + 4, 10} end
  for k = #columns, 1, -1 do
    for _, p in ipairs(points_of(run, columns[k].name)) do
      local x, y = panel.x_of(p.x), panel.y_of(p.y)
      page:add('<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>', x, y, k == 1 and 4 or 2.6,
        colour_of(columns[k].name))
      if k == 1 then
        local tx, ty = place(taken, x, y, p.name, panel.left + panel.wide)
        if tx then page:text(tx, ty, p.name, 'font-size="10"') end
      end
    end
  end
  legend(page, panel.left, 54, columns)
  page:text(panel.left + panel.wide / 2, panel.top + panel.high + 32, 'operations / byte', 'text-anchor="middle"')
  page:save(path, run)
end

return graphs
