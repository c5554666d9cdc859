/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_STORE_H
#define HWT_DELAY_STORE_H

/*
 * What a store is in memory.
 *
 * THE IDEA
 *
 * The table holds records: messages (puts) and erases, by key = (due, sequence) and by
 * identity = (due, id). It is complete below `loaded`: whatever is pending with a lower key is in the
 * table or leased. At or above `loaded`, more may be in slots. Loading (load.c) moves `loaded` up;
 * eviction (also there) moves it down.
 *
 * A record is FRESH while it is in the log alone, FLUSHING while a checkpoint writes it to its
 * slot, and FILED when the checkpoint is on the disk. What is FILED stays in the table below
 * `loaded` only. What is LEASED is out of the table, and whole in each checkpoint.
 *
 * Of all records with one identity that one counts which has the highest sequence; an erase wins
 * against a put of the same sequence. So a message in a slot that nobody can see from memory is
 * cancelled or replaced by a record with the same due time, which is read together with it.
 *
 * A slot's position: what has a lower key in this slot has been dealt with: handed over, replaced
 * or erased. Messages leave the table in the order of their keys, so the lowest key left,
 * or `loaded`, is the position of all slots that are there at this moment (hwt_delay_settle()).
 * What is put later with a lower key gets into another slot, whose position begins at 0: a slot
 * that begins below `loaded` is sealed. See position.c.
 *
 * A gap is a stretch of time of which something cannot be read. What is due in it stays where it is,
 * in slots, in the table and in the log, and nobody is handed it. See gaps.c.
 *
 * WHO MAY TOUCH WHAT
 *
 * `lock` guards everything here, but for: what is set at opening and does not change (marked
 * "frozen"); log.writing_bytes and the log's files, which belong to the leader; a slot's reader
 * and `aside`, which belong to whoever set `loading`; the slots' files, which are written by
 * whoever set `checkpointing`; `next`, `highest` and `length` of a slot are written with the lock by
 * whoever set `loading`, who may also read them without it. The bytes of a record do not change once it is in the table. No file
 * is read or written under the lock, but when the store is alone or is being opened.
 */

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "hwt/base/shield.h"
#include "hwt/delay/disk/format.h"
#include "hwt/delay/base/cond.h"
#include "hwt/delay/base/pool.h"
#include "hwt/delay/disk/system.h"
#include "hwt/delay/log/log.h"

struct hwt_delay_key {
    uint64_t due, sequence;
};

static inline int hwt_delay_compare(struct hwt_delay_key a, struct hwt_delay_key b)
{
    if (a.due != b.due)
        return a.due < b.due ? -1 : 1;
    return (a.sequence > b.sequence) - (a.sequence < b.sequence);
}

enum hwt_delay_state {
    HWT_DELAY_FRESH,
    HWT_DELAY_FLUSHING,
    HWT_DELAY_FILED,
    HWT_DELAY_LEASED,
    HWT_DELAY_NOWHERE, /* not in the table: being made, or removed and held by a reference */
    HWT_DELAY_STATES
};

struct hwt_delay_record;

/* The due time of a message's first put. See tickets.c. */
struct hwt_delay_origin {
    RB_ENTRY(hwt_delay_origin) entry; /* while its record is in the table, or leased */
    struct hwt_delay_record *record;
    uint64_t due;
};

RB_HEAD(hwt_delay_origins, hwt_delay_origin);

struct hwt_delay_record {
    RB_ENTRY(hwt_delay_record) by_key;
    RB_ENTRY(hwt_delay_record) by_identity; /* in the table, or among the leased */
    union {
        TAILQ_ENTRY(hwt_delay_record) fresh_link; /* while FRESH */
        struct hwt_delay_lease *lease;            /* while LEASED */
        struct hwt_delay_reader *reader;          /* while gathered: what has read it */
    };
    struct hwt_delay_origin *origin; /* behind the payload; NULL: it is due as it was put first */
    struct hwt_delay_key key;
    uint64_t arrived; /* when it was put, by the store's clock; 0: before it was opened */
    uint32_t refs;
    uint32_t expired;
    uint32_t payload_size;
    _Atomic uint16_t
        handed; /* how often it was handed over; whoever writes its bytes has no lock */
    uint16_t retries;
    uint8_t kind;
    uint8_t id_size;
    uint8_t state;
    bool ends;    /* a message that was pending ended with it; see filed.c */
    bool shadows; /* below `loaded`: a slot may have an older one with this identity */
    bool twice;   /* while gathered: another slot has it, too */
    bool needed;  /* while gathered: see hwt_delay_gathered_mark(); of a drop: a slot may need it */
    bool moved;   /* out of a slot, by a checkpoint */
    unsigned char bytes[]; /* id, payload */
};

