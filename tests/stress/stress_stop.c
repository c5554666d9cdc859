/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * hwt_timer_stop() against everything else, with exactly-once accounting.
 *
 * Every record is armed once. Whatever happens to it is counted in it: its runs, its
 * `cancelled`, cancels that were true, visits. After the stop and the end of all threads
 * each accepted record has ended exactly once, each refused one never, and what the stop
 * returned is what it visited.
 */

#include "stress.h"

struct story;

struct record {
    struct story *story;
    hwt_timeout handle;
    _Atomic bool published; /* the handle can be read by others */
    bool accepted;
    bool told;  /* its task has a `cancelled` */
    bool walks; /* re-arms itself for as long as it may */
    shared_count active, runs, ends, wins;
};

struct story {
    struct rig rig;
    struct record *records;
    unsigned per_thread, threads;
    bool all_told; /* no visitor, so every task has a `cancelled` */
    uint64_t seed;
    shared_count accepted, begun, next_thread;
    shared_count visited, stopped;
    shared_count broken;
    _Atomic int64_t left;
};

static void record_run(hwt_timeout timeout, void *arg)
{
    struct record *record = arg;
    struct story *story = record->story;
    bool again = false;

    expect(!story->stopped, &story->broken);
    expect(atomic_exchange(&record->active, 1) == 0, &story->broken);
    record->runs++;
    if (record->walks)
        again = hwt_timeout_reschedule(timeout, HWT_US(100) * (record->runs % 8));
    if (!again)
        record->ends++;
    expect(atomic_exchange(&record->active, 0) == 1, &story->broken);
}

static void record_told(hwt_timeout timeout, void *arg)
{
    struct record *record = arg;

    (void)timeout;
    expect(!record->story->stopped && !record->active, &record->story->broken);
    record->ends++;
}

static const hwt_task record_quiet = { record_run, NULL };
static const hwt_task record_telling = { record_run, record_told };

static void record_visit(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    struct record *record = arg;
    struct story *story = data;

    (void)remaining;
    expect(task == (record->told ? &record_telling : &record_quiet), &story->broken);
    expect(!record->active, &story->broken);
    record->ends++;
    story->visited++;
}

/* False once the timer is stopped. */
static bool record_add(struct record *record, uint64_t delay)
{
    struct story *story = record->story;
    const hwt_task *task = record->told ? &record_telling : &record_quiet;
    int r = hwt_timer_new_timeout(story->rig.timer, task, record, delay, &record->handle);

    expect(r == 0 || r == -ESHUTDOWN, &story->broken);
    if (r < 0)
        return false;
    record->accepted = true;
    story->accepted++;
    atomic_store_explicit(&record->published, true, memory_order_release);
    return true;
}

static void record_cancel(struct record *record, bool sync)
{
    bool won = (sync ? hwt_timeout_cancel_sync : hwt_timeout_cancel)(record->handle);

    if (sync)
        expect(!record->active, &record->story->broken);
    if (!won)
        return;
    expect(record->wins++ == 0, &record->story->broken);
    if (!record->told)
        record->ends++;
}

/* Something with a record of any thread. */
static void meddle(struct story *story, uint64_t *random)
{
    struct record *record = &story->records[below(random, story->per_thread * story->threads)];
    hwt_timeout handle;

    if (!atomic_load_explicit(&record->published, memory_order_acquire))
        return;
    handle = record->handle;
    switch (below(random, 6)) {
    case 0:
    case 1:
        record_cancel(record, false);
        break;
    case 2:
        record_cancel(record, true);
        break;
    case 3:
        hwt_timeout_reschedule(handle, below(random, HWT_MS(1)));
        break;
    case 4:
        hwt_timeout_reschedule(handle, HWT_SEC(1) + below(random, HWT_SEC(1)));
        break;
    default:
        expect(hwt_timeout_state(handle) <= HWT_GONE, &story->broken);
        expect(hwt_timeout_remaining(handle) <= HWT_SEC(3600), &story->broken);
        expect(!hwt_timeout_repeat(handle, 1), &story->broken);
        break;
    }
}

static void *add_and_meddle(void *arg)
{
    struct story *story = arg;
    uint64_t thread = story->next_thread++;
    struct record *records = &story->records[thread * story->per_thread];
    uint64_t random = story->seed + thread;

    for (unsigned i = 0; i < story->per_thread; i++) {
        struct record *record = &records[i];

        record->told = story->all_told || below(&random, 2);
        record->walks = below(&random, 4) == 0;
        if (!record_add(record, below(&random, 4) ? below(&random, HWT_MS(4)) : HWT_SEC(60)))
            return NULL;
        for (uint64_t n = below(&random, 5); n > 0; n--)
            meddle(story, &random);
    }
    return NULL;
}

static void *only_add(void *arg)
{
    struct story *story = arg;
    uint64_t thread = story->next_thread++;
    struct record *records = &story->records[thread * story->per_thread];
    uint64_t random = story->seed + thread;

    for (unsigned i = 0; i < story->per_thread; i++) {
        records[i].told = story->all_told;
        if (!record_add(&records[i], below(&random, HWT_MS(2))))
            break;
    }
    return NULL;
}

