/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Snapshots: what a checkpoint is to write. Taken under the lock between two frames, by the leader
 * that has just taken what was gathered, or where nothing is gathered: so the table is what the log
 * says up to a sequence, and nothing of what comes after it. A snapshot holds references.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

static void collect_fresh(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    struct hwt_delay_record *record;
    while ((record = hwt_delay_fresh_first(store))) {
        record->refs++;
        hwt_delay_set_state(store, record, HWT_DELAY_FLUSHING);
        snapshot->records[snapshot->count++] = record;
    }
}

static void add_whole(struct hwt_delay_snapshot *snapshot, struct hwt_delay_record *record)
{
    record->refs++;
    snapshot->whole[snapshot->whole_count++] = record;
}

static void collect_drops(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    hwt_delay_drops_snapshot(store);
    for (size_t i = 0; i < hwt_delay_drops_of(store)->count; i++) {
        if (hwt_delay_drops_of(store)->all[i]->needed)
            add_whole(snapshot, hwt_delay_drops_of(store)->all[i]);
    }
}

static void collect_leased(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    struct hwt_delay_lease *lease;
    HWT_DELAY_FOREACH_LEASE(lease, store)
    {
        if (lease->superseded)
            continue;
        add_whole(snapshot, lease->record);
    }
}

/* Slots in which nothing is left are not part of the checkpoint any more. */
static void finish_slots(hwt_delay *store)
{
    struct hwt_delay_slot *slot, *next;
    for (slot = hwt_delay_slots_first(store); slot; slot = next) {
        next = hwt_delay_slots_next(slot);
        slot->noted = hwt_delay_position(store, slot);
        slot->new_length = slot->length;
        slot->new_count = slot->count;
        slot->new_origins = slot->origins;
        bool dropped = !slot->passed && hwt_delay_slot_is_dropped(store, slot);
        if (dropped) /* it is not read any more */
            hwt_delay_seal(store, slot, hwt_delay_epoch(store));
        if (slot->passed || dropped) {
            hwt_delay_wheel_remove(store, slot);
            hwt_delay_slot_finish(store, slot);
        }
    }
    hwt_delay_drops_settle(store);
}

static int make_room(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    snapshot->room = hwt_delay_fresh_count(store) + 1;
    snapshot->records = malloc(snapshot->room * sizeof(*snapshot->records));
    /* The fresh ones too: see publish_old(). */
    snapshot->whole = malloc((hwt_delay_leased_count(store) + hwt_delay_fresh_count(store) +
                              hwt_delay_drops_of(store)->count + 1) *
                             sizeof(*snapshot->whole));
    return snapshot->records && snapshot->whole ? 0 : -ENOMEM;
}

/* Nothing is gathered: the table is what the log says. Called with the lock, by the leader too. */
static void take_snapshot(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    const uint64_t extent = hwt_delay_nothing_is_left(store) ? hwt_delay_extent_snapshot(store) : 0;
    *snapshot = (struct hwt_delay_snapshot){
        .from = hwt_delay_log_end(store),
        .counted = hwt_delay_log_next(store),
        .frame = hwt_delay_log_frame(store) - 1,
        .extent = extent,
        .hand = hwt_delay_hand(store),
        .now = hwt_delay_clock(store),
        .tombstone_bytes = hwt_delay_log_tombstone_bytes(store),
        .kept_bytes = hwt_delay_log_kept_bytes(store),
        .brings = true,
    };
    TAILQ_INIT(&snapshot->moved);
    snapshot->error = make_room(store, snapshot);
    if (snapshot->error == 0) {
        hwt_delay_positions_follow(store);
        snapshot->error = hwt_delay_epoch_begin(store);
    }
    if (snapshot->error == 0) {
        snapshot->epoch = hwt_delay_epoch(store);
        if (hwt_delay_note_of(store))
            add_whole(snapshot, hwt_delay_note_of(store));
        collect_leased(store, snapshot);
        collect_fresh(store, snapshot);
        hwt_delay_handed_snapshot(store);
        finish_slots(store);
        collect_drops(store, snapshot);
        snapshot->filed = *hwt_delay_filed_of(store);
    }
}

/* Between two frames. */
int hwt_delay_snapshot_get(hwt_delay *store)
{
    int r = hwt_delay_log_between(store, take_snapshot);
    return r < 0 ? r : store->checkpoint.snapshot.error;
}

void hwt_delay_snapshot_free(struct hwt_delay_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++)
        hwt_delay_record_unref(snapshot->records[i]);
    for (size_t i = 0; i < snapshot->whole_count; i++)
        hwt_delay_record_unref(snapshot->whole[i]);
    free(snapshot->records);
    free(snapshot->whole);
    *snapshot = (struct hwt_delay_snapshot){ 0 };
}
