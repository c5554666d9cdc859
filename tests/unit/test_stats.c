/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Counters, the lateness histogram, and how a reader of another release is served. */

#include "room_fixture.h"

static struct room room;
static struct hwt_run_stats *runs;

static void open_room(void)
{
    room_open(&room, 0, HWT_MS(1), 8);
    runs = &room.timer->run_stats;
}

static void close_room(void)
{
    room_close(&room);
}

static hwt_stats read_stats(void)
{
    hwt_stats stats = HWT_STATS_INIT;
    ck_assert_int_eq(hwt_timer_stats(room.timer, &stats), 0);
    return stats;
}

/* ---- lateness ---- */

static void expect_lateness(uint64_t lateness, unsigned power)
{
    uint64_t before = runs->lateness[power], expired = read_stats().expired;
    hwt_stats_run(runs, lateness);
    ck_assert_uint_eq(runs->lateness[power], before + 1);
    ck_assert_uint_eq(read_stats().expired, expired + 1);
}

START_TEST(a_run_is_counted_by_the_power_of_two_of_its_lateness)
{
    expect_lateness(0, 0);
    expect_lateness(1, 0);
    for (unsigned power = 1; power < 64; power++) {
        expect_lateness(UINT64_C(1) << power, power);
        expect_lateness((UINT64_C(1) << power) + 1, power);
        expect_lateness((UINT64_C(2) << power) - 1, power); /* 2 << 63 is 0: the most there is */
    }
    hwt_stats stats = read_stats();
    ck_assert_uint_eq(stats.expired, 2 + 63 * 3);
    ck_assert_uint_eq(stats.lateness[0], 2);
    for (unsigned power = 1; power < 64; power++)
        ck_assert_uint_eq(stats.lateness[power], 3);
}
END_TEST

START_TEST(the_greatest_lateness_is_kept)
{
    static const uint64_t late[][2] = { { 0, 0 }, { 7, 7 }, { 3, 7 }, { 8, 8 }, { 0, 8 } };
    for (size_t i = 0; i < sizeof(late) / sizeof(*late); i++) {
        hwt_stats_run(runs, late[i][0]);
        ck_assert_uint_eq(read_stats().lateness_max, late[i][1]);
    }
    hwt_stats_run(runs, UINT64_MAX);
    ck_assert_uint_eq(read_stats().lateness_max, UINT64_MAX);
}
END_TEST

enum { THREADS = 4, EACH = 200000 };

static _Atomic uint64_t lateness_of_many;

static void *run_many(void *data)
{
    uint64_t random = (uintptr_t)data, sum = 1000000 + (uintptr_t)data;
    hwt_stats_run(runs, sum);
    for (int i = 0; i < EACH; i++) {
        uint64_t lateness = test_random(&random) % 1000000;
        hwt_stats_run(runs, lateness);
        sum += lateness;
    }
    atomic_fetch_add(&lateness_of_many, sum);
    return NULL;
}

static int run_none(void *data, void (*work)(void *), void *arg)
{
    (void)data;
    (void)work;
    (void)arg;
    return -1;
}

START_TEST(only_with_an_executor_are_runs_counted_by_several_threads)
{
    struct room other;
    hwt_options options = HWT_OPTIONS_INIT;
    options.executor = run_none;
    room_open_with(&other, 0, options);
    ck_assert(other.timer->run_stats.shared);
    ck_assert(!runs->shared);
    room_close(&other);
}
END_TEST

