/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Cancelling against firing.
 *
 * - Once hwt_timeout_cancel_sync() has returned, nobody reads the argument: it is
 *   poisoned and freed at once. Its fields are plain, so that a sanitizer sees an access that
 *   is not ordered before the free.
 * - Of any number of cancels and the firing, exactly one wins.
 * - A periodic timeout cancelled during its task does not come back.
 * - A handle whose timeout has ended harms no other, however often its memory is used again.
 */

#include "stress.h"

enum { LIVE = 0x11fe11fe, POISON = 0x6b6b6b6b, BATCH = 64 };

#define TICK HWT_US(20)

/* Stands by until about the end of the tick in which this deadline fires. */
static void meet(hwt_timer *timer, uint64_t deadline, uint64_t *random)
{
    uint64_t instant = deadline + below(random, 3 * TICK);

    for (int turn = 0; turn < 1000 && hwt_timer_now(timer) < instant; turn++)
        spin(10);
}

/* ---- The argument is freed after cancel_sync ---- */

struct arg {
    unsigned magic, runs;
    unsigned period_us; /* 0: once */
    shared_count *broken;
};

struct race {
    struct rig rig;
    unsigned batches;
    unsigned period_us;
    uint64_t seed;
    shared_count next_thread, broken, caught, fired, runs;
};

static void arg_run(hwt_timeout timeout, void *data)
{
    struct arg *arg = data;
    shared_count *broken = arg->broken;

    expect(arg->magic == LIVE, broken);
    arg->runs++;
    spin(arg->runs % 64);
    if (arg->period_us % 2)
        hwt_timeout_repeat(timeout, HWT_US(arg->period_us));
    else if (arg->period_us)
        hwt_timeout_reschedule(timeout, HWT_US(arg->period_us));
    expect(arg->magic == LIVE, broken);
}

static const hwt_task arg_task = { arg_run, NULL };

static struct arg *arg_new(struct race *race)
{
    struct arg *arg = malloc(sizeof *arg);

    if (arg)
        *arg = (struct arg){ LIVE, 0, race->period_us, &race->broken };
    return arg;
}

static void arg_end(struct race *race, struct arg *arg, hwt_timeout timeout)
{
    bool won = hwt_timeout_cancel_sync(timeout);

    if (race->period_us == 0)
        expect(arg->runs == (won ? 0 : 1), &race->broken);
    else
        expect(won || arg->runs > 0, &race->broken);
    expect(hwt_timeout_state(timeout) != HWT_PENDING, &race->broken);
    race->caught += won;
    race->fired += !won;
    race->runs += arg->runs;
    memset(arg, POISON & 0xff, sizeof *arg);
    free(arg);
}

static void race_batch(struct race *race, uint64_t *random)
{
    hwt_timer *timer = race->rig.timer;
    struct arg *args[BATCH];
    hwt_timeout timeouts[BATCH];
    uint64_t deadlines[BATCH];
    uint64_t now = hwt_timer_now(timer);

    for (int i = 0; i < BATCH; i++) {
        args[i] = arg_new(race);
        now += below(random, HWT_US(5));
        deadlines[i] = now;
        if (!args[i] || hwt_timer_new_timeout_at(timer, &arg_task, args[i], now, &timeouts[i]) < 0)
            abort();
    }
    for (int i = 0; i < BATCH; i++) {
        meet(timer, deadlines[i], random);
        arg_end(race, args[i], timeouts[i]);
    }
}

static void *race_thread(void *data)
{
    struct race *race = data;
    uint64_t random = race->seed + race->next_thread++;

    for (unsigned i = 0; i < race->batches; i++)
        race_batch(race, &random);
    return NULL;
}

static void race_play(int way, unsigned races, unsigned period_us)
{
    static struct race race;
    pthread_t threads[2];
    int count = way & BY_EXECUTOR ? 2 : 1; /* of two processors one is for the firing */

    memset(&race, 0, sizeof race);
    race.batches = races / BATCH / (unsigned)count + 1;
    race.period_us = period_us;
    race.seed = test_seed() + (uint64_t)way;
    rig_open(&race.rig, way, TICK, 256);
    for (int i = 0; i < count; i++)
        threads[i] = spawn(race_thread, &race);
    for (int i = 0; i < count; i++)
        join(threads[i]);
    ck_assert_uint_eq(race.broken, 0);
    ck_assert_uint_eq(hwt_timer_pending(race.rig.timer), 0);
    printf("way %d, period %u us: %" PRIu64 " cancelled, %" PRIu64 " had fired, %" PRIu64 " runs\n",
           way, period_us, (uint64_t)race.caught, (uint64_t)race.fired, (uint64_t)race.runs);
    rig_close(&race.rig);
}

