/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One bucket: order, holes, growth, rounds that wrap around, want of memory. */

#include "bucket_fixture.h"

START_TEST(an_empty_bucket_holds_no_memory)
{
    for (uint32_t i = 0; i < 100; i++)
        add(i, 1, 0);
    ck_assert_uint_ge(bytes, 800);
    for (uint32_t i = 0; i < 100; i++)
        drop(i, 0);
    ck_assert_ptr_null(bucket.near.rounds);
}
END_TEST

START_TEST(an_emptied_small_bucket_keeps_its_arrays_to_spare_the_allocator)
{
    add(0, 1, 0);
    drop(0, 0);
    ck_assert_uint_gt(bytes, 0);
    refuse = true;
    for (uint32_t i = 0; i < 100; i++) {
        add(i, 1, 0);
        drop(i, 0);
    }
    ck_assert_uint_eq(refused, 0);
}
END_TEST

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
    ck_assert_uint_eq(bytes, 0);
}
END_TEST

START_TEST(one_added_while_its_round_is_taken_comes_last)
{
    for (uint32_t i = 0; i < 6; i++)
        add(i, 5, 5);
    ck_assert_uint_eq(take(5, 0, 4), 4);
    verify(5);
    for (uint32_t i = 6; i < 40; i++) /* makes room, and closes the holes of those taken */
        add(i, 5, 5);
    ck_assert_uint_eq(take_round(5, 64), 36);
    for (uint32_t i = 0; i < 36; i++)
        must(batch[i] == i + 4);
}
END_TEST

START_TEST(a_dropped_one_leaves_a_hole_and_moves_no_other)
{
    for (uint32_t i = 0; i < 100; i++)
        add(i, 1, 0);
    for (uint32_t i = 0; i < 100; i += 2)
        drop(i, 0);
    ck_assert_uint_eq(bucket.near.used, 100);
    ck_assert_uint_eq(bucket.near.live, 50);
    for (uint32_t i = 1; i < 100; i += 2) {
        ck_assert_uint_eq(index_of(i), i);
        ck_assert_uint_eq(ids_of(&bucket.near)[i - 1], HWT_BUCKET_HOLE);
    }
}
END_TEST

static uint32_t fill_to_capacity(uint32_t at_least)
{
    uint32_t n = 0;
    while (bucket.near.used < bucket.near.capacity || bucket.near.capacity < at_least)
        add(n++, 1, 0);
    return n;
}

START_TEST(holes_are_closed_in_order_before_the_arrays_grow)
{
    uint32_t n = fill_to_capacity(64);
    uint32_t capacity = bucket.near.capacity;
    for (uint32_t i = 0; i < n; i += 3)
        drop(i, 0);
    refuse = true;
    add(n, 1, 0);
    ck_assert_uint_eq(bucket.near.capacity, capacity);
    ck_assert_uint_eq(bucket.near.used, bucket.near.live);
    uint32_t last = 0;
    for (uint32_t i = 1; i <= n; i++) {
        if (i % 3 == 0 && i < n)
            continue;
        must(i == 1 || index_of(i) == last + 1);
        last = index_of(i);
    }
}
END_TEST

START_TEST(the_arrays_grow_by_half_where_holes_are_few)
{
    uint32_t n = fill_to_capacity(64);
    uint32_t capacity = bucket.near.capacity;
    drop(0, 0);
    add(n, 1, 0);
    ck_assert_uint_eq(bucket.near.capacity, capacity + capacity / 2);
    ck_assert_uint_eq(take_round(1, 7), n);
    for (uint32_t i = 0; i < n; i++)
        must(batch[i] == i + 1);
}
END_TEST

START_TEST(without_memory_an_add_changes_nothing)
{
    refuse = true;
    ck_assert_int_eq(try_add(0, 0, 0), -ENOMEM);
    verify(0);
    refuse = false;
    uint32_t n = fill_to_capacity(16);
    struct hwt_bucket before = bucket;
    size_t bytes_before = bytes;
    place_of(&places, n)->index = 4711;
    refuse = true;
    ck_assert_int_eq(try_add(n, 0, 0), -ENOMEM);
    ck_assert_mem_eq(&bucket, &before, sizeof(before));
    ck_assert_uint_eq(bytes, bytes_before);
    ck_assert_uint_eq(index_of(n), 4711);
    verify(0);
    refuse = false;
    add(n, 0, 0);
    ck_assert_uint_eq(bucket.least, 0);
}
END_TEST

