/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Children of other kinds than fork() makes between two calls: vfork() and posix_spawn(), whose
 * child has the parent's memory until it executes another program; and fork(), _Fork() and a bare
 * clone() in a signal handler, while the thread is in the midst of a call. That child goes on in
 * the call, and then finds that the timer is the parent's.
 */

#include <errno.h>
#include <spawn.h>
#include <sys/syscall.h>

#include "children.h"

static hwt_timer *timer;
static ends fate;

static void expect_it_goes_on(void)
{
    uint64_t runs = fate.runs, cancelled = fate.cancelled;
    (void)arm(timer, &counting, &fate, 0);
    must(hwt_timeout_cancel(arm(timer, &counting, &fate, HWT_MIN(1))));
    ck_assert(await_count(&fate.runs, runs + 1));
    ck_assert(await_count(&fate.cancelled, cancelled + 1));
}

/* ---- children that execute a program ---- */

static atomic_bool over;

static void *keep_busy(void *data)
{
    while (!over) {
        must(hwt_timeout_cancel(arm(timer, &counting, &fate, HWT_MIN(1))));
        (void)arm(timer, &counting, &fate, HWT_MS(1));
    }
    return data;
}

static char *const nothing[] = { (char[]){ "true" }, NULL };

static pid_t spawn_program(void)
{
    pid_t child = -1;
    ck_assert_int_eq(posix_spawnp(&child, "true", NULL, NULL, nothing, NULL), 0);
    return child;
}

static pid_t vfork_program(void)
{
    pid_t child = vfork();
    if (child == 0) {
        (void)execvp("true", nothing);
        _exit(EXIT_FAILURE);
    }
    return child;
}

static pid_t (*const kinds[])(void) = { spawn_program, vfork_program };

enum { PROGRAMS = 30 };

START_TEST(a_child_that_executes_a_program_changes_nothing_for_its_parent)
{
    int status = -1;
    timer = create_ticking(HWT_MS(1));
    over = false;
    expect_it_goes_on();
    pthread_t busy = spawn(keep_busy, NULL);
    for (int i = 0; i < PROGRAMS; i++) {
        pid_t child = kinds[_i]();
        ck_assert_int_gt(child, 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        expect_it_goes_on();
    }
    over = true;
    join(busy);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- in the midst of a call ---- */

enum { HELD = 64, FORKS = WITH_SANITIZER ? 20 : 100 };

static pid_t by_fork(void)
{
    return fork();
}

static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
pid_t _Fork(void);
#define BARE_FORK _Fork
#else
#define BARE_FORK by_clone
#endif

static pid_t (*const ways[])(void) = { by_fork, BARE_FORK, by_clone };

static pid_t (*way)(void);
static volatile sig_atomic_t in_child;
static volatile pid_t made;
static shared_count handled;
static pthread_t user;

static void fork_here(int number)
{
    (void)number;
    int before = errno;
    pid_t child = way();
    if (child == 0) {
        in_child = 1;
        (void)signal(SIGALRM, SIG_DFL); /* it ends a child that hangs */
        (void)alarm(CHILD_PATIENCE);
    } else {
        made = child;
        handled++;
    }
    errno = before;
}

static void expect_parents(hwt_timeout *held)
{
    hwt_timeout timeout;
    child_must(hwt_timer_new_timeout(timer, &counting, &fate, 0, &timeout) == -ESHUTDOWN);
    for (int i = 0; i < HELD; i++) {
        (void)hwt_timeout_state(held[i]);
        (void)hwt_timeout_cancel(held[i]);
        child_must(!hwt_timeout_reschedule(held[i], 0));
    }
    uint64_t before = ends_sum(&fate);
    hwt_timer_destroy(timer);
    child_must(ends_sum(&fate) == before);
    _exit(EXIT_SUCCESS);
}

/* In the child the call that was under way may be refused; in the parent none is. */
static void *use(void *data)
{
    hwt_timeout held[HELD] = { 0 };
    uint64_t seed = test_seed();
    while (!over) {
        const uint64_t chance = test_random(&seed);
        hwt_timeout *one = &held[chance % HELD];
        (void)hwt_timeout_cancel(*one);
        int r = hwt_timer_new_timeout(timer, &counting, &fate, HWT_US(chance >> 50), one);
        bool moved = r == 0 && hwt_timeout_reschedule(*one, HWT_US(chance >> 48 & 0xffff));
        if (in_child)
            expect_parents(held);
        must(r == 0 && (moved || hwt_timeout_state(*one) != HWT_PENDING));
    }
    return data;
}

static void expect_child_well(uint64_t seed)
{
    const struct timespec nap = { 0, (long)(seed % 300000) };
    const uint64_t before = handled;
    int status = -1;
    nanosleep(&nap, NULL);
    must(pthread_kill(user, SIGUSR1) == 0);
    must(await_count(&handled, before + 1));
    ck_assert_int_gt(made, 0);
    ck_assert_int_eq(waitpid(made, &status, 0), made);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_child_that_is_made_in_the_midst_of_a_call_ends_it)
{
    const struct sigaction action = { .sa_handler = fork_here, .sa_flags = SA_RESTART };
    uint64_t seed = test_seed();
    must(sigaction(SIGUSR1, &action, NULL) == 0);
    timer = create_ticking(HWT_MS(1));
    over = false;
    handled = 0;
    way = ways[_i];
    expect_it_goes_on();
    user = spawn(use, NULL);
    for (int i = 0; i < FORKS; i++)
        expect_child_well(test_random(&seed));
    over = true;
    join(user);
    expect_it_goes_on();
    hwt_timer_destroy(timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: kinds of children");
    TCase *tcase = add_case(suite, "kinds");
    tcase_set_timeout(tcase, 170);
    tcase_add_loop_test(tcase, a_child_that_executes_a_program_changes_nothing_for_its_parent, 0,
                        2);
    if (!WITH_THREAD_SANITIZER) /* it has locks of its own, which a handler finds taken */
        tcase_add_loop_test(tcase, a_child_that_is_made_in_the_midst_of_a_call_ends_it, 0, 3);
    return run_suite(suite);
}
