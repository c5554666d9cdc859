/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TRIM_H
#define HWT_TRIM_H

/*
 * A trim gives slabs back to the system, after a peak, if all their entries are free. The worker
 * alone trims, a slice at a time, because others wait for it meanwhile. A trim has three steps:
 *
 *     scan     finds the slabs that have a timeout which has not ended: they stay
 *     collect  takes all batches: first from the stack to which none are given, then it swaps the
 *              two and takes from the other one. It gives an entry of a slab that stays back to the
 *              pool, and adds any other entry to a chain of its slab
 *     settle   empties the slabs whose entries are all there, and gives the chains of the others
 *              back
 *
 * Others take entries from either stack meanwhile, and carve empty slabs or new ones if both stacks
 * are empty. A hint or a record of a timeout that was in a slab before it was emptied does not
 * count afterwards, because its generation is not above the slab's floor.
 */

#include "hwt/pool/pool.h"

/* The instant from which on a slice of a trim is wanted. 0: a trim goes on. HWT_NEVER: none is
 * wanted until entries are taken or given back. */
uint64_t hwt_pool_trim_at(const struct hwt_pool *pool);

/* Does a slice of a trim, when one is wanted. True: the trim has ended. */
bool hwt_pool_trim(struct hwt_pool *pool, uint64_t now);

#endif
