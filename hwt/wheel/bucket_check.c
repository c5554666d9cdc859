/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The invariants of a bucket. See bucket.h. */

#include "hwt/wheel/bucket.h"

/* Whether one block is in order. Its rounds are counted from `now`. */
static bool check_block(const struct hwt_block *block, uint32_t now)
{
    uint32_t least = UINT32_MAX, last = 0;
    if (!hwt_block_is_whole(block))
        return false;
    for (uint32_t i = block->begin; i < block->used; i++) {
        uint32_t remaining = block->hints[i].round - now;
        if (remaining == UINT32_MAX || (i < block->sorted && remaining < last))
            return false; /* before `now`, or not in order */
        last = remaining;
        least = remaining < least ? remaining : least;
    }
    return hwt_block_count(block) == 0 ? block->used == 0 : block->least - now == least;
}

bool hwt_bucket_check(const struct hwt_bucket *bucket, uint32_t now)
{
    uint32_t least = UINT32_MAX, first = 0, in_full = 0;
    if (bucket->full_count > bucket->full_capacity || bucket->due_block > bucket->full_count)
        return false;
    for (uint32_t i = 0; i <= bucket->full_count; i++) {
        const struct hwt_block *block = hwt_bucket_block(bucket, i);
        if (!check_block(block, now))
            return false;
        in_full += i < bucket->full_count ? hwt_block_count(block) : 0;
        if (hwt_block_count(block) > 0 && block->least - now < least) {
            least = block->least - now;
            first = i;
        }
    }
    if (in_full != bucket->in_full)
        return false;
    return hwt_bucket_count(bucket) == 0 ||
           (least == bucket->least - now && first == bucket->due_block);
}
