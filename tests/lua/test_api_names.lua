-- test_api_names.lua -- every public name of nn, optim, data and the rest exists and works
local mt = require 'mtorch'
local t = require 'testing'
local nn, optim, data = mt.nn, mt.optim, mt.data

local x, seq, image, volume = mt.randn(4, 6), mt.randn(4, 6, 8), mt.randn(2, 4, 8, 8), mt.randn(2, 4, 8, 8, 8)
local ids = mt.tensor({{1, 2}, {3, 1}}, {dtype = 'int64'})

--- The class, its constructor's call, its inputs, and the shape of its first result.
local layers = {
  {'Linear', {6, 3}, {x}, {4, 3}}, {'Bilinear', {6, 6, 3}, {x, x}, {4, 3}},
  {'Conv1d', {6, 3, 3}, {seq}, {4, 3, 6}}, {'Conv2d', {4, 3, 3}, {image}, {2, 3, 6, 6}},
  {'Conv3d', {4, 3, 3}, {volume}, {2, 3, 6, 6, 6}}, {'ConvTranspose1d', {6, 3, 3}, {seq}, {4, 3, 10}},
  {'ConvTranspose2d', {4, 3, 3}, {image}, {2, 3, 10, 10}},
  {'MaxPool1d', {2}, {seq}, {4, 6, 4}}, {'MaxPool2d', {2}, {image}, {2, 4, 4, 4}},
  {'MaxPool3d', {2}, {volume}, {2, 4, 4, 4, 4}}, {'AvgPool1d', {2}, {seq}, {4, 6, 4}},
  {'AvgPool2d', {2}, {image}, {2, 4, 4, 4}}, {'AvgPool3d', {2}, {volume}, {2, 4, 4, 4, 4}},
  {'AdaptiveAvgPool1d', {2}, {seq}, {4, 6, 2}}, {'AdaptiveAvgPool2d', {2}, {image}, {2, 4, 2, 2}},
  {'AdaptiveMaxPool1d', {2}, {seq}, {4, 6, 2}}, {'AdaptiveMaxPool2d', {2}, {image}, {2, 4, 2, 2}},
  {'BatchNorm1d', {6}, {x}, {4, 6}}, {'BatchNorm2d', {4}, {image}, {2, 4, 8, 8}},
  {'BatchNorm3d', {4}, {volume}, {2, 4, 8, 8, 8}}, {'InstanceNorm1d', {6}, {seq}, {4, 6, 8}},
  {'InstanceNorm2d', {4}, {image}, {2, 4, 8, 8}}, {'LayerNorm', {6}, {x}, {4, 6}}, {'GroupNorm', {2, 6}, {x}, {4, 6}},
  {'RMSNorm', {6}, {x}, {4, 6}}, {'Dropout', {0.5}, {x}, {4, 6}}, {'Dropout1d', {0.5}, {seq}, {4, 6, 8}},
  {'Dropout2d', {0.5}, {image}, {2, 4, 8, 8}}, {'Dropout3d', {0.5}, {volume}, {2, 4, 8, 8, 8}},
  {'AlphaDropout', {0.5}, {x}, {4, 6}}, {'Embedding', {3, 5}, {ids}, {2, 2, 5}}, {'EmbeddingBag', {3, 5}, {ids},
    {2, 5}},
  {'RNN', {8, 3}, {seq}, {4, 6, 3}}, {'LSTM', {8, 3}, {seq}, {4, 6, 3}}, {'GRU', {8, 3}, {seq}, {4, 6, 3}},
  {'RNNCell', {6, 3}, {x}, {4, 3}}, {'LSTMCell', {6, 3}, {x}, {4, 3}}, {'GRUCell', {6, 3}, {x}, {4, 3}},
  {'MultiheadAttention', {8, 2}, {seq}, {4, 6, 8}}, {'TransformerEncoderLayer', {8, 2}, {seq}, {4, 6, 8}},
  {'TransformerEncoder', {nn.TransformerEncoderLayer(8, 2), 2}, {seq}, {4, 6, 8}},
  {'TransformerDecoderLayer', {8, 2}, {seq, seq}, {4, 6, 8}},
  {'TransformerDecoder', {nn.TransformerDecoderLayer(8, 2), 2}, {seq, seq}, {4, 6, 8}},
  {'Flatten', {}, {image}, {2, 256}}, {'Unflatten', {2, {2, 3}}, {x}, {4, 2, 3}},
  {'Upsample', {nil, 2}, {image}, {2, 4, 16, 16}}, {'PixelShuffle', {2}, {image}, {2, 1, 16, 16}},
  {'PixelUnshuffle', {2}, {image}, {2, 16, 4, 4}}, {'ZeroPad1d', {1}, {seq}, {4, 6, 10}},
  {'ZeroPad2d', {1}, {image}, {2, 4, 10, 10}}, {'ConstantPad1d', {1, 2}, {seq}, {4, 6, 10}},
  {'ConstantPad2d', {1, 2}, {image}, {2, 4, 10, 10}}, {'ReflectionPad1d', {1}, {seq}, {4, 6, 10}},
  {'ReflectionPad2d', {1}, {image}, {2, 4, 10, 10}}, {'ReplicationPad1d', {1}, {seq}, {4, 6, 10}},
  {'ReplicationPad2d', {1}, {image}, {2, 4, 10, 10}}, {'Unfold', {2}, {image}, {2, 16, 49}},
  {'Fold', {{4, 4}, 2}, {mt.ones(2, 8, 9)}, {2, 2, 4, 4}}, {'CosineSimilarity', {}, {x, x}, {4}},
  {'PairwiseDistance', {}, {x, x}, {4}}, {'Sequential', {nn.Linear(6, 2), nn.ReLU()}, {x}, {4, 2}},
  {'Identity', {}, {x}, {4, 6}}, {'GLU', {}, {x}, {4, 3}}, {'Softmax', {2}, {x}, {4, 6}},
  {'LogSoftmax', {2}, {x}, {4, 6}}, {'PReLU', {}, {x}, {4, 6}},
}
for name in ([[ReLU LeakyReLU ELU SELU CELU GELU SiLU Mish Hardtanh ReLU6 Softsign Hardsigmoid Hardswish LogSigmoid
  Sigmoid
  Tanh Softplus Softmin Softshrink Hardshrink Tanhshrink RReLU]]):gmatch '%S+' do
  layers[#layers + 1] = {name, name == 'Softmin' and {2} or {}, {x}, {4, 6}}
end

t.test('layers: made, called, with gradients of parameters and inputs', function()
  for _, case in ipairs(layers) do
    local name, options, inputs, shape = unpack(case)
    local net = nn[name](unpack(options, 1, table.maxn(options)))
    assert(tostring(net):find('^' .. name), name)
    local given = {}
    for k, input in ipairs(inputs) do given[k] = input.dtype == 'int64' and input or input:clone():requires_grad_() end
    local y = net(unpack(given))
    t.eq({name, unpack(y:size())}, {name, unpack(shape)})
    y:square():sum():backward()
    for key, p in net:named_parameters() do assert(p.grad, name .. '.' .. key .. ' has no gradient') end
    if given[1].dtype ~= 'int64' then assert(given[1].grad, name .. ': the input has no gradient') end
  end
end)

t.test('containers', function()
  t.eq({#nn.ModuleList{nn.ReLU(), nn.Tanh()}, #nn.ParameterList{mt.ones(2)}:parameters()}, {2, 1})
  assert(nn.ModuleDict{a = nn.ReLU()}.a(x):ge(0):all())
end)

t.test('losses: a number with a gradient of the input', function()
  local p, q, sign = mt.rand(4, 6) * 0.8 + 0.1, mt.rand(4, 6) * 0.8 + 0.1, mt.tensor{1, -1, 1, -1}
  local labels = mt.tensor({1, 2, 3, 4}, {dtype = 'int64'})
  local cases = {L1 = {p, q}, MSE = {p, q}, SmoothL1 = {p, q}, Huber = {p, q}, CrossEntropy = {p, labels},
    NLL = {p, labels}, GaussianNLL = {p, q, q}, PoissonNLL = {p, q}, KLDiv = {p, q}, BCE = {p, q}, BCEWithLogits =
      {p, q},
    MarginRanking = {p:sum(2), q:sum(2), sign}, HingeEmbedding = {p:sum(2), sign}, CosineEmbedding = {p, q, sign},
    TripletMargin = {p, q, q + 1}, MultiMargin = {p, labels}, SoftMargin = {p:sum(2), sign},
    MultiLabelMargin = {p, mt.full({4, 6}, 2, {dtype = 'int64'})}, MultiLabelSoftMargin = {p, q:round()},
    CTC = {mt.randn(5, 4, 6):log_softmax(3), mt.full({4, 2}, 2, {dtype = 'int64'}), {5, 5, 5, 5}, {1, 1, 1, 1}}}
  for name, inputs in pairs(cases) do
    inputs[1] = inputs[1]:clone():requires_grad_()
    local loss = nn[name .. 'Loss']()(unpack(inputs))
    t.eq({name, loss:dim()}, {name, 0})
    loss:backward()
    assert(inputs[1].grad, name)
  end
end)

t.test('optimizers lower a loss; schedulers change the rate', function()
  for name in ('SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam Lion LBFGS'):gmatch '%S+' do
    local w = mt.full({3}, 2):requires_grad_()
    local opt = optim[name]({w}, {lr = name == 'Adadelta' and 1 or 0.05})
    local function loss()
      opt:zero_grad()
      local l = w:square():sum()
      l:backward()
      return l
    end
    for _ = 1, 10 do opt:step(loss) end
    assert(loss():item() < 12, name)
  end
  local lr = optim.lr
  local function opt() return optim.SGD({mt.ones(1):requires_grad_()}, {lr = 1, momentum = 0.9}) end
  for name, options in pairs{StepLR = {step_size = 2}, MultiStepLR = {milestones = {2}}, ExponentialLR = {gamma = 0.9},
    LinearLR = {}, ConstantLR = {}, PolynomialLR = {}, CosineAnnealingLR = {T_max = 8},
    CosineAnnealingWarmRestarts = {T_0 = 8}, OneCycleLR = {max_lr = 1, total_steps = 9}, LambdaLR = {lr_lambda =
    function(k) return 1 / (k + 1) end}, CyclicLR = {base_lr = 0.1, max_lr = 1, step_size_up = 8}} do
    local sched = lr[name](opt(), options)
    local seen = {}
    for k = 1, 8 do
      sched:step()
      seen[k] = sched:get_last_lr()[1]
    end
    local least, most = math.min(unpack(seen)), math.max(unpack(seen))
    assert(most > least, name)
  end
  local o = opt()
  local both = lr.SequentialLR(o, {lr.ConstantLR(o, {factor = 0.5, total_iters = 9}), lr.ExponentialLR(o, 0.5)}, {2})
  both:step()
  t.eq(both:get_last_lr(), {0.5})
  lr.ChainedScheduler{lr.StepLR(o, 1), lr.StepLR(o, 1)}:step()
  local plateau = lr.ReduceLROnPlateau(o, {patience = 1})
  local before = o.param_groups[1].lr
  for _ = 1, 4 do plateau:step(1) end
  assert(o.param_groups[1].lr < before)
end)

t.test('other names of nn, optim, data and mt', function()
  for module, names in pairs{[nn] = [[class Parameter Buffer init functional_call clip_grad_norm_ clip_grad_value_
    weight_norm
    spectral_norm remove_parametrizations pad_sequence pack_padded_sequence pad_packed_sequence]],
    [nn.init] = [[uniform_ normal_ constant_ ones_ zeros_ eye_ dirac_ xavier_uniform_ xavier_normal_ kaiming_uniform_
    kaiming_normal_ trunc_normal_ orthogonal_ sparse_ calculate_gain]],
    [optim] = 'EarlyStopping', [optim.lr] = 'find', [optim.swa] = 'AveragedModel update_bn',
    [data] = [[simple diag split xor circle spiral mnist fashion_mnist cifar10 idx npy npz safetensors csv json image
      wav folder text
    save_npy save_npz save_safetensors save_image TensorDataset Subset ConcatDataset random_split transforms
      CharTokenizer
    BPETokenizer DataLoader RandomSampler WeightedRandomSampler SequentialSampler BatchSampler factorize]],
    [data.transforms] = [[Compose ToTensor Normalize RandomCrop CenterCrop Resize RandomHorizontalFlip
      RandomVerticalFlip
    RandomRotation RandomAffine ColorJitter RandomErasing RandomResizedCrop Pad Grayscale GaussianBlur Lambda
      RandomApply]],
    [mt.metrics] = 'Accuracy TopK F1 ConfusionMatrix AUC Perplexity Mean', [mt.checkpoint] = 'save resume',
    [mt.distributions] = [[Normal LogNormal Uniform Bernoulli Categorical Exponential Laplace Beta Gamma Dirichlet
      Poisson Binomial MultivariateNormal StudentT Independent kl_divergence]],
    [mt.plot] = 'line scatter fill_between bar hist heatmap contour image images panels graph',
    [mt] = [[save load SummaryWriter set_flush_denormal memory_stats time args progress report Report compare_runs
    profile timeit set_num_threads help autocast GradScaler compile explain]]} do
    for name in names:gmatch '%S+' do
      local found = module[name]
      assert(type(found) == 'table' or type(found) == 'function', name)
    end
  end
  for name in ([[parameters named_parameters state_dict load_state_dict train eval to zero_grad apply clone summary
    freeze
    unfreeze named_buffers named_modules children register_buffer register_forward_hook]]):gmatch '%S+' do
    assert(type(nn.Linear(1, 1)[name]) == 'function', name)
  end
end)

t.finish()
