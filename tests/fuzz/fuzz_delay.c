/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The readers of hwt-delay's files, given any bytes: they answer, with an error where they will,
 * and do not crash, hang, or take memory for what a file claims. All checksums are made to fit:
 * hwt_delay_crc() is wrapped, so that the fuzzer gets behind them.
 *
 * Input: a byte of flags; then patches to the files of a small store, each a file's number, an
 * offset of two bytes, a length, and as many bytes.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/delay/disk/format.h"
#include "tests/delay/support/disk.h"
#include "tests/fuzz/target.h"

enum { SEGMENT = 65536, PATCHES_MAX = 64, TAKES_MAX = 4096, DISK_MAX = 16 << 20 };

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_delay: line %d: not so: %s\n", __LINE__, #condition);            \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

uint32_t __wrap_hwt_delay_crc(uint64_t seed, const void *bytes, size_t size);

uint32_t __wrap_hwt_delay_crc(uint64_t seed, const void *bytes, size_t size)
{
    (void)seed;
    (void)bytes;
    (void)size;
    return 0;
}

static uint64_t realtime, boottime;

static int open_on(struct process *process, struct disk *disk, uint32_t flags, hwt_delay **ret)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = flags;
    options.payload_max = 8192;
    options.segment_size = SEGMENT;
    options.memory = 1 << 20;
    process_start(process, disk, &realtime, &boottime);
    int r = hwt_delay_open_on("store", &options, &process->system, true, ret);
    if (r != 0)
        process_end(process);
    return r;
}

static struct disk *make_store(void)
{
    struct disk *disk = disk_new();
    struct process process;
    hwt_delay *store;
    realtime = UINT64_C(1800000000000000000);
    must(open_on(&process, disk, HWT_DELAY_CREATE, &store) == 0);
    for (uint32_t i = 0; i < 40; i++) {
        const hwt_delay_message message = {
            .due = realtime + i % 3 * HWT_SEC(5000),
            .id = &i,
            .id_size = sizeof(i),
            .payload = "some bytes",
            .payload_size = i % 10,
        };
        must(hwt_delay_put(store, &message, 1) == 0);
        if (i % 5 == 0)
            must(hwt_delay_cancel(store, message.due, &i, sizeof(i)) == 0);
        if (i == 12 || i == 24)
            must(hwt_delay_checkpoint(store) == 0);
    }
    process.dead = true;
    hwt_delay_close(store);
    process_end(&process);
    return disk;
}

static void patch(struct disk *disk, const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < PATCHES_MAX && size >= 4; i++) {
        struct disk_file *file = disk->seen.entries[bytes[0] % disk->seen.count].file;
        size_t at = (size_t)bytes[1] << 8 | bytes[2], length = bytes[3];
        bytes += 4;
        size -= 4;
        if (length > size)
            length = size;
        if (length == 0)
            disk_cut(file, at < file->seen.size ? at : file->seen.size);
        for (size_t b = 0; b < length && at + b < file->seen.size; b++)
            disk_flip(file, at + b, disk_seen(file)[at + b] ^ bytes[b]);
        bytes += length;
        size -= length;
    }
}

static int read_one(const hwt_delay_message *message, void *sum)
{
    for (size_t i = 0; i < message->payload_size; i++)
        *(unsigned *)sum += ((const unsigned char *)message->payload)[i];
    for (size_t i = 0; i < message->id_size; i++)
        *(unsigned *)sum += ((const unsigned char *)message->id)[i];
    return 0;
}

static void use(hwt_delay *store)
{
    static char text[1 << 16];
    unsigned sum = 0;
    const hwt_delay_message *taken;
    (void)hwt_delay_visit(store, 0, HWT_NEVER, read_one, &sum);
    (void)hwt_delay_check(store, NULL, NULL);
    (void)hwt_delay_dump(store, text, sizeof(text));
    for (unsigned i = 0; i < TAKES_MAX; i++) {
        int64_t n = hwt_delay_take(store, 7, 0, &taken);
        if (n > 0) {
            for (int64_t t = 0; t < n; t++) {
                read_one(&taken[t], &sum);
                (void)hwt_delay_done(store, &taken[t].lease, 1);
            }
            hwt_delay_free(taken);
            continue;
        }
        uint64_t next = hwt_delay_next(store);
        if (n < 0 || next == HWT_NEVER || next <= realtime)
            break;
        boottime += next - realtime;
        realtime = next;
    }
    (void)hwt_delay_checkpoint(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const uint32_t flags[] = { 0, HWT_DELAY_SALVAGE, HWT_DELAY_READ_ONLY, HWT_DELAY_CREATE };
    static struct disk *whole;
    struct process process;
    hwt_delay *store;
    if (!whole)
        whole = make_store();
    realtime = UINT64_C(1800000000000000000);
    boottime = HWT_SEC(100);
    struct disk *disk = disk_copy(whole);
    disk->capacity = DISK_MAX;
    if (size > 0)
        patch(disk, bytes + 1, size - 1);
    if (open_on(&process, disk, size > 0 ? flags[bytes[0] & 3] : 0, &store) == 0) {
        use(store);
        hwt_delay_close(store);
        process_end(&process);
    }
    disk_free(disk);
    return 0;
}
