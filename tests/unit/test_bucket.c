/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One bucket: order, visits that are interrupted, growth, rounds that wrap around, want of memory. */

#include "bucket_fixture.h"

/* The batch begins with those from `from` to `to`. */
static void expect_batch(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        must(batch[i - from] == i);
}

/* ---- order ---- */

START_TEST(those_of_a_round_are_taken_in_the_order_of_adding)
{
    enum { ROUNDS = 7 };
    for (uint32_t i = 0; i < MANY; i++)
        add(i, i % ROUNDS, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ck_assert_uint_eq(bucket.least, round);
        size_t n = take_round(round, 13);
        ck_assert_uint_eq(n, MANY / ROUNDS + (round < MANY % ROUNDS));
        for (size_t i = 0; i < n; i++)
            must(batch[i] == i * ROUNDS + round);
    }
    ck_assert_uint_le(bytes_held(), KEPT_BYTES);
}
END_TEST

START_TEST(two_hints_of_one_id_are_both_taken)
{
    const struct hwt_hint twice[] = { { 3, 5, 8 }, { 3, 5, 9 }, { 3, 5, 8 }, { 4, 5, 8 } };
    struct hwt_hint hints[4];
    for (int i = 0; i < 4; i++)
        must(hwt_bucket_add(&bucket, twice[i], 0, &all_pieces) == 0);
    ck_assert_uint_eq(hwt_bucket_take(&bucket, hints, 4, &all_pieces), 3);
    ck_assert_uint_eq(hwt_bucket_take(&bucket, hints + 3, 1, &all_pieces), 1);
    ck_assert_mem_eq(hints, twice, sizeof(twice));
}
END_TEST

START_TEST(a_cleared_bucket_is_as_good_as_new)
{
    for (uint32_t i = 0; i < MANY; i++)
        add(i, i % 11, 0);
    take(0, 5);
    hwt_bucket_clear(&bucket, &all_pieces);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    ck_assert_ptr_null(hwt_bucket_peek(&bucket));
    verify(0);
    ck_assert_uint_eq(bytes_held(), 0);
    for (uint32_t i = 0; i < 100; i++)
        add(i, 3, 0);
    ck_assert_uint_eq(bucket.least, 3);
    ck_assert_uint_eq(take_round(3, 7), 100);
    expect_batch(0, 100);
}
END_TEST

START_TEST(the_next_to_be_taken_is_told_ahead)
{
    ck_assert_ptr_null(hwt_bucket_peek(&bucket));
    for (uint32_t i = 0; i < 9; i++)
        add(i, 1 + i % 2, 0);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 0);
    ck_assert_uint_eq(take_round(1, 2), 5); /* looks at what it was told each time */
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 1);
    add(9, 1, 1);
    ck_assert_ptr_null(hwt_bucket_peek(&bucket)); /* before it is sorted in */
    ck_assert_uint_eq(take_round(1, 2), 1);
    ck_assert_uint_eq(batch[0], 9);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 1);
}
END_TEST

/* Once they are sorted. */
START_TEST(the_next_is_told_where_others_lie_before_it)
{
    for (uint32_t i = 0; i < 40; i++)
        add(i, i < 20 ? 9 : 10 - i / 10, 0);
    ck_assert_ptr_null(hwt_bucket_peek(&bucket));
    ck_assert_uint_eq(take(0, 1), 1);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 31); /* of round 7 */
    ck_assert_uint_eq(take_round(7, MANY), 9);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 20);
    ck_assert_uint_eq(take_round(8, MANY), 10);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 0);
    ck_assert_uint_eq(take_round(9, MANY), 20);
    ck_assert_ptr_null(hwt_bucket_peek(&bucket));
}
END_TEST

/* ---- interrupted visits ---- */

START_TEST(one_added_while_its_round_is_taken_comes_last)
{
    for (uint32_t i = 0; i < 6; i++)
        add(i, 5, 5);
    ck_assert_uint_eq(take(0, 4), 4);
    verify(5);
    for (uint32_t i = 6; i < 40; i++)
        add(i, 5, 5);
    ck_assert_uint_eq(take_round(5, 64), 36);
    expect_batch(4, 40);
}
END_TEST

START_TEST(those_of_later_rounds_added_while_one_is_taken_wait)
{
    for (uint32_t i = 0; i < 60; i++)
        add(i, 5 + i % 3, 5);
    ck_assert_uint_eq(take(0, 7), 7);
    for (uint32_t i = 60; i < 120; i++)
        add(i, 5 + i % 3, 5);
    ck_assert_uint_eq(take_round(5, 7), 33);
    for (uint32_t round = 6; round < 8; round++) {
        ck_assert_uint_eq(bucket.least, round);
        ck_assert_uint_eq(take_round(round, 7), 40);
        for (uint32_t i = 0; i < 40; i++)
            must(batch[i] == 3 * i + round - 5);
    }
}
END_TEST

