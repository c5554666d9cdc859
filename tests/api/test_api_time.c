/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The promises on time, with a clock that is set: never early, at most a tick late, the
 * order of tasks, leaps, saturation.
 */

#include "api_fixture.h"

static manual m;

/* ---- A log of runs: who, when, in what order ---- */

#define LOG_ROOM 200000

typedef struct entry {
    uint64_t deadline; /* since start */
    uint64_t ran_at;   /* since start */
    uint32_t runs, place;
} entry;

static entry entries[LOG_ROOM];
static uint32_t places;

static void log_run(hwt_timeout timeout, void *arg)
{
    entry *e = arg;
    (void)timeout;
    e->runs++;
    e->place = places++;
    e->ran_at = m.now - m.start;
}

static const hwt_task logging = { log_run, NULL };

static void open_log(uint64_t start, uint64_t tick, uint32_t wheel)
{
    places = 0;
    manual_open(&m, start, tick, wheel);
}

static hwt_timeout arm_entry(size_t i, uint64_t deadline)
{
    hwt_timeout timeout;
    entries[i] = (entry){ deadline, 0, 0, 0 };
    must(hwt_timer_new_timeout_at(m.timer, &logging, &entries[i], m.start + deadline, &timeout) ==
         0);
    return timeout;
}

/* ---- Never early, at most a tick late ---- */

static void assert_on_time(const entry *e, uint64_t tick)
{
    must(e->runs == 1);
    must(e->ran_at >= e->deadline);
    must(e->ran_at - e->deadline <= tick);
}

static void run_random_deadlines(uint64_t tick, uint32_t wheel, uint64_t *seed)
{
    open_log(test_random(seed) >> 8, tick, wheel);
    uint64_t span = 3 * tick * wheel;
    for (size_t i = 0; i < 300; i++)
        arm_entry(i, test_random(seed) % span);
    for (uint64_t t = 0; t <= 3 * (uint64_t)wheel + 1; t++)
        manual_go(&m, t * tick);
    for (size_t i = 0; i < 300; i++)
        assert_on_time(&entries[i], tick);
    manual_close(&m);
}

START_TEST(every_task_runs_within_one_tick_after_its_deadline)
{
    uint64_t seed = test_seed();
    static const uint64_t ticks[] = { 1000, 1001, 1 << 20, 99999989, HWT_MS(100), HWT_SEC(3600) };
    for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++)
        for (uint32_t wheel = 1; wheel <= 512; wheel *= 8)
            run_random_deadlines(ticks[i], wheel, &seed);
}
END_TEST

START_TEST(no_task_is_early_however_the_clock_goes)
{
    uint64_t seed = test_seed(), now = 0;
    open_log(1, HWT_MS(1), 32);
    for (size_t i = 0; i < 2000; i++) {
        arm_entry(i, now + test_random(&seed) % HWT_MS(100));
        now += test_random(&seed) % HWT_US(2500);
        manual_go(&m, now);
    }
    manual_go(&m, now + HWT_MS(102));
    for (size_t i = 0; i < 2000; i++) {
        must(entries[i].runs == 1);
        must(entries[i].ran_at >= entries[i].deadline);
    }
    manual_close(&m);
}
END_TEST

START_TEST(a_tick_is_handled_at_its_end_and_not_a_nanosecond_before)
{
    open_log(5, 7777, 16);
    for (uint64_t k = 1; k < 100; k++) {
        arm_entry(0, k * 7777 + 3000);
        manual_go(&m, (k + 1) * 7777 - 1);
        ck_assert_uint_eq(entries[0].runs, 0);
        manual_go(&m, (k + 1) * 7777);
        ck_assert_uint_eq(entries[0].runs, 1);
    }
    manual_close(&m);
}
END_TEST

START_TEST(a_wheel_is_rounded_up_to_a_power_of_two)
{
    for (uint32_t wheel = 1; wheel <= 17; wheel++) {
        open_log(0, HWT_MS(1), wheel);
        for (size_t i = 0; i < 100; i++)
            arm_entry(i, HWT_MS(i));
        for (uint64_t t = 1; t <= 100; t++)
            ck_assert_uint_eq(manual_go(&m, HWT_MS(t)), 1);
        manual_close(&m);
    }
}
END_TEST

