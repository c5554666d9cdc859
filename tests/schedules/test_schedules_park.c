/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What changes while a loop's timer parks: between its two looks at the next tick, and in a stream
 * that it could not read and that is on no list.
 */

#include "stage.h"

#define MINUTE(n) AT(HWT_MIN(n) / TICK)

/* From the first look at the next tick to the second, and behind it. */
static const char *const between[] = { "PARK_A", "PARK_B", "DISMISS", "PARK_C", "PARK_CHECK" };

enum { BETWEEN = sizeof(between) / sizeof(*between) };

/* Comes whenever the descriptor says so, until the tick: but a few times. */
static void come_when_told_until(uint64_t tick)
{
    uint64_t now = 1;
    for (int visits = 0; now < tick; visits++) {
        uint64_t in = told_in();
        ck_assert_int_lt(visits, 6);
        ck_assert_uint_ne(in, HWT_NEVER);
        now += in / TICK + (in % TICK > 0);
        ck_assert_uint_le(now, tick);
        ck_assert_uint_eq(fate.runs, 0);
        drive(now);
    }
}

/*
 *     driver                          another
 *     is to sleep for ten minutes
 *                                     cancels what that is for; adds what is due
 *                                     earlier, later, or at the same time
 *     sleeps so long; comes perhaps
 *     for nothing, not again and again
 *     runs the other when it is due
 */
START_TEST(a_cancel_and_an_add_between_two_looks_at_the_next_tick)
{
    static const uint64_t added[] = { 5, 10, 20 };
    const hwt_task *task = _i % 2 ? &silent : &counting;
    const uint64_t minutes = added[_i / 2 % 3];
    struct actor driver;
    hwt_timeout soonest = add_with(task, &beside, MINUTE(10));
    add_with(&silent, &beside, MINUTE(60));
    drive(0);
    drive(1);
    act_drive(&driver, 1);
    add_with(&silent, &beside, MINUTE(50)); /* so that it parks anew */
    actor_go_to(&driver, between[_i / 6]);
    if (_i / 6 % 2) {
        ck_assert(hwt_timeout_cancel(soonest));
        add_unread(MINUTE(minutes));
    } else {
        add_unread(MINUTE(minutes));
        ck_assert(hwt_timeout_cancel(soonest));
    }
    actor_end(&driver);
    come_when_told_until(HWT_MIN(minutes) / TICK + 1);
    ck_assert_uint_eq(fate.runs, 1);
    ck_assert_uint_eq(beside.runs, 0);
    ck_assert_uint_eq(beside.cancelled, task == &counting);
}
END_TEST

/* ---- a stream that was missed and is on no list ---- */

enum { FULL = 2 * HWT_CHUNK_RECORDS }; /* the next one compacts */

static void add_full(struct actor *adder)
{
    for (int i = 0; i <= FULL; i++) {
        if (i == FULL)
            meet_here("FULL");
        must(hwt_timer_new_timeout_at(timer, &counting, &fate, adder->instant, NULL) == 0);
    }
}

/*
 *     adder                           driver
 *                                     has read all, and parks: PARK_A
 *     adds; its stream is listed
 *     still
 *                                     takes it from the list
 *     adds one more, and compacts
 *                                     cannot read it: comes in a tick
 *     has compacted; it is on no list
 *                                     reads it when it comes, and runs what is due
 *     lists it
 */
START_TEST(what_was_missed_and_is_on_no_list_is_read_in_a_tick)
{
    static const char *const compacting[] = { "COMPACT", "CUT" };
    struct actor adder, driver;
    add_with(&silent, &beside, MINUTE(60));
    drive(0);
    adder.instant = AT(2);
    drive(1);
    actor_begin(&adder, add_full);
    actor_go_to(&adder, "PUBLISHED"); /* it has listed its stream */
    add_with(&silent, &beside, MINUTE(50));
    act_drive(&driver, 1);
    actor_go_to(&driver, "PARK_A");
    actor_go_to(&adder, "FULL");
    actor_go_to(&driver, "PARK_B");
    if (_i / 2)
        actor_go_to(&driver, "PARK_C");
    actor_go_to(&adder, compacting[_i % 2]);
    actor_end(&driver);
    ck_assert_uint_gt(timer->worker.unclaimed, 0);
    ck_assert_uint_le(told_in(), TICK);
    actor_go_to(&adder, "APPEND");
    drive(2);
    ck_assert_uint_le(told_in(), TICK);
    drive(3);
    ck_assert_uint_eq(fate.runs, FULL);
    (void)actor_end(&adder);
    drive(4);
    ck_assert_uint_eq(fate.runs, FULL + 1);
}
END_TEST

/* ---- memory that goes back to the timer meanwhile ---- */

enum { SLABS = 64, PEAK = SLABS * HWT_SLAB_ENTRIES };

static hwt_timeout peak[PEAK];
static shared_count cancelled_few;

/* It keeps one of each slab. */
static void *cancel_few_and_stand(void *data)
{
    for (int i = 0; i < SLABS; i++)
        must(hwt_timeout_cancel(peak[i * HWT_SLAB_ENTRIES]));
    cancelled_few = 1;
    gate_pass(data);
    return NULL;
}

static void drive_to_the_end_of_a_trim(void)
{
    do
        drive(1);
    while (told_in() == 0);
}

/*
 *     driver                          another
 *                                     keeps an entry of each slab, and is asked for them
 *     is to sleep for an hour: PARK_A
 *                                     ends: gives them back, and wakes nobody, for nobody
 *                                     sleeps
 *     comes when they can go
 */
START_TEST(what_a_thread_gives_back_while_the_driver_parks_goes_in_time)
{
    static gate g;
    struct actor driver;
    g = (gate){ 0 };
    cancelled_few = 0;
    add_with(&silent, &beside, MINUTE(60));
    for (int i = 0; i < PEAK; i++)
        peak[i] = add_with(&silent, &beside, MINUTE(50));
    drive(1);
    pthread_t other = spawn(cancel_few_and_stand, &g);
    ck_assert(await_count(&cancelled_few, 1));
    for (int i = 0; i < PEAK; i++)
        must(hwt_timeout_cancel(peak[i]) == (i % HWT_SLAB_ENTRIES != 0));
    drive_to_the_end_of_a_trim();
    ck_assert_uint_gt(told_in(), HWT_MIN(50));
    ck_assert_uint_gt(timer->shared.pool.slabs_used, SLABS / 2);
    act_drive(&driver, 1);
    actor_go_to(&driver, _i ? "PARK_B" : "PARK_A");
    g.open = 1;
    join(other);
    (void)actor_end(&driver);
    ck_assert_uint_le(told_in(), HWT_MIN(1));
    drive(HWT_MIN(1) / TICK);
    while (told_in() == 0)
        drive(HWT_MIN(1) / TICK);
    ck_assert_uint_le(timer->shared.pool.slabs_used, 2);
    memset(peak, 0, sizeof(peak));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: park");
    TCase *looks = stage_case(suite, "looks", stage_open, stage_close);
    tcase_add_loop_test(looks, a_cancel_and_an_add_between_two_looks_at_the_next_tick, 0,
                        6 * BETWEEN);
    TCase *missed = stage_case(suite, "missed", stage_open, stage_close);
    tcase_add_loop_test(missed, what_was_missed_and_is_on_no_list_is_read_in_a_tick, 0, 4);
    TCase *memory = stage_case(suite, "memory", stage_open, stage_close);
    tcase_add_loop_test(memory, what_a_thread_gives_back_while_the_driver_parks_goes_in_time, 0, 2);
    return run_suite(suite);
}
