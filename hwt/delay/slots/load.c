/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Loading brings messages that are due soon from the slots into the table, and moves `loaded` up.
 *
 * The slots are read without the lock. Meanwhile the slots are locked, so that no slot changes its
 * length and no other thread reads; puts and cancels go on, and stay in the table, so that all is
 * there when the two are brought together under the lock. A slot is sealed when `loaded` moves into
 * it.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/base/assert.h"
#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

/* An eighth of the memory is for what was loaded. */
static uint64_t budget_of(const hwt_delay *store)
{
    return store->options.memory / 8;
}

/* So many slots are read at a time, unless more of them begin with the stretch. */
#define SLOTS_AT_ONCE 64

/*
 * The readers of the slots that may have something below *to, for use unlocked. *to comes down to
 * where a slot begins that is not among them.
 */
static int choose(hwt_delay *store, struct hwt_delay_key *to,
                  struct hwt_delay_reader ***ret_readers, size_t *ret_count)
{
    struct hwt_delay_reader **readers = NULL;
    size_t count = 0, room = 0;
    struct hwt_delay_slot *slot;
    RB_FOREACH(slot, hwt_delay_nexts, &store->slots.wheel.nexts)
    {
        bool enough = count >= SLOTS_AT_ONCE && slot->next > hwt_delay_loaded(store).due;
        if (enough && slot->next < to->due)
            *to = (struct hwt_delay_key){ slot->next, 0 };
        if (enough || slot->next >= to->due)
            break;
        struct hwt_delay_reader **more =
            hwt_delay_grown(readers, count, &room, sizeof(*more), SLOTS_AT_ONCE);
        if (!more) {
            free(readers);
            return -ENOMEM;
        }
        readers = more;
        slot->reader.position = hwt_delay_position(store, slot);
        readers[count++] = &slot->reader;
    }
    *ret_readers = readers;
    *ret_count = count;
    return 0;
}

/* Whether what is in memory already says more than a record out of a slot. */
static bool is_old(const struct hwt_delay_record *record, const struct hwt_delay_record *there)
{
    if (!there || there->key.sequence < record->key.sequence)
        return false;
    return there->key.sequence > record->key.sequence || there->kind == HWT_DELAY_TOMBSTONE ||
           there->kind == record->kind;
}

/* Brings one record out of a slot into the table. */
static void merge(hwt_delay *store, struct hwt_delay_record *record)
{
    /* A dropped message may be off the number of its span already. A message in a gap stays in its
     * slot. */
    if (hwt_delay_is_dropped(store, record->key) || hwt_delay_gap_at(store, record->key)) {
        hwt_delay_record_unref(record);
        return;
    }
    struct hwt_delay_record *there = hwt_delay_lookup(store, record);
    bool leased = there && there->state == HWT_DELAY_LEASED, replaced = record->replaced;
    if (replaced || is_old(record, there)) {
        if (!replaced && !leased)
            there->shadows = true;
        hwt_delay_record_unref(record);
        return;
    }
    if (there && !leased)
        hwt_delay_remove(store, there);
    if (record->kind == HWT_DELAY_PUT) {
        uint16_t handed = hwt_delay_handed_find(store, record->key);
        bool is_newer = handed > record->handed;
        record->handed = is_newer ? handed : record->handed;
        record->shadows = is_newer; /* what the slot has is older */
        if (is_newer)
            hwt_delay_filed_end(hwt_delay_filed_of(store), record->key.due);
        if (leased)
            hwt_delay_lease_supersede(store, there);
        hwt_delay_insert(store, record, is_newer ? HWT_DELAY_FRESH : HWT_DELAY_FILED);
    } else {
        hwt_delay_record_unref(record);
    }
}

