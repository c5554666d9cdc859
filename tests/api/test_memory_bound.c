/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * `memory` of hwt_stats is what the timer holds, and it is bounded: by what is pending, whatever
 * comes and goes, with any number of threads, beside a task that keeps the worker, and where
 * nobody drives the timer.
 */

#include <stdlib.h> /* tells of glibc */
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "children.h"

#define MB(n) ((uint64_t)(n) << 20)

/* What a timer may hold beside what is pending. */
#define ABOVE_PENDING MB(8)

static void never_run(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
}

/* Without a `cancelled`: what has one is the worker's to end, and waits for it. */
static const hwt_task quiet = { never_run, NULL };

/* ---- threads that arm and cancel without pause ---- */

typedef struct churn {
    hwt_timer *timer;
    uint64_t pairs, window; /* of each thread; so many pending at once */
    shared_count most, going, open;
} churn;

static void note_memory(churn *c)
{
    uint64_t memory = stats_of(c->timer).memory, most = c->most;
    while (memory > most && !atomic_compare_exchange_weak(&c->most, &most, memory))
        ;
}

static void *arm_and_cancel(void *data)
{
    churn *c = data;
    hwt_timeout *pending = calloc(c->window, sizeof(*pending));
    must(pending != NULL);
    c->going++;
    while (!c->open)
        sched_yield();
    for (uint64_t i = 0; i < c->pairs; i++) {
        hwt_timeout *slot = &pending[i % c->window];
        (void)hwt_timeout_cancel(*slot);
        must(hwt_timer_new_timeout(c->timer, &quiet, NULL, HWT_SEC(60), slot) == 0);
        if (i % 1024 == 0)
            note_memory(c);
    }
    for (uint64_t i = 0; i < c->window; i++)
        (void)hwt_timeout_cancel(pending[i]);
    free(pending);
    note_memory(c);
    return NULL;
}

enum { THREADS_MAX = 300 };

/* What each shape does in all is the same, so that many threads do not take longer. */
static const struct shape {
    unsigned threads;
    uint64_t pairs, window;
} shapes[] = {
    { 12, 250000, 1 },   { 50, 60000, 1 },   { 300, 10000, 1 },
    { 12, 250000, 500 }, { 50, 60000, 500 }, { 300, 10000, 100 },
};

enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static const uint64_t ticks[] = { HWT_US(1), HWT_MS(1), HWT_MS(100) };

enum { TICKS = sizeof(ticks) / sizeof(ticks[0]) };

static void run_churn(hwt_timer *timer, const struct shape *shape)
{
    static pthread_t threads[THREADS_MAX];
    churn c = { .timer = timer, .pairs = shape->pairs, .window = shape->window };
    uint64_t before = stats_of(timer).memory;
    for (unsigned i = 0; i < shape->threads; i++)
        threads[i] = spawn(arm_and_cancel, &c);
    ck_assert(await_count(&c.going, shape->threads));
    c.open = 1;
    for (unsigned i = 0; i < shape->threads; i++)
        join(threads[i]);
    uint64_t bound = before + 64 * shape->threads * shape->window + ABOVE_PENDING;
    printf("%u threads, %" PRIu64 " pending each: %" PRIu64 " kB at most\n", shape->threads,
           shape->window, c.most >> 10);
    if (c.most > bound)
        ck_abort_msg("%u threads, %" PRIu64 " pending each: %" PRIu64 " kB, more than %" PRIu64
                     " kB",
                     shape->threads, shape->window, c.most >> 10, bound >> 10);
    ck_assert_uint_le(hwt_timer_pending(timer), 1); /* the gated one */
}

static hwt_timer *create_with(uint64_t tick, uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = tick;
    options.flags = flags;
    return create(&options);
}

