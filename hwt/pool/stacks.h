/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_STACKS_H
#define HWT_STACKS_H

/*
 * The pool's stacks, which all threads share: two of batches, and one of empty slabs.
 *
 * A batch is a chain of up to HWT_CACHE_BATCH free entries. A free entry needs no deadline, so the
 * first one of a batch has three numbers there: how many entries this batch and those below it have
 * (HWT_FREE_MAX at most), how many this one has, and the id of the batch below.
 *
 * Threads give batches to one of the two stacks, and take from it. If it is empty, they take from
 * the other one. The worker swaps the two when it takes all that is free. It does not matter if
 * another thread sees that late.
 *
 * A stack has a tag. A push and a pop read the head (acquire) and the numbers of the first entry,
 * and replace the head by compare-exchange (release: what was done to the entries, and what was
 * read). If the numbers were of a newer use, the batch was popped meanwhile, so the tag is another
 * one, and the exchange fails. (The tag has 32 bits: a thread would have to sleep between the two
 * through a multiple of 2^32 pops.)
 *
 * Empty slabs are on a stack of the same kind, by numbers. Their sites are the links. A push reads
 * no site, so it acquires nothing.
 */

#include "hwt/pool/slab.h"

#define HWT_CACHE_BATCH 32

/* The three numbers of a batch. */
#define HWT_BATCH_BITS 5                            /* for a length less 1 */
#define HWT_FREE_MAX (UINT32_MAX >> HWT_BATCH_BITS) /* more are counted as this */
_Static_assert(HWT_CACHE_BATCH == 1 << HWT_BATCH_BITS, "the longest one");

static inline uint32_t hwt_batch_total(uint64_t word)
{
    return (uint32_t)(word >> (32 + HWT_BATCH_BITS));
}

static inline uint32_t hwt_batch_count(uint64_t word)
{
    return (uint32_t)(word >> 32) % HWT_CACHE_BATCH + 1;
}

/* The numbers, where an entry in use has its deadline. Acquire: if they are of a newer use, another
 * head of the stack is seen after this. */
static inline uint64_t hwt_entry_batch(const struct hwt_entry *first)
{
    return atomic_load_explicit(&first->word.second, memory_order_acquire);
}

/* Give a chain of `count` entries to the pool, to be taken soon, or last. All here is lock-free. */
void hwt_batch_push(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count);
void hwt_batch_push_last(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count);

/* Takes a batch of *ret_count entries, and returns the first. NULL: there is none. */
struct hwt_entry *hwt_batch_pop(struct hwt_pool *pool, uint32_t *ret_count);

/* Worker: the same from the stack to which no batches are given; and swaps the two. */
struct hwt_entry *hwt_batch_pop_old(struct hwt_pool *pool, uint32_t *ret_count);
void hwt_batches_swap(struct hwt_pool *pool);

/* Worker: how many entries are in batches, HWT_FREE_MAX at most. 0 also if others take and give too
 * fast for a count. */
uint64_t hwt_pool_free(const struct hwt_pool *pool);

void hwt_empty_push(struct hwt_pool *pool, uint32_t number);

/* Returns a number. HWT_ID_NONE: no slab is empty. */
uint32_t hwt_empty_pop(struct hwt_pool *pool);

#endif
