/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Timeouts that are very many turns of the wheel away: they keep their order, are seen by
 * hwt_timer_next_tick() at their own tick and not before, and are not looked at on the way. And
 * the last instant, HWT_NEVER.
 */

#include "api_fixture.h"

/* ---- what ran, in order ---- */

enum { MANY = 400 };

typedef struct record {
    uint64_t deadline; /* since the start */
    size_t order;      /* of adding */
    hwt_timeout timeout;
    bool cancelled;
    unsigned runs;
} record;

static manual m;
static uint64_t tick;
static record records[MANY];
static size_t count;
static record *ran[MANY];
static size_t ran_count;

static void note_run(hwt_timeout timeout, void *arg)
{
    record *r = arg;
    (void)timeout;
    must(!r->cancelled && r->runs == 0 && ran_count < MANY);
    must(m.now - m.start >= r->deadline);
    r->runs++;
    ran[ran_count++] = r;
}

static const hwt_task noting = { note_run, NULL };

static void open_wheel(uint64_t tick_duration, uint32_t wheel)
{
    tick = tick_duration;
    count = ran_count = 0;
    manual_open(&m, HWT_SEC(9), tick, wheel);
}

static void add_at(uint64_t deadline)
{
    record *r = &records[count];
    *r = (record){ .deadline = deadline, .order = count };
    count++;
    must(hwt_timer_new_timeout_at(m.timer, &noting, r, m.start + deadline, &r->timeout) == 0);
}

/* By tick, and in one tick by the order of adding. A late one, added when its tick was over,
 * belongs to the tick of then: the tests below add none. */
static void assert_order(void)
{
    for (size_t i = 1; i < ran_count; i++) {
        uint64_t before = ran[i - 1]->deadline / tick, after = ran[i]->deadline / tick;
        if (before > after || (before == after && ran[i - 1]->order > ran[i]->order))
            ck_abort_msg("number %zu (tick %" PRIu64 ") ran before number %zu (tick %" PRIu64 ")",
                         ran[i - 1]->order, before, ran[i]->order, after);
    }
}

/* All that is due has run, once, and nothing else has. */
static void assert_ran_what_was_due(void)
{
    size_t due = 0;
    uint64_t ticks = (m.now - m.start) / tick;
    for (size_t i = 0; i < count; i++)
        if (!records[i].cancelled && records[i].deadline / tick < ticks)
            due++;
    ck_assert_uint_eq(ran_count, due);
    assert_order();
}

/* ---- order across 2^31 turns, and 2^32 ---- */

/* Each loop: so many turns, and the wheel. */
static const uint64_t turns[] = { UINT64_C(1) << 16, UINT64_C(1) << 24, UINT64_C(1) << 31,
                                  UINT64_C(1) << 32, UINT64_C(3) << 32, UINT64_C(1) << 34 };

enum { TURNS = sizeof(turns) / sizeof(turns[0]), WHEELS = 3 };

START_TEST(two_of_one_far_tick_start_in_the_order_they_were_added)
{
    uint32_t wheel = UINT32_C(1) << (_i % WHEELS * 3);
    uint64_t far = turns[_i / WHEELS] * wheel + 1000;
    open_wheel(HWT_US(1), wheel);
    add_at(far * tick);
    manual_go(&m, 5000 * tick);
    add_at(far * tick);
    manual_go(&m, (far + 1) * tick);
    assert_ran_what_was_due();
    manual_close(&m);
}
END_TEST

/* The second is added at each of many distances. */
START_TEST(one_tick_collects_what_is_added_on_the_way_in_order)
{
    uint32_t wheel = UINT32_C(1) << (_i % WHEELS * 3);
    uint64_t far = turns[_i / WHEELS] * wheel + 1000;
    open_wheel(HWT_US(1), wheel);
    for (uint64_t at = 1; at < far; at += at / 4 + 1) {
        add_at(far * tick);
        manual_go(&m, at * tick);
    }
    manual_go(&m, (far + 1) * tick);
    assert_ran_what_was_due();
    ck_assert_uint_gt(ran_count, 10);
    manual_close(&m);
}
END_TEST

