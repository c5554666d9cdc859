/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What does not stay in a bucket: it is thrown away from the least round, or from all. */

#include "bucket_fixture.h"

/* Those of 0 .. n - 1 that are of the round, and stay, are taken in order. */
static void expect_round(uint32_t round, uint32_t n, const uint32_t *round_of, size_t max)
{
    size_t taken = take_round(round, max), at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (round_of[i] == round && !gone[i])
            must(at < taken && batch[at++] == i);
    }
    must(at == taken);
}

static uint32_t round_of[MANY];

enum { HEADS_BYTES = 16 * sizeof(struct hwt_block) };

/* In turn of the rounds from 10 on, the later ones first. */
static void add_rounds(uint32_t n, uint32_t rounds)
{
    for (uint32_t i = 0; i < n; i++) {
        round_of[i] = 10 + rounds - 1 - i % rounds;
        add(i, round_of[i], 5);
    }
}

static void go(uint32_t from, uint32_t to, uint32_t apart)
{
    for (uint32_t i = from; i < to; i += apart)
        gone[i] = true;
}

/* ---- from the least round ---- */

START_TEST(nothing_changes_where_the_first_stays)
{
    add_rounds(50, 4);
    must(take(0, 0) == 0); /* they are sorted */
    struct hwt_bucket before = bucket;
    go(7, 50, 4); /* all of round 10, but the first */
    ck_assert(prune(5));
    ck_assert_mem_eq(&bucket, &before, sizeof(before));
    ck_assert_uint_eq(asked, 1);
}
END_TEST

START_TEST(those_of_the_least_round_are_thrown_away_up_to_one_that_stays)
{
    add_rounds(80, 4);
    go(3, 43, 4); /* 10 of the 20 of round 10 */
    go(0, 80, 4); /* those of the last round, which are not looked at */
    ck_assert(prune(5));
    ck_assert_uint_eq(asked, 11);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 70);
    ck_assert_uint_eq(bucket.least, 10);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 43);
    ck_assert(prune(5));
    for (uint32_t round = 10; round < 13; round++)
        expect_round(round, 80, round_of, 6);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 20);
    ck_assert(!prune(5));
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    ck_assert_uint_le(bytes_held(), KEPT_BYTES);
}
END_TEST

START_TEST(where_none_of_the_least_round_stays_the_next_is_the_least)
{
    add_rounds(60, 3);
    go(2, 60, 3);
    ck_assert(!prune(5));
    ck_assert_uint_eq(bucket.least, 11);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 40);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 1);
    ck_assert(prune(5));
    expect_round(11, 60, round_of, 64);
    expect_round(12, 60, round_of, 64);
}
END_TEST

START_TEST(one_by_one_all_can_be_thrown_away)
{
    add_rounds(300, 100);
    for (uint32_t round = 10; round < 110; round++) {
        for (uint32_t i = 109 - round; i < 300; i += 100) {
            ck_assert_uint_eq(bucket.least, round);
            ck_assert(prune(5));
            gone[i] = true;
        }
        ck_assert(!prune(5));
    }
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    ck_assert_uint_le(bytes_held(), KEPT_BYTES);
}
END_TEST

START_TEST(an_earlier_round_added_in_between_is_the_least)
{
    add_rounds(80, 4);
    go(3, 43, 4);
    ck_assert(prune(5)); /* it is half-way through */
    round_of[80] = 7;
    add(80, 7, 5);
    ck_assert_uint_eq(bucket.least, 7);
    gone[80] = true;
    ck_assert(!prune(5));
    ck_assert_uint_eq(bucket.least, 10);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, 43);
    for (uint32_t round = 10; round < 14; round++)
        expect_round(round, 80, round_of, 6);
}
END_TEST

