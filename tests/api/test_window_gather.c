/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which tick hwt_timer_new_timeout_within() gathers in, against an oracle that looks at all of
 * them: of the ticks of the window, the one whose number is divisible by the greatest power of
 * two, so that windows which know nothing of each other come to the same one; or the tick at which
 * a parked loop wakes anyway, if it is in the window. The deadline is the begin of that tick, or
 * `earliest` if that is later.
 */

#include "api_fixture.h"

static manual m;
static ends e;

static unsigned roundness(uint64_t tick)
{
    return tick == 0 ? 64 : (unsigned)__builtin_ctzll(tick);
}

/* Of the instants, since the start, of a window. */
static uint64_t gathered_at(uint64_t earliest, uint64_t latest, uint64_t tick)
{
    uint64_t best = earliest / tick;
    for (uint64_t t = earliest / tick; t <= latest / tick; t++)
        best = roundness(t) > roundness(best) ? t : best;
    return best * tick > earliest ? best * tick : earliest;
}

/* The instant since the start that the timer chooses; nothing is pending before or after. */
static uint64_t chosen_at(uint64_t earliest, uint64_t latest)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_within(m.timer, &counting, &e, earliest, latest, &timeout) == 0);
    uint64_t at = m.now - m.start + hwt_timeout_remaining(timeout);
    must(hwt_timeout_cancel(timeout));
    return at;
}

static void expect_gathered(uint64_t earliest, uint64_t latest, uint64_t tick)
{
    uint64_t now = m.now - m.start;
    uint64_t wanted = gathered_at(now + earliest, now + latest, tick);
    uint64_t chosen = chosen_at(earliest, latest);
    if (chosen != wanted)
        ck_abort_msg("at %" PRIu64 ", from %" PRIu64 " to %" PRIu64 " with ticks of %" PRIu64
                     ": %" PRIu64 ", the oracle says %" PRIu64,
                     now, earliest, latest, tick, chosen, wanted);
}

/* All windows of up to 40 ticks that begin in the first 300, to the tick and one ns beside it. */
START_TEST(every_small_window_is_gathered_as_the_oracle_says)
{
    const uint64_t tick = HWT_US(1);
    manual_open(&m, 77, tick, 64);
    for (uint64_t first = 0; first < 300; first++) {
        for (uint64_t width = 0; width <= 40; width++) {
            expect_gathered(first * tick, (first + width) * tick, tick);
            expect_gathered(first * tick + 1, (first + width) * tick + 1, tick);
            expect_gathered(first * tick + tick - 1, (first + width) * tick + tick - 1, tick);
            expect_gathered(first * tick, (first + width) * tick + tick - 1, tick);
        }
    }
    manual_close(&m);
}
END_TEST

START_TEST(windows_of_any_place_and_width_are_gathered_as_the_oracle_says)
{
    static const uint64_t ticks[] = { HWT_US(1), 1001, 1024, HWT_MS(1), HWT_MS(100), HWT_SEC(7) };
    uint64_t seed = test_seed() + (uint64_t)_i, tick = ticks[_i];
    manual_open(&m, test_random(&seed) >> 20, tick, 64);
    for (int i = 0; i < 5000; i++) {
        uint64_t earliest = test_random(&seed) >> (8 + test_random(&seed) % 50);
        uint64_t width =
            test_random(&seed) % (tick * (1 + (UINT64_C(1) << test_random(&seed) % 11)));
        width = test_random(&seed) % 8 == 0 ? 0 : width;
        atomic_store(&m.now, m.now + test_random(&seed) % (3 * tick));
        expect_gathered(earliest, earliest + width, tick);
    }
    manual_close(&m);
}
END_TEST

/* ---- beside a loop that is parked ---- */

