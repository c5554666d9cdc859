/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Order within a tick of a thread that adds while it ends: by its own lane, also in a destructor that
 * runs after the library's.
 */

#include "hwt/inbox/stream.h"
#include "schedule.h"

#define TICK HWT_SEC(1)

enum { RUNS_MAX = 8 };

static manual m, other;
static int order[RUNS_MAX];
static shared_count begun;
static pthread_key_t key; /* later than the library's: its destructor is called after that */

static void note_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    order[begun] = *(const int *)arg;
    begun++;
}

static const hwt_task noting = { note_run, NULL };
static const int numbers[RUNS_MAX] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static void add(int number)
{
    must(hwt_timer_new_timeout_at(m.timer, &noting, (void *)(uintptr_t)&numbers[number], TICK,
                                  NULL) == 0);
}

static void add_when_leaving(void *data)
{
    add(*(const int *)data);
}

/* Adds the actor's number, and the next one when it ends. */
static void add_both(struct actor *actor)
{
    must(pthread_setspecific(key, actor->arg) == 0);
    must(hwt_timer_new_timeout(other.timer, &noting, NULL, 0, NULL) == 0);
    meet_here("NUMBERED");
    add(0);
    meet_here("LISTED");
    add((int)actor->instant);
    meet_here("ADDED");
}

static void act_both(struct actor *actor, int first)
{
    actor->instant = (uint64_t)first;
    actor->arg = (void *)(uintptr_t)&numbers[first + 1];
    actor_begin(actor, add_both);
}

static void add_both_now(int first)
{
    struct actor actor;
    act_both(&actor, first);
    (void)actor_end(&actor);
}

static void open_timer(void)
{
    begun = 0;
    must(pthread_key_create(&key, add_when_leaving) == 0);
    manual_open(&other, 0, TICK, 8);
    manual_open(&m, 0, TICK, 8);
    ck_assert_uint_eq(manual_go(&m, 0), 0);
}

static int place_of(int number)
{
    for (int i = 0; i < (int)begun; i++) {
        if (order[i] == number)
            return i;
    }
    return RUNS_MAX;
}

/* Of two threads that have added three each. */
static void expect_order(void)
{
    while (manual_go(&m, 2 * TICK) > 0)
        ;
    ck_assert_uint_eq(begun, 6);
    ck_assert_int_lt(place_of(1), place_of(2));
    ck_assert_int_lt(place_of(3), place_of(4));
    manual_close(&m);
    manual_close(&other);
    must(pthread_key_delete(key) == 0);
}

/*
 *     one                             another                     driver
 *     has a number
 *                                     adds, also while it ends
 *                                                                 reads
 *     adds, also while it ends
 *                                                                 reads
 */
START_TEST(what_a_thread_adds_while_it_ends_comes_behind_what_it_has_added_before)
{
    struct actor one;
    open_timer();
    act_both(&one, 3);
    actor_go_to(&one, "NUMBERED");
    add_both_now(1);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), 2 * TICK);
    actor_go_to(&one, "ADDED");
    if (_i)
        ck_assert_uint_eq(hwt_timer_next_tick(m.timer), 2 * TICK);
    (void)actor_end(&one);
    expect_order();
}
END_TEST

/* The same on the driver's way into a sleep, when the streams leave the list. */
START_TEST(though_they_leave_the_list_as_it_adds)
{
    static const char *const parking[] = { "PARK_READ", "PARK_A", "DISMISS", "PARK_C" };
    struct actor driver, one;
    open_timer();
    ck_assert_int_ge(hwt_timer_fd(m.timer), 0);
    act_both(&one, 3);
    actor_go_to(&one, "NUMBERED");
    act_advance(&driver, m.timer, 0);
    actor_go_to(&driver, "PARK");
    add_both_now(1);
    actor_go_to(&one, "LISTED");
    actor_go_to(&driver, parking[_i]);
    (void)actor_end(&one);
    (void)actor_end(&driver);
    expect_order();
}
END_TEST

/* ---- the next owner of its number ---- */

enum { FULL = 2 * HWT_CHUNK_RECORDS }; /* the next one compacts */

static void add_full(struct actor *actor)
{
    static ends others;
    for (int i = 0; i <= FULL; i++)
        must(hwt_timer_new_timeout(actor->timer, &counting, &others, HWT_MIN(1), NULL) == 0);
}

/*
 *     driver                          one                         another
 *                                     adds, also while it ends
 *                                                                 has its number, and compacts
 *                                                                 that lane: COMPACT, CUT
 *     cannot read it: comes in a
 *     tick
 *                                                                 is done
 *     runs all in their order
 */
START_TEST(though_the_next_owner_of_its_lane_compacts_it)
{
    struct actor one, owner = { .timer = NULL };
    open_timer();
    act_both(&one, 3);
    (void)actor_end(&one);
    owner.timer = m.timer;
    actor_begin(&owner, add_full);
    actor_go_to(&owner, _i % 2 ? "CUT" : "COMPACT");
    if (_i / 2)
        (void)hwt_timer_next_tick(m.timer);
    else
        ck_assert_uint_eq(manual_go(&m, 2 * TICK), 0);
    (void)actor_end(&owner);
    ck_assert_uint_eq(manual_go(&m, 3 * TICK), 3);
    ck_assert_int_eq(place_of(0), 0);
    ck_assert_int_eq(place_of(3), 1);
    ck_assert_int_eq(place_of(4), 2);
    manual_close(&m);
    manual_close(&other);
    must(pthread_key_delete(key) == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: threads that end");
    TCase *tcase = add_case(suite, "order");
    tcase_add_loop_test(
        tcase, what_a_thread_adds_while_it_ends_comes_behind_what_it_has_added_before, 0, 2);
    tcase_add_loop_test(tcase, though_they_leave_the_list_as_it_adds, 0, 4);
    tcase_add_loop_test(tcase, though_the_next_owner_of_its_lane_compacts_it, 0, 4);
    return run_suite(suite);
}
