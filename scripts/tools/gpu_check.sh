#!/bin/sh
# gpu_check.sh -- checks a GPU in under 9 minutes: benchmarks against PyTorch, tests, compute-sanitizer
#
#   sh scripts/tools/gpu_check.sh [--emulated] [--quick] [--only GROUP,..] [--out DIR] [--minutes N] [--jobs N]
#
# Beside a build, or in a clone with the program of a package, which MTORCH names. Writes
# DIR/gpu_check.json and DIR/gpu_check.md (DIR is `gpu_check` in the present folder) and what each
# part printed (DIR/log/PART). A part that fails, takes too long or comes too late is one line, not
# the end. Status: 0 if all that ran passed, or if there is no GPU ("skipped"); 1 if not.
# --emulated runs the same parts with the kernels on the CPU: sizes are cut, and what only hardware
# can do is "not run: emulated". --quick: a few parts, small sizes. --only: of the groups here,
# bench, models, large, cuda, device, waiting, cpu, cudnn, nccl, sanitizer, races, script.
# MTORCH_CUDA_PLUGIN may name the plug-in.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
quick=no emulated=no out=$PWD/gpu_check minutes='' jobs='' only=''
while [ $# -gt 0 ]; do
  case $1 in
    --emulated) emulated=yes ;;
    --quick) quick=yes ;;
    --only) only=$2 && shift ;;
    --out) out=$2 && shift ;;
    --minutes) minutes=$2 && shift ;;
    --jobs) jobs=$2 && shift ;;
    *) sed -n '4p' "$0" >&2 && exit 2 ;;
  esac
  shift
done
program=''
for place in "${MTORCH:-}" "$here/build/mtorch"; do
  if [ -z "$program" ] && [ -x "$place" ]; then program=$place; fi
