/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The files that every store has: making them, and reading their heads.
 *
 * On the disk: log.0, log.1 and `checkpoint` with their names, before the head of `store`. So a
 * `store` without a head is one whose making did not end, and is made again. So is one whose head is
 * not whole, as long as the other files are as they were made.
 */

#include <errno.h>
#include <fcntl.h>

#include "hwt/delay/store.h"

#define SIZE_LEAST (UINT64_C(32) << 10)

static const char *const segment_names[] = { "log.0", "log.1" };

int hwt_delay_open_segment(hwt_delay *store, unsigned index, int flags)
{
    return hwt_delay_open_file(store, segment_names[index], flags);
}

/* Not 0, which bytes that were never written would have. */
static int choose_key(hwt_delay *store)
{
    int r = 0;
    while (r == 0 && store->key == 0)
        r = store->system.random(store->system.data, &store->key, sizeof(store->key));
    return r;
}

void hwt_delay_segment_head(const hwt_delay *store, unsigned index, uint64_t extent,
                            unsigned char *head)
{
    memset(head, 0, HWT_DELAY_SEGMENT_SIZE);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_MAGIC, HWT_DELAY_MAGIC_SEGMENT);
    hwt_delay_set32(head + HWT_DELAY_SEGMENT_VERSION, HWT_DELAY_VERSION);
    hwt_delay_set32(head + HWT_DELAY_SEGMENT_INDEX, index);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_KEY, store->key);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_LENGTH, store->options.segment_size);
    hwt_delay_set64(head + HWT_DELAY_SEGMENT_EXTENT, extent);
    hwt_delay_set32(head + HWT_DELAY_SEGMENT_CRC,
                    hwt_delay_crc(0, head + HWT_DELAY_SEGMENT_VERSION,
                                  HWT_DELAY_SEGMENT_SIZE - HWT_DELAY_SEGMENT_VERSION));
}

int hwt_delay_write_zeros(hwt_delay *store, int file, uint64_t from, uint64_t to)
{
    static const unsigned char zeros[65536];
    int r = 0;
    while (from < to && r == 0) {
        size_t part = to - from < sizeof(zeros) ? (size_t)(to - from) : sizeof(zeros);
        r = hwt_delay_write_all(store, file, zeros, part, from);
        from += part;
    }
    return r;
}

static int make_segment(hwt_delay *store, unsigned index)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    uint64_t extent = hwt_delay_extent_least(store);
    int file = hwt_delay_open_segment(store, index, O_RDWR | O_CREAT | O_TRUNC);
    if (file < 0)
        return file;
    hwt_delay_segment_head(store, index, extent, head);
    int r = hwt_delay_write_all(store, file, head, sizeof(head), 0);
    if (r == 0)
        r = hwt_delay_write_zeros(store, file, sizeof(head), extent);
    if (r == 0)
        r = hwt_delay_sync(store, file);
    hwt_delay_close_file(store, file);
    return r;
}

static void encode_store(const hwt_delay *store, unsigned char *head)
{
    memset(head, 0, HWT_DELAY_STORE_SIZE);
    hwt_delay_set64(head + HWT_DELAY_STORE_MAGIC, HWT_DELAY_MAGIC_STORE);
    hwt_delay_set32(head + HWT_DELAY_STORE_VERSION, HWT_DELAY_VERSION);
    hwt_delay_set64(head + HWT_DELAY_STORE_KEY, store->key);
    hwt_delay_set64(head + HWT_DELAY_STORE_SEGMENT_SIZE, store->options.segment_size);
    hwt_delay_set32(head + HWT_DELAY_STORE_CRC,
                    hwt_delay_crc(0, head + HWT_DELAY_STORE_VERSION,
                                  HWT_DELAY_STORE_SIZE - HWT_DELAY_STORE_VERSION));
}

/* Its head, and the names of all files. */
int hwt_delay_store_write(hwt_delay *store)
{
    unsigned char head[HWT_DELAY_STORE_SIZE];
    encode_store(store, head);
    int r = hwt_delay_overwrite(store, store->store_file, head, sizeof(head), 0);
    if (r >= 0)
        r = hwt_delay_sync(store, store->store_file);
    return r < 0 ? r : hwt_delay_sync_directory(store);
}

/* ---- may it be made? ---- */

struct others {
    bool any, slots;
};

