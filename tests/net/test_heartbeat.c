/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Heartbeats and idle limits: when each event is due, by the tick, on a set clock. */

#include "heartbeat_fixture.h"

static manual m;
static peer p; /* outlives a test, for the timer is destroyed after it */

static void open_manual(void)
{
    manual_open(&m, 123456789, TICK, WHEEL);
}

static void close_manual(void)
{
    manual_close(&m);
}

static void start(int event, uint64_t limit)
{
    p = peer_for(&m, event, limit);
    peer_start(&p);
}

/* The next event comes at this tick, and not before. */
static void expect_next(int event, uint64_t count, uint64_t at)
{
    size_t before = p.count;
    go_by_ticks(&m, at - 1);
    ck_assert_uint_eq(p.count, before);
    manual_go(&m, at);
    ck_assert_uint_eq(p.count, before + 1);
    assert_told(&p, before, event, count, at);
}

static void note_both(uint64_t at)
{
    read_at(&p, at);
    written_at(&p, at);
}

/* Whether a read alone, or a write alone, puts this event off; SEND needs both. */
static const bool by_read[EVENTS] = { true, true, false, true, false };
static const bool by_write[EVENTS] = { false, false, true, true, false };

/* ---- One event ---- */

START_TEST(an_event_comes_at_its_tick_and_not_before)
{
    static const uint64_t limits[] = { 1,          TICK - 1,         TICK,
                                       TICK + 1,   WHEEL * TICK - 1, WHEEL * TICK,
                                       HWT_SEC(1), 3 * WHEEL * TICK, 5 * WHEEL * TICK + 77 };
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        uint64_t begin = 1000 * WHEEL * TICK * i;
        manual_go(&m, begin);
        start(_i, limits[i]);
        ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
        expect_next(_i, 1, due_at(begin + limits[i], TICK));
        ck_assert(hwt_heartbeat_stop(&p.heartbeat));
    }
}
END_TEST

START_TEST(only_the_right_activity_puts_an_event_off)
{
    enum { READ = 1, WRITTEN = 2 };
    for (int noted = 0; noted <= (READ | WRITTEN); noted++) {
        uint64_t begin = (uint64_t)noted * HWT_SEC(10);
        manual_go(&m, begin);
        start(_i, HWT_SEC(1));
        manual_go(&m, begin + HWT_MS(403));
        if (noted & READ)
            read_at(&p, begin + HWT_MS(403));
        if (noted & WRITTEN)
            written_at(&p, begin + HWT_MS(403));
        bool off = (noted & READ && by_read[_i]) || (noted & WRITTEN && by_write[_i]) ||
                   noted == (READ | WRITTEN);
        expect_next(_i, 1, due_at(begin + HWT_MS(off ? 1403 : 1000), TICK));
        ck_assert(hwt_heartbeat_stop(&p.heartbeat));
    }
}
END_TEST

/* Up to the very look, whatever was noted counts. */
START_TEST(activity_at_the_deadline_or_up_to_its_tick_puts_an_event_off)
{
    for (uint64_t after = 0; after < TICK; after += TICK / 4) {
        uint64_t begin = after * 10000 / TICK * TICK;
        manual_go(&m, begin);
        start(_i, HWT_SEC(1));
        manual_go(&m, begin + HWT_SEC(1) + after);
        ck_assert_uint_eq(p.count, 0);
        note_both(begin + HWT_SEC(1) + after);
        expect_next(_i, 1, due_at(begin + HWT_SEC(2) + after, TICK));
        ck_assert(hwt_heartbeat_stop(&p.heartbeat));
    }
}
END_TEST

START_TEST(an_event_is_due_again_after_every_further_limit)
{
    uint64_t limit = HWT_MS(333) + 7;
    start(_i, limit);
    go_by_ticks(&m, 20 * limit + TICK);
    ck_assert_uint_eq(p.count, 20);
    for (size_t i = 0; i < p.count; i++)
        assert_told(&p, i, _i, i + 1, due_at((i + 1) * limit, TICK));
}
END_TEST

START_TEST(an_event_may_be_due_at_every_tick)
{
    start(_i, TICK);
    go_by_ticks(&m, 100 * TICK);
    ck_assert_uint_eq(p.count, 99);
    assert_told(&p, 98, _i, 99, 100 * TICK);
}
END_TEST

