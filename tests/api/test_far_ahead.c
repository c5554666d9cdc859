/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread that has cancelled very many timeouts which are to be told, and have not been, offers its
 * processor now and then to whoever waits for one: the worker, perhaps. It does not otherwise. How
 * often is counted, nothing is timed.
 */

#include "api_fixture.h"

enum { FEW = 20000, MANY = 200000, BETWEEN = 2000 };

static _Thread_local uint64_t offers;
static hwt_timeout timeouts[MANY];

/* With the linker's --wrap. */
int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
    offers++;
    return __real_sched_yield();
}

static void run_nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
}

static const hwt_task untold = { run_nothing, NULL };

/* How often this thread has offered its processor while it cancelled so many. */
static uint64_t offers_for(hwt_timer *timer, const hwt_task *task, ends *e, int n)
{
    offers = 0;
    for (int i = 0; i < n; i++)
        timeouts[i] = arm(timer, task, e, HWT_SEC(3600));
    ck_assert_uint_eq(offers, 0); /* what is pending is wanted */
    for (int i = 0; i < n; i++)
        must(hwt_timeout_cancel(timeouts[i]));
    return offers;
}

/* Nobody drives the timer meanwhile. */
START_TEST(far_ahead_it_offers_its_processor_now_and_then)
{
    ends e = { 0 };
    hwt_timer *timer = create_driven(0, HWT_MS(1));
    const uint64_t made = offers_for(timer, &counting, &e, MANY);
    ck_assert_uint_ge(made, 10);
    ck_assert_uint_le(made, MANY / BETWEEN);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, MANY);
}
END_TEST

/* Each loop: few; many that nobody is told of; many of one thread, which tells them itself. */
START_TEST(else_it_does_not)
{
    ends e = { 0 };
    hwt_timer *timer = create_driven(_i == 2 ? HWT_ONE_THREAD : 0, HWT_MS(1));
    ck_assert_uint_eq(offers_for(timer, _i == 1 ? &untold : &counting, &e, _i == 0 ? FEW : MANY),
                      0);
    hwt_timer_destroy(timer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: cancellers that are far ahead");
    TCase *tcase = add_case(suite, "far ahead");
    tcase_add_test(tcase, far_ahead_it_offers_its_processor_now_and_then);
    tcase_add_loop_test(tcase, else_it_does_not, 0, 3);
    return run_suite(suite);
}
