/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reading what is due in a stretch of time out of several slots, each of several sorted runs, with
 * bounded memory.
 *
 * The runs are merged, block by block. The next block to be read is that of the run which goes on
 * with the lowest key. The records of the stretch are kept, by key. If they get more than the
 * budget, the highest are dropped, and the stretch ends there. So each stretch is as long as its
 * memory allows, and no slot is opened that begins behind it. The block in which a run's stretch ends
 * is kept for the next stretch, so a block is read once: else each stretch would read a block of each
 * run for a few records. All that are kept take as much as options.memory at most.
 *
 * A stretch ends between two due times, so that records of one identity are together. If a single
 * instant has more than the budget it is cut at a sequence, and a second reading looks for what
 * replaces or erases the records of the first part.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "hwt/delay/base/array.h"
#include "hwt/delay/whole.h"

/* A block that was read. The run may go on behind it once all of it is before the stretch's end. */
struct mark {
    struct hwt_delay_run *run;
    uint64_t behind;
    struct hwt_delay_key last;
};

/* How far a run has been read. */
struct cursor {
    struct hwt_delay_reader *reader;
    struct hwt_delay_run *run;
    uint64_t offset;
    struct hwt_delay_key lowest; /* no record from there on is lower */
};

struct gather {
    hwt_delay *store;
    struct hwt_delay_key from, to;
    uint64_t budget;
    struct hwt_delay_gathered *gathered;
    struct hwt_delay_map identities; /* only while looking for replacements */
    bool replacements;
    struct mark *marks;
    size_t count, room;
    struct cursor *cursors; /* a heap, by `lowest` */
    size_t cursor_count, cursor_room;
    const struct hwt_delay_slot *slot; /* whose file is open */
    int file;
    struct hwt_delay_block block;
    uint64_t kept; /* bytes of blocks */
};

static int by_next(const void *a, const void *b)
{
    uint64_t x = hwt_delay_reader_next(*(struct hwt_delay_reader *const *)a);
    uint64_t y = hwt_delay_reader_next(*(struct hwt_delay_reader *const *)b);
    return (x > y) - (x < y);
}

/* ---- cursors ---- */

static void swap_cursors(struct cursor *a, struct cursor *b)
{
    struct cursor other = *a;
    *a = *b;
    *b = other;
}

static bool is_before(const struct cursor *a, const struct cursor *b)
{
    return hwt_delay_compare(a->lowest, b->lowest) < 0;
}

static void sift_down(struct gather *gather)
{
    struct cursor *heap = gather->cursors;
    size_t at = 0, child;
    while ((child = 2 * at + 1) < gather->cursor_count) {
        if (child + 1 < gather->cursor_count && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &heap[at]))
            return;
        swap_cursors(&heap[child], &heap[at]);
        at = child;
    }
}

static int add_cursor(struct gather *gather, struct hwt_delay_reader *reader,
                      struct hwt_delay_run *run)
{
    struct cursor *cursors = hwt_delay_grown(gather->cursors, gather->cursor_count,
                                             &gather->cursor_room, sizeof(*cursors), 64);
    if (!cursors)
        return -ENOMEM;
    gather->cursors = cursors;
    size_t at = gather->cursor_count++;
    cursors[at] = (struct cursor){ reader, run, run->next, run->first };
    for (; at > 0 && is_before(&cursors[at], &cursors[(at - 1) / 2]); at = (at - 1) / 2)
        swap_cursors(&cursors[at], &cursors[(at - 1) / 2]);
    return 0;
}

/* ---- records ---- */

static struct hwt_delay_record *highest(const struct gather *gather)
{
    return RB_MAX(hwt_delay_keys, &gather->gathered->keys);
}

static void take_out(struct gather *gather, struct hwt_delay_record *record)
{
    RB_REMOVE(hwt_delay_keys, &gather->gathered->keys, record);
    gather->gathered->bytes -= hwt_delay_record_bytes(record);
    hwt_delay_record_unref(record);
}

static void end_at(struct gather *gather, struct hwt_delay_key to)
{
    struct hwt_delay_record *record;
    gather->to = to;
    while ((record = highest(gather)) && hwt_delay_compare(record->key, to) >= 0)
        take_out(gather, record);
}