done
[ -n "$program" ] || { echo "gpu_check: no program in $here/build, and MTORCH names none" >&2 && exit 2; }
case $program in /*) ;; *) program=$PWD/$program ;; esac
cores=$(nproc 2>/dev/null || echo 2)
# Processes share a GPU by time slices: eight concurrent tests are ten times slower each.
if [ -z "$jobs" ]; then
  jobs=1
  [ $emulated = no ] || jobs=$((cores < 8 ? cores : 8))
fi
if [ $emulated = yes ]; then
  if [ -z "${MTORCH_CUDA_PLUGIN:-}" ] && [ -e "$here/build/libmtorch_cuda_emulated.so" ]; then
    export MTORCH_CUDA_PLUGIN="$here/build/libmtorch_cuda_emulated.so"
  fi
  # The emulation replaces cuBLAS and cuDNN. One thread is used, because its kernels run on one.
  export MTORCH_CUBLAS="${MTORCH_CUBLAS:-${MTORCH_CUDA_PLUGIN:-}}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
  cudnn=${MTORCH_CUDA_PLUGIN:-1}
else
  cudnn=1
fi
# Parts of other groups than cudnn use cuDNN for large convolutions, by default.
export cudnn="${MTORCH_CUDNN:-$cudnn}"
unset MTORCH_CUDNN
[ -n "$minutes" ] || { if [ $emulated = yes ]; then minutes=60; else minutes=9; fi; }

why=$("$program" -e "local ok, why = require('mtorch').cuda.is_available()
  if not ok then io.write(why) end" 2>&1) || :
if [ -n "$why" ]; then
  echo "skipped: $why"
  exit 0
fi

mkdir -p "$out/log" "$out/result"
out=$(CDPATH='' cd -- "$out" && pwd -P)
rm -f "$out"/log/* "$out"/result/* "$out"/*.tsv "$out"/gpu_check.*
cd "$here" || exit 1
began=$(date +%s)
deadline=$((began + 60 * minutes))
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" out deadline program emulated

# part GROUP NAME LIMIT COMMAND: runs a shell command; writes the outcome to result/GROUP.NAME:
# group, name, outcome, seconds, and the last output if it did not pass.
cat >"$out/part.sh" <<'END'
group=$1 name=$2 limit=$3 command=$4
log="$out/log/$group.$name"
began=$(date +%s.%N)
[ $emulated = no ] || limit=$((6 * limit))
left=$((deadline - ${began%.*}))
[ "$limit" -lt "$left" ] || limit=$left
if [ "$left" -lt 3 ]; then
  outcome='not run' words='out of time' seconds=0
else
  timeout -k 5 "$limit" sh -c "$command" >"$log" 2>&1 </dev/null
  status=$?
  seconds=$(echo "$began $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }')
  words=$(grep -v '^[[:space:]]*$' "$log" | tail -n 1 | tr '\t' ' ' | cut -c 1-160)
  case $status in
    0) outcome=passed ;;
    77) outcome=skipped ;;
    124 | 137) outcome='timed out' words="after $limit s: $words" ;;
    *) outcome=failed words="status $status: $(grep -m 1 -E 'failed|rror|: ' "$log" | tr '\t' ' ' | cut -c 1-160)" ;;
  esac
  case $outcome:$words in passed:skipped*) outcome=skipped ;; esac
fi
printf '%s\t%s\t%s\t%s\t%s\n' "$group" "$name" "$outcome" "$seconds" "$words" >"$out/result/$group.$name"
[ "$outcome" = passed ] || printf '%-9s %s %s (%s s) %s\n' "$outcome" "$group" "$name" "$seconds" "$words"
END
wanted() { case ",here,${only:-$1}," in *",$1,"*) ;; *) return 1 ;; esac; }
part() { ! wanted "$1" || sh "$out/part.sh" "$@"; }
# Runs the parts in the file $1, four lines each, `jobs` at a time.
parts() { tr '\n' '\0' <"$1" | xargs -r -0 -n 4 -P "$jobs" sh "$out/part.sh"; }
list() { ! wanted "$1" || printf '%s\n' "$@" >>"$out/parts"; }

# Runs a part that needs hardware.
hardware() {
  if [ $emulated = no ]; then part "$@"; elif wanted "$1"; then
    printf '%s\t%s\tnot run: emulated\t0\t\n' "$1" "$2" >"$out/result/$1.$2"
  fi
}

# ---- the machine: driver, clocks, libraries ----
cat >"$out/driver.sh" <<'END'
command -v nvidia-smi >/dev/null || { echo "nvidia-smi is not here" && exit 77; }
for what in name,driver_version,pstate clocks.sm,clocks.max.sm,clocks.mem \
  power.draw,power.limit,temperature.gpu,ecc.mode.current,mig.mode.current; do
  nvidia-smi "--query-gpu=$what" --format=csv || exit 1
done
END
hardware here driver 20 'sh "$out/driver.sh"'
part here libraries 90 '"$program" doctor && "$program" doctor | grep -q "^cublas *ok"'
part here first_operation 120 "\"\$program\" -e \"
  local x = require('mtorch').ones({4}, {device = 'cuda'})
  print((x + x):sum():item())\""

# ---- benchmarks: first mtorch's ----
rows='^launch/,64Mi$,^matmul/%d+x%d+x%d+$,^matmul_back,^matmul_bf16,^bmm,^conv2d,^net_,^split_epoch,^chain,^add/,^relu/'
rows="$rows,^sum/,^softmax,^layer_norm,^cumsum,^sort,^gather,^scatter_add,^add_row,^add_col"
flags='' models='^model_'
if [ $quick = yes ] || [ $emulated = yes ]; then
  models='^model_gpt2'
  rows='^launch/add,^relu/64Mi,^add_row/64Mi,^to_half/64Mi,^conv2d,^net_adam,^net_graph' flags=--quick
fi
bench="\"\$program\" scripts/bench.lua --device cuda $flags --only"
part bench mtorch 150 "$bench '$rows' --save \"\$out/mtorch.bench.tsv\""
part models mtorch 90 "$bench '$models' --save \"\$out/mtorch.models.tsv\""
python=${MTORCH_PEER_PYTHON:-python3}
cat >"$out/peer.sh" <<'END'
"$2" -c 'import torch; assert torch.cuda.is_available()' || { echo "no PyTorch with CUDA ($2)" && exit 77; }
MTORCH_PEER_PYTHON=$2 "$1" scripts/bench.lua --device cuda --alone --peer torch --only "$3" $5 \
  --save "$out/torch.$4.tsv"
END
hardware bench torch 170 "sh \"\$out/peer.sh\" \"\$program\" \"$python\" '$rows' bench $flags"
hardware models torch 90 "sh \"\$out/peer.sh\" \"\$program\" \"$python\" '$models' models $flags"

# ---- large tensors and grids ----
if [ $emulated = yes ] || [ $quick = yes ]; then
  part large compare 120 '"$program" --threads 1 tests/lua/large.lua --log2 12'
else
  part large compare 120 '"$program" tests/lua/large.lua --log2 24'
fi
hardware large beyond_2_31 120 '"$program" tests/lua/large.lua --log2 26 --huge'

# ---- tests ----
# With MTORCH_CUDA_SYNC errors of wrong positions are reported at their line.
sync=MTORCH_CUDA_SYNC=1
: >"$out/parts"
if [ $quick = yes ]; then
  list cuda softmax 60 "$sync \"\$program\" tests/lua/test_cuda_softmax.lua"
  list cuda async_errors 60 '"$program" tests/lua/test_cuda_async_errors.lua'
  list device optim 60 "$sync \"\$program\" tests/lua/on_device.lua cuda tests/lua/test_optim.lua"
else
  # The longest first.
  for name in indexing linalg memory reduce neural conv snippets; do
    list device $name 300 "$sync \"\$program\" tests/lua/on_device.lua cuda tests/lua/test_$name.lua"
  done
  for file in tests/lua/test_cuda_*.lua tests/lua/test_profile.lua; do
    name=$(basename "$file" .lua)
    wait=
    case ${name#test_} in
      cuda_graph | cuda_async_errors | cuda_nccl) continue ;; # run separately below
      cuda_index | cuda_softmax) wait=$sync ;;
    esac
    list cuda "${name#test_}" 200 "$wait \"\$program\" $file"
  done
  for file in tests/lua/test_*.lua; do
    name=$(basename "$file" .lua)
    case ${name#test_} in
      cuda_* | profile | indexing | linalg | memory | reduce | neural | conv | snippets) continue ;;
      # Tests of the program, files, text, other processes, and CPU-only functions.
      args | readme | reference | print | plot | bench | bf16_products | checkpoint | dist | download) continue ;;
      explain | files | onednn | scripts | signature | thin_products | topics) continue ;;
      train_mnist | watch_* | workers | language_models | npy | safetensors | save | small_integers) continue ;;
      # cuda_grid, cuda_map and cuda_fuse test this on a GPU, where each function is compiled.
      fuse | kernel | kernel_loops | kernel_random | random_functions | random_fused | puzzles) continue ;;
      sort) [ $emulated = no ] || continue ;;                # rows of millions of elements
    esac
    list device "${name#test_}" 120 "$sync \"\$program\" tests/lua/on_device.lua cuda $file"
  done
  # Also with synchronous launches, which report errors at their call.
  for name in cuda_random cuda_scan cuda_sort cuda_operations; do
    list waiting $name 120 "$sync \"\$program\" tests/lua/test_$name.lua"
  done
  [ ! -x build/mtorch_tests ] || list cpu catch2 240 'build/mtorch_tests "~[nightly]"'
fi
parts "$out/parts"
if [ $quick = no ]; then
  for name in graph async_errors; do part cuda cuda_$name 120 "\"\$program\" tests/lua/test_cuda_$name.lua"; done
fi

# ---- convolutions by cuDNN, if it can be opened ----
cudnn_words=$(MTORCH_CUDNN=$cudnn "$program" doctor 2>&1 | sed -n 's/^cudnn *//p' | tail -n 1)
wanted cudnn || cudnn_words='not asked for'
case $cudnn_words in
  'not asked for') ;;
  "ok "*)
    : >"$out/parts"
    list cudnn cuda_cudnn 120 "$sync MTORCH_CUDNN=\"\$cudnn\" \"\$program\" tests/lua/test_cuda_cudnn.lua"
    if [ $quick = no ]; then
      list cudnn cuda_conv 200 "MTORCH_CUDNN=\"\$cudnn\" \"\$program\" tests/lua/test_cuda_conv.lua"
      for name in conv nn; do
        list cudnn device_$name 200 \
          "$sync MTORCH_CUDNN=\"\$cudnn\" \"\$program\" tests/lua/on_device.lua cuda tests/lua/test_$name.lua"
      done
    fi
    parts "$out/parts"
    if [ $quick$emulated = nono ]; then # for comparison with group bench, which uses cuDNN
      part cudnn bench 90 "MTORCH_CUDNN=0 \"\$program\" scripts/bench.lua --device cuda --only '^net_conv'"
    fi
    ;;
  *)
    printf 'cudnn\tall\tnot run: no cuDNN\t0\t%s\n' "$(echo "$cudnn_words" | tr '\t' ' ' | cut -c 1-160)" \
      >"$out/result/cudnn.all"
    ;;
