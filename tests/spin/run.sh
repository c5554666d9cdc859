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
gate -DPRODUCERS=1 -DADDS=2 -DCOMPACTION
gate -DPRODUCERS=1 -DADDS=2 -DCOMPACTION -DFENCES
gate -DPRODUCERS=1 -DOVERLOOK
gate -DPRODUCERS=1 -DSTOP
gate -DPRODUCERS=1 -DSTOP -DFENCES
gate -DPRODUCERS=1 -DASK
wake -DADDS=1
wake -DWAKERS=2
wake -DWAKERS=2 -DDESCRIPTOR
word -DREARMS=1
word -DTELLS -DREARMS=1
word -DSYNC
word -DEXECUTOR
word -DEXECUTOR -DTELLS
word -DSTOP
places -DLIVES=3 -DDEPTH=2
places -DLIVES=3 -DDEPTH=1 -DTRIMS=1
places -DLIVES=12 -DDEPTH=1 -DWRAP=8 -DRENEWAL=2
stream -DRECORDS=6
pool
pieces
sync
sync -DEXECUTOR
watermark -DLOADS
watermark -DCANCEL
watermark -DANEW
fence
'

longer='
gate
gate -DFENCES
gate -DPRODUCERS=1 -DADDS=2 -DSTOP
gate -DPRODUCERS=1 -DADDS=2 -DSTOP -DFENCES
gate -DPRODUCERS=1 -DASK -DFENCES
word -DSTOP -DTELLS
word -DSTOP -DREARMS=1
word -DOPS=2
places -DLIVES=3
places -DLIVES=4 -DDEPTH=2
places -DLIVES=3 -DDEPTH=2 -DTRIMS=1
stream -DRECORDS=8
'

