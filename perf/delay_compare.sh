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
#     --directory DIR   where the stores are: below this; build
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
# shellcheck source-path=SCRIPTDIR/.. source=perf/build.sh
. "$root/perf/build.sh"
script=perf/delay_compare.sh plan=$root/perf/delay/plan.txt subject=store mode=d out=$root/build/delay-results
directory=$root/build
# shellcheck source-path=SCRIPTDIR/.. source=perf/rounds.sh
. "$root/perf/rounds.sh"

case " $* " in
*' --help '*)
    sed -n '4,26s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
read_options '--quick=q --full=f' "$@"
if [ -z "$rounds" ]; then
    rounds=1
    [ "$mode" != f ] || rounds=3
fi

stores=$directory/hwt-delay-stores
build=$root/build/release
all='hwt bare beanstalkd redis rocksdb lmdb sqlite'

names_of()
{
    case $1 in
    ALL) echo "$all" ;;
    *) echo "$1" | tr ',' ' ' ;;
    esac
}

# A server's contender is built without the server.
is_there()
{
    [ -x "$build/perf/delay/delay_$1" ] || return
    case $1 in
    beanstalkd) has beanstalkd ;;
    redis) has redis-server ;;
    esac
}

# execute CONTENDER WORKLOAD OPTIONS...: in a directory of its own, which is removed.
execute()
{
    rm -rf "$stores"
    mkdir -p "$stores/$1"
    sync
    set -- "$@" --directory "$stores/$1"
    [ "$1 $2" != 'hwt pace' ] || set -- "$@" --timeline "$out/timeline.csv"
    program=delay_$1
    shift
    case $1 in
    backlog | calls) program=delay_alone ;;
    esac
    status=0
    timeout 1800 "$build/perf/delay/$program" "$@" || status=$?
    rm -rf "$stores"
    return $status
}

version_of()
{
    dpkg-query -W -f "$1 "'${Version}, ' "$1" 2>/dev/null || true
}

describe_others()
{
    echo "disk: $(df --output=fstype,source,avail -BG "$directory" | tail -n 1 | tr -s ' ')B free"
    echo "others: $(for package in beanstalkd redis-server libhiredis-dev librocksdb-dev \
        liblmdb-dev libsqlite3-dev; do version_of "$package"; done | sed 's/, $//')"
}

prepare()
{
    ensure_packages isal libbsd
    wish gnuplot beanstalkd redis-server hiredis rocksdb lmdb sqlite
    build_release perf/delay_compare.sh "$build" -Ddelay=enabled
    # shellcheck disable=SC2086 # a word each
    name_the_missing $all
    case $(df --output=fstype "$directory" | tail -n 1) in
    tmpfs | ramfs) misuse "$directory is in memory: choose a --directory on a disk" ;;
    esac
}

status=0
compare || status=1
cat "$out/results.md"
exit $status
