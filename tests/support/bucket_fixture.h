/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_BUCKET_FIXTURE_H
#define HWT_TESTS_BUCKET_FIXTURE_H

/* One bucket, checked after each call, and the entries to fill it with. */

#include "bucket_malloc.h"
#include "room_fixture.h"

enum { MANY = 2000 };

static struct room room;
static struct hwt_bucket bucket;
static size_t bytes;
static struct hwt_entry *entries[MANY];
static struct hwt_entry *batch[MANY];

static inline void open_bucket(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
    room_take_all(&room, entries, MANY);
    bucket = (struct hwt_bucket){ 0 };
    bytes = 0;
    refuse = false;
    refused = 0;
}

static inline void close_bucket(void)
{
    hwt_bucket_destroy(&bucket);
    room_close(&room);
}

static inline const struct hwt_pool *pool(void)
{
    return &room.timer->pool;
}

static inline void verify(uint32_t now)
{
    must(hwt_bucket_check(&bucket, pool(), now));
    must(bytes == ((size_t)bucket.near.capacity + bucket.far.capacity) * 8);
}

static inline void add(int i, uint32_t round, uint32_t now)
{
    must(hwt_bucket_add(&bucket, pool(), entries[i], round, now, &bytes) == 0);
    verify(now);
}

static inline void drop(int i, uint32_t now)
{
    hwt_bucket_drop(&bucket, entries[i]->index, now, &bytes);
    verify(now);
}

static inline void settle(uint32_t now)
{
    hwt_bucket_settle(&bucket, pool(), now, &bytes);
    verify(now);
}

/* Takes all of the round, `max` at a time, and settles. */
static inline size_t take_round(uint32_t now, size_t max)
{
    size_t n = 0;
    while (hwt_bucket_live(&bucket) > 0 && bucket.least == now && bucket.least_count > 0) {
        size_t taken = hwt_bucket_take(&bucket, pool(), now, batch + n, max);
        must(taken > 0 && taken <= max);
        n += taken;
    }
    settle(now);
    return n;
}

#endif
