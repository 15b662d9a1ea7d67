-- test_train_mnist.lua -- short runs of scripts/train_mnist.lua: each network, workers, a resumed run
local t = require 'testing'
local root = debug.getinfo(1, 'S').source:match('^@(.*)/tests/lua/[^/]*$') or '.'
local first = -1 -- the program's name is before its options
while arg[first - 1] do first = first - 1 end

--- Runs the script with these flags, by default as a dry run; returns its output without the time.
local function run(flags, mode)
  local pipe = io.popen(('%s %s/scripts/train_mnist.lua %s %s 2>&1'):format(arg[first], root, mode or '--dry-run',
    flags))
  local text = pipe:read '*a'
  pipe:close()
  return (text:gsub('seconds=[%d.]+', ''))
end
local function final(flags, mode)
  local text = run(flags, mode)
  return (assert(text:match '(final: [^\n]+)', text))
end

t.test('each network runs and prints its result', function()
  for _, model in ipairs{'module4', 'lenet', 'best'} do
    local line = run('--model ' .. model)
    assert(model ~= 'module4' or line:find 'Epoch 1 loss %d%.%d+ valid acc %d+/16\n', line)
    assert(line:find('model=' .. model .. ' train=160 test=64 epochs=1', 1, true), line)
    assert(line:find 'accuracy=%d+%.%d+', line)
  end
  assert(run('--help'):find '%-%-checkpoint')
  assert(run('--model resnet'):find 'best')
end)

t.test('the same with any number of workers', function()
  local alone = final '--workers 0'
  t.eq(final '--workers 2', alone)
  assert(final '--seed 2' ~= alone)
end)

t.test('a run that was stopped ends as one that was not', function()
  local path = os.tmpname()
  os.remove(path)
  local few = '--train 160 --target 0.1' -- a dry run keeps no checkpoint
  local whole = final('--model lenet --epochs 3', few)
  final(('--model lenet --epochs 1 --checkpoint %s'):format(path), few)
  local text = run(('--model lenet --epochs 3 --checkpoint %s'):format(path), few)
  os.remove(path)
  assert(text:find('goes on after epoch 1', 1, true), text)
  t.eq(text:match '(final: [^\n]+)', whole)
end)

t.test('averaged parameters work with few steps; a number of epochs other than the schedule\'s is an error', function()
  local path = os.tmpname()
  os.remove(path)
  local few = ('--model best --train 640 --target 0.1 --checkpoint %s'):format(path)
  local line = final('--epochs 3', few)
  assert(tonumber(line:match 'accuracy=([%d.]+)') > 50, line)
  for _, epochs in ipairs{2, 4} do
    local text = run('--epochs ' .. epochs, few)
    assert(text:find(('^train_mnist: [^\n]* is of 3 epochs, not %d: say %%-%%-epochs 3[^\n]*\n$'):format(epochs)), text)
  end
  os.remove(path)
end)

t.test('a dry run leaves no file', function()
  local path = os.tmpname()
  os.remove(path)
  final('--model module4 --checkpoint ' .. path)
  local file = io.open(path)
  if file then file:close() end
  t.eq(file, nil)
end)

t.test('invalid flags are one sentence', function()
  for flags, sentence in pairs{['--batch -3'] = '%-%-batch must be a whole number from 1, got %-3',
    ['--epochs 1.5'] = '%-%-epochs must be', ['--rate -1'] = '%-%-rate must be',
    ['--batch 500'] = '160 digits are fewer than a batch of 500'} do
    local text = run(flags)
    assert(text:find('^[^\n]*train_mnist[^\n]*: ' .. sentence .. '[^\n]*\n$'), text)
  end
end)

t.finish()
