/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DIRECTORY_H
#define HWT_DIRECTORY_H

/*
 * Ids, and for each of them where it is filed.
 *
 * The wheel knows a timeout by an id of 32 bits: the number of a slab, and a seat in it. The
 * directory finds the site of a slab by its number, in an array of pointers, one for each site. A
 * site stays where it is. Each slab has an array of places besides its seats: they hold what the
 * wheel knows of its ids. A place that was never used is zero.
 *
 * A site is entered before any id of its slab is given to the wheel, and stays. Places are the
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
 * that enters a site, and finds its pointer sealed, copies too, and goes on in the next array. It
 * needs no memory for that, and waits for nobody.
 *
 * A reader loads the array by acquire, so it sees all that was copied. A thread that has an id got
 * it from a thread that had seen the site entered. So the array that it loads is that one or a
 * later one, the pointer is there, and relaxed is enough to read it. Old arrays serve readers that
 * have loaded them, until the directory is destroyed. Together they are smaller than the last one.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/base/assert.h"

#define HWT_ID_NONE UINT32_MAX
#define HWT_ID_BITS 11 /* of an id: the seat */
#define HWT_ID_SEAT (((uint32_t)1 << HWT_ID_BITS) - 1)
/* 64 less than there could be, so HWT_ID_NONE is no id. Addresses of 32 bits have room for 2^16. */
#define HWT_SLABS_MAX (((uint32_t)1 << (sizeof(void *) == 4 ? 16 : 32 - HWT_ID_BITS)) - 64)

struct hwt_site {
    char *base;     /* the slab; set before it is entered */
    uint64_t floor; /* generations of its entries are above it, and places count them from it */
    /* These are the pool's: see pool/slab.h and pool/trim.h. */
    _Atomic uint64_t next_empty; /* an empty slab is on a stack by it */
    uint32_t number;             /* of the slab */
    uint32_t first_held;         /* of the entries that a trim holds: the first one's id */
    uint16_t held;               /* how many those are */
    uint8_t region;              /* of so many slabs it is the first */
    bool stays;                  /* a trim has found a timeout that has not ended */
    _Atomic bool empty;
};

struct hwt_sites {
    _Atomic(struct hwt_sites *) next;
    uint32_t count;
    uint32_t places; /* offset of the array of places in a slab */
    _Atomic(struct hwt_site *) at[];
};

struct hwt_directory {
    _Atomic(struct hwt_sites *) sites;
    struct hwt_sites *first; /* the oldest array; `next` leads to the others */
};

struct hwt_place {
    uint32_t generation; /* was filed last; counted from the floor */
    uint32_t where;      /* it is filed, in the wheel's own terms; 0: nowhere */
};

/* 0 or -ENOMEM. */
int hwt_directory_init(struct hwt_directory *directory, size_t places);

/* Frees the arrays, not the sites. */
void hwt_directory_destroy(struct hwt_directory *directory);

/* Makes room for the numbers before `end`. False: no memory. Lock-free, as the next one. */
bool hwt_directory_reserve(struct hwt_directory *directory, uint32_t end);

/* Enters the site of a number for which there is room, once. */
void hwt_directory_enter(struct hwt_directory *directory, uint32_t number, struct hwt_site *site);

/* For a walk by numbers, which may come before the site is entered: NULL. */
struct hwt_site *hwt_directory_find(const struct hwt_directory *directory, uint32_t number);

/* How many bytes the arrays take. Any thread. */
size_t hwt_directory_bytes(const struct hwt_directory *directory);

/* The array. It has the sites of all ids that the caller has by now. */
static inline struct hwt_sites *hwt_directory_sites(const struct hwt_directory *directory)
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

static inline struct hwt_place *hwt_directory_place(const struct hwt_directory *directory,
                                                    uint32_t id)
{
    const struct hwt_sites *sites = hwt_directory_sites(directory);
    return hwt_site_place(sites, hwt_sites_at(sites, id >> HWT_ID_BITS), id);
}

/* The low bits of the generation of a place, as hints have it. It is not counted from the floor, so
 * a hint does not count any more when the slab was emptied and is used again. */
static inline uint32_t hwt_site_generation(const struct hwt_site *site,
                                           const struct hwt_place *place)
{
    return place->generation + (uint32_t)site->floor;
}

#endif
