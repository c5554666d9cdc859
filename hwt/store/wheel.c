/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The hashed wheel: an array of buckets, a power of two of them. A timeout of tick t is in
 * bucket t & mask, with the round t / wheel length; see bucket.h for rounds. More than
 * SLOTS_MAX ticks a wheel are had as so many, and more rounds: a bucket costs 80 bytes.
 *
 * A tournament over the buckets finds the next tick with something due: leaf slots + s is the
 * complement of the tick at which bucket s is due (0: none), an inner node the greater of its
 * two. So the soonest is at node 1, memory never touched means "none", and a change
 * walks up only as far as it matters: hardly ever beyond the leaf where buckets are full.
 *
 * Rounds have 32 bits. 2^30 of them are an age, and a timeout of a later age than the next one
 * waits in a bucket of its own, whose rounds are ages, until the age before its own begins: then
 * the caller files it again, before anything else can be filed for that age. So the order of
 * filing holds. What never comes has a bucket too.
 */

#include "hwt/store/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "hwt/store/bucket.h"

#define SLOTS_MAX ((uint32_t)1 << 16)
#define AGE_BITS 30

struct hwt_store {
    uint32_t mask;              /* slots - 1 */
    unsigned shift;             /* log2 of the slots */
    uint64_t *due;              /* the tournament */
    uint64_t far_due;           /* the tick at which what is in later ages comes nearer */
    struct hwt_bucket *buckets; /* one a slot, one for later ages, one for what never comes */
};

static uint32_t slots(const struct hwt_store *store)
{
    return store->mask + 1;
}

static uint32_t never_slot(const struct hwt_store *store)
{
    return slots(store);
}

static uint32_t far_slot(const struct hwt_store *store)
{
    return slots(store) + 1;
}

static uint32_t slot_of(const struct hwt_store *store, uint64_t tick)
{
    return (uint32_t)tick & store->mask;
}

static uint64_t age_of(const struct hwt_store *store, uint64_t tick)
{
    return tick >> store->shift >> AGE_BITS;
}

static uint64_t age_begins(const struct hwt_store *store, uint64_t age)
{
    return age << store->shift << AGE_BITS;
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
    const struct hwt_store *store = wheel->store;
    if (slot < slots(store))
        return (uint32_t)first_round(wheel, slot);
    return slot == far_slot(store) ? (uint32_t)age_of(store, wheel->tick) + 1 : 0;
}

/* The first tick from wheel->tick on that has this slot and round. */
static uint64_t tick_of_round(const struct hwt_wheel *wheel, uint32_t slot, uint32_t round)
{
    const struct hwt_store *store = wheel->store;
    if (slot == far_slot(store)) {
        uint64_t next = age_of(store, wheel->tick) + 1;
        return age_begins(store, next + (round - (uint32_t)next) - 1);
    }
    uint64_t first = first_round(wheel, slot);
    return (first + (round - (uint32_t)first)) << store->shift | slot;
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
    struct hwt_store *store = wheel->store;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    uint64_t tick =
        hwt_bucket_live(bucket) ? tick_of_round(wheel, slot, bucket->least) : UINT64_MAX;
    if (slot < slots(store))
        set_due(store, slot, tick);
    else if (slot == far_slot(store))
        store->far_due = tick;
}

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel)
{
    uint32_t n = ticks_per_wheel < SLOTS_MAX ? ticks_per_wheel : SLOTS_MAX;
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
        .bytes = sizeof(*store) + ((size_t)n + 2) * sizeof(*store->buckets) +
                 (size_t)n * 2 * sizeof(*store->due),
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
    for (size_t i = 0; store->buckets && i <= far_slot(store); i++)
        hwt_bucket_destroy(&store->buckets[i]);
    free(store->buckets);
    free(store->due);
    free(store);
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    for (uint32_t slot = 0; slot <= far_slot(store); slot++) {
        if (hwt_bucket_live(&store->buckets[slot]) > 0) {
            hwt_bucket_clear(&store->buckets[slot], &wheel->bytes);
            update(wheel, slot);
        }
    }
}

int hwt_wheel_file(struct hwt_wheel *wheel, uint32_t id, uint64_t tick)
{
    struct hwt_store *store = wheel->store;
    if (tick < wheel->tick)
        tick = wheel->tick;
    uint32_t slot = slot_of(store, tick);
    uint32_t round = (uint32_t)(tick >> store->shift);
    if (__builtin_expect(tick >= wheel->ticks.last, 0)) {
        slot = never_slot(store);
        round = 0;
    } else if (__builtin_expect(age_of(store, tick) > age_of(store, wheel->tick) + 1, 0)) {
        slot = far_slot(store);
        round = (uint32_t)age_of(store, tick);
    }
    struct hwt_bucket *bucket = &store->buckets[slot];
    int r =
        hwt_bucket_add(bucket, wheel->directory, id, round, round_now(wheel, slot), &wheel->bytes);
    if (r < 0)
        return r;
    hwt_directory_place(wheel->directory, id)->bucket = slot + 1;
    if (round == bucket->least && bucket->least_count == 1)
        update(wheel, slot);
    return 0;
}

