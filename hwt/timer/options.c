/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of a timer. See options.h. */

#include "hwt/timer/options.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "hwt/base/sized.h"

#define TICK_MIN HWT_US(1)
#define TICKS_PER_WHEEL_MAX ((uint32_t)1 << 30)

_Static_assert(CLOCK_MONOTONIC == 1, "HWT_OPTIONS_INIT says 1");

static const hwt_options defaults = HWT_OPTIONS_INIT;

/* A struct of a later release is longer, and begins like this one. */
static bool is_size_of_a_release(size_t size)
{
    return size == HWT_OPTIONS_SIZE_MIN || size >= sizeof(hwt_options);
}

int hwt_options_init(hwt_options *options, size_t size)
{
    if (!options || !is_size_of_a_release(size))
        return -EINVAL;
    hwt_sized_write(options, size, &defaults, sizeof(defaults));
    options->size = size;
    return 0;
}

/* The caller has zeroed the struct, and set only what differs from the defaults. */
static void fill_in(hwt_options *options)
{
    if (options->tick_duration == 0)
        options->tick_duration = defaults.tick_duration;
    if (options->ticks_per_wheel == 0)
        options->ticks_per_wheel = defaults.ticks_per_wheel;
    if (options->clock_id == 0)
        options->clock_id = defaults.clock_id;
    if (options->worker_cpu == 0)
        options->worker_cpu = defaults.worker_cpu;
    if (!options->worker_name)
        options->worker_name = defaults.worker_name;
}

static uint32_t round_up(uint32_t n)
{
    return n <= 1 ? 1 : (uint32_t)1 << (32 - __builtin_clz(n - 1));
}

static bool is_in_range(const hwt_options *options)
{
    return options->tick_duration >= TICK_MIN && options->ticks_per_wheel >= 1 &&
           options->ticks_per_wheel <= TICKS_PER_WHEEL_MAX &&
           options->tick_duration <= (uint64_t)INT64_MAX / round_up(options->ticks_per_wheel) &&
           !(options->flags & ~(HWT_NO_WORKER | HWT_ONE_THREAD | HWT_EXACT_CLOCK)) &&
           (options->flags & HWT_NO_WORKER ||
            (!options->clock && !(options->flags & HWT_ONE_THREAD) &&
             options->clock_id == CLOCK_MONOTONIC)) &&
           (options->clock_id == CLOCK_MONOTONIC || options->clock_id == CLOCK_BOOTTIME) &&
           options->worker_cpu >= -1 && options->worker_cpu < CPU_SETSIZE &&
           options->initialised <= 1;
}

int hwt_options_read(const hwt_options *given, hwt_options *ret_options)
{
    hwt_options options = defaults;
    if (given && (!is_size_of_a_release(given->size) ||
                  !hwt_sized_read(&options, sizeof(options), given, given->size)))
        return -EINVAL;
    if (!options.initialised)
        fill_in(&options);
    if (!is_in_range(&options))
        return -EINVAL;
    options.ticks_per_wheel = round_up(options.ticks_per_wheel);
    *ret_options = options;
    return 0;
}