static void note_other(const char *name, void *arg)
{
    struct others *others = arg;
    static const char *const own[] = { "store",           "log.0",   "log.1", "checkpoint",
                                       "checkpoint.next", "reserve", "handed" };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (strcmp(name, own[i]) == 0)
            return;
    }
    if (strncmp(name, "slot-", 5) == 0)
        others->slots = true;
    others->any = true;
}

/* Reads 128 bytes of a file, with zeros behind its end; -ENOENT. */
static int peek(hwt_delay *store, const char *name, uint64_t offset, unsigned char bytes[128])
{
    memset(bytes, 0, 128);
    int file = hwt_delay_open_file(store, name, O_RDONLY);
    if (file < 0)
        return file;
    int64_t n = hwt_delay_read_all(store, file, bytes, 128, offset);
    hwt_delay_close_file(store, file);
    return n < 0 ? (int)n : 0;
}

/* -EBADMSG: something was put; or, if there is a part of a head, a file is gone that was made
 * before that. */
static int check_unused(hwt_delay *store, bool head)
{
    static const unsigned char none[128];
    unsigned char bytes[128];
    for (unsigned i = 0; i < 2; i++) {
        int r = peek(store, segment_names[i], HWT_DELAY_SEGMENT_FRAMES, bytes);
        if (r < 0 && (r != -ENOENT || head))
            return r == -ENOENT ? -EBADMSG : r;
        if (memcmp(bytes, none, sizeof(none)) != 0)
            return -EBADMSG;
    }
    int r = peek(store, "checkpoint", 0, bytes);
    if (r < 0 && (r != -ENOENT || head))
        return r == -ENOENT ? -EBADMSG : r;
    return hwt_delay_get64(bytes + HWT_DELAY_CHECKPOINT_SEQUENCE) > 1 ? -EBADMSG : 0;
}

/* `head`: there is a part of one. */
static int may_be_made(hwt_delay *store, bool head)
{
    struct others others = { 0 };
    int r = store->system.list(store->system.data, store->directory, note_other, &others);
    if (r < 0)
        return r;
    if (others.slots)
        return -EBADMSG;
    if (others.any)
        return -ENOTEMPTY;
    return check_unused(store, head);
}

static int make_store(hwt_delay *store)
{
    int r = may_be_made(store, false);
    /* The log's two segments and the reserve are as long as two segments of the options. */
    store->options.segment_size = store->options.segment_size / 3 * 2 / 4096 * 4096;
    if (r == 0)
        r = choose_key(store);
    for (unsigned i = 0; i < 2 && r == 0; i++)
        r = make_segment(store, i);
    if (r == 0)
        r = hwt_delay_checkpoint_first(store);
    if (r == 0)
        r = hwt_delay_sync_directory(store);
    return r < 0 ? r : hwt_delay_store_write(store);
}

/* ---- reading ---- */

static bool is_size(uint64_t segment_size)
{
    return segment_size >= SIZE_LEAST && segment_size <= UINT64_C(4) << 30 &&
           segment_size % 4096 == 0;
}

/* 1: there is no head. 2: there is something else in its place. */
static int read_store(hwt_delay *store)
{
    unsigned char head[HWT_DELAY_STORE_SIZE] = { 0 };
    static const unsigned char none[HWT_DELAY_STORE_SIZE];
    int64_t n = hwt_delay_read_all(store, store->store_file, head, sizeof(head), 0);
    if (n < 0)
        return (int)n;
    if (memcmp(head, none, sizeof(head)) == 0)
        return 1;
    if (hwt_delay_get64(head + HWT_DELAY_STORE_MAGIC) == HWT_DELAY_MAGIC_STORE_1)
        return -EPROTONOSUPPORT;
    if (n < (int64_t)sizeof(head) ||
        hwt_delay_get64(head + HWT_DELAY_STORE_MAGIC) != HWT_DELAY_MAGIC_STORE ||
        hwt_delay_get32(head + HWT_DELAY_STORE_CRC) !=
            hwt_delay_crc(0, head + HWT_DELAY_STORE_VERSION,
                          HWT_DELAY_STORE_SIZE - HWT_DELAY_STORE_VERSION))
        return 2;
    if (hwt_delay_get32(head + HWT_DELAY_STORE_VERSION) != HWT_DELAY_VERSION)
        return -ENOTSUP;
    store->key = hwt_delay_get64(head + HWT_DELAY_STORE_KEY);
    store->options.segment_size = hwt_delay_get64(head + HWT_DELAY_STORE_SEGMENT_SIZE);
    if (store->key == 0)
        return -EBADMSG;
    return is_size(store->options.segment_size) ? 0 : -EBADMSG;
}

