/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The hashed wheel: an array of buckets, a power of two of them. A timeout of tick t is in
 * bucket t & mask, with the round t / wheel length; see bucket.h for rounds.
 *
 * A tournament over the buckets finds the next tick with something due: leaf slots + s is the
 * complement of the tick at which bucket s is due (0: none), an inner node the greater of its
 * two. So the soonest is at node 1, memory never touched means "none", and a change
 * walks up only as far as it matters: hardly ever beyond the leaf where buckets are full.
 */

#include "hwt/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "hwt/bucket.h"

/* A timeout further away is filed this many rounds ahead, and again when they are over. */
#define ROUNDS_MAX ((uint64_t)INT32_MAX)

struct hwt_store {
    uint32_t mask;              /* slots - 1 */
    unsigned shift;             /* log2 of the slots */
    struct hwt_bucket *buckets; /* one a slot, and one for what never comes */
    uint64_t *due;              /* the tournament */
};

static uint32_t slots(const struct hwt_store *store)
{
    return store->mask + 1;
}

static uint32_t slot_of(const struct hwt_store *store, uint64_t tick)
{
    return (uint32_t)tick & store->mask;
}

/* wheel->tick / wheel length for the bucket's first tick from wheel->tick on. */
static uint64_t first_round(const struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_store *store = wheel->store;
    return (wheel->tick >> store->shift) + (slot < slot_of(store, wheel->tick));
}

/* The bucket's round when it is next visited; what never comes has but one. */
static uint32_t round_now(const struct hwt_wheel *wheel, uint32_t slot)
{
    return slot < slots(wheel->store) ? (uint32_t)first_round(wheel, slot) : 0;
}

/* The first tick from wheel->tick on that has this slot and round. */
static uint64_t tick_of_round(const struct hwt_wheel *wheel, uint32_t slot, uint32_t round)
{
    uint64_t first = first_round(wheel, slot);
    return (first + (round - (uint32_t)first)) << wheel->store->shift | slot;
}

static void set_due(struct hwt_store *store, uint32_t slot, uint64_t tick)
{
    uint64_t *due = store->due;
    size_t node = (size_t)slots(store) + slot;
    uint64_t key = ~tick;
    while (due[node] != key) {
        due[node] = key;
        if (node == 1)
            return;
        key = key < due[node ^ 1] ? due[node ^ 1] : key;
        node /= 2;
    }
}

/* Brings the tournament up to the bucket, after its least round may have changed. */
static void update(struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    set_due(wheel->store, slot,
            hwt_bucket_live(bucket) ? tick_of_round(wheel, slot, bucket->least) : HWT_NEVER);
}

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_pool *pool, uint64_t start,
                   uint64_t tick_duration, uint32_t ticks_per_wheel)
{
    struct hwt_store *store = malloc(sizeof(*store));
    if (!store)
        return -ENOMEM;
    *store = (struct hwt_store){
        .mask = ticks_per_wheel - 1,
        .shift = (unsigned)__builtin_ctz(ticks_per_wheel),
        .buckets = calloc((size_t)ticks_per_wheel + 1, sizeof(*store->buckets)),
        .due = calloc((size_t)ticks_per_wheel * 2, sizeof(*store->due)),
    };
    *wheel = (struct hwt_wheel){
        .pool = pool,
        .start = start,
        .tick_duration = tick_duration,
        .last_tick = (UINT64_MAX - start) / tick_duration,
        .bytes = sizeof(*store) + ((size_t)ticks_per_wheel + 1) * sizeof(*store->buckets) +
                 (size_t)ticks_per_wheel * 2 * sizeof(*store->due),
        .store = store,
    };
    if (!store->buckets || !store->due) {
        hwt_wheel_destroy(wheel);
        return -ENOMEM;
    }
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    for (size_t i = 0; store->buckets && i <= slots(store); i++)
        hwt_bucket_destroy(&store->buckets[i]);
    free(store->buckets);
    free(store->due);
    free(store);
}

int hwt_wheel_file(struct hwt_wheel *wheel, struct hwt_entry *entry, uint64_t deadline,
                   uint64_t earliest)
{
    uint64_t tick = hwt_wheel_ticks(wheel, deadline);
    if (tick < earliest)
        tick = earliest;
    if (tick < wheel->tick)
        tick = wheel->tick;

    bool never = tick >= wheel->last_tick;
    uint32_t slot = never ? slots(wheel->store) : slot_of(wheel->store, tick);
    uint32_t now = round_now(wheel, slot);
    uint64_t rounds = never ? 0 : (tick - wheel->tick) >> wheel->store->shift;
    uint32_t round = now + (uint32_t)(rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX);

    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    int r = hwt_bucket_add(bucket, wheel->pool, entry, round, now, &wheel->bytes);
    if (r < 0)
        return r;
    atomic_store_explicit(&entry->slot, slot, memory_order_relaxed);
    if (!never && round == bucket->least && bucket->least_count == 1)
        update(wheel, slot);
    return 0;
}

