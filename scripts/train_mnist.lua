-- train_mnist.lua -- trains classifiers of handwritten digits: MiniTorch's network, a LeNet, a larger CNN
--
--   mtorch scripts/train_mnist.lua --data ../shared/data/mnist                  the best network, MNIST in that folder
--   mtorch scripts/train_mnist.lua --data DIR --model module4                   MiniTorch's Module 4, 5000 digits
--   mtorch scripts/train_mnist.lua --data DIR --model lenet --epochs 10
--   mtorch scripts/train_mnist.lua --download                                   fetches MNIST first
--   mtorch scripts/train_mnist.lua                                              generated digits, no files needed
--   mtorch scripts/train_mnist.lua --data DIR --checkpoint run.mt               resumes if it was stopped
--   mtorch scripts/train_mnist.lua --data DIR --report run.html --live          a page that updates itself
--   mtorch scripts/train_mnist.lua --dry-run                                    a short run of every part
--
-- An image is a tensor [1 x 28 x 28] from 0 (paper) to 1 (ink). Its label, from 1 to 10, is the digit + 1.
-- A network returns ten logits for each image; cross entropy compares their softmax with the label.
local mt = require 'mtorch'
local refuse = require 'refuse'
local nn, optim, data, metrics = mt.nn, mt.optim, mt.data, mt.metrics
local T = data.transforms

local options = mt.args{
  {'data', help = "folder of MNIST's files; default: generated digits", metavar = 'DIR'},
  {'download', false, 'fetch MNIST first'},
  {'model', {'best', 'lenet', 'module4'}, "the network; module4 is MiniTorch's"},
  {'epochs', help = 'passes over the digits; default by model: best 12, lenet 10, module4 16', type = 'int', min = 0},
  {'batch', help = 'batch size; default by model: 64, 64 or 16', type = 'int', min = 1},
  {'rate', help = 'learning rate; default by model: 0.01, 0.001 or 0.01', min = 0},
  {'train', help = 'number of training digits; default: all, for module4 5000', type = 'int', min = 1},
  {'workers', 1, 'loader threads; the result does not depend on them', type = 'int', min = 0},
  {'checkpoint', help = 'file that is written after each epoch and resumed from', type = 'output'},
  {'log', help = 'folder for TensorBoard', metavar = 'DIR'},
  {'report', help = 'HTML page with all results', type = 'output'},
  {'live', false, 'write the page each second, and let a browser that shows it load it again'},
  {'target', help = 'required accuracy in percent; default by model: 98.8, 97 or 95', min = 0, max = 100},
  {'dry_run', false, 'a short run of every part'},
}
local device, small = options.device, options.dry_run

-- ---- three networks --------------------------------------------------------------------------------

local models = {}

--- MiniTorch's Module 4. A window of its convolutions begins at the output pixel, so padding is needed on the right and
--- below only. All parameters are initialized uniformly in (-0.05, 0.05).
function models.module4()
  local net = nn.Sequential(
    nn.ZeroPad2d{0, 2, 0, 2}, nn.Conv2d(1, 4, 3), nn.ReLU(),
    nn.ZeroPad2d{0, 2, 0, 2}, nn.Conv2d(4, 8, 3), nn.ReLU(),
    nn.AvgPool2d(4), nn.Flatten(),
    nn.Linear(392, 64), nn.ReLU(), nn.Dropout(0.25),
    nn.Linear(64, 10))
  for _, p in ipairs(net:parameters()) do nn.init.uniform_(p, -0.05, 0.05) end
  return net
end

--- LeNet-5 (LeCun et al. 1998) with ReLU and max pooling.
function models.lenet()
  return nn.Sequential(
    nn.Conv2d(1, 6, 5, {padding = 2}), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(),
    nn.Linear(120, 84), nn.ReLU(),
    nn.Linear(84, 10))
end

--- Three convolutions with batch norm, each followed by pooling: 28, 14, 7, 3 pixels wide.
function models.best()
  local function block(inputs, outputs, kernel)
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, {padding = (kernel - 1) / 2, bias = false}),
      nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))
  end
  return nn.Sequential(
    block(1, 24, 5), block(24, 48, 3), block(48, 96, 3), nn.Flatten(),
    nn.Dropout(0.3), nn.Linear(96 * 9, 10))
end

