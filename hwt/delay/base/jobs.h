/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_BASE_JOBS_H
#define HWT_DELAY_BASE_JOBS_H

/* The jobs of a store, and which of them is wanted. See pool.h. */

#include "hwt/delay.h"
#include "hwt/delay/base/pool.h"

struct hwt_delay_jobs {
    struct hwt_delay_pool *pool; /* NULL: the store is synchronous, read only, or being opened */
    struct hwt_delay_job all[HWT_DELAY_LANES];
    bool checkpoint_wanted;
};

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
