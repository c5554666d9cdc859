/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_DISK_FORMAT_H
#define HWT_DELAY_DISK_FORMAT_H

/*
 * What a store is on the disk. hwt-delay-format(5) says it for readers without this code; the two
 * change together. Numbers are little-endian. Bytes that have no name here are zero.
 *
 *   store                  the key and the version; written once, and locked by the owner
 *   log.0, log.1           two segments; frames from offset 4096 on
 *   checkpoint             what the files are worth, and from where the log counts
 *   checkpoint.next        room for the next one, renamed when it is whole
 *   slot-<shift>-<index>-<number>
 *                          records due in [index << shift, (index + 1) << shift) ns; in runs
 *   handed                 how often messages were handed over since the last checkpoint
 *   reserve                as long as a segment is: room for a checkpoint on a full disk
 *   salvage-<number>       bytes that were put aside
 *
 * THE KEY
 *
 * Each store has 64 random bits that nobody but its files knows. Frames, runs and blocks begin with
 * it, followed by a checksum of their head, which says where the head stands. So whatever is in a
 * payload, in old bytes of the log or in another store's file is not taken for a head.
 *
 * THE VERSION
 *
 * The first 16 bytes of `store`, of a segment and of a checkpoint stay what they are in all later
 * versions: magic, checksum, version. A reader looks at the checksum first, so a version that it
 * does not know was written by a later release and is no damage. A release that only adds a kind of
 * record keeps the version, because a reader refuses a kind that it does not know.
 */

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HWT_DELAY_VERSION 3

#define HWT_DELAY_MAGIC_STORE UINT64_C(0x79616c6564747768)      /* "hwtdelay" */
#define HWT_DELAY_MAGIC_STORE_1 UINT64_C(0x31796c6564747768)    /* "hwtdely1": of version 1 */
#define HWT_DELAY_MAGIC_SEGMENT UINT64_C(0x676f6c2d64747768)    /* "hwtd-log" */
#define HWT_DELAY_MAGIC_CHECKPOINT UINT64_C(0x7470632d64747768) /* "hwtd-cpt" */
#define HWT_DELAY_MAGIC_FRAME UINT32_C(0x6d617266)              /* "fram" */
#define HWT_DELAY_MAGIC_RUN UINT32_C(0x736e7572)                /* "runs" */
#define HWT_DELAY_MAGIC_HANDED UINT32_C(0x646e6168)             /* "hand" */
#define HWT_DELAY_MAGIC_BLOCK UINT32_C(0x6b636c62)              /* "blck" */

/* The head of `store`: 64 bytes. */
enum {
    HWT_DELAY_STORE_MAGIC = 0,         /* u64 */
    HWT_DELAY_STORE_CRC = 8,           /* u32, of the 52 bytes that follow, with a key of 0 */
    HWT_DELAY_STORE_VERSION = 12,      /* u32 */
    HWT_DELAY_STORE_KEY = 16,          /* u64, chosen at random, not 0 */
    HWT_DELAY_STORE_SEGMENT_SIZE = 24, /* u64: as long as a segment may become */
    HWT_DELAY_STORE_SIZE = 64
};

/* The head of a segment: 64 bytes; the first frame is at 4096. */
enum {
    HWT_DELAY_SEGMENT_MAGIC = 0,    /* u64 */
    HWT_DELAY_SEGMENT_CRC = 8,      /* u32, of the 52 bytes that follow, with a key of 0 */
    HWT_DELAY_SEGMENT_VERSION = 12, /* u32 */
    HWT_DELAY_SEGMENT_KEY = 16,     /* u64: the store's, in case its own head is damaged */
    HWT_DELAY_SEGMENT_LENGTH = 24,  /* u64: as long as it may become */
    HWT_DELAY_SEGMENT_INDEX = 32,   /* u32: 0 or 1 */
    HWT_DELAY_SEGMENT_EXTENT = 40,  /* u64: its length, at least; 0: that; see extent.c */
    HWT_DELAY_SEGMENT_SIZE = 64,
    HWT_DELAY_SEGMENT_FRAMES = 4096
};

/* The heads of frames, runs and blocks begin with these. */
enum {
    HWT_DELAY_HEAD_KEY = 0,   /* u64: the store's */
    HWT_DELAY_HEAD_CRC = 8,   /* u32, from offset 12 to the end of the head */
    HWT_DELAY_HEAD_MAGIC = 12 /* u32 */
};

