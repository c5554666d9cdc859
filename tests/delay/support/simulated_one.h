/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_SIMULATED_ONE_H
#define HWT_TESTS_DELAY_SUPPORT_SIMULATED_ONE_H

/* One store on a simulated disk for each test of a file, and its calls where they must succeed. */

#include "tests/delay/support/simulated.h"

#define HOUR HWT_MIN(60)
#define DAY (24 * HOUR)

static struct simulated s;

static inline void begin(void)
{
    simulated_new(&s);
    simulated_open(&s);
}

static inline void end(void)
{
    simulated_free(&s);
}

static inline void put(uint64_t due, uint32_t number, uint32_t size)
{
    ck_assert_int_eq(simulated_put(&s, due, number, size), 0);
}

/* Numbers `from` up to `to`, each due a step later. */
static inline void put_many(uint32_t from, uint32_t to, uint64_t due, uint64_t step, uint32_t size)
{
    for (uint32_t i = from; i < to; i++)
        put(due + i * step, i, size);
}

/* They were delivered so often. */
static inline void expect_counts(const unsigned *counts, uint32_t from, uint32_t to, unsigned each)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_msg(counts[i] == each, "message %u: %u times", i, counts[i]);
}

static inline void cancel(uint64_t due, uint32_t number)
{
    ck_assert_int_eq(hwt_delay_cancel(s.store, due, &number, sizeof(number)), 0);
}

/* Up to where a drop may go that is for what was put until now. */
static inline uint64_t mark(void)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = "";
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    return batch.mark;
}

static inline void drop(uint64_t due, uint64_t up_to)
{
    hwt_delay_change change = { .op = HWT_DELAY_OP_DROP, .due = due, .mark = up_to };
    ck_assert_int_eq(hwt_delay_apply(s.store, &change, 1, NULL), 0);
}

static inline void checkpoint(void)
{
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
}

static inline void kill_and_open(void)
{
    simulated_kill(&s);
    simulated_open(&s);
}

static inline void reopen(bool killed)
{
    if (killed)
        simulated_kill(&s);
    else
        simulated_close(&s);
    simulated_open(&s);
}

/* Until that instant. */
static inline void advance_to(uint64_t realtime)
{
    simulated_advance(&s, realtime - s.realtime);
}

static inline uint64_t take_one(void)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    uint64_t lease = taken->lease;
    hwt_delay_free(taken);
    return lease;
}

static inline uint64_t pending(void)
{
    return simulated_stats(&s).pending;
}

/* The process dies when the next checkpoint has its name. */
static inline void die_behind_a_rename(void *arg, enum disk_call call, const char *name)
{
    (void)arg, (void)name;
    s.process.dead = s.process.dead || call == DISK_RENAME;
}

/* The disk is full at the n-th write of a checkpoint, which leaves the log as it is; then the process dies. */
static inline void leave_the_log_and_open(uint64_t write)
{
    s.process.fail_with = -ENOSPC;
    s.process.fail_only = 1 << DISK_WRITE;
    s.process.fail_at = s.process.calls + write;
    s.process.fail_count = 1;
    s.process.changed = die_behind_a_rename;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -EIO);
    kill_and_open();
}

#endif
