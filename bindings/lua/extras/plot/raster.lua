-- raster.lua -- The pixels of a figure: fills and strokes what svg.lua writes, with smooth edges.
local extend = require('mtorch').extend
local ffi = require 'ffi'
local scale = require 'mtorch.extras.plot.scale'
local font = require 'mtorch.extras.plot.font'

local floor, ceil, min, max, sqrt = math.floor, math.ceil, math.min, math.max, math.sqrt

local raster = {}

local sub = 4 -- lines of samples in a row of pixels

-- Colours of the classes of svg.css, on a light page.
local fills = {bg = '#ffffff', ah = '#9ca3af', nd = '#f3f4f6', lf = '#dbeafe', rt = '#dcfce7'}
local strokes = {gr = '#e5e7eb', ax = '#9ca3af', nd = '#9ca3af', lf = '#60a5fa', rt = '#4ade80'}
local texts = {ti = {'#111827', 15, 1.7}, la = {'#4b5563', 13, 1.25}, nm = {'#111827', 12.5, 1.5},
               on = {'#111111', 12, 1.2}, off = {'#ffffff', 12, 1.2}}

local function rgb(text)
  if #text == 4 then text = text:gsub('%x', '%0%0') end
  return tonumber(text:sub(2, 3), 16), tonumber(text:sub(4, 5), 16), tonumber(text:sub(6, 7), 16)
end

-- The colour of an attribute or class: currentColor is that of the class.
local function colour(value, class)
  if value == 'currentColor' then return scale.palette[tonumber(class:match('%d')) or 1] end
  return value ~= 'none' and value or nil
end

-- Filling ------------------------------------------------------------------------------------------

local function new_canvas(width, height)
  local pixels = ffi.new('uint8_t[?]', width * height * 3)
  ffi.fill(pixels, width * height * 3, 255)
  return {width = width, height = height, pixels = pixels, cover = ffi.new('double[?]', width + 2)}
end

