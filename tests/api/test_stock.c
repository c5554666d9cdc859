/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a timer keeps in stock of the memory of ended timeouts: it serves new ones, whichever thread
 * has given it back; a quarter of what is in use stays, more goes; and what has gone and serves
 * again knows nothing of the timeouts that it was for.
 *
 * Here time is set: nothing depends on how fast the machine is.
 */

#include "api_fixture.h"

#define LATER HWT_SEC(3600)

enum { PEAK = 200000 };

static manual m;
static uint64_t since_start;
static ends counts;
static hwt_timeout peak[PEAK];

static const hwt_task quiet = { count_run, NULL };

static uint64_t memory(void)
{
    return stats_of(m.timer).memory;
}

static void pass_ms(uint64_t ms)
{
    for (uint64_t end = since_start + HWT_MS(ms); since_start < end; since_start += HWT_MS(10))
        manual_go(&m, since_start);
}

static void open_with(uint32_t flags, uint32_t wheel)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.ticks_per_wheel = wheel;
    options.flags = flags;
    memset(&counts, 0, sizeof(counts));
    since_start = 0;
    manual_open_with(&m, HWT_SEC(1), options);
}

/* In the order of their memory. */
static void arm_peak(uint64_t delay)
{
    for (int i = 0; i < PEAK; i++)
        peak[i] = arm(m.timer, &quiet, &counts, delay);
    pass_ms(10);
}

static void cancel_peak(int from, int end)
{
    for (int i = from; i < end; i++)
        must(hwt_timeout_cancel(peak[i]));
}

/* ---- whose memory serves whom ---- */

static void *arm_and_cancel_some(void *arg)
{
    enum { SOME = 40 };
    hwt_timeout its[SOME];
    (void)arg;
    for (int i = 0; i < SOME; i++)
        its[i] = arm(m.timer, &quiet, &counts, LATER);
    for (int i = 0; i < SOME; i++)
        must(hwt_timeout_cancel(its[i]));
    return NULL;
}

START_TEST(what_ended_threads_have_given_back_serves_the_next_ones)
{
    open_with(0, 512);
    join(spawn(arm_and_cancel_some, NULL));
    uint64_t before = memory();
    for (int i = 0; i < 600; i++)
        join(spawn(arm_and_cancel_some, NULL));
    ck_assert_uint_le(memory(), before + (256 << 10));
    manual_close(&m);
}
END_TEST

/* ---- how much stays ---- */

START_TEST(more_than_a_quarter_of_what_is_in_use_goes)
{
    open_with(_i ? HWT_ONE_THREAD : 0, 512);
    arm_peak(LATER);
    uint64_t before = memory();
    cancel_peak(0, PEAK / 10 * 4);
    pass_ms(20000);
    ck_assert_uint_le(memory(), before / 100 * 75);
    manual_close(&m);
}
END_TEST

START_TEST(less_than_a_quarter_of_what_is_in_use_stays)
{
    open_with(_i ? HWT_ONE_THREAD : 0, 512);
    arm_peak(LATER);
    uint64_t before = memory();
    cancel_peak(0, PEAK / 100 * 15);
    pass_ms(20000);
    ck_assert_uint_ge(memory(), before / 100 * 98);
    manual_close(&m);
}
END_TEST

/* ---- what serves again ---- */

START_TEST(memory_that_went_and_serves_again_is_no_old_handles)
{
    open_with(_i ? HWT_ONE_THREAD : 0, 512);
    for (int times = 0; times < 3; times++) {
        arm_peak(LATER);
        uint64_t most = memory();
        cancel_peak(0, PEAK);
        pass_ms(20000);
        ck_assert_uint_le(memory(), most / 4);
        /* As many again are pending where these were, and none of them is an old one. */
        for (int i = 0; i < PEAK; i++)
            must(hwt_timer_new_timeout(m.timer, &quiet, &counts, HWT_MS(100), NULL) == 0);
        for (int i = 0; i < PEAK; i++)
            must(hwt_timeout_state(peak[i]) == HWT_GONE && !hwt_timeout_cancel(peak[i]));
        pass_ms(200);
        ck_assert_uint_eq(counts.runs, (uint64_t)PEAK * (uint64_t)(times + 1));
    }
    manual_close(&m);
}
END_TEST

/* In the first half so many stay pending that no memory of it goes, and in the second none: it goes. What
 * ended is gone where its memory is, and is cancelled where that has stayed. */
