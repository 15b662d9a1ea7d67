-- test_simulate.lua -- scripts/simulate.lua: closed forms, and processes with emulated GPUs
--
--   MTORCH_CUDA_PLUGIN=build/libmtorch_cuda_emulated.so build/mtorch tests/lua/test_simulate.lua   also times processes
local mt = require 'mtorch'
local t = require 'testing'
local dist = mt.dist
local layers, width = 6, 128

if arg[1] == '--process' then -- prints the milliseconds of a layer's forward and backward, and of a step
  local rank = dist.init()
  mt.set_default_device 'cuda'
  local list = {}
  for i = 1, layers do list[i] = mt.nn.Linear(width, width, {bias = false}) end
  local net, x = mt.nn.Sequential(list), mt.randn(width, width):requires_grad_()
  local function measure()
    local best = {wall = math.huge}
    for _ = 1, 15 do
      net:zero_grad()
      dist.barrier()
      local y
      local forward = mt.time(function() y = net(x):sum() end, true).wall
      local backward = mt.time(function() y:backward() end, true).wall
      if forward + backward < best.wall then best = {wall = forward + backward, forward, backward} end
    end
    return best
  end
  local alone = measure()
  if arg[2] == 'shard' then dist.shard(net) else dist.parallel(net, {bucket_mb = width ^ 2 * 4e-6}) end
  local together = measure()
  dist.print(('times %.4f %.4f %.4f'):format(alone[1] * 1e3 / layers, alone[2] * 1e3 / layers, together.wall * 1e3))
  io.write('process ', rank, ' is done\n')
  os.exit(0)
end

local program, scripts = arg[-1], (arg[0]:match '^(.*/)' or './') .. '../../scripts/'
for i = -1, -100, -1 do program = arg[i] or program end
--- Runs the script; returns the line of each number of GPUs.
local function simulate(flags, ...)
  local pipe = io.popen(("'%s' '%ssimulate.lua' %s 2>&1"):format(program, scripts, flags:format(...)))
  local text, lines = pipe:read '*a', {}
  pipe:close()
  for gpus, step, sending, hidden, scaling, whole, sharded, parts in text:gmatch(
    '\n +(%d+) +([%d.]+) ms +([%d.]+) ms +(%S+) +([%d.]+)%% | +(%S+) +(%S+) +([%d.]+)') do
    lines[tonumber(gpus)] = {step = tonumber(step), sending = tonumber(sending), hidden = hidden,
      scaling = tonumber(scaling), memory = {tonumber(whole), tonumber(sharded), tonumber(parts)}}
  end
  return lines, text
end

local uniform = '--model uniform --layers 4 --layer_mb 1 --bucket_mb 1 --forward_ms 1 --backward_ms 2 --latency_us 0 '
t.test('buckets are sent while backward goes on', function()
  -- 4 MB in buckets of 1 MB: 1 ms each, of which the last is after backward
  t.eq(simulate(uniform .. '--gpus 2 --link 1')[2], {step = 13, sending = 4, hidden = '75%', scaling = 92.3,
    memory = {0, 0, 0}})
  -- 3 ms each: they begin at 6, 9, 12 and 15 ms
  t.eq(simulate(uniform .. '--gpus 2 --link 0.333333333')[2].step, 18)
  -- one bucket, after backward; half the bytes
  t.eq(simulate(uniform .. '--gpus 2 --link 1 --bucket_mb 5')[2].step, 16)
  t.eq(simulate(uniform .. '--gpus 2 --link 1 --bucket_mb 5 --wire bfloat16')[2].step, 14)
end)
t.test('rings inside machines and between them', function()
  local lines = simulate(uniform .. '--gpus 1,4,8 --per_machine 4 --link 1 --network 0.25 --bucket_mb 5')
  t.eq({lines[1].step, lines[1].hidden}, {12, '-'})
  t.eq(lines[4].step, 12 + 2 * 3 / 4 * 4)
  t.eq(lines[8].step, 12 + 2 * 3 / 4 * 4 + 2 * 1 / 2 * 4 / 4 / 0.25)
  t.eq(simulate(uniform:gsub('latency_us 0', 'latency_us 500') .. '--gpus 8 --link 1e9 --bucket_mb 5')[8].step, 15)
end)
t.test('parts are gathered while the layer before computes', function()
  -- two gathers and a scatter of 0.75 ms a layer: the first gather and the last scatter are waited for
  t.eq(simulate(uniform .. '--mode shard --gpus 4 --link 1')[4].step, 13.5)
  -- 3 ms each: four gathers, of which the last one overlaps nothing; in backward three gathers and four scatters
  t.eq(simulate(uniform .. '--mode shard --gpus 4 --link 0.25')[4].step, 4 * 3 + 1 + 3 * 3 + 4 * 3)
end)
t.test('networks', function()
  local lines, text = simulate '--gpus 1,8'
  for _, title in ipairs{'GPT%-2 124M, 16 x 1024 tokens', 'ResNet%-50, 128 images', 'Llama 8B, 1 x 8192', 'rank 16'} do
    t.eq(text:find(title) ~= nil, true)
  end
  lines = simulate '--model gpt2 --gpus 8'
  t.near(lines[8].sending, 2 * 7 / 8 * 124.4e6 * 4 / 200e9 * 1e3 + 0.3, 0.5)
  lines = simulate '--model resnet50 --gpus 8'
  t.near(lines[8].sending, 2 * 7 / 8 * 25.56e6 * 4 / 200e9 * 1e3 + 0.2, 0.2)
  t.eq(select(2, simulate '--gpus 0'), "simulate: --gpus: 0 is not a number of GPUs\n")
end)

local plugin = os.getenv 'MTORCH_CUDA_PLUGIN' or ''
if not plugin:find 'emulated' or os.execute 'command -v mpirun >/dev/null' ~= 0 then
  print 'the rest is skipped: it needs the emulation and mpirun'
  return t.finish()
end
for _, mode in ipairs{'parallel', 'shard'} do t.test('processes take as long as estimated: ' .. mode, function()
  local report = {}
  for _, us in ipairs{4000, 16000} do
    local far
    for _ = 1, 4 do
      local text = t.processes(2, ('MTORCH_NCCL=%s MTORCH_EMULATED_GPU=eight MTORCH_EMULATED_NCCL=us=%d'):format(
        plugin, us), mode)
      local forward, backward, measured = text:match 'times (%S+) (%S+) (%S+)'
      assert(forward, text)
      local mb = width ^ 2 * 4e-6
      local latency = mode == 'shard' and us or us / 2 -- a gather takes half an all-reduce there
      local expected = simulate('--mode %s --model uniform --gpus 2 --layers %d --layer_mb %.9g --bucket_mb %.9g ' ..
        '--link 1e9 --latency_us %d --forward_ms %s --backward_ms %s', mode, layers, mb, mb, latency, forward,
        backward)[2].step
      far = math.abs(measured / expected - 1)
      report[#report + 1] = ('%d us: %.1f ms, estimated %.1f'):format(us, measured, expected)
      if far <= 0.05 then break end
    end
    if far > 0.05 then error(table.concat(report, '; '), 0) end
  end
  print(table.concat(report, '; '))
end) end
t.finish()
