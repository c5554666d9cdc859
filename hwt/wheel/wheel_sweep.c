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

void hwt_wheel_end_sweep(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    if (!inside->sweeps)
        return;
    uint32_t index = inside->sweep_index++;
    inside->sweeps = false;
    hwt_sweep_end(&inside->sweep, &inside->buckets[index], wheel->pieces);
    hwt_wheel_update(wheel, index);
}

/* Sets the places of hints that have stayed. The places of the others stay "nowhere". */
static void file_again(struct hwt_wheel *wheel, uint32_t index, const struct hwt_hint *hints,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        hwt_directory_place(wheel->directory, hints[i].id)->where =
            wheel_where_of(wheel->inside, index, hints[i].round);
}

static void begin_sweep(struct hwt_wheel *wheel, uint32_t index)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    hwt_wheel_end_sweep(wheel);
    inside->sweep_index = index;
    inside->sweeps = true;
    hwt_sweep_begin(&inside->sweep, &inside->buckets[index]);
}

/* Looks at some hints of the bucket that is swept, and returns at how many. *ret_stay of them have
 * stayed, and are just before `kept` of the sweep. */
static uint32_t sweep_some(struct hwt_wheel *wheel, uint32_t most, bool asks, uint32_t *ret_stay)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    const struct wheel_judge judge = { wheel, inside->sweep_index, asks, asks };
    uint32_t n = hwt_sweep_some(&inside->sweep, &inside->buckets[inside->sweep_index], most,
                                hwt_wheel_keep, &judge, ret_stay, wheel->pieces);
    wheel->hints -= n - *ret_stay;
    return n;
}

/* Sweeps a part of the bucket. One of equal hints stays in each part. */
static uint32_t sweep_part(struct hwt_wheel *wheel, uint32_t most, bool asks)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    const struct hwt_sweep *sweep = &inside->sweep;
    uint32_t stay, n = sweep_some(wheel, most, asks, &stay);
    if (asks && stay > 0)
        file_again(wheel, inside->sweep_index,
                   hwt_bucket_block(&inside->buckets[inside->sweep_index], sweep->block)->hints +
                       sweep->kept - stay,
                   stay);
    return n;
}

/* Sweeps a whole bucket. One of equal hints stays. */
static void sweep_whole(struct hwt_wheel *wheel, uint32_t index, bool asks)
{
    const struct hwt_bucket *bucket = &wheel->inside->buckets[index];
    uint32_t stay;
    begin_sweep(wheel, index);
    while (sweep_some(wheel, UINT32_MAX, asks, &stay) > 0)
        ;
    hwt_wheel_end_sweep(wheel);
    for (uint32_t i = 0; asks && i <= bucket->full_count; i++) {
        const struct hwt_block *block = hwt_bucket_block(bucket, i);
        if (hwt_block_count(block) > 0)
            file_again(wheel, index, block->hints + block->begin, hwt_block_count(block));
    }
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

uint64_t hwt_wheel_sweep(struct hwt_wheel *wheel, uint64_t most, uint64_t enough, bool asks)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    uint64_t looked = 0, all = wheel->hints;
    while (looked < most && looked < all && wheel->hints > enough) {
        uint32_t index =
            inside->sweeps ? inside->sweep_index : first_used(inside, inside->sweep_index);
        if (index > wheel_far_index(inside)) {
            inside->sweep_index = 0;
            continue;
        }
        const uint64_t left = most - looked;
        uint32_t n = hwt_bucket_count(&inside->buckets[index]);
        if (!inside->sweeps && n <= left) {
            sweep_whole(wheel, index, asks);
        } else {
            if (!inside->sweeps)
                begin_sweep(wheel, index);
            n = sweep_part(wheel, left < HWT_BLOCK_MAX ? (uint32_t)left : HWT_BLOCK_MAX, asks);
            if (n == 0)
                hwt_wheel_end_sweep(wheel);
        }
        looked += n;
    }
    if (wheel->hints <= enough)
        hwt_wheel_end_sweep(wheel);
    return all - wheel->hints;
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    hwt_wheel_end_sweep(wheel);
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
        sweep_whole(wheel, index, true);
        if (hwt_bucket_count(bucket) == 0)
            continue;
        *ret_view = (struct hwt_wheel_view){ index, hwt_bucket_count(bucket), UINT64_MAX };
        if (index != wheel_never_index(inside))
            ret_view->next = hwt_wheel_tick(wheel, index, bucket->least);
        return true;
    }
    return false;
}

bool hwt_wheel_check(struct hwt_wheel *wheel)
{
    hwt_wheel_end_sweep(wheel);
    const struct hwt_wheel_inside *inside = wheel->inside;
    uint64_t hints = 0;
    for (uint32_t index = 0; index <= wheel_far_index(inside); index++) {
        const struct hwt_bucket *bucket = &inside->buckets[index];
        hints += hwt_bucket_count(bucket);
        if (!hwt_bucket_check(bucket, hwt_wheel_round_now(wheel, index)))
            return false;
        if (index == wheel_never_index(inside))
            continue;
        uint64_t due = index < wheel_length(inside)
                           ? ~inside->due[(size_t)wheel_length(inside) + index]
                           : inside->far_due;
        if (hwt_bucket_count(bucket) == 0 ? due != UINT64_MAX
                                          : due != hwt_wheel_tick(wheel, index, bucket->least))
            return false;
    }
    for (size_t node = 1; node < wheel_length(inside); node++) {
        uint64_t left = inside->due[2 * node], right = inside->due[2 * node + 1];
        if (inside->due[node] != (left < right ? right : left))
            return false;
    }
    return hints == wheel->hints;
}
