#!/bin/sh
# aarch64.sh -- builds mtorch for 64-bit Arm with a cross compiler, and runs tests and a training under QEMU
#
#   sh tests/gates/aarch64.sh root     fills the folder ARM64_ROOT (/tmp/arm64root by default) with Debian's packages
#   sh tests/gates/aarch64.sh          builds in build-aarch64/ and tests, in an hour or two
#   sh tests/gates/aarch64.sh syntax   compiles the kernels without writing code, in half a minute; needs the compiler
#                                      and libsimde-dev only
#
# It needs apt-get install g++-aarch64-linux-gnu qemu-user-static; status 77 (skipped) without one of these, or without
# the folder. Programs that start Arm programs need QEMU as their interpreter: where the kernel does not know it
# (binfmt-support), the script registers it in a namespace of its own, which needs Linux 6.7.
set -eu
cd "$(dirname -- "$0")/../.."
ARM64_ROOT=${ARM64_ROOT:-/tmp/arm64root}
export ARM64_ROOT QEMU_LD_PREFIX="$ARM64_ROOT" MTORCH_CUDA_PLUGIN=none

# Downloads packages with an apt of its own, which knows nothing of this machine's, and unpacks them.
fill_root() {
  apt=$ARM64_ROOT/apt
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  : >"$apt/status"
  for suite in debian:bookworm debian:bookworm-updates debian-security:bookworm-security; do
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$key] http://deb.debian.org/${suite%:*} ${suite#*:} main"
  done >"$apt/sources"
  own() {
    apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" -o Dir::Cache="$apt" \
      -o Dir::State::status="$apt/status" -o Dir::Etc::sourcelist="$apt/sources" -o Dir::Etc::sourceparts=/none \
      -o APT::Install-Recommends=false -o Dir::Cache::archives="$apt/archives" "$@"
  }
  own update
  own --download-only install libstdc++-12-dev libgomp1 libopenblas-openmp-dev libluajit2-5.1-dev libfmt-dev \
    nlohmann-json3-dev libedit-dev zlib1g-dev libzip-dev libpng-dev libturbojpeg0-dev \
    libcurl4-openssl-dev librandom123-dev libsimde-dev libutf8proc2 libpcre2-8-0 catch2
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$ARM64_ROOT"; done
  find "$ARM64_ROOT" -type l -lname '/*' | while read -r link; do
    ln -snf "$ARM64_ROOT$(readlink "$link")" "$link"
  done
}

if [ "${1:-}" = root ]; then fill_root && exit; fi
skip() { echo "skipped: $1" && exit 77; }
command -v aarch64-linux-gnu-g++ >/dev/null || skip 'aarch64-linux-gnu-g++ is missing'
if [ "${1:-}" = syntax ]; then  # the libraries' headers are this machine's, after those of the cross compiler
  [ -e /usr/include/simde ] || skip 'libsimde-dev is missing'
  printf '%s\n' kernels/cpu/verbs/*.cpp kernels/cpu/interpret/*.cpp |
    xargs -n 4 -P 2 aarch64-linux-gnu-g++ -fsyntax-only -std=c++20 -fsigned-char -ffp-contract=off -fopenmp \
      -DMT_ISA=isa_neon -DMT_WITH_COMPILER -I. -idirafter /usr/include -Wno-psabi
  exit
fi
command -v qemu-aarch64-static >/dev/null || skip 'qemu-aarch64-static is missing'
[ -e "$ARM64_ROOT/usr/include/simde" ] || skip "no libraries in $ARM64_ROOT: sh tests/gates/aarch64.sh root"

if [ "${1:-}" = inside ]; then
  elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  printf '%s' ":qemu-aarch64:M::$elf:$mask:$(command -v qemu-aarch64-static):F" >/proc/sys/fs/binfmt_misc/register
elif [ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]; then
  exec unshare -U -r -m sh tests/gates/aarch64.sh inside
fi

cmake --preset aarch64 -DMTORCH_WERROR=ON
cmake --build build-aarch64 --target mtorch mtorch_tests
# Not under QEMU: what asks for the program that runs (compare), the libraries of MPI and CUDA, and what takes an hour.
slow='engine[.](accuracy|cudnn|nccl)|lua[.](attention|conv_shapes)'
export OMP_NUM_THREADS=1
ctest --test-dir build-aarch64 -L quick -R '^(engine|lua)[.]|^script[.]train_split' -FS built -j 2 --timeout 1800 \
  -E "$slow|lua[.](compare|dist|dist_pairs|cuda_operations)|_graph" --output-on-failure
