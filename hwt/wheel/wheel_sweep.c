/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hashed wheel: throwing away, and going by all. See wheel_inside.h. */

#include "hwt/wheel/wheel.h"
#include "hwt/wheel/wheel_inside.h"

/* Moves what counts of `from` to `to`. */
static uint32_t keep_counting(const struct store_judge *judge, const struct hwt_hint *from,
                              uint32_t n, struct hwt_hint *to)
{
    const struct store_whereabouts about = store_whereabouts_of(judge->wheel->store, judge->slot);
    const struct hwt_slots *slots = hwt_directory_slots(judge->wheel->directory);
    const bool once = judge->once;
    struct hwt_hint *kept = to;
    for (const struct hwt_hint *end = from + n; from < end; from++) {
        struct hwt_place *place = hwt_slots_place(slots, from->id);
        if (!store_counts(slots, place, from, store_where_at(about, from->round)))
            continue;
        if (once)
            place->where = 0;
        *kept++ = *from;
    }
    return (uint32_t)(kept - to);
}

/* STORE_BATCH_MAX at a time, so that `wanted` finds them in the processor's own cache. */
uint32_t hwt_store_keep(const void *data, struct hwt_hint *hints, uint32_t n)
{
    const struct store_judge *judge = data;
    const struct hwt_wheel *wheel = judge->wheel;
    uint32_t kept = 0;
    for (uint32_t from = 0, some; from < n; from += some) {
        some = n - from < STORE_BATCH_MAX ? n - from : STORE_BATCH_MAX;
        uint32_t counting = keep_counting(judge, hints + from, some, hints + kept);
        if (judge->asks && wheel->wanted)
            counting = wheel->wanted(wheel->owner, hints + kept, counting);
        kept += counting;
    }
    return kept;
}

/* ---- sweeping ---- */

void hwt_store_end_sweep(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    if (!store->sweeps)
        return;
    uint32_t slot = store->hand++;
    store->sweeps = false;
    hwt_sweep_end(&store->sweep, &store->buckets[slot], &wheel->bytes);
    hwt_store_update(wheel, slot);
}

/* Sets the places of the hints that have stayed. The others stay nowhere. */
static void file_again(struct hwt_wheel *wheel, uint32_t slot, const struct hwt_hint *hints,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        hwt_directory_place(wheel->directory, hints[i].id)->where =
            store_where_of(wheel->store, slot, hints[i].round);
}

static void begin_sweep(struct hwt_wheel *wheel, uint32_t slot)
{
    struct hwt_store *store = wheel->store;
    hwt_store_end_sweep(wheel);
    store->hand = slot;
    store->sweeps = true;
    hwt_sweep_begin(&store->sweep, &store->buckets[slot]);
}

/* Of the bucket at hand. Returns how many it has looked at; *ret_stay: those have stayed, just before
 * where the sweep is. */
static uint32_t sweep_some(struct hwt_wheel *wheel, uint32_t most, bool asks, uint32_t *ret_stay)
{
    struct hwt_store *store = wheel->store;
    const struct store_judge judge = { wheel, store->hand, asks, asks };
    uint32_t n = hwt_sweep_some(&store->sweep, &store->buckets[store->hand], most, hwt_store_keep,
                                &judge, ret_stay, &wheel->bytes);
    wheel->hints -= n - *ret_stay;
    return n;
}

/* A part of it. Of equal hints one stays of each part. */
static uint32_t sweep_part(struct hwt_wheel *wheel, uint32_t most, bool asks)
{
    const struct hwt_store *store = wheel->store;
    const struct hwt_sweep *sweep = &store->sweep;
    uint32_t stay, n = sweep_some(wheel, most, asks, &stay);
    if (asks && stay > 0)
        file_again(wheel, store->hand,
                   hwt_bucket_block(&store->buckets[store->hand], sweep->block)->hints +
                       sweep->kept - stay,
                   stay);
    return n;
}

