-- test_hostile_files.lua -- damaged and forged files of tensors: each loads or raises one sentence
local mt = require 'mtorch'
local t = require 'testing'
local test, raises = t.test, t.raises
local nn = mt.nn

local folder = arg[0]:gsub('[^/]*$', '') .. '../data/files/'
local rounds = tonumber(arg[1] or 200)
local path = os.tmpname()

local read = t.read_file
local function write(text) t.write_file(path, text) end
local function written(save, ...)
  save(path, ...)
  return read(path)
end

local damage = require 'damage'
local function storm(...) damage(rounds, path, ...) end

local function files(...)
  local texts = {...}
  for i, name in ipairs(texts) do texts[i] = read(folder .. name) end
  return texts
end

storm('safetensors', files('all.safetensors'), mt.data.safetensors, 'safetensors: ')
storm('npy', files('f4.npy', 'fortran.npy', 'version2.npy', 'bool.npy', 'f4.npy.gz'), mt.data.npy, 'npy: ')
storm('npz', files('plain.npz', 'packed.npz'), mt.data.npz, 'npz: ')
storm('torch.save', files('tensor.pt', 'state.pt', 'whole.pt'), mt.load, 'load: ')
storm('torch.save, the stream', files('legacy.pt'), mt.load, 'load: ')

local net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
storm('mt.save', {
  written(mt.save, {a = {1, 2, {x = mt.ones(2), y = 0 / 0}}, [3] = '\255', b = mt.ones(2):requires_grad_()}),
}, mt.load, 'load: ')

local opt = mt.optim.Adam(net:parameters(), {lr = 0.1})
net(mt.ones(1, 2)):sum():backward()
opt:step()
local before = mt.get_rng_state()
storm('checkpoints', {written(mt.checkpoint.save, {model = net, optim = opt, step = 3})}, function(name)
  mt.checkpoint.resume(name, {model = net, optim = opt})
end, 'checkpoint%.resume: ')
mt.set_rng_state(before)

test('the places of archives are looked at', function()
  raises(function() mt.load(folder) end, 'load: .* is not a regular file')
  raises(function() mt.data.npz('/dev/zero') end, 'npz: .* is not a regular file')
  write('PK')
  raises(function() mt.load(path) end, 'load: .* is not a zip archive')
end)

os.remove(path)
t.finish()
