/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The two shelves of a bucket with very many rounds: what goes to which, and from one to the
 * other. */

#include "bucket_fixture.h"

static uint32_t round_of[MANY];

/* Adds those from `from` to `to`, spread over `apart` times `steps` rounds from `base` on. */
static void add_spread(uint32_t from, uint32_t to, uint32_t base, uint32_t steps, uint32_t apart,
                       uint32_t now)
{
    static uint64_t random = 1;
    for (uint32_t i = from; i < to; i++) {
        round_of[i] = base + (uint32_t)(test_random(&random) % steps) * apart;
        add(i, round_of[i], now);
    }
}

static bool on_far(uint32_t i)
{
    return index_of(i) & HWT_BUCKET_FAR;
}

/* Takes all of the least round, in the order of filing, and returns how many. */
static uint32_t take_least(void)
{
    uint32_t round = bucket.least, n = 0;
    int last = -1;
    must(bucket.least_count > 0);
    while (bucket.least_count > 0) {
        size_t taken = take(round, 0, 7);
        must(taken > 0);
        verify(round);
        for (size_t i = 0; i < taken; i++, n++) {
            must(round_of[batch[i]] == round && (int)batch[i] > last);
            last = (int)batch[i];
        }
    }
    return n;
}

/* Takes all, round after round, and returns how many; the rounds begin not before `now`. */
static uint32_t take_all_in_order(uint32_t now)
{
    uint32_t n = 0;
    while (hwt_bucket_live(&bucket) > 0) {
        must(bucket.least - now <= INT32_MAX);
        now = bucket.least;
        n += take_least();
        settle(now);
        now++;
    }
    return n;
}

START_TEST(of_many_rounds_the_further_ones_are_put_on_the_far_shelf)
{
    add_spread(0, MANY, 1, 100000, 1, 0);
    ck_assert_uint_gt(bucket.far.live, MANY / 2);
    ck_assert_uint_gt(bucket.near.live, 0);
    for (uint32_t i = 0; i < MANY; i++)
        must(on_far(i) == (round_of[i] >= bucket.horizon));
    ck_assert_uint_eq(take_all_in_order(1), MANY);
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
}
END_TEST

