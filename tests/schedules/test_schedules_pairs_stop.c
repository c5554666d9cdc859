/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stop and each call that may meet it, in all schedules of this form: one goes so many steps, the
 * other so many, the call goes to its end, and so does stop, which may have to wait for that. And
 * with a third call, which is made whole between the two, in some schedules that the seed chooses.
 * What was accepted has one end, and one that goes with what was answered.
 *
 *     HWT_TEST_SCALE=n    an nth of the schedules (default 1; 8 under a sanitizer)
 */

#include "stage.h"

#include "stress.h"

enum call { CANCEL_IT, MOVE_EARLIER, MOVE_LATER, ADD, FILE_ALL, FIRE, CALLS };

static const char *const names[CALLS] = { "cancel", "move earlier", "move later",
                                          "add",    "file",         "fire" };

enum kind { UNREAD, FILED, KINDS };
enum { DUE = 20, FIRED = 21, EARLIER = 10, LATER = 30, BESIDE = 15 };

static struct {
    enum kind kind;
    enum call call, third; /* CALLS: no third */
    bool stop_first;
    hwt_timeout timeout;
    struct actor caller, stopper, other;
    const char *caller_stood, *stopper_stood;
} scene;

static uint64_t schedules, random_state;

static void tell_and_fail(const char *condition)
{
    ck_abort_msg("kind %d: %s to %s, stop to %s, %s first; third %s: %s does not hold", scene.kind,
                 names[scene.call], scene.caller_stood, scene.stopper_stood,
                 scene.stop_first ? "stop" : "it",
                 scene.third == CALLS ? "none" : names[scene.third], condition);
}

#define holds(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            tell_and_fail(#condition);                                                             \
    } while (0)

static void act(struct actor *actor, enum call call)
{
    switch (call) {
    case CANCEL_IT:
        act_cancel(actor, scene.timeout);
        break;
    case MOVE_EARLIER:
        act_move(actor, scene.timeout, AT(EARLIER));
        break;
    case MOVE_LATER:
        act_move(actor, scene.timeout, AT(LATER));
        break;
    case ADD:
        act_add(actor, timer, &counting, &beside, AT(BESIDE));
        break;
    default:
        act_drive(actor, call == FIRE ? FIRED : 1);
    }
}

static bool drives(enum call call)
{
    return call == FILE_ALL || call == FIRE;
}

static int64_t answer_of(enum call call)
{
    if (scene.call == call)
        return scene.caller.answer;
    return scene.third == call ? scene.other.answer : 0;
}

static bool is_made(enum call call)
{
    return scene.call == call || scene.third == call;
}

static void check_ends(void)
{
    bool cancelled = answer_of(CANCEL_IT), added = is_made(ADD) && answer_of(ADD) == 0;
    holds(ends_sum(&fate) == 1);
    holds(fate.cancelled == cancelled);
    holds(fate.runs <= is_made(FIRE));
    holds(answer_of(ADD) == 0 || answer_of(ADD) == -ESHUTDOWN);
    holds(ends_sum(&beside) == added);
    holds((uint64_t)scene.stopper.answer == fate.visited + beside.visited);
    holds(hwt_timer_pending(timer) == 0);
    holds(timer->shared.reserved == 0);
    holds(stats_of(timer).added == 1U + added);
    /* Gone: what was added since has its entry. */
    hwt_state state = hwt_timeout_state(scene.timeout);
    holds(state == (fate.runs ? HWT_EXPIRED : HWT_CANCELLED) ||
          (is_made(ADD) && state == HWT_GONE));
}

/* The steps of stop beyond which it goes in a circle, waiting. */
enum { STOP_STEPS = 24 };

/* Returns how many steps the caller has gone. */
static uint32_t perform(uint32_t steps, uint32_t steps_of_stop)
{
    memset(&fate, 0, sizeof(fate));
    memset(&beside, 0, sizeof(beside));
    stage_open();
    scene.timeout = add_either(scene.kind == FILED, AT(DUE));
    act(&scene.caller, scene.call);
    act_stop(&scene.stopper, timer);
    if (scene.third != CALLS)
        act(&scene.other, scene.third);
    if (scene.stop_first)
        actor_go_on(&scene.stopper, steps_of_stop);
    uint32_t gone = actor_go_on(&scene.caller, steps);
    if (scene.third != CALLS)
        actor_end(&scene.other);
    if (!scene.stop_first)
        actor_go_on(&scene.stopper, steps_of_stop);
    scene.caller_stood = actor_passed(&scene.caller);
    scene.stopper_stood = actor_passed(&scene.stopper);
    actor_end(&scene.caller);
    actor_end(&scene.stopper);
    check_ends();
    expect_all_free();
    hwt_timer_destroy(timer);
    schedules++;
    return gone;
}

static void perform_all(unsigned one_of)
{
    scene.stop_first = false;
    uint32_t end = perform(1000, 0);
    for (uint32_t i = 0; i <= end; i++) {
        for (uint32_t k = 0; k < STOP_STEPS; k++) {
            /* Who drives and who stops wait for each other. */
            scene.stop_first = !drives(scene.third) && below(&random_state, 2);
            if (below(&random_state, 1000000) < test_scaled(1000000) / one_of)
                perform(i, k);
        }
    }
}

static void open_scene(enum kind kind)
{
    memset(&scene, 0, sizeof(scene));
    scene.kind = kind;
    random_state = test_seed() + kind;
}

START_TEST(what_meets_stop_has_one_end)
{
    open_scene((enum kind)_i);
    scene.third = CALLS;
    for (scene.call = 0; scene.call < CALLS; scene.call++) {
        if (!drives(scene.call))
            perform_all(1);
    }
    printf("kind %d: %" PRIu64 " schedules\n", _i, schedules);
}
END_TEST

START_TEST(what_two_do_that_meet_stop_has_one_end)
{
    open_scene((enum kind)_i);
    for (scene.call = 0; scene.call < CALLS; scene.call++) {
        for (scene.third = 0; scene.third < CALLS; scene.third++) {
            if (scene.call != scene.third && !drives(scene.call))
                perform_all(6);
        }
    }
    printf("kind %d: %" PRIu64 " schedules\n", _i, schedules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: pairs with stop");
    TCase *pairs = stage_case(suite, "pairs", NULL, NULL);
    tcase_add_loop_test(pairs, what_meets_stop_has_one_end, 0, KINDS);
    tcase_add_loop_test(pairs, what_two_do_that_meet_stop_has_one_end, 0, KINDS);
    return run_suite(suite);
}