static void stop(struct story *story)
{
    int64_t left = hwt_timer_stop(story->rig.timer, story->all_told ? NULL : record_visit, story);

    story->stopped = 1;
    expect(left >= 0, &story->broken);
    story->left += left;
}

static void *stop_as_well(void *arg)
{
    stop(arg);
    return NULL;
}

static void story_open(struct story *story, int way, unsigned threads, unsigned per_thread)
{
    memset(story, 0, sizeof *story);
    story->threads = threads;
    story->per_thread = per_thread;
    story->records = calloc((size_t)threads * per_thread, sizeof *story->records);
    ck_assert_ptr_nonnull(story->records);
    for (unsigned i = 0; i < threads * per_thread; i++)
        story->records[i].story = story;
    rig_open(&story->rig, way, HWT_US(500), 64);
}

/* Counts what is broken: Check makes a system call for each assertion. */
static void check_record(struct story *story, const struct record *record)
{
    shared_count *broken = &story->broken;

    expect(record->active == 0 && record->wins <= 1, broken);
    if (!record->accepted) {
        expect(record->runs + record->ends + record->wins == 0, broken);
        return;
    }
    expect(record->ends == 1, broken);
    expect(hwt_timeout_state(record->handle) != HWT_PENDING, broken);
    expect(!hwt_timeout_cancel_sync(record->handle), broken);
    expect(!hwt_timeout_reschedule(record->handle, 0), broken);
    story->begun += record->runs;
}

static void story_check(struct story *story)
{
    hwt_stats stats = stats_of(story->rig.timer);
    hwt_timeout handle;

    ck_assert_uint_eq(story->broken, 0);
    for (unsigned i = 0; i < story->threads * story->per_thread; i++)
        check_record(story, &story->records[i]);
    ck_assert_uint_eq(story->broken, 0);
    if (!story->all_told)
        ck_assert_int_eq(story->left, (int64_t)story->visited);
    ck_assert_uint_eq(hwt_timer_pending(story->rig.timer), 0);
    ck_assert_uint_eq(stats.pending, 0);
    ck_assert_uint_eq(stats.added, story->accepted);
    ck_assert_uint_eq(stats.expired, story->begun);
    ck_assert_uint_eq(stats.unprocessed, (uint64_t)story->left);
    ck_assert_int_eq(hwt_timer_new_timeout(story->rig.timer, &record_quiet, NULL, 0, &handle),
                     -ESHUTDOWN);
}

/* The threads go; once `enough` were accepted the timer is stopped, maybe by two at once. */
static void story_play(struct story *story, void *(*role)(void *), uint64_t enough, bool twice)
{
    pthread_t threads[8], other;

    for (unsigned i = 0; i < story->threads; i++)
        threads[i] = spawn(role, story);
    ck_assert(await_count(&story->accepted, enough));
    if (twice)
        other = spawn(stop_as_well, story);
    stop(story);
    if (twice)
        join(other);
    for (unsigned i = 0; i < story->threads; i++)
        join(threads[i]);
    story_check(story);
}

static void story_close(struct story *story)
{
    rig_close(&story->rig);
    free(story->records);
}

START_TEST(six_threads_add_cancel_and_reschedule_against_stop)
{
    static struct story story;
    uint64_t random = test_seed() + (uint64_t)_i;
    unsigned per_thread = test_scaled(3000) + 50;

    for (unsigned round = 0; round < test_scaled(30) + 3; round++) {
        story_open(&story, _i, 6, per_thread);
        story.seed = test_random(&random);
        story.all_told = round % 3 == 2;
        story_play(&story, add_and_meddle, below(&random, 6 * per_thread), round % 2);
        story_close(&story);
    }
}
END_TEST

START_TEST(eight_adders_against_stop)
{
    static struct story story;
    uint64_t random = test_seed() + (uint64_t)_i;
    unsigned per_thread = test_scaled(5000) + 50;

    for (unsigned round = 0; round < test_scaled(32) + 3; round++) {
        story_open(&story, _i, 8, per_thread);
        story.seed = test_random(&random);
        story.all_told = round % 3 == 2;
        story_play(&story, only_add, below(&random, 8 * per_thread / 2), round % 2);
        story_close(&story);
    }
}
END_TEST

/* Stop with the very first timeouts: worker, executor and descriptor are only just there. */
START_TEST(a_stop_at_the_very_start_loses_nothing)
{
    static struct story story;
    uint64_t random = test_seed() + (uint64_t)_i;

    for (unsigned round = 0; round < test_scaled(400) + 10; round++) {
        story_open(&story, _i, 2, 40);
        story.seed = test_random(&random);
        story_play(&story, only_add, below(&random, 3), round % 2);
        story_close(&story);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("stress_stop");

    tcase_add_loop_test(stress_case(suite, "mixed"),
                        six_threads_add_cancel_and_reschedule_against_stop, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "adders"), eight_adders_against_stop, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "start"), a_stop_at_the_very_start_loses_nothing, 0,
                        WAYS);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
