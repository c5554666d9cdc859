/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What hwt_timer_stop() does about the timeouts of heartbeats and retries: its visitor sees the
 * program's own, and no others. A retry's `ended` is called, a heartbeat is told nothing.
 */

#include "heartbeat_fixture.h"

#include <hwt/retry.h>

static manual m;

static struct seen {
    uint64_t visits, attempts, ends;
    hwt_retry_end end;
} seen;

static void open_manual(void)
{
    seen = (struct seen){ 0 };
    manual_open(&m, HWT_SEC(7), TICK, WHEEL);
}

static void close_manual(void)
{
    manual_close(&m);
}

static ends own;

/* As a program has it that knows of its own timeouts alone. */
static void visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)remaining;
    ck_assert_ptr_null(data);
    ck_assert_ptr_eq(task, &counting);
    ck_assert_ptr_eq(arg, &own);
    seen.visits++;
}

static void attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    (void)retry;
    (void)number;
    (void)arg;
    seen.attempts++;
}

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    seen.ends++;
    seen.end = end;
    memset(retry, 0x6b, sizeof(*retry)); /* it may be freed */
    free(arg);
}

static const hwt_retry_task task = { attempt, ended };

static hwt_retry *start_retry(void)
{
    hwt_retry *retry = calloc(1, sizeof(*retry));
    ck_assert_ptr_nonnull(retry);
    ck_assert_int_eq(hwt_retry_start(retry, m.timer, NULL, &task, retry), 0);
    return retry;
}

START_TEST(a_visitor_is_not_shown_a_retry_whose_ended_is_called)
{
    hwt_retry *retry = start_retry();
    arm(m.timer, &counting, &own, HWT_SEC(1));
    manual_go(&m, TICK);
    ck_assert_uint_eq(seen.attempts, 1);
    if (_i == 1)
        ck_assert(hwt_retry_succeeded(retry, 1));
    if (_i == 2)
        ck_assert(hwt_retry_failed(retry, 1));
    hwt_timer_stop(m.timer, visit, NULL);
    ck_assert_uint_eq(seen.visits, 1);
    ck_assert_uint_eq(seen.ends, 1);
    ck_assert_int_eq(seen.end, _i == 1 ? HWT_RETRY_SUCCEEDED : HWT_RETRY_CANCELLED);
}
END_TEST

START_TEST(a_visitor_is_not_shown_a_heartbeat_which_is_told_nothing)
{
    peer p = peer_for(&m, HWT_HEARTBEAT_DEAD, HWT_SEC(1));
    peer_start(&p);
    arm(m.timer, &counting, &own, HWT_SEC(1));
    manual_go(&m, HWT_MS(400));
    hwt_timer_stop(m.timer, visit, NULL);
    ck_assert_uint_eq(seen.visits, 1);
    ck_assert_uint_eq(p.count, 0);
    ck_assert_int_eq(hwt_heartbeat_start(&p.heartbeat, m.timer, &p.rules, &p), -EALREADY);
    ck_assert(_i ? hwt_heartbeat_stop_sync(&p.heartbeat) : hwt_heartbeat_stop(&p.heartbeat));
    ck_assert(!hwt_heartbeat_stop_sync(&p.heartbeat));
    ck_assert_int_eq(hwt_heartbeat_start(&p.heartbeat, m.timer, &p.rules, &p), -ESHUTDOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own_timeouts");
    TCase *tcase = add_case(suite, "stop");
    tcase_add_checked_fixture(tcase, open_manual, close_manual);
    tcase_add_loop_test(tcase, a_visitor_is_not_shown_a_retry_whose_ended_is_called, 0, 3);
    tcase_add_loop_test(tcase, a_visitor_is_not_shown_a_heartbeat_which_is_told_nothing, 0, 2);
    return run_suite(suite);
}
