/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drops, and the slots that have something under them. See table/drops.c. */

#include "hwt/delay/whole.h"

/* All in it. Records in a gap stay where they are, whatever they are. */
bool hwt_delay_slot_is_dropped(const hwt_delay *store, const struct hwt_delay_slot *slot)
{
    const struct hwt_delay_key last = { slot->last, slot->newest };
    return hwt_delay_drops_of(store)->count > 0 && slot->length > 0 &&
           hwt_delay_is_dropped(store, last) && !hwt_delay_gap_in(store, slot);
}

/* Something in a slot may be under it. The position says nothing of what is in a gap. */
static bool is_needed(const hwt_delay *store, const struct hwt_delay_record *drop)
{
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        if (slot->new_length > 0 && hwt_delay_slot_start(slot) <= drop->key.due &&
            (hwt_delay_position(store, slot).due <= drop->key.due || hwt_delay_gap_in(store, slot)))
            return true;
    }
    return false;
}

/* With the snapshot of a checkpoint, for which slots alone may have what is under them. It names
 * those that have a new length. */
void hwt_delay_drops_snapshot(hwt_delay *store)
{
    const struct hwt_delay_drops *drops = hwt_delay_drops_of(store);
    for (size_t i = 0; i < drops->count; i++)
        drops->all[i]->needed = is_needed(store, drops->all[i]);
}

/* How much the next checkpoint would delete. */
static void count_dropped(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    store->slots.dropped_bytes = store->slots.dropped_count = 0;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        if (slot->passed || !hwt_delay_slot_is_dropped(store, slot))
            continue;
        store->slots.dropped_bytes += slot->length;
        store->slots.dropped_count++;
    }
}

size_t hwt_delay_dropped_count(const hwt_delay *store)
{
    return store->slots.dropped_count;
}

uint64_t hwt_delay_dropped_bytes(const hwt_delay *store)
{
    return store->slots.dropped_bytes;
}

/* Takes over the caller's reference. Messages under it are not pending from now on. */
void hwt_delay_drop(hwt_delay *store, struct hwt_delay_record *drop)
{
    hwt_delay_drops_add(store, drop);
    hwt_delay_positions_follow(store);
    count_dropped(store);
}

/* The numbers of what slots have follow. */
void hwt_delay_drops_settle(hwt_delay *store)
{
    bool left[HWT_DELAY_SPANS_MAX] = { false };
    const struct hwt_delay_slot *slot;
    if (hwt_delay_drops_of(store)->count == 0)
        return;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        if (slot->new_length > 0)
            hwt_delay_filed_mark(store, hwt_delay_slot_start(slot),
                                 (struct hwt_delay_key){ slot->last, slot->newest }, left);
    }
    hwt_delay_filed_settle_dropped(store, left);
}
