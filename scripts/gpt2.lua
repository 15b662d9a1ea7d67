-- gpt2.lua -- generates text with GPT-2 and Llama models of the Hugging Face hub, and fine-tunes them
--
--   mtorch scripts/gpt2.lua --model gpt2 --prompt 'The sea was'          a folder with config.json, *.safetensors and
--                                                                        tokenizer.json, as huggingface-cli downloads
--   mtorch scripts/gpt2.lua --model gpt2 --tune book.txt --steps 200 --save mine
--   mtorch scripts/gpt2.lua --model gpt2 --check expected.safetensors    compares logits: input_ids and logits
--   mtorch scripts/gpt2.lua --dry-run                                    small random models of both kinds
--
-- The modules below have the same names as in transformers, so that the files' tensors can be loaded by name.
-- During generation each layer keeps the keys and values of the text so far (a KV cache), so that the forward pass
-- computes the new token only. GPT-2: Radford 2019; Llama: Touvron 2023.
local mt = require 'mtorch'
local nn, optim, data = mt.nn, mt.optim, mt.data
local attend = mt.scaled_dot_product_attention

local options = mt.args{
  {'model', help = 'folder with config.json, *.safetensors and tokenizer.json', metavar = 'DIR'},
  {'prompt', help = 'beginning of the generated text', metavar = 'TEXT'},
  {'sample', 60, 'number of tokens to generate', type = 'int', min = 0},
  {'temperature', 0.8, 'sampling temperature; 0: always the most probable token', min = 0},
  {'top_k', 40, 'sample from the k most probable tokens; 0: from all', type = 'int', min = 0},
  {'tune', help = 'text file to fine-tune on', metavar = 'FILE'},
  {'steps', 100, 'steps of fine-tuning', type = 'int', min = 1},
  {'batch', 4, 'batch size, in windows of the text', type = 'int', min = 1},
  {'length', 64, 'tokens of a window', type = 'int', min = 1},
  {'rate', 1e-4, 'learning rate', min = 0},
  {'save', help = 'folder for the fine-tuned model', metavar = 'DIR'},
  {'check', help = 'file with input_ids and logits to compare with (safetensors)', metavar = 'FILE'},
  {'target', 1e-4, 'largest allowed difference of the logits', min = 0},
  {'dry_run', false, 'small random models of both kinds'},
}

local function quit(sentence, ...)
  io.stderr:write('gpt2: ', sentence:format(...), '\n')
  os.exit(1)
end

--- Ends the script if a file cannot be opened.
local function must_open(path)
  local file = io.open(path)
  if not file then quit("'%s' cannot be opened", path) end
  file:close()
end

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

function GPT2:__init(c)
  if c.scale_attn_by_inverse_layer_idx or (c.activation_function or 'gelu_new') ~= 'gelu_new' then
    quit('GPT-2 is supported only with gelu_new and without scale_attn_by_inverse_layer_idx')
  end
  local blocks = {}
  for i = 1, c.n_layer do blocks[i] = GPT2Block(c) end
  self.transformer = nn.ModuleDict{wte = nn.Embedding(c.vocab_size, c.n_embd),
    wpe = nn.Embedding(c.n_positions, c.n_embd), h = nn.ModuleList(blocks),
    ln_f = nn.LayerNorm(c.n_embd, {eps = c.layer_norm_epsilon})}
  self.places = c.n_positions
end

--- Returns the logits of each next token [batch x length x tokens]; the embedding is also the output matrix.
function GPT2:forward(ids, caches)
  local t = self.transformer
  local x = t.wte(ids) + t.wpe.weight:narrow(1, cached_length(caches) + 1, ids.shape[2])
  for i = 1, #t.h do x = t.h[i](x, cache_of(caches, i)) end
  return mt.linear(t.ln_f(x), t.wte.weight)
end

--- Whether transformers stores this parameter as [in x out].
local function is_transposed(name)
  return name:find('%.c_%a+%.weight$') ~= nil
end
--- Returns the parameter's name for a name in a file, where 'transformer.' may be missing; false if it has none.
local function gpt2_name(name)
  if name == 'lm_head.weight' or name:find('%.attn%.bias$') or name:find('%.attn%.masked_bias$') then return false end
  return name:find('^transformer%.') and name or 'transformer.' .. name
end

-- ---- Llama ---------------------------------------------------------------------------------------

