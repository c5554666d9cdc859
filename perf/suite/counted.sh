#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# How many instructions a request of the workload http executes, by Callgrind: two runs, one with
# twice as many requests, so that beginning and end are not in it.
#
#     sh perf/suite/counted.sh PROGRAM
#
# Prints a metric, as the program itself does, and exits with its status. The choice of a connection
# and the turn of the loop are in the figure, the kernel is not.

set -eu

if [ $# -ne 1 ]; then
    echo 'Usage: sh perf/suite/counted.sh PROGRAM' >&2
    exit 2
fi
command -v valgrind >/dev/null || {
    echo 'there is no valgrind' >&2
    exit 3
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# A fifth more is run to warm up.
requests=19200

# instructions OPS
instructions()
{
    status=0
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" http --ops "$2" \
        >/dev/null 2>"$log" </dev/null || status=$?
    if [ "$status" -ne 0 ]; then
        grep -v '^==' "$log" | tail -n 1 >&2
        exit "$status"
    fi
    sed -n 's/^==[0-9]*== Collected : //p' "$log"
}

once=$(instructions "$1" "$requests")
twice=$(instructions "$1" $((2 * requests)))
echo "instructions_per_request $(((twice - once) * 5 / 6 / requests))"
