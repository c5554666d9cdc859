/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread stands at each point of each call that is no part of the worker's work, and of an executor's
 * thread: others arm, move and cancel meanwhile, and their timeouts run and are told. The points are
 * those that points.sh finds in the sources: one that is in no list here is an error.
 */

#include <stdio.h>

#include "stage.h"

#include "children.h"

enum { MANY = 150000, SOME = 5000, OTHERS = 50 }; /* with MANY the directory of slabs grows */

/* ---- what others do ---- */

static ends theirs;

static void use_timer(void)
{
    for (int i = 0; i < OTHERS; i++) {
        hwt_timeout late = arm(timer, &silent, &theirs, HWT_MIN(30));
        (void)arm(timer, &silent, &theirs, HWT_MS(i % 3));
        must(hwt_timeout_cancel(arm(timer, &counting, &theirs, HWT_MIN(30))));
        must(hwt_timeout_cancel(arm(timer, &silent, &theirs, HWT_MIN(30))));
        must(hwt_timeout_reschedule(late, HWT_MIN(31)));
        must(hwt_timeout_reschedule(late, HWT_MS(i % 5)));
    }
}

static void *use_first(void *data)
{
    use_timer();
    return data;
}

/* One has a lane already, another makes its first call. */
static void expect_others_go_on(const char *point)
{
    theirs = (ends){ 0 };
    use_timer();
    join(spawn(use_first, NULL));
    ck_assert_msg(await_count(&theirs.runs, 4 * OTHERS), "%s: timeouts do not run", point);
    ck_assert_msg(await_count(&theirs.cancelled, 2 * OTHERS), "%s: cancels are not told", point);
}

/* ---- calls, in which a thread stands ---- */

static hwt_timeout all[MANY];
static int all_count;

static void use_all(struct actor *actor)
{
    char text[10000];
    hwt_pending soonest;
    hwt_timeout told = arm(timer, &counting, &fate, HWT_MIN(20));
    for (int i = 0; i < all_count; i++)
        all[i] = arm(timer, &silent, &fate, HWT_MIN(20));
    must(hwt_timeout_reschedule(all[0], HWT_MIN(30)));
    must(hwt_timeout_reschedule(all[0], HWT_MIN(10)));
    must(hwt_timeout_remaining(told) > 0);
    must(hwt_timer_soonest(timer, NULL, NULL, &soonest, 1) == 1);
    must(hwt_timer_dump(timer, text, sizeof(text)) > 0);
    must(hwt_timeout_cancel(told));
    for (int i = 0; i < all_count; i++)
        must(hwt_timeout_cancel(all[i]));
    hwt_lanes_ask_back(&timer->shared.lanes); /* as the worker does after a peak */
    must(hwt_timeout_cancel(arm(timer, &silent, &fate, HWT_MIN(20))));
    actor->answer = 0;
}

static void start_it(struct actor *actor)
{
    actor->answer = hwt_timer_start(timer);
}

/* Its task runs until the actor stands. */
static atomic_bool may_return;

static void run_long(hwt_timeout timeout, void *arg)
{
    (void)hwt_timeout_reschedule(timeout, HWT_MIN(20));
    count_run(timeout, arg);
    while (!may_return)
        (void)poll(NULL, 0, 1);
}

static const hwt_task long_task = { run_long, NULL };

static void cancel_running(struct actor *actor)
{
    hwt_timeout timeout = arm(timer, &long_task, &fate, 0);
    must(await_count(&fate.runs, 1));
    actor->answer = hwt_timeout_cancel_sync(timeout);
}

/* The executor has one entry, which the actor works on; the worker runs all others itself. */
static void (*handed)(void *arg);
static void *handed_arg;
static shared_count handed_over;

static int take_one(void *data, void (*work)(void *arg), void *arg)
{
    (void)data;
    if (handed_over > 0)
        return -1;
    handed = work;
    handed_arg = arg;
    handed_over++;
    return 0;
}

static void run_again(hwt_timeout timeout, void *arg)
{
    if (fate.runs == 0)
        must(hwt_timeout_reschedule(timeout, HWT_MIN(20)));
    count_run(timeout, arg);
}

static const hwt_task again = { run_again, count_cancelled };

static void hand_over(hwt_timeout *ret_timeout)
{
    *ret_timeout = arm(timer, &again, &fate, 0);
    must(await_count(&handed_over, 1));
}

static void run_handed(struct actor *actor)
{
    hwt_timeout timeout;
    hand_over(&timeout);
    handed(handed_arg);
    actor->answer = 0;
}

static void tell_handed(struct actor *actor)
{
    hwt_timeout timeout;
    hand_over(&timeout);
    must(hwt_timeout_cancel(timeout));
    handed(handed_arg);
    actor->answer = 0;
}

static void run_once(struct actor *actor)
{
    fate.runs = 1; /* so that it does not re-arm itself */
    run_handed(actor);
}

