/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BUCKET_H
#define HWT_BUCKET_H

/*
 * One bucket of the wheel: hints, in the order in which they were filed. A hint says that a timeout
 * was filed for a round; whether that still counts, the bucket does not know. What was cancelled or
 * moved stays until its round comes or the bucket is swept, and costs nothing before that.
 *
 * Where Netty decrements every timeout's remaining rounds at each visit, a round here is a
 * number of the bucket's own, the low 32 bits of tick / wheel length, and
 *
 *     remaining rounds = round - the bucket's round now        (modulo 2^32)
 *
 * so that a visit counts all of them down at once. `least` is the round of the soonest: until it
 * comes, the bucket is not visited at all.
 *
 * A bucket has two shelves: `near`, and, once it is divided, `far` for the rounds from `far_least`
 * on. The near shelf has two parts: hints in the order of their rounds, from `begin` to `sorted`,
 * and a tail of those that came since, up to `used`. A visit takes the first of the one and goes
 * through the other; what is not taken from the tail moves together, in order. That may be
 * interrupted, and hints may be added meanwhile:
 *
 *     sorted .. kept  of later rounds; the least of them is `next`, first had at `next_first`
 *     kept .. cursor  gone
 *     cursor .. used  not looked at
 *
 * A long tail is sorted before a visit that would leave much of it, and what is not of the sooner
 * part goes to the far shelf; an empty near shelf gets the sooner part of the far one. So each hint
 * is sorted a few times at most, by counting, however many rounds there are. All hints of one round
 * keep the order in which they were filed.
 *
 * Worker only: no atomics, no clock, no lock.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/store/hint.h"

struct hwt_shelf {
    struct hwt_hint *hints;
    uint32_t used;
    uint32_t capacity;
};

/* A cache line, on a 64-bit machine. */
struct hwt_bucket {
    struct hwt_shelf near; /* empty only if the bucket is */
    struct hwt_shelf far;
    uint32_t begin;
    uint32_t sorted : 31;
    uint32_t divided : 1;
    uint32_t least; /* of the near shelf */
    /* If it is divided: counted from `least`, later than every hint of the near shelf, and than
     * none of the far one. */
    uint32_t far_least;
    uint32_t cursor : 31;
    uint32_t visits : 1; /* a visit is in the tail */
    union {
        uint32_t first; /* none is, and the least round is not sorted: where the first of it is */
        uint32_t kept;
    };
    uint32_t next;
    uint32_t next_first;
};

/* How many hints it has. */
static inline uint32_t hwt_bucket_count(const struct hwt_bucket *bucket)
{
    uint32_t gone = bucket->visits ? bucket->cursor - bucket->kept : 0;
    return bucket->near.used - bucket->begin - gone + bucket->far.used;
}

/*
 * Puts a hint at the end; `now` is a round that no hint of the bucket is before, this one is at
 * most 2^32 - 2 later. -ENOMEM: nothing has changed. *bytes follows the memory held.
 */
int hwt_bucket_add(struct hwt_bucket *bucket, struct hwt_hint hint, uint32_t now, size_t *bytes);

/* For a bucket whose rounds are less than 2^31 apart: room for a hint of this round, which the
 * caller puts there. NULL, and nothing has changed: there is none, or the round would be a new
 * least one; use hwt_bucket_add(). */
static inline struct hwt_hint *hwt_bucket_room(struct hwt_bucket *bucket, uint32_t round)
{
    uint32_t ahead = round - bucket->least;
    struct hwt_shelf *shelf = &bucket->near;
    if (__builtin_expect(shelf->used == 0, 0) || __builtin_expect((int32_t)ahead < 0, 0))
        return NULL;
    if (bucket->divided && ahead >= bucket->far_least - bucket->least)
        shelf = &bucket->far;
    if (__builtin_expect(shelf->used == shelf->capacity, 0))
        return NULL;
    return &shelf->hints[shelf->used++];
}

/*
 * Takes up to `max` hints of the least round, in order, and returns how many. When that round is
 * over, another one is the least.
 */
size_t hwt_bucket_take(struct hwt_bucket *bucket, struct hwt_hint *batch, size_t max,
                       size_t *bytes);

/* Drops hints of the least round that are not to stay until one comes that is, or so many have been
 * looked at: *looks is what is left of that. False: none came, and another round is the least, or
 * the bucket is empty. */
bool hwt_bucket_prune(struct hwt_bucket *bucket, hwt_hints_filter filter, const void *data,
                      uint32_t *looks, size_t *bytes);

/*
 * A sweep drops all that is not to stay, a part at a time. Between two parts hints may be put where
 * hwt_bucket_room() says; before anything else the sweep is ended.
 *
 *     begin .. kept   of the shelf that is swept, have stayed
 *     kept .. cursor  gone
 *     cursor .. used  not looked at
 */
struct hwt_sweep {
    bool is_far; /* the far shelf is swept; else the near one */
    uint32_t kept;
    uint32_t cursor;
};

void hwt_sweep_begin(struct hwt_sweep *sweep, struct hwt_bucket *bucket);

/* Looks at up to `most` more hints. Returns at how many, and *ret_gone is how many did not stay; 0:
 * there are no more. */
uint32_t hwt_sweep_some(struct hwt_sweep *sweep, struct hwt_bucket *bucket, uint32_t most,
                        hwt_hints_filter filter, const void *data, uint32_t *ret_gone);

/* A few of the hints that are not gone: the n-th of those, from 0 on; NULL: there are no more. */
const struct hwt_hint *hwt_sweep_peek(const struct hwt_sweep *sweep,
                                      const struct hwt_bucket *bucket, uint32_t n);

/* Ends it, wherever it is, and gives memory back where that pays. */
void hwt_sweep_end(struct hwt_sweep *sweep, struct hwt_bucket *bucket, size_t *bytes);

/* All of a sweep. */
static inline void hwt_bucket_sweep(struct hwt_bucket *bucket, hwt_hints_filter filter,
                                    const void *data, size_t *bytes)
{
    struct hwt_sweep sweep;
    uint32_t gone;
    hwt_sweep_begin(&sweep, bucket);
    while (hwt_sweep_some(&sweep, bucket, UINT32_MAX, filter, data, &gone) > 0)
        ;
    hwt_sweep_end(&sweep, bucket, bytes);
}

/* The hint that is likely to be taken first, NULL: that is not known without a search. */
const struct hwt_hint *hwt_bucket_peek(const struct hwt_bucket *bucket);

/* The hint that is looked at first comes from memory. */
static inline void hwt_bucket_fetch(const struct hwt_bucket *bucket)
{
    uint32_t at = bucket->begin < bucket->sorted ? bucket->begin : bucket->first;
    __builtin_prefetch(bucket->near.hints + at, 1);
}

/* Forgets all. */
void hwt_bucket_clear(struct hwt_bucket *bucket, size_t *bytes);

/* Gives all memory back. */
void hwt_bucket_destroy(struct hwt_bucket *bucket);

/* Whether all of the above holds. For tests and assertions. */
bool hwt_bucket_check(const struct hwt_bucket *bucket, uint32_t now);

#endif
