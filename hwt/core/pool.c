/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs, and caches of free entries. See pool.h. */

#include "hwt/core/pool.h"

#include <errno.h>
#include <sys/mman.h>

#include "hwt/base/meet.h"

#define SLOTS_FIRST 64
#define SLOTS_LEAST 512 /* for 800000 timeouts */

_Static_assert(sizeof(struct hwt_slab) == 64, "the head is a cache line");
_Static_assert(sizeof(struct hwt_slab) % sizeof(struct hwt_entry) == 0,
               "the head takes whole seats");
_Static_assert((HWT_SLAB_COLOURS - 1) * HWT_SLAB_STEP + sizeof(struct hwt_slab) <=
                   HWT_SLAB_SEATS * sizeof(struct hwt_entry),
               "the head is before the places");
_Static_assert(HWT_SLAB_SEATS <= HWT_ID_PLACE + 1, "a seat fits the id");

/* ---- memory ---- */

/* LeakSanitizer of the program, if it has that: what only a pending timeout's arg reaches is no
 * leak. */
extern void __lsan_register_root_region(const void *begin, size_t size) __attribute__((weak));
extern void __lsan_unregister_root_region(const void *begin, size_t size) __attribute__((weak));

static void unmap_slabs(char *base, size_t size)
{
    if (__lsan_unregister_root_region)
        __lsan_unregister_root_region(base, size);
    munmap(base, size);
}

/* size bytes, aligned to their size up to 2 MiB and to a slab at least. */
static char *map_aligned(size_t size)
{
    size_t alignment = size < HWT_SLAB_SIZE * HWT_REGION_SLABS ? HWT_SLAB_SIZE : size;
    char *memory =
        mmap(NULL, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)memory & (alignment - 1);
    if (before > 0)
        munmap(memory, before);
    munmap(memory + before + size, alignment - before);
    return memory + before;
}

/* Addresses for slots: for all that there can be, or, where a limit of the process does not allow
 * that, for as many as it does. NULL: not even for a few. */
