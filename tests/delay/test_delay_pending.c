/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How many messages are pending: exact but for what memory cannot know, and for that no longer than it has to be. */

#include "tests/delay/simulated.h"

#include "hwt/delay/store.h"

#define HOUR HWT_MIN(60)

static struct simulated s;

static void begin(void)
{
    simulated_new(&s);
    simulated_open(&s);
}

static void end(void)
{
    simulated_free(&s);
}

static void put(uint64_t due, uint32_t number, uint32_t size)
{
    ck_assert_int_eq(simulated_put(&s, due, number, size), 0);
}

static void checkpoint(void)
{
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
}

static void kill_and_open(void)
{
    simulated_kill(&s);
    simulated_open(&s);
}

static uint64_t take_one(void)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    uint64_t lease = taken->lease;
    hwt_delay_free(taken);
    return lease;
}

static uint64_t pending(void)
{
    return simulated_stats(&s).pending;
}

START_TEST(test_pending)
{
    for (uint32_t i = 0; i < 10; i++)
        put(s.realtime - 10 + i, i, 10);
    for (uint32_t i = 10; i < 20; i++)
        put(s.realtime + HOUR, i, 10);
    ck_assert_uint_eq(pending(), 20);
    put(s.realtime - 10, 0, 20); /* again */
    ck_assert_uint_eq(pending(), 20);
    const uint32_t id = 1;
    ck_assert_int_eq(hwt_delay_cancel(s.store, s.realtime - 9, &id, sizeof(id)), 0);
    ck_assert_uint_eq(pending(), 19);
    if (_i & 1)
        checkpoint();
    uint64_t leases[3] = { take_one(), take_one(), take_one() }; /* 0, 2, 3 */
    ck_assert_uint_eq(pending(), 19);
    put(s.realtime - 8, 2, 10); /* beside its lease, which does not count from now on */
    ck_assert_uint_eq(pending(), 19);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, 2), 2);
    ck_assert_uint_eq(pending(), 18);
    if (_i & 2)
        checkpoint();
    if (_i & 4)
        kill_and_open();
    else
        ck_assert_int_eq(hwt_delay_retry(s.store, leases[2], s.realtime + HOUR), 0);
    kill_and_open();
    ck_assert_uint_eq(pending(), 18);
    simulated_close(&s);
    simulated_open(&s);
    ck_assert_uint_eq(pending(), 18);
    simulated_advance(&s, HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 18);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Far more at one instant than memory has room for, in two slots, with half of it cancelled: the number
 * pending is exact at each step, also where loading stops amid the instant. */
START_TEST(test_pending_at_one_instant)
{
    const uint64_t due = s.realtime + 30 * 24 * HOUR;
    uint64_t left = 4000;
    for (uint32_t i = 0; i < 4000; i++) {
        put(due, i, 100);
        if (i == 1999 || i == 3999) {
            checkpoint();
            simulated_advance(&s, 20 * 24 * HOUR / (1 + i / 2000));
        }
    }
    ck_assert_uint_gt(simulated_stats(&s).files, 1);
    for (uint32_t i = 0; i < 4000; i += 2, left--)
        ck_assert_int_eq(hwt_delay_cancel(s.store, due, &i, sizeof(i)), 0);
    ck_assert_uint_eq(pending(), left);
    if (_i & 1)
        checkpoint();
    if (_i & 2)
        kill_and_open();
    ck_assert_uint_eq(pending(), left);
    simulated_advance(&s, due - s.realtime);
    for (int64_t n = 1; n > 0; left -= (uint64_t)n) {
        n = simulated_deliver(&s, 150, NULL);
        ck_assert_uint_eq(pending(), left - (uint64_t)n);
        if (left % 7 == 0)
            checkpoint();
        if (left % 11 == 0)
            kill_and_open();
        ck_assert_uint_eq(pending(), left - (uint64_t)n);
    }
    ck_assert_uint_eq(left, 0);
}
END_TEST

/* What memory cannot know is wrong by one for each, and right when its time has come; the rest of what
 * is pending is counted right all the time. */
