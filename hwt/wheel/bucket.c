/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hints of one bucket. See bucket.h. */

#include "hwt/wheel/bucket.h"

#include <errno.h>
#include <string.h>

#define FULL_MIN 4                            /* blocks */
#define FULL_MAX (UINT32_MAX / HWT_BLOCK_MAX) /* all hints can be counted */
#define SECOND_CAPACITY (HWT_BLOCK_MAX / 8)   /* of a block where there is a full one */
#define SORT_PER_LOOK 16                      /* hints */

static struct hwt_block *block_at(struct hwt_bucket *bucket, uint32_t i)
{
    return i < bucket->full_count ? &bucket->full[i] : &bucket->last;
}

static void count_gone(struct hwt_bucket *bucket, uint32_t block, uint32_t n)
{
    HWT_ASSERT(block == bucket->full_count || n <= bucket->in_full);
    bucket->in_full -= block < bucket->full_count ? n : 0;
}

/* ---- full blocks ---- */

static bool is_great(uint32_t capacity)
{
    return capacity * sizeof(struct hwt_block) > HWT_PIECES_ROOM;
}

static struct hwt_block *take_full(struct hwt_pieces *pieces, uint32_t capacity)
{
    const size_t size = capacity * sizeof(struct hwt_block);
    return is_great(capacity) ? hwt_pieces_map(pieces, size)
                              : hwt_pieces_take(pieces, hwt_pieces_kind(size));
}

static void give_full(struct hwt_pieces *pieces, struct hwt_bucket *bucket)
{
    if (is_great(bucket->full_capacity))
        hwt_pieces_unmap(pieces, bucket->full, bucket->full_capacity * sizeof(*bucket->full));
    else
        hwt_pieces_give(pieces, bucket->full);
    bucket->full = NULL;
    bucket->full_capacity = 0;
}

static int grow_full(struct hwt_bucket *bucket, struct hwt_pieces *pieces)
{
    const uint32_t had = bucket->full_capacity, capacity = had ? 2 * had : FULL_MIN;
    struct hwt_block *full = capacity <= FULL_MAX ? take_full(pieces, capacity) : NULL;
    if (!full)
        return -ENOMEM;
    if (had > 0)
        memcpy(full, bucket->full, had * sizeof(*full));
    give_full(pieces, bucket);
    bucket->full = full;
    bucket->full_capacity = capacity;
    return 0;
}

/* The last block becomes one of the full ones, and an empty one becomes the last. */
static int close_last(struct hwt_bucket *bucket, struct hwt_pieces *pieces)
{
    struct hwt_block fresh = { 0 };
    if ((bucket->full_count == bucket->full_capacity && grow_full(bucket, pieces) < 0) ||
        hwt_block_resize(&fresh, SECOND_CAPACITY, pieces) < 0)
        return -ENOMEM;
    bucket->in_full += hwt_block_count(&bucket->last);
    bucket->full[bucket->full_count++] = bucket->last;
    bucket->last = fresh;
    return 0;
}

void hwt_bucket_tidy(struct hwt_bucket *bucket, uint32_t joins, struct hwt_pieces *pieces)
{
    const uint32_t base = bucket->least, count = bucket->full_count;
    struct hwt_block *full = bucket->full;
    uint32_t kept = 0, least = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (hwt_block_count(&full[i]) == 0) {
            hwt_block_release(&full[i], pieces);
            continue;
        }
        if (kept > 0 && joins > 0 && hwt_block_join(&full[kept - 1], &full[i], base, pieces)) {
            joins--;
            continue;
        }
        full[kept++] = full[i];
    }
    bucket->full_count = kept;
    bucket->due_block = kept;
    if (hwt_block_count(&bucket->last) > 0)
        least = bucket->last.least - base;
    for (uint32_t i = kept; i > 0; i--) {
        if (full[i - 1].least - base <= least) {
            least = full[i - 1].least - base;
            bucket->due_block = i - 1;
        }
    }
    bucket->least = base + least;
    if (kept == 0)
        give_full(pieces, bucket);
    HWT_ASSERT_ALL(hwt_bucket_check(bucket, base));
}

/* ---- adding ---- */

static int make_room(struct hwt_bucket *bucket, struct hwt_pieces *pieces)
{
    const struct hwt_block *last = &bucket->last;
    if (last->capacity == HWT_BLOCK_MAX && last->begin < HWT_BLOCK_MAX / 4)
        return close_last(bucket, pieces);
    return hwt_block_grow(&bucket->last, pieces);
}

int hwt_bucket_add(struct hwt_bucket *bucket, struct hwt_hint hint, uint32_t now,
                   struct hwt_pieces *pieces)
{
    struct hwt_block *last = &bucket->last;
    const bool none = hwt_bucket_count(bucket) == 0;
    if (last->used == last->capacity && make_room(bucket, pieces) < 0)
        return -ENOMEM;
    if (hwt_block_count(last) == 0 || hint.round - now < last->least - now)
        last->least = hint.round;
    if (none || hint.round - now < bucket->least - now) {
        bucket->least = hint.round;
        bucket->due_block = bucket->full_count;
    }
    last->hints[last->used++] = hint;
    HWT_ASSERT(hwt_block_is_whole(last) && hint.round - now != UINT32_MAX);
    return 0;
}

/* ---- taking ---- */

static bool has_least(const struct hwt_bucket *bucket, const struct hwt_block *block)
{
    return hwt_block_count(block) > 0 && block->least == bucket->least;
}

