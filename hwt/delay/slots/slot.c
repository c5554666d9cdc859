/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A slot is a file of records that are due in one stretch of time. See wheel.c for which.
 *
 * A slot is appended to by checkpoints, one run each, and deleted as a whole. Bytes behind the
 * length that the checkpoint on the disk gives do not count, and the next run is written over them.
 *
 * On the disk: the run before the checkpoint that gives the new length; a checkpoint that does
 * not name the slot any more before the file is deleted.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

#define WRITE_SIZE ((size_t)256 << 10)

void hwt_delay_slot_name(const struct hwt_delay_slot *slot, char name[HWT_DELAY_NAME_MAX])
{
    snprintf(name, HWT_DELAY_NAME_MAX, "slot-%u-%" PRIx64 "-%" PRIx64, slot->shift, slot->index,
             slot->number);
}

bool hwt_delay_slot_parse(const char *name, struct hwt_delay_slot *ret_slot)
{
    char its[HWT_DELAY_NAME_MAX];
    if (sscanf(name, "slot-%u-%" SCNx64 "-%" SCNx64, &ret_slot->shift, &ret_slot->index,
               &ret_slot->number) != 3 ||
        ret_slot->shift > 63 || ret_slot->index > UINT64_MAX >> ret_slot->shift)
        return false;
    hwt_delay_slot_name(ret_slot, its);
    return strcmp(name, its) == 0; /* else it is somebody's copy */
}

/* Bytes on their way to a file. */
struct writer {
    hwt_delay *store;
    int file;
    uint64_t offset; /* of bytes[0] in the file */
    size_t length, room;
    unsigned char *bytes;
};

static int flush(struct writer *writer)
{
    int r = hwt_delay_write_all(writer->store, writer->file, writer->bytes, writer->length,
                                writer->offset);
    writer->offset += writer->length;
    writer->length = 0;
    return r;
}

/* Room for `size` more bytes in memory. */
static int make_room(struct writer *writer, size_t size)
{
    if (writer->length + size <= writer->room)
        return 0;
    int r = flush(writer);
    if (r < 0 || size <= writer->room)
        return r;
    unsigned char *bytes = realloc(writer->bytes, size);
    if (!bytes)
        return -ENOMEM;
    writer->bytes = bytes;
    writer->room = size;
    return 0;
}

/* Writes a block to the memory, which has room for it; returns how many records are in it. */
static size_t write_block(struct writer *writer, uint64_t number, struct hwt_delay_record **records,
                          size_t count)
{
    unsigned char *head = writer->bytes + writer->length, *first = head + HWT_DELAY_BLOCK_SIZE;
    unsigned char *at = first;
    struct hwt_delay_before before = { 0 };
    size_t n = 0, most = 0;
    do {
        at = hwt_delay_encode(&before, records[n++], at);
        most = n < count ? (size_t)(at - first) + hwt_delay_encoded_most(records[n]) : 0;
    } while (n < count && most <= HWT_DELAY_BLOCK_RECORDS);
    const size_t size = (size_t)(at - first);
    memset(head, 0, HWT_DELAY_BLOCK_SIZE);
    hwt_delay_set32(head + HWT_DELAY_BLOCK_LENGTH, (uint32_t)size);
    hwt_delay_set32(head + HWT_DELAY_BLOCK_COUNT, (uint32_t)n);
    hwt_delay_set64(head + HWT_DELAY_BLOCK_OFFSET, writer->offset + writer->length);
    hwt_delay_set64(head + HWT_DELAY_BLOCK_NUMBER, number);
    hwt_delay_set32(head + HWT_DELAY_BLOCK_RECORDS_CRC,
                    hwt_delay_crc(writer->store->key, first, size));
    hwt_delay_head_seal(head, writer->store->key, HWT_DELAY_MAGIC_BLOCK, HWT_DELAY_BLOCK_SIZE);
    writer->length += HWT_DELAY_BLOCK_SIZE + size;
    return n;
}

static int write_blocks(struct writer *writer, uint64_t number, struct hwt_delay_record **records,
                        size_t count)
{
    int r = 0;
    for (size_t i = 0; i < count && r == 0;) {
        size_t most = hwt_delay_encoded_most(records[i]);
        most = most > HWT_DELAY_BLOCK_RECORDS ? most : HWT_DELAY_BLOCK_RECORDS;
        r = make_room(writer, HWT_DELAY_BLOCK_SIZE + most);
        if (r == 0)
            i += write_block(writer, number, records + i, count - i);
    }
    return r < 0 ? r : flush(writer);
}

