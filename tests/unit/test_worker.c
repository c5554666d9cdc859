/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The worker's passes, one at a time and by a clock that is set. */

#include "bucket_malloc.h"
#include "room_fixture.h"

#define TICK HWT_MS(1)

enum { MANY = 250000, CAP = 100000, WHEEL = 64 };

static struct room room;
static hwt_timer *timer;
static struct hwt_worker *worker;

/* What happened, in order: the arg of each, and how it ended. */
static struct {
    uintptr_t arg;
    bool ran;
} seen[MANY + 100];
static size_t seen_n;

static void open_room(void)
{
    room_open(&room, 0, TICK, WHEEL);
    timer = room.timer;
    worker = &timer->worker;
    seen_n = 0;
    refuse = false;
}

static void close_room(void)
{
    refuse = false;
    ck_assert_uint_eq(worker->transit, 0);
    room_close(&room);
}

static void note(void *arg, bool ran)
{
    must(seen_n < MANY + 100);
    seen[seen_n].arg = (uintptr_t)arg;
    seen[seen_n].ran = ran;
    seen_n++;
}

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    note(arg, true);
}

static void cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    note(arg, false);
}

static const hwt_task noting = { run, cancelled };

static hwt_timeout add(uintptr_t arg, uint64_t deadline)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(timer, &noting, (void *)arg, deadline, &timeout) == 0);
    return timeout;
}

static uint64_t pass(uint64_t now)
{
    atomic_store(&room.now, now);
    uint64_t n = hwt_worker_pass(timer, now);
    must(hwt_wheel_check(&worker->wheel));
    return n;
}

static void expect_seen(size_t n, uintptr_t arg, bool ran)
{
    ck_assert_uint_gt(seen_n, n);
    ck_assert_uint_eq(seen[n].arg, arg);
    ck_assert(seen[n].ran == ran);
}

/* ---- a pass ---- */

START_TEST(a_tick_is_handled_when_it_is_over)
{
    add(1, 0);
    add(2, TICK - 1);
    add(3, TICK);
    ck_assert_uint_eq(pass(TICK - 1), 0);
    ck_assert_uint_eq(worker->limit, 0);
    ck_assert_uint_eq(pass(TICK), 2);
    ck_assert_uint_eq(worker->limit, 1);
    ck_assert_uint_eq(pass(2 * TICK - 1), 0);
    ck_assert_uint_eq(pass(2 * TICK), 1);
    for (size_t i = 0; i < 3; i++)
        expect_seen(i, i + 1, true);
}
END_TEST

START_TEST(time_does_not_go_back)
{
    add(1, 5 * TICK);
    ck_assert_uint_eq(pass(6 * TICK), 1);
    add(2, 5 * TICK); /* in the past: goes into the tick that is not over */
    ck_assert_uint_eq(pass(3 * TICK), 0);
    ck_assert_uint_eq(worker->now, 6 * TICK);
    ck_assert_uint_eq(hwt_worker_now(timer), 6 * TICK);
    ck_assert_uint_eq(pass(7 * TICK), 1);
    atomic_store(&room.now, 9 * TICK);
    ck_assert_uint_eq(hwt_worker_now(timer), 9 * TICK);
}
END_TEST

START_TEST(ticks_run_in_order_and_a_tick_in_the_order_of_adding)
{
    for (uintptr_t i = 0; i < 3000; i++)
        add(i, (2999 - i) / 10 * TICK);
    ck_assert_uint_eq(pass(HWT_SEC(1)), 3000);
    for (uintptr_t i = 0; i < 3000; i++)
        must(seen[i].arg == 2990 - i / 10 * 10 + i % 10);
}
END_TEST

