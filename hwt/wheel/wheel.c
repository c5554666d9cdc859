/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hashed wheel: filing, and taking what is due. See wheel_inside.h. */

#include "hwt/wheel/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "hwt/wheel/wheel_inside.h"

#define SLOTS_FAST 4096

/* The round of the slot's first tick from wheel->tick on. */
static uint64_t first_round(const struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_store *store = wheel->store;
    return (wheel->tick >> store->shift) + (slot < store_slot_of(store, wheel->tick));
}

/* The bucket's round when it is next visited; what never comes has but one. */
uint32_t hwt_store_round_now(const struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_store *store = wheel->store;
    if (slot < store_slots(store))
        return (uint32_t)first_round(wheel, slot);
    return slot == store_far_slot(store) ? (uint32_t)store_age_of(wheel->tick) + 1 : 0;
}

/* The first tick from wheel->tick on that has this slot and round. */
uint64_t hwt_store_tick(const struct hwt_wheel *wheel, uint32_t slot, uint32_t round)
{
    const struct hwt_store *store = wheel->store;
    if (slot == store_far_slot(store)) {
        uint64_t next = store_age_of(wheel->tick) + 1;
        return (next + (round - (uint32_t)next) - 1) << STORE_AGE_BITS;
    }
    uint64_t first = first_round(wheel, slot);
    return (first + (round - (uint32_t)first)) << store->shift | slot;
}

static void set_due(struct hwt_store *store, uint32_t slot, uint64_t tick)
{
    uint64_t *due = store->due;
    size_t node = (size_t)store_slots(store) + slot;
    /* The root's neighbour, node 0, stays none. */
    for (uint64_t key = ~tick; node > 0 && due[node] != key; node /= 2) {
        due[node] = key;
        key = key < due[node ^ 1] ? due[node ^ 1] : key;
    }
}

/* Brings the tournament up to the bucket, after its least round may have changed. */
void hwt_store_update(struct hwt_wheel *wheel, uint32_t slot)
{
    struct hwt_store *store = wheel->store;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    uint64_t tick =
        hwt_bucket_count(bucket) > 0 ? hwt_store_tick(wheel, slot, bucket->least) : UINT64_MAX;
    if (slot < store_slots(store))
        set_due(store, slot, tick);
    else if (slot == store_far_slot(store))
        store->far_due = tick;
}

static void set_tick(struct hwt_wheel *wheel, uint64_t tick)
{
    uint64_t end = (store_age_of(tick) + 2) << STORE_AGE_BITS;
    HWT_ASSERT(tick >= wheel->tick); /* what was handled is handled for good */
    wheel->tick = tick;
    wheel->near_end = end < wheel->ticks.last ? end : wheel->ticks.last;
}

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel)
{
    uint32_t n = ticks_per_wheel < STORE_SLOTS_MAX ? ticks_per_wheel : STORE_SLOTS_MAX;
    struct hwt_store *store = malloc(sizeof(*store));
    if (!store)
        return -ENOMEM;
    *store = (struct hwt_store){
        .mask = n - 1,
        .shift = (unsigned)__builtin_ctz(n),
        .buckets = calloc((size_t)n + 2, sizeof(*store->buckets)),
        .due = calloc((size_t)n * 2, sizeof(*store->due)),
        .far_due = UINT64_MAX,
    };
    *wheel = (struct hwt_wheel){
        .ticks = ticks,
        .directory = directory,
        .looks = UINT64_MAX,
        .bytes = sizeof(*store) + ((size_t)n + 2) * sizeof(*store->buckets) +
                 (size_t)n * 2 * sizeof(*store->due),
        .store = store,
    };
    if (!store->buckets || !store->due) {
        hwt_wheel_destroy(wheel);
        return -ENOMEM;
    }
    set_tick(wheel, 0);
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    for (size_t i = 0; store->buckets && i <= store_far_slot(store); i++)
        hwt_bucket_destroy(&store->buckets[i]);
    free(store->buckets);
    free(store->due);
    free(store);
}

static bool prune(struct hwt_wheel *wheel, uint32_t slot, uint32_t *looks)
{
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    const struct store_judge judge = { wheel, slot, true, false };
    uint32_t before = hwt_bucket_count(bucket);
    bool some = hwt_bucket_prune(bucket, hwt_store_keep, &judge, looks, &wheel->bytes);
    wheel->hints -= before - hwt_bucket_count(bucket);
    if (!some)
        hwt_store_update(wheel, slot);
    return some;
}