START_TEST(a_sparse_bucket_gives_memory_back_when_it_settles)
{
    for (uint32_t i = 0; i < MANY; i++)
        add(i, 1, 0);
    for (uint32_t i = 10; i < MANY; i++)
        drop(i, 0);
    uint32_t capacity = bucket.near.capacity;
    settle(0);
    ck_assert_uint_eq(bucket.near.capacity, capacity / 2);
    ck_assert_uint_eq(bucket.near.used, 10);
    for (uint32_t i = 0; i < 20; i++)
        settle(0);
    ck_assert_uint_le(bucket.near.capacity, 64);
    ck_assert_uint_eq(take_round(1, 64), 10);
    for (uint32_t i = 0; i < 10; i++)
        must(batch[i] == i);
}
END_TEST

START_TEST(without_memory_to_shrink_the_arrays_stay)
{
    for (uint32_t i = 0; i < MANY; i++)
        add(i, 1, 0);
    for (uint32_t i = 10; i < MANY; i++)
        drop(i, 0);
    uint32_t capacity = bucket.near.capacity;
    refuse = true;
    settle(0);
    ck_assert_uint_eq(refused, 1);
    ck_assert_uint_eq(bucket.near.capacity, capacity);
    ck_assert_uint_eq(take_round(1, 64), 10);
}
END_TEST

START_TEST(settling_finds_the_least_after_it_was_dropped)
{
    add(0, 3, 0);
    add(1, 9, 0);
    add(2, 3, 0);
    add(3, 7, 0);
    add(4, 7, 0);
    drop(0, 0);
    ck_assert_uint_eq(bucket.least_count, 1);
    drop(2, 0);
    ck_assert_uint_eq(bucket.least_count, 0);
    settle(0);
    ck_assert_uint_eq(bucket.least, 7);
    ck_assert_uint_eq(bucket.least_count, 2);
}
END_TEST

START_TEST(an_add_to_a_bucket_that_must_be_searched_keeps_its_least_right)
{
    add(0, 3, 0);
    add(1, 9, 0);
    drop(0, 0); /* least is 3, of which there is none */
    add(2, 5, 0);
    ck_assert_uint_eq(bucket.least_count, 0);
    settle(0);
    ck_assert_uint_eq(bucket.least, 5);
    drop(2, 0);
    add(3, 2, 0);
    ck_assert_uint_eq(bucket.least, 2);
    ck_assert_uint_eq(bucket.least_count, 1);
    drop(3, 0);
    settle(0);
    ck_assert_uint_eq(bucket.least, 9);
}
END_TEST

START_TEST(rounds_wrap_around)
{
    uint32_t now = UINT32_MAX - 4;
    for (uint32_t i = 0; i < 1000; i++)
        add(i, now + (999 - i) / 100, now);
    for (uint32_t step = 0; step < 10; step++, now++) {
        ck_assert_uint_eq(bucket.least, now);
        ck_assert_uint_eq(bucket.least_count, 100);
        ck_assert_uint_eq(take_round(now, 33), 100);
        for (uint32_t i = 0; i < 100; i++)
            must(batch[i] == (9 - step) * 100 + i);
    }
    ck_assert_uint_eq(bucket.near.live, 0);
}
END_TEST

START_TEST(the_furthest_round_is_not_taken_for_a_past_one)
{
    for (uint32_t start = 0; start < 4; start++) {
        uint32_t now = start << 30;
        add(0, now + INT32_MAX, now);
        add(1, now, now);
        ck_assert_uint_eq(bucket.least, now);
        ck_assert_uint_eq(take_round(now, 4), 1);
        must(batch[0] == 1);
        ck_assert_uint_eq(bucket.least, now + INT32_MAX);
        ck_assert_uint_eq(take_round(now + INT32_MAX, 4), 1);
        must(batch[0] == 0);
    }
}
END_TEST

