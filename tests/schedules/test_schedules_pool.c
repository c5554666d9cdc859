/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pool: taking against taking and giving back, two that give back, two that grow it, and one
 * that gives slabs back to the system. */

#include "stage.h"

static struct hwt_pool *pool;

static void open_pool(void)
{
    stage_open();
    pool = &timer->shared.pool;
}

static void fill(struct actor *actor)
{
    must(hwt_pool_fill(pool, actor->arg));
}

static void spill(struct actor *actor)
{
    hwt_pool_flush(pool, actor->arg);
}

static void fill_here(struct hwt_cache *cache)
{
    must(hwt_pool_fill(pool, cache));
}

static void spill_all(struct hwt_cache *cache)
{
    hwt_pool_flush(pool, cache);
}

static bool have_common(const struct hwt_cache *a, const struct hwt_cache *b)
{
    for (const struct hwt_entry *one = a->first; one; one = hwt_entry_linked(one)) {
        for (const struct hwt_entry *other = b->first; other; other = hwt_entry_linked(other)) {
            if (one == other)
                return true;
        }
    }
    return false;
}

/* Begins a timeout in each of a cache. Returns how many. */
static uint32_t begin_all(struct hwt_cache *cache, struct hwt_entry **all)
{
    uint32_t n = 0;
    while (cache->first) {
        all[n] = hwt_pool_take(pool, cache);
        (void)hwt_entry_begin(all[n++], &silent, &beside, UINT64_MAX / 3);
    }
    return n;
}

/* Nobody has touched them meanwhile. */
static void end_all(struct hwt_cache *cache, struct hwt_entry **all, uint32_t n)
{
    while (n-- > 0) {
        ck_assert_ptr_eq(hwt_entry_arg(all[n]), &beside);
        atomic_store(&all[n]->word.first, (uint64_t)1 << HWT_GENERATION_SHIFT | HWT_PHASE_EXPIRED);
        hwt_pool_give(pool, cache, all[n]);
    }
}

/* So that there are batches. */
static void make_batches(void)
{
    struct hwt_cache cache = { 0 };
    fill_here(&cache);
    spill_all(&cache);
}

/* ---- batches ---- */

/*
 *     taker                           others
 *     has read that B comes after A:
 *     STACK_POP
 *                                     take A, take B, give A back: A is the top
 *                                     again, and C comes after it
 *     the tag is another: begins anew
 */
START_TEST(what_was_taken_and_given_back_meanwhile_is_looked_at_anew)
{
    struct actor taker;
    struct hwt_cache taken = { 0 }, a = { 0 }, b = { 0 }, c = { 0 };
    make_batches();
    taker.arg = &taken;
    actor_begin(&taker, fill);
    actor_go_to(&taker, "STACK_POP");
    fill_here(&a);
    fill_here(&b);
    if (_i)
        fill_here(&c);
    const hwt_link *top = &a.first->word.second;
    spill_all(&a);
    ck_assert_uint_eq(atomic_load(&pool->batches[0].first), (uintptr_t)top);
    actor_end(&taker);
    ck_assert(!have_common(&taken, &b) && !have_common(&taken, &c));
    struct hwt_cache more = { 0 };
    fill_here(&more);
    ck_assert(!have_common(&more, &b) && !have_common(&more, &c) && !have_common(&more, &taken));
    spill_all(&more);
    spill_all(&taken);
    spill_all(&b);
    spill_all(&c);
}
END_TEST

/*
 *     taker                           another
 *     has seen A, the top: STACK_POP
 *                                     takes A, and uses it
 *     its exchange fails: what it read
 *     was a deadline
 */
