/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Copying a store to another directory, while it is used.
 *
 * A copy is what the checkpoint on the disk names, and the log behind it: as a store is that was
 * killed at that moment. The files that a checkpoint names do not change, because slots only grow
 * behind the length that it gives. `handed` is not copied, because takes write it without the lock,
 * and its blocks before the checkpoint are old. So it is enough that no checkpoint is made while
 * the log is copied, because that is when frames are written over, and that no slot is deleted
 * before it is copied. An owner pins the log for the first, for about as long as it takes to read
 * the log, and leaves the finished slots until the copy is made. A process that has opened the
 * store read-only cannot hold the owner up. So it opens all slots before it copies the log, and
 * then looks whether the checkpoint is still the same.
 *
 * On the disk: all files, and the directory's own name, before `copying` is renamed to `store`. So
 * a copy that did not end has no `store` and has another file. It is not opened, and no store is
 * made there.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "hwt/delay/whole.h"

#define PIECE ((size_t)256 << 10)

struct slot_copy {
    char name[HWT_DELAY_NAME_MAX];
    uint64_t length;
    int file; /* -1: it is not open */
};

struct copy {
    hwt_delay *store;
    int directory; /* the new one */
    bool begun;    /* what is in it is this copy's */
    int logs[2];   /* the new ones */
    unsigned char *checkpoint;
    uint64_t checkpoint_size;
    struct slot_copy *slots;
    size_t count;
    unsigned segment; /* where the log ends */
    uint64_t offset;
    unsigned char *bytes; /* PIECE */
    uint64_t extent;      /* the log's, as far as it has been copied */
};

/* ---- files ---- */

static int create_file(const struct copy *copy, const char *name)
{
    const struct hwt_delay_system *system = hwt_delay_system_of(copy->store);
    int file;
    do
        file = system->open(system->data, copy->directory, name, O_RDWR | O_CREAT);
    while (file == -EINTR);
    return file;
}

/* Bytes at the same offset in both. -EBADMSG: there are fewer. */
static int copy_range(const struct copy *copy, int from, int to, uint64_t offset, uint64_t end)
{
    int r = 0;
    while (offset < end && r == 0) {
        size_t size = end - offset < PIECE ? (size_t)(end - offset) : PIECE;
        int64_t n = hwt_delay_read_all(copy->store, from, copy->bytes, size, offset);
        if (n < 0)
            return (int)n;
        if (n < (int64_t)size)
            return -EBADMSG;
        r = hwt_delay_write_all(copy->store, to, copy->bytes, size, offset);
        offset += size;
    }
    return r;
}

/* Makes a file of these bytes, and flushes it. */
static int write_file(const struct copy *copy, const char *name, const void *bytes, size_t size)
{
    int file = create_file(copy, name);
    int r = file < 0 ? file : hwt_delay_write_all(copy->store, file, bytes, size, 0);
    if (r == 0)
        r = hwt_delay_sync(copy->store, file);
    hwt_delay_close_file(copy->store, file);
    return r;
}

/* ---- the new directory ---- */

static void see_any(const char *name, void *arg)
{
    (void)name;
    *(bool *)arg = true;
}

static int open_directory(struct copy *copy, const char *path)
{
    const struct hwt_delay_system *system = hwt_delay_system_of(copy->store);
    bool any = false;
    int r = system->make_directory(system->data, path);
    if (r < 0 && r != -EEXIST)
        return r;
    copy->directory = system->open_directory(system->data, path);
    if (copy->directory < 0)
        return copy->directory;
    r = system->list(system->data, copy->directory, see_any, &any);
    return r < 0 ? r : any ? -ENOTEMPTY : 0;
}

/* The head of `store`, under another name. */
static int begin_copy(struct copy *copy)
{
    unsigned char head[HWT_DELAY_STORE_SIZE];
    int64_t n =
        hwt_delay_read_all(copy->store, hwt_delay_store_file(copy->store), head, sizeof(head), 0);
    if (n < (int64_t)sizeof(head))
        return n < 0 ? (int)n : -EBADMSG;
    copy->begun = true;
    return write_file(copy, "copying", head, sizeof(head));
}

/* The log's length, which changes while the log is not pinned. */
static uint64_t extent_of(hwt_delay *store)
{
    pthread_mutex_lock(&store->lock);
    uint64_t extent = hwt_delay_log_extent(store);
    pthread_mutex_unlock(&store->lock);
    return extent;
}

/* A segment with its head and no frames. */
static int make_log(const struct copy *copy, unsigned index, uint64_t extent)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    uint64_t from = copy->extent > 0 ? copy->extent : sizeof(head);
    hwt_delay_segment_head(copy->store, index, extent, head);
    int r = hwt_delay_write_all(copy->store, copy->logs[index], head, sizeof(head), 0);
    return r < 0 ? r : hwt_delay_lengthen(copy->store, copy->logs[index], from, extent);
}

