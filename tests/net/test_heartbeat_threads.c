/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Heartbeats and a callback that stands still on one thread while others start and stop the
 * object, with a worker, an executor, an event loop, and both.
 */

#include "stress.h"

#include <hwt/heartbeat.h>

#define TICK HWT_US(100)

struct subject {
    hwt_heartbeat heartbeat;
    hwt_heartbeat_rules rules;
    struct rig rig;
    void (*before)(struct subject *subject); /* in the first callback, ahead of the gate */
    void (*after)(struct subject *subject);
    gate gate;
    unsigned inside; /* plain: callbacks that overlap are a race */
    shared_count told, answer, answered;
};

static void told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg)
{
    struct subject *subject = arg;
    expect(heartbeat == &subject->heartbeat && count >= 1, &subject->rig.broken);
    expect(event == HWT_HEARTBEAT_DEAD || event == HWT_HEARTBEAT_SEND, &subject->rig.broken);
    expect(subject->inside++ == 0, &subject->rig.broken);
    if (subject->told++ == 0 && subject->before)
        subject->before(subject);
    gate_pass(&subject->gate);
    if (subject->after)
        subject->after(subject);
    subject->inside--;
}

static int start(struct subject *subject)
{
    return hwt_heartbeat_start(&subject->heartbeat, subject->rig.timer, &subject->rules, subject);
}

/* Both its events are due in the look in which the first one waits at the gate. */
static struct subject *subject_open(int way, void (*before)(struct subject *),
                                    void (*after)(struct subject *))
{
    static struct subject subject;
    memset(&subject, 0, sizeof(subject));
    subject.rules = (hwt_heartbeat_rules){ .dead = 1, .send = 1, .notify = told };
    subject.before = before;
    subject.after = after;
    rig_open(&subject.rig, way, TICK, 32);
    ck_assert_int_eq(start(&subject), 0);
    ck_assert(await_count(&subject.gate.reached, 1));
    return &subject;
}

/* It was stopped: it is told nothing more, for all that a later timeout can show. */
static void subject_close(struct subject *subject)
{
    ends later = { 0 };
    uint64_t told_before = subject->told;
    arm(subject->rig.timer, &counting, &later, 20 * TICK);
    ck_assert(await_count(&later.runs, 1));
    ck_assert_uint_eq(subject->told, told_before);
    ck_assert_uint_eq(hwt_timer_pending(subject->rig.timer), 0);
    rig_close(&subject->rig);
}

static void *stop_sync_elsewhere(void *arg)
{
    struct subject *subject = arg;
    subject->answer = hwt_heartbeat_stop_sync(&subject->heartbeat);
    expect(subject->gate.passed == subject->told && subject->inside == 0, &subject->rig.broken);
    subject->answered++;
    return NULL;
}

/* Synchronously stopped on another thread, while the callback runs, unless the machine lets that
 * thread come too late, which is no matter; what that answers. */
static bool stop_sync_waits(struct subject *subject)
{
    pthread_t thread = spawn(stop_sync_elsewhere, subject);
    give_others_a_chance();
    ck_assert_uint_eq(subject->answered, 0);
    subject->gate.open = 1;
    join(thread);
    return subject->answer;
}

static void stop_here(struct subject *subject)
{
    expect(hwt_heartbeat_stop(&subject->heartbeat), &subject->rig.broken);
}

static void restart_here(struct subject *subject)
{
    stop_here(subject);
    expect(start(subject) == 0, &subject->rig.broken);
}

static void try_to_restart(struct subject *subject)
{
    expect(start(subject) == -ECANCELED, &subject->rig.broken);
    expect(!hwt_heartbeat_stop(&subject->heartbeat), &subject->rig.broken);
    expect(!hwt_heartbeat_stop_sync(&subject->heartbeat), &subject->rig.broken);
    expect(start(subject) == -ECANCELED, &subject->rig.broken);
}

