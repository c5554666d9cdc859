/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_BUCKET_MALLOC_H
#define HWT_TESTS_BUCKET_MALLOC_H

/*
 * bucket.c and block.c are included, so that their memory can be refused; the linker then leaves
 * out the library's own. Blocks are small, so that a few hundred hints are in several.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/wheel/hint.h"
#include "pieces_kit.h"

static bool refuse;
static unsigned refused;
static uint64_t sorted; /* hints */
static uint64_t moved;  /* bytes, also for new arrays */

static struct hwt_pieces all_pieces;

static void *may_take(struct hwt_pieces *from, unsigned kind)
{
    refused += refuse;
    moved += hwt_pieces_size(kind);
    return refuse ? NULL : hwt_pieces_take(from, kind);
}

static inline void *counted_memcpy(void *to, const void *from, size_t size)
{
    moved += size;
    return memcpy(to, from, size);
}

static inline void *counted_memmove(void *to, const void *from, size_t size)
{
    moved += size;
    return memmove(to, from, size);
}

static inline void counted_sort(struct hwt_hint *hints, uint32_t n, uint32_t base,
                                struct hwt_hint *other)
{
    sorted += n;
    hwt_hints_sort(hints, n, base, other);
}

#define HWT_BLOCK_MAX 256
#define hwt_pieces_take may_take
#define memcpy counted_memcpy
#define memmove counted_memmove
#define hwt_hints_sort counted_sort
#include "hwt/wheel/block.c"
#include "hwt/wheel/bucket.c"
#undef hwt_pieces_take
#undef memcpy
#undef memmove
#undef hwt_hints_sort

static inline size_t bytes_held(void)
{
    return pieces_held(&all_pieces);
}

static inline size_t size_of_piece(size_t size)
{
    return size > 0 ? hwt_pieces_size(hwt_pieces_kind(size)) : 0;
}

static inline size_t memory_of(const struct hwt_bucket *bucket)
{
    size_t memory = size_of_piece(bucket->full_capacity * sizeof(struct hwt_block));
    for (uint32_t i = 0; i <= bucket->full_count; i++)
        memory += size_of_piece(hwt_bucket_block(bucket, i)->capacity * sizeof(struct hwt_hint));
    return memory;
}

static inline void open_pieces(void)
{
    hwt_pieces_destroy(&all_pieces);
    pieces_open(&all_pieces);
}

#endif
