/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The promises on stop and destroy: each timeout has exactly one end, and what began has
 * returned.
 */

#include "waiting.h"

static const hwt_task counting_runs_only = { count_run, NULL };

static manual m;

static void open_manual(void)
{
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 16);
}

/* ---- What is left over ---- */

typedef struct visit_log {
    const hwt_task *task;
    void *arg;
    uint64_t remaining, visits;
} visit_log;

static void log_visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    visit_log *log = data;
    log->task = task;
    log->arg = arg;
    log->remaining = remaining;
    log->visits++;
}

START_TEST(stop_visits_what_is_left_with_task_arg_and_the_time_that_remained)
{
    ends e = { 0 };
    visit_log log = { 0 };
    arm(m.timer, &counting, &e, HWT_MS(500) + 7);
    manual_go(&m, HWT_MS(100));
    ck_assert_int_eq(hwt_timer_stop(m.timer, log_visit, &log), 1);
    ck_assert_uint_eq(log.visits, 1);
    ck_assert_ptr_eq(log.task, &counting);
    ck_assert_ptr_eq(log.arg, &e);
    ck_assert_uint_eq(log.remaining, HWT_MS(400) + 7);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), 0);
    ck_assert_uint_eq(log.visits, 1);
}
END_TEST

START_TEST(what_is_due_at_stop_has_nothing_remaining)
{
    ends e = { 0 };
    visit_log log = { 0 };
    arm(m.timer, &counting, &e, HWT_MS(5));
    atomic_store(&m.now, m.start + HWT_SEC(9));
    ck_assert_int_eq(hwt_timer_stop(m.timer, log_visit, &log), 1);
    ck_assert_uint_eq(log.remaining, 0);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), 0);
}
END_TEST

START_TEST(what_would_never_run_is_visited_too)
{
    ends e = { 0 };
    visit_log log = { 0 };
    arm(m.timer, &counting, &e, HWT_NEVER);
    ck_assert_int_eq(hwt_timer_stop(m.timer, log_visit, &log), 1);
    ck_assert_uint_eq(log.remaining, HWT_NEVER);
    manual_close(&m);
}
END_TEST

/* Timeouts in all places: queued, in buckets, pushed back, cancelled, ended. */
static uint64_t fill(ends *e)
{
    uint64_t left = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        hwt_timeout timeout = arm(m.timer, &counting, e, HWT_MS(1 + i % 100));
        if (i % 500 == 0)
            manual_go(&m, HWT_MS(i / 500));
        if (i % 3 == 0)
            (void)hwt_timeout_cancel(timeout);
        else if (i % 3 == 1)
            (void)hwt_timeout_reschedule(timeout, HWT_SEC(1 + i % 7));
    }
    left = hwt_timer_pending(m.timer);
    ck_assert_uint_gt(left, 100);
    return left;
}

START_TEST(stop_with_a_visitor_gives_each_accepted_timeout_one_end)
{
    ends e = { 0 };
    uint64_t left = fill(&e);
    ck_assert_int_eq(hwt_timer_stop(m.timer, count_visit, NULL), (int64_t)left);
    ck_assert_uint_eq(e.visited, left);
    ck_assert_uint_eq(ends_sum(&e), 3000);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert_uint_eq(stats_of(m.timer).unprocessed, left);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), 3000);
}
END_TEST

START_TEST(stop_without_a_visitor_calls_cancelled_in_its_place)
{
    ends e = { 0 };
    uint64_t left = fill(&e);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), (int64_t)left);
    ck_assert_uint_eq(e.runs + e.cancelled, 3000);
    ck_assert_uint_eq(e.visited, 0);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), 3000);
}
END_TEST

START_TEST(destroy_without_stop_calls_cancelled)
{
    ends e = { 0 }, silent = { 0 };
    (void)fill(&e);
    arm(m.timer, &counting_runs_only, &silent, HWT_SEC(1));
    manual_close(&m);
    ck_assert_uint_eq(e.runs + e.cancelled, 3000);
    ck_assert_uint_eq(ends_sum(&e), 3000);
    ck_assert_uint_eq(ends_sum(&silent), 0);
}
END_TEST

START_TEST(what_was_cancelled_before_stop_is_told_so_and_not_visited)
{
    ends e = { 0 };
    hwt_timeout queued = arm(m.timer, &counting, &e, HWT_MS(50));
    hwt_timeout armed = arm(m.timer, &counting, &e, HWT_MS(50));
    ck_assert(hwt_timeout_cancel(queued));
    manual_go(&m, HWT_MS(3));
    ck_assert(hwt_timeout_cancel(armed));
    ck_assert_int_eq(hwt_timer_stop(m.timer, count_visit, NULL), 0);
    ck_assert_uint_eq(e.cancelled, 2);
    ck_assert_uint_eq(e.visited, 0);
    manual_close(&m);
}
END_TEST

