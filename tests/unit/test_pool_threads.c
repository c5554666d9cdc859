/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several threads at one pool, and the worker that gives slabs back meanwhile. */

#include <sched.h>

#include "pool_fixture.h"

enum { THREADS = 4, TURNS = 300, MOST = 3000 };

/* What a thread has, it alone writes: ThreadSanitizer sees one that was given out twice. */
struct user {
    pthread_t thread;
    uint64_t seed;
    struct hwt_cache cache;
    struct hwt_entry *held[MOST];
    uint32_t count;
};

static struct user users[THREADS];
static _Atomic bool done;

enum { SLABS_SEEN = 64 };
static _Atomic uint64_t generations[SLABS_SEEN << HWT_ID_BITS];

static void take_some(struct user *user)
{
    static const hwt_task task = { 0 };
    uint32_t n = (uint32_t)(test_random(&user->seed) % MOST);
    while (user->count < n) {
        struct hwt_entry *one = hwt_pool_take(&pool, &user->cache);
        must(one && hwt_entry_id(one) == hwt_entry_id(one));
        uint64_t state = hwt_entry_begin(one, &task, user, user->count);
        must(hwt_entry_id(one) >> HWT_ID_BITS < SLABS_SEEN);
        uint64_t last = atomic_exchange(&generations[hwt_entry_id(one)], hwt_generation(state));
        must(hwt_generation(state) > last); /* also after the slab was given back */
        user->held[user->count++] = one;
    }
}

static void give_some(struct user *user)
{
    uint32_t n = (uint32_t)(test_random(&user->seed) % MOST);
    while (user->count > n) {
        struct hwt_entry *one = user->held[--user->count];
        uint64_t state = hwt_entry_state(one);
        must(hwt_entry_arg(one) == user && hwt_phase(state) == HWT_PHASE_PENDING);
        must(hwt_entry_deadline(one) == user->count);
        atomic_store_explicit(&one->word.first, hwt_with_phase(state, HWT_PHASE_EXPIRED),
                              memory_order_release);
        hwt_pool_give(&pool, &user->cache, one);
    }
}

static void *take_and_give(void *data)
{
    struct user *user = data;
    for (int turn = 0; turn < TURNS; turn++) {
        take_some(user);
        give_some(user);
    }
    while (user->count > 0)
        give_some(user);
    hwt_pool_flush(&pool, &user->cache);
    return data;
}

static void *trim_often(void *data)
{
    while (!done) {
        (void)hwt_pool_trim(&pool, 0);
        sched_yield();
    }
    return data;
}

static void run_users(bool trims)
{
    uint64_t seed = test_seed();
    pthread_t trimmer = 0;
    done = false;
    for (uint32_t id = 0; id < SLABS_SEEN << HWT_ID_BITS; id++)
        generations[id] = 0;
    if (trims)
        trimmer = spawn(trim_often, NULL);
    for (int i = 0; i < THREADS; i++) {
        users[i] = (struct user){ .seed = test_random(&seed) };
        users[i].thread = spawn(take_and_give, &users[i]);
    }
    for (int i = 0; i < THREADS; i++)
        join(users[i].thread);
    done = true;
    if (trims)
        join(trimmer);
}

START_TEST(no_entry_is_lost_or_given_out_twice)
{
    run_users(false);
    ck_assert_uint_eq(count_batches(), pool.slabs_used * SLAB);
}
END_TEST

START_TEST(beside_a_worker_that_gives_slabs_back_nothing_is_lost_either)
{
    run_users(true);
    trim_pool(0); /* the last one ends, and what it holds goes back */
    ck_assert_uint_eq(count_batches(), pool.slabs_used * SLAB);
    uint32_t slabs = pool.slabs;
    trim_pool(0);
    ck_assert_uint_eq(pool.slabs_used, 0);
    for (uint32_t i = 0; i < slabs * SLAB; i++)
        (void)take_one();
    ck_assert_uint_eq(pool.slabs, slabs);
}
END_TEST

/* ---- a stale handle ---- */

static struct hwt_entry *stale;
static uint64_t stale_state;

static void *ask_often(void *data)
{
    uint64_t asked = 0;
    while (!done) {
        hwt_timer *timer = hwt_timer_of(stale);
        uint64_t state = hwt_entry_state(stale);
        must(state != stale_state);
        must(timer == NULL || timer == (hwt_timer *)(void *)&owner);
        asked++;
    }
    *(uint64_t *)data = asked;
    return NULL;
}

START_TEST(one_who_has_a_stale_handle_may_ask_while_its_slab_goes_and_comes)
{
    static struct hwt_entry *all[10 * SLAB];
    uint64_t asked = 0, bytes = 0;
    take_many(all, 10 * SLAB);
    stale = all[3];
    stale_state = use(stale);
    done = false;
    pthread_t asker = spawn(ask_often, &asked);
    for (int i = 0; i < 60; i++) {
        give_many(all, 10 * SLAB);
        hwt_pool_flush(&pool, &cache);
        bytes += hwt_pool_bytes(&pool);
        trim_pool(0);
        bytes -= hwt_pool_bytes(&pool);
        take_many(all, 10 * SLAB);
        for (uint32_t k = 0; k < 10 * SLAB; k++)
            must(use(all[k]) != stale_state || all[k] != stale);
    }
    done = true;
    join(asker);
    ck_assert_uint_eq(bytes, 60 * 10 * HWT_SLAB_SIZE); /* it went each time */
    ck_assert_uint_gt(asked, 0);
}
END_TEST

/* ---- the last ids ---- */

static _Atomic uint32_t ready;
static _Atomic bool taken[64][HWT_SLAB_SEATS];

static void *take_to_the_end(void *data)
{
    struct hwt_cache own = { 0 };
    struct hwt_entry *one;
    uint32_t n = 0;
    ready++;
    while (ready < 2)
        ;
    while ((one = hwt_pool_take(&pool, &own)) != NULL) {
        uint32_t number = hwt_entry_id(one) >> HWT_ID_BITS,
                 place = hwt_entry_id(one) & ((1u << HWT_ID_BITS) - 1);
        must(number < HWT_SLABS_MAX && HWT_SLABS_MAX - number <= 64);
        must(!atomic_exchange(&taken[HWT_SLABS_MAX - number - 1][place], true));
        n++;
    }
    *(uint32_t *)data = n;
    return NULL;
}

START_TEST(two_threads_that_map_the_last_slabs_at_once_take_each_id_once)
{
    uint32_t n[2];
    for (uint32_t i = 0; i < SLAB; i++)
        (void)take_one();
    pool.slabs = HWT_SLABS_MAX - 64; /* for two regions */
    ready = 0;
    memset(taken, 0, sizeof(taken));
    pthread_t first = spawn(take_to_the_end, &n[0]), second = spawn(take_to_the_end, &n[1]);
    join(first);
    join(second);
    ck_assert_uint_eq(pool.slabs, HWT_SLABS_MAX);
    ck_assert_uint_eq(n[0] + n[1], 64 * SLAB);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool: threads");
    TCase *threads = unit_case(suite, "threads", open_pool, close_pool);
    tcase_set_timeout(threads, 120);
    tcase_add_test(threads, no_entry_is_lost_or_given_out_twice);
    tcase_add_test(threads, beside_a_worker_that_gives_slabs_back_nothing_is_lost_either);
    tcase_add_test(threads, one_who_has_a_stale_handle_may_ask_while_its_slab_goes_and_comes);
    tcase_add_test(threads, two_threads_that_map_the_last_slabs_at_once_take_each_id_once);
    return run_suite(suite);
}
