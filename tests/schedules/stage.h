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

#include <sys/timerfd.h>

#include "hwt/pool/trim.h"
#include "hwt/timer/timer.h"
#include "hwt/worker/task.h"
#include "schedule.h"
#include "wheel_check.h"

#define TICK HWT_SEC(1)
#define AT(tick) ((tick)*TICK + TICK / 2)

enum { WHEEL = 64, MAX_PENDING = 1000000 };

static _Atomic uint64_t now_is;
static hwt_timer *timer;
static ends fate;   /* of the timeout that the test is about */
static ends beside; /* of those beside it */

static const hwt_task silent = { count_run, NULL }; /* has no `cancelled`: its canceller frees it */

static uint64_t stage_clock(void *data)
{
    (void)data;
    return atomic_load(&now_is);
}

static inline void stage_open_with(hwt_options options)
{
    options.tick_duration = TICK;
    options.ticks_per_wheel = WHEEL;
    options.max_pending = MAX_PENDING;
    options.flags |= HWT_NO_WORKER;
    options.clock = stage_clock;
    atomic_store(&now_is, 0);
    timer = create(&options);
    ck_assert_int_ge(hwt_timer_fd(timer), 0);
}

static inline void stage_open(void)
{
    stage_open_with((hwt_options)HWT_OPTIONS_INIT);
}

/* Tests that each begin with `open` and end with `close`; NULL: with nothing. */
static inline TCase *stage_case(Suite *suite, const char *name, void (*open)(void),
                                void (*close)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, open, close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

/* ---- driving ---- */

/* Handles all ticks before this one. */
static inline uint64_t drive(uint64_t tick)
{
    atomic_store(&now_is, tick * TICK);
    return hwt_timer_advance(timer, tick * TICK);
}

static inline void act_drive(struct actor *actor, uint64_t tick)
{
    atomic_store(&now_is, tick * TICK);
    act_advance(actor, timer, tick * TICK);
}

/* The nanoseconds until the descriptor is readable; HWT_NEVER: it is not set. */
static inline uint64_t told_in(void)
{
    struct itimerspec at;
    int fd = atomic_load(&timer->shared.gate.fd);
    must(timerfd_gettime(fd, &at) == 0);
    if (at.it_value.tv_sec == 0 && at.it_value.tv_nsec == 0)
        return readable(fd, 10000) ? 0 : HWT_NEVER;
    return HWT_SEC(at.it_value.tv_sec) + (uint64_t)at.it_value.tv_nsec;
}

/* ---- timeouts ---- */

static inline hwt_timeout add_with(const hwt_task *task, void *arg, uint64_t deadline)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(timer, task, arg, deadline, &timeout) == 0);
    return timeout;
}

/* The one that the test is about: its record is unread, or it is in a bucket. */
static inline hwt_timeout add_unread(uint64_t deadline)
{
    return add_with(&counting, &fate, deadline);
}

static inline hwt_timeout add_filed(uint64_t deadline)
{
    hwt_timeout timeout = add_unread(deadline);
    drive(0);
    return timeout;
}

