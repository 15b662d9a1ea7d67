-- init.lua -- mt.models: networks for images, with torchvision's structure, names of parameters and initial values
local mt = require 'mtorch'
local nn, extend = mt.nn, mt.extend

local models = {}

local function conv(inputs, outputs, size, options)
  local usual = {padding = math.floor(size / 2), bias = false}
  local made = nn.Conv2d(inputs, outputs, size, extend.util.merged(usual, options))
  nn.init.kaiming_normal_(made.weight, {mode = 'fan_out', nonlinearity = 'relu'})
  return made
end

-- ---- ResNet (He et al. 2015) ---------------------------------------------------------------------

--- The shortcut of a block whose input has another shape, or nil.
local function shortcut(inputs, outputs, stride)
  if stride == 1 and inputs == outputs then return nil end
  return nn.Sequential(conv(inputs, outputs, 1, {stride = stride, padding = 0}), nn.BatchNorm2d(outputs))
end

--- Two convolutions of size 3.
local BasicBlock = nn.class 'BasicBlock'
BasicBlock.expansion = 1
function BasicBlock:__init(inputs, width, stride)
  self.conv1, self.bn1 = conv(inputs, width, 3, {stride = stride}), nn.BatchNorm2d(width)
  self.conv2, self.bn2 = conv(width, width, 3), nn.BatchNorm2d(width)
  self.downsample = shortcut(inputs, width, stride)
end
function BasicBlock:forward(x)
  local y = self.bn2(self.conv2(self.bn1(self.conv1(x)):relu_()))
  return (y + (self.downsample and self.downsample(x) or x)):relu_()
end

--- A convolution of size 3 between two of size 1; the stride is that of the middle one, as in torchvision.
local Bottleneck = nn.class 'Bottleneck'
Bottleneck.expansion = 4
function Bottleneck:__init(inputs, width, stride)
  self.conv1, self.bn1 = conv(inputs, width, 1), nn.BatchNorm2d(width)
  self.conv2, self.bn2 = conv(width, width, 3, {stride = stride}), nn.BatchNorm2d(width)
  self.conv3, self.bn3 = conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)
  self.downsample = shortcut(inputs, 4 * width, stride)
end
function Bottleneck:forward(x)
  local y = self.bn2(self.conv2(self.bn1(self.conv1(x)):relu_())):relu_()
  return (self.bn3(self.conv3(y)) + (self.downsample and self.downsample(x) or x)):relu_()
end

local ResNet = nn.class 'ResNet'
function ResNet:__init(block, counts, classes)
  self.conv1, self.bn1 = conv(3, 64, 7, {stride = 2}), nn.BatchNorm2d(64)
  self.maxpool = nn.MaxPool2d(3, {stride = 2, padding = 1})
  local inputs = 64
  for i, count in ipairs(counts) do
    local blocks, width = {}, 32 * 2 ^ i
    for k = 1, count do
      blocks[k] = block(inputs, width, k == 1 and i > 1 and 2 or 1)
      inputs = width * block.expansion
    end
    self['layer' .. i] = nn.Sequential(blocks)
  end
  self.avgpool = nn.AdaptiveAvgPool2d(1)
  self.fc = nn.Linear(inputs, classes)
end
function ResNet:forward(x)
  x = self.maxpool(self.bn1(self.conv1(x)):relu_())
  for i = 1, 4 do x = self['layer' .. i](x) end
  return (self.fc(self.avgpool(x):flatten(2)))
end

-- ---- MobileNetV2 (Sandler et al. 2018) --------------------------------------------------------------

local function conv_norm_relu(inputs, outputs, size, options)
  return nn.Sequential(conv(inputs, outputs, size, options), nn.BatchNorm2d(outputs), nn.ReLU6(true))
end

