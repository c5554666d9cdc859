/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "hwt/bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 4
#define CAPACITY_KEPT 8 /* an empty bucket keeps this much, to spare the allocator */

/* Four rounds at a time, by the compilers' vector types: on any machine, with its own
 * instructions where it has them. The arrays are aligned for a uint32_t only. */
typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));

static bool any(four has)
{
    typedef uint64_t two __attribute__((vector_size(16)));
    two halves = (two)has;
    return halves[0] | halves[1];
}

static size_t bytes_of(uint32_t capacity)
{
    return (size_t)capacity * 2 * sizeof(uint32_t);
}

static void set_index(struct hwt_entry *entry, uint32_t index)
{
    /* Relaxed: the worker's own, but for the pool, whose head orders it. */
    atomic_store_explicit(&entry->index, index, memory_order_relaxed);
}

/* Moves the arrays to new ones of another capacity. */
static int resize(struct hwt_bucket *bucket, uint32_t capacity, size_t *bytes)
{
    uint32_t *rounds = malloc(bytes_of(capacity));
    if (!rounds)
        return -ENOMEM;
    if (bucket->used) {
        memcpy(rounds, bucket->rounds, bucket->used * sizeof(uint32_t));
        memcpy(rounds + capacity, hwt_bucket_ids(bucket), bucket->used * sizeof(uint32_t));
    }
    free(bucket->rounds);
    *bytes += bytes_of(capacity) - bytes_of(bucket->capacity);
    bucket->rounds = rounds;
    bucket->capacity = capacity;
    return 0;
}

static void close_holes(struct hwt_bucket *bucket, const struct hwt_pool *pool)
{
    uint32_t *ids = hwt_bucket_ids(bucket);
    uint32_t to = 0;
    for (uint32_t from = 0; from < bucket->used; from++) {
        if (ids[from] == HWT_BUCKET_HOLE)
            continue;
        if (to != from) {
            ids[to] = ids[from];
            bucket->rounds[to] = bucket->rounds[from];
            set_index(hwt_pool_entry(pool, ids[to]), to);
        }
        to++;
    }
    bucket->used = to;
    bucket->cursor = 0;
}

static int make_room(struct hwt_bucket *bucket, const struct hwt_pool *pool, size_t *bytes)
{
    uint32_t holes = bucket->used - bucket->live;
    if (holes >= bucket->capacity / 4 && holes > 0) {
        close_holes(bucket, pool);
        return 0;
    }
    uint32_t capacity = bucket->capacity + bucket->capacity / 2;
    return resize(bucket, capacity < CAPACITY_MIN ? CAPACITY_MIN : capacity, bytes);
}

static void forget_all(struct hwt_bucket *bucket, size_t *bytes)
{
    bucket->used = 0;
    bucket->cursor = 0;
    bucket->least_count = 0;
    if (bucket->capacity > CAPACITY_KEPT) {
        *bytes -= bytes_of(bucket->capacity);
        free(bucket->rounds);
        bucket->rounds = NULL;
        bucket->capacity = 0;
    }
}

int hwt_bucket_add(struct hwt_bucket *bucket, const struct hwt_pool *pool, struct hwt_entry *entry,
                   uint32_t round, uint32_t now, size_t *bytes)
{
    if (bucket->used == bucket->capacity) {
        int r = make_room(bucket, pool, bytes);
        if (r < 0)
            return r;
    }

    uint32_t index = bucket->used++;
    bucket->rounds[index] = round;
    hwt_bucket_ids(bucket)[index] = hwt_entry_id(entry);
    set_index(entry, index);

    if (bucket->live++ == 0 || round - now < bucket->least - now) {
        bucket->least = round;
        bucket->least_count = 1;
    } else if (round == bucket->least) {
        bucket->least_count++;
    }
    return 0;
}

static void remove_at(struct hwt_bucket *bucket, uint32_t index, uint32_t now)
{
    hwt_bucket_ids(bucket)[index] = HWT_BUCKET_HOLE;
    bucket->live--;
    if (bucket->rounds[index] == bucket->least && bucket->least_count > 0)
        bucket->least_count--;
    bucket->rounds[index] = now - 1;
}

void hwt_bucket_drop(struct hwt_bucket *bucket, uint32_t index, uint32_t now, size_t *bytes)
{
    remove_at(bucket, index, now);
    if (bucket->live == 0)
        forget_all(bucket, bytes);
}

/* The first place from `at` on that has the round, or `used`. */
static uint32_t find_round(const uint32_t *rounds, uint32_t at, uint32_t used, uint32_t round)
{
    for (; at < used && at % 8 != 0; at++) {
        if (rounds[at] == round)
            return at;
    }
    for (; at + 8 <= used; at += 8) {
        const four *rows = (const four *)(rounds + at);
        four has = (four)((rows[0] == round) | (rows[1] == round));
        if (any(has))
            break;
    }
    for (; at < used && rounds[at] != round; at++)
        ;
    return at;
}