/* Called once before checkpoints are held up, because it takes long, and again then. */
static int make_logs(struct copy *copy)
{
    uint64_t extent = extent_of(copy->store);
    for (unsigned i = 0; i < 2; i++) {
        if (copy->logs[i] < 0)
            copy->logs[i] = create_file(copy, hwt_delay_segment_name(i));
        int r = copy->logs[i] < 0 ? copy->logs[i] : make_log(copy, i, extent);
        if (r < 0)
            return r;
    }
    copy->extent = extent;
    return 0;
}

/* All is there. */
static int end_copy(struct copy *copy)
{
    const struct hwt_delay_system *system = hwt_delay_system_of(copy->store);
    int r = write_file(copy, "checkpoint", copy->checkpoint, copy->checkpoint_size);
    for (int i = 0; i < 2 && r == 0; i++)
        r = hwt_delay_sync(copy->store, copy->logs[i]);
    if (r == 0)
        r = system->sync_directory(system->data, copy->directory);
    if (r == 0)
        r = system->sync_above(system->data, copy->directory);
    if (r == 0)
        r = system->rename(system->data, copy->directory, "copying", "store");
    return r < 0 ? r : system->sync_directory(system->data, copy->directory);
}

static void remove_file(const struct copy *copy, const char *name)
{
    const struct hwt_delay_system *system = hwt_delay_system_of(copy->store);
    system->unlink(system->data, copy->directory, name);
}

/*
 * After a failure. Its name goes first, and for good, because all the rest comes back if the name
 * may come back. If it has no name yet, `copying` goes last, so that a rest that cannot be removed
 * is no store either.
 */
static void remove_copy(const struct copy *copy)
{
    const struct hwt_delay_system *system = hwt_delay_system_of(copy->store);
    int r = system->unlink(system->data, copy->directory, "store");
    if (r == 0)
        r = system->sync_directory(system->data, copy->directory);
    if (r < 0 && r != -ENOENT)
        return;
    remove_file(copy, "checkpoint");
    for (int i = 0; i < 2; i++)
        remove_file(copy, hwt_delay_segment_name(i));
    for (size_t i = 0; i < copy->count; i++)
        remove_file(copy, copy->slots[i].name);
    remove_file(copy, "copying");
}

/* ---- what is copied ---- */

/* The slots that the checkpoint names. */
static int read_slots(struct copy *copy)
{
    const unsigned char *at = copy->checkpoint + HWT_DELAY_CHECKPOINT_SIZE;
    size_t count = hwt_delay_get32(copy->checkpoint + HWT_DELAY_CHECKPOINT_FILES);
    const size_t size = hwt_delay_entry_size(copy->checkpoint);
    if (count > (copy->checkpoint_size - HWT_DELAY_CHECKPOINT_SIZE) / size)
        return -EBADMSG;
    copy->slots = calloc(count + 1, sizeof(*copy->slots));
    if (!copy->slots)
        return -ENOMEM;
    for (; copy->count < count; copy->count++) {
        const unsigned char *entry = at + copy->count * size;
        const struct hwt_delay_slot slot = {
            .number = hwt_delay_get64(entry + HWT_DELAY_FILE_NUMBER),
            .index = hwt_delay_get64(entry + HWT_DELAY_FILE_INDEX),
            .shift = hwt_delay_get32(entry + HWT_DELAY_FILE_SHIFT),
        };
        hwt_delay_slot_name(&slot, copy->slots[copy->count].name);
        copy->slots[copy->count].length = hwt_delay_get64(entry + HWT_DELAY_FILE_LENGTH);
        copy->slots[copy->count].file = -1;
    }
    return 0;
}

static int open_slot(const struct copy *copy, struct slot_copy *slot)
{
    slot->file = hwt_delay_open_file(copy->store, slot->name, O_RDONLY);
    if (slot->file == -ENOENT)
        return hwt_delay_damaged_or_stale(copy->store);
    return slot->file < 0 ? slot->file : 0;
}

/* From where the checkpoint says up to where the log ends. */
static int copy_log(struct copy *copy)
{
    const hwt_delay *store = copy->store;
    const struct hwt_delay_log_point from = hwt_delay_checkpoint_point(copy->checkpoint);
    uint64_t offset = from.offset;
    int r = copy->extent == extent_of(copy->store) ? 0 : make_logs(copy);
    if (r == 0 && from.segment != copy->segment) {
        r = copy_range(copy, hwt_delay_log_file(store, from.segment), copy->logs[from.segment],
                       offset, copy->extent);
        offset = HWT_DELAY_SEGMENT_FRAMES;
    }
    return r < 0 ? r
                 : copy_range(copy, hwt_delay_log_file(store, copy->segment),
                              copy->logs[copy->segment], offset, copy->offset);
}

static int read_checkpoint(struct copy *copy)
{
    int r = hwt_delay_checkpoint_read(copy->store, &copy->checkpoint, &copy->checkpoint_size);
    return r < 0 ? r : read_slots(copy);
}

