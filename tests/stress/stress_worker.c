/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The worker and what feeds it, for a long time and in great number: memory under adding and
 * cancelling at full speed, threads that come and go, very many timers, wake-ups and stops
 * that must not be lost on a worker about to park, an event loop fed by other threads.
 */

#include "stress.h"

#include <sys/resource.h>

/* ---- Memory at the default tick ---- */

enum { CHURNERS = 2 };

struct churn {
    struct rig rig;
    unsigned at_once; /* a thread keeps so many pending */
    unsigned told;    /* one in so many has a `cancelled`; 0: none */
    shared_count quit, turns, cancelled, fired, broken;
};

static void churn_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((struct churn *)arg)->fired++;
}

static void churn_told(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task churn_tasks[2] = { { churn_run, NULL }, { churn_run, churn_told } };

static void *churn_thread(void *arg)
{
    struct churn *churn = arg;
    hwt_timeout timeouts[1000];
    uint64_t turns = 0, cancelled = 0;

    while (!churn->quit) {
        for (unsigned i = 0; i < churn->at_once; i++) {
            bool told = churn->told && (turns + i) % churn->told == 0;

            if (hwt_timer_new_timeout(churn->rig.timer, &churn_tasks[told], churn, HWT_SEC(30),
                                      &timeouts[i]) < 0)
                expect(false, &churn->broken);
        }
        for (unsigned i = 0; i < churn->at_once; i++)
            cancelled += hwt_timeout_cancel(timeouts[i]);
        turns += churn->at_once;
    }
    churn->turns += turns;
    churn->cancelled += cancelled;
    return NULL;
}

/* The most that is held while they churn, until the time is over. */
static uint64_t churn_watch(struct churn *churn, uint64_t duration)
{
    uint64_t end = monotonic() + duration, most = 0;

    while (monotonic() < end) {
        uint64_t memory = stats_of(churn->rig.timer).memory;

        most = memory > most ? memory : most;
        give_others_a_chance();
    }
    return most;
}

/* By how much memory grew, at most. */
static uint64_t churn_play(int way, unsigned at_once, unsigned told, uint64_t duration)
{
    static struct churn churn;
    pthread_t threads[CHURNERS];
    uint64_t before, most;

    memset(&churn, 0, sizeof churn);
    churn.at_once = at_once;
    churn.told = told;
    rig_open(&churn.rig, way, HWT_MS(100), 512);
    before = stats_of(churn.rig.timer).memory;
    for (int i = 0; i < CHURNERS; i++)
        threads[i] = spawn(churn_thread, &churn);
    most = churn_watch(&churn, duration);
    churn.quit = 1;
    for (int i = 0; i < CHURNERS; i++)
        join(threads[i]);
    printf("way %d, %u at once, %u told: %" PRIu64 " added and cancelled, memory %" PRIu64
           " KiB before, at"
           " most %" PRIu64 " KiB, %" PRIu64 " KiB after\n",
           way, at_once, told, (uint64_t)churn.turns, before >> 10, most >> 10,
           stats_of(churn.rig.timer).memory >> 10);
    fflush(stdout);
    ck_assert_uint_eq(churn.broken, 0);
    ck_assert_uint_eq(churn.fired, 0);
    ck_assert_uint_eq(churn.cancelled, churn.turns);
    ck_assert_uint_eq(hwt_timer_pending(churn.rig.timer), 0);
    rig_close(&churn.rig);
    return most - before;
}

/*
 * A worker that the machine does not let run for a tenth of a second leaves a backlog too: one
 * quiet stretch in five has to be seen. A backlog that waits for ticks shows in all of them.
 */
static bool churn_keeps_within(int way, unsigned at_once, unsigned told)
{
    for (int attempt = 0; attempt < 5; attempt++)
        if (churn_play(way, at_once, told, HWT_MS(test_scaled(500))) < UINT64_C(64) << 20)
            return true;
    return false;
}

START_TEST(adding_and_cancelling_at_full_speed_keeps_within_memory)
{
    ck_assert(churn_keeps_within(_i, 1, 0));
    ck_assert(churn_keeps_within(_i, 1000, 0));
    /* An executor that has to call a `cancelled` for each sets the pace: no bound to assert. */
    if (_i & BY_EXECUTOR)
        churn_play(_i, 1000, 2, HWT_MS(test_scaled(500)));
    else
        ck_assert(churn_keeps_within(_i, 1000, 2));
}
END_TEST

/* ---- Threads that come and go ---- */

enum { AT_ONCE = 8, PER_VISITOR = 16 };

struct hotel {
    struct rig rig;
    ends fired;
    shared_count cancelled, broken;
};

static void *visitor(void *arg)
{
    struct hotel *hotel = arg;
    hwt_timeout timeouts[PER_VISITOR];

    for (int i = 0; i < PER_VISITOR; i++)
        if (hwt_timer_new_timeout(hotel->rig.timer, &counting, &hotel->fired,
                                  i % 2 ? HWT_SEC(60) : HWT_US(300), &timeouts[i]) < 0)
            expect(false, &hotel->broken);
    for (int i = 1; i < PER_VISITOR; i += 2)
        expect(hwt_timeout_cancel(timeouts[i]), &hotel->broken);
    return NULL;
}

START_TEST(threads_come_and_go_by_the_thousand)
{
    static struct hotel hotel;
    unsigned rounds = test_scaled(400) + 4;
    uint64_t half = (uint64_t)rounds * AT_ONCE * PER_VISITOR / 2;
    uint64_t before;

    memset(&hotel, 0, sizeof hotel);
    rig_open(&hotel.rig, _i, HWT_MS(1), 64);
    before = stats_of(hotel.rig.timer).memory;
    for (unsigned round = 0; round < rounds; round++) {
        pthread_t threads[AT_ONCE];

        for (int i = 0; i < AT_ONCE; i++)
            threads[i] = spawn(visitor, &hotel);
        for (int i = 0; i < AT_ONCE; i++)
            join(threads[i]);
    }
    ck_assert(await_count(&hotel.fired.runs, half));
    ck_assert(await_count(&hotel.fired.cancelled, half));
    ck_assert_uint_eq(ends_sum(&hotel.fired), 2 * half);
    ck_assert_uint_eq(hotel.broken, 0);
    ck_assert_uint_eq(hwt_timer_pending(hotel.rig.timer), 0);
    ck_assert_uint_lt(stats_of(hotel.rig.timer).memory - before, UINT64_C(16) << 20);
    rig_close(&hotel.rig);
}
END_TEST

/* ---- Very many timers ---- */

static unsigned descriptors_allowed(void)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_max > 100000 ? 100000 : (unsigned)limit.rlim_max;
}

