-- test_tokenizer.lua -- tokenizers compared with Hugging Face's, with small files of each kind; training; characters
local mt = require 'mtorch'
local t = require 'testing'
local data = mt.data
local here = debug.getinfo(1, 'S').source:match '^@(.*)/lua/[^/]*$'
local values = dofile(here .. '/data/tokenizer_values.lua')
local corpus = table.concat(values.corpus)

local path = os.tmpname()
local function write(text)
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
  return path
end

local function ids_of(tokens)
  local ids = tokens:tolist()
  for k = 1, #ids do ids[k] = ids[k] - 1 end
  return ids
end

for _, name in ipairs {'gpt2', 'llama3', 'llama2', 'metaspace', 'roberta', 'removed'} do
  local file = here .. '/data/tokenizers/' .. name .. '.json'
  t.test(name .. ': the ids and the texts of tokenizers', function()
    local tokenizer = data.BPETokenizer(file)
    for k, text in ipairs(values.texts) do
      local want = values[name][k]
      local got = tokenizer:encode(text)
      local ids = table.concat(ids_of(got), ' ')
      if ids ~= table.concat(want.ids, ' ') then
        error(('%q: %s, expected %s'):format(text, ids, table.concat(want.ids, ' ')))
      end
      local back = tokenizer:decode(got)
      local expected = want.back == true and text or want.back
      if back ~= expected then error(('%q is decoded to %q, expected %q'):format(text, back, expected)) end
    end
  end)
end

