-- simulate.lua -- estimates a training step on 1 to 1024 GPUs: computing, exchange of gradients, memory of a process
--
--   mtorch scripts/simulate.lua                            GPT-2, ResNet-50 and Llama on 1, 8, 64 and 1024 GPUs
--   mtorch scripts/simulate.lua --model gpt2 --network 12.5 --bucket_mb 50
--   mtorch scripts/simulate.lua --model uniform --gpus 2 --layers 6 --layer_mb 4 --forward_ms 2 --backward_ms 4
--
-- A layer takes the longer of two times: that of its operations at --tflops, and that of the bytes that it moves at
-- --memory. Backward takes twice as long, or as long where the parameters are frozen. Gradients fill the buckets of
-- dist.parallel by the engine's own rule; these are sent one after another while backward goes on. An all-reduce of B
-- bytes is a ring inside the machines and one between them: 2 (n - 1) / n B / speed each, where the GPUs of a machine
-- share what goes to others, and 2 log2(n) latencies. dist.shard instead gathers the parameters of a layer while the
-- one before it computes, in forward and in backward, and scatters its gradients after its backward, until that of the
-- layer before it has ended. Nothing else is counted: no loading of data, no slow process, no effect of sending on
-- computing.
local mt = require 'mtorch'
local refuse = require 'refuse'
assert(mt.dist) -- which declares the next
local buckets_of = require('mtorch.core').dist_parts.buckets_of

local options = mt.args{
  {'model', 'all', 'what is trained; lora: adapters of Llama; uniform: layers of the last four flags',
    choices = {'all', 'gpt2', 'resnet50', 'llama', 'lora', 'uniform'}},
  {'mode', 'parallel', 'dist.parallel or dist.shard', choices = {'parallel', 'shard'}},
  {'gpus', '1,8,64,1024', 'numbers of GPUs', metavar = 'LIST'},
  {'per_machine', 8, 'GPUs of a machine', type = 'int', min = 1},
  {'tflops', 300, 'what a GPU reaches in products, 1e12 operations a second', min = 1e-9},
  {'memory', 2500, 'what its memory reaches, GB/s', min = 1e-9},
  {'link', 200, 'what a GPU sends to others of its machine, GB/s', min = 1e-9},
  {'network', 50, 'what a GPU sends to other machines, GB/s', min = 1e-9},
  {'latency_us', 10, 'of a message, microseconds', min = 0},
  {'bucket_mb', 25, 'the option of dist.parallel', min = 1e-6},
  {'wire', 'float32', 'the option of dist.parallel', choices = {'float32', 'bfloat16'}},
  {'layers', 6, 'of the uniform model', type = 'int', min = 1},
  {'layer_mb', 4, 'megabytes of the gradients of one of its layers', min = 1e-6},
  {'forward_ms', 1, 'of one of its layers', min = 0},
  {'backward_ms', 2, 'of one of its layers', min = 0},
}

