-- test_train_gpt.lua -- train_gpt.lua: a run that is killed goes on to the same parameters, also in two processes
local mt = require 'mtorch'
local t = require 'testing'
local test, eq = t.test, t.eq

local program = arg[0]
for i = -1, -100, -1 do program = arg[i] or program end
local folder = os.tmpname()
os.remove(folder)
os.execute(("mkdir -p '%s/one' '%s/two'"):format(folder, folder))
local script = 'scripts/train_gpt.lua --data docs/guide --tokens %s/tokens --layers 1 --heads 2 --width 16 ' ..
  '--context 16 --batch 8 --part 2 --steps 8 --every 2 --held_out 8 --sample 4 '
-- Kills the process of this rank after its second checkpoint, unless it has been started again.
local kill = [[-e "local n, c = 0, mt.dist.checkpoint local save = c.save
  rawset(c, 'save', function(...) save(...) n = n + 1
    if n ~= 2 or (os.getenv 'MTORCH_RESTART' or '0') ~= '0' or mt.dist.rank() ~= %d then return end
    os.execute 'kill -9 \$PPID'
  end)" ]]

--- Runs the script; returns its output and status.
local function run(flags, words)
  local pipe = io.popen(("OMP_NUM_THREADS=1 timeout -k 1 60 '%s' %s %s %s 2>&1; echo status $?"):format(program, flags,
    script:format(folder), words:gsub('@', folder .. '/')))
  local text = pipe:read '*a'
  pipe:close()
  return text:match '^(.*)status (%d+)\n$'
end
local function parameters(name)
  local list = {}
  for key, x in pairs(mt.data.safetensors(folder .. '/' .. name)) do list[#list + 1] = {key, x:flatten()} end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  for i, pair in ipairs(list) do list[i] = pair[2] end
  return mt.cat(list)
end
local function near(a, b)
  local far = (a - b):abs():max():item()
  assert(far < 1e-5, far)
end

local whole
test('a run that is killed goes on from its checkpoint to the same bits', function()
  local text, status = run('', '--save @whole --bf16 --report @page.html')
  assert(status == '0' and text:find 'step     8  loss [%d.]+  held out [%d.]+  %d+ tokens/s', text)
  assert(text:find 'final: loss=[%d.]+ perplexity=[%d.]+ steps=8\n' and io.open(folder .. '/page.html'), text)
  text, status = run('', '--save @whole')
  eq(status, '0')
  whole = parameters 'whole'
  text, status = run(kill:format(0), '--checkpoint @one/state')
  assert(status == '137' and text:find 'step     4' and not text:find 'final', text)
  os.execute(("cp '%s'/one/* '%s/two'"):format(folder, folder))
  text, status = run('', '--checkpoint @one/state --save @resumed')
  assert(status == '0' and text:find '1 process, goes on after step 4\n', text)
  assert(parameters 'resumed':equal(whole), 'the parameters differ')
end)

test('wrong flags are one sentence', function()
  for words, sentence in pairs{['--heads 3'] = '--heads 3 do not divide --width 16',
    ['--data /nope --tokens @none'] = "--data: '/nope' cannot be opened",
    ['--context 4000'] = "/tokens' has %d+ tokens, too few for --context 4000"} do
    local text, status = run('', words)
    assert(status == '1' and text:find('^train_gpt: .*' .. sentence:gsub('%-', '%%-') .. '\n$'), text)
  end
end)

test('a tokenizer of pieces of words', function()
  local pieces = mt.data.BPETokenizer{train = mt.data.text 'README.md', vocab_size = 300}
  pieces:save(folder .. '/tokenizer.json')
  local text, status = run('', '--data README.md --tokenizer @tokenizer.json --tokens @pieces')
  local n = #pieces:encode(mt.data.text 'README.md')
  assert(status == '0' and text:find(('/pieces: %d tokens; '):format(n)), text)
end)

if os.execute 'command -v mpirun >/dev/null' ~= 0 then
  print 'the rest is skipped: there is no mpirun'
else
  test('two processes go on where one was killed', function()
    local text, status = run('--processes 2', '--checkpoint @two/state --save @resumed --shard parameters')
    assert(status == '0' and text:find '2 processes, goes on after step 4\n', text)
    near(parameters 'resumed', whole)
  end)
  test('two processes are started again after one is killed', function()
    local text, status = run('--processes 2 --restarts 1 ' .. kill:format(1), '--checkpoint @both --save @resumed')
    assert(status == '0' and text:find('process 1 of 2 on [^ ]+ was killed by signal 9 %(Killed%); its last ' ..
      'call was .-; restart 1 of 1\n'), text)
    assert(text:find '2 processes, goes on after step 4\n', text)
    local resumed = parameters 'resumed'
    near(resumed, whole)
    text, status = run('--processes 2', '--save @undisturbed')
    assert(status == '0', text)
    assert(parameters 'undisturbed':equal(resumed), 'the parameters differ')
  end)
end
os.execute(("rm -r '%s'"):format(folder))
t.finish()
