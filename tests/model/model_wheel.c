/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The wheel, or a store linked in its place, against a dumb oracle: random calls to both, and
 * the same answers. The oracle is one list, sorted by tick and, within a tick, by the order of
 * filing; a timeout that never comes is at its end.
 */

#include "hwt/base/time.h"
#include "hwt/hwt.h"
#include "hwt/store/wheel.h"
#include "model_store.h"
#include "places_fixture.h"

enum { LIVE_MAX = 600, BATCH_MAX = 80 };
enum { LEVELS_MAX = 15 }; /* of a store whose next tick is a bound */
enum { SLOTS_MAX = 65536, AGE_BITS = 30 };

struct filed {
    uint32_t id;
    uint64_t tick; /* in which the wheel must yield it */
    bool far;      /* it comes nearer before that */
};

static struct places places;
static struct hwt_wheel wheel;
static uint32_t slots;
static uint64_t state; /* of the random numbers */

static struct filed list[LIVE_MAX]; /* sorted */
static size_t length;
static uint32_t spare[LIVE_MAX];
static size_t spares;
static uint64_t now; /* the next tick to handle */

static uint64_t below(uint64_t n)
{
    return test_random(&state) % n;
}

/* ---- the oracle ---- */

static uint64_t age_length(void)
{
    return (uint64_t)(slots < SLOTS_MAX ? slots : SLOTS_MAX) << AGE_BITS;
}

/* Whether it comes nearer first, and when. */
static bool is_far(uint64_t tick)
{
    return MODEL_HAS_AGES && tick != UINT64_MAX && tick / age_length() > now / age_length() + 1;
}

static uint64_t comes_at(const struct filed *item)
{
    return item->far ? (item->tick / age_length() - 1) * age_length() : item->tick;
}

static uint64_t oracle_tick(uint64_t deadline)
{
    uint64_t start = wheel.ticks.start, duration = wheel.ticks.duration;
    uint64_t tick = deadline < start ? 0 : (deadline - start) / duration;
    tick = tick < now ? now : tick;
    return tick >= (UINT64_MAX - start) / duration ? UINT64_MAX : tick;
}

static void oracle_file(uint32_t id, uint64_t tick)
{
    size_t at = length++;
    for (; at > 0 && list[at - 1].tick > tick; at--)
        list[at] = list[at - 1];
    list[at] = (struct filed){ id, tick, is_far(tick) };
}

static void oracle_remove(size_t at)
{
    spare[spares++] = list[at].id;
    length--;
    for (; at < length; at++)
        list[at] = list[at + 1];
}

static size_t oracle_find(uint32_t id)
{
    size_t at = 0;
    while (at < length && list[at].id != id)
        at++;
    must(at < length);
    return at;
}

static uint64_t oracle_soonest(void)
{
    return length > 0 ? list[0].tick : UINT64_MAX;
}

static uint64_t oracle_next_of(bool far)
{
    uint64_t next = UINT64_MAX;
    for (size_t at = 0; at < length; at++) {
        uint64_t tick = comes_at(&list[at]);
        if (list[at].far == far && tick < next)
            next = tick;
    }
    return next;
}

static uint64_t oracle_next(void)
{
    uint64_t far = oracle_next_of(true), near = oracle_next_of(false);
    return far < near ? far : near;
}

static void check_next(void)
{
    uint64_t next = hwt_wheel_next(&wheel), soonest = oracle_next();
    if (MODEL_NEXT_IS_A_BOUND && soonest != UINT64_MAX)
        must(now <= next && next <= soonest);
    else
        must(next == soonest);
    uint32_t peeked = hwt_wheel_peek(&wheel, below(2) ? UINT64_MAX : now + below(100));
    must(peeked == HWT_ID_NONE || list[oracle_find(peeked)].tick != UINT64_MAX);
    must(hwt_wheel_peek(&wheel, next) == HWT_ID_NONE);
}

/* What is looked at for a dump: all there is, and when the soonest of it comes. */
static void check_look(void)
{
    struct hwt_wheel_view view;
    size_t seen = 0;
    uint64_t soonest = UINT64_MAX;
    for (uint32_t from = 0; hwt_wheel_look(&wheel, from, &view); from = view.bucket + 1) {
        must(view.bucket >= from && view.count > 0);
        seen += view.count;
        soonest = view.next < soonest ? view.next : soonest;
    }
    must(seen == length);
    must(soonest == hwt_wheel_next(&wheel));
}

