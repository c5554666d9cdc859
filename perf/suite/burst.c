/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A million timeouts on one deadline, while another thread goes on adding. */

#include "workloads.h"

#define LEAD (SECOND / 5) /* the adder begins so long before the deadline, and ends as long after */
#define SAMPLES ((size_t)1 << 22)

static uint64_t deadline;
static _Atomic uint64_t left;
static _Atomic uint64_t last_run; /* 0: not yet */

static void burst_run(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    uint64_t remaining = atomic_load_explicit(&left, memory_order_relaxed) - 1;
    atomic_store_explicit(&left, remaining, memory_order_relaxed);
    if (remaining == 0)
        atomic_store(&last_run, now_ns());
}

static const hwt_task burst_task = { .run = burst_run };

struct adder {
    hwt_timer *timer;
    uint64_t random;
    size_t oldest;
    hwt_timeout window[WINDOW];
    struct histogram quiet, meanwhile;
};

/* Cancels the oldest, adds a new one, and records what that add took. Returns the time. */
static uint64_t adder_turn(struct adder *adder)
{
    hwt_timeout *at = &adder->window[adder->oldest];

    adder->oldest = (adder->oldest + 1) % WINDOW;
    hwt_timeout_cancel(*at);
    uint64_t delay = random_delay(&adder->random, 30 * SECOND, 16 * SECOND);
    uint64_t before = now_ns();
    arm(adder->timer, &idle_task, NULL, delay, at);
    uint64_t after = now_ns();
    if (before < deadline)
        histogram_add(&adder->quiet, (int64_t)(after - before));
    else if (atomic_load_explicit(&last_run, memory_order_relaxed) == 0)
        histogram_add(&adder->meanwhile, (int64_t)(after - before));
    return after;
}

static void *adder_main(void *arg)
{
    struct adder *adder = arg;
    bool over;

    sleep_until(deadline - LEAD);
    do {
        uint64_t now = adder_turn(adder);
        uint64_t last = atomic_load_explicit(&last_run, memory_order_relaxed);
        over = last != 0 && now > last + LEAD;
    } while (!over);
    return NULL;
}

static void add_all(hwt_timer *timer, uint64_t n)
{
    atomic_store(&left, n);
    for (uint64_t i = 0; i < n; i++) {
        int r = hwt_timer_new_timeout_at(timer, &burst_task, NULL, deadline, NULL);
        if (r < 0)
            die("hwt_timer_new_timeout_at", r);
    }
}

void run_burst(const struct options *options)
{
    static struct adder adder;
    pthread_t thread;

    adder.timer = make_timer(options);
    adder.random = 2;
    deadline = now_ns() + 2 * SECOND;
    add_all(adder.timer, options->pending);
    int r = pthread_create(&thread, NULL, adder_main, &adder);
    if (r != 0)
        die("pthread_create", r);
    pthread_join(thread, NULL);

    metric("last_run_ms", (double)(last_run - deadline) / 1e6);
    metric("quiet_add_p999_us", (double)histogram_at(&adder.quiet, 0.999) / 1e3);
    metric("add_p999_us", (double)histogram_at(&adder.meanwhile, 0.999) / 1e3);
    metric("add_max_us", (double)histogram_at(&adder.meanwhile, 1) / 1e3);
    hwt_timer_destroy(adder.timer);
}
