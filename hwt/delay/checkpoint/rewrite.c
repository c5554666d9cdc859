/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rewriting gives back the disk of messages that were cancelled or replaced, before they are due.
 *
 * A slot of which more than half is of no use any more is moved. The records that it still has
 * become part of the next checkpoint, as if they were put anew, with the same keys. The checkpoint
 * says in one step that the new runs count and that the old slot has been dealt with up to there;
 * then its file goes. A long slot is moved in stretches, by several checkpoints, and its position
 * says how far. So a checkpoint does not get much longer, and a crash finds each message once.
 *
 * For a stretch of the slot, all slots that have something in it are read:
 *   - a message of the slot is left out if a later record of any slot replaces or erases it;
 *   - a tombstone of the slot is left out unless another slot still has an older message for it.
 *     The messages that would come back without it are in slots alone, because a tombstone gets
 *     into a slot with a checkpoint that has everything older than it in slots too, or as leased.
 *
 * How much of a slot is dead is an estimate, which only says when to look, and nothing relies on
 * it. A tombstone does not know in which slot its message is. So when a checkpoint brings it, the
 * slots that have its due time share the loss, each by how much it has for that time; and it counts
 * itself, as it may be for nothing. A rewriting sets the estimate right. A checkpoint says of each
 * slot how much is dead with its own tombstones, and the next process begins with that.
 *
 * A slot from which loading has read is not moved, as it will soon be passed.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/base/assert.h"
#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

/* So much is read at a time, and so much moved by one checkpoint, in memory. */
static uint64_t budget_of(const hwt_delay *store)
{
    return store->options.memory / 8;
}

/* ---- what is dead ---- */

/* So much, and more bytes, of a slot of that length. */
static uint64_t more_dead(uint64_t dead, uint64_t bytes, uint64_t length)
{
    return bytes < length - dead ? dead + bytes : length;
}

/* By the checkpoint that is being made. */
void hwt_delay_dead_add(struct hwt_delay_slot *slot, uint64_t bytes)
{
    slot->new_dead = more_dead(slot->new_dead, bytes, slot->new_length);
}

/* The bytes of a slot that are not dead, for each instant of its length in time. */
static double density_of(const struct hwt_delay_slot *slot)
{
    return (double)(slot->new_length - slot->new_dead) / (double)(UINT64_C(1) << slot->shift);
}

/* Calls back for each slot that has an instant by the checkpoint that is being made. */
static void each_covering(const hwt_delay *store, uint64_t due,
                          void (*found)(struct hwt_delay_slot *slot, void *arg), void *arg)
{
    for (unsigned shift = 0; shift < 64; shift++) {
        if (!hwt_delay_wheel_has(store, shift))
            continue;
        struct hwt_delay_slot *slot = hwt_delay_wheel_from(store, shift, due >> shift, 0);
        for (; slot && slot->shift == shift && slot->index == due >> shift;
             slot = hwt_delay_slots_next(slot)) {
            if (slot->new_length > 0 && due >= slot->moved.due)
                found(slot, arg);
        }
    }
}

struct loss {
    uint64_t messages;
    double density; /* of all slots */
};

static void add_density(struct hwt_delay_slot *slot, void *arg)
{
    ((struct loss *)arg)->density += density_of(slot);
}

static void share_loss(struct hwt_delay_slot *slot, void *arg)
{
    const struct loss *loss = arg;
    if (slot->new_count == 0)
        return;
    double bytes = (double)slot->new_length / (double)slot->new_count * (double)loss->messages *
                   density_of(slot) / loss->density;
    hwt_delay_dead_add(slot, (uint64_t)bytes);
}

/* Called with the lock, as all of these, before tombstones are noted, so the slots are as before
 * the checkpoint. */
void hwt_delay_dead_begin(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        slot->new_dead = slot->dead;
    }
}

/* The checkpoint is on the disk. */
void hwt_delay_dead_conclude(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        slot->dead = slot->new_dead;
    }
}

/* The checkpoint that is being made brings so many tombstones for about this instant. */
void hwt_delay_note_tombstones(hwt_delay *store, uint64_t due, uint64_t count)
{
    struct loss loss = { .messages = count };
    each_covering(store, due, add_density, &loss);
    if (loss.density > 0)
        each_covering(store, due, share_loss, &loss);
}

/* ---- which slots ---- */

static bool is_to_be_moved(const hwt_delay *store, const struct hwt_delay_slot *slot)
{
    return slot->new_length > 0 && slot->dead > slot->length / 2 && !slot->passed &&
           !hwt_delay_begins_below(slot, hwt_delay_loaded(store)) && !hwt_delay_gap_in(store, slot);
}