START_TEST(a_clock_that_goes_back_runs_nothing_twice)
{
    open_log(HWT_SEC(1), HWT_MS(1), 16);
    arm_entry(0, HWT_MS(5));
    arm_entry(1, HWT_MS(50));
    manual_go(&m, HWT_MS(20));
    ck_assert_uint_eq(hwt_timer_advance(m.timer, HWT_SEC(1)), 0);
    ck_assert_uint_eq(hwt_timer_advance(m.timer, 0), 0);
    ck_assert_uint_eq(entries[0].runs, 1);
    manual_go(&m, HWT_MS(51));
    ck_assert_uint_eq(entries[1].runs, 1);
    manual_close(&m);
}
END_TEST

/* ---- Order ---- */

START_TEST(within_a_tick_tasks_start_in_the_order_they_were_added)
{
    open_log(0, HWT_MS(1), 64);
    for (size_t i = 0; i < 5000; i++)
        arm_entry(i, HWT_MS(10) + HWT_US(999) - i % 1000);
    manual_go(&m, HWT_MS(11));
    for (size_t i = 0; i < 5000; i++)
        must(entries[i].place == i);
    manual_close(&m);
}
END_TEST

START_TEST(order_within_a_tick_does_not_depend_on_when_they_were_added)
{
    open_log(0, HWT_MS(1), 8);
    for (size_t i = 0; i < 300; i++) {
        arm_entry(i, HWT_MS(400));
        manual_go(&m, HWT_MS(i));
    }
    manual_go(&m, HWT_MS(401));
    for (size_t i = 0; i < 300; i++)
        must(entries[i].place == i);
    manual_close(&m);
}
END_TEST

START_TEST(cancelled_ones_leave_the_order_of_the_others)
{
    static hwt_timeout timeouts[1000];
    uint64_t seed = test_seed();
    open_log(0, HWT_MS(1), 8);
    for (size_t i = 0; i < 1000; i++)
        timeouts[i] = arm_entry(i, HWT_MS(i % 2 ? 100 : 20));
    manual_go(&m, HWT_MS(5));
    for (size_t i = 0; i < 1000; i++)
        if (test_random(&seed) % 3)
            must(hwt_timeout_cancel(timeouts[i]));
    manual_go(&m, HWT_MS(50));
    manual_go(&m, HWT_MS(101));
    for (size_t half = 0; half < 2; half++) {
        uint32_t last = 0;
        for (size_t i = half; i < 1000; i += 2) {
            must(!entries[i].runs || entries[i].place >= last);
            last = entries[i].runs ? entries[i].place + 1 : last;
        }
    }
    manual_close(&m);
}
END_TEST

/* Of the first `count` entries: by tick, and within a tick by index. */
static void assert_ordered(size_t count, uint64_t tick)
{
    static uint32_t by_place[LOG_ROOM];
    for (size_t i = 0; i < count; i++) {
        must(entries[i].runs == 1);
        by_place[entries[i].place] = (uint32_t)i;
    }
    for (size_t p = 1; p < count; p++) {
        uint32_t a = by_place[p - 1], b = by_place[p];
        uint64_t tick_a = entries[a].deadline / tick, tick_b = entries[b].deadline / tick;
        if (tick_a > tick_b || (tick_a == tick_b && a > b))
            ck_abort_msg("entry %u ran before entry %u", a, b);
    }
}

START_TEST(tasks_of_an_earlier_tick_start_before_those_of_a_later_one)
{
    uint64_t seed = test_seed();
    open_log(99, HWT_MS(1), 16);
    for (size_t i = 0; i < 3000; i++)
        arm_entry(i, test_random(&seed) % HWT_MS(200));
    manual_go(&m, HWT_MS(201));
    assert_ordered(3000, HWT_MS(1));
    manual_close(&m);
}
END_TEST

/* ---- Leaps: an hour at 1 ms is 3.6e6 ticks, a year 3.2e10: only steps by tick hang ---- */

static void leap(uint64_t distance, size_t count)
{
    uint64_t seed = test_seed();
    open_log(HWT_SEC(3), HWT_MS(1), 512);
    for (size_t i = 0; i < count; i++)
        arm_entry(i, test_random(&seed) % distance);
    manual_go(&m, 0);
    ck_assert_uint_eq(manual_go(&m, distance + HWT_MS(1)), count);
    assert_ordered(count, HWT_MS(1));
    manual_close(&m);
}

