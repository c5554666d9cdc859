/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What befalls a process in the midst of a storm of timeouts: it is stopped and continued, forks,
 * gets hardly any processor, has a task that does not return. See hard_times.h; --times n for
 * more of it.
 */

#include "hard_times.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* ---- a storm on little of a processor: to be run under hard_times.sh ---- */

#define STORM_LASTS HWT_SEC(3)

/* Each loop: a way to drive the timer. */
START_TEST(a_storm_loses_nothing_however_slow_it_is)
{
    static struct storm storm;
    storm_open(&storm, _i);
    (void)storm_goes_on(&storm, STORM_LASTS * times, UINT64_MAX / 2);
    ck_assert(await_within(HWT_SEC(200), &storm.ended, 100));
    storm_close(&storm);
}
END_TEST

/* ---- SIGSTOP ---- */

#define STOPPED_FOR HWT_SEC(1)
#define BEAT HWT_MS(5)

enum { STOPS = 2, BEATS = 50 /* after each */ };

/* Shared with the process that is stopped. */
struct stopped {
    struct storm storm;
    shared_count beats, over;
};

static void beat(hwt_timeout timeout, void *arg)
{
    ++*(shared_count *)arg;
    (void)hwt_timeout_repeat(timeout, BEAT);
}

static const hwt_task beating = { beat, NULL };

static void be_stopped(struct stopped *s, int way)
{
    storm_open(&s->storm, way);
    arm(s->storm.rig.timer, &beating, &s->beats, BEAT);
    while (!s->over)
        give_others_a_chance();
    storm_close(&s->storm);
    _exit(0);
}

