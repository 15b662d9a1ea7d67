#!/bin/sh
# run.sh -- installs missing packages, builds mtorch, and trains, tests, packages or runs it with sanitizers
#
#   sh scripts/run.sh train [flags]   trains on "split"; the flags go to scripts/train_split.lua
#   sh scripts/run.sh test [flags]    builds and runs every test; the flags go to ctest
#   sh scripts/run.sh build           builds the program build/mtorch
#   sh scripts/run.sh guide           makes pages with search of the guide and the other documents in build/guide/
#   sh scripts/run.sh package         makes Debian packages, a .tar.gz and a Python wheel in dist/
#   sh scripts/run.sh sanitize        tests and trains under ASan + UBSan, then trains under valgrind
#
# `train` takes a package of this version from dist/, or the one that MTORCH_PACKAGE names, and builds nothing then.
# MTORCH_CUDA=ON or OFF: whether to build the CUDA plug-in; `train` builds it where there is a GPU.
#
# Status: 0 ok, 1 the build failed, 2 usage, 3 something is missing and cannot be installed here,
# 130 interrupted; otherwise that of the training script or of ctest.
set -eu

# Packages of Debian 12 and 13; Ubuntu has the same names.
core='g++ cmake ninja-build pkg-config libopenblas-openmp-dev libluajit2-5.1-dev libfmt-dev
      nlohmann-json3-dev libedit-dev zlib1g-dev libzip-dev libpng-dev libturbojpeg0-dev
      libcurl4-openssl-dev librandom123-dev'
tests='catch2'
elsewhere='a C++20 compiler, CMake, Ninja, pkg-config, OpenBLAS (OpenMP build), LuaJIT 2.1
(of 2023 or later), fmt, nlohmann-json, libedit, zlib, libzip, libpng, libjpeg-turbo, libcurl, Random123,
xbyak (on Arm SIMDe instead); Catch2 2 or 3 for the tests'

# Optional: oneDNN, which makes large products and convolutions faster (the first available package, Debian 12, 13),
# xeus, for the Jupyter kernel, and for the tests Open MPI (several processes), utf8proc (Unicode normalization),
# librsvg (figures as PNG files), Graphviz (drawings of graphs), nbclient (notebooks), MkDocs (pages of the guide), and
# on x86 a compiler for Arm with its library of intrinsics (a test compiles the kernels).
faster='libdnnl2 libdnnl3.6'
several='openmpi-bin'
forms='libutf8proc3 libutf8proc2'
figures='librsvg2-2'
graphs='graphviz'
jupyter='xeus-dev'
notebooks='python3-nbclient'
pages='mkdocs-material'
cross='g++-aarch64-linux-gnu'
intrinsics='libsimde-dev'

# Machine code of compiled functions is for x86. On Arm it is the intrinsics that need a library; oneDNN is slow there.
case $(uname -m) in
  aarch64) core="$core libsimde-dev" faster='' cross='' ;;
  *) core="$core libxbyak-dev" ;;
esac

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
build=$root/build
trap 'exit 130' INT # the shell waits for the running program, which handles the signal

say() { printf '%s\n' "$*" >&2; }
fail() {
  status=$1
  shift
  say "$@"
  exit "$status"
}

# ---- packages ----

# Prints the missing packages of $@; a tool that was installed otherwise replaces its package.
missing() {
  # shellcheck disable=SC2016  # the names in ${} are dpkg's
  here=$(dpkg-query -W -f='<${Package} ${db:Status-Status}>' "$@" libluajit-5.1-dev 2>/dev/null || :)
  for package; do
    if [ "$package" = libluajit2-5.1-dev ]; then package=$(luajit); fi
    case $here in *"<$package installed>"*) continue ;; esac
    case $package in
      g++ | cmake | pkg-config | valgrind) tool=$package ;;
      ninja-build) tool=ninja ;;
      mkdocs-material) tool=mkdocs ;;
      *) tool= ;;
    esac
    if [ -n "$tool" ] && command -v "$tool" >/dev/null; then continue; fi
    printf '%s ' "$package"
  done
}

