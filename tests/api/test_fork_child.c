/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Timers and fork(). A timer belongs to the process in which it accepted its first timeout or was
 * started; until then it may be taken along by a fork() (a daemon that detaches). Elsewhere it
 * accepts nothing, says so with -ESHUTDOWN, runs nothing, and leaves the owner's descriptor
 * alone. No call hangs there.
 */

#include <sys/mman.h>

#include "fork_fixture.h"
#include "one_thread.h"

/* ---- a timer that has accepted nothing yet ---- */

START_TEST(the_first_arm_may_come_in_a_child)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    expect_well("a child that arms first", first_arm, timer);
    hwt_timer_destroy(timer);
}
END_TEST

static void start_then_arm(void *timer)
{
    child_must(hwt_timer_start(timer) == 0);
    first_arm(timer);
}

START_TEST(start_may_come_in_a_child)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    expect_well("a child that starts the timer", start_then_arm, timer);
    hwt_timer_destroy(timer);
}
END_TEST

static void fork_then_arm(void *timer)
{
    expect_well("the child of a child", first_arm, timer);
}

/* As daemon(3) does. */
START_TEST(the_first_arm_may_come_in_the_child_of_a_child)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    expect_well("a child that forks", fork_then_arm, timer);
    hwt_timer_destroy(timer);
}
END_TEST

static void loop_in_child(void *timer)
{
    int fd = hwt_timer_fd(timer);
    child_must(fd >= 0);
    loop_by(timer, fd);
}

static int noted;

/* It does not ask for the number again. */
static void loop_by_what_was_noted(void *timer)
{
    loop_by(timer, noted);
}

static void see_it_unreadable(void *timer)
{
    (void)timer;
    child_must(!readable(noted, 20));
}

START_TEST(the_descriptor_of_a_stopped_timer_is_not_readable_in_a_child)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    hwt_timer *timer = create(&options);
    noted = hwt_timer_fd(timer);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 0);
    ck_assert(!readable(noted, 20));
    expect_well("a child of one that has stopped it", see_it_unreadable, timer);
    hwt_timer_destroy(timer);
}
END_TEST

/* Each loop: the descriptor was asked for before the fork, or was not; one thread, or any. */
START_TEST(a_loop_that_was_set_up_may_run_in_a_child)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER | (_i / 2 ? HWT_ONE_THREAD : 0);
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    if (_i % 2)
        ck_assert_int_ge(hwt_timer_fd(timer), 0);
    expect_well("a child with a loop", loop_in_child, timer);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_descriptor_that_the_parent_has_noted_serves_the_child)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER | (_i ? HWT_ONE_THREAD : 0);
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    noted = hwt_timer_fd(timer);
    ck_assert_int_ge(noted, 0);
    expect_well("a child with its parent's number", loop_by_what_was_noted, timer);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- one that has ---- */

typedef struct taken_along {
    hwt_timer *timer;
    hwt_timeout timeout;
    ends ends;
} taken_along;

static void expect_shut(hwt_timer *timer, ends *e)
{
    hwt_timeout timeout = { NULL, 17 };
    child_must(hwt_timer_new_timeout(timer, &counting, e, 0, &timeout) == -ESHUTDOWN);
    child_must(hwt_timer_new_timeout_at(timer, &counting, e, 0, &timeout) == -ESHUTDOWN);
    child_must(hwt_timer_new_timeout_within(timer, &counting, e, 0, 1, &timeout) == -ESHUTDOWN);
    child_must(timeout.entry == NULL && timeout.generation == 17);
    child_must(hwt_timer_start(timer) == -ESHUTDOWN);
}

/* Answers of these are open, but not that they come. */
static void ask_all(const taken_along *t)
{
    char text[4096];
    hwt_stats stats = HWT_STATS_INIT;
    (void)hwt_timer_dump(t->timer, text, sizeof(text));
    child_must(hwt_timer_stats(t->timer, &stats) == 0);
    (void)hwt_timer_pending(t->timer);
    child_must(hwt_timer_now(t->timer) > 0);
    (void)hwt_timeout_state(t->timeout);
    (void)hwt_timeout_remaining(t->timeout);
    child_must(!hwt_timeout_reschedule(t->timeout, 0));
    child_must(!hwt_timeout_repeat(t->timeout, 1));
    (void)hwt_timeout_cancel(t->timeout);
    child_must(!hwt_timeout_cancel_sync(t->timeout));
}

static void visit_nobody(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task, (void)arg, (void)remaining, (void)data;
    child_must(!"a visit in the child");
}

static void be_shut(void *data)
{
    taken_along *t = data;
    uint64_t before = ends_sum(&t->ends);
    expect_shut(t->timer, &t->ends);
    ask_all(t);
    child_must(hwt_timer_dispatch(t->timer) == 0);
    child_must(hwt_timer_advance(t->timer, HWT_NEVER - 1) == 0);
    child_must(hwt_timer_next_tick(t->timer) == HWT_NEVER);
    child_must(hwt_timer_stop(t->timer, visit_nobody, NULL) <= 0);
    hwt_timer_destroy(t->timer);
    child_must(ends_sum(&t->ends) == before);
}

