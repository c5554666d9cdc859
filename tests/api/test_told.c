/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * `cancelled` is called within a tick of the cancel, however many tasks are due, unless a callback
 * keeps the worker longer. Where time is set, each task takes 50 us of it. Where it goes by itself,
 * a task waits for a tick to go by: a slow machine makes that longer, and nothing else different.
 */

#include "api_fixture.h"

#define TICK HWT_MS(1)
#define TASK_TIME HWT_US(50)

enum { TASKS = 20000, VICTIMS = 20, EVERY = TASKS / VICTIMS };

static manual m;
static uint64_t runs;

static struct victim {
    hwt_timeout timeout;
    uint64_t cancelled_at, told_at, told_after; /* so many runs */
} victims[VICTIMS];

static void never_runs(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    abort();
}

static void note_told(hwt_timeout timeout, void *arg)
{
    struct victim *victim = arg;
    must(victim->timeout.generation == timeout.generation && victim->told_at == 0);
    victim->told_at = m.now;
    victim->told_after = runs;
}

static const hwt_task of_victim = { never_runs, note_told };

static void cancel_victim(struct victim *victim)
{
    victim->cancelled_at = m.now;
    must(hwt_timeout_cancel(victim->timeout));
}

static void take_time(void)
{
    if (runs % EVERY == EVERY / 2)
        cancel_victim(&victims[runs / EVERY]);
    runs++;
    m.now += TASK_TIME;
}

static void run_slowly(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    take_time();
}

static const hwt_task slow = { run_slowly, NULL };

static void arm_victims(void)
{
    runs = 0;
    for (int i = 0; i < VICTIMS; i++)
        victims[i] =
            (struct victim){ .timeout = arm(m.timer, &of_victim, &victims[i], HWT_MIN(1)) };
}

static void expect_told_in_time(void)
{
    ck_assert_uint_eq(runs, TASKS);
    for (int i = 0; i < VICTIMS; i++) {
        must(victims[i].told_at > 0);
        ck_assert_uint_le(victims[i].told_at - victims[i].cancelled_at, TICK + TASK_TIME);
    }
}

static const uint32_t flags[] = { 0, HWT_ONE_THREAD };

static void open_driven(uint32_t more_flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.flags = more_flags;
    manual_open_with(&m, HWT_SEC(1), options);
}

/* ---- tests ---- */

/* Each loop: with other flags. */
START_TEST(a_cancel_in_a_task_is_told_within_a_tick_though_20000_tasks_are_due)
{
    open_driven(flags[_i]);
    arm_victims();
    for (int i = 0; i < TASKS; i++)
        (void)arm(m.timer, &slow, NULL, 0);
    ck_assert_uint_eq(manual_go(&m, TICK), TASKS);
    expect_told_in_time();
    manual_close(&m);
}
END_TEST

static int take_time_to_accept(void *data, void (*work)(void *), void *arg)
{
    take_time();
    return defer(data, work, arg);
}

static void run_shortly(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

/* An executor that is slow to accept: the timeouts that are told are among the first work. */
START_TEST(a_cancel_is_handed_to_the_executor_within_a_tick_though_20000_tasks_are_due)
{
    static const hwt_task quick = { run_shortly, NULL };
    deferred works;
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.executor = take_time_to_accept;
    options.executor_data = &works;
    deferred_open(&works);
    manual_open_with(&m, HWT_SEC(1), options);
    arm_victims();
    for (int i = 0; i < TASKS - VICTIMS; i++)
        (void)arm(m.timer, &quick, NULL, 0);
    ck_assert_uint_eq(manual_go(&m, TICK), TASKS - VICTIMS);
    ck_assert_uint_eq(runs, TASKS);
    uint64_t done = 0;
    for (work_item item; deferred_take(&works, false, &item); done++) {
        runs = done;
        item.work(item.arg);
    }
    for (uint64_t i = 0; i < VICTIMS; i++) {
        must(victims[i].told_at > 0);
        ck_assert_uint_le(victims[i].told_after - (i * EVERY + EVERY / 2), TICK / TASK_TIME + 1);
    }
    manual_close(&m);
    deferred_close(&works);
}
END_TEST

/* ---- the worker's own thread ---- */

static struct {
    hwt_timer *timer;
    shared_count wanted, done, told, was_told;
} shared;

static void count_told(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    shared.told++;
}

static const hwt_task told = { never_runs, count_told };

static void *cancel_when_wanted(void *arg)
{
    must(await_count(&shared.wanted, 1) && hwt_timeout_cancel(*(hwt_timeout *)arg));
    shared.done = 1;
    return NULL;
}

static void have_it_cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    shared.wanted = 1;
    if (arg)
        must(hwt_timeout_cancel(*(hwt_timeout *)arg));
    else
        must(await_count(&shared.done, 1));
}

