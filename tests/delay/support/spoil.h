/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_SPOIL_H
#define HWT_TESTS_DELAY_SUPPORT_SPOIL_H

/* Changes files of a store on a simulated disk from outside: damage, or what no store writes. */

#include "tests/delay/support/simulated.h"

#include <stdlib.h>

#include "hwt/delay/disk/format.h"

/* The store. */
static struct simulated s;

static inline struct disk_file *file_of(const char *beginning)
{
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        if (strncmp(s.disk->seen.entries[i].name, beginning, strlen(beginning)) == 0)
            return s.disk->seen.entries[i].file;
    }
    ck_abort_msg("there is no %s", beginning);
}

static inline void write_at(struct disk_file *file, size_t at, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        disk_flip(file, at + i, disk_seen(file)[at + i] ^ ((const unsigned char *)bytes)[i]);
}

static inline void set32(struct disk_file *file, size_t at, uint32_t value)
{
    unsigned char bytes[4];
    hwt_delay_set32(bytes, value);
    write_at(file, at, bytes, sizeof(bytes));
}

static inline void set64(struct disk_file *file, size_t at, uint64_t value)
{
    unsigned char bytes[8];
    hwt_delay_set64(bytes, value);
    write_at(file, at, bytes, sizeof(bytes));
}

static inline uint64_t key_of(void)
{
    return hwt_delay_get64(disk_seen(file_of("store")) + HWT_DELAY_STORE_KEY);
}

/* Makes the checksum at `at` fit the bytes from `from` to `to`. */
static inline void seal(struct disk_file *file, uint64_t key, size_t at, size_t from, size_t to)
{
    set32(file, at, hwt_delay_crc(key, disk_seen(file) + from, to - from));
}

/* The same for the head of a frame, a run or a block. */
static inline void seal_head(struct disk_file *file, size_t at, uint32_t magic, size_t size)
{
    unsigned char head[128];
    memcpy(head, disk_seen(file) + at, size);
    hwt_delay_head_seal(head, key_of(), magic, size);
    write_at(file, at, head, size);
}

/* And for a block, of as many bytes of records as its head says. */
static inline void seal_block(struct disk_file *file, size_t at)
{
    size_t records = at + HWT_DELAY_BLOCK_SIZE;
    seal(file, key_of(), at + HWT_DELAY_BLOCK_RECORDS_CRC, records,
         records + hwt_delay_get32(disk_seen(file) + at + HWT_DELAY_BLOCK_LENGTH));
    seal_head(file, at, HWT_DELAY_MAGIC_BLOCK, HWT_DELAY_BLOCK_SIZE);
}

/* The first record of a frame or a block, which has one byte for it, gets another one: 2 to 128. */
static inline void set_sequence(struct disk_file *file, size_t record, uint64_t sequence)
{
    const unsigned char key = disk_seen(file)[record + HWT_DELAY_RECORD_KEY];
    const unsigned char folded = (unsigned char)(2 * (sequence - 1));
    ck_assert_uint_eq(key >> 4, 1);
    write_at(file, record + HWT_DELAY_RECORD_LEAST + (key & 15), &folded, 1);
}

/* Where in the file such a head is for the n-th time, from 1. */
static inline size_t find(struct disk_file *file, uint32_t magic, unsigned n)
{
    for (size_t at = 0; at + HWT_DELAY_HEAD_MAGIC + 4 <= file->seen.size; at++) {
        if (hwt_delay_get32(disk_seen(file) + at + HWT_DELAY_HEAD_MAGIC) == magic &&
            hwt_delay_get64(disk_seen(file) + at) == key_of() && --n == 0)
            return at;
    }
    return file->seen.size;
}

static inline void seal_checkpoint(void)
{
    struct disk_file *file = file_of("checkpoint");
    size_t length = hwt_delay_get64(disk_seen(file) + HWT_DELAY_CHECKPOINT_LENGTH);
    seal(file, key_of(), HWT_DELAY_CHECKPOINT_CRC, HWT_DELAY_CHECKPOINT_VERSION,
         HWT_DELAY_CHECKPOINT_SIZE + length);
}

static inline void spoil_checkpoint(void)
{
    disk_flip(file_of("checkpoint"), HWT_DELAY_CHECKPOINT_CRC, 1);
}

static inline void put_some(uint32_t from, uint32_t to, uint64_t due, uint32_t size)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_int_eq(simulated_put(&s, due, i, size), 0);
}

/* The lower the number, the later. */
static inline void put_backwards(uint32_t from, uint32_t to, uint64_t due, uint32_t size)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_int_eq(simulated_put(&s, due - i, i, size), 0);
}

static inline void begin(void)
{
    simulated_new(&s);
    simulated_open(&s);
}

static inline void end(void)
{
    simulated_free(&s);
}

static inline int open_with(uint32_t flags)
{
    s.options.flags = flags;
    simulated_begin(&s);
    s.process.fail_at = 100000; /* what goes on for ever ends */
    s.process.fail_count = UINT64_MAX;
    s.process.fail_with = -EIO;
    return simulated_try_open(&s);
}

/* All that is pending comes once, and `counts` says what. */
static inline void assert_delivers(uint32_t from, uint32_t to)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    simulated_advance(&s, 24 * HWT_MIN(60));
    ck_assert_int_ge(simulated_deliver(&s, SIZE_MAX, counts), 0);
    for (uint32_t i = from; i < to; i++)
        ck_assert_msg(counts[i] == 1, "number %u came %u times", i, counts[i]);
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}

#endif
