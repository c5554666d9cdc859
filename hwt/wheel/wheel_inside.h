/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WHEEL_INSIDE_H
#define HWT_WHEEL_INSIDE_H

/*
 * The hashed wheel: an array of buckets, a power of two of them. A timeout of tick t is in
 * bucket t & mask, with the round t / wheel length; see bucket.h for rounds. More than
 * WHEEL_LENGTH_MAX ticks a wheel are had as so many, and more rounds: a bucket costs 80 bytes.
 *
 * A tournament over the buckets finds the next tick with something due: leaf length + i is the
 * complement of the tick at which bucket i is due (0: none), an inner node the greater of its
 * two. So the soonest is at node 1, memory never touched means "none", and a change
 * walks up only as far as it matters: hardly ever beyond the leaf where buckets are full.
 *
 * WHAT COUNTS. To drop a timeout, or file it for another tick, touches no bucket: its place says
 * where it is filed now, and a hint counts if it is there and of the place's generation. `where` is
 *
 *     0                   nowhere
 *     WHEEL_NEAR | tick   its last 30 bits: no tick of a bucket is further than that
 *     WHEEL_FAR | age     its last 30 bits
 *     WHEEL_NEVER
 *
 * 2^29 ticks are an age. A timeout of a later age than the next one waits in a bucket of its own,
 * whose rounds are ages, until the age before its own begins: then the caller files it again,
 * before anything else can be filed for that age. So the order of filing holds. What never comes
 * has a bucket too.
 */

#include "hwt/wheel/bucket.h"
#include "hwt/wheel/directory.h"

struct hwt_wheel;

#define WHEEL_LENGTH_MAX ((uint32_t)1 << 16)
#define WHEEL_AGE_BITS 29
#define WHEEL_LOOK_MAX 64 /* hints that are looked at together */

#define WHEEL_NEAR ((uint32_t)1 << 30)
#define WHEEL_FAR ((uint32_t)2 << 30)
#define WHEEL_NEVER ((uint32_t)3 << 30)
#define WHEEL_LOW_BITS (WHEEL_NEAR - 1)

struct hwt_wheel_inside {
    uint32_t mask;    /* wheel length - 1 */
    unsigned shift;   /* log2 of the length */
    uint64_t *due;    /* the tournament */
    uint64_t far_due; /* the tick at which what is in later ages comes nearer */
    struct hwt_bucket
        *buckets;         /* one for each index, one for later ages, one for what never comes */
    uint32_t sweep_index; /* the bucket that is swept, or is to be next */
    bool sweeps;
    struct hwt_sweep sweep;
};

static inline uint32_t wheel_length(const struct hwt_wheel_inside *inside)
{
    return inside->mask + 1;
}

static inline uint32_t wheel_never_index(const struct hwt_wheel_inside *inside)
{
    return wheel_length(inside);
}

static inline uint32_t wheel_far_index(const struct hwt_wheel_inside *inside)
{
    return wheel_length(inside) + 1;
}

static inline uint32_t wheel_index_of(const struct hwt_wheel_inside *inside, uint64_t tick)
{
    return (uint32_t)tick & inside->mask;
}

static inline uint64_t wheel_age_of(uint64_t tick)
{
    return tick >> WHEEL_AGE_BITS;
}

/* ---- wheel.c ---- */

/* The bucket's round when it is next visited; what never comes has but one. */
uint32_t hwt_wheel_round_now(const struct hwt_wheel *wheel, uint32_t index);

/* The first tick from wheel->tick on that has this index and round. */
uint64_t hwt_wheel_tick(const struct hwt_wheel *wheel, uint32_t index, uint32_t round);

/* Brings the tournament up to the bucket, after its least round may have changed. */
void hwt_wheel_update(struct hwt_wheel *wheel, uint32_t index);

/* ---- what counts ---- */

/* How the hints of a bucket are told by their rounds: kind | ((round << shift | low) & bits). */
struct wheel_whereabouts {
    uint32_t kind;
    uint32_t low;
    uint32_t bits;
    unsigned shift;
};

static inline struct wheel_whereabouts wheel_whereabouts_of(const struct hwt_wheel_inside *inside,
                                                            uint32_t index)
{
    if (__builtin_expect(index < wheel_length(inside), 1))
        return (struct wheel_whereabouts){ WHEEL_NEAR, index, WHEEL_LOW_BITS, inside->shift };
    return index == wheel_far_index(inside)
               ? (struct wheel_whereabouts){ WHEEL_FAR, 0, WHEEL_LOW_BITS, 0 }
               : (struct wheel_whereabouts){ WHEEL_NEVER, 0, 0, 0 };
}

static inline uint32_t wheel_where_at(struct wheel_whereabouts about, uint32_t round)
{
    return about.kind | ((round << about.shift | about.low) & about.bits);
}

static inline uint32_t wheel_where_of(const struct hwt_wheel_inside *inside, uint32_t index,
                                      uint32_t round)
{
    return wheel_where_at(wheel_whereabouts_of(inside, index), round);
}

/* Whether a hint of a bucket counts, and the place of its id. `where` is that of its round there. */
static inline bool wheel_counts(const struct hwt_sites *sites, const struct hwt_hint *hint,
                                uint32_t where, struct hwt_place **ret_place)
{
    const struct hwt_site *site = hwt_sites_at(sites, hint->id >> HWT_ID_BITS);
    *ret_place = hwt_site_place(sites, site, hint->id);
    return (*ret_place)->where == where &&
           hwt_site_generation(site, *ret_place) == hint->generation;
}

/* What the hints of a bucket are looked at for. */
struct wheel_judge {
    const struct hwt_wheel *wheel;
    uint32_t index;
    bool asks; /* those that are not wanted do not stay either */
    /* Of equal hints the first stays: a timeout that was moved and came back has several. Its place
     * says "nowhere" from then on, until file_again(). */
    bool once;
};

/* ---- wheel_sweep.c ---- */

/* A filter, for what `data`, a struct wheel_judge, says. */
uint32_t hwt_wheel_keep(const void *data, struct hwt_hint *hints, uint32_t n);

/* Ends a sweep that is half done, wherever it is. */
void hwt_wheel_end_sweep(struct hwt_wheel *wheel);

#endif
