# shellcheck shell=sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# To be sourced, with the root of the checkout in $root. Defines
#
#     build_release NAME FOLDER OPTIONS [TARGET]...
#     build_relay NAME [TARGET]...
#
# The first one builds hwt in release mode in FOLDER, with these options of meson setup, in words, and these targets,
# or all; the second one hwt-relay and what measures it, in build/release. If that fails, they say so in the name of
# the script NAME, and exit with 1.

configure()
{
    folder=$1
    shift
    set -- --buildtype=release -Dtests=disabled -Dperf=enabled "$@"
    if [ -f "$folder/build.ninja" ]; then
        # Fails in a folder that was moved, or was made by another Meson. Libraries may have come since.
        meson configure "$folder" --clearcache &&
            meson setup "$folder" "${root:?}" --reconfigure "$@" && return
        rm -rf "$folder"
    fi
    meson setup "$folder" "$root" "$@"
}

build_release()
{
    name=$1 folder=$2 options=$3
    shift 3
    mkdir -p "${root:?}/build"
    # shellcheck disable=SC2086 # words
    { configure "$folder" $options && ninja -C "$folder" "$@"; } >"$folder.log" 2>&1 </dev/null && return
    cat "$folder.log" >&2
    echo "$name: the build failed" >&2
    exit 1
}

build_relay()
{
    name=$1
    shift
    build_release "$name" "${root:?}/build/release" '-Ddelay=enabled -Drelay=enabled' hwt/relay/hwt-relay \
        hwt/delay/tool/hwt-delay perf/relay/relay_clock.so "$@"
}
