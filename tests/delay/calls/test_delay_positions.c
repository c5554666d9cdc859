/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How far a slot has been dealt with never goes down, and is known of one that is only being filled. */

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/whole.h"

static unsigned counts[SIMULATED_IDS];

static void start(void)
{
    memset(counts, 0, sizeof(counts));
    begin();
}

/* What is put below what was delivered is in another slot. [1]: a checkpoint before it was put, too. */
START_TEST(test_what_is_put_below_takes_no_position_back)
{
    enum { MANY = 10 };
    const uint64_t due = s.realtime + HOUR;
    for (uint32_t i = 0; i < MANY; i++)
        put(due + i, i, 10);
    checkpoint();
    advance_to(due + MANY / 2);
    ck_assert_int_eq(simulated_deliver(&s, MANY / 2, counts), MANY / 2);
    if (_i == 1)
        checkpoint();
    put(due, MANY, 10);
    checkpoint();
    kill_and_open();
    advance_to(due + MANY);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), MANY / 2 + 1);
    for (uint32_t i = 0; i <= MANY; i++)
        ck_assert_uint_eq(counts[i], 1);
}
END_TEST

static uint64_t later;

/* A checkpoint has made the slot and nothing is in it: all that is to get there is handed over now. */
static void deliver_meanwhile(void *arg, enum disk_call call, const char *name)
{
    (void)arg;
    if (call != DISK_WRITE || !name || strncmp(name, "slot-", 5) != 0)
        return;
    s.process.changed = NULL;
    advance_to(later);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 2);
}

START_TEST(test_loading_passes_a_slot_that_is_being_filled)
{
    later = s.realtime + HWT_SEC(10);
    put(s.realtime + HWT_SEC(3), 0, 10);
    put(s.realtime + HWT_SEC(3) + 1, 1, 10);
    s.process.changed = deliver_meanwhile;
    checkpoint();
    ck_assert_uint_eq(counts[0] + counts[1], 2);
    checkpoint(); /* the log does not say any more that they are done */
    kill_and_open();
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_positions");
    TCase *tcase = tcase_create("positions");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_loop_test(tcase, test_what_is_put_below_takes_no_position_back, 0, 2);
    tcase_add_test(tcase, test_loading_passes_a_slot_that_is_being_filled);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