START_TEST(beside_a_worker_memory_is_bounded)
{
    hwt_timer *timer = create_with(ticks[_i / SHAPES], 0);
    ck_assert_int_eq(hwt_timer_start(timer), 0);
    run_churn(timer, &shapes[_i % SHAPES]);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(beside_a_task_that_keeps_the_worker_memory_is_bounded)
{
    gate g = { 0 };
    hwt_timer *timer = create_with(ticks[_i / SHAPES], 0);
    arm(timer, &gated, &g, 0);
    ck_assert(await_count(&g.reached, 1));
    g.open = 0;
    run_churn(timer, &shapes[_i % SHAPES]);
    g.open = 1;
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(where_nobody_dispatches_memory_is_bounded)
{
    hwt_timer *timer = create_with(ticks[_i / SHAPES], HWT_NO_WORKER);
    run_churn(timer, &shapes[_i % SHAPES]);
    hwt_timer_destroy(timer);
}
END_TEST

/* One thread arms, another cancels: what is freed here was taken there. */
typedef struct relay {
    hwt_timer *timer;
    _Atomic uint64_t head, tail;
    hwt_timeout ring[1024];
    churn churn;
} relay;

static void *arm_for_another(void *data)
{
    relay *r = data;
    for (uint64_t i = 0; i < r->churn.pairs; i++) {
        while (r->head - r->tail == 1024)
            sched_yield();
        must(hwt_timer_new_timeout(r->timer, &quiet, NULL, HWT_SEC(60), &r->ring[i % 1024]) == 0);
        r->head++;
        if (i % 1024 == 0)
            note_memory(&r->churn);
    }
    return NULL;
}

static void *cancel_for_another(void *data)
{
    relay *r = data;
    for (uint64_t i = 0; i < r->churn.pairs; i++) {
        while (r->head == r->tail)
            sched_yield();
        must(hwt_timeout_cancel(r->ring[i % 1024]));
        r->tail++;
    }
    return NULL;
}

/* Each loop: a worker, or nobody who dispatches. */
START_TEST(what_one_thread_arms_and_another_cancels_is_bounded)
{
    static relay r;
    r.timer = create_with(HWT_MS(1), _i ? HWT_NO_WORKER : 0);
    r.churn = (churn){ .timer = r.timer, .pairs = 2000000 };
    pthread_t arms = spawn(arm_for_another, &r), cancels = spawn(cancel_for_another, &r);
    join(arms);
    join(cancels);
    note_memory(&r.churn);
    printf("%" PRIu64 " kB at most\n", r.churn.most >> 10);
    ck_assert_uint_le(r.churn.most, ABOVE_PENDING);
    hwt_timer_destroy(r.timer);
}
END_TEST

/* Threads that come, arm and cancel, and end: what was theirs is used again. */
static void *arm_some(void *data)
{
    hwt_timer *timer = data;
    for (int i = 0; i < 500; i++)
        must(hwt_timeout_cancel(arm(timer, &quiet, NULL, HWT_SEC(60))));
    return NULL;
}

START_TEST(threads_that_come_and_go_leave_nothing_behind)
{
    enum { THREADS = 3000, AT_ONCE = 10 };
    pthread_t threads[AT_ONCE];
    uint64_t most = 0;
    hwt_timer *timer = create_with(HWT_MS(1), _i ? HWT_NO_WORKER : 0);
    for (int i = 0; i < THREADS / AT_ONCE; i++) {
        for (int j = 0; j < AT_ONCE; j++)
            threads[j] = spawn(arm_some, timer);
        for (int j = 0; j < AT_ONCE; j++)
            join(threads[j]);
        uint64_t memory = stats_of(timer).memory;
        most = memory > most ? memory : most;
    }
    printf("%" PRIu64 " kB at most\n", most >> 10);
    ck_assert_uint_le(most, ABOVE_PENDING);
    hwt_timer_destroy(timer);
}
END_TEST

/* Pushing back makes nothing grow either, nor pulling nearer. */
static void *move_about(void *data)
{
    churn *c = data;
    uint64_t random = (uintptr_t)&random;
    hwt_timeout timeout = arm(c->timer, &quiet, NULL, HWT_SEC(3600));
    for (uint64_t i = 0; i < c->pairs; i++) {
        must(hwt_timeout_reschedule(timeout, HWT_SEC(60) + test_random(&random) % HWT_SEC(3600)));
        if (i % 1024 == 0)
            note_memory(c);
    }
    must(hwt_timeout_cancel(timeout));
    return NULL;
}

START_TEST(timeouts_that_are_moved_without_pause_take_no_memory)
{
    enum { THREADS = 50 };
    static pthread_t threads[THREADS];
    churn c = { .timer = create_with(HWT_MS(1), _i ? HWT_NO_WORKER : 0), .pairs = 60000 };
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(move_about, &c);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    printf("%" PRIu64 " kB at most\n", c.most >> 10);
    ck_assert_uint_le(c.most, ABOVE_PENDING);
    hwt_timer_destroy(c.timer);
}
END_TEST

/* What was cancelled and is to be told keeps its place until then, though the worker stands still. */
START_TEST(with_max_pending_what_is_to_be_told_is_bounded)
{
    enum { MOST = 1000 };
    gate g = { 0 };
    ends e = { 0 };
    uint64_t accepted = 0;
    hwt_timeout timeout;
    hwt_options options = HWT_OPTIONS_INIT;
    options.max_pending = MOST;
    hwt_timer *timer = create(&options);
    arm(timer, &gated, &g, 0);
    ck_assert(await_count(&g.reached, 1));
    g.open = 0;
    for (int i = 0; i < 1000000; i++) {
        int r = hwt_timer_new_timeout(timer, &counting, &e, HWT_SEC(60), &timeout);
        must(r == 0 || r == -ENOBUFS);
        accepted += r == 0;
        must(r < 0 || hwt_timeout_cancel(timeout));
    }
    ck_assert_uint_eq(accepted, MOST);
    ck_assert_uint_le(hwt_timer_pending(timer), 1); /* the gated one */
    ck_assert_uint_le(stats_of(timer).memory, MB(1));
    g.open = 1;
    ck_assert(await_count(&e.cancelled, MOST));
    for (int i = 0; i < 3 * MOST; i++) { /* the places are free; of quiet ones they are at once */
        while (hwt_timer_new_timeout(timer, &quiet, NULL, HWT_SEC(60), &timeout) == -ENOBUFS)
            sched_yield();
        must(hwt_timeout_cancel(timeout));
    }
    ck_assert_uint_eq(e.cancelled, MOST);
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- due tasks that add one each ---- */

enum { DUE = 10000 };

static manual m;
static uint64_t added_again;

static void add_another(hwt_timeout timeout, void *arg);
static const hwt_task adding = { add_another, NULL };

static void add_another(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    must(hwt_timer_new_timeout(m.timer, &adding, arg, HWT_MS(1), NULL) == 0);
    added_again++;
}

START_TEST(ten_thousand_due_tasks_that_add_one_each_take_no_more_memory)
{
    uint64_t after_first = 0, before;
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 512);
    for (int i = 0; i < DUE; i++)
        arm(m.timer, &adding, NULL, 0);
    (void)hwt_timer_next_tick(m.timer); /* all are filed */
    before = stats_of(m.timer).memory;
    for (uint64_t round = 1; round <= 40; round++) {
        ck_assert_uint_eq(manual_go(&m, HWT_MS(3 * round)), DUE);
        uint64_t memory = stats_of(m.timer).memory;
        after_first = round == 4 ? memory : after_first;
        if (round > 4) /* constant, but for a chunk of records more or less */
            ck_assert_uint_le(memory, after_first + 8192);
        /* A run gives back its own place: no second ten thousand is needed, but some slack. */
        ck_assert_uint_le(memory, before + before / 4 + 65536);
    }
    ck_assert_uint_eq(added_again, 40 * DUE);
    manual_close(&m);
}
END_TEST

/* ---- tight bounds ---- */

/* Without what the allocator keeps of what was freed. */
static uint64_t resident(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    unsigned long pages = 0, in_memory = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    must(statm && fscanf(statm, "%lu %lu", &pages, &in_memory) == 2);
    fclose(statm);
    return (uint64_t)in_memory * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool memory_is_watched(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return WITH_SANITIZER || (preload && strstr(preload, "vgpreload"));
}

static void expect_between(const char *what, uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least || value > most)
        ck_abort_msg("%s: %" PRIu64 ", not from %" PRIu64 " to %" PRIu64, what, value, least, most);
}

enum { PENDING = 1 << 20 };

/*
 * A timeout is its task, arg, deadline and state: 32 bytes at least, and 64 at most with all that
 * belongs to it. What the system says that the process has grown by agrees. Each loop: of deadlines
 * that are spread, or all in one bucket.
 */
START_TEST(memory_is_what_the_pending_timeouts_take)
{
    uint64_t seed = test_seed(), memory, grown;
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 512);
    uint64_t before = stats_of(m.timer).memory, resident_before = resident();
    for (int i = 0; i < PENDING; i++)
        arm(m.timer, &quiet, NULL, _i ? HWT_SEC(3600) : test_random(&seed) % HWT_SEC(3600));
    (void)hwt_timer_next_tick(m.timer); /* all are filed */
    memory = stats_of(m.timer).memory - before;
    grown = resident() - resident_before;
    printf("%.1f bytes a timeout, %.1f by the system\n", (double)memory / PENDING,
           (double)grown / PENDING);
    expect_between("bytes for 2^20 timeouts", memory, UINT64_C(32) * PENDING,
                   UINT64_C(64) * PENDING + MB(1));
    if (!memory_is_watched())
        expect_between("what the process has grown by", grown, memory - memory / 10 - MB(2),
                       memory + memory / 10 + MB(4));
    manual_close(&m);
}
END_TEST

START_TEST(an_empty_timer_says_what_it_holds_itself)
{
    hwt_options small = HWT_OPTIONS_INIT;
    small.flags = HWT_NO_WORKER;
    small.ticks_per_wheel = 1;
    hwt_timer *timer = create(&small);
    expect_between("a wheel of 1", stats_of(timer).memory, 256, MB(1));
    hwt_timer_destroy(timer);
    timer = create(NULL);
    expect_between("the default wheel", stats_of(timer).memory, 1024, MB(1));
    hwt_timer_destroy(timer);
}
END_TEST

/* A word of address space for each, at most, and no memory of the machine. */
START_TEST(buckets_that_were_never_used_cost_next_to_nothing)
{
    ends e = { 0 };
    uint64_t resident_before = resident();
    manual_open(&m, HWT_SEC(1), HWT_MS(1), UINT32_C(1) << 24);
    for (uint64_t i = 0; i < 100; i++)
        arm(m.timer, &counting, &e, HWT_SEC(100 * i));
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(20000)), 100);
    expect_between("memory", stats_of(m.timer).memory, 1024, MB(8) + (UINT64_C(8) << 24));
    if (!memory_is_watched())
        expect_between("resident", resident() - resident_before, 0, MB(16));
    manual_close(&m);
}
END_TEST

