/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What re-arms itself keeps its turn, and its period. */

#include "room_fixture.h"

#define TICK HWT_MS(1)

enum { WHEEL = 64 };

static struct room room;
static hwt_timer *timer;

static void open_wheel(uint32_t ticks)
{
    room_open(&room, 0, TICK, ticks);
    timer = room.timer;
}

static uint64_t pass(uint64_t now)
{
    atomic_store(&room.now, now);
    uint64_t n = hwt_worker_pass(timer, now);
    must(hwt_wheel_check(&timer->worker.wheel));
    return n;
}

/* ---- turns ---- */

enum { ITEMS = 300, PASSES = 3000 };

/* A timeout of many whose tasks re-arm themselves and add others as chance will have it. */
struct item {
    hwt_timeout timeout;
    uint64_t due;  /* its tick */
    uint64_t turn; /* in which it was added, or its task returned */
    bool live;
};

static struct {
    struct item items[ITEMS];
    uint64_t random, turns, limit, last_due, last_turn;
    unsigned rearmed, added;
} mix;

static uint64_t below(uint64_t limit)
{
    return test_random(&mix.random) % limit;
}

static uint64_t choose_deadline(struct item *item)
{
    uint64_t tick = mix.limit + below(4) - (mix.limit > 0 && below(4) == 0);
    item->due = tick < mix.limit ? mix.limit : tick;
    return tick * TICK + below(TICK);
}

static void mix_run(hwt_timeout timeout, void *arg);

static const hwt_task mixing = { mix_run, NULL };

static void mix_add(void)
{
    struct item *item = mix.items;
    while (item < &mix.items[ITEMS] && item->live)
        item++;
    if (item == &mix.items[ITEMS])
        return;
    item->live = true;
    item->turn = mix.turns++;
    must(hwt_timer_new_timeout_at(timer, &mixing, item, choose_deadline(item), &item->timeout) ==
         0);
    mix.added++;
}

static void mix_run(hwt_timeout timeout, void *arg)
{
    struct item *item = arg;
    must(item->live && item->due < mix.limit && item->due >= mix.last_due);
    must(item->due > mix.last_due || item->turn > mix.last_turn);
    mix.last_due = item->due;
    mix.last_turn = item->turn;
    for (uint64_t n = below(3) == 0 ? below(3) : 0; n > 0; n--)
        mix_add();
    bool rearmed = below(8) > 0;
    if (rearmed)
        must(hwt_timeout_reschedule_at(timeout, choose_deadline(item)));
    if (below(4) == 0)
        mix_add();
    item->live = rearmed;
    item->turn = mix.turns++; /* it takes effect when the task returns */
    mix.rearmed += rearmed;
}

START_TEST(of_one_tick_what_was_added_or_returned_earlier_runs_earlier)
{
    open_wheel(WHEEL);
    memset(&mix, 0, sizeof(mix));
    mix.random = test_seed();
    mix.turns = 1;
    for (int i = 0; i < ITEMS / 2; i++)
        mix_add();
    for (int i = 0; i < PASSES; i++) {
        mix.limit += 1 + (below(8) == 0 ? below(100) : 0);
        mix.last_due = mix.last_turn = 0;
        pass(mix.limit * TICK + below(TICK));
        for (int k = 0; k < ITEMS; k++)
            must(!mix.items[k].live || mix.items[k].due >= mix.limit);
        mix_add();
    }
    ck_assert_uint_gt(mix.rearmed, 10000);
    ck_assert_uint_gt(mix.added, 2000);
    room_close(&room);
}
END_TEST

/* ---- periods ---- */

enum { BEATS = 300 };

static struct {
    uint64_t period;
    unsigned runs[BEATS];
    unsigned next; /* they beat in turn */
} beats;

static void beat(hwt_timeout timeout, void *arg)
{
    unsigned i = (unsigned)(uintptr_t)arg;
    must(i == beats.next);
    beats.next = (i + 1) % BEATS;
    beats.runs[i]++;
    must(hwt_timeout_repeat(timeout, beats.period));
}

/* Several batches of one bucket re-arm themselves, in a wheel of so many ticks, every so many. */
static void let_beat(uint32_t wheel, uint64_t ticks)
{
    static const hwt_task beating = { beat, NULL };
    open_wheel(wheel);
    memset(&beats, 0, sizeof(beats));
    beats.period = ticks * TICK;
    for (uintptr_t i = 0; i < BEATS; i++)
        must(hwt_timer_new_timeout_at(timer, &beating, (void *)i, 7 * TICK + i, NULL) == 0);
    for (uint64_t tick = 0; tick < 7 + 40 * ticks; tick++) {
        bool due = tick >= 7 && (tick - 7) % ticks == 0;
        must(pass((tick + 1) * TICK) == (due ? BEATS : 0));
        must(hwt_lane_is_empty(room.lane)); /* all were filed at once */
    }
    for (int i = 0; i < BEATS; i++)
        ck_assert_uint_eq(beats.runs[i], 40);
    ck_assert_uint_eq(hwt_timer_pending(timer), BEATS);
    room_close(&room);
}

START_TEST(a_period_of_ticks_or_revolutions_is_kept_exactly)
{
    static const uint64_t shapes[][2] = {
        { WHEEL, 1 },
        { WHEEL, WHEEL },
        { WHEEL, WHEEL - 1 },
        { WHEEL, WHEEL + 1 },
        { WHEEL, 3 },
        { 1, 1 },
        { 1, 2 },
        { 2, 2 },
    };
    let_beat((uint32_t)shapes[_i][0], shapes[_i][1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_rearm_order");
    TCase *turns = room_case(suite, "turns", NULL, NULL);
    tcase_add_test(turns, of_one_tick_what_was_added_or_returned_earlier_runs_earlier);
    TCase *periods = room_case(suite, "periods", NULL, NULL);
    tcase_add_loop_test(periods, a_period_of_ticks_or_revolutions_is_kept_exactly, 0, 8);
    return run_suite(suite);
}
