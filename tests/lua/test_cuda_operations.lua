-- test_cuda_operations.lua -- all operations, reductions and scans on the GPU compared with the CPU, with gradients
local mt = require 'mtorch'
local core = require 'mtorch.core'
local t = require 'testing'
t.needs_cuda()

local numbers = {clamp = {-1, 2}, nan_to_num = {0.5, 3, -3}, polygamma = {1}, logit = {1e-3}, hardtanh = {-1, 1},
                 threshold = {0.5, -1}, leaky_relu = {0.1}, softplus = {1, 20}}
local takes = {any = 'float32 float64 int64 int32 uint8 bool', number = 'float32 float64 int64 int32 uint8',
               real = 'float32 float64 int64', integer = 'int64 int32 uint8 bool'}
local tolerance = {float32 = 2e-6, float64 = 4e-15}

--- Returns values in the operation's test range, for floats with NaN, infinities and both zeros.
local function sample(op, shape, dtype)
  local x = mt.rand(shape, {dtype = 'float64'}) * (op.hi - op.lo) + op.lo
  if dtype:find('float') then
    x = x:to(dtype)
    if x:numel() > 40 then
      local flat = x:view(-1)
      for i, special in ipairs {0 / 0, 1 / 0, -1 / 0, 0, -0.0} do flat[7 * i] = special end
    end
    return x
  end
  if dtype == 'bool' then return mt.rand(shape):gt(0.5) end
  if dtype == 'uint8' then x = x:abs() end
  return x:round():clamp(op.name:find('div') and 1 or op.lo, op.hi):to(dtype)
end

-- Several layouts of the same values: name, and a function of a contiguous matrix.
local layouts = {
  {'contiguous', function(x) return x end},
  {'turned', function(x) return x:t() end},
  {'every other', function(x) return x[{{}, {1, -1, 2}}] end},
  {'expanded', function(x) return x[{{1}, {}}]:expand(x:size(1), x:size(2)) end},
  {'one row', function(x) return x[1] end},
  {'0-d', function(x) return x[{1, 1}] end},
  {'empty', function(x) return x[{{}, {1}}]:narrow(2, 1, 0) end},
}

local function same(got, wanted, tol, what)
  t.eq({what, got.dtype}, {what, wanted.dtype})
  t.eq(tostring(got.shape), tostring(wanted.shape))
  local equal
  if wanted.dtype:find('float') then
    equal = mt.allclose(got:cpu(), wanted, {rtol = tol or 0, atol = tol or 0, equal_nan = true})
  else
    equal = got:cpu():equal(wanted)
  end
  if not equal then error(what .. ' differs from the CPU') end
end

local function call(op, inputs)
  local all = {}
  for i, x in ipairs(inputs) do all[i] = x end
  if op.name == 'prelu' and all[2]:numel() > 0 then all[2] = all[2]:reshape(-1):narrow(1, 1, 1) end -- one slope
  for i = 1, #op.params do all[#inputs + i] = (numbers[op.name] or {})[i] or 0.5 end
  return mt[op.name](unpack(all))
end

local function inputs_of(op, dtype, layout, device, base)
  local inputs = {}
  for i = 1, op.inputs do inputs[i] = layout(base[i]:to(device)) end
  return inputs
end

