/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What this timer got wrong once. The clock is set, but where a thread must sleep. Each test is
 * named by what must hold, and tells where it did not.
 */

#include "api_fixture.h"

#include <poll.h>

#define TICK HWT_MS(10)

static manual m;

static void do_nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task idle = { do_nothing, NULL };

/* Whether the descriptor is readable within that time. */
static bool readable(int fd, int milliseconds)
{
    struct pollfd p = { fd, POLLIN, 0 };
    return poll(&p, 1, milliseconds) == 1;
}

/* True once *count has reached `wanted`; false after ten seconds without it. */
static bool await_briefly(shared_count *count, uint64_t wanted)
{
    uint64_t limit = monotonic() + HWT_SEC(10);
    while (atomic_load(count) < wanted) {
        if (monotonic() > limit)
            return false;
        sched_yield();
    }
    return true;
}

/*
 * ---- 1. Pushed back far, then less far, while its old tick is the next ----
 *
 * The gate was closed for the old tick, and the sleep was to the new one: what came between was
 * neither run nor told.
 */

enum { FAR_OFF_MINUTES = 10, PATIENCE_MS = 10000 };

typedef struct twice_moved {
    ends ends;
    hwt_timeout other;
    uint64_t base;
    uint64_t moves;
} twice_moved;

static void move_other_twice(hwt_timeout timeout, void *arg)
{
    twice_moved *t = arg;
    (void)timeout;
    t->moves += hwt_timeout_reschedule_at(t->other, t->base + HWT_MIN(2 * FAR_OFF_MINUTES));
    t->moves += hwt_timeout_reschedule_at(t->other, t->base + HWT_MIN(FAR_OFF_MINUTES));
    t->ends.runs++;
}

static const hwt_task moving = { move_other_twice, NULL };

/* One that moves the other at `mover`, while the other's old deadline is `old`. */
static void arm_mover(hwt_timer *timer, twice_moved *t, uint64_t mover, uint64_t old)
{
    must(hwt_timer_new_timeout_at(timer, &idle, NULL, t->base + old, &t->other) == 0);
    must(hwt_timer_new_timeout_at(timer, &moving, t, t->base + mover, NULL) == 0);
}

/* The old ticks: the one right after the mover's, for which the gate is closed to any, and a
 * later one, for which it is closed to what is due after it. */
static const uint64_t old_deadlines[] = { HWT_MS(65), HWT_MS(300) };

START_TEST(a_loop_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice)
{
    bool cancels = _i / 2;
    twice_moved t = { .base = HWT_SEC(1) };
    ends e = { 0 };
    manual_open(&m, t.base, TICK, 512);
    int fd = hwt_timer_fd(m.timer);
    /* The first cancel of a thread always tells. */
    must(hwt_timeout_cancel(arm(m.timer, &idle, NULL, HWT_MIN(20))));
    hwt_timeout far_off = arm(m.timer, &counting, &e, HWT_MIN(20));
    arm_mover(m.timer, &t, HWT_MS(55), old_deadlines[_i % 2]);
    manual_go(&m, TICK);
    manual_go(&m, HWT_MS(60));
    ck_assert_uint_eq(t.moves, 2);

    if (cancels)
        must(hwt_timeout_cancel(far_off));
    else
        arm(m.timer, &counting, &e, HWT_SEC(1));
    ck_assert(readable(fd, PATIENCE_MS));
    manual_go(&m, HWT_MS(1070));
    ck_assert_uint_eq(e.cancelled, cancels);
    ck_assert_uint_eq(e.runs, !cancels);
    manual_close(&m);
}
END_TEST

START_TEST(a_worker_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice)
{
    bool cancels = _i / 2;
    twice_moved t = { 0 };
    ends first = { 0 }, e = { 0 };
    hwt_timer *timer = create_ticking(TICK);
    must(hwt_timeout_cancel(arm(timer, &counting, &first, HWT_MIN(20))));
    hwt_timeout far_off = arm(timer, &counting, &e, HWT_MIN(20));
    ck_assert(await_count(&first.cancelled, 1));
    t.base = hwt_timer_now(timer);
    arm_mover(timer, &t, HWT_MS(55), old_deadlines[_i % 2]);
    ck_assert(await_count(&t.ends.runs, 1));
    give_others_a_chance();

    if (cancels)
        must(hwt_timeout_cancel(far_off));
    else
        arm(timer, &counting, &e, HWT_MS(400));
    ck_assert(await_briefly(cancels ? &e.cancelled : &e.runs, 1));
    hwt_timer_destroy(timer);
}
END_TEST