/* ---- after a peak ---- */

START_TEST(after_a_peak_memory_goes_back)
{
    static hwt_timeout timeouts[PENDING];
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 512);
    uint64_t resident_before = resident();
    for (int i = 0; i < PENDING; i++)
        timeouts[i] = arm(m.timer, &quiet, NULL, HWT_SEC(100) + HWT_MS(i % 100000));
    (void)hwt_timer_next_tick(m.timer);
    uint64_t peak = stats_of(m.timer).memory;
    for (int i = 0; i < PENDING; i++)
        must(hwt_timeout_cancel(timeouts[i]));
    for (uint64_t i = 1; i <= 1000; i++) /* a slice each */
        manual_go(&m, HWT_MS(i));
    uint64_t memory = stats_of(m.timer).memory;
    printf("%" PRIu64 " kB at the peak, %" PRIu64 " kB after it\n", peak >> 10, memory >> 10);
    expect_between("memory after the peak", memory, 0, ABOVE_PENDING);
    if (!memory_is_watched())
        expect_between("resident", resident() - resident_before, 0,
                       ABOVE_PENDING + MB(2) + sizeof(timeouts));
    for (int i = 0; i < PENDING; i++) /* handles into what was given back are as safe as ever */
        must(!hwt_timeout_cancel(timeouts[i]) && hwt_timeout_state(timeouts[i]) != HWT_PENDING);
    manual_close(&m);
}
END_TEST

