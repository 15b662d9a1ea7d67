-- char_text.lua -- what char_lstm.lua and char_gpt.lua read: a text file, or sentences of a small grammar
local mt = require 'mtorch'

local text = {}

--- What cannot be meant ends the script with one sentence.
function text.refuse(...)
  io.stderr:write(arg[0]:match '([^/]*)%.lua$' or arg[0], ': ', string.format(...), '\n')
  os.exit(1)
end

--- The next character by its scores [characters], as a tensor [1]: by chance, or the likeliest at temperature 0.
function text.choose(scores, temperature)
  if temperature == 0 then return scores:argmax():view(1) end
  return mt.multinomial((scores / temperature):softmax(1), 1)
end

-- A sentence of the grammar is one choice of each list, all equally likely; the verb agrees with a noun that
-- stands two words before it. How much that tells is known: the logarithm of the number of sentences.
local subjects = {'cat', 'dog', 'bird', 'teacher', 'sailor', 'doctor', 'painter', 'child'}
local plurals = {child = 'children'}
local adjectives = {'small', 'old', 'hungry', 'quiet', 'happy', 'clever', 'tired', 'famous'}
local places = {'in the garden', 'near the river', 'at the market', 'on the hill'}
local verbs = {'see', 'find', 'want', 'remember', 'follow', 'need', 'paint', 'sell'}
local objects = {'house', 'boat', 'letter', 'picture', 'lamp', 'garden', 'book', 'clock'}
local colours = {'red', 'green', 'blue', 'white'}

--- n sentences as one text, and the bits that each character of it tells on average: no model can do better.
function text.sentences(n, seed)
  local lists = {subjects, adjectives, places, verbs, objects, colours, {false, true}}
  local columns, bits = {}, 0
  local generator = mt.Generator('philox', seed)
  for k, list in ipairs(lists) do
    columns[k] = mt.randint(1, #list, {n}, {generator = generator}):tolist()
    bits = bits + math.log(#list) / math.log(2)
  end
  local made = {}
  for i = 1, n do
    local function pick(k) return lists[k][columns[k][i]] end
    local many, noun, verb = pick(7), pick(1), pick(4)
    if many then noun = plurals[noun] or noun .. 's' end
    if not many then verb = verb .. 's' end
    made[i] = ('the %s %s %s %s a %s %s.\n'):format(pick(2), noun, pick(3), verb, pick(6), pick(5))
  end
  local all = table.concat(made)
  return all, bits * n / #all
end

--- The bits that a character tells to who knows the one before it, counted in the text: what a model that looks
--- further back must beat.
function text.bits_after_one(ids)
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

--- The text of a file, or sentences where `path` is nil; its name; and the bits a character that must be reached:
--- 0.1 more than the grammar has, or what a file's characters tell after one.
function text.load(path, small)
  if path then
    local file = io.open(path)
    if not file then text.refuse("--data: '%s' cannot be opened", path) end
    file:close()
    local all = mt.data.text(path)
    return all, path, function(ids) return text.bits_after_one(ids) end
  end
  local all, bits = text.sentences(small and 60 or 6000, 1)
  return all, 'sentences', function() return bits + 0.1 end
end

return text
