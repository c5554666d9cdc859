/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_STORES_COMMON_H
#define HWT_PERF_STORES_COMMON_H

/*
 * The frame of the stores that are linked in place of hwt/wheel/wheel.c: all functions of the seam, what
 * the places say, what is far away, and a big array. A store says what it has below "the store's own", and
 * its struct hwt_wheel_inside begins with a struct store_frame.
 *
 * They are as lazy as the wheel: what they hold is hints, to drop a timeout or to file it for
 * another tick touches no hint, and a hint that does not count is thrown away when it is met, or by
 * a sweep. What a place says, it says as for the wheel, and so an age has 2^29 ticks here too: what
 * is of a later age than the next one, or never comes, is kept as the wheel keeps it, and the
 * structure itself has ticks that are less than 2^30 apart.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "hwt/wheel/bucket.h"
#include "hwt/wheel/wheel.h"

#define STORE_AGE_BITS 29
#define STORE_BATCH_MAX 64
#define STORE_AHEAD 8 /* hints whose places are fetched beforehand */

/* What `where` says; see wheel.c. */
#define STORE_NEAR ((uint32_t)1 << 30)
#define STORE_FAR ((uint32_t)2 << 30)
#define STORE_NEVER ((uint32_t)3 << 30)
#define STORE_LOW_BITS (STORE_NEAR - 1)

/* What is far. */
struct store_far {
    struct hwt_bucket later; /* its rounds are ages */
    struct hwt_bucket never; /* of one round */
    uint64_t due;            /* the tick at which what is of a later age comes nearer */
};

struct store_frame {
    struct store_far far;
    void *array; /* the store's */
    size_t bytes;
};

/* ---- the store's own ---- */

static const size_t store_size;  /* of its hwt_wheel_inside */
static const size_t store_first; /* bytes of the array of an empty one */

static void store_init(struct hwt_wheel *wheel);   /* all is 0, but for the array */
static void store_rewind(struct hwt_wheel *wheel); /* it is empty, and counts from tick 0 on */
static void store_go_to(struct hwt_wheel *wheel, uint64_t tick);
static uint64_t store_next(const struct hwt_wheel *wheel); /* tick, or UINT64_MAX */
static uint32_t store_next_id(const struct hwt_wheel *wheel);
static int store_file(struct hwt_wheel *wheel, uint32_t id, uint32_t generation, uint64_t tick);
static void
store_prune(struct hwt_wheel *wheel); /* throws away what comes first, and does not stay */
/* Takes up to `max` ids that are due at wheel->tick, which is store_next(). 0: that has changed. */
static size_t store_take_next(struct hwt_wheel *wheel, uint32_t *batch, size_t max);
/* Looks at up to so many hints, all if it is as many as there are. */
static void store_sweep(struct hwt_wheel *wheel, uint64_t most);
/* The next part from this one on that has something. False: none has. */
static bool store_view(const struct hwt_wheel *wheel, uint32_t from,
                       struct hwt_wheel_view *ret_view);
static bool store_check(const struct hwt_wheel *wheel, uint64_t *ret_hints);

#define STORE_PARTS 1024 /* views of what is far begin here */

static inline struct store_frame *store_frame(const struct hwt_wheel *wheel)
{
    return (struct store_frame *)wheel->inside;
}

/* ---- what counts ---- */

static inline uint64_t store_age(uint64_t tick)
{
    return tick >> STORE_AGE_BITS;
}

static inline bool store_is_near(const struct hwt_wheel *wheel, uint64_t tick)
{
    return tick < wheel->ticks.last && store_age(tick) <= store_age(wheel->tick) + 1;
}

/* The first number from `from` on that has these low bits. */
static inline uint64_t store_from(uint64_t from, uint32_t low)
{
    return from + ((low - (uint32_t)from) & STORE_LOW_BITS);
}

static inline uint64_t store_near_tick(const struct hwt_wheel *wheel, uint32_t low)
{
    return store_from(wheel->tick, low);
}

static inline uint32_t store_where(uint32_t tick)
{
    return STORE_NEAR | (tick & STORE_LOW_BITS);
}

