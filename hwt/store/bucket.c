/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The hints of one slot. See bucket.h. */

#include "hwt/store/bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/base/barrier.h"

#define CAPACITY_MIN 4    /* an empty shelf keeps this much, to spare the allocator */
#define CAPACITY_FEW 16   /* the next one */
#define CAPACITY_SOME 64  /* from here on it grows by half of it, */
#define CAPACITY_MANY 256 /* and from here on by a quarter */
#define CAPACITY_MAX INT32_MAX
#define TAIL_MANY 64 /* hints: fewer are not worth sorting */
#define SAMPLES 8

/* ---- a shelf ---- */

static size_t bytes_of(uint32_t capacity)
{
    return (size_t)capacity * sizeof(struct hwt_hint);
}

static struct hwt_hint *array_of(uint32_t capacity)
{
    return capacity > 0 && capacity <= CAPACITY_MAX ? malloc(bytes_of(capacity)) : NULL;
}

static uint32_t grown(uint32_t capacity)
{
    if (capacity < CAPACITY_MIN)
        return CAPACITY_MIN;
    if (capacity < CAPACITY_FEW)
        return CAPACITY_FEW;
    if (capacity < CAPACITY_SOME)
        return 2 * capacity;
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
    struct hwt_hint *hints = array_of(capacity);
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

/* The same after a sweep, which has looked at all: a copy costs little more, so it gives back
 * sooner. True: the array begins with what was at `from`. */
static bool fit(struct hwt_shelf *shelf, uint32_t from, size_t *bytes)
{
    uint32_t used = shelf->used - from, wanted = used + used / 4 + CAPACITY_MIN;
    return wanted < shelf->capacity - shelf->capacity / 4 &&
           resize(shelf, from, wanted, bytes) == 0;
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
    bucket->first = bucket->sorted;
    while (bucket->first < near->used && near->hints[bucket->first].round != bucket->least)
        bucket->first++;
}

/* The near shelf has a part that is in order but for its higher digits. */
static void sort(struct hwt_bucket *bucket, struct hwt_part *part)
{
    struct hwt_shelf *near = &bucket->near;
    bucket->begin = 0;
    bucket->sorted = near->used & INT32_MAX;
    bucket->least = part->least;
    if (part->reach <= HWT_HINTS_REACH)
        return;
    struct hwt_hint *other = array_of(near->capacity);
    if (!other) {
        bucket->sorted = 0; /* another time */
        find_first(bucket);
        return;
    }
    struct hwt_hint *hints = near->hints;
    near->hints = hwt_hints_sort(part, hints, other);
    free_unreachable(near->hints == other ? hints : other);
}

/* The near shelf is empty, the far one is not. Without memory all of it becomes the tail. */
static void refill(struct hwt_bucket *bucket, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    struct hwt_part part;
    hwt_hints_part(&part, far->hints, far->used, bucket->far_least);
    bucket->begin = bucket->sorted = 0;
    near->used = 0;
    if (near->capacity / 4 > part.n)
        empty(near, bytes);
    if (!has_room(near, part.n, bytes)) {
        struct hwt_shelf was_near = *near, was_far = *far;
        far->hints = NULL; /* never both the same */
        hwt_a_fork_may_come();
        *near = was_far;
        hwt_a_fork_may_come();
        *far = was_near;
        bucket->divided = false;
        bucket->least = part.least;
        find_first(bucket);
        return;
    }
    hwt_hints_divide(&part, far->hints, far->used, near->hints, far->hints);
    near->used = part.n;
    far->used -= part.n;
    bucket->far_least = part.least + part.reach;
    sort(bucket, &part);
    shrink(far, bytes);
}

/* Sorts a near shelf whose tail is long; what is not of its sooner part goes to the far one, where
 * nothing is that soon. Without memory all of it stays on the near shelf. */
static void sort_near(struct hwt_bucket *bucket, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    const struct hwt_hint *hints = near->hints + bucket->begin;
    const uint32_t all = near->used - bucket->begin;
    struct hwt_shelf sorted = { 0 };
    struct hwt_part part;
    hwt_hints_part(&part, hints, all, bucket->least);
    if (!has_room(far, all - part.n, bytes) || resize(&sorted, 0, grown(part.n), bytes) < 0)
        return;
    hwt_hints_divide(&part, hints, all, sorted.hints, far->hints ? far->hints + far->used : NULL);
    far->used += all - part.n;
    sorted.used = part.n;
    struct hwt_hint *old = near->hints;
    *bytes -= bytes_of(near->capacity);
    *near = sorted;
    free_unreachable(old);
    /* Where nothing went there, the far shelf may begin sooner than the part ends. */
    if (!bucket->divided || part.reach < bucket->far_least - part.least)
        bucket->far_least = part.least + part.reach;
    bucket->divided = true;
    sort(bucket, &part);
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
    if (!bucket->visits && tail > TAIL_MANY && tail > (bucket->sorted - bucket->begin) / 8 &&
        !is_of_least(bucket))
        sort_near(bucket, bytes);
}

/* ---- the bucket ---- */

/* What was before `begin` is gone. */
static void forget_taken(struct hwt_bucket *bucket)
{
    uint32_t begin = bucket->begin;
    bucket->begin = 0;
    bucket->sorted = (bucket->sorted - begin) & INT32_MAX;
    bucket->first -= begin; /* or `kept` */
    bucket->next_first -= begin;
    bucket->cursor = (bucket->cursor - begin) & INT32_MAX;
}

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
    forget_taken(bucket);
    return 0;
}

