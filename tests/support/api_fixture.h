/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_API_FIXTURE_H
#define HWT_TESTS_API_FIXTURE_H

/*
 * What the tests on the public header share: tasks that count their ends, a timer on
 * a clock that is set, waiting for a condition, threads, executors.
 *
 * ck_assert and what is built on it (manual_open, arm, spawn, ...) belong to the test's
 * own thread; tasks that run elsewhere record into shared counts.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hwt/hwt.h>

#include "kit.h"

typedef _Atomic uint64_t shared_count;

/* ---- Ends: each accepted timeout has exactly one ---- */

typedef struct ends {
    shared_count runs;
    shared_count cancelled;
    shared_count visited;
} ends;

static inline void count_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((ends *)arg)->runs++;
}

static inline void count_cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((ends *)arg)->cancelled++;
}

static inline void count_visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)remaining;
    (void)data;
    ((ends *)arg)->visited++;
}

static const hwt_task counting = { count_run, count_cancelled };

static inline uint64_t ends_sum(ends *e)
{
    return e->runs + e->cancelled + e->visited;
}

/* ---- Waiting: generous, so that only a hang fails ---- */

static inline uint64_t monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return HWT_SEC(t.tv_sec) + (uint64_t)t.tv_nsec;
}

/* True once *count has reached `wanted`; false after so long without it. */
static inline bool await_within(uint64_t patience, shared_count *count, uint64_t wanted)
{
    uint64_t limit = monotonic() + patience;
    while (atomic_load(count) < wanted) {
        if (monotonic() > limit)
            return false;
        sched_yield();
    }
    return true;
}

/* Waits half a minute at the most. */
static inline bool await_count(shared_count *count, uint64_t wanted)
{
    return await_within(HWT_SEC(30), count, wanted);
}

/* Whether the descriptor is readable, or becomes so within that time. */
static inline bool readable(int fd, int milliseconds)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    int n = poll(&p, 1, milliseconds);
    must(n >= 0 && (p.revents & ~POLLIN) == 0);
    return n > 0;
}

/* Lets other threads get on; proves nothing, and nothing rests on it. */
static inline void give_others_a_chance(void)
{
    uint64_t limit = monotonic() + HWT_MS(2);
    while (monotonic() < limit)
        sched_yield();
}

/* ---- Timers ---- */

static inline hwt_timer *create(const hwt_options *options)
{
    hwt_timer *timer = NULL;
    ck_assert_int_eq(hwt_timer_create(options, &timer), 0);
    ck_assert_ptr_nonnull(timer);
    return timer;
}

/* One with a worker. */
static inline hwt_timer *create_ticking(uint64_t tick)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = tick;
    return create(&options);
}

/* One without. */
static inline hwt_timer *create_driven(uint32_t flags, uint64_t tick)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER | flags;
    options.tick_duration = tick;
    return create(&options);
}

static inline hwt_timeout arm(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t delay)
{
    hwt_timeout timeout = { NULL, 0 };
    must(hwt_timer_new_timeout(timer, task, arg, delay, &timeout) == 0);
    return timeout;
}

static inline hwt_stats stats_of(const hwt_timer *timer)
{
    hwt_stats stats = HWT_STATS_INIT;
    ck_assert_int_eq(hwt_timer_stats(timer, &stats), 0);
    return stats;
}

/* ---- A timer without a worker, on a clock that is set ---- */

typedef struct manual {
    hwt_timer *timer;
    shared_count now;
    uint64_t start;
} manual;

static inline uint64_t manual_clock(void *data)
{
    return atomic_load((shared_count *)data);
}

/* The options' clock and flags are filled in; `m` must outlive the timer. */
static inline void manual_open_with(manual *m, uint64_t start, hwt_options options)
{
    options.flags |= HWT_NO_WORKER;
    options.clock = manual_clock;
    options.clock_data = &m->now;
    m->start = start;
    atomic_store(&m->now, start);
    m->timer = create(&options);
}

static inline void manual_open(manual *m, uint64_t start, uint64_t tick, uint32_t wheel)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = tick;
    options.ticks_per_wheel = wheel;
    manual_open_with(m, start, options);
}

/* Sets the clock to so long after the start and runs what is due by then. */
static inline uint64_t manual_go(manual *m, uint64_t since_start)
{
    atomic_store(&m->now, m->start + since_start);
    return hwt_timer_advance(m->timer, m->start + since_start);
}

static inline void manual_close(manual *m)
{
    hwt_timer_destroy(m->timer);
}

/* The time since start at which a deadline (since start) has its tick handled. */
static inline uint64_t due_at(uint64_t deadline, uint64_t tick)
{
    return (deadline / tick + 1) * tick;
}

/* ---- Scripts ---- */

/* A task that does to its own timeout what it is told, once, and notes the answers. */
typedef enum deed { RESCHEDULE, REPEAT, CANCEL, CANCEL_SYNC, SEE_STATE, SEE_REMAINING } deed;

typedef struct script {
    ends ends; /* first: the counting functions take it */
    const deed *deeds;
    size_t count;
    uint64_t delay; /* for RESCHEDULE and REPEAT */
    uint64_t answers[8];
    uint64_t cancelled_during_run;
} script;

