-- pictures.lua -- parts of a report's page: images, filters of the first layer, confusion matrix, graph
local mt = require 'mtorch'
local extend = mt.extend
local util = extend.util
local parts = require 'mtorch.extras.report.parts'

local pictures = {}

local max_tiles = 64

--- Whether a value is one image or several, and the arguments that draw it: x may be {x, title=, ..}.
local function drawn(x)
  local is_arguments = type(x) == 'table' and not getmetatable(x) and x[1] ~= nil and
    (mt.is_tensor(x[1]) or type(x[1]) == 'table') and not util.is_list(x)
  local args = is_arguments and util.merged(x) or {x}
  local of = args[1]
  local one = mt.is_tensor(of) and (of:dim() == 2 or of:dim() == 3 and (#of == 1 or #of == 3) and not args.labels)
  if mt.is_tensor(of) then args[1] = of:detach():cpu() end
  if one then args.cols, args.labels = nil, nil end
  return one and 'image' or 'images', args
end

--- Draws a tensor or list of images, arguments {x, title=, labels=, cols=, ..} of plot.images, or a list of these.
function pictures.images(images)
  local several = type(images) == 'table' and not getmetatable(images) and images.title == nil and
    type(images[1]) == 'table' and not getmetatable(images[1]) and type(images[1][1]) ~= 'number'
  local cards = {}
  for i, x in ipairs(several and images or {images}) do
    local kind, args = drawn(x)
    cards[i] = parts.figure(kind, args, ('report: images[%d]'):format(i))
  end
  return parts.grid(cards)
end

--- Converts weights to images [n x channels x h x w], or nil if that is impossible.
local function as_pictures(w)
  if w:dim() == 4 and w.shape[3] > 1 and w.shape[4] > 1 then
    local n, channels, h, wide = unpack(w.shape)
    return channels == 3 and w or w:reshape(n * channels, 1, h, wide)
  end
  local side = w:dim() == 2 and math.sqrt(w.shape[2])
  if side and side % 1 == 0 and side >= 4 then return w:reshape(#w, 1, side, side) end
end

--- Draws the weights of a network's first layer (a convolution, or a linear layer of square images), or of a tensor.
function pictures.filters(net)
  local w = mt.is_tensor(net) and as_pictures(net:detach()) or nil
  if not w and type(net) == 'table' and net.parameters then
    for _, p in ipairs(net:parameters()) do w = w or as_pictures(p:detach()) end
  end
  extend.check(w, 'report: filters: no weights that are pictures: give a tensor [n x channels x h x w], or a ' ..
    'network with a convolution')
  local n = #w
  w = w[{{1, math.min(n, max_tiles)}}]:float():cpu()
  local most = math.max(w:abs():max():item(), 1e-12)
  local args = {w, title = n > max_tiles and ('The first %d of %d filters'):format(max_tiles, n) or
    ('%d filters'):format(n), cmap = 'diverging', vmin = -most, vmax = most}
  if w.shape[2] == 3 then args[1], args.cmap, args.vmin, args.vmax = w / (2 * most) + 0.5, nil, 0, 1 end
  return parts.figure('images', args, 'report: filters')
end

--- Returns precision and recall of each class.
local function class_table(matrix, names)
  local m, rows = mt.tensor(matrix, {dtype = 'float64'}), {{'class', 'examples', 'precision', 'recall', 'F1'}}
  local hit, truth, said = m:diagonal(), m:sum(2), m:sum(1)
  local rates = mt.stack({hit / said, hit / truth, 2 * hit / (truth + said)}, 2):nan_to_num(0)
  for k, rate in ipairs(((rates * 1000 + 0.5):floor() / 1000):tolist()) do
    rows[k + 1] = {tostring(names and names[k] or k), truth[k]:item(), unpack(rate)}
  end
  return parts.rows(rows)
end

--- Draws a confusion matrix (a row for each true class, a column for each predicted class), {matrix, classes=, title=},
--- or the result of an object's compute().
function pictures.confusion(given)
  local args = type(given) == 'table' and (given.matrix or given.classes or given.title or
    not getmetatable(given) and mt.is_tensor(given[1])) and given or {given}
  local matrix = args.matrix or args[1]
  if type(matrix) == 'table' and type(matrix.compute) == 'function' then matrix = matrix:compute() end
  local z = require('mtorch.extras.plot.data').matrix('report: confusion', matrix)
  if #z ~= #z[1] then extend.fail('report: confusion is %d x %d, expected a square matrix', #z, #z[1]) end
  local names = util.plain(args.classes)
  local size = math.min(220 + 44 * #z, 720)
  local cards = {(parts.figure('heatmap', {z, rows = names, cols = names, title = args.title or 'Confusion matrix',
    xlabel = 'predicted', ylabel = 'true', width = size + 60, height = size}, 'report: confusion'))}
  if #z <= 30 then cards[2] = class_table(z, names) end
  return parts.grid(cards)
end

--- Draws the graph of a loss, or of {loss, params=, title=}: SVG by Graphviz if it is found, else text.
function pictures.graph(graph)
  local args = type(graph) == 'table' and not getmetatable(graph) and graph or {graph}
  local svg, text = require('mtorch.extras.plot.graph').inline('report: graph', args[1], args.params, args.title)
  return svg and parts.card(svg) or parts.text(text)
end

--- Returns the text of print(net).
function pictures.network(net) return parts.text(tostring(net)) end

return pictures