local InvertedResidual = nn.class 'InvertedResidual'
function InvertedResidual:__init(inputs, outputs, stride, expansion)
  local hidden = inputs * expansion
  local layers = expansion > 1 and {conv_norm_relu(inputs, hidden, 1)} or {}
  layers[#layers + 1] = conv_norm_relu(hidden, hidden, 3, {stride = stride, groups = hidden})
  layers[#layers + 1] = conv(hidden, outputs, 1)
  layers[#layers + 1] = nn.BatchNorm2d(outputs)
  self.conv = nn.Sequential(layers)
  self.adds_input = stride == 1 and inputs == outputs
end
function InvertedResidual:forward(x)
  local y = self.conv(x)
  return self.adds_input and x + y or y
end

local MobileNetV2 = nn.class 'MobileNetV2'
function MobileNetV2:__init(classes)
  local features, inputs = {conv_norm_relu(3, 32, 3, {stride = 2})}, 32
  for _, row in ipairs{{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
    {6, 320, 1, 1}} do
    local expansion, outputs, count, stride = unpack(row)
    for k = 1, count do
      features[#features + 1] = InvertedResidual(inputs, outputs, k == 1 and stride or 1, expansion)
      inputs = outputs
    end
  end
  features[#features + 1] = conv_norm_relu(inputs, 1280, 1)
  self.features = nn.Sequential(features)
  self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
  nn.init.normal_(self.classifier[2].weight, 0, 0.01)
  nn.init.zeros_(self.classifier[2].bias)
end
function MobileNetV2:forward(x) return (self.classifier(self.features(x):mean{3, 4})) end

-- ---- Vision transformer (Dosovitskiy et al. 2020) ---------------------------------------------------

local EncoderBlock = nn.class 'EncoderBlock'
function EncoderBlock:__init(o)
  self.ln_1 = nn.LayerNorm(o.width, {eps = 1e-6})
  self.self_attention = nn.MultiheadAttention(o.width, o.heads, {batch_first = true})
  self.ln_2 = nn.LayerNorm(o.width, {eps = 1e-6})
  self.mlp = nn.Sequential(nn.Linear(o.width, o.mlp), nn.GELU(), nn.Dropout(0), nn.Linear(o.mlp, o.width),
    nn.Dropout(0))
  for _, layer in ipairs{self.mlp[1], self.mlp[4]} do
    nn.init.xavier_uniform_(layer.weight)
    nn.init.normal_(layer.bias, 0, 1e-6)
  end
end
function EncoderBlock:forward(x)
  x = x + self.self_attention(self.ln_1(x))
  return x + self.mlp(self.ln_2(x))
end

local Encoder = nn.class 'Encoder'
function Encoder:__init(o, tokens)
  self.pos_embedding = nn.Parameter(mt.randn(1, tokens, o.width) * 0.02)
  self.layers = nn.ModuleDict(extend.util.tabulate(o.layers, function(i)
    return {'encoder_layer_' .. i - 1, EncoderBlock(o)}
  end))
  self.ln = nn.LayerNorm(o.width, {eps = 1e-6})
end
function Encoder:forward(x)
  x = x + self.pos_embedding
  for _, layer in self.layers:items() do x = layer(x) end
  return (self.ln(x))
end

local VisionTransformer = nn.class 'VisionTransformer'
function VisionTransformer:__init(o, classes)
  self.patch = o.patch
  self.conv_proj = nn.Conv2d(3, o.width, o.patch, {stride = o.patch})
  self.class_token = nn.Parameter(mt.zeros(1, 1, o.width))
  self.encoder = Encoder(o, (o.image / o.patch) ^ 2 + 1)
  self.heads = nn.ModuleDict{head = nn.Linear(o.width, classes)}
end
function VisionTransformer:forward(x)
  local patches = self.conv_proj(x):flatten(3):transpose(2, 3)
  local tokens = mt.cat({self.class_token:expand(#x, 1, -1), patches}, 2)
  return (self.heads.head(self.encoder(tokens)[{{}, 1}]))
end

-- ---- by name ------------------------------------------------------------------------------------

local function add(name, doc, signature, make)
  models[name] = extend.declare(('%s(%s)'):format(name, signature), doc, make)
end

local classes = 'num_classes: int >= 1 = 1000'
for name, row in pairs{resnet18 = {BasicBlock, 2, 2, 2, 2}, resnet34 = {BasicBlock, 3, 4, 6, 3},
  resnet50 = {Bottleneck, 3, 4, 6, 3}, resnet101 = {Bottleneck, 3, 4, 23, 3}, resnet152 = {Bottleneck, 3, 8, 36, 3}} do
  add(name, "ResNet for images [n x 3 x h x w] (He et al. 2015). Weights of torchvision load: " ..
    "net:load_state_dict(mt.load('resnet18.pth')).", classes,
    function(num_classes) return ResNet(row[1], {unpack(row, 2)}, num_classes) end)
end
add('mobilenet_v2', 'MobileNetV2 for images [n x 3 x h x w] (Sandler et al. 2018); weights of torchvision load.',
  classes, MobileNetV2)
for name, row in pairs{vit_tiny_16 = {192, 12, 3}, vit_small_16 = {384, 12, 6}, vit_b_16 = {768, 12, 12},
  vit_l_16 = {1024, 24, 16}} do
  add(name, 'A vision transformer with patches of 16 x 16 for images [n x 3 x image_size x image_size] (Dosovitskiy ' ..
    "et al. 2020); torchvision's weights of vit_b_16 and vit_l_16 load.", classes .. ', image_size: int >= 16 = 224',
    function(num_classes, image_size)
      return VisionTransformer({width = row[1], layers = row[2], heads = row[3], mlp = 4 * row[1], patch = 16,
        image = image_size}, num_classes)
    end)
end

return extend.strict(models, 'mt.models')
