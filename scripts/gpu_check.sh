#!/bin/sh
# gpu_check.sh -- everything on a GPU in under 8 minutes: tests, compute-sanitizer, benchmarks beside PyTorch
#
#   sh scripts/gpu_check.sh [--quick] [--out DIR] [--minutes N] [--jobs N]
#
# In the bundle, or beside a build. Writes DIR/gpu_check.json and DIR/gpu_check.md (DIR is
# `gpu_check` in the present folder) and what each part printed (DIR/log/PART). A part that fails,
# takes too long or comes too late is one line, not the end. Status: 0 if all that ran passed, or if
# there is no GPU ("skipped"); 1 if not. --quick tries the check itself: a few parts, small
# sizes. MTORCH_CUDA_PLUGIN may name the plug-in that runs the kernels on the CPU.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
quick=no out=$PWD/gpu_check minutes=8 jobs=''
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=yes ;;
    --out) out=$2 && shift ;;
    --minutes) minutes=$2 && shift ;;
    --jobs) jobs=$2 && shift ;;
    *) sed -n '4p' "$0" >&2 && exit 2 ;;
  esac
  shift
done
program=''
for place in "${MTORCH:-}" "$here/bin/mtorch" "$here/build/mtorch"; do
  if [ -z "$program" ] && [ -x "$place" ]; then program=$place; fi
done
[ -n "$program" ] || { echo "gpu_check: no program in $here/bin or $here/build" >&2 && exit 2; }
case $program in /*) ;; *) program=$PWD/$program ;; esac
cores=$(nproc 2>/dev/null || echo 2)
[ -n "$jobs" ] || jobs=$((cores < 8 ? cores : 8))

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
# The tests leave three minutes, or a third, for the benchmarks.
deadline=$((began + 60 * minutes - (minutes > 7 ? 180 : 20 * minutes)))
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" out deadline program

# part GROUP NAME LIMIT COMMAND: runs a line of shell; leaves its outcome in result/GROUP.NAME:
# group, name, outcome, seconds, and the last words where it did not pass.
cat >"$out/part.sh" <<'END'
group=$1 name=$2 limit=$3 command=$4
log="$out/log/$group.$name"
began=$(date +%s.%N)
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
part() { sh "$out/part.sh" "$@"; }
# Runs the parts that stand in the file $1, four lines each, `jobs` at a time.
parts() { tr '\n' '\0' <"$1" | xargs -0 -n 4 -P "$jobs" sh "$out/part.sh"; }
list() { printf '%s\n' "$@" >>"$out/parts"; }

# ---- tests ----
: >"$out/parts"
if [ $quick = yes ]; then
  list cuda softmax 60 '"$program" tests/lua/test_cuda_softmax.lua'
  list cuda operations 60 '"$program" tests/lua/test_cuda_operations.lua'
  list device optim 60 '"$program" tests/on_device.lua cuda tests/lua/test_optim.lua'
else
  for file in tests/lua/test_cuda_*.lua tests/lua/test_profile.lua; do
    name=$(basename "$file" .lua)
    list cuda "${name#test_}" 120 "\"\$program\" $file"
  done
  # The longest first.
  for name in indexing linalg memory reduce neural conv snippets; do
    list device $name 240 "\"\$program\" tests/on_device.lua cuda tests/lua/test_$name.lua"
  done
  for file in tests/lua/test_*.lua; do
    name=$(basename "$file" .lua)
    case ${name#test_} in
      cuda_* | profile | indexing | linalg | memory | reduce | neural | conv | snippets) continue ;;
      args | readme | reference | print | plot) continue ;; # about the program, files and text
    esac
    list device "${name#test_}" 120 "\"\$program\" tests/on_device.lua cuda $file"
  done
  [ ! -x bin/mtorch_tests ] || list cpu catch2 240 'bin/mtorch_tests "~[nightly]"'
fi
parts "$out/parts"

deadline=$((began + 60 * minutes))

# ---- compute-sanitizer, where it is there and is let ----
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
  print(y:sum():item(), z:sum():item(), c:abs():max():item(), x[x:gt(0)]:sum():item())"
status=$?
[ $status != 9 ] || exit 1
# It says so where a machine does not let it look.
[ $status = 0 ] || { echo "compute-sanitizer cannot be used here (status $status)" && exit 77; }
END
if [ $quick = no ]; then
  for tool in memcheck racecheck; do part sanitizer $tool 60 "sh \"\$out/sanitize.sh\" $tool"; done
fi

# ---- whole scripts ----
if [ $quick = yes ]; then epochs=3; else epochs=200; fi
part script train_split 60 "\"\$program\" scripts/train_split.lua --device cuda --hidden 100 --epochs $epochs"
if [ $quick = no ]; then
  for script in scripts/cuda_*.lua; do
    [ -e "$script" ] || continue
    part script "$(basename "$script" .lua)" 90 "cd \"\$out\" && \"\$program\" \"$here/$script\""
  done
fi

# ---- benchmarks ----
rows='^launch/,64Mi$,^matmul/%d+x%d+x%d+$,^matmul_back,^conv2d,^split_epoch,^chain,^add/,^relu/'
rows="$rows,^sum/,^softmax"
flags='' peer=none
if [ $quick = yes ]; then rows='^launch/add,^relu/64Mi,^conv2d' flags=--quick; fi
python=${MTORCH_PEER_PYTHON:-python3}
if "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then peer=torch; fi
part bench "beside_$peer" 240 "\"\$program\" scripts/bench.lua --device cuda $flags --only '$rows' \
  --save \"\$out/mtorch.tsv\" --peer $peer --format markdown"
if [ ! -s "$out/mtorch.tsv" ] && [ $peer != none ]; then # the peer failed: ours alone
  part bench alone 150 "\"\$program\" scripts/bench.lua --device cuda $flags --only '$rows' \
    --save \"\$out/mtorch.tsv\""
fi

# ---- one JSON, one table ----
cat "$out"/result/* >"$out/parts.tsv"
rm -rf "$out/result" "$out/parts" "$out/part.sh" "$out/sanitize.sh"
seconds=$(($(date +%s) - began))
"$program" scripts/gpu_table.lua "$out" "$seconds" "$quick"
