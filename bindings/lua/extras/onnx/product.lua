-- product.lua -- matrix products as ONNX operators
local extend = require('mtorch').extend

local entries = {}

--- Defines entries of products of x and y in the result's dtype.
local function product(names, f)
  for name in names:gmatch('%S+') do
    entries[name] = function(g, a, call)
      local dtype = call.dtype
      return f(g, g:cast(a.x, dtype), g:cast(a.y, dtype), a)
    end
  end
end

product('matmul mm bmm mv dot vdot', function(g, x, y) return g.MatMul(x, y) end)
product('outer ger', function(g, x, y) return g:unsqueeze(x, {1}) * g:unsqueeze(y, {0}) end)
product('tensordot', function(g, x, y, a)
  local dims, left, right = a.dims, {}, {} -- the axes that are summed
  if type(dims) == 'table' then left, right = a.x:axes(dims[1]), a.y:axes(dims[2])
  else
    for i = 1, dims do left[i], right[i] = #a.x.shape - dims + i - 1, i - 1 end
  end
  local xs = extend.util.map(a.x.shape, function(_, i) return string.char(96 + i) end) -- the letters of the dimensions
  local ys, out = {}, {unpack(xs)}
  for i, axis in ipairs(left) do ys[right[i] + 1], out[axis + 1] = xs[axis + 1], '' end
  for i = 1, #a.y.shape do
    if not ys[i] then
      ys[i] = string.char(97 + #out)
      out[#out + 1] = ys[i]
    end
  end
  return g.Einsum(x, y, {equation = ('%s,%s->%s'):format(table.concat(xs), table.concat(ys), table.concat(out))})
end)
product('kron', function(g, x, y, a)
  local rank = math.max(#a.x.shape, #a.y.shape)
  local xs, ys, shape = {}, {}, {}
  for i = 1, rank do
    local m, n = a.x.shape[i - rank + #a.x.shape] or 1, a.y.shape[i - rank + #a.y.shape] or 1
    xs[2 * i - 1], xs[2 * i], ys[2 * i - 1], ys[2 * i] = m, 1, 1, n
    shape[i] = m * n
  end
  return g:reshape(g:reshape(x, xs) * g:reshape(y, ys), shape)
end)
product('cross', function(g, x, y, a)
  local dim = a.dim
  for i = #a.x.shape, 1, -1 do
    if not a.dim and a.x.shape[i] == 3 then dim = i end
  end
  local axis = dim > 0 and dim - 1 or dim
  local function turned(h, order) return g.Gather(h, g:ints(order), {axis = axis}) end
  return turned(x, {1, 2, 0}) * turned(y, {2, 0, 1}) - turned(x, {2, 0, 1}) * turned(y, {1, 2, 0})
end)

function entries.einsum(g, a)
  return g:node('Einsum', a.operands, {equation = (a.equation:gsub('%s', ''))}, nil, 1)
end

--- beta x + alpha product; a term with factor 0 is omitted.
for _, name in ipairs{'addmm', 'addmv', 'baddbmm', 'addbmm'} do
  entries[name] = function(g, a, call)
    local x = a.beta == 0 and g:cast(0, a.x.dtype) or a.x:times(a.beta)
    if a.alpha == 0 then return g:expand(x, call.shape) end
    local product = g.MatMul(a.a, a.b)
    if name == 'addbmm' then product = g.ReduceSum(product, {0}) end
    return a.beta == 0 and product:times(a.alpha) or x + product:times(a.alpha)
  end
end

--- x . weight' + bias.
function entries.linear(g, a)
  local x, weight, bias = a.x, a.weight, a.bias
  if #x.shape == 2 and #weight.shape == 2 then
    return g.Gemm(x, weight, bias or false, {transB = 1})
  end
  local y = g.MatMul(x, #weight.shape == 2 and g:transpose(weight, {1, 0}) or weight)
  return bias and y + bias or y
end
function entries.linear_int8(g, a)
  local weight = g.DequantizeLinear(a.weight, g:cast(a.scale, 'float32'), false, {axis = 0})
  local y = g.MatMul(a.x, g:cast(g:transpose(weight, {1, 0}), a.x.dtype))
  return a.bias and y + g:cast(a.bias, a.x.dtype) or y
end
function entries.bilinear(g, a)
  local y = g.Einsum(a.input1, a.weight, a.input2, {equation = '...i,oij,...j->...o'})
  return a.bias and y + a.bias or y
end

function entries.det(g, a) return g.Det(a.x) end
entries['linalg.det'] = function(g, a) return g.Det(a.A) end
entries['linalg.norm'] = function(g, a)
  local x = a.A
  if type(a.ord) == 'string' or (a.dim ~= nil and type(a.dim) == 'table' and #a.dim > 1) then
    extend.fail('onnx.export: linalg.norm is known for vectors')
  end
  return g:norm(x, a.ord or 2, x:axes(a.dim), a.keepdim)
end
--- Distances of rows from their differences, which is accurate for close rows.
product('cdist', function(g, x, y, a)
  return g:norm(g:unsqueeze(x, {#x.shape - 1}) - g:unsqueeze(y, {#y.shape - 2}), a.p, {-1})
end)

return entries
