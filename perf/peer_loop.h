/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The workloads for a timer that belongs to an event loop and one thread. Included by a
 * peer_*.c once it has said what it has:
 *
 *     struct peer_timer                    one timeout, in the program's own memory
 *     peer_open(), peer_close()
 *     peer_init(timer)                     once, before all else
 *     peer_add(timer, delay, run)          arms it; run(timer) is called when it is due
 *     peer_cancel(timer)
 *     peer_push_back(timer, delay)         of a pending one
 *     peer_turn(wait)                      one turn of the loop; may sleep if `wait`
 *     peer_update()                        reads the clock, outside a turn
 *     peer_deadline(timer)                 a uint64_t of the program's own, in the timer
 *
 * Loops read the clock once a turn and count delays from there. So does every program here
 * that uses one: a turn without waiting comes after every TURN operations, as if they were what
 * one turn of a busy server does. That favours the loops: hwt reads the clock at each
 * operation. Metrics with `exact` in their name are of a second run in which the loop does, too.
 */

#include "workloads.h"

#include <stdlib.h>

#define TURN 64
#define PERIOD SECOND

static struct samples lateness;
static uint64_t left;

static struct peer_timer *peer_array(uint64_t count)
{
    struct peer_timer *timers = allocate(count, sizeof(*timers));

    for (uint64_t i = 0; i < count; i++)
        peer_init(&timers[i]);
    return timers;
}

static void nothing(struct peer_timer *timer)
{
    (void)timer;
}

static bool is_over(const struct options *options, uint64_t begin, uint64_t now, uint64_t ops)
{
    if (options->ops > 0)
        return ops >= options->ops;
    return now - begin >= (uint64_t)(options->seconds * 1e9);
}

/* ---- churn, reset ---- */

struct cost {
    double ns, cpu_ns;
};

/* Calls operation(data) until the time is over, a fifth of it before that does not count. */
static struct cost repeat(const struct options *options, void (*operation)(void *data), void *data)
{
    struct options warming = *options;
    uint64_t begin = now_ns(), cpu = process_cpu_ns(), ops = 0, now = begin;

    warming.seconds /= 5;
    warming.ops /= 5;
    for (int measuring = 0; measuring < 2; measuring++) {
        begin = now;
        cpu = process_cpu_ns();
        ops = 0;
        do {
            for (int i = 0; i < TURN; i++)
                operation(data);
            peer_turn(false);
            ops += TURN;
            now = now_ns();
        } while (!is_over(measuring ? options : &warming, begin, now, ops));
    }
    return (struct cost){ (double)(now - begin) / (double)ops,
                          (double)(process_cpu_ns() - cpu) / (double)ops };
}

static void one_thread_only(const struct options *options)
{
    if (options->producers > 1)
        decline("this loop's timers belong to one thread");
}

struct churn {
    struct peer_timer *window;
    size_t oldest;
    uint64_t random;
};

static void print_cost(const char *name, const char *exact_name, const struct options *options,
                       void (*operation)(void *), void (*exact)(void *), void *data)
{
    struct cost cost = repeat(options, operation, data);

    metric(name, cost.ns);
    metric("mops", 1e3 / cost.ns);
    metric("cpu_ns", cost.cpu_ns);
    metric(exact_name, repeat(options, exact, data).ns);
}

static void churn_one(void *data)
{
    struct churn *churn = data;
    struct peer_timer *timer = &churn->window[churn->oldest];

    churn->oldest++;
    churn->oldest = churn->oldest == WINDOW ? 0 : churn->oldest;
    peer_cancel(timer);
    peer_add(timer, random_delay(&churn->random, 30 * SECOND, 16 * SECOND), nothing);
}

static void churn_exactly(void *data)
{
    peer_update();
    churn_one(data);
}

static void run_churn(const struct options *options)
{
    one_thread_only(options);
    peer_open();
    struct churn churn = { peer_array(WINDOW), 0, 1 };
    for (size_t i = 0; i < WINDOW; i++)
        peer_add(&churn.window[i], 30 * SECOND, nothing);
    print_cost("producer_ns", "producer_exact_ns", options, churn_one, churn_exactly, &churn);
    peer_close();
    free(churn.window);
}

