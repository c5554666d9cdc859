/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Heartbeats: errors, start and stop, and what a callback may do to its object. */

#include "heartbeat_fixture.h"
#include "memory_limit.h"

static manual m;

static void open_manual(void)
{
    manual_open(&m, 123456789, TICK, WHEEL);
}

static void close_manual(void)
{
    manual_close(&m);
}

static peer any_peer(void)
{
    return peer_for(&m, HWT_HEARTBEAT_DEAD, HWT_SEC(1));
}

static int start(peer *p)
{
    return hwt_heartbeat_start(&p->heartbeat, m.timer, &p->rules, p);
}

/* ---- Errors ---- */

START_TEST(bad_arguments_are_refused)
{
    static const hwt_heartbeat_rules mute = { .dead = 1 };
    peer p = any_peer();
    hwt_heartbeat before = p.heartbeat;
    ck_assert_int_eq(hwt_heartbeat_start(NULL, m.timer, &p.rules, &p), -EINVAL);
    ck_assert_int_eq(hwt_heartbeat_start(&p.heartbeat, NULL, &p.rules, &p), -EINVAL);
    ck_assert_int_eq(hwt_heartbeat_start(&p.heartbeat, m.timer, NULL, &p), -EINVAL);
    ck_assert_int_eq(hwt_heartbeat_start(&p.heartbeat, m.timer, &mute, &p), -EINVAL);
    for (size_t i = 0; i < sizeof(p.rules.reserved) / sizeof(p.rules.reserved[0]); i++) {
        hwt_heartbeat_rules later = p.rules;
        later.reserved[i] = 1;
        ck_assert_int_eq(hwt_heartbeat_start(&p.heartbeat, m.timer, &later, &p), -EINVAL);
    }
    ck_assert_mem_eq(&p.heartbeat, &before, sizeof(before));
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert(!hwt_heartbeat_stop(NULL) && !hwt_heartbeat_stop_sync(NULL));

    peer_start(&p);
    before = p.heartbeat;
    ck_assert_int_eq(hwt_heartbeat_start(&p.heartbeat, m.timer, &mute, &p), -EINVAL);
    ck_assert_mem_eq(&p.heartbeat, &before, sizeof(before));
    close_manual();
}
END_TEST

START_TEST(a_note_on_nothing_is_no_note)
{
    hwt_heartbeat_read(NULL);
    hwt_heartbeat_written(NULL);
    hwt_heartbeat_read_at(NULL, 1);
    hwt_heartbeat_written_at(NULL, 1);
    close_manual();
}
END_TEST

/* Embedded in every connection: it may grow into what is reserved, not beyond. */
START_TEST(it_is_small)
{
    ck_assert_uint_le(sizeof(hwt_heartbeat), sizeof(void *) == 8 ? 152 : 144);
    close_manual();
}
END_TEST

START_TEST(a_second_start_is_refused)
{
    peer p = any_peer();
    peer_start(&p);
    hwt_heartbeat before = p.heartbeat;
    manual_go(&m, HWT_MS(500));
    ck_assert_int_eq(start(&p), -EALREADY);
    ck_assert_mem_eq(&p.heartbeat, &before, sizeof(before));
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    manual_go(&m, HWT_MS(1010));
    ck_assert_uint_eq(p.count, 1);
    close_manual();
}
END_TEST

START_TEST(a_stopped_timer_refuses)
{
    peer p = any_peer();
    hwt_heartbeat before = p.heartbeat;
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 0);
    ck_assert_int_eq(start(&p), -ESHUTDOWN);
    ck_assert_mem_eq(&p.heartbeat, &before, sizeof(before));
    ck_assert(!hwt_heartbeat_stop_sync(&p.heartbeat));
    close_manual();
}
END_TEST