static int read_head(hwt_delay *store, unsigned index, unsigned char head[HWT_DELAY_SEGMENT_SIZE])
{
    int64_t n = hwt_delay_read_all(store, store->log.files[index], head, HWT_DELAY_SEGMENT_SIZE, 0);
    if (n < 0)
        return (int)n;
    if (n < HWT_DELAY_SEGMENT_SIZE ||
        hwt_delay_get64(head + HWT_DELAY_SEGMENT_MAGIC) != HWT_DELAY_MAGIC_SEGMENT ||
        hwt_delay_get32(head + HWT_DELAY_SEGMENT_INDEX) != index ||
        hwt_delay_get32(head + HWT_DELAY_SEGMENT_CRC) !=
            hwt_delay_crc(0, head + HWT_DELAY_SEGMENT_VERSION,
                          HWT_DELAY_SEGMENT_SIZE - HWT_DELAY_SEGMENT_VERSION))
        return -EBADMSG;
    return hwt_delay_get32(head + HWT_DELAY_SEGMENT_VERSION) == HWT_DELAY_VERSION ? 0 : -ENOTSUP;
}

/* *ret_extent: how long its head says that it is, at least. */
static int read_segment(hwt_delay *store, unsigned index, uint64_t *ret_extent)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    int r = read_head(store, index, head);
    if (r < 0)
        return r;
    uint64_t key = hwt_delay_get64(head + HWT_DELAY_SEGMENT_KEY);
    uint64_t size = hwt_delay_get64(head + HWT_DELAY_SEGMENT_LENGTH);
    uint64_t extent = hwt_delay_get64(head + HWT_DELAY_SEGMENT_EXTENT);
    if (extent == 0)
        extent = size;
    *ret_extent = extent;
    return key == store->key && size == store->options.segment_size &&
                   extent >= hwt_delay_extent_least(store) && extent <= size && extent % 4096 == 0
               ? 0
               : -EBADMSG;
}

/* The longer one of the log's files; at least as long as one can be. */
static int64_t longer_file(hwt_delay *store)
{
    uint64_t longer = SIZE_LEAST;
    for (unsigned i = 0; i < 2; i++) {
        int64_t size = store->system.size(store->system.data, store->log.files[i]);
        if (size < 0)
            return size;
        longer = (uint64_t)size > longer ? (uint64_t)size : longer;
    }
    return (int64_t)((longer + 4095) / 4096 * 4096);
}

static int salvage_head(hwt_delay *store)
{
    int r = hwt_delay_put_aside(store, store->store_file, 0, HWT_DELAY_STORE_SIZE);
    return r < 0 ? r : hwt_delay_store_write(store);
}

/* A log that is longer than it can be: then what says so is wrong. */
static int salvage_size(hwt_delay *store)
{
    int64_t longer = longer_file(store);
    if (longer < 0 || (uint64_t)longer <= store->options.segment_size || !is_size((uint64_t)longer))
        return longer < 0 ? (int)longer : 0;
    store->options.segment_size = (uint64_t)longer;
    return salvage_head(store);
}

/* A head of `store` that is damaged is made up from those of the log. */
static int salvage_store(hwt_delay *store)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    int r = -EBADMSG;
    for (unsigned i = 0; i < 2 && r == -EBADMSG; i++)
        r = read_head(store, i, head);
    int64_t longer = r < 0 ? r : longer_file(store);
    if (longer < 0)
        return (int)longer;
    store->key = hwt_delay_get64(head + HWT_DELAY_SEGMENT_KEY);
    store->options.segment_size = hwt_delay_get64(head + HWT_DELAY_SEGMENT_LENGTH);
    if (!is_size(store->options.segment_size))
        store->options.segment_size = (uint64_t)longer;
    if (store->key == 0 || !is_size(store->options.segment_size))
        return -EBADMSG;
    return salvage_head(store);
}

/* The segments are as long as both of their heads say, or longer: see extent.c. */
static int read_segments(hwt_delay *store)
{
    uint64_t extents[2];
    int r = 0;
    for (unsigned i = 0; i < 2 && r == 0; i++) {
        r = read_segment(store, i, &extents[i]);
        int64_t size = store->system.size(store->system.data, store->log.files[i]);
        if (r == 0 && size < (int64_t)extents[i])
            r = size < 0 ? (int)size : -EBADMSG;
    }
    if (r < 0)
        return r;
    store->log.extent = extents[0] < extents[1] ? extents[0] : extents[1];
    store->log.said = extents[0] < extents[1] ? extents[1] : extents[0];
    return 0;
}

