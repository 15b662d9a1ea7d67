-- test_scripts.lua -- the training scripts: invalid flags, generation at temperature 0, dry runs
local t = require 'testing'

local scripts = (arg[0]:match '^(.*/)' or './') .. '../../scripts/'
local first = -1 -- the program's name is before its options
while arg[first - 1] do first = first - 1 end

--- Runs a script; returns its output, with errors, and its exit status.
local function run(name, flags)
  local pipe = io.popen(("'%s' '%s%s.lua' %s 2>&1; echo status $?"):format(arg[first], scripts, name, flags))
  local text, status = pipe:read '*a':match '^(.*)status (%d+)\n$'
  pipe:close()
  return text, tonumber(status)
end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

t.test('invalid flags are one sentence, before any training', function()
  for _, case in ipairs{
    {'cartpole', '--episodes 0', '--episodes must be a whole number from 1, got 0'},
    {'cartpole', '--limit 2.5', '--limit must be a whole number from 1, got 2.5'},
    {'vae', '--latent 0', '--latent must be a whole number from 1, got 0'},
    {'transfer', '--target 2', '--target must be a number from 0 to 1, got 2'},
    {'regression', '--epochs 0', '--epochs must be a whole number from 1, got 0'},
    {'char_lstm', '--temperature -1', '--temperature must be a number from 0, got -1'},
    {'char_lstm', '--steps 0', '--steps must be a whole number from 1, got 0'},
    {'char_lstm', '--data /nope', "--data: '/nope' cannot be opened"},
    {'vae', '--plot /nope/a.svg', "--plot: '/nope/a.svg' cannot be written: there is no folder '/nope'"},
    {'char_lstm', '--plot a.gif', "--plot must be a file to write that ends in .svg or .png, got 'a.gif'"},
    {'lessons/matmul_ladder', '--rows 4', '--rows must be a whole number from 5, got 4'},
    {'tools/reference', '--help',
      "'--help' is not a page or stubs; mtorch scripts/tools/reference.lua [FILE.md | FILE.lua]"},
  } do
    local name, flags, sentence = unpack(case)
    local text, status = run(name, flags)
    assert(text:find('^[^\n]*' .. name) and text:sub(-#sentence - 3) == ': ' .. sentence .. '\n', text)
    assert(status > 0 and select(2, text:gsub('\n', '')) == 1, text)
  end
end)

t.test('matmul_ladder finds a mistake that the result on digits does not show', function()
  local file = assert(io.open(scripts .. 'lessons/matmul_ladder.lua'))
  local text, changes = file:read '*a':gsub('k = 0, n %- 1', 'k = 1, n', 1)
  file:close()
  t.eq(changes, 1)
  local path = os.tmpname()
  file = assert(io.open(path, 'w'))
  file:write(text)
  file:close()
  local pipe = io.popen(("'%s' '%s' --rows 5 --runs 1 --plot '' 2>&1"):format(arg[first], path))
  local said = pipe:read '*a'
  pipe:close()
  os.remove(path)
  assert(said:find 'elements differ', said)
end)

t.test('sweep: without --metric runs are ranked by a validation metric, which is reported', function()
  local path, page = os.tmpname(), os.tmpname() .. '.html'
  for _, case in ipairs{
    {'loss=%g correct=3', 'ranked by loss, the smaller the better, in training (--metric, --mode): the runs print ' ..
      'correct, loss\n', 'rate=1'},
    {'loss=0.5 accuracy=%g', 'ranked by accuracy, the larger the better (', 'rate=3'},
    {'loss=0.5 accuracy=0.2 valid_loss=%g', 'ranked by valid_loss, the smaller the better (', 'rate=1'},
    {'loss=%g', '', 'rate=3', '--metric loss --mode max'},
  } do
    local line, sentence, best, flags = unpack(case)
    local file = assert(io.open(path, 'w'))
    file:write(("local o = require('mtorch').args{rate = 1}\nprint(('final: %s'):format(o.rate))\n"):format(line))
    file:close()
    local text, status = run('sweep', ("--script %s --over rate=2,3,1 --report %s %s"):format(path, page, flags or ''))
    assert(status == 0 and text:find(sentence, 1, true), text)
    assert(text:match('final: [^\n]*'):find(best .. '$'), text)
    assert(text:find('  1  ' .. best, 1, true), text)
    assert((text:find 'ranked by' ~= nil) == (sentence ~= ''), text)
  end
  os.remove(path)
  os.remove(page)
end)

t.test('temperature 0 generates the most probable characters', function()
  local text, status = run('char_lstm', '--dry-run --temperature 0')
  assert(status == 0 and text:find 'it writes:\n', text)
  local best = run('char_lstm', '--dry-run --temperature 1e-6') -- so low that sampling is deterministic
  t.eq(text:match 'it writes:\n(.-)final: ', best:match 'it writes:\n(.-)final: ')
end)

t.test('regression: its picture has the points and the line that was found', function()
  local path = os.tmpname() .. '.svg'
  local text, status = run('regression', '--dry-run --plot ' .. path)
  t.eq({status, text:find('plot: ' .. path, 1, true) ~= nil}, {0, true})
  local picture = assert(io.open(path)):read '*a'
  os.remove(path)
  assert(picture:find('>points<', 1, true) and picture:find '>y = %-?[%d.]+ x [+-] [%d.]+<', picture)
end)

t.test('cartpole: the target is 95 % of the limit', function()
  assert(run('cartpole', '--dry-run'):find ' target=475 ')
  assert(run('cartpole', '--dry-run --limit 200'):find ' target=190 ')
  assert(run('cartpole', '--dry-run --target 195'):find ' target=195 ')
end)

t.test('transfer: a dry run leaves no file, and reports which training was better', function()
  local path = os.tmpname()
  os.remove(path)
  local text, status = run('transfer', '--dry-run --keep ' .. path)
  t.eq(status, 0)
  assert(not exists(path), 'it wrote ' .. path)
  local kept = text:match 'its weights are in (%S+)'
  assert(kept and not exists(kept), text)
  local all, head = text:match 'final: accuracy=(%S+) head_only=(%S+)'
  assert(text:find(all == head and 'both are as good' or all > head and 'better by [%d.]+: all layers' or
    'better by [%d.]+: the classifier alone'), text)
end)

t.finish()
