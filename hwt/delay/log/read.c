/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reading the log at opening.
 *
 * It ends where no frame has the sequence that is next, at its place or at the beginning of the
 * other segment. The head of a frame with a higher sequence anywhere means that something in
 * between is damaged, because an unfinished write is always the last one. If the store was closed,
 * there is always such a head, unless that one itself is damaged. The head of the next frame
 * at another place means that bytes were inserted or left out.
 */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

/* Reads the next frame, at its place, or at the beginning of the other segment. */
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

/* So many records two segments have at most. */
static uint64_t numbers_at_most(const hwt_delay *store)
{
    return 2 * store->options.segment_size / HWT_DELAY_RECORD_LEAST;
}

/* Nothing is damaged before `later`, if only those numbers are missing that
 * hwt_delay_log_skip_numbers() left out, when a checkpoint had brought all before them to slots. */
static bool only_numbers_are_missing(const hwt_delay *store, const struct hwt_delay_frame *later)
{
    const struct hwt_delay_log *log = &store->log;
    if (later->offset == HWT_DELAY_SEGMENT_FRAMES && later->segment != log->segment)
        return later->sequence - log->next_sequence > numbers_at_most(store);
    return later->segment == log->segment && later->offset == log->offset;
}

/* Salvage goes on behind what is damaged. */
static int skip_to(hwt_delay *store, const struct hwt_delay_frame *later)
{
    struct hwt_delay_log *log = &store->log;
    uint64_t behind =
        later->segment == log->segment && later->offset > log->offset ? later->offset : log->extent;
    int r = only_numbers_are_missing(store, later)
                ? 0
                : hwt_delay_put_aside(store, log->files[log->segment], log->offset,
                                      behind - log->offset);
    log->segment = later->segment;
    log->offset = later->offset;
    log->next_sequence = later->sequence;
    return r;
}

static int put_rest_aside(hwt_delay *store)
{
    const struct hwt_delay_log *log = &store->log;
    return hwt_delay_put_aside(store, log->files[log->segment], log->offset,
                               log->extent - log->offset);
}

/* There is no next frame. 1: the log ends here; 0: salvage goes on behind. */
static int end_of_log(hwt_delay *store)
{
    struct hwt_delay_frame later = { 0 };
    bool displaced;
    int r = hwt_delay_frame_later(store, store->log.next_sequence, &later, &displaced);
    if (r < 0)
        return r;
    if (r == 0 && !displaced) {
        r = note_cut(store);
        return r < 0 ? r : 1;
    }
    if (r == 0 && store->salvage) {
        r = put_rest_aside(store);
        return r < 0 ? r : 1;
    }
    if (store->salvage)
        return skip_to(store, &later);
    /* An owner may have written it meanwhile. Then the log is as it was when it was looked at. */
    struct hwt_delay_frame next;
    r = store->read_only ? next_frame(store, &next) : -EBADMSG;
    return r < 0 ? r : 1;
}

int hwt_delay_log_read(hwt_delay *store,
                       int (*apply)(hwt_delay *store, const struct hwt_delay_frame *frame,
                                    const unsigned char *records),
                       struct hwt_delay_frame *ret_last)
{
    struct hwt_delay_log *log = &store->log;
    log->segment = log->kept.segment;
    log->offset = log->kept.offset;
    log->next_sequence = log->kept.sequence;
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
            r = apply(store, &frame, log->gathered + HWT_DELAY_FRAME_SIZE);
        if (r < 0)
            return r;
        log->next_sequence = frame.sequence + frame.count;
        log->offset += frame.size;
        *ret_last = frame;
    }
    log->durable_sequence = log->next_sequence;
    return 0;
}

/* ---- before it is written again ---- */

/*
 * The end of the log may be damaged, and slots may have the records that were there, which are
 * those of two segments at most. It may be damaged again, so the numbers go by the clock, too.
 * While that is not set back, they are above all that were given before.
 */
void hwt_delay_log_skip_numbers(hwt_delay *store)
{
    uint64_t next = store->log.next_sequence + 2 * store->options.segment_size;
    uint64_t by_clock = (UINT64_C(1) << 62) + hwt_delay_realtime(store) / 2;
    store->log.next_sequence = next > by_clock ? next : by_clock;
    store->log.durable_sequence = store->log.next_sequence;
}

/* Both say the log's length then, so no frame is behind it. */
static int write_segment_heads(hwt_delay *store)
{
    int r = 0;
    for (unsigned i = 0; i < 2 && r >= 0; i++) {
        unsigned char head[HWT_DELAY_SEGMENT_SIZE];
        hwt_delay_segment_head(store, i, store->log.extent, head);
        r = hwt_delay_overwrite(store, store->log.files[i], head, sizeof(head), 0);
    }
    return r;
}

/* Writes the same bytes, so if this is torn they are what they were. */
int hwt_delay_log_write_anew(hwt_delay *store, const struct hwt_delay_frame *last)
{
    struct hwt_delay_frame frame;
    unsigned char *bytes = store->log.gathered;
    int file = store->log.files[last->segment];
    int r = last->count == 0
                ? 0
                : hwt_delay_frame_read(store, last->segment, last->offset, bytes, &frame);
    if (r == 0 && last->count > 0)
        r = hwt_delay_overwrite(store, file, bytes, HWT_DELAY_FRAME_SIZE + (size_t)frame.length,
                                last->offset);
    if (r >= 0)
        r = write_segment_heads(store);
    for (unsigned i = 0; i < 2 && r >= 0; i++)
        r = hwt_delay_sync(store, store->log.files[i]);
    if (r >= 0)
        store->log.said = store->log.extent;
    return r < 0 ? r : 0;
}

/* ---- what opening says of it ---- */

void hwt_delay_log_set_counted(hwt_delay *store, uint64_t sequence)
{
    store->log.counted = sequence;
}

bool hwt_delay_log_is_counted(const hwt_delay *store, uint64_t sequence)
{
    return sequence < store->log.counted;
}

void hwt_delay_log_note_replayed(hwt_delay *store, const struct hwt_delay_record *tombstone)
{
    store->log.tombstone_bytes += hwt_delay_record_bytes(tombstone);
}

void hwt_delay_log_note_kept(hwt_delay *store, size_t most)
{
    store->log.kept_bytes += hwt_delay_frame_size(most);
}

void hwt_delay_log_set_closed(hwt_delay *store, bool closed)
{
    store->log.closed = closed;
}

struct hwt_delay_cut hwt_delay_log_cut(const hwt_delay *store)
{
    return store->log.cut;
}

unsigned char *hwt_delay_frame_new(const hwt_delay *store)
{
    return malloc(store->log.frame_max);
}
