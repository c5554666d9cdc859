/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What hwt_delay_next() says, and what it costs: each commit asks, under the lock. */

#include "tests/delay/support/simulated.h"

#include "hwt/delay/whole.h"

enum { MANY = 100 };

static struct simulated s;
static uint64_t steps; /* from one record of the table to the next */

struct hwt_delay_record *__real_hwt_delay_keys_RB_NEXT(struct hwt_delay_record *record);
struct hwt_delay_record *__wrap_hwt_delay_keys_RB_NEXT(struct hwt_delay_record *record);

struct hwt_delay_record *__wrap_hwt_delay_keys_RB_NEXT(struct hwt_delay_record *record)
{
    steps++;
    return __real_hwt_delay_keys_RB_NEXT(record);
}

static void begin(void)
{
    simulated_new(&s);
    simulated_open(&s);
}

static void end(void)
{
    simulated_free(&s);
}

START_TEST(test_what_was_cancelled_is_not_walked_over)
{
    uint64_t due = s.realtime + HWT_MIN(30);
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(simulated_put(&s, due + i, i, 10), 0);
        ck_assert_int_eq(hwt_delay_cancel(s.store, due + i, &i, sizeof(i)), 0);
    }
    ck_assert_int_eq(simulated_put(&s, due + MANY, MANY, 10), 0);
    steps = 0;
    uint64_t next = hwt_delay_next(s.store);
    ck_assert_uint_lt(steps, MANY / 10);
    ck_assert_uint_ge(next, due);
    ck_assert_uint_le(next, due + MANY);
    simulated_advance(&s, HWT_MIN(29));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    ck_assert_uint_gt(hwt_delay_next(s.store), s.realtime);
    simulated_advance(&s, HWT_MIN(1) + MANY);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 1);
}
END_TEST

/* A look at what was cancelled removes it: the next instant is a later one. */
START_TEST(test_what_was_cancelled_is_next_once)
{
    uint64_t due = s.realtime + HWT_MIN(30);
    uint32_t id = 1;
    ck_assert_int_eq(simulated_put(&s, due, id, 10), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(hwt_delay_cancel(s.store, due, &id, sizeof(id)), 0);
    simulated_advance(&s, HWT_MIN(30));
    ck_assert_uint_le(hwt_delay_next(s.store), s.realtime);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 0);
    ck_assert_uint_gt(hwt_delay_next(s.store), s.realtime);
}
END_TEST

/* The clock's sum with what is left of the lease has no room in a number. */
START_TEST(test_a_lease_that_hardly_ever_ends)
{
    const hwt_delay_message *taken;
    uint64_t lease = HWT_NEVER - HWT_SEC(1000);
    simulated_close(&s);
    if (_i == 0)
        s.options.lease = lease;
    simulated_open(&s);
    ck_assert_int_eq(simulated_put(&s, s.realtime, 1, 10), 0);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    if (_i == 1)
        ck_assert_int_eq(hwt_delay_extend(s.store, taken->lease, lease), 0);
    ck_assert_uint_gt(hwt_delay_next(s.store), s.realtime);
    hwt_delay_free(taken);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_next");
    TCase *tcase = tcase_create("next");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_what_was_cancelled_is_not_walked_over);
    tcase_add_test(tcase, test_what_was_cancelled_is_next_once);
    tcase_add_loop_test(tcase, test_a_lease_that_hardly_ever_ends, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
