/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Snapshots: what a checkpoint is to write. Taken under the lock between two frames, by the leader
 * that has just taken what was gathered, or where nothing is gathered: so the table is what the log
 * says up to a sequence, and nothing of what comes after it. A snapshot holds references.
 *
 * Most FRESH records are collected before that instant, a few at a time, because others would wait
 * for the lock too long. A record that leaves the table before the instant, or is leased, leaves a
 * hole, which is closed behind the instant. If it comes back, it is FRESH again and is collected
 * once more.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

/* There is room. */
static void collect_one(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    struct hwt_delay_record *record = hwt_delay_fresh_first(store);
    record->refs++;
    hwt_delay_set_state(store, record, HWT_DELAY_FLUSHING);
    record->collected = snapshot->count;
    snapshot->records[snapshot->count++] = record;
}

/* Makes room for all that are FRESH, and some more, so that it does so rarely at the instant. */
static int grow(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    const size_t count = snapshot->count + hwt_delay_fresh_count(store);
    const size_t room = count + (size_t)2 * HWT_DELAY_CHUNK;
    if (snapshot->records && count <= snapshot->room)
        return 0;
    struct hwt_delay_record **records =
        realloc(snapshot->records, room * sizeof(*snapshot->records));
    if (!records)
        return -ENOMEM;
    snapshot->records = records;
    snapshot->room = room;
    hwt_delay_set_collected(store, records);
    return 0;
}

/* Collects those that are FRESH by now. Lets others have the lock now and then. */
static int collect(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    int r = grow(store, snapshot);
    while (r == 0 && snapshot->count < snapshot->room && hwt_delay_fresh_count(store) > 0) {
        collect_one(store, snapshot);
        if (snapshot->count % HWT_DELAY_CHUNK == 0)
            hwt_delay_yield(store);
    }
    return r;
}

/* Until few are FRESH. Others put more meanwhile, but a put takes longer than to collect it. */
static int collect_early(hwt_delay *store)
{
    enum { PASSES = 4 };
    int r = 0;
    for (int i = 0; i < PASSES && r == 0 && hwt_delay_fresh_count(store) > HWT_DELAY_CHUNK; i++)
        r = collect(store, &store->checkpoint.snapshot);
    return r;
}

/* Behind the instant, without the lock: nobody else knows the records of the snapshot. */
static void close_holes(struct hwt_delay_snapshot *snapshot)
{
    size_t count = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->records[i])
            snapshot->records[count++] = snapshot->records[i];
    }
    snapshot->count = count;
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

/* The checkpoint does not name slots in which nothing is left. */
static void note_slots(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        bool dropped = hwt_delay_slot_is_dropped(store, slot), named = !slot->passed && !dropped;
        if (dropped) /* nothing is appended to it */
            hwt_delay_seal(store, slot, hwt_delay_epoch(store));
        slot->noted = hwt_delay_position(store, slot);
        slot->new_length = named ? slot->length : 0;
        slot->new_count = named ? slot->count : 0;
        slot->new_origins = slot->origins;
        slot->new_last = slot->last;
        slot->new_newest = slot->newest;
    }
    hwt_delay_drops_settle(store);
}

static int make_room(hwt_delay *store, struct hwt_delay_snapshot *snapshot)
{
    int r = grow(store, snapshot);
    /* The fresh ones too: see publish_old(). */
    snapshot->whole = malloc(
        (hwt_delay_leased_count(store) + snapshot->room + hwt_delay_drops_of(store)->count + 1) *
        sizeof(*snapshot->whole));
    return snapshot->whole ? r : -ENOMEM;
}

/* Nothing is gathered: the table is what the log says. Called with the lock, by the leader too. */
static void take_snapshot(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    const uint64_t extent = hwt_delay_nothing_is_left(store) ? hwt_delay_extent_snapshot(store) : 0;
    *snapshot = (struct hwt_delay_snapshot){
        .records = snapshot->records,
        .count = snapshot->count,
        .room = snapshot->room,
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
        while (hwt_delay_fresh_count(store) > 0)
            collect_one(store, snapshot);
        hwt_delay_handed_snapshot(store);
        note_slots(store);
        collect_drops(store, snapshot);
        snapshot->filed = *hwt_delay_filed_of(store);
    }
    hwt_delay_set_collected(store, NULL);
}

/* Lets others have the lock now and then. */
void hwt_delay_snapshot_undo(hwt_delay *store)
{
    const struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->records[i]->state == HWT_DELAY_FLUSHING)
            hwt_delay_set_state(store, snapshot->records[i], HWT_DELAY_FRESH);
        if (i % HWT_DELAY_CHUNK == HWT_DELAY_CHUNK - 1)
            hwt_delay_yield(store);
    }
}

/* Between two frames. Lets go of the lock meanwhile. If it fails, all is as it was. */
int hwt_delay_snapshot_get(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    int r = collect_early(store);
    if (r == 0)
        r = hwt_delay_log_between(store, take_snapshot);
    if (r == 0)
        r = snapshot->error;
    hwt_delay_set_collected(store, NULL);
    pthread_mutex_unlock(&store->lock);
    close_holes(snapshot);
    pthread_mutex_lock(&store->lock);
    if (r < 0)
        hwt_delay_snapshot_undo(store);
    return r;
}

/* Lets others have the lock now and then. */
static void unref_all(hwt_delay *store, struct hwt_delay_record **records, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hwt_delay_record_unref(records[i]);
        if (i % HWT_DELAY_CHUNK == HWT_DELAY_CHUNK - 1)
            hwt_delay_yield(store);
    }
}

/* The log is pinned, so nobody else uses the snapshot meanwhile. */
void hwt_delay_snapshot_free(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    unref_all(store, snapshot->records, snapshot->count);
    unref_all(store, snapshot->whole, snapshot->whole_count);
    free(snapshot->records);
    free(snapshot->whole);
    *snapshot = (struct hwt_delay_snapshot){ 0 };
}