START_TEST(a_visit_goes_on_after_what_was_thrown_away)
{
    for (uint32_t taken = 1; taken < 10; taken++) {
        memset(gone, 0, sizeof(gone));
        add_rounds(80, 4);
        ck_assert_uint_eq(take(0, taken), taken);
        go(0, 4 * taken, 1);
        go(4 * taken + 3, 43, 4);
        round_of[80] = 10;
        add(80, 10, 5);
        ck_assert(prune(10));
        expect_round(10, 81, round_of, 3);
        memset(gone, 0, sizeof(gone));
        for (uint32_t round = 11; round < 14; round++)
            expect_round(round, 81, round_of, 6);
    }
}
END_TEST

/* ---- from all ---- */

START_TEST(what_does_not_stay_is_swept_out_of_all_rounds)
{
    add_rounds(MANY, 7);
    go(0, MANY, 3);
    go(0, 1500, 2);
    uint32_t stay = 0;
    for (uint32_t i = 0; i < MANY; i++)
        stay += !gone[i];
    sweep(5);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), stay);
    for (uint32_t round = 10; round < 17; round++) {
        ck_assert_uint_eq(bucket.least, round);
        expect_round(round, MANY, round_of, 10);
    }
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
}
END_TEST

START_TEST(when_the_least_round_is_swept_out_another_is_the_least)
{
    add_rounds(60, 6);
    go(5, 60, 6);
    go(4, 60, 6);
    sweep(5);
    ck_assert_uint_eq(bucket.least, 12);
    for (uint32_t round = 12; round < 16; round++)
        expect_round(round, 60, round_of, 10);
}
END_TEST

START_TEST(a_visit_can_be_interrupted_by_a_sweep)
{
    for (uint32_t taken = 1; taken < 20; taken++) {
        memset(gone, 0, sizeof(gone));
        add_rounds(80, 4);
        ck_assert_uint_eq(take(0, taken), taken);
        for (uint32_t i = 0; i < taken; i++)
            gone[batch[i]] = true;
        go(40, 80, 5);
        sweep(5);
        round_of[80] = 10 + taken % 2;
        add(80, round_of[80], 5);
        for (uint32_t round = 10; round < 14; round++)
            expect_round(round, 81, round_of, 7);
        ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    }
}
END_TEST

START_TEST(a_bucket_that_is_swept_empty_holds_hardly_any_memory)
{
    sweep(0); /* an empty one can be swept */
    for (int half_way = 0; half_way < 2; half_way++) {
        memset(gone, 0, sizeof(gone));
        add_rounds(100, 4);
        if (half_way)
            ck_assert_uint_eq(take(0, 3), 3);
        go(0, 100, 1);
        refuse = true;
        sweep(5);
        ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
        ck_assert_ptr_null(hwt_bucket_peek(&bucket));
        ck_assert_uint_le(bytes_held(), KEPT_BYTES);
        ck_assert_uint_eq(refused, 0);
        refuse = false;
        gone[0] = false;
        add(0, 30, 5);
        ck_assert_uint_eq(bucket.least, 30);
        ck_assert_uint_eq(take_round(30, 1), 1);
    }
}
END_TEST

START_TEST(a_sparse_bucket_gives_memory_back)
{
    for (int how = 0; how < 2; how++) { /* by a sweep, by a visit */
        memset(gone, 0, sizeof(gone));
        for (uint32_t i = 0; i < MANY; i++)
            add(i, round_of[i] = i < 10 ? 11 : 10, 0);
        go(10, MANY, 1);
        if (how == 0)
            sweep(0);
        else
            ck_assert_uint_eq(take_round(10, 64), MANY - 10);
        ck_assert_uint_eq(hwt_bucket_count(&bucket), 10);
        ck_assert_uint_le(bytes_held(), HEADS_BYTES + bytes_of(40));
        expect_round(11, MANY, round_of, 64);
    }
}
END_TEST