START_TEST(the_child_of_a_timer_with_pending_timeouts_cannot_arm)
{
    taken_along t = { .timer = create_ticking(HWT_MS(1)) };
    t.timeout = arm(t.timer, &counting, &t.ends, HWT_SEC(3600));
    expect_well("a child", be_shut, &t);
    arm(t.timer, &counting, &t.ends, 0); /* the parent's goes on */
    ck_assert(await_count(&t.ends.runs, 1));
    hwt_timer_destroy(t.timer);
    ck_assert_uint_eq(t.ends.cancelled, 1);
}
END_TEST

START_TEST(the_child_of_a_started_timer_cannot_arm)
{
    taken_along t = { .timer = create_ticking(HWT_MS(1)) };
    ck_assert_int_eq(hwt_timer_start(t.timer), 0);
    expect_well("a child", be_shut, &t);
    hwt_timer_destroy(t.timer);
}
END_TEST

START_TEST(the_child_of_a_timer_whose_task_runs_does_not_hang)
{
    gate g = { 0 };
    taken_along t = { .timer = create_ticking(HWT_MS(1)) };
    t.timeout = arm(t.timer, &gated, &g, 0);
    ck_assert(await_count(&g.reached, 1));
    expect_well("a child", be_shut, &t);
    g.open = 1;
    hwt_timer_destroy(t.timer);
}
END_TEST

/* Each loop: any thread may call, or one at a time. */
START_TEST(the_child_of_a_timer_without_a_worker_cannot_arm)
{
    manual m;
    taken_along t = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = _i ? HWT_ONE_THREAD : 0;
    options.tick_duration = HWT_MS(1);
    manual_open_with(&m, HWT_SEC(1), options);
    t.timer = m.timer;
    t.timeout = arm(m.timer, &counting, &t.ends, HWT_MS(5));
    expect_well("a child", be_shut, &t);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(6)), 1);
    manual_close(&m);
}
END_TEST

static void fork_from_task(hwt_timeout timeout, void *arg)
{
    taken_along *t = arg;
    int status = -1;
    t->timeout = timeout;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(CHILD_PATIENCE);
        expect_shut(t->timer, &t->ends);
        (void)hwt_timer_dump(t->timer, NULL, 0);
        child_must(!hwt_timeout_reschedule(timeout, 0) && !hwt_timeout_repeat(timeout, 1));
        _exit(EXIT_SUCCESS);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        t->ends.visited++;
    t->ends.runs++;
}

START_TEST(a_task_may_fork)
{
    static const hwt_task forking = { fork_from_task, NULL };
    taken_along t = { .timer = create_ticking(HWT_MS(1)) };
    arm(t.timer, &forking, &t, 0);
    ck_assert(await_count(&t.ends.runs, 1));
    hwt_timer_destroy(t.timer);
    ck_assert_uint_eq(t.ends.visited, 1);
}
END_TEST

/* ---- while other threads are in the midst of calls ---- */

typedef struct traffic {
    hwt_timer *timer;
    ends ends;
    shared_count over, added;
} traffic;

static void *add_and_cancel(void *data)
{
    traffic *t = data;
    while (!t->over) {
        hwt_timeout timeout = { NULL, 0 };
        if (hwt_timer_pending(t->timer) > 20000) { /* a fork copies what there is */
            sched_yield();
            continue;
        }
        if (hwt_timer_new_timeout(t->timer, &counting, &t->ends, HWT_US(300), &timeout) == 0)
            t->added++;
        if (t->added % 2)
            hwt_timeout_cancel(timeout);
    }
    return NULL;
}

static void *dump_always(void *data)
{
    traffic *t = data;
    static _Thread_local char text[65536];
    while (!t->over)
        (void)hwt_timer_dump(t->timer, text, sizeof(text));
    return NULL;
}

/* Any lock may be held by a thread that the child does not have. */
START_TEST(a_fork_amid_other_calls_leaves_a_child_that_does_not_hang)
{
    enum { FORKS = 60, THREADS = 3 };
    traffic t = { .timer = create_ticking(HWT_US(100)) };
    pthread_t threads[THREADS];
    ck_assert_int_eq(hwt_timer_start(t.timer), 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(i == 0 ? dump_always : add_and_cancel, &t);
    for (int i = 0; i < FORKS; i++) {
        taken_along along = { .timer = t.timer, .timeout = { NULL, 0 } };
        expect_well("a child", be_shut, &along);
    }
    t.over = 1;
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    hwt_timer_destroy(t.timer);
    ck_assert_uint_eq(ends_sum(&t.ends), t.added);
}
END_TEST

/* ---- the descriptor ---- */

static void meddle(void *timer)
{
    ends e = { 0 };
    for (int i = 0; i < 10; i++) {
        (void)hwt_timer_new_timeout(timer, &counting, &e, HWT_SEC(3600), NULL);
        (void)hwt_timer_next_tick(timer);
        (void)hwt_timer_dispatch(timer);
        (void)hwt_timer_fd(timer);
    }
    (void)hwt_timer_stop(timer, NULL, NULL);
    hwt_timer_destroy(timer);
}

/* The two processes have one timerfd between them. */
START_TEST(a_child_that_drives_the_timer_does_not_disarm_the_parents_descriptor)
{
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    int fd = hwt_timer_fd(timer);
    arm(timer, &counting, &e, HWT_MS(300));
    (void)hwt_timer_next_tick(timer);
    expect_well("a child", meddle, timer);
    while (e.runs == 0) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_child_that_destroys_the_timer_does_not_wake_the_parents_worker)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &counting, &e, HWT_MS(300));
    expect_well("a child", meddle, timer);
    ck_assert(await_count(&e.runs, 1));
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- a child after many threads ---- */

