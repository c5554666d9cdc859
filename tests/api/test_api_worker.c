/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The promises on the worker: when it starts, what it sleeps through, what it blocks,
 * that cancel_sync waits for it. Real time passes here; it decides nothing.
 */

#include <dirent.h>

#include "waiting.h"

/* ---- Starting ---- */

/*
 * The thread that keeps us company: a sanitizer may start one of its own beside the first,
 * and one that was joined may be listed a moment longer; so this one is there throughout.
 */
static gate company;

static void *keep_company(void *data)
{
    gate_pass(data);
    return NULL;
}

static pthread_t begin_company(void)
{
    company.reached = company.open = 0;
    pthread_t thread = spawn(keep_company, &company);
    ck_assert(await_count(&company.reached, 1));
    return thread;
}

static void end_company(pthread_t thread)
{
    company.open = 1;
    join(thread);
}

static unsigned threads_of_this_process(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

START_TEST(the_first_timeout_starts_the_worker)
{
    ends e = { 0 };
    pthread_t thread = begin_company();
    unsigned before = threads_of_this_process();
    hwt_timer *timer = create_ticking(HWT_MS(1));
    ck_assert_uint_eq(threads_of_this_process(), before);
    arm(timer, &counting, &e, 0);
    ck_assert_uint_eq(threads_of_this_process(), before + 1);
    arm(timer, &counting, &e, 0);
    ck_assert(await_count(&e.runs, 2));
    ck_assert_uint_eq(threads_of_this_process(), before + 1);
    hwt_timer_destroy(timer);
    end_company(thread);
}
END_TEST

START_TEST(start_starts_the_worker_once)
{
    ends e = { 0 };
    pthread_t thread = begin_company();
    unsigned before = threads_of_this_process();
    hwt_timer *timer = create(NULL);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    arm(timer, &counting, &e, HWT_SEC(1000));
    ck_assert_uint_eq(threads_of_this_process(), before + 1);
    hwt_timer_destroy(timer);
    end_company(thread);
}
END_TEST

START_TEST(no_thread_is_started_without_a_worker)
{
    ends e = { 0 };
    manual m;
    pthread_t thread = begin_company();
    unsigned before = threads_of_this_process();
    manual_open(&m, 0, HWT_MS(1), 8);
    arm(m.timer, &counting, &e, 0);
    ck_assert_int_eq(hwt_timer_start(m.timer), 0);
    ck_assert_uint_eq(threads_of_this_process(), before);
    manual_close(&m);
    end_company(thread);
}
END_TEST

/* ---- What the worker is ---- */

typedef struct sight {
    shared_count seen;
    sigset_t blocked;
    char name[16];
    cpu_set_t cpus;
} sight;

static void see(hwt_timeout timeout, void *arg)
{
    sight *s = arg;
    (void)timeout;
    pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
    pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
    pthread_getaffinity_np(pthread_self(), sizeof(s->cpus), &s->cpus);
    s->seen++;
}

static const hwt_task seeing = { see, NULL };

static void see_worker(const hwt_options *options, sight *s)
{
    hwt_timer *timer = create(options);
    memset(s, 0, sizeof(*s));
    arm(timer, &seeing, s, 0);
    ck_assert(await_count(&s->seen, 1));
    hwt_timer_destroy(timer);
}

START_TEST(the_worker_blocks_all_signals)
{
    static const int signals[] = { SIGINT,  SIGTERM, SIGHUP,  SIGALRM,  SIGUSR1, SIGUSR2,
                                   SIGCHLD, SIGPIPE, SIGPROF, SIGWINCH, SIGQUIT, SIGVTALRM };
    sight s;
    sigset_t own;
    see_worker(NULL, &s);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        ck_assert_int_eq(sigismember(&s.blocked, signals[i]), 1);
    ck_assert_int_eq(sigismember(&s.blocked, SIGRTMIN + 1), 1);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &own), 0);
    ck_assert_int_eq(sigismember(&own, SIGUSR1), 0); /* the caller's are as they were */
}
END_TEST

