/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_SLOTS_SLOTS_H
#define HWT_DELAY_SLOTS_SLOTS_H

/* A slot is a file of messages that are due in one stretch of time. See wheel.c and slot.c. */

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay.h"
#include "hwt/delay/table/table.h"

struct hwt_delay_text;

/* A run of a slot, as it is being read. */
struct hwt_delay_run {
    uint64_t next; /* the first block that was not wholly read */
    uint64_t end;
    struct hwt_delay_key first; /* no record from `next` on is lower */
    struct hwt_delay_key last;
    bool rough;          /* its head was damaged: there may be any records in it, in any order */
    unsigned char *kept; /* the block at `kept_at`, with its head; NULL: none is kept */
    size_t kept_size;
    uint64_t kept_at;
};

/* How far a slot has been read, by loading or by a visit. See slot.c and gather.c. */
struct hwt_delay_reader {
    struct hwt_delay_slot *slot;
    struct hwt_delay_run *runs;
    size_t count, room;
    uint64_t indexed;              /* the runs are those up to this offset */
    struct hwt_delay_key position; /* the slot's, when reading began */
    uint64_t dead;                 /* that a rewriting has found; see the slot's */
};

/* Readers of a caller's own. See readers.c. */
struct hwt_delay_readers {
    struct hwt_delay_reader **all;
    size_t count, room;
};

/* A range of origins, with both ends. from > to: there are none. */
struct hwt_delay_range {
    uint64_t from, to;
};

#define HWT_DELAY_NO_RANGE ((struct hwt_delay_range){ UINT64_MAX, 0 })
#define HWT_DELAY_ANY_RANGE ((struct hwt_delay_range){ 0, UINT64_MAX })

struct hwt_delay_slot {
    RB_ENTRY(hwt_delay_slot) by_span;    /* shift, index, number */
    RB_ENTRY(hwt_delay_slot) by_next;    /* while `next` is not HWT_NEVER */
    RB_ENTRY(hwt_delay_slot) by_highest; /* while it is sealed and not passed */
    TAILQ_ENTRY(hwt_delay_slot) listed;  /* while it is finished, or moved by a checkpoint */
    uint64_t number;                     /* frozen, as index and shift */
    uint64_t index;
    unsigned shift;
    uint32_t refs; /* of the wheel or the finished ones, and of visits */
    bool on_wheel;
    bool sealed;
    bool passed;                    /* all in it has been dealt with */
    bool kept;                      /* it would be passed, but has a gap */
    bool made;                      /* its file is there */
    bool named;                     /* by the checkpoint on the disk, so its file is not deleted */
    uint64_t length;                /* of the file, as far as it counts */
    uint64_t count;                 /* records */
    uint64_t dead;                  /* about so many bytes are of no use any more; see rewrite.c */
    uint64_t since;                 /* the epoch in which it was sealed */
    struct hwt_delay_key position;  /* when it was sealed; see hwt_delay_position() */
    struct hwt_delay_key before;    /* what is lower was dealt with before there was a gap in it */
    uint64_t next;                  /* no due time at or after `loaded` is lower; HWT_NEVER: none */
    uint64_t last;                  /* no record was written with a later due time */
    uint64_t newest;                /* no record has a higher sequence */
    uint64_t highest;               /* no due time is higher, as far as is known by now */
    struct hwt_delay_key noted;     /* the position for the checkpoint that is being made */
    uint64_t new_length, new_count; /* after that checkpoint; 0: it does not name the slot */
    uint64_t new_dead, new_last, new_newest;
    struct hwt_delay_range origins, new_origins; /* all that its records have are in it */
    struct hwt_delay_key moved;     /* what is lower is moved by that checkpoint; 0: nothing */
    struct hwt_delay_reader reader; /* of loading */
};

RB_HEAD(hwt_delay_spans, hwt_delay_slot);
RB_HEAD(hwt_delay_nexts, hwt_delay_slot);
RB_HEAD(hwt_delay_highests, hwt_delay_slot);
TAILQ_HEAD(hwt_delay_slot_list, hwt_delay_slot);

/* The slots, each in a stretch of time. See wheel.c. */
struct hwt_delay_wheel {
    struct hwt_delay_spans spans;
    struct hwt_delay_nexts nexts;
    struct hwt_delay_highests highests;
    size_t count;
    uint64_t bytes;        /* of all */
    uint64_t passed_bytes; /* of those that the next checkpoint leaves out */
    size_t passed_count;
    size_t by_shift[64]; /* how many */
};

