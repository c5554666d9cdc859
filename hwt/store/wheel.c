/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The hashed wheel: an array of buckets, a power of two of them. A timeout of tick t is in
 * bucket t & mask, with the round t / wheel length; see bucket.h for rounds. More than
 * SLOTS_MAX ticks a wheel are had as so many, and more rounds: a bucket costs 80 bytes.
 *
 * A tournament over the buckets finds the next tick with something due: leaf slots + s is the
 * complement of the tick at which bucket s is due (0: none), an inner node the greater of its
 * two. So the soonest is at node 1, memory never touched means "none", and a change
 * walks up only as far as it matters: hardly ever beyond the leaf where buckets are full.
 *
 * WHAT COUNTS. To drop a timeout, or file it for another tick, touches no bucket: its place says
 * where it is filed now, and a hint counts if it is there and of the place's generation. `where` is
 *
 *     0               nowhere
 *     NEAR | tick     its last 30 bits: no tick of a bucket is further than that
 *     FAR | age       its last 30 bits
 *     NEVER
 *
 * 2^29 ticks are an age. A timeout of a later age than the next one waits in a bucket of its own,
 * whose rounds are ages, until the age before its own begins: then the caller files it again,
 * before anything else can be filed for that age. So the order of filing holds. What never comes
 * has a bucket too.
 */

#include "hwt/store/wheel.h"

#include <errno.h>
#include <stdlib.h>

#include "hwt/store/bucket.h"

#define SLOTS_MAX ((uint32_t)1 << 16)
#define AGE_BITS 29
#define BATCH_MAX 64
#define SLOTS_FAST 4096

#define NEAR ((uint32_t)1 << 30)
#define FAR ((uint32_t)2 << 30)
#define NEVER ((uint32_t)3 << 30)
#define LOW_BITS (NEAR - 1)

struct hwt_store {
    uint32_t mask;              /* slots - 1 */
    unsigned shift;             /* log2 of the slots */
    uint64_t *due;              /* the tournament */
    uint64_t far_due;           /* the tick at which what is in later ages comes nearer */
    struct hwt_bucket *buckets; /* one a slot, one for later ages, one for what never comes */
    uint32_t hand;              /* the bucket that is swept, or is to be next */
    bool sweeps;
    struct hwt_sweep sweep;
};

static uint32_t slots(const struct hwt_store *store)
{
    return store->mask + 1;
}

static uint32_t never_slot(const struct hwt_store *store)
{
    return slots(store);
}

static uint32_t far_slot(const struct hwt_store *store)
{
    return slots(store) + 1;
}

static uint32_t slot_of(const struct hwt_store *store, uint64_t tick)
{
    return (uint32_t)tick & store->mask;
}

static uint64_t age_of(uint64_t tick)
{
    return tick >> AGE_BITS;
}

/* The round of the slot's first tick from wheel->tick on. */
static uint64_t first_round(const struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_store *store = wheel->store;
    return (wheel->tick >> store->shift) + (slot < slot_of(store, wheel->tick));
}

/* The bucket's round when it is next visited; what never comes has but one. */
static uint32_t round_now(const struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_store *store = wheel->store;
    if (slot < slots(store))
        return (uint32_t)first_round(wheel, slot);
    return slot == far_slot(store) ? (uint32_t)age_of(wheel->tick) + 1 : 0;
}

/* The first tick from wheel->tick on that has this slot and round. */
static uint64_t tick_of_round(const struct hwt_wheel *wheel, uint32_t slot, uint32_t round)
{
    const struct hwt_store *store = wheel->store;
    if (slot == far_slot(store)) {
        uint64_t next = age_of(wheel->tick) + 1;
        return (next + (round - (uint32_t)next) - 1) << AGE_BITS;
    }
    uint64_t first = first_round(wheel, slot);
    return (first + (round - (uint32_t)first)) << store->shift | slot;
}

static void set_due(struct hwt_store *store, uint32_t slot, uint64_t tick)
{
    uint64_t *due = store->due;
    size_t node = (size_t)slots(store) + slot;
    /* The root's neighbour, node 0, stays none. */
    for (uint64_t key = ~tick; node > 0 && due[node] != key; node /= 2) {
        due[node] = key;
        key = key < due[node ^ 1] ? due[node ^ 1] : key;
    }
}

