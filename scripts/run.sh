#!/bin/sh
# run.sh -- installs missing packages, builds mtorch, and trains, tests or runs it with sanitizers
#
#   sh scripts/run.sh train [flags]   trains on "split"; the flags go to scripts/train_split.lua
#   sh scripts/run.sh test [flags]    builds and runs every test; the flags go to ctest
#   sh scripts/run.sh build           builds the program build/mtorch
#   sh scripts/run.sh bundle          creates build-bundle/mtorch-VERSION, a relocatable folder
#   sh scripts/run.sh sanitize        tests and trains under ASan + UBSan, then trains under valgrind
#
# Status: 0 ok, 1 the build failed, 2 usage, 3 something is missing and cannot be installed here,
# 130 interrupted; otherwise that of the training script or of ctest.
set -eu

# Packages of Debian 12 and 13; Ubuntu has the same names.
core='g++ cmake ninja-build pkg-config libopenblas-openmp-dev libluajit2-5.1-dev libfmt-dev
      libcli11-dev nlohmann-json3-dev libedit-dev zlib1g-dev libzip-dev libpng-dev libturbojpeg0-dev
      libcurl4-openssl-dev librandom123-dev libxbyak-dev'
tests='catch2'
elsewhere='a C++20 compiler, CMake, Ninja, pkg-config, OpenBLAS (OpenMP build), LuaJIT 2.1
(of 2023 or later), fmt, CLI11, nlohmann-json, libedit, zlib, libzip, libpng, libjpeg-turbo, libcurl, Random123,
xbyak; Catch2 2 or 3 for the tests'

