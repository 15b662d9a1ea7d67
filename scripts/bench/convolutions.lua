-- convolutions.lua -- rows of convolutions, their gradients and pooling
--
-- conv_forward/<shape>, conv_data/<shape>, conv_weights/<shape>: a 3 x 3 convolution with padding 1, its gradient
-- for the input and for the weight; the shape is batch x channels x height x width and the channels of the result.
-- max_pool, max_pool_back, avg_pool/<shape>: windows of 2 x 2.
local shapes = {
  {1, 1, 1000, 2000, 1}, {64, 1, 28, 28, 16}, {64, 16, 14, 14, 32}, {32, 64, 56, 56, 64}, {16, 128, 28, 28, 128},
}
local group = 'convolutions'

local function gradient(ours, theirs, of)
  return {{('local call = tools.gradient(%s, %s)'):format(ours, of), 'call()'},
    torch = {('y = %s; g = torch.randn_like(y)'):format(theirs),
      ('torch.autograd.grad(y, %s, g, retain_graph=True)'):format(of)}}
end

return function(row, o)
  local ours, theirs = 'mt.conv2d(x, w, {padding = 1})', 'F.conv2d(x, w, padding=1)'
  for _, s in ipairs(shapes) do
    local label = ('%dx%dx%dx%d_%d'):format(unpack(s))
    local shape = ('%dx%dx%dx%d'):format(o.quick and 1 or s[1], s[2], s[3], s[4])
    local function inputs(x, w) return ('x=%snormal:%s w=%snormal:%dx%dx3x3'):format(x, shape, w, s[5], s[2]) end
    row(group, 'conv_forward/' .. label, inputs('', ''), {ours, torch = theirs, jax =
      "lax.conv_general_dilated(x, w, (1, 1), 'SAME')"})
    row(group, 'conv_data/' .. label, inputs('leaf', ''), gradient(ours, theirs, 'x'))
    row(group, 'conv_weights/' .. label, inputs('', 'leaf'), gradient(ours, theirs, 'w'))
  end
  for _, s in ipairs{{64, 16, 28, 28}, {32, 64, 56, 56}} do
    local label = ('%dx%dx%dx%d'):format(unpack(s))
    local shape = ('%dx%dx%dx%d'):format(o.quick and 1 or s[1], s[2], s[3], s[4])
    for _, name in ipairs{'max_pool', 'avg_pool'} do
      local mine, peer = ('mt.%s2d(x, 2)'):format(name), ('F.%s2d(x, 2)'):format(name)
      row(group, ('%s/%s'):format(name, label), 'x=normal:' .. shape, {mine, torch = peer})
      row(group, ('%s_back/%s'):format(name, label), 'x=leafnormal:' .. shape, gradient(mine, peer, 'x'))
    end
  end
end
