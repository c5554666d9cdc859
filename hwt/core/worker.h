/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_WORKER_H
#define HWT_WORKER_H

/*
 * The worker: the one thread that owns the wheel, be it the timer's own or the one that calls
 * hwt_timer_advance() and its like. Only it touches what is in here.
 *
 * What is filed is a hint, as records are: when its tick comes the worker looks at the entry, and
 * only that says what is to be done. This must always hold (it is what "lost" would mean):
 *
 *     for each PENDING timeout there is a place in the wheel no later than its deadline's tick,
 *     or an unread record no later than its deadline, or a thread that is about to append one,
 *     or it is in the worker's or the executor's hands, or `overlooked` is set.
 *
 * A place knows the generation it was filed for. Of two records the worker believes the one of the
 * newer generation; of one generation, the earlier one, and of one that is nowhere in the wheel
 * only what the entry says. So a place of an older timeout in the same entry goes when the first
 * record of the newer one is read, in whatever order the streams are.
 *
 * GENERATIONS IN RECORDS have 32 bits, and are compared by their difference, counted from the floor
 * of their slab. So that no difference comes near 2^31, an entry is renewed after each 2^28
 * timeouts: it passes through the worker, which notes the generation in the place, before it is
 * used again.
 */

#include "hwt/core/shared.h"

#define HWT_BATCH 64 /* taken from the wheel at a time */
#define HWT_RENEWAL ((uint64_t)1 << 28)

struct hwt_worker {
    struct hwt_shared *shared;
    struct hwt_wheel wheel;
    uint64_t limit; /* ticks before it are over at `now` */
    uint64_t floor; /* after a pass that was cut short: what is filed is for this tick or later */
    bool expires;   /* what is due is taken and run */
    uint64_t runs;  /* tasks started or handed over, in this pass */
    uint64_t most;  /* runs that are wanted in this pass */
    bool told;      /* of a cancel, in this pass */
    bool again;     /* a stream could not be read: look again in a tick */
    size_t since_kept_up;
    unsigned quiet; /* passes with little to run and much memory to give back */
    bool unsure;    /* it may be on no list: look at all lanes then */
    uint32_t untold_count;
    hwt_timeout untold[HWT_CHUNK_RECORDS]; /* of the records that are being read */
};

/* The tick for what is not of the last pass, or the one that goes on. There is always one that ends. */
static inline uint64_t hwt_worker_next_floor(const struct hwt_worker *worker)
{
    uint64_t last = worker->wheel.ticks.last;
    return worker->limit < last ? worker->limit : last - (last > 0);
}

int hwt_worker_init(struct hwt_worker *worker, struct hwt_shared *shared, uint32_t ticks_per_wheel);
void hwt_worker_destroy(struct hwt_worker *worker);

/* One pass at `now`: reads the streams, runs what is due, but no more than `most`. Returns how many
 * tasks it started. */
uint64_t hwt_worker_pass(struct hwt_worker *worker, uint64_t now, uint64_t most);

/* ---- read.c ---- */

/* Reads the streams: nothing runs but `cancelled`. */
void hwt_worker_read(struct hwt_worker *worker);

/* With one thread: what tasks have armed, and what is to be told. */
void hwt_worker_read_own(struct hwt_worker *worker);

/* Reads streams that have left the list, chained by next_listed. */
void hwt_worker_read_dismissed(struct hwt_worker *worker, struct hwt_stream *dismissed,
                               bool cancelled);

/* Between two batches of `n`: tells what heaps up, if it does. */
void hwt_worker_keep_up(struct hwt_worker *worker, size_t n);

/* ---- file.c ---- */

/* A record's generation, counted from the floor of its slab: as places have it. */
uint32_t hwt_worker_since_floor(const struct hwt_worker *worker, uint32_t id, uint32_t generation);

/* Files for a tick, or `floor`, or the one at which the hand is, whichever is latest. */
void hwt_worker_file_for(struct hwt_worker *worker, uint32_t id, uint32_t generation, uint64_t tick,
                         uint64_t floor);

/* Sees to it that a timeout is looked at for an instant: what a pending record says. */
void hwt_worker_file(struct hwt_worker *worker, uint32_t id, uint64_t generation,
                     uint64_t deadline);

/* Takes the timeout out of the wheel, if it is there, and minds that it was there: what a cancelled
 * record says. */
void hwt_worker_forget(struct hwt_worker *worker, uint32_t id, uint64_t generation);

/* Takes an id out of the wheel, if it is there. */
void hwt_worker_leave(struct hwt_worker *worker, uint32_t id);

/* ---- worker.c ---- */

/* The instant at which the next tick with work can be handled, HWT_NEVER: none. */
uint64_t hwt_worker_next(struct hwt_worker *worker);

/*
 * Closes the gate. Returns the instant until when nothing has to be done, or 0: there is something
 * now, do another pass.
 */
uint64_t hwt_worker_park(struct hwt_worker *worker);

/* Tells the counters what memory the wheel holds. */
void hwt_worker_publish_bytes(struct hwt_worker *worker);

#endif
