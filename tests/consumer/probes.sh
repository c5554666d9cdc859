#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# The static probes of the library; meson's tests call this.
#
#     probes.sh notes LIBRARY yes|no     it has all of hwt/base/probes.h with their arguments, or none
#     probes.sh values PROGRAM           in tests/consumer/probes.c they tell what is so, to gdb
#     probes.sh lateness PROGRAM SCRIPT  perf/lateness.bt traces it, with bpftrace
#
# Exits with 77 where there is nothing to trace with.

set -eu

work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT

fail()
{
    echo "$*" >&2
    exit 1
}

skip()
{
    echo "$*"
    exit 77
}

names='add cancel reschedule fire drain park wake'

# Each probe's name and how many arguments it has.
list_notes()
{
    LC_ALL=C readelf -n "$1" | awk '
        /Provider:/ { ours = $2 == "hwt" }
        /Name:/ { name = $2 }
        /Arguments:/ && ours { print name, NF - 1 }' | sort -u
}

test_notes()
{
    list_notes "$1" >"$work/notes"
    if [ "$2" = yes ]; then
        printf '%s\n' 'add 4' 'cancel 3' 'drain 2' 'fire 4' 'park 2' 'reschedule 4' 'wake 1'
    fi >"$work/expected"
    diff "$work/expected" "$work/notes"
}

# A breakpoint on each probe that prints its arguments and goes on.
gdb_script()
{
    echo 'set pagination off'
    echo 'set breakpoint pending on'
    echo 'break main'
    echo "run >$work/said"
    for name in $names; do
        case $name in
        cancel) format='0x%lx 0x%lx %lu' arguments=3 ;;
        drain | park) format='0x%lx %lu' arguments=2 ;;
        wake) format='0x%lx' arguments=1 ;;
        *) format='0x%lx 0x%lx %lu %lu' arguments=4 ;;
        esac
        printf 'break -probe-stap hwt:%s\ncommands\nsilent\n' "$name"
        printf 'printf "probe %s %s\\n"' "$name" "$format"
        number=0
        while [ "$number" -lt "$arguments" ]; do
            # shellcheck disable=SC2016 # it is gdb's
            printf ', $_probe_arg%d' "$number"
            number=$((number + 1))
        done
        printf '\ncontinue\nend\n'
    done
    echo 'continue'
}

# Of the first timer all is known but how often there was nothing to drain; of the second that its
# worker sleeps.
test_values()
{
    command -v gdb >/dev/null || skip 'gdb is not installed'
    gdb -batch -ex run --args true 2>&1 | grep -q 'exited normally' || skip 'gdb cannot trace here'
    gdb_script >"$work/script"
    gdb -batch -x "$work/script" "$1" >"$work/log" 2>&1 </dev/null
    first=$(sed -n 's/^park \(0x[^ ]*\) .*/\1/p' "$work/said" | head -n 1)
    second=$(sed -n 's/^worker //p' "$work/said")
    sed -n 's/^probe //p' "$work/log" >"$work/traced"
    grep -v '^worker' "$work/said" >"$work/expected"
    grep " $first" "$work/traced" | grep -v '^drain .* 0$' >"$work/told" || true
    diff "$work/expected" "$work/told" || { cat "$work/log" && fail 'the probes tell otherwise'; }
    grep -q "^wake $second\$" "$work/traced" || fail 'the worker did not wake'
}

# Traces longer and longer, until something fired meanwhile.
test_lateness()
{
    bpftrace -e 'BEGIN { exit(); }' >/dev/null 2>&1 || skip 'bpftrace cannot trace here'
    for seconds in 1 2 4 8 16; do
        "$1" on >/dev/null &
        pid=$!
        bpftrace -p "$pid" "$2" >"$work/histogram" 2>"$work/errors" &
        tracer=$!
        sleep "$seconds"
        kill "$pid"
        wait "$tracer" || true
        pid=
        if grep -q '^@lateness_us\[[0-9]*\]:' "$work/histogram"; then
            cat "$work/histogram"
            return
        fi
    done
    cat "$work/histogram" "$work/errors"
    fail 'nothing was traced'
}

test=$1
shift
"test_$test" "$@"
