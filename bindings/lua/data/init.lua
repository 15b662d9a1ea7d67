-- init.lua -- mt.data: the point sets of MiniTorch, with its formulas; files of tensors
local core = require 'mtorch.core'
local mt = require 'mtorch'

local data = {}

local function describe(self) return ('%s(%d points)'):format(self.name, #self.y) end
local function point_set(name, x, y)
  local set = require('mtorch.data.sets').named(name, x, y)
  set.describe = describe
  return set
end

--- Uniform points in the unit square; `rule` returns whether (x1, x2) is of class 1.
local function points(name, doc, rule)
  data[name] = core.declare(name .. '(n: int >= 1 <= 10000000)', doc, function(n)
    local x = mt.rand(n, 2)
    local x1, x2 = x[{{}, 1}], x[{{}, 2}]
    return point_set(name, x, rule(x1, x2):float())
  end)
end

points('simple', 'n points, class 1 where x1 < 0.5.', function(x1) return (x1:lt(0.5)) end)
points('diag', 'n points, class 1 where x1 + x2 < 0.5.', function(x1, x2) return ((x1 + x2):lt(0.5)) end)
points('split', 'n points, class 1 where x1 < 0.2 or x1 > 0.8.',
  function(x1) return (x1:lt(0.2):logical_or(x1:gt(0.8))) end)
points('xor', 'n points, class 1 in the upper left and the lower right quarter.', function(x1, x2)
  return (x1:lt(0.5):logical_and(x2:gt(0.5)):logical_or(x1:gt(0.5):logical_and(x2:lt(0.5))))
end)
points('circle', 'n points, class 1 outside the circle (x1 - .5)^2 + (x2 - .5)^2 = 0.1.',
  function(x1, x2) return (((x1 - 0.5):square() + (x2 - 0.5):square()):gt(0.1)) end)

--- Two arms of a spiral, n / 2 points each: t = 10 i / (n / 2), i from 5; the second with t = -t
--- and with x1 and x2 swapped.
data.spiral = core.declare('spiral(n: int >= 2 <= 10000000)', 'Two arms of a spiral, floor(n / 2) points each.',
  function(n)
    local half = math.floor(n / 2)
    local x, y = {}, {}
    for k = 1, 2 * half do
      local first = k <= half
      local t = 10 * ((first and k or k - half) + 4) / half * (first and 1 or -1)
      local a, b = t * math.cos(t) / 20 + 0.5, t * math.sin(t) / 20 + 0.5
      x[k] = first and {a, b} or {b, a}
      y[k] = first and 0 or 1
    end
    return point_set('spiral', mt.tensor(x), mt.tensor(y))
  end)

local lazy = core.add_lazy({
  DataLoader = function() return require 'mtorch.data.loader' end,
  transforms = function() return require 'mtorch.data.transforms' end,
}, 'mtorch.data.', {
  files = 'idx npy npz safetensors save_npy save_npz save_safetensors',
  formats = 'csv factorize save_csv json save_json text image save_image wav save_wav',
  cifar = 'cifar10', batch = 'default_collate', folder = 'folder', tokenizer = 'BPETokenizer CharTokenizer',
  mnist = 'mnist fashion_mnist digits download',
  sets = 'TensorDataset Subset ConcatDataset random_split',
  samplers = 'SequentialSampler RandomSampler SubsetRandomSampler WeightedRandomSampler BatchSampler',
})

return core.strict(data, 'mt.data', nil, lazy)
