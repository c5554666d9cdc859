/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A block of hints. See block.h. */

#include "hwt/wheel/block.h"

#include <errno.h>
#include <string.h>

#define CAPACITY_FEW 16   /* the one after HWT_BLOCK_MIN */
#define CAPACITY_SOME 64  /* from here on it grows by half of it, */
#define CAPACITY_MANY 256 /* and from here on by a quarter */
#define FEW 24            /* hints: sorted one by one */

static size_t bytes_of(uint32_t capacity)
{
    return (size_t)capacity * sizeof(struct hwt_hint);
}

static struct hwt_hint *take_array(struct hwt_pieces *pieces, uint32_t capacity)
{
    return hwt_pieces_take(pieces, hwt_pieces_kind(bytes_of(capacity)));
}

/* The capacity of the array that has at least that. */
static uint32_t rounded(uint32_t capacity)
{
    size_t size = hwt_pieces_size(hwt_pieces_kind(bytes_of(capacity))) / sizeof(struct hwt_hint);
    return size < HWT_BLOCK_MAX ? (uint32_t)size : HWT_BLOCK_MAX;
}

/* ---- memory ---- */

int hwt_block_resize(struct hwt_block *block, uint32_t capacity, struct hwt_pieces *pieces)
{
    const uint32_t begin = block->begin, count = hwt_block_count(block);
    struct hwt_hint *old = block->hints, *hints = take_array(pieces, capacity);
    if (!hints)
        return -ENOMEM;
    if (count > 0)
        memcpy(hints, old + begin, bytes_of(count));
    block->hints = hints;
    block->capacity = rounded(capacity);
    block->begin = 0;
    block->sorted -= begin;
    block->used = count;
    HWT_ASSERT(hwt_block_is_whole(block));
    hwt_pieces_give(pieces, old);
    return 0;
}

static uint32_t grown(uint32_t capacity)
{
    if (capacity < HWT_BLOCK_MIN)
        return HWT_BLOCK_MIN;
    if (capacity < CAPACITY_FEW)
        return CAPACITY_FEW;
    if (capacity < CAPACITY_SOME)
        capacity *= 2;
    else
        capacity += capacity < CAPACITY_MANY ? capacity / 2 : capacity / 4;
    return capacity < HWT_BLOCK_MAX ? capacity : HWT_BLOCK_MAX;
}

int hwt_block_grow(struct hwt_block *block, struct hwt_pieces *pieces)
{
    uint32_t begin = block->begin;
    if (begin == 0 || begin < block->capacity / 4)
        return hwt_block_resize(block, grown(hwt_block_count(block)), pieces);
    memmove(block->hints, block->hints + begin, bytes_of(hwt_block_count(block)));
    block->begin = 0; /* the hints that were taken leave room */
    block->sorted -= begin;
    block->used -= begin;
    return 0;
}

void hwt_block_release(struct hwt_block *block, struct hwt_pieces *pieces)
{
    hwt_pieces_give(pieces, block->hints);
    *block = (struct hwt_block){ 0 };
}

void hwt_block_empty(struct hwt_block *block, struct hwt_pieces *pieces)
{
    block->begin = block->sorted = block->used = 0;
    if (block->capacity > HWT_BLOCK_MIN)
        hwt_block_release(block, pieces);
}

void hwt_block_leave(struct hwt_block *block, struct hwt_pieces *pieces)
{
    const uint32_t count = hwt_block_count(block);
    if (count == 0) {
        hwt_block_empty(block, pieces);
        return;
    }
    block->least = block->hints[block->begin].round;
    if (block->capacity > HWT_BLOCK_MIN && count < block->capacity / 4)
        (void)hwt_block_resize(block, grown(count), pieces); /* without memory: another time */
}

static void find_least(struct hwt_block *block, uint32_t base)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = block->sorted; i < block->used; i++) {
        uint32_t remaining = block->hints[i].round - base;
        least = remaining < least ? remaining : least;
    }
    if (block->begin < block->sorted && block->hints[block->begin].round - base < least)
        least = block->hints[block->begin].round - base;
    block->least = base + least;
}

