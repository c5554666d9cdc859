/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_JOBS_H
#define HWT_DELAY_BASE_JOBS_H

/* The jobs of a store, and which of them is wanted. See pool.h. And what rooms below the callers make known
 * without knowing who waits for it. */

#include "hwt/delay.h"
#include "hwt/delay/base/pool.h"

/* Or an error, which is from now on a reason why takes get nothing; or 0: that is over. */
enum {
    HWT_DELAY_MORE = 1 /* something may have become due */,
    HWT_DELAY_LOOK /* whatever it is */
};

struct hwt_delay_jobs {
    void (*changed)(hwt_delay *store, int reason); /* frozen; api/wake.c alone listens */
    int (*checkpoint)(hwt_delay *store);           /* frozen; makes one on this thread */
    struct hwt_delay_pool *pool; /* NULL: the store is synchronous, read only, or being opened */
    struct hwt_delay_job all[HWT_DELAY_LANES];
    bool checkpoint_wanted;
};

void hwt_delay_jobs_init(hwt_delay *store, void (*changed)(hwt_delay *store, int reason),
                         int (*checkpoint)(hwt_delay *store));
/* With the lock. */
void hwt_delay_changed(hwt_delay *store, int reason);
/* For a store that is synchronous: makes room in the log. */
int hwt_delay_checkpoint_now(hwt_delay *store);

int hwt_delay_jobs_begin(hwt_delay *store, uint64_t (*const runs[HWT_DELAY_LANES])(void *arg));
void hwt_delay_jobs_end(hwt_delay *store);
bool hwt_delay_has_jobs(const hwt_delay *store);
void hwt_delay_want(hwt_delay *store, enum hwt_delay_lane lane);
/* In so many nanoseconds. */
void hwt_delay_want_in(hwt_delay *store, enum hwt_delay_lane lane, uint64_t delay);

void hwt_delay_checkpoint_want(hwt_delay *store);
bool hwt_delay_checkpoint_is_wanted(const hwt_delay *store);
void hwt_delay_checkpoint_begins(hwt_delay *store);
void hwt_delay_room_soon(hwt_delay *store);

#endif
