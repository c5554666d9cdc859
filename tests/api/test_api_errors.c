/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Every error of the contract but those of create, and that a failure leaves the outputs alone.
 */

#include <sys/wait.h>

#include "api_fixture.h"
#include "memory_limit.h"

static char nowhere;

/* ---- Arguments ---- */

START_TEST(a_null_timer_is_refused_everywhere)
{
    hwt_timeout timeout;
    hwt_stats stats = HWT_STATS_INIT;
    ck_assert_int_eq(hwt_timer_start(NULL), -EINVAL);
    ck_assert_int_eq(hwt_timer_stop(NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(hwt_timer_new_timeout(NULL, &counting, NULL, 0, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_new_timeout_at(NULL, &counting, NULL, 0, &timeout), -EINVAL);
    ck_assert_int_eq(hwt_timer_fd(NULL), -EINVAL);
    ck_assert_int_eq(hwt_timer_stats(NULL, &stats), -EINVAL);
    ck_assert_uint_eq(hwt_timer_pending(NULL), 0);
    ck_assert_uint_eq(hwt_timer_now(NULL), 0);
    ck_assert_uint_eq(hwt_timer_advance(NULL, 1), 0);
    ck_assert_uint_eq(hwt_timer_dispatch(NULL), 0);
    ck_assert_uint_eq(hwt_timer_next_tick(NULL), HWT_NEVER);
    hwt_timer_destroy(NULL);
}
END_TEST

static void assert_new_timeout(int expected, hwt_timer *timer, const hwt_task *task)
{
    const hwt_timeout before = { (struct hwt_entry *)&nowhere, 77 };
    hwt_timeout timeout = before;
    ends e = { 0 };
    ck_assert_int_eq(hwt_timer_new_timeout(timer, task, &e, HWT_SEC(9), &timeout), expected);
    ck_assert(timeout.entry == before.entry && timeout.generation == before.generation);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, task, &e, 9, &timeout), expected);
    ck_assert(timeout.entry == before.entry && timeout.generation == before.generation);
    ck_assert_int_eq(hwt_timer_new_timeout(timer, task, &e, HWT_SEC(9), NULL), expected);
    ck_assert_uint_eq(ends_sum(&e), 0);
}

START_TEST(a_timeout_needs_a_task_that_runs)
{
    static const hwt_task no_run = { NULL, count_cancelled };
    manual m;
    manual_open(&m, 0, HWT_MS(1), 8);
    assert_new_timeout(-EINVAL, m.timer, NULL);
    assert_new_timeout(-EINVAL, m.timer, &no_run);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert_uint_eq(stats_of(m.timer).added, 0);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    manual_close(&m);
}
END_TEST

START_TEST(stats_need_a_place_of_a_known_size)
{
    hwt_timer *timer = create(NULL);
    ck_assert_int_eq(hwt_timer_stats(timer, NULL), -EINVAL);
    hwt_stats stats, before;
    memset(&stats, 0x5a, sizeof(stats));
    stats.size = offsetof(hwt_stats, lateness_sum) - 1; /* the last of the first release */
    before = stats;
    ck_assert_int_eq(hwt_timer_stats(timer, &stats), -EINVAL);
    ck_assert_mem_eq(&stats, &before, sizeof(stats));
    stats.size = before.size = 0;
    ck_assert_int_eq(hwt_timer_stats(timer, &stats), -EINVAL);
    ck_assert_mem_eq(&stats, &before, sizeof(stats));
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(stats_unknown_to_this_build_are_zero)
{
    struct {
        hwt_stats known;
        uint64_t more[3];
    } later;
    static const uint64_t zero[3];
    hwt_timer *timer = create(NULL);
    memset(&later, 0x5a, sizeof(later));
    later.known.size = sizeof(later);
    ck_assert_int_eq(hwt_timer_stats(timer, &later.known), 0);
    ck_assert_mem_eq(later.more, zero, sizeof(zero));
    ck_assert_uint_eq(later.known.lateness[63], 0);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_timer_with_a_worker_is_not_driven_by_hand)
{
    ends e = { 0 };
    hwt_timer *timer = create(NULL);
    arm(timer, &counting, &e, HWT_SEC(3600));
    ck_assert_int_eq(hwt_timer_fd(timer), -EINVAL);
    ck_assert_uint_eq(hwt_timer_advance(timer, HWT_NEVER), 0);
    ck_assert_uint_eq(hwt_timer_dispatch(timer), 0);
    ck_assert_uint_eq(hwt_timer_next_tick(timer), HWT_NEVER);
    ck_assert_uint_eq(e.runs, 0);
    ck_assert_uint_eq(hwt_timer_pending(timer), 1);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, 1);
}
END_TEST

START_TEST(a_processor_that_cannot_be_had_is_refused_at_start)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.worker_cpu = CPU_SETSIZE - 1;
    if (sysconf(_SC_NPROCESSORS_CONF) >= CPU_SETSIZE)
        return;
    hwt_timer *timer = create(&options);
    ck_assert_int_eq(hwt_timer_start(timer), -EINVAL);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- ENOBUFS: the limit is exact ---- */

static void limited_open(manual *m, uint64_t max_pending)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.max_pending = max_pending;
    manual_open_with(m, 0, options);
}

