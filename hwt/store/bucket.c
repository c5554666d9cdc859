/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The arrays of one slot. See bucket.h. */

#include "hwt/store/bucket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/base/barrier.h"

#define CAPACITY_MIN 4
#define CAPACITY_KEPT 8               /* an empty shelf keeps this much, to spare the allocator */
#define HOLES_OLD ((uint32_t)1 << 30) /* rounds */
#define NEAR_MANY 128                 /* a near shelf of fewer is not worth dividing */
#define HOLES_MANY 256
#define ROUNDS_NEAR                                                                                \
    32 /* nor one whose timeouts are within so many rounds: sweeping a round's
                         * timeouts over and over costs less than moving each of them once */

/* ---- a shelf ---- */

/* Not by adding to a pointer: it is NULL where there is no room. */
static uint32_t *ids_of(const struct hwt_shelf *shelf)
{
    return (uint32_t *)((uintptr_t)shelf->rounds + shelf->capacity * sizeof(uint32_t));
}

static size_t bytes_of(uint32_t capacity)
{
    return (size_t)capacity * 2 * sizeof(uint32_t);
}

static void set_index(const struct hwt_directory *directory, uint32_t id, uint32_t index)
{
    hwt_directory_place(directory, id)->index = index;
}

static void free_unreachable(uint32_t *rounds)
{
    hwt_a_fork_may_come();
    free(rounds);
}

/* Moves the arrays to new ones of another capacity. */
static int resize(struct hwt_shelf *shelf, uint32_t capacity, size_t *bytes)
{
    uint32_t *rounds = malloc(bytes_of(capacity));
    if (!rounds)
        return -ENOMEM;
    if (shelf->used) {
        memcpy(rounds, shelf->rounds, shelf->used * sizeof(uint32_t));
        memcpy(rounds + capacity, ids_of(shelf), shelf->used * sizeof(uint32_t));
    }
    uint32_t *old = shelf->rounds;
    *bytes += bytes_of(capacity) - bytes_of(shelf->capacity);
    shelf->rounds = rounds;
    shelf->capacity = capacity;
    free_unreachable(old);
    return 0;
}

static uint32_t grown(uint32_t capacity)
{
    return capacity < CAPACITY_MIN ? CAPACITY_MIN : capacity + capacity / 2;
}

/* `mark` is HWT_BUCKET_FAR for the far shelf, else 0. */
static void close_holes(struct hwt_shelf *shelf, const struct hwt_directory *directory,
                        uint32_t mark)
{
    uint32_t *ids = ids_of(shelf);
    uint32_t to = 0;
    for (uint32_t from = 0; from < shelf->used; from++) {
        if (ids[from] == HWT_BUCKET_HOLE)
            continue;
        if (to != from) {
            ids[to] = ids[from];
            shelf->rounds[to] = shelf->rounds[from];
            set_index(directory, ids[to], to | mark);
        }
        to++;
    }
    shelf->used = to;
}

/* Returns the place. */
static uint32_t append(struct hwt_shelf *shelf, uint32_t id, uint32_t round)
{
    uint32_t index = shelf->used++;
    shelf->rounds[index] = round;
    shelf->rounds[shelf->capacity + index] = id;
    shelf->live++;
    return index;
}

/* Who goes by a shelf's rounds closes its old holes before. That comes within 2^31 rounds, at the
 * next visit or when the far shelf is taken from: so a hole that stayed is never 2^32 old. */
static void close_old_holes(struct hwt_shelf *shelf, const struct hwt_directory *directory,
                            uint32_t mark, uint32_t now)
{
    if (shelf->used != shelf->live && now - shelf->holes_since >= HOLES_OLD)
        close_holes(shelf, directory, mark);
}

static void make_hole(struct hwt_shelf *shelf, uint32_t index, uint32_t now)
{
    if (shelf->used == shelf->live)
        shelf->holes_since = now;
    ids_of(shelf)[index] = HWT_BUCKET_HOLE;
    shelf->rounds[index] = now - 1;
    shelf->live--;
}

static void empty(struct hwt_shelf *shelf, size_t *bytes)
{
    shelf->used = 0;
    if (shelf->capacity > CAPACITY_KEPT) {
        uint32_t *old = shelf->rounds;
        *bytes -= bytes_of(shelf->capacity);
        shelf->rounds = NULL;
        shelf->capacity = 0;
        free_unreachable(old);
    }
}