/* Those to be cancelled, first, are in a bucket; the rest is drained at one go. */
START_TEST(the_cancelled_are_looked_at_after_each_100000_that_were_drained)
{
    hwt_timeout armed = add(1, HWT_SEC(1));
    pass(0);
    for (uintptr_t i = 0; i < MANY; i++) {
        hwt_timeout timeout = add(1000 + i, 2 * TICK);
        if (i == CAP - 1 || i == CAP || i == 2 * CAP)
            must(hwt_timeout_cancel(timeout));
    }
    must(hwt_timeout_cancel(armed));
    ck_assert_uint_eq(pass(TICK), 0);
    ck_assert_uint_eq(seen_n, 4);
    expect_seen(0, 1000 + CAP - 1, false); /* the last of the first hundred thousand */
    expect_seen(1, 1, false);
    expect_seen(2, 1000 + CAP, false);
    expect_seen(3, 1000 + 2 * CAP, false);
    ck_assert_uint_eq(hwt_timer_pending(timer), MANY - 3);
}
END_TEST

START_TEST(a_backlog_is_drained_in_one_pass_and_runs_in_order)
{
    for (uintptr_t i = 0; i < MANY; i++)
        add(i, (i % 2 ? 1 : 0) * TICK);
    ck_assert_uint_eq(pass(2 * TICK), MANY);
    for (uintptr_t i = 0; i < MANY; i++)
        must(seen[i].arg == (i < MANY / 2 ? 2 * i : 2 * (i - MANY / 2) + 1));
    ck_assert_uint_eq(hwt_worker_next_tick(timer), HWT_NEVER);
}
END_TEST

static void add_another(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    note(arg, true);
    add((uintptr_t)arg + 1, 0);
}

START_TEST(what_a_task_adds_is_for_the_next_pass)
{
    static const hwt_task adding = { add_another, NULL };
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &adding, (void *)1, 0, NULL), 0);
    ck_assert_uint_eq(pass(TICK), 1);
    ck_assert_uint_eq(pass(TICK), 0);
    ck_assert_uint_eq(pass(2 * TICK), 1);
    expect_seen(1, 2, true);
}
END_TEST

static size_t told;

static void run_not(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static void add_another_dead(hwt_timeout timeout, void *arg);

static const hwt_task succeeding = { run_not, add_another_dead };

static void add_dead(void)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(timer, &succeeding, NULL, HWT_NEVER, &timeout) == 0);
    must(hwt_timeout_cancel(timeout));
}

static void add_another_dead(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    if (++told < 1000)
        add_dead();
}

/* Adders that salvage must not keep a pass busy: what they pass over was added since it began. */
START_TEST(a_pass_ends_with_its_snapshot_though_others_go_on_adding)
{
    uint32_t before = hwt_thread_number;
    if (_i)
        share_lane(1);
    told = 0;
    for (int i = 0; i < 10; i++)
        add_dead();
    pass(0);
    ck_assert_uint_eq(told, 10);
    pass(0);
    ck_assert_uint_eq(told, 20);
    told = 1000; /* the rest are told by stop, and add none */
    hwt_thread_number = before;
}
END_TEST

static void begin_stop(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    atomic_store(&timer->stopping, true); /* as stop does on another thread */
}

static void visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)remaining;
    (void)data;
    note(arg, false);
}

START_TEST(once_it_stops_nothing_begins_and_the_rest_is_left_over)
{
    static const hwt_task stopping_task = { begin_stop, NULL };
    add(1, 0);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &stopping_task, NULL, 0, NULL), 0);
    for (uintptr_t i = 2; i < 1000; i++)
        add(i, i % 3 * TICK);
    ck_assert_uint_eq(pass(2 * TICK), 2);
    ck_assert_int_eq(hwt_timer_stop(timer, visit, NULL), 998);
    ck_assert_uint_eq(seen_n, 999);
    for (size_t i = 1; i < seen_n; i++)
        must(!seen[i].ran);
}
END_TEST

/* ---- a producer stopped half-way ---- */

/* As an adder of that lane makes it, before the push. */
static struct hwt_entry *make_queued(struct hwt_lane *lane)
{
    struct hwt_entry *entry = room_take(&room);
    hwt_entry_set_task(entry, &noting);
    entry->arg = (void *)99;
    entry->deadline = 0;
    entry->state = UINT64_C(1) << HWT_GENERATION_SHIFT | HWT_PHASE_QUEUED;
    hwt_count(&lane->added, 1, lane->shared);
    return entry;
}

