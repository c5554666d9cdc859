# shellcheck shell=sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# To be sourced, with the root of the checkout in $root, and where to build in $dir. Defines
#
#     build_relay NAME [TARGET]...
#
# which builds hwt-relay and what measures it in release mode, and these targets. If that fails it says so in
# the name of the script NAME, and exits with 1.

configure()
{
    set -- --buildtype=release -Dtests=disabled -Dperf=enabled -Ddelay=enabled -Drelay=enabled
    if [ -f "${dir:?}/build.ninja" ]; then
        # Fails in a folder that was moved, or was made by another Meson.
        meson setup "$dir" "${root:?}" --reconfigure "$@" && return
        rm -rf "$dir"
    fi
    meson setup "$dir" "$root" "$@"
}

build_relay()
{
    name=$1
    shift
    mkdir -p "$root/build"
    if ! { configure && ninja -C "$dir" hwt/relay/hwt-relay hwt/delay/tool/hwt-delay \
        perf/relay/relay_clock.so "$@"; } >"$dir.log" 2>&1 </dev/null; then
        cat "$dir.log" >&2
        echo "$name: the build failed" >&2
        exit 1
    fi
}