-- Defaults of each model: epochs, batch size, learning rate, training digits, required accuracy.
local settings = {
  module4 = {epochs = 16, batch = 16, rate = 0.01, train = 5000, target = 95},
  lenet = {epochs = 10, batch = 64, rate = 0.001, target = 97},
  best = {epochs = 12, batch = 64, rate = 0.01, target = 98.8},
}
local defaults = settings[options.model]
local function chosen(name) return options[name] or defaults[name] end
local epochs = small and (options.epochs or 1) or chosen 'epochs'
local batch, rate = chosen 'batch', chosen 'rate'

-- ---- data ------------------------------------------------------------------------------------------

--- Returns the training set and the test set.
local function digits()
  if small then return data.digits(160, 1), data.digits(64, 2) end
  if not options.data and not options.download then return data.digits(8000, 1), data.digits(2000, 2) end
  return data.mnist{root = options.data, download = options.download}
end
local train, test = digits()
-- Module 4 takes pixels from 0 to 255, as in the files, because its initial weights are small.
if options.model == 'module4' then
  train, test = data.TensorDataset(train.x * 255, train.y), data.TensorDataset(test.x * 255, test.y)
end

-- Training images are rotated, translated, scaled and sheared at random, differently in each epoch. In a loader
-- the random numbers depend only on seed, epoch and position.
local is_augmented = options.model == 'best'
if is_augmented then
  train.transform = T.RandomAffine(10, {translate = {0.1, 0.1}, scale = {0.9, 1.1}, shear = 8,
    interpolation = 'bilinear'})
end

local function first(set, n) return n < set:size() and data.Subset(set, mt.range(1, n)) or set end
local train_size = chosen 'train'
if train_size then train = first(train, train_size) end
if train:size() < batch then refuse('%d digits are fewer than a batch of %d', train:size(), batch) end

local loader = data.DataLoader(train,
  {batch_size = batch, shuffle = true, drop_last = true, seed = options.seed,
    workers = is_augmented and options.workers or 0})

-- ---- training --------------------------------------------------------------------------------------

local net = models[options.model]():to(device)
local loss_of = nn.CrossEntropyLoss()
local opt, sched, average
local total_steps = epochs * loader:size()
if options.model == 'best' then
  opt = optim.AdamW(net:parameters(), {lr = rate, weight_decay = 0.01})
  -- The rate grows during the first fifth and then decreases to almost 0.
  sched = optim.lr.OneCycleLR(opt, {max_lr = rate, total_steps = total_steps, pct_start = 0.2})
  -- An exponential moving average of the parameters is tested, because it depends less on the last batches.
  -- Its decay is 0.995, or 1 - 7 / n if there are few steps n: the initial parameters then have
  -- the weight exp(-7), about a thousandth, at the end.
  average = optim.swa.AveragedModel(net, {ema = math.max(0, math.min(0.995, 1 - 7 / total_steps)), use_buffers = true})
elseif options.model == 'lenet' then
  opt = optim.Adam(net:parameters(), {lr = rate})
else
  opt = optim.SGD(net:parameters(), {lr = rate})
end

