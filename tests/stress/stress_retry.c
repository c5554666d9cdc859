/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * hwt/retry.h under threads: answers, cancels, time-outs and a stop against each other.
 *
 * - Every start that was accepted ends once, and as what the answers to it say: it has
 *   succeeded if a hwt_retry_succeeded() was true, and is cancelled if a cancel was (or the timer
 *   was stopped).
 * - Callbacks of one object never overlap, and none runs after hwt_retry_cancel_sync(): what
 *   `attempt` writes is plain, so that a sanitizer sees it if one does.
 * - Of one attempt, one answer at most is true; late ones change nothing.
 * - `ended` frees the object as soon as nobody else holds it; nothing touches it then.
 */

#include "stress.h"

#include <hwt/retry.h>

enum { BATCH = 64, MEDDLERS = 2, LIVES = 4, ENDS = HWT_RETRY_THROTTLED + 1 };

#define TICK HWT_US(20)

struct story;

struct record {
    hwt_retry retry;
    struct story *story;
    shared_count holders, number, inside;
    shared_count succeeded, failed, failed_for_good, cancelled;
    uint64_t attempts; /* plain */
    uint64_t starts, ends[ENDS];
};

struct story {
    struct rig rig;
    struct record *batch[BATCH];
    hwt_retry_budget budget;
    hwt_retry_options options[8];
    unsigned rounds;
    uint64_t started_before; /* the round */
    pthread_barrier_t begin, end;
    uint64_t seed;
    shared_count next_thread, broken, started, ended, ends[ENDS], refused;
    bool stops; /* in the middle of each round */
};

/* ---- a record ---- */

/* At the end of the last who holds it, the accounts must agree. */
static void let_go(struct record *record)
{
    struct story *story = record->story;
    if (atomic_fetch_sub(&record->holders, 1) > 1)
        return;
    uint64_t all = 0;
    for (int i = 0; i < ENDS; i++)
        all += record->ends[i];
    expect(all == record->starts, &story->broken);
    expect(record->ends[HWT_RETRY_SUCCEEDED] == record->succeeded, &story->broken);
    expect(record->ends[HWT_RETRY_FAILED] == record->failed_for_good, &story->broken);
    if (!story->stops)
        expect(record->ends[HWT_RETRY_CANCELLED] == record->cancelled, &story->broken);
    expect(record->ends[HWT_RETRY_CANCELLED] >= record->cancelled, &story->broken);
    expect(record->succeeded + record->failed + record->failed_for_good <= record->attempts,
           &story->broken);
    for (int i = 0; i < ENDS; i++)
        story->ends[i] += record->ends[i];
    memset(record, 0x6b, sizeof(*record));
    free(record);
}

/* What an answer tells follows from the number of its attempt. */
static int reason_of(uint64_t number)
{
    return (int)(number % 1000) - 500;
}

static void attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    struct record *record = arg;
    struct story *story = record->story;
    expect(retry == &record->retry, &story->broken);
    expect(atomic_exchange(&record->inside, 1) == 0, &story->broken);
    expect(number > record->number, &story->broken);
    record->attempts++;
    record->number = number;
    if (number % 5 == 0 && hwt_retry_failed(retry, number))
        record->failed++;
    else if (number % 7 == 0 && hwt_retry_succeeded(retry, number))
        record->succeeded++;
    expect(atomic_exchange(&record->inside, 0) == 1, &story->broken);
}

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg);

static const hwt_retry_task task = { attempt, ended };

static bool start(struct record *record)
{
    struct story *story = record->story;
    const hwt_retry_options *options = &story->options[(record->starts + record->attempts) % 8];
    bool now = (++record->starts + record->attempts + (uintptr_t)record / 512) % 2;
    int r = (now ? hwt_retry_start_now : hwt_retry_start)(&record->retry, story->rig.timer, options,
                                                          &task, record);
    expect(r == 0 || r == -ESHUTDOWN, &story->broken);
    return r == 0;
}

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    struct record *record = arg;
    struct story *story = record->story;
    expect(retry == &record->retry && (unsigned)end < ENDS, &story->broken);
    expect(end != HWT_RETRY_FAILED || hwt_retry_reason(retry) == reason_of(record->number),
           &story->broken);
    expect(atomic_exchange(&record->inside, 0) == 0, &story->broken);
    record->ends[end]++;
    if (record->starts < LIVES) {
        if (start(record))
            return;
        record->starts--;
    }
    story->ended++;
    let_go(record);
}

