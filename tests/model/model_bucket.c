/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One bucket against a plain list: random adds, drops, visits and settles, with rounds close
 * together and far apart, so that both shelves fill, empty and exchange what they hold.
 */

#include "hwt/store/bucket.h"
#include "places_fixture.h"

enum { MANY = 3000, PROGRAMS = 60, STEPS = 4000 };

static struct places places;
static struct hwt_bucket bucket;
static size_t bytes;
static uint64_t seed;
static uint32_t now; /* the bucket's round */

/* The oracle. */
static struct item {
    bool in;
    uint32_t round;
    uint64_t filed; /* when, in the order of filing */
} items[MANY];
static uint64_t filings;
static uint32_t pending;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(test_random(&seed) % n);
}

/* Dense, spread, or a few very far away. */
static uint32_t some_rounds(unsigned manner)
{
    switch (manner) {
    case 0:
        return below(20);
    case 1:
        return below(2000);
    case 2:
        return below(100) ? 1000 + below(1000000) : below(INT32_MAX);
    default:
        return below(3) ? below(100) : below(100000);
    }
}

static void add(unsigned manner)
{
    uint32_t i = below(MANY);
    if (items[i].in)
        return;
    items[i] = (struct item){ true, now + some_rounds(manner), filings++ };
    must(hwt_bucket_add(&bucket, &places.directory, places_id(i), items[i].round, now, &bytes) == 0);
    pending++;
}

static void forget(uint32_t i)
{
    items[i].in = false;
    pending--;
}

/* Cancels come in runs, soonest first or anywhere. */
static void drop_some(void)
{
    uint32_t many = below(20);
    for (uint32_t i = below(MANY), n = 0; n < many && i < MANY; i++) {
        if (!items[i].in)
            continue;
        uint32_t index = place_of(&places, i)->index;
        must(hwt_bucket_round(&bucket, index) == items[i].round);
        hwt_bucket_drop(&bucket, &places.directory, index, now, &bytes);
        forget(i);
        n++;
    }
}

static uint32_t least_remaining_of_items(void)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < MANY; i++) {
        if (items[i].in && items[i].round - now < least)
            least = items[i].round - now;
    }
    return least;
}

/* Goes to the least round, or short of it, and takes what is due there, in order of filing. */
static void visit(void)
{
    uint32_t batch[64];
    uint32_t least = least_remaining_of_items();
    size_t n, max = 1 + below(64);
    uint64_t last = 0;
    hwt_bucket_settle(&bucket, &places.directory, now, &bytes);
    must(bucket.least == now + least && bucket.least_count > 0);
    now += least;
    while ((n = hwt_bucket_take(&bucket, now, batch, max)) > 0) {
        for (size_t k = 0; k < n; k++) {
            uint32_t i = places_number(batch[k]);
            must(items[i].in && items[i].round == now && items[i].filed >= last);
            last = items[i].filed;
            forget(i);
        }
    }
    must(bucket.least_count == 0);
    must(pending == 0 || least_remaining_of_items() > 0);
}

static void clear_all(void)
{
    hwt_bucket_clear(&bucket, &bytes);
    for (uint32_t i = 0; i < MANY; i++)
        items[i].in = false;
    pending = 0;
}

static void verify(void)
{
    must(hwt_bucket_live(&bucket) == pending);
    must(bytes == ((size_t)bucket.near.capacity + bucket.far.capacity) * 2 * sizeof(uint32_t));
}

static void run_program(void)
{
    bucket = (struct hwt_bucket){ 0 };
    bytes = 0;
    pending = 0;
    now = (uint32_t)test_random(&seed);
    for (uint32_t i = 0; i < MANY; i++)
        items[i].in = false;
    unsigned manner = below(4), adds = 1 + below(40);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (unsigned i = 0; i < adds && step < STEPS / 2; i++)
            add(manner);
        if (below(2))
            drop_some();
        if (below(4) == 0 && pending > 0)
            visit();
        if (below(2000) == 0)
            clear_all();
        hwt_bucket_settle(&bucket, &places.directory, now, &bytes);
        must(hwt_bucket_check(&bucket, &places.directory, now));
        verify();
    }
    hwt_bucket_destroy(&bucket);
}

START_TEST(a_bucket_does_what_a_plain_list_does)
{
    seed = test_seed();
    places_open(&places, MANY);
    for (int i = 0; i < PROGRAMS; i++)
        run_program();
    places_close(&places);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_bucket");
    TCase *tcase = tcase_create("model");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_bucket_does_what_a_plain_list_does);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
