-- decoders.lua -- GPT-2 and Llama as modules, with the names of transformers: for gpt2.lua, train_gpt.lua
-- and the benchmark
--
-- GPT2(config) and Llama(config) take the entries of config.json. net(ids[, caches]) returns the logits of each next
-- token; `caches`, a list with {k =, v =} for each layer, has the keys and values of the text so far and gets the new
-- ones. GPT-2: Radford 2019; Llama: Touvron 2023.
local mt = require 'mtorch'
local nn = mt.nn
local attend = mt.scaled_dot_product_attention

local decoders = {}

-- ---- shared by both architectures ----------------------------------------------------------------

--- Attention with the cached keys and values before k and v, [batch x heads x length x features]. A single query
--- attends to all of them. Several queries are causal; the cache must then be empty.
local function attention(q, k, v, cache)
  if cache then
    if cache.k then k, v = mt.cat({cache.k, k}, 3), mt.cat({cache.v, v}, 3) end
    cache.k, cache.v = k, v
  end
  local y = attend(q, k, v, {is_causal = q.shape[3] > 1, enable_gqa = k.shape[2] < q.shape[2]})
  return y:transpose(2, 3):flatten(3, 4)
end

--- Splits a projection [batch x length x heads * features] into heads.
local function heads(x, n) return x:unflatten(-1, {n, x.shape[3] / n}):transpose(2, 3) end

--- Returns the cache of layer i, created at its first use.
local function cache_of(caches, i)
  if not caches then return nil end
  caches[i] = caches[i] or {}
  return caches[i]
end
local function cached_length(caches) return caches and caches[1] and caches[1].k.shape[3] or 0 end

-- ---- GPT-2 ---------------------------------------------------------------------------------------

--- The embedding of tokens, whose matrix is also the output matrix: of positions, or with `is_output` of features.
local TokenEmbedding = nn.class('TokenEmbedding', nn.Embedding)

function TokenEmbedding:forward(x, is_output)
  if is_output then return mt.linear(x, self.weight) end
  return nn.Embedding.forward(self, x)
end

local GPT2Block = nn.class 'GPT2Block'

function GPT2Block:__init(c)
  local n, inner, eps = c.n_embd, c.n_inner or 4 * c.n_embd, {eps = c.layer_norm_epsilon}
  self.n_head = c.n_head
  self.ln_1 = nn.LayerNorm(n, eps)
  self.attn = nn.ModuleDict{c_attn = nn.Linear(n, 3 * n), c_proj = nn.Linear(n, n)}
  self.ln_2 = nn.LayerNorm(n, eps)
  self.mlp = nn.ModuleDict{c_fc = nn.Linear(n, inner), c_proj = nn.Linear(inner, n)}
end

function GPT2Block:forward(x, cache)
  local q, k, v = unpack(self.attn.c_attn(self.ln_1(x)):chunk(3, -1))
  x = x + self.attn.c_proj(attention(heads(q, self.n_head), heads(k, self.n_head), heads(v, self.n_head), cache))
  return x + self.mlp.c_proj(mt.gelu(self.mlp.c_fc(self.ln_2(x)), 'tanh'))
end

local GPT2 = nn.class 'GPT2'
decoders.GPT2 = GPT2

--- Why the network of a configuration is not supported, or nil.
function GPT2.unsupported(c)
  if c.scale_attn_by_inverse_layer_idx or (c.activation_function or 'gelu_new') ~= 'gelu_new' then
    return 'GPT-2 is supported only with gelu_new and without scale_attn_by_inverse_layer_idx'
  end
end

function GPT2:__init(c)
  local blocks = {}
  for i = 1, c.n_layer do blocks[i] = GPT2Block(c) end
  self.transformer = nn.ModuleDict{wte = TokenEmbedding(c.vocab_size, c.n_embd),
    wpe = nn.Embedding(c.n_positions, c.n_embd), h = nn.ModuleList(blocks),
    ln_f = nn.LayerNorm(c.n_embd, {eps = c.layer_norm_epsilon})}
  self.places = c.n_positions
end