/*
 * ---- 2. Moved earlier and cancelled while it is in the batch that runs ----
 *
 * An adder took its memory out of the queue, though the worker still held it, and stop waited
 * for ever for what was to come out of there.
 */

enum { SIBLINGS = 40, NEWCOMERS = 5000 };

typedef struct batch {
    ends ends;
    hwt_timeout siblings[SIBLINGS];
    ends of_siblings[SIBLINGS];
    ends of_newcomers[NEWCOMERS];
    uint64_t cancels;
    int newcomers;
} batch;

static const hwt_task only_runs = { count_run, NULL };

static bool is_of_sibling(const batch *b, hwt_timeout timeout)
{
    for (int i = 0; i < SIBLINGS; i++) {
        if (b->siblings[i].entry == timeout.entry)
            return true;
    }
    return false;
}

/* Half of the siblings; then so many newcomers that no free entry is left, but no more once one
 * of them has got a sibling's. */
static void disturb_siblings(hwt_timeout timeout, void *arg)
{
    batch *b = arg;
    hwt_timeout newcomer = { NULL, 0 };
    for (int i = 0; i < SIBLINGS; i += 2) {
        (void)hwt_timeout_reschedule_at(b->siblings[i], m.start + 1);
        b->cancels += hwt_timeout_cancel(b->siblings[i]);
    }
    while (b->newcomers < NEWCOMERS && !is_of_sibling(b, newcomer))
        newcomer = arm(m.timer, &only_runs, &b->of_newcomers[b->newcomers++], HWT_MIN(1));
    count_run(timeout, &b->ends);
}

static const hwt_task disturbing = { disturb_siblings, NULL };

START_TEST(stop_returns_after_siblings_in_a_batch_were_moved_and_cancelled)
{
    static batch b;
    manual_open(&m, HWT_SEC(1), TICK, 512);
    arm(m.timer, &disturbing, &b, HWT_MS(105));
    for (int i = 0; i < SIBLINGS; i++)
        b.siblings[i] = arm(m.timer, &only_runs, &b.of_siblings[i], HWT_MS(105));
    ck_assert_uint_eq(manual_go(&m, HWT_MS(110)), 1 + SIBLINGS / 2);
    manual_go(&m, HWT_MS(120));
    ck_assert_uint_eq(b.cancels, SIBLINGS / 2);
    ck_assert_int_eq(hwt_timer_stop(m.timer, count_visit, NULL), b.newcomers);
    for (int i = 0; i < SIBLINGS; i++)
        ck_assert_uint_eq(ends_sum(&b.of_siblings[i]), i % 2 != 0);
    for (int i = 0; i < b.newcomers; i++)
        must(b.of_newcomers[i].visited == 1 && b.of_newcomers[i].runs == 0);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    manual_close(&m);
}
END_TEST

/* ---- 3. The descriptor after stop ---- */

START_TEST(the_descriptor_is_not_readable_after_stop)
{
    manual_open(&m, HWT_SEC(1), TICK, 512);
    int fd = hwt_timer_fd(m.timer);
    arm(m.timer, &idle, NULL, HWT_SEC(100));
    manual_go(&m, TICK);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 1);
    ck_assert(!readable(fd, 20));
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 0);
    ck_assert(!readable(fd, 0));
    manual_close(&m);
}
END_TEST

/* ---- 4. Stop from inside the executor callback ---- */

typedef struct stopper {
    hwt_timer *timer;
    shared_count calls;
    shared_count refusals;
} stopper;

static int stop_then_run(void *executor_data, void (*work)(void *), void *work_arg)
{
    stopper *s = executor_data;
    s->refusals += hwt_timer_stop(s->timer, NULL, NULL) == -EDEADLK;
    hwt_timer_destroy(s->timer); /* does nothing there */
    s->calls++;
    work(work_arg);
    return 0;
}

START_TEST(an_executor_called_by_a_loop_cannot_stop_its_timer)
{
    stopper s = { 0 };
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.executor = stop_then_run;
    options.executor_data = &s;
    manual_open_with(&m, HWT_SEC(1), options);
    s.timer = m.timer;
    arm(m.timer, &counting, &e, 0);
    ck_assert_uint_eq(manual_go(&m, HWT_MS(100)), 1);
    ck_assert_uint_eq(s.calls, 1);
    ck_assert_uint_eq(s.refusals, 1);
    ck_assert_uint_eq(e.runs, 1);
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 0);
    manual_close(&m);
}
END_TEST

