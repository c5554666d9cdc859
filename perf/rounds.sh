# shellcheck shell=sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# To be sourced by what measures contenders side by side, with the root of the checkout in $root, its own name in
# $script, its plan in $plan, the subject of the report in $subject, the folder for results in $out, and the mode
# of a run without options in $mode. A line of the plan is: modes, in how many of the rounds at most (-: in all),
# workload, who with commas between, options.
#
#     read_options MODES ARGUMENT...   to $mode, $rounds, $out and $directory; MODES is as --quick=q
#     wish NEED...                     installs what can be had, and names what cannot in skipped.txt
#     name_the_missing NAME...         those of which is_there NAME is false
#     compare                          runs the plan, to raw.csv, and reports; its status is that of the script
#
# The script defines prepare (to install and build), is_there NAME, names_of WHO (a list's), execute NAME
# WORKLOAD OPTION..., and describe_others (versions).

misuse()
{
    echo "${script:?}: $1; see --help" >&2
    exit 2
}

mode=${mode:?} rounds='' only='' measure=yes directory=${directory-} out=${out:?}
read_options()
{
    modes=" $1 "
    shift
    while [ $# -gt 0 ]; do
        case $1,$directory in
        --rounds,* | --only,* | --out,* | --directory,?*)
            [ $# -gt 1 ] || misuse "$1 needs a value"
            case $1 in
            --rounds) rounds=$2 ;;
            --only) only=$2 ;;
            --out) out=$2 ;;
            --directory) directory=$2 ;;
            esac
            shift
            ;;
        --report,*) measure=no ;;
        *)
            case $modes in
            *" $1="*) mode=${modes#*" $1="} mode=${mode%% *} ;;
            *) misuse "unknown option $1" ;;
            esac
            ;;
        esac
        shift
    done
    case $rounds in
    *[!0-9]* | 0) misuse "--rounds $rounds is not a number from 1" ;;
    esac
    [ -z "$only" ] || grep -q "^[a-z]*  *[^ ]*  *$only\( \|\$\)" "${plan:?}" ||
        misuse "--only $only is not a workload"
}

wish()
{
    wish_for_packages "$@" 2>&1 | tee -a "$out/install.log" >&2
    sed -n 's/^not installed: //p' "$out/install.log" >>"$out/skipped.txt"
    rm -f "$out/install.log"
}

name_the_missing()
{
    for name in "$@"; do
        is_there "$name" || echo "$name: there is no program of it"
    done >>"$out/skipped.txt"
}

# Those of a line that exist, beginning with another one each round.
contenders_of()
{
    for name in $(names_of "$1"); do
        ! is_there "$name" || echo "$name"
    done | awk -v first="$2" '{ name[NR - 1] = $0 }
                              END { for (i = 0; i < NR; i++) print name[(i + first) % NR] }'
}

# The lines of the plan for this mode and round.
plan_of()
{
    awk -v mode="$mode" -v only="$only" -v round="$1" '
        /^#/ || NF == 0 || index($1, mode) == 0 { next }
        $2 != "-" && round > $2 { next }
        only == "" || $3 == only || $3 == "clock" { $1 = $2 = ""; print }' "$plan"
}

# run_one ROUND CONTENDER WORKLOAD OPTIONS...
run_one()
{
    round=$1
    shift
    status=0
    execute "$@" >"$out/run.out" 2>"$out/run.err" </dev/null || status=$?
    name=$1 workload=$2
    shift 2
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
    total=$(for round in $(seq "$rounds"); do
        plan_of "$round" | while read -r _ who _; do contenders_of "$who" 0; done
    done | wc -l)
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
    echo "hwt: $(sed -n "s/^ *version: '\(.*\)',/\1/p" "${root:?}/meson.build" | head -n 1)," \
        "$(git -C "$root" describe --always --dirty 2>/dev/null || echo 'no git')"
    describe_others
}

compare()
{
    mkdir -p "$root/build" "$out"
    if [ "$measure" = yes ]; then
        rm -f "$out/skipped.txt" "$out/declined.txt" "$out/failed.txt" "$out/timeline.csv"
        prepare
        describe_machine >"$out/machine.txt"
        run_all
    fi
    for file in skipped declined; do
        [ ! -f "$out/$file.txt" ] || sort -u -o "$out/$file.txt" "$out/$file.txt"
    done
    [ -f "$out/raw.csv" ] || misuse "there are no results in $out"
    python3 -B "$root/perf/suite/report.py" "${subject:?}" "$out"
    [ ! -s "$out/skipped.txt" ] || sed 's/^/skipped: /' "$out/skipped.txt" >&2
    echo "results: $out/results.md, results.csv and *.svg" >&2
    [ ! -f "$out/failed.txt" ]
}