START_TEST(what_was_missed_in_a_standstill_is_left_out)
{
    start(_i, HWT_SEC(1));
    manual_go(&m, HWT_MS(7504));
    ck_assert_uint_eq(p.count, 1);
    assert_told(&p, 0, _i, 1, HWT_MS(7504));
    expect_next(_i, 2, HWT_MS(8010));
}
END_TEST

START_TEST(the_count_begins_again_after_activity)
{
    start(_i, HWT_SEC(1));
    go_by_ticks(&m, HWT_MS(3500));
    assert_told(&p, 2, _i, 3, HWT_MS(3010));
    note_both(HWT_MS(3500));
    go_by_ticks(&m, HWT_MS(5510));
    ck_assert_uint_eq(p.count, 5);
    assert_told(&p, 3, _i, 1, HWT_MS(4510));
    assert_told(&p, 4, _i, 2, HWT_MS(5510));
}
END_TEST

/* A thread that took the time before an event and noted it after: two events are still a
 * limit apart, but the count knows better. */
START_TEST(activity_from_before_an_event_begins_the_count_again)
{
    start(_i, HWT_SEC(1));
    manual_go(&m, HWT_MS(1010));
    note_both(HWT_MS(900));
    expect_next(_i, 1, HWT_MS(2010));
}
END_TEST

START_TEST(a_limit_of_zero_or_never_is_off)
{
    for (int never = 0; never < 2; never++) {
        p = peer_for(&m, 0, 0);
        for (int event = 0; event < EVENTS; event++)
            *limit_in(&p.rules, event) = never ? HWT_NEVER : 0;
        peer_start(&p);
        ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
        *limit_in(&p.rules, _i) = HWT_SEC(1);
        ck_assert(hwt_heartbeat_stop(&p.heartbeat));
        peer_start(&p);
        go_by_ticks(&m, (never + 1) * HWT_MS(1010));
        ck_assert_uint_eq(p.count, 1);
        assert_told(&p, 0, _i, 1, (never + 1) * HWT_MS(1010));
        ck_assert(hwt_heartbeat_stop(&p.heartbeat));
    }
}
END_TEST

START_TEST(limits_near_the_end_of_time_do_not_wrap)
{
    manual_close(&m);
    manual_open(&m, UINT64_MAX - HWT_SEC(1), TICK, WHEEL);
    start(_i, HWT_SEC(2));
    go_by_ticks(&m, HWT_MS(990));
    atomic_store(&m.now, UINT64_MAX);
    hwt_timer_advance(m.timer, UINT64_MAX);
    ck_assert_uint_eq(p.count, 0);
}
END_TEST

/* ---- Notes ---- */

START_TEST(an_older_note_changes_nothing)
{
    start(_i, HWT_SEC(1));
    manual_go(&m, HWT_MS(500));
    note_both(HWT_MS(500));
    read_at(&p, HWT_MS(200));
    written_at(&p, HWT_MS(499));
    hwt_heartbeat_read_at(&p.heartbeat, 0);
    expect_next(_i, 1, HWT_MS(1510));
}
END_TEST

START_TEST(a_note_from_the_future_holds_until_then_or_a_new_start)
{
    start(_i, HWT_SEC(1));
    note_both(HWT_SEC(50));
    expect_next(_i, 1, HWT_MS(51010));

    hwt_heartbeat_read_at(&p.heartbeat, HWT_NEVER);
    hwt_heartbeat_written_at(&p.heartbeat, HWT_NEVER);
    ck_assert(hwt_heartbeat_stop(&p.heartbeat));
    peer_start(&p);
    go_by_ticks(&m, HWT_MS(52020));
    assert_told(&p, 1, _i, 1, HWT_MS(52020));
}
END_TEST

START_TEST(notes_without_an_instant_take_the_timers_clock)
{
    p = peer_for(&m, _i, HWT_SEC(1));
    hwt_heartbeat_read(&p.heartbeat); /* not started: nothing to do */
    hwt_heartbeat_written(&p.heartbeat);
    peer_start(&p);
    manual_go(&m, HWT_MS(700));
    hwt_heartbeat_read(&p.heartbeat);
    hwt_heartbeat_written(&p.heartbeat);
    expect_next(_i, 1, HWT_MS(1710));
}
END_TEST

