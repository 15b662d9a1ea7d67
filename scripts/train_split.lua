-- train_split.lua -- MiniTorch's training job: a small network on points of the unit square
--
--   mtorch scripts/train_split.lua --hidden 100 --dataset split --rate 0.05
--   mtorch scripts/train_split.lua --BACKEND cpu --HIDDEN 100 --DATASET split --RATE 0.05 --PLOT
--   mtorch scripts/train_split.lua --dataset all --seeds 5       a table of the sets simple, split and xor
--   mtorch scripts/train_split.lua --dataset every --seeds 5     all six sets; --dataset diag --seeds 5: one set
--   mtorch scripts/train_split.lua --compile                     an epoch is recorded by mt.compile and replayed
--   mtorch scripts/train_split.lua --device cuda                 one CUDA graph per epoch, unless --eager
--   mtorch scripts/train_split.lua --report run.html --live      a page with all results that updates itself
local mt = require 'mtorch'
local refuse = require 'refuse'
local core = require 'mtorch.core'
local nn, optim, data = mt.nn, mt.optim, mt.data

local options = mt.args{
  {'backend', {'cpu', 'gpu'}, "MiniTorch's name for --device"},
  {'pts', 50, 'points of the data set', type = 'int', min = 1},
  {'hidden', 100, 'units of the hidden layers', type = 'int', min = 1},
  {'rate', 0.05, 'learning rate', min = 0},
  {'epochs', 500, 'passes over the points', type = 'int', min = 1},
  {'batch', 10, 'points in a step', type = 'int', min = 1},
  {'seeds', 1, 'number of runs, with consecutive seeds, shown in a table', type = 'int', min = 1},
  {'dataset', {'split', 'simple', 'diag', 'xor', 'circle', 'spiral', 'all', 'every'},
    'all: a table of simple, split and xor; every: of all six'},
  {'compile', false, 'record an epoch with mt.compile and replay it'},
  {'eager', false, 'on a GPU: do not use a CUDA graph'},
  {'plot', false, 'write the loss curve and the decision surface (.svg)'},
  {'json', help = 'file for the results (.json)', type = 'output'},
  {'report', help = 'HTML page with all results', type = 'output'},
  {'live', false, 'write the page each second, and let a browser that shows it load it again'},
}
local device = options.backend == 'gpu' and 'cuda' or options.device
if core.device_unavailable_reason(device) ~= '' then refuse('%s', core.device_unavailable_reason(device)) end
--- The sets of the table, or nil for one run.
local sets = {all = {'simple', 'split', 'xor'}, every = {'simple', 'diag', 'split', 'xor', 'circle', 'spiral'}}
local table_sets = sets[options.dataset] or options.seeds > 1 and {options.dataset} or nil
if table_sets and (options.plot or options.json or options.report or options.live) then
  refuse('--plot, --json, --report and --live show one run; choose one --dataset and --seeds 1')
end

-- ---- the network ---------------------------------------------------------------------------------

--- Creates a layer with weights uniform in (-0.5, 0.5) and biases 0.1, as in MiniTorch.
local function layer(inputs, outputs)
  local linear = nn.Linear(inputs, outputs)
  mt.no_grad(function()
    linear.weight:copy_(mt.rand(outputs, inputs) - 0.5)
    linear.bias:fill_(0.1)
  end)
  return linear
end

local Net = nn.class('Net')
function Net:__init(hidden)
  self.layer1, self.layer2, self.layer3 = layer(2, hidden), layer(hidden, hidden), layer(hidden, 1)
end
function Net:forward(x)
  local h = self.layer1(x):relu()
  h = self.layer2(h):relu()
  return (self.layer3(h):sigmoid())
end

--- The probability that the network gives to each point's own class.
local function probability(net, x, y)
  local out = net(x):view(-1)
  return out * y + (out - 1) * (y - 1)
end

--- -log p of each point; MiniTorch's log is log(x + 1e-6).
local function losses(net, x, y) return -(probability(net, x, y) + 1e-6):log() end

local function count_correct(net, set)
  return mt.no_grad(function() return probability(net, set.x, set.y):gt(0.5):sum():item() end)
end

-- ---- training ------------------------------------------------------------------------------------

local function median(list) return mt.tensor(list, {dtype = 'float64'}):quantile(0.5):item() end

local function shuffled(set)
  local order = mt.randperm(set:size()):to(device)
  return set.x:index_select(1, order), set.y:index_select(1, order)
end

--- One pass over the points; returns the last batch's loss, as MiniTorch logs it.
local function run_batches(net, opt, x, y)
  local n, batch = y:size(1), options.batch
  local loss
  for first = 1, n, batch do
    local size = math.min(batch, n - first + 1)
    opt:zero_grad()
    loss = losses(net, x:narrow(1, first, size), y:narrow(1, first, size))
    ;(loss / size):sum():backward()
    opt:step()
  end
  return loss
end

--- Returns a function that trains for one epoch. On a GPU the third epoch is recorded and then replayed: some hundred
--- kernels in one launch.
local function epoch_of(net, opt, set)
  local epoch = 0
  local graph, x, y
  if options.compile then
    local compiled = mt.compile(function(new_x, new_y) return run_batches(net, opt, new_x, new_y) end)
    return function() return compiled(shuffled(set)) end
  end
  return function()
    epoch = epoch + 1
    local new_x, new_y = shuffled(set)
    if device == 'cpu' or options.eager or epoch < 3 then return run_batches(net, opt, new_x, new_y) end
    if not graph then
      x, y = new_x, new_y -- the memory that the graph reads
      graph = mt.cuda.graph(function() return run_batches(net, opt, x, y) end, 0, device)
    else
      x:copy_(new_x)
      y:copy_(new_y)
    end
    return graph()
  end
