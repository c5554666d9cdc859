/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_BUCKET_FIXTURE_H
#define HWT_TESTS_BUCKET_FIXTURE_H

/* One bucket, checked after each call, and what to fill it with: of each number there is one hint,
 * which stays until it is said to be gone. */

#include "bucket_malloc.h"
#include "unit.h"

enum { MANY = 2000, KEPT_BYTES = HWT_BLOCK_MIN * sizeof(struct hwt_hint) };

static struct hwt_bucket bucket;
static uint32_t batch[MANY]; /* numbers */
static bool gone[MANY];
static uint32_t asked; /* how often, whether a hint stays */

static inline void open_bucket(void)
{
    bucket = (struct hwt_bucket){ 0 };
    open_pieces();
    refuse = false;
    refused = asked = 0;
    memset(gone, 0, sizeof(gone));
}

static inline void close_bucket(void)
{
    hwt_bucket_clear(&bucket, &all_pieces);
    must(bytes_held() == memory_of(&bucket));
}

static inline uint32_t generation_of(uint32_t i)
{
    return i * 2654435761u + 7;
}

static inline uint32_t keep_there(const void *data, struct hwt_hint *hints, uint32_t n)
{
    uint32_t kept = 0;
    must(data == gone);
    for (uint32_t i = 0; i < n; i++, asked++) {
        struct hwt_hint hint = hints[i];
        must(hint.id < MANY && hint.generation == generation_of(hint.id));
        if (!gone[hint.id])
            hints[kept++] = hint;
    }
    return kept;
}

static inline void verify(uint32_t now)
{
    must(hwt_bucket_check(&bucket, now));
    must(bytes_held() == memory_of(&bucket));
}

static inline int try_add(uint32_t i, uint32_t round, uint32_t now)
{
    return hwt_bucket_add(&bucket, (struct hwt_hint){ round, i, generation_of(i) }, now,
                          &all_pieces);
}

static inline void add(uint32_t i, uint32_t round, uint32_t now)
{
    uint32_t count = hwt_bucket_count(&bucket);
    must(try_add(i, round, now) == 0);
    must(hwt_bucket_count(&bucket) == count + 1);
    verify(now);
}

/* Whether one of the least round stays. */
static inline bool prune(uint32_t now)
{
    uint32_t count = hwt_bucket_count(&bucket), before = asked, looks = UINT32_MAX;
    bool some = hwt_bucket_prune(&bucket, keep_there, gone, &looks, &all_pieces);
    must(hwt_bucket_count(&bucket) <= count && asked - before <= count + 1);
    verify(now);
    return some;
}

static inline void sweep(uint32_t now)
{
    uint32_t count = hwt_bucket_count(&bucket), before = asked;
    hwt_bucket_sweep(&bucket, keep_there, gone, &all_pieces);
    must(asked - before == count);
    verify(now);
}

/* Takes up to `max` into batch[at] and what follows. */
static inline size_t take(size_t at, size_t max)
{
    static struct hwt_hint hints[MANY];
    const struct hwt_hint *peeked = hwt_bucket_peek(&bucket);
    uint32_t first = peeked ? peeked->id : UINT32_MAX, round = bucket.least;
    uint32_t count = hwt_bucket_count(&bucket);
    size_t n = hwt_bucket_take(&bucket, hints, max, &all_pieces);
    must(n <= max && hwt_bucket_count(&bucket) == count - n);
    must(!peeked || max == 0 || (n > 0 && hints[0].id == first));
    for (size_t i = 0; i < n; i++) {
        must(hints[i].round == round && hints[i].generation == generation_of(hints[i].id));
        batch[at + i] = hints[i].id;
    }
    return n;
}

/* Takes all of the round, `max` at a time. */
static inline size_t take_round(uint32_t round, size_t max)
{
    size_t n = 0;
    while (hwt_bucket_count(&bucket) > 0 && bucket.least == round) {
        n += take(n, max);
        verify(round);
    }
    return n;
}

#endif
