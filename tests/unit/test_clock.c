/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Now, sums that saturate, and the gate, one step of its protocol at a time. */

#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include "room_fixture.h"

static hwt_timer *timer;
static struct room room;

static void open_real(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    ck_assert_int_eq(hwt_timer_create(&options, &timer), 0);
    ck_assert_int_eq(timer->gate.fd, -1);
    ck_assert_int_eq(hwt_gate_open_fd(timer), 0);
}

static void open_set(void)
{
    room_open(&room, 1000, HWT_MS(1), 8);
    timer = room.timer;
    ck_assert_int_eq(hwt_gate_open_fd(timer), 0);
}

/* With a worker, which is never started: its descriptor blocks. */
static void open_blocking(void)
{
    ck_assert_int_eq(hwt_timer_create(NULL, &timer), 0);
    ck_assert_int_ge(timer->gate.fd, 0);
}

static void close_timer(void)
{
    hwt_timer_destroy(timer);
}

static void expect_gate(uint64_t wake_before)
{
    ck_assert_uint_eq(timer->gate.wake_before, wake_before);
}

static bool readable(int timeout)
{
    struct pollfd fd = { .fd = timer->gate.fd, .events = POLLIN };
    return poll(&fd, 1, timeout) == 1;
}

/* It is due: let the kernel take its time over it. */
static void expect_readable(void)
{
    ck_assert(readable(30000));
}

static void expect_quiet(void)
{
    ck_assert(!readable(0));
}

/* ---- time ---- */

START_TEST(sums_saturate)
{
    ck_assert_uint_eq(hwt_saturating_add(0, 0), 0);
    ck_assert_uint_eq(hwt_saturating_add(1, 2), 3);
    ck_assert_uint_eq(hwt_saturating_add(UINT64_MAX, 0), UINT64_MAX);
    ck_assert_uint_eq(hwt_saturating_add(UINT64_MAX - 1, 1), UINT64_MAX);
    ck_assert_uint_eq(hwt_saturating_add(UINT64_MAX, 1), UINT64_MAX);
    ck_assert_uint_eq(hwt_saturating_add(2, UINT64_MAX - 1), UINT64_MAX);
    ck_assert_uint_eq(hwt_saturating_add(UINT64_MAX, UINT64_MAX), UINT64_MAX);
}
END_TEST

START_TEST(a_deadline_is_counted_from_the_clock_that_was_given)
{
    ck_assert_uint_eq(hwt_timer_now(timer), 1000);
    ck_assert_uint_eq(hwt_clock_after(timer, 0), 1000);
    ck_assert_uint_eq(hwt_clock_after(timer, 234), 1234);
    ck_assert_uint_eq(hwt_clock_after(timer, UINT64_MAX - 1000), HWT_NEVER);
    ck_assert_uint_eq(hwt_clock_after(timer, HWT_NEVER), HWT_NEVER);
    atomic_store(&room.now, UINT64_MAX);
    ck_assert_uint_eq(hwt_clock_after(timer, 0), HWT_NEVER);
}
END_TEST

START_TEST(now_is_a_reading_of_the_clock)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    uint64_t now = hwt_timer_now(timer);
    clock_gettime(CLOCK_MONOTONIC, &after);
    ck_assert_uint_ge(now, HWT_SEC(before.tv_sec) + (uint64_t)before.tv_nsec);
    ck_assert_uint_le(now, HWT_SEC(after.tv_sec) + (uint64_t)after.tv_nsec);
    ck_assert_uint_eq(hwt_timer_now(NULL), 0);
}
END_TEST

/* ---- the gate ---- */

START_TEST(an_awake_worker_is_not_woken)
{
    expect_gate(HWT_GATE_AWAKE);
    hwt_gate_wake(timer);
    expect_quiet();
}
END_TEST

START_TEST(closing_says_until_when_and_never_by_accident_awake)
{
    static const uint64_t instants[][2] = {
        { 0, HWT_GATE_SHORT }, { 1, HWT_GATE_SHORT },    { 2, 2 },
        { 4711, 4711 },        { HWT_NEVER, HWT_NEVER },
    };
    for (size_t i = 0; i < sizeof(instants) / sizeof(*instants); i++) {
        hwt_gate_close(timer, instants[i][0]);
        expect_gate(instants[i][1]);
    }
    hwt_gate_awake(timer);
    expect_gate(HWT_GATE_AWAKE);
    expect_quiet();
}
END_TEST

START_TEST(a_closed_gate_can_be_shortened_an_open_one_stays_open)
{
    hwt_gate_shorten(timer);
    expect_gate(HWT_GATE_AWAKE);
    hwt_gate_close(timer, HWT_NEVER);
    for (int i = 0; i < 2; i++) {
        hwt_gate_shorten(timer);
        expect_gate(HWT_GATE_SHORT);
    }
    hwt_gate_wake(timer);
    expect_gate(HWT_GATE_AWAKE);
    expect_readable();
}
END_TEST

