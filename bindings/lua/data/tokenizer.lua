-- tokenizer.lua -- mt.data: tokenization of text by characters or byte-pair encoding, and decoding
local core = require 'mtorch.core'
local mt = require 'mtorch'
local util = require 'mtorch.core.util'
local classes = require 'mtorch.data.class'
local formats = core.formats()
local native = core.tokenizer()

local tokenizers = {}

-- A tokenizer is the text of its file, so that it can be sent to a loader's workers; this table has the C++ objects.
local handles = setmetatable({}, {__mode = 'k'})
local function handle(self)
  local made = handles[self]
  if not made then
    core.check(type(self) == 'table' and type(self.json) == 'string',
      'a tokenizer is needed, got %s', core.describe(self))
    made = native.tokenizer(self.json)
    handles[self] = made
  end
  return made
end

local function open(what, json)
  local self = {json = json}
  util.attempt(what, handle, self)
  return self
end

local encode = core.declare('encode(self, text: string, add_special_tokens: bool = true)',
  'The positions of the tokens of a text, an int64 tensor: the ids of the file + 1. add_special_tokens: with those ' ..
  'that the file puts around a text.',
  function(self, text, special) return (native.encode(handle(self), text, special)) end)

local decode = core.declare('decode(self, [ids], skip_special_tokens: bool = true)',
  'The text of positions, an integer tensor, a list or one.',
  function(self, ids, skip)
    if type(ids) == 'table' and #ids == 0 then return '' end
    if mt.is_tensor(ids) and ids:numel() > 0 and not ids.dtype:find 'int' then
      core.fail('decode: ids must be whole numbers, got %s; use ids:long()', core.describe(ids))
    end
    return (native.decode(handle(self), ids, skip))
  end)

local save = core.declare('save(self, path: string)', "Writes Hugging Face's tokenizer.json, which " ..
  'BPETokenizer(path) reads; returns the path.',
  function(self, path) return core.write_file('save', path, self.json) end)

local token = core.declare('token(self, id: int >= 1)', 'The token at a position as the file writes it, or nil.',
  function(self, id) return (native.token(handle(self), id)) end)

local id = core.declare('id(self, token: string)', 'The position of a token, or nil.',
  function(self, text) return (native.id(handle(self), text)) end)

local function tokenizer(name, signature, doc, new)
  local of = classes.class(signature, doc, new, 'tok')
  of.encode, of.decode, of.save, of.token, of.id = encode, decode, save, token, id
  function of:size() return native.size(handle(self)) end
  function of:describe() return ('%s: %d tokens'):format(name, self:size()) end
  tokenizers[name] = of
end

local methods = ' t:encode(text) gives positions, t:decode(ids) text; t:size(), t:token(id), t:id(token), t:save(path).'

tokenizer('BPETokenizer', 'BPETokenizer(path: string = nil, train: string|strings = nil, vocab_size: int >= 1 = ' ..
  '30000, min_frequency: int >= 0 = 0, special_tokens: strings = nil)',
  "A byte-pair tokenizer: of Hugging Face's tokenizer.json (also .gz; GPT-2's, Llama's and similar functions), or " ..
  '{train=text, vocab_size=} learned from a text or a list of texts, with all bytes as first tokens. The truncation ' ..
  'and padding of a file are left out.' .. methods,
  function(path, train, vocab_size, min_frequency, special_tokens)
    core.check((path ~= nil) ~= (train ~= nil),
      'BPETokenizer: either the path of a tokenizer.json or {train=text} is needed')
    if path then return open(("BPETokenizer: '%s'"):format(path), (formats.read('BPETokenizer', path))) end
    if type(train) == 'string' then train = {train} end
    return open('BPETokenizer: train',
      util.attempt('BPETokenizer', native.train, train, vocab_size, min_frequency, special_tokens or {}))
  end)

tokenizer('CharTokenizer', 'CharTokenizer(text: string)',
  'A tokenizer whose tokens are the characters of a text, in the order of their codes.' .. methods,
  function(text)
    return (open('CharTokenizer: text', util.attempt('CharTokenizer', native.characters, text)))
  end)

return tokenizers