# Prints the package of LuaJIT. Debian 12's libluajit-5.1-dev is of March 2022 and compiles some loops wrongly: it is
# replaced by libluajit2-5.1-dev, OpenResty's branch, unless that would remove other packages or need confirmation.
luajit() {
  # shellcheck disable=SC2016
  version=$(dpkg-query -W -f='${db:Status-Status} ${Version}' libluajit-5.1-dev 2>/dev/null | sed -n 's/^installed //p')
  date=$(printf '%s\n' "$version" | sed -n 's/.*\(20[0-9]\{6\}\).*/\1/p')
  if [ "${date:-0}" -lt 20221207 ] && { [ -z "$version" ] || [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; } &&
    plan=$(apt-get -s install libluajit2-5.1-dev 2>/dev/null) &&
    ! printf '%s\n' "$plan" | grep '^Remv ' | grep -qv '^Remv libluajit-5\.1-'; then
    echo libluajit2-5.1-dev
  else
    echo libluajit-5.1-dev
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1
}
# Downloads the package lists, waiting while another apt (of a first boot) has the lock.
apt_update() {
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    if apt update; then return 0; fi
    if ! tail -n 3 "$log" | grep -q 'Could not get lock\|Unable to lock'; then return 0; fi
    sleep 10
  done
}

cannot_install() {
  say "$1; as root, run this line, then run.sh again:"
  fail 3 "apt-get update && apt-get install -y --no-install-recommends $wanted"
}

# Installs those of the packages $@ that are missing, or exits with 3.
ensure() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    [ -e "$build/.configured" ] || say "no apt-get here; mtorch needs $elsewhere"
    return 0
  fi
  wanted=$(missing "$@")
  [ -n "$wanted" ] || return 0
  wanted=${wanted% }
  if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
      cannot_install "this user cannot install packages, and there is no sudo"
    elif ! sudo -n true 2>/dev/null; then
      [ -t 0 ] || cannot_install "sudo wants a password, and there is no terminal to ask on"
      say "sudo is needed to install $wanted"
      sudo -v || cannot_install "sudo refuses"
    fi
  fi
  log=$(mktemp)
  fresh=no
  # shellcheck disable=SC2086  # a list of names
  if ! apt-get -s install $wanted >/dev/null 2>&1; then
    apt_update && fresh=yes
    wanted=$(missing "$@") # the package of LuaJIT is known only now
  fi
  # shellcheck disable=SC2086
  set -- $wanted
  say "installing $# packages: $*"
  until apt install --no-install-recommends "$@"; do
    if [ $fresh = yes ]; then
      tail -n 40 "$log" >&2
      cannot_install "apt-get failed (log: $log)"
    fi
    apt_update
    fresh=yes
  done
  rm -f "$log" "$build/.configured" "$root/build-sanitize/.configured"
}

# Installs the first available package of $@, if that is possible without confirmation.
want_one() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then return 0; fi
  [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || return 0
  for package; do [ -n "$(missing "$package")" ] || return 0; done
  for package; do
    apt-get -s install "$package" >/dev/null 2>&1 || continue
    log=$(mktemp)
    say "installing $package"
    apt install --no-install-recommends "$package" || say "$package was not installed: mtorch works without"
    rm -f "$log"
    return 0
  done
}
# Does so for each list of packages.
# shellcheck disable=SC2086  # lists of names
want() { for list; do want_one $list; done; }

# ---- building ----

# min(cores, available GiB / 1.5): a compiler process takes up to 1.5 GiB.
job_count() {
  cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
  room=$(awk '/^MemAvailable:/ { print int($2 / 1572864) }' /proc/meminfo 2>/dev/null || :)
  [ -n "$room" ] && [ "$room" -lt "$cores" ] && cores=$room
  if [ "$cores" -lt 1 ]; then echo 1; else echo "$cores"; fi
}

