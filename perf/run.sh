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

misuse()
{
    echo "perf/run.sh: $1; see --help" >&2
    exit 2
}

mode=f
rounds=
only=
out=$root/build/perf-results
measure=yes
while [ $# -gt 0 ]; do
    case $1 in
    --quick) mode=q ;;
    --long) mode=l ;;
    --report) measure=no ;;
    --rounds | --only | --out)
        [ $# -gt 1 ] || misuse "$1 needs a value"
        case $1 in
        --rounds) rounds=$2 ;;
        --only) only=$2 ;;
        --out) out=$2 ;;
        esac
        shift
        ;;
    --help)
        sed -n '4,18s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) misuse "unknown option $1" ;;
    esac
    shift
done
if [ -z "$rounds" ]; then
    rounds=5
    [ "$mode" = f ] || rounds=1
fi
case $rounds in
*[!0-9]* | 0) misuse "--rounds $rounds is not a number from 1" ;;
esac
if [ -n "$only" ] && ! grep -q "^[qfl]* *[^ ]* *$only " "$root/perf/plan.txt"; then
    misuse "--only $only is not a workload"
fi

suite=$root/build/suite
peers=$root/build/peers
stores='hwt hierarchical heap'
threads="$stores netty stpe go tokio"
loops='hwt_loop libev libuv libevent plain_heap'
all="primitives $threads $loops"

# ---- What has to be there, and what is nice to have ----

any_file()
{
    for file in "$@"; do
        [ ! -e "$file" ] || return 0
    done
    return 1
}

found()
{
    case $1 in
    gnuplot) command -v gnuplot >/dev/null ;;
    libuv) pkg-config --exists libuv ;;
    libev) echo '#include <ev.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 ;;
    libevent) pkg-config --exists libevent_core ;;
    valgrind) command -v valgrind >/dev/null ;;
    jdk) command -v javac >/dev/null ;;
    netty) any_file /usr/share/java/netty*common*.jar /usr/share/java/netty-all*.jar ;;
    jctools) any_file /usr/share/java/jctools*.jar ;;
    go) command -v go >/dev/null ;;
    rust) command -v cargo >/dev/null ;;
    tokio) any_file /usr/share/cargo/registry/tokio-[0-9]* ;;
    esac
}

optional_packages()
{
    case $1 in
    gnuplot) echo gnuplot-nox ;;
    libuv) echo libuv1-dev ;;
    libev) echo libev-dev ;;
    libevent) echo libevent-dev ;;
    valgrind) echo valgrind libc6-dbg ;;
    jdk) echo openjdk-17-jdk-headless ;;
    netty) echo libnetty-java ;;
    jctools) echo libjctools-java ;;
    go) echo golang-go ;;
    rust) echo rustc cargo ;;
    tokio) echo librust-tokio-dev ;;
    esac
}

# As tests/tools/packages.sh does it, but what cannot be had is only named.
install_optional()
{
    for wish in gnuplot valgrind libuv libev libevent jdk netty jctools go \
        rust tokio; do
        found "$wish" && continue
        packages=$(optional_packages "$wish")
        echo "installing $packages" >&2
        # shellcheck disable=SC2086 # names are words
        if command -v apt-get >/dev/null && as_root=$(root_command); then
            export as_root
            apt_install $packages >>"$root/build/optional.log" 2>&1 || true
        fi
        found "$wish" || echo "$wish: $packages cannot be installed" >>"$out/skipped.txt"
    done
}

# ---- Building ----

configure()
{
    set -- --buildtype=release -Dtests=disabled -Dperf=enabled
    if [ -f "$suite/build.ninja" ]; then
        # Fails in a folder that was moved, or was made by another Meson.
        meson setup "$suite" "$root" --reconfigure "$@" && return
        rm -rf "$suite"
    fi
    meson setup "$suite" "$root" "$@"
}

build()
{
    if ! { configure && meson compile -C "$suite"; } >"$suite.log" 2>&1 </dev/null; then
        cat "$suite.log" >&2
        echo 'perf/run.sh: the build failed' >&2
        exit 1
    fi
    mkdir -p "$peers"
    echo 'building the peers that are not C' >&2
    sh "$root/perf/peers/build.sh" "$peers" >"$peers/build.log" 2>&1 </dev/null ||
        echo "perf/peers/build.sh failed: see $peers/build.log" >>"$out/skipped.txt"
    grep ' is left out: ' "$peers/build.log" >>"$out/skipped.txt" || true
}

# Names those that were not built.
name_the_missing()
{
    for name in $all; do
        program_of "$name" >/dev/null || echo "$name: there is no program of it"
    done >>"$out/skipped.txt"
}

# ---- Running ----

program_of()
{
    for program in "$suite/perf/perf_$1" "$peers/peer_$1"; do
        [ ! -x "$program" ] || { echo "$program" && return; }
    done
    return 1
}