/* The first of a round that is the least from then on. */
static int add_least(struct hwt_bucket *bucket, struct hwt_hint hint, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near;
    if (near->used == near->capacity && make_room(bucket, bytes) < 0)
        return -ENOMEM;
    rewind_visit(bucket);
    /* Counted from this round, the far shelf may begin so late that it is past all numbers. */
    if (bucket->far_least - hint.round < bucket->least - hint.round)
        bucket->divided = false;
    bucket->least = hint.round;
    bucket->first = near->used;
    near->hints[near->used++] = hint;
    return 0;
}

int hwt_bucket_add(struct hwt_bucket *bucket, struct hwt_hint hint, uint32_t now, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    if (near->used == 0 || hint.round - now < bucket->least - now)
        return add_least(bucket, hint, bytes);
    bool is_far =
        bucket->divided && hint.round - bucket->least >= bucket->far_least - bucket->least;
    struct hwt_shelf *shelf = is_far ? far : near;
    if (shelf->used == shelf->capacity &&
        (is_far ? !has_room(far, 1, bytes) : make_room(bucket, bytes) < 0))
        return -ENOMEM;
    shelf->hints[shelf->used++] = hint;
    return 0;
}

/* Of what is sorted, hints of the least round. */
static size_t take_sorted(struct hwt_bucket *bucket, struct hwt_hint *batch, size_t max)
{
    const struct hwt_hint *hints = bucket->near.hints + bucket->begin;
    const uint32_t least = bucket->least;
    size_t n = 0, all = bucket->sorted - bucket->begin;
    for (max = max < all ? max : all; n < max && hints[n].round == least; n++)
        batch[n] = hints[n];
    bucket->begin += (uint32_t)n;
    return n;
}