/* A sweep leaves a quarter more than what stays, a visit of less than a quarter twice that. */
START_TEST(what_is_left_has_not_much_more_memory_than_it_needs)
{
    const uint32_t left[] = { MANY * 3 / 5, MANY / 5 }, most[] = { 5, 8 }; /* in quarters */
    for (int how = 0; how < 2; how++) {
        memset(gone, 0, sizeof(gone));
        for (uint32_t i = 0; i < MANY; i++)
            add(i, round_of[i] = i < left[how] ? 11 : 10, 0);
        go(left[how], MANY, 1);
        if (how == 0)
            sweep(0);
        else
            ck_assert_uint_eq(take_round(10, 64), MANY - left[how]);
        ck_assert_uint_eq(hwt_bucket_count(&bucket), left[how]);
        ck_assert_uint_le(bytes_held(), HEADS_BYTES + bytes_of(left[how] / 4 * most[how] + 4));
        expect_round(11, MANY, round_of, 64);
    }
}
END_TEST

START_TEST(what_was_taken_before_a_sweep_takes_no_memory_after_it)
{
    for (uint32_t i = 0; i < MANY; i++)
        add(i, i, 0);
    must(take(0, 0) == 0); /* they are sorted */
    for (uint32_t i = 0; i < MANY / 2; i++)
        ck_assert_uint_eq(take_round(i, 1), 1);
    go(MANY / 2 + 10, MANY, 1);
    sweep(MANY / 2);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 10);
    ck_assert_uint_le(bytes_held(), 4 * bytes_of(10) + KEPT_BYTES);
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_uint_eq(take_round(MANY / 2 + i, 1), 1);
}
END_TEST

START_TEST(without_memory_to_shrink_the_array_stays)
{
    const uint32_t n = HWT_BLOCK_MAX;
    for (uint32_t i = 0; i < n; i++)
        add(i, round_of[i] = 1, 0);
    go(10, n, 1);
    uint32_t capacity = bucket.last.capacity;
    refuse = true;
    sweep(0);
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_eq(bucket.last.capacity, capacity);
    expect_round(1, n, round_of, 64);
}
END_TEST

START_TEST(rounds_that_wrap_around_are_swept)
{
    uint32_t now = UINT32_MAX - 4;
    for (uint32_t i = 0; i < 60; i++)
        add(i, round_of[i] = now + (59 - i) / 6, now);
    go(0, 60, 2);
    go(54, 60, 1);
    sweep(now);
    for (uint32_t round = now + 1; round != now + 10; round++) {
        ck_assert_uint_eq(bucket.least, round);
        expect_round(round, 60, round_of, 2);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket: sweeps");
    TCase *prunes = unit_case(suite, "least", open_bucket, close_bucket);
    tcase_add_test(prunes, nothing_changes_where_the_first_stays);
    tcase_add_test(prunes, those_of_the_least_round_are_thrown_away_up_to_one_that_stays);
    tcase_add_test(prunes, where_none_of_the_least_round_stays_the_next_is_the_least);
    tcase_add_test(prunes, one_by_one_all_can_be_thrown_away);
    tcase_add_test(prunes, an_earlier_round_added_in_between_is_the_least);
    tcase_add_test(prunes, a_visit_goes_on_after_what_was_thrown_away);
    TCase *sweeps = unit_case(suite, "all", open_bucket, close_bucket);
    tcase_add_test(sweeps, what_does_not_stay_is_swept_out_of_all_rounds);
    tcase_add_test(sweeps, when_the_least_round_is_swept_out_another_is_the_least);
    tcase_add_test(sweeps, a_visit_can_be_interrupted_by_a_sweep);
    tcase_add_test(sweeps, a_bucket_that_is_swept_empty_holds_hardly_any_memory);
    tcase_add_test(sweeps, a_sparse_bucket_gives_memory_back);
    tcase_add_test(sweeps, what_is_left_has_not_much_more_memory_than_it_needs);
    tcase_add_test(sweeps, what_was_taken_before_a_sweep_takes_no_memory_after_it);
    tcase_add_test(sweeps, without_memory_to_shrink_the_array_stays);
    tcase_add_test(sweeps, rounds_that_wrap_around_are_swept);
    return run_suite(suite);
}
