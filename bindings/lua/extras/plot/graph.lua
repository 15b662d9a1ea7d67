-- graph.lua -- mt.plot.graph: the autograd graph of a tensor, as text, as DOT text, or drawn by Graphviz
local extend = require('mtorch').extend
local util = extend.util
local data = require 'mtorch.extras.plot.data'
local svg = require 'mtorch.extras.plot.svg'

local concat = table.concat
local max_nodes = 1000 -- the maximum number of operations and parameters

local graph = {}

--- Returns the names of the tensors in `params`: a module, a table by name, or a list.
local function names_by_tensor(op, params)
  local list = {}
  if params == nil then return list end
  extend.check(type(params) == 'table',
    '%s: params is %s, expected a module or a table {name = tensor}', op, extend.describe(params))
  local named_parameters = params.named_parameters
  if named_parameters then
    for name, p in named_parameters(params) do list[#list + 1] = {name, p} end
    return list
  end
  local is_tensor = require('mtorch').is_tensor
  for _, key in ipairs(util.sorted_keys(params)) do
    extend.check(is_tensor(params[key]),
      '%s: params.%s is %s, expected a tensor', op, tostring(key), extend.describe(params[key]))
    list[#list + 1] = {tostring(key), params[key]}
  end
  return list
end

--- Infers missing shapes from the inputs and results of elementwise operations.
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

--- Returns the graph as a list, beginning with the result: {name=, shape=, leaf=, inputs={positions}, named=}.
function graph.collect(op, loss, params)
  extend.check(require('mtorch').is_tensor(loss), '%s: %s is not a tensor: give a loss', op, extend.describe(loss))
  local entries, names = extend.describe_graph(op, loss, max_nodes), names_by_tensor(op, params)
  infer_shapes(entries)
  for _, e in ipairs(entries) do
    e.inputs = util.filter(e.inputs, function(k) return k end)
    e.name = e.name:gsub('^result of .*', 'result')
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

-- DOT and text ----------------------------------------------------------------------------------------

local function quoted(...) -- lines
  local lines = util.map({...}, function(text)
    return (text:gsub('[\\"]', '\\%0'):gsub('&', '&amp;'):gsub('%c', ' '))
  end)
  return '"' .. concat(lines, '\\n') .. '"'
end

local dot_head = [[
digraph {
  graph [bgcolor=transparent, fontname="sans-serif", fontcolor="#6b7280", labelloc=t, ranksep=0.3, nodesep=0.2];
  node [shape=box, style="rounded,filled", color="#9ca3af", fillcolor="#f3f4f6", fontname="sans-serif", fontsize=12,
    height=0.4, margin="0.15,0.05"];
  edge [color="#9ca3af"];
]]

local function draw_dot(entries, title)
  local out = {dot_head, ''}
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

--- Returns the SVG element that Graphviz' program `dot` creates from DOT text, or nil if it is not found.
--- nslimit bounds the layout: hundreds of operations with shared inputs would take minutes.
local function draw_svg(dot_text)
  local path = os.tmpname()
  util.write_file('plot.graph', path, dot_text)
  local pipe = io.popen('command -v dot >/dev/null && dot -Gnslimit=2 -Tsvg ' .. path)
  local text = pipe:read('*a')
  pipe:close()
  os.remove(path)
  return text:match('<svg.*</svg>')
end

--- Returns the graph as text: a line for each operation with its parameters, and a branch for each of several inputs.
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

--- Returns the graph as SVG for an HTML page, or nil and the graph as text if Graphviz is not found.
function graph.inline(op, loss, params, title)
  local entries = graph.collect(op, loss, params)
  local drawn = draw_svg(draw_dot(entries, title))
  if not drawn then return nil, draw_text(entries, true) end
  return (drawn:gsub('width="(%d+pt)" height="%d+pt"', 'style="max-width:%1"', 1))
end

--- Draws the graph into a file (.svg, .png, .dot, .gv) and returns its path, or as text on stdout. Without Graphviz the
--- file is DOT text.
function graph.show(loss, path, params, title)
  local op = 'plot.graph'
  local kind
  if path then path, kind = data.check_path(op, path, 'svg', 'png', 'dot', 'gv') end
  local entries = graph.collect(op, loss, params)
  if not path then
    io.stdout:write(title and title .. '\n' or '', draw_text(entries, util.utf8()))
    io.stdout:flush()
    return
  end
  local text, drawn = draw_dot(entries, title), nil
  if kind == 'svg' or kind == 'png' then
    drawn = draw_svg(text)
    if not drawn then
      local wanted = path
      path = path:gsub('%w+$', 'dot')
      io.stderr:write(("%s: '%s' has DOT text in the place of '%s': Graphviz' program dot was not found; on Debian: " ..
        'apt-get install graphviz\n'):format(op, path, wanted))
    end
  end
  return (util.write_file(op, path, drawn and svg.file(op, path, drawn .. '\n') or text))
end

return graph
