-- test_reference.lua -- all public names exist in the library, mt.help, docs/ and the stubs
package.path = 'scripts/tools/?.lua;' .. package.path
local mt = require 'mtorch'
local core = require 'mtorch.core'
local reference = require 'reference'
core.complete()
local t = require 'testing'

local read = t.read_file

-- Public functions of mt, and methods if PyTorch has such methods.
local functions = [[tensor zeros ones full empty eye range linspace logspace rand randn randint randperm bernoulli
  multinomial normal zeros_like ones_like full_like empty_like rand_like randn_like frombuffer is_tensor arange
  index_select gather scatter scatter_add index_add masked_select masked_fill masked_scatter index_copy index_fill
  scatter_reduce take_along_dim where take nonzero searchsorted bucketize isin narrow select
  reshape flatten unflatten squeeze unsqueeze t transpose permute movedim broadcast_to clone cat stack split
  chunk unbind tile repeat_interleave flip roll tril triu diag diagonal meshgrid pad ravel swapaxes vstack hstack
  add sub mul div floor_divide remainder fmod pow neg abs sign reciprocal sqrt rsqrt square exp exp2 expm1 log log2
  log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh sigmoid logit softplus relu leaky_relu
  elu selu celu gelu silu mish hardtanh relu6 softsign hardsigmoid hardswish logsigmoid threshold prelu erf erfc erfinv
  lgamma digamma xlogy addcmul addcdiv floor ceil round trunc frac clamp minimum maximum lerp hypot copysign logaddexp
  logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not isnan isinf isfinite
  nan_to_num lt le gt ge eq ne
  sum mean prod max min amax amin argmax argmin var std norm logsumexp median mode quantile all any count_nonzero cumsum
  cumprod cummax cummin sort argsort topk unique bincount histc
  matmul mm bmm mv dot outer addmm einsum tensordot kron cross cdist trace
  conv1d conv2d conv_transpose2d max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool2d interpolate unfold
  fold conv1d_anchored conv2d_anchored
  softmax log_softmax cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy
  binary_cross_entropy_with_logits kl_div huber_loss cosine_similarity normalize softmin glu layer_norm batch_norm
  group_norm instance_norm rms_norm dropout embedding one_hot scaled_dot_product_attention
  set_printoptions allclose isclose test_close manual_seed get_rng_state set_rng_state Generator
  grad jacobian hessian vjp jvp set_debug no_grad set_grad_enabled Function gradcheck gradgradcheck recompute
  launch_kernel timeit help set_num_threads set_default_dtype args memory_stats]]
local methods = [[size stride dim numel is_contiguous storage_offset storage item at tolist data indices new_zeros
  narrow select index_select gather scatter scatter_add index_add masked_select masked_fill masked_scatter
  index_copy index_fill scatter_reduce take_along_dim where take nonzero slice isin
  view reshape flatten unflatten squeeze unsqueeze t transpose permute movedim expand expand_as broadcast_to contiguous
  clone split chunk unbind tile repeat_interleave flip roll tril triu diag diagonal ravel view_as reshape_as swapaxes
  unfold sum mean prod max min amax amin argmax argmin var std norm logsumexp median mode quantile all any count_nonzero
  cumsum cumprod cummax cummin sort argsort topk unique bincount histc matmul mm bmm mv dot outer addmm cross trace
  softmax log_softmax to float double long int byte bool type_as cpu
  fill_ zero_ copy_ normal_ uniform_ requires_grad_ backward zero_grad_ detach retain_grad register_hook
  add_ mul_ exp_ relu_ clamp_ lerp_ equal allclose isclose]]
local linalg = 'solve inv det cholesky qr svd eigh lstsq norm'

