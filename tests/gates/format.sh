#!/bin/sh
# format.sh -- whether the C++ is laid out as .clang-format says, by version 14 of clang-format
#
#   sh tests/gates/format.sh          names the files that differ; status 1 if there are any, 77 without that version
#   sh tests/gates/format.sh --mend   lays them out
set -u
cd "$(dirname -- "$0")/../.." || exit 2
tool=$(command -v clang-format-14 || command -v clang-format) ||
  { echo "skipped: clang-format is not here" && exit 77; }
case $("$tool" --version) in
  *'version 14.'*) ;;
  *) echo "skipped: version 14 is wanted, this is $("$tool" --version)" && exit 77 ;;
esac
files() { find kernels engine bindings tests \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print | sort; }
if [ "${1:-}" = --mend ]; then
  files | xargs "$tool" -i
  exit
fi
bad=$(files | xargs "$tool" --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: .*/\1/p' | uniq -c)
[ -z "$bad" ] || { printf '%s\n' "$bad" && echo "sh tests/gates/format.sh --mend lays them out" && exit 1; }
echo "$(files | wc -l) files are laid out as .clang-format says"
