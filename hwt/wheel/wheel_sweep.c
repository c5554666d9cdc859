/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hashed wheel: throwing away, and going by all. See wheel_inside.h. */

#include "hwt/wheel/wheel.h"
#include "hwt/wheel/wheel_inside.h"

/* Copies the hints that count from `from` to `to`, and returns how many. */
static uint32_t keep_counting(const struct wheel_judge *judge, const struct hwt_hint *from,
                              uint32_t n, struct hwt_hint *to)
{
    const struct wheel_whereabouts about = wheel_whereabouts_of(judge->wheel->inside, judge->index);
    const struct hwt_sites *sites = hwt_directory_sites(judge->wheel->directory);
    const bool once = judge->once;
    struct hwt_hint *kept = to;
    for (const struct hwt_hint *end = from + n; from < end; from++) {
        struct hwt_place *place;
        if (!wheel_counts(sites, from, wheel_where_at(about, from->round), &place))
            continue;
        if (once)
            place->where = 0;
        *kept++ = *from;
    }
    return (uint32_t)(kept - to);
}

/* Looks at WHEEL_LOOK_MAX at a time, so that `wanted` finds them in the processor's own cache. */
uint32_t hwt_wheel_keep(const void *data, struct hwt_hint *hints, uint32_t n)
{
    const struct wheel_judge *judge = data;
    const struct hwt_wheel *wheel = judge->wheel;
    uint32_t kept = 0;
    for (uint32_t from = 0, some; from < n; from += some) {
        some = n - from < WHEEL_LOOK_MAX ? n - from : WHEEL_LOOK_MAX;
        uint32_t counting = keep_counting(judge, hints + from, some, hints + kept);
        if (judge->asks && wheel->wanted)
            counting = wheel->wanted(wheel->owner, hints + kept, counting);
        kept += counting;
    }
    return kept;
}

/* ---- sweeping ---- */

/* Sets the places of hints that have stayed. The places of the others stay "nowhere". */
static void file_again(const struct hwt_wheel *wheel, uint32_t index, const struct hwt_block *block)
{
    for (uint32_t i = block->begin; i < block->used; i++)
        hwt_directory_place(wheel->directory, block->hints[i].id)->where =
            wheel_where_of(wheel->inside, index, block->hints[i].round);
}

/* Sweeps blocks of a bucket, and returns at how many hints it has looked. One of equal hints in
 * them stays. */
static uint32_t sweep(struct hwt_wheel *wheel, uint32_t index, uint32_t first, uint32_t end,
                      bool asks)
{
    struct hwt_bucket *bucket = &wheel->inside->buckets[index];
    const struct wheel_judge judge = { wheel, index, asks, asks };
    const uint32_t before = hwt_bucket_count(bucket);
    uint32_t looked = 0;
    for (uint32_t i = first; i < end; i++)
        looked += hwt_bucket_sweep_block(bucket, i, hwt_wheel_keep, &judge, wheel->pieces);
    for (uint32_t i = first; asks && i < end; i++)
        file_again(wheel, index, hwt_bucket_block(bucket, i));
    wheel->hints -= before - hwt_bucket_count(bucket);
    hwt_bucket_tidy(bucket, end - first, wheel->pieces);
    hwt_wheel_update(wheel, index);
    return looked;
}

/* ---- all buckets ---- */

/* The index of the first bucket from `from` on that has hints, or one past the last. The
 * tournament's leaves alone show that most of a great wheel is empty. */
static uint32_t first_used(const struct hwt_wheel_inside *inside, uint32_t from)
{
    const uint64_t *leaves = inside->due + wheel_length(inside);
    while (from < wheel_length(inside)
               ? leaves[from] == 0
               : from <= wheel_far_index(inside) && hwt_bucket_count(&inside->buckets[from]) == 0)
        from++;
    return from;
}

/* Sweeps the next bucket, if it has no more hints than are left to look at; else its next block. */
static uint32_t sweep_next(struct hwt_wheel *wheel, uint64_t left, bool asks)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    const uint32_t index = inside->sweep_index;
    const struct hwt_bucket *bucket = &inside->buckets[index];
    const uint32_t all = bucket->full_count + 1;
    const uint32_t first = inside->sweep_block < all ? inside->sweep_block : 0;
    const bool whole = first == 0 && hwt_bucket_count(bucket) <= left;
    const uint32_t end = whole ? all : first + 1;
    const uint32_t looked = sweep(wheel, index, first, end, asks);
    const uint32_t gone = all - 1 - bucket->full_count; /* blocks; the others have moved up */
    inside->sweep_block = end == all || gone > end ? 0 : end - gone;
    inside->sweep_index += end == all;
    return looked;
}

uint64_t hwt_wheel_sweep(struct hwt_wheel *wheel, uint64_t most, uint64_t enough, bool asks)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    uint64_t looked = 0, all = wheel->hints;
    while (looked < most && looked < all && wheel->hints > enough) {
        const uint32_t index = first_used(inside, inside->sweep_index);
        inside->sweep_block = index == inside->sweep_index ? inside->sweep_block : 0;
        inside->sweep_index = index <= wheel_far_index(inside) ? index : 0;
        if (index <= wheel_far_index(inside))
            looked += sweep_next(wheel, most - looked, asks);
    }
    return all - wheel->hints;
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    for (uint32_t index = 0; index <= wheel_far_index(inside); index++) {
        if (hwt_bucket_count(&inside->buckets[index]) > 0) {
            hwt_bucket_clear(&inside->buckets[index], wheel->pieces);
            hwt_wheel_update(wheel, index);
        }
    }
    wheel->hints = 0;
}

bool hwt_wheel_sweep_to_next_bucket(struct hwt_wheel *wheel, uint32_t from,
                                    struct hwt_wheel_view *ret_view)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    for (uint32_t index; (index = first_used(inside, from)) <= wheel_far_index(inside);
         from = index + 1) {
        const struct hwt_bucket *bucket = &inside->buckets[index];
        (void)sweep(wheel, index, 0, bucket->full_count + 1, true);
        if (hwt_bucket_count(bucket) == 0)
            continue;
        *ret_view = (struct hwt_wheel_view){ index, hwt_bucket_count(bucket), UINT64_MAX };
        if (index != wheel_never_index(inside))
            ret_view->next = hwt_wheel_tick(wheel, index, bucket->least);
        return true;
    }
    return false;
}
