#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Compares the shared library's binary interface with the committed one, tests/tools/hwt.abi.
#
#     sh tests/tools/abi.sh [--renew]
#
#     --renew    write the committed one anew. Do so with a change that is wanted; one by which
#                programs that are built already would no longer run wants another soversion too.
#
# Says what has changed. Installs what it needs, writes to build/abi. The exit status is 0, 1 if
# anything has changed, 2 for misuse. On another machine than 64-bit x86 it compares nothing.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

committed=$root/tests/tools/hwt.abi
renew=
case ${1-} in
'') ;;
--renew) renew=yes ;;
--help)
    sed -n '4,13s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    echo "tests/tools/abi.sh: unknown option $1; see --help" >&2
    exit 2
    ;;
esac
if [ "$(uname -m)" != x86_64 ]; then
    echo 'tests/tools/abi.sh: tests/tools/hwt.abi is of 64-bit x86, nothing compared'
    exit 0
fi

build=$root/build/abi
ensure_packages gcc abigail
[ -f "$build/build.ninja" ] ||
    CC=gcc meson setup "$build" "$root" --buildtype=debugoptimized -Dtests=disabled -Dperf=disabled \
        -Dman=disabled -Ddefault_library=shared >&2
ninja -C "$build" >"$build.log" || { cat "$build.log" >&2 && exit 1; }
mkdir -p "$build/public"
cp "$root"/hwt/*.h "$build/public"

if [ -n "$renew" ]; then
    abidw --headers-dir "$build/public" --drop-private-types --no-corpus-path --no-comp-dir-path \
        --out-file "$committed" "$build/hwt/libhwt.so"
    exit 0
fi
if abidiff --headers-dir2 "$build/public" "$committed" "$build/hwt/libhwt.so"; then
    echo 'the binary interface is the committed one'
    exit 0
fi
echo 'tests/tools/abi.sh: the binary interface has changed; see --help' >&2
exit 1
