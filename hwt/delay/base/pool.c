/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The threads of all stores. See pool.h. */

#include "hwt/delay/base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "hwt/base/shield.h"
#include "hwt/base/wiped.h"
#include "hwt/delay/base/cond.h"
#include "hwt/hwt.h"

#define LANE_THREADS 2
#define PATIENCE HWT_MS(100)

struct thread {
    SLIST_ENTRY(thread) listed;
    struct hwt_delay_pool *pool;
    struct lane *lane; /* NULL: the clock's */
    pthread_t id;
    bool ended; /* it touches nothing any more */
};

struct lane {
    TAILQ_HEAD(jobs, hwt_delay_job) jobs; /* queued */
    size_t queued;
    unsigned threads, idle; /* idle: they sleep, or have been woken and not taken a job yet */
    uint64_t moved;         /* when a job began, or a thread was to come, or the first was queued */
    pthread_cond_t work;
};

struct hwt_delay_pool {
    uint64_t stores; /* under the registry's lock */
    pthread_mutex_t lock;
    RB_HEAD(hwt_delay_times, hwt_delay_job) times;
    struct lane lanes[HWT_DELAY_LANES];
    SLIST_HEAD(threads, thread) threads;
    pthread_cond_t clock;   /* the clock's thread sleeps here */
    uint64_t clock_until;   /* until then; 0: it does not sleep, or has been woken */
    pthread_cond_t stopped; /* a job that was ended runs no more */
    bool ending;
};