static inline uint64_t do_deed(hwt_timeout timeout, deed what, uint64_t delay)
{
    switch (what) {
    case RESCHEDULE:
        return hwt_timeout_reschedule(timeout, delay);
    case REPEAT:
        return hwt_timeout_repeat(timeout, delay);
    case CANCEL:
        return hwt_timeout_cancel(timeout);
    case CANCEL_SYNC:
        return hwt_timeout_cancel_sync(timeout);
    case SEE_STATE:
        return hwt_timeout_state(timeout);
    default:
        return hwt_timeout_remaining(timeout);
    }
}

static inline void play(hwt_timeout timeout, void *arg)
{
    script *s = arg;
    if (s->ends.runs++ == 0)
        for (size_t i = 0; i < s->count; i++)
            s->answers[i] = do_deed(timeout, s->deeds[i], s->delay);
    s->cancelled_during_run = s->ends.cancelled;
}

static const hwt_task playing = { play, count_cancelled };

static inline script script_of(const deed *deeds, size_t count, uint64_t delay)
{
    script s;
    memset(&s, 0, sizeof(s));
    s.deeds = deeds;
    s.count = count;
    s.delay = delay;
    return s;
}

#define SCRIPT(delay, ...)                                                                         \
    script_of((const deed[]){ __VA_ARGS__ }, sizeof((const deed[]){ __VA_ARGS__ }) / sizeof(deed), \
              delay)

/* ---- Tasks that stand still until they are let go ---- */

typedef struct gate {
    shared_count reached; /* how many stand or stood here */
    shared_count open;
    shared_count passed;
} gate;

static inline void gate_pass(gate *g)
{
    g->reached++;
    (void)await_count(&g->open, 1);
    g->passed++;
}

static inline void gate_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    gate_pass(arg);
}

static const hwt_task gated = { gate_run, NULL };

/* ---- Executors ---- */

typedef struct work_item {
    void (*work)(void *);
    void *arg;
} work_item;

/* Takes work into a list, which run_deferred() or a crew of threads runs. */
typedef struct deferred {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    work_item *items;
    size_t head, count, room;
    bool closing;
    shared_count accepted;
    pthread_t crew[4];
    size_t crew_size;
} deferred;

static inline void deferred_open(deferred *d)
{
    memset(d, 0, sizeof(*d));
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->filled, NULL);
}

static inline int defer(void *executor_data, void (*work)(void *), void *work_arg)
{
    deferred *d = executor_data;
    pthread_mutex_lock(&d->lock);
    if (d->count == d->room) {
        size_t room = d->room ? 2 * d->room : 1024;
        work_item *items = realloc(d->items, room * sizeof(*items));
        if (!items) {
            pthread_mutex_unlock(&d->lock);
            return -1;
        }
        d->items = items;
        d->room = room;
    }
    d->items[d->count++] = (work_item){ work, work_arg };
    d->accepted++;
    pthread_cond_signal(&d->filled);
    pthread_mutex_unlock(&d->lock);
    return 0;
}

/* The oldest item; false: there is none, after waiting for one until close if asked. */
static inline bool deferred_take(deferred *d, bool wait, work_item *ret_item)
{
    pthread_mutex_lock(&d->lock);
    while (wait && d->head == d->count && !d->closing)
        pthread_cond_wait(&d->filled, &d->lock);
    bool any = d->head < d->count;
    if (any)
        *ret_item = d->items[d->head++];
    if (d->head == d->count)
        d->head = d->count = 0;
    pthread_mutex_unlock(&d->lock);
    return any;
}

static inline void run_deferred(deferred *d)
{
    work_item item = { NULL, NULL };
    while (deferred_take(d, false, &item))
        item.work(item.arg);
}

static inline void *crew_member(void *data)
{
    work_item item = { NULL, NULL };
    while (deferred_take(data, true, &item))
        item.work(item.arg);
    return NULL;
}

static inline void crew_begin(deferred *d, size_t threads)
{
    ck_assert_uint_le(threads, sizeof(d->crew) / sizeof(d->crew[0]));
    for (d->crew_size = 0; d->crew_size < threads; d->crew_size++)
        d->crew[d->crew_size] = spawn(crew_member, d);
}

/* A timer whose executor is a crew of threads; d is to be closed after it. */
static inline hwt_timer *create_with_crew(deferred *d, size_t threads, uint64_t tick)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = tick;
    options.executor = defer;
    options.executor_data = d;
    deferred_open(d);
    crew_begin(d, threads);
    return create(&options);
}

static inline void deferred_close(deferred *d)
{
    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_broadcast(&d->filled);
    pthread_mutex_unlock(&d->lock);
    for (size_t i = 0; i < d->crew_size; i++)
        join(d->crew[i]);
    free(d->items);
    pthread_cond_destroy(&d->filled);
    pthread_mutex_destroy(&d->lock);
}

/* ---- Suites ---- */

static inline TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 100);
    suite_add_tcase(suite, tcase);
    return tcase;
}

/* Tests that each begin with `open`; each closes itself what that opened. */
static inline TCase *add_opened_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = add_case(suite, name);
    tcase_add_checked_fixture(tcase, open, NULL);
    return tcase;
}

#endif
