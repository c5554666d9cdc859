/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hashed wheel: filing, and taking what is due. See wheel_inside.h. */

#include "hwt/wheel/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "hwt/wheel/wheel_inside.h"

#define LENGTH_FAST 4096

/* The round of the first tick from wheel->tick on that has this index. */
static uint64_t first_round(const struct hwt_wheel *wheel, uint32_t index)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    return (wheel->tick >> inside->shift) + (index < wheel_index_of(inside, wheel->tick));
}

uint32_t hwt_wheel_round_now(const struct hwt_wheel *wheel, uint32_t index)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    if (index < wheel_length(inside))
        return (uint32_t)first_round(wheel, index);
    return index == wheel_far_index(inside) ? (uint32_t)wheel_age_of(wheel->tick) + 1 : 0;
}

uint64_t hwt_wheel_tick(const struct hwt_wheel *wheel, uint32_t index, uint32_t round)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    if (index == wheel_far_index(inside)) {
        uint64_t next = wheel_age_of(wheel->tick) + 1;
        return (next + (round - (uint32_t)next) - 1) << WHEEL_AGE_BITS;
    }
    uint64_t first = first_round(wheel, index);
    return (first + (round - (uint32_t)first)) << inside->shift | index;
}

static void set_due(struct hwt_wheel_inside *inside, uint32_t index, uint64_t tick)
{
    uint64_t *due = inside->due;
    size_t node = (size_t)wheel_length(inside) + index;
    /* Node 0, which is beside the root, stays "never". */
    for (uint64_t key = ~tick; node > 0 && due[node] != key; node /= 2) {
        due[node] = key;
        key = key < due[node ^ 1] ? due[node ^ 1] : key;
    }
}

void hwt_wheel_update(struct hwt_wheel *wheel, uint32_t index)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    const struct hwt_bucket *bucket = &inside->buckets[index];
    uint64_t tick =
        hwt_bucket_count(bucket) > 0 ? hwt_wheel_tick(wheel, index, bucket->least) : UINT64_MAX;
    if (index < wheel_length(inside))
        set_due(inside, index, tick);
    else if (index == wheel_far_index(inside))
        inside->far_due = tick;
}

static void set_tick(struct hwt_wheel *wheel, uint64_t tick)
{
    uint64_t end = (wheel_age_of(tick) + 2) << WHEEL_AGE_BITS;
    HWT_ASSERT(tick >= wheel->tick); /* a tick that was handled stays handled */
    wheel->tick = tick;
    wheel->near_end = end < wheel->ticks.last ? end : wheel->ticks.last;
}

void hwt_wheel_begin(struct hwt_wheel *wheel, struct hwt_ticks ticks)
{
    wheel->ticks = ticks;
    wheel->tick = 0;
    set_tick(wheel, 0);
}

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel)
{
    uint32_t n = ticks_per_wheel < WHEEL_LENGTH_MAX ? ticks_per_wheel : WHEEL_LENGTH_MAX;
    struct hwt_wheel_inside *inside = malloc(sizeof(*inside));
    if (!inside)
        return -ENOMEM;
    *inside = (struct hwt_wheel_inside){
        .mask = n - 1,
        .shift = (unsigned)__builtin_ctz(n),
        .buckets = calloc((size_t)n + 2, sizeof(*inside->buckets)),
        .due = calloc((size_t)n * 2, sizeof(*inside->due)),
        .far_due = UINT64_MAX,
    };
    *wheel = (struct hwt_wheel){
        .directory = directory,
        .looks = UINT64_MAX,
        .bytes = sizeof(*inside) + ((size_t)n + 2) * sizeof(*inside->buckets) +
                 (size_t)n * 2 * sizeof(*inside->due),
        .inside = inside,
    };
    if (!inside->buckets || !inside->due) {
        hwt_wheel_destroy(wheel);
        return -ENOMEM;
    }
    hwt_wheel_begin(wheel, ticks);
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    struct hwt_wheel_inside *inside = wheel->inside;
    free(inside->buckets);
    free(inside->due);
    free(inside);
}

