/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A timer that fork() takes along has a descriptor of its own in the child. Where the child can have
 * none, its loop would never be woken: so the first timeout and the start are refused with the
 * system's error, and nothing is lost.
 */

#include "fork_fixture.h"

/* Numbers below this are allowed. */
static void allow_descriptors_below(int number)
{
    struct rlimit limit;
    child_must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)number;
    child_must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* A descriptor that is open has a number past this. */
static void allow_no_more_descriptors(void)
{
    allow_descriptors_below(STDERR_FILENO + 1);
}

static void allow_descriptors_again(void)
{
    struct rlimit limit;
    child_must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    child_must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* expect_well() without a descriptor. */
static void fork_and_expect_well(void (*work)(void *), void *arg)
{
    int status;
    pid_t child = fork();
    child_must(child >= 0);
    if (child == 0) {
        alarm(CHILD_PATIENCE);
        work(arg);
        _exit(EXIT_SUCCESS);
    }
    child_must(waitpid(child, &status, 0) == child);
    child_must(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS);
}

static void expect_start_to_be_refused(hwt_timer *timer)
{
    ends e = { 0 };
    hwt_timeout timeout = { NULL, 17 };
    child_must(hwt_timer_start(timer) == -EMFILE);
    child_must(hwt_timer_new_timeout(timer, &counting, &e, 0, &timeout) == -EMFILE);
    child_must(timeout.generation == 17 && hwt_timer_pending(timer) == 0);
    child_must(stats_of(timer).rejected == 1);
}

static int noted;

static void loop_by_what_was_noted(void *timer)
{
    loop_by(timer, noted);
}

/* All numbers are taken, and the child takes that of its parent. */
static void fork_with_all_taken(void *timer)
{
    allow_descriptors_below(64);
    while (dup(STDERR_FILENO) >= 0)
        ;
    fork_and_expect_well(loop_by_what_was_noted, timer);
}

START_TEST(a_child_needs_no_more_descriptors_than_its_parent)
{
    hwt_timer *timer = create_driven(0, HWT_MS(1));
    noted = hwt_timer_fd(timer);
    ck_assert_int_ge(noted, 0);
    expect_well("a parent with all descriptors taken", fork_with_all_taken, timer);
    hwt_timer_destroy(timer);
}
END_TEST

/* What its loop has noted is gone, so it asks again. */
static void loop_without_a_descriptor(void *timer)
{
    expect_start_to_be_refused(timer);
    child_must(hwt_timer_fd(timer) == -EMFILE);
    allow_descriptors_again();
    child_must(hwt_timer_start(timer) == -EMFILE);
    int fd = hwt_timer_fd(timer);
    child_must(fd >= 0);
    loop_by(timer, fd);
}

static void fork_a_loop_at_the_limit(void *timer)
{
    allow_no_more_descriptors();
    fork_and_expect_well(loop_without_a_descriptor, timer);
    loop_by(timer, noted);
}

START_TEST(a_loop_in_a_child_without_its_descriptor_is_refused_until_it_asks_for_one)
{
    hwt_timer *timer = create_driven(_i ? HWT_ONE_THREAD : 0, HWT_MS(1));
    noted = hwt_timer_fd(timer);
    ck_assert_int_ge(noted, 0);
    expect_well("a parent with a loop and no number left", fork_a_loop_at_the_limit, timer);
    hwt_timer_destroy(timer);
}
END_TEST

/* A lower number is free, but the one that was noted is not to be had. */
static void loop_by_another_number(void *timer)
{
    expect_start_to_be_refused(timer);
    int fd = hwt_timer_fd(timer);
    child_must(fd >= 0 && fd != noted);
    loop_by(timer, fd);
}

static int lower;

/* The parent may close a number below the one that the loop has noted. */
static void check_with_a_lower_number(void (*work)(void *timer))
{
    lower = dup(STDERR_FILENO);
    hwt_timer *timer = create_driven(0, HWT_MS(1));
    noted = hwt_timer_fd(timer);
    ck_assert_int_gt(noted, lower);
    expect_well("a parent with a lower number", work, timer);
    close(lower);
    hwt_timer_destroy(timer);
}

static void fork_with_a_lower_number(void *timer)
{
    close(lower);
    allow_descriptors_below(noted);
    fork_and_expect_well(loop_by_another_number, timer);
}

START_TEST(a_loop_whose_number_cannot_be_had_is_refused_until_it_asks_for_one)
{
    check_with_a_lower_number(fork_with_a_lower_number);
}
END_TEST

/* The child's own descriptor has that number first, and is moved to the one that was noted. */
static void loop_by_the_noted_number(void *timer)
{
    child_must(hwt_timer_fd(timer) == noted);
    loop_by(timer, noted);
}

static void fork_with_a_free_number(void *timer)
{
    close(lower);
    fork_and_expect_well(loop_by_the_noted_number, timer);
}

START_TEST(a_loop_in_a_child_has_the_number_that_it_has_noted)
{
    check_with_a_lower_number(fork_with_a_free_number);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api: children without descriptors");
    TCase *tcase = add_case(suite, "limits");
    tcase_add_test(tcase, a_child_needs_no_more_descriptors_than_its_parent);
    tcase_add_loop_test(
        tcase, a_loop_in_a_child_without_its_descriptor_is_refused_until_it_asks_for_one, 0, 2);
    tcase_add_test(tcase, a_loop_in_a_child_has_the_number_that_it_has_noted);
    tcase_add_test(tcase, a_loop_whose_number_cannot_be_had_is_refused_until_it_asks_for_one);
    return run_suite(suite);
}
