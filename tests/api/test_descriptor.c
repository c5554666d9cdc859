/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The descriptor that a loop watches: it is not readable once the timer is stopped, wherever
 * a thread that makes it readable stood meanwhile; it may be descriptor 0.
 */

#include <fcntl.h>
#include <sys/timerfd.h>

#include "children.h"

static hwt_timer *create_for_loop(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    return create(&options);
}

/* ---- a thread that is held where it makes the descriptor readable ---- */

/*
 * With the linker's --wrap, these take the place of libc's in the library. A thread that has asked
 * for it stands there, before the call, until it is let go.
 */
static _Thread_local bool to_be_held;
static gate hold;
static shared_count held_calls;

static void stand(void)
{
    if (!to_be_held)
        return;
    to_be_held = false;
    held_calls++;
    gate_pass(&hold);
}

int __real_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
ssize_t __real_write(int fd, const void *buffer, size_t size);
ssize_t __wrap_write(int fd, const void *buffer, size_t size);
int __real_eventfd_write(int fd, uint64_t value);
int __wrap_eventfd_write(int fd, uint64_t value);

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
    stand();
    return __real_timerfd_settime(fd, flags, at, old);
}

ssize_t __wrap_write(int fd, const void *buffer, size_t size)
{
    stand();
    return __real_write(fd, buffer, size);
}

int __wrap_eventfd_write(int fd, uint64_t value)
{
    stand();
    return __real_eventfd_write(fd, value);
}

typedef struct waker {
    hwt_timer *timer;
    hwt_timeout timeout; /* pending, of a task with `cancelled` */
    ends *ends;
    shared_count returned, accepted, cancelled;
} waker;

static void *wake_by_adding(void *data)
{
    waker *w = data;
    to_be_held = true;
    w->accepted = hwt_timer_new_timeout(w->timer, &counting, w->ends, 0, NULL) == 0;
    to_be_held = false;
    w->returned++;
    return NULL;
}

static void *wake_by_cancelling(void *data)
{
    waker *w = data;
    to_be_held = true;
    w->cancelled = hwt_timeout_cancel(w->timeout);
    to_be_held = false;
    w->returned++;
    return NULL;
}

static void *wake_by_moving(void *data)
{
    waker *w = data;
    to_be_held = true;
    (void)hwt_timeout_reschedule(w->timeout, 0);
    to_be_held = false;
    w->returned++;
    return NULL;
}

static void *(*const ways[])(void *) = { wake_by_adding, wake_by_cancelling, wake_by_moving };

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void *stop_it(void *data)
{
    waker *w = data;
    (void)hwt_timer_stop(w->timer, count_visit, NULL);
    w->returned++;
    return NULL;
}

/* The timer's stop may wait for the held thread: it is let go in the end in any case. */
static void await_stop_or_let_go(waker *stopping)
{
    (void)await_within(HWT_MS(500), &stopping->returned, 1);
    hold.open = 1;
}

/*
 * Each loop: the waker adds what is due first, cancels, or moves to earlier. It stands before the
 * call that makes the descriptor readable, while another thread stops the timer.
 */
START_TEST(a_waker_that_is_late_leaves_the_descriptor_of_a_stopped_timer_quiet)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    int fd = hwt_timer_fd(timer);
    waker w = { .timer = timer, .timeout = arm(timer, &counting, &e, HWT_SEC(3600)), .ends = &e };
    waker stopping = { .timer = timer };
    (void)hwt_timer_next_tick(timer); /* the loop is about to sleep for an hour */
    hold = (gate){ 0 };
    pthread_t thread = spawn(ways[_i], &w);
    while (!hold.reached && !w.returned)
        sched_yield();
    pthread_t stops = spawn(stop_it, &stopping);
    await_stop_or_let_go(&stopping);
    join(thread);
    join(stops);
    ck_assert(!readable(fd, 20));
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends_sum(&e), 1 + w.accepted);
}
END_TEST

