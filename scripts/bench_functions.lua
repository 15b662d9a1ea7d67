-- bench_functions.lua -- the rows of bench.lua for functions that people write themselves, and for gradients of ours
--
-- own_<name>/<size>: the function of 1-D float32 tensors (row functions: n/1024 rows of 1024, from 1 Mi on) by
-- numbers of a normal distribution; own_<name>_back/<size>: its backward pass alone, all gradients, the incoming one
-- given. <name>/64Ki of the library's functions, and <name>_back/<size>, are of 1-D float32 values in 0.5..1.5.
local mt = require 'mtorch'

-- Each is made, as libraries are opened, where its row is timed: what is there, the collector walks in every row.
local functions = {
  {name = 'gelu', make = function()
    return mt.map(function(x) return 0.5 * x * (1 + math.tanh(0.7978845608 * (x + 0.044715 * x ^ 3))) end)
  end},
  {name = 'axb_relu_mul', inputs = 2, make = function()
    return mt.zip(function(x, y) return mt.relu(2.5 * x + 1.5) * y end)
  end},
  {name = 'swish', make = function() return mt.map(function(x) return x * mt.sigmoid(x) end) end},
  {name = 'exp_sin', make = function()
    return mt.map(function(x) return math.exp(-x * x) * math.sin(x) + 0.5 * x end)
  end},
  {name = 'softmax', rows = true, make = function() return mt.fuse(function(x)
    local e = (x - x:max(-1, true)):exp()
    return e / e:sum(-1, true)
  end) end},
  {name = 'layer_norm', rows = true, make = function() return mt.fuse(function(x)
    local d = x - x:mean(-1, true)
    return d / ((d * d):mean(-1, true) + 1e-5):sqrt()
  end) end},
  {name = 'rms_norm', rows = true, make = function()
    return mt.fuse(function(x) return x / ((x * x):mean(-1, true) + 1e-5):sqrt() end)
  end},
}
local sizes = {{'4', 4}, {'16Ki', 16384}, {'1Mi', 1048576}}
local library = 'exp exp2 expm1 log log1p log2 log10 sin cos tan atan tanh erf erfc sigmoid silu gelu softplus ' ..
                'logsigmoid mish elu rsqrt'

local function forward(f, inputs) return function() return f(unpack(inputs)) end end
local function backward(f, inputs)
  for _, x in ipairs(inputs) do x:requires_grad_() end
  local y = f(unpack(inputs))
  local options = {grad_outputs = {mt.randn_like(y)}, retain_graph = true}
  return function() return mt.grad(y, inputs, options) end
end

local function library_rows(row)
  for name in library:gmatch('%S+') do
    for _, case in ipairs{{'', '64Ki', forward}, {'_back', '64Ki', backward}, {'_back', '1Mi', backward}} do
      local way, label, make = unpack(case)
      row(('%s%s/%s'):format(name, way, label), 'functions and their gradients', function()
        return make(mt[name], {mt.rand(label == '1Mi' and 1048576 or 65536) + 0.5})
      end)
    end
  end
end

--- Adds the rows: row(name, group, function that makes the function to time).
return function(row, quick)
  library_rows(row)
  for _, case in ipairs(functions) do
    for _, size in ipairs(sizes) do
      local label, n = unpack(size)
      if not (quick and n > 20000) and (not case.rows or n >= 16384) then
        for _, way in ipairs{{'', forward}, {'_back', backward}} do
          row(('own_%s%s/%s'):format(case.name, way[1], label), 'your own functions', function()
            local inputs = {}
            for k = 1, case.inputs or 1 do inputs[k] = case.rows and mt.randn(n / 1024, 1024) or mt.randn(n) end
            return way[2](case.make(), inputs)
          end)
        end
      end
    end
  end
end
