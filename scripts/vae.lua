-- vae.lua -- a variational autoencoder: learns to draw digits, and what a few numbers say of each
--
--   mtorch scripts/vae.lua --data ../shared/data/mnist        the digits of MNIST in that folder
--   mtorch scripts/vae.lua                                    drawn digits, where there are none
--   mtorch scripts/vae.lua --plot vae.svg                     pictures of digits that it made up
--   mtorch scripts/vae.lua --report vae.html --live           curves and pictures; a browser follows
--   mtorch scripts/vae.lua --dry-run                          a short run of every part
--
-- An encoder gives for each image x a normal distribution q(z | x) over `latent` numbers; a decoder gives from such
-- numbers z the probability of ink in each pixel, p(x | z). Trained are both by the evidence lower bound (Kingma and
-- Welling 2014): log p(x) >= E[log p(x | z)] - KL(q(z | x) || N(0, 1)). The loss is its negative in nats an image.
-- Afterwards z drawn from N(0, 1) are decoded to digits that the network made up.
local mt = require 'mtorch'
local nn, optim, data, metrics, plot = mt.nn, mt.optim, mt.data, mt.metrics, mt.plot

local options = mt.args{
  {'data', help = "folder of MNIST's files; if not given drawn digits", metavar = 'DIR'},
  {'download', false, 'fetch MNIST first'},
  {'epochs', 30, 'passes over the images', type = 'int', min = 1},
  {'batch', 128, 'images in a step', type = 'int', min = 1},
  {'rate', 2e-3, 'largest learning rate', min = 0},
  {'hidden', 400, 'units of the hidden layers', type = 'int', min = 1},
  {'latent', 20, 'numbers that stand for an image', type = 'int', min = 1},
  {'target', help = 'loss on test images that must be reached, in nats', min = 0},
  {'plot', help = 'pictures of digits that it made up (.svg, .png)', endings = {'svg', 'png'}},
  {'report', help = 'page with everything', type = 'output'},
  {'live', false, 'a browser follows the run'},
  {'dry_run', false, 'a short run of every part'},
}
local small = options.dry_run

-- ---- data ----------------------------------------------------------------------------------------

--- Training and test images, rows of 784 numbers from 0 (paper) to 1 (ink), and what they are.
local function images()
  if small then return data.digits(256, 1).x, data.digits(64, 2).x, 'drawn' end
  if not options.data and not options.download then return data.digits(8000, 1).x, data.digits(2000, 2).x, 'drawn' end
  local train, test = data.mnist{root = options.data, download = options.download}
  return train.x, test.x, train.name
end
local train_x, test_x, source = images()
train_x, test_x = train_x:flatten(2):to(options.device), test_x:flatten(2):to(options.device)
-- About 2 nats above what the default flags reach (MNIST: with its 10,000 test digits alone).
local targets = {drawn = 97, mnist = 115}
local target = options.target or targets[source] or targets.mnist

-- ---- the network ---------------------------------------------------------------------------------

local VAE = nn.class 'VAE'

function VAE:__init(pixels, hidden, latent)
  self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU())
  self.mean = nn.Linear(hidden, latent)
  self.log_var = nn.Linear(hidden, latent) -- of the logarithm: any number is one
  self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))
end

--- Raw scores of the pixels, and q's mean and log variance. z = mean + deviation * noise lets gradients through to
--- both: the reparameterisation.
function VAE:forward(x)
  local h = self.encoder(x)
  local mean, log_var = self.mean(h), self.log_var(h)
  local z = mean + (log_var / 2):exp() * mt.randn_like(mean)
  return self.decoder(z), mean, log_var
end

--- -log p(x | z) and the divergence of q from N(0, 1), both in nats an image.
local function losses(scores, x, mean, log_var)
  local misses = mt.binary_cross_entropy_with_logits(scores, x, {reduction = 'sum'})
  local divergence = (mean:square() + log_var:exp() - log_var - 1):sum() / 2
  return misses / #x, divergence / #x
end

-- ---- training ------------------------------------------------------------------------------------

local epochs = small and 1 or options.epochs
local loader = data.DataLoader(data.TensorDataset(train_x), {batch_size = options.batch, shuffle = true})
local net = VAE(train_x.shape[2], small and 32 or options.hidden, options.latent):to(options.device)
local opt = optim.Adam(net:parameters(), {lr = options.rate})
local sched = optim.lr.OneCycleLR(opt, {max_lr = options.rate, epochs = epochs, steps_per_epoch = loader:size()})
print(('%d digits (%s) to train with, %d to test'):format(#train_x, source, #test_x))
print(net)

--- The loss on the test images, and how much of it is the divergence.
local function evaluate()
  local total, part = metrics.Mean(), metrics.Mean()
  mt.no_grad(function()
    for _, x in ipairs(test_x:split(500)) do
      local scores, mean, log_var = net(x)
      local misses, divergence = losses(scores, x, mean, log_var)
      total:update(misses + divergence, #x)
      part:update(divergence, #x)
    end
  end)
  return total:compute(), part:compute()
end

local report = mt.Report(options, {title = 'A variational autoencoder'})
report:network(net)
local final = {}
local bar = mt.progress(epochs, {label = 'vae'})
for epoch = 1, epochs do
  local train_loss = metrics.Mean()
  local seconds = mt.time(function()
    for x in loader:iter() do
      opt:zero_grad()
      local scores, mean, log_var = net(x)
      local misses, divergence = losses(scores, x, mean, log_var)
      local loss = misses + divergence
      loss:backward()
      opt:step()
      sched:step()
      train_loss:update(loss, #x)
    end
  end, {quiet = true}).wall
  local test_loss, divergence = evaluate()
  final = {train = train_loss:compute(), test = test_loss}
  bar:print(('epoch %2d  train %.2f  test %.2f nats an image, %.2f of them the divergence'):format(epoch, final.train,
    test_loss, divergence))
  bar:update(epoch, {test = test_loss})
  report:scalars({['loss/train'] = final.train, ['loss/test'] = test_loss, divergence = divergence}, epoch)
  report:timing('epoch', seconds)
end
bar:finish()

-- ---- what it learned -----------------------------------------------------------------------------

--- Rows of pixels as pictures.
local function pictures(rows) return (rows:cpu():reshape(-1, 28, 28)) end
local made_up, kept = mt.no_grad(function()
  local z = mt.randn({30, options.latent}, {device = options.device})
  return net.decoder(z):sigmoid(), (net(test_x[{{1, 18}}]):sigmoid())
end)
print('digits that the network made up:')
plot.images{pictures(made_up[{{1, 4}}]), cols = 4}
if options.plot then print('pictures: ' .. plot.images{pictures(made_up), cols = 6, path = options.plot}) end
report:image('digits that the network made up', pictures(made_up))
report:image(('test digits, and what %d numbers keep of them'):format(options.latent),
  pictures(mt.cat({test_x[{{1, 18}}], kept}, 1)))
if report:finish() then print('report: ' .. options.report) end

print(('final: test_loss=%.2f train_loss=%.2f target=%g epochs=%d digits=%s'):format(final.test, final.train, target,
  epochs, source))
if not small and not (final.test <= target) then
  io.stderr:write(('vae: the loss on test images is %.2f, above the target of %g\n'):format(final.test, target))
  os.exit(1)
end
