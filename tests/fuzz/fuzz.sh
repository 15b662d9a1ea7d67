#!/bin/sh
# fuzz.sh -- runs every fuzz target for some time; a file that crashes one is written to BUILD/fuzz
#
#   sh tests/fuzz/fuzz.sh BUILD [RUNS]   BUILD configured with -DMTORCH_FUZZ=ON and clang; 10000000 runs each by default
#
# MTORCH is the program that writes the seed corpus (BUILD/mtorch by default).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
build=${1:?the build folder} runs=${2:-10000000}
mkdir -p "$build/fuzz"
"${MTORCH:-$build/mtorch}" "$here/tests/fuzz/seeds.lua" "$build/fuzz/seeds"
# Short files reach all branches and run faster; a crashing file that is run alone shows the whole stack.
export ASAN_OPTIONS="${ASAN_OPTIONS:-malloc_context_size=1:quarantine_size_mb=8}"
status=0
for target in "$build"/fuzz_*; do
  [ -x "$target" ] || continue
  name=$(basename "$target") kind=${target##*/fuzz_}
  mkdir -p "$build/fuzz/$kind" "$build/fuzz/seeds/$kind"
  if "$target" -runs="$runs" -max_len=1024 -timeout=20 -rss_limit_mb=4096 -artifact_prefix="$build/fuzz/$kind-" \
    -print_final_stats=1 "$build/fuzz/$kind" "$build/fuzz/seeds/$kind" >"$build/fuzz/$kind.log" 2>&1; then
    echo "ok - $name: $(sed -n 's/.*number_of_executed_units: *//p' "$build/fuzz/$kind.log") runs"
  else
    status=1
    echo "not ok - $name: $(grep -m 1 -E 'ERROR|runtime error|SUMMARY' "$build/fuzz/$kind.log" ||
      tail -n 1 "$build/fuzz/$kind.log")"
  fi
done
exit $status