/* ---- those who meddle with it ---- */

static void meddle(struct record *record, uint64_t *random)
{
    uint64_t number = record->number;
    switch (below(random, 16)) {
    case 0:
        record->cancelled += hwt_retry_cancel(&record->retry);
        break;
    case 1:
        record->cancelled += hwt_retry_cancel_sync(&record->retry);
        break;
    case 2:
    case 3:
        record->succeeded += hwt_retry_succeeded(&record->retry, number);
        break;
    case 4:
        record->succeeded += hwt_retry_succeeded(&record->retry, number - 1);
        break;
    case 5:
        record->failed += hwt_retry_failed(&record->retry, number - 1);
        break;
    case 6:
        record->failed_for_good +=
            hwt_retry_failed_for_good(&record->retry, number, reason_of(number));
        break;
    case 7:
        record->failed_for_good +=
            hwt_retry_failed_for_good(&record->retry, number - 1, reason_of(number - 1));
        break;
    case 8:
    case 9:
    case 10:
        record->failed += hwt_retry_failed_with_delay(&record->retry, number, below(random, TICK));
        break;
    default:
        record->failed += hwt_retry_failed(&record->retry, number);
        break;
    }
}

static void *meddler(void *arg)
{
    struct story *story = arg;
    uint64_t random = story->seed + story->next_thread++;
    for (unsigned round = 0; round < story->rounds; round++) {
        pthread_barrier_wait(&story->begin);
        for (int turn = 0; turn < 24; turn++) {
            spin(below(&random, 300));
            for (int i = 0; i < BATCH; i++)
                meddle(story->batch[i], &random);
        }
        for (int i = 0; i < BATCH; i++)
            let_go(story->batch[i]);
        pthread_barrier_wait(&story->end);
    }
    return NULL;
}

/* ---- the story ---- */

static void choose_options(struct story *story, uint64_t *random)
{
    for (int i = 0; i < 8; i++) {
        hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
        options.first_delay = below(random, 4 * TICK);
        options.max_delay = 8 * TICK;
        options.attempt_timeout = 1 + below(random, 6 * TICK);
        options.total_timeout = i % 2 ? HWT_NEVER : 1 + below(random, 60 * TICK);
        options.max_attempts = (uint32_t)(1 + below(random, 8));
        options.jitter = (hwt_jitter)(i % 5);
        options.budget = i == 0 ? &story->budget : NULL;
        story->options[i] = options;
    }
}

static struct record *record_new(struct story *story)
{
    struct record *record = calloc(1, sizeof(*record));
    if (!record)
        abort();
    record->story = story;
    record->holders = MEDDLERS + 1;
    return record;
}

static void begin_batch(struct story *story)
{
    for (int i = 0; i < BATCH; i++)
        story->batch[i] = record_new(story);
    pthread_barrier_wait(&story->begin);
    /* Those who meddle are there before the start. */
    for (int i = 0; i < BATCH; i++) {
        if (start(story->batch[i])) {
            story->started++;
        } else {
            story->refused++;
            story->batch[i]->starts--;
            let_go(story->batch[i]);
        }
    }
}

static void story_open(struct story *story, int way, unsigned rounds, bool stops)
{
    uint64_t random = test_seed() + (uint64_t)way;
    memset(story, 0, sizeof(*story));
    story->rounds = rounds;
    story->stops = stops;
    story->seed = test_random(&random);
    if (hwt_retry_budget_init(&story->budget, 30, 0.8) < 0)
        abort();
    choose_options(story, &random);
    pthread_barrier_init(&story->begin, NULL, MEDDLERS + 1);
    pthread_barrier_init(&story->end, NULL, MEDDLERS + 1);
}

static void story_close(struct story *story)
{
    pthread_barrier_destroy(&story->begin);
    pthread_barrier_destroy(&story->end);
    ck_assert_uint_eq(story->broken, 0);
    ck_assert_uint_eq(story->started, story->ended);
    printf("%" PRIu64 " objects, %" PRIu64 " refused: %" PRIu64 " lives succeeded, %" PRIu64
           " exhausted, %" PRIu64 " out of time, %" PRIu64 " cancelled, %" PRIu64
           " failed for good, %" PRIu64 " throttled\n",
           (uint64_t)story->started, (uint64_t)story->refused, (uint64_t)story->ends[0],
           (uint64_t)story->ends[1], (uint64_t)story->ends[2], (uint64_t)story->ends[3],
           (uint64_t)story->ends[4], (uint64_t)story->ends[5]);
}

