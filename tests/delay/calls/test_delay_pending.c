/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How many messages are pending: exact but for what memory cannot know, and for that no longer than it has to be. */

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/whole.h"

START_TEST(test_pending)
{
    for (uint32_t i = 0; i < 10; i++)
        put(s.realtime - 10 + i, i, 10);
    for (uint32_t i = 10; i < 20; i++)
        put(s.realtime + HOUR, i, 10);
    ck_assert_uint_eq(pending(), 20);
    put(s.realtime - 10, 0, 20); /* again */
    ck_assert_uint_eq(pending(), 20);
    cancel(s.realtime - 9, 1);
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
        cancel(due, i);
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

/* It ends what is leased, and nothing of what a slot alone has of the same instant. */
START_TEST(test_pending_of_what_is_put_beside_its_lease)
{
    const uint64_t due = s.realtime + HOUR;
    for (uint32_t i = 0; i < 4000; i++)
        put(due, i, 100);
    checkpoint();
    simulated_advance(&s, HOUR);
    take_one();
    put(due, 0, 100);
    ck_assert_uint_eq(pending(), 4000);
    kill_and_open();
    ck_assert_uint_eq(pending(), 4000);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 4000);
    ck_assert_uint_eq(pending(), 0);
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
    cancel(late + 3, 77); /* of nobody */
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
        cancel(s.realtime + HWT_SEC(10) + i * HWT_SEC(100), i);
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
    ck_assert_uint_eq(s.store->table.filed.shift, SHIFT);
    ck_assert_uint_eq(pending(), OTHERS + 3);
    simulated_advance(&s, HWT_MS(1200));
    hwt_delay_loader(s.store);
    ck_assert_uint_gt(s.store->table.loaded.due, base + (UINT64_C(1) << SHIFT));
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

/* Where the disk is full a checkpoint leaves the log where it is: what the log ends was counted before. */
START_TEST(test_pending_behind_a_checkpoint_that_leaves_the_log)
{
    const uint64_t due = s.realtime + HOUR;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i, i, 10);
    checkpoint();
    kill_and_open();
    for (uint32_t i = 10; i < 15; i++)
        cancel(due + i, i);
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
    leave_the_log_and_open(1); /* at the slot */
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
    leave_the_log_and_open(2); /* at the second slot */
    ck_assert_uint_eq(pending(), 40);
    simulated_advance(&s, 30 * HOUR);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 40);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* More than memory has room for, put at near and far times, delivered in pieces, with kills
 * between: without cancels, the number pending is exact. */
START_TEST(test_the_number_pending_is_right)
{
    uint64_t random = test_seed() + (uint64_t)_i, done = 0;
    uint32_t put = 0;
    for (int step = 0; step < 300; step++) {
        switch (test_random(&random) % 8) {
        case 0:
            reopen(test_random(&random) % 2);
            break;
        case 1:
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
            break;
        case 2:
        case 3:
            simulated_advance(&s, test_random(&random) % HWT_SEC(2000));
            done += (uint64_t)simulated_deliver(&s, 1 + test_random(&random) % 200, NULL);
            break;
        default:
            for (int i = 0; i < 25 && put < SIMULATED_IDS; i++, put++) {
                uint64_t ahead = test_random(&random) % HWT_SEC(100) << test_random(&random) % 6;
                ck_assert_int_eq(simulated_put(&s, s.realtime + ahead, put, 2000), 0);
            }
        }
        uint64_t pending = simulated_stats(&s).pending;
        ck_assert_msg(pending == put - done, "step %d: %" PRIu64 " pending, not %" PRIu64, step,
                      pending, put - done);
    }
    ck_assert_uint_gt(put, 1000);
}
END_TEST

/* A lease that another put has ended holds no message. */
START_TEST(test_a_superseded_lease_is_not_pending)
{
    const hwt_delay_message *taken[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(simulated_put(&s, s.realtime, 1, 10), 0);
        ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken[i]), 1);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).pending, 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(hwt_delay_done(s.store, &taken[i]->lease, 1), 1);
        hwt_delay_free(taken[i]);
    }
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}
END_TEST

