-- svg.lua -- draws a figure as SVG: the axes, and a function for each kind of figure
local extend = require('mtorch').extend
local util = extend.util
local scale = require 'mtorch.extras.plot.scale'
local contour = require 'mtorch.extras.plot.contour'
local png = require 'mtorch.extras.plot.png'

local svg = {}

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local concat = table.concat

-- Text and numbers --------------------------------------------------------------------------------

local entities = {['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;',
                  ["'"] = '&#39;'}

--- Escapes text for XML; characters that XML does not allow become spaces.
function svg.escape(text)
  return (tostring(text):gsub('[&<>"\']', entities):gsub('[%z\1-\8\11\12\14-\31]', ' '))
end

--- Formats a pixel coordinate with at most one decimal.
local function px(v)
  v = floor(v * 10 + 0.5) / 10
  return v == floor(v) and ('%d'):format(v) or ('%.1f'):format(v)
end

--- Estimates the width of a text in pixels; code points from U+1100 on are wide.
local function text_width(text, size)
  local wide = select(2, text:gsub('[\225-\239][\128-\191][\128-\191]', ''))
  return (util.length(text) * 0.56 + wide * 0.44) * size
end

local function fit(text, size, room)
  local width = text_width(text, size)
  if width <= room then return text end
  return util.truncate(text, max(1, floor(util.length(text) * room / width)))
end

local function rgb(map, t) return ('#%02x%02x%02x'):format(scale.colour(map, t)) end

-- The style: class mtp; colours c1..c8 of marks on the page, p1..p8 of marks on a surface ---------

local function colour_rules(prefix, palette)
  local rules = {}
  for i, colour in ipairs(palette) do
    rules[i] = ('.mtp .%s%d{color:%s}'):format(prefix, i, colour)
  end
  return concat(rules)
end

--- The rules that every figure needs, for light pages and, by prefers-color-scheme, dark ones.
svg.css = [[
.mtp{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
.mtp text{fill:#4b5563}.mtp .ti{fill:#111827;font-size:15px;font-weight:600}.mtp .la{font-size:13px}
.mtp .bg{fill:#fff}.mtp .gr{stroke:#e5e7eb}.mtp .ax{stroke:#9ca3af}
.mtp .on{fill:#111}.mtp .off{fill:#fff}
]] .. colour_rules('c', scale.palette) .. '\n' .. colour_rules('p', scale.palette) .. [[

@media(prefers-color-scheme:dark){
.mtp text{fill:#9ca3af}.mtp .ti{fill:#f3f4f6}
.mtp .bg{fill:#111827}.mtp .gr{stroke:#2a3340}.mtp .ax{stroke:#6b7280}
.mtp .on{fill:#111}.mtp .off{fill:#fff}
]] .. colour_rules('c', scale.dark_palette) .. '}\n'

-- The canvas: a list of pieces with the figure's geometry -----------------------------------------

local function add(c, format, ...)
  c[#c + 1] = select('#', ...) > 0 and format:format(...) or format
end

--- Adds a text; `extra` has attributes.
local function label(c, x, y, anchor, text, extra)
  add(c, '<text x="%s" y="%s" text-anchor="%s"%s>%s</text>\n', px(x), px(y), anchor, extra or '',
      svg.escape(text))
end

local function draw_title(c, title, room)
  if title then label(c, c.left, 28, 'start', fit(tostring(title), 17, room), ' class="ti"') end -- bold
end

--- Returns the SVG document of a drawing's pieces; inline=true omits style and background, for pages with svg.css.
local function document(pieces, width, height, title, inline)
  local page = inline and '' or
    '<style>' .. svg.css .. '</style>\n<rect class="bg" width="100%" height="100%"/>\n'
  local size = (inline and 'style="max-width:%spx"' or 'width="%s" height="%s"'):format(px(width), px(height))
  return ('<svg xmlns="http://www.w3.org/2000/svg" class="mtp" viewBox="0 0 %s %s" %s role="img">\n'):format(
    px(width), px(height), size) .. '<title>' .. svg.escape(title) .. '</title>\n' .. page .. concat(pieces) ..
    '</svg>\n'
end

local function legend_entries(fig)
  local entries = {}
  for _, s in ipairs(fig.series or fig.points or {}) do
    if s.label then
      if #entries == 24 then
        entries[25] = {text = ('and %d more'):format(#(fig.series or fig.points) - 24)}
        break
      end
      entries[#entries + 1] = {text = util.truncate(s.label, 40), colour = s.colour, kind = s.kind}
    end
  end
  return entries
end

--- Arranges the entries in rows; returns the number of rows.
local function legend_rows(entries, room)
  local row, x = 0, math.huge
  for _, entry in ipairs(entries) do
    local width = 40 + text_width(entry.text, 12)
    if x > 0 and x + width > room then row, x = row + 1, 0 end
    entry.row, entry.x = row, x
    x = x + width
  end
  return row
end

local function dash(colour)
  local round = floor((colour - 1) / 8)
  return round > 0 and (' stroke-dasharray="%d 4"'):format(2 + 4 * round) or ''
end

local function class(fig, colour)
  return (fig.kind == 'contour' and 'p' or 'c') .. (colour - 1) % 8 + 1
end

local function draw_legend(c, entries)
  for _, entry in ipairs(entries) do
    local x, y = c.left + entry.x, c.legend_y + (entry.row - 1) * 20
    if entry.colour then
      if entry.kind == 'line' then
        add(c, '<path class="%s" d="M%s %sh18" stroke="currentColor" stroke-width="2.5"%s/>\n',
            class(c.fig, entry.colour), px(x), px(y - 4), dash(entry.colour))
      elseif entry.kind == 'fill_between' then
        add(c, '<path class="%s" d="M%s %sh18v9h-18z" fill="currentColor" fill-opacity=".25"/>\n',
            class(c.fig, entry.colour), px(x), px(y - 9))
      else
        add(c, '<circle class="%s" cx="%s" cy="%s" r="4.5" fill="currentColor"/>\n',
            class(c.fig, entry.colour), px(x + 9), px(y - 4))
      end
    end
    label(c, x + 24, y, 'start', entry.text)
  end
end

-- Axes --------------------------------------------------------------------------------------------

--- Returns the names (or numbers) at 1..count of a category axis that are at least `size` pixels apart.
local function names_of(list, count, slot, size)
  local stride = max(1, ceil(size / slot))
  if not list and stride > 1 then return scale.ticks(1, count, count / stride, false, true) end
  local values, texts = {}, {}
  for i = 1, count, stride do
    values[#values + 1] = i
    texts[#texts + 1] = list and util.truncate(list[i], 22) or tostring(i)
  end
  return values, texts
end

local function widest(texts)
  return scale.widest(texts, function(text) return text_width(text, 12) end)
end

--- Returns the ticks of x that fit: numbers, or names, which are rotated if they are too long.
local function x_ticks(c, fig, names, count)
  local room = c.right - c.left
  if count then
    local _, texts = names_of(names, count, room / count, 1)
    local width = widest(texts)
    if not names or width + 8 <= room / count then
      return names_of(names, count, room / count, names and 1 or width + 14)
    end
    c.lean = true
    return names_of(names, count, room / count, 17)
  end
  local n = max(2, floor(room / 60))
  local values, texts
  repeat -- until the texts do not overlap
    values, texts = scale.ticks(fig.x_lo, fig.x_hi, n, fig.logx, fig.whole)
    n = n - 1
  until n < 1 or widest(texts) + 14 <= room / max(1, #texts - 1)
  return values, texts
end

--- Computes the rectangle of the data (left, right, top, bottom) and the scales sx, sy.
local function lay_out(c, fig)
  local entries = legend_entries(fig)
  c.entries = entries
  local grid = fig.kind == 'heatmap' and fig.z
  local bars = fig.kind == 'bar' and fig.values
  c.left, c.right = 16 + (fig.ylabel and 20 or 0), fig.width - (fig.z and 76 or 22)
  local y_values, y_texts
  if grid then
    y_values, y_texts = names_of(fig.rows, #grid, (fig.height - 100) / #grid, fig.rows and 15 or 28)
  else
    y_values, y_texts = scale.ticks(fig.y_lo, fig.y_hi, max(2, floor(fig.height / 50)), fig.logy)
  end
  c.left = min(c.left + widest(y_texts) + 8, fig.width * 0.45)
  local rows = legend_rows(entries, c.right - c.left)
  c.top = 16 + (fig.title and 26 or 0) + rows * 20
  c.legend_y = c.top - rows * 20 + 8
  if rows > 0 then c.top = c.top + 4 end
  local names, count = fig.labels, bars and #bars
  if grid then names, count = fig.cols, #grid[1] end
  local x_values, x_texts = x_ticks(c, fig, names, count)
  if not count then c.right = min(c.right, fig.width - widest(x_texts) * 0.6 - 4) end -- the last text may be at the end
  if c.lean then
    c.left = max(c.left, min(widest(x_texts) * 0.77 - (c.right - c.left) / count / 2, c.right / 3))
  end
  local foot = c.lean and min(widest(x_texts) * 0.64 + 22, fig.height * 0.4) or 24
  c.bottom = max(fig.height - foot - 6 - (fig.xlabel and 20 or 0), c.top + 20)
  if fig.aspect == 'equal' then -- a unit has equally many pixels on both axes
    local span_x, span_y = fig.x_hi - fig.x_lo, fig.y_hi - fig.y_lo
    local unit = min((c.right - c.left) / span_x, (c.bottom - c.top) / span_y)
    local spare_x, spare_y = c.right - c.left - unit * span_x, c.bottom - c.top - unit * span_y
    c.right, c.bottom = c.right - spare_x, c.bottom - spare_y
    fig.width, fig.height = max(fig.width - spare_x, 160), fig.height - spare_y
  end
  c.sx = scale.map(fig.x_lo, fig.x_hi, c.left, c.right, fig.logx)
  c.sy = scale.map(fig.y_lo, fig.y_hi, c.bottom, c.top, fig.logy)
  c.x_values, c.x_texts, c.y_values, c.y_texts = x_values, x_texts, y_values, y_texts
end

local function draw_grid(c, fig)
  local lines = {}
  if not fig.z then
    for _, v in ipairs(c.y_values) do
      lines[#lines + 1] = ('M%s %sH%s'):format(px(c.left), px(c.sy(v)), px(c.right))
    end
    for _, v in ipairs(fig.series and c.x_values or {}) do
      lines[#lines + 1] = ('M%s %sV%s'):format(px(c.sx(v)), px(c.top), px(c.bottom))
    end
  end
  add(c, '<path class="gr" d="%s"/>\n', concat(lines))
end

local function draw_axes(c, fig)
  local base = c.sy(fig.values and 0 or fig.y_lo)
  add(c, '<path class="ax" d="M%s %sH%s" fill="none"/>\n', px(c.left), px(base), px(c.right))
  for i, v in ipairs(c.y_values) do
    label(c, c.left - 8, c.sy(v) + 4, 'end', fit(c.y_texts[i], 12, c.left - 12))
  end
  for i, v in ipairs(c.x_values) do
    local x, y = c.sx(v), c.bottom + 18
    if c.lean then
      label(c, x + 4, y - 3, 'end', c.x_texts[i],
            (' transform="rotate(-40 %s %s)"'):format(px(x + 4), px(y - 3)))
    else
      label(c, x, y, 'middle', c.x_texts[i])
    end
  end
  local x, y = (c.left + c.right) / 2, (c.top + c.bottom) / 2
  draw_title(c, fig.title, fig.width - c.left - 12)
  if fig.xlabel then
    label(c, x, fig.height - 10, 'middle', fit(tostring(fig.xlabel), 13, c.right - c.left),
          ' class="la"')
  end
  if fig.ylabel then
    label(c, 18, y, 'middle', fit(tostring(fig.ylabel), 13, c.bottom - c.top),
          (' class="la" transform="rotate(-90 18 %s)"'):format(px(y)))
  end
  if fig.note then label(c, x, y, 'middle', fig.note, ' class="la"') end
end

-- Series ------------------------------------------------------------------------------------------

local paint = {}

--- Returns the path "M..L.." of a polyline; single points between gaps become dots (round caps draw h0).
local function path_of(xs, ys)
  local out, dots, open = {}, {}, false
  for i = 1, #xs do
    local x = xs[i]
    if x and not open and not xs[i + 1] then dots[#dots + 1] = ('M%s %sh0'):format(px(x), px(ys[i]))
    elseif x then out[#out + 1] = (open and 'L' or 'M') .. px(x) .. ' ' .. px(ys[i]) end
    open = x and true
  end
  return concat(out), concat(dots)
end

local function draw_line(c, s, cell, limit)
  local line, dots = path_of(scale.polyline(s.x, s.y, c.sx, c.sy, cell, limit))
  local function draw(d, width)
    if d == '' then return end
    add(c, '<path class="%s" d="%s" fill="none" stroke="currentColor" stroke-width="%s" ' ..
        'stroke-linejoin="round" stroke-linecap="round"%s/>\n', class(c.fig, s.colour), d, width, dash(s.colour))
  end
  draw(line, #s.x > 2000 and '1.2' or '2')
  draw(dots, #s.x == 1 and '7' or '5')
end

--- Returns the segments of a polyline between its gaps, each as a list of {x, y}.
local function stretches(xs, ys)
  local out, open = {}, nil
  for i = 1, #xs do
    if not xs[i] then open = nil else
      if not open then
        open = {}
        out[#out + 1] = open
      end
      open[#open + 1] = {xs[i], ys[i]}
    end
  end
  return out
end

--- Draws a band: along its high end and back along its low end, for each segment.
local function draw_band(c, s, cell, limit)
  local low, high = {}, {} -- a gap in one end is a gap of both
  for i = 1, #s.x do
    local whole = c.sy(s.low[i]) and c.sy(s.high[i])
    low[i], high[i] = whole and s.low[i] or 0 / 0, whole and s.high[i] or 0 / 0
  end
  local below = stretches(scale.polyline(s.x, low, c.sx, c.sy, cell, limit))
  local out = {}
  for k, above in ipairs(stretches(scale.polyline(s.x, high, c.sx, c.sy, cell, limit))) do
    for i, point in ipairs(above) do out[#out + 1] = (i == 1 and 'M' or 'L') .. px(point[1]) .. ' ' .. px(point[2]) end
    local back = below[k] or {}
    for i = #back, 1, -1 do out[#out + 1] = 'L' .. px(back[i][1]) .. ' ' .. px(back[i][2]) end
    out[#out + 1] = 'z'
  end
  add(c, '<path class="%s" d="%s" fill="currentColor" fill-opacity=".2"/>\n', class(c.fig, s.colour), concat(out))
end

--- Returns the distinct dots of a series on a raster of `cell` pixels, or nil if they are more than `limit`.
local function dots(c, s, cell, limit)
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
        out[#out + 1] = ('M%s %sh0'):format(px(x), px(y))
        if #out > limit then return nil end
      end
    end
  end
  return concat(out)
end

-- Classes are drawn one after the other, with a thin edge in the page's colour.
local function draw_points(c, series, edge)
  local count = 0
  for _, s in ipairs(series) do count = count + #s.x end
  for _, s in ipairs(series) do
    local share = max(24, floor(c.budget / (edge and 24 or 13) * #s.x / count))
    local cell, d = 0.2, dots(c, s, 0.2, share)
    while not d do
      cell = cell * 2
      d = dots(c, s, cell, share)
    end
    local size = count > 3000 and 3 or count > 400 and 5 or 7.5
    if edge then
      add(c, '<path d="%s" stroke="#fff" stroke-width="%s" stroke-linecap="round"/>\n', d,
          px(size + 2.6))
    end
    add(c, '<path class="%s" d="%s" stroke="currentColor" stroke-width="%s" ' ..
        'stroke-linecap="round"%s/>\n', class(c.fig, s.colour), d, px(size),
        count > 400 and not edge and ' stroke-opacity=".75"' or '')
  end
end

-- The order is bands, lines, dots.
function paint.line(c, fig)
  local limit = max(24, floor(c.budget / 12 / #fig.series))
  local cell = max(1, 2 * (c.right - c.left) / limit)
  local dotted = {}
  for _, s in ipairs(fig.series) do
    if s.low then draw_band(c, s, cell, limit) end
  end
  for _, s in ipairs(fig.series) do
    if s.y and s.kind == 'scatter' then dotted[#dotted + 1] = s
    elseif s.y then draw_line(c, s, cell, limit) end
  end
  draw_points(c, dotted)
end

paint.scatter = paint.line

--- Draws bars; those narrower than a pixel are combined into one with the largest value.
function paint.bar(c, fig)
  local values, out = fig.values, {}
  local count = #values
  local group = max(1, ceil(count / (c.right - c.left)))
  local slot = (c.right - c.left) / count
  local gap = fig.kind == 'hist' and (slot > 4 and 1 or 0) or slot > 3 and slot * 0.24 or 0
  local base = c.sy(0)
  for i = 1, count, group do
    local tallest
    for k = i, min(i + group - 1, count) do
      local v = scale.finite(values[k]) and values[k]
      if v and (not tallest or math.abs(v) > math.abs(tallest)) then tallest = v end
    end
    if tallest and tallest ~= 0 then
      local x = c.left + (i - 1) * slot + gap / 2
      out[#out + 1] = ('M%s %sV%sh%sV%sz'):format(px(x), px(base), px(c.sy(tallest)),
                                                  px(slot * group - gap), px(base))
    end
  end
  add(c, '<path class="c1" d="%s" fill="currentColor"/>\n', concat(out))
  if fig.kind == 'hist' or slot < 34 then return end
  for i = 1, count do
    local v = values[i]
    if scale.finite(v) then
      label(c, c.sx(i), c.sy(v) + (v < 0 and 15 or -6), 'middle', util.number_text(v, 4))
    end
  end
end

paint.hist = paint.bar

-- Surfaces ----------------------------------------------------------------------------------------

local function draw_colour_bar(c, fig, bands)
  local x, height = c.right + 14, c.bottom - c.top
  local sz = scale.map(fig.z_lo, fig.z_hi, c.bottom, c.top)
  for _, band in ipairs(bands) do
    local y = sz(min(max(band.lo, fig.z_lo), fig.z_hi)) -- up to the top, because the next band covers it
    add(c, '<path d="M%s %sh12V%sh-12z" fill="%s"/>\n', px(x), px(y), px(c.top), band.colour)
  end
  local values, texts = scale.ticks(fig.z_lo, fig.z_hi, max(2, floor(height / 50)))
  for i, v in ipairs(values) do
    label(c, x + 17, sz(v) + 4, 'start', fit(texts[i], 12, fig.width - x - 17))
  end
end

--- Draws an image of high x wide pixels: pixel(i, j) returns red, green, blue, or nothing if it is transparent. librsvg
--- smooths enlarged images, so for it (c.zoom) the image has the final number of pixels.
local function draw_picture(c, x, y, width, height, high, wide, least, pixel)
  local rows = {}
  for i = 1, high do
    local bytes = {}
    for j = 1, wide do
      local r, g, b = pixel(i, j)
      bytes[j] = r and string.char(r, g, b, 255) or '\0\0\0\0'
    end
    rows[i] = concat(bytes)
  end
  if c.zoom then least = max(least, ceil(max(width, height) * c.zoom)) end
  add(c, '<image x="%s" y="%s" width="%s" height="%s" preserveAspectRatio="none" ' ..
      'style="image-rendering:pixelated" href="%s"/>\n', px(x), px(y), px(width), px(height),
      png.uri(rows, wide, least))
end

function paint.heatmap(c, fig)
  local z = scale.shrink(fig.z, floor(math.sqrt(c.budget / 5))) -- noise needs four bytes per pixel
  draw_picture(c, c.left, c.top, c.right - c.left, c.bottom - c.top, #z, #z[1], 300, function(i, j)
    local v = scale.level(fig, z[i][j])
    if v then return scale.colour(fig.map, v) end
  end)
  local bands = {}
  for k = 1, 40 do
    bands[k] = {lo = fig.z_lo + (fig.z_hi - fig.z_lo) * ((k - 1) / 40),
                hi = fig.z_lo + (fig.z_hi - fig.z_lo) * (k / 40),
                colour = rgb(fig.map, (k - 0.5) / 40)}
  end
  draw_colour_bar(c, fig, bands)
  local width, height = (c.right - c.left) / #z[1], (c.bottom - c.top) / #z
  local texts = height >= 16 and scale.cell_texts(z, width - 4, function(text) return text_width(text, 12) end)
  for i, row in ipairs(texts and z or {}) do
    for j, v in ipairs(row) do
      local lit = scale.level(fig, v)
      label(c, c.sx(j), c.sy(i) + 4, 'middle', texts[i][j], lit and
            (scale.bright(fig.map, lit) and ' class="on"' or ' class="off"') or '')
    end
  end
end

--- Returns the path of the contour lines of z at a level, in the rectangle of the data.
local function level_path(c, z, level, closed)
  local rows, cols, out = #z, #z[1], {}
  for _, line in ipairs(contour.lines(z, level, closed)) do
    for k = 1, #line, 2 do
      local x = c.left + (line[k] - 1) / (cols - 1) * (c.right - c.left)
      local y = c.bottom - (line[k + 1] - 1) / (rows - 1) * (c.bottom - c.top)
      out[#out + 1] = (k == 1 and 'M' or 'L') .. px(x) .. ' ' .. px(y)
    end
  end
  return concat(out)
end

--- Draws the surface with contour lines: each band is the region above its low end, covered by the next one.
local function surface_text(c, fig, bands, side)
  local z, out = scale.shrink(fig.z, side), {}
  for k, band in ipairs(bands) do
    out[k] = ('<path d="%s" fill="%s" fill-rule="evenodd"/>\n'):format(
      level_path(c, z, k == 1 and -1e300 or band.lo, true), band.colour)
  end
  if fig.middle then
    out[#out + 1] = ('<path d="%s" fill="none" stroke="#1f2937" stroke-width="1.8" ' ..
                     'stroke-linejoin="round"/>\n'):format(level_path(c, z, fig.level, false))
  end
  return concat(out)
end

function paint.contour(c, fig)
  local bands, side = {}, 100
  for k = 0, #fig.thresholds do
    local lo, hi = fig.thresholds[k] or fig.z_lo, fig.thresholds[k + 1] or fig.z_hi
    local t = scale.shade((lo + hi) / 2, fig.z_lo, fig.z_hi, fig.centre)
    bands[k + 1] = {lo = lo, hi = hi, colour = rgb(fig.map, t)}
  end
  local surface = surface_text(c, fig, bands, side)
  while #surface > c.budget * 0.8 and side > 12 do -- noise has long outlines, so fewer cells are used
    side = floor(side * 0.75)
    surface = surface_text(c, fig, bands, side)
  end
  add(c, surface)
  draw_colour_bar(c, fig, bands)
  if fig.points then draw_points(c, fig.points, true) end
end

-- Images --------------------------------------------------------------------------------------------

local caption, gap = 18, 8

--- Returns the size of a pixel, and of the figure around the tiles.
local function lay_out_tiles(c, fig)
  local tile, n = fig.tiles[1][1], #fig.tiles
  local rows, high, wide = ceil(n / fig.cols), #tile, #tile[1]
  c.step_x, c.step_y = gap, gap + (fig.labels and caption or 0)
  c.left, c.top = 12, 12 + (fig.title and 30 or 0)
  local room_x = (fig.width or 560) - 2 * c.left - (fig.cols - 1) * c.step_x
  local room_y = (fig.height or 520) - c.top - 12 - rows * c.step_y
  c.pixel = max(min(room_x / (fig.cols * wide), room_y / (rows * high)), 0.25)
  if n == 1 and not fig.width and not fig.height then c.pixel = min(c.pixel, 16) end
  c.step_x, c.step_y = c.step_x + wide * c.pixel, c.step_y + high * c.pixel
  fig.width = fig.width or max(2 * c.left + fig.cols * c.step_x - gap, 160)
  fig.height = fig.height or max(c.top + rows * c.step_y + 12 - gap, 60)
end

function paint.images(c, fig)
  local high, wide = #fig.tiles[1][1], #fig.tiles[1][1][1]
  for k, tile in ipairs(fig.tiles) do
    local x = c.left + (k - 1) % fig.cols * c.step_x
    local y = c.top + floor((k - 1) / fig.cols) * c.step_y
    draw_picture(c, x, y, wide * c.pixel, high * c.pixel, high, wide, 1, function(i, j)
      local r, g, b = scale.pixel(fig, tile, i, j)
      if r then return r, g, b end
      return scale.colour(fig.map, 0) -- values that are not finite have the lowest colour
    end)
    if fig.labels then
      label(c, x + wide * c.pixel / 2, y + high * c.pixel + 14, 'middle',
            fit(fig.labels[k], 12, wide * c.pixel + gap))
    end
  end
  draw_title(c, fig.title, fig.width - 2 * c.left)
end

-- The document ------------------------------------------------------------------------------------

local default_size = {contour = {560, 480}, heatmap = {560, 480}}

--- Returns a figure as SVG text. `how`: inline=true omits style and background, for pages with svg.css,
--- budget= is the target size in bytes (default 150000), zoom= is the enlargement by librsvg.
function svg.draw(fig, how)
  local c = {fig = fig, budget = how and how.budget or 150000, zoom = how and how.zoom}
  if fig.tiles then
    lay_out_tiles(c, fig)
    paint.images(c, fig)
  else
    local size = default_size[fig.kind] or {640, 400}
    fig.width, fig.height = max(fig.width or size[1], 160), max(fig.height or size[2], 120)
    lay_out(c, fig)
    draw_grid(c, fig)
    paint[fig.kind](c, fig)
    draw_axes(c, fig)
    draw_legend(c, c.entries)
  end
  return document(c, fig.width, fig.height, fig.title or fig.kind .. ' plot', how and how.inline)
end

--- Returns the bytes of a file for a figure or SVG text: SVG, or PNG at twice the resolution, by the path's ending.
function svg.file(op, path, of)
  local zoom = path:lower():find('%.png$') and 2
  local text = type(of) == 'string' and of or svg.draw(of, {zoom = zoom})
  return zoom and extend.svg_to_png(op, text, zoom) or text
end

return svg
