-- test_pieces.lua -- splitting, stacking, slice_scatter and similar functions: values of PyTorch, gradients
local mt = require 'mtorch'
local t = require 'testing'
local values = require 'torch_values'
local test, eq, near, raises = t.test, t.eq, t.near, t.raises

local env = values.env{
  a = mt.tensor{1, 4, 9, 16, 25}, p = mt.tensor{0, 1, 3, 4, 8},
  m = mt.tensor{{1, 2, 4}, {3, 1, 0}}, i = mt.tensor({1, 3, 1}, 'int64'),
  b = mt.tensor{{1, 2}, {3, 4}, {5, 6}}, w = mt.tensor{{3, -4, 0}, {0.6, 0.8, -1}, {0, 0, 0}},
}

-- Expression, {shape, elements} as PyTorch 2.15 gives them (positions counted from 1).
local cases = {
  {[[x:tensor_split(2)]], {list = {{{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}, {{1, 4}, {9, 10, 11,
  12}}}}},
  {[[x:tensor_split(3, 2)]], {list = {{{3, 2}, {1, 2, 5, 6, 9, 10}}, {{3, 1}, {3, 7, 11}}, {{3,
  1}, {4, 8, 12}}}}},
  {[[v:tensor_split(7)]], {list = {{{1}, {1}}, {{1}, {2}}, {{1}, {3}}, {{1}, {4}}, {{1}, {5}},
  {{0}, {}}, {{0}, {}}}}},
  {[[v:tensor_split({2, 4})]], {list = {{{1}, {1}}, {{2}, {2, 3}}, {{2}, {4, 5}}}}},
  {[[v:tensor_split({4, 2, -1, 100, -100})]], {list = {{{3}, {1, 2, 3}}, {{0}, {}}, {{3}, {2, 3,
  4}}, {{1}, {5}}, {{0}, {}}, {{5}, {1, 2, 3, 4, 5}}}}},
  {[[v:tensor_split({})]], {list = {{{5}, {1, 2, 3, 4, 5}}}}},
  {[[x:tensor_split(mt.tensor({2, 4}, "int64"), -1)]], {list = {{{3, 1}, {1, 5, 9}}, {{3, 2},
  {2, 3, 6, 7, 10, 11}}, {{3, 1}, {4, 8, 12}}}}},
  {[[v:tensor_split(mt.tensor(2, {dtype = "int64"}))]], {list = {{{3}, {1, 2, 3}}, {{2}, {4,
  5}}}}},
  {[[x:hsplit(2)]], {list = {{{3, 2}, {1, 2, 5, 6, 9, 10}}, {{3, 2}, {3, 4, 7, 8, 11, 12}}}}},
  {[[v:hsplit({3})]], {list = {{{2}, {1, 2}}, {{3}, {3, 4, 5}}}}},
  {[[x:vsplit(3)]], {list = {{{1, 4}, {1, 2, 3, 4}}, {{1, 4}, {5, 6, 7, 8}}, {{1, 4}, {9, 10,
  11, 12}}}}},
  {[[c:dsplit({2, 2})]], {list = {{{2, 3, 1}, {1, 5, 9, 13, 17, 21}}, {{2, 3, 0}, {}}, {{2, 3,
  3}, {2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16, 18, 19, 20, 22, 23, 24}}}}},
  {[[v:split_with_sizes({2, 0, 3})]], {list = {{{2}, {1, 2}}, {{0}, {}}, {{3}, {3, 4, 5}}}}},
  {[[x:split_with_sizes({1, 3}, 2)]], {list = {{{3, 1}, {1, 5, 9}}, {{3, 3}, {2, 3, 4, 6, 7, 8,
  10, 11, 12}}}}},
  {[[mt.block_diag(s, v, x)]], {{5, 10}, {7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0,
  0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 9, 10, 11,
  12}}},
  {[[mt.block_diag{m, mt.zeros(2, 0), mt.zeros(0, 1), m}]], {{6, 7}, {1, 2, 4, 0, 0, 0, 0, 3, 1,
  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 0, 0, 0, 0, 3,
  1, 0}}},
  {[[mt.block_diag()]], {{1, 0}, {}}},
  {[[mt.cartesian_prod(v)]], {{5}, {1, 2, 3, 4, 5}}},
  {[[mt.cartesian_prod(m[1], v)]], {{15, 2}, {1, 1, 1, 2, 1, 3, 1, 4, 1, 5, 2, 1, 2, 2, 2, 3, 2,
  4, 2, 5, 4, 1, 4, 2, 4, 3, 4, 4, 4, 5}}},
  {[[mt.cartesian_prod{m[1], m[2], m[1]:narrow(1, 1, 2)}]], {{18, 3}, {1, 3, 1, 1, 3, 2, 1, 1,
  1, 1, 1, 2, 1, 0, 1, 1, 0, 2, 2, 3, 1, 2, 3, 2, 2, 1, 1, 2, 1, 2, 2, 0, 1, 2, 0, 2, 4, 3, 1,
  4, 3, 2, 4, 1, 1, 4, 1, 2, 4, 0, 1, 4, 0, 2}}},
  {[[mt.cartesian_prod(e[{{}, 1}], v)]], {{0, 2}, {}}},
  {[[v:combinations()]], {{10, 2}, {1, 2, 1, 3, 1, 4, 1, 5, 2, 3, 2, 4, 2, 5, 3, 4, 3, 5, 4,
  5}}},
  {[[v:combinations(3)]], {{10, 3}, {1, 2, 3, 1, 2, 4, 1, 2, 5, 1, 3, 4, 1, 3, 5, 1, 4, 5, 2, 3,
  4, 2, 3, 5, 2, 4, 5, 3, 4, 5}}},
  {[[m[1]:combinations(2, true)]], {{6, 2}, {1, 1, 1, 2, 1, 4, 2, 2, 2, 4, 4, 4}}},
  {[[m[1]:combinations(3, true)]], {{10, 3}, {1, 1, 1, 1, 1, 2, 1, 1, 4, 1, 2, 2, 1, 2, 4, 1, 4,
  4, 2, 2, 2, 2, 2, 4, 2, 4, 4, 4, 4, 4}}},
  {[[v:combinations(0)]], {{0}, {}}},
  {[[v:combinations(1)]], {{5, 1}, {1, 2, 3, 4, 5}}},
  {[[v:combinations(5)]], {{1, 5}, {1, 2, 3, 4, 5}}},
  {[[m[1]:combinations(4)]], {{0, 4}, {}}},
  {[[mt.zeros(0):combinations(2, true)]], {{0, 2}, {}}},
  {[[x:select_scatter(x[1] * 10, 1, 2)]], {{3, 4}, {1, 2, 3, 4, 10, 20, 30, 40, 9, 10, 11,
  12}}},
  {[[x:select_scatter(m[{{}, 1}]:repeat_interleave(2):narrow(1, 1, 3), 2, -1)]], {{3, 4}, {1, 2,
  3, 1, 5, 6, 7, 1, 9, 10, 11, 3}}},
  {[[x:slice_scatter(-x[{{}, {1, 2}}], 2, 2, 4, 2)]], {{3, 4}, {1, -1, 3, -2, 5, -5, 7, -6, 9,
  -9, 11, -10}}},
  {[[x:slice_scatter(-x)]], {{3, 4}, {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12}}},
  {[[x:slice_scatter(-x[{{1, 2}}], {first = 2})]], {{3, 4}, {1, 2, 3, 4, -1, -2, -3, -4, -5, -6,
  -7, -8}}},
  {[[x:slice_scatter(e:narrow(1, 1, 0):new_zeros(0, 4), 1, 2, 1)]], {{3, 4}, {1, 2, 3, 4, 5, 6,
  7, 8, 9, 10, 11, 12}}},
  {[[x:diagonal_scatter(v:narrow(1, 1, 3))]], {{3, 4}, {1, 2, 3, 4, 5, 2, 7, 8, 9, 10, 3, 12}}},
  {[[x:diagonal_scatter(v:narrow(1, 1, 2), 2)]], {{3, 4}, {1, 2, 1, 4, 5, 6, 7, 2, 9, 10, 11,
  12}}},
  {[[c:diagonal_scatter(c:diagonal(0, 1, 3) * 0, {dim1 = 1, dim2 = 3})]], {{2, 3, 4}, {0, 2, 3,
  4, 0, 6, 7, 8, 0, 10, 11, 12, 13, 0, 15, 16, 17, 0, 19, 20, 21, 0, 23, 24}}},
  {[[mt.unravel_index(mt.tensor({1, 6, 12}, "int64"), {3, 4})]], {list = {{{3}, {1, 2, 3}},
  {{3}, {1, 2, 4}}}}},
  {[[mt.unravel_index(mt.tensor({{-1, -12}}, "int32"), {3, 4})]], {list = {{{1, 2}, {3, 1}},
  {{1, 2}, {4, 1}}}}},
  {[[mt.unravel_index(mt.tensor(4, {dtype = "int64"}), 7)]], {list = {{{}, {4}}}}},
  {[[mt.unravel_index(mt.tensor({}, "int64"), {2, 0})]], {list = {{{0}, {}}, {{0}, {}}}}},
  {[[b:index_reduce(1, i, b * 10, 'prod', true)]], {{3, 2}, {500, 2400, 3, 4, 150, 240}}},
  {[[b:index_reduce(1, i, b * 10, 'prod', false)]], {{3, 2}, {500, 1200, 3, 4, 30, 40}}},
  {[[b:index_reduce(1, i, b * 10, 'mean', true)]], {{3, 2}, {20.333334, 27.333334, 3, 4, 17.5,
  23}}},
  {[[b:index_reduce(1, i, b * 10, 'mean', false)]], {{3, 2}, {30, 40, 3, 4, 30, 40}}},
  {[[b:index_reduce(1, i, b * 10, 'amax', true)]], {{3, 2}, {50, 60, 3, 4, 30, 40}}},
  {[[b:index_reduce(1, i, b * 10, 'amax', false)]], {{3, 2}, {50, 60, 3, 4, 30, 40}}},
  {[[b:index_reduce(1, i, b * 10, 'amin', true)]], {{3, 2}, {1, 2, 3, 4, 5, 6}}},
  {[[b:index_reduce(1, i, b * 10, 'amin', false)]], {{3, 2}, {10, 20, 3, 4, 30, 40}}},
  {[[b:index_reduce(2, mt.tensor({2}, 'int64'), b[{{}, {1}}], 'mean')]], {{3, 2}, {1, 1.5, 3,
  3.5, 5, 5.5}}},
}
values.test_cases(cases, env)

test('parts are views', function()
  for _, parts in ipairs{env.x:tensor_split({2}, 2), env.x:hsplit(2), env.x:split_with_sizes({2, 2}, 2)} do
    eq(parts[1]:storage():numel(), 12)
  end
  local y = mt.zeros(4)
  y:tensor_split(3)[1]:fill_(1)
  eq(y:tolist(), {1, 1, 0, 0})
end)

test('dtypes: joined ones promote, a source is converted', function()
  eq(mt.block_diag(mt.ones(1):long(), mt.ones(1, 2):double()).dtype, 'float64')
  eq(mt.block_diag(mt.tensor{true}, mt.ones(1):int()):tolist(), {{1, 0}, {0, 1}})
  eq(mt.cartesian_prod(mt.ones(2):long(), mt.ones(1):long()).dtype, 'int64')
  eq(mt.range(1, 3):combinations().dtype, 'int64')
  eq(mt.zeros(2, 2):long():select_scatter(mt.full({2}, 2.7), 1, 1):tolist(), {{2, 2}, {0, 0}})
  for _, dtype in ipairs{'float16', 'bfloat16', 'float64', 'int32', 'uint8', 'int8', 'int16', 'bool'} do
    local x = mt.ones(2, 2):to(dtype)
    eq({x:slice_scatter(x).dtype, x:diagonal_scatter(x[1]).dtype, x[1]:combinations().dtype}, {dtype, dtype, dtype})
  end
  eq(mt.tensor({1, 2, 3}, 'int64'):index_reduce(1, env.i, mt.tensor({4, 5, 7}, 'int64'), 'mean'):tolist(), {4, 2, 4})
end)

test('index_reduce writes in place, and shares the gradient of equal ones', function()
  local x = env.b:clone()
  eq(x:index_reduce_(1, env.i, env.b * 10, 'amax') == x, true)
  eq(x:tolist(), {{50, 60}, {3, 4}, {30, 40}})
  local y, source = mt.tensor{4, 2, 3}:requires_grad_(), mt.tensor{4, 2, 4}:requires_grad_()
  y:index_reduce(1, env.i, source, 'amax'):sum():backward()
  near(y.grad:tolist(), {1 / 3, 1, 1}, 1e-6)
  near(source.grad:tolist(), {1 / 3, 0, 1 / 3}, 1e-6)
end)

t.gradients('block_diag', function(x, y) return mt.block_diag(x, y) end, {2, 3}, {3})
t.gradients('cartesian_prod', function(x, y) return mt.cartesian_prod(x, y) end, {3}, {2})
t.gradients('combinations', function(x) return x:combinations(2, true) end, {4})
t.gradients('tensor_split', function(x) return x:tensor_split({2, 3}, 2)[2] * x:vsplit(3)[3] end, {3, 4})
t.gradients('select_scatter', function(x, y) return x:select_scatter(y, 2, 3) end, {2, 3}, {2})
t.gradients('slice_scatter', function(x, y) return x:slice_scatter(y, 2, 1, 3, 2) end, {2, 3}, {2, 2})
t.gradients('diagonal_scatter', function(x, y) return x:diagonal_scatter(y, 1) end, {2, 3}, {2})
for _, how in ipairs{'prod', 'mean', 'amax', 'amin'} do
  t.gradients('index_reduce ' .. how, function(x, y)
    return x:index_reduce(1, mt.tensor({3, 1}, 'int64'), y, how)
  end, {3, 2}, {2, 2})
end

test('refusals', function()
  local x, v, i = env.x, env.v, env.i
  raises(function() x:tensor_split(0) end, 'tensor_split: 0 parts were requested')
  raises(function() x:tensor_split({0}) end, 'tensor_split: 0 is not a position')
  raises(function() x:tensor_split(mt.ones(2)) end, "tensor_split: argument 2 'parts' must be a number, or a list")
  raises(function() mt.tensor(3):tensor_split(2) end, 'tensor_split: a 0%-d tensor')
  raises(function() x:tensor_split(2, 3) end, 'tensor_split: dimension 3')
  raises(function() v:hsplit(2) end, 'hsplit: 2 parts do not divide the 5 positions of dimension 1; use tensor_split')
  raises(function() mt.tensor(3):hsplit(1) end, 'hsplit: %(%) has fewer than 1 dimension$')
  raises(function() v:vsplit(1) end, 'vsplit: %(5%) has fewer than 2 dimensions')
  raises(function() x:dsplit(1) end, 'dsplit: %(3 x 4%) has fewer than 3 dimensions')
  raises(function() v:split_with_sizes({1, 2}) end, 'split')
  raises(function() mt.block_diag(env.c) end, 'block_diag: tensor 1 is %(2 x 3 x 4%)')
  raises(function() mt.block_diag(v, 3) end, 'block_diag: argument 2 must be a tensor, got 3')
  raises(function() mt.cartesian_prod(v, v:long()) end, 'cartesian_prod: the dtypes int64 and float32 differ')
  raises(function() mt.cartesian_prod() end, 'cartesian_prod: no vectors')
  raises(function() mt.cartesian_prod(v, x) end, 'cartesian_prod: tensor 2 is %(3 x 4%)')
  raises(function() x:combinations() end, 'combinations: %(3 x 4%) is not a vector')
  raises(function() v:combinations(-1) end, 'combinations: r is %-1')
  raises(function() mt.zeros(1000):combinations(50) end, 'combinations: 50 of 1000 elements are .* more than memory')
  raises(function() v:combinations(2 ^ 40, true) end, 'combinations: ')
  raises(function() x:select_scatter(v, 1, 1) end, 'select_scatter: the source is %(5%), the region %(4%)')
  raises(function() x:select_scatter(x[1], 1, 4) end, '4')
  raises(function() x:slice_scatter(v, 1) end, 'slice_scatter: the source is %(5%), the region %(3 x 4%)')
  raises(function() x:slice_scatter(v, 1, 2, 9) end, 'slice_scatter: the range 2%.%.9 does not lie inside 1%.%.3')
  raises(function() x:diagonal_scatter(v) end, 'diagonal_scatter: the source is %(5%), the region %(3%)')
  raises(function() mt.unravel_index(mt.tensor({13}, 'int64'), {3, 4}) end, 'a position is 13; .* positions 1%.%.12')
  raises(function() mt.unravel_index(mt.tensor({0}, 'int64'), {3, 4}) end, 'a position is 0; ')
  raises(function() mt.unravel_index(mt.tensor({-13}, 'int64'), {3, 4}) end, 'a position is %-13; ')
  raises(function() mt.unravel_index(mt.ones(1), {3, 4}) end, 'positions must be integers, these are float32')
  raises(function() mt.unravel_index(mt.tensor({1}, 'int64'), {3, 0}) end, 'a position is 1; ')
  raises(function() env.b:index_reduce(1, i, env.b, 'sum') end, "index_reduce: unknown reduction 'sum'; use 'prod'")
  raises(function() env.b:index_reduce(1, i, v, 'prod') end, 'index_reduce: the source is %(5%)')
  raises(function() env.b:index_reduce(1, mt.tensor({4, 1, 1}, 'int64'), env.b, 'prod') end, 'position 4')
  raises(function() env.b:index_reduce_(1, i, env.b:double(), 'prod') end, 'float64')
end)

t.finish()