static uint64_t far_due;

/* Once, while a checkpoint writes a tombstone to its slot: its identity is put anew. */
static void put_meanwhile(void *arg, enum disk_call call, const char *name)
{
    (void)arg;
    if (call != DISK_WRITE || strncmp(name, "slot-", 5) != 0)
        return;
    s.process.changed = NULL;
    ck_assert_int_eq(simulated_put(&s, far_due, 1, 10), 0);
}

/* At the latest when its time has come, a message that was cancelled out of memory, and put anew, is
 * counted right. */
START_TEST(test_put_anew_after_its_tombstone)
{
    const uint32_t id = 1;
    bool meanwhile = _i & 1, again = _i & 2, reopened = _i & 4;
    far_due = s.realtime + DAY;
    ck_assert_int_eq(simulated_put(&s, far_due, id, 10), 0);
    put_many(2, 10, far_due + HWT_SEC(10), HWT_SEC(1), 10);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(hwt_delay_cancel(s.store, far_due, &id, sizeof(id)), 0);
    ck_assert_uint_eq(simulated_stats(&s).pending, 8);
    s.process.changed = meanwhile ? put_meanwhile : NULL;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert(!s.process.changed);
    if (!meanwhile)
        ck_assert_int_eq(simulated_put(&s, far_due, id, 10), 0);
    if (again)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    if (reopened)
        reopen(true);
    simulated_advance(&s, DAY);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
    ck_assert_uint_eq(simulated_stats(&s).pending, 8);
    simulated_advance(&s, DAY);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 8);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
    ck_assert_uint_eq(simulated_stats(&s).next, HWT_NEVER);
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}
END_TEST

/* What a rewriting has found out of slots that stay as they were does not count. */
START_TEST(test_a_rewriting_that_fails)
{
    const uint32_t id = 1;
    far_due = s.realtime + 30 * DAY;
    ck_assert_int_eq(simulated_put(&s, far_due, id, 8000), 0);
    put_many(2, 10, far_due + 30 * DAY, HWT_SEC(1), 10);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_advance(&s, 22 * DAY);
    put_many(10, 14, far_due, 1, 100); /* with the tombstone, which so stays where it is */
    ck_assert_int_eq(hwt_delay_cancel(s.store, far_due, &id, sizeof(id)), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    s.process.fail_only = 1U << DISK_RENAME;
    s.process.fail_with = -ENOSPC;
    s.process.fail_at = s.process.calls + 1;
    s.process.fail_count = UINT64_MAX;
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), -ENOSPC);
    s.process.fail_with = 0;
    simulated_advance(&s, 9 * DAY);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 4);
    ck_assert_uint_eq(simulated_stats(&s).pending, 8);
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
    tcase_add_test(tcase, test_pending_of_what_is_put_beside_its_lease);
    tcase_add_loop_test(tcase, test_pending_where_memory_cannot_know, 0, 8);
    tcase_add_loop_test(tcase, test_pending_of_what_was_leased_twice, 0, 3);
    tcase_add_test(tcase, test_what_was_superseded_does_not_come_back);
    tcase_add_loop_test(tcase, test_pending_of_what_leaves_memory, 0, 2);
    tcase_add_test(tcase, test_pending_at_many_times);
    tcase_add_test(tcase, test_pending_of_what_is_known_in_longer_spans);
    tcase_add_test(tcase, test_pending_at_the_first_instant);
    tcase_add_loop_test(tcase, test_pending_behind_a_checkpoint_that_leaves_the_log, 0, 2);
    tcase_add_test(tcase, test_pending_behind_a_checkpoint_that_is_undone_in_part);
    tcase_add_loop_test(tcase, test_the_number_pending_is_right, 0, 10);
    tcase_add_test(tcase, test_a_superseded_lease_is_not_pending);
    tcase_add_loop_test(tcase, test_put_anew_after_its_tombstone, 0, 8);
    tcase_add_test(tcase, test_a_rewriting_that_fails);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
