#!/bin/sh
# bundle.sh -- tests the folder of `run.sh bundle`: the libraries of its programs, and that they run elsewhere
#
#   sh tests/program/bundle.sh [BUILD | FOLDER] [--base DIR]
#
# FOLDER is a bundle; for a BUILD, it is the one in it or in build-bundle beside it. --base is a minimal
# Debian (debootstrap --variant=minbase bookworm); the bundle is put into a folder with a space in its
# name in a copy of it, where it trains and runs the Lua and Catch2 tests; this needs root.
# Status 77 if there is no bundle.
set -u

repo=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
argument='' base=''
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=$2 && shift ;;
    *) argument=$1 ;;
  esac
  shift
done
folder=''
for candidate in "${argument:-.}" "$repo" "${argument:-.}"/mtorch-* "$repo"/build-bundle/mtorch-*; do
  if [ -z "$folder" ] && [ -x "$candidate/bin/mtorch" ]; then folder=$(CDPATH='' cd -- "$candidate" && pwd -P); fi
done
[ -n "$folder" ] || { echo "skipped: no bundle here; sh scripts/run.sh bundle makes one" && exit 77; }

failures=0
check() {
  if [ -z "$2" ]; then echo "ok - $1"; else
    failures=$((failures + 1))
    echo "not ok - $1"
    printf '%s\n' "$2" | head -n 20 | sed 's/^/    /'
  fi
}

# ---- libraries come from the bundle, glibc and CUDA, and none is missing ----
glibc='linux-vdso[^ ]*|ld-linux[^ ]*|lib(c|m|dl|rt|pthread)\.so\.[0-9]+'
foreign_libraries=''
for file in "$folder"/bin/* "$folder"/lib/*.so* "$folder"/lib/mtorch/*.so; do
  case $file in
    */bin/*) lines=$(env -u LD_LIBRARY_PATH ldd "$file") ;;
    *) # the program has loaded their dependencies, by its run path
      lines=$(LD_LIBRARY_PATH="$folder/lib" ldd "$file") ;;
  esac
  # The loader's paths are compared without the detour through bin/.
  other=$(printf '%s\n' "$lines" | sed 's#/bin/\.\./lib/#/lib/#' | grep -vF " => $folder/lib/" |
    grep -vE "^[[:space:]]*(/[^ ]*/)?($glibc|libcu[a-z]*\.so[.0-9]*)( |\$)|statically linked" || :)
  [ -z "$other" ] || foreign_libraries="$foreign_libraries${file##*/}: $other
"
done
check 'ldd finds nothing outside of the bundle, glibc and CUDA' "$foreign_libraries"
newest=$(objdump -T "$folder"/bin/* "$folder"/lib/*.so* "$folder"/lib/mtorch/*.so 2>/dev/null |
  grep -o 'GLIBC_2\.[0-9]*' | sort -t. -k2 -n -u | tail -n 1)
if [ "${newest#GLIBC_2.}" -gt 35 ]; then too_new=$newest; else too_new=''; fi
check "it runs with glibc 2.35 (Ubuntu 22.04); the newest symbol version is ${newest#GLIBC_}" "$too_new"
bytes=$(tar -czf - -C "$folder" . | wc -c)
if [ "$bytes" -lt $((48 * 1048576)) ]; then large=''; else large="$bytes bytes"; fi
check "it is under 48 MiB as .tar.gz: $((bytes / 1048576))" "$large"

# ---- it runs, from a folder with a space in its name ----
cat >"/tmp/bundle_test.$$" <<'END'
cd "$1" || exit 1
unset LD_LIBRARY_PATH MTORCH_CUDA_PLUGIN
bin/mtorch scripts/train_split.lua --epochs 60 --seed 1 >/tmp/train.log 2>&1 ||
  { echo "train_split.lua:" && tail -n 3 /tmp/train.log; }
bin/mtorch -e "
  local mt = require 'mtorch'
  for _, dtype in ipairs{'float32', 'float64'} do
    local x = mt.ones({512, 512}, {dtype = dtype})
    assert(x:matmul(x):sum():item() == 2 ^ 27)
    local a = mt.eye(64, {dtype = dtype}) * 3 + x[{{1, 64}, {1, 64}}]
    assert(mt.allclose(a:matmul(mt.linalg.solve(a, a)), a))
    assert(mt.allclose(mt.linalg.svdvals(a)[1], mt.tensor(67, {dtype = dtype})))
  end" 2>&1
bin/mtorch doctor | sed 's#/bin/\.\./lib/#/lib/#' | grep '^blas ' | grep -qF "$1/lib/libopenblas.so.0" ||
  { echo "OpenBLAS is not the bundle's:" && bin/mtorch doctor | grep -A1 '^blas'; }
[ "$2" = all ] || exit 0
for file in tests/lua/test_*.lua; do
  bin/mtorch "$file" >/tmp/test.log 2>&1 || { echo "$file:" && tail -n 3 /tmp/test.log; }
  case $file in
    *cuda*) at_once=0
      case $file in *cuda_index* | *cuda_softmax*) at_once=1 ;; esac
      MTORCH_CUDA_SYNC=$at_once MTORCH_CUDA_PLUGIN=lib/mtorch/libmtorch_cuda_emulated.so \
      OMP_NUM_THREADS=1 bin/mtorch "$file" \
      >/tmp/test.log 2>&1 || { echo "$file, emulated:" && tail -n 3 /tmp/test.log; } ;;
  esac
done
bin/mtorch_tests '~[nightly]' >/tmp/test.log 2>&1 || { echo "mtorch_tests:" && tail -n 20 /tmp/test.log; }
END
if [ -n "$base" ]; then
  system=$(mktemp -d /tmp/bundle_debian.XXXXXX)
  trap 'rm -rf --one-file-system "$system" "/tmp/bundle_test.$$"' EXIT
  cp -a --reflink=auto "$base/." "$system/"
  mkdir -p "$system/opt/a folder"
  cp -a "$folder" "$system/opt/a folder/mtorch"
  cp "/tmp/bundle_test.$$" "$system/tmp/test.sh"
  check 'it trains and passes its tests in a bare Debian' "$(unshare --mount --pid --fork --kill-child \
    --mount-proc="$system/proc" chroot "$system" env -i HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8 \
    sh /tmp/test.sh '/opt/a folder/mtorch' all 2>&1)"
else
  scratch=$(mktemp -d "/tmp/bundle test.XXXXXX")
  trap 'rm -rf "$scratch" "/tmp/bundle_test.$$"' EXIT
  cp -a "$folder" "$scratch/mtorch"
  check 'it trains from a folder with a space in its name' "$(sh "/tmp/bundle_test.$$" "$scratch/mtorch" some 2>&1)"
fi
[ $failures = 0 ]