START_TEST(an_executor_called_by_a_worker_cannot_stop_its_timer)
{
    stopper s = { 0 };
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.executor = stop_then_run;
    options.executor_data = &s;
    s.timer = create(&options);
    arm(s.timer, &counting, &e, 0);
    ck_assert(await_briefly(&e.runs, 1));
    ck_assert_uint_eq(s.refusals, 1);
    ck_assert_int_eq(hwt_timer_stop(s.timer, NULL, NULL), 0);
    hwt_timer_destroy(s.timer);
}
END_TEST

/* ---- 5. A task that is freed with its arg after cancel_sync ---- */

typedef struct connection {
    hwt_task task;
    hwt_timeout timeout;
} connection;

static ends of_freed;

static void count_freed(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    of_freed.cancelled++;
}

static connection *connection_open(void)
{
    connection *c = calloc(1, sizeof(*c));
    must(c);
    c->task.run = do_nothing;
    c->timeout = arm(m.timer, &c->task, c, HWT_SEC(50));
    return c;
}

/* What it leaves in the memory would be called, if that were read. */
static void connection_close(connection *c)
{
    must(hwt_timeout_cancel_sync(c->timeout));
    c->task.cancelled = count_freed;
    free(c);
}

static connection *connections[3];

static void close_filed_connection(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    connection_close(arg);
}

static const hwt_task closing = { close_filed_connection, NULL };

START_TEST(a_task_without_cancelled_may_be_freed_after_cancel_sync)
{
    manual_open(&m, HWT_SEC(1), TICK, 512);
    for (int i = 0; i < 3; i++)
        connections[i] = connection_open();
    manual_go(&m, TICK);
    connection_close(connections[0]);    /* was filed */
    connection_close(connection_open()); /* is in the queue */
    arm(m.timer, &closing, connections[1], 0);
    manual_go(&m, 3 * TICK);
    manual_go(&m, 4 * TICK);
    connection_close(connections[2]);
    connection_close(connection_open());
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 0);
    ck_assert_uint_eq(of_freed.cancelled, 0);
    manual_close(&m);
}
END_TEST

/* One that counts where it is freed: memory that is kept, and written to. */
START_TEST(what_a_task_says_after_cancel_sync_is_not_heard)
{
    connection filed = { { do_nothing, NULL }, { NULL, 0 } };
    connection queued = filed;
    for (int stop = 0; stop < 2; stop++) {
        manual_open(&m, HWT_SEC(1), TICK, 512);
        filed.task.cancelled = queued.task.cancelled = NULL;
        filed.timeout = arm(m.timer, &filed.task, NULL, HWT_SEC(50));
        manual_go(&m, TICK);
        queued.timeout = arm(m.timer, &queued.task, NULL, HWT_SEC(50));
        must(hwt_timeout_cancel_sync(filed.timeout) && hwt_timeout_cancel_sync(queued.timeout));
        filed.task.cancelled = queued.task.cancelled = count_freed;
        if (!stop)
            manual_go(&m, 3 * TICK);
        manual_close(&m);
        ck_assert_uint_eq(of_freed.cancelled, 0);
    }
}
END_TEST

/* ---- 6. Deadlines at instant 0 ---- */

START_TEST(what_is_due_at_instant_0_waits_for_the_tick_as_all_that_is_due)
{
    manual_open(&m, HWT_SEC(1), HWT_SEC(100), 512);
    int fd = hwt_timer_fd(m.timer);
    arm(m.timer, &idle, NULL, 0);
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 0);
    ck_assert(!readable(fd, 0));
    ck_assert_int_eq(hwt_timer_new_timeout_at(m.timer, &idle, NULL, 0, NULL), 0);
    ck_assert(!readable(fd, 20));
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(100)), 2);
    manual_close(&m);
}
END_TEST

START_TEST(adds_at_instant_0_do_not_wake_a_worker_that_sleeps_to_the_next_tick)
{
    enum { ADDS = 500 };
    hwt_timer *timer = create_ticking(HWT_SEC(100));
    arm(timer, &idle, NULL, 0);
    give_others_a_chance();
    uint64_t before = stats_of(timer).wakeups;
    for (int i = 0; i < ADDS; i++) {
        must(hwt_timer_new_timeout_at(timer, &idle, NULL, 0, NULL) == 0);
        uint64_t limit = monotonic() + HWT_US(100);
        while (monotonic() < limit)
            sched_yield();
    }
    ck_assert_uint_le(stats_of(timer).wakeups - before, ADDS / 20);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), ADDS + 1);
    hwt_timer_destroy(timer);
}
END_TEST