START_TEST(what_is_in_use_by_now_is_not_taken_for_a_next)
{
    struct actor taker;
    struct hwt_cache taken = { 0 }, a = { 0 };
    struct hwt_entry *all[HWT_CACHE_BATCH];
    make_batches();
    taker.arg = &taken;
    actor_begin(&taker, fill);
    actor_go_to(&taker, "STACK_POP");
    fill_here(&a);
    uint32_t n = begin_all(&a, all);
    actor_end(&taker);
    end_all(&a, all, n);
    ck_assert(!have_common(&taken, &a));
    spill_all(&taken);
    spill_all(&a);
}
END_TEST

/*
 *     giver                           another
 *     has seen the top, STACK_PUSH
 *                                     gives one back, or takes one
 *     its exchange fails: its own
 *     comes before what is there now
 */
START_TEST(of_two_that_give_back_neither_loses_the_others)
{
    struct actor giver;
    struct hwt_cache a = { 0 }, b = { 0 };
    make_batches();
    fill_here(&a);
    if (!_i)
        fill_here(&b);
    giver.arg = &a;
    actor_begin(&giver, spill);
    actor_go_to(&giver, "STACK_PUSH");
    if (_i)
        fill_here(&b);
    spill_all(&b);
    actor_end(&giver);
    expect_all_free();
}
END_TEST

/* ---- two that grow it at once ---- */

static void expect_ids(const struct hwt_cache *cache)
{
    uint32_t n = 0;
    for (struct hwt_entry *entry = cache->first; entry; entry = hwt_entry_linked(entry), n++)
        ck_assert_ptr_eq(hwt_pool_entry(pool, hwt_entry_id(entry)), entry);
    ck_assert_uint_eq(n, cache->count);
}

static void expect_nothing_common(struct hwt_cache *a, struct hwt_cache *b)
{
    ck_assert(a->count > 0 && b->count > 0 && !have_common(a, b));
    expect_ids(a);
    expect_ids(b);
    spill_all(a);
    spill_all(b);
}

static struct hwt_cache *used;
static size_t used_count;

/* All of so many slabs, or of a few more. */
static void use_up(uint32_t slabs)
{
    used = calloc(HWT_SLAB_ENTRIES * (slabs + HWT_REGION_SLABS), sizeof(*used));
    for (used_count = 0;
         atomic_load(&pool->slabs) < slabs || hwt_stack_count(&pool->batches[0]) > 0 ||
         hwt_stack_count(&pool->empty_slabs) > 0;
         used_count++)
        fill_here(&used[used_count]);
}

static void give_all_back(void)
{
    for (size_t i = 0; i < used_count; i++)
        spill_all(&used[i]);
    free(used);
}

/*
 *     first                           second
 *     has seen which numbers are
 *     given: NUMBERS
 *                                     the same, and takes the number
 *     its exchange fails
 */
START_TEST(of_two_that_grow_the_pool_each_has_its_own_numbers)
{
    static const char *const points[] = { "NUMBERS", "ENTER", "EMPTY_PUSH" };
    struct actor first;
    struct hwt_cache a = { 0 }, b = { 0 };
    use_up(1);
    first.arg = &a;
    actor_begin(&first, fill);
    actor_go_to(&first, points[_i]);
    fill_here(&b);
    actor_end(&first);
    ck_assert_uint_eq(atomic_load(&pool->slabs), 3);
    expect_nothing_common(&a, &b);
    give_all_back();
}
END_TEST

/*
 *     first                           second
 *     has made the next array of the  the same, and goes on to that
 *     directory, sealed a part of
 *     this one, or all of it; or has
 *     numbers in this one, and is
 *     about to enter its slabs
 *     finds that done, or its pointer
 *     sealed
 */
