-- contour.lua -- Level lines of a grid by marching squares, as closed outlines or open lines.
local contour = {}

local huge = math.huge

-- The grid with a border of -inf and NaN made -inf: every outline of z >= level is then closed.
local function fenced(z)
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

-- Which edges of a cell are joined, by the corners that are inside: 1 = (i, j), 2 = (i, j+1),
-- 4 = (i+1, j+1), 8 = (i+1, j). Edges: b (row i), t (row i+1), l (column j), r (column j+1).
local joins = {
  [1] = {'l', 'b'}, [2] = {'b', 'r'}, [3] = {'l', 'r'}, [4] = {'r', 't'}, [6] = {'b', 't'},
  [7] = {'l', 't'}, [8] = {'t', 'l'}, [9] = {'t', 'b'}, [11] = {'t', 'r'}, [12] = {'r', 'l'},
  [13] = {'r', 'b'}, [14] = {'b', 'l'},
}
local saddle_apart = {[5] = {'l', 'b', 'r', 't'}, [10] = {'b', 'r', 't', 'l'}}
local saddle_joined = {[5] = {'l', 't', 'r', 'b'}, [10] = {'b', 'l', 't', 'r'}}

local function case_of(a, b, c, d, level)
  return (a >= level and 1 or 0) + (b >= level and 2 or 0) + (c >= level and 4 or 0) +
         (d >= level and 8 or 0)
end

-- The graph of crossings: each crossed edge has an id and at most two neighbours.
local function crossings(z, level, closed)
  local rows, cols, first, second = #z, #z[1], {}, {}
  local function join(a, b)
    if first[a] then second[a] = b else first[a] = b end
    if first[b] then second[b] = a else first[b] = a end
  end
  for i = 1, rows - 1 do
    local low, high = z[i], z[i + 1]
    for j = 1, cols - 1 do
      local a, b, c, d = low[j], low[j + 1], high[j + 1], high[j]
      local sum = a + b + c + d
      local case = case_of(a, b, c, d, level)
      local pairs_of = joins[case]
      if case == 5 or case == 10 then
        pairs_of = (sum / 4 >= level and saddle_joined or saddle_apart)[case]
      end
      if pairs_of and (closed or (sum == sum and math.abs(sum) < huge)) then
        local at = 2 * ((i - 1) * cols + j - 1)
        local id = {b = at, l = at + 1, t = at + 2 * cols, r = at + 3}
        for k = 1, #pairs_of, 2 do join(id[pairs_of[k]], id[pairs_of[k + 1]]) end
      end
    end
  end
  return first, second
end

-- The place of a crossing, in columns and rows of the original grid.
local function place(z, id, level, closed)
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

--- The lines where the grid z (rows of numbers) crosses `level`: a list of {x1, y1, x2, y2, ..} in
--- columns and rows. closed=true: outlines of z >= level, along the border too, NaN is outside;
--- else the crossings alone, broken at NaN.
function contour.lines(z, level, closed)
  if closed then z = fenced(z) end
  local first, second = crossings(z, level, closed)
  local done, lines = {}, {}
  local function walk(id)
    local line = {}
    while id and not done[id] do
      done[id] = true
      line[#line + 1], line[#line + 2] = place(z, id, level, closed)
      local a, b = first[id], second[id]
      id = a and not done[a] and a or b and not done[b] and b or nil
    end
    return line
  end
  local ids = {}
  for id in pairs(first) do ids[#ids + 1] = id end
  table.sort(ids)
  for _, id in ipairs(ids) do -- open lines from an end, so that each comes in one piece
    if not done[id] and not second[id] then lines[#lines + 1] = walk(id) end
  end
  for _, id in ipairs(ids) do
    if not done[id] then
      local line = walk(id)
      line[#line + 1], line[#line + 2] = line[1], line[2]
      lines[#lines + 1] = line
    end
  end
  return lines
end

return contour
