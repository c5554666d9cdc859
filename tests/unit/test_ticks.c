/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Instants and ticks, from the start of time to its end. */

#include "wheel_fixture.h"

static const uint64_t starts[] = { 0, 1, INT64_MAX, UINT64_MAX - 1000000 };
enum { STARTS = sizeof(starts) / sizeof(*starts) };

START_TEST(a_tick_ends_at_its_last_nanosecond_wherever_time_starts)
{
    static const uint64_t durations[] = { 8, 9, 1000, 999983 };
    for (int d = 0; d < 4; d++) {
        uint64_t start = starts[_i], duration = durations[d];
        open_wheel(start, duration, 8);
        must(hwt_ticks_at(&wheel.ticks, start) == 0);
        must(hwt_ticks_at(&wheel.ticks, 0) == 0); /* the past is tick 0 */
        must(hwt_ticks_at(&wheel.ticks, start + duration - 1) == 0);
        must(hwt_ticks_at(&wheel.ticks, start + duration) == 1);
        must(hwt_ticks_instant(&wheel.ticks, 0) == start);
        must(hwt_ticks_instant(&wheel.ticks, 1) == start + duration);
        uint64_t last = wheel.ticks.last;
        must(hwt_ticks_at(&wheel.ticks, UINT64_MAX) == last);
        must(hwt_ticks_instant(&wheel.ticks, last) <= UINT64_MAX);
        must(UINT64_MAX - hwt_ticks_instant(&wheel.ticks, last) < duration);
        must(last == UINT64_MAX || hwt_ticks_instant(&wheel.ticks, last + 1) == UINT64_MAX);
        must(hwt_ticks_instant(&wheel.ticks, UINT64_MAX) == UINT64_MAX);
        close_wheel();
    }
}
END_TEST

START_TEST(each_deadline_of_a_tick_is_taken_with_it)
{
    open_wheel(starts[_i], 1000, 8);
    for (uint64_t tick = 0; tick < 30; tick++) {
        uint64_t begins = hwt_ticks_instant(&wheel.ticks, tick);
        file_at(0, begins);
        file_at(1, begins + 1);
        file_at(2, begins + 999);
        must(next() == tick);
        must(take(tick + 1, MANY) == 3);
        must(take(tick + 1, MANY) == 0);
    }
    close_wheel();
}
END_TEST

START_TEST(what_ends_past_the_end_of_time_never_comes)
{
    open_wheel(starts[_i], 1000, 8);
    uint64_t last = wheel.ticks.last;
    file_at(0, UINT64_MAX);
    file(1, last);
    file(2, UINT64_MAX);
    expect_none();
    must(is_after(0, 0) && is_after(1, last - 1) && !is_after(1, last));
    if (last < AGE) { /* near enough to be filed in its own round */
        file(3, last - 1);
        must(next() == last - 1);
        must(take(last - 1, MANY) == 0);
        must(take(last, MANY) == 1 && batch[0] == 3);
    }
    drop(0);
    drop(1);
    drop(2);
    expect_none();
    close_wheel();
}
END_TEST

START_TEST(after_the_end_of_time_there_is_one_tick_to_file_for)
{
    static const uint64_t limits[] = { 0, 1, UINT64_MAX }; /* the first two: after `last` */
    for (int i = 0; i < 3; i++) {
        open_wheel(starts[_i], 1000, 8);
        uint64_t last = wheel.ticks.last;
        uint64_t limit = limits[i] == UINT64_MAX ? UINT64_MAX : last + limits[i];
        file(0, UINT64_MAX);
        must(take(limit, MANY) == 0 && !far);
        must(wheel.tick == last - 1);
        file(1, 5);
        expect_one(1, last - 1);
        must(take(UINT64_MAX, MANY) == 0 && wheel.tick == last - 1);
        drop(0);
        close_wheel();
    }
}
END_TEST

START_TEST(a_division_by_the_tick_is_exact)
{
    static const uint64_t edges[] = { 0, 1, 7, UINT64_C(1) << 32, INT64_MAX, UINT64_MAX };
    uint64_t seed = test_seed();
    for (int n = 0; n < 2000000; n++) {
        uint64_t duration = test_random(&seed) >> test_random(&seed) % 64;
        uint64_t dividend = test_random(&seed) >> test_random(&seed) % 64;
        if (n % 4 == 0)
            duration = edges[test_random(&seed) % 6] - test_random(&seed) % 3;
        if (n % 3 == 0 && duration > 0)
            dividend = dividend / duration * duration - n % 2;
        else if (n % 5 == 0)
            dividend = edges[test_random(&seed) % 6] - test_random(&seed) % 3;
        if (duration == 0)
            continue;
        const struct hwt_ticks ticks = hwt_ticks_init(0, duration);
        if (hwt_ticks_divide(&ticks, dividend) != dividend / duration)
            ck_abort_msg("%" PRIu64 " / %" PRIu64, dividend, duration);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ticks");
    TCase *ticks = unit_case(suite, "ticks", open_places, close_places);
    tcase_add_loop_test(ticks, a_tick_ends_at_its_last_nanosecond_wherever_time_starts, 0, STARTS);
    tcase_add_loop_test(ticks, each_deadline_of_a_tick_is_taken_with_it, 0, STARTS);
    tcase_add_loop_test(ticks, what_ends_past_the_end_of_time_never_comes, 0, STARTS);
    tcase_add_loop_test(ticks, after_the_end_of_time_there_is_one_tick_to_file_for, 0, STARTS);
    tcase_add_test(ticks, a_division_by_the_tick_is_exact);
    return run_suite(suite);
}
