/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The gate: asleep or not, with a futex and with a descriptor; no wake-up is lost. */

#include "hwt/inbox/gate.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "hwt/base/time.h"
#include "unit.h"

#define FENCES UINT32_C(4)

static _Atomic uint32_t flags;
static struct hwt_gate gate;

static void open_by_futex(void)
{
    atomic_store(&flags, ~FENCES | (hwt_gate_needs_fences() ? FENCES : 0));
    hwt_gate_init(&gate, CLOCK_MONOTONIC, &flags, FENCES);
}

static void open_watched(void)
{
    open_by_futex();
    ck_assert_int_eq(hwt_gate_open_fd(&gate), 0);
}

static void close_gate(void)
{
    hwt_gate_destroy(&gate);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return hwt_from_timespec(time);
}

static bool is_readable(int timeout)
{
    struct pollfd fd = { .fd = gate.fd, .events = POLLIN };
    return poll(&fd, 1, timeout) == 1;
}

static bool is_set(void)
{
    struct itimerspec at;
    must(timerfd_gettime(gate.fd, &at) == 0);
    return at.it_value.tv_sec > 0 || at.it_value.tv_nsec > 0;
}

/* ---- what is asked ---- */

static void park_gate(uint64_t wake_before)
{
    hwt_gate_begin(&gate);
    hwt_gate_close(&gate, wake_before);
}

START_TEST(while_it_is_open_nothing_asks_for_a_wake_up)
{
    ck_assert(!hwt_gate_is_long(&gate));
    ck_assert(!hwt_gate_asks(&gate, 0));
    ck_assert(!hwt_gate_asks(&gate, UINT64_MAX));
    hwt_gate_wake(&gate);
    ck_assert(!hwt_gate_is_long(&gate));
}
END_TEST

START_TEST(while_it_is_closed_only_what_is_earlier_asks)
{
    park_gate(1000);
    ck_assert(hwt_gate_is_long(&gate));
    ck_assert(hwt_gate_asks(&gate, 0));
    ck_assert(hwt_gate_asks(&gate, 999));
    ck_assert(!hwt_gate_asks(&gate, 1000));
    ck_assert(!hwt_gate_asks(&gate, UINT64_MAX));
    park_gate(UINT64_MAX);
    ck_assert(hwt_gate_asks(&gate, UINT64_MAX - 1));
    ck_assert(!hwt_gate_asks(&gate, UINT64_MAX)); /* what never comes */
    (void)hwt_gate_open(&gate);
    ck_assert(!hwt_gate_asks(&gate, 0));
    ck_assert(!hwt_gate_is_asleep(&gate));
}
END_TEST

START_TEST(closed_to_the_next_tick_nothing_asks_but_it_can_be_woken)
{
    hwt_gate_begin(&gate);
    ck_assert(!hwt_gate_is_long(&gate));
    ck_assert(!hwt_gate_asks(&gate, 0));
    ck_assert(hwt_gate_is_asleep(&gate));
    hwt_gate_wake(&gate);
    ck_assert(!hwt_gate_is_asleep(&gate));
    hwt_gate_sleep(&gate, UINT64_MAX);
}
END_TEST

START_TEST(a_wake_opens_it)
{
    park_gate(1000);
    hwt_gate_wake(&gate);
    ck_assert(!hwt_gate_is_long(&gate));
    ck_assert(!hwt_gate_asks(&gate, 0));
}
END_TEST

START_TEST(a_barrier_is_there_or_fences_are)
{
    uint32_t before = flags;
    hwt_gate_barrier(&gate);
    ck_assert_uint_eq(flags, before);
    ck_assert(hwt_gate_is_fenced(&gate) == hwt_gate_needs_fences());
    atomic_store(&flags, UINT32_MAX);
    ck_assert(hwt_gate_is_fenced(&gate));
    hwt_gate_barrier(&gate);
    ck_assert_uint_eq(flags, UINT32_MAX);
}
END_TEST

/* ---- sleeping ---- */

/* The test would hang else. */
START_TEST(a_wake_between_closing_and_sleeping_is_not_lost)
{
    for (int i = 0; i < 100; i++) {
        park_gate(UINT64_MAX);
        hwt_gate_wake(&gate);
        hwt_gate_sleep(&gate, UINT64_MAX);
        (void)hwt_gate_open(&gate);
    }
}
END_TEST

START_TEST(it_sleeps_until_the_instant_and_not_beyond_one_that_has_passed)
{
    static const uint64_t past[] = { 0, 1, HWT_SECOND };
    for (int i = 0; i < 3; i++) {
        park_gate(UINT64_MAX);
        hwt_gate_sleep(&gate, past[i]);
        (void)hwt_gate_open(&gate);
    }
    uint64_t until = now() + 20000000;
    park_gate(until);
    while (now() < until) /* it may return early, for nothing */
        hwt_gate_sleep(&gate, until);
    (void)hwt_gate_open(&gate);
}
END_TEST

