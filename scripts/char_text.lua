-- char_text.lua -- what char_lstm.lua and char_gpt.lua share: the text (a file, or sentences), training, results
local mt = require 'mtorch'
local refuse = require 'refuse'

local text = {}

--- Samples the next character from logits [characters], as a tensor [1]; temperature 0 takes the most probable.
function text.choose(scores, temperature)
  if temperature == 0 then return scores:argmax():view(1) end
  return mt.multinomial((scores / temperature):softmax(1), 1)
end

-- ---- the text --------------------------------------------------------------------------------------

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
function text.sentences(n, seed)
  local lists = {subjects, adjectives, places, verbs, objects, colours, {false, true}}
  local columns, bits = {}, 0
  local generator = mt.Generator('philox', seed)
  for k, list in ipairs(lists) do
    columns[k] = mt.randint(1, #list, {n}, {generator = generator}):tolist()
    bits = bits + math.log(#list) / math.log(2)
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

--- Returns the conditional entropy of a character given the previous one, in bits, as counted in the text. A model
--- with a longer context must be better.
function text.bigram_entropy(ids)
  local pairs_seen, first_seen, n = {}, {}, #ids
  for i = 1, n - 1 do
    local pair = ids[i] * 65536 + ids[i + 1]
    pairs_seen[pair], first_seen[ids[i]] = (pairs_seen[pair] or 0) + 1, (first_seen[ids[i]] or 0) + 1
  end
  local bits = 0
  for pair, count in pairs(pairs_seen) do
    bits = bits - count / (n - 1) * math.log(count / first_seen[math.floor(pair / 65536)]) / math.log(2)
  end
  return bits
end

--- Returns the text of a file, or sentences if `path` is nil; its name; and a function that returns the target in bits
--- per character: 0.1 above the grammar's entropy, or the bigram entropy of the file.
function text.load(path, small)
  if path then
    local file = io.open(path)
    if not file then refuse("--data: '%s' cannot be opened", path) end
    file:close()
    local all = mt.data.text(path)
    return all, path, function(ids) return text.bigram_entropy(ids) end
  end
  local all, bits = text.sentences(small and 60 or 6000, 1)
  return all, 'sentences', function() return bits + 0.1 end
end

-- ---- training and results --------------------------------------------------------------------------

local log_2 = math.log(2) -- losses are in nats, the curve in bits

--- Trains for `steps` steps and prints `prints` times how far it is. of: {net =, opt =, sched =, loss = function() that
--- returns the loss of the next step's characters, evaluate = function() that returns the loss on the test text}.
--- Returns the losses in bits, and the seconds.
function text.train(of, steps, prints)
  local curve, every = {}, math.max(1, math.floor(steps / prints))
  local bar = mt.progress(steps, {label = arg[0]:match '([^/]*)%.lua$'})
  local time = mt.time(function()
    for step = 1, steps do
      of.opt:zero_grad()
      local loss = of.loss()
      loss:backward()
      mt.nn.clip_grad_norm_(of.net:parameters(), 1) -- a long chain of products can make gradients very large
      of.opt:step()
      of.sched:step()
      curve[step] = loss:item() / log_2
      if step % every == 0 then
        bar:print(('step %5d  train %.3f  test %.3f bits per character'):format(step, curve[step],
          of.evaluate() / log_2))
      end
      bar:update(step, {bits = curve[step]})
    end
  end, {quiet = true})
  bar:finish()
  return curve, time.wall
end

--- Writes the curve and the parameters where the options ask for it, and prints the final line. Unless it is a dry run
--- the script fails if the loss on the test text is above the target, in bits per character.
function text.finish(of, options, curve, target, per_second)
  if options.plot then
    print('curve: ' .. mt.plot.line{y = curve, path = options.plot, xlabel = 'step', ylabel = 'bits per character'})
  end
  if options.save then
    mt.data.save_safetensors(options.save, of.net:state_dict())
    print('parameters: ' .. options.save)
  end
  local bits = of.evaluate() / log_2
  print(('final: bits=%.4f perplexity=%.3f target=%.4f steps=%d characters_per_second=%.0f'):format(bits, 2 ^ bits,
    target, #curve, per_second))
  if not options.dry_run and not (bits <= target) then
    refuse('%.4f bits per character on test text, above the target of %.4f', bits, target)
  end
end

return text
