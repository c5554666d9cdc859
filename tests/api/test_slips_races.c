/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What other timers got wrong between threads: wake-ups and stops that are lost, a cancel
 * against the firing, waiting for oneself, adders against stop, the first add. Each test
 * is named by what must hold, and tells where it did not.
 */

#include "api_fixture.h"

/* Some hundred nanoseconds to some tens of microseconds, so that threads meet anywhere. */
static void wander(uint64_t *seed)
{
    uint64_t turns = test_random(seed) % 20000;
    for (volatile uint64_t i = 0; i < turns;)
        i = i + 1;
}

/*
 * ---- 7. A lost wake-up ----
 *
 * grpc #11667: the worker has chosen to sleep for a minute; an early add lands between the
 * choice and the sleep.
 */

START_TEST(an_early_add_always_ends_a_long_sleep)
{
    ends early = { 0 }, late = { 0 };
    uint64_t seed = test_seed(), limit = monotonic() + HWT_SEC(1);
    hwt_timer *timer = create_ticking(HWT_US(50));
    for (uint64_t i = 1; i <= 3000 && monotonic() < limit; i++) {
        hwt_timeout minute = arm(timer, &counting, &late, HWT_MIN(1));
        wander(&seed);
        arm(timer, &counting, &early, HWT_US(100));
        ck_assert(await_count(&early.runs, i));
        ck_assert(hwt_timeout_cancel(minute));
    }
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(late.runs, 0);
}
END_TEST

START_TEST(an_add_always_ends_the_sleep_of_an_empty_timer)
{
    ends e = { 0 };
    uint64_t seed = test_seed(), limit = monotonic() + HWT_SEC(1);
    hwt_timer *timer = create_ticking(HWT_US(50));
    for (uint64_t i = 1; i <= 3000 && monotonic() < limit; i++) {
        arm(timer, &counting, &e, 0);
        ck_assert(await_count(&e.runs, i));
        wander(&seed);
    }
    hwt_timer_destroy(timer);
}
END_TEST

/* With an earlier one standing, the add does not wake the worker: it is queued yet. */
START_TEST(a_reschedule_to_earlier_always_ends_a_long_sleep)
{
    ends e = { 0 }, standing = { 0 };
    uint64_t seed = test_seed(), limit = monotonic() + HWT_SEC(1);
    hwt_timer *timer = create_ticking(HWT_US(50));
    if (_i)
        arm(timer, &counting, &standing, HWT_SEC(50));
    for (uint64_t i = 1; i <= 3000 && monotonic() < limit; i++) {
        wander(&seed);
        hwt_timeout timeout = arm(timer, &counting, &e, HWT_MIN(1));
        if (test_random(&seed) % 2)
            wander(&seed);
        ck_assert(hwt_timeout_reschedule(timeout, HWT_US(100)));
        ck_assert(await_count(&e.runs, i));
    }
    hwt_timer_destroy(timer);
}
END_TEST

/*
 * ---- 8. A lost stop ----
 *
 * brpc #2986: a stop in that same place, on an empty wheel, before the first tick.
 */

static void start_and_stop(uint64_t *seed, bool pending)
{
    ends e = { 0 };
    hwt_timer *timer = create(NULL);
    if (pending)
        arm(timer, &counting, &e, HWT_MIN(1));
    else
        ck_assert_int_eq(hwt_timer_start(timer), 0);
    wander(seed);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), pending);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(e.cancelled, pending);
}

START_TEST(a_stop_always_ends_the_sleep)
{
    uint64_t seed = test_seed(), limit = monotonic() + HWT_SEC(1);
    for (int i = 0; i < 1000 && monotonic() < limit; i++)
        start_and_stop(&seed, i % 2);
}
END_TEST

/*
 * ---- 9. Cancel against firing ----
 *
 * NETTY-431, tinygo #5487: exactly one wins, a million times; after cancel_sync nobody
 * reads the argument; a periodic one cancelled in its run does not come back.
 */

enum { BATCH = 1000, ROUNDS = 1000 };

static const uint64_t alive = 0x600d, poison = 0xdead;

typedef struct victim {
    uint64_t value; /* plain: a reader after cancel_sync is a data race too */
    bool cancelled;
    shared_count runs;
} victim;

static victim victims[BATCH];
static hwt_timeout victim_timeouts[BATCH];
static shared_count poisoned_reads;

static void read_victim(hwt_timeout timeout, void *arg)
{
    victim *v = arg;
    (void)timeout;
    if (v->value != alive)
        poisoned_reads++;
    v->runs++;
}

static const hwt_task reading = { read_victim, NULL };

typedef struct arena {
    manual m;
    shared_count round_begun, round_fired;
} arena;

static void *fire_rounds(void *data)
{
    arena *a = data;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (!await_count(&a->round_begun, round))
            break;
        manual_go(&a->m, round * HWT_MS(1));
        a->round_fired++;
    }
    return NULL;
}

