/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Very many at once: a million timeouts in one tick, a thousand threads that come and go, a
 * thousand timers. See hard_times.h; --times n for more of it.
 */

#include "hard_times.h"

#include <sys/resource.h>

#include "faults.h"

/* ---- a million in one tick ---- */

enum { ADDERS = 4 };

struct crowd {
    manual m;
    deferred crew;
    shared_count next_adder, ended, broken;
    size_t each; /* of the adders adds so many */
    struct member {
        struct crowd *crowd;
        hwt_timeout timeout;
        shared_count ends;
    } * members;
    size_t run_last[ADDERS]; /* of each adder: how many have run */
};

/* Those of one thread run in the order in which it added them. */
static void run_in_order(hwt_timeout timeout, void *arg)
{
    struct member *member = arg;
    struct crowd *crowd = member->crowd;
    size_t number = (size_t)(member - crowd->members);
    (void)timeout;
    if (!crowd->crew.crew_size)
        expect(crowd->run_last[number / crowd->each]++ == number % crowd->each, &crowd->broken);
    member->ends++;
    crowd->ended++;
}

static void end_member(hwt_timeout timeout, void *arg)
{
    struct member *member = arg;
    (void)timeout;
    member->ends++;
    member->crowd->ended++;
}

static const hwt_task member_task = { run_in_order, end_member };

static void *add_members(void *arg)
{
    struct crowd *crowd = arg;
    size_t first = crowd->next_adder++ * crowd->each;
    for (size_t i = first; i < first + crowd->each; i++) {
        struct member *member = &crowd->members[i];
        member->crowd = crowd;
        int r = hwt_timer_new_timeout(crowd->m.timer, &member_task, member, HWT_MS(5),
                                      &member->timeout);
        expect(r == 0, &crowd->broken);
    }
    return NULL;
}

static void crowd_open(struct crowd *crowd, bool by_executor)
{
    hwt_options options = HWT_OPTIONS_INIT;
    pthread_t adders[ADDERS];
    memset(crowd, 0, sizeof(*crowd));
    options.tick_duration = HWT_MS(1);
    if (by_executor) {
        deferred_open(&crowd->crew);
        crew_begin(&crowd->crew, 2);
        options.executor = defer;
        options.executor_data = &crowd->crew;
    }
    crowd->each = test_scaled(1000000 / ADDERS);
    crowd->members = calloc(ADDERS * crowd->each, sizeof(*crowd->members));
    ck_assert_ptr_nonnull(crowd->members);
    manual_open_with(&crowd->m, HWT_SEC(1), options);
    for (int i = 0; i < ADDERS; i++)
        adders[i] = spawn(add_members, crowd);
    for (int i = 0; i < ADDERS; i++)
        join(adders[i]);
}

static void crowd_close(struct crowd *crowd)
{
    size_t size = ADDERS * crowd->each;
    ck_assert(await_count(&crowd->ended, size));
    ck_assert_int_eq(hwt_timer_stop(crowd->m.timer, NULL, NULL), 0);
    manual_close(&crowd->m);
    if (crowd->crew.crew_size)
        deferred_close(&crowd->crew);
    for (size_t i = 0; i < size; i++)
        must(crowd->members[i].ends == 1);
    ck_assert_uint_eq(crowd->broken, 0);
    free(crowd->members);
}

/* Each loop: without an executor, and with one. */
START_TEST(a_million_of_one_tick_run_in_it)
{
    static struct crowd crowd;
    for (unsigned n = 0; n < times; n++) {
        crowd_open(&crowd, _i);
        size_t size = ADDERS * crowd.each;
        ck_assert_uint_eq(manual_go(&crowd.m, HWT_MS(6) - 1), 0);
        ck_assert_uint_eq(crowd.ended, 0);
        ck_assert_uint_le(stats_of(crowd.m.timer).memory, 64 * size + (4 << 20));
        ck_assert_uint_eq(manual_go(&crowd.m, HWT_MS(6)), size);
        crowd_close(&crowd);
    }
}
END_TEST

START_TEST(a_million_of_one_tick_are_cancelled_within_it)
{
    static struct crowd crowd;
    for (unsigned n = 0; n < times; n++) {
        crowd_open(&crowd, _i);
        size_t size = ADDERS * crowd.each;
        ck_assert_uint_eq(manual_go(&crowd.m, HWT_MS(6) - 1), 0);
        for (size_t i = 0; i < size; i++)
            must(hwt_timeout_cancel(crowd.members[i].timeout));
        ck_assert_uint_eq(hwt_timer_pending(crowd.m.timer), 0);
        ck_assert_uint_eq(manual_go(&crowd.m, HWT_MS(6)), 0);
        crowd_close(&crowd);
    }
}
END_TEST

/* ---- a thousand threads that come and go ---- */

enum { WAVES = 50, A_WAVE = 20, EACH_ADDS = 200 };

struct guests {
    struct rig rig;
    ends ends;
    shared_count cancelled; /* cancels that were true */
};

