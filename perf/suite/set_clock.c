/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * On a set clock, without a worker: what takes minutes or years is over in a second, and
 * costs the same as if it had taken them, but for the sleeping and waking.
 */

#include "workloads.h"

#include <stdlib.h>

#define HOUR (3600 * SECOND)
#define YEAR (365 * 24 * HOUR)
#define CENTURY (100 * YEAR)
#define TICKS 1000

static uint64_t set_clock;
static uint64_t runs;

static uint64_t read_set_clock(void *data)
{
    (void)data;
    return set_clock;
}

static void count_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    runs++;
}

static const hwt_task count_task = { .run = count_run };

static hwt_timer *make_set_timer(const struct options *options)
{
    hwt_options o = HWT_OPTIONS_INIT;
    hwt_timer *timer;

    o.tick_duration = options->tick_ns;
    o.ticks_per_wheel = (uint32_t)options->wheel;
    o.flags = HWT_NO_WORKER;
    o.clock = read_set_clock;
    set_clock = 0;
    runs = 0;
    int r = hwt_timer_create(&o, &timer);
    if (r < 0)
        die("hwt_timer_create", r);
    return timer;
}

static void expect_runs(uint64_t expected)
{
    if (runs != expected)
        die("timeouts were lost", 0);
}

/* Uniform in [least, least + span) whatever the span. */
static uint64_t wide_delay(uint64_t *random, uint64_t least, uint64_t span)
{
    return least + random_next(random) % span;
}

/* ---- rounds ---- */

void run_rounds(const struct options *options)
{
    hwt_timer *timer = make_set_timer(options);
    uint64_t length = options->wheel * options->tick_ns;
    uint64_t span = (options->rounds - 1) * length;
    uint64_t random = 1, wakeups = 0, next;
    uint64_t begin = process_cpu_ns();

    for (uint64_t i = 0; i < options->pending; i++)
        arm(timer, &count_task, NULL, wide_delay(&random, length, span), NULL);
    uint64_t added = process_cpu_ns();
    while ((next = hwt_timer_next_tick(timer)) != HWT_NEVER) {
        set_clock = next;
        hwt_timer_advance(timer, next);
        wakeups++;
    }
    uint64_t end = process_cpu_ns();

    expect_runs(options->pending);
    double n = (double)options->pending;
    metric("add_ns", (double)(added - begin) / n);
    metric("cpu_ns", (double)(end - begin) / n);
    metric("wakeups_per_timeout", (double)wakeups / n);
    hwt_timer_destroy(timer);
}

/* ---- leap ---- */

static double leap_to(hwt_timer *timer, uint64_t instant)
{
    uint64_t begin = now_ns();

    set_clock = instant;
    hwt_timer_advance(timer, instant);
    return (double)(now_ns() - begin) / 1e6;
}

/* Half of N in each of three spans, one after the other; the clock leaps over each. */
void run_leap(const struct options *options)
{
    static const struct span {
        const char *name;
        uint64_t length;
    } spans[] = { { "hour_ms", HOUR }, { "year_ms", YEAR }, { "century_ms", CENTURY } };
    hwt_timer *timer = make_set_timer(options);
    uint64_t random = 1, half = options->pending / 2, begin = 0, expected = 0;
    uint64_t margin = 2 * options->tick_ns; /* due in a tick that is over after the leap */
    double longest = 0;

    for (size_t s = 0; s < 3; begin += spans[s].length, s++)
        for (uint64_t i = 0; i < half; i++)
            arm(timer, &count_task, NULL,
                wide_delay(&random, begin + SECOND, spans[s].length - SECOND - margin), NULL);
    hwt_timer_next_tick(timer); /* files them */

    for (size_t s = 0; s < 3; s++) {
        double took = leap_to(timer, set_clock + spans[s].length);
        expected += half;
        expect_runs(expected);
        metric(spans[s].name, took);
        longest = took > longest ? took : longest;
    }
    metric("catch_up_ms", longest);
    hwt_timer_destroy(timer);
}

/* ---- window ---- */

typedef int arm_window(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t earliest,
                       uint64_t latest, hwt_timeout *ret_timeout);

