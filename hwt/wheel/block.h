/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BLOCK_H
#define HWT_BLOCK_H

/*
 * A block of a bucket's hints: an array in two parts. One is in the order of the hints' rounds, the
 * other has come since, and is in the order of filing:
 *
 *     begin .. sorted   in the order of rounds; of one round, in that of filing
 *     sorted .. used    came after these
 *
 * A visit sorts the second part into the first one, and takes hints from `begin` on. A block never
 * has more than HWT_BLOCK_MAX hints, so nothing that is done to a block takes long, but to sort it
 * without memory for that, which takes milliseconds.
 *
 * Rounds are compared as they are counted from a base that no hint of the block is before.
 *
 * Worker only. *bytes follows the memory held.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/base/assert.h"
#include "hwt/wheel/hint.h"

#ifndef HWT_BLOCK_MAX
#define HWT_BLOCK_MAX 4096 /* hints: some 20 microseconds to sort */
#endif
#define HWT_BLOCK_MIN 4 /* an empty one keeps this much, to spare the allocator */

struct hwt_block {
    struct hwt_hint *hints;
    uint32_t begin;
    uint32_t sorted;
    uint32_t used;
    uint32_t capacity;
    uint32_t least; /* of its rounds, if it has hints */
};

static inline uint32_t hwt_block_count(const struct hwt_block *block)
{
    return block->used - block->begin;
}

/* What holds whenever no function here is at work on it. */
static inline bool hwt_block_is_whole(const struct hwt_block *block)
{
    return block->begin <= block->sorted && block->sorted <= block->used &&
           block->used <= block->capacity && block->capacity <= HWT_BLOCK_MAX;
}

/* Another array, for so many hints. -ENOMEM: nothing has changed. */
int hwt_block_resize(struct hwt_block *block, uint32_t capacity, size_t *bytes);

/* Room for one more, of fewer than HWT_BLOCK_MAX. -ENOMEM: nothing has changed. */
int hwt_block_grow(struct hwt_block *block, size_t *bytes);

/* All of it is sorted. */
void hwt_block_order(struct hwt_block *block, uint32_t base);

/* After hints of the least round were taken from a sorted block: the next round is the least, and
 * what is much more memory than it needs goes back. */
void hwt_block_leave(struct hwt_block *block, size_t *bytes);

/* After some were thrown away: the same, of a block that may not be sorted. A copy costs little
 * more than the looks at them, so memory goes back sooner. */
void hwt_block_fit(struct hwt_block *block, uint32_t base, size_t *bytes);

/* What is between `to` and `from` is gone. */
void hwt_block_close(struct hwt_block *block, uint32_t to, uint32_t from);

/* Moves all hints of the next block to the end of this one, if they are few enough. */
bool hwt_block_join(struct hwt_block *block, struct hwt_block *next, uint32_t base, size_t *bytes);

/* Forgets all, and keeps little memory, or none. */
void hwt_block_empty(struct hwt_block *block, size_t *bytes);
void hwt_block_release(struct hwt_block *block, size_t *bytes);

#endif