static void *come_and_go(void *arg)
{
    struct guests *guests = arg;
    for (uint64_t i = 0; i < EACH_ADDS; i++) {
        hwt_timeout timeout = { NULL, 0 };
        int r = hwt_timer_new_timeout(guests->rig.timer, &counting, &guests->ends,
                                      HWT_US(100) * (i % 32), &timeout);
        expect(r == 0, &guests->rig.broken);
        if (i % 2)
            guests->cancelled +=
                i % 4 == 1 ? hwt_timeout_cancel(timeout) : hwt_timeout_cancel_sync(timeout);
    }
    return NULL;
}

static void wave(struct guests *guests, unsigned number)
{
    pthread_t threads[A_WAVE];
    for (int i = 0; i < A_WAVE; i++)
        threads[i] = spawn(come_and_go, guests);
    for (int i = 0; i < A_WAVE; i++)
        join(threads[i]);
    uint64_t added = (uint64_t)(number + 1) * A_WAVE * EACH_ADDS;
    ck_assert(await_count(&guests->ends.cancelled, guests->cancelled));
    ck_assert(await_count(&guests->ends.runs, added - guests->cancelled));
    ck_assert_uint_eq(ends_sum(&guests->ends), added);
}

/* Each loop: a way to drive the timer. All of a wave has ended before the next, so that as many
 * entries are enough for each; what its threads keep ready is lent to the next ones. */
START_TEST(a_thousand_threads_that_come_and_go_do_not_make_memory_grow)
{
    static struct guests guests;
    memset(&guests, 0, sizeof(guests));
    rig_open(&guests.rig, _i, HWT_MS(1), 16);
    for (unsigned i = 0; i < WAVES * times; i++)
        wave(&guests, i);
    uint64_t entries = A_WAVE * (EACH_ADDS + 32 + 1);
    ck_assert_uint_le(stats_of(guests.rig.timer).memory, 2 * 64 * entries + (1 << 18));
    rig_close(&guests.rig);
}
END_TEST

/* ---- a thousand timers at once ---- */

/* As many as there may be descriptors for, a thousand at the most. */
static unsigned timers_possible(void)
{
    const unsigned wanted = test_scaled(1000), others = 100;
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max >= wanted + others)
        return wanted;
    printf("only %lu descriptors may be open\n", (unsigned long)limit.rlim_max);
    return (unsigned)limit.rlim_max - others;
}

struct timers {
    hwt_timer *all[1000];
    unsigned count;
    bool by_hand;
    ends ends;
};

/* Each has one timeout that is due, and one that is not. */
static void timers_open(struct timers *t)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.flags = t->by_hand ? HWT_NO_WORKER : 0;
    for (unsigned i = 0; i < t->count; i++) {
        must(hwt_timer_create(&options, &t->all[i]) == 0);
        arm(t->all[i], &counting, &t->ends, HWT_MS(1));
        arm(t->all[i], &counting, &t->ends, HWT_SEC(3600));
        must(!t->by_hand || hwt_timer_fd(t->all[i]) >= 0);
    }
}

static void timers_run(struct timers *t)
{
    for (unsigned i = 0; t->by_hand && i < t->count; i++) {
        while (hwt_timer_pending(t->all[i]) > 1) {
            must(readable(hwt_timer_fd(t->all[i]), 30000));
            hwt_timer_dispatch(t->all[i]);
        }
    }
}

/* Each loop: with workers, and without. */
START_TEST(a_thousand_timers_at_once_give_all_back)
{
    static struct timers timers;
    struct census before = census();
    memset(&timers, 0, sizeof(timers));
    timers.count = timers_possible();
    timers.by_hand = _i;
    for (unsigned n = 1; n <= times; n++) {
        faults_watch();
        timers_open(&timers);
        /* A worker sleeps on a futex. */
        int descriptors = timers.by_hand ? (int)timers.count : 0;
        ck_assert_int_eq(census().descriptors, before.descriptors + descriptors);
        timers_run(&timers);
        ck_assert(await_count(&timers.ends.runs, (uint64_t)timers.count * n));
        for (unsigned i = 0; i < timers.count; i++)
            hwt_timer_destroy(timers.all[i]);
        struct faults_held held = faults_held();
        ck_assert(held.blocks == 0 && held.mapped == 0);
        ck_assert(await_census(before));
        ck_assert_uint_eq(timers.ends.runs, (uint64_t)timers.count * n);
        ck_assert_uint_eq(timers.ends.cancelled, (uint64_t)timers.count * n);
    }
}
END_TEST

int main(int argc, char **argv)
{
    read_arguments(argc, argv);
    Suite *suite = suite_create("hard times: crowds");
    TCase *tick = hard_case(suite, "one tick", 100);
    tcase_add_loop_test(tick, a_million_of_one_tick_run_in_it, 0, 2);
    tcase_add_loop_test(tick, a_million_of_one_tick_are_cancelled_within_it, 0, 2);
    tcase_add_loop_test(hard_case(suite, "threads", 100),
                        a_thousand_threads_that_come_and_go_do_not_make_memory_grow, 0, WAYS);
    tcase_add_loop_test(hard_case(suite, "timers", 100), a_thousand_timers_at_once_give_all_back, 0,
                        2);
    return run_suite(suite);
}
