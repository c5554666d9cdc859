/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WHEEL_INSIDE_H
#define HWT_WHEEL_INSIDE_H

/*
 * The hashed wheel: an array of buckets, a power of two of them. The hint of tick t is in the
 * bucket with index t & mask, and has the round t / wheel length; see bucket.h for rounds. If more
 * than WHEEL_LENGTH_MAX ticks a wheel are asked for, there are that many buckets, and more rounds:
 * a bucket costs 80 bytes.
 *
 * A tournament over the buckets finds the next tick with something due. Leaf length + i is the
 * complement of the tick at which the bucket with index i is due (0: never). An inner node is the
 * greater of its two. So the soonest is at node 1, and memory that was never touched means "never".
 * A change walks up only as far as it matters: hardly ever beyond the leaf, if buckets are full.
 *
 * WHICH HINTS COUNT. To cancel a timeout, or to file it for another tick, touches no bucket. The
 * place of an id says where it is filed now. A hint counts if it is there, and of the place's
 * generation. `where` is
 *
 *     0                   nowhere
 *     WHEEL_NEAR | tick   its last 30 bits: no tick of a bucket is further away than they can tell
 *     WHEEL_FAR | age     its last 30 bits
 *     WHEEL_NEVER
 *
 * An age is 2^29 ticks. The hint of a later age than the next one waits in a bucket of its own,
 * whose rounds are ages. When the age before its own begins, the caller files it again, before it
 * files anything else for that age. So the order of filing holds. Hints that are never due have a
 * bucket, too.
 */

#include "hwt/wheel/bucket.h"
#include "hwt/wheel/directory.h"

struct hwt_wheel;

#define WHEEL_LENGTH_MAX ((uint32_t)1 << 16)
#define WHEEL_AGE_BITS 29
#define WHEEL_LOOK_MAX 64 /* so many hints are looked at together */

#define WHEEL_NEAR ((uint32_t)1 << 30)
#define WHEEL_FAR ((uint32_t)2 << 30)
#define WHEEL_NEVER ((uint32_t)3 << 30)
#define WHEEL_LOW_BITS (WHEEL_NEAR - 1)

struct hwt_wheel_inside {
    uint32_t mask;    /* wheel length - 1 */
    unsigned shift;   /* log2 of the length */
    uint64_t *due;    /* the tournament */
    uint64_t far_due; /* the tick at which hints of later ages come nearer */
    struct hwt_bucket
        *buckets;         /* one for each index, one for later ages, one for what never comes */
    uint32_t sweep_index; /* the bucket that is swept next, */
    uint32_t sweep_block; /* from this block on */
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

/* The round of the bucket when the worker comes to it next. The bucket of hints that are never due
 * has one round, 0. */
uint32_t hwt_wheel_round_now(const struct hwt_wheel *wheel, uint32_t index);

/* The first tick from wheel->tick on that has this index and round. */
uint64_t hwt_wheel_tick(const struct hwt_wheel *wheel, uint32_t index, uint32_t round);

/* Brings the tournament up to date, after the least round of a bucket may have changed. */
void hwt_wheel_update(struct hwt_wheel *wheel, uint32_t index);

/* ---- what counts ---- */

/* `where` of the hints of a bucket is kind | ((round << shift | low) & bits). */
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

/* Whether a hint counts, and the place of its id. `where` is that of its round in its bucket. */
static inline bool wheel_counts(const struct hwt_sites *sites, const struct hwt_hint *hint,
                                uint32_t where, struct hwt_place **ret_place)
{
    const struct hwt_site *site = hwt_sites_at(sites, hint->id >> HWT_ID_BITS);
    *ret_place = hwt_site_place(sites, site, hint->id);
    return (*ret_place)->where == where &&
           hwt_site_generation(site, *ret_place) == hint->generation;
}

/* Which hints of a bucket stay: those that count, and */
struct wheel_judge {
    const struct hwt_wheel *wheel;
    uint32_t index;
    bool asks; /* only if they are wanted; */
    /* only the first one of equal hints. A timeout that was moved there and back has several. Its
     * place is "nowhere" from its first hint on, until file_again(). */
    bool once;
};

/* ---- wheel_sweep.c ---- */

/* A filter; `data` is a struct wheel_judge. */
uint32_t hwt_wheel_keep(const void *data, struct hwt_hint *hints, uint32_t n);

#endif