START_TEST(a_busy_connection_is_looked_at_once_in_a_limit)
{
    start(_i, HWT_SEC(1));
    for (uint64_t t = 0; t < HWT_SEC(60); t += TICK) {
        manual_go(&m, t);
        note_both(t);
    }
    ck_assert_uint_eq(p.count, 0);
    ck_assert_uint_ge(stats_of(m.timer).expired, 58);
    ck_assert_uint_le(stats_of(m.timer).expired, 60);
    ck_assert_uint_eq(stats_of(m.timer).added, 1);
}
END_TEST

/* ---- Several kinds at once ---- */

/* A heartbeat that is sent is a packet like any other. */
static void send_heartbeat(peer *of, hwt_heartbeat_event event)
{
    if (event == HWT_HEARTBEAT_SEND)
        hwt_heartbeat_written(&of->heartbeat);
}

START_TEST(a_heartbeat_is_sent_while_nothing_is_written)
{
    p = peer_for(&m, HWT_HEARTBEAT_SEND, HWT_SEC(1));
    p.then = send_heartbeat;
    peer_start(&p);
    for (uint64_t t = 0; t <= HWT_SEC(10); t += TICK) {
        read_at(&p, t);
        manual_go(&m, t);
    }
    /* Each is due a second after the one before was written, a tick after it was due. */
    ck_assert_uint_eq(p.count, 9);
    for (size_t i = 0; i < p.count; i++)
        assert_told(&p, i, HWT_HEARTBEAT_SEND, 1, (i + 1) * HWT_MS(1010));
}
END_TEST

START_TEST(a_heartbeat_is_sent_while_nothing_is_read)
{
    p = peer_for(&m, HWT_HEARTBEAT_SEND, HWT_SEC(1));
    p.then = send_heartbeat;
    peer_start(&p);
    for (uint64_t t = 0; t <= HWT_MS(10010); t += TICK) {
        written_at(&p, t);
        manual_go(&m, t);
    }
    ck_assert_uint_eq(p.count, 10);
    for (size_t i = 0; i < p.count; i++)
        assert_told(&p, i, HWT_HEARTBEAT_SEND, i + 1, (i + 1) * HWT_SEC(1) + TICK);
}
END_TEST

START_TEST(a_heartbeat_that_is_answered_late_is_not_sent_twice)
{
    p = peer_for(&m, HWT_HEARTBEAT_SEND, HWT_SEC(1));
    p.rules.reader_idle = HWT_MS(1200); /* brings a look of its own */
    peer_start(&p);
    manual_go(&m, HWT_MS(300));
    written_at(&p, HWT_MS(300));
    go_by_ticks(&m, HWT_MS(1015)); /* for want of a read; it is about to be written */
    assert_told(&p, 0, HWT_HEARTBEAT_SEND, 1, HWT_MS(1010));
    read_at(&p, HWT_MS(1015));
    expect_next(HWT_HEARTBEAT_SEND, 1, HWT_MS(2010));
}
END_TEST

/* The two examples of heartbeat.h. */
START_TEST(two_events_of_a_kind_are_a_limit_apart)
{
    static peer late, sends;
    late = peer_for(&m, HWT_HEARTBEAT_DEAD, HWT_SEC(1));
    sends = peer_for(&m, HWT_HEARTBEAT_SEND, HWT_SEC(1));
    sends.then = send_heartbeat;
    peer_start(&late);
    peer_start(&sends);
    manual_go(&m, HWT_MS(500));
    read_at(&sends, HWT_MS(500));
    go_by_ticks(&m, HWT_MS(1010));
    assert_told(&late, 0, HWT_HEARTBEAT_DEAD, 1, HWT_MS(1010));
    assert_told(&sends, 0, HWT_HEARTBEAT_SEND, 1, HWT_MS(1010));
    read_at(&late, HWT_MS(700));
    go_by_ticks(&m, HWT_MS(2009));
    ck_assert_uint_eq(late.count, 1);
    ck_assert_uint_eq(sends.count, 1);
    manual_go(&m, HWT_MS(2010));
    assert_told(&late, 1, HWT_HEARTBEAT_DEAD, 1, HWT_MS(2010));
    assert_told(&sends, 1, HWT_HEARTBEAT_SEND, 1, HWT_MS(2010));
}
END_TEST