static void tidy(struct hwt_shelf *shelf, const struct hwt_directory *directory, uint32_t mark,
                 size_t *bytes)
{
    if (shelf->live == 0) {
        empty(shelf, bytes);
        return;
    }
    /* The far shelf is worth it sooner: the near one is soon empty. */
    if (shelf->used - shelf->live > (mark ? 1 : 3) * shelf->live)
        close_holes(shelf, directory, mark);
    if (shelf->capacity > CAPACITY_KEPT && shelf->used < shelf->capacity / 4)
        (void)resize(shelf, shelf->capacity / 2, bytes); /* no memory: it stays as it is */
}

/* ---- near and far ---- */

/*
 * The remaining rounds from which on the shelf's timeouts are far: so that about a sixteenth
 * of them are near, by the second least of 32 taken from all over it, but ROUNDS_NEAR rounds
 * more than the first of these, which is near at any rate.
 */
static uint32_t near_reach(const struct hwt_shelf *shelf, uint32_t now)
{
    uint32_t first = INT32_MAX, second = INT32_MAX;
    uint32_t step = shelf->used / 32 + 1;
    for (uint32_t i = 0; i < shelf->used; i += step) {
        uint32_t its = shelf->rounds[i] - now;
        if (its < first) {
            second = first;
            first = its;
        } else if (its < second) {
            second = its;
        }
    }
    return second - first < ROUNDS_NEAR ? first + ROUNDS_NEAR : second;
}

static void move_one(struct hwt_shelf *from, uint32_t i, struct hwt_shelf *to,
                     const struct hwt_directory *directory, uint32_t now, uint32_t mark)
{
    uint32_t id = ids_of(from)[i];
    set_index(directory, id, append(to, id, from->rounds[i]) | mark);
    make_hole(from, i, now);
}

/* Moves what is within reach to the end of the near shelf, which has room. */
static void move_near(struct hwt_bucket *bucket, const struct hwt_directory *directory,
                      uint32_t now, uint32_t reach)
{
    struct hwt_shelf *far = &bucket->far;
    for (uint32_t i = 0; (i = hwt_scan_within(far, i, now, reach)) < far->used; i++)
        move_one(far, i, &bucket->near, directory, now, 0);
}

/* Moves what is beyond reach to the end of the far shelf, which has room. */
static void move_far(struct hwt_bucket *bucket, const struct hwt_directory *directory, uint32_t now,
                     uint32_t reach)
{
    struct hwt_shelf *near = &bucket->near;
    const uint32_t *ids = ids_of(near);
    for (uint32_t i = 0; i < near->used; i++) {
        if (ids[i] != HWT_BUCKET_HOLE && near->rounds[i] - now >= reach)
            move_one(near, i, &bucket->far, directory, now, HWT_BUCKET_FAR);
    }
}

static bool has_room(struct hwt_shelf *shelf, uint32_t more, size_t *bytes)
{
    uint32_t least = shelf->used + more, usual = grown(shelf->capacity);
    return least <= shelf->capacity || resize(shelf, least > usual ? least : usual, bytes) == 0;
}

/* Puts the further part of a full near shelf on the far one. False: not worth it, or no memory. */
static bool divide(struct hwt_bucket *bucket, const struct hwt_directory *directory, uint32_t now,
                   size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near;
    if (near->live < NEAR_MANY)
        return false;
    close_old_holes(near, directory, 0, now);
    bucket->cursor = 0;
    uint32_t reach = near_reach(near, now);
    uint32_t beyond = near->live - hwt_scan_count_within(near, now, reach);
    if (beyond < near->live / 2 || !has_room(&bucket->far, beyond, bytes))
        return false;
    move_far(bucket, directory, now, reach);
    bucket->horizon = now + reach;
    close_holes(near, directory, 0);
    return true;
}

