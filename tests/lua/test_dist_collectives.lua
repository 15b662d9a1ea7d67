-- test_dist_collectives.lua -- operations of mt.dist beside a plain calculation: random shapes, dtypes and groups
--
--   mtorch tests/lua/test_dist_collectives.lua [CASES [SEED]]      random cases, 100 by default
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local dist = mt.dist

if arg[1] ~= '--process' then
  test('one process', function()
    local x = mt.tensor{{1, 2}, {3, 4}}
    local all = dist.group{0}
    eq({dist.rank(all), dist.size(all)}, {0, 1})
    for _, group in ipairs{false, all} do
      group = group or nil
      eq(dist.reduce_scatter_(mt.zeros(4), x, {op = 'mean', group = group}):tolist(), {1, 2, 3, 4})
      eq(dist.all_gather_into_(mt.zeros(4), x, {group = group}):tolist(), {1, 2, 3, 4})
      eq(dist.gather(x, 0, {group = group})[1]:tolist(), x:tolist())
      eq(dist.scatter({x}, {group = group}):tolist(), x:tolist())
      eq(dist.all_to_all({x}, {group = group})[1]:tolist(), x:tolist())
      dist.barrier{group = group}
    end
    dist.print 'printed once'
  end)
  test('errors', function()
    raises(function() dist.group{} end, 'the list of ranks is empty')
    raises(function() dist.group{0, 1} end, 'group: rank 1; the processes are 0 to 0')
    raises(function() dist.barrier(3) end, 'a group, dist.group{0, 1}')
    raises(function() dist.send(mt.ones(1), 0) end, 'send: process 0; this is 0')
    raises(function() dist.recv({2}, 1) end, 'recv: process 1; this is 0')
    raises(function() dist.recv('x', 1) end, 'recv')
    raises(function() dist.recv({2}, 1, -1) end, 'recv: tag is %-1; it must be from 0 to 10000')
    raises(function() dist.reduce_scatter_(mt.zeros(2), mt.zeros(3)) end, 'float32 %(3%) is not 1 times float32 %(2%)')
    raises(function() dist.all_gather_into_(mt.zeros(2), mt.zeros(2, {dtype = 'int64'})) end, 'is not 1 times')
    raises(function() dist.scatter() end, 'scatter: 0 tensors for 1 processes')
    raises(function() dist.all_to_all{mt.ones(1), mt.ones(1)} end, 'all_to_all: 2 tensors for 1 processes')
    raises(function() dist.gather(mt.ones(1), 1) end, 'root is 1')
  end)
  if os.execute 'command -v mpirun >/dev/null' ~= 0 then
    print 'the rest is skipped: there is no mpirun'
  else
    test('4 processes', function()
      local text = t.processes(4, '', arg[1] or t.device and 60 or 100, arg[2] or 1)
      for r = 0, 2 do assert(text:find(('process %d of 4 is done'):format(r), 1, true), text) end
      assert(text:find 'from process%s0' and not text:find 'from process%s[123]', text)
      assert(text:find 'status 0', text)
    end)
  end
  t.finish()
  return
end

local rank, size = dist.init{timeout = 20}
local groups = {dist.group{0, 2}, dist.group{3, 1, 2}, dist.group{0, 1, 2, 3}}
local members = {{0, 2}, {1, 2, 3}, {0, 1, 2, 3}}
local everyone = {0, 1, 2, 3}
eq({dist.rank(groups[1]), dist.size(groups[2])}, {({0, -1, 1, -1})[rank + 1], 3})

-- ---- random cases ----------------------------------------------------------------------------------

local random = mt.Generator(tonumber(arg[3])) -- draws the same numbers in every process
local function draw(first, last) return mt.randint(first, last, {1}, {generator = random}):item() end
local dtypes = {'float32', 'float64', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'uint8', 'bool'}
local function any_shape()
  local shape = {}
  for d = 1, draw(0, 3) do shape[d] = draw(draw(1, 6) == 1 and 0 or 1, 5) end
  if draw(1, 20) == 1 then shape = {draw(1, 3), 2 ^ (t.device and 9 or 19) + draw(1, 9)} end -- more than one part
  return shape
