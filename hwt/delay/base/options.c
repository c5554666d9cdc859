/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The structs that callers bring with a size, which are options, batches and stats. See
 * base/sized.h. */

#include <errno.h>

#include "hwt/base/sized.h"
#include "hwt/delay/whole.h"

/* With the flags, at least. */
#define OPTIONS_SIZE_MIN offsetof(hwt_delay_options, lease)

/* All that the first release had. */
#define BATCH_SIZE_MIN sizeof(hwt_delay_batch)

#define FLAGS                                                                                      \
    (HWT_DELAY_CREATE | HWT_DELAY_READ_ONLY | HWT_DELAY_SALVAGE | HWT_DELAY_NO_WAIT |              \
     HWT_DELAY_STANDBY)

static const hwt_delay_options defaults = HWT_DELAY_OPTIONS_INIT;

/* Later fields have 8 bytes each, or two have. On machines of 32 bits the first ones have not. */
static bool is_size(size_t size, size_t least)
{
    return size >= least && (size - least) % 8 == 0;
}

_Static_assert((sizeof(hwt_delay_options) - OPTIONS_SIZE_MIN) % 8 == 0, "see is_size()");
_Static_assert((sizeof(hwt_delay_stats) - HWT_DELAY_STATS_SIZE_MIN) % 8 == 0, "see is_size()");

bool hwt_delay_stats_is_size(size_t size)
{
    return is_size(size, HWT_DELAY_STATS_SIZE_MIN);
}

int hwt_delay_options_init(hwt_delay_options *options, size_t size)
{
    if (!options || !is_size(size, OPTIONS_SIZE_MIN))
        return -EINVAL;
    hwt_sized_write(options, size, &defaults, sizeof(defaults));
    options->size = size;
    return 0;
}

/* Sets the fields that are 0, and those that the caller does not know. */
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
    if (given && (!is_size(given->size, OPTIONS_SIZE_MIN) ||
                  !hwt_sized_read(&options, sizeof(options), given, given->size)))
        return -EINVAL;
    fill_in(&options);
    if (!is_in_range(&options))
        return -EINVAL;
    *ret_options = options;
    return 0;
}

int hwt_delay_stats_init(hwt_delay_stats *stats, size_t size)
{
    if (!stats || !hwt_delay_stats_is_size(size))
        return -EINVAL;
    memset(stats, 0, size);
    stats->size = size;
    return 0;
}

int hwt_delay_stats_copy(const hwt_delay_stats *stats, hwt_delay_stats *ret_stats)
{
    size_t size = ret_stats->size;
    if (!hwt_delay_stats_is_size(size))
        return -EINVAL;
    hwt_sized_write(ret_stats, size, stats, sizeof(*stats));
    ret_stats->size = size;
    return 0;
}

int hwt_delay_batch_init(hwt_delay_batch *batch, size_t size)
{
    if (!batch || !is_size(size, BATCH_SIZE_MIN))
        return -EINVAL;
    memset(batch, 0, size);
    batch->size = size;
    return 0;
}

int hwt_delay_batch_read(const hwt_delay_batch *given, hwt_delay_batch *ret_batch)
{
    bool fits = is_size(given->size, BATCH_SIZE_MIN) &&
                hwt_sized_read(ret_batch, sizeof(*ret_batch), given, given->size);
    return fits ? 0 : -EINVAL;
}
