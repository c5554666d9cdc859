/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hints of one slot. See bucket.h. */

#include "hwt/store/bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/base/barrier.h"

#define CAPACITY_MIN 4    /* an empty shelf keeps this much, to spare the allocator */
#define CAPACITY_MANY 256 /* from here on it grows by a quarter at a time */
#define TAIL_MANY 64      /* hints: fewer are not worth sorting */
#define SAMPLES 8

/* ---- a shelf ---- */

static size_t bytes_of(uint32_t capacity)
{
    return (size_t)capacity * sizeof(struct hwt_hint);
}

static uint32_t grown(uint32_t capacity)
{
    if (capacity < CAPACITY_MIN)
        return CAPACITY_MIN;
    return capacity + (capacity < CAPACITY_MANY ? capacity / 2 : capacity / 4);
}

static void free_unreachable(struct hwt_hint *hints)
{
    hwt_a_fork_may_come();
    free(hints);
}

/* Another array, that has the hints of this one from `from` on. */
static int resize(struct hwt_shelf *shelf, uint32_t from, uint32_t capacity, size_t *bytes)
{
    struct hwt_hint *hints = malloc(bytes_of(capacity));
    if (!hints)
        return -ENOMEM;
    if (shelf->hints && shelf->used > from)
        memcpy(hints, shelf->hints + from, bytes_of(shelf->used - from));
    struct hwt_hint *old = shelf->hints;
    *bytes += bytes_of(capacity) - bytes_of(shelf->capacity);
    shelf->hints = hints;
    shelf->capacity = capacity;
    shelf->used -= from;
    free_unreachable(old);
    return 0;
}

static bool has_room(struct hwt_shelf *shelf, uint32_t more, size_t *bytes)
{
    uint32_t least = shelf->used + more, usual = grown(shelf->capacity);
    return least <= shelf->capacity || resize(shelf, 0, least > usual ? least : usual, bytes) == 0;
}

static void empty(struct hwt_shelf *shelf, size_t *bytes)
{
    shelf->used = 0;
    if (shelf->capacity <= CAPACITY_MIN)
        return;
    struct hwt_hint *old = shelf->hints;
    *bytes -= bytes_of(shelf->capacity);
    shelf->hints = NULL;
    shelf->capacity = 0;
    free_unreachable(old);
}

/* Gives back what is much more than it needs. */
static void shrink(struct hwt_shelf *shelf, size_t *bytes)
{
    if (shelf->used == 0)
        empty(shelf, bytes);
    else if (shelf->capacity > CAPACITY_MIN && shelf->used < shelf->capacity / 4)
        (void)resize(shelf, 0, grown(shelf->used), bytes); /* another time, then */
}

/* ---- sorting ---- */

static uint32_t least_of(const struct hwt_hint *hints, uint32_t n, uint32_t base)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        least = hints[i].round - base < least ? hints[i].round - base : least;
    return base + least;
}

static void find_first(struct hwt_bucket *bucket)
{
    const struct hwt_shelf *near = &bucket->near;
    bucket->first = 0;
    while (bucket->first < near->used && near->hints[bucket->first].round != bucket->least)
        bucket->first++;
}

/* The near shelf has the hints of `reach` rounds, and they are in order but for their higher digits. */
static void sort(struct hwt_bucket *bucket, uint32_t reach)
{
    struct hwt_shelf *near = &bucket->near;
    bucket->sorted = near->used;
    if (reach <= HWT_HINTS_REACH || near->capacity < 2)
        return;
    struct hwt_hint *other = malloc(bytes_of(near->capacity));
    if (!other) {
        bucket->sorted = 0; /* another time */
        find_first(bucket);
        return;
    }
    struct hwt_hint *hints = near->hints;
    near->hints = hwt_hints_sort(hints, other, near->used, bucket->least, reach);
    free_unreachable(near->hints == other ? hints : other);
}

/* The near shelf is empty, the far one is not. Without memory all of it becomes the tail. */
static void refill(struct hwt_bucket *bucket, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    const uint32_t least = bucket->far_least;
    uint32_t n, reach = hwt_hints_half(far->hints, far->used, least, &n);
    bucket->least = least;
    bucket->begin = bucket->sorted = near->used = 0;
    if (near->capacity / 4 > n)
        empty(near, bytes);
    if (!has_room(near, n, bytes)) {
        struct hwt_shelf was_near = *near, was_far = *far;
        far->hints = NULL; /* never both the same */
        hwt_a_fork_may_come();
        *near = was_far;
        hwt_a_fork_may_come();
        *far = was_near;
        find_first(bucket);
        return;
    }
    hwt_hints_divide(far->hints, far->used, least, reach, near->hints, far->hints);
    near->used = n;
    far->used -= n;
    bucket->far_least = least_of(far->hints, far->used, least);
    sort(bucket, reach);
    shrink(far, bytes);
}

