/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The wheel, or a store linked in its place, against a dumb oracle: random calls to both, and
 * the same answers. The oracle is one list, sorted by tick and, within a tick, by the order of
 * filing; a timeout that never comes is at its end. What is not wanted any more is in the list as long
 * as the store may still have it: it may be taken in its turn, or not.
 *
 *     HWT_TEST_SCALE=n    an nth of the calls
 */

#include <string.h>

#include "hwt/base/time.h"
#include "hwt/hwt.h"
#include "wheel_check.h"
#include "wheel_oracle.h"

enum { BATCH_MAX = 80 };
enum { LEVELS_MAX = 15 }; /* of a store whose next tick is a bound */

static void check_next(void)
{
    uint64_t next = hwt_wheel_prune_and_peek(&wheel), soonest = oracle_next();
    if (MODEL_NEXT_IS_A_BOUND && soonest != UINT64_MAX)
        must(now <= next && next <= soonest);
    else
        must(next == soonest);
    if (next != UINT64_MAX)
        oracle_forget(next);
    must(hwt_wheel_peek(&wheel, next) == HWT_ID_NONE);
    uint32_t peeked = hwt_wheel_peek(&wheel, below(2) ? UINT64_MAX : now + below(100));
    must(peeked == HWT_ID_NONE || places_number(peeked) < LIVE_MAX);
}

/* What is looked at for a dump: all there is, and when the soonest of it comes. */
static void check_look(void)
{
    struct hwt_wheel_view view;
    size_t seen = 0;
    uint64_t soonest = UINT64_MAX;
    for (uint32_t from = 0; hwt_wheel_sweep_to_next_bucket(&wheel, from, &view);
         from = view.index + 1) {
        must(view.index >= from && view.count > 0);
        seen += view.count;
        soonest = view.next < soonest ? view.next : soonest;
    }
    must(wheel.hints == seen &&
         (MODEL_KEEPS_TWINS ? seen >= oracle_wanted() : seen == oracle_wanted()));
    oracle_forget(UINT64_MAX);
    must(soonest == hwt_wheel_prune_and_peek(&wheel));
}

static void check_is_after(void)
{
    if (length == 0)
        return;
    const struct filed *item = &list[below(length)];
    const struct hwt_place *place = hwt_directory_place(&places.directory, item->id);
    uint64_t tick = item->tick - 3 + below(6);
    if (item->tick == UINT64_MAX || below(3) == 0)
        tick = test_random(&state);
    if (!item->wanted || tick < now)
        return;
    bool after = hwt_wheel_is_after(&wheel, place, tick);
    if (item->tick == UINT64_MAX)
        must(after == (tick < wheel.ticks.last));
    else if (!item->far)
        must(after == (item->tick > tick));
    else if (wheel.ticks.last / age_length() < (1 << 30)) /* else a place cannot tell ages */
        must(after == (item->tick / age_length() > tick / age_length()));
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
        ticks = wheel_length * below(6) + below(3);
        break;
    case 6:
        ticks = age_length() * below(4) + wheel_length * below(3) + below(3);
        break;
    default:
        ticks = below(3 * (uint64_t)wheel_length + 10);
        break;
    }
    uint64_t instant = hwt_ticks_instant(&wheel.ticks, now);
    uint64_t delay = 0;
    if (__builtin_mul_overflow(ticks, wheel.ticks.duration, &delay))
        return UINT64_MAX;
    delay = hwt_saturating_add(delay, below(wheel.ticks.duration));
    return hwt_saturating_add(instant, delay);
}

static void file_id(uint32_t id)
{
    struct hwt_place *place = hwt_directory_place(&places.directory, id);
    uint32_t i = places_number(id);
    uint64_t deadline = some_deadline(), hints = wheel.hints;
    bool anew = !owned[i].wanted || below(4);
    if (anew) {
        place->generation = ++owned[i].generation; /* of which there may be hints no more */
        owned[i].wanted = true;
    }
    must(hwt_wheel_file(&wheel, id, hwt_ticks_at(&wheel.ticks, deadline)) == 0);
    must(place->where != 0 && wheel.hints == hints + 1);
    oracle_file(id, oracle_tick(deadline), !anew);
}

static void file_one(void)
{
    if (spares > 0)
        file_id(spare[--spares]);
}

/* Often the soonest, to leave none of it. */
static size_t some_item(void)
{
    return below(4) ? below(length) : 0;
}

/* Before it has come; it may have been cancelled. */
static void file_another_time(void)
{
    if (length == 0)
        return;
    oracle_remove(some_item());
    if (below(2))
        hwt_wheel_drop(&wheel, spare[spares - 1]);
    file_one();
}

static void drop_one(void)
{
    if (length == 0)
        return;
    size_t at = some_item();
    hwt_wheel_drop(&wheel, list[at].id);
    must(hwt_directory_place(&places.directory, list[at].id)->where == 0);
    oracle_remove(at);
}

/* The store is told nothing. */
static void cancel_one(void)
{
    if (length == 0)
        return;
    struct filed *item = &list[some_item()];
    owned[places_number(item->id)].wanted = false;
    item->wanted = false;
}

static void cancel_many(void)
{
    for (uint64_t n = below(LIVE_MAX); n > 0; n--)
        cancel_one();
}