static inline bool store_counts(const struct hwt_wheel *wheel, uint32_t id, uint32_t generation,
                                uint32_t where)
{
    const struct hwt_sites *sites = hwt_directory_sites(wheel->directory);
    const struct hwt_site *site = hwt_sites_at(sites, id >> HWT_ID_BITS);
    const struct hwt_place *place = hwt_site_place(sites, site, id);
    return place->where == where && hwt_site_generation(site, place) == generation;
}

/* Whether a hint that was met is not to be thrown away. */
static inline bool store_stays(const struct hwt_wheel *wheel, uint32_t id, uint32_t generation,
                               uint32_t where)
{
    struct hwt_hint hint = { 0, id, generation };
    return store_counts(wheel, id, generation, where) &&
           (!wheel->wanted || wheel->wanted(wheel->owner, &hint, 1) > 0);
}

/* A hint was taken: whether it counts, and then its timeout is filed no more. */
static inline bool store_take(const struct hwt_wheel *wheel, uint32_t id, uint32_t generation,
                              uint32_t where)
{
    if (!store_counts(wheel, id, generation, where))
        return false;
    hwt_directory_place(wheel->directory, id)->where = 0;
    return true;
}

static inline void store_fetch(const struct hwt_wheel *wheel, uint32_t id)
{
    __builtin_prefetch(hwt_directory_place(wheel->directory, id));
}

bool hwt_wheel_is_after(const struct hwt_wheel *wheel, const struct hwt_place *place, uint64_t tick)
{
    uint32_t kind = place->where & ~STORE_LOW_BITS;
    uint64_t age = store_age(wheel->tick);
    if (kind == STORE_NEAR)
        return store_near_tick(wheel, place->where) > tick;
    if (kind == STORE_NEVER)
        return tick < wheel->ticks.last;
    return store_age(wheel->ticks.last) - age > STORE_LOW_BITS ||
           store_from(age, place->where) > store_age(tick);
}

/* ---- what is far ---- */

static inline uint32_t store_later_round(const struct hwt_wheel *wheel)
{
    return (uint32_t)store_age(wheel->tick) + 1;
}

/* After what is of later ages may have changed. */
static inline void store_far_update(const struct hwt_wheel *wheel, struct store_far *far)
{
    uint64_t next = store_age(wheel->tick) + 1;
    far->due = UINT64_MAX;
    if (hwt_bucket_count(&far->later) > 0)
        far->due = (next + (far->later.least - (uint32_t)next) - 1) << STORE_AGE_BITS;
}

static inline int store_far_file(struct hwt_wheel *wheel, struct store_far *far,
                                 struct hwt_place *place, uint32_t id, uint32_t generation,
                                 uint64_t tick)
{
    bool never = tick >= wheel->ticks.last;
    uint32_t age = never ? 0 : (uint32_t)store_age(tick);
    int r =
        hwt_bucket_add(never ? &far->never : &far->later, (struct hwt_hint){ age, id, generation },
                       never ? 0 : store_later_round(wheel), wheel->pieces);
    if (r < 0)
        return r;
    wheel->hints++;
    place->where = never ? STORE_NEVER : STORE_FAR | (age & STORE_LOW_BITS);
    store_far_update(wheel, far);
    return 0;
}

static inline uint32_t store_keep(const struct hwt_wheel *wheel, struct hwt_hint *hints, uint32_t n,
                                  bool never)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct hwt_hint hint = hints[i];
        uint32_t where = never ? STORE_NEVER : STORE_FAR | (hint.round & STORE_LOW_BITS);
        if (store_stays(wheel, hint.id, hint.generation, where))
            hints[kept++] = hint;
    }
    return kept;
}

static inline uint32_t store_keep_later(const void *wheel, struct hwt_hint *hints, uint32_t n)
{
    return store_keep(wheel, hints, n, false);
}

static inline uint32_t store_keep_never(const void *wheel, struct hwt_hint *hints, uint32_t n)
{
    return store_keep(wheel, hints, n, true);
}