static struct hwt_slot *reserve_slots(uint32_t *ret_numbers)
{
    for (uint32_t n = HWT_SLABS_MAX; n >= SLOTS_LEAST; n /= 2) {
        void *slots =
            mmap(NULL, n * sizeof(struct hwt_slot), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (slots != MAP_FAILED) {
            *ret_numbers = n;
            return slots;
        }
    }
    return NULL;
}

int hwt_pool_init(struct hwt_pool *pool, hwt_timer *timer)
{
    struct hwt_slot *slots = reserve_slots(&pool->numbers);
    if (!slots)
        return -ENOMEM;
    pool->timer = timer;
    pool->directory = (struct hwt_directory){ slots, HWT_SLAB_SEATS * sizeof(struct hwt_entry) };
    atomic_init(&pool->batches[0], HWT_ID_NONE);
    atomic_init(&pool->batches[1], HWT_ID_NONE);
    atomic_init(&pool->given_to, 0);
    atomic_init(&pool->empty, HWT_ID_NONE);
    atomic_init(&pool->slots, 0);
    atomic_init(&pool->slabs, 0);
    atomic_init(&pool->used, 0);
    pool->trim = (struct hwt_trim){ .step = HWT_TRIM_IDLE };
    return 0;
}

void hwt_pool_destroy(struct hwt_pool *pool)
{
    uint32_t slabs = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    for (uint32_t number = 0; number < slabs; number++) {
        const struct hwt_slot *slot = hwt_pool_slot(pool, number);
        if (slot->region > 0 && hwt_slot_base(slot)) /* in a child of fork() it may not be there */
            unmap_slabs(hwt_slot_base(slot), slot->region * HWT_SLAB_SIZE);
    }
    munmap(pool->directory.slots, pool->numbers * sizeof(struct hwt_slot));
}

/* ---- new slabs ---- */

/* Makes the directory's first slots, up to `end`, memory. False: there is none. */
static bool ensure_slots(struct hwt_pool *pool, uint32_t end)
{
    uint32_t open = atomic_load_explicit(&pool->slots, memory_order_relaxed);
    while (open < end) {
        uint32_t more = open < SLOTS_FIRST ? SLOTS_FIRST : 2 * open;
        more = more < end ? end : more > pool->numbers ? pool->numbers : more;
        if (mprotect(pool->directory.slots, more * sizeof(struct hwt_slot),
                     PROT_READ | PROT_WRITE) != 0)
            return false;
        HWT_MEET(DIRECTORY);
        /* Relaxed: a number is all that is wanted. */
        if (atomic_compare_exchange_weak_explicit(&pool->slots, &open, more, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    }
    return true;
}

/* Numbers for n slabs, and their slots; HWT_ID_NONE: no memory, or no more. */
static uint32_t claim_numbers(struct hwt_pool *pool, uint32_t n)
{
    uint32_t number = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    do {
        if (number > pool->numbers - n || !ensure_slots(pool, number + n))
            return HWT_ID_NONE;
        HWT_MEET(NUMBERS);
        /* Relaxed: a number is all that is wanted. */
    } while (!atomic_compare_exchange_weak_explicit(&pool->slabs, &number, number + n,
                                                    memory_order_relaxed, memory_order_relaxed));
    return number;
}

/* Maps n slabs and enters them as empty. False: no memory. */
static bool map_slabs(struct hwt_pool *pool, uint32_t n)
{
    size_t size = n * HWT_SLAB_SIZE;
    char *memory = map_aligned(size);
    if (!memory)
        return false;
    uint32_t number = claim_numbers(pool, n);
    if (number == HWT_ID_NONE) {
        munmap(memory, size);
        return false;
    }
    if (n == HWT_REGION_SLABS)
        (void)madvise(memory, size, MADV_HUGEPAGE); /* only ever faster */
    if (__lsan_register_root_region)
        __lsan_register_root_region(memory, size);
    hwt_pool_slot(pool, number)->region = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_slot *slot = hwt_pool_slot(pool, number + i);
        atomic_store_explicit(&slot->empty, true, memory_order_relaxed);
        /* Release: for a walk over all slabs. */
        atomic_store_explicit(&slot->base, memory + i * HWT_SLAB_SIZE, memory_order_release);
        hwt_empty_push(pool, number + i);
    }
    return true;
}

/* An eighth more, or what there is room for. */
static bool map_region(struct hwt_pool *pool)
{
    uint32_t held = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    uint32_t n = held / 8 < HWT_REGION_SLABS ? held / 8 : HWT_REGION_SLABS;
    return (n > 1 && map_slabs(pool, n)) || map_slabs(pool, 1);
}

/* Makes batches of an empty slab. */
static void carve(struct hwt_pool *pool, uint32_t number)
{
    struct hwt_slot *slot = hwt_pool_slot(pool, number);
    uintptr_t base = (uintptr_t)atomic_load_explicit(&slot->base, memory_order_relaxed);
    struct hwt_slab *slab = (struct hwt_slab *)(base + hwt_slab_head(base));
    /* Relaxed: published with the first of its entries. */
    atomic_store_explicit(&slab->timer, pool->timer, memory_order_relaxed);
    atomic_store_explicit(&slab->to_id,
                          (number << HWT_ID_BITS) - (uint32_t)(base / sizeof(struct hwt_entry)),
                          memory_order_relaxed);
    atomic_store_explicit(&slab->floor, (uint32_t)slot->floor, memory_order_relaxed);
    atomic_store_explicit(&slot->empty, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->used, 1, memory_order_relaxed);
    struct hwt_entry *first = NULL;
    uint32_t count = 0, most = (HWT_SLAB_ENTRIES - 1) % HWT_CACHE_BATCH + 1; /* one is short */
    for (uint32_t seat = HWT_SLAB_SEATS; seat-- > 0;) {
        struct hwt_entry *entry = hwt_slab_entry(base, seat);
        if (!hwt_slab_has(base, seat))
            continue;
        if (slot->floor > 0)
            atomic_store_explicit(&entry->word.first, slot->floor << HWT_GENERATION_SHIFT,
                                  memory_order_relaxed);
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
        uint32_t number = hwt_empty_pop(pool);
        if (number != HWT_ID_NONE) {
            carve(pool, number);
        } else if (!map_region(pool)) {
            cache->count = 0;
            return false;
        }
    }
    return true;
}

void hwt_pool_spill(struct hwt_pool *pool, struct hwt_cache *cache)
{
    /* The older ones, which have left the processor's own cache. */
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
        uintptr_t base = hwt_pool_base(pool, *number);
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