/* Lets others have the lock now and then. Until `loaded` moves, what is merged cannot be taken. */
static void merge_all(hwt_delay *store, struct hwt_delay_gathered *gathered)
{
    struct hwt_delay_record *record;
    for (size_t i = 1; (record = RB_MIN(hwt_delay_keys, &gathered->keys)); i++) {
        RB_REMOVE(hwt_delay_keys, &gathered->keys, record);
        merge(store, record);
        if (i % HWT_DELAY_CHUNK == 0)
            hwt_delay_yield(store);
    }
}

/* How far slots have been dealt with before they get a gap, in which positions say nothing. */
static void note_before(hwt_delay *store)
{
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        if (!hwt_delay_gap_in(store, slot))
            slot->before = hwt_delay_position(store, slot);
    }
}

/* A part was found that cannot be read. Nothing of its time is handed over, and takes tell once. */
static void note_gaps(hwt_delay *store, const struct hwt_delay_gaps *found)
{
    if (found->count > 0)
        note_before(store);
    for (size_t i = 0; i < found->count; i++) {
        struct hwt_delay_gap gap = found->all[i];
        if (hwt_delay_compare(gap.from, hwt_delay_loaded(store)) < 0)
            gap.from = hwt_delay_loaded(store);
        if (hwt_delay_gap_found(store, gap))
            hwt_delay_changed(store, HWT_DELAY_LOOK);
    }
}

/* Brings what was gathered into the table. Slots that begin below the stretch's end are sealed. */
static int take_in(hwt_delay *store, struct hwt_delay_gathered *gathered, struct hwt_delay_key to,
                   struct hwt_delay_reader **readers, size_t count)
{
    int r = hwt_delay_epoch_begin(store);
    if (r < 0) {
        hwt_delay_gathered_free(gathered);
        for (size_t i = 0; i < count; i++)
            hwt_delay_reader_reset(readers[i]);
        return r;
    }
    if (gathered->gaps)
        note_gaps(store, gathered->gaps);
    merge_all(store, gathered);
    HWT_ASSERT(hwt_delay_compare(hwt_delay_loaded(store), to) < 0); /* it gets further */
    hwt_delay_set_loaded(store, to);
    hwt_delay_handed_loaded(store);
    if (to.due > 0)
        hwt_delay_filed_settle(store, to.due - 1);
    for (size_t i = 0; i < count; i++) {
        struct hwt_delay_slot *slot = readers[i]->slot;
        if (hwt_delay_begins_below(slot, to))
            hwt_delay_seal(store, slot, store->slots.positions.epoch);
        hwt_delay_slot_bounds(store, slot);
    }
    return 0;
}

/* The slots are locked. */
static int load(hwt_delay *store, uint64_t due)
{
    struct hwt_delay_key from = hwt_delay_loaded(store), to = { due, 0 };
    struct hwt_delay_reader **readers;
    size_t count;
    int r = choose(store, &to, &readers, &count);
    if (r < 0)
        return r;
    uint64_t filed = hwt_delay_bytes_in(store, HWT_DELAY_FILED), most = budget_of(store);
    struct hwt_delay_gaps found = { .count = 0 };
    struct hwt_delay_gathered gathered = { .gaps = store->salvage ? NULL : &found };
    pthread_mutex_unlock(&store->lock);
    r = hwt_delay_gather(store, readers, count, from, &to, most > filed ? most - filed : 1,
                         &gathered);
    if (r == 0)
        hwt_delay_gathered_mark(&gathered, NULL);
    pthread_mutex_lock(&store->lock);
    if (r == 0)
        r = take_in(store, &gathered, to, readers, count);
    free(readers);
    return r;
}

/*
 * Moves `loaded` up to a due time, or as far as memory allows. Lets go of the lock meanwhile, and
 * waits for others that load. -EBADMSG, -EIO, -ENOMEM, ...
 */
int hwt_delay_load(hwt_delay *store, uint64_t due)
{
    hwt_delay_slots_await(store);
    if (hwt_delay_loaded(store).due >= due)
        return 0;
    hwt_delay_slots_lock(store);
    int r = load(store, due);
    hwt_delay_slots_unlock(store);
    if (!hwt_delay_is_held(store))
        hwt_delay_changed(store, r);
    return r;
}

