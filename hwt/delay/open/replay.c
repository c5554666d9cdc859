/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reading the log at opening.
 *
 * It ends where no frame has the sequence that is next, at its place or at the beginning of the
 * other segment. The head of a frame with a higher sequence anywhere means that something in between is
 * damaged: an unfinished write is always the last one. Where the store was closed there is
 * always such a head, but for damage to that one itself.
 */

#include <errno.h>

#include "hwt/delay/store.h"

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
        store->erased_bytes += hwt_delay_record_bytes(record);
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
    if (sequence < store->log.counted)
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

static int apply_frame(hwt_delay *store, const struct hwt_delay_frame *frame)
{
    const unsigned char *at = store->log.gathered + HWT_DELAY_FRAME_SIZE;
    const unsigned char *end = at + frame->length;
    for (uint32_t i = 0; i < frame->count; i++) {
        struct hwt_delay_record *record;
        store->log.closed = is_closed(&at, end);
        if (store->log.closed)
            continue;
        int r = hwt_delay_decode(&at, end, &record);
        if (r == 0)
            r = apply(store, record, frame->sequence + i);
        if (r < 0)
            return r;
    }
    if (at != end)
        return -EBADMSG;
    if (frame->hand > store->hand)
        store->hand = frame->hand;
    return 0;
}

/* The next frame: at its place, or at the beginning of the other segment. */
static int next_frame(hwt_delay *store, struct hwt_delay_frame *frame)
{
    struct hwt_delay_log *log = &store->log;
    int r = hwt_delay_frame_read(store, log->segment, log->offset, log->gathered, frame);
    if (r == 0 && frame->sequence == log->next_sequence)
        return 0;
    if (r < 0 && r != -EBADMSG)
        return r;
    r = hwt_delay_frame_read(store, log->segment ^ 1, HWT_DELAY_SEGMENT_FRAMES, log->gathered,
                             frame);
    if (r == 0 && frame->sequence == log->next_sequence) {
        log->segment ^= 1;
        log->offset = HWT_DELAY_SEGMENT_FRAMES;
        return 0;
    }
    return r < 0 ? r : -EBADMSG;
}

/* How much of a write that did not end is at a place where the log may go on. */
static int note_cut_at(hwt_delay *store, unsigned segment, uint64_t offset)
{
    struct hwt_delay_log *log = &store->log;
    int64_t length = hwt_delay_frame_torn(store, segment, offset, log->next_sequence);
    if (length < 0)
        return (int)length;
    if (length > 0)
        log->cut = (struct hwt_delay_cut){ segment, offset, (uint64_t)length };
    store->stats.cut += (uint64_t)length;
    return 0;
}

static int note_cut(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    int r = note_cut_at(store, log->segment, log->offset);
    if (r == 0 && log->cut.length == 0)
        r = note_cut_at(store, log->segment ^ 1, HWT_DELAY_SEGMENT_FRAMES);
    return r;
}

/* Nothing is damaged before `later`, if numbers alone are missing: those that skip_sequences() left
 * out, when a checkpoint had brought all before them to slots. */
static bool only_numbers_are_missing(const hwt_delay *store, const struct hwt_delay_frame *later)
{
    const struct hwt_delay_log *log = &store->log;
    if (later->offset == HWT_DELAY_SEGMENT_FRAMES && later->segment != log->segment)
        return later->sequence - log->next_sequence > hwt_delay_log_numbers(store);
    return later->segment == log->segment && later->offset == log->offset;
}

/* Salvage goes on behind what is damaged. */
static int skip_to(hwt_delay *store, const struct hwt_delay_frame *later)
{
    struct hwt_delay_log *log = &store->log;
    uint64_t behind = later->segment == log->segment && later->offset > log->offset
                          ? later->offset
                          : log->extent;
    int r = only_numbers_are_missing(store, later)
                ? 0
                : hwt_delay_put_aside(store, log->files[log->segment], log->offset,
                                      behind - log->offset);
    log->segment = later->segment;
    log->offset = later->offset;
    log->next_sequence = later->sequence;
    return r;
}

/* There is no next frame. 1: the log ends here; 0: salvage goes on behind. */
static int end_of_log(hwt_delay *store)
{
    struct hwt_delay_frame later = { 0 };
    int r = hwt_delay_frame_later(store, store->log.next_sequence + 1, &later);
    if (r < 0)
        return r;
    if (r == 0) {
        r = note_cut(store);
        return r < 0 ? r : 1;
    }
    if (store->salvage)
        return skip_to(store, &later);
    /* An owner may have written it meanwhile: then the log is as it was when it was looked at. */
    struct hwt_delay_frame next;
    r = store->read_only ? next_frame(store, &next) : -EBADMSG;
    return r < 0 ? r : 1;
}

/* Reads the log from where the checkpoint says on into the table. */
int hwt_delay_replay(hwt_delay *store, struct hwt_delay_frame *ret_last)
{
    struct hwt_delay_log *log = &store->log;
    log->segment = log->kept_segment;
    log->offset = log->kept_offset;
    log->next_sequence = log->kept_sequence;
    for (;;) {
        struct hwt_delay_frame frame;
        int r = next_frame(store, &frame);
        if (r == -EBADMSG) {
            r = end_of_log(store);
            if (r == 1)
                break;
            if (r == 0)
                continue;
        }
        if (r == 0)
            r = apply_frame(store, &frame);
        if (r < 0)
            return r;
        log->next_sequence = frame.sequence + frame.count;
        log->offset += frame.size;
        log->kept_bytes += frame.size;
        *ret_last = frame;
    }
    log->durable_sequence = log->next_sequence;
    return 0;
}