START_TEST(after_stop_handles_may_be_asked_and_are_cancelled)
{
    ends e = { 0 };
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_SEC(1));
    ck_assert_int_eq(hwt_timer_stop(m.timer, count_visit, NULL), 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), 0);
    ck_assert(!hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_cancel_sync(timeout));
    ck_assert(!hwt_timeout_reschedule(timeout, 0));
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), 1);
}
END_TEST

START_TEST(stop_on_an_empty_timer_leaves_nothing)
{
    ck_assert_int_eq(hwt_timer_stop(m.timer, count_visit, NULL), 0);
    ck_assert_int_eq(hwt_timer_stop(m.timer, count_visit, NULL), 0);
    manual_close(&m);
    hwt_timer *timer = create(NULL);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 0);
    ck_assert_int_eq(hwt_timer_stop(timer, count_visit, NULL), 0);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- Stop from inside ---- */

typedef struct insider {
    hwt_timer *timer;
    int64_t from_run, from_cancelled, from_visit;
    shared_count done;
} insider;

static void stop_in_run(hwt_timeout timeout, void *arg)
{
    insider *x = arg;
    (void)timeout;
    x->from_run = hwt_timer_stop(x->timer, NULL, NULL);
    hwt_timer_destroy(x->timer); /* must do nothing here */
    x->done++;
}

static void stop_in_cancelled(hwt_timeout timeout, void *arg)
{
    insider *x = arg;
    (void)timeout;
    x->from_cancelled = hwt_timer_stop(x->timer, NULL, NULL);
    x->done++;
}

static const hwt_task inside = { stop_in_run, stop_in_cancelled };

static void stop_in_visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    insider *x = data;
    (void)task;
    (void)arg;
    (void)remaining;
    x->from_visit = hwt_timer_stop(x->timer, NULL, NULL);
}

START_TEST(stop_from_a_callback_would_deadlock_and_says_so)
{
    insider x = { .timer = m.timer };
    arm(m.timer, &inside, &x, 0);
    ck_assert(hwt_timeout_cancel(arm(m.timer, &inside, &x, 0)));
    manual_go(&m, HWT_MS(1));
    ck_assert_uint_eq(x.done, 2);
    ck_assert_int_eq(x.from_run, -EDEADLK);
    ck_assert_int_eq(x.from_cancelled, -EDEADLK);
    arm(m.timer, &inside, &x, HWT_MS(1)); /* the timer goes on */
    manual_go(&m, HWT_MS(10));
    ck_assert_uint_eq(x.done, 3);
    arm(m.timer, &inside, &x, HWT_MS(1));
    ck_assert_int_eq(hwt_timer_stop(m.timer, stop_in_visit, &x), 1);
    ck_assert_int_eq(x.from_visit, -EDEADLK);
    manual_close(&m);
}
END_TEST

START_TEST(stop_from_the_worker_would_deadlock_and_says_so)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    insider x = { .timer = timer };
    arm(timer, &inside, &x, 0);
    ck_assert(await_count(&x.done, 1));
    ck_assert_int_eq(x.from_run, -EDEADLK);
    arm(timer, &inside, &x, 0);
    ck_assert(await_count(&x.done, 2));
    ck_assert(hwt_timeout_cancel(arm(timer, &inside, &x, HWT_SEC(1000))));
    ck_assert(await_count(&x.done, 3));
    ck_assert_int_eq(x.from_cancelled, -EDEADLK);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_task_may_stop_another_timer)
{
    ends e = { 0 };
    hwt_timer *other = create_ticking(HWT_MS(1));
    insider x = { .timer = other };
    arm(other, &counting, &e, HWT_SEC(1000));
    arm(m.timer, &inside, &x, 0);
    x.from_run = -1;
    /* stop_in_run destroys it as well: it is not a task of `other`. */
    manual_go(&m, HWT_MS(1));
    ck_assert_int_eq(x.from_run, 1);
    ck_assert_uint_eq(e.cancelled, 1);
    manual_close(&m);
}
END_TEST

/* ---- Stop waits ---- */

START_TEST(stop_returns_after_the_task_that_began_has)
{
    gate g = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &gated, &g, 0);
    ck_assert_uint_eq(assert_stop_waits(timer, &g), 0);
    hwt_timer_destroy(timer);
}
END_TEST

