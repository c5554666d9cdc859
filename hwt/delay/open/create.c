/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Makes the files that every store has, and reads their heads.
 *
 * log.0, log.1 and `checkpoint` are on the disk with their names before the head of `store`. So a
 * `store` without a head is one whose making did not end, and is made again. So is one whose head
 * is not whole, as long as the other files are as they were made.
 */

#include <errno.h>
#include <fcntl.h>

#include "hwt/delay/whole.h"

/* Not 0, which bytes that were never written would have. */
static int choose_key(hwt_delay *store)
{
    int r = 0;
    while (r == 0 && store->key == 0)
        r = hwt_delay_random(store, &store->key, sizeof(store->key));
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
    int r = hwt_delay_overwrite(store, hwt_delay_store_file(store), head, sizeof(head), 0);
    if (r >= 0)
        r = hwt_delay_sync(store, hwt_delay_store_file(store));
    return r < 0 ? r : hwt_delay_sync_directory(store);
}

/* ---- may it be made? ---- */

struct others {
    bool any, slots;
};

static void see_other(const char *name, void *arg)
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
        int r = peek(store, hwt_delay_segment_name(i), HWT_DELAY_SEGMENT_FRAMES, bytes);
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
    int r = hwt_delay_list(store, see_other, &others);
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
        r = hwt_delay_segment_make(store, i);
    if (r == 0)
        r = hwt_delay_checkpoint_first(store);
    if (r == 0)
        r = hwt_delay_sync_directory(store);
    return r < 0 ? r : hwt_delay_store_write(store);
}

/* ---- reading ---- */

static bool is_size(uint64_t segment_size)
{
    return segment_size >= HWT_DELAY_SEGMENT_LEAST && segment_size <= UINT64_C(4) << 30 &&
           segment_size % 4096 == 0;
}

/* 1: there is no head. 2: there is something else in its place. */
static int read_store(hwt_delay *store)
{
    unsigned char head[HWT_DELAY_STORE_SIZE] = { 0 };
    static const unsigned char none[HWT_DELAY_STORE_SIZE];
    int64_t n = hwt_delay_read_all(store, hwt_delay_store_file(store), head, sizeof(head), 0);
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
    int r = hwt_delay_version_check(head + HWT_DELAY_STORE_VERSION);
    if (r < 0)
        return r;
    store->key = hwt_delay_get64(head + HWT_DELAY_STORE_KEY);
    store->options.segment_size = hwt_delay_get64(head + HWT_DELAY_STORE_SEGMENT_SIZE);
    if (store->key == 0)
        return -EBADMSG;
    return is_size(store->options.segment_size) ? 0 : -EBADMSG;
}

static int salvage_head(hwt_delay *store)
{
    int r = hwt_delay_put_aside(store, hwt_delay_store_file(store), 0, HWT_DELAY_STORE_SIZE);
    return r < 0 ? r : hwt_delay_store_write(store);
}

/* A log is longer than it can be. Then the head that says so is wrong. */
static int salvage_size(hwt_delay *store)
{
    int64_t longer = hwt_delay_segments_longer(store);
    if (longer < 0 || (uint64_t)longer <= store->options.segment_size || !is_size((uint64_t)longer))
        return longer < 0 ? (int)longer : 0;
    store->options.segment_size = (uint64_t)longer;
    return salvage_head(store);
}

/* A head of `store` that is damaged is rebuilt from those of the log. */
static int salvage_store(hwt_delay *store)
{
    unsigned char head[HWT_DELAY_SEGMENT_SIZE];
    int r = -EBADMSG;
    for (unsigned i = 0; i < 2 && r == -EBADMSG; i++)
        r = hwt_delay_segment_read(store, i, head);
    int64_t longer = r < 0 ? r : hwt_delay_segments_longer(store);
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

/* Opens `store` and the log, and makes them if that is wanted. */
int hwt_delay_open_files(hwt_delay *store)
{
    bool create = (store->options.flags & HWT_DELAY_CREATE) != 0;
    int flags = (store->read_only ? O_RDONLY : O_RDWR) | (create ? O_CREAT : 0);
    if (create) {
        struct others others = { 0 };
        int listed = hwt_delay_list(store, see_other, &others);
        int there = hwt_delay_open_file(store, "store", O_RDONLY);
        hwt_delay_close_file(store, there);
        if (there == -ENOENT && (listed < 0 || others.any))
            return listed < 0 ? listed : others.slots ? -EBADMSG : -ENOTEMPTY;
    }
    int r = hwt_delay_store_open(store, flags);
    if (r < 0)
        return r;
    r = store->read_only ? 0 : hwt_delay_own(store);
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
        r = hwt_delay_segments_open(store, store->salvage && !damaged);
    if (r == 0 && damaged)
        r = salvage_store(store);
    if (r == 0 && store->salvage)
        r = salvage_size(store);
    if (r < 0)
        return r;
    return store->salvage ? hwt_delay_segments_salvage(store) : hwt_delay_segments_read(store);
}
