#!/bin/sh
# resume.sh -- kill -9, full disks, read-only folders: a file is old or new, and a resumed run gives the same bytes
#
#   sh tests/program/resume.sh [PROGRAM | BUILD] [KILLS]    KILLS random kills (8), half of them with 3 workers
#
# Prints `ok` or `not ok` for each check and a count; the status is 0 if all are ok.
set -u
. "$(dirname -- "$0")/checks.sh"
kills=${2:-8}
run=$here/tests/program/resume.lua

# ---- kill -9 at random moments ----
# kill_often WORKERS KILLS: runs that are killed and resumed, KILLS times in all, end with the bytes of a run that
# was not.
kill_often() {
  "$program" "$run" whole "$1" 90 || return 1
  milliseconds=$(awk -v n="$2" -v seed="$((1000 + $1))" \
    'BEGIN {srand(seed); for (i = 0; i < 2 * n; ++i) print int(rand() * 150)}')
  killed=0 broken=0 ends=0 different=0 resumed=0
  for ms in $milliseconds; do
    [ $killed -lt "$2" ] || break
    "$program" "$run" killed "$1" 90 2>err &
    pid=$!
    sleep "$(printf '0.%03d' "$ms")"
    if kill -9 $pid 2>/dev/null; then killed=$((killed + 1)); fi
    wait $pid 2>/dev/null
    status=$?
    if [ -s err ] || { [ $status != 0 ] && [ $status != 137 ]; }; then broken=$((broken + 1)) && cat err; fi
    if [ -e killed ]; then
      "$program" -e "assert(require 'mtorch'.load('killed').step)" || broken=$((broken + 1))
      resumed=$((resumed + 1))
    fi
    if [ -e killed.end ]; then
      cmp -s whole.end killed.end || different=$((different + 1))
      ends=$((ends + 1))
      rm -f killed killed.end
    fi
  done 2>/dev/null
  "$program" "$run" killed "$1" 90 && cmp -s whole.end killed.end || different=$((different + 1))
  is "$1 workers: after $killed kills every checkpoint loads ($resumed times)" $broken 0
  is "$1 workers: $((ends + 1)) runs so interrupted end with the bytes of an undisturbed one" $different 0
  rm -f killed killed.end whole whole.end
}
kill_often 0 $((kills / 2))
kill_often 3 $((kills - kills / 2))

# ---- a save that is stopped anywhere ----
old="require 'mtorch'.save('file', {x = require 'mtorch'.zeros(1000), old = true})"
new="require 'mtorch'.save('file', {x = require 'mtorch'.ones(1000), old = false})"
state="local t = require 'mtorch'.load('file'); local sum = t.x:sum():item()
  print(t.old and sum == 0 and 'old' or not t.old and sum == 1000 and 'new' or 'neither')"
"$program" -e "$old"

if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
  mkdir -p traced && cd traced || exit 1
  "$program" -e "$old"
  strace -o calls "$program" -e "$new" # one thread saves
  # All system calls from the first one on the folder: the name and how often it has been called.
  awk -F'(' '{n[$1]++} /O_TMPFILE|\.mtorch-/ {begun = 1} begun && /^[a-z]/ && !/^exit/ {print $1, n[$1]}' calls >places
  tried=0 bad=0 seen=
  while read -r call n; do
    "$program" -e "$old"
    strace -o /dev/null -e trace="$call" -e inject="$call:signal=KILL:when=$n" \
      "$program" -e "$new" 2>/dev/null
    after=$("$program" -e "$state")
    case $after in old | new) seen="$seen $after" ;; *) bad=$((bad + 1)) ;; esac
    tried=$((tried + 1))
  done <places 2>/dev/null
  is "killed at each of $tried system calls: the old file or the new one" $bad 0
  case $seen in *old*new*) ok 'first the old one, then the new one' ;; *) not_ok 'both occur' "$seen" ;; esac

  rm -f .mtorch-* # left by kills after the file had a name
  # openat fails repeatedly, so that a named temporary file is tried too. The sanitizers have writes of their own.
  faults='fsync:EIO: linkat:EIO: rename:EROFS:'
  [ -n "${MTORCH_SANITIZED:-}" ] || faults="openat:ENOSPC:+ write:ENOSPC: write:EIO: $faults"
  for failure in $faults; do
    call=${failure%%:*} rest=${failure#*:}
    error=${rest%%:*}
    n=$(awk -F'(' -v call="$call" \
      '{n[$1]++} /O_TMPFILE|\.mtorch-/ {begun = 1} begun && $1 == call {print n[$1]; exit}' calls)
    "$program" -e "$old"
    strace -o /dev/null -e trace="$call" -e inject="$call:error=$error:when=$n${rest#*:}" \
      "$program" -e "$new" >out 2>err
    is "$call fails with $error: status 1, the old file" "$? $("$program" -e "$state")" '1 old'
    has '.. one sentence' err "save: cannot write 'file': "
  done
  is 'nothing is left beside the file' "$(find . -name '.mtorch-*')" ''
  cd .. || exit 1
else
  echo 'skipped: a kill at every system call, as strace is not here'
fi

# ---- a full disk, a read-only folder ----
mkdir small
if mount -t tmpfs -o size=64k none small 2>/dev/null; then
  cd small || exit 1
  "$program" -e "$old"
  "$program" -e "require 'mtorch'.save('file', {x = require 'mtorch'.ones(100000)})" 2>../err
  is 'a full disk: status 1, the old file' "$? $("$program" -e "$state")" '1 old'
  has '.. one sentence' ../err "save: cannot write 'file': No space left on device"
  is '.. and nothing beside it' "$(find . -type f)" ./file
  cd .. && umount small
else
  echo 'skipped: a full disk, as nothing can be mounted here'
fi
mkdir fixed && cd fixed || exit 1
"$program" -e "$old"
chmod 555 .
"$program" -e "$new" 2>../err
is 'a read-only folder: status 1, the old file' "$? $("$program" -e "$state")" '1 old'
has '.. one sentence' ../err "save: cannot write 'file': the folder '.' is read-only"
chmod 755 . && chmod 444 file
"$program" -e "$new" 2>../err
is 'a read-only file: status 1, the old file' "$? $("$program" -e "$state")" '1 old'
cd .. || exit 1

summary
