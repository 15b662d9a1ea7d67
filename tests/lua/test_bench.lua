-- test_bench.lua -- scripts/bench.lua: columns, files, graphs, missing peers, regressions beyond noise
local t = require 'testing'
local mt = require 'mtorch'

local script = (arg[0]:match '^(.*/)' or './') .. '../../scripts/bench.lua'
local first = -1 -- the program's name is before its options
while arg[first - 1] do first = first - 1 end

local base = os.tmpname()
local function path(ending) return base .. ending end

--- Runs the benchmark; returns its output, with errors, and its exit status.
local function run(flags, settings)
  local pipe = io.popen(("env %s '%s' '%s' %s 2>&1; echo status $?"):format(settings or '', arg[first], script, flags))
  local text, status = pipe:read '*a':match '^(.*)status (%d+)\n$'
  pipe:close()
  return text, tonumber(status)
end

t.test('a row is name and microseconds; with a peer there are four columns', function()
  local text, status = run("--quick --only '^add/4$,^startup$'")
  t.eq(status, 0)
  local us = tonumber(text:match '^add/4\t([%d.]+)\nstartup\t[%d.]+\n$')
  assert(us and us > 0.01 and us < 1000, text)
  text = run("--quick --only '^add/1Mi$' --peer copy --save " .. path '.json')
  local name, ours, theirs, ratio = text:match '\n(add/1Mi) +([%d.]+) +([%d.]+) +([%d.]+)\n'
  t.eq(name, 'add/1Mi')
  assert(math.abs(theirs / ours - ratio) < 0.01, text)
  local saved = mt.data.json(path '.json')
  t.eq(saved.rows[1].name, 'add/1Mi')
  assert(saved.rows[1].results.mtorch.low <= saved.rows[1].results.mtorch.us)
  t.eq(saved.columns[2].name, 'copy')
end)

t.test('every row is valid: its text compiles and its inputs fit', function()
  local text, status = run "--quick --only '/4$,64x64x64$,^index_add,^views_select,^step_mlp'"
  t.eq(status, 0)
  assert(not text:find 'skipped', text)
  assert(select(2, text:gsub('\n', '')) > 150, text)
end)

t.test('whole networks train and infer', function()
  local text, status = run "--quick --only '^net_[^rv],^net_vae'" -- all but ResNet and the vision transformer
  assert(status == 0 and not text:find 'skipped', text)
  assert(text:find '\nnet_llama_train_bf16\t[%d.]+\n' and text:find '\nnet_llama_memory/MiB\t[%d.]+\n', text)
  assert(select(2, text:gsub('\n', '')) > 45, text)
end)

t.test('a missing peer is a line with its installation, not a failure', function()
  assert(not run("--quick --only '^neg/4$' --peer numpy"):find "can't open file") -- of peers/worker.py
  local text, status = run("--quick --only '^neg/4$' --peer jax", 'MTORCH_PEER_PYTHON=/bin/false')
  assert(status == 0 and text:find('jax is left out', 1, true), text)
  assert(text:find '\nneg/4\t[%d.]+\n', text)
  text, status = run '--only nothing_like_this'
  t.eq(status, 1)
  assert(text:find("no row's name matches 'nothing_like_this'", 1, true), text)
  text, status = run '--peer torhc'
  assert(status == 1 and text:find("no peer is called 'torhc'", 1, true), text)
end)

--- Writes a run of three rows with these medians; the interquartile range is `noise` times the median.
local function write_run(ending, noise, a, b, c, machine)
  local rows = {}
  for i, us in ipairs{a, b, c} do
    rows[i] = {name = ('row/%d'):format(i), group = 'g',
      results = {mtorch = {us = us, low = us * (1 - noise / 2), high = us * (1 + noise / 2), n = 7}}}
  end
  mt.data.save_json(path(ending), {rows = rows, columns = {{name = 'mtorch', title = 'mtorch'}},
    machine = {copy = {us = machine or 100}, loop = {us = 100}}})
end

t.test('--compare fails if a row is slower than noise explains, and reports it', function()
  write_run('.old.json', 0.02, 100, 10, 1)
  local function compare(...)
    write_run('.new.json', ...)
    return run(('--from %s --compare %s'):format(path '.new.json', path '.old.json'))
  end
  local text, status = compare(0.02, 101, 9, 1.03)
  assert(status == 0 and not text:find 'slower', text)
  text, status = compare(0.02, 101, 11, 1)
  assert(status == 1 and text:find('row/2 is slower: 11.000, was 10.000 (1.10 times', 1, true), text)
  assert(not text:find 'row/1 is slower' and not text:find 'row/3 is slower', text)
  t.eq(select(2, compare(0.2, 101, 11, 1)), 0) -- the noise is as large as the change
  t.eq(select(2, compare(0.02, 115, 11.5, 1.15, 118)), 0) -- the machine became slower
  t.eq(select(2, compare(0.02, 115, 13, 1.15, 118)), 1)
end)

t.test('a graph is drawn from a file', function()
  local rows = {}
  for i, n in ipairs{'4', '1Ki', '1Mi'} do
    rows[i] = {name = 'exp/' .. n,
      results = {mtorch = {us = 10 ^ i}, torch = {us = 2 * 10 ^ i}, copy = {us = 9 ^ i}}}
  end
  local columns = {{name = 'mtorch', title = ''}, {name = 'torch', title = ''}, {name = 'copy', title = ''}}
  mt.data.save_json(path '.json', {rows = rows, machine = {processor = 'A & B'}, columns = columns})
  local _, status = run(('--from %s --plot %s'):format(path '.json', path '.svg'))
  local picture = t.read_file(path '.svg')
  assert(status == 0 and picture:find('>torch<', 1, true) and picture:find('A &amp; B', 1, true))
  assert(not picture:find 'nan' and not picture:find 'inf')
  mt.data.save_json(path '.json', {rows = {rows[1]}, columns = columns})
  local text
  text, status = run(('--from %s --plot %s'):format(path '.json', path '.svg'))
  t.eq(status, 1)
  assert(text:find 'no operation has rows of three sizes', text)
end)

for _, ending in ipairs{'', '.json', '.old.json', '.new.json', '.svg'} do os.remove(path(ending)) end
t.finish()
