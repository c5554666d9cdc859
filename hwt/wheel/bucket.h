/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BUCKET_H
#define HWT_BUCKET_H

/*
 * One bucket of the wheel: hints, in the order in which they were filed. A hint says that a timeout
 * was filed for a round. The bucket does not know whether that still counts. So the hint of a
 * timeout that was cancelled or moved stays until its round comes or the bucket is swept. It costs
 * nothing before.
 *
 * Netty decrements the remaining rounds of every timeout whenever the worker comes to its bucket.
 * Here a round is a number, the low 32 bits of tick / wheel length, and
 *
 *     remaining rounds = round - the bucket's round now        (modulo 2^32)
 *
 * so time counts all of them down at once. `least` is the round of the soonest hint. The worker
 * does not come to the bucket before that.
 *
 * The hints are in blocks (see block.h), in the order of filing: `full` ones, and `last`, which is
 * being filled. Each block knows its least round. A take goes through the blocks that have the
 * bucket's least round, from `due_block` on, and sorts each when it comes to it. So all hints of
 * one round keep the order in which they were filed. No hint is sorted before its block is due, and
 * few are sorted more than once, however many rounds there are. However many hints there are, no
 * call does more than a few blocks take, but that it looks at the struct of each block, one for
 * some thousand hints.
 *
 * Worker only: no atomics, no clock, no lock.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/wheel/block.h"

/* A cache line, on a 64-bit machine. */
struct hwt_bucket {
    struct hwt_block last; /* is being filled */
    struct hwt_block *full;
    uint32_t full_count;
    uint32_t full_capacity;
    uint32_t in_full; /* hints */
    uint32_t
        due_block; /* number of the first block with the least round; `last` is number full_count */
    uint32_t least; /* round, if there are hints */
};

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
 * Puts a hint at the end. No hint of the bucket is before the round `now`, and this one is at most
 * 2^32 - 2 rounds later. -ENOMEM: nothing has changed.
 */
int hwt_bucket_add(struct hwt_bucket *bucket, struct hwt_hint hint, uint32_t now,
                   struct hwt_pieces *pieces);

/* Room for a hint of this round, which the caller writes there. The rounds of the bucket must be
 * less than 2^31 apart. NULL: there is no room, or the round would be a new least one, and nothing
 * has changed; then the caller uses hwt_bucket_add(). */
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
 * Takes up to `max` hints of the least round, in order, and returns how many. It returns fewer if
 * another block must be sorted before there are more. After the last hint of that round `least` is
 * the next one.
 */
size_t hwt_bucket_take(struct hwt_bucket *bucket, struct hwt_hint *taken, size_t max,
                       struct hwt_pieces *pieces);

/* Throws away hints of the least round until it meets one that stays. It looks at no more than
 * *looks hints, sorting counts as looks, and *looks becomes the number that is left. False: no hint
 * of that round stays. Then `least` is the next round, or the bucket is empty. */
bool hwt_bucket_prune(struct hwt_bucket *bucket, hwt_hints_filter filter, const void *data,
                      uint32_t *looks, struct hwt_pieces *pieces);

/* Throws away the hints of the i-th block that do not stay, and returns how many it had. Before
 * anything else is done to the bucket, but for more of these, it is tidied. */
uint32_t hwt_bucket_sweep_block(struct hwt_bucket *bucket, uint32_t i, hwt_hints_filter filter,
                                const void *data, struct hwt_pieces *pieces);

/* Frees blocks that are empty, joins up to so many that have become small to those before, and finds
 * the least round. */
void hwt_bucket_tidy(struct hwt_bucket *bucket, uint32_t joins, struct hwt_pieces *pieces);

static inline void hwt_bucket_sweep(struct hwt_bucket *bucket, hwt_hints_filter filter,
                                    const void *data, struct hwt_pieces *pieces)
{
    for (uint32_t i = 0; i <= bucket->full_count; i++)
        (void)hwt_bucket_sweep_block(bucket, i, filter, data, pieces);
    hwt_bucket_tidy(bucket, bucket->full_count, pieces);
}

/* The hint that is taken first. NULL: that is not known before its block is sorted. */
const struct hwt_hint *hwt_bucket_peek(const struct hwt_bucket *bucket);

/* Has the hint that is looked at first come from memory. */
static inline void hwt_bucket_fetch(const struct hwt_bucket *bucket)
{
    const struct hwt_block *block = hwt_bucket_block(bucket, bucket->due_block);
    __builtin_prefetch(block->hints + block->begin, 1);
}

void hwt_bucket_clear(struct hwt_bucket *bucket, struct hwt_pieces *pieces);

/* Whether the bucket is in order. For tests and assertions. */
bool hwt_bucket_check(const struct hwt_bucket *bucket, uint32_t now);

#endif
