#!/bin/sh
# symbols.sh -- checks that symbols compiled for AVX2 and AVX-512 are not merged, and the size of thread-locals
#
#   sh tests/program/symbols.sh [BUILD]        (build by default; status 77: skipped, nm is missing)
#
# The linker keeps one copy of each inline or template function of all objects. A copy that was
# compiled for AVX-512 would then run everywhere and end with SIGILL on other machines. So every
# symbol that such an object defines for others must carry the namespace of its instruction set.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
build=${1:-$here/build}
command -v nm >/dev/null || { echo "skipped: nm (binutils) is missing" && exit 77; }
folder=$(mktemp -d /tmp/mtorch_symbols.XXXXXX)
trap 'rm -rf "$folder"' EXIT

# Prints the external symbols (global, weak, unique) that an object defines.
defined() { nm -C --defined-only "$1" | sed -nE 's/^[0-9a-f]* *([ABCDGRSTVWuvw]) (.*)/\1 \2/p'; }
# Selects those without the namespace, including typeinfo and similar symbols.
strangers() { grep -vF "$1" | grep -vE ' (__odr_asan|__asan|DW\.ref\.|__gxx_personality|\.omp_)'; }

failures=0 objects=0 symbols=0
isas='avx2 avx512'
[ ! -e "$build/CMakeFiles/kernels_neon.dir" ] || isas= # Arm's objects all have one instruction set
for isa in $isas; do
  list=$(find "$build/CMakeFiles/kernels_$isa.dir/kernels/cpu" -name '*.o' 2>/dev/null | LC_ALL=C sort)
  if [ -z "$list" ] && grep -Eq '^MTORCH_ISAS:.*=(native|best)' "$build/CMakeCache.txt" 2>/dev/null; then
    echo "ok - $isa is not in a build for this machine" && continue
  fi
  [ -n "$list" ] || { echo "not ok - no objects of $isa in $build" && failures=$((failures + 1)) &&
    continue; }
  own=0
  for object in $list; do
    objects=$((objects + 1))
    defined "$object" >"$folder/defined"
    symbols=$((symbols + $(wc -l <"$folder/defined")))
    own=$((own + $(grep -cF "isa_$isa" "$folder/defined")))
    if strangers "isa_$isa" <"$folder/defined" >"$folder/strangers" && [ -s "$folder/strangers" ]; then
      failures=$((failures + 1))
      echo "not ok - $(basename "$object" .o) for $isa defines $(wc -l <"$folder/strangers") without isa_$isa:"
      sort -u "$folder/strangers" | cut -c1-160 | head -n 20 | sed 's/^/    /'
    else
      echo "ok - $(basename "$object" .o) for $isa"
    fi
  done
  # Without any symbol in the namespace this test would pass vacuously.
  [ "$own" -gt 0 ] || { echo "not ok - no symbol of $isa is in isa_$isa" &&
    failures=$((failures + 1)); }
done

# The check must find a template of the standard library in a probe object.
if command -v "${CXX:-g++}" >/dev/null; then
  printf '%s\n' '#include <algorithm>' 'namespace mt::isa_avx2 {' \
    'int use(int* p, int n) { std::sort(p, p + n); return p[0]; } }' >"$folder/probe.cpp"
  "${CXX:-g++}" -std=c++20 -O0 -c "$folder/probe.cpp" -o "$folder/probe.o" &&
    if defined "$folder/probe.o" | strangers isa_avx2 | grep -q 'std::'; then echo 'ok - std::sort is found'; else
      failures=$((failures + 1)) && echo 'not ok - std::sort in an object is not found'
    fi
fi
# glibc has 1664 bytes for the thread-locals of all libraries that are opened late, such as mtorch.so by luajit.
module=$build/lua/mtorch.so
if [ -e "$module" ] && command -v readelf >/dev/null; then
  size=$(($(readelf -lW "$module" | awk '$1 == "TLS" { print $6 }')))
  if [ "$size" -le 1024 ]; then echo "ok - $size bytes of thread-locals"; else
    failures=$((failures + 1))
    echo "not ok - mtorch.so has $size bytes of thread-locals, at most 1024: the largest are"
    readelf -sW "$module" | awk '$4 == "TLS" { print "    " $3, $8 }' | sort -k1nr | head -n 5
  fi
fi
echo "$objects objects, $symbols symbols, $failures failed"
[ $failures = 0 ]
