-- char_gpt.lua -- trains a small transformer on the characters of a text and generates text
--
--   mtorch scripts/char_gpt.lua                               learns the sentences of a small grammar
--   mtorch scripts/char_gpt.lua --data book.txt --steps 5000 --size 192 --layers 4 --length 128
--   mtorch scripts/char_gpt.lua --prompt 'the old '           the beginning of the generated text
--   mtorch scripts/char_gpt.lua --dry-run                     a short run of every part
--
-- The network is a small GPT-2 (Radford 2019; decoders.lua): embeddings of character and position are added; layers of
-- causal self-attention, in which a position depends on itself and on earlier ones, and of two linear maps follow; the
-- output are logits of the next character at each position. All positions of a window are trained at once. The loss is
-- -log2 of the probability of the actual next character, in bits.
local mt = require 'mtorch'
local refuse = require 'refuse'
local optim, data = mt.optim, mt.data
local text = require 'char_text'
local GPT2 = require('decoders').GPT2

local options = mt.args{
  {'data', help = 'text file; default: sentences of a small grammar', metavar = 'FILE'},
  {'steps', 500, 'steps of the optimizer', type = 'int', min = 1},
  {'batch', 16, 'batch size, in windows', type = 'int', min = 1},
  {'length', 64, 'characters of a window (context length)', type = 'int', min = 1},
  {'rate', 3e-3, 'learning rate', min = 0},
  {'decay', 0.1, 'weight decay of the matrices', min = 0},
  {'warmup', 40, 'steps of linear warm-up of the learning rate', type = 'int', min = 0},
  {'size', 128, 'size of the embeddings', type = 'int', min = 1},
  {'layers', 2, 'layers of the transformer', type = 'int', min = 1},
  {'heads', 4, 'attention heads; they must divide the size', type = 'int', min = 1},
  {'prompt', help = 'beginning of the generated text', metavar = 'TEXT'},
  {'sample', 240, 'number of characters to generate', type = 'int', min = 0},
  {'temperature', 0.8, 'sampling temperature; 0: always the most probable character', min = 0},
  {'top_k', help = 'sample from the k most probable characters', type = 'int', min = 1},
  {'target', help = 'required bits per character', min = 0},
  {'save', help = 'file for the trained parameters (safetensors)', type = 'output'},
  {'plot', help = 'file for the curve (.svg, .png)', endings = {'svg', 'png'}},
  {'dry_run', false, 'a short run of every part'},
}
local small = options.dry_run
local steps, length = small and 6 or options.steps, options.length

-- ---- data ----------------------------------------------------------------------------------------

local all, source, target_of = text.load(options.data, small)
local tokenizer = data.CharTokenizer(all)
local ids = tokenizer:encode(all):to(options.device)
local cut = math.floor(#ids * 0.9)
local train, test = ids[{{1, cut}}], ids[{{cut + 1, -1}}]
local target = options.target or target_of(ids:tolist())
if options.size % options.heads ~= 0 then
  refuse('--heads %d do not divide --size %d', options.heads, options.size)
end
if #test <= length then refuse('the text is too short for windows of %d characters', length) end
local prompt = options.prompt or all:match('\n(.)') or all:sub(1, 1)
if not pcall(tokenizer.encode, tokenizer, prompt) then
  refuse("--prompt '%s' has characters that the text lacks", prompt)
end
print(('%s: %d characters, %d different ones'):format(source, #ids, tokenizer:size()))

--- Returns the windows [n x length] of the text at these positions, and the character after each of theirs.
local function windows_at(list, starts)
  local at = starts:unsqueeze(2) + mt.range(0, length - 1):to(options.device)
  return list[at], list[at + 1]
end

-- ---- the network ---------------------------------------------------------------------------------

local net = GPT2{vocab_size = tokenizer:size(), n_positions = length, n_embd = options.size, n_layer = options.layers,
  n_head = options.heads, layer_norm_epsilon = 1e-5}:initialize():to(options.device)

-- Weight decay applies to matrices only, not to vectors (biases, normalisations).
local matrices, vectors = {}, {}
for _, p in ipairs(net:parameters()) do table.insert(p:dim() > 1 and matrices or vectors, p) end
local opt = optim.AdamW({{params = matrices, weight_decay = options.decay}, {params = vectors, weight_decay = 0}},
  {lr = options.rate, betas = {0.9, 0.95}})
-- Linear warm-up, then cosine decay to a tenth.
local warmup = math.min(options.warmup, steps)
local sched = optim.lr.LambdaLR(opt, function(done)
  if done < warmup then return (done + 1) / warmup end
  local progress = (done - warmup) / math.max(1, steps - warmup)
  return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))
end)
print(net)

local function loss_of(x, y) return mt.cross_entropy(net(x):flatten(1, 2), y:flatten()) end

--- Returns the mean loss on adjacent windows of the test text.
local function evaluate()
  net:eval()
  local mean = mt.metrics.Mean()
  mt.no_grad(function()
    local starts = mt.range(1, math.min(#test - length, 128 * length), length):long():to(options.device)
    for _, batch in ipairs(starts:split(64)) do
      local x, y = windows_at(test, batch)
      mean:update(loss_of(x, y), #batch)
    end
  end)
  net:train()
  return mean:compute()
end

-- ---- training ------------------------------------------------------------------------------------

local function next_loss()
  return loss_of(windows_at(train, mt.randint(1, #train - length, {options.batch}, {device = options.device})))
end
local training = {net = net, opt = opt, sched = sched, loss = next_loss, evaluate = evaluate}
local curve, seconds = text.train(training, steps, 8)

-- ---- generation ----------------------------------------------------------------------------------

--- Returns the prompt and n generated characters; the network gets the last `length` characters.
local function generate(n)
  net:eval()
  return mt.no_grad(function()
    local list = tokenizer:encode(prompt):to(options.device)
    for _ = 1, n do
      local context = list[{{math.max(1, #list - length + 1), -1}}]
      local scores = net(context:unsqueeze(1))[{1, -1}]
      if options.top_k then
        local best, at = scores:topk(math.min(options.top_k, #scores))
        scores = mt.full({#scores}, -math.huge, {device = options.device}):index_copy(1, at, best)
      end
      list = mt.cat{list, text.choose(scores, options.temperature)}
    end
    return tokenizer:decode(list)
  end)
end
print('it writes:\n' .. generate(small and 10 or options.sample))

text.finish(training, options, curve, target, steps * options.batch * length / seconds)
