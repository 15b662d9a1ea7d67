-- train_mnist.lua -- learns to read handwritten digits: MiniTorch's network, a LeNet and a better one
--
--   mtorch scripts/train_mnist.lua --data ../shared/data/mnist                  the best network, MNIST in that folder
--   mtorch scripts/train_mnist.lua --data DIR --model module4                   MiniTorch's Module 4, 5000 digits
--   mtorch scripts/train_mnist.lua --data DIR --model lenet --epochs 10
--   mtorch scripts/train_mnist.lua --download                                   fetches MNIST first
--   mtorch scripts/train_mnist.lua                                              drawn digits, where there are none
--   mtorch scripts/train_mnist.lua --data DIR --checkpoint run.mt               goes on after it was stopped
--   mtorch scripts/train_mnist.lua --data DIR --report run.html --live          a browser follows
--   mtorch scripts/train_mnist.lua --dry-run                                    everything once, in small
--
-- An image is a tensor [1 x 28 x 28] from 0 (paper) to 1 (ink), its label a position from 1 to 10: the digit + 1.
-- A network gives ten scores for each image, logits; cross entropy compares their softmax with the label.
local mt = require 'mtorch'
local nn, optim, data, metrics = mt.nn, mt.optim, mt.data, mt.metrics
local T = data.transforms

local options = mt.args{
  {'data', help = "folder of MNIST's files; if not given drawn digits", metavar = 'DIR'},
  {'download', false, 'fetch MNIST first'},
  {'model', {'best', 'lenet', 'module4'}, "the network; module4 is MiniTorch's"},
  {'epochs', help = 'passes over the digits; if not given what suits the model, 12, 10 or 16', type = 'int', min = 0},
  {'batch', help = 'digits in a step; if not given 64, 64 or 16', type = 'int', min = 1},
  {'rate', help = 'learning rate; if not given 0.01, 0.001 or 0.01', min = 0},
  {'train', help = 'train with so many digits; if not given all, of module4 5000', type = 'int', min = 1},
  {'workers', 1, 'threads that make batches ahead; the result is the same', type = 'int', min = 0},
  {'checkpoint', help = 'file that is written after each epoch, and resumed from', type = 'output'},
  {'log', help = 'folder for TensorBoard', metavar = 'DIR'},
  {'report', help = 'page with everything', type = 'output'},
  {'live', false, 'a browser follows the run'},
  {'target', help = 'accuracy in percent that must be reached; if not given 98.8, 97 or 95', min = 0, max = 100},
  {'record', help = 'file for scripts/bench/peers/mnist_torch.py: the first 100 steps', type = 'output'},
  {'dry_run', false, 'everything once, in small'},
}
local device, small = options.device, options.dry_run

--- What cannot be meant ends the script with one sentence.
local function refuse(...)
  io.stderr:write('train_mnist: ', string.format(...), '\n')
  os.exit(1)
end

-- ---- three networks --------------------------------------------------------------------------------

local models = {}

--- MiniTorch's Module 4: its convolutions look at the pixel itself and those right of and below it, so that the border
--- lies on two sides only. All numbers begin uniform in (-0.05, 0.05).
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

--- LeNet-5 (LeCun et al. 1998) with the rectifiers and maxima of today.
function models.lenet()
  return nn.Sequential(
    nn.Conv2d(1, 6, 5, {padding = 2}), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(400, 120), nn.ReLU(),
    nn.Linear(120, 84), nn.ReLU(),
    nn.Linear(84, 10))
end

--- Three convolutions, each normalised and halved: 28, 14, 7, 3 pixels wide.
function models.best()
  local function block(inputs, outputs, kernel)
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, {padding = (kernel - 1) / 2, bias = false}),
      nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2))
  end
  return nn.Sequential(
    block(1, 24, 5), block(24, 48, 3), block(48, 96, 3), nn.Flatten(),
    nn.Dropout(0.3), nn.Linear(96 * 9, 10))
end

-- What suits each: epochs, batch size, learning rate, and the accuracy that it must reach.
local settings = {
  module4 = {epochs = 16, batch = 16, rate = 0.01, train = 5000, target = 95},
  lenet = {epochs = 10, batch = 64, rate = 0.001, target = 97},
  best = {epochs = 12, batch = 64, rate = 0.01, target = 98.8},
}
local given = settings[options.model]
local function chosen(name) return options[name] or given[name] end
local epochs = small and (options.epochs or 1) or chosen 'epochs'
local batch, rate = chosen 'batch', chosen 'rate'

-- ---- data ------------------------------------------------------------------------------------------

