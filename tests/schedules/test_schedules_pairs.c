/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * All calls that may meet on one timeout, two by two, in all schedules of this form: the first goes
 * so many steps, the second goes so many, the first goes to its end, and so does the second. And
 * with a third, which is made whole before or behind the steps of the second, in some schedules
 * that the seed chooses. After each it is looked at whether what the calls have answered, what has
 * run and when goes together; whether who sleeps was told; and whether anything is left behind.
 *
 *     HWT_TEST_SCALE=n    an nth of the schedules (default 1; 8 under a sanitizer)
 */

#include "stage.h"

#include "stress.h"

/* ---- the calls ---- */

/* Ticks from the beginning of a schedule. Another timeout is due at COMPANY: who sleeps does not
 * wake for what is moved behind it. */
enum { FILED = 1, SOONEST = 5, COMPANY = 7, SOON = 10, BESIDE = 15, DUE = 20, FIRED = 21 };
enum { LATE = 30, AGAIN = 40, LENGTH = 100 };

enum part { CANCEL_IT, TO_SOONEST, TO_SOON, TO_LATE, ASK, ADD, FILE_ALL, FIRE, RUN, PARTS };

static const char *const names[PARTS] = { "cancel", "move to 5", "move to 10", "move to 30", "ask",
                                          "add",    "file",      "fire",       "run" };

/* Its record is unread; it is filed; it re-arms itself, too; it was added by the lane that threads
 * without a number share, and has no `cancelled`; there is an executor; which has it. */
enum kind { UNREAD, IN_WHEEL, REARMED, SHARED, EXECUTED, HANDED, KINDS };

static struct {
    enum kind kind;
    uint64_t base; /* the tick in which it begins */
    hwt_timeout timeout;
    enum part parts[3];
    struct actor actors[3];
    size_t n;
    bool third_first;
    const char *stood[2]; /* where the first and the second did */
} scene;

static ends company;
static deferred executor;
static uint64_t schedules, random_state;

static uint64_t at(uint64_t tick)
{
    return AT(scene.base + tick);
}

static void tell_and_fail(const char *condition)
{
    ck_abort_msg("kind %d: %s to %s, %s to %s%s%s%s: %s does not hold", scene.kind,
                 names[scene.parts[0]], scene.stood[0], names[scene.parts[1]], scene.stood[1],
                 scene.n < 3         ? ""
                 : scene.third_first ? ", between them "
                                     : ", then ",
                 scene.n < 3 ? "" : names[scene.parts[2]], scene.n < 3 ? "" : " whole", condition);
}

#define holds(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            tell_and_fail(#condition);                                                             \
    } while (0)

static void rearm_once(hwt_timeout timeout, void *arg)
{
    count_run(timeout, arg);
    if (fate.runs == 1)
        (void)hwt_timeout_reschedule_at(timeout, at(AGAIN));
}

static const hwt_task rearming = { rearm_once, count_cancelled };

static const hwt_task *const tasks[KINDS] = { &counting, &counting, &rearming,
                                              &silent,   &counting, &counting };

static void run_handed_over(struct actor *actor)
{
    (void)actor;
    run_deferred(&executor);
}

static void add_beside(struct actor *actor)
{
    uint32_t number = hwt_thread_number;
    if (scene.kind == SHARED)
        hwt_thread_number = HWT_THREAD_NONE;
    actor->answer = hwt_timer_new_timeout_at(timer, &silent, &beside, at(BESIDE), &actor->timeout);
    hwt_thread_number = number;
}

static void act(struct actor *actor, enum part part)
{
    switch (part) {
    case CANCEL_IT:
        act_cancel(actor, scene.timeout);
        break;
    case TO_SOONEST:
        act_move(actor, scene.timeout, at(SOONEST));
        break;
    case TO_SOON:
        act_move(actor, scene.timeout, at(SOON));
        break;
    case TO_LATE:
        act_move(actor, scene.timeout, at(LATE));
        break;
    case ASK:
        act_ask(actor, scene.timeout);
        break;
    case ADD:
        actor_begin(actor, add_beside);
        break;
    case FILE_ALL:
        act_drive(actor, scene.base + (scene.kind == HANDED ? FIRED : FILED));
        break;
    case FIRE:
        act_drive(actor, scene.base + FIRED);
        break;
    default:
        actor_begin(actor, run_handed_over);
    }
}

static bool drives(enum part part)
{
    return part == FILE_ALL || part == FIRE;
}

/* One at a time drives, and there is something to run, and it is handed over before that. */
static bool go_together(enum part a, enum part b)
{
    if (a == b || (drives(a) && drives(b)))
        return false;
    if (scene.kind < EXECUTED && (a == RUN || b == RUN))
        return false;
    return scene.kind != HANDED || (a != FIRE && b != FIRE);
}

