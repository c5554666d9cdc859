/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Running tasks, on the worker or on the executor. See task.h. */

#include "hwt/worker/task.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/base/futex.h"
#include "hwt/base/probes.h"

/* A list, the last frame that was entered first. A task may drive another timer, and a coroutine
 * may be left within a task for another one. */
static HWT_THREAD_LOCAL struct hwt_frame *frames;

void hwt_frame_enter(struct hwt_frame *frame)
{
    frame->outer = frames;
    frames = frame;
}

__attribute__((noinline)) static void leave_outer(const struct hwt_frame *frame)
{
    struct hwt_frame *inner = frames;
    while (inner && inner->outer != frame)
        inner = inner->outer;
    if (inner)
        inner->outer = frame->outer;
}

void hwt_frame_leave(const struct hwt_frame *frame)
{
    if (__builtin_expect(frames == frame, 1))
        frames = frame->outer;
    else
        leave_outer(frame);
}

bool hwt_in_callback(const struct hwt_shared *shared)
{
    for (const struct hwt_frame *frame = frames; frame; frame = frame->outer) {
        if (frame->shared == shared)
            return true;
    }
    return false;
}

struct hwt_frame *hwt_own_task(hwt_timeout timeout)
{
    for (struct hwt_frame *frame = frames; frame; frame = frame->outer) {
        if (frame->entry && frame->entry == timeout.entry &&
            frame->generation == timeout.generation)
            return frame;
    }
    return NULL;
}

/* ---- running ---- */

/* A callback that ends its thread (an exception, pthread_exit, pthread_cancel) leaves locks and
 * states as they are, and others waiting for ever. */
__attribute__((noinline)) static _Noreturn void does_not_return(void)
{
    (void)fputs("hwt: a callback did not return (an exception, pthread_exit or pthread_cancel)\n",
                stderr);
    abort();
}

static void must_return(volatile bool *returned)
{
    if (!*returned)
        does_not_return();
}

static void call(void (*function)(hwt_timeout timeout, void *arg), hwt_timeout timeout, void *arg,
                 struct hwt_frame *frame)
{
    __attribute__((cleanup(must_return))) volatile bool returned = false;
    hwt_frame_enter(frame);
    function(timeout, arg);
    hwt_frame_leave(frame);
    returned = true;
}

static void tell(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t generation)
{
    struct hwt_frame frame = { .shared = shared };
    if (hwt_is_forked(shared))
        return;
    HWT_SCHED_POINT(TELL_CANCELLED);
    call(hwt_entry_task(entry)->cancelled, (hwt_timeout){ entry, generation }, hwt_entry_arg(entry),
         &frame);
}

/* Ends a run, whatever was done to the timeout meanwhile. */
__attribute__((noinline)) static enum hwt_run
finish_slow(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t *ret_deadline)
{
    const bool one_thread = shared->one_thread;
    uint64_t state, deadline;
    do {
        state = hwt_entry_state(entry);
        deadline = hwt_entry_deadline(entry);
    } while (hwt_state_pending(state) ? !hwt_entry_run_again(entry, state, deadline, one_thread)
             : state & HWT_REARMED    ? !hwt_entry_end_barred(entry, state)
                                      : !hwt_entry_expire_marked(entry, state));
    HWT_SCHED_POINT(RETURNED);
    if (state & HWT_WAITED)
        hwt_task_returned(shared);
    *ret_deadline = deadline;
    if (hwt_state_pending(state))
        return HWT_RUN_AGAIN;
    if (state & HWT_REARMED)
        hwt_unreserve(shared); /* the re-arm had reserved */
    if (state & HWT_REARMED && state & HWT_HAS_CANCELLED)
        tell(shared, entry, hwt_generation(state));
    hwt_task_free(shared, entry);
    return HWT_RUN_ENDED;
}

/* Ends a run. The fast way, if nothing was done to the timeout meanwhile. */
static enum hwt_run finish(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t running,
                           uint64_t *ret_deadline)
{
    HWT_SCHED_POINT(FINISH);
    if (__builtin_expect(hwt_entry_state(entry) != running, 0) ||
        !hwt_entry_expire(entry, running, shared->one_thread))
        return finish_slow(shared, entry, ret_deadline);
    HWT_SCHED_POINT(RETURNED);
    hwt_task_free(shared, entry);
    return HWT_RUN_ENDED;
}

enum hwt_run hwt_task_run(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                          uint64_t *deadline, uint64_t latest)
{
    uint64_t running, now = hwt_time_reached_about(&shared->time);
    HWT_SCHED_POINT(BEGIN);
    HWT_ASSERT(*deadline < HWT_NEVER);
    if (now > latest || !hwt_entry_begin_run(entry, state, *deadline, &running, shared->one_thread))
        return HWT_RUN_NOT;
    struct hwt_frame frame = {
        .shared = shared,
        .entry = entry,
        .generation = hwt_generation(state),
        .deadline = *deadline,
    };
    uint64_t lateness = hwt_saturating_sub(now, *deadline);
    hwt_stats_run(&shared->stats, lateness, shared->executor != NULL);
    HWT_PROBE4(fire, shared, entry, frame.generation, lateness);
    hwt_unreserve(shared);
    HWT_SCHED_POINT(RUN);
    call(hwt_entry_task(entry)->run, (hwt_timeout){ entry, frame.generation }, hwt_entry_arg(entry),
         &frame);
    HWT_SCHED_POINT(RAN);
    return finish(shared, entry, running, deadline);
}

void hwt_task_end(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state)
{
    if (state & HWT_HAS_CANCELLED)
        tell(shared, entry, hwt_generation(state));
    hwt_task_free(shared, entry);
}