START_TEST(a_leap_of_an_hour_runs_each_once_and_in_order)
{
    leap(HWT_SEC(3600), 100000);
}
END_TEST

START_TEST(a_leap_of_a_year_runs_each_once_and_in_order)
{
    leap(HWT_SEC(3600) * 24 * 365, LOG_ROOM);
}
END_TEST

START_TEST(leaps_of_a_year_before_the_deadlines_run_nothing)
{
    const uint64_t year = HWT_SEC(3600) * 24 * 365;
    open_log(0, HWT_MS(1), 512);
    for (size_t i = 0; i < 100000; i++)
        arm_entry(i, 100 * year + HWT_MS(i));
    for (uint64_t y = 1; y < 100; y++)
        ck_assert_uint_eq(manual_go(&m, y * year), 0);
    ck_assert_uint_eq(manual_go(&m, 100 * year), 0);
    ck_assert_uint_eq(manual_go(&m, 100 * year + HWT_MS(1)), 1);
    ck_assert_uint_eq(manual_go(&m, 100 * year + HWT_SEC(100)), 99999);
    assert_ordered(100000, HWT_MS(1));
    manual_close(&m);
}
END_TEST

START_TEST(a_leap_over_an_empty_wheel_keeps_the_ticks_true)
{
    const uint64_t year = HWT_SEC(3600) * 24 * 365;
    open_log(0, HWT_MS(1), 512);
    for (uint64_t y = 1; y < 50; y++) {
        manual_go(&m, y * year + HWT_US(300));
        arm_entry(0, y * year + HWT_MS(700) + HWT_US(1));
        ck_assert_uint_eq(manual_go(&m, y * year + HWT_MS(701) - 1), 0);
        ck_assert_uint_eq(manual_go(&m, y * year + HWT_MS(701)), 1);
    }
    manual_close(&m);
}
END_TEST

/* ---- Saturation, at clocks that start anywhere ---- */

static const uint64_t starts[] = { 0, 1, INT64_MAX, UINT64_MAX - HWT_SEC(20) };

START_TEST(short_delays_run_and_endless_ones_do_not_wherever_the_clock_starts)
{
    ends brief = { 0 }, endless = { 0 };
    open_log(starts[_i], HWT_MS(1), 64);
    arm(m.timer, &counting, &brief, 0);
    arm(m.timer, &counting, &brief, 1);
    hwt_timeout never = arm(m.timer, &counting, &endless, UINT64_MAX);
    arm(m.timer, &counting, &endless, INT64_MAX);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1) - 1), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1)), 2);
    ck_assert_uint_eq(brief.runs, 2);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(19)), 0);
    ck_assert_uint_eq(endless.runs, 0);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 2);
    ck_assert_uint_eq(hwt_timeout_remaining(never), HWT_NEVER);
    manual_close(&m);
    ck_assert_uint_eq(endless.cancelled, 2);
}
END_TEST

START_TEST(delays_run_on_time_wherever_the_clock_starts)
{
    uint64_t seed = test_seed();
    open_log(starts[_i], HWT_MS(1), 16);
    for (size_t i = 0; i < 500; i++)
        arm_entry(i, test_random(&seed) % HWT_MS(300));
    for (uint64_t t = 1; t <= 301; t++)
        manual_go(&m, HWT_MS(t));
    for (size_t i = 0; i < 500; i++)
        assert_on_time(&entries[i], HWT_MS(1));
    manual_close(&m);
}
END_TEST

START_TEST(an_instant_before_the_start_is_due_in_the_next_tick)
{
    ends e = { 0 };
    open_log(starts[_i], HWT_MS(1), 16);
    ck_assert_int_eq(hwt_timer_new_timeout_at(m.timer, &counting, &e, 0, NULL), 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(m.timer, &counting, &e, starts[_i] / 2, NULL), 0);
    manual_go(&m, HWT_MS(1));
    ck_assert_uint_eq(e.runs, 2);
    manual_close(&m);
}
END_TEST

