/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt/net/random.h with a system that has no random numbers, or runs no handler of fork(). What it
 * promises of threads and children is in test_backoff_seeds.c.
 */

#include "api_fixture.h"

#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hwt/net/random.h"

static bool refuse_random, refuse_handler;
static unsigned asked;

/* In place of libc's. */
ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    asked++;
    if (refuse_random) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, buffer, length, flags);
}

/* Nothing but the process and the thread is different then. */
static bool stopped_clock;

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    if (stopped_clock) {
        *ret_now = (struct timespec){ 7, 7 };
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, ret_now);
}

static void (*handler)(void);

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    must(!prepare && !parent && !handler);
    handler = child;
    return 0;
}

static uint64_t draw(void)
{
    return hwt_random_next(hwt_random_own());
}

/* What a new process draws first, without what this one has drawn. */
static uint64_t draw_in_child(void)
{
    uint64_t drawn = 0;
    int pipes[2], status = -1;
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (!refuse_handler)
            handler();
        drawn = draw();
        _exit(write(pipes[1], &drawn, sizeof(drawn)) != sizeof(drawn));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(pipes[0], &drawn, sizeof(drawn)), sizeof(drawn));
    close(pipes[0]);
    close(pipes[1]);
    return drawn;
}

static void check_children(void)
{
    uint64_t drawn[20];
    drawn[0] = draw();
    for (size_t i = 1; i < 20; i++)
        drawn[i] = i % 4 ? draw_in_child() : draw();
    for (size_t i = 0; i < 20; i++)
        for (size_t j = 0; j < i; j++)
            must(drawn[i] != drawn[j]);
}

START_TEST(a_thread_asks_the_system_once)
{
    for (int i = 0; i < 1000; i++)
        draw();
    ck_assert_uint_eq(asked, 1);
    check_children();
}
END_TEST

START_TEST(without_random_numbers_of_the_system_children_differ_all_the_same)
{
    refuse_random = stopped_clock = true;
    check_children();
    stopped_clock = false; /* Check has the same, and measures with it */
    ck_assert_uint_eq(asked, 1);
}
END_TEST

START_TEST(without_a_handler_children_differ_all_the_same)
{
    refuse_handler = true;
    check_children();
    refuse_handler = false;
}
END_TEST

START_TEST(all_numbers_up_to_the_most_come_and_no_other)
{
    uint64_t sequence = 1;
    for (uint64_t most = 0; most < 70; most++) {
        uint64_t counts[70] = { 0 };
        for (int i = 0; i < 20000; i++)
            counts[hwt_random_up_to(&sequence, most)]++;
        for (uint64_t i = 0; i < 70; i++)
            must((counts[i] > 20000 / (most + 1) / 2) == (i <= most));
    }
    uint64_t seen = 0;
    for (int i = 0; i < 1000; i++)
        seen |= hwt_random_up_to(&sequence, UINT64_MAX);
    ck_assert_uint_eq(seen, UINT64_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tcase = add_case(suite, "own");
    tcase_add_test(tcase, a_thread_asks_the_system_once);
    tcase_add_test(tcase, without_random_numbers_of_the_system_children_differ_all_the_same);
    tcase_add_test(tcase, without_a_handler_children_differ_all_the_same);
    tcase_add_test(tcase, all_numbers_up_to_the_most_come_and_no_other);
    return run_suite(suite);
}