void hwt_block_fit(struct hwt_block *block, uint32_t base, struct hwt_pieces *pieces)
{
    const uint32_t count = hwt_block_count(block), wanted = count + count / 4 + HWT_BLOCK_MIN;
    if (count == 0) {
        hwt_block_empty(block, pieces);
        return;
    }
    find_least(block, base);
    if (wanted < block->capacity && rounded(wanted) < block->capacity)
        (void)hwt_block_resize(block, wanted, pieces);
}

bool hwt_block_join(struct hwt_block *block, struct hwt_block *next, uint32_t base,
                    struct hwt_pieces *pieces)
{
    const uint32_t more = hwt_block_count(next), all = hwt_block_count(block) + more;
    if (all > HWT_BLOCK_MAX / 2)
        return false;
    if (block->used + more > block->capacity &&
        hwt_block_resize(block, all + all / 4 + HWT_BLOCK_MIN, pieces) < 0)
        return false;
    memcpy(block->hints + block->used, next->hints + next->begin, bytes_of(more));
    if (all == more || next->least - base < block->least - base)
        block->least = next->least;
    block->used += more;
    HWT_ASSERT(hwt_block_is_whole(block));
    hwt_block_release(next, pieces);
    return true;
}

/* ---- order ---- */

/* The first sorted hint before `end` that is later than this round, or `end`. */
static uint32_t find_later(const struct hwt_block *block, uint32_t end, uint32_t round,
                           uint32_t base)
{
    uint32_t from = block->begin;
    while (from < end) {
        uint32_t middle = from + (end - from) / 2;
        if (block->hints[middle].round - base > round - base)
            end = middle;
        else
            from = middle + 1;
    }
    return from;
}

/* Puts n sorted hints, of which the caller has a copy, into the sorted part. It grows by n, over
 * the first n hints of the other part. */
static void merge(struct hwt_block *block, const struct hwt_hint *more, uint32_t n, uint32_t base)
{
    struct hwt_hint *hints = block->hints;
    uint32_t end = block->sorted;
    block->sorted += n;
    while (n > 0) {
        uint32_t at = find_later(block, end, more[n - 1].round, base);
        memmove(hints + at + n, hints + at, bytes_of(end - at));
        n--;
        hints[at + n] = more[n];
        end = at;
    }
}

static void sort_one_by_one(struct hwt_block *block, uint32_t base)
{
    while (block->sorted < block->used) {
        struct hwt_hint hint = block->hints[block->sorted];
        merge(block, &hint, 1, base);
    }
}

/* Hints that happen to be in order belong to the sorted part without more work. */
static void skip_sorted(struct hwt_block *block, uint32_t base)
{
    const struct hwt_hint *hints = block->hints;
    uint32_t i = block->sorted;
    uint32_t last = i > block->begin ? hints[i - 1].round - base : 0;
    for (; i < block->used && hints[i].round - base >= last; i++)
        last = hints[i].round - base;
    block->sorted = i;
}

void hwt_block_order(struct hwt_block *block, uint32_t base, struct hwt_pieces *pieces)
{
    struct hwt_hint *other;
    skip_sorted(block, base);
    /* Many new hints are sorted together with the sorted ones, few are merged into them. */
    const bool again = block->used - block->sorted > (block->sorted - block->begin) / 2;
    const uint32_t from = again ? block->begin : block->sorted, n = block->used - from;
    if (block->used - block->sorted <= FEW || !(other = take_array(pieces, n))) {
        sort_one_by_one(block, base);
        return;
    }
    hwt_hints_sort(block->hints + from, n, base, other);
    if (!again) {
        memcpy(other, block->hints + from, bytes_of(n));
        merge(block, other, n, base);
    }
    block->sorted = block->used;
    HWT_ASSERT(hwt_block_is_whole(block));
    hwt_pieces_give(pieces, other);
}
