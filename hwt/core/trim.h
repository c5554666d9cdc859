/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TRIM_H
#define HWT_TRIM_H

/* After a peak: slabs all of whose entries are free go back to the system. The worker alone. */

#include "hwt/core/pool.h"

/* Whether there is so much in the pool that a trim is likely to pay; `again`: one that was
 * in vain is so long ago that another may be. */
static inline bool hwt_pool_is_worth_a_trim(const struct hwt_pool *pool, bool again)
{
    uint64_t least = again && pool->trim_at > HWT_TRIM_MIN ? HWT_TRIM_MIN : pool->trim_at;
    return hwt_pool_free(pool) >= least;
}

/* Slabs that the worker has taken for itself. */
struct hwt_trim {
    uint32_t slabs;
    struct hwt_census *census; /* of so many */
    uint32_t held;             /* entries of those that are not empty */
    uint32_t kept;             /* entries that were free and have stayed */
};

/* Takes the slabs all of whose entries are in the pool. False: there are too few, or there was no
 * memory to find them; there is nothing to end. Meanwhile the pool is empty for others, which map
 * new slabs if they need entries. */
bool hwt_pool_trim_begin(struct hwt_pool *pool, struct hwt_trim *trim);

/* Gives them back to the system, with their places, which the caller does not need any more. */
void hwt_pool_trim_end(struct hwt_pool *pool, struct hwt_trim *trim);

#endif