/* The near shelf is empty: the far one becomes it. Needs no memory. */
static void swap_shelves(struct hwt_bucket *bucket, const struct hwt_directory *directory)
{
    struct hwt_shelf near = bucket->near, far = bucket->far;
    bucket->far.rounds = NULL; /* never both the same */
    hwt_a_fork_may_come();
    bucket->near = far;
    hwt_a_fork_may_come();
    bucket->far = near;
    bucket->far.used = 0;
    for (uint32_t i = 0; i < far.used; i++) {
        if (ids_of(&far)[i] != HWT_BUCKET_HOLE)
            set_index(directory, ids_of(&far)[i], i);
    }
}

/* The near shelf is empty: the next rounds' worth of the far one comes over. */
static void refill(struct hwt_bucket *bucket, const struct hwt_directory *directory, uint32_t now,
                   size_t *bytes)
{
    struct hwt_shelf *near = &bucket->near, *far = &bucket->far;
    near->used = 0;
    close_old_holes(far, directory, HWT_BUCKET_FAR, now);
    uint32_t reach = near_reach(far, now);
    uint32_t within = hwt_scan_count_within(far, now, reach);
    if (far->live < NEAR_MANY || within > far->live / 2 || !has_room(near, within, bytes)) {
        swap_shelves(bucket, directory);
        return;
    }
    move_near(bucket, directory, now, reach);
    bucket->horizon = now + reach;
    tidy(far, directory, HWT_BUCKET_FAR, bytes);
}

/* ---- the bucket ---- */

static bool is_far(const struct hwt_bucket *bucket, uint32_t round, uint32_t now)
{
    return bucket->far.live > 0 && round - now >= bucket->horizon - now;
}

static int make_room(struct hwt_bucket *bucket, const struct hwt_directory *directory, bool far,
                     uint32_t now, size_t *bytes)
{
    struct hwt_shelf *shelf = far ? &bucket->far : &bucket->near;
    uint32_t holes = shelf->used - shelf->live;
    if (holes > 0 && holes >= shelf->capacity / 4) {
        close_holes(shelf, directory, far ? HWT_BUCKET_FAR : 0);
        if (!far)
            bucket->cursor = 0;
        return 0;
    }
    if (!far && divide(bucket, directory, now, bytes))
        return 0;
    return resize(shelf, grown(shelf->capacity), bytes);
}

int hwt_bucket_add(struct hwt_bucket *bucket, const struct hwt_directory *directory, uint32_t id,
                   uint32_t round, uint32_t now, size_t *bytes)
{
    bool far = is_far(bucket, round, now);
    struct hwt_shelf *shelf = far ? &bucket->far : &bucket->near;
    while (shelf->used == shelf->capacity) {
        int r = make_room(bucket, directory, far, now, bytes);
        if (r < 0)
            return r;
        far = is_far(bucket, round, now); /* the horizon may have moved */
        shelf = far ? &bucket->far : &bucket->near;
    }

    bool first = hwt_bucket_live(bucket) == 0;
    uint32_t index = append(shelf, id, round);
    set_index(directory, id, far ? index | HWT_BUCKET_FAR : index);
    if (first || round - now < bucket->least - now) {
        bucket->least = round;
        bucket->least_count = 1;
    } else if (round == bucket->least) {
        bucket->least_count++;
    }
    return 0;
}

static void forget_all(struct hwt_bucket *bucket, size_t *bytes)
{
    empty(&bucket->near, bytes);
    empty(&bucket->far, bytes);
    bucket->cursor = 0;
    bucket->least_count = 0;
}

static void remove_near(struct hwt_bucket *bucket, uint32_t index, uint32_t now)
{
    if (bucket->near.rounds[index] == bucket->least && bucket->least_count > 0)
        bucket->least_count--;
    make_hole(&bucket->near, index, now);
}

/* What is cancelled without being visited leaves room too. */
static bool close_many_holes(struct hwt_shelf *shelf, const struct hwt_directory *directory,
                             uint32_t mark, size_t *bytes)
{
    if (shelf->live == 0 || shelf->used - shelf->live <= HOLES_MANY + 3 * shelf->live)
        return false;
    tidy(shelf, directory, mark, bytes);
    return true;
}