static void visit_gate(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)arg;
    (void)remaining;
    gate_pass(data);
}

static void *stop_visiting_gate(void *data)
{
    stopper *s = data;
    s->left = (uint64_t)hwt_timer_stop(s->timer, visit_gate, s->gate);
    return NULL;
}

static void second_stop_waits(hwt_timer *timer)
{
    ends e = { 0 };
    gate g = { 0 };
    stopper first = { .timer = timer, .gate = &g };
    arm(timer, &counting, &e, HWT_SEC(1000));
    pthread_t thread = spawn(stop_visiting_gate, &first);
    ck_assert_uint_eq(assert_stop_waits(timer, &g), 0);
    join(thread);
    ck_assert_uint_eq(first.left, 1);
    ck_assert_uint_eq(ends_sum(&e), 0);
}

START_TEST(a_second_stop_waits_for_the_first_and_returns_0)
{
    second_stop_waits(m.timer);
    manual_close(&m);
    hwt_timer *timer = create_ticking(HWT_MS(1));
    second_stop_waits(timer);
    hwt_timer_destroy(timer);
}
END_TEST

static void *advance_a_tick(void *data)
{
    (void)data;
    manual_go(&m, HWT_MS(1));
    return NULL;
}

START_TEST(stop_waits_for_an_advance_on_another_thread)
{
    gate g = { 0 };
    arm(m.timer, &gated, &g, 0);
    pthread_t driver = spawn(advance_a_tick, NULL);
    ck_assert_uint_eq(assert_stop_waits(m.timer, &g), 0);
    join(driver);
    manual_close(&m);
}
END_TEST

/* ---- Stop meets a re-arm ---- */

typedef struct rearmer {
    ends ends;
    gate gate;
    shared_count rearmed;
} rearmer;

static void rearm_at_gate(hwt_timeout timeout, void *arg)
{
    rearmer *x = arg;
    x->ends.runs++;
    gate_pass(&x->gate);
    x->rearmed += hwt_timeout_repeat(timeout, HWT_MS(1));
}

static const hwt_task rearming = { rearm_at_gate, count_cancelled };

START_TEST(a_task_that_rearms_during_stop_has_one_end)
{
    rearmer x = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &rearming, &x, 0);
    uint64_t left = assert_stop_waits(timer, &x.gate);
    /* Either it re-armed and was left unprocessed, or this run was its end. */
    ck_assert_uint_eq(x.ends.runs, x.rearmed + (left ? 0 : 1));
    ck_assert_uint_eq(x.ends.cancelled, left);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- */

static void add_left_over(Suite *suite)
{
    TCase *tcase = add_opened_case(suite, "left over", open_manual);
    tcase_add_test(tcase, stop_visits_what_is_left_with_task_arg_and_the_time_that_remained);
    tcase_add_test(tcase, what_is_due_at_stop_has_nothing_remaining);
    tcase_add_test(tcase, what_would_never_run_is_visited_too);
    tcase_add_test(tcase, stop_with_a_visitor_gives_each_accepted_timeout_one_end);
    tcase_add_test(tcase, stop_without_a_visitor_calls_cancelled_in_its_place);
    tcase_add_test(tcase, destroy_without_stop_calls_cancelled);
    tcase_add_test(tcase, what_was_cancelled_before_stop_is_told_so_and_not_visited);
    tcase_add_test(tcase, after_stop_handles_may_be_asked_and_are_cancelled);
    tcase_add_test(tcase, stop_on_an_empty_timer_leaves_nothing);
}

static void add_inside_and_beside(Suite *suite)
{
    TCase *own = add_case(suite, "beside a worker");
    tcase_add_test(own, stop_from_the_worker_would_deadlock_and_says_so);
    tcase_add_test(own, stop_returns_after_the_task_that_began_has);
    tcase_add_test(own, a_task_that_rearms_during_stop_has_one_end);
    TCase *tcase = add_opened_case(suite, "inside and beside", open_manual);
    tcase_add_test(tcase, stop_from_a_callback_would_deadlock_and_says_so);
    tcase_add_test(tcase, a_task_may_stop_another_timer);
    tcase_add_test(tcase, a_second_stop_waits_for_the_first_and_returns_0);
    tcase_add_test(tcase, stop_waits_for_an_advance_on_another_thread);
}

int main(void)
{
    Suite *suite = suite_create("api: stop");
    add_left_over(suite);
    add_inside_and_beside(suite);
    return run_suite(suite);
}
