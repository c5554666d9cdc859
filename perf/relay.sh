#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Starts three NATS servers and three replicas of hwt-relay on loopback, publishes delayed messages
# from Python, kills and stops servers and replicas on the way, and looks whether every message has come
# once and in its time. Builds hwt in release mode for that, and installs what is missing.
#
#     sh perf/relay.sh [--seconds N] [--rate N] [--faults N] [--seed N] [--out DIR]
#
#     --seconds N    for so long messages are published (120)
#     --rate N       messages a second (500)
#     --faults N     so many, spread over that time, at most one in 10 seconds (6)
#     --seed N       chooses delays, faults and victims (drawn, and printed)
#     --out DIR      ledger.md, lateness.svg and the logs go there (build/relay)
#
# Works from any folder. Prints the ledger in the end: what is missing, early, double, late, in all and
# after each fault. lateness.svg shows lateness over time with the faults, if gnuplot is there.
# The exit status is 0; 1 if a message was missing, early, double, or came although it was cancelled, or if it
# could not run; 2 for misuse, or if something has to be installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

case " $* " in
*' --help '*)
    sed -n '4,20s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

misuse()
{
    echo "perf/relay.sh: $1; see --help" >&2
    exit 2
}

seconds=120 rate=500 faults=6 seed='' out=$root/build/relay
while [ $# -gt 0 ]; do
    case $1 in
    --seconds | --rate | --faults | --seed | --out) [ $# -gt 1 ] || misuse "$1 needs a value" ;;
    *) misuse "unknown option $1" ;;
    esac
    case $1,$2 in
    --out,*) ;;
    *,*[!0-9]* | *, | *,??????????*) misuse "$1 $2: not a number" ;;
    esac
    case $1 in
    --seconds) seconds=$2 ;;
    --rate) rate=$2 ;;
    --faults) faults=$2 ;;
    --seed) seed=$2 ;;
    --out) out=$2 ;;
    esac
    shift 2
done
[ "$seconds" -ge 5 ] || misuse "--seconds $seconds: at least 5"
[ "$rate" -ge 1 ] || misuse "--rate $rate: at least 1"
[ "$((faults * 10))" -le "$seconds" ] || misuse "--faults $faults: at most one in 10 seconds"
[ -n "$seed" ] || seed=$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')

dir=$root/build/release

configure()
{
    set -- --buildtype=release -Dtests=disabled -Dperf=enabled -Ddelay=enabled -Drelay=enabled
    if [ -f "$dir/build.ninja" ]; then
        # Fails in a folder that was moved, or was made by another Meson.
        meson setup "$dir" "$root" --reconfigure "$@" && return
        rm -rf "$dir"
    fi
    meson setup "$dir" "$root" "$@"
}

mkdir -p "$root/build"
ensure_packages isal libbsd nats python3
wish_for_packages gnuplot
if ! { configure && ninja -C "$dir" hwt/relay/hwt-relay; } >"$dir.log" 2>&1 </dev/null; then
    cat "$dir.log" >&2
    echo 'perf/relay.sh: the build failed' >&2
    exit 1
fi
exec python3 "$root/perf/relay/run.py" "$dir/hwt/relay/hwt-relay" "$seconds" "$rate" "$faults" \
    "$seed" "$out"
