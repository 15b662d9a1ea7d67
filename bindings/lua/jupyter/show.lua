-- show.lua -- values as Jupyter shows them: MIME types with their content, for the result of a cell
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local prompt = require 'mtorch.help.prompt'

local escape = mt.plot.escape
local max_rows, max_columns, edge = 20, 12, 5 -- a larger matrix is shown by its edges

local function details(summary, body, open)
  return ('<details%s><summary>%s</summary>%s</details>'):format(open and ' open' or '', summary, body)
end

local function pre(text) return '<pre style="margin:0">' .. escape(text) .. '</pre>' end

-- ---- tensors ------------------------------------------------------------------------------------

--- The positions to show of n: all, or the first and the last ones with 0 for what lies between.
local function shown_positions(n, limit)
  local list = {}
  for i = 1, n do
    if n <= limit or i <= edge or i > n - edge then list[#list + 1] = i
    elseif list[#list] ~= 0 then list[#list + 1] = 0 end
  end
  return list
end

--- A vector or matrix as an HTML table with its positions at the edges; numbers with 5 digits.
local function grid(x)
  local matrix = x:dim() == 1 and x:unsqueeze(1) or x
  local rows, columns = shown_positions(matrix:size(1), max_rows), shown_positions(matrix:size(2), max_columns)
  local function element(i, j)
    if i == 0 or j == 0 then return '..' end
    local value = matrix[{i, j}]:item()
    return type(value) == 'number' and util.number_text(value, 5) or tostring(value)
  end
  local head = {'<tr><th></th>'}
  for _, j in ipairs(columns) do head[#head + 1] = ('<th>%s</th>'):format(j == 0 and '..' or j) end
  local lines = {table.concat(head) .. '</tr>'}
  for _, i in ipairs(rows) do
    local cells = {('<tr><th>%s</th>'):format(i == 0 and '..' or x:dim() == 1 and '' or i)}
    for _, j in ipairs(columns) do cells[#cells + 1] = ('<td>%s</td>'):format(element(i, j)) end
    lines[#lines + 1] = table.concat(cells) .. '</tr>'
  end
  return '<table>' .. table.concat(lines, '\n') .. '</table>'
end

--- Whether x is uint8 in the shape of an image [c x h x w], or of a batch [n x c x h x w], as mt.data.image reads them.
local function is_picture(x)
  local d = x:dim()
  if x.dtype ~= 'uint8' or d < 3 or d > 4 or x:numel() == 0 then return false end
  local channels = x:size(-3)
  return (channels == 1 or channels == 3 or channels == 4) and x:size(-1) >= 4 and x:size(-2) >= 4
end

local max_pictures = 64

local function picture(x)
  if x:dim() == 3 then return (mt.plot.svg_image{x}) end
  return (mt.plot.svg_images{x:narrow(1, 1, math.min(x:size(1), max_pictures))})
end

local function tensor_html(x)
  local facts = ('<b>%s</b> (%s) %s'):format(x.dtype, table.concat(x.shape, ' x '), escape(x.device))
  if x.requires_grad then facts = facts .. ' requires_grad' end
  if (x:dim() == 1 or x:dim() == 2) and x:numel() > 0 then return '<div>' .. facts .. '</div>' .. grid(x:detach()) end
  return '<div>' .. facts .. '</div>' .. pre((tostring(x):gsub('\n?%[[^%[]*%]$', '')))
end

-- ---- modules ------------------------------------------------------------------------------------

--- A module and the modules inside it, with the number of parameters of each.
local function module_html(net, name, depth)
  local line, parameters = tostring(net):match '^[^\n]*', tostring(net):match '  ([%d,]+ parameters)$'
  local children = {}
  for child_name, child in net:named_children() do
    children[#children + 1] = module_html(child, child_name, depth + 1)
  end
  line = line:gsub('  [%d,]+ parameters$', ''):gsub('%($', '')
  local label = ('%s<b>%s</b>%s'):format(name and escape(name) .. ': ' or '', escape(line),
    parameters and ' <i>' .. parameters .. '</i>' or '')
  local tree = #children > 0 and details(label, table.concat(children), depth < 2) or label
  return '<div style="margin-left:1.2em">' .. tree .. '</div>'
end

-- ---- any value ----------------------------------------------------------------------------------

local show = {}

--- The MIME types of a value: text/plain always, and what suits it better.
function show.bundle(value)
  local bundle = {['text/plain'] = prompt.text(value)}
  if mt.is_tensor(value) then
    if is_picture(value) then bundle['image/svg+xml'] = picture(value)
    else bundle['text/html'] = tensor_html(value) end
  elseif require('mtorch.nn.class').is_module(value) then
    bundle['text/html'] = module_html(value, nil, 1)
  end
  return bundle
end

--- Text that opens at a click: what mt.profile and mt.explain print.
function show.folded(title, text) return {['text/plain'] = text, ['text/html'] = details(escape(title), pre(text))} end

return show
