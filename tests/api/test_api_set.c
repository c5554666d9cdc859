/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Arming whatever the state, missed periods, bounded dispatch, a look at what is pending, an end
 * that lets run what is due soon, windows for what is moved, and what a handle tells. On a set
 * clock, but where the worker is what matters; each with a timer for one thread too.
 */

#include "api_fixture.h"

#define TICK HWT_MS(1)
#define START HWT_SEC(5)

static manual m;

/* Each loop test: threads allowed, then one thread. */
static void open_kind(int one_thread)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.ticks_per_wheel = 64;
    options.flags = one_thread ? HWT_ONE_THREAD : 0;
    manual_open_with(&m, START, options);
}

/* ---- hwt_timer_set ---- */

START_TEST(set_arms_a_zeroed_handle_and_moves_a_pending_one)
{
    ends e = { 0 };
    hwt_timeout timeout = { NULL, 0 };
    open_kind(_i);
    ck_assert_int_eq(hwt_timer_set(m.timer, &counting, &e, HWT_MS(5), &timeout), 1);
    hwt_timeout first = timeout;
    ck_assert_int_eq(hwt_timer_set(m.timer, &counting, &e, HWT_MS(50), &timeout), 0);
    ck_assert_ptr_eq(timeout.entry, first.entry);
    ck_assert_uint_eq(timeout.generation, first.generation);
    ck_assert_uint_eq(hwt_timeout_remaining(timeout), HWT_MS(50));
    ck_assert_int_eq(hwt_timer_set_at(m.timer, &counting, &e, START + HWT_MS(2), &timeout), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(3)), 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert_int_eq(hwt_timer_set(m.timer, &counting, &e, HWT_MS(5), &timeout), 1);
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert_int_eq(hwt_timer_set(m.timer, &counting, &e, HWT_MS(5), &timeout), 1);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(9)), 1);
    ck_assert_uint_eq(e.runs, 2);
    ck_assert_uint_eq(e.cancelled, 1);
    manual_close(&m);
}
END_TEST

typedef struct setter {
    ends ends;
    hwt_timeout timeout;
    int answer;
} setter;

static void set_itself(hwt_timeout timeout, void *arg);
static const hwt_task setting = { set_itself, NULL };

static void set_itself(hwt_timeout timeout, void *arg)
{
    setter *s = arg;
    s->timeout = timeout;
    if (s->ends.runs++ == 0)
        s->answer = hwt_timer_set(m.timer, &setting, s, HWT_MS(10), &s->timeout);
}

START_TEST(set_inside_its_own_task_re_arms_the_same_timeout)
{
    setter s = { .answer = -1 };
    open_kind(_i);
    ck_assert_int_eq(hwt_timer_set(m.timer, &setting, &s, HWT_MS(1), &s.timeout), 1);
    hwt_timeout first = s.timeout;
    manual_go(&m, HWT_MS(2));
    ck_assert_int_eq(s.answer, 0);
    ck_assert_uint_eq(s.timeout.generation, first.generation);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(13)), 1);
    ck_assert_uint_eq(s.ends.runs, 2);
    manual_close(&m);
}
END_TEST