static void stop_while_it_runs(struct subject *subject)
{
    ck_assert(hwt_heartbeat_stop(&subject->heartbeat));
    ck_assert_uint_eq(subject->gate.passed, 0);
    ck_assert(!stop_sync_waits(subject));
    ck_assert_uint_eq(subject->told, 1);
    subject_close(subject);
}

START_TEST(a_stop_does_not_wait_for_a_callback_and_no_other_follows)
{
    stop_while_it_runs(subject_open(_i, NULL, NULL));
}
END_TEST

START_TEST(a_stop_during_a_callback_bars_its_restart)
{
    stop_while_it_runs(subject_open(_i, NULL, try_to_restart));
}
END_TEST

START_TEST(a_synchronous_stop_waits_for_a_callback)
{
    struct subject *subject = subject_open(_i, NULL, NULL);
    ck_assert(stop_sync_waits(subject));
    subject_close(subject);
}
END_TEST

START_TEST(it_waits_for_a_callback_that_has_stopped_the_object)
{
    struct subject *subject = subject_open(_i, stop_here, NULL);
    ck_assert(!stop_sync_waits(subject));
    subject_close(subject);
}
END_TEST

START_TEST(it_bars_the_restart_by_a_callback_that_has_stopped_the_object)
{
    struct subject *subject = subject_open(_i, stop_here, try_to_restart);
    ck_assert(!hwt_heartbeat_stop(&subject->heartbeat));
    ck_assert(!stop_sync_waits(subject));
    subject_close(subject);
}
END_TEST

START_TEST(it_waits_for_a_callback_that_has_started_the_object_anew)
{
    struct subject *subject = subject_open(_i, restart_here, NULL);
    ck_assert(stop_sync_waits(subject));
    subject_close(subject);
}
END_TEST

static void *start_elsewhere(void *arg)
{
    static const hwt_heartbeat_rules later = { .dead = HWT_MIN(60), .notify = told };
    struct subject *subject = arg;
    subject->answer =
        (uint64_t)hwt_heartbeat_start(&subject->heartbeat, subject->rig.timer, &later, subject);
    expect(subject->gate.passed == 1 && subject->inside == 0, &subject->rig.broken);
    subject->answered++;
    return NULL;
}

/* With limits so late that nothing is told in the new life. */
static void *start_only(void *arg)
{
    static const hwt_heartbeat_rules later = { .dead = HWT_MIN(60), .notify = told };
    struct subject *subject = arg;
    expect(hwt_heartbeat_start(&subject->heartbeat, subject->rig.timer, &later, subject) == 0,
           &subject->rig.broken);
    return NULL;
}

/* In the way of one who starts it, or too late for one that was stopped. */
static void try_to_start(struct subject *subject)
{
    int r = start(subject);
    expect(r == -EALREADY || r == -ECANCELED, &subject->rig.broken);
    expect(!hwt_heartbeat_stop_sync(&subject->heartbeat), &subject->rig.broken);
}

static void start_waits(struct subject *subject, bool stopped)
{
    pthread_t thread;
    ck_assert_int_eq(hwt_heartbeat_stop(&subject->heartbeat), stopped);
    thread = spawn(start_elsewhere, subject);
    give_others_a_chance();
    ck_assert_uint_eq(subject->answered, 0);
    ck_assert(!hwt_heartbeat_stop(&subject->heartbeat)); /* it has not begun */
    subject->gate.open = 1;
    join(thread);
    ck_assert_uint_eq(subject->answer, 0);
    ck_assert_int_eq(start(subject), -EALREADY);
    ck_assert(hwt_heartbeat_stop_sync(&subject->heartbeat));
    subject_close(subject);
}

START_TEST(a_start_waits_for_a_callback_of_the_life_before)
{
    start_waits(subject_open(_i, NULL, try_to_start), true);
    start_waits(subject_open(_i, stop_here, try_to_start), false);
}
END_TEST