static void check_is_after(void)
{
    if (length == 0)
        return;
    const struct filed *item = &list[below(length)];
    uint64_t tick = item->tick - 3 + below(6);
    if (item->tick == UINT64_MAX || below(3) == 0)
        tick = test_random(&state);
    bool after = hwt_wheel_is_after(&wheel, item->id, tick);
    if (item->tick == UINT64_MAX)
        must(after);
    else if (!item->far || item->tick > tick) /* else that cannot be told yet */
        must(after == (item->tick > tick));
}

/* ---- random calls ---- */

/* Near ones, multiples of the wheel, far ones, never, past ones. */
static uint64_t some_deadline(void)
{
    uint64_t ticks = 0;
    switch (below(12)) {
    case 0:
        return test_random(&state);
    case 1:
        return UINT64_MAX - below(3) * wheel.ticks.duration;
    case 2:
        return below(2) ? 0 : wheel.ticks.start;
    case 3:
        ticks = below(UINT64_C(1) << (1 + below(60)));
        break;
    case 4:
    case 5:
        ticks = slots * below(6) + below(3);
        break;
    case 6:
        ticks = age_length() * below(4) + slots * below(3) + below(3);
        break;
    default:
        ticks = below(3 * (uint64_t)slots + 10);
        break;
    }
    uint64_t instant = hwt_ticks_instant(&wheel.ticks, now);
    uint64_t delay = 0;
    if (__builtin_mul_overflow(ticks, wheel.ticks.duration, &delay))
        return UINT64_MAX;
    delay = hwt_saturating_add(delay, below(wheel.ticks.duration));
    return hwt_saturating_add(instant, delay);
}

static void file_one(void)
{
    if (spares == 0)
        return;
    uint32_t id = spare[--spares];
    uint64_t deadline = some_deadline();
    must(hwt_wheel_file(&wheel, id, hwt_ticks_at(&wheel.ticks, deadline)) == 0);
    must(hwt_directory_place(&places.directory, id)->bucket != 0);
    oracle_file(id, oracle_tick(deadline));
}

static void drop_one(void)
{
    if (length == 0)
        return;
    size_t at = below(4) ? below(length) : 0; /* often the soonest, to leave none of it */
    hwt_wheel_drop(&wheel, list[at].id);
    must(hwt_directory_place(&places.directory, list[at].id)->bucket == 0);
    oracle_remove(at);
}

/* What comes nearer is filed again in the order in which it came, and before anything else. */
static void bring_near(const uint32_t *batch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct filed *item = &list[oracle_find(batch[i])];
        must(item->far && comes_at(item) == now);
        item->far = false;
        must(hwt_wheel_file(&wheel, item->id, item->tick) == 0);
    }
}

/* Takes once: what the wheel yields is where the list begins, or comes nearer. */
static size_t take_once(uint64_t limit, bool *ret_far)
{
    uint32_t batch[BATCH_MAX];
    size_t max = 1 + below(BATCH_MAX);
    uint64_t tick = oracle_next(), far = oracle_next_of(true);
    size_t n = hwt_wheel_take(&wheel, limit, batch, max, ret_far);
    must(n <= max);
    must((n > 0) == (tick < limit || (far == limit && far != UINT64_MAX)));
    must(n == 0 || *ret_far == (far == tick));
    *ret_far &= n > 0;
    if (limit >= wheel.ticks.last && limit > 0) /* there is always a tick to file for */
        limit = wheel.ticks.last - (wheel.ticks.last > 0);
    now = n > 0 ? tick : now > limit ? now : limit;
    must(wheel.tick == now);
    for (size_t i = 0; i < n; i++)
        must(hwt_directory_place(&places.directory, batch[i])->bucket == 0);
    if (*ret_far) {
        bring_near(batch, n);
        return n;
    }
    for (size_t i = 0; i < n; i++) {
        must(list[0].tick == tick);
        must(list[0].id == batch[i]);
        oracle_remove(0);
    }
    return n;
}

