/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The threads of all stores of a process: when they are refused, signals, forks; and when their jobs run. */

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "children.h"
#include "tests/delay/support/many.h"

static atomic_int threads_to_pass = INT32_MAX;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *arg)
{
    if (atomic_fetch_sub(&threads_to_pass, 1) <= 0)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, run, arg);
}

START_TEST(test_without_threads_a_store_is_not_opened)
{
    int before = descriptors();
    for (int n = 0; n < 4; n++) {
        threads_to_pass = n;
        ck_assert_int_eq(open_one(&ones[0]), -EAGAIN);
        await_no_threads();
        ck_assert_int_eq(descriptors(), before);
    }
    threads_to_pass = 4;
    open_many(2);
    expect_to_work(&ones[0]);
    expect_to_work(&ones[1]);
    threads_to_pass = INT32_MAX;
    close_one(&ones[0]);
    close_one(&ones[1]);
}
END_TEST

/* More threads are refused at first: what waits for one has it once there is one. */
START_TEST(test_threads_that_are_refused_are_asked_for_again)
{
    threads_to_pass = 4;
    open_many(3);
    set_door(&callbacks, true);
    put_async(&ones[0], 1, stand);
    await_standing(&callbacks);
    put_async(&ones[1], 1, note_told);
    while (threads_to_pass > -1) /* it was refused */
        usleep(1000);
    ck_assert_int_eq(ones[1].told, 0);
    threads_to_pass = INT32_MAX;
    await_told(&ones[1], 1);
    set_door(&callbacks, false);
    for (int i = 0; i < 3; i++)
        close_one(&ones[i]);
}
END_TEST

static sigset_t blocked;

static void try_to_end(int result, void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    pthread_cancel(pthread_self());
    pthread_testcancel();
    note_told(result, arg);
}

START_TEST(test_threads_block_signals_and_cannot_be_cancelled)
{
    static const int raised[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };
    open_many(1);
    put_async(&ones[0], 1, try_to_end);
    await_told(&ones[0], 1);
    put_async(&ones[0], 2, note_told);
    close_one(&ones[0]);
    ck_assert_int_eq(ones[0].told, 2);
    for (int i = 1; i < 32; i++) {
        bool may = i == SIGKILL || i == SIGSTOP;
        for (size_t n = 0; n < sizeof(raised) / sizeof(*raised); n++)
            may = may || raised[n] == i;
        ck_assert_int_eq(sigismember(&blocked, i), !may);
    }
}
END_TEST

