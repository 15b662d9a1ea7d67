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
# await COMMAND..: until the command succeeds, at most half a minute.
await() { for _ in $(seq 600); do if "$@"; then break; else sleep 0.05; fi; done; }
prompts() { [ "$(grep -ao '> ' out | wc -l)" -ge "$1" ]; }
# at_terminal STRING..: types strings at the prompt of a terminal, each when the lines before it have been answered by
# prompts; writes the screen to the file out, and ends when the program has ended.
at_terminal() {
  rm -f ended && : >out
  {
    wanted=1 # prompts
    for text; do
      await prompts $wanted
      sleep 0.2 # the program shows the prompt before it reads
      printf '%b' "$text"
      wanted=$((wanted + $(printf '%b' "$text" | tr -cd '\n\003' | wc -c)))
    done
    await test -e ended # at the end of what is typed `script` would type Ctrl-D
  } | { timeout 60 script -qefc "$program" /dev/null >out 2>err; : >ended; }
}
# The last line of a script: the count, and the exit status.
summary() {
  echo "$count checks, $failures failed"
  [ $failures = 0 ]
}
