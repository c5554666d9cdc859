/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Deliveries say how often each message was handed over, also by processes that were killed.
 *
 * A take writes a block to the file `handed` before it returns. The block has the keys of its
 * messages, and how often each has been handed over by now. Nobody flushes it, so it survives the
 * process and not the power. The bytes of a message have its count too, where they are written
 * later: by a checkpoint or a retry.
 *
 * The file has two halves. Blocks go to one of them, one behind the other, until a checkpoint has
 * what they say. Those up to its snapshot are in the half before. A half is written anew when the
 * checkpoint on the disk does not need it any more. An old block that is found does no harm,
 * because a count only goes up, and a key is given once.
 *
 * Opening applies the counts to what the log has brought to the table. Others may be of messages in
 * slots. They are kept, by key, until loading gets there, and their blocks stay so long: a half
 * begins behind them. That may be for long, if the clock was set back. A message that gets its count
 * by loading is FRESH, as its slot does not have that.
 *
 * A take for whose block there is no room waits for a checkpoint, if it may wait. Else, and on a
 * full disk, nothing is written, and the messages are handed over all the same; so too where the
 * write fails, or memory for it. Such a take is counted as missed, and the next checkpoint, at the
 * latest that of a close, makes it good.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "hwt/delay/base/text.h"
#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

static uint64_t half_of(const hwt_delay *store)
{
    return store->options.segment_size / 16 * 8;
}

/* Whether the blocks take more of the half, behind its base, than one part of so many. A checkpoint
 * makes room there. */
static bool takes_more(const hwt_delay *store, uint64_t parts)
{
    const struct hwt_delay_handed *handed = &store->slots.handed;
    const uint64_t base = handed->base[handed->half];
    return handed->length - base > (half_of(store) - base) / parts;
}

bool hwt_delay_handed_is_long(const hwt_delay *store)
{
    return takes_more(store, 4);
}

size_t hwt_delay_handed_most(const hwt_delay *store)
{
    uint64_t block = half_of(store) / 2 - HWT_DELAY_HANDED_SIZE - 8;
    return (size_t)(block / HWT_DELAY_COUNT_SIZE);
}

/* ---- writing ---- */

/* Waits until there is room for the longest block, or cannot be. Called with the lock, which it
 * lets go of. */
void hwt_delay_handed_await(hwt_delay *store)
{
    while (takes_more(store, 2) && !store->synchronous && !store->poisoned && !store->full &&
           store->stuck == 0) {
        hwt_delay_checkpoint_want(store);
        pthread_cond_wait(&store->changed, &store->lock);
    }
}

/* Reserves room for the block of a take. Called with the lock. */
struct hwt_delay_handing hwt_delay_handed_begin(hwt_delay *store, size_t count)
{
    struct hwt_delay_handed *handed = &store->slots.handed;
    uint64_t size = HWT_DELAY_HANDED_SIZE + count * HWT_DELAY_COUNT_SIZE;
    struct hwt_delay_handing handing = { .size = (size_t)size };
    size = (size + 7) / 8 * 8;
    /* On a full disk what is left of the reserve is for the log. */
    if (!store->full && handed->length + size <= half_of(store)) {
        handing.offset = handed->half * half_of(store) + handed->length;
        handing.number = handed->next_number++;
        handed->length += size;
    }
    handed->writers++;
    return handing;
}

bool hwt_delay_handed_is_short(const hwt_delay *store)
{
    return store->slots.handed.missed > store->slots.handed.made_good;
}

/* With the lock. `written`: the block is in the file. */
void hwt_delay_handed_end(hwt_delay *store, bool written)
{
    store->slots.handed.writers--;
    store->slots.handed.missed += !written;
}

/* Without the lock. `bytes` has the counts behind room for the head. -ENOSPC: there is no room. */
int hwt_delay_handed_write(hwt_delay *store, const struct hwt_delay_handing *handing,
                           unsigned char *bytes)
{
    size_t length = handing->size - HWT_DELAY_HANDED_SIZE;
    if (handing->number == 0)
        return -ENOSPC;
    memset(bytes, 0, HWT_DELAY_HANDED_SIZE);
    hwt_delay_set32(bytes + HWT_DELAY_HANDED_LENGTH, (uint32_t)length);
    hwt_delay_set32(bytes + HWT_DELAY_HANDED_RECORDS_CRC,
                    hwt_delay_crc(store->key, bytes + HWT_DELAY_HANDED_SIZE, length));
    hwt_delay_set64(bytes + HWT_DELAY_HANDED_OFFSET, handing->offset);
    hwt_delay_set64(bytes + HWT_DELAY_HANDED_NUMBER, handing->number);
    hwt_delay_head_seal(bytes, store->key, HWT_DELAY_MAGIC_HANDED, HWT_DELAY_HANDED_SIZE);
    return hwt_delay_write_all(store, store->slots.handed.file, bytes, handing->size,
                               handing->offset);
}