--- Two sets, for training and for the test.
local function digits()
  if small then return data.digits(160, 1), data.digits(64, 2) end
  if not options.data and not options.download then return data.digits(8000, 1), data.digits(2000, 2) end
  return data.mnist{root = options.data, download = options.download}
end
local train, test = digits()
-- Module 4 takes the pixels as they are in the files, from 0 to 255: its small first weights need them.
if options.model == 'module4' then
  train, test = data.TensorDataset(train.x * 255, train.y), data.TensorDataset(test.x * 255, test.y)
end

-- Training images are turned, shifted, scaled and slanted by random amounts, so that none is seen twice; in a loader
-- the amounts follow from seed, epoch and position.
local augments = options.model == 'best' and not options.record
if augments then
  train.transform = T.RandomAffine(10, {translate = {0.1, 0.1}, scale = {0.9, 1.1}, shear = 8,
    interpolation = 'bilinear'})
end

local function first(set, n) return n < set:size() and data.Subset(set, mt.range(1, n)) or set end
local wanted = chosen 'train'
if wanted then train = first(train, wanted) end
if train:size() < batch then refuse('%d digits are no batch of %d', train:size(), batch) end

local loader = data.DataLoader(train,
  {batch_size = batch, shuffle = true, drop_last = true, seed = options.seed,
    workers = augments and options.workers or 0})

-- ---- training --------------------------------------------------------------------------------------

local net = models[options.model]():to(device)
if options.record then net:double() end -- rounding grows from step to step, with Adam soon beyond 1e-4
local loss_of = nn.CrossEntropyLoss()
local opt, sched, average
local total_steps = epochs * loader:size()
if options.model == 'best' then
  opt = optim.AdamW(net:parameters(), {lr = rate, weight_decay = 0.01})
  -- The rate grows for some epochs and then shrinks to nothing.
  sched = optim.lr.OneCycleLR(opt, {max_lr = rate, total_steps = total_steps, pct_start = 0.2})
  -- What is tested is a running mean of the parameters: it does not tremble with the last batches.
  -- It keeps 0.995 of itself in each step, less where there are few: of n steps with 1 - 7 / n, what it started from
  -- counts about exp(-7), a thousandth, at the end.
  average = optim.swa.AveragedModel(net, {ema = math.max(0, math.min(0.995, 1 - 7 / total_steps)), use_buffers = true})
elseif options.model == 'lenet' then
  opt = optim.Adam(net:parameters(), {lr = rate})
else
  opt = optim.SGD(net:parameters(), {lr = rate})
end

-- What PyTorch needs to compute the same steps: the first parameters and buffers, the batches, the losses. Dropout is
-- left out, as it draws other numbers there.
local recorded
if options.record then
  recorded = {start = net:clone():state_dict(), total_steps = total_steps, rate = rate, x = {}, y = {},
    loss = {}}
  for _, module in net:named_modules() do
    if tostring(module):find '^Dropout' then module.p = 0 end
  end
end

