-- size.lua -- sizes that depend on dynamic axes, represented by their values in several recorded calls
--
-- Arithmetic of sizes and numbers gives sizes, or numbers if the result is equal in all calls.
local Size = {}
Size.__index = Size

local function is(x) return getmetatable(x) == Size end
Size.is = is
--- Whether a value is a list or another table, but not a size.
function Size.is_list(x) return type(x) == 'table' and not is(x) end

--- Returns a size from the values of a number in the calls.
function Size.of(samples)
  local first, same = samples[1], true
  for i = 2, #samples do same = same and (samples[i] == first or samples[i] ~= samples[i] and first ~= first) end
  if same then return first end
  return setmetatable({samples = samples, key = table.concat(samples, ' ')}, Size)
end

--- Applies a function of two numbers to the values of sizes.
local function per_sample(f)
  return function(a, b)
    local samples = {}
    for i = 1, #(is(a) and a or b).samples do
      samples[i] = f(is(a) and a.samples[i] or a, is(b) and b.samples[i] or b)
    end
    return Size.of(samples)
  end
end
Size.__add = per_sample(function(a, b) return a + b end)
Size.__sub = per_sample(function(a, b) return a - b end)
Size.__mul = per_sample(function(a, b) return a * b end)
Size.__div = per_sample(function(a, b) return a / b end)
Size.__mod = per_sample(function(a, b) return a % b end)
Size.__unm = function(a) return 0 - a end
function Size:__tostring() return table.concat(self.samples, ', ') end

--- Returns the value of a size or number in the first call.
function Size.first(x) return is(x) and x.samples[1] or x end

function Size.product(shape)
  local n = 1
  for _, size in ipairs(shape) do n = n * size end
  return n
end

--- Whether sizes or numbers are equal in all calls.
function Size.equal(a, b) return is(a) and is(b) and a.key == b.key or rawequal(a, b) or not is(a) and a == b end

--- Returns scale and offset if the size is scale * other + offset in all calls.
function Size:linear_in(other)
  local x, y = other.samples, self.samples
  for i = 2, #x do
    if x[i] ~= x[1] then
      local scale = (y[i] - y[1]) / (x[i] - x[1])
      local offset = y[1] - scale * x[1]
      for k = 1, #x do
        if math.abs(scale * x[k] + offset - y[k]) > 1e-9 * math.abs(y[k]) then return nil end
      end
      return scale, offset
    end
  end
end

--- Returns scale if the size is scale * a * b in all calls.
function Size:product_of(a, b)
  local scale = self.samples[1] / (a.samples[1] * b.samples[1])
  for k, y in ipairs(self.samples) do
    if scale * a.samples[k] * b.samples[k] ~= y then return nil end
  end
  return scale
end

return Size
