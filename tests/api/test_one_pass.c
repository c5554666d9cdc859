/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * More than the worker files at a time, and a limit of pending timeouts beside a shortage of memory:
 * nothing waits for a later call, and nothing stays counted that was refused.
 */

#include "api_fixture.h"
#include "memory_limit.h"

#define TICK HWT_MS(1)

enum { MANY = 350000, THREADS = 3 };

static manual m;
static ends counts;

/* Counted from nothing, also where all tests are in one process. */
static void open_for(uint64_t max_pending, uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.max_pending = max_pending;
    options.flags = flags;
    memset(&counts, 0, sizeof(counts));
    manual_open_with(&m, HWT_SEC(5), options);
}

static void *add_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < MANY / THREADS; i++)
        must(hwt_timer_new_timeout(m.timer, &counting, &counts, HWT_US(1), NULL) == 0);
    return NULL;
}

/* By one thread, by several, and with a timer for one thread. */
START_TEST(one_call_runs_all_that_is_due_however_much_was_added)
{
    pthread_t threads[THREADS];
    open_for(0, _i == 2 ? HWT_ONE_THREAD : 0);
    for (int i = 0; i < THREADS; i++) {
        if (_i == 1)
            threads[i] = spawn(add_many, NULL);
        else
            add_many(NULL);
    }
    for (int i = 0; i < THREADS && _i == 1; i++)
        join(threads[i]);
    ck_assert_uint_eq(manual_go(&m, TICK), MANY / THREADS * THREADS);
    ck_assert_uint_eq(counts.runs, MANY / THREADS * THREADS);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_close(&m);
}
END_TEST

/* Until there is an error. */
static uint64_t fill(uint64_t most, int *ret_error)
{
    uint64_t added = 0;
    *ret_error = 0;
    while (added < most && *ret_error == 0) {
        *ret_error = hwt_timer_new_timeout(m.timer, &counting, &counts, HWT_SEC(1), NULL);
        added += *ret_error == 0;
    }
    return added;
}

START_TEST(what_was_refused_for_want_of_memory_takes_no_place)
{
    enum { LIMIT = 300000, TRIES = 1000 };
    int error;
    if (memory_cannot_be_limited())
        return;
    open_for(LIMIT, 0);
    limit_memory(1 << 20);
    uint64_t added = fill(LIMIT, &error);
    int refused = 0;
    for (int i = 0; i < TRIES; i++)
        refused += hwt_timer_new_timeout(m.timer, &counting, &counts, HWT_SEC(1), NULL) == -ENOMEM;
    limit_memory(RLIM_INFINITY);
    ck_assert_int_eq(error, -ENOMEM);
    ck_assert_int_eq(refused, TRIES);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), added);
    ck_assert_uint_eq(added + fill(LIMIT, &error), LIMIT);
    ck_assert_int_eq(error, -ENOBUFS);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(2)), LIMIT);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: one pass");
    TCase *tcase = add_case(suite, "pass");
    tcase_add_loop_test(tcase, one_call_runs_all_that_is_due_however_much_was_added, 0, 3);
    tcase_add_test(tcase, what_was_refused_for_want_of_memory_takes_no_place);
    return run_suite(suite);
}