void hwt_delay_count_encode(struct hwt_delay_key key, uint16_t count, unsigned char *at)
{
    hwt_delay_set64(at + HWT_DELAY_COUNT_DUE, key.due);
    hwt_delay_set64(at + HWT_DELAY_COUNT_SEQUENCE, key.sequence);
    hwt_delay_set16(at + HWT_DELAY_COUNT_HANDED, count);
}

/* ---- checkpoints ---- */

/* The checkpoint that is begun has all counts up to now, but for those of what is to be loaded. */
void hwt_delay_handed_snapshot(hwt_delay *store)
{
    struct hwt_delay_handed *handed = &store->slots.handed;
    handed->frees = handed->next == handed->count;
    handed->noted = handed->missed;
    if (!handed->other_is_free || handed->writers > 0)
        return;
    handed->half ^= 1;
    handed->length = handed->base[handed->half];
    handed->other_is_free = false;
}

/* It is on the disk. */
void hwt_delay_handed_conclude(hwt_delay *store)
{
    struct hwt_delay_handed *handed = &store->slots.handed;
    handed->other_is_free = true;
    handed->made_good = handed->noted;
    if (handed->frees)
        handed->base[0] = handed->base[1] = 0;
}

/* ---- what opening has read ---- */

static int by_key(const void *a, const void *b)
{
    const struct hwt_delay_count *x = a, *y = b;
    int order = hwt_delay_compare(x->key, y->key);
    return order != 0 ? order : (x->count > y->count) - (x->count < y->count);
}

