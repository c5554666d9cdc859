/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs, ids and free lists of entries. */

#include <sched.h>

#include "room_fixture.h"

enum { MANY = 5 * HWT_SLAB_ENTRIES };

static struct room room;
static struct hwt_pool *pool;
static struct hwt_entry *entries[MANY];

static void open_room(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
    pool = &room.timer->pool;
}

static void close_room(void)
{
    room_close(&room);
}

static struct hwt_entry *take(struct hwt_lane *lane)
{
    struct hwt_entry *entry = hwt_pool_take(room.timer, lane);
    must(entry);
    return entry;
}

static void verify_id(const struct hwt_entry *entry)
{
    uint32_t id = hwt_entry_id(entry);
    must(id != HWT_ID_NONE);
    must(hwt_pool_entry(pool, id) == entry);
    must(hwt_timer_of(entry) == room.timer);
    must(((uintptr_t)hwt_slab_of(entry) & (HWT_SLAB_SIZE - 1)) == 0);
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (struct hwt_entry *const *)a;
    uintptr_t y = (uintptr_t) * (struct hwt_entry *const *)b;
    return (x > y) - (x < y);
}

/* ---- ids and slabs ---- */

START_TEST(each_entry_has_an_id_and_is_given_out_once)
{
    for (size_t i = 0; i < MANY; i++) {
        entries[i] = take(room.lane);
        verify_id(entries[i]);
    }
    qsort(entries, MANY, sizeof(*entries), by_address);
    for (size_t i = 1; i < MANY; i++)
        must(entries[i - 1] + 1 <= entries[i]);
    ck_assert_uint_eq(pool->slabs, 5);
}
END_TEST

/* Slabs from number `first` on, as if those before it were mapped. */
static void expect_slabs_from(uint32_t first)
{
    enum { REGION = 32 };
    uint64_t bytes = pool->bytes;
    atomic_store(&pool->slabs, first);
    for (size_t i = 0; i < REGION * HWT_SLAB_ENTRIES; i++) {
        struct hwt_entry *entry = take(room.lane);
        must(hwt_slab_of(entry)->number >= first);
        must(hwt_slab_of(entry)->number < first + REGION);
        if (i % 64 == 0 || i % HWT_SLAB_ENTRIES > HWT_SLAB_ENTRIES - 3)
            verify_id(entry);
    }
    must(pool->slabs == first + REGION);
    must(pool->bytes >= bytes + REGION * HWT_SLAB_SIZE);
}

START_TEST(ids_lead_to_their_entries_on_every_page_of_the_directory)
{
    /* Page k begins with slab 2^9 * (2^k - 1): across the border, except the first. */
    for (unsigned page = 0; page < HWT_DIRECTORY_PAGES - 1; page++) {
        uint32_t begins = (((uint32_t)1 << page) - 1) << HWT_DIRECTORY_BITS;
        expect_slabs_from(page == 0 ? 300 : begins - 16);
    }
}
END_TEST

START_TEST(a_pool_that_has_its_most_slabs_gives_out_no_more)
{
    struct hwt_entry *entry = take(room.lane);
    for (size_t i = 1; i < HWT_SLAB_ENTRIES; i++)
        take(room.lane);
    atomic_store(&pool->slabs, HWT_SLABS_MAX);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(hwt_pool_take(room.timer, room.lane));
    hwt_pool_give(entry);
    ck_assert_ptr_eq(take(room.lane), entry);
    ck_assert_ptr_null(hwt_pool_take(room.timer, room.lane));
}
END_TEST

START_TEST(all_memory_is_counted)
{
    ck_assert_uint_eq(pool->bytes, 0);
    take(room.lane);
    uint64_t page = sizeof(void *) << HWT_DIRECTORY_BITS;
    ck_assert_uint_eq(pool->bytes, page + HWT_SLAB_SIZE);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        take(room.lane);
    ck_assert_uint_eq(pool->bytes, page + 2 * HWT_SLAB_SIZE);
    hwt_stats stats = HWT_STATS_INIT;
    ck_assert_int_eq(hwt_timer_stats(room.timer, &stats), 0);
    ck_assert_uint_gt(stats.memory, page + 2 * HWT_SLAB_SIZE);
}
END_TEST

