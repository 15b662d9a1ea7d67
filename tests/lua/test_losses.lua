-- test_losses.lua -- likelihood losses, margin losses, ctc_loss: PyTorch's values, gradients, errors
local mt = require 'mtorch'
local t = require 'testing'
local eq, near, raises, test = t.eq, t.near, t.raises, t.test
local values = require 'torch_values'
local torch = values.functions
local lin, is, slope = values.lin, values.is, values.slope

local function ints(list) return mt.tensor(list, 'int64') end

local x, y, var = lin{4, 3}, lin({4, 3}, 1.1), lin({4, 1}, 0.9):abs()
local labels, list = ints{1, 3, 2, 2}, ints{{3, 1, -1}, {-1, 2, 3}, {2, -1, 1}, {1, 2, 3}}
local reductions = {'none', 'mean', 'sum'}

test('likelihoods', function()
  for _, r in ipairs(reductions) do
    is('gauss_' .. r, mt.gaussian_nll_loss(x, y, var, true, 0.3, r))
    is('poisson_' .. r, mt.poisson_nll_loss(x, y:abs() * 4, {full = true, reduction = r}))
  end
  slope('gauss_slope', function(u, v) return mt.gaussian_nll_loss(u, y, v, {eps = 0.3}) end, x, var)
  is('poisson_plain', mt.poisson_nll_loss(x:abs(), y:abs(), false))
  eq(mt.gaussian_nll_loss(x, y, 2):item(), mt.gaussian_nll_loss(x, y, mt.full({4, 3}, 2, 'float64')):item())
  eq(mt.gaussian_nll_loss(x, y, var:squeeze(2)):item(), mt.gaussian_nll_loss(x, y, var):item())
  eq(mt.gaussian_nll_loss(mt.zeros(0, 3), mt.zeros(0, 3), mt.zeros(0, 3), {reduction = 'sum'}):item(), 0)
  raises(function() mt.gaussian_nll_loss(x, y, mt.ones(4, 2)) end, 'variance %(4 x 2%).*input %(4 x 3%)')
  raises(function() mt.gaussian_nll_loss(x, y, mt.ones(1, 1)) end, 'variance %(1 x 1%)')
  raises(function() mt.gaussian_nll_loss(x, y, -1) end, 'a variance is %-1')
  raises(function() mt.gaussian_nll_loss(x, y, var, {eps = 0}) end, 'eps is 0')
  raises(function() mt.poisson_nll_loss(x, mt.ones(5)) end, 'poisson_nll_loss: .*broadcast')
end)

test('margins', function()
  local w = mt.tensor({0.5, 2, 1.5}, 'float64')
  for _, r in ipairs(reductions) do
    is('mm_' .. r, mt.multi_margin_loss(x, labels, 2, 0.7, w, r))
    is('mlm_' .. r, mt.multilabel_margin_loss(x, list, r))
    near(mt.multi_margin_loss(x[1], ints(2), {reduction = r}):item(),
      mt.multi_margin_loss(x[{{1}}], ints{2}, {reduction = r}):sum():item(), 1e-15)
    near(mt.multilabel_margin_loss(x[1], list[1], r):item(),
      mt.multilabel_margin_loss(x[{{1}}], list[{{1}}], r):sum():item(), 1e-15)
  end
  eq(mt.multi_margin_loss(mt.ones(0, 3), mt.zeros({0}, 'int64')):item(), 0)
  local few, wide = mt.cat({list, mt.full({4, 20}, -1, 'int64')}, 2), mt.cat({x, mt.full({4, 20}, -9, 'float64')}, 2)
  near(mt.multilabel_margin_loss(wide, few, 'none'):mul(23 / 3):tolist(), torch.mlm_none, 1e-8) -- of few targets
  eq(mt.multilabel_margin_loss(x, list * 0 - 1, 'none'):tolist(), {0, 0, 0, 0})
  eq(mt.multilabel_margin_loss(mt.ones(0, 3), mt.zeros({0, 3}, 'int64')):item(), 0)
  eq(mt.multi_margin_loss(x[1], ints{2}, {reduction = 'none'}).shape, mt.zeros(1).shape)
  raises(function() mt.multi_margin_loss(x, labels, 3) end, 'p is 3; use 1 or 2')
  raises(function() mt.multi_margin_loss(x, labels - 1) end, 'target 1 is 0, expected 1%.%.3')
  raises(function() mt.multi_margin_loss(x, labels - 4) end, 'target 1 is %-3, expected')
  raises(function() mt.multi_margin_loss(x, labels, {weight = mt.ones(2)}) end, 'weight is %(2%)')
  raises(function() mt.multi_margin_loss(x, labels:double()) end, 'float64.*long')
  raises(function() mt.multi_margin_loss(x, list) end, 'scores are %(4 x 3%), the targets %(4 x 3%)')
  raises(function() mt.multi_margin_loss(mt.ones(2, 0), ints{1, 1}) end, 'no classes')
  raises(function() mt.multilabel_margin_loss(x, list + 1) end, 'target 1 is 4, expected 1%.%.3')
  raises(function() mt.multilabel_margin_loss(x, ints{{1, 0, -1}}:expand(4, 3)) end, 'target 2 is 0')
  raises(function() mt.multilabel_margin_loss(x, labels) end, 'expected %(4 x 3%)')
end)

