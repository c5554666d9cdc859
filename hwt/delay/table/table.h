/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_DELAY_TABLE_TABLE_H
#define HWT_DELAY_TABLE_TABLE_H

/*
 * The table is what is in memory.
 *
 * The table holds records: messages (puts) and tombstones, by key = (due, sequence) and by identity
 * = (due, id). An identity has one record at most. A leased record is found by its identity, too,
 * until something newer supersedes it. The table is complete below `loaded`, which means that all
 * that is pending with a lower key is in the table or leased. At or above `loaded`, more may be in
 * slots. Loading (load.c) moves `loaded` up; eviction (also there) moves it down.
 *
 * A record is FRESH while it is in the log alone, FLUSHING while a checkpoint writes it to its
 * slot, and FILED when the checkpoint is on the disk. A FILED record stays in the table below
 * `loaded` only. A LEASED one is out of the table, and whole in each checkpoint.
 *
 * Of all records with one identity that one counts which has the highest sequence; a tombstone wins
 * against a put of the same sequence. So a message in a slot that nobody can see from memory is
 * cancelled or replaced by a record with the same due time, which is read together with it.
 *
 * All that has a lower key than a slot's position in this slot has been dealt with, that is handed
 * over, replaced or erased. Messages leave the table in the order of their keys, so the lowest key
 * left, or `loaded`, is the position of all slots that are there at this moment
 * (hwt_delay_positions_follow()). A message that is put later with a lower key gets into another
 * slot, whose position begins at 0, because a slot that begins below `loaded` is sealed. See
 * position.c.
 *
 * A gap is a stretch of time of which something cannot be read. Messages due in it stay where they
 * are, in slots, in the table and in the log, and nobody is handed it. See gaps.c.
 */

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay.h"
#include "hwt/delay/disk/format.h"
#include "hwt/delay/table/map.h"

struct hwt_delay_reader;

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
    struct hwt_delay_node node; /* while its record is the newest with its ticket; see origins.c */
    RB_HEAD(hwt_delay_older, hwt_delay_origin) older; /* those of the others, then */
    RB_ENTRY(hwt_delay_origin) by_sequence;           /* while it is one of these */
    struct hwt_delay_record *record;
    uint64_t due;
};

struct hwt_delay_record {
    RB_ENTRY(hwt_delay_record) by_key; /* of the table, or of what is leased */
    struct hwt_delay_node by_identity; /* in the table, or leased */
    union {
        TAILQ_ENTRY(hwt_delay_record) fresh_link; /* while FRESH */
        size_t collected;                         /* while FLUSHING: where a snapshot has it */
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
    bool ends; /* a message that was pending ended with it; see filed.c */
    union {
        bool shadows;  /* below `loaded`: a slot may have an older one with this identity */
        bool replaced; /* while gathered: a later one replaces or erases it */
    };
    bool twice;  /* while gathered: another slot has it, too */
    bool needed; /* while gathered: see hwt_delay_gathered_mark(); of a drop: a slot may need it */
    bool moved;  /* out of a slot, by a checkpoint */
    unsigned char bytes[]; /* id, payload */
};

RB_HEAD(hwt_delay_keys, hwt_delay_record);
TAILQ_HEAD(hwt_delay_fresh, hwt_delay_record);

/* A part that cannot be read is due in it. See gaps.c. */
struct hwt_delay_gap {
    struct hwt_delay_key from, to;
};

enum { HWT_DELAY_GAPS_MAX = 64 };

struct hwt_delay_gaps {
    struct hwt_delay_gap all[HWT_DELAY_GAPS_MAX + 1]; /* they do not touch each other */
    size_t count;
};

struct hwt_delay_lease {
    struct hwt_delay_node by_token;
    TAILQ_ENTRY(hwt_delay_lease) link;
    RB_ENTRY(hwt_delay_lease) by_end;
    uint64_t token;
    uint64_t end;    /* by the boottime clock */
    bool superseded; /* something newer was put in its place */
    bool ending;     /* a step that has been judged ends it; see steps.c */
    struct hwt_delay_record *record;
};

TAILQ_HEAD(hwt_delay_leases, hwt_delay_lease);
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

LIST_HEAD(hwt_delay_sought, hwt_delay_found); /* see tickets.c */

enum { HWT_DELAY_DROPS_MAX = 64 };

/* See drops.c. */
struct hwt_delay_drops {
    struct hwt_delay_record *all[HWT_DELAY_DROPS_MAX]; /* none covers another */
    size_t count;
};

/* The message that a ticket names, as it was found. */
struct hwt_delay_found {
    struct hwt_delay_record *ticket; /* its due time and id */
    struct hwt_delay_record *record; /* NULL: there is none */
    bool in_memory;
    bool watched; /* it is in the store's list, so `touched` is kept */
    bool
        touched; /* memory has had it, or another with the ticket, since: it is to be looked for anew */
    LIST_ENTRY(hwt_delay_found) link;
};

struct hwt_delay_table {
    struct hwt_delay_keys keys;
    struct hwt_delay_map identities; /* of what is in the table, or leased and not superseded */
    struct hwt_delay_map origins;
    struct hwt_delay_fresh fresh;
    size_t fresh_count;
    struct hwt_delay_record **collected; /* FLUSHING, before the instant; see snapshot.c */
    uint64_t bytes[HWT_DELAY_STATES];    /* of the records in each state */
    uint64_t messages[HWT_DELAY_STATES]; /* the same; that of HWT_DELAY_NOWHERE says nothing */
    struct hwt_delay_filed filed;        /* messages that slots have */
    struct hwt_delay_key loaded;         /* the table is complete below */
    struct hwt_delay_gaps gaps;
    bool gap_is_new;               /* no take has told of it */
    struct hwt_delay_record *note; /* the program's, or NULL */
    struct hwt_delay_drops drops;
    struct hwt_delay_sought sought; /* what was found by its ticket, or is looked for */

