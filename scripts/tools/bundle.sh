#!/bin/sh
# bundle.sh -- creates a folder that runs on a bare machine, from a build with MTORCH_BUNDLE=ON
#
#   sh scripts/tools/bundle.sh [BUILD]       (by default build-bundle; run.sh bundle builds it first)
#
# Creates BUILD/mtorch-VERSION-linux-x86_64 and the same as .tar.gz: bin/ (the program, the Catch2
# tests), lib/ (libraries that a bare machine lacks), lib/mtorch/ (the CUDA plug-in, and the emulated
# one), scripts/, tests/, docs/, stubs/. CUDA's libraries are those of the host. The status is 1 if
# a file is missing, or if the archive is 48 MiB or more.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
build=${1:-$root/build-bundle}
die() { printf 'bundle: %s\n' "$*" >&2 && exit 1; }
[ -x "$build/mtorch" ] || die "$build/mtorch is missing; use sh scripts/run.sh bundle"
name=mtorch-$(sed -n 's/^project(mtorch VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")-linux-$(uname -m)
out=$build/$name
rm -rf "$out" "$out.tar.gz"
mkdir -p "$out/bin" "$out/lib/mtorch" "$out/tests"

# ---- what was built ----
cp "$build/mtorch" "$out/bin/"
[ ! -e "$build/mtorch_tests" ] || cp "$build/mtorch_tests" "$out/bin/"
for plugin in "$build"/libmtorch_cuda*.so; do
  [ -e "$plugin" ] && cp "$plugin" "$out/lib/mtorch/"
done
strip "$out"/bin/* "$out"/lib/mtorch/*.so

# ---- OpenBLAS, reduced to the functions that are used ----
# The functions in openblas.h, with kernels for seven kinds of processor instead of twenty; other processors
# use those of an older kind. Without the static library, all of OpenBLAS is copied.
shared=$(sed -n 's/^MTORCH_OPENBLAS:[A-Z]*=//p' "$build/CMakeCache.txt")
archive=$(pkg-config --variable=libdir openblas 2>/dev/null || :)/libopenblas.a
[ -e "$shared" ] || die "the build found no OpenBLAS (MTORCH_OPENBLAS in CMakeCache.txt)"
small() {
  set -- -shared -o "$out/lib/libopenblas.so.0" -s -Wl,-soname,libopenblas.so.0 -Wl,--gc-sections -Wl,-z,defs
  for symbol in $(grep -o 'X([a-z_]*)' "$root/kernels/cpu/libraries/openblas.h" | tr -d 'X()'); do
    set -- "$@" "-Wl,-u,$symbol"
  done
  for old in CORE2 PENRYN DUNNINGTON ATOM NANO OPTERON OPTERON_SSE3 BARCELONA BOBCAT; do
    set -- "$@" "-Wl,--defsym=gotoblas_$old=gotoblas_PRESCOTT"
  done
  for old in BULLDOZER PILEDRIVER STEAMROLLER; do
    set -- "$@" "-Wl,--defsym=gotoblas_$old=gotoblas_SANDYBRIDGE"
  done
  set -- "$@" -Wl,--defsym=gotoblas_EXCAVATOR=gotoblas_HASWELL \
    -Wl,--defsym=gotoblas_COOPERLAKE=gotoblas_SKYLAKEX
  # LAPACK needs one function of Fortran's library, which concatenates two strings; this saves 3 MB.
  cat >"$build/concat.c" <<'END'
#include <string.h>
void _gfortran_concat_string(size_t n, char *to, size_t n1, const char *a, size_t n2, const char *b) {
  const size_t first = n1 < n ? n1 : n, second = n2 < n - first ? n2 : n - first;
  memcpy(to, a, first);
  memcpy(to + first, b, second);
  memset(to + first + second, ' ', n - first - second);
}
END
  "${CC:-cc}" -O2 -fPIC "$@" "$build/concat.c" "$archive" -lgomp -lm -lpthread 2>"$build/openblas.log" ||
    "${CC:-cc}" "$@" "$archive" -lgfortran -lgomp -lm -lpthread 2>>"$build/openblas.log"
}
if [ ! -e "$archive" ] || ! small; then
  echo "bundle: OpenBLAS could not be made smaller (see $build/openblas.log)" >&2
  cp -L "$shared" "$out/lib/libopenblas.so.0"
fi

# ---- libraries opened at first use, except libcurl and librsvg, which have dozens of dependencies ----
for so in libzip.so.5 libzip.so.4 libpng16.so.16 libturbojpeg.so.0 libutf8proc.so.3 libutf8proc.so.2; do
  path=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | sed -n "s/^[[:space:]]*$so .*x86-64.* => //p" | head -n 1)
  if [ -n "$path" ]; then cp -L "$path" "$out/lib/$so"; fi
done

# ---- their dependencies, except those of glibc and CUDA ----
libraries() { ldd "$@" | sed -n 's/^\t\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u; }
while :; do
  before=$(ls "$out/lib")
  libraries "$out"/bin/* "$out"/lib/*.so* "$out"/lib/mtorch/*.so | while read -r so path; do
    case $so in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux* | libcu*) ;;
      *) [ -e "$out/lib/$so" ] || cp -L "$path" "$out/lib/$so" ;;
    esac
  done
  [ "$before" != "$(ls "$out/lib")" ] || break
done

# ---- scripts, tests, documents ----
cp -R "$root/scripts" "$root/docs" "$build/stubs" "$out/"
cp "$root/README.md" "$root/CHANGELOG.md" "$root/LICENSE" "$out/"
cp -R "$root/tests/lua" "$root/tests/data" "$root/tests/program" "$root/tests/gates" "$out/tests/"
find "$out" -name __pycache__ -prune -exec rm -rf {} +
rm -f "$out/tests/gates/house.lua" # it reads the sources

(cd "$build" && tar -czf "$name.tar.gz" "$name")
packed=$(wc -c <"$out.tar.gz")
printf 'bundle: %s (%d MiB; %d MiB as .tar.gz)\n' "$out" $(($(du -sb "$out" | cut -f1) / 1048576)) $((packed / 1048576))
[ "$packed" -lt $((48 * 1048576)) ] || die "48 MiB as .tar.gz are the limit"