static uint64_t some_limit(void)
{
    uint64_t limit = now + below(2 * (uint64_t)slots + 2);
    if (below(20) == 0 && oracle_next() != UINT64_MAX)
        limit = oracle_next() + below(2);
    if (below(200) == 0)
        limit = now + below(UINT64_C(1) << (1 + below(50)));
    if (below(200) == 0)
        limit = (now / age_length() + 1) * age_length() - 1 + below(3);
    if (below(2000) == 0)
        limit = below(2) ? UINT64_MAX : wheel.ticks.last;
    return limit;
}

static void take_some(void)
{
    uint64_t limit = some_limit();
    bool far, once = below(3) == 0; /* and leave the rest of the tick for later */
    while (take_once(limit, &far) > 0) {
        if (far)
            continue;
        if (once)
            return;
        if (below(4) == 0)
            file_one();
        if (below(4) == 0)
            drop_one();
    }
}

static void clear_all(void)
{
    hwt_wheel_clear(&wheel);
    while (length > 0) {
        hwt_directory_place(&places.directory, list[0].id)->bucket = 0;
        oracle_remove(0);
    }
}

/* Takes all that ever comes, from one next tick to another, as a worker does that sleeps in
 * between. It wakes in vain never, or where the next is a bound, once a level for each. */
static void sleep_to_the_end(void)
{
    size_t in_vain = 0, nearer = 0;
    size_t most = MODEL_NEXT_IS_A_BOUND ? LEVELS_MAX * length : 0, most_nearer = 0;
    uint64_t next;
    bool far;
    for (size_t at = 0; at < length; at++)
        most_nearer += list[at].far;
    while ((next = hwt_wheel_next(&wheel)) != UINT64_MAX) {
        check_next();
        size_t n = take_once(next + 1, &far);
        in_vain += n == 0;
        nearer += far;
        must(in_vain <= most && nearer <= most_nearer);
    }
    must(oracle_soonest() == UINT64_MAX);
}

static void step(void)
{
    uint64_t what = below(100);
    if (what < 50)
        file_one();
    else if (what < 70)
        drop_one();
    else if (what < 80)
        check_next();
    else if (what < 85)
        check_is_after();
    else if (what < 90)
        check_look();
    else if (what < 99)
        take_some();
    else if (below(20) == 0)
        clear_all();
}

static void run(uint64_t start, uint64_t tick_duration, int steps)
{
    must(hwt_wheel_init(&wheel, &places.directory, hwt_ticks_init(start, tick_duration), slots) ==
         0);
    now = 0;
    for (int i = 0; i < steps; i++) {
        step();
        if (below(16 + slots / 16) == 0)
            must(hwt_wheel_check(&wheel));
    }
    check_next();
    must(hwt_wheel_check(&wheel));
    if (below(2))
        sleep_to_the_end();
    clear_all();
    must(hwt_wheel_next(&wheel) == UINT64_MAX);
    hwt_wheel_destroy(&wheel);
}

static void open_places(void)
{
    state = test_seed();
    places_open(&places, LIVE_MAX);
    for (spares = 0; spares < LIVE_MAX; spares++)
        spare[spares] = places_id((uint32_t)spares);
    length = 0;
}

static void close_places(void)
{
    places_close(&places);
}

START_TEST(a_wheel_of_any_size_answers_as_a_sorted_list_does)
{
    static const uint64_t starts[] = { 0, 1, 123456789, INT64_MAX };
    static const uint64_t durations[] = { 8, 1000, 999983, HWT_MS(100) };
    slots = (uint32_t)1 << _i;
    state += slots;
    for (int i = 0; i < 4; i++)
        run(starts[i], durations[below(4)], 15000);
}
END_TEST

START_TEST(so_it_does_where_time_ends)
{
    slots = (uint32_t)1 << _i;
    state += slots;
    for (int i = 0; i < 20; i++)
        run(UINT64_MAX - below(100000), 8 + below(100), 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_wheel");
    TCase *model = unit_case(suite, "model", open_places, close_places);
    tcase_add_loop_test(model, a_wheel_of_any_size_answers_as_a_sorted_list_does, 0, 19);
    tcase_add_loop_test(model, so_it_does_where_time_ends, 0, 12);
    return run_suite(suite);
}
