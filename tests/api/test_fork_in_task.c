/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A callback that forks, and returns in both processes. In the child nothing more is called back: a
 * worker, which is the child's only thread, ends, and so the child does; the call that drives or
 * stops a timer returns.
 */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "children.h"

enum { PATIENCE_S = 60, CALLED_BACK = 3 };

typedef struct forker {
    hwt_timer *timer;
    hwt_timeout other;
    pid_t child;
    ends ends;
} forker;

static pid_t parent;

static void not_in_the_child(hwt_timeout timeout, void *arg)
{
    forker *f = arg;
    (void)timeout;
    if (getpid() != parent)
        _exit(CALLED_BACK);
    f->ends.cancelled++;
}

static const hwt_task parents = { not_in_the_child, not_in_the_child };

static void fork_and_return(hwt_timeout timeout, void *arg)
{
    forker *f = arg;
    (void)timeout;
    /* It is to be told after this task, and another one to run. */
    (void)hwt_timeout_cancel(f->other);
    (void)hwt_timer_new_timeout(f->timer, &parents, f, 0, NULL);
    fflush(NULL);
    f->child = fork();
    if (f->child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(PATIENCE_S);
    }
    f->ends.runs++;
}

static const hwt_task forking = { fork_and_return, NULL };

static void expect_child_ended(const forker *f)
{
    int status = -1;
    ck_assert_int_gt(f->child, 0);
    ck_assert_int_eq(waitpid(f->child, &status, 0), f->child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_ne(WEXITSTATUS(status), CALLED_BACK); /* a sanitizer may have its own */
}

START_TEST(on_a_worker)
{
    forker f = { .timer = create_ticking(HWT_MS(1)) };
    parent = getpid();
    ck_assert_int_eq(hwt_timer_new_timeout(f.timer, &parents, &f, HWT_MIN(1), &f.other), 0);
    ck_assert_int_eq(hwt_timer_new_timeout(f.timer, &forking, &f, 0, NULL), 0);
    ck_assert(await_count(&f.ends.runs, 1));
    expect_child_ended(&f);
    ck_assert(await_count(&f.ends.cancelled, 2));
    hwt_timer_destroy(f.timer);
}
END_TEST

/* Each loop: any thread may call, or one at a time. */
START_TEST(without_a_worker)
{
    manual m;
    forker f = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = _i ? HWT_ONE_THREAD : 0;
    options.tick_duration = HWT_MS(1);
    manual_open_with(&m, HWT_SEC(1), options);
    f.timer = m.timer;
    parent = getpid();
    ck_assert_int_eq(hwt_timer_new_timeout(f.timer, &parents, &f, HWT_MIN(1), &f.other), 0);
    ck_assert_int_eq(hwt_timer_new_timeout(f.timer, &forking, &f, 0, NULL), 0);
    (void)manual_go(&m, HWT_MS(2));
    if (getpid() != parent)
        _exit(EXIT_SUCCESS);
    expect_child_ended(&f);
    (void)manual_go(&m, HWT_MS(4));
    ck_assert_uint_eq(f.ends.cancelled, 2);
    manual_close(&m);
}
END_TEST

/* ---- what else may fork ---- */

/* The first one to be called back forks, and in the child no other is. */
static void fork_once(forker *f)
{
    if (getpid() != parent)
        _exit(CALLED_BACK);
    fflush(NULL);
    if (f->ends.cancelled + f->ends.runs == 0)
        f->child = fork();
    if (f->child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(PATIENCE_S);
    }
}

static void fork_when_cancelled(hwt_timeout timeout, void *arg)
{
    forker *f = arg;
    (void)timeout;
    fork_once(f);
    f->ends.cancelled++;
}

static void fork_cancelled(hwt_timeout timeout, void *arg)
{
    forker *f = arg;
    ck_assert(hwt_timeout_reschedule(timeout, HWT_SEC(1)));
    ck_assert(hwt_timeout_cancel(timeout));
    fork_once(f);
    f->ends.runs++;
}

static void fork_when_visited(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)arg;
    (void)remaining;
    fork_when_cancelled((hwt_timeout){ 0 }, data);
}

