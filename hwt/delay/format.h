/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_FORMAT_H
#define HWT_DELAY_FORMAT_H

/*
 * What a store is on the disk. hwt-delay-format(5) says it for readers without this code; the two
 * change together. Numbers are little-endian. Checksums are CRC-32C over the store's key
 * and what they cover, so that bytes of another store never pass.
 *
 *   store                  the key and the version; written once, and locked by the owner
 *   log.0, log.1           two segments; frames from offset 4096 on
 *   checkpoint             what the files are worth, and from where the log counts
 *   checkpoint.next        room for the next one, renamed when it is whole
 *   slot-<shift>-<index>-<number>
 *                          records due in [index << shift, (index + 1) << shift) ns; in runs
 *   reserve                as long as a segment: room for a checkpoint on a full disk
 *   salvage-<number>       bytes that were put aside
 */

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HWT_DELAY_VERSION 1

#define HWT_DELAY_MAGIC_STORE UINT64_C(0x31796c6564747768)      /* "hwtdely1" */
#define HWT_DELAY_MAGIC_SEGMENT UINT64_C(0x31676f6c64747768)    /* "hwtdlog1" */
#define HWT_DELAY_MAGIC_FRAME UINT32_C(0x6d617266)              /* "fram" */
#define HWT_DELAY_MAGIC_CHECKPOINT UINT64_C(0x3170686364747768) /* "hwtdchp1" */
#define HWT_DELAY_MAGIC_RUN UINT32_C(0x736e7572)                /* "runs" */
#define HWT_DELAY_MAGIC_BLOCK UINT32_C(0x6b636c62)              /* "blck" */

/* The head of `store`: 64 bytes; zeros to the end. */
enum {
    HWT_DELAY_STORE_MAGIC = 0,         /* u64 */
    HWT_DELAY_STORE_VERSION = 8,       /* u32 */
    HWT_DELAY_STORE_CRC = 12,          /* u32, of the 48 bytes that follow, with a key of 0 */
    HWT_DELAY_STORE_KEY = 16,          /* u32, chosen at random */
    HWT_DELAY_STORE_SEGMENT_SIZE = 24, /* u64 */
    HWT_DELAY_STORE_SIZE = 64
};

/* The head of a segment: 64 bytes, zeros up to the first frame. */
enum {
    HWT_DELAY_SEGMENT_MAGIC = 0,   /* u64 */
    HWT_DELAY_SEGMENT_VERSION = 8, /* u32 */
    HWT_DELAY_SEGMENT_CRC = 12,    /* u32, of the 48 bytes that follow, with a key of 0 */
    HWT_DELAY_SEGMENT_INDEX = 16,  /* u32: 0 or 1 */
    HWT_DELAY_SEGMENT_KEY = 20,    /* u32: the store's, in case its own head is damaged */
    HWT_DELAY_SEGMENT_LENGTH = 24, /* u64: the segment's size */
    HWT_DELAY_SEGMENT_SIZE = 64,
    HWT_DELAY_SEGMENT_FRAMES = 4096
};

/*
 * A frame: what one write of the log brings. Frames follow each other at multiples of 8 bytes. The
 * next one has the sequence of this one plus its count.
 */
enum {
    HWT_DELAY_FRAME_MAGIC = 0,     /* u32 */
    HWT_DELAY_FRAME_CRC = 4,       /* u32, from offset 8 to the end of the records */
    HWT_DELAY_FRAME_LENGTH = 8,    /* u32: of the records, without this head and padding */
    HWT_DELAY_FRAME_COUNT = 12,    /* u32: how many records, 1 at least */
    HWT_DELAY_FRAME_SEQUENCE = 16, /* u64: of the first record */
    HWT_DELAY_FRAME_HAND = 24,     /* u64: the latest instant the store had seen */
    HWT_DELAY_FRAME_SIZE = 32
};

/* A record, in frames, blocks and checkpoints: its head, the id, the payload. Not padded. */
enum {
    HWT_DELAY_RECORD_DUE = 0,           /* u64 */
    HWT_DELAY_RECORD_SEQUENCE = 8,      /* u64: of the put; see the kinds */
    HWT_DELAY_RECORD_PAYLOAD_SIZE = 16, /* u32 */
    HWT_DELAY_RECORD_RETRIES = 20,      /* u16 */
    HWT_DELAY_RECORD_KIND = 22,         /* u8 */
    HWT_DELAY_RECORD_ID_SIZE = 23,      /* u8: 1 to 255 */
    HWT_DELAY_RECORD_SIZE = 24
};

/*
 * PUT: a message. ERASE: whatever was put with this due time and id up to this sequence is not
 * pending any more: cancelled, with the erase's own sequence; or done with, with that of the put.
 */
