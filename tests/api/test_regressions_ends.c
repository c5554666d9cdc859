/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this timer got wrong once: stop, and what a timeout leaves behind when it ends. */

#include "regression_fixture.h"

/*
 * ---- Moved earlier and cancelled while it is in the batch that runs ----
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

/* ---- The descriptor after stop ---- */

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

/* ---- Stop from inside the executor callback ---- */

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

/* ---- A task that is freed with its arg after cancel_sync ---- */

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

/*
 * ---- What is cancelled beside many tasks of one pass ----
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

int main(void)
{
    Suite *suite = suite_create("regressions: ends");
    TCase *stop = add_brief_case(suite, "stop");
    tcase_add_test(stop, stop_returns_after_siblings_in_a_batch_were_moved_and_cancelled);
    tcase_add_test(stop, the_descriptor_is_not_readable_after_stop);
    tcase_add_test(stop, an_executor_called_by_a_loop_cannot_stop_its_timer);
    tcase_add_test(stop, an_executor_called_by_a_worker_cannot_stop_its_timer);
    TCase *memory = add_brief_case(suite, "memory");
    tcase_add_test(memory, a_task_without_cancelled_may_be_freed_after_cancel_sync);
    tcase_add_test(memory, what_a_task_says_after_cancel_sync_is_not_heard);
    tcase_add_test(memory, what_tasks_of_one_pass_add_and_cancel_does_not_heap_up);
    return run_suite(suite);
}
