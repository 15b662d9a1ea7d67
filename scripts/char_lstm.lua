-- char_lstm.lua -- trains an LSTM language model on the characters of a text and generates text
--
--   mtorch scripts/char_lstm.lua                              learns the sentences of a small grammar
--   mtorch scripts/char_lstm.lua --data book.txt --steps 5000 --hidden 256 --layers 2
--   mtorch scripts/char_lstm.lua --dry-run                    a short run of every part
--
-- The network gets one character after another and returns the logits of the next one. The loss is -log2 of the
-- probability of the actual next character, in bits (Mikolov 2010; Graves 2013). The text is cut into `batch`
-- long rows that are processed in parallel, `length` characters in each step. The LSTM's state is passed from step to
-- step; gradients end at the beginning of each step (truncated backpropagation through time).
local mt = require 'mtorch'
local refuse = require 'refuse'
local nn, optim, data = mt.nn, mt.optim, mt.data

local options = mt.args{
  {'data', help = 'text file; default: sentences of a small grammar', metavar = 'FILE'},
  {'steps', 600, 'steps of the optimizer', type = 'int', min = 1},
  {'batch', 32, 'batch size, in rows of the text', type = 'int', min = 1},
  {'length', 64, 'characters of each row in a step', type = 'int', min = 1},
  {'rate', 4e-3, 'learning rate', min = 0},
  {'embedding', 32, 'size of the embeddings', type = 'int', min = 1},
  {'hidden', 128, 'units of the LSTM', type = 'int', min = 1},
  {'layers', 1, 'layers of the LSTM', type = 'int', min = 1},
  {'dropout', 0.0, 'dropout probability between layers', min = 0, max = 1},
  {'sample', 240, 'number of characters to generate', type = 'int', min = 0},
  {'temperature', 0.8, 'sampling temperature; 0: always the most probable character', min = 0},
  {'target', help = 'required bits per character', min = 0},
  {'save', help = 'file for the trained parameters (safetensors)', type = 'output'},
  {'plot', help = 'file for the curve (.svg, .png)', endings = {'svg', 'png'}},
  {'dry_run', false, 'a short run of every part'},
}
local small = options.dry_run
local steps = small and 6 or options.steps
local log_2 = math.log(2) -- losses are in nats, the curve in bits

-- ---- the text ------------------------------------------------------------------------------------

-- A sentence of the grammar takes one entry of each list, all equally likely; the verb agrees with the noun
-- before the place. The entropy is therefore known: the logarithm of the number of sentences.
local subjects = {'cat', 'dog', 'bird', 'teacher', 'sailor', 'doctor', 'painter', 'child'}
local plurals = {child = 'children'}
local adjectives = {'small', 'old', 'hungry', 'quiet', 'happy', 'clever', 'tired', 'famous'}
local places = {'in the garden', 'near the river', 'at the market', 'on the hill'}
local verbs = {'see', 'find', 'want', 'remember', 'follow', 'need', 'paint', 'sell'}
local objects = {'house', 'boat', 'letter', 'picture', 'lamp', 'garden', 'book', 'clock'}
local colours = {'red', 'green', 'blue', 'white'}

