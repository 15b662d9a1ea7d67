-- contour.lua -- contour lines of a grid by marching squares, as closed outlines or open lines
local sorted_keys = require('mtorch').extend.util.sorted_keys

local contour = {}
local huge = math.huge

--- Adds a border of -inf to the grid, and replaces NaN by -inf, so that every outline of z >= level is closed.
local function with_border(z)
  local rows, cols, out = #z, #z[1], {}
  for i = 0, rows + 1 do
    local row, from = {}, z[i]
    for j = 0, cols + 1 do
      local v = from and from[j] or -huge
      row[j + 1] = (v == v and v < huge) and v or -huge
    end
    out[i + 1] = row
  end
  return out
end

--- Returns the graph of crossings: each crossed edge has an id and at most two neighbours.
local function crossings(z, level, closed)
  local rows, cols, first, second = #z, #z[1], {}, {}
  local function join(a, b)
    if first[a] then second[a] = b else first[a] = b end
    if first[b] then second[b] = a else first[b] = a end
  end
  for i = 1, rows - 1 do
    local low, high = z[i], z[i + 1]
    for j = 1, cols - 1 do
      local a, b, c, d = low[j], low[j + 1], high[j + 1], high[j] -- around the cell
      local sum, at = a + b + c + d, 2 * ((i - 1) * cols + j - 1)
      local bottom, right, top, left = at, at + 3, at + 2 * cols, at + 1
      local ia, ib, ic, id = a >= level, b >= level, c >= level, d >= level
      local crossed = not (ia == ib and ib == ic and ic == id) and (closed or sum == sum and math.abs(sum) < huge)
      if crossed and ia == ic and ib == id then -- a saddle point: the mean of the corners decides
        local same = ia == (sum / 4 >= level)
        join(left, same and top or bottom)
        join(right, same and bottom or top)
      elseif crossed then
        local from
        for edge, differs in pairs{[bottom] = ia ~= ib, [right] = ib ~= ic, [top] = ic ~= id, [left] = id ~= ia} do
          if differs and from then join(from, edge) elseif differs then from = edge end
        end
      end
    end
  end
  return first, second
end

--- Returns the position of a crossing, in columns and rows of the original grid.
local function position_of(z, id, level, closed)
  local cols = #z[1]
  local cell, upright = math.floor(id / 2), id % 2
  local i, j = math.floor(cell / cols) + 1, cell % cols + 1
  local a, b = z[i][j], upright == 1 and z[i + 1][j] or z[i][j + 1]
  local t = (level - a) / (b - a)
  if a == -huge then t = 1 elseif b == -huge then t = 0 end
  if t ~= t then t = 0.5 end
  local x, y = j + (upright == 0 and t or 0), i + (upright == 1 and t or 0)
  if not closed then return x, y end
  return math.min(math.max(x - 1, 1), cols - 2), math.min(math.max(y - 1, 1), #z - 2)
end

--- Returns the lines where the grid z (rows of numbers) crosses `level`: a list of {x1, y1, x2, y2, ..}
--- in columns and rows. With closed=true these are outlines of z >= level, also along the border, with
--- NaN outside; else only the crossings, with gaps at NaN.
function contour.lines(z, level, closed)
  if closed then z = with_border(z) end
  local first, second = crossings(z, level, closed)
  local done, lines = {}, {}
  local function trace(id)
    local line = {}
    while id and not done[id] do
      done[id] = true
      line[#line + 1], line[#line + 2] = position_of(z, id, level, closed)
      local a, b = first[id], second[id]
      id = a and not done[a] and a or b and not done[b] and b or nil
    end
    return line
  end
  local ids = sorted_keys(first)
  for _, id in ipairs(ids) do -- open lines start at an end, so that each is one piece
    if not done[id] and not second[id] then lines[#lines + 1] = trace(id) end
  end
  for _, id in ipairs(ids) do
    if not done[id] then
      local line = trace(id)
      line[#line + 1], line[#line + 2] = line[1], line[2]
      lines[#lines + 1] = line
    end
  end
  return lines
end

return contour