--- Returns the angles by which pairs of features rotate per position (rotary embedding, Su 2021), with Llama 3's
--- scaling for long texts.
local function frequencies(c, width)
  local rope = c.rope_parameters or c.rope_scaling or {}
  local kind, base = rope.rope_type or rope.type or 'default', rope.rope_theta or c.rope_theta or 10000
  local list = {}
  for i = 0, width - 1, 2 do
    local f = base ^ (-i / width)
    if kind == 'llama3' then
      local turns = rope.original_max_position_embeddings * f / (2 * math.pi)
      local part = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
      part = math.min(math.max(part, 0), 1)
      f = (1 - part) * f / rope.factor + part * f
    elseif kind ~= 'default' then
      quit("the rotary embedding '%s' is not supported", kind)
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
  local angles = mt.range(before, before + ids.shape[2] - 1):to(x.dtype):unsqueeze(2):to(x.device) *
    self.frequencies:to(x.device)
  local cos, sin = angles:cos(), angles:sin()
  for i = 1, #m.layers do x = m.layers[i](x, cos, sin, cache_of(caches, i)) end
  x = m.norm(x)
  return self.lm_head and self.lm_head(x) or mt.linear(x, m.embed_tokens.weight)
end

local function llama_name(name)
  return not name:find('rotary_emb%.inv_freq$') and name
end

-- ---- folders -------------------------------------------------------------------------------------

local kinds = {gpt2 = {class = GPT2, name = gpt2_name, is_transposed = is_transposed},
  llama = {class = Llama, name = llama_name, is_transposed = function() return false end}}

--- Loads all tensors of a folder from one file, or from the files in an index.
local function tensors_of(folder)
  local index = io.open(folder .. '/model.safetensors.index.json')
  if not index then
    must_open(folder .. '/model.safetensors')
    return data.safetensors(folder .. '/model.safetensors')
  end
  index:close()
  local all, opened = {}, {}
  for _, file in pairs(data.json(folder .. '/model.safetensors.index.json').weight_map) do
    if not opened[file] then
      opened[file] = true
      for name, value in pairs(data.safetensors(folder .. '/' .. file)) do all[name] = value end
    end
  end
  return all
end

--- Loads the network of a folder; returns it, its architecture, its tokenizer (or nil) and its configuration.
local function load(folder)
  must_open(folder .. '/config.json')
  local config = data.json(folder .. '/config.json')
  local kind = kinds[config.model_type]
  if not kind then
    quit("'%s' is a model of type '%s'; known are gpt2 and llama", folder, tostring(config.model_type))
  end
  local net, state = kind.class(config), {}
  for name, value in pairs(tensors_of(folder)) do
    local own = kind.name(name)
    if own == 'lm_head.weight' and config.tie_word_embeddings then own = false end
    if own then state[own] = kind.is_transposed(own) and value:t() or value end
  end
  net:load_state_dict(state)
  local path = folder .. '/tokenizer.json'
  local file = io.open(path)
  if file then file:close() end
  return net:to(options.device), kind, file and data.BPETokenizer(path) or nil, config
end

--- Saves the network with the names of transformers, and copies the other files of its folder.
local function save(net, kind, from, to)
  local state = {}
  for name, value in pairs(net:state_dict()) do
    state[name] = kind.is_transposed(name) and value:t():contiguous() or value
  end
  os.execute(("mkdir -p '%s'"):format(to:gsub("'", "'\\''")))
  data.save_safetensors(to .. '/model.safetensors', state, {metadata = {format = 'pt'}})
  for _, name in ipairs{'config.json', 'tokenizer.json'} do
    local source = io.open(from .. '/' .. name, 'rb')
    if source then
      local copy = assert(io.open(to .. '/' .. name, 'wb'))
      copy:write(source:read('*a'))
      copy:close()
      source:close()
    end
  end
end

-- ---- generation, training, comparison ------------------------------------------------------------