static void sweep(void)
{
    uint64_t hints = wheel.hints, most = below(2) ? UINT64_MAX : below(hints + 10);
    if (most >= hints) /* of what was swept in parts, twins may be left */
        must(hwt_wheel_check(&wheel));
    hwt_wheel_sweep(&wheel, most, 0, true);
    must(wheel.hints <= hints && wheel.hints >= oracle_wanted());
    if (most < hints)
        return;
    must(MODEL_KEEPS_TWINS || wheel.hints == oracle_wanted());
    oracle_forget(UINT64_MAX);
}

/* What comes nearer is filed again in the order in which it came, and before anything else. */
static void bring_near(const uint32_t *batch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = oracle_find(batch[i]);
        struct filed *item = &list[at];
        must(item->far && comes_at(item) == now);
        item->far = false;
        if (item->wanted)
            must(hwt_wheel_file(&wheel, item->id, item->tick) == 0);
        else
            oracle_remove(at);
    }
}

/* They are where the list begins, but for what is not wanted. */
static void yield(const uint32_t *batch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = oracle_find(batch[i]), before = at;
        must(list[at].tick == now && !list[at].far);
        bool loose = list[at].loose;
        oracle_remove(at);
        while (!loose && before-- > 0) {
            must(!list[before].wanted || list[before].loose);
            if (!list[before].loose)
                oracle_remove(before);
        }
    }
}

/* All before `limit` are over. */
static void move_to(uint64_t limit)
{
    uint64_t last = wheel.ticks.last;
    oracle_forget(limit == UINT64_MAX ? limit - 1 : limit);
    if (limit >= last && limit > 0) /* there is always a tick to file for */
        limit = last - (last > 0);
    now = now > limit ? now : limit;
    must(wheel.tick == now);
}

/* Takes once: what the wheel yields is where the list begins, or comes nearer. */
static size_t take_once(uint64_t limit, bool *ret_far)
{
    uint32_t batch[BATCH_MAX];
    size_t max = 1 + below(BATCH_MAX);
    uint64_t tick = oracle_next(), far = oracle_next_of(true);
    size_t n = hwt_wheel_take(&wheel, limit, batch, max, ret_far);
    must(n <= max);
    *ret_far &= n > 0;
    if (n == 0) {
        must(tick >= limit && (far != limit || far == UINT64_MAX));
        move_to(limit);
        return 0;
    }
    must(now <= wheel.tick && wheel.tick <= tick);
    must(wheel.tick < limit || (wheel.tick == limit && *ret_far));
    must(wheel.tick != far || *ret_far); /* first */
    now = wheel.tick;
    oracle_forget(now);
    for (size_t i = 0; i < n; i++)
        must(hwt_directory_place(&places.directory, batch[i])->where == 0);
    if (*ret_far)
        bring_near(batch, n);
    else
        yield(batch, n);
    return n;
}

static uint64_t some_limit(void)
{
    uint64_t limit = now + below(2 * (uint64_t)wheel_length + 2);
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
        if (below(4) == 0)
            cancel_one();
        if (below(8) == 0)
            check_next();
        if (below(16) == 0)
            sweep();
    }
}

static void clear_all(void)
{
    hwt_wheel_clear(&wheel);
    while (length > 0) {
        hwt_directory_place(&places.directory, list[0].id)->where = 0;
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
    while ((next = hwt_wheel_prune_and_peek(&wheel)) != UINT64_MAX) {
        check_next();
        size_t n = take_once(next + 1, &far);
        in_vain += n == 0;
        nearer += far;
        must(in_vain <= most && nearer <= most_nearer);
    }
    must(oracle_next() == UINT64_MAX);
}

static void step(void)
{
    uint64_t what = below(100);
    if (what < 46)
        file_one();
    else if (what < 54)
        drop_one();
    else if (what < 62)
        cancel_one();
    else if (what < 70)
        file_another_time();
    else if (what < 78)
        check_next();
    else if (what < 83)
        check_is_after();
    else if (what < 85)
        check_look();
    else if (what < 87)
        sweep();
    else if (what < 98)
        take_some();
    else if (below(20) == 0)
        clear_all();
    else if (below(20) == 0)
        cancel_many();
}

static void run(uint64_t start, uint64_t tick_duration, unsigned steps)
{
    must(hwt_wheel_init(&wheel, &places.directory, hwt_ticks_init(start, tick_duration),
                        wheel_length) == 0);
    wheel.pieces = &places.pieces;
    wheel.wanted = keep_wanted;
    wheel.owner = owned;
    now = 0;
    for (unsigned i = 0; i < steps; i++) {
        step();
        if (below(16 + wheel_length / 16) == 0)
            must(hwt_wheel_check(&wheel));
    }
    check_next();
    sweep();
    must(hwt_wheel_check(&wheel));
    if (below(2))
        sleep_to_the_end();
    clear_all();
    must(hwt_wheel_prune_and_peek(&wheel) == UINT64_MAX);
    hwt_wheel_destroy(&wheel);
}

static void open_places(void)
{
    state = test_seed();
    places_open(&places, LIVE_MAX);
    memset(owned, 0, sizeof(owned));
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
    wheel_length = (uint32_t)1 << _i;
    state += wheel_length;
    for (int i = 0; i < 4; i++)
        run(starts[i], durations[below(4)], test_scaled(30000));
}
END_TEST

START_TEST(so_it_does_where_time_ends)
{
    wheel_length = (uint32_t)1 << _i;
    state += wheel_length;
    for (int i = 0; i < 20; i++)
        run(UINT64_MAX - below(100000), 8 + below(100), test_scaled(2000));
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
