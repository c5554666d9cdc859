#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Measures hwt-delay beside beanstalkd, Redis, RocksDB, LMDB and SQLite, each durable before it
# acknowledges, on one file system; writes tables and plots.
#
#     sh perf/delay_compare.sh [--quick | --full] [--rounds N] [--only WORKLOAD]
#                              [--directory DIR] [--out DIR]
#
#     --quick           one round of the most telling runs: about six minutes
#     --full            larger sizes: an hour, 30 GB of disk
#     --rounds N        how often each run is repeated: 1, or 3 if full
#     --only WORKLOAD   nothing but this one (put, life, burst, standing, pace,
#                       backlog, calls)
#     --directory DIR   where the stores are: below this; build/delay-stores
#     --out DIR         where the results go: build/delay-results
#     --report          no runs: reads what is in --out again and writes tables and plots
#
# Installs what it needs, with redis-server and beanstalkd, which Debian may start as services; the
# servers that are measured are its own. A store that cannot be had is named and skipped. Works from any
# folder. Prints its table in the end.
# The exit status is 0; 1 if a build or a run failed; 2 for misuse, or if something has to be
# installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source-path=SCRIPTDIR/.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

misuse()
{
    echo "perf/delay_compare.sh: $1; see --help" >&2
    exit 2
}

mode=d
rounds=
only=
stores=$root/build/delay-stores
out=$root/build/delay-results
measure=yes
while [ $# -gt 0 ]; do
    case $1 in
    --quick) mode=q ;;
    --full) mode=f ;;
    --report) measure=no ;;
    --rounds | --only | --out | --directory)
        [ $# -gt 1 ] || misuse "$1 needs a value"
        case $1 in
        --rounds) rounds=$2 ;;
        --only) only=$2 ;;
        --directory) stores=$2/hwt-delay-stores ;;
        --out) out=$2 ;;
        esac
        shift
        ;;
    --help)
        sed -n '4,26s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) misuse "unknown option $1" ;;
    esac
    shift
done
[ -n "$rounds" ] || case $mode in
f) rounds=3 ;;
*) rounds=1 ;;
esac
case $rounds in
*[!0-9]* | 0) misuse "--rounds $rounds is not a number from 1" ;;
esac
case $only in
'' | put | life | burst | standing | pace | backlog | calls) ;;
*) misuse "--only $only is not a workload" ;;
esac

build=$root/build/release
all='hwt bare beanstalkd redis rocksdb lmdb sqlite'

found()
{
    case $1 in
    gnuplot | beanstalkd | redis-server) command -v "$1" ;;
    hiredis | lmdb | sqlite3) pkg-config --exists "$1" ;;
    rocksdb) echo '#include <rocksdb/c.h>' | "${CC:-cc}" -E - ;;
    esac >/dev/null 2>&1
}

optional_package()
{
    case $1 in
    gnuplot) echo gnuplot-nox ;;
    beanstalkd | redis-server) echo "$1" ;;
    *) echo "lib$1-dev" ;;
    esac
}

# As tests/tools/packages.sh does it, but what cannot be had is only named.
install_optional()
{
    for wish in gnuplot beanstalkd redis-server hiredis rocksdb lmdb sqlite3; do
        found "$wish" && continue
        package=$(optional_package "$wish")
        echo "installing $package" >&2
        if command -v apt-get >/dev/null && as_root=$(root_command); then
            export as_root
            apt_install "$package" >>"$root/build/optional.log" 2>&1 || true
        fi
        found "$wish" || echo "$wish: $package cannot be installed" >>"$out/skipped.txt"
    done
}

configure()
{
    set -- --buildtype=release -Dtests=disabled -Dperf=enabled -Ddelay=enabled
    if [ -f "$build/build.ninja" ]; then
        # Fails in a folder that was moved, or was made by another Meson. It is set up anew where
        # libraries may have come since.
        meson setup "$build" "$root" --reconfigure --clearcache "$@" && return
        rm -rf "$build"
    fi
    meson setup "$build" "$root" "$@"
}

build_all()
{
    if ! { configure && meson compile -C "$build"; } >"$build.log" 2>&1 </dev/null; then
        cat "$build.log" >&2
        echo 'perf/delay_compare.sh: the build failed' >&2
        exit 1
    fi
}

# A server's contender is built without the server.
is_there()
{
    [ -x "$build/perf/delay/delay_$1" ] || return
    case $1 in
    beanstalkd) found beanstalkd ;;
    redis) found redis-server ;;
    esac
}

name_the_missing()
{
    for name in $all; do
        is_there "$name" || echo "$name: there is no program of it"
    done >>"$out/skipped.txt"
}

# The line's contenders that exist, beginning with another one each round.
contenders_of()
{
    list=$(echo "$1" | tr ',' ' ')
    [ "$1" != ALL ] || list=$all
    for name in $list; do
        ! is_there "$name" || echo "$name"
    done | awk -v first="$2" '{ name[NR - 1] = $0 }
                              END { for (i = 0; i < NR; i++) print name[(i + first) % NR] }'
}

