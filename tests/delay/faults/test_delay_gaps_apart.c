/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Damage in two slots that is found one after the other: what the first gap keeps back is still there when the
 * second one is found, and comes with salvage. */

#include "tests/delay/support/simulated.h"

#include "hwt/delay/whole.h"

enum { MANY = 1200, SIZE = 120 };

static struct simulated s;
static uint64_t start;
static unsigned counts[SIMULATED_IDS];

static void begin(void)
{
    simulated_new(&s);
    s.options.segment_size = 1 << 20;
    simulated_open(&s);
    start = s.realtime + HWT_SEC(3 * 3600); /* in slots of 512 s */
    memset(counts, 0, sizeof(counts));
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(simulated_put(&s, start + i * HWT_SEC(2), i, SIZE), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_close(&s);
}

static void end(void)
{
    simulated_free(&s);
}

/* A block in the middle of slot number `number`; when that ends. */
static uint64_t damage(uint64_t number)
{
    struct hwt_delay_slot slot;
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        const struct disk_entry *entry = &s.disk->seen.entries[i];
        if (!hwt_delay_slot_parse(entry->name, &slot) || slot.number != number)
            continue;
        disk_flip(entry->file, entry->file->seen.size / 2, 1);
        return hwt_delay_slot_last(&slot);
    }
    ck_abort_msg("no such slot");
}

/* All that is due then but for what is in a gap; a new one is told. */
static void deliver_up_to(uint64_t due, uint64_t gaps)
{
    simulated_advance(&s, due - s.realtime);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), -EBADMSG);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).gaps, gaps);
}

/* [1]: a checkpoint says where the first one is, before the second one is found. */
START_TEST(what_the_first_gap_has_is_there_when_the_second_is_found)
{
    unsigned left[SIMULATED_IDS] = { 0 }, readable = 0;
    uint64_t first = damage(2), second = damage(4);
    ck_assert_uint_lt(first, second);
    simulated_open(&s);
    deliver_up_to(first, 1);
    if (_i == 1)
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    deliver_up_to(start + HWT_SEC(2 * MANY), 2);
    ck_assert_int_eq(simulated_list(&s, left), -EBADMSG);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    const uint64_t pending = simulated_stats(&s).pending;
    simulated_kill(&s);
    s.options.flags = HWT_DELAY_SALVAGE;
    simulated_open(&s);
    ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
    ck_assert_uint_le(simulated_stats(&s).pending, pending); /* none counts twice */
    ck_assert_int_ge(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).pending, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        readable += left[i];
        ck_assert_uint_le(counts[i], 1);
        ck_assert(counts[i] == 1 || left[i] == 0);
    }
    ck_assert_uint_eq(readable, 0); /* what cannot be read may cancel the rest of both */
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_gaps_apart");
    TCase *tcase = tcase_create("gaps");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, what_the_first_gap_has_is_there_when_the_second_is_found, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
