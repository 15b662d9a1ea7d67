-- test_checkpoint.lua -- mt.checkpoint: a resumed run ends with the same bytes; loading is all or nothing
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises
local nn, optim, data, checkpoint = mt.nn, mt.optim, mt.data, mt.checkpoint

local path = os.tmpname()

--- A run with all kinds of state: 3 epochs of 7 batches; stops after `stop` steps, or resumes from the file.
local function run(workers, stop, resumes)
  mt.manual_seed(resumes and 99 or 5)
  math.randomseed(resumes and 99 or 5)
  local x = mt.rand({40, 4}, {generator = mt.Generator('philox', 1)})
  local net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Tanh(), nn.Linear(8, 1))
  local opt = optim.Adam(net:parameters(), {lr = 0.05})
  local objects = {
    model = net, optim = opt, sched = optim.lr.StepLR(opt, {step_size = 4, gamma = 0.5}),
    loader = data.DataLoader(data.TensorDataset(x, x:sum(2, true)), {batch_size = 6, shuffle = true,
      workers = workers}),
    scaler = mt.GradScaler{init_scale = 8}, noise = mt.Generator('mt19937', resumes and 8 or 3),
    average = {optim.swa.AveragedModel(net, {ema = 0.9})},
  }
  local step, log = 0, {}
  if resumes then
    local plain = checkpoint.resume(path, objects)
    step, log = plain.step, plain.log
  end
  while objects.loader.epoch <= 3 do
    for input, target in objects.loader:iter() do
      step = step + 1
      opt:zero_grad()
      local loss = mt.mse_loss(net(input + mt.randn(input.shape, {generator = objects.noise}) * 0.01), target)
      loss:backward()
      opt:step()
      objects.sched:step()
      objects.average[1]:update_parameters(net)
      log[#log + 1] = loss:item() + math.random()
      if step == stop then
        objects.step, objects.log, objects.extra = step, log, {best = mt.ones(2), name = 'x'}
        checkpoint.save(path, objects)
        return
      end
    end
  end
  local final = {log = log, random = mt.get_rng_state(), lr = opt.param_groups[1].lr}
  for name, p in pairs(net:state_dict()) do final[name] = p:tolist() end
  for name, p in pairs(objects.average[1]:state_dict()) do final['a' .. name] = mt.is_tensor(p) and p:tolist() or p end
  return final
end

for _, workers in ipairs{0, 3} do
  test(('resumed with %d workers, in the middle of an epoch and at its end'):format(workers), function()
    local whole = run(workers)
    eq(#whole.log, 21)
    for _, stop in ipairs{1, 7, 10, 21} do
      run(workers, stop)
      eq(run(workers, nil, true), whole)
    end
  end)
end

test('the content of the file', function()
  local net = nn.Linear(2, 1)
  checkpoint.save(path, {model = net, step = 3, nets = {a = net, b = {net}}})
  local file = mt.load(path)
  eq({file.step, file.model.weight:tolist()}, {3, net.weight:tolist()})
  assert(data.safetensors(path)['model.weight'])
  local plain = checkpoint.resume(path, {model = net, step = 0})
  eq(plain, {step = 3, nets = {b = {}}})
end)

test('nil without a file, an error for other files', function()
  local net = nn.Linear(2, 1)
  eq(checkpoint.resume(path .. '.none', {model = net}), nil)
  mt.save(path, {model = net:state_dict()})
  raises(function() checkpoint.resume(path, {model = net}) end, 'checkpoint.resume: .* is not a checkpoint')
  for content, cure in pairs{['PK\3\4 of torch.save'] = "; mt.load%(path%) reads PyTorch's files",
    ['a,b\n1,2\n3,4\n'] = ''} do
    local file = assert(io.open(path, 'wb'))
    file:write(content)
    file:close()
    raises(function() checkpoint.resume(path, {model = net}) end, ' is not a checkpoint of mtorch' .. cure .. '$')
  end
  raises(function() checkpoint.resume('/tmp', {model = net}) end, "checkpoint.resume: '/tmp' is not a regular file")
  raises(function() checkpoint.save(path, {checkpoint = 1}) end, "the key 'checkpoint' is the file's own")
  raises(function() checkpoint.save(path, net) end, 'checkpoint.save: a table of objects by name is needed')
  raises(function() checkpoint.resume(path, net) end, 'checkpoint.resume: a table of objects by name is needed')
  raises(function() checkpoint.save(path, {f = print}) end, "checkpoint.save: 'f' is a function")
  local loop = {}
  loop.x = {loop}
  raises(function() checkpoint.save(path, loop) end, 'contains itself')
end)

test('a file that does not fit changes nothing', function()
  local function make(width)
    mt.manual_seed(1)
    local net = nn.Sequential(nn.Linear(2, width), nn.Linear(width, 1))
    local opt = optim.SGD(net:parameters(), {lr = 0.1, momentum = 0.9})
    for _ = 1, 2 do
      opt:zero_grad()
      net(mt.ones(1, 2)):sum():backward()
      opt:step()
    end
    return {model = net, optim = opt, other = optim.Adam({mt.ones(width):requires_grad_()}, {lr = 0.5})}
  end
  local function state(objects)
    local copy = {mt.get_rng_state()}
    for name, p in pairs(objects.model:state_dict()) do copy[name] = p:tolist() end
    for i, entry in ipairs(objects.optim:state_dict()[1].state) do copy[i + 1] = entry.momentum_buffer:tolist() end
    copy.lr = objects.optim.param_groups[1].lr
    return copy
  end
  local saved = make(3)
  saved.optim.param_groups[1].lr = 0.7
  local function refused(mine, what)
    local before = state(mine)
    raises(function() checkpoint.resume(path, mine) end, what)
    eq(state(mine), before)
  end
  checkpoint.save(path, saved)
  refused(make(4), "'model' does not fit: .*expected")
  local mine = make(3)
  mine.other = optim.SGD({mt.ones(3):requires_grad_()}, {lr = 1}) -- is sorted after optim, which is loaded first
  refused(mine, "nothing is changed, 'other' does not fit: .*the state is of Adam, this is SGD")
  mine.other = {state_dict = function() return {} end, load_state_dict = function() error 'no way' end}
  refused(mine, "'other' does not fit: .*no way")
  mine.other = nil
  mine.sched = optim.lr.StepLR(mine.optim, {step_size = 1})
  refused(mine, "the file has no state of 'sched'")
  mine.sched = nil
  mt.save(path, {model = saved.model:state_dict(), checkpoint = {version = 1, objects = {{'model'}}, random = {}}})
  refused({model = mine.model, optim = mine.optim}, "no state of 'optim'")
  local before = mine.model:state_dict()['0.weight']:tolist()
  raises(function() checkpoint.resume(path, {model = mine.model}) end, 'the random state')
  eq(mine.model:state_dict()['0.weight']:tolist(), before)
  mt.save(path, {checkpoint = {version = 1, objects = {3}, random = {}}})
  raises(function() checkpoint.resume(path, {}) end, 'is damaged')
end)

os.remove(path)
t.finish()