/*
 * A segment that was cut gets its length again; what is too much is put aside. One whose head is damaged
 * can be read all the same: what counts is each frame's checksum.
 */
static int salvage_segment(hwt_delay *store, unsigned index)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    int file = store->log.files[index];
    uint64_t extent = store->log.extent, said = extent;
    int64_t size = store->system.size(store->system.data, file);
    int r = size < 0 ? (int)size : read_segment(store, index, &said);
    if (r == -EBADMSG)
        r = hwt_delay_put_aside(store, file, 0, sizeof(head));
    if (r == 0 && size < (int64_t)said) {
        store->salvaged++;
        store->salvaged_bytes += said - (uint64_t)size;
    }
    if (r == 0 && size < (int64_t)extent)
        r = hwt_delay_write_zeros(store, file, (uint64_t)size, extent);
    if (r == 0 && size > (int64_t)extent)
        r = hwt_delay_put_aside(store, file, extent, (uint64_t)size - extent);
    if (r == 0 && size > (int64_t)extent)
        r = hwt_delay_truncate(store, file, extent);
    hwt_delay_segment_head(store, index, extent, head);
    return r < 0 ? r : hwt_delay_write_all(store, file, head, sizeof(head), 0);
}

/* Both get the length of the longer one, as far as that can be. */
static int salvage_segments(hwt_delay *store)
{
    int64_t longer = longer_file(store);
    if (longer < 0)
        return (int)longer;
    uint64_t extent = (uint64_t)longer, most = store->options.segment_size;
    store->log.extent = store->log.said = extent < most ? extent : most;
    int r = 0;
    for (unsigned i = 0; i < 2 && r == 0; i++)
        r = salvage_segment(store, i);
    return r;
}

/* `mend`: one that is gone is made anew. */
static int open_segments(hwt_delay *store, bool mend)
{
    int flags = store->read_only ? O_RDONLY : O_RDWR;
    for (unsigned i = 0; i < 2; i++) {
        int file = hwt_delay_open_segment(store, i, flags);
        if (file == -ENOENT && mend) {
            int r = make_segment(store, i);
            if (r < 0)
                return r;
            store->salvaged++;
            store->salvaged_bytes += hwt_delay_extent_least(store);
            file = hwt_delay_open_segment(store, i, flags);
        }
        if (file < 0)
            return file == -ENOENT ? -EBADMSG : file;
        store->log.files[i] = file;
    }
    return 0;
}

/* Opens `store` and the log, and makes them where that is wanted. */
int hwt_delay_open_files(hwt_delay *store)
{
    bool create = (store->options.flags & HWT_DELAY_CREATE) != 0;
    int flags = (store->read_only ? O_RDONLY : O_RDWR) | (create ? O_CREAT : 0);
    if (create) {
        struct others others = { 0 };
        int listed = store->system.list(store->system.data, store->directory, note_other, &others);
        int there = hwt_delay_open_file(store, "store", O_RDONLY);
        hwt_delay_close_file(store, there);
        if (there == -ENOENT && (listed < 0 || others.any))
            return listed < 0 ? listed : others.slots ? -EBADMSG : -ENOTEMPTY;
    }
    store->store_file = hwt_delay_open_file(store, "store", flags);
    if (store->store_file < 0)
        return store->store_file;
    int r = store->read_only ? 0 : store->system.lock(store->system.data, store->store_file);
    if (r == 0)
        r = read_store(store);
    if (r == 2) {
        r = store->salvage ? -EBADMSG : may_be_made(store, true);
        r = r == 0 ? 1 : r == -ENOTEMPTY ? -EBADMSG : r;
    }
    if (r == 1 && create)
        r = make_store(store);
    else if (r == 1) /* one whose making did not end; or its head is lost */
        r = store->salvage ? -EBADMSG : -ENOENT;
    bool damaged = r == -EBADMSG && store->salvage;
    if (r == 0 || damaged)
        r = open_segments(store, store->salvage && !damaged);
    if (r == 0 && damaged)
        r = salvage_store(store);
    if (r == 0 && store->salvage)
        r = salvage_size(store);
    if (r < 0)
        return r;
    return store->salvage ? salvage_segments(store) : read_segments(store);
}
