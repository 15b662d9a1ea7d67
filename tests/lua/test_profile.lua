-- test_profile.lua -- mt.profile: counts, nesting, times, the trace, errors; --profile of the program
local mt = require 'mtorch'
local t = require 'testing'

local function quiet(fn, options)
  options = options or {}
  options.quiet = true
  return mt.profile(fn, options)
end

local function row(rows, name, kind)
  for _, r in ipairs(rows) do
    if r.name == name and (not kind or r.kind == kind) then return r end
  end
end
local function calls(rows, name, kind)
  local r = row(rows, name, kind)
  return r and r.calls or 0
end

-- ---- a reader of JSON: no more than the trace needs, and strict about that -----------------------

local function parse_json(text)
  local at = 1
  local value
  local function space() at = text:find('[^ \n\r\t]', at) or #text + 1 end
  local function expect(mark)
    space()
    if text:sub(at, at + #mark - 1) ~= mark then error(('no %q at byte %d'):format(mark, at)) end
    at = at + #mark
  end
  local function string()
    expect('"')
    local out = {}
    while true do
      local plain = text:match('^[^"\\%c]*', at)
      out[#out + 1] = plain
      at = at + #plain
      local c = text:sub(at, at)
      if c == '"' then at = at + 1 return table.concat(out) end
      local escaped = text:match('^\\(["\\/])', at)
      local code = text:match('^\\u(%x%x%x%x)', at)
      if escaped then out[#out + 1], at = escaped, at + 2
      elseif code then out[#out + 1], at = string.char(tonumber(code, 16)), at + 6
      else error(('a bad string at byte %d'):format(at)) end
    end
  end
  local function list(open, close, entry)
    local found = {}
    expect(open)
    space()
    if text:sub(at, at) == close then at = at + 1 return found end
    repeat
      entry(found)
      space()
      local more = text:sub(at, at) == ','
      if more then at = at + 1 end
    until not more
    expect(close)
    return found
  end
  function value()
    space()
    local c = text:sub(at, at)
    if c == '{' then
      return list('{', '}', function(found)
        space()
        local key = string()
        expect(':')
        found[key] = value()
      end)
    elseif c == '[' then return list('[', ']', function(found) found[#found + 1] = value() end)
    elseif c == '"' then return string() end
    local number = text:match('^-?%d+%.?%d*', at)
    if not number then error(('no value at byte %d'):format(at)) end
    at = at + #number
    return tonumber(number)
  end
  local found = value()
  space()
  if at <= #text then error('more after the end') end
  return found
end

-- ---- tests --------------------------------------------------------------------------------------

t.test('counts of operations, kernels and gradients are exact', function()
  local x = mt.rand(3, 4):requires_grad_()
  local w = mt.rand(4, 2)
  local rows = quiet(function()
    for _ = 1, 5 do (x:matmul(w)):relu():sum():backward() end
    return x + 1
  end)
  for name, n in pairs {matmul = 5, relu = 5, sum = 5, backward = 5, add = 1} do
    t.eq({name, calls(rows, name, 'operation')}, {name, n})
  end
  for name, n in pairs {['matmul backward'] = 5, ['relu backward'] = 5, ['sum backward'] = 5} do
    t.eq({name, calls(rows, name, 'backward')}, {name, n})
  end
  -- forward, and the gradient by x alone
  t.eq(calls(rows, 'cpu: matmul', 'kernel'), 10)
  t.eq(calls(rows, 'cpu: map relu', 'kernel'), 5)
  t.eq(calls(rows, 'cpu: map relu gradient', 'kernel'), 5)
  t.eq(calls(rows, 'cpu: reduce sum', 'kernel'), 5)
  -- four additions to an existing gradient, and x + 1
  t.eq(calls(rows, 'cpu: map add', 'kernel'), 5)
  t.eq(row(rows, 'matmul', 'kernel'), nil)
end)

t.test('inner calls count as total of the outer row and as self of the inner one', function()
  local a, b = mt.rand(200, 200), mt.rand(200, 200)
  local rows = quiet(function()
    mt.no_grad(function() for _ = 1, 4 do a:matmul(b) end end)
  end)
  local outer, op, kernel = row(rows, 'no_grad'), row(rows, 'matmul'), row(rows, 'cpu: matmul')
  t.eq({outer.calls, op.calls, kernel.calls}, {1, 4, 4})
  assert(outer.cpu_total >= op.cpu_total and op.cpu_total >= kernel.cpu_total)
  assert(kernel.self_cpu > outer.self_cpu, 'the product is work of the kernel')
  t.near(kernel.self_cpu, kernel.cpu_total, 1e-9)
  local collector = row(rows, 'collect garbage')
  local inside = op.self_cpu + kernel.self_cpu + (collector and collector.self_cpu or 0)
  t.near(outer.cpu_total - outer.self_cpu, inside, 1e-8)
  t.near(op.cpu_avg, op.cpu_total / 4, 1e-12)
end)

t.test('self times and the time outside add up to the wall time', function()
  local x = mt.rand(50, 50):requires_grad_()
  local rows = quiet(function()
    for _ = 1, 20 do (x * x):exp():sum():backward() end
    local n = 0
    for i = 1, 1e6 do n = n + i % 7 end
    return n
  end)
  local sum = rows.outside
  for i, r in ipairs(rows) do
    sum = sum + r.self_cpu
    assert(r.self_cpu >= 0 and r.cpu_total >= r.self_cpu - 1e-12)
    if i > 1 then assert(rows[i - 1].self_cpu + rows[i - 1].self_cuda >= r.self_cpu + r.self_cuda) end
  end
  t.near(sum / rows.wall, 1, 1e-6)
  assert(rows.outside > 0 and rows.outside < rows.wall)
end)

t.test('a row inside itself counts once in its total', function()
  local function nest(n)
    if n > 0 then mt.no_grad(nest, n - 1) end
    local x = 0
    for i = 1, 1e5 do x = x + i end
    return x
  end
  local rows = quiet(function() nest(5) end)
  local r = row(rows, 'no_grad')
  t.eq(r.calls, 5)
  assert(r.cpu_total <= rows.wall)
  t.near(r.cpu_total, r.self_cpu, 1e-9)
end)

t.test('rows can be sorted otherwise, and fn returns through', function()
  local function work()
    mt.rand(3):exp()
    for _ = 1, 3 do mt.ones(2):relu() end
    return 7, nil, 'eight'
  end
  local rows, a, b, c = quiet(work, {sort = 'calls'})
  t.eq({a, b, c}, {7, nil, 'eight'})
  for i = 2, #rows do assert(rows[i - 1].calls >= rows[i].calls) end
  rows = quiet(work, {sort = 'total'})
  for i = 2, #rows do assert(rows[i - 1].cpu_total >= rows[i].cpu_total) end
end)

t.test('nothing done gives no rows, and nothing is recorded outside', function()
  mt.ones(3):exp()
  local rows = quiet(function() end)
  t.eq(#rows, 0)
  assert(rows.wall >= 0 and rows.cuda == 0)
  t.eq(require('mtorch.core').profile_stop(), nil)
end)

t.test('an error inside passes through and ends the recording', function()
  local x = mt.ones(2, 3)
  t.raises(function() quiet(function() x:matmul(x) end) end, 'matmul: inner sizes differ')
  t.raises(function() quiet(function() error('plain', 0) end) end, '^plain$')
  t.raises(function() quiet(function() error({}) end) end, 'table')
  t.eq(require('mtorch.core').profile_stop(), nil)
  local rows = quiet(function() return x + x end)
  t.eq({calls(rows, 'add'), calls(rows, 'cpu: map add'), calls(rows, 'matmul')}, {1, 1, 0})
end)

t.test('one inside another takes what happens meanwhile', function()
  local inner
  local outer = quiet(function()
    local x = mt.ones(4)
    inner = quiet(function() return x:exp() end)
    return x:relu()
  end)
  t.eq({calls(inner, 'exp'), calls(inner, 'relu'), calls(inner, 'ones')}, {1, 0, 0})
  t.eq({calls(outer, 'exp'), calls(outer, 'relu'), calls(outer, 'profile')}, {0, 1, 1})
  assert(row(outer, 'profile').cpu_total >= inner.wall)
end)

t.test('a coroutine and a function of the user are followed', function()
  local rows = quiet(function()
    local co = coroutine.wrap(function()
      coroutine.yield(mt.ones(2):exp())
      return mt.ones(2):log()
    end)
    co()
    co()
  end)
  t.eq({calls(rows, 'exp'), calls(rows, 'log'), calls(rows, 'ones')}, {1, 1, 2})
end)

t.test('wrong arguments are refused before anything runs', function()
  local ran = false
  local function fn() ran = true end
  t.raises(function() mt.profile(3) end, "profile: fn must be a function")
  t.raises(function() mt.profile(fn, {sort = 'name'}) end, "profile: sort is 'name'; use 'self', 'total'")
  t.raises(function() mt.profile(fn, {top = 1.5}) end, 'profile: top must be a whole number')
  t.raises(function() mt.profile(fn, {path = 7}) end, 'profile: path must be a string')
  t.raises(function() mt.profile(fn, {path = '/no/such/folder/x.json'}) end, 'profile: cannot write')
  t.raises(function() mt.profile(fn, {pat = 'x'}) end, "did you mean 'path'")
  t.eq(ran, false)
end)

t.test('a trace is written through a link and to a device; read-only files are kept', function()
  local function fn() return mt.ones(2):exp() end
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(('mkdir %s && cd %s && echo old >real && ln -s real link && ln -s /dev/full full && ' ..
    'echo kept >kept && chmod 444 kept'):format(folder, folder)) == 0)
  mt.profile(fn, {path = folder .. '/link', quiet = true})
  t.raises(function() mt.profile(fn, {path = folder .. '/kept', quiet = true}) end, "kept': it is read%-only$")
  t.raises(function() mt.profile(fn, {path = folder .. '/full', quiet = true}) end,
    "profile: cannot write '.*/full': No space left on device$")
  local pipe = io.popen(('cd %s && head -c 1 real && head -c 1 kept && ls -A | tr "\\n" " " && test -L link && ' ..
    'test -c full && echo fine'):format(folder))
  local found = pipe:read('*a')
  pipe:close()
  os.execute('rm -rf ' .. folder)
  t.eq(found, '{kfull kept link real fine\n')
end)

t.test('the trace is JSON with every field of every event, nested as the calls were', function()
  local path = os.tmpname()
  local x = mt.rand(8, 8):requires_grad_()
  local rows = quiet(function()
    for _ = 1, 3 do x:tanh():sum():backward() end
  end, {path = path})
  local file = assert(io.open(path))
  local trace = parse_json(file:read('*a'))
  file:close()
  os.remove(path)
  t.eq(rows.trace, nil)
  local counts, events, named = {}, {}, {}
  for _, e in ipairs(trace.traceEvents) do
    assert(type(e.name) == 'string' and type(e.pid) == 'number' and type(e.tid) == 'number')
    if e.ph == 'M' then
      if e.name == 'thread_name' then named[e.tid] = e.args.name end
    else
      t.eq(e.ph, 'X')
      assert(e.ts >= 0 and e.dur >= 0 and type(e.cat) == 'string')
      assert(e.ts + e.dur <= rows.wall * 1e6 + 1)
      local key = e.cat .. ' ' .. e.name
      counts[key] = (counts[key] or 0) + 1
      events[#events + 1] = e
    end
  end
  for _, e in ipairs(events) do assert(named[e.tid], 'a track without a name') end
  local sum = 0
  for _, r in ipairs(rows) do
    t.eq({r.name, counts[r.kind .. ' ' .. r.name]}, {r.name, r.calls})
    sum = sum + r.calls
  end
  t.eq(#events, sum)
  local function inside(inner, outer)
    return outer.ts <= inner.ts + 2e-3 and inner.ts + inner.dur <= outer.ts + outer.dur + 2e-3
  end
  for _, e in ipairs(events) do
    local within = e.name == 'tanh backward' and 'backward' or e.name == 'cpu: map tanh' and 'tanh'
    local found = not within
    for _, o in ipairs(events) do found = found or (o.name == within and inside(e, o)) end
    assert(found, e.name .. ' lies outside of ' .. tostring(within))
  end
end)

t.test('the printed table has the columns and a row for each', function()
  local script, shown = os.tmpname(), os.tmpname()
  local file = assert(io.open(script, 'w'))
  file:write('local mt = require "mtorch" mt.profile(function() mt.ones(2):exp() end, {top = 2})')
  file:close()
  local program = arg[-1]
  for i = -1, -100, -1 do program = arg[i] or program end
  local function run(flags)
    local words = ("'%s' %s '%s' >'%s' 2>&1"):format(program, flags, script, shown)
    local status = os.execute(words)
    local output = assert(io.open(shown))
    local text = output:read('*a')
    output:close()
    return status, text
  end
  local status, text = run('')
  t.eq(status, 0)
  assert(text:find('^Name +Self CPU %% +Self CPU +CPU total %% +CPU total +CPU time avg +# of Calls\n%-+  '), text)
  assert(text:find('%(2 more rows%)\ntotal [%d.]+ [mu]s, of which', 1), text)
  assert(not text:find('\27'), 'colours in a file')
  -- the whole program, also when it ends in an error or by os.exit
  file = assert(io.open(script, 'w'))
  file:write('local mt = require "mtorch" mt.ones(2):exp() mt.ones(3):exp() print("done") os.exit(3)')
  file:close()
  for _, option in ipairs{'--profile', '--profile=true'} do
    status, text = run(option)
    assert(text:find('^done\nName') and text:find('\nexp +.- 2\n') and text:find('\ntotal [^\n]*\n$'), text)
    assert(status == 3 or status == 768, tostring(status))
  end
  status, text = run('--profile=false')
  assert(text == 'done\n', text)
  file = assert(io.open(script, 'w'))
  file:write('local mt = require "mtorch" mt.ones(2):exp() error("oh", 0)')
  file:close()
  local trace = os.tmpname()
  status, text = run("--profile='" .. trace .. "'")
  assert(text:find('mtorch: oh\n', 1, true) and text:find('\nexp +.- 1\n'), text)
  assert(text:find('trace: ' .. trace, 1, true), text)
  assert(status == 1 or status == 256, tostring(status))
  local output = assert(io.open(trace))
  assert(#parse_json(output:read('*a')).traceEvents >= 4)
  output:close()
  for _, path in ipairs {script, shown, trace} do os.remove(path) end
end)

t.test('wait, warmup, active: a schedule as of torch.profiler', function()
  local called, x = 0, mt.ones(4)
  local function step(...)
    called = called + 1
    x:exp()
    return called
  end
  local rows, last = mt.profile(step, {wait = 2, warmup = 3, active = 4, quiet = true})
  t.eq({called, last, calls(rows, 'exp')}, {9, 9, 4})
  t.eq({select(2, mt.profile(step, {quiet = true}))}, {10})
  t.raises(function() mt.profile(step, {active = 0}) end, 'active must be a whole number from 1, got 0')
  t.raises(function() mt.profile(step, {wait = -1}) end, 'wait must be a whole number from 0')
  t.raises(function() mt.profile(step, {warmup = 1.5}) end, 'warmup must be a whole number from 0')
end)

t.test('mt.time: of the processor and of the clock', function()
  local before = require('mtorch.core').time()
  local function busy() -- the clock of os.clock is the processor's
    local stop = os.clock() + 0.05
    while os.clock() < stop do end
    return 'a', nil, 'c'
  end
  local taken, a, b, c = mt.time(busy, {quiet = true})
  t.eq({a, b, c}, {'a', nil, 'c'})
  assert(taken.total >= 0.049 and taken.wall >= 0.049, taken.total)
  assert(taken.wall <= require('mtorch.core').time() - before)
  t.near(taken.total, taken.user + taken.sys, 1e-9)
  local printed, old = nil, print
  print = function(text) printed = text end -- luacheck: ignore
  mt.time(function() end)
  print = old -- luacheck: ignore
  assert(printed:find('^CPU times: user %S+ %Ss, sys: %S+ %Ss, total: %S+ %Ss\nWall time: %S+ %Ss$'), printed)
  t.raises(function() mt.time(5) end, 'time: fn must be a function, got 5')
end)

if mt.cuda.is_available() then
  t.test('on a GPU launches take CPU time and kernels GPU time, on a track of their own', function()
    local path = os.tmpname()
    local x = mt.rand(64, 64, {device = 'cuda'})
    local rows = quiet(function()
      local y
      for _ = 1, 4 do y = (x + x):relu() end
      return y:sum():item()
    end, {path = path})
    for _, name in ipairs {'map add', 'map relu'} do
      local launch, kernel = row(rows, 'launch: ' .. name, 'launch'), row(rows, 'cuda: ' .. name, 'kernel')
      t.eq({launch.calls, kernel.calls}, {4, 4})
      assert(launch.self_cpu > 0 and launch.self_cuda == 0)
      assert(kernel.self_cuda > 0 and kernel.self_cpu == 0)
      t.near(launch.cuda_total, kernel.self_cuda, 1e-12)
    end
    t.near(row(rows, 'add').cuda_total, row(rows, 'cuda: map add').self_cuda, 1e-12)
    assert(row(rows, 'launch: download') or row(rows, 'launch: alloc'))
    local sum = 0
    for _, r in ipairs(rows) do sum = sum + r.self_cuda end
    t.near(rows.cuda, sum, 1e-12)
    local file = assert(io.open(path))
    local trace = parse_json(file:read('*a'))
    file:close()
    os.remove(path)
    local tracks, on_gpu = {}, 0
    for _, e in ipairs(trace.traceEvents) do
      if e.name == 'thread_name' then tracks[e.args.name] = e.tid end
    end
    assert(tracks['cuda:0'], 'no track for the GPU')
    for _, e in ipairs(trace.traceEvents) do
      if e.cat == 'gpu' and e.name == 'map add' then
        t.eq(e.tid, tracks['cuda:0'])
        on_gpu = on_gpu + 1
      end
    end
    t.eq(on_gpu, 4)
  end)

  t.test('timeit and time wait for the GPU before the clock is read', function()
    local x = mt.ones(4, {device = 'cuda'})
    local function waits(fn)
      local before = mt.cuda.memory_stats().waits
      fn()
      return mt.cuda.memory_stats().waits - before
    end
    t.eq(waits(function() mt.timeit(function() x:exp() end, {n = 3, runs = 2, quiet = true}) end), 4)
    t.eq(waits(function() mt.time(function() x:exp() end, {quiet = true}) end), 2)
  end)

  t.test('a replay of a graph is one launch', function()
    local x = mt.ones(4, {device = 'cuda'})
    local graph = mt.cuda.graph(function() return (x + x):exp() end)
    local rows = quiet(function() for _ = 1, 3 do graph() end end)
    t.eq({calls(rows, 'launch: graph'), calls(rows, 'cuda: graph'), calls(rows, 'exp')}, {3, 3, 0})
  end)

  t.test('more launches than are kept at once are all counted', function()
    local x = mt.ones(4, {device = 'cuda'})
    local rows = quiet(function() for _ = 1, 2500 do x:exp() end end)
    t.eq({calls(rows, 'launch: map exp'), calls(rows, 'cuda: map exp')}, {2500, 2500})
    t.eq(#quiet(function() end), 0)
  end)
end

t.finish()
