/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs, ids and free lists of entries. Threads are in test_pool_threads.c. */

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

static unsigned colour_of(const struct hwt_slab *slab)
{
    return (unsigned)((uintptr_t)slab / HWT_SLAB_SIZE % HWT_SLAB_COLOURS);
}

/* Each entry is in the slab, beside its head and its neighbours, and has an id of its own. */
static void verify_slab(const struct hwt_slab *slab)
{
    uintptr_t begin = hwt_slab_base(slab), head = (uintptr_t)slab;
    uintptr_t free_from = begin;
    must(begin % HWT_SLAB_SIZE == 0);
    must(head % _Alignof(struct hwt_slab) == 0);
    must(sizeof(void *) < 8 || head % HWT_CACHE_LINE == 0);
    must(head + sizeof(*slab) <= begin + HWT_SLAB_SIZE);
    for (uint32_t place = 0; place < HWT_SLAB_ENTRIES; place++) {
        struct hwt_entry *entry = hwt_slab_entry(slab, place);
        uintptr_t at = (uintptr_t)entry;
        must(at >= free_from && at + sizeof(*entry) <= begin + HWT_SLAB_SIZE);
        must(at + sizeof(*entry) <= head || at >= head + sizeof(*slab));
        must(at % _Alignof(struct hwt_entry) == 0);
        must(hwt_slab_of(entry) == slab);
        must(hwt_entry_id(entry) == (slab->number << HWT_SLAB_BITS | place));
        verify_id(entry);
        free_from = at + sizeof(*entry);
    }
}

START_TEST(entries_and_the_head_share_a_slab_of_any_colour)
{
    const struct hwt_slab *last = NULL;
    uint64_t colours = 0;
    while (colours != UINT64_MAX) {
        const struct hwt_slab *slab = hwt_slab_of(take(room.lane));
        if (slab == last)
            continue;
        verify_slab(slab);
        colours |= UINT64_C(1) << colour_of(slab);
        last = slab;
        must(pool->slabs < 1024);
    }
}
END_TEST