/* The first number from `from` on that has the low bits of `where`. */
static uint64_t number_of(uint32_t where, uint64_t from)
{
    return from + ((where - (uint32_t)from) & STORE_LOW_BITS);
}

bool hwt_wheel_is_after(const struct hwt_wheel *wheel, const struct hwt_place *place, uint64_t tick)
{
    uint32_t kind = place->where & ~STORE_LOW_BITS;
    uint64_t age = store_age_of(wheel->tick);
    if (kind == STORE_NEAR)
        return number_of(place->where, wheel->tick) > tick;
    if (kind == STORE_NEVER)
        return tick < wheel->ticks.last;
    /* Where a tick is so short that there are more than 2^30 ages, the place cannot tell them. */
    return store_age_of(wheel->ticks.last) - age > STORE_LOW_BITS ||
           number_of(place->where, age) > store_age_of(tick);
}

/* ---- filing and taking ---- */

/* Whatever there is to mind. */
__attribute__((noinline)) static int file_slow(struct hwt_wheel *wheel, struct hwt_place *place,
                                               uint32_t id, uint32_t generation, uint64_t tick)
{
    const struct hwt_store *store = wheel->store;
    uint32_t slot = store_slot_of(store, tick);
    uint32_t round = (uint32_t)(tick >> store->shift);
    if (tick >= wheel->ticks.last) {
        slot = store_never_slot(store);
        round = 0;
    } else if (tick >= wheel->near_end) {
        slot = store_far_slot(store);
        round = (uint32_t)store_age_of(tick);
    }
    struct hwt_hint hint = { round, id, generation };
    /* Amid a full block a sweep goes on: else one of a slot to which much comes would never get far. */
    if (store->sweeps && store->hand == slot &&
        store->sweep.block == store->buckets[slot].full_count)
        hwt_store_end_sweep(wheel);
    int r = hwt_bucket_add(&store->buckets[slot], hint, hwt_store_round_now(wheel, slot),
                           &wheel->bytes);
    if (r < 0)
        return r;
    wheel->hints++;
    place->where = store_where_of(store, slot, round);
    hwt_store_update(wheel, slot);
    return 0;
}

int hwt_wheel_file_at(struct hwt_wheel *wheel, struct hwt_place *place, uint32_t id,
                      uint32_t generation, uint64_t tick)
{
    const struct hwt_store *store = wheel->store;
    if (tick < wheel->tick)
        tick = wheel->tick;
    if (__builtin_expect(tick >= wheel->near_end, 0))
        return file_slow(wheel, place, id, generation, tick);
    uint32_t round = (uint32_t)(tick >> store->shift);
    struct hwt_hint *hint = hwt_bucket_room(&store->buckets[store_slot_of(store, tick)], round);
    if (__builtin_expect(!hint, 0))
        return file_slow(wheel, place, id, generation, tick);
    *hint = (struct hwt_hint){ round, id, generation };
    wheel->hints++;
    place->where = STORE_NEAR | ((uint32_t)tick & STORE_LOW_BITS);
    HWT_ASSERT(!hwt_wheel_is_after(wheel, place, tick));
    return 0;
}

/* The slot that is due next, and its tick. False: none is. The hint may be gone if it is swept. */
static bool next_slot(const struct hwt_store *store, uint32_t *ret_slot, uint64_t *ret_tick)
{
    uint64_t tick = ~store->due[1];
    bool far = store->far_due <= tick;
    *ret_tick = far ? store->far_due : tick;
    *ret_slot = far ? store_far_slot(store) : store_slot_of(store, tick);
    return *ret_tick != UINT64_MAX;
}

static bool is_swept(const struct hwt_store *store, uint32_t slot)
{
    return __builtin_expect(store->sweeps && slot == store->hand, 0);
}

/* The same, and if that is not after `limit` it has a hint for that tick. */
static bool next_slot_with_hint(struct hwt_wheel *wheel, uint64_t limit, uint32_t *ret_slot,
                                uint64_t *ret_tick)
{
    struct hwt_store *store = wheel->store;
    bool some = next_slot(store, ret_slot, ret_tick);
    if (some && is_swept(store, *ret_slot) && *ret_tick <= limit) {
        hwt_store_end_sweep(wheel);
        some = next_slot(store, ret_slot, ret_tick);
    }
    return some;
}

/* Whether the bucket that is swept is seen to have something to take for its tick, by a few looks:
 * then the sweep can go on. */
