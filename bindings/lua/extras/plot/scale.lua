-- scale.lua -- ranges, 1-2-5 ticks, value-to-position maps, thinning and colours of the plots
local mt = require 'mtorch'
local util = mt.extend.util

local scale = {}

local floor, ceil, abs, log10 = math.floor, math.ceil, math.abs, math.log10
local min, max = math.min, math.max

--- Whether a value can be drawn: not NaN and not beyond 1e300 (spans must not overflow).
function scale.finite(v) return v == v and abs(v) <= 1e300 end

--- Returns lo, hi of the drawable values (positive ones with `log`) of several lists, or nil if there are none.
function scale.extent(lists, log)
  local lo, hi
  for _, list in ipairs(lists) do
    for i = 1, #list do
      local v = list[i]
      if v == v and abs(v) <= 1e300 and (not log or v >= 1e-300) then
        if not lo then lo, hi = v, v elseif v < lo then lo = v elseif v > hi then hi = v end
      end
    end
  end
  return lo, hi
end

--- Whether every drawable value of the lists is an integer.
function scale.whole(lists)
  for _, list in ipairs(lists) do
    for i = 1, #list do
      if list[i] ~= floor(list[i]) and scale.finite(list[i]) then return false end
    end
  end
  return true
end

--- Widens a range by the fraction `pad` on both sides; a single value gets a range around it.
function scale.widen(lo, hi, pad, log)
  if not lo then return log and 0.1 or 0, 1 end
  if log then
    local a, b = log10(lo), log10(hi)
    local room = b - a < 1e-9 and 0.5 or (b - a) * pad
    return 10 ^ max(a - room, -305), 10 ^ min(b + room, 305)
  end
  if hi - lo <= 1e-9 * max(abs(lo), abs(hi)) or hi - lo < 1e-290 then
    local room = max(abs(lo), abs(hi)) * 0.1
    if room < 1e-290 then room = 1 end
    return lo - room, hi + room
  end
  return lo - (hi - lo) * pad, hi + (hi - lo) * pad
end

--- Returns a function from values to positions, lo..hi to p0..p1. It returns nil for NaN, inf, values <= 0 with `log`,
--- and values that are farther outside of lo..hi than its width; with `limited`, limits that the user chose, these are
--- 1000 widths away, so that lines to them keep their direction.
function scale.map(lo, hi, p0, p1, log, limited)
  local a, b = log and log10(lo) or lo, log and log10(hi) or hi
  local factor, span = (p1 - p0) / (b - a), abs(b - a)
  local reach = limited and 1000 * span or log and log10(2) or span
  local least, most = min(a, b) - reach, max(a, b) + reach
  return function(v)
    if log then v = v > 0 and log10(v) or 0 / 0 end
    if limited and abs(v) <= 1e300 then v = min(max(v, least), most) end
    if v >= least and v <= most then return p0 + (v - a) * factor end
  end
end

--- Returns the smallest step of 1, 2 or 5 times a power of ten that divides `span` into at most n parts.
function scale.step(span, n)
  local raw = span / max(n, 1)
  local power = 10 ^ floor(log10(raw))
  for _, factor in ipairs{1, 2, 5} do
    if factor * power >= raw * (1 - 1e-9) then return factor * power end
  end
  return 10 * power
end

--- Formats a tick: with the decimals of the step, or an exponent for very large or small numbers of few digits.
function scale.tick_text(v, step, largest)
  if abs(v) < step * 1e-6 then return '0' end
  local digit = floor(log10(step) + 1e-9)
  local many = largest >= 1e6 and largest < 1e15 and floor(log10(largest)) - digit > 4
  if (largest >= 1e6 or largest < 1e-3) and not many then
    local text = ('%%.%de'):format(max(0, floor(log10(abs(v)) + 1e-9) - digit)):format(v)
    text = text:gsub('(%.%d-)0+e', '%1e'):gsub('%.e', 'e')
    return (text:gsub('e([+-])0*(%d)', function(s, d) return (s == '-' and 'e-' or 'e') .. d end))
  end
  return ('%%.%df'):format(max(0, -digit)):format(v)