end

--- Returns the decision surface as arguments of mt.plot.contour.
local function surface(run)
  local x, y = run.set.x, run.set.y
  return {
    function(a, b)
      return mt.no_grad(function() return run.net(mt.tensor{{a, b}}:to(device)):item() end)
    end,
    points = {x = x[{{}, 1}]:tolist(), y = x[{{}, 2}]:tolist(), class = y:tolist()},
    title = ('%s: decision surface'):format(run.dataset), xlabel = 'x1', ylabel = 'x2',
  }
end

--- Returns the report of one run; mt.Report does nothing without --report and --live.
local function report_of(dataset)
  local config = {dataset = dataset, device = device}
  for _, key in ipairs {'pts', 'hidden', 'rate', 'epochs', 'batch', 'seed', 'threads'} do config[key] = options[key] end
  return (mt.Report{path = options.report, live = options.live, title = 'mtorch: ' .. dataset, config = config,
    xlabel = 'epoch'})
end

--- Trains one network and returns its curves and times.
local function train(dataset, seed, quiet)
  local started = core.time()
  mt.manual_seed(seed)
  local set = data[dataset](options.pts)
  local net = Net(options.hidden):to(device)
  set.x, set.y = set.x:to(device), set.y:to(device)
  local opt = optim.SGD(net:parameters(), {lr = options.rate})
  local run = {dataset = dataset, seed = seed, set = set, net = net, times = {}, epochs = {}, losses = {}, correct = {}}
  local bar, report = mt.progress(options.epochs, {label = dataset}), report_of(dataset)
  if report.on then report:plot('contour', surface(run)) end
  local run_epoch = epoch_of(net, opt, set)
  for epoch = 1, options.epochs do
    local before = core.time()
    local loss = run_epoch()
    if device ~= 'cpu' then mt.cuda.synchronize(device) end
    run.times[epoch] = core.time() - before
    report:timing('epoch', run.times[epoch])
    local index = epoch - 1 -- MiniTorch's epochs are 0..499
    if index % 10 == 0 or epoch == options.epochs then
      run.loss = loss:detach():sum():item()
      local correct = count_correct(net, set)
      run.epochs[#run.epochs + 1] = index
      run.losses[#run.losses + 1], run.correct[#run.correct + 1] = run.loss, correct
      report:scalars({['loss of the last batch'] = run.loss, ['points classified correctly'] = correct}, index)
      if not quiet and index % 10 == 0 then
        bar:print(('Epoch  %d  loss  %.4f correct %d  time/epoch %.5fs'):format(index, run.loss, correct,
          run.times[epoch]))
      end
    end
    bar:update(epoch)
  end
  bar:finish()
  report:network(net)
  report:finish()
  run.total = core.time() - started
  local warm_times = {}
  for i = 2, #run.times do warm_times[#warm_times + 1] = run.times[i] end
  run.ms_per_epoch = median(#warm_times > 0 and warm_times or run.times) * 1e3
  return run
end

local function final_line(run)
  local n = run.set:size()
  return ('final: dataset=%s hidden=%d rate=%g epochs=%d seed=%d device=%s threads=%d correct=%d/%d loss=%.4f ' ..
    'ms_per_epoch=%.4f first_epoch_ms=%.1f total_s=%.2f'):format(run.dataset, options.hidden, options.rate,
    options.epochs, run.seed, device, mt.get_num_threads(), run.correct[#run.correct], n, run.loss,
    run.ms_per_epoch, run.times[1] * 1e3, run.total)
end

-- ---- files: plots and JSON -----------------------------------------------------------------------

local function write_plots(run)
  local contour = surface(run)
  contour.path = run.dataset .. '_surface.svg'
  print('plots: ' .. table.concat({
    mt.plot.line{run.epochs, run.losses, title = 'Loss of the last batch', xlabel = 'epoch', ylabel = 'loss',
      path = run.dataset .. '_loss.svg'},
    mt.plot.line{run.epochs, run.correct, title = 'Points classified correctly', xlabel = 'epoch', ylabel = 'points',
      path = run.dataset .. '_correct.svg'},
    mt.plot.contour(contour),
  }, ' '))
end

local function write_json(run, path)
  data.save_json(path, {dataset = run.dataset, hidden = options.hidden, rate = options.rate, seed = run.seed,
    points = run.set:size(), ms_per_epoch = run.ms_per_epoch, total_s = run.total, epochs = run.epochs,
    loss = run.losses, correct = run.correct, epoch_s = run.times})
end

-- ---- one run, or the table -----------------------------------------------------------------------

if table_sets then
  if options.dataset == 'all' then print('simple, split and xor; --dataset every: all six sets\n') end
  print(('| dataset | correct, median of %d seeds | worst | loss | ms/epoch | total s |'):format(options.seeds))
  print('|---|---|---|---|---|---|')
  for _, name in ipairs(table_sets) do
    local correct, loss, ms, total, points = {}, {}, {}, {}, 0
    for seed = options.seed, options.seed + options.seeds - 1 do
      local run = train(name, seed, true)
      points = run.set:size()
      correct[#correct + 1], loss[#loss + 1] = run.correct[#run.correct], run.loss
      ms[#ms + 1], total[#total + 1] = run.ms_per_epoch, run.total
    end
    print(('| %s | %g/%d | %d/%d | %.4f | %.3f | %.2f |'):format(name, median(correct), points,
      math.min(unpack(correct)), points, median(loss), median(ms), median(total)))
  end
else
  local run = train(options.dataset, options.seed)
  if options.plot then write_plots(run) end
  if options.json then write_json(run, options.json) end
  print(final_line(run))
end
