/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A bucket of many blocks: their order, and that no call does much at a time. */

#include "bucket_fixture.h"

static uint32_t round_of[MANY];

static void add_for(uint32_t i, uint32_t round, uint32_t now)
{
    round_of[i] = round;
    gone[i] = false;
    add(i, round, now);
}

/* Adds those from `from` to `to`, spread over `apart` times `steps` rounds from `base` on. */
static void add_spread(uint32_t from, uint32_t to, uint32_t base, uint32_t steps, uint32_t apart,
                       uint32_t now)
{
    static uint64_t random = 1;
    for (uint32_t i = from; i < to; i++)
        add_for(i, base + (uint32_t)(test_random(&random) % steps) * apart, now);
}

/* Takes all of the least round, in the order of filing, and returns how many. */
static uint32_t take_least(void)
{
    uint32_t round = bucket.least;
    uint32_t n = (uint32_t)take_round(round, 7);
    for (uint32_t i = 0; i < n; i++) {
        must(round_of[batch[i]] == round && !gone[batch[i]]);
        must(i == 0 || batch[i - 1] < batch[i]);
        gone[batch[i]] = true;
    }
    must(n > 0);
    return n;
}

/* Takes all, round after round, and returns how many; the rounds begin not before `now`. */
static uint32_t take_all_in_order(uint32_t now)
{
    uint32_t n = 0;
    while (hwt_bucket_count(&bucket) > 0) {
        must(bucket.least - now <= INT32_MAX);
        now = bucket.least;
        n += take_least();
        verify(now);
        now++;
    }
    return n;
}

/* ---- order ---- */

START_TEST(of_many_blocks_each_round_is_taken_in_the_order_of_filing)
{
    const uint32_t steps[] = { 1, 3, 300, 100000 }, apart[] = { 1, 97, 97, 20000 };
    for (int k = 0; k < 4; k++) {
        add_spread(0, MANY, 1, steps[k], apart[k], 0);
        ck_assert_uint_eq(bucket.full_count, (MANY - 1) / HWT_BLOCK_MAX);
        ck_assert_uint_eq(take_all_in_order(1), MANY);
        ck_assert_uint_le(bytes_held(), KEPT_BYTES);
    }
}
END_TEST

START_TEST(those_added_between_visits_keep_the_order_too)
{
    const uint32_t each[] = { 3, 20, 150 };
    for (int k = 0; k < 3; k++) {
        uint32_t n = 0, added = 600, blocks = 0;
        add_spread(0, added, 0, 300, 97, 0);
        while (hwt_bucket_count(&bucket) > 0) {
            uint32_t now = bucket.least;
            n += take_least();
            blocks += bucket.full_count > 0;
            uint32_t to = added + each[k] < MANY ? added + each[k] : MANY;
            add_spread(added, to, now + 97, 300, 97, now);
            added = to;
        }
        ck_assert_uint_eq(n, MANY);
        ck_assert_uint_gt(blocks, 100);
    }
}
END_TEST

START_TEST(blocks_hold_when_rounds_wrap_around)
{
    uint32_t now = UINT32_MAX - 40000;
    add_spread(0, MANY, now, 100000, 1, now);
    ck_assert_uint_eq(take_all_in_order(now), MANY);
}
END_TEST

/* A visit takes a few; a later, the same and an earlier round are added, or there is a sweep. */
START_TEST(a_visit_is_interrupted_by_adds_and_sweeps)
{
    for (int how = 0; how < 4; how++) {
        const uint32_t last = MANY - 3, base = 50;
        for (uint32_t i = 0; i < last; i++)
            add_for(i, base + i * 7919 % 40 * 11, 0);
        for (size_t n = 0; n < 20;) /* of several blocks */
            n += take(n, 20 - n);
        for (uint32_t i = 0; i < 20; i++)
            gone[batch[i]] = true;
        add_for(last, base + 1000, 0);
        add_for(last + 1, base, 0);
        add_for(last + 2, how & 1 ? base - 20 : base + 1, 0);
        if (how & 2)
            sweep(0);
        ck_assert_uint_eq(take_all_in_order(0), MANY - 20);
    }
}
END_TEST

/* ---- what does not stay ---- */

START_TEST(what_is_swept_out_of_any_block_is_not_taken)
{
    for (uint32_t apart = 1; apart < 400; apart *= 3) {
        uint32_t swept = 0;
        add_spread(0, MANY, 1, 300, 97, 0);
        must(apart < 9 || take(0, 0) == 0); /* the first is sorted */
        for (uint32_t i = 0; i < MANY; i += apart, swept++)
            gone[i] = true;
        sweep(0);
        ck_assert_uint_eq(hwt_bucket_count(&bucket), MANY - swept);
        ck_assert_uint_eq(take_all_in_order(0), MANY - swept);
        ck_assert_uint_le(bytes_held(), KEPT_BYTES);
    }
}
END_TEST