START_TEST(nobody_reads_the_argument_after_cancel_sync)
{
    race_play(_i, test_scaled(_i & BY_EXECUTOR ? 60000 : 120000), 0);
}
END_TEST

START_TEST(nobody_reads_the_argument_of_a_repeated_one_after_cancel_sync)
{
    race_play(_i, test_scaled(15000), 25);
    race_play(_i, test_scaled(15000), 10);
}
END_TEST

/* ---- Exactly one wins ---- */

enum { CANCELLERS = 2 };

struct prize {
    hwt_timeout timeout;
    uint64_t deadline;
    shared_count runs, wins, told;
    bool tells;
};

struct contest {
    struct rig rig;
    struct prize *prizes;
    unsigned rounds;
    pthread_barrier_t armed, done;
    uint64_t seed;
    shared_count next_thread;
};

static void prize_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((struct prize *)arg)->runs++;
}

static void prize_told(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((struct prize *)arg)->told++;
}

static const hwt_task prize_tasks[2] = { { prize_run, NULL }, { prize_run, prize_told } };

static void *contest_cancel(void *arg)
{
    struct contest *contest = arg;
    uint64_t random = contest->seed + contest->next_thread++;

    for (unsigned round = 0; round < contest->rounds; round++) {
        struct prize *prizes = &contest->prizes[round * BATCH];

        pthread_barrier_wait(&contest->armed);
        for (int i = 0; i < BATCH; i++) {
            meet(contest->rig.timer, prizes[i].deadline, &random);
            prizes[i].wins += hwt_timeout_cancel(prizes[i].timeout);
        }
        pthread_barrier_wait(&contest->done);
    }
    return NULL;
}

static void contest_round(struct contest *contest, struct prize *prizes, uint64_t *random)
{
    uint64_t now = hwt_timer_now(contest->rig.timer) + HWT_US(20);

    for (int i = 0; i < BATCH; i++) {
        now += below(random, HWT_US(5));
        prizes[i].tells = below(random, 2);
        prizes[i].deadline = now;
        if (hwt_timer_new_timeout_at(contest->rig.timer, &prize_tasks[prizes[i].tells], &prizes[i],
                                     now, &prizes[i].timeout) < 0)
            abort();
    }
    pthread_barrier_wait(&contest->armed);
    pthread_barrier_wait(&contest->done);
    for (int i = 0; i < BATCH; i++) /* not cancelled: it has fired, or is being run */
        expect(prizes[i].wins == 1 || hwt_timeout_state(prizes[i].timeout) != HWT_PENDING,
               &contest->rig.broken);
}

static void contest_check(struct contest *contest)
{
    uint64_t fired = 0;

    for (unsigned i = 0; i < contest->rounds * BATCH; i++) {
        const struct prize *prize = &contest->prizes[i];

        expect(prize->wins + prize->runs == 1, &contest->rig.broken);
        expect(prize->told == (prize->tells ? prize->wins : 0), &contest->rig.broken);
        fired += prize->runs;
    }
    printf("way %d: %" PRIu64 " of %u fired\n", contest->rig.way, fired, contest->rounds * BATCH);
}

START_TEST(of_two_cancels_and_the_firing_exactly_one_wins)
{
    static struct contest contest;
    pthread_t threads[CANCELLERS];
    uint64_t random = test_seed();

    memset(&contest, 0, sizeof contest);
    contest.rounds = test_scaled(40000) / BATCH + 1;
    contest.prizes = calloc((size_t)contest.rounds * BATCH, sizeof *contest.prizes);
    ck_assert_ptr_nonnull(contest.prizes);
    contest.seed = test_random(&random);
    pthread_barrier_init(&contest.armed, NULL, CANCELLERS + 1);
    pthread_barrier_init(&contest.done, NULL, CANCELLERS + 1);
    rig_open(&contest.rig, _i, TICK, 128);
    for (int i = 0; i < CANCELLERS; i++)
        threads[i] = spawn(contest_cancel, &contest);
    for (unsigned round = 0; round < contest.rounds; round++)
        contest_round(&contest, &contest.prizes[round * BATCH], &random);
    for (int i = 0; i < CANCELLERS; i++)
        join(threads[i]);
    ck_assert_int_eq(hwt_timer_stop(contest.rig.timer, NULL, NULL), 0);
    contest_check(&contest);
    rig_close(&contest.rig);
    free(contest.prizes);
}
END_TEST

