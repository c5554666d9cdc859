/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "workloads.h"

static void do_nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

const hwt_task idle_task = { .run = do_nothing };

static hwt_timer *create(const struct options *options, uint32_t flags)
{
    hwt_options o = HWT_OPTIONS_INIT;
    hwt_timer *timer;

    o.tick_duration = options->tick_ns;
    o.ticks_per_wheel = (uint32_t)options->wheel;
    o.flags = flags;
    int r = hwt_timer_create(&o, &timer);
    if (r < 0)
        die("hwt_timer_create", r);
    return timer;
}

hwt_timer *make_unstarted_timer(const struct options *options)
{
    return create(options, 0);
}

hwt_timer *make_timer(const struct options *options)
{
    hwt_timer *timer = make_unstarted_timer(options);

    int r = hwt_timer_start(timer);
    if (r < 0)
        die("hwt_timer_start", r);
    return timer;
}

hwt_timer *make_undriven_timer(const struct options *options)
{
    return create(options, HWT_NO_WORKER);
}

void arm(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t delay, hwt_timeout *ret)
{
    int r = hwt_timer_new_timeout(timer, task, arg, delay, ret);

    if (r < 0)
        die("hwt_timer_new_timeout", r);
}

void run_standing(const struct options *options)
{
    uint64_t random = 1;
    uint64_t before = resident_bytes();
    hwt_timer *timer = make_timer(options);
    hwt_stats stats = HWT_STATS_INIT;

    for (uint64_t i = 0; i < options->pending; i++)
        arm(timer, &idle_task, NULL, random_delay(&random, 60 * SECOND, 540 * SECOND), NULL);
    sleep_ns(SECOND);

    struct load load = load_begin(WORKER);
    sleep_ns((uint64_t)(options->seconds * 1e9));
    load_end(&load);
    hwt_timer_stats(timer, &stats);
    double n = (double)options->pending;
    metric("bytes_per_timeout", (double)(resident_bytes() - before) / n);
    metric("held_per_timeout", (double)stats.memory / n);
    hwt_timer_destroy(timer);
}

void run_idle(const struct options *options)
{
    hwt_timer *timer = make_timer(options);

    sleep_ns(SECOND / 5);
    struct load load = load_begin(WORKER);
    sleep_ns((uint64_t)(options->seconds * 1e9));
    load_end(&load);
    hwt_timer_destroy(timer);
}

int main(int argc, char **argv)
{
    static const struct workload workloads[] = {
        { "churn", run_churn, 0, 1, MS },
        { "churn-100ms", run_churn_100ms, 0, 60, 100 * MS },
        { "fire", run_fire, 1000000, 0, MS },
        { "standing", run_standing, 1000000, 2, MS },
        { "idle", run_idle, 0, 2, MS },
        { "memory", run_memory, 0, 5, MS },
        { "memory-blocked", run_memory_blocked, 0, 5, MS },
        { "memory-undriven", run_memory_undriven, 0, 5, MS },
        { "requests", run_requests, 0, 2, MS },
        { "requests-minute", run_requests, 0, 65, MS },
        { "reset", run_reset, 100000, 1, MS },
        { "heartbeat", run_heartbeat, 100000, 3, MS },
        { "first", run_first, 0, 0, MS },
        { "burst", run_burst, 1000000, 0, MS },
        { "rounds", run_rounds, 1000000, 0, MS },
        { "leap", run_leap, 1000000, 0, MS },
        { "window", run_window, 10000, 0, MS },
        { "peak", run_peak, 8000000, 0, MS },
        { "growth", run_growth, 100000, 1, MS },
        { "clock", run_clock, 0, 0.2, 0 },
        { 0 },
    };

    return contend(argc, argv, workloads);
}
