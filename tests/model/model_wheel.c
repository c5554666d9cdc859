/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The wheel, or a store linked in its place, against a dumb oracle: random calls to both, and
 * the same answers. The oracle is one list, sorted by tick and, within a tick, by the order of
 * filing; a timeout that never comes is at its end.
 */

#include "model_store.h"
#include "room_fixture.h"

enum { LIVE_MAX = 600, BATCH_MAX = 80 };
enum { LEVELS_MAX = 15 }; /* of a store whose next tick is a bound */

struct filed {
    struct hwt_entry *entry;
    uint64_t tick; /* in which the wheel must yield it */
};

static struct room room;
static struct hwt_wheel wheel;
static uint32_t slots;
static uint64_t state; /* of the random numbers */

static struct filed list[LIVE_MAX]; /* sorted */
static size_t length;
static struct hwt_entry *spare[LIVE_MAX];
static size_t spares;
static uint64_t now; /* the next tick to handle */

static uint64_t below(uint64_t n)
{
    return test_random(&state) % n;
}

/* ---- the oracle ---- */

static uint64_t oracle_tick(uint64_t deadline, uint64_t earliest)
{
    uint64_t tick = deadline < wheel.start ? 0 : (deadline - wheel.start) / wheel.tick_duration;
    tick = tick < earliest ? earliest : tick;
    tick = tick < now ? now : tick;
    if (tick >= (UINT64_MAX - wheel.start) / wheel.tick_duration)
        return HWT_NEVER;
    uint64_t rounds = (tick - now) / slots;
    if (rounds > MODEL_ROUNDS_MAX)
        tick -= (rounds - MODEL_ROUNDS_MAX) * slots;
    return tick;
}

static void oracle_file(struct hwt_entry *entry, uint64_t tick)
{
    size_t at = length++;
    for (; at > 0 && list[at - 1].tick > tick; at--)
        list[at] = list[at - 1];
    list[at] = (struct filed){ entry, tick };
}

static void oracle_remove(size_t at)
{
    spare[spares++] = list[at].entry;
    length--;
    for (; at < length; at++)
        list[at] = list[at + 1];
}

static uint64_t oracle_next(void)
{
    return length > 0 ? list[0].tick : HWT_NEVER;
}

static void check_next(void)
{
    uint64_t next = hwt_wheel_next(&wheel), soonest = oracle_next();
    if (MODEL_NEXT_IS_A_BOUND && soonest != HWT_NEVER)
        must(now <= next && next <= soonest);
    else
        must(next == soonest);
}

/* What is looked at for a dump: all there is, and when the soonest of it comes. */
static void check_look(void)
{
    struct hwt_wheel_view view;
    size_t seen = 0;
    uint64_t soonest = HWT_NEVER;
    for (uint32_t from = 0; hwt_wheel_look(&wheel, from, &view); from = view.bucket + 1) {
        must(view.bucket >= from && view.count > 0);
        seen += view.count;
        soonest = view.next < soonest ? view.next : soonest;
    }
    must(seen == length);
    must(soonest == hwt_wheel_next(&wheel));
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
        return HWT_NEVER - below(3) * wheel.tick_duration;
    case 2:
        return below(2) ? 0 : wheel.start;
    case 3:
        ticks = below(UINT64_C(1) << (1 + below(60)));
        break;
    case 4:
    case 5:
        ticks = slots * below(6) + below(3);
        break;
    case 6:
        ticks = slots * (INT32_MAX - 2 + below(5)) + below(3);
        break;
    default:
        ticks = below(3 * (uint64_t)slots + 10);
        break;
    }
    uint64_t instant = hwt_wheel_instant(&wheel, now);
    uint64_t delay = 0;
    if (__builtin_mul_overflow(ticks, wheel.tick_duration, &delay))
        return HWT_NEVER;
    delay = hwt_saturating_add(delay, below(wheel.tick_duration));
    return hwt_saturating_add(instant, delay);
}

static void file_one(void)
{
    if (spares == 0)
        return;
    struct hwt_entry *entry = spare[--spares];
    uint64_t deadline = some_deadline();
    uint64_t earliest = below(8) ? 0 : now + below(2 * (uint64_t)slots);
    must(hwt_wheel_file(&wheel, entry, deadline, earliest) == 0);
    oracle_file(entry, oracle_tick(deadline, earliest));
}

