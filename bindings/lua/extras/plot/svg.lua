-- svg.lua -- draws a figure as SVG: the axes, the legend, surfaces, images, and panels of several figures
local extend = require('mtorch').extend
local util = extend.util
local canvas = require 'mtorch.extras.plot.canvas'
local contour = require 'mtorch.extras.plot.contour'
local marks = require 'mtorch.extras.plot.marks'
local png = require 'mtorch.extras.plot.png'
local scale = require 'mtorch.extras.plot.scale'

local svg = {css = canvas.css, escape = canvas.escape}

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local concat = table.concat
local least_width = 160 -- of a figure
local add, fit, label, px, text_width = canvas.add, canvas.fit, canvas.label, canvas.px, canvas.text_width

-- The legend ----------------------------------------------------------------------------------------

local function legend_entries(fig)
  local entries, series = {}, fig.series or fig.points or {}
  for _, s in ipairs(fig.legend and series or {}) do
    if s.label then
      if #entries == 24 then
        entries[25] = {text = ('and %d more'):format(#series - 24)}
        break
      end
      entries[#entries + 1] = {text = util.truncate(s.label, 40), s = s}
    end
  end
  return entries
end

--- Arranges the entries in rows; returns the number of rows.
local function legend_rows(entries, room)
  local row, x = 0, math.huge
  for _, entry in ipairs(entries) do
    local width = 40 + text_width(entry.text, 12)
    if x > 0 and x + width - 16 > room then row, x = row + 1, 0 end
    entry.row, entry.x, entry.room = row, x, room - 24
    x = x + width
  end
  return row
end

--- Draws the legend: rows above the axes, or a column beside them or in one of their corners.
local function draw_legend(c, fig)
  local entries, left, y = c.entries, c.left, c.legend_y
  if #entries == 0 then return end
  if fig.legend ~= 'top' then
    local high = 20 * #entries
    left, y = fig.z and fig.width - c.legend_width or c.right + 14, c.top + 10 -- z has a colour bar between
    local down, across = fig.legend:match 'inside (%a+) (%a+)'
    if down then
      left = across == 'left' and c.left + 10 or c.right - c.legend_width - 2
      y = down == 'top' and c.top + 22 or c.bottom - high + 4
      add(c, '<rect class="bg" x="%s" y="%s" width="%s" height="%s" rx="3" opacity=".85"/>\n', px(left - 6), px(y - 17),
          px(c.legend_width + 4), px(high + 6))
    end
    for i, entry in ipairs(entries) do entry.x, entry.row, entry.room = 0, i, c.legend_width - 30 end
  end
  for _, entry in ipairs(entries) do
    local x, at = left + entry.x, y + (entry.row - 1) * 20
    if entry.s then marks.key(c, x, at, entry.s) end
    label(c, x + 24, at, 'start', fit(entry.text, 12, entry.room))
  end
end

-- Axes --------------------------------------------------------------------------------------------

--- Returns the names (or numbers) at 1..count of a category axis that are at least `size` pixels apart.
local function names_of(list, count, slot, size)
  local names = list and util.map(list, function(name) return util.truncate(name, 22) end)
  return scale.category_ticks(names, count, max(1, ceil(size / slot)))
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
  return scale.fitting_ticks(fig, max(2, floor(room / 60)),
    function(texts) return widest(texts) + 14 <= room / max(1, #texts - 1) end)
end

--- Computes the rectangle of the data below a legend of so many rows, and the texts of x.
local function lay_out_rectangle(c, fig, rows, right, width, height)
  local grid = fig.kind == 'heatmap' and fig.z
  c.top = 16 + (fig.title and 26 or 0) + rows * 20
  c.legend_y = c.top - rows * 20 + 8
  if rows > 0 then c.top = c.top + 4 end
  c.right, c.lean = right, false
  local names, count = fig.labels, fig.kind == 'bar' and #fig.values
  if grid then names, count = fig.cols, #grid[1] end
  c.x_values, c.x_texts = x_ticks(c, fig, names, count)
  if not count and fig.legend ~= 'right' then -- the last text may be at the end
    c.right = min(c.right, width - widest(c.x_texts) * 0.6 - 4)
  end
  if c.lean then
    c.left = max(c.left, min(widest(c.x_texts) * 0.77 - (c.right - c.left) / count / 2, c.right / 3))
  end
  local foot = c.lean and min(widest(c.x_texts) * 0.64 + 22, height * 0.4) or 24
  c.bottom = max(height - foot - 6 - (fig.xlabel and 20 or 0), c.top + 20)
  fig.width, fig.height = width, height
  if fig.aspect == 'equal' then -- a unit has equally many pixels on both axes
    local span_x, span_y = fig.x_hi - fig.x_lo, fig.y_hi - fig.y_lo
    local unit = min((c.right - c.left) / span_x, (c.bottom - c.top) / span_y)
    local spare_x, spare_y = c.right - c.left - unit * span_x, c.bottom - c.top - unit * span_y
    c.right, c.bottom = c.right - spare_x, c.bottom - spare_y
    fig.width, fig.height = fig.in_cell and width or max(width - spare_x, least_width), height - spare_y
  end
end

--- Computes the rectangle of the data (left, right, top, bottom) and the scales sx, sy.
local function lay_out(c, fig)
  c.entries = legend_entries(fig)
  local grid, width, height = fig.kind == 'heatmap' and fig.z, fig.width, fig.height
  local right = width - (fig.z and 76 or 22)
  c.left = 16 + (fig.ylabel and 20 or 0)
  if grid then
    c.y_values, c.y_texts = names_of(fig.rows, #grid, (height - 100) / #grid, fig.rows and 15 or 28)
  else
    c.y_values, c.y_texts = scale.ticks(fig.y_lo, fig.y_hi, max(2, floor(height / 50)), fig.logy)
  end
  c.left = min(c.left + widest(c.y_texts) + 8, width * 0.45)
  local texts = util.map(c.entries, function(entry) return entry.text end)
  c.legend_width = min(widest(texts) + 34, width * 0.4)
  if fig.legend == 'right' and #texts > 0 then right = right - c.legend_width end
  local rows = fig.legend == 'top' and legend_rows(c.entries, width - c.left - 16) or 0
  lay_out_rectangle(c, fig, rows, right, width, height)
  if rows > 0 then -- aspect='equal' makes the picture narrower, and then the legend has more rows
    local more = 20 * (legend_rows(c.entries, fig.width - c.left - 16) - rows)
    c.top, c.bottom, fig.height = c.top + more, c.bottom + more, fig.height + more
  end
  c.sx = scale.map(fig.x_lo, fig.x_hi, c.left, c.right, fig.logx, fig.xlim)
  c.sy = scale.map(fig.y_lo, fig.y_hi, c.bottom, c.top, fig.logy, fig.ylim)
end

local function draw_grid(c, fig)
  local lines = {}
  if not fig.z then
    for _, v in ipairs(c.y_values) do
      lines[#lines + 1] = ('M%s %sH%s'):format(px(c.left), px(c.sy(v)), px(c.right))
    end
    for _, v in ipairs(fig.series and not fig.values and c.x_values or {}) do
      lines[#lines + 1] = ('M%s %sV%s'):format(px(c.sx(v)), px(c.top), px(c.bottom))
    end
  end
  add(c, '<path class="gr" d="%s"/>\n', concat(lines))
end

local function draw_axes(c, fig)
  local base = c.sy(fig.values and min(max(0, fig.y_lo), fig.y_hi) or fig.y_lo)
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
  canvas.title(c, fig.title, fig.width - c.left - 12)
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

-- Surfaces ----------------------------------------------------------------------------------------

local paint = setmetatable({}, {__index = marks})

local function rgb(map, t) return ('#%02x%02x%02x'):format(scale.colour(map, t)) end

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
  local bands = util.tabulate(40, function(k)
    return {lo = fig.z_lo + (fig.z_hi - fig.z_lo) * ((k - 1) / 40), colour = rgb(fig.map, (k - 0.5) / 40)}
  end)
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
  local side, bands = 100, util.map(fig.bands, function(b) return {lo = b.lo, colour = rgb(fig.map, b.shade)} end)
  local surface = surface_text(c, fig, bands, side)
  while #surface > c.budget * 0.8 and side > 12 do -- noise has long outlines, so fewer cells are used
    side = floor(side * 0.75)
    surface = surface_text(c, fig, bands, side)
  end
  add(c, surface)
  draw_colour_bar(c, fig, bands)
  if fig.points then marks.points(c, fig.points, true) end
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
  fig.width = fig.width or max(2 * c.left + fig.cols * c.step_x - gap, least_width)
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
  canvas.title(c, fig.title, fig.width - 2 * c.left)
end

-- The document ------------------------------------------------------------------------------------

local default_size = setmetatable({contour = {560, 480}, heatmap = {560, 480}, tiles = {480, 480}}, -- tiles in panels
  {__index = function() return {640, 400} end})

--- Draws the marks of a figure, clipped where the user set limits.
local function draw_marks(c, fig)
  if not fig.xlim and not fig.ylim then return paint[fig.kind](c, fig) end
  local x, y = fig.xlim and c.left or 0, fig.ylim and c.top or 0
  local wide, high = fig.xlim and c.right - x or fig.width, fig.ylim and c.bottom - y or fig.height
  local id = ('clip-%s-%s-%s-%s'):format(px(x), px(y), px(wide), px(high)) -- equal names on a page are equal rectangles
  add(c, '<clipPath id="%s"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath>\n<g clip-path="url(#%s)">\n', id,
      px(x), px(y), px(wide), px(high), id)
  paint[fig.kind](c, fig)
  add(c, '</g>\n')
end

local draw

--- Draws figures in rows and columns of one width, below a common title.
local function draw_panels(fig, how)
  local n = #fig.panels
  local width = fig.width or min(fig.cols == 1 and 640 or 460 * fig.cols, 1400)
  local top, cell = fig.title and 36 or 0, max(width / fig.cols, least_width)
  local out = {fig = fig, left = 12}
  canvas.title(out, fig.title, cell * fig.cols - 24)
  local high = fig.height and (fig.height - top) / fig.rows
  for first = 1, n, fig.cols do
    local last, common, most = min(first + fig.cols - 1, n), 220, 0
    for k = first, last do
      local panel = fig.panels[k]
      local size = default_size[panel.aspect == 'equal' and 'contour' or panel.tiles and 'tiles' or panel.kind]
      common = max(common, min(size[2], cell * size[2] / size[1]))
    end
    for k = first, last do
      local panel = fig.panels[k]
      panel.in_cell, panel.width, panel.height = true, cell, panel.height or high or common
      add(out, '<g transform="translate(%s %s)">\n%s</g>\n', px((k - first) * cell), px(top),
          concat(draw(panel, {budget = how.budget / n, zoom = how.zoom})))
      most = max(most, panel.height)
    end
    top = top + max(most, high or 0)
  end
  fig.width, fig.height = cell * fig.cols, top
  return out
end

--- Returns the pieces of a figure, whose width and height are set.
function draw(fig, how)
  if fig.panels then return draw_panels(fig, how) end
  local c = {fig = fig, budget = how.budget, zoom = how.zoom}
  if fig.tiles then
    lay_out_tiles(c, fig)
    paint.images(c, fig)
    return c
  end
  local size = default_size[fig.kind]
  fig.width, fig.height = max(fig.width or size[1], least_width), max(fig.height or size[2], 120)
  lay_out(c, fig)
  draw_grid(c, fig)
  draw_marks(c, fig)
  draw_axes(c, fig)
  if fig.kind == 'bar' then marks.values(c, fig) end
  draw_legend(c, fig)
  return c
end

--- Returns a figure as SVG text. `how`: inline=true omits style and background, for pages with svg.css,
--- budget= is the target size in bytes (default 150000), zoom= is the enlargement by librsvg.
function svg.draw(fig, how)
  how = how or {}
  local pieces = draw(fig, {budget = how.budget or 150000, zoom = how.zoom})
  return canvas.document(pieces, fig.width, fig.height, fig.title or fig.kind .. ' plot', how.inline)
end

--- Returns the bytes of a file for a figure or SVG text: SVG, or PNG at twice the resolution, by the path's ending.
function svg.file(op, path, of)
  local zoom = path:lower():find('%.png$') and 2
  local text = type(of) == 'string' and of or svg.draw(of, {zoom = zoom})
  return zoom and extend.svg_to_png(op, text, zoom) or text
end

return svg
