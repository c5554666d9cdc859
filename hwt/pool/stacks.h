/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_STACKS_H
#define HWT_STACKS_H

/*
 * The pool's batches of free entries, on two stacks that all threads share: see base/stack.h.
 *
 * A batch is a chain of up to HWT_CACHE_BATCH entries, and counts for as many. A free entry needs
 * neither deadline nor task, so the first one of a batch has its link and its count there.
 *
 * Threads give batches to one of the two stacks, and take from it. If it is empty, they take from
 * the other one. The worker swaps the two when it takes all that is free. It does not matter if
 * another thread sees that late.
 */

#include "hwt/pool/slab.h"

#define HWT_CACHE_BATCH 32

/* Give a chain of `count` entries to the pool, to be taken soon, or last. All here is lock-free. */
void hwt_batch_push(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count);
void hwt_batch_push_last(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count);

/* Takes a batch of *ret_count entries, and returns the first. NULL: there is none. */
struct hwt_entry *hwt_batch_pop(struct hwt_pool *pool, uint32_t *ret_count);

/* Worker: the same from the stack to which no batches are given; and swaps the two. */
struct hwt_entry *hwt_batch_pop_old(struct hwt_pool *pool, uint32_t *ret_count);
void hwt_batches_swap(struct hwt_pool *pool);

/* How many entries are in batches. */
static inline uint64_t hwt_pool_free(const struct hwt_pool *pool)
{
    return (uint64_t)hwt_stack_count(&pool->batches[0]) + hwt_stack_count(&pool->batches[1]);
}

#endif
