/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The order of ticks, beside a worker that runs what it has slept for before it reads: whatever was
 * added on its way into the sleep, and however late it wakes; and beside a producer that keeps what
 * it has added from being read.
 */

#include "schedule.h"

enum { TICKS = 3 }; /* of 1 ms each, after `soon` */

static const char *const parking[] = { "PARK",   "PARK_READ",  "PARK_A", "PARK_B",
                                       "PARK_C", "PARK_CHECK", "SLEEP",  "PARK_D" };

static const char *const napping[] = { "PARK_READ", "PARK_CHECK", "SLEEP", "PARK_D" };

enum { PARKING = sizeof(parking) / sizeof(*parking), NAPPING = sizeof(napping) / sizeof(*napping) };

static hwt_timer *timer;
static uint64_t begin;     /* of a tick */
static uint64_t soon = 50; /* ms; twice as much where the machine was too slow for that */
static size_t order[TICKS];
static shared_count begun;

static void note_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    order[begun] = (size_t)((char *)arg - (char *)order);
    begun++;
}

static const hwt_task noting = { note_run, NULL };

static void add(size_t tick)
{
    must(hwt_timer_new_timeout_at(timer, &noting, (char *)order + tick, begin + HWT_MS(soon + tick),
                                  NULL) == 0);
}

static void open_worker(struct actor *worker)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    begun = 0;
    timer = create(&options);
    begin = hwt_timer_now(timer);
    act_worker(worker, timer);
}

/* Whether all has been added before the first of it was due: else the order is another one. */
static bool in_time(void)
{
    if (hwt_timer_now(timer) < begin + HWT_MS(soon))
        return true;
    soon *= 2;
    return false;
}

static void expect_order_and_close(void)
{
    ck_assert(await_count(&begun, TICKS));
    for (size_t i = 0; i < TICKS; i++)
        ck_assert_uint_eq(order[i], i);
    hwt_timer_destroy(timer);
}

/* The worker stands at the point; then one more is added, and all ticks pass. False: it was too
 * late for that. */
static bool add_at(struct actor *worker, const char *point, size_t added)
{
    for (size_t tick = 0; tick < TICKS; tick++) {
        if (tick != added)
            add(tick);
    }
    actor_go_to(worker, point);
    add(added);
    if (!in_time()) {
        actor_let_go(worker);
        hwt_timer_destroy(timer);
        return false;
    }
    while (hwt_timer_now(timer) < begin + HWT_MS(soon + TICKS + 2))
        give_others_a_chance();
    actor_let_go(worker);
    expect_order_and_close();
    return true;
}

/*
 *     worker                          adder
 *     parks until the first of two
 *     ticks
 *                                     adds what is for another, which may wake it
 *     wakes when all of them are
 *     over: runs them in order
 */
START_TEST(ticks_keep_their_order_though_one_was_added_while_the_worker_parked)
{
    struct actor worker;
    do
        open_worker(&worker);
    while (!add_at(&worker, parking[_i / TICKS], (size_t)_i % TICKS));
}
END_TEST

/* The same where it has told of a cancel, and parks to the next tick boundary, for which nobody
 * wakes it. */
START_TEST(nor_do_they_lose_it_where_it_is_not_woken)
{
    struct actor worker;
    ends e;
    do {
        memset(&e, 0, sizeof(e));
        open_worker(&worker);
        must(hwt_timeout_cancel(arm(timer, &counting, &e, HWT_SEC(1))));
    } while (!add_at(&worker, napping[_i / TICKS], (size_t)_i % TICKS));
    ck_assert_uint_eq(e.cancelled, 1);
}
END_TEST

/*
 *     worker                  adder                    another
 *     parks for the last
 *     of three ticks
 *                             adds the first, and is
 *                             half-way through waking
 *                             it: WAKE_4
 *                                                      adds the second, and wakes it
 *     wakes, or looks when
 *     all of them are over:
 *     runs them in order
 */
START_TEST(nor_where_a_waker_stands_half_way)
{
    struct actor worker, adder;
    for (bool done = false; !done;) {
        open_worker(&worker);
        add(2);
        actor_go_to(&worker, "SLEEP");
        act_add(&adder, timer, &noting, (char *)order, begin + HWT_MS(soon));
        actor_go_to(&adder, "WAKE_4");
        add(1);
        done = in_time();
        actor_let_go(&worker);
        ck_assert(await_count(&begun, TICKS));
        ck_assert_int_eq(actor_end(&adder), 0);
        if (done)
            expect_order_and_close();
        else
            hwt_timer_destroy(timer);
    }
}
END_TEST

/* ---- a stream that the worker missed ---- */

enum { MISSED = 2 * 62 }; /* records, of chunks that are full: the next add compacts them */