START_TEST(the_worker_has_the_name_that_was_asked_for)
{
    hwt_options options = HWT_OPTIONS_INIT;
    char name[] = "a name far too long for a thread";
    sight s;
    options.tick_duration = HWT_MS(1);
    see_worker(&options, &s);
    ck_assert_str_eq(s.name, "hwt-worker");
    options.worker_name = name;
    hwt_timer *timer = create(&options);
    memset(name, 'x', sizeof(name) - 1); /* it was copied */
    s.seen = 0;
    arm(timer, &seeing, &s, 0);
    ck_assert(await_count(&s.seen, 1));
    ck_assert_str_eq(s.name, "a name far too ");
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(the_worker_runs_on_the_processor_that_was_asked_for)
{
    hwt_options options = HWT_OPTIONS_INIT;
    cpu_set_t own;
    sight s;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(own), &own), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &own))
            continue;
        options.worker_cpu = cpu;
        options.tick_duration = HWT_MS(1);
        see_worker(&options, &s);
        ck_assert_int_eq(CPU_COUNT(&s.cpus), 1);
        ck_assert(CPU_ISSET(cpu, &s.cpus));
        break;
    }
}
END_TEST

/* ---- Sleeping ---- */

START_TEST(with_nothing_pending_the_worker_does_not_wake)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &counting, &e, 0);
    ck_assert(await_count(&e.runs, 1));
    give_others_a_chance();
    uint64_t before = stats_of(timer).wakeups;
    usleep(300000); /* 300 ticks: on a slow machine this only gets easier to pass */
    ck_assert_uint_le(stats_of(timer).wakeups - before, 2);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(with_nothing_due_the_worker_does_not_wake_at_each_tick)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    for (uint64_t i = 0; i < 1000; i++)
        arm(timer, &counting, &e, HWT_SEC(3600) + HWT_MS(i));
    give_others_a_chance();
    uint64_t before = stats_of(timer).wakeups;
    usleep(300000);
    ck_assert_uint_le(stats_of(timer).wakeups - before, 10);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- Running ---- */

typedef struct timed {
    uint64_t deadline, ran_at;
    const hwt_timer *timer;
} timed;

static shared_count timed_runs;

static void note_time(hwt_timeout timeout, void *arg)
{
    timed *t = arg;
    (void)timeout;
    t->ran_at = hwt_timer_now(t->timer);
    timed_runs++;
}

static void assert_never_early(uint64_t tick)
{
    static const hwt_task task = { note_time, NULL };
    static timed t[1000];
    hwt_options options = HWT_OPTIONS_INIT;
    uint64_t seed = test_seed();
    options.tick_duration = tick;
    hwt_timer *timer = create(&options);
    timed_runs = 0;
    for (size_t i = 0; i < 1000; i++) {
        t[i].timer = timer;
        t[i].deadline = hwt_timer_now(timer) + test_random(&seed) % HWT_MS(100);
        must(hwt_timer_new_timeout_at(timer, &task, &t[i], t[i].deadline, NULL) == 0);
    }
    ck_assert(await_count(&timed_runs, 1000));
    for (size_t i = 0; i < 1000; i++)
        must(t[i].ran_at >= t[i].deadline);
    hwt_timer_destroy(timer);
}

START_TEST(the_worker_is_never_early)
{
    assert_never_early(HWT_MS(1));
    assert_never_early(HWT_US(10));
}
END_TEST

START_TEST(an_instant_is_a_reading_of_the_clock)
{
    hwt_timer *timer = create(NULL);
    uint64_t before = monotonic(), now = hwt_timer_now(timer), after = monotonic();
    ck_assert_uint_le(before, now);
    ck_assert_uint_le(now, after);
    hwt_timer_destroy(timer);
}
END_TEST

typedef struct web {
    hwt_timer *timer;
    shared_count runs, accepted;
} web;

static void spread(hwt_timeout timeout, void *arg);
static const hwt_task spreading = { spread, NULL };

/* Each run adds two, up to 2000. */
static void spread(hwt_timeout timeout, void *arg)
{
    web *w = arg;
    (void)timeout;
    for (int i = 0; i < 2 && w->accepted < 2000; i++)
        w->accepted += hwt_timer_new_timeout(w->timer, &spreading, w, 0, NULL) == 0;
    w->runs++;
}

START_TEST(tasks_may_add_timeouts)
{
    static web w;
    w.timer = create_ticking(HWT_US(100));
    w.accepted = 1;
    arm(w.timer, &spreading, &w, 0);
    ck_assert(await_count(&w.runs, 2000));
    hwt_timer_destroy(w.timer);
    ck_assert_uint_eq(w.runs, 2000);
}
END_TEST

/* ---- Cancelling beside the worker ---- */

