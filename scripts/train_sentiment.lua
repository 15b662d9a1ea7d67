-- train_sentiment.lua -- classifies sentences about films as positive or negative: convolution over word vectors
--
--   mtorch scripts/train_sentiment.lua                          generated sentences
--   mtorch scripts/train_sentiment.lua --data SST-2             train.tsv and dev.tsv of that folder (GLUE's SST-2)
--   mtorch scripts/train_sentiment.lua --data SST-2 --glove glove.6B.50d.txt --train 450 --valid 100 --epochs 30
--   mtorch scripts/train_sentiment.lua --text "not a dull moment"    also classifies this sentence
--   mtorch scripts/train_sentiment.lua --dry-run                a short run of every part
--
-- MiniTorch's Module 4, after Kim 2014, "Convolutional Neural Networks for Sentence Classification": every word is a
-- vector of `size` numbers; `maps` filters each are applied to windows of 3, 4 and 5 words, max pooling over the
-- sentence keeps one value per filter, and a linear layer follows. Word vectors are trained with the
-- rest; they are initialized at random or from a GloVe file.
local mt = require 'mtorch'
local refuse = require 'refuse'
local nn, optim, data, metrics = mt.nn, mt.optim, mt.data, mt.metrics

local options = mt.args{
  {'data', help = "folder of SST-2's files; default: generated sentences", metavar = 'DIR'},
  {'glove', help = 'file of initial word vectors', metavar = 'FILE'},
  {'train', help = 'number of training sentences', type = 'int', min = 1},
  {'valid', help = 'number of validation sentences', type = 'int', min = 1},
  {'epochs', help = 'passes over the sentences; default: 4 for SST-2, 12 for generated ones', type = 'int', min = 1},
  {'batch', 50, 'batch size, in sentences', type = 'int', min = 1},
  {'rate', 1e-3, 'learning rate', min = 0},
  {'size', 50, 'numbers of a word vector', type = 'int', min = 1},
  {'maps', 100, 'filters of each width', type = 'int', min = 1},
  {'dropout', 0.5, 'dropout probability before the last layer', min = 0, max = 1},
  {'target', help = 'required accuracy in percent; default: 70 for SST-2, 90 for generated sentences', min = 0},
  {'text', help = 'a sentence to classify at the end', metavar = 'TEXT'},
  {'report', help = 'HTML page with all results', type = 'output'},
  {'dry_run', false, 'a short run of every part'},
}
local small = options.dry_run

-- ---- sentences -----------------------------------------------------------------------------------

--- Generates n sentences, {text =, kind = 1 if positive, else 0}. The last clause decides, and "not" negates the
--- word after it, so that single words are not enough.
local function generate_sentences(n)
  local words = mt.extend.util.words
  local adjectives = {
    [1] = words 'good great moving funny clever warm charming fresh gripping brilliant tender witty lovely honest bold',
    [0] = words 'bad dull boring stale lazy clumsy tedious bland awful silly cold hollow weak noisy shallow',
  }
  local things = words 'film story plot acting script ending music camera cast dialogue comedy drama hero villain'
  local fillers = words 'really quite so very rather somehow often simply'
  local function any(list) return list[math.random(#list)] end
  local function clause(kind)
    local negated = math.random() < 0.3
    local word = any(adjectives[negated and 1 - kind or kind])
    local forms = {'the %s is %s %s', 'a %s that is %s %s', 'i found the %s %s %s', 'what a %s , %s %s'}
    return any(forms):format(any(things), negated and 'not' or any(fillers), word)
  end
  math.randomseed(options.seed or 1)
  local list = {}
  for i = 1, n do
    local kind = i % 2
    local text = clause(kind)
    if math.random() < 0.4 then text = clause(1 - kind) .. ' but ' .. text end
    list[i] = {text = text, kind = kind}
  end
  return list
end

--- Reads the first of these files that exists in the folder. Its columns are sentence and label; a header is optional.
--- In .tsv files quotation marks are words.
local function read(names)
  for _, name in ipairs(names) do
    local path = options.data .. '/' .. name
    local file = io.open(path)
    if file then
      local named = file:read '*l':find 'sentence'
      file:close()
      local rows = data.csv(path, {header = named ~= nil, columns = {'sentence', 'label'},
        quotes = name:find '%.csv$' ~= nil})
      local list = {}
      for i, text in ipairs(rows.sentence) do list[i] = {text = text, kind = rows.label:at(i)} end
      return list
    end
  end
  refuse("'%s' has no %s", options.data, table.concat(names, ', no '))
end

local function first(list, n)
  if not n or n >= #list then return list end
  return {unpack(list, 1, n)}
end

local source = options.data and 'sst2' or 'made_up'
local train, valid
if small then
  train, valid, source = generate_sentences(60), generate_sentences(20), 'made_up'
elseif source == 'sst2' then
  train = first(read{'train.tsv', 'train.csv'}, options.train)
  valid = first(read{'dev.tsv', 'validation.tsv', 'dev.csv', 'validation.csv'}, options.valid)
else
  local all = generate_sentences(2400)
  train, valid = first({unpack(all, 1, 2000)}, options.train), first({unpack(all, 2001)}, options.valid)
end
local epochs = small and 1 or options.epochs or source == 'sst2' and 4 or 12
local target = options.target or source == 'sst2' and 70 or 90

-- ---- words as numbers ----------------------------------------------------------------------------

-- Index 1 is padding, 2 is for words that do not occur in training.
local padding, unknown, widest = 1, 2, 5
local position, count = {}, 2

local function each_word(text) return text:lower():gmatch '%S+' end
for _, sentence in ipairs(train) do
  for word in each_word(sentence.text) do
    if not position[word] then
      count = count + 1
      position[word] = count
    end
  end
end

--- Returns word indices [n x longest], padded at the end, and labels [n].
local function numbers(list)
  local rows, labels = {}, {}
  for i, sentence in ipairs(list) do
    local row = {}
    for word in each_word(sentence.text) do row[#row + 1] = position[word] or unknown end
    for k = #row + 1, widest do row[k] = padding end -- a window of 5 words must fit
    rows[i], labels[i] = mt.tensor(row, {dtype = 'int64'}), sentence.kind
  end
  local x = nn.pad_sequence(rows, {batch_first = true, padding_value = padding})
  return x:to(options.device), mt.tensor(labels):to(options.device)
end
local train_set, valid_set = data.TensorDataset(numbers(train)), data.TensorDataset(numbers(valid))

--- Returns a batch without the columns that are padding in all of its sentences.
local function cut(x)
  local longest = x:ne(padding):sum(2):max():item()
  return x[{{}, {1, math.max(longest, widest)}}]
end

-- ---- the network ---------------------------------------------------------------------------------

local TextCNN = nn.class 'TextCNN'

function TextCNN:__init(words, size, maps, dropout)
  self.embedding = nn.Embedding(words, size, {padding_idx = padding})
  self.convolutions = nn.ModuleList{nn.Conv1d(size, maps, 3), nn.Conv1d(size, maps, 4), nn.Conv1d(size, maps, widest)}
  self.dropout = nn.Dropout(dropout)
  self.out = nn.Linear(3 * maps, 1)
end

--- Maps word indices [batch x words] to one logit each; above 0 means positive.
function TextCNN:forward(x)
  local vectors = self.embedding(x):transpose(2, 3) -- [batch x size x words]
  local features = {}
  for k = 1, 3 do features[k] = self.convolutions[k](vectors):relu():amax(3) end -- max pooling
  return self.out(self.dropout(mt.cat(features, 2))):squeeze(2)
end

local net = TextCNN(count, options.size, options.maps, options.dropout):to(options.device)

--- Copies the vectors of a GloVe file ("word v1 v2 ..") into the rows of their words.
local function load_vectors(path)
  local found = 0
  mt.no_grad(function()
    for line in data.text(path):gmatch '[^\n]+' do
      local word, rest = line:match '^(%S+) (.*)$'
      local at = position[word]
      if at then
        local vector = {}
        for v in rest:gmatch '%S+' do vector[#vector + 1] = tonumber(v) end
        if #vector ~= options.size then
          refuse("%s has %d numbers for '%s'; --size is %d", path, #vector, word, options.size)
        end
        net.embedding.weight[at] = mt.tensor(vector):to(options.device)
        found = found + 1
      end
    end
  end)
  print(('%d of %d words have vectors in %s'):format(found, count - 2, path))
end
if options.glove then load_vectors(options.glove) end

print(('%d sentences (%s) to train with, %d to check, %d words'):format(#train, source, #valid, count - 2))
print(net)

-- ---- training ------------------------------------------------------------------------------------

local loader = data.DataLoader(train_set, {batch_size = options.batch, shuffle = true})
local opt = optim.Adam(net:parameters(), {lr = options.rate})
local criterion = nn.BCEWithLogitsLoss() -- the sigmoid is part of the loss

--- Returns the accuracy on the validation sentences in percent.
local function accuracy()
  local metric = metrics.Accuracy{threshold = 0} -- a logit above 0 means positive
  net:eval()
  mt.no_grad(function()
    for x, y in data.DataLoader(valid_set, {batch_size = 500}):iter() do metric:update(net(cut(x)), y) end
  end)
  net:train()
  return 100 * metric:compute()
end

-- As in MiniTorch, the best epoch is reported. It is chosen by its accuracy on the validation sentences, which is
-- therefore slightly optimistic; `accuracy` in the final line is that of the last epoch.
local curves, best = {loss = {}, accuracy = {}}, 0
local bar = mt.progress(epochs * loader:size(), {label = 'sentiment'})
for epoch = 1, epochs do
  local mean = metrics.Mean()
  for x, y in loader:iter() do
    opt:zero_grad()
    local loss = criterion(net(cut(x)), y)
    loss:backward()
    opt:step()
    mean:update(loss, #x)
    bar:update(nil, {loss = loss:item()})
  end
  curves.loss[epoch], curves.accuracy[epoch] = mean:compute(), accuracy()
  best = math.max(best, curves.accuracy[epoch])
  bar:print(('epoch %2d  loss %.4f  accuracy %.1f %%'):format(epoch, curves.loss[epoch], curves.accuracy[epoch]))
end
bar:finish()

-- ---- results -------------------------------------------------------------------------------------

--- Returns the probability that a sentence is positive.
local function probability(text)
  net:eval()
  return mt.no_grad(function()
    local x = numbers{{text = text, kind = 0}}
    return net(x):sigmoid():item()
  end)
end
local examples = options.text and {options.text} or {valid[1].text, valid[2].text, 'the film is not bad'}
for _, text in ipairs(examples) do print(('%3.0f %% positive: %.90s'):format(100 * probability(text), text)) end

if options.report then
  print('report: ' .. mt.report{path = options.report, title = 'Sentiment of sentences', config = options,
    curves = {loss = curves.loss, ['accuracy in %'] = curves.accuracy}})
end
print(('the best epoch is chosen on the %d validation sentences themselves: its %.1f %% is optimistic')
  :format(#valid, best))
print(('final: accuracy=%.1f best=%.1f loss=%.4f target=%g epochs=%d sentences=%s'):format(curves.accuracy[epochs],
  best, curves.loss[epochs], target, epochs, source))
if not small and not (best > target) then
  refuse('the best accuracy is %.1f %%, not above %g', best, target)
end
