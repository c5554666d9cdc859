/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Applying at opening what the log and the checkpoint say. */

#include <errno.h>

#include "hwt/delay/whole.h"

/* One of the log, or that is whole in the checkpoint. Takes over the caller's reference. */
int hwt_delay_replay_record(hwt_delay *store, struct hwt_delay_record *record)
{
    switch (record->kind) {
    case HWT_DELAY_PUT:
        hwt_delay_apply_put(store, record);
        break;
    case HWT_DELAY_NOTE:
        hwt_delay_set_note(store, record);
        break;
    case HWT_DELAY_DROP:
        if (!hwt_delay_is_dropped(store, record->key) && !hwt_delay_drops_fit(store, 1)) {
            hwt_delay_record_unref(record);
            return -EBADMSG;
        }
        hwt_delay_drop(store, record);
        break;
    default:
        hwt_delay_log_note_replayed(store, record);
        hwt_delay_apply_erase(store, record);
        break;
    }
    return 0;
}

/* Has it the sequence that belongs to its place in the log? */
static bool is_in_place(const struct hwt_delay_record *record, uint64_t sequence)
{
    if (record->kind == HWT_DELAY_DROP)
        return record->key.sequence < sequence;
    return record->kind == HWT_DELAY_ERASE || record->key.sequence == sequence;
}

static int apply(hwt_delay *store, struct hwt_delay_record *record, uint64_t sequence)
{
    store->stats.replayed++;
    if (!is_in_place(record, sequence)) {
        hwt_delay_record_unref(record);
        return -EBADMSG;
    }
    if (hwt_delay_log_is_counted(store, sequence))
        record->ends = false;
    return hwt_delay_replay_record(store, record);
}

/* Passes over the mark of a close. */
static bool is_closed(const unsigned char **at, const unsigned char *end)
{
    const unsigned char *head = *at;
    if (hwt_delay_encoded_at(head, end) != HWT_DELAY_RECORD_SIZE ||
        head[HWT_DELAY_RECORD_KIND] != HWT_DELAY_CLOSED)
        return false;
    *at += HWT_DELAY_RECORD_SIZE;
    return true;
}

int hwt_delay_replay(hwt_delay *store, const struct hwt_delay_frame *frame,
                     const unsigned char *records)
{
    const unsigned char *at = records, *end = at + frame->length;
    bool closed = false;
    for (uint32_t i = 0; i < frame->count; i++) {
        struct hwt_delay_record *record;
        closed = is_closed(&at, end);
        if (closed)
            continue;
        int r = hwt_delay_decode(&at, end, &record);
        if (r == 0)
            r = apply(store, record, frame->sequence + i);
        if (r < 0)
            return r;
    }
    if (at != end)
        return -EBADMSG;
    hwt_delay_log_set_closed(store, closed);
    hwt_delay_hand_raise(store, frame->hand);
    return 0;
}
