/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs: a task and its own timeout, frames, and the executor's hand-over. */

#include "timeout_fixture.h"

#include "hwt/task.h"

static struct room room;

/* What the executor was given, until the test runs it. */
static struct {
    void (*work)(void *);
    void *arg;
    int refuse;
} handed;

static int hand_over(void *data, void (*work)(void *), void *arg)
{
    (void)data;
    if (handed.refuse)
        return -EAGAIN;
    must(!handed.work);
    handed.work = work;
    handed.arg = arg;
    return 0;
}

static void execute(void)
{
    void (*work)(void *) = handed.work;
    handed.work = NULL;
    work(handed.arg);
}

static void open_with(hwt_executor executor)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = 1000;
    options.max_pending = 1000;
    options.executor = executor;
    room_open_with(&room, NOW, options);
    handed.refuse = 0;
    runs = cancels = 0;
}

static void open_room(void)
{
    open_with(NULL);
}

static void open_with_executor(void)
{
    open_with(hand_over);
}

static void close_room(void)
{
    ck_assert_uint_eq(room.timer->worker.transit, 0);
    ck_assert_uint_eq(room.timer->submitted, 0);
    ck_assert_uint_eq(room.timer->reserved, hwt_timer_pending(room.timer));
    room_close(&room);
}

static hwt_timeout add(const hwt_task *what, uint64_t deadline)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(room.timer, what, &room, deadline, &timeout) == 0);
    return timeout;
}

static uint64_t go(uint64_t now)
{
    atomic_store(&room.now, now);
    return hwt_timer_dispatch(room.timer);
}

/* ---- handles ---- */

enum { USES = 300 };

/* The use before the n-th of the same entry; n: there was none. */
static size_t use_before(const hwt_timeout *uses, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (uses[i].entry == uses[n].entry)
            return i;
    }
    return n;
}

START_TEST(each_use_of_an_entry_raises_its_generation)
{
    hwt_timeout uses[USES];
    for (size_t n = 0; n < USES; n++) {
        hwt_timeout *timeout = &uses[n];
        must(hwt_timer_new_timeout_at(room.timer, &counted, NULL, DEADLINE, timeout) == 0);
        size_t before = use_before(uses, n);
        must(timeout->generation == (before == n ? 1 : uses[before].generation + 1));
        if (before < n) {
            must(hwt_timeout_state(uses[before]) == HWT_GONE);
            must(!hwt_timeout_cancel(uses[before]));
            must(!hwt_timeout_reschedule_at(uses[before], EARLIER));
        }
        must(timeout->entry->deadline == DEADLINE);
        must(hwt_timeout_cancel(*timeout));
        hwt_timer_advance(room.timer, NOW);
        must(hwt_timeout_state(*timeout) == HWT_CANCELLED); /* until it is used again */
    }
    ck_assert_uint_ge(uses[USES - 1].generation, 3);
}
END_TEST

START_TEST(the_answer_of_state_follows_from_the_word)
{
    static const struct {
        uint64_t word;
        hwt_state state;
    } states[] = {
        { NEW, HWT_GONE },
        { QUEUED, HWT_PENDING },
        { ARMED, HWT_PENDING },
        { ARMED | MOVING, HWT_PENDING },
        { SUBMITTED, HWT_PENDING },
        { RUNNING, HWT_EXPIRED },
        { EXPIRED, HWT_EXPIRED },
        { RUNNING | BARRED, HWT_EXPIRED },
        { CANCELLED, HWT_CANCELLED },
        { RUNNING | REARMED, HWT_PENDING },
        { ABANDONED, HWT_CANCELLED },
        { RUNNING | REARMED | BARRED, HWT_CANCELLED },
    };
    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
        struct hwt_entry *entry = make_entry(&room, states[i].word);
        bool pending = states[i].state == HWT_PENDING;
        hwt_timeout older = { entry, GENERATION - 1 };
        ck_assert_int_eq(hwt_timeout_state(hwt_handle(entry)), states[i].state);
        ck_assert_int_eq(hwt_timeout_state(older), HWT_GONE);
        ck_assert_uint_eq(hwt_timeout_remaining(hwt_handle(entry)), pending ? DEADLINE - NOW : 0);
        ck_assert_uint_eq(hwt_timeout_remaining(older), 0);
    }
}
END_TEST

/* ---- a task and its own timeout ---- */

static void rearm_then_cancel(hwt_timeout timeout, void *arg)
{
    (void)arg;
    must(!hwt_timeout_cancel((hwt_timeout){ timeout.entry, timeout.generation + 1 }));
    must(hwt_timeout_state(timeout) == HWT_EXPIRED);
    must(hwt_timeout_reschedule_at(timeout, LATER));
    must(hwt_timeout_state(timeout) == HWT_PENDING);
    must(hwt_timeout_cancel(timeout));
    must(hwt_timeout_state(timeout) == HWT_CANCELLED);
    must(!hwt_timeout_cancel(timeout));
    must(!hwt_timeout_reschedule_at(timeout, LATER));
    must(!hwt_timeout_repeat(timeout, 1000));
    runs++;
}