static uint64_t random_far(uint64_t *seed, uint64_t wheel)
{
    uint64_t base = turns[test_random(seed) % TURNS] * wheel;
    return base + test_random(seed) % 9 * wheel + test_random(seed) % 3;
}

/* Beside the oracle: a list that is searched. */
START_TEST(far_ones_run_in_order_whatever_the_leaps)
{
    uint64_t seed = test_seed() + (uint64_t)_i;
    uint32_t wheel = UINT32_C(1) << test_random(&seed) % 7;
    uint64_t last = 0;
    open_wheel(HWT_US(1), wheel);
    for (int i = 0; i < MANY; i++) {
        uint64_t far = random_far(&seed, wheel), now = (m.now - m.start) / tick;
        far = far > now ? far : now; /* few ticks, so that many share one */
        last = far > last ? far : last;
        add_at(far * tick);
        if (test_random(&seed) % 4 == 0)
            manual_go(&m, m.now - m.start + random_far(&seed, wheel) / 256 * tick);
        assert_ran_what_was_due();
    }
    manual_go(&m, (last + 1) * tick);
    assert_ran_what_was_due();
    ck_assert_uint_eq(ran_count, MANY);
    manual_close(&m);
}
END_TEST

/* ---- the price of a leap ---- */

/* ---- what is added on the way ---- */

static void add_when_told(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    add_at(*(uint64_t *)arg);
}

/* It belongs to the next pass, however far this one goes. */
START_TEST(what_a_cancelled_adds_does_not_run_in_the_pass_that_has_told_it)
{
    static const hwt_task telling = { note_run, add_when_told };
    const uint64_t leap = (UINT64_C(1) << (26 + _i)) * 1000;
    uint64_t deadline = leap - 1;
    open_wheel(1000, _i % 2 ? 1 : 64);
    hwt_timeout told = arm(m.timer, &telling, &deadline, HWT_NEVER / 2);
    must(hwt_timeout_cancel(told));
    ck_assert_uint_eq(manual_go(&m, leap), 0);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(manual_go(&m, leap + tick), 1);
    manual_close(&m);
}
END_TEST

/*
 * The deadlines of these are known, so a loop that sleeps to hwt_timer_next_tick() wakes once for
 * each tick that has one; what wakes it on the way, once or twice, is not by the turns gone by.
 */
START_TEST(a_loop_is_not_woken_on_the_way_to_a_far_one)
{
    static const struct {
        uint32_t wheel;
        int timeouts;
        uint64_t years;
    } cases[] = { { 64, 100, 100 }, { 1, 100, 10 }, { 1, 1, 500 }, { 512, 300, 100 } };
    const uint64_t year = HWT_SEC(31556952);
    uint64_t next, visits = 0;
    open_wheel(HWT_US(1), cases[_i].wheel);
    for (int i = 0; i < cases[_i].timeouts; i++)
        add_at(cases[_i].years * year + (uint64_t)i * tick);
    while ((next = hwt_timer_next_tick(m.timer)) != HWT_NEVER && visits < 10 * MANY) {
        manual_go(&m, next - m.start);
        visits++;
    }
    assert_ran_what_was_due();
    ck_assert_uint_ge(visits, (uint64_t)cases[_i].timeouts);
    ck_assert_uint_le(visits, (uint64_t)cases[_i].timeouts + 2);
    manual_close(&m);
}
END_TEST

/* ---- most of a small wheel's timeouts cancelled before the leap ---- */

enum { KEPT = 30 };

static void cancel_all_but(size_t kept, uint64_t *seed)
{
    for (size_t left = count; left > kept;) {
        record *r = &records[test_random(seed) % count];
        if (r->cancelled)
            continue;
        r->cancelled = true;
        must(hwt_timeout_cancel(r->timeout));
        left--;
    }
}

