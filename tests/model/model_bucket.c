/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One bucket against a plain list: random adds, visits, of which some are interrupted, and sweeps, with
 * rounds close together and far apart, so that blocks fill, empty and are joined; and now and then
 * without memory.
 */

#include "bucket_malloc.h"
#include "unit.h"

enum { MANY = 3000, PROGRAMS = 60, STEPS = 4000 };

static struct hwt_bucket bucket;
static uint64_t seed;
static uint32_t now; /* the bucket's round */

/* The oracle: of each id one hint. */
static struct item {
    bool in;
    bool gone; /* it is not to stay */
    uint32_t round;
    uint32_t generation;
    uint64_t filed; /* when, in the order of filing */
} items[MANY];
static uint64_t filings;
static uint32_t count;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(test_random(&seed) % n);
}

static uint32_t keep_there(const void *data, struct hwt_hint *hints, uint32_t n)
{
    uint32_t kept = 0;
    must(data == items);
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_hint hint = hints[i];
        must(items[hint.id].in && items[hint.id].round == hint.round);
        must(items[hint.id].generation == hint.generation);
        if (!items[hint.id].gone)
            hints[kept++] = hint;
    }
    return kept;
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
    case 3: /* to the end of all numbers */
        return UINT32_MAX - 1 - below(300);
    case 4:
        return (uint32_t)(test_random(&seed) % UINT32_MAX);
    case 5:
        return below(2) ? below(300) : UINT32_MAX - 1 - below(300);
    case 6: { /* about the least round of the block that is being filled */
        uint32_t remaining = bucket.last.least - now + below(5) - 2;
        return remaining < UINT32_MAX ? remaining : 0;
    }
    default:
        return below(3) ? below(100) : below(100000);
    }
}

static void add(unsigned manner)
{
    uint32_t i = below(MANY);
    struct hwt_bucket before = bucket;
    if (items[i].in)
        return;
    uint32_t round = now + some_rounds(manner), generation = (uint32_t)test_random(&seed);
    int r = hwt_bucket_add(&bucket, (struct hwt_hint){ round, i, generation }, now, &all_pieces);
    if (r < 0) {
        must(r == -ENOMEM && refuse);
        must(memcmp(&before, &bucket, sizeof(bucket)) == 0);
        return;
    }
    items[i] = (struct item){ true, false, round, generation, filings++ };
    count++;
}

static void forget(uint32_t i)
{
    must(items[i].in);
    items[i].in = false;
    count--;
}

/* Cancels come in runs, soonest first or anywhere. */
static void let_some_go(void)
{
    uint32_t many = below(20);
    for (uint32_t i = below(MANY), n = 0; n < many && i < MANY; i++) {
        n += items[i].in && !items[i].gone;
        items[i].gone = true;
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

/* The first of the least round that stays, MANY: none does. */
static uint32_t first_that_stays(void)
{
    uint32_t first = MANY;
    for (uint32_t i = 0; i < MANY; i++) {
        if (items[i].in && !items[i].gone && items[i].round == bucket.least &&
            (first == MANY || items[i].filed < items[first].filed))
            first = i;
    }
    return first;
}

static void prune(void)
{
    uint32_t round = bucket.least, first = first_that_stays(), looks = UINT32_MAX;
    must(hwt_bucket_prune(&bucket, keep_there, items, &looks, &all_pieces) == (first < MANY));
    for (uint32_t i = 0; i < MANY; i++) {
        if (items[i].in && items[i].round == round &&
            (first == MANY || items[i].filed < items[first].filed))
            forget(i);
    }
}

static void sweep(void)
{
    hwt_bucket_sweep(&bucket, keep_there, items, &all_pieces);
    for (uint32_t i = 0; i < MANY; i++) {
        if (items[i].in && items[i].gone)
            forget(i);
    }
}

static void take_some(size_t max)
{
    uint64_t last = 0;
    struct hwt_hint hints[64];
    const struct hwt_hint *peeked = hwt_bucket_peek(&bucket);
    uint32_t id = peeked ? peeked->id : MANY, round = bucket.least;
    size_t n = hwt_bucket_take(&bucket, hints, max, &all_pieces);
    must(id == MANY || (n > 0 && hints[0].id == id));
    for (size_t k = 0; k < n; k++) {
        const struct item *item = &items[hints[k].id];
        must(item->in && item->round == round && item->round == hints[k].round);
        must(item->generation == hints[k].generation && item->filed >= last);
        last = item->filed;
        forget(hints[k].id);
    }
    /* None that was filed before the last one taken is left. */
    for (uint32_t i = 0; i < MANY && n > 0; i++)
        must(!items[i].in || items[i].round != round || items[i].filed > last);
}

/* Goes to the least round, or short of it, and takes what is due there, or a part of it. */
static void visit(unsigned manner)
{
    uint32_t least = bucket.least, max = 1 + below(64);
    bool whole = below(2);
    must(least == now + least_remaining_of_items());
    if (whole || below(2))
        now = least;
    do {
        take_some(max);
        must(hwt_bucket_check(&bucket, now));
        if (below(8) == 0)
            add(manner);
        if (below(8) == 0)
            let_some_go();
    } while (whole && count > 0 && bucket.least == least);
}

static void clear_all(void)
{
    hwt_bucket_clear(&bucket, &all_pieces);
    for (uint32_t i = 0; i < MANY; i++)
        items[i].in = false;
    count = 0;
}

static void verify(void)
{
    must(hwt_bucket_check(&bucket, now));
    must(hwt_bucket_count(&bucket) == count);
    must(bytes_held() == memory_of(&bucket));
}

static void step(unsigned manner)
{
    refuse = below(10) == 0;
    if (below(2))
        let_some_go();
    if (below(4) == 0 && count > 0)
        prune();
    if (below(4) == 0 && count > 0)
        visit(manner);
    if (below(100) == 0)
        sweep();
    if (below(2000) == 0)
        clear_all();
    refuse = false;
    verify();
}

static void run_program(void)
{
    bucket = (struct hwt_bucket){ 0 };
    open_pieces();
    count = 0;
    now = (uint32_t)test_random(&seed);
    for (uint32_t i = 0; i < MANY; i++)
        items[i].in = false;
    unsigned manner = below(8), adds = 1 + below(40);
    for (uint32_t i = 0; i < STEPS; i++) {
        for (unsigned k = 0; k < adds && i < STEPS / 2; k++) {
            refuse = below(20) == 0;
            add(manner);
        }
        step(manner);
    }
    while (count > 0)
        take_some(64);
    hwt_bucket_clear(&bucket, &all_pieces);
}

START_TEST(a_bucket_does_what_a_plain_list_does)
{
    seed = test_seed();
    for (unsigned i = test_scaled(PROGRAMS); i > 0; i--)
        run_program();
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