plan()
{
    awk -v mode="$mode" -v only="$only" '
        /^#/ || NF == 0 || index($1, mode) == 0 { next }
        only == "" || $3 == only { $1 = ""; print }' "$root/perf/delay/plan.txt"
}

# run_one ROUND CONTENDER WORKLOAD OPTIONS...: in a directory of its own, which is removed.
run_one()
{
    round=$1
    name=$2
    workload=$3
    shift 3
    rm -rf "$stores"
    mkdir -p "$stores/$name"
    sync
    timeline=
    [ "$workload $name" != 'pace hwt' ] || timeline="--timeline $out/timeline.csv"
    status=0
    case $workload in
    backlog | calls) program=delay_$workload ;;
    *) program="delay_$name $workload" ;;
    esac
    # shellcheck disable=SC2086 # words, or none
    timeout 1800 "$build/perf/delay/"$program "$@" $timeline \
        --directory "$stores/$name" >"$out/run.out" 2>"$out/run.err" </dev/null || status=$?
    case $status in
    0) awk -v head="$round,$workload,$*,$name," 'NF == 2 { print head $1 "," $2 }' \
        "$out/run.out" >>"$out/raw.csv" ;;
    3) echo "$name $workload $*: $(tail -n 1 "$out/run.err")" >>"$out/declined.txt" ;;
    *)
        echo "$name $workload $*: status $status: $(tail -n 1 "$out/run.err")" |
            tee -a "$out/failed.txt" >&2
        ;;
    esac
    rm -rf "$stores"
}

run_all()
{
    echo 'round,workload,options,contender,metric,value' >"$out/raw.csv"
    rm -f "$out/timeline.csv"
    plan >"$out/plan"
    total=$(($(while read -r who _; do contenders_of "$who" 0; done <"$out/plan" | wc -l) * rounds))
    number=0
    for round in $(seq "$rounds"); do
        while read -r who workload options <&3; do
            for name in $(contenders_of "$who" "$round"); do
                number=$((number + 1))
                printf '%4d of %d, round %d of %d: %s %s %s\n' "$number" "$total" "$round" \
                    "$rounds" "$name" "$workload" "$options" >&2
                # shellcheck disable=SC2086 # options are words
                run_one "$round" "$name" "$workload" $options
            done
        done 3<"$out/plan"
    done
    rm -f "$out/plan" "$out/run.out" "$out/run.err"
}

version_of()
{
    dpkg-query -W -f "$1 "'${Version}, ' "$1" 2>/dev/null || true
}

describe_machine()
{
    mkdir -p "$stores"
    echo "date: $(date -u +'%Y-%m-%d %H:%M UTC')"
    echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
        "$(nproc) processors," \
        "$(awk '/MemTotal/ { printf "%.0f GB", $2 / 1048576 }' /proc/meminfo), $(uname -m)"
    echo "disk: $(df --output=fstype,source,avail -BG "$stores" | tail -n 1 | tr -s ' ')B free"
    echo "system: Linux $(uname -r), $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release | tr -d '"')"
    echo "compiler: $("${CC:-cc}" --version | head -n 1), -O3"
    echo "load at the start: $(cut -d ' ' -f 1-3 /proc/loadavg)"
    echo "hwt: $(sed -n "s/^ *version: '\(.*\)',/\1/p" "$root/meson.build" | head -n 1)," \
        "$(git -C "$root" describe --always --dirty 2>/dev/null || echo 'no git')"
    echo "others: $(for package in beanstalkd redis-server libhiredis-dev librocksdb-dev \
        liblmdb-dev libsqlite3-dev; do version_of "$package"; done | sed 's/, $//')"
}

mkdir -p "$root/build" "$out"
if [ "$measure" = yes ]; then
    rm -f "$out/skipped.txt" "$out/declined.txt" "$out/failed.txt"
    ensure_packages isal libbsd
    install_optional
    build_all
    name_the_missing
    case $(df --output=fstype "$(dirname "$stores")" | tail -n 1) in
    tmpfs | ramfs) misuse "$(dirname "$stores") is in memory: choose a --directory on a disk" ;;
    esac
    describe_machine >"$out/machine.txt"
    run_all
    for file in skipped declined; do
        [ ! -f "$out/$file.txt" ] || sort -u -o "$out/$file.txt" "$out/$file.txt"
    done
fi
[ -f "$out/raw.csv" ] || misuse "there are no results in $out"
python3 -B "$root/perf/delay/report.py" "$out"
[ ! -s "$out/skipped.txt" ] || sed 's/^/skipped: /' "$out/skipped.txt" >&2
cat "$out/results.md"
echo "results: $out/results.md, results.csv and *.svg" >&2
[ ! -f "$out/failed.txt" ]