static bool is_still_due(const struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_store *store = wheel->store;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    const struct store_judge judge = { wheel, slot, true, false };
    const struct hwt_hint *hint;
    for (uint32_t n = 0; (hint = hwt_sweep_peek(&store->sweep, bucket, n)) != NULL; n++) {
        struct hwt_hint looked = *hint;
        if (looked.round == bucket->least && hwt_store_keep(&judge, &looked, 1) > 0)
            return true;
    }
    return false;
}

bool hwt_wheel_find(struct hwt_wheel *wheel, uint64_t limit, uint32_t looks, uint64_t *ret_tick)
{
    uint32_t slot;
    while (next_slot(wheel->store, &slot, ret_tick) && *ret_tick < limit) {
        if (!is_swept(wheel->store, slot)) {
            if (prune(wheel, slot, &looks))
                return looks > 0;
        } else {
            if (is_still_due(wheel, slot))
                return true;
            hwt_store_end_sweep(wheel);
        }
    }
    return true;
}

/* How far the wheel may go: all ticks before that are handled for good. */
static uint64_t end_of_handled(const struct hwt_wheel *wheel, uint64_t limit)
{
    return hwt_ticks_ending(&wheel->ticks, limit - (wheel->lags && limit > 0));
}

/* Nothing is due before `limit`. */
static void move_to(struct hwt_wheel *wheel, uint64_t limit)
{
    uint64_t tick = end_of_handled(wheel, limit);
    if (wheel->tick < tick)
        set_tick(wheel, tick);
}

/* A small wheel is in the processor's cache. Of a great one the bucket after the next comes from
 * memory meanwhile, with the way up from the next one, and the first hint of that. */
static void fetch_ahead(const struct hwt_store *store)
{
    const uint64_t next = store->due[1];
    uint64_t after = 0;
    if (store->mask < SLOTS_FAST || next == 0)
        return;
    for (size_t node = (size_t)store_slots(store) + store_slot_of(store, ~next); node > 1;
         node /= 2)
        after = store->due[node ^ 1] > after ? store->due[node ^ 1] : after;
    hwt_bucket_fetch(&store->buckets[store_slot_of(store, ~next)]);
    __builtin_prefetch(&store->buckets[store_slot_of(store, ~after)], 1);
}

/* Takes ids from a bucket whose tick it is. */
static size_t take_from(struct hwt_wheel *wheel, uint32_t slot, uint32_t *batch, size_t max)
{
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    const struct hwt_slots *slots = hwt_directory_slots(wheel->directory);
    struct hwt_hint hints[STORE_BATCH_MAX];
    const uint32_t round = bucket->least, where = store_where_of(wheel->store, slot, round);
    size_t taken = hwt_bucket_take(bucket, hints, max < STORE_BATCH_MAX ? max : STORE_BATCH_MAX,
                                   &wheel->bytes);
    size_t n = 0;
    HWT_ASSERT(taken <= wheel->hints);
    wheel->hints -= taken;
    if (bucket->least != round || hwt_bucket_count(bucket) == 0) {
        hwt_store_update(wheel, slot);
        fetch_ahead(wheel->store);
    }
    for (size_t i = 0; i < taken; i++) {
        struct hwt_place *place = hwt_slots_place(slots, hints[i].id);
        if (!store_counts(slots, place, &hints[i], where))
            continue;
        place->where = 0;
        batch[n++] = hints[i].id;
    }
    if (__builtin_expect(n < taken, 0))
        wheel->looks -= taken - n < wheel->looks ? taken - n : wheel->looks;
    return n;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *batch, size_t max,
                      bool *ret_far)
{
    uint64_t tick;
    uint32_t slot;
    *ret_far = false;
    while (next_slot_with_hint(wheel, limit, &slot, &tick)) {
        bool far = slot == store_far_slot(wheel->store);
        /* An age begins with its first tick, not when that is over. */
        if (far ? tick > end_of_handled(wheel, limit) : tick >= limit)
            break;
        *ret_far = far;
        set_tick(wheel, tick);
        size_t n = take_from(wheel, slot, batch, max);
        if (n > 0 || wheel->looks == 0)
            return n;
    }
    move_to(wheel, limit);
    return 0;
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    uint32_t slot;
    uint64_t tick;
    if (!next_slot(wheel->store, &slot, &tick) || tick >= limit)
        return HWT_ID_NONE;
    const struct hwt_hint *hint = hwt_bucket_peek(&wheel->store->buckets[slot]);
    return hint ? hint->id : HWT_ID_NONE;
}
