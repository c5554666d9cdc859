/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * hwt_timer_create() with options of any size and content: it answers -EINVAL where an option is
 * out of its range, as written down here once more, and makes a timer that works where not.
 * The options are in memory of just the size that they say, so that reading past it is seen.
 *
 * Input: the size, two bytes; then patches to the default options, each an offset, two bytes, a
 * length and as many bytes; what is left when the length is 0 is given to the timer that was made.
 */

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hwt/hwt.h>

#include "target.h"

enum { SIZE_MAX_TRIED = 512, PATCH_MAX = 8, WHEEL_MAX_TRIED = 65536, TIMEOUTS = 8 };

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_options: line %d: not so: %s\n", __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- the input ---- */

struct input {
    const uint8_t *bytes;
    size_t size;
};

static uint8_t next_byte(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->bytes++;
}

static size_t next_below(struct input *input, size_t limit)
{
    size_t high = next_byte(input);
    return (high << 8 | next_byte(input)) % limit;
}

static void patch(struct input *input, uint8_t *memory, size_t size)
{
    size_t length;
    do {
        size_t offset = next_below(input, size);
        length = next_byte(input) % (PATCH_MAX + 1);
        for (size_t i = 0; i < length; i++) {
            uint8_t byte = next_byte(input);
            if (offset + i >= sizeof(size_t) && offset + i < size)
                memory[offset + i] = byte;
        }
    } while (length > 0);
}

/* ---- what pointers may point to ---- */

static uint64_t now;

static uint64_t read_now(void *data)
{
    must(data == &now);
    return now;
}

static int run_at_once(void *data, void (*work)(void *), void *arg)
{
    must(data == &now);
    work(arg);
    return 0;
}

/* Any pointer that is not NULL becomes one that may be followed. */
static void sanitize(hwt_options *options)
{
    static const char name[] = "a name of more than 15 bytes";
    if (options->executor)
        options->executor = run_at_once;
    if (options->clock)
        options->clock = read_now;
    if (options->worker_name)
        options->worker_name = name + (uintptr_t)options->worker_name % sizeof name;
    options->executor_data = options->clock_data = &now;
}

/* ---- what the answer must be ---- */

static uint64_t rounded_up(uint64_t n)
{
    uint64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static bool all_zero(const uint8_t *bytes, size_t from, size_t to)
{
    for (; from < to; from++) {
        if (bytes[from] != 0)
            return false;
    }
    return true;
}

/* The defaults stand for zeros in a struct that nobody initialised. */
static void complete(hwt_options *o)
{
    if (o->initialised)
        return;
    o->tick_duration = o->tick_duration ? o->tick_duration : HWT_MS(100);
    o->ticks_per_wheel = o->ticks_per_wheel ? o->ticks_per_wheel : 512;
    o->clock_id = o->clock_id ? o->clock_id : CLOCK_MONOTONIC;
    o->worker_cpu = o->worker_cpu ? o->worker_cpu : -1;
}

static bool in_range(const hwt_options *o)
{
    return o->initialised <= 1 && o->tick_duration >= 1000 && o->ticks_per_wheel >= 1 &&
           o->ticks_per_wheel <= UINT32_C(1) << 30 &&
           o->tick_duration <= INT64_MAX / rounded_up(o->ticks_per_wheel) &&
           (o->flags & ~(HWT_NO_WORKER | HWT_ONE_THREAD | HWT_EXACT_CLOCK)) == 0 &&
           (!(o->clock || o->flags & HWT_ONE_THREAD || o->clock_id == CLOCK_BOOTTIME) ||
            o->flags & HWT_NO_WORKER) &&
           (o->clock_id == CLOCK_MONOTONIC || o->clock_id == CLOCK_BOOTTIME) &&
           o->worker_cpu >= -1 && o->worker_cpu < CPU_SETSIZE;
}

/* ---- a timer that was made ---- */

static unsigned ended;

static void count(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    must(arg == &ended);
    ended++;
}

static void drive(hwt_timer *timer, const hwt_options *options, struct input *input)
{
    const hwt_task task = { count, count };
    unsigned added = 0;
    if (options->flags & HWT_NO_WORKER) {
        while (input->size > 0 && added < TIMEOUTS) {
            uint64_t delay = (uint64_t)next_byte(input) << next_byte(input) % 57;
            int r = hwt_timer_new_timeout(timer, &task, &ended, delay, NULL);
            must(r == 0 || (r == -ENOBUFS && added == options->max_pending));
            added += r == 0;
        }
        now = UINT64_MAX / 2;
        must(hwt_timer_advance(timer, now) == ended);
    } else {
        int r = hwt_timer_new_timeout(timer, &task, &ended, HWT_NEVER, NULL);
        must(r == 0 || (r == -EINVAL && options->worker_cpu >= 0) || r == -EAGAIN);
        added += r == 0;
    }
    must(hwt_timer_pending(timer) == added - ended);
    hwt_timer_destroy(timer);
    must(ended == added);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input input = { bytes, size };
    const size_t known = sizeof(hwt_options), first = offsetof(hwt_options, initialised);
    size_t said = next_below(&input, SIZE_MAX_TRIED);
    size_t held = said < sizeof(size_t) ? sizeof(size_t) : said;
    uint8_t *memory = calloc(1, held);
    hwt_timer *const nothing = (hwt_timer *)&now, *timer = nothing;
    hwt_options options = HWT_OPTIONS_INIT;
    options.worker_name = NULL;

    must(memory);
    memcpy(memory, &options, held < known ? held : known);
    patch(&input, memory, held);
    memcpy(&options, memory, held < known ? held : known);
    options.size = said;
    sanitize(&options);
    memcpy(memory, &options, held < known ? held : known);

    now = 0;
    ended = 0;
    if (said == first)
        options.initialised = 1;
    complete(&options);
    bool valid =
        (said == first || said >= known) && in_range(&options) && all_zero(memory, known, said);
    if (!valid || options.ticks_per_wheel <= WHEEL_MAX_TRIED) {
        int r = hwt_timer_create((const hwt_options *)memory, &timer);
        must(r == (valid ? 0 : -EINVAL) && (timer != nothing) == valid);
    }
    if (timer != nothing)
        drive(timer, &options, &input);
    free(memory);
    return 0;
}
