-- test_args.lua -- mt.args: typed flags, --help, unknown flags, and the exit status of real runs.
local mt = require 'mtorch'
local t = require 'testing'
local test, eq, raises = t.test, t.eq, t.raises

--- This program's path, as the test was started.
local program
do
  local least = 0
  while arg[least - 1] do least = least - 1 end
  program = arg[least]
end

local script = os.tmpname()
local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

--- Runs `code` as a script with arguments: exit status, standard output, standard error.
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
  assert(out:find('--dry-run,', 1, true), out)
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

test('negative and fractional numbers', function()
  local _, out = run(show, '--hidden', '-3', '--rate=-.5')
  assert(out:find('hidden=-3:number', 1, true) and out:find('rate=-0.5:number', 1, true), out)
end)

test('--help lists flags with their defaults and ends with 0', function()
  local status, out, errors = run(show .. "\nio.write('not reached')", '--help')
  eq(status, 0)
  eq(errors, '')
  for _, piece in ipairs{'--hidden', '100', '--rate', '0.05', '--dataset', 'split | xor', '--deep',
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
end)

test('defaults that are no defaults', function()
  raises(function() mt.args() end, 'args: a table of defaults is needed, got n')
  raises(function() mt.args(3) end, 'args: a table of defaults is needed, got 3')
  raises(function() mt.args{3} end, 'args: every option needs a name, got the key 1')
  raises(function() mt.args{a = print} end, "args: the default of 'a'.*a function")
  raises(function() mt.args{a = {}} end, "args: 'a' has no choices")
  raises(function() mt.args{a = {1, 2}} end, "args: the choices of 'a' must be strings")
end)

test('arguments can be handed in', function()
  eq(mt.args({a = 1}, {'--a', '5'}).a, 5)
  eq(mt.args({a = 1}, {}).a, 1)
  eq(mt.args({a = 'x'}, {'--a', '-'}).a, '-')
  eq(mt.args({a = true}, {}).a, true)
end)

test('a script sees its arguments and its name', function()
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