/* Brings the tournament up to the bucket, after its least round may have changed. */
static void update(struct hwt_wheel *wheel, uint32_t slot)
{
    struct hwt_store *store = wheel->store;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    uint64_t tick =
        hwt_bucket_count(bucket) > 0 ? tick_of_round(wheel, slot, bucket->least) : UINT64_MAX;
    if (slot < slots(store))
        set_due(store, slot, tick);
    else if (slot == far_slot(store))
        store->far_due = tick;
}

static void set_tick(struct hwt_wheel *wheel, uint64_t tick)
{
    uint64_t end = (age_of(tick) + 2) << AGE_BITS;
    wheel->tick = tick;
    wheel->near_end = end < wheel->ticks.last ? end : wheel->ticks.last;
}

int hwt_wheel_init(struct hwt_wheel *wheel, const struct hwt_directory *directory,
                   struct hwt_ticks ticks, uint32_t ticks_per_wheel)
{
    uint32_t n = ticks_per_wheel < SLOTS_MAX ? ticks_per_wheel : SLOTS_MAX;
    struct hwt_store *store = malloc(sizeof(*store));
    if (!store)
        return -ENOMEM;
    *store = (struct hwt_store){
        .mask = n - 1,
        .shift = (unsigned)__builtin_ctz(n),
        .buckets = calloc((size_t)n + 2, sizeof(*store->buckets)),
        .due = calloc((size_t)n * 2, sizeof(*store->due)),
        .far_due = UINT64_MAX,
    };
    *wheel = (struct hwt_wheel){
        .ticks = ticks,
        .directory = directory,
        .bytes = sizeof(*store) + ((size_t)n + 2) * sizeof(*store->buckets) +
                 (size_t)n * 2 * sizeof(*store->due),
        .store = store,
    };
    if (!store->buckets || !store->due) {
        hwt_wheel_destroy(wheel);
        return -ENOMEM;
    }
    set_tick(wheel, 0);
    return 0;
}

void hwt_wheel_destroy(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    for (size_t i = 0; store->buckets && i <= far_slot(store); i++)
        hwt_bucket_destroy(&store->buckets[i]);
    free(store->buckets);
    free(store->due);
    free(store);
}

/* ---- what counts ---- */

/* How the hints of a bucket are told by their rounds: kind | ((round << shift | low) & bits). */
struct whereabouts {
    uint32_t kind;
    uint32_t low;
    uint32_t bits;
    unsigned shift;
};

static struct whereabouts whereabouts_of(const struct hwt_store *store, uint32_t slot)
{
    if (__builtin_expect(slot < slots(store), 1))
        return (struct whereabouts){ NEAR, slot, LOW_BITS, store->shift };
    return slot == far_slot(store) ? (struct whereabouts){ FAR, 0, LOW_BITS, 0 }
                                   : (struct whereabouts){ NEVER, 0, 0, 0 };
}

static inline uint32_t where_at(struct whereabouts about, uint32_t round)
{
    return about.kind | ((round << about.shift | about.low) & about.bits);
}

static uint32_t where_of(const struct hwt_store *store, uint32_t slot, uint32_t round)
{
    return where_at(whereabouts_of(store, slot), round);
}

static bool counts(const struct hwt_slots *slots, const struct hwt_place *place,
                   const struct hwt_hint *hint, uint32_t where)
{
    return place->where == where &&
           hwt_slots_generation(slots, place, hint->id) == hint->generation;
}

/* What the hints of a bucket are looked at for. */
struct judge {
    const struct hwt_wheel *wheel;
    uint32_t slot;
    bool asks; /* those that are not wanted do not stay either */
    /* Of equal hints the first stays: a timeout that was moved and came back has several. Its place
     * says "nowhere" from then on, until file_again(). */
    bool once;
};