static void again_in_a_tick(hwt_timeout timeout, void *arg)
{
    (void)arg;
    must(hwt_timeout_reschedule(timeout, HWT_MS(1)));
}

static const hwt_task ticking = { again_in_a_tick, NULL };

/* Each loop: one, or a hundred, in each tick; and what ends does so in any order, slowly. */
START_TEST(after_a_peak_memory_goes_back_though_something_is_always_due)
{
    static hwt_timeout timeouts[PENDING];
    uint64_t seed = test_seed(), now = 0;
    manual_open(&m, HWT_SEC(1), HWT_MS(1), 512);
    for (int i = 0; i < (_i ? 100 : 1); i++)
        arm(m.timer, &ticking, NULL, HWT_MS(1));
    for (int i = 0; i < PENDING; i++)
        timeouts[i] = arm(m.timer, &quiet, NULL, HWT_SEC(100) + HWT_MS(i % 100000));
    for (uint32_t i = PENDING; i > 0; i--) {
        uint32_t other = (uint32_t)(test_random(&seed) % i);
        must(hwt_timeout_cancel(timeouts[other]));
        timeouts[other] = timeouts[i - 1];
        if (i % (PENDING / 64) == 0)
            manual_go(&m, now += HWT_MS(1));
    }
    for (int i = 0; i < 3000; i++)
        manual_go(&m, now += HWT_MS(20));
    expect_between("memory after the peak", stats_of(m.timer).memory, 0, ABOVE_PENDING);
    manual_close(&m);
}
END_TEST

