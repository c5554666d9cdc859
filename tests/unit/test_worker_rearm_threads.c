/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What other threads do to a timeout between its re-arming and the return of its task. */

#include <sched.h>
#include <semaphore.h>

#include "room_fixture.h"

#define TICK HWT_MS(1)

static struct room room;
static hwt_timer *timer;

static void open_room(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.ticks_per_wheel = 64;
    options.max_pending = 1000;
    room_open_with(&room, 0, options);
    timer = room.timer;
}

static void close_room(void)
{
    ck_assert_uint_eq(timer->worker.transit, 0);
    ck_assert_uint_eq(timer->reserved, hwt_timer_pending(timer));
    room_close(&room);
}

static uint64_t pass(uint64_t now)
{
    atomic_store(&room.now, now);
    uint64_t n = hwt_worker_pass(timer, now);
    must(hwt_wheel_check(&timer->worker.wheel));
    return n;
}

/* ---- a task that waits for another thread ---- */

static struct scene {
    hwt_timeout timeout;
    sem_t reached, go;
    bool (*act)(hwt_timeout timeout); /* by the other thread, while the task runs */
    bool acts_first;                  /* before it re-arms itself */
    bool rearmed, answer;
    _Atomic bool returning; /* the task is about to */
    bool returned_too_early;
    unsigned runs, told;
} scene;

static void let_act(void)
{
    sem_post(&scene.reached);
    while (sem_wait(&scene.go) != 0)
        must(errno == EINTR);
}

static void run(hwt_timeout timeout, void *arg)
{
    (void)arg;
    if (scene.runs++ > 0)
        return;
    if (scene.acts_first)
        let_act();
    scene.rearmed = hwt_timeout_reschedule_at(timeout, 20 * TICK);
    if (!scene.acts_first)
        let_act();
    atomic_store(&scene.returning, true);
}

static void cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    scene.told++;
}

static void *act(void *data)
{
    (void)data;
    while (sem_wait(&scene.reached) != 0)
        ;
    scene.answer = scene.act(scene.timeout);
    sem_post(&scene.go);
    return NULL;
}

/* Runs the timeout in tick 0, and in the meantime `actor` on another thread. */
static void play(void *(*actor)(void *), bool (*what)(hwt_timeout timeout), bool acts_first)
{
    static const hwt_task waiting = { run, cancelled };
    memset(&scene, 0, sizeof(scene));
    scene.act = what;
    scene.acts_first = acts_first;
    sem_init(&scene.reached, 0, 0);
    sem_init(&scene.go, 0, 0);
    must(hwt_timer_new_timeout_at(timer, &waiting, NULL, 0, &scene.timeout) == 0);
    pthread_t thread = spawn(actor, NULL);
    ck_assert_uint_eq(pass(TICK), 1);
    join(thread);
    sem_destroy(&scene.reached);
    sem_destroy(&scene.go);
}

static void expect_ended(unsigned told)
{
    ck_assert_uint_eq(scene.told, told);
    ck_assert_uint_eq(hwt_wheel_next(&timer->worker.wheel), HWT_NEVER);
    ck_assert_uint_eq(pass(50 * TICK), 0);
    ck_assert_uint_eq(scene.runs, 1);
    ck_assert_uint_eq(scene.told, told);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert(room_has_back(&room, scene.timeout.entry));
}

START_TEST(a_cancel_after_the_rearming_is_the_end_and_is_told)
{
    play(act, hwt_timeout_cancel, false);
    ck_assert(scene.rearmed && scene.answer);
    ck_assert_int_eq(hwt_timeout_state(scene.timeout), HWT_CANCELLED);
    expect_ended(1);
}
END_TEST

START_TEST(a_cancel_before_the_rearming_forbids_it)
{
    play(act, hwt_timeout_cancel, true);
    ck_assert(!scene.rearmed && !scene.answer);
    ck_assert_int_eq(hwt_timeout_state(scene.timeout), HWT_EXPIRED);
    expect_ended(0);
}
END_TEST

static bool move_earlier(hwt_timeout timeout)
{
    return hwt_timeout_reschedule_at(timeout, 10 * TICK);
}

static bool move_later(hwt_timeout timeout)
{
    return hwt_timeout_reschedule_at(timeout, 30 * TICK);
}

static bool move_to_and_fro(hwt_timeout timeout)
{
    return move_later(timeout) && move_earlier(timeout) && move_later(timeout) &&
           hwt_timeout_reschedule_at(timeout, 40 * TICK);
}

static bool move_to_the_past(hwt_timeout timeout)
{
    return hwt_timeout_reschedule_at(timeout, 0);
}

START_TEST(a_move_after_the_rearming_holds)
{
    static bool (*const moves[])(hwt_timeout timeout) = { move_earlier, move_later, move_to_and_fro,
                                                          move_to_the_past };
    static const uint64_t ticks[] = { 10, 30, 40, 1 };
    play(act, moves[_i], false);
    ck_assert(scene.rearmed && scene.answer);
    ck_assert_int_eq(hwt_timeout_state(scene.timeout), HWT_PENDING);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), (ticks[_i] + 1) * TICK);
    ck_assert_uint_eq(pass((ticks[_i] + 1) * TICK - 1), 0);
    ck_assert_uint_eq(pass((ticks[_i] + 1) * TICK), 1);
    ck_assert_uint_eq(scene.runs, 2);
    ck_assert_uint_eq(scene.told, 0);
}
END_TEST

