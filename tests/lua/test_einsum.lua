-- test_einsum.lua -- einsum and tensordot: random expressions compared with a loop, views, errors
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

--- The definition: a loop over all values of all letters.
local function slow(inputs, output, size, tensors)
  local letters, seen = {}, {}
  for _, term in ipairs(inputs) do
    for c in term:gmatch('.') do
      if not seen[c] then seen[c] = true; letters[#letters + 1] = c end
    end
  end
  local data, result, total = {}, {}, 1
  for i, x in ipairs(tensors) do data[i] = x:contiguous():view(-1):tolist() end
  for c in output:gmatch('.') do total = total * size[c] end
  for i = 1, total do result[i] = 0 end
  local at = {}
  local function place(term, x)
    local p, d = 0, 0
    for c in term:gmatch('.') do
      d = d + 1
      local n = x and x.shape[d] or size[c]
      p = p * n + (n == 1 and 0 or at[c])
    end
    return p + 1
  end
  local function walk(depth)
    if depth > #letters then
      local product = 1
      for i, term in ipairs(inputs) do product = product * data[i][place(term, tensors[i])] end
      local p = place(output)
      result[p] = result[p] + product
      return
    end
    for k = 0, size[letters[depth]] - 1 do
      at[letters[depth]] = k
      walk(depth + 1)
    end
  end
  walk(1)
  return result
end

local random = 12345
local function below(n)  -- the same numbers on every run
  random = (random * 1103515245 + 12345) % 2147483648
  return math.floor(random / 65536) % n
end

local function random_layout(shape)
  local kind = #shape > 0 and below(4) or 0
  if kind == 1 then
    local back, order = {}, {}
    for d = 1, #shape do back[d], order[d] = shape[#shape + 1 - d], #shape + 1 - d end
    return mt.randn(back, {dtype = 'float64'}):permute(order)
  elseif kind == 2 then
    local wide = {unpack(shape)}
    wide[#wide] = 2 * wide[#wide]
    local x = mt.randn(wide, {dtype = 'float64'})
    return x[{mt.ellipsis, {1, wide[#wide], 2}}]
  end
  return mt.randn(shape, {dtype = 'float64'})
end
local function strided(shape)
  local ok, x = pcall(random_layout, shape)
  return ok and x or mt.randn(shape, {dtype = 'float64'})
end

local function check(inputs, output, size, ones)
  local tensors = {}
  for i, term in ipairs(inputs) do
    local shape, own = {}, {}
    for c in term:gmatch('.') do
      own[c] = own[c] or (ones and below(5) == 0 and 1 or size[c])
      shape[#shape + 1] = own[c]
    end
    tensors[i] = strided(shape)
  end
  local real = {}  -- where all operands have 1, the size is 1
  for i, term in ipairs(inputs) do
    local d = 0
    for c in term:gmatch('.') do
      d = d + 1
      real[c] = math.max(real[c] or 0, tensors[i].shape[d])
      if tensors[i].shape[d] == 0 then real[c] = 0 end
    end
  end
  local equation = table.concat(inputs, ',') .. '->' .. output
  local y = mt.einsum(equation, tensors)
  local shape = {}
  for c in output:gmatch('.') do shape[#shape + 1] = real[c] end
  eq(y:size() == mt.zeros(shape):size(), true)
  local ok, message = pcall(near, y:contiguous():view(-1):tolist(),
    slow(inputs, output, real, tensors), 1e-9)
  if not ok then error(equation .. ': ' .. message) end
end

test('random expressions of one to six operands', function()
  mt.manual_seed(5)
  local alphabet = 'abcdXY'
  for round = 1, 300 do
    local inputs, size, used, order = {}, {}, {}, {}
    for c in alphabet:gmatch('.') do size[c] = 1 + below(3) end
    if below(40) == 0 then size.a = 0 end
    for i = 1, 1 + below(round % 10 == 0 and 6 or 3) do
      local term = ''
      for _ = 1, below(5) do
        local k = 1 + below(#alphabet)
        local c = alphabet:sub(k, k)
        term = term .. c
        if not used[c] then used[c] = true; order[#order + 1] = c end
      end
      inputs[i] = term
    end
    local output = ''
    for _ = 1, #order do
      local c = table.remove(order, 1 + below(#order))
      if below(2) == 0 then output = output .. c end
    end
    check(inputs, output, size, round % 3 == 0 and size.a > 0)
  end
end)

test('many operands', function()
  local size = {}
  for c in ('abcdefghijkl'):gmatch('.') do size[c] = 2 end
  check({'ab', 'bc', 'cd', 'de', 'ef', 'fg', 'gh', 'hi', 'ij', 'jk', 'kl'}, 'al', size)
  check({'ab', 'bc', 'cd', 'de', 'ef', 'fg', 'gh', 'ha'}, '', size)
  check({'a', 'a', 'a', 'a', 'b', 'b', 'b', 'ab', 'a', 'b'}, 'ba', size)
  local x = mt.ones(2)
  local list, names = {}, {}
  for i = 1, 20 do list[i], names[i] = x, string.char(96 + i) end
  eq(mt.einsum(table.concat(names, ',') .. '->', list):item(), 2 ^ 20)
  raises(function() return (mt.einsum(table.concat(names, ','), list)) end,
    'einsum: the result has 20 dimensions')
end)

test('what torch.einsum makes of spaces, capitals, ellipses and no arrow', function()
  local x = mt.range(1, 6):float():view(2, 3)
  local y = mt.range(1, 12):float():view(3, 4)
  eq(mt.einsum(' ij , jk -> ik ', x, y):tolist(), {{38, 44, 50, 56}, {83, 98, 113, 128}})
  eq(mt.einsum('ij,jk', x, y):tolist(), {{38, 44, 50, 56}, {83, 98, 113, 128}})
  eq(mt.einsum('kj,ik', y, x):tolist(), {{38, 44, 50, 56}, {83, 98, 113, 128}})
  eq(mt.einsum('kb,ak->ba', y, x):tolist(), {{38, 83}, {44, 98}, {50, 113}, {56, 128}})
  eq(mt.einsum('ba', x):tolist(), {{1, 4}, {2, 5}, {3, 6}})
  eq(mt.einsum('aB', x):tolist(), {{1, 4}, {2, 5}, {3, 6}})  -- capitals come first
  eq(mt.einsum('ii', mt.ones(3, 3)):item(), 3)
  eq(mt.einsum('...j->j...', x):tolist(), {{1, 4}, {2, 5}, {3, 6}})
  eq(mt.einsum('...j->...', x):tolist(), {6, 15})
  eq(mt.einsum('...j->', x):item(), 21)
  eq(mt.einsum('...j->j', x):tolist(), {5, 7, 9})  -- an ellipsis that is not kept is summed
  eq(mt.einsum('i->i...', mt.tensor{1, 2}):tolist(), {1, 2})
  local a, b = mt.randn(2, 1, 3, 4), mt.randn(5, 4, 2)
  local c = mt.einsum('...ij,...jk->...ik', a, b)
  eq(c:size() == a:matmul(b):size(), true)
  near(c:contiguous():view(-1):tolist(), a:matmul(b):contiguous():view(-1):tolist(), 1e-5)
  eq(mt.einsum(',', mt.tensor(3), mt.tensor(4)):item(), 12)
  eq(mt.einsum(',i->i', mt.tensor(3), mt.tensor{1, 2}):tolist(), {3, 6})
  eq(mt.einsum('', mt.tensor(3)):item(), 3)
end)

test('one operand: transposes and diagonals are views', function()
  local x = mt.range(1, 9):float():view(3, 3)
  local y, d = mt.einsum('ij->ji', x), mt.einsum('ii->i', x)
  mt.no_grad(function() x:fill_(7) end)
  eq(y[{1, 2}]:item(), 7)
  eq(d:tolist(), {7, 7, 7})
  eq(mt.einsum('iji->j', mt.range(1, 12):float():view(2, 3, 2)):tolist(), {1 + 8, 3 + 10, 5 + 12})
  eq(mt.einsum('ij->ji', mt.tensor({{true, false}})):tolist(), {{true}, {false}})
end)

test('dtypes: of integers products stay and sums are int64, others are promoted', function()
  local i = mt.tensor({{1, 2}, {3, 4}}, {dtype = 'int32'})
  local y = mt.einsum('ij,jk->ik', i, i)
  eq({y.dtype, y:tolist()}, {'int32', {{7, 10}, {15, 22}}})
  -- what is summed of one operand becomes int64, as by sum; a product keeps its dtype
  for equation, dtype in pairs{['ij->i'] = 'int64', ['ij->'] = 'int64', ['ij->ji'] = 'int32', ['ii->i'] = 'int32',
      ['ii->'] = 'int64'} do
    eq(mt.einsum(equation, i).dtype, dtype)
  end
  for equation, dtype in pairs{['i,i->'] = 'int32', ['i,i->i'] = 'int32', ['i,j->ij'] = 'int32', ['i,j->'] = 'int64'} do
    eq(mt.einsum(equation, i[1], i[2]).dtype, dtype)
  end
  eq(mt.einsum('i->', mt.tensor({200, 100}, {dtype = 'uint8'})):item(), 300)
  eq(mt.einsum('ij,j->', i, mt.tensor({1, 1}, {dtype = 'float64'})).dtype, 'float64')
  eq(mt.einsum('ij,jk->ik', mt.zeros(2, 0), mt.zeros(0, 3)):tolist(), {{0, 0, 0}, {0, 0, 0}})
end)

test('gradients of the first and the second order', function()
  mt.manual_seed(7)
  local function r(...) return mt.randn({...}, {dtype = 'float64'}):requires_grad_() end
  for _, case in ipairs{
    {'ij,jk->ik', r(2, 3), r(3, 2)}, {'ik,kj->ikj', r(2, 2), r(2, 3)}, {'i,j->ij', r(2), r(3)},
    {'bij,bjk->bik', r(2, 2, 3), r(2, 3, 1)}, {'ii->', r(3, 3)}, {'ii->i', r(3, 3)},
    {'ij->ji', r(2, 3)}, {'iij,j->i', r(2, 2, 3), r(3)}, {'bhid,bhjd->bhij', r(1, 2, 2, 2),
    r(1, 2, 3, 2)}, {'...i,...i', r(2, 3), r(3)}, {'ij,ij->', r(2, 2), r(2, 1)},
    {'ij,jk,kl->il', r(2, 2), r(2, 2), r(2, 2)}, {'ij,j->', r(0, 3), r(3)}, {'ij,ij->i', r(2, 3), r(2, 3)},
  } do
    local inputs = {unpack(case, 2)}
    local f = function(...) return (mt.einsum(case[1], ...)) end
    t.checks(f, unpack(inputs))
  end
  local x = r(3, 2)
  eq(mt.gradcheck(function(a) return mt.einsum('ij,jk->ik', a:t(), a) end, {x}), true)
end)

test('refusals name the letter and both sizes', function()
  local x, y = mt.zeros(2, 3), mt.zeros(4, 5)
  local function refuses(pattern, ...)
    local arguments = {...}
    raises(function() return (mt.einsum(unpack(arguments))) end, pattern)
  end
  refuses("einsum: 'k' is 3 in operand 1 %(2 x 3%) and 4 in operand 2 %(4 x 5%)", 'ik,kj->ij', x, y)
  refuses("'i' is repeated in operand 1 %(2 x 3%) with sizes 2 and 3", 'ii->i', x)
  refuses("operand 1 is %(2 x 3%), 'ijk' names 3 dimensions", 'ijk->i', x)
  refuses("'%.%.%.ijk' names at least 3", '...ijk->i', x)
  refuses("'i' occurs more than once in the output", 'ij->ii', x)
  refuses("'z' of the output 'z' occurs in no operand", 'ij->z', x)
  refuses('names 2 operands, 1 tensors are given', 'ij,jk->ik', x)
  refuses('names 1 operands, 2 tensors are given', 'ij->ij', x, y)
  refuses("'1' at character 2", 'i1->i', x)
  refuses('is not allowed there', 'ij-ji', x)
  refuses('is not allowed there', 'ij->j->i', x)
  refuses('is not allowed there', 'ij->j,i', x)
  refuses("a lone '%.'", '.ij->i', x)
  refuses("occurs twice in one term", '...i...->i', x)
  refuses('no tensors are given', 'ij->i')
  refuses('bool tensors are not multiplied', 'i,i->i', mt.tensor{true}, mt.tensor{true})
  refuses('bool tensors are not summed', 'i->', mt.tensor{true})
  refuses("argument 1 'equation' must be a string", 5, x)
  refuses('argument 3 must be a tensor', 'i,i->', mt.zeros(2), 5)
  refuses('must be a list of tensors', 'i,i->', {mt.zeros(2), 5})
  refuses('%.%.%.', '...,...->...', mt.zeros(2), mt.zeros(3))
end)

test('tensordot', function()
  local x, y = mt.range(1, 24):float():view(2, 3, 4), mt.range(1, 24):float():view(4, 3, 2)
  eq(mt.tensordot(x, y, {{2, 3}, {2, 1}}):tolist(), {{1090, 1168}, {2818, 3040}})
  eq(mt.tensordot(x, x:permute(2, 3, 1)):tolist(), mt.einsum('ijk,jkl->il', x, x:permute(2, 3, 1)):tolist())
  eq(mt.tensordot(x, mt.zeros(5, 2), 0).shape == mt.zeros(2, 3, 4, 5, 2).shape, true)
  eq(mt.tensordot(x, y, {{-1}, {1}}):size() == mt.zeros(2, 3, 3, 2):size(), true)
  eq(mt.tensordot(x, y, {dims = {{}, {}}}):dim(), 6)
  raises(function() return (mt.tensordot(x, y)) end, 'sizes differ: dimension 2 of %(2 x 3 x 4%) and dimension 1')
  raises(function() return (mt.tensordot(x, y, {{1, 2}, {1}})) end, 'they form pairs')
  raises(function() return (mt.tensordot(x, y, {{3, 3}, {1, 1}})) end, 'named twice')
  raises(function() return (mt.tensordot(x, y, {{0}, {1}})) end, '0 is not a position')
  raises(function() return (mt.tensordot(x, y, {{9}, {1}})) end, 'dimension 9 is out of range')
  raises(function() return (mt.tensordot(x, y, -1)) end, '%-1 dimensions to sum over')
  raises(function() return (mt.tensordot(x, y, 4)) end, '4 dimensions to sum over')
  raises(function() return (mt.tensordot(x, y, 'a')) end, 'must be an integer')
end)

t.finish()
