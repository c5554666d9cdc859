/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread that has cancelled very many timeouts which are to be told, and have not been, offers its
 * processor now and then to whoever waits for one: the worker, perhaps. It does not otherwise. How
 * often is counted, nothing is timed.
 */

#include "hwt/timer/timer.h"

#include "api_fixture.h"

enum { FEW = 20000, MANY = 200000, BETWEEN = 2000 };

static _Thread_local uint64_t offers;
static uint64_t offers_with_lock; /* while it has a lock that other threads may wait for */
static hwt_timer *watched;
static hwt_timeout timeouts[MANY];

/* With the linker's --wrap. */
int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
    offers++;
    if (watched) {
        pthread_mutex_t *lock = &watched->shared.lanes.shared_lock;
        bool locked = pthread_mutex_trylock(lock) != 0;
        offers_with_lock += locked;
        if (!locked)
            pthread_mutex_unlock(lock);
    }
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

static void cancel_many(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    for (int i = 0; i < MANY; i++)
        must(hwt_timeout_cancel(timeouts[i]));
    *(uint64_t *)arg = offers;
}

static const hwt_task cancels_many = { cancel_many, NULL };

/* The worker is this thread, and nobody else tells. */
START_TEST(a_task_does_not)
{
    ends e = { 0 };
    uint64_t made = UINT64_MAX;
    hwt_timer *timer = create_driven(0, HWT_MS(1));
    offers = 0;
    for (int i = 0; i < MANY; i++)
        timeouts[i] = arm(timer, &counting, &e, HWT_SEC(3600));
    (void)arm(timer, &cancels_many, &made, 0);
    ck_assert_uint_eq(hwt_timer_advance(timer, hwt_timer_now(timer) + HWT_MS(3)), 1);
    ck_assert_uint_eq(made, 0);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, MANY);
}
END_TEST

/* A thread without a number shares a lane, whose lock it has for the most of a call. */
START_TEST(with_a_lock_it_does_not)
{
    ends e = { 0 };
    watched = create_driven(0, HWT_MS(1));
    hwt_thread_number = HWT_THREAD_NONE;
    ck_assert_uint_ge(offers_for(watched, &counting, &e, MANY), 10);
    ck_assert_uint_eq(offers_with_lock, 0);
    hwt_timer_destroy(watched);
    watched = NULL;
    hwt_thread_number = 0;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: cancellers that are far ahead");
    TCase *tcase = add_case(suite, "far ahead");
    tcase_add_test(tcase, far_ahead_it_offers_its_processor_now_and_then);
    tcase_add_test(tcase, a_task_does_not);
    tcase_add_test(tcase, with_a_lock_it_does_not);
    tcase_add_loop_test(tcase, else_it_does_not, 0, 3);
    return run_suite(suite);
}
