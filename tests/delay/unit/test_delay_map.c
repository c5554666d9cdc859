/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The map beside an array: nodes come and go at random, in waves, so that there are many buckets
 * and then few. The tests look at what a bucket has, at how many buckets there are, and whether
 * an insertion or a removal moves many nodes. The wrapped malloc() refuses memory.
 */

#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "kit.h"

#include "hwt/delay/table/map.h"

enum { NODES = 5000, STEPS = 60000, ROUNDS = 3 };

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool without_memory; /* for the map alone */
static bool refuses;
static size_t refused;

void *__wrap_malloc(size_t size)
{
    if (!refuses)
        return __real_malloc(size);
    refused++;
    return NULL;
}

static struct hwt_delay_map map;
static struct hwt_delay_node nodes[NODES];
static bool there[NODES];
static size_t count;
static uint64_t seed;

static size_t below(size_t n)
{
    return (size_t)(test_random(&seed) % n);
}

static void begin(void)
{
    without_memory = refuses = false;
    refused = 0;
    seed = test_seed_get(true);
    hwt_delay_map_init(&map);
    memset(there, 0, sizeof(there));
    count = 0;
    for (uint64_t i = 0; i < NODES; i++) /* some have equal hashes */
        nodes[i].hash = hwt_delay_hash(i / 2, "id", 2);
}

static void end(void)
{
    hwt_delay_map_clear(&map);
}

static bool is_there(const struct hwt_delay_node *node)
{
    const struct hwt_delay_node *at = hwt_delay_map_bucket(&map, node->hash);
    while (at && at != node)
        at = at->next;
    return at != NULL;
}

/* Neither a call that inserts nor one that removes moves the nodes of more than two buckets. */
static void insert(size_t i)
{
    const size_t before = map.buckets;
    refuses = without_memory;
    hwt_delay_map_insert(&map, &nodes[i]);
    refuses = false;
    must(map.buckets >= before && map.buckets <= before + 2);
    there[i] = true;
    count++;
}

static void take_out(size_t i)
{
    const size_t before = map.buckets;
    hwt_delay_map_remove(&map, &nodes[i]);
    must(map.buckets <= before && map.buckets + 2 >= before);
    there[i] = false;
    count--;
}

static void check_all(void)
{
    for (size_t i = 0; i < NODES; i++)
        must(is_there(&nodes[i]) == there[i]);
    must(map.count == count);
}

/* As many as there are nodes, and at most twice as many. */
static void check_buckets(void)
{
    must(map.buckets >= count);
    must(map.buckets <= 2 * count + 2 || map.buckets == HWT_DELAY_MAP_LEAST);
}

/* Nodes come and go; more come than go, or the other way round. */
static void wave(bool grows, bool any_buckets)
{
    for (size_t step = 0; step < STEPS; step++) {
        size_t i = below(NODES);
        if (below(8) == 0 ? there[i] == grows : there[i] != grows) {
            if (there[i])
                take_out(i);
            else
                insert(i);
        }
        must(is_there(&nodes[i]) == there[i]);
        if (!any_buckets)
            check_buckets();
    }
    check_all();
}

START_TEST(a_bucket_has_all_that_is_there)
{
    for (int round = 0; round < ROUNDS; round++) {
        wave(true, false);
        must(map.buckets > NODES / 2);
        wave(false, false);
    }
    for (size_t i = 0; i < NODES; i++) {
        if (there[i])
            take_out(i);
    }
    check_all();
    ck_assert_uint_eq(map.buckets, HWT_DELAY_MAP_LEAST);
    for (int i = 0; i < HWT_DELAY_MAP_PARTS; i++)
        ck_assert_ptr_null(map.parts[i]); /* its memory was given back */
}
END_TEST

START_TEST(without_memory_buckets_are_fuller)
{
    for (size_t i = 0; i < 100; i++)
        insert(i);
    size_t buckets = map.buckets;
    without_memory = true;
    for (size_t i = 100; i < 400; i++)
        insert(i);
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_ge(map.buckets, buckets);
    ck_assert_uint_lt(map.buckets, 200);
    wave(true, true);
    wave(false, true);
    without_memory = false;
    for (size_t i = 0; map.buckets < count; i++) { /* it makes up for it */
        ck_assert_uint_lt(i, NODES);
        if (!there[i])
            insert(i);
    }
    wave(true, false);
}
END_TEST

START_TEST(cleared_it_is_empty_and_can_be_used_again)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < NODES; i++)
            insert(i);
        check_all();
        hwt_delay_map_clear(&map);
        memset(there, 0, sizeof(there));
        count = 0;
        check_all();
        ck_assert_uint_eq(map.buckets, HWT_DELAY_MAP_LEAST);
    }
}
END_TEST

/* Another due time, byte of the id or length has another hash; the same identity has the same. */
START_TEST(a_hash_is_of_all_of_an_identity)
{
    unsigned char id[256] = { 0 };
    for (size_t size = 1; size < sizeof(id); size++) {
        const uint64_t hash = hwt_delay_hash(7, id, size);
        ck_assert_uint_eq(hwt_delay_hash(7, id, size), hash);
        ck_assert_uint_ne(hwt_delay_hash(8, id, size), hash);
        ck_assert_uint_ne(hwt_delay_hash(7, id, size - 1), hash);
        for (size_t i = 0; i < size; i++) {
            id[i] = 1;
            ck_assert_uint_ne(hwt_delay_hash(7, id, size), hash);
            id[i] = 0;
        }
    }
}
END_TEST

/* It is not what SipHash-1-3 is with a key of 0, which everybody can reckon. */
START_TEST(a_hash_has_a_secret)
{
    ck_assert_uint_ne(hwt_delay_hash(7, "id", 2), UINT64_C(0x29cf72321fe1fc17));
}
END_TEST

/* No more nodes are in one bucket than chance brings there, whatever the ids have in common. */
START_TEST(hashes_are_spread)
{
    enum { MANY = 1 << 14, MOST = 16 };
    static struct hwt_delay_node many[MANY];
    for (uint64_t i = 0; i < MANY; i++) {
        const uint64_t id[2] = { 0, i << 40 };
        many[i].hash = hwt_delay_hash(1, id, sizeof(id));
        hwt_delay_map_insert(&map, &many[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        size_t length = 0;
        const struct hwt_delay_node *node = hwt_delay_map_bucket(&map, many[i].hash);
        for (; node; node = node->next)
            length++;
        must(length <= MOST);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_map");
    TCase *tcase = tcase_create("map");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_bucket_has_all_that_is_there);
    tcase_add_test(tcase, without_memory_buckets_are_fuller);
    tcase_add_test(tcase, cleared_it_is_empty_and_can_be_used_again);
    tcase_add_test(tcase, a_hash_is_of_all_of_an_identity);
    tcase_add_test(tcase, a_hash_has_a_secret);
    tcase_add_test(tcase, hashes_are_spread);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