START_TEST(few_rounds_stay_on_one_shelf_however_many_timeouts_there_are)
{
    for (uint32_t i = 0; i < MANY; i++) {
        round_of[i] = 1000 + i % 20;
        add(i, round_of[i], 0);
        must(bucket.far.live == 0 && bucket.far.capacity == 0);
    }
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(those_of_a_round_keep_their_order_from_shelf_to_shelf)
{
    add_spread(0, MANY, 0, 300, 97, 0);
    ck_assert_uint_gt(bucket.far.live, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(those_added_between_visits_keep_the_order_too)
{
    uint32_t now = 0, n = 0;
    uint32_t added = 600;
    add_spread(0, added, 0, 300, 97, 0);
    while (hwt_bucket_live(&bucket) > 0) {
        now = bucket.least;
        n += take_least();
        settle(now);
        uint32_t to = added + 20 < MANY ? added + 20 : MANY;
        add_spread(added, to, now + 97, 300, 97, now);
        added = to;
    }
    ck_assert_uint_eq(n, MANY);
}
END_TEST

START_TEST(two_shelves_hold_when_rounds_wrap_around)
{
    uint32_t now = UINT32_MAX - 40000;
    add_spread(0, MANY, now, 100000, 1, now);
    ck_assert_uint_gt(bucket.far.live, 0);
    ck_assert_uint_eq(take_all_in_order(now), MANY);
}
END_TEST

START_TEST(those_dropped_from_either_shelf_are_not_taken)
{
    uint32_t near = 0, far = 0;
    add_spread(0, MANY, 1, 300, 97, 0);
    for (uint32_t i = 0; i < MANY; i += 3) {
        *(on_far(i) ? &far : &near) += 1;
        drop(i, 0);
        round_of[i] = UINT32_MAX;
    }
    ck_assert_uint_gt(near, 0);
    ck_assert_uint_gt(far, 0);
    settle(0);
    ck_assert_uint_eq(take_all_in_order(0), MANY - near - far);
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
}
END_TEST

static void drop_shelf(bool far, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (on_far(i) == far)
            drop(i, 0);
    }
}

START_TEST(when_the_near_shelf_was_dropped_the_far_one_is_taken_in_order)
{
    add_spread(0, MANY, 1, 300, 97, 0);
    uint32_t far = bucket.far.live;
    drop_shelf(false, MANY);
    ck_assert_uint_eq(bucket.near.live, 0);
    settle(0);
    ck_assert_uint_gt(bucket.near.live, 0);
    ck_assert_uint_eq(take_all_in_order(0), far);
}
END_TEST

START_TEST(when_the_far_shelf_was_dropped_what_is_added_then_is_taken_in_order)
{
    uint32_t half = MANY / 2;
    add_spread(0, half, 1, 300, 97, 0);
    uint32_t near = bucket.near.live;
    drop_shelf(true, half);
    ck_assert_uint_eq(bucket.far.live, 0);
    add_spread(half, MANY, 1, 300, 97, 0);
    ck_assert_uint_gt(bucket.far.live, 0);
    ck_assert_uint_eq(take_all_in_order(0), near + (MANY - half));
}
END_TEST

START_TEST(when_both_shelves_were_dropped_hardly_any_memory_is_held)
{
    add_spread(0, MANY, 1, 300, 97, 0);
    for (uint32_t i = 0; i < MANY; i++)
        drop(i, 0);
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
}
END_TEST

/* The holes that a refill leaves are of rounds to come, and must not hide those after them. */
START_TEST(when_what_was_refilled_is_dropped_before_its_round_the_next_is_found)
{
    for (uint32_t i = 0; i < MANY; i++) {
        round_of[i] = 1000000 + i * 1000;
        add(i, round_of[i], 0);
    }
    ck_assert_uint_gt(bucket.far.live, 0);
    drop(MANY - 1, 0); /* a hole that was there before */
    for (uint32_t i = 0; i < MANY - 1; i++) {
        must(bucket.least_count == 1 && bucket.least == round_of[i]);
        drop(i, 0);
        settle(0);
    }
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
}
END_TEST

START_TEST(both_shelves_are_cleared_without_memory)
{
    add_spread(0, MANY, 1, 100000, 1, 0);
    ck_assert_uint_gt(bucket.far.live, 0);
    refuse = true;
    hwt_bucket_clear(&bucket, &bytes);
    ck_assert_uint_eq(hwt_bucket_live(&bucket), 0);
    verify(0);
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_eq(bytes, 0);
    refuse = false;
    add_spread(0, MANY, 1, 100000, 1, 0);
    ck_assert_uint_eq(take_all_in_order(0), MANY);
}
END_TEST

START_TEST(without_memory_to_refill_the_far_shelf_becomes_the_near_one)
{
    uint32_t now = 0, n = 0;
    add_spread(0, MANY, 1, 100000, 1, 0);
    uint32_t far = bucket.far.live;
    ck_assert_uint_gt(far, 0);
    while (bucket.far.live == far) {
        now = bucket.least;
        n += take_least();
        refuse = bucket.near.live == 0;
        settle(now);
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_eq(bucket.far.live, 0);
    ck_assert_uint_eq(bucket.near.live, far);
    ck_assert_uint_eq(n + take_all_in_order(now), MANY);
}
END_TEST

/* Adds until one would need memory on the shelf that `far` says. Returns how many. */
static uint32_t fill_shelf(bool far)
{
    uint32_t i = 0;
    for (; i < MANY; i++) {
        round_of[i] = 1 + i * 7919 % 100003;
        const struct hwt_shelf *shelf = far ? &bucket.far : &bucket.near;
        if (shelf->live >= NEAR_MANY && shelf->used == shelf->capacity &&
            (!far || is_far(&bucket, round_of[i], 0)))
            break;
        add(i, round_of[i], 0);
    }
    must(i < MANY);
    return i;
}

START_TEST(without_memory_to_divide_or_to_grow_an_add_changes_nothing)
{
    for (int far = 0; far < 2; far++) {
        uint32_t n = fill_shelf(far);
        ck_assert_int_eq(bucket.far.live > 0, far);
        struct hwt_bucket before = bucket;
        refuse = true;
        ck_assert_int_eq(try_add(n, round_of[n], 0), -ENOMEM);
        ck_assert_mem_eq(&bucket, &before, sizeof(before));
        refuse = false;
        verify(0);
        add(n, round_of[n], 0);
        ck_assert_uint_eq(take_all_in_order(0), n + 1);
    }
}
END_TEST

static void add_rising(uint32_t from, uint32_t to, uint32_t first, uint32_t now)
{
    for (uint32_t i = from; i < to; i++) {
        round_of[i] = first + (i - from) * 40;
        add(i, round_of[i], now);
    }
}

/* Holes, made on the far shelf in round 0, are kept open by what is filed after them, and have
 * those of half of all rounds later before and behind them. */
START_TEST(old_holes_on_the_far_shelf_are_not_taken_for_timeouts)
{
    enum { FIRST = 700, SECOND = 1700, THIRD = 1900, FROM = 300, TO = 420 };
    uint32_t reach = INT32_MAX, taken = 0;
    add_rising(0, FIRST, reach - 28000, 0);
    for (uint32_t i = FROM; i < TO; i++) {
        must(on_far(i));
        drop(i, 0);
    }
    uint32_t now = round_of[0];
    taken += take_least();
    settle(now);
    add_rising(FIRST, SECOND, now + reach - 40000, now);
    while (bucket.least != round_of[FIRST]) {
        now = bucket.least;
        taken += take_least();
        settle(now);
    }
    ck_assert_uint_eq(taken, FIRST - (TO - FROM));
    now = round_of[FIRST] - 1;
    add_rising(SECOND, THIRD, now + reach - 10000, now);
    for (uint32_t i = FIRST; i < SECOND; i++)
        drop(i, now);
    settle(now);
    ck_assert_uint_eq(bucket.least, round_of[SECOND]);
    ck_assert_uint_eq(bucket.least_count, 1);
    ck_assert_uint_eq(take_all_in_order(now), THIRD - SECOND);
}
END_TEST

/* Of a hole that a visit has just left and that is three times as old when the shelf is divided,
 * the round would be near that of what is furthest away. */
START_TEST(old_holes_on_the_near_shelf_are_not_taken_for_timeouts_when_it_is_divided)
{
    const uint32_t visit = (1u << 30) - 1, later = visit + INT32_MAX - 1;
    enum { FULL = 19, HERE = 4, MORE = 400 };
    add(0, visit, 0);
    for (uint32_t i = 1; i < FULL; i++)
        add(i, visit, 0);
    ck_assert_uint_eq(bucket.near.capacity, FULL);
    for (uint32_t i = 1; i < FULL; i++)
        drop(i, 0);
    add(1, visit, 0); /* closes the holes, in arrays with room */
    drop(1, 0);       /* the hole that will be old */
    for (uint32_t i = 2; i < 2 + HERE; i++)
        add(i, visit + INT32_MAX, visit);
    ck_assert_uint_eq(take_round(visit, 8), 1);
    ck_assert_uint_eq(bucket.near.used - bucket.near.live, 2);
    for (uint32_t i = 2 + HERE; i < MORE; i++)
        add(i, later + INT32_MAX - i % 2, later);
    ck_assert(on_far(MORE - 1));
    ck_assert(!on_far(2));
    ck_assert_uint_eq(take_round(later + 1, 8), HERE);
    ck_assert_uint_eq(hwt_bucket_live(&bucket), MORE - 2 - HERE);
}
END_TEST

/* Else they could outlive any number of rounds: who refills from the far shelf looks after them, and
 * that comes 2^31 rounds later each time that it is filled anew. */
START_TEST(holes_of_a_far_shelf_that_was_dropped_are_gone)
{
    for (uint32_t i = 0; i < 400; i++)
        add(i, i % 4 ? 1000 + i : 1 + i / 4, 0);
    ck_assert(on_far(399) && !on_far(0));
    for (uint32_t i = 0; i < 400; i++) {
        if (on_far(i))
            drop(i, 0);
    }
    ck_assert_uint_gt(hwt_bucket_live(&bucket), 0);
    ck_assert_uint_eq(bucket.far.used, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket: shelves");
    TCase *shelves = unit_case(suite, "shelves", open_bucket, close_bucket);
    tcase_add_test(shelves, of_many_rounds_the_further_ones_are_put_on_the_far_shelf);
    tcase_add_test(shelves, few_rounds_stay_on_one_shelf_however_many_timeouts_there_are);
    tcase_add_test(shelves, those_of_a_round_keep_their_order_from_shelf_to_shelf);
    tcase_add_test(shelves, those_added_between_visits_keep_the_order_too);
    tcase_add_test(shelves, two_shelves_hold_when_rounds_wrap_around);
    tcase_add_test(shelves, those_dropped_from_either_shelf_are_not_taken);
    tcase_add_test(shelves, when_the_near_shelf_was_dropped_the_far_one_is_taken_in_order);
    tcase_add_test(shelves, when_the_far_shelf_was_dropped_what_is_added_then_is_taken_in_order);
    tcase_add_test(shelves, when_both_shelves_were_dropped_hardly_any_memory_is_held);
    tcase_add_test(shelves, when_what_was_refilled_is_dropped_before_its_round_the_next_is_found);
    tcase_add_test(shelves, both_shelves_are_cleared_without_memory);
    tcase_add_test(shelves, without_memory_to_refill_the_far_shelf_becomes_the_near_one);
    tcase_add_test(shelves, without_memory_to_divide_or_to_grow_an_add_changes_nothing);
    tcase_add_test(shelves, old_holes_on_the_far_shelf_are_not_taken_for_timeouts);
    tcase_add_test(shelves, holes_of_a_far_shelf_that_was_dropped_are_gone);
    tcase_add_test(shelves,
                   old_holes_on_the_near_shelf_are_not_taken_for_timeouts_when_it_is_divided);
    return run_suite(suite);
}
