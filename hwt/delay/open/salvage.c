/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Salvage puts damaged bytes aside in a file of their own, and uses the rest.
 *
 * A checkpoint that is damaged is rebuilt out of the slots that are there. Then it is not known how
 * far each has been handed over, so messages come twice. Some that were cancelled or replaced come
 * back, because a tombstone that had done its work was dropped, and is in no slot. Those that were
 * leased and are in no slot and no frame of the log are lost.
 *
 * Gaps end. All that other slots and blocks have for their times is delivered, also what was
 * cancelled by a record that cannot be read.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

struct found {
    hwt_delay *store;
    int error;
};

static void add_slot(const char *name, void *arg)
{
    struct found *found = arg;
    struct hwt_delay_slot own;
    if (found->error < 0 || !hwt_delay_slot_parse(name, &own))
        return;
    struct hwt_delay_slot *slot = hwt_delay_slot_new(own.shift, own.index, own.number);
    if (!slot) {
        found->error = -ENOMEM;
        return;
    }
    slot->sealed = slot->made = true;
    slot->origins = HWT_DELAY_ANY_RANGE;
    hwt_delay_wheel_add(found->store, slot);
    hwt_delay_slots_number_raise(found->store, own.number + 1);
}

static int measure(hwt_delay *store, struct hwt_delay_slot *slot)
{
    char name[HWT_DELAY_NAME_MAX];
    hwt_delay_slot_name(slot, name);
    int file = hwt_delay_open_file(store, name, O_RDONLY);
    if (file < 0)
        return file;
    int64_t size = hwt_delay_file_size(store, file);
    hwt_delay_close_file(store, file);
    if (size < 0)
        return (int)size;
    hwt_delay_slot_set_length(store, slot, (uint64_t)size);
    return 0;
}

static int put_checkpoint_aside(hwt_delay *store)
{
    int file = hwt_delay_open_file(store, "checkpoint", O_RDONLY);
    if (file < 0)
        return file == -ENOENT ? 0 : file;
    int64_t size = hwt_delay_file_size(store, file);
    int r = size < 0 ? (int)size : hwt_delay_put_aside(store, file, 0, (uint64_t)size);
    hwt_delay_close_file(store, file);
    return r;
}

/* In the place of a damaged checkpoint, takes every slot, and the log from its oldest frame on. */
int hwt_delay_rebuild(hwt_delay *store)
{
    struct found found = { .store = store };
    int r = put_checkpoint_aside(store);
    if (r == 0)
        r = hwt_delay_list(store, add_slot, &found);
    if (r >= 0)
        r = found.error;
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        r = r == 0 ? measure(store, slot) : r;
    }
    bool displaced;
    struct hwt_delay_frame oldest = { .offset = HWT_DELAY_SEGMENT_FRAMES, .sequence = 1 };
    if (r == 0)
        r = hwt_delay_frame_later(store, 0, &oldest, &displaced);
    hwt_delay_log_keep(
        store, (struct hwt_delay_log_point){ oldest.segment, oldest.offset, oldest.sequence });
    return r < 0 ? r : 0;
}

/* ---- gaps ---- */

/* A message that a slot has in a gap is pending, as if it had been put anew. Memory has nothing of
 * it, because a checkpoint was made, and nothing is loaded. */
static void release(hwt_delay *store, struct hwt_delay_gathered *gathered)
{
    struct hwt_delay_record *record, *next;
    RB_FOREACH_SAFE(record, hwt_delay_keys, &gathered->keys, next)
    {
        if (record->kind != HWT_DELAY_PUT || record->replaced ||
            hwt_delay_is_dropped(store, record->key))
            continue;
        RB_REMOVE(hwt_delay_keys, &gathered->keys, record);
        hwt_delay_filed_end(hwt_delay_filed_of(store), record->key.due);
        hwt_delay_insert(store, record, HWT_DELAY_FRESH);
    }
}

/* Takes as much of the first gap as memory has room for. */
static int release_stretch(hwt_delay *store, struct hwt_delay_readers *readers)
{
    const struct hwt_delay_gap *gap = &hwt_delay_gaps_of(store)->all[0];
    struct hwt_delay_key to = gap->to;
    int r = hwt_delay_readers_choose(store, readers, gap->from, &to);
    if (r < 0)
        return r;
    for (size_t i = 0; i < readers->count; i++)
        readers->all[i]->position = readers->all[i]->slot->before;
    struct hwt_delay_gathered gathered = { .gaps = NULL };
    r = hwt_delay_gather(store, readers->all, readers->count, gap->from, &to,
                         store->options.memory / 8, &gathered);
    if (r < 0)
        return r;
    hwt_delay_gathered_mark(&gathered, NULL);
    release(store, &gathered);
    hwt_delay_gathered_free(&gathered);
    hwt_delay_gap_release(store, to);
    return 0;
}

/* At opening, delivers the messages that were kept back because of damage. Each checkpoint brings a
 * stretch of it to new slots, and says that it is no gap any more. */
int hwt_delay_gaps_release(hwt_delay *store)
{
    struct hwt_delay_readers readers = { 0 };
    int r = 0;
    while (hwt_delay_gaps_of(store)->count > 0 && r == 0) {
        r = release_stretch(store, &readers);
        if (r == 0)
            r = hwt_delay_checkpoint(store);
    }
    hwt_delay_readers_free(&readers);
    hwt_delay_gap_told(store);
    return r;
}
