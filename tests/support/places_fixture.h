/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_PLACES_FIXTURE_H
#define HWT_TESTS_PLACES_FIXTURE_H

/*
 * Ids for a pieces, and their places, without a pool: slabs that have nothing else, and whose
 * numbers have gaps.
 */

#include "hwt/wheel/wheel.h"
#include "pieces_kit.h"
#include "unit.h"

enum { PLACES_A_SLAB = 1000, PLACES_STEP = 31, PLACES_SLABS = 8 };

struct places {
    struct hwt_directory directory;
    struct hwt_pieces pieces; /* for hints */
    struct hwt_site sites[PLACES_SLABS];
};

/* The id of the i-th, and which one it is. */
static inline uint32_t places_id(uint32_t i)
{
    return i / PLACES_A_SLAB * PLACES_STEP << HWT_ID_BITS | i % PLACES_A_SLAB;
}

static inline uint32_t places_number(uint32_t id)
{
    return (id >> HWT_ID_BITS) / PLACES_STEP * PLACES_A_SLAB +
           (id & (((uint32_t)1 << HWT_ID_BITS) - 1));
}

static inline void places_open(struct places *places, uint32_t count)
{
    memset(places, 0, sizeof(*places));
    must(count <= PLACES_A_SLAB * PLACES_SLABS);
    must(hwt_directory_init(&places->directory, 0) == 0);
    pieces_open(&places->pieces);
    must(hwt_directory_reserve(&places->directory, PLACES_SLABS * PLACES_STEP));
    for (uint32_t slab = 0; slab * PLACES_A_SLAB < count; slab++) {
        places->sites[slab].base = calloc(PLACES_A_SLAB, sizeof(struct hwt_place));
        must(places->sites[slab].base);
        hwt_directory_enter(&places->directory, slab * PLACES_STEP, &places->sites[slab]);
    }
}

static inline void places_close(struct places *places)
{
    hwt_directory_destroy(&places->directory);
    hwt_pieces_destroy(&places->pieces);
    for (unsigned slab = 0; slab < PLACES_SLABS; slab++)
        free(places->sites[slab].base);
}

static inline struct hwt_place *place_of(const struct places *places, uint32_t i)
{
    return hwt_directory_place(&places->directory, places_id(i));
}

/* Files an id for a tick; and as the worker does when an id is not to be filed any more. */
static inline int hwt_wheel_file(struct hwt_wheel *wheel, uint32_t id, uint64_t tick)
{
    const struct hwt_sites *sites = hwt_directory_sites(wheel->directory);
    const struct hwt_site *site = hwt_sites_at(sites, id >> HWT_ID_BITS);
    struct hwt_place *place = hwt_site_place(sites, site, id);
    return hwt_wheel_file_at(wheel, place, id, hwt_site_generation(site, place), tick);
}

static inline void hwt_wheel_drop(const struct hwt_wheel *wheel, uint32_t id)
{
    hwt_directory_place(wheel->directory, id)->where = 0;
}

#endif