START_TEST(a_stalled_lane_holds_up_neither_the_others_nor_the_tick)
{
    struct hwt_lane *other = room_lane(&room, 1);
    struct hwt_entry *entry = make_queued(other);
    if (_i == 1) /* the half push is the second of the queue */
        hwt_lane_push_pending(other, make_queued(other));
    hwt_mpsc_node *before = half_push(&other->pending_tail, entry);
    for (uint64_t i = 0; i < 10; i++) {
        add(i, i * TICK);
        ck_assert_uint_eq(pass((i + 1) * TICK), 1);
        expect_seen(i, i, true);
        ck_assert(worker->unfiled);
        /* It is looked at again in a tick, no later and no sooner. */
        ck_assert_uint_eq(hwt_worker_next_tick(timer), (i + 2) * TICK);
    }
    finish_push(before, entry);
    ck_assert_uint_eq(pass(10 * TICK), 0);
    ck_assert(!worker->unfiled);
    ck_assert_uint_eq(pass(11 * TICK), 1 + (uint64_t)_i);
    for (size_t i = 0; i <= (size_t)_i; i++)
        expect_seen(10 + i, 99, true);
}
END_TEST

START_TEST(a_stalled_queue_of_cancelled_ones_holds_up_nothing)
{
    struct hwt_lane *other = room_lane(&room, 1);
    hwt_timeout timeout = add(1, 0);
    add(2, 0);
    pass(0);
    struct hwt_entry *entry = timeout.entry;
    entry->state = hwt_with_phase(entry->state, HWT_PHASE_CANCELLED);
    hwt_count(&other->cancelled, 1, other->shared);
    hwt_mpsc_node *before = half_push(&other->cancelled_tail, entry);
    /* Its tick comes before its push does: it is taken from the bucket, and waited for. */
    ck_assert_uint_eq(pass(TICK), 1);
    expect_seen(0, 2, true);
    ck_assert(worker->unfiled);
    ck_assert_uint_eq(worker->transit, 1);
    finish_push(before, entry);
    ck_assert_uint_eq(pass(TICK), 0);
    expect_seen(1, 1, false);
}
END_TEST

START_TEST(a_lane_that_is_salvaged_holds_up_neither_the_others_nor_the_tick)
{
    struct hwt_lane *other = room_lane(&room, 1);
    hwt_lane_push_pending(other, make_queued(other));
    other->consuming = true; /* an adder that was stopped meanwhile */
    add(1, 0);
    ck_assert_uint_eq(pass(TICK), 1);
    expect_seen(0, 1, true);
    ck_assert(worker->unfiled);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), 2 * TICK);
    other->consuming = false;
    ck_assert_uint_eq(pass(2 * TICK), 1);
    ck_assert(!worker->unfiled);
    expect_seen(1, 99, true);
}
END_TEST

/* ---- want of memory ---- */

START_TEST(what_cannot_be_filed_stays_queued_until_there_is_memory)
{
    hwt_timeout timeout = add(1, 5 * TICK);
    refuse = true;
    ck_assert_uint_eq(pass(TICK), 0);
    ck_assert(worker->unfiled);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), 2 * TICK);
    refuse = false;
    ck_assert_uint_eq(pass(2 * TICK), 0);
    ck_assert(!worker->unfiled);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), 6 * TICK);
    ck_assert_uint_eq(pass(6 * TICK), 1);
}
END_TEST

START_TEST(what_cannot_be_filed_runs_when_it_is_due_all_the_same)
{
    hwt_timeout others[3];
    refuse = true;
    add(1, 2 * TICK);
    for (uintptr_t i = 0; i < 3; i++)
        others[i] = add(10 + i, 9 * TICK);
    ck_assert_uint_eq(pass(2 * TICK), 0);
    ck_assert(hwt_timeout_cancel(others[0]));
    ck_assert(hwt_timeout_reschedule_at(others[1], 3 * TICK));
    ck_assert_uint_eq(pass(3 * TICK), 1);
    ck_assert_uint_eq(pass(4 * TICK), 1);
    ck_assert_uint_eq(pass(10 * TICK), 1);
    ck_assert_uint_eq(seen_n, 4);
    expect_seen(0, 1, true);
    expect_seen(1, 10, false);
    expect_seen(2, 11, true);
    expect_seen(3, 12, true);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
}
END_TEST