/* The same with a loop that dispatches meanwhile. */
START_TEST(a_waker_that_is_late_for_a_dispatch_leaves_nothing_undone)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    int fd = hwt_timer_fd(timer);
    waker w = { .timer = timer, .timeout = arm(timer, &counting, &e, HWT_SEC(3600)), .ends = &e };
    (void)hwt_timer_next_tick(timer);
    hold = (gate){ 0 };
    pthread_t thread = spawn(ways[_i], &w);
    while (!hold.reached && !w.returned)
        sched_yield();
    hwt_timer_dispatch(timer); /* finds what the waker has done; the descriptor comes late */
    hold.open = 1;
    join(thread);
    for (int turns = 0; e.runs + e.cancelled == 0; turns++) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
        ck_assert_int_lt(turns, 100); /* it does not spin */
    }
    if (readable(fd, 0))
        hwt_timer_dispatch(timer);
    ck_assert(!readable(fd, 20));
    hwt_timer_destroy(timer);
}
END_TEST

/* That the hold is where it should be: the library reaches a sleeping loop by one of the calls. */
START_TEST(a_waker_is_held)
{
    ends e = { 0 };
    hwt_timer *timer = create_for_loop();
    ck_assert_int_ge(hwt_timer_fd(timer), 0);
    (void)hwt_timer_next_tick(timer);
    waker w = { .timer = timer, .ends = &e };
    hold = (gate){ .open = 1 };
    join(spawn(wake_by_adding, &w));
    ck_assert_uint_eq(held_calls, 1);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- without a hold: whatever the scheduler does ---- */

typedef struct crowd {
    hwt_timer *timer;
    ends ends;
    shared_count going, added;
} crowd;

static void *add_cancel_move(void *data)
{
    crowd *c = data;
    uint64_t random = (uintptr_t)&random;
    c->going++;
    for (int i = 0; i < 3000; i++) { /* or until it is stopped */
        hwt_timeout timeout;
        uint64_t choice = test_random(&random);
        if (hwt_timer_new_timeout(c->timer, &counting, &c->ends, HWT_SEC(1) >> choice % 20,
                                  &timeout) < 0)
            break;
        c->added++;
        if (choice & 1024)
            hwt_timeout_cancel(timeout);
        else
            hwt_timeout_reschedule(timeout, 0);
    }
    return NULL;
}

START_TEST(stop_amid_wakers_leaves_the_descriptor_quiet)
{
    enum { ROUNDS = 300, THREADS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        crowd c = { .timer = create_for_loop() };
        int fd = hwt_timer_fd(c.timer);
        for (int i = 0; i < THREADS; i++)
            threads[i] = spawn(add_cancel_move, &c);
        ck_assert(await_count(&c.going, THREADS));
        for (int i = 0; i < round % 4; i++)
            hwt_timer_dispatch(c.timer);
        ck_assert_int_ge(hwt_timer_stop(c.timer, NULL, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            join(threads[i]);
        ck_assert(!readable(fd, 0));
        hwt_timer_destroy(c.timer);
        ck_assert_uint_eq(ends_sum(&c.ends), c.added);
    }
}
END_TEST

/* ---- asked for by several threads at once ---- */

static void *ask_for_fd(void *data)
{
    waker *w = data;
    w->accepted = (uint64_t)hwt_timer_fd(w->timer);
    return NULL;
}

START_TEST(threads_that_ask_at_once_are_given_one_descriptor)
{
    enum { ROUNDS = 200, THREADS = 4 };
    for (int round = 0; round < ROUNDS; round++) {
        hwt_timer *timer = create_for_loop();
        waker w[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            w[i] = (waker){ .timer = timer };
            threads[i] = spawn(ask_for_fd, &w[i]);
        }
        for (int i = 0; i < THREADS; i++)
            join(threads[i]);
        for (int i = 1; i < THREADS; i++)
            ck_assert_uint_eq(w[i].accepted, w[0].accepted);
        hwt_timer_destroy(timer);
    }
}
END_TEST

/* ---- descriptor 0: a daemon that has closed stdin ---- */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int fd_inside = -1;

static void ask_inside(hwt_timeout timeout, void *timer)
{
    (void)timeout;
    fd_inside = hwt_timer_fd(timer);
}

static void run_loop_on_0(void *arg)
{
    static const hwt_task asking = { ask_inside, NULL };
    ends e = { 0 };
    (void)arg;
    close(0);
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = NULL;
    child_must(hwt_timer_create(&options, &timer) == 0);
    child_must(hwt_timer_fd(timer) == 0);
    child_must(hwt_timer_fd(timer) == 0);
    for (uint64_t i = 1; i <= 5; i++) {
        child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_MS(2), NULL) == 0);
        while (e.runs < i) {
            child_must(readable(0, 20000));
            hwt_timer_dispatch(timer);
        }
        child_must(!readable(0, 0));
    }
    child_must(hwt_timer_new_timeout(timer, &asking, timer, 0, NULL) == 0);
    while (hwt_timer_dispatch(timer) == 0)
        child_must(readable(0, 20000));
    child_must(fd_inside == 0);
    child_must(hwt_timer_stop(timer, NULL, NULL) == 0 && !readable(0, 0));
    hwt_timer_destroy(timer);
    child_must(!is_open(0));
}

START_TEST(a_loop_may_have_descriptor_0)
{
    expect_well("a loop", run_loop_on_0, NULL);
}
END_TEST

static void run_worker_on_0(void *arg)
{
    ends e = { 0 };
    (void)arg;
    close(0);
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = NULL;
    child_must(hwt_timer_create(&options, &timer) == 0);
    child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_SEC(3600), NULL) == 0);
    for (uint64_t i = 1; i <= 5; i++) {
        child_must(hwt_timer_new_timeout(timer, &counting, &e, HWT_MS(2), NULL) == 0);
        child_must(await_count(&e.runs, i));
        usleep(3000); /* so that the worker sleeps for long when the next one comes */
    }
    child_must(hwt_timer_stop(timer, NULL, NULL) == 1);
    hwt_timer_destroy(timer);
    child_must(!is_open(0) && e.runs == 5 && e.cancelled == 1);
}

