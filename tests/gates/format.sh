#!/bin/sh
# format.sh -- checks the layout of the C++ files with clang-format 14
#
#   sh tests/gates/format.sh          lists the files that differ; status 1 if there are any, 77 without that version
#   sh tests/gates/format.sh --mend   reformats them
set -u
cd "$(dirname -- "$0")/../.." || exit 2
tool=$(command -v clang-format-14 || command -v clang-format) ||
  { echo "skipped: clang-format is missing" && exit 77; }
case $("$tool" --version) in
  *'version 14.'*) ;;
  *) echo "skipped: version 14 is required, this is $("$tool" --version)" && exit 77 ;;
esac
files() { find kernels engine bindings tests \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print | sort; }
if [ "${1:-}" = --mend ]; then
  files | xargs "$tool" -i
  exit
fi
bad=$(files | xargs "$tool" --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: .*/\1/p' | uniq -c)
[ -z "$bad" ] || { printf '%s\n' "$bad" && echo "sh tests/gates/format.sh --mend reformats them" && exit 1; }
echo "$(files | wc -l) files have the layout of .clang-format"