static void wait_for_a_tick(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    for (uint64_t until = hwt_timer_now(shared.timer) + TICK; hwt_timer_now(shared.timer) < until;)
        sched_yield();
}

static void see_whether_told(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    shared.was_told = shared.told + 1;
}

/* Of three tasks of one tick the first has it cancelled, the second waits, and the third looks. Each
 * loop: on the worker, and on another thread. */
START_TEST(the_worker_tells_between_two_tasks)
{
    static const hwt_task first = { have_it_cancelled, NULL }, second = { wait_for_a_tick, NULL },
                          third = { see_whether_told, NULL };
    memset(&shared, 0, sizeof(shared));
    shared.timer = create_ticking(TICK);
    hwt_timeout victim = arm(shared.timer, &told, NULL, HWT_MIN(10));
    uint64_t at = hwt_timer_now(shared.timer) + HWT_MS(20);
    must(hwt_timer_new_timeout_at(shared.timer, &first, _i ? NULL : &victim, at, NULL) == 0);
    must(hwt_timer_new_timeout_at(shared.timer, &second, NULL, at, NULL) == 0);
    must(hwt_timer_new_timeout_at(shared.timer, &third, NULL, at, NULL) == 0);
    if (_i)
        join(spawn(cancel_when_wanted, &victim));
    must(await_count(&shared.was_told, 1));
    ck_assert_uint_eq(shared.was_told - 1, 1);
    hwt_timer_destroy(shared.timer);
}
END_TEST

/* ---- a `cancelled` between two tasks touches the one that is due next ---- */

static hwt_timeout next;
static uint64_t next_runs;
static int deed_for_next;

static void count_next(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    next_runs++;
}

static const hwt_task of_next = { count_next, NULL };

static void do_to_next(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    if (deed_for_next == 0) {
        must(hwt_timeout_reschedule(next, HWT_SEC(1)));
        return;
    }
    must(hwt_timeout_cancel(next));
    if (deed_for_next == 2) /* in the entry that is free now */
        next = arm(m.timer, &of_next, NULL, HWT_SEC(1));
}

static void cancel_for_a_tick(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    must(hwt_timeout_cancel(*(hwt_timeout *)arg));
    m.now += TICK;
}

/* Each loop: with other flags it is moved, cancelled, or its memory serves another timeout. */
START_TEST(the_next_task_is_what_a_cancelled_before_it_has_made_of_it)
{
    static const hwt_task canceller = { cancel_for_a_tick, NULL };
    static const hwt_task toucher = { never_runs, do_to_next };
    open_driven(flags[_i % 2]);
    deed_for_next = _i / 2;
    next_runs = 0;
    hwt_timeout victim = arm(m.timer, &toucher, NULL, HWT_MIN(1));
    (void)arm(m.timer, &canceller, &victim, 0);
    next = arm(m.timer, &of_next, NULL, 0);
    ck_assert_uint_eq(manual_go(&m, TICK), 1);
    ck_assert_uint_eq(next_runs, 0);
    ck_assert_int_eq(hwt_timeout_state(victim), HWT_CANCELLED);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(1)), 0);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(1) + 3 * TICK), deed_for_next == 1 ? 0 : 1);
    ck_assert_uint_eq(next_runs, deed_for_next == 1 ? 0 : 1);
    manual_close(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: told in time");
    TCase *tcase = add_case(suite, "told");
    tcase_add_loop_test(tcase, a_cancel_in_a_task_is_told_within_a_tick_though_20000_tasks_are_due,
                        0, 2);
    tcase_add_test(tcase,
                   a_cancel_is_handed_to_the_executor_within_a_tick_though_20000_tasks_are_due);
    tcase_add_loop_test(tcase, the_worker_tells_between_two_tasks, 0, 2);
    tcase_add_loop_test(tcase, the_next_task_is_what_a_cancelled_before_it_has_made_of_it, 0, 6);
    return run_suite(suite);
}