START_TEST(heads_of_neighbouring_slabs_are_in_different_sets_of_a_cache)
{
    ck_assert(sizeof(void *) < 8 || HWT_SLAB_STEP % HWT_CACHE_LINE == 0);
    for (uintptr_t i = 1; i < HWT_SLAB_COLOURS; i++) {
        for (uintptr_t k = 0; k < i; k++)
            must(hwt_slab_head(i * HWT_SLAB_SIZE) != hwt_slab_head(k * HWT_SLAB_SIZE));
    }
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

/* On a shared lane entries are taken one by one. */
START_TEST(what_was_given_back_last_is_taken_first)
{
    struct hwt_lane *lane = room_shared_lane(&room, 0);
    for (size_t i = 0; i < 100; i++)
        entries[i] = take(lane);
    for (size_t i = 0; i < 100; i++)
        hwt_pool_give(entries[i]);
    for (size_t i = 100; i-- > 0;)
        must(take(lane) == entries[i]);
    ck_assert_uint_eq(lane->ready_count, 0);
}
END_TEST

static uint32_t top_of(const struct hwt_lane *lane)
{
    return (uint32_t)lane->free;
}

START_TEST(an_entry_goes_home_whoever_gives_it_back)
{
    struct hwt_lane *others[] = { room_lane(&room, 1), room_shared_lane(&room, 1) };
    struct hwt_entry *own = take(room.lane);
    must(hwt_slab_of(own)->home == room.lane);
    for (int i = 0; i < 2; i++) {
        struct hwt_entry *stolen = take(others[i]);
        must(hwt_slab_of(stolen)->home == room.lane);
        hwt_pool_give(stolen);
        must(top_of(room.lane) == hwt_entry_id(stolen));
    }
}
END_TEST

START_TEST(other_lanes_are_asked_before_the_pool_grows)
{
    struct hwt_lane *other = _i ? room_shared_lane(&room, 1) : room_lane(&room, 1);
    take(room.lane);
    for (size_t i = 1; i < HWT_SLAB_ENTRIES; i++)
        take(other);
    ck_assert_uint_eq(pool->slabs, 1);
    must(hwt_slab_of(take(other))->home == other);
    ck_assert_uint_eq(pool->slabs, 2);
    for (size_t i = 1; i < HWT_SLAB_ENTRIES; i++) /* from the last one in turn to the first */
        take(room.lane);
    ck_assert_uint_eq(pool->slabs, 2);
}
END_TEST

START_TEST(every_pop_raises_the_tag)
{
    struct hwt_lane *lane = room_shared_lane(&room, 0);
    struct hwt_entry *entry = take(lane);
    hwt_pool_give(entry);
    uint64_t before = lane->free;
    take(lane);
    hwt_pool_give(entry);
    ck_assert_uint_eq((uint32_t)lane->free, (uint32_t)before);
    ck_assert_uint_eq(lane->free >> 32, (before >> 32) + 1);
    lane->free |= UINT64_C(0xffffffff) << 32;
    must(take(lane) == entry); /* it begins again at 0, and harms no id */
    ck_assert_uint_eq(lane->free >> 32, 0);
    must(top_of(lane) == hwt_entry_id(take(lane)));
}
END_TEST

START_TEST(an_entry_keeps_its_state_word_in_the_pool)
{
    struct hwt_entry *entry = take(room.lane);
    ck_assert_uint_eq(entry->state, 0);
    entry->state = UINT64_C(4711) << HWT_GENERATION_SHIFT | HWT_PHASE_EXPIRED;
    hwt_pool_give(entry);
    ck_assert(room_has_back(&room, entry));
    ck_assert_uint_eq(entry->state >> HWT_GENERATION_SHIFT, 4711);
}
END_TEST

/* ---- ready entries ---- */

/* Takes those that are ready. */
static void use_up(struct hwt_lane *lane)
{
    while (lane->ready_count > 0)
        take(lane);
}

/* That the next so many are given[first], given[first + 1] ... in any order. */
static void expect_next(struct hwt_entry **given, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct hwt_entry *entry = take(room.lane);
        size_t k = 0;
        while (k < n && given[k] != entry)
            k++;
        must(k < n);
        given[k] = NULL;
    }
}

START_TEST(the_owner_pops_many_at_once)
{
    take(room.lane); /* the first of a new slab comes alone */
    ck_assert_uint_eq(room.lane->ready_count, 0);
    for (uint64_t pops = 1; pops < 10; pops++) {
        take(room.lane);
        ck_assert_uint_eq(room.lane->free >> 32, pops);
        ck_assert_uint_eq(room.lane->ready_count, HWT_READY_MAX - 1);
        uint64_t before = room.lane->free;
        use_up(room.lane);
        ck_assert_uint_eq(room.lane->free, before);
    }
}
END_TEST

START_TEST(those_given_back_last_are_popped_first)
{
    enum { MUCH = 3 * HWT_READY_MAX };
    for (size_t i = 0; i < MUCH; i++)
        entries[i] = take(room.lane);
    use_up(room.lane);
    for (size_t i = 0; i < MUCH; i++)
        hwt_pool_give(entries[i]);
    for (size_t i = 3; i-- > 0;)
        expect_next(&entries[i * HWT_READY_MAX], HWT_READY_MAX);
}
END_TEST

/* Each loop: so many are on the free list. */
START_TEST(as_many_are_popped_as_there_are_and_fit)
{
    uint32_t n = (uint32_t)_i, fit = n < HWT_READY_MAX ? n : HWT_READY_MAX;
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        entries[i] = take(room.lane);
    ck_assert_uint_eq(room.lane->ready_count, 0);
    ck_assert_uint_eq(top_of(room.lane), HWT_ID_NONE);
    for (uint32_t i = 0; i < n; i++)
        hwt_pool_give(entries[i]);
    take(room.lane);
    ck_assert_uint_eq(room.lane->ready_count, fit - 1);
    uint32_t top = n > fit ? hwt_entry_id(entries[n - fit - 1]) : HWT_ID_NONE;
    ck_assert_uint_eq(top_of(room.lane), top);
    ck_assert_uint_eq(pool->slabs, 1);
}
END_TEST

