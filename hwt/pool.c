/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs and free lists of entries. See pool.h. */

#include "hwt/pool.h"

#include <errno.h>
#include <sys/mman.h>

#include "hwt/timer.h"

#define REGION_SLABS_MAX 32 /* 2 MiB */
#define PAGE_SIZE_OF(page) (((size_t)1 << (HWT_DIRECTORY_BITS + (page))) * sizeof(void *))

_Static_assert(offsetof(struct hwt_slab, entries) == 64, "entries begin on a cache line");
_Static_assert(HWT_SLAB_ENTRIES < (1 << HWT_SLAB_BITS), "a place in the slab fits the id");

static void *map(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* size bytes, aligned to their size up to 2 MiB and to a slab at least. */
static void *map_aligned(size_t size)
{
    size_t alignment = size < HWT_SLAB_SIZE * REGION_SLABS_MAX ? HWT_SLAB_SIZE : size;
    char *memory = map(size + alignment);
    if (!memory)
        return NULL;
    size_t before = -(uintptr_t)memory & (alignment - 1);
    if (before > 0)
        munmap(memory, before);
    munmap(memory + before + size, alignment - before);
    return memory + before;
}

void hwt_pool_init(struct hwt_pool *pool)
{
    atomic_init(&pool->fresh, NULL);
    atomic_init(&pool->regions, NULL);
    atomic_init(&pool->slabs, 0);
    atomic_init(&pool->bytes, 0);
    for (unsigned page = 0; page < HWT_DIRECTORY_PAGES; page++)
        atomic_init(&pool->directory[page], NULL);
}

void hwt_pool_destroy(struct hwt_pool *pool)
{
    struct hwt_slab *region = atomic_load_explicit(&pool->regions, memory_order_acquire);
    while (region) {
        struct hwt_slab *next = region->next_region;
        munmap(region, region->region_size);
        region = next;
    }
    for (unsigned page = 0; page < HWT_DIRECTORY_PAGES; page++) {
        void *slots = atomic_load_explicit(&pool->directory[page], memory_order_relaxed);
        if (slots)
            munmap(slots, PAGE_SIZE_OF(page));
    }
}

/* Enters a slab in the directory. False: no memory for a page of it. */
static bool enter(struct hwt_pool *pool, struct hwt_slab *slab)
{
    unsigned page = 31 - (unsigned)__builtin_clz((slab->number >> HWT_DIRECTORY_BITS) + 1);
    uint32_t slot =
        slab->number - (((uint32_t)1 << page) - 1) * ((uint32_t)1 << HWT_DIRECTORY_BITS);

    /* Acquire: another thread's page is mapped and zero. */
    _Atomic(struct hwt_slab *) *slots =
        atomic_load_explicit(&pool->directory[page], memory_order_acquire);
    if (!slots) {
        _Atomic(struct hwt_slab *) *mapped = map(PAGE_SIZE_OF(page));
        if (!mapped)
            return false;
        if (atomic_compare_exchange_strong_explicit(&pool->directory[page], &slots, mapped,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            slots = mapped;
            atomic_fetch_add_explicit(&pool->bytes, PAGE_SIZE_OF(page), memory_order_relaxed);
        } else {
            munmap(mapped, PAGE_SIZE_OF(page));
        }
    }
    /* Relaxed: published with the first of its entries, by the free list or a queue. */
    atomic_store_explicit(&slots[slot], slab, memory_order_relaxed);
    return true;
}

/* Release: who takes over the top sees its header, its number and its place in the directory. */
static void push_fresh(struct hwt_pool *pool, struct hwt_slab *slab)
{
    slab->next_fresh = atomic_load_explicit(&pool->fresh, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&pool->fresh, &slab->next_fresh, slab,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

static struct hwt_slab *pop_fresh(struct hwt_pool *pool)
{
    struct hwt_slab *slab = atomic_load_explicit(&pool->fresh, memory_order_acquire);
    while (slab &&
           !atomic_compare_exchange_weak_explicit(&pool->fresh, &slab, slab->next_fresh,
                                                  memory_order_acquire, memory_order_acquire))
        ;
    return slab;
}

/* Maps a region; keeps the first slab for the caller, the others are fresh for anyone. */
static struct hwt_slab *map_region(hwt_timer *timer)
{
    struct hwt_pool *pool = &timer->pool;
    uint32_t held = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
    uint32_t n = held / 8 < 1 ? 1 : held / 8 > REGION_SLABS_MAX ? REGION_SLABS_MAX : held / 8;
    size_t size = n * HWT_SLAB_SIZE;
    if (held > HWT_SLABS_MAX - 2 * REGION_SLABS_MAX)
        return NULL;
    struct hwt_slab *region = map_aligned(size);
    if (!region)
        return NULL;
    if (n == REGION_SLABS_MAX)
        (void)madvise(region, size, MADV_HUGEPAGE); /* only ever faster */

    /* Relaxed: a number is all that is wanted. One that fails below stays unused. */
    uint32_t number = atomic_fetch_add_explicit(&pool->slabs, n, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_slab *slab = (struct hwt_slab *)((char *)region + i * HWT_SLAB_SIZE);
        slab->timer = timer;
        slab->number = number + i;
        if (!enter(pool, slab)) {
            munmap(region, size);
            return NULL;
        }
    }
    region->region_size = size;
    region->next_region = atomic_load_explicit(&pool->regions, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&pool->regions, &region->next_region, region,
                                                  memory_order_release, memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&pool->bytes, size, memory_order_relaxed);
    for (uint32_t i = 1; i < n; i++)
        push_fresh(pool, (struct hwt_slab *)((char *)region + i * HWT_SLAB_SIZE));
    return region;
}

static void set_next(struct hwt_entry *entry, uint32_t id)
{
    /* Relaxed: the release of the list's head publishes it. */
    atomic_store_explicit(&entry->index, id, memory_order_relaxed);
}

static void push_chain(struct hwt_lane *lane, struct hwt_entry *first, struct hwt_entry *last)
{
    uint64_t head = atomic_load_explicit(&lane->free, memory_order_relaxed);
    uint64_t with;
    do {
        set_next(last, (uint32_t)head);
        with = (head & ~(uint64_t)UINT32_MAX) | hwt_entry_id(first);
        /* Release: what the last users did to these entries, to the next users. */
    } while (!atomic_compare_exchange_weak_explicit(&lane->free, &head, with, memory_order_release,
                                                    memory_order_relaxed));
}

static struct hwt_entry *pop(const struct hwt_pool *pool, struct hwt_lane *lane)
{
    /* Acquire, also on failure: the directory and the entry behind the id. */
    uint64_t head = atomic_load_explicit(&lane->free, memory_order_acquire);
    while ((uint32_t)head != HWT_ID_NONE) {
        struct hwt_entry *entry = hwt_pool_entry(pool, (uint32_t)head);
        uint32_t next = atomic_load_explicit(&entry->index, memory_order_relaxed);
        uint64_t tag = (head >> 32) + 1;
        if (atomic_compare_exchange_weak_explicit(&lane->free, &head, tag << 32 | next,
                                                  memory_order_acquire, memory_order_acquire))
            return entry;
    }
    return NULL;
}

/* Makes a slab the lane's: its first entry is the caller's, the rest go on the free list. */
static struct hwt_entry *carve(struct hwt_lane *lane, struct hwt_slab *slab)
{
    slab->home = lane;
    for (uint32_t i = 1; i + 1 < HWT_SLAB_ENTRIES; i++)
        set_next(&slab->entries[i], hwt_entry_id(&slab->entries[i + 1]));
    push_chain(lane, &slab->entries[1], &slab->entries[HWT_SLAB_ENTRIES - 1]);
    return &slab->entries[0];
}

struct hwt_entry *hwt_pool_take(hwt_timer *timer, struct hwt_lane *lane)
{
    struct hwt_pool *pool = &timer->pool;
    uint32_t own = (uint32_t)(lane - timer->lanes);
    for (uint32_t i = 0; i <= timer->lane_mask; i++) {
        struct hwt_lane *from = &timer->lanes[(own + i) & timer->lane_mask];
        struct hwt_entry *entry = pop(pool, from);
        if (!entry)
            entry = hwt_lane_salvage(from);
        if (entry)
            return entry;
    }
    struct hwt_slab *slab = pop_fresh(pool);
    if (!slab)
        slab = map_region(timer);
    return slab ? carve(lane, slab) : NULL;
}

void hwt_pool_give(struct hwt_entry *entry)
{
    push_chain(hwt_slab_of(entry)->home, entry, entry);
}

void hwt_recycler_add(hwt_timer *timer, struct hwt_recycler *recycler, struct hwt_entry *entry)
{
    hwt_recycled_add(&recycler->chains[hwt_slab_of(entry)->home - timer->lanes], entry);
}

void hwt_pool_give_chain(struct hwt_lane *lane, struct hwt_recycled *chain)
{
    if (chain->first)
        push_chain(lane, chain->first, chain->last);
    chain->first = NULL;
}

void hwt_recycler_flush(hwt_timer *timer, struct hwt_recycler *recycler)
{
    for (uint32_t i = 0; i <= timer->lane_mask; i++)
        hwt_pool_give_chain(&timer->lanes[i], &recycler->chains[i]);
}