static int arm_exactly(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t earliest,
                       uint64_t latest, hwt_timeout *ret_timeout)
{
    (void)latest;
    return hwt_timer_new_timeout(timer, task, arg, earliest, ret_timeout);
}

/* N connections that came one by one, each looked at once in 30 to 33 s, for five minutes: how often
 * that wakes the worker. */
static double count_wakeups(const struct options *options, arm_window *window)
{
    hwt_timer *timer = make_set_timer(options);
    uint64_t wakeups = 0, next, random = 1;

    for (uint64_t i = 0; i < options->pending; i++) {
        set_clock = wide_delay(&random, 0, 30 * SECOND);
        for (int turn = 0; turn < 10; turn++, set_clock += 30 * SECOND)
            window(timer, &count_task, NULL, 30 * SECOND, 33 * SECOND, NULL);
    }
    while ((next = hwt_timer_next_tick(timer)) != HWT_NEVER) {
        set_clock = next;
        hwt_timer_advance(timer, next);
        wakeups++;
    }
    expect_runs(options->pending * 10);
    hwt_timer_destroy(timer);
    return (double)wakeups;
}

void run_window(const struct options *options)
{
    metric("wakeups_exact", count_wakeups(options, arm_exactly));
    metric("wakeups_within", count_wakeups(options, hwt_timer_new_timeout_within));
}

/* ---- peak ---- */

#define PEAK_BEATS 120000

static void beat(hwt_timeout timeout, void *arg)
{
    (void)arg;
    runs++;
    hwt_timeout_reschedule(timeout, MS);
}

static const hwt_task beat_task = { .run = beat };

/* What one pass takes of the processor at most while a task of each second tick goes on. */
static double longest_pass_ms(hwt_timer *timer)
{
    uint64_t longest = 0;

    arm(timer, &beat_task, NULL, MS, NULL);
    for (int i = 0; i < PEAK_BEATS; i++) {
        uint64_t begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
        set_clock += MS;
        hwt_timer_advance(timer, set_clock);
        uint64_t took = read_clock(CLOCK_THREAD_CPUTIME_ID) - begin;
        longest = took > longest ? took : longest;
    }
    return (double)longest / 1e6;
}

/* N timeouts stand there and are cancelled, far from the order in which they were added. */
void run_peak(const struct options *options)
{
    hwt_timer *timer = make_set_timer(options);
    hwt_timeout *timeouts = allocate(options->pending, sizeof(*timeouts));
    hwt_stats stats = HWT_STATS_INIT;
    uint64_t random = 1;

    for (uint64_t i = 0; i < options->pending; i++)
        arm(timer, &idle_task, NULL, wide_delay(&random, 60 * SECOND, 240 * SECOND), &timeouts[i]);
    hwt_timer_next_tick(timer); /* files them */
    for (uint64_t i = options->pending; i > 1; i--) {
        uint64_t other = random_next(&random) % i;
        hwt_timeout t = timeouts[other];
        timeouts[other] = timeouts[i - 1];
        hwt_timeout_cancel(t);
    }
    hwt_timeout_cancel(timeouts[0]);
    metric("longest_pass_ms", longest_pass_ms(timer));
    hwt_timer_stats(timer, &stats);
    metric("held_mb", (double)stats.memory / 1048576);
    free(timeouts);
    hwt_timer_destroy(timer);
}

/* ---- A part of growth ---- */

double tick_cost(const struct options *options)
{
    hwt_timer *timer = make_set_timer(options);
    uint64_t random = 1;

    for (uint64_t i = 0; i < options->pending; i++)
        arm(timer, &idle_task, NULL, wide_delay(&random, 60 * SECOND, 540 * SECOND), NULL);
    for (uint64_t i = 0; i < TICKS; i++)
        arm(timer, &count_task, NULL, i * options->tick_ns, NULL);
    hwt_timer_next_tick(timer);

    uint64_t begin = now_ns();
    for (uint64_t i = 0; i < TICKS; i++) {
        set_clock += options->tick_ns;
        hwt_timer_advance(timer, set_clock);
        hwt_timer_next_tick(timer);
    }
    uint64_t end = now_ns();

    expect_runs(TICKS);
    hwt_timer_destroy(timer);
    return (double)(end - begin) / TICKS;
}
