/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What was cancelled or replaced gives its disk back before it is due. */

#include "tests/delay/support/simulated.h"

enum { MANY = 4000, SIZE = 200, ROUNDS = 12 };

static struct simulated s;
static bool gone[MANY];
static uint64_t dues[MANY];

static void begin(void)
{
    simulated_new(&s);
    s.options.segment_size = 256 << 10;
    s.options.payload_max = 8192;
    simulated_open(&s);
    memset(gone, 0, sizeof(gone));
}

static void end(void)
{
    simulated_free(&s);
}

/* About so much is on the disk whatever is pending. */
static uint64_t fixed(void)
{
    return 3 * s.options.segment_size + (64 << 10);
}

static void put(uint32_t i, uint64_t due)
{
    dues[i] = due;
    ck_assert_int_eq(simulated_put(&s, due, i, SIZE), 0);
}

static void cancel(uint32_t i)
{
    ck_assert_int_eq(hwt_delay_cancel(s.store, dues[i], &i, sizeof(i)), 0);
    gone[i] = true;
}

static uint64_t left(void)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < MANY; i++)
        count += !gone[i];
    return count;
}

/* As checkpoints are made while the store lives on. */
static void some_checkpoints(void)
{
    for (int i = 0; i < ROUNDS; i++)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
}

/* At most twice what is pending. */
static void expect_little(void)
{
    const uint64_t each = SIZE + 4 + 24;
    hwt_delay_stats stats = simulated_stats(&s);
    ck_assert_uint_eq(stats.pending, left());
    ck_assert_msg(stats.disk <= 2 * left() * each + fixed(), "%llu bytes for %llu",
                  (unsigned long long)(stats.disk - fixed()), (unsigned long long)(left() * each));
}

static void expect_what_is_left(void)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    ck_assert_int_eq(simulated_list(&s, counts), 0);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(counts[i], !gone[i]);
    memset(counts, 0, sizeof(counts));
    simulated_advance(&s, HWT_SEC(40 * 86400));
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), left());
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(counts[i], !gone[i]);
}

static void expect_the_rest(void)
{
    expect_what_is_left();
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}

static void reopen(bool killed)
{
    if (killed)
        simulated_kill(&s);
    else
        simulated_close(&s);
    simulated_open(&s);
}

/* Cancelled soon, so that the tombstones get into the same slots. */
START_TEST(test_cancelled_at_once)
{
    for (uint32_t i = 0; i < MANY; i++)
        put(i, s.realtime + HWT_MIN(60) + i * HWT_SEC(1));
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        if (i % 8 != 0)
            cancel(i);
    }
    if (_i == 2) /* what is dead is known to the checkpoint */
        reopen(true);
    some_checkpoints();
    expect_little();
    if (_i == 1)
        reopen(true);
    expect_the_rest();
}
END_TEST

/* By processes that each cancel some, make one checkpoint, and end: each one's count goes on. */
START_TEST(test_cancelled_by_many_processes)
{
    for (uint32_t i = 0; i < MANY; i++)
        put(i, s.realtime + HWT_MIN(60) + i * HWT_SEC(1));
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t round = 0; round < 7; round++) {
        for (uint32_t i = round; i < MANY; i += 8)
            cancel(i);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        reopen(_i == 1);
    }
    some_checkpoints();
    expect_little();
    expect_the_rest();
}
END_TEST

/* A message alone in a long slot, and its tombstone in a shorter one: both go, though heads are
 * most of them. */
START_TEST(test_cancelled_alone)
{
    put(0, s.realtime + HWT_SEC(30 * 86400));
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_advance(&s, HWT_SEC(29 * 86400));
    cancel(0);
    some_checkpoints();
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
}
END_TEST

/* In ten rounds, as time passes: the messages are in long slots, the tombstones in shorter ones. */
START_TEST(test_cancelled_as_time_passes)
{
    for (uint32_t i = 0; i < MANY; i++)
        put(i, s.realtime + HWT_SEC(10 * 86400) + i * HWT_SEC(60));
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t round = 0; round < 10; round++) {
        simulated_advance(&s, HWT_SEC(86400) * 9 / 10);
        for (uint32_t i = round; i < MANY; i += 10) {
            if (i % 16 != 5)
                cancel(i);
        }
        some_checkpoints();
        if (_i == 1)
            reopen(round % 2);
    }
    expect_little();
    expect_the_rest();
}
END_TEST

