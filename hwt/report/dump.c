/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A list of all pending timeouts, for a human. */

#include <errno.h>
#include <inttypes.h>

#include "hwt/base/text.h"
#include "hwt/timer/request.h"
#include "hwt/worker/task.h"

/* ---- the text ---- */

static const char *state_of(const hwt_timer *timer)
{
    if (hwt_halted_by(timer, HWT_HALTED_FORKED))
        return "the parent's: this is a child of fork()";
    if (hwt_halted_by(timer, HWT_HALTED_STOPPING))
        return "stopped";
    if (timer->flags & HWT_NO_WORKER)
        return "no worker";
    return hwt_halted_by(timer, HWT_HALTED_UNSTARTED) ? "worker not started" : "worker runs";
}

static void add_head(struct hwt_text *text, const hwt_timer *timer, uint64_t now)
{
    const struct hwt_ticks *ticks = &timer->shared.ticks;
    hwt_text_add(text, "%s, tick %" PRIu64 " of ", state_of(timer), hwt_ticks_at(ticks, now));
    hwt_text_add_seconds(text, ticks->duration);
    hwt_text_add(text, " s, ");
    hwt_text_add_seconds(text, hwt_saturating_sub(now, ticks->start));
    hwt_text_add(text, " s after the start\n");
}

static void add_totals(struct hwt_text *text, hwt_timer *timer)
{
    struct hwt_wheel *wheel = &timer->worker.wheel;
    struct hwt_wheel_view view;
    uint64_t filed = 0, buckets = 0;
    for (uint32_t from = 0; hwt_wheel_sweep_to_next_bucket(wheel, from, &view);
         from = view.index + 1) {
        filed += view.count;
        buckets++;
    }
    hwt_worker_publish_bytes(&timer->worker); /* a look throws away what is not wanted */
    hwt_stats stats = HWT_STATS_INIT;
    hwt_timer_stats(timer, &stats);
    hwt_text_add(text,
                 "%" PRIu64 " pending, %" PRIu64 " filed in %" PRIu64 " buckets, %" PRIu64
                 " bytes held\n",
                 stats.pending, filed, buckets, stats.memory);
}

static void add_queues(struct hwt_text *text, hwt_timer *timer)
{
    struct hwt_shared *shared = &timer->shared;
    uint32_t pending = 0, cancelled = 0, count = hwt_lanes_count(&shared->lanes);
    for (uint32_t i = 0; i < count; i++) {
        const struct hwt_lane *lane = hwt_lane_at(&shared->lanes, i);
        pending += lane && hwt_stream_is_used(&lane->pending);
        cancelled += lane && hwt_stream_is_used(&lane->cancelled);
    }
    hwt_text_add(text,
                 "queues in use: %" PRIu32 " pending, %" PRIu32
                 " cancelled; on the executor: %" PRIu32 "\n",
                 pending, cancelled, hwt_task_submitted(shared));
}

/* When a tick with work can be handled, seen from now. */
static void add_tick(struct hwt_text *text, const struct hwt_wheel *wheel, uint64_t tick,
                     uint64_t now)
{
    if (tick == HWT_NEVER) {
        hwt_text_add(text, "never\n");
        return;
    }
    uint64_t end = hwt_ticks_end(&wheel->ticks, tick);
    hwt_text_add(text, "tick %" PRIu64 ", in ", tick);
    hwt_text_add_seconds(text, end > now ? end - now : 0);
    hwt_text_add(text, " s\n");
}

/* The worker's, or that of the one that keeps it from being one. */
static void write_dump(hwt_timer *timer, void *data)
{
    struct hwt_text *text = data;
    struct hwt_wheel *wheel = &timer->worker.wheel;
    uint64_t now = hwt_time_reached(&timer->shared.time);
    if (!hwt_in_callback(&timer->shared))
        (void)hwt_worker_read_single(&timer->worker, HWT_NEVER);
    uint64_t next = hwt_wheel_prune_and_peek(wheel); /* it takes memory, which the totals tell */
    add_head(text, timer, now);
    add_totals(text, timer);
    add_queues(text, timer);
    hwt_text_add(text, "next wake: ");
    add_tick(text, wheel, next, now);
    struct hwt_wheel_view view;
    for (uint32_t from = 0; hwt_wheel_sweep_to_next_bucket(wheel, from, &view);
         from = view.index + 1) {
        hwt_text_add(text, "bucket %" PRIu32 ": %" PRIu64 ", next: ", view.index, view.count);
        add_tick(text, wheel, view.next, now);
    }
}

int64_t hwt_timer_dump(hwt_timer *timer, char *buffer, size_t size)
{
    struct hwt_text text;
    if (!timer || hwt_text_init(&text, buffer, size) < 0)
        return -EINVAL;
    bool inside = hwt_in_callback(&timer->shared), forked = hwt_halted_by(timer, HWT_HALTED_FORKED);
    /* With an executor a callback may be on any thread. */
    if (inside && timer->shared.executor && !forked)
        return -EDEADLK;
    /* Without one it is on the worker, in the midst of a pass; but while the timer stops, an adder
     * may call `cancelled`, too. */
    if (forked || (inside && hwt_halted_by(timer, HWT_HALTED_STOPPING)))
        add_head(&text, timer, hwt_time_now(&timer->shared.time));
    else if (inside)
        write_dump(timer, &text);
    else
        hwt_request(timer, write_dump, &text);
    return (int64_t)text.length;
}
