/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One bucket: order, holes, growth, rounds that wrap around, two shelves, want of memory.
 *
 * bucket.c is included, so that its malloc() can be refused; the linker then leaves out the
 * library's own.
 */

#include <stdlib.h>

#include "room_fixture.h"

static bool refuse;
static unsigned refused;

static void *may_malloc(size_t size)
{
    refused += refuse;
    return refuse ? NULL : malloc(size);
}

#define malloc may_malloc
#include "hwt/bucket.c"
#undef malloc

enum { MANY = 2000 };

static struct room room;
static struct hwt_bucket bucket;
static size_t bytes;
static struct hwt_entry *entries[MANY];
static struct hwt_entry *batch[MANY];

static void open_bucket(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
    room_take_all(&room, entries, MANY);
    bucket = (struct hwt_bucket){ 0 };
    bytes = 0;
    refuse = false;
    refused = 0;
}

static void close_bucket(void)
{
    hwt_bucket_destroy(&bucket);
    room_close(&room);
}

static const struct hwt_pool *pool(void)
{
    return &room.timer->pool;
}

static void verify(uint32_t now)
{
    must(hwt_bucket_check(&bucket, pool(), now));
    must(bytes == ((size_t)bucket.near.capacity + bucket.far.capacity) * 8);
}

static void add(int i, uint32_t round, uint32_t now)
{
    must(hwt_bucket_add(&bucket, pool(), entries[i], round, now, &bytes) == 0);
    verify(now);
}

static void drop(int i, uint32_t now)
{
    hwt_bucket_drop(&bucket, entries[i]->index, now, &bytes);
    verify(now);
}

static void settle(uint32_t now)
{
    hwt_bucket_settle(&bucket, pool(), now, &bytes);
    verify(now);
}

/* Takes all of the round, `max` at a time, and settles. */
static size_t take_round(uint32_t now, size_t max)
{
    size_t n = 0;
    while (hwt_bucket_live(&bucket) > 0 && bucket.least == now && bucket.least_count > 0) {
        size_t taken = hwt_bucket_take(&bucket, pool(), now, batch + n, max);
        must(taken > 0 && taken <= max);
        n += taken;
    }
    settle(now);
    return n;
}

START_TEST(an_empty_bucket_holds_no_memory)
{
    for (int i = 0; i < 100; i++)
        add(i, 1, 0);
    ck_assert_uint_ge(bytes, 800);
    for (int i = 0; i < 100; i++)
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
    for (int i = 0; i < 100; i++) {
        add(i, 1, 0);
        drop(i, 0);
    }
    ck_assert_uint_eq(refused, 0);
}
END_TEST

START_TEST(those_of_a_round_are_taken_in_the_order_of_adding)
{
    enum { ROUNDS = 7 };
    for (int i = 0; i < MANY; i++)
        add(i, (uint32_t)i % ROUNDS, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        ck_assert_uint_eq(bucket.least, round);
        size_t n = take_round(round, 13);
        ck_assert_uint_eq(n, MANY / ROUNDS + (round < MANY % ROUNDS));
        for (size_t i = 0; i < n; i++)
            must(batch[i] == entries[i * ROUNDS + round]);
    }
    ck_assert_uint_eq(bytes, 0);
}
END_TEST

START_TEST(one_added_while_its_round_is_taken_comes_last)
{
    for (int i = 0; i < 6; i++)
        add(i, 5, 5);
    ck_assert_uint_eq(hwt_bucket_take(&bucket, pool(), 5, batch, 4), 4);
    verify(5);
    for (int i = 6; i < 40; i++) /* makes room, and closes the holes of those taken */
        add(i, 5, 5);
    ck_assert_uint_eq(take_round(5, 64), 36);
    for (int i = 0; i < 36; i++)
        must(batch[i] == entries[i + 4]);
}
END_TEST

START_TEST(a_dropped_one_leaves_a_hole_and_moves_no_other)
{
    for (int i = 0; i < 100; i++)
        add(i, 1, 0);
    for (int i = 0; i < 100; i += 2)
        drop(i, 0);
    ck_assert_uint_eq(bucket.near.used, 100);
    ck_assert_uint_eq(bucket.near.live, 50);
    for (uint32_t i = 1; i < 100; i += 2) {
        ck_assert_uint_eq(entries[i]->index, i);
        ck_assert_uint_eq(ids_of(&bucket.near)[i - 1], HWT_BUCKET_HOLE);
    }
}
END_TEST