/* The soonest of those that were passed over is the next, if it is before what was added. */
START_TEST(after_a_visit_the_least_is_found_among_old_and_new)
{
    for (uint32_t added = 6; added < 10; added++) {
        for (uint32_t i = 0; i < 10; i++)
            add(i, i < 5 ? 7 + i : 5, 5);
        ck_assert_uint_eq(take(0, 2), 2);
        add(10, added, 5);
        ck_assert_uint_eq(take_round(5, 2), 3);
        ck_assert_uint_eq(bucket.least, added == 6 ? 6 : 7);
        if (added > 6) /* it is sorted */
            ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 0);
        ck_assert_uint_eq(take(0, 1), 1);
        ck_assert_uint_eq(batch[0], added == 6 ? 10 : 0);
        hwt_bucket_clear(&bucket, &all_pieces);
    }
}
END_TEST

/* Of 0 .. 29, in turn of rounds 20, 21, 22, the first few of round 20 were taken. */
static void begin_visit_of_20(size_t taken)
{
    for (uint32_t i = 0; i < 30; i++)
        add(i, 20 + i % 3, 5);
    ck_assert_uint_eq(take(0, taken), taken);
    verify(5);
}

START_TEST(an_earlier_round_added_while_one_is_taken_comes_first)
{
    for (size_t taken = 1; taken < 10; taken++) {
        begin_visit_of_20(taken);
        for (uint32_t i = 30; i < 40; i++)
            add(i, 10 + (39 - i) / 5, 5); /* the later ones first */
        for (uint32_t round = 10; round < 12; round++) {
            ck_assert_uint_eq(bucket.least, round);
            ck_assert_uint_eq(take_round(round, 2), 5);
            expect_batch(round == 10 ? 35 : 30, round == 10 ? 40 : 35);
        }
        for (uint32_t round = 20; round < 23; round++) {
            size_t done = round == 20 ? taken : 0;
            ck_assert_uint_eq(bucket.least, round);
            ck_assert_uint_eq(take_round(round, 4), 10 - done);
            for (size_t i = done; i < 10; i++)
                must(batch[i - done] == 3 * i + round - 20);
        }
        ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    }
}
END_TEST

/* ---- memory ---- */

START_TEST(an_empty_bucket_holds_hardly_any_memory)
{
    ck_assert_uint_eq(bytes_held(), 0);
    for (uint32_t i = 0; i < 100; i++)
        add(i, 1, 0);
    ck_assert_uint_ge(bytes_held(), 100 * sizeof(struct hwt_hint));
    ck_assert_uint_eq(take_round(1, 9), 100);
    ck_assert_uint_le(bytes_held(), KEPT_BYTES);
    for (uint32_t i = 0; i < 100; i++)
        add(i, 1, 1);
    memset(gone, true, sizeof(gone));
    ck_assert(!prune(1));
    ck_assert_uint_le(bytes_held(), KEPT_BYTES);
}
END_TEST

START_TEST(an_emptied_small_bucket_keeps_its_memory_to_spare_the_allocator)
{
    add(0, 1, 0);
    ck_assert_uint_eq(take_round(1, 1), 1);
    ck_assert_uint_gt(bytes_held(), 0);
    refuse = true;
    for (uint32_t i = 0; i < 100; i++) {
        add(i, 1, 0);
        ck_assert_uint_eq(take_round(1, 1), 1);
    }
    ck_assert_uint_eq(refused, 0);
}
END_TEST

static uint32_t fill_to_capacity(uint32_t at_least)
{
    uint32_t n = 0;
    while (bucket.last.used < bucket.last.capacity || bucket.last.capacity < at_least)
        add(n++, 1, 0);
    return n;
}

/* Up to a block; the next one begins with room for some. */
START_TEST(it_grows_by_a_part_of_what_it_has)
{
    for (uint32_t i = 0, had = 0; i < MANY; i++, had = bucket.last.capacity) {
        add(i, 1, 0);
        if (had >= 16 && bucket.last.capacity > had) {
            must(bucket.last.capacity - had >= had / 4 || bucket.last.capacity == HWT_BLOCK_MAX);
            ck_assert_uint_le(bucket.last.capacity - had, had + had / 4);
        }
        if (bucket.last.capacity < had) {
            ck_assert_uint_eq(had, HWT_BLOCK_MAX);
            must(bucket.last.capacity >= HWT_BLOCK_MAX / 8);
            ck_assert_uint_le(bucket.last.capacity, HWT_BLOCK_MAX / 6);
        }
    }
    ck_assert_uint_eq(bucket.full_count, (MANY - 1) / HWT_BLOCK_MAX);
    ck_assert_uint_eq(take_round(1, 7), MANY);
    expect_batch(0, MANY);
}
END_TEST

