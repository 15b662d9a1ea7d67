-- regression.lua -- the smallest training script: fits a line to points by gradient descent
--
--   mtorch scripts/regression.lua
--   mtorch scripts/regression.lua --rate 0.1 --epochs 50 --plot line.svg
--   mtorch scripts/regression.lua --dry-run                     a short run of every part
local mt = require 'mtorch'
local refuse = require 'refuse'
local nn, optim = mt.nn, mt.optim

local options = mt.args{
  {'epochs', 200, 'steps with all points', type = 'int', min = 1},
  {'rate', 0.1, 'learning rate', min = 0},
  {'noise', 0.1, 'standard deviation of the points about the line', min = 0},
  {'target', 0.06, 'largest allowed error of weight and bias', min = 0},
  {'plot', help = 'file for a plot of points and line (.svg, .png)', endings = {'svg', 'png'}},
  {'dry_run', false, 'a short run of every part'},
}
local epochs = options.dry_run and 5 or options.epochs

-- Points near the line y = 3 x - 0.5; the network has to find slope and intercept.
local slope, intercept = 3, -0.5
local x = mt.rand(100, 1, {device = options.device}) * 2 - 1
local y = x * slope + intercept + mt.randn_like(x) * options.noise

-- One input and one output: weight and bias estimate slope and intercept.
local net = nn.Linear(1, 1):to(options.device)
local opt = optim.SGD(net:parameters(), {lr = options.rate})
local criterion = nn.MSELoss()

local losses = {}
for epoch = 1, epochs do
  opt:zero_grad()                     -- otherwise backward() adds to the old gradients
  local loss = criterion(net(x), y)   -- mean squared distance in y
  loss:backward()                     -- gradients of weight and bias
  opt:step()                          -- gradient descent step
  losses[epoch] = loss:item()
  if epoch % 20 == 0 then print(('epoch %3d  loss %.5f'):format(epoch, losses[epoch])) end
end

local weight, bias = net.weight:item(), net.bias:item()
if options.plot then
  local line = {x = {-1, 1}, y = {bias - weight, bias + weight}, kind = 'line',
    label = ('y = %.3f x %s %.3f'):format(weight, bias < 0 and '-' or '+', math.abs(bias))}
  mt.plot.scatter{{x = x:flatten(), y = y:flatten(), label = 'points'}, line, xlabel = 'x', ylabel = 'y',
    title = ('The line after %d steps'):format(epochs), path = options.plot}
  print('plot: ' .. options.plot)
end

-- The script fails if weight or bias differs from the true value by more than the target.
local deviation = math.max(math.abs(weight - slope), math.abs(bias - intercept))
print(('final: loss=%.5f weight=%.4f bias=%.4f off=%.4f target=%g epochs=%d'):format(losses[epochs], weight, bias,
  deviation, options.target, epochs))
if not options.dry_run and not (deviation <= options.target) then
  refuse('the line is off by %.4f, more than %g', deviation, options.target)
end