/*
 * A frame is what one write of the log brings. Frames follow each other at multiples of 8 bytes.
 * The next one has the sequence of this one plus its count.
 */
enum {
    HWT_DELAY_FRAME_LENGTH = 16,      /* u32: of the records, without this head and padding */
    HWT_DELAY_FRAME_COUNT = 20,       /* u32: how many records, 1 at least */
    HWT_DELAY_FRAME_RECORDS_CRC = 24, /* u32, of the records */
    HWT_DELAY_FRAME_PLACE = 28,       /* u32: segment << 31 | offset / 8 */
    HWT_DELAY_FRAME_SEQUENCE = 32,    /* u64: of the first record */
    HWT_DELAY_FRAME_HAND = 40,        /* u64: the latest instant the store had seen */
    HWT_DELAY_FRAME_SIZE = 48
};

/*
 * A record, in frames, blocks and checkpoints, is told against the one before it there; the first
 * one against one whose fields are all 0. Its head says how long the fields behind it are:
 *
 *   due          its difference to the due time before, folded
 *   sequence     its difference to the sequence before plus 1, folded
 *   payload      its size
 *   origin       u64, with HWT_DELAY_FLAG_ORIGIN
 *   retries      u16, with HWT_DELAY_FLAG_COUNTS, which is there if one of the two is not 0
 *   handed       u16, the same: how often it was handed over; 65535: or more
 *   id           without the bytes that the id before begins with, too
 *   payload
 *
 * The first three have no more bytes than they need; 0 has none. A difference d, modulo 2^64, is
 * folded to 2d, or to -2d - 1 where it is below 0. So each record has one way to be written, and a
 * reader refuses others.
 */
enum {
    HWT_DELAY_RECORD_KIND = 0,  /* u8 */
    HWT_DELAY_RECORD_KEY = 1,   /* u8: how many bytes the due time has; times 16: the sequence */
    HWT_DELAY_RECORD_FLAGS = 2, /* u8: how many bytes the payload's size has; times 16: see below */
    HWT_DELAY_RECORD_SHARED = 3, /* u8: so many bytes of the id are as in the record before */
    HWT_DELAY_RECORD_REST = 4,   /* u8: so many follow; with those, 0 to 255 */
    HWT_DELAY_RECORD_LEAST = 5,
    HWT_DELAY_ORIGIN_SIZE = 8,
    HWT_DELAY_COUNTS_SIZE = 4,
    HWT_DELAY_PAYLOAD_MAX = 16777216,
    HWT_DELAY_RECORD_HEAD_MAX = HWT_DELAY_RECORD_LEAST + 8 + 8, /* with due time and sequence */
    HWT_DELAY_RECORD_MAX = HWT_DELAY_RECORD_HEAD_MAX + 4 + HWT_DELAY_ORIGIN_SIZE +
                           HWT_DELAY_COUNTS_SIZE + 255 + HWT_DELAY_PAYLOAD_MAX
};

/* The record before, against which the next one is told. */
struct hwt_delay_before {
    uint64_t due, sequence;
    uint8_t id_size;
    unsigned char id[255];
};

/* A PUT or a TOMBSTONE has it if a message that was pending ended with it, as far as was known. */
#define HWT_DELAY_FLAG_ENDS UINT8_C(1)
/* A PUT has it if the due time of its first put is another one than its own. */
#define HWT_DELAY_FLAG_ORIGIN UINT8_C(2)
/* A PUT with it was put back for later, or handed over. */
#define HWT_DELAY_FLAG_COUNTS UINT8_C(4)

/*
 * Every record of a frame uses up one sequence of the log. A frame counts as a whole or not at all,
 * so changes that belong together are in one frame.
 *
 * In the log, slots and checkpoints:
 *   PUT     a message: due, id, payload, retries, handed. `sequence` is its own.
 *   TOMBSTONE
 *           due, id (1 to 255 bytes): whatever was put with these up to `sequence` is not pending any
 *           more: cancelled, with the tombstone's own sequence; or done with, with that of the put.
 * In the log and checkpoints:
 *   NOTE    payload of up to 4096 bytes: the program's own; the last one counts. `sequence` is its own.
 *   DROP    due, `sequence`: whatever is due at or before this and was put up to this sequence is not
 *           pending any more. No id. In checkpoints until no slot has any of it.
 * In the log alone:
 *   CLOSED  the store was closed here: no id, no payload.
 *
 * A reader that does not know a kind says -ENOTSUP.
 */