START_TEST(what_was_pushed_back_and_cannot_be_filed_again_is_not_lost)
{
    hwt_timeout timeout = add(1, TICK);
    pass(0);
    ck_assert(hwt_timeout_reschedule_at(timeout, 7 * TICK));
    refuse = true;
    for (uint64_t tick = 1; tick < 8; tick++)
        ck_assert_uint_eq(pass(tick * TICK), 0);
    ck_assert(worker->unfiled);
    ck_assert_uint_eq(hwt_timer_pending(timer), 1);
    ck_assert_uint_eq(pass(8 * TICK), 1);
    expect_seen(0, 1, true);
}
END_TEST

START_TEST(stop_finds_what_could_not_be_filed)
{
    refuse = true;
    add(1, HWT_NEVER);
    add(2, 5 * TICK);
    pass(TICK);
    ck_assert_int_eq(hwt_timer_stop(timer, visit, NULL), 2);
    ck_assert_uint_eq(seen_n, 2);
}
END_TEST

/* ---- between passes: more of it is in test_clock.c ---- */

START_TEST(it_files_what_came_before_it_parks)
{
    ck_assert_int_eq(hwt_gate_open_fd(timer), 0);
    ck_assert(hwt_worker_park(timer));
    hwt_gate_awake(timer);
    add(1, 3 * TICK); /* after the pass, before the gate closes */
    ck_assert(hwt_worker_park(timer));
    ck_assert_uint_eq(hwt_wheel_next(&worker->wheel), 3);
    ck_assert_uint_eq(pass(4 * TICK), 1);
}
END_TEST

START_TEST(it_does_not_park_once_it_is_to_stop)
{
    ck_assert_int_eq(hwt_gate_open_fd(timer), 0);
    atomic_store(&timer->stopping, true);
    ck_assert(!hwt_worker_park(timer));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker");
    TCase *passes = room_case(suite, "pass", open_room, close_room);
    tcase_add_test(passes, a_tick_is_handled_when_it_is_over);
    tcase_add_test(passes, time_does_not_go_back);
    tcase_add_test(passes, ticks_run_in_order_and_a_tick_in_the_order_of_adding);
    tcase_add_test(passes, the_cancelled_are_looked_at_after_each_100000_that_were_drained);
    tcase_add_test(passes, a_backlog_is_drained_in_one_pass_and_runs_in_order);
    tcase_add_test(passes, what_a_task_adds_is_for_the_next_pass);
    tcase_add_loop_test(passes, a_pass_ends_with_its_snapshot_though_others_go_on_adding, 0, 2);
    tcase_add_test(passes, once_it_stops_nothing_begins_and_the_rest_is_left_over);
    TCase *stall = room_case(suite, "stall", open_room, close_room);
    tcase_add_loop_test(stall, a_stalled_lane_holds_up_neither_the_others_nor_the_tick, 0, 2);
    tcase_add_test(stall, a_stalled_queue_of_cancelled_ones_holds_up_nothing);
    tcase_add_test(stall, a_lane_that_is_salvaged_holds_up_neither_the_others_nor_the_tick);
    TCase *memory = room_case(suite, "memory", open_room, close_room);
    tcase_add_test(memory, what_cannot_be_filed_stays_queued_until_there_is_memory);
    tcase_add_test(memory, what_cannot_be_filed_runs_when_it_is_due_all_the_same);
    tcase_add_test(memory, what_was_pushed_back_and_cannot_be_filed_again_is_not_lost);
    tcase_add_test(memory, stop_finds_what_could_not_be_filed);
    TCase *park = room_case(suite, "park", open_room, close_room);
    tcase_add_test(park, it_files_what_came_before_it_parks);
    tcase_add_test(park, it_does_not_park_once_it_is_to_stop);
    return run_suite(suite);
}