t.test('positions, tokens, ids', function()
  local tokenizer = data.BPETokenizer(here .. '/data/tokenizers/gpt2.json')
  local x = tokenizer:encode('The')
  t.eq({x.dtype, tostring(tokenizer)}, {'int64', 'BPETokenizer: 402 tokens'})
  t.eq({tokenizer:size(), tokenizer:token(1), tokenizer:id('<|endoftext|>')}, {402, '<|endoftext|>', 1})
  t.eq({tokenizer:id('nothing'), tokenizer:token(403)}, {})
  t.eq(tokenizer:token(tokenizer:id 'Ġthe'), 'Ġthe')
  t.eq({tokenizer:decode(x), tokenizer:decode(x:tolist()), tokenizer:decode({}), tokenizer:decode(x[1])},
    {'The', 'The', '', tokenizer:token(x:at(1))})
  local special = tokenizer:encode('a<|endoftext|>b')
  t.eq({tokenizer:decode(special), tokenizer:decode(special, false)}, {'ab', 'a<|endoftext|>b'})
  local llama = data.BPETokenizer(here .. '/data/tokenizers/llama3.json')
  t.eq({#llama:encode('', {add_special_tokens = false}), llama:encode(''):tolist()}, {0, {1}})
  for _, bad in ipairs {0, 403, -1} do
    local shown = tostring(bad):gsub('-', '%%-')
    t.raises(function() tokenizer:decode({bad}) end, ('decode: token %s is outside 1..402'):format(shown))
  end
  t.raises(function() tokenizer:decode({1.5}) end, 'decode')
  local two = mt.tensor({2, 3}, {dtype = 'int64'})
  local text = tokenizer:token(2) .. tokenizer:token(3)
  t.eq({tokenizer:decode(two), tokenizer:decode({2, 3}), tokenizer:decode(two:tolist(), false),
    tokenizer:decode({2, 3}, {skip_special_tokens = false})}, {text, text, text, text})
  t.eq(data.CharTokenizer('abc'):decode({3, 1, 2}), 'cab')
  t.raises(function() tokenizer:decode(two:float()) end, 'decode: ids must be whole numbers, got .*; use ids:long%(%)')
  t.raises(function() tokenizer:encode(5) end, 'encode: text must be a string')
  t.raises(function() tokenizer:token(0) end, 'from 1')
end)

t.test('an added token of single words stands beside characters of several bytes', function()
  local file = data.json(here .. '/data/tokenizers/gpt2.json')
  for id, content in ipairs{'foo', 'bar'} do
    table.insert(file.added_tokens, {id = 401 + id, content = content, single_word = id == 1, lstrip = id == 2,
      rstrip = false, normalized = false, special = false})
  end
  data.save_json(path, file)
  local tokenizer = data.BPETokenizer(path)
  local function has(text) return tokenizer:encode(text):eq(403):any() end
  t.eq({has 'ẞfoo', has 'Ⅷfoo', has '日foo', has '。foo', has 'a foo。'}, {false, false, false, true, true})
  t.eq(tokenizer:encode('\xe3\x80\x80bar'):tolist(), {404}) -- an ideographic space
end)

t.test('any bytes come back from byte-level tokens', function()
  local tokenizer = data.BPETokenizer(here .. '/data/tokenizers/gpt2.json')
  mt.manual_seed(3)
  for n = 1, 40 do
    local bytes = {}
    for i, v in ipairs(mt.randint(0, 255, {n * 7}):tolist()) do bytes[i] = string.char(v) end
    bytes = table.concat(bytes)
    if tokenizer:decode(tokenizer:encode(bytes)) ~= bytes then error(('%q'):format(bytes)) end
  end
end)

t.test('training gives the merges of tokenizers', function()
  local tokenizer = data.BPETokenizer{train = corpus, vocab_size = 380, special_tokens = {'<s>'}}
  t.eq(tokenizer:size(), 380)
  tokenizer:save(path)
  local file = data.json(path)
  local merges = {}
  for k, pair in ipairs(file.model.merges) do merges[k] = pair[1] .. ' ' .. pair[2] end
  t.eq(merges, values.merges)
  local again = data.BPETokenizer(path)
  t.eq(again:encode(corpus):tolist(), tokenizer:encode(corpus):tolist())
  t.eq(again:decode(again:encode(corpus)), corpus)
  t.eq(again:encode('<s>').shape, mt.zeros(1).shape)
  local few = data.BPETokenizer{train = {'aaaa', 'aaaa'}, vocab_size = 1000}
  t.eq({few:size(), #few:encode('aaaa')}, {258, 1})
  t.eq(data.BPETokenizer{train = 'ab ab cd', vocab_size = 300, min_frequency = 2}:size(), 257)
  t.eq(data.BPETokenizer{train = 'abc', vocab_size = 257, special_tokens = {'a'}}:id('a'), 1) -- also a letter
  t.raises(function() data.BPETokenizer{train = 'a', vocab_size = 255} end,
    'test_tokenizer.lua:%d+: BPETokenizer: vocab_size is 255; the 256 bytes and 0 special tokens need 256')
  t.raises(function() data.BPETokenizer{vocab_size = 300} end, 'either the path of a tokenizer.json or {train=text}')
end)

t.test('a long piece is merged as short ones are', function()
  local tokenizer = data.BPETokenizer(here .. '/data/tokenizers/gpt2.json')
  local long = ('theyll'):rep(20000)
  local x = tokenizer:encode(long)
  t.eq(tokenizer:decode(x), long)
  local one = tokenizer:encode(('theyll'):rep(200))
  t.eq(x[{{1, #one - 20}}]:tolist(), one[{{1, #one - 20}}]:tolist())
end)

t.test('a million spaces', function()
  local tokenizer = data.BPETokenizer(here .. '/data/tokenizers/llama3.json')
  local long = (' '):rep(2000000) .. 'a'
  t.eq(tokenizer:decode(tokenizer:encode(long)) == long, true)
end)

t.test('training reads a word of a million letters once a merge', function()
  local text = ('ab'):rep(2 ^ 19)
  local tok = data.BPETokenizer{train = text, vocab_size = 256 + 20}
  t.eq({tok:size(), #tok:encode(text), #tok:token(tok:size())}, {276, 1, 2 ^ 20})
end)

t.test('CharTokenizer', function()
  local tokenizer = data.CharTokenizer('hello, wörld\n')
  t.eq({tokenizer:size(), tokenizer:token(1), tokenizer:id('ö'), tostring(tokenizer)},
    {11, '\n', 11, 'CharTokenizer: 11 tokens'})
  t.eq(#tokenizer, 11)
  t.raises(function() for _ in tokenizer do break end end, 'CharTokenizer: for id = 1, tok:size%(%) do')
  local x = tokenizer:encode('wörd')
  t.eq({x:tolist(), tokenizer:decode(x)}, {{10, 11, 9, 4}, 'wörd'})
  t.raises(function() tokenizer:encode('hex') end, "encode: the character 'x' is not among the tokenizer's 11 tokens")
  t.raises(function() tokenizer:encode('日') end, "the character '日', U%+65E5 is not among")
  t.raises(function() tokenizer:encode('\255') end, 'encode: the byte 0xFF is not among')
  t.raises(function() data.CharTokenizer('') end, 'CharTokenizer: the text is empty')
  t.raises(function() data.CharTokenizer('\255') end, 'CharTokenizer: the text is not UTF%-8')
  tokenizer:save(path)
  local again = data.BPETokenizer(path)
  t.eq({again:encode('wörd'):tolist(), again:decode(x)}, {{10, 11, 9, 4}, 'wörd'})
end)

t.test('workers of a loader have copies', function()
  local tokenizer = data.CharTokenizer('abc')
  local set = {size = function() return 4 end}
  function set.get(_, i)
    assert(#tokenizer == 3)
    return tokenizer:encode(('abca'):sub(i, i))
  end
  local seen = {}
  for x in data.DataLoader(set, {batch_size = 2, workers = 1}):iter() do seen[#seen + 1] = x:tolist() end
  t.eq(seen, {{{1}, {2}}, {{3}, {1}}})
end)

t.test('WhitespaceSplit leaves out white space', function()
  local text, n = data.text(here .. '/data/tokenizers/gpt2.json'):gsub('"pre_tokenizer":%b{}', '"pre_tokenizer":' ..
    '{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},' ..
    '{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]}')
  t.eq(n, 1)
  local tokenizer = data.BPETokenizer(write(text))
  local x = tokenizer:encode(" the\t cat's\n\u{a0}\u{3000}dog, ")
  t.eq(tokenizer:decode(x), "thecat'sdog,")
  t.eq(x:tolist(), mt.cat{tokenizer:encode 'the', tokenizer:encode "cat's", tokenizer:encode 'dog,'}:tolist())
end)

--- Returns the pieces of a text, each after a '|', by a tokenizer of characters with these preprocessing steps.
local function pieces(text, step, normalizer)
  local vocab, seen = {}, {}
  for character in ('|' .. text .. 'e\u{301}\u{e9}fiss\u{307}i'):gmatch '[%z\1-\127\194-\244][\128-\191]*' do
    if not seen[character] then
      seen[character] = true
      vocab[#vocab + 1] = ('"%s":%d'):format(character == '\t' and '\\t' or character, #vocab)
    end
  end
  local steps = step and step .. ',' or ''
  local tokenizer = data.BPETokenizer(write(('{"model":{"type":"BPE","vocab":{%s},"merges":[]},"normalizer":%s,' ..
    '"pre_tokenizer":{"type":"Sequence","pretokenizers":[%s{"type":"Metaspace","replacement":"|",' ..
    '"prepend_scheme":"always","split":false}]}}'):format(table.concat(vocab, ','), normalizer or 'null', steps)))
  local tokens = {}
  for i, id in ipairs(tokenizer:encode(text):tolist()) do tokens[i] = tokenizer:token(id) end
  return table.concat(tokens)
end

t.test('spaces and words of patterns are those of Unicode', function()
  local step = '{"type":"Split","pattern":{"Regex":"%s+"},"behavior":"Isolated","invert":false}'
  t.eq(pieces('a\u{180e}b \u{3000}c', step:format '\\\\s'), '|a\u{180e}b|\u{3000}|c')
  t.eq(pieces('fe\u{301},s', step:format '\\\\w'), '|fe\u{301}|,|s')
end)

t.test('behaviors of Split and Punctuation, Whitespace: the pieces of Hugging Face', function()
  for behavior, want in pairs{Removed = {'|the|and|of', '|,|,|,'},
    Isolated = {'|the|,|and|,|,|of', '|the|,|and|,|,|of'}, Contiguous = {'|the|,|and|,,|of', '|the|,|and|,,|of'},
    MergedWithPrevious = {'|the,|and,|,|of', '|the|,and|,|,of'},
    MergedWithNext = {'|the|,and|,|,of', '|the,|and,|,|of'}} do
    for i, invert in ipairs{'false', 'true'} do
      local step = ('{"type":"Split","pattern":{"String":","},"behavior":"%s","invert":%s}'):format(behavior, invert)
      t.eq(pieces('the,and,,of', step), want[i])
    end
    t.eq(pieces('the,and,,of', ('{"type":"Punctuation","behavior":"%s"}'):format(behavior)), want[1])
  end
  t.eq(pieces('a-b$c_\u{3002}d', '{"type":"Punctuation"}'), '|a|-|b|$|c|_|\u{3002}|d')
  t.eq(pieces('snake_case, \u{65e5}\u{672c}!? \t3+4', '{"type":"Whitespace"}'),
    '|snake_case|,|\u{65e5}\u{672c}|!?|3|+|4')
end)

t.test('normal forms and lower case', function()
  local function normal(text, form) return pieces(text, nil, ('{"type":"%s"}'):format(form)) end
  local ok, why = pcall(normal, 'e', 'NFC')
  if not ok then
    assert(why:find 'Unicode normalization: libutf8proc%.so%.3 cannot be loaded; on Debian: apt%-get install', why)
    return
  end
  local text = 'e\u{301}\u{e9}\u{fb01}'
  t.eq(normal(text, 'NFC'), '|\u{e9}\u{e9}\u{fb01}')
  t.eq(normal(text, 'NFD'), '|e\u{301}e\u{301}\u{fb01}')
  t.eq(normal(text, 'NFKC'), '|\u{e9}\u{e9}fi')
  t.eq(normal(text, 'NFKD'), '|e\u{301}e\u{301}fi')
  t.eq(normal('FISS\u{c9}\u{130}', 'Lowercase'), '|fiss\u{e9}i\u{307}')
end)

t.test('unsupported parts are reported', function()
  local file = data.text(here .. '/data/tokenizers/gpt2.json')
  local function refused(pattern, from, to)
    local text, n = file:gsub(from, to)
    assert(n > 0, from)
    t.raises(function() return (data.BPETokenizer(write(text))) end, pattern)
  end
  refused("BPETokenizer: '.*': its model is WordPiece, only BPE is supported", '"type":"BPE"', '"type":"WordPiece"')
  refused("the pre%-tokenizer 'UnicodeScripts' is not supported", '"pre_tokenizer":{"type":"ByteLevel"',
    '"pre_tokenizer":{"type":"UnicodeScripts"')
  refused("the pre%-tokenizer Split's behavior 'Glued' is not supported", '"pre_tokenizer":{"type":"ByteLevel"',
    '"pre_tokenizer":{"type":"Split","behavior":"Glued","pattern":{"String":","},"was":"ByteLevel"')
  refused("the decoder 'WordPiece' is not supported", '"decoder":{"type":"ByteLevel"', '"decoder":{"type":"WordPiece"')
  refused("the normalizer 'Nmt' is not supported", '"normalizer":null', '"normalizer":{"type":"Nmt"}')
  refused("merge 1, 'zz' and 'e': one of them, or both", '"merges":%[%["[^"]*"', '"merges":[["zz"')
  refused('has the id %-1', '"!":%d+', '"!":-1')
  refused('have ids up to 15000000', '"!":%d+', '"!":15000000')
  refused('has the id 99999999999', '"!":%d+', '"!":99999999999')
  refused('is not an integer', '"!":%d+', '"!":"1"')
  refused('line 1, column', '"version"', 'version')
  refused("no 'model'", '"model"', '"modell"')
  local split = '"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":"%s"},"was":"ByteLevel"'
  for pattern, what in pairs {['(a'] = 'the pattern is not valid at character 3: missing closing parenthesis',
    ['a)'] = 'unmatched closing parenthesis', ['*'] = 'quantifier does not follow', ['[a&&b]'] = 'the pattern has &&',
    ['\\\\p{Hann}'] = 'unknown property', [('('):rep(300)] = 'nested'} do
    refused(what, '"pre_tokenizer":{"type":"ByteLevel"', function() return split:format(pattern) end)
  end
end)

os.remove(path)
t.finish()
