/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An executor runs tasks elsewhere: later, at once, or not at all; each timeout still has
 * one end, and cancel and stop hold there too.
 */

#include "waiting.h"

static manual m;
static deferred d;

static const hwt_task untold = { count_run, NULL };

static hwt_options with_executor(hwt_executor executor, void *data)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.executor = executor;
    options.executor_data = data;
    return options;
}

/* A set clock, and an executor that keeps the work until the test runs it. */
static void open_deferred(void)
{
    deferred_open(&d);
    manual_open_with(&m, HWT_SEC(2), with_executor(defer, &d));
}

static void close_deferred(void)
{
    run_deferred(&d);
    manual_close(&m);
    deferred_close(&d);
}

/* ---- Work that waits in the executor ---- */

START_TEST(tasks_run_where_the_executor_runs_them)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(1)), 1);
    ck_assert_uint_ge(d.accepted, 1);
    ck_assert_uint_eq(e.runs, 0);
    run_deferred(&d);
    ck_assert_uint_eq(e.runs, 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    run_deferred(&d);
    ck_assert_uint_eq(e.runs, 1);
    close_deferred();
}
END_TEST

START_TEST(a_timeout_cancelled_while_it_waits_in_the_executor_never_runs)
{
    ends e = { 0 };
    hwt_timeout timeouts[100];
    for (int i = 0; i < 100; i++)
        timeouts[i] = arm(m.timer, &counting, &e, 0);
    manual_go(&m, HWT_MS(1));
    for (int i = 0; i < 100; i += 2)
        must(i % 4 ? hwt_timeout_cancel(timeouts[i]) : hwt_timeout_cancel_sync(timeouts[i]));
    for (uint64_t t = 2; t < 10; t++) {
        run_deferred(&d);
        manual_go(&m, HWT_MS(t));
    }
    ck_assert_uint_eq(e.runs, 50);
    ck_assert_uint_eq(e.cancelled, 50);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    for (int i = 0; i < 100; i++)
        must(!hwt_timeout_cancel(timeouts[i]));
    close_deferred();
}
END_TEST

/* Whether the move or the waiting run wins, there is one run for each true and one more. */
START_TEST(a_timeout_rescheduled_while_it_waits_in_the_executor_has_one_end)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, 0);
    manual_go(&m, HWT_MS(1));
    bool moved = hwt_timeout_reschedule(timeout, HWT_MS(50));
    run_deferred(&d);
    if (moved)
        ck_assert_uint_eq(e.runs, 0); /* never before its deadline */
    for (uint64_t t = 2; t < 100; t++) {
        manual_go(&m, HWT_MS(t));
        run_deferred(&d);
    }
    ck_assert_uint_eq(e.runs, 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    close_deferred();
}
END_TEST

/* By less than a tick. At its deadline the executor may run it at once, or leave it to the worker. */
START_TEST(what_is_pushed_back_a_little_while_it_waits_in_the_executor_is_not_early)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, 0);
    manual_go(&m, HWT_MS(1));
    const uint64_t deadline = m.start + HWT_MS(1) + (_i ? HWT_US(999) : 1);
    ck_assert(hwt_timeout_reschedule_at(timeout, deadline));
    atomic_store(&m.now, deadline - 1);
    run_deferred(&d);
    ck_assert_uint_eq(e.runs, 0);
    manual_go(&m, HWT_MS(2));
    run_deferred(&d);
    ck_assert_uint_eq(e.runs, 1);
    close_deferred();
}
END_TEST

START_TEST(cancelled_is_told_on_the_executor)
{
    ends e = { 0 };
    ck_assert(hwt_timeout_cancel(arm(m.timer, &counting, &e, HWT_SEC(1))));
    manual_go(&m, HWT_MS(1));
    ck_assert_uint_eq(e.cancelled, 0);
    run_deferred(&d);
    ck_assert_uint_eq(e.cancelled, 1);
    close_deferred();
}
END_TEST

START_TEST(work_is_handed_over_in_the_order_of_the_ticks)
{
    script first = { 0 }, second = { 0 };
    first.deeds = second.deeds = NULL;
    ends *a = &first.ends, *b = &second.ends;
    arm(m.timer, &playing, &second, HWT_MS(5));
    arm(m.timer, &playing, &first, HWT_MS(2));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(10)), 2);
    work_item item;
    ck_assert(deferred_take(&d, false, &item));
    item.work(item.arg);
    ck_assert_uint_eq(a->runs, 1);
    run_deferred(&d);
    ck_assert_uint_eq(b->runs, 1);
    close_deferred();
}
END_TEST

