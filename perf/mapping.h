/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_MAPPING_H
#define HWT_PERF_MAPPING_H

/*
 * The one big array of a rival store: mapped pages, which the kernel lengthens and shortens
 * without copying them, huge ones where they pay, as the pool's slabs have them. Starts at
 * a page, so that what should share a cache line does.
 */

#include <stddef.h>
#include <sys/mman.h>

#define MAPPING_PAGE ((size_t)4096)
#define MAPPING_HUGE ((size_t)1 << 21)

static inline size_t mapping_round(size_t bytes)
{
    return (bytes + MAPPING_PAGE - 1) & ~(MAPPING_PAGE - 1);
}

/* Both sizes are of mapping_round(); from 0: makes it. NULL: no memory, nothing has changed. */
static inline void *mapping_resize(void *at, size_t from, size_t to)
{
    void *moved = from ? mremap(at, from, to, MREMAP_MAYMOVE)
                       : mmap(NULL, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (moved == MAP_FAILED)
        return NULL;
    if (to >= MAPPING_HUGE)
        (void)madvise(moved, to, MADV_HUGEPAGE); /* only ever faster */
    return moved;
}

#endif
