/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A worker that is on its way into a sleep or out of one, against adding, stopping and asking; and wakers that
 * stand still. The letters and numbers are those of gate.h. */

#include "stage.h"

static const char *const on_its_way[] = { "WORKER",     "PARK",  "PARK_A", "PARK_B", "PARK_C",
                                          "PARK_CHECK", "SLEEP", "PARK_D", "AWAKE" };

enum { ON_ITS_WAY = sizeof(on_its_way) / sizeof(*on_its_way) };

/* It stands at the point, on its way into a sleep for an hour, or out of one. */
static void act_worker_at(struct actor *worker, const char *point)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    timer = create(&options);
    act_worker(worker, timer);
    must(hwt_timer_new_timeout(timer, &counting, &beside, HWT_MIN(60), NULL) == 0);
    if (strcmp(point, "AWAKE") == 0) {
        actor_go_to(worker, "SLEEP");
        must(hwt_timer_new_timeout(timer, &counting, &beside, HWT_MIN(50), NULL) == 0);
    }
    if (strcmp(point, "WORKER") != 0)
        actor_go_to(worker, point);
}

/*
 *     worker                          adder
 *     on its way into a sleep for an
 *     hour
 *                                     adds what is due at once
 *     runs it
 */
START_TEST(a_worker_on_its_way_into_a_sleep_runs_what_is_added)
{
    struct actor worker;
    act_worker_at(&worker, on_its_way[_i]);
    must(hwt_timer_new_timeout(timer, &counting, &fate, 0, NULL) == 0);
    actor_let_go(&worker);
    ck_assert(await_count(&fate.runs, 1));
    hwt_timer_destroy(timer);
}
END_TEST

static struct hwt_stream *adders_stream;
static shared_count runs_before, runs_behind; /* what was added while the worker slept was read */

static void note_what_is_unread(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    if (hwt_stream_is_used(adders_stream))
        runs_before++;
    else
        runs_behind++;
}

static const hwt_task noting_unread = { note_what_is_unread, NULL };

/*
 *     worker                          adder
 *     on its way into a sleep for
 *     some ticks
 *                                     adds what is due in an hour
 *     sleeps, and runs what it has
 *     slept for; then reads
 */
START_TEST(a_worker_runs_what_it_has_slept_for_before_it_reads)
{
    struct actor worker;
    hwt_timeout noting = { NULL, 0 };
    uint64_t delay = HWT_MS(25);
    act_worker_at(&worker, "SLEEP");
    adders_stream = &hwt_lane_own(&timer->shared.lanes)->pending;
    do { /* until it is about to sleep, for longer than a tick, before the only one is due */
        hwt_timeout_cancel(noting);
        runs_before = runs_behind = 0;
        delay *= 2;
        must(hwt_timer_new_timeout(timer, &noting_unread, NULL, delay, &noting) == 0);
        actor_go_to(&worker, "SLEEP");
    } while (runs_before + runs_behind > 0 ||
             atomic_load(&timer->shared.gate.wake_before) == HWT_GATE_OPEN);
    must(hwt_timer_new_timeout(timer, &counting, &beside, HWT_MIN(60), NULL) == 0);
    actor_let_go(&worker);
    ck_assert(await_count(&runs_before, 1));
    ck_assert_uint_eq(runs_behind, 0);
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_worker_that_is_woken_late_runs_what_was_added)
{
    static const char *const adding[] = { "PUBLISHED", "WAKE_3", "WAKE_4", "WAKE_DONE" };
    struct actor worker, adder;
    act_worker_at(&worker, "SLEEP");
    act_add(&adder, timer, &counting, &fate, hwt_timer_now(timer));
    actor_go_to(&adder, adding[_i]);
    actor_let_go(&worker);
    give_others_a_chance();
    ck_assert_int_eq(actor_end(&adder), 0);
    ck_assert(await_count(&fate.runs, 1));
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- a waker that stands still, as one does that gets no processor ---- */

static const char *const half_way[] = { "WAKE_3", "WAKE_4", "WAKE_DONE" };

enum { HALF_WAY = sizeof(half_way) / sizeof(*half_way) };

static void dump(struct actor *asker)
{
    asker->answer = hwt_timer_dump(timer, NULL, 0);
}

static void add_at_once(void)
{
    must(hwt_timer_new_timeout(timer, &counting, &fate, 0, NULL) == 0);
    ck_assert(await_count(&fate.runs, 1));
}

static void cancel_at_once(void)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout(timer, &counting, &fate, HWT_MIN(100), &timeout) == 0);
    ck_assert(hwt_timeout_cancel(timeout));
    ck_assert(await_count(&fate.cancelled, 1));
}

static void ask_at_once(void)
{
    struct actor asker;
    actor_begin(&asker, dump);
    ck_assert_int_gt(actor_end(&asker), 0);
}

static void stop_at_once(void)
{
    struct actor stopper;
    act_stop(&stopper, timer);
    ck_assert_int_gt(actor_end(&stopper), 0);
}

