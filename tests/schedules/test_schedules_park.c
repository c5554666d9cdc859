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
    actor_go_to(&adder, "SAID"); /* it has listed its stream */
    add_with(&silent, &beside, MINUTE(50));
    act_drive(&driver, 1);
    actor_go_to(&driver, "PARK_A");
    actor_go_to(&adder, "FULL");
    actor_go_to(&driver, "PARK_B");
    if (_i / 2)
        actor_go_to(&driver, "PARK_C");
    actor_go_to(&adder, compacting[_i % 2]);
    actor_end(&driver);
    ck_assert(timer->worker.unsure);
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

int main(void)
{
    Suite *suite = suite_create("schedules: park");
    TCase *looks = stage_case(suite, "looks", stage_open, stage_close);
    tcase_add_loop_test(looks, a_cancel_and_an_add_between_two_looks_at_the_next_tick, 0,
                        6 * BETWEEN);
    TCase *missed = stage_case(suite, "missed", stage_open, stage_close);
    tcase_add_loop_test(missed, what_was_missed_and_is_on_no_list_is_read_in_a_tick, 0, 4);
    return run_suite(suite);
}
