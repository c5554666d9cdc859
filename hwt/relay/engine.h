/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_ENGINE_H
#define HWT_RELAY_ENGINE_H

/*
 * The calls that a shard makes to a broker. An engine serves one shard, on one thread. The broker
 * keeps the shard's delay stream, takes what is sent to targets, and has a few named entries that
 * are changed by compare-and-set.
 *
 * A negative errno means that it did not work now. -ETIMEDOUT leaves open whether the broker has
 * done it. An engine never tries again by itself.
 */

#include "hwt/relay/message.h"

struct relay_engine;
struct relay_errors;

/* The broker's answer about the delay stream. Its leader gives it, so `last` covers each message
 * that a producer was told is stored before the call. */
struct relay_extent {
    uint64_t
        incarnation; /* another one, not 0, if the stream was deleted and made anew by a relay */
    uint64_t first;  /* the position of its first message; of the next one, if it is empty */
    uint64_t last;   /* the highest position that it has given; 0: none */
};

/* A message on its way. Only read during the call that it is given to. */
struct relay_outgoing {
    const char *target;
    const char *id; /* the target's stream refuses a second one of the same id for a while */
    const struct relay_field *fields;
    size_t fields_count;
    const void *payload;
    size_t payload_size;
};

/* The answer to a message that was sent. 0: the target has it, or has had it before. */
struct relay_answer {
    uint64_t cookie;
    bool repeated; /* it has had it before, so it has refused this one */
    int result; /* or -ETIMEDOUT, -EMSGSIZE, -EHOSTUNREACH (nobody has that target), -EINVAL, -EACCES,
                      -EIO; -ECANCELED: it was taken back, for no fault of its own */
};

enum { RELAY_ENTRY_MAX = 512 }; /* an entry's text, its final 0 included */
enum { RELAY_FAULT_MAX = 320, RELAY_SERVER_MAX = 128 };

struct relay_engine_calls {
    /*
     * Up to `max` messages behind position `after` that have arrived, in order; 0: none yet. None
     * is left out that the copy has which it reads. They belong to the engine until the next pull.
     * -ESTALE: it begins to read behind that position, so what is there has to be compared with
     * what the caller has read; or the stream is not the one that `extent` has told of last.
     */
    int64_t (*pull)(struct relay_engine *engine, uint64_t after, size_t max,
                    const struct relay_message **ret_messages);
    int (*extent)(struct relay_engine *engine, struct relay_extent *ret_extent);
    /* The first message at a position or behind it, as the stream's leader has it. -ENOENT: there
     * is none. */
    int (*find)(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                uint64_t *ret_timestamp);
    /* Sends without waiting. 0: exactly one answer will have this cookie, unless the engine ends;
     * it may be late, but not for ever. Otherwise nothing was sent. A NULL target is the delay
     * stream itself, and "" are the dead letters. */
    int (*send)(struct relay_engine *engine, const struct relay_outgoing *message, uint64_t cookie);
    size_t (*answers)(struct relay_engine *engine, size_t max, struct relay_answer *ret_answers);
    /* An entry's text and revision; revision 0 and "" if there is none. The leader answers. */
    int (*read)(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                uint64_t *ret_revision);
    /* Changes an entry that has this revision. -EAGAIN: it has another one. */
    int (*swap)(struct relay_engine *engine, const char *name, uint64_t revision, const char *text,
                uint64_t *ret_revision);
    /* When an entry has got this revision, ns since 1970 by the broker's clock. -EAGAIN: it has
     * another one. */
    int (*written)(struct relay_engine *engine, const char *name, uint64_t revision,
                   uint64_t *ret_written);
    /* Deletes the messages of the delay stream below a position. -ESTALE: the stream is not of that
     * incarnation. */
    int (*purge)(struct relay_engine *engine, uint64_t incarnation, uint64_t below);
    /* CLOCK_BOOTTIME in ns. */
    uint64_t (*clock)(struct relay_engine *engine);

    /* ---- For the program; tests have no need of them ---- */

    /* Readable when a pull or answers may bring something new. It is cleared before they are
     * asked. */
    int (*fd)(struct relay_engine *engine);
    void (*clear)(struct relay_engine *engine);
    /* Puts a message into the delay stream, and waits until it is stored there. */
    int (*publish)(struct relay_engine *engine, const struct relay_outgoing *message,
                   uint64_t *ret_position);
    /* The first dead letter at a position of theirs or behind it, whose strings belong to the engine until the next
     * call; and deletes one. -ENOENT: there is none. NULL: the broker keeps them for its consumers. */
    int (*dead)(struct relay_engine *engine, uint64_t from, struct relay_message *ret_message);
    int (*bury)(struct relay_engine *engine, uint64_t position);
    void (*close)(struct relay_engine *engine);
};

/* What the delay stream takes, and so do the dead letters and the server, in bytes. 0: no limit is
 * known. */
struct relay_limits {
    uint64_t message; /* headers and payload */
    uint64_t headers;
};

struct relay_engine {
    const struct relay_engine_calls *calls;
    uint64_t lease; /* for so long the shard's owner may be silent, as the shard knows it; ns */
    struct relay_limits limits; /* as they were when it was opened */
    uint64_t shards;            /* at least so many were at the broker then; 0: not known */
    /* A setting at the broker that loses messages or withholds them, in a sentence; "": none is known. */
    char fault[RELAY_FAULT_MAX];
    /*
     * The messages that are sent become visible with the next change of the shard's entry, all of
     * them or none, in one transaction. So the entry's watermark may count as ended what has been
     * sent and not answered. Answers come when the transaction has ended.
     */
    bool together;
    char server
        [RELAY_SERVER_MAX]; /* that it talks to, or did last, without a password; "": it is not known */

    /* ---- Set by relay_calls_watch() ---- */

    const struct relay_engine_calls *beneath;
    struct relay_engine_calls watched;
    struct relay_errors *errors;
    unsigned shard;
};

#endif