void hwt_task_tell(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t generation)
{
    uint64_t state = hwt_entry_state(entry);
    if (hwt_generation(state) != generation || hwt_phase(state) != HWT_PHASE_UNTOLD)
        return;
    HWT_SCHED_POINT(TELL);
    if (!hwt_entry_begin_telling(entry, state))
        return;
    hwt_unreserve(shared);
    hwt_task_end(shared, entry, state);
}

/* ---- the executor ---- */

void hwt_task_publish_again(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                            uint64_t deadline)
{
    HWT_SCHED_POINT(AGAIN);
    struct hwt_lane *lane = hwt_shared_enter(shared);
    hwt_shared_publish_pending(shared, lane, deadline, hwt_entry_id(entry), hwt_generation(state));
    hwt_lane_leave(&shared->lanes, lane);
}

/* On the executor's thread: does what the entry says. */
static void take_up(struct hwt_shared *shared, struct hwt_entry *entry)
{
    for (;;) {
        uint64_t state = hwt_entry_state(entry);
        uint64_t deadline = hwt_entry_deadline(entry);
        if (hwt_phase(state) == HWT_PHASE_UNTOLD)
            hwt_task_tell(shared, entry, hwt_generation(state));
        if (hwt_phase(state) != HWT_PHASE_PENDING || !(state & HWT_HANDED))
            return;
        HWT_SCHED_POINT(TAKE_UP);
        if (!hwt_time_has_passed(&shared->time, deadline)) {
            if (!hwt_entry_take_back(entry, state, deadline))
                continue;
            hwt_task_publish_again(shared, entry, state, deadline);
            return;
        }
        enum hwt_run run = hwt_task_run(shared, entry, state, &deadline, HWT_NEVER);
        if (run == HWT_RUN_AGAIN)
            hwt_task_publish_again(shared, entry, state, deadline);
        if (run != HWT_RUN_NOT)
            return;
    }
}

/* Counts the entries of a slab that the executor has. Acq_rel: the worker empties a slab when the
 * count is 0, and the executor's thread does not touch the slab after it has counted down. */
static void count_handed(const struct hwt_entry *entry, uint32_t n)
{
    atomic_fetch_add_explicit(&hwt_slab_of(entry)->handed, n, memory_order_acq_rel);
}

/* When the last entry is back, stop may free the timer: after that only the word's address is used.
 * Release: what this thread did; see hwt_task_wait_all(). */
static void hand_back(struct hwt_shared *shared, const struct hwt_entry *entry)
{
    HWT_SCHED_POINT(HAND_BACK);
    count_handed(entry, UINT32_MAX);
    if (atomic_fetch_sub_explicit(&shared->submitted, 1, memory_order_release) ==
        (HWT_SUBMITTED_WAITED | 1))
        hwt_futex_wake(&shared->submitted, INT_MAX);
}

static void work(void *arg)
{
    struct hwt_entry *entry = arg;
    struct hwt_shared *shared = hwt_shared_of(entry);
    take_up(shared, entry);
    hand_back(shared, entry);
}

void hwt_task_submit(struct hwt_shared *shared, struct hwt_entry *entry)
{
    /* Relaxed: the executor passes the entry on. */
    atomic_fetch_add_explicit(&shared->submitted, 1, memory_order_relaxed);
    count_handed(entry, 1);
    HWT_SCHED_POINT(HAND_OVER);
    /* With this frame stop from inside the executor is refused. It would wait for this call. */
    struct hwt_frame frame = { .shared = shared };
    hwt_frame_enter(&frame);
    int refused = shared->executor(shared->executor_data, work, entry);
    hwt_frame_leave(&frame);
    if (refused)
        work(entry);
}

uint32_t hwt_task_submitted(const struct hwt_shared *shared)
{
    /* Acquire: what was published for those that are back. */
    return atomic_load_explicit(&shared->submitted, memory_order_acquire) & ~HWT_SUBMITTED_WAITED;
}

/* Acquire: what the executor's threads did. */
void hwt_task_wait_all(struct hwt_shared *shared)
{
    uint32_t seen =
        atomic_fetch_or_explicit(&shared->submitted, HWT_SUBMITTED_WAITED, memory_order_acquire);
    while ((seen | HWT_SUBMITTED_WAITED) != HWT_SUBMITTED_WAITED) {
        hwt_futex_wait(&shared->submitted, seen | HWT_SUBMITTED_WAITED, NULL);
        seen = atomic_load_explicit(&shared->submitted, memory_order_acquire);
    }
}

/* ---- waiting ---- */

void hwt_task_returned(struct hwt_shared *shared)
{
    /* Release: what is waited for. */
    atomic_fetch_add_explicit(&shared->returns, 1, memory_order_release);
    HWT_SCHED_POINT(RETURN_WAKE);
    hwt_futex_wake(&shared->returns, INT_MAX);
}

void hwt_task_await(struct hwt_shared *shared, bool (*is_over)(const void *data), const void *data)
{
    for (;;) {
        /* Acquire: what has returned by then. If more does after that, the futex does not sleep. */
        uint32_t seen = atomic_load_explicit(&shared->returns, memory_order_acquire);
        HWT_SCHED_POINT(AWAIT);
        if (is_over(data))
            return;
        hwt_futex_wait(&shared->returns, seen, NULL);
    }
}

static bool has_returned(const void *data)
{
    const hwt_timeout *timeout = data;
    uint64_t state = hwt_entry_state(timeout->entry);
    return hwt_generation(state) != timeout->generation || !hwt_state_in_callback(state);
}

void hwt_task_wait(struct hwt_shared *shared, hwt_timeout timeout)
{
    HWT_SCHED_POINT(WAIT);
    hwt_task_await(shared, has_returned, &timeout);
}
