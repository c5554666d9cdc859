/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_WORKER_H
#define HWT_RELAY_WORKER_H

/*
 * A shard's thread, which opens the store and the engine, drives the shard, and begins again when it is over. Who has
 * begun it tells it news by relay_worker_tell(), and any thread may look at it.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "hwt/relay/program/calls.h"
#include "hwt/relay/shard.h"

/* What the threads have in common. */
struct relay_process {
    _Atomic(const struct relay_config *) config; /* what it points to stays until all have ended */
    atomic_bool ends;                            /* all are to drain */
    atomic_bool failed; /* one has ended by an error; read after all have */
};

struct relay_worker {
    struct relay_process *process;
    const struct relay_config
        *config; /* as the shard has it; the thread writes it under the lock */
    unsigned number;
    int news; /* an eventfd: `config` or `ends` has changed */
    uint64_t life;
    hwt_delay *store;
    struct relay_engine *engine;
    struct relay_errors errors;
    /* CLOCK_BOOTTIME of the last turn of its loop, in ns. 0: it has none now, because the store is being opened or
     * closed, or it has ended. It stands for itself, so relaxed order is enough. */
    atomic_uint_least64_t turned;
    pthread_mutex_t
        lock; /* while `begun` or `shard` is set, or the shard is looked at by another thread */
    bool begun;
    struct relay_shard *shard;
    bool ends; /* it has seen that of the process */
    pthread_t thread;
};

/* 0; or a negative errno. */
int relay_worker_init(struct relay_worker *worker, struct relay_process *process, unsigned number,
                      uint64_t life);
int relay_worker_begin(struct relay_worker *worker);
void relay_worker_tell(struct relay_worker *worker);
/* Waits for its end, if it was begun. */
void relay_worker_end(struct relay_worker *worker);

/* For how long its loop has not turned, in ns. It turns once in ten seconds at least, unless a call of the broker takes
 * longer. */
uint64_t relay_worker_still(const struct relay_worker *worker);
/* Under the lock. */
enum relay_unready relay_worker_unready(const struct relay_worker *worker);

#endif