void hwt_wheel_drop(struct hwt_wheel *wheel, uint32_t id)
{
    struct hwt_place *place = hwt_directory_place(wheel->directory, id);
    uint32_t slot = place->bucket - 1;
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    hwt_bucket_drop(bucket, wheel->directory, place->index, round_now(wheel, slot), &wheel->bytes);
    place->bucket = 0;
    if (hwt_bucket_live(bucket) == 0)
        update(wheel, slot);
}

bool hwt_wheel_is_after(const struct hwt_wheel *wheel, uint32_t id, uint64_t tick)
{
    const struct hwt_store *store = wheel->store;
    const struct hwt_place *place = hwt_directory_place(wheel->directory, id);
    uint32_t slot = place->bucket - 1;
    if (slot >= slots(store))
        return true;
    return tick_of_round(wheel, slot, hwt_bucket_round(&store->buckets[slot], place->index)) > tick;
}

/* After those that the bucket was due for were dropped. */
static void settle(struct hwt_wheel *wheel, uint32_t slot)
{
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    hwt_bucket_settle(bucket, wheel->directory, round_now(wheel, slot), &wheel->bytes);
    update(wheel, slot);
}

/* The slot that is due next, and its tick. False: none is. */
static bool next_slot(const struct hwt_store *store, uint32_t *ret_slot, uint64_t *ret_tick)
{
    uint64_t tick = ~store->due[1];
    bool far = store->far_due <= tick;
    *ret_tick = far ? store->far_due : tick;
    *ret_slot = far ? far_slot(store) : slot_of(store, tick);
    return *ret_tick != UINT64_MAX;
}

uint64_t hwt_wheel_next(struct hwt_wheel *wheel)
{
    uint32_t slot;
    uint64_t tick;
    while (next_slot(wheel->store, &slot, &tick)) {
        if (wheel->store->buckets[slot].least_count > 0)
            return tick;
        settle(wheel, slot);
    }
    return UINT64_MAX;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *batch, size_t max,
                      bool *ret_far)
{
    struct hwt_store *store = wheel->store;
    uint64_t tick = hwt_wheel_next(wheel);
    uint32_t slot;
    *ret_far = next_slot(store, &slot, &tick) && slot == far_slot(store);
    /* An age begins with its first tick, not when that is over. */
    if (tick > limit || (tick == limit && !*ret_far)) {
        /* There is always a tick to file for: after HWT_NEVER the last one. */
        if (limit >= wheel->ticks.last && limit > 0)
            limit = wheel->ticks.last - (wheel->ticks.last > 0);
        if (wheel->tick < limit)
            wheel->tick = limit;
        return 0;
    }
    wheel->tick = tick;
    struct hwt_bucket *bucket = &store->buckets[slot];
    size_t n = hwt_bucket_take(bucket, round_now(wheel, slot), batch, max);
    for (size_t i = 0; i < n; i++)
        hwt_directory_place(wheel->directory, batch[i])->bucket = 0;
    if (bucket->least_count == 0 || bucket->cursor == bucket->near.used)
        settle(wheel, slot);
    return n;
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    uint32_t slot;
    uint64_t tick;
    if (!next_slot(wheel->store, &slot, &tick) || tick >= limit)
        return HWT_ID_NONE;
    return hwt_bucket_peek(&wheel->store->buckets[slot]);
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
    uint32_t slot = from < slots(store) ? first_due(store, from) : from;
    while (slot >= slots(store) && slot <= far_slot(store) &&
           hwt_bucket_live(&store->buckets[slot]) == 0)
        slot++;
    if (slot > far_slot(store))
        return false;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    *ret_view = (struct hwt_wheel_view){ slot, hwt_bucket_live(bucket), UINT64_MAX };
    if (slot != never_slot(store)) {
        if (bucket->least_count == 0)
            settle(wheel, slot);
        ret_view->next = tick_of_round(wheel, slot, bucket->least);
    }
    return true;
}

bool hwt_wheel_check(const struct hwt_wheel *wheel)
{
    const struct hwt_store *store = wheel->store;
    for (uint32_t slot = 0; slot <= far_slot(store); slot++) {
        if (slot == never_slot(store))
            continue;
        const struct hwt_bucket *bucket = &store->buckets[slot];
        uint64_t due =
            slot < slots(store) ? ~store->due[(size_t)slots(store) + slot] : store->far_due;
        if (!hwt_bucket_check(bucket, wheel->directory, round_now(wheel, slot)))
            return false;
        if (hwt_bucket_live(bucket) == 0 ? due != UINT64_MAX
                                         : due != tick_of_round(wheel, slot, bucket->least))
            return false;
    }
    for (size_t node = 1; node < slots(store); node++) {
        uint64_t left = store->due[2 * node], right = store->due[2 * node + 1];
        if (store->due[node] != (left < right ? right : left))
            return false;
    }
    return hwt_bucket_check(&store->buckets[never_slot(store)], wheel->directory, 0);
}