/* ---- what goes together ---- */

static const struct actor *player(enum part part)
{
    for (size_t i = 0; i < scene.n; i++) {
        if (scene.parts[i] == part)
            return &scene.actors[i];
    }
    return NULL;
}

static bool answered(enum part part)
{
    const struct actor *actor = player(part);
    return actor && actor->answer != 0;
}

static bool is_moved(void)
{
    return answered(TO_SOONEST) || answered(TO_SOON) || answered(TO_LATE);
}

/* How often it is to be told that it was cancelled. */
static uint64_t tellings(void)
{
    return answered(CANCEL_IT) && tasks[scene.kind]->cancelled;
}

static bool is_pending(void)
{
    return hwt_timeout_state(scene.timeout) == HWT_PENDING;
}

static uint64_t now(void)
{
    return atomic_load(&now_is);
}

static uint64_t deadline_of_it(void)
{
    return deadline_of(scene.timeout);
}

/* What was true has moved it, unless another was, or it has re-armed itself since. */
static void check_deadline(uint64_t deadline)
{
    bool again = scene.kind == REARMED && fate.runs > 0;
    holds((answered(TO_SOONEST) && deadline == at(SOONEST)) ||
          (answered(TO_SOON) && deadline == at(SOON)) ||
          (answered(TO_LATE) && deadline == at(LATE)) || (again && deadline == at(AGAIN)) ||
          (!again && !is_moved() && deadline == at(DUE)));
}

static void check_rest(uint64_t rest)
{
    static const uint64_t ticks[] = { SOONEST, SOON, DUE, LATE, AGAIN };
    bool any = rest == 0;
    for (size_t i = 0; i < sizeof(ticks) / sizeof(*ticks); i++)
        any |= at(ticks[i]) > now() && rest == at(ticks[i]) - now();
    holds(any);
}

static void check_answers(void)
{
    bool again = scene.kind == REARMED, cancelled = answered(CANCEL_IT);
    holds(fate.runs <= (cancelled && !again ? 0 : 1));
    holds(!cancelled || !is_pending());
    /* A cancel is refused by what has run, and by what runs, which is its end then. */
    holds(!player(CANCEL_IT) || cancelled || (fate.runs == 1 && !is_pending()));
    /* What was put off, and not moved back, has not run before. */
    holds(again || !answered(TO_LATE) || answered(TO_SOON) || answered(TO_SOONEST) ||
          fate.runs == 0);
    if (player(ASK))
        check_rest((uint64_t)player(ASK)->answer);
    if (player(ADD)) {
        holds(!answered(ADD));
        holds(now() > at(BESIDE) ||
              hwt_timeout_remaining(player(ADD)->timeout) == at(BESIDE) - now());
    }
}

/* Who sleeps comes for what is pending, and within a tick for what was cancelled; unless an
 * executor has it. */
static void check_sleep(void)
{
    uint64_t end = (deadline_of_it() / TICK + 1) * TICK;
    if (scene.kind >= EXECUTED)
        return;
    if (is_pending())
        holds(told_in() <= (end > now() + TICK ? end - now() : TICK));
    if (fate.cancelled < tellings())
        holds(told_in() <= TICK);
}

static void drive_and_run(uint64_t tick)
{
    drive(tick);
    run_deferred(&executor);
}

/* Neither before its tick nor after it. */
static void check_runs(void)
{
    while (is_pending()) {
        uint64_t tick = deadline_of_it() / TICK, runs = fate.runs;
        if (tick < now() / TICK)
            tick = now() / TICK;
        check_deadline(deadline_of_it());
        run_deferred(&executor);
        if (fate.runs > runs)
            continue;
        drive_and_run(tick);
        holds(fate.runs == runs && is_pending());
        drive_and_run(tick + 1);
        holds(fate.runs == runs + 1);
    }
}

static void check_end(void)
{
    bool again = scene.kind == REARMED;
    drive_and_run(now() / TICK + 1);
    holds(fate.cancelled == tellings());
    if (answered(CANCEL_IT))
        holds(fate.runs <= again);
    else
        holds(fate.runs == 1U + (again && !player(CANCEL_IT)));
    drive_and_run(scene.base + LENGTH);
    holds(company.runs == 1);
    holds(beside.runs == (player(ADD) != NULL));
    holds(hwt_timer_pending(timer) == 0);
    holds(timer->shared.reserved == 0);
    holds(hwt_wheel_check(&timer->worker.wheel));
}

/* ---- schedules ---- */