START_TEST(a_thousand_timers_at_once)
{
    static hwt_timer *timers[1000];
    static ends fired;
    unsigned room = (descriptors_allowed() - 64) / 4;
    unsigned count = test_scaled(1000) < room ? test_scaled(1000) : room;
    hwt_options options = HWT_OPTIONS_INIT;

    options.tick_duration = HWT_MS(1);
    memset(&fired, 0, sizeof fired);
    for (unsigned i = 0; i < count; i++) {
        timers[i] = create(&options);
        for (unsigned k = 0; k < 4; k++)
            arm(timers[i], &counting, &fired, k ? HWT_MS(k) : HWT_SEC(60));
    }
    ck_assert(await_count(&fired.runs, 3 * (uint64_t)count));
    for (unsigned i = 0; i < count; i++) {
        ck_assert_uint_eq(hwt_timer_pending(timers[i]), 1);
        if (i % 2)
            ck_assert_int_eq(hwt_timer_stop(timers[i], NULL, NULL), 1);
        hwt_timer_destroy(timers[i]);
    }
    ck_assert_uint_eq(fired.runs, 3 * (uint64_t)count);
    ck_assert_uint_eq(fired.cancelled, count);
}
END_TEST

/* ---- The lost wake-up ---- */

/*
 * The worker has nothing to do for a minute, or for ever, and is about to park when an early
 * timeout is added. It must run; a worker that missed it would sleep on.
 */
