/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The processor's counter in the place of the clock, on a counter and a clock that the test sets.
 * Time goes on by some nanoseconds with each reading, and by what the test says between calls.
 */

#include "hwt/base/counter.h"

#include <sys/wait.h>

#include "unit.h"

#define TIMES 200000
#define RATES 6

static double now = 1e15;     /* nanoseconds */
static double clock_rate = 1; /* of the kernel's clock: NTP makes it faster or slower */
static double clock_error;    /* the clock less `now` */
static double counter_rate = 2.6;
static double count_then = 4e15, now_then = 1e15; /* when the counter's rate was set */
static double suspended;
static uint64_t clock_readings;
static uint64_t held_up; /* nanoseconds, in the middle of the next reading of the clock */
static bool still;
static uint64_t still_at;

uint64_t fake_counter(void);
uint64_t fake_clock(clockid_t id);

static uint64_t count_now(void)
{
    return still ? still_at : (uint64_t)(count_then + (now - now_then) * counter_rate);
}

static uint64_t clock_now(void)
{
    return (uint64_t)(now + clock_error);
}

static void pass(double nanoseconds)
{
    now += nanoseconds;
    clock_error += nanoseconds * (clock_rate - 1);
}

uint64_t fake_counter(void)
{
    pass(4);
    uint64_t count = count_now();
    pass(4);
    return count;
}

uint64_t fake_clock(clockid_t id)
{
    clock_readings++;
    pass(10);
    uint64_t instant = clock_now() + (id == CLOCK_BOOTTIME ? (uint64_t)suspended : 0);
    pass(10 + (double)held_up);
    held_up = 0;
    return instant;
}

static void set_counter_rate(double rate)
{
    count_then = (double)count_now();
    now_then = now;
    counter_rate = rate;
}

/* One reading: not early, and late by no more than `late`. */
static uint64_t take(uint64_t late)
{
    uint64_t before = clock_now();
    uint64_t instant = hwt_counter_now();
    ck_assert_uint_ge(instant, before);
    ck_assert_uint_le(instant, clock_now() + late);
    return instant;
}

static void take_for(double nanoseconds, double between)
{
    for (double end = now + nanoseconds; now < end; pass(between))
        take(HWT_COUNTER_LATE);
}

/* How many readings of the clock a thousand calls make that follow each other at once. */
static uint64_t readings(void)
{
    uint64_t before = clock_readings;
    for (int i = 0; i < 1000; i++)
        take(HWT_COUNTER_LATE);
    return clock_readings - before;
}

static void measured(void)
{
    ck_assert(hwt_counter_is_trusted());
    take_for(2e7, 1000);
    ck_assert(hwt_counter_is_used());
}

START_TEST(the_clock_is_read_until_the_rate_is_known)
{
    ck_assert(hwt_counter_is_trusted());
    ck_assert(!hwt_counter_is_used());
    take_for(9e6, 1000);
    ck_assert(!hwt_counter_is_used());
    ck_assert_uint_ge(readings(), 1000);
    take_for(2e6, 1000);
    ck_assert(hwt_counter_is_used());
    ck_assert_uint_le(readings(), 3);
}
END_TEST

START_TEST(a_thread_that_calls_seldom_measures_too)
{
    for (int i = 0; i < 10; i++) {
        take(HWT_COUNTER_LATE);
        pass(1e8);
    }
    ck_assert(hwt_counter_is_used());
    ck_assert_uint_le(readings(), 3);
}
END_TEST

START_TEST(an_instant_is_never_early_and_never_goes_back)
{
    uint64_t seed = test_seed(), last = 0;
    measured();
    for (int i = 0; i < TIMES; i++) {
        if (i % 5000 == 0)
            clock_rate = 1 + ((double)(test_random(&seed) % 1001) - 500) / 1e6;
        uint64_t instant = take(HWT_COUNTER_LATE);
        ck_assert_uint_ge(instant, last);
        last = instant;
        pass((double)(test_random(&seed) % (test_random(&seed) % 8 == 0 ? 100000 : 100)));
    }
    ck_assert_uint_le(readings(), 3);
}
END_TEST

START_TEST(a_counter_that_stands_still_is_not_used)
{
    measured();
    take_for(5e3, 10);
    still_at = count_now();
    still = true;
    take_for(1e6, 100);
    ck_assert_uint_ge(readings(), 999);
    count_then += (double)(now - now_then) * counter_rate;
    still = false;
    take_for(3e7, 1000);
    ck_assert_uint_le(readings(), 3);
}
END_TEST

START_TEST(a_counter_that_goes_back_is_read_anew)
{
    uint64_t seed = test_seed();
    measured();
    for (int i = 0; i < TIMES; i++) {
        if (test_random(&seed) % 16 == 0)
            count_then -= (double)(test_random(&seed) % ((uint64_t)1 << test_random(&seed) % 40));
        /* It may have come to be within the reach of the anchor, just above the last count. */
        uint64_t before = clock_now();
        ck_assert_uint_ge(hwt_counter_now() + 33000, before);
        pass((double)(test_random(&seed) % 1000));
    }
}
END_TEST