/* A sleeper that closes the gate again and again, wakers that see it closed and wake it: each sees
 * that its wake-up arrived, or this hangs. */
enum { WAKERS = 3, TIMES = 2000 };

static _Atomic uint32_t wanted[WAKERS]; /* by each waker: what the sleeper must answer */
static _Atomic uint32_t answered[WAKERS];

static bool answer_all(void)
{
    bool any = false;
    for (int i = 0; i < WAKERS; i++) {
        uint32_t want = atomic_load(&wanted[i]);
        any |= atomic_exchange(&answered[i], want) != want;
    }
    return any;
}

static bool all_over(void)
{
    for (int i = 0; i < WAKERS; i++) {
        if (atomic_load(&wanted[i]) != TIMES)
            return false;
    }
    return true;
}

static void *sleep_and_answer(void *data)
{
    while (!all_over()) {
        park_gate(UINT64_MAX);
        hwt_gate_barrier(&gate);
        if (!answer_all() && !all_over())
            hwt_gate_sleep(&gate, UINT64_MAX);
        (void)hwt_gate_open(&gate);
        answer_all();
    }
    answer_all();
    return data;
}

static void *want_and_wake(void *data)
{
    _Atomic uint32_t *own = data;
    for (uint32_t i = 1; i <= TIMES; i++) {
        atomic_store(own, i);
        if (hwt_gate_asks(&gate, 5))
            hwt_gate_wake(&gate);
        while (atomic_load(&answered[own - wanted]) != i)
            sched_yield();
    }
    return NULL;
}

START_TEST(no_wake_up_of_several_threads_is_lost)
{
    pthread_t wakers[WAKERS];
    pthread_t sleeper = spawn(sleep_and_answer, NULL);
    for (int i = 0; i < WAKERS; i++)
        wakers[i] = spawn(want_and_wake, (void *)&wanted[i]);
    for (int i = 0; i < WAKERS; i++)
        join(wakers[i]);
    join(sleeper);
}
END_TEST

/* ---- the descriptor ---- */

START_TEST(it_is_opened_once)
{
    int fd = gate.fd;
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(hwt_gate_open_fd(&gate), 0);
    ck_assert_int_eq(gate.fd, fd);
}
END_TEST

START_TEST(a_clock_that_no_descriptor_knows_is_an_error)
{
    struct hwt_gate other;
    hwt_gate_init(&other, CLOCK_PROCESS_CPUTIME_ID, &flags, FENCES);
    ck_assert_int_eq(hwt_gate_open_fd(&other), -EINVAL);
    ck_assert_int_eq(other.fd, -1);
    hwt_gate_destroy(&other);
}
END_TEST

START_TEST(it_becomes_readable_when_it_is_told)
{
    ck_assert(!is_readable(0));
    hwt_gate_set_fd(&gate, 0, false); /* the first instant, not "never" */
    ck_assert(is_readable(10000));
    hwt_gate_set_fd(&gate, UINT64_MAX, false);
    ck_assert(!is_readable(0));
    hwt_gate_set_fd(&gate, 1, true);
    ck_assert(is_readable(10000));
    hwt_gate_set_fd(&gate, now() + 1000 * HWT_SECOND, false);
    ck_assert(is_set() && !is_readable(0));
    hwt_gate_set_fd(&gate, 1000 * HWT_SECOND, true);
    ck_assert(is_set() && !is_readable(0));
    hwt_gate_set_fd(&gate, 0, true);
    ck_assert(is_readable(10000));
}
END_TEST

START_TEST(a_wake_makes_it_readable_only_if_it_was_closed)
{
    hwt_gate_wake(&gate);
    ck_assert(!is_readable(0) && !is_set());
    park_gate(1000);
    hwt_gate_wake(&gate);
    ck_assert(is_readable(10000));
    hwt_gate_set_fd(&gate, UINT64_MAX, false);
    hwt_gate_wake(&gate); /* somebody has done it already */
    ck_assert(!is_readable(0) && !is_set());
}
END_TEST

START_TEST(once_quiet_no_late_waker_makes_it_readable)
{
    park_gate(1000);
    hwt_gate_wake(&gate);
    ck_assert(is_readable(10000));
    hwt_gate_quiet(&gate);
    ck_assert(!is_readable(0) && !is_set());
    for (int i = 0; i < 3; i++) {
        park_gate(1000);
        hwt_gate_wake(&gate);
        ck_assert(!is_set() && !is_readable(0));
    }
}
END_TEST

static _Atomic bool go;

static void *wake_when_told(void *data)
{
    while (!go)
        ;
    hwt_gate_wake(&gate);
    return data;
}