RB_HEAD(hwt_delay_keys, hwt_delay_record);
RB_HEAD(hwt_delay_identities, hwt_delay_record);
TAILQ_HEAD(hwt_delay_fresh, hwt_delay_record);

/* A run of a slot, as it is being read. */
struct hwt_delay_run {
    uint64_t next; /* the first block that was not wholly read */
    uint64_t end;
    struct hwt_delay_key first; /* no record from `next` on is lower */
    struct hwt_delay_key last;
    bool rough; /* its head was damaged: there may be any records in it, in any order */
};

/* How far a slot has been read: by loading, or by a visit. See slot.c and gather.c. */
struct hwt_delay_reader {
    struct hwt_delay_slot *slot;
    struct hwt_delay_run *runs;
    size_t count, room;
    uint64_t indexed;              /* the runs are those up to this offset */
    struct hwt_delay_key position; /* the slot's, when reading began */
    uint64_t dead;                 /* that a rewriting has found; see the slot's */
};

/* Of a caller's own. See readers.c. */
struct hwt_delay_readers {
    struct hwt_delay_reader **all;
    size_t count, room;
};

/* Of origins, with both ends; from > to: there are none. */
struct hwt_delay_range {
    uint64_t from, to;
};

#define HWT_DELAY_NO_RANGE ((struct hwt_delay_range){ UINT64_MAX, 0 })
#define HWT_DELAY_ANY_RANGE ((struct hwt_delay_range){ 0, UINT64_MAX })

struct hwt_delay_slot {
    RB_ENTRY(hwt_delay_slot) by_place;   /* shift, index, number */
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
    uint64_t length;                /* of the file, as far as it counts */
    uint64_t count;                 /* records */
    uint64_t dead;                  /* about so many bytes are of no use any more; see rewrite.c */
    uint64_t since;                 /* the epoch in which it was sealed */
    struct hwt_delay_key position;  /* when it was sealed; see hwt_delay_position() */
    uint64_t next;                  /* no due time at or after `loaded` is lower; HWT_NEVER: none */
    uint64_t last;                  /* no record was written with a later due time */
    uint64_t newest;                /* no record has a higher sequence */
    uint64_t highest;               /* no due time is higher, as far as is known by now */
    struct hwt_delay_key noted;     /* the position for the checkpoint that is being made */
    uint64_t new_length, new_count; /* after that checkpoint; 0: it does not name the slot */
    uint64_t new_dead;
    struct hwt_delay_range origins, new_origins; /* all that its records have are in it */
    struct hwt_delay_key moved;     /* what is lower is moved by that checkpoint; 0: nothing */
    struct hwt_delay_reader reader; /* of loading */
};

RB_HEAD(hwt_delay_places, hwt_delay_slot);
RB_HEAD(hwt_delay_nexts, hwt_delay_slot);
RB_HEAD(hwt_delay_highests, hwt_delay_slot);
TAILQ_HEAD(hwt_delay_slot_list, hwt_delay_slot);

/* The slots, each in a stretch of time. See wheel.c. */
struct hwt_delay_wheel {
    struct hwt_delay_places places;
    struct hwt_delay_nexts nexts;
    struct hwt_delay_highests highests;
    size_t count;
    uint64_t bytes;        /* of all */
    uint64_t passed_bytes; /* of those that the next checkpoint leaves out */
    size_t passed_count;
    size_t by_shift[64]; /* how many */
};

/* What cannot be read is due in it. See gaps.c. */
struct hwt_delay_gap {
    struct hwt_delay_key from, to;
};

