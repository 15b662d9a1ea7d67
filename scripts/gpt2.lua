-- gpt2.lua -- generates text with GPT-2 and Llama models of the Hugging Face hub, and fine-tunes them
--
--   mtorch scripts/gpt2.lua --model gpt2 --prompt 'The sea was'          a folder with config.json, *.safetensors and
--                                                                        tokenizer.json, as huggingface-cli downloads
--   mtorch scripts/gpt2.lua --model gpt2 --tune book.txt --steps 200 --save mine
--   mtorch scripts/gpt2.lua --model gpt2 --check expected.safetensors    compares logits: input_ids and logits
--   mtorch scripts/gpt2.lua --dry-run                                    small random models of both kinds
--
-- The modules (decoders.lua) have the same names as in transformers, so that the files' tensors can be loaded by name.
-- During generation each layer keeps the keys and values of the text so far (a KV cache), so that the forward pass
-- computes the new token only.
local mt = require 'mtorch'
local refuse = require 'refuse'
local nn, optim, data = mt.nn, mt.optim, mt.data
local decoders = require 'decoders'
local util = mt.extend.util

local options = mt.args{
  {'model', help = 'folder with config.json, *.safetensors and tokenizer.json', metavar = 'DIR'},
  {'prompt', help = 'beginning of the generated text', metavar = 'TEXT'},
  {'sample', 60, 'number of tokens to generate', type = 'int', min = 0},
  {'temperature', 0.8, 'sampling temperature; 0: always the most probable token', min = 0},
  {'top_k', 40, 'sample from the k most probable tokens; 0: from all', type = 'int', min = 0},
  {'int8', false, 'generate with int8 weights of the linear layers (nn.quantize)'},
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

--- Ends the script if a file cannot be opened.
local function must_open(path)
  if not util.exists(path) then refuse("'%s' cannot be opened", path) end
end

-- ---- parameters of files --------------------------------------------------------------------------

--- Whether transformers stores this parameter as [in x out].
local function is_transposed(name)
  return name:find('%.c_%a+%.weight$') ~= nil
end
--- Returns the parameter's name for a name in a file, where 'transformer.' may be missing; false if it has none.
local function gpt2_name(name)
  if name == 'lm_head.weight' or name:find('%.attn%.bias$') or name:find('%.attn%.masked_bias$') then return false end
  return name:find('^transformer%.') and name or 'transformer.' .. name
end
local function llama_name(name)
  return not name:find('rotary_emb%.inv_freq$') and name
end

-- ---- folders -------------------------------------------------------------------------------------

local kinds = {gpt2 = {class = decoders.GPT2, name = gpt2_name, is_transposed = is_transposed},
  llama = {class = decoders.Llama, name = llama_name, is_transposed = function() return false end}}

--- Loads all tensors of a folder from one file, or from the files in an index.
local function tensors_of(folder)
  local files, all = {['model.safetensors'] = true}, {}
  local index = folder .. '/model.safetensors.index.json'
  if util.exists(index) then
    files = {}
    for _, file in pairs(data.json(index).weight_map) do files[file] = true end
  end
  for file in pairs(files) do
    local path = folder .. '/' .. file
    must_open(path)
    for name, value in pairs(data.safetensors(path)) do all[name] = value end
  end
  return all
end

--- Loads the network of a folder; returns it, its architecture, its tokenizer (or nil) and its configuration.
local function load(folder)
  must_open(folder .. '/config.json')
  local config = data.json(folder .. '/config.json')
  local kind = kinds[config.model_type]
  if not kind then
    refuse("'%s' is a model of type '%s'; known are gpt2 and llama", folder, tostring(config.model_type))
  end
  local unsupported = kind.class.unsupported(config)
  if unsupported then refuse('%s', unsupported) end
  local net, state = kind.class(config), {}
  for name, value in pairs(tensors_of(folder)) do
    local own = kind.name(name)
    if own == 'lm_head.weight' and config.tie_word_embeddings then own = false end
    if own then state[own] = kind.is_transposed(own) and value:t() or value end
  end
  net:load_state_dict(state)
  local path = folder .. '/tokenizer.json'
  return net:to(options.device), kind, util.exists(path) and data.BPETokenizer(path) or nil, config
end

--- Saves the network with the names of transformers, and copies the other files of its folder.
local function save(net, kind, from, to)
  local state = {}
  for name, value in pairs(net:state_dict()) do
    state[name] = kind.is_transposed(name) and value:t():contiguous() or value
  end
  mt.extend.make_folders('gpt2', to)
  data.save_safetensors(to .. '/model.safetensors', state, {metadata = {format = 'pt'}})
  for _, name in ipairs{'config.json', 'tokenizer.json'} do
    local text = util.read_file(from .. '/' .. name)
    if text then util.write_file('gpt2', to .. '/' .. name, text) end
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
  if options.int8 then net = nn.quantize(net, {bits = 8}) end
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
  local all, part = mt.tensor(losses), math.max(1, math.floor(steps / 10))
  return all[{{1, part}}]:mean():item(), all[{{-part, -1}}]:mean():item()
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
  local text = ('the old cat sees a red house.\nthe child paints two blue boats in the garden.\n'):rep(40)
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
    if not (last < first) then refuse('the loss of %s did not fall', c[1]) end
  end
  print(('final: loss=%.4f tokens_per_second=%.0f'):format(last, rate))
end

if options.dry_run then return dry_run() end
if not options.model then refuse('--model names a folder with config.json and model.safetensors; or --dry-run') end

if options.tune then must_open(options.tune) end
if options.check then must_open(options.check) end
local net, kind, tokenizer, config = load(options.model)
local _, numbers = net:summary{print = false}
print(('%s: %s, %d parameters'):format(options.model, config.model_type, numbers.parameters))

if options.check then
  local largest = difference(net, data.safetensors(options.check))
  print(('final: logits_difference=%.3g target=%g'):format(largest, options.target))
  if not (largest <= options.target) then refuse('the logits differ by %g, more than %g', largest, options.target) end
  return
end
if not tokenizer then refuse("'%s' has no tokenizer.json", options.model) end

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
if last and not (last < first) then refuse('the loss did not fall: %.4f to %.4f', first, last) end