static void arm_victims(hwt_timer *timer)
{
    for (int i = 0; i < BATCH; i++) {
        victims[i].value = alive;
        victims[i].runs = 0;
        victim_timeouts[i] = arm(timer, &reading, &victims[i], 0);
    }
}

/* From the front or from the back, so that it meets the firing in different places. */
static void cancel_victims(uint64_t round)
{
    for (int i = 0; i < BATCH; i++) {
        int which = round % 2 ? i : BATCH - 1 - i;
        victims[which].cancelled = hwt_timeout_cancel_sync(victim_timeouts[which]);
        victims[which].value = poison;
    }
}

START_TEST(of_a_cancel_and_the_firing_exactly_one_wins_a_million_times)
{
    static arena a;
    uint64_t seed = test_seed(), fired = 0;
    manual_open(&a.m, 0, HWT_MS(1), 8);
    pthread_t thread = spawn(fire_rounds, &a);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        arm_victims(a.m.timer);
        a.round_begun++;
        wander(&seed);
        cancel_victims(round);
        ck_assert(await_count(&a.round_fired, round));
        for (int i = 0; i < BATCH; i++) {
            must(victims[i].runs + victims[i].cancelled == 1);
            fired += victims[i].runs;
        }
        must(hwt_timer_pending(a.m.timer) == 0);
    }
    join(thread);
    ck_assert_uint_eq(poisoned_reads, 0);
    ck_assert_uint_eq(stats_of(a.m.timer).expired, fired);
    manual_close(&a.m);
}
END_TEST

typedef struct periodic {
    shared_count runs;
    uint64_t value;
} periodic;

static void run_periodic(hwt_timeout timeout, void *arg)
{
    periodic *p = arg;
    if (p->value != alive)
        poisoned_reads++;
    p->runs++;
    (void)hwt_timeout_repeat(timeout, HWT_US(50));
    for (volatile int i = 0; i < 1000;)
        i = i + 1;
}

static const hwt_task repeating = { run_periodic, NULL };

START_TEST(a_periodic_one_cancelled_while_it_runs_does_not_come_back)
{
    static periodic p[300];
    ends later = { 0 };
    uint64_t seed = test_seed();
    hwt_timer *timer = create_ticking(HWT_US(50));
    for (uint64_t i = 0; i < 300; i++) {
        p[i].value = alive;
        hwt_timeout timeout = arm(timer, &repeating, &p[i], 0);
        ck_assert(await_count(&p[i].runs, 1 + i % 3));
        wander(&seed);
        (void)hwt_timeout_cancel_sync(timeout);
        p[i].value = poison;
        uint64_t runs = p[i].runs;
        arm(timer, &counting, &later, HWT_US(150));
        ck_assert(await_count(&later.runs, i + 1));
        ck_assert_uint_eq(p[i].runs, runs);
        ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    }
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(poisoned_reads, 0);
}
END_TEST

/*
 * ---- 10. Waiting for oneself ----
 *
 * DPDK 0875ec4dd5, libevent #512: from a task, cancel_sync of itself, of one that runs
 * elsewhere, and stop. Two tasks that cancel_sync each other are the caller's deadlock, as
 * the header says.
 */

typedef struct waiter {
    hwt_timer *timer;
    hwt_timeout other;
    gate *gate;
    shared_count begun, done;
    bool self, elsewhere;
    int64_t stop;
    uint64_t passed;
} waiter;

static void wait_for_all(hwt_timeout timeout, void *arg)
{
    waiter *w = arg;
    w->begun++;
    w->self = hwt_timeout_cancel_sync(timeout);
    w->elsewhere = hwt_timeout_cancel_sync(w->other);
    w->passed = w->gate->passed;
    w->stop = hwt_timer_stop(w->timer, NULL, NULL);
    w->done++;
}

START_TEST(a_task_waits_for_another_but_not_for_itself)
{
    static const hwt_task task = { wait_for_all, NULL };
    deferred d;
    gate g = { 0 };
    waiter w = {
        .timer = create_with_crew(&d, 2, HWT_MS(1)), .gate = &g, .self = true, .elsewhere = true
    };
    w.other = arm(w.timer, &gated, &g, 0);
    ck_assert(await_count(&g.reached, 1));
    arm(w.timer, &task, &w, 0);
    ck_assert(await_count(&w.begun, 1));
    give_others_a_chance();
    ck_assert_uint_eq(w.done, 0);
    g.open = 1;
    ck_assert(await_count(&w.done, 1));
    ck_assert(!w.self && !w.elsewhere);
    ck_assert_uint_eq(w.passed, 1);
    ck_assert_int_eq(w.stop, -EDEADLK);
    hwt_timer_destroy(w.timer);
    deferred_close(&d);
}
END_TEST

