-- test_args.lua -- mt.args: typed flags, --help, unknown flags, and the exit status of real runs.
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises

--- The path of this program.
local program
do
  local least = 0
  while arg[least - 1] do least = least - 1 end
  program = arg[least]
end

local script = os.tmpname()
local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

--- Runs `code` as a script with arguments; returns exit status, stdout and stderr.
local function run(code, ...)
  local file = assert(io.open(script, 'w'))
  file:write("local mt = require 'mtorch'\n", code, '\n')
  file:close()
  local words = {quoted(program), quoted(script)}
  for _, word in ipairs{...} do words[#words + 1] = quoted(word) end
  local errors = os.tmpname()
  local pipe = io.popen(table.concat(words,
    ' ') .. ' 2>' .. errors .. ' </dev/null; echo "status $?"')
  local text = pipe:read('*a')
  pipe:close()
  local handle = io.open(errors)
  local errors_text = handle:read('*a')
  handle:close()
  os.remove(errors)
  local out, status = text:match('^(.*)status (%d+)\n$')
  return tonumber(status), out, errors_text
end

local show = [[
local o = mt.args{hidden = 100, rate = 0.05, name = 'run', deep = false, dataset = {'split', 'xor'}}
local keys = {}
for k in pairs(o) do keys[#keys + 1] = k end
table.sort(keys)
for _, k in ipairs(keys) do
  if k ~= 'threads' then io.write(k, '=', tostring(o[k]), ':', type(o[k]), ' ') end
end]]

test('defaults', function()
  local status, out = run(show)
  eq(out, "dataset=split:string deep=false:boolean device=cpu:string hidden=100:number name=run:string " ..
          "rate=0.05:number seed=1:number ")
  eq(status, 0)
end)

test('a name with underscores has dashes on the command line, or not', function()
  for _, flag in ipairs{'--dry-run', '--dry_run'} do
    local _, out, errors = run([[print(mt.args{dry_run = false, n_steps = 3}.dry_run)]], flag, '--n-steps', '4')
    eq({out, errors}, {'true\n', ''})
  end
  local _, out = run([[mt.args{dry_run = false}]], '--help')
  assert(out:find('--dry-run\n', 1, true), out)
  local _, _, errors = run([[mt.args{dry_run = false}]], '--dry-rum')
  assert(errors:find('unknown flag --dry-rum (did you mean --dry-run?)', 1, true), errors)
end)

test('values, in both spellings, case ignored', function()
  local status, out, errors = run(show, '--hidden', '7', '--RATE=1e-3', '--Name', 'a b', '--deep',
    '--dataset', 'XOR',
                                  '--seed=5')
  eq(errors, '')
  eq(status, 0)
  eq(out, "dataset=xor:string deep=true:boolean device=cpu:string hidden=7:number name=a b:string rate=0.001:number " ..
          "seed=5:number ")
end)

test('a text that begins with -- is a value if it has spaces, as flags for another script', function()
  local _, out, errors = run('print(mt.args{with = ""}.with)', '--with', '--epochs 2')
  eq({out, errors}, {'--epochs 2\n', ''})
end)

test('negative and fractional numbers', function()
  local _, out = run(show, '--hidden', '-3', '--rate=-.5')
  assert(out:find('hidden=-3:number', 1, true) and out:find('rate=-0.5:number', 1, true), out)
end)

test('--help lists flags with their defaults and ends with 0', function()
  local status, out, errors = run(show .. "\nio.write('not reached')", '--help')
  eq(status, 0)
  eq(errors, '')
  for _, piece in ipairs{'--hidden', '100', '--rate', '0.05', '--dataset', 'split|xor', '--deep',
    '--device', '--threads',
                         '--seed', script} do
    assert(out:find(piece, 1, true), piece .. ' is missing in ' .. out)
  end
  assert(not out:find('not reached', 1, true))
end)

test('an unknown flag suggests the nearest and ends with 2', function()
  local status, out, errors = run(show, '--hiden', '3')
  eq(status, 2)
  eq(out, '')
  eq(select(2, errors:gsub('\n', '')), 1)
  assert(errors:find('--hiden', 1, true) and errors:find('did you mean --hidden?', 1, true), errors)
  status, out, errors = run(show, '--hiden=3')
  eq(status, 2)
  assert(errors:find('did you mean --hidden?', 1, true), errors)
  status, out, errors = run(show, '--zzzzzzzzzzzzz')
  eq(status, 2)
  assert(errors:find('--zzzzzzzzzzzzz', 1, true) and not errors:find('did you mean', 1, true),
    errors)
  status, out, errors = run(show, 'word')
  eq(status, 2)
  assert(errors:find("'word' is not a flag", 1, true), errors)
end)

test('wrong values end with 2 and name flag and value', function()
  local status, _, errors = run(show, '--hidden', 'abc')
  eq(status, 2)
  assert(errors:find('--hidden', 1, true) and errors:find('abc', 1, true), errors)
  status, _, errors = run(show, '--dataset', 'spiral')
  eq(status, 2)
  assert(errors:find('--dataset', 1, true) and errors:find('spiral', 1,
    true) and errors:find('xor', 1, true), errors)
  status, _, errors = run(show, '--hidden')
  eq(status, 2)
  assert(errors:find('--hidden', 1, true), errors)
  status, _, errors = run(show, '--hidden', '12abc')
  eq(status, 2)
  assert(errors:find('12abc', 1, true), errors)
end)

test('threads, seed and device take effect', function()
  local _, out = run('mt.args{} io.write(mt.get_num_threads())', '--threads', '3')
  eq(out, '3')
  local code = 'mt.args{} io.write(table.concat(mt.rand(3):tolist(), " "))'
  local _, five = run(code, '--seed', '5')
  local _, again = run(code, '--seed', '5')
  local _, six = run(code, '--seed', '6')
  eq(five, again)
  assert(five ~= six)
  mt.manual_seed(5)
  eq(five, table.concat(mt.rand(3):tolist(), ' '))
  local status, _, errors = run('mt.args{}', '--device', 'cuda')
  if not mt.cuda.is_available() then
    assert(status ~= 0, 'a device that cannot be used is accepted')
    assert(errors:find('cuda', 1, true), errors)
  end
  status, _, errors = run('mt.args{}', '--device', 'gpu')
  assert(status ~= 0, 'an unknown device is accepted')
  assert(errors:find('gpu', 1, true), errors)
  status, _, errors = run('mt.args{}', '--threads', '0')
  assert(status ~= 0 and errors:find('threads', 1, true), errors)
  for flag, value in pairs{['--threads'] = '1000000', ['--seed'] = '1e20'} do
    status, _, errors = run('mt.args{}', flag, value)
    assert(status == 2 and errors:find(': ' .. flag .. ': ', 1, true), errors)
  end
end)

local declared = [[
local o = mt.args{
  {'hidden', 100, 'units of each layer', type = 'int', min = 1, max = 500},
  {'epochs', type = 'int', help = 'passes over the data'},
  {name = 'model', choices = {'small', 'Large'}, default = 'Large', help = 'the network'},
  {'data', required = true, help = 'folder of the digits', metavar = 'DIR'},
  {'shuffle', true, 'mix the rows'}, {'dry-run', false, 'everything once'}, {'rate', 0.5, min = 0},
  zeta = 1,
}
print(o.hidden, o.epochs, o.model, o.data, o.shuffle, o.dry_run, o.rate, o.zeta)]]

test('entries say what a flag is for, and what its values are', function()
  local status, out, errors = run(declared, '--data', 'd')
  eq({status, out, errors}, {0, '100\tnil\tLarge\td\ttrue\tfalse\t0.5\t1\n', ''})
  status, out = run(declared, '--data=d', '--no-shuffle', '--EPOCHS', '3', '--model', 'SMALL', '--dry_run',
    '--hidden', '500')
  eq({status, out}, {0, '500\t3\tsmall\td\tfalse\ttrue\t0.5\t1\n'})
  status, out = run(declared, '--data=d', '--shuffle=no', '--dry-run=yes', '--dry-run=false', '--rate', '1',
    '--rate', '2')
  eq({status, out}, {0, '100\tnil\tLarge\td\tfalse\tfalse\t2\t1\n'})
  for flags, sentence in pairs{
    [''] = '--data is needed: folder of the digits',
    ['--data'] = '--data needs a value, a text',
    ['--data --hidden'] = '--data needs a value, a text',
    ['--hidden 0'] = '--hidden must be a whole number from 1 to 500, got 0',
    ['--hidden 501'] = '--hidden must be a whole number from 1 to 500, got 501',
    ['--hidden 2.5'] = '--hidden must be a whole number from 1 to 500, got 2.5',
    ['--hidden nan'] = '--hidden must be a whole number from 1 to 500, got',
    ['--rate=-1'] = '--rate must be a number from 0, got -1',
    ['--model big'] = "--model must be one of small, Large, got 'big'",
    ['--shuffle=perhaps'] = "--shuffle must be true or false, got 'perhaps'",
    ['--no-hidden'] = 'unknown flag --no-hidden',
    ['--no-shufle'] = 'unknown flag --no-shufle (did you mean',
    ['--seed 1.5'] = '--seed must be a whole number, got 1.5',
    ['--threads 0'] = '--threads must be a whole number from 1, got 0',
  } do
    local words = {}
    for word in flags:gmatch '%S+' do words[#words + 1] = word end
    status, out, errors = run(declared, unpack(words))
    eq({status, out}, {2, ''})
    assert(errors:find(sentence, 1, true) and select(2, errors:gsub('\n', '')) == 1, flags .. ': ' .. errors)
  end
end)

test('files to write are refused before the work that they are for', function()
  local code = "local o = mt.args{{'plot', endings = {'svg', 'png'}}, {'csv', 'a.csv', type = 'output'}} " ..
    'print(o.plot, o.csv)'
  eq({run(code)}, {0, 'nil\ta.csv\n', ''})
  eq({run(code, '--plot', 'x.PNG', '--csv=')}, {0, 'x.PNG\t\n', ''})
  eq({run(code, '--plot', '', '--csv', '/tmp/b')}, {0, 'nil\t/tmp/b\n', ''})
  for flags, sentence in pairs{
    ['--plot=x.gif'] = "--plot must be a file to write that ends in .svg or .png, got 'x.gif'",
    ['--plot=/no/x.svg'] = "--plot: '/no/x.svg' cannot be written: there is no folder '/no'",
    ['--csv=/tmp'] = "--csv: '/tmp' cannot be written: it is a folder",
    ['--csv'] = '--csv needs a value, a file to write',
  } do
    local status, _, errors = run(code, flags)
    eq({status, errors:find(sentence, 1, true) ~= nil}, {2, true})
  end
  raises(function() mt.args({{'plot', endings = 'svg'}}, {}) end, "the endings of 'plot' must be a list of strings")
  raises(function() mt.args({{'plot', 'a.gif', endings = {'svg'}}}, {}) end, "the default of 'plot' must be a file")
end)

test('--help begins with the comment at the head of the script and keeps the order of the entries', function()
  local file = assert(io.open(script, 'w'))
  file:write('#!/usr/bin/env mtorch\n-- prog.lua -- does this\n--\n--   mtorch prog.lua   runs it\n',
    'local mt = require "mtorch"\n-- not this\n', declared)
  file:close()
  local pipe = io.popen(quoted(program) .. ' ' .. quoted(script) .. ' --help')
  local out = pipe:read '*a'
  pipe:close()
  assert(out:find('^prog.lua %-%- does this\n\n  mtorch prog.lua   runs it\n\nUsage: mtorch '), out)
  assert(not out:find('not this', 1, true), out)
  local at = 0
  for _, line in ipairs{'\n  --hidden N           units of each layer (from 1 to 500; default 100)\n',
    '\n  --epochs N           passes over the data\n', '\n  --model small|Large  the network (default Large)\n',
    '\n  --data DIR           folder of the digits (needed)\n', '\n  --[no-]shuffle       mix the rows (default on)\n',
    '\n  --dry-run            everything once\n', '\n  --rate X             (from 0; default 0.5)\n',
    '\n  --zeta X             (default 1)\n', '\n  --device NAME', '\n  --threads N', '\n  --seed N', '\n  --help'} do
    local found = out:find(line, 1, true)
    assert(found and found > at, line .. ' in ' .. out)
    at = found
  end
end)

test('invalid defaults', function()
  raises(function() mt.args() end, 'args: a table of defaults is needed, got n')
  raises(function() mt.args(3) end, 'args: a table of defaults is needed, got 3')
  raises(function() mt.args{3} end, 'args: every option needs a name, got the key 1')
  raises(function() mt.args{[2.5] = 1} end, 'args: every option needs a name, got the key 2.5')
  raises(function() mt.args{{3}} end, 'args: every option needs a name, got 3')
  raises(function() mt.args{{'a', 1, hlep = 'x'}} end, "args: entry 1, 'a': unknown field 'hlep': did you mean 'help'")
  raises(function() mt.args{{'a', 1, type = 'float'}} end,
    "args: the type of 'a' must be 'string', 'number', 'int', 'f")
  raises(function() mt.args{{'a', 1.5, type = 'int'}} end, "args: the default of 'a' must be a whole number, got 1.5")
  raises(function() mt.args{{'a', 5, max = 4}} end, "args: the default of 'a' must be a number up to 4, got 5")
  raises(function() mt.args{{'a', 1}, a = 2} end, "args: 'a' is declared twice")
  raises(function() mt.args{help = 1} end, "args: 'help' cannot be the name of a flag")
  raises(function() mt.args{['a b'] = 1} end, "args: 'a b' cannot be the name of a flag")
  raises(function() mt.args{{'a', choices = {'x', 'y'}, default = 'z'}} end,
    "default of 'a' must be one of x, y, got the string 'z'")
  raises(function() mt.args{a = print} end, "args: the default of 'a'.*a function")
  raises(function() mt.args{a = {}} end, "args: 'a' has no choices")
  raises(function() mt.args{a = {1, 2}} end, "args: the choices of 'a' must be strings")
  raises(function() mt.args{{'a', min = 'x'}} end, "args: the min of 'a' must be a number, got the string 'x'")
  raises(function() mt.args{{'a', help = true}} end, "args: the help of 'a' must be a string, got true")
end)

test('arguments can be handed in', function()
  eq(mt.args({a = 1}, {'--a', '5'}).a, 5)
  eq(mt.args({a = 1}, {}).a, 1)
  eq(mt.args({a = 'x'}, {'--a', '-'}).a, '-')
  eq(mt.args({a = true}, {}).a, true)
end)

test('a script has its arguments and its name', function()
  local code = "io.write(arg[0], '|', table.concat(arg, ','), '|', select('#', ...), ...)"
  local status, out = run(code, '-x', '--y=1', 'z')
  eq(out, script .. '|-x,--y=1,z|3-x--y=1z')
  eq(status, 0)
end)

test('exit status of scripts', function()
  eq((run('')), 0)
  eq((run('error("no")')), 1)
  eq((run('os.exit(7)')), 7)
  eq((run('os.exit(true)')), 0)
  eq((run('os.exit(false)')), 1)
  eq((run('x = = 1')), 1)
  local status, out, errors = run('io.write("before ")\nlocal function f() error("told") end\nf()')
  eq({status, out}, {1, 'before '})
  assert(errors:find('mtorch: ' .. script .. ':3: told', 1,
    true) and errors:find('stack traceback:', 1, true) and
         errors:find(":4: in main chunk", 1, true), errors)
end)

os.remove(script)
t.finish()
