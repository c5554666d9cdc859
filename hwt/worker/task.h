/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TASK_H
#define HWT_TASK_H

/* Running tasks, on the worker or the executor, and telling of cancels. */

#include "hwt/worker/shared.h"

/* A callback that this thread is inside of, and the one that it is inside of. */
struct hwt_frame {
    const struct hwt_shared *shared;
    struct hwt_entry *entry; /* NULL: `cancelled`, or the executor */
    uint64_t generation;
    uint64_t deadline; /* of this run */
    uint64_t missed;   /* periods that its repeat left out */
    struct hwt_frame *outer;
};

void hwt_frame_enter(struct hwt_frame *frame);
void hwt_frame_leave(const struct hwt_frame *frame);

/* Whether this thread is inside a callback of the timer. */
bool hwt_in_callback(const struct hwt_shared *shared);

/* A callback was left in a way that is not to return: aborts, with a message. */
_Noreturn void hwt_task_does_not_return(void);

/* The run of this very timeout that this thread is inside of, or NULL. */
struct hwt_frame *hwt_own_task(hwt_timeout timeout);

enum hwt_run {
    HWT_RUN_NOT, /* it was not what the caller took it for */
    HWT_RUN_ENDED,
    HWT_RUN_AGAIN, /* it is PENDING again */
};

/* Runs the task of an entry that was PENDING with this state and deadline, if it still is. If it is
 * PENDING again, the caller sees to it that it is looked at for the deadline that it has then. */
enum hwt_run hwt_task_run(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                          uint64_t *deadline);

/* Of an entry that the caller has made CANCELLED from this state: tells that, if anybody is to be
 * told, and frees it. */
void hwt_task_end(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state);

/* Tells that an UNTOLD timeout of this generation will never run, if nobody has, and frees it. */
void hwt_task_tell(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t generation);

/* PENDING, and for the worker to look at again, by the stream, behind what its task has added. If
 * that is out of date by now: it is a hint. */
void hwt_task_publish_again(struct hwt_shared *shared, struct hwt_entry *entry, uint64_t state,
                            uint64_t deadline);

/* Has the executor look at an entry: run it, or tell it. Where that refuses, does it here. */
void hwt_task_submit(struct hwt_shared *shared, struct hwt_entry *entry);

/* The entry's timeout has ended: it is free. */
static inline void hwt_task_free(struct hwt_shared *shared, struct hwt_entry *entry)
{
    struct hwt_lane *lane = hwt_shared_enter(shared);
    hwt_pool_give(&shared->pool, &lane->cache, entry);
    hwt_shared_leave(shared, lane);
}

/* Wakes the waiters for a task's return. */
void hwt_task_returned(struct hwt_shared *shared);

/* Waits until `timeout` is neither running nor being visited. */
void hwt_task_wait(struct hwt_shared *shared, hwt_timeout timeout);

/* Waits until the executor has nothing of this timer's any more. */
void hwt_task_wait_all(struct hwt_shared *shared);

/* How many it has now. */
uint64_t hwt_task_submitted(struct hwt_shared *shared);

#endif