/*
 * ---- 7. Holes that are half of all rounds old ----
 *
 * They came round again as the least round, and hid what was due.
 */

static const uint64_t half = UINT64_C(1)
                             << 31; /* ticks of a microsecond; the wheel has one bucket */

static void arm_ticks(int n, ends *e, uint64_t tick)
{
    for (int i = 0; i < n; i++)
        must(hwt_timer_new_timeout_at(m.timer, &counting, e, m.start + HWT_US(tick), NULL) == 0);
}

START_TEST(a_hole_of_long_ago_does_not_hide_what_is_due)
{
    ends old = { 0 }, kept = { 0 }, last = { 0 };
    manual_open(&m, 0, HWT_US(1), 1);
    arm_ticks(10, &old, half - 2);
    hwt_timeout hole;
    must(hwt_timer_new_timeout_at(m.timer, &counting, &old, HWT_US(half - 2), &hole) == 0);
    manual_go(&m, 0);
    ck_assert(hwt_timeout_cancel(hole));
    manual_go(&m, 0);
    manual_go(&m, HWT_US(half - 1000));
    arm_ticks(100, &kept, 2 * half - 1500); /* these keep it from being closed */
    manual_go(&m, HWT_US(half - 1000));
    ck_assert_uint_eq(manual_go(&m, HWT_US(half)), 10);
    manual_go(&m, HWT_US(2 * half - 2000));
    arm_ticks(500, &last, 2 * half + 500);
    manual_go(&m, HWT_US(2 * half - 2000));
    ck_assert_uint_eq(manual_go(&m, HWT_US(2 * half - 1200)), 100);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_US(2 * half + 501));
    ck_assert_uint_eq(manual_go(&m, HWT_US(2 * half + 501)), 500);
    ck_assert_uint_eq(ends_sum(&old), 11);
    ck_assert_uint_eq(ends_sum(&kept), 100);
    ck_assert_uint_eq(ends_sum(&last), 500);
    manual_close(&m);
}
END_TEST

/* In one bucket of very many rounds; each but the last that is left is the next once. */
START_TEST(when_the_next_ones_are_cancelled_one_by_one_those_after_them_are_found)
{
    enum { SPREAD = 2000 };
    static hwt_timeout spread[SPREAD];
    manual_open(&m, 0, HWT_MS(1), 1);
    for (uint64_t i = 0; i < SPREAD; i++)
        spread[i] = arm(m.timer, &idle, NULL, HWT_SEC(1000 + i));
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_SEC(1000) + HWT_MS(1));
    ck_assert(hwt_timeout_cancel(spread[SPREAD - 1]));
    for (uint64_t i = 0; i < SPREAD - 2; i++) {
        must(hwt_timeout_cancel(spread[i]));
        must(hwt_timer_next_tick(m.timer) == HWT_SEC(1001 + i) + HWT_MS(1));
    }
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    manual_close(&m);
}
END_TEST

/*
 * ---- 8. A period of one tick ----
 *
 * It was run at every second tick.
 */

static void repeat_each_tick(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    must(hwt_timeout_repeat(timeout, TICK));
}

static const hwt_task each_tick = { repeat_each_tick, NULL };

START_TEST(a_period_of_one_tick_runs_at_every_tick)
{
    /* At the beginning, the middle and the end of a tick. */
    static const uint64_t firsts[] = { HWT_MS(10), HWT_MS(13), HWT_MS(20) - 1 };
    ends e = { 0 };
    manual_open(&m, HWT_SEC(1), TICK, 512);
    must(hwt_timer_new_timeout_at(m.timer, &each_tick, &e, m.start + firsts[_i], NULL) == 0);
    for (uint64_t ms = 1; ms <= 200; ms++) {
        manual_go(&m, HWT_MS(ms));
        must(e.runs == (ms < 10 ? 0 : ms / 10 - 1));
    }
    manual_close(&m);
}
END_TEST

