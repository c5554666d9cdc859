/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Keeps thousands of TCP connections alive with one timer, as a network application
 * does, on real connections over loopback: an idle limit for each on the server,
 * heartbeats, request time-outs, retries and reconnects on the client. Lets some of
 * them fail on purpose, so it knows what the server should find out, and tells how well
 * and how fast it did. See --help.
 *
 * It is also an example. What to look at:
 *
 *     server.c   idle limits by hwt_heartbeat; a timer in an event loop
 *     client.c   heartbeats by hwt_heartbeat, reconnects by hwt_retry
 *     loop.c     from the timer's tasks to an event loop
 *     metrics.c  the timer's stats as a page for Prometheus
 *     picture.c  the timer's stats as a picture
 *     threads.c  who was kept from running, which is not the timer's fault
 */

#include "heartbeat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Descriptors that are not connections. */
#define OTHER_DESCRIPTORS 64

/* ---- What all threads use ---- */

/* By this program's own look at the clock, not by what the timer says of itself. */
void count_fired(struct run *run, uint64_t deadline)
{
    if (now_ns() < deadline)
        count(&run->counts.early);
}

/* Both ends can tell, so the client knows which time-outs must come. */
bool request_is_unanswered(const struct options *options, uint64_t id)
{
    uint64_t state = options->seed ^ id;

    return random_below(&state, 100) < options->unanswered;
}

/* ---- Before ---- */

static void limit_connections(struct options *options)
{
    struct rlimit limit, wanted;
    rlim_t need = 2 * options->connections + OTHER_DESCRIPTORS;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("getrlimit", errno);
    if (limit.rlim_cur >= need)
        return;
    /* Root may raise the upper limit too. */
    wanted.rlim_cur = need;
    wanted.rlim_max = limit.rlim_max > need ? limit.rlim_max : need;
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0)
        return;
    limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("setrlimit", errno);
    if (limit.rlim_cur < OTHER_DESCRIPTORS + 2)
        die("too few descriptors for even one connection", EMFILE);
    if (limit.rlim_cur < need) {
        uint64_t fewer = (limit.rlim_cur - OTHER_DESCRIPTORS) / 2;
        printf("Only %llu connections instead of %llu: the limit is %llu descriptors.\n",
               (unsigned long long)fewer, (unsigned long long)options->connections,
               (unsigned long long)limit.rlim_cur);
        options->connections = fewer;
    }
}

/* Percent of the peers; but some, if any are wanted. */
static size_t share(uint64_t peers, uint64_t percent, uint64_t left)
{
    uint64_t n = peers * percent / 100;

    if (n == 0 && percent > 0)
        n = 1;
    return n < left ? n : left;
}

static struct fault *plan(const uint32_t *peers, size_t n, uint64_t from, uint64_t to,
                          uint64_t *random)
{
    struct fault *faults = calloc(n > 0 ? n : 1, sizeof(*faults));

    if (faults == NULL)
        die("faults", ENOMEM);
    for (size_t i = 0; i < n; i++) {
        faults[i].peer = peers[i];
        faults[i].after = from + random_below(random, to - from + 1);
    }
    return faults;
}

/*
 * Who falls silent and whose connection is dropped, and when; nobody suffers both. The
 * last to fall silent leave the server time to find out within the run, if it is long
 * enough.
 */
static void plan_faults(struct run *run)
{
    const struct options *options = &run->options;
    uint64_t random = options->seed, length = HWT_SEC(options->seconds);
    uint64_t ramp = options->connections * CONNECT_PACE;
    uint64_t from = ramp + length / 10;
    uint64_t found = HWT_MS(options->idle_ms) + HWT_MS(300);
    uint64_t silent_to = length > from + found ? length - found : from;
    uint64_t drop_to = length > from + HWT_MS(500) ? length - HWT_MS(500) : from;
    uint32_t *peers = malloc(options->connections * sizeof(*peers));

    if (peers == NULL)
        die("faults", ENOMEM);
    for (uint32_t i = 0; i < options->connections; i++) {
        uint64_t j = random_below(&random, i + 1);
        peers[i] = peers[j];
        peers[j] = i;
    }

    size_t silent = share(options->connections, options->silent, options->connections);
    size_t drops = share(options->connections, options->dropped, options->connections - silent);
    run->client.silence_count = silent;
    run->client.silent_until = silent_to;
    run->client.silences = plan(peers, silent, from, silent_to, &random);
    run->server.drop_count = drops;
    run->server.drops = plan(peers + silent, drops, from, drop_to, &random);
    free(peers);
    run->client.random = random_next(&random);
    run->server.random = random_next(&random);
}

/* The worker's first task: who it is, and whose processor time is to be read at the end. */
static void introduce_run(hwt_timeout timeout, void *arg)
{
    struct run *run = arg;

    (void)timeout;
    thread_begins(&run->threads, THREAD_WORKER);
    if (pthread_getcpuclockid(pthread_self(), &run->worker_clock) == 0)
        atomic_store(&run->worker_known, true);
}

