/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_ORACLE_H
#define HWT_TESTS_DELAY_SUPPORT_ORACLE_H

/*
 * What a store must have and do, in the dullest way: a sorted array of messages. Ids are small
 * numbers and payloads are drawn from a number, so that a message is a few words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hwt/delay.h"

enum { ORACLE_IDS = 24, ORACLE_PAYLOAD_MAX = 8192 };

struct message {
    uint64_t due;
    unsigned id;    /* below ORACLE_IDS */
    uint64_t value; /* of the payload */
    uint32_t size;
    uint64_t first; /* the due time of its first put; 0: oracle_put() sets it */
    uint64_t order; /* of the put */
    uint32_t retries, expired, deliveries;
    uint64_t lease; /* 0: it is not leased */
    uint64_t lease_end;
    bool superseded; /* something was put in its place while it was leased */
};

struct oracle {
    struct message *list; /* by due time, then order */
    size_t count, room;
    uint64_t next_order;
    uint64_t note; /* its bytes are those of a payload with this value */
    uint32_t note_size;
    uint64_t mark; /* of the note; 0: not known */
    /* The number pending may be wrong by so much: messages that were put over others, and cancels of what
     * was not there, where a store cannot know that without reading a slot; and drops. */
    uint64_t doubt;
};

/* So many are pending: all that are not superseded. */
uint64_t oracle_pending(const struct oracle *oracle);
/* Is that the number, but for what is in doubt? */
bool oracle_may_be(const struct oracle *oracle, uint64_t pending, uint64_t found);

/* The bytes of an id; returns how many. Of a payload; `bytes` has room for its size. */
size_t id_bytes(unsigned id, unsigned char bytes[HWT_DELAY_ID_MAX]);
void payload_bytes(uint64_t value, uint32_t size, unsigned char *bytes);

/* Whether a message of a store is that one: due times, id, payload and retries. */
bool message_is(const hwt_delay_message *message, const struct message *expected);

void oracle_copy(struct oracle *to, const struct oracle *from);
void oracle_free(struct oracle *oracle);

/* The one with that identity that is not superseded, or NULL. */
struct message *oracle_find(struct oracle *oracle, uint64_t due, unsigned id);
struct message *oracle_leased(struct oracle *oracle, uint64_t lease);
void oracle_put(struct oracle *oracle, const struct message *message);
void oracle_remove(struct oracle *oracle, struct message *message);
/* Leases that have ended by this instant. */
void oracle_expire(struct oracle *oracle, uint64_t boottime);
/* The process ended: no leases. */
void oracle_restart(struct oracle *oracle);
/* The first from index `at` on that is due and not leased; `count` if there is none. */
size_t oracle_due(const struct oracle *oracle, size_t at, uint64_t now);

/*
 * A listing that is compared while it comes. It has to be that of `before` or that of `after`;
 * with `partly`, of `before` without any of those that are not in `after`.
 */
struct listing {
    const struct oracle *before, *after;
    bool partly;
    bool taking;  /* one more delivery may be counted than there are */
    bool counted; /* deliveries are as often as they were; else at most so often */
    size_t at_before, at_after;
    bool fits_before, fits_after;
    struct oracle found; /* what was listed */
    char wrong[400];     /* where the last of them stopped to fit */
};

void listing_begin(struct listing *listing, const struct oracle *before, const struct oracle *after,
                   bool partly);
void listing_next(struct listing *listing, const hwt_delay_message *message);
/* The note that is there: it has to be that of the list. */
void listing_note(struct listing *listing, hwt_delay *store);
/* True: it fits; *ret, if not NULL, becomes what was listed. */
bool listing_end(struct listing *listing, struct oracle *ret);

#endif