START_TEST(after_a_leap_a_period_of_one_tick_runs_once_and_then_at_every_tick)
{
    ends e = { 0 };
    manual_open(&m, HWT_SEC(1), TICK, 512);
    arm(m.timer, &each_tick, &e, TICK);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(100)), 1);
    ck_assert_uint_eq(manual_go(&m, HWT_SEC(100)), 0);
    manual_go(&m, HWT_SEC(100) + 2 * TICK);
    uint64_t runs = e.runs;
    ck_assert_uint_ge(runs, 2);
    ck_assert_uint_le(runs, 3);
    for (uint64_t tick = 3; tick <= 50; tick++)
        ck_assert_uint_eq(manual_go(&m, HWT_SEC(100) + tick * TICK), 1);
    manual_close(&m);
}
END_TEST

/*
 * ---- 9. What is cancelled beside many tasks of one pass ----
 *
 * Its memory came back at the end of the pass only.
 */

enum { DUE = 3000, PAIRS = 200 };

typedef struct churn {
    ends ends;
    ends of_pairs;
    uint64_t memory_max;
} churn;

static void add_and_cancel(hwt_timeout timeout, void *arg)
{
    churn *c = arg;
    hwt_stats stats = HWT_STATS_INIT;
    hwt_timeout pair;
    for (int i = 0; i < PAIRS; i++) {
        must(hwt_timer_new_timeout(m.timer, &counting, &c->of_pairs, HWT_SEC(30), &pair) == 0);
        must(hwt_timeout_cancel(pair));
    }
    must(hwt_timer_stats(m.timer, &stats) == 0);
    if (stats.memory > c->memory_max)
        c->memory_max = stats.memory;
    count_run(timeout, &c->ends);
}

static const hwt_task churning = { add_and_cancel, NULL };

START_TEST(what_tasks_of_one_pass_add_and_cancel_does_not_heap_up)
{
    churn c = { 0 };
    manual_open(&m, HWT_SEC(1), TICK, 512);
    for (int i = 0; i < DUE; i++)
        arm(m.timer, &churning, &c, TICK);
    manual_go(&m, TICK);
    uint64_t before = stats_of(m.timer).memory;
    ck_assert_uint_eq(manual_go(&m, 2 * TICK), DUE);
    manual_go(&m, 3 * TICK);
    ck_assert_uint_eq(c.of_pairs.cancelled, DUE * PAIRS);
    ck_assert_uint_le(c.memory_max - before, UINT64_C(8) << 20); /* all would take 28 MB */
    manual_close(&m);
}
END_TEST

/* ---- */

/* What hangs is to be told before the program's own time is up. */
static TCase *add_brief_case(Suite *suite, const char *name)
{
    TCase *tcase = add_case(suite, name);
    tcase_set_timeout(tcase, 20);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("regressions");
    TCase *sleeps = add_brief_case(suite, "sleeps");
    tcase_add_loop_test(
        sleeps, a_loop_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice, 0, 4);
    tcase_add_loop_test(
        sleeps, a_worker_is_told_of_an_add_and_of_a_cancel_after_one_was_pushed_back_twice, 0, 4);
    tcase_add_test(sleeps, what_is_due_at_instant_0_waits_for_the_tick_as_all_that_is_due);
    tcase_add_test(sleeps, adds_at_instant_0_do_not_wake_a_worker_that_sleeps_to_the_next_tick);
    TCase *stop = add_brief_case(suite, "stop");
    tcase_add_test(stop, stop_returns_after_siblings_in_a_batch_were_moved_and_cancelled);
    tcase_add_test(stop, the_descriptor_is_not_readable_after_stop);
    tcase_add_test(stop, an_executor_called_by_a_loop_cannot_stop_its_timer);
    tcase_add_test(stop, an_executor_called_by_a_worker_cannot_stop_its_timer);
    TCase *memory = add_brief_case(suite, "memory");
    tcase_add_test(memory, a_task_without_cancelled_may_be_freed_after_cancel_sync);
    tcase_add_test(memory, what_a_task_says_after_cancel_sync_is_not_heard);
    tcase_add_test(memory, what_tasks_of_one_pass_add_and_cancel_does_not_heap_up);
    TCase *rounds = add_brief_case(suite, "rounds");
    tcase_add_test(rounds, a_hole_of_long_ago_does_not_hide_what_is_due);
    tcase_add_test(rounds, when_the_next_ones_are_cancelled_one_by_one_those_after_them_are_found);
    tcase_add_loop_test(rounds, a_period_of_one_tick_runs_at_every_tick, 0, 3);
    tcase_add_test(rounds, after_a_leap_a_period_of_one_tick_runs_once_and_then_at_every_tick);
    return run_suite(suite);
}