static void stop_for_a_while(pid_t child)
{
    int status = 0;
    struct timespec while_ = { .tv_sec = (time_t)(STOPPED_FOR / HWT_SEC(1)) };
    ck_assert_int_eq(kill(child, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    nanosleep(&while_, NULL);
    ck_assert_int_eq(kill(child, SIGCONT), 0);
}

/*
 * Each loop: a way to drive the timer. That periods which were missed are left out shows in
 * the number of beats: after each stop one that is late and one that is in time, for all that
 * were missed.
 */
START_TEST(a_stopped_process_goes_on_as_if_time_had_leapt)
{
    unsigned stops = STOPS * times;
    struct stopped *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    ck_assert(s != MAP_FAILED);
    (void)test_seed();
    uint64_t begin = monotonic();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        be_stopped(s, _i);
    for (unsigned i = 0; i < stops; i++) {
        ck_assert(storm_goes_on(&s->storm, HWT_SEC(60), 1000));
        stop_for_a_while(child);
        ck_assert(await_count(&s->beats, s->beats + BEATS));
    }
    ck_assert(storm_goes_on(&s->storm, HWT_SEC(60), 1000));
    s->over = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    uint64_t running = monotonic() - begin - stops * STOPPED_FOR;
    ck_assert_uint_le(s->beats, running / BEAT + 2 * stops + 1);
    munmap(s, sizeof(*s));
}
END_TEST

/* ---- fork ---- */

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZED 1
#endif
#endif
#ifndef THREAD_SANITIZED
#define THREAD_SANITIZED 0
#endif

/* False: the child has not ended well within so long. */
static bool child_ends_well(pid_t child)
{
    uint64_t limit = monotonic() + HWT_SEC(60);
    int status = -1;
    pid_t r;
    while ((r = waitpid(child, &status, WNOHANG)) == 0 && monotonic() < limit)
        sched_yield();
    if (r == 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return r == child && status == 0;
}

static int destroy_in_child(struct storm *storm)
{
    uint64_t before = storm->ended;
    hwt_timer_destroy(storm->rig.timer);
    return storm->ended == before ? 0 : 1;
}

/* Each loop: a way to drive the timer. */
START_TEST(forks_in_the_midst_of_adds_cost_the_parent_nothing)
{
    static struct storm storm;
    storm_open(&storm, _i);
    for (unsigned i = 0; i < test_scaled(100) * times; i++) {
        ck_assert(storm_goes_on(&storm, HWT_SEC(60), 10 + i % 100));
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            _exit(destroy_in_child(&storm));
        ck_assert(child_ends_well(child));
    }
    storm_close(&storm);
}
END_TEST

/* ---- a task that does not return ---- */

enum { BESIDE = 20000 };

struct stuck {
    hwt_timer *timer;
    gate gate;
    ends ends;
    shared_count stopping, stopped;
    _Atomic int64_t left;
};

static void *stop_it(void *arg)
{
    struct stuck *stuck = arg;
    stuck->stopping = 1;
    stuck->left = hwt_timer_stop(stuck->timer, NULL, NULL);
    stuck->stopped = 1;
    return NULL;
}

/* Returns how many of them were cancelled. */
static uint64_t add_and_cancel(struct stuck *stuck, int count, uint64_t delay)
{
    uint64_t cancelled = 0;
    for (int i = 0; i < count; i++) {
        hwt_timeout timeout = arm(stuck->timer, &counting, &stuck->ends, delay);
        if (i % 2)
            cancelled +=
                i % 4 == 1 ? hwt_timeout_cancel(timeout) : hwt_timeout_cancel_sync(timeout);
    }
    return cancelled;
}

/*
 * With an executor all others run, whatever is stuck there. A stop waits, refuses what is
 * new at once, and cancels are answered as ever.
 */
START_TEST(beside_a_task_that_does_not_return_all_goes_on_until_stop_waits_for_it)
{
    static struct stuck stuck;
    static hwt_timeout far[BESIDE];
    static deferred crew;
    uint64_t cancelled, far_cancelled = 0;
    stuck.timer = create_with_crew(&crew, 2, HWT_MS(1));
    arm(stuck.timer, &gated, &stuck.gate, 0);
    ck_assert(await_count(&stuck.gate.reached, 1));
    cancelled = add_and_cancel(&stuck, BESIDE, HWT_MS(3));
    ck_assert(await_count(&stuck.ends.cancelled, cancelled));
    ck_assert(await_count(&stuck.ends.runs, BESIDE - cancelled));

    for (int i = 0; i < BESIDE; i++)
        far[i] = arm(stuck.timer, &counting, &stuck.ends, HWT_SEC(3600));
    pthread_t stopper = spawn(stop_it, &stuck);
    ck_assert(await_count(&stuck.stopping, 1));
    int r;
    while ((r = hwt_timer_new_timeout(stuck.timer, &counting, &stuck.ends, HWT_SEC(3600), NULL)) ==
           0)
        cancelled++; /* came before the stop, which will cancel it */
    ck_assert_int_eq(r, -ESHUTDOWN);
    for (int i = 0; i < BESIDE; i += 2)
        far_cancelled += hwt_timeout_cancel(far[i]);
    ck_assert_uint_eq(far_cancelled, BESIDE / 2);
    ck_assert(hwt_timeout_reschedule(far[1], HWT_SEC(7200)));
    ck_assert_uint_eq(stuck.stopped, 0);
    stuck.gate.open = 1;
    join(stopper);
    hwt_timer_destroy(stuck.timer);
    deferred_close(&crew);
    ck_assert_uint_eq(stuck.gate.passed, 1);
    ck_assert_uint_eq(stuck.ends.cancelled, cancelled + BESIDE);
    ck_assert_uint_eq(ends_sum(&stuck.ends), stuck.ends.runs + stuck.ends.cancelled);
    ck_assert_int_ge(stuck.left, BESIDE / 2);
}
END_TEST

static void churn(struct stuck *stuck, uint64_t count)
{
    static const hwt_task silent = { count_run, NULL };
    for (uint64_t i = 0; i < count; i++)
        must(hwt_timeout_cancel(arm(stuck->timer, &silent, &stuck->ends, HWT_SEC(i % 100))));
}

/* Without an executor nothing else runs, but nothing is lost, no caller waits, and memory is
 * bounded: what is cancelled is used again though the worker never sees it. */
START_TEST(beside_a_worker_that_is_stuck_adds_and_cancels_go_on_in_bounded_memory)
{
    static struct stuck stuck;
    stuck.timer = create_ticking(HWT_MS(1));
    arm(stuck.timer, &gated, &stuck.gate, 0);
    ck_assert(await_count(&stuck.gate.reached, 1));
    uint64_t cancelled = add_and_cancel(&stuck, BESIDE, HWT_MS(1));
    churn(&stuck, 500000);
    uint64_t before = stats_of(stuck.timer).memory;
    churn(&stuck, test_scaled(1000000) * (uint64_t)times);
    /* Between two compactions some hundred chunks come; of all that there are 20 MB. */
    ck_assert_uint_le(stats_of(stuck.timer).memory, before + 1024 * 1024);
    ck_assert_uint_eq(stuck.ends.runs, 0);
    stuck.gate.open = 1;
    ck_assert(await_count(&stuck.ends.runs, BESIDE - cancelled));
    ck_assert_int_eq(hwt_timer_stop(stuck.timer, NULL, NULL), 0);
    hwt_timer_destroy(stuck.timer);
    ck_assert_uint_eq(stuck.ends.runs, BESIDE - cancelled);
    ck_assert_uint_eq(stuck.ends.cancelled, cancelled);
}
END_TEST

int main(int argc, char **argv)
{
    read_arguments(argc, argv);
    Suite *suite = suite_create("hard times");
    tcase_add_loop_test(hard_case(suite, "storm", 300), a_storm_loses_nothing_however_slow_it_is, 0,
                        WAYS);
    tcase_add_loop_test(hard_case(suite, "stopped", 100),
                        a_stopped_process_goes_on_as_if_time_had_leapt, 0, WAYS);
    if (!THREAD_SANITIZED) /* its own locks may be held in a child */
        tcase_add_loop_test(hard_case(suite, "fork", 100),
                            forks_in_the_midst_of_adds_cost_the_parent_nothing, 0, WAYS);
    TCase *stuck = hard_case(suite, "stuck", 100);
    tcase_add_test(stuck, beside_a_task_that_does_not_return_all_goes_on_until_stop_waits_for_it);
    tcase_add_test(stuck, beside_a_worker_that_is_stuck_adds_and_cancels_go_on_in_bounded_memory);
    return run_suite(suite);
}
