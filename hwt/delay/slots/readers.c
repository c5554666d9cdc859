/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A reader says how far a slot has been read. Loading has one in each slot.
 *
 * Readers of a caller's own are of all slots that have something in a stretch of time. They stay
 * from stretch to stretch, each with a reference to its slot, and go on where they were. All with
 * the lock.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

/* The next reading begins with the slot's first run. */
void hwt_delay_reader_reset(struct hwt_delay_reader *reader)
{
    while (reader->count > 0)
        free(reader->runs[--reader->count].kept);
    reader->indexed = 0;
}

/* It is not used again. */
void hwt_delay_reader_clear(struct hwt_delay_reader *reader)
{
    hwt_delay_reader_reset(reader);
    free(reader->runs);
}

uint64_t hwt_delay_reader_next(const struct hwt_delay_reader *reader)
{
    const struct hwt_delay_slot *slot = reader->slot;
    uint64_t start = hwt_delay_slot_start(slot), next = HWT_NEVER;
    if (slot->length == 0 || reader->indexed < slot->length)
        return start;
    for (size_t i = 0; i < reader->count; i++) {
        const struct hwt_delay_run *run = &reader->runs[i];
        if (run->next < run->end && run->first.due < next)
            next = run->first.due;
    }
    return next > start ? next : start;
}

/* So many slots of each length are read at a time, unless more of them begin with the stretch. */
#define SLOTS_AT_ONCE 32

static void release(struct hwt_delay_readers *readers, size_t i)
{
    struct hwt_delay_reader *reader = readers->all[i];
    readers->all[i] = readers->all[--readers->count];
    hwt_delay_slot_unref(reader->slot);
    hwt_delay_reader_clear(reader);
    free(reader);
}

/* Drops the readers of slots that end before the stretch, or have been passed, because their files
 * may be gone. */
static void release_passed(struct hwt_delay_readers *readers, uint64_t from)
{
    for (size_t i = readers->count; i-- > 0;) {
        const struct hwt_delay_slot *slot = readers->all[i]->slot;
        if (!slot->on_wheel || hwt_delay_slot_last(slot) < from)
            release(readers, i);
    }
}

static struct hwt_delay_reader *find(const struct hwt_delay_readers *readers,
                                     const struct hwt_delay_slot *slot)
{
    for (size_t i = 0; i < readers->count; i++) {
        if (readers->all[i]->slot == slot)
            return readers->all[i];
    }
    return NULL;
}

static struct hwt_delay_reader *add(struct hwt_delay_readers *readers, struct hwt_delay_slot *slot)
{
    struct hwt_delay_reader **all =
        hwt_delay_grown(readers->all, readers->count, &readers->room, sizeof(*all), 64);
    if (!all)
        return NULL;
    readers->all = all;
    struct hwt_delay_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return NULL;
    reader->slot = slot;
    slot->refs++;
    readers->all[readers->count++] = reader;
    return reader;
}

/* Chooses among the slots of one length. */
static int choose(const hwt_delay *store, struct hwt_delay_readers *readers, unsigned shift,
                  uint64_t from, struct hwt_delay_key *to)
{
    struct hwt_delay_slot *slot = hwt_delay_wheel_from(store, shift, from >> shift, 0);
    for (size_t count = 0; slot && slot->shift == shift;
         slot = RB_NEXT(hwt_delay_spans, NULL, slot)) {
        uint64_t start = hwt_delay_slot_start(slot);
        if (!hwt_delay_begins_below(slot, *to))
            break;
        if (count++ >= SLOTS_AT_ONCE && start > from) {
            *to = (struct hwt_delay_key){ start, 0 };
            break;
        }
        struct hwt_delay_reader *reader = find(readers, slot);
        if (!reader)
            reader = add(readers, slot);
        if (!reader)
            return -ENOMEM;
        reader->position = hwt_delay_position(store, slot);
    }
    return 0;
}

/* *to comes down to where a slot begins that is not among them. -ENOMEM */
int hwt_delay_readers_choose(const hwt_delay *store, struct hwt_delay_readers *readers,
                             struct hwt_delay_key from, struct hwt_delay_key *to)
{
    int r = 0;
    release_passed(readers, from.due);
    for (unsigned shift = 0; shift < 64 && r == 0; shift++) {
        if (store->slots.wheel.by_shift[shift] > 0)
            r = choose(store, readers, shift, from.due, to);
    }
    return r;
}

void hwt_delay_readers_free(struct hwt_delay_readers *readers)
{
    while (readers->count > 0)
        release(readers, readers->count - 1);
    free(readers->all);
    *readers = (struct hwt_delay_readers){ 0 };
}