/* Goes on to the next block with the least round. False: no other block has it. */
static bool next_due_block(struct hwt_bucket *bucket, struct hwt_pieces *pieces)
{
    hwt_block_leave(block_at(bucket, bucket->due_block), pieces);
    while (bucket->due_block < bucket->full_count) {
        if (has_least(bucket, block_at(bucket, ++bucket->due_block)))
            return true;
    }
    hwt_bucket_tidy(bucket, 1, pieces);
    return false;
}

/* Takes hints of the least round from a sorted block. */
static size_t take_sorted(struct hwt_bucket *bucket, struct hwt_hint *taken, size_t max)
{
    struct hwt_block *block = block_at(bucket, bucket->due_block);
    const struct hwt_hint *hints = block->hints + block->begin;
    const uint32_t least = bucket->least;
    size_t n = 0, all = hwt_block_count(block);
    for (max = max < all ? max : all; n < max && hints[n].round == least; n++)
        taken[n] = hints[n];
    block->begin += (uint32_t)n;
    HWT_ASSERT(hwt_block_is_whole(block));
    count_gone(bucket, bucket->due_block, (uint32_t)n);
    return n;
}

/* Whether the due block, which is sorted, has more of the least round. */
static bool has_more(const struct hwt_bucket *bucket)
{
    const struct hwt_block *block = hwt_bucket_block(bucket, bucket->due_block);
    return block->begin < block->used && block->hints[block->begin].round == bucket->least;
}

size_t hwt_bucket_take(struct hwt_bucket *bucket, struct hwt_hint *taken, size_t max,
                       struct hwt_pieces *pieces)
{
    size_t n = 0;
    do {
        struct hwt_block *block = block_at(bucket, bucket->due_block);
        if (block->sorted < block->used) {
            if (n > 0)
                break;
            hwt_block_order(block, bucket->least, pieces);
        }
        n += take_sorted(bucket, taken + n, max - n);
    } while (!has_more(bucket) && next_due_block(bucket, pieces) && n < max);
    return n;
}

/* ---- throwing away ---- */

/* Whether the hint stays. It does if no look is left. */
static bool stays(hwt_hints_filter filter, const void *data, struct hwt_hint hint, uint32_t *looks)
{
    if (*looks == 0)
        return true;
    --*looks;
    return filter(data, &hint, 1) > 0;
}

/* Sorts the due block. False: no look is left for that. */
static bool order(struct hwt_bucket *bucket, uint32_t *looks, struct hwt_pieces *pieces)
{
    struct hwt_block *block = block_at(bucket, bucket->due_block);
    const uint32_t cost = (block->used - block->sorted) / SORT_PER_LOOK;
    if (cost > 0 && *looks == 0)
        return false;
    *looks -= cost < *looks ? cost : *looks;
    hwt_block_order(block, bucket->least, pieces);
    return true;
}

bool hwt_bucket_prune(struct hwt_bucket *bucket, hwt_hints_filter filter, const void *data,
                      uint32_t *looks, struct hwt_pieces *pieces)
{
    const struct hwt_hint *first = hwt_bucket_peek(bucket);
    uint32_t heads;
    if (first && stays(filter, data, *first, looks))
        return true;
    if (hwt_bucket_count(bucket) == 0)
        return false;
    do {
        if (!order(bucket, looks, pieces))
            return true;
        struct hwt_block *block = block_at(bucket, bucket->due_block);
        for (; has_more(bucket); block->begin++) {
            if (stays(filter, data, block->hints[block->begin], looks))
                return true;
            count_gone(bucket, bucket->due_block, 1);
        }
        heads = bucket->full_count / SORT_PER_LOOK;
    } while (next_due_block(bucket, pieces));
    *looks -= heads < *looks ? heads : *looks; /* all blocks were looked at for the next round */
    return false;
}

/* The sorted hints are looked at apart, so it stays known that they are. */
uint32_t hwt_bucket_sweep_block(struct hwt_bucket *bucket, uint32_t i, hwt_hints_filter filter,
                                const void *data, struct hwt_pieces *pieces)
{
    struct hwt_block *block = block_at(bucket, i);
    struct hwt_hint *first = block->hints + block->begin, *others = block->hints + block->sorted;
    const uint32_t count = hwt_block_count(block), unsorted = block->used - block->sorted;
    if (count == 0)
        return 0;
    block->sorted = block->begin + filter(data, first, count - unsorted);
    const uint32_t stay = filter(data, others, unsorted);
    memmove(block->hints + block->sorted, others, stay * sizeof(*others));
    block->used = block->sorted + stay;
    count_gone(bucket, i, count - hwt_block_count(block));
    hwt_block_fit(block, bucket->least, pieces);
    return count;
}

const struct hwt_hint *hwt_bucket_peek(const struct hwt_bucket *bucket)
{
    const struct hwt_block *block = hwt_bucket_block(bucket, bucket->due_block);
    return has_more(bucket) ? &block->hints[block->begin] : NULL;
}

void hwt_bucket_clear(struct hwt_bucket *bucket, struct hwt_pieces *pieces)
{
    for (uint32_t i = 0; i < bucket->full_count; i++)
        hwt_block_release(&bucket->full[i], pieces);
    hwt_block_empty(&bucket->last, pieces);
    bucket->full_count = bucket->in_full = bucket->due_block = 0;
    give_full(pieces, bucket);
}