-- Where the outlines' edges meet each line of samples: {x, direction, x, direction, ..} by line.
local function crossings(canvas, outlines)
  local rows, last = {}, canvas.height * sub - 1
  for _, p in ipairs(outlines) do
    local n = #p
    local x0, y0 = p[n - 1], p[n]
    for i = 1, n, 2 do
      local x1, y1 = p[i], p[i + 1]
      local ax, ay, bx, by, direction = x0, y0, x1, y1, 1
      if ay > by then ax, ay, bx, by, direction = x1, y1, x0, y0, -1 end
      local slope = by > ay and (bx - ax) / (by - ay) or 0
      for k = max(ceil(ay * sub - 0.5), 0), min(ceil(by * sub - 0.5) - 1, last) do
        local row = rows[k]
        if not row then
          row = {}
          rows[k] = row
        end
        row[#row + 1] = {ax + ((k + 0.5) / sub - ay) * slope, direction}
      end
      x0, y0 = x1, y1
    end
  end
  return rows
end

-- Adds the share of each pixel between a and b.
local function add_span(cover, a, b, width)
  a, b = max(a, 0), min(b, width)
  if b <= a then return end
  local first, last = floor(a), floor(b)
  if first == last then cover[first] = cover[first] + (b - a)
  else
    cover[first] = cover[first] + (first + 1 - a)
    for i = first + 1, last - 1 do cover[i] = cover[i] + 1 end
    cover[last] = cover[last] + (b - last)
  end
end

local function add_row(canvas, row, even_odd)
  table.sort(row, function(a, b) return a[1] < b[1] end)
  local winding = 0
  for i = 1, #row - 1 do
    winding = winding + row[i][2]
    local inside = even_odd and i % 2 == 1 or not even_odd and winding ~= 0
    if inside then add_span(canvas.cover, row[i][1], row[i + 1][1], canvas.width) end
  end
end

-- Fills closed outlines {x1, y1, x2, y2, ..} in pixels.
local function fill(canvas, outlines, paint, alpha, even_odd)
  local r, g, b = rgb(paint)
  local rows, cover, width = crossings(canvas, outlines), canvas.cover, canvas.width
  for y = 0, canvas.height - 1 do
    local any
    for k = y * sub, y * sub + sub - 1 do
      if rows[k] then
        if not any then ffi.fill(cover, ffi.sizeof(cover)) end
        any = true
        add_row(canvas, rows[k], even_odd)
      end
    end
    local p = canvas.pixels + y * width * 3
    for x = 0, any and width - 1 or -1 do
      local a = min(cover[x] / sub, 1) * alpha
      if a > 0 then
        p[3 * x] = p[3 * x] + (r - p[3 * x]) * a + 0.5
        p[3 * x + 1] = p[3 * x + 1] + (g - p[3 * x + 1]) * a + 0.5
        p[3 * x + 2] = p[3 * x + 2] + (b - p[3 * x + 2]) * a + 0.5
      end
    end
  end
end

-- Strokes as outlines ---------------------------------------------------------------------------------

local function add_circle(out, x, y, radius)
  local circle, n = {}, radius < 2 and 8 or 20
  for k = 0, n - 1 do
    local angle = 2 * math.pi * k / n
    circle[2 * k + 1], circle[2 * k + 2] = x + radius * math.cos(angle), y + radius * math.sin(angle)
  end
  out[#out + 1] = circle
end

-- A line as outlines of one direction, so that they add up to one shape; round: its ends and corners are.
local function add_stroke(out, p, width, round)
  local half = width / 2
  for i = 1, #p - 2, 2 do
    local x0, y0, x1, y1 = p[i], p[i + 1], p[i + 2], p[i + 3]
    local length = sqrt((x1 - x0) ^ 2 + (y1 - y0) ^ 2)
    if length > 0 then
      local nx, ny = (y0 - y1) / length * half, (x1 - x0) / length * half
      out[#out + 1] = {x0 - nx, y0 - ny, x1 - nx, y1 - ny, x1 + nx, y1 + ny, x0 + nx, y0 + ny}
    end
  end
  for i = 1, round and #p - 1 or 0, 2 do add_circle(out, p[i], p[i + 1], half) end
end

-- The pieces of a line that a pattern {drawn, left out} leaves.
local function dashed(p, on, off)
  local out, piece, left, drawn = {}, {p[1], p[2]}, on, true
  for i = 3, #p, 2 do
    local x0, y0 = p[i - 2], p[i - 1]
    local length, at = sqrt((p[i] - x0) ^ 2 + (p[i + 1] - y0) ^ 2), 0
    while length - at > left do
      at = at + left
      local x, y = x0 + (p[i] - x0) * at / length, y0 + (p[i + 1] - y0) * at / length
      if drawn then
        piece[#piece + 1], piece[#piece + 2] = x, y
        out[#out + 1] = piece
      end
      drawn = not drawn
      left, piece = drawn and on or off, {x, y}
    end
    left = left - (length - at)
    if drawn then piece[#piece + 1], piece[#piece + 2] = p[i], p[i + 1] end
  end
  if drawn then out[#out + 1] = piece end
  return out
end

-- Reading the SVG ----------------------------------------------------------------------------------------

local function add_curve(p, x0, y0, n)
  for k = 1, 12 do
    local t, u = k / 12, 1 - k / 12
    local a, b, c, d = u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t
    p[#p + 1] = a * x0 + b * n[1] + c * n[3] + d * n[5]
    p[#p + 1] = a * y0 + b * n[2] + c * n[4] + d * n[6]
  end
end

-- The lines of a path: M L H V C l h v z.
local function lines_of(d)
  local out, p, x, y = {}, nil, 0, 0
  for command, rest in d:gmatch('([MLHVClhvz])([^MLHVClhvz]*)') do
    local n = {}
    for number in rest:gmatch('-?[%d.]+') do n[#n + 1] = tonumber(number) end
    if command == 'M' then
      p = {}
      out[#out + 1], x, y = p, n[1], n[2]
    elseif command == 'L' then x, y = n[1], n[2]
    elseif command == 'l' then x, y = x + n[1], y + n[2]
    elseif command == 'H' then x = n[1]
    elseif command == 'h' then x = x + n[1]
    elseif command == 'V' then y = n[1]
    elseif command == 'v' then y = y + n[1]
    elseif command == 'C' then
      add_curve(p, x, y, n)
      x, y = n[5], n[6]
    elseif command == 'z' then x, y = p[1], p[2] end
    if command ~= 'C' then p[#p + 1], p[#p + 2] = x, y end
  end
  return out
end

-- Outlines in pixels; map: {zoom, x, y}.
local function mapped(outlines, map)
  for _, p in ipairs(outlines) do
    for i = 1, #p, 2 do p[i], p[i + 1] = p[i] * map[1] + map[2], p[i + 1] * map[1] + map[3] end
  end
  return outlines
end

local function draw_lines(canvas, lines, a, map)
  local class = a.class or ''
  local inside = colour(a.fill or fills[class] or 'none', class)
  local line = colour(a.stroke or strokes[class] or 'none', class)
  if inside then
    local outlines = {}
    for i, p in ipairs(lines) do outlines[i] = {unpack(p)} end
    fill(canvas, mapped(outlines, map), inside, tonumber(a['fill-opacity'] or 1), a['fill-rule'] == 'evenodd')
  end
  if not line then return end
  local on, off = (a['stroke-dasharray'] or ''):match('(%d+) (%d+)')
  local width, round, outlines = tonumber(a['stroke-width'] or 1), a['stroke-linecap'] == 'round', {}
  for _, p in ipairs(lines) do
    for _, piece in ipairs(on and dashed(p, tonumber(on), tonumber(off)) or {p}) do
      add_stroke(outlines, piece, width, round)
    end
  end
  fill(canvas, mapped(outlines, map), line, tonumber(a['stroke-opacity'] or 1))
end

local draw = {}

function draw.path(canvas, a, map) draw_lines(canvas, lines_of(a.d), a, map) end

function draw.circle(canvas, a, map)
  local out = {}
  add_circle(out, tonumber(a.cx), tonumber(a.cy), tonumber(a.r))
  draw_lines(canvas, out, a, map)
end

function draw.rect(canvas, a, map)
  if a.width == '100%' then return end -- the page, which is white
  local x, y, w, h, r = tonumber(a.x), tonumber(a.y), tonumber(a.width), tonumber(a.height), tonumber(a.rx or 0)
  local p = {}
  for k, corner in ipairs{{x + w - r, y + h - r}, {x + r, y + h - r}, {x + r, y + r}, {x + w - r, y + r}} do
    for step = 0, 4 do
      local angle = (k - 1 + step / 4) * math.pi / 2
      p[#p + 1], p[#p + 2] = corner[1] + r * math.cos(angle), corner[2] + r * math.sin(angle)
    end
  end
  p[#p + 1], p[#p + 2] = p[1], p[2]
  draw_lines(canvas, {p}, a, map)
end

local entities = {amp = '&', lt = '<', gt = '>', quot = '"', ['#39'] = "'"}

local function draw_text(canvas, a, content, map)
  local style = texts[a.class or ''] or {'#4b5563', 12, 1.2}
  local size = tonumber(a['font-size'] or style[2])
  local lines, width = font.strokes((content:gsub('&([#%w]+);', entities)))
  local x, y = tonumber(a.x), tonumber(a.y)
  local angle = tonumber((a.transform or ''):match('rotate%(([%d.-]+)') or 0) * math.pi / 180
  local c, s, shift = math.cos(angle), math.sin(angle), a['text-anchor'] == 'middle' and -width / 2 or
    a['text-anchor'] == 'end' and -width or 0
  local outlines = {}
  for _, p in ipairs(lines) do
    for i = 1, #p, 2 do
      local u, v = (p[i] + shift) * size, p[i + 1] * size
      p[i], p[i + 1] = x + u * c - v * s, y + u * s + v * c
    end
    add_stroke(outlines, p, style[3], true)
  end
  fill(canvas, mapped(outlines, map), style[1], 1)
end

-- A picture's pixels, {x=, y=, width=, height=, rows= of four bytes each}, the nearest one for each of the canvas.
local function draw_tile(canvas, tile, zoom)
  local x0, y0 = floor(tile.x * zoom + 0.5), floor(tile.y * zoom + 0.5)
  local wide, high = floor(tile.width * zoom + 0.5), floor(tile.height * zoom + 0.5)
  for y = max(-y0, 0), min(high, canvas.height - y0) - 1 do
    local row = tile.rows[floor((y + 0.5) / high * #tile.rows) + 1]
    local p = canvas.pixels + ((y + y0) * canvas.width + x0) * 3
    for x = 0, min(wide, canvas.width - x0) - 1 do
      local at = floor((x + 0.5) / wide * #row / 4) * 4
      local r, g, b, alpha = row:byte(at + 1, at + 4)
      if alpha > 0 then p[3 * x], p[3 * x + 1], p[3 * x + 2] = r, g, b end
    end
  end
end

--- The pixels of an SVG text of svg.draw or plot/graph.lua, `zoom` for each of its own: a tensor uint8
--- [3 x height x width]. tiles: pictures that the text leaves out.
function raster.pixels(text, zoom, tiles)
  local width, height = text:match('viewBox="0 0 ([%d.]+) ([%d.]+)"')
  local canvas = new_canvas(ceil(width * zoom), ceil(height * zoom))
  local page = {zoom, 0, 0}
  local map = page
  for _, tile in ipairs(tiles or {}) do draw_tile(canvas, tile, zoom) end
  for close, name, rest, content in text:gsub('<style>.-</style>', ''):gmatch('<(/?)(%a+)([^>]*)>([^<]*)') do
    local a = {}
    for key, value in rest:gmatch('([%w-]+)="([^"]*)"') do a[key] = value end
    if name == 'g' then
      local x, y = (a.transform or ''):match('translate%(([%d.-]+) ([%d.-]+)%)')
      map = close == '' and {zoom, x * zoom, y * zoom} or page
    elseif name == 'text' and close == '' then draw_text(canvas, a, content, map)
    elseif close == '' and draw[name] then draw[name](canvas, a, map) end
  end
  local bytes = ffi.string(canvas.pixels, canvas.width * canvas.height * 3)
  return require('mtorch').frombuffer(bytes, {dtype = 'uint8', shape = {canvas.height, canvas.width, 3}})
    :permute(3, 1, 2):contiguous()
end

--- The bytes of a PNG file of it.
function raster.png(text, tiles)
  return extend.encode_png(raster.pixels(text, 2, tiles))
end

return raster