void hwt_wheel_drop(struct hwt_wheel *wheel, struct hwt_entry *entry)
{
    uint32_t slot = atomic_load_explicit(&entry->slot, memory_order_relaxed);
    uint32_t index = atomic_load_explicit(&entry->index, memory_order_relaxed);
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    hwt_bucket_drop(bucket, index, round_now(wheel, slot), &wheel->bytes);
    atomic_store_explicit(&entry->slot, HWT_SLOT_NONE, memory_order_relaxed);
    if (hwt_bucket_live(bucket) == 0 && slot < slots(wheel->store))
        update(wheel, slot);
}

/* After those that the bucket was due for were dropped. */
static void settle(struct hwt_wheel *wheel, uint32_t slot)
{
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    hwt_bucket_settle(bucket, wheel->pool, round_now(wheel, slot), &wheel->bytes);
    update(wheel, slot);
}

uint64_t hwt_wheel_next(struct hwt_wheel *wheel)
{
    for (;;) {
        uint64_t tick = ~wheel->store->due[1];
        if (tick == HWT_NEVER)
            return HWT_NEVER;
        uint32_t slot = slot_of(wheel->store, tick);
        if (wheel->store->buckets[slot].least_count > 0)
            return tick;
        settle(wheel, slot);
    }
}

static void taken(struct hwt_entry **batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&batch[i]->slot, HWT_SLOT_NONE, memory_order_relaxed);
}

/* What is taken next comes while the caller runs what he has. */
static void prefetch_next(const struct hwt_wheel *wheel, uint64_t limit)
{
    uint64_t tick = ~wheel->store->due[1];
    if (tick < limit)
        hwt_bucket_prefetch(&wheel->store->buckets[slot_of(wheel->store, tick)], wheel->pool);
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, struct hwt_entry **batch, size_t max)
{
    uint64_t tick = hwt_wheel_next(wheel);
    if (tick >= limit) {
        if (wheel->tick < limit)
            wheel->tick = limit;
        return 0;
    }
    wheel->tick = tick;
    uint32_t slot = slot_of(wheel->store, tick);
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    size_t n = hwt_bucket_take(bucket, wheel->pool, round_now(wheel, slot), batch, max);
    taken(batch, n);
    if (bucket->least_count == 0 || bucket->cursor == bucket->near.used)
        settle(wheel, slot);
    prefetch_next(wheel, limit);
    return n;
}

size_t hwt_wheel_take_any(struct hwt_wheel *wheel, struct hwt_entry **batch, size_t max)
{
    uint64_t tick = ~wheel->store->due[1];
    uint32_t slot = tick == HWT_NEVER ? slots(wheel->store) : slot_of(wheel->store, tick);
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    size_t n =
        hwt_bucket_take_any(bucket, wheel->pool, round_now(wheel, slot), batch, max, &wheel->bytes);
    taken(batch, n);
    if (hwt_bucket_live(bucket) == 0 && slot < slots(wheel->store))
        update(wheel, slot);
    return n;
}

/* The first slot from `from` on that is due at all, or slots(); from node to node of the
 * tournament, for most of a great wheel may never have been touched. */
static uint32_t first_due(const struct hwt_store *store, uint32_t from)
{
    size_t node = (size_t)slots(store) + from;
    while (store->due[node] == 0) {
        while (node & 1 && node > 1) /* the right child: there is nothing more below its parent */
            node /= 2;
        if (node == 1)
            return slots(store);
        node++;
    }
    while (node < slots(store))
        node = 2 * node + (store->due[2 * node] == 0);
    return (uint32_t)(node - slots(store));
}

bool hwt_wheel_look(struct hwt_wheel *wheel, uint32_t from, struct hwt_wheel_view *ret_view)
{
    struct hwt_store *store = wheel->store;
    if (from > slots(store))
        return false;
    uint32_t slot = from < slots(store) ? first_due(store, from) : from;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    if (hwt_bucket_live(bucket) == 0)
        return false;
    *ret_view = (struct hwt_wheel_view){ slot, hwt_bucket_live(bucket), HWT_NEVER };
    if (slot < slots(store)) {
        if (bucket->least_count == 0)
            settle(wheel, slot);
        ret_view->next = tick_of_round(wheel, slot, bucket->least);
    }
    return true;
}

bool hwt_wheel_check(const struct hwt_wheel *wheel)
{
    for (uint32_t slot = 0; slot <= wheel->store->mask; slot++) {
        const struct hwt_bucket *bucket = &wheel->store->buckets[slot];
        uint64_t due = ~wheel->store->due[(size_t)slots(wheel->store) + slot];
        if (!hwt_bucket_check(bucket, wheel->pool, round_now(wheel, slot)))
            return false;
        if (hwt_bucket_live(bucket) == 0 ? due != HWT_NEVER
                                         : due != tick_of_round(wheel, slot, bucket->least))
            return false;
    }
    for (size_t node = 1; node < slots(wheel->store); node++) {
        uint64_t left = wheel->store->due[2 * node], right = wheel->store->due[2 * node + 1];
        if (wheel->store->due[node] != (left < right ? right : left))
            return false;
    }
    return hwt_bucket_check(&wheel->store->buckets[slots(wheel->store)], wheel->pool, 0);
}
