/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The worker's own thread: a pass, then a sleep to the tick boundary at which there is work.
 *
 * It must not depend on the thread that happens to start it. So it sets these itself:
 *
 *   signals     all are blocked, but those that its own faults raise: a crash in a task reaches the
 *               program's handler
 *   processors  the one of worker_cpu; or all those that the process's first thread had when the
 *               library was loaded, whatever the thread that adds or loads is bound to
 *   scheduling  policy, priority and nice value that the first thread had then, or the nearest to
 *               them that the system allows; a program that wants others sets them in a task
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hwt/base/probes.h"
#include "hwt/base/shield.h"
#include "hwt/timer/request.h"

static struct {
    cpu_set_t processors;
    bool has_processors;
    int policy; /* -1: not known */
    struct sched_param param;
    int nice;
} at_load;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_process(void)
{
    const pid_t first = getpid();
    at_load.has_processors =
        sched_getaffinity(first, sizeof(at_load.processors), &at_load.processors) == 0;
    at_load.policy = sched_getscheduler(first);
    if (sched_getparam(first, &at_load.param) != 0)
        at_load.policy = -1;
    at_load.nice = getpriority(PRIO_PROCESS, (id_t)first);
}

/* A program that is linked statically may start a worker earlier, from a constructor of its own. */
__attribute__((constructor)) static void read_process_once(void)
{
    pthread_once(&once, read_process);
}

static bool set_nice(int value)
{
    return setpriority(PRIO_PROCESS, 0, value) == 0; /* of this thread, on Linux */
}

static bool set_policy(void)
{
    return at_load.policy < 0 || sched_setscheduler(0, at_load.policy, &at_load.param) == 0;
}

/* Without a privilege a thread cannot set a nice value below what RLIMIT_NICE allows, and can leave
 * SCHED_IDLE only with one that is allowed. By default none is allowed. Then the thread keeps what
 * the starter has. */
static void choose_scheduling(void)
{
    struct rlimit limit;
    bool is_nice = set_nice(at_load.nice);
    if ((set_policy() && is_nice) || getrlimit(RLIMIT_NICE, &limit) != 0 || limit.rlim_cur == 0)
        return;
    int least = limit.rlim_cur < 40 ? 20 - (int)limit.rlim_cur : -20;
    bool idle = sched_getscheduler(0) == SCHED_IDLE && at_load.policy != SCHED_IDLE;
    least = least < at_load.nice ? at_load.nice : least;
    if (idle || least < getpriority(PRIO_PROCESS, 0))
        (void)set_nice(least);
    if (idle)
        (void)set_policy();
}

/* 0 or a negative errno. */
static int choose_processors(int worker_cpu)
{
    cpu_set_t processors = at_load.processors;
    if (worker_cpu < 0) {
        if (at_load.has_processors)
            (void)sched_setaffinity(0, sizeof(processors), &processors); /* they may be gone */
        return 0;
    }
    CPU_ZERO(&processors);
    CPU_SET((size_t)worker_cpu, &processors);
    return sched_setaffinity(0, sizeof(processors), &processors) == 0 ? 0 : -errno;
}

/* Shared by the starter, which waits, and the thread. */
struct beginning {
    hwt_timer *timer;
    int r; /* 1: not known yet */
};

static void tell_beginning(struct beginning *beginning, int r)
{
    struct hwt_shared *shared = &beginning->timer->shared;
    pthread_mutex_lock(&shared->run_lock);
    beginning->r = r;
    pthread_cond_broadcast(&shared->returned);
    pthread_mutex_unlock(&shared->run_lock);
}

static bool goes_on(const hwt_timer *timer)
{
    return !hwt_halted_by(timer, HWT_HALTED_STOPPING | HWT_HALTED_FORKED);
}

static void *run_worker(void *arg)
{
    struct beginning *beginning = arg;
    hwt_timer *timer = beginning->timer;
    struct hwt_gate *gate = &timer->shared.gate;
    (void)hwt_shield(); /* for good: nobody could do its work if it ended */
    int r = choose_processors(timer->worker_cpu);
    tell_beginning(beginning, r); /* `beginning` is gone from here on */
    if (r < 0)
        return NULL;
    choose_scheduling();
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

static int create_thread(hwt_timer *timer, struct beginning *beginning)
{
    sigset_t before;
    hwt_block_signals(&before);
    int r = pthread_create(&timer->thread, NULL, run_worker, beginning);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

int hwt_worker_thread_create(hwt_timer *timer)
{
    struct hwt_shared *shared = &timer->shared;
    struct beginning beginning = { timer, 1 };
    read_process_once();
    int r = create_thread(timer, &beginning);
    if (r < 0)
        return r;
    pthread_mutex_lock(&shared->run_lock);
    while (beginning.r > 0)
        pthread_cond_wait(&shared->returned, &shared->run_lock);
    pthread_mutex_unlock(&shared->run_lock);
    if (beginning.r < 0)
        pthread_join(timer->thread, NULL);
    else
        timer->thread_runs = true;
    return beginning.r;
}
