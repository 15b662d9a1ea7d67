-- train_gpt.lua -- trains GPT-2 of any size on text, unchanged in one process on a CPU or in many on GPUs
--
--   mtorch scripts/train_gpt.lua --data books                                 a file, or a folder of text files
--   mtorch scripts/train_gpt.lua --data books --tokenizer tokenizer.json      byte-level BPE; else a byte is a token
--   mtorch --processes 8 --restarts 3 scripts/train_gpt.lua --data books --device cuda --bf16 \
--     --layers 12 --heads 12 --width 768 --context 1024 --checkpoint gpt.ckpt
--
-- The token ids are written once into a file (PATH.tokens, PATH.NAME-SIZE.tokens with a tokenizer), from which each
-- step reads its windows, so that the text may be larger than memory. The windows of a step depend on the seed and on
-- the step alone: a run that goes on from its checkpoint, also in another number of processes, sees the same ones as a
-- run that was not stopped. Radford et al. 2019.
local ffi = require 'ffi'
local mt = require 'mtorch'
local refuse = require 'refuse'
local GPT2 = require('decoders').GPT2
local nn, optim, data, dist = mt.nn, mt.optim, mt.data, mt.dist

local options = mt.args{
  {'data', help = 'text file, or folder of text files', metavar = 'PATH', required = true},
  {'tokenizer', help = "tokenizer.json of Hugging Face's; without it each byte is a token", metavar = 'FILE'},
  {'tokens', help = 'file of the token ids, written if missing; remove it when the text changes', metavar = 'FILE'},
  {'layers', 6, 'layers', type = 'int', min = 1},
  {'heads', 6, 'attention heads; they must divide the width', type = 'int', min = 1},
  {'width', 384, 'features of a token', type = 'int', min = 1},
  {'context', 256, 'tokens of a window', type = 'int', min = 1},
  {'steps', 2000, 'steps of the optimizer', type = 'int', min = 1},
  {'batch', 32, 'windows of a step, of all processes together', type = 'int', min = 1},
  {'part', 8, 'windows of a forward pass; gradients of several add up to those of a step', type = 'int', min = 1},
  {'rate', 6e-4, 'largest learning rate of AdamW', min = 0},
  {'warmup', 100, 'steps of linear warm-up of the learning rate', type = 'int', min = 0},
  {'decay', 0.1, 'weight decay of the matrices', min = 0},
  {'clip', 1, 'largest norm of the gradients', min = 0},
  {'bf16', false, 'products in bfloat16 (mt.autocast)'},
  {'shard', 'none', 'what each process keeps a part of: the state of the optimizer, or all parameters',
    choices = {'none', 'optimizer', 'parameters'}},
  {'every', 100, 'steps from one evaluation, sample and checkpoint to the next', type = 'int', min = 1},
  {'held_out', 64, 'windows of an evaluation, from the last twentieth of the text', type = 'int', min = 1},
  {'prompt', '\n', 'beginning of the samples', metavar = 'TEXT'},
  {'sample', 100, 'tokens of a sample', type = 'int', min = 0},
  {'temperature', 0.8, 'sampling temperature', min = 0.01},
  {'checkpoint', help = 'file of the state, from which the next run goes on', type = 'output'},
  {'save', help = 'file for the trained parameters (safetensors)', type = 'output'},
  {'report', '', 'HTML page with the curves, updated during the run', type = 'output', endings = {'html'}},
  {'live', false, 'write that page each second, and let a browser that shows it load it again'},
  {'timeout', 600, 'seconds after which a process that does not answer is an error', min = 1},
}
local rank, size = dist.init{timeout = 86400} -- the others wait while one process writes the token ids
local context, device, seed = options.context, options.device, options.seed or 1
if options.width % options.heads ~= 0 then
  refuse('--heads %d do not divide --width %d', options.heads, options.width)
end
if options.prompt == '' then refuse '--prompt needs at least one character' end
if options.batch % size ~= 0 then refuse('%d processes cannot share --batch %d equally', size, options.batch) end

-- ---- the text as a file of token ids, 4 bytes each -------------------------------------------------

