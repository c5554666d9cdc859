/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_LOOP_H
#define HWT_PERF_LOOP_H

/*
 * The workloads for a timer that belongs to an event loop and one thread. Included by each
 * such contender once it has said what it has:
 *
 *     PEER_OWN                             the library's part of a struct peer_timer, see timer.h
 *     peer_open(), peer_close()            a loop without timers; the program ends soon after
 *     peer_init(timer)                     once, before all else
 *     peer_add(timer, delay, run)          arms it; run(timer) is called when it is due
 *     peer_cancel(timer)
 *     peer_move(timer, delay)              of a pending one, in its own way for idle limits
 *     peer_turn(wait)                      one turn of the loop; may sleep if `wait`
 *     peer_update()                        reads the clock, outside a turn
 *
 * Loops read the clock once a turn and count delays from there. So does every program here
 * that uses one: a turn without waiting comes after every TURN operations, as if they were what
 * one turn of a busy server does. Metrics with `exact` in their name are of a second run in which
 * the clock is read at each operation.
 */

#include "kit.h"

#include <stdlib.h>

#define TURN 64

static struct histogram lateness;
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

static void check_options(const struct options *options)
{
    if (options->producers > 1)
        decline("these timers belong to one thread");
}

static bool is_over(const struct options *options, uint64_t begin, uint64_t now, uint64_t ops)
{
    if (options->ops > 0)
        return ops >= options->ops;
    return now - begin >= (uint64_t)(options->seconds * 1e9);
}

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

/* ---- requests ---- */

static struct peer_timer *requests;

static void open_requests(void)
{
}

static void arm_request(size_t slot)
{
    peer_add(&requests[slot], 30 * SECOND, nothing);
}

static void cancel_request(size_t slot)
{
    peer_cancel(&requests[slot]);
}

static void turn_requests(void)
{
    peer_turn(false);
}

static void run_requests(const struct options *options)
{
    static const struct request_calls calls = {
        .open = open_requests,
        .close = open_requests,
        .arm = arm_request,
        .cancel = cancel_request,
        .turn = turn_requests,
    };

    check_options(options);
    peer_open();
    requests = peer_array(REQUEST_SLOTS);
    measure_requests(options, &calls);
    peer_close();
    free(requests);
}

#include "loop_churn.h"
#include "loop_fire.h"

int main(int argc, char **argv)
{
    static const struct workload workloads[] = {
        { "loop-churn", run_churn, 0, 1, MS },
        { "loop-reset", run_reset, 100000, 1, MS },
        { "loop-earlier", run_earlier, 1000, 1, MS },
        { "loop-fire", run_fire, 1000000, 0, MS },
        { "http", run_http, 1000, 1, MS },
        { "requests", run_requests, 0, 2, MS },
        { "standing", run_standing, 1000000, 2, MS },
        { "heartbeat", run_heartbeat, 100000, 3, MS },
        { 0 },
    };

    return contend(argc, argv, workloads);
}

#endif
