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
# The stress tests are left out, and others that take long and come to no line that is not
# gone through without them; those that can be shortened are. Installs what it needs. The exit
# status is 0, 1 if a test fails or too little is covered, 2 for misuse.

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
        sed -n '4,17s/^# \{0,1\}//p' "$0"
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

# As a regular expression.
slow='simulate.*|test_memory_bound|delay_crash_dropped_tombstone|test_delay_mistakes|relay_cluster_3'

build=$root/build/coverage
ensure_packages gcc check gcovr
[ -f "$build/build.ninja" ] ||
    CC=gcc meson setup "$build" "$root" --buildtype=debugoptimized -Doptimization=1 -Ddebug=false \
        -Dtests=enabled -Dassertions=none -Dperf=disabled -Dprobes=disabled -Dman=disabled -Ddefault_library=both -Db_coverage=true >&2
find "$build" -name '*.gcda' -delete
ninja -C "$build" >"$build.log" || { cat "$build.log" >&2 && exit 1; }
# It may run beside others, on a busy machine.
export HWT_TEST_SCALE=8 CK_TIMEOUT_MULTIPLIER=5
status=0
# run_tests ARGUMENT...: those of the tests that `meson test` would choose.
run_tests()
{
    tests=$(meson test -C "$build" --no-rebuild --list "$@" 2>/dev/null | sed -n 's,^.* / ,,p' | grep -Evx "$slow")
    # Some wait for most of their time.
    # shellcheck disable=SC2086 # one name each
    meson test -C "$build" --no-rebuild --quiet --num-processes "$(($(nproc) + 2))" --timeout-multiplier 5 \
        $tests >"$build.log" || status=1
    tail -n 12 "$build.log"
    grep -E ' (FAIL|ERROR|TIMEOUT) ' "$build.log" >>"$build.failed" || true
}
: >"$build.failed"
run_tests --no-suite consumer --no-suite stress
run_tests --suite tool # the program hwt-delay

# Objects of sources that are gone count for nothing. gcovr 5 wants each function of a file at one
# line: the test of the counter builds that one in a way of its own.
find "$build" -name '*.gcno' | while read -r notes; do
    [ -f "${notes%.gcno}.o" ] || rm "$notes"
done
mkdir -p "$build/html"
gcovr --root "$root" --filter "$root/hwt/" --exclude-unreachable-branches --exclude-throw-branches \
    --exclude-directories '.*/test_counter\.p$' --gcov-ignore-parse-errors \
    --html-details "$build/html/index.html" --txt "$build/coverage.txt" --print-summary \
    --fail-under-line "$lines" --fail-under-branch "$branches" "$build" >"$build.summary" || status=1
cat "$build/coverage.txt" "$build.failed" "$build.summary"
exit "$status"