static void keep(struct gather *gather, struct hwt_delay_record *record)
{
    struct hwt_delay_gathered *gathered = gather->gathered;
    struct hwt_delay_record *same = RB_INSERT(hwt_delay_keys, &gathered->keys, record);
    if (same) { /* one of them was written again, when it had been handed over */
        same->twice = same->twice || same->reader->slot != record->reader->slot;
        if (same->handed < record->handed) { /* so it is this copy that rewriting its slot keeps */
            same->handed = record->handed;
            same->reader = record->reader;
        }
        hwt_delay_record_unref(record);
        return;
    }
    gathered->bytes += hwt_delay_record_bytes(record);
    while (gathered->bytes > gather->budget &&
           highest(gather) != RB_MIN(hwt_delay_keys, &gathered->keys) &&
           hwt_delay_compare(highest(gather)->key, RB_MIN(hwt_delay_keys, &gathered->keys)->key) >
               0)
        end_at(gather, highest(gather)->key);
}

/* Behind the cut, `replaced` marks what is no longer pending because of this record. */
static void look_for_replaced(struct gather *gather, struct hwt_delay_record *record)
{
    struct hwt_delay_record *old = hwt_delay_find(&gather->identities, record);
    if (old && old->key.sequence <= record->key.sequence)
        old->replaced = true;
    hwt_delay_record_unref(record);
}

static int add_mark(struct gather *gather, struct hwt_delay_run *run, uint64_t behind,
                    struct hwt_delay_key last)
{
    if (gather->replacements || run->rough)
        return 0;
    struct mark *marks =
        hwt_delay_grown(gather->marks, gather->count, &gather->room, sizeof(*marks), 256);
    if (!marks)
        return -ENOMEM;
    gather->marks = marks;
    gather->marks[gather->count++] = (struct mark){ run, behind, last };
    return 0;
}

/* Takes the records of the block that was read. *ret_last is the key of the last one looked at. */
static int take_block(struct gather *gather, struct hwt_delay_reader *reader,
                      struct hwt_delay_key *ret_last)
{
    const unsigned char *at = gather->block.at, *end = gather->block.end;
    struct hwt_delay_before before = { 0 };
    for (uint32_t i = 0; i < gather->block.count; i++) {
        struct hwt_delay_packed packed;
        int r = hwt_delay_unpack(&before, &at, end, &packed);
        if (r < 0)
            return r;
        struct hwt_delay_key key = packed.key;
        /* No checkpoint can have brought such a record here. The answer does not change while the
         * slots are locked. */
        if (hwt_delay_log_keeps(gather->store, key.sequence) || !hwt_delay_is_of_slot(packed.kind))
            return -EBADMSG;
        *ret_last = key;
        if (hwt_delay_compare(key, gather->to) >= 0)
            return 0;
        if (hwt_delay_compare(key, gather->from) < 0 ||
            hwt_delay_compare(key, reader->position) < 0)
            continue;
        struct hwt_delay_record *record = hwt_delay_record_of(&packed);
        if (!record)
            return -ENOMEM;
        record->reader = reader;
        if (gather->replacements)
            look_for_replaced(gather, record);
        else
            keep(gather, record);
    }
    return 0;
}

static void close_slot(struct gather *gather)
{
    if (gather->slot)
        hwt_delay_close_file(gather->store, gather->file);
    gather->slot = NULL;
}

/* One file is open at a time. */
static int open_slot(struct gather *gather, const struct hwt_delay_slot *slot)
{
    if (gather->slot == slot)
        return 0;
    close_slot(gather);
    char name[HWT_DELAY_NAME_MAX];
    hwt_delay_slot_name(slot, name);
    gather->file = hwt_delay_open_file(gather->store, name, O_RDONLY);
    if (gather->file < 0)
        return gather->file == -ENOENT ? -EBADMSG : gather->file;
    gather->slot = slot;
    return 0;
}

