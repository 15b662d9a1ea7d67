#!/bin/sh
# gdb.sh -- tests how gdb prints tensors and shapes with scripts/tools/gdb.py
#
#   sh tests/program/gdb.sh [BUILD]        (build by default; status 77: skipped, with the reason)
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
program=${1:-$here/build}/mtorch_gdb
command -v gdb >/dev/null || { echo "skipped: gdb is not here" && exit 77; }
gdb -nx -batch -ex 'python import gdb.printing' >/dev/null 2>&1 || { echo "skipped: gdb has no Python" && exit 77; }
folder=$(mktemp -d /tmp/mtorch_gdb.XXXXXX)
trap 'rm -rf "$folder"' EXIT
set -- -ex 'break stop_here' -ex run
for _ in 1 2 3 4 5 6; do
  set -- "$@" -ex up -ex 'output x' -ex 'echo \n' -ex 'output shape' -ex 'echo \n' -ex continue
done
# LeakSanitizer does not work under a debugger.
export OMP_NUM_THREADS=1 ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
gdb -nx -batch -x "$here/scripts/tools/gdb.py" "$@" "$program" >"$folder/out" 2>&1 </dev/null
if grep -q 'ptrace\|not being run' "$folder/out"; then echo "skipped: gdb cannot run programs here" && exit 77; fi
cat >"$folder/wanted" <<'END'
(2 x 3) float32 cpu [0.5 1.5 2.5 3.5 4.5 5.5]
(2 x 3)
(3 x 2) float32 cpu [0.5 3.5 1.5 4.5 2.5 5.5]
(1 x 3)
() float32 cpu [18] with a gradient
()
(40) int64 cpu [0 -1 -2 -3 -4 -5 -6 -7 -8 -9 -10 -11 ..]
(40)
(2) bfloat16 cpu [1.5 -2]
(0 x 7)
undefined
()
END
sed 's/^(const [^()]* &) @0x[0-9a-f]*: //' "$folder/out" | grep '^(\|^undefined' >"$folder/got"
diff "$folder/wanted" "$folder/got" || { cat "$folder/out" && exit 1; }
echo "$(wc -l <"$folder/got") tensors and shapes are printed"
