-- test_pieces.lua -- parts of given sizes, and positions in each dimension: values of PyTorch
local mt = require 'mtorch'
local t = require 'testing'
local values = require 'torch_values'
local test, eq, raises = t.test, t.eq, t.raises

local env = values.env{}

-- Expression, {shape, elements} as PyTorch 2.15 gives them (positions counted from 1).
local cases = {
  {[[v:split_with_sizes({2, 0, 3})]], {list = {{{2}, {1, 2}}, {{0}, {}}, {{3}, {3, 4, 5}}}}},
  {[[x:split_with_sizes({1, 3}, 2)]], {list = {{{3, 1}, {1, 5, 9}}, {{3, 3}, {2, 3, 4, 6, 7, 8,
  10, 11, 12}}}}},
  {[[mt.unravel_index(mt.tensor({1, 6, 12}, "int64"), {3, 4})]], {list = {{{3}, {1, 2, 3}},
  {{3}, {1, 2, 4}}}}},
  {[[mt.unravel_index(mt.tensor({{-1, -12}}, "int32"), {3, 4})]], {list = {{{1, 2}, {3, 1}},
  {{1, 2}, {4, 1}}}}},
  {[[mt.unravel_index(mt.tensor(4, {dtype = "int64"}), 7)]], {list = {{{}, {4}}}}},
  {[[mt.unravel_index(mt.tensor({}, "int64"), {2, 0})]], {list = {{{0}, {}}, {{0}, {}}}}},
}
values.test_cases(cases, env)

test('parts are views', function()
  for _, part in ipairs(env.x:split_with_sizes({2, 2}, 2)) do eq(part:storage():numel(), 12) end
end)

test('refusals', function()
  raises(function() env.v:split_with_sizes({1, 2}) end, 'split')
  raises(function() mt.unravel_index(mt.tensor({13}, 'int64'), {3, 4}) end, 'a position is 13; .* positions 1%.%.12')
  raises(function() mt.unravel_index(mt.tensor({0}, 'int64'), {3, 4}) end, 'a position is 0; ')
  raises(function() mt.unravel_index(mt.tensor({-13}, 'int64'), {3, 4}) end, 'a position is %-13; ')
  raises(function() mt.unravel_index(mt.ones(1), {3, 4}) end, 'positions must be integers, these are float32')
  raises(function() mt.unravel_index(mt.tensor({1}, 'int64'), {3, 0}) end, 'a position is 1; ')
end)

t.finish()
