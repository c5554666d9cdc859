/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_POOL_H
#define HWT_POOL_H

/*
 * The pool gives out free entries and takes them back. A free entry is in one thread's cache, or in
 * the pool.
 *
 *   cache   of a lane: a chain of up to HWT_CACHE_BATCH entries, and a whole chain to spare. The
 *           lane's thread takes and gives without a locked operation
 *   pool    a stack of such chains, see stacks.h
 */

#include "hwt/pool/stacks.h"

struct hwt_cache {
    struct hwt_entry *first;
    struct hwt_entry *spare; /* NULL, or the first of HWT_CACHE_BATCH */
    uint32_t count;          /* of the chain at `first` */
};

/* 0 or -ENOMEM. Maps the first region of pieces, the first slab, and behind it pool->rest: that
 * many bytes, zero, for the owner. They share one mapping because a process cannot have very
 * many. */
int hwt_pool_init(struct hwt_pool *pool, hwt_timer *timer, size_t rest_size);

/* Unmaps all regions, or all but the one that has the rest. No other call may be under way. */
void hwt_pool_destroy(struct hwt_pool *pool, bool keeps_rest);

/* Fills the empty chain of a cache, from the pool or a new slab. False: no memory. Lock-free. */
bool hwt_pool_fill(struct hwt_pool *pool, struct hwt_cache *cache);

/* Empties the chain of a cache into the spare one, and that into the pool. Lock-free. */
void hwt_pool_spill(struct hwt_pool *pool, struct hwt_cache *cache);

/* Gives all entries of a cache to the pool. Lock-free. */
void hwt_pool_flush(struct hwt_pool *pool, struct hwt_cache *cache);

/* The same; they are to be taken last. A cache that was kept for long has entries of many slabs, so
 * a thread that takes them keeps many slabs in use. After a trim most batches are of one slab. */
void hwt_pool_flush_last(struct hwt_pool *pool, struct hwt_cache *cache);

/* Takes the first entry out of a cache, and has the next one come from memory. */
static inline void hwt_cache_drop(struct hwt_cache *cache, struct hwt_entry *first)
{
    struct hwt_entry *next = hwt_entry_linked(first);
    HWT_ASSERT(cache->count > 0 && hwt_state_free(hwt_entry_state(first)));
    __builtin_prefetch(next, 1);
    cache->first = next;
    cache->count--;
}

/* Adds an entry to a cache whose chain is not full. */
static inline void hwt_cache_add(struct hwt_cache *cache, struct hwt_entry *entry)
{
    HWT_ASSERT(cache->count < HWT_CACHE_BATCH && hwt_state_free(hwt_entry_state(entry)));
    hwt_entry_link(entry, cache->first);
    cache->first = entry;
    cache->count++;
}

/* Takes a free entry, which is the caller's from now on. NULL: no memory. */
static inline struct hwt_entry *hwt_pool_take(struct hwt_pool *pool, struct hwt_cache *cache)
{
    if (!cache->first && !hwt_pool_fill(pool, cache))
        return NULL;
    struct hwt_entry *entry = cache->first;
    hwt_cache_drop(cache, entry);
    return entry;
}

static inline void hwt_pool_give(struct hwt_pool *pool, struct hwt_cache *cache,
                                 struct hwt_entry *entry)
{
    if (cache->count == HWT_CACHE_BATCH)
        hwt_pool_spill(pool, cache);
    hwt_cache_add(cache, entry);
}

/* A walk through all entries that were ever used: begins with *number = *seat = 0, returns the next
 * entry, and NULL at its end. */
struct hwt_entry *hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number, uint32_t *seat);

#endif
