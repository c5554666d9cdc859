/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The array of sites, and how it grows. See directory.h. */

#include "hwt/wheel/directory.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "hwt/base/sched_point.h"

#define SITES_FIRST 64 /* slabs: 100000 timeouts */

static struct hwt_site sealed;
#define SEALED (&sealed)

static size_t size_of(uint32_t count)
{
    return sizeof(struct hwt_sites) + count * sizeof(((struct hwt_sites *)NULL)->at[0]);
}

static struct hwt_sites *init_sites(struct hwt_sites *sites, uint32_t count, uint32_t places)
{
    if (!sites)
        return NULL;
    sites->count = count;
    sites->places = places;
    return sites;
}

int hwt_directory_init(struct hwt_directory *directory, size_t places)
{
    directory->first = init_sites(calloc(1, size_of(SITES_FIRST)), SITES_FIRST, (uint32_t)places);
    atomic_init(&directory->sites, directory->first);
    return directory->first ? 0 : -ENOMEM;
}

void hwt_directory_destroy(struct hwt_directory *directory)
{
    for (struct hwt_sites *next, *sites = directory->first; sites; sites = next) {
        next = atomic_load_explicit(&sites->next, memory_order_relaxed);
        if (sites == directory->first)
            free(sites);
        else
            munmap(sites, size_of(sites->count));
    }
}

/* Mapped: malloc() may wait for another thread. */
static struct hwt_sites *map_sites(uint32_t count, uint32_t places)
{
    void *sites =
        mmap(NULL, size_of(count), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return sites != MAP_FAILED ? init_sites(sites, count, places) : NULL;
}

/* The array that comes after this one. NULL: no memory. */
static struct hwt_sites *make_next(struct hwt_sites *sites)
{
    struct hwt_sites *next = atomic_load_explicit(&sites->next, memory_order_acquire);
    if (next)
        return next;
    struct hwt_sites *made = map_sites(2 * sites->count, sites->places);
    HWT_SCHED_POINT(DIRECTORY_NEXT);
    if (!made || atomic_compare_exchange_strong_explicit(
                     &sites->next, &next, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    munmap(made, size_of(made->count)); /* another thread was sooner */
    return next;
}

/* Goes on to the next array. False: no memory, and nothing is sealed. */
static bool grow(struct hwt_directory *directory, struct hwt_sites *sites)
{
    struct hwt_sites *next = make_next(sites);
    if (!next)
        return false;
    for (uint32_t number = 0; number < sites->count; number++) {
        struct hwt_site *site = NULL;
        HWT_SCHED_POINT(DIRECTORY_SEAL);
        /* Acquire: the site, which the exchange below publishes with the array. */
        if (!atomic_compare_exchange_strong_explicit(&sites->at[number], &site, SEALED,
                                                     memory_order_acquire, memory_order_acquire) &&
            site != SEALED)
            atomic_store_explicit(&next->at[number], site, memory_order_relaxed);
    }
    HWT_SCHED_POINT(DIRECTORY);
    atomic_compare_exchange_strong_explicit(&directory->sites, &sites, next, memory_order_release,
                                            memory_order_relaxed);
    return true;
}

bool hwt_directory_reserve(struct hwt_directory *directory, uint32_t end)
{
    struct hwt_sites *sites;
    while ((sites = hwt_directory_sites(directory))->count < end) {
        if (!grow(directory, sites))
            return false;
    }
    return true;
}

void hwt_directory_enter(struct hwt_directory *directory, uint32_t number, struct hwt_site *site)
{
    for (;;) {
        struct hwt_sites *sites = hwt_directory_sites(directory);
        struct hwt_site *none = NULL;
        HWT_ASSERT(number < sites->count && site->base);
        HWT_SCHED_POINT(ENTER);
        /* Release: the site. */
        if (atomic_compare_exchange_strong_explicit(&sites->at[number], &none, site,
                                                    memory_order_release, memory_order_relaxed))
            return;
        (void)grow(directory, sites); /* an array with a sealed pointer has a next one */
    }
}

struct hwt_site *hwt_directory_find(const struct hwt_directory *directory, uint32_t number)
{
    const struct hwt_sites *sites = hwt_directory_sites(directory);
    if (number >= sites->count)
        return NULL;
    /* Acquire: the site. */
    struct hwt_site *site = atomic_load_explicit(&sites->at[number], memory_order_acquire);
    return site == SEALED ? NULL : site;
}

size_t hwt_directory_bytes(const struct hwt_directory *directory)
{
    const struct hwt_sites *sites = hwt_directory_sites(directory);
    return (2 * (size_t)sites->count - SITES_FIRST) * sizeof(sites->at[0]);
}