/* Sorts a near shelf whose tail is long; what is not of its sooner half goes to the far one, where
 * nothing is that soon. Without memory it stays as it is. */
static void sort_near(struct hwt_bucket *bucket, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    const struct hwt_hint *hints = near->hints + bucket->begin;
    const uint32_t least = bucket->least, all = near->used - bucket->begin;
    struct hwt_shelf sorted = { 0 };
    uint32_t n, reach = hwt_hints_half(hints, all, least, &n);
    if (!has_room(far, all - n, bytes) || resize(&sorted, 0, grown(n), bytes) < 0)
        return;
    struct hwt_hint *rest = far->hints ? far->hints + far->used : NULL;
    hwt_hints_divide(hints, all, least, reach, sorted.hints, rest);
    if (rest && n < all)
        bucket->far_least = least_of(rest, all - n, least);
    far->used += all - n;
    sorted.used = n;
    bucket->begin = 0;
    struct hwt_hint *old = near->hints;
    *bytes -= bytes_of(near->capacity);
    *near = sorted;
    free_unreachable(old);
    sort(bucket, reach);
}

/* ---- visits ---- */

/* A visit of the tail, in registers. */
struct visit {
    struct hwt_hint *hints;
    uint32_t least;
    uint32_t cursor;
    uint32_t kept;
    uint32_t next;
    uint32_t next_first;
};

static struct visit begin_visit(const struct hwt_bucket *bucket)
{
    if (bucket->visits)
        return (struct visit){ bucket->near.hints, bucket->least, bucket->cursor,
                               bucket->kept,       bucket->next,  bucket->next_first };
    return (struct visit){ .hints = bucket->near.hints,
                           .least = bucket->least,
                           .cursor = bucket->sorted,
                           .kept = bucket->sorted,
                           .next = bucket->least - 1 }; /* later than any other */
}

static inline void keep(struct visit *visit, struct hwt_hint hint)
{
    if (hint.round - visit->least < visit->next - visit->least) {
        visit->next = hint.round;
        visit->next_first = visit->kept;
    }
    visit->hints[visit->kept++] = hint;
}

static void interrupt_visit(struct hwt_bucket *bucket, const struct visit *visit)
{
    bucket->visits = true;
    bucket->cursor = visit->cursor & INT32_MAX;
    bucket->kept = visit->kept;
    bucket->next = visit->next;
    bucket->next_first = visit->next_first;
}

/* The least round is over. */
static void end_visit(struct hwt_bucket *bucket, const struct visit *visit, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near;
    bool tail = visit->kept > bucket->sorted;
    near->used = visit->kept;
    bucket->visits = false;
    bucket->first = visit->next_first;
    if (bucket->begin == bucket->sorted && !tail) {
        if (bucket->far.used > 0)
            refill(bucket, bytes);
        else
            hwt_bucket_clear(bucket, bytes);
        return;
    }
    bucket->least = visit->next;
    if (bucket->begin < bucket->sorted) {
        uint32_t round = near->hints[bucket->begin].round;
        if (!tail || round - visit->least <= visit->next - visit->least)
            bucket->least = round;
    }
    shrink(near, bytes);
}

/* Ends a visit that has not come to its end. The caller finds `least` and `first` anew. */
static void rewind_visit(struct hwt_bucket *bucket)
{
    struct hwt_shelf *near = &bucket->near;
    if (!bucket->visits)
        return;
    if (bucket->kept != bucket->cursor)
        memmove(near->hints + bucket->kept, near->hints + bucket->cursor,
                bytes_of(near->used - bucket->cursor));
    near->used -= bucket->cursor - bucket->kept;
    bucket->visits = false;
}

static bool is_sorted_next(const struct hwt_bucket *bucket)
{
    return bucket->begin < bucket->sorted &&
           bucket->near.hints[bucket->begin].round == bucket->least;
}

