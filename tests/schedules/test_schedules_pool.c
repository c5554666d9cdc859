/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pool: taking many against taking and giving back, two that give back, two that grow it. */

#include "stage.h"

static struct hwt_lane *lane; /* whose free list it is about; no thread owns it */

static void open_pool(void)
{
    stage_open();
    lane = room_lane(&room, 1);
}

static void take(struct actor *actor)
{
    actor->arg = hwt_pool_take(timer, lane);
}

/* The top of the lane's free list, alone. */
static struct hwt_entry *take_one(void)
{
    struct hwt_entry *entry = hwt_pool_take(timer, room_shared_lane(&room, 0));
    must(entry && hwt_slab_of(entry)->home == lane);
    return entry;
}

/* A lane with a free list: who takes from it next takes as many as are ready at a time. */
static void fill_lane(void)
{
    hwt_pool_give(hwt_pool_take(timer, lane));
    must(lane->ready_count == 0);
}

static bool is_ready(const struct hwt_entry *entry)
{
    for (uint32_t i = 0; i < lane->ready_count; i++) {
        if (lane->ready[i] == entry)
            return true;
    }
    return false;
}

/*
 *     taker                           others
 *     has read A's next, B, or has
 *     walked on: POP_CHECK, POP_TAKE
 *                                     take A, take B, give A back: A is
 *                                     the top again, and its next is C
 *     the tag is another: begins anew,
 *     with A and C
 */
START_TEST(what_was_taken_and_given_back_meanwhile_is_walked_anew)
{
    static const char *const stops[] = { "POP_NEXT", "POP_CHECK", "POP_TAKE" };
    struct actor taker;
    fill_lane();
    actor_begin(&taker, take);
    actor_go_to(&taker, stops[_i]);
    struct hwt_entry *a = take_one(), *b = take_one();
    hwt_pool_give(a);
    actor_end(&taker);
    ck_assert_uint_eq(lane->ready_count, HWT_READY_MAX - 1);
    ck_assert(taker.arg != b && !is_ready(b));
    hwt_pool_give(b);
    hwt_pool_give(taker.arg);
}
END_TEST

/*
 *     taker                           others
 *     has A, the top: POP_NEXT
 *                                     take A, which goes into a bucket: what was
 *                                     its next is its place there
 *     reads that, and sees that the
 *     top has changed: does not go
 *     there
 */
START_TEST(what_is_in_use_by_now_is_not_taken_for_a_next)
{
    struct actor taker;
    fill_lane();
    actor_begin(&taker, take);
    actor_go_to(&taker, "POP_NEXT");
    struct hwt_entry *a = take_one();
    atomic_store(&a->index, UINT32_MAX / 2);
    actor_end(&taker);
    ck_assert(taker.arg != a && !is_ready(a));
    hwt_pool_give(a);
    hwt_pool_give(taker.arg);
}
END_TEST

static void give_back(struct actor *actor)
{
    hwt_pool_give(actor->arg);
}

/*
 *     giver                           another
 *     has seen the top, GIVE
 *                                     gives back B: it is the top
 *     its exchange fails: A before B
 */
START_TEST(of_two_that_give_back_neither_loses_the_others)
{
    struct actor giver;
    fill_lane();
    struct hwt_entry *a = take_one(), *b = take_one();
    giver.arg = a;
    actor_begin(&giver, give_back);
    actor_go_to(&giver, "GIVE");
    hwt_pool_give(b);
    actor_end(&giver);
    ck_assert_ptr_eq(take_one(), a);
    ck_assert_ptr_eq(take_one(), b);
    hwt_pool_give(b);
    hwt_pool_give(a);
}
END_TEST

/* ---- two that grow it at once ---- */

static void expect_of_different_slabs(struct hwt_entry *a, struct hwt_entry *b)
{
    ck_assert_ptr_ne(hwt_slab_of(a), hwt_slab_of(b));
    ck_assert_ptr_eq(hwt_pool_entry(&timer->pool, hwt_entry_id(a)), a);
    ck_assert_ptr_eq(hwt_pool_entry(&timer->pool, hwt_entry_id(b)), b);
    hwt_pool_give(a);
    hwt_pool_give(b);
}

/*
 *     first                           second
 *     a page for the directory of
 *     slabs: DIRECTORY
 *                                     another page, and it is there first
 *     its exchange fails: enters its
 *     slab in the page that is there
 */
START_TEST(of_two_pages_of_the_directory_one_is_used)
{
    struct actor first;
    actor_begin(&first, take);
    actor_go_to(&first, "DIRECTORY");
    struct hwt_entry *second = hwt_pool_take(timer, room_lane(&room, 2));
    actor_end(&first);
    expect_of_different_slabs(first.arg, second);
}
END_TEST

enum { SLABS = 16, USED = SLABS * HWT_SLAB_ENTRIES };

static struct hwt_entry *used[USED];

/* All of so many slabs, one at a time; the next region has two. */
static void use_up(void)
{
    room_take_all(&room, used, USED);
    ck_assert_uint_eq(timer->pool.slabs, SLABS);
    ck_assert_uint_eq(room.lane->ready_count, 0);
}

static void give_all_back(void)
{
    for (size_t i = 0; i < USED; i++)
        hwt_pool_give(used[i]);
}

/*
 *     first                           second
 *     has mapped some slabs, has seen
 *     no other: FRESH_PUSH
 *                                     has mapped some, pushes them
 *     its exchange fails: pushes its
 *     own before those
 */
START_TEST(of_two_that_grow_the_pool_neither_loses_the_others_slabs)
{
    struct actor first;
    use_up();
    actor_begin(&first, take);
    actor_go_to(&first, "FRESH_PUSH");
    struct hwt_entry *second = hwt_pool_take(timer, room_lane(&room, 2));
    actor_end(&first);
    ck_assert_uint_eq(timer->pool.slabs, SLABS + 4);
    expect_of_different_slabs(first.arg, second);
    give_all_back();
}
END_TEST

/*
 *     first                           second
 *     has seen the top of the fresh
 *     slabs: FRESH_POP
 *                                     takes that
 *     its exchange fails: takes the
 *     next, or maps one
 */
START_TEST(of_two_that_take_a_fresh_slab_each_has_its_own)
{
    struct actor first;
    static struct hwt_entry *more[HWT_SLAB_ENTRIES];
    use_up();
    room_take_all(&room, more, HWT_SLAB_ENTRIES); /* of two that were mapped, one is fresh */
    actor_begin(&first, take);
    actor_go_to(&first, "FRESH_POP");
    struct hwt_entry *second = hwt_pool_take(timer, room_lane(&room, 2));
    actor_end(&first);
    expect_of_different_slabs(first.arg, second);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        hwt_pool_give(more[i]);
    give_all_back();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: pool");
    TCase *list = room_case(suite, "list", open_pool, stage_close);
    tcase_add_loop_test(list, what_was_taken_and_given_back_meanwhile_is_walked_anew, 0, 3);
    tcase_add_test(list, what_is_in_use_by_now_is_not_taken_for_a_next);
    tcase_add_test(list, of_two_that_give_back_neither_loses_the_others);
    TCase *growth = room_case(suite, "growth", open_pool, stage_close);
    tcase_add_test(growth, of_two_pages_of_the_directory_one_is_used);
    tcase_add_test(growth, of_two_that_grow_the_pool_neither_loses_the_others_slabs);
    tcase_add_test(growth, of_two_that_take_a_fresh_slab_each_has_its_own);
    return run_suite(suite);
}