--- Accuracy in percent and mean loss of a network on a set.
local function evaluate(network, set)
  local accuracy, mean = metrics.Accuracy(), metrics.Mean()
  network:eval()
  mt.no_grad(function()
    for x, y in data.DataLoader(set, {batch_size = 250}):iter() do
      x, y = x:to(device), y:to(device)
      local scores = network(recorded and x:double() or x)
      accuracy:update(scores, y)
      mean:update(loss_of(scores, y), #y)
    end
  end)
  network:train()
  return accuracy:compute() * 100, mean:compute()
end

-- Module 4 looks at one batch of 16 of its 500 validation digits, every five batches.
local valid = options.model == 'module4' and data.DataLoader(first(test, 500), {batch_size = 16})
local function count_right()
  local x, y = valid:iter()()
  if recorded then x = x:double() end
  net:eval()
  local scores = mt.no_grad(net, x:to(device))
  net:train()
  return scores:argmax(2):eq(y:to(device)):sum():item(), #y
end

local report = mt.Report(options, {title = 'Handwritten digits: ' .. options.model, xlabel = 'epoch'})
report:network(net)

--- What the page and TensorBoard show of an epoch.
local writer = options.log and mt.SummaryWriter(options.log)
local curves = {} -- what each epoch came to, for a page that is resumed
local function show(epoch, loss, test_loss, accuracy)
  report:scalars({['loss/train'] = loss, ['loss/test'] = test_loss, ['accuracy/test'] = accuracy}, epoch)
  if not writer then return end
  writer:add_scalar('loss/train', loss, epoch)
  writer:add_scalar('loss/test', test_loss, epoch)
  writer:add_scalar('accuracy/test', accuracy, epoch)
end
local begin, step, most_right, full_epoch = 1, 0, 0, nil
local state = {model = net, optim = opt, sched = sched, average = average, loader = loader}
local checkpoint = options.checkpoint
if small and checkpoint then -- a dry run leaves no file
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
    begin, step, curves = resumed.epoch + 1, resumed.step, resumed.curves
    most_right, full_epoch = resumed.most_right, resumed.full_epoch
    for epoch, came in ipairs(curves) do report:scalars(came, epoch) end
    print(('goes on after epoch %d of %s'):format(resumed.epoch, checkpoint))
  end
end

--- Keeps a step.
local function record(x, y, loss)
  if #recorded.loss < 100 then
    table.insert(recorded.x, x)
    table.insert(recorded.y, y - 1)
    table.insert(recorded.loss, loss)
  end
end

--- One pass over the training digits; the mean loss.
local function run_epoch(epoch)
  local mean = metrics.Mean()
  local bar = mt.progress(loader:size(), {label = 'epoch ' .. epoch})
  for x, y in loader:iter() do
    x, y = x:to(device), y:to(device)
    if recorded then x = x:double() end
    local loss = loss_of(net(x), y)
    opt:zero_grad()
    loss:backward()
    opt:step()
    if sched then sched:step() end
    if average then average:update_parameters(net) end
    step = step + 1
    local value = loss:item()
    mean:update(value, #y)
    if recorded then record(x, y, value) end
    bar:update(nil, {loss = value})
    if valid and step % 5 == 0 then
      local right, of = count_right()
      most_right = math.max(most_right, right)
      if right == of then full_epoch = full_epoch or epoch end
      bar:print(('Epoch %d loss %.4f valid acc %d/%d'):format(epoch, value, right, of))
    end
  end
  bar:finish()
  return mean:compute()
end

--- Trains for an epoch and says, shows and keeps what came of it.
local function train_epoch(epoch)
  local loss = run_epoch(epoch)
  local accuracy, test_loss = evaluate(average or net, test)
  print(('epoch %2d  loss %.4f  test loss %.4f  accuracy %.2f'):format(epoch, loss, test_loss, accuracy))
  show(epoch, loss, test_loss, accuracy)
  curves[epoch] = {['loss/train'] = loss, ['loss/test'] = test_loss, ['accuracy/test'] = accuracy}
  if checkpoint then
    state.epoch, state.step, state.curves = epoch, step, curves
    state.most_right, state.full_epoch = most_right, full_epoch
    mt.checkpoint.save(checkpoint, state)
  end
end
local seconds = mt.time(function()
  for epoch = begin, epochs do train_epoch(epoch) end
end, {quiet = true}).wall
if small and checkpoint then os.remove(checkpoint) end
if writer then writer:close() end

if recorded then
  recorded.x, recorded.y = mt.stack(recorded.x), mt.stack(recorded.y)
  recorded.loss = mt.tensor(recorded.loss, {dtype = 'float64'})
  mt.save(options.record, recorded)
end

-- ---- what came out ---------------------------------------------------------------------------------

local accuracy, loss = evaluate(average or net, test)
if report.on then
  local confusion, wrong, asked = metrics.ConfusionMatrix(10), {}, {}
  ;(average or net):eval()
  for x, y in data.DataLoader(test, {batch_size = 250}):iter() do
    local answer = mt.no_grad(average or net, x:to(device)):argmax(2):cpu()
    confusion:update(answer, y)
    for _, i in ipairs(answer:ne(y):nonzero():view(-1):tolist()) do
      if #wrong == 24 then break end
      wrong[#wrong + 1], asked[#asked + 1] = x[i], ('%d>%d'):format(y[i]:item() - 1, answer[i]:item() - 1)
    end
  end
  local names = {}
  for digit = 0, 9 do names[digit + 1] = tostring(digit) end
  report:confusion(confusion:compute(), names)
  report:filters(net)
  if #wrong > 0 then report:image('test digits that it misreads, true > read', mt.stack(wrong), {labels = asked}) end
  print('report: ' .. report:finish())
end
local shown = valid and (' valid=%d/16 full_at_epoch=%s'):format(most_right, full_epoch or 'never') or ''
print(('final: model=%s train=%d test=%d epochs=%d%s loss=%.4f accuracy=%.2f seconds=%.1f'):format(options.model,
  train:size(), test:size(), epochs, shown, loss, accuracy, seconds))
local target = chosen 'target'
if not small and accuracy < target then
  io.stderr:write(('train_mnist: the accuracy is %.2f, the target %g\n'):format(accuracy, target))
  os.exit(1)
end
