/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs, and caches of free entries. See pool.h. */

#include "hwt/pool/pool.h"

#include <errno.h>
#include <sys/mman.h>

#include "hwt/base/queue.h"

_Static_assert(sizeof(struct hwt_slab) == 64, "the head is a cache line");
_Static_assert(sizeof(struct hwt_slab) % sizeof(struct hwt_entry) == 0,
               "the head takes whole seats");
_Static_assert((HWT_SLAB_COLOURS - 1) * HWT_SLAB_STEP + sizeof(struct hwt_slab) <=
                   HWT_SLAB_SEATS * sizeof(struct hwt_entry),
               "the head is before the places");
_Static_assert(HWT_SLAB_SEATS <= HWT_ID_SEAT + 1, "a seat fits the id");

/* ---- memory ---- */

/* The program's LeakSanitizer, if it has one, looks for pointers in slabs: memory that only the arg
 * of a pending timeout reaches is no leak. */
extern void __lsan_register_root_region(const void *begin, size_t size) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *begin, size_t size) __attribute__((weak));

static void unmap_slabs(char *base, size_t size)
{
    if (__lsan_unregister_root_region)
        __lsan_unregister_root_region(base, size);
    munmap(base, size);
}

/* Takes n numbers for slabs, and makes room for them. HWT_ID_NONE: no memory, or none left. */
static uint32_t take_numbers(struct hwt_pool *pool, uint32_t n)
{
    uint32_t number = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    do {
        if (number > HWT_SLABS_MAX - n || !hwt_directory_reserve(&pool->directory, number + n))
            return HWT_ID_NONE;
        HWT_SCHED_POINT(NUMBERS);
        /* Relaxed: a number is all that is wanted. */
    } while (!atomic_compare_exchange_weak_explicit(&pool->slabs, &number, number + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    return number;
}

/* Whole pages, however great they are. */
static size_t whole(size_t size)
{
    return (size + HWT_SLAB_SIZE - 1) / HWT_SLAB_SIZE * HWT_SLAB_SIZE;
}

static size_t size_behind(uint32_t n, size_t rest)
{
    return whole(rest + n * sizeof(struct hwt_site));
}

/* Enters the n slabs of a region as empty. */
static void enter_region(struct hwt_pool *pool, uint32_t number, struct hwt_site *sites,
                         char *memory, uint32_t n)
{
    sites->region = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) {
        sites[i].base = memory + i * HWT_SLAB_SIZE;
        sites[i].number = number + i;
        atomic_store_explicit(&sites[i].empty, true, memory_order_relaxed);
        hwt_directory_enter(&pool->directory, number + i, &sites[i]);
        HWT_SCHED_POINT(EMPTY_PUSH);
        hwt_stack_push(&pool->empty_slabs, &sites[i].next_empty, 1);
    }
}

/* Maps n slabs, and behind them `rest` bytes, and their sites; and before them the first region of
 * pieces, if `before` is its size. False: no memory. */
static bool map_slabs(struct hwt_pool *pool, uint32_t n, size_t before, size_t rest)
{
    const size_t size = n * HWT_SLAB_SIZE, behind = size_behind(n, rest);
    const size_t alignment = n == HWT_REGION_SLABS ? size : before > 0 ? before : HWT_SLAB_SIZE;
    char *memory = hwt_map_aligned(before + size, alignment, behind);
    if (!memory)
        return false;
    uint32_t number = take_numbers(pool, n);
    if (number == HWT_ID_NONE) {
        munmap(memory, before + size + behind);
        return false;
    }
    if (before > 0)
        hwt_pieces_init(&pool->pieces, memory);
    memory += before;
    struct hwt_site *sites = (void *)(memory + size + rest);
    if (n == HWT_REGION_SLABS)
        (void)madvise(memory, size, MADV_HUGEPAGE); /* only ever faster */
    if (__lsan_register_root_region)
        __lsan_register_root_region(memory, size + behind);
    enter_region(pool, number, sites, memory, n);
    return true;
}

int hwt_pool_init(struct hwt_pool *pool, hwt_timer *timer, size_t rest_size)
{
    pool->timer = timer;
    pool->trim.not_before = 1;
    if (hwt_directory_init(&pool->directory, HWT_SLAB_SEATS * sizeof(struct hwt_entry)) < 0)
        return -ENOMEM;
    if (!map_slabs(pool, 1, HWT_PIECES_REGION, rest_size)) {
        hwt_directory_destroy(&pool->directory);
        return -ENOMEM;
    }
    pool->rest = hwt_pool_site(pool, 0)->base + HWT_SLAB_SIZE;
    pool->rest_size = rest_size;
    return 0;
}

void hwt_pool_destroy(struct hwt_pool *pool, bool keeps_rest)
{
    uint32_t slabs = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    for (uint32_t number = 0, n; number < slabs; number += n) {
        struct hwt_site *site = hwt_directory_find(&pool->directory, number);
        n = site ? site->region : 1; /* in a child of fork() it may not be there */
        size_t rest = number == 0 ? pool->rest_size : 0;
        if (site && (number > 0 || !keeps_rest))
            unmap_slabs(site->base, n * HWT_SLAB_SIZE + size_behind(n, rest));
    }
    hwt_pieces_destroy(&pool->pieces);
    hwt_directory_destroy(&pool->directory);
}

/* ---- new slabs ---- */

/* Maps an eighth more slabs, or one, if there is no memory for more. */
static bool map_region(struct hwt_pool *pool)
{
    uint32_t held = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    uint32_t n = held / 8 < HWT_REGION_SLABS ? held / 8 : HWT_REGION_SLABS;
    return (n > 1 && map_slabs(pool, n, 0, 0)) || map_slabs(pool, 1, 0, 0);
}

/* Makes batches of an empty slab. */
static void carve(struct hwt_pool *pool, struct hwt_site *site)
{
    uintptr_t base = (uintptr_t)site->base;
    struct hwt_slab *slab = (struct hwt_slab *)(base + hwt_slab_head(base));
    /* Relaxed: published with the first of its entries. */
    atomic_store_explicit(&slab->timer, pool->timer, memory_order_relaxed);
    atomic_store_explicit(
        &slab->to_id, (site->number << HWT_ID_BITS) - (uint32_t)(base / sizeof(struct hwt_entry)),
        memory_order_relaxed);
    atomic_store_explicit(&slab->floor, (uint32_t)site->floor, memory_order_relaxed);
    atomic_store_explicit(&site->empty, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->slabs_used, 1, memory_order_relaxed);
    struct hwt_entry *first = NULL;
    uint32_t count = 0, most = (HWT_SLAB_ENTRIES - 1) % HWT_CACHE_BATCH + 1; /* one is short */
    for (uint32_t seat = HWT_SLAB_SEATS; seat-- > 0;) {
        struct hwt_entry *entry = hwt_slab_entry(base, seat);
        if (!hwt_slab_has(base, seat))
            continue;
        if (site->floor > 0)
            hwt_entry_go_on_above(entry, site->floor);
        hwt_entry_link(entry, first);
        first = entry;
        if (++count < most)
            continue;
        hwt_batch_push(pool, first, count);
        first = NULL;
        count = 0;
        most = HWT_CACHE_BATCH;
    }
}

/* ---- caches ---- */

bool hwt_pool_fill(struct hwt_pool *pool, struct hwt_cache *cache)
{
    cache->first = cache->spare;
    cache->spare = NULL;
    cache->count = HWT_CACHE_BATCH;
    while (!cache->first && (cache->first = hwt_batch_pop(pool, &cache->count)) == NULL) {
        HWT_SCHED_POINT(EMPTY_POP);
        hwt_link *link = hwt_stack_pop(&pool->empty_slabs, NULL);
        if (link) {
            carve(pool, caa_container_of(link, struct hwt_site, next_empty));
        } else if (!map_region(pool)) {
            cache->count = 0;
            return false;
        }
    }
    return true;
}

void hwt_pool_spill(struct hwt_pool *pool, struct hwt_cache *cache)
{
    /* Older entries go first: they have left the processor's own cache. */
    if (cache->spare)
        hwt_batch_push(pool, cache->spare, HWT_CACHE_BATCH);
    cache->spare = cache->first;
    cache->first = NULL;
    cache->count = 0;
}

static void flush(struct hwt_pool *pool, struct hwt_cache *cache,
                  void (*push)(struct hwt_pool *pool, struct hwt_entry *first, uint32_t count))
{
    if (cache->spare)
        push(pool, cache->spare, HWT_CACHE_BATCH);
    if (cache->first)
        push(pool, cache->first, cache->count);
    *cache = (struct hwt_cache){ 0 };
}

void hwt_pool_flush(struct hwt_pool *pool, struct hwt_cache *cache)
{
    flush(pool, cache, hwt_batch_push);
}

void hwt_pool_flush_last(struct hwt_pool *pool, struct hwt_cache *cache)
{
    flush(pool, cache, hwt_batch_push_last);
}

struct hwt_entry *hwt_pool_walk(const struct hwt_pool *pool, uint32_t *number, uint32_t *seat)
{
    uint32_t slabs = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    for (; *number < slabs; *seat = 0, ++*number) {
        const struct hwt_site *site = hwt_directory_find(&pool->directory, *number);
        uintptr_t base = site ? (uintptr_t)site->base : 0;
        for (; base && *seat < HWT_SLAB_SEATS; ++*seat) {
            struct hwt_entry *entry = hwt_slab_entry(base, *seat);
            if (!hwt_slab_has(base, *seat) || hwt_phase(hwt_entry_state(entry)) == HWT_PHASE_NEW)
                continue;
            ++*seat;
            return entry;
        }
    }
    return NULL;
}