compiler() { "${CXX:-c++}" -dumpversion 2>/dev/null || :; }

# -Werror only for the compiler with which the project is developed.
werror() {
  case ${CXX:-c++}:$(compiler) in
    *clang*) echo OFF ;;
    *:12 | *:12.*) echo ON ;;
    *) echo OFF ;;
  esac
}

broken() {
  tail -n 40 "$2" >&2
  fail 1 "$1 failed; the whole log: $2"
}

build_in() {
  NINJA_STATUS='[%f/%t] ' cmake --build "$1" ${target:+--target "$target"} --parallel "$(job_count)" 9>&-
}

# Configures the folder $1 with the options $2.., unless it was configured so before, and builds it: all of it, or the
# one target that `target` names.
make_in() {
  dir=$1
  shift
  mkdir -p "$dir"
  command -v cmake >/dev/null || fail 3 "cmake is missing"
  # One build in a folder at a time; fd 9 has the lock and is closed for the compiler's servers.
  exec 9>"$dir/.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another build in $dir"
    flock 9
  fi
  log=$dir/log.txt
  : >"$log"
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || :)
  key="$* $root ${CXX:-c++} $(compiler) ${nvcc:-no nvcc} ${kind:-} $(sh "$root/cmake/version.sh")"
  if [ ! -e "$dir/CMakeCache.txt" ] || [ "$(cat "$dir/.configured" 2>/dev/null)" != "$key" ]; then
    if ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$dir/CMakeCache.txt" 2>/dev/null; then
      rm -rf "$dir/CMakeCache.txt" "$dir/CMakeFiles" # missing, or from before the folder was moved
      if command -v ninja >/dev/null; then set -- -G Ninja "$@"; fi
    fi
    rm -f "$dir/.configured"
    cmake -S "$root" -B "$dir" "$@" >>"$log" 2>&1 9>&- || broken "configuring" "$log"
    sed -n 's/^-- \(mtorch: .*\)/\1/p' "$log" >&2
    printf '%s\n' "$key" >"$dir/.configured"
  fi
  say "building in $dir"
  if [ -t 2 ]; then # ninja shows how far it is
    build_in "$dir" >&2 || fail 1 "the build failed"
  else
    build_in "$dir" >>"$log" 2>&1 || broken "the build" "$log"
  fi
  exec 9>&-
}

gpu() { [ -e /dev/nvidia0 ] || command -v nvidia-smi >/dev/null; }

# The build in build/ with the instruction sets $1, or those that it was configured with before, if they are more:
# best (the program alone, for this processor and compiled sooner: `train`), native (`build`), test (all of them, with
# the tests).
make_normal() {
  isas=$1 kind=$(best_isa) target='' cuda=${MTORCH_CUDA:-AUTO}
  case $isas:$(sed -n 's/^MTORCH_ISAS:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null) in
    *:test) isas=test ;;
    best:native) isas=native ;;
  esac
  set -- -DCMAKE_BUILD_TYPE=Release "-DMTORCH_WERROR=$(werror)" "-DMTORCH_ISAS=$isas"
  if [ $isas = test ]; then set -- "$@" -DMTORCH_TESTS=ON; else set -- "$@" -DMTORCH_TESTS=OFF; fi
  if [ $isas = best ]; then
    target=training # the program, and the plug-in if it is configured
    if [ "$cuda" = AUTO ] && ! gpu; then cuda=OFF; fi
    set -- "$@" -DMTORCH_OPTIMIZE=1 # a call takes a tenth longer, bits are the same
  else
    set -- "$@" -DMTORCH_OPTIMIZE=2
  fi
  if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ]; then
    set -- "$@" -DMTORCH_PCH=ON # half a second less for each file; most compilers' caches want none
    if command -v ccache >/dev/null; then
      export CMAKE_CXX_COMPILER_LAUNCHER=ccache
      export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}"
    fi
  fi
  # Where no GPU is, nothing of the plug-in runs here: PTX of one kind of GPU will do, but for `build`.
  if [ "$verb" != build ] && ! gpu; then set -- "$@" -DCMAKE_CUDA_ARCHITECTURES=90-virtual; fi
  if [ $isas = best ] && [ ! -e "$build/mtorch" ]; then
    say "no package of this version in dist/: building what training needs, about $((290 / $(job_count))) s" \
      "$(command -v ccache >/dev/null && echo 'unless ccache has it' || echo 'without ccache')"
  fi
  make_in "$build" "$@" "-DMTORCH_CUDA=$cuda"
}
# The CPU features that matter, so that the folder is configured again on another processor.
best_isa() { sed -n '/^flags/{s/ /\n/gp;q}' /proc/cpuinfo | grep -xE 'avx2|fma|f16c|avx512_vbmi2' | tr '\n' ' '; }