static void set_key(unsigned char *at, struct hwt_delay_key key)
{
    hwt_delay_set64(at, key.due);
    hwt_delay_set64(at + 8, key.sequence);
}

static struct hwt_delay_key get_key(const unsigned char *at)
{
    return (struct hwt_delay_key){ hwt_delay_get64(at), hwt_delay_get64(at + 8) };
}

/* Behind the blocks in time, because they say how long they are. */
static int write_run_head(const struct writer *writer, const struct hwt_delay_slot *slot,
                          struct hwt_delay_record **records, size_t count)
{
    unsigned char head[HWT_DELAY_RUN_SIZE] = { 0 };
    uint64_t tombstones = 0;
    for (size_t i = 0; i < count; i++)
        tombstones += records[i]->kind != HWT_DELAY_PUT;
    hwt_delay_set64(head + HWT_DELAY_RUN_LENGTH, writer->offset - slot->length - sizeof(head));
    hwt_delay_set64(head + HWT_DELAY_RUN_COUNT, count);
    set_key(head + HWT_DELAY_RUN_FIRST, records[0]->key);
    set_key(head + HWT_DELAY_RUN_LAST, records[count - 1]->key);
    hwt_delay_set64(head + HWT_DELAY_RUN_TOMBSTONES, tombstones);
    hwt_delay_set64(head + HWT_DELAY_RUN_OFFSET, slot->length);
    hwt_delay_set64(head + HWT_DELAY_RUN_NUMBER, slot->number);
    hwt_delay_head_seal(head, writer->store->key, HWT_DELAY_MAGIC_RUN, sizeof(head));
    return hwt_delay_write_all(writer->store, writer->file, head, sizeof(head), slot->length);
}

/* The range of the slot, with these. */
static struct hwt_delay_range origins_of(const struct hwt_delay_slot *slot,
                                         struct hwt_delay_record **records, size_t count)
{
    struct hwt_delay_range range = slot->origins;
    for (size_t i = 0; i < count; i++) {
        if (!records[i]->origin)
            continue;
        uint64_t due = records[i]->origin->due;
        range.from = due < range.from ? due : range.from;
        range.to = due > range.to ? due : range.to;
    }
    return range;
}

static uint64_t newest_of(const struct hwt_delay_slot *slot, struct hwt_delay_record **records,
                          size_t count)
{
    uint64_t newest = slot->length > 0 ? slot->newest : 0;
    for (size_t i = 0; i < count; i++)
        newest = records[i]->key.sequence > newest ? records[i]->key.sequence : newest;
    return newest;
}

/*
 * Appends a run; returns the file, which the caller flushes and closes. It flushes the directory,
 * too, where the slot is new. Sets what is `new` of the slot, which counts once the checkpoint is on
 * the disk.
 */
int hwt_delay_slot_append(hwt_delay *store, struct hwt_delay_slot *slot,
                          struct hwt_delay_record **records, size_t count)
{
    char name[HWT_DELAY_NAME_MAX];
    hwt_delay_slot_name(slot, name);
    int file = hwt_delay_open_file(store, name, O_RDWR | (slot->length > 0 ? 0 : O_CREAT));
    if (file < 0)
        return file;
    slot->made = true;
    struct writer writer = { store, file,       slot->length + HWT_DELAY_RUN_SIZE,
                             0,     WRITE_SIZE, malloc(WRITE_SIZE) };
    int r = writer.bytes ? write_blocks(&writer, slot->number, records, count) : -ENOMEM;
    if (r == 0)
        r = write_run_head(&writer, slot, records, count);
    free(writer.bytes);
    if (r < 0) {
        hwt_delay_close_file(store, file);
        return r;
    }
    hwt_delay_begin_sync(store, file);
    atomic_fetch_add_explicit(&store->slot_bytes, writer.offset - slot->length,
                              memory_order_relaxed);
    slot->new_length = writer.offset;
    slot->new_count = slot->count + count;
    slot->new_origins = origins_of(slot, records, count);
    uint64_t last = records[count - 1]->key.due;
    slot->new_last = last > slot->last ? last : slot->last;
    slot->new_newest = newest_of(slot, records, count);
    return file;
}

static int add_run(struct hwt_delay_reader *reader, const struct hwt_delay_run *run)
{
    struct hwt_delay_run *runs =
        hwt_delay_grown(reader->runs, reader->count, &reader->room, sizeof(*runs), 8);
    if (!runs)
        return -ENOMEM;
    reader->runs = runs;
    reader->runs[reader->count++] = *run;
    return 0;
}