enum { HWT_DELAY_GAPS_MAX = 64 };

struct hwt_delay_gaps {
    struct hwt_delay_gap all[HWT_DELAY_GAPS_MAX + 1]; /* they do not touch each other */
    size_t count;
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

/* Damage in a slot that was put aside: not again at the next reading. */
struct hwt_delay_aside {
    uint64_t number, offset;
};

struct hwt_delay_lease {
    RB_ENTRY(hwt_delay_lease) by_token;
    RB_ENTRY(hwt_delay_lease) by_end;
    uint64_t token;
    uint64_t end;    /* by the boottime clock */
    bool superseded; /* something newer was put in its place */
    bool ending;     /* a step that has been judged ends it; see steps.c */
    struct hwt_delay_record *record;
};

RB_HEAD(hwt_delay_tokens, hwt_delay_lease);
RB_HEAD(hwt_delay_ends, hwt_delay_lease);

enum { HWT_DELAY_SPANS_MAX = 512 };

/* How many messages slots have that are due in a stretch of time. */
struct hwt_delay_span {
    uint64_t index; /* due time >> shift */
    uint64_t count, known;
};

/* See filed.c. */
struct hwt_delay_filed {
    struct hwt_delay_span spans[HWT_DELAY_SPANS_MAX]; /* in order */
    size_t count;
    unsigned shift;
    uint64_t total;
};

/* What a checkpoint writes: the state at one instant, between two frames. See checkpoint.c. */
struct hwt_delay_snapshot {
    struct hwt_delay_record **records; /* FLUSHING; and moved ones, which are not in the table */
    size_t count, room;
    struct hwt_delay_slot_list moved; /* slots of which a part is moved */
    struct hwt_delay_record **whole;  /* what is leased, and what is no message */
    size_t whole_count;
    struct hwt_delay_log_point from; /* the log counts from here on */
    uint64_t frame;                  /* the last one before it */
    uint64_t counted;                /* its instant; `from` is lower where the log stays */
    uint64_t extent;                 /* the log's, behind it; 0: as it is */
    uint64_t epoch;                  /* begins with it */
    uint64_t hand, now, erased_bytes, kept_bytes;
    bool brings; /* to slots what is FLUSHING; else see publish_old() */
    int error;
};

LIST_HEAD(hwt_delay_sought, hwt_delay_found); /* see tickets.c */

enum { HWT_DELAY_DROPS_MAX = 64 };

/* See drops.c. */
struct hwt_delay_drops {
    struct hwt_delay_record *all[HWT_DELAY_DROPS_MAX]; /* none covers another */
    size_t count;
    uint64_t bytes; /* of slots that are wholly under one */
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
    uint64_t length;           /* of the blocks in that half */
    uint64_t next_number;      /* of a block */
    uint64_t writers;          /* takes that write a block */
    uint64_t missed;           /* takes whose block is not in the file */
    uint64_t noted, made_good; /* of those, by the checkpoint that is being made; on the disk */
    bool other_is_free;        /* the checkpoint on the disk does not need the other half */
    bool frees;                /* that which is being made will not, either */
    struct hwt_delay_count *counts; /* by key; those from `next` on may be in slots */
    size_t next, count, room;
};

/* The place of a take's block; its number is 0 where there is no room. */
struct hwt_delay_handing {
    uint64_t offset, number;
    size_t size;
};

struct hwt_delay {
    struct hwt_delay_system system;              /* frozen */
    bool alone, read_only, salvage, not_durable; /* frozen */
    hwt_delay_options options;                   /* frozen */
    uint64_t key;                                /* frozen; not 0 */
    int directory, store_file;                   /* frozen */
    pthread_mutex_t lock;

    struct hwt_delay_keys keys;
    struct hwt_delay_identities identities;
    struct hwt_delay_origins origins;
    struct hwt_delay_fresh fresh;
    size_t fresh_count;
    uint64_t bytes[HWT_DELAY_STATES];    /* of the records in each state */
    uint64_t messages[HWT_DELAY_STATES]; /* the same; that of HWT_DELAY_NOWHERE says nothing */
    struct hwt_delay_filed filed;        /* messages that slots have */
    struct hwt_delay_filed noted_filed;  /* those for the checkpoint that is being made */
    struct hwt_delay_key loaded;
    struct hwt_delay_positions positions;
    struct hwt_delay_gaps gaps;
    bool gap_is_new;               /* no take has told of it */
    struct hwt_delay_record *note; /* the program's, or NULL */

