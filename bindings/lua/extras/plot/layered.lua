-- layered.lua -- Places the boxes of an acyclic graph in layers (Sugiyama, Tagawa and Toda 1981).
local layered = {}

local floor, max, huge = math.floor, math.max, math.huge

-- Layers: 0 for a box that nothing uses; an input stands one layer above its furthest user.
local function ranks(count, edges)
  local rank, waiting, into = {}, {}, {}
  for i = 1, count do rank[i], waiting[i], into[i] = 0, 0, {} end
  for _, e in ipairs(edges) do
    waiting[e[1]] = waiting[e[1]] + 1
    table.insert(into[e[2]], e[1])
  end
  local ready = {}
  for i = 1, count do if waiting[i] == 0 then ready[#ready + 1] = i end end
  for k = 1, huge do
    local user = ready[k]
    if not user then return rank end
    for _, input in ipairs(into[user]) do
      rank[input] = max(rank[input], rank[user] + 1)
      waiting[input] = waiting[input] - 1
      if waiting[input] == 0 then ready[#ready + 1] = input end
    end
  end
end

-- The boxes, and a vertex without width in each layer that an edge passes through. A vertex knows its
-- neighbours in the layer above (inputs) and below (users). edge.via are the vertices from input to user.
local function vertices_of(nodes, edges)
  local rank, layers, all = ranks(#nodes, edges), {}, {}
  local function vertex(width, height, r)
    layers[r] = layers[r] or {}
    local v = {width = width, height = height, rank = r, above = {}, below = {}}
    table.insert(layers[r], v)
    return v
  end
  for i, node in ipairs(nodes) do
    all[i] = vertex(node.width, node.height, rank[i])
    all[i].light = node.light
  end
  for _, e in ipairs(edges) do
    local last = all[e[1]]
    e.via = {last}
    for r = rank[e[1]] - 1, rank[e[2]], -1 do
      local v = r == rank[e[2]] and all[e[2]] or vertex(0, 0, r)
      v.through = v ~= all[e[2]]
      table.insert(last.below, v)
      table.insert(v.above, last)
      table.insert(e.via, v)
      last = v
    end
  end
  return layers, all
end

local function number(layer)
  for i, v in ipairs(layer) do v.at = i end
end

-- How often edges between the layers r and r + 1 cross.
local function crossings(layers)
  local count = 0
  for r = 0, #layers - 1 do
    local seen = {} -- positions above, of the vertices from left to right
    for _, v in ipairs(layers[r]) do
      local from = #seen
      for _, u in ipairs(v.above) do
        for k = 1, from do if seen[k] > u.at then count = count + 1 end end
        seen[#seen + 1] = u.at
      end
    end
  end
  return count
end

local function sort_by_neighbours(layer, side)
  for i, v in ipairs(layer) do
    local sum = 0
    for _, u in ipairs(v[side]) do sum = sum + u.at end
    v.key = #v[side] > 0 and sum / #v[side] or v.at
    v.before = i
  end
  table.sort(layer, function(a, b)
    if a.key ~= b.key then return a.key < b.key end
    return a.before < b.before
  end)
  number(layer)
end

-- Orders each layer by the mean place of its neighbours, up and down, and keeps the order with fewest crossings.
local function order(layers)
  for r = 0, #layers do number(layers[r]) end
  local least = huge
  for sweep = 0, 12 do
    if sweep > 0 then
      local first, last, step = 1, #layers, 1
      if sweep % 2 == 0 then first, last, step = #layers - 1, 0, -1 end
      for r = first, last, step do sort_by_neighbours(layers[r], step == 1 and 'below' or 'above') end
    end
    local count = crossings(layers)
    if count < least then
      least = count
      for r = 0, #layers do
        for i, v in ipairs(layers[r]) do v.best = i end
      end
    end
    if count == 0 then break end
  end
  for r = 0, #layers do
    table.sort(layers[r], function(a, b) return a.best < b.best end)
    number(layers[r])
  end
end

-- Moves the vertices of a layer as near as they can come to where they want to be (least squares), in their
-- order and `gap` apart: isotonic regression by pooling adjacent violators.
local function settle(layer, gap)
  local blocks, offset = {}, 0
  for i, v in ipairs(layer) do
    local before = layer[i - 1]
    if before then
      offset = offset + (before.width + v.width) / 2 + ((before.through and v.through) and gap / 2 or gap)
    end
    v.offset = offset
    local block = {sum = (v.wanted - offset) * v.weight, weight = v.weight, first = i}
    while #blocks > 0 and blocks[#blocks].sum / blocks[#blocks].weight > block.sum / block.weight do
      local left = table.remove(blocks)
      block = {sum = left.sum + block.sum, weight = left.weight + block.weight, first = left.first}
    end
    blocks[#blocks + 1] = block
  end
  for k, block in ipairs(blocks) do
    for i = block.first, blocks[k + 1] and blocks[k + 1].first - 1 or #layer do
      layer[i].x = block.sum / block.weight + layer[i].offset
    end
  end
end

local function pull(layer, sides, gap)
  for _, v in ipairs(layer) do
    local sum, weight = 0, 0
    for _, side in ipairs(sides) do
      for _, u in ipairs(v[side]) do
        local w = (v.through and u.through) and 8 or (v.through or u.through) and 2 or 1 -- long edges are straight
        if u.light then w = w * 0.1 end
        sum, weight = sum + w * u.x, weight + w
      end
    end
    v.wanted, v.weight = weight > 0 and sum / weight or v.x, max(weight, 0.1) * (v.light and 0.05 or 1)
  end
  settle(layer, gap)
end

local function place(layers, gap)
  for r = 0, #layers do
    for _, v in ipairs(layers[r]) do v.wanted, v.weight, v.x = 0, 1, 0 end
    settle(layers[r], gap)
  end
  for sweep = 1, 24 do
    local sides = sweep > 16 and {'above', 'below'} or sweep % 2 == 1 and {'below'} or {'above'}
    local first, last, step = 0, #layers, 1
    if sweep % 2 == 0 then first, last, step = #layers, 0, -1 end
    for r = first, last, step do pull(layers[r], sides, gap) end
  end
end

--- Gives each of `nodes` ({width=, height=, light=true: gives way to others}) its middle, x and y, and each of `edges`
--- ({input, user}, numbers of nodes) its points {x1, y1, x2, y2, ..} from input to user; inputs stand above. Returns
--- width and height.
function layered.lay_out(nodes, edges, gap_x, gap_y)
  local layers, all = vertices_of(nodes, edges)
  order(layers)
  place(layers, gap_x)
  local y, left, right = 0, huge, -huge
  for r = #layers, 0, -1 do
    local height = 0
    for _, v in ipairs(layers[r]) do
      height = max(height, v.height)
      left, right = math.min(left, v.x - v.width / 2), max(right, v.x + v.width / 2)
    end
    for _, v in ipairs(layers[r]) do v.y, v.space = y + height / 2, height end
    y = y + height + gap_y
  end
  for i, node in ipairs(nodes) do node.x, node.y = floor(all[i].x - left + 0.5), all[i].y end
  for _, e in ipairs(edges) do
    e.points = {}
    for i, v in ipairs(e.via) do
      local half = v.through and v.space / 2 or v.height / 2
      local x = floor(v.x - left + 0.5)
      if i > 1 then table.insert(e.points, x) table.insert(e.points, v.y - half) end
      if i < #e.via then table.insert(e.points, x) table.insert(e.points, v.y + half) end
    end
    e.via = nil
  end
  return right - left, y - gap_y
end

return layered
