/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Producers, and the workloads that are nothing but producers at work. */

#include "workloads_hwt.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLES_PER_S 10

enum phase { WARMING, MEASURING, OVER };

/* ---- A producer ---- */

static bool goes_on(struct producer *p, int phase)
{
    uint64_t ops = p->crew->options->ops;

    if (ops == 0)
        return atomic_load_explicit(&p->crew->phase, memory_order_relaxed) == phase;
    return p->ops - p->begin_ops < (phase == WARMING ? ops / 5 : ops);
}

static void work(struct producer *p, int phase)
{
    p->begin = now_ns();
    p->begin_ops = p->ops;
    while (goes_on(p, phase)) {
        p->crew->batch(p);
        p->ops += BATCH;
        atomic_store_explicit(&p->published, p->ops, memory_order_relaxed);
    }
    p->end = now_ns();
}

static void *producer_main(void *arg)
{
    struct producer *p = arg;

    p->crew->prepare(p);
    pthread_barrier_wait(&p->crew->ready);
    work(p, WARMING);
    work(p, MEASURING);
    p->crew->finish(p);
    return NULL;
}

/* ---- All of them ---- */

static uint64_t published(struct crew *crew)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < crew->options->producers; i++)
        sum += atomic_load_explicit(&crew->producers[i].published, memory_order_relaxed);
    return sum;
}

static void watch_memory(struct crew *crew)
{
    uint64_t now = resident_bytes();

    if (now > crew->peak_rss)
        crew->peak_rss = now;
}

/* Sleeps through the measured part, looking up ten times a second. */
static void watch(struct crew *crew)
{
    size_t count = (size_t)(crew->options->seconds * SAMPLES_PER_S);
    size_t tenth = count / 10 + 1;
    uint64_t begin = now_ns();
    uint64_t *ops = allocate(count + 1, sizeof(*ops));

    ops[0] = published(crew);
    for (size_t i = 1; i <= count; i++) {
        sleep_until(begin + i * SECOND / SAMPLES_PER_S);
        ops[i] = published(crew);
        watch_memory(crew);
    }
    sleep_until(begin + (uint64_t)(crew->options->seconds * 1e9));
    if (tenth <= count) {
        double us = (double)tenth * 1e6 / SAMPLES_PER_S;
        crew->mops_start = (double)(ops[tenth] - ops[0]) / us;
        crew->mops_end = (double)(ops[count] - ops[count - tenth]) / us;
    }
    free(ops);
}

static void join(struct crew *crew)
{
    for (unsigned i = 0; i < crew->options->producers; i++)
        pthread_join(crew->producers[i].thread, NULL);
}

static void measure(struct crew *crew)
{
    if (crew->options->ops == 0)
        sleep_ns((uint64_t)(crew->options->seconds * 1e9 / 5));
    uint64_t ops = published(crew), cpu = process_cpu_ns();

    atomic_store(&crew->phase, MEASURING);
    if (crew->options->ops == 0)
        watch(crew);
    else
        join(crew);
    atomic_store(&crew->phase, OVER);
    crew->cpu_ns = (double)(process_cpu_ns() - cpu) / (double)(published(crew) - ops);
    if (crew->options->ops == 0)
        join(crew);
    watch_memory(crew);
}

static void add_up(struct crew *crew)
{
    for (unsigned i = 0; i < crew->options->producers; i++) {
        const struct producer *p = &crew->producers[i];
        double ns = (double)(p->end - p->begin) / (double)(p->ops - p->begin_ops);
        crew->ns += ns / crew->options->producers;
        crew->mops += 1e3 / ns;
    }
}

void crew_run(struct crew *crew)
{
    unsigned count = crew->options->producers;

    crew->producers = aligned_alloc(LINE, count * sizeof(struct producer));
    memset(crew->producers, 0, count * sizeof(struct producer));
    pthread_barrier_init(&crew->ready, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        struct producer *p = &crew->producers[i];
        p->crew = crew;
        p->random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        int r = pthread_create(&p->thread, NULL, producer_main, p);
        if (r != 0)
            die("pthread_create", r);
    }
    pthread_barrier_wait(&crew->ready);
    measure(crew);
    add_up(crew);
    pthread_barrier_destroy(&crew->ready);
    free(crew->producers);
}

