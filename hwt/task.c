/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Running tasks, on the worker or on the executor. See task.h. */

#include "hwt/task.h"

#include "hwt/probes.h"

/* The callbacks this thread is inside of, innermost first: a task may drive another timer. */
static _Thread_local struct hwt_frame *frames __attribute__((tls_model("initial-exec")));

bool hwt_in_callback(const hwt_timer *timer)
{
    for (const struct hwt_frame *frame = frames; frame; frame = frame->outer) {
        if (frame->timer == timer)
            return true;
    }
    return false;
}

const struct hwt_frame *hwt_own_task(hwt_timeout timeout)
{
    for (const struct hwt_frame *frame = frames; frame; frame = frame->outer) {
        if (frame->entry && frame->entry == timeout.entry &&
            frame->generation == timeout.generation)
            return frame;
    }
    return NULL;
}

static void give(struct hwt_entry *entry, struct hwt_recycler *recycler, hwt_timer *timer)
{
    if (recycler)
        hwt_recycler_add(timer, recycler, entry);
    else
        hwt_pool_give(entry);
}

void hwt_task_run(hwt_timer *timer, struct hwt_entry *entry, struct hwt_recycler *recycler)
{
    hwt_timeout timeout = hwt_handle(entry);
    struct hwt_frame frame = {
        .timer = timer,
        .entry = entry,
        .generation = timeout.generation,
        .deadline = atomic_load_explicit(&entry->deadline, memory_order_relaxed),
        .outer = frames,
    };
    uint64_t now = hwt_worker_now(timer);
    uint64_t lateness = now > frame.deadline ? now - frame.deadline : 0;
    hwt_stats_run(&timer->run_stats, lateness);
    HWT_PROBE4(fire, timer, entry, frame.generation, lateness);
    hwt_timer_release(timer);

    HWT_MEET(RUN);
    frames = &frame;
    hwt_entry_task(entry)->run(timeout, entry->arg);
    frames = frame.outer;

    HWT_MEET(RAN);
    if (!timer->executor && hwt_worker_file_rearmed(timer, entry))
        return;
    switch (hwt_timeout_finish(timer, entry)) {
    case HWT_ENDED:
        give(entry, recycler, timer);
        break;
    case HWT_DROPPED:
        hwt_task_discard(timer, entry, recycler);
        break;
    case HWT_AGAIN:
        break;
    }
}

void hwt_task_discard(hwt_timer *timer, struct hwt_entry *entry, struct hwt_recycler *recycler)
{
    if (!hwt_timeout_discardable(timer, entry))
        return;
    if (hwt_entry_tells(entry)) {
        HWT_MEET(TELL_CANCELLED);
        struct hwt_frame frame = { .timer = timer, .outer = frames };
        frames = &frame;
        hwt_entry_task(entry)->cancelled(hwt_handle(entry), entry->arg);
        frames = frame.outer;
    }
    give(entry, recycler, timer);
}

void hwt_task_leave(hwt_timer *timer, struct hwt_entry *entry,
                    void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                        void *data),
                    void *data)
{
    uint64_t deadline = atomic_load_explicit(&entry->deadline, memory_order_relaxed);
    struct hwt_frame frame = { .timer = timer, .outer = frames };
    frames = &frame;
    if (unprocessed)
        unprocessed(hwt_entry_task(entry), entry->arg, hwt_clock_until(timer, deadline), data);
    else if (hwt_entry_tells(entry))
        hwt_entry_task(entry)->cancelled(hwt_handle(entry), entry->arg);
    frames = frame.outer;
}

/* ---- the executor ---- */

/* Begins, discards or puts back what was handed over. */
static void take_up(hwt_timer *timer, struct hwt_entry *entry, struct hwt_recycler *recycler)
{
    HWT_MEET(TAKE_UP);
    switch (hwt_timeout_begin_submitted(entry, hwt_worker_now(timer))) {
    case HWT_BEGUN:
        hwt_task_run(timer, entry, recycler);
        return;
    case HWT_NOT_DUE:
    case HWT_HELD:
        if (hwt_timeout_requeue(timer, entry))
            return;
        break;
    case HWT_ELSEWHERE:
    case HWT_DEAD:
        break;
    }
    hwt_task_discard(timer, entry, recycler);
}

/*
 * The count goes down under the mutex: stop, which waits for 0 under it, may free the timer
 * as soon as it has been unlocked.
 */
static void hand_back(hwt_timer *timer)
{
    HWT_MEET(HAND_BACK);
    pthread_mutex_lock(&timer->runs);
    if (--timer->submitted == 0)
        pthread_cond_broadcast(&timer->returned);
    pthread_mutex_unlock(&timer->runs);
}

static void work(void *arg)
{
    struct hwt_entry *entry = arg;
    hwt_timer *timer = hwt_timer_of(entry);
    take_up(timer, entry, NULL);
    hand_back(timer);
}

void hwt_task_submit(hwt_timer *timer, struct hwt_entry *entry, struct hwt_recycler *recycler)
{
    pthread_mutex_lock(&timer->runs);
    timer->submitted++;
    pthread_mutex_unlock(&timer->runs);
    HWT_MEET(HAND_OVER);
    /* A stop from inside the executor would wait for this very call. */
    struct hwt_frame frame = { .timer = timer, .outer = frames };
    frames = &frame;
    int refused = timer->executor(timer->executor_data, work, entry);
    frames = frame.outer;
    if (!refused)
        return;
    take_up(timer, entry, recycler);
    hand_back(timer);
}

void hwt_task_wait_all(hwt_timer *timer)
{
    pthread_mutex_lock(&timer->runs);
    while (timer->submitted > 0)
        pthread_cond_wait(&timer->returned, &timer->runs);
    pthread_mutex_unlock(&timer->runs);
}

/* ---- waiting for a task's return ---- */

void hwt_task_returned(hwt_timer *timer)
{
    /* The state has changed already: who looks at it under the mutex, before or after
     * this, does not wait. */
    pthread_mutex_lock(&timer->runs);
    pthread_cond_broadcast(&timer->returned);
    pthread_mutex_unlock(&timer->runs);
}

void hwt_task_wait(hwt_timer *timer, hwt_timeout timeout)
{
    HWT_MEET(WAIT);
    pthread_mutex_lock(&timer->runs);
    for (;;) {
        uint64_t state = atomic_load_explicit(&timeout.entry->state, memory_order_acquire);
        if (state >> HWT_GENERATION_SHIFT != timeout.generation ||
            hwt_phase(state) != HWT_PHASE_RUNNING)
            break;
        pthread_cond_wait(&timer->returned, &timer->runs);
    }
    pthread_mutex_unlock(&timer->runs);
}