/* The highest position that there was in the epochs after the floor before, up to `until`. */
struct hwt_delay_floor {
    uint64_t until;
    struct hwt_delay_key position;
};

/* See position.c. */
struct hwt_delay_positions {
    uint64_t epoch;
    struct hwt_delay_floor *floors; /* their epochs go up, their positions go down */
    size_t count, room;
};

/* Damage in a slot that was put aside, and is not put aside again at the next reading. */
struct hwt_delay_aside {
    uint64_t number, offset;
};

/* How often a message was handed over that may be in a slot. */
struct hwt_delay_count {
    struct hwt_delay_key key;
    uint16_t count;
};

/* See handed.c. */
struct hwt_delay_handed {
    int file; /* frozen */
    unsigned half;
    uint64_t length;  /* of the blocks in that half, with those that opening has read */
    uint64_t base[2]; /* of each half, what has counts of messages that are still to be loaded */
    uint64_t next_number;      /* of a block */
    uint64_t writers;          /* takes that write a block */
    uint64_t missed;           /* takes whose block is not in the file */
    uint64_t noted, made_good; /* of those, by the checkpoint that is being made; on the disk */
    bool other_is_free;        /* the checkpoint on the disk does not need the other half */
    bool frees;                /* that which is being made has all counts that opening has read */
    struct hwt_delay_count *counts; /* by key; those from `next` on may be in slots */
    size_t next, count, room;
};

/* The place of a take's block. Its number is 0 if there is no room. */
struct hwt_delay_handing {
    uint64_t offset, number;
    size_t size;
};

struct hwt_delay_slots {
    struct hwt_delay_wheel wheel;
    struct hwt_delay_slot_list
        finished; /* no longer on the wheel; deleted by the next checkpoint */
    uint64_t finished_bytes;
    uint64_t next_number;
    struct hwt_delay_positions positions;
    uint64_t dropped_bytes; /* of slots that are wholly under a drop, and not passed */
    size_t dropped_count;
    struct hwt_delay_handed handed;
    struct hwt_delay_aside *aside; /* of whoever has locked the slots */
    size_t aside_count, aside_room;
    bool locked;      /* a thread reads slots, or changes their lengths */
    unsigned waiting; /* so many wait for that to end, visits apart */
};

/* ---- slots.c ---- */

void hwt_delay_slots_init(hwt_delay *store);
void hwt_delay_slots_forget(hwt_delay *store);
void hwt_delay_slots_free(hwt_delay *store);
/* With the store's lock, which is let go of to wait. */
void hwt_delay_slots_lock(hwt_delay *store);
void hwt_delay_slots_unlock(hwt_delay *store);
/* Until nobody has locked them. */
void hwt_delay_slots_await(hwt_delay *store);
void hwt_delay_slots_await_last(hwt_delay *store); /* and nobody else waits for it */
struct hwt_delay_slot *hwt_delay_slots_first(const hwt_delay *store);
struct hwt_delay_slot *hwt_delay_slots_next(const struct hwt_delay_slot *slot);
#define HWT_DELAY_FOREACH_SLOT(slot, store)                                                        \
    for ((slot) = hwt_delay_slots_first(store); slot; (slot) = hwt_delay_slots_next(slot))
size_t hwt_delay_slots_count(const hwt_delay *store);
uint64_t hwt_delay_slots_bytes(const hwt_delay *store); /* with the finished ones */
/* The bytes, and the number, of the slots that the next checkpoint leaves out. */
uint64_t hwt_delay_passed_bytes(const hwt_delay *store);
size_t hwt_delay_passed_count(const hwt_delay *store);
/* Is there a slot of that length? */
bool hwt_delay_wheel_has(const hwt_delay *store, unsigned shift);
/* That of the next new slot. */
uint64_t hwt_delay_slots_number(const hwt_delay *store);
uint64_t hwt_delay_slots_take_number(hwt_delay *store);
void hwt_delay_slots_number_raise(hwt_delay *store, uint64_t next);
/* A checkpoint is on the disk: what it does not name is finished. */
void hwt_delay_slots_conclude(hwt_delay *store);
struct hwt_delay_slot *hwt_delay_finished_first(const hwt_delay *store);
void hwt_delay_finished_free(hwt_delay *store, struct hwt_delay_slot *slot);