START_TEST(who_was_woken_before_arming_stays_awake)
{
    hwt_gate_close(timer, HWT_NEVER);
    hwt_gate_wake(timer);
    ck_assert(!hwt_gate_arm(timer, HWT_NEVER));
    hwt_gate_close(timer, HWT_NEVER);
    ck_assert(hwt_gate_arm(timer, HWT_NEVER));
}
END_TEST

START_TEST(a_wake_after_arming_overrides_the_instant)
{
    hwt_gate_close(timer, HWT_NEVER);
    ck_assert(hwt_gate_arm(timer, hwt_clock_after(timer, HWT_MIN(60))));
    expect_quiet();
    hwt_gate_wake(timer);
    expect_gate(HWT_GATE_AWAKE);
    expect_readable();
}
END_TEST

START_TEST(of_two_wakes_one_makes_the_call)
{
    hwt_gate_close(timer, HWT_NEVER);
    hwt_gate_wake(timer);
    expect_readable();
    ck_assert(!hwt_gate_arm(timer, HWT_NEVER)); /* quiet again, but awake */
    hwt_gate_wake(timer);
    expect_quiet();
}
END_TEST

START_TEST(an_instant_that_has_passed_is_due_at_once)
{
    uint64_t instants[] = { 0, 1, hwt_timer_now(timer) - 1, hwt_timer_now(timer) };
    for (size_t i = 0; i < sizeof(instants) / sizeof(*instants); i++) {
        hwt_gate_close(timer, HWT_NEVER);
        ck_assert(hwt_gate_arm(timer, instants[i]));
        expect_readable();
        ck_assert(hwt_gate_arm(timer, HWT_NEVER));
        expect_quiet();
    }
}
END_TEST

START_TEST(an_instant_to_come_is_not_due_however_far)
{
    uint64_t instants[] = { hwt_clock_after(timer, HWT_MIN(60)), UINT64_MAX / 2, UINT64_MAX - 1,
                            HWT_NEVER };
    for (size_t i = 0; i < sizeof(instants) / sizeof(*instants); i++) {
        hwt_gate_close(timer, HWT_NEVER);
        ck_assert(hwt_gate_arm(timer, instants[i]));
        expect_quiet();
    }
}
END_TEST

START_TEST(a_watched_descriptor_does_not_block_and_none_survives_exec)
{
    ck_assert_int_ne(fcntl(timer->gate.fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(timer->gate.fd, F_GETFD) & FD_CLOEXEC, 0);
    hwt_gate_sleep(timer); /* so this returns */
}
END_TEST

START_TEST(a_worker_sleeps_in_its_descriptor_until_it_fires)
{
    ck_assert_int_eq(fcntl(timer->gate.fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(timer->gate.fd, F_GETFD) & FD_CLOEXEC, 0);
    hwt_gate_fire(timer);
    hwt_gate_sleep(timer);
    expect_quiet();
}
END_TEST

/* ---- the worker parks, producers wake it ---- */

#define TICK HWT_MS(1)

static void open_parking(void)
{
    room_open(&room, 0, TICK, 64);
    timer = room.timer;
    ck_assert_int_eq(hwt_gate_open_fd(timer), 0);
}

static void nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static hwt_timeout add(uint64_t deadline)
{
    static const hwt_task task = { nothing, NULL };
    hwt_timeout timeout;
    must(hwt_timer_new_timeout_at(timer, &task, NULL, deadline, &timeout) == 0);
    return timeout;
}

static void pass(uint64_t now)
{
    atomic_store(&room.now, now);
    hwt_worker_pass(timer, now);
}

START_TEST(it_parks_until_the_next_tick_with_work)
{
    ck_assert(hwt_worker_park(timer));
    expect_gate(HWT_NEVER);
    hwt_gate_awake(timer);
    add(5 * TICK + 3);
    pass(0);
    ck_assert(hwt_worker_park(timer));
    expect_gate(5 * TICK);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), 6 * TICK);
    hwt_gate_awake(timer);
    pass(5 * TICK + 1);
    ck_assert(hwt_worker_park(timer)); /* for less than a tick: nothing can come earlier */
    expect_gate(HWT_GATE_SHORT);
}
END_TEST

START_TEST(it_parks_for_a_tick_where_some_were_cancelled)
{
    hwt_timeout timeout = add(50 * TICK);
    pass(0);
    ck_assert(hwt_timeout_cancel(timeout));
    pass(TICK);
    ck_assert(hwt_worker_park(timer));
    expect_gate(HWT_GATE_SHORT);
    hwt_gate_awake(timer);
    pass(2 * TICK);
    ck_assert(hwt_worker_park(timer));
    expect_gate(HWT_NEVER);
}
END_TEST

