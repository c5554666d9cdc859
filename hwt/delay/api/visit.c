/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Looking at what is pending, in stretches of time that fit into memory.
 *
 * Below `loaded` the table has everything. Above, the slots are read as for loading, but by readers
 * of this call's own, and the slots are locked meanwhile, because nothing may leave the table for a
 * slot until the stretch has been brought together with the table. The readers stay from stretch to
 * stretch, with a reference to their slot, so that each goes on where it was. The visitor is called
 * without the lock, on references.
 *
 * A stretch is of one instant, so it is brought together without letting go of the lock. It ends
 * where the table, or what is leased, has STRETCH records, and slots as much as SLOTS_MOST, so
 * nobody waits for long.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/base/assert.h"
#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

#define STRETCH 1024
#define SLOTS_MOST (UINT64_C(256) << 10) /* in memory */

struct seen {
    struct hwt_delay_record *record;
    uint64_t lease;
    uint32_t expired; /* the record's own may change once the lock is let go */
    uint16_t handed;  /* the same */
};

struct view {
    hwt_delay *store;
    struct hwt_delay_key from, to; /* of this stretch */
    struct seen *seen;
    size_t count, room;
    struct hwt_delay_readers readers;
    struct hwt_delay_gaps found; /* what could not be read */
};

/* With the lock. */
static int add(struct view *view, struct hwt_delay_record *record, uint64_t lease)
{
    const hwt_delay *store = view->store;
    struct seen *seen = hwt_delay_grown(view->seen, view->count, &view->room, sizeof(*seen), 256);
    if (!seen)
        return -ENOMEM;
    view->seen = seen;
    uint16_t handed = hwt_delay_handed_find(store, record->key);
    record->refs++;
    view->seen[view->count++] = (struct seen){ record, lease, record->expired,
                                               handed > record->handed ? handed : record->handed };
    return 0;
}

static void release_all(struct view *view)
{
    for (size_t i = 0; i < view->count; i++)
        hwt_delay_record_unref(view->seen[i].record);
    view->count = 0;
}

static int by_key(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return hwt_delay_compare(x->record->key, y->record->key);
}

static void end_by(struct view *view, struct hwt_delay_key to)
{
    if (hwt_delay_compare(to, view->to) < 0)
        view->to = to;
}

/* The stretch ends behind so many of these records: between two due times, unless there are so many
 * of one. Not between records of one key, which are only in files that somebody else has made. */
static void end_by_count(struct view *view, struct hwt_delay_record *record)
{
    for (size_t count = 0; record && hwt_delay_compare(record->key, view->to) < 0;
         record = RB_NEXT(hwt_delay_keys, NULL, record)) {
        struct hwt_delay_key end = record->key;
        end.sequence = end.due > view->from.due ? 0 : end.sequence;
        if (count++ >= STRETCH && hwt_delay_compare(end, view->from) > 0)
            view->to = end;
    }
}

/* Messages of the table, or that are leased, up to the end of the stretch. */
static int add_all(struct view *view, struct hwt_delay_record *record)
{
    int r = 0;
    for (; r == 0 && record && hwt_delay_compare(record->key, view->to) < 0;
         record = RB_NEXT(hwt_delay_keys, NULL, record)) {
        bool leased = record->state == HWT_DELAY_LEASED;
        if (record->kind == HWT_DELAY_PUT)
            r = add(view, record, leased ? record->lease->token : 0);
    }
    return r;
}

/* ---- slots ---- */

/* What cannot be read may cancel it. */
static bool is_uncertain(const struct view *view, const struct hwt_delay_record *record)
{
    for (size_t i = 0; i < view->found.count; i++) {
        if (hwt_delay_compare(view->found.all[i].from, record->key) <= 0 &&
            hwt_delay_compare(record->key, view->found.all[i].to) < 0)
            return true;
    }
    return false;
}

/* The slots are locked. */
static int add_slots(struct view *view, bool in_gap)
{
    hwt_delay *store = view->store;
    int r = hwt_delay_readers_choose(store, &view->readers, view->from, &view->to);
    if (r < 0)
        return r;
    /* Positions say nothing of what is in a gap, but for what was dealt with before there was
     * one. */
    for (size_t i = 0; i < view->readers.count && in_gap; i++)
        view->readers.all[i]->position = view->readers.all[i]->slot->before;
    struct hwt_delay_gathered gathered = { .gaps = &view->found };
    pthread_mutex_unlock(&store->lock);
    r = hwt_delay_gather(
        store, view->readers.all, view->readers.count, view->from, &view->to,
        store->options.memory / 8 < SLOTS_MOST ? store->options.memory / 8 : SLOTS_MOST, &gathered);
    if (r == 0)
        hwt_delay_gathered_mark(&gathered, NULL);
    pthread_mutex_lock(&store->lock);
    if (r < 0)
        return r;
    struct hwt_delay_record *record;
    RB_FOREACH(record, hwt_delay_keys, &gathered.keys)
    {
        if (r == 0 && record->kind == HWT_DELAY_PUT && !record->replaced &&
            !is_uncertain(view, record) && !hwt_delay_has_newer(store, record) &&
            !hwt_delay_is_dropped(store, record->key))
            r = add(view, record, 0);
    }
    hwt_delay_gathered_free(&gathered);
    return r;
}