START_TEST(a_rearm_on_the_executor_takes_effect_when_the_task_returns)
{
    static const deed deeds[] = { RESCHEDULE, SEE_STATE };
    script s = script_of(deeds, 2, HWT_MS(5));
    hwt_timeout timeout = arm(m.timer, &playing, &s, 0);
    manual_go(&m, HWT_MS(1));
    run_deferred(&d);
    ck_assert_uint_eq(s.answers[0], true);
    ck_assert_uint_eq(s.answers[1], HWT_PENDING);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    manual_go(&m, HWT_MS(7) - 1);
    run_deferred(&d);
    ck_assert_uint_eq(s.ends.runs, 1);
    manual_go(&m, HWT_MS(7));
    run_deferred(&d);
    ck_assert_uint_eq(s.ends.runs, 2);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    close_deferred();
}
END_TEST

START_TEST(a_rearm_taken_back_on_the_executor_is_told_after_the_run)
{
    static const deed deeds[] = { RESCHEDULE, CANCEL, CANCEL_SYNC };
    script s = script_of(deeds, 3, HWT_MS(5));
    arm(m.timer, &playing, &s, 0);
    for (uint64_t t = 1; t < 20; t++) {
        manual_go(&m, HWT_MS(t));
        run_deferred(&d);
    }
    ck_assert_uint_eq(s.answers[1], true);
    ck_assert_uint_eq(s.answers[2], false);
    ck_assert_uint_eq(s.ends.runs, 1);
    ck_assert_uint_eq(s.cancelled_during_run, 0);
    ck_assert_uint_eq(s.ends.cancelled, 1);
    close_deferred();
}
END_TEST

typedef struct inside_stop {
    int64_t r;
} inside_stop;

static void stop_inside(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((inside_stop *)arg)->r = hwt_timer_stop(m.timer, NULL, NULL);
}

START_TEST(stop_from_a_task_on_the_executor_would_deadlock_and_says_so)
{
    static const hwt_task task = { stop_inside, NULL };
    inside_stop x = { 0 };
    arm(m.timer, &task, &x, 0);
    manual_go(&m, HWT_MS(1));
    run_deferred(&d);
    ck_assert_int_eq(x.r, -EDEADLK);
    close_deferred();
}
END_TEST

/* Many timeouts come and are cancelled while the executor has a task: what they took goes back, and
 * then the worker sleeps. A slab of which the executor has something stays: it may be asked. */
START_TEST(memory_goes_back_while_the_executor_has_tasks_and_wakes_nobody_after_that)
{
    enum { PEAK = 1 << 17, EVERY = 1 << 12 };
    static hwt_timeout peak[PEAK];
    shared_count never = 0;
    ends e = { 0 };
    deferred_open(&d);
    hwt_options options = with_executor(defer, &d);
    hwt_timer *timer = create(&options);
    for (int i = 0; i < PEAK; i++)
        peak[i] = arm(timer, i % EVERY ? &untold : &counting, &e, i % EVERY ? HWT_MIN(1) : 0);
    ck_assert(await_count(&d.accepted, PEAK / EVERY));
    uint64_t most = stats_of(timer).memory;
    for (int i = 0; i < PEAK; i++)
        must(hwt_timeout_cancel(peak[i]));
    arm(timer, &untold, &e, 0); /* it does not sleep for a minute, then */
    uint64_t limit = monotonic() + HWT_SEC(30);
    while (stats_of(timer).memory > most / 2 && monotonic() < limit)
        give_others_a_chance();
    ck_assert_uint_le(stats_of(timer).memory, most / 2);
    (void)await_within(HWT_MS(500), &never, 1);
    uint64_t before = stats_of(timer).wakeups;
    (void)await_within(HWT_SEC(1) + HWT_MS(500), &never, 1);
    ck_assert_uint_eq(stats_of(timer).wakeups, before);
    run_deferred(&d);
    ck_assert_uint_eq(e.cancelled, PEAK / EVERY);
    hwt_timer_destroy(timer);
    deferred_close(&d);
}
END_TEST

/* ---- An executor that refuses, or runs at once ---- */