static void expect_no_add(uint32_t i, uint32_t round, uint32_t now)
{
    struct hwt_bucket before = bucket;
    size_t bytes_before = bytes_held();
    refuse = true;
    ck_assert_int_eq(try_add(i, round, now), -ENOMEM);
    refuse = false;
    ck_assert_mem_eq(&bucket, &before, sizeof(before));
    ck_assert_uint_eq(bytes_held(), bytes_before);
    verify(now);
}

START_TEST(without_memory_an_add_changes_nothing)
{
    expect_no_add(0, 0, 0);
    uint32_t n = fill_to_capacity(16);
    expect_no_add(n, 0, 0);
    expect_no_add(n, 1, 0);
    expect_no_add(n, 2, 0);
    ck_assert_uint_eq(take(0, 3), 3); /* in the midst of a visit */
    for (uint32_t round = 0; round < 3; round++)
        expect_no_add(n, round, 0);
    add(n, 0, 0);
    ck_assert_uint_eq(bucket.least, 0);
    ck_assert_uint_eq(take_round(0, 3), 1);
    ck_assert_uint_eq(take_round(1, 3), n - 3);
    expect_batch(3, n);
}
END_TEST

/* ---- the least round ---- */

START_TEST(rounds_wrap_around)
{
    uint32_t now = UINT32_MAX - 4;
    for (uint32_t i = 0; i < 1000; i++)
        add(i, now + (999 - i) / 100, now);
    for (uint32_t step = 0; step < 10; step++, now++) {
        ck_assert_uint_eq(bucket.least, now);
        ck_assert_uint_eq(take_round(now, 33), 100);
        expect_batch((9 - step) * 100, (10 - step) * 100);
    }
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
}
END_TEST

/* A visit finds what is next, as an add does. */
START_TEST(the_furthest_round_is_not_taken_for_a_past_one)
{
    for (uint32_t start = 0; start < 4; start++) {
        uint32_t now = start << 30;
        add(0, now + INT32_MAX, now);
        add(1, now, now);
        add(2, now + INT32_MAX - 1, now);
        ck_assert_uint_eq(bucket.least, now);
        ck_assert_uint_eq(take_round(now, 4), 1);
        expect_batch(1, 2);
        ck_assert_uint_eq(bucket.least, now + INT32_MAX - 1);
        ck_assert_uint_eq(take_round(now + INT32_MAX - 1, 4), 1);
        expect_batch(2, 3);
        ck_assert_uint_eq(bucket.least, now + INT32_MAX);
        ck_assert_uint_eq(take_round(now + INT32_MAX, 4), 1);
        expect_batch(0, 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket");
    TCase *order = unit_case(suite, "order", open_bucket, close_bucket);
    tcase_add_test(order, those_of_a_round_are_taken_in_the_order_of_adding);
    tcase_add_test(order, two_hints_of_one_id_are_both_taken);
    tcase_add_test(order, a_cleared_bucket_is_as_good_as_new);
    tcase_add_test(order, the_next_to_be_taken_is_told_ahead);
    tcase_add_test(order, the_next_is_told_where_others_lie_before_it);
    TCase *visits = unit_case(suite, "visits", open_bucket, close_bucket);
    tcase_add_test(visits, one_added_while_its_round_is_taken_comes_last);
    tcase_add_test(visits, those_of_later_rounds_added_while_one_is_taken_wait);
    tcase_add_test(visits, after_a_visit_the_least_is_found_among_old_and_new);
    tcase_add_test(visits, an_earlier_round_added_while_one_is_taken_comes_first);
    TCase *memory = unit_case(suite, "memory", open_bucket, close_bucket);
    tcase_add_test(memory, an_empty_bucket_holds_hardly_any_memory);
    tcase_add_test(memory, an_emptied_small_bucket_keeps_its_memory_to_spare_the_allocator);
    tcase_add_test(memory, it_grows_by_a_part_of_what_it_has);
    tcase_add_test(memory, without_memory_an_add_changes_nothing);
    TCase *least = unit_case(suite, "least", open_bucket, close_bucket);
    tcase_add_test(least, rounds_wrap_around);
    tcase_add_test(least, the_furthest_round_is_not_taken_for_a_past_one);
    return run_suite(suite);
}
