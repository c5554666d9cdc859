/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_POOL_H
#define HWT_DELAY_BASE_POOL_H

/*
 * The threads of all stores of a process. The first store that is opened makes them, and closing
 * the last one ends them.
 *
 * A store has one job for each lane. A job is run when something wants it, or when its instant has
 * come. It does a little, without waiting for another job, and returns when it is to run again. A
 * job runs on one thread at a time, and jobs of one lane begin in the order in which they were
 * wanted.
 *
 * Each lane but that of the alarms has threads of its own, so commits wait for no checkpoint. A
 * lane has LANE_THREADS of them at most, as long as its jobs come to an end. While jobs wait and
 * none has begun for PATIENCE, the lane gets one thread more. So a disk that stands still, or a
 * callback that does not return, delays the jobs of other stores by that much, and no longer. A
 * thread that is too many ends, once another one waits for jobs. There are never more threads in a
 * lane than stores, because a job needs only one.
 *
 * The clock's thread wakes for the instants and for lanes that stand still, and not otherwise. It
 * starts and joins the others. It runs the alarms itself, because they only take their store's
 * lock, which nobody holds across a call of the disk or a callback.
 *
 * GROUND RULES
 *
 * - A pool's lock guards all in it, and all of a job but for what is frozen. It may be taken
 *   under a store's lock; never the other way round. Nothing is called under it.
 * - A pool thread touches a store only in a run of one of its jobs. hwt_delay_job_end() takes the
 *   job out of the lane, or waits for the run that is under way; so closing a store waits for what
 *   its own jobs do, and for nothing of other stores. It is called without the store's lock.
 * - Pool threads block all signals but those that a fault of a callback raises, and cannot be
 *   cancelled. They have the scheduling of the thread that opened the first store.
 * - A child of fork() has none of these threads. It makes a pool of its own with the first store
 *   that it opens, and leaves that of its parent alone.
 */

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

enum hwt_delay_lane {
    HWT_DELAY_ALARM,
    HWT_DELAY_COMMIT,
    HWT_DELAY_CHECKPOINT,
    HWT_DELAY_LOAD,
    HWT_DELAY_LANES
};

struct hwt_delay_pool;

struct hwt_delay_job {
    struct hwt_delay_pool *pool; /* frozen; NULL: nothing wants it */
    enum hwt_delay_lane lane;    /* frozen */
    uint64_t (*run)(void *arg);  /* frozen; returns as hwt_delay_job_at() takes it */
    void *arg;                   /* frozen */
    TAILQ_ENTRY(hwt_delay_job) queued;
    RB_ENTRY(hwt_delay_job) timed;
    uint64_t at; /* by CLOCK_MONOTONIC; HWT_NEVER: not timed */
    enum { HWT_DELAY_IDLE, HWT_DELAY_QUEUED, HWT_DELAY_RUNS, HWT_DELAY_RUNS_AGAIN } state;
    bool ended;
};

/* -EAGAIN: no thread; -ENOMEM */
int hwt_delay_pool_enter(struct hwt_delay_pool **ret_pool);
/* The caller's jobs have ended. */
void hwt_delay_pool_leave(struct hwt_delay_pool *pool);

void hwt_delay_job_begin(struct hwt_delay_job *job, struct hwt_delay_pool *pool,
                         enum hwt_delay_lane lane, uint64_t (*run)(void *arg), void *arg);
/* It will run, and see all that was done before this call. */
void hwt_delay_job_want(struct hwt_delay_job *job);
/* It will run in so many nanoseconds, rather than when it was to; HWT_NEVER: not by time. A run
 * that begins takes back what was set before. */
void hwt_delay_job_at(struct hwt_delay_job *job, uint64_t delay);
/* When this returns the job does not run and will not. */
void hwt_delay_job_end(struct hwt_delay_job *job);
/* For tests: whether it runs now, and whether hwt_delay_job_end() was called. */
bool hwt_delay_job_runs(struct hwt_delay_job *job);
bool hwt_delay_job_is_ended(struct hwt_delay_job *job);

#endif