# Optional: oneDNN, which makes large products and convolutions faster (the first available package, Debian 12, 13),
# and for the tests Open MPI (several processes), utf8proc (Unicode normalization), librsvg (figures as PNG files) and
# Graphviz (drawings of graphs).
faster='libdnnl2 libdnnl3.6'
several='openmpi-bin'
forms='libutf8proc3 libutf8proc2'
figures='librsvg2-2'
graphs='graphviz'

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
terminal() { [ -t 2 ] && [ "${TERM:-dumb}" != dumb ]; }

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
want() {
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
# shellcheck disable=SC2086  # lists of names
want_faster() { want $faster; }

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

# Copies a build's output to the log $1; shows its [done/all] on a terminal.
keep_log() {
  said=no
  if terminal; then printf 'building' >&2; fi
  while IFS= read -r text || [ -n "$text" ]; do
    printf '%s\n' "$text"
    case $text in
      \[0/*) ;; # ninja looks for new files, or runs cmake again
      \[*)
        if terminal; then
          printf '\r\033[Kbuilding %s' "${text%%]*}]" >&2
        elif [ $said = no ]; then
          say "building (log: $1)"
        fi
        said=yes
        ;;
    esac
  done >>"$1"
  if terminal; then printf '\r\033[K' >&2; fi
}

broken() {
  tail -n 40 "$2" >&2
  fail 1 "$1 failed; the whole log: $2"
}

# Configures the folder $1 with the options $2.., unless it was configured so before, and builds it.
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
  key="$* $root ${CXX:-c++} $(compiler) ${nvcc:-no nvcc} ${kind:-}"
  if [ ! -e "$dir/CMakeCache.txt" ] || [ "$(cat "$dir/.configured" 2>/dev/null)" != "$key" ]; then
    if ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$dir/CMakeCache.txt" 2>/dev/null; then
      rm -rf "$dir/CMakeCache.txt" "$dir/CMakeFiles" # missing, or from before the folder was moved
      if command -v ninja >/dev/null; then set -- -G Ninja "$@"; fi
    fi
    rm -f "$dir/.configured"
    if terminal; then printf 'configuring' >&2; fi
    if ! cmake -S "$root" -B "$dir" "$@" >>"$log" 2>&1 9>&-; then
      if terminal; then printf '\r\033[K' >&2; fi
      broken "configuring" "$log"
    fi
    if terminal; then printf '\r\033[K' >&2; fi
    sed -n 's/^-- \(mtorch: .*\)/\1/p' "$log" >&2
    printf '%s\n' "$key" >"$dir/.configured"
  fi
  rm -f "$dir/.failed"
  {
    NINJA_STATUS='[%f/%t] ' cmake --build "$dir" --parallel "$(job_count)" 2>&1 9>&- || : >"$dir/.failed"
  } | keep_log "$log"
  [ ! -e "$dir/.failed" ] || broken "the build" "$log"
  exec 9>&-
}

# The normal build, with the tests if $1 is ON or if they were in it before.
make_normal() {
  with=$1
  if grep -q '^MTORCH_TESTS:[A-Z]*=ON' "$build/CMakeCache.txt" 2>/dev/null; then with=ON; fi
  # Training needs only the best instruction set of this processor; the tests run all of them.
  isas=all kind=
  if [ "$with" = OFF ]; then isas=native kind=$(best_isa); fi
  set -- -DCMAKE_BUILD_TYPE=Release "-DMTORCH_WERROR=$(werror)" "-DMTORCH_TESTS=$with" "-DMTORCH_ISAS=$isas"
  # Precompiled headers save half a second per file, but a compiler cache does not work with them.
  if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ]; then set -- "$@" -DMTORCH_PCH=ON; fi
  # Without a GPU the plug-in is not used, so it is compiled for one architecture, except by `build`.
  if [ "$verb" != build ] && ! command -v nvidia-smi >/dev/null; then
    set -- "$@" -DCMAKE_CUDA_ARCHITECTURES=90
  fi
  make_in "$build" "$@"
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

train() {
  # shellcheck disable=SC2086
  ensure $core
  want_faster
  make_normal OFF
  : >"$build/.started"
  "$build/mtorch" "$root/scripts/train_split.lua" "$@"
  if [ "$root" = "$(pwd -P)" ]; then
    say "next: build/mtorch scripts/train_split.lua --hidden 100"
  else
    say "next: \"$build/mtorch\" \"$root/scripts/train_split.lua\" --hidden 100"
  fi
  report=$(find runs -type f -name '*.html' -newer "$build/.started" 2>/dev/null | head -n 1)
  say "      ${report:+the report: $report; }all flags: --help; every test: sh scripts/run.sh test"
}

tests() {
  # shellcheck disable=SC2086
  ensure $core $tests
  want_faster
  want $several
  want $forms
  want $figures
  want $graphs
  make_normal ON
  ctest_in "$build" "$@"
}

sanitize() {
  # shellcheck disable=SC2086
  ensure $core $tests
  want_faster
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
    make_normal OFF
    say "training under valgrind"
    # Only definite leaks are errors, because libgomp's threads are "possibly lost" at every exit.
    set -- --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
      --show-leak-kinds=definite -q
    if [ -e "$root/tests/valgrind.supp" ]; then
      set -- "$@" "--suppressions=$root/tests/valgrind.supp"
    fi
    valgrind "$@" "$build/mtorch" "$root/scripts/train_split.lua" --epochs 3
  else
    say "valgrind: not installed, skipped"
  fi
  say "sanitize: clean"
}

# The newest nvcc of CUDA 12.8 or 12.9 that is installed: its programs run on drivers from 525 on, those
# of CUDA 13 from 580 on. CUDACXX overrides it.
bundle_nvcc() {
  for place in /usr/local/cuda-12.9/bin/nvcc /usr/local/cuda-12.8/bin/nvcc; do
    if [ -x "$place" ]; then echo "$place" && return; fi
  done
  command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || :
}

# Native code for compute capability 7.5, 8.x (that of 8.0), 9.0 and, from CUDA 12.8 on, 10.x and 12.x;
# newer GPUs translate the PTX.
bundle() {
  # shellcheck disable=SC2086
  ensure $core $tests
  want_faster
  dir=$root/build-bundle
  CUDACXX=${CUDACXX:-$(bundle_nvcc)}
  kinds='75-real;80-real;90'
  case $("${CUDACXX:-nvcc}" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p') in
    12.[89] | 1[3-9].*) kinds='75-real;80-real;90-real;100-real;120' ;;
  esac
  if [ -n "$CUDACXX" ]; then export CUDACXX; else unset CUDACXX; fi
  make_in "$dir" -DCMAKE_BUILD_TYPE=Release "-DMTORCH_WERROR=$(werror)" -DMTORCH_TESTS=ON \
    -DMTORCH_BUNDLE=ON "-DCMAKE_CUDA_ARCHITECTURES=$kinds"
  sh "$root/scripts/tools/bundle.sh" "$dir"
}

usage='usage: sh scripts/run.sh train [flags] | test [flags] | build | bundle | sanitize'
[ $# -gt 0 ] || fail 2 "$usage"
verb=$1
shift
case $verb in
  train) train "$@" ;;
  test) tests "$@" ;;
  build)
    # shellcheck disable=SC2086
    ensure $core
    want_faster
    make_normal OFF
    ;;
  bundle) bundle ;;
  sanitize) sanitize "$@" ;;
  help | -h | --help) printf '%s\n' "$usage" ;;
  *) fail 2 "run.sh: no verb '$verb'; $usage" ;;
esac