# The line's contenders that exist, beginning with another one each round.
contenders_of()
{
    case $1 in
    STORES) list=$stores ;;
    THREADS) list=$threads ;;
    LOOPS) list=$loops ;;
    *) list=$(echo "$1" | tr ',' ' ') ;;
    esac
    for name in $list; do
        ! program_of "$name" >/dev/null || echo "$name"
    done | awk -v first="$2" '{ name[NR - 1] = $0 }
                              END { for (i = 0; i < NR; i++) print name[(i + first) % NR] }'
}

# The lines of the plan for this mode and round.
plan_of()
{
    awk -v mode="$mode" -v only="$only" -v round="$1" '
        /^#/ || NF == 0 || index($1, mode) == 0 { next }
        $2 != "-" && round > $2 { next }
        only == "" || $3 == only || $3 == "clock" { $1 = $2 = ""; print }' "$root/perf/plan.txt"
}

runs_of()
{
    plan_of "$1" | while read -r _ who _; do contenders_of "$who" 0; done | wc -l
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

# run_one ROUND CONTENDER WORKLOAD OPTIONS...
run_one()
{
    round=$1
    name=$2
    workload=$3
    shift 3
    status=0
    execute "$name" "$workload" "$@" >"$out/run.out" 2>"$out/run.err" </dev/null || status=$?
    case $status in
    0) awk -v head="$round,$workload,$*,$name," 'NF == 2 { print head $1 "," $2 }' \
        "$out/run.out" >>"$out/raw.csv" ;;
    3) echo "$name does not do $workload $*: $(tail -n 1 "$out/run.err")" >>"$out/declined.txt" ;;
    *)
        echo "$name $workload $*: status $status: $(tail -n 1 "$out/run.err")" |
            tee -a "$out/failed.txt" >&2
        ;;
    esac
}

progress()
{
    echo "$1 $2 $(date +%s) $begun" |
        awk -v what="$3" '{ left = ($3 - $4) * ($2 - $1) / ($1 > 0 ? $1 : 1)
                            printf "%4d of %d, %d:%02d left: %s\n", $1 + 1, $2,
                                   left / 60, left % 60, what }' >&2
}

run_all()
{
    echo 'round,workload,options,contender,metric,value' >"$out/raw.csv"
    total=0
    for round in $(seq "$rounds"); do
        total=$((total + $(runs_of "$round")))
    done
    begun=$(date +%s)
    number=0
    for round in $(seq "$rounds"); do
        plan_of "$round" >"$out/plan"
        while read -r workload who options <&3; do
            for name in $(contenders_of "$who" "$round"); do
                progress "$number" "$total" "round $round of $rounds, $workload $options: $name"
                number=$((number + 1))
                # shellcheck disable=SC2086 # options are words
                run_one "$round" "$name" "$workload" $options
            done
        done 3<"$out/plan"
    done
    rm -f "$out/plan" "$out/run.out" "$out/run.err"
}

describe_machine()
{
    echo "date: $(date -u +'%Y-%m-%d %H:%M UTC')"
    echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
        "$(nproc) processors," \
        "$(awk '/MemTotal/ { printf "%.0f GB", $2 / 1048576 }' /proc/meminfo), $(uname -m)"
    echo "system: Linux $(uname -r), $(sed -n 's/^PRETTY_NAME=//p' /etc/os-release | tr -d '"')"
    echo "compiler: $("${CC:-cc}" --version | head -n 1), -O3"
    echo "load at the start: $(cut -d ' ' -f 1-3 /proc/loadavg)"
    echo "hwt: $(sed -n "s/^ *version: '\(.*\)',/\1/p" "$root/meson.build" | head -n 1)," \
        "$(git -C "$root" describe --always --dirty 2>/dev/null || echo 'no git')"
    echo "libuv: $(pkg-config --modversion libuv 2>/dev/null || echo none)," \
        "libevent: $(pkg-config --modversion libevent_core 2>/dev/null || echo none)," \
        "libev: $(sed -n 's/.*EV_VERSION_\(MAJOR\|MINOR\) \([0-9]*\).*/\2/p' /usr/include/ev.h \
            2>/dev/null | paste -s -d .)"
    for file in "$peers"/*.version; do
        [ ! -f "$file" ] || cat "$file"
    done
}

mkdir -p "$root/build" "$out"
if [ "$measure" = yes ]; then
    rm -f "$out/skipped.txt" "$out/declined.txt" "$out/failed.txt"
    # shellcheck disable=SC2119 # nothing beside what a build always needs
    ensure_packages
    install_optional
    build
    name_the_missing
    describe_machine >"$out/machine.txt"
    run_all
    for file in skipped declined; do
        [ ! -f "$out/$file.txt" ] || sort -u -o "$out/$file.txt" "$out/$file.txt"
    done
fi
[ -f "$out/raw.csv" ] || misuse "there are no results in $out"
python3 -B "$root/perf/suite/report.py" "$out"
[ ! -f "$out/skipped.txt" ] || sed 's/^/skipped: /' "$out/skipped.txt" >&2
echo "results: $out/results.md, results.csv and *.svg" >&2
[ ! -f "$out/failed.txt" ]
