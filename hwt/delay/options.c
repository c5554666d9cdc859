/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The structs that callers bring with a size: options and stats.
 *
 * The caller's struct may be shorter or longer than this build's: then a field at its end is not
 * known to one of the two. A shorter struct has all fields up to its size.
 */

#include <errno.h>

#include "hwt/delay/store.h"

/* With the flags, at least. */
#define OPTIONS_SIZE_MIN offsetof(hwt_delay_options, lease)

#define FLAGS (HWT_DELAY_CREATE | HWT_DELAY_READ_ONLY | HWT_DELAY_SALVAGE | HWT_DELAY_NO_WAIT)

static const hwt_delay_options defaults = HWT_DELAY_OPTIONS_INIT;

/* All fields end at multiples of 8 bytes, or in pairs. */
static bool is_size(size_t size, size_t least)
{
    return size >= least && size % 8 == 0;
}

int hwt_delay_options_init(hwt_delay_options *options, size_t size)
{
    if (!options || !is_size(size, OPTIONS_SIZE_MIN))
        return -EINVAL;
    memset(options, 0, size);
    memcpy(options, &defaults, size < sizeof(defaults) ? size : sizeof(defaults));
    options->size = size;
    return 0;
}

/* What this build does not know must be zero. */
static int copy(const hwt_delay_options *given, hwt_delay_options *ret_options)
{
    size_t size = given->size;
    if (!is_size(size, OPTIONS_SIZE_MIN))
        return -EINVAL;
    for (size_t i = sizeof(*given); i < size; i++) {
        if (((const char *)given)[i] != 0)
            return -EINVAL;
    }
    memcpy(ret_options, given, size < sizeof(*given) ? size : sizeof(*given));
    return 0;
}

/* What is 0, and what the caller does not know. */
static void fill_in(hwt_delay_options *options)
{
    if (options->payload_max == 0)
        options->payload_max = defaults.payload_max;
    if (options->lease == 0)
        options->lease = defaults.lease;
    if (options->leased_max == 0)
        options->leased_max = defaults.leased_max;
    if (options->memory == 0)
        options->memory = defaults.memory;
    if (options->segment_size == 0)
        options->segment_size = defaults.segment_size;
    if (options->clock_leap == 0)
        options->clock_leap = defaults.clock_leap;
}

static bool is_in_range(const hwt_delay_options *options)
{
    return (options->flags & ~FLAGS) == 0 &&
           (!(options->flags & HWT_DELAY_READ_ONLY) || options->flags == HWT_DELAY_READ_ONLY) &&
           options->payload_max <= UINT32_C(16) << 20 && options->memory >= UINT64_C(1) << 20 &&
           options->memory / 32 >= options->payload_max &&
           options->segment_size >= UINT64_C(64) << 10 &&
           options->segment_size <= UINT64_C(4) << 30 &&
           options->segment_size / 8 >= options->payload_max;
}

int hwt_delay_options_read(const hwt_delay_options *given, hwt_delay_options *ret_options)
{
    hwt_delay_options options = { 0 };
    if (given && copy(given, &options) < 0)
        return -EINVAL;
    fill_in(&options);
    if (!is_in_range(&options))
        return -EINVAL;
    *ret_options = options;
    return 0;
}

int hwt_delay_stats_init(hwt_delay_stats *stats, size_t size)
{
    if (!stats || !is_size(size, HWT_DELAY_STATS_SIZE_MIN))
        return -EINVAL;
    memset(stats, 0, size);
    stats->size = size;
    return 0;
}

int hwt_delay_stats_copy(const hwt_delay_stats *stats, hwt_delay_stats *ret_stats)
{
    size_t size = ret_stats->size;
    if (hwt_delay_stats_init(ret_stats, size) < 0)
        return -EINVAL;
    memcpy(ret_stats, stats, size < sizeof(*stats) ? size : sizeof(*stats));
    ret_stats->size = size;
    return 0;
}
