/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_KAFKA_INSIDE_H
#define HWT_RELAY_KAFKA_INSIDE_H

/*
 *     kafka_connect.c  clients and their properties, names, errors, the table of calls
 *     kafka_check.c    topics and properties by which messages would be lost
 *     kafka_read.c     a reader of one partition
 *     kafka_pull.c     the delay topic's messages, its extent, purge
 *     kafka_message.c  headers and keys, from Kafka's form and back
 *     kafka_entry.c    entries: compacted topics
 *     kafka_writer.c   transactions
 *     kafka_send.c     messages to targets, which go with the shard's entry
 *     kafka_target.c   whether something can go to a topic
 *     kafka_plain.c    what is written without transactions
 *
 * A shard has a partition of the delay topic, one of the entries' topic, which has the shard's own
 * entry alone, and one of the places' topic, which has those of the replicas. An offset plus 1 is a
 * position, or an entry's revision.
 *
 * The shard's entry is changed in a transaction, by a producer whose transactional.id is the
 * shard's. To begin it fences each other producer of that id: what that one has not committed never
 * will be. So after it has begun, it reads the entry; if that has the revision that the caller
 * knows, it stays so until this producer changes it, or is fenced itself, and then its next commit
 * fails. That makes a compare-and-set. Messages to targets are in the same transactions.
 *
 * What is committed is read up to the first transaction that is open. So the entry that is read
 * before the fence may be old, and what an owner has left open may hide the one that it has
 * committed since. Two rules come from that:
 *
 *     The fence first, and then the read: behind the fence nothing of the shard's owners is open. If the end of what
 *     can be read is still before the partition's end, the transaction is somebody else's, and may hide an entry. Then the
 *     replica does not hold the shard, and says so.
 *     Nobody is fenced whose entries arrive: while a transaction is open there, a replica goes by the partition's end,
 *     and fences only when that has stood still for a lease.
 *
 * A replica's own place is not in a transaction, so nobody waits for it, and a replica that dies
 * leaves nothing open. It is read committed or not. To change it is no compare-and-set, because only
 * that replica writes it, and who forgets it; if both do at once, the later one counts.
 *
 * So two owners never have both committed behind one entry, whatever their clocks and pauses:
 *
 *     The new owner's fence waits until a commit of the old one that has begun is at its end on each
 *     partition, markers included, or else takes the old one's transaction back. All that it reads after that
 *     is the last that the old one has committed. If it is not the entry that the new one knows, the new one gives up.
 *     A commit that the old one asks for later is refused, since its epoch is over. The messages in it
 *     are never seen by who reads what is committed, nor are its entry and what it sends to the delay topic.
 *     The old one's answers are then all -ECANCELED, so its store ends nothing.
 *     To take a transaction back the library may ask for a new epoch. The cluster has to refuse that to a producer
 *     that was fenced; and the entry is compared once more all the same.
 *
 * The lease decides merely when another one tries. Without the fence it would be as on NATS: an
 * owner that is paused between its last look and its send may send what the next one sends, too.
 *
 * The library calls back only in calls of the shard's thread, so all of this belongs to it.
 */

#include <librdkafka/rdkafka.h>

#include "hwt/relay/kafka.h"
#include "hwt/relay/shard.h"

enum {
    KAFKA_NAME_MAX = 249, /* of a topic */
    KAFKA_SENDS_MAX = RELAY_FLIGHTS_MAX,
    KAFKA_TARGETS_MAX = 512,
};

#define KAFKA_WAIT_MS 2000 /* for what is asked when the engine is opened */

/* Reads one partition, from one place on. */
struct kafka_reader {
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    char topic[KAFKA_NAME_MAX + 1];
    int32_t partition;
    int64_t next; /* all that can be read before this offset was given out */
    bool at_end;  /* that was the partition's end when it was read last */
    bool reads;   /* from a place that was asked for, and has not failed since */
};

/* An entry of the topic, as the shard knows it. */
struct kafka_entry {
    char *name;
    char text[RELAY_ENTRY_MAX];
    uint64_t revision, written;
};

/* A partition of entries. */
struct kafka_table {
    struct kafka_reader reader;
    struct kafka_entry *entries;
    size_t count;
    int64_t high;     /* the partition's end, before it was read last */
    uint64_t high_at; /* the clock when that was seen first */
};

enum kafka_state {
    KAFKA_IDLE,
    KAFKA_OPEN,    /* a transaction has begun */
    KAFKA_COMMITS, /* it was asked for, and the answer is not known */
    KAFKA_ABORTS,  /* likewise */
};

/* A producer with transactions, for the shard's entry. */
struct kafka_writer {
    rd_kafka_t *rk; /* NULL: none */
    char name[RELAY_ENTRY_MAX];
    bool holds;  /* it has fenced the others, and has not heard that it was fenced */
    bool bumped; /* it may have fenced since it has compared the revision last */
    enum kafka_state state;
    uint64_t revision;   /* the entry's, while it holds */
    uint64_t not_before; /* the clock at which it may fence again */
    int64_t offset;      /* of the entry in this transaction; -1: it is not stored */
    rd_kafka_resp_err_t error,
        entry_error; /* why the transaction has failed, and the entry in it */
};

