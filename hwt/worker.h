/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WORKER_H
#define HWT_WORKER_H

#include "hwt/wheel.h"

#define HWT_BATCH 64 /* taken from the wheel at a time */

/* Only the worker touches this, but where marked. */
struct hwt_worker {
    struct hwt_wheel wheel;
    struct hwt_recycler recycler;
    uint64_t limit;           /* ticks before it are over at `now` */
    uint64_t horizon;         /* the instant at which tick `limit` begins */
    uint64_t earliest;        /* what is drained goes into this tick or a later one */
    uint64_t runs;            /* tasks started or handed over */
    uint64_t given;           /* by all lanes, when the queues were last emptied */
    uint64_t cancelled;       /* by all lanes, when it last parked */
    bool unfiled;             /* a timeout could not be filed or a lane was stalled */
    bool short_of_memory;     /* since the queues were last spliced: what they hold waits */
    _Atomic uint64_t now;     /* of the last pass; read by tasks */
    _Atomic uint64_t transit; /* entries in HWT_SLOT_TRANSIT; added to by executor threads */
};

/* The timer's clock, or the instant that hwt_timer_advance() was told, whichever is later. */
uint64_t hwt_worker_now(const hwt_timer *timer);

/* The instant at which the tick of `now` began. */
uint64_t hwt_worker_tick_begin(const hwt_timer *timer, uint64_t now);

/* An entry that is in no bucket and on no queue, because a thread is about to push it. */
void hwt_worker_enter_transit(hwt_timer *timer, struct hwt_entry *entry);
void hwt_worker_leave_transit(hwt_timer *timer, struct hwt_entry *entry);

/* An entry that came out of a queue is in no bucket and not in transit any more. */
void hwt_worker_leave_place(hwt_timer *timer, struct hwt_entry *entry);

/*
 * Files what ran on this thread, the worker, and has re-armed itself: at once, without the way
 * through the queue. False: there is something queued that this thread added before, or it is due
 * already, which is for the next pass, or it has not re-armed itself, or was cancelled, or there is
 * no memory; it is to be finished as ever.
 */
bool hwt_worker_file_rearmed(hwt_timer *timer, struct hwt_entry *entry);

int hwt_worker_init(hwt_timer *timer, uint64_t start, uint32_t ticks_per_wheel);
void hwt_worker_destroy(hwt_timer *timer);

/* The instant at which the next tick with work can be handled, HWT_NEVER: none. */
uint64_t hwt_worker_next_tick(hwt_timer *timer);

/* The thread. */
void *hwt_worker_main(void *timer);

/* One pass at `now`: drain, expire, cancelled. Returns how many tasks it started. */
uint64_t hwt_worker_pass(hwt_timer *timer, uint64_t now);

/* Tells the counters what memory the wheel holds. */
void hwt_worker_publish_bytes(hwt_timer *timer);

/* Drain and cancelled only: nothing runs but `cancelled`. */
void hwt_worker_tidy(hwt_timer *timer);

/*
 * Closes the gate and sets the descriptor to the next tick there is work in. False: there
 * is work now, do another pass.
 */
bool hwt_worker_park(hwt_timer *timer);

/* After the last pass: ends everything that is left, and returns how many were pending. */
uint64_t hwt_worker_abandon(hwt_timer *timer,
                            void (*unprocessed)(const hwt_task *task, void *arg, uint64_t remaining,
                                                void *data),
                            void *data);

#endif
