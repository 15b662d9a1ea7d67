#!/bin/sh
# install.sh -- installs a build into a folder and tests it there: C++ programs, a stock luajit, the program
#
#   sh tests/program/install.sh BUILD_DIR
#
# Prints a line for each check. Status: 0 if no check fails, 1 if one fails, 77 if all are skipped.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
if [ $# != 1 ] || ! build=$(CDPATH='' cd -- "$1" && pwd -P); then
  sed -n '4p' "$0" >&2
  exit 1
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/mtorch_install.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
prefix=$scratch/prefix example=$scratch/example log=$scratch/log
unset LUA_PATH LUA_CPATH LUA_INIT
cd "$scratch" || exit 1 # files must not be found through the old folder

failed=0
ok() { printf 'ok: %s\n' "$1"; }
bad() {
  failed=1
  printf 'not ok: %s\n' "$1"
  tail -n 30 "$log" | sed 's/^/    /'
}
skip() { printf 'skipped: %s: %s\n' "$1" "$2"; }
# check NAME WANTED COMMAND...: the command succeeds and prints lines that match the pattern WANTED.
check() {
  name=$1 wanted=$2
  shift 2
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  text=$(cat "$log")
  # shellcheck disable=SC2254  # a pattern
  case $status:$text in
    0:$wanted) ok "$name" ;;
    *) bad "$name (status $status)" ;;
  esac
}
setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

if [ "$(setting MTORCH_SANITIZE)" = ON ]; then
  skip install "a sanitizer build is not installed"
  exit 77
fi

# ---- the installed files ----
check "cmake --install" "*" cmake --install "$build" --prefix "$prefix"
[ $failed = 0 ] || exit 1
# Installed files must not contain paths of the source or build; "/mtorch/" may be the source, or the end of a path.
folders=$(printf '%s|%s' "${here%/*}" "$build" | sed 's/[][\.*^$+?(){}]/\\&/g')
grep -rnIE -e "(^|[^[:alnum:]_}>./-])($folders)/" "$prefix" >"$log" 2>&1
if [ -s "$log" ]; then bad "a file names the source or the build"; else ok "no file names the source or the build"; fi
mv "$prefix" "$scratch/moved" && prefix=$scratch/moved # the installation is relocatable

check "the stubs for the Lua language server" "---@meta mtorch*" cat "$prefix/share/mtorch/stubs/mtorch.lua"

# ---- C++ programs ----
set -- -G "$(setting CMAKE_GENERATOR)" -S "$here/install" -B "$example" -DCMAKE_BUILD_TYPE=Release
set -- "$@" -DCMAKE_PREFIX_PATH="$prefix;$(setting CMAKE_PREFIX_PATH)"
compiler=$(setting CMAKE_CXX_COMPILER)
[ -z "$compiler" ] || set -- "$@" -DCMAKE_CXX_COMPILER="$compiler"
# Warnings are also enabled for the package's headers.
check "find_package(mtorch)" "*" cmake "$@" -DCMAKE_CXX_FLAGS='-Wall -Wextra -Wpedantic -Wshadow -Werror' \
  -DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON
mkdir "$scratch/sub"
printf 'cmake_minimum_required(VERSION 3.25)\nproject(game LANGUAGES CXX)\nadd_subdirectory("%s" mtorch)\n' \
  "${here%/*/*}" >"$scratch/sub/CMakeLists.txt"
check "add_subdirectory is refused" "*use find_package*" sh -c '! cmake -G "$0" -S sub -B sub/build' \
  "$(setting CMAKE_GENERATOR)"
check "the examples build" "*" cmake --build "$example"
first="*0*0*3*3*
matmul: inner sizes differ: (2 x 3) and (4 x 5)*"
if [ $failed = 0 ]; then
  check "a C++ program: a gradient and an error" "$first" "$example/example"
  if command -v valgrind >/dev/null; then
    check "the same under valgrind, at exit too" "$first" \
      env MTORCH_ISA=base valgrind -q --error-exitcode=9 "$example/example"
  else
    skip "the same under valgrind" "no program valgrind here"
  fi
  check "a net in C++ and its file" "learned 1, equal 1, 1" "$example/train" "$scratch/net.safetensors"
  check "a host with its own Lua state" \
    "6*true