struct reset {
    struct peer_timer *connections;
    uint64_t count;
    uint64_t random;
};

static void reset_one(void *data)
{
    struct reset *reset = data;

    peer_push_back(&reset->connections[random_below(&reset->random, reset->count)], 30 * SECOND);
}

static void reset_exactly(void *data)
{
    peer_update();
    reset_one(data);
}

static void run_reset(const struct options *options)
{
    one_thread_only(options);
    peer_open();
    struct reset reset = { peer_array(options->pending), options->pending, 1 };
    for (uint64_t i = 0; i < reset.count; i++)
        peer_add(&reset.connections[i], 30 * SECOND, nothing);
    print_cost("reset_ns", "reset_exact_ns", options, reset_one, reset_exactly, &reset);
    peer_close();
    free(reset.connections);
}

/* ---- fire, heartbeat ---- */

static void record(struct peer_timer *timer)
{
    samples_add(&lateness, *peer_deadline(timer), now_ns());
    left--;
}

/* While it adds, the loop must turn, or what falls due would only wait. */
static void run_fire(const struct options *options)
{
    uint64_t n = options->pending, random = 1;

    peer_open();
    struct peer_timer *timers = peer_array(n);
    samples_open(&lateness, n);
    left = n;
    peer_turn(false);
    uint64_t begin = now_ns(), cpu = process_cpu_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t delay = random_delay(&random, SECOND / 10, 2900 * MS);
        *peer_deadline(&timers[i]) = now_ns() + delay;
        peer_add(&timers[i], delay, record);
        if (i % TURN == 0)
            peer_turn(false);
    }
    uint64_t added = now_ns();
    while (left > 0)
        peer_turn(true);

    metric("add_ns", (double)(added - begin) / (double)n);
    metric("cpu_ns", (double)(process_cpu_ns() - cpu) / (double)n);
    samples_lateness(&lateness);
    peer_close();
    samples_close(&lateness);
    free(timers);
}

static uint64_t beats_end, first_end, last_begin;
static double first_sum, first_count, last_sum, last_count;

static void beat(struct peer_timer *timer)
{
    uint64_t *deadline = peer_deadline(timer);
    uint64_t now = now_ns();
    double late = (double)(int64_t)(now - *deadline);

    samples_add(&lateness, *deadline, now);
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

    peer_open();
    struct peer_timer *timers = peer_array(n);
    samples_open(&lateness, n * periods);
    left = n;
    peer_turn(false);
    uint64_t begin = now_ns() + SECOND;
    first_end = begin + PERIOD;
    beats_end = begin + periods * PERIOD;
    last_begin = beats_end - PERIOD;
    for (uint64_t i = 0; i < n; i++) {
        *peer_deadline(&timers[i]) = begin + random_delay(&random, 0, PERIOD);
        if (i % TURN == 0)
            peer_turn(false);
        peer_add(&timers[i], *peer_deadline(&timers[i]) - now_ns(), beat);
    }
    while (now_ns() < first_end)
        peer_turn(true);
    struct load load = load_begin(LOOP);
    while (now_ns() < beats_end && left > 0)
        peer_turn(true);
    load_end(&load);
    while (left > 0)
        peer_turn(true);
    samples_lateness(&lateness);
    metric("drift_us",
           (last_sum / last_count - first_sum / first_count) / 1e3 / (double)(periods - 1));
    peer_close();
    samples_close(&lateness);
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

int main(int argc, char **argv)
{
    static const struct workload workloads[] = {
        { "churn", run_churn, 0, 1, MS },
        { "fire", run_fire, 1000000, 0, MS },
        { "standing", run_standing, 1000000, 2, MS },
        { "reset", run_reset, 100000, 1, MS },
        { "heartbeat", run_heartbeat, 100000, 3, MS },
        { "clock", run_clock, 0, 0.2, 0 },
        { 0 },
    };

    return contend(argc, argv, workloads);
}
