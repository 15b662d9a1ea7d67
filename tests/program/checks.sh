# checks.sh -- functions of the scripts that test the program: `. checks.sh PROGRAM_OR_BUILD`
#
# Sets `program`, and changes to a temporary folder, which is also HOME and is removed at the end.
unset LUA_PATH LUA_CPATH LUA_INIT XDG_STATE_HOME
here=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
program=${1:-$here/build/mtorch}
[ ! -d "$program" ] || program=$program/mtorch
case $program in /*) ;; *) program=$PWD/$program ;; esac
[ -x "$program" ] || { echo "not ok - $program is missing" && exit 1; }
folder=$(mktemp -d /tmp/mtorch_checks.XXXXXX)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT
cd "$folder" || exit 1
export HOME="$folder"

count=0 failures=0
ok() { count=$((count + 1)) && echo "ok $count - $1"; }
not_ok() {
  count=$((count + 1)) failures=$((failures + 1))
  echo "not ok $count - $1"
  printf '%s\n' "$2" | head -n 12 | sed 's/^/    /'
}
# has NAME FILE TEXT: the file contains the text. lacks NAME FILE TEXT: it does not.
has() {
  if grep -qF -e "$3" "$2"; then ok "$1"; else not_ok "$1" "no '$3' in $2: $(cat "$2")"; fi
}
lacks() {
  if grep -qF -e "$3" "$2"; then not_ok "$1" "'$3' in $2: $(cat "$2")"; else ok "$1"; fi
}
is() {
  if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got '$2', wanted '$3'"; fi
}
# The last line of a script: the count, and the exit status.
summary() {
  echo "$count checks, $failures failed"
  [ $failures = 0 ]
}
