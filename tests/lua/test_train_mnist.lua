-- test_train_mnist.lua -- scripts/train_mnist.lua in small: each network, workers, a run that is resumed.
local t = require 'testing'
local root = debug.getinfo(1, 'S').source:match('^@(.*)/tests/lua/[^/]*$') or '.'
local first = -1 -- the program stands before its own options
while arg[first - 1] do first = first - 1 end

--- What the script prints with these flags, without the time that it took.
local function run(flags)
  local pipe = io.popen(('%s %s/scripts/train_mnist.lua --dry-run %s 2>&1'):format(arg[first], root, flags))
  local text = pipe:read '*a'
  pipe:close()
  return (text:gsub('seconds=[%d.]+', ''))
end
local function final(flags)
  local text = run(flags)
  return (assert(text:match '(final: [^\n]+)', text))
end

t.test('each network runs, and says how it ended', function()
  for _, model in ipairs{'module4', 'lenet', 'best'} do
    local line = final('--model ' .. model)
    assert(line:find('model=' .. model .. ' train=160 test=64 epochs=1', 1, true), line)
    assert(line:find 'accuracy=%d+%.%d+', line)
  end
  assert(run('--model module4'):find 'Epoch 1 loss %d%.%d+ valid acc %d+/16\n')
  assert(run('--help'):find '%-%-checkpoint')
  assert(run('--model resnet'):find 'best')
end)

t.test('the same with any number of workers', function()
  t.eq(final '--workers 2', final '--workers 0')
  assert(final '--seed 2' ~= final '--seed 3')
end)

t.test('a run that was stopped ends as one that was not', function()
  local path = os.tmpname()
  os.remove(path)
  local whole = final('--model lenet --epochs 3')
  final(('--model lenet --epochs 1 --checkpoint %s'):format(path))
  local text = run(('--model lenet --epochs 3 --checkpoint %s'):format(path))
  os.remove(path)
  assert(text:find('goes on after epoch 1', 1, true), text)
  t.eq(text:match '(final: [^\n]+)', whole)
end)

t.finish()
