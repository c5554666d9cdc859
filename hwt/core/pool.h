/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_POOL_H
#define HWT_POOL_H

/*
 * Entries come from slabs whose addresses stay theirs until the timer is destroyed, so that a
 * stale handle reads another generation and never freed memory.
 *
 * A slab is 64 KiB, aligned to its size: an entry finds its slab's head, and by it the timer and
 * its own id, from its address. It is an array of seats, for an entry each, but for two that the
 * head takes. Those are not the first ones of each slab, for then all heads would fall into the
 * same few sets of a cache: which they are depends on the slab's address. Behind the seats are
 * their places in the wheel.
 *
 * FREE ENTRIES
 *
 * A free entry belongs to one thread's cache, or is in a batch of them in the pool:
 *
 *   cache   a lane's: a chain of up to HWT_CACHE_BATCH, arg is the next entry, and a whole one to
 *           spare. Its thread takes and gives without any atomic operation
 *   batch   such a chain; its first one's deadline says how many entries lie on each other up to
 *           these (or HWT_FREE_MAX), how many these are, and the id of the batch below
 *   pool    a stack of batches, with a tag. A push and a pop read the head (acquire) and the first
 *           entry's deadline, and replace the head by compare-exchange (release: what was done to
 *           the entries, and what was read). If that deadline was of a newer use, the batch was
 *           popped since, the tag is another, and the exchange fails. (The tag has 32 bits: a
 *           thread would have to sleep between the two through a multiple of 2^32 pops.)
 *
 * Empty slabs are on a stack of the same kind, by numbers. A slab all of whose entries are free
 * is given back to the system by the worker and becomes empty: its memory reads as zero, which is
 * no state of any handle. When it is used again its generations begin at the floor that was noted
 * for it, above all that were.
 */

#include "hwt/core/entry.h"
#include "hwt/store/directory.h"

#define HWT_SLAB_SIZE ((size_t)65536)
#define HWT_CACHE_BATCH 32

struct hwt_slab {
    _Atomic(hwt_timer *) timer;
    /* The id of an entry is its address / its size + this, modulo 2^32. */
    _Atomic uint32_t to_id;
    _Atomic uint32_t floor; /* the low bits of its slot's */
    char pad[64 - sizeof(void *) - 2 * sizeof(uint32_t)];
};

#define HWT_HEAD_SEATS (sizeof(struct hwt_slab) / sizeof(struct hwt_entry))
#define HWT_SLAB_SEATS (HWT_SLAB_SIZE / (sizeof(struct hwt_entry) + sizeof(struct hwt_place)))
#define HWT_SLAB_ENTRIES (HWT_SLAB_SEATS - HWT_HEAD_SEATS)
#define HWT_SLAB_COLOURS 64
#define HWT_SLAB_STEP (4 * sizeof(struct hwt_entry)) /* whole cache lines, on a 64-bit machine */

struct hwt_cache {
    struct hwt_entry *first;
    struct hwt_entry *spare; /* NULL, or the first of HWT_CACHE_BATCH */
    uint32_t count;          /* from `first` on */
};

struct hwt_pool {
    hwt_timer *timer;
    struct hwt_directory directory;
    _Alignas(64) _Atomic uint64_t batches; /* tag << 32 | the first entry's id */
    _Atomic uint64_t empty;                /* tag << 32 | a slab's number */
    uint32_t numbers;                      /* of slabs, that the directory has addresses for */
    _Atomic uint32_t slots;                /* of the directory that are memory */
    _Atomic uint32_t slabs;                /* numbers given out */
    _Atomic uint64_t bytes;
    uint64_t trim_at; /* the worker's: so many free ones make a trim worth it */
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

/*
 * The head of an empty slab is zero, and a slab becomes empty page by page. So who has a handle
 * reads the head first and the state then: if that has the handle's generation and says that the
 * timeout has not ended, the slab was in use when its head was read. And the thread that publishes
 * an entry, or gives it away, reads the head before.
 */
static inline struct hwt_slab *hwt_slab_of(const struct hwt_entry *entry)
{
    uintptr_t base = hwt_slab_base(entry);
    return (struct hwt_slab *)(base + hwt_slab_head(base));
}

static inline struct hwt_entry *hwt_slab_entry(uintptr_t base, uint32_t seat)
{
    return (struct hwt_entry *)base + seat;
}

/* Whether that is an entry, and not the head. */
static inline bool hwt_slab_has(uintptr_t base, uint32_t seat)
{
    return seat - hwt_slab_head(base) / sizeof(struct hwt_entry) >= HWT_HEAD_SEATS;
}

static inline hwt_timer *hwt_timer_of(const struct hwt_entry *entry)
{
    /* Acquire: the state is read after it. */
    return atomic_load_explicit(&hwt_slab_of(entry)->timer, memory_order_acquire);
}

static inline uint32_t hwt_entry_id(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&hwt_slab_of(entry)->to_id, memory_order_acquire) +
           (uint32_t)((uintptr_t)entry / sizeof(struct hwt_entry));
}

