/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A program for tracers; see probes.sh. It says itself what the probes of its first timer, which
 * is on a clock that is set, must tell; of its second one, which has a worker, only the address.
 * With an argument it then runs on until it is ended.
 */

#include <hwt/hwt.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define START HWT_SEC(1000)

static uint64_t now = START;
static hwt_timer *timer;
static atomic_uint runs;

static uint64_t read_clock(void *data)
{
    return *(uint64_t *)data;
}

static void say(const char *probe, hwt_timeout timeout, uint64_t number)
{
    printf("%s 0x%" PRIxPTR " 0x%" PRIxPTR " %" PRIu64 " %" PRIu64 "\n", probe, (uintptr_t)timer,
           (uintptr_t)timeout.entry, timeout.generation, number);
}

static void say_of_timer(const char *probe, uint64_t number)
{
    printf("%s 0x%" PRIxPTR " %" PRIu64 "\n", probe, (uintptr_t)timer, number);
}

/* Due at 2.25 ms, it runs when the tick is over, at 3 ms. */
static void run_and_repeat(hwt_timeout timeout, void *arg)
{
    (void)arg;
    say("fire", timeout, HWT_US(750));
    if (hwt_timeout_repeat(timeout, HWT_MS(10)))
        say("reschedule", timeout, START + HWT_US(12250));
}

static const hwt_task repeating = { run_and_repeat, NULL };

static void count_and_repeat(hwt_timeout timeout, void *arg)
{
    (void)arg;
    runs++;
    hwt_timeout_repeat(timeout, HWT_MS(2));
}

static const hwt_task counting = { count_and_repeat, NULL };

static hwt_timeout add(uint64_t deadline)
{
    hwt_timeout timeout = { NULL, 0 };
    hwt_timer_new_timeout_at(timer, &repeating, NULL, deadline, &timeout);
    say("add", timeout, deadline);
    return timeout;
}

static int drive(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    options.flags = HWT_NO_WORKER;
    options.clock = read_clock;
    options.clock_data = &now;
    if (hwt_timer_create(&options, &timer) < 0 || hwt_timer_fd(timer) < 0)
        return 1;
    say_of_timer("park", HWT_NEVER);
    add(START + HWT_US(2250));
    hwt_timeout second = add(START + HWT_MS(15));
    if (hwt_timeout_reschedule_at(second, START + HWT_MS(20)))
        say("reschedule", second, START + HWT_MS(20));
    now = START + HWT_MS(1);
    say_of_timer("drain", 2);
    say_of_timer("park", START + HWT_MS(3));
    hwt_timer_dispatch(timer);
    now = START + HWT_MS(3);
    hwt_timer_dispatch(timer);
    say_of_timer("drain", 1); /* what has re-armed itself */
    say_of_timer("park", START + HWT_MS(13));
    if (hwt_timeout_cancel(second))
        printf("cancel 0x%" PRIxPTR " 0x%" PRIxPTR " %" PRIu64 "\n", (uintptr_t)timer,
               (uintptr_t)second.entry, second.generation);
    hwt_timer_destroy(timer);
    return 0;
}

int main(int argc, char **argv)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *ticking;
    (void)argv;
    if (drive() != 0)
        return 1;
    options.tick_duration = HWT_MS(1);
    if (hwt_timer_create(&options, &ticking) < 0 ||
        hwt_timer_new_timeout(ticking, &counting, NULL, HWT_MS(5), NULL) < 0)
        return 1;
    printf("worker 0x%" PRIxPTR "\n", (uintptr_t)ticking);
    fflush(stdout);
    while (argc > 1 || runs < 3)
        usleep(1000);
    hwt_timer_destroy(ticking);
    return 0;
}
