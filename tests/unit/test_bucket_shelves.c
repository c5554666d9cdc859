/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The two shelves of a bucket with very many rounds: what goes to which, and from one to the
 * other. */

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

/* A visit begins, and takes none. */
static void divide_shelves(uint32_t now)
{
    must(take(0, 0) == 0);
    verify(now);
}

/* Adds all, and has them divided. */
static void divide_spread(uint32_t base, uint32_t steps, uint32_t apart, uint32_t now)
{
    add_spread(0, MANY, base, steps, apart, now);
    divide_shelves(now);
    ck_assert_uint_gt(bucket.far.used, 0);
    ck_assert_uint_gt(bucket.near.used, 0);
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

START_TEST(of_many_rounds_the_further_ones_are_put_on_the_far_shelf)
{
    divide_spread(1, 100000, 1, 0);
    ck_assert_uint_ge(bucket.far.used,
                      MANY / 4 - MANY / 100); /* the steps are of that many rounds */
    for (uint32_t i = 0; i < bucket.near.used; i++)
        must(bucket.near.hints[i].round < bucket.far_least);
    for (uint32_t i = 0; i < bucket.far.used; i++)
        must(bucket.far.hints[i].round >= bucket.far_least);
    ck_assert_uint_eq(take_all_in_order(1), MANY);
    ck_assert_uint_le(bytes, KEPT_BYTES);
}
END_TEST

START_TEST(what_is_added_goes_to_the_shelf_of_its_round)
{
    add_spread(0, MANY - 5, 10, 100000, 1, 0);
    divide_shelves(0);
    uint32_t far_least = bucket.far_least, near = bucket.near.used, far = bucket.far.used;
    const uint32_t rounds[] = { far_least - 1, far_least, far_least + 1, INT32_MAX, 1 };
    ck_assert(near > 0 && far > 0);
    for (uint32_t k = 0; k < 5; k++) {
        bool is_far = rounds[k] - far_least <= INT32_MAX;
        add_for(MANY - 5 + k, rounds[k], 0);
        must(bucket.near.used == (near += !is_far) && bucket.far.used == (far += is_far));
    }
    ck_assert_uint_eq(bucket.least, 1);
    ck_assert_uint_eq(hwt_bucket_peek(&bucket)->id, MANY - 1);
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(few_timeouts_stay_on_one_shelf_however_many_rounds_there_are)
{
    for (uint32_t i = 0; i < TAIL_MANY; i++)
        add_for(i, 1 + i * 100003 % 1000000, 0);
    divide_shelves(0);
    ck_assert_uint_eq(bucket.far.used, 0);
    ck_assert_uint_eq(bucket.far.capacity, 0);
    ck_assert_uint_eq(take_all_in_order(0), TAIL_MANY);
}
END_TEST

START_TEST(those_of_a_round_keep_their_order_from_shelf_to_shelf)
{
    divide_spread(0, 300, 97, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(those_added_between_visits_keep_the_order_too)
{
    uint32_t n = 0, divided = 0;
    uint32_t added = 600;
    add_spread(0, added, 0, 300, 97, 0);
    while (hwt_bucket_count(&bucket) > 0) {
        uint32_t now = bucket.least;
        n += take_least();
        divided += bucket.far.used > 0;
        uint32_t to = added + 20 < MANY ? added + 20 : MANY;
        add_spread(added, to, now + 97, 300, 97, now);
        added = to;
    }
    ck_assert_uint_eq(n, MANY);
    ck_assert_uint_gt(divided, 100);
}
END_TEST

START_TEST(two_shelves_hold_when_rounds_wrap_around)
{
    uint32_t now = UINT32_MAX - 40000;
    divide_spread(now, 100000, 1, now);
    ck_assert_uint_eq(take_all_in_order(now), MANY);
}
END_TEST

/* Hints moved or looked at until all were taken: a visit goes through the tail, and who refills the near
 * shelf through the far one. */
static uint64_t cost_of_taking_all(void)
{
    uint64_t cost = 0;
    while (hwt_bucket_count(&bucket) > 0) {
        uint32_t all = hwt_bucket_count(&bucket), far = bucket.far.used;
        cost += bucket.near.used - bucket.sorted;
        cost += take_least();
        cost += bucket.far.used != far ? all : 0;
    }
    return cost;
}

/* On one shelf it would be half of MANY times the number of rounds. */
START_TEST(it_costs_little_to_go_by_very_many_rounds)
{
    for (uint32_t apart = 1; apart < 100000; apart *= 7) {
        for (uint32_t i = 0; i < MANY; i++)
            add_for(i, 1 + i * 1237 % MANY * apart, 0);
        uint64_t cost = cost_of_taking_all();
        if (cost > (uint64_t)MANY * MANY / 16)
            ck_abort_msg("rounds %u apart: %" PRIu64, apart, cost);
    }
}
END_TEST

/* ---- what does not stay ---- */

START_TEST(what_is_swept_out_of_either_shelf_is_not_taken)
{
    uint32_t swept = 0, near = 0, far = 0;
    divide_spread(1, 300, 97, 0);
    for (uint32_t i = 0; i < MANY; i += 1 + i % 3, swept++) {
        *(round_of[i] >= bucket.far_least ? &far : &near) += 1;
        gone[i] = true;
    }
    ck_assert(near > 0 && far > 0);
    sweep(0);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), MANY - swept);
    ck_assert_uint_eq(take_all_in_order(0), MANY - swept);
    ck_assert_uint_le(bytes, KEPT_BYTES);
}
END_TEST

/* Says that what is on a shelf is gone, and returns how many those were. */
static uint32_t let_go(const struct hwt_shelf *shelf)
{
    for (uint32_t i = 0; i < shelf->used; i++)
        gone[shelf->hints[i].id] = true;
    return shelf->used;
}

START_TEST(when_the_near_shelf_was_swept_empty_the_far_one_is_taken_in_order)
{
    divide_spread(1, 300, 97, 0);
    uint32_t near = let_go(&bucket.near);
    sweep(0);
    ck_assert_uint_gt(bucket.near.used, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY - near);
}
END_TEST

START_TEST(when_the_near_shelf_was_pruned_the_far_one_is_taken_in_order)
{
    divide_spread(1, 300, 97, 0);
    uint32_t near = let_go(&bucket.near);
    while (!prune(0))
        continue;
    ck_assert_uint_eq(hwt_bucket_count(&bucket), MANY - near);
    ck_assert_uint_eq(take_all_in_order(0), MANY - near);
}
END_TEST

START_TEST(when_the_far_shelf_was_swept_empty_what_is_added_then_is_taken_in_order)
{
    add_spread(0, MANY / 2, 1, 300, 97, 0);
    divide_shelves(0);
    uint32_t far = let_go(&bucket.far);
    sweep(0);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), MANY / 2 - far);
    ck_assert_uint_le(bucket.far.capacity, CAPACITY_MIN);
    add_spread(MANY / 2, MANY, 1, 300, 97, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY - far);
}
END_TEST

