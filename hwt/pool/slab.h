/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_SLAB_H
#define HWT_SLAB_H

/*
 * Slabs of entries. The addresses of a slab stay its own until the timer is destroyed, so an old
 * handle leads to another generation and never to freed memory.
 *
 * A slab is 64 KiB, aligned to its size. So the address of an entry leads to the head of its slab,
 * and the head to the timer and to the entry's id. A slab is an array of seats, each with room for
 * an entry. The head takes two of them. If it took the first ones, the heads of all slabs would
 * fall into the same few sets of a cache. So the slab's address decides which it takes. Behind the
 * seats are their places, which are the wheel's.
 *
 * The worker gives the memory of a slab back to the system when all its entries are free: see
 * trim.h. Then the slab is empty, and its memory reads as zero, which is no state of any handle.
 * When it is used again, its generations go on above the floor that its site has.
 *
 * The struct of the pool is here because each function of a slab needs it.
 */

#include "hwt/base/pieces.h"
#include "hwt/pool/entry.h"
#include "hwt/wheel/directory.h"

#define HWT_SLAB_SIZE ((size_t)65536)

struct hwt_slab {
    _Atomic(hwt_timer *) timer;
    /* The id of an entry is this + its address / sizeof(struct hwt_entry), modulo 2^32. */
    _Atomic uint32_t to_id;
    _Atomic uint32_t floor;  /* the low bits of its site's */
    _Atomic uint32_t handed; /* so many of its entries the executor has; see task.c */
    char pad[64 - sizeof(void *) - 3 * sizeof(uint32_t)];
};

#define HWT_HEAD_SEATS (sizeof(struct hwt_slab) / sizeof(struct hwt_entry))
#define HWT_SLAB_SEATS (HWT_SLAB_SIZE / (sizeof(struct hwt_entry) + sizeof(struct hwt_place)))
#define HWT_SLAB_ENTRIES (HWT_SLAB_SEATS - HWT_HEAD_SEATS)
#define HWT_SLAB_COLOURS 64
#define HWT_SLAB_STEP (4 * sizeof(struct hwt_entry)) /* whole cache lines, on a 64-bit machine */

#define HWT_REGION_SLABS 32 /* slabs that are mapped together, at most: 2 MiB */

/* The worker's: how far a trim has come. See trim.h. */
struct hwt_trim {
    enum {
        HWT_TRIM_IDLE,
        HWT_TRIM_SCANS,
        HWT_TRIM_COLLECTS,
        HWT_TRIM_COLLECTS_REST,
        HWT_TRIM_SETTLES
    } step;
    uint32_t next;       /* slabs below this number are to be scanned, or settled */
    uint32_t candidates; /* slabs that may go */
    uint64_t looked;     /* at so many entries, about */
    uint64_t still_free; /* entries that are free, if none was taken or given since it began */
    uint64_t not_before; /* the instant at which the next may begin; not 0 */
};

struct hwt_pool {
    hwt_timer *timer;
    struct hwt_directory directory;
    struct hwt_pieces pieces;                /* for all else that the timer has */
    _Alignas(64) struct hwt_word batches[2]; /* two stacks: see stacks.h */
    struct hwt_word empty_slabs;             /* a stack */
    _Atomic uint32_t given_to;               /* one of the two; the worker's */
    void *rest;                              /* behind the first slab; see pool.h */
    size_t rest_size;
    _Atomic uint32_t slabs;      /* numbers given out */
    _Atomic uint32_t slabs_used; /* slabs that are not empty */
    struct hwt_trim trim;
};

static inline uintptr_t hwt_slab_base(const void *within)
{
    return (uintptr_t)within & ~(uintptr_t)(HWT_SLAB_SIZE - 1);
}

/* The offset of the head in its slab. Entries are before and behind it. */
static inline size_t hwt_slab_head(uintptr_t base)
{
    return base / HWT_SLAB_SIZE % HWT_SLAB_COLOURS * HWT_SLAB_STEP;
}

/*
 * The head of an empty slab is zero, and a slab becomes empty page by page. So it matters when a
 * thread reads the head. A thread with a handle reads the head first and the state then: if the
 * state has the handle's generation and the timeout has not ended, the slab was in use when the
 * head was read. A thread that publishes an entry, or gives it away, reads the head before. The
 * worker may read it at any time, because it alone empties slabs. So may the executor's thread,
 * because a slab is not emptied while the executor has one of its entries.
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

/* Whether the seat has an entry, and not the head. */
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

/* The place of an entry that is in use; and the generation of that, by its low 32 bits. */
static inline struct hwt_place *hwt_entry_place(const struct hwt_entry *entry)
{
    return (struct hwt_place *)(hwt_slab_base(entry) + HWT_SLAB_SEATS * sizeof(struct hwt_entry)) +
           (uintptr_t)entry % HWT_SLAB_SIZE / sizeof(struct hwt_entry);
}

static inline uint32_t hwt_entry_filed(const struct hwt_entry *entry, const struct hwt_place *place)
{
    /* Relaxed: it does not change while the slab is in use. */
    return place->generation +
           atomic_load_explicit(&hwt_slab_of(entry)->floor, memory_order_relaxed);
}

static inline struct hwt_entry *hwt_site_entry(const struct hwt_site *site, uint32_t id)
{
    return hwt_slab_entry((uintptr_t)site->base, id & HWT_ID_SEAT);
}

/* The site of a slab. The caller has an id of it, or the number of an empty one. */
static inline struct hwt_site *hwt_pool_site(const struct hwt_pool *pool, uint32_t number)
{
    struct hwt_site *site = hwt_sites_at(hwt_directory_sites(&pool->directory), number);
    HWT_ASSERT(site);
    return site;
}

static inline struct hwt_entry *hwt_pool_entry(const struct hwt_pool *pool, uint32_t id)
{
    return hwt_site_entry(hwt_pool_site(pool, id >> HWT_ID_BITS), id);
}

/* About how many bytes the pool holds. Any thread. */
static inline uint64_t hwt_pool_bytes(const struct hwt_pool *pool)
{
    /* Relaxed, both: numbers. */
    return atomic_load_explicit(&pool->slabs_used, memory_order_relaxed) * (uint64_t)HWT_SLAB_SIZE +
           atomic_load_explicit(&pool->slabs, memory_order_relaxed) * sizeof(struct hwt_site) +
           hwt_directory_bytes(&pool->directory) + hwt_pieces_bytes(&pool->pieces);
}

/* Chains free entries: `arg` of one leads to the next. The stack publishes that. Release, for
 * readers of `arg` by old handles: see entry.h. */
static inline void hwt_entry_link(struct hwt_entry *entry, struct hwt_entry *next)
{
    atomic_store_explicit(&entry->arg, next, memory_order_release);
}

/* The first one of a batch has its length in the place of the task. Release for the same readers. */
static inline void hwt_entry_set_count(struct hwt_entry *first, uint32_t count)
{
    atomic_store_explicit(&first->task, (const hwt_task *)(uintptr_t)count, memory_order_release);
}

static inline uint32_t hwt_entry_count(const struct hwt_entry *first)
{
    return (uint32_t)(uintptr_t)atomic_load_explicit(&first->task, memory_order_relaxed);
}

static inline struct hwt_entry *hwt_entry_linked(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->arg, memory_order_relaxed);
}

#endif
