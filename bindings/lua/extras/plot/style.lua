-- style.lua -- colours, line styles and markers of the series of a plot, by matplotlib's names
local extend = require('mtorch').extend
local util = extend.util
local data = require 'mtorch.extras.plot.data'

local fail = extend.fail

local style = {}

-- Colour-blind-safe on white: Okabe and Ito's set, made darker, and four more; lighter variants for dark pages.
style.palette = {'#0072b2', '#d55e00', '#009e73', '#b8609a', '#c98a00', '#4aa3d8', '#7a5230', '#555555', '#5b3fd6',
                 '#e8718d', '#1c1830', '#00404d'}
style.dark_palette = {'#58aeea', '#ff8f4d', '#35c99b', '#e69ac6', '#f0bc42', '#a3d8fa', '#c99a72', '#bbbbbb', '#8a7bff',
                      '#e0506e', '#fff3c4', '#5a7878'}

local named = {}
for name, colour in ([[black #000000 gray #808080 grey #808080 silver #c0c0c0 white #ffffff red #ff0000 green #008000
    blue #0000ff cyan #00ffff magenta #ff00ff yellow #ffff00 orange #ffa500 purple #800080 brown #a52a2a pink #ffc0cb
    olive #808000 navy #000080 teal #008080 lime #00ff00 maroon #800000 gold #ffd700 crimson #dc143c coral #ff7f50
    salmon #fa8072 indigo #4b0082 violet #ee82ee turquoise #40e0d0 r #ff0000 g #008000 b #0000ff c #00bfbf m #bf00bf
    y #bfbf00 k #000000 w #ffffff]]):gmatch('(%a+) (#%x+)') do
  named[name] = colour
end

--- The lengths of dashes and gaps, in widths of the line.
style.dashes = {['-'] = {}, ['--'] = {3.7, 1.8}, [':'] = {1, 1.65}, ['-.'] = {6.4, 1.6, 1, 1.6}}

-- What further series have when the palette begins again.
local dash_cycle, marker_cycle = {'-', '--', ':', '-.'}, {'o', 'x', '^', 's', '+', 'd', 'v', '*'}
local is_marker = util.set{'.', unpack(marker_cycle)}

--- Returns the line style and the marker of a text such as '--', 'o' or 'o-'.
local function parts_of(op, text)
  if style.dashes[text] then return text end
  local first, rest = text:sub(1, 1), text:sub(2)
  if is_marker[first] and (rest == '' or style.dashes[rest]) then return style.dashes[rest] and rest, first end
  local last = text:sub(-1)
  if is_marker[last] and style.dashes[text:sub(1, -2)] then return text:sub(1, -2), last end
  fail("%s: style '%s' is unknown: lines are - -- : -. and markers . o x + * ^ v s d, or both as 'o-'; a colour " ..
    'is color=', op, text)
end

--- Returns the number of a colour of the palette, or `default` and '#rrggbb'.
local function colour_of(op, name, default)
  local number, colour = tonumber(name), named[name:lower()] or name:match('^#%x%x%x%x%x%x$')
  if number and number >= 1 and number % 1 == 0 then return number end
  if colour then return default, colour end
  fail("%s: color '%s' is neither '#rrggbb' nor a number of the palette nor a name%s", op, name,
    util.hint(name, util.sorted_keys(named)))
end

--- Sets what series look like, by their own options, else by the figure's, which may be lists with one per series:
--- colour (a number of the palette), rgb if it is another one, dash, marker and glyph, and width.
function style.apply(op, series, opts)
  local lists = {}
  for _, name in ipairs{'color', 'style'} do
    local given = opts[name]
    if type(util.plain(given)) == 'table' then
      lists[name] = data.texts(op, name, given, #series, 'one per series')
    elseif given ~= nil and type(given) ~= 'string' and type(given) ~= 'number' then
      fail('%s: %s is %s, expected a text, or a list with one per series', op, name, extend.describe(given))
    end
  end
  for i, s in ipairs(series) do
    local function option(name)
      local value = s[name] or lists[name] and lists[name][i] or not lists[name] and opts[name]
      return value and tostring(value)
    end
    local color, look = option 'color', option 'style'
    local round = color and 0 or math.floor((i - 1) / #style.palette)
    s.colour, s.width = i, s.linewidth or opts.linewidth
    if color then s.colour, s.rgb = colour_of(op, color, i) end
    if look then
      s.dash, s.marker = parts_of(op, look)
      s.glyph = s.marker -- of a terminal without colours
    elseif s.kind == 'scatter' then s.marker = marker_cycle[round % #marker_cycle + 1]
    elseif s.kind == 'line' then s.dash = dash_cycle[round % #dash_cycle + 1] end
  end
  return series
end

--- Returns the position of a series' colour in the palette.
function style.place(s) return (s.colour - 1) % #style.palette + 1 end

--- Returns red, green, blue (0..255) of a series on a dark page.
function style.rgb(s)
  local text = s.rgb or style.dark_palette[style.place(s)]
  return tonumber(text:sub(2, 3), 16), tonumber(text:sub(4, 5), 16), tonumber(text:sub(6, 7), 16)
end

return style
