/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BUCKET_H
#define HWT_BUCKET_H

/*
 * One bucket of the wheel: its timeouts' rounds in one dense array and their ids in
 * another, in step, in the order in which they were filed. Worker only; no atomics, no
 * clock, no lock.
 *
 * Where Netty decrements every timeout's remaining rounds at each visit, a round here is a
 * number of the bucket's own, the low 32 bits of tick / wheel length, and
 *
 *     remaining rounds = round - the bucket's round now        (modulo 2^32)
 *
 * so that a visit counts all of them down at once. `least` is the least of them: until it
 * comes, no timeout of the bucket is touched and the bucket need not be visited at all.
 *
 * A visit scans the rounds for those that are due and for the next least. Where timeouts are
 * spread over very many rounds that would be a long scan for few timeouts, so a bucket has two
 * shelves: `near` for the rounds before `horizon`, `far` for the others, which a visit does not
 * look at. When the near shelf is empty, the next rounds' worth moves over from the far one.
 * All timeouts of one round are on one shelf, so their order is that of filing.
 *
 * A timeout that is dropped or taken leaves a hole; nothing else moves, because the place
 * of what is moved must say so, which costs a cache miss. Holes are closed when they
 * outnumber the timeouts by far, or when the arrays are full: at most a move for each removal. A
 * hole keeps the round before the one it was made in, so that scans, which look at rounds alone,
 * find it furthest away. After 2^31 rounds it would pass for a timeout: it is closed before.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/store/directory.h"
#include "hwt/store/scan.h"

struct hwt_bucket {
    struct hwt_shelf near;
    struct hwt_shelf far;
    uint32_t horizon;     /* with far.live: the first round that is far */
    uint32_t least;       /* the least round */
    uint32_t least_count; /* timeouts of that round; 0 and live: must be searched anew */
    uint32_t cursor;      /* none before it on the near shelf is of the least round */
};

#define HWT_BUCKET_HOLE HWT_ID_NONE
#define HWT_BUCKET_FAR ((uint32_t)1 << 31) /* in place->index: on the far shelf */

static inline uint32_t hwt_bucket_live(const struct hwt_bucket *bucket)
{
    return bucket->near.live + bucket->far.live;
}

/*
 * Puts an id at the end; `now` is the bucket's round, `round` at most 2^31 - 1 later.
 * -ENOMEM: nothing has changed. *bytes follows the memory held.
 */
int hwt_bucket_add(struct hwt_bucket *bucket, const struct hwt_directory *directory, uint32_t id,
                   uint32_t round, uint32_t now, size_t *bytes);

/* The round of what is at `index`. */
static inline uint32_t hwt_bucket_round(const struct hwt_bucket *bucket, uint32_t index)
{
    return index & HWT_BUCKET_FAR ? bucket->far.rounds[index & ~HWT_BUCKET_FAR]
                                  : bucket->near.rounds[index];
}

/* Makes a hole of the place at `index`; `now` is the bucket's round. */
void hwt_bucket_drop(struct hwt_bucket *bucket, const struct hwt_directory *directory,
                     uint32_t index, uint32_t now, size_t *bytes);

/*
 * Takes up to `max` timeouts of the round `now`, which is the least, in order, and returns
 * how many. Once least_count is 0, hwt_bucket_settle().
 */
size_t hwt_bucket_take(struct hwt_bucket *bucket, uint32_t now, uint32_t *batch, size_t max);

/* The one that hwt_bucket_take() is likely to begin with, or HWT_ID_NONE. */
uint32_t hwt_bucket_peek(const struct hwt_bucket *bucket);

/* Finds the least round, closes holes and gives memory back where that pays. */
void hwt_bucket_settle(struct hwt_bucket *bucket, const struct hwt_directory *directory,
                       uint32_t now, size_t *bytes);

/* Forgets all; the places are the caller's. */
void hwt_bucket_clear(struct hwt_bucket *bucket, size_t *bytes);

/* Gives all memory back. */
void hwt_bucket_destroy(struct hwt_bucket *bucket);

/* Whether all of the above holds. For tests and assertions. */
bool hwt_bucket_check(const struct hwt_bucket *bucket, const struct hwt_directory *directory,
                      uint32_t now);

#endif
