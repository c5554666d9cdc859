/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_STAGE_H
#define HWT_TESTS_STAGE_H

/*
 * What the tests on schedules share: a timer without a worker, which the test or an actor drives by
 * a clock that is set; its descriptor is watched, so that the gate is closed whenever nobody does.
 * Ticks are numbered from 0; AT(t) is an instant in the middle of one.
 *
 * The drawings in the tests read from top to bottom, a column for each thread. An actor stands
 * where a line begins with the name of a point.
 */

#include "schedule.h"

#include <sys/timerfd.h>

#define TICK HWT_SEC(1)
#define AT(tick) ((tick)*TICK + TICK / 2)

enum { WHEEL = 64, MAX_PENDING = 1000000, COUNTED = 0xc0c0 };

static struct room room;
static hwt_timer *timer;
static ends fate;   /* of the timeout that the test is about */
static ends beside; /* of those beside it */

static const hwt_task silent = { count_run, NULL }; /* has no `cancelled`: can be salvaged */

static inline void stage_open_with(hwt_options options)
{
    options.tick_duration = TICK;
    options.ticks_per_wheel = WHEEL;
    options.max_pending = MAX_PENDING;
    room_open_with(&room, 0, options);
    timer = room.timer;
    ck_assert_int_ge(hwt_timer_fd(timer), 0);
}

static inline void stage_open(void)
{
    stage_open_with((hwt_options)HWT_OPTIONS_INIT);
}

/* Handles all ticks before this one. */
static inline uint64_t drive(uint64_t tick)
{
    atomic_store(&room.now, tick * TICK);
    return hwt_timer_advance(timer, tick * TICK);
}

static inline void act_drive(struct actor *actor, uint64_t tick)
{
    atomic_store(&room.now, tick * TICK);
    act_advance(actor, timer, tick * TICK);
}

static inline hwt_timeout add_with(const hwt_task *task, void *arg, uint64_t deadline)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(timer, task, arg, deadline, &timeout) == 0);
    return timeout;
}

/* The one that the test is about: in the queue, or in a bucket. */
static inline hwt_timeout add_queued(uint64_t deadline)
{
    return add_with(&counting, &fate, deadline);
}

static inline hwt_timeout add_armed(uint64_t deadline)
{
    hwt_timeout timeout = add_queued(deadline);
    drive(0);
    return timeout;
}

static inline void expect_fate(uint64_t runs, uint64_t cancelled)
{
    ck_assert_uint_eq(fate.runs, runs);
    ck_assert_uint_eq(fate.cancelled, cancelled);
    ck_assert_uint_eq(fate.visited, 0);
}

/* It is filed where it is due, and runs in the tick of its deadline: not before, and not later. */
static inline void expect_run_in(uint64_t tick)
{
    uint64_t runs = fate.runs;
    drive(tick);
    ck_assert_uint_eq(fate.runs, runs);
    drive(tick + 1);
    ck_assert_uint_eq(fate.runs, runs + 1);
}

/* The nanoseconds until the descriptor is readable; HWT_NEVER: it is not set. */
static inline uint64_t told_in(void)
{
    struct itimerspec at;
    must(timerfd_gettime(timer->gate.fd, &at) == 0);
    if (at.it_value.tv_sec == 0 && at.it_value.tv_nsec == 0)
        return readable(timer->gate.fd, 10000) ? 0 : HWT_NEVER;
    return HWT_SEC(at.it_value.tv_sec) + (uint64_t)at.it_value.tv_nsec;
}

/* Adds silent ones until one has its entry; that one. */
static inline hwt_timeout add_until_reused(hwt_timeout timeout, uint64_t deadline)
{
    for (size_t i = 0; i <= 4 * HWT_SLAB_ENTRIES; i++) {
        hwt_timeout again = add_with(&silent, &beside, deadline);
        if (again.entry == timeout.entry)
            return again;
    }
    ck_abort_msg("its entry is not used again");
}

/* No other timeout gets its entry, as many as there are. */
static inline void expect_not_reused(hwt_timeout timeout, uint64_t deadline)
{
    for (size_t i = 0; i <= 2 * HWT_SLAB_ENTRIES; i++)
        must(add_with(&silent, &beside, deadline).entry != timeout.entry);
}

/* Every entry of the pool is free, once. */
static inline void expect_all_back(void)
{
    size_t all = timer->pool.slabs * HWT_SLAB_ENTRIES, count = 0;
    atomic_store(&timer->pool.slabs, HWT_SLABS_MAX);
    for (uint32_t i = 0; i < timer->lane_count; i++) {
        struct hwt_entry *entry;
        while ((entry = hwt_pool_take(timer, &timer->lanes[i])) != NULL) {
            must(atomic_exchange(&entry->deadline, COUNTED) != COUNTED);
            count++;
        }
    }
    ck_assert_uint_eq(count, all);
}

/* Nothing is left behind, but what never comes. */
static inline void stage_close(void)
{
    drive(HWT_MIN(6000) / TICK);
    drive(HWT_MIN(6000) / TICK + 1);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(timer->reserved, 0);
    ck_assert_uint_eq(timer->worker.transit, 0);
    ck_assert(hwt_wheel_check(&timer->worker.wheel));
    expect_all_back();
    room_close(&room);
}

#endif