START_TEST(test_pending_where_memory_cannot_know)
{
    const uint64_t soon = s.realtime + HOUR, late = s.realtime + 50 * HOUR;
    for (uint32_t i = 0; i < 10; i++)
        put(soon + i, i, 10);
    for (uint32_t i = 10; i < 20; i++)
        put(late + i, i, 10);
    checkpoint();
    kill_and_open();
    put(soon + 1, 1, 10); /* once more */
    ck_assert_uint_eq(pending(), 21);
    const uint32_t nobody = 77;
    ck_assert_int_eq(hwt_delay_cancel(s.store, late + 3, &nobody, sizeof(nobody)), 0);
    ck_assert_uint_eq(pending(), 20);
    if (_i & 1)
        checkpoint();
    if (_i & 2)
        kill_and_open();
    ck_assert_uint_eq(pending(), 20);
    simulated_advance(&s, HOUR + HWT_SEC(1));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 10);
    ck_assert_uint_eq(pending(), 9);
    if (_i & 4)
        checkpoint();
    simulated_advance(&s, 49 * HOUR - HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    ck_assert_uint_eq(pending(), 10);
    simulated_advance(&s, HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 10);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* What was put in the place of a lease, and is leased itself, is whole in a checkpoint; it ended the first
 * one when it was put, and nothing when it is read. */
START_TEST(test_pending_of_what_was_leased_twice)
{
    const uint64_t due = s.realtime + HOUR;
    for (uint32_t i = 0; i < 10; i++)
        put(due + i, i, 10);
    checkpoint();
    simulated_advance(&s, HOUR);
    const uint64_t first = take_one();
    put(due, 0, 20);
    const uint64_t second = take_one();
    ck_assert_uint_eq(pending(), 10);
    checkpoint();
    if (_i == 1) {
        ck_assert_int_eq(hwt_delay_done(s.store, &first, 1), 1);
        ck_assert_uint_eq(pending(), 10);
    }
    if (_i == 2)
        ck_assert_int_eq(hwt_delay_done(s.store, &second, 1), 1);
    kill_and_open();
    ck_assert_uint_eq(pending(), 10 - (_i == 2));
    simulated_advance(&s, 10);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 10 - (_i == 2));
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* The second one is done with while the first one's lease goes on: neither comes back. */
START_TEST(test_what_was_superseded_does_not_come_back)
{
    put(s.realtime, 0, 10);
    take_one();
    put(s.realtime, 0, 20);
    const uint64_t second = take_one();
    ck_assert_int_eq(hwt_delay_done(s.store, &second, 1), 1);
    ck_assert_uint_eq(pending(), 0);
    checkpoint();
    kill_and_open();
    ck_assert_uint_eq(pending(), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
}
END_TEST

/* More is put for now than memory keeps: it leaves memory for its slots, and is read again. */
START_TEST(test_pending_of_what_leaves_memory)
{
    uint64_t left = 400;
    put(s.realtime, 4000, 10);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
    for (uint32_t i = 0; i < left; i++) {
        put(s.realtime - 1000 + i, i, 2000);
        ck_assert_uint_eq(pending(), i + 1);
    }
    checkpoint();
    ck_assert_uint_lt(simulated_stats(&s).memory, left * 2000 / 2);
    if (_i == 1)
        kill_and_open();
    while (left > 0) {
        ck_assert_uint_eq(pending(), left);
        left -= (uint64_t)simulated_deliver(&s, 50, NULL);
    }
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* What was dropped, and nobody has read, is off with its slot, or when it is read. */
START_TEST(test_pending_of_what_is_dropped)
{
    const uint64_t due = s.realtime + 30 * 24 * HOUR;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * HWT_SEC(1), i, 10);
    checkpoint();
    batch.note = "n";
    batch.note_size = 1;
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    if (_i == 1)
        kill_and_open();
    if (_i == 2) { /* the slot is read in part when the rest is dropped */
        simulated_advance(&s, due + HWT_SEC(3) - s.realtime);
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 4);
    }
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP,
                              .due = due + (_i == 0 ? 19 : 9) * HWT_SEC(1),
                              .mark = batch.mark };
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    put(due, 0, 10); /* behind the mark */
    checkpoint();
    if (_i == 0)
        ck_assert_uint_eq(pending(), 1);
    simulated_advance(&s, due + HWT_SEC(15) - s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), _i == 0 ? 1 : 7);
    ck_assert_uint_eq(pending(), _i == 0 ? 0 : 4);
}
END_TEST

/* The slot that is dropped has cancels, which say nothing of how much is left; beside it is one that was
 * made behind the mark. Its messages are counted all the time. */
