/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tickets of messages that have been moved to the edge of a slot, or whose lease has ended. */

#include "tests/delay/support/simulated_one.h"

#include "hwt/delay/whole.h"

static char ticket[HWT_DELAY_TICKET_MAX];

static void put_with_ticket(uint64_t due)
{
    const uint32_t number = 0;
    const hwt_delay_message message = { .due = due, .id = &number, .id_size = sizeof(number) };
    put(due, number, 100);
    ck_assert_int_gt(hwt_delay_ticket(&message, ticket, sizeof(ticket)), 0);
}

/* The last or [1] the first nanosecond of a slot that is about ten days ahead. */
static uint64_t edge(bool last)
{
    uint64_t due = s.realtime + 10 * DAY;
    const unsigned shift = hwt_delay_wheel_shift(due, s.realtime);
    due = due >> shift << shift;
    due += last ? (UINT64_C(1) << shift) - 1 : 0;
    ck_assert_uint_eq(hwt_delay_wheel_shift(due, s.realtime), shift);
    return due;
}

START_TEST(one_at_the_edge_of_a_slot_is_found)
{
    const hwt_delay_message *found;
    const uint64_t first = s.realtime + HOUR, due = edge(_i == 0);
    put_with_ticket(first);
    ck_assert_int_eq(hwt_delay_move(s.store, ticket, due), 0);
    checkpoint();
    kill_and_open();
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), 0);
    ck_assert_uint_eq(found->due, due);
    ck_assert_uint_eq(found->first_due, first);
    hwt_delay_free(found);
    ck_assert_int_eq(hwt_delay_cancel_ticket(s.store, ticket), 0);
    ck_assert_uint_eq(pending(), 0);
}
END_TEST

/* Nobody has taken since, and so ended it. */
START_TEST(a_lease_that_has_ended_is_not_told)
{
    const hwt_delay_message *found;
    put_with_ticket(s.realtime);
    const uint64_t lease = take_one();
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), 0);
    ck_assert_uint_eq(found->lease, lease);
    hwt_delay_free(found);
    simulated_advance(&s, s.store->options.lease);
    ck_assert_int_eq(hwt_delay_look_up(s.store, ticket, &found), 0);
    ck_assert_uint_eq(found->lease, 0);
    ck_assert_uint_eq(found->expired, 1);
    hwt_delay_free(found);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_tickets_moved");
    TCase *tcase = tcase_create("tickets");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, one_at_the_edge_of_a_slot_is_found, 0, 2);
    tcase_add_test(tcase, a_lease_that_has_ended_is_not_told);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