# A mistake, and the model and the bounds that must find it.
mistakes='
NO_BARRIER gate -DPRODUCERS=1 -DADDS=2
BARRIER_FIRST gate -DPRODUCERS=1 -DADDS=2
NO_FENCE gate -DPRODUCERS=1 -DADDS=2 -DFENCES
NOT_AGAIN gate -DPRODUCERS=1
ASLEEP_LATE gate -DPRODUCERS=1 -DADDS=2
NO_OWN_BARRIER gate -DPRODUCERS=1 -DFENCES
DISMISSED_FORGOTTEN gate -DPRODUCERS=1 -DADDS=2
LIST_FIRST gate -DPRODUCERS=1 -DADDS=2
LISTED_LATE gate -DPRODUCERS=1 -DADDS=2
ASK_FIRST gate -DPRODUCERS=1
STALL_IGNORED gate
AGAIN_FORGOTTEN gate -DPRODUCERS=1 -DADDS=2 -DCOMPACTION
OVERLOOK_SILENT gate -DPRODUCERS=1 -DCOMPACTION
NO_LOOK gate -DPRODUCERS=1 -DSTOP
WITHDRAW_BLINDLY gate -DPRODUCERS=1 -DSTOP
CALLED_FIRST gate -DPRODUCERS=1
MARKED_FIRST wake -DWAKERS=2
CALLED_BELIEVED wake -DWAKERS=2
MARKED_BLINDLY wake -DWAKERS=2
ONE_NUMBER wake -DWAKERS=2
SET_LATE wake -DWAKERS=2 -DDESCRIPTOR
STOP_RELAXED gate -DPRODUCERS=1 -DSTOP
STOP_LATE gate -DPRODUCERS=1 -DSTOP
STOP_NO_BARRIER gate -DPRODUCERS=1 -DADDS=2 -DSTOP
STOP_UNSEEN gate -DPRODUCERS=1 -DSTOP
STOP_EARLY_LOOK gate -DPRODUCERS=1 -DSTOP
REQUEST_RELAXED gate -DPRODUCERS=1 -DASK
REQUEST_LATE gate -DPRODUCERS=1 -DASK
REQUEST_UNSEEN gate -DPRODUCERS=1 -DASK
ANY_GENERATION word
FIRE_SPLIT word
FINISH_SPLIT word -DREARMS=1
MOVE_SPLIT word
MOVE_SILENT word
BARRED_IGNORED word -DREARMS=1
NOT_BARRED word -DREARMS=1
REARM_SILENT word -DREARMS=1
PLACE_KEPT word -DREARMS=1
RAN_UNWANTED word -DREARMS=1
HANDED_SPLIT word -DEXECUTOR
HANDED_FREED word -DEXECUTOR -DTELLS
NOT_WAITED word -DSYNC
VISIT_UNWAITED word -DSTOP -DSYNC
RAN_FORGOTTEN word -DSTOP -DREARMS=1
WITHDRAW_ANY word -DSTOP -DREARMS=1
NO_LOOK word -DSTOP
UNTOLD_FORGOTTEN word -DSTOP -DTELLS
WORKER_FORGOTTEN word -DSTOP -DREARMS=1
EXECUTOR_FORGOTTEN word -DSTOP -DEXECUTOR -DREARMS=1
ANY_ORDER places -DLIVES=3 -DDEPTH=2
LATER_WINS places -DLIVES=3 -DDEPTH=2
EARLIER_LEFT_OUT places -DLIVES=3 -DDEPTH=2
HINT_BELIEVED places -DLIVES=3 -DDEPTH=2
WHERE_IGNORED places -DLIVES=3 -DDEPTH=2
WANTS_NOT_ASKED places -DLIVES=3 -DDEPTH=2
ANY_WANTED places -DLIVES=3 -DDEPTH=2
SWEPT_WANTED places -DLIVES=3 -DDEPTH=2
TAKEN_BELIEVED places -DLIVES=3 -DDEPTH=2
NOT_FILED_AGAIN places -DLIVES=3 -DDEPTH=2
TRIM_UNSWEPT places -DLIVES=2 -DDEPTH=1 -DTRIMS=1
FLOOR_FAR places -DLIVES=2 -DDEPTH=1 -DTRIMS=1
NOT_NOTED places -DLIVES=12 -DDEPTH=1 -DWRAP=8 -DRENEWAL=2
NO_RENEWAL places -DLIVES=12 -DDEPTH=1 -DWRAP=8 -DRENEWAL=2
USED_FIRST stream
NEXT_KEPT stream -DRECORDS=9
USED_KEPT stream
ANY_DROPPED stream
NOT_CUT stream
OLD_USED stream
NOT_CLAIMED stream
WORKER_UNCLAIMED stream
RELEASE_EARLY stream
DROPPED_SILENTLY stream
READ_FORGOTTEN stream
NO_TAG pool
NEXT_BELIEVED pool
PUT_BACK_EARLY pieces
PUT_BACK_ALWAYS pieces
EMPTY_EARLY pieces
CUT_KEPT pieces
NOT_ASKED sync
EARLY_BROADCAST sync
WAKE_FIRST sync
LOOK_FIRST sync
SIGNAL sync
NOT_MARKED sync -DEXECUTOR
LOOK_EARLY sync -DEXECUTOR
TOUCHED sync -DEXECUTOR
TAKE_FEWER watermark -DLOADS
PLACE_LATE watermark
NOT_READ watermark -DCANCEL
ANY_INCARNATION watermark -DANEW
POSITION_IDENTITY watermark -DANEW
READ_BEFORE_FENCE fence
HIDDEN_BELIEVED fence
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
    # To look how long a channel is does not go with the reduction.
    ! grep -q '^chan ' "$model" || flags="$flags -DNOREDUCE"
    shift 2
    cd "$dir"
    rm -f pan*
    # shellcheck disable=SC2086 # flags are words
    spin -a "$@" "$model" && gcc $flags -o pan pan.c && ./pan -m100000 -w22
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

# Without -O, as most of the time the compiler works.
find_mistake()
{
    mistake=$1
    shift
    search -O0 "$@" "-DMISTAKE_$mistake" || true
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