/* Whether this visit is likely to take most of a long tail. */
static bool is_of_least(const struct hwt_bucket *bucket)
{
    const struct hwt_hint *hints = bucket->near.hints + bucket->sorted;
    size_t step = (bucket->near.used - bucket->sorted) / SAMPLES, n = 0;
    for (size_t i = 0; i < SAMPLES; i++)
        n += hints[i * step].round == bucket->least;
    return n > SAMPLES / 2;
}

static void sort_if_long(struct hwt_bucket *bucket, size_t *bytes)
{
    uint32_t tail = bucket->near.used - bucket->sorted;
    if (!bucket->visits && tail > TAIL_MANY && tail > (bucket->sorted - bucket->begin) / 2 &&
        !is_of_least(bucket))
        sort_near(bucket, bytes);
}

/* ---- the bucket ---- */

/* Room for one more on the near shelf. What was taken leaves room at its beginning. */
static int make_room(struct hwt_bucket *bucket, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near;
    uint32_t begin = bucket->begin, used = near->used - begin;
    if (begin > 0 && begin >= near->capacity / 4) {
        memmove(near->hints, near->hints + begin, bytes_of(used));
        near->used = used;
    } else if (resize(near, begin, grown(used), bytes) < 0) {
        return -ENOMEM;
    }
    bucket->begin = 0;
    bucket->sorted -= begin;
    bucket->first -= begin; /* or `kept` */
    bucket->next_first -= begin;
    bucket->cursor = (bucket->cursor - begin) & INT32_MAX;
    return 0;
}

/* The first of a round that is the least from then on. */
static int add_least(struct hwt_bucket *bucket, struct hwt_hint hint, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near;
    if (near->used == near->capacity && make_room(bucket, bytes) < 0)
        return -ENOMEM;
    rewind_visit(bucket);
    bucket->least = hint.round;
    bucket->first = near->used;
    near->hints[near->used++] = hint;
    return 0;
}

int hwt_bucket_add(struct hwt_bucket *bucket, struct hwt_hint hint, uint32_t now, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    if (hwt_bucket_add_quickly(bucket, hint, now))
        return 0;
    if (near->used == 0 || hint.round - now < bucket->least - now)
        return add_least(bucket, hint, bytes);
    bool is_far = far->used > 0 && hint.round - now >= bucket->far_least - now;
    if (is_far ? !has_room(far, 1, bytes) : make_room(bucket, bytes) < 0)
        return -ENOMEM;
    struct hwt_shelf *shelf = is_far ? far : near;
    shelf->hints[shelf->used++] = hint;
    return 0;
}

size_t hwt_bucket_take(struct hwt_bucket *bucket, struct hwt_hint *batch, size_t max, size_t *bytes)
{
    size_t n = 0;
    sort_if_long(bucket, bytes);
    while (n < max && is_sorted_next(bucket))
        batch[n++] = bucket->near.hints[bucket->begin++];
    if (is_sorted_next(bucket))
        return n;
    struct visit visit = begin_visit(bucket);
    const uint32_t used = bucket->near.used;
    while (visit.cursor < used && n < max) {
        struct hwt_hint hint = visit.hints[visit.cursor++];
        if (hint.round == visit.least)
            batch[n++] = hint;
        else
            keep(&visit, hint);
    }
    if (visit.cursor < used)
        interrupt_visit(bucket, &visit);
    else
        end_visit(bucket, &visit, bytes);
    return n;
}

bool hwt_bucket_prune(struct hwt_bucket *bucket, hwt_hint_stays stays, const void *data,
                      size_t *bytes)
{
    const struct hwt_hint *first = hwt_bucket_peek(bucket);
    if (first && stays(data, first))
        return true;
    sort_if_long(bucket, bytes);
    for (; is_sorted_next(bucket); bucket->begin++) {
        if (stays(data, &bucket->near.hints[bucket->begin]))
            return true;
    }
    struct visit visit = begin_visit(bucket);
    for (; visit.cursor < bucket->near.used; visit.cursor++) {
        struct hwt_hint hint = visit.hints[visit.cursor];
        if (hint.round != visit.least) {
            keep(&visit, hint);
        } else if (stays(data, &hint)) {
            interrupt_visit(bucket, &visit);
            return true;
        }
    }
    end_visit(bucket, &visit, bytes);
    return false;
}

