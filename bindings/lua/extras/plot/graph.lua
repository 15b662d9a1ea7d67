-- graph.lua -- mt.plot.graph: what led to a tensor, as SVG, as DOT (Graphviz) or as text.
local extend = require('mtorch').extend
local util = extend.util
local layered = require 'mtorch.extras.plot.layered'
local svg = require 'mtorch.extras.plot.svg'

local concat, max = table.concat, math.max
local most = 1000 -- operations and parameters of a drawing

local graph = {}

-- The tensors of `params` with their names: a module, or a table by name or of a list.
local function named(op, params)
  local list = {}
  if params == nil then return list end
  if type(params) ~= 'table' then
    extend.fail('%s: params is %s, expected a module or a table {name = tensor}', op, extend.describe(params))
  end
  local named_parameters = params.named_parameters
  if named_parameters then
    for name, p in named_parameters(params) do list[#list + 1] = {name, p} end
    return list
  end
  local is_tensor = require('mtorch').is_tensor
  for _, key in ipairs(util.sorted_keys(params)) do
    if not is_tensor(params[key]) then
      extend.fail('%s: params.%s is %s, expected a tensor', op, tostring(key), extend.describe(params[key]))
    end
    list[#list + 1] = {tostring(key), params[key]}
  end
  return list
end

-- Shapes that the graph does not hold but that follow: those of elementwise operations' results and inputs.
local function infer_shapes(entries)
  for i = #entries, 1, -1 do
    local e = entries[i]
    for _, k in ipairs(e.elementwise and e.inputs or {}) do
      e.shape = e.shape or k and entries[k].shape
    end
  end
  for _, e in ipairs(entries) do
    for _, k in ipairs(e.elementwise and e.inputs or {}) do
      if k and not entries[k].shape then entries[k].shape = e.shape end
    end
  end
end

local function shape_text(shape, by)
  if not shape then return nil end
  return #shape == 0 and 'scalar' or concat(shape, by)
end

--- The graph as a list, the result first: {name=, shape=, leaf=, inputs={positions}, named=}.
function graph.collect(op, loss, params)
  if not require('mtorch').is_tensor(loss) then
    extend.fail('%s: %s is not a tensor: give a loss', op, extend.describe(loss))
  end
  local entries, names = extend.describe_graph(op, loss, most), named(op, params)
  infer_shapes(entries)
  for _, e in ipairs(entries) do
    local inputs = {}
    for _, k in ipairs(e.inputs) do if k then inputs[#inputs + 1] = k end end
    e.inputs, e.name = inputs, e.name:gsub('^result of .*', 'result')
    if e.leaf then
      e.name = 'parameter'
      for k, pair in ipairs(names) do
        if pair[2] == e.leaf then
          e.name, e.named = pair[1], true
          table.remove(names, k)
          break
        end
      end
    end
  end
  return entries
end

-- SVG -----------------------------------------------------------------------------------------------

local function box(e)
  local shape = shape_text(e.shape, ' × ')
  local wide = max(svg.text_width(util.truncate(e.name, 40), 12.5) * 1.08, shape and svg.text_width(shape, 11) or 0)
  return {width = max(wide + 22, 44), height = shape and 40 or 26, shape = shape,
    light = e.leaf ~= nil}
end

local function edge_path(p)
  local out = {('M%s %s'):format(svg.px(p[1]), svg.px(p[2]))}
  for i = 3, #p, 2 do
    local x0, y0, x1, y1 = p[i - 2], p[i - 1], p[i], p[i + 1]
    if i == #p - 1 then y1 = y1 - 6 end -- room for the arrow
    if x0 == x1 then out[#out + 1] = ('V%s'):format(svg.px(y1))
    else
      local middle = svg.px((y0 + y1) / 2)
      out[#out + 1] = ('C%s %s %s %s %s %s'):format(svg.px(x0), middle, svg.px(x1), middle, svg.px(x1), svg.px(y1))
    end
  end
  return concat(out)
end

local function draw_box(out, e, b, root)
  local class = root and 'rt' or e.leaf and 'lf' or 'nd'
  out[#out + 1] = ('<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="%s"/>\n'):format(class,
    svg.px(b.x - b.width / 2), svg.px(b.y - b.height / 2), svg.px(b.width), svg.px(b.height), e.leaf and 3 or 9)
  svg.label(out, b.x, b.y + (b.shape and -2 or 4), 'middle', util.truncate(e.name, 40), ' class="nm"')
  if b.shape then svg.label(out, b.x, b.y + 13, 'middle', b.shape, ' font-size="11"') end
end

local function draw_svg(entries, title, how)
  local boxes, edges, top = {}, {}, title and 34 or 0
  for i, e in ipairs(entries) do
    boxes[i] = box(e)
    for _, k in ipairs(e.inputs) do edges[#edges + 1] = {k, i} end
  end
  local width, height = layered.lay_out(boxes, edges, 18, 26)
  width = max(width, title and svg.text_width(title, 15) or 0) + 32
  local out, lines, heads = {}, {}, {}
  if title then svg.label(out, 16, 28, 'start', title, ' class="ti"') end
  for i, e in ipairs(edges) do
    lines[i] = edge_path(e.points)
    heads[i] = ('M%s %sl-3.5 -7h7z'):format(svg.px(e.points[#e.points - 1]), svg.px(e.points[#e.points]))
  end
  out[#out + 1] = ('<g transform="translate(16 %d)">\n<path class="ax" fill="none" d="%s"/>\n'):format(16 + top,
    concat(lines))
  out[#out + 1] = '<path class="ah" d="' .. concat(heads) .. '"/>\n'
  for i, e in ipairs(entries) do draw_box(out, e, boxes[i], i == 1) end
  out[#out + 1] = '</g>\n'
  return svg.document(out, width, height + 32 + top, title or 'graph', how and how.inline)
end

-- DOT and text ----------------------------------------------------------------------------------------

local function quoted(...) -- lines
  local lines = {...}
  for i, line in ipairs(lines) do lines[i] = line:gsub('[\\"]', '\\%0'):gsub('%c', ' ') end
  return '"' .. concat(lines, '\\n') .. '"'
end

local function draw_dot(entries, title)
  local out = {'digraph {\n  node [shape=box, style="rounded,filled", fillcolor="#f3f4f6", fontname="sans-serif"];\n'}
  if title then out[2] = '  label=' .. quoted(title) .. ';\n' end
  for i, e in ipairs(entries) do
    local shape = shape_text(e.shape, ' x ')
    local colour = i == 1 and ', fillcolor="#dcfce7"' or e.leaf and ', style=filled, fillcolor="#dbeafe"' or ''
    out[#out + 1] = ('  n%d [label=%s%s];\n'):format(i, quoted(e.name, shape), colour)
  end
  for i, e in ipairs(entries) do
    for _, k in ipairs(e.inputs) do out[#out + 1] = ('  n%d -> n%d;\n'):format(k, i) end
  end
  out[#out + 1] = '}\n'
  return concat(out)
end

-- One line for each operation, its parameters behind it; a branch for each input where there are several.
local function draw_text(entries, utf8)
  local sign = utf8 and {fork = '├─ ', last = '└─ ', bar = '│  ', from = '  ← '} or
    {fork = '|- ', last = '`- ', bar = '|  ', from = '  <- '}
  local users, label, labels, out = {}, {}, 0, {}
  for _, e in ipairs(entries) do
    for _, k in ipairs(e.inputs) do users[k] = (users[k] or 0) + 1 end
  end
  local function show(e) return e.name .. (e.shape and ' (' .. shape_text(e.shape, ', ') .. ')' or '') end
  local function branch(i, first, rest)
    while i do
      local e, ops, leaves = entries[i], {}, {}
      if label[i] then
        out[#out + 1] = first .. '[' .. label[i] .. '] ' .. e.name
        return
      end
      for _, k in ipairs(e.inputs) do
        if entries[k].leaf then leaves[#leaves + 1] = show(entries[k]) else ops[#ops + 1] = k end
      end
      local mark = ''
      if (users[i] or 0) > 1 then
        labels = labels + 1
        label[i], mark = labels, '[' .. labels .. '] '
      end
      out[#out + 1] = first .. mark .. show(e) .. (leaves[1] and sign.from .. concat(leaves, ', ') or '')
      if #ops > 1 then
        for n, k in ipairs(ops) do
          branch(k, rest .. (n < #ops and sign.fork or sign.last), rest .. (n < #ops and sign.bar or '   '))
        end
      end
      first, i = rest, #ops == 1 and ops[1] or nil
    end
  end
  branch(1, '', '')
  return concat(out, '\n') .. '\n'
end

--- The SVG text; `how` as in svg.draw.
function graph.svg(op, loss, params, title, how)
  return draw_svg(graph.collect(op, loss, params), title, how)
end

--- Draws the graph into a file (.svg, .png, .dot, .gv) and returns its path, or as text on stdout.
function graph.show(loss, path, params, title)
  local op = 'plot.graph'
  local kind = path and tostring(path):lower():match('[^/]%.(%w+)$')
  if path and not ({svg = true, png = true, dot = true, gv = true})[kind] then
    extend.fail("%s: cannot write '%s': use a path ending in .svg, .png or .dot", op, tostring(path))
  end
  local entries = graph.collect(op, loss, params)
  if not path then
    io.stdout:write(title and title .. '\n' or '', draw_text(entries, util.utf8()))
    io.stdout:flush()
    return
  end
  local text = (kind == 'svg' or kind == 'png') and draw_svg(entries, title) or draw_dot(entries, title)
  return (util.write_file(op, path, kind == 'png' and require('mtorch.extras.plot.raster').png(text) or text))
end

return graph
