#!/bin/sh
# version.sh -- prints the version of this source tree: 0.1.0 at the tag v0.1.0 or without git, else 0.1.0+g66072a92,
# with .dirty at the end after changes
cd "$(dirname -- "$0")/.." || exit 1
version=$(sed -n 's/^project(mtorch VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
describe() { [ -e .git ] && git describe --dirty=.dirty "$@" 2>/dev/null; }
if [ "$(describe --tags --exact-match --match "v$version")" != "v$version" ]; then
  commit=$(describe --always --abbrev=8 --exclude='*') && version=$version+g$commit
fi
echo "$version"