local numbers = {}
for text in options.gpus:gmatch '[^,]+' do
  local gpus = tonumber(text)
  if not gpus or gpus < 1 or gpus % 1 > 0 then refuse('--gpus: %s is not a number of GPUs', text) end
  if gpus > options.per_machine and gpus % options.per_machine > 0 then
    refuse('--gpus: %d GPUs are not whole machines of %d', gpus, options.per_machine)
  end
  numbers[#numbers + 1] = gpus
end
if #numbers == 0 then refuse '--gpus is empty' end

-- ---- networks: the layers in the order of forward, for the batch of one GPU, in 16 bits -----------------------------

local function sum(list)
  local total = 0
  for _, n in ipairs(list) do total = total + n end
  return total
end

--- A layer whose parameters have such sizes: operations and moved bytes of forward, bytes that are kept for backward.
local function layer(sizes, operations, moved, kept, frozen)
  local forward = math.max(operations / (options.tflops * 1e12), moved / (options.memory * 1e9))
  return {sizes = sizes, frozen = frozen or 0, kept = kept, forward = forward,
    backward = forward * (frozen and 1 or 2)}
end

--- A transformer. Elementwise work moves 60 bytes a feature and token, of which backward needs 34 (Korthikanti et al.
--- 2022, without the attention matrix).
local function transformer(title, o)
  local tokens, layers, head = o.rows * o.context, {}, o.vocabulary * o.width
  local function add(trained, frozen, operations, moved, kept)
    layers[#layers + 1] = layer(o.adapters and (trained.adapters or {}) or trained, operations, moved, kept,
      o.adapters and frozen or nil)
  end
  add({head, o.positions}, head, 0, 6 * tokens * o.width, 2 * tokens * o.width)
  for _ = 1, o.blocks do
    local sizes = {adapters = o.adapters}
    for i, n in ipairs(o.matrices) do sizes[2 * i - 1], sizes[2 * i] = n, o.width end
    add(sizes, sum(o.matrices), 2 * tokens * (sum(o.matrices) + o.context * o.width), 60 * tokens * o.width,
      34 * tokens * o.width)
  end
  add(o.untied and {head, o.width} or {o.width}, head, 2 * tokens * head, 6 * tokens * o.vocabulary,
    2 * tokens * o.vocabulary)
  return {title = ('%s, %d x %d tokens a GPU'):format(title, o.rows, o.context), layers = layers}
end

local function llama(title, adapters)
  local w, kv, inner = 4096, 1024, 14336
  return transformer(title, {rows = 1, context = 8192, width = w, vocabulary = 128256, blocks = 32, untied = true,
    adapters = adapters, matrices = {w * w, w * kv, w * kv, w * w, w * inner, w * inner, inner * w}})
end

--- Convolutions with batch normalisation and ReLU (He et al. 2016).
local function resnet50()
  local batch, layers, side, from = 128, {}, 112, 64
  local function conv(inputs, outputs, kernel, size, stride)
    local read, written = inputs * (size * stride) ^ 2, outputs * size ^ 2
    layers[#layers + 1] = layer({inputs * outputs * kernel ^ 2, outputs, outputs},
      2 * batch * size ^ 2 * inputs * outputs * kernel ^ 2, 2 * batch * (read + 4 * written), 4 * batch * written)
  end
  conv(3, 64, 7, side, 2)
  side = 56
  for stage, blocks in ipairs{3, 4, 6, 3} do
    local width = 32 * 2 ^ stage
    for block = 1, blocks do
      local stride = block == 1 and stage > 1 and 2 or 1
      conv(from, width, 1, side, 1)
      side = side / stride
      conv(width, width, 3, side, stride)
      conv(width, 4 * width, 1, side, 1)
      if block == 1 then conv(from, 4 * width, 1, side, stride) end
      from = 4 * width
    end
  end
  layers[#layers + 1] = layer({2048 * 1000, 1000}, 2 * batch * 2048 * 1000, 0, 2 * batch * 2048)
  return {title = 'ResNet-50, 128 images a GPU', layers = layers}
end

local models = {
  gpt2 = function()
    local w = 768
    return transformer('GPT-2 124M', {rows = 16, context = 1024, width = w, vocabulary = 50257, positions = 1024 * w,
      blocks = 12, matrices = {3 * w * w, w * w, 4 * w * w, 4 * w * w}})
  end,
  resnet50 = resnet50,
  llama = function() return llama 'Llama 8B' end,
  lora = function() return llama('Llama 8B, adapters of rank 16', {16 * 8192, 16 * 5120}) end,
  uniform = function()
    local layers = {}
    for i = 1, options.layers do
      layers[i] = {sizes = {options.layer_mb * 1e6 / 4}, frozen = 0, kept = 0, forward = options.forward_ms / 1e3,
        backward = options.backward_ms / 1e3}
    end
    return {title = 'uniform layers', layers = layers}
  end,
}

-- ---- a step ---------------------------------------------------------------------------------------------------------

--- The seconds of an all-reduce; a gather or a scatter of the parts of all takes half.
local function all_reduce(bytes, gpus)
  if gpus == 1 then return 0 end
  local inside = math.min(gpus, options.per_machine)
  local machines = gpus / inside
  return 2 * (inside - 1) / inside * bytes / (options.link * 1e9) +
    2 * (machines - 1) / machines * bytes / inside / (options.network * 1e9) +
    2 * math.log(gpus) / math.log(2) * options.latency_us / 1e6
end

--- dist.parallel: the seconds until the last bucket has been sent, and of all sending.
local function send_buckets(layers, forward, gpus)
  local gradients, ready, now = {}, {}, forward
  for i = #layers, 1, -1 do
    now = now + layers[i].backward
    layers[i].ready = now
  end
  for _, l in ipairs(layers) do
    for _, size in ipairs(l.sizes) do
      gradients[#gradients + 1], ready[#ready + 1] = mt.zeros(1):expand(math.ceil(size)), l.ready
    end
  end
  local full, bytes, count = {}, {}, 0
  for i, bucket in ipairs(buckets_of(gradients, options.bucket_mb)) do
    full[bucket] = math.max(full[bucket] or 0, ready[i])
    bytes[bucket] = (bytes[bucket] or 0) + #gradients[i] * (options.wire == 'float32' and 4 or 2)
    count = math.max(count, bucket + 1)
  end
  local free, sending = 0, 0
  for bucket = 0, count - 1 do
    local seconds = all_reduce(bytes[bucket], gpus)
    free, sending = math.max(free, full[bucket]) + seconds, sending + seconds
  end
  return free, sending
end

--- dist.shard: the seconds until the last gradients have been scattered, and of all sending.
local function send_parts(layers, gpus)
  local now, free, sending = 0, 0, 0
  local function send(bytes)
    local seconds = all_reduce(bytes, gpus) / 2
    free, sending = math.max(free, now) + seconds, sending + seconds
    return free
  end
  local function gather(l) return l and send(4 * sum(l.sizes) + 2 * l.frozen) end
  local ready = gather(layers[1])
  for i, l in ipairs(layers) do
    now = math.max(now, ready)
    ready = gather(layers[i + 1])
    now = now + l.forward
  end
  ready = now -- the last layer's parameters are kept
  local scattered = 0
  for i = #layers, 1, -1 do
    now = math.max(now, ready)
    ready = gather(layers[i - 1])
    now = now + layers[i].backward
    if #layers[i].sizes > 0 then
      now = math.max(now, scattered)
      scattered = send(4 * sum(layers[i].sizes))
    end
  end
  return math.max(now, scattered), sending
end

--- Bytes of a process: the parameters with AdamW in float32 and their casts to 16 bits, what backward needs.
local function memory_of(layers, gpus)
  local trained, frozen, kept, largest = 0, 0, 0, 0
  for _, l in ipairs(layers) do
    local count = sum(l.sizes)
    trained, frozen, kept = trained + count, frozen + l.frozen, kept + l.kept
    largest = math.max(largest, 4 * count + 2 * l.frozen)
  end
  return kept + 18 * trained + 2 * frozen, kept + (10 + 8 / gpus) * trained + 2 * frozen,
    kept + (16 * trained + 2 * frozen) / gpus + 2 * largest
end

local function simulate(layers, gpus)
  local forward, computing, moved, sending, ends = 0, 0, 0
  for _, l in ipairs(layers) do
    forward, computing = forward + l.forward, computing + l.forward + l.backward
    moved = moved + 28 * sum(l.sizes) -- AdamW reads four numbers and writes three
  end
  local shared = options.mode == 'shard' and gpus or 1
  if shared == 1 then ends, sending = send_buckets(layers, forward, gpus)
  else ends, sending = send_parts(layers, gpus) end
  local update = options.model == 'uniform' and 0 or moved / shared / (options.memory * 1e9)
  local step = math.max(computing, ends) + update
  local hidden = sending > 0 and 1 - math.max(0, ends - computing) / sending
  return step, sending, hidden, memory_of(layers, gpus)
end

local function report(model)
  print(model.title)
  print '  GPUs      step   sending  hidden  scaling | GB a process: parallel  Sharded    shard'
  local one = simulate(model.layers, 1)
  for _, gpus in ipairs(numbers) do
    local step, sending, hidden, whole, sharded, parts = simulate(model.layers, gpus)
    print(('  %4d %6.1f ms %6.1f ms %7s %7.1f%% | %22.1f %8.1f %8.1f'):format(gpus, step * 1e3, sending * 1e3,
      hidden and ('%.0f%%'):format(hidden * 100) or '-', one / step * 100, whole / 1e9, sharded / 1e9, parts / 1e9))
  end
end

print(('%s; computing %g Tflop/s, memory %g GB/s, links %g and %g GB/s, %g us, %d GPUs a machine'):format(
  options.mode == 'shard' and 'dist.shard' or ('dist.parallel, buckets of %g MB in %s'):format(options.bucket_mb,
    options.wire), options.tflops, options.memory, options.link, options.network, options.latency_us,
  options.per_machine))
for _, name in ipairs(options.model == 'all' and {'gpt2', 'resnet50', 'llama', 'lora'} or {options.model}) do
  report(models[name]())
end