/* ---- slot.c ---- */

#define HWT_DELAY_NAME_MAX 64
void hwt_delay_slot_name(const struct hwt_delay_slot *slot, char name[HWT_DELAY_NAME_MAX]);
/* Is this the name of a slot? Sets shift, index and number. */
bool hwt_delay_slot_parse(const char *name, struct hwt_delay_slot *ret_slot);
int hwt_delay_slot_append(hwt_delay *store, struct hwt_delay_slot *slot,
                          struct hwt_delay_record **records, size_t count);
int hwt_delay_slot_index(hwt_delay *store, int file, uint64_t number,
                         struct hwt_delay_reader *reader, uint64_t length);
/* The next offset from `from` on at which is the head of a block that belongs there, or `end`. */
int64_t hwt_delay_slot_search(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                              uint64_t from, uint64_t end);
/* Reads the block at `offset` into a buffer that grows; the offset behind it, or an error. */
struct hwt_delay_block {
    unsigned char *bytes;
    size_t room;
    const unsigned char *at, *end; /* its records */
    uint32_t count;
    uint64_t behind; /* the offset behind the block */
};
int hwt_delay_slot_block(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                         uint64_t offset, uint64_t end, struct hwt_delay_block *block);
void hwt_delay_block_at(struct hwt_delay_block *block, const unsigned char *head, uint64_t offset);
/* So much of a run is rather read than searched. */
#define HWT_DELAY_SEEK_LEAST (UINT64_C(512) << 10)
bool hwt_delay_block_first(const struct hwt_delay_block *block, struct hwt_delay_key *ret_key);
int hwt_delay_slot_seek(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                        struct hwt_delay_run *run, struct hwt_delay_key key,
                        struct hwt_delay_block *block);

/* ---- wheel.c ---- */

unsigned hwt_delay_wheel_shift(uint64_t due, uint64_t now);
uint64_t hwt_delay_slot_start(const struct hwt_delay_slot *slot);
uint64_t hwt_delay_slot_last(const struct hwt_delay_slot *slot); /* the last instant in it */
struct hwt_delay_slot *hwt_delay_slot_new(unsigned shift, uint64_t index, uint64_t number);
void hwt_delay_slot_unref(struct hwt_delay_slot *slot);
void hwt_delay_wheel_add(hwt_delay *store, struct hwt_delay_slot *slot);
void hwt_delay_wheel_remove(hwt_delay *store, struct hwt_delay_slot *slot);
/* The slot of this span and number or the next one behind it. A span is a shift and an index. */
struct hwt_delay_slot *hwt_delay_wheel_from(const hwt_delay *store, unsigned shift, uint64_t index,
                                            uint64_t number);
/* The one to which can be appended. */
struct hwt_delay_slot *hwt_delay_wheel_find(const hwt_delay *store, unsigned shift, uint64_t index);
bool hwt_delay_wheel_covers(const hwt_delay *store, uint64_t due);
void hwt_delay_slot_bounds(hwt_delay *store, struct hwt_delay_slot *slot);
void hwt_delay_slot_set_length(hwt_delay *store, struct hwt_delay_slot *slot, uint64_t length);
uint64_t hwt_delay_wheel_next(const hwt_delay *store); /* no slot has anything before */
RB_PROTOTYPE(hwt_delay_spans, hwt_delay_slot, by_span, )
RB_PROTOTYPE(hwt_delay_nexts, hwt_delay_slot, by_next, )
RB_PROTOTYPE(hwt_delay_highests, hwt_delay_slot, by_highest, )

/* ---- position.c ---- */

/* Does the slot have instants below a key? */
static inline bool hwt_delay_begins_below(const struct hwt_delay_slot *slot,
                                          struct hwt_delay_key key)
{
    uint64_t start = slot->index << slot->shift;
    return start < key.due || (start == key.due && key.sequence > 0);
}

int hwt_delay_epoch_begin(hwt_delay *store);
void hwt_delay_seal(hwt_delay *store, struct hwt_delay_slot *slot, uint64_t epoch);
void hwt_delay_positions_raise(hwt_delay *store, struct hwt_delay_key left);
struct hwt_delay_key hwt_delay_position(const hwt_delay *store, const struct hwt_delay_slot *slot);
uint64_t hwt_delay_epoch(const hwt_delay *store);
void hwt_delay_positions_follow(hwt_delay *store);
bool hwt_delay_gap_in(const hwt_delay *store, const struct hwt_delay_slot *slot);

