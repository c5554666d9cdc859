/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_HARD_TIMES_H
#define HWT_TESTS_HARD_TIMES_H

/*
 * A storm: threads that add, cancel and move timeouts of a timer without pause, so that
 * something can befall them in the midst of it. Each timeout's runs are checked against its
 * deadline, and every life of it, from an add to its end, is counted.
 */

#include "stress.h"

enum { STORM_THREADS = 3, STORM_PLACES = 400 /* timeouts a thread has at a time */ };

#define STORM_TICK HWT_MS(1)
#define STORM_DELAY_MAX HWT_MS(20)

struct storm;

struct storm_place {
    struct storm *storm;
    hwt_timeout timeout;     /* the thread's */
    shared_count not_before; /* no run starts before this instant */
    shared_count lives, ends;
};

struct storm {
    struct rig rig;
    struct storm_place places[STORM_THREADS][STORM_PLACES];
    pthread_t threads[STORM_THREADS];
    shared_count next_thread, quit;
    shared_count accepted, ended, broken;
    uint64_t seed;
};

static inline void storm_end(struct storm_place *place)
{
    place->ends++;
    place->storm->ended++;
}

static inline void storm_run(hwt_timeout timeout, void *arg)
{
    struct storm_place *place = arg;
    (void)timeout;
    expect(monotonic() >= place->not_before, &place->storm->broken);
    storm_end(place);
}

static inline void storm_cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    storm_end(arg);
}

static const hwt_task storm_task = { storm_run, storm_cancelled };

static inline void storm_add(struct storm_place *place, uint64_t delay)
{
    place->lives++;
    place->not_before = monotonic() + delay;
    int r =
        hwt_timer_new_timeout(place->storm->rig.timer, &storm_task, place, delay, &place->timeout);
    expect(r == 0, &place->storm->broken);
    place->storm->accepted++;
}

static inline void storm_move(struct storm_place *place, uint64_t delay)
{
    uint64_t before = place->not_before, target = monotonic() + delay;
    if (target < before)
        place->not_before = target;
    if (hwt_timeout_reschedule_at(place->timeout, target))
        place->not_before = target;
}

static inline void storm_look(struct storm *storm)
{
    char text[256];
    hwt_stats stats = HWT_STATS_INIT;
    expect(hwt_timer_dump(storm->rig.timer, text, sizeof(text)) > 0, &storm->broken);
    expect(hwt_timer_stats(storm->rig.timer, &stats) == 0, &storm->broken);
    expect(stats.added <= storm->accepted + STORM_THREADS, &storm->broken);
}

static inline void storm_visit(struct storm_place *place, uint64_t *random)
{
    uint64_t delay = below(random, STORM_DELAY_MAX);
    if (place->lives == place->ends) {
        storm_add(place, delay);
        return;
    }
    switch (below(random, 8)) {
    case 0:
        hwt_timeout_cancel(place->timeout);
        break;
    case 1:
        hwt_timeout_cancel_sync(place->timeout);
        break;
    case 2:
    case 3:
        storm_move(place, delay);
        break;
    default:
        break;
    }
}

static inline void *storm_thread(void *arg)
{
    struct storm *storm = arg;
    uint64_t number = storm->next_thread++;
    uint64_t random = storm->seed + number;
    while (!storm->quit) {
        storm_visit(&storm->places[number][below(&random, STORM_PLACES)], &random);
        if (below(&random, 64) == 0)
            sched_yield();
        if (below(&random, 4096) == 0)
            storm_look(storm);
    }
    return NULL;
}

/* In one of the ways of stress.h. */
static inline void storm_open(struct storm *storm, int way)
{
    memset(storm, 0, sizeof(*storm));
    storm->seed = test_seed();
    for (int i = 0; i < STORM_THREADS; i++) {
        for (int j = 0; j < STORM_PLACES; j++)
            storm->places[i][j].storm = storm;
    }
    rig_open(&storm->rig, way, STORM_TICK, 16);
    for (int i = 0; i < STORM_THREADS; i++)
        storm->threads[i] = spawn(storm_thread, storm);
}

/* True once so many more timeouts have ended than now; false after so long without it. */
static inline bool storm_goes_on(struct storm *storm, uint64_t patience, uint64_t more)
{
    return await_within(patience, &storm->ended, storm->ended + more);
}

/* All that was accepted has ended once, and nothing began too early. */
static inline void storm_close(struct storm *storm)
{
    storm->quit = 1;
    for (int i = 0; i < STORM_THREADS; i++)
        join(storm->threads[i]);
    must(hwt_timer_stop(storm->rig.timer, NULL, NULL) >= 0);
    rig_close(&storm->rig);
    for (int i = 0; i < STORM_THREADS; i++) {
        for (int j = 0; j < STORM_PLACES; j++)
            must(storm->places[i][j].lives == storm->places[i][j].ends);
    }
    ck_assert_uint_eq(storm->accepted, storm->ended);
    ck_assert_uint_eq(storm->broken, 0);
}

/*
 * What a program's arguments say. --times n does everything n times as often; 1 by default.
 * Others end the program.
 */
static unsigned times = 1;

static inline void read_arguments(int argc, char **argv)
{
    char *end = NULL;
    unsigned long n = argc == 3 && strcmp(argv[1], "--times") == 0 ? strtoul(argv[2], &end, 10) : 1;
    if (argc != 1 && (!end || *end != '\0' || n < 1 || n > 100000)) {
        fprintf(stderr,
                "usage: %s [--times n]\n"
                "    n from 1 to 100000: everything n times as often as by default\n"
                "    CK_RUN_CASE in the environment: one test case alone\n",
                argv[0]);
        exit(2);
    }
    times = (unsigned)n;
}

/* The limit of a test case in seconds, for one time. */
static inline TCase *hard_case(Suite *suite, const char *name, unsigned seconds)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, (double)seconds * times);
    suite_add_tcase(suite, tcase);
    return tcase;
}

#endif
