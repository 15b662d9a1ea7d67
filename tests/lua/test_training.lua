-- test_training.lua -- 20 epochs of MiniTorch's job give the same result as plain loops over Lua
-- numbers
local t = require 'testing'
local mt = require 'mtorch'
local nn, optim = mt.nn, mt.optim

local points, hidden, batch, rate, epochs = 50, 20, 10, 0.05, 20

-- A separate random generator, so that the test does not depend on the engine's.
local state = 12345
local function uniform()
  state = (state * 16807) % 2147483647
  return state / 2147483647
end

local function matrix(rows, columns)
  local m = {}
  for i = 1, rows do
    m[i] = {}
    for j = 1, columns do m[i][j] = uniform() - 0.5 end
  end
  return m
end

local function constant(n, value)
  local v = {}
  for i = 1, n do v[i] = value end
  return v
end

local sizes = {{2, hidden}, {hidden, hidden}, {hidden, 1}}

local function fixed_start()
  state = 12345
  local x, y, layers, orders = {}, {}, {}, {}
  for i = 1, points do
    x[i] = {uniform(), uniform()}
    y[i] = (x[i][1] < 0.2 or x[i][1] > 0.8) and 1 or 0
  end
  for l, size in ipairs(sizes) do layers[l] = {w = matrix(size[2], size[1]), b = constant(size[2], 0.1)} end
  for e = 1, epochs do
    local order = {}
    for i = 1, points do order[i] = i end
    for i = points, 2, -1 do
      local j = math.floor(uniform() * i) + 1
      order[i], order[j] = order[j], order[i]
    end
    orders[e] = order
  end
  return x, y, layers, orders
end

-- ---- the reference: one example at a time, chain rule by hand ------------------------------------

local function forward(layers, input)
  local acts = {input}
  for l, layer in ipairs(layers) do
    local out = {}
    for o = 1, #layer.b do
      local sum = layer.b[o]
      for i = 1, #acts[l] do sum = sum + layer.w[o][i] * acts[l][i] end
      if l < #layers then out[o] = sum > 0 and sum or 0 else out[o] = 1 / (1 + math.exp(-sum)) end
    end
    acts[l + 1] = out
  end
  return acts
end

local function add_gradient(layers, grads, input, target, scale)
  local acts = forward(layers, input)
  local out = acts[#acts][1]
  local p = out * target + (out - 1) * (target - 1)
  local dp = -scale / (p + 1e-6)
  local delta = {dp * (target + (target - 1)) * out * (1 - out)}
  for l = #layers, 1, -1 do
    local below = constant(#acts[l], 0)
    for o = 1, #delta do
      grads[l].b[o] = grads[l].b[o] + delta[o]
      for i = 1, #acts[l] do
        grads[l].w[o][i] = grads[l].w[o][i] + delta[o] * acts[l][i]
        below[i] = below[i] + delta[o] * layers[l].w[o][i]
      end
    end
    if l > 1 then
      for i = 1, #below do below[i] = acts[l][i] > 0 and below[i] or 0 end
    end
    delta = below
  end
end

local function train_reference()
  local x, y, layers, orders = fixed_start()
  for e = 1, epochs do
    for first = 1, points, batch do
      local grads = {}
      for l, size in ipairs(sizes) do
        grads[l] = {w = {}, b = constant(size[2], 0)}
        for o = 1, size[2] do grads[l].w[o] = constant(size[1], 0) end
      end
      for k = first, first + batch - 1 do
        local i = orders[e][k]
        add_gradient(layers, grads, x[i], y[i], 1 / batch)
      end
      for l, layer in ipairs(layers) do
        for o = 1, #layer.b do
          layer.b[o] = layer.b[o] - rate * grads[l].b[o]
          for i = 1, #layer.w[o] do layer.w[o][i] = layer.w[o][i] - rate * grads[l].w[o][i] end
        end
      end
    end
  end
  return layers
end

-- ---- the same with the engine --------------------------------------------------------------------

local Net = nn.class('Net')
function Net:__init(start, dtype)
  for l, layer in ipairs(start) do
    local linear = nn.Linear(#layer.w[1], #layer.b)
    linear.weight = nn.Parameter(mt.tensor(layer.w, {dtype = dtype}))
    linear.bias = nn.Parameter(mt.tensor(layer.b, {dtype = dtype}))
    self['layer' .. l] = linear
  end
end
function Net:forward(x)
  local h = self.layer1(x):relu()
  h = self.layer2(h):relu()
  return (self.layer3(h):sigmoid())
end

local function train_engine(dtype)
  local x, y, layers, orders = fixed_start()
  local net = Net(layers, dtype)
  local opt = optim.SGD(net:parameters(), {lr = rate})
  local all_x, all_y = mt.tensor(x, {dtype = dtype}), mt.tensor(y, {dtype = dtype})
  for e = 1, epochs do
    local order = mt.tensor(orders[e]):long()
    local xs, ys = all_x:index_select(1, order), all_y:index_select(1, order)
    for first = 1, points, batch do
      local bx, by = xs:narrow(1, first, batch), ys:narrow(1, first, batch)
      opt:zero_grad()
      local out = net(bx):view(-1)
      local p = out * by + (out - 1) * (by - 1)
      ;(-(p + 1e-6):log() / batch):sum():backward()
      opt:step()
    end
  end
  return net
end

local function largest_difference(net, layers)
  local most = 0
  for l, layer in ipairs(layers) do
    local linear = net['layer' .. l]
    for o = 1, #layer.b do
      most = math.max(most, math.abs(linear.bias:at(o) - layer.b[o]))
      for i = 1, #layer.w[o] do most = math.max(most, math.abs(linear.weight:at(o, i) - layer.w[o][i])) end
    end
  end
  return most
end

local reference = train_reference()

t.test('the reference itself moved', function()
  local _, _, start = fixed_start()
  local moved = 0
  for o = 1, hidden do moved = math.max(moved, math.abs(start[2].w[o][1] - reference[2].w[o][1])) end
  assert(moved > 1e-3, 'weights moved by ' .. moved)
end)

t.test('20 epochs in float64 agree to 1e-9', function()
  local difference = largest_difference(train_engine('float64'), reference)
  assert(difference < 1e-9, 'largest difference ' .. difference)
end)

t.test('20 epochs in float32 agree to 1e-4', function()
  local difference = largest_difference(train_engine('float32'), reference)
  assert(difference < 1e-4 and difference > 0, 'largest difference ' .. difference)
end)

t.finish()
