-- puzzles_solutions.lua -- the solutions of puzzles.lua
return {
  map = function(out, a)
    local i = thread_idx.x
    out[i] = a[i] + 10
  end,

  zip = function(out, a, b)
    local i = thread_idx.x
    out[i] = a[i] * b[i]
  end,

  guard = function(out, a)
    local i = thread_idx.x
    if i <= #out then out[i] = a[i] + 10 end
  end,

  map2d = function(out, a)
    local i, j = grid(2)
    if i <= out.shape[1] and j <= out.shape[2] then out[i][j] = a[i][j] * a[i][j] end
  end,

  broadcast = function(out, a, b)
    local i, j = grid(2)
    if i <= out.shape[1] and j <= out.shape[2] then out[i][j] = a[i][1] + b[1][j] end
  end,

  blocks = function(out, a)
    local i = (block_idx.x - 1) * block_dim.x + thread_idx.x
    if i <= #out then out[i] = a[i] + 10 end
  end,

  blocks2d = function(out, a)
    local i, j = grid(2)
    if i <= out.shape[1] and j <= out.shape[2] then out[i][j] = a[j][i] + 1 end
  end,

  shared = function(out)
    local i, t = grid(1), thread_idx.x
    local cells = shared(4)
    cells[t] = out[i]
    barrier() -- all have stored before anybody reads, and all have read out before anybody writes it
    out[i] = cells[5 - t]
  end,

  pooling = function(out, a)
    local i = thread_idx.x
    local cells = shared(8)
    cells[i] = a[i]
    barrier()
    local sum = cells[i]
    if i > 1 then sum = sum + cells[i - 1] end
    if i > 2 then sum = sum + cells[i - 2] end
    out[i] = sum
  end,

  dot = function(out, a, b)
    local i = thread_idx.x
    local cells = shared(8)
    cells[i] = a[i] * b[i]
    barrier()
    local half = 4
    while half >= 1 do
      if i <= half then cells[i] = cells[i] + cells[i + half] end
      barrier() -- outside of the if: all threads of the block must come here
      half = math.floor(half / 2)
    end
    if i == 1 then out[1] = cells[1] end
  end,

  conv1d = function(out, a, b)
    local i, t = grid(1), thread_idx.x
    local cells = shared(11)
    cells[t] = i <= #a and a[i] or 0
    if t <= 3 then cells[t + 8] = i + 8 <= #a and a[i + 8] or 0 end
    barrier()
    if i <= #out then
      local sum = 0
      for k = 1, 4 do sum = sum + cells[t + k - 1] * b[k] end
      out[i] = sum
    end
  end,

  prefix = function(out, a)
    local i = thread_idx.x
    local cells = shared(8)
    cells[i] = a[i]
    barrier()
    local step = 1
    while step < 8 do
      local before = i > step and cells[i - step] or 0
      barrier() -- all have read before anybody writes
      cells[i] = cells[i] + before
      barrier()
      step = step * 2
    end
    out[i] = cells[i]
  end,

  axis = function(out, a)
    local row, i = block_idx.x, thread_idx.x
    local cells = shared(8)
    cells[i] = i <= a.shape[2] and a[row][i] or 0
    barrier()
    local half = 4
    while half >= 1 do
      if i <= half then cells[i] = cells[i] + cells[i + half] end
      barrier()
      half = math.floor(half / 2)
    end
    if i == 1 then out[row] = cells[1] end
  end,

  matmul = function(out, a, b)
    local i, j = grid(2)
    local x, y = thread_idx.x, thread_idx.y
    local left, right = shared(4, 4), shared(4, 4)
    local sum = 0
    for step = 0, a.shape[2] - 1, 4 do
      left[x][y] = i <= a.shape[1] and step + y <= a.shape[2] and a[i][step + y] or 0
      right[x][y] = step + x <= b.shape[1] and j <= b.shape[2] and b[step + x][j] or 0
      barrier()
      for k = 1, 4 do sum = sum + left[x][k] * right[k][y] end
      barrier()
    end
    if i <= out.shape[1] and j <= out.shape[2] then out[i][j] = sum end
  end,
}
