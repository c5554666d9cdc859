/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Hints for which there was no memory: the worker looks at all entries instead, against what is
 * cancelled, moved, handed over and run meanwhile. */

#include "stage.h"

#include "faults.h"

static void no_memory(void)
{
    faults_begin((struct faults_plan){ FAULTS_MEMORY, FAULTS_FROM_THERE_ON, 1, 0 });
}

static bool is_rescan_needed(void)
{
    return atomic_load(&timer->shared.rescan_needed);
}

/* What the test's own thread says next needs a chunk. */
static void fill_chunk(bool cancelled)
{
    struct hwt_lane *lane = hwt_lane_enter(&timer->shared.lanes);
    struct hwt_stream *stream = cancelled ? &lane->cancelled : &lane->pending;
    const hwt_task *task = cancelled ? &counting : &silent; /* it is told through that stream */
    do {
        hwt_timeout timeout = add_with(task, &beside, HWT_NEVER);
        must(hwt_timeout_cancel(timeout));
        drive(atomic_load(&now_is) / TICK);
    } while (!hwt_stream_is_full(stream));
    hwt_stream_free_spare(&lane->pending);
    hwt_stream_free_spare(&lane->cancelled);
}

/* ---- what was added ---- */

/* Its record is missing. */
static hwt_timeout add_overlooked(uint64_t deadline)
{
    fill_chunk(false);
    no_memory();
    hwt_timeout timeout = add_unread(deadline);
    ck_assert_uint_gt(faults_end(), 0);
    ck_assert(is_rescan_needed());
    return timeout;
}

START_TEST(what_is_added_without_a_record_runs_in_its_tick)
{
    add_overlooked(AT(10));
    if (_i)
        drive(0);
    expect_run_in(10);
}
END_TEST

/* The one who sleeps is told of it. */
START_TEST(what_is_added_without_a_record_ends_a_sleep)
{
    static const char *const parking[] = { "PARK_A", "PARK_B", "PARK_C", "PARK_CHECK", "LEAVE" };
    struct actor driver;
    add_with(&silent, &beside, AT(1000));
    fill_chunk(false);
    drive(1);
    act_drive(&driver, 1);
    actor_go_to(&driver, parking[_i]);
    no_memory();
    add_unread(AT(10));
    ck_assert_uint_gt(faults_end(), 0);
    actor_end(&driver);
    ck_assert_uint_le(told_in(), 10 * TICK);
    drive(2);
    ck_assert_uint_le(told_in(), 9 * TICK);
    expect_run_in(10);
}
END_TEST

/*
 *     driver                          canceller, mover
 *     looks at all, has seen PENDING:
 *     RESCAN
 *                                     cancels it; or moves it
 *     files it
 */
START_TEST(what_changes_while_all_are_looked_at_is_seen)
{
    struct actor driver;
    hwt_timeout timeout = add_overlooked(AT(10));
    act_drive(&driver, 1);
    do
        actor_go_to(&driver, "RESCAN");
    while (hwt_pool_entry(&timer->shared.pool, hwt_entry_id(timeout.entry)) != timeout.entry);
    if (_i == 0)
        ck_assert(hwt_timeout_cancel(timeout));
    else
        ck_assert(hwt_timeout_reschedule_at(timeout, AT(_i == 1 ? 5 : 20)));
    actor_end(&driver);
    if (_i > 0) {
        expect_run_in(_i == 1 ? 5 : 20);
        return;
    }
    drive(2);
    expect_fate(0, 1);
}
END_TEST

/* ---- what was moved, cancelled ---- */

START_TEST(what_is_moved_without_a_record_runs_in_its_tick)
{
    hwt_timeout timeout = add_filed(AT(30));
    fill_chunk(false);
    no_memory();
    must(hwt_timeout_reschedule_at(timeout, AT(10)));
    ck_assert_uint_gt(faults_end(), 0);
    ck_assert_uint_le(told_in(), 11 * TICK);
    expect_run_in(10);
}
END_TEST

START_TEST(what_is_cancelled_without_a_record_is_told_within_a_tick)
{
    hwt_timeout timeout = add_filed(AT(30));
    fill_chunk(true);
    no_memory();
    must(hwt_timeout_cancel(timeout));
    ck_assert_uint_gt(faults_end(), 0);
    ck_assert(is_rescan_needed());
    ck_assert_uint_le(told_in(), TICK);
    drive(1);
    expect_fate(0, 1);
    drive(31);
    expect_fate(0, 1);
}
END_TEST

/*
 *     canceller                       driver
 *     PENDING -> UNTOLD: CANCEL_PUBLISH
 *                                     looks at all: tells it
 *     says so
 *                                     it is told
 */
START_TEST(what_is_told_because_all_were_looked_at_is_told_once)
{
    struct actor canceller;
    act_cancel(&canceller, add_filed(AT(30)));
    actor_go_to(&canceller, "CANCEL_PUBLISH");
    atomic_store(&timer->shared.rescan_needed, true);
    drive(1);
    expect_fate(0, 1);
    ck_assert(actor_end(&canceller));
    drive(2);
    expect_fate(0, 1);
}
END_TEST