esac

# ---- NCCL: a group of one GPU; emulated, of several processes ----
if [ $quick = no ]; then part nccl groups 30 '"$program" tests/lua/test_cuda_nccl.lua'; fi

# ---- compute-sanitizer, if it is installed and permitted ----
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || :)
export sanitizer
cat >"$out/sanitize.sh" <<'END'
[ -n "$sanitizer" ] || { echo "compute-sanitizer is not installed" && exit 77; }
"$sanitizer" --tool "$1" --error-exitcode 9 "$program" --threads 1 -e "
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
    many:sum():item(), n:sum():item(), step():item(), large:flatten():sort():sum():item())" 2>&1
status=$?
[ $status != 0 ] || exit 0
[ $status != 9 ] || exit 1
exit 3
END
# If the machine does not permit it, it prints a message; every other error is a failure.
cat >"$out/sanitizer.sh" <<'END'
said=$(sh "$out/sanitize.sh" "$1")
status=$?
printf '%s\n' "$said"
[ $status = 3 ] || exit $status
case $(printf '%s\n' "$said" | grep '^=========') in *"not supported"* | *"ermission"* | *"nable to"*) exit 77 ;; esac
exit 1
END
if [ $quick = no ]; then
  for tool in memcheck racecheck initcheck synccheck; do
    hardware sanitizer $tool 90 "sh \"\$out/sanitizer.sh\" $tool"
  done