/* The loop wakes at the end of the tick of the one that is pending, and runs both then. */
START_TEST(a_window_that_has_the_next_wakeup_in_it_does_not_add_one)
{
    const uint64_t tick = HWT_MS(1);
    uint64_t seed = test_seed();
    manual_open(&m, 12345, tick, 64);
    ck_assert_int_ge(hwt_timer_fd(m.timer), 0);
    for (int i = 0; i < 2000; i++) {
        uint64_t delay = HWT_SEC(1) + test_random(&seed) % HWT_SEC(50);
        arm(m.timer, &counting, &e, delay);
        uint64_t wakes = hwt_timer_next_tick(m.timer);
        uint64_t after = wakes - m.now;
        uint64_t earliest = test_random(&seed) % (after - tick);
        uint64_t latest = after + test_random(&seed) % HWT_SEC(1);
        hwt_timeout timeout;
        must(hwt_timer_new_timeout_within(m.timer, &counting, &e, earliest, latest, &timeout) == 0);
        uint64_t chosen = hwt_timeout_remaining(timeout);
        must(chosen >= earliest && chosen <= latest);
        must(hwt_timer_next_tick(m.timer) == wakes);
        atomic_store(&m.now, wakes);
        if (hwt_timer_dispatch(m.timer) != 2 || hwt_timer_next_tick(m.timer) != HWT_NEVER)
            ck_abort_msg("window %d: the loop wakes once more for it", i);
    }
    manual_close(&m);
}
END_TEST

/* Before it wakes, and after. */
START_TEST(a_window_that_does_not_have_the_next_wakeup_in_it_is_gathered_as_ever)
{
    const uint64_t tick = HWT_MS(1);
    uint64_t seed = test_seed();
    manual_open(&m, 12345, tick, 64);
    ck_assert_int_ge(hwt_timer_fd(m.timer), 0);
    for (int i = 0; i < 2000; i++) {
        hwt_timeout near =
            arm(m.timer, &counting, &e, HWT_SEC(50) + test_random(&seed) % HWT_SEC(1));
        uint64_t after = hwt_timer_next_tick(m.timer) - m.now;
        uint64_t width = test_random(&seed) % HWT_SEC(1);
        expect_gathered(after - HWT_SEC(2), after - HWT_SEC(2) + width, tick);
        hwt_timer_next_tick(m.timer); /* parks again */
        expect_gathered(after + tick, after + tick + width, tick);
        must(hwt_timeout_cancel(near));
        hwt_timer_next_tick(m.timer);
        atomic_store(&m.now, m.now + test_random(&seed) % (3 * tick));
    }
    manual_close(&m);
}
END_TEST

START_TEST(the_first_ticks_and_the_edges_of_windows_are_as_the_oracle_says)
{
    const uint64_t tick = HWT_MS(1);
    manual_open(&m, 0, tick, 64);
    expect_gathered(0, 0, tick);
    expect_gathered(0, HWT_SEC(1), tick); /* tick 0 is the roundest of all */
    expect_gathered(1, HWT_SEC(1), tick);
    expect_gathered(tick, tick, tick);
    expect_gathered(tick - 1, tick, tick);
    expect_gathered(512 * tick, 512 * tick, tick);
    expect_gathered(511 * tick, 513 * tick, tick);
    expect_gathered(513 * tick, 1023 * tick, tick);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: where windows gather");
    TCase *tcase = add_case(suite, "gather");
    tcase_add_test(tcase, every_small_window_is_gathered_as_the_oracle_says);
    tcase_add_loop_test(tcase, windows_of_any_place_and_width_are_gathered_as_the_oracle_says, 0,
                        6);
    tcase_add_test(tcase, a_window_that_has_the_next_wakeup_in_it_does_not_add_one);
    tcase_add_test(tcase, a_window_that_does_not_have_the_next_wakeup_in_it_is_gathered_as_ever);
    tcase_add_test(tcase, the_first_ticks_and_the_edges_of_windows_are_as_the_oracle_says);
    return run_suite(suite);
}