START_TEST(test_pending_beside_what_is_dropped)
{
    const uint64_t due = s.realtime + 30 * 24 * HOUR;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * HWT_MS(10), i, 200);
    checkpoint();
    for (uint32_t i = 0; i < 6; i++)
        ck_assert_int_eq(hwt_delay_cancel(s.store, due + i * HWT_MS(10), &i, sizeof(i)), 0);
    checkpoint();
    batch.note = "n";
    batch.note_size = 1;
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    simulated_advance(&s, 20 * 24 * HOUR); /* so that the next ones go to another slot */
    for (uint32_t i = 20; i < 30; i++)
        put(due + i * HWT_MS(10), i, 200);
    checkpoint();
    ck_assert_uint_eq(pending(), 24);
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP,
                              .due = due + HWT_SEC(9),
                              .mark = batch.mark };
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    const uint64_t files = simulated_stats(&s).files;
    checkpoint();
    ck_assert_uint_lt(simulated_stats(&s).files, files);
    ck_assert_uint_ge(pending(), 10);
    ck_assert_uint_le(pending(), 24);
    if (_i == 1)
        kill_and_open();
    ck_assert_uint_ge(pending(), 10);
    simulated_advance(&s, due + HWT_SEC(1) - s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, 3, NULL), 3);
    ck_assert_uint_eq(pending(), 7);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 7);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Of a slot that is dropped in part, what was dropped is off with the next checkpoint, cancelled or not. */
START_TEST(test_pending_of_a_slot_that_is_dropped_in_part)
{
    const uint64_t due = s.realtime + 30 * 24 * HOUR;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * HWT_SEC(10), i, 10);
    checkpoint();
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(hwt_delay_cancel(s.store, due + i * HWT_SEC(10), &i, sizeof(i)), 0);
    batch.note = "n";
    batch.note_size = 1;
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    checkpoint();
    ck_assert_uint_eq(pending(), 17);
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP,
                              .due = due + HWT_SEC(95),
                              .mark = batch.mark };
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    checkpoint();
    ck_assert_uint_eq(pending(), 10);
    put(due, 0, 10); /* behind the mark */
    ck_assert_uint_eq(pending(), 11);
    checkpoint();
    kill_and_open();
    ck_assert_uint_eq(pending(), 11);
    simulated_advance(&s, due + HWT_SEC(300) - s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 11);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* A slot of which the first spans are dropped: nothing else is taken off, neither what another slot has of
 * those spans nor what is left of the span in which the drop ends. */
START_TEST(test_pending_of_spans_that_are_dropped)
{
    const uint64_t span = UINT64_C(1) << 30;
    const uint64_t due = (s.realtime + 30 * 24 * HOUR) / span * span;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    for (uint32_t i = 0; i < 20; i++) /* four in each */
        put(due + i * span / 4, i, 200);
    checkpoint();
    batch.note = "n";
    batch.note_size = 1;
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    simulated_advance(&s, 20 * 24 * HOUR); /* so that the next ones go to another slot */
    for (uint32_t i = 0; i < 4 && _i == 0; i++)
        put(due + i * span + 1, 20 + i, 200);
    checkpoint();
    const uint64_t end = due + 2 * span + (_i == 0 ? 0 : span / 2) - 1;
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = end, .mark = batch.mark };
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    checkpoint();
    const uint64_t left = _i == 0 ? 12 + 4 : 10;
    ck_assert_uint_ge(pending(), left);
    ck_assert_uint_le(pending(), left + (_i == 0 ? 8 : 2));
    simulated_advance(&s, due + 10 * span - s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), (int64_t)left);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* The same where all of it is due in one span, of which only the dropped half is read. */
START_TEST(test_pending_of_what_is_dropped_and_read)
{
    const uint64_t due = (s.realtime + 30 * 24 * HOUR) >> 30 << 30, step = HWT_MS(20);
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = "n";
    batch.note_size = 1;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * step, i, 10);
    checkpoint();
    ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
    kill_and_open();
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = due + 9 * step, .mark = batch.mark };
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    simulated_advance(&s, due + 10 * step - HWT_SEC(2) - s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    ck_assert_uint_eq(pending(), 10);
    simulated_advance(&s, HWT_SEC(3));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 10);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Spans get longer where there are many of them. */
