/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_TIMEOUT_FIXTURE_H
#define HWT_TESTS_TIMEOUT_FIXTURE_H

/* Timeouts in states made by hand, and what became of them. */

#include "room_fixture.h"

#define GENERATION UINT64_C(7)

enum {
    NEW = HWT_PHASE_NEW,
    QUEUED = HWT_PHASE_QUEUED,
    ARMED = HWT_PHASE_ARMED,
    SUBMITTED = HWT_PHASE_SUBMITTED,
    RUNNING = HWT_PHASE_RUNNING,
    EXPIRED = HWT_PHASE_EXPIRED,
    CANCELLED = HWT_PHASE_CANCELLED,
    ABANDONED = HWT_PHASE_ABANDONED,
    REARMED = HWT_REARMED,
    BARRED = HWT_BARRED,
    MOVING = HWT_MOVING,
    MOVED = HWT_MOVED,
    WAITED = HWT_WAITED,
    NOW = 1000000,
    DEADLINE = 2000000,
    EARLIER = DEADLINE - 1000,
    LATER = DEADLINE + 1000
};

static int runs, cancels;

static inline void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    runs++;
}

static inline void cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    cancels++;
}

static const hwt_task counted = { run, cancelled };

static inline struct hwt_entry *make_entry(struct room *room, uint64_t word)
{
    struct hwt_entry *entry = room_take(room);
    hwt_entry_set_task(entry, &counted);
    entry->deadline = DEADLINE;
    entry->state = GENERATION << HWT_GENERATION_SHIFT | word;
    return entry;
}

static inline void expect(const struct hwt_entry *entry, uint64_t word)
{
    uint64_t state = entry->state;
    ck_assert_uint_eq(state >> HWT_GENERATION_SHIFT, GENERATION);
    ck_assert_uint_eq(state & 0xff, word);
}

static inline struct hwt_entry *pop_pending(struct room *room)
{
    bool stalled;
    must(hwt_lane_splice_pending(room->lane));
    return hwt_lane_pop_drained(room->lane, &stalled);
}

static inline struct hwt_entry *pop_cancelled(struct room *room)
{
    bool stalled;
    must(hwt_lane_splice_cancelled(room->lane));
    return hwt_lane_pop_reaped(room->lane, &stalled);
}

/* One, or none, has been pushed on each of the lane's queues. */
static inline void expect_queues(struct room *room, struct hwt_entry *pending,
                                 struct hwt_entry *on_cancelled)
{
    ck_assert_ptr_eq(pop_pending(room), pending);
    ck_assert_ptr_null(pop_pending(room));
    ck_assert_ptr_eq(pop_cancelled(room), on_cancelled);
    ck_assert_ptr_null(pop_cancelled(room));
}

#endif