--- Samples the next token from its logits, with top_k; at temperature 0 takes the most probable one.
local function choose(scores)
  if options.temperature == 0 then return scores:argmax():view(1) end
  local best, at = scores:topk(math.min(options.top_k > 0 and options.top_k or #scores, #scores))
  return at[mt.multinomial((best / options.temperature):softmax(1), 1)]
end

--- Generates n tokens after `ids`; returns all of them and the tokens per second.
local function generate(net, ids, n, last)
  net:eval()
  return mt.no_grad(function()
    local caches, list = {}, ids
    local time = mt.time(function()
      local next_ids = ids
      for _ = 1, math.min(n, net.places - #ids) do
        next_ids = choose(net(next_ids:unsqueeze(1), caches)[{1, -1}])
        list = mt.cat{list, next_ids}
        if next_ids:item() == last then break end
      end
    end, {quiet = true})
    return list, (#list - #ids) / time.wall
  end)
end

--- Trains on windows of a text; returns the mean loss of the first and of the last tenth of the steps.
local function tune(net, ids, steps)
  local length = math.min(options.length, net.places, #ids - 1)
  local opt = optim.AdamW(net:parameters(), {lr = options.rate})
  local sched = optim.lr.CosineAnnealingLR(opt, {T_max = steps})
  local losses, bar = {}, mt.progress(steps, {label = 'training'})
  net:train()
  for step = 1, steps do
    local starts = mt.randint(1, #ids - length, {options.batch, 1}, {device = options.device})
    local at = starts + mt.range(0, length - 1):to(options.device)
    opt:zero_grad()
    local loss = mt.cross_entropy(net(ids[at]):flatten(1, 2), ids[at + 1]:flatten())
    loss:backward()
    nn.clip_grad_norm_(net:parameters(), 1)
    opt:step()
    sched:step()
    losses[step] = loss:item()
    bar:update(step, {loss = losses[step]})
  end
  bar:finish()
  local part = math.max(1, math.floor(steps / 10))
  local function mean(from)
    local sum = 0
    for step = from, from + part - 1 do sum = sum + losses[step] end
    return sum / part
  end
  return mean(1), mean(steps - part + 1)
end

--- Returns the largest difference of the logits from `expected`, of all tokens at once and one by one with the cache.
local function difference(net, expected)
  net:eval()
  return mt.no_grad(function()
    local ids, caches, parts = (expected.input_ids + 1):to(options.device), {}, {}
    local whole, n = net(ids):cpu(), ids.shape[2]
    local first = math.ceil(n / 2)
    parts[1] = net(ids:narrow(2, 1, first), caches):cpu()
    for i = first + 1, n do parts[#parts + 1] = net(ids:narrow(2, i, 1), caches):cpu() end
    local wanted = expected.logits:float()
    return math.max((whole - wanted):abs():max():item(), (mt.cat(parts, 2) - wanted):abs():max():item())
  end)
end

-- ---- main ----------------------------------------------------------------------------------------

--- Trains small random models of both architectures on a few sentences and generates text.
local function dry_run()
  local text = dofile((arg[0]:match('^(.*/)') or '') .. 'char_text.lua').sentences(40, 1)
  local tokenizer = data.BPETokenizer{train = text, vocab_size = 300}
  local ids, last, rate = tokenizer:encode(text):to(options.device), 0, 0
  options.rate = 1e-2
  for _, c in ipairs{
    {'gpt2', n_embd = 16, n_head = 2, n_layer = 1, n_positions = 64, layer_norm_epsilon = 1e-5},
    {'llama', hidden_size = 16, intermediate_size = 24, num_hidden_layers = 1, num_attention_heads = 4,
      num_key_value_heads = 2, rms_norm_eps = 1e-6, max_position_embeddings = 64},
  } do
    c.vocab_size = tokenizer:size()
    local net = kinds[c[1]].class(c):to(options.device)
    local first
    first, last = tune(net, ids, 20)
    local list, speed = generate(net, ids[{{1, 4}}], 10)
    rate = speed
    print(('%s: loss %.3f to %.3f; writes %q'):format(c[1], first, last, tokenizer:decode(list)))
    if not (last < first) then quit('the loss of %s did not fall', c[1]) end
  end
  print(('final: loss=%.4f tokens_per_second=%.0f'):format(last, rate))
end

if options.dry_run then return dry_run() end
if not options.model then quit('--model names a folder with config.json and model.safetensors; or --dry-run') end

if options.tune then must_open(options.tune) end
if options.check then must_open(options.check) end
local net, kind, tokenizer, config = load(options.model)
local count = 0
for _, p in ipairs(net:parameters()) do count = count + p:numel() end
print(('%s: %s, %d parameters'):format(options.model, config.model_type, count))

if options.check then
  local largest = difference(net, data.safetensors(options.check))
  print(('final: logits_difference=%.3g target=%g'):format(largest, options.target))
  if not (largest <= options.target) then quit('the logits differ by %g, more than %g', largest, options.target) end
  return
end
if not tokenizer then quit("'%s' has no tokenizer.json", options.model) end

local first, last
if options.tune then
  first, last = tune(net, tokenizer:encode(data.text(options.tune)):to(options.device), options.steps)
  print(('loss %.4f to %.4f in %d steps'):format(first, last, options.steps))
  if options.save then
    save(net, kind, options.model, options.save)
    print('saved: ' .. options.save)
  end
end

local ids = tokenizer:encode(options.prompt or '\n'):to(options.device)
local list, speed = generate(net, ids, options.sample, config.eos_token_id and config.eos_token_id + 1)
print(tokenizer:decode(list))
print(('final: tokens=%d tokens_per_second=%.1f%s'):format(#list - #ids, speed,
  last and (' loss=%.4f loss_before=%.4f'):format(last, first) or ''))
if last and not (last < first) then quit('the loss did not fall: %.4f to %.4f', first, last) end