/* Else the blocks would become many. */
START_TEST(blocks_that_are_swept_sparse_become_one)
{
    add_spread(0, MANY, 1, 100000, 1, 0);
    for (uint32_t i = 0; i < MANY; i++)
        gone[i] = i % 40 != 7;
    sweep(0);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), MANY / 40);
    ck_assert_uint_eq(bucket.full_count, 1);
    ck_assert_uint_le(bytes_held(),
                      2 * MANY / 40 * sizeof(struct hwt_hint) + 16 * sizeof(struct hwt_block));
    ck_assert_uint_eq(take_all_in_order(0), MANY / 40);
}
END_TEST

START_TEST(blocks_of_which_little_is_left_become_one)
{
    for (uint32_t i = 0; i < MANY; i++)
        add_for(i, i % 40 == 7 ? 100 + i : i * 7 % 30, 0);
    while (bucket.least < 100)
        take_least();
    ck_assert_uint_eq(bucket.full_count, 1);
    ck_assert_uint_eq(take_all_in_order(0), MANY / 40);
}
END_TEST

START_TEST(when_some_blocks_were_swept_empty_the_others_are_taken)
{
    for (uint32_t skip = 0; skip < 5; skip++) {
        uint32_t stay = 0;
        add_spread(0, MANY, 1, 300, 97, 0);
        for (uint32_t i = 0; i < MANY; i++) {
            gone[i] = skip == 4 ? i >= HWT_BLOCK_MAX : i / HWT_BLOCK_MAX % 4 == skip;
            stay += !gone[i];
        }
        sweep(0);
        ck_assert_uint_eq(take_all_in_order(0), stay);
    }
}
END_TEST

START_TEST(pruned_blocks_are_passed_over)
{
    for (uint32_t i = 0; i < MANY; i++)
        add_for(i, 100 + i % 3, 0);
    for (uint32_t i = 0; i < MANY - 1; i += 1)
        gone[i] = i % 3 != 2;
    must(prune(0) == !gone[0]);
    while (!prune(0))
        continue;
    ck_assert_uint_eq(bucket.least, (MANY - 1) % 3 < 2 ? 100 + (MANY - 1) % 3 : 102);
    gone[MANY - 1] = false;
    (void)take_all_in_order(0);
}
END_TEST

START_TEST(one_thrown_away_after_another_the_next_is_found)
{
    for (uint32_t i = 0; i < MANY; i++)
        add_for(i, 1000000 + i * 1000, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        must(bucket.least == round_of[i] && prune(0));
        gone[i] = true;
        must(!prune(0));
    }
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    ck_assert_uint_le(bytes_held(), KEPT_BYTES);
}
END_TEST

/* ---- how much is done at a time ---- */

enum { CROWD = 40000 };

/* Blocks that have become small get smaller arrays, and the heads grow: without blocks it would be
 * the whole crowd. */
static void expect_little(const char *call)
{
    if (moved > 16 * HWT_BLOCK_MAX * sizeof(struct hwt_hint) +
                    2 * CROWD / HWT_BLOCK_MAX * sizeof(struct hwt_block) ||
        sorted > 5 * HWT_BLOCK_MAX)
        ck_abort_msg("%s: %" PRIu64 " bytes moved, %" PRIu64 " sorted", call, moved, sorted);
    moved = sorted = 0;
}

static uint32_t keep_odd(const void *data, struct hwt_hint *hints, uint32_t n)
{
    uint32_t kept = 0;
    (void)data;
    for (uint32_t i = 0; i < n; i++) {
        if (hints[i].id % 2)
            hints[kept++] = hints[i];
    }
    return kept;
}

static void sweep_in_parts(void)
{
    for (uint32_t i = 0; i <= bucket.full_count; i++) {
        (void)hwt_bucket_sweep_block(&bucket, i, keep_odd, NULL, &all_pieces);
        hwt_bucket_tidy(&bucket, 1, &all_pieces);
        expect_little("sweep");
    }
}