/* By instant; any order will do for the rest. */
static int compare(const struct hwt_delay_job *a, const struct hwt_delay_job *b)
{
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

RB_PROTOTYPE(hwt_delay_times, hwt_delay_job, timed, compare)
RB_GENERATE(hwt_delay_times, hwt_delay_job, timed, compare)

/* ---- jobs, with the pool's lock ---- */

static void wake_clock(struct hwt_delay_pool *pool, uint64_t at)
{
    if (at >= pool->clock_until)
        return;
    pool->clock_until = 0;
    pthread_cond_signal(&pool->clock);
}

static void set_time(struct hwt_delay_pool *pool, struct hwt_delay_job *job, uint64_t at)
{
    if (job->at != HWT_NEVER)
        RB_REMOVE(hwt_delay_times, &pool->times, job);
    job->at = at;
    if (at == HWT_NEVER)
        return;
    RB_INSERT(hwt_delay_times, &pool->times, job);
    wake_clock(pool, at);
}

/* When the lane is to get a thread more, for jobs wait. */
static uint64_t help_at(const struct lane *lane)
{
    if (lane->queued <= lane->idle)
        return HWT_NEVER;
    return lane->threads < LANE_THREADS ? lane->moved : lane->moved + PATIENCE;
}

static void queue(struct hwt_delay_pool *pool, struct hwt_delay_job *job)
{
    struct lane *lane = &pool->lanes[job->lane];
    if (TAILQ_EMPTY(&lane->jobs))
        lane->moved = hwt_delay_monotonic();
    TAILQ_INSERT_TAIL(&lane->jobs, job, queued);
    lane->queued++;
    job->state = HWT_DELAY_QUEUED;
    if (lane->queued <= lane->idle)
        pthread_cond_signal(&lane->work);
    else
        wake_clock(pool, help_at(lane));
}

static void unqueue(struct hwt_delay_pool *pool, struct hwt_delay_job *job)
{
    struct lane *lane = &pool->lanes[job->lane];
    TAILQ_REMOVE(&lane->jobs, job, queued);
    lane->queued--;
    job->state = HWT_DELAY_IDLE;
}

/* Lets go of the lock meanwhile. */
static void run(struct hwt_delay_pool *pool, struct hwt_delay_job *job)
{
    job->state = HWT_DELAY_RUNS;
    set_time(pool, job, HWT_NEVER);
    pthread_mutex_unlock(&pool->lock);
    uint64_t delay = job->run(job->arg);
    pthread_mutex_lock(&pool->lock);
    bool again = job->state == HWT_DELAY_RUNS_AGAIN;
    job->state = HWT_DELAY_IDLE;
    if (job->ended) {
        pthread_cond_broadcast(&pool->stopped);
    } else if (again || delay == 0) {
        queue(pool, job);
    } else if (delay != HWT_NEVER) {
        uint64_t at = hwt_delay_monotonic() + delay;
        if (at < job->at)
            set_time(pool, job, at);
    }
}

/* ---- the threads of a lane ---- */

static void be_a_thread(void)
{
    hwt_shield();
    prctl(PR_SET_NAME, "hwt-delay");
}

static void *serve(void *arg)
{
    struct thread *self = arg;
    struct hwt_delay_pool *pool = self->pool;
    struct lane *lane = self->lane;
    be_a_thread();
    pthread_mutex_lock(&pool->lock);
    while (!pool->ending &&
           (lane->queued > 0 || lane->threads <= LANE_THREADS || lane->idle == 0)) {
        struct hwt_delay_job *job = TAILQ_FIRST(&lane->jobs);
        if (job) {
            unqueue(pool, job);
            lane->moved = hwt_delay_monotonic();
            run(pool, job);
        } else {
            lane->idle++;
            pthread_cond_wait(&lane->work, &pool->lock);
            lane->idle--;
        }
    }
    lane->threads--;
    self->ended = true;
    wake_clock(pool, 0);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int start(struct hwt_delay_pool *pool, struct lane *lane, void *(*main)(void *))
{
    struct thread *thread = malloc(sizeof(*thread));
    if (!thread)
        return -ENOMEM;
    *thread = (struct thread){ .pool = pool, .lane = lane };
    int r = -pthread_create(&thread->id, NULL, main, thread);
    if (r < 0) {
        free(thread);
        return r;
    }
    SLIST_INSERT_HEAD(&pool->threads, thread, listed);
    if (lane)
        lane->threads++;
    return 0;
}

/* ---- the clock's thread ---- */

/* Begins or queues the jobs that are due. False: nothing is. */
static bool begin_due(struct hwt_delay_pool *pool, uint64_t now)
{
    struct hwt_delay_job *job = RB_MIN(hwt_delay_times, &pool->times);
    if (!job || job->at > now)
        return false;
    set_time(pool, job, HWT_NEVER);
    if (job->state == HWT_DELAY_RUNS)
        job->state = HWT_DELAY_RUNS_AGAIN;
    else if (job->state == HWT_DELAY_IDLE && job->lane == HWT_DELAY_ALARM)
        run(pool, job);
    else if (job->state == HWT_DELAY_IDLE)
        queue(pool, job);
    return true;
}

/* Gives threads to the lanes that need one. Returns when that is to be looked at again. */
static uint64_t help(struct hwt_delay_pool *pool, uint64_t now)
{
    uint64_t next = HWT_NEVER;
    for (int i = 0; i < HWT_DELAY_LANES; i++) {
        struct lane *lane = &pool->lanes[i];
        if (help_at(lane) <= now) {
            start(pool, lane, serve); /* refused: tried again after PATIENCE */
            lane->moved = now + (lane->threads < LANE_THREADS ? PATIENCE : 0);
        }
        if (help_at(lane) < next)
            next = help_at(lane);
    }
    return next;
}

static void join_ended(struct hwt_delay_pool *pool)
{
    struct thread *thread = SLIST_FIRST(&pool->threads), *next;
    for (; thread; thread = next) {
        next = SLIST_NEXT(thread, listed);
        if (!thread->ended)
            continue;
        SLIST_REMOVE(&pool->threads, thread, thread, listed);
        pthread_join(thread->id, NULL);
        free(thread);
    }
}

static void sleep_until(struct hwt_delay_pool *pool, uint64_t until)
{
    const struct timespec at = hwt_timespec(until);
    pool->clock_until = until;
    if (until == HWT_NEVER)
        pthread_cond_wait(&pool->clock, &pool->lock);
    else
        pthread_cond_timedwait(&pool->clock, &pool->lock, &at);
    pool->clock_until = 0;
}

static void *keep_time(void *arg)
{
    struct hwt_delay_pool *pool = ((struct thread *)arg)->pool;
    be_a_thread();
    prctl(PR_SET_TIMERSLACK, 1); /* ns; the default adds 50 us to each sleep */
    pthread_mutex_lock(&pool->lock);
    while (!pool->ending) {
        uint64_t now = hwt_delay_monotonic();
        if (begin_due(pool, now))
            continue;
        uint64_t until = help(pool, now);
        join_ended(pool);
        const struct hwt_delay_job *first = RB_MIN(hwt_delay_times, &pool->times);
        if (first && first->at < until)
            until = first->at;
        sleep_until(pool, until);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- a pool ---- */

/* Its threads end, and it goes. No store has it. */
static void end(struct hwt_delay_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    pthread_cond_broadcast(&pool->clock);
    for (int i = 0; i < HWT_DELAY_LANES; i++)
        pthread_cond_broadcast(&pool->lanes[i].work);
    pthread_mutex_unlock(&pool->lock);
    /* The clock's thread starts and joins none any more. */
    struct thread *thread;
    while ((thread = SLIST_FIRST(&pool->threads))) {
        SLIST_REMOVE_HEAD(&pool->threads, listed);
        pthread_join(thread->id, NULL);
        free(thread);
    }
    for (int i = 0; i < HWT_DELAY_LANES; i++)
        pthread_cond_destroy(&pool->lanes[i].work);
    pthread_cond_destroy(&pool->clock);
    pthread_cond_destroy(&pool->stopped);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* The clock's thread, and one for each lane. */
static int start_first(struct hwt_delay_pool *pool)
{
    sigset_t before;
    hwt_block_signals(&before);
    pthread_mutex_lock(&pool->lock);
    int r = start(pool, NULL, keep_time);
    for (int i = HWT_DELAY_COMMIT; i < HWT_DELAY_LANES && r == 0; i++)
        r = start(pool, &pool->lanes[i], serve);
    pthread_mutex_unlock(&pool->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

static int make(struct hwt_delay_pool **ret_pool)
{
    struct hwt_delay_pool *pool = calloc(1, sizeof(*pool));
    if (!pool)
        return -ENOMEM;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->clock, &attributes);
    pthread_cond_init(&pool->stopped, &attributes);
    for (int i = 0; i < HWT_DELAY_LANES; i++) {
        TAILQ_INIT(&pool->lanes[i].jobs);
        pthread_cond_init(&pool->lanes[i].work, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&pool->lock, NULL);
    RB_INIT(&pool->times);
    SLIST_INIT(&pool->threads);
    int r = start_first(pool);
    if (r < 0) {
        end(pool);
        return r;
    }
    *ret_pool = pool;
    return 0;
}

/* ---- the process's pool ---- */

/* Zero in a child of fork(), so that it has no pool and no thread of its parent holds the lock: see
 * hwt/base/wiped.h. A handler makes it so if the kernel does not. Nothing is locked across a fork(). */
static struct {
    _Alignas(HWT_PAGE_MOST) pthread_mutex_t lock;
    struct hwt_delay_pool *current;
} registry;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watched; /* whether forks are */

static void in_child(void)
{
    memset(&registry, 0, sizeof(registry));
}

static void watch_forks(void)
{
    if (!hwt_wiped_on_fork(&registry, sizeof(registry)))
        watched = -pthread_atfork(NULL, NULL, in_child);
}

int hwt_delay_pool_enter(struct hwt_delay_pool **ret_pool)
{
    pthread_once(&once, watch_forks);
    if (watched < 0)
        return watched;
    pthread_mutex_lock(&registry.lock);
    int r = registry.current ? 0 : make(&registry.current);
    if (r == 0) {
        registry.current->stores++;
        *ret_pool = registry.current;
    }
    pthread_mutex_unlock(&registry.lock);
    return r;
}

void hwt_delay_pool_leave(struct hwt_delay_pool *pool)
{
    pthread_mutex_lock(&registry.lock);
    bool last = --pool->stores == 0;
    if (last)
        registry.current = NULL;
    pthread_mutex_unlock(&registry.lock);
    if (last)
        end(pool);
}

/* ---- for the stores ---- */

void hwt_delay_job_begin(struct hwt_delay_job *job, struct hwt_delay_pool *pool,
                         enum hwt_delay_lane lane, uint64_t (*run_it)(void *arg), void *arg)
{
    *job = (struct hwt_delay_job){ pool, lane, run_it, arg, .at = HWT_NEVER };
}

void hwt_delay_job_want(struct hwt_delay_job *job)
{
    if (!job->pool)
        return;
    pthread_mutex_lock(&job->pool->lock);
    if (job->state == HWT_DELAY_RUNS)
        job->state = HWT_DELAY_RUNS_AGAIN;
    else if (job->state == HWT_DELAY_IDLE && !job->ended)
        queue(job->pool, job);
    pthread_mutex_unlock(&job->pool->lock);
}

void hwt_delay_job_at(struct hwt_delay_job *job, uint64_t delay)
{
    if (!job->pool)
        return;
    uint64_t now = hwt_delay_monotonic();
    pthread_mutex_lock(&job->pool->lock);
    if (!job->ended)
        set_time(job->pool, job, delay < HWT_NEVER - now ? now + delay : HWT_NEVER);
    pthread_mutex_unlock(&job->pool->lock);
}

void hwt_delay_job_end(struct hwt_delay_job *job)
{
    struct hwt_delay_pool *pool = job->pool;
    pthread_mutex_lock(&pool->lock);
    job->ended = true;
    set_time(pool, job, HWT_NEVER);
    if (job->state == HWT_DELAY_QUEUED)
        unqueue(pool, job);
    while (job->state != HWT_DELAY_IDLE)
        pthread_cond_wait(&pool->stopped, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

bool hwt_delay_job_runs(struct hwt_delay_job *job)
{
    pthread_mutex_lock(&job->pool->lock);
    bool runs = job->state == HWT_DELAY_RUNS || job->state == HWT_DELAY_RUNS_AGAIN;
    pthread_mutex_unlock(&job->pool->lock);
    return runs;
}

bool hwt_delay_job_is_ended(struct hwt_delay_job *job)
{
    pthread_mutex_lock(&job->pool->lock);
    bool ended = job->ended;
    pthread_mutex_unlock(&job->pool->lock);
    return ended;
}