START_TEST(a_move_before_the_rearming_is_refused)
{
    play(act, move_earlier, true);
    ck_assert(scene.rearmed && !scene.answer);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), 21 * TICK);
    ck_assert(hwt_timeout_cancel(scene.timeout));
    pass(2 * TICK);
    expect_ended(1);
}
END_TEST

static bool move_and_cancel(hwt_timeout timeout)
{
    return move_earlier(timeout) && hwt_timeout_cancel(timeout) && !move_later(timeout);
}

START_TEST(a_move_and_a_cancel_after_the_rearming_are_the_end)
{
    play(act, move_and_cancel, false);
    ck_assert(scene.rearmed && scene.answer);
    expect_ended(1);
}
END_TEST

/* Lets the task go on once somebody waits for it. */
static void *watch(void *data)
{
    (void)data;
    while (!(atomic_load(&scene.timeout.entry->state) & HWT_WAITED))
        sched_yield();
    sem_post(&scene.go);
    return NULL;
}

static void *cancel_and_wait(void *data)
{
    (void)data;
    while (sem_wait(&scene.reached) != 0)
        ;
    pthread_t watcher = spawn(watch, NULL);
    scene.answer = hwt_timeout_cancel_sync(scene.timeout);
    scene.returned_too_early = !atomic_load(&scene.returning);
    join(watcher);
    return NULL;
}

START_TEST(who_waits_is_let_go_when_the_task_has_returned)
{
    bool acts_first = _i;
    play(cancel_and_wait, NULL, acts_first);
    ck_assert(!scene.returned_too_early);
    ck_assert(scene.rearmed == !acts_first);
    ck_assert(scene.answer == !acts_first);
    expect_ended(!acts_first);
}
END_TEST

/* ---- at full speed ---- */

enum { MANY = 64, MOVERS = 2, TICKS = 3000 };

struct beating {
    hwt_timeout timeout;
    unsigned runs, told;
    _Atomic bool cancelled;
};

static struct beating all[MANY];
static _Atomic bool over;

static void beat(hwt_timeout timeout, void *arg)
{
    struct beating *one = arg;
    must(one->told == 0);
    one->runs++;
    (void)hwt_timeout_repeat(timeout, TICK); /* not once it was cancelled */
}

static void tell(hwt_timeout timeout, void *arg)
{
    struct beating *one = arg;
    (void)timeout;
    one->told++;
}

static void *move_about(void *data)
{
    uint64_t random = (uintptr_t)data, moved = 0;
    while (!atomic_load(&over)) {
        struct beating *one = &all[test_random(&random) % MANY];
        uint64_t to = atomic_load(&room.now) + test_random(&random) % (5 * TICK);
        moved += hwt_timeout_reschedule_at(one->timeout, to);
        if (test_random(&random) % 65536 == 0 && hwt_timeout_cancel(one->timeout) &&
            atomic_exchange(&one->cancelled, true))
            return NULL; /* twice */
    }
    return (void *)(uintptr_t)(moved + 1);
}

START_TEST(what_rearms_itself_while_others_move_and_cancel_it_ends_once)
{
    static const hwt_task task = { beat, tell };
    pthread_t threads[MOVERS];
    uint64_t seed = test_seed(), runs = 0;
    memset(all, 0, sizeof(all));
    atomic_store(&over, false);
    for (int i = 0; i < MANY; i++)
        must(hwt_timer_new_timeout_at(timer, &task, &all[i], 0, &all[i].timeout) == 0);
    for (uint64_t i = 0; i < MOVERS; i++)
        threads[i] = spawn(move_about, (void *)(uintptr_t)(seed + i));
    for (uint64_t tick = 1; tick <= TICKS; tick++) {
        runs += pass(tick * TICK);
        if (tick % 64 == 0)
            sched_yield();
    }
    atomic_store(&over, true);
    for (int i = 0; i < MOVERS; i++) {
        void *moved;
        ck_assert_int_eq(pthread_join(threads[i], &moved), 0);
        ck_assert_ptr_nonnull(moved);
    }
    for (int i = 0; i < MANY; i++) {
        bool ended = all[i].cancelled || hwt_timeout_state(all[i].timeout) != HWT_PENDING;
        if (!ended && hwt_timeout_cancel(all[i].timeout))
            all[i].cancelled = true;
    }
    for (uint64_t tick = TICKS; tick < TICKS + 10; tick++)
        runs += pass(tick * TICK);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    for (int i = 0; i < MANY; i++) {
        runs -= all[i].runs;
        ck_assert_uint_eq(all[i].told, all[i].cancelled);
    }
    ck_assert_uint_eq(runs, 0);
    ck_assert_uint_eq(hwt_wheel_next(&timer->worker.wheel), HWT_NEVER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_rearm_threads");
    TCase *meanwhile = room_case(suite, "meanwhile", open_room, close_room);
    tcase_add_test(meanwhile, a_cancel_after_the_rearming_is_the_end_and_is_told);
    tcase_add_test(meanwhile, a_cancel_before_the_rearming_forbids_it);
    tcase_add_loop_test(meanwhile, a_move_after_the_rearming_holds, 0, 4);
    tcase_add_test(meanwhile, a_move_before_the_rearming_is_refused);
    tcase_add_test(meanwhile, a_move_and_a_cancel_after_the_rearming_are_the_end);
    tcase_add_loop_test(meanwhile, who_waits_is_let_go_when_the_task_has_returned, 0, 2);
    TCase *crowd = room_case(suite, "crowd", open_room, close_room);
    tcase_add_test(crowd, what_rearms_itself_while_others_move_and_cancel_it_ends_once);
    return run_suite(suite);
}
