/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_STORES_COMMON_H
#define HWT_PERF_STORES_COMMON_H

/*
 * What the stores that are linked in place of hwt/wheel.c share: how one begins, numbers
 * for its entries, the tick of a deadline, and big arrays.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "hwt/wheel.h"

/* An empty wheel on a zeroed store of that size, to be freed; NULL: no memory. */
static inline struct hwt_store *store_begin(struct hwt_wheel *wheel, const struct hwt_pool *pool,
                                            uint64_t start, uint64_t tick_duration, size_t size)
{
    *wheel = (struct hwt_wheel){
        .pool = pool,
        .start = start,
        .tick_duration = tick_duration,
        .last_tick = (UINT64_MAX - start) / tick_duration,
        .bytes = size,
        .store = calloc(1, size),
    };
    return wheel->store;
}

/* Entries numbered from 0 without a gap: ids have some. */
static inline uint32_t store_number(const struct hwt_entry *entry)
{
    uint32_t id = hwt_entry_id(entry), place = id & (((uint32_t)1 << HWT_SLAB_BITS) - 1);
    return (id >> HWT_SLAB_BITS) * (uint32_t)HWT_SLAB_ENTRIES + place;
}

static inline struct hwt_entry *store_entry(const struct hwt_wheel *wheel, uint32_t number)
{
    uint32_t slab = number / (uint32_t)HWT_SLAB_ENTRIES;
    uint32_t place = number % (uint32_t)HWT_SLAB_ENTRIES;
    return hwt_pool_entry(wheel->pool, slab << HWT_SLAB_BITS | place);
}

/* The tick for which hwt_wheel_file() has to file; HWT_NEVER: it does not come. */
static inline uint64_t store_tick(const struct hwt_wheel *wheel, uint64_t deadline,
                                  uint64_t earliest)
{
    uint64_t tick = hwt_wheel_ticks(wheel, deadline);
    if (tick < earliest)
        tick = earliest;
    if (tick < wheel->tick)
        tick = wheel->tick;
    return tick < wheel->last_tick ? tick : HWT_NEVER;
}

/* Says in the entries that they are, or are not, in the store, which has but one slot. */
static inline void store_filed(struct hwt_entry *entry)
{
    atomic_store_explicit(&entry->slot, 0, memory_order_relaxed);
}

static inline bool store_is_filed(const struct hwt_entry *entry)
{
    return atomic_load_explicit(&entry->slot, memory_order_relaxed) == 0;
}

static inline void store_removed(struct hwt_entry **batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&batch[i]->slot, HWT_SLOT_NONE, memory_order_relaxed);
}

/*
 * An array of mapped pages, which the kernel lengthens and shortens without copying them, huge
 * ones where they pay, as the pool's slabs have them. It starts at a page, so that what should
 * share a cache line does. Brings the one `at`, of *bytes, or a new one where those are 0, to
 * the pages that `wanted` bytes take, and returns it; NULL: no memory, nothing has changed.
 */
static inline void *store_resize(struct hwt_wheel *wheel, void *at, size_t *bytes, size_t wanted)
{
    const size_t page = 4096, huge = (size_t)1 << 21;
    size_t to = (wanted + page - 1) & ~(page - 1);
    if (to == *bytes)
        return at;
    void *array = *bytes
                      ? mremap(at, *bytes, to, MREMAP_MAYMOVE)
                      : mmap(NULL, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (array == MAP_FAILED)
        return NULL;
    if (to >= huge)
        (void)madvise(array, to, MADV_HUGEPAGE); /* only ever faster */
    wheel->bytes += to - *bytes;
    *bytes = to;
    return array;
}

#endif
