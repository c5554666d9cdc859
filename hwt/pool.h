/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_POOL_H
#define HWT_POOL_H

/*
 * Entries come from slabs that stay mapped until the timer is destroyed, so that a stale
 * handle reads a newer generation and never freed memory.
 *
 * A slab is 64 KiB, aligned to its size: an entry finds its slab's head, and by it the timer and
 * the lane it goes home to, from its address. The heads are not all at the beginning of their
 * slabs, for then they would all fall into the same few sets of a cache: each has some entries
 * before it, how many depends on the slab's address. Slabs are mapped in regions that grow
 * with the pool. An entry also has a 32-bit id (slab number, place in the slab): what
 * buckets and free lists keep instead of a pointer, to be small and to leave room for a
 * tag.
 *
 * The free list of a lane is a stack with a tag:
 *
 *   pop    any thread, some entries at a time. Reads head, walks from the top entry's next to the
 *          next, then replaces head by compare-exchange. A next may belong to a newer use of its
 *          entry; then the entry was popped since, the tag has changed: that is looked at before
 *          each next is believed, and the exchange fails. (The tag has 32 bits: a thread would
 *          have to sleep between the two reads through an exact multiple of 2^32 pops.)
 *   push   any thread, a whole chain at a time.
 *
 * Acquire and release on head carry the entry's fields from its last user to its next. The owner
 * of a lane pops as many as its `ready` holds, which it then uses without any atomic operation;
 * so many are nobody else's, as long as the lane has an owner.
 */

#include "hwt/timeout.h"

#define HWT_SLAB_SIZE ((size_t)65536)
#define HWT_SLAB_BITS 11 /* of an id: the place in the slab */
#define HWT_SLABS_MAX ((uint32_t)1 << (32 - HWT_SLAB_BITS))
#define HWT_DIRECTORY_BITS 9 /* the first page of the directory has so many slabs */
#define HWT_DIRECTORY_PAGES 13

#define HWT_ID_NONE UINT32_MAX

struct hwt_lane;

struct hwt_slab {
    hwt_timer *timer;
    struct hwt_lane *home; /* whose free list its entries go back to */
    uint32_t number;
    struct hwt_slab *next_fresh;  /* in pool->fresh */
    struct hwt_slab *next_region; /* in pool->regions; only the first slab of a region */
    size_t region_size;
    char pad[64 - 5 * sizeof(void *) - sizeof(size_t)];
};

#define HWT_SLAB_ENTRIES ((HWT_SLAB_SIZE - sizeof(struct hwt_slab)) / sizeof(struct hwt_entry))
#define HWT_SLAB_COLOURS 64
#define HWT_SLAB_STEP (4 * sizeof(struct hwt_entry)) /* whole cache lines, on a 64-bit machine */

struct hwt_pool {
    _Atomic(struct hwt_slab *) fresh;   /* never carved up; pushed once, so popping has no ABA */
    _Atomic(struct hwt_slab *) regions; /* only pushed, until destroy */
    _Atomic uint32_t slabs;             /* numbers given out */
    _Atomic uint64_t bytes;
    /* page k: 2^(9 + k) slots for the slabs from 2^9 * (2^k - 1) on */
    _Atomic(_Atomic(struct hwt_slab *) *) directory[HWT_DIRECTORY_PAGES];
};

/* Entries on their way back, a chain for each lane. One thread's. */
struct hwt_recycler {
    struct hwt_recycled {
        struct hwt_entry *first, *last;
    } * chains; /* one for each lane */
};

static inline uintptr_t hwt_slab_base(const void *within)
{
    return (uintptr_t)within & ~(uintptr_t)(HWT_SLAB_SIZE - 1);
}

/* Where in the slab its head is; the entries are before and behind. */
static inline size_t hwt_slab_head(uintptr_t base)
{
    return base / HWT_SLAB_SIZE % HWT_SLAB_COLOURS * HWT_SLAB_STEP;
}

static inline struct hwt_slab *hwt_slab_of(const struct hwt_entry *entry)
{
    uintptr_t base = hwt_slab_base(entry);
    return (struct hwt_slab *)(base + hwt_slab_head(base));
}

static inline struct hwt_entry *hwt_slab_entry(const struct hwt_slab *slab, uint32_t place)
{
    uintptr_t base = hwt_slab_base(slab);
    size_t offset = place * sizeof(struct hwt_entry);
    return (struct hwt_entry *)(base + offset +
                                (base + offset < (uintptr_t)slab ? 0 : sizeof(*slab)));
}

static inline hwt_timer *hwt_timer_of(const struct hwt_entry *entry)
{
    return hwt_slab_of(entry)->timer;
}

static inline uint32_t hwt_entry_id(const struct hwt_entry *entry)
{
    const struct hwt_slab *slab = hwt_slab_of(entry);
    size_t before = (uintptr_t)entry < (uintptr_t)slab ? 0 : sizeof(*slab);
    size_t offset = (uintptr_t)entry - hwt_slab_base(entry) - before;
    return slab->number << HWT_SLAB_BITS | (uint32_t)(offset / sizeof(*entry));
}

static inline void hwt_recycled_add(struct hwt_recycled *chain, struct hwt_entry *entry)
{
    /* Relaxed: the release of the free list's head publishes it. */
    if (chain->first)
        atomic_store_explicit(&chain->last->index, hwt_entry_id(entry), memory_order_relaxed);
    else
        chain->first = entry;
    chain->last = entry;
}

static inline struct hwt_entry *hwt_pool_entry(const struct hwt_pool *pool, uint32_t id)
{
    uint32_t number = id >> HWT_SLAB_BITS;
    unsigned page = 31 - (unsigned)__builtin_clz((number >> HWT_DIRECTORY_BITS) + 1);
    uint32_t slot = number - (((uint32_t)1 << page) - 1) * ((uint32_t)1 << HWT_DIRECTORY_BITS);
    /* Relaxed, both: who has an id got it from a thread that had seen the slab entered. */
    _Atomic(struct hwt_slab *) *slots =
        atomic_load_explicit(&pool->directory[page], memory_order_relaxed);
    struct hwt_slab *slab = atomic_load_explicit(&slots[slot], memory_order_relaxed);
    return hwt_slab_entry(slab, id & (((uint32_t)1 << HWT_SLAB_BITS) - 1));
}

void hwt_pool_init(struct hwt_pool *pool);

/* Unmaps everything. No other call may be under way. */
void hwt_pool_destroy(struct hwt_pool *pool);

/*
 * A free entry for the calling thread, whose lane it is: one that is ready, else salvaged from
 * the lane's pending queue or from its free list, else from another lane's, else from a new slab;
 * NULL: no memory. Its fields are the caller's, but for the state word, whose generation is that
 * of its last timeout. Lock-free.
 */
struct hwt_entry *hwt_pool_take(hwt_timer *timer, struct hwt_lane *lane);

/* Gives back one entry. Lock-free. */
void hwt_pool_give(struct hwt_entry *entry);

/* Gives a chain, if it is not empty, to a lane that has use for it, whosever the slabs are. */
void hwt_pool_give_chain(struct hwt_lane *lane, struct hwt_recycled *chain);

/* The same, later: all that was collected goes back with the flush. */
void hwt_recycler_add(hwt_timer *timer, struct hwt_recycler *recycler, struct hwt_entry *entry);
void hwt_recycler_flush(hwt_timer *timer, struct hwt_recycler *recycler);

#endif