enum {
    HWT_DELAY_PUT = 1,
    HWT_DELAY_TOMBSTONE = 2,
    HWT_DELAY_CLOSED = 3,
    HWT_DELAY_NOTE = 4,
    HWT_DELAY_DROP = 5
};

/*
 * A block of `handed` says what one take has handed over. At multiples of 8 bytes, in two halves,
 * each as long as half a segment. Nobody flushes it, so one that does not have its checksums is
 * passed over.
 */
enum {
    HWT_DELAY_HANDED_LENGTH = 16,      /* u32: of the counts, without this head and padding */
    HWT_DELAY_HANDED_RECORDS_CRC = 24, /* u32, of the counts */
    HWT_DELAY_HANDED_OFFSET = 32,      /* u64: where this head is in the file */
    HWT_DELAY_HANDED_NUMBER = 40,      /* u64: goes up; the last block has the highest one */
    HWT_DELAY_HANDED_SIZE = 48
};

/* One of its counts: the put with exactly this due time and sequence was handed over so often. */
enum {
    HWT_DELAY_COUNT_DUE = 0,      /* u64 */
    HWT_DELAY_COUNT_SEQUENCE = 8, /* u64 */
    HWT_DELAY_COUNT_HANDED = 16,  /* u16; 65535: or more */
    HWT_DELAY_COUNT_SIZE = 18
};

/* A run: records that one checkpoint brought to a slot, sorted by (due, sequence), in blocks. */
enum {
    HWT_DELAY_RUN_LENGTH = 16,     /* u64: of the blocks, without this head */
    HWT_DELAY_RUN_COUNT = 24,      /* u64: records */
    HWT_DELAY_RUN_FIRST = 32,      /* u64 due, u64 sequence of the first record */
    HWT_DELAY_RUN_LAST = 48,       /* u64 due, u64 sequence of the last record */
    HWT_DELAY_RUN_TOMBSTONES = 64, /* u64: how many of the records are no puts */
    HWT_DELAY_RUN_OFFSET = 72,     /* u64: where this head is in its file */
    HWT_DELAY_RUN_NUMBER = 80,     /* u64: of the file */
    HWT_DELAY_RUN_SIZE = 96
};

/* A block: up to 16 KiB of records, or one record that is longer. */
enum {
    HWT_DELAY_BLOCK_LENGTH = 16,      /* u32: of the records, without this head */
    HWT_DELAY_BLOCK_COUNT = 20,       /* u32 */
    HWT_DELAY_BLOCK_RECORDS_CRC = 24, /* u32, of the records */
    HWT_DELAY_BLOCK_OFFSET = 32,      /* u64: where this head is in its file */
    HWT_DELAY_BLOCK_NUMBER = 40,      /* u64: of the file */
    HWT_DELAY_BLOCK_SIZE = 48,
    HWT_DELAY_BLOCK_RECORDS = 2048 /* or one record; until release 0.3 it was 16384 */
};

/* A checkpoint: this head, `files` entries, `gaps` gaps, `spans` spans, `records` records. */
enum {
    HWT_DELAY_CHECKPOINT_MAGIC = 0,     /* u64 */
    HWT_DELAY_CHECKPOINT_CRC = 8,       /* u32, from offset 12 to the end of the records */
    HWT_DELAY_CHECKPOINT_VERSION = 12,  /* u32 */
    HWT_DELAY_CHECKPOINT_LENGTH = 16,   /* u64: of entries and records */
    HWT_DELAY_CHECKPOINT_SEQUENCE = 24, /* u64: of the first record of the log that counts */
    HWT_DELAY_CHECKPOINT_SEGMENT = 32,  /* u32: where that one's frame is: segment */
    HWT_DELAY_CHECKPOINT_FILES = 36,    /* u32 */
    HWT_DELAY_CHECKPOINT_POSITION = 40, /* u64: and offset */
    HWT_DELAY_CHECKPOINT_RECORDS = 48,  /* u64: what was leased, as puts; and what is no message */
    HWT_DELAY_CHECKPOINT_HAND = 56,     /* u64 */
    HWT_DELAY_CHECKPOINT_SPANS = 64,    /* u32, 512 at most */
    HWT_DELAY_CHECKPOINT_SHIFT = 68,    /* u32: a span is 2^shift ns long, 30 to 63 */
    HWT_DELAY_CHECKPOINT_NUMBER = 72,   /* u64: that the next new file takes */
    HWT_DELAY_CHECKPOINT_GAPS = 96,     /* u32, 64 at most */
    HWT_DELAY_CHECKPOINT_ENTRY = 100, /* u32: the size of an entry; 0: HWT_DELAY_FILE_SIZE_LEAST */
    HWT_DELAY_CHECKPOINT_COUNTED = 104, /* u64: records before this one are counted in the spans */
    HWT_DELAY_CHECKPOINT_SIZE = 128
};