START_TEST(a_full_timer_leaves_it_startable)
{
    hwt_options options = HWT_OPTIONS_INIT;
    peer p = any_peer();
    ends e = { 0 };
    manual_close(&m);
    options.max_pending = 1;
    options.tick_duration = TICK;
    manual_open_with(&m, 5, options);
    hwt_timeout other = arm(m.timer, &counting, &e, HWT_SEC(100));
    hwt_heartbeat before = p.heartbeat;
    ck_assert_int_eq(start(&p), -ENOBUFS);
    ck_assert_mem_eq(&p.heartbeat, &before, sizeof(before));
    ck_assert(hwt_timeout_cancel(other));
    manual_go(&m, 0); /* it is told, and its place is free */
    ck_assert_int_eq(start(&p), 0);
    manual_go(&m, HWT_MS(1010));
    ck_assert_uint_eq(p.count, 1);
    ck_assert(hwt_heartbeat_stop(&p.heartbeat));
    ck_assert_int_eq(start(&p), 0); /* its place under max_pending came back */
    close_manual();
}
END_TEST

START_TEST(want_of_memory_leaves_it_startable)
{
    if (memory_cannot_be_limited()) {
        close_manual();
        return;
    }
    ends e = { 0 };
    peer p = any_peer();
    int filling = 0;
    limit_memory(0);
    while (filling == 0) /* what the pool still has */
        filling = hwt_timer_new_timeout(m.timer, &counting, &e, HWT_SEC(100), NULL);
    int refused = start(&p);
    limit_memory(RLIM_INFINITY);
    ck_assert_int_eq(filling, -ENOMEM);
    ck_assert_int_eq(refused, -ENOMEM);
    ck_assert(!hwt_heartbeat_stop(&p.heartbeat));
    ck_assert_int_eq(start(&p), 0);
    manual_go(&m, HWT_MS(1010));
    ck_assert_uint_eq(p.count, 1);
    close_manual();
}
END_TEST

/* ---- Stopping ---- */

START_TEST(a_stop_is_true_once_and_nothing_comes_after)
{
    peer p = any_peer();
    bool (*first)(hwt_heartbeat *) = _i ? hwt_heartbeat_stop_sync : hwt_heartbeat_stop;
    ck_assert(!first(&p.heartbeat));
    for (uint64_t round = 1; round <= 3; round++) {
        peer_start(&p);
        ck_assert(first(&p.heartbeat));
        ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
        ck_assert(!hwt_heartbeat_stop(&p.heartbeat));
        ck_assert(!hwt_heartbeat_stop_sync(&p.heartbeat));
        manual_go(&m, round * HWT_SEC(5));
        ck_assert_uint_eq(p.count, 0);
    }
    close_manual();
}
END_TEST

START_TEST(a_new_life_knows_nothing_of_the_last)
{
    peer p = any_peer();
    peer_start(&p);
    go_by_ticks(&m, HWT_MS(3500));
    assert_told(&p, 2, HWT_HEARTBEAT_DEAD, 3, HWT_MS(3010));
    ck_assert(hwt_heartbeat_stop(&p.heartbeat));
    read_at(&p, HWT_SEC(20)); /* from a future that is not to be */
    p.rules = any_peer().rules;
    p.rules.dead = HWT_SEC(2);
    peer_start(&p);
    go_by_ticks(&m, HWT_MS(5509));
    ck_assert_uint_eq(p.count, 3);
    manual_go(&m, HWT_MS(5510));
    assert_told(&p, 3, HWT_HEARTBEAT_DEAD, 1, HWT_MS(5510));
    close_manual();
}
END_TEST

START_TEST(a_timer_that_is_stopped_takes_its_events_along)
{
    peer p = any_peer();
    peer_start(&p);
    manual_go(&m, HWT_MS(400));
    ck_assert_int_eq(hwt_timer_stop(m.timer, NULL, NULL), 1);
    manual_go(&m, HWT_SEC(9));
    ck_assert_uint_eq(p.count, 0);
    hwt_heartbeat_read(&p.heartbeat);
    ck_assert_int_eq(start(&p), -EALREADY);
    ck_assert(hwt_heartbeat_stop_sync(&p.heartbeat));
    ck_assert_int_eq(start(&p), -ESHUTDOWN);
    manual_close(&m);

    open_manual();
    memset(&p.heartbeat, 0, sizeof(p.heartbeat));
    peer_start(&p);
    manual_go(&m, HWT_MS(1010));
    ck_assert_uint_eq(p.count, 1);
    close_manual();
}
END_TEST

/* ---- In the callback ---- */

