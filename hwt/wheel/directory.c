/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The array of slots, and how it grows. See directory.h. */

#include "hwt/wheel/directory.h"

#include <errno.h>
#include <stdlib.h>

#include "hwt/base/sched_point.h"

#define SLOTS_FIRST 64 /* slabs: 100000 timeouts */

static struct hwt_slot sealed;
#define SEALED (&sealed)

static struct hwt_slots *make_slots(uint32_t count, uint32_t places)
{
    struct hwt_slots *slots = calloc(1, sizeof(*slots) + count * sizeof(slots->at[0]));
    if (!slots)
        return NULL;
    slots->count = count;
    slots->places = places;
    return slots;
}

int hwt_directory_init(struct hwt_directory *directory, size_t places)
{
    directory->first = make_slots(SLOTS_FIRST, (uint32_t)places);
    atomic_init(&directory->slots, directory->first);
    return directory->first ? 0 : -ENOMEM;
}

void hwt_directory_destroy(struct hwt_directory *directory)
{
    for (struct hwt_slots *next, *slots = directory->first; slots; slots = next) {
        next = atomic_load_explicit(&slots->next, memory_order_relaxed);
        free(slots);
    }
}

/* The array that comes after this one. NULL: no memory. */
static struct hwt_slots *make_next(struct hwt_slots *slots)
{
    struct hwt_slots *next = atomic_load_explicit(&slots->next, memory_order_acquire);
    if (next)
        return next;
    struct hwt_slots *made = make_slots(2 * slots->count, slots->places);
    HWT_SCHED_POINT(DIRECTORY_NEXT);
    if (!made || atomic_compare_exchange_strong_explicit(
                     &slots->next, &next, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    free(made); /* another thread was sooner */
    return next;
}

/* Goes on to the next array. False: no memory, and nothing is sealed. */
static bool grow(struct hwt_directory *directory, struct hwt_slots *slots)
{
    struct hwt_slots *next = make_next(slots);
    if (!next)
        return false;
    for (uint32_t number = 0; number < slots->count; number++) {
        struct hwt_slot *slot = NULL;
        HWT_SCHED_POINT(DIRECTORY_SEAL);
        /* Acquire: the slot, which the exchange below publishes with the array. */
        if (!atomic_compare_exchange_strong_explicit(&slots->at[number], &slot, SEALED,
                                                     memory_order_acquire, memory_order_acquire) &&
            slot != SEALED)
            atomic_store_explicit(&next->at[number], slot, memory_order_relaxed);
    }
    HWT_SCHED_POINT(DIRECTORY);
    atomic_compare_exchange_strong_explicit(&directory->slots, &slots, next, memory_order_release,
                                            memory_order_relaxed);
    return true;
}

static struct hwt_slots *slots_of(const struct hwt_directory *directory)
{
    return atomic_load_explicit(&directory->slots, memory_order_acquire);
}

bool hwt_directory_reserve(struct hwt_directory *directory, uint32_t end)
{
    struct hwt_slots *slots;
    while ((slots = slots_of(directory))->count < end) {
        if (!grow(directory, slots))
            return false;
    }
    return true;
}

void hwt_directory_enter(struct hwt_directory *directory, uint32_t number, struct hwt_slot *slot)
{
    for (;;) {
        struct hwt_slots *slots = slots_of(directory);
        struct hwt_slot *none = NULL;
        HWT_ASSERT(number < slots->count && slot->base);
        HWT_SCHED_POINT(ENTER);
        /* Release: the slot. */
        if (atomic_compare_exchange_strong_explicit(&slots->at[number], &none, slot,
                                                    memory_order_release, memory_order_relaxed))
            return;
        (void)grow(directory, slots); /* what is sealed has a next one */
    }
}

struct hwt_slot *hwt_directory_find(const struct hwt_directory *directory, uint32_t number)
{
    const struct hwt_slots *slots = slots_of(directory);
    if (number >= slots->count)
        return NULL;
    /* Acquire: the slot. */
    struct hwt_slot *slot = atomic_load_explicit(&slots->at[number], memory_order_acquire);
    return slot == SEALED ? NULL : slot;
}

size_t hwt_directory_bytes(const struct hwt_directory *directory)
{
    const struct hwt_slots *slots = slots_of(directory);
    return (2 * (size_t)slots->count - SLOTS_FIRST) * sizeof(slots->at[0]);
}