--- Returns n sentences as one text, and its entropy in bits per character, which no model can go below.
local function sentences(n)
  local lists = {subjects, adjectives, places, verbs, objects, colours, {false, true}}
  local columns, bits = {}, 0
  local generator = mt.Generator('philox', 1)
  for k, list in ipairs(lists) do
    columns[k] = mt.randint(1, #list, {n}, {generator = generator}):tolist()
    bits = bits + math.log(#list) / log_2
  end
  local lines = {}
  for i = 1, n do
    local function pick(k) return lists[k][columns[k][i]] end
    local is_plural, noun, verb = pick(7), pick(1), pick(4)
    if is_plural then noun = plurals[noun] or noun .. 's' end
    if not is_plural then verb = verb .. 's' end
    lines[i] = ('the %s %s %s %s a %s %s.\n'):format(pick(2), noun, pick(3), verb, pick(6), pick(5))
  end
  local all = table.concat(lines)
  return all, bits * n / #all
end

--- Returns the conditional entropy of one of n characters given the previous one, in bits, as counted in the text. A
--- model with a longer context must be better.
local function bigram_entropy(ids, n)
  local first, second = ids[{{1, -2}}], ids[{{2, -1}}]
  local seen, counts = (first * n + second):unique{return_counts = true}
  local of_first = first:bincount()[(seen - 1):floor_divide(n)]
  return -(counts * (counts / of_first):double():log()):sum():item() / (#first * log_2)
end

local all, entropy
if options.data then
  if not mt.extend.util.exists(options.data) then refuse("--data: '%s' cannot be opened", options.data) end
  all = data.text(options.data)
else
  all, entropy = sentences(small and 60 or 6000)
end
local tokenizer = data.CharTokenizer(all)
local ids = tokenizer:encode(all):to(options.device)
local cut = math.floor(#ids * 0.9)
local target = options.target or entropy and entropy + 0.1 or bigram_entropy(ids, tokenizer:size())
print(('%s: %d characters, %d different ones'):format(options.data or 'sentences', #ids, tokenizer:size()))

--- Returns the ids as rows [batch x ..].
local function rows(list, batch)
  local length = math.floor(#list / batch)
  if length < 2 then refuse('the text is too short for %d rows', batch) end
  return list[{{1, batch * length}}]:reshape(batch, length)
end
local train, test = rows(ids[{{1, cut}}], options.batch), rows(ids[{{cut + 1, -1}}], small and 2 or 8)

-- ---- the network ---------------------------------------------------------------------------------

local Model = nn.class 'CharLSTM'

function Model:__init(characters)
  self.embedding = nn.Embedding(characters, options.embedding)
  self.lstm = nn.LSTM(options.embedding, options.hidden,
    {num_layers = options.layers, dropout = options.dropout, batch_first = true})
  self.head = nn.Linear(options.hidden, characters)
end

--- Returns the logits of each next character [batch x length x characters], and the last state.
function Model:forward(x, h, c)
  local out
  out, h, c = self.lstm(self.embedding(x), h, c)
  return self.head(out), h, c
end

local net = Model(tokenizer:size()):to(options.device)
local opt = optim.Adam(net:parameters(), {lr = options.rate})
local sched = optim.lr.OneCycleLR(opt, {max_lr = options.rate, total_steps = steps})
print(net)

--- Returns the loss of a piece of the rows, and the state after it.
local function loss_of(x, y, h, c)
  local scores
  scores, h, c = net(x, h, c)
  return mt.cross_entropy(scores:flatten(1, 2), y:flatten()), h, c
end

--- Returns the mean loss on the whole test text.
local function evaluate()
  net:eval()
  local mean, length = mt.metrics.Mean(), test.shape[2]
  mt.no_grad(function()
    local h, c
    for from = 1, length - 1, 256 do
      local n = math.min(256, length - from)
      local loss
      loss, h, c = loss_of(test:narrow(2, from, n), test:narrow(2, from + 1, n), h, c)
      mean:update(loss, n)
    end
  end)
  net:train()
  return mean:compute()
end

-- ---- training ------------------------------------------------------------------------------------

local at, h, c = 1
--- Returns the loss of the next piece of the rows.
local function next_loss()
  if at + options.length > train.shape[2] then at, h, c = 1, nil, nil end -- start again from the beginning
  local x, y = train:narrow(2, at, options.length), train:narrow(2, at + 1, options.length)
  at = at + options.length
  local loss
  loss, h, c = loss_of(x, y, h, c)
  h, c = h:detach(), c:detach() -- keep the state, but not its graph
  return loss
end

local curve, every = {}, math.max(1, math.floor(steps / 10))
local bar = mt.progress(steps, {label = 'char_lstm'})
local seconds = mt.time(function()
  for step = 1, steps do
    opt:zero_grad()
    local loss = next_loss()
    loss:backward()
    nn.clip_grad_norm_(net:parameters(), 1) -- a long chain of products can make gradients very large
    opt:step()
    sched:step()
    curve[step] = loss:item() / log_2
    if step % every == 0 then
      bar:print(('step %5d  train %.3f  test %.3f bits per character'):format(step, curve[step], evaluate() / log_2))
    end
    bar:update(step, {bits = curve[step]})
  end
end, {quiet = true}).wall
bar:finish()

-- ---- generation ----------------------------------------------------------------------------------

--- Samples the next character from logits [characters], as a tensor [1]; temperature 0 takes the most probable.
local function choose(scores)
  if options.temperature == 0 then return scores:argmax():view(1) end
  return mt.multinomial((scores / options.temperature):softmax(1), 1)
end

--- Generates n characters, starting with the first one of the text.
local function generate(n)
  net:eval()
  return mt.no_grad(function()
    local list, scores, state, cell = {}
    local last = ids:narrow(1, 1, 1)
    for i = 1, n do
      scores, state, cell = net(last:view(1, 1), state, cell)
      last = choose(scores[{1, 1}])
      list[i] = last:item()
    end
    return tokenizer:decode(mt.tensor(list, {dtype = 'int64'}))
  end)
end
print('it writes:\n' .. generate(small and 20 or options.sample))

-- ---- results -------------------------------------------------------------------------------------

if options.plot then
  print('curve: ' .. mt.plot.line{y = curve, path = options.plot, xlabel = 'step', ylabel = 'bits per character'})
end
if options.save then
  data.save_safetensors(options.save, net:state_dict())
  print('parameters: ' .. options.save)
end
local bits = evaluate() / log_2
print(('final: bits=%.4f perplexity=%.3f target=%.4f steps=%d characters_per_second=%.0f'):format(bits, 2 ^ bits,
  target, steps, steps * options.batch * options.length / seconds))
if not small and not (bits <= target) then
  refuse('%.4f bits per character on test text, above the target of %.4f', bits, target)
end
