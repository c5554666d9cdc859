/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What always holds of a bucket, for tests. See bucket.h. */

#include "hwt/store/bucket.h"

/* The least and the greatest of a part, counted from `now`. */
struct range {
    uint32_t least, most;
};

/* False: a round is before `now`. */
static bool check_part(const struct hwt_shelf *shelf, uint32_t from, uint32_t to, uint32_t now,
                       struct range *range)
{
    *range = (struct range){ UINT32_MAX, 0 };
    for (uint32_t i = from; i < to; i++) {
        uint32_t remaining = shelf->hints[i].round - now;
        if (remaining == UINT32_MAX)
            return false;
        range->least = remaining < range->least ? remaining : range->least;
        range->most = remaining > range->most ? remaining : range->most;
    }
    return true;
}

static bool check_order(const struct hwt_bucket *bucket, uint32_t now)
{
    const struct hwt_hint *hints = bucket->near.hints;
    for (uint32_t i = bucket->begin + 1; i < bucket->sorted; i++) {
        if (hints[i].round - now < hints[i - 1].round - now)
            return false;
    }
    return true;
}

static bool check_far(const struct hwt_bucket *bucket, uint32_t now, uint32_t near_most)
{
    struct range far;
    if (!check_part(&bucket->far, 0, bucket->far.used, now, &far))
        return false;
    if (!bucket->divided)
        return bucket->far.used == 0;
    uint32_t least = bucket->least - now, far_least = bucket->far_least - bucket->least;
    return near_most - least < far_least &&
           (bucket->far.used == 0 || far.least - least >= far_least);
}

static bool check_first(const struct hwt_bucket *bucket)
{
    const struct hwt_shelf *near = &bucket->near;
    uint32_t first = bucket->sorted;
    while (first < near->used && near->hints[first].round != bucket->least)
        first++;
    return first < near->used && first == bucket->first;
}

static bool check_visit(const struct hwt_bucket *bucket)
{
    const struct hwt_shelf *near = &bucket->near;
    uint32_t at = bucket->next_first;
    return bucket->cursor < near->used &&
           (bucket->kept == bucket->sorted ||
            (at >= bucket->sorted && at < bucket->kept && near->hints[at].round == bucket->next));
}

bool hwt_bucket_check(const struct hwt_bucket *bucket, uint32_t now)
{
    const struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    const uint32_t sorted = bucket->sorted, least = bucket->least - now;
    uint32_t kept = bucket->visits ? bucket->kept : sorted;
    uint32_t cursor = bucket->visits ? bucket->cursor : sorted;
    struct range of_sorted, of_kept, of_tail;
    if (near->used > near->capacity || far->used > far->capacity || bucket->begin > sorted ||
        sorted > kept || kept > cursor || cursor > near->used)
        return false;
    if (hwt_bucket_count(bucket) == 0)
        return near->used == 0 && bucket->begin == 0 && sorted == 0 && !bucket->divided &&
               !bucket->visits;
    if (!check_order(bucket, now) || !check_part(near, bucket->begin, sorted, now, &of_sorted) ||
        !check_part(near, sorted, kept, now, &of_kept) ||
        !check_part(near, cursor, near->used, now, &of_tail))
        return false;
    uint32_t most = of_sorted.most > of_kept.most ? of_sorted.most : of_kept.most;
    if (!check_far(bucket, now, most > of_tail.most ? most : of_tail.most))
        return false;
    if (of_sorted.least < least || of_tail.least < least ||
        (kept > sorted && of_kept.least <= least) ||
        (bucket->visits && kept > sorted && of_kept.least != bucket->next - now))
        return false;
    /* The least round is there, but in a visit that has taken all of it. */
    if (bucket->visits)
        return check_visit(bucket);
    return of_sorted.least == least || (of_tail.least == least && check_first(bucket));
}
