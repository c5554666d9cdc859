#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Checks with GenMC that what threads publish to each other holds under weak memory: each harness of
# this folder under RC11 (C11, repaired) and IMM (what processors may do with it); and, under RC11,
# with every weakening of the sources that it knows, which must be found. One line for each.
#
#     sh tests/genmc/run.sh
#
# Takes five minutes. GenMC is the one of $GENMC, or on the PATH; where there is none, that is said and
# nothing is done. Works from any folder, and writes to build/genmc only. The exit status is 0; 1 if
# a harness has an error, or if a weakening was not found; 2 for misuse.

set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
here=$root/tests/genmc
dir=$root/build/genmc
genmc=${GENMC:-genmc}
failed=0

case ${1-} in
'') ;;
--help) sed -n '4,14s/^# \{0,1\}//p' "$0" && exit 0 ;;
*)
    echo "tests/genmc/run.sh: unknown option $1; see --help" >&2
    exit 2
    ;;
esac
if ! command -v "$genmc" >/dev/null; then
    echo "tests/genmc/run.sh: skipped, for there is no genmc on the PATH, nor in \$GENMC"
    exit 0
fi

# A harness and its bounds.
harnesses='
record
record -DRECORDS=5
record -DRECORDS=5 -DLOOKS=1 -DCOMPACTS
gate -DFENCES
gate -DFENCES -DLISTED
gate -DAT=0
gate -DAT=1
gate -DAT=2
gate -DAT=0 -DLISTED
gate -DAT=1 -DLISTED
gate -DAT=2 -DLISTED
gate -DFENCES -DUNLISTED
gate -DAT=0 -DUNLISTED
gate -DAT=1 -DUNLISTED
gate -DAT=2 -DUNLISTED
gate -DFENCES -DSTOPS
gate -DFENCES -DASKS
gate -DSTOPS -DSHORT
gate -DASKS -DSHORT
gate -DFENCES -DLATE
gate -DFENCES -DHELD
gate -DFENCES -DSTOPS -DHELD
gate -DSTOPS -DSHORT -DHELD
backlog
backlog -DSHORT
stop -DFENCES
stop -DAT=0
stop -DAT=1
stop -DAT=2
reuse
reuse -DAT_ONCE
pool
pool -DALL
exchange
wants
wants -DMOVES
'

# A harness and its bounds, a source, and what to do to it: an expression of sed. `nothing`: the
# bounds are the mistake.
weakenings='
record | stream.h | /tail->used, stream->at/s/release/relaxed/
record | stream.c | /head->used, memory_order_acquire) - /s/acquire/relaxed/
record | stream.c | /stream->tail), chunk,/s/release/relaxed/
record | stream.c | /next_of(stream, read), memory/s/acquire/relaxed/
record -DRECORDS=5 -DLOOKS=1 -DCOMPACTS | stream.h | /&stream->claimed, true/s/acquire/relaxed/
record -DRECORDS=5 -DLOOKS=1 -DCOMPACTS | stream.h | /&stream->claimed, false/s/release/relaxed/
gate | nothing |
gate -DLISTED | nothing |
gate -DFENCES | lane.h | s/hwt_full_barrier()/(void)0/
gate -DFENCES -DLISTED | lane.h | s/hwt_full_barrier()/(void)0/
gate -DFENCES | gate.c | s/hwt_full_barrier()/(void)0/
gate -DFENCES -DUNLISTED | lane.c | s/hwt_full_barrier()/(void)0/
gate -DFENCES -DHELD | gate.c | s/state_of(parking) == HWT_GATE_AWAKE)/state_of(parking) != HWT_GATE_ASLEEP)/
gate -DFENCES -DLATE | gate.c | /HWT_GATE_AWAKE),$/{n;s/release/relaxed/}
gate -DFENCES -DSTOPS | gate.c | s/hwt_full_barrier()/(void)0/
gate -DFENCES -DASKS | gate.c | s/hwt_full_barrier()/(void)0/
gate -DSTOPS -DSHORT | gate.c | s/hwt_full_barrier()/(void)0/
gate -DFENCES -DSTOPS | gate.c | /uint32_t parking = atomic_load/s/seq_cst/relaxed/
gate -DSTOPS -DSHORT | gate.c | /uint32_t parking = atomic_load/s/seq_cst/relaxed/
gate -DSTOPS -DSHORT -DFLAG=release | nothing |
gate -DASKS -DSHORT -DFLAG=release | nothing |
backlog | barrier.h | s/cmm_mb()/(void)0/
backlog -DSHORT | gate.c | s/hwt_full_barrier()/(void)0/
backlog -DSHORT | barrier.h | s/cmm_mb()/(void)0/
stop | nothing |
stop -DFENCES | lane.h | s/hwt_full_barrier()/(void)0/
stop -DFENCES | gate.c | s/hwt_full_barrier()/(void)0/
stop -DFENCES | entry.h | /word.first, state, memory_order_release/s/release/relaxed/
reuse -DAT_ONCE | entry.h | /word.second, deadline/s/release/relaxed/
reuse | entry.h | /hwt_entry_deadline/,/}/s/acquire/relaxed/
reuse | stack.c | /(link, top, memory/s/release/relaxed/
reuse | slab.h | /first->task, (const/s/release/relaxed/
reuse | slab.h | /entry->arg, next/s/release/relaxed/
pool | stack.c | /stack->second, memory_order_acquire/s/acquire/relaxed/
pool -DALL | stack.c | s/second + TAG - n/second - n/
pool | stack.c | s/second + n)/second + 1)/
pool | word.c | s/atomic_flag_clear_explicit(lock, memory_order_release)/atomic_flag_clear_explicit(lock, memory_order_relaxed)/
exchange | word.c | /test_and_set/s/acquire/relaxed/
exchange | word.c | s/atomic_flag_clear_explicit(lock, memory_order_release)/atomic_flag_clear_explicit(lock, memory_order_relaxed)/
exchange | word.c | s/second, memory_order_seq_cst) == second/second, memory_order_seq_cst) | 1/
wants | stream.h | /tail->used, stream->at/s/release/relaxed/
wants | stream.c | /head->used, memory_order_acquire) - /s/acquire/relaxed/
wants -DMOVES | stream.h | /tail->used, stream->at/s/release/relaxed/
'