/*
 * ---- 11. Eight adders against stop ----
 *
 * netty #14081: what was accepted has one end, and nothing is pending afterwards.
 */

typedef struct crowd {
    hwt_timer *timer;
    ends ends;
    shared_count accepted, ready, other_errors;
} crowd;

static void *add_until_stopped(void *data)
{
    crowd *c = data;
    uint64_t i = c->ready++;
    for (int r = 0; r == 0; i++) {
        hwt_timeout timeout;
        r = hwt_timer_new_timeout(c->timer, &counting, &c->ends, HWT_US(i * 131 % 5000), &timeout);
        c->accepted += r == 0;
        c->other_errors += r != 0 && r != -ESHUTDOWN;
        if (r == 0 && i % 5 == 0)
            (void)hwt_timeout_cancel(timeout);
        if (r == 0 && i % 7 == 0)
            (void)hwt_timeout_reschedule(timeout, HWT_US(i * 577 % 5000));
    }
    return NULL;
}

static void stop_against_adders(hwt_timer *timer, bool visit, uint64_t before_stop)
{
    static crowd c;
    pthread_t threads[8];
    memset(&c, 0, sizeof(c));
    c.timer = timer;
    for (int i = 0; i < 8; i++)
        threads[i] = spawn(add_until_stopped, &c);
    ck_assert(await_count(&c.accepted, before_stop));
    int64_t left = hwt_timer_stop(timer, visit ? count_visit : NULL, NULL);
    for (int i = 0; i < 8; i++)
        join(threads[i]);
    ck_assert_int_ge(left, 0);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(ends_sum(&c.ends), c.accepted);
    if (visit)
        ck_assert_uint_eq(c.ends.visited, (uint64_t)left);
    ck_assert_uint_eq(c.other_errors, 0);
    ck_assert_uint_eq(stats_of(timer).added, c.accepted);
    hwt_timer_destroy(timer);
    ck_assert_uint_eq(ends_sum(&c.ends), c.accepted);
}

START_TEST(what_adders_got_accepted_while_it_stopped_has_one_end)
{
    for (uint64_t round = 0; round < 20; round++)
        stop_against_adders(create_ticking(HWT_US(500)), round % 2, round * 300);
}
END_TEST

START_TEST(what_adders_got_accepted_has_one_end_on_an_executor_too)
{
    for (uint64_t round = 0; round < 10; round++) {
        deferred d;
        stop_against_adders(create_with_crew(&d, 2, HWT_US(500)), round % 2, round * 300);
        deferred_close(&d);
    }
}
END_TEST

/*
 * ---- 12. The first add, a hundred times at once ----
 *
 * akka.net #7144: one worker is started, and nobody's timeout is lost.
 */

typedef struct herd {
    hwt_timer *timer;
    ends ends;
    shared_count ready, accepted;
} herd;

static void *add_first(void *data)
{
    herd *h = data;
    h->ready++;
    (void)await_count(&h->ready, 100);
    h->accepted += hwt_timer_new_timeout(h->timer, &counting, &h->ends, 0, NULL) == 0;
    return NULL;
}

START_TEST(a_hundred_threads_may_make_the_first_add_at_once)
{
    static herd h;
    pthread_t threads[100];
    h.timer = create_ticking(HWT_MS(1));
    for (int i = 0; i < 100; i++)
        threads[i] = spawn(add_first, &h);
    for (int i = 0; i < 100; i++)
        join(threads[i]);
    ck_assert_uint_eq(h.accepted, 100);
    ck_assert(await_count(&h.ends.runs, 100));
    hwt_timer_destroy(h.timer);
    ck_assert_uint_eq(ends_sum(&h.ends), 100);
}
END_TEST

/* ---- */

int main(void)
{
    Suite *suite = suite_create("slips: races");
    TCase *sleep = add_case(suite, "sleep");
    tcase_add_test(sleep, an_early_add_always_ends_a_long_sleep);
    tcase_add_test(sleep, an_add_always_ends_the_sleep_of_an_empty_timer);
    tcase_add_loop_test(sleep, a_reschedule_to_earlier_always_ends_a_long_sleep, 0, 2);
    tcase_add_test(sleep, a_stop_always_ends_the_sleep);
    TCase *cancel = add_case(suite, "cancel");
    tcase_add_test(cancel, of_a_cancel_and_the_firing_exactly_one_wins_a_million_times);
    tcase_add_test(cancel, a_periodic_one_cancelled_while_it_runs_does_not_come_back);
    tcase_add_test(cancel, a_task_waits_for_another_but_not_for_itself);
    TCase *crowds = add_case(suite, "crowds");
    tcase_add_test(crowds, what_adders_got_accepted_while_it_stopped_has_one_end);
    tcase_add_test(crowds, what_adders_got_accepted_has_one_end_on_an_executor_too);
    tcase_add_test(crowds, a_hundred_threads_may_make_the_first_add_at_once);
    return run_suite(suite);
}