static struct {
    uint32_t first;  /* runs of what is due in the first tick */
    uint32_t second; /* in the second */
    bool early;      /* one of those came before one of the first */
} runs;

static void run_first(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    runs.early |= runs.second > 0;
    runs.first++;
}

static void run_second(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    runs.second++;
}

static const hwt_task first = { run_first, NULL }, second = { run_second, NULL };

static void add_many(struct actor *adder)
{
    for (int i = 0; i <= MISSED; i++)
        must(hwt_timer_new_timeout_at(adder->timer, &first, NULL, adder->instant, NULL) == 0);
}

/*
 *     driver                          adder
 *     files something for the second
 *     tick
 *                                     adds much for the first one, and compacts
 *     the first tick is over: cannot
 *     read that
 *                                     goes on
 *     at the same instant, or when the
 *     second tick is over, too: runs
 *     it, in order
 */
static void expect_tick_kept(uint64_t at, int way)
{
    const uint64_t tick = HWT_MS(1), begin_at = at * tick;
    struct actor adder;
    manual m;
    memset(&runs, 0, sizeof(runs));
    manual_open(&m, 0, tick, 8);
    must(hwt_timer_new_timeout_at(m.timer, &second, NULL, begin_at + tick + 1, NULL) == 0);
    must(hwt_timer_new_timeout_at(m.timer, &second, NULL, 2 * begin_at + 8 * tick, NULL) == 0);
    ck_assert_uint_eq(manual_go(&m, begin_at), 0);
    adder.timer = m.timer;
    adder.instant = begin_at;
    actor_begin(&adder, add_many);
    actor_go_to(&adder, way % 2 ? "CUT" : "COMPACT");
    ck_assert_uint_eq(manual_go(&m, begin_at + tick), 0);
    if (way / 4) /* until then nothing is known of it */
        ck_assert_uint_eq(hwt_timer_next_tick(m.timer), begin_at + 2 * tick);
    (void)actor_end(&adder);
    if (way / 2 % 2) {
        ck_assert_uint_eq(hwt_timer_next_tick(m.timer), begin_at + tick);
        ck_assert_uint_eq(manual_go(&m, begin_at + tick), MISSED + 1);
    } else {
        ck_assert_uint_eq(manual_go(&m, begin_at + 2 * tick), MISSED + 2);
    }
    ck_assert_uint_eq(runs.first, MISSED + 1);
    ck_assert(!runs.early);
    manual_close(&m);
}

START_TEST(what_a_pass_could_not_read_keeps_its_tick)
{
    expect_tick_kept(0, _i);
}
END_TEST

/* The last tick before 2^29: with the next one, what is for much later comes nearer. */
START_TEST(also_at_the_end_of_an_age)
{
    expect_tick_kept(((uint64_t)1 << 29) - 1, _i);
}
END_TEST

/*
 *     driver                          producer
 *     stands still while it files
 *     what the producer has added
 *                                     adds and cancels on and on: that is
 *                                     compacted
 *     files the rest
 */
START_TEST(a_worker_that_stands_still_does_not_keep_a_stream_from_being_compacted)
{
    enum { MUCH = 200000, KEPT = 10, HELD_MAX = 256 * 1024 };
    struct actor driver;
    manual m;
    manual_open(&m, 0, HWT_MS(1), 64);
    for (int i = 0; i < KEPT; i++)
        must(hwt_timer_new_timeout_at(m.timer, &second, NULL, HWT_MS(5), NULL) == 0);
    act_advance(&driver, m.timer, 0);
    actor_go_to(&driver, "FILE");
    uint64_t before = stats_of(m.timer).memory;
    for (int i = 0; i < MUCH; i++)
        must(hwt_timeout_cancel(arm(m.timer, &second, NULL, HWT_MIN(1))));
    ck_assert_uint_lt(stats_of(m.timer).memory, before + HELD_MAX);
    ck_assert_int_eq(actor_end(&driver), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(6)), KEPT);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: order");
    TCase *tcase = add_case(suite, "order");
    tcase_add_loop_test(tcase, ticks_keep_their_order_though_one_was_added_while_the_worker_parked,
                        0, PARKING * TICKS);
    tcase_add_loop_test(tcase, nor_do_they_lose_it_where_it_is_not_woken, 0, NAPPING * TICKS);
    tcase_add_test(tcase, nor_where_a_waker_stands_half_way);
    tcase_add_loop_test(tcase, what_a_pass_could_not_read_keeps_its_tick, 0, 8);
    tcase_add_loop_test(tcase, also_at_the_end_of_an_age, 0, 8);
    tcase_add_test(tcase, a_worker_that_stands_still_does_not_keep_a_stream_from_being_compacted);
    return run_suite(suite);
}
