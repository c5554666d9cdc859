/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "compare.h"

#include <stdlib.h>
#include <unistd.h>

#define BATCH_MAX 10000

/* ---- put: producers alone, nothing is due ---- */

struct producer {
    pthread_t thread;
    uint64_t number, random, warm_until, until, begin, end, put, all;
    struct histogram took;
};

/* A tenth of an hour to ten days. */
static uint64_t far_due(uint64_t now, uint64_t *random)
{
    return now + (uint64_t)((360 + random_unit(random) * 864000) * (double)SECOND);
}

static void *produce(void *arg)
{
    struct producer *p = arg;
    void *handle = handle_open();
    struct message *batch = calloc(options.batch, sizeof(*batch));
    uint64_t now = now_ns();

    for (uint64_t number = p->number << 40; now < p->until;) {
        uint64_t clock = clock_now();
        for (size_t i = 0; i < options.batch; i++)
            message_make(&batch[i], number++, far_due(clock, &p->random));
        uint64_t before = now_ns();
        contender.put(handle, batch, options.batch);
        now = now_ns();
        p->all += options.batch;
        if (before < p->warm_until)
            continue;
        if (p->begin == 0)
            p->begin = before;
        p->end = now;
        p->put += options.batch;
        histogram_add(&p->took, (int64_t)(now - before));
    }
    handle_close(handle);
    free(batch);
    return NULL;
}

void work_put(void)
{
    struct producer *producers = calloc(options.producers, sizeof(*producers));
    static struct histogram took;
    uint64_t put = 0, all = 0, begin = UINT64_MAX, end = 0;

    contender.open(options.directory);
    struct written written = written_now();
    uint64_t start = now_ns();
    uint64_t warm = start + (uint64_t)(options.seconds / 5 * (double)SECOND);
    for (uint64_t i = 0; i < options.producers; i++) {
        producers[i] = (struct producer){
            .number = i + 1,
            .random = options.seed + i,
            .warm_until = warm,
            .until = warm + (uint64_t)(options.seconds * (double)SECOND),
        };
        if (pthread_create(&producers[i].thread, NULL, produce, &producers[i]) != 0)
            die("no thread for producer %d", (int)i + 1);
    }
    for (uint64_t i = 0; i < options.producers; i++) {
        pthread_join(producers[i].thread, NULL);
        all += producers[i].all;
        if (producers[i].put == 0)
            continue;
        histogram_merge(&took, &producers[i].took);
        put += producers[i].put;
        begin = producers[i].begin < begin ? producers[i].begin : begin;
        end = producers[i].end > end ? producers[i].end : end;
    }
    if (put == 0)
        die("nothing was put in %g s", options.seconds);
    print_metric("puts_s", (double)put / ((double)(end - begin) / 1e9));
    histogram_print(&took, "put_", "us", 1e3, print_metric);
    print_written(&written, (double)(all * options.payload));
    contender.close();
    free(producers);
}

/* ---- life: each message is put, waits and is taken, on a set clock ---- */

/* Contenders that have only the machine's clock follow it. */
static void set_time(uint64_t time)
{
    if (contender.real_clock)
        sleep_until(time);
    else
        atomic_store(&set_clock, time);
}

static uint64_t take_due(void *handle)
{
    uint64_t all = 0;
    size_t n;

    while ((n = contender.take(handle, clock_now(), 1000, NULL, NULL)) > 0)
        all += n;
    return all;
}

/* Puts at the rate, takes what is due after each batch; then goes on until all is taken. */
static void live(void *handle, uint64_t start)
{
    static struct message batch[BATCH_MAX];
    uint64_t random = options.seed, taken = 0, now = start;
    uint64_t delay = (uint64_t)(options.delay * (double)SECOND);

    for (uint64_t put = 0; put < options.messages;) {
        size_t n = 0;
        for (; n < options.batch && put < options.messages; n++, put++)
            message_make(&batch[n], put, now + 1 + splitmix(&random) % delay);
        contender.put(handle, batch, n);
        now = start + (uint64_t)((double)put / (double)options.rate * (double)SECOND);
        set_time(now);
        taken += take_due(handle);
    }
    for (uint64_t step = 0; taken < options.messages; step++) {
        if (step > 1000)
            die("%llu messages never came", (unsigned long long)(options.messages - taken));
        set_time(now += delay / 200 + 1);
        taken += take_due(handle);
    }
    if (taken > options.messages)
        die("%llu messages too many", (unsigned long long)(taken - options.messages));
}

void work_life(void)
{
    uint64_t start = realtime_ns();

    if (contender.real_clock && options.delay > 10)
        decline("it has only the machine's clock");
    if (contender.real_clock)
        set_time(start);
    else
        set_time(start -= start % SECOND);
    contender.open(options.directory);
    struct written written = written_now();
    uint64_t begin = now_ns();
    void *handle = handle_open();
    live(handle, start);
    handle_close(handle);
    uint64_t end = now_ns();
    print_written(&written, (double)options.messages * (double)options.payload);
    uint64_t peak = peak_resident_bytes();
    contender.close();
    print_metric("messages_s", (double)options.messages / ((double)(end - begin) / 1e9));
    print_metric("peak_mb", (double)peak / 1e6);
    print_metric("disk_mb", (double)disk_bytes(options.directory) / 1e6);
}

/* ---- burst: all are due within one second ---- */

void work_burst(void)
{
    static struct message batch[BATCH_MAX];
    uint64_t start = realtime_ns(), random = options.seed, taken = 0;
    /* The machine's clock does not wait until all have been put. */
    uint64_t due = start + (contender.real_clock ? 20 : 86400) * SECOND;

    set_time(start);
    contender.open(options.directory);
    void *handle = handle_open();
    for (uint64_t put = 0; put < options.messages;) {
        size_t n = 0;
        for (; n < BATCH_MAX && n < 1000 && put < options.messages; n++, put++)
            message_make(&batch[n], put, due + splitmix(&random) % SECOND);
        contender.put(handle, batch, n);
    }
    if (contender.real_clock && realtime_ns() > due)
        decline("putting so many takes it more than 20 s");
    set_time(due + 2 * SECOND);
    uint64_t begin = now_ns();
    for (size_t n = 1; n > 0 && taken < options.messages; taken += n)
        n = contender.take(handle, clock_now(), 1000, NULL, NULL);
    uint64_t end = now_ns();
    if (taken != options.messages)
        die("%llu messages came, not %llu", (unsigned long long)taken,
            (unsigned long long)options.messages);
    print_metric("taken_s", (double)taken / ((double)(end - begin) / 1e9));
    print_metric("peak_mb", (double)peak_resident_bytes() / 1e6);
    handle_close(handle);
    contender.close();
}
