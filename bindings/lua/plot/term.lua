-- term.lua -- Draws a figure of plot.lua as text for a terminal or a log: braille or ASCII.
local util = require 'mtorch.core.util'
local scale = require 'mtorch.plot.scale'

local term = {}

local floor, ceil, min, max, abs = math.floor, math.ceil, math.min, math.max, math.abs
local concat, rep = table.concat, string.rep
local bor = require('bit').bor

-- Colours -----------------------------------------------------------------------------------------

local function colour_code(t, r, g, b, ground)
  if t.colours > 256 then return ('\27[%d;2;%d;%d;%dm'):format(ground, r, g, b) end
  local function level(v) return floor(v / 255 * 5 + 0.5) end
  return ('\27[%d;5;%dm'):format(ground, 16 + 36 * level(r) + 6 * level(g) + level(b))
end

local function series_code(t, colour)
  local text = scale.dark_palette[(colour - 1) % 8 + 1]
  local function part(i) return tonumber(text:sub(i, i + 1), 16) end
  return colour_code(t, part(2), part(4), part(6), 38)
end

local function paint(t, colour, text)
  if t.colours == 0 or text == '' then return text end
  return series_code(t, colour) .. text .. '\27[0m'
end

-- Text --------------------------------------------------------------------------------------------

local function pad_left(text, width) return rep(' ', width - util.length(text)) .. text end

local function pad_right(text, width) return text .. rep(' ', width - util.length(text)) end

local function cut(t, text, width) return util.truncate(text, width, not t.utf8 and '~' or nil) end

-- Centred over `width` columns; a longer text starts at their left.
local function centred(t, text, width)
  text = cut(t, tostring(text), max(width, t.columns - 12, 20))
  return rep(' ', floor((width - util.length(text)) / 2)) .. text
end

-- The canvas: cells of 2 x 4 braille dots, or of one glyph per series -----------------------------

