/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * No entry is in two hands, whoever takes and gives back meanwhile.
 *
 * pool.c is included, so that a pop of many can be stopped at each entry on its way; the linker
 * then leaves out the library's own.
 */

#include <sched.h>

#include "room_fixture.h"

static struct hwt_entry *on_the_way(const struct hwt_pool *of, uint32_t id);

#define hwt_pool_entry on_the_way
#include "hwt/pool.c"
#undef hwt_pool_entry

static struct room room;
static struct hwt_pool *pool;

static void open_room(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
    pool = &room.timer->pool;
}

static void close_room(void)
{
    room_close(&room);
}

/* ---- a pop of many, and what others do meanwhile ---- */

enum { NOBODYS, MINE, OTHERS };

static struct meanwhile {
    bool now;        /* others may come between */
    unsigned left;   /* so many times */
    unsigned times;  /* as many as they did */
    uint64_t random; /* from which they choose */
    uint8_t whose[HWT_SLAB_ENTRIES];
    struct hwt_entry *others[HWT_SLAB_ENTRIES];
    size_t others_n;
} meanwhile;

static uint8_t *whose(const struct hwt_entry *entry)
{
    uint32_t place = hwt_entry_id(entry) & ((1U << HWT_SLAB_BITS) - 1);
    must(hwt_slab_of(entry)->number == 0 && place < HWT_SLAB_ENTRIES);
    return &meanwhile.whose[place];
}

static void change_hands(struct hwt_entry *entry, uint8_t from, uint8_t to)
{
    must(*whose(entry) == from);
    *whose(entry) = to;
}

static size_t below(size_t limit)
{
    return (size_t)(test_random(&meanwhile.random) % limit);
}

static void others_pop(size_t max)
{
    size_t n = pop(pool, room.lane, &meanwhile.others[meanwhile.others_n], max);
    for (size_t i = 0; i < n; i++) {
        struct hwt_entry *entry = meanwhile.others[meanwhile.others_n++];
        change_hands(entry, NOBODYS, OTHERS);
        /* As in a bucket: no id that leads anywhere. */
        atomic_store(&entry->index, UINT32_MAX - 1 - (uint32_t)below(1000));
    }
}

/* Of those held any, in any order. */
static void others_push(size_t max)
{
    struct hwt_recycled chain = { NULL, NULL };
    for (size_t i = 0; i < max && meanwhile.others_n > 0; i++) {
        struct hwt_entry **one = &meanwhile.others[below(meanwhile.others_n)];
        change_hands(*one, OTHERS, NOBODYS);
        hwt_recycled_add(&chain, *one);
        *one = meanwhile.others[--meanwhile.others_n];
    }
    hwt_pool_give_chain(room.lane, &chain);
}

static void others_do_something(void)
{
    for (size_t steps = 1 + below(4); steps > 0; steps--) {
        if (below(512) >= meanwhile.others_n) /* so that they hold a part of all */
            others_pop(1 + below(8));
        else
            others_push(1 + below(8));
    }
    meanwhile.times++;
}

/* Whatever was read has to be checked before it is believed: what is met here is on the list. */
static struct hwt_entry *on_the_way(const struct hwt_pool *of, uint32_t id)
{
    if (meanwhile.now) {
        struct hwt_slab *slab = hwt_slab_of(hwt_pool_entry(of, 0));
        must(id >> HWT_SLAB_BITS == 0 && id < HWT_SLAB_ENTRIES);
        must(*whose(hwt_slab_entry(slab, id)) == NOBODYS);
        if (meanwhile.left > 0 && below(8) == 0) {
            meanwhile.now = false;
            others_do_something();
            meanwhile.now = true;
            meanwhile.left--;
        }
    }
    return hwt_pool_entry(of, id);
}

START_TEST(a_pop_of_many_takes_what_is_free_whatever_others_do_meanwhile)
{
    struct hwt_entry *mine[HWT_SLAB_ENTRIES];
    size_t mine_n = 0;
    memset(&meanwhile, 0, sizeof(meanwhile));
    meanwhile.random = test_seed();
    mine[mine_n++] = hwt_pool_take(room.timer, room.lane);
    change_hands(mine[0], NOBODYS, MINE);
    for (int i = 0; i < 100000; i++) {
        struct hwt_entry *batch[HWT_READY_MAX];
        meanwhile.now = true;
        meanwhile.left = (unsigned)below(4);
        size_t n = pop(pool, room.lane, batch, 1 + below(HWT_READY_MAX));
        meanwhile.now = false;
        for (size_t k = 0; k < n; k++) {
            change_hands(batch[k], NOBODYS, MINE);
            mine[mine_n++] = batch[k];
        }
        size_t most = mine_n > HWT_SLAB_ENTRIES / 2 ? 3 * HWT_READY_MAX : HWT_READY_MAX;
        for (size_t k = below(most); k > 0 && mine_n > 0; k--) {
            change_hands(mine[--mine_n], MINE, NOBODYS);
            hwt_pool_give(mine[mine_n]);
        }
    }
    ck_assert_uint_gt(meanwhile.times, 10000);
    others_push(HWT_SLAB_ENTRIES);
    size_t n = pop(pool, room.lane, &mine[mine_n], HWT_SLAB_ENTRIES);
    ck_assert_uint_eq(mine_n + n, HWT_SLAB_ENTRIES);
    for (size_t k = mine_n; k < HWT_SLAB_ENTRIES; k++)
        change_hands(mine[k], NOBODYS, MINE);
    ck_assert_uint_eq((uint32_t)room.lane->free, HWT_ID_NONE);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 8, HELD = 64, ROUNDS = 20000, VISITS = 100 };