/*
 *     worker                  adder                    another
 *     sleeps for an hour, or
 *     has a look before that
 *                             adds what is due before,
 *                             and stands half-way
 *                             through waking it
 *                                                      adds what is due at once; cancels
 *                                                      what is to be told; asks for a dump;
 *                                                      or stops
 *     does it
 */
START_TEST(a_waker_that_stands_half_way_delays_nobody)
{
    static void (*const others[])(void) = { add_at_once, cancel_at_once, ask_at_once,
                                            stop_at_once };
    const char *point = half_way[_i % HALF_WAY];
    struct actor worker, adder;
    act_worker_at(&worker, "PARK_D");
    if (_i / HALF_WAY / 4)
        actor_let_go(&worker);
    act_add(&adder, timer, &counting, &beside, hwt_timer_now(timer) + HWT_MIN(30));
    actor_go_to(&adder, point);
    if (_i / HALF_WAY / 4 == 0)
        actor_let_go(&worker);
    others[_i / HALF_WAY % 4]();
    (void)actor_end(&adder);
    hwt_timer_destroy(timer);
}
END_TEST

/* A worker that is still on its way into a sleep needs no waker: then another one adds what is due before. */
static void stand_half_way(struct actor *adder, uint64_t delay, const char *point)
{
    do {
        delay -= HWT_SEC(1);
        act_add(adder, timer, &counting, &beside, hwt_timer_now(timer) + delay);
    } while (!actor_goes_to(adder, point) && actor_end(adder) == 0);
}

/* The same with a second one that stands half-way of what parked again. */
START_TEST(nor_do_two_of_them)
{
    struct actor worker, adders[2];
    act_worker_at(&worker, "PARK_D");
    actor_let_go(&worker);
    for (int i = 0; i < 2; i++) {
        stand_half_way(&adders[i], HWT_MIN(i ? 20 : 40),
                       half_way[i ? _i % HALF_WAY : _i / HALF_WAY % HALF_WAY]);
        if (_i / HALF_WAY / HALF_WAY) { /* it wakes, and parks again */
            fate.runs = 0;
            add_at_once();
        }
    }
    (void)actor_end(&adders[0]);
    fate.runs = 0;
    add_at_once();
    (void)actor_end(&adders[1]);
    hwt_timer_destroy(timer);
}
END_TEST

/*
 *     worker                          stop
 *     on its way into a sleep for an
 *     hour
 *                                     sets the flag; looks at the gate; waits for
 *                                     the worker: STOP, STOP_WAKE, WAKE_3, or further
 *     goes on, perhaps into its sleep
 *                                     goes on
 *     ends
 */
START_TEST(a_worker_on_its_way_into_a_sleep_sees_stop)
{
    static const char *const stopping[] = { "STOP", "STOP_WAKE", "WAKE_3" };
    struct actor worker, stopper;
    act_worker_at(&worker, on_its_way[_i / 4]);
    act_stop(&stopper, timer);
    actor_go_to(&stopper, stopping[_i % 4 < 3 ? _i % 4 : 2]);
    if (_i % 4 == 3) {
        actor_let_go(&stopper);
        give_others_a_chance();
    }
    actor_let_go(&worker);
    give_others_a_chance();
    int64_t left = actor_end(&stopper);
    ck_assert_uint_eq((uint64_t)left, beside.visited);
    ck_assert_uint_ge(beside.visited, 1);
    hwt_timer_destroy(timer);
}
END_TEST

/*
 *     worker                          asker
 *     on its way into a sleep for an
 *     hour
 *                                     asks for a dump: REQUEST_WAKE, or waits
 *     goes on, perhaps into its sleep
 *                                     looks at the gate
 *     answers
 */
START_TEST(a_worker_on_its_way_into_a_sleep_writes_a_dump)
{
    struct actor worker, asker;
    act_worker_at(&worker, on_its_way[_i / 2]);
    actor_begin(&asker, dump);
    actor_go_to(&asker, "REQUEST_WAKE");
    if (_i % 2)
        actor_let_go(&asker);
    actor_let_go(&worker);
    give_others_a_chance();
    ck_assert_int_gt(actor_end(&asker), 0);
    hwt_timer_destroy(timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: worker");
    TCase *worker = stage_case(suite, "worker", NULL, NULL);
    tcase_add_test(worker, a_worker_runs_what_it_has_slept_for_before_it_reads);
    tcase_add_loop_test(worker, a_worker_on_its_way_into_a_sleep_runs_what_is_added, 0, ON_ITS_WAY);
    tcase_add_loop_test(worker, a_worker_that_is_woken_late_runs_what_was_added, 0, 4);
    tcase_add_loop_test(worker, a_worker_on_its_way_into_a_sleep_sees_stop, 0, 4 * ON_ITS_WAY);
    tcase_add_loop_test(worker, a_worker_on_its_way_into_a_sleep_writes_a_dump, 0, 2 * ON_ITS_WAY);
    tcase_add_loop_test(worker, a_waker_that_stands_half_way_delays_nobody, 0, 8 * HALF_WAY);
    tcase_add_loop_test(worker, nor_do_two_of_them, 0, 2 * HALF_WAY * HALF_WAY);
    return run_suite(suite);
}
