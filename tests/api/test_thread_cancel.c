/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * pthread_cancel(), deferred as it is by default. No call of the library ends its thread half-way,
 * with a lock held or its stack in somebody else's hands: the thread ends after the call has
 * returned. So each call is made here by a thread that has been cancelled already: the first
 * cancellation point would end it.
 */

#include "children.h"

#include <hwt/heartbeat.h>
#include <hwt/retry.h>

enum kind { WORKER, DRIVEN, ALONE, KINDS };

typedef struct scene {
    void (*call)(struct scene *s);
    hwt_timer *timer;
    hwt_timeout timeout; /* of a task that stands in its run, with a worker */
    gate task;
    ends ends;
    int64_t answer;
    int state_after; /* of the thread */
    shared_count begun, returned;
} scene;

static hwt_timer *make_timer(enum kind kind)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.flags = kind == DRIVEN  ? HWT_NO_WORKER
                    : kind == ALONE ? HWT_NO_WORKER | HWT_ONE_THREAD
                                    : 0;
    return create(&options);
}

static bool has_worker(int kind)
{
    return kind == WORKER;
}

static void *call_cancelled(void *data)
{
    scene *s = data;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    s->begun = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    s->call(s);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    s->state_after = state;
    s->returned = 1;
    return NULL;
}

/* Has it called by a cancelled thread, and `meanwhile` done. */
static void expect_return(scene *s, void (*call)(scene *s), void (*meanwhile)(scene *s))
{
    s->call = call;
    s->begun = s->returned = 0;
    pthread_t thread = spawn(call_cancelled, s);
    ck_assert(await_count(&s->begun, 1));
    give_others_a_chance();
    if (meanwhile)
        meanwhile(s);
    join(thread);
    ck_assert_uint_eq(s->returned, 1);
    ck_assert_int_eq(s->state_after, PTHREAD_CANCEL_ENABLE);
}

static void open_task(scene *s)
{
    s->task.open = 1;
}

/* With a task that stands in its run, on the worker. */
static void open_with_task(scene *s, enum kind kind)
{
    *s = (scene){ .timer = make_timer(kind) };
    s->timeout = arm(s->timer, &gated, &s->task, 0);
    ck_assert(await_count(&s->task.reached, 1));
}

/* ---- what waits ---- */

static void call_cancel_sync(scene *s)
{
    s->answer = hwt_timeout_cancel_sync(s->timeout);
}

static void call_dump(scene *s)
{
    char text[4096];
    s->answer = hwt_timer_dump(s->timer, text, sizeof(text));
}

static void visit_at_a_cancellation_point(const hwt_task *task, void *arg, uint64_t remaining,
                                          void *data)
{
    pthread_testcancel();
    count_visit(task, arg, remaining, data);
}

static void call_stop(scene *s)
{
    s->answer = hwt_timer_stop(s->timer, visit_at_a_cancellation_point, NULL);
}

static void call_end(scene *s)
{
    s->answer = hwt_timer_end(s->timer, hwt_timer_now(s->timer) + HWT_MS(100),
                              visit_at_a_cancellation_point, NULL);
}

static void call_destroy(scene *s)
{
    hwt_timer_destroy(s->timer);
    s->timer = NULL;
}

static void (*const waiting[])(scene *) = { call_cancel_sync, call_dump, call_stop, call_end,
                                            call_destroy };
enum { WAITING = sizeof(waiting) / sizeof(*waiting) };

START_TEST(a_call_that_waits_for_a_task_returns)
{
    scene s;
    open_with_task(&s, WORKER);
    (void)arm(s.timer, &counting, &s.ends, HWT_SEC(3600));
    expect_return(&s, waiting[_i], open_task);
    ck_assert_uint_eq(s.task.passed, 1);
    hwt_timer_destroy(s.timer);
    ck_assert_uint_eq(ends_sum(&s.ends), 1);
}
END_TEST

static void call_start(scene *s)
{
    s->answer = hwt_timer_start(s->timer);
}

static void call_first_arm(scene *s)
{
    s->answer = hwt_timer_new_timeout(s->timer, &counting, &s->ends, 0, NULL);
}

static void call_first_within(scene *s)
{
    s->answer = hwt_timer_new_timeout_within(s->timer, &counting, &s->ends, 0, HWT_MS(1), NULL);
}

