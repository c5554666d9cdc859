/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Pending and cancelled queues. See lane.h. */

#include "hwt/lane.h"

#include <unistd.h>

#include "hwt/timer.h"

#define LANES_MIN 16
#define LANES_MAX 64
#define SALVAGE_MAX 64 /* entries looked at */

uint32_t hwt_lane_count(void)
{
    long processors = sysconf(_SC_NPROCESSORS_CONF);
    uint32_t count = LANES_MIN;
    while (count < LANES_MAX && count < 2 * processors)
        count *= 2;
    return count;
}

void hwt_lane_init(struct hwt_lane *lane)
{
    hwt_mpsc_init(&lane->pending_head, &lane->pending_tail);
    hwt_mpsc_init(&lane->cancelled_head, &lane->cancelled_tail);
    hwt_mpsc_init(&lane->drained_head, &lane->drained_tail);
    hwt_mpsc_init(&lane->reaped_head, &lane->reaped_tail);
    atomic_init(&lane->free, HWT_ID_NONE);
}

/* 0: not numbered yet. Initial-exec: one instruction to reach it, also in a shared library. */
static _Thread_local uint32_t thread_number __attribute__((tls_model("initial-exec")));
static _Atomic uint32_t threads_numbered;

struct hwt_lane *hwt_lane_own(hwt_timer *timer)
{
    if (thread_number == 0)
        thread_number = atomic_fetch_add_explicit(&threads_numbered, 1, memory_order_relaxed) + 1;
    return &timer->lanes[thread_number & timer->lane_mask];
}

void hwt_lane_push_pending(struct hwt_lane *lane, struct hwt_entry *entry)
{
    hwt_mpsc_push(&lane->pending_head, &lane->pending_tail, &entry->link);
}

void hwt_lane_push_cancelled(struct hwt_lane *lane, struct hwt_entry *entry)
{
    hwt_mpsc_push(&lane->cancelled_head, &lane->cancelled_tail, &entry->link);
}

static struct hwt_entry *pop(hwt_mpsc_head *head, hwt_mpsc_tail *tail, bool *ret_stalled)
{
    hwt_mpsc_node *node = hwt_mpsc_pop(head, tail);
    *ret_stalled = node == HWT_MPSC_STALLED;
    return node && !*ret_stalled ? caa_container_of(node, struct hwt_entry, link) : NULL;
}

/* Acquire and release: pending_head passes from one consumer to the next. */
static bool begin_consuming(struct hwt_lane *lane)
{
    return !atomic_exchange_explicit(&lane->consuming, true, memory_order_acquire);
}

static void end_consuming(struct hwt_lane *lane)
{
    atomic_store_explicit(&lane->consuming, false, memory_order_release);
}

bool hwt_lane_splice_pending(struct hwt_lane *lane)
{
    if (!begin_consuming(lane))
        return false;
    bool whole = hwt_mpsc_splice(&lane->drained_head, &lane->drained_tail, &lane->pending_head,
                                 &lane->pending_tail);
    end_consuming(lane);
    return whole;
}

bool hwt_lane_splice_cancelled(struct hwt_lane *lane)
{
    return hwt_mpsc_splice(&lane->reaped_head, &lane->reaped_tail, &lane->cancelled_head,
                           &lane->cancelled_tail);
}

struct hwt_entry *hwt_lane_salvage(struct hwt_lane *lane)
{
    struct hwt_entry *salvaged = NULL, *entry;
    struct hwt_recycled others = { NULL, NULL };
    bool stalled;
    if (!begin_consuming(lane))
        return NULL;
    for (unsigned n = 0; n < SALVAGE_MAX; n++) {
        entry = pop(&lane->pending_head, &lane->pending_tail, &stalled);
        if (!entry)
            break;
        if (!hwt_timeout_salvageable(entry))
            hwt_mpsc_push(&lane->drained_head, &lane->drained_tail, &entry->link);
        else if (salvaged)
            hwt_recycled_add(&others, entry);
        else
            salvaged = entry;
    }
    end_consuming(lane);
    hwt_pool_give_chain(lane, &others);
    return salvaged;
}

struct hwt_entry *hwt_lane_pop_drained(struct hwt_lane *lane, bool *ret_stalled)
{
    return pop(&lane->drained_head, &lane->drained_tail, ret_stalled);
}

struct hwt_entry *hwt_lane_pop_reaped(struct hwt_lane *lane, bool *ret_stalled)
{
    return pop(&lane->reaped_head, &lane->reaped_tail, ret_stalled);
}