START_TEST(of_two_that_grow_the_directory_each_finds_its_slabs)
{
    /* In the array there is room for 64. From 57 on the next region has 7 slabs. */
    static const struct {
        const char *point;
        uint32_t slabs;
    } cases[] = { { "DIRECTORY_NEXT", 64 }, { "DIRECTORY_SEAL", 64 }, { "DIRECTORY", 64 },
                  { "NUMBERS", 57 },        { "ENTER", 57 },          { "ENTER", 64 } };
    struct actor first;
    struct hwt_cache a = { 0 }, b = { 0 };
    use_up(cases[_i].slabs);
    ck_assert_uint_eq(atomic_load(&pool->slabs), cases[_i].slabs);
    first.arg = &a;
    actor_begin(&first, fill);
    actor_go_to(&first, cases[_i].point);
    fill_here(&b);
    actor_end(&first);
    ck_assert_uint_eq(pool->directory.sites->count, 128);
    for (uint32_t n = 0; n < atomic_load(&pool->slabs); n++)
        ck_assert_ptr_nonnull(hwt_directory_find(&pool->directory, n));
    expect_nothing_common(&a, &b);
    give_all_back();
}
END_TEST

/*
 *     enters                          grows
 *     has numbers, and is about to
 *     enter its slabs: ENTER
 *                                     seals the array, and stands still
 *                                     before the next one takes its place
 *     its pointer is sealed: puts the
 *     next one in place itself
 */
START_TEST(a_thread_that_enters_its_slabs_does_not_wait_for_one_that_grows_the_directory)
{
    struct actor enters, grows;
    struct hwt_cache a = { 0 }, b = { 0 };
    use_up(57);
    enters.arg = &a;
    actor_begin(&enters, fill);
    actor_go_to(&enters, "ENTER");
    grows.arg = &b;
    actor_begin(&grows, fill);
    actor_go_to(&grows, "DIRECTORY");
    actor_end(&enters);
    actor_end(&grows);
    expect_nothing_common(&a, &b);
    give_all_back();
}
END_TEST

/*
 *     first                           second
 *     of two slabs that it has mapped
 *     one is to be entered, or has
 *     seen the top of those that are
 *     empty: EMPTY_PUSH, EMPTY_POP
 *                                     the same; and takes one
 *     its exchange fails
 */
START_TEST(of_two_that_take_an_empty_slab_each_has_its_own)
{
    struct actor first;
    struct hwt_cache a = { 0 }, b = { 0 };
    use_up(16); /* the next region has two */
    first.arg = &a;
    actor_begin(&first, fill);
    actor_go_to(&first, _i ? "EMPTY_POP" : "EMPTY_PUSH");
    actor_go_to(&first, _i ? "STACK_POP" : "STACK_PUSH");
    fill_here(&b);
    actor_end(&first);
    expect_nothing_common(&a, &b);
    give_all_back();
    expect_all_free();
}
END_TEST

/* ---- slabs that are given back to the system ---- */

enum { MANY = 20 * HWT_SLAB_ENTRIES };

static hwt_timeout *many;

/* All have been in use at once, and are free. */
static void use_many(void)
{
    many = calloc(MANY, sizeof(*many));
    for (size_t i = 0; i < MANY; i++)
        many[i] = add_with(&silent, &beside, AT(10));
    drive(0);
    for (size_t i = 0; i < MANY; i++)
        must(hwt_timeout_cancel(many[i]));
}

static uint64_t slabs_held(void)
{
    return pool->slabs_used;
}

/* At tick 1, until there is nothing more to give back. */
static void drive_and_trim(struct actor *actor)
{
    (void)actor;
    do
        drive(1);
    while (timer->worker.upkeep_at == 0);
}

/*
 *     driver                          adder, canceller
 *     gives slabs back, a slice each
 *     pass: TRIM, BATCH_POP, EMPTY
 *                                     take some, or give some back; ask, cancel
 *                                     and move by old handles
 *     ends
 */