/* Moves what counts of `from` to `to`. */
static uint32_t keep_counting(const struct judge *judge, const struct hwt_hint *from, uint32_t n,
                              struct hwt_hint *to)
{
    const struct whereabouts about = whereabouts_of(judge->wheel->store, judge->slot);
    const struct hwt_slots *slots = hwt_directory_slots(judge->wheel->directory);
    const bool once = judge->once;
    struct hwt_hint *kept = to;
    for (const struct hwt_hint *end = from + n; from < end; from++) {
        struct hwt_place *place = hwt_slots_place(slots, from->id);
        if (!counts(slots, place, from, where_at(about, from->round)))
            continue;
        if (once)
            place->where = 0;
        *kept++ = *from;
    }
    return (uint32_t)(kept - to);
}

/* BATCH_MAX at a time, so that `wanted` finds them in the processor's own cache. */
static uint32_t keep(const void *data, struct hwt_hint *hints, uint32_t n)
{
    const struct judge *judge = data;
    const struct hwt_wheel *wheel = judge->wheel;
    uint32_t kept = 0;
    for (uint32_t from = 0, some; from < n; from += some) {
        some = n - from < BATCH_MAX ? n - from : BATCH_MAX;
        uint32_t counting = keep_counting(judge, hints + from, some, hints + kept);
        if (judge->asks && wheel->wanted)
            counting = wheel->wanted(wheel->owner, hints + kept, counting);
        kept += counting;
    }
    return kept;
}

/* ---- sweeping ---- */

static void end_sweep(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    if (!store->sweeps)
        return;
    uint32_t slot = store->hand++;
    store->sweeps = false;
    hwt_sweep_end(&store->sweep, &store->buckets[slot], &wheel->bytes);
    update(wheel, slot);
}

/* Sets the places of the hints that have stayed. The others stay nowhere. */
static void file_again(struct hwt_wheel *wheel, uint32_t slot, const struct hwt_hint *hints,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        hwt_directory_place(wheel->directory, hints[i].id)->where =
            where_of(wheel->store, slot, hints[i].round);
}

static void begin_sweep(struct hwt_wheel *wheel, uint32_t slot)
{
    struct hwt_store *store = wheel->store;
    end_sweep(wheel);
    store->hand = slot;
    store->sweeps = true;
    hwt_sweep_begin(&store->sweep, &store->buckets[slot]);
}

/* Of the bucket at hand. Returns how many it has looked at. */
static uint32_t sweep_some(struct hwt_wheel *wheel, uint32_t most, bool asks)
{
    struct hwt_store *store = wheel->store;
    const struct judge judge = { wheel, store->hand, asks, asks };
    uint32_t gone,
        n = hwt_sweep_some(&store->sweep, &store->buckets[store->hand], most, keep, &judge, &gone);
    wheel->hints -= gone;
    return n;
}

/* A part of it. Of equal hints one stays of each part. */
static uint32_t sweep_part(struct hwt_wheel *wheel, uint32_t most, bool asks)
{
    const struct hwt_store *store = wheel->store;
    const struct hwt_bucket *bucket = &store->buckets[store->hand];
    uint64_t before = wheel->hints;
    uint32_t n = sweep_some(wheel, most, asks), stay = n - (uint32_t)(before - wheel->hints);
    const struct hwt_shelf *shelf = store->sweep.is_far ? &bucket->far : &bucket->near;
    if (asks && stay > 0)
        file_again(wheel, store->hand, shelf->hints + store->sweep.kept - stay, stay);
    return n;
}

static void sweep_whole(struct hwt_wheel *wheel, uint32_t slot, bool asks)
{
    struct hwt_store *store = wheel->store;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    begin_sweep(wheel, slot);
    while (sweep_some(wheel, UINT32_MAX, asks) > 0)
        ;
    if (asks && bucket->near.used > bucket->begin)
        file_again(wheel, slot, bucket->near.hints + bucket->begin,
                   bucket->near.used - bucket->begin);
    if (asks && store->sweep.kept > 0)
        file_again(wheel, slot, bucket->far.hints, store->sweep.kept);
    end_sweep(wheel);
}

static bool prune(struct hwt_wheel *wheel, uint32_t slot, uint32_t *looks)
{
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    const struct judge judge = { wheel, slot, true, false };
    uint32_t before = hwt_bucket_count(bucket);
    bool some = hwt_bucket_prune(bucket, keep, &judge, looks, &wheel->bytes);
    wheel->hints -= before - hwt_bucket_count(bucket);
    if (!some)
        update(wheel, slot);
    return some;
}

