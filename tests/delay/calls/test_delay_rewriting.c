/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What rewriting a slot must keep, and what it must leave alone: an end that another slot's message
 * still needs, a slot of which a part cannot be read, and what the same checkpoint has moved already.
 */

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/whole.h"

enum { SIZE = 1000, ROUNDS = 6 };

static unsigned counts[SIMULATED_IDS];

static void start(void)
{
    memset(counts, 0, sizeof(counts));
    simulated_new(&s);
    s.options.segment_size = 4 << 20; /* so much may one checkpoint read, by half */
    s.options.memory = 16 << 20;
    simulated_open(&s);
}

/* Message i is due at due + i; also below. */
static void put_all(uint64_t due, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        put(due + i, i, SIZE);
}

static void cancel_all(uint64_t due, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        cancel(due + i, i);
}

static void some_checkpoints(void)
{
    for (int i = 0; i < ROUNDS; i++)
        checkpoint();
}

/* An instant that is the beginning of a slot of 2^shift ns, and at least so far ahead. */
static uint64_t slot_ahead(uint64_t ahead, unsigned shift)
{
    return (((s.realtime + ahead) >> shift) + 1) << shift;
}

/* The slot that was made last of those that are 2^shift ns long; its number is 0: there is none. */
static struct hwt_delay_slot slot_of(unsigned shift)
{
    struct hwt_delay_slot slot, last = { 0 };
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        if (hwt_delay_slot_parse(s.disk->seen.entries[i].name, &slot) && slot.shift == shift &&
            slot.number > last.number)
            last = slot;
    }
    return last;
}

static struct hwt_delay_slot longest_slot(void)
{
    unsigned shift = 63;
    while (slot_of(shift).number == 0)
        shift--;
    return slot_of(shift);
}

/*
 * The message is in a long slot, which stays. Its end is in a short one, which is rewritten. [1]: so are
 * another message with its identity, and the end of that one.
 */
START_TEST(test_an_end_that_another_slot_needs_stays)
{
    enum { MESSAGE, STAY, STAY_END = 200, BULK_END = 400 };
    const uint64_t due = slot_ahead(HWT_SEC(10 * 86400), 33);
    put_all(due, MESSAGE, STAY_END);
    checkpoint();
    const struct hwt_delay_slot stays = longest_slot();
    advance_to(due - HWT_SEC(8));
    cancel(due + MESSAGE, MESSAGE);
    checkpoint();
    if (_i == 1) {
        put(due + MESSAGE, MESSAGE, SIZE);
        checkpoint();
        cancel(due + MESSAGE, MESSAGE);
    }
    put_all(due, STAY_END, BULK_END);
    checkpoint();
    const struct hwt_delay_slot rewritten = slot_of(30);
    cancel_all(due, STAY_END, BULK_END);
    some_checkpoints();
    const struct hwt_delay_slot stayed = slot_of(stays.shift), later = slot_of(30);
    kill_and_open();
    ck_assert_int_eq(simulated_list(&s, counts), 0);
    ck_assert_uint_eq(counts[MESSAGE], 0);
    advance_to(due + HWT_SEC(1));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), STAY_END - STAY);
    ck_assert_uint_eq(counts[MESSAGE], 0);
    ck_assert_uint_eq(stayed.number, stays.number);
    ck_assert_uint_gt(later.number, rewritten.number);
}
END_TEST

/* A part of a slot cannot be read, and the slot's position is so far behind it that reading begins behind it,
 * too. Nearly all of the rest is cancelled. */