/* When something comes nearer; exact if that is not after `most`. */
static inline uint64_t store_far_next(struct hwt_wheel *wheel, struct store_far *far, uint64_t most)
{
    bool some = false;
    while (!some && far->due <= most && far->due != UINT64_MAX) {
        uint32_t before = hwt_bucket_count(&far->later), looks = UINT32_MAX;
        some = hwt_bucket_prune(&far->later, store_keep_later, wheel, &looks, wheel->pieces);
        wheel->hints -= before - hwt_bucket_count(&far->later);
        store_far_update(wheel, far);
    }
    return far->due;
}

/* Takes what comes nearer; wheel->tick is when it is due. */
static inline size_t store_far_take(struct hwt_wheel *wheel, struct store_far *far, uint32_t *batch,
                                    size_t max)
{
    struct hwt_hint hints[STORE_BATCH_MAX];
    uint32_t where = STORE_FAR | (far->later.least & STORE_LOW_BITS);
    size_t n = 0,
           taken = hwt_bucket_take(&far->later, hints,
                                   max < STORE_BATCH_MAX ? max : STORE_BATCH_MAX, wheel->pieces);
    wheel->hints -= taken;
    store_far_update(wheel, far);
    for (size_t i = 0; i < taken; i++) {
        if (store_take(wheel, hints[i].id, hints[i].generation, where))
            batch[n++] = hints[i].id;
    }
    return n;
}

/* Returns how many hints were looked at. */
static inline uint64_t store_far_sweep(struct hwt_wheel *wheel, struct store_far *far)
{
    uint64_t all = (uint64_t)hwt_bucket_count(&far->later) + hwt_bucket_count(&far->never);
    if (hwt_bucket_count(&far->later) > 0)
        hwt_bucket_sweep(&far->later, store_keep_later, wheel, wheel->pieces);
    if (hwt_bucket_count(&far->never) > 0)
        hwt_bucket_sweep(&far->never, store_keep_never, wheel, wheel->pieces);
    wheel->hints -= all - hwt_bucket_count(&far->later) - hwt_bucket_count(&far->never);
    store_far_update(wheel, far);
    return all;
}

/* ---- memory ---- */

/*
 * The array is of mapped pages, which the kernel lengthens and shortens without copying them, huge
 * ones where they pay, as the pool's slabs have them. It starts at a page, so that what should
 * share a cache line does. -ENOMEM: nothing has changed.
 */
static inline int store_resize(struct hwt_wheel *wheel, size_t wanted)
{
    const size_t page = 4096, huge = (size_t)1 << 21;
    struct store_frame *frame = store_frame(wheel);
    size_t to = (wanted + page - 1) & ~(page - 1);
    if (to == frame->bytes)
        return 0;
    void *array = frame->bytes
                      ? mremap(frame->array, frame->bytes, to, MREMAP_MAYMOVE)
                      : mmap(NULL, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (array == MAP_FAILED)
        return -ENOMEM;
    if (to >= huge)
        (void)madvise(array, to, MADV_HUGEPAGE); /* only ever faster */
    wheel->bytes += to - frame->bytes;
    frame->array = array;
    frame->bytes = to;
    return 0;
}

/* ---- the seam ---- */

void hwt_wheel_begin(struct hwt_wheel *wheel, struct hwt_ticks ticks)
{
    wheel->ticks = ticks;
    wheel->tick = 0;
    store_rewind(wheel);
}

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel)
{
    (void)ticks_per_wheel;
    *wheel = (struct hwt_wheel){
        .directory = directory,
        .bytes = store_size,
        .inside = calloc(1, store_size),
    };
    if (!wheel->inside || store_resize(wheel, store_first) < 0) {
        free(wheel->inside);
        return -ENOMEM;
    }
    store_frame(wheel)->far.due = UINT64_MAX;
    store_init(wheel);
    hwt_wheel_begin(wheel, ticks);
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    munmap(store_frame(wheel)->array, store_frame(wheel)->bytes);
    free(wheel->inside);
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    struct store_far *far = &store_frame(wheel)->far;
    hwt_bucket_clear(&far->later, wheel->pieces);
    hwt_bucket_clear(&far->never, wheel->pieces);
    far->due = UINT64_MAX;
    store_rewind(wheel);
    (void)store_resize(wheel, store_first);
    wheel->hints = 0;
}

