/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TRIM_H
#define HWT_TRIM_H

/*
 * After a peak: slabs all of whose entries are free go back to the system. The worker alone, a
 * slice at a time, for others wait for it meanwhile. A trim has three steps:
 *
 *     scan     finds the slabs that have a timeout which has not ended: they stay
 *     gather   takes all batches from the stack that they are not given to, and then, when the two
 *              are swapped, from the other one. An entry of a slab that stays is given to the pool
 *              again, any other goes to a chain of its slab
 *     settle   empties the slabs whose entries are all there, and gives back the others' chains
 *
 * Others take entries from either stack meanwhile, and make entries of empty slabs or of new ones
 * if both have none. A hint or a record of a timeout that was in a slab before it was emptied does
 * not count afterwards, for its generation is not above the slab's floor.
 */

#include "hwt/pool/pool.h"

/* The instant from which on a slice of a trim is wanted, 0: of the one that goes on; HWT_NEVER: none
 * is, as long as no entry is taken or given back. */
uint64_t hwt_pool_trim_at(const struct hwt_pool *pool);

/* Does a slice of a trim, at an instant at which one is wanted. True: the trim has ended. */
bool hwt_pool_trim(struct hwt_pool *pool, uint64_t now);

#endif
