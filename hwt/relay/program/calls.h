/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_CALLS_H
#define HWT_RELAY_CALLS_H

/*
 * What a broker refuses, by the call. An engine that is watched does the same as before. Each call that fails is
 * counted; when a call begins to fail it is logged, with what it says and the server, and when it goes again, too.
 *
 * The shard's thread writes the numbers, and any thread may read them, see counts.h.
 */

#include "hwt/relay/counts.h"
#include "hwt/relay/engine.h"

enum relay_call {
    RELAY_CALL_OPEN,
    RELAY_CALL_EXTENT,
    RELAY_CALL_FIND,
    RELAY_CALL_PULL,
    RELAY_CALL_SEND,
    RELAY_CALL_READ,
    RELAY_CALL_SWAP,
    RELAY_CALL_WRITTEN,
    RELAY_CALL_PURGE,
    RELAY_CALLS,
};

extern const char *const relay_call_names[RELAY_CALLS];

struct relay_errors {
    atomic_uint_least64_t count[RELAY_CALLS];
    atomic_uint_least64_t fails; /* a bit for each call that has failed last */
    /* The thread's own: when it was logged last that a call fails, by the engine's clock; and whether its end is to be
     * logged, too. */
    uint64_t said_at[RELAY_CALLS];
    bool said[RELAY_CALLS];
};

/* The engine is watched until it is closed. The caller keeps `errors` for as long. */
void relay_calls_watch(struct relay_engine *engine, unsigned shard, struct relay_errors *errors);

/* An engine was opened, or could not be, which has logged itself. */
void relay_calls_opened(struct relay_errors *errors, int result);

/* Whether the broker fails in what a shard cannot do without. */
bool relay_calls_fail(const struct relay_errors *errors);

#endif