for _, op in ipairs(core.operations()) do
  t.test(op.name, function()
    mt.manual_seed(5)
    for dtype in takes[op.accepts]:gmatch('%S+') do
      local base = {}
      for i = 1, op.inputs do
        base[i] = sample(op, {33, 46}, op.mask_first and i == 1 and 'bool' or dtype)
      end
      for _, layout in ipairs(layouts) do
        local here = inputs_of(op, dtype, layout[2], 'cpu', base)
        local there = inputs_of(op, dtype, layout[2], 'cuda', base)
        local ok, wanted = pcall(call, op, here)
        local what = ('%s of %s, %s'):format(op.name, dtype, layout[1])
        if ok then same(call(op, there), wanted, tolerance[wanted.dtype], what)
        else t.raises(function() call(op, there) end, op.name) end
      end
    end
  end)
  t.test(op.name .. ': gradients', function()
    if op.answers_bool or not takes[op.accepts]:find('float') then return end
    mt.manual_seed(6)
    for _, dtype in ipairs {'float32', 'float64'} do
      for _, layout in ipairs {layouts[1], layouts[2], layouts[4]} do
        local results = {}
        local base, g = {}, mt.rand(33, 46):to(dtype)
        for i = 1, op.inputs do
          local is_mask = op.mask_first and i == 1
          base[i] = is_mask and mt.rand(33, 46):gt(0.5) or
            (mt.rand(33, 46, {dtype = 'float64'}) * (op.hi - op.lo) + op.lo):to(dtype)
        end
        for _, device in ipairs {'cpu', 'cuda'} do
          local leaves, inputs = {}, {}
          for i = 1, op.inputs do
            local leaf = base[i]:to(device)
            local constant = i == 1 and op.name:find '^igamma' -- it has no gradient
            local wanted = leaf.dtype == dtype and not constant
            if wanted then leaf = leaf:detach():requires_grad_() leaves[#leaves + 1] = leaf end
            inputs[i] = layout[2](leaf)
          end
          local out = call(op, inputs)
          if out.requires_grad then
            local seed = layout[1] == 'turned' and g:t() or g
            out:backward(seed:to(device))
            results[device] = leaves
          end
        end
        for i, leaf in ipairs(results.cpu or {}) do
          local what = ('gradient %d of %s, %s, %s'):format(i, op.name, dtype, layout[1])
          if leaf.grad then same(results.cuda[i].grad, leaf.grad, 50 * tolerance[dtype], what)
          else t.eq(results.cuda[i].grad, nil) end
        end
      end
    end
  end)
end

t.test('broadcasts along a contiguous last dimension, in groups and not, are the bits of the CPU', function()
  mt.manual_seed(2)
  local calls = {
    function(p, q) return p + q end, function(p, q) return p:lt(q) end, function(p, q) return p:maximum(q) end,
    function(p, q) return p:lt(q):where(p, q) end,
  }
  for _, dtype in ipairs {'float32', 'float64', 'float16', 'bfloat16', 'int64', 'int32', 'uint8', 'int8', 'int16'} do
    for _, w in ipairs {8, 16, 24, 7} do
      local x, row, column = mt.randn(6, w) * 3, mt.randn(w) * 3, mt.randn(6, 1) * 3
      local image, channel = mt.randn(2, 3, 4, w) * 3, mt.randn(3, 1, 1) * 3
      local pairs_of = {
        {x, row}, {x, column}, {column, x}, {image, channel}, {image, mt.randn(3, 1, w) * 3}, {x[{{2, 6}}], row},
        {x:t():contiguous():t(), row}, {mt.randn(6, w + 8)[{{}, {1, w}}], row},
        {mt.randn(6, w + 1)[{{}, {2, w + 1}}], row},
      }
      for i, pair in ipairs(pairs_of) do
        local a, b = pair[1]:to(dtype), pair[2]:to(dtype)
        for k, call in ipairs(calls) do
          if not call(a, b):equal(call(a:to('cuda'), b:to('cuda')):cpu()) then
            error(('%s, %d wide, pair %d, call %d differ'):format(dtype, w, i, k))
          end
        end
      end
    end
  end
end)

t.test('conversions in groups of 16 bytes and not are the bits of the CPU', function()
  mt.manual_seed(3)
  local dtypes = {'bool', 'uint8', 'int8', 'int16', 'int32', 'int64', 'float32', 'float64', 'float16', 'bfloat16'}
  for _, from in ipairs(dtypes) do
    local numbers = (mt.randn(16, 33) * 90):to(from)
    local long = (mt.randn(5003) * 90):to(from)
    local function views(x, y)
      return {
        y, y[{{2, 5003}}], y[{{17, 4112}}], y[{{1, 1}}], x[{{}, {1, 16}}], x[{{}, {2, 17}}], x:t(),
        x[{{}, {17, 32}}]:contiguous(), x[{{}, {33}}]:expand(16, 32), x[{{1}, {1, 32}}]:contiguous():expand(4, 32),
        x[{{1, 16, 2}, {1, 32}}]:contiguous():reshape(2, 4, 32):transpose(1, 2),
      }
    end
    local here, there = views(numbers, long), views(numbers:to('cuda'), long:to('cuda'))
    for _, to in ipairs(dtypes) do
      for i, x in ipairs(here) do
        local made, put = there[i]:to(to), mt.zeros(there[i].shape, {dtype = to, device = 'cuda'})
        put:copy_(there[i])
        local expected = x:to(to)
        if not (made:cpu():equal(expected) and put:cpu():equal(expected)) then
          error(('%s to %s of view %d differs'):format(from, to, i))
        end
      end
    end
  end
end)

t.test('var and logsumexp of awkward numbers', function()
  mt.manual_seed(4)
  local inf, nan = math.huge, 0 / 0
  for _, dtype in ipairs {'float32', 'float64'} do
    local x = mt.randn(70, 40, {dtype = dtype})
    local ramp = mt.range(1, 70 * 40):to(dtype):reshape(70, 40)
    local outlier, infinite, none, mixed = x:clone(), x:clone(), x:clone(), x:clone() * 50
    outlier[1], infinite[{3, {}}], none[{{}, 2}], mixed[{{5, 9}, 7}] = 1e6, inf, -inf, -inf
    mixed[{{1, 3}, 1}], mixed[{60, 30}] = nan, inf
    local tol = dtype == 'float64' and 1e-11 or 1e-5
    local cases = {x, x + 3000, ramp, -ramp, x * 0 + 7, outlier, infinite, none, mixed, x * 1e-20}
    for i, a in ipairs(cases) do
      local b = a:to('cuda')
      for _, dim in ipairs {1, 2} do
        for name, f in pairs {
          logsumexp = function(y) return y:logsumexp(dim) end, var = function(y) return y:var(dim) end,
          all = function(y) return y:logsumexp({1, 2}) end, spread = function(y) return y:var() end,
        } do
          local here, there = f(a), f(b):cpu()
          if not mt.allclose(there, here, {rtol = tol, atol = 0, equal_nan = true}) then
            error(('%s of case %d, %s, along %d: %s and %s'):format(name, i, dtype, dim, there, here))
          end
        end
      end
    end
  end
end)

t.finish()

-- ---- reductions and scans ----

local function reduced(op, x, dim)
  if op.scan then return mt[op.name](x, dim or 1, unpack(op.values)) end
  return mt[op.name](x, dim)
end
--- Applies a reduction or scan to all elements and along each dimension; keeps the first results.
local function each_way(op, x, f)
  for dim = op.scan and 1 or 0, x:dim() do f(dim > 0 and dim or nil) end
end
local function values_for(op, dtype, specials)
  local x = mt.rand(33, 46, {dtype = 'float64'}) * (op.hi - op.lo) + op.lo
  if dtype == 'bool' then return x:gt((op.lo + op.hi) / 2) end
  if not dtype:find('float') then return (dtype == 'uint8' and x:abs() or x):round():to(dtype) end
  local flat = x:view(-1)
  for i, special in ipairs(specials and {0 / 0, 1 / 0, -1 / 0, 0, -0.0} or {}) do flat[170 * i] = special end
  return x:to(dtype)
end
local dtypes_of = {any = takes.any, bools = takes.any, real = takes.real, floats = 'float32 float64'}
local near = {float32 = 4e-6, float64 = 1e-13}

for _, op in ipairs(core.reductions()) do
  t.test(op.name, function()
    mt.manual_seed(7)
    for dtype in dtypes_of[op.takes]:gmatch('%S+') do
      for _, specials in ipairs {false, true} do
        local base = values_for(op, dtype, specials)
        for _, layout in ipairs(layouts) do
          local here, there = layout[2](base), layout[2](base:to('cuda'))
          each_way(op, here, function(dim)
            local ok, wanted, index = pcall(reduced, op, here, dim)
            local what = ('%s of %s along %s, %s'):format(op.name, dtype, dim or 'all', layout[1])
            if not ok then return t.raises(function() reduced(op, there, dim) end, op.name) end
            local got, where = reduced(op, there, dim)
            if not mt.is_tensor(wanted) then return t.eq({what, got}, {what, wanted}) end
            same(got, wanted, near[wanted.dtype], what)
            if index then same(where, index, nil, what) end
          end)
        end
      end
    end
  end)
  t.test(op.name .. ': gradients', function()
    if not op.differentiable then return end
    mt.manual_seed(8)
    for _, dtype in ipairs {'float32', 'float64'} do
      local base = values_for(op, dtype)
      for _, layout in ipairs {layouts[1], layouts[2], layouts[4]} do
        each_way(op, base, function(dim)
          local found = {}
          for _, device in ipairs {'cpu', 'cuda'} do
            local x = base:to(device):detach():requires_grad_()
            local y = reduced(op, layout[2](x), dim)
            y:sum():backward()
            found[device] = x.grad
          end
          same(found.cuda, found.cpu, 50 * near[dtype], ('gradient of %s of %s, %s'):format(op.name, dtype, layout[1]))
        end)
      end
    end
  end)
end
