/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The queues: salvage against the splice, a push that stands in its gap; and the lanes of threads
 * that end while others begin. */

#include "stage.h"

/* ---- order ---- */

enum { NOTED_MAX = 8 };

static uintptr_t noted[NOTED_MAX];
static size_t noted_n;

static void note(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    must(noted_n < NOTED_MAX);
    noted[noted_n++] = (uintptr_t)arg;
}

static const hwt_task noting = { note, NULL };

static hwt_timeout add_noted(uintptr_t number, uint64_t deadline)
{
    return add_with(&noting, (void *)number, deadline);
}

/* When it ran, from 1; 0: it did not. */
static size_t place_of(uintptr_t number)
{
    for (size_t i = 0; i < noted_n; i++) {
        if (noted[i] == number)
            return i + 1;
    }
    return 0;
}

static void expect_noted(size_t n)
{
    ck_assert_uint_eq(noted_n, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(noted[i], i + 1);
}

/* With entries at hand: who has none salvages first. */
static void open_lane(void)
{
    stage_open();
    for (int i = 0; i < 2; i++)
        hwt_pool_give(room_take(&room));
}

/* ---- two consumers ---- */

/* From the lane of the test's own thread, as an adder on another does who finds nothing else. */
static void salvage(struct actor *salvager)
{
    static struct hwt_entry *batch[HWT_READY_MAX];
    salvager->answer = (int64_t)hwt_lane_salvage(room.lane, batch, HWT_READY_MAX, HWT_READY_MAX);
    for (int64_t i = 0; i < salvager->answer; i++)
        hwt_pool_give(batch[i]);
}

/*
 *     salvager                        driver
 *     has popped the first, which
 *     lives: SALVAGE_JUDGE
 *                                     leaves the lane for the next pass, and
 *                                     is to come back in a tick
 *     passes it over
 *                                     files both, in order
 */
START_TEST(a_lane_that_is_salvaged_is_left_for_the_next_pass)
{
    struct actor salvager;
    add_noted(1, AT(10));
    add_noted(2, AT(10));
    actor_begin(&salvager, salvage);
    for (int i = 0; i < _i; i++)
        actor_go_to(&salvager, "SALVAGE_JUDGE");
    drive(0);
    ck_assert(timer->worker.unfiled);
    ck_assert_uint_le(told_in(), TICK);
    ck_assert_int_eq(actor_end(&salvager), 0);
    ck_assert_uint_eq(drive(11), 2);
    expect_noted(2);
}
END_TEST

/*
 *     salvager                        canceller                   driver
 *     has popped it, SALVAGE_JUDGE
 *                                     QUEUED -> CANCELLED
 *                                                                 never sees it
 *     takes it
 */
START_TEST(what_is_cancelled_in_the_hand_of_who_salvages_is_salvaged)
{
    struct actor salvager;
    hwt_timeout timeout = add_noted(1, AT(10));
    actor_begin(&salvager, salvage);
    actor_go_to(&salvager, "SALVAGE_JUDGE");
    ck_assert(hwt_timeout_cancel(timeout));
    drive(0);
    ck_assert_int_eq(actor_end(&salvager), 1);
    drive(11);
    expect_noted(0);
}
END_TEST

/*
 *     salvager                        canceller                   driver
 *     has judged that it lives, and
 *     passes it over: PUSH
 *                                     QUEUED -> CANCELLED
 *                                                                 does not see it yet
 *     has passed it over
 *                                                                 recycles it
 */
START_TEST(what_is_cancelled_once_it_is_judged_is_recycled)
{
    struct actor salvager;
    hwt_timeout timeout = add_noted(1, AT(10));
    actor_begin(&salvager, salvage);
    actor_go_to(&salvager, "SALVAGE_JUDGE");
    actor_go_to(&salvager, "PUSH");
    ck_assert(hwt_timeout_cancel(timeout));
    drive(0);
    ck_assert_int_eq(actor_end(&salvager), 0);
    drive(1);
    add_until_reused(timeout, AT(5));
    drive(11);
    expect_noted(0);
}
END_TEST

/*
 *     driver                          salvager, adder
 *     SPLICE, or SPLICED
 *                                     do not wait: take what they need elsewhere
 *     files what it has spliced
 */
START_TEST(nobody_waits_for_a_splice)
{
    struct actor driver;
    ck_assert(hwt_timeout_cancel(add_noted(3, AT(10))));
    add_noted(1, AT(10));
    act_drive(&driver, 0);
    actor_go_to(&driver, _i ? "SPLICED" : "SPLICE");
    struct actor salvager;
    actor_begin(&salvager, salvage);
    ck_assert_int_eq(actor_end(&salvager), 0);
    for (size_t i = 0; i < 2 * HWT_READY_MAX; i++)
        add_with(&silent, &beside, AT(5));
    add_noted(2, AT(10));
    actor_end(&driver);
    drive(11);
    expect_noted(2);
}
END_TEST

static void add_second(hwt_timeout timeout, void *arg)
{
    note(timeout, arg);
    if (noted_n > 1)
        return;
    add_noted(2, AT(30));
    must(hwt_timeout_reschedule_at(timeout, AT(30)));
}

static void salvage_from_driver(struct actor *salvager)
{
    struct hwt_entry *batch[1];
    salvager->answer = (int64_t)hwt_lane_salvage(&timer->lanes[1], batch, 1, 1);
}

/*
 *     driver                          salvager
 *     its task adds the second for
 *     tick 30, re-arms the first for
 *     that too: RAN
 *                                     has popped the second from the driver's
 *                                     lane: SALVAGE_JUDGE
 *     must not take that lane for
 *     empty, and file the first; nor
 *                                     when it was passed over
 */
START_TEST(what_is_added_before_a_rearm_is_before_it_though_it_was_salvaged)
{
    static const hwt_task adding = { add_second, NULL };
    struct actor driver, salvager;
    add_with(&adding, (void *)1, AT(10));
    drive(0);
    act_drive(&driver, 11);
    actor_go_to(&driver, "RAN");
    actor_begin(&salvager, salvage_from_driver);
    actor_go_to(&salvager, "SALVAGE_JUDGE");
    if (_i)
        actor_end(&salvager);
    actor_end(&driver);
    if (!_i)
        actor_end(&salvager);
    ck_assert_int_eq(salvager.answer, 0);
    drive(12);
    ck_assert_uint_eq(drive(31), 2);
    ck_assert_uint_eq(noted_n, 3);
    ck_assert_uint_eq(noted[1], 2);
    ck_assert_uint_eq(noted[2], 1);
}
END_TEST

/* ---- a push that stands in its gap: it has the tail, and is not linked ---- */

#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)

static void add_noted_shared(struct actor *adder)
{
    share_lane(0);
    add_noted((uintptr_t)adder->arg, adder->instant);
}

static void act_add_shared(struct actor *adder, uintptr_t number, uint64_t deadline)
{
    adder->arg = (void *)number;
    adder->instant = deadline;
    actor_begin(adder, add_noted_shared);
}

/*
 *     adder                       another on its lane         driver
 *     LINK
 *                                 pushes behind it
 *                                                             runs the other lanes, at each
 *                                                             tick; comes back in a tick
 *     links
 *                                                             runs all, in order
 */
START_TEST(who_stands_in_the_gap_of_a_push_holds_up_its_lane_alone)
{
    struct actor before, in_gap, behind;
    add_noted(1, AT(10));
    add_noted(2, AT(11));
    act_add_shared(&before, 3, AT(10));
    actor_end(&before);
    act_add_shared(&in_gap, 4, AT(10));
    actor_go_to(&in_gap, "LINK"); /* of the one before, which it passes over */
    actor_go_to(&in_gap, "LINK");
    act_add_shared(&behind, 5, AT(10));
    actor_end(&behind);
    for (uint64_t tick = 11; tick < 13; tick++) {
        drive(tick);
        ck_assert_uint_ne(place_of(tick - 10), 0);
        ck_assert_uint_eq(place_of(4) + place_of(5), 0);
        ck_assert(timer->worker.unfiled);
        ck_assert_uint_le(told_in(), TICK);
    }
    actor_end(&in_gap);
    drive(13);
    ck_assert_uint_eq(noted_n, 5);
    ck_assert(place_of(3) < place_of(4) && place_of(4) < place_of(5));
}
END_TEST

/*
 *     canceller                       driver
 *     ARMED -> CANCELLED, LINK
 *                                     takes it when its tick comes: transit;
 *                                     finds the queue stalled, goes on
 *     links
 *                                     discards it
 */
START_TEST(who_stands_in_the_gap_of_a_cancel_holds_up_nothing_else)
{
    struct actor canceller;
    hwt_timeout timeout = add_armed(AT(10));
    add_noted(1, AT(10));
    act_cancel(&canceller, timeout);
    actor_go_to(&canceller, "LINK");
    drive(11);
    expect_noted(1);
    ck_assert_uint_eq(timer->worker.transit, 1);
    ck_assert(timer->worker.unfiled);
    ck_assert(actor_end(&canceller));
    drive(12);
    expect_fate(0, 1);
}
END_TEST

#endif

/* ---- threads that end while others begin ---- */

/* Adds, leaves entries ready for the next owner, and stays. */
static void own_lane(struct actor *actor)
{
    for (int i = 0; i < 3; i++)
        must(hwt_timer_new_timeout_at(timer, &silent, &beside, AT(10), NULL) == 0);
    actor->answer = hwt_thread_number;
    meet_here("STAYS");
}

static void act_own(struct actor *actor, const char *point)
{
    actor_begin(actor, own_lane);
    actor_go_to(actor, point);
}

/*
 *     first                           second
 *     has seen number 2 free,
 *     NUMBER_TAKE
 *                                     takes it
 *     its exchange fails: takes 3
 */
START_TEST(of_two_that_see_a_number_free_one_gets_it)
{
    struct actor first, second;
    act_own(&first, "NUMBER_TAKE");
    act_own(&second, "STAYS");
    actor_go_to(&first, "STAYS");
    ck_assert_int_eq(actor_end(&first), 3);
    ck_assert_int_eq(actor_end(&second), 2);
}
END_TEST

/*
 *     first                           second                      third
 *     ends: NUMBER_GIVE
 *                                     does not get its number
 *     NUMBER_GIVEN
 *                                                                 gets it, and all that
 *                                                                 is the lane's
 */
START_TEST(a_lane_has_its_next_owner_once_the_last_has_given_it_back)
{
    struct actor first, second, third;
    act_own(&first, "STAYS");
    actor_begin(&third, own_lane);
    actor_go_to(&first, "NUMBER_GIVE");
    act_own(&second, "STAYS");
    actor_go_to(&first, "NUMBER_GIVEN");
    actor_go_to(&third, "STAYS");
    ck_assert_int_eq(actor_end(&first), 2);
    ck_assert_int_eq(actor_end(&second), 3);
    ck_assert_int_eq(actor_end(&third), 2);
}
END_TEST

static pthread_key_t key; /* later than the library's: its destructor is called after that */

static void add_when_leaving(void *data)
{
    struct actor *actor = data;
    must(hwt_timer_new_timeout_at(timer, &silent, &beside, AT(10), NULL) == 0);
    actor->instant = (uint64_t)(hwt_lane_own(timer) - timer->lanes);
}

static void own_and_add_when_leaving(struct actor *actor)
{
    own_lane(actor);
    must(pthread_setspecific(key, actor) == 0);
}

/*
 *     first                           second
 *     ends: NUMBER_GIVEN
 *                                     gets its number, and stays
 *     a destructor of its own adds:
 *     by another lane
 */
START_TEST(who_has_given_its_number_back_does_not_use_that_lane_any_more)
{
    struct actor first, second;
    ck_assert_int_eq(pthread_key_create(&key, add_when_leaving), 0);
    actor_begin(&first, own_and_add_when_leaving);
    actor_go_to(&first, "NUMBER_GIVEN");
    act_own(&second, "STAYS");
    ck_assert_int_eq(actor_end(&first), 2);
    ck_assert_uint_ne(first.instant, 1);
    ck_assert_int_eq(actor_end(&second), 2); /* lane 1 */
    ck_assert_int_eq(pthread_key_delete(key), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: lane");
    TCase *consumers = room_case(suite, "consumers", open_lane, stage_close);
    tcase_add_loop_test(consumers, a_lane_that_is_salvaged_is_left_for_the_next_pass, 1, 3);
    tcase_add_test(consumers, what_is_cancelled_in_the_hand_of_who_salvages_is_salvaged);
    tcase_add_test(consumers, what_is_cancelled_once_it_is_judged_is_recycled);
    tcase_add_loop_test(consumers, nobody_waits_for_a_splice, 0, 2);
    tcase_add_loop_test(consumers, what_is_added_before_a_rearm_is_before_it_though_it_was_salvaged,
                        0, 2);
#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)
    TCase *gap = room_case(suite, "gap", open_lane, stage_close);
    tcase_add_test(gap, who_stands_in_the_gap_of_a_push_holds_up_its_lane_alone);
    tcase_add_test(gap, who_stands_in_the_gap_of_a_cancel_holds_up_nothing_else);
#endif
    TCase *threads = room_case(suite, "threads", stage_open, stage_close);
    tcase_add_test(threads, of_two_that_see_a_number_free_one_gets_it);
    tcase_add_test(threads, a_lane_has_its_next_owner_once_the_last_has_given_it_back);
    tcase_add_test(threads, who_has_given_its_number_back_does_not_use_that_lane_any_more);
    return run_suite(suite);
}
