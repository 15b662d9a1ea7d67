#!/bin/sh
# packages.sh -- the packages of run.sh package: what they need, and whether they train, pass tests and leave nothing
#
#   sh tests/program/packages.sh [DIST] [--bare [--base DIR] [--suite NAME]]
#
# DIST is the folder of the packages, by default dist/ of this tree. Without --bare the folder and the wheel are used
# on this machine. With it, the folder, the wheel and the Debian packages are used by root in a new minimal Debian
# (--base: in a copy of that one; --suite: of that release), and the seconds from nothing to the end of the training are
# printed. The C++ headers and the Jupyter kernel are tried only in the release that the packages were made on, whose
# fmt and xeus they need. Status 77 where there is no package, or --bare is not possible.
set -u

repo=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
dist=$repo/dist bare=no base=''
while [ $# -gt 0 ]; do
  case $1 in
    --bare) bare=yes ;;
    --base) base=$2 && shift ;;
    --suite) suite=$2 && shift ;;
    *) ! ls "$1"/mtorch-*.tar.gz >/dev/null 2>&1 || dist=$(CDPATH='' cd -- "$1" && pwd -P) ;;
  esac
  shift
done
for archive in "$dist"/mtorch-*.tar.gz; do :; done
for wheel in "$dist"/mtorch-*.whl; do :; done
[ -f "$archive" ] || { echo "skipped: no packages here; sh scripts/run.sh package makes them" && exit 77; }
. "$repo/tests/program/debian.sh"
if [ $bare = yes ]; then
  why=$(why_no_debian)
  [ -z "$why" ] || { echo "skipped: $why" && exit 77; }
fi

failures=0
# check NAME FAULTS: right where there are none.
check() {
  if [ -z "$2" ]; then echo "ok - $1"; else
    failures=$((failures + 1))
    echo "not ok - $1"
    printf '%s\n' "$2" | tail -n 20 | sed 's/^/    /'
  fi
}

# In a folder with a copy of tests/: trains with the program of the prefix $1, and runs some Lua tests; prints faults.
cat >"/tmp/package_test.$$" <<'END2'
program=$1/bin/mtorch scripts=$1/share/mtorch/scripts
unset LD_LIBRARY_PATH MTORCH_CUDA_PLUGIN MTORCH_LUA MTORCH_BLAS
"$program" --version | grep -q '^mtorch [0-9]' || echo "--version: $("$program" --version 2>&1)"
# run NAME COMMAND..
run() {
  name=$1
  shift
  "$@" >log 2>&1 || { echo "$name:" && tail -n 3 log; }
}
run train "$program" "$scripts/train_split.lua" --epochs 60 --seed 1
run regression "$program" "$scripts/regression.lua" --dry-run
"$program" doctor | sed 's#/bin/\.\./#/#' | grep '^blas ' >log
grep -q ' ok ' log || { echo "no OpenBLAS:" && cat log; }
[ ! -e "$1/lib/mtorch/libopenblas.so.0" ] || grep -qF "$1/lib/mtorch/libopenblas.so.0" log ||
  { echo "OpenBLAS is not the package's:" && cat log; }
for test in autograd compile elementwise index linalg map nn optim product reduce safetensors save training; do
  run "test_$test.lua" "$program" "tests/lua/test_$test.lua"
done
END2

# ---- the folder: its libraries are its own, glibc's, libgcc_s and CUDA's ---------------------------------------------
scratch=$(mktemp -d "/tmp/package test.XXXXXX")
trap 'rm -rf "$scratch" "/tmp/package_test.$$"' EXIT
trap 'exit 130' INT
folder=$scratch/mtorch
mkdir "$folder"
tar -xzf "$archive" -C "$folder" --strip-components=1
host='linux-vdso[^ ]*|ld-linux[^ ]*|lib(c|m|dl|rt|pthread|gcc_s)\.so\.[0-9]+|libcu[a-z]*\.so[.0-9]*'
foreign=''
for file in "$folder"/bin/* "$folder"/lib/mtorch/*; do
  case $file in
    */libmtorch_jupyter.so) continue ;; # it is opened where the machine has xeus
    */bin/*) lines=$(env -u LD_LIBRARY_PATH ldd "$file") ;;
    *) # the program has loaded the others, by its run path
      lines=$(LD_LIBRARY_PATH="$folder/lib/mtorch" ldd "$file") ;;
  esac
  other=$(printf '%s\n' "$lines" | sed 's#/bin/\.\./#/#' | grep -vF " => $folder/lib/mtorch/" |
    grep -vE "^[[:space:]]*(/[^ ]*/)?($host)( |\$)|statically linked" || :)
  [ -z "$other" ] || foreign="$foreign${file##*/}: $other