local tokenizer = options.tokenizer and data.BPETokenizer(options.tokenizer)

local function encode(text)
  if tokenizer then return tokenizer:encode(text):int() end
  return mt.frombuffer(text, {dtype = 'uint8'}):int() + 1
end
local function decode(ids)
  if tokenizer then return tokenizer:decode(ids) end
  local bytes = (ids:cpu() - 1):to 'uint8'
  return ffi.string(bytes:data(), #bytes)
end

--- Writes the ids of all texts, in the order of their names. A run that is stopped leaves no part of the file.
local function write_tokens(path)
  local unfinished = ('%s.%d'):format(path, rank)
  local out = assert(io.open(unfinished, 'wb'))
  local folder, written = options.data:gsub("'", [['\'']]), 0
  local names = io.popen(("find '%s' -type f ! -name '*.tokens*' | LC_ALL=C sort"):format(folder))
  for name in names:lines() do
    local file = assert(io.open(name, 'rb'))
    local ids = encode(file:read '*a')
    file:close()
    assert(out:write(ffi.string(ids:data(), 4 * #ids)))
    written = written + #ids
  end
  names:close()
  assert(out:close())
  if written == 0 then os.remove(unfinished) refuse("--data: '%s' has no text", options.data) end
  assert(os.rename(unfinished, path))
end

local kind = tokenizer and ('.%s-%d'):format(options.tokenizer:match '([^/]*)%.%w+$' or 'bpe', tokenizer:size()) or ''
local path = options.tokens or options.data:gsub('/+$', '') .. kind .. '.tokens'
local tokens = io.open(path, 'rb')
if not tokens and not io.open(options.data) then refuse("--data: '%s' cannot be opened", options.data) end
dist.barrier()
if not tokens and dist.local_rank() == 0 then write_tokens(path) end
dist.barrier()
dist.init{timeout = options.timeout}
tokens = tokens or assert(io.open(path, 'rb'))
local count = tokens:seek 'end' / 4
local cut = math.floor(count * 0.95) -- tokens before it are for training
if count - cut <= context + 1 then refuse("'%s' has %d tokens, too few for --context %d", path, count, context) end

--- Returns the windows [n x context] that begin at these tokens (from 0), and for each token the one after it.
local function windows(starts)
  local rows, bytes = {}, 4 * (context + 1)
  for i, start in ipairs(starts:tolist()) do
    tokens:seek('set', 4 * start)
    local text = tokens:read(bytes)
    if not text or #text < bytes then refuse("'%s' has become shorter", path) end
    rows[i] = mt.frombuffer(text, {dtype = 'int32'})
  end
  local x = mt.stack(rows):long():to(device)
  return x:narrow(2, 1, context), x:narrow(2, 2, context)
end

-- ---- the network and the optimizer -----------------------------------------------------------------

mt.manual_seed(seed)
local net = GPT2{vocab_size = tokenizer and tokenizer:size() or 256, n_positions = context, n_embd = options.width,
  n_layer = options.layers, n_head = options.heads, layer_norm_epsilon = 1e-5}:initialize():to(device)
local parameters, is_matrix = 0, {}
for i, p in ipairs(net:parameters()) do
  parameters, is_matrix[i] = parameters + p:numel(), p:dim() > 1
end
if options.shard == 'parameters' then dist.shard(net) else dist.parallel(net) end

local matrices, vectors = {}, {}
for i, p in ipairs(net:parameters()) do table.insert(is_matrix[i] and matrices or vectors, p) end
local opt = optim.AdamW({{params = matrices, weight_decay = options.decay}, {params = vectors, weight_decay = 0}},
  {lr = options.rate, betas = {0.9, 0.95}})
if options.shard ~= 'none' then opt = optim.Sharded(opt) end
-- Linear warm-up, then cosine decay to a tenth.
local warmup = math.min(options.warmup, options.steps)
local sched = optim.lr.LambdaLR(opt, function(done)
  if done < warmup then return (done + 1) / warmup end
  return 0.55 + 0.45 * math.cos(math.pi * math.min(1, (done - warmup) / math.max(1, options.steps - warmup)))
end)

local function loss_of(starts)
  local x, y = windows(starts)
  return mt.autocast{function() return mt.cross_entropy(net(x):flatten(1, 2), y:flatten()) end, dtype = 'bfloat16',
    enabled = options.bf16}
end

--- One step; returns the mean loss of this process's windows.
local function train_step(step)
  local starts = mt.randint(0, cut - context - 1, {options.batch}, {generator = mt.Generator('philox', seed + step)})
  local mine = options.batch / size
  local parts = starts:narrow(1, rank * mine + 1, mine):split(options.part)
  local sum = mt.zeros(1, {device = device})
  local function pass(part)
    local loss = loss_of(part) * (#part / mine)
    loss:backward()
    sum = sum + loss:detach()
  end
  opt:zero_grad()
  for i = 1, #parts - 1 do
    if options.shard == 'parameters' then pass(parts[i]) else dist.no_sync(net, pass, parts[i]) end
  end
  pass(parts[#parts]) -- averages the gradients of all processes
  nn.clip_grad_norm_(net:parameters(), options.clip)
  opt:step()
  sched:step()
  return sum
end

-- ---- evaluation and samples, by all processes together ---------------------------------------------

local function evaluate()
  local n = math.ceil(options.held_out / size)
  local starts = mt.linspace(cut, count - context - 1, n * size):long():narrow(1, rank * n + 1, n)
  local sum = mt.zeros(1, {device = device})
  mt.no_grad(function()
    for _, part in ipairs(starts:split(options.part)) do sum = sum + loss_of(part) * (#part / n) end
  end)
  return dist.all_reduce_(sum, {op = 'mean'}):item()
end

--- The prompt and the tokens after it, which all processes draw with the same random numbers.
local function sample(step)
  local generator = mt.Generator('philox', seed + step)
  return mt.no_grad(function()
    local ids, caches = encode(options.prompt):long():to(device), {}
    local last = ids
    for _ = 1, math.min(options.sample, context - #ids) do
      local scores = net(last:unsqueeze(1), caches)[{1, -1}]:float():cpu()
      last = mt.multinomial((scores / options.temperature):softmax(1), 1, {generator = generator}):to(device)
      ids = mt.cat{ids, last}
    end
    return decode(ids)
  end)
end

-- ---- the run ---------------------------------------------------------------------------------------

local state = {model = net, optim = opt, sched = sched}
local resumed = options.checkpoint and dist.checkpoint.resume(options.checkpoint, state)
local step, held_out = resumed and resumed.step or 0, nil
local report = mt.Report(rank == 0 and options or {report = '', live = false}, {title = 'GPT-2'})
dist.print(('%s: %d tokens; %d parameters, %d process%s%s'):format(path, count, parameters, size,
  size > 1 and 'es' or '', resumed and (', goes on after step %d'):format(step) or ''))

while step < options.steps do
  local n, loss = math.min(options.every - step % options.every, options.steps - step), mt.zeros(1, {device = device})
  local time = mt.time(function()
    for _ = 1, n do
      step = step + 1
      loss = loss + train_step(step) / n
    end
    dist.all_reduce_(loss, {op = 'mean'})
  end, {quiet = true})
  held_out = evaluate()
  local text, speed = sample(step), n * options.batch * context / time.wall
  dist.print(('step %5d  loss %.4f  held out %.4f  %.0f tokens/s'):format(step, loss:item(), held_out, speed))
  if #text > 0 then dist.print('  ' .. text:gsub('%c', ' ')) end
  report:scalars({['loss/train'] = loss:item(), ['loss/held out'] = held_out, ['tokens per second'] = speed}, step)
  state.step = step
  if options.checkpoint then dist.checkpoint.save(options.checkpoint, state) end
end

local trained = net:state_dict() -- of all processes together
if rank == 0 and options.save then data.save_safetensors(options.save, trained) end
if report.on then print('report: ' .. report:finish()) end
held_out = held_out or evaluate()
dist.print(('final: loss=%.4f perplexity=%.2f steps=%d'):format(held_out, math.exp(held_out), step))
