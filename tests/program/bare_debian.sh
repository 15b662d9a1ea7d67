#!/bin/sh
# bare_debian.sh -- runs README's two commands in a new minimal Debian, and prints how long they take
#
#   sh tests/program/bare_debian.sh [--base DIR] [--suite NAME] [--mirror URL] [--repo URL|DIR] [--keep] [DIR]
#
# The system is created in DIR (by default a new folder in /tmp): a copy of --base, or else by
# `debootstrap --variant=minbase`. Only git and ca-certificates are installed in it; then the
# commits of --repo (by default the repository of this script) are cloned, and `sh scripts/run.sh`
# train, train again and test run in a chroot. The apt mirror and proxies are those of this
# machine. This needs root. Each command has its own mount namespace. --keep does not remove DIR
# and its logs (DIR/log.*). The status is 0 if every step has the expected status.
set -eu

repo=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
suite=bookworm base='' mirror='' keep=no target=''
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=$2 && shift ;;
    --suite) suite=$2 && shift ;;
    --mirror) mirror=$2 && shift ;;
    --repo) repo=$2 && shift ;;
    --keep) keep=yes ;;
    -*) sed -n '4p' "$0" && exit 2 ;;
    *) target=$1 ;;
  esac
  shift
done
# shellcheck source=tests/program/debian.sh
. "$repo/tests/program/debian.sh"
new_target "$target"

# Prints the last $2 lines of the log $1, without the names of hosts.
show() { tail -n "$2" "$target/log.$1" | sed -E 's#(https?|ftp)://[^/ ]+#\1://...#g; s/^/    /'; }
now() { date +%s.%N; }
failed=0
# step NAME STATUS COMMAND...: runs the command, prints the wall time, compares the exit status.
step() {
  name=$1 expected=$2
  shift 2
  began=$(now)
  got=0
  "$@" >"$target/log.$name" 2>&1 </dev/null || got=$?
  seconds=$(echo "$began $(now)" | awk '{ printf "%.1f", $2 - $1 }')
  printf '%-14s %8s s   status %s\n' "$name" "$seconds" "$got"
  if [ "$got" != "$expected" ]; then
    failed=1
    echo "    wanted status $expected; the end of its output:"
    show "$name" 60
  fi
}

# ---- the system ----
step debian 0 make_debian
[ $failed = 0 ] || exit 1

# ---- the user's part ----
step git 0 inside root 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y \
  install --no-install-recommends git ca-certificates'
[ $failed = 0 ] || exit 1
# The package lists are removed, as in a container image, so that run.sh has to download them.
inside root 'rm -rf /var/lib/apt/lists/*; apt-get clean'
packages() { inside root 'dpkg-query -W -f="x\n" | wc -l'; }
bare=$(packages)
step clone 0 git clone -q --bare --no-hardlinks "$repo" "$target/srv/mtorch.git"
step clone-inside 0 inside root 'git clone -q /srv/mtorch.git /mtorch'
[ $failed = 0 ] || exit 1

# ---- the two commands ----
step nobody 3 inside nobody:nogroup 'cd /mtorch && sh scripts/run.sh train'
step train 0 inside root 'cd /mtorch && sh scripts/run.sh train'
show train 4
step train-again 0 inside root 'cd /mtorch && sh scripts/run.sh train'
step test 0 inside root 'cd /mtorch && sh scripts/run.sh test'
show test 4
echo "packages: $bare before, $(packages) after; $(du -shx "$target" | cut -f1) in all"
exit $failed
