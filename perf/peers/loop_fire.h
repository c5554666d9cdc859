/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_LOOP_FIRE_H
#define HWT_PERF_LOOP_FIRE_H

/* Part of loop.h: timeouts that run, or stand there. */

#define PERIOD SECOND

/* ---- loop-fire ---- */

static void record(struct peer_timer *timer)
{
    histogram_add(&lateness, (int64_t)(now_ns() - timer->deadline));
    left--;
}

/* While it adds, the loop must turn, or what falls due would only wait. */
static void run_fire(const struct options *options)
{
    uint64_t n = options->pending, random = 1;

    check_options(options);
    peer_open();
    struct peer_timer *timers = peer_array(n);
    left = n;
    peer_turn(false);
    uint64_t begin = now_ns(), cpu = process_cpu_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t delay = random_delay(&random, SECOND / 10, 2900 * MS);
        timers[i].deadline = now_ns() + delay;
        peer_add(&timers[i], delay, record);
        if (i % TURN == 0)
            peer_turn(false);
    }
    uint64_t added = now_ns();
    while (left > 0)
        peer_turn(true);

    metric("add_ns", (double)(added - begin) / (double)n);
    metric("cpu_ns", (double)(process_cpu_ns() - cpu) / (double)n);
    print_lateness(&lateness);
    peer_close();
    free(timers);
}

/* ---- heartbeat ---- */

static uint64_t beats_end, first_end, last_begin;
static double first_sum, first_count, last_sum, last_count;

static void beat(struct peer_timer *timer)
{
    uint64_t *deadline = &timer->deadline;
    uint64_t now = now_ns();
    double late = (double)(int64_t)(now - *deadline);

    histogram_add(&lateness, (int64_t)(now - *deadline));
    first_sum += *deadline < first_end ? late : 0;
    first_count += *deadline < first_end;
    last_sum += *deadline >= last_begin ? late : 0;
    last_count += *deadline >= last_begin;
    *deadline += PERIOD;
    if (*deadline < beats_end)
        peer_add(timer, PERIOD, beat);
    else
        left--;
}

static void run_heartbeat(const struct options *options)
{
    uint64_t n = options->pending, random = 1;
    uint64_t periods = 1 + (uint64_t)(options->seconds < 1 ? 1 : options->seconds);

    check_options(options);
    peer_open();
    struct peer_timer *timers = peer_array(n);
    left = n;
    peer_turn(false);
    uint64_t begin = now_ns() + SECOND;
    first_end = begin + PERIOD;
    beats_end = begin + periods * PERIOD;
    last_begin = beats_end - PERIOD;
    for (uint64_t i = 0; i < n; i++) {
        timers[i].deadline = begin + random_delay(&random, 0, PERIOD);
        if (i % TURN == 0)
            peer_turn(false);
        peer_add(&timers[i], timers[i].deadline - now_ns(), beat);
    }
    while (now_ns() < first_end)
        peer_turn(true);
    struct load load = load_begin(LOOP);
    while (now_ns() < beats_end && left > 0)
        peer_turn(true);
    load_end(&load);
    while (left > 0)
        peer_turn(true);
    print_lateness(&lateness);
    metric("drift_us",
           (last_sum / last_count - first_sum / first_count) / 1e3 / (double)(periods - 1));
    peer_close();
    free(timers);
}

/* ---- standing ---- */

static bool is_time;

static void time_is_over(struct peer_timer *timer)
{
    (void)timer;
    is_time = true;
}

static void loop_for(uint64_t ns)
{
    struct peer_timer *end = peer_array(1); /* never freed: a loop may keep track of it */

    is_time = false;
    peer_turn(false);
    peer_add(end, ns, time_is_over);
    while (!is_time)
        peer_turn(true);
}

static void run_standing(const struct options *options)
{
    uint64_t random = 1;

    check_options(options);
    peer_open();
    uint64_t before = resident_bytes();
    struct peer_timer *timers = peer_array(options->pending);
    for (uint64_t i = 0; i < options->pending; i++)
        peer_add(&timers[i], random_delay(&random, 60 * SECOND, 540 * SECOND), nothing);
    loop_for(SECOND / 10);
    struct load load = load_begin(LOOP);
    loop_for((uint64_t)(options->seconds * 1e9));
    load_end(&load);
    metric("bytes_per_timeout", (double)(resident_bytes() - before) / (double)options->pending);
    peer_close();
    free(timers);
}

#endif