START_TEST(a_worker_may_have_descriptor_0)
{
    expect_well("a worker", run_worker_on_0, NULL);
}
END_TEST

/* A timer that has no descriptor closes none. */
static void close_nothing(void *arg)
{
    (void)arg;
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    hwt_timer *timer = NULL;
    child_must(is_open(0) || open("/dev/null", O_RDONLY) == 0);
    child_must(hwt_timer_create(&options, &timer) == 0);
    hwt_timer_destroy(timer);
    child_must(is_open(0));
}

START_TEST(a_timer_without_a_descriptor_does_not_close_0)
{
    expect_well("a timer", close_nothing, NULL);
}
END_TEST

/* ---- */

int main(void)
{
    Suite *suite = suite_create("api: the descriptor");
    TCase *stop = add_case(suite, "stop");
    tcase_add_test(stop, a_waker_is_held);
    tcase_add_loop_test(stop, a_waker_that_is_late_leaves_the_descriptor_of_a_stopped_timer_quiet,
                        0, WAYS);
    tcase_add_loop_test(stop, a_waker_that_is_late_for_a_dispatch_leaves_nothing_undone, 0, WAYS);
    tcase_add_test(stop, stop_amid_wakers_leaves_the_descriptor_quiet);
    tcase_add_test(stop, threads_that_ask_at_once_are_given_one_descriptor);
    TCase *zero = add_case(suite, "descriptor 0");
    tcase_add_test(zero, a_loop_may_have_descriptor_0);
    tcase_add_test(zero, a_worker_may_have_descriptor_0);
    tcase_add_test(zero, a_timer_without_a_descriptor_does_not_close_0);
    return run_suite(suite);
}
