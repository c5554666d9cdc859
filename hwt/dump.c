/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is pending, for a human. See dump.h. */

#include "hwt/dump.h"

#include <inttypes.h>

#include "hwt/task.h"
#include "hwt/text.h"

/* ---- the text ---- */

static const char *state_of(const hwt_timer *timer)
{
    /* Relaxed, both: the caller has `control`, or is the worker, or has stopped the timer. */
    if (atomic_load_explicit(&timer->stopping, memory_order_relaxed))
        return "stopped";
    if (timer->flags & HWT_NO_WORKER)
        return "no worker";
    return atomic_load_explicit(&timer->started, memory_order_relaxed) ? "worker runs"
                                                                       : "worker not started";
}

static void add_head(struct hwt_text *text, const hwt_timer *timer, uint64_t now)
{
    const struct hwt_wheel *wheel = &timer->worker.wheel;
    hwt_text_add(text, "%s, tick %" PRIu64 " of ", state_of(timer), hwt_wheel_ticks(wheel, now));
    hwt_text_add_seconds(text, wheel->tick_duration);
    hwt_text_add(text, " s, ");
    hwt_text_add_seconds(text, now > wheel->start ? now - wheel->start : 0);
    hwt_text_add(text, " s after the start\n");
}

static void add_totals(struct hwt_text *text, hwt_timer *timer)
{
    struct hwt_wheel *wheel = &timer->worker.wheel;
    struct hwt_wheel_view view;
    uint64_t filed = 0, buckets = 0;
    for (uint32_t from = 0; hwt_wheel_look(wheel, from, &view); from = view.bucket + 1) {
        filed += view.count;
        buckets++;
    }
    hwt_worker_publish_bytes(timer); /* a look may have closed holes */
    hwt_stats stats = HWT_STATS_INIT;
    hwt_timer_stats(timer, &stats);
    hwt_text_add(text,
                 "%" PRIu64 " pending, %" PRIu64 " filed in %" PRIu64 " buckets, %" PRIu64
                 " bytes held\n",
                 stats.pending, filed, buckets, stats.memory);
}

static void add_queues(struct hwt_text *text, hwt_timer *timer)
{
    uint32_t pending = 0, cancelled = 0;
    for (uint32_t i = 0; i <= timer->lane_count; i++) {
        struct hwt_lane *lane = &timer->lanes[i];
        pending += hwt_mpsc_is_used(&lane->pending_head, &lane->pending_tail) ||
                   hwt_mpsc_is_used(&lane->passed_head, &lane->passed_tail) ||
                   hwt_mpsc_is_used(&lane->drained_head, &lane->drained_tail);
        cancelled += hwt_mpsc_is_used(&lane->cancelled_head, &lane->cancelled_tail);
    }
    pthread_mutex_lock(&timer->runs);
    uint64_t submitted = timer->submitted;
    pthread_mutex_unlock(&timer->runs);
    hwt_text_add(text,
                 "queues in use: %" PRIu32 " pending, %" PRIu32
                 " cancelled; on the executor: %" PRIu64 "\n",
                 pending, cancelled, submitted);
}

/* When a tick with work can be handled, seen from now. */
static void add_tick(struct hwt_text *text, const struct hwt_wheel *wheel, uint64_t tick,
                     uint64_t now)
{
    if (tick == HWT_NEVER) {
        hwt_text_add(text, "never\n");
        return;
    }
    uint64_t end = hwt_wheel_instant(wheel, tick + 1);
    hwt_text_add(text, "tick %" PRIu64 ", in ", tick);
    hwt_text_add_seconds(text, end > now ? end - now : 0);
    hwt_text_add(text, " s\n");
}

/* By the worker, or by who keeps it from being one. */
static void write_dump(hwt_timer *timer, struct hwt_text *text)
{
    struct hwt_wheel *wheel = &timer->worker.wheel;
    uint64_t now = hwt_worker_now(timer);
    add_head(text, timer, now);
    add_totals(text, timer);
    add_queues(text, timer);
    hwt_text_add(text, "next wake: ");
    add_tick(text, wheel, hwt_wheel_next(wheel), now);
    struct hwt_wheel_view view;
    for (uint32_t from = 0; hwt_wheel_look(wheel, from, &view); from = view.bucket + 1) {
        hwt_text_add(text, "bucket %" PRIu32 ": %" PRIu64 ", next: ", view.bucket, view.count);
        add_tick(text, wheel, view.next, now);
    }
}

/* ---- asking and answering ---- */

/* Under `control`: the worker is there, and stays. */
static void ask(hwt_timer *timer, struct hwt_text *text)
{
    /* Seq_cst: before the look at the gate. */
    atomic_store_explicit(&timer->dump, text, memory_order_seq_cst);
    HWT_MEET(DUMP_WAKE);
    hwt_gate_wake(timer);
    pthread_mutex_lock(&timer->runs);
    /* Relaxed: the mutex orders it. */
    while (atomic_load_explicit(&timer->dump, memory_order_relaxed))
        pthread_cond_wait(&timer->returned, &timer->runs);
    pthread_mutex_unlock(&timer->runs);
}

void hwt_dump_answer(hwt_timer *timer)
{
    /* Acquire: the asker's text. */
    struct hwt_text *text = atomic_load_explicit(&timer->dump, memory_order_acquire);
    if (!text)
        return;
    write_dump(timer, text);
    HWT_MEET(DUMP_ANSWER);
    pthread_mutex_lock(&timer->runs);
    atomic_store_explicit(&timer->dump, NULL, memory_order_relaxed);
    pthread_cond_broadcast(&timer->returned);
    pthread_mutex_unlock(&timer->runs);
}

static bool has_worker(const hwt_timer *timer)
{
    return !(timer->flags & HWT_NO_WORKER) &&
           atomic_load_explicit(&timer->started, memory_order_relaxed) &&
           !atomic_load_explicit(&timer->stopping, memory_order_relaxed);
}

int64_t hwt_timer_dump(hwt_timer *timer, char *buffer, size_t size)
{
    struct hwt_text text;
    if (!timer || hwt_text_init(&text, buffer, size) < 0)
        return -EINVAL;
    if (hwt_in_callback(timer)) {
        /* Without an executor this is the worker, in the midst of a pass; else it may not be. */
        if (timer->executor)
            return -EDEADLK;
        write_dump(timer, &text);
        return (int64_t)text.length;
    }
    pthread_mutex_lock(&timer->control);
    if (has_worker(timer)) {
        ask(timer, &text);
    } else {
        pthread_mutex_lock(&timer->driving);
        write_dump(timer, &text);
        pthread_mutex_unlock(&timer->driving);
    }
    pthread_mutex_unlock(&timer->control);
    return (int64_t)text.length;
}
