/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * pace: messages come in at a rate and go out at the same, in real time. How late are they?
 *
 * Producers put a batch at each of their turns, consumers take. A consumer's histograms are its
 * own; those of the line of time are under a lock, one bucket a tenth of a second.
 */

#include "compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BUCKETS 36000 /* an hour */

static struct bucket {
    struct histogram late;
    uint64_t checkpoints;
} * buckets[BUCKETS];
static pthread_mutex_t bucket_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t start;  /* real time */
static uint64_t steady; /* since then as many go out as come in */
static atomic_bool stopping;

struct worker {
    pthread_t thread;
    uint64_t number, behind; /* a producer: ns behind its turns, at most */
    struct histogram late;
    uint64_t taken, now;
};

static void *produce(void *arg)
{
    struct worker *w = arg;
    void *handle = handle_open();
    struct message *batch = calloc(options.batch, sizeof(*batch));
    uint64_t random = options.seed + w->number;
    uint64_t number = (w->number + 1) << 40;
    double turn = (double)options.batch * (double)options.producers / (double)options.rate;

    for (uint64_t n = 0; !atomic_load(&stopping); n++) {
        uint64_t due =
            start + (uint64_t)(((double)n + (double)w->number / (double)options.producers) * turn *
                               (double)SECOND);
        uint64_t now = realtime_ns();
        if (now < due)
            sleep_until(due);
        else if (now - due > w->behind)
            w->behind = now - due;
        now = realtime_ns();
        for (size_t i = 0; i < options.batch; i++)
            message_make(&batch[i], number++,
                         now + SECOND / 10 +
                             (uint64_t)(random_unit(&random) * options.delay * (double)SECOND));
        contender.put(handle, batch, options.batch);
    }
    handle_close(handle);
    free(batch);
    return NULL;
}

static void note(uint64_t due, void *arg)
{
    struct worker *w = arg;

    if (w->now < due)
        die("a message came early");
    if (w->now < steady)
        return;
    w->taken++;
    histogram_add(&w->late, (int64_t)(w->now - due));
    uint64_t bucket = (w->now - start) / (SECOND / 10);
    if (bucket >= BUCKETS)
        return;
    pthread_mutex_lock(&bucket_lock);
    if (!buckets[bucket])
        buckets[bucket] = calloc(1, sizeof(*buckets[bucket]));
    if (!buckets[bucket])
        die("no memory");
    histogram_add(&buckets[bucket]->late, (int64_t)(w->now - due));
    pthread_mutex_unlock(&bucket_lock);
}

/* Lateness is measured at the moment before the first message of a take is told. */
static void note_first(uint64_t due, void *arg)
{
    struct worker *w = arg;

    if (w->now == 0)
        w->now = realtime_ns();
    note(due, arg);
}

static void *consume(void *arg)
{
    struct worker *w = arg;
    void *handle = handle_open();

    while (!atomic_load(&stopping)) {
        w->now = 0;
        if (contender.take(handle, realtime_ns(), 1000, note_first, w) == 0 && !contender.waits)
            nanosleep(&(struct timespec){ 0, 500000 }, NULL);
    }
    handle_close(handle);
    return NULL;
}

static void write_timeline(void)
{
    FILE *file = fopen(options.timeline, "we");

    if (!file)
        die("%s cannot be written", options.timeline);
    fprintf(file, "seconds,p99_ms,max_ms,checkpoints\n");
    for (size_t i = 0; i < BUCKETS; i++)
        if (buckets[i] && buckets[i]->late.total > 0)
            fprintf(file, "%.1f,%.3f,%.3f,%llu\n", (double)i / 10,
                    (double)histogram_at(&buckets[i]->late, 0.99) / 1e6,
                    (double)buckets[i]->late.greatest / 1e6,
                    (unsigned long long)buckets[i]->checkpoints);
    if (fclose(file) != 0)
        die("%s cannot be written", options.timeline);
}

/* Until the end; looks ten times a second whether there was a checkpoint. */
static uint64_t watch(uint64_t end)
{
    uint64_t checkpoints = contender.checkpoints ? contender.checkpoints() : 0;
    uint64_t all = 0;

    for (uint64_t now = realtime_ns(); now < end; now = realtime_ns()) {
        sleep_until(now + SECOND / 10 < end ? now + SECOND / 10 : end);
        uint64_t bucket = (now - start) / (SECOND / 10);
        uint64_t count = contender.checkpoints ? contender.checkpoints() : 0;
        pthread_mutex_lock(&bucket_lock);
        if (now > start && bucket < BUCKETS && buckets[bucket])
            buckets[bucket]->checkpoints = count - checkpoints;
        pthread_mutex_unlock(&bucket_lock);
        if (now > steady)
            all += count - checkpoints;
        checkpoints = count;
    }
    return all;
}

static struct worker *begin_all(uint64_t count, void *(*function)(void *))
{
    struct worker *workers = calloc(count, sizeof(*workers));

    for (uint64_t i = 0; i < count; i++) {
        workers[i].number = i;
        if (pthread_create(&workers[i].thread, NULL, function, &workers[i]) != 0)
            die("no thread");
    }
    return workers;
}

void work_pace(void)
{
    static struct histogram late;
    uint64_t behind = 0, taken = 0;

    if (contender.real_clock)
        decline("it only knows whole seconds");
    contender.open(options.directory);
    start = realtime_ns() + SECOND / 10;
    steady = start + (uint64_t)((options.delay + 0.2) * (double)SECOND);
    struct worker *consumers = begin_all(options.consumers, consume);
    struct worker *producers = begin_all(options.producers, produce);
    uint64_t checkpoints = watch(steady + (uint64_t)(options.seconds * (double)SECOND));
    atomic_store(&stopping, true);
    for (uint64_t i = 0; i < options.producers; i++) {
        pthread_join(producers[i].thread, NULL);
        behind = producers[i].behind > behind ? producers[i].behind : behind;
    }
    for (uint64_t i = 0; i < options.consumers; i++) {
        pthread_join(consumers[i].thread, NULL);
        histogram_merge(&late, &consumers[i].late);
        taken += consumers[i].taken;
    }
    print_metric("taken_s", (double)taken / options.seconds);
    histogram_print(&late, "late_", "ms", 1e6, print_metric);
    print_metric("behind_ms", (double)behind / 1e6);
    print_metric("checkpoints", (double)checkpoints);
    print_metric("peak_mb", (double)peak_resident_bytes() / 1e6);
    if (options.timeline)
        write_timeline();
    contender.close();
    free(producers);
    free(consumers);
}