static void wake_up_play(int way, uint64_t far, uint64_t tick, uint64_t delay, unsigned rounds)
{
    static ends fired, waits;
    static struct rig rig;
    uint64_t random = test_seed() + (uint64_t)way;

    memset(&fired, 0, sizeof fired);
    memset(&waits, 0, sizeof waits);
    rig_open(&rig, way, tick, 512);
    if (far)
        arm(rig.timer, &counting, &waits, far);
    for (unsigned round = 0; round < rounds; round++) {
        arm(rig.timer, &counting, &fired, delay);
        if (!await_count(&fired.runs, round + 1))
            ck_abort_msg("lost in round %u (way %d, far %" PRIu64 ", tick %" PRIu64 ")", round, way,
                         far, tick);
        spin(below(&random, 2) ? below(&random, 200) : below(&random, 20000));
    }
    ck_assert_uint_eq(waits.runs, 0);
    rig_close(&rig);
    ck_assert_uint_eq(waits.cancelled, far ? 1 : 0);
}

START_TEST(a_worker_about_to_park_is_woken_for_an_early_timeout)
{
    wake_up_play(_i, HWT_SEC(60), HWT_MS(1), HWT_MS(10), test_scaled(30) + 3);
    wake_up_play(_i, 0, HWT_MS(1), HWT_MS(10), test_scaled(30) + 3);
    wake_up_play(_i, HWT_NEVER, HWT_US(20), 0, test_scaled(2500));
    wake_up_play(_i, HWT_SEC(60), HWT_US(20), HWT_US(30), test_scaled(2500));
    wake_up_play(_i, 0, HWT_US(1), 0, test_scaled(2500));
}
END_TEST