/* A message in the transaction that is open. */
struct kafka_send {
    uint64_t cookie;
    rd_kafka_resp_err_t error;
    char *topic; /* NULL: no memory */
};

/* A topic where something has failed. */
struct kafka_target {
    char topic[KAFKA_NAME_MAX + 1]; /* "": none */
    int error;
    uint64_t until;   /* the clock at which it may be tried again */
    unsigned doubled; /* how often the time up to there was */
};

/* All that the cluster has. */
struct kafka_topics {
    const struct rd_kafka_metadata *all;
    const rd_kafka_metadata_topic_t **sorted; /* by name; NULL: not known */
    size_t count;
    uint64_t asked_at; /* the clock; 0: the producer was not asked */
};

struct relay_kafka {
    struct relay_engine engine;
    const struct relay_config *config;
    unsigned shard;
    char topic[KAFKA_NAME_MAX + 1], dead[KAFKA_NAME_MAX + 1];
    uint64_t cluster; /* which one it is; the incarnation */
    int event;

    /* Pulls. */
    struct kafka_reader reader, looker; /* the looker reads single messages */
    uint64_t given;                     /* the position given to the shard last */
    uint64_t retry_at;
    rd_kafka_message_t *pulled[RELAY_PULL_MAX];
    void *fields[RELAY_PULL_MAX];
    struct relay_message messages[RELAY_PULL_MAX];
    size_t pulled_count;
    bool warned; /* of the kind of the timestamps */

    /* Looks at the topics' properties. */
    bool check_unknown;
    uint64_t check_at;

    int64_t waits_at;     /* where an open transaction holds up who reads; or -1 */
    uint64_t waits_since; /* the clock when that was seen first */
    bool waits_said;

    /* Entries. */
    struct kafka_table shards, places; /* the first one is read committed */
    bool hides;                        /* it has said that something may be hidden */

    /* What is written without transactions. */
    rd_kafka_t *plain; /* NULL: none */
    int64_t plain_offset;
    rd_kafka_resp_err_t plain_error;

    /* Sends. */
    struct kafka_writer owner;
    struct kafka_send sends[KAFKA_SENDS_MAX];
    size_t sends_count;
    size_t limit; /* messages in a transaction */
    struct relay_answer answers[2 * KAFKA_SENDS_MAX];
    size_t answers_count;
    struct kafka_target targets[KAFKA_TARGETS_MAX];
    struct kafka_topics topics;
};

static inline struct relay_kafka *relay_kafka_of(struct relay_engine *engine)
{
    return (struct relay_kafka *)engine; /* its first field */
}

/* ---- kafka_connect.c ---- */

uint64_t relay_kafka_clock(struct relay_engine *engine);
void relay_kafka_signal(struct relay_kafka *kafka);
/* A negative errno for what the library says. */
int relay_kafka_errno(rd_kafka_resp_err_t error);
/* A client with properties, in pairs of name and value, NULL at the end, and those of the
 * configuration, which count more. NULL: it cannot be had, which was logged. */
rd_kafka_t *relay_kafka_client(struct relay_kafka *kafka, rd_kafka_type_t type,
                               const char *const *properties);
/* Asks the cluster for a topic, so that the client knows it. A negative errno was logged:
 * -EHOSTUNREACH: there is none of so many partitions. */
int relay_kafka_topic(struct relay_kafka *kafka, rd_kafka_t *rk, const char *topic, int partitions);
/* How long a call may wait, in ms, so that a lease is not over meanwhile. */
int relay_kafka_patience(const struct relay_kafka *kafka);
/* Likewise for a broker's answer to who reads, of which an owner may miss one. */
int relay_kafka_wait_ms(const struct relay_kafka *kafka);

/* ---- kafka_check.c ---- */

/* Looks at the topics, once a minute, and sets the engine's fault. */
void relay_kafka_check(struct relay_kafka *kafka);
/* Whether it is a property of the library that a configuration cannot set. */
bool relay_kafka_is_own(const char *property);

/* ---- kafka_read.c ---- */

enum kafka_use {
    KAFKA_SIGNALS, /* it reads on all the while; others are stopped when their callers have what they want */
    KAFKA_LOOKS,
    KAFKA_LOOKS_AT_ALL, /* what is not committed, too */
};
int relay_kafka_reader_open(struct relay_kafka *kafka, struct kafka_reader *reader,
                            const char *topic, enum kafka_use use);
void relay_kafka_reader_close(struct kafka_reader *reader);
/* From now on it reads from that offset. */
int relay_kafka_reader_seek(struct relay_kafka *kafka, struct kafka_reader *reader, int64_t offset);
/* It fetches nothing more, until it seeks. */
void relay_kafka_reader_stop(struct kafka_reader *reader);
/* Up to `max` messages that have arrived, or arrive within a time. The caller destroys them. */
size_t relay_kafka_reader_take(struct relay_kafka *kafka, struct kafka_reader *reader, int wait_ms,
                               size_t max, rd_kafka_message_t **ret_messages);