/* Moves *offset on to the next block that can be read, or to `end`. */
static int find_readable(struct gather *gather, const struct hwt_delay_slot *slot, uint64_t *offset,
                         uint64_t end)
{
    hwt_delay *store = gather->store;
    int found = open_slot(gather, slot);
    if (found < 0)
        return found;
    do {
        int64_t at = hwt_delay_slot_search(store, slot, gather->file, *offset + 1, end);
        if (at < 0)
            return (int)at;
        *offset = (uint64_t)at;
        found = *offset < end
                    ? hwt_delay_slot_block(store, slot, gather->file, *offset, end, &gather->block)
                    : 0;
    } while (found == -EBADMSG);
    return found;
}

/* With both due times. Records before the reader's position have been dealt with. */
static void add_gap(struct gather *gather, const struct hwt_delay_reader *reader, uint64_t lowest,
                    uint64_t highest)
{
    uint64_t position = reader->position.due;
    const struct hwt_delay_gap gap = {
        .from = { lowest < position ? position : lowest, 0 },
        .to = { highest < HWT_NEVER ? highest + 1 : HWT_NEVER, 0 },
    };
    hwt_delay_gap_add(gather->gathered->gaps, gap);
}

/* Puts the bytes before the next block that can be read aside. */
static int skip_damage(struct gather *gather, const struct hwt_delay_slot *slot, uint64_t *offset,
                       uint64_t end)
{
    uint64_t damage = *offset;
    int r = find_readable(gather, slot, offset, end);
    return r < 0 ? r
                 : hwt_delay_put_slot_aside(gather->store, slot, gather->file, damage,
                                            *offset - damage);
}

/*
 * The block at *offset cannot be read, so nobody knows what is due from the record before it to the
 * next one that can be read.
 */
static int note_gap(struct gather *gather, const struct cursor *cursor, uint64_t *offset)
{
    struct hwt_delay_run *run = cursor->run;
    struct hwt_delay_key highest = run->last;
    int r = find_readable(gather, cursor->reader->slot, offset, run->end);
    if (r < 0)
        return r;
    struct hwt_delay_key next;
    if (*offset < run->end && hwt_delay_block_first(&gather->block, &next))
        highest = next;
    if (hwt_delay_compare(highest, cursor->reader->position) > 0)
        add_gap(gather, cursor->reader, cursor->lowest.due, highest.due);
    return add_mark(gather, run, *offset, cursor->lowest);
}

static bool run_is_needed(const struct gather *gather, const struct hwt_delay_reader *reader,
                          const struct hwt_delay_run *run)
{
    return run->next < run->end && hwt_delay_compare(run->first, gather->to) < 0 &&
           hwt_delay_compare(run->last, gather->from) >= 0 &&
           hwt_delay_compare(run->last, reader->position) >= 0;
}

/* ---- blocks that are kept ---- */

static bool is_kept(const struct hwt_delay_run *run, uint64_t offset)
{
    return run->kept && run->kept_at == offset;
}

static void forget_kept(struct gather *gather, struct hwt_delay_run *run)
{
    if (!run->kept)
        return;
    gather->kept -= run->kept_size;
    free(run->kept);
    run->kept = NULL;
}

/* The block that was read may be needed again. If there is no memory it is read again. */
static void keep_block(struct gather *gather, struct hwt_delay_run *run, uint64_t offset)
{
    const size_t size = (size_t)(gather->block.behind - offset);
    if (gather->replacements || run->rough || gather->store->salvage ||
        gather->kept + size > gather->store->options.memory)
        return;
    forget_kept(gather, run);
    run->kept = malloc(size);
    if (!run->kept)
        return;
    memcpy(run->kept, gather->block.at - HWT_DELAY_BLOCK_SIZE, size);
    run->kept_size = size;
    run->kept_at = offset;
    gather->kept += size;
}

/* The run's block at an offset; unless it is kept, the slot is open. */
static int get_block(struct gather *gather, const struct hwt_delay_slot *slot,
                     struct hwt_delay_run *run, uint64_t offset)
{
    if (is_kept(run, offset)) {
        hwt_delay_block_at(&gather->block, run->kept, offset);
        return 0;
    }
    int r =
        hwt_delay_slot_block(gather->store, slot, gather->file, offset, run->end, &gather->block);
    if (r < 0)
        return r;
    gather->gathered->read += gather->block.behind - offset;
    keep_block(gather, run, offset);
    return 0;
}

