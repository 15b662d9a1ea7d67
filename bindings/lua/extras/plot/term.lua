-- term.lua -- draws a figure as text for a terminal or a log, with braille or ASCII
local extend = require('mtorch').extend
local util = extend.util
local scale = require 'mtorch.extras.plot.scale'
local style = require 'mtorch.extras.plot.style'

local term = {}

local floor, ceil, min, max, abs = math.floor, math.ceil, math.min, math.max, math.abs
local concat, rep = table.concat, string.rep
local bor = require('bit').bor

-- Colours -----------------------------------------------------------------------------------------

--- Returns the nearest of xterm's 256 colours: a cube with the levels 0 95 135 175 215 255, and grays 8 18 .. 238.
local function nearest_of_256(r, g, b)
  local function level(v) return v < 48 and 0 or v < 115 and 1 or floor((v - 35) / 40) end
  local function distance(x, y, z) return (r - x) ^ 2 + (g - y) ^ 2 + (b - z) ^ 2 end
  local function value(k) return k == 0 and 0 or 55 + 40 * k end
  local i, j, k = level(r), level(g), level(b)
  local gray = max(min(floor(((r + g + b) / 3 - 3) / 10), 23), 0)
  local v = 8 + 10 * gray
  if distance(v, v, v) < distance(value(i), value(j), value(k)) then return 232 + gray end
  return 16 + 36 * i + 6 * j + k
end

--- Returns the escape sequence for a colour of the text (ground 38) or of its background (48).
local function colour_code(t, ground, r, g, b)
  if t.colours > 256 then return ('\27[%d;2;%d;%d;%dm'):format(ground, r, g, b) end
  return ('\27[%d;5;%dm'):format(ground, nearest_of_256(r, g, b))
end

--- Returns a text in the colour of a series; that of a pale one is darker.
local function paint(t, s, text)
  if t.colours == 0 or text == '' then return text end
  local r, g, b = style.rgb(s)
  if s.pale then r, g, b = floor(r * 0.45), floor(g * 0.45), floor(b * 0.45) end
  return colour_code(t, 38, r, g, b) .. text .. '\27[0m'
end

-- Text --------------------------------------------------------------------------------------------

local columns_of = scale.columns

local function pad_left(text, width) return rep(' ', width - columns_of(text)) .. text end

local function pad_right(text, width) return text .. rep(' ', width - columns_of(text)) end

local function cut(t, text, width) return scale.cut(text, width, not t.utf8 and '~' or nil) end

--- Centres a text in `width` columns; a longer text starts at the left.
local function centre(t, text, width)
  text = cut(t, tostring(text), max(width, t.columns - 12, 20))
  return rep(' ', floor((width - columns_of(text)) / 2)) .. text
end

-- The canvas: cells of 2 x 4 braille dots, or of one glyph per series -----------------------------

