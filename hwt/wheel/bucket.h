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
 * The hints are in blocks (see block.h), in the order of filing: `full` ones, and one that is being
 * filled. Each knows its least round. A visit goes by the blocks that have the bucket's least round,
 * from `at` on, and sorts each when it comes to it. So all hints of one round keep the order in
 * which they were filed; no hint is sorted before its block is due, and few more than once, however
 * many rounds there are. However many hints there are, no call does more than a few blocks take, but
 * that it goes by the heads of all blocks, one for some thousand hints.
 *
 * Worker only: no atomics, no clock, no lock.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/wheel/block.h"

/* A cache line, on a 64-bit machine. */
struct hwt_bucket {
    struct hwt_block last; /* the one that is being filled */
    struct hwt_block *full;
    uint32_t full_count;
    uint32_t full_capacity;
    uint32_t in_full; /* hints */
    uint32_t
        due_block; /* the first block with hints of the least round; the last one is number full_count */
    uint32_t least; /* if there are hints */
};

/* How many hints it has. */
static inline uint32_t hwt_bucket_count(const struct hwt_bucket *bucket)
{
    return hwt_block_count(&bucket->last) + bucket->in_full;
}

/* Blocks are numbered from 0 to full_count. */
static inline const struct hwt_block *hwt_bucket_block(const struct hwt_bucket *bucket, uint32_t i)
{
    return i < bucket->full_count ? &bucket->full[i] : &bucket->last;
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
    struct hwt_block *block = &bucket->last;
    if (__builtin_expect(block->used == 0, 0) ||
        __builtin_expect((int32_t)(round - block->least) < 0, 0) ||
        __builtin_expect(block->used == block->capacity, 0))
        return NULL;
    return &block->hints[block->used++];
}

/*
 * Takes up to `max` hints of the least round, in order, and returns how many: fewer, too, where a
 * block has to be sorted before there are more. When that round is over, another one is the least.
 */
size_t hwt_bucket_take(struct hwt_bucket *bucket, struct hwt_hint *taken, size_t max,
                       size_t *bytes);

/* Drops hints of the least round that are not to stay until one comes that is, or so many have been
 * looked at: *looks is what is left of that, and sorting counts. False: none came, and another
 * round is the least, or the bucket is empty. */
bool hwt_bucket_prune(struct hwt_bucket *bucket, hwt_hints_filter filter, const void *data,
                      uint32_t *looks, size_t *bytes);

/*
 * A sweep drops all that is not to stay, a part at a time. Between two parts hints may be put where
 * hwt_bucket_room() says, and while it is in a full block with hwt_bucket_add(), too; before anything else the
 * sweep is ended.
 *
 *     begin .. kept   of the block that is swept, have stayed
 *     kept .. cursor  gone
 *     cursor .. used  not looked at
 */
struct hwt_sweep {
    uint32_t block;
    uint32_t before; /* the full block to which a small one is joined, or 0 */
    uint32_t kept;
    uint32_t cursor;
};

void hwt_sweep_begin(struct hwt_sweep *sweep, const struct hwt_bucket *bucket);

/* Looks at up to `most` more hints of one block. Returns at how many, and *ret_stay is how many of
 * those have stayed, just before `kept`; 0: there are no more. */
uint32_t hwt_sweep_some(struct hwt_sweep *sweep, struct hwt_bucket *bucket, uint32_t most,
                        hwt_hints_filter filter, const void *data, uint32_t *ret_stay,
                        size_t *bytes);

/* A few of the hints that are not gone: the n-th of those, from 0 on; NULL: there are no more. */
const struct hwt_hint *hwt_sweep_peek(const struct hwt_sweep *sweep,
                                      const struct hwt_bucket *bucket, uint32_t n);

/* Ends it, wherever it is. */
void hwt_sweep_end(struct hwt_sweep *sweep, struct hwt_bucket *bucket, size_t *bytes);

/* All of a sweep. */
static inline void hwt_bucket_sweep(struct hwt_bucket *bucket, hwt_hints_filter filter,
                                    const void *data, size_t *bytes)
{
    struct hwt_sweep sweep;
    uint32_t stay;
    hwt_sweep_begin(&sweep, bucket);
    while (hwt_sweep_some(&sweep, bucket, UINT32_MAX, filter, data, &stay, bytes) > 0)
        ;
    hwt_sweep_end(&sweep, bucket, bytes);
}

/* The hint that is taken first, NULL: that is not known before its block is sorted. */
const struct hwt_hint *hwt_bucket_peek(const struct hwt_bucket *bucket);

/* The hint that is looked at first comes from memory. */
static inline void hwt_bucket_fetch(const struct hwt_bucket *bucket)
{
    const struct hwt_block *block = hwt_bucket_block(bucket, bucket->due_block);
    __builtin_prefetch(block->hints + block->begin, 1);
}

/* Forgets all. */
void hwt_bucket_clear(struct hwt_bucket *bucket, size_t *bytes);

/* Gives all memory back. */
void hwt_bucket_destroy(struct hwt_bucket *bucket);

/* Whether all of the above holds. For tests and assertions. */
bool hwt_bucket_check(const struct hwt_bucket *bucket, uint32_t now);

#endif