static bool prune(struct hwt_wheel *wheel, uint32_t index, uint32_t *looks)
{
    struct hwt_bucket *bucket = &wheel->inside->buckets[index];
    const struct wheel_judge judge = { wheel, index, true, false };
    uint32_t before = hwt_bucket_count(bucket);
    bool some = hwt_bucket_prune(bucket, hwt_wheel_keep, &judge, looks, wheel->pieces);
    wheel->hints -= before - hwt_bucket_count(bucket);
    if (!some)
        hwt_wheel_update(wheel, index);
    return some;
}

/* The first number from `from` on that has the low bits of `where`. */
static uint64_t number_of(uint32_t where, uint64_t from)
{
    return from + ((where - (uint32_t)from) & WHEEL_LOW_BITS);
}

bool hwt_wheel_is_after(const struct hwt_wheel *wheel, const struct hwt_place *place, uint64_t tick)
{
    uint32_t kind = place->where & ~WHEEL_LOW_BITS;
    uint64_t age = wheel_age_of(wheel->tick);
    if (kind == WHEEL_NEAR)
        return number_of(place->where, wheel->tick) > tick;
    if (kind == WHEEL_NEVER)
        return tick < wheel->ticks.last;
    /* With very short ticks there are more than 2^30 ages, which the place cannot tell apart. */
    return wheel_age_of(wheel->ticks.last) - age > WHEEL_LOW_BITS ||
           number_of(place->where, age) > wheel_age_of(tick);
}

/* ---- filing and taking ---- */

/* Every case that hwt_wheel_file_at() does not handle itself. */
__attribute__((noinline)) static int file_slow(struct hwt_wheel *wheel, struct hwt_place *place,
                                               uint32_t id, uint32_t generation, uint64_t tick)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    uint32_t index = wheel_index_of(inside, tick);
    uint32_t round = (uint32_t)(tick >> inside->shift);
    if (tick >= wheel->ticks.last) {
        index = wheel_never_index(inside);
        round = 0;
    } else if (tick >= wheel->near_end) {
        index = wheel_far_index(inside);
        round = (uint32_t)wheel_age_of(tick);
    }
    struct hwt_hint hint = { round, id, generation };
    int r = hwt_bucket_add(&inside->buckets[index], hint, hwt_wheel_round_now(wheel, index),
                           wheel->pieces);
    if (r < 0)
        return r;
    wheel->hints++;
    place->where = wheel_where_of(inside, index, round);
    hwt_wheel_update(wheel, index);
    return 0;
}

int hwt_wheel_file_at(struct hwt_wheel *wheel, struct hwt_place *place, uint32_t id,
                      uint32_t generation, uint64_t tick)
{
    const struct hwt_wheel_inside *inside = wheel->inside;
    if (tick < wheel->tick)
        tick = wheel->tick;
    if (__builtin_expect(tick >= wheel->near_end, 0))
        return file_slow(wheel, place, id, generation, tick);
    uint32_t round = (uint32_t)(tick >> inside->shift);
    struct hwt_hint *hint = hwt_bucket_room(&inside->buckets[wheel_index_of(inside, tick)], round);
    if (__builtin_expect(!hint, 0))
        return file_slow(wheel, place, id, generation, tick);
    *hint = (struct hwt_hint){ round, id, generation };
    wheel->hints++;
    place->where = WHEEL_NEAR | ((uint32_t)tick & WHEEL_LOW_BITS);
    HWT_ASSERT(!hwt_wheel_is_after(wheel, place, tick));
    return 0;
}

/* The index of the bucket that is due next, and its tick. False: none is due. */
static bool next_index(const struct hwt_wheel_inside *inside, uint32_t *ret_index,
                       uint64_t *ret_tick)
{
    uint64_t tick = ~inside->due[1];
    bool far = inside->far_due <= tick;
    *ret_tick = far ? inside->far_due : tick;
    *ret_index = far ? wheel_far_index(inside) : wheel_index_of(inside, tick);
    return *ret_tick != UINT64_MAX;
}

