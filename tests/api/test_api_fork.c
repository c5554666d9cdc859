/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A child after fork() may destroy the timer, and nothing is called back there.
 */

#include <sys/wait.h>

#include "api_fixture.h"

static manual m;

static void open_manual(void)
{
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 16);
}

static int destroy_in_child(hwt_timer *timer, ends *e)
{
    uint64_t before = ends_sum(e);
    hwt_timer_destroy(timer);
    return ends_sum(e) == before ? 0 : 1;
}

static void fork_and_destroy(hwt_timer *timer, ends *e)
{
    int status = -1;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(destroy_in_child(timer, e));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_child_after_fork_destroys_the_timer_and_is_called_by_nobody)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    for (int i = 0; i < 1000; i++)
        arm(timer, &counting, &e, HWT_SEC(1000));
    arm(timer, &counting, &e, 0);
    ck_assert(await_count(&e.runs, 1));
    fork_and_destroy(timer, &e);
    arm(timer, &counting, &e, 0); /* the parent's goes on */
    ck_assert(await_count(&e.runs, 2));
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends_sum(&e), 1002);
}
END_TEST

START_TEST(a_child_destroys_a_timer_whose_task_was_running)
{
    gate g = { 0 };
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &gated, &g, 0);
    arm(timer, &counting, &e, HWT_SEC(1000));
    ck_assert(await_count(&g.reached, 1));
    fork_and_destroy(timer, &e);
    g.open = 1;
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, 1);
}
END_TEST

START_TEST(a_child_destroys_a_timer_that_has_no_worker)
{
    ends e = { 0 };
    for (int i = 0; i < 100; i++)
        arm(m.timer, &counting, &e, HWT_SEC(1));
    fork_and_destroy(m.timer, &e);
    manual_close(&m);
    ck_assert_uint_eq(e.cancelled, 100);
}
END_TEST

/* ---- */

static void add_fork(Suite *suite)
{
    TCase *own = add_case(suite, "fork with a worker");
    tcase_add_test(own, a_child_after_fork_destroys_the_timer_and_is_called_by_nobody);
    tcase_add_test(own, a_child_destroys_a_timer_whose_task_was_running);
    TCase *tcase = add_opened_case(suite, "fork", open_manual);
    tcase_add_test(tcase, a_child_destroys_a_timer_that_has_no_worker);
}

int main(void)
{
    Suite *suite = suite_create("api: fork");
    add_fork(suite);
    return run_suite(suite);
}
