/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * DPDK's rte_timer: a skip list for each core, cycles of the processor's counter, which every
 * reset reads. DPDK's programs poll; this one sleeps to the next deadline where others do.
 */

#define ALLOW_EXPERIMENTAL_API /* rte_timer_next_ticks() */

#include "kit.h"

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_timer.h>
#include <stdlib.h>

struct peer_timer {
    struct rte_timer rte;
    uint64_t deadline;
    void (*run)(struct peer_timer *timer);
};

#define ARGUMENTS 9

static double cycles_per_ns;

static void peer_open(void)
{
    static char arguments[ARGUMENTS][24] = {
        "perf", "--no-huge", "--no-pci",   "--no-telemetry", "--no-shconf",
        "-m",   "64",        "--lcores=0", "--log-level=1"
    };
    char *argv[ARGUMENTS + 1] = { 0 };

    for (size_t i = 0; i < ARGUMENTS; i++)
        argv[i] = arguments[i];
    if (rte_eal_init(ARGUMENTS, argv) < 0)
        decline("rte_eal_init() failed");
    if (rte_timer_subsystem_init() < 0)
        die("rte_timer_subsystem_init", 0);
    cycles_per_ns = (double)rte_get_timer_hz() / 1e9;
}

/* What is still pending is left as it is: the program ends. */
static void peer_close(void)
{
}

static void peer_init(struct peer_timer *timer)
{
    rte_timer_init(&timer->rte);
}

static uint64_t *peer_deadline(struct peer_timer *timer)
{
    return &timer->deadline;
}

static void on_timer(struct rte_timer *rte, void *arg)
{
    struct peer_timer *timer = arg;

    (void)rte;
    timer->run(timer);
}

static void peer_move(struct peer_timer *timer, uint64_t delay)
{
    rte_timer_reset(&timer->rte, (uint64_t)((double)delay * cycles_per_ns), SINGLE, rte_lcore_id(),
                    on_timer, timer);
}

static void peer_add(struct peer_timer *timer, uint64_t delay, void (*run)(struct peer_timer *))
{
    timer->run = run;
    peer_move(timer, delay);
}

static void peer_cancel(struct peer_timer *timer)
{
    rte_timer_stop(&timer->rte);
}

static void peer_update(void)
{
    /* Every reset reads the counter. */
}

static void peer_turn(bool wait)
{
    int64_t cycles = wait ? rte_timer_next_ticks() : 0;

    if (cycles > 0)
        sleep_ns((uint64_t)((double)cycles / cycles_per_ns));
    rte_timer_manage();
}

#include "loop.h"
