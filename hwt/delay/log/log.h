/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_LOG_LOG_H
#define HWT_DELAY_LOG_LOG_H

/*
 * The log has the changes, in order, since the checkpoint on the disk. See log.c for the frames,
 * wait.c for who waits for them, room.c for who waits for room, extent.c for its length, notice.c
 * for callbacks.
 *
 * All is called with the store's lock, but for what reads and writes files.
 */

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay.h"
#include "hwt/delay/disk/format.h"

struct hwt_delay_record;

/* A point between two frames. The frame behind it is at this place, and begins with that record. */
struct hwt_delay_log_point {
    unsigned segment;
    uint64_t offset, sequence;
};

struct hwt_delay_notice {
    hwt_delay_durable durable;
    void *arg;
};

#define HWT_DELAY_NOTICES 60 /* a block takes about a thousand bytes */

struct hwt_delay_notice_block {
    TAILQ_ENTRY(hwt_delay_notice_block) link;
    int result;
    unsigned count;
    struct hwt_delay_notice all[HWT_DELAY_NOTICES];
};

TAILQ_HEAD(hwt_delay_notices, hwt_delay_notice_block);

/* The bytes that opening cut from the log, because they are no whole frame. Its length is 0 if
 * there are none. */
struct hwt_delay_cut {
    unsigned segment;
    uint64_t offset, length;
};

struct hwt_delay_log {
    int files[2];     /* frozen */
    size_t frame_max; /* frozen: with head and padding */
    uint64_t extent;  /* the length of each segment and of the reserve; see extent.c */
    uint64_t said;    /* no segment's head says more; of whoever has pinned the log */
    bool pinned;      /* its length and what it keeps stay, but for the thread that has pinned it */
    bool stunted;     /* it could not become longer since the last checkpoint */
    uint64_t wanted;  /* a log of this length is, or of the next longer one; 0: none */
    unsigned segment; /* where the frame that is being gathered would begin */
    uint64_t offset;
    uint64_t ground[2]; /* of each segment, up to there frames need no zeros; see log.c */
    struct hwt_delay_log_point kept; /* the checkpoint on the disk needs the log from here on */
    uint64_t kept_bytes; /* frames from there on take no more, wherever their records are written */
    uint64_t tombstone_bytes; /* what tombstones in the log would take in memory after a crash */
    uint64_t
        counted; /* frozen: what records before it ended is not in the numbers that were read */
    uint64_t next_sequence;
    uint64_t durable_sequence;               /* lower ones are on the disk */
    uint64_t gathered_frame;                 /* number of the frame that is being gathered */
    _Atomic uint64_t durable_frame;          /* number of the last one on the disk; see wait.c */
    unsigned char *gathered, *writing_bytes; /* of frame_max bytes each */
    size_t length;                           /* of the gathered records */
    size_t most;                             /* they take no more, wherever they are written */
    struct hwt_delay_before before;          /* the last one of them */
    uint32_t count;
    bool led;                          /* somebody writes a frame, or lingers before that */
    void (*between)(hwt_delay *store); /* to be called between two frames; NULL: nothing is */
    bool closed;                       /* the last record is the mark of a close */
    uint64_t ended_from[2];   /* by the frame's number modulo 2: nothing that is due before this
                                         is ended by it */
    struct hwt_delay_cut cut; /* frozen */
    struct hwt_delay_notices notices; /* of the gathered frame */
    struct hwt_delay_notices to_tell; /* of those before it, in their order */
    bool telling;
    _Atomic uint32_t turns[2]; /* by the frame's number modulo 2: a futex; see wait.c */
    unsigned callers[2];       /* the same: how many wait for it */
    unsigned expected;         /* how many are likely to wait for the frame that is gathered */
    unsigned vain, hasty;      /* how often lingering was in vain; so many frames go without */
    uint64_t flush_took;
    pthread_cond_t complete; /* as many wait as are expected */
};

