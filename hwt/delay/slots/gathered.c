/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Marks the records, of those gathered out of slots, that a later one replaces or erases. */

#include "hwt/delay/whole.h"

/* With its share of the heads, which are most of a slot that has few records. */
static uint64_t cost_of(const struct hwt_delay_record *record)
{
    const struct hwt_delay_reader *reader = record->reader;
    uint64_t heads = reader->count * (HWT_DELAY_RUN_SIZE + HWT_DELAY_BLOCK_SIZE);
    uint64_t count = reader->slot->count;
    return hwt_delay_encoded_about(record) + (count > 0 ? heads / count : 0);
}

/* Counts the bytes of no use in a slot that stays, when two records with one identity follow each
 * other. */
static void note_dead(struct hwt_delay_record *old, const struct hwt_delay_record *record,
                      const struct hwt_delay_slot *moved)
{
    if (old->kind != HWT_DELAY_PUT || record->kind != HWT_DELAY_TOMBSTONE)
        return;
    bool old_stays = old->reader->slot != moved, tombstone_stays = record->reader->slot != moved;
    if (old_stays && !tombstone_stays)
        old->reader->dead += cost_of(old);
    if (!old_stays && tombstone_stays)
        record->reader->dead += cost_of(record);
}

void hwt_delay_gathered_mark(struct hwt_delay_gathered *gathered,
                             const struct hwt_delay_slot *moved)
{
    struct hwt_delay_map identities;
    struct hwt_delay_record *record;
    uint64_t due = 0;
    hwt_delay_map_init(&identities);
    RB_FOREACH(record, hwt_delay_keys, &gathered->keys)
    {
        if (record->key.due != due) /* what has another due time has another identity */
            hwt_delay_map_clear(&identities);
        due = record->key.due;
        struct hwt_delay_record *old = hwt_delay_supplant(&identities, record);
        if (!old)
            continue;
        old->replaced = true;
        if (moved) {
            record->needed = old->needed || (old->kind == HWT_DELAY_PUT &&
                                             (old->twice || old->reader->slot != moved));
            note_dead(old, record, moved);
        }
    }
    hwt_delay_map_clear(&identities);
}

void hwt_delay_gathered_free(struct hwt_delay_gathered *gathered)
{
    struct hwt_delay_record *record;
    while ((record = RB_MIN(hwt_delay_keys, &gathered->keys))) {
        RB_REMOVE(hwt_delay_keys, &gathered->keys, record);
        hwt_delay_record_unref(record);
    }
    gathered->bytes = 0;
}
