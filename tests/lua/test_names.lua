-- test_names.lua -- printing of objects, and errors for unknown names
local mt = require 'mtorch'
local t = require 'testing'
local nn, optim, data, metrics = mt.nn, mt.optim, mt.data, mt.metrics
local T, lr = data.transforms, mt.optim.lr

local net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
local opt = optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
local set = data.TensorDataset(mt.ones(10, 3), mt.range(1, 10))
local loader = data.DataLoader(set, {batch_size = 4, shuffle = true, workers = 1})

t.test('objects print what they are', function()
  local early = optim.EarlyStopping{patience = 3}
  for _, case in ipairs{
    {opt, 'SGD(2 tensors, lr=0.1, momentum=0.9, dampening=0, weight_decay=0)'},
    {optim.Adam({{params = {net[1].weight}, lr = 1e-5}, {params = {net[1].bias}}}, {lr = 0.01}), 'Adam(\n' ..
      '  [1]: 1 tensor, lr=1e-5, betas={0.9, 0.999}, eps=1e-8, weight_decay=0\n' ..
      '  [2]: 1 tensor, lr=0.01, betas={0.9, 0.999}, eps=1e-8, weight_decay=0\n)'},
    {optim.LBFGS(net:parameters()), 'LBFGS(2 tensors, lr=1, max_iter=20, max_eval=25, tolerance_grad=1e-7, ' ..
      'tolerance_change=1e-9, history_size=100)'},
    {lr.StepLR(opt, {step_size = 4, gamma = 0.5}), 'StepLR(step_size=4, gamma=0.5) at step 0, lr 0.1'},
    {lr.MultiStepLR(opt, {milestones = {3, 4}}), 'MultiStepLR(milestones={3, 4}) at step 0, lr 0.1'},
    {lr.ChainedScheduler{lr.StepLR(opt, 4), lr.ExponentialLR(opt, 0.9)}, 'ChainedScheduler(\n' ..
      '  StepLR(step_size=4) at step 0, lr 0.1\n  ExponentialLR(gamma=0.9) at step 0, lr 0.1\n)'},
    {lr.ReduceLROnPlateau(opt, {patience = 2}), 'ReduceLROnPlateau(patience=2) at step 0, lr 0.1'},
    {early, "EarlyStopping(patience=3, min_delta=0, mode='min'): no value yet"},
    {mt.GradScaler(), 'GradScaler(scale=65536, growth_factor=2, backoff_factor=0.5, growth_interval=2000)'},
    {set, 'TensorDataset(10 examples of (3) float32, () int64)'},
    {data.Subset(set, {1, 2}), 'Subset(2 of TensorDataset(10 examples of (3) float32, () int64))'},
    {data.xor(10), 'xor(10 points)'},
    {loader, 'DataLoader(3 batches of 4, shuffled, 1 workers; TensorDataset(10 examples of (3) float32, () int64))'},
    {data.DataLoader({size = function() return 3 end, get = function() return 1 end}),
      'DataLoader(3 batches of 1; a set of 3)'},
    {data.RandomSampler(set), 'RandomSampler(10 positions)'},
    {data.BatchSampler(data.SequentialSampler(set), 3),
      'BatchSampler(4 batches of 3, SequentialSampler(10 positions))'},
    {T.Compose{T.RandomCrop(24, {padding = 2}), T.RandomHorizontalFlip(), T.Normalize({0.5}, 0.2)}, 'Compose(\n' ..
      '  RandomCrop(size=24, padding=2)\n  RandomHorizontalFlip()\n  Normalize(mean={0.5}, std=0.2)\n)'},
    {T.RandomApply({T.ToTensor()}, 0.25), 'RandomApply(p=0.25\n  ToTensor()\n)'},
    {T.Resize({24, 32}, 'nearest'), "Resize(size={24, 32}, interpolation='nearest')"},
    {metrics.ConfusionMatrix(3), 'ConfusionMatrix(num_classes=3)'}, {metrics.Mean(), 'Mean()'},
    {data.CharTokenizer 'hello', 'CharTokenizer: 4 tokens'},
    {mt.Report{}, 'Report(off)'}, {mt.JsonLines(), 'JsonLines(off)'},
    {mt.progress(5, {label = 'train'}), 'progress(train: 0 of 5)'},
    {opt.param_groups, '{2 tensors, lr=0.1, momentum=0.9, dampening=0, weight_decay=0}'},
    {nn, "mt.nn: mt.help('nn') lists its names"}, {mt, 'mt: mt.help() lists its names'},
  } do t.eq(tostring(case[1]), case[2]) end
  local hook = net:register_forward_hook(print)
  t.eq(tostring(hook), 'hook of Sequential, h:remove() ends it')
  hook:remove()
  t.eq(tostring((mt.ones(1):requires_grad_() * 2):register_hook(print)), 'hook of a tensor, h:remove() ends it')
  early:step(0.5)
  early:step(0.6)
  t.eq(tostring(early), "EarlyStopping(patience=3, min_delta=0, mode='min'): best 0.5 at step 1 of 2")
end)