int hwt_wheel_file_at(struct hwt_wheel *wheel, struct hwt_place *place, uint32_t id,
                      uint32_t generation, uint64_t tick)
{
    if (tick < wheel->tick)
        tick = wheel->tick;
    if (__builtin_expect(!store_is_near(wheel, tick), 0))
        return store_far_file(wheel, &store_frame(wheel)->far, place, id, generation, tick);
    int r = store_file(wheel, id, generation, tick);
    if (r < 0)
        return r;
    wheel->hints++;
    place->where = store_where((uint32_t)tick);
    return 0;
}

bool hwt_wheel_find(struct hwt_wheel *wheel, uint64_t limit, uint32_t looks, uint64_t *ret_tick)
{
    (void)limit, (void)looks;
    store_prune(wheel);
    uint64_t near = store_next(wheel), far = store_far_next(wheel, &store_frame(wheel)->far, near);
    *ret_tick = far < near ? far : near;
    return true;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *batch, size_t max,
                      bool *ret_far)
{
    struct store_far *far = &store_frame(wheel)->far;
    for (;;) {
        uint64_t tick = store_next(wheel);
        *ret_far = far->due <= tick && far->due != UINT64_MAX;
        if (*ret_far)
            tick = far->due;
        /* An age begins with its first tick, not when that is over. */
        if (tick > limit || (tick == limit && !*ret_far))
            break;
        store_go_to(wheel, tick);
        size_t n =
            *ret_far ? store_far_take(wheel, far, batch, max) : store_take_next(wheel, batch, max);
        if (n > 0)
            return n;
    }
    limit = hwt_ticks_ending(&wheel->ticks, limit - (wheel->lags && limit > 0));
    if (wheel->tick < limit)
        store_go_to(wheel, limit);
    return 0;
}

/* As much as it was told: that is not more than `enough` asks for by much. */
uint64_t hwt_wheel_sweep(struct hwt_wheel *wheel, uint64_t most, uint64_t enough, bool asks)
{
    hwt_hints_filter wanted = wheel->wanted;
    uint64_t before = wheel->hints;
    if (before <= enough)
        return 0;
    if (!asks)
        wheel->wanted = NULL;
    store_sweep(wheel, most);
    wheel->wanted = wanted;
    return before - wheel->hints;
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    return store_next(wheel) < limit ? store_next_id(wheel) : HWT_ID_NONE;
}

bool hwt_wheel_sweep_to_next_bucket(struct hwt_wheel *wheel, uint32_t from,
                                    struct hwt_wheel_view *ret_view)
{
    struct store_far *far = &store_frame(wheel)->far;
    if (from == 0)
        store_sweep(wheel, UINT64_MAX);
    if (from < STORE_PARTS && store_view(wheel, from, ret_view))
        return true;
    store_far_sweep(wheel, far);
    if (from <= STORE_PARTS && hwt_bucket_count(&far->later) > 0)
        *ret_view = (struct hwt_wheel_view){ STORE_PARTS, hwt_bucket_count(&far->later), far->due };
    else if (from <= STORE_PARTS + 1 && hwt_bucket_count(&far->never) > 0)
        *ret_view =
            (struct hwt_wheel_view){ STORE_PARTS + 1, hwt_bucket_count(&far->never), UINT64_MAX };
    else
        return false;
    return true;
}

bool hwt_wheel_check(const struct hwt_wheel *wheel); /* the tests have the wheel's */
bool hwt_wheel_check(const struct hwt_wheel *wheel)
{
    const struct store_far *far = &store_frame(wheel)->far;
    struct store_far right = *far;
    uint64_t hints = (uint64_t)hwt_bucket_count(&far->later) + hwt_bucket_count(&far->never), near;
    store_far_update(wheel, &right);
    return store_check(wheel, &near) && wheel->hints == near + hints && far->due == right.due &&
           hwt_bucket_check(&far->later, store_later_round(wheel)) &&
           hwt_bucket_check(&far->never, 0);
}

#endif
