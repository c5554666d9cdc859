/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What wakes a sleeping worker before its tick: so much to do that memory would grow. */

#include <poll.h>

#include "room_fixture.h"

#define TICK HWT_SEC(100000)

enum { SEEN_MAX = 2 * HWT_BACKLOG };

static struct room room;
static hwt_timer *timer;
static bool seen_ran[SEEN_MAX]; /* each in its turn: it ran, or was told that it will not */
static size_t seen_n;

/* Nothing but a wake-up makes the descriptor readable in the time that a test takes. */
static void open_slow(void)
{
    room_open(&room, 0, TICK, 8);
    timer = room.timer;
    seen_n = 0;
    must(hwt_timer_fd(timer) >= 0);
}

static bool woken(void)
{
    struct pollfd fd = { .fd = timer->gate.fd, .events = POLLIN };
    return poll(&fd, 1, timer->gate.wake_before == HWT_GATE_AWAKE ? 30000 : 0) == 1;
}

static void close_room(void)
{
    room_close(&room);
}

static void note(bool ran)
{
    must(seen_n < SEEN_MAX);
    seen_ran[seen_n++] = ran;
}

static void run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    note(true);
}

static void cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    note(false);
}

static const hwt_task quiet = { run, NULL }, telling = { run, cancelled };

static hwt_timeout add_far(const hwt_task *task)
{
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(timer, task, NULL, HWT_NEVER, &timeout) == 0);
    return timeout;
}

/* The descriptor's owner sleeps for no longer than a tick, in which single cancels do not wake
 * him. */
static void sleep_briefly(void)
{
    must(hwt_timeout_cancel(add_far(&quiet)));
    hwt_timer_next_tick(timer);
    ck_assert_uint_eq(timer->gate.wake_before, HWT_GATE_SHORT);
    ck_assert(!woken());
}

static size_t add_until_woken(size_t most)
{
    size_t n = 0;
    for (; n < most && timer->gate.wake_before != HWT_GATE_AWAKE; n++)
        add_far(&quiet);
    return n;
}

/* An owner is counted for each time that he gets ready, some dozen beforehand. */
START_TEST(so_many_adds_wake_a_sleeper_whatever_their_deadline)
{
    size_t ahead = _i ? 0 : HWT_READY_MAX;
    uint32_t before = hwt_thread_number;
    if (_i)
        share_lane(1);
    hwt_timer_next_tick(timer);
    ck_assert_uint_eq(timer->gate.wake_before, HWT_NEVER);
    for (int i = 0; i < 4; i++) {
        size_t n = add_until_woken(2 * HWT_BACKLOG);
        ck_assert_uint_le(n, HWT_BACKLOG + ahead);
        ck_assert_uint_ge(n + ahead, HWT_BACKLOG);
        ck_assert(woken());
        hwt_timer_dispatch(timer);
        ck_assert(!woken());
    }
    hwt_thread_number = before;
}
END_TEST

START_TEST(each_lane_is_counted_by_itself)
{
    hwt_timer_next_tick(timer);
    for (uint32_t i = 0; i < HWT_LANES_SHARED; i++) {
        uint32_t before = share_lane(i);
        for (int k = 1; k < HWT_BACKLOG; k++)
            add_far(&quiet);
        hwt_thread_number = before;
    }
    ck_assert(!woken());
    uint32_t before = share_lane(3);
    add_far(&quiet);
    hwt_thread_number = before;
    ck_assert(woken());
}
END_TEST

START_TEST(what_is_salvaged_is_no_backlog)
{
    uint32_t before = hwt_thread_number;
    if (_i)
        share_lane(1);
    sleep_briefly();
    uint64_t memory = timer->pool.bytes, given = hwt_lane_own(timer)->given;
    for (int i = 0; i < 4 * HWT_BACKLOG; i++)
        must(hwt_timeout_cancel(add_far(&quiet)));
    ck_assert(!woken());
    ck_assert_uint_eq(timer->pool.bytes, memory);
    ck_assert_uint_le(hwt_lane_own(timer)->given, given + 2 * HWT_READY_MAX);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    hwt_thread_number = before;
}
END_TEST

START_TEST(what_has_to_be_told_is_a_backlog)
{
    sleep_briefly();
    for (int i = 0; i < HWT_BACKLOG - 2 * HWT_READY_MAX; i++)
        must(hwt_timeout_cancel(add_far(&telling)));
    ck_assert(!woken());
    for (int i = 0; i < 2 * HWT_READY_MAX; i++)
        must(hwt_timeout_cancel(add_far(&telling)));
    ck_assert(woken());
    hwt_timer_dispatch(timer);
    ck_assert_uint_eq(seen_n, HWT_BACKLOG);
}
END_TEST

START_TEST(cancels_of_what_is_filed_are_a_backlog)
{
    static hwt_timeout filed[HWT_BACKLOG];
    for (int i = 0; i < HWT_BACKLOG; i++)
        filed[i] = add_far(&quiet);
    hwt_timer_dispatch(timer);
    sleep_briefly();
    uint64_t n = HWT_BACKLOG - room.lane->given % HWT_BACKLOG;
    for (uint64_t i = 1; i < n; i++)
        must(hwt_timeout_cancel(filed[i]));
    ck_assert(!woken());
    must(hwt_timeout_cancel(filed[0]));
    ck_assert(woken());
}
END_TEST

static void add_a_backlog(hwt_timeout timeout, void *arg)
{
    run(timeout, arg);
    for (int i = 0; i < HWT_BACKLOG + HWT_READY_MAX; i++)
        must(hwt_timeout_cancel(add_far(&telling)));
}

/* It is seen to between two batches of 64, not when all that is due has run. */
START_TEST(a_backlog_does_not_wait_until_all_that_is_due_has_run)
{
    static const hwt_task adding = { add_a_backlog, NULL };
    must(hwt_timer_new_timeout_at(timer, &adding, NULL, 0, NULL) == 0);
    for (int i = 1; i < 128; i++)
        must(hwt_timer_new_timeout_at(timer, &quiet, NULL, 0, NULL) == 0);
    ck_assert_uint_eq(hwt_timer_advance(timer, TICK), 128);
    ck_assert_uint_eq(seen_n, 128 + HWT_BACKLOG + HWT_READY_MAX);
    for (size_t i = 0; i < seen_n; i++)
        must(seen_ran[i] == (i < 64 || i >= seen_n - 64));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_backlog");
    TCase *backlog = room_case(suite, "backlog", open_slow, close_room);
    tcase_add_loop_test(backlog, so_many_adds_wake_a_sleeper_whatever_their_deadline, 0, 2);
    tcase_add_test(backlog, each_lane_is_counted_by_itself);
    tcase_add_loop_test(backlog, what_is_salvaged_is_no_backlog, 0, 2);
    tcase_add_test(backlog, what_has_to_be_told_is_a_backlog);
    tcase_add_test(backlog, cancels_of_what_is_filed_are_a_backlog);
    tcase_add_test(backlog, a_backlog_does_not_wait_until_all_that_is_due_has_run);
    return run_suite(suite);
}