/* Reads a block and takes its records; *offset is moved on behind it. */
static int read_block(struct gather *gather, const struct cursor *cursor, uint64_t *offset,
                      struct hwt_delay_key *ret_last)
{
    bool salvage = gather->store->salvage;
    const struct hwt_delay_slot *slot = cursor->reader->slot;
    struct hwt_delay_run *run = cursor->run;
    int r = is_kept(run, *offset) ? 0 : open_slot(gather, slot);
    if (r < 0)
        return r;
    r = get_block(gather, slot, run, *offset);
    if (r == -EBADMSG && salvage)
        return skip_damage(gather, slot, offset, run->end);
    if (r == -EBADMSG && gather->gathered->gaps)
        return note_gap(gather, cursor, offset);
    if (r < 0)
        return r;
    uint64_t behind = gather->block.behind;
    r = take_block(gather, cursor->reader, ret_last);
    if (r == -EBADMSG && !salvage && gather->gathered->gaps) {
        *ret_last = cursor->lowest;
        return note_gap(gather, cursor, offset);
    }
    if (r == -EBADMSG && salvage) {
        *ret_last = cursor->lowest; /* its keys say nothing */
        r = hwt_delay_put_slot_aside(gather->store, slot, gather->file, *offset, behind - *offset);
    } else if (r == 0) {
        r = add_mark(gather, run, behind, *ret_last);
    }
    *offset = behind;
    return r;
}

/* Reads the next block of the first cursor. */
static int read_first(struct gather *gather)
{
    struct cursor *first = &gather->cursors[0];
    struct hwt_delay_key last = first->lowest;
    int r = read_block(gather, first, &first->offset, &last);
    if (!first->run->rough)
        first->lowest = last;
    if (first->offset >= first->run->end)
        gather->cursors[0] = gather->cursors[--gather->cursor_count];
    sift_down(gather);
    return r;
}

/* Its file is not there, or the head of a run is damaged, so nothing is known of the rest. */
static void note_lost(struct gather *gather, const struct hwt_delay_reader *reader)
{
    add_gap(gather, reader, hwt_delay_slot_start(reader->slot), hwt_delay_slot_last(reader->slot));
}

/* Records before the stretch, or before the position, are not read, except for the end of them. */
static int skip_before(struct gather *gather, const struct hwt_delay_reader *reader,
                       struct hwt_delay_run *run)
{
    bool passed = hwt_delay_compare(gather->from, reader->position) < 0;
    struct hwt_delay_key from = passed ? reader->position : gather->from;
    /* Salvage looks at every block, to put aside what is damaged. */
    if (gather->store->salvage || run->end - run->next <= HWT_DELAY_SEEK_LEAST ||
        hwt_delay_compare(run->first, from) >= 0)
        return 0;
    int r = open_slot(gather, reader->slot);
    return r < 0 ? r
                 : hwt_delay_slot_seek(gather->store, reader->slot, gather->file, run, from,
                                       &gather->block);
}

/* Finds the runs of a slot that have something in the stretch. */
static int begin_slot(struct gather *gather, struct hwt_delay_reader *reader)
{
    int r = 0;
    if (reader->indexed < reader->slot->length) {
        r = open_slot(gather, reader->slot);
        if (r == 0)
            r = hwt_delay_slot_index(gather->store, gather->file, reader->slot->number, reader,
                                     reader->slot->length);
        if (r == -EBADMSG && gather->gathered->gaps) {
            note_lost(gather, reader);
            r = 0;
        }
    }
    for (size_t i = 0; i < reader->count && r == 0; i++) {
        if (!run_is_needed(gather, reader, &reader->runs[i]))
            continue;
        r = skip_before(gather, reader, &reader->runs[i]);
        if (r == 0)
            r = add_cursor(gather, reader, &reader->runs[i]);
    }
    return r;
}

