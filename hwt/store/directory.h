/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DIRECTORY_H
#define HWT_DIRECTORY_H

/*
 * Ids, and where in the store each of them is.
 *
 * Timeouts are known to the store by ids of 32 bits: the number of a slab, and a place in it. The
 * directory finds a slab by its number; it grows by pages, each twice as long as the one before,
 * and never moves. Each slab has an array of places besides what its owner keeps there: what the
 * store knows of its ids. A place that was never used is zero.
 *
 * A slab is entered before any id of it is given to the store, and stays. Places are the
 * worker's alone.
 */

#include <stdatomic.h>
#include <stdint.h>

#define HWT_ID_NONE UINT32_MAX
#define HWT_ID_BITS 11       /* of an id: the place in the slab */
#define HWT_DIRECTORY_BITS 6 /* the first page has 2^6 slabs */
#define HWT_DIRECTORY_PAGES 15
/* Numbers are less than that: what the pages have. HWT_ID_NONE is none of their ids. */
#define HWT_SLABS_MAX (((uint32_t)1 << (32 - HWT_ID_BITS)) - ((uint32_t)1 << HWT_DIRECTORY_BITS))

struct hwt_slot {
    _Atomic(char *) base;  /* the slab; NULL: none yet */
    uint64_t floor;        /* this and the next ones are what its owner keeps with it */
    _Atomic uint32_t next; /* slab */
    uint32_t region;       /* of so many slabs it is the first */
};

struct hwt_directory {
    _Atomic(struct hwt_slot *) pages[HWT_DIRECTORY_PAGES];
    size_t places; /* their offset in a slab */
};

struct hwt_place {
    uint32_t generation; /* the caller's */
    uint32_t where;      /* it is filed, in the store's own terms; 0: nowhere */
};

static inline struct hwt_slot *hwt_directory_slot(const struct hwt_directory *directory,
                                                  uint32_t number)
{
    uint32_t shifted = number + ((uint32_t)1 << HWT_DIRECTORY_BITS);
    unsigned power = 31 - (unsigned)__builtin_clz(shifted);
    /* Relaxed: who has an id got it from a thread that had seen the page. */
    return atomic_load_explicit(&directory->pages[power - HWT_DIRECTORY_BITS],
                                memory_order_relaxed) +
           (shifted - ((uint32_t)1 << power));
}

static inline struct hwt_place *hwt_slot_place(const struct hwt_directory *directory,
                                               const struct hwt_slot *slot, uint32_t id)
{
    /* Relaxed: as for the page. */
    char *base = atomic_load_explicit(&slot->base, memory_order_relaxed);
    return (struct hwt_place *)(void *)(base + directory->places) +
           (id & (((uint32_t)1 << HWT_ID_BITS) - 1));
}

static inline struct hwt_place *hwt_directory_place(const struct hwt_directory *directory,
                                                    uint32_t id)
{
    return hwt_slot_place(directory, hwt_directory_slot(directory, id >> HWT_ID_BITS), id);
}

#endif