    struct hwt_delay_tokens tokens;
    struct hwt_delay_ends ends;
    struct hwt_delay_identities leased;
    uint64_t leased_count;
    uint64_t superseded; /* of them */
    uint64_t next_token;

    struct hwt_delay_log log;
    struct hwt_delay_handed handed;
    struct hwt_delay_drops drops;
    struct hwt_delay_sought sought; /* what was found by its ticket, or is looked for */

    struct hwt_delay_wheel wheel;
    struct hwt_delay_slot_list
        finished; /* no longer on the wheel; deleted by the next checkpoint */
    uint64_t finished_bytes;
    uint64_t next_number;

    struct hwt_delay_aside *aside; /* belongs to whoever has set `loading` */
    size_t aside_count, aside_room;

    bool loading;       /* a thread reads slots */
    bool checkpointing; /* a thread makes a checkpoint */
    bool wanted;        /* a checkpoint is wanted */
    bool watched;       /* the checkpointer will see whether the log is still at `quiet_since` */
    uint64_t quiet_since;
    bool full; /* there is no reserve: puts are refused */
    int stuck; /* what the last checkpoint failed with, which will be tried again: -ENOSPC,
                  -ENOMEM, -EMFILE, -ENFILE; 0 */
    bool poisoned;
    uint64_t copies; /* that are being made: finished slots are not deleted meanwhile */
    bool rewriting;  /* the last checkpoint has left slots that are to be rewritten */
    bool made_up;    /* no checkpoint on the disk has it yet: damage was left out, so are numbers */
    int trouble; /* why takes get nothing: -ETIME while `held`, or what loading failed with; 0 */
    uint64_t troubles; /* how often one began */
    uint64_t told;     /* the last one of them that a take has returned */
    struct hwt_delay_snapshot snapshot;
    pthread_cond_t changed; /* loading, checkpointing, room in the log or in memory */

    uint64_t hand;
    uint64_t offset_max; /* of realtime against boottime, the largest that was accepted */
    bool standby;        /* nothing is loaded, and takes are refused */
    bool offset_known, held;
    bool behind; /* the clock was behind the hand at opening, and has been so since */

    struct hwt_delay_pool *pool; /* NULL: alone, read only, or being opened */
    struct hwt_delay_job jobs[HWT_DELAY_LANES];
    pthread_cond_t takers;
    uint64_t alarm_at; /* the instant the alarm is set to; HWT_NEVER: none */
    int event;         /* -1: none */
    bool event_set;
    uint64_t waiting; /* threads in a take that may sleep */
    uint64_t wakes;   /* calls of hwt_delay_wake() */
    bool woken;       /* one of them came when nobody was waiting: the next that would, is woken */

