-- bench_convolutions.lua -- the rows of bench.lua for convolutions, their gradients and pooling
--
-- conv_forward/<shape>, conv_data/<shape>, conv_weights/<shape>: a 3 x 3 convolution with padding 1, its gradient
-- for the input and for the weight; the shape is batch x channels x height x width and the channels of the result.
-- max_pool, max_pool_back, avg_pool/<shape>: windows of 2 x 2.
local mt = require 'mtorch'

local shapes = {
  {1, 1, 1000, 2000, 1}, {64, 1, 28, 28, 16}, {64, 16, 14, 14, 32}, {32, 64, 56, 56, 64}, {16, 128, 28, 28, 128},
}

--- The gradient of y for x alone.
local function gradient_of(y, x)
  local options = {grad_outputs = {mt.randn_like(y)}, retain_graph = true}
  return function() return mt.grad(y, {x}, options) end
end

--- Adds the rows: row(name, group, function that makes the function to time).
return function(row, quick)
  for _, s in ipairs(shapes) do
    local label = ('%dx%dx%dx%d_%d'):format(unpack(s))
    local function inputs()
      local n = quick and 1 or s[1]
      return mt.randn(n, s[2], s[3], s[4]), mt.randn(s[5], s[2], 3, 3), {padding = 1}
    end
    row('conv_forward/' .. label, 'convolutions', function()
      local x, w, options = inputs()
      return function() return mt.conv2d(x, w, options) end
    end)
    row('conv_data/' .. label, 'convolutions', function()
      local x, w, options = inputs()
      return gradient_of(mt.conv2d(x:requires_grad_(), w, options), x)
    end)
    row('conv_weights/' .. label, 'convolutions', function()
      local x, w, options = inputs()
      return gradient_of(mt.conv2d(x, w:requires_grad_(), options), w)
    end)
  end
  for _, s in ipairs{{64, 16, 28, 28}, {32, 64, 56, 56}} do
    local label = ('%dx%dx%dx%d'):format(unpack(s))
    local function input() return mt.randn(quick and 1 or s[1], s[2], s[3], s[4]) end
    for _, name in ipairs{'max_pool', 'avg_pool'} do
      row(name .. '/' .. label, 'convolutions', function()
        local x, pool = input(), mt[name .. '2d']
        return function() return pool(x, 2) end
      end)
      row(name .. '_back/' .. label, 'convolutions', function()
        local x = input():requires_grad_()
        return gradient_of(mt[name .. '2d'](x, 2), x)
      end)
    end
  end
end
