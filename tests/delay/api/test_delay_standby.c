/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A store that stands by hands nothing over until it leads; and how far the frontier goes. */

#include <poll.h>

#include "tests/delay/support/delay_fixture.h"

static hwt_delay *store;

static void open_store(uint32_t flags)
{
    hwt_delay_options options = small_options();
    options.flags |= flags;
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
}

static void setup(void)
{
    make_directory_name();
    open_store(0);
}

static void teardown(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    remove_store();
}

static void reopen(uint32_t flags)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    open_store(flags);
}

static void put(uint64_t due, const char *id)
{
    const hwt_delay_message message = message_of(due, id, "payload");
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
}

/* Takes one; its lease, and the frontier. */
static uint64_t take(uint64_t *ret_frontier)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take_frontier(store, 1, 0, &taken, ret_frontier), 1);
    uint64_t lease = taken->lease;
    hwt_delay_free(taken);
    return lease;
}

static bool is_readable(void)
{
    struct pollfd look = { .fd = hwt_delay_fd(store), .events = POLLIN };
    return poll(&look, 1, 0) == 1;
}

START_TEST(a_store_that_stands_by_hands_nothing_over)
{
    const hwt_delay_message *taken;
    put(1, "a");
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    reopen(HWT_DELAY_STANDBY);
    put(2, "b");
    ck_assert_int_eq(hwt_delay_take(store, 1, 0, &taken), -EPERM);
    ck_assert_int_eq(hwt_delay_take(store, 1, HWT_NEVER, &taken), -EPERM);
    ck_assert(!is_readable());
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_cancel(store, 2, "b", 1), 0);
    ck_assert(!is_readable());
    ck_assert_int_eq(hwt_delay_lead(store), 0);
    ck_assert(is_readable());
    ck_assert_int_eq(hwt_delay_take(store, 9, HWT_NEVER, &taken), 1);
    ck_assert_uint_eq(taken->due, 1);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_lead(store), 0);
    ck_assert_int_eq(hwt_delay_lead(NULL), -EINVAL);
    reopen(0);
    ck_assert_int_eq(hwt_delay_take(store, 9, HWT_NEVER, &taken), 1);
    hwt_delay_free(taken);
}
END_TEST

/* No slot has anything, so nothing is to be loaded that would wake the loop later. */
START_TEST(who_leads_is_told_of_what_memory_has)
{
    const hwt_delay_message *taken;
    reopen(HWT_DELAY_STANDBY);
    put(1, "a");
    ck_assert(!is_readable());
    ck_assert_int_eq(hwt_delay_lead(store), 0);
    ck_assert(is_readable());
    ck_assert_int_eq(hwt_delay_take(store, 9, 0, &taken), 1);
    hwt_delay_free(taken);
}
END_TEST

START_TEST(the_frontier_is_before_what_is_left)
{
    const hwt_delay_message *taken;
    uint64_t frontier, now = hwt_delay_now(store);
    put(1, "a");
    put(5, "b");
    put(9, "c");
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    reopen(0);
    take(&frontier);
    ck_assert_uint_eq(frontier, 5);
    uint64_t lease = take(&frontier);
    ck_assert_uint_eq(frontier, 9);
    ck_assert_int_eq(hwt_delay_extend(store, lease, 0), 0);
    lease = take(&frontier); /* the one whose lease has ended */
    ck_assert_uint_eq(frontier, 9);
    ck_assert_int_eq(hwt_delay_retry(store, lease, 7), 0);
    take(&frontier);
    ck_assert_uint_eq(frontier, 9);
    take(&frontier);
    ck_assert_uint_ge(frontier, now);
    ck_assert_uint_le(frontier, hwt_delay_now(store) + 1);
    put(hwt_delay_now(store) + HWT_MIN(60), "d");
    ck_assert_int_eq(hwt_delay_take_frontier(store, 1, 0, &taken, &frontier), 0);
    ck_assert_uint_ge(frontier, now);
    ck_assert_int_eq(hwt_delay_take_frontier(store, 1, 0, &taken, NULL), -EINVAL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_standby");
    TCase *tcase = tcase_create("standby");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_store_that_stands_by_hands_nothing_over);
    tcase_add_test(tcase, who_leads_is_told_of_what_memory_has);
    tcase_add_test(tcase, the_frontier_is_before_what_is_left);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