START_TEST(only_what_is_due_earlier_opens_the_gate)
{
    add(50 * TICK);
    pass(0);
    ck_assert(hwt_worker_park(timer));
    expect_gate(50 * TICK);
    hwt_timeout timeout = add(50 * TICK);
    add(HWT_NEVER);
    expect_gate(50 * TICK);
    must(hwt_timeout_reschedule_at(timeout, 60 * TICK));
    expect_gate(50 * TICK);
    must(hwt_timeout_reschedule_at(timeout, 50 * TICK - 1));
    expect_gate(HWT_GATE_AWAKE);
    pass(TICK);
    ck_assert(hwt_worker_park(timer));
    expect_gate(49 * TICK);
    add(49 * TICK - 1);
    expect_gate(HWT_GATE_AWAKE);
}
END_TEST

START_TEST(a_cancel_opens_the_gate_of_one_that_sleeps_for_long_only)
{
    enum { N = 100000 };
    static hwt_timeout timeouts[N];
    for (int i = 0; i < N; i++)
        timeouts[i] = add(50 * TICK);
    pass(0);
    ck_assert(hwt_worker_park(timer));
    must(hwt_timeout_cancel(timeouts[0]));
    expect_gate(HWT_GATE_AWAKE);
    pass(TICK);
    ck_assert(hwt_worker_park(timer));
    expect_gate(HWT_GATE_SHORT);
    size_t n = 1;
    while (n < N && timer->gate.wake_before == HWT_GATE_SHORT)
        must(hwt_timeout_cancel(timeouts[n++]));
    ck_assert_uint_gt(n, 1000); /* a backlog is not left for the tick */
    ck_assert_uint_lt(n, N);
    expect_gate(HWT_GATE_AWAKE);
}
END_TEST

/* ---- no wake-up is lost ---- */

enum { ITEMS = 20000 };

static _Atomic uint64_t produced, consumed;

/* As the worker does, with a counter in the place of its queues. */
static void *consume(void *data)
{
    (void)data;
    while (atomic_load(&consumed) < ITEMS) {
        atomic_store(&consumed, atomic_load(&produced));
        hwt_gate_close(timer, HWT_NEVER);
        if (atomic_load(&produced) == atomic_load(&consumed) && atomic_load(&consumed) < ITEMS &&
            hwt_gate_arm(timer, HWT_NEVER))
            hwt_gate_sleep(timer);
        hwt_gate_awake(timer);
    }
    return NULL;
}

START_TEST(no_wake_up_is_lost)
{
    uint64_t random = test_seed();
    pthread_t thread = spawn(consume, NULL);
    for (uint64_t i = 1; i <= ITEMS; i++) {
        atomic_store(&produced, i);
        hwt_gate_wake(timer);
        if (test_random(&random) % 4 == 0) { /* now and then let it fall asleep */
            while (atomic_load(&consumed) < i)
                sched_yield();
        }
    }
    join(thread); /* one that was lost is a hang */
    ck_assert_uint_eq(consumed, ITEMS);
}
END_TEST

static void add_gate_tests(TCase *tcase)
{
    tcase_add_test(tcase, an_awake_worker_is_not_woken);
    tcase_add_test(tcase, closing_says_until_when_and_never_by_accident_awake);
    tcase_add_test(tcase, a_closed_gate_can_be_shortened_an_open_one_stays_open);
    tcase_add_test(tcase, who_was_woken_before_arming_stays_awake);
    tcase_add_test(tcase, a_wake_after_arming_overrides_the_instant);
    tcase_add_test(tcase, of_two_wakes_one_makes_the_call);
    tcase_add_test(tcase, an_instant_that_has_passed_is_due_at_once);
    tcase_add_test(tcase, an_instant_to_come_is_not_due_however_far);
}

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *set = room_case(suite, "set", open_set, close_timer);
    tcase_add_test(set, sums_saturate);
    tcase_add_test(set, a_deadline_is_counted_from_the_clock_that_was_given);
    add_gate_tests(set);
    TCase *real = room_case(suite, "real", open_real, close_timer);
    tcase_add_test(real, now_is_a_reading_of_the_clock);
    add_gate_tests(real);
    tcase_add_test(real, a_watched_descriptor_does_not_block_and_none_survives_exec);
    TCase *park = room_case(suite, "park", open_parking, close_timer);
    tcase_add_test(park, it_parks_until_the_next_tick_with_work);
    tcase_add_test(park, it_parks_for_a_tick_where_some_were_cancelled);
    tcase_add_test(park, only_what_is_due_earlier_opens_the_gate);
    tcase_add_test(park, a_cancel_opens_the_gate_of_one_that_sleeps_for_long_only);
    TCase *blocking = room_case(suite, "blocking", open_blocking, close_timer);
    tcase_add_test(blocking, a_worker_sleeps_in_its_descriptor_until_it_fires);
    tcase_add_test(blocking, no_wake_up_is_lost);
    return run_suite(suite);
}