local glyphs = {'*', '+', 'o', 'x', '#', '@', '%', '&', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'}

local function glyph_of(colour) return glyphs[(colour - 1) % #glyphs + 1] end

local function braille(bits)
  return string.char(226, 160 + floor(bits / 64), 128 + bits % 64)
end

local dot_bits = {[0] = 1, 2, 4, 64, 8, 16, 32, 128} -- column 0 top to bottom, then column 1

local function new_canvas(t, wide, high, dotted)
  local w, h = dotted and 2 or 1, dotted and 4 or 1
  local canvas = {t = t, wide = wide, high = high, dotted = dotted, w = wide * w, h = high * h,
                  bits = {}, colour = {}}
  -- Sets the dot in column x, row y (0-based, row 0 on top).
  function canvas.set(x, y, colour)
    if x < 0 or y < 0 or x >= canvas.w or y >= canvas.h then return end
    local at = floor(y / h) * wide + floor(x / w)
    local bit_of = dotted and dot_bits[x % 2 * 4 + y % 4] or 1
    canvas.bits[at], canvas.colour[at] = bor(canvas.bits[at] or 0, bit_of), colour
  end
  return canvas
end

local function canvas_row(canvas, row)
  local out = {}
  for col = 0, canvas.wide - 1 do
    local at = row * canvas.wide + col
    local bits, colour = canvas.bits[at], canvas.colour[at]
    if not bits then
      out[#out + 1] = ' '
    else
      local glyph = canvas.dotted and braille(bits) or glyph_of(colour)
      out[#out + 1] = paint(canvas.t, colour, glyph)
    end
  end
  return (concat(out):gsub(' +$', ''))
end

local function segment(canvas, x0, y0, x1, y1, colour)
  local steps = max(abs(x1 - x0), abs(y1 - y0), 1)
  for k = 0, steps do
    canvas.set(floor(x0 + (x1 - x0) * k / steps + 0.5), floor(y0 + (y1 - y0) * k / steps + 0.5),
               colour)
  end
end

local function draw_line(canvas, s, sx, sy)
  local xs, ys = scale.polyline(s.x, s.y, sx, sy, 1, 4 * canvas.w)
  for i = 1, #xs do
    if xs[i] then
      local x, y = floor(xs[i] + 0.5), floor(ys[i] + 0.5)
      if i > 1 and xs[i - 1] then
        segment(canvas, floor(xs[i - 1] + 0.5), floor(ys[i - 1] + 0.5), x, y, s.colour)
      else
        canvas.set(x, y, s.colour)
      end
    end
  end
end

local function draw_dots(canvas, s, sx, sy)
  for i = 1, #s.x do
    local x, y = sx(s.x[i]), sy(s.y[i])
    if x and y then canvas.set(floor(x + 0.5), floor(y + 0.5), s.colour) end
  end
end

-- Frame: rows of text with tick texts to the left and below ---------------------------------------

local function frame_signs(t)
  if t.utf8 then return {v = '│', tick = '┤', corner = '└', h = '─', mark = '┬'} end
  return {v = '|', tick = '+', corner = '+', h = '-', mark = '+'}
end

-- The line of x tick texts, each centred under its column, those that would touch left out.
local function x_labels(columns, texts, left, wide)
  local line, stop = '', -1
  for i, text in ipairs(texts) do
    local start = floor(left + columns[i] - util.length(text) / 2 + 0.5)
    start = max(min(start, left + wide - util.length(text) + 1), 0)
    if start > stop then
      line = pad_right(line, start) .. text
      stop = start + util.length(text)
    end
  end
  return line
end

-- Appends the lines that name the series, as many per line as the terminal is wide.
local function add_legend(t, fig, dotted, out)
  local line, width = nil, 0
  for i, s in ipairs(fig.series) do
    if s.label and i <= 24 then
      local text = cut(t, s.label, 30)
      local sign = t.utf8 and dotted and '●' or glyph_of(s.colour)
      width = width + util.length(text) + 5
      if not line or width > t.columns then
        out[#out + 1], width = line, util.length(text) + 5
        line = ''
      end
      line = line .. (line == '' and '' or '   ') .. paint(t, s.colour, sign) .. ' ' .. text
    end
  end
  out[#out + 1] = line
end

-- Puts rows (functions or texts) into the frame; y_at: row -> tick text, x_at: columns and texts.
local function framed(t, fig, wide, high, row_text, y_at, x_columns, x_texts)
  local sign, out, left = frame_signs(t), {}, 0
  for _, text in pairs(y_at) do left = max(left, util.length(text)) end
  local indent = rep(' ', left + 2)
  if fig.title then out[1] = indent .. centred(t, fig.title, wide) end
  if fig.ylabel then out[#out + 1] = cut(t, tostring(fig.ylabel), wide) end
  for row = 0, high - 1 do
    local text = y_at[row]
    out[#out + 1] = pad_left(text or '', left) .. ' ' .. (text and sign.tick or sign.v) ..
                    row_text(row)
  end
  local base = {}
  for col = 0, wide - 1 do base[col + 1] = sign.h end
  for _, col in ipairs(x_columns) do base[col + 1] = sign.mark end
  out[#out + 1] = rep(' ', left + 1) .. sign.corner .. concat(base)
  out[#out + 1] = x_labels(x_columns, x_texts, left + 2, wide)
  if fig.xlabel then out[#out + 1] = indent .. centred(t, fig.xlabel, wide) end
  return out
end

-- Tick rows and columns of a scale from lo at p0 to hi at p1 (cell positions).
local function ticks_at(lo, hi, p0, p1, n, log, whole)
  local values, texts = scale.ticks(lo, hi, n, log, whole)
  local at, cells = scale.map(lo, hi, p0, p1, log), {}
  for i, v in ipairs(values) do cells[i] = floor(at(v) + 0.5) end
  return cells, texts
end

local function widest(texts)
  local width = 0
  for _, text in ipairs(texts) do width = max(width, util.length(text)) end
  return width
end

local function size(t, fig, high, spare)
  local wide = max(floor(fig.width or min(t.columns, 100)) - spare, 10)
  return wide, max(floor(fig.height or high), 4)
end

local function y_axis(lo, hi, high, log)
  local rows, texts = ticks_at(lo, hi, high - 1, 0, max(2, floor(high / 3)), log)
  local y_at = {}
  for i, row in ipairs(rows) do y_at[row] = texts[i] end
  return y_at, widest(texts)
end

local function x_axis(lo, hi, wide, log, whole)
  local n = max(2, floor(wide / 10))
  local columns, texts = ticks_at(lo, hi, 0, wide - 1, n, log, whole)
  while n > 1 and (widest(texts) + 2) * #texts > wide do
    n = n - 1
    columns, texts = ticks_at(lo, hi, 0, wide - 1, n, log, whole)
  end
  return columns, texts
end

local draw = {}

-- Several series without colours are told apart by glyphs, so they give up braille.
function draw.line(t, fig)
  local high = max(floor(fig.height or 18), 4)
  local y_at, spare = y_axis(fig.y_lo, fig.y_hi, high, fig.logy)
  local wide = size(t, fig, high, spare + 3)
  local dotted = t.utf8 and (t.colours > 0 or #fig.series == 1)
  local canvas = new_canvas(t, wide, high, dotted)
  local sx = scale.map(fig.x_lo, fig.x_hi, 0, canvas.w - 1, fig.logx)
  local sy = scale.map(fig.y_lo, fig.y_hi, canvas.h - 1, 0, fig.logy)
  for _, s in ipairs(fig.series) do
    if s.low then -- a band: its two ends
      draw_line(canvas, {x = s.x, y = s.low, colour = s.colour}, sx, sy)
      draw_line(canvas, {x = s.x, y = s.high, colour = s.colour}, sx, sy)
    end
    if s.y then (s.kind == 'scatter' and draw_dots or draw_line)(canvas, s, sx, sy) end
  end
  local columns, texts = x_axis(fig.x_lo, fig.x_hi, wide, fig.logx, fig.whole)
  local out = framed(t, fig, wide, high, function(row) return canvas_row(canvas, row) end, y_at,
                     columns, texts)
  add_legend(t, fig, dotted, out)
  return out
end

draw.scatter = draw.line

-- Bars --------------------------------------------------------------------------------------------

local eighths = {'▏', '▎', '▍', '▌', '▋', '▊', '▉'}

local function bar_text(t, cells)
  if not t.utf8 then return rep('#', max(floor(cells + 0.5), cells > 0 and 1 or 0)) end
  local eighth = floor(cells * 8 + 0.5)
  if cells > 0 and eighth == 0 then eighth = 1 end
  return rep('█', floor(eighth / 8)) .. (eighths[eighth % 8] or '')
end

-- Rows of (name, value): bars to the right of zero, negative ones to its left.
local function draw_bars(t, fig, names, values)
  local left, number, lo, hi = 0, 0, 0, 0
  local shown = {}
  for i, v in ipairs(values) do
    names[i] = cut(t, names[i], 24)
    shown[i] = util.number_text(v, 5)
    left, number = max(left, util.length(names[i])), max(number, #shown[i])
    if scale.finite(v) then lo, hi = min(lo, v), max(hi, v) end
  end
  local wide = size(t, fig, 0, left + number + 3)
  local out, per_cell = {}, (hi > lo) and wide / (hi - lo) or 0
  local zero = floor(-lo * per_cell + 0.5)
  if fig.title then out[1] = centred(t, fig.title, left + wide) end
  for i, v in ipairs(values) do
    local cells = scale.finite(v) and v * per_cell or 0
    local text = cells < 0 and rep(t.utf8 and '█' or '#', max(floor(-cells + 0.5), 1))
                 or bar_text(t, cells)
    local room = cells < 0 and zero - util.length(text) or zero
    local after = cells < 0 and rep(' ', zero - util.length(text) - max(room, 0)) or ''
    out[#out + 1] = pad_left(names[i], left) .. ' ' .. rep(' ', room) .. paint(t, 1, text) ..
                    after .. ' ' .. shown[i]
  end
  if fig.xlabel then out[#out + 1] = centred(t, fig.xlabel, left + wide) end
  return out
end

function draw.bar(t, fig)
  local names, values = {}, {}
  for i = 1, min(#fig.values, 60) do
    names[i], values[i] = fig.labels and fig.labels[i] or tostring(i), fig.values[i]
  end
  local out = draw_bars(t, fig, names, values)
  if #fig.values > 60 then out[#out + 1] = ('and %d more bars'):format(#fig.values - 60) end
  return out
end

function draw.hist(t, fig)
  local names, width = {}, (fig.x_hi - fig.x_lo) / #fig.values
  local step = scale.step(width, 1) / 10
  for b = 1, #fig.values do
    names[b] = scale.tick_text(fig.x_lo + (b - 0.5) * width, step,
                               max(abs(fig.x_lo), abs(fig.x_hi)))
  end
  return (draw_bars(t, fig, names, fig.values))
end

-- Surfaces: two rows of cells per line of text with colours, else one shade per cell --------------

local unicode_shades = {'·', '░', '▒', '▓', '█'}
local ascii_shades = {'.', ':', '-', '=', '+', '*', '#', '%', '@'}

-- shade(col, row) gives t in 0..1, a colour {r, g, b} of 0..255, or nil for the cell.
local function surface_row(t, map, wide, row, shade, overlay)
  local out = {}
  for col = 0, wide - 1 do
    local mark = overlay and overlay[row * wide + col]
    if t.colours > 0 then
      local upper, lower = shade(col, 2 * row), shade(col, 2 * row + 1)
      local function code(v, ground)
        if not v then return '' end
        if type(v) == 'table' then return colour_code(t, v[1], v[2], v[3], ground) end
        local r, g, b = scale.colour(map, v)
        return colour_code(t, r, g, b, ground)
      end
      if mark then
        out[#out + 1] = code(upper, 48) .. '\27[1;38;5;16m' .. mark .. '\27[0m'
      else
        out[#out + 1] = code(lower, 48) .. code(upper, 38) .. (upper and (t.utf8 and '▀' or ' ')
                        or ' ') .. '\27[0m'
      end
    else
      local v, shades = shade(col, row), t.utf8 and unicode_shades or ascii_shades
      out[#out + 1] = mark or (v and shades[min(floor(v * #shades) + 1, #shades)]) or ' '
    end
  end
  return concat(out)
end

local function key_line(t, fig, map)
  local out, lo, hi = {}, util.number_text(fig.z_lo, 3), util.number_text(fig.z_hi, 3)
  local shades = t.utf8 and unicode_shades or ascii_shades
  for k = 1, t.colours > 0 and 16 or #shades do
    if t.colours > 0 then
      local r, g, b = scale.colour(map, (k - 0.5) / 16)
      out[k] = colour_code(t, r, g, b, 48) .. ' '
    else
      out[k] = shades[k]
    end
  end
  return lo .. ' ' .. concat(out) .. (t.colours > 0 and '\27[0m ' or ' ') .. hi
end

local function shade_in(fig, v)
  return scale.finite(v) and scale.shade(v, fig.z_lo, fig.z_hi) or nil
end

-- A matrix that fits as numbers: each with its shade beside it, or upon it.
local function number_table(t, fig, left, cell)
  local out = {fig.title and tostring(fig.title)}
  local shades, map = t.utf8 and unicode_shades or ascii_shades, fig.map
  if fig.ylabel then out[#out + 1] = tostring(fig.ylabel) end
  for i, row in ipairs(fig.z) do
    local line = {pad_left(fig.rows and fig.rows[i] or tostring(i), left) .. ' '}
    for j, v in ipairs(row) do
      local text, lit = util.number_text(v, 4), shade_in(fig, v)
      if t.colours > 0 and lit then
        local r, g, b = scale.colour(map, lit)
        line[j + 1] = colour_code(t, r, g, b, 48) .. (lit > 0.6 and '\27[30m' or '\27[97m') ..
                      pad_left(text, cell - 1) .. ' \27[0m'
      else
        line[j + 1] = pad_left(text, cell - 1) ..
                      (lit and shades[floor(lit * (#shades - 1) + 0.5) + 1] or ' ')
      end
    end
    out[#out + 1] = concat(line)
  end
  local names = {}
  for j = 1, #fig.z[1] do
    names[j] = pad_left(cut(t, fig.cols and fig.cols[j] or tostring(j), cell - 2), cell - 1) .. ' '
  end
  out[#out + 1] = rep(' ', left + 1) .. concat(names)
  if fig.xlabel then out[#out + 1] = rep(' ', left + 1) .. tostring(fig.xlabel) end
  return out
end

-- Ticks at 1..count laid over `cells` rows or columns: the names, or round numbers.
local function index_ticks(names, count, cells, n)
  local values, texts = scale.ticks(1, count, n, false, true)
  if names or count == 1 then
    values, texts = {}, {}
    for i = 1, count, max(1, ceil(count / n)) do
      values[#values + 1], texts[#texts + 1] = i, names and names[i] or '1'
    end
  end
  local at = {}
  for i, v in ipairs(values) do at[i] = floor((v - 0.5) / count * cells) end
  return at, texts
end

function draw.heatmap(t, fig)
  local z, rows, cols = fig.z, #fig.z, #fig.z[1]
  local left = widest(fig.rows or {tostring(rows)})
  local cell = min(max(8, widest(fig.cols or {}) + 2), 14)
  if rows <= 24 and left + 1 + cols * cell <= t.columns then
    return number_table(t, fig, left, cell)
  end
  local split = t.colours > 0 and t.utf8 and 2 or 1
  local high = min(floor(fig.height or 24), ceil(rows / split))
  local wide = min(size(t, fig, high, left + 3), cols * (cols <= 32 and 2 or 1))
  local function shade(col, row)
    local i = floor((row + 0.5) / (high * split) * rows) + 1
    return shade_in(fig, z[min(i, rows)][floor((col + 0.5) / wide * cols) + 1])
  end
  local y_at, y_rows, y_texts = {}, index_ticks(fig.rows, rows, high, max(2, floor(high / 3)))
  for i, row in ipairs(y_rows) do y_at[row] = y_texts[i] end
  local columns, texts = index_ticks(fig.cols, cols, wide, max(2, floor(wide / 10)))
  local out = framed(t, fig, wide, high, function(row)
    return (surface_row(t, fig.map, wide, row, shade))
  end, y_at, columns, texts)
  out[#out + 1] = key_line(t, fig, fig.map)
  return out
end

-- The band of v as t in 0..1: the middle of the thresholds around it.
local function band_shade(fig, v)
  local lo, hi = fig.z_lo, fig.z_hi
  for _, threshold in ipairs(fig.thresholds) do
    if v < threshold then hi = threshold break end
    lo = threshold
  end
  return (scale.shade((lo + hi) / 2, fig.z_lo, fig.z_hi, fig.centre))
end

local function marks_of(fig, wide, high)
  local marks = {}
  local sx = scale.map(fig.x_lo, fig.x_hi, 0, wide - 1)
  local sy = scale.map(fig.y_lo, fig.y_hi, high - 1, 0)
  for k, s in ipairs(fig.points or {}) do
    local glyph = ({'o', 'x', '^', 's', 'v', 'd'})[(k - 1) % 6 + 1]
    for i = 1, #s.x do
      local x, y = sx(s.x[i]), sy(s.y[i])
      if x and y and x >= 0 and x <= wide - 1 and y >= 0 and y <= high - 1 then
        marks[floor(y + 0.5) * wide + floor(x + 0.5)] = glyph
      end
    end
  end
  return marks
end

function draw.contour(t, fig)
  local z, split = fig.z, t.colours > 0 and 2 or 1
  local high = max(floor(fig.height or 22), 4)
  local y_at, spare = y_axis(fig.y_lo, fig.y_hi, high)
  local wide = min(size(t, fig, high, spare + 3), floor(fig.width or high * 2.5))
  local function shade(col, row)
    local i = (1 - row / max(high * split - 1, 1)) * (#z - 1) + 1
    local v = z[floor(i + 0.5)][floor(col / max(wide - 1, 1) * (#z[1] - 1) + 1.5)]
    return scale.finite(v) and band_shade(fig, v) or nil
  end
  local map = fig.map
  local marks = marks_of(fig, wide, high)
  local columns, texts = x_axis(fig.x_lo, fig.x_hi, wide)
  local out = framed(t, fig, wide, high, function(row)
    return (surface_row(t, map, wide, row, shade, marks))
  end, y_at, columns, texts)
  out[#out + 1] = key_line(t, fig, map)
  for k, s in ipairs(fig.points or {}) do
    if s.label then
      out[#out] = out[#out] .. '   ' .. ({'o', 'x', '^', 's', 'v', 'd'})[(k - 1) % 6 + 1] .. ' ' ..
                  cut(t, s.label, 20)
    end
  end
  return out
end

-- Images: one row of tiles after the other, each pixel two columns wide at most.
local function tile_rows(t, fig, first, last, wide, high, split)
  local tile, out = fig.tiles[1][1], {}
  for row = 0, high - 1 do
    local parts = {}
    for k = first, last do
      local channels = fig.tiles[k]
      local function shade(col, line)
        local i = min(floor((line + 0.5) / (high * split) * #tile) + 1, #tile)
        local j = min(floor((col + 0.5) / wide * #tile[1]) + 1, #tile[1])
        local function level(v)
          return scale.finite(v) and min(max(scale.shade(v, fig.z_lo, fig.z_hi), 0), 1) or nil
        end
        if #channels == 1 then return level(channels[1][i][j]) end
        local r, g, b = level(channels[1][i][j]), level(channels[2][i][j]), level(channels[3][i][j])
        if not (r and g and b) then return nil end
        if t.colours == 0 then return 0.3 * r + 0.59 * g + 0.11 * b end
        return {floor(255 * r + 0.5), floor(255 * g + 0.5), floor(255 * b + 0.5)}
      end
      parts[#parts + 1] = surface_row(t, fig.map, wide, row, shade)
    end
    out[#out + 1] = concat(parts, ' ')
  end
  return out
end

function draw.images(t, fig)
  local tile, split = fig.tiles[1][1], t.colours > 0 and t.utf8 and 2 or 1
  local per_line = min(fig.cols, max(1, floor((t.columns + 1) / 11))) -- at least ten columns for each
  local wide = min(floor((min(fig.width or t.columns, t.columns) + 1) / per_line) - 1, 2 * #tile[1])
  local high = max(1, floor(wide * #tile / #tile[1] / 2 + 0.5))
  local out = {fig.title and centred(t, fig.title, per_line * (wide + 1))}
  for first = 1, #fig.tiles, per_line do
    local last = min(first + per_line - 1, #fig.tiles)
    for _, line in ipairs(tile_rows(t, fig, first, last, wide, high, split)) do out[#out + 1] = line end
    if fig.labels then
      local names = {}
      for k = first, last do names[#names + 1] = pad_right(cut(t, fig.labels[k], wide), wide) end
      out[#out + 1] = concat(names, ' ')
    end
  end
  return out
end

draw.image = draw.images

--- The text of a figure for stdout: lines with a newline each; colours only if it is a terminal.
function term.draw(fig)
  local t = {utf8 = util.utf8(), colours = util.colours(1), columns = util.columns()}
  local lines = draw[fig.kind](t, fig)
  if fig.note then lines[#lines + 1] = '(' .. fig.note .. ')' end
  return concat(lines, '\n') .. '\n'
end

return term
