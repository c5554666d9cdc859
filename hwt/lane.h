/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_LANE_H
#define HWT_LANE_H

/*
 * Lanes: what producers write, several times over, so that two of them rarely share a
 * cache line. A thread keeps to one lane for its life: order of adding is order within a
 * lane. It has a number, the least that is free, from its first call until it ends, and by it a
 * lane of its own in every timer: what is only its own to write takes no locked operation. The
 * threads beyond share a few lanes (`shared`), where the same things are done by locked ones.
 * A lane has
 *
 *   pending    queue of what was added, moved earlier or re-armed; the worker files it
 *   cancelled  queue of what was cancelled in a bucket; the worker discards it
 *   free       the lane's free list, see pool.h
 *   ready      entries for the owner to use next, taken from the free list by the dozen
 *   counters   of what the lane's threads did
 *
 * What was cancelled while it was pending need not wait for the worker: an adder whose ready
 * entries are used up first salvages some from the head of its own pending queue. They are still
 * in its cache, and producers that outrun the worker reuse their own entries instead of growing
 * the pool. What else it meets there it passes over, in order, to a queue that the worker's next
 * snapshot begins with. The pending queue then has two consumers that exclude each other by
 * `consuming`; neither waits: who finds it taken does without.
 *
 * The worker splices each queue into one of its own (drained, reaped) and works on that
 * snapshot. A producer stopped half-way through a push, or in salvaging, stalls its lane alone.
 */

#include "hwt/stats.h"
#include "hwt/timeout.h"

#define HWT_CACHE_LINE 64
#define HWT_LANES_SHARED 8
#define HWT_READY_MAX 32

struct hwt_lane {
    /* the owner; if shared, its threads, by locked operations, and `ready` is not used */
    _Alignas(HWT_CACHE_LINE) bool shared;
    uint32_t ready_count;
    _Atomic uint64_t added;
    _Atomic uint64_t cancelled;
    _Atomic uint64_t rescheduled;
    _Atomic uint64_t rejected;
    _Atomic uint64_t given; /* entries that the worker gets to see: not what was salvaged */
    struct hwt_entry *ready[HWT_READY_MAX];
    /* the owner and the worker */
    _Alignas(HWT_CACHE_LINE) hwt_mpsc_tail pending_tail;
    hwt_mpsc_tail cancelled_tail;
    _Atomic uint64_t free; /* tag << 32 | id of the top entry */
    /* the worker */
    _Alignas(HWT_CACHE_LINE) hwt_mpsc_head pending_head;
    _Atomic bool consuming; /* pending_head's: the worker's, or a salvaging adder's */
    hwt_mpsc_head cancelled_head;
    hwt_mpsc_head passed_head; /* with `consuming`: met in salvaging, older than what is pending */
    hwt_mpsc_tail passed_tail;
    hwt_mpsc_head drained_head;
    hwt_mpsc_tail drained_tail;
    hwt_mpsc_head reaped_head;
    hwt_mpsc_tail reaped_tail;
};

/* How many lanes with an owner are fit for this machine. */
uint32_t hwt_lanes_owned(void);

void hwt_lane_init(struct hwt_lane *lane, bool shared);

/* The calling thread's number, from 1; 0: it has none yet. Initial-exec: one instruction to
 * reach it, also in a shared library. */
extern _Thread_local uint32_t hwt_thread_number __attribute__((tls_model("initial-exec")));

/* Gives the calling thread its number. Lock-free. */
uint32_t hwt_lane_number_thread(void);

/* Wait-free, full barriers. */
static inline void hwt_lane_push_pending(struct hwt_lane *lane, struct hwt_entry *entry)
{
    hwt_mpsc_push(&lane->pending_head, &lane->pending_tail, &entry->link);
}

static inline void hwt_lane_push_cancelled(struct hwt_lane *lane, struct hwt_entry *entry)
{
    hwt_mpsc_push(&lane->cancelled_head, &lane->cancelled_tail, &entry->link);
}

/* Whether nothing is queued that the owner added: the worker asks, who is the owner. False also
 * where somebody else consumes: he may have it in his hands. */
bool hwt_lane_is_empty(struct hwt_lane *lane);

/* Up to `max` cancelled entries that were still pending, and how many; gives up when it has met
 * `patience` others. 0: none near the head, or somebody else consumes. */
size_t hwt_lane_salvage(struct hwt_lane *lane, struct hwt_entry **batch, size_t max,
                        size_t patience);

/* Worker: takes a snapshot of the queue; false: stalled, there was none to take. Then the
 * oldest of it, NULL: none, or stalled. */
bool hwt_lane_splice_pending(struct hwt_lane *lane);
bool hwt_lane_splice_cancelled(struct hwt_lane *lane);
struct hwt_entry *hwt_lane_pop_drained(struct hwt_lane *lane, bool *ret_stalled);
struct hwt_entry *hwt_lane_pop_reaped(struct hwt_lane *lane, bool *ret_stalled);

#endif