/* ---- churn ---- */

struct window {
    size_t oldest;
    hwt_timeout at[WINDOW];
};

static void churn_arm(struct producer *p, hwt_timeout *ret)
{
    arm(p->crew->timer, &idle_task, NULL, random_delay(&p->random, 30 * SECOND, 16 * SECOND), ret);
}

static void churn_prepare(struct producer *p)
{
    struct window *window = allocate(1, sizeof(*window));

    for (size_t i = 0; i < WINDOW; i++)
        churn_arm(p, &window->at[i]);
    p->data = window;
}

static void churn_batch(struct producer *p)
{
    struct window *window = p->data;

    for (int i = 0; i < BATCH; i++) {
        hwt_timeout_cancel(window->at[window->oldest]);
        churn_arm(p, &window->at[window->oldest]);
        window->oldest++;
        window->oldest = window->oldest == WINDOW ? 0 : window->oldest;
    }
}

static void churn_finish(struct producer *p)
{
    free(p->data);
}

static struct crew churn(const struct options *options)
{
    uint64_t before = resident_bytes();
    struct crew crew = {
        .timer = make_timer(options),
        .options = options,
        .prepare = churn_prepare,
        .batch = churn_batch,
        .finish = churn_finish,
    };

    crew_run(&crew);
    metric("producer_ns", crew.ns);
    metric("mops", crew.mops);
    metric("cpu_ns", crew.cpu_ns);
    metric("peak_rss_mb", (double)(crew.peak_rss - before) / (1 << 20));
    hwt_timer_destroy(crew.timer);
    return crew;
}

void run_churn(const struct options *options)
{
    churn(options);
}

void run_churn_100ms(const struct options *options)
{
    struct crew crew = churn(options);

    metric("mops_start", crew.mops_start);
    metric("mops_end", crew.mops_end);
}

/* ---- reset ---- */

static void reset_prepare(struct producer *p)
{
    p->data = p->crew->shared;
}

static void reset_batch(struct producer *p)
{
    const hwt_timeout *connections = p->data;

    for (int i = 0; i < BATCH; i++) {
        uint64_t which = random_below(&p->random, p->crew->options->pending);
        hwt_timeout_reschedule(connections[which], 30 * SECOND);
    }
}

/* The least that it can cost: the clock is read, and the timeout's memory fetched meanwhile. */
static void touch_batch(struct producer *p)
{
    const hwt_timeout *connections = p->data;

    for (int i = 0; i < BATCH; i++) {
        uint64_t which = random_below(&p->random, p->crew->options->pending);
        const void *entry = connections[which].entry;
        __builtin_prefetch(entry, 1);
        now_ns();
        (void)*(const volatile char *)entry;
    }
}

static void reset_finish(struct producer *p)
{
    (void)p;
}

static struct crew crew_on(hwt_timer *timer, hwt_timeout *connections,
                           const struct options *options, void (*batch)(struct producer *p))
{
    struct crew crew = {
        .timer = timer,
        .options = options,
        .prepare = reset_prepare,
        .batch = batch,
        .finish = reset_finish,
        .shared = connections,
    };

    crew_run(&crew);
    return crew;
}

void run_reset(const struct options *options)
{
    hwt_timeout *connections = allocate(options->pending, sizeof(*connections));
    hwt_timer *timer = make_timer(options);

    for (uint64_t i = 0; i < options->pending; i++)
        arm(timer, &idle_task, NULL, 30 * SECOND, &connections[i]);
    sleep_ns(SECOND / 10);
    struct crew crew = crew_on(timer, connections, options, reset_batch);
    metric("reset_ns", crew.ns);
    metric("mops", crew.mops);
    metric("cpu_ns", crew.cpu_ns);
    metric("touch_ns", crew_on(timer, connections, options, touch_batch).ns);
    hwt_timer_destroy(timer);
    free(connections);
}