START_TEST(ready_entries_are_nobody_elses)
{
    struct hwt_lane *other = room_lane(&room, 1);
    take(room.lane);
    take(room.lane);
    ck_assert_uint_eq(room.lane->ready_count, HWT_READY_MAX - 1);
    for (size_t i = 1 + HWT_READY_MAX; i < HWT_SLAB_ENTRIES; i++)
        take(other);
    ck_assert_uint_eq(pool->slabs, 1);
    take(other);
    ck_assert_uint_eq(pool->slabs, 2);
    for (int i = 1; i < HWT_READY_MAX; i++)
        must(hwt_slab_of(take(room.lane))->number == 0);
    must(hwt_slab_of(take(room.lane))->number == 1);
}
END_TEST

static void nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task quiet = { nothing, NULL };

/* As if one of the lane's threads had added it, and cancelled it if it is dead. */
static void push(struct hwt_lane *lane, struct hwt_entry *entry, bool dead)
{
    uint64_t phase = dead ? HWT_PHASE_CANCELLED : HWT_PHASE_QUEUED;
    hwt_entry_set_task(entry, &quiet);
    entry->slot = HWT_SLOT_FRESH;
    entry->state = UINT64_C(1) << HWT_GENERATION_SHIFT | phase;
    hwt_lane_push_pending(lane, entry);
}

/* The lane's own pending ones, its free list, other lanes' free lists and pending ones, in turn,
 * and new ones at last. What was salvaged from its own is not given to the worker. */
START_TEST(ready_entries_come_from_the_nearest_that_has_any)
{
    struct hwt_lane *next = room_lane(&room, 1), *after = room_lane(&room, 2);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        entries[i] = take(room.lane);
    for (size_t i = 0; i < 12; i++)
        push(i < 4 ? room.lane : i < 8 ? next : after, entries[i], true);
    for (size_t i = 12; i < 16; i++)
        hwt_pool_give(entries[i]);
    hwt_slab_of(entries[0])->home = after;
    for (size_t i = 16; i < 20; i++)
        hwt_pool_give(entries[i]);

    uint64_t given = room.lane->given;
    expect_next(&entries[0], 4); /* its own pending */
    ck_assert_uint_eq(room.lane->given, given);
    expect_next(&entries[12], 4); /* its own free */
    ck_assert_uint_eq(room.lane->given, given + 4);
    expect_next(&entries[4], 4);  /* the next lane has pending ones only */
    expect_next(&entries[16], 4); /* the one after it free ones too */
    expect_next(&entries[8], 4);
    ck_assert_uint_eq(room.lane->given, given + 16);
    ck_assert_uint_eq(pool->slabs, 1);
    must(hwt_slab_of(take(room.lane))->number == 1);
    ck_assert_uint_eq(room.lane->given, given + 17);
}
END_TEST

/* Of its own pending ones a lane passes over one at a time, so that this costs little where all
 * live; with nothing else left it looks further. */
START_TEST(a_lane_has_little_patience_with_what_it_has_pending)
{
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        entries[i] = take(room.lane);
    for (size_t i = 0; i < 6; i++)
        push(room.lane, entries[i], i % 3 == 2); /* two that live before each dead one */
    for (size_t i = 10; i < 12; i++) {
        hwt_pool_give(entries[i]);
        expect_next(&entries[i], 1);
    }
    expect_next(&entries[2], 1);
    hwt_pool_give(entries[12]);
    expect_next(&entries[12], 1);
    expect_next(&entries[5], 1);

    for (size_t i = 20; i < 60; i++)
        push(room.lane, entries[i], i == 50);
    expect_next(&entries[50], 1);
    ck_assert_uint_eq(pool->slabs, 1);
    must(hwt_slab_of(take(room.lane))->number == 1);
}
END_TEST

