/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DIRECTORY_H
#define HWT_DIRECTORY_H

/*
 * Ids, and where in the store each of them is.
 *
 * Timeouts are known to the store by ids of 32 bits: the number of a slab, and a place in it. The
 * directory finds a slab by its number: an array for all that there can be, of which only what is
 * used is memory, so that it never moves. Each slab has an array of places besides what its owner
 * keeps there: what the store knows of its ids. A place that was never used is zero.
 *
 * A slab is entered before any id of it is given to the store, and stays. Places are the
 * worker's alone.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HWT_ID_NONE UINT32_MAX
#define HWT_ID_BITS 11 /* of an id: the place in the slab */
#define HWT_ID_PLACE (((uint32_t)1 << HWT_ID_BITS) - 1)
/* Numbers are less than that, so HWT_ID_NONE is none of their ids. Where an address has 32 bits,
 * there is no room for more. */
#define HWT_SLABS_MAX (((uint32_t)1 << (sizeof(void *) == 4 ? 16 : 32 - HWT_ID_BITS)) - 64)

struct hwt_slot {
    _Atomic(char *) base; /* the slab; NULL: none yet */
    uint64_t floor;       /* generations of its ids are above it, and counted from it */
    /* These are its owner's: see core/slab.h and core/trim.h. */
    _Atomic uint32_t
        next;       /* empty: a slab; else, of the entries that the worker holds, the first */
    uint16_t held;  /* how many those are */
    uint8_t region; /* of so many slabs it is the first */
    _Atomic bool empty;
};

struct hwt_directory {
    struct hwt_slot *slots; /* HWT_SLABS_MAX of them at most */
    size_t places;          /* their offset in a slab */
};

struct hwt_place {
    uint32_t generation; /* the caller's, counted from the floor of the slab */
    uint32_t where;      /* it is filed, in the store's own terms; 0: nowhere */
};

static inline char *hwt_slot_base(const struct hwt_slot *slot)
{
    /* Relaxed: a thread that has an id got it from one that had seen the slab. */
    return atomic_load_explicit(&slot->base, memory_order_relaxed);
}

static inline struct hwt_place *hwt_slot_place(const struct hwt_directory *directory,
                                               const struct hwt_slot *slot, uint32_t id)
{
    return (struct hwt_place *)(void *)(hwt_slot_base(slot) + directory->places) +
           (id & HWT_ID_PLACE);
}

static inline struct hwt_place *hwt_directory_place(const struct hwt_directory *directory,
                                                    uint32_t id)
{
    return hwt_slot_place(directory, &directory->slots[id >> HWT_ID_BITS], id);
}

/* The generation of an id's place, as hints have it: not counted from anything, so that a hint does
 * not count any more when the slab was emptied and is used again. */
static inline uint32_t hwt_directory_generation(const struct hwt_directory *directory,
                                                const struct hwt_place *place, uint32_t id)
{
    return place->generation + (uint32_t)directory->slots[id >> HWT_ID_BITS].floor;
}

#endif