/* All of it. Of equal hints one stays. */
static void sweep_whole(struct hwt_wheel *wheel, uint32_t slot, bool asks)
{
    const struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    uint32_t stay;
    begin_sweep(wheel, slot);
    while (sweep_some(wheel, UINT32_MAX, asks, &stay) > 0)
        ;
    hwt_store_end_sweep(wheel);
    for (uint32_t i = 0; asks && i <= bucket->full_count; i++) {
        const struct hwt_block *block = hwt_bucket_block(bucket, i);
        if (hwt_block_count(block) > 0)
            file_again(wheel, slot, block->hints + block->begin, hwt_block_count(block));
    }
}

/* ---- going by all ---- */

/* The first bucket from number `from` on that has hints, or one past the last. Most of a great
 * wheel is seen to be empty by the tournament's leaves alone. */
static uint32_t first_used(const struct hwt_store *store, uint32_t from)
{
    const uint64_t *leaves = store->due + store_slots(store);
    while (from < store_slots(store)
               ? leaves[from] == 0
               : from <= store_far_slot(store) && hwt_bucket_count(&store->buckets[from]) == 0)
        from++;
    return from;
}

uint64_t hwt_wheel_sweep(struct hwt_wheel *wheel, uint64_t most, uint64_t enough, bool asks)
{
    struct hwt_store *store = wheel->store;
    uint64_t looked = 0, all = wheel->hints;
    while (looked < most && looked < all && wheel->hints > enough) {
        uint32_t slot = store->sweeps ? store->hand : first_used(store, store->hand);
        if (slot > store_far_slot(store)) {
            store->hand = 0;
            continue;
        }
        const uint64_t left = most - looked;
        uint32_t n = hwt_bucket_count(&store->buckets[slot]);
        if (!store->sweeps && n <= left) {
            sweep_whole(wheel, slot, asks);
        } else {
            if (!store->sweeps)
                begin_sweep(wheel, slot);
            n = sweep_part(wheel, left < HWT_BLOCK_MAX ? (uint32_t)left : HWT_BLOCK_MAX, asks);
            if (n == 0)
                hwt_store_end_sweep(wheel);
        }
        looked += n;
    }
    if (wheel->hints <= enough)
        hwt_store_end_sweep(wheel);
    return all - wheel->hints;
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    hwt_store_end_sweep(wheel);
    for (uint32_t slot = 0; slot <= store_far_slot(store); slot++) {
        if (hwt_bucket_count(&store->buckets[slot]) > 0) {
            hwt_bucket_clear(&store->buckets[slot], &wheel->bytes);
            hwt_store_update(wheel, slot);
        }
    }
    wheel->hints = 0;
}

bool hwt_wheel_look(struct hwt_wheel *wheel, uint32_t from, struct hwt_wheel_view *ret_view)
{
    struct hwt_store *store = wheel->store;
    for (uint32_t slot; (slot = first_used(store, from)) <= store_far_slot(store);
         from = slot + 1) {
        const struct hwt_bucket *bucket = &store->buckets[slot];
        sweep_whole(wheel, slot, true);
        if (hwt_bucket_count(bucket) == 0)
            continue;
        *ret_view = (struct hwt_wheel_view){ slot, hwt_bucket_count(bucket), UINT64_MAX };
        if (slot != store_never_slot(store))
            ret_view->next = hwt_store_tick(wheel, slot, bucket->least);
        return true;
    }
    return false;
}

bool hwt_wheel_check(struct hwt_wheel *wheel)
{
    hwt_store_end_sweep(wheel);
    const struct hwt_store *store = wheel->store;
    uint64_t hints = 0;
    for (uint32_t slot = 0; slot <= store_far_slot(store); slot++) {
        const struct hwt_bucket *bucket = &store->buckets[slot];
        hints += hwt_bucket_count(bucket);
        if (!hwt_bucket_check(bucket, hwt_store_round_now(wheel, slot)))
            return false;
        if (slot == store_never_slot(store))
            continue;
        uint64_t due = slot < store_slots(store) ? ~store->due[(size_t)store_slots(store) + slot]
                                                 : store->far_due;
        if (hwt_bucket_count(bucket) == 0 ? due != UINT64_MAX
                                          : due != hwt_store_tick(wheel, slot, bucket->least))
            return false;
    }
    for (size_t node = 1; node < store_slots(store); node++) {
        uint64_t left = store->due[2 * node], right = store->due[2 * node + 1];
        if (store->due[node] != (left < right ? right : left))
            return false;
    }
    return hints == wheel->hints;
}
