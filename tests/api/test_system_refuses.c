/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a sandbox or the program itself takes from the library: system calls that are refused
 * (seccomp), descriptors that are closed behind its back. Then a clear error, or a timer that does
 * all it should by other means; never a worker that spins, nor one that sleeps for ever.
 */

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "children.h"

/* ---- refusing ---- */

/* From now on the system call fails so, in this thread and those that it begins, or in all that
 * there are. False: that cannot be had here. */
static bool refuse_call_in(long call, int error, unsigned flags)
{
    if (WITH_SANITIZER && call == SYS_sched_getaffinity)
        return false;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

static bool refuse_call(long call, int error)
{
    return refuse_call_in(call, error, 0);
}

typedef struct refusal {
    const char *name;
    long call;
    int error;
} refusal;

#define ALL_REFUSALS(name)                                                                         \
    { #name, SYS_##name, EPERM },                                                                  \
    {                                                                                              \
#name, SYS_##name, ENOSYS                                                                  \
    }

static const refusal refusals[] = {
    ALL_REFUSALS(timerfd_create),
    ALL_REFUSALS(timerfd_settime),
    ALL_REFUSALS(membarrier),
    ALL_REFUSALS(eventfd2),
    ALL_REFUSALS(getrandom),
    ALL_REFUSALS(madvise),
    ALL_REFUSALS(prctl),
    ALL_REFUSALS(sched_getaffinity),
    ALL_REFUSALS(sched_setaffinity),
    ALL_REFUSALS(getcpu),
#ifdef SYS_futex_time64 /* 32 bits; with another error libc itself aborts */
    { "futex_time64", SYS_futex_time64, ENOSYS },
#endif
};

enum { REFUSALS = sizeof(refusals) / sizeof(refusals[0]) };

/* ---- a timer that works ---- */

enum { ADDERS = 4, EACH = 500 };

typedef struct crowd {
    hwt_timer *timer;
    ends ends;
    shared_count refused;
} crowd;

static void *use_timer(void *data)
{
    crowd *c = data;
    for (int i = 0; i < EACH; i++) {
        hwt_timeout timeout;
        int r = hwt_timer_new_timeout(c->timer, &counting, &c->ends, HWT_MS(i % 5), &timeout);
        c->refused += r != 0;
        if (r == 0 && i % 3 == 0)
            hwt_timeout_cancel(timeout);
        if (i % 100 == 0)
            usleep(2000); /* so that the worker sleeps now and then */
    }
    return NULL;
}

/* The worker sleeps to far, is woken for near, and all end. */
static void use_worker(hwt_timer *timer)
{
    crowd c = { .timer = timer };
    ends near = { 0 };
    pthread_t threads[ADDERS];
    child_must(hwt_timer_new_timeout(timer, &counting, &c.ends, HWT_SEC(3600), NULL) == 0);
    for (uint64_t i = 1; i <= 5; i++) {
        usleep(5000);
        child_must(hwt_timer_new_timeout(timer, &counting, &near, HWT_MS(2), NULL) == 0);
        child_must(await_within(HWT_SEC(10), &near.runs, i));
    }
    for (int i = 0; i < ADDERS; i++)
        threads[i] = spawn(use_timer, &c);
    for (int i = 0; i < ADDERS; i++)
        join(threads[i]);
    child_must(hwt_timer_stop(timer, NULL, NULL) >= 1);
    hwt_timer_destroy(timer);
    child_must(c.refused == 0 && ends_sum(&c.ends) == 1 + ADDERS * EACH);
}

static uint64_t processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return HWT_SEC(t.tv_sec) + (uint64_t)t.tv_nsec;
}

/* With nothing due for an hour. A worker that spins has all of the time, or all that the machine
 * gives it; one that sleeps has none. */
static void expect_rest(hwt_timer *timer)
{
    uint64_t wakeups = stats_of(timer).wakeups, time = processor_time();
    usleep(300000);
    child_must(stats_of(timer).wakeups - wakeups < 50);
    child_must(processor_time() - time < HWT_MS(60));
}

/* ---- system calls that are refused ---- */

enum { NOT_HERE = 77 };

static bool is_documented(int r, int error)
{
    return r == -error || r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

static void create_amid_refusal(void *data)
{
    const refusal *r = data;
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *nothing = NULL, *timer = nothing;
    options.tick_duration = HWT_MS(1);
    if (!refuse_call(r->call, r->error))
        _exit(NOT_HERE);
    int result = hwt_timer_create(&options, &timer);
    if (result != 0) { /* an error is the answer only where the sleep needs the call */
        child_must(r->call == SYS_timerfd_create || r->call == SYS_timerfd_settime);
        child_must(is_documented(result, r->error) && timer == nothing);
        return;
    }
    child_must(hwt_timer_start(timer) == 0);
    expect_rest(timer);
    use_worker(timer);
}

START_TEST(a_worker_amid_a_refusal_works_or_says_so)
{
    char what[64];
    refusal r = refusals[_i];
    snprintf(what, sizeof(what), "%s refused with %d", r.name, r.error);
    child_end end = run_child(create_amid_refusal, &r);
    if (!WIFEXITED(end.status) ||
        (WEXITSTATUS(end.status) != EXIT_SUCCESS && WEXITSTATUS(end.status) != NOT_HERE))
        ck_abort_msg("%s: %s. It said: %s", what, child_words(&end), end.said);
}
END_TEST

/* Without a worker the descriptor is all that the refusal can take. */
static void drive_amid_refusal(void *data)
{
    const refusal *r = data;
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    if (!refuse_call(r->call, r->error))
        _exit(NOT_HERE);
    child_must(hwt_timer_create(&options, &timer) == 0);
    int fd = hwt_timer_fd(timer);
    child_must(fd >= 0 || is_documented(fd, r->error));
    for (int i = 0; i < 100; i++)
        child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_MS(i % 5), NULL) == 0);
    while (e.runs < 100)
        hwt_timer_dispatch(timer);
    child_must(hwt_timer_stop(timer, NULL, NULL) == 0);
    hwt_timer_destroy(timer);
}

