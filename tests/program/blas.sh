#!/bin/sh
# blas.sh -- tests how OpenBLAS is found and rejected, and how the best kernels for the processor are selected
#
#   sh tests/program/blas.sh [BUILD]        (build by default)
#
# Prints `ok` or `not ok` for each check. Status: 0 if all are ok, 77 where OpenBLAS is missing.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
build=${1:-$here/build}
program=$build/mtorch
[ -x "$program" ] || { echo "not ok - $program is missing" && exit 1; }
unset MTORCH_BLAS OPENBLAS_CORETYPE
export MTORCH_ONEDNN=off # which would compute large products
folder=$(mktemp -d /tmp/mtorch_blas.XXXXXX)
trap 'rm -rf "$folder"' EXIT

failures=0
# has NAME TEXT WANTED: the text matches the pattern.
has() {
  # shellcheck disable=SC2254  # a pattern
  case $2 in
    $3) echo "ok - $1" ;;
    *)
      failures=$((failures + 1))
      echo "not ok - $1"
      printf '%s\n' "$2" | head -n 12 | sed 's/^/    /'
      ;;
  esac
}
doctor() { timeout 60 "$@" "$program" doctor 2>&1 | grep -A1 '^blas'; }
# lua [VARIABLE=VALUE..] CODE
lua() {
  for code; do :; done
  while [ $# -gt 1 ]; do export "${1?}" && shift; done
  timeout 60 "$program" -e "local mt = require 'mtorch' $code" 2>&1
}
small='print(mt.ones(99, 99):matmul(mt.ones(99, 99)):sum():item())'
large='local x = mt.ones(512, 512) print(x:matmul(x):sum():item())'

library=$(doctor env | sed -n 's/^blas  .* \(\/[^ ]*\)$/\1/p')
[ -n "$library" ] || { echo "skipped: $(doctor env)" && exit 77; }

# ---- OpenBLAS is opened at its first use ----
case $(ldd "$program") in *libopenblas*) linked=yes ;; *) linked=no ;; esac
has 'the program does not link it' $linked no
maps="io.write(io.open('/proc/self/maps'):read('*a'):find('openblas') and 'there' or 'not there', ' ')"
has 'it comes with the first large product' "$(lua "$maps $small $maps $large $maps")" \
  'not there 970299
not there 134217728
there '
has 'and with the first factorisation' "$(lua "mt.linalg.inv(mt.eye(3)) $maps")" 'there '
has 'a gradient of a convolution finds it too' "$(lua "
  local w = mt.ones({64, 64, 3, 3}, {requires_grad = true})
  mt.conv2d(mt.ones(8, 64, 28, 28), w, nil, {padding = 1}):sum():backward()
  print(w.grad:sum():item())")" 220332032

# ---- the kernels of OpenBLAS ----
core="local ffi = require 'ffi' ffi.cdef 'char *openblas_get_corename(void);'
  print(ffi.string(ffi.load('libopenblas.so.0').openblas_get_corename()) .. ' of ' ..
    tostring(os.getenv 'OPENBLAS_CORETYPE'))"
best=$(grep -q '^flags.* avx512f .*' /proc/cpuinfo && echo SkylakeX ||
  { grep -q '^flags.* avx2 ' /proc/cpuinfo && echo Haswell || echo '*'; })
threads='mt.set_num_threads(2) local y = mt.ones(4e6):exp()' # OpenMP's threads exist already
after='print(mt.get_num_threads())'
has 'its kernels go by the features, and the environment is as it was' \
  "$(lua "$threads $large $after $core")" "134217728
2
$best of nil"
has 'the setting of the user is used' "$(lua OPENBLAS_CORETYPE=Sandybridge "$large $core")" \
  '134217728
Sandybridge of Sandybridge'
has 'the doctor names the kernels' "$(doctor env)" "*blas kernels *ok *$best*"
if [ "$best" != '*' ]; then
  has 'the doctor rejects kernels that are not the best' "$(doctor env OPENBLAS_CORETYPE=Prescott)" \
    "*blas kernels *off *Prescott*OPENBLAS_CORETYPE=$best*"
fi

# ---- oneDNN ----
onednn() { timeout 60 env "$@" "$program" doctor 2>&1 | grep '^onednn'; }
has 'the doctor says what is lost without oneDNN' "$(onednn MTORCH_ONEDNN=off)" \
  'onednn  *off *slower without oneDNN: MTORCH_ONEDNN is off; *'
has 'and how to have it' "$(onednn MTORCH_ONEDNN=/not/there.so)" 'onednn  *off */not/there.so*apt-get install libdnnl2*'
has 'another library is rejected' "$(onednn MTORCH_ONEDNN=libz.so.1)" \
  'onednn  *off *libz.so.1: dnnl_version is not in it; *'
found=$(onednn MTORCH_ONEDNN=)
case $found in
  *' ok '*)
    has 'it names its version and its file' "$found" 'onednn  *ok *oneDNN [23].*.*, /*libdnnl.so*'
    has 'which it opens by name' "$(onednn MTORCH_ONEDNN="${found##*, }")" "$found"
    ;;
esac

# ---- without a usable library ----
has 'a library that is not there' "$(lua MTORCH_BLAS=/not/there.so "$small $large")" \
  "970299
mtorch: (command line):1: matmul: *OpenBLAS*/not/there.so: *apt-get install*"
has 'the same for a factorisation' "$(lua MTORCH_BLAS=/not/there.so 'mt.linalg.inv(mt.eye(3))')" \
  'mtorch: (command line):1: inv: *OpenBLAS*'
has 'and to the doctor' "$(doctor env MTORCH_BLAS=/not/there.so)" 'blas  *off *not/there*'
has 'a library that is something else' "$(lua MTORCH_BLAS=libz.so.1 "$large")" \
  '*libz.so.1: openblas_get_parallel is not in it;*'
if command -v "${CC:-cc}" >/dev/null; then
  {
    sed -n 's/^  X(\([a-z0-9]*\),.*/void s\1_(void) {} void d\1_(void) {}/p' "$here/kernels/cpu/libraries/openblas.h"
    echo 'int openblas_get_parallel(void) { return 1; } void openblas_get_config(void) {}'
    echo 'void openblas_get_corename(void) {} void cblas_sgemm(void) {} void cblas_dgemm(void) {}'
  } >"$folder/threads.c"
  "${CC:-cc}" -w -shared -fPIC -o "$folder/threads.so" "$folder/threads.c"
  has 'a build with threads of its own' "$(lua MTORCH_BLAS="$folder/threads.so" "$large")" \
    '*threads.so: this is not *OpenMP build*'
fi
# The sanitizers must be loaded first, and need terabytes of addresses.
if [ -z "${MTORCH_SANITIZED:-}" ]; then
  [ ! -e "$folder/threads.so" ] ||
    has 'the same, in the process already' "$(doctor env LD_PRELOAD="$folder/threads.so")" 'blas  *off *OpenMP build*'
  has 'one that the process has already is used' \
    "$(doctor env LD_PRELOAD="$library")" '*blas kernels *in this process already*'
  # OpenBLAS would retry the allocation forever.
  has 'too little address space' "$(ulimit -v 300000 && lua "$small $large")" '970299
mtorch: (command line):1: matmul: *address space*ulimit -v*'
fi
[ $failures = 0 ]
