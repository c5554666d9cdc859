/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_LANE_H
#define HWT_LANE_H

/*
 * Lanes: what producers write, several times over, so that two of them rarely share a
 * cache line. A thread keeps to one lane for its life (order of adding is order within a
 * lane); threads take lanes in turn. A lane has
 *
 *   pending    queue of what was added, moved earlier or re-armed; the worker files it
 *   cancelled  queue of what was cancelled in a bucket; the worker discards it
 *   free       the lane's free list, see pool.h
 *   counters   of what the lane's threads did
 *
 * What was cancelled while it was pending need not wait for the worker: an adder that finds no
 * free entry salvages some from the head of its lane's pending queue, so that producers which
 * outrun the worker reuse their own entries instead of growing the pool. What else it meets
 * there it moves to the worker's snapshot, in order. The pending queue then has two consumers
 * that exclude each other by `consuming`; neither waits: who finds it taken does without.
 *
 * The worker splices each queue into one of its own (drained, reaped) and works on that
 * snapshot. A producer stopped half-way through a push, or in salvaging, stalls its lane alone.
 */

#include "hwt/timeout.h"

#define HWT_CACHE_LINE 64

struct hwt_lane {
    /* adders */
    _Alignas(HWT_CACHE_LINE) hwt_mpsc_tail pending_tail;
    _Atomic uint64_t free; /* tag << 32 | id of the top entry */
    _Atomic uint64_t added;
    _Atomic uint64_t rejected;
    /* cancellers; mostly the same threads */
    hwt_mpsc_tail cancelled_tail;
    _Atomic uint64_t cancelled;
    _Atomic uint64_t rescheduled;
    /* worker */
    _Alignas(HWT_CACHE_LINE) hwt_mpsc_head pending_head;
    _Atomic bool consuming; /* pending_head's: the worker's, or a salvaging adder's */
    hwt_mpsc_head cancelled_head;
    hwt_mpsc_head drained_head;
    hwt_mpsc_tail drained_tail;
    hwt_mpsc_head reaped_head;
    hwt_mpsc_tail reaped_tail;
};

/* A power of two of lanes, fit for this machine. */
uint32_t hwt_lane_count(void);

void hwt_lane_init(struct hwt_lane *lane);

/* The calling thread's lane. Wait-free. */
struct hwt_lane *hwt_lane_own(hwt_timer *timer);

/* Wait-free, full barriers. */
void hwt_lane_push_pending(struct hwt_lane *lane, struct hwt_entry *entry);
void hwt_lane_push_cancelled(struct hwt_lane *lane, struct hwt_entry *entry);

/* A cancelled entry that was still pending; more of them go to the lane's free list. NULL: none
 * near the head, or somebody else consumes. */
struct hwt_entry *hwt_lane_salvage(struct hwt_lane *lane);

/* Worker: takes a snapshot of the queue; false: stalled, there was none to take. Then the
 * oldest of it, NULL: none, or stalled. */
bool hwt_lane_splice_pending(struct hwt_lane *lane);
bool hwt_lane_splice_cancelled(struct hwt_lane *lane);
struct hwt_entry *hwt_lane_pop_drained(struct hwt_lane *lane, bool *ret_stalled);
struct hwt_entry *hwt_lane_pop_reaped(struct hwt_lane *lane, bool *ret_stalled);

#endif
