# debian.sh -- a minimal Debian in a folder, for tests that need a bare machine: new_target, make_debian, inside
#
# Reads suite (bookworm), base (a system to copy; else debootstrap makes one), mirror (this machine's) and keep (yes:
# the folder stays). Root only. The mounts live in a namespace that ends with each command.
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2 && exit 1; }

# Prints why there can be no such system here, or nothing.
why_no_debian() {
  if [ "$(id -u)" != 0 ]; then
    echo "this needs root"
  elif [ -z "${base:-}" ] && ! command -v debootstrap >/dev/null; then
    echo "debootstrap is missing: apt-get install debootstrap"
  fi
}

# Sets `target` to the folder $1, or to a new one in /tmp, which goes at the end.
new_target() {
  why=$(why_no_debian)
  [ -z "$why" ] || die "$why"
  target=${1:-$(mktemp -d /tmp/bare_debian.XXXXXX)}
  [ ! -e "$target/bin" ] || die "$target holds a system already; --base copies one"
  mkdir -p "$target"
  target=$(CDPATH='' cd -- "$target" && pwd -P)
  trap 'if [ "${keep:-no}" = yes ]; then echo "kept: $target"; else rm -rf --one-file-system "$target"; fi' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP PIPE
}

# Makes the system in `target`, with this machine's mirror and its way to it.
make_debian() {
  suite=${suite:-bookworm}
  # shellcheck disable=SC2016  # the names in $() are apt's
  [ -n "${mirror:-}" ] || mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(CODENAME)' \
    'Created-By: Packages' 2>/dev/null | awk -v s="$suite" '$2 == s || $3 == s { print $1; exit }')
  if [ -n "${base:-}" ]; then
    cp -a --reflink=auto "$base/." "$target/" || return
  else
    # shellcheck disable=SC2086  # without a known mirror, debootstrap has its own
    debootstrap --variant=minbase "$suite" "$target" $mirror || return
  fi
  chmod 755 "$target" # mktemp's is closed to other users
  [ -z "$mirror" ] || echo "deb $mirror $suite main" >"$target/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-|Retries|ForceIP)' \
    >"$target/etc/apt/apt.conf.d/99host" || :
  for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt \
    $(sed -n 's/^Acquire::https.*::CaInfo "\(.*\)";/\1/p' "$target/etc/apt/apt.conf.d/99host"); do
    [ -e "$file" ] || continue
    mkdir -p "$target${file%/*}"
    rm -f "$target$file"
    cp -L "$file" "$target$file"
  done
}

# Runs a line of shell in the system, as the user $1. Tests of the prompt and mpirun open
# terminals, which need devpts, and mpirun reads the processors in /sys.
inside() {
  if [ -z "${http_proxy:-}" ]; then
    eval "$(apt-config shell proxy Acquire::http::Proxy)"
    http_proxy=${proxy:-}
  fi
  # shellcheck disable=SC2016  # the inner shell's
  unshare --mount --pid --fork --kill-child --mount-proc="$target/proc" \
    sh -c 'mount -t devpts -o gid=5,mode=620 devpts "$1/dev/pts" &&
      mount -t sysfs -o ro sysfs "$1/sys" && shift && exec chroot "$@"' sh "$target" \
    --userspec="$1" "$target" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
    ${no_proxy:+"no_proxy=$no_proxy"} sh -c "$2"
}
