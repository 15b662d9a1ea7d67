-- canvas.lua -- SVG: texts, numbers, the style sheet, and a canvas, a list of pieces with the figure's geometry
local util = require('mtorch').extend.util
local style = require 'mtorch.extras.plot.style'

local canvas = {}

local floor, max, concat = math.floor, math.max, table.concat

-- Text and numbers --------------------------------------------------------------------------------

local entities = {['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;', ["'"] = '&#39;'}

local function from_latin_1(byte)
  local code = byte:byte()
  return string.char(192 + floor(code / 64), 128 + code % 64)
end

--- Escapes text for XML; characters that XML does not allow become spaces. Text that is not UTF-8 is read as Latin-1.
local function escape(text)
  text = tostring(text)
  if not util.is_utf8(text) then text = text:gsub('[\128-\255]', from_latin_1) end
  return (tostring(text):gsub('[&<>"\']', entities):gsub('[%z\1-\8\11\12\14-\31]', ' '))
end

--- Formats a pixel coordinate with at most one decimal.
local function px(v)
  v = floor(v * 10 + 0.5) / 10
  return v == floor(v) and ('%d'):format(v) or ('%.1f'):format(v)
end

--- Estimates the width of a text in pixels; code points from U+1100 on are wide.
local function text_width(text, size)
  local wide = select(2, text:gsub('[\225-\240][\128-\191][\128-\191]', ''))
  return (util.length(text) * 0.56 + wide * 0.44) * size
end

local function fit(text, size, room)
  local width = text_width(text, size)
  if width <= room then return text end
  return util.truncate(text, max(1, floor(util.length(text) * room / width)))
end

-- The style: class mtp; colours c1.. of marks on the page, p1.. of marks on a surface --------------

local function colour_rules(prefix, palette)
  local rules = util.map(palette, function(colour, i) return ('.mtp .%s%d{color:%s}'):format(prefix, i, colour) end)
  return concat(rules)
end

--- The rules that every figure needs, for light pages and, by prefers-color-scheme, dark ones.
canvas.css = [[
.mtp{font:12px system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif}
.mtp text{fill:#4b5563}.mtp .ti{fill:#111827;font-size:15px;font-weight:600}.mtp .la{font-size:13px}
.mtp .bg{fill:#fff}.mtp .gr{stroke:#e5e7eb}.mtp .ax{stroke:#9ca3af}.mtp .er{stroke:#374151}
.mtp .on{fill:#111}.mtp .off{fill:#fff}
]] .. colour_rules('c', style.palette) .. '\n' .. colour_rules('p', style.palette) .. [[

@media(prefers-color-scheme:dark){
.mtp text{fill:#9ca3af}.mtp .ti{fill:#f3f4f6}
.mtp .bg{fill:#111827}.mtp .gr{stroke:#2a3340}.mtp .ax{stroke:#6b7280}.mtp .er{stroke:#d1d5db}
.mtp .on{fill:#111}.mtp .off{fill:#fff}
]] .. colour_rules('c', style.dark_palette) .. '}\n'

-- The canvas: a list of pieces with the figure's geometry -----------------------------------------

local function add(c, format, ...)
  c[#c + 1] = select('#', ...) > 0 and format:format(...) or format
end

--- Adds a text; `extra` has attributes.
local function label(c, x, y, anchor, text, extra)
  add(c, '<text x="%s" y="%s" text-anchor="%s"%s>%s</text>\n', px(x), px(y), anchor, extra or '', escape(text))
end

function canvas.title(c, title, room)
  if title then label(c, c.left, 28, 'start', fit(tostring(title), 17, room), ' class="ti"') end -- bold
end

--- Returns the attribute of what has the colour of a series, as currentColor.
function canvas.ink(c, s)
  if s.rgb then return ('style="color:%s"'):format(s.rgb) end
  return ('class="%s%d"'):format(c.fig.kind == 'contour' and 'p' or 'c', style.place(s))
end

--- Returns the SVG document of a drawing's pieces; inline=true omits style and background, for pages with canvas.css.
function canvas.document(pieces, width, height, title, inline)
  local page = inline and '' or '<style>' .. canvas.css .. '</style>\n<rect class="bg" width="100%" height="100%"/>\n'
  local size = (inline and 'style="max-width:%spx"' or 'width="%s" height="%s"'):format(px(width), px(height))
  return ('<svg xmlns="http://www.w3.org/2000/svg" class="mtp" viewBox="0 0 %s %s" %s role="img">\n'):format(
    px(width), px(height), size) .. '<title>' .. escape(title) .. '</title>\n' .. page .. concat(pieces) .. '</svg>\n'
end

canvas.escape, canvas.px, canvas.text_width, canvas.fit = escape, px, text_width, fit
canvas.add, canvas.label = add, label

return canvas
