-- char_lstm.lua -- a language model of characters: an LSTM reads a text and writes one like it
--
--   mtorch scripts/char_lstm.lua                              learns the sentences of a small grammar
--   mtorch scripts/char_lstm.lua --data book.txt --steps 5000 --hidden 256 --layers 2
--   mtorch scripts/char_lstm.lua --dry-run                    a short run of every part
--
-- The network reads one character after another and says at each place how likely every character is to come next.
-- It is trained by the surprise, -log2 of the probability of the one that did come, in bits (Mikolov 2010; Graves
-- 2013). The text is cut into `batch` long rows that are read side by side, `length` characters in each step; the
-- LSTM's state goes on from step to step, gradients end at the beginning of each (truncated backpropagation).
local mt = require 'mtorch'
local nn, optim, data = mt.nn, mt.optim, mt.data
local folder = arg[0]:match('^(.*/)') or ''
local text = dofile(folder .. 'char_text.lua')

local options = mt.args{
  {'data', help = 'text file; if not given sentences of a small grammar', metavar = 'FILE'},
  {'steps', 600, 'steps of the optimizer', type = 'int', min = 1},
  {'batch', 32, 'rows of the text that are read side by side', type = 'int', min = 1},
  {'length', 64, 'characters of each row in a step', type = 'int', min = 1},
  {'rate', 4e-3, 'learning rate', min = 0},
  {'embedding', 32, 'numbers that stand for a character', type = 'int', min = 1},
  {'hidden', 128, 'units of the LSTM', type = 'int', min = 1},
  {'layers', 1, 'layers of the LSTM', type = 'int', min = 1},
  {'dropout', 0.0, 'probability of a zero between layers', min = 0, max = 1},
  {'sample', 240, 'characters to write at the end', type = 'int', min = 0},
  {'temperature', 0.8, 'how daringly it writes; 0: always the likeliest character', min = 0},
  {'target', help = 'bits a character that must be reached', min = 0},
  {'save', help = 'file for the trained parameters (safetensors)', type = 'output'},
  {'plot', help = 'picture of the curve (.svg, .png)', endings = {'svg', 'png'}},
  {'dry_run', false, 'a short run of every part'},
}
local small = options.dry_run
local steps = small and 6 or options.steps

-- ---- data ----------------------------------------------------------------------------------------

local all, source, target_of = text.load(options.data, small)
local tokenizer = data.CharTokenizer(all)
local ids = tokenizer:encode(all):to(options.device)
local cut = math.floor(#ids * 0.9)
local target = options.target or target_of(ids:tolist())
print(('%s: %d characters, %d different ones'):format(source, #ids, tokenizer:size()))

--- The ids as rows [batch x ..] that are read side by side.
local function rows(list, batch)
  local length = math.floor(#list / batch)
  if length < 2 then text.refuse('the text is too short for %d rows', batch) end
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

--- Scores of each next character [batch x length x characters], and the state behind the last.
function Model:forward(x, h, c)
  local out
  out, h, c = self.lstm(self.embedding(x), h, c)
  return self.head(out), h, c
end

local net = Model(tokenizer:size()):to(options.device)
local opt = optim.Adam(net:parameters(), {lr = options.rate})
local sched = optim.lr.OneCycleLR(opt, {max_lr = options.rate, total_steps = steps})
print(net)

--- The loss of rows in nats a character, `length` characters at a time, and the state behind them.
local function loss_of(x, y, h, c)
  local scores
  scores, h, c = net(x, h, c)
  return mt.cross_entropy(scores:flatten(1, 2), y:flatten()), h, c
end

--- The mean surprise over the whole test text, in bits a character.
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
  return mean:compute() / math.log(2)
end

-- ---- training ------------------------------------------------------------------------------------

local curve, every = {}, math.max(1, math.floor(steps / 10))
local bar = mt.progress(steps, {label = 'char_lstm'})
local at, h, c = 1
local took = mt.time(function()
  for step = 1, steps do
    if at + options.length > train.shape[2] then at, h, c = 1, nil, nil end -- the text begins again
    local x, y = train:narrow(2, at, options.length), train:narrow(2, at + 1, options.length)
    at = at + options.length
    opt:zero_grad()
    local loss
    loss, h, c = loss_of(x, y, h, c)
    h, c = h:detach(), c:detach() -- the state goes on, its gradient does not
    loss:backward()
    nn.clip_grad_norm_(net:parameters(), 1) -- a long chain of products can make gradients very large
    opt:step()
    sched:step()
    curve[step] = loss:item() / math.log(2)
    if step % every == 0 then
      bar:print(('step %5d  train %.3f  test %.3f bits a character'):format(step, curve[step], evaluate()))
    end
    bar:update(step, {bits = curve[step]})
  end
end, {quiet = true}).wall
bar:finish()

-- ---- writing -------------------------------------------------------------------------------------

--- Text that the network writes, character by character, after a line's end.
local function write(n)
  net:eval()
  return mt.no_grad(function()
    local list, scores, state, cell = {}
    local last = ids:narrow(1, 1, 1)
    for i = 1, n do
      scores, state, cell = net(last:view(1, 1), state, cell)
      last = text.choose(scores[{1, 1}], options.temperature)
      list[i] = last:item()
    end
    return tokenizer:decode(mt.tensor(list, {dtype = 'int64'}))
  end)
end
print('it writes:\n' .. write(small and 20 or options.sample))

if options.plot then
  print('curve: ' .. mt.plot.line{y = curve, path = options.plot, xlabel = 'step', ylabel = 'bits a character'})
end
if options.save then
  data.save_safetensors(options.save, net:state_dict())
  print('parameters: ' .. options.save)
end

local bits = evaluate()
print(('final: bits=%.4f perplexity=%.3f target=%.4f steps=%d characters_per_second=%.0f'):format(bits, 2 ^ bits,
  target, steps, steps * options.batch * options.length / took))
if not small and not (bits <= target) then
  io.stderr:write(('char_lstm: %.4f bits a character on the test text, above the target of %.4f\n')
    :format(bits, target))
  os.exit(1)
end