/* Of an entry that is in use: its place, and the generation as places have it, counted from the
 * floor of their slab. */
static inline struct hwt_place *hwt_entry_place(const struct hwt_entry *entry)
{
    return (struct hwt_place *)(hwt_slab_base(entry) + HWT_SLAB_SEATS * sizeof(struct hwt_entry)) +
           (uintptr_t)entry % HWT_SLAB_SIZE / sizeof(struct hwt_entry);
}

static inline uint32_t hwt_entry_counted(const struct hwt_entry *entry, uint64_t generation)
{
    return (uint32_t)generation -
           atomic_load_explicit(&hwt_slab_of(entry)->floor, memory_order_relaxed);
}

static inline struct hwt_entry *hwt_slot_entry(const struct hwt_slot *slot, uint32_t id)
{
    return hwt_slab_entry((uintptr_t)hwt_slot_base(slot), id & HWT_ID_PLACE);
}

static inline struct hwt_entry *hwt_pool_entry(const struct hwt_pool *pool, uint32_t id)
{
    return hwt_slot_entry(&pool->directory.slots[id >> HWT_ID_BITS], id);
}

/* 0 or -ENOMEM. */
int hwt_pool_init(struct hwt_pool *pool, hwt_timer *timer);

/* Unmaps everything. No other call may be under way. */
void hwt_pool_destroy(struct hwt_pool *pool);

/* Fills a cache whose chain is empty, from the pool or with a new slab. False: no memory.
 * Lock-free. */
bool hwt_pool_fill(struct hwt_pool *pool, struct hwt_cache *cache);

/* Empties the chain of a cache: it becomes the one to spare, and what that was goes to the pool.
 * Lock-free. */
void hwt_pool_spill(struct hwt_pool *pool, struct hwt_cache *cache);

/* Takes all of a cache into the pool. Lock-free. */
void hwt_pool_flush(struct hwt_pool *pool, struct hwt_cache *cache);

/* What a batch's first entry has for its deadline. */
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

/* A stack's head publishes this. Release, for who reads the field by an old handle: see entry.h. */
static inline void hwt_entry_link(struct hwt_entry *entry, struct hwt_entry *next)
{
    atomic_store_explicit(&entry->arg, next, memory_order_release);
}

static inline struct hwt_entry *hwt_entry_linked(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->arg, memory_order_relaxed);
}

/* Takes the first entry of a cache that has one, and the next one comes from memory. */
static inline void hwt_cache_drop(struct hwt_cache *cache, struct hwt_entry *first)
{
    struct hwt_entry *next = hwt_entry_linked(first);
    __builtin_prefetch(next, 1);
    cache->first = next;
    cache->count--;
}

/* To a cache that is not full. */
static inline void hwt_cache_add(struct hwt_cache *cache, struct hwt_entry *entry)
{
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

/* For who walks all entries: from (0, 0) on, the next one after *number, *seat that has ever been
 * used, or NULL. The two are those of the one that follows it. */
struct hwt_entry *hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number, uint32_t *seat);

/* Worker: how many entries are in batches, or HWT_FREE_MAX. */
uint64_t hwt_pool_free(const struct hwt_pool *pool);

#define HWT_TRIM_MIN ((uint32_t)(8 * HWT_SLAB_ENTRIES))

/* Worker: whether there is so much in the pool that a trim is likely to pay; `again`: one that was
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

/* Worker: takes the slabs all of whose entries are in the pool. False: there are too few, or there
 * was no memory to find them; there is nothing to end. */
bool hwt_pool_trim_begin(struct hwt_pool *pool, struct hwt_trim *trim);

/* Gives them back to the system, with their places, which the caller does not need any more. */
void hwt_pool_trim_end(struct hwt_pool *pool, struct hwt_trim *trim);

#endif