/* Those of before keep the hole open; those of later are further than its round was. They are
 * too few for a far shelf. */
START_TEST(a_hole_is_not_taken_for_a_timeout_however_old_it_is)
{
    uint32_t reach = INT32_MAX, later = reach - 1, last = reach + 5;
    uint32_t i = 0;
    for (; i < 11; i++)
        add(i, reach, 0);
    drop(10, 0);
    for (; i < 56; i++)
        add(i, later + reach, later);
    ck_assert_uint_eq(take_round(reach, MANY), 10);
    for (; i < 116; i++)
        add(i, last + reach, last);
    ck_assert_uint_eq(take_round(later + reach, MANY), 45);
    ck_assert_uint_eq(bucket.least, last + reach);
    ck_assert_uint_eq(bucket.least_count, 60);
    ck_assert_uint_eq(take_round(last + reach, MANY), 60);
}
END_TEST

START_TEST(a_cleared_bucket_is_as_good_as_new)
{
    for (uint32_t i = 0; i < MANY; i++)
        add(i, i % 11, 0);
    for (uint32_t i = 0; i < MANY; i += 4)
        drop(i, 0);
    take(0, 0, 5);
    hwt_bucket_clear(&bucket, &bytes);
    ck_assert_uint_eq(hwt_bucket_live(&bucket), 0);
    verify(0);
    ck_assert_uint_eq(bytes, 0);
    for (uint32_t i = 0; i < 100; i++)
        add(i, 3, 0);
    ck_assert_uint_eq(bucket.least, 3);
    ck_assert_uint_eq(take_round(3, 7), 100);
    for (uint32_t i = 0; i < 100; i++)
        must(batch[i] == i);
}
END_TEST

START_TEST(the_next_to_be_taken_is_told_ahead)
{
    ck_assert_uint_eq(hwt_bucket_peek(&bucket), HWT_ID_NONE);
    for (uint32_t i = 0; i < 9; i++)
        add(i, 1 + i % 2, 0);
    settle(0);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket), places_id(0));
    ck_assert_uint_eq(take_round(1, 2), 5);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket), places_id(1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket");
    TCase *order = unit_case(suite, "order", open_bucket, close_bucket);
    tcase_add_test(order, those_of_a_round_are_taken_in_the_order_of_adding);
    tcase_add_test(order, one_added_while_its_round_is_taken_comes_last);
    tcase_add_test(order, a_cleared_bucket_is_as_good_as_new);
    tcase_add_test(order, the_next_to_be_taken_is_told_ahead);
    TCase *room_for = unit_case(suite, "memory", open_bucket, close_bucket);
    tcase_add_test(room_for, an_empty_bucket_holds_no_memory);
    tcase_add_test(room_for, an_emptied_small_bucket_keeps_its_arrays_to_spare_the_allocator);
    tcase_add_test(room_for, a_dropped_one_leaves_a_hole_and_moves_no_other);
    tcase_add_test(room_for, holes_are_closed_in_order_before_the_arrays_grow);
    tcase_add_test(room_for, the_arrays_grow_by_half_where_holes_are_few);
    tcase_add_test(room_for, without_memory_an_add_changes_nothing);
    tcase_add_test(room_for, a_sparse_bucket_gives_memory_back_when_it_settles);
    tcase_add_test(room_for, without_memory_to_shrink_the_arrays_stay);
    TCase *least = unit_case(suite, "least", open_bucket, close_bucket);
    tcase_add_test(least, settling_finds_the_least_after_it_was_dropped);
    tcase_add_test(least, an_add_to_a_bucket_that_must_be_searched_keeps_its_least_right);
    tcase_add_test(least, rounds_wrap_around);
    tcase_add_test(least, the_furthest_round_is_not_taken_for_a_past_one);
    tcase_add_test(least, a_hole_is_not_taken_for_a_timeout_however_old_it_is);
    return run_suite(suite);
}
