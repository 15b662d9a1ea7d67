#!/bin/sh
# isa.sh -- runs a test with one instruction set of the CPU's kernels
#
#   sh tests/program/isa.sh PROGRAM base|avx2|avx512 COMMAND...
#
# Status 77 (skipped) if the machine lacks the set, or uses it by default.
set -eu
program=$1 isa=$2
shift 2
taken() { "$program" -e "io.write(require('mtorch.core').isa())" 2>/dev/null; }
unset MTORCH_ISA
[ "$(taken)" != "$isa" ] || { echo "skipped: every other test already runs with $isa" && exit 77; }
export MTORCH_ISA="$isa"
[ "$(taken)" = "$isa" ] || { echo "skipped: this processor or this build has no $isa" && exit 77; }
exec "$@"