    struct hwt_delay_map tokens;
    struct hwt_delay_leases leases; /* in the order in which they were given */
    struct hwt_delay_keys leased;   /* records that are leased and not superseded */
    struct hwt_delay_ends ends;
    uint64_t leased_count;
    uint64_t superseded; /* of them */
    uint64_t next_token;
};

/* ---- table.c ---- */

struct hwt_delay_record *hwt_delay_record_new(uint8_t kind, const hwt_delay_message *message);
/* Its id and payload are the record's own bytes. Without its lease, and how often one has ended, which
 * may change once the lock is let go. */
hwt_delay_message hwt_delay_message_of(const struct hwt_delay_record *record);
/* In memory: a record, and a tombstone of it. */
size_t hwt_delay_record_bytes(const struct hwt_delay_record *record);
size_t hwt_delay_tombstone_bytes(const struct hwt_delay_record *record);
void hwt_delay_record_unref(struct hwt_delay_record *record);
int hwt_delay_identity_compare(const struct hwt_delay_record *a, const struct hwt_delay_record *b);
RB_PROTOTYPE(hwt_delay_keys, hwt_delay_record, by_key, )

/* In a map of records by identity, the one with that of a record; NULL: there is none. */
struct hwt_delay_record *hwt_delay_find(const struct hwt_delay_map *map,
                                        const struct hwt_delay_record *like);
/* Puts a record in the place of the one with its identity, and returns that; NULL: none. */
struct hwt_delay_record *hwt_delay_supplant(struct hwt_delay_map *map,
                                            struct hwt_delay_record *record);
void hwt_delay_insert(hwt_delay *store, struct hwt_delay_record *record,
                      enum hwt_delay_state state);
void hwt_delay_remove(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_set_state(hwt_delay *store, struct hwt_delay_record *record,
                         enum hwt_delay_state state);
bool hwt_delay_ends_one(hwt_delay *store, const struct hwt_delay_record *record);
void hwt_delay_apply_put(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_apply_tombstone(hwt_delay *store, struct hwt_delay_record *tombstone);
/* Hints that its identity is to be looked up or put in: the first for some records, and then the
 * second for each, a little ahead. */
void hwt_delay_prefetch_buckets(const hwt_delay *store, const struct hwt_delay_record *record);
void hwt_delay_prefetch_nodes(const hwt_delay *store, const struct hwt_delay_record *record);
/* The lowest record in the table, or of those that are leased, that is at or above a key. */
struct hwt_delay_record *hwt_delay_from(hwt_delay *store, struct hwt_delay_key key);
struct hwt_delay_record *hwt_delay_leased_from(hwt_delay *store, struct hwt_delay_key key);

/* ---- memory.c ---- */

void hwt_delay_table_init(hwt_delay *store);
void hwt_delay_table_forget(hwt_delay *store);
/* The record that counts for an identity: it is in the table, or LEASED. NULL: there is none. */
struct hwt_delay_record *hwt_delay_lookup(const hwt_delay *store,
                                          const struct hwt_delay_record *like);
/* By key; NULL: there is none. */
struct hwt_delay_record *hwt_delay_lowest(const hwt_delay *store);
struct hwt_delay_record *hwt_delay_highest(const hwt_delay *store);
struct hwt_delay_record *hwt_delay_lower(struct hwt_delay_record *record);
/* The one that has been FRESH for longest. */
struct hwt_delay_record *hwt_delay_fresh_first(const hwt_delay *store);
size_t hwt_delay_fresh_count(const hwt_delay *store);
/* Until another call, one of these that is not FLUSHING any more becomes NULL, and its reference
 * goes. */
void hwt_delay_set_collected(hwt_delay *store, struct hwt_delay_record **records);
struct hwt_delay_key hwt_delay_loaded(const hwt_delay *store);
void hwt_delay_set_loaded(hwt_delay *store, struct hwt_delay_key loaded);
uint64_t hwt_delay_bytes_in(const hwt_delay *store, enum hwt_delay_state state);
/* Of records that no snapshot has, or none that has come to its instant. */
uint64_t hwt_delay_new_bytes(const hwt_delay *store);
uint64_t hwt_delay_memory(const hwt_delay *store);  /* in bytes */
uint64_t hwt_delay_pending(const hwt_delay *store); /* messages */

/* ---- filed.c ---- */

void hwt_delay_filed_init(struct hwt_delay_filed *filed);
void hwt_delay_filed_add(struct hwt_delay_filed *filed, uint64_t due, uint64_t count);
bool hwt_delay_filed_may_have(const struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_end(struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_know(struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_forget(struct hwt_delay_filed *filed, uint64_t due);
void hwt_delay_filed_settle(hwt_delay *store, uint64_t until);
void hwt_delay_filed_encode(const struct hwt_delay_filed *filed, unsigned char *at);
int hwt_delay_filed_decode(struct hwt_delay_filed *filed, const unsigned char *at, uint32_t count,
                           uint32_t shift);
struct hwt_delay_filed *hwt_delay_filed_of(hwt_delay *store);
void hwt_delay_filed_mark(const hwt_delay *store, uint64_t start, struct hwt_delay_key end,
                          bool left[HWT_DELAY_SPANS_MAX]);
void hwt_delay_filed_settle_dropped(hwt_delay *store, const bool left[HWT_DELAY_SPANS_MAX]);

/* ---- record.c ---- */

/* A record as it stands there. */
struct hwt_delay_packed {
    uint8_t kind, flags, id_size;
    uint16_t retries, handed;
    uint32_t payload_size;
    struct hwt_delay_key key;
    uint64_t origin;         /* 0: none */
    const unsigned char *id; /* in the hwt_delay_before with which it was read */
    const unsigned char *payload;
};

/* So many bytes it takes at most, whatever is before it; and a tombstone of it. */
size_t hwt_delay_encoded_most(const struct hwt_delay_record *record);
static inline size_t hwt_delay_tombstone_most(const struct hwt_delay_record *record)
{
    return HWT_DELAY_RECORD_HEAD_MAX + (size_t)record->id_size;
}
/* About so many. */
static inline size_t hwt_delay_encoded_about(const struct hwt_delay_record *record)
{
    return HWT_DELAY_RECORD_LEAST + 4 + (size_t)record->id_size + record->payload_size;
}
/* Both return what is behind it. */
unsigned char *hwt_delay_encode(struct hwt_delay_before *before,
                                const struct hwt_delay_record *record, unsigned char *at);
/* Encodes the record that ends a message, up to the message's own sequence. */
unsigned char *hwt_delay_encode_tombstone(struct hwt_delay_before *before,
                                          const struct hwt_delay_record *message, bool ends,
                                          unsigned char *at);
/* Is it of a kind that slots have? */
static inline bool hwt_delay_is_of_slot(uint8_t kind)
{
    return kind == HWT_DELAY_PUT || kind == HWT_DELAY_TOMBSTONE;
}
/* Reads one at *at, which it moves on; -EBADMSG; -ENOTSUP: a later release wrote it. */
int hwt_delay_unpack(struct hwt_delay_before *before, const unsigned char **at,
                     const unsigned char *end, struct hwt_delay_packed *ret_packed);
/* NULL: there is no memory. */
struct hwt_delay_record *hwt_delay_record_of(const struct hwt_delay_packed *packed);
/* Both in one; -ENOMEM; -EBADMSG, too, for the mark of a close. */
int hwt_delay_decode(struct hwt_delay_before *before, const unsigned char **at,
                     const unsigned char *end, struct hwt_delay_record **ret_record);

/* ---- gaps.c ---- */

const struct hwt_delay_gap *hwt_delay_gap_at(const hwt_delay *store, struct hwt_delay_key key);
bool hwt_delay_gap_add(struct hwt_delay_gaps *gaps, struct hwt_delay_gap gap);
struct hwt_delay_record *hwt_delay_first(hwt_delay *store);
const struct hwt_delay_gaps *hwt_delay_gaps_of(const hwt_delay *store);
bool hwt_delay_gap_found(hwt_delay *store, struct hwt_delay_gap gap);
bool hwt_delay_gap_is_new(const hwt_delay *store);
void hwt_delay_gap_told(hwt_delay *store);
void hwt_delay_gap_release(hwt_delay *store, struct hwt_delay_key to);

/* ---- drops.c ---- */

bool hwt_delay_drops_fit(const hwt_delay *store, size_t count);
bool hwt_delay_is_dropped(const hwt_delay *store, struct hwt_delay_key key);
void hwt_delay_drops_conclude(hwt_delay *store);
void hwt_delay_drops_free(hwt_delay *store);
void hwt_delay_drops_add(hwt_delay *store, struct hwt_delay_record *drop);
const struct hwt_delay_drops *hwt_delay_drops_of(const hwt_delay *store);

/* ---- note.c ---- */

void hwt_delay_set_note(hwt_delay *store, struct hwt_delay_record *note);
struct hwt_delay_record *hwt_delay_note_of(const hwt_delay *store);

/* ---- leases.c ---- */

void hwt_delay_leases_begin(hwt_delay *store);
struct hwt_delay_lease *hwt_delay_lease_find(const hwt_delay *store, uint64_t token);
void hwt_delay_lease_add(hwt_delay *store, struct hwt_delay_lease *lease,
                         struct hwt_delay_record *record, uint64_t end);
struct hwt_delay_record *hwt_delay_lease_end(hwt_delay *store, struct hwt_delay_lease *lease);
void hwt_delay_lease_prefetch(const struct hwt_delay_lease *lease);
void hwt_delay_lease_supersede(hwt_delay *store, struct hwt_delay_record *record);
bool hwt_delay_lease_fits(const hwt_delay *store, const struct hwt_delay_record *record);
void hwt_delay_lease_move(hwt_delay *store, struct hwt_delay_lease *lease, uint64_t end);
bool hwt_delay_leases_expire_some(hwt_delay *store);
void hwt_delay_leases_expire(hwt_delay *store);
RB_PROTOTYPE(hwt_delay_ends, hwt_delay_lease, by_end, )
uint64_t hwt_delay_leased_count(const hwt_delay *store);
struct hwt_delay_lease *hwt_delay_lease_first(const hwt_delay *store);
struct hwt_delay_lease *hwt_delay_lease_next(struct hwt_delay_lease *lease);
uint64_t hwt_delay_lease_first_end(const hwt_delay *store);
#define HWT_DELAY_FOREACH_LEASE(lease, store)                                                      \
    for ((lease) = hwt_delay_lease_first(store); lease; (lease) = hwt_delay_lease_next(lease))
/* So much may be leased at a time, in memory; in a checkpoint it is less. */
uint64_t hwt_delay_leased_bytes_max(const hwt_delay *store);

/* ---- origins.c ---- */

RB_PROTOTYPE(hwt_delay_older, hwt_delay_origin, by_sequence, )
bool hwt_delay_ticket_is_of(const struct hwt_delay_record *ticket,
                            const struct hwt_delay_record *record);
void hwt_delay_origin_add(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_origin_remove(hwt_delay *store, struct hwt_delay_record *record);
void hwt_delay_found_unwatch(struct hwt_delay_found *found);
/* This goes into the table, or is a drop. */
void hwt_delay_sought_touch(hwt_delay *store, const struct hwt_delay_record *record);
void hwt_delay_found_watch(hwt_delay *store, struct hwt_delay_found *found);
/* The newest message with a ticket, in the table or leased; or NULL. */
struct hwt_delay_record *hwt_delay_find_ticket(const hwt_delay *store,
                                               const struct hwt_delay_record *ticket);
/* The table, or a lease, has this record or a newer one with its identity. */
bool hwt_delay_has_newer(const hwt_delay *store, const struct hwt_delay_record *record);

#endif