static int by_dead(const void *a, const void *b)
{
    const struct hwt_delay_slot *x = *(struct hwt_delay_slot *const *)a;
    const struct hwt_delay_slot *y = *(struct hwt_delay_slot *const *)b;
    return (x->dead < y->dead) - (x->dead > y->dead);
}

/* Those from which most is to be gained come first. NULL: there are none, or no memory. */
static struct hwt_delay_slot **choose(hwt_delay *store, size_t *ret_count)
{
    struct hwt_delay_slot *slot;
    size_t count = 0;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        count += is_to_be_moved(store, slot);
    }
    struct hwt_delay_slot **slots = count > 0 ? malloc(count * sizeof(*slots)) : NULL;
    *ret_count = 0;
    if (!slots)
        return NULL;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        if (is_to_be_moved(store, slot))
            slots[(*ret_count)++] = slot;
    }
    qsort(slots, count, sizeof(struct hwt_delay_slot *), by_dead);
    return slots;
}

/* ---- moving ---- */

/* One checkpoint's work. */
struct work {
    hwt_delay *store;
    struct hwt_delay_readers readers; /* of one slot's stretches */
    uint64_t read, read_max;          /* bytes of slots */
    uint64_t moved, moved_max;        /* bytes in memory */
};

static struct hwt_delay_key end_of(const struct hwt_delay_slot *slot)
{
    uint64_t last = hwt_delay_slot_last(slot);
    return (struct hwt_delay_key){ last < HWT_NEVER ? last + 1 : last, 0 };
}

/* The first key that was not moved. Called with the lock. */
static struct hwt_delay_key moved_up_to(const hwt_delay *store, const struct hwt_delay_slot *slot)
{
    struct hwt_delay_key start = { hwt_delay_slot_start(slot), 0 };
    struct hwt_delay_key position = hwt_delay_position(store, slot);
    if (hwt_delay_compare(position, slot->moved) < 0)
        position = slot->moved;
    return hwt_delay_compare(position, start) < 0 ? start : position;
}

static int make_room(struct hwt_delay_snapshot *snapshot)
{
    struct hwt_delay_record **records =
        hwt_delay_grown(snapshot->records, snapshot->count, &snapshot->room, sizeof(*records), 1);
    if (!records)
        return -ENOMEM;
    snapshot->records = records;
    return 0;
}

/* Does it go on? A tombstone at an instant that was cut may be for what came before the cut. */
static bool is_alive(const struct hwt_delay_record *record, struct hwt_delay_key from)
{
    bool cut = from.sequence > 0 && record->key.due == from.due;
    return !record->replaced && (record->kind == HWT_DELAY_PUT || record->needed || cut);
}

/* Hands what goes on to the snapshot. All or nothing. */
static int keep_alive(struct work *work, const struct hwt_delay_slot *slot,
                      struct hwt_delay_gathered *gathered, struct hwt_delay_key from)
{
    struct hwt_delay_snapshot *snapshot = &work->store->checkpoint.snapshot;
    struct hwt_delay_record *record, *next;
    size_t before = snapshot->count;
    RB_FOREACH_SAFE(record, hwt_delay_keys, &gathered->keys, next)
    {
        if (record->reader->slot != slot || !is_alive(record, from))
            continue;
        if (make_room(snapshot) < 0) {
            while (snapshot->count > before)
                hwt_delay_record_unref(snapshot->records[--snapshot->count]);
            return -ENOMEM;
        }
        RB_REMOVE(hwt_delay_keys, &gathered->keys, record);
        record->moved = true;
        snapshot->records[snapshot->count++] = record;
        work->moved += hwt_delay_record_bytes(record);
    }
    return 0;
}

/* With the lock. */
static void count_found(struct work *work, const struct hwt_delay_slot *slot)
{
    for (size_t i = 0; i < work->readers.count; i++) {
        struct hwt_delay_reader *reader = work->readers.all[i];
        if (reader->slot != slot)
            reader->slot->dead = more_dead(reader->slot->dead, reader->dead, reader->slot->length);
        reader->dead = 0;
    }
}

/* The records that this checkpoint has moved out of other slots are not there for it any more. */
static void leave_out_moved(const struct work *work)
{
    for (size_t i = 0; i < work->readers.count; i++) {
        struct hwt_delay_reader *reader = work->readers.all[i];
        if (hwt_delay_compare(reader->position, reader->slot->moved) < 0)
            reader->position = reader->slot->moved;
    }
}