/* ---- A periodic one cancelled during its task ---- */

struct periodic {
    bool early;   /* re-arms before the cancel, not after it */
    bool repeats; /* by hwt_timeout_repeat() */
    bool tells;
    gate gate;
    shared_count runs, told, first, second;
};

static bool periodic_again(const struct periodic *periodic, hwt_timeout timeout)
{
    return periodic->repeats ? hwt_timeout_repeat(timeout, 1) : hwt_timeout_reschedule(timeout, 0);
}

static void periodic_run(hwt_timeout timeout, void *arg)
{
    struct periodic *periodic = arg;

    periodic->runs++;
    if (periodic->early)
        periodic->first = periodic_again(periodic, timeout);
    gate_pass(&periodic->gate);
    periodic->second = periodic_again(periodic, timeout);
}

static void periodic_told(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((struct periodic *)arg)->told++;
}

static const hwt_task periodic_tasks[2] = { { periodic_run, NULL },
                                            { periodic_run, periodic_told } };

/* By any number of ticks later, as another timeout shows, it has not come back. */
static void periodic_check(struct rig *rig, struct periodic *periodic, hwt_timeout timeout)
{
    ends later = { 0 };

    ck_assert(!hwt_timeout_cancel(timeout));
    ck_assert(!hwt_timeout_reschedule(timeout, 0));
    periodic->gate.open = 1;
    ck_assert(!hwt_timeout_cancel_sync(timeout));
    ck_assert_uint_eq(periodic->gate.passed, 1);
    ck_assert_uint_eq(periodic->first, periodic->early);
    ck_assert_uint_eq(periodic->second, 0);
    arm(rig->timer, &counting, &later, HWT_MS(2));
    ck_assert(await_count(&later.runs, 1));
    ck_assert_uint_eq(periodic->runs, 1);
    ck_assert_uint_eq(hwt_timer_pending(rig->timer), 0);
    if (periodic->early && periodic->tells)
        ck_assert(await_count(&periodic->told, 1));
    else
        ck_assert_uint_eq(periodic->told, 0);
}

START_TEST(a_periodic_one_cancelled_during_its_task_does_not_come_back)
{
    struct rig rig;

    rig_open(&rig, _i, HWT_US(100), 16);
    for (unsigned round = 0; round < test_scaled(240) + 8; round++) {
        struct periodic periodic = { .early = round & 1, .repeats = round & 2, .tells = round & 4 };
        hwt_timeout timeout = arm(rig.timer, &periodic_tasks[periodic.tells], &periodic, 0);

        ck_assert(await_count(&periodic.gate.reached, 1));
        ck_assert_int_eq(hwt_timeout_state(timeout), periodic.early ? HWT_PENDING : HWT_EXPIRED);
        ck_assert_int_eq(hwt_timeout_cancel(timeout), periodic.early);
        periodic_check(&rig, &periodic, timeout);
    }
    rig_close(&rig);
}
END_TEST

/* ---- Stale handles ---- */

enum { OWNERS = 2, HAMMERS = 2, STALE = 256 };

struct graveyard {
    struct rig rig;
    pthread_mutex_t lock;
    hwt_timeout stale[STALE];
    unsigned rounds;
    uint64_t seed;
    shared_count buried, next_thread, owners_done, broken;
};

static void bury(struct graveyard *yard, hwt_timeout timeout)
{
    pthread_mutex_lock(&yard->lock);
    yard->stale[yard->buried++ % STALE] = timeout;
    pthread_mutex_unlock(&yard->lock);
}