# Runs the tests of the folder $1; ctest's count ends the output.
ctest_in() {
  dir=$1
  shift
  ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$(nproc 2>/dev/null || echo 2)" "$@"
}

# ---- verbs ----

# Prints the package to train with: MTORCH_PACKAGE, or one of this version in dist/.
a_package() {
  if [ -n "${MTORCH_PACKAGE:-}" ]; then echo "$MTORCH_PACKAGE" && return; fi
  version=$(sh "$root/cmake/version.sh")
  machine=$(uname -m)
  for file in "$root/dist/mtorch-$version-linux-$machine.tar.gz" \
    "$root/dist/mtorch_${version}_$(dpkg --print-architecture 2>/dev/null).deb" \
    "$root/dist/mtorch-$version"-*_"$machine.whl"; do
    case $file in *.dirty-* | *.dirty_*) continue ;; esac # which changes are in it?
    if [ -e "$file" ]; then echo "$file" && return; fi
  done
}

# Unpacks or installs the package $1; sets `program`.
take_package() {
  [ -f "$1" ] || fail 2 "MTORCH_PACKAGE: there is no file $1"
  say "taking the package $1: some seconds"
  mkdir -p "$build"
  program=$build/package/bin/mtorch
  case $1 in
    *.tar.gz)
      rm -rf "$build/package"
      mkdir "$build/package"
      tar -xzf "$1" -C "$build/package" --strip-components=1
      ;;
    *.whl)
      rm -rf "$build/package"
      { python3 -m venv "$build/package" && "$build/package/bin/pip" -q install --no-index "$1"; } ||
        fail 3 "a wheel needs Python with venv and pip: apt-get install python3-venv"
      ;;
    *.deb)
      ensure "$(CDPATH='' cd -- "$(dirname -- "$1")" && pwd -P)/${1##*/}"
      program=/usr/bin/mtorch
      ;;
    *) fail 2 "MTORCH_PACKAGE: $1 is not a .deb, .tar.gz or .whl" ;;
  esac
}

train() {
  package=$(a_package)
  if [ -n "$package" ]; then take_package "$package"; else
    # shellcheck disable=SC2086
    ensure $core
    want "$faster"
    make_normal best
    program=$build/mtorch
  fi
  touch "$build/.started"
  "$program" "$root/scripts/train_split.lua" "$@"
  say "next: \"$program\" \"$root/scripts/train_split.lua\" --hidden 100"
  report=$(find runs -type f -name '*.html' -newer "$build/.started" 2>/dev/null | head -n 1)
  say "      ${report:+the report: $report; }all flags: --help; every test: sh scripts/run.sh test"
}

tests() {
  # shellcheck disable=SC2086
  ensure $core $tests
  want "$faster" "$several" "$forms" "$figures" "$graphs" "$jupyter" "$notebooks" "$pages" "$cross" "$intrinsics"
  make_normal test
  ctest_in "$build" "$@"
}