/* The first number from `from` on that has the low bits of `where`. */
static uint64_t number_of(uint32_t where, uint64_t from)
{
    return from + ((where - (uint32_t)from) & LOW_BITS);
}

bool hwt_wheel_is_after(const struct hwt_wheel *wheel, const struct hwt_place *place, uint64_t tick)
{
    uint32_t kind = place->where & ~LOW_BITS;
    uint64_t age = age_of(wheel->tick);
    if (kind == NEAR)
        return number_of(place->where, wheel->tick) > tick;
    if (kind == NEVER)
        return tick < wheel->ticks.last;
    /* Where a tick is so short that there are more than 2^30 ages, the place cannot tell them. */
    return age_of(wheel->ticks.last) - age > LOW_BITS ||
           number_of(place->where, age) > age_of(tick);
}

/* ---- filing and taking ---- */

/* Whatever there is to mind. */
__attribute__((noinline)) static int file_slowly(struct hwt_wheel *wheel, struct hwt_place *place,
                                                 uint32_t id, uint32_t generation, uint64_t tick)
{
    const struct hwt_store *store = wheel->store;
    uint32_t slot = slot_of(store, tick);
    uint32_t round = (uint32_t)(tick >> store->shift);
    if (tick >= wheel->ticks.last) {
        slot = never_slot(store);
        round = 0;
    } else if (tick >= wheel->near_end) {
        slot = far_slot(store);
        round = (uint32_t)age_of(tick);
    }
    struct hwt_hint hint = { round, id, generation };
    if (store->sweeps && store->hand == slot)
        end_sweep(wheel);
    int r = hwt_bucket_add(&store->buckets[slot], hint, round_now(wheel, slot), &wheel->bytes);
    if (r < 0)
        return r;
    wheel->hints++;
    place->where = where_of(store, slot, round);
    update(wheel, slot);
    return 0;
}

int hwt_wheel_file_at(struct hwt_wheel *wheel, struct hwt_place *place, uint32_t id,
                      uint32_t generation, uint64_t tick)
{
    const struct hwt_store *store = wheel->store;
    if (tick < wheel->tick)
        tick = wheel->tick;
    if (__builtin_expect(tick >= wheel->near_end, 0))
        return file_slowly(wheel, place, id, generation, tick);
    uint32_t round = (uint32_t)(tick >> store->shift);
    struct hwt_hint *hint = hwt_bucket_room(&store->buckets[slot_of(store, tick)], round);
    if (__builtin_expect(!hint, 0))
        return file_slowly(wheel, place, id, generation, tick);
    *hint = (struct hwt_hint){ round, id, generation };
    wheel->hints++;
    place->where = NEAR | ((uint32_t)tick & LOW_BITS);
    return 0;
}

/* The slot that is due next, and its tick. False: none is. The hint may be gone if it is swept. */
static bool next_slot(const struct hwt_store *store, uint32_t *ret_slot, uint64_t *ret_tick)
{
    uint64_t tick = ~store->due[1];
    bool far = store->far_due <= tick;
    *ret_tick = far ? store->far_due : tick;
    *ret_slot = far ? far_slot(store) : slot_of(store, tick);
    return *ret_tick != UINT64_MAX;
}

static bool is_swept(const struct hwt_store *store, uint32_t slot)
{
    return __builtin_expect(store->sweeps && slot == store->hand, 0);
}

/* The same, and if that is not after `limit` it has a hint for that tick. */
static bool next_slot_with_hint(struct hwt_wheel *wheel, uint64_t limit, uint32_t *ret_slot,
                                uint64_t *ret_tick)
{
    struct hwt_store *store = wheel->store;
    bool some = next_slot(store, ret_slot, ret_tick);
    if (some && is_swept(store, *ret_slot) && *ret_tick <= limit) {
        end_sweep(wheel);
        some = next_slot(store, ret_slot, ret_tick);
    }
    return some;
}

/* Whether the bucket that is swept is seen to have something to take for its tick, by a few looks:
 * then the sweep can go on. */
