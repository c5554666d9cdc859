/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timeouts that run, and record how late. */

#include "workloads.h"

#include <stdlib.h>

#define PERIOD SECOND

/* The worker's until `left` is 0. */
static struct histogram lateness;
static uint64_t last_cpu; /* of the process, at the last run */
static _Atomic uint64_t left;

static void wait_for_all(void)
{
    while (atomic_load(&left) > 0)
        sleep_ns(10 * MS);
}

/* ---- fire ---- */

/* The argument is the deadline itself. */
static void record(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    histogram_add(&lateness, (int64_t)(now_ns() - (uint64_t)(uintptr_t)arg));
    uint64_t remaining = atomic_load_explicit(&left, memory_order_relaxed) - 1;
    if (remaining == 0)
        last_cpu = process_cpu_ns();
    atomic_store_explicit(&left, remaining, memory_order_release);
}

static const hwt_task record_task = { .run = record };

void run_fire(const struct options *options)
{
    uint64_t n = options->pending, random = 1;
    hwt_timer *timer = make_timer(options);

    atomic_store(&left, n);
    uint64_t begin = now_ns(), begin_cpu = process_cpu_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t delay = random_delay(&random, SECOND / 10, 2900 * MS);
        void *deadline = (void *)(uintptr_t)(now_ns() + delay);
        arm(timer, &record_task, deadline, delay, NULL);
    }
    uint64_t added = now_ns();
    wait_for_all();

    metric("add_ns", (double)(added - begin) / (double)n);
    metric("cpu_ns", (double)(last_cpu - begin_cpu) / (double)n);
    print_lateness(&lateness);
    hwt_timer_destroy(timer);
}

/* ---- heartbeat ---- */

struct beat {
    uint64_t deadline, end; /* the run at which deadline reaches end is the last */
};

struct mean {
    double sum, count;
};

static uint64_t first_end, last_begin; /* deadlines before, and from, here are in the means */
static struct mean first, last;

static void mean_add(struct mean *mean, double value)
{
    mean->sum += value;
    mean->count += 1;
}

static void beat_run(hwt_timeout timeout, void *arg)
{
    struct beat *beat = arg;
    uint64_t now = now_ns();

    histogram_add(&lateness, (int64_t)(now - beat->deadline));
    if (beat->deadline < first_end)
        mean_add(&first, (double)(int64_t)(now - beat->deadline));
    if (beat->deadline >= last_begin)
        mean_add(&last, (double)(int64_t)(now - beat->deadline));
    beat->deadline += PERIOD;
    if (beat->deadline < beat->end)
        hwt_timeout_repeat(timeout, PERIOD);
    else
        atomic_fetch_sub(&left, 1);
}

static const hwt_task beat_task = { .run = beat_run };

/* The first second of beats is warm-up to CPU, but what the last is compared with for drift. */
void run_heartbeat(const struct options *options)
{
    uint64_t n = options->pending, random = 1;
    uint64_t periods = 1 + (uint64_t)(options->seconds < 1 ? 1 : options->seconds);
    struct beat *beats = allocate(n, sizeof(*beats));
    hwt_timer *timer = make_timer(options);

    atomic_store(&left, n);
    uint64_t begin = now_ns() + SECOND; /* the first deadline, when all have been added */
    uint64_t end = begin + periods * PERIOD;
    first_end = begin + PERIOD;
    last_begin = end - PERIOD;
    for (uint64_t i = 0; i < n; i++) {
        beats[i] = (struct beat){ begin + random_delay(&random, 0, PERIOD), end };
        int r = hwt_timer_new_timeout_at(timer, &beat_task, &beats[i], beats[i].deadline, NULL);
        if (r < 0)
            die("hwt_timer_new_timeout_at", r);
    }

    sleep_until(first_end);
    struct load load = load_begin(WORKER);
    sleep_until(end);
    load_end(&load);
    wait_for_all();
    print_lateness(&lateness);
    double drift = last.sum / last.count - first.sum / first.count;
    metric("drift_us", drift / 1e3 / (double)(periods - 1));
    hwt_timer_destroy(timer);
    free(beats);
}
