/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The streams: a producer that compacts against the worker that reads, a stream that leaves the
 * list while it is appended to, a push that stands in its gap; the lanes of threads that end
 * while others begin, and the one that threads without a number share. */

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

static void expect_noted(size_t n)
{
    ck_assert_uint_eq(noted_n, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(noted[i], i + 1);
}

static void add_noted_by(struct actor *adder)
{
    adder->timeout = add_noted((uintptr_t)adder->arg, adder->instant);
}

static void act_add_noted(struct actor *adder, uintptr_t number, uint64_t deadline)
{
    adder->arg = (void *)number;
    adder->instant = deadline;
    actor_begin(adder, add_noted_by);
}

/* ---- compaction ---- */

enum { FILL = 2 * HWT_CHUNK_RECORDS };

static hwt_timeout filled[FILL];

/* Its chunks are full: the next one looks through them, and finds that every third is out of
 * date. */
static void fill_and_add(struct actor *adder)
{
    for (uint64_t i = 0; i < FILL; i++)
        filled[i] = add_with(&silent, &beside, AT(10 + i % 3));
    for (uint64_t i = 0; i < FILL; i += 3)
        must(hwt_timeout_cancel(filled[i]));
    meet_here("FULL");
    adder->timeout = add_noted(1, AT(10));
    meet_here("ADDED");
    for (uint64_t i = 0; i < FILL; i += 3)
        filled[i] = add_with(&silent, &beside, AT(10));
}

static void act_compact_to(struct actor *adder, const char *point)
{
    actor_begin(adder, fill_and_add);
    actor_go_to(adder, "FULL");
    actor_go_to(adder, point);
}

static void expect_all_run(void)
{
    drive(10);
    ck_assert_uint_eq(beside.runs + noted_n, 0);
    drive(13);
    ck_assert_uint_eq(beside.runs, FILL);
    expect_noted(1);
}

/*
 *     adder                           driver
 *     looks through its stream:
 *     COMPACT, CUT, SPARE
 *                                     does not read it, and does not wait; comes
 *                                     back in a tick
 *     goes on
 *                                     reads what is left
 */
START_TEST(a_stream_that_is_compacted_is_read_in_the_next_pass)
{
    static const char *const points[] = { "COMPACT", "CUT", "RELEASE" };
    struct actor adder;
    act_compact_to(&adder, points[_i]);
    drive(1);
    ck_assert_uint_gt(timer->worker.unclaimed, 0);
    ck_assert_uint_le(told_in(), TICK);
    drive(2);
    actor_end(&adder);
    expect_all_run();
}
END_TEST

/*
 *     driver                          adder
 *     reads the stream: FILE
 *                                     does not compact, does not wait: begins a
 *                                     chunk
 *     reads on
 */
START_TEST(a_stream_that_is_read_is_not_compacted)
{
    struct actor adder, driver;
    actor_begin(&adder, fill_and_add);
    actor_go_to(&adder, "FULL");
    act_drive(&driver, 1);
    for (int i = 0; i < 40; i++)
        actor_go_to(&driver, "FILE");
    if (_i)
        actor_go_to(&adder, "CHUNK");
    else
        actor_end(&adder);
    actor_end(&driver);
    if (_i)
        actor_end(&adder);
    expect_all_run();
}
END_TEST

/* A claim that is tried while another has it. */
START_TEST(who_finds_a_stream_claimed_leaves_it_so)
{
    struct actor adder, driver;
    act_compact_to(&adder, "COMPACT");
    act_drive(&driver, 1);
    actor_end(&driver);
    for (int i = 0; i < 5; i++) {
        actor_go_to(&adder, "COMPACT");
        drive(1);
        ck_assert_uint_gt(timer->worker.unclaimed, 0);
    }
    actor_end(&adder);
    expect_all_run();
}
END_TEST

/*
 *     adder                           canceller
 *     has seen that it stays: COMPACT
 *     of the next one
 *                                     it is cancelled
 *     keeps it: the driver files
 *     nothing
 */
START_TEST(what_changes_while_it_is_looked_through_does_no_harm)
{
    struct actor adder;
    act_compact_to(&adder, "COMPACT");
    for (int i = 0; i < _i * 10; i++)
        actor_go_to(&adder, "COMPACT");
    for (uint64_t i = 1; i < FILL; i += 3)
        must(hwt_timeout_cancel(filled[i]));
    for (uint64_t i = 2; i < FILL; i += 3)
        must(hwt_timeout_reschedule_at(filled[i], AT(5)));
    drive(1);
    actor_end(&adder);
    drive(6);
    ck_assert_uint_eq(beside.runs, FILL / 3);
    drive(13);
    ck_assert_uint_eq(beside.runs, FILL / 3 + (FILL + 2) / 3);
    expect_noted(1);
}
END_TEST

static void cancel_all_but_one(struct actor *canceller)
{
    for (uint64_t i = 1; i < FILL; i++)
        must(hwt_timeout_cancel(filled[i]));
    canceller->answer = 0;
}

/*
 *     canceller                       driver
 *     looks through what it has said:
 *     COMPACT
 *                                     reads it later
 *     goes on
 *                                     tells each once
 */
START_TEST(cancels_that_are_compacted_are_told_once)
{
    struct actor canceller;
    for (uint64_t i = 0; i < FILL; i++)
        filled[i] = add_unread(AT(10));
    hwt_timeout last = add_unread(AT(10));
    actor_begin(&canceller, cancel_all_but_one);
    actor_end(&canceller);
    struct actor one;
    act_cancel(&one, filled[0]);
    actor_end(&one);
    act_cancel(&one, last); /* on the same lane, whose chunks are full */
    actor_go_to(&one, "COMPACT");
    drive(1);
    ck_assert_uint_gt(timer->worker.unclaimed, 0);
    expect_fate(0, 0);
    actor_end(&one);
    drive(2);
    expect_fate(0, FILL + 1);
}
END_TEST

/*
 *     driver                          adder
 *     has read a chunk, gives it
 *     back: STACK_PUSH
 *                                     begins a chunk: another one
 *     it is free
 */
START_TEST(a_chunk_that_comes_back_is_used_by_one)
{
    struct actor driver;
    enum { LONG = 10 * HWT_CHUNK_RECORDS };
    for (int i = 0; i < LONG; i++)
        add_with(&silent, &beside, AT(10));
    act_drive(&driver, 1);
    for (int i = 0; i < 5; i++) {
        actor_go_to(&driver, "STACK_PUSH");
        for (int k = 0; k < HWT_CHUNK_RECORDS; k++)
            add_with(&silent, &beside, AT(10));
    }
    actor_end(&driver);
    drive(10);
    ck_assert_uint_eq(beside.runs, 0);
    drive(11);
    ck_assert_uint_eq(beside.runs, LONG + 5 * HWT_CHUNK_RECORDS);
}
END_TEST

/* ---- the list ---- */

/*
 *     adder                           driver
 *     has appended: APPENDED; or has
 *     not: APPEND
 *                                     takes its stream off the list: DISMISS,
 *                                     PARK_C; sleeps, or not yet
 *     sees that it is not listed:
 *     pushes it
 *                                     reads it
 */
START_TEST(what_is_appended_while_the_stream_leaves_the_list_is_read)
{
    static const char *const adding[] = { "APPEND", "APPENDED", "LIST", "PUSH", "PUSHED" };
    static const char *const parking[] = { "PARK_A", "DISMISS", "PARK_C", "PARK_CHECK" };
    struct actor adder, driver;
    const char *at = adding[_i / 16], *parks = parking[_i / 4 % 4];
    bool is_listed = _i / 16 < 2, driver_first = _i % 2, adder_ends_first = _i / 2 % 2;
    add_noted(1, HWT_MIN(10));
    act_add_noted(&adder, is_listed ? 3 : 2, HWT_MIN(is_listed ? 12 : 11));
    if (is_listed)
        actor_end(&adder); /* its lane is made, and listed */
    act_drive(&driver, 1);
    if (driver_first)
        actor_go_to(&driver, parks);
    if (is_listed)
        act_add_noted(&adder, 2, HWT_MIN(11));
    actor_go_to(&adder, at);
    if (!driver_first)
        actor_go_to(&driver, parks);
    actor_end(adder_ends_first ? &adder : &driver);
    actor_end(adder_ends_first ? &driver : &adder);
    ck_assert_uint_le(told_in(), HWT_MIN(10) + TICK);
    drive(HWT_MIN(10) / TICK + 1);
    expect_noted(1);
    ck_assert_uint_le(told_in(), HWT_MIN(1) + TICK);
    drive(HWT_MIN(11) / TICK + 1);
    expect_noted(2);
    drive(HWT_MIN(12) / TICK + 1);
    expect_noted(is_listed ? 3 : 2);
}
END_TEST

#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)

/*
 *     first adder                 second adder                driver
 *     pushes its stream: LINK
 *                                 pushes its own behind it
 *                                                             looks at all lanes, and sleeps
 *                                                             until the first is due
 *     links
 */
START_TEST(who_stands_in_the_gap_of_a_push_holds_up_nobody)
{
    struct actor in_gap, behind;
    act_add_noted(&in_gap, 1, AT(10));
    actor_go_to(&in_gap, "LINK");
    act_add_noted(&behind, 2, AT(11));
    actor_end(&behind);
    drive(1);
    ck_assert_uint_le(told_in(), 10 * TICK);
    ck_assert_uint_gt(told_in(), 9 * TICK);
    if (_i == 0)
        actor_end(&in_gap);
    drive(11);
    expect_noted(1);
    drive(12);
    expect_noted(2);
    if (_i)
        actor_end(&in_gap);
    drive(13);
}
END_TEST

#endif

/* ---- order of what comes from several lanes ---- */

/*
 *     mover                       adder                       driver
 *     earlier: MOVE_PUBLISH
 *                                 what is in the same tick
 *                                                             files that
 *     says so
 *                                                             runs both in the tick
 */
START_TEST(what_one_thread_added_runs_in_its_order_whatever_others_append)
{
    struct actor mover;
    hwt_timeout timeout = add_unread(AT(20));
    drive(0);
    act_move(&mover, timeout, AT(10));
    actor_go_to(&mover, "APPEND");
    add_noted(1, AT(10));
    add_noted(2, AT(10));
    if (_i)
        drive(1);
    actor_end(&mover);
    add_noted(3, AT(10));
    drive(11);
    expect_noted(3);
    expect_fate(1, 0);
}
END_TEST

/* ---- threads that end while others begin ---- */

/* Adds, leaves entries in its cache for the next owner, and stays. */
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

static void open_threads(void)
{
    stage_open();
    drive(0);
    add_with(&silent, &beside, AT(10)); /* the test's own thread has number 1 */
    ck_assert_uint_eq(hwt_thread_number, 1);
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
 *     has ended
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
    ck_assert_int_eq(actor_end(&first), 2);
    actor_go_to(&third, "STAYS");
    ck_assert_int_eq(actor_end(&second), 3);
    ck_assert_int_eq(actor_end(&third), 2);
}
END_TEST

static pthread_key_t key; /* later than the library's: its destructor is called after that */
static struct actor next_owner;

static void add_when_leaving(void *data)
{
    struct actor *actor = data;
    if (hwt_thread_number != HWT_THREAD_NONE) { /* in the next round of destructors */
        must(pthread_setspecific(key, data) == 0);
        return;
    }
    act_own(&next_owner, "STAYS");
    must(hwt_timer_new_timeout_at(timer, &silent, &beside, AT(10), NULL) == 0);
    actor->instant = hwt_thread_number;
}

static void own_and_add_when_leaving(struct actor *actor)
{
    own_lane(actor);
    must(pthread_setspecific(key, actor) == 0);
}

/*
 *     first                           second
 *     ends, gives its number back
 *                                     gets that, and stays
 *     a destructor of its own adds:
 *     by the lane that all share
 */
START_TEST(who_has_given_its_number_back_does_not_use_that_lane_any_more)
{
    struct actor first;
    ck_assert_int_eq(pthread_key_create(&key, add_when_leaving), 0);
    actor_begin(&first, own_and_add_when_leaving);
    ck_assert_int_eq(actor_end(&first), 2);
    ck_assert_uint_eq(first.instant, HWT_THREAD_NONE);
    ck_assert_int_eq(actor_end(&next_owner), 2);
    ck_assert_int_eq(pthread_key_delete(key), 0);
}
END_TEST

/* ---- threads without a number ---- */

static void add_nameless(struct actor *actor)
{
    uint32_t before = hwt_thread_number;
    hwt_thread_number = HWT_THREAD_NONE;
    actor->answer = hwt_timer_new_timeout_at(timer, &silent, &beside, AT(10), &actor->timeout);
    hwt_thread_number = before;
}

/*
 *     first                       second                      driver, others
 *     has the lane that all share:
 *     APPEND
 *                                 waits for it
 *                                                             do not wait
 *     goes on
 *                                 goes on
 */
START_TEST(who_has_the_shared_lane_holds_up_only_its_like)
{
    struct actor first, second;
    actor_begin(&first, add_nameless);
    actor_go_to(&first, _i ? "APPENDED" : "APPEND");
    actor_begin(&second, add_nameless);
    actor_let_go(&second);
    give_others_a_chance();
    ck_assert_uint_eq(stats_of(timer).added, 1);
    hwt_timeout timeout = add_unread(AT(10));
    drive(1);
    ck_assert(hwt_timeout_cancel(timeout));
    drive(2);
    expect_fate(0, 1);
    ck_assert_int_eq(actor_end(&first), 0);
    ck_assert_int_eq(actor_end(&second), 0);
    drive(10);
    ck_assert_uint_eq(beside.runs, 0);
    drive(11);
    ck_assert_uint_eq(beside.runs, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: lane");
    TCase *compact = stage_case(suite, "compact", stage_open, stage_close);
    tcase_add_loop_test(compact, a_stream_that_is_compacted_is_read_in_the_next_pass, 0, 3);
    tcase_add_loop_test(compact, a_stream_that_is_read_is_not_compacted, 0, 2);
    tcase_add_test(compact, who_finds_a_stream_claimed_leaves_it_so);
    tcase_add_loop_test(compact, what_changes_while_it_is_looked_through_does_no_harm, 0, 8);
    tcase_add_test(compact, cancels_that_are_compacted_are_told_once);
    tcase_add_test(compact, a_chunk_that_comes_back_is_used_by_one);
    TCase *list = stage_case(suite, "list", stage_open, stage_close);
    tcase_add_loop_test(list, what_is_appended_while_the_stream_leaves_the_list_is_read, 0, 80);
#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)
    tcase_add_loop_test(list, who_stands_in_the_gap_of_a_push_holds_up_nobody, 0, 2);
#endif
    tcase_add_loop_test(list, what_one_thread_added_runs_in_its_order_whatever_others_append, 0, 2);
    TCase *threads = stage_case(suite, "threads", open_threads, stage_close);
    tcase_add_test(threads, of_two_that_see_a_number_free_one_gets_it);
    tcase_add_test(threads, a_lane_has_its_next_owner_once_the_last_has_given_it_back);
    tcase_add_test(threads, who_has_given_its_number_back_does_not_use_that_lane_any_more);
    TCase *nameless = stage_case(suite, "nameless", stage_open, stage_close);
    tcase_add_loop_test(nameless, who_has_the_shared_lane_holds_up_only_its_like, 0, 2);
    return run_suite(suite);
}