static int refuse(void *executor_data, void (*work)(void *), void *work_arg)
{
    (void)work;
    (void)work_arg;
    (*(shared_count *)executor_data)++;
    return -EBUSY;
}

static int refuse_every_other(void *executor_data, void (*work)(void *), void *work_arg)
{
    if ((*(shared_count *)executor_data)++ % 2)
        return 1;
    return defer(&d, work, work_arg);
}

static int run_at_once(void *executor_data, void (*work)(void *), void *work_arg)
{
    (*(shared_count *)executor_data)++;
    work(work_arg);
    return 0;
}

static void assert_all_run_and_are_told(hwt_executor executor)
{
    shared_count calls = 0;
    ends e = { 0 };
    manual_open_with(&m, 0, with_executor(executor, &calls));
    for (uint64_t i = 0; i < 1000; i++)
        arm(m.timer, &counting, &e, HWT_MS(i % 50));
    for (int i = 0; i < 10; i++)
        must(hwt_timeout_cancel(arm(m.timer, &counting, &e, HWT_MS(i))));
    for (uint64_t t = 1; t < 100; t++) {
        manual_go(&m, HWT_MS(t));
        if (d.room)
            run_deferred(&d);
    }
    ck_assert_uint_gt(calls, 0);
    ck_assert_uint_eq(e.runs, 1000);
    ck_assert_uint_eq(e.cancelled, 10);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), 1010);
}

START_TEST(what_the_executor_refuses_runs_all_the_same)
{
    assert_all_run_and_are_told(refuse);
    deferred_open(&d);
    assert_all_run_and_are_told(refuse_every_other);
    deferred_close(&d);
}
END_TEST

START_TEST(an_executor_may_run_the_work_at_once)
{
    assert_all_run_and_are_told(run_at_once);
}
END_TEST

START_TEST(an_executor_that_runs_at_once_may_rearm)
{
    static const deed deeds[] = { RESCHEDULE };
    shared_count calls = 0;
    script s = script_of(deeds, 1, HWT_MS(3));
    manual_open_with(&m, 0, with_executor(run_at_once, &calls));
    arm(m.timer, &playing, &s, 0);
    manual_go(&m, HWT_MS(1));
    ck_assert_uint_eq(s.ends.runs, 1);
    manual_go(&m, HWT_MS(10));
    ck_assert_uint_eq(s.ends.runs, 2);
    manual_close(&m);
}
END_TEST

/* ---- A crew of threads, and a worker ---- */

static hwt_timer *open_crew(size_t threads)
{
    return create_with_crew(&d, threads, HWT_MS(1));
}

static void close_crew(hwt_timer *timer)
{
    hwt_timer_destroy(timer);
    deferred_close(&d);
}

START_TEST(a_slow_task_on_the_executor_does_not_delay_the_others)
{
    gate g = { 0 };
    ends e = { 0 };
    hwt_timer *timer = open_crew(2);
    arm(timer, &gated, &g, 0);
    ck_assert(await_count(&g.reached, 1));
    for (uint64_t i = 0; i < 100; i++)
        arm(timer, &counting, &e, HWT_MS(i % 10));
    ck_assert(await_count(&e.runs, 100));
    ck_assert_uint_eq(g.passed, 0);
    g.open = 1;
    close_crew(timer);
    ck_assert_uint_eq(g.passed, 1);
}
END_TEST

START_TEST(cancel_sync_waits_for_a_run_on_the_executor)
{
    hwt_timer *timer = open_crew(2);
    assert_cancel_sync_waits(timer);
    close_crew(timer);
}
END_TEST

START_TEST(stop_waits_for_tasks_on_the_executor)
{
    gate g = { 0 };
    hwt_timer *timer = open_crew(2);
    arm(timer, &gated, &g, 0);
    ck_assert_uint_eq(assert_stop_waits(timer, &g), 0);
    close_crew(timer);
}
END_TEST

typedef struct guarded {
    ends ends;
    shared_count inside, overlaps;
} guarded;

static void enter(guarded *g)
{
    if (g->inside++)
        g->overlaps++;
}

static void run_guarded(hwt_timeout timeout, void *arg)
{
    guarded *g = arg;
    enter(g);
    if (g->ends.runs++ < 200)
        (void)hwt_timeout_reschedule(timeout, 0);
    sched_yield();
    g->inside--;
}

