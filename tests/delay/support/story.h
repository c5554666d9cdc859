/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_STORY_H
#define HWT_TESTS_DELAY_SUPPORT_STORY_H

/*
 * What the threads of a schedule call, and what must be there after it: each message by its number,
 * whether it is pending, and what a call that is under way will make of it. A call that has
 * returned counts; one that has not may count as a whole or not at all; a message that was handed
 * over counts, whatever its put says.
 */

#include "tests/delay/support/held.h"

/* Two seconds after the beginning of a slot of what is overdue. */
#define STORY_NOW (UINT64_C(209547580) * (UINT64_C(1) << 33) + HWT_SEC(2))

/* Messages by number. In each group the first half is in slots when the store is opened, the rest is
 * in the log alone. */
enum {
    EACH = 30,
    HELD = 0,   /* leased from the beginning */
    DUE = EACH, /* due */
    SOON = 2 * EACH,
    FAR = 3 * EACH,
    NEW = 4 * EACH,     /* due, and not there in the beginning */
    RETRIED = 5 * EACH, /* HELD + i, put back for later */
    BULK = 6 * EACH,    /* due, and more than may stay in memory, in some stories */
    MESSAGES = BULK + 30,
    STORY_NOTED = FAR + EACH / 2 + 3 /* put with a note, which nobody else puts */
};

/* What a call makes of a message. */
struct change {
    uint64_t ticket; /* calls of one message have theirs in their order; 0: there is none */
    bool pending;
    uint32_t version; /* of the payload */
    uint32_t other;   /* the call changes this one too, or none; its own number: no other */
};

struct message {
    uint64_t due;
    uint32_t size;
    struct change is; /* what counts, whatever happens */
    uint64_t since;   /* it counts, by tickets: a call that begins behind that has to see it */
    struct change maybe[3]; /* calls that are under way, by player */
    uint32_t versions;      /* so many were put */
    uint64_t lease;         /* 0: it is not leased */
    uint32_t leased_version;
};

struct story {
    hwt_delay_options options;
    bool bulk;
    struct disk *disk;
    struct process process;
    hwt_delay *store;
    struct message messages[MESSAGES];
    pthread_mutex_t lock; /* of the messages */
    struct player players[3];
    unsigned count; /* of players */
    uint64_t random, images, tickets;
};

extern struct story story;

enum operation {
    CHECKPOINT,
    PUT,
    PUT_AGAIN,      /* what the log alone has */
    PUT_AGAIN_SLOT, /* what a slot has that was not read */
    PUT_AGAIN_LEASED,
    PUT_MUCH, /* more than the log has room for */
    PUT_AND_CANCEL,
    PUT_AGAIN_AND_CANCEL, /* what is due */
    PUT_SAME,             /* what the first player puts, too */
    CANCEL_SAME,          /* the same */
    CANCEL_DUE,
    CANCEL_SLOT,
    CANCEL_FAR,
    CANCEL_AND_PUT,
    REPLACE,
    APPLY, /* several changes, and a note */
    DROP,
    TAKE,
    TAKE_AND_DO,
    TAKE_AND_END, /* its lease */
    DONE,
    DONE_FRESH,
    RETRY,
    RETRY_FRESH,
    END_LEASE,
    END_LEASE_FRESH,
    LOAD,
    LOAD_AND_DO,
    LIST,
    CHECK,
    OPERATIONS
};

extern const char *const operation_names[OPERATIONS];

/* A disk with the story's first half. */
struct disk *story_prepare(bool bulk);
/* Opens it, and takes what is HELD. */
void story_begin(const struct disk *base, bool bulk, bool alone);
/* The part of a player. */
void story_call(struct player *player);
/* One call, with the messages of player n; it has to succeed. */
void story_do(enum operation operation, unsigned n);
/* A call is under way, and may count: it makes that of the message. Later: it has returned. */
void story_will(unsigned n, uint32_t number, bool pending, uint32_t version, uint32_t other);
void story_did(unsigned n, uint32_t number, bool it);
hwt_delay_stats story_stats(void);
/* The process ends, the power goes, and it is opened anew by one thread; compares. */
void story_restart(void);
/* What crashes now would leave is looked at, `count` times. */
void story_crash(unsigned count);
/* Everything that is left comes once: now, or after another checkpoint, or after that and a crash.
 * Then there is nothing. */
void story_end(void);

#endif
