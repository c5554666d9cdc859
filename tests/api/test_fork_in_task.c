/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A task that forks, and returns in both processes. In the child nothing more is called back: a
 * worker, which is the child's only thread, ends, and so the child does; the call that drives a
 * timer returns.
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

int main(void)
{
    Suite *suite = suite_create("api: a task that forks");
    TCase *tcase = tcase_create("forks");
    tcase_set_timeout(tcase, 2 * PATIENCE_S);
    suite_add_tcase(suite, tcase);
    if (!WITH_THREAD_SANITIZER) /* whose own locks a fork may find taken */
        tcase_add_test(tcase, on_a_worker);
    tcase_add_loop_test(tcase, without_a_worker, 0, 2);
    return run_suite(suite);
}
