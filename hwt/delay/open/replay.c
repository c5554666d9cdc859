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
        hwt_delay_apply_tombstone(store, record);
        break;
    }
    return 0;
}

/* Has it the sequence that belongs to its place in the log? */
static bool is_in_place(const struct hwt_delay_record *record, uint64_t sequence)
{
    if (record->kind == HWT_DELAY_DROP)
        return record->key.sequence < sequence;
    return record->kind == HWT_DELAY_TOMBSTONE || record->key.sequence == sequence;
}

static int apply(hwt_delay *store, const struct hwt_delay_packed *packed, uint64_t sequence,
                 size_t *most)
{
    struct hwt_delay_record *record = hwt_delay_record_of(packed);
    if (!record)
        return -ENOMEM;
    *most += hwt_delay_encoded_most(record);
    store->stats.replayed++;
    if (!is_in_place(record, sequence)) {
        hwt_delay_record_unref(record);
        return -EBADMSG;
    }
    if (hwt_delay_log_is_counted(store, sequence))
        record->ends = false;
    return hwt_delay_replay_record(store, record);
}

int hwt_delay_replay(hwt_delay *store, const struct hwt_delay_frame *frame,
                     const unsigned char *records)
{
    const unsigned char *at = records, *end = at + frame->length;
    struct hwt_delay_before before = { 0 };
    bool closed = false;
    size_t most = 0;
    for (uint32_t i = 0; i < frame->count; i++) {
        struct hwt_delay_packed packed;
        int r = hwt_delay_unpack(&before, &at, end, &packed);
        closed = r == 0 && packed.kind == HWT_DELAY_CLOSED;
        if (closed)
            continue;
        if (r == 0)
            r = apply(store, &packed, frame->sequence + i, &most);
        if (r < 0)
            return r;
    }
    if (at != end)
        return -EBADMSG;
    hwt_delay_log_note_kept(store, most);
    hwt_delay_log_set_closed(store, closed);
    hwt_delay_hand_raise(store, frame->hand);
    return 0;
}