size_t hwt_bucket_take(struct hwt_bucket *bucket, const struct hwt_pool *pool, uint32_t now,
                       struct hwt_entry **batch, size_t max)
{
    const uint32_t *ids = hwt_bucket_ids(bucket);
    size_t n = 0;
    uint32_t at = bucket->cursor;
    while (n < max && bucket->least_count > 0) {
        at = find_round(bucket->rounds, at, bucket->used, now);
        if (at == bucket->used)
            break;
        if (ids[at] != HWT_BUCKET_HOLE) {
            batch[n] = hwt_pool_entry(pool, ids[at]);
            __builtin_prefetch(batch[n], 1);
            n++;
            remove_at(bucket, at, now);
        }
        at++;
    }
    bucket->cursor = at;
    return n;
}

size_t hwt_bucket_take_any(struct hwt_bucket *bucket, const struct hwt_pool *pool, uint32_t now,
                           struct hwt_entry **batch, size_t max, size_t *bytes)
{
    const uint32_t *ids = hwt_bucket_ids(bucket);
    size_t n = 0;
    while (bucket->live > 0 && n < max) {
        if (bucket->cursor == bucket->used)
            bucket->cursor = 0;
        uint32_t at = bucket->cursor++;
        if (ids[at] == HWT_BUCKET_HOLE)
            continue;
        batch[n++] = hwt_pool_entry(pool, ids[at]);
        remove_at(bucket, at, now);
    }
    if (bucket->live == 0)
        forget_all(bucket, bytes);
    return n;
}

/* The least of round - before - 1, modulo 2^32: holes come out greatest. */
static uint32_t least_after(const uint32_t *rounds, uint32_t used, uint32_t before)
{
    uint32_t from = before + 1;
    uint32_t i = 0;
    four leasts = ~(four){ 0 };
    for (; i + 4 <= used; i += 4) {
        four its = *(const four *)(rounds + i) - from;
        four less = (four)(its < leasts);
        leasts = (its & less) | (leasts & ~less);
    }
    uint32_t least = UINT32_MAX;
    for (unsigned lane = 0; lane < 4; lane++)
        least = leasts[lane] < least ? leasts[lane] : least;
    for (; i < used; i++)
        least = rounds[i] - from < least ? rounds[i] - from : least;
    return least;
}

static uint32_t count_round(const uint32_t *rounds, uint32_t used, uint32_t round)
{
    uint32_t i = 0;
    four counts = { 0 };
    for (; i + 4 <= used; i += 4)
        counts -= (four)(*(const four *)(rounds + i) == round); /* true is all ones */
    uint32_t count = counts[0] + counts[1] + counts[2] + counts[3];
    for (; i < used; i++)
        count += rounds[i] == round;
    return count;
}

static void find_least(struct hwt_bucket *bucket, uint32_t now)
{
    bucket->least = now + least_after(bucket->rounds, bucket->used, now - 1);
    bucket->least_count = count_round(bucket->rounds, bucket->used, bucket->least);
}

/* Whether an old hole passes for a timeout of the least round. */
static bool least_is_hole(const struct hwt_bucket *bucket)
{
    const uint32_t *ids = hwt_bucket_ids(bucket);
    uint32_t at = 0;
    if (bucket->used == bucket->live)
        return false;
    while ((at = find_round(bucket->rounds, at, bucket->used, bucket->least)) < bucket->used) {
        if (ids[at++] == HWT_BUCKET_HOLE)
            return true;
    }
    return false;
}

void hwt_bucket_settle(struct hwt_bucket *bucket, const struct hwt_pool *pool, uint32_t now,
                       size_t *bytes)
{
    bucket->cursor = 0;
    if (bucket->live == 0) {
        forget_all(bucket, bytes);
        return;
    }
    if (bucket->used - bucket->live > bucket->live)
        close_holes(bucket, pool);
    if (bucket->capacity > CAPACITY_KEPT && bucket->used < bucket->capacity / 4)
        (void)resize(bucket, bucket->capacity / 2, bytes); /* no memory: it stays as it is */
    find_least(bucket, now);
    if (least_is_hole(bucket)) {
        close_holes(bucket, pool);
        find_least(bucket, now);
    }
}

bool hwt_bucket_check(const struct hwt_bucket *bucket, const struct hwt_pool *pool, uint32_t now)
{
    const uint32_t *ids = hwt_bucket_ids(bucket);
    uint32_t live = 0, of_least = 0;
    if (bucket->used > bucket->capacity || bucket->cursor > bucket->used)
        return false;
    for (uint32_t i = 0; i < bucket->used; i++) {
        if (ids[i] == HWT_BUCKET_HOLE)
            continue;
        const struct hwt_entry *entry = hwt_pool_entry(pool, ids[i]);
        if (atomic_load_explicit(&entry->index, memory_order_relaxed) != i)
            return false;
        if (bucket->rounds[i] - now < bucket->least - now)
            return false;
        of_least += bucket->rounds[i] == bucket->least;
        live++;
    }
    return live == bucket->live && (live == 0 || of_least == bucket->least_count);
}