bool hwt_wheel_find(struct hwt_wheel *wheel, uint64_t limit, uint32_t looks, uint64_t *ret_tick)
{
    uint32_t index;
    while (next_index(wheel->inside, &index, ret_tick) && *ret_tick < limit) {
        if (prune(wheel, index, &looks))
            return looks > 0;
    }
    return true;
}

/* The tick to which the wheel may go: all ticks before it are handled for good. */
static uint64_t end_of_handled(const struct hwt_wheel *wheel, uint64_t limit)
{
    return hwt_ticks_ending(&wheel->ticks, limit - (wheel->lags && limit > 0));
}

/* A small wheel is in the processor's cache. In a great one, these come from memory meanwhile: the
 * bucket after the next, the tournament's nodes above the next one, and the first hint of the next
 * one. */
static void fetch_ahead(const struct hwt_wheel_inside *inside)
{
    const uint64_t next = inside->due[1];
    uint64_t after = 0;
    if (inside->mask < LENGTH_FAST || next == 0)
        return;
    for (size_t node = (size_t)wheel_length(inside) + wheel_index_of(inside, ~next); node > 1;
         node /= 2)
        after = inside->due[node ^ 1] > after ? inside->due[node ^ 1] : after;
    hwt_bucket_fetch(&inside->buckets[wheel_index_of(inside, ~next)]);
    __builtin_prefetch(&inside->buckets[wheel_index_of(inside, ~after)], 1);
}

/* Takes ids from a bucket whose tick it is. */
static size_t take_from(struct hwt_wheel *wheel, uint32_t index, uint32_t *ids, size_t max)
{
    struct hwt_bucket *bucket = &wheel->inside->buckets[index];
    const struct hwt_sites *sites = hwt_directory_sites(wheel->directory);
    struct hwt_hint hints[WHEEL_LOOK_MAX];
    const uint32_t round = bucket->least, where = wheel_where_of(wheel->inside, index, round);
    size_t taken =
        hwt_bucket_take(bucket, hints, max < WHEEL_LOOK_MAX ? max : WHEEL_LOOK_MAX, wheel->pieces);
    size_t n = 0;
    HWT_ASSERT(taken <= wheel->hints);
    wheel->hints -= taken;
    if (bucket->least != round || hwt_bucket_count(bucket) == 0) {
        hwt_wheel_update(wheel, index);
        fetch_ahead(wheel->inside);
    }
    for (size_t i = 0; i < taken; i++) {
        struct hwt_place *place;
        if (!wheel_counts(sites, &hints[i], where, &place))
            continue;
        place->where = 0;
        ids[n++] = hints[i].id;
    }
    if (__builtin_expect(n < taken, 0))
        wheel->looks -= taken - n < wheel->looks ? taken - n : wheel->looks;
    return n;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *ids, size_t max,
                      bool *ret_far)
{
    uint64_t tick;
    uint32_t index;
    *ret_far = false;
    while (next_index(wheel->inside, &index, &tick)) {
        bool far = index == wheel_far_index(wheel->inside);
        /* Hints of a later age come nearer when their tick begins, not when it ends. */
        if (far ? tick > end_of_handled(wheel, limit) : tick >= limit)
            break;
        *ret_far = far;
        set_tick(wheel, tick);
        size_t n = take_from(wheel, index, ids, max);
        if (n > 0 || wheel->looks == 0)
            return n;
    }
    if (wheel->tick < end_of_handled(wheel, limit))
        set_tick(wheel, end_of_handled(wheel, limit));
    return 0;
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    uint32_t index;
    uint64_t tick;
    if (!next_index(wheel->inside, &index, &tick) || tick >= limit)
        return HWT_ID_NONE;
    const struct hwt_hint *hint = hwt_bucket_peek(&wheel->inside->buckets[index]);
    return hint ? hint->id : HWT_ID_NONE;
}