/* Reads what is lowest, until that is behind the stretch. */
static int read_slots(struct gather *gather, struct hwt_delay_reader **readers, size_t count)
{
    if (count > 0)
        qsort(readers, count, sizeof(struct hwt_delay_reader *), by_next);
    gather->cursor_count = 0;
    for (size_t begun = 0;;) {
        const struct cursor *first = gather->cursor_count > 0 ? &gather->cursors[0] : NULL;
        uint64_t next = begun < count ? hwt_delay_reader_next(readers[begun]) : HWT_NEVER;
        int r;
        if (next != HWT_NEVER && (!first || next <= first->lowest.due)) {
            if (hwt_delay_compare((struct hwt_delay_key){ next, 0 }, gather->to) >= 0)
                return 0;
            r = begin_slot(gather, readers[begun++]);
        } else {
            if (!first || hwt_delay_compare(first->lowest, gather->to) >= 0)
                return 0;
            r = read_first(gather);
        }
        if (r < 0)
            return r;
    }
}

/* A single instant is over the budget, so this looks at the rest of it. */
static int read_replacements(struct gather *gather, struct hwt_delay_reader **readers, size_t count)
{
    struct hwt_delay_key cut = gather->to, from = gather->from;
    struct hwt_delay_record *record;
    hwt_delay_map_init(&gather->identities);
    RB_FOREACH(record, hwt_delay_keys, &gather->gathered->keys)
    {
        struct hwt_delay_record *old = hwt_delay_supplant(&gather->identities, record);
        if (old)
            old->replaced = true;
    }
    gather->replacements = true;
    gather->from = cut;
    gather->to = (struct hwt_delay_key){ cut.due + 1, 0 };
    int r = read_slots(gather, readers, count);
    hwt_delay_map_clear(&gather->identities);
    gather->to = cut;
    gather->from = from;
    return r;
}

/* Moves the runs on to where the next stretch begins. */
static void move_on(struct gather *gather, bool cut)
{
    for (size_t i = 0; i < gather->count; i++) {
        struct mark *mark = &gather->marks[i];
        bool whole = hwt_delay_compare(mark->last, gather->to) < 0;
        if (whole)
            mark->run->next = mark->behind;
        /* If reading stopped at the end of the stretch, the block's last is behind that end. */
        mark->run->first = whole || cut ? gather->to : mark->last;
    }
    for (size_t i = 0; i < gather->count; i++) {
        if (gather->marks[i].run->kept_at < gather->marks[i].run->next)
            forget_kept(gather, gather->marks[i].run);
    }
}

static uint64_t kept_by(struct hwt_delay_reader **readers, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t run = 0; run < readers[i]->count; run++)
            bytes += readers[i]->runs[run].kept ? readers[i]->runs[run].kept_size : 0;
    }
    return bytes;
}

/*
 * Gathers what the slots have from `from` to *to, which comes down to where memory ended. Sorts the
 * readers. -EBADMSG, -EIO, -ENOMEM; then the readers begin anew the next time.
 */
int hwt_delay_gather(hwt_delay *store, struct hwt_delay_reader **readers, size_t count,
                     struct hwt_delay_key from, struct hwt_delay_key *to, uint64_t budget,
                     struct hwt_delay_gathered *ret_gathered)
{
    struct gather gather = {
        .store = store,
        .from = from,
        .to = *to,
        .budget = budget,
        .gathered = ret_gathered,
        .kept = kept_by(readers, count),
    };
    RB_INIT(&ret_gathered->keys);
    ret_gathered->bytes = ret_gathered->read = 0;
    int r = read_slots(&gather, readers, count);
    bool cut = r == 0 && hwt_delay_compare(gather.to, *to) < 0;
    if (cut && RB_MIN(hwt_delay_keys, &ret_gathered->keys)->key.due < gather.to.due)
        end_at(&gather, (struct hwt_delay_key){ gather.to.due, 0 });
    if (r == 0)
        move_on(&gather, cut);
    if (r == 0 && gather.to.sequence > 0) /* it ends within an instant */
        r = read_replacements(&gather, readers, count);
    close_slot(&gather);
    for (size_t i = 0; i < count && r < 0; i++)
        hwt_delay_reader_reset(readers[i]);
    if (r == 0)
        *to = gather.to;
    free(gather.marks);
    free(gather.cursors);
    free(gather.block.bytes);
    if (r < 0)
        hwt_delay_gathered_free(ret_gathered);
    return r;
}