    hwt_delay_stats
        stats; /* the counters in it, but for these, which are counted without the lock */
    _Atomic uint64_t syncs, slot_bytes, salvaged, salvaged_bytes;
};

/* A call of the public header takes the lock. Its thread does not end in it by pthread_cancel(). */
static inline int hwt_delay_enter(hwt_delay *store)
{
    int shield = hwt_shield();
    pthread_mutex_lock(&store->lock);
    return shield;
}

static inline void hwt_delay_leave(hwt_delay *store, int shield)
{
    pthread_mutex_unlock(&store->lock);
    hwt_unshield(shield);
}

/* Long work under the lock lets go of it after so many records. */
#define HWT_DELAY_CHUNK 512

static inline void hwt_delay_yield(hwt_delay *store)
{
    pthread_mutex_unlock(&store->lock);
    sched_yield();
    pthread_mutex_lock(&store->lock);
}

static inline void hwt_delay_await_loading(hwt_delay *store)
{
    while (store->loading)
        pthread_cond_wait(&store->changed, &store->lock);
}

/* So much may be leased at a time, in memory; in a checkpoint it is less. */
static inline uint64_t hwt_delay_leased_bytes_max(const hwt_delay *store)
{
    return store->options.memory / 8;
}

/* ---- open.c ---- */

void hwt_delay_forget(hwt_delay *store);

/* ---- options.c ---- */

/* Without the histogram, at least. */
#define HWT_DELAY_STATS_SIZE_MIN offsetof(hwt_delay_stats, lateness_max)

int hwt_delay_options_read(const hwt_delay_options *given, hwt_delay_options *ret_options);
bool hwt_delay_stats_is_size(size_t size);
/* As much as the size in *ret_stats says. */
int hwt_delay_stats_copy(const hwt_delay_stats *stats, hwt_delay_stats *ret_stats);
int hwt_delay_batch_read(const hwt_delay_batch *given, hwt_delay_batch *ret_batch);

/* ---- table.c ---- */

struct hwt_delay_record *hwt_delay_record_new(uint8_t kind, const hwt_delay_message *message);
/* Its id and payload are the record's own bytes. */
hwt_delay_message hwt_delay_message_of(const struct hwt_delay_record *record);
size_t hwt_delay_record_bytes(const struct hwt_delay_record *record); /* in memory */
void hwt_delay_record_unref(struct hwt_delay_record *record);
int hwt_delay_identity_compare(const struct hwt_delay_record *a, const struct hwt_delay_record *b);
RB_PROTOTYPE(hwt_delay_keys, hwt_delay_record, by_key, )
RB_PROTOTYPE(hwt_delay_identities, hwt_delay_record, by_identity, )

struct hwt_delay_record *hwt_delay_find(struct hwt_delay_identities *identities, uint64_t due,
                                        const void *id, size_t id_size);
void hwt_delay_insert(hwt_delay *store, struct hwt_delay_record *record,
                      enum hwt_delay_state state);
void hwt_delay_remove(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_set_state(hwt_delay *store, struct hwt_delay_record *record,
                         enum hwt_delay_state state);
bool hwt_delay_ends_one(hwt_delay *store, const struct hwt_delay_record *record);
void hwt_delay_apply_put(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_apply_erase(hwt_delay *store, struct hwt_delay_record *erase);
void hwt_delay_settle(hwt_delay *store);
/* The lowest record in the table that is at or above a key. */
struct hwt_delay_record *hwt_delay_from(hwt_delay *store, struct hwt_delay_key key);

/* ---- filed.c ---- */

void hwt_delay_filed_init(struct hwt_delay_filed *filed);
void hwt_delay_filed_add(struct hwt_delay_filed *filed, uint64_t due, uint64_t count);
bool hwt_delay_filed_may_have(const struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_end(struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_know(struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_forget(struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_settle(hwt_delay *store, uint64_t until);
void hwt_delay_filed_settle_dropped(hwt_delay *store);
void hwt_delay_filed_encode(const struct hwt_delay_filed *filed, unsigned char *at);
int hwt_delay_filed_decode(struct hwt_delay_filed *filed, const unsigned char *at, uint32_t count,
                           uint32_t shift);

/* ---- record.c ---- */

size_t hwt_delay_encoded_size(const struct hwt_delay_record *record);
void hwt_delay_encode(const struct hwt_delay_record *record, unsigned char *at);
/* What ends a message, up to its own sequence. */
void hwt_delay_encode_erase(const struct hwt_delay_record *message, bool ends, unsigned char *at);
/* How long the record is that stands there; 0: none can. */
size_t hwt_delay_encoded_at(const unsigned char *at, const unsigned char *end);
/* Is it of a kind that slots have? */
static inline bool hwt_delay_is_of_slot(const struct hwt_delay_record *record)
{
    return record->kind == HWT_DELAY_PUT || record->kind == HWT_DELAY_ERASE;
}
/* Reads one at *at, which it moves on; -EBADMSG, -ENOMEM; -ENOTSUP: a later release wrote it. */
int hwt_delay_decode(const unsigned char **at, const unsigned char *end,
                     struct hwt_delay_record **ret_record);

/* ---- files.c: whole reads and writes over the seam ---- */

int hwt_delay_write_all(hwt_delay *store, int file, const void *bytes, size_t size,
                        uint64_t offset);
/* How many bytes were read: fewer only at the end of the file. */
int64_t hwt_delay_read_all(hwt_delay *store, int file, void *bytes, size_t size, uint64_t offset);
/* The next offset from `from` on where `size` bytes begin with the key and are a match, or `end`. */
int64_t hwt_delay_search(hwt_delay *store, int file, size_t size, uint64_t from, uint64_t end,
                         bool (*match)(const unsigned char *bytes, uint64_t offset, void *arg),
                         void *arg);
int hwt_delay_truncate(hwt_delay *store, int file, uint64_t size);
int hwt_delay_sync(hwt_delay *store, int file);
int hwt_delay_sync_directory(hwt_delay *store);
int hwt_delay_open_file(hwt_delay *store, const char *name, int flags);
void hwt_delay_close_file(hwt_delay *store, int file);
/* With zeros, not only allocated: then flushing a frame need not touch the file's extents. */
int hwt_delay_write_zeros(hwt_delay *store, int file, uint64_t from, uint64_t to);
bool hwt_delay_is_full(int error);
/* Memory or descriptors were missing: nothing was lost. */
bool hwt_delay_is_shortage(int error);

/* ---- aside.c ---- */

int hwt_delay_put_aside(hwt_delay *store, int file, uint64_t offset, uint64_t length);
/* Bytes that are gone. */
void hwt_delay_count_salvaged(hwt_delay *store, uint64_t bytes);

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
/* So much of a run is rather read than searched. */
#define HWT_DELAY_SEEK_LEAST (UINT64_C(512) << 10)
/* The key of the record that is there. */
static inline struct hwt_delay_key hwt_delay_key_at(const unsigned char *at)
{
    return (struct hwt_delay_key){ hwt_delay_get64(at + HWT_DELAY_RECORD_DUE),
                                   hwt_delay_get64(at + HWT_DELAY_RECORD_SEQUENCE) };
}
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
/* The slot at this place or the next one behind it, by shift, index and number. */
struct hwt_delay_slot *hwt_delay_wheel_from(const hwt_delay *store, unsigned shift, uint64_t index,
                                            uint64_t number);
/* The one to which can be appended. */
struct hwt_delay_slot *hwt_delay_wheel_find(const hwt_delay *store, unsigned shift, uint64_t index);
bool hwt_delay_wheel_covers(const hwt_delay *store, uint64_t due);
void hwt_delay_slot_bounds(hwt_delay *store, struct hwt_delay_slot *slot);
void hwt_delay_slot_set_length(hwt_delay *store, struct hwt_delay_slot *slot, uint64_t length);
uint64_t hwt_delay_wheel_next(const hwt_delay *store); /* no slot has anything before */
RB_PROTOTYPE(hwt_delay_places, hwt_delay_slot, by_place, )
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

/* ---- gaps.c ---- */

const struct hwt_delay_gap *hwt_delay_gap_at(const hwt_delay *store, struct hwt_delay_key key);
bool hwt_delay_gap_in(const hwt_delay *store, const struct hwt_delay_slot *slot);
bool hwt_delay_gap_add(struct hwt_delay_gaps *gaps, struct hwt_delay_gap gap);
struct hwt_delay_record *hwt_delay_first(hwt_delay *store);

/* ---- gather.c ---- */

/* Records out of slots, by key; an erase behind a put of the same key. */
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
/* Marks by `shadows` what a later one replaces or erases; and by `needed`, where one slot is to be
 * moved, what replaces or erases a message that is in another. */
void hwt_delay_gathered_mark(struct hwt_delay_gathered *gathered,
                             const struct hwt_delay_slot *moved);

/* ---- readers.c ---- */

void hwt_delay_reader_reset(struct hwt_delay_reader *reader);
/* No due time in the part that was not read is lower; HWT_NEVER: nothing is there. */
uint64_t hwt_delay_reader_next(const struct hwt_delay_reader *reader);

int hwt_delay_readers_choose(const hwt_delay *store, struct hwt_delay_readers *readers,
                             struct hwt_delay_key from, struct hwt_delay_key *to);
void hwt_delay_readers_free(struct hwt_delay_readers *readers);

/* ---- rewrite.c ---- */

void hwt_delay_rewrite(hwt_delay *store);
bool hwt_delay_is_moved(const struct hwt_delay_slot *slot);
void hwt_delay_rewrite_undo(hwt_delay *store);
void hwt_delay_rewrite_conclude(hwt_delay *store);
void hwt_delay_dead_begin(hwt_delay *store);
void hwt_delay_dead_conclude(hwt_delay *store);
void hwt_delay_note_erases(hwt_delay *store, uint64_t due, uint64_t count);

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

/* ---- snapshot.c ---- */

int hwt_delay_snapshot_get(hwt_delay *store);
void hwt_delay_snapshot_free(struct hwt_delay_snapshot *snapshot);

/* ---- read.c ---- */

int hwt_delay_checkpoint_read(hwt_delay *store, unsigned char **ret_bytes, uint64_t *ret_size);
bool hwt_delay_checkpoint_fits(const unsigned char *head, uint64_t extent);
struct hwt_delay_log_point hwt_delay_checkpoint_point(const unsigned char *head);

/* ---- publish.c ---- */

int hwt_delay_publish(hwt_delay *store);
int hwt_delay_checkpoint_first(hwt_delay *store);
int hwt_delay_checkpoint_write(hwt_delay *store, const unsigned char *bytes, size_t size);

/* ---- plan.c ---- */

struct hwt_delay_plan {
    struct hwt_delay_part *parts; /* the caller frees them */
    size_t count, room, written;
};

int hwt_delay_plan_write(hwt_delay *store, struct hwt_delay_plan *plan);
void hwt_delay_plan_undo(hwt_delay *store, struct hwt_delay_plan *plan);
void hwt_delay_plan_conclude(hwt_delay *store, const struct hwt_delay_plan *plan);

/* ---- checkpoint.c ---- */

int hwt_delay_checkpoint_make(hwt_delay *store);
void hwt_delay_checkpoint_want(hwt_delay *store);
bool hwt_delay_nothing_is_left(const hwt_delay *store);
bool hwt_delay_log_may_shrink(const hwt_delay *store);
/* Called where the log has grown, or something is done. */
void hwt_delay_checkpoint_look(hwt_delay *store);
void hwt_delay_room_soon(hwt_delay *store);
/* So long nothing is put before the log's disk is given back. */
#define HWT_DELAY_QUIET HWT_SEC(10)
uint64_t hwt_delay_checkpointer(void *store); /* a job */
void hwt_delay_delete_finished(hwt_delay *store);

/* ---- reserve.c ---- */

int hwt_delay_reserve_resize(hwt_delay *store, uint64_t keep, uint64_t size);
bool hwt_delay_reserve_take(hwt_delay *store, uint64_t size);
void hwt_delay_reserve_give_up(hwt_delay *store);
int hwt_delay_overwrite(hwt_delay *store, int file, const void *bytes, size_t size,
                        uint64_t offset);

/* ---- create.c ---- */

int hwt_delay_open_files(hwt_delay *store);
int hwt_delay_store_write(hwt_delay *store);

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
void hwt_delay_encode_handed(struct hwt_delay_key key, uint16_t count, unsigned char *at);
void hwt_delay_handed_snapshot(hwt_delay *store);
void hwt_delay_handed_conclude(hwt_delay *store);
uint16_t hwt_delay_handed_find(const hwt_delay *store, struct hwt_delay_key key);
void hwt_delay_handed_loaded(hwt_delay *store);

/* ---- tickets.c ---- */

/* What a ticket names, as it was found. */
struct hwt_delay_found {
    struct hwt_delay_record *ticket; /* its due time and id */
    struct hwt_delay_record *record; /* NULL: there is none */
    bool in_memory;
    bool watched; /* it is in the store's list, so `touched` is kept */
    bool
        touched; /* memory has had it, or another with the ticket, since: it is to be looked for anew */
    LIST_ENTRY(hwt_delay_found) link;
};

int hwt_delay_ticket_read(const char *ticket, struct hwt_delay_found *ret_found);
bool hwt_delay_ticket_is_of(const struct hwt_delay_record *ticket,
                            const struct hwt_delay_record *record);
void hwt_delay_origin_add(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_origin_remove(hwt_delay *store, struct hwt_delay_record *record);
int hwt_delay_found_look(hwt_delay *store, struct hwt_delay_found *found);
bool hwt_delay_found_holds(hwt_delay *store, const struct hwt_delay_found *found);
bool hwt_delay_found_is_gone(hwt_delay *store, const struct hwt_delay_found *found);
void hwt_delay_found_clear(struct hwt_delay_found *found);
void hwt_delay_found_unwatch(struct hwt_delay_found *found);
/* This goes into the table, or is a drop. */
void hwt_delay_sought_touch(hwt_delay *store, const struct hwt_delay_record *record);

/* ---- visit.c ---- */

/* The newest message with a ticket that is due from one instant to another, if it is newer than *found:
 * it has a reference. Lets go of the lock. */
int hwt_delay_visit_for(hwt_delay *store, uint64_t from, uint64_t to,
                        const struct hwt_delay_record *ticket, struct hwt_delay_record **found);

/* ---- drops.c ---- */

bool hwt_delay_drops_fit(const hwt_delay *store, size_t count);
void hwt_delay_drop(hwt_delay *store, struct hwt_delay_record *drop);
bool hwt_delay_is_dropped(const hwt_delay *store, struct hwt_delay_key key);
bool hwt_delay_slot_is_dropped(const hwt_delay *store, const struct hwt_delay_slot *slot);
void hwt_delay_drops_snapshot(hwt_delay *store);
void hwt_delay_drops_conclude(hwt_delay *store);
void hwt_delay_drops_free(hwt_delay *store);

/* ---- note.c ---- */

void hwt_delay_set_note(hwt_delay *store, struct hwt_delay_record *note);

/* ---- recover.c ---- */

int hwt_delay_recover(hwt_delay *store);
/* Applies a frame of the log that opening has read. */
int hwt_delay_replay(hwt_delay *store, const struct hwt_delay_frame *frame,
                     const unsigned char *records);

/* ---- replay.c ---- */

int hwt_delay_replay_record(hwt_delay *store, struct hwt_delay_record *record);

/* ---- leases.c ---- */

struct hwt_delay_lease *hwt_delay_lease_find(hwt_delay *store, uint64_t token);
void hwt_delay_lease_add(hwt_delay *store, struct hwt_delay_lease *lease,
                         struct hwt_delay_record *record, uint64_t end);
struct hwt_delay_record *hwt_delay_lease_end(hwt_delay *store, struct hwt_delay_lease *lease);
bool hwt_delay_lease_supersede(hwt_delay *store, const struct hwt_delay_record *record);
bool hwt_delay_lease_fits(const hwt_delay *store, const struct hwt_delay_record *record);
void hwt_delay_lease_move(hwt_delay *store, struct hwt_delay_lease *lease, uint64_t end);
void hwt_delay_leases_expire(hwt_delay *store);
RB_PROTOTYPE(hwt_delay_tokens, hwt_delay_lease, by_token, )
RB_PROTOTYPE(hwt_delay_ends, hwt_delay_lease, by_end, )

/* ---- clock.c ---- */

uint64_t hwt_delay_clock(hwt_delay *store); /* realtime; notes leaps */
uint64_t hwt_delay_boottime(const hwt_delay *store);

/* ---- wake.c ---- */

uint64_t hwt_delay_ring(void *store); /* a job */
bool hwt_delay_wake_arm(hwt_delay *store);
void hwt_delay_wake_now(hwt_delay *store);
void hwt_delay_wake_all(hwt_delay *store);
void hwt_delay_trouble(hwt_delay *store, int error);
void hwt_delay_wake_clear(hwt_delay *store);
uint64_t hwt_delay_next_locked(hwt_delay *store);

/* ---- salvage.c ---- */

int hwt_delay_put_slot_aside(hwt_delay *store, const struct hwt_delay_slot *slot, int file,
                             uint64_t offset, uint64_t length);
int hwt_delay_rebuild(hwt_delay *store);
int hwt_delay_gaps_release(hwt_delay *store);

#endif