end
--- Whole numbers, whose sums are exact in every dtype, with any strides.
local function any_tensor(shape, dtype)
  local x = mt.randint(0, dtype == 'bool' and 1 or 7, shape, {generator = random}):to(dtype)
  if #shape < 2 or draw(1, 2) == 1 then return x end
  return x:transpose(1, -1):contiguous():transpose(1, -1)
end
local function reduced(op, list)
  if op == 'max' or op == 'min' then return (mt.stack(list):to 'int64')[op](mt.stack(list):to 'int64', 1) end
  local sum = mt.stack(list):double():sum(1)
  return op == 'mean' and sum / #list or sum
end
local function same(a, b)
  eq(a.shape, b.shape)
  assert(mt.allclose(a:double(), b:double(), {rtol = 1e-2}), tostring(a) .. tostring(b))
end

--- Each case: f(list, mine, who, options) checks one operation; list has the tensors of the processes `who`, mine is
--- this process's among them.
local cases = {
  function(list, mine, who, group, dtype) -- all_reduce_, of any layout
    local op = ({'sum', 'mean', 'max', 'min'})[draw(1, 4)]
    if op == 'mean' and not dtype:find 'float' or op == 'sum' and dtype == 'bool' then op = 'max' end
    if not mine then return end
    local x = list[mine]:clone()
    assert(rawequal(dist.all_reduce_(x, {op = op, group = group}), x))
    eq(x.dtype, dtype)
    same(x, reduced(op, list))
  end,
  function(list, mine, who, group, dtype) -- reduce_scatter_ of the tensors as parts
    local op = ({'sum', 'mean', 'max', 'min'})[draw(1, 4)]
    if op == 'mean' and not dtype:find 'float' or op == 'sum' and dtype == 'bool' then op = 'min' end
    if not mine then return end
    local out = mt.zeros_like(list[1])
    local x = mt.stack(list)
    assert(rawequal(dist.reduce_scatter_(out, x, {op = op, group = group}), out))
    local all = {}
    for i = 1, #who do all[i] = list[mine] end -- all processes have the same x
    same(out, reduced(op, all))
  end,
  function(list, mine, who, group)
    local root = who[draw(1, #who)]
    if not mine then return end
    local x = list[mine]:clone()
    assert(rawequal(dist.broadcast_(x, {root = root, group = group}), x))
    for i, r in ipairs(who) do
      if r == root then same(x, list[i]) end
    end
  end,
  function(list, mine, _, group, dtype)
    if not mine then return end
    local all = dist.all_gather(list[mine], group)
    eq(#all, #list)
    for i, x in ipairs(all) do
      eq(x.dtype, dtype)
      assert(x:equal(list[i]))
    end
  end,
  function(list, mine, _, group)
    if not mine then return end
    local out = mt.empty({#list, list[1]:numel()}, {dtype = list[1].dtype})
    assert(rawequal(dist.all_gather_into_(out, list[mine], {group = group}), out))
    for i, x in ipairs(list) do assert(out[i]:equal(x:flatten())) end
  end,
  function(list, mine, who, group)
    local root = who[draw(1, #who)]
    if not mine then return end
    local all = dist.gather(list[mine], root, {group = group})
    eq(all ~= nil, rank == root)
    for i, x in ipairs(all or {}) do assert(x:equal(list[i])) end
  end,
  function(list, mine, who, group, dtype)
    local root = who[draw(1, #who)]
    if not mine then return end
    local x = dist.scatter(rank == root and list or nil, root, group)
    eq(x.dtype, dtype)
    assert(x:equal(list[mine]))
  end,
  function(list, mine, who, group, dtype)
    if not mine or dtype == 'bool' then return end
    local mine_to = {}
    for i = 1, #who do mine_to[i] = list[mine] + i end
    for i, x in ipairs(dist.all_to_all(mine_to, {group = group})) do assert(x:equal(list[i] + mine)) end
  end,
  function(list, _, who, _, dtype) -- send and recv
    local from, tag = draw(1, #who), draw(0, 99)
    local to = from % #who + 1
    if rank == who[from] then dist.send(list[from], who[to], tag) end
    if rank ~= who[to] then return end
    local x = mt.empty(list[from].shape, {dtype = dtype})
    local into = dist.recv(tag % 2 == 0 and x or list[from]:size(), who[from], {tag = tag, dtype = dtype})
    eq({into.dtype, rawequal(into, x)}, {dtype, tag % 2 == 0})
    assert(into:equal(list[from]))
  end,
}
for _ = 1, tonumber(arg[2]) do
  local which, dtype, shape = draw(0, #groups), dtypes[draw(1, #dtypes)], any_shape()
  local who, list, mine = members[which] or everyone, {}, nil
  for i, r in ipairs(who) do
    list[i] = any_tensor(shape, dtype)
    if r == rank then mine = i end
  end
  cases[draw(1, #cases)](list, mine, who, groups[which], dtype)
end

-- ---- calls that differ are errors in all processes, and the next call works ------------------------

local differing = 'the processes call it differently.*process ' .. rank .. ' calls '
local function refused(pattern, fn) raises(fn, pattern) dist.barrier() end
refused(differing, function() dist.gather(mt.ones(2), rank % 2) end)
refused(differing, function() dist.scatter({}, rank == 0 and 1 or 2) end)
refused(differing, function()
  local x = mt.ones(rank == 3 and 2 or 1)
  dist.all_to_all{x, x, x, x}
end)
refused(rank == 0 and 'scatter%(0%): 3 tensors for 4 processes' or differing,
  function() dist.scatter(rank == 0 and {mt.ones(1), mt.ones(1), mt.ones(1)} or nil) end)
refused(differing, function() dist.reduce_scatter_(mt.ones(1), mt.ones(4), {op = rank == 1 and 'max' or 'sum'}) end)
refused(differing, function() dist.all_gather_into_(mt.ones(4, rank + 1), mt.ones(rank + 1)) end)
refused('the processes call it differently', function() dist.group{0, rank == 2 and 1 or 2} end)
if rank % 2 == 0 then
  raises(function() dist.all_reduce_(mt.ones(rank + 1), {group = groups[1]}) end, differing)
else
  raises(function() dist.all_reduce_(mt.ones(1), {group = groups[1]}) end, 'is not in the group {0, 2}')
end
if rank > 0 then
  raises(function() dist.broadcast_(mt.ones(1), {root = 0, group = groups[2]}) end, 'root 0 is not in the group')
end
if rank == 0 then
  raises(function() dist.send(mt.ones(2), 1) end, 'send: process 0 calls send of float32 %(2%)' ..
    '.*process 1 has float32 %(3%)')
  dist.send(mt.ones(3), 1)
elseif rank == 1 then
  raises(function() dist.recv({3}, 0) end, 'recv: process 1 calls recv of float32 %(3%).*process 0 has float32 %(2%)')
  eq(dist.recv({3}, 0):tolist(), {1, 1, 1})
end
dist.barrier()
eq(dist.all_reduce_(mt.ones(1)):item(), size)
dist.print('from process', rank)

-- ---- processes that end or never come ----------------------------------------------------------

if rank == 3 then os.exit(0) end
if rank == 1 then
  raises(function() dist.recv({1}, 3) end, 'recv: process 3 has ended, but process 1 calls recv of float32')
end
if rank == 2 then raises(function() dist.barrier(groups[2]) end, 'barrier: process [13] has ended') end
if rank == 1 then raises(function() dist.barrier(groups[2]) end, 'barrier: process [23] has ended') end
io.write(('process %d of %d is done\n'):format(rank, size))