/* ---- what cannot be filed ---- */

/* None is filed: their buckets cannot grow. */
static void add_unfiled(int n, uint64_t deadline)
{
    for (int i = 0; i < n; i++)
        add_unread(deadline);
    no_memory();
    drive(1);
    must(is_rescan_needed());
}

START_TEST(no_more_run_than_are_wanted_though_they_could_not_be_filed)
{
    enum { MANY = 200, WANTED = 7 };
    add_unfiled(MANY, AT(10));
    for (unsigned ran = 0; ran + WANTED < MANY; ran += WANTED) {
        atomic_store(&now_is, 11 * TICK);
        must(hwt_timer_advance_some(timer, 11 * TICK, WANTED) == WANTED);
        must(fate.runs == ran + WANTED);
    }
    faults_end();
    drive(12);
    expect_fate(MANY, 0);
}
END_TEST

START_TEST(what_could_not_be_filed_is_cancelled_as_any)
{
    enum { MANY = 200 };
    hwt_timeout timeouts[MANY];
    for (int i = 0; i < MANY; i++)
        timeouts[i] = add_unread(AT(10));
    no_memory();
    drive(1);
    for (int i = 0; i < MANY; i += 2)
        must(hwt_timeout_cancel(timeouts[i]));
    drive(2);
    must(fate.runs == 0 && fate.cancelled == MANY / 2);
    drive(11);
    faults_end();
    expect_fate(MANY / 2, MANY / 2);
}
END_TEST

/* ---- an executor ---- */

static deferred executor;

static void open_executor(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    deferred_open(&executor);
    options.executor = defer;
    options.executor_data = &executor;
    stage_open_with(options);
}

static void close_executor(void)
{
    drive(HWT_MIN(60) / TICK);
    run_deferred(&executor);
    stage_close();
    deferred_close(&executor);
}

START_TEST(what_the_executor_has_is_not_handed_over_again)
{
    hwt_timeout timeout = add_unread(AT(10));
    ck_assert_uint_eq(drive(11), 1);
    for (uint64_t tick = 12; tick < 15; tick++) {
        add_with(&silent, &beside, AT(100 + tick));
        no_memory();
        uint64_t ran = drive(tick);
        faults_end();
        ck_assert_uint_eq(ran, 0);
    }
    ck_assert_uint_eq(executor.accepted, 1);
    if (_i)
        ck_assert(hwt_timeout_cancel(timeout));
    run_deferred(&executor);
    expect_fate(!_i, (uint64_t)_i);
}
END_TEST

static void take_one(struct actor *runner)
{
    work_item item;
    runner->answer = deferred_take(&executor, false, &item);
    if (runner->answer)
        item.work(item.arg);
}

/*
 *     driver                      first runner                second runner
 *     it was HANDED, and is UNTOLD;
 *     looks at all: hands it over
 *                                 has seen UNTOLD: TELL
 *                                                             tells it, frees it
 *                                 its exchange fails
 */
START_TEST(of_two_who_are_handed_what_was_cancelled_one_tells_it)
{
    struct actor first;
    hwt_timeout timeout = add_unread(AT(10));
    ck_assert_uint_eq(drive(11), 1);
    ck_assert(hwt_timeout_cancel(timeout));
    atomic_store(&timer->shared.rescan_needed, true);
    drive(12);
    ck_assert_uint_eq(executor.accepted, 2);
    actor_begin(&first, take_one);
    actor_go_to(&first, "TELL");
    run_deferred(&executor);
    expect_fate(0, 1);
    ck_assert(actor_end(&first));
    expect_fate(0, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: shortage");
    TCase *hints = stage_case(suite, "hints", stage_open, stage_close);
    tcase_add_loop_test(hints, what_is_added_without_a_record_runs_in_its_tick, 0, 2);
    tcase_add_loop_test(hints, what_is_added_without_a_record_ends_a_sleep, 0, 5);
    tcase_add_loop_test(hints, what_changes_while_all_are_looked_at_is_seen, 0, 3);
    tcase_add_test(hints, what_is_moved_without_a_record_runs_in_its_tick);
    tcase_add_test(hints, what_is_cancelled_without_a_record_is_told_within_a_tick);
    tcase_add_test(hints, what_is_told_because_all_were_looked_at_is_told_once);
    TCase *unfiled = stage_case(suite, "unfiled", stage_open, stage_close);
    tcase_add_test(unfiled, no_more_run_than_are_wanted_though_they_could_not_be_filed);
    tcase_add_test(unfiled, what_could_not_be_filed_is_cancelled_as_any);
    TCase *handed = stage_case(suite, "executor", open_executor, close_executor);
    tcase_add_loop_test(handed, what_the_executor_has_is_not_handed_over_again, 0, 2);
    tcase_add_test(handed, of_two_who_are_handed_what_was_cancelled_one_tells_it);
    return run_suite(suite);
}