enum { HWT_DELAY_PUT = 1, HWT_DELAY_ERASE = 2 };

/* A run: records that one checkpoint brought to a slot, sorted by (due, sequence), in blocks. */
enum {
    HWT_DELAY_RUN_MAGIC = 0,   /* u32 */
    HWT_DELAY_RUN_CRC = 4,     /* u32, of the 56 bytes from offset 8 */
    HWT_DELAY_RUN_LENGTH = 8,  /* u64: of the blocks, without this head */
    HWT_DELAY_RUN_COUNT = 16,  /* u64: records */
    HWT_DELAY_RUN_FIRST = 24,  /* u64 due, u64 sequence of the first record */
    HWT_DELAY_RUN_LAST = 40,   /* u64 due, u64 sequence of the last record */
    HWT_DELAY_RUN_ERASES = 56, /* u64: how many of the records are erases */
    HWT_DELAY_RUN_SIZE = 64
};

/* A block: up to 16 KiB of records, or one record that is longer. */
enum {
    HWT_DELAY_BLOCK_MAGIC = 0,   /* u32 */
    HWT_DELAY_BLOCK_CRC = 4,     /* u32, from offset 8 to the end of the records */
    HWT_DELAY_BLOCK_LENGTH = 8,  /* u32: of the records, without this head */
    HWT_DELAY_BLOCK_COUNT = 12,  /* u32 */
    HWT_DELAY_BLOCK_OFFSET = 16, /* u64: where this head is in its file */
    HWT_DELAY_BLOCK_NUMBER = 24, /* u64: of the file */
    HWT_DELAY_BLOCK_SIZE = 32,
    HWT_DELAY_BLOCK_RECORDS = 16384
};

/* A checkpoint: this head, `files` entries, `leased` records. */
enum {
    HWT_DELAY_CHECKPOINT_MAGIC = 0,     /* u64 */
    HWT_DELAY_CHECKPOINT_VERSION = 8,   /* u32 */
    HWT_DELAY_CHECKPOINT_CRC = 12,      /* u32, from offset 16 to the end of the records */
    HWT_DELAY_CHECKPOINT_LENGTH = 16,   /* u64: of entries and records */
    HWT_DELAY_CHECKPOINT_SEQUENCE = 24, /* u64: of the first record of the log that counts */
    HWT_DELAY_CHECKPOINT_SEGMENT = 32,  /* u32: where that one's frame is: segment */
    HWT_DELAY_CHECKPOINT_FILES = 36,    /* u32 */
    HWT_DELAY_CHECKPOINT_POSITION = 40, /* u64: and offset */
    HWT_DELAY_CHECKPOINT_LEASED = 48,   /* u64 */
    HWT_DELAY_CHECKPOINT_HAND = 56,     /* u64 */
    HWT_DELAY_CHECKPOINT_PENDING = 64,  /* u64: messages, those in the log not counted */
    HWT_DELAY_CHECKPOINT_NUMBER = 72,   /* u64: that the next new file takes */
    HWT_DELAY_CHECKPOINT_RESOLVED = 80, /* u64 due, u64 sequence: PENDING is exact before this */
    HWT_DELAY_CHECKPOINT_SIZE = 96
};

/* An entry of a checkpoint: a slot file. What is before its position has been handed over. */
enum {
    HWT_DELAY_FILE_NUMBER = 0,    /* u64 */
    HWT_DELAY_FILE_INDEX = 8,     /* u64 */
    HWT_DELAY_FILE_LENGTH = 16,   /* u64: what is behind it in the file does not count */
    HWT_DELAY_FILE_COUNT = 24,    /* u64: records */
    HWT_DELAY_FILE_POSITION = 32, /* u64 due, u64 sequence: what is before has been dealt with */
    HWT_DELAY_FILE_SHIFT = 48,    /* u32 */
    HWT_DELAY_FILE_SEALED = 52,   /* u32: 1: nothing is appended any more */
    HWT_DELAY_FILE_SIZE = 56
};

static inline uint64_t hwt_delay_get64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static inline uint32_t hwt_delay_get32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static inline uint16_t hwt_delay_get16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return le16toh(value);
}

static inline void hwt_delay_set64(unsigned char *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof(value));
}

static inline void hwt_delay_set32(unsigned char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof(value));
}

static inline void hwt_delay_set16(unsigned char *at, uint16_t value)
{
    value = htole16(value);
    memcpy(at, &value, sizeof(value));
}

/* CRC-32C of the four bytes of the key and then of some others. */
uint32_t hwt_delay_crc(uint32_t key, const void *bytes, size_t size);

#endif