/* `loaded` has moved down from there. */
static void reset_readers(hwt_delay *store, struct hwt_delay_key before)
{
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        if (hwt_delay_slot_last(slot) < hwt_delay_loaded(store).due ||
            hwt_delay_slot_start(slot) > before.due)
            continue;
        hwt_delay_reader_reset(&slot->reader);
        hwt_delay_slot_bounds(store, slot);
    }
}

/* Not more than others can wait for. True: there is more. */
static bool evict_some(hwt_delay *store, uint64_t most)
{
    struct hwt_delay_key before = hwt_delay_loaded(store);
    struct hwt_delay_record *record = hwt_delay_from(store, before);
    unsigned count = 0;
    record = record ? hwt_delay_lower(record) : hwt_delay_highest(store);
    while (record && hwt_delay_bytes_in(store, HWT_DELAY_FILED) > most && count < HWT_DELAY_CHUNK) {
        struct hwt_delay_record *lower = hwt_delay_lower(record);
        if (record->state == HWT_DELAY_FILED) {
            hwt_delay_set_loaded(store, record->key);
            hwt_delay_filed_add(hwt_delay_filed_of(store), record->key.due,
                                1); /* it is in its slot still */
            hwt_delay_remove(store, record);
            count++;
        }
        record = lower;
    }
    reset_readers(store, before);
    return count == HWT_DELAY_CHUNK;
}

/*
 * Puts back into the slots what is due last, where a checkpoint has left more in the table than
 * an eighth of the memory. The slots are locked, so nobody loads. Lets others have the lock now and
 * then.
 */
void hwt_delay_evict(hwt_delay *store)
{
    uint64_t most = budget_of(store);
    if (hwt_delay_bytes_in(store, HWT_DELAY_FILED) <= most + most / 4)
        return;
    while (evict_some(store, most))
        hwt_delay_yield(store);
}

/* The instant at which the next stretch should be loaded. That is half a horizon at a time, and
 * only where there is something. */
static uint64_t load_at(const hwt_delay *store)
{
    uint64_t next = hwt_delay_wheel_next(store), loaded = hwt_delay_loaded(store).due;
    if (next == HWT_NEVER || hwt_delay_is_held(store) || store->poisoned || store->standby)
        return HWT_NEVER;
    next = next > HWT_DELAY_HORIZON ? next - HWT_DELAY_HORIZON : 0;
    loaded = loaded > HWT_DELAY_HORIZON / 2 ? loaded - HWT_DELAY_HORIZON / 2 : 0;
    return next > loaded ? next : loaded;
}

/* There is something to load, and memory for it. */
static bool is_to_load(const hwt_delay *store, uint64_t now)
{
    return load_at(store) <= now &&
           hwt_delay_bytes_in(store, HWT_DELAY_FILED) <= budget_of(store) / 2;
}

/* Called where there is memory again. */
void hwt_delay_load_soon(hwt_delay *store)
{
    if (is_to_load(store, hwt_delay_realtime(store)))
        hwt_delay_want(store, HWT_DELAY_LOAD);
}

/*
 * The job that loads ahead, so that take does not wait for the disk. It looks again when it is
 * time, or when there is memory; at least every second, as the clock may be set.
 */
uint64_t hwt_delay_loader(void *arg)
{
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    uint64_t now = hwt_delay_clock(store), delay = HWT_NEVER, at = load_at(store);
    if (is_to_load(store, now) && hwt_delay_load(store, hwt_delay_horizon(now)) == 0) {
        hwt_delay_changed(store, HWT_DELAY_MORE);
        delay = 0;
    } else if (at != HWT_NEVER || hwt_delay_is_held(store)) {
        delay = at > now && at - now < HWT_SEC(1) ? at - now : HWT_SEC(1);
    }
    pthread_mutex_unlock(&store->lock);
    return delay;
}
