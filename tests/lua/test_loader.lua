-- test_loader.lua -- sets, samplers and DataLoader: order, batches, position, shards, errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local data = mt.data

local function numbers(n) return data.TensorDataset(mt.range(1, n), mt.range(1, n) * 10) end
--- Returns all batches of one epoch as lists; asserts that y belongs to x.
local function epoch(loader)
  local batches = {}
  for x, y in loader:iter() do
    if y then eq((x * 10):tolist(), y:tolist()) end
    batches[#batches + 1] = x:tolist()
  end
  return batches
end
local function flat(lists)
  local out = {}
  for _, list in ipairs(lists) do
    for _, x in ipairs(list) do out[#out + 1] = x end
  end
  return out
end
local function sorted(list)
  table.sort(list)
  return list
end
local function first(n)
  local list = {}
  for i = 1, n do list[i] = i end
  return list
end

test('TensorDataset, Subset, ConcatDataset', function()
  local x, y, z = mt.randn(5, 2), mt.range(1, 5), mt.ones(5)
  local set = data.TensorDataset(x, y, z)
  eq(set:size(), 5)
  local a, b, c = set:get(2)
  eq({a:tolist(), b:item(), c:item()}, {x[2]:tolist(), 2, 1})
  eq(select('#', set:get(1)), 3)
  eq(mt.is_tensor((data.TensorDataset(x):get(1))), true)
  local part = data.Subset(set, {4, 2})
  eq({part:size(), select(2, part:get(1)):item(), select(2, part:get(2)):item()}, {2, 4, 2})
  eq(select(2, data.Subset(part, mt.tensor({2}, {dtype = 'int64'})):get(1)):item(), 2)
  local both = data.ConcatDataset{part, numbers(3)}
  eq({both:size(), both.cumulative_sizes}, {5, {2, 5}})
  eq({select(2, both:get(2)):item(), (both:get(3)):item(), (both:get(5)):item()}, {2, 1, 3})
  raises(function() data.TensorDataset(x, mt.ones(4)) end, 'tensor 2 has 4 rows, the first has 5')
  raises(function() data.TensorDataset() end, 'at least one tensor')
  raises(function() data.TensorDataset(x, 3) end, 'argument 2 must be a tensor with rows, got 3')
  raises(function() data.Subset(set, {6}) end, 'position 6 is outside 1..5')
  raises(function() data.Subset(set, {0}) end, 'position 0 is outside')
  raises(function() data.Subset({size = print}, {1}) end, 'set must be a set')
  raises(function() data.ConcatDataset(set) end, 'sets must be a list, got a TensorDataset')
  raises(function() both:get(6) end, 'position 6 is outside 1..5')
  raises(function() both:get(-6) end, 'position %-6 is outside 1..5')
  raises(function() data.Subset(set, {1, -6}) end, 'position %-6 is outside 1..5')
  eq({(both:get(-1)):item(), select(2, part:get(-2)):item(), select(2, data.Subset(set, {-1, 2, -5}):get(-1)):item()},
    {3, 4, 1})
end)

test('# of a set and of a loader is its size; ipairs and pairs are refused', function()
  local set = data.TensorDataset(mt.rand(7, 2), mt.rand(7))
  local train, rest = data.random_split(set, {4, 3})
  local loader = data.DataLoader(train, {batch_size = 3})
  eq({#set, #train, #rest, #data.ConcatDataset{set, rest}, #data.xor(5), #data.Subset(set, {1, 2}), #loader},
    {7, 4, 3, 10, 5, 2, 2})
  local random = data.RandomSampler(set)
  eq({#random, #data.SequentialSampler(train), #data.BatchSampler(random, 2)}, {7, 4, 4})
  eq(#data.DataLoader(set, {batch_sampler = data.BatchSampler(random, 2)}), 4)
  raises(function() data.DataLoader(set, {sampler = 3}) end, 'DataLoader: sampler must be a list of positions or an')
  for _, object in ipairs{set, train, loader} do
    for _, over in ipairs{ipairs, pairs} do
      raises(function() over(object) end, 'table expected, got userdata')
    end
  end
  local seen = 0
  for i = 1, #train do seen = seen + train:get(i):numel() end
  eq(seen, 8)
  train.transform, loader.note = nil, 'mine'
  eq({loader.note, rawequal(loader.dataset, train), train[2] == rest}, {'mine', true, true})
  raises(function() return loader.bach_size end, "DataLoader has no 'bach_size' %(did you mean 'batch_size'%?%)")
  raises(function() mt.zeros(loader) end, 'a DataLoader')
  raises(function() loader.iter() end, 'called with a colon, loader:iter')
end)

test('random_split draws without replacement, by numbers or by fractions', function()
  mt.manual_seed(3)
  local a, b = data.random_split(numbers(10), {7, 3})
  eq({a:size(), b:size(), a[1] == a, a[2] == b, #a}, {7, 3, true, true, 7})
  local all = {}
  for _, part in ipairs{a, b} do
    for i = 1, part:size() do all[#all + 1] = (part:get(i)):item() end
  end
  assert(not pcall(eq, all, first(10)))
  eq(sorted(all), first(10))
  local sizes = {}
  for k, part in ipairs{data.random_split(numbers(11), {0.5, 0.3, 0.2})} do sizes[k] = part:size() end
  eq(sizes, {6, 3, 2})
  local g = function() return mt.Generator('philox', 4) end
  local c, d = data.random_split(numbers(9), {4, 5}, {generator = g()}), data.random_split(numbers(9), {4, 5}, g())
  eq(c.indices:tolist(), d.indices:tolist())
  local n = t.on_gpu() and 3000 or 3e6
  local e, f = data.random_split(numbers(n), {0.5, 0.5000009})
  eq(e:size() + f:size(), n)
  raises(function() data.random_split(numbers(10), {7, 4}) end, 'sum to 11, the set has 10')
  raises(function() data.random_split(numbers(10), {0.5, 0.6}) end, 'fractions that sum to 1')
end)

test('batches: sizes, order, the last one', function()
  local loader = data.DataLoader(numbers(10), {batch_size = 4})
  eq(loader:size(), 3)
  eq(epoch(loader), {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10}})
  eq(epoch(loader), {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10}})
  loader = data.DataLoader(numbers(10), {batch_size = 4, drop_last = true})
  eq({loader:size(), #epoch(loader)}, {2, 2})
  eq(epoch(data.DataLoader(numbers(3))), {{1}, {2}, {3}})
  eq(data.DataLoader(data.Subset(numbers(3), {1}), {batch_size = 8}):size(), 1)
  eq(epoch(data.DataLoader{numbers(3), batch_size = 2}), {{1, 2}, {3}})
  eq(epoch(data.DataLoader(data.Subset(numbers(9), {7, 1, 9}), 2)), {{7, 1}, {9}})
  local plain = {size = function() return 3 end, get = function(_, i) return i end}
  eq(epoch(data.DataLoader(plain)), {{1}, {2}, {3}})
end)

test('the order is a function of seed and epoch', function()
  local function epochs(seed)
    local loader = data.DataLoader(numbers(50), {batch_size = 8, shuffle = true, seed = seed})
    return {flat(epoch(loader)), flat(epoch(loader))}
  end
  local a, b = epochs(1), epochs(1)
  eq(a, b)
  assert(not pcall(eq, a[1], a[2]))
  assert(not pcall(eq, a, epochs(2)))
  eq(sorted(a[1]), first(50))
  -- Without a seed it is drawn from the default generator when the loader is made.
  local function drawn()
    mt.manual_seed(9)
    local loader = data.DataLoader(numbers(50), {batch_size = 8, shuffle = true})
    mt.manual_seed(10)
    return flat(epoch(loader))
  end
  eq(drawn(), drawn())
  mt.manual_seed(9)
  local one, two = data.DataLoader(numbers(50), {shuffle = true}), data.DataLoader(numbers(50), {shuffle = true})
  assert(not pcall(eq, epoch(one), epoch(two)))
  -- An epoch does not use that generator.
  mt.manual_seed(5)
  local want = mt.rand(3):tolist()
  mt.manual_seed(5)
  epoch(data.DataLoader(numbers(20), {shuffle = true, seed = 1}))
  eq(mt.rand(3):tolist(), want)
end)

test('shuffled orders are uniform', function()
  if t.on_gpu() then return end
  local counts = mt.zeros(6, 6)
  for seed = 1, 1200 do
    local k = 0
    for x in data.DataLoader(numbers(6), {batch_size = 6, shuffle = true, seed = seed}):iter() do
      for _, i in ipairs(x:tolist()) do
        k = k + 1
        counts[{k, i}] = counts[{k, i}] + 1
      end
    end
  end
  -- Chi-squared over 36 cells of 200: about 25 degrees of freedom.
  local chi = ((counts - 200) ^ 2 / 200):sum():item()
  assert(chi > 5 and chi < 60, chi)
end)

test('samplers', function()
  local set = numbers(8)
  local function all(sampler)
    local list = {}
    for i in sampler:iter() do list[#list + 1] = i end
    return list
  end
  mt.manual_seed(1)
  eq(all(data.SequentialSampler(set)), first(8))
  eq(sorted(all(data.RandomSampler(set))), first(8))
  eq(#all(data.RandomSampler(set, {num_samples = 20})), 20)
  eq(sorted(all(data.SubsetRandomSampler({5, 3, 4}))), {3, 4, 5})
  eq(all(data.BatchSampler(data.SequentialSampler(set), 3, false)), {{1, 2, 3}, {4, 5, 6}, {7, 8}})
  eq(all(data.BatchSampler(data.SequentialSampler(set), 3, true)), {{1, 2, 3}, {4, 5, 6}})
  eq(data.BatchSampler(data.SequentialSampler(set), {batch_size = 3, drop_last = true}):size(), 2)
  local weighted = data.WeightedRandomSampler({0, 1, 3, 0}, 1000)
  local counts = {0, 0, 0, 0}
  for _, i in ipairs(all(weighted)) do counts[i] = counts[i] + 1 end
  eq({counts[1], counts[4], weighted:size()}, {0, 0, 1000})
  assert(math.abs(counts[3] - 750) < 75, counts[3])
  eq(sorted(all(data.WeightedRandomSampler({1, 1, 1}, 3, false))), {1, 2, 3})
  raises(function() data.WeightedRandomSampler({{1}}, 3) end, 'weights')
  -- In a loader they follow its seed.
  local function with(sampler)
    return flat(epoch(data.DataLoader(set, {batch_size = 3, sampler = sampler, seed = 4})))
  end
  eq(with(data.RandomSampler(set)), with(data.RandomSampler(set)))
  eq(with(data.SubsetRandomSampler({5, 3, 4})), with(data.SubsetRandomSampler({5, 3, 4})))
  eq(with{6, 2, 2}, {6, 2, 2})
  eq(#with(data.WeightedRandomSampler(mt.ones(8), 17)), 17)
  -- A sampler of the user, also for batches.
  local own = {size = function() return 3 end, iter = function()
    local k = 0
    return function()
      k = k + 1
      if k <= 3 then return mt.randint(1, 8, {1}):item() end
    end
  end}
  eq(with(own), with(own))
  local batches = data.DataLoader(set, {batch_sampler = data.BatchSampler(data.RandomSampler(set), 3), seed = 2})
  eq(batches:size(), 3)
  eq(sorted(flat(epoch(batches))), first(8))
end)

test('batches as lists of positions', t.on_cpu(function()
  local set = numbers(8)
  for _, workers in ipairs{0, 2} do
    local lists = data.DataLoader(set, {batch_sampler = {{1, 2}, {3}, {8, 5, 6}}, workers = workers})
    eq({lists:size(), epoch(lists), epoch(lists)}, {3, {{1, 2}, {3}, {8, 5, 6}}, {{1, 2}, {3}, {8, 5, 6}}})
  end
  raises(function() epoch(data.DataLoader(set, {batch_sampler = {{1, 9}}})) end, 'position 9 is outside 1..8')
  raises(function() data.DataLoader(set, {batch_sampler = {1, 2}}) end,
    'batch_sampler must be a list of lists of positions or an object with iter')
end))

test('collate: tensors, numbers, booleans, strings, tables; one of the user', function()
  local function set_of(get) return {size = function() return 4 end, get = get} end
  local function batch(get, options)
    options = options or {}
    options.batch_size = 2
    return data.DataLoader(set_of(get), options):iter()()
  end
  local x, y = batch(function(_, i) return mt.full({2}, i), i end)
  eq({x:tolist(), y:tolist(), y.dtype}, {{{1, 1}, {2, 2}}, {1, 2}, 'float32'})
  eq(batch(function(_, i) return i > 1 end):tolist(), {false, true})
  local one, none, third = batch(function(_, i) return i, nil, -i end)
  eq({one:tolist(), none == nil, third:tolist()}, {{1, 2}, true, {-1, -2}})
  local of = batch(function(_, i) return {name = 'n' .. i, at = {i, {i}}, x = mt.ones(3)} end)
  eq({of.name, of.at[1]:tolist(), of.at[2][1]:tolist(), tostring(of.x.shape)}, {{'n1', 'n2'}, {1, 2}, {1, 2}, '(2, 3)'})
  local a, b = batch(function(_, i) return i, -i end, {collate = function(examples)
    return examples[1][1] + examples[2][1], examples[2][2]
  end})
  eq({a, b}, {3, -2})
  eq(batch(function(_, i) return i end, {collate = function(examples) return examples end}), {1, 2})
  raises(function() batch(function(_, i) return mt.ones(i) end) end,
    '%(1%) float32 in example 1.*%(2%) float32 in example 2')
  raises(function() batch(function(_, i) return i == 1 and 1 or 'x' end) end, 'example 2')
  raises(function() batch(function(_, i) return {[i] = 1} end) end, 'the first has not')
  raises(function() batch(function() return print end) end, 'a function')
  raises(function() batch(function() end) end, 'item 1: get%(1%) returned nothing')
  raises(function() batch(function(_, i) return i end, {collate = function() end}) end, 'collate returned nothing')
  raises(function() batch(function(_, i) return i + (i > 1 and {} or 0) end) end,
    'test_loader.lua:%d+: DataLoader: item 2: .*test_loader.lua:%d+: attempt to perform arithmetic')
  eq(data.default_collate{1, 2}:tolist(), {1, 2})
end)

test('a set of the user that gives batches', function()
  local set = {size = function() return 5 end, get = error, get_batch = function(_, p) return p * 2, p end}
  local x, p = data.DataLoader(set, {batch_size = 3}):iter()()
  eq({x:tolist(), p:tolist()}, {{2, 4, 6}, {1, 2, 3}})
  local twice = data.TensorDataset(mt.range(1, 3))
  twice.get = function(self, i) return self.tensors[1][i] * 2 end
  eq(epoch(data.DataLoader(twice, 3)), {{2, 4, 6}})
  eq(epoch(data.DataLoader(data.Subset(twice, {2}), 3)), {{4}})
end)

test('random numbers of an item belong to seed, epoch and index', function()
  local set = {size = function() return 6 end, get = function(_, i) return mt.rand({}), math.random(), i end}
  local function draws(options)
    local loader, out = data.DataLoader(set, options), {}
    for e = 1, 2 do
      for a, b, i in loader:iter() do
        for k = 1, #i do out[e * 100 + i:at(k)] = {a:at(k), b:at(k)} end
      end
    end
    return out
  end
  local one = draws{batch_size = 2, seed = 1}
  eq(draws{batch_size = 3, seed = 1, shuffle = true}, one)
  assert(not pcall(eq, one[101], one[201]) and not pcall(eq, one[101], one[102]))
  assert(not pcall(eq, draws{batch_size = 2, seed = 2}, one))
  -- The program's own random numbers are not affected.
  math.randomseed(1)
  mt.manual_seed(1)
  local want = {math.random(), mt.rand({}):item()}
  math.randomseed(1)
  mt.manual_seed(1)
  for _ in data.DataLoader(set, {seed = 1}):iter() do break end -- luacheck: ignore 512
  eq({math.random(), mt.rand({}):item()}, want)
  -- An item that occurs twice in an epoch has different random numbers.
  local seen = {}
  for a in data.DataLoader(set, {sampler = {2, 2, 2}, seed = 1}):iter() do seen[a:item()] = true end
  local n = 0
  for _ in pairs(seen) do n = n + 1 end
  eq(n, 3)
end)

test('the position is saved and restored, in the middle of an epoch and at its end', function()
  local function new(seed) return data.DataLoader(numbers(10), {batch_size = 3, shuffle = true, seed = seed}) end
  local whole = new(7)
  local e1, e2, e3 = epoch(whole), epoch(whole), epoch(whole)
  local function stopped_at(count) -- after so many batches in all, in its second epoch
    local loader = new(7)
    epoch(loader)
    local k = 0
    if count > 0 then
      for _ in loader:iter() do
        k = k + 1
        if k == count then break end
      end
    end
    return loader:state_dict()
  end
  for k = 0, 3 do
    local again = new(99)
    again:load_state_dict(stopped_at(k))
    local rest = {}
    for i = k + 1, 4 do rest[#rest + 1] = e2[i] end
    eq(epoch(again), rest)
    eq(epoch(again), e3)
  end
  local loader = new(7)
  local state
  for _ in loader:iter() do state = loader:state_dict() end -- the last is saved after the last batch
  local again = new(1)
  again:load_state_dict(state)
  eq(epoch(again), {})
  eq(epoch(again), e2)
  again = new(1)
  again:load_state_dict(loader:state_dict()) -- the loop has ended
  eq(epoch(again), e2)
  again = new(1)
  again:load_state_dict(new(7):state_dict())
  eq(epoch(again), e1)
  -- without load_state_dict each iter() is a new epoch
  for _ in again:iter() do break end -- luacheck: ignore 512
  eq(epoch(again), e3)
  local other = data.DataLoader(numbers(20), 3)
  local before = other:state_dict()
  raises(function() other:load_state_dict(state) end, 'of 4 batches an epoch, this loader has 7')
  eq(other:state_dict(), before)
  raises(function() again:load_state_dict(3) end, 'what state_dict returned')
end)

test('shards are equal and cover the set', function()
  for _, n in ipairs{1, 5, 8, 10} do
    for _, shuffle in ipairs{false, true} do
      local all, lengths = {}, {}
      for rank = 0, 2 do
        local loader = data.DataLoader(numbers(n), {batch_size = 2, shuffle = shuffle, seed = 3, shard = {rank, 3}})
        local part = flat(epoch(loader))
        eq(loader:size(), math.ceil(#part / 2))
        lengths[rank + 1] = #part
        for _, i in ipairs(part) do all[i] = true end
      end
      eq(lengths, {math.ceil(n / 3), math.ceil(n / 3), math.ceil(n / 3)})
      eq(#all, n)
    end
  end
  eq(flat(epoch(data.DataLoader(numbers(5), {shard = {rank = 1, size = 2}}))), {2, 4, 1})
  raises(function() data.DataLoader(numbers(5), {shard = {2, 2}}) end, 'rank from 0 to size %- 1, got {2, 2}')
end)

test('errors of loaders', function()
  local odd = {size = function() return 'x' end, get = function(_, i) return i end}
  raises(function() data.DataLoader(odd):iter() end, "size%(%) returned the string 'x'")
  local set = numbers(4)
  raises(function() data.DataLoader(3) end, 'set must be a set, an object with size%(%) and get%(i%); got 3')
  raises(function() data.DataLoader({1}, 3) end, 'set must be a set, an object with size')
  raises(function() data.DataLoader(set, {batch_size = 0}) end, 'batch_size must be a whole number from 1, got 0')
  raises(function() data.DataLoader(set, {batchsize = 2}) end, 'batch_size')
  raises(function() data.DataLoader(set, {sampler = {}}) end,
    'sampler must be a list of positions or an object with iter')
  raises(function() data.DataLoader(set, {sampler = {1}, shuffle = true}) end, 'give one of them')
  raises(function() data.BatchSampler({iter = function() end}, 2) end, 'an object with size%(%) and iter%(%)')
  raises(function() data.ConcatDataset{set, nil, set} end, 'entry 2 must be a set')
  local pairs_of = data.BatchSampler(data.SequentialSampler(set), 2)
  raises(function() data.DataLoader(set, {batch_sampler = pairs_of, batch_size = 2}) end,
    'batch_sampler says the order, which batch_size says too')
  raises(function() data.DataLoader(set, {workers = -1}) end, 'workers must be')
  raises(function() data.DataLoader(set, {collate = 3}) end, 'collate must be a function')
  raises(function() data.DataLoader(set, {sampler = {5}}):iter() end,
    'position 5 is outside 1..4')
end)

test('a dot instead of a colon, a loop over the object itself', function()
  local set = numbers(4)
  local sampler, loader = data.RandomSampler(set), data.DataLoader(set)
  for shown, call in pairs{['get: .* set:get'] = function() set.get(1) end,
    ['size: .* set:size'] = function() data.simple(4).size() end,
    ['iter: .* sampler:iter'] = function() sampler.iter() end,
    ['iter: .* loader:iter'] = function() loader.iter() end,
    ['load_state_dict: .* loader:load_state_dict'] = function() loader.load_state_dict{seed = 1} end,
    ['encode: .* tok:encode'] = function() data.CharTokenizer('ab').encode('a') end,
    ['decode: .* tok:decode'] = function() data.CharTokenizer('ab').decode{1, 2} end} do
    raises(call, 'test_loader.lua:%d+: ' .. shown:gsub('%.%*', 'methods are called with a colon,') .. '%(..%)$')
  end
  raises(function() for _ in loader do end end, 'DataLoader: an iterator is needed, use loader:iter%(%)')
  raises(function() for _ in sampler do end end, 'RandomSampler: an iterator is needed, use sampler:iter%(%)')
  -- Workers copy sets of the CPU.
  local points = data.simple(4)
  points.x, points.y = points.x:cpu(), points.y:cpu()
  for x in data.DataLoader(points, {batch_size = 4, workers = 1}):iter() do eq(#x, 4) end
end)

t.test('transforms of sets: per example, in parts of sets and in workers too, assigned later', function()
  local x, y = mt.range(1, 6):float():view(6, 1):cpu(), mt.range(1, 6):cpu()
  local function double(v) return v * 2 end
  local set = data.TensorDataset(x, y, {transform = double, target_transform = function(v) return v + 10 end})
  local same = data.TensorDataset{x, y, transform = double}
  t.eq({#same.tensors, same:size(), same.transform}, {2, set:size(), double})
  local a, b = set:get(3)
  eq({a:item(), b:item()}, {6, 13})
  eq(tostring(set), 'TensorDataset(6 examples of (1) float32, () int64, transform=a function, ' ..
    'target_transform=a function)')
  for _, workers in ipairs{0, 2} do
    local p, q = data.DataLoader(data.Subset(set, {2, 4}), {batch_size = 2, workers = workers}):iter()()
    eq({p:view(-1):tolist(), q:tolist()}, {{4, 8}, {12, 14}})
  end
  local later = data.TensorDataset(x)
  local part = data.Subset(later, {5, 6})
  eq(data.DataLoader(part, {batch_size = 2}):iter()():view(-1):tolist(), {5, 6})
  later.transform = double
  eq(data.DataLoader(part, {batch_size = 2}):iter()():view(-1):tolist(), {10, 12})
  raises(function() data.TensorDataset(x, {transform = 3}) end, 'TensorDataset: transform must be a function or a t')
  raises(function() data.TensorDataset(x, {transfrom = double}) end, "unknown option 'transfrom': did you mean")
  raises(function() data.TensorDataset(x, {target_transform = double}):get(1) end, 'target_transform changes the sec')
  local train, test = data.mnist{transform = double}
  eq({train:get(1):max():item() > 1, test:get(1):max():item() > 1}, {true, true})
end)

test('device: batches are moved, in tables too', function()
  local place = t.on_gpu() and 'cpu' or mt.cuda.is_available() and 'cuda' or 'cpu'
  local function collate(examples) return {x = mt.stack(examples), names = {'a', 'b'}}, #examples, mt.ones(2) end
  local set = mt.range(1, 4):tolist()
  local loader = data.DataLoader({size = function() return 4 end, get = function(_, i) return mt.tensor(set[i]) end},
    {batch_size = 3, collate = collate, device = place})
  local batch, n, ones = loader:iter()()
  eq({batch.x:tolist(), batch.names, n}, {{1, 2, 3}, {'a', 'b'}, 3})
  eq({batch.x.device:match '%a+', ones.device:match '%a+'}, {place, place})
  local on_cpu = data.TensorDataset(mt.range(1, 4, 1, {device = 'cpu'}))
  local x = data.DataLoader(on_cpu, {batch_size = 4, device = place, workers = 1}):iter()()
  eq({x.device:match '%a+', x:tolist()}, {place, {1, 2, 3, 4}})
  raises(function() data.DataLoader(numbers(4), {device = 'gpu'}) end, 'device')
end)

t.finish()