static void (*const starting[])(scene *) = { call_start, call_first_arm, call_first_within };
enum { STARTING = sizeof(starting) / sizeof(*starting) };

START_TEST(a_call_that_starts_the_worker_returns)
{
    scene s = { .timer = make_timer(WORKER) };
    expect_return(&s, starting[_i], NULL);
    ck_assert_int_eq(s.answer, 0);
    (void)arm(s.timer, &counting, &s.ends, 0);
    ck_assert(await_count(&s.ends.runs, _i ? 2 : 1));
    hwt_timer_destroy(s.timer);
}
END_TEST

/* ---- heartbeats and retries ---- */

static void stand_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                       void *arg)
{
    (void)heartbeat, (void)event, (void)count;
    gate_pass(arg);
}

static hwt_heartbeat heartbeat;

static void call_stop_sync(scene *s)
{
    s->answer = hwt_heartbeat_stop_sync(&heartbeat);
}

START_TEST(a_heartbeat_is_stopped)
{
    static const hwt_heartbeat_rules rules = { .send = HWT_MS(1), .notify = stand_told };
    scene s = { .timer = make_timer(WORKER) };
    memset(&heartbeat, 0, sizeof(heartbeat));
    ck_assert_int_eq(hwt_heartbeat_start(&heartbeat, s.timer, &rules, &s.task), 0);
    ck_assert(await_count(&s.task.reached, 1));
    expect_return(&s, call_stop_sync, open_task);
    hwt_timer_destroy(s.timer);
}
END_TEST

static void stand_in_attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    (void)retry, (void)number;
    gate_pass(arg);
}

static void do_nothing(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    (void)retry, (void)end, (void)arg;
}

static hwt_retry retry;

static void call_retry_cancel_sync(scene *s)
{
    s->answer = hwt_retry_cancel_sync(&retry);
}

START_TEST(a_retry_is_cancelled)
{
    static const hwt_retry_task task = { stand_in_attempt, do_nothing };
    scene s = { .timer = make_timer(WORKER) };
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    memset(&retry, 0, sizeof(retry));
    ck_assert_int_eq(hwt_retry_start(&retry, s.timer, &options, &task, &s.task), 0);
    ck_assert(await_count(&s.task.reached, 1));
    expect_return(&s, call_retry_cancel_sync, open_task);
    ck_assert_int_eq(s.answer, true);
    hwt_timer_destroy(s.timer);
}
END_TEST

/* ---- all others ---- */

static bool see(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                void *data)
{
    (void)timeout, (void)task, (void)arg, (void)remaining;
    ++*(int64_t *)data;
    return true;
}

/* None of these waits; each with all that it may have to make, or to ask the system for. */
static void call_others(scene *s)
{
    hwt_stats stats = HWT_STATS_INIT;
    hwt_timeout timeout = { NULL, 0 };
    char text[4096];
    must(hwt_timer_new_timeout(s->timer, &counting, &s->ends, HWT_SEC(3600), &timeout) == 0);
    must(hwt_timeout_reschedule(timeout, HWT_SEC(1800)));
    must(hwt_timer_visit(s->timer, see, &s->answer) == 1);
    must(hwt_timeout_cancel(timeout));
    for (int i = 0; i < 1000; i++)
        must(hwt_timer_new_timeout_within(s->timer, &counting, &s->ends, 0, HWT_SEC(1), NULL) == 0);
    must(hwt_timer_stats(s->timer, &stats) == 0);
    must(hwt_stats_prometheus(&stats, NULL, 1, text, sizeof(text)) > 0);
    (void)hwt_timer_fd(s->timer);
    (void)hwt_timer_dispatch(s->timer);
    (void)hwt_timer_next_tick(s->timer);
    must(hwt_timer_dump(s->timer, text, sizeof(text)) > 0);
    hwt_timer *other = NULL;
    must(hwt_timer_create(NULL, &other) == 0);
    hwt_timer_destroy(other);
}

START_TEST(all_others_return)
{
    scene s = { .timer = make_timer(_i) };
    expect_return(&s, call_others, NULL);
    ck_assert_int_eq(s.answer, 1);
    hwt_timer_destroy(s.timer);
}
END_TEST