static void stop_in_it(peer *p, hwt_heartbeat_event event)
{
    (void)event;
    must(hwt_heartbeat_stop(&p->heartbeat));
    must(!hwt_heartbeat_stop(&p->heartbeat) && !hwt_heartbeat_stop_sync(&p->heartbeat));
}

static void stop_sync_in_it(peer *p, hwt_heartbeat_event event)
{
    (void)event;
    must(hwt_heartbeat_stop_sync(&p->heartbeat));
    must(!hwt_heartbeat_stop(&p->heartbeat));
}

static void (*const stops[])(peer *, hwt_heartbeat_event) = { stop_in_it, stop_sync_in_it };

static void all_at_once(peer *p)
{
    for (int event = 0; event < EVENTS; event++)
        *limit_in(&p->rules, event) = HWT_SEC(1);
}

START_TEST(a_stop_in_the_callback_is_the_end)
{
    peer p = any_peer();
    all_at_once(&p);
    p.then = stops[_i];
    peer_start(&p);
    manual_go(&m, HWT_SEC(50));
    ck_assert_uint_eq(p.count, 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    p.then = NULL;
    peer_start(&p);
    manual_go(&m, HWT_SEC(100));
    ck_assert_uint_eq(p.count, 1 + EVENTS);
    close_manual();
}
END_TEST

static uint64_t freed;

static void free_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                      void *arg)
{
    (void)event;
    (void)count;
    must(hwt_heartbeat_stop(heartbeat));
    memset(arg, 0x6b, sizeof(peer));
    free(arg);
    freed++;
}

START_TEST(the_callback_may_free_the_object)
{
    for (uint64_t i = 1; i <= 10; i++) {
        peer *p = malloc(sizeof(*p));
        ck_assert_ptr_nonnull(p);
        *p = any_peer();
        all_at_once(p);
        p->rules.notify = free_told;
        static hwt_heartbeat_rules rules;
        rules = p->rules;
        ck_assert_int_eq(hwt_heartbeat_start(&p->heartbeat, m.timer, &rules, p), 0);
        manual_go(&m, i * HWT_SEC(5));
        ck_assert_uint_eq(freed, i);
        ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    }
    close_manual();
}
END_TEST

static void restart_in_it(peer *p, hwt_heartbeat_event event)
{
    (void)event;
    must(start(p) == -EALREADY);
    must(hwt_heartbeat_stop(&p->heartbeat));
    must(start(p) == 0);
    must(start(p) == -EALREADY);
    must(hwt_heartbeat_stop_sync(&p->heartbeat));
    p->rules.dead = HWT_SEC(3);
    must(start(p) == 0);
}

