-- torch7.lua -- the equivalents of Torch7's names, for errors and mt.help: Torch7's name -> its equivalent here
local nn = require('mtorch').nn
local core = require 'mtorch.core'

local forward = ' in a forward of nn.class'
local names = {
  -- functions and methods of tensors
  cmul = 'x * y, or x:mul_(y)', cdiv = 'x / y, or x:div_(y)', cadd = 'x + y, or x:add_(y)',
  csub = 'x - y, or x:sub_(y)', cinv = 'x:reciprocal()',
  cmax = 'x:maximum(y), or x:clamp_min(number)', cmin = 'x:minimum(y), or x:clamp_max(number)',
  mod = 'x:fmod(y), or x % y, which has the sign of y', totable = 'x:tolist()', repeatTensor = 'x:tile(2, 3)',
  resize = 'x:reshape(..), or mt.empty(..) for another number of elements', resizeAs = 'x:reshape(y.shape)',
  isSameSizeAs = 'x.shape == y.shape', maskedCopy = 'x:masked_scatter_(mask, source)',
  apply = 'mt.map(function(v) return v * v end)(x)', map2 = 'mt.zip(function(a, b, c) return a + b * c end)(x, y, z)',
  addr = 'x + mt.outer(a, b)', xcorr2 = 'mt.conv2d(x, w)', conv2 = 'mt.conv2d(x, w:flip(-2, -1), {padding = k - 1})',
  uniform = 'x:uniform_(a, b), or mt.rand(shape)', random = 'x:random_(first, last), or mt.randint(first, last, {n})',
  isTensor = 'mt.is_tensor(x)', typename = 'mt.is_tensor(x), nn.is(m, nn.Linear)', isTypeOf = 'nn.is(m, nn.Linear)',
  potrf = 'mt.linalg.cholesky(A)', potri = 'mt.linalg.cholesky_inverse(factor)', symeig = 'mt.linalg.eigh(A)',
  gesv = 'mt.linalg.solve(A, B)', gels = 'mt.linalg.lstsq(A, B)',
  ['tensor.cdiv'] = 'x / y, or x:div_(y)', ['tensor.index'] = 'x:index_select(dim, index)',
  ['tensor.map'] = 'mt.zip(function(a, b) return a * b end)(x, y)', ['tensor.normal'] = 'x:normal_(mean, std)',
  ['tensor.new'] = 'x:new_empty(2, 3), x:new_zeros(2, 3)', ['tensor.set'] = 'a view of y: x = y:view(..)',
  ['tensor.copy'] = 'x:copy_(y)', seed = 'mt.manual_seed(os.time())', serialize = 'mt.save(path, table)',
  DiskFile = 'mt.save(path, table), or io.open(path)', Timer = 'mt.time(fn), or os.clock()', tic = 'mt.time(fn)',
  LongStorage = 'a list: mt.zeros({2, 3}), x:view({3, 2})',
  CmdLine = "mt.args{hidden = 100}; see mt.help('flags')", setdefaulttensortype = "mt.set_default_dtype('float64')",
  -- parts of networks
  ['nn.Concat'] = 'mt.cat({self.a(x), self.b(x)}, dim)' .. forward,
  ['nn.ConcatTable'] = 'return self.a(x), self.b(x)' .. forward,
  ['nn.ParallelTable'] = 'return self.a(x), self.b(y)' .. forward,
  ['nn.Parallel'] = 'a call for each of x:unbind(dim), and mt.cat' .. forward,
  ['nn.MapTable'] = 'a loop over the list' .. forward, ['nn.JoinTable'] = 'mt.cat({x, y}, dim)' .. forward,
  ['nn.SplitTable'] = 'x:unbind(dim)' .. forward, ['nn.SelectTable'] = 'list[i]' .. forward,
  ['nn.CAddTable'] = 'x + y' .. forward, ['nn.CSubTable'] = 'x - y' .. forward, ['nn.CMulTable'] = 'x * y' .. forward,
  ['nn.CDivTable'] = 'x / y' .. forward, ['nn.MM'] = 'x:matmul(y)' .. forward, ['nn.MV'] = 'x:matmul(v)' .. forward,
  ['nn.DotProduct'] = '(x * y):sum(-1)' .. forward, ['nn.CosineDistance'] = 'nn.CosineSimilarity()',
  ['nn.MixtureTable'] = '(gates:unsqueeze(3) * mt.stack(outputs, 2)):sum(2)' .. forward,
  ['nn.Mean'] = 'x:mean(dim)' .. forward, ['nn.Sum'] = 'x:sum(dim)' .. forward, ['nn.Max'] = 'x:amax(dim)' .. forward,
  ['nn.Min'] = 'x:amin(dim)' .. forward, ['nn.Mul'] = 'x * self.weight' .. forward,
  ['nn.CMul'] = 'x * self.weight' .. forward, ['nn.Add'] = 'x + self.bias' .. forward,
  ['nn.CAdd'] = 'x + self.bias' .. forward, ['nn.Power'] = 'x ^ p' .. forward, ['nn.Log'] = 'x:log()' .. forward,
  ['nn.Replicate'] = 'x:unsqueeze(dim):expand(..)' .. forward, ['nn.Padding'] = 'mt.pad(x, sides)' .. forward,
  ['nn.Index'] = 'x:index_select(dim, index)' .. forward, ['nn.MaskedSelect'] = 'x:masked_select(mask)' .. forward,
  ['nn.Normalize'] = 'mt.normalize(x, p, dim)' .. forward,
  ['nn.Bottle'] = 'nn.Linear itself: x may have more dimensions',
  ['nn.WhiteNoise'] = 'x + std * mt.randn_like(x)' .. forward, ['nn.SparseLinear'] = 'nn.EmbeddingBag',
  ['nn.Euclidean'] = 'mt.cdist(x, self.weight)' .. forward, ['nn.LayerNormalization'] = 'nn.LayerNorm',
  ['nn.GradientReversal'] = 'mt.Function{..}, whose backward returns -g', ['nn.Container'] = 'nn.Module',
  ['nn.SpatialUpSamplingNearest'] = 'nn.Upsample{scale_factor = 2}', ['nn.SpatialSoftMax'] = 'nn.Softmax(2)',
  ['nn.SpatialUpSamplingBilinear'] = "nn.Upsample{scale_factor = 2, mode = 'bilinear', align_corners = true}",
  ['nn.SpatialConvolutionMM'] = 'nn.Conv2d', ['nn.SpatialFullConvolution'] = 'nn.ConvTranspose2d',
  ['nn.TemporalConvolution'] = 'nn.Conv1d over [n x channels x time]', ['nn.BatchNormalization'] = 'nn.BatchNorm1d',
  ['nn.VolumetricFullConvolution'] = 'nn.ConvTranspose3d',
  ['nn.SpatialDilatedConvolution'] = 'nn.Conv2d, {dilation = 2}',
  ['nn.FastLSTM'] = 'nn.LSTM', ['nn.SeqLSTM'] = 'nn.LSTM', ['nn.SeqGRU'] = 'nn.GRU',
  ['nn.Sequencer'] = 'nn.LSTM, or a loop over the time steps', ['nn.gModule'] = 'a forward of nn.class',
  ['nn.StochasticGradient'] = "a loop, and mt.optim.SGD; see mt.help('training')", ['nn.Jacobian'] = 'mt.gradcheck',
  ['nn.Criterion'] = 'nn.Module; any function of tensors is a loss',
  ['nn.MarginCriterion'] = '(1 - y * x):relu():mean()', ['nn.L1Cost'] = 'x:abs():sum()',
  ['nn.MultiCriterion'] = 'a sum of losses', ['nn.ParallelCriterion'] = 'a sum of losses',
  -- methods and fields of modules
  ['module.updateOutput'] = 'net(x)', ['module.updateGradInput'] = 'loss:backward(), then x.grad',
  ['module.accGradParameters'] = 'loss:backward(), then p.grad', ['module.training'] = 'net:train()',
  ['module.gradInput'] = 'x.grad', ['module.gradWeight'] = 'net.weight.grad', ['module.gradBias'] = 'net.bias.grad',
  ['module.output'] = 'what net(x) returned', ['module.clearState'] = 'not needed: modules keep no results',
  ['module.findModules'] = 'a loop over net:modules(), nn.is(m, nn.Linear)', ['module.listModules'] = 'net:modules()',
  ['module.reset'] = 'nn.init.xavier_uniform_(w) and others', ['module.share'] = 'one module in several fields',
  -- optim
  ['optim.nag'] = 'optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9, nesterov = true})',
  ['optim.cg'] = 'optim.LBFGS',
  ['optim.checkgrad'] = 'mt.gradcheck', ['optim.Logger'] = 'mt.JsonLines(path), or mt.SummaryWriter(folder)',
}

