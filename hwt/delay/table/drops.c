/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A drop is one record, by which all that is due at or before a time and was put up to a mark is
 * not pending any more, leased or not. The table is swept at once, without letting go of the lock.
 * Else each call that looks at the table, and each job, would have to know of a sweep that has not
 * ended. Loading leaves out what slots have of it, so a drop is kept, here and in each checkpoint,
 * as long as a slot may have something under it. Slots that are wholly under a drop are deleted by
 * the next checkpoint and not read.
 *
 * A mark is a sequence that was given before the drop, so a later put is never under it. If one
 * drop covers another, that one alone is kept, so there are a few at most.
 */

#include "hwt/delay/whole.h"

static bool covers(const struct hwt_delay_record *drop, uint64_t due, uint64_t sequence)
{
    return due <= drop->key.due && sequence <= drop->key.sequence;
}

bool hwt_delay_is_dropped(const hwt_delay *store, struct hwt_delay_key key)
{
    for (size_t i = 0; i < store->table.drops.count; i++) {
        if (covers(store->table.drops.all[i], key.due, key.sequence))
            return true;
    }
    return false;
}

static void forget(struct hwt_delay_drops *drops, size_t i)
{
    hwt_delay_record_unref(drops->all[i]);
    drops->all[i] = drops->all[--drops->count];
}

/* It is on the disk, without those that are not needed. */
void hwt_delay_drops_conclude(hwt_delay *store)
{
    for (size_t i = store->table.drops.count; i-- > 0;) {
        if (!store->table.drops.all[i]->needed)
            forget(&store->table.drops, i);
    }
}

/* Room for so many more, whichever they are? */
bool hwt_delay_drops_fit(const hwt_delay *store, size_t count)
{
    return store->table.drops.count + count <= HWT_DELAY_DROPS_MAX;
}

static void sweep_leases(hwt_delay *store, const struct hwt_delay_record *drop)
{
    struct hwt_delay_lease *lease, *next;
    for (lease = hwt_delay_lease_first(store); lease; lease = next) {
        next = hwt_delay_lease_next(lease);
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
    RB_FOREACH_SAFE(record, hwt_delay_keys, &store->table.keys, next)
    {
        if (record->key.due > drop->key.due)
            break;
        if (record->key.sequence <= drop->key.sequence)
            hwt_delay_remove(store, record);
    }
}

static void sweep(hwt_delay *store, const struct hwt_delay_record *drop)
{
    sweep_leases(store, drop);
    sweep_table(store, drop);
}

/*
 * Takes over the caller's reference. There is room, unless one covers it or is covered by it. At
 * opening it may be covered by itself, since a checkpoint can have it as well as the log, and still
 * have to sweep, because the log brings what it drops once more.
 */
void hwt_delay_drops_add(hwt_delay *store, struct hwt_delay_record *drop)
{
    struct hwt_delay_drops *drops = &store->table.drops;
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
}

void hwt_delay_drops_free(hwt_delay *store)
{
    while (store->table.drops.count > 0)
        forget(&store->table.drops, 0);
}

const struct hwt_delay_drops *hwt_delay_drops_of(const hwt_delay *store)
{
    return &store->table.drops;
}