static const hwt_task introduce_task = { .run = introduce_run };

static void open_timer(struct run *run)
{
    hwt_options options = HWT_OPTIONS_INIT;

    options.tick_duration = HWT_US(run->options.tick_us);
    options.ticks_per_wheel = (uint32_t)run->options.ticks_per_wheel;
    options.flags = run->options.loop ? HWT_NO_WORKER : 0;
    int r = hwt_timer_create(&options, &run->timer);
    hwt_stats empty = HWT_STATS_INIT;
    if (r == 0 && hwt_timer_stats(run->timer, &empty) == 0)
        run->memory_before = empty.memory;
    if (r == 0 && !run->options.loop)
        r = hwt_timer_new_timeout(run->timer, &introduce_task, run, 0, NULL);
    if (r < 0)
        die("no timer", -r);
}

static pthread_t start_thread(void *(*start)(void *), void *arg, const char *name)
{
    pthread_t thread;
    int r = pthread_create(&thread, NULL, start, arg);

    if (r != 0)
        die("no thread", r);
    pthread_setname_np(thread, name);
    return thread;
}

/* ---- Meanwhile ---- */

static void read_stats(struct run *run, hwt_stats *ret_stats)
{
    *ret_stats = (hwt_stats)HWT_STATS_INIT;
    hwt_timer_stats(run->timer, ret_stats);
    if (ret_stats->pending > run->pending_peak)
        run->pending_peak = ret_stats->pending;
}

static void sleep_until(struct run *run, uint64_t instant)
{
    struct timespec ts = { .tv_sec = (time_t)(instant / HWT_SEC(1)),
                           .tv_nsec = (long)(instant % HWT_SEC(1)) };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
    uint64_t now = now_ns();
    if (now - instant > run->overslept)
        run->overslept = now - instant;
    stall_note(run, instant, now);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The time is up, and whoever fell silent was found or should have been long ago. */
static bool is_over(struct run *run, uint64_t now)
{
    uint64_t end = run->begin + HWT_SEC(run->options.seconds);

    if (now < end)
        return false;
    if (counted(&run->counts.found) == run->client.silence_count)
        return true;
    uint64_t last =
        later(run->begin + run->client.silent_until, atomic_load(&run->client.last_silence));
    return now > later(end, last) + HWT_MS(run->options.idle_ms) + GRACE;
}

/* One line a second; in between, looks at how many are pending, and whether we stall. */
static void watch(struct run *run)
{
    hwt_stats stats, before;
    uint64_t now = run->begin, next = now, line = now;

    read_stats(run, &before);
    while (!is_over(run, now)) {
        next += HWT_MS(20);
        if (next < now)
            next = now;
        sleep_until(run, next);
        now = now_ns();
        threads_look(run, now);
        read_stats(run, &stats);
        picture_note(&run->picture, run, &stats, now);
        if (now - line >= HWT_SEC(1)) {
            report_line(run, &stats, &before, (double)(now - line) / 1e9);
            before = stats;
            line += (now - line) / HWT_SEC(1) * HWT_SEC(1);
        }
    }
}

static void read_totals(struct run *run)
{
    read_stats(run, &run->stats);
    run->elapsed = now_ns() - run->begin;
    run->timer_cpu = counted(&run->counts.dispatch_cpu);
    run->wakeups = run->stats.wakeups + counted(&run->counts.dispatches);
    if (atomic_load(&run->worker_known))
        run->timer_cpu = clock_ns(run->worker_clock);
}

int main(int argc, char **argv)
{
    static struct run run = { .stall_lock = PTHREAD_MUTEX_INITIALIZER };

    options_parse(&run.options, argc, argv);
    limit_connections(&run.options);
    plan_faults(&run);
    run.truth = calloc(run.options.connections, sizeof(*run.truth));
    if (run.truth == NULL)
        die("truth", ENOMEM);
    open_timer(&run);
    if (run.options.metrics > 0)
        metrics_start(&run.metrics, run.timer, (uint16_t)run.options.metrics);
    server_open(&run.server, &run);
    client_open(&run.client, &run);
    report_head(&run);

    run.begin = now_ns();
    pthread_t server = start_thread(server_main, &run.server, "server");
    pthread_t client = start_thread(client_main, &run.client, "client");
    watch(&run);
    read_totals(&run);

    /* The client first, or it would come back; the timer last, as both still use it. */
    loop_stop(&run.client.loop);
    pthread_join(client, NULL);
    loop_stop(&run.server.loop);
    pthread_join(server, NULL);
    hwt_timer_stop(run.timer, NULL, NULL);
    if (run.options.metrics > 0)
        metrics_stop(&run.metrics);

    int status = report_end(&run);
    if (run.options.picture != NULL && !picture_write(&run.picture, &run, run.options.picture))
        status = REPORT_FAILED;
    client_close(&run.client);
    server_close(&run.server);
    hwt_timer_destroy(run.timer);
    free(run.truth);
    return status;
}
