#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Runs hwt for a long time, with things going wrong, and fails on growth or a missed promise.
#
#     sh tests/stress/soak.sh MINUTES
#
# At the same time: tests/stress/soak.c with and without an executor (arming, cancelling and pushing
# back at full speed; want of memory, herds, forks, threads that come and go), and
# perf/heartbeat (TCP connections that fall silent, drop and do not answer), a minute
# at a time. If that got too little of a processor to judge the timer, the minute is counted and
# told; it is a failure if that is so in all of them. Every 20 seconds one of the soaking processes
# is stopped for two seconds. Leaves what they print in build/soak-*.log. Installs what it needs. The
# exit status is 0, 1 if something failed, 2 for misuse.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

case ${1-} in
--help)
    sed -n '4,16s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
'' | *[!0-9]* | 0*)
    echo 'tests/stress/soak.sh: say for how many minutes; see --help' >&2
    exit 2
    ;;
esac
[ $# -eq 1 ] || { echo 'tests/stress/soak.sh: one number, and nothing else' >&2 && exit 2; }
minutes=$1

build=$root/build/soak
ensure_packages check
[ -f "$build/build.ninja" ] ||
    meson setup "$build" "$root" --buildtype=release -Dtests=enabled -Dperf=enabled >&2
ninja -C "$build" perf/heartbeat/heartbeat tests/stress/soak >&2

pids=
stop_all()
{
    for pid in $pids; do
        kill -CONT "$pid" 2>/dev/null || true
        kill "$pid" 2>/dev/null || true
    done
}
trap stop_all EXIT
trap 'exit 1' INT TERM

seconds=$((minutes * 60))
"$build/tests/stress/soak" --seconds "$seconds" >"$root/build/soak-worker.log" 2>&1 &
worker=$!
"$build/tests/stress/soak" --seconds "$seconds" --executor >"$root/build/soak-executor.log" 2>&1 &
executor=$!
pids="$worker $executor"

# A process of three is stopped now and then, so that the wall goes on without it.
(
    while sleep 18; do
        for pid in $worker $executor; do
            kill -STOP "$pid" 2>/dev/null || exit 0
            sleep 2
            kill -CONT "$pid" 2>/dev/null || exit 0
        done
    done
) &
pids="$pids $!"

failed=
minute=0
starved=0
: >"$root/build/soak-heartbeat.log"
while [ "$minute" -lt "$minutes" ]; do
    minute=$((minute + 1))
    status=0
    "$build/perf/heartbeat/heartbeat" --seconds 55 --connections 500 --seed "$minute" \
        >>"$root/build/soak-heartbeat.log" 2>&1 || status=$?
    case $status in
    0) ;;
    3) starved=$((starved + 1)) ;;
    *) failed="$failed heartbeat (minute $minute)" ;;
    esac
    echo "minute $minute of $minutes: $(tail -n 1 "$root/build/soak-worker.log")"
done
wait "$worker" || failed="$failed soak"
wait "$executor" || failed="$failed soak --executor"
pids=
for log in worker executor; do
    echo "$log:"
    tail -n 2 "$root/build/soak-$log.log"
done
[ "$starved" -eq 0 ] || echo "heartbeat: in $starved of $minutes minutes it was not known how well"
[ "$starved" -lt "$minutes" ] || failed="$failed heartbeat (never known)"
[ -z "$failed" ] || { echo "failed:$failed; see build/soak-*.log" >&2 && exit 1; }
echo 'nothing was lost, early or twice, and memory did not grow'
