#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# How much of hwt/ the tests go through: builds it for gcov, runs them, and compares with what is
# wanted.
#
#     sh tests/tools/coverage.sh [--lines PERCENT] [--branches PERCENT]
#
#     --lines PERCENT       at least so many of the lines (95)
#     --branches PERCENT    at least so many of the branches (90)
#
# Prints a table, and the lines that no test comes to; build/coverage/html/ has both in colours.
# Installs what it needs. The exit status is 0, 1 if a test fails or too little is covered, 2 for misuse.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

misuse()
{
    echo "tests/tools/coverage.sh: $1; see --help" >&2
    exit 2
}

lines=95 branches=90
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        sed -n '4,14s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --lines | --branches)
        case ${2-} in
        '' | *[!0-9]*) misuse "$1 takes a number" ;;
        esac
        [ "$1" != --lines ] || lines=$2
        [ "$1" != --branches ] || branches=$2
        shift
        ;;
    *) misuse "unknown option $1" ;;
    esac
    shift
done

build=$root/build/coverage
ensure_packages gcc check gcovr
[ -f "$build/build.ninja" ] ||
    CC=gcc meson setup "$build" "$root" --buildtype=debugoptimized -Doptimization=1 -Dtests=enabled \
        -Dperf=disabled -Dprobes=disabled -Dman=disabled -Ddefault_library=both -Db_coverage=true >&2
find "$build" -name '*.gcda' -delete
ninja -C "$build" >"$build.log" || { cat "$build.log" >&2 && exit 1; }
# Where threads count at the same time, counters would be lost.
status=0
meson test -C "$build" --no-rebuild --quiet --no-suite consumer --timeout-multiplier 3 >"$build.log" ||
    status=1
tail -n 12 "$build.log"

mkdir -p "$build/html"
gcovr --root "$root" --filter "$root/hwt/" --exclude-unreachable-branches --exclude-throw-branches \
    --gcov-ignore-parse-errors --html-details "$build/html/index.html" \
    --fail-under-line "$lines" --fail-under-branch "$branches" --print-summary \
    --txt "$build/coverage.txt" "$build" || status=1
cat "$build/coverage.txt"
exit "$status"