sanitize() {
  # shellcheck disable=SC2086
  ensure $core $tests
  want "$faster"
  dir=$root/build-sanitize
  # CUDA is off, because the driver and ASan need the same addresses; use compute-sanitizer there.
  make_in "$dir" -DMTORCH_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMTORCH_TESTS=ON \
    -DMTORCH_CUDA=OFF -DMTORCH_WERROR=OFF
  asan=strict_string_checks=1:detect_stack_use_after_return=1:check_initialization_order=1
  asan=$asan:strict_init_order=1:detect_leaks=1:halt_on_error=1:allocator_may_return_null=1
  export MTORCH_SANITIZED=1 MTORCH_STOP_MS=2000 MTORCH_START_MS=1000
  export ASAN_OPTIONS="$asan${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
  export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
  export LSAN_OPTIONS="print_suppressions=0:suppressions='$root/tests/program/lsan.supp'" # fontconfig leaks its tables
  ctest_in "$dir" "$@"
  say "training under ASan and UBSan"
  "$dir/mtorch" "$root/scripts/train_split.lua" --epochs 20

  if command -v valgrind >/dev/null || (ensure valgrind) && command -v valgrind >/dev/null; then
    make_normal native # valgrind does not know AVX-512
    say "training under valgrind"
    # Only definite leaks are errors, because libgomp's threads are "possibly lost" at every exit.
    valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite -q \
      "$build/mtorch" "$root/scripts/train_split.lua" --epochs 3
  else
    say "valgrind: not installed, skipped"
  fi
  say "sanitize: clean"
}

# The newest nvcc of CUDA 12.8 or 12.9 that is installed: its programs run on drivers from 525 on, those
# of CUDA 13 from 580 on. CUDACXX overrides it.
package_nvcc() {
  for place in /usr/local/cuda-12.9/bin/nvcc /usr/local/cuda-12.8/bin/nvcc; do
    if [ -x "$place" ]; then echo "$place" && return; fi
  done
  command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || :
}

package() {
  # shellcheck disable=SC2086
  ensure $core
  want "$jupyter"
  dir=$root/build-package dist=$root/dist
  CUDACXX=${CUDACXX:-$(package_nvcc)}
  if [ -n "$CUDACXX" ]; then export CUDACXX; else unset CUDACXX; fi
  make_in "$dir" -DCMAKE_BUILD_TYPE=Release "-DMTORCH_WERROR=$(werror)" -DMTORCH_TESTS=OFF -DMTORCH_PORTABLE=ON \
    -DMTORCH_PCH=ON "-DMTORCH_CUDA=${MTORCH_CUDA:-AUTO}" -DCMAKE_INSTALL_PREFIX=/usr
  rm -f "$dist"/*mtorch*
  cpack --config "$dir/CPackConfig.cmake" -B "$dist" >>"$dir/log.txt" 2>&1 || broken "cpack" "$dir/log.txt"
  rm -rf "$dist/_CPack_Packages"
  if command -v python3 >/dev/null; then
    python3 "$root/cmake/wheel.py" "$dist"/mtorch-*.tar.gz >/dev/null
  else
    say "no python3 here: no wheel"
  fi
  ls -hl "$dist"
}

usage='usage: sh scripts/run.sh train [flags] | test [flags] | build | guide | package | sanitize'
[ $# -gt 0 ] || fail 2 "$usage"
verb=$1
shift
case $verb in
  train) train "$@" ;;
  test) tests "$@" ;;
  build)
    # shellcheck disable=SC2086
    ensure $core
    want "$faster" "$jupyter"
    make_normal native
    ;;
  guide)
    ensure $pages
    python3 "$root/scripts/tools/guide.py" "$build/guide"
    ;;
  package) package ;;
  sanitize) sanitize "$@" ;;
  help | -h | --help) printf '%s\n' "$usage" ;;
  *) fail 2 "run.sh: no verb '$verb'; $usage" ;;
esac
