/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The worker's own thread: a pass, then a sleep to the tick boundary at which there is work.
 *
 * It has the scheduling of the thread that starts it, and its processors, unless worker_cpu names
 * one. A program that wants others calls hwt_timer_start() in a thread that has them, or sets them in
 * a task. All signals are blocked, but those that its own faults raise: a crash in a task reaches the
 * program's handler.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include "hwt/base/probes.h"
#include "hwt/base/shield.h"
#include "hwt/timer/request.h"

#define PROCESSORS_MAX 8192 /* as many as Linux knows */

static bool goes_on(const hwt_timer *timer)
{
    return !hwt_halted_by(timer, HWT_HALTED_STOPPING | HWT_HALTED_FORKED);
}

static void *run_worker(void *arg)
{
    hwt_timer *timer = arg;
    struct hwt_gate *gate = &timer->shared.gate;
    (void)hwt_shield(); /* for good: nobody could do its work if it ended */
    prctl(PR_SET_NAME, timer->worker_name);
    prctl(PR_SET_TIMERSLACK, 1); /* ns; the default adds 50 us to each sleep */
    HWT_SCHED_POINT(WORKER);
    while (goes_on(timer)) {
        hwt_worker_pass(&timer->worker, hwt_time_now(&timer->shared.time), UINT64_MAX);
        hwt_request_do(timer);
        uint64_t until = hwt_worker_park(&timer->worker);
        if (until > 0 && !hwt_request_is_there(timer)) {
            HWT_SCHED_POINT(SLEEP);
            hwt_gate_sleep(gate, until);
            hwt_count(&timer->shared.stats.wakeups, 1, false);
            HWT_PROBE1(wake, timer);
        }
        HWT_SCHED_POINT(AWAKE);
        /* When one waker has called, others with earlier deadlines do not. */
        if (hwt_gate_open(gate))
            timer->worker.parked_for = 0;
    }
    return NULL;
}

static int create_thread(hwt_timer *timer)
{
    sigset_t before;
    hwt_block_signals(&before);
    int r = pthread_create(&timer->thread, NULL, run_worker, timer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    timer->thread_runs = r == 0;
    return -r;
}

/* A thread has the processors of the one that creates it. */
int hwt_worker_thread_create(hwt_timer *timer)
{
    cpu_set_t own[PROCESSORS_MAX / CPU_SETSIZE], its;
    if (timer->worker_cpu < 0)
        return create_thread(timer);
    CPU_ZERO(&its);
    CPU_SET((size_t)timer->worker_cpu, &its);
    if (sched_getaffinity(0, sizeof(own), own) != 0 || sched_setaffinity(0, sizeof(its), &its) != 0)
        return -errno;
    int r = create_thread(timer);
    (void)sched_setaffinity(0, sizeof(own), own);
    return r;
}
