-- vae.lua -- a variational autoencoder that generates digits from a few latent variables
--
--   mtorch scripts/vae.lua --data ../shared/data/mnist        the digits of MNIST in that folder
--   mtorch scripts/vae.lua                                    generated digits, no files needed
--   mtorch scripts/vae.lua --plot vae.svg                     pictures of sampled digits
--   mtorch scripts/vae.lua --report vae.html --live           a page that updates itself
--   mtorch scripts/vae.lua --dry-run                          a short run of every part
--
-- For each image x an encoder returns a normal distribution q(z | x) of `latent` variables; for such z a decoder
-- returns the probability of ink in each pixel, p(x | z). Both are trained by the evidence lower bound (Kingma and
-- Welling 2014): log p(x) >= E[log p(x | z)] - KL(q(z | x) || N(0, 1)). The loss is its negative in nats per image.
-- Afterwards samples z of N(0, 1) are decoded to images.
local mt = require 'mtorch'
local refuse = require 'refuse'
local nn, optim, data, metrics, plot = mt.nn, mt.optim, mt.data, mt.metrics, mt.plot

local options = mt.args{
  {'data', help = "folder of MNIST's files; default: generated digits", metavar = 'DIR'},
  {'download', false, 'fetch MNIST first'},
  {'epochs', 30, 'passes over the images', type = 'int', min = 1},
  {'batch', 128, 'images in a step', type = 'int', min = 1},
  {'rate', 2e-3, 'largest learning rate', min = 0},
  {'hidden', 400, 'units of the hidden layers', type = 'int', min = 1},
  {'latent', 20, 'number of latent variables', type = 'int', min = 1},
  {'target', help = 'required loss on test images, in nats', min = 0},
  {'plot', help = 'file for pictures of sampled digits (.svg, .png)', endings = {'svg', 'png'}},
  {'report', help = 'HTML page with all results', type = 'output'},
  {'live', false, 'write the page each second, and let a browser that shows it load it again'},
  {'dry_run', false, 'a short run of every part'},
}
local small = options.dry_run

-- ---- data ----------------------------------------------------------------------------------------

--- Returns training and test images, with values from 0 (paper) to 1 (ink), and the name of their source.
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
  self.log_var = nn.Linear(hidden, latent) -- the logarithm may be any number
  self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))
end

--- Returns logits of the pixels, and q's mean and log variance. z = mean + deviation * noise has gradients by both:
--- the reparameterisation trick.
function VAE:forward(x)
  local h = self.encoder(x)
  local mean, log_var = self.mean(h), self.log_var(h)
  local z = mean + (log_var / 2):exp() * mt.randn_like(mean)
  return self.decoder(z), mean, log_var
end

--- Returns -log p(x | z) and the KL divergence of q from N(0, 1), both in nats per image.
local function losses(scores, x, mean, log_var)
  local reconstruction = mt.binary_cross_entropy_with_logits(scores, x, {reduction = 'sum'})
  local divergence = (mean:square() + log_var:exp() - log_var - 1):sum() / 2
  return reconstruction / #x, divergence / #x
end

-- ---- training ------------------------------------------------------------------------------------

local epochs = small and 1 or options.epochs
local loader = data.DataLoader(data.TensorDataset(train_x), {batch_size = options.batch, shuffle = true})
local net = VAE(train_x.shape[2], small and 32 or options.hidden, options.latent):to(options.device)
local opt = optim.Adam(net:parameters(), {lr = options.rate})
local sched = optim.lr.OneCycleLR(opt, {max_lr = options.rate, epochs = epochs, steps_per_epoch = loader:size()})
print(('%d digits (%s) to train with, %d to test'):format(#train_x, source, #test_x))
print(net)

--- Returns the loss on the test images, and the divergence in it.
local function evaluate()
  local total, part = metrics.Mean(), metrics.Mean()
  mt.no_grad(function()
    for _, x in ipairs(test_x:split(500)) do
      local scores, mean, log_var = net(x)
      local reconstruction, divergence = losses(scores, x, mean, log_var)
      total:update(reconstruction + divergence, #x)
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
      local reconstruction, divergence = losses(scores, x, mean, log_var)
      local loss = reconstruction + divergence
      loss:backward()
      opt:step()
      sched:step()
      train_loss:update(loss, #x)
    end
  end, {quiet = true}).wall
  local test_loss, divergence = evaluate()
  final = {train = train_loss:compute(), test = test_loss}
  bar:print(('epoch %2d  train %.2f  test %.2f nats per image, %.2f of them the divergence'):format(epoch, final.train,
    test_loss, divergence))
  bar:update(epoch, {test = test_loss})
  report:scalars({['loss/train'] = final.train, ['loss/test'] = test_loss, divergence = divergence}, epoch)
  report:timing('epoch', seconds)
end
bar:finish()

-- ---- results -------------------------------------------------------------------------------------

--- Reshapes rows of pixels to images.
local function as_images(rows) return (rows:cpu():reshape(-1, 28, 28)) end
local samples, reconstructions = mt.no_grad(function()
  local z = mt.randn({30, options.latent}, {device = options.device})
  return net.decoder(z):sigmoid(), (net(test_x[{{1, 18}}]):sigmoid())
end)
print('sampled digits:')
plot.images{as_images(samples[{{1, 4}}]), cols = 4}
if options.plot then print('pictures: ' .. plot.images{as_images(samples), cols = 6, path = options.plot}) end
report:image('sampled digits', as_images(samples))
report:image(('test digits, and their reconstructions from %d numbers'):format(options.latent),
  as_images(mt.cat({test_x[{{1, 18}}], reconstructions}, 1)))
if report:finish() then print('report: ' .. options.report) end

print(('final: test_loss=%.2f train_loss=%.2f target=%g epochs=%d digits=%s'):format(final.test, final.train, target,
  epochs, source))
if not small and not (final.test <= target) then
  refuse('the loss on test images is %.2f, above the target of %g', final.test, target)
end