/* Moves the next stretch. With the lock, which it lets go of. */
static int move_stretch(struct work *work, struct hwt_delay_slot *slot)
{
    hwt_delay *store = work->store;
    struct hwt_delay_key from = moved_up_to(store, slot), to = end_of(slot);
    int r = hwt_delay_readers_choose(store, &work->readers, from, &to);
    if (r < 0)
        return r;
    leave_out_moved(work);
    struct hwt_delay_gathered gathered = { .gaps = NULL };
    pthread_mutex_unlock(&store->lock);
    r = hwt_delay_gather(store, work->readers.all, work->readers.count, from, &to, budget_of(store),
                         &gathered);
    if (r == 0) {
        work->read += gathered.read;
        hwt_delay_gathered_mark(&gathered, slot);
        r = keep_alive(work, slot, &gathered, from);
        hwt_delay_gathered_free(&gathered);
    }
    pthread_mutex_lock(&store->lock);
    if (r < 0)
        return r;
    count_found(work, slot);
    HWT_ASSERT(hwt_delay_compare(from, to) < 0);
    slot->moved = to;
    return 0;
}

/* 1: all of it; 0: there is no more work for this checkpoint; or an error. */
static int move_slot(struct work *work, struct hwt_delay_slot *slot)
{
    hwt_delay *store = work->store;
    int r = 0;
    hwt_delay_seal(store, slot, store->checkpoint.snapshot.epoch);
    TAILQ_INSERT_TAIL(&store->checkpoint.snapshot.moved, slot, listed);
    while (r == 0 && hwt_delay_compare(slot->moved, end_of(slot)) < 0) {
        if (work->read >= work->read_max || work->moved >= work->moved_max)
            return 0;
        r = move_stretch(work, slot);
    }
    hwt_delay_readers_free(&work->readers);
    if (r < 0)
        return r;
    slot->new_length = slot->new_count = 0; /* the checkpoint does not name it */
    return 1;
}

/*
 * Moves slots into the snapshot, whose records are not divided yet. Nobody but who makes a
 * checkpoint appends to slots, or deletes them, so they are read though the slots are not locked.
 */
void hwt_delay_rewrite(hwt_delay *store)
{
    struct work work = {
        .store = store,
        .read_max = store->options.segment_size / 2,
        .moved_max = budget_of(store),
    };
    size_t count = 0;
    pthread_mutex_lock(&store->lock);
    /* Salvage has the slots to itself, and a full disk no room. */
    bool may = !store->full && !store->salvage;
    struct hwt_delay_slot **slots = may ? choose(store, &count) : NULL;
    int r = 1;
    for (size_t i = 0; i < count && r != 0; i++) {
        r = is_to_be_moved(store, slots[i]) ? move_slot(&work, slots[i]) : 1;
        if (r < 0 && r != -ENOMEM && r != -EMFILE && r != -ENFILE)
            slots[i]->dead = 0; /* it cannot be read: loading tells */
    }
    store->checkpoint.rewriting = r == 0;
    hwt_delay_readers_free(&work.readers);
    free(slots);
    pthread_mutex_unlock(&store->lock);
}

/* Forgets that a part of the slot is moved, because the checkpoint on the disk says so. */
static void forget(struct hwt_delay_snapshot *snapshot, struct hwt_delay_slot *slot)
{
    TAILQ_REMOVE(&snapshot->moved, slot, listed);
    slot->moved = (struct hwt_delay_key){ 0, 0 };
}

/* The checkpoint failed, so the snapshot has nothing of what was moved. Nobody else knows these
 * records, so this is without the lock. */
void hwt_delay_moved_free(struct hwt_delay_snapshot *snapshot)
{
    size_t count = 0;
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->records[i]->moved)
            hwt_delay_record_unref(snapshot->records[i]);
        else
            snapshot->records[count++] = snapshot->records[i];
    }
    snapshot->count = count;
}

/* The slots are what they were. With the lock. */
void hwt_delay_rewrite_undo(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    struct hwt_delay_slot *slot;
    for (size_t most = hwt_delay_slots_count(store); (slot = TAILQ_FIRST(&snapshot->moved));
         most--) {
        HWT_ASSERT(most > 0);
        forget(snapshot, slot);
        slot->new_length = slot->length;
        slot->new_count = slot->count;
    }
    hwt_delay_dead_begin(store);
}

/* It is on the disk, with what was moved. With the lock; the slots are locked. */
void hwt_delay_rewrite_conclude(hwt_delay *store)
{
    struct hwt_delay_snapshot *snapshot = &store->checkpoint.snapshot;
    struct hwt_delay_slot *slot;
    for (size_t most = hwt_delay_slots_count(store); (slot = TAILQ_FIRST(&snapshot->moved));
         most--) {
        HWT_ASSERT(most > 0);
        if (hwt_delay_compare(slot->position, slot->moved) < 0)
            slot->position = slot->moved;
        forget(snapshot, slot);
    }
}
