/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the counters say: added, ended, lateness, memory. The clock is set.
 */

#include "api_fixture.h"

static manual m;

START_TEST(the_counters_count)
{
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.max_pending = 5;
    manual_open_with(&m, HWT_SEC(1), options);
    hwt_timeout first = arm(m.timer, &counting, &e, 0);
    hwt_timeout second = arm(m.timer, &counting, &e, 0);
    for (int i = 0; i < 3; i++)
        arm(m.timer, &counting, &e, HWT_SEC(1));
    ck_assert_int_eq(hwt_timer_new_timeout(m.timer, &counting, &e, 0, NULL), -ENOBUFS);
    ck_assert(hwt_timeout_reschedule(first, HWT_MS(2)));
    ck_assert(hwt_timeout_cancel(second));
    ck_assert(!hwt_timeout_cancel(second));
    manual_go(&m, HWT_MS(3));
    hwt_stats s = stats_of(m.timer);
    ck_assert_uint_eq(s.size, sizeof(s));
    ck_assert_uint_eq(s.pending, 3);
    ck_assert_uint_eq(s.added, 5);
    ck_assert_uint_eq(s.expired, 1);
    ck_assert_uint_eq(s.cancelled, 1);
    ck_assert_uint_eq(s.rescheduled, 1);
    ck_assert_uint_eq(s.rejected, 1);
    ck_assert_uint_eq(s.unprocessed, 0);
    ck_assert_uint_gt(s.memory, 0);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 3);
    s = stats_of(m.timer);
    ck_assert_uint_eq(s.unprocessed, 3);
    ck_assert_uint_eq(s.pending, 0);
    manual_close(&m);
}
END_TEST

/* Lateness is from the deadline to the start of the task, by the timer's clock. */
START_TEST(lateness_is_kept_as_a_histogram_of_powers_of_two)
{
    ends e = { 0 };
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 64);
    arm(m.timer, &counting, &e, HWT_MS(1)); /* 1 ms late: 2^19 to 2^20 - 1 */
    manual_go(&m, HWT_MS(2));
    arm(m.timer, &counting, &e, HWT_MS(1) - 1); /* 1 ns late */
    manual_go(&m, HWT_MS(3));
    hwt_stats s = stats_of(m.timer);
    ck_assert_uint_eq(s.lateness[19], 1);
    ck_assert_uint_eq(s.lateness[0], 1);
    ck_assert_uint_eq(s.lateness_max, HWT_MS(1));
    arm(m.timer, &counting, &e, 0);
    manual_go(&m, HWT_MS(3) + (UINT64_C(1) << 40));
    s = stats_of(m.timer);
    ck_assert_uint_eq(s.lateness[40], 1);
    ck_assert_uint_eq(s.lateness_max, UINT64_C(1) << 40);
    uint64_t sum = 0;
    for (int i = 0; i < 64; i++)
        sum += s.lateness[i];
    ck_assert_uint_eq(sum, s.expired);
    manual_close(&m);
}
END_TEST

START_TEST(memory_does_not_grow_by_arming_and_cancelling)
{
    ends e = { 0 };
    manual_open(&m, 0, HWT_SEC(3600), 512);
    uint64_t early = 0;
    for (int i = 0; i < 300000; i++) {
        must(hwt_timeout_cancel(arm(m.timer, &counting, &e, HWT_SEC(100))));
        if (i % 1000 == 0)
            manual_go(&m, (uint64_t)i); /* the tick is an hour: none ever ends */
        if (i == 10000)
            early = stats_of(m.timer).memory;
    }
    ck_assert_uint_le(stats_of(m.timer).memory, 2 * early);
    manual_close(&m);
    ck_assert_uint_eq(e.cancelled, 300000);
}
END_TEST

START_TEST(a_million_pending_take_64_bytes_each)
{
    enum { MILLION = 1000000 };
    ends e = { 0 };
    manual_open(&m, 0, HWT_MS(100), 512);
    uint64_t seed = test_seed(), empty = stats_of(m.timer).memory;
    for (int i = 0; i < MILLION; i++)
        arm(m.timer, &counting, &e, test_random(&seed) % HWT_SEC(600));
    manual_go(&m, 0);
    /* The promise is of ten million; a tenth more for what is not yet filled here. */
    ck_assert_uint_le(stats_of(m.timer).memory - empty, UINT64_C(64) * MILLION * 11 / 10);
    manual_close(&m);
}
END_TEST

/* ---- */

static void add_counters(Suite *suite)
{
    TCase *tcase = add_case(suite, "counters");
    tcase_add_test(tcase, the_counters_count);
    tcase_add_test(tcase, lateness_is_kept_as_a_histogram_of_powers_of_two);
    tcase_add_test(tcase, memory_does_not_grow_by_arming_and_cancelling);
    tcase_add_test(tcase, a_million_pending_take_64_bytes_each);
}

int main(void)
{
    Suite *suite = suite_create("api: stats");
    add_counters(suite);
    return run_suite(suite);
}