/* A gap, behind the entries. Messages that are due in it have not been dealt with, whatever
 * positions say; but see BEFORE. */
enum {
    HWT_DELAY_GAP_FROM = 0, /* u64 due, u64 sequence */
    HWT_DELAY_GAP_TO = 16,  /* u64 due, u64 sequence: the first that is not in it */
    HWT_DELAY_GAP_SIZE = 32
};

/* An entry of a checkpoint: a slot file. All that is before its position has been handed over. */
enum {
    HWT_DELAY_FILE_NUMBER = 0,      /* u64 */
    HWT_DELAY_FILE_INDEX = 8,       /* u64 */
    HWT_DELAY_FILE_LENGTH = 16,     /* u64: what is behind it in the file does not count */
    HWT_DELAY_FILE_COUNT = 24,      /* u64: records */
    HWT_DELAY_FILE_DEAD = 32,       /* u64: about so many of its bytes are of no use any more */
    HWT_DELAY_FILE_POSITION = 40,   /* u64 due, u64 sequence: what is before has been dealt with */
    HWT_DELAY_FILE_SHIFT = 56,      /* u32 */
    HWT_DELAY_FILE_SEALED = 60,     /* u32: 1: nothing is appended any more */
    HWT_DELAY_FILE_SIZE_LEAST = 64, /* without origins */
    HWT_DELAY_FILE_FROM = 64, /* u64: no origin in it is lower; higher than the next: it has none */
    HWT_DELAY_FILE_TO = 72,   /* u64: none is higher */
    HWT_DELAY_FILE_SIZE_ORIGINS = 80, /* as release 0.3 wrote it where there were no gaps */
    HWT_DELAY_FILE_BEFORE =
        80, /* u64 due, u64 sequence: what is before has been dealt with though it is in a gap */
    HWT_DELAY_FILE_SIZE_BEFORE = 96, /* as it wrote it where there were gaps */
    HWT_DELAY_FILE_LAST = 96,        /* u64: no record is due later */
    HWT_DELAY_FILE_NEWEST = 104,     /* u64: no record has a higher sequence */
    HWT_DELAY_FILE_SIZE = 112
};

/* A span, behind the gaps, in order. It says how many pending messages slots have. See filed.c. */
enum {
    HWT_DELAY_SPAN_INDEX = 0, /* u64: due in [index << shift, (index + 1) << shift) ns */
    HWT_DELAY_SPAN_COUNT = 8, /* u64, not 0 */
    HWT_DELAY_SPAN_SIZE = 16
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

/* The size of an entry of this checkpoint, at least HWT_DELAY_FILE_SIZE_LEAST. */
static inline size_t hwt_delay_entry_size(const unsigned char *checkpoint)
{
    uint32_t size = hwt_delay_get32(checkpoint + HWT_DELAY_CHECKPOINT_ENTRY);
    return size > HWT_DELAY_FILE_SIZE_LEAST ? size : HWT_DELAY_FILE_SIZE_LEAST;
}

/* CRC-32C of the eight bytes of the key and then of some others. */
uint32_t hwt_delay_crc(uint64_t key, const void *bytes, size_t size);

/* Writes the key, the magic and the checksum of a head of `size` bytes, whose other fields are
 * set. */
void hwt_delay_head_seal(unsigned char *head, uint64_t key, uint32_t magic, size_t size);

/* That of a head whose checksum was looked at: 0; -EPROTONOSUPPORT: an earlier version; -ENOTSUP: a
 * later one. */
int hwt_delay_version_check(const unsigned char *at);

/* Is it such a head? */
bool hwt_delay_head_is(const unsigned char *head, uint64_t key, uint32_t magic, size_t size);

static inline uint32_t hwt_delay_place(unsigned segment, uint64_t offset)
{
    return (uint32_t)segment << 31 | (uint32_t)(offset / 8);
}

#endif