/* Each loop: the kind, and stop, end or destroy. */
START_TEST(the_last_call_returns)
{
    scene s = { .timer = make_timer(_i / 3) };
    for (int i = 0; i < 100; i++)
        (void)arm(s.timer, &counting, &s.ends, HWT_MS(i));
    if (!has_worker(_i / 3))
        ck_assert_int_ge(hwt_timer_fd(s.timer), 0);
    for (int i = 0; i < 100; i++)
        (void)arm(s.timer, &counting, &s.ends, HWT_SEC(3600));
    expect_return(&s, waiting[WAITING - 3 + _i % 3], NULL);
    hwt_timer_destroy(s.timer);
    ck_assert_uint_eq(ends_sum(&s.ends), 200);
}
END_TEST

static void *call_undisturbed(void *data)
{
    scene *s = data;
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    call_stop(s);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
    s->state_after = state;
    return NULL;
}

START_TEST(a_thread_that_has_disabled_cancellation_keeps_it_so)
{
    scene s;
    open_with_task(&s, WORKER);
    open_task(&s);
    join(spawn(call_undisturbed, &s));
    ck_assert_int_eq(s.state_after, PTHREAD_CANCEL_DISABLE);
    hwt_timer_destroy(s.timer);
}
END_TEST

/* ---- fork ---- */

/* Where its only thread is ended, a process ends well: so 0 is not the answer that is waited for. */
enum { WELL = 42 };

static void fork_cancelled(scene *s)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_PATIENCE);
        hwt_timer *timer = NULL;
        bool well = hwt_timer_create(NULL, &timer) == 0;
        hwt_timer_destroy(timer);
        hwt_timer_destroy(s->timer);
        _exit(well ? WELL : EXIT_FAILURE);
    }
    s->answer = child;
}

/* What the library does within fork() closes a descriptor: of an unstarted timer, of a started
 * one. */
START_TEST(a_thread_that_is_cancelled_may_fork)
{
    scene s = { .timer = make_timer(DRIVEN) };
    int status;
    ck_assert_int_ge(hwt_timer_fd(s.timer), 0);
    if (_i)
        ck_assert_int_eq(hwt_timer_start(s.timer), 0);
    expect_return(&s, fork_cancelled, NULL);
    ck_assert_int_eq(waitpid((pid_t)s.answer, &status, 0), s.answer);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == WELL);
    hwt_timer_destroy(s.timer);
}
END_TEST

/* ---- the worker ---- */

typedef struct its_thread {
    pthread_t thread;
    shared_count known;
} its_thread;

static void tell_thread(hwt_timeout timeout, void *arg)
{
    its_thread *its = arg;
    (void)timeout;
    its->thread = pthread_self();
    its->known = 1;
}

/* It takes no part, whatever it sleeps on. */
START_TEST(a_worker_that_is_cancelled_goes_on)
{
    static const hwt_task telling = { tell_thread, NULL };
    scene s = { .timer = make_timer(WORKER) };
    its_thread its = { .known = 0 };
    (void)arm(s.timer, &telling, &its, 0);
    ck_assert(await_count(&its.known, 1));
    pthread_cancel(its.thread);
    (void)arm(s.timer, &counting, &s.ends, HWT_MS(20));
    ck_assert(await_count(&s.ends.runs, 1));
    hwt_timer_destroy(s.timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: threads that are cancelled");
    TCase *tcase = add_case(suite, "calls");
    tcase_add_loop_test(tcase, a_call_that_waits_for_a_task_returns, 0, WAITING);
    tcase_add_loop_test(tcase, a_call_that_starts_the_worker_returns, 0, STARTING);
    tcase_add_test(tcase, a_heartbeat_is_stopped);
    tcase_add_test(tcase, a_retry_is_cancelled);
    tcase_add_loop_test(tcase, all_others_return, 0, KINDS);
    tcase_add_loop_test(tcase, the_last_call_returns, 0, 3 * KINDS);
    tcase_add_test(tcase, a_thread_that_has_disabled_cancellation_keeps_it_so);
    tcase_add_loop_test(tcase, a_thread_that_is_cancelled_may_fork, 0, 2);
    tcase_add_test(tcase, a_worker_that_is_cancelled_goes_on);
    return run_suite(suite);
}
