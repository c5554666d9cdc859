/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Producers at work, and what they cost. */

#include "workloads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_PER_S 10
#define WARMING_MOST 2.0 /* seconds */
#define STACK_USED ((size_t)32 << 10)
#define LOOK_MOST (SECOND / 1000)

enum phase { WARMING, MEASURING, OVER };

struct sample {
    uint64_t at, ops;
};

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

/* The stack's pages are there before anybody asks how much memory the timer takes, and so is the C
 * library's part for this thread: many that begin it at once wait for each other for seconds. */
static void touch_memory(void)
{
    volatile char stack[STACK_USED];

    for (size_t i = 0; i < STACK_USED; i += 1024) {
        stack[i] = 0;
        (void)stack[i];
    }
    free(allocate(1, 1));
}

static void *producer_main(void *arg)
{
    struct producer *p = arg;

    touch_memory();
    pthread_barrier_wait(&p->crew->started);
    pthread_barrier_wait(&p->crew->started); /* memory has been read */
    if (p->crew->prepare != NULL)
        p->crew->prepare(p);
    pthread_barrier_wait(&p->crew->ready);
    work(p, WARMING);
    work(p, MEASURING);
    if (p->crew->finish != NULL)
        p->crew->finish(p);
    return NULL;
}

/* ---- All of them ---- */

static uint64_t published(struct crew *crew)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < crew->options->producers; i++)
        sum += atomic_load_explicit(&crew->producers[i].published, memory_order_relaxed);
    return sum;
}

static void watch_memory(struct crew *crew)
{
    hwt_stats stats = HWT_STATS_INIT;
    uint64_t now = resident_bytes();

    if (now > crew->peak_rss)
        crew->peak_rss = now;
    if (hwt_timer_stats(crew->timer, &stats) == 0 && stats.memory > crew->peak_held)
        crew->peak_held = stats.memory;
}

/* Both at one instant: it begins anew where it was kept from a processor between the two. */
static struct sample look(struct crew *crew)
{
    struct sample sample;

    do {
        sample.at = now_ns();
        sample.ops = published(crew);
    } while (now_ns() - sample.at > LOOK_MOST);
    return sample;
}

static double mops_between(const struct sample *begin, const struct sample *end)
{
    return (double)(end->ops - begin->ops) * 1e3 / (double)(end->at - begin->at);
}

/* Sleeps through the measured part, looking up ten times a second; later, where it gets no processor.
 * Nothing that it does there waits for the threads. */
static void watch(struct crew *crew)
{
    size_t count = (size_t)(crew->options->seconds * SAMPLES_PER_S), i;
    const uint64_t each = SECOND / SAMPLES_PER_S, part = count * each / 10;
    struct sample *samples = allocate(count + 2, sizeof(*samples));
    struct sample *last = &samples[count + 1];

    atomic_store(&crew->phase, MEASURING);
    samples[0] = look(crew);
    for (i = 1; i <= count; i++) {
        sleep_until(samples[0].at + i * each);
        samples[i] = look(crew);
        watch_memory(crew);
    }
    sleep_until(samples[0].at + (uint64_t)(crew->options->seconds * 1e9));
    *last = look(crew);
    crew->mops_all = mops_between(&samples[0], last);
    for (i = 1; i <= count && samples[i].at - samples[0].at < part; i++)
        ;
    crew->mops_start = mops_between(&samples[0], &samples[i]);
    for (i = count; i > 0 && last->at - samples[i].at < part; i--)
        ;
    crew->mops_end = mops_between(&samples[i], last);
    free(samples);
}

static void join(struct crew *crew)
{
    for (uint64_t i = 0; i < crew->options->producers; i++)
        pthread_join(crew->producers[i].thread, NULL);
}

static void measure(struct crew *crew)
{
    double warming = crew->options->seconds / 5;

    if (crew->options->ops == 0)
        sleep_ns((uint64_t)((warming < WARMING_MOST ? warming : WARMING_MOST) * 1e9));
    uint64_t ops = published(crew), cpu = process_cpu_ns();

    if (crew->options->ops == 0) {
        watch(crew);
    } else {
        atomic_store(&crew->phase, MEASURING);
        join(crew);
    }
    atomic_store(&crew->phase, OVER);
    crew->cpu_ns = (double)(process_cpu_ns() - cpu) / (double)(published(crew) - ops);
    if (crew->options->ops == 0)
        join(crew);
    watch_memory(crew);
}

static void add_up(struct crew *crew)
{
    for (uint64_t i = 0; i < crew->options->producers; i++) {
        const struct producer *p = &crew->producers[i];
        double ns = (double)(p->end - p->begin) / (double)(p->ops - p->begin_ops);
        crew->ns += ns / (double)crew->options->producers;
        crew->mops += 1e3 / ns;
    }
}

static void start_one(struct producer *p)
{
    int r = pthread_create(&p->thread, NULL, producer_main, p);

    if (r != 0)
        die("pthread_create", r);
}

void crew_run(struct crew *crew)
{
    uint64_t count = crew->options->producers;

    crew->producers = aligned_alloc(LINE, count * sizeof(struct producer));
    if (crew->producers == NULL)
        die("allocate", ENOMEM);
    memset(crew->producers, 0, count * sizeof(struct producer));
    pthread_barrier_init(&crew->started, NULL, (unsigned)count + 1);
    pthread_barrier_init(&crew->ready, NULL, (unsigned)count + 1);
    for (uint64_t i = 0; i < count; i++) {
        struct producer *p = &crew->producers[i];
        p->crew = crew;
        p->random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        start_one(p);
    }
    pthread_barrier_wait(&crew->started);
    crew->base_rss = resident_bytes();
    pthread_barrier_wait(&crew->started);
    pthread_barrier_wait(&crew->ready);
    measure(crew);
    add_up(crew);
    pthread_barrier_destroy(&crew->started);
    pthread_barrier_destroy(&crew->ready);
    free(crew->producers);
}