static inline hwt_timeout add_either(bool filed, uint64_t deadline)
{
    return filed ? add_filed(deadline) : add_unread(deadline);
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

static inline uint64_t deadline_of(hwt_timeout timeout)
{
    return hwt_entry_deadline(timeout.entry);
}

/* ---- entries ---- */

/* NULL: it is not there. */
static inline struct hwt_entry *take_out(struct hwt_cache *cache, const struct hwt_entry *entry)
{
    struct hwt_pool *pool = &timer->shared.pool;
    struct hwt_entry *all[2 * HWT_CACHE_BATCH], *found = NULL;
    size_t n = 0;
    while (cache->first || cache->spare)
        all[n++] = hwt_pool_take(pool, cache);
    while (n-- > 0) {
        if (all[n] == entry)
            found = all[n];
        else
            hwt_pool_give(pool, cache, all[n]);
    }
    return found;
}

/* The same of the pool's batches, to which threads that have ended have given what they kept. */
static inline struct hwt_entry *take_out_of_pool(const struct hwt_entry *entry)
{
    struct hwt_pool *pool = &timer->shared.pool;
    struct hwt_entry *chains[1000], *found = NULL, *next;
    struct hwt_cache back = { 0 };
    uint32_t n = 0, count;
    while ((chains[n] = hwt_batch_pop(pool, &count)) != NULL)
        must(++n < 1000);
    while (n-- > 0) {
        for (struct hwt_entry *one = chains[n]; one; one = next) {
            next = hwt_entry_linked(one);
            if (one == entry)
                found = one;
            else
                hwt_pool_give(pool, &back, one);
        }
    }
    hwt_pool_flush(pool, &back);
    return found;
}

/* The free entry is moved from the cache or batch in which it is, to be the next that the test's own
 * thread takes. The cache is no other thread's that has not ended. */
static inline void fetch_free(const struct hwt_entry *entry)
{
    struct hwt_shared *shared = &timer->shared;
    struct hwt_cache *own = &hwt_lane_enter(&shared->lanes)->cache;
    struct hwt_entry *found = NULL;
    for (uint32_t n = 0; !found && n < hwt_lanes_count(&shared->lanes); n++) {
        struct hwt_lane *lane = hwt_lane_at(&shared->lanes, n);
        found = lane ? take_out(&lane->cache, entry) : NULL;
    }
    if (!found)
        found = take_out_of_pool(entry);
    ck_assert_msg(found, "the entry is not free");
    hwt_pool_give(&shared->pool, own, found);
}

/* A silent timeout in the same entry, which is free. */
static inline hwt_timeout add_in_place_of(hwt_timeout timeout, uint64_t deadline)
{
    fetch_free(timeout.entry);
    hwt_timeout again = add_with(&silent, &beside, deadline);
    must(again.entry == timeout.entry);
    return again;
}

/* Marks one that is free, and has not been marked. */
static inline void mark_free(bool *marks, uint32_t slabs, uint32_t id, size_t *count)
{
    must(id >> HWT_ID_BITS < slabs && !marks[id]);
    marks[id] = true;
    ++*count;
}

/* Of a chain. Returns how many. */
static inline size_t mark_chain(bool *marks, uint32_t slabs, const struct hwt_entry *entry)
{
    size_t count = 0;
    for (; entry; entry = atomic_load(&entry->arg))
        mark_free(marks, slabs, hwt_entry_id(entry), &count);
    return count;
}

/* Of a stack of batches. Returns how many. */
static inline size_t mark_stack(bool *marks, uint32_t slabs, const struct hwt_word *stack)
{
    size_t count = 0;
    for (const hwt_link *link = (hwt_link *)(uintptr_t)atomic_load(&stack->first); link;
         link = hwt_link_next(link)) {
        const struct hwt_entry *entry = caa_container_of(link, const struct hwt_entry, word.second);
        size_t length = mark_chain(marks, slabs, entry);
        ck_assert_uint_eq(hwt_entry_count(entry), length);
        count += length;
    }
    ck_assert_uint_eq(count, hwt_stack_count(stack));
    return count;
}

/* Of the pool's batches. Returns how many. */
static inline size_t mark_batches(bool *marks, uint32_t slabs)
{
    const struct hwt_pool *pool = &timer->shared.pool;
    size_t count =
        mark_stack(marks, slabs, &pool->batches[0]) + mark_stack(marks, slabs, &pool->batches[1]);
    ck_assert_uint_eq(count, hwt_pool_free(pool));
    return count;
}

/* Every entry is free, once: in a cache, in a batch, or in a slab that is empty. */
static inline void expect_all_free(void)
{
    struct hwt_pool *pool = &timer->shared.pool;
    while (pool->trim.step != HWT_TRIM_IDLE) /* what it holds goes back first */
        (void)hwt_pool_trim(pool, 0);
    uint32_t slabs = atomic_load(&pool->slabs);
    bool *marks = calloc((size_t)slabs << HWT_ID_BITS | 1, sizeof(*marks));
    size_t count = mark_batches(marks, slabs);
    for (uint32_t n = 0; n < hwt_lanes_count(&timer->shared.lanes); n++) {
        const struct hwt_lane *lane = hwt_lane_at(&timer->shared.lanes, n);
        size_t length = lane ? mark_chain(marks, slabs, lane->cache.first) : 0;
        ck_assert_uint_eq(length, lane ? lane->cache.count : 0);
        count += length + (lane ? mark_chain(marks, slabs, lane->cache.spare) : 0);
    }
    for (const hwt_link *link = (hwt_link *)(uintptr_t)atomic_load(&pool->empty_slabs.first); link;
         link = hwt_link_next(link)) {
        const struct hwt_site *site = caa_container_of(link, const struct hwt_site, next_empty);
        for (uint32_t i = 0; i < HWT_SLAB_SEATS; i++) {
            if (hwt_slab_has((uintptr_t)site->base, i))
                mark_free(marks, slabs, site->number << HWT_ID_BITS | i, &count);
        }
    }
    free(marks);
    ck_assert_uint_eq(count, slabs * HWT_SLAB_ENTRIES);
}

/* ---- the end ---- */

static inline void expect_nothing_left(void)
{
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(timer->shared.reserved, 0);
    ck_assert(hwt_wheel_check(&timer->worker.wheel));
    expect_all_free();
}

/* Nothing is left behind, but what never comes. */
static inline void stage_close(void)
{
    drive(HWT_MIN(6000) / TICK);
    drive(HWT_MIN(6000) / TICK + 1);
    expect_nothing_left();
    hwt_timer_destroy(timer);
}

/* After a stop, the timeout that the test is about has had its one end. */
static inline void stage_close_stopped(void)
{
    expect_nothing_left();
    ck_assert_uint_eq(ends_sum(&fate) + ends_sum(&beside), stats_of(timer).added);
    hwt_timer_destroy(timer);
}

#endif