static void drop_one(void)
{
    if (length == 0)
        return;
    size_t at = below(4) ? below(length) : 0; /* often the soonest, to leave none of it */
    hwt_wheel_drop(&wheel, list[at].entry);
    must(list[at].entry->slot == HWT_SLOT_NONE);
    oracle_remove(at);
}

/* Takes once: what the wheel yields is where the list begins. */
static size_t take_once(uint64_t limit)
{
    struct hwt_entry *batch[BATCH_MAX];
    size_t max = 1 + below(BATCH_MAX);
    uint64_t tick = oracle_next();
    size_t n = hwt_wheel_take(&wheel, limit, batch, max);
    must(n <= max);
    must((n > 0) == (tick < limit));
    for (size_t i = 0; i < n; i++) {
        must(list[0].tick == tick);
        must(list[0].entry == batch[i]);
        must(batch[i]->slot == HWT_SLOT_NONE);
        oracle_remove(0);
    }
    now = n > 0 ? tick : now > limit ? now : limit;
    must(wheel.tick == now);
    return n;
}

static uint64_t some_limit(void)
{
    uint64_t limit = now + below(2 * (uint64_t)slots + 2);
    if (below(20) == 0 && oracle_next() != HWT_NEVER)
        limit = oracle_next() + below(2);
    if (below(200) == 0)
        limit = now + below(UINT64_C(1) << (1 + below(50)));
    return limit < wheel.last_tick ? limit : wheel.last_tick;
}

static void take_some(void)
{
    uint64_t limit = some_limit();
    if (below(3) == 0) {
        take_once(limit); /* and leave the rest of the tick for later */
        return;
    }
    while (take_once(limit) > 0) {
        if (below(4) == 0)
            file_one();
        if (below(4) == 0)
            drop_one();
    }
}

static void take_any(void)
{
    struct hwt_entry *batch[BATCH_MAX];
    size_t max = 1 + below(BATCH_MAX);
    size_t n = hwt_wheel_take_any(&wheel, batch, max);
    must(n <= max && (n > 0) == (length > 0));
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < length && list[at].entry != batch[i])
            at++;
        must(at < length);
        must(batch[i]->slot == HWT_SLOT_NONE);
        oracle_remove(at);
    }
}

/* Takes all that ever comes, from one next tick to another, as a worker does that sleeps in
 * between. It wakes in vain never, or where the next is a bound, once a level for each. */
static void sleep_to_the_end(void)
{
    size_t in_vain = 0, most = MODEL_NEXT_IS_A_BOUND ? LEVELS_MAX * length : 0;
    uint64_t next;
    while ((next = hwt_wheel_next(&wheel)) != HWT_NEVER) {
        check_next();
        size_t n = take_once(next + 1);
        in_vain += n == 0;
        must(in_vain <= most);
    }
    must(oracle_next() == HWT_NEVER);
}

static void step(void)
{
    uint64_t what = below(100);
    if (what < 50)
        file_one();
    else if (what < 75)
        drop_one();
    else if (what < 85)
        check_next();
    else if (what < 90)
        check_look();
    else if (what < 99)
        take_some();
    else if (below(10) == 0)
        take_any();
}

static void run(uint64_t start, uint64_t tick_duration, int steps)
{
    must(hwt_wheel_init(&wheel, &room.timer->pool, start, tick_duration, slots) == 0);
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
    while (length > 0)
        take_any();
    must(hwt_wheel_next(&wheel) == HWT_NEVER);
    hwt_wheel_destroy(&wheel);
}

static void open_room(void)
{
    state = test_seed();
    room_open(&room, 0, HWT_MS(1), 8);
    room_take_all(&room, spare, LIVE_MAX);
    spares = LIVE_MAX;
    length = 0;
}

static void close_room(void)
{
    room_close(&room);
}

START_TEST(a_wheel_of_any_size_answers_as_a_sorted_list_does)
{
    static const uint64_t starts[] = { 0, 1, 123456789, INT64_MAX };
    static const uint64_t durations[] = { 1, 1000, 999983, HWT_MS(100) };
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
        run(UINT64_MAX - below(100000), 1 + below(100), 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_wheel");
    TCase *model = room_case(suite, "model", open_room, close_room);
    tcase_add_loop_test(model, a_wheel_of_any_size_answers_as_a_sorted_list_does, 0, 17);
    tcase_add_loop_test(model, so_it_does_where_time_ends, 0, 12);
    return run_suite(suite);
}