t.test('a name that is not there: one sentence at the line, with what was meant', function()
  local here = {mt = mt, nn = nn, optim = optim, data = data, T = T, net = net, opt = opt, set = set, loader = loader,
    acc = metrics.Accuracy(), sched = lr.StepLR(opt, 4), x = mt.ones(2, 3), pairs = pairs, xor = data.xor(4),
    early = optim.EarlyStopping{}, scaler = mt.GradScaler(), log = mt.JsonLines(), report = mt.Report{},
    writer = mt.SummaryWriter(os.tmpname() .. '.d')}
  for line, sentence in pairs{
    ['opt:zerograd()'] = "SGD has no 'zerograd' (did you mean 'zero_grad'?)",
    ['opt:wrong()'] = "SGD has no 'wrong'",
    ['opt.lr = 3'] = "SGD has no 'lr'; each group has its own: opt.param_groups[i].lr",
    ['opt.param_groups[0].lr = 3'] = 'param_groups[0]: groups count from 1, there is 1',
    ['opt.param_groups[1].learning_rate = 3'] = "SGD: a group has no option 'learning_rate'; here it is lr",
    ['sched:get_lr()'] = "StepLR has no 'get_lr'; here it is sched:get_last_lr()",
    ['sched.typo = 3'] = "StepLR has no 'typo'",
    ['sched.gama = 3'] = "StepLR has no 'gama' (did you mean 'gamma'?)",
    ['acc.treshold = 3'] = "Accuracy has no 'treshold' (did you mean 'threshold'?)",
    ['early.patiance = 3'] = "EarlyStopping has no 'patiance' (did you mean 'patience'?)",
    ['scaler.growth = 3'] = "GradScaler has no 'growth' (did you mean 'growth_factor'?)",
    ['log.pat = 3'] = "log has no 'pat' (did you mean 'path'?)",
    ['loader:wrong()'] = "DataLoader has no 'wrong'",
    ['set:len()'] = "TensorDataset has no 'len'; here it is set:size()",
    ['_ = set[1]'] = 'TensorDataset has nothing at [1]; set:get(i) is an example',
    ['for _ in set do end'] = 'TensorDataset: for i = 1, set:size() do .. set:get(i) .. end, or for .. in ' ..
      'mt.data.DataLoader(set):iter() do',
    ['for _ in loader do end'] = 'DataLoader: an iterator is needed, use loader:iter()',
    ['xor:length()'] = "TensorDataset has no 'length'; here it is set:size()",
    ['acc:result()'] = "Accuracy has no 'result'; here it is m:compute()",
    ['acc(x)'] = 'Accuracy: it is not a function; m:update(..) adds a batch, m:compute() returns the value',
    ['early:stop()'] = "EarlyStopping has no 'stop' (did you mean 'step'?)",
    ['scaler:scal()'] = "GradScaler has no 'scal' (did you mean 'scale'?)",
    ['mt.ones(2, "cuda")'] = "ones: 'cuda' is a device, no dtype; write {device='cuda'}",
    ['nn.LazyLinear(10)'] = "mt.nn has no 'LazyLinear'; mt.nn.Linear with its size; mt.nn.Sequential(..):" ..
      'summary{..} of what comes before says which',
    ['writer:add_graph(net)'] = "SummaryWriter has no 'add_graph'; here it is mt.report{network=net}, or " ..
      'mt.onnx.export(net, x, path) for netron.app',
    ['log:wrte()'] = "log has no 'wrte' (did you mean 'write'?)",
    ['report:scaler()'] = "report has no 'scaler' (did you mean 'scalar'?)",
    ['nn.SpatialConvolution(1, 2, 3, 3)'] = "mt.nn has no 'SpatialConvolution'; here it is nn.Conv2d; " ..
      'a size is a number or {height, width}',
    ['nn.VolumetricMaxPooling(2)'] = "mt.nn has no 'VolumetricMaxPooling'; here it is nn.MaxPool3d",
    ['nn.DistKLDivCriterion()'] = "mt.nn has no 'DistKLDivCriterion'; here it is nn.KLDivLoss",
    ['nn.CAddTable()'] = "mt.nn has no 'CAddTable'; here it is x + y in a forward of nn.class",
    ['x:cdiv(x)'] = "a tensor has no field or method 'cdiv'; here it is x / y, or x:div_(y)",
    ['mt.ByteTensor(3)'] = "mt has no 'ByteTensor'; here it is mt.tensor(.., {dtype='uint8'})",
    ['sched.lr = 3'] = "StepLR has no 'lr'; here it is sched:get_last_lr(), or opt.param_groups[1].lr",
    ['for i, x in mt.enumerate(set) do end'] = "mt has no 'enumerate'; here it is a count of your own, or " ..
      'for i = 1, #set do set:get(i)',
    ['nn.Lin()'] = "mt.nn has no 'Lin' (did you mean 'Linear'?)",
    ['nn.utils.clip_grad_norm_()'] = "mt.nn has no 'utils'; here it is mt.nn itself: nn.clip_grad_norm_, " ..
      'nn.weight_norm, nn.pad_sequence, nn.pack_padded_sequence, ..',
    ['nn.functional.relu()'] = "mt.nn has no 'functional'; here it is functions of mt: mt.relu, mt.softmax, " ..
      'mt.cross_entropy, ..',
    ['nn.DataLoader()'] = "mt.nn has no 'DataLoader'; it is mt.data.DataLoader",
    ['mt.DataLoader()'] = "mt has no 'DataLoader'; it is mt.data.DataLoader",
    ['optim.lr_scheduler.StepLR()'] = "mt.optim has no 'lr_scheduler'; here it is mt.optim.lr, mt.help('optim.lr')",
    ['data.ImageFolder()'] = "mt.data has no 'ImageFolder'; here it is mt.data.folder(root)",
    ['data.Dataset()'] = "mt.data has no 'Dataset'; any table with size() and get(i) is a set; " ..
      'mt.data.TensorDataset(x, y) makes one of tensors',
    ['T.ToPILImage()'] = "mt.data.transforms has no 'ToPILImage'; not needed: images are tensors, " ..
      'mt.data.save_image(path, x) writes one',
    ['data.DataLoader(set, {num_workers = 2})'] = "DataLoader: unknown option 'num_workers'; here it is workers",
    ['data.DataLoader(set, {batchsize = 2})'] = "DataLoader: unknown option 'batchsize' (did you mean 'batch_size'?)",
    ['mt.tqdm()'] = "mt has no 'tqdm'; here it is mt.progress(n) or mt.progress(loader)",
    ['_ = mt.inf'] = "mt has no 'inf'; here it is math.huge",
    ['_ = mt.pi'] = "mt has no 'pi'; here it is math.pi", ['_ = mt.nan'] = "mt has no 'nan'; here it is 0 / 0",
    ['_ = mt.nn.Swish'] = "mt.nn has no 'Swish'; here it is nn.SiLU",
    ['_ = x.data_ptr'] = "a tensor has no field or method 'data_ptr'; here it is x:data(), a typed FFI pointer",
    ['_ = x.nbytes'] = "a tensor has no field or method 'nbytes'; here it is x:numel() * x:element_size()",
    ['_ = mt.float32'] = "mt has no 'float32'; here it is a string: 'float32'",
    ['x.data = x'] = "the field 'data' of a tensor cannot be set; only grad and requires_grad can; " ..
      'mt.no_grad(function() x:copy_(y) end) writes values',
    ['x:numpy()'] =
      "a tensor has no field or method 'numpy'; here it is x:tolist(), or x:data() for a typed FFI pointer",
    ['x:astype()'] = "a tensor has no field or method 'astype'; here it is x:to('float64')",
    ['x:shape()'] = 'shape: it is a field, not a method: x.shape, x.shape[1], x:size(1)',
  } do
    local ok, message = pcall(setfenv(assert(loadstring(line, '=line')), here))
    t.eq({ok, message}, {false, 'line:1: ' .. sentence})
  end
end)

t.test('a library keeps its name whatever opened first', function()
  local program = arg[0]
  for i = -1, -100, -1 do program = arg[i] or program end
  local file = os.tmpname()
  for _, name in ipairs{'cuda', 'data', 'linalg', 'map', 'reduce', 'zip'} do
    for _, first in ipairs{name, 'no_such_method'} do -- the second opens all methods, to name the nearest
      local out = assert(io.open(file, 'w'))
      out:write(("local mt = require 'mtorch'\npcall(function() return mt.ones(1).%s end)\nlocal late = mt.%s\n" ..
        'print(late)\n'):format(first, name))
      out:close()
      local pipe = io.popen(("'%s' '%s' 2>&1"):format(program, file))
      local text = pipe:read '*a'
      pipe:close()
      local is_function = name == 'map' or name == 'reduce' or name == 'zip'
      local expected = is_function and '^function' or '^mt%.' .. name .. ': '
      assert(text:find(expected), name .. ' after ' .. first .. ': ' .. text)
    end
  end
  os.remove(file)
end)

t.finish()