static bool is_still_due(const struct hwt_wheel *wheel, uint32_t slot)
{
    const struct hwt_store *store = wheel->store;
    const struct hwt_bucket *bucket = &store->buckets[slot];
    const struct judge judge = { wheel, slot, true, false };
    const struct hwt_hint *hint;
    for (uint32_t n = 0; (hint = hwt_sweep_peek(&store->sweep, bucket, n)) != NULL; n++) {
        struct hwt_hint looked = *hint;
        if (looked.round == bucket->least && keep(&judge, &looked, 1) > 0)
            return true;
    }
    return false;
}

bool hwt_wheel_find(struct hwt_wheel *wheel, uint64_t limit, uint32_t looks, uint64_t *ret_tick)
{
    uint32_t slot;
    while (next_slot(wheel->store, &slot, ret_tick) && *ret_tick < limit) {
        if (!is_swept(wheel->store, slot)) {
            if (prune(wheel, slot, &looks))
                return looks > 0;
        } else {
            if (is_still_due(wheel, slot))
                return true;
            end_sweep(wheel);
        }
    }
    return true;
}

/* How far the wheel may go: all ticks before that are handled for good. */
static uint64_t end_of_handled(const struct hwt_wheel *wheel, uint64_t limit)
{
    return hwt_ticks_ending(&wheel->ticks, limit - (wheel->lags && limit > 0));
}

/* Nothing is due before `limit`. */
static void move_to(struct hwt_wheel *wheel, uint64_t limit)
{
    uint64_t tick = end_of_handled(wheel, limit);
    if (wheel->tick < tick)
        set_tick(wheel, tick);
}

/* A small wheel is in the processor's cache. Of a great one the bucket after the next comes from
 * memory meanwhile, with the way up from the next one, and the first hint of that. */
static void fetch_ahead(const struct hwt_store *store)
{
    const uint64_t next = store->due[1];
    uint64_t after = 0;
    if (store->mask < SLOTS_FAST || next == 0)
        return;
    for (size_t node = (size_t)slots(store) + slot_of(store, ~next); node > 1; node /= 2)
        after = store->due[node ^ 1] > after ? store->due[node ^ 1] : after;
    hwt_bucket_fetch(&store->buckets[slot_of(store, ~next)]);
    __builtin_prefetch(&store->buckets[slot_of(store, ~after)], 1);
}

/* Takes ids from a bucket whose tick it is. */
static size_t take_from(struct hwt_wheel *wheel, uint32_t slot, uint32_t *batch, size_t max)
{
    struct hwt_bucket *bucket = &wheel->store->buckets[slot];
    const struct hwt_slots *slots = hwt_directory_slots(wheel->directory);
    struct hwt_hint hints[BATCH_MAX];
    const uint32_t where = where_of(wheel->store, slot, bucket->least);
    size_t taken = hwt_bucket_take(bucket, hints, max < BATCH_MAX ? max : BATCH_MAX, &wheel->bytes);
    size_t n = 0;
    wheel->hints -= taken;
    if (!bucket->visits) {
        update(wheel, slot);
        fetch_ahead(wheel->store);
    }
    for (size_t i = 0; i < taken; i++) {
        struct hwt_place *place = hwt_slots_place(slots, hints[i].id);
        if (!counts(slots, place, &hints[i], where))
            continue;
        place->where = 0;
        batch[n++] = hints[i].id;
    }
    return n;
}

size_t hwt_wheel_take(struct hwt_wheel *wheel, uint64_t limit, uint32_t *batch, size_t max,
                      bool *ret_far)
{
    uint64_t tick;
    uint32_t slot;
    *ret_far = false;
    while (next_slot_with_hint(wheel, limit, &slot, &tick)) {
        bool far = slot == far_slot(wheel->store);
        /* An age begins with its first tick, not when that is over. */
        if (far ? tick > end_of_handled(wheel, limit) : tick >= limit)
            break;
        *ret_far = far;
        set_tick(wheel, tick);
        size_t n = take_from(wheel, slot, batch, max);
        if (n > 0)
            return n;
    }
    move_to(wheel, limit);
    return 0;
}