/* Replaced by others that are due later, again and again. */
START_TEST(test_replaced_again_and_again)
{
    for (uint32_t i = 0; i < MANY; i++)
        put(i, s.realtime + HWT_MIN(30) + i * HWT_MS(100));
    for (int round = 0; round < 6; round++) {
        unsigned char payload[SIZE];
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        simulated_advance(&s, HWT_MIN(3));
        for (uint32_t i = 0; i < MANY; i++) {
            memset(payload, (int)(i * 7 + 1), sizeof(payload));
            const hwt_delay_message message = {
                .due = s.realtime + HWT_MIN(30) + i * HWT_MS(100),
                .id = &i,
                .id_size = sizeof(i),
                .payload = payload,
                .payload_size = sizeof(payload),
            };
            ck_assert_int_eq(hwt_delay_replace(s.store, dues[i], &i, sizeof(i), &message), 0);
            dues[i] = message.due;
        }
    }
    some_checkpoints();
    expect_little();
    expect_the_rest();
}
END_TEST

/* A cancel of what is not there costs nothing that is there. */
START_TEST(test_cancels_of_nothing)
{
    for (uint32_t i = 0; i < MANY; i++)
        put(i, s.realtime + HWT_MIN(60) + i * HWT_SEC(1));
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t other = MANY + i;
        ck_assert_int_eq(hwt_delay_cancel(s.store, dues[i], &other, sizeof(other)), 0);
    }
    some_checkpoints();
    ck_assert_uint_le(simulated_stats(&s).disk, fixed() + 2 * MANY * (SIZE + 28));
    expect_the_rest();
}
END_TEST

/* A slot that is longer than what one checkpoint may move. */
START_TEST(test_a_long_slot_is_moved_in_parts)
{
    uint64_t due = s.realtime + HWT_SEC(10 * 86400);
    for (uint32_t i = 0; i < MANY; i++)
        put(i, due + i);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        if (i % 3 != 0)
            cancel(i);
    }
    for (int i = 0; i < 4 * ROUNDS; i++) {
        uint64_t before = simulated_stats(&s).slot_bytes;
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        ck_assert_uint_le(simulated_stats(&s).slot_bytes - before, 512 << 10);
        if (_i == 1)
            reopen(true);
    }
    expect_little();
    expect_the_rest();
}
END_TEST

/* More at one instant than memory has room for, in a long slot and in a short one. What is cancelled has its
 * message in the one and its tombstone in the other, which is rewritten in parts. */
START_TEST(test_an_instant_of_two_slots)
{
    uint64_t due = s.realtime + HWT_SEC(10 * 86400);
    for (uint32_t i = 0; i < MANY; i++) {
        if (i == MANY / 2) {
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
            simulated_advance(&s, HWT_SEC(10 * 86400) - HWT_SEC(8));
            ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
        }
        put(i, due);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        if (i < MANY / 2 ? i % 8 == 0 : i % 8 != 0)
            cancel(i);
        if (i % 200 == 0)
            ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    some_checkpoints();
    if (_i == 1)
        reopen(true);
    expect_what_is_left();
    some_checkpoints();
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
    ck_assert_uint_eq(simulated_stats(&s).files, 0);
}
END_TEST

static const char *largest_slot(void)
{
    const struct disk_entry *largest = NULL;
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        const struct disk_entry *entry = &s.disk->seen.entries[i];
        if (strncmp(entry->name, "slot-", 5) == 0 &&
            (!largest || entry->file->seen.size > largest->file->seen.size))
            largest = entry;
    }
    ck_assert(largest);
    return largest->name;
}

/* Its messages go soon by themselves: they are not written once more. */
START_TEST(test_a_slot_of_which_some_is_loaded_stays)
{
    const uint64_t start = s.realtime + HWT_SEC(30 * 86400);
    char name[64];
    for (uint32_t i = 0; i < MANY; i++)
        put(i, start + i * HWT_SEC(1));
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    snprintf(name, sizeof(name), "%s", largest_slot());
    simulated_advance(&s, start - s.realtime + HWT_SEC(100));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 101);
    for (uint32_t i = 0; i < MANY; i++) {
        gone[i] = i <= 100;
        if (i > 200 && i % 8 != 0)
            cancel(i);
    }
    some_checkpoints();
    ck_assert(disk_find(s.disk, name));
    expect_the_rest();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_space");
    TCase *tcase = tcase_create("space");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_cancelled_at_once, 0, 3);
    tcase_add_loop_test(tcase, test_cancelled_by_many_processes, 0, 2);
    tcase_add_test(tcase, test_cancelled_alone);
    tcase_add_loop_test(tcase, test_cancelled_as_time_passes, 0, 2);
    tcase_add_test(tcase, test_replaced_again_and_again);
    tcase_add_test(tcase, test_cancels_of_nothing);
    tcase_add_test(tcase, test_a_slot_of_which_some_is_loaded_stays);
    tcase_add_loop_test(tcase, test_a_long_slot_is_moved_in_parts, 0, 2);
    tcase_add_loop_test(tcase, test_an_instant_of_two_slots, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
