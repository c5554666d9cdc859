/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_COUNTS_H
#define HWT_RELAY_COUNTS_H

/*
 * The numbers that a shard tells to whoever watches it. The shard's thread alone writes them, and any thread
 * may read them. Each number stands for itself, so nothing is published with it, and relaxed order
 * is enough.
 */

#include <stdatomic.h>
#include <stdint.h>

enum { RELAY_LATE_BUCKETS = 16, RELAY_WORDS_MAX = 64 };

/* Why a message was a dead letter. */
enum relay_dead {
    RELAY_DEAD_ORDER,    /* it cannot be understood */
    RELAY_DEAD_TARGET,   /* the relay may not publish there */
    RELAY_DEAD_SIZE,     /* it is too long */
    RELAY_DEAD_ATTEMPTS, /* its target has not taken it */
    RELAY_DEADS,
};

/* Why a replica could not own a shard as it should. See ready.c for the texts. */
enum relay_unready {
    RELAY_READY,
    RELAY_OPENS,
    RELAY_NO_BROKER,
    RELAY_UNKNOWN_STREAM,
    RELAY_BEHIND,
    RELAY_SHORT,
    RELAY_WRONG_CLOCK,
    RELAY_IS_CATCHING_UP,
    RELAY_IS_DRAINED,
    RELAY_UNREADY,
};

/* Of each reason: a word for the replica's entry, and a sentence. */
extern const struct relay_why {
    const char *word, *text;
} relay_whys[RELAY_UNREADY];

struct relay_counts {
    atomic_uint_least64_t owns;        /* 1: this replica forwards */
    atomic_uint_least64_t catches_up;  /* 1: it has the shard, and reads what is still behind */
    atomic_uint_least64_t unready;     /* enum relay_unready */
    atomic_uint_least64_t lease_from;  /* CLOCK_BOOTTIME, ns; 0: it has none */
    atomic_uint_least64_t clock_ahead; /* ns, of the broker's; a negative int64_t if it is behind */
    atomic_uint_least64_t
        oldest_due; /* of what was taken first of that which has not ended; 0: all has */
    atomic_uint_least64_t trim_waits;    /* for the replica of this index + 1; 0: for none */
    atomic_uint_least64_t position;      /* up to here the stream is in the store */
    atomic_uint_least64_t last;          /* of the stream, as its leader has said last */
    atomic_uint_least64_t watermark_due; /* as it was seen last; 0: none */
    atomic_uint_least64_t taken;         /* messages that are due and have not ended */
    atomic_uint_least64_t forwarded;     /* that their targets have acknowledged */
    atomic_uint_least64_t repeats;       /* of those, known there before */
    atomic_uint_least64_t failures;      /* that their targets have not taken */
    atomic_uint_least64_t failures_of[RELAY_WORDS_MAX]; /* by the pattern in `targets` */
    atomic_uint_least64_t dead_letters;
    atomic_uint_least64_t dead_letters_of[RELAY_DEADS];
    atomic_uint_least64_t policies; /* replicas that judge otherwise than this one, which owns it */
    atomic_uint_least64_t divergences;                      /* the stream was not as it was read */
    atomic_uint_least64_t lateness[RELAY_LATE_BUCKETS + 1]; /* the last one: later than all */
    atomic_uint_least64_t lateness_sum;                     /* ns */
};

/* The upper ends of the buckets of lateness, in ns; they ascend. */
extern const uint64_t relay_late_ends[RELAY_LATE_BUCKETS];

void relay_count_lateness(struct relay_counts *counts, uint64_t lateness);

static inline void relay_count_set(atomic_uint_least64_t *count, uint64_t value)
{
    atomic_store_explicit(count, value, memory_order_relaxed);
}

static inline uint64_t relay_count_get(const atomic_uint_least64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static inline void relay_count_add(atomic_uint_least64_t *count, uint64_t value)
{
    relay_count_set(count, relay_count_get(count) + value); /* one thread writes */
}

#endif