/* The count of a message out of a slot: the highest one, or 0. */
uint16_t hwt_delay_handed_find(const hwt_delay *store, struct hwt_delay_key key)
{
    const struct hwt_delay_handed *handed = &store->slots.handed;
    size_t low = handed->next, high = handed->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hwt_delay_compare(handed->counts[middle].key, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    const struct hwt_delay_count *last = low > handed->next ? &handed->counts[low - 1] : NULL;
    return last && hwt_delay_compare(last->key, key) == 0 ? last->count : 0;
}

/* Messages that are due before `loaded` have been loaded. */
void hwt_delay_handed_loaded(hwt_delay *store)
{
    struct hwt_delay_handed *handed = &store->slots.handed;
    while (handed->next < handed->count &&
           hwt_delay_compare(handed->counts[handed->next].key, hwt_delay_loaded(store)) < 0)
        handed->next++;
    if (handed->next < handed->count || handed->count == 0)
        return;
    free(handed->counts);
    handed->counts = NULL;
    handed->next = handed->count = handed->room = 0;
}

/* ---- opening ---- */

static int keep(struct hwt_delay_handed *handed, struct hwt_delay_key key, uint16_t count)
{
    struct hwt_delay_count *counts =
        hwt_delay_grown(handed->counts, handed->count, &handed->room, sizeof(*counts), 64);
    if (!counts)
        return -ENOMEM;
    handed->counts = counts;
    handed->counts[handed->count++] = (struct hwt_delay_count){ key, count };
    return 0;
}

static int apply(hwt_delay *store, const unsigned char *at)
{
    const struct hwt_delay_key key = { hwt_delay_get64(at + HWT_DELAY_COUNT_DUE),
                                       hwt_delay_get64(at + HWT_DELAY_COUNT_SEQUENCE) };
    uint16_t count = hwt_delay_get16(at + HWT_DELAY_COUNT_HANDED);
    struct hwt_delay_record *record = hwt_delay_from(store, key);
    if (!record || hwt_delay_compare(record->key, key) != 0)
        return hwt_delay_wheel_covers(store, key.due) ? keep(&store->slots.handed, key, count) : 0;
    if (record->kind == HWT_DELAY_PUT && count > record->handed)
        record->handed = count;
    return 0;
}

static bool is_head(const unsigned char *head, uint64_t offset, void *arg)
{
    const hwt_delay *store = arg;
    return hwt_delay_head_is(head, store->key, HWT_DELAY_MAGIC_HANDED, HWT_DELAY_HANDED_SIZE) &&
           hwt_delay_get64(head + HWT_DELAY_HANDED_OFFSET) == offset;
}

/* Its head is whole, and its counts are behind it. `kept`: some are of messages that are to be
 * loaded. */
static void note_block(hwt_delay *store, const unsigned char *head, uint64_t end, bool kept)
{
    struct hwt_delay_handed *handed = &store->slots.handed;
    const uint64_t number = hwt_delay_get64(head + HWT_DELAY_HANDED_NUMBER);
    const bool half = hwt_delay_get64(head + HWT_DELAY_HANDED_OFFSET) >= half_of(store);
    end -= half * half_of(store);
    if (kept && end > handed->base[half])
        handed->base[half] = end;
    if (number < handed->next_number)
        return;
    handed->next_number = number + 1; /* blocks go on behind the last one */
    handed->half = half;
    handed->length = end;
}

/* Applies the counts of a block. -EBADMSG: they do not have their checksum. */
static int read_counts(hwt_delay *store, const unsigned char *head, uint64_t offset, size_t length)
{
    unsigned char *bytes = malloc(length + 1);
    int64_t n = bytes ? hwt_delay_read_all(store, store->slots.handed.file, bytes, length,
                                           offset + HWT_DELAY_HANDED_SIZE)
                      : -ENOMEM;
    if (n >= 0 && ((size_t)n < length || hwt_delay_get32(head + HWT_DELAY_HANDED_RECORDS_CRC) !=
                                             hwt_delay_crc(store->key, bytes, length)))
        n = -EBADMSG;
    for (size_t i = 0; n >= 0 && i < length; i += HWT_DELAY_COUNT_SIZE) {
        int r = apply(store, bytes + i);
        n = r < 0 ? r : n;
    }
    free(bytes);
    return n < 0 ? (int)n : 0;
}

/* Returns how long the block is that stands there; 0: there is no whole one. */
static int64_t read_block(hwt_delay *store, uint64_t offset)
{
    unsigned char head[HWT_DELAY_HANDED_SIZE];
    int64_t n = hwt_delay_read_all(store, store->slots.handed.file, head, sizeof(head), offset);
    if (n < (int64_t)sizeof(head) || !is_head(head, offset, store))
        return n < 0 ? n : 0;
    size_t length = hwt_delay_get32(head + HWT_DELAY_HANDED_LENGTH);
    const uint64_t size = (HWT_DELAY_HANDED_SIZE + length + 7) / 8 * 8;
    const uint64_t half_end = half_of(store) * (offset < half_of(store) ? 1 : 2);
    if (offset + size > half_end || length % HWT_DELAY_COUNT_SIZE != 0)
        return 0;
    const size_t kept = store->slots.handed.count;
    int r = read_counts(store, head, offset, length);
    if (r < 0)
        return r == -EBADMSG ? 0 : r;
    note_block(store, head, offset + size, store->slots.handed.count > kept);
    return (int64_t)size;
}

static int read_blocks(hwt_delay *store)
{
    int64_t n = 0, size = hwt_delay_file_size(store, store->slots.handed.file);
    for (int64_t offset = 0; n >= 0 && offset < size;) {
        n = read_block(store, (uint64_t)offset);
        if (n > 0)
            offset += n;
        else if (n == 0)
            offset = n = hwt_delay_search(store, store->slots.handed.file, HWT_DELAY_HANDED_SIZE,
                                          (uint64_t)offset + 8, (uint64_t)size, is_head, store);
    }
    return size < 0 ? (int)size : n < 0 ? (int)n : 0;
}

/* The log has been read. Makes the file where it is not there. */
int hwt_delay_handed_open(hwt_delay *store)
{
    struct hwt_delay_handed *handed = &store->slots.handed;
    handed->next_number = 1;
    int flags = store->read_only ? O_RDONLY : O_RDWR | O_CREAT;
    handed->file = hwt_delay_open_file(store, "handed", flags);
    if (handed->file < 0)
        return handed->file == -ENOENT ? 0 : handed->file;
    int r = read_blocks(store);
    if (handed->count > 0)
        qsort(handed->counts, handed->count, sizeof(*handed->counts), by_key);
    if (handed->length < handed->base[handed->half])
        handed->length = handed->base[handed->half];
    return r;
}

void hwt_delay_handed_dump(const hwt_delay *store, struct hwt_delay_text *text)
{
    const struct hwt_delay_handed *handed = &store->slots.handed;
    hwt_delay_text_add(text,
                       "handed: next block %" PRIu64 " in half %u at %" PRIu64
                       ", %zu counts of what is to be loaded\n",
                       handed->next_number, handed->half, handed->length,
                       handed->count - handed->next);
}