START_TEST(set_refuses_as_new_timeouts_do_and_leaves_the_handle)
{
    ends e = { 0 };
    hwt_timeout timeout = { NULL, 7 };
    open_kind(_i);
    const hwt_task none = { NULL, NULL };
    ck_assert_int_eq(hwt_timer_set(NULL, &counting, &e, 0, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_set(m.timer, NULL, &e, 0, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_set(m.timer, &none, &e, 0, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_set(m.timer, &counting, &e, 0, NULL), -EINVAL);
    hwt_timer_stop(m.timer, NULL, NULL);
    ck_assert_int_eq(hwt_timer_set(m.timer, &counting, &e, 0, &timeout), -ESHUTDOWN);
    ck_assert_ptr_null(timeout.entry);
    ck_assert_uint_eq(timeout.generation, 7);
    manual_close(&m);
}
END_TEST

/* ---- missed periods ---- */

typedef struct periodic {
    uint64_t runs, missed;
} periodic;

static void count_missed(hwt_timeout timeout, void *arg)
{
    periodic *p = arg;
    p->runs++;
    must(hwt_timeout_missed(timeout) == 0); /* not repeated yet */
    must(hwt_timeout_repeat(timeout, HWT_MS(10)));
    p->missed += hwt_timeout_missed(timeout);
}

START_TEST(runs_and_missed_periods_are_all_periods)
{
    static const hwt_task task = { count_missed, NULL };
    static const uint64_t gaps[] = { 11, 10, 35, 10, 100, 9, 1, 250, 10 };
    periodic p = { 0, 0 };
    open_kind(_i);
    hwt_timeout timeout = arm(m.timer, &task, &p, HWT_MS(10));
    uint64_t now = 0;
    for (size_t i = 0; i < sizeof(gaps) / sizeof(*gaps); i++) {
        now += HWT_MS(gaps[i]);
        manual_go(&m, now);
        /* Those at 10, 20, ... whose tick is over; one more where the last run was in time. */
        uint64_t periods = (now - TICK) / HWT_MS(10);
        ck_assert_uint_ge(p.runs + p.missed + 1, periods);
        ck_assert_uint_le(p.runs + p.missed, periods + 1);
    }
    ck_assert_uint_gt(p.missed, 30);
    ck_assert_uint_eq(hwt_timeout_missed(timeout), 0); /* outside of the task */
    manual_close(&m);
}
END_TEST

/* ---- bounded dispatch ---- */

START_TEST(some_at_a_time_runs_all_in_order)
{
    enum { MANY = 1000 };
    ends e = { 0 };
    open_kind(_i);
    for (int i = 0; i < MANY; i++)
        arm(m.timer, &counting, &e, HWT_MS(i % 7));
    atomic_store(&m.now, START + HWT_MS(20));
    ck_assert_uint_eq(hwt_timer_advance_some(m.timer, START + HWT_MS(20), 0), 0);
    uint64_t runs = 0, turn;
    while ((turn = hwt_timer_advance_some(m.timer, START + HWT_MS(20), 64)) > 0) {
        ck_assert_uint_le(turn, 64);
        runs += turn;
        if (runs < MANY)
            ck_assert_uint_le(hwt_timer_next_tick(m.timer), START + HWT_MS(20));
    }
    ck_assert_uint_eq(runs, MANY);
    ck_assert_uint_eq(e.runs, MANY);
    manual_close(&m);
}
END_TEST

START_TEST(the_descriptor_stays_readable_until_all_have_run)
{
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.flags = HWT_NO_WORKER | (_i ? HWT_ONE_THREAD : 0);
    hwt_timer *timer = create(&options);
    int fd = hwt_timer_fd(timer);
    ck_assert_int_ge(fd, 0);
    for (int i = 0; i < 100; i++)
        arm(timer, &counting, &e, 0);
    while (e.runs < 100) {
        ck_assert(readable(fd, 10000));
        (void)hwt_timer_advance_some(timer, hwt_timer_now(timer), 9);
    }
    ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
    ck_assert(!readable(fd, 0));
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- visits ---- */

typedef struct group {
    ends members, others;
    size_t shown;
    uint64_t remaining;
} group;

static bool cancel_members(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                           void *data)
{
    group *g = data;
    must(task == &counting);
    g->shown++;
    g->remaining += remaining;
    if (arg == &g->members)
        must(hwt_timeout_cancel(timeout));
    return true;
}

static bool enough(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                   void *data)
{
    (void)timeout;
    (void)task;
    (void)arg;
    (void)remaining;
    return --*(int *)data > 0;
}

START_TEST(a_visitor_sees_all_that_is_pending_and_may_cancel_a_group)
{
    enum { MANY = 3000 };
    group g = { 0 };
    int wanted = 10;
    open_kind(_i);
    for (int i = 0; i < MANY; i++)
        arm(m.timer, &counting, i % 3 ? &g.others : &g.members, HWT_MS(1 + i % 2));
    hwt_timeout gone = arm(m.timer, &counting, &g.others, HWT_MS(1));
    hwt_timeout_cancel(gone);
    ck_assert_int_eq(hwt_timer_visit(m.timer, enough, &wanted), 10);
    ck_assert_int_eq(hwt_timer_visit(m.timer, cancel_members, &g), MANY);
    ck_assert_uint_eq(g.shown, MANY);
    ck_assert_uint_eq(g.remaining, MANY / 2 * HWT_MS(1) + MANY / 2 * HWT_MS(2));
    ck_assert_uint_eq(hwt_timer_pending(m.timer), MANY - MANY / 3);
    manual_go(&m, HWT_MS(5));
    ck_assert_uint_eq(g.members.cancelled, MANY / 3);
    ck_assert_uint_eq(g.members.runs, 0);
    ck_assert_uint_eq(g.others.runs, MANY - MANY / 3);
    ck_assert_int_eq(hwt_timer_visit(m.timer, cancel_members, &g), 0);
    ck_assert_int_eq(hwt_timer_visit(NULL, cancel_members, &g), -EINVAL);
    ck_assert_int_eq(hwt_timer_visit(m.timer, NULL, &g), -EINVAL);
    manual_close(&m);
}
END_TEST

/* ---- a graceful end ---- */

START_TEST(end_runs_what_is_due_before_and_leaves_the_rest)
{
    ends soon = { 0 }, late = { 0 };
    open_kind(_i);
    for (int i = 0; i < 10; i++) {
        arm(m.timer, &counting, &soon, HWT_MS(i));
        arm(m.timer, &counting, &late, HWT_SEC(1 + i));
    }
    ck_assert_int_eq(hwt_timer_end(m.timer, START + HWT_MS(100), count_visit, NULL), 10);
    ck_assert_uint_eq(soon.runs, 10);
    ck_assert_uint_eq(late.visited, 10);
    ck_assert_int_eq(hwt_timer_new_timeout(m.timer, &counting, &soon, 0, NULL), -ESHUTDOWN);
    ck_assert_int_eq(hwt_timer_end(NULL, 0, NULL, NULL), -EINVAL);
    manual_close(&m);
}
END_TEST

START_TEST(end_of_a_worker_waits_for_what_is_due_and_no_longer)
{
    ends soon = { 0 }, late = { 0 };
    hwt_timer *timer = create_ticking(TICK);
    for (int i = 0; i < 10; i++)
        arm(timer, &counting, &soon, HWT_MS(5 * i));
    arm(timer, &counting, &late, HWT_NEVER);
    arm(timer, &counting, &late, HWT_SEC(3600));
    /* An hour is what it may take: it does not, for nothing is due then. */
    ck_assert_int_eq(hwt_timer_end(timer, monotonic() + HWT_SEC(3000), count_visit, NULL), 2);
    ck_assert_uint_eq(soon.runs, 10);
    ck_assert_uint_eq(late.visited, 2);
    hwt_timer_destroy(timer);
}
END_TEST

static void end_inside(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    *(int64_t *)arg = hwt_timer_end(m.timer, HWT_NEVER, NULL, NULL);
}

START_TEST(end_from_a_task_is_refused)
{
    static const hwt_task task = { end_inside, NULL };
    int64_t answer = 0;
    open_kind(_i);
    arm(m.timer, &task, &answer, 0);
    manual_go(&m, HWT_MS(2));
    ck_assert_int_eq(answer, -EDEADLK);
    manual_close(&m);
}
END_TEST

/* ---- windows, and what a handle tells ---- */

START_TEST(what_is_moved_within_a_window_is_due_in_it)
{
    ends e = { 0 };
    open_kind(_i);
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(1));
    for (uint64_t earliest = 0; earliest < 50; earliest++) {
        for (uint64_t width = 0; width < 20; width += 3) {
            ck_assert(
                hwt_timeout_reschedule_within(timeout, HWT_MS(earliest), HWT_MS(earliest + width)));
            ck_assert_uint_ge(hwt_timeout_remaining(timeout), HWT_MS(earliest));
            ck_assert_uint_le(hwt_timeout_remaining(timeout), HWT_MS(earliest + width));
        }
    }
    ck_assert(!hwt_timeout_reschedule_within(timeout, 2, 1));
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_reschedule_within(timeout, 1, 2));
    ck_assert(!hwt_timeout_reschedule_within((hwt_timeout){ NULL, 0 }, 1, 2));
    manual_close(&m);
}
END_TEST

START_TEST(a_handle_tells_deadline_task_and_arg_while_it_is_pending)
{
    ends e = { 0 };
    uint64_t deadline = 1;
    const hwt_task *task = NULL;
    void *arg = NULL;
    open_kind(_i);
    hwt_timeout timeout = arm(m.timer, &counting, &e, HWT_MS(9));
    ck_assert_int_eq(hwt_timeout_get(timeout, &deadline, &task, &arg), 0);
    ck_assert_uint_eq(deadline, START + HWT_MS(9));
    ck_assert_ptr_eq(task, &counting);
    ck_assert_ptr_eq(arg, &e);
    ck_assert_int_eq(hwt_timeout_get(timeout, NULL, NULL, NULL), 0);
    ck_assert(hwt_timeout_reschedule_at(timeout, HWT_NEVER));
    ck_assert_int_eq(hwt_timeout_get(timeout, &deadline, NULL, NULL), 0);
    ck_assert_uint_eq(deadline, HWT_NEVER);
    ck_assert(hwt_timeout_cancel(timeout));
    deadline = 3;
    ck_assert_int_eq(hwt_timeout_get(timeout, &deadline, &task, &arg), -ENOENT);
    ck_assert_int_eq(hwt_timeout_get((hwt_timeout){ NULL, 0 }, &deadline, &task, &arg), -ENOENT);
    ck_assert_uint_eq(deadline, 3);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: set, missed, some, visit, end, get");
    TCase *tcase = add_case(suite, "both kinds");
    tcase_add_loop_test(tcase, set_arms_a_zeroed_handle_and_moves_a_pending_one, 0, 2);
    tcase_add_loop_test(tcase, set_inside_its_own_task_re_arms_the_same_timeout, 0, 2);
    tcase_add_loop_test(tcase, set_refuses_as_new_timeouts_do_and_leaves_the_handle, 0, 2);
    tcase_add_loop_test(tcase, runs_and_missed_periods_are_all_periods, 0, 2);
    tcase_add_loop_test(tcase, some_at_a_time_runs_all_in_order, 0, 2);
    tcase_add_loop_test(tcase, the_descriptor_stays_readable_until_all_have_run, 0, 2);
    tcase_add_loop_test(tcase, a_visitor_sees_all_that_is_pending_and_may_cancel_a_group, 0, 2);
    tcase_add_loop_test(tcase, end_runs_what_is_due_before_and_leaves_the_rest, 0, 2);
    tcase_add_loop_test(tcase, end_from_a_task_is_refused, 0, 2);
    tcase_add_loop_test(tcase, what_is_moved_within_a_window_is_due_in_it, 0, 2);
    tcase_add_loop_test(tcase, a_handle_tells_deadline_task_and_arg_while_it_is_pending, 0, 2);
    TCase *worker = add_case(suite, "worker");
    tcase_add_test(worker, end_of_a_worker_waits_for_what_is_due_and_no_longer);
    return run_suite(suite);
}