# The sources, but for what GenMC cannot read: a struct copied as a whole, and a fence for the compiler
# alone (it takes it for a real one).
copy_sources()
{
    rm -rf "$dir/hwt"
    cp -r "$root/hwt" "$dir/hwt"
    fields='to_->deadline = from_->deadline; to_->id = from_->id; to_->generation = from_->generation;'
    sed -i -e "s/ \*hwt_chunk_record(stream->tail, stream->at) = record;/ { const struct hwt_record *from_ = \&record; struct hwt_record *to_ = hwt_chunk_record(stream->tail, stream->at); $fields }/" \
        -e '/atomic_signal_fence(/d' "$dir/hwt/inbox/stream.h"
    sed -i "s/ \*hwt_chunk_record(to->chunk, to->at) = \*record;/ { const struct hwt_record *from_ = record; struct hwt_record *to_ = hwt_chunk_record(to->chunk, to->at); $fields }/" \
        "$dir/hwt/inbox/stream.c"
}

# check <model> <harness> [-D...]: what came of it is in $dir/log. 42 is GenMC's for an error found.
check()
{
    model=$1 harness=$2
    shift 2
    status=0
    (cd "$here" && "$genmc" "--$model" --unroll=8 -- -O1 -include shim/cancel.h "-I$dir" -Ishim "$@" "$harness.c") \
        >"$dir/log" 2>&1 || status=$?
}

fail()
{
    echo "FAILED: $1"
    tail -n 20 "$dir/log" | sed 's/^/    /'
    failed=$((failed + 1))
}

verify()
{
    for model in rc11 imm; do
        check "$model" "$@"
        executions=$(sed -n 's/^Number of complete executions explored: //p' "$dir/log")
        if [ "$status" -eq 0 ] && [ "${executions:-0}" -gt 0 ]; then
            echo "$*, $model: no error in $executions executions"
        else
            fail "$*, $model: has an error, or could not be read"
        fi
    done
}

# find_weakening <source> <expression> <harness> [-D...]
find_weakening()
{
    source=$1 expression=$2
    shift 2
    copy_sources
    if [ "$source" != nothing ]; then
        source=$(echo "$dir"/hwt/*/"$source")
        sed "$expression" "$source" >"$dir/weaker"
        if cmp -s "$dir/weaker" "$source"; then
            : >"$dir/log"
            fail "$*, $expression: changes nothing"
            return
        fi
        cp "$dir/weaker" "$source"
    fi
    check rc11 "$@"
    if [ "$status" -eq 42 ]; then
        echo "$*, ${source##*/} $expression: found"
    else
        fail "$*, ${source##*/} $expression: was not found"
    fi
}

mkdir -p "$dir"
"$genmc" --version | sed -n 's/^ *\(GenMC v.*\)/\1/p'
copy_sources
echo "$harnesses" | sed '/^$/d' >"$dir/harnesses"
while read -r line; do
    # shellcheck disable=SC2086 # words
    verify $line
done <"$dir/harnesses"
echo "$weakenings" | sed '/^$/d' >"$dir/weakenings"
while IFS="|" read -r line source expression; do
    source=${source% }
    # shellcheck disable=SC2086 # words
    find_weakening "${source# }" "${expression# }" $line
done <"$dir/weakenings"

echo "$failed failed"
[ "$failed" -eq 0 ]