struct hand {
    uint64_t number; /* not 0 */
    uint64_t random;
    int rounds;
    bool shares;
    bool may_fail; /* there are not entries for all */
    uint64_t clashes;
};

static _Atomic bool go;

static void grab(struct hand *hand, struct hwt_entry **held)
{
    *held = hwt_pool_take(room.timer, hwt_lane_own(room.timer));
    /* The deadline says whose it is: 0, nobody's. */
    if (!*held)
        hand->clashes += !hand->may_fail;
    else if (atomic_exchange(&(*held)->deadline, hand->number) != 0)
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
    if (hand->shares)
        share_lane((uint32_t)hand->number / 4); /* two of them each */
    while (!atomic_load(&go))
        sched_yield();
    for (int i = 0; i < hand->rounds && hand->clashes == 0; i++) {
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

/* Half of the threads have a lane of their own, half share. */
static void let_threads_grab(uint64_t seed, int rounds, bool may_fail)
{
    struct hand hands[THREADS];
    pthread_t threads[THREADS];
    atomic_store(&go, false);
    for (uint64_t i = 0; i < THREADS; i++) {
        hands[i] = (struct hand){ i + 1, seed + i, rounds, i % 2, may_fail, 0 };
        threads[i] = spawn(grab_and_put_down, &hands[i]);
    }
    atomic_store(&go, true);
    for (int i = 0; i < THREADS; i++) {
        join(threads[i]);
        ck_assert_uint_eq(hands[i].clashes, 0);
    }
}

/* All are back: on a free list, or ready for the next owner of a lane. */
static void expect_all(void)
{
    size_t count = 0, all = pool->slabs * HWT_SLAB_ENTRIES;
    atomic_store(&pool->slabs, HWT_SLABS_MAX);
    for (uint32_t i = 0; i < room.timer->lane_count; i++) {
        struct hwt_entry *entry;
        while ((entry = hwt_pool_take(room.timer, &room.timer->lanes[i])) != NULL) {
            must(atomic_exchange(&entry->deadline, 1) == 0);
            count++;
        }
    }
    ck_assert_uint_eq(count, all);
}

START_TEST(no_entry_is_in_two_hands)
{
    let_threads_grab(test_seed(), ROUNDS, false);
    ck_assert_uint_le(pool->slabs, THREADS);
    expect_all();
}
END_TEST

/* One lane's free list is all there is, and too short for all. */
START_TEST(no_entry_of_a_single_free_list_is_in_two_hands)
{
    enum { KEPT = HWT_SLAB_ENTRIES - 250 };
    static struct hwt_entry *kept[KEPT];
    for (size_t i = 0; i < KEPT; i++)
        kept[i] = hwt_pool_take(room.timer, room_shared_lane(&room, 0));
    atomic_store(&pool->slabs, HWT_SLABS_MAX);
    let_threads_grab(test_seed(), ROUNDS, true);
    for (size_t i = 0; i < KEPT; i++)
        hwt_pool_give(kept[i]);
    atomic_store(&pool->slabs, 1);
    expect_all();
}
END_TEST

START_TEST(no_entry_is_in_two_hands_of_threads_that_come_and_go)
{
    for (uint64_t i = 0; i < VISITS; i++)
        let_threads_grab(test_seed() + i * THREADS, ROUNDS / VISITS, false);
    ck_assert_uint_le(pool->slabs, THREADS);
    expect_all();
}
END_TEST

struct visitor {
    uint32_t number;
    size_t n;
    struct hwt_entry *taken[HWT_READY_MAX + 1];
};

static void *visit(void *data)
{
    struct visitor *visitor = data;
    struct hwt_lane *lane = hwt_lane_own(room.timer);
    visitor->number = hwt_thread_number;
    for (size_t i = 0; i < visitor->n; i++)
        visitor->taken[i] = hwt_pool_take(room.timer, lane);
    return NULL;
}

START_TEST(entries_that_an_ended_thread_left_ready_are_used_by_the_next)
{
    static struct visitor first = { .n = 2 }, second = { .n = HWT_READY_MAX }, third = { .n = 1 };
    struct hwt_lane *lane = room_lane(&room, 1);
    struct hwt_entry *left[HWT_READY_MAX];
    join(spawn(visit, &first));
    ck_assert_uint_eq(lane->ready_count, HWT_READY_MAX - 1); /* the second popped as many */
    memcpy(left, lane->ready, sizeof(left));
    uint64_t before = lane->free;
    join(spawn(visit, &second));
    ck_assert_uint_eq(second.number, first.number);
    for (size_t i = 0; i < HWT_READY_MAX - 1; i++)
        ck_assert_ptr_eq(second.taken[i], left[HWT_READY_MAX - 2 - i]);
    ck_assert_uint_eq(lane->free >> 32, (before >> 32) + 1); /* the last one popped again */
    join(spawn(visit, &third));
    ck_assert_uint_eq(third.number, first.number);
    ck_assert_uint_eq(lane->ready_count, HWT_READY_MAX - 2);
    ck_assert_uint_eq(pool->slabs, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool_threads");
    TCase *popping = room_case(suite, "pop", open_room, close_room);
    tcase_add_test(popping, a_pop_of_many_takes_what_is_free_whatever_others_do_meanwhile);
    TCase *threads = room_case(suite, "threads", open_room, close_room);
    tcase_add_test(threads, no_entry_is_in_two_hands);
    tcase_add_test(threads, no_entry_of_a_single_free_list_is_in_two_hands);
    tcase_add_test(threads, no_entry_is_in_two_hands_of_threads_that_come_and_go);
    tcase_add_test(threads, entries_that_an_ended_thread_left_ready_are_used_by_the_next);
    return run_suite(suite);
}