START_TEST(when_both_shelves_were_swept_empty_hardly_any_memory_is_held)
{
    divide_spread(1, 300, 97, 0);
    memset(gone, true, sizeof(gone));
    sweep(0);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    ck_assert_uint_le(bytes, KEPT_BYTES);
    add_spread(0, MANY, 1, 300, 97, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(a_far_shelf_that_is_swept_sparse_gives_memory_back)
{
    divide_spread(1, 100000, 1, 0);
    let_go(&bucket.far);
    for (uint32_t i = 0; i < bucket.far.used; i += 50)
        gone[bucket.far.hints[i].id] = false;
    sweep(0);
    ck_assert_uint_gt(bucket.far.used, 0);
    ck_assert_uint_le(bytes, 4 * bytes_of(hwt_bucket_count(&bucket)) + KEPT_BYTES);
}
END_TEST

START_TEST(the_least_of_the_far_shelf_is_found_after_a_sweep)
{
    for (uint32_t i = 0; i < MANY; i++)
        add_for(i, 1000 + i * 1000, 0);
    divide_shelves(0);
    uint32_t near = bucket.near.used;
    ck_assert(near > 0 && bucket.far.used > 0);
    for (uint32_t i = near; i < near + 100; i++)
        gone[i] = true;
    sweep(0);
    for (uint32_t i = 0; i < MANY; i += i == near - 1 ? 101 : 1) {
        must(bucket.least == round_of[i]);
        must(take_least() == 1);
    }
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
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
    ck_assert_uint_le(bytes, KEPT_BYTES);
}
END_TEST

/* ---- visits of the near shelf that are interrupted ---- */

/* A visit takes a few, one far and one near are added, and an earlier round, or a sweep. */
START_TEST(a_visit_is_interrupted_by_adds_to_both_shelves)
{
    for (int how = 0; how < 4; how++) {
        const uint32_t last = MANY - 3, base = 50;
        hwt_bucket_clear(&bucket, &bytes);
        for (uint32_t i = 0; i < last; i++)
            add_for(i, base + i * 7919 % 400 * 11, 0);
        divide_shelves(0);
        ck_assert_uint_gt(bucket.far.used, 0);
        must(take(0, 2) == 2);
        gone[batch[0]] = gone[batch[1]] = true;
        add_for(last, bucket.far_least, 0);
        add_for(last + 1, base, 0);
        add_for(last + 2, how & 1 ? base - 20 : base + 1, 0);
        if (how & 2)
            sweep(0);
        ck_assert_uint_eq(take_all_in_order(0), last + 1);
    }
}
END_TEST

/* ---- want of memory ---- */

START_TEST(both_shelves_are_cleared_without_memory)
{
    divide_spread(1, 100000, 1, 0);
    refuse = true;
    hwt_bucket_clear(&bucket, &bytes);
    ck_assert_uint_eq(hwt_bucket_count(&bucket), 0);
    verify(0);
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_le(bytes, KEPT_BYTES);
    refuse = false;
    divide_spread(1, 100000, 1, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(without_memory_to_divide_all_stay_on_one_shelf)
{
    add_spread(0, MANY, 1, 100000, 1, 0);
    refuse = true;
    divide_shelves(0);
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_eq(bucket.far.used, 0);
    uint32_t n = take_least();
    refuse = false;
    ck_assert_uint_eq(n + take_all_in_order(0), MANY);
}
END_TEST

START_TEST(without_memory_to_refill_the_far_shelf_becomes_the_near_one)
{
    uint32_t now = 0, n = 0;
    divide_spread(1, 100000, 1, 0);
    while (bucket.far.used > 0) {
        /* A shelf with room for what it needs, and not much more, asks for none. */
        refuse = bucket.near.capacity / 4 > bucket.far.used;
        now = bucket.least;
        n += take_least();
        refuse = false;
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_eq(n + take_all_in_order(now), MANY);
}
END_TEST

START_TEST(without_any_memory_all_is_taken_in_order)
{
    divide_spread(1, 100000, 1, 0);
    refuse = true;
    ck_assert_uint_eq(take_all_in_order(0), MANY);
    ck_assert_uint_le(bytes, KEPT_BYTES);
}
END_TEST

START_TEST(without_memory_to_grow_an_add_to_either_shelf_changes_nothing)
{
    for (uint32_t far = 0; far < 2; far++) {
        divide_spread(1, 100000, 1, 0);
        must(take(0, 1) == 1);
        uint32_t i = batch[0], n = MANY - 1;
        const struct hwt_shelf *shelf = far ? &bucket.far : &bucket.near;
        struct hwt_hint hint = { bucket.far_least - 1 + far, i, generation_of(i) };
        for (; shelf->used < shelf->capacity; n++) {
            must(hwt_bucket_add(&bucket, hint, 0, &bytes) == 0);
            verify(0);
        }
        struct hwt_bucket before = bucket;
        refuse = true;
        ck_assert_int_eq(hwt_bucket_add(&bucket, hint, 0, &bytes), -ENOMEM);
        ck_assert_mem_eq(&bucket, &before, sizeof(before));
        refuse = false;
        verify(0);
        ck_assert_uint_eq(hwt_bucket_count(&bucket), n);
        hwt_bucket_clear(&bucket, &bytes);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket: shelves");
    TCase *shelves = unit_case(suite, "shelves", open_bucket, close_bucket);
    tcase_add_test(shelves, of_many_rounds_the_further_ones_are_put_on_the_far_shelf);
    tcase_add_test(shelves, what_is_added_goes_to_the_shelf_of_its_round);
    tcase_add_test(shelves, few_timeouts_stay_on_one_shelf_however_many_rounds_there_are);
    tcase_add_test(shelves, those_of_a_round_keep_their_order_from_shelf_to_shelf);
    tcase_add_test(shelves, those_added_between_visits_keep_the_order_too);
    tcase_add_test(shelves, two_shelves_hold_when_rounds_wrap_around);
    tcase_add_test(shelves, it_costs_little_to_go_by_very_many_rounds);
    tcase_add_test(shelves, what_is_swept_out_of_either_shelf_is_not_taken);
    tcase_add_test(shelves, when_the_near_shelf_was_swept_empty_the_far_one_is_taken_in_order);
    tcase_add_test(shelves, when_the_near_shelf_was_pruned_the_far_one_is_taken_in_order);
    tcase_add_test(shelves,
                   when_the_far_shelf_was_swept_empty_what_is_added_then_is_taken_in_order);
    tcase_add_test(shelves, when_both_shelves_were_swept_empty_hardly_any_memory_is_held);
    tcase_add_test(shelves, a_far_shelf_that_is_swept_sparse_gives_memory_back);
    tcase_add_test(shelves, the_least_of_the_far_shelf_is_found_after_a_sweep);
    tcase_add_test(shelves, one_thrown_away_after_another_the_next_is_found);
    tcase_add_test(shelves, a_visit_is_interrupted_by_adds_to_both_shelves);
    tcase_add_test(shelves, both_shelves_are_cleared_without_memory);
    tcase_add_test(shelves, without_memory_to_divide_all_stay_on_one_shelf);
    tcase_add_test(shelves, without_memory_to_refill_the_far_shelf_becomes_the_near_one);
    tcase_add_test(shelves, without_any_memory_all_is_taken_in_order);
    tcase_add_test(shelves, without_memory_to_grow_an_add_to_either_shelf_changes_nothing);
    return run_suite(suite);
}