/* The runs of a file. */
struct runs {
    const hwt_delay *store;
    uint64_t number, length; /* of the file */
};

/* Is this the head of a run that belongs there, and ends by the file's length? */
static bool is_run_head(const struct runs *runs, const unsigned char *head, uint64_t offset)
{
    return hwt_delay_head_is(head, runs->store->key, HWT_DELAY_MAGIC_RUN, HWT_DELAY_RUN_SIZE) &&
           hwt_delay_get64(head + HWT_DELAY_RUN_OFFSET) == offset &&
           hwt_delay_get64(head + HWT_DELAY_RUN_NUMBER) == runs->number &&
           hwt_delay_get64(head + HWT_DELAY_RUN_LENGTH) <=
               runs->length - offset - HWT_DELAY_RUN_SIZE;
}

/* Reads the head of a run; -EBADMSG: there is none. */
static int read_run_head(hwt_delay *store, const struct runs *runs, int file, uint64_t offset,
                         struct hwt_delay_run *ret_run)
{
    unsigned char head[HWT_DELAY_RUN_SIZE];
    if (runs->length - offset < sizeof(head))
        return -EBADMSG;
    int64_t n = hwt_delay_read_all(store, file, head, sizeof(head), offset);
    if (n < 0)
        return (int)n;
    if (n < (int64_t)sizeof(head) || !is_run_head(runs, head, offset))
        return -EBADMSG;
    *ret_run = (struct hwt_delay_run){
        .next = offset + sizeof(head),
        .end = offset + sizeof(head) + hwt_delay_get64(head + HWT_DELAY_RUN_LENGTH),
        .first = get_key(head + HWT_DELAY_RUN_FIRST),
        .last = get_key(head + HWT_DELAY_RUN_LAST),
    };
    return 0;
}

static bool match_run(const unsigned char *head, uint64_t offset, void *runs)
{
    return is_run_head(runs, head, offset);
}

/* Looks for blocks one by one, up to the next run whose head is whole. */
static int rough_run(hwt_delay *store, struct runs *runs, int file, uint64_t offset,
                     struct hwt_delay_run *ret_run)
{
    int64_t next = hwt_delay_search(store, file, HWT_DELAY_RUN_SIZE, offset + 1, runs->length,
                                    match_run, runs);
    if (next < 0)
        return (int)next;
    *ret_run = (struct hwt_delay_run){
        .next = offset,
        .end = (uint64_t)next,
        .last = { UINT64_MAX, UINT64_MAX },
        .rough = true,
    };
    return 0;
}

/* Finds the runs between what is indexed already and `length`, in the file of that number. */
int hwt_delay_slot_index(hwt_delay *store, int file, uint64_t number,
                         struct hwt_delay_reader *reader, uint64_t length)
{
    struct runs runs = { store, number, length };
    while (reader->indexed < length) {
        struct hwt_delay_run run;
        int r = read_run_head(store, &runs, file, reader->indexed, &run);
        if (r == -EBADMSG && store->salvage)
            r = rough_run(store, &runs, file, reader->indexed, &run);
        if (r == 0)
            r = add_run(reader, &run);
        if (r < 0)
            return r;
        reader->indexed = run.end;
    }
    return 0;
}

static int block_room(struct hwt_delay_block *block, size_t size)
{
    if (size <= block->room)
        return 0;
    unsigned char *bytes = realloc(block->bytes, size);
    if (!bytes)
        return -ENOMEM;
    block->bytes = bytes;
    block->room = size;
    return 0;
}

/* The blocks of a file. */
struct blocks {
    const hwt_delay *store;
    uint64_t number, end;
};

/* Is this the head of the block that belongs there? Its records' checksum is not looked at. */
static bool match_block(const unsigned char *head, uint64_t offset, void *arg)
{
    const struct blocks *blocks = arg;
    return hwt_delay_head_is(head, blocks->store->key, HWT_DELAY_MAGIC_BLOCK,
                             HWT_DELAY_BLOCK_SIZE) &&
           hwt_delay_get64(head + HWT_DELAY_BLOCK_OFFSET) == offset &&
           hwt_delay_get64(head + HWT_DELAY_BLOCK_NUMBER) == blocks->number &&
           hwt_delay_get32(head + HWT_DELAY_BLOCK_LENGTH) <= HWT_DELAY_RECORD_MAX &&
           hwt_delay_get32(head + HWT_DELAY_BLOCK_LENGTH) <=
               blocks->end - offset - HWT_DELAY_BLOCK_SIZE;
}

