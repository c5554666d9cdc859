/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A clock that leaps back and forth, is right after a year off, and is wrong when the store is opened. */

#include "tests/delay/support/simulated_one.h"

START_TEST(test_the_clock_leaps_an_hour_back)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_many(0, 10, s.realtime + HWT_SEC(1), 0, 10);
    put_many(10, 20, s.realtime + HWT_SEC(100), 0, 10);
    simulated_advance(&s, HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 10);
    uint64_t hand = simulated_stats(&s).hand;
    s.realtime -= HWT_MIN(60);
    if (_i)
        reopen(_i == 2);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_ge(simulated_stats(&s).hand, hand);
    simulated_advance(&s, HWT_MIN(60));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    simulated_advance(&s, HWT_SEC(100));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 10);
    expect_counts(counts, 0, 20, 1);
}
END_TEST

/* Back, and right again: that is no leap forward. */
START_TEST(test_the_clock_is_set_back_and_right_again)
{
    put_many(0, 1, s.realtime + HWT_SEC(1), 0, 10);
    simulated_deliver(&s, 1, NULL);
    s.realtime -= 3 * HWT_MIN(60);
    ck_assert_int_eq(simulated_deliver(&s, 1, NULL), 0);
    s.realtime += 3 * HWT_MIN(60);
    simulated_advance(&s, HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, 1, NULL), 1);
}
END_TEST

START_TEST(test_the_clock_leaps_a_year_forward)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_many(0, 10, s.realtime, 0, 10);
    put_many(10, 100, s.realtime + DAY, 2 * DAY, 10);
    ck_assert_int_eq(simulated_deliver(&s, 5, counts), 5);
    s.realtime += 365 * DAY;
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -ETIME);
    ck_assert_uint_eq(simulated_stats(&s).held, 1);
    ck_assert_uint_eq(simulated_stats(&s).clock_leaps, 1);
    /* Meanwhile producers go on. */
    ck_assert_int_eq(simulated_put(&s, s.realtime - 365 * DAY, 100, 10), 0);
    if (_i) {
        ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
        ck_assert_uint_eq(simulated_stats(&s).held, 0);
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 96);
        expect_counts(counts, 0, 101, 1);
        return;
    }
    s.realtime -= 365 * DAY;
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 6);
    ck_assert_uint_eq(simulated_stats(&s).held, 0);
    expect_counts(counts, 0, 10, 1);
    expect_counts(counts, 10, 100, 0);
}
END_TEST

/* A machine that was off, or asleep, for a year: that is no leap. */
START_TEST(test_a_year_off_is_no_leap)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_many(0, 100, s.realtime + DAY, 3 * DAY, 10);
    if (_i) {
        simulated_advance(&s, 365 * DAY);
    } else {
        simulated_close(&s);
        s.realtime += 365 * DAY;
        s.boottime = HWT_SEC(20);
        simulated_open(&s);
    }
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 100);
    expect_counts(counts, 0, 100, 1);
}
END_TEST

/*
 * Opened with a clock that is behind what the store has seen, as where it begins at 1970: nothing is early,
 * and that it gets right, to whatever instant behind that, is no leap. A leap to before that is one, and so
 * is the next one.
 */
START_TEST(test_opened_before_the_clock_was_set)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    uint64_t right = s.realtime;
    put_many(0, 10, s.realtime, 0, 10);
    put_many(10, 20, s.realtime + DAY, 0, 10);
    simulated_advance(&s, HWT_SEC(1));
    ck_assert_int_eq(simulated_deliver(&s, 5, counts), 5);
    simulated_close(&s);
    s.realtime = HWT_SEC(1000);
    s.boottime = HWT_SEC(10);
    simulated_open(&s);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_int_eq(simulated_put(&s, HWT_SEC(500), 20, 10), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    if (_i == 1) { /* to another wrong time, and then it is right */
        s.realtime = right - 100 * DAY;
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -ETIME);
    }
    s.realtime = right + DAY / 2;
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 5);
    ck_assert_uint_eq(simulated_stats(&s).held, 0);
    s.realtime += 100 * DAY;
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -ETIME);
    s.realtime -= 99 * DAY;
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -ETIME);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 10);
    expect_counts(counts, 0, 21, 1);
}
END_TEST

/* Once the clock has been accepted, a leap to where the last process was is none of its correction. */
START_TEST(test_a_leap_behind_a_clock_that_was_accepted)
{
    put(s.realtime + DAY, 0, 10);
    simulated_close(&s);
    s.realtime -= DAY;
    simulated_open(&s);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    s.realtime += 3 * DAY;
    ck_assert_int_eq(simulated_deliver(&s, 1, NULL), -ETIME);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_clock");
    TCase *tcase = tcase_create("clock");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_the_clock_leaps_an_hour_back, 0, 3);
    tcase_add_test(tcase, test_the_clock_is_set_back_and_right_again);
    tcase_add_loop_test(tcase, test_the_clock_leaps_a_year_forward, 0, 2);
    tcase_add_loop_test(tcase, test_a_year_off_is_no_leap, 0, 2);
    tcase_add_loop_test(tcase, test_opened_before_the_clock_was_set, 0, 2);
    tcase_add_test(tcase, test_a_leap_behind_a_clock_that_was_accepted);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
