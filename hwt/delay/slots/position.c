/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Positions say how far each sealed slot has been dealt with, for any number of slots at the cost
 * of one.
 *
 * All slots that are sealed have the same position at an instant, which is the lowest key that is
 * left. A slot's position is the highest that there was since the slot was sealed, because that
 * lowest key may go down. A message that is put later is in no slot that is sealed already.
 *
 * So one list is kept for all slots. Time is divided into epochs; a slot is sealed at the beginning
 * of one. A floor is the highest position in some epochs that follow each other. A floor that is
 * not higher than a later one says nothing, and is dropped. So floors get lower from the
 * oldest to the newest, and a slot's position is that of the first floor which is not older than
 * the slot's seal. There is rarely more than one.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

/* Room for the floor of a new epoch, so that hwt_delay_positions_raise() cannot fail. -ENOMEM */
int hwt_delay_epoch_begin(hwt_delay *store)
{
    struct hwt_delay_positions *positions = &store->slots.positions;
    struct hwt_delay_floor *floors = hwt_delay_grown(positions->floors, positions->count + 1,
                                                     &positions->room, sizeof(*floors), 8);
    if (!floors)
        return -ENOMEM;
    positions->floors = floors;
    positions->epoch++;
    return 0;
}

/* From an epoch on nothing is appended. A loader may be reading the slot, so this does not look at its
 * reader, of which an empty slot has nothing. */
void hwt_delay_seal(hwt_delay *store, struct hwt_delay_slot *slot, uint64_t epoch)
{
    if (slot->sealed)
        return;
    slot->sealed = true;
    slot->since = epoch;
    RB_INSERT(hwt_delay_highests, &store->slots.wheel.highests, slot);
    if (slot->length == 0)
        hwt_delay_slot_bounds(store, slot);
}

/* All that is lower than `left` has been dealt with. */
void hwt_delay_positions_raise(hwt_delay *store, struct hwt_delay_key left)
{
    struct hwt_delay_positions *positions = &store->slots.positions;
    struct hwt_delay_slot *slot;
    while (positions->count > 0 &&
           hwt_delay_compare(positions->floors[positions->count - 1].position, left) <= 0)
        positions->count--;
    if (positions->count == 0 || positions->floors[positions->count - 1].until < positions->epoch)
        positions->floors[positions->count++] = (struct hwt_delay_floor){ positions->epoch, left };
    while ((slot = RB_MIN(hwt_delay_highests, &store->slots.wheel.highests)) &&
           slot->highest < left.due) {
        RB_REMOVE(hwt_delay_highests, &store->slots.wheel.highests, slot);
        slot->kept = hwt_delay_gap_in(store, slot);
        slot->passed = !slot->kept;
        if (!slot->passed)
            continue;
        store->slots.wheel.passed_bytes += slot->length;
        store->slots.wheel.passed_count++;
    }
}

struct hwt_delay_key hwt_delay_position(const hwt_delay *store, const struct hwt_delay_slot *slot)
{
    const struct hwt_delay_positions *positions = &store->slots.positions;
    size_t low = 0, high = slot->sealed ? positions->count : 0;
    size_t end = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (positions->floors[middle].until < slot->since)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < end && hwt_delay_compare(slot->position, positions->floors[low].position) < 0)
        return positions->floors[low].position;
    return slot->position;
}

/*
 * Moves the positions of the slots up to what is left, and drops tombstones that have done their
 * work. Called before anything can get in below, that is under the lock that takes messages out.
 */
void hwt_delay_positions_follow(hwt_delay *store)
{
    struct hwt_delay_record *first;
    while ((first = hwt_delay_first(store)) && first->kind == HWT_DELAY_TOMBSTONE &&
           hwt_delay_compare(first->key, hwt_delay_loaded(store)) < 0)
        hwt_delay_remove(store, first);
    struct hwt_delay_key left = hwt_delay_loaded(store);
    if (first && hwt_delay_compare(first->key, left) < 0)
        left = first->key;
    hwt_delay_positions_raise(store, left);
}

bool hwt_delay_gap_in(const hwt_delay *store, const struct hwt_delay_slot *slot)
{
    for (size_t i = 0; i < hwt_delay_gaps_of(store)->count; i++) {
        const struct hwt_delay_gap *gap = &hwt_delay_gaps_of(store)->all[i];
        if (gap->from.due <= hwt_delay_slot_last(slot) && hwt_delay_begins_below(slot, gap->to))
            return true;
    }
    return false;
}

uint64_t hwt_delay_epoch(const hwt_delay *store)
{
    return store->slots.positions.epoch;
}
