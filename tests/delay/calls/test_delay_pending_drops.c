/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How many messages are pending where some were dropped. What slots have of those may count on, at the
 * longest until its time has come; what was not dropped counts all the time.
 */

#include "hwt/delay/whole.h"
#include "tests/delay/support/simulated_one.h"

/* A month ahead, where a span of the accounts begins. */
#define SPAN (UINT64_C(1) << 30)
static uint64_t far_ahead(void)
{
    return (s.realtime + 30 * 24 * HOUR) / SPAN * SPAN;
}

/* What was dropped, and nobody has read, is off with its slot, or when its time has come. */
START_TEST(test_pending_of_what_is_dropped)
{
    const uint64_t due = s.realtime + 30 * 24 * HOUR;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * HWT_SEC(1), i, 10);
    checkpoint();
    const uint64_t marked = mark();
    if (_i == 1)
        kill_and_open();
    if (_i == 2) { /* the slot is read in part when the rest is dropped */
        advance_to(due + HWT_SEC(3));
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 4);
    }
    drop(due + (_i == 0 ? 19 : 9) * HWT_SEC(1), marked);
    put(due, 0, 10); /* behind the mark */
    checkpoint();
    if (_i == 0)
        ck_assert_uint_eq(pending(), 1);
    advance_to(due + HWT_SEC(15));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), _i == 0 ? 1 : 7);
    ck_assert_uint_eq(pending(), _i == 0 ? 0 : 4);
}
END_TEST

/* The slot that is dropped has cancels, which say nothing of how much is left; beside it is one that was
 * made behind the mark. Its messages are counted all the time. */
START_TEST(test_pending_beside_what_is_dropped)
{
    const uint64_t due = s.realtime + 30 * 24 * HOUR;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * HWT_MS(10), i, 200);
    checkpoint();
    for (uint32_t i = 0; i < 6; i++)
        cancel(due + i * HWT_MS(10), i);
    checkpoint();
    const uint64_t marked = mark();
    simulated_advance(&s, 20 * 24 * HOUR); /* so that the next ones go to another slot */
    for (uint32_t i = 20; i < 30; i++)
        put(due + i * HWT_MS(10), i, 200);
    checkpoint();
    ck_assert_uint_eq(pending(), 24);
    drop(due + HWT_SEC(9), marked);
    const uint64_t files = simulated_stats(&s).files;
    checkpoint();
    ck_assert_uint_lt(simulated_stats(&s).files, files);
    ck_assert_uint_ge(pending(), 10);
    ck_assert_uint_le(pending(), 24);
    if (_i == 1)
        kill_and_open();
    ck_assert_uint_ge(pending(), 10);
    advance_to(due + HWT_SEC(1));
    ck_assert_int_eq(simulated_deliver(&s, 3, NULL), 3);
    ck_assert_uint_eq(pending(), 7);
    ck_assert_int_eq(simulated_deliver(&s, 7, NULL), 7);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Of a slot that is dropped in part, what was dropped is off with the next checkpoint, cancelled or not. */
START_TEST(test_pending_of_a_slot_that_is_dropped_in_part)
{
    const uint64_t due = s.realtime + 30 * 24 * HOUR;
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * HWT_SEC(10), i, 10);
    checkpoint();
    for (uint32_t i = 0; i < 3; i++)
        cancel(due + i * HWT_SEC(10), i);
    const uint64_t marked = mark();
    checkpoint();
    ck_assert_uint_eq(pending(), 17);
    drop(due + HWT_SEC(95), marked);
    checkpoint();
    ck_assert_uint_eq(pending(), 10);
    put(due, 0, 10); /* behind the mark */
    ck_assert_uint_eq(pending(), 11);
    checkpoint();
    kill_and_open();
    ck_assert_uint_eq(pending(), 11);
    advance_to(due + HWT_SEC(300));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 11);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* A slot of which the first spans are dropped: nothing else is taken off, neither what another slot has of
 * those spans nor what is left of the span in which the drop ends. */