end

local function linear_ticks(lo, hi, n, whole)
  local step, values, texts = scale.step(hi - lo, n), {}, {}
  if whole then step = max(step, 1) end
  local largest = max(abs(lo), abs(hi))
  local first, last = ceil(lo / step - 1e-6), floor(hi / step + 1e-6)
  for i = 0, min(last - first, 200) do -- a loop from first to last would not end beyond 2^53
    values[i + 1] = (first + i) * step
    texts[i + 1] = scale.tick_text(values[i + 1], step, largest)
  end
  return values, texts
end

local function log_text(factor, k)
  if k >= -3 and k <= 5 then return ('%%.%df'):format(max(0, -k)):format(factor * 10 ^ k) end
  return factor .. 'e' .. k
end

local function log_ticks(lo, hi, n)
  local a, b = log10(lo), log10(hi)
  if b - a < 0.7 then return linear_ticks(lo, hi, n) end
  local factors = b - a <= n / 3 and {1, 2, 5} or {1}
  local stride = max(1, ceil((b - a) / max(n, 1)))
  local values, texts = {}, {}
  for k = floor(a), ceil(b) do
    for _, factor in ipairs(factors) do
      local at = k + log10(factor)
      if k % stride == 0 and at >= a - 1e-6 and at <= b + 1e-6 then -- 0.001 as float32 is slightly larger
        values[#values + 1] = factor * 10 ^ k
        texts[#texts + 1] = log_text(factor, k)
      end
    end
  end
  return values, texts
end

--- Returns about n tick values inside lo..hi and their texts; with `whole` only integers.
function scale.ticks(lo, hi, n, log, whole)
  if log then return log_ticks(lo, hi, n) end
  return linear_ticks(lo, hi, n, whole)
end

--- Returns the ticks at 1..count of rows, columns or bars: every stride-th name, or round numbers without names.
function scale.category_ticks(names, count, stride)
  if not names and stride > 1 then return scale.ticks(1, count, count / stride, false, true) end
  local values = {}
  for i = 1, count, stride do values[#values + 1] = i end
  return values, util.map(values, function(i) return names and names[i] or tostring(i) end)
end

--- Returns the ticks of a figure's x axis, at most about n, as many as fit: fits(texts) tells whether they do.
function scale.fitting_ticks(fig, n, fits)
  local values, texts
  repeat
    values, texts = scale.ticks(fig.x_lo, fig.x_hi, n, fig.logx, fig.whole)
    n = n - 1
  until n < 1 or fits(texts)
  return values, texts
end

--- Returns the decimals for numbers with `digits` digits of the largest one, fewer if the others would be 0; nil if an
--- exponent is needed.
local function decimals_of(rows, digits)
  local lo, hi = scale.extent(rows)
  local largest = lo and max(abs(lo), abs(hi)) or 0
  if largest >= 1e6 or largest < 1e-3 and largest > 0 then return nil end
  local decimals, most = 0, largest > 0 and digits - 1 - floor(log10(largest)) or 0
  for _, row in ipairs(rows) do
    for _, v in ipairs(row) do
      while decimals < most and scale.finite(v) and abs((v * 10 ^ decimals + 0.5) % 1 - 0.5) > 1e-3 do
        decimals = decimals + 1
      end
    end
  end
  return decimals
end

--- Returns the texts of a matrix's numbers, with equal decimals and three or two digits, so that none is wider than
--- `room`, and the largest width; nothing if that is impossible. length(text) is a width.
function scale.cell_texts(z, room, length)
  for digits = 3, 2, -1 do
    local decimals, texts, widest = decimals_of(z, digits), {}, 0
    for i, row in ipairs(z) do
      texts[i] = {}
      for j, v in ipairs(row) do
        local fixed = decimals and scale.finite(v) and ('%.' .. decimals .. 'f'):format(v):gsub('^%-([0.]+)$', '%1')
        texts[i][j] = fixed or util.number_text(v, digits)
        widest = max(widest, length(texts[i][j]))
      end
    end
    if widest <= room then return texts, widest end
  end
end

-- Series to polylines -----------------------------------------------------------------------------

local function ascending(xs)
  for i = 2, #xs do
    local is_ascending = xs[i] >= xs[i - 1]
    if not is_ascending then return false end -- also if one is NaN
  end
  return true
end

--- Keeps the lowest and highest point of every column of width `cell`; a column without points is a gap.
local function thin_columns(xs, ys, sx, sy, cell, push)
  local column, low, high, low_at, high_at
  local function flush()
    if not column then return end
    if not low then return push(nil) end
    local first, second = min(low_at, high_at), max(low_at, high_at)
    push(sx(xs[first]), sy(ys[first]))
    if second ~= first then push(sx(xs[second]), sy(ys[second])) end
  end
  for i = 1, #xs do
    local x, y = sx(xs[i]), sy(ys[i])
    local new_column = x and floor(x / cell) or column
    if new_column ~= column then
      flush()
      column, low, high = new_column, nil, nil
    end
    if x and y then
      if not low or y < low then low, low_at = y, i end
      if not high or y > high then high, high_at = y, i end
    end
  end
  flush()
end

--- For unsorted x: drops points within `cell` of the last kept one, then keeps every k-th for the limit.
local function thin_path(xs, ys, sx, sy, cell, limit, push)
  local kept, last_x, last_y = {}, nil, nil
  for i = 1, #xs do
    local x, y = sx(xs[i]), sy(ys[i])
    if not (x and y) then
      if last_x then kept[#kept + 1] = i end
      last_x = nil
    elseif not last_x or abs(x - last_x) + abs(y - last_y) >= cell then
      kept[#kept + 1], last_x, last_y = i, x, y
    end
  end
  for k = 1, #kept, max(1, ceil(#kept / limit)) do push(sx(xs[kept[k]]), sy(ys[kept[k]])) end
end

--- Returns the polyline of a series as lists px, py of at most about `limit` positions; false is a gap.
function scale.polyline(xs, ys, sx, sy, cell, limit)
  local px, py = {}, {}
  local function push(x, y)
    local n, whole = #px, x and y
    if whole or px[n] then px[n + 1], py[n + 1] = whole and x or false, whole and y or false end
  end
  if #xs <= limit and #xs <= 400 then
    for i = 1, #xs do push(sx(xs[i]), sy(ys[i])) end
  elseif ascending(xs) then
    thin_columns(xs, ys, sx, sy, cell, push)
  else
    thin_path(xs, ys, sx, sy, cell, limit, push)
  end
  return px, py
end

--- Reduces a grid to at most `side` rows and columns, the means of the drawable values of blocks.
function scale.shrink(z, side)
  if #z <= side and #z[1] <= side then return z end
  local x = mt.tensor(z, {dtype = 'float64', device = 'cpu'})
  local drawable = x:abs():le(1e300)
  local function sums_of_blocks(t)
    for dim, size in ipairs(t.shape) do
      local n = min(size, side)
      local block = (mt.range(1, size, {dtype = 'float64', device = 'cpu'}) * n / size):ceil():long()
      t = t:new_zeros(dim == 1 and {n, t:size(2)} or {t:size(1), n}):index_add(dim, block, t)
    end
    return t
  end
  return (sums_of_blocks(x:where(drawable, 0)) / sums_of_blocks(drawable:double())):tolist()
end

-- Colours -----------------------------------------------------------------------------------------

local function anchors(text)
  local list = {}
  for r, g, b in text:gmatch('#(%x%x)(%x%x)(%x%x)') do
    list[#list + 1] = {tonumber(r, 16), tonumber(g, 16), tonumber(b, 16)}
  end
  return list
end

-- The values of `cmap`: viridis, magma, gray (matplotlib's), and a diverging map, blue-white-orange.
scale.maps = {
  viridis = anchors('#440154 #482878 #3e4989 #31688e #26828e ' ..
                    '#1f9e89 #35b779 #6ece58 #b5de2b #fde725'),
  magma = anchors('#000004 #180f3d #440f76 #721f81 #9e2f7f ' ..
                  '#cd4071 #f1605d #fd9668 #feca8d #fcfdbf'),
  gray = anchors '#000000 #ffffff',
  diverging = anchors '#2f83bd #78b4da #bfdcee #f7f5f2 #fad7b8 #f2a866 #dd7526',
}

--- Returns red, green, blue (0..255) of the colour map at t in 0..1, and t, its brightness.
function scale.colour(map, t)
  local n = #map - 1
  local at = min(max(t, 0), 1) * n
  local k = min(floor(at), n - 1)
  local a, b, f = map[k + 1], map[k + 2], at - k
  local function mix(c) return floor(a[c] + (b[c] - a[c]) * f + 0.5) end
  return mix(1), mix(2), mix(3), t
end

--- Whether black text is more readable than white on the colour map at t.
function scale.bright(map, t)
  local r, g, b = scale.colour(map, t)
  return 0.3 * r + 0.59 * g + 0.11 * b > 140
end

--- Maps a value of a matrix to t in 0..1; nothing if it is not finite.
function scale.level(fig, v) return scale.finite(v) and scale.shade(v, fig.z_lo, fig.z_hi) or nil end

-- Letters that take two columns: Chinese, Japanese, Korean, full-width forms, emoji.
local wide_letters = {'[\227-\233\235\236]', '\226[\186-\191]', '\234[\128-\147\176-\191]', '\237[\128-\158]',
                      '\239[\164-\171\188]', '\240[\159-\175]'}

--- Returns the number of columns of a text in a terminal.
function scale.columns(text)
  local n = util.length(text)
  if not text:find('[\226-\240]') then return n end
  for _, pattern in ipairs(wide_letters) do n = n + select(2, text:gsub(pattern .. '[\128-\191]', '')) end
  return n
end

--- Returns the text cut to `limit` columns, the last of which is then `mark`.
function scale.cut(text, limit, mark)
  local n = min(util.length(text), max(limit, 1))
  while n > 1 and scale.columns(util.truncate(text, n, mark)) > limit do n = n - 1 end
  return util.truncate(text, n, mark)
end

function scale.widest(texts, width_of)
  local width = 0
  for _, text in ipairs(texts) do width = max(width, width_of(text)) end
  return width
end

--- Returns the position 0..1 of v in lo..hi on a colour map; `middle`, if given, is at 0.5.
function scale.shade(v, lo, hi, middle)
  if middle then
    local reach = max(hi - middle, middle - lo)
    return reach > 0 and 0.5 + (v - middle) / (2 * reach) or 0.5
  end
  return hi > lo and (v - lo) / (hi - lo) or 0.5
end

--- Returns red, green, blue (0..255) and brightness (0..1) of a pixel of an image, by the colour map if it has one
--- channel; nothing if it is not finite.
function scale.pixel(fig, tile, i, j)
  local level = {}
  for k, channel in ipairs(tile) do
    local v = channel[i][j]
    if not scale.finite(v) then return nil end
    level[k] = min(max(scale.shade(v, fig.z_lo, fig.z_hi), 0), 1)
  end
  local r, g, b = unpack(level)
  if not g then return scale.colour(fig.map, r) end
  return floor(255 * r + 0.5), floor(255 * g + 0.5), floor(255 * b + 0.5), 0.3 * r + 0.59 * g + 0.11 * b
end

return scale