START_TEST(a_timer_that_is_driven_works_amid_a_refusal)
{
    refusal r = refusals[_i];
    child_end end = run_child(drive_amid_refusal, &r);
    if (!WIFEXITED(end.status) ||
        (WEXITSTATUS(end.status) != EXIT_SUCCESS && WEXITSTATUS(end.status) != NOT_HERE))
        ck_abort_msg("%s refused with %d: %s. It said: %s", r.name, r.error, child_words(&end),
                     end.said);
}
END_TEST

/* A filter that comes when the worker sleeps already: what worked at create is refused later. */
static void refuse_later(void *data)
{
    const refusal *r = data;
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.tick_duration = HWT_MS(1);
    child_must(hwt_timer_create(&options, &timer) == 0);
    if (!refuse_call(r->call, r->error)) /* of this thread; the worker starts from it */
        _exit(NOT_HERE);
    child_must(hwt_timer_start(timer) == 0);
    usleep(20000);
    use_worker(timer);
}

static const refusal later[] = { ALL_REFUSALS(membarrier), ALL_REFUSALS(getrandom),
                                 ALL_REFUSALS(madvise) };

START_TEST(a_refusal_after_create_loses_no_wakeup)
{
    refusal r = later[_i];
    child_end end = run_child(refuse_later, &r);
    if (!WIFEXITED(end.status) ||
        (WEXITSTATUS(end.status) != EXIT_SUCCESS && WEXITSTATUS(end.status) != NOT_HERE))
        ck_abort_msg("%s refused later with %d: %s. It said: %s", r.name, r.error,
                     child_words(&end), end.said);
}
END_TEST

static void *dispatch_cancelled(void *timer)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    (void)hwt_timer_dispatch(timer);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return timer;
}

/* The call that drives has to wait in the place of the barrier. Its thread has been cancelled, and
 * would keep the timer for ever if it ended there. */
static void cancel_driver_amid_refusal(void *data)
{
    const refusal *r = data;
    ends e = { 0 };
    void *returned = NULL;
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.flags = HWT_NO_WORKER;
    child_must(hwt_timer_create(&options, &timer) == 0 && hwt_timer_fd(timer) >= 0);
    child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_SEC(3600), NULL) == 0);
    if (!refuse_call(r->call, r->error))
        _exit(NOT_HERE);
    pthread_t thread = spawn(dispatch_cancelled, timer);
    child_must(pthread_join(thread, &returned) == 0 && returned == timer);
    hwt_timer_dispatch(timer);
    hwt_timer_destroy(timer);
    child_must(e.cancelled == 1);
}

