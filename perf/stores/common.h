/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_STORES_COMMON_H
#define HWT_PERF_STORES_COMMON_H

/*
 * What the stores that are linked in place of hwt/store/wheel.c share: how one begins, numbers
 * for its ids, ticks, what the places say, and big arrays.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "hwt/core/pool.h"
#include "hwt/store/wheel.h"

/* An empty wheel on a zeroed store of that size, to be freed; NULL: no memory. */
static inline struct hwt_store *store_begin(struct hwt_wheel *wheel,
                                            const struct hwt_directory *directory,
                                            struct hwt_ticks ticks, size_t size)
{
    *wheel = (struct hwt_wheel){
        .ticks = ticks,
        .directory = directory,
        .bytes = size,
        .store = calloc(1, size),
    };
    return wheel->store;
}

/* Ids numbered from 0 without a gap: they themselves have some. */
static inline uint32_t store_number(uint32_t id)
{
    uint32_t place = id & (((uint32_t)1 << HWT_ID_BITS) - 1);
    return (id >> HWT_ID_BITS) * (uint32_t)HWT_SLAB_ENTRIES + place;
}

static inline uint32_t store_id(uint32_t number)
{
    uint32_t slab = number / (uint32_t)HWT_SLAB_ENTRIES;
    return slab << HWT_ID_BITS | number % (uint32_t)HWT_SLAB_ENTRIES;
}

/* The tick for which hwt_wheel_file() has to file; UINT64_MAX: it does not come. */
static inline uint64_t store_tick(const struct hwt_wheel *wheel, uint64_t tick)
{
    if (tick < wheel->tick)
        tick = wheel->tick;
    return tick < wheel->ticks.last ? tick : UINT64_MAX;
}

/* To which tick the hand goes when all before `limit` are handled: there is always one left. */
static inline uint64_t store_limit(const struct hwt_wheel *wheel, uint64_t limit)
{
    uint64_t last = wheel->ticks.last;
    return limit < last || limit == 0 ? limit : last - (last > 0);
}

/* Says in the places that ids are, or are not, in the store, which has but one bucket. */
static inline void store_filed(const struct hwt_wheel *wheel, uint32_t id)
{
    hwt_directory_place(wheel->directory, id)->bucket = 1;
}

static inline bool store_is_filed(const struct hwt_wheel *wheel, uint32_t id)
{
    return hwt_directory_place(wheel->directory, id)->bucket == 1;
}

static inline void store_removed(const struct hwt_wheel *wheel, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hwt_directory_place(wheel->directory, ids[i])->bucket = 0;
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
