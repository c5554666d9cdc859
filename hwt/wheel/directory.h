/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DIRECTORY_H
#define HWT_DIRECTORY_H

/*
 * Ids, and where in the store each of them is.
 *
 * Timeouts are known to the store by ids of 32 bits: the number of a slab, and a place in it. The
 * directory finds a slab by its number: an array of pointers to sites, one for each slab. A site
 * stays where it is. Each slab has an array of places besides what its owner keeps there: what the
 * store knows of its ids. A place that was never used is zero.
 *
 * A slab is entered before any id of it is given to the store, and stays. Places are the
 * worker's alone.
 *
 * THE ARRAY GROWS BY COPYING, without a lock.
 *
 *     directory->sites   the array of today. A thread that has copied all of it to the next one
 *                        exchanges it (release)
 *     next               of an array: the one to come, of twice the size. A thread that needs it
 *                        sets it by an exchange (release), before it seals anything
 *     at[n]              NULL to a site: the thread that enters this (release). NULL to SEALED: a
 *                        thread that copies. It does not change after that
 *
 * A thread that copies seals each pointer that is NULL. So after its walk nothing in the old array
 * changes any more, and it does not matter which thread has copied it, nor that two do. A thread
 * that enters a site, and finds its pointer sealed, copies too, and goes on in the next array: it
 * needs no memory for that, and waits for nobody.
 *
 * A reader loads the array by acquire, so it sees all that was copied. A thread that has an id got
 * it from one that had seen the slab entered: so the array that it loads is that one or a later one,
 * and the pointer is there; relaxed is enough for this. Old arrays serve readers that have loaded
 * them, until the directory is destroyed. Together they are smaller than the last one.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/base/assert.h"

#define HWT_ID_NONE UINT32_MAX
#define HWT_ID_BITS 11 /* of an id: the place in the slab */
#define HWT_ID_SEAT (((uint32_t)1 << HWT_ID_BITS) - 1)
/* Numbers are less than that, so HWT_ID_NONE is none of their ids. Where an address has 32 bits,
 * there is no room for more. */
#define HWT_SLABS_MAX (((uint32_t)1 << (sizeof(void *) == 4 ? 16 : 32 - HWT_ID_BITS)) - 64)

struct hwt_site {
    char *base;     /* the slab; set before it is entered */
    uint64_t floor; /* generations of its ids are above it, and counted from it */
    /* These are the pool's: see pool/stacks.h and pool/trim.h. */
    _Atomic uint32_t next_empty; /* of an empty slab: the number of the one below it */
    uint32_t first_held;         /* of the entries that a trim holds: the first one's id */
    uint16_t held;               /* how many those are */
    uint8_t region;              /* of so many slabs it is the first */
    bool stays;                  /* a trim has found a timeout that has not ended */
    _Atomic bool empty;
};

struct hwt_sites {
    _Atomic(struct hwt_sites *) next;
    uint32_t count;
    uint32_t places; /* their offset in a slab */
    _Atomic(struct hwt_site *) at[];
};

struct hwt_directory {
    _Atomic(struct hwt_sites *) sites;
    struct hwt_sites *first; /* of all arrays */
};

struct hwt_place {
    uint32_t generation; /* the caller's, counted from the floor of the slab */
    uint32_t where;      /* it is filed, in the store's own terms; 0: nowhere */
};

/* 0 or -ENOMEM. */
int hwt_directory_init(struct hwt_directory *directory, size_t places);

/* Frees the arrays. The sites are the caller's. */
void hwt_directory_destroy(struct hwt_directory *directory);

/* Room for the numbers before `end`. False: no memory. Lock-free, as the next one. */
bool hwt_directory_reserve(struct hwt_directory *directory, uint32_t end);

/* Enters the site of a number for which there is room, once. */
void hwt_directory_enter(struct hwt_directory *directory, uint32_t number, struct hwt_site *site);

/* For a walk by numbers, which may be ahead of the thread that enters the slab: NULL, not yet. */
struct hwt_site *hwt_directory_find(const struct hwt_directory *directory, uint32_t number);

/* Bytes of the arrays. Any thread. */
size_t hwt_directory_bytes(const struct hwt_directory *directory);

/* The array, for the ids that the caller has by now. */
static inline const struct hwt_sites *hwt_directory_sites(const struct hwt_directory *directory)
{
    return atomic_load_explicit(&directory->sites, memory_order_acquire);
}

static inline struct hwt_site *hwt_sites_at(const struct hwt_sites *sites, uint32_t number)
{
    HWT_ASSERT(number < sites->count);
    return atomic_load_explicit(&sites->at[number], memory_order_relaxed);
}

static inline struct hwt_place *hwt_site_place(const struct hwt_sites *sites,
                                               const struct hwt_site *site, uint32_t id)
{
    return (struct hwt_place *)(void *)(site->base + sites->places) + (id & HWT_ID_SEAT);
}

static inline struct hwt_place *hwt_sites_place(const struct hwt_sites *sites, uint32_t id)
{
    return hwt_site_place(sites, hwt_sites_at(sites, id >> HWT_ID_BITS), id);
}

static inline struct hwt_place *hwt_directory_place(const struct hwt_directory *directory,
                                                    uint32_t id)
{
    return hwt_sites_place(hwt_directory_sites(directory), id);
}

/* The generation of an id's place, as hints have it: not counted from anything, so that a hint does
 * not count any more when the slab was emptied and is used again. */
static inline uint32_t hwt_sites_generation(const struct hwt_sites *sites,
                                            const struct hwt_place *place, uint32_t id)
{
    return place->generation + (uint32_t)hwt_sites_at(sites, id >> HWT_ID_BITS)->floor;
}

#endif
