-- char_text.lua -- the training text of char_lstm.lua and char_gpt.lua: a file, or generated sentences
local mt = require 'mtorch'

local text = {}

--- Prints one sentence to stderr and exits with status 1.
function text.refuse(...)
  io.stderr:write(arg[0]:match '([^/]*)%.lua$' or arg[0], ': ', string.format(...), '\n')
  os.exit(1)
end

--- Samples the next character from logits [characters], as a tensor [1]; temperature 0 takes the most probable.
function text.choose(scores, temperature)
  if temperature == 0 then return scores:argmax():view(1) end
  return mt.multinomial((scores / temperature):softmax(1), 1)
end

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
    if not file then text.refuse("--data: '%s' cannot be opened", path) end
    file:close()
    local all = mt.data.text(path)
    return all, path, function(ids) return text.bigram_entropy(ids) end
  end
  local all, bits = text.sentences(small and 60 or 6000, 1)
  return all, 'sentences', function() return bits + 0.1 end
end

return text
