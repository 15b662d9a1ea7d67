-- test_interactive.lua -- What the prompt and notebooks share: lasting locals, shown values, completion, help at the
-- cursor.
mt = require 'mtorch' -- luacheck: ignore 111
local interactive = require 'mtorch.script.interactive'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises

--- The values of a chunk, or its error.
local function values(text)
  local fn, problem = interactive.load(text, '=cell')
  if not fn then error(problem, 0) end
  local function kept(...)
    interactive.keep(...)
    return ...
  end
  return kept(fn())
end
local function all(text) return {values(text)} end

test('the last statement is shown if it is an expression', function()
  eq(values '1 + 1', 2)
  eq(values 'word_x = 5; word_x', 5)
  eq(values 'word_x = 6 word_x', 6)
  eq(values 'word_x = 7 -- a comment\nword_x -- another', 7)
  eq(all 'word_x, word_x + 1', {7, 8})
  eq(all 'word_x = 8', {})
  eq(all 'for i = 1, 2 do word_x = i end', {})
  eq(values 'for i = 1, 2 do word_x = i end word_x', 2)
  eq(values 'if word_x then word_x = 3 end\nmath.max(word_x, 1)', 3)
  eq(values 'function word_f(a) return a * 2 end word_f(4)', 8)
  eq(values '(function() return 5 end)()', 5)
  eq(values '"a;b" .. [[ c ]]', 'a;b c ')
  eq(all 'word_x = 5 - 3', {})
  eq(values 'word_x', 2)
  eq(all 'word_x = tostring "y"', {})
  eq(values 'return 4', 4)
  eq(#all '', 0)
  eq(select('#', values 'nil, nil'), 2)
end)

test('locals at the top level last', function()
  eq(#all 'local a1, b1 = 1, 2', 0)
  eq(all 'a1, b1', {1, 2})
  eq(#all 'local function inc() a1 = a1 + 1 return a1 end', 0)
  eq(values 'inc()', 2)
  eq(values 'inc() a1', 3)
  eq(values 'a1 = 10; inc()', 11)
  eq(rawget(_G, 'a1'), nil)
  eq(values 'local c1; c1', nil)
  eq(#all 'local c2, c3', 0)
  eq(all 'c2 = 5; c2, c3', {5})
  eq(rawget(_G, 'c2'), nil)
  eq(values 'local b1 = b1 + 1; b1', 3)
  eq(values 'do local a1 = 0 end a1', 11)
  eq(values 'local function f1(n) return n == 0 and 1 or n * f1(n - 1) end f1(5)', 120)
  eq(values 'local tostring = tostring; tostring(1)', '1')
  eq(rawget(_G, 'f1'), nil)
end)

test('a chunk that fails keeps what it has assigned', function()
  raises(function() values 'local kept1 = 4 error("stop")' end, 'cell:1: stop')
  eq(values 'kept1', 4)
end)

test('a hundred locals in one chunk are all there afterwards', function()
  local parts = {}
  for i = 1, 100 do parts[i] = ('local many%d = %d'):format(i, i) end
  values(table.concat(parts, '\n'))
  for i = 1, 100 do eq(values('many' .. i), i) end
end)

test('the last values are kept', function()
  for i = 1, 3 do values(tostring(i)) end
  eq(all '_, _2, _3', {3, 2, 1})
end)

test('unfinished chunks are told from wrong ones', function()
  local function state(text)
    local fn, message, unfinished = interactive.load(text, '=cell')
    return fn and 'ready' or unfinished and 'unfinished' or message
  end
  for _, text in ipairs{'for i = 1, 2 do', 'f(1,', 'x = [[ a', '1 +', 'x = --[[ c', 'if x then', 'local x ='} do
    eq(state(text), 'unfinished')
  end
  eq(state 'x = 1 --[[ c ]]', 'ready')
  eq(state 'x = = 1 -- said', "cell:1: unexpected symbol near '='")
  eq(state 'x = = 1', "cell:1: unexpected symbol near '='")
  eq(state 'x = "a', [[cell:1: unfinished string near '<eof>']])
  eq(state 'x = "a\\', 'unfinished')
  eq(state 'x = 1\ny y', "cell:2: '=' expected near 'y'")
end)

test('a hint is for what a wrong line has, not for its texts and comments', function()
  local function hint(text)
    local _, message = interactive.load(text, '=cell')
    return message:match '%((.*)%)$'
  end
  eq(hint 'y = 1 if x else 2', 'Lua writes condition and a or b')
  eq(hint 'x = 1\nx[1:3] = 2', "rows 1 to 3 are x[{{1, 3}}] or x['1:3']")
  for _, text in ipairs{'if x then y = 1 else z = = 2 end', 'y = t[f(a, b)] = 3', 'x[{1, 2}] = = 3', 'var = = 3',
      'print("a? b: ") = = 1', 'x = = 1 -- import torch', "f('lambda x: 2') = = 3"} do
    eq(hint(text), nil)
  end
end)

test('a block in one line is the same program', function()
  eq(interactive.one_line 'for i = 1, 2 do -- twice\n  f(i)\nend', 'for i = 1, 2 do f(i) end')
  eq(interactive.one_line 'x = [[a\nb]] .. "--"', 'x = [[a\nb]] .. "--"')
end)

--- The texts that complete a text, and what they replace.
local function completed(text)
  local items, start = interactive.complete(text)
  local texts, set = {}, {}
  for i, item in ipairs(items) do texts[i], set[item.text] = item.text, item end
  return texts, set, text:sub(start)
end

test('names are completed, the likely ones first', function()
  values 'local word_tensor = mt.ones(2)'
  eq({completed 'mt.nn.Li'}, {{'Linear'}, {Linear = {text = 'Linear', kind = 'class',
    help = 'Linear(in_features, out_features, bias=true, device=nil, dtype=nil)'}}, 'Li'})
  eq((completed 'y = word_ten'), {'word_tensor'})
  eq((completed 'word_tensor:matm'), {'matmul'})
  eq((completed 'coro'), {'coroutine'})
  eq((completed 'nope.x'), {})
  eq((completed 'x -- word_'), {})
  local fields = completed 'word_tensor.'
  eq({fields[1], fields[2]}, {'shape', 'dtype'})
  eq(completed 'word_tensor.s'[1], 'shape')
  values 'local word_net = mt.nn.Sequential(mt.nn.Linear(1, 1)) local word_set = mt.data.xor(4)'
  eq((completed 'word_net[1].wei'), {'weight'})
  eq((completed "word_net['1'].nope"), {})
  eq((completed 'mt.ones(2):matm'), {'matmul'})
  eq((completed 'word_net:state'), {'state_dict'})
  eq((completed 'word_set:si'), {'size'})
end)

test('options are completed from signatures', function()
  local _, set = completed 'mt.nn.Conv2d(1, 2, 3, {'
  eq(set['bias='].kind, 'option')
  eq(set['while'], nil)
  eq((completed 'mt.nn.Conv2d(1, 2, 3, {bias = f(1), padding_m'), {'padding_mode='})
  eq((completed 'mt.nn.CrossEntropyLoss{re'), {'reduction='})
  eq((completed 'mt.ones(2):sum{keep'), {'keepdim='})
  eq((completed "mt.nn.CrossEntropyLoss{reduction = 's"), {'sum'})
  eq((completed "mt.zeros(2, {dtype = 'floa"), {'float16', 'float32', 'float64', 'float8_e4m3fn',
    'float8_e5m2'})
  eq((completed "word_tensor:to('cu"), {'cuda'})
  eq((completed 'mt.zeros(2, {dtype = mt.is_te'), {'is_tensor'})
end)

test('files, and topics of help, are completed inside strings', function()
  local name = os.tmpname()
  local folder, file = name:match '^(.*/)([^/]*)$'
  io.open(name, 'w'):close()
  local found, _, replaced = completed(("mt.load('%s"):format(name:sub(1, -2)))
  eq({#found > 0, replaced}, {true, name:sub(1, -2)})
  eq((completed(("mt.load('%s"):format(name))), {folder .. file})
  os.remove(name)
  eq((completed(("mt.load('%s"):format(name))), {})
  eq((completed "mt.help('indexi"), {'indexing'})
  eq((completed "print(mt.help 'cross_e"), {'cross_entropy'})
end)

test('help is that of the name at the cursor, or of the call around it', function()
  local text = 'y = mt.matmul(x, mt.ones(2))'
  eq(interactive.inspect(text, 7):match '^[^(]*', 'mt.matmul')
  eq(interactive.inspect(text, 10):match '^[^(]*', 'mt.matmul')
  eq(interactive.inspect(text, 15):match '^[^(]*', 'mt.matmul')
  eq(interactive.inspect('mt.nn.Linear(1, ', 16):match '^[^(]*', 'nn.Linear')
  eq(interactive.inspect('word_net:train'):match '^[^(]*', 'net:train')
  eq(interactive.inspect 'mt.optim':match '^%S+ %S+', 'mt.optim has')
  values 'function word_f(a, b) end'
  eq(interactive.inspect 'word_f', 'function(a, b) of cell:1')
  eq(interactive.inspect 'word_x', "word_x is the string 'y'")
  eq(interactive.inspect 'nothing_of_that_name', nil)
  eq(interactive.inspect '', nil)
end)

t.finish()
