-- marks.lua -- draws series as SVG: lines, bands, markers, error bars, bars, and their keys in the legend
local canvas = require 'mtorch.extras.plot.canvas'
local scale = require 'mtorch.extras.plot.scale'
local style = require 'mtorch.extras.plot.style'
local util = require('mtorch').extend.util

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local concat = table.concat
local add, ink, label, px = canvas.add, canvas.ink, canvas.label, canvas.px

local marks = {}

-- Lines and bands -----------------------------------------------------------------------------------

--- Returns the segments of a polyline between its gaps, each as a list of texts "x y".
local function segments_of(xs, ys)
  local out, open = {}, nil
  for i = 1, #xs do
    if not xs[i] then open = nil else
      if not open then
        open = {}
        out[#out + 1] = open
      end
      open[#open + 1] = px(xs[i]) .. ' ' .. px(ys[i])
    end
  end
  return out
end

--- Returns the path "M..L.." of a polyline; single points between gaps become dots (round caps draw h0).
local function path_of(xs, ys)
  local out, dots = {}, {}
  for _, points in ipairs(segments_of(xs, ys)) do
    if points[2] then out[#out + 1] = 'M' .. concat(points, 'L') else dots[#dots + 1] = 'M' .. points[1] .. 'h0' end
  end
  return concat(out), concat(dots)
end

--- Returns the attributes of a stroke; dashes are multiples of its width, or of `unit`.
local function stroke(width, dash, unit)
  local lengths = util.map(style.dashes[dash or '-'], function(length) return px(length * (unit or width)) end)
  return ('fill="none" stroke="currentColor" stroke-width="%s" stroke-linejoin="round" stroke-linecap="%s"'):format(
    px(width), lengths[1] and 'butt' or 'round') ..
    (lengths[1] and (' stroke-dasharray="%s"'):format(concat(lengths, ' ')) or '')
end

local function draw_line(c, s, ys, cell, limit, pale)
  local line, dots = path_of(scale.polyline(s.x, ys, c.sx, c.sy, cell, limit))
  local width = s.width or #s.x > 2000 and 1.2 or 2
  local function draw(d, attributes)
    if d ~= '' then
      add(c, '<path %s d="%s" %s%s/>\n', ink(c, s), d, attributes, pale and ' stroke-opacity=".3"' or '')
    end
  end
  draw(line, stroke(width, not pale and s.dash or nil))
  draw(dots, stroke(max(#s.x == 1 and 7 or 5, width)))
end

--- Draws a band: along its high end and back along its low end, for each segment.
local function draw_band(c, s, cell, limit)
  local low, high = {}, {} -- a gap in one end is a gap of both
  for i = 1, #s.x do
    local whole = c.sy(s.low[i]) and c.sy(s.high[i])
    low[i], high[i] = whole and s.low[i] or 0 / 0, whole and s.high[i] or 0 / 0
  end
  local below = segments_of(scale.polyline(s.x, low, c.sx, c.sy, cell, limit))
  local out = {}
  for k, above in ipairs(segments_of(scale.polyline(s.x, high, c.sx, c.sy, cell, limit))) do
    out[#out + 1] = 'M' .. concat(above, 'L')
    for i = #(below[k] or {}), 1, -1 do out[#out + 1] = 'L' .. below[k][i] end
    out[#out + 1] = 'z'
  end
  add(c, '<path %s d="%s" fill="currentColor" fill-opacity=".2"/>\n', ink(c, s), concat(out))
  if s.kind == 'fill_between' and (s.dash or s.width) then -- its ends
    draw_line(c, s, low, cell, limit)
    draw_line(c, s, high, cell, limit)
  end
end

-- Markers -------------------------------------------------------------------------------------------

-- Paths from the centre, in tenths of the radius; those that end in z are filled. Other markers are strokes of no
-- length, whose caps are discs or squares.
local shapes = {
  x = 'm-9-9l18 18m0-18l-18 18', ['+'] = 'm-11 0h22m-11-11v22', ['*'] = 'm-11 0h22m-11-11v22m8-19l-16 16m0-16l16 16',
  ['^'] = 'm0-12l11 20h-22z', v = 'm0 12l11-20h-22z', d = 'm0-13l11 13l-11 13l-11-13z',
}

--- Returns the path of a marker and its attributes; `edge` makes it larger, in the page's colour.
local function marker_of(marker, size, edge)
  local shape, colour = shapes[marker], edge and '#fff' or 'currentColor'
  if not shape then
    return 'h0', ('stroke="%s" stroke-width="%s" stroke-linecap="%s"'):format(colour,
      px(size * (marker == '.' and 0.5 or marker == 's' and 0.85 or 1) + (edge or 0)),
      marker == 's' and 'square' or 'round')
  end
  local filled = shape:sub(-1) == 'z'
  shape = shape:gsub('%-?%d+', function(n) return (n:find '-' and '' or ' ') .. px(n * size / 20) end)
  return shape, ('fill="%s" stroke="%s" stroke-width="%s"'):format(filled and colour or 'none',
    (edge or not filled) and colour or 'none', px((filled and 0 or max(size / 4, 1)) + (edge or 0)))
end

--- Returns the distinct markers of a series on a raster of `cell` pixels, or nil if they are more than `limit`.
local function points_of(c, s, cell, limit, shape)
  local out, seen = {}, {}
  for i = 1, #s.x do
    local x, y = c.sx(s.x[i]), c.sy(s.y[i])
    local inside = x and y and x >= c.left - 1 and x <= c.right + 1 and
                   y >= c.top - 1 and y <= c.bottom + 1
    if inside then
      x, y = floor(x / cell + 0.5) * cell, floor(y / cell + 0.5) * cell
      local key = x * 65536 + y
      if not seen[key] then
        seen[key] = true
        out[#out + 1] = ('M%s %s%s'):format(px(x), px(y), shape)
        if #out > limit then return nil end
      end
    end
  end
  return concat(out)
end

--- Draws the series one after the other, with a thin edge in the page's colour if `edge`.
function marks.points(c, series, edge)
  local count = 0
  for _, s in ipairs(series) do count = count + #s.x end
  for _, s in ipairs(series) do
    local size = count > 3000 and 3 or count > 400 and 5 or 7.5
    local shape, attributes = marker_of(s.marker, size)
    local share = max(24, floor(c.budget / ((11 + #shape) * (edge and 2 or 1)) * #s.x / count))
    local cell, d = 0.2, points_of(c, s, 0.2, share, shape)
    while not d do
      cell = cell * 2
      d = points_of(c, s, cell, share, shape)
    end
    if edge then add(c, '<path d="%s" %s/>\n', d, (select(2, marker_of(s.marker, size, 2.6)))) end
    add(c, '<path %s d="%s" %s%s/>\n', ink(c, s), d, attributes, count > 400 and not edge and ' opacity=".75"' or '')
  end
end

--- Draws error bars, of at most about 300 points; the middle of bar i is at x_of(i).
local function draw_errors(c, s, x_of, paint)
  local out = {}
  for i = 1, #s.y, ceil(#s.y / 300) do
    local x, low, high = x_of(i), c.sy(s.error_low[i]), c.sy(s.error_high[i])
    if not low and c.fig.logy and scale.finite(s.error_low[i]) then low = c.bottom end
    if x and low and high then
      out[#out + 1] = ('M%s %sh6m-3 0V%sm-3 0h6'):format(px(x - 3), px(low), px(high))
    end
  end
  add(c, '<path %s d="%s" fill="none" stroke-width="1.5"/>\n', paint, concat(out))
end

--- Draws bands, then lines with their error bars, then markers.
function marks.line(c, fig)
  local limit = max(24, floor(c.budget / 12 / #fig.series))
  local cell = max(1, 2 * (c.right - c.left) / limit)
  local dotted = {}
  for _, s in ipairs(fig.series) do
    if s.low then draw_band(c, s, cell, limit) end
  end
  for _, s in ipairs(fig.series) do
    if s.raw and s.dash then draw_line(c, s, s.raw, cell, limit, true) end
  end
  for _, s in ipairs(fig.series) do
    if s.y and s.dash then draw_line(c, s, s.y, cell, limit) end
    if s.y and s.marker then dotted[#dotted + 1] = s end
    if s.error_low then
      draw_errors(c, s, function(i) return c.sx(s.x[i]) end, ink(c, s) .. ' stroke="currentColor"')
    end
  end
  marks.points(c, dotted)
end

marks.scatter = marks.line

-- Bars ----------------------------------------------------------------------------------------------

local function y_inside(c, v) return min(max(c.sy(v), c.top), c.bottom) end

--- Returns the width of the place of a bar, of a bar, and a function from k and i to the left end of bar i of series k.
local function bar_places(c, fig)
  local slot = (c.right - c.left) / #fig.values
  local gap = fig.kind == 'hist' and (slot > 4 and 1 or 0) or slot > 3 and slot * 0.24 or 0
  local side = fig.kind == 'hist' and 1 or #fig.series -- histograms lie over each other
  local width = (slot - gap) / side
  return slot, width, function(k, i)
    return c.left + (i - 1) * slot + gap / 2 + (side > 1 and (k - 1) * width or 0)
  end
end

--- Draws bars; those narrower than a pixel are combined into one with the largest value.
function marks.bar(c, fig)
  local slot, width, left_of = bar_places(c, fig)
  local count, group = #fig.values, max(1, ceil(#fig.values / (c.right - c.left)))
  local base = y_inside(c, 0)
  for k, s in ipairs(fig.series) do
    local out, steps = {}, fig.kind == 'hist' and s.dash -- the outline of a histogram is one line
    for i = 1, count, group do
      local tallest
      for j = i, min(i + group - 1, count) do
        local v = scale.finite(s.y[j]) and s.y[j]
        if v and (not tallest or math.abs(v) > math.abs(tallest)) then tallest = v end
      end
      if steps then out[#out + 1] = ('V%sH%s'):format(px(y_inside(c, tallest)), px(c.left + (i - 1 + group) * slot))
      elseif tallest and tallest ~= 0 then
        out[#out + 1] = ('M%s %sV%sh%sV%sz'):format(px(left_of(k, i)), px(base), px(y_inside(c, tallest)),
                                                    px(width + (group - 1) * slot), px(base))
      end
    end
    local d = steps and ('M%s %s%sV%s'):format(px(c.left), px(base), concat(out), px(base)) or concat(out)
    add(c, '<path %s d="%s" %s/>\n', ink(c, s), d, marks.fill(fig, s))
    if s.error_low then
      draw_errors(c, s, function(i) return left_of(k, i) + width / 2 end, 'class="er"')
    end
  end
end

marks.hist = marks.bar

--- Returns the attributes of bars: filled, transparent where histograms lie over each other, or outlines.
function marks.fill(fig, s)
  if s.dash then return stroke(s.width or 2, s.dash) end
  return 'fill="currentColor"' .. (fig.kind == 'hist' and #fig.series > 1 and ' fill-opacity=".5"' or '')
end

--- Writes the values of bars at their ends, if there is room.
function marks.values(c, fig)
  local _, width, left_of = bar_places(c, fig)
  for k, s in ipairs(width >= 25.8 and fig.series or {}) do
    for i, v in ipairs(s.y) do
      local inside = scale.finite(v) and v >= fig.y_lo and v <= fig.y_hi
      local ends = s.error_low and (v < 0 and s.error_low[i] or s.error_high[i]) or v
      if inside and scale.finite(ends) then
        label(c, left_of(k, i) + width / 2, y_inside(c, ends) + (v < 0 and 15 or -6), 'middle', util.number_text(v, 4))
      end
    end
  end
end

-- The legend ------------------------------------------------------------------------------------------

--- Draws the key of a series in the legend, 18 wide, with the base line of its text at y.
function marks.key(c, x, y, s)
  local start = ('<path %s d="M%s %s'):format(ink(c, s), px(x), '%s')
  if s.kind == 'bar' or s.kind == 'hist' then
    add(c, start .. 'h18v9h-18z" %s/>\n', px(y - 9), marks.fill(c.fig, s))
  elseif s.kind == 'fill_between' then
    add(c, start .. 'h18v9h-18z" fill="currentColor" fill-opacity=".25"/>\n', px(y - 9))
  elseif s.dash then
    add(c, start .. 'h18" %s/>\n', px(y - 4), stroke(min(s.width or 2.5, 9), s.dash, 2))
  end
  if s.marker == 'o' then
    add(c, '<circle %s cx="%s" cy="%s" r="4.5" fill="currentColor"/>\n', ink(c, s), px(x + 9), px(y - 4))
  elseif s.marker then
    local shape, attributes = marker_of(s.marker, 9)
    add(c, '<path %s d="M%s %s%s" %s/>\n', ink(c, s), px(x + 9), px(y - 4), shape, attributes)
  end
end

return marks
