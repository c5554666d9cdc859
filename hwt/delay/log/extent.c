/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How much disk the log has.
 *
 * The two segments and the reserve have one length, the log's extent. It begins small, doubles
 * while the log is used, up to options.segment_size, and becomes small again once nothing is left.
 * All rules about room in the log go by the extent, as if it were the segments' size for ever. So a
 * longer log comes before a checkpoint, and where it cannot be had, because the disk is full, a
 * checkpoint makes room.
 *
 * Each put leaves room in the log for the end of what it puts, in the extent that there is then.
 *
 * The room of a longer segment is on the disk before its head says so, and both heads are before a
 * frame goes there. So a segment that is shorter than its head says has been cut, and no frame is
 * behind the shorter one of the two lengths. When the log becomes shorter, a checkpoint on the disk
 * needs no frame behind the new end; then the heads say so, and then the files are cut.
 *
 * The leader may write and flush a frame meanwhile. The kernel tells each open file of a failed
 * flush once, so the files are opened here anew. On the leader's own files, an error of its frame
 * could be told here, and not to the leader.
 *
 * Whoever changes the extent has pinned the log.
 */

#include <errno.h>
#include <fcntl.h>

#include "hwt/delay/whole.h"

/* Is there a longer log to be had, as far as is known? */
bool hwt_delay_extent_may_grow(const hwt_delay *store)
{
    return store->log.extent < store->options.segment_size && !store->log.stunted && !store->full;
}

bool hwt_delay_extent_is_long(const hwt_delay *store)
{
    return store->log.extent > hwt_delay_extent_least(store);
}

bool hwt_delay_extent_is_wanted(const hwt_delay *store)
{
    return store->log.wanted > 0;
}

uint64_t hwt_delay_log_extent(const hwt_delay *store)
{
    return store->log.extent;
}

uint64_t hwt_delay_extent_least(const hwt_delay *store)
{
    const uint64_t least = UINT64_C(40) << 10;
    return least < store->options.segment_size ? least : store->options.segment_size;
}

static void close_segments(hwt_delay *store, const int files[2])
{
    for (unsigned i = 0; i < 2; i++)
        hwt_delay_close_file(store, files[i]);
}

static int open_segments(hwt_delay *store, int files[2])
{
    for (unsigned i = 0; i < 2; i++)
        files[i] = hwt_delay_segment_open(store, i, O_RDWR);
    int r = files[0] < 0 ? files[0] : files[1] < 0 ? files[1] : 0;
    if (r < 0)
        close_segments(store, files);
    return r;
}

static int sync_segments(hwt_delay *store, const int files[2])
{
    int r = 0;
    for (unsigned i = 0; i < 2 && r == 0; i++)
        r = hwt_delay_sync(store, files[i]);
    return r < 0 ? -EIO : 0;
}

static int write_heads(hwt_delay *store, const int files[2], uint64_t extent)
{
    int r = 0;
    if (extent > store->log.said)
        store->log.said = extent;
    for (unsigned i = 0; i < 2 && r == 0; i++) {
        unsigned char head[HWT_DELAY_SEGMENT_SIZE];
        hwt_delay_segment_head(store, i, extent, head);
        r = hwt_delay_write_all(store, files[i], head, sizeof(head), 0);
    }
    if (r == 0)
        r = sync_segments(store, files);
    if (r == 0)
        store->log.said = extent;
    return r;
}

/* ---- longer ---- */

static int lengthen_files(hwt_delay *store, const int files[2], uint64_t from, uint64_t to)
{
    int r = hwt_delay_reserve_resize(store, from, to);
    for (unsigned i = 0; i < 2 && r == 0; i++)
        r = hwt_delay_lengthen(store, files[i], from, to);
    if (r == 0)
        return 0;
    const uint64_t said = store->log.said;
    for (unsigned i = 0; i < 2; i++)
        hwt_delay_truncate(store, files[i], said > from ? said : from);
    hwt_delay_reserve_resize(store, from, from);
    return r;
}

