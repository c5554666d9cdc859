/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs that go back to the system. See trim.h. */

#include "hwt/core/trim.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "hwt/base/meet.h"

#define SPREAD_MAX ((uint64_t)1 << 28) /* generations */
#define CHAINS 16

/* Of a slab: its entries that are in the pool. */
struct hwt_census {
    struct hwt_entry *first; /* of a chain */
    uint32_t count;
    uint64_t oldest, newest; /* generations */
    bool may_go;
};

static bool is_in_use(uintptr_t base)
{
    const struct hwt_slab *slab = (const struct hwt_slab *)(base + hwt_slab_head(base));
    /* Relaxed: this one only spares work. The head of an empty slab is zero. */
    return atomic_load_explicit(&slab->timer, memory_order_relaxed) != NULL;
}

/* The executor's threads read the head of what they have after it has ended. Acquire: that was the
 * last they did. What the worker has found to be free it does not hand over. */
static bool is_handed(uintptr_t base)
{
    const struct hwt_slab *slab = (const struct hwt_slab *)(base + hwt_slab_head(base));
    return atomic_load_explicit(&slab->handed, memory_order_acquire) > 0;
}

static bool all_have_ended(uintptr_t base)
{
    for (uint32_t seat = 0; seat < HWT_SLAB_SEATS; seat++) {
        if (!hwt_slab_has(base, seat))
            continue;
        unsigned phase = hwt_phase(hwt_entry_state(hwt_slab_entry(base, seat)));
        if (phase != HWT_PHASE_EXPIRED && phase != HWT_PHASE_CANCELLED && phase != HWT_PHASE_NEW)
            return false;
    }
    return true;
}

/* Which slabs may go, and how many. */
static uint32_t find_slabs(const struct hwt_pool *pool, struct hwt_trim *trim)
{
    uint32_t n = 0;
    for (uint32_t number = 0; number < trim->slabs; number++) {
        uintptr_t base = hwt_pool_base(pool, number);
        bool in_use = base && is_in_use(base);
        trim->census[number].may_go = in_use && all_have_ended(base) && !is_handed(base);
        trim->held += in_use ? (uint32_t)HWT_SLAB_ENTRIES : 0;
        n += trim->census[number].may_go;
    }
    return n;
}

/* With so many free ones left, of so many: the next trim is for twice as many, or when half of the
 * others are free, too, if that is sooner. */
static void wait_for_more(struct hwt_pool *pool, uint64_t left, uint64_t held)
{
    uint64_t twice = 2 * left + HWT_TRIM_MIN;
    uint64_t middle = left + (held > left ? (held - left + 1) / 2 : 1);
    uint64_t sooner = twice < middle ? twice : middle;
    pool->trim_at = sooner > HWT_TRIM_MIN ? sooner : HWT_TRIM_MIN;
}

static void give_chain(struct hwt_pool *pool, struct hwt_trim *trim, struct hwt_cache *kept,
                       struct hwt_entry *entry)
{
    for (struct hwt_entry *next; entry; entry = next) {
        next = hwt_entry_linked(entry);
        hwt_pool_give(pool, kept, entry);
        trim->kept++;
    }
}

/* An entry that was taken out of the pool: to the chain of its slab, if that may go, or to the
 * others. */
static void sort_out(struct hwt_trim *trim, struct hwt_entry *entry, struct hwt_entry **others)
{
    uint32_t number = hwt_entry_id(entry) >> HWT_ID_BITS;
    struct hwt_census *its = number < trim->slabs ? &trim->census[number] : NULL;
    if (!its || !its->may_go) {
        hwt_entry_link(entry, *others);
        *others = entry;
        return;
    }
    uint64_t generation = hwt_generation(hwt_entry_state(entry));
    its->oldest = its->count == 0 || generation < its->oldest ? generation : its->oldest;
    its->newest = generation > its->newest ? generation : its->newest;
    its->count++;
    hwt_entry_link(entry, its->first);
    its->first = entry;
}

