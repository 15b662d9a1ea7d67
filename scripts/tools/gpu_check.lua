-- gpu_check.lua -- checks a GPU in under 9 minutes: benchmarks against PyTorch, tests, compute-sanitizer
--
--   mtorch scripts/tools/gpu_check.lua [--emulated] [--quick] [--only GROUP,..] [--out DIR] [--minutes N] [--jobs N]
--
-- Writes DIR/gpu_check.json and DIR/gpu_check.md and what each part printed (DIR/log/PART). A part that fails, takes
-- too long or comes too late is one line, not the end. Status: 0 if all that ran passed, or if there is no GPU
-- ("skipped"); 1 if not. --emulated runs the same parts with the kernels on the CPU: sizes are cut, and what only
-- hardware can do is "not run: emulated". Groups: here, bench, models, large, cuda, device, waiting, cpu, cudnn, nccl,
-- sanitizer, races, script. MTORCH_CUDA_PLUGIN may name the plug-in.
local ffi = require 'ffi'
local mt = require 'mtorch'
local core = require 'mtorch.core'
local util = mt.extend.util
ffi.cdef 'int setenv(const char *, const char *, int); int unsetenv(const char *); int chdir(const char *);'

local options = mt.args{
  {'emulated', false, 'with the kernels on the CPU'},
  {'quick', false, 'a few parts, small sizes'},
  {'only', '', 'groups to run, beside "here"', metavar = 'GROUP,..'},
  {'out', 'gpu_check', 'folder for the results', metavar = 'DIR'},
  {'minutes', help = 'when parts are not begun any more; default: 9, emulated 60', min = 0},
  {'jobs', help = 'tests at a time; default: 1, emulated as many as there are cores', type = 'int', min = 1},
}
local emulated, quick = options.emulated, options.quick
local small = emulated or quick

local function output(command)
  local pipe = io.popen(command)
  local text = pipe:read '*a'
  pipe:close()
  return (text:gsub('%s+$', ''))
end
local function default(name, value)
  if not os.getenv(name) and value then ffi.C.setenv(name, value, 1) end
  return os.getenv(name)
end

-- ---- the environment of all parts --------------------------------------------------------------------

local root = output(("cd '%s../..' && pwd -P"):format(arg[0]:match '^(.*/)' or './'))
local out = output(("mkdir -p '%s/log' && cd '%s' && pwd -P"):format(options.out, options.out))
os.execute(("rm -f '%s'/log/* '%s'/*.json '%s'/gpu_check.md"):format(out, out, out))
local program = arg[0]
for i = -1, -100, -1 do program = arg[i] or program end
if program:find '/' then program = output(("realpath '%s'"):format(program)) end
ffi.C.chdir(root)
ffi.C.setenv('program', program, 1)
ffi.C.setenv('out', out, 1)
-- Parts of other groups than cudnn use cuDNN for large convolutions, by default.
local cudnn = os.getenv 'MTORCH_CUDNN' or '1'
ffi.C.unsetenv 'MTORCH_CUDNN'
if emulated then -- the emulation replaces cuBLAS and cuDNN; its kernels run on one thread
  local built = root .. '/build/libmtorch_cuda_emulated.so'
  local plugin = default('MTORCH_CUDA_PLUGIN', util.read_file(built) and built)
  default('MTORCH_CUBLAS', plugin)
  cudnn = cudnn == '1' and plugin or cudnn
end
default('OMP_NUM_THREADS', emulated and '1' or '2')
ffi.C.setenv('cudnn', cudnn, 1)

local usable, why = mt.cuda.is_available()
if not usable then
  print('skipped: ' .. why)
  os.exit(0)
end
-- Processes share a GPU by time slices: eight concurrent tests are ten times slower each.
local jobs = options.jobs or emulated and math.min(tonumber(output 'nproc'), 8) or 1
local began = core.time()
local deadline = began + 60 * (options.minutes or emulated and 60 or 9)

-- ---- running parts -----------------------------------------------------------------------------------

local parts, count, running = {}, {}, {}