START_TEST(the_greatest_delays_keep_their_deadlines)
{
    ends e = { 0 };
    open_log(0, HWT_MS(1), 512);
    arm(m.timer, &counting, &e, INT64_MAX);
    arm(m.timer, &counting, &e, UINT64_MAX);
    const uint64_t tick_end = due_at(INT64_MAX, HWT_MS(1));
    ck_assert_uint_eq(manual_go(&m, tick_end - 1), 0);
    ck_assert_uint_eq(manual_go(&m, tick_end), 1);
    ck_assert_uint_eq(manual_go(&m, UINT64_MAX), 0);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    manual_close(&m);
}
END_TEST

START_TEST(sums_saturate_near_the_end_of_the_clock)
{
    ends e = { 0 };
    open_log(UINT64_MAX - HWT_MS(10), HWT_MS(1), 16);
    arm(m.timer, &counting, &e, HWT_MS(5));
    hwt_timeout past_the_end = arm(m.timer, &counting, &e, HWT_MS(11));
    hwt_timeout moved = arm(m.timer, &counting, &e, HWT_MS(2));
    ck_assert_uint_eq(hwt_timeout_remaining(past_the_end), HWT_NEVER);
    ck_assert(hwt_timeout_reschedule(moved, HWT_SEC(5)));
    ck_assert_uint_eq(hwt_timeout_remaining(moved), HWT_NEVER);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(6) - 1), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(6)), 1);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(10)), 0);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 2);
    manual_close(&m);
}
END_TEST

/* The longest tick: one tick may end past the last instant. */
START_TEST(a_tick_of_a_century_is_fine)
{
    ends e = { 0 };
    open_log(HWT_SEC(1), INT64_MAX, 1);
    arm(m.timer, &counting, &e, 0);
    arm(m.timer, &counting, &e, HWT_NEVER);
    ck_assert_uint_eq(manual_go(&m, (uint64_t)INT64_MAX - 1), 0);
    ck_assert_uint_eq(manual_go(&m, INT64_MAX), 1);
    manual_close(&m);
}
END_TEST

/* ---- */

static void add_accuracy(Suite *suite)
{
    TCase *tcase = add_case(suite, "accuracy");
    tcase_add_test(tcase, every_task_runs_within_one_tick_after_its_deadline);
    tcase_add_test(tcase, no_task_is_early_however_the_clock_goes);
    tcase_add_test(tcase, a_tick_is_handled_at_its_end_and_not_a_nanosecond_before);
    tcase_add_test(tcase, a_wheel_is_rounded_up_to_a_power_of_two);
    tcase_add_test(tcase, a_clock_that_goes_back_runs_nothing_twice);
}

static void add_order(Suite *suite)
{
    TCase *tcase = add_case(suite, "order");
    tcase_add_test(tcase, within_a_tick_tasks_start_in_the_order_they_were_added);
    tcase_add_test(tcase, order_within_a_tick_does_not_depend_on_when_they_were_added);
    tcase_add_test(tcase, cancelled_ones_leave_the_order_of_the_others);
    tcase_add_test(tcase, tasks_of_an_earlier_tick_start_before_those_of_a_later_one);
}

static void add_leaps(Suite *suite)
{
    TCase *tcase = add_case(suite, "leaps");
    tcase_add_test(tcase, a_leap_of_an_hour_runs_each_once_and_in_order);
    tcase_add_test(tcase, a_leap_of_a_year_runs_each_once_and_in_order);
    tcase_add_test(tcase, leaps_of_a_year_before_the_deadlines_run_nothing);
    tcase_add_test(tcase, a_leap_over_an_empty_wheel_keeps_the_ticks_true);
}

static void add_saturation(Suite *suite)
{
    const int count = sizeof(starts) / sizeof(starts[0]);
    TCase *tcase = add_case(suite, "saturation");
    tcase_add_loop_test(tcase, short_delays_run_and_endless_ones_do_not_wherever_the_clock_starts,
                        0, count);
    tcase_add_loop_test(tcase, delays_run_on_time_wherever_the_clock_starts, 0, count);
    tcase_add_loop_test(tcase, an_instant_before_the_start_is_due_in_the_next_tick, 0, count);
    tcase_add_test(tcase, the_greatest_delays_keep_their_deadlines);
    tcase_add_test(tcase, sums_saturate_near_the_end_of_the_clock);
    tcase_add_test(tcase, a_tick_of_a_century_is_fine);
}

int main(void)
{
    Suite *suite = suite_create("api: time");
    add_accuracy(suite);
    add_order(suite);
    add_leaps(suite);
    add_saturation(suite);
    return run_suite(suite);
}