static const hwt_task telling = { not_in_the_child, fork_when_cancelled };
static const hwt_task cancelled_again = { fork_cancelled, not_in_the_child };

/* Each loop: two that are to be told; one that is armed and cancelled in its own task; two that are
 * left over. */
START_TEST(other_callbacks)
{
    hwt_timeout two[2];
    manual m;
    forker f = { 0 };
    parent = getpid();
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 64);
    for (int i = 0; i < 2 && _i != 1; i++)
        two[i] = arm(m.timer, &telling, &f, HWT_MS(1));
    if (_i == 0 && hwt_timeout_cancel(two[0]) && hwt_timeout_cancel(two[1]))
        (void)manual_go(&m, HWT_MS(1));
    if (_i == 1 && hwt_timer_new_timeout(m.timer, &cancelled_again, &f, 0, NULL) == 0)
        (void)manual_go(&m, HWT_MS(2));
    if (_i == 2)
        ck_assert_int_eq(hwt_timer_stop(m.timer, fork_when_visited, &f),
                         getpid() == parent ? 2 : 1);
    if (getpid() != parent) {
        manual_close(&m);
        _exit(EXIT_SUCCESS);
    }
    expect_child_ended(&f);
    ck_assert_uint_eq(ends_sum(&f.ends), 2);
    manual_close(&m);
}
END_TEST

/* Without a worker, what is left in the child would be waited for: for an hour. Each loop: by a clock
 * that goes, by one that is set, and in a tick that is not over at the end. */
START_TEST(in_a_graceful_end)
{
    manual m;
    forker f = { .timer = NULL };
    if (_i == 1)
        manual_open(&m, 0, HWT_MS(1), 64);
    f.timer = _i == 1 ? m.timer : create_driven(0, _i ? HWT_MIN(120) : HWT_MS(1));
    parent = getpid();
    f.other = arm(f.timer, &parents, &f, HWT_MIN(1));
    (void)arm(f.timer, &forking, &f, 0);
    (void)arm(f.timer, &parents, &f, HWT_MS(50));
    (void)hwt_timer_end(f.timer, hwt_timer_now(f.timer) + (_i == 2 ? HWT_MS(80) : HWT_MIN(60)),
                        NULL, NULL);
    hwt_timer_destroy(f.timer);
    if (getpid() != parent)
        _exit(EXIT_SUCCESS);
    expect_child_ended(&f);
    ck_assert_uint_eq(f.ends.cancelled, 2);
}
END_TEST

static void fork_beside_destroy(hwt_timeout timeout, void *arg)
{
    forker *f = arg;
    f->ends.runs++;
    while (hwt_timer_new_timeout(f->timer, &parents, f, HWT_MIN(1), NULL) == 0)
        give_others_a_chance();
    f->ends.runs--;
    fork_and_return(timeout, arg);
}

static const hwt_task forking_beside = { fork_beside_destroy, NULL };

START_TEST(on_a_worker_whose_timer_is_being_destroyed)
{
    forker f = { .timer = create_ticking(HWT_MS(1)) };
    parent = getpid();
    f.other = arm(f.timer, &parents, &f, HWT_MIN(1));
    (void)arm(f.timer, &forking_beside, &f, 0);
    ck_assert(await_count(&f.ends.runs, 1));
    hwt_timer_destroy(f.timer);
    expect_child_ended(&f);
    ck_assert_uint_ge(f.ends.cancelled, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: callbacks that fork");
    TCase *tcase = tcase_create("forks");
    tcase_set_timeout(tcase, 2 * PATIENCE_S);
    suite_add_tcase(suite, tcase);
    if (!WITH_THREAD_SANITIZER) { /* whose own locks a fork may find taken */
        tcase_add_test(tcase, on_a_worker);
        tcase_add_test(tcase, on_a_worker_whose_timer_is_being_destroyed);
    }
    tcase_add_loop_test(tcase, without_a_worker, 0, 2);
    tcase_add_loop_test(tcase, other_callbacks, 0, 3);
    tcase_add_loop_test(tcase, in_a_graceful_end, 0, 3);
    return run_suite(suite);
}
