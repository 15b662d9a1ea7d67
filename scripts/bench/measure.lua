-- measure.lua -- measures the tables of docs/benchmarks.md part by part, and writes the page and its graph
--
--   QUIET=quiet mtorch scripts/bench/measure.lua --folder DIR [--parts steps,own]
--
-- DIR contains a file for each part, so that one can be measured again. QUIET is a command that is put before each
-- measurement; MTORCH_PEER_PYTHON is the Python interpreter with the peers.
package.path = arg[0]:gsub('bench/measure%.lua$', '?.lua;') .. package.path
local mt = require 'mtorch'
local report = require 'bench.report'
local tools = require 'bench.tools'
local util = mt.extend.util

local options = mt.args {
  {'folder', help = 'folder for the files of the parts', required = true},
  {'parts', 'all', 'parts to measure; none: only the page is written', metavar = 'NAME,..'},
}

local limit_to_avx2 = 'ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2'
-- {name, title, description, flags of bench.lua, environment variables}.
local parts = {
  {'steps', 'Training steps', 'An epoch of split (50 points in batches of 10) at three widths, and a step of a ' ..
    'perceptron: forward, backward, update. `_compiled`: through `mt.compile`; JAX by `jax.jit`, an epoch as one ' ..
    'scan; C++ is hand-written loops.', "--only '^step_split,^step_mlp' --peer torch,jax,cpp"},
  {'networks', 'Training steps of larger networks', 'Columns as above; `no_onednn`: without oneDNN.',
    "--only '^step_cnn,^step_lstm,^step_gru,^step_transformer' --peer torch,jax,no_onednn"},
  {'steps_compiled', 'Training steps through torch.compile', '',
    "--only '^step_split_compiled/100$,^step_mlp_compiled' --peer torch_compile"},
  {'own', 'Functions written by hand', '`own_`: one function of `mt.map`, `mt.zip` or `mt.fuse`; `_back`: its ' ..
    'backward pass only; `chain_`: the same as operations one by one.',
    "--only '^own_.*/1Mi,^chain_.*/1Mi' --peer torch,jax,numba,cpp,copy"},
  {'own_compiled', 'Functions written by hand through torch.compile', '',
    "--only '^own_.*/1Mi' --peer torch_compile"},
  {'products', 'Matrix products', 'nt: the second operand is stored transposed; tn: the first; tt: ' ..
    'both.', "--group '^products' --peer torch,cblas,no_onednn"},
  {'convolutions', 'Convolutions and pooling', 'Batch x channels x height x width and the channels of the result; ' ..
    'windows of 3 x 3.', "--group '^convolutions' --peer torch,no_onednn"},
  {'functions', 'Functions and their gradients', '`_back`: the backward pass only, for a given gradient.',
    "--group '^functions' --peer torch"},
  {'whole_networks', 'Whole networks', '`_train`: forward, backward, update; the others: inference; `_decode`: one ' ..
    'token after 128. `_bf16`: weights in bfloat16, training by autocast; `_compiled`: through `mt.compile`, beside ' ..
    "PyTorch's eager step; `_first`: the first step of a process. `scripts/bench/whole_networks.lua` has the sizes.",
    "--only '^net_' --peer torch"},
  {'whole', 'Programs', 'Start-up, size on disk (the program; a package without Python and dependencies), ' ..
    'steps of optimizers, the jobs of README.',
    "--only '^startup,^disk,^chain/4,^split_epoch,^Adam/,^SGD/,^AdamW/' " ..
    '--peer torch,numpy,jax'},
  {'first', 'First calls', 'In a new process, with open libraries. `_compiled`: until the step is recorded and ' ..
    'replayed (4 calls); JAX: the call that compiles.',
    "--only '^first_map,^first_fuse,^first_step_split' --peer torch,jax"},
  {'threads', 'Two threads', "The ratio is two threads' time / one thread's.", "--only '^matmul/1024x1024x1024$," ..
    '^matmul/256x256x256$,^conv_forward/32x,^conv_weights/32x,^gelu/1Mi,^tan/1Mi,^exp/1Mi,^add/1Mi,^sum/1Mi,' ..
    "^softmax_rows,^sort/1Mi,^step_mlp/,^step_split/1000," ..
    "^step_cnn/,^step_lstm/,^step_transformer/' --peer two_threads"},
  {'avx2', 'As a processor without AVX-512', 'The same processor, with AVX2 on both sides.',
    "--only '^step_split/100,^step_mlp/,^step_cnn/,^exp/1Mi,^tanh/1Mi,^gelu/1Mi,^add/1Mi,^sum/1Mi,^softmax/1Mi," ..
    '^matmul/64x64x64$,^matmul/256x256x256$,^matmul/1024x1024x1024$,^conv_forward/64x16,^chain/4$,^add/4$' ..
    "' --peer torch",
    'MTORCH_ISA=avx2 ' .. limit_to_avx2},
  {'elementwise', 'Elementwise operations of 1 Mi values', '', "--group '^elementwise' --sizes 1Mi --peer torch"},
  {'arrays', 'Reductions, scans, sorting, movement of 1 Mi values', '',
    "--group '^reductions,^movement' --sizes 1Mi --peer torch"},
  {'sizes', 'Time over size', '', "--only '^exp/,^tanh/,^gelu/,^add/,^relu/,^sum/' --group '^elem,^red' " ..
    '--sizes 4,32,256,2Ki,16Ki,128Ki,1Mi,8Mi --peer torch,jax,numpy,copy', nil},
}

