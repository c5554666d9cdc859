/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_STRESS_H
#define HWT_TESTS_STRESS_H

/*
 * What the stress tests share. Each of them is run with a worker, with a worker and an
 * executor of two threads, without a worker under an event loop, and with both.
 *
 * Nothing in them rests on how long something takes: they wait for what must happen, and
 * give up only after a time in which anything would have. Threads other than the test's
 * own record what they see in counts.
 *
 *     HWT_TEST_SCALE=n    does an nth of the rounds (default 1; 8 under a sanitizer)
 */

#include "api_fixture.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

static inline uint64_t below(uint64_t *random, uint64_t limit)
{
    return test_random(random) % limit;
}

/* Some time without a system call, to meet the other threads at ever new places. */
static inline void spin(uint64_t turns)
{
    static _Atomic uint64_t nothing;

    while (turns-- > 0)
        (void)atomic_load_explicit(&nothing, memory_order_relaxed);
}

static inline void expect(bool condition, shared_count *broken)
{
    if (!condition)
        atomic_fetch_add(broken, 1);
}

/* ---- An executor of two threads, which refuses work now and then ---- */

enum { POOL_THREADS = 2, POOL_ROOM = 1024 };

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    work_item ring[POOL_ROOM];
    size_t head, tail;
    unsigned offered;
    bool closing;
    pthread_t threads[POOL_THREADS];
};

static inline int pool_submit(void *data, void (*work)(void *), void *arg)
{
    struct pool *pool = data;
    bool taken;

    pthread_mutex_lock(&pool->lock);
    taken = pool->tail - pool->head < POOL_ROOM && ++pool->offered % 16 != 0;
    if (taken)
        pool->ring[pool->tail++ % POOL_ROOM] = (work_item){ work, arg };
    pthread_cond_signal(&pool->filled);
    pthread_mutex_unlock(&pool->lock);
    return taken ? 0 : -1;
}

static inline bool pool_take(struct pool *pool, work_item *ret_item)
{
    bool found;

    pthread_mutex_lock(&pool->lock);
    while (pool->head == pool->tail && !pool->closing)
        pthread_cond_wait(&pool->filled, &pool->lock);
    found = pool->head != pool->tail;
    if (found)
        *ret_item = pool->ring[pool->head++ % POOL_ROOM];
    pthread_mutex_unlock(&pool->lock);
    return found;
}

static inline void *pool_work(void *arg)
{
    work_item item;

    while (pool_take(arg, &item))
        item.work(item.arg);
    return NULL;
}

static inline void pool_open(struct pool *pool)
{
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->filled, NULL);
    for (int i = 0; i < POOL_THREADS; i++)
        pool->threads[i] = spawn(pool_work, pool);
}

static inline void pool_close(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->filled);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < POOL_THREADS; i++)
        join(pool->threads[i]);
    pthread_cond_destroy(&pool->filled);
    pthread_mutex_destroy(&pool->lock);
}

/* ---- A timer in each of the ways to drive one ---- */

enum { BY_EXECUTOR = 1, BY_LOOP = 2, WAYS = 4 }; /* bits of the loop number of a test */

struct rig {
    hwt_timer *timer;
    int way;
    struct pool pool;
    pthread_t loop;
    int quit; /* an eventfd that ends the event loop */
    shared_count broken;
};

/* An event loop that knows of the timer only what its descriptor says. */
static inline void *rig_loop(void *arg)
{
    struct rig *rig = arg;
    struct epoll_event event = { .events = EPOLLIN, .data = { .fd = rig->quit } };
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int fd = hwt_timer_fd(rig->timer);

    expect(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, rig->quit, &event) == 0, &rig->broken);
    event.data.fd = fd;
    /* -ESHUTDOWN: stopped before the loop had begun */
    expect(fd == -ESHUTDOWN || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, &rig->broken);
    for (;;) {
        int r = epoll_wait(epoll, &event, 1, -1);

        if (r == 1 && event.data.fd == rig->quit)
            break;
        if (r == 1)
            hwt_timer_dispatch(rig->timer);
    }
    close(epoll);
    return NULL;
}

static inline void rig_open(struct rig *rig, int way, uint64_t tick, uint32_t wheel)
{
    hwt_options options = HWT_OPTIONS_INIT;

    memset(rig, 0, sizeof *rig);
    rig->way = way;
    options.tick_duration = tick;
    options.ticks_per_wheel = wheel;
    options.flags = way & BY_LOOP ? HWT_NO_WORKER : 0;
    if (way & BY_EXECUTOR) {
        pool_open(&rig->pool);
        options.executor = pool_submit;
        options.executor_data = &rig->pool;
    }
    rig->timer = create(&options);
    if (way & BY_LOOP) {
        rig->quit = eventfd(0, EFD_CLOEXEC);
        ck_assert_int_ge(rig->quit, 0);
        rig->loop = spawn(rig_loop, rig);
    }
}

static inline void rig_close(struct rig *rig)
{
    if (rig->way & BY_LOOP) {
        ck_assert_int_eq(eventfd_write(rig->quit, 1), 0);
        join(rig->loop);
        close(rig->quit);
    }
    hwt_timer_destroy(rig->timer);
    if (rig->way & BY_EXECUTOR)
        pool_close(&rig->pool);
    ck_assert_uint_eq(rig->broken, 0);
}

/* Wide enough for a busy machine, and under valgrind. */
static inline TCase *stress_case(Suite *suite, const char *name)
{
    TCase *test_case = tcase_create(name);

    tcase_set_timeout(test_case, 300);
    suite_add_tcase(suite, test_case);
    return test_case;
}

#endif