for old, new in pairs{Byte = 'uint8', Char = 'int8', Short = 'int16', Int = 'int32', Half = 'float16'} do
  names[old .. 'Tensor'] = ("mt.tensor(.., {dtype='%s'})"):format(new)
end
names.CudaTensor = "x:cuda(), or mt.tensor(.., {device='cuda'})"

for old, new in pairs{sgd = 'SGD', adam = 'Adam', adagrad = 'Adagrad', rmsprop = 'RMSprop', adadelta = 'Adadelta',
  adamax = 'Adamax', lbfgs = 'LBFGS'} do
  names['optim.' .. old] = ('opt = optim.%s(net:parameters(), {lr = 0.1}), and opt:step()'):format(new)
end

for _, word in ipairs{'Abs', 'Exp', 'Square', 'Sqrt', 'Clamp', 'Narrow', 'Select', 'Squeeze', 'Unsqueeze', 'Transpose',
  'Contiguous'} do
  names['nn.' .. word] = ('x:%s(..)'):format(word:lower()) .. forward
end

--- The class of nn is the equivalent of the layer, if there is one.
local layers = core.name_set(nn)
local function layer(old, new)
  local sizes = old:find '^Spatial' and new:find '[vl]2d$' and '; a size is a number or {height, width}' or ''
  if layers[new] then names['nn.' .. old] = names['nn.' .. old] or 'nn.' .. new .. sizes end
end

for side, dims in pairs{Temporal = '1d', Spatial = '2d', Volumetric = '3d'} do
  for old, new in pairs{Convolution = 'Conv', MaxPooling = 'MaxPool', AveragePooling = 'AvgPool',
    AdaptiveMaxPooling = 'AdaptiveMaxPool', AdaptiveAveragePooling = 'AdaptiveAvgPool', Dropout = 'Dropout',
    BatchNormalization = 'BatchNorm', ZeroPadding = 'ZeroPad', ReflectionPadding = 'ReflectionPad',
    ReplicationPadding = 'ReplicationPad'} do
    layer(side .. old, new .. dims)
  end
end
for name in pairs(layers) do
  local loss = name:match '^(.*)Loss$'
  if loss then layer(loss .. 'Criterion', name) end
end
for old, new in pairs{ClassNLL = 'NLLLoss', SpatialClassNLL = 'NLLLoss', Abs = 'L1Loss', DistKLDiv = 'KLDivLoss'} do
  layer(old .. 'Criterion', new)
end

return names
