/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Drops: whatever is due at or before a time and was put up to a mark is not pending any more, leased or
 * not, by one record. The table is swept at once. Loading leaves out what slots have of it, so
 * a drop is kept, here and in each checkpoint, as long as a slot may have something under it. Slots
 * that are wholly under a drop are deleted by the next checkpoint and not read.
 *
 * A mark is a sequence that was given before the drop, so a later put is never under it. If one
 * drop covers another, that one alone is kept, so there are a few at most.
 */

#include "hwt/delay/store.h"

static bool covers(const struct hwt_delay_record *drop, uint64_t due, uint64_t sequence)
{
    return due <= drop->key.due && sequence <= drop->key.sequence;
}

bool hwt_delay_is_dropped(const hwt_delay *store, struct hwt_delay_key key)
{
    for (size_t i = 0; i < store->drops.count; i++) {
        if (covers(store->drops.all[i], key.due, key.sequence))
            return true;
    }
    return false;
}

/* All in it. What is in a gap stays where it is, whatever it is. */
bool hwt_delay_slot_is_dropped(const hwt_delay *store, const struct hwt_delay_slot *slot)
{
    const struct hwt_delay_key last = { slot->last, slot->newest };
    return store->drops.count > 0 && slot->length > 0 && hwt_delay_is_dropped(store, last) &&
           !hwt_delay_gap_in(store, slot);
}

/* Something in a slot may be under it. The position says nothing of what is in a gap. */
static bool is_needed(const hwt_delay *store, const struct hwt_delay_record *drop)
{
    struct hwt_delay_places *places = &((hwt_delay *)(uintptr_t)store)->wheel.places;
    struct hwt_delay_slot *slot;
    RB_FOREACH(slot, hwt_delay_places, places)
    {
        if (hwt_delay_slot_start(slot) <= drop->key.due &&
            (hwt_delay_position(store, slot).due <= drop->key.due || hwt_delay_gap_in(store, slot)))
            return true;
    }
    return false;
}

static void forget(struct hwt_delay_drops *drops, size_t i)
{
    hwt_delay_record_unref(drops->all[i]);
    drops->all[i] = drops->all[--drops->count];
}

/* With the snapshot of a checkpoint, for which slots alone may have what is under them. */
void hwt_delay_drops_snapshot(hwt_delay *store)
{
    for (size_t i = 0; i < store->drops.count; i++)
        store->drops.all[i]->needed = is_needed(store, store->drops.all[i]);
    store->drops.bytes = 0;
}

/* It is on the disk, without those that are not needed. */
void hwt_delay_drops_conclude(hwt_delay *store)
{
    for (size_t i = store->drops.count; i-- > 0;) {
        if (!store->drops.all[i]->needed)
            forget(&store->drops, i);
    }
}

/* Room for so many more, whichever they are? */
bool hwt_delay_drops_fit(const hwt_delay *store, size_t count)
{
    return store->drops.count + count <= HWT_DELAY_DROPS_MAX;
}

static void sweep_leases(hwt_delay *store, const struct hwt_delay_record *drop)
{
    struct hwt_delay_lease *lease, *next;
    RB_FOREACH_SAFE(lease, hwt_delay_tokens, &store->tokens, next)
    {
        if (!covers(drop, lease->record->key.due, lease->record->key.sequence))
            continue;
        struct hwt_delay_record *record = hwt_delay_lease_end(store, lease);
        if (record)
            hwt_delay_record_unref(record);
    }
}

static void sweep_table(hwt_delay *store, const struct hwt_delay_record *drop)
{
    struct hwt_delay_record *record, *next;
    RB_FOREACH_SAFE(record, hwt_delay_keys, &store->keys, next)
    {
        if (record->key.due > drop->key.due)
            break;
        if (record->key.sequence <= drop->key.sequence)
            hwt_delay_remove(store, record);
    }
}

/* How much the next checkpoint would delete. */
static uint64_t dropped_bytes(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    uint64_t bytes = 0;
    RB_FOREACH(slot, hwt_delay_places, &store->wheel.places)
    {
        if (!slot->passed && hwt_delay_slot_is_dropped(store, slot))
            bytes += slot->length;
    }
    return bytes;
}

static void sweep(hwt_delay *store, const struct hwt_delay_record *drop)
{
    sweep_leases(store, drop);
    sweep_table(store, drop);
    hwt_delay_settle(store);
}

/*
 * Takes over the caller's reference. There is room, unless one covers it or is covered by it. At opening it may
 * be covered by itself, since a checkpoint can have it as well as the log, and still have to sweep: the
 * log brings what it drops once more.
 */
void hwt_delay_drop(hwt_delay *store, struct hwt_delay_record *drop)
{
    struct hwt_delay_drops *drops = &store->drops;
    if (hwt_delay_is_dropped(store, drop->key)) {
        sweep(store, drop);
        hwt_delay_record_unref(drop);
        return;
    }
    for (size_t i = drops->count; i-- > 0;) {
        if (covers(drop, drops->all[i]->key.due, drops->all[i]->key.sequence))
            forget(drops, i);
    }
    drop->needed = true;
    drops->all[drops->count++] = drop;
    hwt_delay_sought_touch(store, drop);
    sweep(store, drop);
    drops->bytes = dropped_bytes(store);
}

void hwt_delay_drops_free(hwt_delay *store)
{
    while (store->drops.count > 0)
        forget(&store->drops, 0);
}