START_TEST(events_of_one_tick_come_dead_first_and_heartbeat_last)
{
    p = peer_for(&m, 0, 0);
    for (int event = 0; event < EVENTS; event++)
        *limit_in(&p.rules, event) = HWT_SEC(1) - (uint64_t)event;
    peer_start(&p);
    manual_go(&m, HWT_MS(1010));
    ck_assert_uint_eq(p.count, EVENTS);
    for (int event = 0; event < EVENTS; event++)
        assert_told(&p, (size_t)event, event, 1, HWT_MS(1010));
}
END_TEST

START_TEST(each_kind_keeps_its_own_period_by_one_timeout)
{
    static const uint64_t limits[EVENTS] = { HWT_SEC(9), HWT_MS(2500), HWT_MS(703), HWT_MS(3100),
                                             HWT_SEC(3) };
    p = peer_for(&m, 0, 0);
    for (int event = 0; event < EVENTS; event++)
        *limit_in(&p.rules, event) = limits[event];
    peer_start(&p);
    go_by_ticks(&m, HWT_SEC(60));
    ck_assert_uint_eq(stats_of(m.timer).added, 1);
    size_t expected = 0, seen[EVENTS] = { 0 };
    for (int event = 0; event < EVENTS; event++)
        expected += (size_t)((HWT_SEC(60) - TICK) / limits[event]);
    ck_assert_uint_eq(p.count, expected);
    for (size_t i = 0; i < p.count; i++) {
        int event = (int)p.log[i].event;
        uint64_t due = ++seen[event] * limits[event];
        ck_assert_uint_eq(p.log[i].count, seen[event]);
        /* In a look on behalf of another kind, it may come at once. */
        ck_assert(p.log[i].at == due || p.log[i].at == due_at(due, TICK));
    }
}
END_TEST

/* ---- */

static void add_each(Suite *suite)
{
    TCase *tcase = add_case(suite, "each");
    tcase_add_checked_fixture(tcase, open_manual, close_manual);
    tcase_add_loop_test(tcase, an_event_comes_at_its_tick_and_not_before, 0, EVENTS);
    tcase_add_loop_test(tcase, only_the_right_activity_puts_an_event_off, 0, EVENTS);
    tcase_add_loop_test(tcase, activity_at_the_deadline_or_up_to_its_tick_puts_an_event_off, 0,
                        EVENTS);
    tcase_add_loop_test(tcase, an_event_is_due_again_after_every_further_limit, 0, EVENTS);
    tcase_add_loop_test(tcase, an_event_may_be_due_at_every_tick, 0, EVENTS);
    tcase_add_loop_test(tcase, what_was_missed_in_a_standstill_is_left_out, 0, EVENTS);
    tcase_add_loop_test(tcase, the_count_begins_again_after_activity, 0, EVENTS);
    tcase_add_loop_test(tcase, activity_from_before_an_event_begins_the_count_again, 0, EVENTS);
    tcase_add_loop_test(tcase, a_limit_of_zero_or_never_is_off, 0, EVENTS);
    tcase_add_loop_test(tcase, limits_near_the_end_of_time_do_not_wrap, 0, EVENTS);
    tcase_add_loop_test(tcase, an_older_note_changes_nothing, 0, EVENTS);
    tcase_add_loop_test(tcase, a_note_from_the_future_holds_until_then_or_a_new_start, 0, EVENTS);
    tcase_add_loop_test(tcase, notes_without_an_instant_take_the_timers_clock, 0, EVENTS);
    tcase_add_loop_test(tcase, a_busy_connection_is_looked_at_once_in_a_limit, 0, EVENTS);
}

static void add_together(Suite *suite)
{
    TCase *tcase = add_case(suite, "together");
    tcase_add_checked_fixture(tcase, open_manual, close_manual);
    tcase_add_test(tcase, a_heartbeat_is_sent_while_nothing_is_written);
    tcase_add_test(tcase, a_heartbeat_is_sent_while_nothing_is_read);
    tcase_add_test(tcase, a_heartbeat_that_is_answered_late_is_not_sent_twice);
    tcase_add_test(tcase, two_events_of_a_kind_are_a_limit_apart);
    tcase_add_test(tcase, events_of_one_tick_come_dead_first_and_heartbeat_last);
    tcase_add_test(tcase, each_kind_keeps_its_own_period_by_one_timeout);
}

int main(void)
{
    Suite *suite = suite_create("heartbeat");
    add_each(suite);
    add_together(suite);
    return run_suite(suite);
}