START_TEST(every_life_ends_once_and_as_its_answers_say)
{
    static struct story story;
    pthread_t threads[MEDDLERS];
    story_open(&story, _i, test_scaled(100) + 2, false);
    rig_open(&story.rig, _i, TICK, 64);
    for (int i = 0; i < MEDDLERS; i++)
        threads[i] = spawn(meddler, &story);
    for (unsigned round = 0; round < story.rounds; round++) {
        begin_batch(&story);
        pthread_barrier_wait(&story.end);
        ck_assert(await_count(&story.ended, story.started));
    }
    for (int i = 0; i < MEDDLERS; i++)
        join(threads[i]);
    ck_assert_uint_eq(hwt_timer_pending(story.rig.timer), 0);
    rig_close(&story.rig);
    story_close(&story);
}
END_TEST

/* Stops it when so many were started in this round. */
static void *stopper(void *arg)
{
    struct story *story = arg;
    uint64_t random = story->seed + story->started;
    uint64_t enough = story->started_before + 1 + below(&random, BATCH);
    while (story->started < enough)
        spin(10);
    spin(below(&random, 300));
    expect(hwt_timer_stop(story->rig.timer, NULL, NULL) >= 0, &story->broken);
    return NULL;
}

/* The timer is stopped while the starts, the answers and the cancels go on. */
START_TEST(a_stop_ends_what_was_started_and_nothing_else)
{
    static struct story story;
    unsigned rounds = test_scaled(200) + 2;
    story_open(&story, _i, 1, true);
    for (unsigned round = 0; round < rounds; round++) {
        pthread_t threads[MEDDLERS];
        rig_open(&story.rig, _i, TICK, 64);
        for (int i = 0; i < MEDDLERS; i++)
            threads[i] = spawn(meddler, &story);
        story.started_before = story.started;
        pthread_t stopping = spawn(stopper, &story);
        begin_batch(&story);
        join(stopping);
        ck_assert_uint_eq(story.ended, story.started);
        pthread_barrier_wait(&story.end);
        for (int i = 0; i < MEDDLERS; i++)
            join(threads[i]);
        rig_close(&story.rig);
    }
    ck_assert_uint_gt(story.started, 0);
    story_close(&story);
}
END_TEST

/* ---- starts ---- */

struct contested {
    struct rig rig;
    hwt_retry retry;
    unsigned writes; /* plain: of the attempts */
    unsigned wanted;
    shared_count accepted, ends;
};

static void contested_attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    struct contested *contested = arg;
    contested->writes++;
    expect(hwt_retry_succeeded(retry, number), &contested->rig.broken);
}

static void contested_ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    struct contested *contested = arg;
    (void)retry;
    expect(end == HWT_RETRY_SUCCEEDED, &contested->rig.broken);
    contested->ends++;
}

static void *contested_start(void *arg)
{
    static const hwt_retry_task task_of_all = { contested_attempt, contested_ended };
    struct contested *contested = arg;
    for (unsigned accepted = 0; accepted < contested->wanted;) {
        int r = hwt_retry_start(&contested->retry, contested->rig.timer, NULL, &task_of_all, arg);
        expect(r == 0 || r == -EALREADY, &contested->rig.broken);
        accepted += r == 0;
        contested->accepted += r == 0;
    }
    return NULL;
}

/* Each start waits for no more than that it is accepted; the object alone orders the lives. */
START_TEST(whoever_starts_it_again_comes_after_the_life_before)
{
    static struct contested contested;
    pthread_t threads[2];
    memset(&contested, 0, sizeof(contested));
    contested.wanted = test_scaled(4000) + 10;
    rig_open(&contested.rig, _i, TICK, 64);
    for (int i = 0; i < 2; i++)
        threads[i] = spawn(contested_start, &contested);
    for (int i = 0; i < 2; i++)
        join(threads[i]);
    ck_assert(await_count(&contested.ends, contested.accepted));
    ck_assert_uint_eq(contested.writes, contested.accepted);
    rig_close(&contested.rig);
}
END_TEST

