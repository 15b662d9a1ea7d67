-- tokenizer.lua -- mt.data: text as positions of tokens and back, by characters or byte-pair encoding
local core = require 'mtorch.core'
local class = require('mtorch.data.class').class
local formats = core.formats()
local parts = core.tokenizer()

local tokenizers = {}

--- A tokenizer of the text of a tokenizer.json; errors begin with what was to be read.
local function open(name, what, json)
  local ok, held = pcall(parts.tokenizer, json)
  if not ok then core.fail('%s: %s: %s', name, what, (held:gsub('^.-:%d+: ', ''))) end
  return {held = held}
end

local encode = core.declare('encode(self, text: string, add_special_tokens: bool = true)',
  'The positions of the tokens of a text, an int64 tensor: the ids of the file + 1. add_special_tokens: with those ' ..
  'that the file puts around a text.',
  function(self, text, special) return (parts.encode(self.held, text, special)) end)

local decode = core.declare('decode(self, ids, skip_special_tokens: bool = true)',
  'The text of positions, a tensor, a list or one.',
  function(self, ids, skip)
    if type(ids) == 'table' and #ids == 0 then return '' end
    return (parts.decode(self.held, ids, skip))
  end)

local save = core.declare('save(self, path: string)', "Writes Hugging Face's tokenizer.json, which " ..
  'BPETokenizer(path) reads; returns the path.',
  function(self, path) return core.write_file('save', path, parts.json(self.held)) end)

local token = core.declare('token(self, id: int >= 1)', 'The token at a position as the file writes it, or nil.',
  function(self, id) return (parts.token(self.held, id)) end)

local id = core.declare('id(self, token: string)', 'The position of a token, or nil.',
  function(self, text) return (parts.id(self.held, text)) end)

local function tokenizer(name, signature, doc, new)
  local of = class(signature, doc, new)
  of.encode, of.decode, of.save, of.token, of.id = encode, decode, save, token, id
  function of:size() return parts.size(self.held) end
  function of:describe() return ('%s: %d tokens'):format(name, self:size()) end
  tokenizers[name] = of
end

local methods = ' t:encode(text) gives positions, t:decode(ids) text; t:size(), t:token(id), t:id(token), t:save(path).'

tokenizer('BPETokenizer', 'BPETokenizer(path: string = nil, train: string|strings = nil, vocab_size: int >= 1 = ' ..
  '30000, min_frequency: int >= 0 = 0, special_tokens: strings = nil)',
  "A byte-pair tokenizer: of Hugging Face's tokenizer.json (also .gz; GPT-2's, Llama's and their kin), or " ..
  '{train=text, vocab_size=} learned from a text or a list of texts, with all bytes as first tokens.' .. methods,
  function(path, train, vocab_size, min_frequency, special_tokens)
    if (path ~= nil) == (train ~= nil) then
      core.fail('BPETokenizer: either the path of a tokenizer.json or {train=text} is needed')
    end
    if path then return open('BPETokenizer', ("'%s'"):format(path), formats.read('BPETokenizer', path)) end
    if type(train) == 'string' then train = {train} end
    local ok, json = pcall(parts.train, train, vocab_size, min_frequency, special_tokens or {})
    if not ok then core.fail('BPETokenizer: %s', (json:gsub('^.-:%d+: ', ''))) end
    return open('BPETokenizer', 'train', json)
  end)

tokenizer('CharTokenizer', 'CharTokenizer(text: string)',
  'A tokenizer whose tokens are the characters of a text, in the order of their codes.' .. methods,
  function(text)
    local ok, json = pcall(parts.characters, text)
    if not ok then core.fail('CharTokenizer: %s', (json:gsub('^.-:%d+: ', ''))) end
    return open('CharTokenizer', 'text', json)
  end)

return tokenizers