START_TEST(test_pending_of_spans_that_are_dropped)
{
    const uint64_t due = far_ahead();
    for (uint32_t i = 0; i < 20; i++) /* four in each */
        put(due + i * SPAN / 4, i, 200);
    checkpoint();
    const uint64_t marked = mark();
    simulated_advance(&s, 20 * 24 * HOUR); /* so that the next ones go to another slot */
    for (uint32_t i = 0; i < 4 && _i == 0; i++)
        put(due + i * SPAN + 1, 20 + i, 200);
    checkpoint();
    drop(due + 2 * SPAN + (_i == 0 ? 0 : SPAN / 2) - 1, marked);
    checkpoint();
    const uint64_t left = _i == 0 ? 12 + 4 : 10;
    ck_assert_uint_ge(pending(), left);
    ck_assert_uint_le(pending(), left + (_i == 0 ? 8 : 2));
    advance_to(due + 10 * SPAN);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), (int64_t)left);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Of a span that is dropped in part the part is read first. */
START_TEST(test_pending_of_what_is_dropped_and_read)
{
    const uint64_t due = far_ahead(), step = HWT_MS(20);
    for (uint32_t i = 0; i < 20; i++)
        put(due + i * step, i, 10);
    checkpoint();
    const uint64_t marked = mark();
    kill_and_open();
    drop(due + 9 * step, marked);
    advance_to(due + 10 * step - HWT_SEC(2));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    ck_assert_uint_ge(pending(), 10);
    ck_assert_uint_le(pending(), 20);
    simulated_advance(&s, HWT_SEC(3));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 10);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* What was dropped is off already when it is read, beside later messages of the same span. */
START_TEST(test_pending_of_what_is_put_where_all_was_dropped)
{
    const uint64_t due = far_ahead(), step = HWT_MS(20);
    for (uint32_t i = 0; i < 10; i++)
        put(due + i * step, i, 10);
    put(due + HWT_SEC(10), 10, 10); /* the slot stays for this one */
    checkpoint();
    drop(due + SPAN, mark());
    checkpoint();
    ck_assert_uint_eq(pending(), 1);
    for (uint32_t i = 20; i < 25; i++)
        put(due + i * 2 * step, i, 10);
    checkpoint();
    kill_and_open();
    ck_assert_uint_eq(pending(), 6);
    advance_to(due + 10 * step - HWT_SEC(2)); /* it loads those that were dropped, and no others */
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    ck_assert_uint_eq(pending(), 6);
    kill_and_open();
    ck_assert_uint_eq(pending(), 6);
    advance_to(due + HWT_SEC(20));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 6);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* A checkpoint that leaves the log has the drop as well as the log has it, which comes to it again behind
 * what it has dropped. With as many drops as there can be, they are no more for that. */
START_TEST(test_what_was_dropped_stays_so_behind_a_checkpoint_that_leaves_the_log)
{
    const uint64_t due = s.realtime + HOUR;
    const uint32_t drops = _i == 0 ? 1 : 64;
    for (uint32_t i = 0; i < 200; i++)
        put(due + i, i, 10);
    checkpoint();
    kill_and_open();
    put(due, 300, 10);
    for (uint32_t i = drops; i > 0; i--)
        drop(due + i, mark());
    put(due + 300, 301, 10);
    leave_the_log_and_open(1); /* at the slot */
    simulated_advance(&s, HOUR + 400);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), (int64_t)(200 - drops - 1 + 1));
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Loading has stopped within the instant, as memory has no room for all of it: the drop is kept for the rest. */
START_TEST(test_a_drop_of_an_instant_that_is_loaded_in_part)
{
    enum { MANY = 400 };
    const uint64_t due = s.realtime + HOUR;
    for (uint32_t i = 0; i < MANY; i++)
        put(due, i, 1000);
    put(due + 1, MANY, 10); /* is not dropped, so the slot is read */
    checkpoint();
    const uint64_t marked = mark();
    advance_to(due);
    take_one();
    drop(due, marked);
    checkpoint();
    if (_i == 1)
        kill_and_open();
    advance_to(due + 1);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Each lease under it ends. The last one was put behind the mark. */
START_TEST(test_a_drop_ends_all_leases_that_are_under_it)
{
    uint64_t leases[6];
    const uint64_t due = s.realtime;
    put(due, 5, 10);
    for (uint32_t i = 1; i < 5; i++)
        put(due + 2, i, 10);
    const uint64_t marked = mark();
    put(due + 2, 0, 10); /* behind the mark */
    advance_to(due + 2);
    for (unsigned i = 0; i < 6; i++)
        leases[i] = take_one();
    drop(due + 2, marked);
    ck_assert_uint_eq(simulated_stats(&s).leased, 1);
    ck_assert_uint_eq(pending(), 1);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, 5), 0);
    ck_assert_int_eq(hwt_delay_done(s.store, leases + 5, 1), 1);
    ck_assert_uint_eq(pending(), 0);
    simulated_advance(&s, HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
}
END_TEST

