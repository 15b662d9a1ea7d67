-- regression.lua -- the smallest training script: a line through points, found by gradient descent
--
--   mtorch scripts/regression.lua
--   mtorch scripts/regression.lua --rate 0.1 --epochs 50 --plot line.svg
--   mtorch scripts/regression.lua --dry-run                     everything once, in small
local mt = require 'mtorch'
local nn, optim = mt.nn, mt.optim

local options = mt.args{
  {'epochs', 200, 'steps with all points', type = 'int', min = 1},
  {'rate', 0.1, 'learning rate', min = 0},
  {'noise', 0.1, 'standard deviation of the points about the line', min = 0},
  {'target', 0.06, 'how far off the line may be', min = 0},
  {'plot', help = 'picture of points and line (.svg, .png)', endings = {'svg', 'png'}},
  {'dry_run', false, 'everything once, in small'},
}
local epochs = options.dry_run and 5 or options.epochs

-- Points of the line y = 3 x - 0.5, each moved a little: what the network does not know.
local slope, height = 3, -0.5
local x = mt.rand(100, 1, {device = options.device}) * 2 - 1
local y = x * slope + height + mt.randn_like(x) * options.noise

-- One input, one output: weight and bias are the two numbers that are looked for.
local net = nn.Linear(1, 1):to(options.device)
local opt = optim.SGD(net:parameters(), {lr = options.rate})
local criterion = nn.MSELoss()

local losses = {}
for epoch = 1, epochs do
  opt:zero_grad()                     -- gradients add up otherwise
  local loss = criterion(net(x), y)   -- how far the line is from the points
  loss:backward()                     -- how the loss changes with weight and bias
  opt:step()                          -- a step downhill
  losses[epoch] = loss:item()
  if epoch % 20 == 0 then print(('epoch %3d  loss %.5f'):format(epoch, losses[epoch])) end
end

local found, constant = net.weight:item(), net.bias:item()
if options.plot then
  local line = {x = {-1, 1}, y = {constant - found, constant + found}, kind = 'line',
    label = ('y = %.3f x %s %.3f'):format(found, constant < 0 and '-' or '+', math.abs(constant))}
  mt.plot.scatter{{x = x:flatten(), y = y:flatten(), label = 'points'}, line, xlabel = 'x', ylabel = 'y',
    title = ('The line after %d steps'):format(epochs), path = options.plot}
  print('plot: ' .. options.plot)
end

-- How far the numbers are from the true ones: below the target, or the script fails.
local off = math.max(math.abs(found - slope), math.abs(constant - height))
print(('final: loss=%.5f weight=%.4f bias=%.4f off=%.4f target=%g epochs=%d'):format(losses[epochs], found, constant,
  off, options.target, epochs))
if not options.dry_run and not (off <= options.target) then
  io.stderr:write(('regression: the line is off by %.4f, more than %g\n'):format(off, options.target))
  os.exit(1)
end