/* Stopped by one thread, started again by another, which waits for the old callback: a third one,
 * that stops it, waits for that too. */
START_TEST(it_waits_for_the_callback_that_a_start_waits_for)
{
    struct subject *subject = subject_open(_i, NULL, NULL);
    ck_assert(hwt_heartbeat_stop(&subject->heartbeat));
    uint64_t stopped = subject->heartbeat.state;
    pthread_t starter = spawn(start_only, subject);
    while (__atomic_load_n(&subject->heartbeat.state, __ATOMIC_ACQUIRE) == stopped)
        sched_yield();
    pthread_t stopper = spawn(stop_sync_elsewhere, subject);
    give_others_a_chance();
    ck_assert_uint_eq(subject->answered, 0);
    ck_assert_int_eq(start(subject), -EALREADY); /* it is the starter's all the same */
    subject->gate.open = 1;
    join(stopper);
    join(starter);
    /* Where the machine let the stopper come too late, it has stopped the new life. */
    ck_assert_uint_eq(subject->answer + hwt_heartbeat_stop_sync(&subject->heartbeat), 1);
    subject_close(subject);
}
END_TEST

/* ---- The plain course of events ---- */

struct pulse {
    hwt_heartbeat heartbeat;
    struct rig *rig;
    uint64_t due;
    shared_count beats;
};

static void beat(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count, void *arg)
{
    struct pulse *pulse = arg;
    uint64_t now = hwt_timer_now(pulse->rig->timer);
    (void)event;
    expect(count == 1 && now >= pulse->due, &pulse->rig->broken);
    pulse->due = now + HWT_MS(1); /* or later: the notes below come after */
    hwt_heartbeat_written(heartbeat);
    hwt_heartbeat_read(heartbeat);
    pulse->beats++;
}

START_TEST(heartbeats_go_on_and_are_never_early)
{
    static const hwt_heartbeat_rules rules = { .send = HWT_MS(1), .notify = beat };
    static struct rig rig;
    static struct pulse pulse;
    memset(&pulse, 0, sizeof(pulse));
    rig_open(&rig, _i, TICK, 32);
    pulse.rig = &rig;
    pulse.due = hwt_timer_now(rig.timer) + HWT_MS(1);
    ck_assert_int_eq(hwt_heartbeat_start(&pulse.heartbeat, rig.timer, &rules, &pulse), 0);
    ck_assert(await_count(&pulse.beats, 20));
    ck_assert(hwt_heartbeat_stop_sync(&pulse.heartbeat));
    ck_assert_uint_eq(hwt_timer_pending(rig.timer), 0);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heartbeat_threads");
    TCase *tcase = add_case(suite, "threads");
    tcase_add_loop_test(tcase, a_stop_does_not_wait_for_a_callback_and_no_other_follows, 0, WAYS);
    tcase_add_loop_test(tcase, a_stop_during_a_callback_bars_its_restart, 0, WAYS);
    tcase_add_loop_test(tcase, a_synchronous_stop_waits_for_a_callback, 0, WAYS);
    tcase_add_loop_test(tcase, it_waits_for_a_callback_that_has_stopped_the_object, 0, WAYS);
    tcase_add_loop_test(tcase, it_bars_the_restart_by_a_callback_that_has_stopped_the_object, 0,
                        WAYS);
    tcase_add_loop_test(tcase, it_waits_for_a_callback_that_has_started_the_object_anew, 0, WAYS);
    tcase_add_loop_test(tcase, a_start_waits_for_a_callback_of_the_life_before, 0, WAYS);

    tcase_add_loop_test(tcase, it_waits_for_the_callback_that_a_start_waits_for, 0, WAYS);

    tcase = add_case(suite, "course");
    tcase_add_loop_test(tcase, heartbeats_go_on_and_are_never_early, 0, WAYS);
    return run_suite(suite);
}