static int fill_to_capacity(uint32_t at_least)
{
    int n = 0;
    while (bucket.near.used < bucket.near.capacity || bucket.near.capacity < at_least)
        add(n++, 1, 0);
    return n;
}

START_TEST(holes_are_closed_in_order_before_the_arrays_grow)
{
    int n = fill_to_capacity(64);
    uint32_t capacity = bucket.near.capacity;
    for (int i = 0; i < n; i += 3)
        drop(i, 0);
    refuse = true;
    add(n, 1, 0);
    ck_assert_uint_eq(bucket.near.capacity, capacity);
    ck_assert_uint_eq(bucket.near.used, bucket.near.live);
    uint32_t last = 0;
    for (int i = 1; i <= n; i++) {
        if (i % 3 == 0 && i < n)
            continue;
        must(i == 1 || entries[i]->index == last + 1);
        last = entries[i]->index;
    }
}
END_TEST

START_TEST(the_arrays_grow_by_half_where_holes_are_few)
{
    int n = fill_to_capacity(64);
    uint32_t capacity = bucket.near.capacity;
    drop(0, 0);
    add(n, 1, 0);
    ck_assert_uint_eq(bucket.near.capacity, capacity + capacity / 2);
    ck_assert_uint_eq(take_round(1, 7), n);
    for (int i = 0; i < n; i++)
        must(batch[i] == entries[i + 1]);
}
END_TEST

START_TEST(without_memory_an_add_changes_nothing)
{
    refuse = true;
    ck_assert_int_eq(hwt_bucket_add(&bucket, pool(), entries[0], 0, 0, &bytes), -ENOMEM);
    verify(0);
    refuse = false;
    int n = fill_to_capacity(16);
    struct hwt_bucket before = bucket;
    size_t bytes_before = bytes;
    entries[n]->index = 4711;
    refuse = true;
    ck_assert_int_eq(hwt_bucket_add(&bucket, pool(), entries[n], 0, 0, &bytes), -ENOMEM);
    ck_assert_mem_eq(&bucket, &before, sizeof(before));
    ck_assert_uint_eq(bytes, bytes_before);
    ck_assert_uint_eq(entries[n]->index, 4711);
    verify(0);
    refuse = false;
    add(n, 0, 0);
    ck_assert_uint_eq(bucket.least, 0);
}
END_TEST

START_TEST(a_sparse_bucket_gives_memory_back_when_it_settles)
{
    for (int i = 0; i < MANY; i++)
        add(i, 1, 0);
    for (int i = 10; i < MANY; i++)
        drop(i, 0);
    uint32_t capacity = bucket.near.capacity;
    settle(0);
    ck_assert_uint_eq(bucket.near.capacity, capacity / 2);
    ck_assert_uint_eq(bucket.near.used, 10);
    for (int i = 0; i < 20; i++)
        settle(0);
    ck_assert_uint_le(bucket.near.capacity, 64);
    ck_assert_uint_eq(take_round(1, 64), 10);
    for (int i = 0; i < 10; i++)
        must(batch[i] == entries[i]);
}
END_TEST

START_TEST(without_memory_to_shrink_the_arrays_stay)
{
    for (int i = 0; i < MANY; i++)
        add(i, 1, 0);
    for (int i = 10; i < MANY; i++)
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
    for (int i = 0; i < 1000; i++)
        add(i, now + (uint32_t)(999 - i) / 100, now);
    for (uint32_t step = 0; step < 10; step++, now++) {
        ck_assert_uint_eq(bucket.least, now);
        ck_assert_uint_eq(bucket.least_count, 100);
        ck_assert_uint_eq(take_round(now, 33), 100);
        for (uint32_t i = 0; i < 100; i++)
            must(batch[i] == entries[(9 - step) * 100 + i]);
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
        must(batch[0] == entries[1]);
        ck_assert_uint_eq(bucket.least, now + INT32_MAX);
        ck_assert_uint_eq(take_round(now + INT32_MAX, 4), 1);
        must(batch[0] == entries[0]);
    }
}
END_TEST

/* Those of before keep the hole open; those of later are further than its round was. They are
 * too few for a far shelf. */