/* Without the lock. */
static int lengthen(hwt_delay *store, uint64_t from, uint64_t to)
{
    int files[2];
    int r = open_segments(store, files);
    if (r < 0)
        return r;
    r = lengthen_files(store, files, from, to);
    if (r == 0)
        r = sync_segments(store, files);
    if (r == 0)
        r = write_heads(store, files, to);
    close_segments(store, files);
    return r;
}

static uint64_t longer(const hwt_delay *store)
{
    uint64_t extent = 2 * store->log.extent, most = store->options.segment_size;
    while (extent < store->log.wanted && extent < most)
        extent *= 2;
    return extent < most ? extent : most;
}

/* For a log with room for some records of that size. */
void hwt_delay_growth_want(hwt_delay *store, size_t size)
{
    uint64_t extent = 4 * (uint64_t)size + HWT_DELAY_SEGMENT_FRAMES;
    bool wanted = store->log.wanted > 0;
    store->log.wanted = extent > store->log.wanted ? extent : store->log.wanted;
    if (!wanted)
        hwt_delay_want(store, HWT_DELAY_CHECKPOINT);
}

/* Doubles it, as often as is wanted. Lets go of the lock meanwhile. Without room or descriptors it
 * stays, and is stunted. */
void hwt_delay_extent_grow(hwt_delay *store)
{
    hwt_delay_log_pin(store);
    uint64_t from = store->log.extent, to = longer(store);
    store->log.wanted = 0;
    if (store->poisoned || !hwt_delay_extent_may_grow(store)) {
        hwt_delay_log_unpin(store);
        return;
    }
    pthread_mutex_unlock(&store->lock);
    int r = lengthen(store, from, to);
    pthread_mutex_lock(&store->lock);
    if (r == 0)
        store->log.extent = to;
    else if (hwt_delay_is_full(r) || hwt_delay_is_shortage(r))
        store->log.stunted = true;
    else
        hwt_delay_poison(store);
    hwt_delay_log_unpin(store);
}

/* ---- shorter ---- */

/* The log was used so much since the checkpoint before, so it will be used so again. */
static uint64_t wanted(const hwt_delay *store, uint64_t used)
{
    uint64_t extent = hwt_delay_extent_least(store);
    while (extent < store->log.extent && extent / 4 < used)
        extent *= 2;
    return extent < store->log.extent ? extent : store->log.extent;
}

/* For a checkpoint that is begun, by the leader. If nothing is left, the log goes on at the
 * beginning of the other segment, so that the files can be cut behind that. */
uint64_t hwt_delay_extent_snapshot(hwt_delay *store)
{
    struct hwt_delay_log *log = &store->log;
    uint64_t extent = wanted(store, log->kept_bytes);
    if (extent == log->extent)
        return 0;
    if (log->kept.segment == log->segment && log->offset > HWT_DELAY_SEGMENT_FRAMES) {
        log->segment ^= 1;
        log->offset = HWT_DELAY_SEGMENT_FRAMES;
    }
    return extent;
}

/* Without the lock. */
static int shorten(hwt_delay *store, uint64_t to)
{
    int files[2];
    int r = open_segments(store, files);
    if (r < 0)
        return r;
    r = write_heads(store, files, to);
    for (unsigned i = 0; i < 2 && r == 0; i++)
        hwt_delay_truncate(store, files[i], to);
    close_segments(store, files);
    return r < 0 ? r : hwt_delay_reserve_resize(store, to, to);
}

/* It is on the disk. */
void hwt_delay_extent_shrink(hwt_delay *store, uint64_t extent)
{
    struct hwt_delay_log *log = &store->log;
    /* All records that have come meanwhile must be before the new end, with those that are gathered
     * now. A leader may be writing zeros. */
    if (extent == 0 || log->led || log->kept.segment != log->segment ||
        log->kept.offset > extent / 2 || log->offset + log->length > extent / 2)
        return;
    log->extent = extent;
    for (unsigned i = 0; i < 2; i++)
        log->ground[i] = log->ground[i] < extent ? log->ground[i] : extent;
    pthread_mutex_unlock(&store->lock);
    int r = shorten(store, extent);
    pthread_mutex_lock(&store->lock);
    if (r == -EIO)
        hwt_delay_poison(store);
}
