-- soak.lua -- trains for minutes with loaders, reports, checkpoints and compiled steps, and checks for memory leaks
--
--   mtorch tests/lua/soak.lua [MINUTES] [PARTS]      10 minutes of all parts by default
--
-- PARTS are some of "workers report checkpoints compiled eager recompute", in quotes. Status 1 if resident memory
-- grows by more than 2 MiB after a tenth of the time, at least 5 seconds.
local mt = require 'mtorch'
local nn, optim, data = mt.nn, mt.optim, mt.data
local time = require('mtorch.core').time
local minutes, only = tonumber(arg[1]) or 10, arg[2]
local function has(part) return not only or (' ' .. only .. ' '):find(' ' .. part .. ' ', 1, true) ~= nil end

local function resident()
  for line in io.lines '/proc/self/status' do
    local kilobytes = line:match '^VmRSS:%s+(%d+)'
    if kilobytes then return tonumber(kilobytes) / 1024 end
  end
end

mt.manual_seed(1)
local folder = os.tmpname()
os.remove(folder)
os.execute('mkdir -p ' .. folder)
local x, y = mt.randn(256, 16), mt.randint(1, 4, {256})
local transform = data.transforms.Lambda(function(row) return row * 2 - 1 end)
local set = {size = function() return 256 end, get = function(_, i) return transform(x[i]), y[i] end}
local loader = data.DataLoader(set, {batch_size = 32, shuffle = true, workers = has 'workers' and 2 or 0})
local net = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 4))
local opt = optim.AdamW(net:parameters(), {lr = 1e-3})
local sched = optim.lr.StepLR(opt, {step_size = 50, gamma = 0.99})
local report = mt.Report{path = has 'report' and folder .. '/run.html' or nil, live = has 'report', title = 'soak'}

local function step(input, target)
  opt:zero_grad()
  local loss = mt.cross_entropy(net(input), target)
  loss:backward()
  opt:step()
  return loss
end
local compiled = mt.compile(step)
local evaluate = mt.compile(function(input) return mt.no_grad(function() return net(input):softmax(2) end) end)
local double = mt.map(function(v) return v * 2 + 1 end)

local began, epoch, resident_before = time(), 0, nil
local settling_time = math.max(5, minutes * 6)
local next_line = 0
while time() - began < minutes * 60 do
  epoch = epoch + 1
  local sum = 0
  for input, target in loader:iter() do
    if has 'eager' then sum = sum + step(input, target):item() end
    if has 'compiled' then
      sum = sum + compiled(input, target):item()
      double(evaluate(input))
    end
    if has 'recompute' then
      local h
      h = mt.recompute(function(v) return h and v:tanh() or v:tanh() end, net(input))
      h:sum():backward()
    end
    report:scalars{['loss/step'] = sum, rate = opt.param_groups[1].lr}
  end
  sched:step()
  report:row{epoch = epoch % 100, loss = sum}
  if has 'checkpoints' and epoch % 5 == 0 then
    local path = folder .. '/state.pt'
    mt.checkpoint.save(path, {model = net, optim = opt, sched = sched, loader = loader, step = epoch})
    local state = mt.checkpoint.resume(path, {model = net, optim = opt, sched = sched, loader = loader})
    assert(state.step == epoch)
  end
  if time() - began > next_line then
    collectgarbage()
    collectgarbage()
    local now = resident()
    if not resident_before and time() - began > settling_time then resident_before = now end
    print(('%5.0f s  epoch %6d  resident %.2f MiB  Lua %.2f MiB'):format(time() - began, epoch, now,
      collectgarbage 'count' / 1024))
    io.flush()
    next_line = time() - began + minutes * 3
  end
end
report:finish()
os.execute('rm -r ' .. folder)
local growth = resident() - resident_before
print(('grown by %.2f MiB in %.1f minutes, %d epochs'):format(growth, minutes, epoch))
if growth > 2 then os.exit(1) end