/* As the partition's leader says: its first offset; the one behind its last message that can be read;
 * and the one behind its last message. */
int relay_kafka_reader_first(struct relay_kafka *kafka, const struct kafka_reader *reader,
                             int64_t *ret_first);
int relay_kafka_reader_end(struct relay_kafka *kafka, const struct kafka_reader *reader,
                           int64_t *ret_end);
int relay_kafka_reader_high(struct relay_kafka *kafka, const struct kafka_reader *reader,
                            int64_t *ret_high);
/* The timestamp of a message in ns, which differs for each message of a millisecond. */
uint64_t relay_kafka_stamp_of(const rd_kafka_message_t *message);

/* ---- kafka_pull.c ---- */

void relay_kafka_pull_end(struct relay_kafka *kafka);
int64_t relay_kafka_pull(struct relay_engine *engine, uint64_t after, size_t max,
                         const struct relay_message **ret_messages);
int relay_kafka_extent(struct relay_engine *engine, struct relay_extent *ret_extent);
int relay_kafka_find(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                     uint64_t *ret_timestamp);
int relay_kafka_purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below);

/* ---- kafka_message.c ---- */

/* Fields of a message, as the shard has them; the caller frees *ret_fields. -ENOMEM */
int relay_kafka_fields_read(const rd_kafka_message_t *from, struct relay_message *message,
                            void **ret_fields);
/* Gives a message to a producer, with one header more unless its value is NULL. `cookie` comes with
 * its report. */
rd_kafka_resp_err_t relay_kafka_produce(rd_kafka_t *rk, const char *topic, int32_t partition,
                                        const struct relay_outgoing *message, const char *id,
                                        uintptr_t cookie);

/* ---- kafka_entry.c ---- */

void relay_kafka_entries_end(struct kafka_table *table);
/* Reads up to the end of what can be read now. */
int relay_kafka_entries_read(struct relay_kafka *kafka, struct kafka_table *table);
/* Reads, and compares the revision: -EAGAIN: it is another one. */
int relay_kafka_entry_compare(struct relay_kafka *kafka, struct kafka_table *table,
                              const char *name, uint64_t revision);
/* Whether a transaction may hide an entry of before the last read. */
bool relay_kafka_entries_hide(const struct kafka_table *table);
int relay_kafka_read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                     uint64_t *ret_revision);
int relay_kafka_written(struct relay_engine *engine, const char *name, uint64_t revision,
                        uint64_t *ret_written);

/* ---- kafka_writer.c ---- */

/* Fences others, if it does not hold yet, and compares the revision: -EAGAIN: it is another one. */
int relay_kafka_writer_hold(struct relay_kafka *kafka, struct kafka_writer *writer,
                            const char *name, uint64_t revision);
/* Unless a transaction is open already. -ECANCELED: the producer is ended. */
int relay_kafka_writer_begin(struct relay_kafka *kafka, struct kafka_writer *writer);
/* Puts the entry into the transaction, and commits. -ECANCELED: nothing was done, by writer->error;
 * -ETIMEDOUT: it is not known yet. */
int relay_kafka_writer_commit(struct relay_kafka *kafka, struct kafka_writer *writer,
                              const char *text);
/* For one that is not known: as above. */
int relay_kafka_writer_settle(struct relay_kafka *kafka, struct kafka_writer *writer);
/* Likewise, to take it back. */
int relay_kafka_writer_abort(struct relay_kafka *kafka, struct kafka_writer *writer);
void relay_kafka_writer_end(struct kafka_writer *writer);

/* ---- kafka_send.c ---- */

void relay_kafka_delivered(struct relay_kafka *kafka, const rd_kafka_t *rk, uintptr_t number,
                           const rd_kafka_message_t *message);
int relay_kafka_send(struct relay_engine *engine, const struct relay_outgoing *message,
                     uint64_t cookie);
size_t relay_kafka_answers(struct relay_engine *engine, size_t max,
                           struct relay_answer *ret_answers);
int relay_kafka_swap(struct relay_engine *engine, const char *name, uint64_t revision,
                     const char *text, uint64_t *ret_revision);

/* ---- kafka_target.c ---- */

void relay_kafka_targets_end(struct relay_kafka *kafka);
/* 0, or why what is for a topic fails now; -EAGAIN: it is not known. */
int relay_kafka_target_look(struct relay_kafka *kafka, const char *topic);
void relay_kafka_target_failed(struct relay_kafka *kafka, const char *topic, int error);
void relay_kafka_target_took(struct relay_kafka *kafka, const char *topic);

/* ---- kafka_plain.c ---- */

void relay_kafka_plain_end(struct relay_kafka *kafka);
/* Changes the entry of a replica. */
int relay_kafka_place_swap(struct relay_kafka *kafka, const char *name, uint64_t revision,
                           const char *text, uint64_t *ret_revision);
int relay_kafka_publish(struct relay_engine *engine, const struct relay_outgoing *message,
                        uint64_t *ret_position);

#endif
