#!/bin/sh
# recipes.sh -- checks that the examples of CONTRIBUTING.md apply, change only files in their recipes, build and pass
#
#   sh tests/gates/recipes.sh [FOLDER]  builds a copy of the tree with all of them in FOLDER (build/recipes)
#   sh tests/gates/recipes.sh --apply      stops before the build
#
# A recipe names product files (`Files:`, with patterns) and a patch (`Example:`), whose first line names the tests
# of the change (`Tests: NAME ..`). Generated pages are written again between the build and the tests.
set -euf
cd "$(dirname -- "$0")/../.."
only_apply=
[ "${1:-}" != --apply ] || { only_apply=yes && shift; }
mkdir -p "${1:-build/recipes}"
folder=$(cd "${1:-build/recipes}" && pwd)
tree=$folder/tree
fail() { echo "recipes: $*" && exit 1; }

git rev-parse --git-dir >/dev/null 2>&1 || { echo "skipped: this is not a git checkout" && exit 77; }

rm -rf "$tree" && mkdir "$tree"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -c | tar -xm -C "$tree"
sed -n 's/^Files: //p; s/^Example: /= /p' CONTRIBUTING.md | tr -d '`,' >"$folder/recipes"
count=0 tests='house format luacheck'
while read -r first rest; do
  [ "$first" = = ] || { allowed="$first $rest" && continue; }
  patch=$rest touched=0
  for path in $(git apply --numstat "$patch" | cut -f3 | sed -n '/^\(kernels\|engine\|bindings\)\//p'); do
    for pattern in $allowed none; do
      # shellcheck disable=SC2254  # a pattern
      case $path in $pattern) break ;; esac
    done
    [ "$pattern" != none ] || fail "$patch touches $path; its recipe names $allowed"
    touched=$((touched + 1))
  done
  # shellcheck disable=SC2086  # words
  set -- $allowed
  [ $touched -le $# ] || fail "$patch touches $touched product files; its recipe names $#"
  GIT_CEILING_DIRECTORIES=$folder git -C "$tree" apply - <"$patch" || fail "$patch does not apply"
  tests="$tests $(sed -n '1s/^Tests: //p' "$patch")"
  count=$((count + 1))
done <"$folder/recipes"
[ $count = "$(find tests/recipes -name '*.patch' | wc -l)" ] ||
  fail "$count examples are named; tests/recipes has others"
[ $count = "$(grep -c '^Files: ' CONTRIBUTING.md)" ] || fail 'a recipe has no example'
echo "recipes: $count examples apply, and touch what their recipes name"
[ -z "$only_apply" ] || exit 0

cd "$tree"
cmake -S . -B ../build -G Ninja -DCMAKE_BUILD_TYPE=Release -DMTORCH_ISAS=native -DMTORCH_CUDA=OFF -DMTORCH_TESTS=ON \
  -DMTORCH_WERROR=ON
cmake --build ../build
../build/mtorch scripts/tools/reference.lua
# shellcheck disable=SC2086  # words
names=$(printf '%s\n' $tests | sort -u)
for name in $names; do
  ctest --test-dir ../build -N -R "^$name\$" | grep -q " $name\$" || fail "no test is called $name"
done
ctest --test-dir ../build --output-on-failure -R "^($(printf '%s' "$names" | tr '\n' '|'))\$"
echo "recipes: $count examples build and pass"
