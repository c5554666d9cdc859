/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TASK_H
#define HWT_TASK_H

/*
 * Running tasks, on the worker or the executor. `recycler` takes ended entries; NULL: they
 * go straight back to the pool.
 */

#include "hwt/timer.h"

/* Whether this thread is inside a callback of the timer. */
bool hwt_in_callback(const hwt_timer *timer);

/* The run of this very timeout that this thread is inside of, or NULL. */
const struct hwt_frame *hwt_own_task(hwt_timeout timeout);

/* Runs the task of a timeout that is RUNNING, and ends or re-arms it. */
void hwt_task_run(hwt_timer *timer, struct hwt_entry *entry, struct hwt_recycler *recycler);

/* Ends a timeout that is CANCELLED and out of every bucket and queue. */
void hwt_task_discard(hwt_timer *timer, struct hwt_entry *entry, struct hwt_recycler *recycler);

/* Hands a SUBMITTED or CANCELLED timeout to the executor. Where that refuses, runs it here. */
void hwt_task_submit(hwt_timer *timer, struct hwt_entry *entry, struct hwt_recycler *recycler);

/* Calls `unprocessed` for a timeout that stop has made CANCELLED. */
void hwt_task_leave(hwt_timer *timer, struct hwt_entry *entry,
                    void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                        void *data),
                    void *data);

/* Wakes those who wait for a task's return. */
void hwt_task_returned(hwt_timer *timer);

/* Waits until `timeout` is not running. */
void hwt_task_wait(hwt_timer *timer, hwt_timeout timeout);

/* Waits until the executor has nothing of this timer's any more. */
void hwt_task_wait_all(hwt_timer *timer);

#endif