uint32_t hwt_wheel_peek(const struct hwt_wheel *wheel, uint64_t limit)
{
    uint32_t slot;
    uint64_t tick;
    if (!next_slot(wheel->store, &slot, &tick) || tick >= limit)
        return HWT_ID_NONE;
    const struct hwt_hint *hint = hwt_bucket_peek(&wheel->store->buckets[slot]);
    return hint ? hint->id : HWT_ID_NONE;
}

/* ---- going by all ---- */

/* The first bucket from number `from` on that has hints, or one past the last. Most of a great
 * wheel is seen to be empty by the tournament's leaves alone. */
static uint32_t first_used(const struct hwt_store *store, uint32_t from)
{
    const uint64_t *leaves = store->due + slots(store);
    while (from < slots(store)
               ? leaves[from] == 0
               : from <= far_slot(store) && hwt_bucket_count(&store->buckets[from]) == 0)
        from++;
    return from;
}

uint64_t hwt_wheel_sweep(struct hwt_wheel *wheel, uint64_t most, uint64_t enough, bool asks)
{
    struct hwt_store *store = wheel->store;
    uint64_t looked = 0, all = wheel->hints;
    while (looked < most && looked < all && wheel->hints > enough) {
        uint32_t slot = store->sweeps ? store->hand : first_used(store, store->hand);
        if (slot > far_slot(store)) {
            store->hand = 0;
            continue;
        }
        uint32_t n = hwt_bucket_count(&store->buckets[slot]);
        if (!store->sweeps && n <= most - looked) {
            sweep_whole(wheel, slot, asks);
        } else {
            if (!store->sweeps)
                begin_sweep(wheel, slot);
            n = sweep_part(wheel, most - looked < n ? (uint32_t)(most - looked) : n, asks);
            if (n == 0)
                end_sweep(wheel);
        }
        looked += n;
    }
    if (wheel->hints <= enough)
        end_sweep(wheel);
    return all - wheel->hints;
}

void hwt_wheel_clear(struct hwt_wheel *wheel)
{
    struct hwt_store *store = wheel->store;
    end_sweep(wheel);
    for (uint32_t slot = 0; slot <= far_slot(store); slot++) {
        if (hwt_bucket_count(&store->buckets[slot]) > 0) {
            hwt_bucket_clear(&store->buckets[slot], &wheel->bytes);
            update(wheel, slot);
        }
    }
    wheel->hints = 0;
}

bool hwt_wheel_look(struct hwt_wheel *wheel, uint32_t from, struct hwt_wheel_view *ret_view)
{
    struct hwt_store *store = wheel->store;
    for (uint32_t slot; (slot = first_used(store, from)) <= far_slot(store); from = slot + 1) {
        const struct hwt_bucket *bucket = &store->buckets[slot];
        sweep_whole(wheel, slot, true);
        if (hwt_bucket_count(bucket) == 0)
            continue;
        *ret_view = (struct hwt_wheel_view){ slot, hwt_bucket_count(bucket), UINT64_MAX };
        if (slot != never_slot(store))
            ret_view->next = tick_of_round(wheel, slot, bucket->least);
        return true;
    }
    return false;
}

bool hwt_wheel_check(struct hwt_wheel *wheel)
{
    end_sweep(wheel);
    const struct hwt_store *store = wheel->store;
    uint64_t hints = 0;
    for (uint32_t slot = 0; slot <= far_slot(store); slot++) {
        const struct hwt_bucket *bucket = &store->buckets[slot];
        hints += hwt_bucket_count(bucket);
        if (!hwt_bucket_check(bucket, round_now(wheel, slot)))
            return false;
        if (slot == never_slot(store))
            continue;
        uint64_t due =
            slot < slots(store) ? ~store->due[(size_t)slots(store) + slot] : store->far_due;
        if (hwt_bucket_count(bucket) == 0 ? due != UINT64_MAX
                                          : due != tick_of_round(wheel, slot, bucket->least))
            return false;
    }
    for (size_t node = 1; node < slots(store); node++) {
        uint64_t left = store->due[2 * node], right = store->due[2 * node + 1];
        if (store->due[node] != (left < right ? right : left))
            return false;
    }
    return hints == wheel->hints;
}
