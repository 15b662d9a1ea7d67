-- test_quantize.lua -- linear layers with int8 weights: linear_int8 against float64, nn.quantize, files, ONNX
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn = mt.nn

--- The largest difference as a part of the largest element.
local function error_of(x, exact) return ((x:double() - exact):abs():max() / exact:abs():max()):item() end
local function whole(n, k)
  return (mt.rand(n, k) * 255):floor():sub_(127):to 'int8'
end

test('linear_int8 is the product by weight * scale, for few rows and many, in each dtype', function()
  mt.manual_seed(1)
  local tolerance = {float32 = 2e-6, float64 = 1e-14, float16 = 1e-3, bfloat16 = 8e-3}
  for _, sizes in ipairs{{300, 700}, {1, 5}, {64, 2100}, {4500, 520}, {2048, 513}} do
    local k, n = unpack(sizes)
    local weight, scale, bias = whole(n, k), mt.rand(n), mt.randn(n)
    local exact_weight = (weight:double() * scale:double():unsqueeze(2)):t()
    for dtype, most in pairs(tolerance) do
      for _, rows in ipairs{0, 1, 2, 3, 5, 8, 12, 13, 40} do
        local x = mt.randn(rows, k):to(dtype)
        local exact = x:double():mm(exact_weight)
        local y, z = mt.linear_int8(x, weight, scale, bias), mt.linear_int8(x, weight, scale)
        eq({y.dtype, y:size(1), y:size(2)}, {dtype, rows, n})
        if rows > 0 then
          assert(error_of(y, exact + bias:double()) < most)
          assert(error_of(z, exact) < most)
        end
      end
    end
  end
  local weight, scale = whole(7, 3), mt.rand(7)
  local x = mt.randn(2, 4, 3)
  assert(mt.linear_int8(x, weight, scale):equal(mt.linear_int8(x:view(8, 3), weight, scale):view(2, 4, 7)))
  eq(mt.linear_int8(mt.ones(3), weight, scale):size(1), 7)
  local turned = mt.randn(3, 9):t()
  assert(mt.linear_int8(turned, weight, scale):equal(mt.linear_int8(turned:contiguous(), weight, scale)))
end)

test('its bits do not depend on the number of threads or rows', function()
  mt.manual_seed(2)
  local weight, scale, x = whole(3000, 500), mt.rand(3000), mt.randn(12, 500)
  t.on_threads(function() return mt.linear_int8(x, weight, scale) end)
end)

test('gradients reach the input and the bias', function()
  mt.manual_seed(3)
  local weight, scale = whole(5, 4), mt.rand(5, {dtype = 'float64'})
  local x = mt.randn(3, 4, {dtype = 'float64'}):requires_grad_()
  local bias = mt.randn(5, {dtype = 'float64'}):requires_grad_()
  assert(mt.gradcheck(function(a, b) return mt.linear_int8(a, weight, scale, b) end, {x, bias}))
  assert(mt.gradgradcheck(function(a, b) return mt.linear_int8(a, weight, scale, b):pow(2) end, {x, bias}))
end)

test('wrong arguments', function()
  local weight, scale = whole(5, 4), mt.rand(5)
  raises(function() mt.linear_int8(mt.ones(2, 3), weight, scale) end, 'linear_int8: the input is %(2 x 3%), the weight')
  raises(function() mt.linear_int8(mt.ones(2, 4), weight:float(), scale) end, 'an int8 matrix is needed')
  raises(function() mt.linear_int8(mt.ones(2, 4), weight, mt.rand(4)) end, 'the scale is float32 %(4%)')
  raises(function() mt.linear_int8(mt.ones(2, 4), weight, scale, mt.rand(4)) end, 'the bias is float32 %(4%)')
  raises(function() mt.linear_int8(mt.ones(2, 4):long(), weight, scale) end, 'use x:float')
  raises(function() nn.quantize(nn.ReLU()) end, 'quantize: ReLU has no Linear layers')
  raises(function() nn.quantize(7) end, 'quantize: a module is needed')
  raises(function() nn.quantize(nn.Linear(2, 2), {bits = 4}) end, 'quantize: bits is 4; only 8 is supported')
  local net = nn.Sequential(nn.Linear(2, 2))
  mt.no_grad(function() net[1].weight[1]:fill_(1 / 0) end)
  raises(function() nn.quantize(net) end, 'quantize: 0.weight has values that are not finite')
end)

local function block()
  local Block = nn.class 'Block'
  function Block:__init()
    self.attention = nn.MultiheadAttention(16, 4, {batch_first = true})
    self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 16, {bias = false})
    self.tied = self.first
    self.norm = nn.LayerNorm(16)
  end
  function Block:forward(x)
    x = x + (self.attention(x, x, x))
    return self.norm(x + self.second(self.first(x):gelu() + self.tied(x) * 0.1))
  end
  return Block()
end

test('nn.quantize: a copy whose linear layers have int8 weights', function()
  mt.manual_seed(4)
  local net = block():eval()
  local q = nn.quantize(net, {bits = 8})
  eq(tostring(q.first), 'QuantizedLinear(16 -> 64, int8 weight)')
  eq(tostring(q.second), 'QuantizedLinear(64 -> 16, int8 weight, no bias)')
  assert(nn.is(net.first, nn.Linear) and nn.is(q.attention.out_proj, nn.Linear) and rawequal(q.first, q.tied))
  assert(not q.training and not rawequal(q.norm.weight, net.norm.weight))
  local x = mt.randn(2, 5, 16)
  local y, exact = q(x), net(x)
  assert(error_of(y, exact:double()) < 0.02 and not y:equal(exact))
  -- each weight is within half a step of its row
  local back = q.first.weight:float() * q.first.scale:unsqueeze(2)
  assert((back - net.first.weight):abs():le(q.first.scale:unsqueeze(2) * 0.5001):all())
  eq({q.first.weight.dtype, q.first.weight:abs():amax(2):int():eq(127):all()}, {'int8', true})
  -- files, dtypes, a step through mt.compile, one linear layer alone, a row of zeros
  local path = os.tmpname()
  mt.save(path, q:state_dict())
  local other = nn.quantize(block():eval())
  other:load_state_dict(mt.load(path))
  os.remove(path)
  assert(other(x):equal(y))
  local half = nn.quantize(net):bfloat16()
  eq({half.first.weight.dtype, half.first.scale.dtype, half(x:bfloat16()).dtype}, {'int8', 'bfloat16', 'bfloat16'})
  local compiled = mt.compile(function(v) return mt.no_grad(q, v) end)
  for _ = 1, 4 do assert(compiled(x):equal(y)) end
  assert(nn.is(nn.quantize(nn.Linear(3, 3)), nn.QuantizedLinear))
  local two = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
  two[1]:register_forward_hook(function(_, _, out) return out * 0 end)
  two[2].note = 'kept'
  local copy = nn.quantize(two)
  assert(nn.is(copy[1], nn.Linear) and copy[1](mt.ones(1, 3)):eq(0):all() and copy[2].note == 'kept')
  local zeros = nn.Linear(3, 2)
  mt.no_grad(function() zeros.weight:zero_() end)
  assert(nn.quantize(zeros)(mt.ones(1, 3)):equal(zeros(mt.ones(1, 3))))
end)

t.finish()
