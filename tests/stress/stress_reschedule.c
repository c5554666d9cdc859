/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Rescheduling against firing.
 *
 * One thread moves its timeouts earlier and later while they fire. The last call that
 * answered true says when each has to run: not before that deadline, and once. Where several
 * threads move the same timeout, the last call of any of them may be the last of all, so it
 * runs not before the least of these. A false answer means that its run had begun.
 */

#include "stress.h"

enum { MOVERS = 3, MOVED = 64 };

struct moved {
    hwt_timeout timeout;
    hwt_timer *timer;
    uint64_t deadline[MOVERS]; /* that of the last true answer, each mover its own */
    bool refused[MOVERS];
    _Atomic uint64_t ran_at;
    shared_count runs, wins;
};

struct traffic {
    struct rig rig;
    struct moved *moved;
    unsigned rounds, movers;
    bool cancels;
    pthread_barrier_t armed, done;
    uint64_t seed;
    shared_count next_thread, next_round, broken;
};

static void moved_run(hwt_timeout timeout, void *arg)
{
    struct moved *moved = arg;

    (void)timeout;
    moved->ran_at = hwt_timer_now(moved->timer);
    moved->runs++;
}

static const hwt_task moved_task = { moved_run, NULL };

/* Near to now, so that it meets the firing; now and then far off, and back again. */
static uint64_t some_deadline(struct traffic *traffic, uint64_t *random)
{
    uint64_t now = hwt_timer_now(traffic->rig.timer);

    switch (below(random, 8)) {
    case 0:
        return now + HWT_SEC(3600);
    case 1:
        return now - below(random, HWT_US(100));
    default:
        return now + below(random, HWT_US(300));
    }
}

static void move(struct traffic *traffic, struct moved *moved, uint64_t mover, uint64_t *random)
{
    uint64_t deadline = some_deadline(traffic, random);

    if (hwt_timeout_reschedule_at(moved->timeout, deadline)) {
        expect(!moved->refused[mover], &traffic->broken);
        moved->deadline[mover] = deadline;
    } else {
        expect(hwt_timeout_state(moved->timeout) != HWT_PENDING, &traffic->broken);
        moved->refused[mover] = true;
    }
}

/* Where it was moved far off, it is fetched back in the end, so that each of them fires. */
static void fetch_back(struct traffic *traffic, struct moved *moved, uint64_t mover)
{
    uint64_t deadline = hwt_timer_now(traffic->rig.timer) + HWT_US(50);

    if (hwt_timeout_reschedule_at(moved->timeout, deadline))
        moved->deadline[mover] = deadline;
}

static void move_round(struct traffic *traffic, struct moved *all, uint64_t mover, uint64_t *random)
{
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < MOVED; i++) {
            move(traffic, &all[i], mover, random);
            spin(below(random, 50));
        }
    }
    for (int i = 0; i < MOVED; i++)
        fetch_back(traffic, &all[i], mover);
}

static void *mover_thread(void *arg)
{
    struct traffic *traffic = arg;
    uint64_t mover = traffic->next_thread++;
    uint64_t random = traffic->seed + mover;

    for (unsigned round = 0; round < traffic->rounds; round++) {
        pthread_barrier_wait(&traffic->armed);
        move_round(traffic, &traffic->moved[round * MOVED], mover, &random);
        pthread_barrier_wait(&traffic->done);
    }
    return NULL;
}

static void arm_round(struct traffic *traffic, struct moved *all, uint64_t *random)
{
    for (int i = 0; i < MOVED; i++) {
        uint64_t deadline = some_deadline(traffic, random);

        all[i].timer = traffic->rig.timer;
        for (unsigned mover = 0; mover < MOVERS; mover++)
            all[i].deadline[mover] = mover < traffic->movers ? deadline : HWT_NEVER;
        ck_assert_int_eq(hwt_timer_new_timeout_at(traffic->rig.timer, &moved_task, &all[i],
                                                  deadline, &all[i].timeout),
                         0);
    }
}

/* Waits for the runs of the round, or cancels what has not run yet. */
static void end_round(struct traffic *traffic, struct moved *all)
{
    for (int i = 0; i < MOVED; i++) {
        if (traffic->cancels && hwt_timeout_cancel_sync(all[i].timeout))
            all[i].wins++;
        if (all[i].wins == 0 && !await_count(&all[i].runs, 1))
            ck_abort_msg("it does not run");
        expect(hwt_timeout_state(all[i].timeout) != HWT_PENDING, &traffic->broken);
    }
}

static void check_moved(const struct traffic *traffic, const struct moved *moved)
{
    uint64_t least = HWT_NEVER;

    for (unsigned mover = 0; mover < MOVERS; mover++)
        least = moved->deadline[mover] < least ? moved->deadline[mover] : least;
    if (moved->runs + moved->wins != 1)
        ck_abort_msg("%" PRIu64 " runs, %" PRIu64 " cancels", (uint64_t)moved->runs,
                     (uint64_t)moved->wins);
    if (moved->runs && moved->ran_at < least)
        ck_abort_msg("early by %" PRIu64 " ns (%u movers)", least - moved->ran_at, traffic->movers);
}