START_TEST(test_pending_at_many_times)
{
    uint64_t left = 0;
    for (uint32_t i = 0; i < 2000; i++, left++)
        put(s.realtime + HWT_SEC(10) + i * HWT_SEC(100), i, 10);
    checkpoint();
    kill_and_open();
    ck_assert_uint_eq(pending(), left);
    for (uint32_t i = 0; i < 2000; i += 3, left--)
        ck_assert_int_eq(
            hwt_delay_cancel(s.store, s.realtime + HWT_SEC(10) + i * HWT_SEC(100), &i, sizeof(i)),
            0);
    checkpoint();
    while (left > 0) {
        ck_assert_uint_eq(pending(), left);
        simulated_advance(&s, HWT_SEC(5000));
        left -= (uint64_t)simulated_deliver(&s, SIZE_MAX, NULL);
        ck_assert_uint_eq(pending(), left);
        if (left == 0 || left % 5 != 0)
            continue;
        simulated_advance(&s, HWT_SEC(200));
        take_one(); /* and dies of it */
        kill_and_open();
        left -= (uint64_t)simulated_deliver(&s, SIZE_MAX, NULL);
    }
}
END_TEST

/* Two spans become one while memory has what is due in both; then the rest of it is read. */
START_TEST(test_pending_of_what_is_known_in_longer_spans)
{
    enum { SHIFT = 31, OTHERS = HWT_DELAY_SPANS_MAX - 1 };
    const uint64_t base = ((s.realtime >> SHIFT) + 1) << SHIFT;
    simulated_advance(&s, base - s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, 1, NULL), 0); /* loads two seconds */
    put(base + HWT_MS(500), 0, 10);
    put(base + HWT_MS(1500), 1, 10);
    put(base + HWT_MS(2100), 2, 10);
    checkpoint();
    for (uint32_t i = 0; i < OTHERS; i++)
        put(base + (i + 1) * HWT_SEC(100), 10 + i, 10);
    checkpoint();
    ck_assert_uint_eq(s.store->filed.shift, SHIFT);
    ck_assert_uint_eq(pending(), OTHERS + 3);
    simulated_advance(&s, HWT_MS(1200));
    hwt_delay_loader(s.store);
    ck_assert_uint_gt(s.store->loaded.due, base + (UINT64_C(1) << SHIFT));
    ck_assert_uint_eq(pending(), OTHERS + 3);
    simulated_advance(&s, HWT_SEC(1));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 3);
    ck_assert_uint_eq(pending(), OTHERS);
}
END_TEST

/* What is due at the first instant there is, more than memory has room for, and something later. */
START_TEST(test_pending_at_the_first_instant)
{
    uint64_t left = 2001;
    for (uint32_t i = 0; i < 2000; i++)
        put(0, i, 100);
    put(s.realtime + HOUR, 2000, 10);
    checkpoint();
    kill_and_open();
    while (left > 1) {
        ck_assert_uint_eq(pending(), left);
        left -= (uint64_t)simulated_deliver(&s, 50, NULL);
    }
    ck_assert_uint_eq(pending(), left);
}
END_TEST

/* The process dies when the next checkpoint has its name. */
static void die_behind_a_rename(void *arg, enum disk_call call, const char *name)
{
    (void)arg, (void)name;
    s.process.dead = s.process.dead || call == DISK_RENAME;
}

/* Where the disk is full a checkpoint leaves the log where it is: what the log ends was counted before. */
START_TEST(test_pending_behind_a_checkpoint_that_leaves_the_log)
{
    const uint64_t due = s.realtime + HOUR;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i, i, 10);
    checkpoint();
    kill_and_open();
    for (uint32_t i = 10; i < 15; i++)
        ck_assert_int_eq(hwt_delay_cancel(s.store, due + i, &i, sizeof(i)), 0);
    put(due + 16, 16, 20); /* which is not known to be there: one too many, until it is read */
    put(due + 30, 30, 10);
    put(due + 31, 31, 10);
    uint64_t left = 18;
    if (_i == 1) {
        simulated_advance(&s, HOUR);
        ck_assert_int_eq(simulated_deliver(&s, 1, NULL), 1);
        left -= 2;
        simulated_advance(&s, 1);
        take_one();
    }
    ck_assert_uint_eq(pending(), left);
    s.process.fail_with = -ENOSPC;
    s.process.fail_only = 1 << DISK_WRITE;
    s.process.fail_at = s.process.calls + 1; /* that of the slot */
    s.process.fail_count = 1;
    s.process.changed = die_behind_a_rename;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -EIO);
    kill_and_open();
    ck_assert_uint_eq(pending(), left);
    kill_and_open();
    ck_assert_uint_eq(pending(), left);
    checkpoint();
    kill_and_open();
    ck_assert_uint_eq(pending(), left);
    simulated_advance(&s, HOUR + 100);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), (int64_t)(_i == 1 ? 16 : 17));
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Such a checkpoint has the drop as well as the log has it, which comes to it again behind what it has dropped.
 * With as many drops as there can be, they are no more for that. */