START_TEST(regions_grow_with_the_pool)
{
    for (size_t i = 0; i < 400 * HWT_SLAB_ENTRIES; i++)
        take(room.lane);
    ck_assert_uint_ge(pool->slabs, 400);
    ck_assert_uint_lt(pool->slabs, 400 + 400 / 8 + 1);
    ck_assert_uint_eq(pool->bytes,
                      pool->slabs * HWT_SLAB_SIZE + (sizeof(void *) << HWT_DIRECTORY_BITS));
    unsigned regions = 0;
    for (struct hwt_slab *region = pool->regions; region; region = region->next_region)
        regions++;
    ck_assert_uint_lt(regions, 50);
}
END_TEST

/* ---- free lists ---- */

START_TEST(what_was_given_back_last_is_taken_first)
{
    for (size_t i = 0; i < 100; i++)
        entries[i] = take(room.lane);
    for (size_t i = 0; i < 100; i++)
        hwt_pool_give(entries[i]);
    for (size_t i = 100; i-- > 0;)
        must(take(room.lane) == entries[i]);
}
END_TEST

START_TEST(an_entry_goes_home_whoever_gives_it_back)
{
    struct hwt_lane *other = room_lane(&room, 1);
    struct hwt_entry *own = take(room.lane);
    struct hwt_entry *stolen = take(other);
    must(hwt_slab_of(own)->home == room.lane);
    must(hwt_slab_of(stolen)->home == room.lane);
    hwt_pool_give(stolen);
    must(take(room.lane) == stolen);
}
END_TEST

START_TEST(other_lanes_are_asked_before_the_pool_grows)
{
    take(room.lane);
    for (size_t i = 1; i < HWT_SLAB_ENTRIES; i++)
        take(room_lane(&room, (uint32_t)i));
    ck_assert_uint_eq(pool->slabs, 1);
    must(hwt_slab_of(take(room_lane(&room, 1)))->home == room_lane(&room, 1));
    ck_assert_uint_eq(pool->slabs, 2);
}
END_TEST

START_TEST(every_pop_raises_the_tag)
{
    struct hwt_entry *entry = take(room.lane);
    hwt_pool_give(entry);
    uint64_t before = room.lane->free;
    take(room.lane);
    hwt_pool_give(entry);
    ck_assert_uint_eq((uint32_t)room.lane->free, (uint32_t)before);
    ck_assert_uint_eq(room.lane->free >> 32, (before >> 32) + 1);
}
END_TEST

START_TEST(an_entry_keeps_its_state_word_in_the_pool)
{
    struct hwt_entry *entry = take(room.lane);
    ck_assert_uint_eq(entry->state, 0);
    entry->state = UINT64_C(4711) << HWT_GENERATION_SHIFT | HWT_PHASE_EXPIRED;
    hwt_pool_give(entry);
    ck_assert_ptr_eq(take(room.lane), entry);
    ck_assert_uint_eq(entry->state >> HWT_GENERATION_SHIFT, 4711);
}
END_TEST

/* ---- the recycler ---- */

START_TEST(nothing_comes_back_before_the_flush_and_then_in_order)
{
    struct hwt_recycler *recycler = &room.timer->worker.recycler;
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        entries[i] = take(room.lane);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        hwt_recycler_add(room.timer, recycler, entries[i]);
    must(hwt_slab_of(take(room.lane))->number == 1);
    hwt_recycler_flush(room.timer, recycler);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        must(take(room.lane) == entries[i]);
    hwt_recycler_flush(room.timer, recycler); /* has nothing to do */
    must(hwt_slab_of(take(room.lane))->number == 1);
}
END_TEST

START_TEST(a_flush_takes_each_entry_home)
{
    struct hwt_recycler *recycler = &room.timer->worker.recycler;
    struct hwt_lane *other = room_lane(&room, 1);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        entries[i] = take(room.lane);
    struct hwt_entry *others = take(other);
    hwt_recycler_add(room.timer, recycler, entries[0]);
    hwt_recycler_add(room.timer, recycler, others);
    hwt_recycler_add(room.timer, recycler, entries[1]);
    hwt_recycler_flush(room.timer, recycler);
    must(take(other) == others);
    must(take(room.lane) == entries[0]);
    must(take(room.lane) == entries[1]);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 4, HELD = 64, ROUNDS = 30000 };