local function note(p, outcome, seconds, words)
  p.outcome, p.seconds, p.words = outcome, seconds, util.truncate(words, 160)
  parts[#parts + 1] = p
  count[outcome] = (count[outcome] or 0) + 1
  if not outcome:find '^passed' and not outcome:find ':' then
    print(('%-9s %s %s (%.1f s) %s'):format(outcome, p.group, p.name, seconds, p.words))
  end
end

--- Waits for the part that was started first.
local function wait()
  local p = table.remove(running, 1)
  local status = tonumber(p.pipe:read '*a':match '%d+')
  p.pipe:close()
  local seconds, log, last = core.time() - p.began, util.read_file(p.log) or '', ''
  local wrong = log:match '[^\n]*failed[^\n]*' or log:match '[^\n]*rror[^\n]*' or log:match '[^\n]*: [^\n]*' or ''
  for line in log:gmatch '[^\n]*%S[^\n]*' do last = line end
  p.pipe, p.began, p.log = nil, nil, nil
  if status == 0 and not last:find '^skipped' then note(p, 'passed', seconds, last)
  elseif status == 0 or status == 77 then note(p, 'skipped', seconds, last)
  elseif status == 124 or status == 137 then note(p, 'timed out', seconds, last)
  else note(p, 'failed', seconds, ('status %d: %s'):format(status, wrong)) end
end

local wanted = {here = true}
for group in options.only:gmatch '[^,]+' do wanted[group] = true end

--- Runs a shell command, at most `limit` seconds; with `beside` while others run. The status 77 is "skipped".
local function part(group, name, limit, command, beside)
  if options.only ~= '' and not wanted[group] then return end
  while #running > 0 and (not beside or #running >= jobs) do wait() end
  local p, left = {group = group, name = name}, deadline - core.time()
  if left < 3 then return note(p, 'not run', 0, 'out of time') end
  limit = math.min(emulated and 6 * limit or limit, left)
  p.log, p.began = ('%s/log/%s.%s'):format(out, group, name), core.time()
  p.pipe = io.popen(("timeout -k 5 %d sh -c '%s' >'%s' 2>&1 </dev/null; echo $?"):format(limit,
    command:gsub("'", [['\'']]), p.log))
  running[#running + 1] = p
  if not beside then wait() end
end

--- The same for a part that needs hardware.
local function hardware(group, name, ...)
  if not emulated then part(group, name, ...)
  elseif options.only == '' or wanted[group] then note({group = group, name = name}, 'not run: emulated', 0, '') end
end

--- A Lua test, with variables of the environment before it, beside others.
local function test(group, name, limit, file, settings)
  part(group, name, limit, ('%s "$program" %s'):format(settings or '', file), true)
end
local on_device = 'tests/lua/on_device.lua cuda tests/lua/test_%s.lua'
local sync = 'MTORCH_CUDA_SYNC=1' -- errors of wrong positions are reported at their line

-- ---- the machine, and benchmarks ---------------------------------------------------------------------

hardware('here', 'driver', 20, [[command -v nvidia-smi >/dev/null || { echo "nvidia-smi is not here" && exit 77; }
for what in name,driver_version,pstate clocks.sm,clocks.max.sm,clocks.mem \
  power.draw,power.limit,temperature.gpu,ecc.mode.current,mig.mode.current; do
  nvidia-smi "--query-gpu=$what" --format=csv || exit 1
done]])
part('here', 'libraries', 90, '"$program" doctor && "$program" doctor | grep -q "^cublas *ok"')
part('here', 'first_operation', 120, [["$program" -e "local x = require('mtorch').ones({4}, {device = 'cuda'})
  print((x + x):sum():item())"]])

local rows = {bench = '^launch/,64Mi$,^matmul/%d+x%d+x%d+$,^matmul_back,^matmul_bf16,^bmm,^conv2d,^net_,' ..
  '^split_epoch,^chain,^add/,^relu/,^sum/,^softmax,^layer_norm,^cumsum,^sort,^gather,^scatter_add,^add_row,^add_col',
  models = '^model_'}
if small then
  rows.bench = '^launch/add,^relu/64Mi,^add_row/64Mi,^to_half/64Mi,^conv2d,^net_adam,^net_graph'
  rows.models = '^model_gpt2'
end
local bench = '"$program" scripts/bench.lua --device cuda ' .. (small and '--quick ' or '')
for _, group in ipairs{'bench', 'models'} do
  part(group, 'mtorch', group == 'bench' and 150 or 90, ('%s --only "%s" --save "$out/mtorch.%s.json"'):format(bench,
    rows[group]:gsub('%$', '\\$'), group))
end
for _, group in ipairs{'bench', 'models'} do
  hardware(group, 'torch', group == 'bench' and 170 or 90, ([["${MTORCH_PEER_PYTHON:-python3}" -c \
  "import torch; assert torch.cuda.is_available()" || { echo "no PyTorch with CUDA" && exit 77; }
%s --alone --peer torch --only "%s" --save "$out/torch.%s.json"]]):format(bench, rows[group]:gsub('%$', '\\$'), group))
end

-- ---- tests -------------------------------------------------------------------------------------------

part('large', 'compare', 120, ('"$program" %s tests/lua/large.lua --log2 %d'):format(small and '--threads 1' or '',
  small and 12 or 24))
hardware('large', 'beyond_2_31', 120, '"$program" tests/lua/large.lua --log2 26 --huge')

-- Tests of the program, files, text, other processes, and CPU-only functions. cuda_grid, cuda_map and cuda_fuse test
-- the functions that are compiled.
local not_on_device = util.word_set [[args readme reference print plot bench bf16_products checkpoint dist download
  explain files onednn scripts signature thin_products topics train_mnist workers language_models npy safetensors save
  small_integers fuse kernel kernel_loops kernel_random random_functions random_fused puzzles profile]]
if emulated then not_on_device.sort = true end -- rows of millions of elements
local apart = util.word_set 'cuda_graph cuda_async_errors cuda_nccl' -- run without others beside them
local longest = util.word_set 'indexing linalg memory reduce neural conv snippets' -- begin first

if quick then
  test('cuda', 'softmax', 60, 'tests/lua/test_cuda_softmax.lua', sync)
  test('cuda', 'async_errors', 60, 'tests/lua/test_cuda_async_errors.lua')
  test('device', 'optim', 60, on_device:format 'optim', sync)
else
  for name in pairs(longest) do test('device', name, 300, on_device:format(name), sync) end
  local names = output "cd tests/lua && ls test_*.lua | sed 's/^test_//; s/.lua$//'"
  for name in names:gmatch '%S+' do
    local is_cuda = name:find '^cuda_' or name == 'profile'
    if is_cuda and not apart[name] then
      test('cuda', name, 200, ('tests/lua/test_%s.lua'):format(name),
        (name == 'cuda_index' or name == 'cuda_softmax') and sync)
    elseif not is_cuda and not not_on_device[name] and not longest[name] and not name:find '^watch_' then
      test('device', name, 120, on_device:format(name), sync)
    end
  end
  for _, name in ipairs{'cuda_random', 'cuda_scan', 'cuda_sort', 'cuda_operations'} do
    test('waiting', name, 120, ('tests/lua/test_%s.lua'):format(name), sync)
  end
  if util.read_file(root .. '/build/build.ninja') then
    part('cpu', 'catch2', 240, '[ ! -x build/mtorch_tests ] || build/mtorch_tests "~[nightly]"', true)
  end
  for _, name in ipairs{'cuda_graph', 'cuda_async_errors'} do
    part('cuda', name, 120, ('"$program" tests/lua/test_%s.lua'):format(name))
  end
end

-- Convolutions by cuDNN, if it can be opened.
local with_cudnn = 'MTORCH_CUDNN="$cudnn" '
local said = output(with_cudnn .. [["$program" doctor 2>&1 | sed -n 's/^cudnn *//p' | tail -n 1]])
if said:find '^ok ' then
  test('cudnn', 'cuda_cudnn', 120, 'tests/lua/test_cuda_cudnn.lua', with_cudnn .. sync)
  if not quick then
    test('cudnn', 'cuda_conv', 200, 'tests/lua/test_cuda_conv.lua', with_cudnn)
    for _, name in ipairs{'conv', 'nn'} do
      test('cudnn', 'device_' .. name, 200, on_device:format(name), with_cudnn .. sync)
    end
    if not emulated then -- for comparison with group bench, which uses cuDNN
      part('cudnn', 'bench', 90, 'MTORCH_CUDNN=0 "$program" scripts/bench.lua --device cuda --only "^net_conv"')
    end
  end
elseif options.only == '' or wanted.cudnn then
  note({group = 'cudnn', name = 'all'}, 'not run: no cuDNN', 0, said)
end
-- NCCL: a group of one GPU; emulated, of several processes.
if not quick then part('nccl', 'groups', 30, '"$program" tests/lua/test_cuda_nccl.lua') end

-- compute-sanitizer, if it is installed; a message of its own says if the machine does not permit it.
local sanitized = [[
  local mt = require 'mtorch'
  mt.manual_seed(1)
  mt.set_default_device('cuda')
  local x, w = mt.randn(33, 45):requires_grad_(), mt.randn(45, 40):requires_grad_()
  local y = x:matmul(w):softmax(2)
  y:sum(1):cumsum(1):sum():backward()
  local s, at = x:detach():sort(2)
  local z = mt.zeros(33, 45):scatter_add(2, at, s):index_select(1, mt.tensor({1, 33, 5}, 'int64'))
  local c = mt.conv2d(mt.randn(2, 3, 17, 19), mt.randn(4, 3, 3, 3), nil, 1, 1)
  local large = mt.randn(300, 200)
  local p = large:matmul(large:t())
  local many = mt.zeros(7):index_add(1, mt.randint(1, 7, {5000}), mt.randn(5000))
  local n = mt.layer_norm(large, {200}) + large:half():float()
  local step = mt.cuda.graph(function() return (large * 2):sum() end)
  print(y:sum():item(), z:sum():item(), c:abs():max():item(), x[x:gt(0)]:sum():item(), p:sum():item(),
    many:sum():item(), n:sum():item(), step():item(), large:flatten():sort():sum():item())]]
for _, tool in ipairs(quick and {} or {'memcheck', 'racecheck', 'initcheck', 'synccheck'}) do
  hardware('sanitizer', tool, 90, ([[PATH=$PATH:/usr/local/cuda/bin
command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not installed" && exit 77; }
said=$(compute-sanitizer --tool %s --error-exitcode 9 "$program" --threads 1 -e "%s" 2>&1)
status=$?
printf "%%s\n" "$said"
case $status:$said in
  0:* | 9:*) exit $status ;;
  *=========*"not supported"* | *=========*ermission* | *=========*"nable to"*) exit 77 ;;
esac
exit 1]]):format(tool, sanitized))
end
-- The emulation detects races between barriers, for any order of threads.
for _, name in ipairs(emulated and {'softmax', 'scan'} or {}) do
  part('races', name, 300, ('MTORCH_EMULATION=races,shuffle "$program" tests/lua/test_cuda_%s.lua'):format(name))
end

-- ---- whole scripts -----------------------------------------------------------------------------------

part('script', 'train_split', 60, '"$program" scripts/train_split.lua --device cuda --hidden 100 --epochs ' ..
  (small and 3 or 200))
for _, lesson in ipairs(quick and {} or {
  {'cuda_threads', '', '--n 2000 --runs 1'}, {'cuda_reduce', '', '--largest 5000 --runs 1'},
  {'cuda_matmul', '', '--largest 64 --rows 40 --runs 1'},
  {'cuda_conv2d', '', '--height 40 --width 50 --runs 1'}, {'puzzles', '--solutions', ''},
}) do
  local name, flags, in_small = unpack(lesson)
  part('script', name, 90, ([[cd "$out" && "$program" '%s/scripts/lessons/%s.lua' %s %s]]):format(root, name, flags,
    emulated and in_small or ''))
end
part('here', 'memory_at_end', 30, [["$program" -e "
  for k, v in pairs(require('mtorch').cuda.memory_stats()) do print(k, v) end"]])
while #running > 0 do wait() end

-- ---- one JSON, one table -----------------------------------------------------------------------------

--- Returns the rows of a contender in microseconds, by name, and their names in order.
local function column(who)
  local times, names = {}, {}
  for _, group in ipairs{'bench', 'models'} do
    local path = ('%s/%s.%s.json'):format(out, who, group)
    for _, row in ipairs(util.read_file(path) and mt.data.json(path).rows or {}) do
      if row.results[who] then names[#names + 1], times[row.name] = row.name, row.results[who].us end
    end
  end
  return times, names
end
local ours, names = column 'mtorch'
local theirs = column 'torch'
local measured = util.map(names, function(name) return {name = name, us = ours[name], torch_us = theirs[name]} end)

--- The output of the parts of group 'here'.
local here = {}
for _, name in ipairs {'driver', 'libraries', 'first_operation', 'memory_at_end'} do
  here[name] = util.read_file(('%s/log/here.%s'):format(out, name)) or ''
end

-- Bytes moved by a row for each element, for the last column.
local moved = {device_copy = 8, clone = 8, add = 12, relu = 8, exp = 8, gelu = 8, sum = 4, upload = 4, download = 4,
  add_row = 8, add_channel = 8, to_half = 6, from_half = 6, cumsum = 8, softmax = 8, layer_norm = 8, batch_norm = 8}
local function rate(row)
  local name = row.name:match '^([%w_]+)/64Mi$'
  if moved[name] then return ('%.0f GB/s'):format(moved[name] * (small and 2 ^ 16 or 2 ^ 26) / row.us / 1e3) end
  local m, k, n = row.name:match '^matmul/(%d+)x(%d+)x(%d+)$'
  if m and tonumber(m) >= 512 then return ('%.1f TFLOP/s'):format(2 * m * k * n / row.us / 1e6) end
  return ''
end

local device, seconds = mt.cuda.device_name(), core.time() - began
mt.data.save_json(out .. '/gpu_check.json', {device = device, quick = quick, seconds = seconds, parts = parts,
  benchmarks = measured, here = here})

local lines = {}
local function say(...) lines[#lines + 1] = (...):format(select(2, ...)) end
local function cell(text) return (tostring(text):gsub('|', '\\|')) end

say('# GPU check: %s%s\n', device, quick and ' (quick)' or '')
local outcomes = util.map(util.sorted_keys(count), function(outcome) return count[outcome] .. ' ' .. outcome end)
table.sort(outcomes, function(a, b) return (a:find 'passed' or 9) < (b:find 'passed' or 9) end)
say('%d parts in %d s: %s.\n', #parts, seconds, table.concat(outcomes, ', '))
if (count.passed or 0) < #parts then
  say('| part | outcome | s | |\n|---|---|--:|---|')
  for _, p in ipairs(parts) do
    if p.outcome ~= 'passed' then
      say('| %s %s | %s | %.1f | %s |', p.group, cell(p.name), p.outcome, p.seconds, cell(p.words))
    end
  end
  say('')
end
say('```\n%s%s```\n', here.driver, here.libraries)
if #measured > 0 then
  say('| row | mtorch, us | PyTorch, us | times faster | mtorch |\n|---|--:|--:|--:|--:|')
  for _, r in ipairs(measured) do
    local torch = r.torch_us
    say('| `%s` | %.2f | %s | %s | %s |', r.name, r.us, torch and ('%.2f'):format(torch) or '-',
      torch and ('%.2f'):format(torch / r.us) or '-', rate(r))
  end
end
local text = table.concat(lines, '\n') .. '\n'
util.write_file('gpu_check', out .. '/gpu_check.md', text)
print(('%s\n%s/gpu_check.json, gpu_check.md'):format(text, out))
if (count.failed or 0) + (count['timed out'] or 0) + (count['not run'] or 0) > 0 then os.exit(1) end
