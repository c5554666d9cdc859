/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Timeouts that are cancelled or pushed back before they are due: requests, idle limits. */

#include "workloads.h"

#include <stdlib.h>

/* ---- churn ---- */

#define MB 1048576.0
#define TIMEOUT_BYTES 56 /* as many as standing may take for one */

struct window {
    size_t oldest;
    hwt_timeout at[];
};

static void churn_arm(struct producer *p, hwt_timeout *ret)
{
    arm(p->crew->timer, &idle_task, NULL, random_delay(&p->random, 30 * SECOND, 16 * SECOND), ret);
}

static void churn_prepare(struct producer *p)
{
    size_t count = p->crew->options->window;
    struct window *window = allocate(1, sizeof(*window) + count * sizeof(window->at[0]));

    for (size_t i = 0; i < count; i++)
        churn_arm(p, &window->at[i]);
    p->data = window;
}

static void churn_batch(struct producer *p)
{
    struct window *window = p->data;
    size_t count = p->crew->options->window;

    for (int i = 0; i < BATCH; i++) {
        hwt_timeout_cancel(window->at[window->oldest]);
        churn_arm(p, &window->at[window->oldest]);
        window->oldest++;
        window->oldest = window->oldest == count ? 0 : window->oldest;
    }
}

static void churn_finish(struct producer *p)
{
    free(p->data);
}

/* Above what is pending is above so much for each: what standing takes for one, and its handle. */
static void print_memory(const struct crew *crew, uint64_t pending)
{
    double peak = (double)crew->peak_rss - (double)crew->base_rss;
    double needed = (double)(pending * (TIMEOUT_BYTES + sizeof(hwt_timeout)));

    metric("peak_rss_mb", peak / MB);
    metric("above_pending_mb", (peak - needed) / MB);
}

static struct crew churn(const struct options *options)
{
    struct crew crew = {
        .timer = make_timer(options),
        .options = options,
        .prepare = churn_prepare,
        .batch = churn_batch,
        .finish = churn_finish,
    };

    crew_run(&crew);
    metric("producer_ns", crew.ns);
    metric("mops", crew.mops);
    metric("cpu_ns", crew.cpu_ns);
    print_memory(&crew, options->producers * options->window);
    hwt_timer_destroy(crew.timer);
    return crew;
}

void run_churn(const struct options *options)
{
    churn(options);
}

void run_churn_100ms(const struct options *options)
{
    struct crew crew = churn(options);

    metric("mops_start", crew.mops_start);
    metric("mops_end", crew.mops_end);
}

/* ---- reset ---- */

static void reset_prepare(struct producer *p)
{
    p->data = p->crew->shared;
}

static void reset_batch(struct producer *p)
{
    const hwt_timeout *connections = p->data;

    for (int i = 0; i < BATCH; i++) {
        uint64_t which = random_below(&p->random, p->crew->options->pending);
        hwt_timeout_reschedule(connections[which], 30 * SECOND);
    }
}

/* The least that it can cost: the clock is read, and the timeout's memory fetched meanwhile. */
static void touch_batch(struct producer *p)
{
    const hwt_timeout *connections = p->data;

    for (int i = 0; i < BATCH; i++) {
        uint64_t which = random_below(&p->random, p->crew->options->pending);
        const void *entry = connections[which].entry;
        __builtin_prefetch(entry, 1);
        now_ns();
        (void)*(const volatile char *)entry;
    }
}

static struct crew crew_on(hwt_timer *timer, hwt_timeout *connections,
                           const struct options *options, void (*batch)(struct producer *p))
{
    struct crew crew = {
        .timer = timer,
        .options = options,
        .prepare = reset_prepare,
        .batch = batch,
        .shared = connections,
    };

    crew_run(&crew);
    return crew;
}

void run_reset(const struct options *options)
{
    hwt_timeout *connections = allocate(options->pending, sizeof(*connections));
    hwt_timer *timer = make_timer(options);

    for (uint64_t i = 0; i < options->pending; i++)
        arm(timer, &idle_task, NULL, 30 * SECOND, &connections[i]);
    sleep_ns(SECOND / 10);
    struct crew crew = crew_on(timer, connections, options, reset_batch);
    metric("reset_ns", crew.ns);
    metric("mops", crew.mops);
    metric("cpu_ns", crew.cpu_ns);
    metric("touch_ns", crew_on(timer, connections, options, touch_batch).ns);
    hwt_timer_destroy(timer);
    free(connections);
}

/* ---- requests ---- */

static const struct options *request_options;
static hwt_timer *request_timer;
static hwt_timeout requests[REQUEST_SLOTS];

static void open_requests(void)
{
    request_timer = make_timer(request_options);
}

static void close_requests(void)
{
    hwt_timer_destroy(request_timer);
}

static void arm_request(size_t slot)
{
    arm(request_timer, &idle_task, NULL, 30 * SECOND, &requests[slot]);
}

static void cancel_request(size_t slot)
{
    hwt_timeout_cancel(requests[slot]);
}

void run_requests(const struct options *options)
{
    static const struct request_calls calls = {
        .open = open_requests,
        .close = close_requests,
        .arm = arm_request,
        .cancel = cancel_request,
    };

    request_options = options;
    measure_requests(options, &calls);
}