fi
# The emulation detects races between barriers, for any order of threads.
if [ $emulated = yes ]; then
  for name in softmax scan; do
    part races $name 300 "MTORCH_EMULATION=races,shuffle \"\$program\" tests/lua/test_cuda_$name.lua"
  done
fi

# ---- whole scripts ----
if [ $quick = yes ] || [ $emulated = yes ]; then epochs=3; else epochs=200; fi
part script train_split 60 "\"\$program\" scripts/train_split.lua --device cuda --hidden 100 --epochs $epochs"
small() {
  case $emulated:$1 in
    yes:cuda_threads) echo '--n 2000 --runs 1' ;;
    yes:cuda_reduce) echo '--largest 5000 --runs 1' ;;
    yes:cuda_matmul) echo '--largest 64 --rows 40 --size 64 --runs 1' ;;
    yes:cuda_conv2d) echo '--height 40 --width 50 --runs 1' ;;
    yes:fusion) echo '--rows 400 --columns 100 --runs 1' ;;
  esac
}
if [ $quick = no ]; then
  for script in threads reduce matmul conv2d; do
    part script cuda_$script 90 \
      "cd \"\$out\" && \"\$program\" \"$here/scripts/lessons/cuda_$script.lua\" $(small cuda_$script)"
  done
  part script puzzles 90 "\"\$program\" scripts/lessons/puzzles.lua --solutions"
  part script fusion 90 "\"\$program\" scripts/lessons/fusion.lua --tables $(small fusion)"
fi
part here memory_at_end 30 "\"\$program\" -e \"
  for k, v in pairs(require('mtorch').cuda.memory_stats()) do print(k, v) end\""

# ---- one JSON, one table ----
cat "$out"/result/* >"$out/parts.tsv"
rm -rf "$out/result" "$out/parts" "$out/part.sh" "$out/sanitize.sh" "$out/sanitizer.sh" "$out/peer.sh" "$out/driver.sh"
seconds=$(($(date +%s) - began))
"$program" scripts/tools/gpu_table.lua "$out" "$seconds" "$quick"