host.lua:1: matmul: inner sizes differ: (2 x 3) and (4 x 5)*
9 3 0
0
false*cross_entropy: target 1 is 4, expected 1..3*
cross_entropy: target 0 is 3, expected 0..2*
4" "$example/embed" "$scratch/net.safetensors"
fi

if ! command -v pkg-config >/dev/null; then
  skip "pkg-config" "no program pkg-config here"
else
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name mtorch.pc)") && export PKG_CONFIG_PATH
  # shellcheck disable=SC2046  # words
  check "pkg-config" "*" "${compiler:-c++}" -std=c++20 -o "$scratch/by_pkg_config" "$here/install/main.cpp" \
    $(pkg-config --cflags --libs mtorch)
  check "a C++ program built by it" "$first" "$scratch/by_pkg_config"
fi

# ---- a stock luajit ----
module=$(find "$prefix" -name mtorch.so -path '*/lua/5.1/*')
if [ -z "$module" ]; then
  : >"$log"
  bad "mtorch.so is installed in lua/5.1"
else
  # Without luajit, a test program loads the module late, when there is little room for thread-locals.
  luajit=$(command -v luajit) || luajit=$example/luajit
  path="package.cpath = '${module%/*}/?.so;' .. package.cpath"
  # The module warns of a LuaJIT that compiles some loops incorrectly, once per process.
  warning=$("$luajit" -e "local new = pcall(require('jit.opt').start, '-fma')
    io.write(new and '' or 'mtorch: LuaJIT*compiles*jit.off()*')")
  # At exit, tensors, modules and a graph are alive, and OpenMP's threads exist.
  check "require 'mtorch' in luajit" "${warning}6*nil*" "$luajit" -e "$path
    local mt = require 'mtorch'
    print(mt.tensor({1, 2, 3}):sum():item(), rawget(_G, 'mt'))
    net = mt.nn.Sequential(mt.nn.Linear(64, 64), mt.nn.ReLU())
    loss = net(mt.randn(2000, 64)):sum()
    big = mt.randn(600, 600)
    product = big:matmul(big)"
  check "an error in luajit has the user's line" \
    "${warning}(command line):2: matmul: inner sizes differ: (2 x 3) and (4 x 5)*" "$luajit" \
    -e "$path local mt = require 'mtorch'
    print(select(2, pcall(function() return mt.ones(2, 3):matmul(mt.ones(4, 5)), 1 end)))"
  # LuaJIT runs the newest finalizers first, and one unloads C modules: older finalizers run after it.
  check "a finalizer older than the module" "${warning}12" "$luajit" -e "$path
    local mt
    local proxy = newproxy(true)
    getmetatable(proxy).__gc = function() print(mt.full({4}, 3):sum():item()) end
    mt = require 'mtorch'
    kept = proxy"
  # Several states are created and closed in one process.
  check "one state after another" "${warning}2
2
2" "$luajit" -e "local ffi = require 'ffi'
    jit.off()
    ffi.cdef [[
      void *luaL_newstate(void);
      void luaL_openlibs(void *);
      int luaL_loadstring(void *, const char *);
      int lua_pcall(void *, int, int, int);
      void lua_close(void *);
    ]]
    for i = 1, 3 do
      local L = ffi.C.luaL_newstate()
      ffi.C.luaL_openlibs(L)
      assert(ffi.C.luaL_loadstring(L, [[$path; kept = require('mtorch').ones(2); print(kept:sum():item())]]) == 0)
      assert(ffi.C.lua_pcall(L, 0, 0, 0) == 0)
      ffi.C.lua_close(L)
    end"
fi

# ---- the program, from another folder ----
printf "print(require('mtorch').zeros(2, 3).shape)\n" >"$scratch/script.lua"
check "the program" "(2, 3)" "$prefix/bin/mtorch" script.lua
exit $failed