START_TEST(a_driver_that_is_cancelled_amid_a_refusal_returns)
{
    refusal r = later[_i];
    child_end end = run_child(cancel_driver_amid_refusal, &r);
    if (!WIFEXITED(end.status) ||
        (WEXITSTATUS(end.status) != EXIT_SUCCESS && WEXITSTATUS(end.status) != NOT_HERE))
        ck_abort_msg("%s refused with %d to a driver: %s. It said: %s", r.name, r.error,
                     child_words(&end), end.said);
}
END_TEST

/* One adds what is due at once, whenever the worker has gone to sleep for an hour; others add all
 * the time. In the middle of it, or while it sleeps, the worker's own thread is refused the call. */
static void refuse_in_the_middle(void *data)
{
    const refusal *r = data;
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    ends far = { 0 }, near = { 0 };
    pthread_t threads[ADDERS];
    options.tick_duration = HWT_MS(1);
    child_must(hwt_timer_create(&options, &timer) == 0);
    child_must(hwt_timer_new_timeout(timer, &counting, &far, HWT_SEC(3600), NULL) == 0);
    crowd c = { .timer = timer };
    for (int i = 0; i < ADDERS; i++)
        threads[i] = spawn(use_timer, &c);
    for (uint64_t i = 1; i <= 40; i++) {
        if (i == 5 && !refuse_call_in(r->call, r->error, SECCOMP_FILTER_FLAG_TSYNC))
            _exit(NOT_HERE);
        if (i % 2)
            usleep(1000);
        child_must(hwt_timer_new_timeout(timer, &counting, &near, i % 3, NULL) == 0);
        child_must(await_within(HWT_SEC(30), &near.runs, i));
    }
    for (int i = 0; i < ADDERS; i++)
        join(threads[i]);
    usleep(20000);
    expect_rest(timer);
    use_worker(timer);
    child_must(c.refused == 0 && ends_sum(&c.ends) == ADDERS * EACH && far.cancelled == 1);
}

static const refusal amid[] = {
    ALL_REFUSALS(membarrier),
    ALL_REFUSALS(madvise),
#ifdef SYS_futex_time64
    { "futex_time64", SYS_futex_time64, ENOSYS },
#endif
};

START_TEST(a_refusal_while_the_worker_runs_loses_no_wakeup)
{
    refusal r = amid[_i];
    child_end end = run_child(refuse_in_the_middle, &r);
    if (!WIFEXITED(end.status) ||
        (WEXITSTATUS(end.status) != EXIT_SUCCESS && WEXITSTATUS(end.status) != NOT_HERE))
        ck_abort_msg("%s refused in the middle with %d: %s. It said: %s", r.name, r.error,
                     child_words(&end), end.said);
}
END_TEST

/* To the last tenth of a second, and for longer than 32 bits of seconds: it wakes for that alone. */
static void sleep_exactly(void *data)
{
    const refusal *r = data;
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL, *slow = NULL;
    options.tick_duration = HWT_MS(1);
    if (!refuse_call(r->call, r->error))
        _exit(NOT_HERE);
    child_must(hwt_timer_create(&options, &timer) == 0 && hwt_timer_start(timer) == 0);
    uint64_t second = hwt_timer_now(timer) / HWT_SEC(1) * HWT_SEC(1);
    child_must(hwt_timer_new_timeout_at(timer, &counting, &e, second + HWT_MS(1900), NULL) == 0);
    child_must(await_count(&e.runs, 1));
    child_must(stats_of(timer).wakeups < 50);
    hwt_timer_destroy(timer);
    options.tick_duration = HWT_SEC(100);
    child_must(hwt_timer_create(&options, &slow) == 0 && hwt_timer_start(slow) == 0);
    child_must(hwt_timer_new_timeout(slow, &counting, &e, HWT_SEC(3000000000), NULL) == 0);
    usleep(300000);
    child_must(stats_of(slow).wakeups < 50);
    hwt_timer_destroy(slow);
}

START_TEST(a_worker_sleeps_to_its_instant_amid_a_refusal)
{
    refusal r = amid[_i];
    child_end end = run_child(sleep_exactly, &r);
    if (!WIFEXITED(end.status) ||
        (WEXITSTATUS(end.status) != EXIT_SUCCESS && WEXITSTATUS(end.status) != NOT_HERE))
        ck_abort_msg("%s refused with %d to one that sleeps: %s. It said: %s", r.name, r.error,
                     child_words(&end), end.said);
}
END_TEST

