/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * HWT_NEVER is the instant that does not come, whatever a clock or a caller says: what is armed for
 * it, or moved to it on any way, is pending until it is cancelled or the timer stops.
 */

#include "api_fixture.h"

#define TICK HWT_US(1)

static manual m;
static ends counts;

/* The timers: with other flags; and one whose last tick would end at HWT_NEVER to the nanosecond. */
static const struct kind {
    uint32_t flags;
    uint64_t start;
} kinds[] = {
    { 0, HWT_SEC(1) },       { HWT_ONE_THREAD, HWT_SEC(1) },
    { 0, HWT_NEVER % TICK }, { HWT_ONE_THREAD, HWT_NEVER % TICK },
    { 0, HWT_NEVER - TICK }, { 0, HWT_NEVER },
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static void open_kind(int i, deferred *executor)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.flags = kinds[i].flags;
    if (executor) {
        options.executor = defer;
        options.executor_data = executor;
        deferred_open(executor);
    }
    memset(&counts, 0, sizeof(counts));
    manual_open_with(&m, kinds[i].start, options);
}

static hwt_timeout arm_at(const hwt_task *task, uint64_t deadline)
{
    hwt_timeout timeout = { NULL, 0 };
    must(hwt_timer_new_timeout_at(m.timer, task, &counts, deadline, &timeout) == 0);
    return timeout;
}

/* Each way to the end of time. */
static void go_to_the_end(void)
{
    (void)hwt_timer_advance_some(m.timer, HWT_NEVER, 1000);
    (void)hwt_timer_advance(m.timer, HWT_NEVER);
    m.now = HWT_NEVER;
    for (int i = 0; i < 3; i++)
        (void)hwt_timer_dispatch(m.timer);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
}

/* The timer ends, too, and that as late as can be. */
static void expect_pending(uint64_t pending, uint64_t runs)
{
    ck_assert_uint_eq(hwt_timer_pending(m.timer), pending);
    ck_assert_uint_eq(counts.runs, runs);
    ck_assert_int_eq(hwt_timer_end(m.timer, HWT_NEVER, NULL, NULL), (int64_t)pending);
    ck_assert_uint_eq(counts.runs, runs);
    ck_assert_uint_eq(counts.cancelled, pending);
    manual_close(&m);
}

/* ---- tests; each loop: another timer ---- */

START_TEST(what_is_armed_for_never_does_not_fire)
{
    hwt_timeout timeout = { NULL, 0 };
    open_kind(_i, NULL);
    (void)arm_at(&counting, HWT_NEVER);
    (void)arm(m.timer, &counting, &counts, HWT_NEVER);
    must(hwt_timer_new_timeout_within(m.timer, &counting, &counts, HWT_NEVER, HWT_NEVER, NULL) ==
         0);
    must(hwt_timer_set(m.timer, &counting, &counts, HWT_NEVER, &timeout) == 1);
    go_to_the_end();
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_NEVER);
    expect_pending(4, 0);
}
END_TEST

/* Before it is filed, when it is filed, and to a near instant and back. */
START_TEST(what_is_moved_to_never_does_not_fire)
{
    open_kind(_i, NULL);
    hwt_timeout filed = arm_at(&counting, HWT_NEVER - 2 * TICK),
                back = arm_at(&counting, HWT_NEVER);
    (void)hwt_timer_next_tick(m.timer);
    hwt_timeout not_filed = arm_at(&counting, HWT_NEVER - 2 * TICK);
    must(hwt_timeout_reschedule_at(back, HWT_NEVER - 2 * TICK));
    must(hwt_timeout_reschedule_at(back, HWT_NEVER));
    must(hwt_timeout_reschedule(filed, HWT_NEVER));
    must(hwt_timeout_reschedule(not_filed, HWT_NEVER));
    go_to_the_end();
    expect_pending(3, 0);
}
END_TEST

static void run_again_never(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    must(hwt_timeout_reschedule(timeout, HWT_NEVER));
}

static void repeat_never(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    must(hwt_timeout_repeat(timeout, HWT_NEVER));
}

/* In a tick, or at the end of time. */
START_TEST(what_rearms_itself_for_never_does_not_fire_again)
{
    static const hwt_task again = { run_again_never, count_cancelled },
                          repeating = { repeat_never, count_cancelled };
    open_kind(_i % KINDS, NULL);
    if (_i % KINDS >= KINDS - 2) { /* no tick of theirs is ever over */
        manual_close(&m);
        return;
    }
    (void)arm(m.timer, &again, &counts, 0);
    (void)arm(m.timer, &repeating, &counts, 0);
    if (_i < KINDS)
        ck_assert_uint_eq(manual_go(&m, TICK), 2);
    go_to_the_end();
    expect_pending(2, 2);
}
END_TEST

/* It was due, and the executor has it; or its task is to run just then. */
START_TEST(what_the_executor_has_and_is_moved_to_never_does_not_fire)
{
    deferred works;
    open_kind(_i, &works);
    hwt_timeout timeout = arm(m.timer, &counting, &counts, 0);
    if (_i < KINDS - 2)
        ck_assert_uint_eq(manual_go(&m, TICK), 1);
    must(hwt_timeout_reschedule_at(timeout, HWT_NEVER));
    (void)hwt_timer_advance(m.timer, HWT_NEVER);
    m.now = HWT_NEVER;
    run_deferred(&works);
    go_to_the_end();
    run_deferred(&works);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    ck_assert_uint_eq(counts.runs, 0);
    ck_assert(hwt_timeout_cancel(timeout));
    (void)hwt_timer_dispatch(m.timer);
    run_deferred(&works);
    ck_assert_uint_eq(counts.cancelled, 1);
    manual_close(&m);
    deferred_close(&works);
}
END_TEST

/* Before the end of time all ticks that end come. */
START_TEST(what_is_due_before_never_fires)
{
    open_kind(_i, NULL);
    (void)arm_at(&counting, HWT_NEVER - 3 * TICK);
    go_to_the_end();
    ck_assert_uint_eq(counts.runs, kinds[_i].start <= HWT_NEVER - TICK);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: never");
    TCase *tcase = add_case(suite, "never");
    tcase_add_loop_test(tcase, what_is_armed_for_never_does_not_fire, 0, KINDS);
    tcase_add_loop_test(tcase, what_is_moved_to_never_does_not_fire, 0, KINDS);
    tcase_add_loop_test(tcase, what_rearms_itself_for_never_does_not_fire_again, 0, 2 * KINDS);
    tcase_add_loop_test(tcase, what_the_executor_has_and_is_moved_to_never_does_not_fire, 0, KINDS);
    tcase_add_loop_test(tcase, what_is_due_before_never_fires, 0, KINDS);
    return run_suite(suite);
}
