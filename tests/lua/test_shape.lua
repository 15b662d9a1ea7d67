-- test_shape.lua -- views, concatenation, splitting, repetition: values of PyTorch, gradients, sharing, errors
local mt = require 'mtorch'
local t = require 'testing'
local values = require 'torch_values'
local test, eq, raises = t.test, t.eq, t.raises

local env = values.env{i = mt.tensor({2, 0, 3}, 'int64')}

-- Expression, {shape, elements} as PyTorch 2 gives them (its 0-based arguments counted from 1).
local cases = {
  {[[x:unflatten(2, {2, -1})]], {{3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[x:unflatten(-1, {4, 1})]], {{3, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[e:unflatten(2, {3, 1})]], {{0, 3, 1}, {}}},
  {[[c:movedim(1, 3)]], {{3, 4, 2}, {1, 13, 2, 14, 3, 15, 4, 16, 5, 17, 6, 18, 7, 19, 8, 20, 9,
    21, 10, 22, 11, 23, 12, 24}}},
  {[[c:movedim({1, 2}, {-1, 1})]], {{3, 4, 2}, {1, 13, 2, 14, 3, 15, 4, 16, 5, 17, 6, 18, 7, 19,
    8, 20, 9, 21, 10, 22, 11, 23, 12, 24}}},
  {[[x:broadcast_to(2, 3, 4)]], {{2, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5,
    6, 7, 8, 9, 10, 11, 12}}},
  {[[x:split(2)]], {list = {{{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}, {{1, 4}, {9, 10, 11, 12}}}}},
  {[[x:split(3, 2)]], {list = {{{3, 3}, {1, 2, 3, 5, 6, 7, 9, 10, 11}}, {{3, 1}, {4, 8, 12}}}}},
  {[[x:split({1, 0, 3}, -1)]], {list = {{{3, 1}, {1, 5, 9}}, {{3, 0}, {}}, {{3, 3}, {2, 3, 4, 6,
    7, 8, 10, 11, 12}}}}},
  {[[v:chunk(2)]], {list = {{{3}, {1, 2, 3}}, {{2}, {4, 5}}}}},
  {[[v:chunk(4)]], {list = {{{2}, {1, 2}}, {{2}, {3, 4}}, {{1}, {5}}}}},
  {[[v:chunk(9)]], {list = {{{1}, {1}}, {{1}, {2}}, {{1}, {3}}, {{1}, {4}}, {{1}, {5}}}}},
  {[[e:chunk(2)]], {list = {{{0, 3}, {}}, {{0, 3}, {}}}}},
  {[[e:split(2)]], {list = {{{0, 3}, {}}}}},
  {[[c:unbind()]], {list = {{{3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, {{3, 4}, {13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24}}}}},
  {[[x:unbind(2)]], {list = {{{3}, {1, 5, 9}}, {{3}, {2, 6, 10}}, {{3}, {3, 7, 11}}, {{3}, {4, 8,
    12}}}}},
  {[[v:tile(2)]], {{10}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5}}},
  {[[x:tile(2, 1)]], {{6, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9,
    10, 11, 12}}},
  {[[x:tile(2, 1, 3)]], {{2, 3, 12}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8,
    5, 6, 7, 8, 9, 10, 11, 12, 9, 10, 11, 12, 9, 10, 11, 12, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4,
    5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11, 12, 9, 10, 11, 12, 9, 10, 11, 12}}},
  {[[c:tile(2)]], {{2, 3, 8}, {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11, 12, 9,
    10, 11, 12, 13, 14, 15, 16, 13, 14, 15, 16, 17, 18, 19, 20, 17, 18, 19, 20, 21, 22, 23, 24,
    21, 22, 23, 24}}},
  {[[x:tile(0, 2)]], {{0, 8}, {}}},
  {[[s:tile(3)]], {{3}, {7, 7, 7}}},
  {[[x:tile{}]], {{3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[x['repeat'](x, 2, 2)]], {{6, 8}, {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11,
    12, 9, 10, 11, 12, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11, 12, 9, 10, 11,
    12}}},
  {[[x:repeat_interleave(2)]], {{24}, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10,
    10, 11, 11, 12, 12}}},
  {[[x:repeat_interleave(2, 1)]], {{6, 4}, {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10,
    11, 12, 9, 10, 11, 12}}},
  {[[x:repeat_interleave(i, 1)]], {{5, 4}, {1, 2, 3, 4, 1, 2, 3, 4, 9, 10, 11, 12, 9, 10, 11, 12,
    9, 10, 11, 12}}},
  {[[x:repeat_interleave({1, 2, 0, 1}, 2)]], {{3, 4}, {1, 2, 2, 4, 5, 6, 6, 8, 9, 10, 10, 12}}},
  {[[x:repeat_interleave(0, 2)]], {{3, 0}, {}}},
  {[[s:repeat_interleave(3)]], {{3}, {7, 7, 7}}},
  {[[x:flip(1)]], {{3, 4}, {9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4}}},
  {[[x:flip(1, 2)]], {{3, 4}, {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}}},
  {[[c:flip{-1, 1}]], {{2, 3, 4}, {16, 15, 14, 13, 20, 19, 18, 17, 24, 23, 22, 21, 4, 3, 2, 1, 8,
    7, 6, 5, 12, 11, 10, 9}}},
  {[[x:t():flip(2)]], {{4, 3}, {9, 5, 1, 10, 6, 2, 11, 7, 3, 12, 8, 4}}},
  {[[e:flip(1)]], {{0, 3}, {}}},
  {[[x:fliplr()]], {{3, 4}, {4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9}}},
  {[[x:flipud()]], {{3, 4}, {9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4}}},
  {[[x:roll(1)]], {{3, 4}, {12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},
  {[[x:roll(-5)]], {{3, 4}, {6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5}}},
  {[[x:roll(1, 2)]], {{3, 4}, {4, 1, 2, 3, 8, 5, 6, 7, 12, 9, 10, 11}}},
  {[[x:roll({1, -3}, {1, 2})]], {{3, 4}, {12, 9, 10, 11, 4, 1, 2, 3, 8, 5, 6, 7}}},
  {[[x:roll({1, 1}, {2, 2})]], {{3, 4}, {3, 4, 1, 2, 7, 8, 5, 6, 11, 12, 9, 10}}},
  {[[c:roll({-1, 2, 7}, {1, 2, 3})]], {{2, 3, 4}, {18, 19, 20, 17, 22, 23, 24, 21, 14, 15, 16, 13,
    6, 7, 8, 5, 10, 11, 12, 9, 2, 3, 4, 1}}},
  {[[e:roll(2)]], {{0, 3}, {}}},
  {[[x:rot90()]], {{4, 3}, {4, 8, 12, 3, 7, 11, 2, 6, 10, 1, 5, 9}}},
  {[[x:rot90(2)]], {{3, 4}, {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}}},
  {[[x:rot90(-1)]], {{4, 3}, {9, 5, 1, 10, 6, 2, 11, 7, 3, 12, 8, 4}}},
  {[[c:rot90(3, {2, 3})]], {{2, 4, 3}, {9, 5, 1, 10, 6, 2, 11, 7, 3, 12, 8, 4, 21, 17, 13, 22, 18,
    14, 23, 19, 15, 24, 20, 16}}},
  {[[x:tril()]], {{3, 4}, {1, 0, 0, 0, 5, 6, 0, 0, 9, 10, 11, 0}}},
  {[[x:tril(-1)]], {{3, 4}, {0, 0, 0, 0, 5, 0, 0, 0, 9, 10, 0, 0}}},
  {[[x:triu(1)]], {{3, 4}, {0, 2, 3, 4, 0, 0, 7, 8, 0, 0, 0, 12}}},
  {[[x:triu(-9)]], {{3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[x:triu(9)]], {{3, 4}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}},
  {[[c:tril(1)]], {{2, 3, 4}, {1, 2, 0, 0, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 0, 0, 17, 18, 19, 0,
    21, 22, 23, 24}}},
  {[[v:diag()]], {{5, 5}, {1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0,
    5}}},
  {[[v[{{1, 2}}]:diag(-1)]], {{3, 3}, {0, 0, 0, 1, 0, 0, 0, 2, 0}}},
  {[[x:diag()]], {{3}, {1, 6, 11}}},
  {[[x:diag(2)]], {{2}, {3, 8}}},
  {[[x:diagonal(-1)]], {{2}, {5, 10}}},
  {[[x:diagonal(7)]], {{0}, {}}},
  {[[c:diagonal(1, 2, 3)]], {{2, 3}, {2, 7, 12, 14, 19, 24}}},
  {[[c:diagonal(0, 3, 1)]], {{3, 2}, {1, 14, 5, 18, 9, 22}}},
  {[[x:diag_embed()]], {{3, 4, 4}, {1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4, 5, 0, 0, 0, 0,
    6, 0, 0, 0, 0, 7, 0, 0, 0, 0, 8, 9, 0, 0, 0, 0, 10, 0, 0, 0, 0, 11, 0, 0, 0, 0, 12}}},
  {[[x:diag_embed(1, 1, 3)]], {{5, 3, 5}, {0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 2,
    0, 0, 0, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 7, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0,
    4, 0, 0, 0, 0, 8, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}},
  {[[x:diag_embed(-1, -1, 1)]], {{5, 3, 5}, {0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 2,
    0, 0, 0, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 7, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0,
    4, 0, 0, 0, 0, 8, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}},
  {[[{mt.meshgrid(v, i:float())}]], {list = {{{5, 3}, {1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5,
    5}}, {{5, 3}, {2, 0, 3, 2, 0, 3, 2, 0, 3, 2, 0, 3, 2, 0, 3}}}}},
  {[[{mt.meshgrid(v, i:float(), {indexing='xy'})}]], {list = {{{3, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4,
    5, 1, 2, 3, 4, 5}}, {{3, 5}, {2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3}}}}},
  {[[{mt.meshgrid{v, s, v, indexing='xy'}}]], {list = {{{1, 5, 5}, {1, 1, 1, 1, 1, 2, 2, 2, 2, 2,
    3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5}}, {{1, 5, 5}, {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}}, {{1, 5, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2,
    3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5}}}}},
  {[[x:pad{1, 2}]], {{3, 7}, {0, 1, 2, 3, 4, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 9, 10, 11, 12, 0, 0}}},
  {[[x:pad({1, 0, 2, 1}, {value=-1})]], {{6, 5}, {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1,
    2, 3, 4, -1, 5, 6, 7, 8, -1, 9, 10, 11, 12, -1, -1, -1, -1, -1}}},
  {[[x:pad{-1, 2, -2, 0}]], {{1, 5}, {10, 11, 12, 0, 0}}},
  {[[c:pad({2, 3}, 'reflect')]], {{2, 3, 9}, {3, 2, 1, 2, 3, 4, 3, 2, 1, 7, 6, 5, 6, 7, 8, 7, 6,
    5, 11, 10, 9, 10, 11, 12, 11, 10, 9, 15, 14, 13, 14, 15, 16, 15, 14, 13, 19, 18, 17, 18, 19,
    20, 19, 18, 17, 23, 22, 21, 22, 23, 24, 23, 22, 21}}},
  {[[c:pad({2, 3}, 'replicate')]], {{2, 3, 9}, {1, 1, 1, 2, 3, 4, 4, 4, 4, 5, 5, 5, 6, 7, 8, 8, 8,
    8, 9, 9, 9, 10, 11, 12, 12, 12, 12, 13, 13, 13, 14, 15, 16, 16, 16, 16, 17, 17, 17, 18, 19,
    20, 20, 20, 20, 21, 21, 21, 22, 23, 24, 24, 24, 24}}},
  {[[c:pad({4, 3}, 'circular')]], {{2, 3, 11}, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 5, 6, 7, 8, 5, 6,
    7, 8, 5, 6, 7, 9, 10, 11, 12, 9, 10, 11, 12, 9, 10, 11, 13, 14, 15, 16, 13, 14, 15, 16, 13,
    14, 15, 17, 18, 19, 20, 17, 18, 19, 20, 17, 18, 19, 21, 22, 23, 24, 21, 22, 23, 24, 21, 22,
    23}}},
  {[[c:pad({-1, 2}, 'reflect')]], {{2, 3, 5}, {2, 3, 4, 3, 2, 6, 7, 8, 7, 6, 10, 11, 12, 11, 10,
    14, 15, 16, 15, 14, 18, 19, 20, 19, 18, 22, 23, 24, 23, 22}}},
  {[[c[{{1, 0}}]:pad({-1, 0}, 'reflect')]], {{0, 3, 3}, {}}},
  {[[c[{{1, 0}}]:pad({2, -3}, 'replicate')]], {{0, 3, 3}, {}}},
  {[[c:pad({-1, 2}, 'circular')]], {{2, 3, 5}, {2, 3, 4, 2, 3, 6, 7, 8, 6, 7, 10, 11, 12, 10, 11,
    14, 15, 16, 14, 15, 18, 19, 20, 18, 19, 22, 23, 24, 22, 23}}},
  {[[c:unsqueeze(1):pad({1, 2, 2, 1}, 'reflect')]], {{1, 2, 6, 7}, {10, 9, 10, 11, 12, 11, 10, 6,
    5, 6, 7, 8, 7, 6, 2, 1, 2, 3, 4, 3, 2, 6, 5, 6, 7, 8, 7, 6, 10, 9, 10, 11, 12, 11, 10, 6, 5,
    6, 7, 8, 7, 6, 22, 21, 22, 23, 24, 23, 22, 18, 17, 18, 19, 20, 19, 18, 14, 13, 14, 15, 16, 15,
    14, 18, 17, 18, 19, 20, 19, 18, 22, 21, 22, 23, 24, 23, 22, 18, 17, 18, 19, 20, 19, 18}}},
  {[[c:unsqueeze(1):pad({1, 2, 2, 1}, 'circular')]], {{1, 2, 6, 7}, {8, 5, 6, 7, 8, 5, 6, 12, 9,
    10, 11, 12, 9, 10, 4, 1, 2, 3, 4, 1, 2, 8, 5, 6, 7, 8, 5, 6, 12, 9, 10, 11, 12, 9, 10, 4, 1,
    2, 3, 4, 1, 2, 20, 17, 18, 19, 20, 17, 18, 24, 21, 22, 23, 24, 21, 22, 16, 13, 14, 15, 16, 13,
    14, 20, 17, 18, 19, 20, 17, 18, 24, 21, 22, 23, 24, 21, 22, 16, 13, 14, 15, 16, 13, 14}}},
  {[[x:t():ravel()]], {{12}, {1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}}},
  {[[s:ravel()]], {{1}, {7}}},
  {[[x:view_as(mt.zeros(2, 6))]], {{2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[x:t():reshape_as(mt.zeros(2, 6))]], {{2, 6}, {1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}}},
  {[[c:swapaxes(1, 3)]], {{4, 3, 2}, {1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22, 3, 15, 7, 19, 11,
    23, 4, 16, 8, 20, 12, 24}}},
  {[[c:swapdims(-1, 2)]], {{2, 4, 3}, {1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12, 13, 17, 21, 14, 18,
    22, 15, 19, 23, 16, 20, 24}}},
  {[[mt.vstack{v, v}]], {{2, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5}}},
  {[[mt.vstack{s, s}]], {{2, 1}, {7, 7}}},
  {[[mt.vstack{x, v[{{1, 4}}]}]], {{4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4}}},
  {[[mt.hstack{v, v}]], {{10}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5}}},
  {[[mt.hstack{s, s}]], {{2}, {7, 7}}},
  {[[mt.hstack{x, x}]], {{3, 8}, {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10, 11, 12,
    9, 10, 11, 12}}},
  {[[mt.concat{x, x, dim=2}]], {{3, 8}, {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8, 9, 10,
    11, 12, 9, 10, 11, 12}}},
  {[[mt.cat{mt.zeros(0), x, dim=2}]], {{3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[v:unfold(1, 3, 1)]], {{3, 3}, {1, 2, 3, 2, 3, 4, 3, 4, 5}}},
  {[[v:unfold(1, 2, 2)]], {{2, 2}, {1, 2, 3, 4}}},
  {[[v:unfold(1, 0, 2)]], {{3, 0}, {}}},
  {[[x:unfold(2, 2, 2)]], {{3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[x:unfold(1, 2, 1)]], {{2, 4, 2}, {1, 5, 2, 6, 3, 7, 4, 8, 5, 9, 6, 10, 7, 11, 8, 12}}},
  {[[s:unfold(1, 1, 1)]], {{1}, {7}}},
  {[[x:as_strided({2, 2}, {1, 2})]], {{2, 2}, {1, 3, 2, 4}}},
  {[[x:as_strided({3, 2}, {2, 2}, 1)]], {{3, 2}, {2, 4, 4, 6, 6, 8}}},
  {[[x[2]:as_strided({2}, {1})]], {{2}, {5, 6}}},
  {[[x:as_strided({}, {}, 4)]], {{}, {5}}},
  {[[mt.zeros(1, 3, 1, 1):squeeze{1, 3}]], {{3, 1}, {0, 0, 0}}},
  {[[mt.zeros(1, 3, 1, 1):squeeze{1, 2}]], {{3, 1, 1}, {0, 0, 0}}},
  {[[v:unsqueeze{1, -1}]], {{1, 5, 1}, {1, 2, 3, 4, 5}}},
  {[[{mt.broadcast_tensors(x:narrow(2, 1, 1), v)}]], {list = {{{3, 5}, {1, 1, 1, 1, 1, 5, 5, 5, 5,
    5, 9, 9, 9, 9, 9}}, {{3, 5}, {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5}}}}},
  {[[s:atleast_1d()]], {{1}, {7}}},
  {[[s:atleast_2d()]], {{1, 1}, {7}}},
  {[[v:atleast_2d()]], {{1, 5}, {1, 2, 3, 4, 5}}},
  {[[s:atleast_3d()]], {{1, 1, 1}, {7}}},
  {[[v:atleast_3d()]], {{1, 5, 1}, {1, 2, 3, 4, 5}}},
  {[[x:atleast_3d()]], {{3, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}},
  {[[v:t()]], {{5}, {1, 2, 3, 4, 5}}},
  {[[mt.tril_indices(3, 4, 1) - 1]], {{2, 9}, {0, 0, 1, 1, 1, 2, 2, 2, 2, 0, 1, 0, 1, 2, 0, 1, 2,
    3}}},
  {[[mt.triu_indices(3, 4, -1) - 1]], {{2, 11}, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 0, 1, 2, 3, 0,
    1, 2, 3, 1, 2, 3}}},
  {[[mt.triu_indices(2, 2, 5)]], {{2, 0}, {}}},
}

values.test_cases(cases, env, true)

-- Gradients of both orders on every layout --------------------------------------------------------

--- Returns float64 leaves of one shape in several layouts.
local function layouts(...)
  local shape = {...}
  local wide = {}
  for d, n in ipairs(shape) do wide[d] = 2 * n end
  local order = {}
  for d = 1, #shape do order[d] = #shape + 1 - d end
  local reversed = {}
  for d = 1, #shape do reversed[d] = shape[#shape + 1 - d] end
  local rows = {{}}
  for d = 1, #shape do rows[d] = {1, -1, 2} end
  local function leaf(x) return (x:detach():requires_grad_()) end
  local list = {
    leaf(mt.randn(shape, 'float64')),
    leaf(mt.randn(reversed, 'float64'):permute(order)),
    leaf(mt.randn(wide, 'float64')[rows]),
  }
  return list
end

local smooth = {
  {'unflatten', function(x) return x:unflatten(2, {2, 2}) end, 3, 4},
  {'movedim', function(x) return x:movedim(1, -1) end, 2, 3, 2},
  {'split', function(x) local p = x:split(3, 2); return p[1]:sum(2) * p[2]:sum(2) end, 3, 4},
  {'chunk', function(x) local p = x:chunk(2, 1); return p[1][1] * p[2][1] end, 3, 4},
  {'unbind', function(x) local p = x:unbind(2); return p[1] * p[4] end, 3, 4},
  {'tile', function(x) return x:tile(2, 1, 2) end, 2, 3},
  {'repeat_interleave', function(x) return x:repeat_interleave(2, 1) end, 2, 3},
  {'repeat_interleave by a list', function(x) return x:repeat_interleave({0, 2, 1}, 2) end, 2, 3},
  {'flip', function(x) return x:flip(1, 2) end, 2, 3},
  {'roll', function(x) return x:roll({1, -1}, {1, 2}) end, 3, 4},
  {'roll all', function(x) return x:roll(2) end, 3, 4},
  {'rot90', function(x) return x:rot90(1) end, 3, 2},
  {'tril', function(x) return x:tril(1) end, 3, 4},
  {'triu', function(x) return x:triu() end, 2, 3, 3},
  {'diagonal', function(x) return x:diagonal(1) end, 3, 4},
  {'diagonal of a stack', function(x) return x:diagonal(-1, 3, 1) end, 3, 2, 3},
  {'diag', function(x) return x:diag(-1) end, 3, 4},
  {'diag_embed', function(x) return x:diag_embed(1) end, 2, 2},
  {'meshgrid', function(x) local a, b = mt.meshgrid(x[1], x[2]); return a * b end, 2, 3},
  {'pad', function(x) return x:pad{1, 2, -1, 1} end, 2, 3},
  {'pad by reflection', function(x) return x:pad({1, 2}, 'reflect') end, 2, 3},
  {'pad by replication', function(x) return x:pad({1, 2, 1, 0}, 'replicate') end, 2, 3},
  {'pad around', function(x) return x:pad({1, 2}, 'circular') end, 2, 3},
  {'unfold', function(x) return x:unfold(2, 3, 1) end, 2, 5},
  {'unfold with a step', function(x) return x:unfold(1, 2, 3) end, 6, 2},
  {'as_strided', function(x) return x:as_strided({2, 2}, {1, 1}) end, 2, 3},
  {'squeeze', function(x) return x:squeeze{1, 3} end, 1, 3, 1},
  {'unsqueeze', function(x) return x:unsqueeze{1, -1} end, 2, 3},
  {'vstack', function(x) return mt.vstack{x, x[1]} end, 2, 3},
  {'cat with nothing', function(x) return mt.cat{mt.zeros({0}, 'float64'), x, x, dim = 2} end, 2, 3},
  {'broadcast_tensors', function(x)
    local a, b = mt.broadcast_tensors(x:narrow(1, 1, 1), x)
    return a * b
  end, 2, 3},
}
for _, case in ipairs(smooth) do
  local name, f = case[1], case[2]
  test('gradients of ' .. name, function()
    for _, x in ipairs(layouts(unpack(case, 3))) do
      local function squared(y)
        local z = f(y)
        return (z * z)
      end
      mt.gradcheck(squared, {x})
      mt.gradgradcheck(squared, {x})
    end
  end)
end

test('T and mT are fields', function()
  local m, b = mt.tensor{{1, 2, 3}, {4, 5, 6}}, mt.range(1, 6):view(1, 2, 3)
  eq(m.T:tolist(), {{1, 4}, {2, 5}, {3, 6}})
  eq(m.T:storage_offset(), 0)
  m.T[1][2] = 9 -- a view
  eq(m:at(2, 1), 9)
  eq(b.mT:tolist(), {{{1, 4}, {2, 5}, {3, 6}}})
  eq({unpack(mt.zeros(2, 0).T.shape)}, {0, 2})
  eq(mt.tensor{1, 2}.T:tolist(), {1, 2})
  eq(mt.tensor(1).T:item(), 1)
  local w = mt.ones(2, 3):requires_grad_();
  (w.T:matmul(w)).mT:sum():backward()
  eq(w.grad:tolist(), {{6, 6, 6}, {6, 6, 6}})
  raises(function() return b.T end, 'T: %(1 x 2 x 3%) is not a matrix; x.mT transposes its')
  raises(function() return mt.ones(2).mT end, 'mT: %(2%) is not a matrix or a batch')
  raises(function() m.T = m end, 'T')
end)

test('gradients through expanded, empty and 0-d tensors', function()
  local x = mt.randn({3, 1}, {dtype = 'float64', requires_grad = true})
  for _, f in ipairs{
    function(y) return (y:flip(2)) end, function(y) return (y:roll(1, 1)) end,
    function(y) return (y:diagonal()) end, function(y) return (y:unfold(2, 2, 1)) end,
    function(y) return (y:pad{1, -1}) end, function(y) return (y:tril()) end,
    function(y) return (y:as_strided({3}, {1})) end, function(y) return (y:tile(2)) end,
  } do
    mt.gradcheck(function(y) return (f(y:expand(3, 4)):square()) end, {x})
  end
  local e = mt.zeros({0, 3}, {dtype = 'float64', requires_grad = true})
  for _, f in ipairs{
    function(y) return (y:flip(1)) end, function(y) return (y:roll(1, 2)) end,
    function(y) return (y:diagonal()) end, function(y) return (y:pad{1, 1}) end,
    function(y) return (y:tril()) end, function(y) return (y:unfold(1, 0, 1)) end,
    function(y) return (y:repeat_interleave(2, 2)) end, function(y) return (y:diag_embed()) end,
  } do
    e:zero_grad_()
    f(e):sum():backward()
    eq(tostring(e.grad.shape), '(0, 3)')
  end
  local s = mt.tensor(2, {dtype = 'float64', requires_grad = true})
  for _, f in ipairs{
    function(y) return (y:flip{}) end, function(y) return (y:tile(3)) end,
    function(y) return (y:unfold(1, 1, 1)) end, function(y) return (y:atleast_3d()) end,
    function(y) return (y:repeat_interleave(2)) end, function(y) return (y:ravel()) end,
  } do
    mt.gradcheck(function(y) return (f(y):square()) end, {s})
  end
end)

-- What is shared with the original ----------------------------------------------------------------

test('views share memory where PyTorch gives views', function()
  local views = {
    "x:unflatten(2, {2, 2})", "x:movedim(1, 2)", "x:split(2)[1]", "x:chunk(2)[1]", "x:unbind()[1]",
    "x:unbind(2)[1]", "x:diagonal()", "x:unfold(1, 2, 1)", "x:as_strided({2}, {1})", "x:ravel()",
    "x:view_as(x)", "x:swapaxes(1, 2)", "x:broadcast_to(1, 3, 4)", "x:atleast_3d()", "x:storage()",
    "x:unsqueeze{1, 2}", "(mt.meshgrid(x:flatten(), x[1]))", "(mt.broadcast_tensors(x, x))",
  }
  for _, code in ipairs(views) do
    env.x = mt.zeros(3, 4)
    local view = values.run(code, env)
    env.x[{1, 1}] = 5
    eq(view:max():item(), 5)
  end
  local copies = {"x:flip(1)", "x:roll(0, 1)", "x:tile(1, 1)", "x:repeat_interleave(1, 1)", "x:diag()",
    "x:tril()", "x:pad{0, 0}", "x:pad({0, 0}, 'reflect')", "x:rot90(0)", "mt.cat{x}"}
  for _, code in ipairs(copies) do
    env.x = mt.zeros(3, 4)
    local copy = values.run(code, env)
    env.x[{1, 1}] = 5
    eq(copy:max():item(), 0)
  end
end)

test('the storage of an expanded vector has as many elements as the vector', function()
  local c = mt.tensor{10, 20, 30}
  local m = c:expand_as(mt.zeros(3, 3))
  eq(tostring(m:stride()), '(0, 1)')
  eq(#m:storage(), 3)
  eq(tostring(m:storage()), ('  10.  20.  30.\n[(3) float32 %s]'):format(c.device))
  eq(m:storage()[2]:item(), 20)
  eq(c[{{2, 3}}]:storage():tolist(), {10, 20, 30})
  eq({c:element_size(), c:nelement(), m:ndimension()}, {4, 3, 2})
  eq({c:long():element_size(), c:bool():element_size()}, {8, 1})
end)

test('splits and windows have the strides of views', function()
  local x = mt.range(1, 10)
  eq(tostring(x:unfold(1, 4, 3):stride()), '(3, 1)')
  eq(tostring(mt.zeros(4, 6):diagonal():stride()), '(7)')
  eq(x:split(4)[3]:storage_offset(), 8)
  eq(#x:split(3), 4)
end)

test('every dtype is turned, padded and joined', function()
  for _, dtype in ipairs{'float32', 'float64', 'int64', 'int32', 'uint8', 'int8', 'int16', 'bool'} do
    local x = mt.tensor({{1, 0}, {0, 1}}, 'float32'):to(dtype)
    for _, y in ipairs{x:flip(1), x:roll(1, 1), x:tril(), x:pad{1, 0}, x:tile(2), x:diag(),
                       x:diag_embed(), x:repeat_interleave(2), mt.vstack{x, x}} do
      eq(y.dtype, dtype)
    end
    eq(x:flip(1):double():tolist(), {{0, 1}, {1, 0}})
  end
  local nan = mt.tensor{{0 / 0, 0 / 0}, {1, 0 / 0}}
  eq(nan:tril():triu(1):tolist(), {{0, 0}, {0, 0}})
  eq(mt.cat{mt.zeros({1}, 'int64'), mt.zeros({1}, 'uint8')}.dtype, 'int64')
  eq(mt.cat{mt.zeros({0}, 'float64'), mt.zeros(2, 2)}.dtype, 'float64')
end)

-- Errors ------------------------------------------------------------------------------------------

test('errors name the values as they were given', function()
  local x, v = mt.zeros(3, 4), mt.zeros(5)
  local cases = {
    {function() x:narrow(1, 3, 2) end, 'narrow: the range from 3 of length 2 does not lie inside 1%.%.3'},
    {function() x:narrow(1, -4, 1) end, 'narrow: the range from %-4 of length 1 '},
    {function() x:narrow(1, 1, 2 ^ 53) end, 'narrow: the range from 1 of length 9007199254740992'},
    {function() x:select(2, 5) end, 'select: position 5 is outside 1%.%.4'},
    {function() x:select(2, 0) end, '0 is not a position'},
    {function() x:unflatten(2, {3, -1}) end, 'unflatten: %(4%) has 4 elements'},
    {function() x:unflatten(3, {1}) end, 'unflatten: dimension 3 is out of range'},
    {function() x:movedim({1, 1}, {1, 2}) end, 'movedim: dimension 1 is named twice'},
    {function() x:movedim(1, {1, 2}) end, 'movedim: 1 dimensions are moved to 2'},
    {function() x:split(0) end, 'split: parts of 0'},
    {function() x:split(-1) end, 'split: parts of %-1'},
    {function() x:split{1, 1} end, 'split: the sizes 1, 1 must sum to 3'},
    {function() x:split{2 ^ 52, 2 ^ 52, 2 ^ 52} end, 'split: the sizes'},
    {function() x:split{4, -1} end, 'split: the sizes 4, %-1|a part of %-1'},
    {function() mt.tensor(1):split(1) end, 'split: a 0%-d tensor'},
    {function() x:chunk(0) end, 'chunk: 0 parts'},
    {function() mt.zeros(0):chunk(2 ^ 40) end, 'chunk: 1099511627776 tensors are too many'},
    {function() x:tile(2 ^ 40, 2 ^ 40) end, 'tile: .* more elements than memory can hold'},
    {function() x:tile(-1) end, 'tile: %-1 repeats'},
    {function() x['repeat'](x, 2) end, 'repeat: 1 repeats for the 2 dimensions'},
    {function() x:repeat_interleave(-1) end, 'repeat_interleave: repeats is %-1'},
    {function() x:repeat_interleave(2 ^ 50) end, 'more elements than memory can hold'},
    {function() x:repeat_interleave({1, 2}, 1) end, 'repeats %(2%) for 3 positions'},
    {function() x:repeat_interleave({1, -2, 1}, 1) end, '%-2 repeats of position 2'},
    {function() x:repeat_interleave({2 ^ 52, 2 ^ 52, 2 ^ 52}, 1) end, 'more than memory can hold'},
    {function() x:repeat_interleave(mt.ones(3), 1) end, 'use repeats:long%(%)'},
    {function() x:flip(3) end, 'flip: dimension 3 is out of range'},
    {function() x:flip(1, 1) end, 'flip: dimension 1 is named twice'},
    {function() x:roll({1, 2}) end, 'roll: 2 shifts are given without dims'},
    {function() x:roll({1, 2}, 1) end, 'roll: 2 shifts for 1 dimensions'},
    {function() v:tril() end, 'tril: %(5%) is not a matrix'},
    {function() mt.zeros(2, 2, 2):diag() end, 'diag: .* is neither a vector nor a matrix'},
    {function() v:diagonal() end, 'diagonal: %(5%) has fewer than two dimensions'},
    {function() x:diagonal(0, 1, 1) end, 'diagonal: dimension 1 is named twice'},
    {function() v:diag_embed(2 ^ 50) end, 'diag_embed: .* more elements than memory can hold'},
    {function() v:diag(2 ^ 40) end, 'more elements than memory can hold'},
    {function() mt.meshgrid(x) end, 'meshgrid: %(3 x 4%) has more than one dimension'},
    {function() mt.meshgrid() end, 'meshgrid: at least one'},
    {function() mt.meshgrid(v, v, {index = 'xy'}) end, "meshgrid: unknown option 'index' %(did you mean 'indexing'"},
    {function() mt.meshgrid(v, 3) end, "meshgrid: argument 2 'indexing' must be 'ij' or 'xy', got 3"},
    {function() x:pad{1} end, 'pad: 1 sides are given'},
    {function() x:pad{1, 1, 1, 1, 1, 1} end, 'pad: sides of 3 dimensions'},
    {function() x:pad{-3, -2} end, 'pad: %(%-3, %-2%) cuts off more than the 4'},
    {function() x:pad{2 ^ 50, 0} end, 'more elements than memory can hold'},
    {function() x:pad({4, 0}, 'reflect') end, 'pad: a reflection of 4 positions'},
    {function() x:pad({5, 0}, 'circular') end, 'pad: circular padding of 5 positions'},
    {function() x:pad({-3, 2}, 'circular') end, 'of 2 positions is larger than dimension 2, of size 1 after cropping'},
    {function() x:pad({1, -4}, 'circular') end, 'of 1 positions is larger than dimension 2, of size 0 after cropping'},
    {function() x:pad({1, 0}, 'mirror') end, "pad: mode is 'mirror'; use 'constant'"},
    {function() x:pad({1, 0}, 'reflect', 2) end, "a value is for the mode 'constant'"},
    {function() x:long():pad({1, 0}, {value = 0.5}) end, 'pad: 0.5 does not fit into int64'},
    {function() x:unfold(2, 5, 1) end, 'unfold: windows of 5 do not fit into the 4'},
    {function() x:unfold(2, 2, 0) end, 'unfold: the step is 0'},
    {function() x:as_strided({2, 2}, {1}) end, 'as_strided: 2 sizes and 1 strides'},
    {function() x:as_strided({13}, {1}) end, 'beyond the 12 elements of the storage'},
    {function() x:as_strided({2}, {2 ^ 52}) end, 'beyond the 12 elements'},
    {function() x:as_strided({2 ^ 40, 2}, {2 ^ 40, 1}) end, 'beyond the 12 elements'},
    {function() x:as_strided({2}, {-1}, 3) end, 'the stride %-1 is negative'},
    {function() x:as_strided({1}, {1}, 12) end, 'outside the storage of 12|beyond the 12'},
    {function() x:as_strided({}, {}, 12) end, 'the element at 12 lies outside the storage of 12'},
    {function() x:as_strided({1}, {1}, -1) end, 'the offset %-1 lies outside'},
    {function() mt.broadcast_tensors(x, v) end, 'do not broadcast'},
    {function() mt.cat{x, v} end, 'cat: tensor 2 is %(5%), the first %(3 x 4%)'},
    {function() mt.triu_indices(-1, 2) end, 'triu_indices: %-1 rows'},
    {function() mt.tril_indices(2 ^ 40, 2 ^ 40) end, 'more elements than memory can hold'},
    {function() x:squeeze{1, 1} end, 'squeeze: dimension 1 is named twice'},
    {function() x:unsqueeze{4, 7} end, 'unsqueeze: dimension 7 is out of range'},
  }
  for _, case in ipairs(cases) do
    local ok, message = pcall(case[1])
    assert(not ok, 'no error like ' .. case[2])
    local found = false
    for pattern in case[2]:gmatch('[^|]+') do found = found or message:find(pattern) end
    assert(found, ('%q is not like %q'):format(message, case[2]))
  end
end)

test('sixteen dimensions are enough for repetitions of many', function()
  local x = mt.range(1, 2 ^ 10):float():view(2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
  local y = x:tile(2, 1, 2, 1, 2, 1, 2, 1, 2, 2)
  eq(y:numel(), 2 ^ 16)
  eq(y:sum():item(), x:sum():item() * 2 ^ 6)
end)

t.test('billions of parts of nothing are refused', function()
  local x = mt.zeros(0, 2 ^ 40)
  t.raises(function() x:unbind(2) end, 'unbind: 1099511627776 tensors are too many')
  t.raises(function() x:split(1, 2) end, 'split: 1099511627776 tensors')
end)

-- From 48 MiB on the parts of a gradient are written past the caches, whatever their place and strides.
for _, case in ipairs{{'float32', 3, 4200003}, {'float64', 3, 2100001}, {'float16', 5, 5100001}} do
  t.test('parts of a large gradient: ' .. case[1], function()
    local rows, columns = case[2], t.on_gpu() and 3001 or case[3]
    local x = mt.zeros(rows, columns, case[1]):requires_grad_()
    local weight = mt.range(1, columns):fmod(251):to(x.dtype)
    local sum = 0
    for i, row in ipairs(x:unbind()) do
      sum = sum + (i == 2 and row:sum() * 3 or (row * weight * i):sum()) -- row 2: one number everywhere
    end
    sum:backward()
    assert(x.grad[1]:equal(weight) and x.grad[2]:equal(mt.full({columns}, 3, x.dtype)))
    assert(x.grad[rows]:equal(weight * rows))
  end)
end

t.finish()