void hwt_bucket_drop(struct hwt_bucket *bucket, const struct hwt_directory *directory,
                     uint32_t index, uint32_t now, size_t *bytes)
{
    if (index & HWT_BUCKET_FAR) {
        make_hole(&bucket->far, index & ~HWT_BUCKET_FAR, now);
        if (bucket->far.live == 0)
            bucket->far.used = 0; /* with the next to come there begins another age of holes */
        (void)close_many_holes(&bucket->far, directory, HWT_BUCKET_FAR, bytes);
    } else {
        remove_near(bucket, index, now);
        if (close_many_holes(&bucket->near, directory, 0, bytes))
            bucket->cursor = 0;
    }
    if (hwt_bucket_live(bucket) == 0)
        forget_all(bucket, bytes);
}

size_t hwt_bucket_take(struct hwt_bucket *bucket, uint32_t now, uint32_t *batch, size_t max)
{
    const struct hwt_shelf *near = &bucket->near;
    const uint32_t *ids = ids_of(near);
    size_t n = 0;
    uint32_t at = bucket->cursor;
    while (n < max && bucket->least_count > 0) {
        at = hwt_scan_find(near, at, now);
        if (at == near->used)
            break;
        if (ids[at] != HWT_BUCKET_HOLE) {
            batch[n++] = ids[at];
            remove_near(bucket, at, now);
        }
        at++;
    }
    bucket->cursor = at;
    return n;
}

uint32_t hwt_bucket_peek(const struct hwt_bucket *bucket)
{
    return bucket->cursor < bucket->near.used ? ids_of(&bucket->near)[bucket->cursor] : HWT_ID_NONE;
}

static void find_least(struct hwt_bucket *bucket, uint32_t now)
{
    bucket->least = now + hwt_scan_least(&bucket->near, now);
    bucket->cursor = hwt_scan_find(&bucket->near, 0, bucket->least);
    bucket->least_count = hwt_scan_count(&bucket->near, bucket->cursor, bucket->least);
}

void hwt_bucket_settle(struct hwt_bucket *bucket, const struct hwt_directory *directory,
                       uint32_t now, size_t *bytes)
{
    if (hwt_bucket_live(bucket) == 0) {
        forget_all(bucket, bytes);
        return;
    }
    if (bucket->near.live == 0)
        refill(bucket, directory, now, bytes);
    tidy(&bucket->near, directory, 0, bytes);
    tidy(&bucket->far, directory, HWT_BUCKET_FAR, bytes);
    close_old_holes(&bucket->near, directory, 0, now);
    find_least(bucket, now);
}

void hwt_bucket_clear(struct hwt_bucket *bucket, size_t *bytes)
{
    bucket->near.live = bucket->far.live = 0;
    forget_all(bucket, bytes);
}

void hwt_bucket_destroy(struct hwt_bucket *bucket)
{
    free(bucket->near.rounds);
    free(bucket->far.rounds);
}

/* ---- for tests ---- */

struct tally {
    uint32_t live;
    uint32_t of_least;
};

static bool check_shelf(const struct hwt_bucket *bucket, const struct hwt_directory *directory,
                        uint32_t now, bool far, struct tally *tally)
{
    const struct hwt_shelf *shelf = far ? &bucket->far : &bucket->near;
    uint32_t live = 0;
    if (shelf->used > shelf->capacity)
        return false;
    for (uint32_t i = 0; i < shelf->used; i++) {
        uint32_t id = ids_of(shelf)[i], remaining = shelf->rounds[i] - now;
        if (id == HWT_BUCKET_HOLE)
            continue;
        uint32_t index = hwt_directory_place(directory, id)->index;
        if (index != (far ? i | HWT_BUCKET_FAR : i) || remaining < bucket->least - now)
            return false;
        if (bucket->far.live > 0 && (remaining >= bucket->horizon - now) != far)
            return false;
        tally->of_least += shelf->rounds[i] == bucket->least;
        live++;
    }
    tally->live += live;
    return live == shelf->live;
}

bool hwt_bucket_check(const struct hwt_bucket *bucket, const struct hwt_directory *directory,
                      uint32_t now)
{
    struct tally tally = { 0 };
    if (!check_shelf(bucket, directory, now, false, &tally) ||
        !check_shelf(bucket, directory, now, true, &tally))
        return false;
    return bucket->cursor <= bucket->near.used &&
           (tally.live == 0 || tally.of_least == bucket->least_count);
}
