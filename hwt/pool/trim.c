/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs that go back to the system. See trim.h. */

#include "hwt/pool/trim.h"

#include <sys/mman.h>

#include "hwt/base/sched_point.h"
#include "hwt/base/time.h"

#define FREE_MIN ((uint64_t)8 * HWT_SLAB_ENTRIES)
/* A slice. Each takes about half a millisecond. */
#define SCAN_SLABS 64
#define COLLECT_ENTRIES 16384
#define SETTLE_SLABS 32
/* From a trim to the next, and more for each free entry: a hundred times as long as it takes. */
#define PAUSE_NS HWT_SEC(1)
#define PAUSE_NS_EACH 2048
#define SPREAD_MAX ((uint64_t)1 << 28) /* generations */
#define CHAINS 16

_Static_assert(HWT_SLAB_ENTRIES <= UINT16_MAX, "`held` counts them");

/* ---- when ---- */

/* Free entries up to a quarter of those in use are kept in stock. After a trim in vain, the same
 * number of free entries is no reason for another one. */
uint64_t hwt_pool_trim_at(const struct hwt_pool *pool)
{
    const struct hwt_trim *trim = &pool->trim;
    if (trim->step != HWT_TRIM_IDLE)
        return 0;
    uint64_t used =
        atomic_load_explicit(&pool->slabs_used, memory_order_relaxed) * HWT_SLAB_ENTRIES;
    if (used < FREE_MIN)
        return HWT_NEVER;
    uint64_t free = hwt_pool_free(pool);
    if (free < FREE_MIN || free < used / 4 || free == trim->still_free)
        return HWT_NEVER;
    return trim->not_before;
}

/* ---- scan ---- */

static bool all_have_ended(uintptr_t base)
{
    for (uint32_t seat = 0; seat < HWT_SLAB_SEATS; seat++) {
        if (!hwt_slab_has(base, seat))
            continue;
        if (!hwt_state_free(hwt_entry_state(hwt_slab_entry(base, seat))))
            return false;
    }
    return true;
}

static void end(struct hwt_pool *pool, uint64_t now)
{
    struct hwt_trim *trim = &pool->trim;
    trim->not_before = hwt_saturating_add(now, PAUSE_NS + trim->looked * PAUSE_NS_EACH);
    trim->step = HWT_TRIM_IDLE;
}

static void scan(struct hwt_pool *pool, uint64_t now)
{
    struct hwt_trim *trim = &pool->trim;
    for (uint32_t n = 0; n < SCAN_SLABS && trim->next > 0;) {
        struct hwt_site *site = hwt_directory_find(&pool->directory, --trim->next);
        /* Relaxed: it only spares work. */
        if (!site || atomic_load_explicit(&site->empty, memory_order_relaxed))
            continue;
        n++;
        site->stays = !all_have_ended((uintptr_t)site->base);
        trim->candidates += !site->stays;
    }
    if (trim->next > 0)
        return;
    if (trim->candidates == 0) {
        end(pool, now);
        return;
    }
    trim->step = HWT_TRIM_COLLECTS;
}

/* ---- collect ---- */

/* Puts an entry that was taken out of the pool to the chain of its slab, or back. */
static void sort_out(struct hwt_pool *pool, struct hwt_cache *back, struct hwt_entry *entry)
{
    uint32_t id = hwt_entry_id(entry);
    struct hwt_site *site = hwt_pool_site(pool, id >> HWT_ID_BITS);
    if (site->stays) {
        hwt_pool_give(pool, back, entry);
        return;
    }
    hwt_entry_link(entry, site->held > 0 ? hwt_pool_entry(pool, site->first_held) : NULL);
    site->first_held = id;
    site->held++;
    HWT_ASSERT(site->held <= HWT_SLAB_ENTRIES);
}

/* Walks some batches at a time, a step of each in turn, because the next entry of a chain has to
 * come from memory. */
static void collect(struct hwt_pool *pool)
{
    struct hwt_entry *chains[CHAINS];
    struct hwt_cache back = { 0 };
    uint32_t n = 0, length, looked = 0;
    for (;;) {
        while (n < CHAINS && looked < COLLECT_ENTRIES &&
               (chains[n] = hwt_batch_pop_old(pool, &length)) != NULL) {
            looked += length;
            n++;
        }
        if (n == 0)
            break;
        for (uint32_t i = 0; i < n;) {
            struct hwt_entry *next = hwt_entry_linked(chains[i]);
            __builtin_prefetch(next, 1);
            sort_out(pool, &back, chains[i]);
            if (next)
                chains[i++] = next;
            else
                chains[i] = chains[--n];
        }
    }
    hwt_pool_flush(pool, &back);
    if (looked >= COLLECT_ENTRIES)
        return;
    if (pool->trim.step == HWT_TRIM_COLLECTS) {
        hwt_batches_swap(pool);
        pool->trim.step = HWT_TRIM_COLLECTS_REST;
        return;
    }
    pool->trim.step = HWT_TRIM_SETTLES;
    pool->trim.next = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
}

/* ---- settle ---- */

/* An executor's thread reads the head of a slab after its timeout has ended. Acquire: if the count
 * is 0, it has read it. The worker hands no more entries over meanwhile, for all are free. */
static bool is_handed(uintptr_t base)
{
    const struct hwt_slab *slab = (const struct hwt_slab *)(base + hwt_slab_head(base));
    return atomic_load_explicit(&slab->handed, memory_order_acquire) > 0;
}