/* ---- cancel_sync ---- */

struct slow {
    hwt_retry retry;
    unsigned writes; /* plain */
    shared_count begun, ends;
};

static void slow_attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    struct slow *slow = arg;
    slow->begun++;
    slow->writes++;
    spin(200);
    slow->writes++;
    if (number % 2)
        hwt_retry_failed(retry, number);
}

static void slow_ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    struct slow *slow = arg;
    (void)retry;
    (void)end;
    slow->ends++;
}

START_TEST(no_attempt_runs_after_cancel_sync)
{
    static const hwt_retry_task slow_task = { slow_attempt, slow_ended };
    struct rig rig;
    struct slow slow;
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    uint64_t random = test_seed() + (uint64_t)_i;
    unsigned rounds = test_scaled(2000) + 10;
    uint64_t begun = 0;
    memset(&slow, 0, sizeof(slow));
    options.first_delay = 0;
    options.max_delay = TICK;
    options.attempt_timeout = 2 * TICK;
    rig_open(&rig, _i, TICK, 64);
    for (unsigned round = 0; round < rounds; round++) {
        ck_assert_int_eq(hwt_retry_start(&slow.retry, rig.timer, &options, &slow_task, &slow), 0);
        if (round % 4) /* else it may come before the first */
            ck_assert(await_count(&slow.begun, begun + 1));
        spin(below(&random, 1000));
        ck_assert(hwt_retry_cancel_sync(&slow.retry));
        ck_assert_uint_eq(slow.writes % 2, 0);
        begun += slow.writes / 2;
        slow.writes = 0;
        ck_assert_uint_eq(slow.begun, begun);
        ck_assert(await_count(&slow.ends, round + 1));
    }
    printf("way %d: %" PRIu64 " attempts in %u lives\n", _i, begun, rounds);
    rig_close(&rig);
}
END_TEST

struct standing {
    hwt_retry retry;
    gate gate;
    shared_count ends;
    bool first, late;
};

static void standing_attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    struct standing *standing = arg;
    (void)retry;
    (void)number;
    gate_pass(&standing->gate);
}

static void standing_ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    (void)retry;
    (void)end;
    ((struct standing *)arg)->ends++;
}

static void *standing_cancel(void *arg)
{
    struct standing *standing = arg;
    standing->first = hwt_retry_cancel_sync(&standing->retry);
    standing->late = standing->gate.passed == 1;
    return NULL;
}

/* Also where another call has decided the end. */
START_TEST(cancel_sync_returns_after_the_attempt_with_either_answer)
{
    static const hwt_retry_task standing_task = { standing_attempt, standing_ended };
    struct rig rig;
    rig_open(&rig, _i, TICK, 64);
    for (int round = 0; round < 6; round++) {
        struct standing standing = { .late = false };
        ck_assert_int_eq(
            hwt_retry_start(&standing.retry, rig.timer, NULL, &standing_task, &standing), 0);
        ck_assert(await_count(&standing.gate.reached, 1));
        if (round % 3 == 1)
            ck_assert(hwt_retry_cancel(&standing.retry));
        else if (round % 3 == 2)
            ck_assert(hwt_retry_succeeded(&standing.retry, 1));
        pthread_t thread = spawn(standing_cancel, &standing);
        give_others_a_chance();
        standing.gate.open = 1;
        join(thread);
        ck_assert(standing.late);
        ck_assert_int_eq(standing.first, round % 3 == 0);
        ck_assert(await_count(&standing.ends, 1));
    }
    rig_close(&rig);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("stress_retry");
    TCase *answers = stress_case(suite, "answers");
    tcase_add_loop_test(answers, every_life_ends_once_and_as_its_answers_say, 0, WAYS);
    TCase *stop = stress_case(suite, "stop");
    tcase_add_loop_test(stop, a_stop_ends_what_was_started_and_nothing_else, 0, WAYS);
    TCase *starts = stress_case(suite, "starts");
    tcase_add_loop_test(starts, whoever_starts_it_again_comes_after_the_life_before, 0, WAYS);
    TCase *sync = stress_case(suite, "cancel_sync");
    tcase_add_loop_test(sync, no_attempt_runs_after_cancel_sync, 0, WAYS);
    tcase_add_loop_test(sync, cancel_sync_returns_after_the_attempt_with_either_answer, 0, WAYS);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
