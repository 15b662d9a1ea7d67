-- rows.lua -- the rows of the benchmark: their names, their inputs, and the call of each contender
--
-- A row is one call row(group, name, inputs, sides). `inputs` is text, `x=1024x1024 i=index10:5`: a name, a kind (none:
-- 0.5..1.5; uniformLO,HI; normal; indexN: positions from 1, in Python from 0; intN: 0..N; bool; zeros; leaf before a
-- kind: requires a gradient) and a shape. `sides` has ours at [1] and the peers' by name (torch, torch_compile, jax,
-- numpy, numba, cblas, cpp ..): the text of the call, or {setup, call}. torch_compile and JAX compile a plain
-- expression themselves. Options among the sides: unit = 'MiB'; copies: memcpy is a limit of the row;
-- reports: the call returns its own figure; fresh: the first call in a new process counts; slow: three turns suffice.
local rows = {}

--- The contenders that are mtorch itself, with their variables of the environment.
rows.own = {mtorch = '', no_onednn = 'MTORCH_ONEDNN=off', avx2 = 'MTORCH_ISA=avx2', two_threads = ''}
-- Groups of rows that oneDNN may compute.
local onednn = {products = true, convolutions = true, ['training steps'] = true, ['whole networks'] = true}

--- Returns a contender's setup and call in a row, or nil if it has none.
function rows.side(row, contender)
  local sides = row.sides
  local side = sides[contender]
  if rows.own[contender] or contender == 'copy' and sides.copies then side = sides[1] end
  if contender == 'no_onednn' and not onednn[row.group] then return nil end
  if type(side) == 'table' then return side[1], side[2] end
  return side and '', side
end

--- Returns all rows for which `selected(name, group)` is true, in order; `o` has quick, device, sizes.
function rows.all(o, selected)
  local list = {}
  local function row(group, name, inputs, sides)
    if selected(name, group) then list[#list + 1] = {group = group, name = name, inputs = inputs, sides = sides} end
  end
  if o.device ~= 'cpu' then require 'bench.gpu'(row, o) end
  require 'bench.elementwise'(row, o)
  require 'bench.arrays'(row, o)
  if o.device == 'cpu' then
    require('bench.functions').add(row, o)
    require 'bench.convolutions'(row, o)
    require('bench.loaders').add(row)
  end
  require('bench.whole_networks').add_steps(row)
  if o.device == 'cpu' then
    require('bench.whole_networks').add(row, o)
  end
  require 'bench.jobs'(row, o)
  return list
end

return rows
