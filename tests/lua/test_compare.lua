-- test_compare.lua -- mt.compare_runs and `mtorch compare`: logs, JSON files and reports side by side
local mt = require 'mtorch'
local t = require 'testing'

local folder = os.tmpname()
os.remove(folder)
assert(os.execute('mkdir -p ' .. folder .. '/other') == 0)
local function file(name, text) return t.write_file(folder .. '/' .. name, text) end

--- The printed lines and the returned runs.
local function compared(...)
  local printed, real = {}, print
  rawset(_G, 'print', function(text) printed[#printed + 1] = text end)
  local ok, runs = pcall(mt.compare_runs, ...)
  rawset(_G, 'print', real)
  if not ok then error(runs, 0) end
  local rows = {}
  for line in (table.concat(printed, '\n') .. '\n'):gmatch '(.-)\n' do
    rows[#rows + 1] = line:gsub('^%s+', ''):gsub('%s%s+', ' | '):gsub('%s+$', '')
  end
  return rows, runs
end

local function log(name, rate, hidden, losses)
  local w = mt.JsonLines(folder .. '/' .. name, {append = false})
  w:write{rate = rate, model = {hidden = hidden, sizes = {1, 2}}, name = 'net'}
  for epoch, loss in ipairs(losses) do w:write{epoch = epoch, loss = loss, valid = {accuracy = 1 - loss / 10}} end
  w:close()
  return folder .. '/' .. name
end

local a = log('a.jsonl', 0.1, 16, {4, 1, 2})
local b = log('b.jsonl', 0.01, 16, {5, 0 / 0, 3, 2.5})

t.test("NaN and Infinity as Python's json writes them", function()
  local path = file('python.jsonl', '{"epoch": 1, "loss": 3.0, "name": "x: NaN"}\n{"epoch": 2, "loss": NaN}\n' ..
    '{"epoch": 3, "loss": -Infinity, "all": [NaN, 1]}\n{"epoch": 4, "loss": 2.0}\n')
  local _, runs = compared{path}
  t.eq({runs[1].options.name, runs[1].curves.loss.y}, {'x: NaN', {3, 0 / 0, 0 / 0, 2}})
  local wrong = file('wrong.jsonl', '{"a": None}\n{"a": 1}\n')
  t.raises(function() mt.compare_runs{wrong} end, 'line 1 is not a JSON object')
end)

t.test('logs: options that differ, last and best values', function()
  local rows, runs = compared{a, b}
  t.eq(rows, {'a | b', '-------------------- | --- | ----', 'rate | 0.1 | 0.01', 'loss | 2 | 2.5',
    'loss, best | 1 | 2.5', 'valid.accuracy | 0.8 | 0.75', 'valid.accuracy, best | 0.9 | 0.75'})
  t.eq({runs[1].name, runs[2].options.rate, runs[1].options['model.sizes'], runs[1].options.name},
    {'a', 0.01, '(1, 2)', 'net'})
  t.eq({runs[2].curves.loss, runs[1].best.loss, runs[1].last.loss}, {{x = {1, 2, 3, 4}, y = {5, 0 / 0, 3, 2.5}}, 1, 2})
end)

t.test('JSON files: numbers are options, lists are curves over the steps', function()
  local c = file('c.json', '{"rate": 0.3, "epochs": [1, 10, 20], "loss": [3, 2, null], "config": {"hidden": 5},' ..
    ' "sizes": [1, "x"]}')
  local _, runs = compared{c}
  t.eq({runs[1].options, runs[1].curves.loss.x}, {{rate = 0.3, hidden = 5, sizes = '(1, x)'}, {1, 10, 20}})
  t.eq({runs[1].best.loss, runs[1].last.loss ~= runs[1].last.loss}, {2, true})
  local list = file('list.json', '[{"step": 3, "loss": 2}, {"step": 5, "loss": 1}]')
  t.eq(select(2, compared{list})[1].curves, {loss = {x = {3, 5}, y = {2, 1}}})
  local plain = file('plain.jsonl', '{"lr": 2}\n{"loss": 3}\n\n{"loss": 1}\n{"loss": 0')
  local of = select(2, compared{plain})[1]
  t.eq({of.options, of.curves.loss.y}, {{lr = 2}, {3, 1}})
end)

t.test('texts and steps that are no numbers', function()
  local plain = file('loss.json', '{"loss": [2, 1]}')
  local odd = file('odd.jsonl',
    '{"step": "a", "loss": 3, "note": "\\u001b[31m\\nred"}\n{"step": "b", "loss": 4}\n')
  local rows, runs = compared({plain, odd}, folder .. '/odd.html')
  t.eq({runs[2].options.loss, runs[2].options.note, runs[2].curves}, {4, '\27[31m\nred', {}})
  assert(not table.concat(rows):find '\27' and table.concat(rows, '\n'):find 'note | %- | %[31m red')
  local start = os.clock() -- no end of the data is found, from any of its starts
  t.raises(function() compared{file('many.html', '<p>' .. ('<!--mtorch-run '):rep(5000))} end, 'has no data of a run')
  assert(os.clock() - start < 1)
end)

t.test('reports: pages of mt.Report and mt.report carry their curves', function()
  local pages = {}
  for i = 1, 2 do
    local report = mt.Report{path = ('%s/%d.html'):format(folder, i), config = {rate = i, note = 'x--<y>-->'}}
    for step = 1, 2000 do
      report:scalar('loss/train', step == 777 and -5 or i / step, 10 * step)
      report:scalar('loss/valid', 2 * i / step, 10 * step)
      report:scalar('accuracy', step == 5 and 0 / 0 or step / 2000, step)
    end
    pages[i] = report:finish()
  end
  local text = t.read_file(pages[1])
  assert(#text < 150000 and not text:find '<script')
  local rows, runs = compared(pages)
  t.eq(rows, {'1 | 2', '---------------- | ------ | -----', 'rate | 1 | 2', 'accuracy | 1 | 1',
    'loss/train | 0.0005 | 0.001', 'loss/train, best | -5 | -5', 'loss/valid | 0.001 | 0.002'})
  t.eq({runs[1].options.note, runs[1].curves['loss/train'].x[1]}, {'x--<y>-->', 10})
  local page = mt.report{path = folder .. '/static.html', config = {rate = mt.tensor{1, 2}}, curves = {loss = {3, 2}}}
  t.eq(select(2, compared{page})[1].curves, {loss = {x = {1, 2}, y = {3, 2}}})
end)

t.test('many runs are rows; files of one name are named by their paths', function()
  local list = {a, b}
  for i = 3, 6 do list[i] = log(i .. '.jsonl', i, 16, {i}) end
  local rows = compared(list)
  t.eq({rows[1], rows[3], rows[8]}, {'rate | loss | loss, best | valid.accuracy | valid.accuracy, best',
    'a | 0.1 | 2 | 1 | 0.8 | 0.9', '6 | 6 | 6 | 6 | 0.4 | 0.4'})
  local other = log('other/a.jsonl', 0.5, 1, {1})
  t.eq(compared{a, other, other}[1], ('%s | %s | %s (3)'):format(a, other, other))
end)

t.test('the page has the table, the curves over one another, and the common options', function()
  local _, runs = compared({a, b}, folder .. '/page.html', 'Two <runs>')
  t.eq(#runs, 2)
  local text = t.read_file(folder .. '/page.html')
  for _, part in ipairs{'<h1>Two &lt;runs&gt;</h1>', 'loss, best', 'model.hidden', '<td class="n">0.01</td>'} do
    assert(text:find(part, 1, true), part)
  end
  t.eq(select(2, text:gsub('<svg', '')), 2)
end)

t.test('wrong files are one sentence', function()
  local function wrong(text, list, path) t.raises(function() compared(list, path) end, text) end
  wrong("compare_runs: name the runs' files", {})
  wrong("cannot read '/nowhere'", {'/nowhere'})
  wrong("'.*bad.jsonl', line 2 is not a JSON object", {file('bad.jsonl', '{"a": 1}\nxx\n{"a": 2}\n')})
  wrong("the page '.*old.html' has no data of a run", {file('old.html', '<!doctype html><p>')})
  wrong("'.*empty.json' has no options and no curves", {file('empty.json', '{}')})
  wrong("'.*empty.jsonl' has no options and no curves", {file('empty.jsonl', '')})
  wrong("'.*three.json', line 1 is not a JSON object", {file('three.json', '3')})
  wrong("'.*cut.json', line 1 is not a JSON object", {file('cut.json', '{"loss": [1, 2')})
  wrong("'.*binary.json', line 1 is not a JSON object", {file('binary.json', '\0\255\1')})
  wrong("'.*mixed.json', record 2 is not an object", {file('mixed.json', '[{"loss": 1}, 2]')})
  wrong("cannot write 'x.txt': use a path ending in .html", {a}, 'x.txt')
end)

t.test('mtorch compare', function()
  local function run(words)
    local pipe = io.popen(('cd %s && %s compare %s 2>&1; echo $?'):format(folder,
      t.program(), words))
    local text = pipe:read '*a'
    pipe:close()
    return text
  end
  local text = run 'a.jsonl b.jsonl --report out.html'
  assert(text:find 'rate +0.1 +0.01\n' and text:find 'report: out.html\n0\n$' and io.open(folder .. '/out.html'), text)
  t.eq(run('a.jsonl --report=second.html'):match 'report: (%S+)', 'second.html')
  t.eq(run '--report x.html',
    'mtorch: compare: mtorch compare FILE.. [--report PAGE.html], of logs, JSON files and pages of mt.Report\n2\n')
  assert(run('a.jsonl --reprot x.html'):find '^mtorch: compare: mtorch compare FILE.. %[%-%-report PAGE.html%], of')
  assert(run('nothing.jsonl'):find "^mtorch: .*cannot read 'nothing.jsonl': No such file")
  assert(run(('x '):rep(40000)):find "^mtorch: .*cannot read 'x': No such file") -- more words than a stack holds
end)

os.execute('rm -r ' .. folder)
t.finish()