size_t hwt_bucket_take(struct hwt_bucket *bucket, struct hwt_hint *batch, size_t max, size_t *bytes)
{
    sort_if_long(bucket, bytes);
    size_t n = take_sorted(bucket, batch, max);
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

/* Whether the hint is to stay, or is not looked at any more. */
static bool stays(hwt_hints_filter filter, const void *data, struct hwt_hint hint, uint32_t *looks)
{
    if (*looks == 0)
        return true;
    --*looks;
    return filter(data, &hint, 1) > 0;
}

bool hwt_bucket_prune(struct hwt_bucket *bucket, hwt_hints_filter filter, const void *data,
                      uint32_t *looks, size_t *bytes)
{
    const struct hwt_hint *first = hwt_bucket_peek(bucket);
    if (first && stays(filter, data, *first, looks))
        return true;
    sort_if_long(bucket, bytes);
    for (; is_sorted_next(bucket); bucket->begin++) {
        if (stays(filter, data, bucket->near.hints[bucket->begin], looks))
            return true;
    }
    struct visit visit = begin_visit(bucket);
    for (; visit.cursor < bucket->near.used; visit.cursor++) {
        struct hwt_hint hint = visit.hints[visit.cursor];
        if (hint.round != visit.least) {
            keep(&visit, hint);
        } else if (stays(filter, data, hint, looks)) {
            interrupt_visit(bucket, &visit);
            return true;
        }
    }
    end_visit(bucket, &visit, bytes);
    return false;
}

/* After hints were thrown away: the least round, and the first of it. Mostly that is the round it
 * was before, and soon found. */
static void find_least(struct hwt_bucket *bucket)
{
    const struct hwt_shelf *near = &bucket->near;
    const uint32_t before = bucket->least, sorted = bucket->sorted;
    if (is_sorted_next(bucket))
        return;
    find_first(bucket);
    if (bucket->first < near->used)
        return;
    bucket->least = least_of(near->hints + sorted, near->used - sorted, before);
    if (bucket->begin < sorted &&
        near->hints[bucket->begin].round - before <= bucket->least - before)
        bucket->least = near->hints[bucket->begin].round;
    else
        find_first(bucket);
}

void hwt_sweep_begin(struct hwt_sweep *sweep, struct hwt_bucket *bucket)
{
    rewind_visit(bucket);
    *sweep = (struct hwt_sweep){ false, bucket->begin, bucket->begin };
}

/* On the near shelf, of which little has stayed: that moves up, and what is before it is as if it
 * had been taken. */
static void move_up(struct hwt_sweep *sweep, struct hwt_bucket *bucket)
{
    struct hwt_hint *hints = bucket->near.hints;
    const uint32_t gap = sweep->cursor - sweep->kept, stayed = sweep->kept - bucket->begin;
    memmove(hints + bucket->begin + gap, hints + bucket->begin, bytes_of(stayed));
    if (bucket->sorted < sweep->cursor)
        bucket->sorted = (bucket->sorted + gap) & INT32_MAX;
    bucket->begin += gap;
    sweep->kept = sweep->cursor;
}

/* What has not been looked at follows what has stayed: the shorter of the two moves, if it can. */
static void close_gap(struct hwt_sweep *sweep, struct hwt_bucket *bucket)
{
    struct hwt_shelf *shelf = sweep->is_far ? &bucket->far : &bucket->near;
    const uint32_t gap = sweep->cursor - sweep->kept;
    if (gap == 0)
        return;
    if (!sweep->is_far && sweep->kept - bucket->begin < shelf->used - sweep->cursor) {
        move_up(sweep, bucket);
        return;
    }
    memmove(shelf->hints + sweep->kept, shelf->hints + sweep->cursor,
            bytes_of(shelf->used - sweep->cursor));
    shelf->used -= gap;
    if (!sweep->is_far && bucket->sorted >= sweep->cursor)
        bucket->sorted = (bucket->sorted - gap) & INT32_MAX;
    sweep->cursor = sweep->kept;
}

uint32_t hwt_sweep_some(struct hwt_sweep *sweep, struct hwt_bucket *bucket, uint32_t most,
                        hwt_hints_filter filter, const void *data, uint32_t *ret_gone)
{
    struct hwt_shelf *near = &bucket->near;
    *ret_gone = 0;
    if (!sweep->is_far && sweep->cursor == near->used) {
        close_gap(sweep, bucket);
        *sweep = (struct hwt_sweep){ true, 0, 0 };
    }
    struct hwt_shelf *shelf = sweep->is_far ? &bucket->far : near;
    uint32_t end = shelf->used;
    if (!sweep->is_far && sweep->cursor < bucket->sorted)
        end = bucket->sorted; /* one filter is for one part, so that this is known after it */
    uint32_t n = end - sweep->cursor < most ? end - sweep->cursor : most;
    if (n == 0)
        return 0;
    uint32_t stay = filter(data, shelf->hints + sweep->cursor, n);
    if (sweep->kept != sweep->cursor)
        memmove(shelf->hints + sweep->kept, shelf->hints + sweep->cursor, bytes_of(stay));
    sweep->kept += stay;
    sweep->cursor += n;
    if (!sweep->is_far && sweep->cursor == bucket->sorted)
        bucket->sorted = sweep->kept & INT32_MAX;
    *ret_gone = n - stay;
    return n;
}

const struct hwt_hint *hwt_sweep_peek(const struct hwt_sweep *sweep,
                                      const struct hwt_bucket *bucket, uint32_t n)
{
    const uint32_t stayed = sweep->is_far ? 0 : sweep->kept - bucket->begin;
    uint32_t at = bucket->begin + n;
    if (!sweep->is_far && n >= stayed)
        at = sweep->cursor + (n - stayed);
    return n < SAMPLES && at < bucket->near.used ? &bucket->near.hints[at] : NULL;
}

void hwt_sweep_end(struct hwt_sweep *sweep, struct hwt_bucket *bucket, size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    close_gap(sweep, bucket);
    if (near->used == bucket->begin && far->used == 0) {
        hwt_bucket_clear(bucket, bytes);
        return;
    }
    if (near->used == bucket->begin) {
        refill(bucket, bytes);
    } else {
        find_least(bucket);
        if (fit(near, bucket->begin, bytes))
            forget_taken(bucket);
    }
    if (far->used == 0)
        empty(far, bytes);
    else
        (void)fit(far, 0, bytes);
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
    bucket->visits = bucket->divided = false;
}

void hwt_bucket_destroy(struct hwt_bucket *bucket)
{
    free(bucket->near.hints);
    free(bucket->far.hints);
}
