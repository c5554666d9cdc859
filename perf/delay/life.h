/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_DELAY_LIFE_H
#define HWT_PERF_DELAY_LIFE_H

/*
 * What the files of delay_life share. One process, the parent, keeps the ledger; a child has the
 * store, with many producers and a consumer, and is killed and made again several times.
 *
 *     life.c            the command line; the parent: begins lives, kills them; the ledger, in memory that both have
 *     life_producer.c   the child: threads that put and cancel
 *     life_consumer.c   the child: takes, looks at every promise, moves the clock at the end
 *     life_watch.c      the parent: what /proc says, the live line
 *     life_report.c     the parent: the end
 *
 * The ledger outlives the child, however it ends: what a producer or the consumer wrote there
 * before the kill is there after it. A field of an entry is written by one thread of the child:
 * a message's producer, or the consumer. All are atomic, and relaxed is enough for the parent, which
 * reads them for the live line, or when no child is there.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../histogram.h"
#include "../system.h"
#include "hwt/delay.h"

struct options {
    uint64_t messages, threads, payload, kills, seed;
    const char *directory;
};

/* ---- the ledger ---- */

/* Of a put, a cancel or a done: it was begun; and the store has said that it is so. */
enum { NOT_ASKED, ASKED, GRANTED, REFUSED };

struct entry {
    /* its producer's */
    _Atomic uint64_t due;
    _Atomic uint8_t put;
    _Atomic uint8_t puts; /* how often it was begun: again if a kill came between */
    _Atomic uint8_t cancel;
    /* the consumer's */
    _Atomic uint8_t done;
    _Atomic uint8_t puts_seen; /* at the last delivery */
    _Atomic uint16_t life;     /* of the last delivery */
    _Atomic uint32_t deliveries;
};

/* Why a message came again. */
enum cause { CAUSE_LEASE, CAUSE_KILLED, CAUSE_PUT_AGAIN, CAUSE_NONE, CAUSES };

typedef _Atomic uint64_t counter;

/* What the store counts, of one life and of all that ended. */
struct store_counts {
    counter syncs, commits, log_bytes, slot_bytes, checkpoints, replayed, cut, clock_leaps;
};

struct shared {
    counter acknowledged, delivered, cancelled; /* recounted when a life begins */
    counter early, after_cancel, wrong_content, out_of_order, repeated[CAUSES];
    struct histogram lateness; /* the consumer's */
    counter pending;           /* at the end, by the store */
    counter opening_max;       /* ns that an open took */
    counter clock_offset;      /* ns that the clock is ahead */
    counter far_at;            /* CLOCK_MONOTONIC: from then on the clock is moved */
    counter phase;
    _Atomic uint32_t life;
    struct store_counts now;
    struct entry entries[];
};

enum { PHASE_PUT, PHASE_WAIT, PHASE_FAR, PHASES };

static inline uint64_t counted(const counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static inline void count(counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

/* ---- what both processes use ---- */

struct run {
    struct options options;
    struct shared *shared;
    char *path; /* of the store */
    /* the child's */
    hwt_delay *store;
    uint64_t opened; /* when, by its clock */
};

#define ID_SIZE 16

_Noreturn void die(const char *what, int error);
uint64_t hash_of(const struct run *run, uint64_t number, uint64_t what);
void id_of(uint64_t number, char id[ID_SIZE + 1]);
void payload_of(const struct run *run, uint64_t number, unsigned char *payload);

/* ---- the child ---- */

void *producer_main(void *producer);

struct producer {
    struct run *run;
    uint64_t number; /* of the thread: it has the messages that are this, modulo the threads */
};

void consume(struct run *run); /* until every message has had its end */

/* ---- life_watch.c ---- */

/* Of all lives so far. */
struct watch {
    uint64_t begin, written, device_begin, resident_max, disk_max, died_at;
    struct store_counts ended; /* of lives that are over */
    uint64_t kills, opening_kills;
    uint64_t last_acknowledged, last_delivered, last_line;
};

void watch_begin(struct watch *watch, const struct run *run);
void watch_sample(struct watch *watch, const struct run *run, pid_t child); /* ten times a second */
void watch_end_of_life(struct watch *watch, const struct run *run,
                       pid_t child); /* not reaped yet */

/* ---- life_report.c ---- */

void report_head(const struct run *run);
void report_line(const struct run *run, struct watch *watch, uint64_t resident, uint64_t disk);
bool report_end(const struct run *run, const struct watch *watch);

#endif