/* ---- */

static void add_churn(Suite *suite)
{
    TCase *coming = add_case(suite, "churn");
    tcase_add_loop_test(coming, beside_a_worker_memory_is_bounded, 0, SHAPES * TICKS);
    tcase_add_loop_test(coming, beside_a_task_that_keeps_the_worker_memory_is_bounded, 0,
                        SHAPES * TICKS);
    tcase_add_loop_test(coming, where_nobody_dispatches_memory_is_bounded, 0, SHAPES * TICKS);
    tcase_add_loop_test(coming, what_one_thread_arms_and_another_cancels_is_bounded, 0, 2);
    tcase_add_loop_test(coming, threads_that_come_and_go_leave_nothing_behind, 0, 2);
    tcase_add_loop_test(coming, timeouts_that_are_moved_without_pause_take_no_memory, 0, 2);
    tcase_add_test(coming, with_max_pending_what_is_to_be_told_is_bounded);
    tcase_add_test(coming, ten_thousand_due_tasks_that_add_one_each_take_no_more_memory);
}

static void add_bounds(Suite *suite)
{
    TCase *bounds = add_case(suite, "bounds");
    tcase_add_loop_test(bounds, memory_is_what_the_pending_timeouts_take, 0, 2);
    tcase_add_test(bounds, an_empty_timer_says_what_it_holds_itself);
    tcase_add_test(bounds, buckets_that_were_never_used_cost_next_to_nothing);
    tcase_add_test(bounds, after_a_peak_memory_goes_back);
    tcase_add_loop_test(bounds, after_a_peak_memory_goes_back_though_something_is_always_due, 0, 2);
}

int main(void)
{
    Suite *suite = suite_create("api: memory");
    add_churn(suite);
    add_bounds(suite);
    return run_suite(suite);
}
