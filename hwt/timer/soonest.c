/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The soonest pending timeouts, in order.
 *
 * No structure of the timer has all pending timeouts in order, and none is kept for this. It looks
 * at all entries. The caller's array is a heap of the soonest ones so far, with the latest of them
 * first, and is sorted in the end.
 */

#include <errno.h>

#include "hwt/timer/timer.h"

struct soonest {
    hwt_pending *heap; /* no child is later than its parent */
    size_t room, count;
};

/* Puts `pending` at `hole` or below it, so that the part from there on is a heap. */
static void sift_down(hwt_pending *heap, size_t count, size_t hole, hwt_pending pending)
{
    for (;;) {
        size_t child = 2 * hole + 1;
        if (child >= count)
            break;
        if (child + 1 < count && heap[child + 1].deadline > heap[child].deadline)
            child++;
        if (heap[child].deadline <= pending.deadline)
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = pending;
}

static void sift_up(hwt_pending *heap, size_t hole, hwt_pending pending)
{
    while (hole > 0 && heap[(hole - 1) / 2].deadline < pending.deadline) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = pending;
}

static bool may_enter(const struct soonest *soonest, uint64_t deadline)
{
    return soonest->count < soonest->room || deadline < soonest->heap[0].deadline;
}

static void enter(struct soonest *soonest, hwt_pending pending)
{
    if (soonest->count < soonest->room)
        sift_up(soonest->heap, soonest->count++, pending);
    else
        sift_down(soonest->heap, soonest->count, 0, pending);
}

static void sort(struct soonest *soonest)
{
    for (size_t left = soonest->count; left > 1;) {
        hwt_pending latest = soonest->heap[0];
        left--;
        sift_down(soonest->heap, left, 0, soonest->heap[left]);
        soonest->heap[left] = latest;
    }
}

int64_t hwt_timer_soonest(hwt_timer *timer, bool (*wanted)(const hwt_pending *pending, void *data),
                          void *data, hwt_pending *ret_soonest, size_t count)
{
    struct soonest soonest = { ret_soonest, count, 0 };
    struct hwt_entry *entry;
    uint32_t number = 0, seat = 0;
    if (!timer || (!ret_soonest && count > 0))
        return -EINVAL;
    while (count > 0 && (entry = hwt_pool_walk(&timer->shared.pool, &number, &seat)) != NULL) {
        hwt_pending pending = { .timeout = { entry, hwt_generation(hwt_entry_state(entry)) } };
        if (!may_enter(&soonest, hwt_entry_deadline(entry)))
            continue;
        HWT_SCHED_POINT(SOONEST);
        if (hwt_timeout_get(pending.timeout, &pending.deadline, &pending.task, &pending.arg) == 0 &&
            may_enter(&soonest, pending.deadline) && (!wanted || wanted(&pending, data)))
            enter(&soonest, pending);
    }
    sort(&soonest);
    return (int64_t)soonest.count;
}
