#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Builds hwt in release mode and runs the heartbeat program with the arguments given (see
# --help). Installs what is missing. Works from any folder, and leaves nothing in the
# checkout but build/. The exit status is the program's; 2 also if something has to be
# installed by hand, 1 also if the build failed.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

dir=$root/build/release

configure()
{
    set -- --buildtype=release -Dtests=disabled -Dperf=enabled
    if [ -f "$dir/build.ninja" ]; then
        # Fails in a folder that was moved, or was made by another Meson.
        meson setup "$dir" "$root" --reconfigure "$@" && return
        rm -rf "$dir"
    fi
    meson setup "$dir" "$root" "$@"
}

build()
{
    configure && meson compile -C "$dir"
}

mkdir -p "$root/build"
# shellcheck disable=SC2119 # nothing beside what a build always needs
ensure_packages
if ! build >"$dir.log" 2>&1 </dev/null; then
    cat "$dir.log" >&2
    echo 'perf/heartbeat.sh: the build failed' >&2
    exit 1
fi
exec "$dir/perf/heartbeat" "$@"
