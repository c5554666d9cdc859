/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Deadlines some hundred million ticks away, beside powers of two of them, where a wheel that counts
 * rounds or keeps what is far apart goes on to the next part of its numbers: each runs in its tick, in
 * the order in which it was added, however it came there. The tick is a microsecond, and the clock
 * is set.
 */

#include "api_fixture.h"

#define TICK HWT_US(1)

enum { POWER_FIRST = 16, POWER_LAST = 40, AROUND = 3, NOTED = 8 };

static manual m;
static int order[NOTED];
static size_t noted;

static void note(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    must(noted < NOTED);
    order[noted++] = (int)(intptr_t)arg;
}

static const hwt_task noting = { note, NULL };

static void open_kind(int one_thread)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.ticks_per_wheel = 512;
    options.flags = one_thread ? HWT_ONE_THREAD : 0;
    manual_open_with(&m, HWT_SEC(5), options);
    noted = 0;
}

/* In the middle of the tick. */
static hwt_timeout add(int name, uint64_t tick)
{
    hwt_timeout timeout;
    ck_assert_int_eq(hwt_timer_new_timeout_at(m.timer, &noting, (void *)(intptr_t)name,
                                              m.start + tick * TICK + TICK / 2, &timeout),
                     0);
    return timeout;
}

static void check_order(const int *expected, size_t count)
{
    ck_assert_uint_eq(noted, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(order[i], expected[i]);
    noted = 0;
}

/* Nothing of the tick before its end, all of it then. */
static void pass_tick(uint64_t tick, const int *expected, size_t count)
{
    manual_go(&m, (tick + 1) * TICK - 1);
    ck_assert_uint_eq(noted, 0);
    ck_assert_uint_le(hwt_timer_next_tick(m.timer) - m.start, (tick + 1) * TICK);
    manual_go(&m, (tick + 1) * TICK);
    check_order(expected, count);
}

/* Some were added long before, some when it is near: they run in that order. */
START_TEST(early_and_late_adds_of_a_tick_keep_their_order)
{
    for (int power = POWER_FIRST; power <= POWER_LAST; power++) {
        for (int past = -AROUND; past <= AROUND; past++) {
            uint64_t tick = ((uint64_t)1 << power) + (uint64_t)(int64_t)past;
            open_kind(_i);
            add(1, tick);
            add(2, tick);
            manual_go(&m, (tick - 1000) * TICK);
            add(3, tick);
            manual_go(&m, (tick - 1) * TICK);
            add(4, tick);
            pass_tick(tick, (const int[]){ 1, 2, 3, 4 }, 4);
            manual_close(&m);
        }
    }
}
END_TEST

/* One tick after the other, over the boundary. */
START_TEST(each_tick_beside_a_boundary_has_its_own)
{
    for (int power = POWER_FIRST; power <= POWER_LAST; power++) {
        uint64_t middle = ((uint64_t)1 << power) * 3;
        open_kind(_i);
        for (int past = -AROUND; past <= AROUND; past++)
            add(past, middle + (uint64_t)(int64_t)past);
        for (int past = -AROUND; past <= AROUND; past++)
            pass_tick(middle + (uint64_t)(int64_t)past, &past, 1);
        ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
        manual_close(&m);
    }
}
END_TEST

/* Moved over the boundary and back; a leap over several parts of the numbers at once. */
START_TEST(what_is_moved_over_a_boundary_runs_where_it_was_moved_to)
{
    for (int power = POWER_FIRST; power <= POWER_LAST; power++) {
        uint64_t middle = (uint64_t)1 << power;
        open_kind(_i);
        hwt_timeout far = add(1, middle + 5), near = add(2, 5), back = add(3, 7);
        add(4, 4 * middle + 1);
        ck_assert(hwt_timeout_reschedule_at(far, m.start + 6 * TICK));
        ck_assert(hwt_timeout_reschedule_at(near, m.start + (middle + 5) * TICK));
        ck_assert(hwt_timeout_reschedule_at(back, m.start + (middle + 9) * TICK));
        pass_tick(6, (const int[]){ 1 }, 1);
        ck_assert(hwt_timeout_reschedule_at(back, m.start + 8 * TICK));
        pass_tick(8, (const int[]){ 3 }, 1);
        pass_tick(middle + 5, (const int[]){ 2 }, 1);
        manual_go(&m, (4 * middle + 2) * TICK - 1);
        ck_assert_uint_eq(noted, 0);
        manual_go(&m, 4 * middle * 16 * TICK);
        check_order((const int[]){ 4 }, 1);
        manual_close(&m);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: far ticks");
    TCase *tcase = add_case(suite, "ages");
    tcase_add_loop_test(tcase, early_and_late_adds_of_a_tick_keep_their_order, 0, 2);
    tcase_add_loop_test(tcase, each_tick_beside_a_boundary_has_its_own, 0, 2);
    tcase_add_loop_test(tcase, what_is_moved_over_a_boundary_runs_where_it_was_moved_to, 0, 2);
    return run_suite(suite);
}