/* ---- stretches ---- */

/* Collects the pending messages of a stretch, which may end before `to`. */
static int look(struct view *view, struct hwt_delay_key to)
{
    hwt_delay *store = view->store;
    int r = 0;
    hwt_delay_slots_await_last(store);
    view->to = to;
    const struct hwt_delay_gap *gap = hwt_delay_gap_at(store, view->from);
    if (gap)
        end_by(view, gap->to);
    if (!gap && hwt_delay_compare(view->from, hwt_delay_loaded(store)) < 0) {
        end_by(view, hwt_delay_loaded(store));
        for (size_t i = 0; i < hwt_delay_gaps_of(store)->count; i++) {
            if (hwt_delay_compare(hwt_delay_gaps_of(store)->all[i].from, view->from) > 0)
                end_by(view, hwt_delay_gaps_of(store)->all[i].from);
        }
    }
    end_by_count(view, hwt_delay_from(store, view->from));
    end_by_count(view, hwt_delay_leased_from(store, view->from));
    if (gap || hwt_delay_compare(view->from, hwt_delay_loaded(store)) >= 0) {
        hwt_delay_slots_lock(store);
        r = add_slots(view, gap != NULL);
        hwt_delay_slots_unlock(store);
    }
    if (r == 0)
        r = add_all(view, hwt_delay_from(store, view->from));
    if (r == 0)
        r = add_all(view, hwt_delay_leased_from(store, view->from));
    HWT_ASSERT(hwt_delay_compare(view->from, view->to) < 0); /* each stretch gets further */
    return r;
}

static int show(const struct view *view,
                int (*visitor)(const hwt_delay_message *message, void *data), void *data)
{
    int r = 0;
    if (view->count > 0)
        qsort(view->seen, view->count, sizeof(*view->seen), by_key);
    for (size_t i = 0; i < view->count && r == 0; i++) {
        const struct hwt_delay_record *record = view->seen[i].record;
        hwt_delay_message message = hwt_delay_message_of(record);
        message.lease = view->seen[i].lease;
        message.expired = view->seen[i].expired;
        message.deliveries = view->seen[i].handed;
        r = visitor(&message, data);
    }
    return r;
}

/* Something could not be read. */
static bool is_lacking(const struct view *view, int r)
{
    return r == -EBADMSG || (r == 0 && view->found.count > 0);
}

int hwt_delay_visit(hwt_delay *store, uint64_t from, uint64_t to,
                    int (*visitor)(const hwt_delay_message *message, void *data), void *data)
{
    if (!store || !visitor)
        return -EINVAL;
    struct view view = { .store = store, .from = { from, 0 } };
    const struct hwt_delay_key end = { to, 0 };
    int r = 0, shield = hwt_delay_enter(store);
    while (r == 0 && hwt_delay_compare(view.from, end) < 0) {
        r = look(&view, end);
        pthread_mutex_unlock(&store->lock);
        if (r == 0)
            r = show(&view, visitor, data);
        pthread_mutex_lock(&store->lock);
        release_all(&view);
        view.from = view.to;
    }
    hwt_delay_readers_free(&view.readers);
    hwt_delay_leave(store, shield);
    free(view.seen);
    return is_lacking(&view, r) ? hwt_delay_damaged_or_stale(store) : r;
}

static void choose(const struct view *view, const struct hwt_delay_record *ticket,
                   struct hwt_delay_record **found)
{
    for (size_t i = 0; i < view->count; i++) {
        struct hwt_delay_record *record = view->seen[i].record;
        if (!hwt_delay_ticket_is_of(ticket, record) ||
            (*found && (*found)->key.sequence >= record->key.sequence))
            continue;
        if (*found)
            hwt_delay_record_unref(*found);
        *found = record;
        record->refs++;
        record->handed = view->seen[i].handed;
    }
}

int hwt_delay_visit_for(hwt_delay *store, uint64_t from, uint64_t to,
                        const struct hwt_delay_record *ticket, struct hwt_delay_record **found)
{
    struct view view = { .store = store, .from = { from, 0 } };
    const struct hwt_delay_key end = { to, 0 };
    int r = 0;
    while (r == 0 && hwt_delay_compare(view.from, end) < 0) {
        r = look(&view, end);
        choose(&view, ticket, found);
        release_all(&view);
        view.from = view.to;
    }
    hwt_delay_readers_free(&view.readers);
    free(view.seen);
    if (!is_lacking(&view, r))
        return r;
    pthread_mutex_unlock(&store->lock);
    r = hwt_delay_damaged_or_stale(store);
    pthread_mutex_lock(&store->lock);
    return r;
}