START_TEST(max_pending_is_exact_and_a_place_comes_back_with_each_end)
{
    manual m;
    ends e = { 0 };
    limited_open(&m, 3);
    hwt_timeout first = arm(m.timer, &counting, &e, HWT_MS(5));
    arm(m.timer, &counting, &e, 0);
    arm(m.timer, &counting, &e, HWT_MS(5));
    assert_new_timeout(-ENOBUFS, m.timer, &counting);
    manual_go(&m, HWT_MS(1));
    arm(m.timer, &counting, &e, HWT_MS(50));
    assert_new_timeout(-ENOBUFS, m.timer, &counting);
    ck_assert(hwt_timeout_cancel(first));
    manual_go(&m, HWT_MS(2));
    arm(m.timer, &counting, &e, HWT_MS(50));
    assert_new_timeout(-ENOBUFS, m.timer, &counting);
    manual_go(&m, HWT_MS(6));
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 2);
    arm(m.timer, &counting, &e, HWT_MS(50));
    assert_new_timeout(-ENOBUFS, m.timer, &counting);
    ck_assert_uint_eq(stats_of(m.timer).rejected, 4 * 3);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), 6);
}
END_TEST

typedef struct contest {
    hwt_timer *timer;
    ends ends;
    shared_count ready, accepted, refused, other;
} contest;

static void *contend(void *data)
{
    contest *c = data;
    c->ready++;
    (void)await_count(&c->ready, 4);
    for (int i = 0; i < 1000; i++) {
        int r = hwt_timer_new_timeout(c->timer, &counting, &c->ends, HWT_SEC(1), NULL);
        if (r == 0)
            c->accepted++;
        else if (r == -ENOBUFS)
            c->refused++;
        else
            c->other++;
    }
    return NULL;
}

START_TEST(max_pending_is_exact_for_several_threads)
{
    manual m;
    static contest c;
    pthread_t threads[4];
    limited_open(&m, 1777);
    c.timer = m.timer;
    for (int i = 0; i < 4; i++)
        threads[i] = spawn(contend, &c);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    ck_assert_uint_eq(c.accepted, 1777);
    ck_assert_uint_eq(c.refused, 4000 - 1777);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1777);
    manual_close(&m);
    ck_assert_uint_eq(c.ends.cancelled, 1777);
}
END_TEST

typedef struct outside {
    hwt_timer *timer;
    ends other;
    int r;
    bool rearmed;
} outside;

static void add_then_rearm(hwt_timeout timeout, void *arg)
{
    outside *o = arg;
    o->r = hwt_timer_new_timeout(o->timer, &counting, &o->other, HWT_SEC(1), NULL);
    o->rearmed = hwt_timeout_reschedule(timeout, HWT_SEC(1));
}

START_TEST(a_rearm_is_outside_max_pending)
{
    static const hwt_task task = { add_then_rearm, NULL };
    manual m;
    limited_open(&m, 1);
    outside o = { .timer = m.timer };
    arm(m.timer, &task, &o, 0);
    manual_go(&m, HWT_MS(1));
    ck_assert_int_eq(o.r, 0); /* its place came back when the run began */
    ck_assert(o.rearmed);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 2);
    manual_close(&m);
}
END_TEST

/* ---- ESHUTDOWN ---- */

START_TEST(nothing_is_accepted_after_stop)
{
    manual m;
    manual_open(&m, 0, HWT_MS(1), 8);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 0);
    assert_new_timeout(-ESHUTDOWN, m.timer, &counting);
    ck_assert_int_eq(hwt_timer_start(m.timer), -ESHUTDOWN);
    ck_assert_int_eq(hwt_timer_fd(m.timer), -ESHUTDOWN);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(1)), 0);
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 0);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    manual_close(&m);
}
END_TEST

START_TEST(a_worker_is_not_started_after_stop)
{
    hwt_timer *timer = create(NULL);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 0);
    ck_assert_int_eq(hwt_timer_start(timer), -ESHUTDOWN);
    assert_new_timeout(-ESHUTDOWN, timer, &counting);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- EAGAIN: no thread can be had; in a child without privileges and with no room ---- */