/* Each loop: a wheel of 1 to 16 ticks, filed before the cancels or not, the leap in one or two. */
START_TEST(the_few_that_were_not_cancelled_run_after_a_leap)
{
    uint64_t seed = test_seed() + (uint64_t)_i;
    uint32_t wheel = UINT32_C(1) << _i % 5;
    uint64_t rounds = _i % 3 == 0 ? 40 : _i % 3 == 1 ? 100000 : UINT64_C(1) << 33;
    open_wheel(HWT_MS(1), wheel);
    size_t wanted = 101 + test_random(&seed) % (MANY - 101);
    while (count < wanted)
        add_at((1 + test_random(&seed) % (rounds * wheel)) * tick);
    if (_i % 2)
        (void)hwt_timer_next_tick(m.timer);
    cancel_all_but(KEPT, &seed);
    if (_i % 4 == 3)
        manual_go(&m, rounds / 2 * wheel * tick);
    assert_ran_what_was_due();
    manual_go(&m, (rounds * wheel + 2) * tick);
    assert_ran_what_was_due();
    ck_assert_uint_eq(ran_count, KEPT);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 0);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    manual_close(&m);
}
END_TEST

/* ---- HWT_NEVER as the instant to advance to ---- */

/*
 * All instants but HWT_NEVER itself are before it. So an advance to it runs all that has
 * another deadline, and, as time does not go back, what is added afterwards is due at the next call.
 */
START_TEST(after_an_advance_to_never_what_is_added_runs_at_the_next_call)
{
    static const uint64_t delays[] = { 0, HWT_MS(1), HWT_SEC(3600), HWT_NEVER / 2 };
    ends e = { 0 };
    manual_open(&m, HWT_SEC(9), HWT_MS(1), 64);
    arm(m.timer, &counting, &e, HWT_SEC(5));
    arm(m.timer, &counting, &e, HWT_NEVER);
    ck_assert_uint_eq(hwt_timer_advance(m.timer, HWT_NEVER), 1);
    for (uint64_t i = 1; i <= 12; i++) {
        arm(m.timer, &counting, &e, delays[i % 4]);
        ck_assert_uint_eq(e.runs, i);
        ck_assert_uint_ne(hwt_timer_next_tick(m.timer), HWT_NEVER);
        ck_assert_uint_eq(i % 2 ? hwt_timer_dispatch(m.timer) : manual_go(&m, HWT_MS(i)), 1);
    }
    ck_assert_uint_eq(e.runs, 13);
    ck_assert_uint_eq(hwt_timer_pending(m.timer), 1);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    manual_close(&m);
    ck_assert_uint_eq(e.cancelled, 1);
}
END_TEST

START_TEST(after_an_advance_to_never_the_descriptor_still_tells)
{
    ends e = { 0 };
    manual_open(&m, HWT_SEC(9), HWT_MS(1), 64);
    int fd = hwt_timer_fd(m.timer);
    hwt_timer_advance(m.timer, HWT_NEVER);
    ck_assert(!readable(fd, 20));
    arm(m.timer, &counting, &e, 0);
    ck_assert(readable(fd, 20000));
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 1);
    ck_assert(!readable(fd, 20));
    manual_close(&m);
}
END_TEST

static void rearm(hwt_timeout timeout, void *arg)
{
    ((ends *)arg)->runs++;
    (void)(((ends *)arg)->runs % 2 ? hwt_timeout_repeat(timeout, HWT_MS(1))
                                   : hwt_timeout_reschedule(timeout, HWT_MS(1)));
}

START_TEST(one_that_rearms_itself_runs_once_in_each_advance_to_never)
{
    static const hwt_task rearming = { rearm, NULL };
    ends e = { 0 };
    manual_open(&m, HWT_SEC(9), HWT_MS(1), 64);
    arm(m.timer, &rearming, &e, 0);
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert_uint_le(hwt_timer_advance(m.timer, HWT_NEVER), 1);
        ck_assert_uint_le(e.runs, i);
    }
    ck_assert_uint_ge(e.runs, 1);
    manual_close(&m);
}
END_TEST

/* As long as the clock goes on behind it, moves and cancels do as ever. */
START_TEST(after_an_advance_to_never_handles_do_as_ever)
{
    ends e = { 0 };
    manual_open(&m, HWT_SEC(9), HWT_MS(1), 64);
    hwt_timer_advance(m.timer, HWT_NEVER);
    hwt_timeout moved = arm(m.timer, &counting, &e, HWT_SEC(1));
    hwt_timeout cancelled = arm(m.timer, &counting, &e, HWT_SEC(1));
    ck_assert(hwt_timeout_reschedule(moved, HWT_NEVER));
    ck_assert(hwt_timeout_cancel(cancelled));
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 0);
    ck_assert(hwt_timeout_reschedule(moved, HWT_SEC(1)));
    ck_assert_uint_eq(hwt_timer_dispatch(m.timer), 1);
    ck_assert(e.runs == 1 && e.cancelled == 1);
    manual_close(&m);
}
END_TEST