local p = lin({6, 3, 4}, 1.7):log_softmax(3)
local spelled = ints{{2, 2, 4}, {3, 2, 4}, {4, 4, 4}}

test('ctc_loss', function()
  for _, r in ipairs(reductions) do
    for _, blank in ipairs{1, 3} do
      slope(('ctc_%s_%d'):format(r, blank - 1), function(v)
        local others = mt.where(spelled:eq(blank), ints(1), spelled)
        return mt.ctc_loss(v, others, {6, 4, 5}, ints{2, 3, 0}, blank, r)
      end, p)
    end
    local row = ints{2, 2, 3, 2, 4}
    eq(mt.ctc_loss(p, row, ints{6, 4, 5}, {2, 3, 0}, {reduction = r}):tolist(),
      mt.ctc_loss(p, spelled, {6, 4, 5}, {2, 3, 0}, {reduction = r}):tolist())
  end
  slope('ctc_never', function(v)
    return mt.ctc_loss(v, spelled, {6, 4, 3}, {2, 3, 3}, {reduction = 'none', zero_infinity = true})
  end, p)
  eq(mt.ctc_loss(p, spelled, {6, 4, 3}, {2, 3, 3}, {reduction = 'sum'}):item(), math.huge)
  near(mt.ctc_loss(p[{{}, 1}], spelled[{1, {1, 2}}], 6, 2, {reduction = 'none'}):item(), torch.ctc_none_0[1], 1e-7)
  eq(mt.ctc_loss(p, spelled, {0, 0, 6}, {0, 1, 0}, {reduction = 'none'})[{{1, 2}}]:tolist(), {0, math.huge})
  eq(mt.ctc_loss(mt.zeros(4, 0, 3), mt.zeros({0, 2}, 'int64'), {}, {}, {reduction = 'sum'}):item(), 0)
  near(mt.ctc_loss(p:float(), spelled, {6, 4, 5}, {2, 3, 0}):item(), torch.ctc_mean_0[1], 1e-5)
end)

test('ctc_loss: the gradient by scores is checked, and a second one is an error', function()
  local scores = lin({4, 2, 3}, 0.9):requires_grad_()
  local function loss(v) return mt.ctc_loss(v:log_softmax(3), ints{{2, 3}, {3, 3}}, {4, 4}, {2, 2}) end
  eq(mt.gradcheck(loss, {scores}), true)
  local g = mt.grad(loss(scores), scores, {create_graph = true})
  raises(function() g:square():sum():backward() end, 'ctc_loss: the second derivative is not')
end)

test('ctc_loss: threads do not change a bit', function()
  t.on_threads(function()
    local v = lin({60, 9, 20}, 0.77):float():log_softmax(3):requires_grad_()
    local targets = (mt.range(1, 90):reshape(9, 10) % 18):long() + 2
    local loss = mt.ctc_loss(v, targets, mt.full({9}, 60):long(), mt.full({9}, 10):long(), {reduction = 'none'})
    loss:sum():backward()
    return loss:detach(), v.grad
  end)
end)