START_TEST(cancel_sync_waits_for_the_run_on_the_worker)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    assert_cancel_sync_waits(timer);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(cancel_does_not_wait_for_the_run)
{
    gate g = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    hwt_timeout timeout = arm(timer, &gated, &g, 0);
    ck_assert(await_count(&g.reached, 1));
    ck_assert(!hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_reschedule(timeout, HWT_SEC(1)));
    ck_assert_uint_eq(g.passed, 0);
    g.open = 1;
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(g.passed, 1);
}
END_TEST

START_TEST(a_cancelled_timeout_is_told_though_nothing_else_is_due)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    for (uint64_t i = 1; i <= 50; i++) {
        hwt_timeout timeout = arm(timer, &counting, &e, HWT_SEC(3600));
        if (i % 2)
            give_others_a_chance(); /* so that it is in a bucket */
        ck_assert(hwt_timeout_cancel(timeout));
        ck_assert(await_count(&e.cancelled, i));
    }
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends_sum(&e), 50);
}
END_TEST

/* The first one wakes it. It expects more, and sleeps for a tick, an hour here, before it tells them. */
START_TEST(cancels_that_are_told_do_not_wake_the_worker_one_by_one)
{
    enum { CANCELS = 100 };
    hwt_timer *timer = create_ticking(HWT_MIN(60));
    hwt_timeout told[CANCELS];
    ends e = { 0 };
    for (int i = 0; i < CANCELS; i++)
        told[i] = arm(timer, &counting, &e, HWT_MIN(6000));
    ck_assert(hwt_timeout_cancel(told[0]));
    ck_assert(await_count(&e.cancelled, 1));
    uint64_t before = stats_of(timer).wakeups;
    for (int i = 1; i < CANCELS; i++) {
        (void)poll(NULL, 0, 2);
        ck_assert(hwt_timeout_cancel(told[i]));
    }
    ck_assert_uint_le(stats_of(timer).wakeups - before, 5);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, CANCELS);
}
END_TEST

/*
 * With ticks of an hour: a backlog does not wait for one. The adder waits for the worker
 * where that is 100000 behind, lest the scheduler decide.
 */
START_TEST(arming_and_cancelling_for_long_does_not_grow_memory)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_SEC(3600));
    uint64_t most = 0;
    for (uint64_t i = 0; i < 2000000; i++) {
        must(hwt_timeout_cancel(arm(timer, &counting, &e, HWT_SEC(30))));
        if (i % 10000 == 0) {
            uint64_t memory = stats_of(timer).memory;
            most = memory > most ? memory : most;
            ck_assert(await_count(&e.cancelled, i < 100000 ? 0 : i - 100000));
        }
    }
    ck_assert_uint_le(most, UINT64_C(16) << 20);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, 2000000);
}
END_TEST

/* ---- */

static void add_being(Suite *suite)
{
    TCase *tcase = add_case(suite, "being");
    tcase_add_test(tcase, the_first_timeout_starts_the_worker);
    tcase_add_test(tcase, start_starts_the_worker_once);
    tcase_add_test(tcase, no_thread_is_started_without_a_worker);
    tcase_add_test(tcase, the_worker_blocks_all_signals);
    tcase_add_test(tcase, the_worker_has_the_name_that_was_asked_for);
    tcase_add_test(tcase, the_worker_runs_on_the_processor_that_was_asked_for);
    tcase_add_test(tcase, with_nothing_pending_the_worker_does_not_wake);
    tcase_add_test(tcase, with_nothing_due_the_worker_does_not_wake_at_each_tick);
}

static void add_running(Suite *suite)
{
    TCase *tcase = add_case(suite, "running");
    tcase_add_test(tcase, the_worker_is_never_early);
    tcase_add_test(tcase, an_instant_is_a_reading_of_the_clock);
    tcase_add_test(tcase, tasks_may_add_timeouts);
    tcase_add_test(tcase, cancel_sync_waits_for_the_run_on_the_worker);
    tcase_add_test(tcase, cancel_does_not_wait_for_the_run);
    tcase_add_test(tcase, a_cancelled_timeout_is_told_though_nothing_else_is_due);
    tcase_add_test(tcase, cancels_that_are_told_do_not_wake_the_worker_one_by_one);
    tcase_add_test(tcase, arming_and_cancelling_for_long_does_not_grow_memory);
}

int main(void)
{
    Suite *suite = suite_create("api: worker");
    add_being(suite);
    add_running(suite);
    return run_suite(suite);
}