/* With the log pinned. */
static int copy_state(struct copy *copy)
{
    int r = read_checkpoint(copy);
    return r < 0 ? r : copy_log(copy);
}

static bool is_stale(const struct copy *copy, const unsigned char *checkpoint)
{
    return memcmp(copy->checkpoint, checkpoint, HWT_DELAY_CHECKPOINT_SIZE) != 0;
}

/* It is not where it was at opening. A checkpoint that moves it may bring nothing new; see
 * extent.c. */
static bool log_has_moved(const struct copy *copy)
{
    const struct hwt_delay_log_point was = hwt_delay_log_kept(copy->store);
    const struct hwt_delay_log_point is = hwt_delay_checkpoint_point(copy->checkpoint);
    return is.sequence != was.sequence || is.offset != was.offset || is.segment != was.segment;
}

/* The owner goes on meanwhile. The log that was read at opening must be the one that still
 * counts. */
static int copy_state_of_another(struct copy *copy)
{
    unsigned char *checkpoint;
    uint64_t size;
    int r = read_checkpoint(copy);
    if (r == 0 && log_has_moved(copy))
        r = -ESTALE;
    for (size_t i = 0; i < copy->count && r == 0; i++)
        r = open_slot(copy, &copy->slots[i]);
    if (r < 0)
        return r;
    int copied = copy_log(copy);
    if (copied < 0 && copied != -EBADMSG)
        return copied;
    r = hwt_delay_checkpoint_read(copy->store, &checkpoint, &size);
    if (r < 0)
        return r;
    r = is_stale(copy, checkpoint) ? -ESTALE : copied; /* it may have become shorter meanwhile */
    free(checkpoint);
    return r;
}

static int copy_slots(struct copy *copy)
{
    int r = 0;
    for (size_t i = 0; i < copy->count && r == 0; i++) {
        struct slot_copy *slot = &copy->slots[i];
        int to = create_file(copy, slot->name);
        r = to < 0 ? to : slot->file < 0 ? open_slot(copy, slot) : 0;
        if (r == 0)
            r = copy_range(copy, slot->file, to, 0, slot->length);
        if (r == 0)
            r = hwt_delay_sync(copy->store, to);
        hwt_delay_close_file(copy->store, to);
        hwt_delay_close_file(copy->store, slot->file);
        slot->file = -1;
    }
    return r;
}

/* ---- the owner ---- */

/* From here on until release() no slot is deleted; no checkpoint is made until the log is not
 * pinned any more. */
static int hold(struct copy *copy)
{
    hwt_delay *store = copy->store;
    pthread_mutex_lock(&store->lock);
    hwt_delay_log_pin(store);
    hwt_delay_copies_add(store, 1);
    copy->segment = hwt_delay_log_end(store).segment;
    copy->offset = hwt_delay_log_end(store).offset;
    int r = hwt_delay_log_wait(store, hwt_delay_log_frame(store) - 1);
    if (store->poisoned)
        r = -EIO;
    pthread_mutex_unlock(&store->lock);
    return r;
}

static void unpin(hwt_delay *store)
{
    pthread_mutex_lock(&store->lock);
    hwt_delay_log_unpin(store);
    pthread_mutex_unlock(&store->lock);
}

static void release(hwt_delay *store)
{
    pthread_mutex_lock(&store->lock);
    hwt_delay_log_pin(store);
    hwt_delay_copies_add(store, -1);
    hwt_delay_delete_finished(store);
    pthread_mutex_unlock(&store->lock);
    unpin(store);
}

static int copy_all(struct copy *copy)
{
    hwt_delay *store = copy->store;
    int r = hold(copy);
    if (r == 0)
        r = store->read_only ? copy_state_of_another(copy) : copy_state(copy);
    unpin(store);
    if (r == 0)
        r = copy_slots(copy);
    release(store);
    return r;
}

static int copy_to(hwt_delay *store, const char *path)
{
    struct copy copy = { .store = store, .directory = -1, .logs = { -1, -1 } };
    copy.bytes = malloc(PIECE);
    int r = copy.bytes ? open_directory(&copy, path) : -ENOMEM;
    if (r == 0)
        r = begin_copy(&copy);
    if (r == 0)
        r = make_logs(&copy);
    if (r == 0)
        r = copy_all(&copy);
    if (r == 0)
        r = end_copy(&copy);
    if (r < 0 && copy.begun)
        remove_copy(&copy);
    for (size_t i = 0; i < copy.count; i++)
        hwt_delay_close_file(store, copy.slots[i].file);
    for (int i = 0; i < 2; i++)
        hwt_delay_close_file(store, copy.logs[i]);
    hwt_delay_close_file(store, copy.directory);
    free(copy.slots);
    free(copy.checkpoint);
    free(copy.bytes);
    return r;
}

int hwt_delay_copy(hwt_delay *store, const char *path)
{
    if (!store || !path)
        return -EINVAL;
    int shield = hwt_shield(), r = copy_to(store, path);
    hwt_unshield(shield);
    return r;
}