"
done
check 'ldd finds nothing outside of the folder, glibc, libgcc_s and CUDA' "$foreign"
newest=$(objdump -T "$folder"/bin/* "$folder"/lib/mtorch/* 2>/dev/null |
  grep -o 'GLIBC_2\.[0-9]*' | sort -t. -k2 -n -u | tail -n 1)
if [ "${newest#GLIBC_2.}" -gt 34 ]; then too_new=$newest; else too_new=''; fi
check "it runs with glibc 2.34; the newest that it asks for is ${newest#GLIBC_}" "$too_new"
limit=20
[ ! -e "$folder/lib/mtorch/libmtorch_cuda.so" ] || limit=48
bytes=$(wc -c <"$archive")
if [ "$bytes" -le $((limit * 1000000)) ]; then large=''; else large="$bytes bytes"; fi
check "the archive has at most $limit MB: $((bytes / 100000))e5 bytes" "$large"
if [ -f "$wheel" ] && command -v auditwheel >/dev/null; then
  tag=${wheel##*-none-}
  said=$(auditwheel show "$wheel" 2>&1)
  case $said in *"${tag%.whl}"*) said='' ;; esac
  check 'auditwheel has the same tag' "$said"
fi

# Prints the files of mtorch that are left in the folder $1.
left_in() { find "$1" -type f -path '*mtorch*'; }

if [ $bare = no ]; then
  cp -R "$repo/tests" "$scratch/tests"
  check 'the folder trains and passes tests, with a space in its name' \
    "$(cd "$scratch" && sh "/tmp/package_test.$$" "$folder" 2>&1)"
  said=$(python3 "$repo/tests/program/jupyter.py" "$folder/bin/mtorch" 2>&1)
  case $? in 0 | 77) said='' ;; esac
  check "the folder's Jupyter kernel answers, where there is a client" "$said"
  if [ ! -f "$wheel" ] || ! python3 -m venv "$scratch/venv" >/dev/null 2>&1; then
    echo "skipped: the wheel: there is none, or no python3 with venv"
  else
    check 'pip installs the wheel' \
      "$("$scratch/venv/bin/pip" -q install --no-index --disable-pip-version-check "$wheel" 2>&1)"
    check 'it trains and passes tests' "$(cd "$scratch" && sh "/tmp/package_test.$$" "$scratch/venv" 2>&1)"
    "$scratch/venv/bin/pip" -q uninstall -y mtorch
    check 'pip removes all of it' "$(left_in "$scratch/venv")"
  fi
  [ $failures = 0 ]
  exit
fi

# ---- a bare machine --------------------------------------------------------------------------------------------------
new_target ''
trap 'rm -rf --one-file-system "$target" "$scratch" "/tmp/package_test.$$"' EXIT
{ make_debian && inside root true; } >/dev/null 2>&1 || die "no Debian could be made"
mkdir "$target/work" "$target/dist"
cp -R "$repo/tests" "$repo/scripts" "$repo/cmake" "$repo/CMakeLists.txt" "$target/work/"
cp "$dist"/*mtorch* "$target/dist/"
cp "/tmp/package_test.$$" "$target/work/test.sh"
# Prints the installed packages and the files, but for what apt keeps for itself.
all() {
  inside root 'dpkg-query -W && find / -xdev -type f | grep -vE "^/(var|proc|work|dist|tmp)/|/__pycache__/"' | sort
}
all >"$scratch/was"
# used FILE PREFIX: trains by run.sh with the package, then the tests.
used() {
  kind=${1##*.}
  began=$(date +%s.%N)
  said=$(inside root "cd /work && MTORCH_PACKAGE=/dist/$1 sh scripts/run.sh train 2>&1")
  seconds=$(echo "$began $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }')
  case $said in
    *"final: "*"correct=50/50"* | *"final: "*"correct=49/50"*) said='' ;;
    *) said="no result: $said" ;;
  esac
  check "$kind: from nothing to the last line of the training in $seconds s" "$said"
  check "$kind: trains and passes tests" "$(inside root "cd /work && sh test.sh $2" 2>&1)"
}
apt='DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends'
as_root() { inside root "$apt $* >/tmp/apt.log 2>&1 || tail /tmp/apt.log"; }
used "${archive##*/}" /work/build/package
rm -rf "$target/work/build"
for package in "$dist"/mtorch_*.deb; do used "${package##*/}" /usr; done
installed=mtorch
if grep -q "VERSION_CODENAME=${suite:-bookworm}" /etc/os-release; then
  installed='mtorch libmtorch-dev libxeus6'
  check 'deb: libmtorch-dev is installed' \
    "$(as_root install /dist/libmtorch-dev_*.deb && inside root 'ls /usr/include/mtorch/mtorch.h >/dev/null' 2>&1)"
  said=$(as_root install libxeus6 && inside root 'mtorch jupyter kernel nothing.json' 2>&1)
  case $said in *"cannot read the connection file nothing.json"*) said='' ;; *) said="it says: $said" ;; esac
  check 'deb: the Jupyter kernel starts' "$said"
fi
check 'deb: they are removed' "$(as_root --purge autoremove "$installed")"
rm -rf "$target/work/build"
all >"$scratch/is"
check 'nothing is left' "$(diff "$scratch/was" "$scratch/is")"
if [ -f "$wheel" ]; then
  check 'whl: Python is installed' "$(as_root install python3-venv)"
  used "${wheel##*/}" /work/build/package
  check 'whl: pip removes all of it' "$(inside root '/work/build/package/bin/pip -q uninstall -y mtorch' 2>&1
    left_in "$target/work/build")"
fi
[ $failures = 0 ]
