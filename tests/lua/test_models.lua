-- test_models.lua -- mt.models: names, shapes and numbers of parameters as torchvision has them; a small one learns
local mt = require 'mtorch'
local t = require 'testing'

local function count(net)
  local sum = 0
  for _, p in ipairs(net:parameters()) do sum = sum + p:numel() end
  return sum
end

-- The numbers are torchvision's.
for name, expected in pairs{resnet18 = 11689512, resnet34 = 21797672, resnet50 = 25557032, mobilenet_v2 = 3504872,
  vit_tiny_16 = 5717416} do
  t.test(name, function()
    mt.manual_seed(1)
    local net = mt.models[name]()
    t.eq(count(net), expected)
    net:eval()
    local y = mt.no_grad(net, mt.randn(1, 3, 224, 224))
    t.eq(y.shape, {1, 1000})
    assert(y:isfinite():all())
  end)
end

t.test('names of parameters are those of torchvision', function()
  local function has(net, entries, names)
    local state, found = net:state_dict(), 0
    for _ in pairs(state) do found = found + 1 end
    t.eq(found, entries)
    for name, shape in pairs(names) do
      assert(state[name], name .. ' is missing')
      t.eq(state[name].shape, shape)
    end
  end
  has(mt.models.resnet18(10), 122, {['conv1.weight'] = {64, 3, 7, 7}, ['layer1.0.bn1.running_mean'] = {64},
    ['bn1.num_batches_tracked'] = {}, ['layer4.1.bn2.num_batches_tracked'] = {},
    ['layer2.0.downsample.0.weight'] = {128, 64, 1, 1}, ['layer2.0.downsample.1.bias'] = {128},
    ['fc.weight'] = {10, 512}})
  has(mt.models.resnet34(10), 218, {['layer3.5.conv2.weight'] = {256, 256, 3, 3}})
  has(mt.models.resnet50(10), 320, {['layer4.2.conv3.weight'] = {2048, 512, 1, 1}, ['fc.bias'] = {10}})
  has(mt.models.mobilenet_v2(10), 314, {['features.0.0.weight'] = {32, 3, 3, 3},
    ['features.1.conv.1.weight'] = {16, 32, 1, 1},
    ['features.2.conv.1.0.weight'] = {96, 1, 3, 3}, ['features.18.1.running_var'] = {1280},
    ['classifier.1.weight'] = {10, 1280}})
  has(mt.models.vit_tiny_16{num_classes = 10, image_size = 32}, 152, {class_token = {1, 1, 192},
    ['conv_proj.bias'] = {192},
    ['encoder.pos_embedding'] = {1, 5, 192},
    ['encoder.layers.encoder_layer_0.self_attention.in_proj_weight'] = {576, 192},
    ['encoder.layers.encoder_layer_11.mlp.3.weight'] = {192, 768}, ['encoder.ln.weight'] = {192},
    ['heads.head.bias'] = {10}})
end)

t.test('a network learns four pictures by heart', function()
  mt.manual_seed(1)
  local net = mt.models.resnet18(4)
  local opt = mt.optim.Adam(net:parameters(), {lr = 1e-3})
  local x, y = mt.randn(4, 3, 32, 32), mt.range(1, 4)
  local loss
  for _ = 1, 6 do
    loss = mt.cross_entropy(net(x), y)
    opt:zero_grad()
    loss:backward()
    opt:step()
  end
  assert(loss:item() < 0.3, loss:item())
end)

-- ---- torchvision ---------------------------------------------------------------------------------------

t.test("torchvision's state dicts load, come back and give the same outputs", function()
  local python = os.getenv 'MTORCH_PEER_PYTHON'
  local folder = os.tmpname()
  os.remove(folder)
  if not python or os.execute(('mkdir %s && %s tests/lua/models_check.py %s'):format(folder, python, folder)) ~= 0 then
    os.execute('rm -rf ' .. folder)
    return print('skipped: the comparison with torchvision; MTORCH_PEER_PYTHON names no Python that has it')
  end
  for _, name in ipairs{'resnet18', 'resnet34', 'resnet50', 'mobilenet_v2', 'vit_b_16'} do
    local net = mt.models[name]{num_classes = 10, image_size = name == 'vit_b_16' and 64 or nil}
    local state, io = mt.load(('%s/%s.pth'):format(folder, name)), mt.load(('%s/%s.io.pth'):format(folder, name))
    net:load_state_dict(state)
    local own = net:state_dict()
    for key, value in pairs(state) do
      assert(mt.equal(own[key], value) and own[key].dtype == value.dtype, name .. ': ' .. key)
      own[key] = nil
    end
    t.eq(next(own), nil)
    local off = ((mt.no_grad(net:eval(), io.x) - io.y):abs():max() / io.y:abs():max()):item()
    assert(off < 1e-5, ('%s: the outputs differ by %g of the largest'):format(name, off))
  end
  os.execute('rm -r ' .. folder)
end)

t.finish()