static void begin_scene(void)
{
    memset(&fate, 0, sizeof(fate));
    memset(&beside, 0, sizeof(beside));
    memset(&company, 0, sizeof(company));
    add_with(&silent, &company, at(COMPANY));
    drive(scene.base);
    uint32_t number = hwt_thread_number;
    if (scene.kind == SHARED)
        hwt_thread_number = HWT_THREAD_NONE;
    scene.timeout = add_with(tasks[scene.kind], &fate, at(DUE));
    hwt_thread_number = number;
    if (scene.kind != UNREAD && scene.kind != SHARED)
        drive(scene.base);
    if (scene.kind == HANDED)
        drive(scene.base + FIRED);
}

static void end_scene(void)
{
    for (size_t i = 0; i < 2; i++)
        actor_end(&scene.actors[i]);
    check_answers();
    check_sleep();
    check_runs();
    check_end();
    scene.base += LENGTH;
    schedules++;
}

enum { ALL = 1000 }; /* more steps than any call has */

/* How many steps the i-th has gone, of so many. */
static uint32_t go_on(size_t i, uint32_t steps)
{
    uint32_t gone = actor_go_on(&scene.actors[i], steps);
    scene.stood[i] = actor_passed(&scene.actors[i]);
    return gone;
}

/* Returns how many steps the first and the second have gone. */
static struct steps {
    uint32_t of[2];
} perform(uint32_t steps_of_first, uint32_t steps_of_second)
{
    struct steps gone;
    begin_scene();
    for (size_t i = 0; i < scene.n; i++)
        act(&scene.actors[i], scene.parts[i]);
    gone.of[0] = go_on(0, steps_of_first);
    if (scene.n > 2 && scene.third_first)
        actor_end(&scene.actors[2]);
    gone.of[1] = go_on(1, steps_of_second);
    if (scene.n > 2 && !scene.third_first)
        actor_end(&scene.actors[2]);
    end_scene();
    return gone;
}

/* One of so many. */
static bool is_chosen(unsigned of)
{
    return below(&random_state, 1000000) < test_scaled(1000000) / of;
}

static void perform_all(unsigned one_of)
{
    uint32_t first_end = perform(ALL, 0).of[0];
    for (uint32_t i = 0; i <= first_end; i++) {
        if (one_of > 1 && !is_chosen(3))
            continue;
        uint32_t second_end = perform(i, ALL).of[1];
        for (uint32_t k = 0; k < second_end; k++) {
            if (is_chosen(one_of))
                perform(i, k);
        }
    }
}

static void open_scene(enum kind kind)
{
    hwt_options options = HWT_OPTIONS_INIT;
    memset(&scene, 0, sizeof(scene));
    scene.kind = kind;
    random_state = test_seed() + kind;
    schedules = 0;
    deferred_open(&executor);
    if (kind >= EXECUTED) {
        options.executor = defer;
        options.executor_data = &executor;
    }
    stage_open_with(options);
}

static void close_scene(void)
{
    stage_close();
    deferred_close(&executor);
    printf("kind %d: %" PRIu64 " schedules\n", scene.kind, schedules);
}

static void perform_pairs(void (*perform_pair)(void))
{
    for (scene.parts[0] = 0; scene.parts[0] < PARTS; scene.parts[0]++) {
        for (scene.parts[1] = 0; scene.parts[1] < PARTS; scene.parts[1]++) {
            if (go_together(scene.parts[0], scene.parts[1]))
                perform_pair();
        }
    }
}

static void perform_pair(void)
{
    scene.n = 2;
    perform_all(1);
}

static void perform_with_each_third(void)
{
    scene.n = 3;
    for (scene.parts[2] = 0; scene.parts[2] < PARTS; scene.parts[2]++) {
        if (!go_together(scene.parts[0], scene.parts[2]) ||
            !go_together(scene.parts[1], scene.parts[2]))
            continue;
        scene.third_first = below(&random_state, 2);
        perform_all(4);
    }
}

START_TEST(whatever_two_do_to_a_timeout_goes_together)
{
    open_scene((enum kind)_i);
    perform_pairs(perform_pair);
    close_scene();
}
END_TEST

START_TEST(whatever_three_do_to_a_timeout_goes_together)
{
    open_scene((enum kind)_i);
    perform_pairs(perform_with_each_third);
    close_scene();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: pairs");
    TCase *pairs = stage_case(suite, "pairs", NULL, NULL);
    tcase_add_loop_test(pairs, whatever_two_do_to_a_timeout_goes_together, 0, KINDS);
    TCase *threes = stage_case(suite, "threes", NULL, NULL);
    tcase_add_loop_test(threes, whatever_three_do_to_a_timeout_goes_together, 0, KINDS);
    return run_suite(suite);
}