void hwt_delay_log_init(hwt_delay *store);
/* The length of its frames is known. -ENOMEM */
int hwt_delay_log_begin(hwt_delay *store);
void hwt_delay_log_free(hwt_delay *store);

/* ---- gathering ---- */

int hwt_delay_log_reserve(hwt_delay *store, size_t size, size_t memory, bool put);
int hwt_delay_log_try(hwt_delay *store, size_t size, size_t memory, bool put);
/* So many bytes of records a frame has at most. */
size_t hwt_delay_log_most(const hwt_delay *store);
void hwt_delay_log_add(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_log_add_done(hwt_delay *store, const struct hwt_delay_record *message);
int hwt_delay_notices_reserve(hwt_delay *store);
void hwt_delay_notices_add(hwt_delay *store, struct hwt_delay_notice notice);

/* ---- frames ---- */

/* Lets go of the lock, and waits for a frame. */
int hwt_delay_log_leave(hwt_delay *store, uint64_t frame);
int hwt_delay_log_wait(hwt_delay *store, uint64_t frame);
void hwt_delay_log_lead(hwt_delay *store);
/* Has it called between two frames, when all that was gathered before is in the first; -EIO. One at
 * a time. */
int hwt_delay_log_between(hwt_delay *store, void (*call)(hwt_delay *store));
void hwt_delay_log_finish(hwt_delay *store);
void hwt_delay_log_close(hwt_delay *store);
void hwt_delay_poison(hwt_delay *store);
uint64_t hwt_delay_log_commit(void *store); /* a job */

/* ---- how far it has got ---- */

uint64_t hwt_delay_log_next(const hwt_delay *store);  /* the number of the next record */
uint64_t hwt_delay_log_frame(const hwt_delay *store); /* that of the frame that is gathered */
uint64_t
hwt_delay_log_durable(const hwt_delay *store); /* records before this one are on the disk */
uint64_t hwt_delay_log_ended_from(const hwt_delay *store);
/* The place of the next frame for which nothing was gathered yet. */
struct hwt_delay_log_point hwt_delay_log_end(const hwt_delay *store);
struct hwt_delay_log_point hwt_delay_log_kept(const hwt_delay *store);
uint64_t hwt_delay_log_kept_bytes(const hwt_delay *store);
uint64_t hwt_delay_log_tombstone_bytes(const hwt_delay *store);
/* Opening would read this record again. */
bool hwt_delay_log_keeps(const hwt_delay *store, uint64_t sequence);
/* The checkpoint on the disk needs the log from here on. */
void hwt_delay_log_keep(hwt_delay *store, struct hwt_delay_log_point kept);
/* A checkpoint has brought so many bytes of frames and of tombstones to slots. */
void hwt_delay_log_shed(hwt_delay *store, uint64_t kept_bytes, uint64_t tombstone_bytes);

/* No checkpoint is made, and the length stays, but by the caller. Waits for another who has pinned
 * it. */
void hwt_delay_log_pin(hwt_delay *store);
void hwt_delay_log_unpin(hwt_delay *store);
bool hwt_delay_log_is_pinned(const hwt_delay *store);

/* ---- its length ---- */

/* That of a new store. */
uint64_t hwt_delay_extent_least(const hwt_delay *store);
uint64_t hwt_delay_log_extent(const hwt_delay *store);
bool hwt_delay_extent_is_wanted(const hwt_delay *store);
bool hwt_delay_extent_may_grow(const hwt_delay *store);
/* It is longer than that of a new store. */
bool hwt_delay_extent_is_long(const hwt_delay *store);
void hwt_delay_growth_want(hwt_delay *store, size_t size);
void hwt_delay_extent_grow(hwt_delay *store);
uint64_t hwt_delay_extent_snapshot(hwt_delay *store);
void hwt_delay_extent_shrink(hwt_delay *store, uint64_t extent);

/* ---- its files ---- */

/* None is shorter. */
#define HWT_DELAY_SEGMENT_LEAST (UINT64_C(32) << 10)

const char *hwt_delay_segment_name(unsigned index);
int hwt_delay_segment_make(hwt_delay *store, unsigned index);
int hwt_delay_segment_read(hwt_delay *store, unsigned index,
                           unsigned char head[HWT_DELAY_SEGMENT_SIZE]);
void hwt_delay_segment_head(const hwt_delay *store, unsigned index, uint64_t extent,
                            unsigned char *head);
int64_t hwt_delay_segments_longer(hwt_delay *store);
int hwt_delay_segments_open(hwt_delay *store, bool mend);
int hwt_delay_segments_read(hwt_delay *store);
int hwt_delay_segments_salvage(hwt_delay *store);
int hwt_delay_log_file(const hwt_delay *store, unsigned segment);

/* ---- reading it ---- */

struct hwt_delay_frame {
    unsigned segment;
    uint64_t offset, size; /* in the segment, with head and padding */
    uint32_t length, count;
    uint64_t sequence, hand;
};

/* Room for a frame with its head; the caller frees it. */
unsigned char *hwt_delay_frame_new(const hwt_delay *store);
int hwt_delay_frame_read(hwt_delay *store, unsigned segment, uint64_t offset, unsigned char *bytes,
                         struct hwt_delay_frame *ret_frame);
/* 1: the frame with the lowest sequence above this one; 0: there is none. Displaced: the frame with
 * which the log would go on stands at another place. */
int hwt_delay_frame_later(hwt_delay *store, uint64_t sequence, struct hwt_delay_frame *ret_frame,
                          bool *ret_displaced);
int64_t hwt_delay_frame_torn(hwt_delay *store, unsigned segment, uint64_t offset,
                             uint64_t sequence);

/* Called at opening. Applies each frame from hwt_delay_log_kept() on, and returns the last one. */
int hwt_delay_log_read(hwt_delay *store,
                       int (*apply)(hwt_delay *store, const struct hwt_delay_frame *frame,
                                    const unsigned char *records),
                       struct hwt_delay_frame *ret_last);
int hwt_delay_log_write_anew(hwt_delay *store, const struct hwt_delay_frame *last);
void hwt_delay_log_skip_numbers(hwt_delay *store);
/* Numbers of messages that were read have what ended by this record on. */
void hwt_delay_log_set_counted(hwt_delay *store, uint64_t sequence);
bool hwt_delay_log_is_counted(const hwt_delay *store, uint64_t sequence);
void hwt_delay_log_note_replayed(hwt_delay *store, const struct hwt_delay_record *tombstone);
/* A frame was read whose records take no more, wherever they are written. */
void hwt_delay_log_note_kept(hwt_delay *store, size_t most);
void hwt_delay_log_set_closed(hwt_delay *store, bool closed);
struct hwt_delay_cut hwt_delay_log_cut(const hwt_delay *store);

/* ---- what the files of this room do for each other ---- */

/* That of a frame, with its head and padding. */
static inline size_t hwt_delay_frame_size(size_t records)
{
    return (HWT_DELAY_FRAME_SIZE + records + 7) & ~(size_t)7;
}

uint64_t hwt_delay_log_limit(const hwt_delay *store, bool mark);
bool hwt_delay_log_frame_is_durable(const hwt_delay *store, uint64_t frame);
void hwt_delay_log_lead_and_leave(hwt_delay *store);
void hwt_delay_log_hurry(hwt_delay *store);
void hwt_delay_callers_expect(hwt_delay *store, uint64_t frame);
void hwt_delay_turns_end(hwt_delay *store);
void hwt_delay_turns_wake(hwt_delay *store, uint64_t frame);
void hwt_delay_turns_wake_all(hwt_delay *store);
void hwt_delay_notices_take(struct hwt_delay_notices *from, struct hwt_delay_notices *notices);
void hwt_delay_notices_pass(hwt_delay *store, struct hwt_delay_notices *notices, int result);
int hwt_delay_segment_open(hwt_delay *store, unsigned index, int flags);

#endif