START_TEST(test_drops_that_cover_those_before_need_no_room)
{
    put(s.realtime + HOUR, 1, 10);
    const uint64_t marked = mark();
    for (uint64_t i = 0; i < 100; i++)
        drop(s.realtime + HOUR + i, marked);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* A drop is kept as long as a slot has something that is due at its very instant: where the slot begins, or
 * [1] where deliveries have got to. */
START_TEST(test_a_drop_of_one_instant_is_kept)
{
    const uint64_t begins = ((s.realtime + HOUR) >> 40 << 40) + (UINT64_C(1) << 40);
    const uint64_t due = _i == 0 ? begins : begins + 1;
    unsigned counts[SIMULATED_IDS] = { 0 };
    put(begins, 0, 10);
    put(due, 1, 10);
    const uint64_t up_to = mark();
    put(begins + 5, 2, 10);
    checkpoint();
    if (_i == 1) {
        advance_to(begins);
        ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
        ck_assert_int_eq(simulated_deliver(&s, 1, counts), 1);
        counts[0] = 0;
    }
    drop(due, up_to);
    checkpoint();
    checkpoint();
    kill_and_open();
    advance_to(begins + HOUR);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 1);
    ck_assert_uint_eq(counts[2], 1);
}
END_TEST

/* All that slots have is dropped by a store that was opened since; or [1] before it is opened once more. */
START_TEST(test_a_drop_after_an_opening_gives_all_back)
{
    const uint64_t due = s.realtime + HWT_MIN(10);
    put_many(0, 100, due, 1, 100);
    const uint64_t up_to = mark();
    checkpoint();
    reopen(false);
    if (_i == 1) { /* the process dies before it has made a checkpoint */
        s.process.fail_only = 1 << DISK_RENAME;
        s.process.fail_with = -ENOSPC;
        s.process.fail_at = 1;
        s.process.calls = 0;
        s.process.fail_count = UINT64_MAX;
    }
    drop(due + HWT_SEC(1), up_to);
    if (_i == 1) {
        kill_and_open();
        hwt_delay_checkpointer(s.store); /* as at each opening */
    }
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_pending_drops");
    TCase *tcase = tcase_create("pending_drops");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_pending_of_what_is_dropped, 0, 3);
    tcase_add_loop_test(tcase, test_a_drop_after_an_opening_gives_all_back, 0, 2);
    tcase_add_loop_test(tcase, test_a_drop_of_one_instant_is_kept, 0, 2);
    tcase_add_loop_test(tcase, test_pending_beside_what_is_dropped, 0, 2);
    tcase_add_test(tcase, test_pending_of_a_slot_that_is_dropped_in_part);
    tcase_add_loop_test(tcase, test_pending_of_spans_that_are_dropped, 0, 2);
    tcase_add_test(tcase, test_pending_of_what_is_dropped_and_read);
    tcase_add_test(tcase, test_pending_of_what_is_put_where_all_was_dropped);
    tcase_add_loop_test(
        tcase, test_what_was_dropped_stays_so_behind_a_checkpoint_that_leaves_the_log, 0, 2);
    tcase_add_loop_test(tcase, test_a_drop_of_an_instant_that_is_loaded_in_part, 0, 2);
    tcase_add_test(tcase, test_a_drop_ends_all_leases_that_are_under_it);
    tcase_add_test(tcase, test_drops_that_cover_those_before_need_no_room);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
