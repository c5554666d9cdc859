/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_COUNTER_H
#define HWT_COUNTER_H

/*
 * The processor's counter instead of CLOCK_MONOTONIC, for an instant that may be a little late.
 *
 * Reading the clock costs a producer more than all else that it does. If the clock source is "tsc",
 * the kernel's clock is this counter, scaled. So a thread that has read the clock keeps an anchor,
 * which is a count and the instant that belongs to it. While the counter is within
 * HWT_COUNTER_REACH of the anchor, the thread adds the scaled difference. Else it reads the clock
 * again.
 *
 * hwt_counter_now() is never earlier than the clock, and at most HWT_COUNTER_LATE later. An
 * anchor's instant is HWT_COUNTER_LATE after the clock. That makes up for each cause of an instant
 * that is too low:
 *
 *     the count of an anchor is read after the clock        less than BRACKET counts
 *     the rate is too low, which it is on purpose           1 / 2^8 of the reach
 *     a count is read ahead of its turn                     see below
 *
 * Because the rate is too low, instants come nearer to the clock while one anchor serves, and the
 * next anchor begins at HWT_COUNTER_LATE again. So the instants of one thread never go back, and
 * equal delays keep their order.
 *
 * A processor may read the counter before older loads have come from memory. Such a load may tell
 * the thread of a clock reading by another thread, and that reading may be later than the count.
 * Most of HWT_COUNTER_LATE is for that: four loads, each of which depends on the one before and
 * misses all caches, take 2 us, and 5 us were the most that was seen. A fence before each count
 * would need no such allowance, but it waits for all those loads, and so costs more than is gained.
 *
 * Each of these makes the thread read the clock, so an error lasts no longer than the reach:
 *
 *     the counter stands still or goes back         a count must be higher than the last one
 *     it jumps, or the thread was idle              it is out of reach
 *     it runs at another rate than was measured     the next anchor shows it. The rate is measured
 *                                                   anew, and until then all threads read the clock
 *     a child of fork(), whose clock may differ     its anchor is taken away
 *
 * WHO MAY WRITE
 *
 * An anchor belongs to its thread. Any thread may write the rate, whole, when it has measured it or
 * found it wrong. It is a number and publishes nothing, so all its orders are relaxed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "hwt/base/thread.h"

#define HWT_COUNTER_LATE UINT64_C(8000)    /* nanoseconds */
#define HWT_COUNTER_REACH UINT64_C(0x8000) /* counts: 8 to 33 us at 4 to 1 GHz */

struct hwt_counter_anchor {
    uint64_t count;
    uint64_t instant;
    uint64_t last;  /* the highest count since */
    uint64_t reach; /* HWT_COUNTER_REACH; 0: the rate is being measured from this anchor on */
    uint64_t rate;  /* nanoseconds a count, times 2^32 */
};

extern HWT_THREAD_LOCAL struct hwt_counter_anchor hwt_counter_anchor;

/* Whether the kernel trusts the counter. The first call asks the system. */
bool hwt_counter_is_trusted(void);

/* Whether the rate is known, so that the counter is used. Wait-free. */
bool hwt_counter_is_used(void);

/* Takes the calling thread's anchor away. */
void hwt_counter_drop_anchor(void);

/* Reads the clock, and sets an anchor if it can. The caller has read `count` just before. */
uint64_t hwt_counter_read_clock(uint64_t count);

#if defined(HWT_COUNTER_READ) /* a test's */
uint64_t HWT_COUNTER_READ(void);
static inline uint64_t hwt_counter_read(void)
{
    return HWT_COUNTER_READ();
}
#elif defined(__x86_64__)
static inline uint64_t hwt_counter_read(void)
{
    return __builtin_ia32_rdtsc();
}
#else
static inline uint64_t hwt_counter_read(void)
{
    return 0; /* it is not trusted */
}
#endif

static inline uint64_t hwt_counter_now(void)
{
    struct hwt_counter_anchor *anchor = &hwt_counter_anchor;
    uint64_t count = hwt_counter_read();
    uint64_t since = count - anchor->count;
    if (__builtin_expect(since >= anchor->reach, 0) || __builtin_expect(count <= anchor->last, 0))
        return hwt_counter_read_clock(count);
    anchor->last = count;
    return anchor->instant + (since * anchor->rate >> 32);
}

#endif