START_TEST(what_ended_is_gone_only_if_its_memory_is)
{
    enum { HALF = PEAK / 2, ENDED = HALF - HALF / 200 };
    uint64_t stayed = 0, gone = 0;
    open_with(_i ? HWT_ONE_THREAD : 0, 512);
    arm_peak(LATER);
    uint64_t before = memory();
    for (int i = 0; i < HALF; i++)
        must(i % 200 == 0 || hwt_timeout_cancel(peak[i]));
    cancel_peak(HALF, PEAK);
    pass_ms(20000);
    ck_assert_uint_le(memory(), before / 4 * 3);
    for (int i = 0; i < PEAK; i++) {
        hwt_state state = hwt_timeout_state(peak[i]);
        must(state == HWT_GONE ||
             state == (i < HALF && i % 200 == 0 ? HWT_PENDING : HWT_CANCELLED));
        stayed += i < HALF && state == HWT_CANCELLED;
        gone += i >= HALF && state == HWT_GONE;
    }
    ck_assert_uint_ge(stayed, ENDED / 100 * 95);
    ck_assert_uint_ge(gone, HALF / 100 * 95);
    manual_close(&m);
}
END_TEST

/* ---- what waits to be told ---- */

static uint64_t next_of_peak, most_untold;

static void cancel_the_next(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    must(hwt_timeout_cancel(peak[next_of_peak++]));
    if (next_of_peak - counts.cancelled > most_untold)
        most_untold = next_of_peak - counts.cancelled;
}

static const hwt_task canceller = { cancel_the_next, NULL };

/* As many tasks are due as are cancelled by them. */
START_TEST(what_tasks_cancel_is_told_between_them)
{
    open_with(_i ? HWT_ONE_THREAD : 0, 512);
    next_of_peak = most_untold = 0;
    for (int i = 0; i < PEAK; i++) {
        peak[i] = arm(m.timer, &counting, &counts, LATER);
        (void)arm(m.timer, &canceller, NULL, HWT_MS(5));
    }
    pass_ms(30);
    ck_assert_uint_eq(next_of_peak, PEAK);
    ck_assert_uint_eq(counts.cancelled, PEAK);
    ck_assert_uint_le(most_untold, PEAK / 20);
    manual_close(&m);
}
END_TEST

/* ---- what is kept for timeouts that have ended ---- */

enum { WINDOW = 300000, TURNS = 3 };

/*
 * Of 300000 timeouts each is cancelled and armed again, over and over. What the timer holds beside
 * their entries, for those that are pending and for those that are not any more, is little more
 * than for 300000. Each loop: nobody drives it, so that all waits to be filed; or all is filed.
 */
START_TEST(of_very_many_little_is_kept_that_has_ended)
{
    static hwt_timeout window[WINDOW];
    static const uint64_t bounds[] = { 63 * (uint64_t)WINDOW, 71 * (uint64_t)WINDOW };
    uint64_t seed = test_seed(), most = 0;
    memset(window, 0, sizeof(window)); /* without forks it has the last loop's */
    open_with(0, 512);
    uint64_t before = memory();
    for (uint64_t i = 0; i < (uint64_t)TURNS * WINDOW; i++) {
        (void)hwt_timeout_cancel(window[i % WINDOW]);
        window[i % WINDOW] =
            arm(m.timer, &quiet, &counts, LATER + test_random(&seed) % HWT_SEC(16));
        if (i % 10000 == 0) {
            if (_i)
                pass_ms(10);
            most = memory() > most ? memory() : most;
        }
    }
    printf("%.1f bytes a timeout\n", (double)(most - before) / WINDOW);
    ck_assert_uint_le(most - before, bounds[_i]);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: stock");
    TCase *ended = add_case(suite, "ended");
    tcase_add_loop_test(ended, of_very_many_little_is_kept_that_has_ended, 0, 2);
    TCase *served = add_case(suite, "serves");
    tcase_add_test(served, what_ended_threads_have_given_back_serves_the_next_ones);
    tcase_add_loop_test(served, memory_that_went_and_serves_again_is_no_old_handles, 0, 2);
    tcase_add_loop_test(served, what_ended_is_gone_only_if_its_memory_is, 0, 2);
    TCase *stays = add_case(suite, "stays");
    tcase_add_loop_test(stays, more_than_a_quarter_of_what_is_in_use_goes, 0, 2);
    tcase_add_loop_test(stays, less_than_a_quarter_of_what_is_in_use_stays, 0, 2);
    TCase *told = add_case(suite, "told");
    tcase_add_loop_test(told, what_tasks_cancel_is_told_between_them, 0, 2);
    return run_suite(suite);
}