/* Takes all batches out of the pool, unless others give back faster than that. They are walked some
 * at a time, a step of each in turn, for the next entry of a chain has to come from memory. */
static void gather(struct hwt_pool *pool, struct hwt_trim *trim, struct hwt_entry **others)
{
    uint64_t most = (uint64_t)trim->slabs * HWT_SLAB_ENTRIES;
    struct hwt_entry *chains[CHAINS];
    uint32_t n = 0, length;
    for (;;) {
        while (n < CHAINS && most > 0 && (chains[n] = hwt_batch_pop(pool, &length)) != NULL) {
            most -= length < most ? length : most;
            n++;
        }
        if (n == 0)
            break;
        for (uint32_t i = 0; i < n;) {
            struct hwt_entry *next = hwt_entry_linked(chains[i]);
            __builtin_prefetch(next, 1);
            sort_out(trim, chains[i], others);
            if (next)
                chains[i++] = next;
            else
                chains[i] = chains[--n];
        }
    }
}

/* Generations are counted from the floor of their slab: a record that is unread yet must not
 * come out newer than those to come, so a slab with an entry that was used much less than others
 * stays. */
static bool is_whole(const struct hwt_census *its)
{
    return its->count == HWT_SLAB_ENTRIES && its->newest - its->oldest <= SPREAD_MAX;
}

bool hwt_pool_trim_begin(struct hwt_pool *pool, struct hwt_trim *trim)
{
    struct hwt_cache kept = { 0 };
    struct hwt_entry *others = NULL;
    *trim = (struct hwt_trim){ .slabs = atomic_load_explicit(&pool->slabs, memory_order_relaxed) };
    trim->census = calloc(trim->slabs, sizeof(*trim->census));
    if (!trim->census)
        return false;
    HWT_MEET(TRIM);
    /* To take all batches is dear: not for a few slabs. */
    uint64_t in_pool = hwt_pool_free(pool);
    if ((uint64_t)find_slabs(pool, trim) * HWT_SLAB_ENTRIES < in_pool / 4) {
        wait_for_more(pool, in_pool, trim->held);
        free(trim->census);
        return false;
    }
    gather(pool, trim, &others);
    give_chain(pool, trim, &kept, others);
    for (uint32_t number = 0; number < trim->slabs; number++) {
        struct hwt_census *its = &trim->census[number];
        its->may_go = is_whole(its);
        if (its->may_go) {
            /* For the next ones; the worker's, as this is. */
            hwt_pool_slot(pool, number)->floor = its->newest;
            trim->held -= (uint32_t)HWT_SLAB_ENTRIES;
        } else {
            give_chain(pool, trim, &kept, its->first);
        }
    }
    hwt_pool_flush(pool, &kept);
    return true;
}

/* Where memory is locked. Old handles are asked meanwhile. */
static void make_zero(char *base)
{
    _Atomic uint64_t *words = (_Atomic uint64_t *)(void *)base;
    for (size_t i = 0; i < HWT_SLAB_SIZE / sizeof(*words); i++)
        atomic_store_explicit(&words[i], 0, memory_order_relaxed);
}

void hwt_pool_trim_end(struct hwt_pool *pool, struct hwt_trim *trim)
{
    for (uint32_t number = 0; number < trim->slabs; number++) {
        if (!trim->census[number].may_go)
            continue;
        struct hwt_slot *slot = hwt_pool_slot(pool, number);
        char *base = atomic_load_explicit(&slot->base, memory_order_relaxed);
        HWT_MEET(EMPTY);
        if (madvise(base, HWT_SLAB_SIZE, MADV_DONTNEED) != 0)
            make_zero(base);
        atomic_fetch_sub_explicit(&pool->bytes, HWT_SLAB_SIZE, memory_order_relaxed);
        hwt_empty_push(pool, number);
    }
    free(trim->census);
    wait_for_more(pool, trim->kept, trim->held);
}
