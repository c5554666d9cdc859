/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How far the log has got, and which part of it is needed. */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

void hwt_delay_log_init(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    TAILQ_INIT(&log->notices);
    TAILQ_INIT(&log->to_tell);
    log->files[0] = log->files[1] = -1;
    hwt_delay_cond_init(&log->complete);
}

int hwt_delay_log_begin(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    log->frame_max = (size_t)(store->options.segment_size / 8 * 3);
    log->gathered_frame = 1;
    log->ended_from[0] = log->ended_from[1] = HWT_NEVER;
    log->gathered = malloc(log->frame_max);
    log->writing_bytes = malloc(log->frame_max);
    return log->gathered && log->writing_bytes ? 0 : -ENOMEM;
}

void hwt_delay_log_free(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    free(log->gathered);
    free(log->writing_bytes);
    for (unsigned i = 0; i < 2; i++)
        hwt_delay_close_file(store, log->files[i]);
    pthread_cond_destroy(&log->complete);
}

size_t hwt_delay_log_most(const hwt_delay *store)
{
    return store->log.frame_max - HWT_DELAY_FRAME_SIZE - 8;
}

uint64_t hwt_delay_log_next(const hwt_delay *store)
{
    return store->log.next_sequence;
}

uint64_t hwt_delay_log_frame(const hwt_delay *store)
{
    return store->log.gathered_frame;
}

uint64_t hwt_delay_log_durable(const hwt_delay *store)
{
    return store->log.durable_sequence;
}

/* Up to there nothing is due that a frame ends which is not on the disk yet. */
uint64_t hwt_delay_log_ended_from(const hwt_delay *store)
{
    const struct hwt_delay_log *log = &store->log;
    uint64_t gathered = log->ended_from[log->gathered_frame & 1];
    uint64_t before = hwt_delay_log_frame_is_durable(store, log->gathered_frame - 1)
                          ? HWT_NEVER
                          : log->ended_from[(log->gathered_frame - 1) & 1];
    return gathered < before ? gathered : before;
}

struct hwt_delay_log_point hwt_delay_log_end(const hwt_delay *store)
{
    const struct hwt_delay_log *log = &store->log;
    return (struct hwt_delay_log_point){ log->segment, log->offset, log->next_sequence };
}

struct hwt_delay_log_point hwt_delay_log_kept(const hwt_delay *store)
{
    return store->log.kept;
}

uint64_t hwt_delay_log_kept_bytes(const hwt_delay *store)
{
    const struct hwt_delay_log *log = &store->log;
    return log->kept_bytes + (log->most > 0 ? hwt_delay_frame_size(log->most) : 0);
}

uint64_t hwt_delay_log_tombstone_bytes(const hwt_delay *store)
{
    return store->log.tombstone_bytes;
}

bool hwt_delay_log_keeps(const hwt_delay *store, uint64_t sequence)
{
    return sequence >= store->log.kept.sequence;
}

void hwt_delay_log_keep(hwt_delay *store, struct hwt_delay_log_point kept)
{
    store->log.kept = kept;
}

void hwt_delay_log_shed(hwt_delay *store, uint64_t kept_bytes, uint64_t tombstone_bytes)
{
    store->log.kept_bytes -= kept_bytes;
    store->log.tombstone_bytes -= tombstone_bytes;
    store->log.stunted = false; /* a checkpoint may have made room on the disk */
}

/* ---- who may change its length, or rely on its files: one thread at a time ---- */

void hwt_delay_log_pin(hwt_delay *store)
{
    while (store->log.pinned)
        pthread_cond_wait(&store->changed, &store->lock);
    store->log.pinned = true;
}

void hwt_delay_log_unpin(hwt_delay *store)
{
    store->log.pinned = false;
    pthread_cond_broadcast(&store->changed);
}

bool hwt_delay_log_is_pinned(const hwt_delay *store)
{
    return store->log.pinned;
}