test('ctc_loss: errors', function()
  local function bad(pattern, ...)
    local args, n = {...}, select('#', ...)
    raises(function() mt.ctc_loss(unpack(args, 1, n)) end, 'ctc_loss: ' .. pattern)
  end
  bad('input_lengths%[1%] is 7, it must lie in 0%.%.6', p, spelled, {7, 4, 5}, {2, 3, 0})
  bad('input_lengths%[3%] is %-1', p, spelled, {6, 4, -1}, {2, 3, 0})
  bad('input_lengths are %(2%); expected one for each of 3', p, spelled, {6, 4}, {2, 3, 0})
  bad('target_lengths%[2%] is 4, it must lie in 0%.%.3', p, spelled, {6, 4, 5}, {2, 4, 0})
  bad('target_lengths must be integers, these are float32', p, spelled, {6, 4, 5}, mt.tensor{2, 3, 0})
  bad('target_lengths sum to 5, the 1%-d targets have 4', p, ints{2, 2, 3, 2}, {6, 4, 5}, {2, 3, 0})
  bad('target 1 of sequence 1 is 0, expected 1%.%.4', p, spelled - 2, {6, 4, 5}, {2, 3, 0})
  bad('target 3 of sequence 2 is 5', p, spelled + 1, {6, 4, 5}, {2, 3, 0})
  bad('targets are class positions.*float64', p, spelled:double(), {6, 4, 5}, {2, 3, 0})
  bad('the targets are %(1 x 3 x 3%)', p, spelled:unsqueeze(1), {6, 4, 5}, {2, 3, 0})
  bad('target 1 of sequence 2 is 3, the blank; targets are the other classes', p, spelled, {6, 4, 5}, {2, 3, 0}, 3)
  bad('blank is 5, outside 1%.%.4', p, spelled, {6, 4, 5}, {2, 3, 0}, 5)
  bad('blank is %-1, outside', p, spelled, {6, 4, 5}, {2, 3, 0}, -1)
  bad('the log%-probabilities are %(6%)', p[{{}, 1, 1}], spelled, {6, 4, 5}, {2, 3, 0})
  bad('the log%-probabilities are int64', p:long(), spelled, {6, 4, 5}, {2, 3, 0})
  bad("reduction is 'most'", p, spelled, {6, 4, 5}, {2, 3, 0}, 1, 'most')
  raises(function() mt.ctc_loss(p, spelled, {6, 4, 5}, {2, 3, 0}, 0) end, '0 is not a position')
end)

test('of no rows labels have a loss with a gradient too', function()
  for _, reduction in ipairs{'sum', 'mean', 'none'} do
    for _, loss in ipairs{mt.cross_entropy, mt.nll_loss} do
      local z = mt.zeros(0, 4):requires_grad_()
      local l = loss(z, mt.zeros({0}, 'int64'), {reduction = reduction, weight = mt.ones(4)})
      eq(reduction == 'none' and l.shape[1] or reduction == 'sum' and l:item() or 0, 0)
      l:sum():backward()
      eq(z.grad.shape, z.shape)
    end
  end
end)

for _, row in ipairs{
  {'gaussian', function(u, v, s) return mt.gaussian_nll_loss(u, v, s:square() + 0.5) end, {4, 3}, {4, 3}, {4, 1}},
  {'poisson', function(u, v) return mt.poisson_nll_loss(u, v:square() + 1.1, {full = true}) end, {5}, {5}},
  {'poisson of rates', function(u) return mt.poisson_nll_loss(u:square() + 0.1, y[1], false) end, {3}},
  {'multi margin', function(u) return mt.multi_margin_loss(u, labels, 2) end, {4, 3}},
  {'multilabel margin', function(u) return mt.multilabel_margin_loss(u, list):sin() end, {4, 3}},
} do t.gradients(unpack(row)) end

t.test('the lengths of a cosine embedding loss have 1e-12 added, as in PyTorch', function()
  local a = mt.tensor({{1e-6, 0}}, {dtype = 'float64'})
  t.near(mt.cosine_embedding_loss(a, a, mt.tensor{1}):item(), 0.5, 1e-9)
end)

test('huber_loss and smooth_l1_loss: second derivatives where the input is the target', function()
  local input, target = mt.tensor({1, 2.5, 3, 9}, 'float64'), mt.tensor({1, 2, 3, 4}, 'float64')
  for _, loss in ipairs{mt.huber_loss, mt.smooth_l1_loss} do
    eq(mt.hessian(function(z) return loss(z, target, {reduction = 'sum'}) end, input):diagonal():tolist(), {1, 1, 1, 0})
  end
end)

test('huber_loss and smooth_l1_loss: differences whose square overflows', function()
  local x, zero = mt.tensor({1e20, -1e25, 3, 1 / 0}, 'float32'), mt.zeros(4)
  for _, loss in ipairs{mt.huber_loss, mt.smooth_l1_loss} do
    eq(loss(x, zero, 'none', 1e22):isnan():sum():item(), 0)
    eq(loss(x, zero, 'none', 1):tolist()[3], 2.5)
  end
end)

t.finish()