static void cancelled_guarded(hwt_timeout timeout, void *arg)
{
    guarded *g = arg;
    (void)timeout;
    enter(g);
    g->ends.cancelled++;
    g->inside--;
}

static const hwt_task guarding = { run_guarded, cancelled_guarded };

START_TEST(runs_of_one_timeout_and_its_cancelled_never_overlap)
{
    static guarded g[16];
    hwt_timeout timeouts[16];
    hwt_timer *timer = open_crew(4);
    for (int i = 0; i < 16; i++)
        timeouts[i] = arm(timer, &guarding, &g[i], 0);
    for (int i = 0; i < 16; i++) {
        ck_assert(await_count(&g[i].ends.runs, 20));
        if (i % 2)
            (void)hwt_timeout_cancel(timeouts[i]);
    }
    for (int i = 0; i < 16; i += 2)
        ck_assert(await_count(&g[i].ends.runs, 201));
    close_crew(timer);
    for (int i = 0; i < 16; i++) {
        ck_assert_uint_eq(g[i].overlaps, 0);
        ck_assert_uint_le(g[i].ends.cancelled, 1);
        ck_assert_uint_le(g[i].ends.runs, 201);
    }
}
END_TEST

START_TEST(stop_with_a_crew_gives_each_accepted_timeout_one_end)
{
    for (int round = 0; round < 20; round++) {
        ends e = { 0 };
        hwt_timer *timer = open_crew(3);
        for (uint64_t i = 0; i < 2000; i++)
            arm(timer, &counting, &e, HWT_MS(i % 7));
        ck_assert(await_count(&e.runs, (uint64_t)round * 50));
        int64_t left = hwt_timer_stop(timer, count_visit, NULL);
        ck_assert_int_ge(left, 0);
        ck_assert_uint_eq(ends_sum(&e), 2000);
        ck_assert_uint_eq(e.visited, (uint64_t)left);
        ck_assert_uint_eq(e.cancelled, 0);
        ck_assert_uint_eq(hwt_timer_pending(timer), 0);
        close_crew(timer);
        ck_assert_uint_eq(ends_sum(&e), 2000);
    }
}
END_TEST

/* ---- */

static void add_deferred(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "deferred", open_deferred);
    tcase_add_test(tcase, tasks_run_where_the_executor_runs_them);
    tcase_add_test(tcase, a_timeout_cancelled_while_it_waits_in_the_executor_never_runs);
    tcase_add_test(tcase, a_timeout_rescheduled_while_it_waits_in_the_executor_has_one_end);
    tcase_add_loop_test(
        tcase, what_is_pushed_back_a_little_while_it_waits_in_the_executor_is_not_early, 0, 2);
    tcase_add_test(tcase, cancelled_is_told_on_the_executor);
    tcase_add_test(tcase, work_is_handed_over_in_the_order_of_the_ticks);
    tcase_add_test(tcase, a_rearm_on_the_executor_takes_effect_when_the_task_returns);
    tcase_add_test(tcase, a_rearm_taken_back_on_the_executor_is_told_after_the_run);
    tcase_add_test(tcase, stop_from_a_task_on_the_executor_would_deadlock_and_says_so);
    tcase_add_test(tcase,
                   memory_goes_back_while_the_executor_has_tasks_and_wakes_nobody_after_that);
}

static void add_unwilling(Suite *suite)
{
    TCase *tcase = add_case(suite, "refusing and synchronous");
    tcase_add_test(tcase, what_the_executor_refuses_runs_all_the_same);
    tcase_add_test(tcase, an_executor_may_run_the_work_at_once);
    tcase_add_test(tcase, an_executor_that_runs_at_once_may_rearm);
}

static void add_crew(Suite *suite)
{
    TCase *tcase = add_case(suite, "crew");
    tcase_add_test(tcase, a_slow_task_on_the_executor_does_not_delay_the_others);
    tcase_add_test(tcase, cancel_sync_waits_for_a_run_on_the_executor);
    tcase_add_test(tcase, stop_waits_for_tasks_on_the_executor);
    tcase_add_test(tcase, runs_of_one_timeout_and_its_cancelled_never_overlap);
    tcase_add_test(tcase, stop_with_a_crew_gives_each_accepted_timeout_one_end);
}

int main(void)
{
    Suite *suite = suite_create("api: executor");
    add_deferred(suite);
    add_unwilling(suite);
    add_crew(suite);
    return run_suite(suite);
}