local function path(part) return ('%s/%s.json'):format(options.folder, part) end
local function is_measured(part) return util.read_file(path(part)) ~= nil end

--- Runs bench.lua with these flags, as shell words; returns its output.
local function bench(flags, settings, before)
  local pipe = io.popen(("env %s %s '%s' '%sbench.lua' %s"):format(settings or '', before or '', tools.program,
    tools.folder, flags))
  local text = pipe:read('*a')
  pipe:close()
  return text
end

local function measure(part)
  if options.parts ~= 'all' and not (',' .. options.parts .. ','):find(',' .. part[1] .. ',', 1, true) then return end
  print(part[1])
  io.write(bench(('%s --save %s'):format(part[4], path(part[1])), part[5], os.getenv 'QUIET'))
end

--- Returns a text about the machine, its limits, and the versions of the columns.
local function describe_machine()
  local seen, machine, lines = {}, nil, {}
  for _, part in ipairs(parts) do
    local run = is_measured(part[1]) and report.read(path(part[1]))
    for _, c in ipairs(run and part[1] ~= 'avx2' and run.columns or {}) do
      machine = run.machine
      if not seen[c.name] then lines[#lines + 1], seen[c.name] = ('- `%s`: %s'):format(c.name, c.title), true end
    end
  end
  if not machine then error('no part is in ' .. options.folder, 0) end
  local m = machine
  return ('%s (%s, family %s, model %s), a virtual machine of %d cores, %s, %s. Limits measured: a copy of 4 MiB ' ..
    'runs at %.1f GB/s (read and written).\n\n'):format(
    m.processor, m.vendor, m.family, m.model, m.cores, m.isa, m.date, 8388.608 / m.copy.us) ..
    table.concat(lines, '\n')
end

local head = [[
# Benchmarks

Written by `mtorch scripts/bench/measure.lua`; the command above a table creates it. All columns of a row are measured
in turns, and a time is the median of seven turns. A ratio is the time of the column before it / mtorch's: above 1
mtorch is faster. The default is one thread. The machine is virtual and shared: compare ratios, not times.

]]

local function page()
  local text = {head .. describe_machine()}
  for _, part in ipairs(parts) do
    local name, title, words, flags, settings = unpack(part, 1, 5)
    if is_measured(name) and name ~= 'sizes' then
      text[#text + 1] = ('\n## %s\n'):format(title)
      if words ~= '' then text[#text + 1] = words .. '\n' end
      text[#text + 1] = ('    %smtorch scripts/bench.lua %s\n'):format(settings and settings .. ' ' or '', flags)
      text[#text + 1] = (bench(('--from %s --format markdown'):format(path(name))):gsub('\n$', ''))
    end
  end
  text[#text + 1] = '\n## Graph\n\n![time over size](bench_sizes.svg)\n'
  return table.concat(text, '\n')
end

for _, part in ipairs(parts) do measure(part) end
local docs = tools.folder .. '../docs/'
if is_measured 'sizes' then bench(('--from %s --plot %sbench_sizes.svg'):format(path 'sizes', docs)) end
util.write_file('measure.lua', docs .. 'benchmarks.md', page())
