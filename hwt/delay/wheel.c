/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The wheel of files: which slot a message belongs to.
 *
 * A slot is 2^shift nanoseconds long, and there is one wheel for each shift, from about a second
 * on. A message that is d ahead goes to the slot whose length is between d / 32 and d / 16. So
 * each wheel has at most 32 slots in use, a checkpoint writes to at most 16 of each, and what
 * a slot still holds of the past, because a file is deleted as a whole only, is at most a sixteenth
 * of what was put as far ahead. A message never moves from a slot to another: it is read
 * from the slot it was put in, together with whatever the shorter slots have for that time.
 *
 * What is overdue already when it is written goes to slots of 8 s or more, so that a long
 * absence of consumers does not make a file for each second.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/store.h"

#define SHIFT_MIN 30
#define SHIFT_OVERDUE 33
#define PARTS_SHIFT 4

static unsigned log2_of(uint64_t n)
{
    return n == 0 ? 0 : 63 - (unsigned)__builtin_clzll(n);
}

unsigned hwt_delay_wheel_shift(uint64_t due, uint64_t now)
{
    if (due <= now) {
        unsigned shift = log2_of(now - due);
        return shift < SHIFT_OVERDUE ? SHIFT_OVERDUE : shift;
    }
    unsigned ahead = log2_of(due - now);
    return ahead < SHIFT_MIN + PARTS_SHIFT ? SHIFT_MIN : ahead - PARTS_SHIFT;
}

uint64_t hwt_delay_slot_start(const struct hwt_delay_slot *slot)
{
    return slot->index << slot->shift;
}

uint64_t hwt_delay_slot_last(const struct hwt_delay_slot *slot)
{
    return hwt_delay_slot_start(slot) + ((UINT64_C(1) << slot->shift) - 1);
}

/* The one to which can be appended. */
struct hwt_delay_slot *hwt_delay_wheel_find(hwt_delay *store, unsigned shift, uint64_t index)
{
    for (size_t i = 0; i < store->slot_count; i++) {
        struct hwt_delay_slot *slot = store->slots[i];
        if (slot->index == index && slot->shift == shift && !slot->sealed)
            return slot;
    }
    return NULL;
}

int hwt_delay_wheel_add(hwt_delay *store, struct hwt_delay_slot *slot)
{
    if (store->slot_count == store->slot_room) {
        size_t room = store->slot_room ? 2 * store->slot_room : 64;
        struct hwt_delay_slot **slots = realloc(store->slots, room * sizeof(*slots));
        if (!slots)
            return -ENOMEM;
        store->slots = slots;
        store->slot_room = room;
    }
    store->slots[store->slot_count++] = slot;
    return 0;
}

void hwt_delay_wheel_remove(hwt_delay *store, struct hwt_delay_slot *slot)
{
    for (size_t i = 0; i < store->slot_count; i++) {
        if (store->slots[i] == slot) {
            store->slots[i] = store->slots[--store->slot_count];
            return;
        }
    }
}

bool hwt_delay_wheel_covers(const hwt_delay *store, uint64_t due)
{
    for (size_t i = 0; i < store->slot_count; i++) {
        if (due >> store->slots[i]->shift == store->slots[i]->index)
            return true;
    }
    return false;
}

/* For a reading of the caller's own, without the lock. What belongs to a checkpoint that is being
 * made, or to who reads slots, is left out: they change it without the lock. */
struct hwt_delay_slot hwt_delay_slot_copy(const struct hwt_delay_slot *slot)
{
    return (struct hwt_delay_slot){
        .number = slot->number,
        .index = slot->index,
        .shift = slot->shift,
        .length = slot->length,
        .position = slot->position,
        .reader.position = slot->position,
    };
}

void hwt_delay_slot_free(struct hwt_delay_slot *slot)
{
    if (slot)
        free(slot->reader.runs);
    free(slot);
}

/* For whoever may touch the reader: which due times can be there, as far as it knows. */
void hwt_delay_slot_bounds(struct hwt_delay_slot *slot, struct hwt_delay_key loaded)
{
    uint64_t start = hwt_delay_slot_start(slot), next = HWT_NEVER, highest = 0;
    if (start < loaded.due)
        start = loaded.due;
    for (size_t i = 0; i < slot->reader.count; i++) {
        const struct hwt_delay_run *run = &slot->reader.runs[i];
        if (run->next < run->end && run->first.due < next)
            next = run->first.due;
        if (run->last.due > highest)
            highest = run->last.due;
    }
    bool known = slot->reader.indexed >= slot->length;
    slot->next = known && next > start ? next : start;
    uint64_t last = hwt_delay_slot_last(slot);
    slot->highest = known && highest < last ? highest : last;
}

uint64_t hwt_delay_wheel_next(const hwt_delay *store)
{
    uint64_t next = HWT_NEVER;
    for (size_t i = 0; i < store->slot_count; i++) {
        const struct hwt_delay_slot *slot = store->slots[i];
        if (hwt_delay_slot_last(slot) >= store->loaded.due && slot->next < next)
            next = slot->next;
    }
    return next;
}
