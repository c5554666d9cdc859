/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timeouts that may fire anywhere in a window: gathered. */

#include "api_fixture.h"

#define TICK HWT_MS(1)

static manual m;
static ends e;

static void open_timer(void)
{
    manual_open(&m, 12345, TICK, 512);
    e = (ends){ 0, 0, 0 };
}

static void close_timer(void)
{
    manual_close(&m);
}

/* Arms one and says in how many ns it is due. */
static uint64_t chosen(uint64_t earliest, uint64_t latest)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_within(m.timer, &counting, &e, earliest, latest, &timeout) == 0);
    return hwt_timeout_remaining(timeout);
}

START_TEST(a_deadline_is_chosen_in_the_window)
{
    uint64_t seed = test_seed();
    for (int i = 0; i < 20000; i++) {
        uint64_t earliest = test_random(&seed) >> (test_random(&seed) % 63 + 1);
        uint64_t width = test_random(&seed) >> (test_random(&seed) % 63 + 1);
        m.now += test_random(&seed) % TICK;
        uint64_t delay = chosen(earliest, earliest + width);
        must(delay >= earliest && delay <= earliest + width);
    }
}
END_TEST

START_TEST(a_window_of_no_width_is_exact)
{
    ck_assert_uint_eq(chosen(0, 0), 0);
    ck_assert_uint_eq(chosen(HWT_SEC(7) + 1, HWT_SEC(7) + 1), HWT_SEC(7) + 1);
    ck_assert_uint_eq(chosen(HWT_NEVER, HWT_NEVER), HWT_NEVER);
    ck_assert_uint_eq(chosen(HWT_NEVER - 1, HWT_NEVER), HWT_NEVER);
}
END_TEST

START_TEST(the_widest_window_is_accepted)
{
    for (int i = 0; i < 100; i++)
        must(hwt_timer_new_timeout_within(m.timer, &counting, &e, 0, HWT_NEVER, NULL) == 0);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 100);
}
END_TEST

START_TEST(bad_windows_are_refused_and_change_nothing)
{
    hwt_timeout timeout = { NULL, 17 };
    hwt_task idle = { NULL, NULL };
    ck_assert_int_eq(hwt_timer_new_timeout_within(m.timer, &counting, &e, 2, 1, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_new_timeout_within(NULL, &counting, &e, 1, 2, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_new_timeout_within(m.timer, NULL, &e, 1, 2, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_new_timeout_within(m.timer, &idle, &e, 1, 2, &timeout), -EINVAL);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_int_eq(hwt_timer_new_timeout_within(m.timer, &counting, &e, 1, 2, &timeout),
                     -ESHUTDOWN);
    ck_assert_ptr_null(timeout.entry);
    ck_assert_uint_eq(timeout.generation, 17);
}
END_TEST

/* How many ticks have something due in the next `span` ns. */
static uint64_t busy_ticks(uint64_t span)
{
    uint64_t ticks = 0;
    uint64_t end = m.now + span;
    while (m.now < end) {
        m.now += TICK;
        ticks += hwt_timer_dispatch(m.timer) > 0;
    }
    return ticks;
}

START_TEST(windows_gather_in_few_ticks)
{
    uint64_t seed = test_seed();
    for (int i = 0; i < 1000; i++) {
        uint64_t earliest = HWT_SEC(1) + test_random(&seed) % HWT_SEC(10);
        must(chosen(earliest, earliest + HWT_SEC(1)) >= earliest);
    }
    /* A window of 1000 ticks holds a multiple of 512 of them. */
    ck_assert_uint_le(busy_ticks(HWT_SEC(13)), 13 * 1000 / 512 + 1);
    ck_assert_uint_eq(e.runs, 1000);
}
END_TEST

START_TEST(a_parked_loop_is_not_woken_more_often)
{
    uint64_t seed = test_seed();
    ck_assert_int_ge(hwt_timer_fd(m.timer), 0);
    arm(m.timer, &counting, &e, HWT_SEC(5) + HWT_US(77));
    uint64_t next = hwt_timer_next_tick(m.timer);
    for (int i = 0; i < 100; i++) {
        uint64_t earliest = HWT_SEC(1) + test_random(&seed) % HWT_SEC(4);
        chosen(earliest, HWT_SEC(5) + HWT_MS(2));
    }
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), next);
    m.now = next;
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 101);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api_window");
    TCase *window = tcase_create("window");
    tcase_add_checked_fixture(window, open_timer, close_timer);
    tcase_set_timeout(window, 60);
    tcase_add_test(window, a_deadline_is_chosen_in_the_window);
    tcase_add_test(window, a_window_of_no_width_is_exact);
    tcase_add_test(window, the_widest_window_is_accepted);
    tcase_add_test(window, bad_windows_are_refused_and_change_nothing);
    tcase_add_test(window, windows_gather_in_few_ticks);
    tcase_add_test(window, a_parked_loop_is_not_woken_more_often);
    suite_add_tcase(suite, window);
    return run_suite(suite);
}