START_TEST(a_counter_that_jumps_is_read_anew)
{
    uint64_t seed = test_seed();
    measured();
    for (int i = 0; i < TIMES; i++) {
        uint64_t jump = test_random(&seed) % ((uint64_t)1 << test_random(&seed) % 50);
        if (test_random(&seed) % 16 == 0)
            count_then += (double)jump;
        take(HWT_COUNTER_LATE + HWT_COUNTER_REACH);
        pass((double)(test_random(&seed) % 1000));
    }
}
END_TEST

/* The first calls after the change may be wrong by the change over one reach, 13 us here. */
START_TEST(a_counter_at_another_rate_is_measured_anew)
{
    static const double rates[RATES] = { 0.5, 0.9, 1.1, 1.5, 2, 3 };
    double rate = rates[_i];
    measured();
    set_counter_rate(2.6 * rate);
    for (double end = now + 1e5; now < end; pass(50)) {
        uint64_t instant = hwt_counter_now();
        ck_assert_uint_ge(instant + 13000, clock_now());
        ck_assert_uint_le(instant, clock_now() + HWT_COUNTER_LATE + (uint64_t)(13000 * rate));
    }
    ck_assert(!hwt_counter_is_used());
    take_for(3e7, 1000);
    ck_assert(hwt_counter_is_used());
}
END_TEST

START_TEST(a_slow_drift_of_the_rate_makes_nothing_early)
{
    measured();
    for (int i = 0; i < 200; i++) {
        set_counter_rate(counter_rate * (i % 40 < 20 ? 1.001 : 0.999));
        for (double end = now + 1e6; now < end; pass(300))
            take(HWT_COUNTER_LATE + 600); /* such a small error is not seen at once */
    }
}
END_TEST

START_TEST(a_thread_that_is_held_up_while_it_reads_keeps_no_anchor)
{
    uint64_t seed = test_seed();
    measured();
    for (int i = 0; i < TIMES / 10; i++) {
        held_up = test_random(&seed) % 4 == 0 ? test_random(&seed) % 1000000 : 0;
        take(HWT_COUNTER_LATE);
        pass((double)(test_random(&seed) % 40000));
    }
}
END_TEST

START_TEST(the_machine_may_be_suspended_while_the_rate_is_measured)
{
    ck_assert(hwt_counter_is_trusted());
    take_for(5e6, 1000);
    suspended += 2e8; /* the counter went on, the monotonic clock did not */
    clock_error -= 2e8;
    pass(2e8);
    take_for(2e7, 1000);
    ck_assert_uint_le(readings(), 3);
    clock_error -= 2e8;
    suspended += 2e8;
    pass(2e8);
    take_for(4e7, 1000);
    ck_assert_uint_le(readings(), 3);
}
END_TEST

START_TEST(a_slow_counter_is_not_used)
{
    set_counter_rate(0.9);
    ck_assert(hwt_counter_is_trusted());
    take_for(1e8, 1000);
    ck_assert(!hwt_counter_is_used());
}
END_TEST

START_TEST(without_an_anchor_it_begins_with_the_clock)
{
    measured();
    take_for(1e6, 30);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        hwt_counter_drop_anchor();
        clock_error = -5e14; /* another time namespace */
        uint64_t before = clock_now();
        uint64_t instant = hwt_counter_now();
        _exit(instant >= before && instant <= clock_now() + HWT_COUNTER_LATE ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("counter");
    TCase *tcase = unit_case(suite, "counter", NULL, NULL);
    tcase_add_test(tcase, the_clock_is_read_until_the_rate_is_known);
    tcase_add_test(tcase, a_thread_that_calls_seldom_measures_too);
    tcase_add_test(tcase, an_instant_is_never_early_and_never_goes_back);
    tcase_add_test(tcase, a_counter_that_stands_still_is_not_used);
    tcase_add_test(tcase, a_counter_that_goes_back_is_read_anew);
    tcase_add_test(tcase, a_counter_that_jumps_is_read_anew);
    tcase_add_loop_test(tcase, a_counter_at_another_rate_is_measured_anew, 0, RATES);
    tcase_add_test(tcase, a_slow_drift_of_the_rate_makes_nothing_early);
    tcase_add_test(tcase, a_thread_that_is_held_up_while_it_reads_keeps_no_anchor);
    tcase_add_test(tcase, the_machine_may_be_suspended_while_the_rate_is_measured);
    tcase_add_test(tcase, a_slow_counter_is_not_used);
    tcase_add_test(tcase, without_an_anchor_it_begins_with_the_clock);
    return run_suite(suite);
}