int64_t hwt_delay_slot_search(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                              uint64_t from, uint64_t end)
{
    struct blocks blocks = { store, slot->number, end };
    return hwt_delay_search(store, file, HWT_DELAY_BLOCK_SIZE, from, end, match_block, &blocks);
}

/* Reads the head, and then no more than the block; the last one of a run at once. */
int hwt_delay_slot_block(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                         uint64_t offset, uint64_t end, struct hwt_delay_block *block)
{
    const size_t usual = HWT_DELAY_BLOCK_SIZE + HWT_DELAY_BLOCK_RECORDS;
    struct blocks blocks = { store, slot->number, end };
    int r = block_room(block, usual);
    if (r < 0)
        return r;
    if (end - offset < HWT_DELAY_BLOCK_SIZE)
        return -EBADMSG;
    size_t size = end - offset <= usual ? (size_t)(end - offset) : HWT_DELAY_BLOCK_SIZE;
    int64_t n = hwt_delay_read_all(store, file, block->bytes, size, offset);
    if (n < HWT_DELAY_BLOCK_SIZE)
        return n < 0 ? (int)n : -EBADMSG;
    if (!match_block(block->bytes, offset, &blocks))
        return -EBADMSG;
    size_t length = hwt_delay_get32(block->bytes + HWT_DELAY_BLOCK_LENGTH);
    r = block_room(block, HWT_DELAY_BLOCK_SIZE + length); /* a single long record */
    if (r < 0)
        return r;
    const unsigned char *head = block->bytes;
    if ((size_t)n < HWT_DELAY_BLOCK_SIZE + length) {
        n = hwt_delay_read_all(store, file, block->bytes, HWT_DELAY_BLOCK_SIZE + length, offset);
        if (n < 0)
            return (int)n;
    }
    if ((size_t)n < HWT_DELAY_BLOCK_SIZE + length ||
        hwt_delay_get32(head + HWT_DELAY_BLOCK_RECORDS_CRC) !=
            hwt_delay_crc(store->key, head + HWT_DELAY_BLOCK_SIZE, length))
        return -EBADMSG;
    hwt_delay_block_at(block, head, offset);
    return 0;
}

/* A block that was read has these bytes, with its head. */
void hwt_delay_block_at(struct hwt_delay_block *block, const unsigned char *head, uint64_t offset)
{
    const size_t length = hwt_delay_get32(head + HWT_DELAY_BLOCK_LENGTH);
    block->at = head + HWT_DELAY_BLOCK_SIZE;
    block->end = block->at + length;
    block->count = hwt_delay_get32(head + HWT_DELAY_BLOCK_COUNT);
    block->behind = offset + HWT_DELAY_BLOCK_SIZE + length;
}

/* The first record's key; false: there is none. */
bool hwt_delay_block_first(const struct hwt_delay_block *block, struct hwt_delay_key *ret_key)
{
    struct hwt_delay_before before = { 0 };
    struct hwt_delay_packed packed;
    const unsigned char *at = block->at;
    if (hwt_delay_unpack(&before, &at, block->end, &packed) < 0)
        return false;
    *ret_key = packed.key;
    return true;
}

/*
 * Moves a run on towards a key, by halves. All that is passed over is lower. A block that cannot be
 * read is treated as if it were behind, so no damage is passed over but between two blocks that can
 * be read.
 */
int hwt_delay_slot_seek(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                        struct hwt_delay_run *run, struct hwt_delay_key key,
                        struct hwt_delay_block *block)
{
    uint64_t high = run->end;
    while (high > run->next && high - run->next > HWT_DELAY_SEEK_LEAST) {
        uint64_t middle = run->next + (high - run->next) / 2;
        int64_t at = hwt_delay_slot_search(store, slot, file, middle, high);
        int r = at < 0 ? (int)at
                : (uint64_t)at < high
                    ? hwt_delay_slot_block(store, slot, file, (uint64_t)at, run->end, block)
                    : -EBADMSG;
        if (r < 0 && r != -EBADMSG)
            return r;
        struct hwt_delay_key first;
        if (r == 0 && hwt_delay_block_first(block, &first) && hwt_delay_compare(first, key) < 0) {
            run->next = (uint64_t)at;
            run->first = first;
        } else {
            high = middle;
        }
    }
    return 0;
}