START_TEST(runs_on_several_threads_are_all_counted)
{
    runs->shared = true;
    pthread_t threads[THREADS];
    atomic_store(&lateness_of_many, 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = spawn(run_many, (void *)i);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    hwt_stats stats = read_stats();
    uint64_t sum = 0;
    for (int i = 0; i < 64; i++)
        sum += stats.lateness[i];
    ck_assert_uint_eq(stats.expired, THREADS * (EACH + 1));
    ck_assert_uint_eq(sum, stats.expired);
    ck_assert_uint_eq(stats.lateness_max, 1000000 + THREADS - 1);
    ck_assert_uint_eq(stats.lateness_sum, lateness_of_many);
}
END_TEST

/* ---- counters ---- */

START_TEST(a_counter_tells_what_it_was_before)
{
    _Atomic uint64_t counter = 5;
    for (int shared = 0; shared < 2; shared++) {
        ck_assert_uint_eq(hwt_count(&counter, 3, shared), 5);
        ck_assert_uint_eq(hwt_count(&counter, UINT64_MAX, shared), 8); /* one less */
        ck_assert_uint_eq(hwt_count(&counter, UINT64_MAX - 1, shared), 7);
        ck_assert_uint_eq(counter, 5);
    }
}
END_TEST

enum { MEETINGS = 200 };

static _Atomic uint64_t shared_counter, counted, meetings;

/* Until the threads have met so often: found the counter other than they had left it. */
static void *count_until_met(void *data)
{
    uint64_t n = 0, left = 0;
    (void)data;
    while (atomic_load_explicit(&meetings, memory_order_relaxed) < MEETINGS) {
        uint64_t before = hwt_count(&shared_counter, 3, true);
        if (n++ > 0 && before != left)
            atomic_fetch_add(&meetings, 1);
        left = before + 3;
    }
    atomic_fetch_add(&counted, n);
    return NULL;
}

START_TEST(a_shared_counter_loses_nothing)
{
    pthread_t threads[THREADS];
    atomic_store(&shared_counter, 0);
    atomic_store(&counted, 0);
    atomic_store(&meetings, 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(count_until_met, NULL);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    ck_assert_uint_eq(shared_counter, 3 * counted);
}
END_TEST

enum { CALLERS = 40, ROUNDS = 500, MOST = 2000 };

static void nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

/* What a thread did, by the answers it got. */
struct caller {
    uint64_t random;
    int rounds;
    unsigned keeps;  /* one in so many is not cancelled */
    unsigned shares; /* not 0: this shared lane */
    uint64_t added, rejected, cancelled, rescheduled;
    bool shared;
    pthread_barrier_t *meet; /* NULL: no need to be there at once */
};

static void *call(void *data)
{
    static const hwt_task quiet = { nothing, NULL }, telling = { nothing, nothing };
    struct caller *caller = data;
    if (caller->shares)
        share_lane(caller->shares);
    caller->shared = hwt_lane_own(room.timer)->shared;
    if (caller->meet)
        pthread_barrier_wait(caller->meet);
    for (int i = 0; i < caller->rounds; i++) {
        uint64_t choice = test_random(&caller->random);
        hwt_timeout timeout;
        if (hwt_timer_new_timeout_at(room.timer, choice % 2 ? &quiet : &telling, NULL, HWT_NEVER,
                                     &timeout) < 0) {
            caller->rejected++;
            continue;
        }
        caller->added++;
        caller->rescheduled += choice % 3 && hwt_timeout_reschedule_at(timeout, HWT_SEC(1));
        caller->cancelled += choice % caller->keeps && hwt_timeout_cancel(timeout);
    }
    return NULL;
}

static void open_bounded(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.max_pending = MOST;
    room_open_with(&room, 0, options);
    runs = &room.timer->run_stats;
}

static void expect_counted(const struct caller *sum)
{
    hwt_stats stats = read_stats();
    ck_assert_uint_eq(stats.added, sum->added);
    ck_assert_uint_eq(stats.rejected, sum->rejected);
    ck_assert_uint_eq(stats.cancelled, sum->cancelled);
    ck_assert_uint_eq(stats.rescheduled, sum->rescheduled);
    ck_assert_uint_eq(stats.pending, sum->added - sum->cancelled);
    ck_assert_uint_eq(room.timer->reserved, stats.pending);
    ck_assert_uint_gt(stats.rejected, 0);
}

static void add_up(struct caller *sum, const struct caller *one)
{
    sum->added += one->added;
    sum->rejected += one->rejected;
    sum->cancelled += one->cancelled;
    sum->rescheduled += one->rescheduled;
}

/* More threads than there are lanes with an owner, on a machine of few processors. */
START_TEST(what_threads_did_at_once_on_lanes_of_either_kind_adds_up)
{
    struct caller callers[CALLERS], sum = { 0 };
    pthread_t threads[CALLERS];
    pthread_barrier_t meet;
    unsigned sharing = 0;
    uint64_t seed = test_seed();
    ck_assert_int_eq(pthread_barrier_init(&meet, NULL, CALLERS), 0);
    for (uint64_t i = 0; i < CALLERS; i++) {
        callers[i] =
            (struct caller){ .random = seed + i, .rounds = ROUNDS, .keeps = 5, .meet = &meet };
        threads[i] = spawn(call, &callers[i]);
    }
    for (int i = 0; i < CALLERS; i++) {
        join(threads[i]);
        add_up(&sum, &callers[i]);
        sharing += callers[i].shared;
    }
    uint32_t owned = room.timer->lanes_owned - 1; /* one is this thread's */
    ck_assert_uint_eq(sharing, owned < CALLERS ? CALLERS - owned : 0);
    expect_counted(&sum);
    pthread_barrier_destroy(&meet);
}
END_TEST

START_TEST(what_threads_did_at_once_on_one_shared_lane_adds_up)
{
    struct caller callers[THREADS], sum = { 0 };
    pthread_t threads[THREADS];
    pthread_barrier_t meet;
    uint64_t seed = test_seed();
    ck_assert_int_eq(pthread_barrier_init(&meet, NULL, THREADS), 0);
    for (uint64_t i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){
            .random = seed + i, .rounds = 200 * ROUNDS, .keeps = 64, .shares = 3, .meet = &meet
        };
        threads[i] = spawn(call, &callers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        join(threads[i]);
        ck_assert(callers[i].shared);
        add_up(&sum, &callers[i]);
    }
    ck_assert_uint_eq(room_shared_lane(&room, 3)->added, sum.added);
    expect_counted(&sum);
    pthread_barrier_destroy(&meet);
}
END_TEST

START_TEST(what_threads_did_one_after_the_other_on_one_lane_adds_up)
{
    struct caller sum = { 0 };
    uint64_t seed = test_seed();
    for (uint64_t i = 0; i < CALLERS; i++) {
        struct caller caller = { .random = seed + i, .rounds = ROUNDS, .keeps = 5 };
        join(spawn(call, &caller));
        ck_assert(!caller.shared);
        add_up(&sum, &caller);
    }
    ck_assert_uint_eq(room_lane(&room, 1)->added, sum.added);
    expect_counted(&sum);
}
END_TEST

/* ---- sums ---- */

START_TEST(pending_is_what_began_less_what_ended)
{
    room.lane->added = 100;
    room_lane(&room, 1)->added = 20;
    runs->rearmed = 3;
    ck_assert_uint_eq(hwt_timer_pending(room.timer), 123);
    room.lane->cancelled = 10;
    room_lane(&room, 2)->cancelled = 10;
    ck_assert_uint_eq(hwt_timer_pending(room.timer), 103);
    runs->lateness[0] = 20;
    runs->lateness[63] = 30;
    runs->unprocessed = 50;
    ck_assert_uint_eq(hwt_timer_pending(room.timer), 3);
    ck_assert_uint_eq(read_stats().pending, 3);
    ck_assert_uint_eq(hwt_timer_pending(NULL), 0);
}
END_TEST

START_TEST(pending_is_never_below_nothing)
{
    room.lane->added = 5;
    room.lane->cancelled = 6;
    ck_assert_uint_eq(hwt_timer_pending(room.timer), 0);
}
END_TEST

START_TEST(the_lanes_are_summed_and_the_rest_is_told_as_it_is)
{
    uint32_t lanes = room.timer->lane_count;
    for (uint32_t i = 0; i < lanes; i++) {
        struct hwt_lane *lane = room_lane(&room, i);
        lane->added = 1000;
        lane->cancelled = 100;
        lane->rejected = 10;
        lane->rescheduled = 1;
    }
    runs->lateness[10] = 5;
    runs->unprocessed = 6;
    runs->wakeups = 7;
    hwt_stats stats = read_stats();
    ck_assert_uint_eq(stats.added, 1000 * lanes);
    ck_assert_uint_eq(stats.cancelled, 100 * lanes);
    ck_assert_uint_eq(stats.rejected, 10 * lanes);
    ck_assert_uint_eq(stats.rescheduled, lanes);
    ck_assert_uint_eq(stats.expired, 5);
    ck_assert_uint_eq(stats.unprocessed, 6);
    ck_assert_uint_eq(stats.wakeups, 7);
    ck_assert_uint_eq(stats.pending, 900 * lanes - 11);
}
END_TEST

START_TEST(memory_is_that_of_the_timer_its_lanes_its_pool_and_its_wheel)
{
    uint64_t before = read_stats().memory;
    ck_assert_uint_ge(before, sizeof(*room.timer) +
                                  (room.timer->lane_count + 1) * sizeof(struct hwt_lane) +
                                  room.timer->worker.wheel.bytes);
    runs->wheel_bytes += 1000;
    ck_assert_uint_eq(read_stats().memory, before + 1000);
    room_take(&room);
    ck_assert_uint_eq(read_stats().memory, before + 1000 + room.timer->pool.bytes);
}
END_TEST

/* ---- sizes ---- */

START_TEST(a_reader_of_a_later_release_finds_nothing_where_this_one_knows_nothing)
{
    struct {
        hwt_stats known;
        unsigned char later[100];
    } stats;
    memset(&stats, 0xff, sizeof(stats));
    stats.known.size = sizeof(stats.known) + 64;
    room.lane->added = 4;
    ck_assert_int_eq(hwt_timer_stats(room.timer, &stats.known), 0);
    ck_assert_uint_eq(stats.known.size, sizeof(stats.known) + 64);
    ck_assert_uint_eq(stats.known.added, 4);
    ck_assert_uint_eq(stats.known.lateness[63], 0);
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(stats.later[i], i < 64 ? 0 : 0xff);
}
END_TEST

START_TEST(a_reader_of_no_release_is_refused_and_left_alone)
{
    static const size_t sizes[] = { 0, 1, sizeof(size_t), HWT_STATS_SIZE_MIN - 1 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        hwt_stats stats, before;
        memset(&stats, 0xff, sizeof(stats));
        stats.size = sizes[i];
        before = stats;
        ck_assert_int_eq(hwt_timer_stats(room.timer, &stats), -EINVAL);
        ck_assert_mem_eq(&stats, &before, sizeof(stats));
    }
    hwt_stats stats = HWT_STATS_INIT;
    ck_assert_int_eq(hwt_timer_stats(NULL, &stats), -EINVAL);
    ck_assert_int_eq(hwt_timer_stats(room.timer, NULL), -EINVAL);
}
END_TEST

/* ---- read while they change ---- */

static _Atomic bool done;

static void *begin_and_end(void *data)
{
    struct hwt_lane *lane = data;
    for (int i = 0; i < EACH; i++) {
        hwt_count(&lane->added, 1, lane->shared);
        if (i % 2)
            hwt_count(&lane->cancelled, 1, lane->shared);
        else
            hwt_stats_run(runs, (uint64_t)i);
    }
    atomic_store(&done, true);
    return NULL;
}

START_TEST(no_end_is_seen_without_its_beginning)
{
    struct hwt_lane *lane = _i ? room_shared_lane(&room, 1) : room_lane(&room, 1);
    atomic_store(&done, false);
    pthread_t thread = spawn(begin_and_end, lane);
    while (!atomic_load(&done)) {
        hwt_stats stats = read_stats();
        must(stats.expired + stats.cancelled <= stats.added);
    }
    join(thread);
    ck_assert_uint_eq(hwt_timer_pending(room.timer), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *lateness = room_case(suite, "lateness", open_room, close_room);
    tcase_add_test(lateness, a_run_is_counted_by_the_power_of_two_of_its_lateness);
    tcase_add_test(lateness, the_greatest_lateness_is_kept);
    tcase_add_test(lateness, only_with_an_executor_are_runs_counted_by_several_threads);
    tcase_add_test(lateness, runs_on_several_threads_are_all_counted);
    TCase *counters = room_case(suite, "counters", open_bounded, close_room);
    tcase_add_test(counters, a_counter_tells_what_it_was_before);
    tcase_add_test(counters, a_shared_counter_loses_nothing);
    tcase_add_test(counters, what_threads_did_at_once_on_lanes_of_either_kind_adds_up);
    tcase_add_test(counters, what_threads_did_at_once_on_one_shared_lane_adds_up);
    tcase_add_test(counters, what_threads_did_one_after_the_other_on_one_lane_adds_up);
    TCase *sums = room_case(suite, "sums", open_room, close_room);
    tcase_add_test(sums, pending_is_what_began_less_what_ended);
    tcase_add_test(sums, pending_is_never_below_nothing);
    tcase_add_test(sums, the_lanes_are_summed_and_the_rest_is_told_as_it_is);
    tcase_add_test(sums, memory_is_that_of_the_timer_its_lanes_its_pool_and_its_wheel);
    tcase_add_loop_test(sums, no_end_is_seen_without_its_beginning, 0, 2);
    TCase *sizes = room_case(suite, "sizes", open_room, close_room);
    tcase_add_test(sizes, a_reader_of_a_later_release_finds_nothing_where_this_one_knows_nothing);
    tcase_add_test(sizes, a_reader_of_no_release_is_refused_and_left_alone);
    return run_suite(suite);
}