START_TEST(a_hole_is_not_taken_for_a_timeout_however_old_it_is)
{
    uint32_t reach = INT32_MAX, later = reach - 1, last = reach + 5;
    int i = 0;
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

START_TEST(whatever_the_round_all_can_be_taken_once)
{
    static bool seen[MANY];
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < 1000; i++)
        add(i, (uint32_t)i % 11, 0);
    for (int i = 0; i < 1000; i += 4)
        drop(i, 0);
    hwt_bucket_take(&bucket, pool(), 0, batch, 5);
    for (int i = 0; i < 5; i++)
        seen[batch[i]->index] = true;
    size_t n, sum = 5;
    while ((n = hwt_bucket_take_any(&bucket, pool(), 0, batch, 64, &bytes)) > 0) {
        for (size_t i = 0; i < n; i++) {
            must(!seen[batch[i]->index]);
            seen[batch[i]->index] = true;
        }
        sum += n;
        verify(0);
    }
    ck_assert_uint_eq(sum, 750);
    ck_assert_uint_eq(bytes, 0);
}
END_TEST

/* ---- two shelves ---- */

static uint32_t round_of[MANY];

/* Adds those from `from` to `to`, spread over `apart` times `steps` rounds from `base` on. */
static void add_spread(int from, int to, uint32_t base, uint32_t steps, uint32_t apart,
                       uint32_t now)
{
    static uint64_t random = 1;
    for (int i = from; i < to; i++) {
        round_of[i] = base + (uint32_t)(test_random(&random) % steps) * apart;
        add(i, round_of[i], now);
    }
}

static bool on_far(int i)
{
    return entries[i]->index & HWT_BUCKET_FAR;
}

static int number_of(const struct hwt_entry *entry)
{
    int i = 0;
    while (entries[i] != entry)
        i++;
    return i;
}