START_TEST(quiet_and_wakers_at_once_leave_it_quiet)
{
    for (int i = 0; i < 300; i++) {
        atomic_store(&gate.quiet, false);
        park_gate(1000);
        go = false;
        pthread_t a = spawn(wake_when_told, NULL), b = spawn(wake_when_told, NULL);
        go = true;
        hwt_gate_quiet(&gate);
        join(a);
        join(b);
        must(!is_set() && !is_readable(0));
    }
}
END_TEST

START_TEST(in_a_child_it_is_another_one_by_the_same_number)
{
    int number = gate.fd, old = dup(number);
    hwt_gate_renew_fd(&gate);
    ck_assert_int_eq(gate.fd, number);
    hwt_gate_set_fd(&gate, 1, true);
    ck_assert(is_readable(10000));
    struct pollfd before = { .fd = old, .events = POLLIN };
    ck_assert_int_eq(poll(&before, 1, 0), 0);
    ck_assert_int_ne(fcntl(number, F_GETFD) & FD_CLOEXEC, 0);
    close(old);
}
END_TEST

START_TEST(in_a_child_there_is_none_where_there_was_none)
{
    hwt_gate_renew_fd(&gate);
    ck_assert_int_eq(gate.fd, -1);
}
END_TEST

/* ---- instants for the system ---- */

START_TEST(instants_go_to_the_system_and_back)
{
    static const uint64_t instants[] = { 0, 1, 999999999, HWT_SECOND, 123456789012345678 };
    for (int i = 0; i < 5; i++) {
        struct timespec at = hwt_timespec(instants[i]);
        ck_assert_uint_eq(hwt_from_timespec(at), instants[i]);
        ck_assert(at.tv_nsec >= 0 && at.tv_nsec < 1000000000);
    }
    struct timespec most = hwt_timespec(UINT64_MAX);
    ck_assert(most.tv_sec > 0 && most.tv_nsec >= 0 && most.tv_nsec < 1000000000);
    if (sizeof(time_t) < sizeof(int64_t))
        ck_assert(most.tv_sec == (time_t)INT32_MAX);
    else
        ck_assert_uint_eq(hwt_from_timespec(most), UINT64_MAX);
}
END_TEST

START_TEST(sums_and_differences_stop_at_the_ends)
{
    ck_assert_uint_eq(hwt_saturating_add(UINT64_MAX - 1, 1), UINT64_MAX);
    ck_assert_uint_eq(hwt_saturating_add(UINT64_MAX, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(hwt_saturating_add(1, 2), 3);
    ck_assert_uint_eq(hwt_saturating_sub(1, 2), 0);
    ck_assert_uint_eq(hwt_saturating_sub(UINT64_MAX, 1), UINT64_MAX - 1);
}
END_TEST

static void add_sleeps(TCase *tcase)
{
    tcase_add_test(tcase, a_wake_between_closing_and_sleeping_is_not_lost);
    tcase_add_test(tcase, it_sleeps_until_the_instant_and_not_beyond_one_that_has_passed);
    tcase_add_test(tcase, no_wake_up_of_several_threads_is_lost);
    tcase_add_test(tcase, closed_to_the_next_tick_nothing_asks_but_it_can_be_woken);
}

int main(void)
{
    Suite *suite = suite_create("gate");
    TCase *asked = unit_case(suite, "asked", open_by_futex, close_gate);
    tcase_add_test(asked, while_it_is_open_nothing_asks_for_a_wake_up);
    tcase_add_test(asked, while_it_is_closed_only_what_is_earlier_asks);
    tcase_add_test(asked, a_wake_opens_it);
    tcase_add_test(asked, a_barrier_is_there_or_fences_are);
    add_sleeps(unit_case(suite, "futex", open_by_futex, close_gate));
    TCase *watched = unit_case(suite, "watched descriptor", open_watched, close_gate);
    tcase_add_test(watched, it_is_opened_once);
    tcase_add_test(watched, a_clock_that_no_descriptor_knows_is_an_error);
    tcase_add_test(watched, it_becomes_readable_when_it_is_told);
    tcase_add_test(watched, a_wake_makes_it_readable_only_if_it_was_closed);
    tcase_add_test(watched, once_quiet_no_late_waker_makes_it_readable);
    tcase_add_test(watched, quiet_and_wakers_at_once_leave_it_quiet);
    tcase_add_test(watched, in_a_child_it_is_another_one_by_the_same_number);
    tcase_add_test(asked, in_a_child_there_is_none_where_there_was_none);
    TCase *instants = unit_case(suite, "instants", NULL, NULL);
    tcase_add_test(instants, instants_go_to_the_system_and_back);
    tcase_add_test(instants, sums_and_differences_stop_at_the_ends);
    return run_suite(suite);
}