/* ---- dropped.c ---- */

void hwt_delay_drop(hwt_delay *store, struct hwt_delay_record *drop);
bool hwt_delay_slot_is_dropped(const hwt_delay *store, const struct hwt_delay_slot *slot);
void hwt_delay_drops_snapshot(hwt_delay *store);
void hwt_delay_drops_settle(hwt_delay *store);
uint64_t hwt_delay_dropped_bytes(const hwt_delay *store);
size_t hwt_delay_dropped_count(const hwt_delay *store);

/* ---- gather.c ---- */

/* Records out of slots, by key; a tombstone behind a put of the same key. */
struct hwt_delay_gathered {
    struct hwt_delay_keys keys;
    uint64_t bytes;              /* in memory */
    uint64_t read;               /* bytes of slots */
    struct hwt_delay_gaps *gaps; /* the caller's, for what cannot be read; NULL: that is an error */
};
int hwt_delay_gather(hwt_delay *store, struct hwt_delay_reader **readers, size_t count,
                     struct hwt_delay_key from, struct hwt_delay_key *to, uint64_t budget,
                     struct hwt_delay_gathered *ret_gathered);

/* ---- gathered.c ---- */

void hwt_delay_gathered_free(struct hwt_delay_gathered *gathered);
/* Marks by `replaced` what a later one replaces or erases; and by `needed`, where one slot is to be
 * moved, what replaces or erases a message that is in another. */
void hwt_delay_gathered_mark(struct hwt_delay_gathered *gathered,
                             const struct hwt_delay_slot *moved);

/* ---- readers.c ---- */

void hwt_delay_reader_reset(struct hwt_delay_reader *reader);
void hwt_delay_reader_clear(struct hwt_delay_reader *reader);
/* No due time in the part that was not read is lower; HWT_NEVER: nothing is there. */
uint64_t hwt_delay_reader_next(const struct hwt_delay_reader *reader);

int hwt_delay_readers_choose(const hwt_delay *store, struct hwt_delay_readers *readers,
                             struct hwt_delay_key from, struct hwt_delay_key *to);
void hwt_delay_readers_free(struct hwt_delay_readers *readers);

/* ---- load.c ---- */

#define HWT_DELAY_HORIZON HWT_SEC(2)

/* Up to where is loaded at an instant. */
static inline uint64_t hwt_delay_horizon(uint64_t now)
{
    return now > HWT_NEVER - HWT_DELAY_HORIZON ? HWT_NEVER : now + HWT_DELAY_HORIZON;
}

int hwt_delay_load(hwt_delay *store, uint64_t due);
void hwt_delay_evict(hwt_delay *store);
void hwt_delay_load_soon(hwt_delay *store);
uint64_t hwt_delay_loader(void *store); /* a job; see pool.h */

/* ---- handed.c ---- */

int hwt_delay_handed_open(hwt_delay *store);
/* So many messages may be in a block. */
size_t hwt_delay_handed_most(const hwt_delay *store);
bool hwt_delay_handed_is_long(const hwt_delay *store);
void hwt_delay_handed_await(hwt_delay *store);
struct hwt_delay_handing hwt_delay_handed_begin(hwt_delay *store, size_t count);
int hwt_delay_handed_write(hwt_delay *store, const struct hwt_delay_handing *handing,
                           unsigned char *bytes);
void hwt_delay_handed_end(hwt_delay *store, bool written);
/* A checkpoint alone can bring the counts to the disk. */
bool hwt_delay_handed_is_short(const hwt_delay *store);
void hwt_delay_count_encode(struct hwt_delay_key key, uint16_t count, unsigned char *at);
void hwt_delay_handed_snapshot(hwt_delay *store);
void hwt_delay_handed_conclude(hwt_delay *store);
uint16_t hwt_delay_handed_find(const hwt_delay *store, struct hwt_delay_key key);
void hwt_delay_handed_loaded(hwt_delay *store);
void hwt_delay_handed_dump(const hwt_delay *store, struct hwt_delay_text *text);

/* ---- aside.c ---- */

int hwt_delay_put_slot_aside(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                             uint64_t offset, uint64_t length);

#endif