/* Takes all of the least round, in the order of filing, and returns how many. */
static uint32_t take_least(void)
{
    uint32_t round = bucket.least, n = 0;
    int last = -1;
    must(bucket.least_count > 0);
    while (bucket.least_count > 0) {
        size_t taken = hwt_bucket_take(&bucket, pool(), round, batch, 7);
        must(taken > 0 && taken <= 7);
        verify(round);
        for (size_t i = 0; i < taken; i++, n++) {
            int number = number_of(batch[i]);
            must(round_of[number] == round && number > last);
            last = number;
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
    for (int i = 0; i < MANY; i++)
        must(on_far(i) == (round_of[i] >= bucket.horizon));
    ck_assert_uint_eq(take_all_in_order(1), MANY);
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
}
END_TEST

START_TEST(few_rounds_stay_on_one_shelf_however_many_timeouts_there_are)
{
    for (int i = 0; i < MANY; i++) {
        round_of[i] = 1000 + (uint32_t)i % 20;
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
    int added = 600;
    add_spread(0, added, 0, 300, 97, 0);
    while (hwt_bucket_live(&bucket) > 0) {
        now = bucket.least;
        n += take_least();
        settle(now);
        int to = added + 20 < MANY ? added + 20 : MANY;
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
    for (int i = 0; i < MANY; i += 3) {
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

static void drop_shelf(bool far, int n)
{
    for (int i = 0; i < n; i++) {
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
    int half = MANY / 2;
    add_spread(0, half, 1, 300, 97, 0);
    uint32_t near = bucket.near.live;
    drop_shelf(true, half);
    ck_assert_uint_eq(bucket.far.live, 0);
    add_spread(half, MANY, 1, 300, 97, 0);
    ck_assert_uint_gt(bucket.far.live, 0);
    ck_assert_uint_eq(take_all_in_order(0), near + (uint32_t)(MANY - half));
}
END_TEST

START_TEST(when_both_shelves_were_dropped_hardly_any_memory_is_held)
{
    add_spread(0, MANY, 1, 300, 97, 0);
    for (int i = 0; i < MANY; i++)
        drop(i, 0);
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
}
END_TEST

/* The holes that a refill leaves are of rounds to come, and must not hide those after them. */
START_TEST(when_what_was_refilled_is_dropped_before_its_round_the_next_is_found)
{
    for (int i = 0; i < MANY; i++) {
        round_of[i] = 1000000 + (uint32_t)i * 1000;
        add(i, round_of[i], 0);
    }
    ck_assert_uint_gt(bucket.far.live, 0);
    drop(MANY - 1, 0); /* a hole that was there before */
    for (int i = 0; i < MANY - 1; i++) {
        must(bucket.least_count == 1 && bucket.least == round_of[i]);
        drop(i, 0);
        settle(0);
    }
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
}
END_TEST

START_TEST(whatever_the_shelf_all_can_be_taken_once)
{
    size_t n = 0, taken;
    uint32_t sum = 0;
    add_spread(0, MANY, 1, 100000, 1, 0);
    ck_assert_uint_gt(bucket.far.live, 0);
    refuse = true;
    while ((taken = hwt_bucket_take_any(&bucket, pool(), 0, batch, 64, &bytes)) > 0) {
        must(hwt_bucket_live(&bucket) + (n += taken) == MANY);
        for (size_t i = 0; i < taken; i++) {
            int number = number_of(batch[i]);
            must(round_of[number] != 0);
            round_of[number] = 0;
            sum++;
        }
    }
    ck_assert_uint_eq(sum, MANY);
    ck_assert_uint_eq(refused, 0);
    ck_assert_uint_le(bytes, 2 * bytes_of(CAPACITY_KEPT));
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
static int fill_shelf(bool far)
{
    int i = 0;
    for (; i < MANY; i++) {
        round_of[i] = 1 + (uint32_t)i * 7919 % 100003;
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
        int n = fill_shelf(far);
        ck_assert_int_eq(bucket.far.live > 0, far);
        struct hwt_bucket before = bucket;
        refuse = true;
        ck_assert_int_eq(hwt_bucket_add(&bucket, pool(), entries[n], round_of[n], 0, &bytes),
                         -ENOMEM);
        ck_assert_mem_eq(&bucket, &before, sizeof(before));
        refuse = false;
        verify(0);
        add(n, round_of[n], 0);
        ck_assert_uint_eq(take_all_in_order(0), (uint32_t)n + 1);
    }
}
END_TEST

static void add_rising(int from, int to, uint32_t first, uint32_t now)
{
    for (int i = from; i < to; i++) {
        round_of[i] = first + (uint32_t)(i - from) * 40;
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
    for (int i = FROM; i < TO; i++) {
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
    for (int i = FIRST; i < SECOND; i++)
        drop(i, now);
    settle(now);
    ck_assert_uint_eq(bucket.least, round_of[SECOND]);
    ck_assert_uint_eq(bucket.least_count, 1);
    ck_assert_uint_eq(take_all_in_order(now), THIRD - SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bucket");
    TCase *order = room_case(suite, "order");
    tcase_add_checked_fixture(order, open_bucket, close_bucket);
    tcase_add_test(order, those_of_a_round_are_taken_in_the_order_of_adding);
    tcase_add_test(order, one_added_while_its_round_is_taken_comes_last);
    tcase_add_test(order, whatever_the_round_all_can_be_taken_once);
    TCase *room_for = room_case(suite, "memory");
    tcase_add_checked_fixture(room_for, open_bucket, close_bucket);
    tcase_add_test(room_for, an_empty_bucket_holds_no_memory);
    tcase_add_test(room_for, an_emptied_small_bucket_keeps_its_arrays_to_spare_the_allocator);
    tcase_add_test(room_for, a_dropped_one_leaves_a_hole_and_moves_no_other);
    tcase_add_test(room_for, holes_are_closed_in_order_before_the_arrays_grow);
    tcase_add_test(room_for, the_arrays_grow_by_half_where_holes_are_few);
    tcase_add_test(room_for, without_memory_an_add_changes_nothing);
    tcase_add_test(room_for, a_sparse_bucket_gives_memory_back_when_it_settles);
    tcase_add_test(room_for, without_memory_to_shrink_the_arrays_stay);
    TCase *least = room_case(suite, "least");
    tcase_add_checked_fixture(least, open_bucket, close_bucket);
    tcase_add_test(least, settling_finds_the_least_after_it_was_dropped);
    tcase_add_test(least, an_add_to_a_bucket_that_must_be_searched_keeps_its_least_right);
    tcase_add_test(least, rounds_wrap_around);
    tcase_add_test(least, the_furthest_round_is_not_taken_for_a_past_one);
    tcase_add_test(least, a_hole_is_not_taken_for_a_timeout_however_old_it_is);
    TCase *shelves = room_case(suite, "shelves");
    tcase_add_checked_fixture(shelves, open_bucket, close_bucket);
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
    tcase_add_test(shelves, whatever_the_shelf_all_can_be_taken_once);
    tcase_add_test(shelves, without_memory_to_refill_the_far_shelf_becomes_the_near_one);
    tcase_add_test(shelves, without_memory_to_divide_or_to_grow_an_add_changes_nothing);
    tcase_add_test(shelves, old_holes_on_the_far_shelf_are_not_taken_for_timeouts);
    return run_suite(suite);
}
