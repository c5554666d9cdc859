/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_BLOCK_H
#define HWT_BLOCK_H

/*
 * A block of a bucket's hints: an array in two parts.
 *
 *     begin .. sorted   in the order of rounds; hints of one round in the order of filing
 *     sorted .. used    came after these, in the order of filing
 *
 * A take sorts the second part into the first one, and takes hints from `begin` on. A block never
 * has more than HWT_BLOCK_MAX hints, so nothing that is done to a block takes long. The exception
 * is to sort it without memory for that, which takes milliseconds.
 *
 * Rounds are compared as they are counted from a base. No hint of the block is before the base.
 *
 * Worker only. The arrays are pieces.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hwt/base/assert.h"
#include "hwt/base/pieces.h"
#include "hwt/wheel/hint.h"

#ifndef HWT_BLOCK_MAX
#define HWT_BLOCK_MAX 2688 /* hints: half of a slab, and some 15 microseconds to sort */
#endif
#define HWT_BLOCK_MIN 4 /* hints: an empty block keeps room for them, to spare others */

struct hwt_block {
    struct hwt_hint *hints;
    uint32_t begin;
    uint32_t sorted;
    uint32_t used;
    uint32_t capacity;
    uint32_t least; /* the least of its rounds, if it has hints */
};

static inline uint32_t hwt_block_count(const struct hwt_block *block)
{
    return block->used - block->begin;
}

/* This holds whenever no function here is at work on the block. */
static inline bool hwt_block_is_whole(const struct hwt_block *block)
{
    return block->begin <= block->sorted && block->sorted <= block->used &&
           block->used <= block->capacity && block->capacity <= HWT_BLOCK_MAX;
}

/* Moves the hints to an array of this capacity, or somewhat more. -ENOMEM: nothing has changed. */
int hwt_block_resize(struct hwt_block *block, uint32_t capacity, struct hwt_pieces *pieces);

/* Makes room for one more hint, if there are fewer than HWT_BLOCK_MAX. -ENOMEM: nothing changed. */
int hwt_block_grow(struct hwt_block *block, struct hwt_pieces *pieces);

/* Sorts all of it. */
void hwt_block_order(struct hwt_block *block, uint32_t base, struct hwt_pieces *pieces);

/* After hints of the least round were taken from a sorted block: finds the next least round, and
 * frees memory that is much more than the block needs. */
void hwt_block_leave(struct hwt_block *block, struct hwt_pieces *pieces);

/* After hints were thrown away: the same, for a block that may not be sorted. A copy costs little
 * more than the looks at the hints, so memory is freed sooner. */
void hwt_block_fit(struct hwt_block *block, uint32_t base, struct hwt_pieces *pieces);

/* Moves the next block's hints to the end of this one. False: they are too many, or no memory. */
bool hwt_block_join(struct hwt_block *block, struct hwt_block *next, uint32_t base,
                    struct hwt_pieces *pieces);

/* Removes all hints. The first keeps little memory, the second none. */
void hwt_block_empty(struct hwt_block *block, struct hwt_pieces *pieces);
void hwt_block_release(struct hwt_block *block, struct hwt_pieces *pieces);

#endif