/* The same for a timeout that is far off and fetched to now. */
START_TEST(a_worker_about_to_park_is_woken_for_one_moved_earlier)
{
    static struct rig rig;
    static ends fired;
    uint64_t random = test_seed() + (uint64_t)_i;
    unsigned rounds = test_scaled(2000);

    memset(&fired, 0, sizeof fired);
    rig_open(&rig, _i, HWT_US(20), 64);
    for (unsigned round = 0; round < rounds; round++) {
        hwt_timeout timeout = arm(rig.timer, &counting, &fired, HWT_SEC(60));

        spin(below(&random, 2) ? below(&random, 200) : below(&random, 20000));
        ck_assert(hwt_timeout_reschedule(timeout, 0));
        ck_assert_msg(await_count(&fired.runs, round + 1), "lost in round %u", round);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(a_stop_is_not_lost_on_a_worker_about_to_park)
{
    uint64_t random = test_seed() + (uint64_t)_i;

    for (unsigned round = 0; round < test_scaled(600) + 8; round++) {
        static struct rig rig;
        static ends fired;
        uint64_t far = round % 2, near = round % 4 / 2;

        memset(&fired, 0, sizeof fired);
        rig_open(&rig, _i, HWT_US(50), 64);
        ck_assert_int_eq(hwt_timer_start(rig.timer), 0);
        if (far)
            arm(rig.timer, &counting, &fired, HWT_SEC(3600));
        if (near) {
            arm(rig.timer, &counting, &fired, 0);
            ck_assert(await_count(&fired.runs, 1));
        }
        spin(below(&random, 2) ? below(&random, 200) : below(&random, 50000));
        ck_assert_int_eq(hwt_timer_stop(rig.timer, NULL, NULL), (int64_t)far);
        ck_assert_uint_eq(fired.cancelled, far);
        rig_close(&rig);
    }
}
END_TEST

/* ---- An event loop fed by other threads ---- */

enum { FEEDERS = 4 };

struct feed {
    struct rig rig;
    unsigned per_thread;
    uint64_t seed;
    ends fired;
    shared_count next_thread, cancelled, accepted, broken;
};

/* Adds, moves and cancels at random; what it leaves has to run without another call. */
static void *feeder(void *arg)
{
    struct feed *feed = arg;
    uint64_t random = feed->seed + feed->next_thread++;

    for (unsigned i = 0; i < feed->per_thread; i++) {
        uint64_t delay = below(&random, 8) ? below(&random, HWT_MS(2)) : HWT_SEC(3600);
        hwt_timeout timeout;

        if (hwt_timer_new_timeout(feed->rig.timer, &counting, &feed->fired, delay, &timeout) < 0)
            expect(false, &feed->broken);
        feed->accepted++;
        if (below(&random, 3) == 0)
            feed->cancelled += hwt_timeout_cancel(timeout);
        else if (delay == HWT_SEC(3600) || below(&random, 4) == 0)
            hwt_timeout_reschedule(timeout, below(&random, HWT_MS(2)));
        if (below(&random, 16) == 0)
            sched_yield();
    }
    return NULL;
}

static void feed_play(int way)
{
    static struct feed feed;
    pthread_t threads[FEEDERS];

    memset(&feed, 0, sizeof feed);
    feed.per_thread = test_scaled(4000) + 100;
    feed.seed = test_seed();
    rig_open(&feed.rig, way, HWT_US(200), 128);
    for (int i = 0; i < FEEDERS; i++)
        threads[i] = spawn(feeder, &feed);
    for (int i = 0; i < FEEDERS; i++)
        join(threads[i]);
    ck_assert(await_count(&feed.fired.cancelled, feed.cancelled));
    ck_assert(await_count(&feed.fired.runs, feed.accepted - feed.cancelled));
    ck_assert_uint_eq(feed.fired.cancelled, feed.cancelled);
    ck_assert_uint_eq(hwt_timer_pending(feed.rig.timer), 0);
    ck_assert_uint_eq(feed.broken, 0);
    rig_close(&feed.rig);
    ck_assert_uint_eq(ends_sum(&feed.fired), feed.accepted);
}

START_TEST(what_other_threads_add_is_run_without_another_call)
{
    for (unsigned round = 0; round < test_scaled(20) + 1; round++)
        feed_play(_i);
}
END_TEST

/* ---- A hundred threads make the first add at once ---- */

struct first {
    hwt_timer *timer;
    ends fired;
    pthread_barrier_t go;
    shared_count broken;
};

static void *add_first(void *arg)
{
    struct first *first = arg;

    pthread_barrier_wait(&first->go);
    expect(hwt_timer_new_timeout(first->timer, &counting, &first->fired, HWT_MS(1), NULL) == 0,
           &first->broken);
    return NULL;
}

START_TEST(a_hundred_threads_make_the_first_add_at_once)
{
    static struct first first;
    pthread_t threads[100];

    for (unsigned round = 0; round < test_scaled(30) + 2; round++) {
        memset(&first, 0, sizeof first);
        pthread_barrier_init(&first.go, NULL, 100);
        first.timer = create_ticking(HWT_MS(1));
        for (int i = 0; i < 100; i++)
            threads[i] = spawn(add_first, &first);
        for (int i = 0; i < 100; i++)
            join(threads[i]);
        ck_assert(await_count(&first.fired.runs, 100));
        ck_assert_uint_eq(first.broken, 0);
        hwt_timer_destroy(first.timer);
        ck_assert_uint_eq(ends_sum(&first.fired), 100);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("stress_worker");
    TCase *number = stress_case(suite, "number");
    TCase *parking = stress_case(suite, "parking");

    tcase_add_loop_test(stress_case(suite, "memory"),
                        adding_and_cancelling_at_full_speed_keeps_within_memory, 0, WAYS);
    tcase_add_loop_test(number, threads_come_and_go_by_the_thousand, 0, WAYS);
    tcase_add_test(number, a_thousand_timers_at_once);
    tcase_add_test(number, a_hundred_threads_make_the_first_add_at_once);
    tcase_add_loop_test(parking, a_worker_about_to_park_is_woken_for_an_early_timeout, 0, WAYS);
    tcase_add_loop_test(parking, a_worker_about_to_park_is_woken_for_one_moved_earlier, 0, WAYS);
    tcase_add_loop_test(parking, a_stop_is_not_lost_on_a_worker_about_to_park, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "feed"),
                        what_other_threads_add_is_run_without_another_call, 0, WAYS);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
