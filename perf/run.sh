#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Measures hwt against its rivals and peers, writes tables and plots, and prints the bars.
#
#     sh perf/run.sh [--quick | --long] [--rounds N] [--only WORKLOAD] [--out DIR]
#
#     --quick           one round of the most telling runs: two minutes
#     --long            nothing but the memory of threads that arm and cancel, for ten minutes each:
#                       an hour and a half
#     --rounds N        how often a run is repeated at most: 5, or 1 if quick or long
#     --only WORKLOAD   nothing but this one (churn, fire, ...; see perf/README.md)
#     --out DIR         where the results go: build/perf-results
#     --report          no runs: reads what is in DIR again and writes tables and plots
#
# Installs what it needs; a peer that cannot be had is named and skipped. Works from any
# folder. The exit status is 0; 1 if a build or a run failed; 2 for misuse, or if something
# has to be installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"
# shellcheck source-path=SCRIPTDIR/.. source=perf/build.sh
. "$root/perf/build.sh"
script=perf/run.sh plan=$root/perf/plan.txt subject=timer mode=f out=$root/build/perf-results
# shellcheck source-path=SCRIPTDIR/.. source=perf/rounds.sh
. "$root/perf/rounds.sh"

case " $* " in
*' --help '*)
    sed -n '4,18s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
read_options '--quick=q --long=l' "$@"
if [ -z "$rounds" ]; then
    rounds=5
    [ "$mode" = f ] || rounds=1
fi

suite=$root/build/suite
peers=$root/build/peers
stores='hwt hierarchical heap'
threads="$stores netty stpe go tokio"
loops='hwt_loop libev libuv libevent plain_heap'

names_of()
{
    case $1 in
    STORES) echo "$stores" ;;
    THREADS) echo "$threads" ;;
    LOOPS) echo "$loops" ;;
    *) echo "$1" | tr ',' ' ' ;;
    esac
}

build_peers()
{
    mkdir -p "$peers"
    echo 'building the peers that are not C' >&2
    sh "$root/perf/peers/build.sh" "$peers" >"$peers/build.log" 2>&1 </dev/null ||
        echo "perf/peers/build.sh failed: see $peers/build.log" >>"$out/skipped.txt"
    grep ' is left out: ' "$peers/build.log" >>"$out/skipped.txt" || true
}

program_of()
{
    for program in "$suite/perf/perf_$1" "$peers/peer_$1"; do
        [ ! -x "$program" ] || { echo "$program" && return; }
    done
    return 1
}

is_there()
{
    program_of "$1" >/dev/null
}

# As long as it is to run, and four minutes; what hangs is ended.
patience()
{
    echo "$*" | awk '{ for (i = 1; i < NF; i++) if ($i == "--seconds") more = $(i + 1)
                       printf "%d\n", 240 + more }'
}

# The library's paths, as metrics.
count_paths()
{
    sh "$root/perf/instructions.sh" --figures >"$out/figures" || return
    awk '{ print $2 "_instructions", $3; print $2 "_locked", $4 }' "$out/figures"
    rm -f "$out/figures"
}

# execute CONTENDER WORKLOAD OPTIONS...
execute()
{
    program=$(program_of "$1")
    shift
    case $1 in
    instructions) count_paths ;;
    http-instructions) timeout 240 sh "$root/perf/suite/counted.sh" "$program" ;;
    *) timeout "$(patience "$@")" "$program" "$@" ;;
    esac
}

describe_others()
{
    echo "libuv: $(pkg-config --modversion libuv 2>/dev/null || echo none)," \
        "libevent: $(pkg-config --modversion libevent_core 2>/dev/null || echo none)," \
        "libev: $(sed -n 's/.*EV_VERSION_\(MAJOR\|MINOR\) \([0-9]*\).*/\2/p' /usr/include/ev.h \
            2>/dev/null | paste -s -d .)"
    for file in "$peers"/*.version; do
        [ ! -f "$file" ] || cat "$file"
    done
}

prepare()
{
    # shellcheck disable=SC2119 # nothing beside what a build always needs
    ensure_packages
    wish gnuplot valgrind libuv libev libevent jdk netty jctools go rust tokio
    build_release perf/run.sh "$suite" ''
    build_peers
    # shellcheck disable=SC2086 # a word each
    name_the_missing primitives $threads $loops
}

compare