static void traffic_play(int way, unsigned movers, bool cancels, unsigned rounds)
{
    static struct traffic traffic;
    pthread_t threads[MOVERS];
    uint64_t random = test_seed() + (uint64_t)way;

    memset(&traffic, 0, sizeof traffic);
    traffic.rounds = rounds;
    traffic.movers = movers;
    traffic.cancels = cancels;
    traffic.moved = calloc((size_t)rounds * MOVED, sizeof *traffic.moved);
    ck_assert_ptr_nonnull(traffic.moved);
    traffic.seed = test_random(&random);
    pthread_barrier_init(&traffic.armed, NULL, movers + 1);
    pthread_barrier_init(&traffic.done, NULL, movers + 1);
    rig_open(&traffic.rig, way, HWT_US(20), 64);
    for (unsigned i = 0; i < movers; i++)
        threads[i] = spawn(mover_thread, &traffic);
    for (unsigned round = 0; round < rounds; round++) {
        arm_round(&traffic, &traffic.moved[round * MOVED], &random);
        pthread_barrier_wait(&traffic.armed);
        pthread_barrier_wait(&traffic.done);
        end_round(&traffic, &traffic.moved[round * MOVED]);
    }
    for (unsigned i = 0; i < movers; i++)
        join(threads[i]);
    ck_assert_int_eq(hwt_timer_stop(traffic.rig.timer, NULL, NULL), 0);
    ck_assert_uint_eq(traffic.broken, 0);
    for (unsigned i = 0; i < rounds * MOVED; i++)
        check_moved(&traffic, &traffic.moved[i]);
    rig_close(&traffic.rig);
    free(traffic.moved);
}

START_TEST(never_before_the_last_deadline_of_the_one_that_moves_it)
{
    traffic_play(_i, 1, false, test_scaled(600));
    traffic_play(_i, 1, true, test_scaled(300));
}
END_TEST

START_TEST(never_before_the_last_deadlines_of_three_that_move_it)
{
    traffic_play(_i, MOVERS, false, test_scaled(300));
    traffic_play(_i, MOVERS, true, test_scaled(200));
}
END_TEST

/* ---- Cancels among the moves ---- */

struct chase {
    struct rig rig;
    struct moved *moved;
    unsigned count;
    uint64_t seed;
    pthread_barrier_t go;
    shared_count next_thread, broken;
};

/* Two move, one cancels; after its answer nothing starts, and all moves are refused. */
static void *chase_thread(void *arg)
{
    struct chase *chase = arg;
    uint64_t role = chase->next_thread++;
    uint64_t random = chase->seed + role;

    pthread_barrier_wait(&chase->go);
    for (unsigned i = 0; i < chase->count; i++) {
        struct moved *moved = &chase->moved[i];

        for (uint64_t turn = below(&random, 4); role && turn > 0; turn--)
            hwt_timeout_reschedule(moved->timeout,
                                   below(&random, 4) ? below(&random, HWT_US(200)) : HWT_SEC(3600));
        if (role)
            continue;
        spin(below(&random, 400));
        moved->wins += hwt_timeout_cancel_sync(moved->timeout);
        expect(moved->wins + moved->runs == 1, &chase->broken);
        expect(!hwt_timeout_reschedule(moved->timeout, 0), &chase->broken);
    }
    return NULL;
}

static void chase_round(struct chase *chase)
{
    pthread_t threads[3];

    memset(chase->moved, 0, chase->count * sizeof *chase->moved);
    chase->next_thread = 0;
    for (unsigned i = 0; i < chase->count; i++) {
        chase->moved[i].timer = chase->rig.timer;
        chase->moved[i].timeout = arm(chase->rig.timer, &moved_task, &chase->moved[i], HWT_US(i));
    }
    for (int i = 0; i < 3; i++)
        threads[i] = spawn(chase_thread, chase);
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    ck_assert_uint_eq(hwt_timer_pending(chase->rig.timer), 0);
}

static void chase_check(struct chase *chase)
{
    for (unsigned i = 0; i < chase->count; i++)
        expect(chase->moved[i].wins + chase->moved[i].runs == 1, &chase->broken);
    ck_assert_uint_eq(chase->broken, 0);
}

START_TEST(a_cancel_among_moves_is_the_end)
{
    static struct chase chase;
    unsigned rounds = test_scaled(60) + 2;

    memset(&chase, 0, sizeof chase);
    chase.count = 1000;
    chase.moved = calloc(chase.count, sizeof *chase.moved);
    ck_assert_ptr_nonnull(chase.moved);
    pthread_barrier_init(&chase.go, NULL, 3);
    rig_open(&chase.rig, _i, HWT_US(20), 64);
    for (unsigned round = 0; round < rounds; round++) {
        chase.seed = test_seed() + round * 16;
        chase_round(&chase);
        chase_check(&chase);
    }
    ck_assert_int_eq(hwt_timer_stop(chase.rig.timer, NULL, NULL), 0);
    chase_check(&chase);
    rig_close(&chase.rig);
    free(chase.moved);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("stress_reschedule");

    tcase_add_loop_test(stress_case(suite, "one"),
                        never_before_the_last_deadline_of_the_one_that_moves_it, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "three"),
                        never_before_the_last_deadlines_of_three_that_move_it, 0, WAYS);
    tcase_add_loop_test(stress_case(suite, "chase"), a_cancel_among_moves_is_the_end, 0, WAYS);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
