/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One path of the library after the other, many times over, on a set clock and without a
 * worker, with a dump of Callgrind's counts between them: instructions are the same on a busy
 * machine and on a quiet one. Run by perf/instructions.sh; prints each path's name and how many
 * operations went into its count, in the order of the dumps.
 */

#include <hwt/hwt.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <valgrind/callgrind.h>

#define TIMEOUTS 100000

static uint64_t set_clock;
static hwt_timeout timeouts[TIMEOUTS];

static uint64_t read_set_clock(void *data)
{
    (void)data;
    return set_clock;
}

static void do_nothing(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
}

static const hwt_task task = { .run = do_nothing };

static void begin(void)
{
    CALLGRIND_ZERO_STATS;
}

static void end(const char *path, uint64_t operations)
{
    CALLGRIND_DUMP_STATS_AT(path);
    printf("%s %" PRIu64 "\n", path, operations);
}

/* NULL: this library does not know the flags. */
static hwt_timer *create(uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer;

    options.tick_duration = HWT_MS(1);
    options.flags = HWT_NO_WORKER | flags;
    options.clock = read_set_clock;
    int r = hwt_timer_create(&options, &timer);
    if (r < 0) {
        fprintf(stderr, "instructions: cannot create a timer: error %d\n", -r);
        exit(1);
    }
    return timer;
}

/* Spread over 30 wheels, 64 timeouts or so a tick apart from their neighbours in time. Made before
 * anything is counted. */
static uint64_t delays[TIMEOUTS];

static void make_delays(void)
{
    for (uint64_t i = 0; i < TIMEOUTS; i++)
        delays[i] = HWT_MS(1) + i * UINT64_C(7919) % TIMEOUTS * HWT_US(150);
}

static void add_all(hwt_timer *timer, uint64_t base)
{
    for (uint64_t i = 0; i < TIMEOUTS; i++) {
        if (hwt_timer_new_timeout_at(timer, &task, NULL, base + delays[i], &timeouts[i]) < 0)
            abort();
    }
}

static void cancel_all(void)
{
    for (uint64_t i = 0; i < TIMEOUTS; i++)
        hwt_timeout_cancel(timeouts[i]);
}

static void push_back_all(uint64_t base)
{
    for (uint64_t i = 0; i < TIMEOUTS; i++)
        hwt_timeout_reschedule_at(timeouts[i], base + delays[i]);
}

/* What was cancelled is thrown away when there is nothing else to do, a part in each of so many
 * ticks; what is read then goes at once. After that the pool gives memory back. */
#define TICKS_TO_REAP 6
#define TICKS_TO_READ 2

static void throw_away(hwt_timer *timer, uint64_t from, uint64_t ticks)
{
    for (uint64_t tick = 0; tick < ticks; tick++)
        hwt_timer_advance(timer, from + HWT_MS(tick));
}

/* The pool and the buckets get their size. */
static void warm_up(hwt_timer *timer)
{
    add_all(timer, HWT_SEC(60));
    hwt_timer_advance(timer, HWT_MS(1));
    cancel_all();
    throw_away(timer, HWT_MS(2), TICKS_TO_REAP);
}

static void measure_life(hwt_timer *timer)
{
    begin();
    add_all(timer, HWT_SEC(60));
    end("add", TIMEOUTS);
    hwt_timer_advance(timer, HWT_MS(30));
    end("drain", TIMEOUTS);
    push_back_all(HWT_SEC(120));
    end("reschedule", TIMEOUTS);
    hwt_timer_advance(timer, HWT_SEC(90)); /* every old tick comes: all are filed anew */
    end("refile", TIMEOUTS);
    cancel_all();
    end("cancel", TIMEOUTS);
    throw_away(timer, HWT_SEC(91), TICKS_TO_REAP);
    end("reap", TIMEOUTS);

    add_all(timer, HWT_SEC(120));
    cancel_all();
    end("add_cancel", TIMEOUTS);
    throw_away(timer, HWT_SEC(92), TICKS_TO_READ);
    end("drain_cancelled", TIMEOUTS);
}

static void measure_ticks(hwt_timer *timer)
{
    add_all(timer, HWT_SEC(120));
    hwt_timer_advance(timer, HWT_SEC(93));
    begin();
    uint64_t runs = hwt_timer_advance(timer, HWT_SEC(200));
    end("fire", runs);

    /* 100 due among 100000 of later rounds, in the one bucket of tick 0. */
    for (uint64_t i = 0; i < TIMEOUTS; i++)
        hwt_timer_new_timeout_at(timer, &task, NULL, HWT_SEC(300) + (1 + i % 1000) * HWT_MS(512),
                                 &timeouts[i]);
    hwt_timer_advance(timer, HWT_SEC(300));
    begin();
    hwt_timer_advance(timer, HWT_SEC(300) + HWT_MS(514));
    end("sweep", TIMEOUTS);
}

/* What was added is filed when the timer is asked what comes next; see HWT_ONE_THREAD. */
static void measure_one_thread(hwt_timer *timer)
{
    begin();
    add_all(timer, HWT_SEC(60));
    end("one_add", TIMEOUTS);
    (void)hwt_timer_next_tick(timer);
    end("one_file", TIMEOUTS);
    push_back_all(HWT_SEC(120));
    end("one_reschedule", TIMEOUTS);
    cancel_all();
    end("one_cancel", TIMEOUTS);
    throw_away(timer, HWT_SEC(1), TICKS_TO_REAP);
    end("one_reap", TIMEOUTS);
    add_all(timer, HWT_SEC(120));
    (void)hwt_timer_next_tick(timer);
    begin();
    uint64_t runs = hwt_timer_advance(timer, HWT_SEC(200));
    end("one_fire", runs);
}

/* One locked operation each: if no such number is found, the counting itself does not work. */
static void measure_control(void)
{
    static _Atomic uint64_t word;

    begin();
    for (uint64_t i = 0; i < TIMEOUTS; i++)
        atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
    end("control", TIMEOUTS);
}

int main(void)
{
    make_delays();
    measure_control();
    hwt_timer *timer = create(0);
    warm_up(timer);
    measure_life(timer);
    measure_ticks(timer);
    hwt_timer_destroy(timer);

    set_clock = 0;
    timer = create(HWT_ONE_THREAD);
    warm_up(timer);
    measure_one_thread(timer);
    hwt_timer_destroy(timer);
    return 0;
}
