/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_BUCKET_MALLOC_H
#define HWT_TESTS_BUCKET_MALLOC_H

/*
 * bucket.c and block.c are included, so that their malloc() can be refused; the linker then leaves
 * out the library's own. Blocks are small, so that a few hundred hints are in several.
 */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/wheel/hint.h"

static bool refuse;
static unsigned refused;
static uint64_t sorted; /* hints */
static uint64_t moved;  /* bytes, also for new arrays */

static void *may_malloc(size_t size)
{
    refused += refuse;
    moved += size;
    return refuse ? NULL : malloc(size);
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
#define malloc may_malloc
#define memcpy counted_memcpy
#define memmove counted_memmove
#define hwt_hints_sort counted_sort
#include "hwt/wheel/block.c"
#include "hwt/wheel/bucket.c"
#undef malloc
#undef memcpy
#undef memmove
#undef hwt_hints_sort

static inline size_t memory_of(const struct hwt_bucket *bucket)
{
    size_t memory = bucket->full_capacity * sizeof(struct hwt_block);
    for (uint32_t i = 0; i <= bucket->full_count; i++)
        memory += hwt_bucket_block(bucket, i)->capacity * sizeof(struct hwt_hint);
    return memory;
}

#endif