START_TEST(what_is_taken_and_given_during_a_trim_is_counted_once)
{
    static const char *const trimming[] = { "TRIM",       "BATCH_POP", "STACK_POP",
                                            "STACK_PUSH", "EMPTY",     "EMPTY_PUSH" };
    struct actor driver;
    struct hwt_cache kept = { 0 }, taken = { 0 };
    use_many();
    fill_here(&kept);
    actor_begin(&driver, drive_and_trim);
    actor_go_to(&driver, trimming[_i / 2]);
    if (_i % 2)
        fill_here(&taken);
    for (size_t i = 0; i < MANY; i++) {
        must(!hwt_timeout_cancel(many[i]));
        must(!hwt_timeout_reschedule_at(many[i], AT(1)));
        must(hwt_timeout_state(many[i]) != HWT_PENDING);
    }
    if (_i % 2 == 0)
        spill_all(&kept);
    actor_end(&driver);
    spill_all(&kept);
    spill_all(&taken);
    ck_assert_uint_le(slabs_held(), 6);
    expect_all_free();
    for (size_t i = 0; i < MANY; i++)
        must(!hwt_timeout_cancel(many[i]) && hwt_timeout_state(many[i]) != HWT_PENDING);
    free(many);
}
END_TEST

/* Whether the pool has one batch, in either stack. */
static bool is_last_batch(void)
{
    uint64_t tops[] = { atomic_load(&pool->batches[0].first),
                        atomic_load(&pool->batches[1].first) };
    if ((tops[0] == 0) == (tops[1] == 0))
        return false;
    return !hwt_link_next((hwt_link *)(uintptr_t)(tops[0] ? tops[0] : tops[1]));
}

static struct hwt_cache last_batch, from_new_slab;

static void fill_two(struct actor *actor)
{
    (void)actor;
    fill_here(&last_batch);
    fill_here(&from_new_slab);
}

/*
 *     driver                          adder
 *     gathers all free entries, and
 *     is about to take the last
 *     batch: STACK_POP
 *                                     takes that; then there is none: maps two
 *                                     slabs, and has entered one: EMPTY_PUSH
 *     settles: looks at no more of
 *     the two than is entered
 *                                     enters the other
 */
START_TEST(a_region_that_is_being_entered_may_be_settled)
{
    struct actor driver, adder;
    use_many();
    last_batch = from_new_slab = (struct hwt_cache){ 0 };
    actor_begin(&driver, drive_and_trim);
    do
        actor_go_to(&driver, "STACK_POP");
    while (!is_last_batch());
    actor_begin(&adder, fill_two);
    actor_go_to(&adder, "EMPTY_PUSH");
    actor_end(&driver);
    actor_end(&adder);
    expect_nothing_common(&last_batch, &from_new_slab);
    spill_all(&last_batch);
    spill_all(&from_new_slab);
    expect_all_free();
    free(many);
}
END_TEST

static void cancel_last(struct actor *actor)
{
    actor->answer = hwt_timeout_cancel(many[MANY - 1]);
}

static void move_last(struct actor *actor)
{
    actor->answer = hwt_timeout_reschedule_at(many[MANY - 1], AT(5));
}

/*
 *     canceller, mover                driver                      adder
 *     has seen it PENDING: CANCEL,
 *     MOVE
 *                                     it was cancelled; gives its
 *                                     slab back
 *                                                                 takes all entries: another
 *                                                                 use of this one
 *     its exchange fails: the floor
 *     of the slab is above it
 */
