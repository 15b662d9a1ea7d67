-- resume.lua -- a training run for resume.sh, which saves checkpoints, and its final state as FILE.end
--
--   build/mtorch tests/program/resume.lua FILE [WORKERS [STEPS [EVERY]]]      resumes from FILE if it exists
local mt = require 'mtorch'
local nn, optim, data = mt.nn, mt.optim, mt.data
local path, workers, steps, every = arg[1], tonumber(arg[2] or 0), tonumber(arg[3] or 60), tonumber(arg[4] or 3)

mt.manual_seed(7)
local x = mt.rand(50, 6)
local net = nn.Sequential(nn.Linear(6, 64), nn.Dropout(0.2), nn.Tanh(), nn.Linear(64, 1))
local opt = optim.Adam(net:parameters(), {lr = 0.05})
local loader = data.DataLoader(data.TensorDataset(x, x:prod(2, true)), {batch_size = 8, shuffle = true,
  workers = workers})
local objects = {model = net, optim = opt, sched = optim.lr.StepLR(opt, {step_size = 9, gamma = 0.8}), loader = loader}

local state = mt.checkpoint.resume(path, objects) or {step = 0, sum = 0}
while state.step < steps do
  for input, target in loader:iter() do
    opt:zero_grad()
    local loss = mt.mse_loss(net(input), target)
    loss:backward()
    opt:step()
    objects.sched:step()
    state.step, state.sum = state.step + 1, state.sum + loss:item()
    if state.step % every == 0 then
      mt.checkpoint.save(path, {model = net, optim = opt, sched = objects.sched, loader = loader, step = state.step,
        sum = state.sum})
    end
    if state.step >= steps then break end
  end
end
mt.save(path .. '.end', {model = net:state_dict(), optim = opt:state_dict(), sum = state.sum,
  random = mt.get_rng_state()})