START_TEST(test_a_slot_with_a_gap_is_not_rewritten)
{
    enum { MANY = 1200, DELIVERED = 520, STEP_MS = 400 };
    const uint64_t due = slot_ahead(HWT_SEC(3 * 3600), 40);
    for (uint32_t i = 0; i < MANY; i++)
        put(due + i * HWT_MS(STEP_MS), i, SIZE);
    checkpoint();
    const struct hwt_delay_slot slot = longest_slot();
    char name[HWT_DELAY_NAME_MAX];
    hwt_delay_slot_name(&slot, name);
    simulated_close(&s);
    disk_flip(disk_find(s.disk, name), disk_find(s.disk, name)->seen.size / 16, 1);
    simulated_open(&s);
    advance_to(due + (DELIVERED - 1) * HWT_MS(STEP_MS));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -EBADMSG);
    uint32_t missing = 0;
    for (uint32_t i = 0; i < DELIVERED; i++)
        missing += counts[i] == 0;
    ck_assert_uint_gt(missing, 2);
    ck_assert_uint_lt(missing, DELIVERED / 2);
    checkpoint();
    kill_and_open();
    for (uint32_t i = DELIVERED + 1; i < MANY; i++)
        cancel(due + i * HWT_MS(STEP_MS), i);
    some_checkpoints();
    ck_assert_uint_eq(longest_slot().number, slot.number);
    simulated_close(&s);
    s.options.flags = HWT_DELAY_SALVAGE;
    simulated_open(&s);
    advance_to(due + MANY * HWT_MS(STEP_MS));
    /* Both ends of the gap can be read, and the one that is left of the rest. */
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 3);
}
END_TEST

/* What ids have in common is told once in a slot, so few cancels are little of it, however long the ids are. */
START_TEST(test_a_slot_of_which_little_is_dead_is_not_rewritten)
{
    enum { MANY = 1000, FEW = 100, LONG = 240 };
    const uint64_t due = slot_ahead(HWT_SEC(3 * 3600), 40);
    char id[LONG];
    memset(id, 'a', LONG);
    for (uint32_t i = 0; i < MANY; i++) {
        memcpy(id + LONG - sizeof(i), &i, sizeof(i));
        const hwt_delay_message message = { .due = due + i, .id = id, .id_size = LONG };
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    }
    checkpoint();
    const struct hwt_delay_slot slot = longest_slot();
    for (uint32_t i = 0; i < MANY * 3 / 4; i++) {
        memcpy(id + LONG - sizeof(i), &i, sizeof(i));
        ck_assert_int_eq(hwt_delay_cancel(s.store, due + i, id, LONG), 0);
        if (i + 1 == FEW) {
            some_checkpoints();
            ck_assert_uint_eq(longest_slot().number, slot.number);
        }
    }
    some_checkpoints();
    ck_assert_uint_gt(longest_slot().number, slot.number);
}
END_TEST

/* One checkpoint moves the messages and then their ends, which nothing needs any more. */
START_TEST(test_what_was_moved_needs_no_end)
{
    enum { MANY = 50 };
    const uint64_t due = slot_ahead(HWT_MIN(5), 34);
    put_all(due, 0, MANY);
    checkpoint();
    advance_to(due - HWT_SEC(150));
    cancel_all(due, 0, MANY);
    checkpoint();
    ck_assert_uint_eq(simulated_stats(&s).files, 2);
    checkpoint();
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* More is due at the first instant than one stretch has, and most of it was cancelled. */
START_TEST(test_a_slot_that_is_cut_at_the_first_instant_is_moved)
{
    enum { MANY = 1500, LEFT = 200 };
    simulated_free(&s);
    simulated_new(&s);
    s.options.segment_size = 4 << 20; /* so that one checkpoint moves several stretches */
    simulated_open(&s);
    for (uint32_t i = 0; i < MANY; i++)
        put(0, i, 300);
    checkpoint();
    for (uint32_t i = LEFT; i < MANY; i++)
        cancel(0, i);
    for (int i = 0; i < 4 * ROUNDS; i++)
        checkpoint();
    ck_assert_uint_lt(hwt_delay_slots_bytes(s.store), MANY * 300 / 2);
    kill_and_open();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), LEFT);
    expect_counts(counts, 0, LEFT, 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_rewriting");
    TCase *tcase = tcase_create("rewriting");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_loop_test(tcase, test_an_end_that_another_slot_needs_stays, 0, 2);
    tcase_add_test(tcase, test_a_slot_with_a_gap_is_not_rewritten);
    tcase_add_test(tcase, test_what_was_moved_needs_no_end);
    tcase_add_test(tcase, test_a_slot_of_which_little_is_dead_is_not_rewritten);
    tcase_add_test(tcase, test_a_slot_that_is_cut_at_the_first_instant_is_moved);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
