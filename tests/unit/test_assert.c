/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A change of a state that is no row of the table in pool/entry.h stops the program in builds with
 * assertions; the same change from the right state is made.
 */

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hwt/pool/entry.h"
#include "unit.h"

static struct hwt_entry entry;

static const hwt_task task = { 0 };
static const hwt_task told = { .cancelled = (void (*)(hwt_timeout, void *))(uintptr_t)1 };

static uint64_t begin(const hwt_task *which)
{
    return hwt_entry_begin(&entry, which, NULL, 7);
}

static uint64_t begin_run(void)
{
    uint64_t running;
    ck_assert(hwt_entry_begin_run(&entry, begin(&task), 7, &running, false));
    return running;
}

/* From states that are not theirs. */
static void bar_what_is_pending(void)
{
    (void)hwt_entry_bar(&entry, begin(&task));
}

static void cancel_silently_what_is_to_be_told(void)
{
    (void)hwt_entry_try_cancel(&entry, begin(&told), false);
}

static void cancel_what_runs(void)
{
    (void)hwt_entry_try_cancel(&entry, begin_run(), false);
}

static void run_what_runs(void)
{
    uint64_t running;
    (void)hwt_entry_begin_run(&entry, begin_run(), 7, &running, false);
}

static void move_what_runs(void)
{
    (void)hwt_entry_move(&entry, begin_run(), 7, 8, false);
}

static void publish_what_has_ended(void)
{
    uint64_t running = begin_run();
    ck_assert(hwt_entry_expire(&entry, running, false));
    hwt_entry_publish(&entry, hwt_entry_state(&entry));
}

static void expire_what_is_armed_again(void)
{
    uint64_t running = begin_run();
    ck_assert(hwt_entry_rearm(&entry, running, 7, 9, false));
    (void)hwt_entry_expire(&entry, hwt_entry_state(&entry), false);
}

static void store_from_another_state(void)
{
    uint64_t state = begin(&task);
    ck_assert(hwt_entry_move(&entry, state, 7, 8, true));
    (void)hwt_entry_move(&entry, state, 7, 9, true);
}

static void (*const mistakes[])(void) = {
    bar_what_is_pending,
    cancel_silently_what_is_to_be_told,
    cancel_what_runs,
    run_what_runs,
    move_what_runs,
    publish_what_has_ended,
    expire_what_is_armed_again,
    store_from_another_state,
};
#define MISTAKES (int)(sizeof(mistakes) / sizeof(mistakes[0]))

/* In a child, which says nothing of it. */
START_TEST(a_change_from_a_wrong_state_stops_the_program)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        (void)close(STDERR_FILENO);
        mistakes[_i]();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

START_TEST(a_change_from_the_right_state_is_made_once)
{
    uint64_t state = begin(&told);
    ck_assert(hwt_entry_try_cancel_untold(&entry, state));
    ck_assert(!hwt_entry_try_cancel_untold(&entry, state));
    ck_assert_uint_eq(hwt_phase(hwt_entry_state(&entry)), HWT_PHASE_UNTOLD);
    state = begin_run();
    ck_assert(hwt_entry_rearm(&entry, state, 7, 9, false));
    ck_assert(!hwt_entry_bar(&entry, state));
    state = hwt_entry_state(&entry);
    ck_assert(hwt_entry_run_again(&entry, state, 9, false));
    ck_assert_uint_eq(hwt_entry_deadline(&entry), 9);
    ck_assert_uint_eq(hwt_phase(hwt_entry_state(&entry)), HWT_PHASE_PENDING);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assertions");
    TCase *stops = unit_case(suite, "stop", NULL, NULL);
    TCase *rows = unit_case(suite, "rows", NULL, NULL);
    if (HWT_ASSERTIONS > 0)
        tcase_add_loop_test(stops, a_change_from_a_wrong_state_stops_the_program, 0, MISTAKES);
    tcase_add_test(rows, a_change_from_the_right_state_is_made_once);
    return run_suite(suite);
}
