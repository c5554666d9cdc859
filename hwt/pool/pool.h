/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_POOL_H
#define HWT_POOL_H

/*
 * Where entries come from. A free entry belongs to one thread's cache, or is in the pool:
 *
 *   cache   a lane's: a chain of up to HWT_CACHE_BATCH, arg is the next entry, and a whole one to
 *           spare. Its thread takes and gives without a locked operation
 *   pool    a stack of such chains, see stacks.h
 */

#include "hwt/pool/stacks.h"

struct hwt_cache {
    struct hwt_entry *first;
    struct hwt_entry *spare; /* NULL, or the first of HWT_CACHE_BATCH */
    uint32_t count;          /* from `first` on */
};

/* 0 or -ENOMEM. The first slab is mapped, and in the same mapping, for a process cannot have very many
 * of them, what the owner wants besides: pool->rest, so many bytes, zero. */
int hwt_pool_init(struct hwt_pool *pool, hwt_timer *timer, size_t rest_size);

/* Unmaps everything, or all but the region that has the rest. No other call may be under way. */
void hwt_pool_destroy(struct hwt_pool *pool, bool keeps_rest);

/* Fills a cache whose chain is empty, from the pool or with a new slab. False: no memory.
 * Lock-free. */
bool hwt_pool_fill(struct hwt_pool *pool, struct hwt_cache *cache);

/* Empties the chain of a cache: it becomes the one to spare, and what that was goes to the pool.
 * Lock-free. */
void hwt_pool_spill(struct hwt_pool *pool, struct hwt_cache *cache);

/* Takes all of a cache into the pool. Lock-free. */
void hwt_pool_flush(struct hwt_pool *pool, struct hwt_cache *cache);

/* The same of what was kept for long, and is of many slabs: a thread that takes a batch of it would
 * keep them all in use. After a trim most batches are of one slab. */
void hwt_pool_flush_last(struct hwt_pool *pool, struct hwt_cache *cache);

/* Takes the first entry of a cache that has one, and the next one comes from memory. */
static inline void hwt_cache_drop(struct hwt_cache *cache, struct hwt_entry *first)
{
    struct hwt_entry *next = hwt_entry_linked(first);
    HWT_ASSERT(cache->count > 0 && hwt_state_free(hwt_entry_state(first)));
    __builtin_prefetch(next, 1);
    cache->first = next;
    cache->count--;
}

/* To a cache that is not full. */
static inline void hwt_cache_add(struct hwt_cache *cache, struct hwt_entry *entry)
{
    HWT_ASSERT(cache->count < HWT_CACHE_BATCH && hwt_state_free(hwt_entry_state(entry)));
    hwt_entry_link(entry, cache->first);
    cache->first = entry;
    cache->count++;
}

/* A free entry, the caller's from now on; NULL: no memory. */
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

/* From (0, 0) on: the next entry that has ever been used, or NULL. Then *number and *seat say where
 * to go on. */
struct hwt_entry *hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number, uint32_t *seat);

#endif