/* Whether all entries are held and the slab may go. If so, sets the floor for the next generations.
 * Generations of places and records are counted from the floor, in 32 bits. An unread record of an
 * entry that was used much less often than others would look newer than records to come. So a slab
 * with such an entry stays. */
static bool may_go(struct hwt_site *site)
{
    uint64_t oldest = UINT64_MAX, newest = 0;
    if (site->held != HWT_SLAB_ENTRIES) /* also if `base` is being set: it is not entered yet */
        return false;
    uintptr_t base = (uintptr_t)site->base;
    if (is_handed(base))
        return false;
    for (uint32_t seat = 0; seat < HWT_SLAB_SEATS; seat++) {
        if (!hwt_slab_has(base, seat))
            continue;
        uint64_t generation = hwt_generation(hwt_entry_state(hwt_slab_entry(base, seat)));
        oldest = generation < oldest ? generation : oldest;
        newest = generation > newest ? generation : newest;
    }
    if (newest - oldest > SPREAD_MAX)
        return false;
    site->floor = newest;
    return true;
}

static void give_back_held(struct hwt_pool *pool, struct hwt_site *site)
{
    struct hwt_cache back = { 0 };
    struct hwt_entry *next, *entry = hwt_pool_entry(pool, site->first_held);
    for (; entry; entry = next) {
        next = hwt_entry_linked(entry);
        hwt_pool_give(pool, &back, entry);
    }
    hwt_pool_flush(pool, &back);
}

/* For memory that is locked. By atomic stores, because others read states by old handles. */
static void make_zero(char *base, size_t size)
{
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)base;
    for (size_t i = 0; i < size / sizeof(*words); i++)
        atomic_store_explicit(&words[i], 0, memory_order_relaxed);
}

/* Empties n slabs that follow each other, from `number` on. It pushes the last one first, so that
 * they are used again in the order of their addresses. */
static void empty_slabs(struct hwt_pool *pool, struct hwt_site *sites, uint32_t n)
{
    char *base = sites->base;
    size_t size = n * HWT_SLAB_SIZE;
    for (uint32_t i = 0; i < n; i++)
        HWT_ASSERT_ALL(all_have_ended((uintptr_t)sites[i].base));
    HWT_ASSERT(atomic_load_explicit(&pool->slabs_used, memory_order_relaxed) >= n);
    HWT_SCHED_POINT(EMPTY);
    if (madvise(base, size, MADV_DONTNEED) != 0)
        make_zero(base, size);
    atomic_fetch_sub_explicit(&pool->slabs_used, n, memory_order_relaxed);
    pool->trim.still_free -= n * HWT_SLAB_ENTRIES;
    while (n-- > 0) {
        atomic_store_explicit(&sites[n].empty, true, memory_order_relaxed);
        HWT_SCHED_POINT(EMPTY_PUSH);
        hwt_stack_push(&pool->empty_slabs, &sites[n].next_empty, 1);
    }
}

/* A region of which only a part goes must not have huge pages: the system would make a huge page of
 * what is left and of what was given back, and all of the memory would be back. A region that goes
 * as a whole may. */
static void advise(const struct hwt_site *first, uint32_t going)
{
    bool whole = going == HWT_REGION_SLABS;
    if (going > 0)
        (void)madvise(first->base, first->region * HWT_SLAB_SIZE,
                      whole ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Some slabs of the region may not be entered yet. No entry of those is held. */
static void settle_region(struct hwt_pool *pool, struct hwt_site *sites)
{
    const uint32_t n = sites->region;
    uint32_t going = 0;
    bool goes[HWT_REGION_SLABS];
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_site *site = &sites[i];
        goes[i] = may_go(site);
        going += goes[i];
        if (!goes[i] && site->held > 0)
            give_back_held(pool, site);
        site->held = 0;
    }
    advise(sites, going);
    for (uint32_t i = n, end; i > 0; i = end) {
        for (end = i; end > 0 && goes[end - 1];)
            end--;
        if (end < i)
            empty_slabs(pool, &sites[end], i - end);
        else
            end--;
    }
}

static void settle(struct hwt_pool *pool, uint64_t now)
{
    struct hwt_trim *trim = &pool->trim;
    for (uint32_t n = 0; n < SETTLE_SLABS && trim->next > 0;) {
        /* The site of a region's first slab has its size, and is entered first. */
        struct hwt_site *site = hwt_directory_find(&pool->directory, --trim->next);
        if (!site || site->region == 0)
            continue;
        settle_region(pool, site);
        n += site->region;
    }
    if (trim->next == 0)
        end(pool, now);
}

bool hwt_pool_trim(struct hwt_pool *pool, uint64_t now)
{
    struct hwt_trim *trim = &pool->trim;
    HWT_SCHED_POINT(TRIM);
    switch (trim->step) {
    case HWT_TRIM_IDLE:
        trim->next = atomic_load_explicit(&pool->slabs, memory_order_relaxed);
        trim->candidates = 0;
        trim->looked = trim->still_free = hwt_pool_free(pool);
        trim->step = HWT_TRIM_SCANS;
        break;
    case HWT_TRIM_SCANS:
        scan(pool, now);
        break;
    case HWT_TRIM_COLLECTS:
    case HWT_TRIM_COLLECTS_REST:
        collect(pool);
        break;
    case HWT_TRIM_SETTLES:
        settle(pool, now);
        break;
    }
    return trim->step == HWT_TRIM_IDLE;
}