--- Draws the parameters for a training from the start, as GPT-2's.
function GPT2:initialize()
  for name, p in self:named_parameters() do
    local std = name:find 'c_proj%.weight$' and 0.02 / math.sqrt(2 * #self.transformer.h) or 0.02
    if p:dim() > 1 then nn.init.normal_(p, {std = std}) elseif name:find 'bias$' then nn.init.zeros_(p) end
  end
  return self
end

--- Returns the logits of each next token [batch x length x tokens].
function GPT2:forward(ids, caches)
  local t, before = self.transformer, cached_length(caches)
  local x = t.wte(ids) + t.wpe(mt.range(before + 1, before + ids.shape[2], {device = ids.device}))
  for i = 1, #t.h do x = t.h[i](x, cache_of(caches, i)) end
  return t.wte(t.ln_f(x), true)
end

-- ---- Llama ---------------------------------------------------------------------------------------

--- Returns the kind of the rotary embedding and its options.
local function rope_of(c)
  local rope = c.rope_parameters or c.rope_scaling or {}
  return rope.rope_type or rope.type or 'default', rope
end

--- Returns the angles by which pairs of features rotate per position (rotary embedding, Su 2021), with Llama 3's
--- scaling for long texts.
local function frequencies(c, width)
  local kind, rope = rope_of(c)
  local base, list = rope.rope_theta or c.rope_theta or 10000, {}
  for i = 0, width - 1, 2 do
    local f = base ^ (-i / width)
    if kind == 'llama3' then
      local turns = rope.original_max_position_embeddings * f / (2 * math.pi)
      local part = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
      part = math.min(math.max(part, 0), 1)
      f = (1 - part) * f / rope.factor + part * f
    end
    list[#list + 1] = f
  end
  return mt.tensor(list)
end

--- Rotates each feature of the first half and its partner in the second by the angles of its position.
local function rotate(x, cos, sin)
  local a, b = unpack(x:chunk(2, -1))
  return mt.cat({a * cos - b * sin, b * cos + a * sin}, -1)
end

local LlamaLayer = nn.class 'LlamaLayer'

function LlamaLayer:__init(c, width)
  local n, inner, bias = c.hidden_size, c.intermediate_size, {bias = c.attention_bias or false}
  self.heads, self.groups = c.num_attention_heads, c.num_key_value_heads or c.num_attention_heads
  self.self_attn = nn.ModuleDict{q_proj = nn.Linear(n, self.heads * width, bias),
    k_proj = nn.Linear(n, self.groups * width, bias), v_proj = nn.Linear(n, self.groups * width, bias),
    o_proj = nn.Linear(self.heads * width, n, bias)}
  bias = {bias = c.mlp_bias or false}
  self.mlp = nn.ModuleDict{gate_proj = nn.Linear(n, inner, bias), up_proj = nn.Linear(n, inner, bias),
    down_proj = nn.Linear(inner, n, bias)}
  self.input_layernorm = nn.RMSNorm(n, {eps = c.rms_norm_eps})
  self.post_attention_layernorm = nn.RMSNorm(n, {eps = c.rms_norm_eps})
end

function LlamaLayer:forward(x, cos, sin, cache)
  local a, m, y = self.self_attn, self.mlp, self.input_layernorm(x)
  local q, k, v = heads(a.q_proj(y), self.heads), heads(a.k_proj(y), self.groups), heads(a.v_proj(y), self.groups)
  x = x + a.o_proj(attention(rotate(q, cos, sin), rotate(k, cos, sin), v, cache))
  y = self.post_attention_layernorm(x)
  return x + m.down_proj(mt.silu(m.gate_proj(y)) * m.up_proj(y))
end

local Llama = nn.class 'Llama'
decoders.Llama = Llama

--- The same as GPT2.unsupported.
function Llama.unsupported(c)
  local kind = rope_of(c)
  if kind ~= 'default' and kind ~= 'llama3' then
    return ("the rotary embedding '%s' is not supported"):format(kind)
  end
end

function Llama:__init(c)
  local width, layers = c.head_dim or c.hidden_size / c.num_attention_heads, {}
  for i = 1, c.num_hidden_layers do layers[i] = LlamaLayer(c, width) end
  self.model = nn.ModuleDict{embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size), layers = nn.ModuleList(layers),
    norm = nn.RMSNorm(c.hidden_size, {eps = c.rms_norm_eps})}
  if not c.tie_word_embeddings then self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, {bias = false}) end
  self.frequencies = frequencies(c, width)
  self.places = c.max_position_embeddings
end

function Llama:forward(ids, caches)
  local m, before = self.model, cached_length(caches)
  local x = m.embed_tokens(ids)
  local angles = mt.range(before, before + ids.shape[2] - 1):unsqueeze(2):to(x.device) * self.frequencies:to(x.device)
  local cos, sin = angles:cos():to(x.dtype), angles:sin():to(x.dtype)
  for i = 1, #m.layers do x = m.layers[i](x, cos, sin, cache_of(caches, i)) end
  x = m.norm(x)
  return self.lm_head and self.lm_head(x) or mt.linear(x, m.embed_tokens.weight)
end

return decoders