struct hand {
    uint64_t number; /* not 0 */
    uint64_t random;
    _Atomic bool *go;
    uint64_t clashes;
};

static void grab(struct hand *hand, struct hwt_entry **held)
{
    *held = hwt_pool_take(room.timer, hwt_lane_own(room.timer));
    /* The deadline says whose it is: 0, nobody's. */
    if (!*held || atomic_exchange(&(*held)->deadline, hand->number) != 0)
        hand->clashes++;
}

static void put_down(struct hand *hand, struct hwt_entry **held)
{
    if (atomic_exchange(&(*held)->deadline, 0) != hand->number)
        hand->clashes++;
    hwt_pool_give(*held);
    *held = NULL;
}

static void *grab_and_put_down(void *data)
{
    struct hand *hand = data;
    struct hwt_entry *held[HELD] = { NULL };
    while (!atomic_load(hand->go))
        sched_yield();
    for (int i = 0; i < ROUNDS && hand->clashes == 0; i++) {
        struct hwt_entry **one = &held[test_random(&hand->random) % HELD];
        if (*one)
            put_down(hand, one);
        else
            grab(hand, one);
    }
    for (int i = 0; i < HELD && hand->clashes == 0; i++) {
        if (held[i])
            put_down(hand, &held[i]);
    }
    return NULL;
}

START_TEST(no_entry_is_in_two_hands)
{
    struct hand hands[THREADS];
    pthread_t threads[THREADS];
    _Atomic bool go = false;
    uint64_t seed = test_seed();
    for (int i = 0; i < THREADS; i++) {
        hands[i] = (struct hand){ (uint64_t)i + 1, seed + (uint64_t)i, &go, 0 };
        threads[i] = room_spawn(grab_and_put_down, &hands[i]);
    }
    atomic_store(&go, true);
    for (int i = 0; i < THREADS; i++) {
        room_join(threads[i]);
        ck_assert_uint_eq(hands[i].clashes, 0);
    }
    /* All are back: as many as ever were come out again, without growing. */
    uint32_t slabs = pool->slabs;
    ck_assert_uint_le(slabs, THREADS);
    for (size_t i = 0; i < slabs * HWT_SLAB_ENTRIES; i++)
        must(take(room.lane)->deadline == 0);
    ck_assert_uint_eq(pool->slabs, slabs);
    ck_assert_ptr_nonnull(take(room.lane));
    ck_assert_uint_gt(pool->slabs, slabs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *slabs = room_case(suite, "slabs");
    tcase_add_checked_fixture(slabs, open_room, close_room);
    tcase_add_test(slabs, each_entry_has_an_id_and_is_given_out_once);
    tcase_add_test(slabs, ids_lead_to_their_entries_on_every_page_of_the_directory);
    tcase_add_test(slabs, a_pool_that_has_its_most_slabs_gives_out_no_more);
    tcase_add_test(slabs, all_memory_is_counted);
    tcase_add_test(slabs, regions_grow_with_the_pool);
    TCase *lists = room_case(suite, "lists");
    tcase_add_checked_fixture(lists, open_room, close_room);
    tcase_add_test(lists, what_was_given_back_last_is_taken_first);
    tcase_add_test(lists, an_entry_goes_home_whoever_gives_it_back);
    tcase_add_test(lists, other_lanes_are_asked_before_the_pool_grows);
    tcase_add_test(lists, every_pop_raises_the_tag);
    tcase_add_test(lists, an_entry_keeps_its_state_word_in_the_pool);
    TCase *recycler = room_case(suite, "recycler");
    tcase_add_checked_fixture(recycler, open_room, close_room);
    tcase_add_test(recycler, nothing_comes_back_before_the_flush_and_then_in_order);
    tcase_add_test(recycler, a_flush_takes_each_entry_home);
    TCase *threads = room_case(suite, "threads");
    tcase_add_checked_fixture(threads, open_room, close_room);
    tcase_add_test(threads, no_entry_is_in_two_hands);
    return run_suite(suite);
}