local glyphs = {'*', '+', 'o', 'x', '#', '@', '%', '&', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'}

local function glyph_of(s) return s.glyph or glyphs[(s.colour - 1) % #glyphs + 1] end

local function braille(bits)
  return string.char(226, 160 + floor(bits / 64), 128 + bits % 64)
end

local dot_bits = {[0] = 1, 2, 4, 64, 8, 16, 32, 128} -- column 0 top to bottom, then column 1

local function new_canvas(t, wide, high, dotted)
  local w, h = dotted and 2 or 1, dotted and 4 or 1
  local canvas = {t = t, wide = wide, high = high, dotted = dotted, w = wide * w, h = high * h,
                  bits = {}, series = {}}
  --- Sets the dot of a series in column x, row y (0-based, row 0 is at the top), in the place of pale dots.
  function canvas.set(x, y, s)
    if x < 0 or y < 0 or x >= canvas.w or y >= canvas.h then return end
    local at = floor(y / h) * wide + floor(x / w)
    local bit_of, there = dotted and dot_bits[x % 2 * 4 + y % 4] or 1, canvas.series[at]
    local bits = there and not (there.pale and not s.pale) and canvas.bits[at] or 0
    canvas.bits[at], canvas.series[at] = bor(bits, bit_of), s
  end
  return canvas
end

local function canvas_row(canvas, row)
  local out = {}
  for col = 0, canvas.wide - 1 do
    local at = row * canvas.wide + col
    local bits, s = canvas.bits[at], canvas.series[at]
    out[#out + 1] = not bits and ' ' or paint(canvas.t, s, canvas.dotted and braille(bits) or glyph_of(s))
  end
  return (concat(out):gsub(' +$', ''))
end

--- Returns the part of the steps 0..n from v0 to v1 that is inside 0..size-1, of those from first to last.
local function part_inside(v0, v1, size, n, first, last)
  if v0 == v1 then return first, (v0 < 0 or v0 >= size) and -1 or last end
  local a, b = -v0 / (v1 - v0) * n, (size - 1 - v0) / (v1 - v0) * n
  return max(first, ceil(min(a, b) - 1)), min(last, floor(max(a, b) + 1))
end

--- Draws a straight line; `done` steps of the whole line are behind it. Returns how many are after it.
local function segment(canvas, x0, y0, x1, y1, s, dashes, done)
  local n = max(abs(x1 - x0), abs(y1 - y0), 1)
  local first, last = part_inside(x0, x1, canvas.w, n, 0, n)
  first, last = part_inside(y0, y1, canvas.h, n, first, last)
  for k = first, last do
    if not dashes or dashes[(done + k) % #dashes + 1] then
      canvas.set(floor(x0 + (x1 - x0) * k / n + 0.5), floor(y0 + (y1 - y0) * k / n + 0.5), s)
    end
  end
  return done + n
end

--- Draws a point of several dots, because a single braille dot is hard to see.
local function point(canvas, x, y, s, small)
  local size = canvas.dotted and not small and 1 or 0
  for dx = 0, size do
    for dy = 0, size do canvas.set(x + dx, y + dy, s) end
  end
end

--- Returns whether each of the steps of a period of dashes is drawn, or nil for a solid line.
local function pattern_of(s)
  local out = {}
  for i, length in ipairs(style.dashes[s.dash or '-']) do
    for _ = 1, floor(length * 1.5 + 0.5) do out[#out + 1] = i % 2 == 1 end
  end
  return out[1] ~= nil and out or nil
end

local function draw_line(canvas, s, values, sx, sy)
  local xs, ys = scale.polyline(s.x, values, sx, sy, 1, 4 * canvas.w)
  local dashes, done = pattern_of(s), 0
  for i = 1, #xs do
    if xs[i] then
      local x, y = floor(xs[i] + 0.5), floor(ys[i] + 0.5)
      if i > 1 and xs[i - 1] then
        done = segment(canvas, floor(xs[i - 1] + 0.5), floor(ys[i - 1] + 0.5), x, y, s, dashes, done)
      else
        point(canvas, x, y, s, xs[i + 1])
      end
    end
  end
end

local function draw_errors(canvas, s, sx, sy)
  for i = 1, #s.x do
    local x, low, high = sx(s.x[i]), sy(s.error_low[i]), sy(s.error_high[i])
    if x and high then
      x = floor(x + 0.5)
      segment(canvas, x, floor((low or canvas.h - 1) + 0.5), x, floor(high + 0.5), s, nil, 0)
    end
  end
end

local function draw_dots(canvas, s, sx, sy)
  for i = 1, #s.x do
    local x, y = sx(s.x[i]), sy(s.y[i])
    if x and y then point(canvas, floor(x + 0.5), floor(y + 0.5), s, #s.x > 400) end
  end
end

-- Frame: rows of text with tick texts to the left and below ---------------------------------------

--- Returns the line of x tick texts, each centred under its column; texts that would touch are omitted.
local function x_labels(columns, texts, left, wide)
  local line, stop = '', -1
  for i, text in ipairs(texts) do
    local start = floor(left + columns[i] - columns_of(text) / 2 + 0.5)
    start = max(min(start, left + wide - columns_of(text) + 1), 0)
    if start > stop then
      line = pad_right(line, start) .. text
      stop = start + columns_of(text)
    end
  end
  return line
end

--- Appends the legend, with as many series per line as fit the terminal; sign_of(s, i) is before the name of a series.
local function add_legend(t, fig, out, sign_of)
  local line, width = nil, 0
  for i, s in ipairs(fig.legend and fig.series or {}) do
    if s.label and i <= 24 then
      local text = cut(t, s.label, 30)
      width = width + columns_of(text) + 5
      if not line or width > t.columns then
        out[#out + 1], width = line, columns_of(text) + 5
        line = ''
      end
      line = line .. (line == '' and '' or '   ') .. paint(t, s, sign_of(s, i)) .. ' ' .. text
    end
  end
  out[#out + 1] = line
end

--- Adds the frame to rows of text; y_at maps a row to its tick text.
local function add_frame(t, fig, wide, high, row_text, y_at, x_columns, x_texts)
  local sign = t.utf8 and {v = '│', tick = '┤', corner = '└', h = '─', mark = '┬'} or
    {v = '|', tick = '+', corner = '+', h = '-', mark = '+'}
  local out, left = {}, 0
  for _, text in pairs(y_at) do left = max(left, columns_of(text)) end
  local indent = rep(' ', left + 2)
  if fig.title then out[1] = indent .. centre(t, fig.title, wide) end
  if fig.ylabel then out[#out + 1] = cut(t, tostring(fig.ylabel), wide) end
  for row = 0, high - 1 do
    local text = y_at[row]
    out[#out + 1] = pad_left(text or '', left) .. ' ' .. (text and sign.tick or sign.v) ..
                    row_text(row)
  end
  local base = util.tabulate(wide, function() return sign.h end)
  for _, col in ipairs(x_columns) do base[col + 1] = sign.mark end
  out[#out + 1] = rep(' ', left + 1) .. sign.corner .. concat(base)
  out[#out + 1] = x_labels(x_columns, x_texts, left + 2, wide)
  if fig.xlabel then out[#out + 1] = indent .. centre(t, fig.xlabel, wide) end
  return out
end

local function widest(texts) return scale.widest(texts, columns_of) end

local function width_of(t, fig, spare) return max(floor(min(fig.width or 100, t.columns)) - spare, 10) end

local function y_axis(fig, high)
  local values, texts = scale.ticks(fig.y_lo, fig.y_hi, max(2, floor(high / 3)), fig.logy)
  local at, y_at = scale.map(fig.y_lo, fig.y_hi, high - 1, 0, fig.logy), {}
  for i, v in ipairs(values) do y_at[floor(at(v) + 0.5)] = texts[i] end
  return y_at, widest(texts)
end

local function x_axis(fig, wide)
  local values, texts = scale.fitting_ticks(fig, max(2, floor(wide / 8)),
    function(texts) return (widest(texts) + 2) * #texts <= wide end)
  local at = scale.map(fig.x_lo, fig.x_hi, 0, wide - 1, fig.logx)
  return util.map(values, function(v) return floor(at(v) + 0.5) end), texts
end

--- Returns the columns and rows of axes; aspect='equal' gives units of equal length, with cells twice as high as wide.
local function size_of(t, fig, default_high, most)
  local high = max(floor(fig.height or default_high), 4)
  local wide = min(width_of(t, fig, select(2, y_axis(fig, high)) + 3), floor(fig.width or most or math.huge))
  if fig.aspect ~= 'equal' then return wide, high end
  local ratio = 2 * (fig.x_hi - fig.x_lo) / (fig.y_hi - fig.y_lo)
  local fitting = min(wide, high * ratio)
  return max(floor(fitting + 0.5), 10), max(floor(fitting / ratio + 0.5), 4)
end

local draw = {}

-- Without colours several series are drawn with different glyphs instead of braille.
function draw.line(t, fig)
  local wide, high = size_of(t, fig, 18)
  local dotted = t.utf8 and (t.colours > 0 or #fig.series == 1)
  local canvas = new_canvas(t, wide, high, dotted)
  local sx = scale.map(fig.x_lo, fig.x_hi, 0, canvas.w - 1, fig.logx, fig.xlim)
  local sy = scale.map(fig.y_lo, fig.y_hi, canvas.h - 1, 0, fig.logy, fig.ylim)
  for _, s in ipairs(fig.series) do
    if s.raw and s.dash and t.colours > 0 then
      draw_line(canvas, {x = s.x, colour = s.colour, rgb = s.rgb, pale = true}, s.raw, sx, sy)
    end
  end
  for _, s in ipairs(fig.series) do
    if s.low then -- a band is drawn as its two ends
      draw_line(canvas, s, s.low, sx, sy)
      draw_line(canvas, s, s.high, sx, sy)
    end
    if s.y and s.dash then draw_line(canvas, s, s.y, sx, sy) end
    if s.error_low then draw_errors(canvas, s, sx, sy) end
  end
  for _, s in ipairs(fig.series) do -- dots are drawn over lines
    if s.y and s.marker then draw_dots(canvas, s, sx, sy) end
  end
  local out = add_frame(t, fig, wide, high, function(row) return canvas_row(canvas, row) end, y_axis(fig, high),
                     x_axis(fig, wide))
  add_legend(t, fig, out, function(s) return t.utf8 and dotted and '●' or glyph_of(s) end)
  return out
end

draw.scatter = draw.line

-- Bars --------------------------------------------------------------------------------------------

local eighths = {'▏', '▎', '▍', '▌', '▋', '▊', '▉'}

local function fill_of(t, k)
  local list = t.utf8 and {'█', '░', '▓', '▒'} or {'#', '=', '+', '-'} -- of several sets without colours
  return list[t.colours > 0 and 1 or (k - 1) % #list + 1]
end

local function bar_text(cells, fill)
  if fill ~= '█' then return rep(fill, max(floor(cells + 0.5), cells > 0 and 1 or 0)) end
  local eighth = floor(cells * 8 + 0.5)
  if cells > 0 and eighth == 0 then eighth = 1 end
  return rep(fill, floor(eighth / 8)) .. (eighths[eighth % 8] or '')
end

--- Returns a value as text, with its error bar.
local function value_text(t, s, i)
  local text = util.number_text(s.y[i], 5)
  if not s.error_low then return text end
  local below, above = util.number_text(s.y[i] - s.error_low[i], 2), util.number_text(s.error_high[i] - s.y[i], 2)
  if below == above then return text .. (t.utf8 and ' ±' or ' +-') .. above end
  return text .. ' +' .. above .. ' -' .. below
end

--- Draws the first `count` bars of each series with their names: to the right of zero, negative ones to its left. The
--- axes are swapped: xlabel is above the names, ylabel below the bars.
local function draw_bars(t, fig, names, count)
  local left, number, lo, hi, shown = 0, 0, 0, 0, {}
  for k, s in ipairs(fig.series) do
    shown[k] = {}
    for i = 1, count do
      names[i], shown[k][i] = cut(t, names[i], 24), value_text(t, s, i)
      left, number = max(left, columns_of(names[i])), max(number, columns_of(shown[k][i]))
      if scale.finite(s.y[i]) then lo, hi = min(lo, s.y[i]), max(hi, s.y[i]) end
    end
  end
  if fig.ylim then lo, hi = fig.y_lo, fig.y_hi end
  local wide, base = width_of(t, fig, left + number + 3), min(max(0, lo), hi)
  local out, per_cell = {}, (hi > lo) and wide / (hi - lo) or 0
  local zero = floor((base - lo) * per_cell + 0.5)
  if fig.title then out[1] = centre(t, fig.title, left + wide) end
  if fig.xlabel then out[#out + 1] = cut(t, tostring(fig.xlabel), left + wide) end
  for i = 1, count do
    for k, s in ipairs(fig.series) do
      local v, fill = s.y[i], fill_of(t, k)
      local cells = scale.finite(v) and (min(max(v, lo), hi) - base) * per_cell or 0
      local text = cells < 0 and rep(fill, max(floor(-cells + 0.5), 1)) or bar_text(cells, fill)
      local room = cells < 0 and zero - columns_of(text) or zero
      out[#out + 1] = pad_left(k == 1 and names[i] or '', left) .. ' ' .. rep(' ', room) .. paint(t, s, text) .. ' ' ..
        shown[k][i]
    end
  end
  if fig.ylabel then out[#out + 1] = centre(t, fig.ylabel, left + wide) end
  add_legend(t, fig, out, function(_, k) return fill_of(t, k) end)
  return out
end

function draw.bar(t, fig)
  local count = min(#fig.values, 60)
  local names = util.tabulate(count, function(i) return fig.labels and fig.labels[i] or tostring(i) end)
  local out = draw_bars(t, fig, names, count)
  if #fig.values > count then out[#out + 1] = ('and %d more bars'):format(#fig.values - count) end
  return out
end

function draw.hist(t, fig)
  local width, largest = (fig.x_hi - fig.x_lo) / #fig.values, max(abs(fig.x_lo), abs(fig.x_hi))
  local whole = width == 1 and fig.x_lo % 1 == 0.5
  local step = whole and 1 or scale.step(width, 1) / 10
  local names = util.map(fig.values, function(_, b)
    return scale.tick_text(fig.x_lo + (b - 0.5) * width, step, largest)
  end)
  return draw_bars(t, fig, names, #fig.values)
end

-- Surfaces: t.split rows of cells for each line of text, as half blocks; without colours one shade for each cell ------

local unicode_shades = {'·', '░', '▒', '▓', '█'}
local ascii_shades = {'.', ':', '-', '=', '+', '*', '#', '%', '@'}

-- shade(col, row) returns red, green, blue (0..255) and brightness (0..1) of a cell, or nothing; points has the series
-- whose sign stands in a cell.
local function surface_row(t, wide, row, shade, points)
  local out = {}
  local function code(ground, r, g, b) return r and colour_code(t, ground, r, g, b) or '' end
  for col = 0, wide - 1 do
    local mark = points and points[row * wide + col] and points[row * wide + col].sign
    if t.colours == 0 then
      local v, n = select(4, shade(col, row)), #t.shades
      out[#out + 1] = mark or (v and t.shades[min(floor(v * n) + 1, n)]) or ' '
    else
      local upper = code(t.split == 2 and not mark and 38 or 48, shade(col, t.split * row))
      local lower = t.split == 2 and not mark and code(48, shade(col, 2 * row + 1)) or ''
      out[#out + 1] = lower .. upper .. (mark and '\27[1;38;5;16m' .. mark or
        t.split == 2 and upper ~= '' and '▀' or ' ') .. '\27[0m'
    end
  end
  return concat(out)
end

local function key_line(t, fig)
  local out, n = {}, t.colours > 0 and 16 or #t.shades
  for k = 1, n do
    out[k] = t.colours > 0 and colour_code(t, 48, scale.colour(fig.map, (k - 0.5) / n)) .. ' ' or t.shades[k]
  end
  return util.number_text(fig.z_lo, 3) .. ' ' .. concat(out) .. (t.colours > 0 and '\27[0m ' or ' ') ..
    util.number_text(fig.z_hi, 3)
end

--- Returns the index of 1..n that is at one of the cells 0..cells-1.
local function index_at(cell, cells, n) return min(floor((cell + 0.5) / cells * n) + 1, n) end

--- Returns a surface in its frame, with the colour bar.
local function draw_surface(t, fig, wide, high, shade, points, ...)
  local out = add_frame(t, fig, wide, high, function(row) return surface_row(t, wide, row, shade, points) end, ...)
  out[#out + 1] = key_line(t, fig)
  return out
end

--- Returns a matrix as numbers with their shades beside or behind them; nothing if it does not fit.
local function number_table(t, fig, left)
  local names = util.tabulate(#fig.z[1], function(j) return cut(t, fig.cols and fig.cols[j] or tostring(j), 12) end)
  local room = floor((t.columns - left - 1) / #names) - 2
  local texts, width = scale.cell_texts(fig.z, room, columns_of)
  local cell = max(width or 0, widest(names)) + 2
  if not texts or cell > room + 2 then return nil end
  local out, indent = {fig.title and centre(t, fig.title, left + 1 + cell * #names)}, rep(' ', left + 1)
  if fig.ylabel then out[#out + 1] = tostring(fig.ylabel) end
  for i, row in ipairs(fig.z) do
    local line = {pad_left(fig.rows and fig.rows[i] or tostring(i), left) .. ' '}
    for j, v in ipairs(row) do
      local text, lit = pad_left(texts[i][j], cell - 1), scale.level(fig, v)
      if t.colours > 0 and lit then
        line[j + 1] = colour_code(t, 48, scale.colour(fig.map, lit)) ..
                      (scale.bright(fig.map, lit) and '\27[30m' or '\27[97m') .. text .. ' \27[0m'
      else
        line[j + 1] = text .. (lit and t.shades[floor(min(max(lit, 0), 1) * (#t.shades - 1) + 0.5) + 1] or ' ')
      end
    end
    out[#out + 1] = concat(line)
  end
  out[#out + 1] = indent .. concat(util.map(names, function(name) return pad_left(name, cell - 1) end), ' ')
  if fig.xlabel then out[#out + 1] = indent .. centre(t, fig.xlabel, cell * #names) end
  return out
end

--- Returns about n ticks at 1..count over `cells` rows or columns.
local function index_ticks(names, count, cells, n)
  local values, texts = scale.category_ticks(names, count, max(1, ceil(count / n)))
  return util.map(values, function(v) return floor((v - 0.5) / count * cells) end), texts
end

function draw.heatmap(t, fig)
  local z, rows, cols = fig.z, #fig.z, #fig.z[1]
  local left = widest(fig.rows or {tostring(rows)})
  local numbers = rows <= 24 and number_table(t, fig, left)
  if numbers then return numbers end
  local high = min(floor(fig.height or 24), ceil(rows / t.split))
  local wide = min(width_of(t, fig, left + 3), cols * (cols <= 32 and 2 or 1))
  local function shade(col, row)
    local v = scale.level(fig, z[index_at(row, high * t.split, rows)][index_at(col, wide, cols)])
    if v then return scale.colour(fig.map, v) end
  end
  local y_at, y_rows, y_texts = {}, index_ticks(fig.rows, rows, high, fig.rows and high or max(2, floor(high / 3)))
  for i, row in ipairs(y_rows) do y_at[row] = y_texts[i] end
  return draw_surface(t, fig, wide, high, shade, nil, y_at,
    index_ticks(fig.cols, cols, wide, max(2, floor(wide / (fig.cols and widest(fig.cols) + 1 or 10)))))
end

--- Returns the place on the colour map of the band of v.
local function band_shade(fig, v)
  local shade = fig.bands[1].shade
  for _, band in ipairs(fig.bands) do shade = v >= band.lo and band.shade or shade end
  return shade
end

--- Returns the series of points in each cell of a contour, and sets their signs.
local function points_in_cells(t, fig, wide, high)
  local canvas = new_canvas(t, wide, high, false)
  local sx, sy = scale.map(fig.x_lo, fig.x_hi, 0, wide - 1), scale.map(fig.y_lo, fig.y_hi, high - 1, 0)
  for k, s in ipairs(fig.points or {}) do
    s.sign = ({'o', 'x', '^', 's', 'v', 'd'})[(k - 1) % 6 + 1]
    draw_dots(canvas, s, sx, sy)
  end
  return canvas.series
end

function draw.contour(t, fig)
  local z, default_high = fig.z, 22
  local wide, high = size_of(t, fig, default_high, (fig.height or default_high) * 2.5)
  local function shade(col, row)
    local i = (1 - row / max(high * t.split - 1, 1)) * (#z - 1) + 1
    local v = z[floor(i + 0.5)][floor(col / max(wide - 1, 1) * (#z[1] - 1) + 1.5)]
    if scale.finite(v) then return scale.colour(fig.map, band_shade(fig, v)) end
  end
  local points = points_in_cells(t, fig, wide, high)
  local out = draw_surface(t, fig, wide, high, shade, points, y_axis(fig, high), x_axis(fig, wide))
  for _, s in ipairs(fig.legend and fig.points or {}) do
    if s.label then out[#out] = out[#out] .. '   ' .. s.sign .. ' ' .. cut(t, s.label, 20) end
  end
  return out
end

--- Returns images in rows of tiles; a pixel is at most two columns wide.
local function tile_rows(t, fig, first, last, wide, high)
  local tile, out = fig.tiles[1][1], {}
  for row = 0, high - 1 do
    local parts = {}
    for k = first, last do
      parts[#parts + 1] = surface_row(t, wide, row, function(col, line)
        return scale.pixel(fig, fig.tiles[k], index_at(line, high * t.split, #tile), index_at(col, wide, #tile[1]))
      end)
    end
    out[#out + 1] = concat(parts, ' ')
  end
  return out
end

function draw.images(t, fig)
  local tile = fig.tiles[1][1]
  local least = min(10, 2 * #tile[1]) -- columns for each
  local most = max(1, floor((t.columns + 1) / (least + 1)))
  local per_line = min(fig.cols, most)
  local wide, high
  repeat -- as large as fits the screen
    wide = min(floor((min(fig.width or t.columns, t.columns) + 1) / per_line) - 1, 2 * #tile[1])
    high = max(1, floor(wide * #tile / #tile[1] / 2 + 0.5))
    local lines = ceil(#fig.tiles / per_line) * (high + (fig.labels and 1 or 0)) + 2
    local fits = lines <= t.rows or fig.width or not fig.may_wrap or per_line >= min(most, #fig.tiles)
    if not fits then per_line = per_line + 1 end
  until fits
  local out = {fig.title and centre(t, fig.title, per_line * (wide + 1))}
  for first = 1, #fig.tiles, per_line do
    local last = min(first + per_line - 1, #fig.tiles)
    util.append(out, tile_rows(t, fig, first, last, wide, high))
    if fig.labels then
      local names = {}
      for k = first, last do names[#names + 1] = pad_right(cut(t, fig.labels[k], wide), wide) end
      out[#out + 1] = (concat(names, ' '):gsub(' +$', ''))
    end
  end
  return out
end

draw.image = draw.images

local function lines_of(t, fig)
  local lines = draw[fig.kind](t, fig)
  if fig.note then lines[#lines + 1] = '(' .. fig.note .. ')' end
  return lines
end

--- Draws figures one under another.
function draw.panels(t, fig)
  local out = {fig.title and centre(t, fig.title, width_of(t, fig, 0)) or nil}
  for k, panel in ipairs(fig.panels) do
    if k > 1 or fig.title then out[#out + 1] = '' end
    panel.width = panel.width or fig.width
    util.append(out, lines_of(t, panel))
  end
  return out
end

--- Returns the text of a figure for stdout, with colours only if it is a terminal.
function term.draw(fig)
  local t = {utf8 = util.utf8(), colours = util.colours(1)}
  t.columns = tonumber(os.getenv 'COLUMNS' or '') or extend.columns()
  t.rows = tonumber(os.getenv 'LINES' or '') or extend.rows()
  t.split = t.colours > 0 and t.utf8 and 2 or 1
  t.shades = t.utf8 and unicode_shades or ascii_shades
  return concat(lines_of(t, fig), '\n') .. '\n'
end

return term