static void limit_threads(rlim_t soft)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
    setrlimit(RLIMIT_NPROC, &limit);
}

static void *do_nothing(void *data)
{
    return data;
}

/* True where a limit of 0 does keep this process from starting threads. */
static bool can_run_out_of_threads(void)
{
    pthread_t thread;
    if (geteuid() == 0 && setuid(65534) != 0)
        return false;
    limit_threads(0);
    if (pthread_create(&thread, NULL, do_nothing, NULL) != 0)
        return true;
    pthread_join(thread, NULL);
    return false;
}

static int run_out_of_threads(void)
{
    hwt_timer *timer = NULL;
    hwt_timeout timeout = { NULL, 5 };
    ends e = { 0 };
    if (!can_run_out_of_threads())
        return 0;
    if (hwt_timer_create(NULL, &timer) != 0 || hwt_timer_start(timer) != -EAGAIN)
        return 1;
    if (hwt_timer_new_timeout(timer, &counting, &e, 0, &timeout) != -EAGAIN)
        return 2;
    if (timeout.entry || timeout.generation != 5 || hwt_timer_pending(timer) != 0)
        return 3;
    limit_threads(RLIM_INFINITY);
    if (hwt_timer_new_timeout(timer, &counting, &e, HWT_SEC(3600), &timeout) != 0)
        return 4;
    if (hwt_timer_stop(timer, count_visit, NULL) != 1 || e.visited != 1 || ends_sum(&e) != 1)
        return 5;
    hwt_timer_destroy(timer);
    return 0;
}

START_TEST(without_a_thread_an_add_fails_and_may_be_tried_again)
{
    int status = -1;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(run_out_of_threads());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* ---- ENOMEM ---- */

/* Adds until it fails or 3 million are there; the last answer. */
static int add_until_failure(hwt_timer *timer, ends *e, uint64_t *accepted)
{
    int r = 0;
    for (*accepted = 0; r == 0 && *accepted < 3000000; *accepted += r == 0)
        r = hwt_timer_new_timeout(timer, &counting, e, HWT_MS(100 + *accepted % 5000), NULL);
    return r;
}

START_TEST(without_memory_an_add_fails_and_those_before_live_on)
{
    manual m;
    ends e = { 0 };
    uint64_t accepted;
    if (memory_cannot_be_limited())
        return;
    manual_open(&m, 0, HWT_MS(1), 512);
    limit_memory(UINT64_C(24) << 20);
    int r = add_until_failure(m.timer, &e, &accepted);
    uint64_t early = manual_go(&m, HWT_MS(50));
    uint64_t some = manual_go(&m, HWT_MS(201));
    limit_memory(RLIM_INFINITY);
    ck_assert_int_eq(r, -ENOMEM);
    ck_assert_uint_gt(accepted, 10000);
    ck_assert_uint_eq(early, 0);
    ck_assert_uint_gt(some, 0);
    arm(m.timer, &counting, &e, 0);
    manual_go(&m, HWT_SEC(6));
    ck_assert_uint_eq(e.runs, accepted + 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_close(&m);
    ck_assert_uint_eq(ends_sum(&e), accepted + 1);
}
END_TEST

/* ---- */

static void add_arguments(Suite *suite)
{
    TCase *tcase = add_case(suite, "arguments");
    tcase_add_test(tcase, a_null_timer_is_refused_everywhere);
    tcase_add_test(tcase, a_timeout_needs_a_task_that_runs);
    tcase_add_test(tcase, stats_need_a_place_of_a_known_size);
    tcase_add_test(tcase, stats_unknown_to_this_build_are_zero);
    tcase_add_test(tcase, a_timer_with_a_worker_is_not_driven_by_hand);
    tcase_add_test(tcase, a_processor_that_cannot_be_had_is_refused_at_start);
}

static void add_limits(Suite *suite)
{
    TCase *tcase = add_case(suite, "limits");
    tcase_add_test(tcase, max_pending_is_exact_and_a_place_comes_back_with_each_end);
    tcase_add_test(tcase, max_pending_is_exact_for_several_threads);
    tcase_add_test(tcase, a_rearm_is_outside_max_pending);
    tcase_add_test(tcase, nothing_is_accepted_after_stop);
    tcase_add_test(tcase, a_worker_is_not_started_after_stop);
    tcase_add_test(tcase, without_memory_an_add_fails_and_those_before_live_on);
    tcase_add_test(tcase, without_a_thread_an_add_fails_and_may_be_tried_again);
}

int main(void)
{
    Suite *suite = suite_create("api: errors");
    add_arguments(suite);
    add_limits(suite);
    return run_suite(suite);
}