static void hammer_one(struct graveyard *yard, hwt_timeout stale)
{
    expect(!hwt_timeout_cancel(stale), &yard->broken);
    expect(!hwt_timeout_reschedule(stale, 0), &yard->broken);
    expect(!hwt_timeout_reschedule_at(stale, HWT_NEVER), &yard->broken);
    expect(!hwt_timeout_repeat(stale, 1), &yard->broken);
    expect(!hwt_timeout_cancel_sync(stale), &yard->broken);
    expect(hwt_timeout_remaining(stale) == 0, &yard->broken);
    expect(hwt_timeout_state(stale) != HWT_PENDING, &yard->broken);
}

static void *hammer(void *arg)
{
    struct graveyard *yard = arg;
    hwt_timeout stale[STALE];

    while (yard->owners_done < OWNERS) {
        pthread_mutex_lock(&yard->lock);
        memcpy(stale, yard->stale, sizeof stale);
        pthread_mutex_unlock(&yard->lock);
        for (int i = 0; i < STALE; i++)
            hammer_one(yard, stale[i]);
    }
    return NULL;
}

/* Nobody else has a handle on these while they live: all must go as their owner says. */
static void own_batch(struct graveyard *yard, uint64_t *random)
{
    hwt_timeout timeouts[BATCH];
    ends fired[BATCH] = { 0 };

    for (int i = 0; i < BATCH; i++)
        if (hwt_timer_new_timeout(yard->rig.timer, &counting, &fired[i],
                                  i % 2 ? HWT_SEC(3600) : below(random, HWT_US(200)),
                                  &timeouts[i]) < 0)
            abort();
    for (int i = 1; i < BATCH; i += 2) {
        uint64_t remaining = hwt_timeout_remaining(timeouts[i]);

        expect(remaining > HWT_SEC(1800) && remaining <= HWT_SEC(3600), &yard->broken);
        expect(hwt_timeout_state(timeouts[i]) == HWT_PENDING, &yard->broken);
        expect(hwt_timeout_reschedule(timeouts[i], HWT_SEC(7200)), &yard->broken);
        expect(hwt_timeout_cancel(timeouts[i]), &yard->broken);
        bury(yard, timeouts[i]);
    }
    for (int i = 0; i < BATCH; i++) {
        expect(await_count(i % 2 ? &fired[i].cancelled : &fired[i].runs, 1), &yard->broken);
        if (i % 2 == 0)
            bury(yard, timeouts[i]);
    }
    for (int i = 0; i < BATCH; i++)
        expect(ends_sum(&fired[i]) == 1, &yard->broken);
}

static void *own(void *arg)
{
    struct graveyard *yard = arg;
    uint64_t random = yard->seed + yard->next_thread++;

    for (unsigned round = 0; round < yard->rounds && yard->broken == 0; round++)
        own_batch(yard, &random);
    yard->owners_done++;
    return NULL;
}

START_TEST(stale_handles_harm_no_other_timeout)
{
    static struct graveyard yard;
    pthread_t threads[OWNERS + HAMMERS];
    hwt_stats stats;

    memset(&yard, 0, sizeof yard);
    pthread_mutex_init(&yard.lock, NULL);
    yard.rounds = test_scaled(400) + 5;
    yard.seed = test_seed() + (uint64_t)_i;
    rig_open(&yard.rig, _i, HWT_US(50), 32);
    for (int i = 0; i < OWNERS + HAMMERS; i++)
        threads[i] = spawn(i < OWNERS ? own : hammer, &yard);
    for (int i = 0; i < OWNERS + HAMMERS; i++)
        join(threads[i]);
    ck_assert_uint_eq(yard.broken, 0);
    ck_assert_int_eq(hwt_timer_stop(yard.rig.timer, NULL, NULL), 0);
    stats = stats_of(yard.rig.timer);
    ck_assert_uint_eq(stats.added, stats.expired + stats.cancelled);
    ck_assert_uint_eq(stats.pending, 0);
    rig_close(&yard.rig);
    pthread_mutex_destroy(&yard.lock);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("stress_cancel");

    tcase_add_loop_test(stress_case(suite, "freed"), nobody_reads_the_argument_after_cancel_sync, 0,
                        WAYS);
    tcase_add_loop_test(stress_case(suite, "freed_periodic"),
                        nobody_reads_the_argument_of_a_repeated_one_after_cancel_sync, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "contest"),
                        of_two_cancels_and_the_firing_exactly_one_wins, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "periodic"),
                        a_periodic_one_cancelled_during_its_task_does_not_come_back, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "stale"), stale_handles_harm_no_other_timeout, 0, WAYS);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