START_TEST(what_rearmed_itself_and_was_cancelled_ends_when_its_task_returns)
{
    static const hwt_task task_of = { rearm_then_cancel, cancelled };
    hwt_timeout timeout = add(&task_of, DEADLINE);
    ck_assert_uint_eq(go(LATER), 1);
    ck_assert_int_eq(runs, 1);
    ck_assert_int_eq(cancels, 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_CANCELLED);
    ck_assert_uint_eq(hwt_timer_pending(room.timer), 0);
    ck_assert_uint_eq(go(2 * LATER), 0);
}
END_TEST

static void cancel_then_rearm(hwt_timeout timeout, void *arg)
{
    (void)arg;
    must(!hwt_timeout_cancel(timeout)); /* there is nothing pending, but this is the end */
    must(!hwt_timeout_cancel_sync(timeout));
    must(!hwt_timeout_reschedule_at(timeout, LATER));
    must(!hwt_timeout_repeat(timeout, 1000));
    runs++;
}

START_TEST(what_was_cancelled_in_its_run_cannot_rearm_itself)
{
    static const hwt_task task_of = { cancel_then_rearm, cancelled };
    hwt_timeout timeout = add(&task_of, DEADLINE);
    ck_assert_uint_eq(go(LATER), 1);
    ck_assert_int_eq(cancels, 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    ck_assert_uint_eq(go(2 * LATER), 0);
    ck_assert_int_eq(runs, 1);
}
END_TEST

static void rearm_twice(hwt_timeout timeout, void *arg)
{
    (void)arg;
    if (runs++ > 0)
        return;
    must(hwt_timeout_reschedule_at(timeout, 2 * LATER));
    must(hwt_timeout_reschedule_at(timeout, 4 * LATER));
    must(hwt_timeout_reschedule_at(timeout, 3 * LATER));
}

START_TEST(of_several_rearmings_the_last_holds)
{
    static const hwt_task task_of = { rearm_twice, cancelled };
    hwt_timeout timeout = add(&task_of, DEADLINE);
    ck_assert_uint_eq(go(LATER), 1);
    ck_assert_uint_eq(timeout.entry->deadline, 3 * LATER);
    ck_assert_uint_eq(go(3 * LATER), 0);
    ck_assert_uint_eq(go(3 * LATER + 1000), 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
}
END_TEST

static void repeat(hwt_timeout timeout, void *arg)
{
    (void)arg;
    runs++;
    must(!hwt_timeout_repeat(timeout, 0));
    must(hwt_timeout_repeat(timeout, 10000));
}

START_TEST(a_period_is_counted_from_the_deadline_and_missed_ones_are_skipped)
{
    static const hwt_task task_of = { repeat, NULL };
    hwt_timeout timeout = add(&task_of, DEADLINE);
    ck_assert(!hwt_timeout_repeat(timeout, 10000)); /* not in its task */
    ck_assert_uint_eq(go(DEADLINE + 1000), 1);
    ck_assert_uint_eq(timeout.entry->deadline, DEADLINE + 10000);
    ck_assert_uint_eq(go(DEADLINE + 19999), 1);
    ck_assert_uint_eq(timeout.entry->deadline, DEADLINE + 20000);
    ck_assert_uint_eq(go(DEADLINE + 50001), 1); /* that of 50000 is missed, too */
    ck_assert_uint_eq(timeout.entry->deadline, DEADLINE + 60000);
    ck_assert_uint_eq(go(DEADLINE + 123456), 1);
    ck_assert_uint_eq(timeout.entry->deadline, DEADLINE + 130000);
    ck_assert(hwt_timeout_cancel(timeout));
}
END_TEST

/* ---- frames ---- */

static struct room inner;

static void look_around(hwt_timeout timeout, void *arg)
{
    (void)arg;
    must(hwt_in_callback(inner.timer) && hwt_in_callback(room.timer));
    must(hwt_own_task(timeout)->deadline == DEADLINE);
    must(hwt_own_task(timeout)->outer->timer == room.timer);
    must(!hwt_own_task((hwt_timeout){ timeout.entry, timeout.generation + 1 }));
    must(hwt_timer_advance(room.timer, LATER) == 0); /* one is inside of it */
    must(hwt_timer_stop(room.timer, NULL, NULL) == -EDEADLK);
    hwt_timer_destroy(room.timer);
    runs++;
}

static void drive_inner(hwt_timeout timeout, void *arg)
{
    (void)arg;
    must(hwt_own_task(timeout) && !hwt_in_callback(inner.timer));
    must(hwt_timer_advance(inner.timer, LATER) == 1);
    must(hwt_own_task(timeout) && !hwt_in_callback(inner.timer));
    must(!hwt_own_task((hwt_timeout){ NULL, 0 }));
}

START_TEST(a_task_may_drive_another_timer_and_knows_what_it_is_inside_of)
{
    static const hwt_task outer_task = { drive_inner, NULL }, inner_task = { look_around, NULL };
    room_open(&inner, NOW, 1000, 8);
    must(hwt_timer_new_timeout_at(inner.timer, &inner_task, NULL, DEADLINE, NULL) == 0);
    add(&outer_task, DEADLINE);
    ck_assert_uint_eq(go(LATER), 1);
    ck_assert_int_eq(runs, 1);
    ck_assert(!hwt_in_callback(room.timer) && !hwt_in_callback(inner.timer));
    room_close(&inner);
}
END_TEST

/* ---- the executor ---- */

START_TEST(what_was_handed_over_is_pending_until_it_begins)
{
    hwt_timeout timeout = add(&counted, DEADLINE);
    ck_assert_uint_eq(go(LATER), 1);
    ck_assert_uint_eq(room.timer->submitted, 1);
    ck_assert_int_eq(runs, 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    execute();
    ck_assert_int_eq(runs, 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    ck_assert(room_has_back(&room, timeout.entry));
}
END_TEST

START_TEST(what_was_handed_over_and_cancelled_is_discarded_by_the_executor)
{
    hwt_timeout timeout = add(&counted, DEADLINE);
    go(LATER);
    ck_assert(hwt_timeout_cancel(timeout));
    go(2 * LATER);
    ck_assert_int_eq(cancels, 0);
    execute();
    ck_assert_int_eq(runs, 0);
    ck_assert_int_eq(cancels, 1);
    ck_assert(room_has_back(&room, timeout.entry));
}
END_TEST

START_TEST(what_was_handed_over_and_pushed_back_is_filed_again)
{
    hwt_timeout timeout = add(&counted, DEADLINE);
    go(LATER);
    ck_assert(hwt_timeout_reschedule_at(timeout, 2 * LATER));
    execute();
    ck_assert_int_eq(runs, 0);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_PENDING);
    ck_assert_uint_eq(go(2 * LATER), 0);
    ck_assert_uint_eq(go(2 * LATER + 1000), 1);
    execute();
    ck_assert_int_eq(runs, 1);
}
END_TEST

START_TEST(what_the_executor_refuses_runs_here)
{
    handed.refuse = 1;
    hwt_timeout timeout = add(&counted, DEADLINE), other = add(&counted, HWT_NEVER);
    go(NOW);
    ck_assert(hwt_timeout_cancel(other));
    ck_assert_uint_eq(go(LATER), 1);
    ck_assert_int_eq(runs, 1);
    ck_assert_int_eq(cancels, 1);
    ck_assert_int_eq(hwt_timeout_state(timeout), HWT_EXPIRED);
    ck_assert_uint_eq(room.timer->submitted, 0);
}
END_TEST

START_TEST(cancelled_is_called_by_the_executor_too)
{
    hwt_timeout timeout = add(&counted, DEADLINE);
    ck_assert(hwt_timeout_cancel(timeout));
    go(NOW);
    ck_assert_int_eq(cancels, 0);
    execute();
    ck_assert_int_eq(cancels, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("task");
    TCase *handles = room_case(suite, "handles", open_room, close_room);
    tcase_add_test(handles, each_use_of_an_entry_raises_its_generation);
    tcase_add_test(handles, the_answer_of_state_follows_from_the_word);
    TCase *own = room_case(suite, "own", open_room, close_room);
    tcase_add_test(own, what_rearmed_itself_and_was_cancelled_ends_when_its_task_returns);
    tcase_add_test(own, what_was_cancelled_in_its_run_cannot_rearm_itself);
    tcase_add_test(own, of_several_rearmings_the_last_holds);
    tcase_add_test(own, a_period_is_counted_from_the_deadline_and_missed_ones_are_skipped);
    tcase_add_test(own, a_task_may_drive_another_timer_and_knows_what_it_is_inside_of);
    TCase *executor = room_case(suite, "executor", open_with_executor, close_room);
    tcase_add_test(executor, what_was_handed_over_is_pending_until_it_begins);
    tcase_add_test(executor, what_was_handed_over_and_cancelled_is_discarded_by_the_executor);
    tcase_add_test(executor, what_was_handed_over_and_pushed_back_is_filed_again);
    tcase_add_test(executor, what_the_executor_refuses_runs_here);
    tcase_add_test(executor, cancelled_is_called_by_the_executor_too);
    return run_suite(suite);
}