/* ---- the points ---- */

static const struct {
    void (*call)(struct actor *actor);
    const char *points;
} reached[] = {
    { use_all,
      "NUMBER_TAKE RESERVE BATCH_POP EMPTY_POP EMPTY_PUSH STACK_POP STACK_PUSH BATCH_PUSH "
      "NUMBERS ENTER DIRECTORY DIRECTORY_NEXT DIRECTORY_SEAL ADD_PUBLISH APPEND APPENDED "
      "PUBLISHED ADD_CHECK LIST PUSH LINK PUSHED CHUNK PIECE_CUT CLAIM COMPACT CUT RELEASE "
      "WAKE_3 WAKE_4 WAKE_DONE MOVE MOVE_PUBLISH ASK_AGAIN SOONEST REQUEST_WAKE AWAIT "
      "CANCEL CANCEL_PUBLISH GIVEN_BACK NUMBER_GIVE" },
    { start_it, "STARTED" },
    { cancel_running, "BAR CANCEL_WAIT WAIT" },
    { run_handed, "TAKE_UP BEGIN RUN REARM RAN FINISH RETURNED AGAIN HAND_BACK" },
    { run_once, "TAKE_UP BEGIN RUN RAN FINISH RETURNED HAND_BACK" },
    { tell_handed, "TELL TELL_CANCELLED HAND_BACK" },
};

/* The worker's own, or a loop's that is the worker; a stop's or an end's, in which no new timeout is
 * accepted; and before there is a worker. */
static const char *const left_out =
    " REQUEST_DONE RETURN_WAKE PARK_A PARK_B PARK_D AWAKE SLEEP WORKER DISMISS HAND_OVER TRIM "
    "EMPTY "
    "PIECES_EMPTY LEAVE SET_FD WAKE_QUIET QUIET "
    "STOP STOP_WAKE STOP_BARRIER STOP_WALK VISITED END ENDING END_LOOK END_WALK WITHDRAW "
    "START ";

static bool has_point(const char *list, const char *point)
{
    size_t length = strlen(point);
    for (const char *at = list; (at = strstr(at, point)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    }
    return false;
}

static void open_stands(bool executes)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.max_pending = 10 * MANY;
    options.executor = executes ? take_one : NULL;
    handed_over = 0;
    may_return = false;
    fate = beside = (ends){ 0 };
    timer = create(&options);
}

static bool is_of_directory(const char *point)
{
    return strncmp(point, "DIRECTORY", strlen("DIRECTORY")) == 0;
}

/*
 *     actor                           others, worker
 *     stands at the point
 *                                     arm, move, cancel; the worker runs and tells
 *     goes on
 */
static void stand_at(void (*call)(struct actor *actor), const char *point)
{
    struct actor actor;
    open_stands(call == run_handed || call == tell_handed || call == run_once);
    if (call != start_it) {
        must(hwt_timer_start(timer) == 0);
        (void)arm(timer, &silent, &beside, HWT_MIN(60)); /* for this the worker sleeps */
        must(await_count(&timer->shared.gate.wake_before, 1));
    }
    all_count = is_of_directory(point) ? MANY : SOME;
    actor_begin(&actor, call);
    actor_go_to(&actor, point);
    may_return = true;
    expect_others_go_on(point);
    actor_end(&actor);
    hwt_timer_destroy(timer);
}

/* ThreadSanitizer takes a minute for what makes the directory grow. LINK may be within liburcu's own
 * push. */
static bool is_tried(const char *point)
{
#if HWT_INLINE_URCU && !defined(CONFIG_RCU_USE_ATOMIC_BUILTINS)
    const bool has_link = true;
#else
    const bool has_link = false;
#endif
    return (has_link || strcmp(point, "LINK") != 0) &&
           !(WITH_THREAD_SANITIZER && is_of_directory(point));
}

START_TEST(who_stands_at_any_point_of_a_call_holds_nobody_up)
{
    char point[64];
    uint32_t count = 0;
    FILE *points = popen("sh " POINTS_SH, "r");
    ck_assert_ptr_nonnull(points);
    while (fscanf(points, "%63s", point) == 1) {
        bool known = has_point(left_out, point);
        for (size_t i = 0; i < sizeof(reached) / sizeof(*reached); i++) {
            if (!has_point(reached[i].points, point))
                continue;
            known = true;
            count++;
            if (is_tried(point))
                stand_at(reached[i].call, point);
        }
        ck_assert_msg(known, "%s: no call here comes to this point", point);
    }
    ck_assert_int_eq(pclose(points), 0);
    ck_assert_uint_ge(count, 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: who stands");
    TCase *tcase = tcase_create("points");
    tcase_set_timeout(tcase, 280);
    tcase_add_test(tcase, who_stands_at_any_point_of_a_call_holds_nobody_up);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
