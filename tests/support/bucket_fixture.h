/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_BUCKET_FIXTURE_H
#define HWT_TESTS_BUCKET_FIXTURE_H

/* One bucket, checked after each call, and what to fill it with. */

#include "bucket_malloc.h"
#include "places_fixture.h"

enum { MANY = 2000 };

static struct places places;
static struct hwt_bucket bucket;
static size_t bytes;
static uint32_t batch[MANY]; /* numbers: see places_number() */

static inline void open_bucket(void)
{
    places_open(&places, MANY);
    bucket = (struct hwt_bucket){ 0 };
    bytes = 0;
    refuse = false;
    refused = 0;
}

static inline void close_bucket(void)
{
    hwt_bucket_destroy(&bucket);
    places_close(&places);
}

static inline uint32_t index_of(uint32_t i)
{
    return place_of(&places, i)->index;
}

static inline void verify(uint32_t now)
{
    must(hwt_bucket_check(&bucket, &places.directory, now));
    must(bytes == ((size_t)bucket.near.capacity + bucket.far.capacity) * 8);
}

static inline int try_add(uint32_t i, uint32_t round, uint32_t now)
{
    return hwt_bucket_add(&bucket, &places.directory, places_id(i), round, now, &bytes);
}

static inline void add(uint32_t i, uint32_t round, uint32_t now)
{
    must(try_add(i, round, now) == 0);
    must(hwt_bucket_round(&bucket, index_of(i)) == round);
    verify(now);
}

static inline void drop(uint32_t i, uint32_t now)
{
    hwt_bucket_drop(&bucket, &places.directory, index_of(i), now, &bytes);
    verify(now);
}

static inline void settle(uint32_t now)
{
    hwt_bucket_settle(&bucket, &places.directory, now, &bytes);
    verify(now);
}

/* Takes up to `max` into batch[at] and what follows. */
static inline size_t take(uint32_t now, size_t at, size_t max)
{
    uint32_t peeked = hwt_bucket_peek(&bucket);
    uint32_t first = bucket.near.rounds[bucket.cursor];
    size_t n = hwt_bucket_take(&bucket, now, batch + at, max);
    must(n <= max);
    if (first == now && peeked != HWT_ID_NONE && n > 0)
        must(batch[at] == peeked);
    for (size_t i = at; i < at + n; i++)
        batch[i] = places_number(batch[i]);
    return n;
}

/* Takes all of the round, `max` at a time, and settles. */
static inline size_t take_round(uint32_t now, size_t max)
{
    size_t n = 0;
    while (hwt_bucket_live(&bucket) > 0 && bucket.least == now && bucket.least_count > 0) {
        size_t taken = take(now, n, max);
        must(taken > 0);
        n += taken;
    }
    settle(now);
    return n;
}

#endif
