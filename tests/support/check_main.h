/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_CHECK_MAIN_H
#define HWT_TESTS_CHECK_MAIN_H

/*
 * What every test program shares: the end of its main(), and numbers at random that
 * can be had again.
 *
 *     int main(void)
 *     {
 *         return run_suite(make_suite());
 *     }
 *
 * The environment decides the rest:
 *     CK_RUN_CASE=name    runs that test case alone
 *     CK_FORK=no          all tests in one process, for a debugger; no time-outs then
 *     CK_VERBOSITY=verbose
 *     HWT_TEST_SEED=n     the seed of the random tests, decimal or 0x...
 *     HWT_TEST_SCALE=n    an nth of the rounds of tests that have very many (default 1; 8 under a sanitizer)
 */

#include <check.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

/*
 * Check writes to a file whenever an assertion holds, so that it can tell where a test was when it crashed or was too
 * slow. In loops that took most of the time, so each place is told once: "after this point" names the place that was
 * the last one to be reached for the first time.
 */
static inline void test_mark_once(const char *file, int line)
{
    static _Thread_local bool told[4096]; /* by the line; a header's may be taken for another's */
    bool *place = &told[(unsigned)line % (sizeof(told) / sizeof(*told))];

    if (!*place) {
        *place = true;
        _mark_point(file, line);
    }
}
#define _mark_point(file, line) test_mark_once(file, line)

/* Meson runs it by an emulator, which has not all that the system has. */
static inline bool is_emulated(void)
{
    const char *wrapper = getenv("MESON_EXE_WRAPPER");
    return wrapper && *wrapper;
}

/* The next number of the sequence that *state is in (splitmix64). Any seed is fine. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t test_seed_choose(void)
{
    const char *text = getenv("HWT_TEST_SEED");
    uint64_t state;
    struct timespec now;

    if (text && *text) {
        char *end;
        uint64_t seed = strtoull(text, &end, 0);

        if (*end) {
            fprintf(stderr, "HWT_TEST_SEED is not a number: %s\n", text);
            exit(EXIT_FAILURE);
        }
        return seed;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    state = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
    state ^= (uint64_t)getpid() << 32;
    return test_random(&state) >> 32;
}

/*
 * The seed of this run. It is the same in every test of a program, although each is a
 * process of its own, because run_suite() has asked for it before they are forked. Says
 * what it is where it is used, once a process.
 */
static inline uint64_t test_seed_get(bool say)
{
    static bool chosen;
    static _Atomic bool said;
    static uint64_t seed;

    if (!chosen) {
        seed = test_seed_choose();
        chosen = true;
    }
    if (say && !atomic_exchange(&said, true)) {
        printf("seed: %" PRIu64 " (set HWT_TEST_SEED to repeat)\n", seed);
        fflush(stdout);
    }
    return seed;
}

static inline uint64_t test_seed(void)
{
    return test_seed_get(true);
}

/* So many rounds, or fewer where each of them is slow; at least one. */
static inline unsigned test_scaled(unsigned rounds)
{
    const char *text = getenv("HWT_TEST_SCALE");
    unsigned long scale = text && *text ? strtoul(text, NULL, 0) : TEST_SANITIZED ? 8 : 1;

    return scale <= 1 ? rounds : rounds / scale > 0 ? (unsigned)(rounds / scale) : 1;
}

/*
 * Runs the suite and frees it; returns what main() should. That no test was run at all,
 * as with a mistyped CK_RUN_CASE, is a failure.
 */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int run, failed;

    test_seed_get(false);
    srunner_run_all(runner, CK_ENV);
    run = srunner_ntests_run(runner);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (run == 0)
        fprintf(stderr, "no test was run: is there a case of that name?\n");
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