--- Accuracy in percent and mean loss of a network on a set.
local function evaluate(network, set)
  local accuracy, mean = metrics.Accuracy(), metrics.Mean()
  network:eval()
  mt.no_grad(function()
    for x, y in data.DataLoader(set, {batch_size = 250}):iter() do
      x, y = x:to(device), y:to(device)
      local scores = network(x)
      accuracy:update(scores, y)
      mean:update(loss_of(scores, y), #y)
    end
  end)
  network:train()
  return accuracy:compute() * 100, mean:compute()
end

-- Module 4 is evaluated on one batch of 16 of 500 validation digits, every five batches.
local valid = options.model == 'module4' and data.DataLoader(first(test, 500), {batch_size = 16})
local function count_correct()
  local x, y = valid:iter()()
  net:eval()
  local scores = mt.no_grad(net, x:to(device))
  net:train()
  return scores:argmax(2):eq(y:to(device)):sum():item(), #y
end

local report = mt.Report(options, {title = 'Handwritten digits: ' .. options.model, xlabel = 'epoch'})
report:network(net)

--- Writes an epoch's results to the page and to TensorBoard.
local writer = options.log and mt.SummaryWriter(options.log)
local curves = {} -- results of each epoch, for the page of a resumed run
local function show(epoch, results)
  report:scalars(results, epoch)
  for name, value in pairs(writer and results or {}) do writer:add_scalar(name, value, epoch) end
end
local first_epoch, step, max_correct, full_epoch = 1, 0, 0, nil
local state = {model = net, optim = opt, sched = sched, average = average, loader = loader}
local checkpoint = options.checkpoint
if small and checkpoint then -- a dry run uses a temporary file
  checkpoint = os.tmpname()
  os.remove(checkpoint)
end
if checkpoint then
  local resumed = mt.checkpoint.resume(checkpoint, state)
  if resumed then
    if sched and sched.total_steps ~= total_steps then
      refuse("the schedule in '%s' is of %g epochs, not %d: say --epochs %g, or name another file", checkpoint,
        sched.total_steps / loader:size(), epochs, sched.total_steps / loader:size())
    end
    first_epoch, step, curves = resumed.epoch + 1, resumed.step, resumed.curves
    max_correct, full_epoch = resumed.most_right, resumed.full_epoch
    for epoch, results in ipairs(curves) do report:scalars(results, epoch) end
    print(('goes on after epoch %d of %s'):format(resumed.epoch, checkpoint))
  end
end

--- Trains for one epoch; returns the mean loss.
local function run_epoch(epoch)
  local mean = metrics.Mean()
  local bar = mt.progress(loader:size(), {label = 'epoch ' .. epoch})
  for x, y in loader:iter() do
    x, y = x:to(device), y:to(device)
    local loss = loss_of(net(x), y)
    opt:zero_grad()
    loss:backward()
    opt:step()
    if sched then sched:step() end
    if average then average:update_parameters(net) end
    step = step + 1
    local value = loss:item()
    mean:update(value, #y)
    bar:update(nil, {loss = value})
    if valid and step % 5 == 0 then
      local correct, of = count_correct()
      max_correct = math.max(max_correct, correct)
      if correct == of then full_epoch = full_epoch or epoch end
      bar:print(('Epoch %d loss %.4f valid acc %d/%d'):format(epoch, value, correct, of))
    end
  end
  bar:finish()
  return mean:compute()
end

--- Trains for an epoch; prints, shows and saves the results.
local function train_epoch(epoch)
  local loss = run_epoch(epoch)
  local accuracy, test_loss = evaluate(average or net, test)
  print(('epoch %2d  loss %.4f  test loss %.4f  accuracy %.2f'):format(epoch, loss, test_loss, accuracy))
  curves[epoch] = {['loss/train'] = loss, ['loss/test'] = test_loss, ['accuracy/test'] = accuracy}
  show(epoch, curves[epoch])
  if checkpoint then
    state.epoch, state.step, state.curves = epoch, step, curves
    state.most_right, state.full_epoch = max_correct, full_epoch
    mt.checkpoint.save(checkpoint, state)
  end
end
local seconds = mt.time(function()
  for epoch = first_epoch, epochs do train_epoch(epoch) end
end, {quiet = true}).wall
if small and checkpoint then os.remove(checkpoint) end
if writer then writer:close() end

-- ---- results ---------------------------------------------------------------------------------------

local accuracy, loss = evaluate(average or net, test)
if report.on then
  local confusion, wrong, labels = metrics.ConfusionMatrix(10), {}, {}
  ;(average or net):eval()
  for x, y in data.DataLoader(test, {batch_size = 250}):iter() do
    local class = mt.no_grad(average or net, x:to(device)):argmax(2):cpu()
    confusion:update(class, y)
    for _, i in ipairs(class:ne(y):nonzero():view(-1):tolist()) do
      if #wrong == 24 then break end
      wrong[#wrong + 1], labels[#labels + 1] = x[i], ('%d>%d'):format(y[i]:item() - 1, class[i]:item() - 1)
    end
  end
  report:confusion(confusion:compute(), mt.extend.util.words '0 1 2 3 4 5 6 7 8 9')
  report:filters(net)
  if #wrong > 0 then report:image('misclassified test digits, true > predicted', mt.stack(wrong), {labels = labels}) end
  print('report: ' .. report:finish())
end
local module4_results = valid and (' valid=%d/16 full_at_epoch=%s'):format(max_correct, full_epoch or 'never') or ''
print(('final: model=%s train=%d test=%d epochs=%d%s loss=%.4f accuracy=%.2f seconds=%.1f'):format(options.model,
  train:size(), test:size(), epochs, module4_results, loss, accuracy, seconds))
local target = chosen 'target'
if not small and accuracy < target then
  refuse('the accuracy is %.2f, below the target of %g', accuracy, target)
end
