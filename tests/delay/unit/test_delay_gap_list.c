/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of gaps beside an array that says of each key whether it is in one. */

#include "kit.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/delay/whole.h"

enum { KEYS = 400, ADDS = 300 };

static hwt_delay *store;
static bool covered[KEYS];
static uint64_t state;

static void set_up(void)
{
    store = calloc(1, sizeof(*store));
    ck_assert_ptr_nonnull(store);
    memset(covered, 0, sizeof(covered));
    state = test_seed();
}

static void tear_down(void)
{
    free(store);
}

/* Four sequence numbers a due time. */
static struct hwt_delay_key key_of(size_t n)
{
    return (struct hwt_delay_key){ n / 4, n % 4 };
}

static bool add(size_t from, size_t to)
{
    return hwt_delay_gap_add(&store->table.gaps,
                             (struct hwt_delay_gap){ key_of(from), key_of(to) });
}

/* True: the array has changed. */
static bool cover(size_t from, size_t to)
{
    bool changed = false;
    for (size_t n = from; n < to; n++) {
        changed = changed || !covered[n];
        covered[n] = true;
    }
    return changed;
}

/* They ascend, and there is something between each two. */
static void check_order(void)
{
    const struct hwt_delay_gaps *gaps = &store->table.gaps;
    must(gaps->count <= HWT_DELAY_GAPS_MAX);
    for (size_t i = 0; i < gaps->count; i++) {
        must(hwt_delay_compare(gaps->all[i].from, gaps->all[i].to) < 0);
        must(i == 0 || hwt_delay_compare(gaps->all[i - 1].to, gaps->all[i].from) < 0);
    }
}

START_TEST(a_key_is_in_a_gap_if_one_was_added_there)
{
    for (int i = 0; i < ADDS; i++) {
        size_t from = test_random(&state) % KEYS, to = from + test_random(&state) % 12;
        if (to > KEYS)
            to = KEYS;
        if (i % 7 == 0) { /* an empty one */
            ck_assert(!add(to, from));
            continue;
        }
        ck_assert_int_eq(add(from, to), cover(from, to));
        check_order();
        for (size_t n = 0; n < KEYS; n++)
            must((hwt_delay_gap_at(store, key_of(n)) != NULL) == covered[n]);
    }
}
END_TEST

START_TEST(gaps_that_touch_become_one)
{
    add(10, 20);
    add(30, 40);
    ck_assert(add(20, 30));
    ck_assert_uint_eq(store->table.gaps.count, 1);
    ck_assert(!add(10, 40));
    ck_assert(!add(15, 20));
    add(50, 60);
    add(70, 80);
    ck_assert(add(5, 75)); /* over one, and into another */
    ck_assert_uint_eq(store->table.gaps.count, 1);
    ck_assert_int_eq(hwt_delay_compare(store->table.gaps.all[0].from, key_of(5)), 0);
    ck_assert_int_eq(hwt_delay_compare(store->table.gaps.all[0].to, key_of(80)), 0);
}
END_TEST

/* One too many is joined with the one beside it, and all that was in a gap still is. */
static void too_many(size_t extra)
{
    for (size_t i = 0; i < HWT_DELAY_GAPS_MAX; i++)
        ck_assert(add(4 + 4 * i, 5 + 4 * i));
    ck_assert_uint_eq(store->table.gaps.count, HWT_DELAY_GAPS_MAX);
    ck_assert(add(extra, extra + 1));
    check_order();
    ck_assert_uint_eq(store->table.gaps.count, HWT_DELAY_GAPS_MAX);
    ck_assert_ptr_nonnull(hwt_delay_gap_at(store, key_of(extra)));
    for (size_t i = 0; i < HWT_DELAY_GAPS_MAX; i++)
        ck_assert_ptr_nonnull(hwt_delay_gap_at(store, key_of(4 + 4 * i)));
}

START_TEST(there_is_a_bound_to_their_number)
{
    static const size_t extras[] = { 0, 4 + 4 * 20 + 2, 4 + 4 * HWT_DELAY_GAPS_MAX + 2 };
    too_many(extras[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("delay_gap_list");
    TCase *tcase = tcase_create("gaps");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_key_is_in_a_gap_if_one_was_added_there);
    tcase_add_test(tcase, gaps_that_touch_become_one);
    tcase_add_loop_test(tcase, there_is_a_bound_to_their_number, 0, 3);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
