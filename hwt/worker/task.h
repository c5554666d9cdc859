/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TASK_H
#define HWT_TASK_H

/* Running tasks, on the worker or the executor, and telling of cancels. */

#include "hwt/worker/shared.h"

/* A callback in which this thread is. `outer` is the one from which that was called. */
struct hwt_frame {
    const struct hwt_shared *shared;
    struct hwt_entry *entry; /* NULL: the callback is a `cancelled`, or the executor */
    uint64_t generation;
    uint64_t deadline; /* of this run */
    uint64_t missed;   /* so many periods its repeat left out */
    struct hwt_frame *outer;
};

void hwt_frame_enter(struct hwt_frame *frame);
void hwt_frame_leave(const struct hwt_frame *frame);

/* Whether this thread is inside a callback of the timer. */
bool hwt_in_callback(const struct hwt_shared *shared);

/* The run of this very timeout, if this thread is in it; or NULL. */
struct hwt_frame *hwt_own_task(hwt_timeout timeout);

enum hwt_run {
    HWT_RUN_NOT, /* it is later, or the state or the deadline was another one */
    HWT_RUN_ENDED,
    HWT_RUN_AGAIN, /* it is PENDING again */
};

/* Runs the task of an entry, if it is not later than `latest`, and the entry still is PENDING with
 * this state and deadline. If it returns HWT_RUN_AGAIN, *deadline is the next one, and the
 * caller must have the entry looked at then. */
enum hwt_run hwt_task_run(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                          uint64_t *deadline, uint64_t latest);

/* The caller has made the entry CANCELLED, from this state: calls `cancelled`, if the task has it,
 * and frees the entry. */
void hwt_task_end(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state);

/* If this timeout is UNTOLD still: calls `cancelled`, if the task has it, and frees the entry. */
void hwt_task_tell(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t generation);

/* The entry is PENDING again: appends a record, behind those that its task has added. It does no
 * harm if that is out of date by now. */
void hwt_task_publish_again(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                            uint64_t deadline);

/* Has the executor run an entry, or tell it. If the executor refuses, this thread does it. */
void hwt_task_submit(struct hwt_shared *shared, struct hwt_entry *entry);

static inline void hwt_task_free(struct hwt_shared *shared, struct hwt_entry *entry)
{
    struct hwt_lane *lane = hwt_shared_enter(shared);
    hwt_pool_give(&shared->pool, &lane->cache, entry);
    hwt_lane_leave(&shared->lanes, lane);
}

/* Something is over that a thread may wait for: wakes those who do. */
void hwt_task_returned(struct hwt_shared *shared);

/* Waits until it is over. Who ends it calls hwt_task_returned() after that. */
void hwt_task_await(struct hwt_shared *shared, bool (*is_over)(const void *data), const void *data);

/* Waits until `timeout` is neither running nor being visited. */
void hwt_task_wait(struct hwt_shared *shared, hwt_timeout timeout);

/* Waits until the executor has no entry of this timer any more. */
void hwt_task_wait_all(struct hwt_shared *shared);

/* How many entries the executor has now. */
uint32_t hwt_task_submitted(const struct hwt_shared *shared);

#endif