/* Moves what stays, of `from` to `to`, together at `at`, and returns where that ends. */
static uint32_t sweep_part(struct hwt_shelf *shelf, uint32_t from, uint32_t to, uint32_t at,
                           hwt_hint_stays stays, const void *data)
{
    for (; from < to; from++) {
        struct hwt_hint hint = shelf->hints[from];
        if (stays(data, &hint))
            shelf->hints[at++] = hint;
    }
    return at;
}

/* After hints were thrown away: the least round, and the first of it. */
static void find_least(struct hwt_bucket *bucket)
{
    const struct hwt_shelf *near = &bucket->near;
    bucket->least = least_of(near->hints, near->used, bucket->least);
    find_first(bucket);
}

void hwt_bucket_sweep(struct hwt_bucket *bucket, hwt_hint_stays stays, const void *data,
                      size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    rewind_visit(bucket);
    uint32_t before = hwt_bucket_count(bucket);
    uint32_t sorted = sweep_part(near, bucket->begin, bucket->sorted, 0, stays, data);
    near->used = sweep_part(near, bucket->sorted, near->used, sorted, stays, data);
    far->used = sweep_part(far, 0, far->used, 0, stays, data);
    bucket->begin = 0;
    bucket->sorted = sorted;
    bucket->far_least = least_of(far->hints, far->used, bucket->far_least);
    if (near->used > 0)
        find_least(bucket);
    if (hwt_bucket_count(bucket) == before)
        return; /* a look changes nothing more than the one before it */
    if (near->used == 0 && far->used > 0)
        refill(bucket, bytes);
    shrink(near, bytes);
    shrink(far, bytes);
}

const struct hwt_hint *hwt_bucket_peek(const struct hwt_bucket *bucket)
{
    const struct hwt_shelf *near = &bucket->near;
    uint32_t at = is_sorted_next(bucket) ? bucket->begin
                  : bucket->visits       ? bucket->cursor
                                         : bucket->first;
    return at < near->used && near->hints[at].round == bucket->least ? &near->hints[at] : NULL;
}

void hwt_bucket_clear(struct hwt_bucket *bucket, size_t *bytes)
{
    empty(&bucket->near, bytes);
    empty(&bucket->far, bytes);
    bucket->begin = bucket->sorted = 0;
    bucket->visits = false;
}

void hwt_bucket_destroy(struct hwt_bucket *bucket)
{
    free(bucket->near.hints);
    free(bucket->far.hints);
}

/* ---- for tests ---- */

/* Whether no hint of a part is before `least`; *ret_least is the least there is, counted from `now`. */
static bool check_part(const struct hwt_shelf *shelf, uint32_t from, uint32_t to, uint32_t now,
                       uint32_t *ret_least)
{
    *ret_least = UINT32_MAX;
    for (uint32_t i = from; i < to; i++) {
        uint32_t remaining = shelf->hints[i].round - now;
        if (remaining == UINT32_MAX)
            return false;
        *ret_least = remaining < *ret_least ? remaining : *ret_least;
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

bool hwt_bucket_check(const struct hwt_bucket *bucket, uint32_t now)
{
    const struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    const uint32_t sorted = bucket->sorted, least = bucket->least - now;
    uint32_t kept = bucket->visits ? bucket->kept : sorted;
    uint32_t cursor = bucket->visits ? bucket->cursor : sorted;
    uint32_t of_sorted, of_kept, of_tail, of_far;
    if (near->used > near->capacity || far->used > far->capacity || bucket->begin > sorted ||
        sorted > kept || kept > cursor || cursor > near->used)
        return false;
    if (hwt_bucket_count(bucket) == 0)
        return near->used == 0 && bucket->begin == 0 && sorted == 0;
    if (!check_order(bucket, now) || !check_part(near, bucket->begin, sorted, now, &of_sorted) ||
        !check_part(near, sorted, kept, now, &of_kept) ||
        !check_part(near, cursor, near->used, now, &of_tail) ||
        !check_part(far, 0, far->used, now, &of_far))
        return false;
    if (of_sorted < least || of_tail < least || (kept > sorted && of_kept <= least) ||
        (bucket->visits && kept > sorted && of_kept != bucket->next - now))
        return false;
    if (far->used > 0 && (of_far != bucket->far_least - now || of_far <= least))
        return false;
    /* The least round is there, but in a visit that has taken all of it. */
    return bucket->visits || of_sorted == least ||
           (of_tail == least && near->hints[bucket->first].round == bucket->least);
}