/* One is due, or all are, among very many; and half of them are thrown away. */
START_TEST(no_call_does_more_than_a_few_blocks_want)
{
    moved = sorted = 0; /* by the cases before, if they are no processes of their own */
    for (uint32_t rounds = 1; rounds <= CROWD; rounds *= 20) {
        struct hwt_hint hints[64];
        uint32_t looks, taken = 0;
        for (uint32_t i = 0; i < CROWD; i++) {
            must(hwt_bucket_add(&bucket, (struct hwt_hint){ 1 + i * 7919 % rounds, i, 0 }, 0,
                                &all_pieces) == 0);
            expect_little("add");
        }
        verify(0);
        sweep_in_parts();
        verify(0);
        while (hwt_bucket_count(&bucket) > 0) {
            looks = 64;
            (void)hwt_bucket_prune(&bucket, keep_odd, NULL, &looks, &all_pieces);
            expect_little("prune");
            taken += (uint32_t)hwt_bucket_take(&bucket, hints, 64, &all_pieces);
            expect_little("take");
        }
        ck_assert_uint_eq(taken, CROWD / 2);
    }
}
END_TEST

/* Each is sorted once or so, and not for each round. */
START_TEST(it_costs_little_to_go_by_very_many_rounds)
{
    for (uint32_t apart = 1; apart < 100000; apart *= 7) {
        for (uint32_t i = 0; i < MANY; i++)
            add_for(i, 1 + i * 1237 % MANY * apart, 0);
        sorted = moved = 0;
        ck_assert_uint_eq(take_all_in_order(0), MANY);
        if (sorted > 2 * MANY || moved > 40 * MANY * sizeof(struct hwt_hint))
            ck_abort_msg("rounds %u apart: %" PRIu64 " sorted, %" PRIu64 " bytes moved", apart,
                         sorted, moved);
    }
}
END_TEST

/* ---- want of memory ---- */

START_TEST(many_blocks_are_cleared_without_memory)
{
    add_spread(0, MANY, 1, 100000, 1, 0);
    refuse = true;
    hwt_bucket_clear(&bucket, &all_pieces);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    verify(0);
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_le(bytes_held(), KEPT_BYTES);
    refuse = false;
    add_spread(0, MANY, 1, 100000, 1, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(without_any_memory_all_is_taken_in_order)
{
    for (int swept = 0; swept < 2; swept++) {
        uint32_t n = MANY;
        add_spread(0, MANY, 1, 1000, 1, 0);
        refuse = true;
        for (uint32_t i = 0; swept && i < MANY; i++)
            n -= gone[i] = i % 10 != 0;
        if (swept)
            sweep(0);
        ck_assert_uint_eq(take_all_in_order(0), n);
        ck_assert_uint_gt(refused, 0);
        ck_assert_uint_le(bytes_held(), KEPT_BYTES);
        refuse = false;
    }
}
END_TEST

START_TEST(without_memory_for_another_block_an_add_changes_nothing)
{
    for (uint32_t n = HWT_BLOCK_MAX; n < MANY; n += HWT_BLOCK_MAX) {
        for (uint32_t i = hwt_bucket_count(&bucket); i < n; i++)
            add_for(i, 5, 0);
        struct hwt_bucket before = bucket;
        refuse = true;
        ck_assert_int_eq(try_add(n, 1, 0), -ENOMEM);
        refuse = false;
        ck_assert_mem_eq(&bucket, &before, sizeof(before));
        verify(0);
        ck_assert_uint_eq(hwt_bucket_count(&bucket), n);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket: blocks");
    TCase *order = unit_case(suite, "order", open_bucket, close_bucket);
    tcase_add_test(order, of_many_blocks_each_round_is_taken_in_the_order_of_filing);
    tcase_add_test(order, those_added_between_visits_keep_the_order_too);
    tcase_add_test(order, blocks_hold_when_rounds_wrap_around);
    tcase_add_test(order, a_visit_is_interrupted_by_adds_and_sweeps);
    TCase *sweeps = unit_case(suite, "sweeps", open_bucket, close_bucket);
    tcase_add_test(sweeps, what_is_swept_out_of_any_block_is_not_taken);
    tcase_add_test(sweeps, blocks_that_are_swept_sparse_become_one);
    tcase_add_test(sweeps, blocks_of_which_little_is_left_become_one);
    tcase_add_test(sweeps, when_some_blocks_were_swept_empty_the_others_are_taken);
    tcase_add_test(sweeps, pruned_blocks_are_passed_over);
    tcase_add_test(sweeps, one_thrown_away_after_another_the_next_is_found);
    TCase *work = unit_case(suite, "work", open_bucket, close_bucket);
    tcase_add_test(work, no_call_does_more_than_a_few_blocks_want);
    tcase_add_test(work, it_costs_little_to_go_by_very_many_rounds);
    TCase *memory = unit_case(suite, "memory", open_bucket, close_bucket);
    tcase_add_test(memory, many_blocks_are_cleared_without_memory);
    tcase_add_test(memory, without_any_memory_all_is_taken_in_order);
    tcase_add_test(memory, without_memory_for_another_block_an_add_changes_nothing);
    return run_suite(suite);
}
