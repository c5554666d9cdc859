/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_STACKS_H
#define HWT_STACKS_H

/*
 * What the pool has, for all threads: two stacks of batches, and one of empty slabs.
 *
 * A batch is a chain of up to HWT_CACHE_BATCH free entries. A free entry needs no deadline, so the
 * first one of a batch has three numbers there: the entries of this batch and of those below it
 * (HWT_FREE_MAX at most), the entries of this one, and the id of the batch below.
 *
 * Batches are given to one of the two stacks, and come from it, or, if it is empty, from the other
 * one. The worker swaps them as it takes all that is free. It does not matter if another thread sees
 * that late.
 *
 * A stack has a tag. A push and a pop read the head (acquire) and the first entry's numbers, and
 * replace the head by compare-exchange (release: what was done to the entries, and what was read).
 * If the numbers were of a newer use, the batch was popped since, the tag is another, and the
 * exchange fails. (The tag has 32 bits: a thread would have to sleep between the two through a
 * multiple of 2^32 pops.)
 *
 * Empty slabs are on a stack of the same kind, by numbers: their sites are the links. A push reads
 * none of them, so it acquires nothing.
 */

#include "hwt/pool/slab.h"

#define HWT_CACHE_BATCH 32

/* The numbers of a batch, in the word of its first entry that is else the deadline. */
#define HWT_BATCH_BITS 5                            /* of a length less 1 */
#define HWT_FREE_MAX (UINT32_MAX >> HWT_BATCH_BITS) /* more are not told apart */
_Static_assert(HWT_CACHE_BATCH == 1 << HWT_BATCH_BITS, "the longest one");

static inline uint32_t hwt_batch_total(uint64_t word)
{
    return (uint32_t)(word >> (32 + HWT_BATCH_BITS));
}

static inline uint32_t hwt_batch_count(uint64_t word)
{
    return (uint32_t)(word >> 32) % HWT_CACHE_BATCH + 1;
}

/* Acquire: if these are of a newer use, another head of the stack is seen after this. */
static inline uint64_t hwt_entry_batch(const struct hwt_entry *first)
{
    return atomic_load_explicit(&first->word.second, memory_order_acquire);
}

/* A chain of `count` goes to the pool, and is taken soon, or last. Lock-free, as all of these. */
void hwt_batch_push(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count);
void hwt_batch_push_last(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count);

/* The first of a batch of *ret_count, NULL: there is none. */
struct hwt_entry *hwt_batch_pop(struct hwt_pool *pool, uint32_t *ret_count);

/* Worker: the same from the stack that batches do not go to; and swaps the two. */
struct hwt_entry *hwt_batch_pop_old(struct hwt_pool *pool, uint32_t *ret_count);
void hwt_batches_swap(struct hwt_pool *pool);

/* Worker: how many entries are in batches, or HWT_FREE_MAX; 0: others take and give too fast for
 * that to be known. */
uint64_t hwt_pool_free(const struct hwt_pool *pool);

void hwt_empty_push(struct hwt_pool *pool, uint32_t number);

/* HWT_ID_NONE: there is none. */
uint32_t hwt_empty_pop(struct hwt_pool *pool);

#endif
