/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs and free lists of entries. See pool.h. */

#include "hwt/pool.h"

#include <errno.h>
#include <sys/mman.h>

#include "hwt/timer.h"

#define REGION_SLABS_MAX 32 /* 2 MiB */
#define SALVAGE_PATIENCE 64
#define PAGE_SIZE_OF(page) (((size_t)1 << (HWT_DIRECTORY_BITS + (page))) * sizeof(void *))

_Static_assert(sizeof(struct hwt_slab) == 64, "the head is a cache line");
_Static_assert((HWT_SLAB_COLOURS - 1) * HWT_SLAB_STEP + sizeof(struct hwt_slab) <= HWT_SLAB_SIZE,
               "the head is in its slab");
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
        munmap((void *)hwt_slab_base(region), region->region_size);
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
        HWT_MEET(DIRECTORY);
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
    HWT_MEET(FRESH_PUSH);
    while (!atomic_compare_exchange_weak_explicit(&pool->fresh, &slab->next_fresh, slab,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

static struct hwt_slab *pop_fresh(struct hwt_pool *pool)
{
    struct hwt_slab *slab = atomic_load_explicit(&pool->fresh, memory_order_acquire);
    HWT_MEET(FRESH_POP);
    while (slab &&
           !atomic_compare_exchange_weak_explicit(&pool->fresh, &slab, slab->next_fresh,
                                                  memory_order_acquire, memory_order_acquire))
        ;
    return slab;
}

static struct hwt_slab *slab_at(char *region, uint32_t i)
{
    return hwt_slab_of((struct hwt_entry *)(region + i * HWT_SLAB_SIZE));
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
    char *memory = map_aligned(size);
    if (!memory)
        return NULL;
    if (n == REGION_SLABS_MAX)
        (void)madvise(memory, size, MADV_HUGEPAGE); /* only ever faster */

    /* Relaxed: a number is all that is wanted. */
    uint32_t number = atomic_fetch_add_explicit(&pool->slabs, n, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_slab *slab = slab_at(memory, i);
        slab->timer = timer;
        slab->number = number + i;
        if (!enter(pool, slab)) {
            uint32_t next = number + n; /* they are given back, unless somebody has taken more */
            atomic_compare_exchange_strong_explicit(&pool->slabs, &next, number,
                                                    memory_order_relaxed, memory_order_relaxed);
            munmap(memory, size);
            return NULL;
        }
    }
    struct hwt_slab *region = slab_at(memory, 0);
    region->region_size = size;
    region->next_region = atomic_load_explicit(&pool->regions, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&pool->regions, &region->next_region, region,
                                                  memory_order_release, memory_order_relaxed))
        ;
    atomic_fetch_add_explicit(&pool->bytes, size, memory_order_relaxed);
    for (uint32_t i = 1; i < n; i++)
        push_fresh(pool, slab_at(memory, i));
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
        HWT_MEET(GIVE);
        set_next(last, (uint32_t)head);
        with = (head & ~(uint64_t)UINT32_MAX) | hwt_entry_id(first);
        /* Release: what the last users did to these entries, to the next users. */
    } while (!atomic_compare_exchange_weak_explicit(&lane->free, &head, with, memory_order_release,
                                                    memory_order_relaxed));
}

/* Pops up to `max` entries, and returns how many. */
static size_t pop(const struct hwt_pool *pool, struct hwt_lane *lane, struct hwt_entry **batch,
                  size_t max)
{
    /* Acquire, also on failure: the directory and the entry behind the id. */
    uint64_t head = atomic_load_explicit(&lane->free, memory_order_acquire);
    for (;;) {
        HWT_MEET(POP);
        uint64_t rest = head + ((uint64_t)1 << 32);
        uint64_t now = head;
        size_t n = 0;
        while (n < max && (uint32_t)rest != HWT_ID_NONE && now == head) {
            batch[n] = hwt_pool_entry(pool, (uint32_t)rest);
            HWT_MEET(POP_NEXT);
            /* Acquire: head is read after it; unchanged, this was the next when it was read. */
            uint32_t next = atomic_load_explicit(&batch[n]->index, memory_order_acquire);
            HWT_MEET(POP_CHECK);
            now = atomic_load_explicit(&lane->free, memory_order_acquire);
            rest = (rest & ~(uint64_t)UINT32_MAX) | next;
            n++;
        }
        HWT_MEET(POP_TAKE);
        if (n == 0)
            return 0;
        if (now != head)
            head = now;
        else if (atomic_compare_exchange_weak_explicit(&lane->free, &head, rest,
                                                       memory_order_acquire, memory_order_acquire))
            return n;
    }
}

/* Makes a slab the lane's: its first entry is the caller's, the rest go on the free list. */
static struct hwt_entry *carve(struct hwt_lane *lane, struct hwt_slab *slab)
{
    slab->home = lane;
    for (uint32_t i = 1; i + 1 < HWT_SLAB_ENTRIES; i++)
        set_next(hwt_slab_entry(slab, i), hwt_entry_id(hwt_slab_entry(slab, i + 1)));
    push_chain(lane, hwt_slab_entry(slab, 1), hwt_slab_entry(slab, HWT_SLAB_ENTRIES - 1));
    return hwt_slab_entry(slab, 0);
}

/* Free entries for a lane, up to `max`; 0: there is no memory. */
static size_t gather(hwt_timer *timer, struct hwt_lane *lane, struct hwt_entry **batch, size_t max)
{
    struct hwt_pool *pool = &timer->pool;
    uint32_t own = (uint32_t)(lane - timer->lanes);
    size_t n = hwt_lane_salvage(lane, batch, max, 1);
    if (n > 0)
        return n;
    for (uint32_t i = 0; i < timer->lane_count && n == 0; i++) {
        struct hwt_lane *from = &timer->lanes[(own + i) % timer->lane_count];
        n = pop(pool, from, batch, max);
        if (n == 0)
            n = hwt_lane_salvage(from, batch, max, SALVAGE_PATIENCE);
    }
    if (n == 0) {
        struct hwt_slab *slab = pop_fresh(pool);
        if (!slab)
            slab = map_region(timer);
        if (!slab)
            return 0;
        batch[n++] = carve(lane, slab);
    }
    hwt_gate_announce_given(timer, lane, n);
    return n;
}

struct hwt_entry *hwt_pool_take(hwt_timer *timer, struct hwt_lane *lane)
{
    struct hwt_entry *entry;
    if (lane->shared)
        return gather(timer, lane, &entry, 1) ? entry : NULL;
    if (lane->ready_count == 0)
        lane->ready_count = (uint32_t)gather(timer, lane, lane->ready, HWT_READY_MAX);
    return lane->ready_count > 0 ? lane->ready[--lane->ready_count] : NULL;
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
    for (uint32_t i = 0; i < timer->lane_count; i++)
        hwt_pool_give_chain(&timer->lanes[i], &recycler->chains[i]);
}
