/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the delays of hwt/retry.h take their chance from: a seed says all; without one, no two sequences, threads or children of fork() draw the same.
 */

#include "api_fixture.h"

#include <sys/wait.h>

#include <hwt/retry.h>

/* ---- With a seed ---- */

static uint64_t tenth(hwt_backoff backoff)
{
    uint64_t delay = 0;
    for (int i = 0; i < 10; i++)
        delay = hwt_backoff_next(&backoff);
    return delay;
}

static hwt_backoff seeded(uint64_t seed)
{
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    hwt_backoff backoff;
    options.seed = seed;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    return backoff;
}

START_TEST(a_seed_says_all_and_another_seed_something_else)
{
    for (uint64_t seed = 1; seed < 1000; seed++) {
        must(tenth(seeded(seed)) == tenth(seeded(seed)));
        must(tenth(seeded(seed)) != tenth(seeded(seed + 1)));
        must(tenth(seeded(seed)) != tenth(seeded(seed << 40)));
    }
}
END_TEST

static void check_sequence(hwt_backoff *backoff, const uint64_t *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(hwt_backoff_next(backoff), expected[i]);
}

#define CHECK_SEQUENCE(backoff, ...)                                                               \
    check_sequence(backoff, (const uint64_t[]){ __VA_ARGS__ },                                     \
                   sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* These never change: programs' tests may rest on them. */
START_TEST(the_delays_of_seed_42_are_these_for_ever)
{
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    hwt_backoff backoff;
    options.max_delay = HWT_SEC(5);
    options.seed = 42;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    CHECK_SEQUENCE(&backoff, 40300803, 51355474, 239788948, 608707570, 1015077638, 1161260381,
                   2661167012, 4483546581);
    options.jitter = HWT_JITTER_EQUAL;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    CHECK_SEQUENCE(&backoff, 90300803, 151355474, 271836658, 487518557, 1313683364, 1788579285,
                   3196219566, 4502459071);
    options.jitter = HWT_JITTER_DECORRELATED;
    options.factor = 3;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    CHECK_SEQUENCE(&backoff, 140300803, 419790930, 339788948, 708707570, 1115077638, 1261260381,
                   2761167012, 4583546581);
}
END_TEST

/* ---- Without: any two draws of 64 bits are the same once in 2^64 ---- */

enum { DRAWS = 4, CHILDREN = 12, THREADS = 8 };

static hwt_backoff unseeded(void)
{
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    hwt_backoff backoff;
    options.first_delay = options.max_delay = HWT_NEVER;
    ck_assert_int_eq(hwt_backoff_init(&backoff, &options), 0);
    return backoff;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void check_all_differ(uint64_t *drawn, size_t count)
{
    qsort(drawn, count, sizeof(drawn[0]), by_size);
    for (size_t i = 1; i < count; i++)
        must(drawn[i] > drawn[i - 1]);
}

START_TEST(no_two_sequences_are_the_same)
{
    static uint64_t drawn[1000];
    for (size_t i = 0; i < 1000; i++) {
        hwt_backoff backoff = unseeded();
        drawn[i] = hwt_backoff_next(&backoff);
    }
    check_all_differ(drawn, 1000);
}
END_TEST

START_TEST(copies_of_one_object_go_on_differently)
{
    hwt_backoff one = unseeded(), other;
    hwt_backoff_next(&one);
    other = one;
    ck_assert_uint_ne(hwt_backoff_next(&one), hwt_backoff_next(&other));
}
END_TEST

static void *draw_in_thread(void *arg)
{
    uint64_t *drawn = arg;
    hwt_backoff backoff = unseeded();
    for (int i = 0; i < DRAWS; i++)
        drawn[i] = hwt_backoff_next(&backoff);
    return NULL;
}

START_TEST(no_two_threads_draw_the_same)
{
    uint64_t drawn[THREADS][DRAWS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(draw_in_thread, drawn[i]);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    check_all_differ(drawn[0], (size_t)THREADS * DRAWS);
}
END_TEST

/* ---- After fork() ---- */

static void draw_delays(void *arg, uint64_t *ret_drawn)
{
    for (int i = 0; i < DRAWS; i++)
        ret_drawn[i] = hwt_backoff_next(arg);
}

/* In a child, which forks one itself, that draws after it. */
static void draw_in_child(void (*draw)(void *, uint64_t *), void *arg, int fd)
{
    for (int generation = 0; generation < 2; generation++) {
        uint64_t drawn[DRAWS];
        int status = -1;
        draw(arg, drawn);
        must(write(fd, drawn, sizeof(drawn)) == (ssize_t)sizeof(drawn));
        pid_t child = generation == 0 ? fork() : -1;
        if (child > 0)
            _exit(waitpid(child, &status, 0) != child || status != 0);
    }
    _exit(0);
}

/* The parent has drawn once before, and goes on drawing after. */
static void check_children(void (*draw)(void *, uint64_t *), void *arg)
{
    uint64_t drawn[2 * CHILDREN + 2][DRAWS];
    int pipes[2];
    ck_assert_int_eq(pipe(pipes), 0);
    draw(arg, drawn[0]);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            draw_in_child(draw, arg, pipes[1]);
    }
    draw(arg, drawn[1]);
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    for (int i = 0; i < 2 * CHILDREN; i++)
        ck_assert_int_eq(read(pipes[0], drawn[2 + i], sizeof(drawn[0])), sizeof(drawn[0]));
    check_all_differ(drawn[0], (size_t)(2 * CHILDREN + 2) * DRAWS);
}

START_TEST(children_of_one_parent_draw_other_delays)
{
    hwt_backoff backoff = unseeded();
    check_children(draw_delays, &backoff);
}
END_TEST

START_TEST(a_sequence_with_a_seed_goes_on_in_a_child)
{
    hwt_backoff backoff = seeded(42);
    hwt_backoff_next(&backoff);
    uint64_t expected = tenth(backoff);
    int status = -1;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(tenth(backoff) != expected);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("backoff_seeds");
    TCase *seeds = add_case(suite, "seed");
    tcase_add_test(seeds, a_seed_says_all_and_another_seed_something_else);
    tcase_add_test(seeds, the_delays_of_seed_42_are_these_for_ever);

    TCase *none = add_case(suite, "none");
    tcase_add_test(none, no_two_sequences_are_the_same);
    tcase_add_test(none, copies_of_one_object_go_on_differently);
    tcase_add_test(none, no_two_threads_draw_the_same);

    TCase *forks = add_case(suite, "fork");
    tcase_add_test(forks, children_of_one_parent_draw_other_delays);
    tcase_add_test(forks, a_sequence_with_a_seed_goes_on_in_a_child);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