/* The child has none of the threads, and its parent's stores are not its own. */
START_TEST(test_a_child_of_a_fork_has_threads_of_its_own)
{
    open_many(2);
    pid_t child = fork();
    if (child == 0) {
        must(open_one(&ones[2]) == 0);
        put_async(&ones[2], 1, note_told);
        await_told(&ones[2], 1);
        put(&ones[2], 0, 2);
        take_and_finish(&ones[2]);
        close_one(&ones[2]);
        await_no_threads();
        _exit(0);
    }
    expect_to_work(&ones[0]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close_one(&ones[0]);
    close_one(&ones[1]);
}
END_TEST

/* Handlers of fork() that were there before the first store was opened. */
static bool forks;

static void *open_and_close(void *arg)
{
    must(open_one(arg) == 0);
    close_one(arg);
    return NULL;
}

static void join_one(void)
{
    if (forks)
        join(spawn(open_and_close, &ones[1]));
}

static void work(void)
{
    if (!forks)
        return;
    must(open_one(&ones[2]) == 0);
    put_async(&ones[2], 1, note_told);
    await_told(&ones[2], 1);
    close_one(&ones[2]);
}

/* Nothing is locked across a fork, and a child has no pool of its parent's as soon as it runs. */
START_TEST(test_handlers_of_a_fork_may_open_stores)
{
    must(pthread_atfork(join_one, NULL, work) == 0);
    open_many(1);
    forks = true;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    forks = false;
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close_one(&ones[0]);
}
END_TEST

/* A job that sets its next time itself, the first time, and returns another one. */
struct timed {
    struct hwt_delay_job job;
    uint64_t set, returned;
    atomic_int runs;
};

static uint64_t run_timed(void *arg)
{
    struct timed *timed = arg;
    if (atomic_fetch_add(&timed->runs, 1) > 0)
        return HWT_NEVER;
    hwt_delay_job_at(&timed->job, timed->set);
    return timed->returned;
}

/* The earlier one counts, whichever that is. */
START_TEST(test_a_job_runs_at_the_earlier_of_two_times)
{
    const uint64_t soon = HWT_MS(1), late = HWT_MIN(60);
    struct timed timed = { .set = _i == 0 ? soon : late, .returned = _i == 0 ? late : soon };
    struct hwt_delay_pool *pool;
    ck_assert_int_eq(hwt_delay_pool_enter(&pool), 0);
    hwt_delay_job_begin(&timed.job, pool, HWT_DELAY_LOAD, run_timed, &timed);
    hwt_delay_job_want(&timed.job);
    while (atomic_load(&timed.runs) < 2)
        usleep(1000);
    hwt_delay_job_end(&timed.job);
    ck_assert_int_eq(timed.runs, 2);
    hwt_delay_pool_leave(pool);
}
END_TEST

/* Two jobs: the first runs until the time of both has come, its own being the earlier one. */
struct late {
    struct hwt_delay_job job, other;
    atomic_int runs, other_runs;
};

static uint64_t run_other(void *arg)
{
    atomic_fetch_add(&((struct late *)arg)->other_runs, 1);
    return HWT_NEVER;
}

static uint64_t run_until_its_time_has_come(void *arg)
{
    struct late *late = arg;
    if (atomic_fetch_add(&late->runs, 1) > 0)
        return HWT_NEVER;
    hwt_delay_job_at(&late->job, HWT_MS(1));
    hwt_delay_job_at(&late->other, HWT_MS(2));
    while (atomic_load(&late->other_runs) == 0)
        usleep(1000);
    return HWT_NEVER;
}

START_TEST(test_a_job_whose_time_comes_while_it_runs_runs_again)
{
    struct late late = { .runs = 0 };
    struct hwt_delay_pool *pool;
    ck_assert_int_eq(hwt_delay_pool_enter(&pool), 0);
    hwt_delay_job_begin(&late.job, pool, HWT_DELAY_LOAD, run_until_its_time_has_come, &late);
    hwt_delay_job_begin(&late.other, pool, HWT_DELAY_COMMIT, run_other, &late);
    hwt_delay_job_want(&late.job);
    while (atomic_load(&late.runs) < 2)
        usleep(1000);
    hwt_delay_job_end(&late.job);
    hwt_delay_job_end(&late.other);
    ck_assert_int_eq(late.runs, 2);
    hwt_delay_pool_leave(pool);
}
END_TEST

/* Where it is set twice from outside, the last one counts. */
START_TEST(test_a_job_runs_at_the_time_set_last)
{
    struct timed timed = { .runs = 1 };
    struct hwt_delay_pool *pool;
    ck_assert_int_eq(hwt_delay_pool_enter(&pool), 0);
    hwt_delay_job_begin(&timed.job, pool, HWT_DELAY_LOAD, run_timed, &timed);
    hwt_delay_job_at(&timed.job, HWT_MIN(60));
    const uint64_t first = timed.job.at;
    hwt_delay_job_at(&timed.job, HWT_MIN(120));
    ck_assert_uint_ge(timed.job.at, first + HWT_MIN(60));
    hwt_delay_job_at(&timed.job, HWT_NEVER);
    ck_assert_uint_eq(timed.job.at, HWT_NEVER);
    hwt_delay_job_at(&timed.job, HWT_MS(1));
    while (atomic_load(&timed.runs) < 2)
        usleep(1000);
    hwt_delay_job_end(&timed.job);
    hwt_delay_pool_leave(pool);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_threads");
    TCase *tcase = tcase_create("threads");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_without_threads_a_store_is_not_opened);
    tcase_add_test(tcase, test_threads_that_are_refused_are_asked_for_again);
    tcase_add_loop_test(tcase, test_a_job_runs_at_the_earlier_of_two_times, 0, 2);
    tcase_add_test(tcase, test_a_job_runs_at_the_time_set_last);
    tcase_add_test(tcase, test_a_job_whose_time_comes_while_it_runs_runs_again);
    tcase_add_test(tcase, test_threads_block_signals_and_cannot_be_cancelled);
    if (!WITH_SANITIZER) { /* a child of a process with threads may not use one's allocator */
        tcase_add_test(tcase, test_a_child_of_a_fork_has_threads_of_its_own);
        tcase_add_test(tcase, test_handlers_of_a_fork_may_open_stores);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