t.test('every name of the contract is there', function()
  local missing = {}
  for name in functions:gmatch('%S+') do
    if not pcall(function() return mt[name] end) then missing[#missing + 1] = 'mt.' .. name end
  end
  for name in methods:gmatch('%S+') do
    if not core.methods[name] then missing[#missing + 1] = 'x:' .. name end
  end
  for name in linalg:gmatch('%S+') do
    if not pcall(function() return mt.linalg[name] end) then missing[#missing + 1] = 'mt.linalg.' .. name end
  end
  t.eq(missing, {})
end)

t.test('every elementwise operation has its form in place', function()
  local missing = {}
  for _, op in ipairs(core.operations()) do
    if not op.answers_bool and not op.mask_first and not core.methods[op.name .. '_'] then
      missing[#missing + 1] = op.name .. '_'
    end
  end
  t.eq(missing, {})
end)

t.test('every function is declared: it has a signature and help', function()
  local bare = {}
  local function look(where, name, value)
    local init = type(value) == 'table' and rawget(value, '__init')
    local signature, doc = core.entry(value)
    local is_code = type(value) == 'function' or init
    if is_code and not (signature and doc and #doc >= 3) then bare[#bare + 1] = where .. name end
  end
  for name in pairs(core.lazy) do local _ = mt[name] end
  for name, value in pairs(mt) do look('mt.', name, value) end
  for name, value in pairs(core.methods) do look('x:', name, value) end
  for _, module in ipairs {'nn', 'optim', 'optim.lr', 'optim.swa', 'metrics', 'data', 'linalg', 'fft',
    'distributions', 'models'} do
    local at = require('mtorch.help.modules').at(module)
    for _, name in ipairs(core.names(at)) do look('mt.' .. module .. '.', name, at[name]) end
  end
  table.sort(bare)
  t.eq(bare, {})
end)

t.test('docs/ is what the declarations say now (mtorch scripts/tools/reference.lua), and so are the stubs', function()
  assert(read('docs/reference.md') == reference.markdown(), 'docs/reference.md is stale')
  local stubs = os.getenv('MTORCH_STUBS') -- ctest names the file that the build made
  assert(not stubs or read(stubs) == reference.stubs(), 'the stubs are stale')
end)

t.test('the stubs are Lua, and know the type of every parameter', function()
  assert(loadstring((reference.stubs())))
  local _, untyped = reference.stubs()
  table.sort(untyped)
  t.eq(untyped, {})
end)

t.test('the stubs describe each parameter of each function', function()
  local described, count = {}, 0
  for line in reference.stubs():gmatch '[^\n]+' do
    local name, inside = line:match '^function ([%w_.:]+)%((.*)%) end$'
    if name then
      count = count + 1
      for parameter in inside:gmatch '[^, ]+' do
        assert(described[parameter], name .. ': ' .. parameter)
        described[parameter] = nil
      end
      t.eq(described, {})
    end
    local kind, parameter = line:match '^%-%-%-@(%l+) ([%w_.]+)'
    if not kind and not line:find '^%-%-%-' then described = {}
    elseif kind == 'param' then described[parameter] = true end
  end
  assert(count > 1400, count)
end)

t.test('the stubs have classes with fields, their constructors, and option tables', function()
  local stubs = reference.stubs()
  for _, text in ipairs{'---@class mt.nn.Linear: mt.Module\n---@field bias? mt.Tensor\n---@field in_features integer',
      'fun(in_features: integer, out_features: integer|mt.nn.Linear.Options, bias?: boolean|mt.nn.Linear.Options',
      '---@class mt.nn.CrossEntropyLoss: mt.Module', "---@field reduction? 'mean'|'sum'|'none'",
      '---@class mt.Optimizer',
      '---@class mt.sum.Options\n---@field dim? ', '---@param keepdim? boolean|mt.sum.Options default false',
      '---@overload fun(...: integer|mt.zeros.Options): mt.Tensor'} do
    assert(stubs:find(text, 1, true), text)
  end
end)

--- Returns the text that mt.help prints for a name.
local function helped(name)
  local printed, real = {}, print
  rawset(_G, 'print', function(...) printed[#printed + 1] = table.concat({...}, ' ') end)
  local ok, message = pcall(mt.help, name)
  rawset(_G, 'print', real)
  assert(ok, message)
  return table.concat(printed, '\n')
end

t.test('the methods of objects have help, and no other names have', function()
  local net, leaf = mt.nn.Linear(1, 1), mt.ones(1):requires_grad_()
  local context
  mt.Function{forward = function(ctx, x) context = ctx return x * 2 end, backward = print}(leaf)
  local of = {Module = mt.nn.Module, Optimizer = mt.optim.SGD(net:parameters()),
              Scheduler = mt.optim.lr.ExponentialLR(mt.optim.SGD(net:parameters()), 0.9), Context = context,
              Metric = mt.metrics.Mean(), Distribution = mt.distributions.Normal(0, 1),
              Hook = (leaf * 2):register_hook(print),
              DataLoader = mt.data.DataLoader(mt.data.xor(4), 2)}
  local page = reference.markdown()
  of.JsonLines, of.SummaryWriter = mt.JsonLines(), require('mtorch.extras.tensorboard').Writer
  of.Report, of.Bar = mt.Report{}, mt.progress(1)
  for _, object in ipairs(require 'mtorch.help.object_methods') do
    local listed = {}
    for _, entry in ipairs(object) do
      local name = entry[1]:match('^[%w_]+')
      listed[name] = true
      assert(of[object.class][name] ~= nil, name)
      for _, word in ipairs{name, object.call .. name, object.class .. '.' .. name} do
        assert(helped(word):find(entry[2]:match('^%S+ %S+'), 1, true), word)
      end
      assert(page:find(entry[1], 1, true), name)
    end
    for name, value in pairs(object.class == 'Module' and mt.nn.Module or {}) do
      if type(value) == 'function' and not name:find('^__') then assert(listed[name], name .. ' has no help') end
    end
  end
  assert(helped('saved_tensors'):find('several values'))
  for _, word in ipairs{'state_dict', 'describe', 'print'} do assert(helped(word):find('from 0', 1, true), word) end
  assert(not helped('parameters'):find('kernel'))
  for _, word in ipairs{'torch.special.xlogy', 'special.gammainc'} do
    assert(helped(word):find('mt%.[a-z]+%(x, y'), word)
  end
end)

t.test('missing names of PyTorch have advice, and existing names do not', function()
  for word in pairs(require('mtorch.help.topics').absent) do
    assert(helped(word):find(("'%s' is not there yet: "):format(word), 1, true), word)
    for _, module in ipairs{mt, mt.nn, mt.optim, mt.data} do
      assert(not pcall(function() return module[word] end), word .. ' is there')
    end
  end
  for _, word in ipairs{'torch.nn.DataParallel'} do
    assert(helped(word):find('is not there yet: '), word)
  end
  assert(not helped('nn.MSELoss'):find('not there'))
  for word, name in pairs{['torch.Tensor.cov'] = 'cov(', ['torch.Tensor.float_power_'] = 'float_power_(',
      ['nn.functional.conv3d'] = 'conv3d('} do
    assert(helped(word):find(name, 1, true), word)
  end
  -- the ways named there
  local x, net = mt.randn(10, 2), mt.nn.Linear(2, 1)
  local order = mt.randperm(#x)
  for i = 1, #x, 4 do t.eq(x[order[{{i, math.min(i + 3, #x)}}]].shape[2], 2) end
  net(x):sum():backward()
  for _, p in ipairs(net:parameters()) do p.grad:clamp_(-0.5, 0.5) p.grad:mul_(0.5) end
end)

t.test('help shows every function, and each topic', function()
  local printed, real = {}, print
  rawset(_G, 'print', function(...) printed[#printed + 1] = table.concat({...}, ' ') end)
  local ok, message = pcall(function()
    for _, f in ipairs(reference.functions()) do
      printed = {}
      mt.help(f.owner == 'mt' and f.name or f.owner == 'x' and 'x:' .. f.name or (f.owner .. '.' .. f.name))
      assert(table.concat(printed, '\n'):find(f.doc:match('^The same as (.+)%.$') or f.name, 1, true), f.name)
    end
    mt.help()
  end)
  rawset(_G, 'print', real)
  assert(ok, message)
  t.raises(function() mt.help('matmull') end, "did you mean 'matmul'")
  t.raises(function() mt.help('torch.nn.Lineer') end, "nothing is called 'nn.Lineer' %(did you mean 'Linear'")
end)

t.test('help knows functions in packages of PyTorch', function()
  local help = require('mtorch.core').help_text
  for name, text in pairs{['torch.nn.utils.rnn.pad_sequence'] = 'nn.pad_sequence(',
    ['torch.utils.checkpoint.checkpoint'] = 'mt.recompute(fn, ..)', ['torch.autograd.gradcheck'] = 'mt.gradcheck(fn',
    ['torch.amp.GradScaler'] = 'mt.GradScaler(', ['torch.utils.tensorboard.SummaryWriter'] = 'mt.SummaryWriter(',
    ['torch.func.functional_call'] = 'nn.functional_call(', ['torch.jit.script'] = 'mt.compile(step)',
    ['torch.distributed.all_reduce'] = 'mt.dist.all_reduce_(x', ['torch.profiler.profile'] = 'mt.profile(fn',
    ['torch.nn.parallel.DistributedDataParallel'] = 'mt.dist.parallel(net)', ['torch.trapz'] = ':sum() * dx / 2',
    ['torch.nn.functional.relu'] = 'mt.relu(x', ['torch.optim.lr_scheduler.StepLR'] = 'optim.lr.StepLR(',
    ['torch.utils.data.DataLoader'] = 'data.DataLoader(', ['torch.special.expit'] = 'mt.sigmoid(x',
    ['torchvision.transforms.Normalize'] = 'data.transforms.Normalize('} do
    assert(help(name):find(text, 1, true), name .. ': ' .. help(name))
  end
end)

t.finish()
