#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Checks the models of this folder with Spin, each exhaustively within its bounds; and each once
# more with every mistake that it knows, which must be found. One line for each. See README.md.
#
#     sh tests/spin/run.sh [--long]
#
#     --long    larger bounds too: ten minutes and 4 GB
#
# Takes two minutes and 2 GB at most without it. Installs what it needs, works from any folder, and writes
# to build/spin only. The exit status is 0; 1 if a model has an error or was not searched to its
# end, or if a mistake was not found; 2 for misuse, or if something has to be installed by hand.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
# shellcheck source-path=SCRIPTDIR/../.. source=tests/tools/packages.sh
. "$root/tests/tools/packages.sh"

long='' memory=2000
case ${1-} in
'') ;;
--long) long=yes memory=4000 ;;
--help) sed -n '4,13s/^# \{0,1\}//p' "$0" && exit 0 ;;
*)
    echo "tests/spin/run.sh: unknown option $1; see --help" >&2
    exit 2
    ;;
esac

# A model and its bounds.
models='
timeout -DOPS=2
timeout -DOPS=1 -DREARMS=1 -DFAILURES=1
timeout -DOPS=1 -DREARMS=1 -DEXECUTOR
stop -DREARMS=1
stop -DEXECUTOR
gate -DENTRIES=2 -DTIME_MAX=1
gate -DENTRIES=1 -DTIME_MAX=0
salvage
salvage -DWORKER_ADDS=1
pool
sync
sync -DEXECUTOR
'

longer='
timeout -DOPS=2 -DREARMS=1
timeout -DOPS=1 -DTIME_MAX=3 -DREARMS=1 -DFAILURES=1
timeout -DOPS=1 -DCLIENTS=3
timeout -DOPS=2 -DEXECUTOR
stop -DREARMS=1 -DFAILURES=1
stop -DREARMS=1 -DEXECUTOR
gate -DENTRIES=1 -DTIME_MAX=1
'

# A mistake, and the model and the bounds that must find it.
mistakes='
SAME_GENERATION timeout -DOPS=1
NOT_BARRED timeout -DOPS=1 -DREARMS=1
BARRED_AGAIN timeout -DOPS=1 -DREARMS=1
NOT_MOVED timeout -DOPS=1
LATE_NOTE timeout -DOPS=1
LATE_DEADLINE timeout -DOPS=1 -DREARMS=1
BEGIN_MOVING timeout -DOPS=1
TWO_MOVERS timeout -DOPS=1
ANY_MOVED timeout -DOPS=1
NOT_REQUEUED timeout -DOPS=1
ARM_BLINDLY timeout -DOPS=1
NOT_PUSHED timeout -DOPS=1 -DREARMS=1
PUSH_QUEUED timeout -DOPS=1
PUSH_SUBMITTED timeout -DOPS=1 -DEXECUTOR
DISCARD_MOVING timeout -DOPS=1
LATE_TRANSIT timeout -DOPS=1 -DEXECUTOR
SALVAGE_MOVING timeout -DOPS=2
SALVAGE_FILED timeout -DOPS=2
NO_LOOK stop
EARLY_LOOK stop
WITHDRAW_BLINDLY stop
RUN_FORGOTTEN stop -DREARMS=1
ABANDON_BLINDLY stop
TRANSIT_IGNORED stop
ELSEWHERE_FORGOTTEN stop
EXECUTOR_FORGOTTEN stop -DEXECUTOR
EARLY_ANNOUNCE gate -DENTRIES=2 -DTIME_MAX=0
CANCEL_SILENT gate -DENTRIES=2 -DTIME_MAX=0
CANCEL_UNSEEN gate -DENTRIES=1 -DTIME_MAX=0
MOVE_SILENT gate -DENTRIES=1 -DTIME_MAX=0
TIDY_FIRST gate -DENTRIES=2 -DTIME_MAX=0
SLEEP_BLINDLY gate -DENTRIES=2 -DTIME_MAX=0
FIRE_FIRST gate -DENTRIES=2 -DTIME_MAX=0
STALL_IGNORED gate -DENTRIES=2 -DTIME_MAX=0
PROMISE_FORGOTTEN gate -DENTRIES=2 -DTIME_MAX=0
LATE_STOP gate -DENTRIES=2 -DTIME_MAX=0
TWO_CONSUMERS salvage
EARLY_END salvage
BACK_TO_PENDING salvage
SALVAGE_ANY salvage
PASSED_LAST salvage
GAP_IGNORED salvage
EMPTY_UNGUARDED salvage -DWORKER_ADDS=1
NO_TAG pool
NEXT_BELIEVED pool
NOT_ASKED sync
EARLY_BROADCAST sync
UNLOCKED sync
LOOK_UNLOCKED sync
SIGNAL sync
'

here=$root/tests/spin
dir=$root/build/spin
failed=0

fail()
{
    echo "FAILED: $1"
    sed 's/^/    /' "$dir/log"
    failed=$((failed + 1))
}

# search <flags of the compiler> <model> [-D...]: what came of it is in $dir/log.
search()
(
    flags="$1 -w -DSAFETY -DNOCLAIM -DMEMLIM=$memory"
    model=$here/$2.pml
    shift 2
    cd "$dir"
    rm -f pan*
    # shellcheck disable=SC2086 # flags are words
    spin -a "$@" "$model" && gcc $flags -o pan pan.c && ./pan -m10000 -w22
) >"$dir/log" 2>&1

log_has()
{
    grep -Eq "$1" "$dir/log"
}

verify()
{
    search -O2 "$@" || true
    if log_has 'errors: 0$' && ! log_has 'not completed|max search depth|MEMLIM'; then
        echo "$*: no error in $(sed -n 's/^ *\([0-9]*\) states, stored$/\1/p' "$dir/log") states"
    else
        fail "$*: has an error, or could not be searched to its end"
    fi
}

# It is found sooner in this order; without -O, as most of the time the compiler works.
find_mistake()
{
    mistake=$1
    shift
    search '-O0 -DREVERSE -DT_REVERSE' "$@" "-DMISTAKE_$mistake" || true
    if log_has '^pan:1: (assertion violated [^-]|invalid end state)'; then
        echo "$*, $mistake: found"
    else
        fail "$*, $mistake: was not found"
    fi
}

# A mistake that is in a model, but not in the list, or the other way round.
compare_mistakes()
{
    cat "$here"/*.pml | grep -o 'MISTAKE_[A-Z_]*' | sed 's/MISTAKE_//' | sort -u >"$dir/known"
    echo "$mistakes" | sed -n 's/ .*//p' | sort -u >"$dir/tried"
    if ! diff "$dir/known" "$dir/tried" >"$dir/log"; then
        fail 'the mistakes in the models (<) are not those in run.sh (>)'
    fi
}

mkdir -p "$dir"
install_missing gcc spin
compare_mistakes
[ -z "$long" ] || models="$models$longer"
echo "$models" | sed '/^$/d' >"$dir/models"
while read -r line; do
    # shellcheck disable=SC2086 # words
    verify $line
done <"$dir/models"
echo "$mistakes" | sed '/^$/d' >"$dir/mistakes"
while read -r line; do
    # shellcheck disable=SC2086 # words
    find_mistake $line
done <"$dir/mistakes"
rm -f "$dir"/pan*

echo "$failed failed"
[ "$failed" -eq 0 ]