START_TEST(the_callback_may_start_it_anew)
{
    peer p = any_peer();
    all_at_once(&p);
    p.then = restart_in_it;
    peer_start(&p);
    manual_go(&m, HWT_MS(1010));
    p.then = NULL;
    /* The new life begins at the look, and what was due in the old one is not told. */
    ck_assert_uint_eq(p.count, 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    ck_assert_uint_eq(stats_of(m.timer).added, 1);
    go_by_ticks(&m, HWT_MS(2020));
    ck_assert_uint_eq(p.count, EVENTS);
    go_by_ticks(&m, HWT_MS(4020));
    assert_told(&p, p.count - EVENTS, HWT_HEARTBEAT_DEAD, 1, HWT_MS(4020));
    ck_assert(hwt_heartbeat_stop_sync(&p.heartbeat));
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    close_manual();
}
END_TEST

static manual other;

static void try_another_timer(peer *p, hwt_heartbeat_event event)
{
    (void)event;
    must(hwt_heartbeat_stop(&p->heartbeat));
    must(hwt_heartbeat_start(&p->heartbeat, other.timer, &p->rules, p) == -EBUSY);
    must(hwt_heartbeat_start(&p->heartbeat, m.timer, NULL, p) == -EINVAL);
}

START_TEST(the_callback_cannot_move_it_to_another_timer)
{
    peer p = any_peer();
    manual_open(&other, 0, TICK, WHEEL);
    p.then = try_another_timer;
    peer_start(&p);
    manual_go(&m, HWT_SEC(5));
    ck_assert_uint_eq(p.count, 1);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    p.then = NULL;
    p.m = &other;
    peer_start(&p); /* but afterwards anybody can */
    manual_go(&other, HWT_MS(1010));
    assert_told(&p, 1, HWT_HEARTBEAT_DEAD, 1, HWT_MS(1010));
    manual_close(&other);
    close_manual();
}
END_TEST

/* As when it is freed, and another object is made in the same place. */
static void replace_in_it(peer *p, hwt_heartbeat_event event)
{
    (void)event;
    must(hwt_heartbeat_stop(&p->heartbeat));
    memset(&p->heartbeat, 0, sizeof(p->heartbeat));
    must(!hwt_heartbeat_stop(&p->heartbeat));
    must(hwt_heartbeat_start(&p->heartbeat, m.timer, &p->rules, p) == 0);
    must(p->count > 1 || hwt_heartbeat_stop_sync(&p->heartbeat));
    must(p->count > 1 || hwt_heartbeat_start(&p->heartbeat, m.timer, &p->rules, p) == 0);
}

START_TEST(another_object_may_take_its_place)
{
    peer p = any_peer();
    all_at_once(&p);
    p.then = replace_in_it;
    peer_start(&p);
    for (uint64_t i = 1; i <= 5; i++) {
        manual_go(&m, i * HWT_MS(1010));
        assert_told(&p, i - 1, HWT_HEARTBEAT_DEAD, 1, i * HWT_MS(1010));
        ck_assert_uint_eq(p.count, i);
        ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    }
    ck_assert(hwt_heartbeat_stop_sync(&p.heartbeat));
    close_manual();
}
END_TEST

static void stop_the_other(peer *p, hwt_heartbeat_event event)
{
    (void)event;
    peer *sibling = p + 1;
    must(hwt_heartbeat_stop_sync(&sibling->heartbeat) == (p->count == 1));
    memset(&sibling->heartbeat, 0x6b, sizeof(sibling->heartbeat));
}

START_TEST(the_callback_may_stop_a_sibling_of_the_same_tick)
{
    peer pair[2] = { any_peer(), any_peer() };
    pair[0].then = stop_the_other;
    peer_start(&pair[0]);
    peer_start(&pair[1]);
    manual_go(&m, HWT_MS(1010));
    ck_assert_uint_eq(pair[0].count, 1);
    ck_assert_uint_eq(pair[1].count, 0);
    close_manual();
}
END_TEST

/* ---- */

static TCase *add_manual_case(Suite *suite, const char *name)
{
    TCase *tcase = add_case(suite, name);
    tcase_add_checked_fixture(tcase, open_manual, NULL); /* each test closes it itself */
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("heartbeat_life");
    TCase *tcase = add_manual_case(suite, "errors");
    tcase_add_test(tcase, bad_arguments_are_refused);
    tcase_add_test(tcase, a_note_on_nothing_is_no_note);
    tcase_add_test(tcase, it_is_small);
    tcase_add_test(tcase, a_second_start_is_refused);
    tcase_add_test(tcase, a_stopped_timer_refuses);
    tcase_add_test(tcase, a_full_timer_leaves_it_startable);
    tcase_add_test(tcase, want_of_memory_leaves_it_startable);

    tcase = add_manual_case(suite, "stop");
    tcase_add_loop_test(tcase, a_stop_is_true_once_and_nothing_comes_after, 0, 2);
    tcase_add_test(tcase, a_new_life_knows_nothing_of_the_last);
    tcase_add_test(tcase, a_timer_that_is_stopped_takes_its_events_along);

    tcase = add_manual_case(suite, "callback");
    tcase_add_loop_test(tcase, a_stop_in_the_callback_is_the_end, 0, 2);
    tcase_add_test(tcase, the_callback_may_free_the_object);
    tcase_add_test(tcase, the_callback_may_start_it_anew);
    tcase_add_test(tcase, the_callback_cannot_move_it_to_another_timer);
    tcase_add_test(tcase, another_object_may_take_its_place);
    tcase_add_test(tcase, the_callback_may_stop_a_sibling_of_the_same_tick);
    return run_suite(suite);
}