/* ---- the recycler ---- */

START_TEST(nothing_comes_back_before_the_flush_and_then_in_order)
{
    struct hwt_recycler *recycler = &room.timer->worker.recycler;
    struct hwt_lane *lane = room_shared_lane(&room, 0);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        entries[i] = take(lane);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        hwt_recycler_add(room.timer, recycler, entries[i]);
    must(hwt_slab_of(take(lane))->number == 1);
    hwt_recycler_flush(room.timer, recycler);
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        must(take(lane) == entries[i]);
    hwt_recycler_flush(room.timer, recycler); /* has nothing to do */
    must(hwt_slab_of(take(lane))->number == 1);
}
END_TEST

START_TEST(a_flush_takes_each_entry_home)
{
    struct hwt_recycler *recycler = &room.timer->worker.recycler;
    struct hwt_lane *lanes[] = { room.lane, room_lane(&room, 1), room_shared_lane(&room, 1) };
    for (size_t i = 0; i < HWT_SLAB_ENTRIES; i++)
        entries[i] = take(lanes[0]);
    struct hwt_entry *second = take(lanes[1]);
    while (pool->slabs < 3)
        take(lanes[1]);
    for (size_t i = 1; i < HWT_SLAB_ENTRIES; i++)
        take(lanes[1]);
    struct hwt_entry *third = take(lanes[2]);
    hwt_recycler_add(room.timer, recycler, entries[0]);
    hwt_recycler_add(room.timer, recycler, second);
    hwt_recycler_add(room.timer, recycler, third);
    hwt_recycler_add(room.timer, recycler, entries[1]);
    hwt_recycler_flush(room.timer, recycler);
    must(top_of(lanes[0]) == hwt_entry_id(entries[0]));
    must(entries[0]->index == hwt_entry_id(entries[1]));
    must(top_of(lanes[1]) == hwt_entry_id(second));
    must(top_of(lanes[2]) == hwt_entry_id(third));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *slabs = room_case(suite, "slabs", open_room, close_room);
    tcase_add_test(slabs, each_entry_has_an_id_and_is_given_out_once);
    tcase_add_test(slabs, entries_and_the_head_share_a_slab_of_any_colour);
    tcase_add_test(slabs, heads_of_neighbouring_slabs_are_in_different_sets_of_a_cache);
    tcase_add_test(slabs, ids_lead_to_their_entries_on_every_page_of_the_directory);
    tcase_add_test(slabs, a_pool_that_has_its_most_slabs_gives_out_no_more);
    tcase_add_test(slabs, all_memory_is_counted);
    tcase_add_test(slabs, regions_grow_with_the_pool);
    TCase *lists = room_case(suite, "lists", open_room, close_room);
    tcase_add_test(lists, what_was_given_back_last_is_taken_first);
    tcase_add_test(lists, an_entry_goes_home_whoever_gives_it_back);
    tcase_add_loop_test(lists, other_lanes_are_asked_before_the_pool_grows, 0, 2);
    tcase_add_test(lists, every_pop_raises_the_tag);
    tcase_add_test(lists, an_entry_keeps_its_state_word_in_the_pool);
    TCase *ready = room_case(suite, "ready", open_room, close_room);
    tcase_add_test(ready, the_owner_pops_many_at_once);
    tcase_add_test(ready, those_given_back_last_are_popped_first);
    tcase_add_loop_test(ready, as_many_are_popped_as_there_are_and_fit, 1, HWT_READY_MAX + 3);
    tcase_add_test(ready, ready_entries_are_nobody_elses);
    tcase_add_test(ready, ready_entries_come_from_the_nearest_that_has_any);
    tcase_add_test(ready, a_lane_has_little_patience_with_what_it_has_pending);
    TCase *recycler = room_case(suite, "recycler", open_room, close_room);
    tcase_add_test(recycler, nothing_comes_back_before_the_flush_and_then_in_order);
    tcase_add_test(recycler, a_flush_takes_each_entry_home);
    return run_suite(suite);
}