START_TEST(test_what_was_dropped_stays_so_behind_a_checkpoint_that_leaves_the_log)
{
    const uint64_t due = s.realtime + HOUR;
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    const uint32_t drops = _i == 0 ? 1 : 64;
    for (uint32_t i = 0; i < 200; i++)
        put(due + i, i, 10);
    checkpoint();
    kill_and_open();
    put(due, 300, 10);
    batch.note = "";
    for (uint32_t i = drops; i > 0; i--) {
        ck_assert_int_eq(hwt_delay_apply(s.store, NULL, 0, &batch), 0);
        hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = due + i, .mark = batch.mark };
        ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    }
    put(due + 300, 301, 10);
    s.process.fail_with = -ENOSPC;
    s.process.fail_only = 1 << DISK_WRITE;
    s.process.fail_at = s.process.calls + 1; /* that of the slot */
    s.process.fail_count = 1;
    s.process.changed = die_behind_a_rename;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -EIO);
    kill_and_open();
    simulated_advance(&s, HOUR + 400);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), (int64_t)(200 - drops - 1 + 1));
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* The same where one slot was written before the disk was full: what it got does not count. */
START_TEST(test_pending_behind_a_checkpoint_that_is_undone_in_part)
{
    const uint64_t due = s.realtime + HOUR;
    for (uint32_t n = 0; n < 2; n++) {
        for (uint32_t i = 0; i < 10; i++) {
            put(due + i, 20 * n + i, 10);
            put(due + 20 * HOUR + i, 20 * n + 10 + i, 10);
        }
        if (n == 0)
            checkpoint();
    }
    s.process.fail_with = -ENOSPC;
    s.process.fail_only = 1 << DISK_WRITE;
    s.process.fail_at = s.process.calls + 2; /* that of the second slot */
    s.process.fail_count = 1;
    s.process.changed = die_behind_a_rename;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -EIO);
    kill_and_open();
    ck_assert_uint_eq(pending(), 40);
    simulated_advance(&s, 30 * HOUR);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 40);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_pending");
    TCase *tcase = tcase_create("pending");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_pending, 0, 8);
    tcase_add_loop_test(tcase, test_pending_at_one_instant, 0, 4);
    tcase_add_loop_test(tcase, test_pending_where_memory_cannot_know, 0, 8);
    tcase_add_loop_test(tcase, test_pending_of_what_was_leased_twice, 0, 3);
    tcase_add_test(tcase, test_what_was_superseded_does_not_come_back);
    tcase_add_loop_test(tcase, test_pending_of_what_leaves_memory, 0, 2);
    tcase_add_loop_test(tcase, test_pending_of_what_is_dropped, 0, 3);
    tcase_add_loop_test(tcase, test_pending_beside_what_is_dropped, 0, 2);
    tcase_add_test(tcase, test_pending_of_a_slot_that_is_dropped_in_part);
    tcase_add_loop_test(tcase, test_pending_of_spans_that_are_dropped, 0, 2);
    tcase_add_test(tcase, test_pending_of_what_is_dropped_and_read);
    tcase_add_test(tcase, test_pending_at_many_times);
    tcase_add_test(tcase, test_pending_of_what_is_known_in_longer_spans);
    tcase_add_test(tcase, test_pending_at_the_first_instant);
    tcase_add_loop_test(tcase, test_pending_behind_a_checkpoint_that_leaves_the_log, 0, 2);
    tcase_add_loop_test(
        tcase, test_what_was_dropped_stays_so_behind_a_checkpoint_that_leaves_the_log, 0, 2);
    tcase_add_test(tcase, test_pending_behind_a_checkpoint_that_is_undone_in_part);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