START_TEST(a_stale_handle_does_nothing_to_a_slab_that_is_used_again)
{
    struct actor stale;
    use_many();
    many[MANY - 1] = add_with(&silent, &beside, AT(10));
    actor_begin(&stale, _i % 2 ? cancel_last : move_last);
    actor_go_to(&stale, _i % 2 ? "CANCEL" : "MOVE");
    ck_assert(hwt_timeout_cancel(many[MANY - 1]));
    struct hwt_lane *lane = hwt_lane_enter(&timer->shared.lanes);
    spill_all(&lane->cache);
    drive_and_trim(NULL);
    ck_assert_uint_eq(slabs_held(), 0);
    ck_assert_int_eq(hwt_timeout_state(many[MANY - 1]), HWT_GONE);
    hwt_timeout *again = calloc(MANY, sizeof(*again));
    for (size_t i = 0; _i / 2 && i < MANY; i++)
        again[i] = add_with(&silent, &beside, AT(10));
    ck_assert(!actor_end(&stale));
    for (size_t i = 0; _i / 2 && i < MANY; i++)
        must(hwt_timeout_state(again[i]) == HWT_PENDING && deadline_of(again[i]) == AT(10));
    for (size_t i = 0; i < MANY; i++)
        must(!hwt_timeout_cancel(many[i]));
    drive(11);
    ck_assert_uint_eq(beside.runs, _i / 2 ? MANY : 0);
    free(again);
    free(many);
}
END_TEST

static void add_one(struct actor *actor)
{
    actor->answer = hwt_timer_new_timeout_at(timer, &silent, &beside, AT(10), NULL) == 0;
}

static bool cancel_that(hwt_timeout timeout, const hwt_task *task, void *arg, uint64_t remaining,
                        void *data)
{
    (void)task;
    (void)arg;
    (void)remaining;
    (void)data;
    return hwt_timeout_cancel(timeout);
}

static void spill_all_lanes(void)
{
    for (uint32_t n = 0; n < hwt_lanes_count(&timer->shared.lanes); n++) {
        struct hwt_lane *lane = hwt_lane_at(&timer->shared.lanes, n);
        if (lane)
            spill_all(&lane->cache);
    }
}

/*
 *     adder                           canceller, driver
 *     has published it: ADD_PUBLISH
 *                                     finds it by a visit, and cancels it; gives its
 *                                     slab back: the head is zero
 *     says its id, which it had
 *     read before
 */
START_TEST(what_has_ended_before_it_was_said_is_said_by_its_own_id)
{
    struct actor adder;
    use_many();
    spill_all_lanes();
    actor_begin(&adder, add_one);
    actor_go_to(&adder, "ADD_PUBLISH");
    ck_assert_int_eq(hwt_timer_visit(timer, cancel_that, NULL), 1);
    spill_all_lanes();
    drive_and_trim(NULL);
    ck_assert_uint_eq(slabs_held(), 0);
    ck_assert(actor_end(&adder));
    drive(11);
    ck_assert_uint_eq(beside.runs, 0);
    expect_all_free();
    free(many);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: pool");
    TCase *batches = stage_case(suite, "batches", open_pool, stage_close);
    tcase_add_loop_test(batches, what_was_taken_and_given_back_meanwhile_is_looked_at_anew, 0, 2);
    tcase_add_test(batches, what_is_in_use_by_now_is_not_taken_for_a_next);
    tcase_add_loop_test(batches, of_two_that_give_back_neither_loses_the_others, 0, 2);
    TCase *growth = stage_case(suite, "growth", open_pool, stage_close);
    tcase_add_loop_test(growth, of_two_that_grow_the_pool_each_has_its_own_numbers, 0, 3);
    tcase_add_loop_test(growth, of_two_that_grow_the_directory_each_finds_its_slabs, 0, 6);
    tcase_add_test(growth,
                   a_thread_that_enters_its_slabs_does_not_wait_for_one_that_grows_the_directory);
    tcase_add_loop_test(growth, of_two_that_take_an_empty_slab_each_has_its_own, 0, 2);
    TCase *trim = stage_case(suite, "trim", open_pool, stage_close);
    tcase_add_loop_test(trim, what_is_taken_and_given_during_a_trim_is_counted_once, 0, 12);
    tcase_add_test(trim, a_region_that_is_being_entered_may_be_settled);
    tcase_add_loop_test(trim, a_stale_handle_does_nothing_to_a_slab_that_is_used_again, 0, 4);
    tcase_add_test(trim, what_has_ended_before_it_was_said_is_said_by_its_own_id);
    return run_suite(suite);
}