enum { CROWD = 150, SOME = 50000 };

static gate crowd;
static shared_count may_add;

static void *add_and_stay(void *timer)
{
    ends e = { 0 };
    (void)hwt_timeout_cancel_sync(arm(timer, &counting, &e, HWT_SEC(3600)));
    gate_pass(&crowd);
    (void)await_count(&e.cancelled, 1);
    return NULL;
}

static void *add_some(void *data)
{
    static const hwt_task quiet = { count_run, NULL };
    traffic *t = data;
    (void)await_count(&may_add, 1);
    for (int i = 0; i < SOME; i++)
        child_must(hwt_timer_new_timeout(t->timer, &quiet, &t->ends, HWT_MS(i % 7), NULL) == 0);
    return NULL;
}

/* The thread that has forked is one of them. */
static void serve_with_threads(void *arg)
{
    enum { THREADS = 20 };
    traffic t = { .timer = NULL };
    pthread_t threads[THREADS];
    hwt_options options = HWT_OPTIONS_INIT;
    (void)arg;
    options.tick_duration = HWT_MS(1);
    child_must(hwt_timer_create(&options, &t.timer) == 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(add_some, &t);
    may_add = 1;
    add_some(&t);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    child_must(await_count(&t.ends.runs, (THREADS + 1) * SOME));
    hwt_timer_destroy(t.timer);
}

/* Whatever the parent's threads were given (lanes, numbers), the child's threads work. */
START_TEST(a_child_whose_parent_had_many_threads_uses_a_timer_of_its_own)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    pthread_t threads[CROWD];
    ends e = { 0 };
    (void)hwt_timeout_cancel_sync(arm(timer, &counting, &e, HWT_SEC(3600)));
    for (int i = 0; i < CROWD; i++)
        threads[i] = spawn(add_and_stay, timer);
    ck_assert(await_count(&crowd.reached, CROWD));
    expect_well("a child", serve_with_threads, NULL);
    crowd.open = 1;
    for (int i = 0; i < CROWD; i++)
        join(threads[i]);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, 1);
}
END_TEST

/* ---- */

static void add_owner(Suite *suite)
{
    TCase *fresh = add_case(suite, "taken along");
    tcase_add_test(fresh, the_first_arm_may_come_in_a_child);
    tcase_add_test(fresh, start_may_come_in_a_child);
    tcase_add_test(fresh, the_first_arm_may_come_in_the_child_of_a_child);
    tcase_add_loop_test(fresh, a_loop_that_was_set_up_may_run_in_a_child, 0, 4);
    tcase_add_loop_test(fresh, a_descriptor_that_the_parent_has_noted_serves_the_child, 0, 2);
    tcase_add_test(fresh, the_descriptor_of_a_stopped_timer_is_not_readable_in_a_child);
    TCase *used = add_case(suite, "the parent's");
    tcase_add_test(used, the_child_of_a_timer_with_pending_timeouts_cannot_arm);
    tcase_add_test(used, the_child_of_a_started_timer_cannot_arm);
    tcase_add_test(used, the_child_of_a_timer_whose_task_runs_does_not_hang);
    tcase_add_loop_test(used, the_child_of_a_timer_without_a_worker_cannot_arm, 0, 2);
    tcase_add_test(used, a_task_may_fork);
    if (!WITH_THREAD_SANITIZER) /* whose own locks a fork may find taken */
        tcase_add_test(used, a_fork_amid_other_calls_leaves_a_child_that_does_not_hang);
    tcase_add_test(used, a_child_that_drives_the_timer_does_not_disarm_the_parents_descriptor);
    tcase_add_test(used, a_child_that_destroys_the_timer_does_not_wake_the_parents_worker);
}

static void add_children(Suite *suite)
{
    if (WITH_THREAD_SANITIZER) /* it starts no thread in the child of a process that had several */
        return;
    TCase *threads = add_case(suite, "threads");
    /* AddressSanitizer takes what is mapped there for the stacks of old; qemu forks no threads. */
    if (!WITH_SANITIZER && !is_emulated())
        tcase_add_test(threads, a_child_whose_parent_had_many_threads_uses_a_timer_of_its_own);
}

int main(void)
{
    Suite *suite = suite_create("api: the child of a fork()");
    add_owner(suite);
    add_children(suite);
    return run_suite(suite);
}
