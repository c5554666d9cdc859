/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Threads that do nothing but arm and cancel, with next to nothing pending: whatever memory is
 * taken above that is waiting for the worker, who may be slow, or blocked, or not there.
 */

#include "workloads.h"

#define BLOCKED_FOR (2 * SECOND)
#define MB 1048576.0

static void memory_batch(struct producer *p)
{
    hwt_timeout timeout;

    for (int i = 0; i < BATCH; i++) {
        arm(p->crew->timer, &idle_task, NULL, 60 * SECOND, &timeout);
        hwt_timeout_cancel(timeout);
    }
}

static void memory(const struct options *options, hwt_timer *timer)
{
    struct crew crew = {
        .timer = timer,
        .options = options,
        .batch = memory_batch,
    };

    crew_run(&crew);
    metric("mops", crew.mops_all);
    metric("mops_start", crew.mops_start);
    metric("mops_end", crew.mops_end);
    metric("cpu_ns", crew.cpu_ns);
    metric("above_pending_mb", ((double)crew.peak_rss - (double)crew.base_rss) / MB);
    metric("held_mb", (double)crew.peak_held / MB);
    hwt_timer_destroy(timer);
}

void run_memory(const struct options *options)
{
    memory(options, make_timer(options));
}

/* ---- Beside a task that blocks the worker ---- */

static void block(hwt_timeout timeout, void *arg)
{
    (void)arg;
    sleep_ns(BLOCKED_FOR);
    hwt_timeout_reschedule(timeout, 0);
}

static const hwt_task blocking_task = { .run = block };

void run_memory_blocked(const struct options *options)
{
    hwt_timer *timer = make_timer(options);

    arm(timer, &blocking_task, NULL, 0, NULL);
    memory(options, timer);
}

/* ---- Without a worker, and nobody dispatches ---- */

void run_memory_undriven(const struct options *options)
{
    memory(options, make_undriven_timer(options));
}