/* ---- instants that a system's time cannot name ---- */

/* Past 2038, and past what 32 bits of seconds hold. */
static const uint64_t far_delays[] = { HWT_SEC(INT32_MAX), HWT_SEC(UINT32_MAX),
                                       HWT_SEC(UINT32_MAX) + HWT_SEC(UINT32_MAX) / 3, INT64_MAX,
                                       HWT_NEVER - 1 };

enum { FAR_DELAYS = sizeof(far_delays) / sizeof(far_delays[0]) };

/* Each loop: as the only one, and behind a near one. */
START_TEST(a_worker_sleeps_through_far_instants)
{
    ends e = { 0 };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    if (_i % 2)
        arm(timer, &counting, &e, HWT_SEC(1000));
    arm(timer, &counting, &e, far_delays[_i / 2]);
    arm(timer, &counting, &e, 0);
    ck_assert(await_count(&e.runs, 1));
    uint64_t before = stats_of(timer).wakeups;
    usleep(200000); /* a worker that spins wakes thousands of times */
    ck_assert_uint_le(stats_of(timer).wakeups - before, 10);
    arm(timer, &counting, &e, HWT_MS(3));
    ck_assert(await_count(&e.runs, 2));
    hwt_timer_destroy(timer);
}
END_TEST

START_TEST(a_loop_sleeps_through_far_instants)
{
    ends e = { 0 };
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = HWT_NO_WORKER;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    int fd = hwt_timer_fd(timer);
    arm(timer, &counting, &e, far_delays[_i]);
    hwt_timer_dispatch(timer);
    ck_assert(!readable(fd, 50));
    arm(timer, &counting, &e, HWT_MS(3));
    while (e.runs == 0) {
        ck_assert(readable(fd, 20000));
        hwt_timer_dispatch(timer);
    }
    ck_assert(!readable(fd, 50));
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- */

static void add_far(Suite *suite)
{
    TCase *order = add_case(suite, "order");
    tcase_add_loop_test(order, two_of_one_far_tick_start_in_the_order_they_were_added, 0,
                        TURNS * WHEELS);
    tcase_add_loop_test(order, one_tick_collects_what_is_added_on_the_way_in_order, 0,
                        TURNS * WHEELS);
    tcase_add_loop_test(order, far_ones_run_in_order_whatever_the_leaps, 0, 10);
    TCase *leap = add_case(suite, "leap");
    tcase_add_loop_test(leap, what_a_cancelled_adds_does_not_run_in_the_pass_that_has_told_it, 0,
                        8);
    tcase_add_loop_test(leap, a_loop_is_not_woken_on_the_way_to_a_far_one, 0, 4);
    tcase_add_loop_test(leap, the_few_that_were_not_cancelled_run_after_a_leap, 0, 30);
}

static void add_ends_of_time(Suite *suite)
{
    TCase *never = add_case(suite, "never");
    tcase_add_test(never, after_an_advance_to_never_what_is_added_runs_at_the_next_call);
    tcase_add_test(never, after_an_advance_to_never_the_descriptor_still_tells);
    tcase_add_test(never, one_that_rearms_itself_runs_once_in_each_advance_to_never);
    tcase_add_test(never, after_an_advance_to_never_handles_do_as_ever);
    TCase *system_time = add_case(suite, "system time");
    tcase_add_loop_test(system_time, a_worker_sleeps_through_far_instants, 0, 2 * FAR_DELAYS);
    tcase_add_loop_test(system_time, a_loop_sleeps_through_far_instants, 0, FAR_DELAYS);
}

int main(void)
{
    Suite *suite = suite_create("api: leaps and far instants");
    add_far(suite);
    add_ends_of_time(suite);
    return run_suite(suite);
}