/* ---- descriptors that are closed ---- */

static void close_all(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
}

static hwt_timer *create_in_child(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.tick_duration = HWT_MS(1);
    child_must(hwt_timer_create(&options, &timer) == 0);
    return timer;
}

/* As a daemon does: everything is set up, then all descriptors but the first are closed. */
static void close_before_start(void *arg)
{
    (void)arg;
    hwt_timer *timer = create_in_child();
    close_all();
    child_must(hwt_timer_start(timer) == 0);
    expect_rest(timer);
    use_worker(timer);
}

static void close_while_it_sleeps(void *arg)
{
    ends e = { 0 };
    (void)arg;
    hwt_timer *timer = create_in_child();
    child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_SEC(3600), NULL) == 0);
    usleep(20000);
    close_all();
    child_must(hwt_timer_new_timeout(timer, &counting, &e, 0, NULL) == 0);
    child_must(await_within(HWT_SEC(10), &e.runs, 1));
    expect_rest(timer);
    use_worker(timer);
}

enum { OTHERS_FIRST = 5 };

/* The number is another's now, such as a socket's: the worker neither reads from it nor waits on
 * it, and destroy does not close it. */
static void give_number_to_another(void *arg)
{
    int ends_of_pipe[2];
    (void)arg;
    hwt_timer *timer = create_in_child();
    close_all();
    child_must(pipe(ends_of_pipe) == 0 && ends_of_pipe[1] < OTHERS_FIRST);
    for (int fd = OTHERS_FIRST; fd < 64; fd++)
        child_must(dup2(ends_of_pipe[0], fd) == fd);
    child_must(write(ends_of_pipe[1], "12345678", 8) == 8);
    child_must(hwt_timer_start(timer) == 0);
    use_worker(timer);
    char text[8];
    child_must(poll(&(struct pollfd){ ends_of_pipe[0], POLLIN, 0 }, 1, 0) == 1);
    child_must(read(ends_of_pipe[0], text, 8) == 8);
    for (int fd = OTHERS_FIRST; fd < 64; fd++)
        child_must(fcntl(fd, F_GETFD) >= 0);
}

static void (*const closings[])(void *) = { close_before_start, close_while_it_sleeps,
                                            give_number_to_another };

/* The program may be told so with a message, and an abort: better than a worker that spins. */
START_TEST(descriptors_closed_behind_its_back_do_not_make_the_worker_spin)
{
    child_end end = run_child(closings[_i], NULL);
    bool told = WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT;
    if (told && strstr(end.said, "hwt"))
        return;
    if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != EXIT_SUCCESS)
        ck_abort_msg("%s. It said: %s", child_words(&end), end.said);
}
END_TEST

static void add_all(Suite *suite)
{
    TCase *calls = add_case(suite, "calls");
    tcase_add_loop_test(calls, a_worker_amid_a_refusal_works_or_says_so, 0, REFUSALS);
    tcase_add_loop_test(calls, a_timer_that_is_driven_works_amid_a_refusal, 0, REFUSALS);
    tcase_add_loop_test(calls, a_refusal_after_create_loses_no_wakeup, 0,
                        sizeof(later) / sizeof(later[0]));
    tcase_add_loop_test(calls, a_driver_that_is_cancelled_amid_a_refusal_returns, 0,
                        sizeof(later) / sizeof(later[0]));
    tcase_add_loop_test(calls, a_refusal_while_the_worker_runs_loses_no_wakeup, 0,
                        sizeof(amid) / sizeof(amid[0]));
    tcase_add_loop_test(calls, a_worker_sleeps_to_its_instant_amid_a_refusal, 0,
                        sizeof(amid) / sizeof(amid[0]));
    if (WITH_THREAD_SANITIZER) /* it reports who closes what another thread waits on */
        return;
    TCase *closed = add_case(suite, "closed");
    tcase_add_loop_test(closed, descriptors_closed_behind_its_back_do_not_make_the_worker_spin, 0,
                        3);
}

int main(void)
{
    Suite *suite = suite_create("api: what the system or the program takes");
    add_all(suite);
    return run_suite(suite);
}
